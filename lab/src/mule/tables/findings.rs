//! What the paper found, as numbers with bounds: higher is better, the rate dips at the ship's superstructure, and twice the errors
//! leave next to nothing of TCP.

use aquila_plan::radio::LossReading;
use serde::Serialize;

use super::Row;
use super::sectors::{Sector, dip};

/// A number, and what it has to be.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// In words.
    pub name: &'static str,
    /// The worst of all cells that it is about.
    pub value: f64,
    /// What it has to be.
    pub bound: f64,
    /// At most so much, rather than at least.
    pub less_is_better: bool,
    /// Whether it is.
    pub holds: bool,
}

impl Finding {
    fn at_least(name: &'static str, bound: f64, values: impl Iterator<Item = f64>) -> Option<Self> {
        let value = values.reduce(worse(f64::min))?;
        Some(Self { name, value, bound, less_is_better: false, holds: value >= bound })
    }

    fn at_most(name: &'static str, bound: f64, values: impl Iterator<Item = f64>) -> Option<Self> {
        let value = values.reduce(worse(f64::max))?;
        Some(Self { name, value, bound, less_is_better: true, holds: value <= bound })
    }
}

/// What is no number is worse than any.
fn worse(of: fn(f64, f64) -> f64) -> impl Fn(f64, f64) -> f64 {
    move |one, other| if one.is_nan() || other.is_nan() { f64::NAN } else { of(one, other) }
}

/// Those about which there are rows.
pub fn of(rows: &[Row], sectors: &[Vec<Sector>; 3]) -> Vec<Finding> {
    // Each row beside another experiment's, or beside that without more errors.
    let beside = |experiment: usize| {
        rows.iter().filter(|row| row.cell.experiment == 1).filter_map(move |row| {
            let mut cell = row.cell;
            cell.experiment = experiment;
            Some((row, rows.iter().find(|other| other.cell == cell)?))
        })
    };
    let doubled = || {
        rows.iter().filter(|row| row.cell.factor == 2).filter_map(|row| {
            let mut cell = row.cell;
            cell.factor = 1;
            Some((row, rows.iter().find(|other| other.cell == cell)?))
        })
    };
    let is_paper = |row: &Row| row.cell.reading == LossReading::OneLessCcq;
    let rates = |(one, other): (&Row, &Row)| one.aquila.mbps / other.aquila.mbps;
    let flown = sectors.iter().all(|sectors| sectors.iter().any(|sector| sector.seconds > 0));
    let dips = sectors.each_ref().map(|sectors| dip(sectors));
    let when = |condition: bool, value: f64| condition.then_some(value).into_iter();
    let share =
        |megabytes: u64| rows.iter().filter(move |row| row.cell.megabytes == megabytes).map(|row| row.aquila.share);
    let all = [
        Finding::at_least(
            "higher is better: Aquila's rate from 300 m over that from 200 m",
            1.05,
            beside(2).map(rates),
        ),
        Finding::at_least("the same over that from 200 m, 800 m off", 1.05, beside(3).map(rates)),
        Finding::at_most(
            "the rate dips with the bearing: worst sector over best, from 200 m",
            0.5,
            when(flown, dips[1]),
        ),
        Finding::at_least(
            "less so from higher up: the same from 300 m over that from 200 m",
            1.2,
            when(flown, dips[0] / dips[1]),
        ),
        Finding::at_most(
            "twice the errors, 1-ccq: what is left of CUBIC's rate",
            0.5,
            doubled().filter(|(row, _)| is_paper(row)).map(|(two, one)| two.cubic.mbps / one.cubic.mbps),
        ),
        Finding::at_least(
            "twice the errors, both readings: Aquila's share of the radio, over that without them",
            0.97,
            doubled().map(|(two, one)| two.aquila.share / one.aquila.share),
        ),
        Finding::at_least(
            "1-ccq: Aquila's rate over CUBIC's",
            3.0,
            rows.iter().filter(|row| is_paper(row)).map(|row| row.aquila.mbps / row.cubic.mbps),
        ),
        Finding::at_least("complete files of 40 MB, of the radio's capacity", 0.88, share(40)),
        Finding::at_least("complete files of 1 MB, of the radio's capacity", 0.90, share(1)),
    ];
    all.into_iter().flatten().collect()
}
