//! Sessions over a serial radio, alone and beside a network.

use std::time::Duration;

use aquila_emu::{Direction, Outage, PathConfig, SerialRadio, SerialRadioConfig};
use aquila_lab::frames;
use aquila_lab::pair::{Pair, PairConfig, Source};
use aquila_proto::aerotp::RadioConfig;
use aquila_proto::mavlink::Splitter;
use aquila_proto::{Bitrate, Side};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// 57,600 baud, 10 bits a byte on the line, 8 of them on the air.
const RATE: Bitrate = Bitrate(46_080);

fn network() -> PathConfig {
    PathConfig { rate_bps: Some(10_000_000), delay: 25 * MS, ..PathConfig::default() }
}

/// A SiK radio at 57,600 baud, whose air is faster than its line.
fn sik(wrong: f64) -> SerialRadioConfig {
    SerialRadioConfig { bit_errors: wrong, status: Some(SECOND), ..SerialRadioConfig::default() }
}

fn pair(seed: u64, wrong: f64) -> Pair {
    let radios = vec![(RadioConfig::serial(RATE), sik(wrong))];
    Pair::new(PairConfig { radios, ..PairConfig::new(network(), seed) })
}

fn percentile(latencies: &mut [Duration], share: f64) -> Duration {
    latencies.sort();
    latencies[((latencies.len() - 1) as f64 * share).round() as usize]
}

#[test]
fn commands_go_by_the_radio_when_the_network_is_gone() {
    let mut pair = pair(1, 0.0);
    pair.connect();
    pair.add_source(Source::Commands { from: Side::Ground, every: 200 * MS }, 30 * SECOND);
    pair.run_until(10 * SECOND);
    assert_eq!(pair.latencies(Side::Air, Duration::ZERO).len(), 50);
    pair.begin_outage_of(0, &[Side::Air, Side::Ground], Outage::Drop);
    pair.run_until(31 * SECOND);
    assert_eq!(pair.latencies(Side::Air, Duration::ZERO).len(), 151);
    let latencies = pair.latencies(Side::Air, SECOND);
    let worst = latencies.iter().max().unwrap();
    println!("worst of {}: {worst:?}", latencies.len());
    assert!(*worst < 60 * MS, "a command takes 18 ms on the radio: {worst:?}");
}

/// Of two networks and a radio the networks are best, and get both copies; then both are gone.
#[test]
fn what_left_on_networks_that_are_gone_leaves_on_the_radio() {
    let radios = vec![(RadioConfig::serial(RATE), sik(0.0))];
    let beside = vec![(network(), network(), aquila_proto::Usage::Normal)];
    let mut pair = Pair::new(PairConfig { beside, radios, ..PairConfig::new(network(), 5) });
    pair.connect();
    pair.run_until(5 * SECOND);
    (0..2).for_each(|bearer| pair.begin_outage_of(bearer, &[Side::Air, Side::Ground], Outage::Drop));
    [Side::Air, Side::Ground].into_iter().for_each(|from| pair.send_command(from));
    pair.run_until(8 * SECOND);
    assert_eq!(pair.deliveries.len(), 2);
    let worst = pair.deliveries.iter().map(|delivery| delivery.arrived - delivery.sent).max().unwrap();
    println!("worst {worst:?}");
    pair.run_until(20 * SECOND);
    assert_eq!(pair.deliveries.len(), 2);
    assert_eq!(pair.stats(Side::Ground).control_drops.expired, 0);
}

#[test]
fn a_radio_full_of_telemetry_carries_each_command_in_time() {
    let mut pair = pair(2, 1e-5);
    pair.begin_outage_of(0, &[Side::Air, Side::Ground], Outage::Drop);
    pair.connect();
    pair.run_until(2 * SECOND);
    pair.add_source(Source::Parameters { every: 5 * MS }, 600 * SECOND);
    pair.add_source(Source::Commands { from: Side::Ground, every: 500 * MS }, 600 * SECOND);
    pair.run_until(605 * SECOND);
    let mut latencies = pair.latencies(Side::Air, Duration::ZERO);
    println!(
        "{} p50 {:?} p99 {:?} max {:?}",
        latencies.len(),
        percentile(&mut latencies, 0.5),
        percentile(&mut latencies, 0.99),
        latencies.last()
    );
    assert_eq!(latencies.len(), 1197, "none is lost");
    let p99 = percentile(&mut latencies, 0.99);
    assert!(p99 < 200 * MS, "{p99:?}");
}

/// What MAVLink over the raw radio makes of the same: frames written to the line as they come.
#[test]
fn beside_it_mavlink_over_the_raw_radio_loses_commands_and_queues() {
    let start = std::time::Instant::now();
    let mut radio = SerialRadio::new(sik(1e-5), 2);
    let (mut params, mut commands, mut arrived) = (0, 0, 0);
    let mut latencies = Vec::new();
    let mut sent = Vec::new();
    let mut splitter = Splitter::new();
    let mut bytes = Vec::new();
    let mut waiting = [Vec::new(), Vec::new()];
    for ms in 0..600_000_u32 {
        let now = start + ms * MS;
        if ms % 5 == 0 {
            params = (params + 1) % 1000;
            for (side, waiting) in [Side::Air, Side::Ground].into_iter().zip(&mut waiting) {
                offer(waiting, frames::param_value(side, params).bytes());
            }
        }
        if ms % 500 == 0 {
            sent.push(ms);
            // Commands are always let in.
            waiting[1].extend_from_slice(frames::command(Side::Ground, commands).bytes());
            commands += 1;
        }
        for (direction, waiting) in [Direction::Up, Direction::Down].into_iter().zip(&mut waiting) {
            let taken = radio.write(now, direction, waiting);
            waiting.drain(..taken);
        }
        bytes.clear();
        radio.read(now, Direction::Down, &mut bytes);
        splitter.feed(&bytes);
        while let Some(frame) = splitter.next_frame() {
            if let Some(index) = frames::command_index(&frame) {
                arrived += 1;
                latencies.push(Duration::from_millis(u64::from(ms - sent[index as usize])));
            }
        }
    }
    let [p50, p99] = [0.5, 0.99].map(|share| percentile(&mut latencies, share));
    println!("raw: {arrived} of {commands}, p50 {p50:?} p99 {p99:?}");
    assert!(arrived < commands && p50 > 500 * MS);
}

/// A host leaves a frame away that finds too much waiting.
fn offer(waiting: &mut Vec<u8>, frame: &[u8]) {
    if waiting.len() + frame.len() <= 1024 {
        waiting.extend_from_slice(frame);
    }
}

#[test]
fn noise_on_the_line_costs_nothing_beyond_itself() {
    let mut pair = pair(3, 0.0);
    pair.begin_outage_of(0, &[Side::Air, Side::Ground], Outage::Drop);
    pair.connect();
    pair.add_source(Source::Parameters { every: 20 * MS }, 400 * SECOND);
    pair.add_source(Source::Commands { from: Side::Ground, every: 500 * MS }, 400 * SECOND);
    pair.run_until(10 * SECOND);
    // Half of the bits are wrong: what comes is noise.
    let now = pair.now();
    pair.radio(0).set_errors(now, 0.5, 0.0);
    pair.run_until(310 * SECOND);
    let before = pair.latencies(Side::Air, Duration::ZERO).len();
    let radio = pair.stats(Side::Air).bearers.last().unwrap().radio.unwrap();
    println!("{:?} {:?}", radio.line, radio.counters);
    assert!(radio.line.skipped_bytes > 10_000, "{radio:?}");
    assert_eq!(radio.counters.forged, 0, "noise does not look like a segment");
    let now = pair.now();
    pair.radio(0).set_errors(now, 0.0, 0.0);
    pair.run_until(312 * SECOND);
    let after = pair.latencies(Side::Air, 311 * SECOND).len();
    assert!(pair.latencies(Side::Air, Duration::ZERO).len() > before && after >= 2, "{before} {after}");
    pair.run_until(402 * SECOND);
    let late = pair.latencies(Side::Air, 312 * SECOND);
    assert_eq!(late.len(), 176 + 1, "all since then");
}
