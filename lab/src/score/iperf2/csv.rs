//! CSV: `time, address, port, address, port, id, interval, bytes, bit/s`, and of UDP what the receiver saw, `jitter, lost,
//! total, lost %, out of order`. Times are `YYYYMMDDhhmmss`, of whole seconds; with `-e` milliseconds follow.

use super::streams::{Interval, Stream, Streams};
use super::time;
use crate::score::input::number;

/// Fields of a sender's line, or of TCP.
const FIELDS: usize = 9;
/// Fields of a line with what the receiver of UDP saw.
const RECEIVER_FIELDS: usize = 14;
/// Digits of a time.
const DIGITS: usize = 14;

/// Whether a file begins so.
pub fn is_first_line(line: &[u8]) -> bool {
    let stamp = line.split(|byte| *byte == b',').next().unwrap_or_default();
    line.len() > stamp.len()
        && stamp.len() >= DIGITS
        && stamp[..DIGITS].iter().all(u8::is_ascii_digit)
        && [None, Some(&b'.')].contains(&stamp.get(DIGITS))
}

/// Lines one after the other.
#[derive(Debug, Default)]
pub struct Parser {
    /// What UDP receivers saw.
    received: Streams,
    /// The other lines. Beside a receiver's report they are what was sent.
    others: Streams,
}

impl Parser {
    /// The next line.
    pub fn line(&mut self, line: &str) -> Result<(), String> {
        if line.is_empty() {
            return Ok(());
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let is_received = fields.len() >= RECEIVER_FIELDS;
        if fields.len() != FIELDS && !is_received {
            return Err(format!("{} fields, but iperf's CSV has {FIELDS} or {RECEIVER_FIELDS}", fields.len()));
        }
        let printed_s = stamp(fields[0]).ok_or_else(|| format!("'{}' is no time as YYYYMMDDhhmmss", fields[0]))?;
        // The sum of parallel streams.
        if fields[5] == "-1" {
            return Ok(());
        }
        if is_received && fields[11] == "-1" {
            return Err("this is what a client sent, not what arrived: the server's output is needed".into());
        }
        let (from, to) = fields[6].split_once('-').ok_or_else(|| format!("'{}' is no interval", fields[6]))?;
        let (from_s, to_s) = (number("interval", from)?, number("interval", to)?);
        let interval = Interval { from_s, to_s, bits: number("bytes", fields[7])? * 8.0 };
        let streams = if is_received { &mut self.received } else { &mut self.others };
        streams.line(&fields[1..6].join(","), interval, Some(printed_s))
    }

    /// What counts.
    pub fn finish(self) -> Vec<Stream> {
        let received = self.received.finish();
        if received.is_empty() { self.others.finish() } else { received }
    }
}

/// Seconds since 1970, whatever the zone.
fn stamp(text: &str) -> Option<f64> {
    let (digits, fraction) = text.split_at_checked(DIGITS)?;
    let part = |from: usize, to: usize| digits.get(from..to)?.parse().ok();
    let whole = time::seconds([part(0, 4)?, part(4, 6)?, part(6, 8)?], [part(8, 10)?, part(10, 12)?, part(12, 14)?])?;
    match fraction {
        "" => Some(whole),
        _ => Some(whole + number("", &format!("0.{}", fraction.strip_prefix('.')?)).ok()?),
    }
}
