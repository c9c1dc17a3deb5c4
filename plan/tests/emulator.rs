//! What was forecast, and what the emulator's link carries over the trace that was written.

use std::io::Cursor;
use std::time::{Duration, Instant};

use aquila_emu::trace::AnyTrace;
use aquila_emu::{CcqMode, Path, PathConfig, Queue};
use aquila_plan::flight::planned::Loiter;
use aquila_plan::forecast::Forecast;
use aquila_plan::radio::LossReading;
use aquila_plan::scenario::{Flight, Scenario, Way};
use aquila_plan::write;

const PACKET: usize = 1_500;

#[allow(clippy::disallowed_methods)]
fn epoch() -> Instant {
    Instant::now()
}

/// Bits that arrive of a sender that always has something to send.
fn carried(trace: &str, seconds: u64) -> f64 {
    let trace = AnyTrace::open(Cursor::new(trace.as_bytes().to_vec())).unwrap();
    assert_eq!(trace.info().duration, Duration::from_secs(seconds));
    assert_eq!(trace.info().unused_columns.len(), 16, "the first 16 of those for people are told");
    let start = epoch();
    let mut path: Path<u32> = Path::new(PathConfig { queue: Queue::packets(100), ..PathConfig::default() }, 7);
    trace.play(&mut path, start, start, CcqMode::default());
    let (mut arrived, mut number, end) = (0u64, 0, start + Duration::from_secs(seconds));
    let mut now = start;
    while now < end {
        // 100 Mbit/s, more than any of its rates.
        let _ = path.push(now, PACKET, number);
        number += 1;
        now += Duration::from_micros(120);
        while path.next_delivery().is_some_and(|at| at <= now) {
            arrived += u64::from(path.pop(now).is_some());
        }
    }
    arrived as f64 * PACKET as f64 * 8.0
}

#[test]
fn the_emulator_carries_what_was_forecast() {
    for loss in [LossReading::MacArq, LossReading::OneLessCcq] {
        let mut scenario = Scenario::example().unwrap();
        scenario.radio.loss = loss;
        scenario.model.seeds = 1;
        // And two from which little arrives.
        let far = |offset_m| {
            let loiter = Loiter {
                altitude_m: 200.0,
                radius_m: 400.0,
                offset_m,
                bearing_deg: 190.0,
                clockwise: true,
                lasts_s: 300.0,
            };
            Flight { name: format!("{offset_m} m"), way: Way::Loiter(loiter), horizon_s: 300.0 }
        };
        scenario.flights.extend([far(4_000.0), far(9_000.0)]);
        for flight in &scenario.flights {
            let forecast = Forecast::new(&scenario, &flight.name, &scenario.fly(flight).unwrap());
            let there = carried(&write::trace(&scenario, &forecast), 300);
            let ratio = there / forecast.volume.of_seed_bits;
            println!(
                "{loss:?} {}: {:.1} MB forecast, {:.1} MB carried",
                flight.name,
                forecast.volume.of_seed_bits / 8e6,
                there / 8e6
            );
            assert!((ratio - 1.0).abs() < 0.05, "{loss:?} {}: {ratio}", flight.name);
        }
    }
}
