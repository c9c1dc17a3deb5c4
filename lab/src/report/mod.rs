//! Reports: one page to look at, and the same as data beside it.
//!
//! | file | what |
//! |---|---|
//! | `report.html` | tables and plots; one file, nothing is fetched |
//! | `metrics.json` | what `--json` prints |
//! | `messages.csv` | every message of every run |
//! | `links.csv` | every direction of every link, ten times a second |
//! | `events.csv` | what happened |
//!
//! Virtual and live runs have the same report.

mod boxes;
mod charts;
mod csv;
mod intervals;
mod page;
pub mod pcapng;
pub mod plot;
mod scene;
pub mod series;
pub mod standalone;
pub mod ticks;

use std::fs::{File, create_dir_all};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::judge::Judgement;

/// A report cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {error}", path.display())]
pub struct ReportError {
    /// Which file, or the directory.
    pub path: PathBuf,
    /// What the system says.
    pub error: io::Error,
}

/// Writes a report into `directory`, which is made if missing; files of an earlier one are replaced. Gives the page.
///
/// # Errors
/// [`ReportError`].
pub fn write(judgement: &Judgement, directory: &Path) -> Result<PathBuf, ReportError> {
    create_dir_all(directory).map_err(|error| ReportError { path: directory.to_owned(), error })?;
    let json = |to: &mut BufWriter<File>| {
        serde_json::to_writer(&mut *to, judgement)?;
        to.write_all(b"\n")
    };
    file(directory, "metrics.json", json)?;
    file(directory, "messages.csv", |to| csv::messages(to, judgement))?;
    file(directory, "links.csv", |to| csv::links(to, judgement))?;
    file(directory, "events.csv", |to| csv::events(to, judgement))?;
    file(directory, "report.html", |to| page::write(to, judgement))
}

fn file(
    directory: &Path,
    name: &str,
    fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<PathBuf, ReportError> {
    let path = directory.join(name);
    let made = File::create(&path).map(BufWriter::new);
    match made.and_then(|mut to| fill(&mut to).and_then(|()| to.flush())) {
        Ok(()) => Ok(path),
        Err(error) => Err(ReportError { path, error }),
    }
}

#[cfg(test)]
mod tests;
