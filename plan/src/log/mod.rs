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

/// Where the beginning of a log is looked for, if it is not at the beginning.
const LOOKED_AT: usize = 64 << 10;

/// Reads a log, whichever of both formats it is in.
///
/// # Errors
/// What is wrong, and where.
pub fn parse(bytes: &[u8]) -> Result<FlightLog, ParseError> {
    let beginning = &bytes[..bytes.len().min(LOOKED_AT)];
    let is_dataflash = || beginning.windows(dataflash::HEAD.len()).any(|window| window == dataflash::HEAD);
    if bytes.starts_with(&dataflash::HEAD) || !tlog::begins(bytes) && is_dataflash() {
        return dataflash::parse(bytes);
    }
    let is_tlog = tlog::begins(bytes);
    tlog::parse(bytes).map_err(|error| match is_tlog || bytes.is_empty() {
        true => error,
        false => ParseError::file(
            "is neither a log of ArduPilot (.bin, which begins with A3 95 80) nor a telemetry log (.tlog) with positions",
        ),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_no_log_is_not_taken_for_a_bad_one_of_mavlink() {
        for junk in [&[0x55; 4_000][..], b"hello, this is a text and not a log at all"] {
            let error = super::parse(junk).unwrap_err().to_string();
            assert!(error.contains("neither a log of ArduPilot") && !error.contains("MAVLink"), "{error}");
        }
        // One whose first bytes are lost is one all the same.
        let log = super::dataflash::tests::sample(4);
        let found = super::parse(&[&[0x11; 7], &log[..]].concat()).unwrap();
        assert_eq!(found.fixes.len(), 4);
    }
}
