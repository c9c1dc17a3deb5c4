use std::time::Instant;

use proptest::prelude::*;

use super::testing::{check, recover, step};
use super::*;

#[test]
fn every_name_is_that_of_a_controller_and_no_other_is() {
    for name in CongestionConfig::NAMES {
        let config = CongestionConfig::by_name(name).unwrap();
        let lend = |borrowed: Borrowed| {
            assert_eq!(borrowed.kind.name(), name);
            Box::new(Paper::new(PaperConfig::default(), paper::Units::Packets)) as Box<dyn Controller>
        };
        let built = config.build(EncoderRange::default(), lend).name();
        assert_eq!(built, if ["bbr", "cubic"].contains(&name) { "paper" } else { name });
    }
    assert_eq!(CongestionConfig::by_name("reno"), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_is_reported_bounds_hold_and_a_good_path_is_used_again(
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        for name in CongestionConfig::NAMES.into_iter().filter(|name| !ELSEWHERE.contains(name)) {
            let range = EncoderRange { most: Bitrate::mbps(10), ..EncoderRange::default() };
            let mut controller = CongestionConfig::by_name(name).unwrap().build(range, |_| unreachable!());
            let (mut now, mut clock_us) = (Instant::now(), 1_000_000_000);
            for step in &steps {
                check(&mut *controller, &mut now, &mut clock_us, step)?;
            }
            let (window, rate) = recover(&mut *controller, now);
            prop_assert!(window >= ByteCount(2400), "{name}: {window:?}");
            // By the printed units a window never grows.
            let enough = if name == "paper-literal" { Bitrate::kbps(100) } else { Bitrate::kbps(1000) };
            prop_assert!(rate >= enough, "{name}: {rate:?}");
        }
    }
}

/// Those that noq has, and who has tests of his own for this (`lies.rs`).
const ELSEWHERE: [&str; 3] = ["bbr", "cubic", "fpv2"];
