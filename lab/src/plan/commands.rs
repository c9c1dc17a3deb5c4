//! Commands: at an interval, or each after the one before has arrived.

use std::time::Duration;

use serde::Deserialize;

use super::{Size, Time};

/// Commands as they are written: `every`, or `after` and `count`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandTraffic {
    /// One at each such interval, whatever becomes of them.
    pub every: Option<Time>,
    /// Or the next one so long after the one before was delivered [CONCLONE 5.1]: a closed loop.
    pub after: Option<Time>,
    /// Of a closed loop: how many.
    pub count: Option<u32>,
    /// Bytes of telemetry that are sent right behind each.
    pub with_data: Option<Size>,
}

/// When commands are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// At an interval.
    Every(Duration),
    /// So long after the one before was delivered.
    After {
        /// The pause.
        pause: Duration,
        /// How many there are.
        count: u32,
    },
}

/// Most commands of a closed loop.
const MAX_COUNT: u32 = 1_000_000;
/// What goes with a command: a frame of MAVLink at least, and no more than a UDP datagram takes.
const DATA: std::ops::RangeInclusive<usize> = 20..=16_000;

impl CommandTraffic {
    /// When they are sent.
    ///
    /// # Errors
    /// If the plan says neither, or both.
    pub fn pace(&self) -> Result<Pace, String> {
        match (self.every, self.after, self.count) {
            (Some(every), None, None) => Ok(Pace::Every(every.get())),
            (None, Some(after), Some(count)) => Ok(Pace::After { pause: after.get(), count }),
            (Some(_), None, Some(_)) => {
                Err("commands: count is for after; with every, until says when they end".into())
            }
            (None, Some(_), None) => Err("commands: after needs a count".into()),
            _ => Err("commands: every, or after and count".into()),
        }
    }

    /// The interval, or the pause.
    pub fn interval(&self) -> Duration {
        self.every.or(self.after).unwrap_or_default().get()
    }

    /// What is wrong with them.
    pub(super) fn check(&self) -> Result<(), String> {
        let (what, interval) = match self.pace()? {
            Pace::Every(interval) => ("every", interval),
            Pace::After { count, .. } if !(1..=MAX_COUNT).contains(&count) => {
                return Err(format!("commands: count is from 1 to {MAX_COUNT}"));
            }
            Pace::After { pause, .. } => ("after", pause),
        };
        if interval < Duration::from_micros(10) {
            return Err(format!("{what}: at least 10 us"));
        }
        match self.with_data {
            Some(data) if !DATA.contains(&data.bytes()) => {
                Err(format!("commands: with_data is from {} to {} bytes", DATA.start(), DATA.end()))
            }
            _ => Ok(()),
        }
    }
}
