//! Traces: what a link was like, as files.
//!
//! Two formats, [`mahimahi`] and [`csv`], as streaming parsers over a reader that the caller gives; nothing here opens
//! a file. A trace is read twice: once from end to end by `open`, which refuses what is malformed, with the line and
//! the reason, and gives a [`TraceInfo`]; then item by item while it is played, again and again ([`Source::rewind`]).
//! Memory is bounded however long the trace or a line of it is.
//!
//! In both formats lines that begin with `#` are comments, anywhere. `# key: value` with one of these keys says where
//! the trace is from: `source`, `licence` (or `license`), and `kind`, which is `capacity` (what a saturated link
//! carried) or `availability` (what some transport got out of it: to replay that as capacity is a modelling error,
//! Sanaga et al., NSDI'09). The program mahimahi itself knows no comments; [`write::mahimahi`] therefore writes none
//! unless it is told to.

use std::fmt::Debug;

use thiserror::Error;

mod any;
pub mod convert;
pub mod csv;
mod decimal;
mod info;
mod lines;
pub mod mahimahi;
pub mod write;

pub use any::AnyTrace;
pub use csv::CsvTrace;
pub use info::{Kind, Percentiles, TraceInfo};
pub use mahimahi::MahimahiTrace;

/// Items of a trace, one after the other.
pub trait Source<I>: Debug + Send {
    /// The next item; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the trace cannot be read, or is no longer what it was when it was checked.
    fn next_item(&mut self) -> Result<Option<I>, TraceError>;

    /// Goes back to the first item.
    ///
    /// # Errors
    ///
    /// If the trace cannot be read again.
    fn rewind(&mut self) -> Result<(), TraceError>;
}

impl<I, S: Source<I> + ?Sized> Source<I> for Box<S> {
    fn next_item(&mut self) -> Result<Option<I>, TraceError> {
        (**self).next_item()
    }

    fn rewind(&mut self) -> Result<(), TraceError> {
        (**self).rewind()
    }
}

/// Items in memory.
#[derive(Debug, Clone, Default)]
pub struct List<I> {
    items: Vec<I>,
    at: usize,
}

impl<I> List<I> {
    /// In this order.
    pub fn new(items: Vec<I>) -> Self {
        Self { items, at: 0 }
    }
}

impl<I: Clone + Debug + Send> Source<I> for List<I> {
    fn next_item(&mut self) -> Result<Option<I>, TraceError> {
        let item = self.items.get(self.at).cloned();
        self.at += 1;
        Ok(item)
    }

    fn rewind(&mut self) -> Result<(), TraceError> {
        self.at = 0;
        Ok(())
    }
}

/// A trace is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{fault}", if *.line == 0 { String::new() } else { format!("line {line}: ") })]
pub struct TraceError {
    /// Counted from 1; 0 when it is about the whole trace.
    pub line: u64,
    /// The reason.
    pub fault: TraceFault,
}

impl TraceError {
    pub(crate) fn at(line: u64, fault: TraceFault) -> Self {
        Self { line, fault }
    }
}

/// What is wrong with a trace.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TraceFault {
    /// The reader failed.
    #[error("cannot be read: {0}")]
    Io(String),
    /// Nothing in it.
    #[error("the trace has no data")]
    Empty,
    /// It would repeat without time passing, or a row has no length.
    #[error("the trace lasts no time")]
    NoLength,
    /// Nothing would ever be delivered.
    #[error("the trace never carries anything")]
    NoCapacity,
    /// A line is longer than any sensible one.
    #[error("the line is longer than {} bytes", lines::MAX_LINE)]
    LineTooLong,
    /// A line is empty.
    #[error("the line is empty")]
    EmptyLine,
    /// Time goes back.
    #[error("time goes back")]
    GoesBack,
    /// Two rows of a CSV are so close that playing them would take for ever.
    #[error("less than a microsecond after the row before")]
    TooClose,
    /// Not a plain number of at least 0.
    #[error("`{0}` is not a decimal number of at least 0")]
    NotANumber(String),
    /// Too large.
    #[error("{column} of {text} is beyond {bound}")]
    TooLarge {
        /// What it is.
        column: &'static str,
        /// As it is written.
        text: String,
        /// The bound.
        bound: &'static str,
    },
    /// Not a share.
    #[error("{column} of {text} is beyond {bound}; a column in per cent is called {column}_percent")]
    NotAShare {
        /// `loss` or `ccq`.
        column: &'static str,
        /// As it is written.
        text: String,
        /// The bound.
        bound: &'static str,
    },
    /// The header has no such column.
    #[error("no column for the {0}; known are {known}", known = csv::KNOWN_COLUMNS)]
    NoColumn(&'static str),
    /// The header has two columns for the same quantity.
    #[error("two columns for the {0}")]
    TwoColumns(&'static str),
    /// A column that looks as if it were meant, with a unit that is not known.
    #[error("column `{0}` has no known unit; known are {known}", known = csv::KNOWN_COLUMNS)]
    UnknownUnit(String),
    /// A row has another number of fields than the header.
    #[error("{found} fields, but the header has {expected}")]
    Fields {
        /// In the row.
        found: usize,
        /// In the header.
        expected: usize,
    },
    /// The header has too many columns.
    #[error("more than {} columns", csv::MAX_COLUMNS)]
    ManyColumns,
    /// A comment says a kind that is not known.
    #[error("kind `{0}` is neither `capacity` nor `availability`")]
    UnknownKind(String),
    /// Not text.
    #[error("not text")]
    NotText,
}
