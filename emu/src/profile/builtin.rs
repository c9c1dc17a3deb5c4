//! The built-in profiles.
//!
//! They are plausible, not measured: delays and handovers are of the order seen on drones over LTE (data set of the IMC
//! 2022 study of remotely piloted aircraft: 1 to 4 handovers a minute and modem, uplinks of 10 to 24 Mbit/s that dip
//! below 1 Mbit/s in about 1 % of the time), the rates scaled down to the few Mbit/s at which a link has to choose what
//! it carries. Trace-driven links are the lab's.

use std::time::Duration;

use super::{Change, Direction, Profile, Step};
use crate::cell::loss::Loss;
use crate::cell::queue::Queue;
use crate::path::{Outage, PathConfig};

type Build = fn() -> Profile;

pub(super) const ALL: [(&str, Build); 4] =
    [("handover", handover), ("lte-city", lte_city), ("lte-rural", lte_rural), ("clean", clean)];

/// What the demo shows: everything that goes wrong with a cellular link, once in 20 s.
fn handover() -> Profile {
    Profile {
        name: "handover",
        summary: "A cellular link that shows every trouble once",
        up: path(3_000, 30, 60_000, 0.0),
        down: path(6_000, 30, 60_000, 0.0),
        cycle: Duration::from_secs(20),
        steps: vec![
            up(0, 3_000),
            up(2_500, 4_000),
            up(5_000, 2_500),
            // A handover that fails at first: the old cell is gone for 1.2 s, the modem keeps what it is given.
            at(8_000, Change::OutageBegin(Outage::Hold)),
            at(9_200, Change::OutageEnd),
            // The new cell is nearer.
            up(9_200, 3_500),
            at(9_200, Change::Delay(Direction::Up, ms(25))),
            at(9_200, Change::Delay(Direction::Down, ms(25))),
            up(11_500, 2_000),
            at(14_000, Change::AddressChange),
            up(16_000, 3_500),
            at(18_000, Change::Delay(Direction::Up, ms(30))),
            at(18_000, Change::Delay(Direction::Down, ms(30))),
            up(18_500, 3_000),
        ],
    }
}

/// Dense cells: much rate, quick changes, short handovers.
fn lte_city() -> Profile {
    let mut steps = Vec::new();
    let rates =
        [6_000, 7_500, 4_500, 8_000, 5_000, 3_000, 6_500, 9_000, 7_000, 4_000, 5_500, 8_500, 6_000, 3_500, 7_000];
    for (n, kbps) in rates.into_iter().enumerate() {
        steps.push(up(n as u64 * 2_000, kbps));
    }
    for (begin, lasts) in [(9_300, 60), (21_700, 90)] {
        steps.push(at(begin, Change::OutageBegin(Outage::Hold)));
        steps.push(at(begin + lasts, Change::OutageEnd));
    }
    Profile {
        name: "lte-city",
        summary: "LTE over a city, dense cells and short handovers",
        up: path(6_000, 25, 90_000, 0.000_5),
        down: path(20_000, 25, 150_000, 0.000_5),
        cycle: Duration::from_secs(30),
        steps: in_order(steps),
    }
}

/// Few cells: little rate, deep fades, one long handover.
fn lte_rural() -> Profile {
    let mut steps = Vec::new();
    let rates = [2_000, 2_600, 1_500, 900, 600, 1_200, 2_200, 3_000, 2_400, 1_800, 1_000, 1_600, 2_800, 2_000, 1_400];
    for (n, kbps) in rates.into_iter().enumerate() {
        steps.push(up(n as u64 * 4_000, kbps));
    }
    steps.extend([
        at(17_000, Change::OutageBegin(Outage::Hold)),
        at(17_400, Change::OutageEnd),
        at(40_500, Change::OutageBegin(Outage::Drop)),
        at(42_500, Change::OutageEnd),
        at(42_500, Change::AddressChange),
        at(42_500, Change::Delay(Direction::Up, ms(60))),
        at(42_500, Change::Delay(Direction::Down, ms(60))),
        at(55_000, Change::Delay(Direction::Up, ms(45))),
        at(55_000, Change::Delay(Direction::Down, ms(45))),
    ]);
    Profile {
        name: "lte-rural",
        summary: "LTE at the edge of coverage, deep fades and a lost cell",
        up: path(2_000, 45, 120_000, 0.003),
        down: path(5_000, 45, 120_000, 0.003),
        cycle: Duration::from_secs(60),
        steps: in_order(steps),
    }
}

/// Nothing happens.
fn clean() -> Profile {
    Profile {
        name: "clean",
        summary: "A steady link without loss",
        up: path(10_000, 15, 100_000, 0.0),
        down: path(10_000, 15, 100_000, 0.0),
        cycle: Duration::from_secs(60),
        steps: Vec::new(),
    }
}

fn path(kbps: u64, delay_ms: u64, queue_bytes: usize, loss: f64) -> PathConfig {
    PathConfig {
        rate_bps: Some(kbps * 1_000),
        delay: ms(delay_ms),
        queue: Queue::bytes(queue_bytes),
        loss: Loss::Independent(loss),
        ..PathConfig::default()
    }
}

fn up(at_ms: u64, kbps: u64) -> Step {
    at(at_ms, Change::Rate(Direction::Up, Some(kbps * 1_000)))
}

fn at(at_ms: u64, change: Change) -> Step {
    Step { at: ms(at_ms), change }
}

fn in_order(mut steps: Vec<Step>) -> Vec<Step> {
    steps.sort_by_key(|step| step.at);
    steps
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
