//! One link of 4 Mbit/s, and what goes over it.

use std::time::Duration;

use aquila_emu::{Loss, PathConfig};
use aquila_lab::pair::{Pair, PairConfig, Source};
use aquila_proto::{Bitrate, Side};

use crate::ms;

/// One way.
pub const PROPAGATION: Duration = ms(30);

pub fn config(seed: u64, loss: f64) -> PairConfig {
    let path = PathConfig {
        rate_bps: Some(4_000_000),
        delay: PROPAGATION,
        loss: Loss::Independent(loss),
        ..PathConfig::default()
    };
    PairConfig::new(path, seed)
}

pub fn connected(seed: u64, loss: f64) -> Pair {
    let mut pair = Pair::new(config(seed, loss));
    pair.connect();
    pair.run_until(ms(500));
    pair
}

pub fn commands(pair: &mut Pair, until: Duration) {
    for from in [Side::Air, Side::Ground] {
        pair.add_source(Source::Commands { from, every: ms(100) }, until);
    }
}

pub fn video(pair: &mut Pair, mbps: u64, until: Duration) {
    pair.add_source(Source::Video { rate: Bitrate::mbps(mbps), packet: 1200 }, until);
}

/// Every command sent arrived exactly once.
pub fn assert_each_once(pair: &Pair) {
    for (from, to) in [(Side::Air, Side::Ground), (Side::Ground, Side::Air)] {
        let of_end = pair.deliveries.iter().filter(|delivery| delivery.to == to);
        let mut got: Vec<_> = of_end.map(|delivery| delivery.index).collect();
        got.sort_unstable();
        assert_eq!(got, (0..pair.commands_sent(from) as u32).collect::<Vec<_>>(), "{from:?} to {to:?}");
    }
}
