//! Exact times over changes of samples, seen through a path.

use super::*;
use crate::path::tests::{epoch, ms};
use crate::trace::List;
use crate::{DropReason, Path, PathConfig, Queue};

fn sample(lasts_ms: u64, rate_bps: u64) -> Sample {
    Sample { lasts: ms(lasts_ms), rate_bps: Some(rate_bps), delay: None, loss: None, ccq: None }
}

fn play(start: Instant, samples: &[Sample], ccq: CcqMode) -> Path<u32> {
    let mut path = Path::new(PathConfig { queue: Queue::bytes(1 << 21), ..PathConfig::default() }, 0);
    let source = Box::new(List::new(samples.to_vec()));
    path.play_samples(start, start, Samples { source, ccq });
    path
}

/// When everything came out, in microseconds; calls at most so often.
fn drain(path: &mut Path<u32>, start: Instant) -> Vec<(u32, u64)> {
    let mut out = Vec::new();
    for _ in 0..10_000 {
        let Some(at) = path.next_delivery() else { break };
        while let Some(delivered) = path.pop_packet(at) {
            assert_eq!(delivered.due, at, "announced");
            out.push((delivered.packet.payload, (at - start).as_micros() as u64));
        }
    }
    out
}

#[test]
fn a_packet_gets_of_each_second_what_that_second_carries() {
    let start = epoch();
    let mut path = play(start, &[sample(1000, 8_000), sample(1000, 0), sample(1000, 16_000)], CcqMode::default());
    // 12,000 bits: 8,000 in the first second, none in the second, 4,000 in a quarter of the third.
    path.push(start, 1500, 1).unwrap();
    // 12,000 bits in the next three quarters, to the end of the cycle exactly; then again 8,000, a pause, and 4,000.
    path.push(start, 1500, 2).unwrap();
    path.push(start, 1500, 3).unwrap();
    assert_eq!(drain(&mut path, start), [(1, 2_250_000), (2, 3_000_000), (3, 5_250_000)]);
}

#[test]
fn how_often_it_is_polled_changes_nothing() {
    let start = epoch();
    let samples: Vec<Sample> = (1..30).map(|n| sample(7 + n % 5, n * 997_331 % 3_000_000)).collect();
    let run = |poll_every: u64| {
        let mut path = play(start, &samples, CcqMode::default());
        let mut out = Vec::new();
        for t in 0..3_000 {
            if t % 3 == 0 {
                let _ = path.push(start + ms(t), 100 + (t as usize * 7) % 1400, t as u32);
            }
            if t % poll_every == 0 {
                out.extend(std::iter::from_fn(|| path.pop_packet(start + ms(t))).map(|d| (d.number, d.due - start)));
            }
        }
        out.extend(std::iter::from_fn(|| path.pop_packet(start + ms(9_000))).map(|d| (d.number, d.due - start)));
        out
    };
    assert_eq!(run(1), run(997));
}

#[test]
fn delay_and_loss_are_those_of_the_moment_at_which_a_packet_is_sent() {
    let start = epoch();
    let first = Sample { delay: Some(ms(50)), loss: Some(0.0), ..sample(100, 12_000_000) };
    let second = Sample { delay: Some(ms(10)), loss: Some(1.0), ..first };
    let third = Sample { loss: Some(0.0), ..second };
    let mut path = play(start, &[first, second, third], CcqMode::default());
    path.record_drops(true);
    path.push(start + ms(99), 1500, 1).unwrap(); // last bit at 100, the very end of the first sample
    path.push(start + ms(199), 1499, 2).unwrap(); // last bit before 200: in the second sample
    path.push(start + ms(199), 1500, 3).unwrap(); // last bit after it
    assert_eq!(drain(&mut path, start), [(1, 150_000), (3, 210_999)]);
    let drops: Vec<_> = std::iter::from_fn(|| path.pop_drop()).map(|d| (d.payload, d.reason)).collect();
    assert_eq!(drops, [(2, DropReason::AirLoss)]);
}

#[test]
fn ccq_takes_rate_or_packets() {
    let start = epoch();
    let samples = [Sample { ccq: Some(0.5), ..sample(1000, 24_000_000) }];
    let delivered = |ccq| {
        let mut path = play(start, &samples, ccq);
        (0..1_000).for_each(|n| path.push(start, 1500, n).unwrap());
        let out = std::iter::from_fn(|| path.pop(start + ms(200))).count();
        (path.stats().served.packets, out)
    };
    // Half of 400 packets are lost, or half as many are sent, of which a 256th is lost.
    let (sent, out) = delivered(CcqMode::Loss { error_factor: 1.0 });
    assert_eq!(sent, 400);
    assert!((160..240).contains(&out), "{out}");
    let (sent, out) = delivered(CcqMode::MacArq { retries: 7 });
    assert_eq!(sent, 200);
    assert!((194..=200).contains(&out), "{out}");
}

#[test]
fn while_nothing_is_inside_nothing_needs_a_call_and_whole_cycles_are_skipped() {
    let start = epoch();
    let mut path = play(start, &[sample(300, 1_000_000), sample(700, 2_000_000)], CcqMode::default());
    assert_eq!(path.next_delivery(), None);
    let at = start + Duration::from_secs(20 * 365 * 86_400) + ms(250);
    // 50 ms at 1 Mbit/s, the rest at 2: 50,000 + 50,000 bits.
    path.push(at, 12_500, 1).unwrap();
    assert_eq!(path.rate(), Some(1_000_000));
    assert_eq!(path.next_delivery(), Some(at + ms(50)));
    assert_eq!(path.pop(at + ms(50)), None);
    assert_eq!(path.next_delivery(), Some(at + ms(75)));
    assert_eq!(path.pop(at + ms(75)), Some(1));
}

#[test]
fn before_the_start_the_path_is_as_configured() {
    let start = epoch();
    let mut path = Path::new(PathConfig { rate_bps: Some(12_000_000), ..PathConfig::default() }, 0);
    let source = Box::new(List::new(vec![sample(1000, 24_000_000)]));
    path.play_samples(start, start + ms(1), Samples { source, ccq: CcqMode::default() });
    path.push(start, 3000, 1u32).unwrap();
    assert_eq!(drain(&mut path, start), [(1, 1_500)]);
}

#[test]
fn samples_that_fail_say_so_and_stop_the_link() {
    let start = epoch();
    for samples in [vec![], vec![sample(0, 1)], vec![sample(1, 12_000_000), sample(0, 1)]] {
        let mut path = play(start, &samples, CcqMode::default());
        path.pop(start + ms(5));
        assert!(path.trace_fault().is_some());
        path.push(start + ms(5), 1500, 1).unwrap();
        assert_eq!(path.next_delivery(), None);
    }
}
