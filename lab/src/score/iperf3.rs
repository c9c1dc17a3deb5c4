//! iperf3's `--json`: one object for each test, one after the other or in a list.
//!
//! A test's place in time is its `start.timestamp.timesecs`, counted from the first test's. What counts is what the
//! receiver saw, if the file has it (`server_output_json`, from `--get-server-output`), else the intervals as they are.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::input::Seconds;
use super::{Rates, ScoreError, Test};

/// Largest file, bytes.
const MAX_FILE: u64 = 256 << 20;
/// Highest rate, bit/s: sums of such are numbers too.
const MAX_RATE: f64 = 1e18;

#[derive(Debug, Deserialize)]
struct Report {
    #[serde(default)]
    start: Start,
    #[serde(default)]
    intervals: Vec<Interval>,
    server_output_json: Option<Box<Report>>,
    error: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Start {
    timestamp: Option<Timestamp>,
}

#[derive(Debug, Deserialize)]
struct Timestamp {
    timesecs: f64,
}

#[derive(Debug, Deserialize)]
struct Interval {
    sum: Sum,
}

#[derive(Debug, Deserialize)]
struct Sum {
    start: f64,
    end: f64,
    bits_per_second: f64,
}

/// Reads the tests of a file.
pub fn read(path: &Path) -> Result<Rates, ScoreError> {
    let wrong = |line: usize, message: String| ScoreError::File { path: path.to_owned(), line: line as u64, message };
    let size = std::fs::metadata(path).map_err(|error| wrong(0, format!("cannot be read: {error}")))?.len();
    if size > MAX_FILE {
        return Err(wrong(0, format!("{size} bytes are too many for iperf's JSON")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(0, format!("cannot be read: {error}")))?;
    let mut reports = Vec::new();
    for value in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
        let value = value.map_err(|error| wrong(error.line(), error.to_string()))?;
        let all = if let Value::Array(all) = value { all } else { vec![value] };
        for value in all {
            let report = Report::deserialize(value).map_err(|error| wrong(0, format!("no iperf3 JSON: {error}")))?;
            reports.push(report);
        }
    }
    let first = reports.iter().filter_map(|report| Some(report.start.timestamp.as_ref()?.timesecs)).reduce(f64::min);
    let (mut seconds, mut tests, mut end) = (Seconds::default(), Vec::new(), 0.0f64);
    for (number, report) in reports.iter().enumerate() {
        let test = |message: String| wrong(0, format!("test {}: {message}", number + 1));
        if let Some(error) = &report.error {
            return Err(test(format!("iperf says: {error}")));
        }
        // Without time stamps one test follows the other.
        let start = report.start.timestamp.as_ref().zip(first).map_or(end, |(stamp, first)| stamp.timesecs - first);
        let intervals = report.server_output_json.as_ref().map_or(&report.intervals, |server| &server.intervals);
        let (mut bits, mut lasted) = (0.0, 0.0f64);
        for Interval { sum } in intervals {
            // A last interval of a few milliseconds is iperf's way to end.
            let is_sane = sum.start >= 0.0 && sum.end >= sum.start && (0.0..=MAX_RATE).contains(&sum.bits_per_second);
            if !is_sane || !seconds.add(start + sum.start, start + sum.end, sum.bits_per_second * (sum.end - sum.start))
            {
                return Err(test(format!("an interval from {} to {} s makes no sense", sum.start, sum.end)));
            }
            bits += sum.bits_per_second * (sum.end - sum.start);
            lasted = lasted.max(sum.end);
        }
        if lasted <= 0.0 {
            return Err(test("it has no intervals".into()));
        }
        tests.push(Test { from_s: start, to_s: start + lasted, mean_bps: bits / lasted });
        end = start + lasted;
    }
    if tests.is_empty() {
        return Err(wrong(0, "no tests in it".into()));
    }
    let side = if reports.iter().all(|report| report.server_output_json.is_some()) { ", receiver's side" } else { "" };
    let what = format!("iperf3, {} {}{side}", tests.len(), if tests.len() == 1 { "test" } else { "tests" });
    Ok(Rates { what, seconds: seconds.finish(), tests })
}
