//! How many simulated seconds a wall second holds: the scenario (4 Mbit/s, 30 ms one way, 60 kB drop-tail, 10 Hz
//! commands both ways, video offered at 8 Mbit/s) for a simulated minute, several times.
//!
//! `cargo bench -p aquila-lab --bench virtual_time`

use std::time::{Duration, Instant};

use aquila_emu::PathConfig;
use aquila_lab::pair::{Pair, PairConfig, Source};
use aquila_proto::{Bitrate, Side};

const REPEATS: usize = 7;
const SIMULATED: Duration = Duration::from_secs(60);

fn main() {
    let mut speeds: Vec<f64> = (0..REPEATS)
        .map(|_| {
            let began = Instant::now();
            let packets = fly();
            let wall = began.elapsed().as_secs_f64();
            println!(
                "{:6.1} simulated s per wall s ({packets} packets, {:.0} ns each)",
                SIMULATED.as_secs_f64() / wall,
                wall * 1e9 / packets as f64
            );
            SIMULATED.as_secs_f64() / wall
        })
        .collect();
    speeds.sort_by(f64::total_cmp);
    println!(
        "median {:.1}, min {:.1}, max {:.1} simulated s per wall s",
        speeds[REPEATS / 2],
        speeds[0],
        speeds[REPEATS - 1]
    );
}

/// One run; gives the packets that both ends sent.
fn fly() -> u64 {
    let path = PathConfig { rate_bps: Some(4_000_000), delay: Duration::from_millis(30), ..PathConfig::default() };
    let mut pair = Pair::new(PairConfig::new(path, 1));
    pair.connect();
    pair.run_until(Duration::from_millis(500));
    for from in [Side::Air, Side::Ground] {
        pair.add_source(Source::Commands { from, every: Duration::from_millis(100) }, SIMULATED);
    }
    pair.add_source(Source::Video { rate: Bitrate::mbps(8), packet: 1200 }, SIMULATED);
    pair.run_until(SIMULATED);
    let (up, down) = pair.paths();
    up.input.packets + down.input.packets
}
