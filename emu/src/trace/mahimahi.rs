//! mahimahi's packet-delivery traces.
//!
//! One whole number to a line: the milliseconds since the start at which there is an opportunity to deliver 1500 bytes.
//! Numbers never go back; several lines with the same number are several opportunities. The last number is the length
//! of the trace, after which it repeats. How opportunities are used: [`Opportunities`].
//!
//! Refused are: empty lines, anything but digits, times that go back or are beyond 10¹² ms (31 years), a trace without
//! opportunities, and one whose last time is 0. Lines may end with `\r\n`. Comments are taken, though mahimahi itself
//! does not; see [`super`].

use std::io::{BufRead, Seek, SeekFrom};
use std::time::Duration;

use super::info::{PerSecond, Provenance};
use super::lines::{Lines, quote};
use super::{Percentiles, Source, TraceError, TraceFault, TraceInfo};
use crate::cell::opportunities::Opportunities;

/// Bytes of one opportunity.
pub const OPPORTUNITY_BYTES: usize = 1500;

/// The latest time, in milliseconds.
const LATEST_MS: u64 = 1_000_000_000_000;

/// A trace that is read while it is played.
#[derive(Debug)]
pub struct MahimahiTrace<R> {
    items: Items<R>,
    info: TraceInfo,
}

impl<R: BufRead + Seek + std::fmt::Debug + Send> MahimahiTrace<R> {
    /// Checks the whole trace, from where the reader stands to its end, and puts the reader back.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and where.
    pub fn open(mut reader: R) -> Result<Self, TraceError> {
        let start = reader.stream_position().map_err(unreadable)?;
        let info = scan(&mut reader)?;
        reader.seek(SeekFrom::Start(start)).map_err(unreadable)?;
        Ok(Self { items: Items::new(reader, start), info })
    }

    /// What it is like.
    pub fn info(&self) -> &TraceInfo {
        &self.info
    }

    /// Ready to be played, with opportunities of 1500 bytes.
    pub fn into_opportunities(self) -> Opportunities
    where
        R: 'static,
    {
        let mean_rate_bps = self.info.mean_rate_bps;
        Opportunities { source: Box::new(self), bytes: OPPORTUNITY_BYTES, mean_rate_bps }
    }
}

impl<R: BufRead + Seek + std::fmt::Debug + Send> Source<Duration> for MahimahiTrace<R> {
    fn next_item(&mut self) -> Result<Option<Duration>, TraceError> {
        Ok(self.items.next(&mut None)?.map(Duration::from_millis))
    }

    fn rewind(&mut self) -> Result<(), TraceError> {
        self.items.lines.reader_mut().seek(SeekFrom::Start(self.items.start)).map_err(unreadable)?;
        self.items.lines.restart();
        self.items.last = 0;
        Ok(())
    }
}

/// Reads a whole trace and says what it is like, or what is wrong with it and where.
///
/// # Errors
///
/// The first thing that is wrong.
pub fn scan(reader: impl BufRead) -> Result<TraceInfo, TraceError> {
    let mut items = Items::new(reader, 0);
    let mut provenance = Some(Provenance::default());
    let mut seconds = Seconds::new();
    let (mut first, mut last, mut count, mut longest_gap) = (None, 0, 0u64, 0);
    while let Some(ms) = items.next(&mut provenance)? {
        if first.is_some() {
            longest_gap = longest_gap.max(ms - last);
        }
        first.get_or_insert(ms);
        last = ms;
        count += 1;
        seconds.add(ms / 1000);
    }
    let Some(first) = first else { return Err(TraceError::at(0, TraceFault::Empty)) };
    if last == 0 {
        return Err(TraceError::at(items.lines.number(), TraceFault::NoLength));
    }
    let bits = u128::from(count) * OPPORTUNITY_BYTES as u128 * 8;
    let Provenance { kind, source, licence } = provenance.unwrap_or_default();
    Ok(TraceInfo {
        duration: Duration::from_millis(last),
        items: count,
        mean_rate_bps: u64::try_from(bits * 1000 / u128::from(last)).unwrap_or(u64::MAX),
        per_second_bps: seconds.finish(last),
        // From the last opportunity, which is the end, to the first of the next cycle.
        longest_outage: Duration::from_millis(longest_gap.max(first)),
        mean_loss: None,
        delay: None,
        kind,
        source,
        licence,
        unused_columns: Vec::new(),
    })
}

#[derive(Debug)]
struct Items<R> {
    lines: Lines<R>,
    /// Where the trace begins in the reader.
    start: u64,
    last: u64,
}

impl<R: BufRead> Items<R> {
    fn new(reader: R, start: u64) -> Self {
        Self { lines: Lines::new(reader), start, last: 0 }
    }

    /// The next time in milliseconds. Comments go to `provenance`.
    fn next(&mut self, provenance: &mut Option<Provenance>) -> Result<Option<u64>, TraceError> {
        while self.lines.advance()? {
            let line = self.lines.line();
            if line.is_empty() {
                return Err(self.lines.error(TraceFault::EmptyLine));
            }
            if line[0] == b'#' {
                if let Some(provenance) = provenance {
                    provenance.read(line, self.lines.number())?;
                }
                continue;
            }
            let mut ms = 0u64;
            for byte in line {
                if !byte.is_ascii_digit() {
                    return Err(self.lines.error(TraceFault::NotANumber(quote(line))));
                }
                ms = ms.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
            }
            if ms > LATEST_MS {
                let (column, bound) = ("time", "10^12 ms");
                return Err(self.lines.error(TraceFault::TooLarge { column, text: quote(line), bound }));
            }
            if ms < self.last {
                return Err(self.lines.error(TraceFault::GoesBack));
            }
            self.last = ms;
            return Ok(Some(ms));
        }
        Ok(None)
    }
}

/// Opportunities of each second.
struct Seconds {
    all: PerSecond,
    second: u64,
    count: u64,
}

impl Seconds {
    fn new() -> Self {
        Self { all: PerSecond::new(), second: 0, count: 0 }
    }

    fn add(&mut self, second: u64) {
        self.go_to(second);
        self.count += 1;
    }

    fn go_to(&mut self, second: u64) {
        if second > self.second {
            self.all.add(self.count.saturating_mul(OPPORTUNITY_BYTES as u64 * 8), 1);
            self.all.add(0, second - self.second - 1);
            self.second = second;
            self.count = 0;
        }
    }

    /// Whole seconds only.
    fn finish(mut self, last_ms: u64) -> Percentiles {
        self.go_to(last_ms / 1000);
        self.all.percentiles()
    }
}

pub(super) fn unreadable(error: std::io::Error) -> TraceError {
    TraceError::at(0, TraceFault::Io(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn fault(text: &str) -> (u64, TraceFault) {
        let error = scan(text.as_bytes()).unwrap_err();
        (error.line, error.fault)
    }

    #[test]
    fn a_trace_in_figures() {
        // 3 opportunities in second 0, none in 1, 1 in second 2, and the last one at the end of it.
        let info = scan("# kind: capacity\n# source: by hand\n100\n100\n900\n2500\n3000\n".as_bytes()).unwrap();
        assert_eq!(info.duration, Duration::from_secs(3));
        assert_eq!((info.items, info.mean_rate_bps), (5, 20_000));
        assert_eq!(info.longest_outage, Duration::from_millis(1600));
        assert_eq!((info.per_second_bps.min, info.per_second_bps.max), (0, 36_000));
        // Within 1 %.
        assert!(info.per_second_bps.p50.abs_diff(12_000) < 120);
        assert_eq!((info.kind, info.source.as_deref()), (Some(super::super::Kind::Capacity), Some("by hand")));
    }

    #[test]
    fn the_gap_over_the_end_counts() {
        assert_eq!(scan("800\n1000".as_bytes()).unwrap().longest_outage, Duration::from_millis(800));
    }

    #[test]
    fn what_is_malformed_is_refused_with_its_line() {
        assert_eq!(fault(""), (0, TraceFault::Empty));
        assert_eq!(fault("# only a comment\n"), (0, TraceFault::Empty));
        assert_eq!(fault("0\n0\n"), (2, TraceFault::NoLength));
        assert_eq!(fault("1\n\n2\n"), (2, TraceFault::EmptyLine));
        assert_eq!(fault("5\n4\n"), (2, TraceFault::GoesBack));
        assert_eq!(fault("5\n-4\n"), (2, TraceFault::NotANumber("-4".into())));
        assert_eq!(fault("1.5\n"), (1, TraceFault::NotANumber("1.5".into())));
        assert_eq!(fault(" 1\n"), (1, TraceFault::NotANumber(" 1".into())));
        assert_eq!(fault("time,rate\n"), (1, TraceFault::NotANumber("time,rate".into())));
        assert!(matches!(fault("1\n1000000000001\n"), (2, TraceFault::TooLarge { .. })));
        assert!(matches!(fault("99999999999999999999999\n"), (1, TraceFault::TooLarge { .. })));
        assert_eq!(fault(&"1".repeat(5_000)), (1, TraceFault::LineTooLong));
        assert_eq!(scan("5\n4\n".as_bytes()).unwrap_err().to_string(), "line 2: time goes back");
    }

    #[test]
    fn it_can_be_read_again_from_where_it_began() {
        let mut reader = Cursor::new(b"skip me\n3\r\n# half-way\n5\n".to_vec());
        reader.set_position(8);
        let mut trace = MahimahiTrace::open(reader).unwrap();
        for _ in 0..3 {
            assert_eq!(trace.next_item(), Ok(Some(Duration::from_millis(3))));
            assert_eq!(trace.next_item(), Ok(Some(Duration::from_millis(5))));
            assert_eq!(trace.next_item(), Ok(None));
            trace.rewind().unwrap();
        }
    }

    #[test]
    fn thirty_years_without_anything_are_counted_at_once() {
        let info = scan("0\n1000000000000\n".as_bytes()).unwrap();
        assert_eq!(info.longest_outage.as_secs(), 1_000_000_000);
        assert_eq!(info.per_second_bps.p50, 0);
    }
}
