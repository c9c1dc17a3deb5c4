use proptest::prelude::*;

use super::*;
use crate::mavlink::MessageId;
use crate::mavlink::testkit::{epoch, known};

fn queue(queued: u64, oldest_ms: u64, dropped: u64) -> QueueState {
    QueueState {
        queued: ByteCount(queued),
        limit: ByteCount(1000),
        oldest: Duration::from_millis(oldest_ms),
        max_age: Duration::from_millis(1000),
        dropped,
    }
}

#[test]
fn frames_are_what_pymavlink_makes_of_the_same_values() {
    let status = RadioStatus { rssi: 150, remrssi: 160, txbuf: 78, noise: 40, remnoise: 50, rxerrors: 3, fixed: 4 };
    for version in [Version::V1, Version::V2] {
        let frame = status.frame(version, 13);
        assert_eq!(frame.source(), Address::new(51, 68));
        assert_eq!((frame.message_id(), frame.seq(), frame.version()), (MessageId(109), 13, version));
        let theirs = known("RADIO_STATUS", if version == Version::V1 { 1 } else { 2 });
        assert_eq!(frame.payload(), theirs.payload());
        assert_eq!(Frame::parse(frame.bytes()).unwrap().0, frame);
    }
}

#[test]
fn a_zero_remote_signal_is_never_sent_and_txbuf_is_a_percentage() {
    let status = RadioStatus { rssi: 0, remrssi: 0, txbuf: 255, noise: 0, remnoise: 0, rxerrors: 0, fixed: 0 };
    for version in [Version::V1, Version::V2] {
        let frame = status.frame(version, 0);
        assert_eq!(frame.field::<3>(4), [0, 1, 100]);
    }
    // Trailing zeros are cut in v2 only.
    assert_eq!(status.frame(Version::V1, 0).payload().len(), 9);
    assert_eq!(status.frame(Version::V2, 0).payload().len(), 7);
}

#[test]
fn each_request_means_the_same_to_both_autopilots() {
    // Bands of the table above: (ArduPilot, PX4) as signs, strong as 2.
    let bands = |txbuf: u8| {
        let ardupilot = match txbuf {
            0..20 => -2,
            20..50 => -1,
            50..=90 => 0,
            91..=95 => 1,
            _ => 2,
        };
        let px4 = match txbuf {
            0..25 => -2,
            25..35 => -1,
            35..=50 => 0,
            _ => 1,
        };
        (ardupilot, px4)
    };
    let all = [Pace::Brake, Pace::Slow, Pace::Hold, Pace::Ease, Pace::Faster];
    assert_eq!(all.map(|pace| bands(pace.txbuf())), [(-2, -2), (-1, -1), (0, 0), (1, 1), (2, 1)]);
}

#[test]
fn thresholds_and_hysteresis_are_exact() {
    let mut estimator = TxbufEstimator::new();
    assert_eq!(estimator.update(&queue(49, 0, 0)), Pace::Faster);
    assert_eq!(estimator.update(&queue(50, 0, 0)), Pace::Ease);
    assert_eq!(estimator.update(&queue(349, 0, 0)), Pace::Hold);
    assert_eq!(estimator.update(&queue(350, 0, 0)), Pace::Slow);
    assert_eq!(estimator.update(&queue(211, 0, 0)), Pace::Slow);
    assert_eq!(estimator.update(&queue(209, 0, 0)), Pace::Hold);
    assert_eq!(estimator.update(&queue(600, 0, 0)), Pace::Brake);
    assert_eq!(estimator.update(&queue(0, 0, 0)), Pace::Faster);
    // Age counts as bytes do, and a drop is full load.
    assert_eq!(estimator.update(&queue(0, 600, 0)), Pace::Brake);
    assert_eq!(estimator.update(&queue(0, 0, 0)), Pace::Faster);
    assert_eq!(estimator.update(&queue(0, 0, 1)), Pace::Brake);
    assert_eq!(estimator.update(&queue(0, 0, 1)), Pace::Faster);
}

#[test]
fn a_queue_without_room_is_full() {
    let none = QueueState { limit: ByteCount::ZERO, max_age: Duration::ZERO, ..queue(0, 0, 0) };
    assert_eq!(none.load(), 0.0);
    assert_eq!(QueueState { queued: ByteCount(1), ..none }.load(), 1.0);
}

#[test]
fn reports_hurry_while_braking_and_for_a_minute_after() {
    let start = epoch();
    let mut reporter = RadioReporter::new(Version::V2);
    let mut sent = Vec::new();
    // 2 s of overload from 5 s on; 100 s in all, polled every 10 ms.
    for tick in 0..10_000u64 {
        let now = start + Duration::from_millis(tick * 10);
        let queued = if (500..700).contains(&tick) { 900 } else { 0 };
        if let Some(frame) = reporter.poll_report(now, &queue(queued, 0, 0), 200, 0) {
            sent.push((tick * 10, frame.seq(), frame.field::<3>(4)));
        }
    }
    let between = |from: u64, to: u64| sent.iter().filter(|(at, ..)| (from..to).contains(at)).count();
    assert_eq!(between(0, 5_000), 5);
    assert_eq!(between(5_000, 7_000), 8);
    assert_eq!(between(7_000, 66_000), 4 * 59);
    assert!(between(68_000, 100_000) <= 33);
    assert!(sent.iter().zip(0u8..=255).all(|((_, seq, _), expected)| *seq == expected));
    assert!(sent.iter().all(|(at, _, value)| *value == [200, 1, if (5_000..7_000).contains(at) { 10 } else { 100 }]));
}

proptest! {
    #[test]
    fn requests_follow_the_load(loads in prop::collection::vec((0u64..1500, 0u64..1500), 1..50)) {
        let mut estimator = TxbufEstimator::new();
        for (queued, oldest) in loads {
            let state = queue(queued, oldest, 0);
            let before = estimator.pace();
            let pace = estimator.update(&state);
            let load = state.load();
            // Never too kind: the autopilot brakes before anything is dropped.
            prop_assert!(pace >= Pace::for_load(load, 1.0));
            // Never harsher than what hysteresis explains.
            prop_assert!(pace <= Pace::for_load(load, RELEASE));
            // Settled: the same load again changes nothing.
            prop_assert_eq!(estimator.update(&state), pace);
            // It moves up only because the load calls for it, down only because it fell.
            prop_assert!(pace <= before || pace == Pace::for_load(load, 1.0));
            prop_assert!(pace >= before || pace == Pace::for_load(load, RELEASE));
        }
    }

    #[test]
    fn small_ripple_causes_no_chatter(base in 0.0f64..1.0) {
        // The load swings by a fifth around any level: the request may settle, then it stays.
        let mut estimator = TxbufEstimator::new();
        let state = |load: f64| queue((load.min(1.0) * 1000.0) as u64, 0, 0);
        estimator.update(&state(base * 1.1));
        let settled = estimator.pace();
        for _ in 0..10 {
            prop_assert_eq!(estimator.update(&state(base * 0.9)), settled);
            prop_assert_eq!(estimator.update(&state(base * 1.1)), settled);
        }
    }

    #[test]
    fn every_value_makes_a_good_frame(
        (rssi, remrssi, txbuf, noise) in any::<(u8, u8, u8, u8)>(), remnoise: u8, rxerrors: u16, fixed: u16, seq: u8
    ) {
        let status = RadioStatus { rssi, remrssi, txbuf, noise, remnoise, rxerrors, fixed };
        for version in [Version::V1, Version::V2] {
            let frame = status.frame(version, seq);
            prop_assert_eq!(Frame::parse(frame.bytes()).unwrap().1, frame.bytes().len());
            prop_assert_ne!(frame.field::<1>(5)[0], 0);
        }
    }
}
