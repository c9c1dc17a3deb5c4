//! Whatever happens, in whatever order.

use aquila_emu::Outage;
use aquila_lab::frames;
use aquila_lab::pair::{Pair, Source};
use aquila_proto::mavlink::{Address, Frame, MessageId, Version};
use aquila_proto::{Bitrate, Side};
use proptest::prelude::*;

use crate::ms;
use crate::one_link::*;

/// A deadline that does nothing but set the next one keeps a processor busy: none does, whatever waits for whatever.
#[test]
fn no_deadline_spins() {
    let timeouts = |set_up: &dyn Fn(&mut Pair)| {
        let mut pair = connected(16, 0.0);
        set_up(&mut pair);
        let before = pair.timeouts;
        pair.run_until(ms(10_500));
        (pair.timeouts - before) / 10
    };
    let idle = timeouts(&|_| ());
    let video_on_a_slow_link = timeouts(&|pair| {
        pair.set_up_rate(Bitrate::kbps(500));
        video(pair, 8, ms(11_000));
    });
    let everything_in_an_outage = timeouts(&|pair| {
        video(pair, 8, ms(11_000));
        commands(pair, ms(11_000));
        pair.add_source(Source::Parameters { every: ms(1) }, ms(11_000));
        pair.write_bulk(&[0; 50_000]);
        pair.begin_outage(Outage::Drop);
    });
    let bulk_that_nobody_reads = timeouts(&|pair| {
        for _ in 0..400 {
            pair.write_bulk(&[0; 50_000]);
            let later = pair.elapsed() + ms(10);
            pair.run_until(later);
        }
    });
    eprintln!(
        "timeouts a second, both ends: idle {idle}, video {video_on_a_slow_link}, outage {everything_in_an_outage}, bulk \
         {bulk_that_nobody_reads}"
    );
    assert!(
        idle < 100 && video_on_a_slow_link < 1_000 && everything_in_an_outage < 500 && bulk_that_nobody_reads < 200
    );
}

/// Something to do to a pair.
#[derive(Debug, Clone)]
enum Op {
    Wait(u16),
    Command(bool),
    Setpoint(u16),
    State(u8),
    Parameter(bool, u16),
    Signed(bool, u8),
    Video(u16),
    Outage(bool),
    Return(bool),
    Move(u8),
    Restart(bool),
    Rate(u16),
    Garbage(bool, Vec<u8>),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1u16..300).prop_map(Op::Wait),
        3 => any::<bool>().prop_map(Op::Command),
        2 => any::<u16>().prop_map(Op::Setpoint),
        2 => any::<u8>().prop_map(Op::State),
        2 => (any::<bool>(), any::<u16>()).prop_map(|(air, n)| Op::Parameter(air, n)),
        2 => (any::<bool>(), any::<u8>()).prop_map(|(air, kind)| Op::Signed(air, kind)),
        3 => (20u16..20_000).prop_map(Op::Video),
        1 => any::<bool>().prop_map(Op::Outage),
        2 => any::<bool>().prop_map(Op::Return),
        1 => any::<u8>().prop_map(Op::Move),
        1 => any::<bool>().prop_map(Op::Restart),
        1 => (50u16..10_000).prop_map(Op::Rate),
        1 => (any::<bool>(), proptest::collection::vec(any::<u8>(), 0..1300)).prop_map(|(to, bytes)| Op::Garbage(to, bytes)),
    ]
}

/// `PROPTEST_CASES` overrides the number that an ordinary run takes.
fn cases(default: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(default)
}

fn side(air: bool) -> Side {
    if air { Side::Air } else { Side::Ground }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(60), ..ProptestConfig::default() })]

    /// Whatever is done to a pair: no panic, no command twice, queues bounded, and once the link is good again both ends
    /// find each other and commands pass.
    #[test]
    fn any_sequence_of_events_leaves_a_working_link(seed in 0u64..1000, ops in proptest::collection::vec(op(), 1..80)) {
        let mut pair = Pair::new(config(seed, 0.01));
        pair.connect();
        let mut frames_made = 0u16;
        for op in ops {
            match op {
                Op::Wait(time) => {
                    let until = pair.elapsed() + ms(time.into());
                    pair.run_until(until);
                }
                Op::Command(air) => pair.send_command(side(air)),
                Op::Setpoint(n) => pair.send_frame(Side::Ground, &frames::manual_control(n.into())),
                Op::State(n) => {
                    let frame = Frame::build(Version::V2, n, Address::new(1, 1), MessageId(30), &[n; 28]).unwrap();
                    pair.send_frame(Side::Air, &frame);
                }
                Op::Parameter(air, n) => pair.send_frame(side(air), &frames::param_value(side(air), n)),
                Op::Signed(air, kind) => {
                    frames_made = frames_made.wrapping_add(1);
                    let frame = match kind % 3 {
                        0 => frames::manual_control(frames_made.into()),
                        1 => frames::param_value(side(air), frames_made),
                        _ => Frame::build(Version::V2, 0, Address::new(1, 1), MessageId(30), &[1; 28]).unwrap(),
                    };
                    pair.send_frame(side(air), &frames::signed(&frame, frames_made.into()));
                }
                Op::Video(len) => {
                    frames_made = frames_made.wrapping_add(1);
                    pair.send_video(&frames::rtp(frames_made, frames_made.into(), len.into(), true));
                }
                Op::Outage(hold) => pair.begin_outage(if hold { Outage::Hold } else { Outage::Drop }),
                Op::Return(event) => pair.end_outage(event),
                Op::Move(n) => pair.move_air(&format!("192.0.2.{n}:{}", 1000 + u16::from(n)), n % 2 == 0),
                Op::Restart(air) => pair.restart(side(air)),
                Op::Rate(kbps) => pair.set_up_rate(Bitrate::kbps(kbps.into())),
                Op::Garbage(to, bytes) => pair.inject(side(to), "192.0.2.66:666", &bytes),
            }
            for air in [true, false] {
                let stats = pair.stats(side(air));
                prop_assert!(stats.classes[0].queued + stats.unacknowledged <= 1024);
                prop_assert!(stats.classes[2].queued_bytes <= 4 << 20);
            }
        }
        pair.end_outage(false);
        pair.set_up_rate(Bitrate::mbps(4));
        let settled = pair.elapsed() + ms(12_000);
        pair.run_until(settled);
        let before = pair.deliveries.len();
        pair.send_command(Side::Air);
        pair.send_command(Side::Ground);
        let after = pair.elapsed() + ms(1_500);
        pair.run_until(after);
        prop_assert_eq!(pair.deliveries.len(), before + 2, "commands pass again; {:?}", pair.states.last());
        let mut seen = std::collections::BTreeSet::new();
        for delivery in &pair.deliveries {
            prop_assert!(seen.insert((delivery.to.name(), delivery.index)), "{:?} twice", delivery);
        }
    }
}
