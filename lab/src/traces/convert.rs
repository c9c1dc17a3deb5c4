//! From one format to the other, and from a model to a file.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;
use std::time::Duration;

use aquila_emu::Sample;
use aquila_emu::synth::{self, Model};
use aquila_emu::trace::convert::{ToOpportunities, ToSamples};
use aquila_emu::trace::mahimahi::OPPORTUNITY_BYTES;
use aquila_emu::trace::{AnyTrace, Source, TraceError, TraceInfo, write};

use super::{FileTrace, TraceFileError, broken, info, open};

/// Formats of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Opportunities of 1500 bytes, one to a line.
    Mahimahi,
    /// Rate, delay and loss over time.
    Csv,
}

/// What a conversion did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    /// The format that was written.
    pub format: Format,
    /// Lines of data written.
    pub lines: u64,
    /// What the new file cannot say that the old one did.
    pub lost: Vec<String>,
}

/// Lines that a file gets at most: 2 GB, about.
const MAX_LINES: u128 = 200_000_000;

/// Writes the trace at `from` to `to`: in the format asked for, or in the other one. `span`: of each sample, when a
/// mahimahi trace becomes CSV. `comments`: kind, source and licence are written in front, also where mahimahi itself
/// would not take them.
///
/// # Errors
/// [`TraceFileError`]; what has been written by then is removed.
pub fn convert(
    from: &Path,
    to: &Path,
    format: Option<Format>,
    span: Duration,
    comments: bool,
) -> Result<Conversion, TraceFileError> {
    let trace = open(from)?;
    if fs::canonicalize(from).ok().is_some_and(|from| fs::canonicalize(to).ok() == Some(from)) {
        return Err(TraceFileError::Asked(format!("{} cannot be written while it is read", to.display())));
    }
    let is_mahimahi = matches!(trace, AnyTrace::Mahimahi(_));
    let format = format.unwrap_or(if is_mahimahi { Format::Csv } else { Format::Mahimahi });
    let about = trace.info().clone();
    let comments = match (format, comments) {
        (Format::Csv, _) | (_, true) => provenance(&about, &format!("converted from {}", from.display())),
        (Format::Mahimahi, false) => Vec::new(),
    };
    let mut lost = Vec::new();
    if comments.is_empty() && (about.kind.is_some() || about.source.is_some() || about.licence.is_some()) {
        lost.push("kind, source and licence, since mahimahi takes no comments (--comments writes them)".to_owned());
    }
    let span = span.max(Duration::from_millis(1));
    let lines = match trace {
        AnyTrace::Mahimahi(trace) if format == Format::Csv => {
            lost.push(format!("bursts and gaps shorter than {} s", span.as_secs_f64()));
            bounded(about.duration.as_nanos() / span.as_nanos())?;
            let samples = ToSamples::new(trace, OPPORTUNITY_BYTES, span);
            store(from, to, samples, |file, samples| write::csv(file, &comments, samples))
        }
        AnyTrace::Mahimahi(trace) => {
            store(from, to, items(trace), |file, times| write::mahimahi(file, &comments, times))
        }
        AnyTrace::Csv(trace) if format == Format::Csv => {
            store(from, to, items(trace), |file, samples| write::csv(file, &comments, samples))
        }
        AnyTrace::Csv(trace) => {
            if about.mean_rate_bps == 0 {
                let message = format!("{} has no rates, and mahimahi's format has nothing else", from.display());
                return Err(TraceFileError::Asked(message));
            }
            bounded(opportunities(&about))?;
            lost.push("times within a millisecond, and at the end less than 1500 bytes".into());
            lost.extend(about.delay.map(|_| "delay".into()));
            lost.extend(about.mean_loss.map(|_| "loss and CCQ".into()));
            let times = ToOpportunities::new(trace, OPPORTUNITY_BYTES);
            store(from, to, times, |file, times| write::mahimahi(file, &comments, times))
        }
    }?;
    Ok(Conversion { format, lines, lost })
}

/// Writes the trace that a model and a seed give.
///
/// # Errors
/// [`TraceFileError`].
pub fn synth(
    to: &Path,
    model: Model,
    seed: u64,
    length: Duration,
    format: Format,
    comments: bool,
) -> Result<Conversion, TraceFileError> {
    let about = vec![
        "kind: capacity".to_owned(),
        format!("source: made up by aquila lab trace synth --model {} --seed {seed}", model.name),
        "licence: CC0-1.0".to_owned(),
    ];
    let comments = if comments || format == Format::Csv { about } else { Vec::new() };
    let trace = synth::Trace::new(model, seed, length);
    let mut lost = Vec::new();
    let lines = match format {
        Format::Csv => store(to, to, trace.map(Ok), |file, samples| write::csv(file, &comments, samples)),
        Format::Mahimahi => {
            lost.push("delay, and times within a millisecond".to_owned());
            let times = ToOpportunities::new(trace, OPPORTUNITY_BYTES);
            store(to, to, times, |file, times| write::mahimahi(file, &comments, times))
        }
    }?;
    Ok(Conversion { format, lines, lost })
}

fn bounded(lines: u128) -> Result<(), TraceFileError> {
    match lines > MAX_LINES {
        true => Err(TraceFileError::Asked(format!("that would be {lines} lines; at most {MAX_LINES} are written"))),
        false => Ok(()),
    }
}

fn opportunities(about: &TraceInfo) -> u128 {
    about.duration.as_nanos() * u128::from(about.mean_rate_bps) / (OPPORTUNITY_BYTES as u128 * 8 * 1_000_000_000)
}

fn provenance(about: &TraceInfo, how: &str) -> Vec<String> {
    let kind = info::kind(about.kind).map(|kind| format!("kind: {kind}"));
    let source =
        Some(about.source.as_ref().map_or(format!("source: {how}"), |source| format!("source: {source}; {how}")));
    let licence = about.licence.as_ref().map(|licence| format!("licence: {licence}"));
    [kind, source, licence].into_iter().flatten().collect()
}

/// The items of a source, one cycle.
fn items<I>(mut source: impl Source<I>) -> impl Iterator<Item = Result<I, TraceError>> {
    std::iter::from_fn(move || source.next_item().transpose())
}

/// Writes items until one is an error.
fn store<I>(
    from: &Path,
    to: &Path,
    items: impl Iterator<Item = Result<I, TraceError>>,
    write: impl FnOnce(BufWriter<File>, &mut dyn Iterator<Item = I>) -> io::Result<u64>,
) -> Result<u64, TraceFileError> {
    let mut fault = None;
    let mut good = items.map_while(|item| item.map_err(|error| fault = Some(error)).ok());
    let written = File::create(to).and_then(|file| write(BufWriter::new(file), &mut good));
    let result = match (fault, written) {
        (Some(error), _) => Err(broken(from, error)),
        (None, Err(error)) => Err(TraceFileError::Write { path: to.to_owned(), error }),
        (None, Ok(lines)) => return Ok(lines),
    };
    // Half a trace looks like a whole one.
    let _ = fs::remove_file(to);
    result
}

/// Samples of a trace of either format, for those who want to look at them: opportunities in spans of `span`.
pub(crate) fn samples(trace: FileTrace, span: Duration) -> Box<dyn Iterator<Item = Result<Sample, TraceError>>> {
    match trace {
        AnyTrace::Mahimahi(trace) => Box::new(ToSamples::new(trace, OPPORTUNITY_BYTES, span)),
        AnyTrace::Csv(trace) => Box::new(items(trace)),
    }
}
