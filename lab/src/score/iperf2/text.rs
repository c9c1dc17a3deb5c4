//! What iperf prints for people:
//!
//! ```text
//! [  3] local 10.0.0.1 port 5001 connected with 10.0.0.2 port 48828
//! [ ID] Interval       Transfer     Bandwidth        Jitter   Lost/Total Datagrams
//! [  3]  0.0- 1.0 sec  1.20 MBytes  10.1 Mbits/sec   0.012 ms    0/  857 (0%)
//! ```
//!
//! Rates of bits count in thousands and rates of bytes in 1024s, as iperf prints them.

use super::streams::{Interval, Stream, Streams};
use super::time;
use crate::score::input::number;

/// What else a file may begin with than a bracket.
const BEGINNINGS: [&[u8]; 3] = [b"-----", b"Server listening", b"Client connecting"];

/// Whether a file begins so.
pub fn is_first_line(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    match line.strip_prefix(b"[").map(|rest| rest.trim_ascii_start().first()) {
        Some(next) => next.is_some_and(|next| next.is_ascii_alphanumeric() || *next == b'*'),
        None => BEGINNINGS.iter().any(|beginning| line.starts_with(beginning)),
    }
}

/// Lines one after the other.
#[derive(Debug, Default)]
pub struct Parser {
    streams: Streams,
}

impl Parser {
    /// The next line.
    pub fn line(&mut self, line: &str) -> Result<(), String> {
        let line = line.trim_start();
        if line.starts_with("Client connecting") && line.contains("UDP") {
            return Err("this is what a client sent, not what arrived: the server's output is needed".into());
        }
        let Some(rest) = line.strip_prefix('[') else { return Ok(()) };
        let (name, text) = rest.split_once(']').ok_or("the bracket is not closed")?;
        let (name, text) = (name.trim(), text.trim());
        // The heading, and sums of parallel streams.
        if name == "ID" || name.starts_with("SUM") {
            return Ok(());
        }
        if text.starts_with("local ") && text.contains(" connected with ") {
            self.streams.begin(name, date(text));
        } else if text.starts_with(|first: char| first.is_ascii_digit()) && !text.ends_with("received out-of-order") {
            self.streams.line(name, figures(text)?, None)?;
        }
        Ok(())
    }

    /// What counts.
    pub fn finish(self) -> Vec<Stream> {
        self.streams.finish()
    }
}

/// `0.0- 1.0 sec  1.20 MBytes  10.1 Mbits/sec` and whatever follows.
fn figures(text: &str) -> Result<Interval, String> {
    let (interval, rest) = text.split_once("sec ").ok_or("no interval in seconds")?;
    let (from, to) = interval.split_once('-').ok_or_else(|| format!("'{interval}' is no interval"))?;
    let (from_s, to_s) = (number("interval", from.trim())?, number("interval", to.trim())?);
    let mut words = rest.split_ascii_whitespace().skip(2);
    let (rate, unit) = words.next().zip(words.next()).ok_or("no transfer and rate behind the interval")?;
    let bps = number("rate", rate)? * bits_per_second(unit).ok_or_else(|| format!("'{unit}' is no unit of a rate"))?;
    Ok(Interval { from_s, to_s, bits: bps * (to_s - from_s) })
}

/// `Mbits/sec`, `KBytes/sec` and the like.
fn bits_per_second(unit: &str) -> Option<f64> {
    let (prefix, base, bits) = match unit.strip_suffix("bits/sec") {
        Some(prefix) => (prefix, 1000.0f64, 1.0),
        None => (unit.strip_suffix("Bytes/sec")?, 1024.0, 8.0),
    };
    let power = ["", "K", "M", "G", "T"].iter().position(|known| *known == prefix)?;
    Some(base.powi(power as i32) * bits)
}

/// `... on 2026-11-21 18:41:19 (UTC)`, as `-e` prints it.
fn date(text: &str) -> Option<f64> {
    let (_, text) = text.rsplit_once(" on ")?;
    let mut words = text.split_ascii_whitespace();
    let mut parts = |separator| {
        let mut numbers = words.next()?.split(separator).map(|number| number.parse().ok());
        let parts = [numbers.next()??, numbers.next()??, numbers.next()??];
        numbers.next().is_none().then_some(parts)
    };
    time::seconds(parts('-')?, parts(':')?)
}
