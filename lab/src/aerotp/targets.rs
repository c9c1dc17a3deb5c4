//! The figures that AeroTP is to reach, and whether it does.

use serde::Serialize;

use super::suite::{Line, Point, Report};

/// One of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Target {
    /// What is measured.
    pub what: String,
    /// The least or the most that it may be.
    pub bound: Bound,
    /// What was measured.
    pub value: f64,
    /// Whether it is within.
    pub holds: bool,
}

/// Which side is good.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// No less.
    AtLeast(f64),
    /// No more.
    AtMost(f64),
}

/// Share of ideal selective repeat that is to be reached without parity.
const OF_IDEAL: f64 = 0.94;

/// Those that the report has something on.
pub fn of(report: &Report) -> Vec<Target> {
    let mut all = Vec::new();
    let mut add = |what: &str, bound: Bound, value: Option<f64>| {
        let Some(value) = value else { return };
        let holds = match bound {
            Bound::AtLeast(least) => value >= least,
            Bound::AtMost(most) => value <= most,
        };
        all.push(Target { what: what.to_owned(), bound, value, holds });
    };
    let first = |loss: f64| {
        let line = report.set_up.first()?;
        line.points.iter().find(|point| point.loss == loss).map(|point| point.first.mean)
    };
    add("first data without loss, mean, ms", Bound::AtMost(6.4), first(0.0));
    add("first data at 20 % loss, mean, ms", Bound::AtMost(7.2), first(0.2));
    let at = |name: &str, rate: f64| point(&report.modes, name, rate);
    for rate in [1e-5, 3.5e-5, 1e-4] {
        let ideal =
            report.limits.iter().find(|limits| limits.bit_errors == rate).map_or(0.0, |limits| limits.arq / 1e6);
        let what = format!("reliable, no parity, 1500 bytes, at {rate:e}, Mbit/s");
        let goodput = at("reliable, no parity, 1500 bytes", rate).map(|point| point.goodput.mean);
        add(&what, Bound::AtLeast(OF_IDEAL * ideal), goodput);
    }
    let combining = at("reliable, no parity, combining", 1e-4);
    add("the same with combining at 1e-4, Mbit/s", Bound::AtLeast(2.5), combining.map(|point| point.goodput.mean));
    let adaptive = at("reliable", 1e-4);
    add("reliable at 1e-4, Mbit/s", Bound::AtLeast(4.35), adaptive.map(|point| point.goodput.mean));
    let over = |point: &Point| point.since_sent.p95 - 10.0;
    let segment = at("reliable, messages", 1e-4);
    add("reliable at 1e-4, segment p95 over propagation, ms", Bound::AtMost(25.0), segment.map(over));
    let overhead = |point: &Point| point.overhead.map(|overhead| overhead.mean);
    add("overhead without parity at 1e-4", Bound::AtMost(2.45), combining.and_then(overhead));
    for long in report.long.iter().filter(|long| long.name.starts_with("serial")) {
        let name = &long.name;
        add(
            &format!("quasi-reliable at 1e-4, {name}, lost of {}", long.segments),
            Bound::AtMost(0.0),
            Some(long.lost as f64),
        );
        add(&format!("quasi-reliable at 1e-4, {name}, parity and repairs"), Bound::AtMost(0.07), Some(long.protection));
    }
    all
}

fn point<'a>(lines: &'a [Line], name: &str, bit_errors: f64) -> Option<&'a Point> {
    lines.iter().find(|line| line.name == name)?.at(bit_errors)
}
