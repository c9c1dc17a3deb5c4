//! Logs of flights: where the aircraft was and how it was banked, and what the radio said.

pub mod dataflash;
pub mod radio;
pub mod tlog;

use crate::fault::ParseError;
use crate::geodesy::Position;

/// Samples closer to each other than this are left out.
const CLOSEST_S: f64 = 0.09;
/// A longer log is refused: a day.
pub const LONGEST_S: f64 = 86_400.0;

/// A flight as it was logged.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FlightLog {
    /// Where it was, by time from the first of them on.
    pub fixes: Vec<Fix>,
    /// How it was turned, on the same clock.
    pub attitudes: Vec<Attitude>,
    /// Time of the first fix on the log's own clock, s: since 1970 of a tlog, since the autopilot's start of a
    /// DataFlash log.
    pub start_s: f64,
    /// What was left out in reading, and why.
    pub notes: Vec<String>,
}

/// Where it was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fix {
    /// Since the first one, s.
    pub at_s: f64,
    /// Where.
    pub position: Position,
}

/// How it was turned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attitude {
    /// Since the first fix, s; may be negative.
    pub at_s: f64,
    /// Right wing down, degrees.
    pub roll_deg: f64,
    /// Nose up, degrees.
    pub pitch_deg: f64,
    /// Clockwise from north, degrees.
    pub yaw_deg: f64,
}

/// What is put together while a log is read.
#[derive(Debug, Default)]
struct Collector {
    fixes: Vec<(f64, Position)>,
    attitudes: Vec<Attitude>,
    backwards: u64,
}

impl Collector {
    /// Times are the log's own, s. One that is not after the one before is left out.
    fn fix(&mut self, at_s: f64, position: Position) -> Result<(), String> {
        let last = self.fixes.last().map(|fix| fix.0);
        if let (Some(first), Some(last)) = (self.fixes.first(), last) {
            self.backwards += u64::from(at_s < last - 1.0);
            if at_s < last + CLOSEST_S {
                return Ok(());
            }
            if at_s > first.0 + LONGEST_S {
                return Err(format!("{:.0} s after the first position: a day is the most", at_s - first.0));
            }
        }
        self.fixes.push((at_s, position));
        Ok(())
    }

    fn attitude(&mut self, attitude: Attitude) {
        if self.attitudes.last().is_none_or(|last| attitude.at_s >= last.at_s + CLOSEST_S)
            && self.fixes.first().is_none_or(|first| attitude.at_s <= first.0 + LONGEST_S)
        {
            self.attitudes.push(attitude);
        }
    }

    fn finish(self, mut notes: Vec<String>) -> Result<FlightLog, ParseError> {
        let Some(start_s) = self.fixes.first().map(|fix| fix.0) else {
            return Err(ParseError::file("has no positions"));
        };
        if self.backwards > 0 {
            notes.push(format!("{} positions were left out: the clock went back", self.backwards));
        }
        Ok(FlightLog {
            fixes: self.fixes.into_iter().map(|(at, position)| Fix { at_s: at - start_s, position }).collect(),
            attitudes: self.attitudes.into_iter().map(|a| Attitude { at_s: a.at_s - start_s, ..a }).collect(),
            start_s,
            notes,
        })
    }
}

/// Reads a log, whichever of both formats it is in.
///
/// # Errors
/// What is wrong, and where.
pub fn parse(bytes: &[u8]) -> Result<FlightLog, ParseError> {
    match bytes.starts_with(&dataflash::HEAD) {
        true => dataflash::parse(bytes),
        false => tlog::parse(bytes),
    }
}
