//! What files over a radio have to reach, in virtual time.

use serde::Serialize;

use super::{Disk, Flight, Freight, Outcome, Radio, fly, fly_with};

/// What a figure is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Task {
    /// Files of one length over a radio that changes all the time, 40 of 4 MB or 160 of 1 MB: share of what the radio could have brought.
    Circling {
        /// Loss in per cent of 10 to 40 %.
        factor_percent: u32,
        /// Bytes of a file, in millions.
        megabytes: u32,
    },
    /// 40 files of 4 MB in three contacts of 25 s with gaps of 35 s, 12 Mbit/s, 5 % lost: the same.
    Contacts,
    /// The same: bytes of verified chunks that were sent again.
    ContactsAgain,
    /// A gigabyte in five passes of 65 s, 30 Mbit/s, 10 % lost; the aircraft's power is cut at the end of each: what came a second time.
    PowerCuts,
    /// 10,000 files of 10 kB, as the first with factor 1.
    Small,
    /// A log of 100 MB of which 1 % has changed: bytes sent, of its length.
    Rewritten,
    /// Commands at 20 Hz beside files that fill 12 Mbit/s, 3 ms of propagation: 99th percentile, ms.
    Commands,
}

/// A figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Of what.
    pub task: Task,
    /// Seed of the flight.
    pub seed: u64,
    /// What was reached: a share, or milliseconds, or bytes.
    pub value: f64,
    /// The bound.
    pub bound: f64,
    /// Whether it holds.
    pub holds: bool,
    /// The flight.
    pub outcome: Outcome,
}

impl Task {
    /// All of them.
    pub fn all() -> Vec<Self> {
        let circling = |factor_percent| [4, 1].map(|megabytes| Self::Circling { factor_percent, megabytes });
        let circling = [10, 50, 100, 200].into_iter().flat_map(circling);
        let rest = [Self::Contacts, Self::ContactsAgain, Self::Small, Self::Rewritten, Self::Commands, Self::PowerCuts];
        circling.chain(rest).collect()
    }

    /// In words.
    pub fn name(&self) -> String {
        match self {
            Self::Circling { factor_percent, megabytes } => {
                let (low, high) = (f64::from(*factor_percent) * 0.1, f64::from(*factor_percent) * 0.4);
                let files = 160 / megabytes;
                format!("{files} files of {megabytes} MB, 0 to 30 Mbit/s, {low:.0} to {high:.0} % lost")
            }
            Self::Contacts => "40 files of 4 MB, three contacts of 25 s, gaps of 35 s".into(),
            Self::ContactsAgain => "of it, verified chunks that were sent again".into(),
            Self::PowerCuts => "1 GB in five passes, power cut after each: came again".into(),
            Self::Small => "10,000 files of 10 kB, 0 to 30 Mbit/s, 10 to 40 % lost".into(),
            Self::Rewritten => "log of 100 MB, 1 % changed: sent".into(),
            Self::Commands => "commands beside it on 12 Mbit/s, 99 of 100 within".into(),
        }
    }

    /// What has to be reached, and whether less is better.
    fn bound(&self) -> (f64, bool) {
        match self {
            Self::Circling { factor_percent, megabytes } => {
                let bound = match (factor_percent, megabytes) {
                    (..=10, _) => 0.94,
                    (..=50, _) => 0.93,
                    (..=100, 4) => 0.88,
                    (..=100, _) => 0.90,
                    (_, 4) => 0.86,
                    _ => 0.88,
                };
                (bound, false)
            }
            Self::Contacts => (0.93, false),
            Self::ContactsAgain => (0.0, true),
            Self::PowerCuts => (0.01, true),
            Self::Small => (0.85, false),
            Self::Rewritten => (0.03, true),
            Self::Commands => (20.0, true),
        }
    }

    /// Whether less of it is better.
    pub fn less_is_better(&self) -> bool {
        self.bound().1
    }

    /// Writes a value as people read it.
    pub fn show(&self, value: f64) -> String {
        match self {
            Self::Commands => format!("{value:.1} ms"),
            Self::ContactsAgain => format!("{value:.0} B"),
            _ => format!("{:.1} %", 100.0 * value),
        }
    }

    /// Flies it.
    pub fn run(&self, seed: u64) -> Figure {
        let contacts = Radio::Contacts { mbps: 12, loss: 0.05, contact: 25, gap: 35 };
        let (value, outcome) = match self {
            Self::Circling { factor_percent, megabytes } => {
                let freight = Freight::of(160 / *megabytes as usize, *megabytes as usize * 1_000_000);
                let radio = Radio::Circling { factor: f64::from(*factor_percent) / 100.0 };
                let outcome = fly(&Flight::over(radio, 150, seed), &freight);
                (outcome.share, outcome)
            }
            Self::Contacts | Self::ContactsAgain => {
                let outcome = fly(&Flight::over(contacts, 180, seed), &Freight::of(40, 4_000_000));
                let again = outcome.verified_again as f64;
                (if *self == Self::Contacts { outcome.share } else { again }, outcome)
            }
            Self::PowerCuts => {
                let freight = Freight::of(1, 1_000_000_000);
                let radio = Radio::Contacts { mbps: 30, loss: 0.1, contact: 65, gap: 20 };
                let outcome = fly(&Flight { power_cuts: true, ..Flight::over(radio, 420, seed) }, &freight);
                (came_again(&outcome, &freight), outcome)
            }
            Self::Small => {
                let radio = Radio::Circling { factor: 1.0 };
                let outcome = fly(&Flight::over(radio, 150, seed), &Freight::of(10_000, 10_000));
                (outcome.share, outcome)
            }
            Self::Rewritten => rewritten(seed),
            Self::Commands => {
                let radio = Radio::Steady { mbps: 12, loss: 0.0 };
                let flight = Flight { commands: true, ..Flight::over(radio, 30, seed) };
                let outcome = fly(&flight, &Freight::of(40, 4_000_000));
                (outcome.p99_ms.unwrap_or(f64::INFINITY), outcome)
            }
        };
        let (bound, less) = self.bound();
        let whole = !matches!(self, Self::PowerCuts | Self::Rewritten | Self::Small) || outcome.done_s.is_some();
        let holds = whole && if less { value <= bound } else { value >= bound };
        Figure { task: *self, seed, value, bound, holds, outcome }
    }
}

/// What arrived beyond the least that had to, of that.
pub fn came_again(outcome: &Outcome, freight: &Freight) -> f64 {
    let least = freight.least() as f64;
    ((outcome.taken + outcome.again) as f64 - least) / least
}

/// A file, and later another version of it.
fn rewritten(seed: u64) -> (f64, Outcome) {
    const LEN: usize = 100_000_000;
    let radio = Radio::Steady { mbps: 20, loss: 0.0 };
    let mut freight = Freight::default();
    freight.put_version(LEN, |_| false);
    let (_, disk) = fly_with(&Flight::over(radio, 60, seed), &freight, Disk::default());
    // One part of a hundred, somewhere in the middle.
    freight.put_version(LEN, |chunk| (700..715).contains(&chunk));
    let (outcome, _) = fly_with(&Flight::over(radio, 60, seed), &freight, disk);
    (outcome.sent as f64 / LEN as f64, outcome)
}
