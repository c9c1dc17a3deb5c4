//! Traces as files: what they are like, from one format to the other, made up, and drawn. Nothing here holds a trace in
//! memory, however long it is.

mod convert;
mod info;
mod plot;

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use aquila_emu::trace::{AnyTrace, TraceError};

pub(crate) use convert::samples;
pub use convert::{Conversion, Format, convert, synth};
pub use info::{describe, json};
pub use plot::plot;

/// A trace that is read from a file.
pub type FileTrace = AnyTrace<BufReader<File>>;

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum TraceFileError {
    /// It cannot be opened.
    #[error("cannot read {}: {error}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// It is no trace.
    #[error("{}:{}{}", path.display(), if error.line == 0 { " ".into() } else { format!("{}: ", error.line) }, error.fault)]
    Trace {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and in which line.
        error: TraceError,
    },
    /// It cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// What was asked makes no sense.
    #[error("{0}")]
    Asked(String),
}

/// Opens a trace of either format and checks all of it.
///
/// # Errors
/// [`TraceFileError`] with file, line and reason.
pub fn open(path: &Path) -> Result<FileTrace, TraceFileError> {
    let open = |path: &Path| {
        if path.is_dir() {
            return Err(io::Error::other("it is a directory"));
        }
        File::open(path)
    };
    let file = open(path).map_err(|error| TraceFileError::Open { path: path.to_owned(), error })?;
    AnyTrace::open(BufReader::with_capacity(1 << 16, file)).map_err(|error| broken(path, error))
}

fn broken(path: &Path, error: TraceError) -> TraceFileError {
    TraceFileError::Trace { path: path.to_owned(), error }
}

#[cfg(test)]
mod tests;
