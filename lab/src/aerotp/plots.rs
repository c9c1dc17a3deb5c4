//! Figures 12 to 24 to look at.

use super::reference;
use super::suite::{Line, Point, Report, WORDS};
use crate::report::plot::{Axis, Colour, Plot, Series, Shape};

/// Words of the lines of figures 13 to 16: those of the paper.
const PAPER_WORDS: [u16; 7] = [0, 16, 32, 64, 96, 128, 256];
/// Bit error rates of the lines of figures 17 to 20.
const PAPER_RATES: [f64; 4] = [0.0, 1e-5, 3.5e-5, 1e-4];
/// What a figure shows of a point: value, and half the length of its bar.
type Value = fn(&Point) -> (f64, f64);

/// Those of which the report has something.
pub fn plots(report: &Report) -> Vec<Plot> {
    let mut all = Vec::new();
    if !report.set_up.is_empty() {
        all.push(set_up(&report.set_up));
    }
    if !report.quasi.is_empty() {
        all.extend(quasi_by_errors(&report.quasi));
        all.extend(quasi_by_words(&report.quasi));
    }
    if !report.modes.is_empty() {
        all.extend(modes(report));
    }
    all
}

fn goodput(point: &Point) -> (f64, f64) {
    (point.goodput.mean, point.goodput.sd)
}

fn delivered(point: &Point) -> (f64, f64) {
    (point.delivered.mean, point.delivered.sd)
}

fn overhead(point: &Point) -> (f64, f64) {
    point.overhead.map_or((f64::NAN, 0.0), |overhead| (overhead.mean.max(0.01), 0.0))
}

fn delay(point: &Point) -> (f64, f64) {
    (point.since_written.p50.max(1.0), 0.0)
}

fn sent_delay(point: &Point) -> (f64, f64) {
    (point.since_sent.p95.max(1.0), 0.0)
}

fn series(name: &str, colour: usize, shape: Shape) -> Series {
    Series { name: name.into(), colour: Colour::Contender(colour), shape }
}

/// A line with bars of a standard deviation to both sides.
fn line(name: &str, colour: usize, points: &[(f64, (f64, f64))]) -> Vec<Series> {
    let values = points.iter().map(|(x, (value, _))| (*x, *value)).collect();
    let bar = |(x, (value, sd)): &(f64, (f64, f64))| [(*x, value - sd), (*x, value + sd), (*x, f64::NAN)];
    let mut all = vec![series(name, colour, Shape::Line(values))];
    if points.iter().any(|(_, (_, sd))| *sd > 0.0) {
        all.push(series(name, colour, Shape::Dashes(points.iter().flat_map(bar).collect())));
    }
    all
}

fn plot(title: &str, note: &str, x: Axis, y: Axis, series: Vec<Series>) -> Plot {
    Plot { title: title.into(), note: note.into(), x, y, series, bands: Vec::new(), marks: Vec::new(), wide: false }
}

fn errors() -> Axis {
    Axis::linear("wrong bits, 10⁻⁴", 0.0, 1.0)
}

fn by_errors(line: &Line, value: Value) -> Vec<(f64, (f64, f64))> {
    line.points.iter().map(|point| (point.bit_errors * 1e4, value(point))).collect()
}

fn set_up(lines: &[Line]) -> Plot {
    let mut all = Vec::new();
    for (number, of) in lines.iter().enumerate() {
        let points: Vec<_> = of.points.iter().map(|point| (point.loss * 100.0, (point.first.mean, 0.0))).collect();
        all.extend(line(&of.name, number, &points));
    }
    let ns3 = reference::NS3_SET_UP.map(|(loss, ms)| (loss * 100.0, ms));
    all.push(series("TCP in ns-3", 3, Shape::Line(ns3.to_vec())));
    let paper = |value: fn((f64, f64, f64)) -> f64| {
        reference::PAPER_SET_UP.iter().map(|row| (row.0 * 100.0, value(*row))).collect::<Vec<_>>()
    };
    all.push(series("the paper's text", 4, Shape::Line(paper(|row| row.1))));
    all.push(series("the paper's text", 4, Shape::Dashes(paper(|row| row.2))));
    plot(
        "Figure 12: to the first data",
        "from connecting, 10 Mbit/s, 5 ms; dashed: AeroTP",
        Axis::linear("packets lost, %", 0.0, 20.0),
        Axis::logarithmic("ms, mean", 5.0, 4000.0),
        all,
    )
}

fn quasi_by_errors(lines: &[Line]) -> Vec<Plot> {
    let figures: [(&str, &str, Axis, Value); 4] = [
        ("Figure 13: quasi-reliable, goodput", "by words of parity", Axis::linear("Mbit/s", 0.0, 5.0), goodput),
        ("Figure 14: quasi-reliable, delay", "from the write, median", Axis::logarithmic("ms", 8.0, 4000.0), delay),
        ("Figure 15: quasi-reliable, delivered", "of 1 MB", Axis::linear("MB", 0.0, 1.0), delivered),
        (
            "Figure 16: quasi-reliable, overhead",
            "on the wire for each byte",
            Axis::logarithmic("", 0.02, 10.0),
            overhead,
        ),
    ];
    let drawn = |(title, note, y, value): (&str, &str, Axis, Value)| {
        let shown = lines.iter().filter(|line| {
            line.name == "adaptive" || PAPER_WORDS.iter().any(|words| line.name == format!("{words} words"))
        });
        let all = shown.enumerate().flat_map(|(number, of)| line(&of.name, number, &by_errors(of, value))).collect();
        plot(title, note, errors(), y, all)
    };
    figures.into_iter().map(drawn).collect()
}

fn quasi_by_words(lines: &[Line]) -> Vec<Plot> {
    let figures: [(&str, &str, Axis, Value); 4] = [
        ("Figure 17: quasi-reliable, goodput", "by bit error rate", Axis::linear("Mbit/s", 0.0, 5.0), goodput),
        ("Figure 18: quasi-reliable, delay", "from the write, median", Axis::logarithmic("ms", 8.0, 4000.0), delay),
        ("Figure 19: quasi-reliable, delivered", "of 1 MB", Axis::linear("MB", 0.0, 1.0), delivered),
        (
            "Figure 20: quasi-reliable, overhead",
            "on the wire for each byte",
            Axis::logarithmic("", 0.02, 10.0),
            overhead,
        ),
    ];
    let of_words = |words: u16| lines.iter().find(|line| line.name == format!("{words} words"));
    let drawn = |(title, note, y, value): (&str, &str, Axis, Value)| {
        let of_rate = |(number, rate): (usize, &f64)| {
            let at = |words: &u16| Some((f64::from(*words), value(of_words(*words)?.at(*rate)?)));
            line(&format!("{rate:e}"), number, &WORDS.iter().filter_map(at).collect::<Vec<_>>())
        };
        let all = PAPER_RATES.iter().enumerate().flat_map(of_rate).collect();
        plot(title, note, Axis::linear("words of parity", 0.0, 256.0), y, all)
    };
    figures.into_iter().map(drawn).collect()
}

fn modes(report: &Report) -> Vec<Plot> {
    let figures: [(&str, &str, Axis, Value); 4] = [
        ("Figure 21: goodput", "bars: a standard deviation", Axis::linear("Mbit/s", 0.0, 5.0), goodput),
        ("Figure 22: delay", "from the first transmission, p95", Axis::logarithmic("ms", 8.0, 300_000.0), sent_delay),
        ("Figure 23: delivered", "of 1 MB, within 300 s", Axis::linear("MB", 0.0, 1.0), delivered),
        ("Figure 24: overhead", "on the wire for each byte", Axis::logarithmic("", 0.02, 10.0), overhead),
    ];
    let drawn = |(number, (title, note, y, value)): (usize, (&str, &str, Axis, Value))| {
        let lines = report.modes.iter().enumerate();
        let mut all: Vec<Series> = lines.flat_map(|(n, of)| line(&of.name, n, &by_errors(of, value))).collect();
        if number == 0 {
            let ideal = report.limits.iter().map(|limits| (limits.bit_errors * 1e4, limits.arq / 1e6));
            all.push(Series {
                name: "ideal repetition".into(),
                colour: Colour::Capacity,
                shape: Shape::Line(ideal.collect()),
            });
        }
        Plot { wide: true, ..plot(title, note, errors(), y, all) }
    };
    figures.into_iter().enumerate().map(drawn).collect()
}
