//! Exact boundaries of a path.

use super::*;
use crate::stats::Tally;

/// An instant to count from; its value does not matter.
#[allow(clippy::disallowed_methods, reason = "an `Instant` cannot be made from nothing")]
pub(crate) fn epoch() -> Instant {
    Instant::now()
}

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

fn ns(n: u64) -> Duration {
    Duration::from_nanos(n)
}

/// 4 Mbit/s: 1,000 bytes take 2 ms.
fn config() -> PathConfig {
    PathConfig { rate_bps: Some(4_000_000), delay: ms(30), queue: Queue::bytes(3_000), ..PathConfig::default() }
}

fn drain<T: Payload>(path: &mut Path<T>) -> Vec<(Instant, T)> {
    let mut out = Vec::new();
    while let Some(at) = path.next_delivery() {
        while let Some(packet) = path.pop(at) {
            out.push((at, packet));
        }
    }
    out
}

#[test]
fn one_packet_takes_serialisation_plus_delay() {
    let start = epoch();
    let mut path = Path::new(config(), 0);
    path.push(start, 1_000, 'a').unwrap();
    assert_eq!(path.next_delivery(), Some(start + ms(32)));
    assert_eq!(path.pop(start + ms(32) - ns(1)), None);
    assert_eq!(path.pop(start + ms(32)), Some('a'));
    assert_eq!(path.next_delivery(), None);
}

#[test]
fn without_a_rate_only_the_delay_counts() {
    let start = epoch();
    let mut path = Path::new(PathConfig { rate_bps: None, queue: Queue::bytes(0), ..config() }, 0);
    for n in 0..100 {
        path.push(start, 1_500, n).unwrap();
    }
    let out = drain(&mut path);
    assert_eq!(out.len(), 100);
    assert!(out.iter().all(|(at, _)| *at == start + ms(30)));
}

#[test]
fn the_queue_bounds_what_waits_behind_the_packet_in_service() {
    let start = epoch();
    let mut path = Path::new(config(), 0);
    path.push(start, 9_000, 0).unwrap(); // in service at once, larger than the queue
    path.push(start, 1_000, 1).unwrap();
    path.push(start, 2_000, 2).unwrap(); // exactly full
    assert_eq!(path.stats().queue_bytes, 3_000);
    assert_eq!(path.push(start, 1, 3), Err(DropReason::QueueFull));
    // A packet's bytes are free at the instant its service starts.
    assert_eq!(path.push(start + ms(18) - ns(1), 1_000, 4), Err(DropReason::QueueFull));
    path.push(start + ms(18), 1_000, 5).unwrap();
    assert_eq!(drain(&mut path).iter().map(|(_, n)| *n).collect::<Vec<_>>(), [0, 1, 2, 5]);
}

#[test]
fn a_queue_of_nothing_serves_one_packet_at_a_time() {
    let start = epoch();
    let mut path = Path::new(PathConfig { queue: Queue::bytes(0), ..config() }, 0);
    path.push(start, 1_000, 'a').unwrap();
    assert_eq!(path.push(start + ms(2) - ns(1), 1_000, 'b'), Err(DropReason::QueueFull));
    path.push(start + ms(2), 1_000, 'c').unwrap();
}

#[test]
fn of_what_leaves_the_bottleneck_within_a_time_the_first_is_delivered() {
    let start = epoch();
    let mut path: Path<u64> = Path::new(PathConfig { delay: ms(5), ..PathConfig::default() }, 1);
    path.set_thinned(start, ms(25));
    for at in [0, 1, 24, 25, 40, 60] {
        path.push(start + ms(at), 100, at).unwrap();
    }
    let came: Vec<u64> = drain(&mut path).into_iter().map(|(_, at)| at).collect();
    assert_eq!(came, [0, 25, 60]);
    assert_eq!((path.stats().dropped.thinned.packets, path.stats().dropped.behind_bottleneck().bytes), (3, 300));
    path.set_thinned(start + ms(100), Duration::ZERO);
    (0..3).for_each(|_| path.push(start + ms(100), 100, 9).unwrap());
    assert_eq!(drain(&mut path).len(), 3);
}

#[test]
fn a_change_of_rate_carries_the_remaining_bits_over() {
    let start = epoch();
    let mut path = Path::new(config(), 0);
    path.push(start, 1_000, 'a').unwrap();
    // 1 ms at 4 Mbit/s sends 4,000 of 8,000 bits; the rest takes 4 ms at 1 Mbit/s.
    path.set_rate(start + ms(1), Some(1_000_000));
    assert_eq!(path.next_delivery(), Some(start + ms(1 + 4 + 30)));
    // Of these 2 ms later 2,000 are left; they leave at once when the limit goes.
    path.set_rate(start + ms(3), None);
    assert_eq!(path.next_delivery(), Some(start + ms(3 + 30)));
}

#[test]
fn rounding_does_not_add_up() {
    let start = epoch();
    // 8 bits at 3 bit/s take 2.6 s: three packets exactly 8 s.
    let mut path = Path::new(PathConfig { rate_bps: Some(3), delay: ms(0), queue: Queue::bytes(10), ..config() }, 0);
    for n in 0..3 {
        path.push(start, 1, n).unwrap();
    }
    let times: Vec<Duration> = drain(&mut path).iter().map(|(at, _)| *at - start).collect();
    assert_eq!(times, [ns(2_666_666_667), ns(5_333_333_334), Duration::from_secs(8)]);
}

#[test]
fn catching_up_in_one_call_or_in_many_is_the_same() {
    let start = epoch();
    let run = |poll_every: u64| {
        let mut path = Path::new(PathConfig { rate_bps: Some(1_234_567), queue: Queue::bytes(100_000), ..config() }, 0);
        for n in 0..50 {
            path.push(start, 700 + n, n).unwrap();
        }
        let mut out = Vec::new();
        for t in (0..1_000).step_by(poll_every as usize) {
            path.set_loss(Loss::NONE);
            path.set_delay(start + ms(t), ms(30));
            while let Some(at) = path.next_delivery().filter(|at| *at <= start + ms(t)) {
                out.push((at, path.pop(start + ms(t))));
            }
        }
        out
    };
    assert_eq!(run(1), run(199));
}

#[test]
fn a_rate_of_zero_stalls_and_resumes() {
    let start = epoch();
    let mut path = Path::new(config(), 0);
    path.push(start, 1_000, 'a').unwrap();
    path.set_rate(start + ms(1), Some(0));
    assert_eq!(path.next_delivery(), None);
    assert_eq!(path.queue_delay(start + ms(5)), Duration::MAX);
    path.set_rate(start + ms(101), Some(4_000_000));
    assert_eq!(path.next_delivery(), Some(start + ms(102 + 30)));
}

#[test]
fn queue_delay_is_the_time_until_service_starts() {
    let start = epoch();
    let mut path = Path::new(config(), 0);
    assert_eq!(path.queue_delay(start), Duration::ZERO);
    path.push(start, 1_000, 'a').unwrap();
    path.push(start, 1_000, 'b').unwrap();
    assert_eq!(path.queue_delay(start), ms(4));
    assert_eq!(path.queue_delay(start + us(500)), us(3_500));
    assert_eq!(path.queue_delay(start + ms(40)), Duration::ZERO);
}

#[test]
fn hold_pauses_the_server_and_fills_the_queue() {
    let start = epoch();
    let mut path = Path::new(config(), 0);
    path.push(start, 1_000, 0).unwrap();
    path.begin_outage(start + ms(1), Outage::Hold);
    for n in 1..=3 {
        path.push(start + ms(10), 1_000, n).unwrap();
    }
    assert_eq!(path.push(start + ms(10), 1_000, 4), Err(DropReason::QueueFull));
    assert_eq!(path.next_delivery(), None);
    path.end_outage(start + ms(1_201));
    let out = drain(&mut path);
    assert_eq!(out.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(out[0].0, start + ms(1_202 + 30), "half of it was sent before");
}

#[test]
fn drop_loses_what_enters_and_what_is_served() {
    let start = epoch();
    let mut path = Path::new(config(), 0);
    path.push(start, 1_000, 0).unwrap(); // sent before
    path.push(start, 1_000, 1).unwrap(); // in service from 2 to 4 ms: begins before, ends inside
    path.push(start, 1_000, 2).unwrap(); // 4 to 6 ms: begins inside, ends after
    path.push(start, 1_000, 3).unwrap(); // 6 to 8 ms: after
    path.begin_outage(start + ms(3), Outage::Drop);
    assert_eq!(path.next_delivery(), Some(start + ms(32)), "what has left still arrives");
    assert_eq!(path.push(start + us(3_500), 1_000, 4), Err(DropReason::Outage));
    path.end_outage(start + ms(5));
    assert_eq!(path.pop(start + ms(32)), Some(0));
    assert_eq!(path.next_delivery(), Some(start + ms(38)));
    assert_eq!(path.pop(start + ms(38)), Some(3));
    assert_eq!(path.stats().dropped.outage.packets, 3);
    assert_eq!(path.stats().dropped.total(), path.stats().dropped.outage);
}

#[test]
fn a_doomed_packet_does_not_promise_a_delivery() {
    let start = epoch();
    let mut path = Path::new(config(), 0);
    path.push(start, 1_000, 0).unwrap();
    path.begin_outage(start + us(500), Outage::Drop);
    assert_eq!(path.next_delivery(), None);
    path.end_outage(start + us(600));
    assert_eq!(path.next_delivery(), None, "the only packet inside is lost already");
    path.push(start + us(700), 500, 1).unwrap();
    assert_eq!(path.next_delivery(), Some(start + ms(3 + 30)));
}

#[test]
fn time_that_goes_backwards_is_taken_as_the_latest() {
    let start = epoch();
    let mut path = Path::new(config(), 0);
    path.set_delay(start + ms(10), ms(30));
    path.push(start, 1_000, 'a').unwrap();
    assert_eq!(path.next_delivery(), Some(start + ms(42)));
}

#[test]
fn stats_count_every_packet_once() {
    let start = epoch();
    let mut path = Path::new(PathConfig { loss: Loss::Independent(0.5), ..config() }, 1);
    for n in 0..20 {
        let _ = path.push(start, 1_000, n);
    }
    path.pop(start + ms(32)).unwrap();
    let stats = path.stats();
    assert_eq!(stats.input, Tally { packets: 20, bytes: 20_000 });
    assert_eq!(stats.output, Tally { packets: 1, bytes: 1_000 });
    assert!(stats.dropped.loss.packets > 0 && stats.dropped.queue_full.packets > 0);
    assert_eq!(stats.input.packets, stats.output.packets + stats.dropped.total().packets + stats.queued.packets);
}
