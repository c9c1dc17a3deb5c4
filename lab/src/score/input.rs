//! Rates over time from any of the files that are known.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use aquila_emu::trace::AnyTrace;

use super::{ScoreError, iperf3, links};
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
    /// So many bits, evenly from one time to another. False if that is beyond the longest file.
    #[must_use]
    pub(super) fn add(&mut self, from_s: f64, to_s: f64, bits: f64) -> bool {
        if !(from_s >= 0.0 && to_s > from_s && to_s <= MAX_SECONDS as f64) {
            return from_s >= 0.0 && to_s <= MAX_SECONDS as f64;
        }
        let last = ((to_s - 1e-9).max(0.0) as usize).min(MAX_SECONDS - 1);
        if self.sums.len() <= last {
            self.sums.resize(last + 1, (0.0, 0.0));
        }
        for second in (from_s as usize)..=last {
            let within = (to_s.min(second as f64 + 1.0) - from_s.max(second as f64)).max(0.0);
            self.sums[second].0 += bits * within / (to_s - from_s);
            self.sums[second].1 += within;
        }
        true
    }

    /// Rates of those seconds that are covered but for a hundredth.
    pub(super) fn finish(self) -> Vec<Option<f64>> {
        self.sums.into_iter().map(|(bits, covered)| (covered >= 0.99).then(|| bits / covered)).collect()
    }
}

/// Reads a file of any known kind: a trace in mahimahi's format or as CSV (a radio log counts as rate × CCQ), iperf3's
/// JSON, or a report's `links.csv`.
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
    if start.trim_ascii_start().first().is_some_and(|first| b"{[".contains(first)) {
        return iperf3::read(path);
    }
    if start.starts_with(b"variant,contender,seed,link,direction,time_s") {
        return links::read(path, open()?, choice);
    }
    of_trace(path)
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
