//! How well a run repeats what was recorded: two files of rates over time, compared second by second and test by test.
//!
//! The first file is the truth. Both begin at 0: what is compared is the time that both have. Of each whole second that
//! both cover:
//!
//! - mean absolute error (MAE), also in per cent of the first file's mean; bias, which is the mean of second less first;
//! - distance of the distributions: Kolmogorov-Smirnov (the largest difference of the shares of seconds below a rate, 0 to
//!   1) and Wasserstein-1 (the mean distance between values of equal rank, bit/s).
//!
//! If a file has tests (iperf), their means are compared in the same way.

mod figures;
mod input;
mod iperf2;
mod iperf3;
mod links;

use std::path::{Path, PathBuf};

use serde::Serialize;

pub use figures::Figures;
pub use input::{Choice, Rates, Test, read};

/// Why two files cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    /// A trace.
    #[error(transparent)]
    Trace(#[from] crate::traces::TraceFileError),
    /// Anything else in a file.
    #[error("{}:{}{message}", path.display(), if *line == 0 { " ".into() } else { format!("{line}: ") })]
    File {
        /// The file.
        path: PathBuf,
        /// Line, from 1; 0 when it is about the whole file.
        line: u64,
        /// What is wrong.
        message: String,
    },
    /// No time in common.
    #[error("{} and {} have no whole second in common", .0.display(), .1.display())]
    Apart(PathBuf, PathBuf),
}

/// What came out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Score {
    /// What the first file is.
    pub truth: String,
    /// What the second file is.
    pub other: String,
    /// Over whole seconds.
    pub per_second: Figures,
    /// Over tests, if a file has them.
    pub per_test: Option<Figures>,
    /// Whole seconds that only one of them covers.
    pub seconds_left_out: u64,
}

/// Compares two files. `choice`: which series of a report's `links.csv`.
///
/// # Errors
/// [`ScoreError`], with file, line and reason.
pub fn score(truth: &Path, other: &Path, choice: &Choice) -> Result<Score, ScoreError> {
    let (first, second) = (read(truth, choice)?, read(other, choice)?);
    let whole = |rates: &Rates| rates.seconds.iter().flatten().count();
    let pairs: Vec<(f64, f64)> =
        first.seconds.iter().zip(&second.seconds).filter_map(|(first, second)| Some(((*first)?, (*second)?))).collect();
    if pairs.is_empty() {
        return Err(ScoreError::Apart(truth.to_owned(), other.to_owned()));
    }
    let left_out = (whole(&first) - pairs.len()) + (whole(&second) - pairs.len());
    Ok(Score {
        per_test: tests(&first, &second).map(|pairs| Figures::of(&pairs)),
        per_second: Figures::of(&pairs),
        truth: format!("{}: {}", truth.display(), first.what),
        other: format!("{}: {}", other.display(), second.what),
        seconds_left_out: left_out as u64,
    })
}

/// Means of tests: of both if they have as many, else of the one that has them and of the same seconds of the other.
fn tests(first: &Rates, second: &Rates) -> Option<Vec<(f64, f64)>> {
    if !first.tests.is_empty() && first.tests.len() == second.tests.len() {
        return Some(first.tests.iter().zip(&second.tests).map(|(a, b)| (a.mean_bps, b.mean_bps)).collect());
    }
    let pairs: Vec<(f64, f64)> = match (first.tests.is_empty(), second.tests.is_empty()) {
        (false, _) => {
            let pair = |test: &Test| Some((test.mean_bps, second.mean_between(test.from_s, test.to_s)?));
            first.tests.iter().filter_map(pair).collect()
        }
        (true, false) => {
            let pair = |test: &Test| Some((first.mean_between(test.from_s, test.to_s)?, test.mean_bps));
            second.tests.iter().filter_map(pair).collect()
        }
        (true, true) => return None,
    };
    (!pairs.is_empty()).then_some(pairs)
}

#[cfg(test)]
mod tests;
