//! What a trace is like, from one pass over it.

use std::time::Duration;

use super::lines::quote;
use super::{TraceError, TraceFault};

/// What a trace measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// What the link could carry: it was saturated.
    Capacity,
    /// What some transport got out of it.
    Availability,
}

/// A trace in figures.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceInfo {
    /// Length of a cycle.
    pub duration: Duration,
    /// Opportunities or samples in a cycle.
    pub items: u64,
    /// Mean rate over a cycle, in bits per second, rounded down. 0 if the trace has no rates.
    pub mean_rate_bps: u64,
    /// Of the mean rates of all whole seconds of the trace, in bits per second. All 0 if the trace is shorter than a
    /// second.
    pub per_second_bps: Percentiles,
    /// The longest time without anything, also where the trace begins again: between two opportunities, or at a rate of
    /// 0.
    pub longest_outage: Duration,
    /// Mean loss over time, 0 to 1, if the trace has it (a CCQ counts as in the paper: 1 − CCQ).
    pub mean_loss: Option<f64>,
    /// Least and most delay, if the trace has it.
    pub delay: Option<(Duration, Duration)>,
    /// What was measured, if a comment says so.
    pub kind: Option<Kind>,
    /// Where it is from, if a comment says so.
    pub source: Option<String>,
    /// Under which licence it may be used, if a comment says so.
    pub licence: Option<String>,
    /// Columns of a CSV that were not used, at most 16.
    pub unused_columns: Vec<String>,
}

/// Quantiles. Within 1 % of the true ones, minimum and maximum exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// Least.
    pub min: u64,
    /// 5 in 100 are not above.
    pub p5: u64,
    /// 25 in 100.
    pub p25: u64,
    /// Median.
    pub p50: u64,
    /// 75 in 100.
    pub p75: u64,
    /// 95 in 100.
    pub p95: u64,
    /// Most.
    pub max: u64,
}

/// What comments say.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Provenance {
    pub(crate) kind: Option<Kind>,
    pub(crate) source: Option<String>,
    pub(crate) licence: Option<String>,
}

impl Provenance {
    /// Takes a line if it is a comment. The first one of a key counts.
    pub(crate) fn read(&mut self, line: &[u8], number: u64) -> Result<bool, TraceError> {
        let Some(text) = line.strip_prefix(b"#") else { return Ok(false) };
        let Some(colon) = text.iter().position(|byte| *byte == b':') else { return Ok(true) };
        let (key, value) = (text[..colon].trim_ascii(), text[colon + 1..].trim_ascii());
        let keep = |kept: &mut Option<String>| {
            kept.get_or_insert_with(|| {
                let text = String::from_utf8_lossy(value);
                text.chars().filter(|c| !c.is_control()).take(300).collect()
            });
        };
        match key.to_ascii_lowercase().as_slice() {
            b"source" => keep(&mut self.source),
            b"licence" | b"license" => keep(&mut self.licence),
            b"kind" => {
                let kind = match value.to_ascii_lowercase().as_slice() {
                    b"capacity" => Kind::Capacity,
                    b"availability" => Kind::Availability,
                    _ => return Err(TraceError::at(number, TraceFault::UnknownKind(quote(value)))),
                };
                self.kind.get_or_insert(kind);
            }
            _ => {}
        }
        Ok(true)
    }
}

/// Counts how much is carried in each whole second, in bounded memory.
///
/// Values fall into classes: exact below 128, above that 64 to each doubling.
#[derive(Debug)]
pub(crate) struct PerSecond {
    classes: Vec<u64>,
    seconds: u64,
    min: u64,
    max: u64,
}

impl PerSecond {
    pub(crate) fn new() -> Self {
        Self { classes: vec![0; 128 + 64 * 58], seconds: 0, min: u64::MAX, max: 0 }
    }

    /// So many seconds of `rate_bps` each.
    pub(crate) fn add(&mut self, rate_bps: u64, seconds: u64) {
        if seconds == 0 {
            return;
        }
        self.classes[class_of(rate_bps)] += seconds;
        self.seconds += seconds;
        self.min = self.min.min(rate_bps);
        self.max = self.max.max(rate_bps);
    }

    pub(crate) fn percentiles(&self) -> Percentiles {
        if self.seconds == 0 {
            return Percentiles::default();
        }
        Percentiles {
            min: self.min,
            p5: self.quantile(5),
            p25: self.quantile(25),
            p50: self.quantile(50),
            p75: self.quantile(75),
            p95: self.quantile(95),
            max: self.max,
        }
    }

    /// The middle of the class in which the quantile lies.
    fn quantile(&self, per_cent: u64) -> u64 {
        let rank = (u128::from(self.seconds) * u128::from(per_cent)).div_ceil(100).max(1);
        let mut seen = 0u128;
        for (class, count) in self.classes.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= rank {
                return middle_of(class).clamp(self.min, self.max);
            }
        }
        self.max
    }
}

fn class_of(value: u64) -> usize {
    if value < 128 {
        return value as usize;
    }
    // The leading one and six bits behind it.
    let shift = value.ilog2() - 6;
    128 + (shift as usize - 1) * 64 + ((value >> shift) as usize - 64)
}

fn middle_of(class: usize) -> u64 {
    if class < 128 {
        return class as u64;
    }
    let shift = (class - 128) / 64 + 1;
    let lowest = (64 + (class - 128) as u64 % 64) << shift;
    lowest + ((1 << shift) - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_cover_everything_within_one_per_cent() {
        for value in [0, 1, 127, 128, 129, 1_000, 999_999, 12_345_678, u64::MAX / 3, u64::MAX] {
            let middle = middle_of(class_of(value));
            assert!(middle.abs_diff(value) as f64 <= value as f64 * 0.008, "{value}: {middle}");
        }
        assert!(class_of(u64::MAX) < PerSecond::new().classes.len());
    }

    #[test]
    fn percentiles_of_one_to_a_hundred() {
        let mut seconds = PerSecond::new();
        (1..=100).for_each(|n| seconds.add(n, 1));
        let found = seconds.percentiles();
        assert_eq!(found, Percentiles { min: 1, p5: 5, p25: 25, p50: 50, p75: 75, p95: 95, max: 100 });
        assert_eq!(PerSecond::new().percentiles(), Percentiles::default());
    }

    #[test]
    fn many_seconds_at_once() {
        let mut seconds = PerSecond::new();
        seconds.add(0, u64::MAX / 200);
        seconds.add(5_000_000, 10);
        assert_eq!((seconds.percentiles().p95, seconds.percentiles().max), (0, 5_000_000));
    }

    #[test]
    fn comments_say_where_a_trace_is_from() {
        let mut found = Provenance::default();
        assert_eq!(found.read(b"12", 1), Ok(false));
        for comment in ["# Source: a flight", "#licence:CC0", "# kind: Capacity", "# source: another", "# note", "#"] {
            assert_eq!(found.read(comment.as_bytes(), 2), Ok(true), "{comment}");
        }
        assert_eq!(found.source.as_deref(), Some("a flight"));
        assert_eq!(found.licence.as_deref(), Some("CC0"));
        assert_eq!(found.kind, Some(Kind::Capacity));
        let error = found.read(b"# kind: guess", 7).unwrap_err();
        assert_eq!(error.to_string(), "line 7: kind `guess` is neither `capacity` nor `availability`");
    }
}
