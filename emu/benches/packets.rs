//! Packets a second through a path, by composition, on one core: `cargo bench -p aquila-emu`.
//!
//! A sender offers 500 Mbit/s of 1500-byte packets (42,000 a second) to a bottleneck of as much, in virtual time; each
//! packet is pushed at its own instant, and the path is asked for its next delivery and popped after each, as a live
//! emulator does. The figure is how many packets a second of wall time that makes; a live emulator needs 42,000 of
//! them.

use std::hint::black_box;
use std::io::Cursor;
use std::time::{Duration, Instant};

use aquila_emu::synth::{HandoverModel, HandoverTrain, Model, RateModel, Trace};
use aquila_emu::trace::{List, MahimahiTrace};
use aquila_emu::*;

const PACKETS: u64 = 1_000_000;
const RATE_BPS: u64 = 500_000_000;
const BYTES: usize = 1500;

type Payload = Box<[u8]>;

fn main() {
    let base = PathConfig {
        rate_bps: Some(RATE_BPS),
        delay: Duration::from_millis(30),
        queue: Queue::bytes(1_000_000),
        ..PathConfig::default()
    };
    let wire = PathConfig { rate_bps: None, ..base };
    let bursts = Loss::GilbertElliott(GilbertElliott::from_mean(0.01, 5.0).expect("possible bursts"));
    let uniform = JitterShape::Uniform { max: Duration::from_millis(10) };
    let normal = JitterShape::Normal { mean: Duration::from_millis(5), deviation: Duration::from_millis(2) };
    let codel = Queue::bytes(1_000_000).with(Discipline::CoDel(CoDel::default()));
    let everything = PathConfig {
        loss: bursts,
        air_loss: Loss::Independent(0.01),
        queue: codel,
        jitter: Jitter { shape: normal, reorder: true },
        bit_errors: BitErrors { rate: 1e-6, spared_bytes: 28 },
        ..base
    };
    for (name, config) in [
        ("delay only", wire),
        ("constant rate", base),
        ("constant rate, time bound", PathConfig { queue: Queue::time(Duration::from_millis(20)), ..base }),
        ("constant rate, overloaded", PathConfig { rate_bps: Some(RATE_BPS / 2), ..base }),
        ("CoDel, overloaded", PathConfig { rate_bps: Some(RATE_BPS / 2), queue: codel, ..base }),
        ("CoDel", PathConfig { queue: codel, ..base }),
        ("independent loss", PathConfig { loss: Loss::Independent(0.01), ..base }),
        ("Gilbert-Elliott loss", PathConfig { loss: bursts, ..base }),
        ("uniform jitter, in order", PathConfig { jitter: Jitter { shape: uniform, reorder: false }, ..base }),
        ("uniform jitter, reordering", PathConfig { jitter: Jitter { shape: uniform, reorder: true }, ..base }),
        ("normal jitter, reordering", PathConfig { jitter: Jitter { shape: normal, reorder: true }, ..base }),
        ("bit errors, 1e-6", PathConfig { bit_errors: BitErrors { rate: 1e-6, spared_bytes: 0 }, ..base }),
        ("bit errors, 1e-3", PathConfig { bit_errors: BitErrors { rate: 1e-3, spared_bytes: 0 }, ..base }),
    ] {
        measure(name, config, |_, _| {});
    }
    measure("opportunities", base, |path, start| {
        // 125 each 3 ms: 41,667 a second.
        let times = (0..125).map(|n| Duration::from_micros(n * 24 + 24)).collect();
        let source = Box::new(List::new(times));
        path.play_opportunities(start, start, Opportunities { source, bytes: BYTES, mean_rate_bps: RATE_BPS });
    });
    // The same as text, 42 lines a millisecond: parsing included.
    let lines: String = (1..=3_000u64).map(|ms| format!("{ms}\n").repeat(42)).collect();
    measure("mahimahi trace, parsed", base, |path, start| {
        let trace = MahimahiTrace::open(Cursor::new(lines.clone())).expect("a valid trace");
        path.play_opportunities(start, start, trace.into_opportunities());
    });
    measure("samples each 100 ms", base, |path, start| {
        let mut model = Model::uav();
        if let RateModel::Wander(capacity) = &mut model.rate {
            capacity.median_bps = RATE_BPS;
            (capacity.ceiling_bps, capacity.floor_bps) = (2 * RATE_BPS, RATE_BPS / 2);
        }
        let source = Box::new(Trace::new(model, 1, Duration::from_secs(600)));
        path.play_samples(start, start, Samples { source, ccq: CcqMode::default() });
    });
    measure("everything", everything, |path, start| {
        let source = Box::new(HandoverTrain::new(HandoverModel::default(), 1));
        path.play_handovers(start, start, Handovers { source, outage: Outage::Hold });
    });
    half_duplex(base);
}

fn measure(name: &str, config: PathConfig, prepare: impl Fn(&mut Path<Payload>, Instant)) {
    let start = now();
    let mut path = Path::new(config, 1);
    prepare(&mut path, start);
    // One packet on its way through all of it is enough: what is measured is the path, not the allocator.
    let mut idle: Vec<Payload> = Vec::new();
    let begin = now();
    for n in 0..PACKETS {
        let at = start + Duration::from_nanos(n * 24_000);
        let payload = idle.pop().unwrap_or_else(|| vec![0; BYTES].into_boxed_slice());
        let _ = path.push(at, BYTES, payload);
        if path.next_delivery().is_some_and(|due| due <= at) {
            idle.extend(std::iter::from_fn(|| path.pop(at)));
        }
    }
    report(name, begin, black_box(path.stats()).output.packets);
}

fn half_duplex(config: PathConfig) {
    let start = now();
    let mut link: HalfDuplex<u64> = HalfDuplex::new(config, config, Duration::from_micros(2), 1);
    let begin = now();
    for n in 0..PACKETS {
        let at = start + Duration::from_nanos(n * 24_000);
        let direction = if n % 8 == 0 { Direction::Down } else { Direction::Up };
        let _ = link.push(direction, at, Packet::new(BYTES, n));
        if link.next_deadline().is_some_and(|due| due <= at) {
            for direction in [Direction::Up, Direction::Down] {
                while black_box(link.pop(direction, at)).is_some() {}
            }
        }
    }
    let (up, down) = (link.path(Direction::Up).stats(), link.path(Direction::Down).stats());
    report("half-duplex, 1 of 8 down", begin, up.output.packets + down.output.packets);
}

fn report(name: &str, begin: Instant, delivered: u64) {
    let seconds = begin.elapsed().as_secs_f64();
    let rate = PACKETS as f64 / seconds;
    let (nanos, times) = (seconds * 1e9 / PACKETS as f64, rate / 42_000.0);
    println!("{name:28} {rate:>12.0} packets/s {nanos:>7.0} ns each {times:>6.0} times live, {delivered} delivered");
}

#[allow(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}
