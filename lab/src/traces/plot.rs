//! A trace over time, as a page or as an SVG.

use std::path::Path;
use std::time::Duration;

use super::convert::samples;
use super::{TraceFileError, broken, open};
use crate::report::plot::{Axis, Colour, Plot, Series, Shape};
use crate::report::series::{Point, bins_in, joined, spread};
use crate::report::{standalone, ticks};

/// Spans of time of which a mean is drawn.
const BINS: usize = 900;
/// Outages shorter than this, or than a bin, are not shaded: seconds.
const SHORTEST_OUTAGE: f64 = 0.05;

/// Draws the trace at `from` to `to`: an SVG if it ends so, else a page.
///
/// # Errors
/// [`TraceFileError`].
pub fn plot(from: &Path, to: &Path) -> Result<(), TraceFileError> {
    let plots = plots(from)?;
    let title = from.display().to_string();
    std::fs::write(to, standalone::for_file(to, &title, &plots))
        .map_err(|error| TraceFileError::Write { path: to.to_owned(), error })
}

/// What is summed up of a bin.
#[derive(Debug, Default)]
struct Sums {
    bits: Vec<f64>,
    /// Largest delay, milliseconds.
    delay: Vec<f64>,
    /// Loss times time.
    loss: Vec<f64>,
    outages: Vec<(f64, f64)>,
}

fn plots(from: &Path) -> Result<Vec<Plot>, TraceFileError> {
    let trace = open(from)?;
    let info = trace.info().clone();
    let seconds = info.duration.as_secs_f64();
    let width = ticks::step(0.0, seconds, BINS).max(1e-3);
    let bins = bins_in(width, seconds);
    let mut sums =
        Sums { bits: vec![0.0; bins], delay: vec![f64::NAN; bins], loss: vec![0.0; bins], ..Sums::default() };
    // Opportunities in spans that divide a bin, and at most a tenth of a second where that is feasible.
    let span = Duration::from_secs_f64((width / (width / 0.1).ceil().clamp(1.0, 100.0)).max(1e-3));
    let shortest = SHORTEST_OUTAGE.max(width / 2.0);
    let mut at = 0.0;
    for sample in samples(trace, span) {
        let sample = sample.map_err(|error| broken(from, error))?;
        let end = at + sample.lasts.as_secs_f64();
        let rate = sample.rate_bps.unwrap_or(0) as f64;
        spread(&mut sums.bits, width, [(at, end, rate * (end - at))]);
        let loss = sample.loss.or(sample.ccq.map(|ccq| 1.0 - ccq)).unwrap_or(0.0);
        spread(&mut sums.loss, width, [(at, end, loss * (end - at))]);
        if let Some(delay) = sample.delay {
            let last = (((end / width).ceil() as usize).max(1) - 1).min(bins - 1);
            let first = ((at / width) as usize).min(last);
            let ms = delay.as_secs_f64() * 1e3;
            sums.delay[first..=last].iter_mut().for_each(|most| *most = most.max(ms));
        }
        if sample.rate_bps == Some(0) {
            match sums.outages.last_mut() {
                Some(last) if at - last.1 < 1e-9 => last.1 = end,
                _ => {
                    // What turned out short is not kept, so the list stays as short as the plot.
                    sums.outages.pop_if(|last| last.1 - last.0 < shortest);
                    sums.outages.push((at, end));
                }
            }
        }
        at = end;
    }
    sums.outages.retain(|(from, to)| to - from >= shortest);
    Ok(drawn(from, &info, sums, width, seconds))
}

fn drawn(from: &Path, info: &aquila_emu::trace::TraceInfo, sums: Sums, width: f64, seconds: f64) -> Vec<Plot> {
    let bands = joined(sums.outages);
    let points = |values: &[f64], factor: f64| -> Vec<Point> {
        let mut points: Vec<Point> = values
            .iter()
            .enumerate()
            .map(|(bin, value)| {
                // The last bin may be shorter.
                let lasts = (seconds - bin as f64 * width).clamp(1e-9, width);
                (bin as f64 * width, value * factor * if factor == 1.0 { 1.0 } else { width / lasts })
            })
            .collect();
        points.extend(points.last().map(|last| (seconds, last.1)));
        points
    };
    let name = from.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let plot = |title: &str, note: String, y: &str, colour: Colour, points: Vec<Point>| {
        let greatest = points.iter().filter(|point| point.1.is_finite()).fold(0.0f64, |max, point| max.max(point.1));
        Plot {
            title: format!("{name}: {title}"),
            note,
            x: Axis::time(seconds),
            y: Axis::linear(y, 0.0, if greatest > 0.0 { greatest } else { 1.0 }),
            series: vec![Series { name: title.into(), colour, shape: Shape::Stairs(points) }],
            bands: bands.clone(),
            marks: Vec::new(),
            wide: true,
        }
    };
    let of_bin = ticks::text(width);
    let mut plots = Vec::new();
    if info.mean_rate_bps > 0 {
        let mean = ticks::text(info.mean_rate_bps as f64 / 1e6);
        let note = format!("means of {of_bin} s; {mean} Mbit/s in all; shaded: outages");
        plots.push(plot("rate", note, "rate, Mbit/s", Colour::Contender(0), points(&sums.bits, 1e-6 / width)));
    }
    if info.delay.is_some() {
        let note = format!("largest of {of_bin} s, one way");
        plots.push(plot("delay", note, "delay, ms", Colour::Contender(2), points(&sums.delay, 1.0)));
    }
    if info.mean_loss.is_some() {
        let note = format!("means of {of_bin} s");
        plots.push(plot("loss", note, "loss, %", Colour::Contender(4), points(&sums.loss, 100.0 / width)));
    }
    plots
}
