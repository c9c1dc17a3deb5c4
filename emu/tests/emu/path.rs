//! Random operation lists on one path: nothing appears, vanishes, overtakes or arrives too early, and a seed decides
//! everything.

use std::time::{Duration, Instant};

use aquila_emu::{Bound, Loss, Outage, Path, PathConfig, Queue};
use proptest::prelude::*;

use crate::epoch;

#[derive(Debug, Clone)]
enum Op {
    Push(usize),
    Rate(Option<u64>),
    Delay(u64),
    Loss(f64),
    Begin(Outage),
    End,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (0usize..3_000).prop_map(Op::Push),
        1 => prop_oneof![Just(None), (0u64..50_000_000).prop_map(Some)].prop_map(Op::Rate),
        1 => (0u64..200_000).prop_map(Op::Delay),
        1 => (0.0f64..0.5).prop_map(Op::Loss),
        1 => prop_oneof![Just(Outage::Drop), Just(Outage::Hold)].prop_map(Op::Begin),
        1 => Just(Op::End),
    ]
}

/// Operations and the time since the one before, in microseconds.
fn script() -> impl Strategy<Value = Vec<(u64, Op)>> {
    prop::collection::vec((0u64..20_000, op()), 1..200)
}

fn config() -> impl Strategy<Value = PathConfig> {
    (prop::option::of(1u64..20_000_000), 0u64..100, 0usize..30_000, 0.0f64..0.3).prop_map(
        |(rate_bps, delay, queue_bytes, loss)| PathConfig {
            rate_bps,
            delay: Duration::from_millis(delay),
            queue: Queue::bytes(queue_bytes),
            loss: Loss::Independent(loss),
            ..PathConfig::default()
        },
    )
}

#[derive(Debug, PartialEq)]
struct Sent {
    at: Duration,
    bytes: usize,
    accepted: bool,
}

#[derive(Debug, PartialEq)]
struct Run {
    sent: Vec<Sent>,
    /// Number of the packet and when it came out.
    out: Vec<(usize, Duration)>,
}

/// Runs the script and checks, on every step, the books and that `next_delivery` keeps its word.
fn run(config: PathConfig, seed: u64, script: &[(u64, Op)]) -> Run {
    let start = epoch();
    let mut path = Path::new(config, seed);
    let mut run = Run { sent: Vec::new(), out: Vec::new() };
    let mut now = start;
    for (gap, op) in script {
        let next = now + Duration::from_micros(*gap);
        deliver_until(&mut path, start, next, &mut run.out);
        now = next;
        match *op {
            Op::Push(bytes) => {
                let accepted = path.push(now, bytes, run.sent.len()).is_ok();
                run.sent.push(Sent { at: now - start, bytes, accepted });
            }
            Op::Rate(rate) => path.set_rate(now, rate),
            Op::Delay(us) => path.set_delay(now, Duration::from_micros(us)),
            Op::Loss(p) => path.set_loss(Loss::Independent(p)),
            Op::Begin(outage) => path.begin_outage(now, outage),
            Op::End => path.end_outage(now),
        }
        let s = path.stats();
        assert_eq!(s.input.packets, s.output.packets + s.dropped.total().packets + s.queued.packets);
        assert_eq!(s.input.bytes, s.output.bytes + s.dropped.total().bytes + s.queued.bytes);
        let Bound::Bytes(bound) = config.queue.bound else { panic!("bounded in bytes") };
        assert!(s.queue_bytes <= bound);
    }
    path.end_outage(now);
    path.set_rate(now, Some(1_000_000));
    deliver_until(&mut path, start, now + Duration::from_secs(3_600), &mut run.out);
    assert_eq!(path.stats().queued.packets, 0);
    assert_eq!(path.stats().output.packets, run.out.len() as u64);
    run
}

fn deliver_until(path: &mut Path<usize>, start: Instant, until: Instant, out: &mut Vec<(usize, Duration)>) {
    while let Some(at) = path.next_delivery().filter(|at| *at <= until) {
        let n = path.pop(at).expect("`next_delivery` promised a packet");
        out.push((n, at - start));
    }
    assert_eq!(path.pop(until), None, "a packet that `next_delivery` did not announce");
}

proptest! {
    #[test]
    fn books_balance_and_order_is_kept(config in config(), seed: u64, script in script()) {
        let run = run(config, seed, &script);
        for pair in run.out.windows(2) {
            prop_assert!(pair[0].0 < pair[1].0, "overtaken");
            prop_assert!(pair[0].1 <= pair[1].1);
        }
        for (n, _) in &run.out {
            prop_assert!(run.sent[*n].accepted);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_outcome(config in config(), seed: u64, script in script()) {
        prop_assert_eq!(run(config, seed, &script), run(config, seed, &script));
    }

    #[test]
    fn nothing_arrives_before_its_serialisation_and_delay(
        rate in 1u64..50_000_000,
        delay in 0u64..100_000,
        gaps in prop::collection::vec((0u64..5_000, 0usize..3_000), 1..100),
    ) {
        let delay = Duration::from_micros(delay);
        let config = PathConfig { rate_bps: Some(rate), delay, queue: Queue::bytes(20_000), ..PathConfig::default() };
        let script: Vec<(u64, Op)> = gaps.into_iter().map(|(gap, bytes)| (gap, Op::Push(bytes))).collect();
        let start = epoch();
        let mut path = Path::new(config, 0);
        let mut now = start;
        let mut sent = Vec::new();
        let mut out = Vec::new();
        for (gap, op) in &script {
            now += Duration::from_micros(*gap);
            deliver_until(&mut path, start, now, &mut out);
            if let Op::Push(bytes) = op {
                let _ = path.push(now, *bytes, sent.len());
                sent.push((now - start, *bytes));
            }
        }
        deliver_until(&mut path, start, now + Duration::from_secs(1 << 40), &mut out);
        for (n, at) in &out {
            let (pushed, bytes) = sent[*n];
            let serialisation = Duration::from_nanos((bytes as u128 * 8_000_000_000 / u128::from(rate)) as u64);
            prop_assert!(*at >= pushed + serialisation + delay);
        }
        // Over a busy time the rate is met to the nanosecond: the last bit leaves when all bits from the first packet
        // on are sent.
        for pair in out.windows(2) {
            let bits = sent[pair[1].0].1 as u128 * 8_000_000_000;
            prop_assert!((pair[1].1 - pair[0].1).as_nanos() + 1 >= bits / u128::from(rate));
        }
    }
}
