use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

/// More than any link that this is for.
const MAX_WINDOW: ByteCount = ByteCount(256 << 20);
const MAX_RATE: Bitrate = Bitrate::mbps(1000);

#[test]
fn every_name_is_that_of_a_controller_and_no_other_is() {
    for name in CongestionConfig::NAMES {
        let config = CongestionConfig::by_name(name).unwrap();
        assert_eq!(config.build(EncoderRange::default()).name(), name);
    }
    assert_eq!(CongestionConfig::by_name("reno"), None);
}

/// What a peer, a network and a clock can do to a controller.
#[derive(Debug, Clone)]
enum Step {
    Sent {
        after_us: u64,
        bytes: u64,
    },
    /// (age when it was sent, delay or lost, bytes, marked), microseconds; the sender's clock may have jumped.
    Reported {
        after_us: u64,
        packets: Vec<(i64, Option<i64>, u64, bool)>,
        jump_us: i64,
        in_flight: u64,
    },
    Polled {
        after_us: u64,
        in_flight: u64,
        queued: u64,
    },
    Rtt(u64),
    Moved,
}

fn time() -> impl Strategy<Value = u64> {
    prop_oneof![0..50_000u64, 0..2_000_000u64, Just(3_600_000_000)]
}

fn clock() -> impl Strategy<Value = i64> {
    prop_oneof![0..300_000i64, -5_000_000..5_000_000i64, Just(i64::MIN / 2), Just(i64::MAX / 2), any::<i64>()]
}

fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![0..1500u64, Just(u64::from(u16::MAX)), Just(1 << 40)]
}

fn step() -> impl Strategy<Value = Step> {
    let packet = (clock(), proptest::option::weighted(0.8, clock()), bytes(), any::<bool>());
    let reported = (time(), proptest::collection::vec(packet, 0..20), prop_oneof![Just(0i64), clock()], bytes());
    prop_oneof![
        4 => (time(), bytes()).prop_map(|(after_us, bytes)| Step::Sent { after_us, bytes }),
        6 => reported.prop_map(|(after_us, packets, jump_us, in_flight)| Step::Reported {
            after_us,
            packets,
            jump_us,
            in_flight
        }),
        2 => (time(), bytes(), bytes()).prop_map(|(after_us, in_flight, queued)| Step::Polled {
            after_us,
            in_flight,
            queued
        }),
        1 => time().prop_map(Step::Rtt),
        1 => Just(Step::Moved),
    ]
}

fn apply(controller: &mut dyn Controller, now: &mut Instant, clock_us: &mut u64, step: &Step) {
    let mut pass = |after_us: u64| {
        *now += Duration::from_micros(after_us);
        *clock_us = clock_us.saturating_add(after_us);
    };
    match step {
        Step::Sent { after_us, bytes } => {
            pass(*after_us);
            controller.on_sent(*now, SentPacket { sent_us: *clock_us, bytes: ByteCount(*bytes), urgent: true });
        }
        Step::Reported { after_us, packets, jump_us, in_flight } => {
            pass(*after_us);
            let packets: Vec<_> = packets
                .iter()
                .map(|(age, delay, bytes, ce)| {
                    let sent_us = clock_us.saturating_add_signed(age.saturating_neg());
                    let arrived_us = delay.map(|delay| sent_us.saturating_add_signed(delay));
                    PacketReport { sent_us, bytes: ByteCount(*bytes), arrived_us, ce: *ce, leads: *ce }
                })
                .collect();
            let load = Load { in_flight: ByteCount(*in_flight), ..Load::default() };
            let now_us = clock_us.saturating_add_signed(*jump_us);
            controller.on_reports(*now, Reports { now_us, packets: &packets, load });
        }
        Step::Polled { after_us, in_flight, queued } => {
            pass(*after_us);
            controller.poll(*now, Load { in_flight: ByteCount(*in_flight), queued: ByteCount(*queued) });
        }
        Step::Rtt(us) => controller.on_rtt(*now, Duration::from_micros(*us)),
        Step::Moved => controller.on_path_change(*now),
    }
}

/// After anything, a quiet path of 50 ms for two minutes, as fast as the window lets.
fn recover(controller: &mut dyn Controller, mut now: Instant) -> (ByteCount, Bitrate) {
    // Times of a peer that has started anew.
    controller.on_path_change(now);
    let began = now;
    while now < began + Duration::from_secs(120) {
        let sent_us = 1_000_000_000 + now.duration_since(began).as_micros() as u64;
        let packets = (controller.window(now).0 / 1240).clamp(1, 40);
        for _ in 0..packets {
            controller.on_sent(now, SentPacket { sent_us, bytes: ByteCount(1240), urgent: true });
        }
        let load = Load { in_flight: ByteCount(packets * 1240), ..Load::default() };
        controller.poll(now, load);
        now += Duration::from_millis(50);
        let report = PacketReport {
            sent_us,
            bytes: ByteCount(1240),
            arrived_us: Some(sent_us + 25_000),
            ce: false,
            leads: false,
        };
        let reports = vec![report; packets as usize];
        controller.on_reports(now, Reports { now_us: sent_us + 50_000, packets: &reports, load });
        controller.poll(now, Load::default());
    }
    (controller.window(now), controller.target_rate())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_is_reported_bounds_hold_and_a_good_path_is_used_again(
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        for name in TESTED {
            let range = EncoderRange { least: Bitrate::kbps(200), most: Bitrate::mbps(10), response: 1.0 };
            let mut controller = CongestionConfig::by_name(name).unwrap().build(range);
            let (mut now, mut clock_us) = (Instant::now(), 1_000_000_000);
            for step in &steps {
                apply(&mut *controller, &mut now, &mut clock_us, step);
                prop_assert!(controller.window(now) <= MAX_WINDOW, "{name}: {:?}", controller.window(now));
                prop_assert!(controller.target_rate() <= MAX_RATE, "{name}: {:?}", controller.target_rate());
                prop_assert!(controller.capacity() <= MAX_RATE, "{name}: {:?}", controller.capacity());
                prop_assert!(controller.pacing_rate(now) > Bitrate::ZERO, "{name}");
                let _ = (controller.queue_delay(), controller.may_encode(now, Load::default()));
            }
            let (window, rate) = recover(&mut *controller, now);
            prop_assert!(window >= ByteCount(2400), "{name}: {window:?}");
            // By the printed units a window never grows.
            let enough = if name == "paper-literal" { Bitrate::kbps(100) } else { Bitrate::kbps(1000) };
            prop_assert!(rate >= enough, "{name}: {rate:?}");
        }
    }
}

/// Those of which this is known.
const TESTED: [&str; 3] = ["paper", "paper-literal", "scream"];
