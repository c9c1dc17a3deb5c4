//! Rates over time from any of the files that are known.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use aquila_emu::trace::AnyTrace;

use super::{ScoreError, iperf2, iperf3, links};
use crate::traces::{self, TraceFileError};

/// Rates over time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rates {
    /// What the file is.
    pub what: String,
    /// Mean rate of each second, bit/s; `None` where the file does not cover all of it.
    pub seconds: Vec<Option<f64>>,
    /// Tests, if the file has them.
    pub tests: Vec<Test>,
}

/// A test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Test {
    /// Its begin, seconds since that of the file.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// Its mean rate, bit/s.
    pub mean_bps: f64,
}

/// Which series of a report's `links.csv`; the first that fits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// Of this contender.
    pub contender: Option<String>,
    /// Of this link.
    pub link: Option<String>,
    /// `up` or `down`.
    pub direction: Option<String>,
}

/// Longest file, seconds: eleven days.
pub(super) const MAX_SECONDS: usize = 1_000_000;
/// Longest line, bytes.
const MAX_LINE: u64 = 4096;

impl Rates {
    /// Mean of what there is of a span of time; `None` if no second of it is covered.
    pub(super) fn mean_between(&self, from_s: f64, to_s: f64) -> Option<f64> {
        let (mut sum, mut weight) = (0.0, 0.0);
        for second in (from_s.max(0.0) as usize)..(to_s.max(0.0).ceil() as usize).min(self.seconds.len()) {
            let within = to_s.min(second as f64 + 1.0) - from_s.max(second as f64);
            if let Some(rate) = self.seconds[second].filter(|_| within > 0.0) {
                (sum, weight) = (sum + rate * within, weight + within);
            }
        }
        (weight > 0.0).then(|| sum / weight)
    }
}

/// Bits by second, and how much of each second is covered.
#[derive(Debug, Default)]
pub(super) struct Seconds {
    sums: Vec<(f64, f64)>,
}

impl Seconds {
    /// So many bits, evenly from one time to another, which is covered by them. False if that is beyond the longest file.
    #[must_use]
    pub(super) fn add(&mut self, from_s: f64, to_s: f64, bits: f64) -> bool {
        self.carry(from_s, to_s, bits) && self.cover(from_s, to_s)
    }

    /// The bits alone.
    #[must_use]
    pub(super) fn carry(&mut self, from_s: f64, to_s: f64, bits: f64) -> bool {
        self.each(from_s, to_s, |sums, within| sums.0 += bits * within / (to_s - from_s))
    }

    /// The cover alone.
    #[must_use]
    pub(super) fn cover(&mut self, from_s: f64, to_s: f64) -> bool {
        self.each(from_s, to_s, |sums, within| sums.1 += within)
    }

    /// Every second of a span, and how much of it is within.
    fn each(&mut self, from_s: f64, to_s: f64, mut add: impl FnMut(&mut (f64, f64), f64)) -> bool {
        if !(from_s >= 0.0 && to_s > from_s && to_s <= MAX_SECONDS as f64) {
            return from_s >= 0.0 && to_s <= MAX_SECONDS as f64;
        }
        let last = ((to_s - 1e-9).max(0.0) as usize).min(MAX_SECONDS - 1);
        if self.sums.len() <= last {
            self.sums.resize(last + 1, (0.0, 0.0));
        }
        for second in (from_s as usize)..=last {
            add(&mut self.sums[second], (to_s.min(second as f64 + 1.0) - from_s.max(second as f64)).max(0.0));
        }
        true
    }

    /// Rates of those seconds that are covered but for a hundredth.
    pub(super) fn finish(self) -> Vec<Option<f64>> {
        self.sums.into_iter().map(|(bits, covered)| (covered >= 0.99).then(|| bits / covered)).collect()
    }
}

/// Reads a file of any known kind: a trace in mahimahi's format or as CSV (a radio log counts as rate × CCQ), iperf3's
/// JSON, iperf 2's CSV or text, or a report's `links.csv`.
///
/// # Errors
/// [`ScoreError`], with line and reason.
pub fn read(path: &Path, choice: &Choice) -> Result<Rates, ScoreError> {
    let open = || {
        let file = if path.is_dir() { Err(std::io::Error::other("it is a directory")) } else { File::open(path) };
        file.map(BufReader::new).map_err(|error| TraceFileError::Open { path: path.to_owned(), error })
    };
    let mut start = Vec::new();
    let mut reader = open()?;
    reader
        .by_ref()
        .take(256)
        .read_until(b'\n', &mut start)
        .map_err(|error| TraceFileError::Open { path: path.to_owned(), error })?;
    if iperf2::is_text(&start) {
        return iperf2::read_text(path, open()?);
    }
    if start.trim_ascii_start().first().is_some_and(|first| b"{[".contains(first)) {
        return iperf3::read(path);
    }
    if iperf2::is_csv(&start) {
        return iperf2::read_csv(path, open()?);
    }
    if start.starts_with(b"variant,contender,seed,link,direction,time_s") {
        return links::read(path, open()?, choice);
    }
    of_trace(path)
}

/// Calls `take` with each line in turn, without its end. What it finds wrong is said with the line's number.
pub(super) fn each_line(
    path: &Path,
    mut reader: impl BufRead,
    mut take: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), ScoreError> {
    let mut line = String::new();
    for number in 1.. {
        let wrong = |message: String| ScoreError::File { path: path.to_owned(), line: number, message };
        line.clear();
        let read = reader.by_ref().take(MAX_LINE).read_line(&mut line);
        let bytes = read.map_err(|error| wrong(format!("cannot be read: {error}")))?;
        if bytes == 0 {
            break;
        }
        if bytes as u64 == MAX_LINE {
            return Err(wrong(format!("the line is longer than {MAX_LINE} bytes")));
        }
        take(line.trim_end()).map_err(wrong)?;
    }
    Ok(())
}

/// A number of at least 0, and of a size that sums and products of it are numbers too.
pub(super) fn number(name: &str, text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1e18).contains(&value) => Ok(value),
        _ => Err(format!("{name}: '{text}' is not a number of at least 0")),
    }
}

fn of_trace(path: &Path) -> Result<Rates, ScoreError> {
    let file = |message: &str| ScoreError::File { path: path.to_owned(), line: 0, message: message.to_owned() };
    let trace = traces::open(path)?;
    if trace.info().mean_rate_bps == 0 {
        return Err(file("it has no rates"));
    }
    let what = match &trace {
        AnyTrace::Mahimahi(_) => "a mahimahi trace",
        AnyTrace::Csv(_) if trace.info().mean_loss.is_some() => "a CSV trace, less its loss",
        AnyTrace::Csv(_) => "a CSV trace",
    };
    let mut seconds = Seconds::default();
    let (mut at, mut rate) = (0.0, 0.0);
    for sample in traces::samples(trace, Duration::from_secs(1)) {
        let sample = sample.map_err(|error| TraceFileError::Trace { path: path.to_owned(), error })?;
        let end = at + sample.lasts.as_secs_f64();
        rate = sample.rate_bps.map_or(rate, |bps| bps as f64);
        let arrives = sample.ccq.unwrap_or(1.0 - sample.loss.unwrap_or(0.0));
        if !seconds.add(at, end, rate * arrives * (end - at)) {
            return Err(file("it is longer than 1,000,000 s"));
        }
        at = end;
    }
    Ok(Rates { what: what.into(), seconds: seconds.finish(), tests: Vec::new() })
}
