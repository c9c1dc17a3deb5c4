//! iperf 2: its CSV (`-y C`), and the lines it prints for people.
//!
//! Both say what arrived in each interval, in seconds since a stream's beginning, and at the end all of it once more; that
//! summary counts only if there were no intervals (`-i`). Where a stream is in time follows from the stamps of the CSV and
//! from the dates that `-e` prints; without either one test follows the other, since nothing says how long a pause was.
//! Streams that overlap (`-P`) are one test.

mod csv;
mod streams;
mod text;
mod time;

use std::io::BufRead;
use std::path::Path;

use super::input::{self, Seconds};
use super::{Rates, ScoreError, Test};
use streams::{Group, Interval, Stream};

/// Whether a file that begins with this line is iperf's.
pub fn is_csv(line: &[u8]) -> bool {
    csv::is_first_line(line)
}

/// Whether a file that begins with this line is what iperf prints for people. A bracket that JSON follows is none.
pub fn is_text(line: &[u8]) -> bool {
    text::is_first_line(line)
}

/// Reads CSV.
pub fn read_csv(path: &Path, reader: impl BufRead) -> Result<Rates, ScoreError> {
    let mut parser = csv::Parser::default();
    input::each_line(path, reader, |line| parser.line(line))?;
    rates(path, parser.finish())
}

/// Reads what a server prints for people.
pub fn read_text(path: &Path, reader: impl BufRead) -> Result<Rates, ScoreError> {
    let mut parser = text::Parser::default();
    input::each_line(path, reader, |line| parser.line(line))?;
    rates(path, parser.finish())
}

fn rates(path: &Path, streams: Vec<Stream>) -> Result<Rates, ScoreError> {
    let wrong = |message: &str| ScoreError::File { path: path.to_owned(), line: 0, message: message.to_owned() };
    let has_times = streams.iter().all(|stream| stream.began_s.is_some());
    let groups = streams::groups(streams);
    let first_s = groups.iter().map(Group::begin_s).fold(f64::INFINITY, f64::min);
    let tests: Vec<Test> = groups.iter().map(|group| group.test(first_s)).collect();
    let mut intervals: Vec<Interval> = groups.into_iter().flat_map(|group| group.intervals).collect();
    intervals.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
    let (mut seconds, mut covered_s) = (Seconds::default(), 0.0f64);
    for Interval { from_s, to_s, bits } in intervals {
        let (from_s, to_s) = (from_s - first_s, to_s - first_s);
        // What several streams cover is covered once, and carries what all of them do.
        if !seconds.carry(from_s, to_s, bits) || !seconds.cover(from_s.max(covered_s), to_s) {
            return Err(wrong("it is longer than 1,000,000 s"));
        }
        covered_s = covered_s.max(to_s);
    }
    let what = match tests.len() {
        0 => return Err(wrong("no tests in it")),
        1 => "iperf 2, 1 test".into(),
        count if has_times => format!("iperf 2, {count} tests"),
        count => format!("iperf 2, {count} tests, taken as without pauses: it has no times"),
    };
    Ok(Rates { what, seconds: seconds.finish(), tests })
}

#[cfg(test)]
mod tests;
