//! Samples of a link as CSV: what it was like, span by span, usually second by second.
//!
//! The first line that is not a comment is the header; its names say the units:
//!
//! | quantity | column | values |
//! |---|---|---|
//! | time, needed | `time_s` or `time_ms` | grows by 1 µs or more; the first is the start; at most 10⁹ s from it |
//! | rate | `rate_bps`, `rate_kbps` or `rate_mbps` | bits per second; at most 10¹² |
//! | delay, one way | `delay_s`, `delay_ms` or `delay_us` | at most 600 s |
//! | loss | `loss` or `loss_percent` | 0 to 1, or 0 to 100 |
//! | CCQ | `ccq` or `ccq_percent` | 0 to 1, or 0 to 100; not together with loss |
//!
//! At least one besides the time is needed. Values are plain decimals, exact to a nanosecond, a bit per second and
//! 10⁻⁹; no sign, no exponent, no `nan`; no empty fields, no quotes. A column with the name of a quantity and another
//! unit is refused; columns of other names are not used, and told ([`TraceInfo::unused_columns`]).
//!
//! A row's values hold from its time to the next row's, the last row's as long as the one's before it; a single row's
//! for a second. Then the trace begins again. A trace that has rates and never a rate above 0 is refused.

use std::io::{BufRead, Seek, SeekFrom};
use std::time::Duration;

use super::info::{PerSecond, Provenance};
use super::lines::{Lines, quote};
use super::mahimahi::unreadable;
use super::{Source, TraceError, TraceFault, TraceInfo, decimal};
use crate::cell::ccq::CcqMode;
use crate::cell::samples::{Sample, Samples};

/// More columns than this are refused.
pub const MAX_COLUMNS: usize = 64;

/// For messages.
pub(super) const KNOWN_COLUMNS: &str = "time_s, time_ms, rate_bps, rate_kbps, rate_mbps, delay_s, delay_ms, delay_us, \
                                        loss, loss_percent, ccq, ccq_percent";

/// A trace that is read while it is played.
#[derive(Debug)]
pub struct CsvTrace<R> {
    rows: Rows<R>,
    start: u64,
    info: TraceInfo,
}

impl<R: BufRead + Seek + std::fmt::Debug + Send> CsvTrace<R> {
    /// Checks the whole trace, from where the reader stands to its end, and puts the reader back.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and where.
    pub fn open(mut reader: R) -> Result<Self, TraceError> {
        let start = reader.stream_position().map_err(unreadable)?;
        let info = scan(&mut reader)?;
        reader.seek(SeekFrom::Start(start)).map_err(unreadable)?;
        let rows = Rows::new(reader, &mut Provenance::default())?;
        Ok(Self { rows, start, info })
    }

    /// What it is like.
    pub fn info(&self) -> &TraceInfo {
        &self.info
    }

    /// Ready to be played.
    pub fn into_samples(self, ccq: CcqMode) -> Samples
    where
        R: 'static,
    {
        Samples { source: Box::new(self), ccq }
    }
}

impl<R: BufRead + Seek + std::fmt::Debug + Send> Source<Sample> for CsvTrace<R> {
    fn next_item(&mut self) -> Result<Option<Sample>, TraceError> {
        self.rows.next(&mut Provenance::default())
    }

    fn rewind(&mut self) -> Result<(), TraceError> {
        self.rows.lines.reader_mut().seek(SeekFrom::Start(self.start)).map_err(unreadable)?;
        self.rows.restart(&mut Provenance::default())
    }
}

/// Reads a whole trace and says what it is like, or what is wrong with it and where.
///
/// # Errors
///
/// The first thing that is wrong.
pub fn scan(reader: impl BufRead) -> Result<TraceInfo, TraceError> {
    let mut provenance = Provenance::default();
    let mut rows = Rows::new(reader, &mut provenance)?;
    let mut figures = Figures::new();
    while let Some(sample) = rows.next(&mut provenance)? {
        figures.add(&sample);
    }
    if figures.items == 0 {
        return Err(TraceError::at(0, TraceFault::Empty));
    }
    if rows.columns.has(Quantity::Rate) && figures.bits == 0 {
        return Err(TraceError::at(0, TraceFault::NoCapacity));
    }
    Ok(figures.finish(provenance, rows.columns.unused))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    Time,
    Rate,
    Delay,
    Loss,
    Ccq,
}

impl Quantity {
    const ALL: [Self; 5] = [Self::Time, Self::Rate, Self::Delay, Self::Loss, Self::Ccq];

    fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Rate => "rate",
            Self::Delay => "delay",
            Self::Loss => "loss",
            Self::Ccq => "ccq",
        }
    }

    /// Decimal places from the unit to nanoseconds, bits per second or 10⁻⁹.
    fn places(self, unit: &[u8]) -> Option<u32> {
        match (self, unit) {
            (Self::Time | Self::Delay, b"_s") => Some(9),
            (Self::Time | Self::Delay, b"_ms") => Some(6),
            (Self::Delay, b"_us") => Some(3),
            (Self::Rate, b"_bps") => Some(0),
            (Self::Rate, b"_kbps") => Some(3),
            (Self::Rate, b"_mbps") => Some(6),
            (Self::Loss | Self::Ccq, b"") => Some(9),
            (Self::Loss | Self::Ccq, b"_percent") => Some(7),
            _ => None,
        }
    }

    /// The largest value, and for messages.
    fn bound(self) -> (u64, &'static str) {
        match self {
            // From the first row on; checked there.
            Self::Time => (u64::MAX - 1, "10^9 s after the first"),
            Self::Rate => (1_000_000_000_000, "10^12 bit/s"),
            Self::Delay => (600_000_000_000, "600 s"),
            Self::Loss | Self::Ccq => (PARTS, "the whole"),
        }
    }
}

/// Parts of a share.
const PARTS: u64 = 1_000_000_000;
/// The shortest row, in nanoseconds.
const SHORTEST: u64 = 1_000;
/// The longest trace, in nanoseconds.
const LONGEST: u64 = 1_000_000_000 * 1_000_000_000;

/// Which column is what.
#[derive(Debug)]
struct Columns {
    used: Vec<Option<(Quantity, u32)>>,
    unused: Vec<String>,
}

impl Columns {
    fn parse(line: &[u8], number: u64) -> Result<Self, TraceError> {
        let error = |fault| TraceError::at(number, fault);
        let mut columns = Self { used: Vec::new(), unused: Vec::new() };
        for name in line.split(|byte| *byte == b',') {
            if columns.used.len() == MAX_COLUMNS {
                return Err(error(TraceFault::ManyColumns));
            }
            let name = name.trim_ascii().to_ascii_lowercase();
            let known = Quantity::ALL.iter().find_map(|quantity| {
                let unit = name.strip_prefix(quantity.name().as_bytes())?;
                (unit.is_empty() || unit[0] == b'_').then_some((*quantity, unit))
            });
            match known {
                Some((quantity, unit)) => {
                    let places = quantity.places(unit);
                    let places = places.ok_or_else(|| error(TraceFault::UnknownUnit(quote(&name))))?;
                    if columns.has(quantity) {
                        return Err(error(TraceFault::TwoColumns(quantity.name())));
                    }
                    columns.used.push(Some((quantity, places)));
                }
                None => {
                    columns.used.push(None);
                    if columns.unused.len() < 16 {
                        columns.unused.push(quote(&name));
                    }
                }
            }
        }
        if !columns.has(Quantity::Time) {
            return Err(error(TraceFault::NoColumn("time")));
        }
        if columns.has(Quantity::Loss) && columns.has(Quantity::Ccq) {
            return Err(error(TraceFault::TwoColumns("loss (CCQ is one)")));
        }
        if Quantity::ALL[1..].iter().all(|quantity| !columns.has(*quantity)) {
            return Err(error(TraceFault::NoColumn("rate, the delay, the loss or the CCQ")));
        }
        Ok(columns)
    }

    fn has(&self, quantity: Quantity) -> bool {
        self.used.iter().flatten().any(|(used, _)| *used == quantity)
    }
}

/// A row as it stands, in nanoseconds, bits per second and parts of 10⁹.
#[derive(Debug, Clone, Copy)]
struct Row {
    time: u64,
    values: [Option<u64>; 5],
}

#[derive(Debug)]
struct Rows<R> {
    lines: Lines<R>,
    columns: Columns,
    /// The next row to give out; its length follows from the one behind it.
    row: Option<Row>,
    first: Option<u64>,
    /// Length of the row before.
    lasted: Option<u64>,
}

impl<R: BufRead> Rows<R> {
    fn new(reader: R, provenance: &mut Provenance) -> Result<Self, TraceError> {
        let mut rows = Self {
            lines: Lines::new(reader),
            columns: Columns { used: Vec::new(), unused: Vec::new() },
            row: None,
            first: None,
            lasted: None,
        };
        rows.restart(provenance)?;
        Ok(rows)
    }

    /// The reader stands at the beginning.
    fn restart(&mut self, provenance: &mut Provenance) -> Result<(), TraceError> {
        self.lines.restart();
        (self.row, self.first, self.lasted) = (None, None, None);
        if !self.advance(provenance)? {
            return Err(TraceError::at(0, TraceFault::Empty));
        }
        // Spreadsheets begin their UTF-8 with a mark.
        let header = self.lines.line();
        let header = header.strip_prefix(b"\xef\xbb\xbf").unwrap_or(header);
        self.columns = Columns::parse(header, self.lines.number())?;
        self.row = self.read(provenance)?;
        Ok(())
    }

    fn next(&mut self, provenance: &mut Provenance) -> Result<Option<Sample>, TraceError> {
        let Some(row) = self.row else { return Ok(None) };
        self.row = self.read(provenance)?;
        let lasts = match self.row {
            Some(next) => next.time - row.time,
            None => self.lasted.unwrap_or(PARTS),
        };
        self.lasted = Some(lasts);
        let value = |quantity: Quantity| row.values[quantity as usize];
        // One rounding, as IEEE 754 has it.
        let share = |quantity| value(quantity).map(|parts| parts as f64 / PARTS as f64);
        Ok(Some(Sample {
            lasts: Duration::from_nanos(lasts),
            rate_bps: value(Quantity::Rate),
            delay: value(Quantity::Delay).map(Duration::from_nanos),
            loss: share(Quantity::Loss),
            ccq: share(Quantity::Ccq),
        }))
    }

    /// Goes to the next line that is not a comment.
    fn advance(&mut self, provenance: &mut Provenance) -> Result<bool, TraceError> {
        while self.lines.advance()? {
            if !provenance.read(self.lines.line(), self.lines.number())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn read(&mut self, provenance: &mut Provenance) -> Result<Option<Row>, TraceError> {
        if !self.advance(provenance)? {
            return Ok(None);
        }
        let line = self.lines.line();
        if line.is_empty() {
            return Err(self.lines.error(TraceFault::EmptyLine));
        }
        let mut values = [None; 5];
        let mut fields = 0;
        for field in line.split(|byte| *byte == b',') {
            if let Some(Some((quantity, places))) = self.columns.used.get(fields) {
                values[*quantity as usize] = Some(self.value(*quantity, *places, field)?);
            }
            fields += 1;
        }
        let expected = self.columns.used.len();
        if fields != expected {
            return Err(self.lines.error(TraceFault::Fields { found: fields, expected }));
        }
        let time = values[Quantity::Time as usize].unwrap_or(0);
        match self.row.map(|row| time.checked_sub(row.time)) {
            Some(None) => return Err(self.lines.error(TraceFault::GoesBack)),
            Some(Some(lasts)) if lasts < SHORTEST => return Err(self.lines.error(TraceFault::TooClose)),
            _ => {}
        }
        if time.saturating_sub(*self.first.get_or_insert(time)) > LONGEST {
            let (column, bound) = ("time", Quantity::Time.bound().1);
            return Err(self.lines.error(TraceFault::TooLarge { column, text: format!("{time} ns"), bound }));
        }
        Ok(Some(Row { time, values }))
    }

    fn value(&self, quantity: Quantity, places: u32, field: &[u8]) -> Result<u64, TraceError> {
        let value = decimal::parse(field, places);
        let value = value.ok_or_else(|| self.lines.error(TraceFault::NotANumber(quote(field))))?;
        let (most, bound) = quantity.bound();
        if value <= most {
            return Ok(value);
        }
        let (column, text) = (quantity.name(), quote(field.trim_ascii()));
        Err(self.lines.error(match quantity {
            Quantity::Loss | Quantity::Ccq => TraceFault::NotAShare { column, text, bound },
            _ => TraceFault::TooLarge { column, text, bound },
        }))
    }
}

/// Adds up what is told of a trace.
struct Figures {
    items: u64,
    nanos: u64,
    /// Bit-nanoseconds.
    bits: u128,
    seconds: PerSecond,
    /// Of the second that has begun.
    second_bits: u128,
    has_rate: bool,
    outage: u64,
    longest_outage: u64,
    /// The outage that the trace begins with, while it has not ended.
    first_outage: Option<u64>,
    /// Loss in 10⁻⁹, times nanoseconds.
    loss: Option<u128>,
    delay: Option<(Duration, Duration)>,
}

impl Figures {
    fn new() -> Self {
        Self {
            items: 0,
            nanos: 0,
            bits: 0,
            seconds: PerSecond::new(),
            second_bits: 0,
            has_rate: false,
            outage: 0,
            longest_outage: 0,
            first_outage: None,
            loss: None,
            delay: None,
        }
    }

    fn add(&mut self, sample: &Sample) {
        let lasts = sample.lasts.as_nanos() as u64;
        self.items += 1;
        if let Some(rate) = sample.rate_bps {
            self.has_rate = true;
            self.add_rate(rate, lasts);
        }
        if let Some(loss) = sample.loss.or(sample.ccq.map(|ccq| 1.0 - ccq)) {
            *self.loss.get_or_insert(0) += u128::from((loss * PARTS as f64) as u64) * u128::from(lasts);
        }
        if let Some(delay) = sample.delay {
            let (least, most) = self.delay.get_or_insert((delay, delay));
            *least = (*least).min(delay);
            *most = (*most).max(delay);
        }
        self.nanos = self.nanos.saturating_add(lasts);
    }

    fn add_rate(&mut self, rate: u64, lasts: u64) {
        self.bits += u128::from(rate) * u128::from(lasts);
        if rate == 0 {
            self.outage = self.outage.saturating_add(lasts);
            self.longest_outage = self.longest_outage.max(self.outage);
        } else {
            self.first_outage.get_or_insert(self.outage);
            self.outage = 0;
        }
        // What completes the second that has begun, whole seconds, and what begins another.
        let begun = self.nanos % PARTS;
        let (mut left, rest) = (lasts, if begun == 0 { 0 } else { (PARTS - begun).min(lasts) });
        self.second_bits += u128::from(rate) * u128::from(rest);
        left -= rest;
        if begun > 0 && begun + rest == PARTS {
            self.end_second();
        }
        self.seconds.add(rate, left / PARTS);
        self.second_bits += u128::from(rate) * u128::from(left % PARTS);
    }

    fn end_second(&mut self) {
        let bits = std::mem::take(&mut self.second_bits) / u128::from(PARTS);
        self.seconds.add(u64::try_from(bits).unwrap_or(u64::MAX), 1);
    }

    fn finish(self, provenance: Provenance, unused_columns: Vec<String>) -> TraceInfo {
        let nanos = u128::from(self.nanos.max(1));
        // The outage at the end goes on at the beginning.
        let over_the_end = self.outage.saturating_add(self.first_outage.unwrap_or(0));
        let Provenance { kind, source, licence } = provenance;
        TraceInfo {
            duration: Duration::from_nanos(self.nanos),
            items: self.items,
            mean_rate_bps: u64::try_from(self.bits / nanos).unwrap_or(u64::MAX),
            per_second_bps: if self.has_rate { self.seconds.percentiles() } else { Default::default() },
            longest_outage: Duration::from_nanos(self.longest_outage.max(over_the_end)),
            mean_loss: self.loss.map(|loss| (loss / nanos) as f64 / PARTS as f64),
            delay: self.delay,
            kind,
            source,
            licence,
            unused_columns,
        }
    }
}

#[cfg(test)]
#[path = "csv/tests.rs"]
mod tests;
