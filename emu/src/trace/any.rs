//! A trace of either format.

use std::io::{BufRead, Seek, SeekFrom};
use std::time::Instant;

use super::lines::Lines;
use super::mahimahi::unreadable;
use super::{CsvTrace, MahimahiTrace, TraceError, TraceFault, TraceInfo};
use crate::cell::ccq::CcqMode;
use crate::packet::Payload;
use crate::path::Path;

/// A trace whose format follows from its first line that is not a comment: mahimahi's if that begins with a digit, else
/// CSV.
#[derive(Debug)]
pub enum AnyTrace<R> {
    /// Opportunities.
    Mahimahi(MahimahiTrace<R>),
    /// Samples.
    Csv(CsvTrace<R>),
}

impl<R: BufRead + Seek + std::fmt::Debug + Send + 'static> AnyTrace<R> {
    /// Checks the whole trace, from where the reader stands to its end, and puts the reader back.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and where.
    pub fn open(mut reader: R) -> Result<Self, TraceError> {
        let start = reader.stream_position().map_err(unreadable)?;
        let mut lines = Lines::new(&mut reader);
        let first = loop {
            if !lines.advance()? {
                return Err(TraceError::at(0, TraceFault::Empty));
            }
            match lines.line().first() {
                Some(b'#') => {}
                first => break first.copied(),
            }
        };
        reader.seek(SeekFrom::Start(start)).map_err(unreadable)?;
        match first {
            Some(first) if !first.is_ascii_digit() => CsvTrace::open(reader).map(Self::Csv),
            _ => MahimahiTrace::open(reader).map(Self::Mahimahi),
        }
    }

    /// What it is like.
    pub fn info(&self) -> &TraceInfo {
        match self {
            Self::Mahimahi(trace) => trace.info(),
            Self::Csv(trace) => trace.info(),
        }
    }

    /// Plays it on a path, from `start` on. `ccq`: what the CCQ of a CSV means.
    pub fn play<T: Payload>(self, path: &mut Path<T>, now: Instant, start: Instant, ccq: CcqMode) {
        match self {
            Self::Mahimahi(trace) => path.play_opportunities(now, start, trace.into_opportunities()),
            Self::Csv(trace) => path.play_samples(now, start, trace.into_samples(ccq)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn the_first_line_says_the_format() {
        let open = |text: &'static str| AnyTrace::open(Cursor::new(text));
        assert!(matches!(open("# a comment\n5\n"), Ok(AnyTrace::Mahimahi(_))));
        assert!(matches!(open("# a comment\ntime_s,loss\n0,0\n"), Ok(AnyTrace::Csv(_))));
        assert_eq!(open("#\n").unwrap_err().fault, TraceFault::Empty);
        assert_eq!(open("\n5\n").unwrap_err(), TraceError::at(1, TraceFault::EmptyLine));
        assert_eq!(open("-5\n").unwrap_err(), TraceError::at(1, TraceFault::NoColumn("time")));
        assert_eq!(open("5\n").unwrap().info().items, 1);
    }
}
