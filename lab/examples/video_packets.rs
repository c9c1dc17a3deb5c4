//! A camera of 8 Mbit/s over 20 Mbit/s and 10 ms for so many simulated seconds, for profilers: both ends' work and the
//! emulator's, without sockets. Prints the number of video packets that left.
//!
//! ```text
//! cargo run --release -p aquila-lab --example video_packets -- 10
//! ```

use std::time::Duration;

use aquila_emu::PathConfig;
use aquila_lab::pair::{Pair, PairConfig, Source};
use aquila_proto::{Bitrate, Class, Side};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).ok_or("how many seconds?")?.parse()?;
    let path = PathConfig { rate_bps: Some(20_000_000), delay: Duration::from_millis(10), ..PathConfig::default() };
    let mut pair = Pair::new(PairConfig::new(path, 1));
    pair.connect();
    let end = Duration::from_secs(seconds);
    for from in [Side::Air, Side::Ground] {
        pair.add_source(Source::Commands { from, every: Duration::from_millis(100) }, end);
    }
    pair.add_source(Source::Video { rate: Bitrate::mbps(8), packet: 1200 }, end);
    pair.run_until(end);
    println!("{}", pair.stats(Side::Air).counters.sent[Class::Video.index()]);
    Ok(())
}
