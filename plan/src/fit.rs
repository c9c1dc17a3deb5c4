//! What was flown, against what was forecast: finds the link budget, the path loss exponent and the depths of obstacles
//! with which the model is nearest to what the radio logged, by least squares (Gauss and Newton, damped after Levenberg
//! and Marquardt).
//!
//! Signal over noise is linear in the budget and the exponent; depths are not. What the flight says too little about is
//! left as it was: an exponent needs distances that differ, a depth needs time in the shadow.

use serde::Serialize;

use crate::flight::Track;
use crate::forecast::sight::{Geometry, Sight};
use crate::log::radio::Sample;
use crate::radio::rate::RateChoice;
use crate::scenario::Scenario;

/// Unix time is beyond this; time since a start is not, s.
const UNIX_S: f64 = 1e9;
/// Fewer samples than this are not fitted.
const LEAST: usize = 30;
/// An exponent that is known no better than this is left as it was.
const EXPONENT_ERROR: f64 = 0.15;
/// A depth that is known no better than this is left as it was, dB.
const DEPTH_ERROR_DB: f64 = 3.0;
/// Obstacles whose depths are fitted, at most.
const MAX_DEPTHS: usize = 12;
const ROUNDS: usize = 60;

/// What came out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fitted {
    /// Samples of signal over noise that were used.
    pub samples: usize,
    /// `model.path_loss.offset_db`.
    pub offset_db: Constant,
    /// `model.path_loss.exponent`.
    pub exponent: Constant,
    /// `depth_db` of each of the node's obstacles.
    pub depths_db: Vec<Constant>,
    /// Signal over noise at 1 km in the open, both antennas at their best, dB: what offset and exponent say together.
    pub at_1_km_db: f64,
    /// Standard deviation of what is left, dB: `model.shadowing.deviation_db`.
    pub deviation_db: f64,
    /// Way over which 1/e of it is left, m: `model.shadowing.distance_m`; if it is left from one sample to the next at
    /// all.
    pub distance_m: Option<f64>,
    /// Mean absolute error of signal over noise with the scenario's constants, dB.
    pub mae_before_db: f64,
    /// The same with the fitted ones, dB.
    pub mae_after_db: f64,
    /// Of the radio's rate, if it was logged.
    pub rate: Option<RateError>,
    /// What was left as it was, and why.
    pub notes: Vec<String>,
}

/// A constant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Constant {
    /// The scenario's.
    pub before: f64,
    /// The fitted one.
    pub after: f64,
    /// Standard error; `None` if it was left as it was.
    pub error: Option<f64>,
}

/// How far the radio's rate is from what the model would have it choose.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RateError {
    /// Mean of what was logged, bit/s.
    pub mean_bps: f64,
    /// Mean absolute error with the scenario's constants, bit/s.
    pub mae_before_bps: f64,
    /// The same with the fitted ones, bit/s.
    pub mae_after_bps: f64,
}

/// Nothing could be fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// Both logs do not cover the same time.
    #[error(
        "{0} samples of signal over noise lie within the flight; {LEAST} are needed: do both clocks begin together?"
    )]
    Few(usize),
}

/// A second with a measurement.
struct Measured {
    sight: Sight,
    way_m: f64,
    second: usize,
    snr_db: f64,
    tx_bps: Option<f64>,
}

/// Fits a scenario to a flight. Times of the radio's log are those of the flight's, from 1970 on if both say so, else
/// since the flight's first position; `shift_s` is added to them.
///
/// # Errors
/// [`FitError`]
pub fn fit(
    scenario: &Scenario,
    track: &Track,
    start_s: f64,
    radio: &[Sample],
    shift_s: f64,
) -> Result<Fitted, FitError> {
    let measured = measure(scenario, track, start_s, radio, shift_s);
    if measured.len() < LEAST {
        return Err(FitError::Few(measured.len()));
    }
    let obstacles = scenario.node.obstacles.len();
    let before = Parameters {
        offset_db: scenario.model.path_loss.offset_db,
        exponent: scenario.model.path_loss.exponent,
        depths_db: scenario.node.obstacles.iter().map(|obstacle| obstacle.depth_db).collect(),
    };
    let problem = Problem { scenario, measured: &measured, before: before.clone() };
    // What to move: the offset always.
    let mut free = vec![true; 2 + obstacles];
    free.iter_mut().skip(2 + MAX_DEPTHS).for_each(|free| *free = false);
    let mut notes = Vec::new();
    let (after, errors) = loop {
        let (after, errors) = problem.solve(&free);
        let vague = |n: usize| {
            let most = if n == 1 { EXPONENT_ERROR } else { DEPTH_ERROR_DB };
            n > 0 && free[n] && errors[n].is_none_or(|error| error > most)
        };
        // The least certain goes first: without it the others may be certain enough.
        let worst = (1..free.len()).filter(|n| vague(*n)).max_by(|a, b| {
            let rank = |n: usize| {
                errors[n].map_or(f64::INFINITY, |error| error / if n == 1 { EXPONENT_ERROR } else { DEPTH_ERROR_DB })
            };
            rank(*a).total_cmp(&rank(*b))
        });
        match worst {
            None => break (after, errors),
            Some(n) => {
                free[n] = false;
                notes.push(match n {
                    1 => "the exponent is left as it was: the distances flown differ too little to tell it".into(),
                    n => format!("depth_db of obstacle {} is left as it was: too little time in its shadow", n - 1),
                });
            }
        }
    };
    let left = problem.residuals(&after);
    let constant = |n: usize| Constant { before: before.get(n), after: after.get(n), error: errors[n] };
    let deviation_db = (left.iter().map(|value| value * value).sum::<f64>() / left.len() as f64).sqrt();
    let before_db = problem.residuals(&before);
    Ok(Fitted {
        samples: measured.len(),
        offset_db: constant(0),
        exponent: constant(1),
        depths_db: (0..obstacles).map(|n| constant(n + 2)).collect(),
        at_1_km_db: at_1_km(scenario, &after),
        deviation_db,
        distance_m: problem.correlation_m(&left),
        mae_before_db: mean_absolute(&before_db),
        mae_after_db: mean_absolute(&left),
        rate: problem.rate(&before_db, &left),
        notes,
    })
}

/// A scenario with what was fitted to it.
pub fn apply(scenario: &Scenario, fitted: &Fitted) -> Scenario {
    let mut scenario = scenario.clone();
    scenario.model.path_loss.offset_db = fitted.offset_db.after;
    scenario.model.path_loss.exponent = fitted.exponent.after;
    for (obstacle, depth) in scenario.node.obstacles.iter_mut().zip(&fitted.depths_db) {
        obstacle.depth_db = depth.after;
    }
    scenario
}

fn measure(scenario: &Scenario, track: &Track, start_s: f64, radio: &[Sample], shift_s: f64) -> Vec<Measured> {
    let geometry = Geometry::new(scenario);
    let base = if start_s > UNIX_S && radio.first().is_some_and(|first| first.at_s > UNIX_S) { start_s } else { 0.0 };
    let in_flight = radio.iter().filter_map(|sample| {
        let at = (sample.at_s - base + shift_s).round();
        let second = (at >= 0.0).then_some(at as usize)?;
        let moment = track.moments.get(second)?;
        let (snr_db, tx_bps) = (sample.snr_db?, sample.tx_bps);
        Some(Measured { sight: geometry.sight(moment), way_m: moment.ground_speed_mps, second, snr_db, tx_bps })
    });
    in_flight.collect()
}

#[derive(Debug, Clone)]
struct Parameters {
    offset_db: f64,
    exponent: f64,
    depths_db: Vec<f64>,
}

impl Parameters {
    fn get(&self, n: usize) -> f64 {
        match n {
            0 => self.offset_db,
            1 => self.exponent,
            n => self.depths_db[n - 2],
        }
    }

    /// Within what the scenario allows.
    fn moved(&self, free: &[usize], step: &[f64]) -> Self {
        let mut moved = self.clone();
        for (n, step) in free.iter().zip(step) {
            match n {
                0 => moved.offset_db = (moved.offset_db + step).clamp(-100.0, 100.0),
                1 => moved.exponent = (moved.exponent + step).clamp(1.0, 8.0),
                n => moved.depths_db[n - 2] = (moved.depths_db[n - 2] + step).clamp(0.0, 60.0),
            }
        }
        moved
    }
}

struct Problem<'a> {
    scenario: &'a Scenario,
    measured: &'a [Measured],
    before: Parameters,
}

impl Problem<'_> {
    /// Measured less modelled, dB.
    fn residuals(&self, at: &Parameters) -> Vec<f64> {
        self.measured.iter().map(|one| one.snr_db - self.model(one, at)).collect()
    }

    /// What is in the sight is with the parameters of before.
    fn model(&self, one: &Measured, at: &Parameters) -> f64 {
        let sight = &one.sight;
        sight.median_snr_db + (at.offset_db - self.before.offset_db)
            - (at.exponent - self.before.exponent) * self.decades(sight)
            + sight.obstruction_db
            - self.obstruction(sight, &at.depths_db)
    }

    /// Ten times the logarithm of the distance beyond the reference.
    fn decades(&self, sight: &Sight) -> f64 {
        10.0 * (sight.distance_m / self.scenario.model.path_loss.reference_m).log10().max(0.0)
    }

    fn obstruction(&self, sight: &Sight, depths_db: &[f64]) -> f64 {
        let wavelength_m = self.scenario.radio.wavelength_m();
        let losses = self.scenario.node.obstacles.iter().zip(depths_db).map(|(obstacle, depth_db)| {
            let obstacle = crate::obstruction::Obstacle { depth_db: *depth_db, ..*obstacle };
            obstacle.loss_db(sight.elevation_deg, sight.relative_bearing_deg, sight.distance_m, wavelength_m)
        });
        losses.fold(0.0, f64::max)
    }

    /// Derivatives of the model by the free parameters.
    fn slopes(&self, one: &Measured, at: &Parameters, free: &[usize]) -> Vec<f64> {
        let slope = |n: &usize| match n {
            0 => 1.0,
            1 => -self.decades(&one.sight),
            n => {
                let mut more = at.depths_db.clone();
                more[n - 2] += 0.01;
                (self.obstruction(&one.sight, &at.depths_db) - self.obstruction(&one.sight, &more)) / 0.01
            }
        };
        free.iter().map(slope).collect()
    }

    /// The best parameters and the standard errors of those that are free and determined.
    fn solve(&self, free: &[bool]) -> (Parameters, Vec<Option<f64>>) {
        let free: Vec<usize> = (0..free.len()).filter(|n| free[*n]).collect();
        let mut at = self.before.clone();
        let mut cost = squares(&self.residuals(&at));
        let mut damping = 1e-3;
        for _ in 0..ROUNDS {
            let (normal, gradient) = self.normal(&at, &free);
            let mut damped = normal.clone();
            // A parameter without any influence would make it singular.
            for (n, row) in damped.iter_mut().enumerate() {
                row[n] += row[n] * damping + 1e-9;
            }
            let Some(step) = solve(damped, gradient) else { break };
            let next = at.moved(&free, &step);
            let next_cost = squares(&self.residuals(&next));
            if next_cost <= cost {
                let gained = cost - next_cost;
                (at, cost, damping) = (next, next_cost, damping * 0.2);
                if gained <= 1e-12 * (1.0 + cost) && step.iter().all(|step| step.abs() < 1e-7) {
                    break;
                }
            } else {
                damping *= 10.0;
                if damping > 1e9 {
                    break;
                }
            }
        }
        let errors = self.errors(&at, &free);
        (at, errors)
    }

    fn normal(&self, at: &Parameters, free: &[usize]) -> (Vec<Vec<f64>>, Vec<f64>) {
        let (mut normal, mut gradient) = (vec![vec![0.0; free.len()]; free.len()], vec![0.0; free.len()]);
        for (one, residual) in self.measured.iter().zip(self.residuals(at)) {
            let slopes = self.slopes(one, at, free);
            for (a, slope) in slopes.iter().enumerate() {
                gradient[a] += slope * residual;
                for (b, other) in slopes.iter().enumerate() {
                    normal[a][b] += slope * other;
                }
            }
        }
        (normal, gradient)
    }

    /// From the inverse of the normal matrix, with as many independent samples as the correlation from one to the next
    /// leaves: n (1 - ρ) / (1 + ρ).
    fn errors(&self, at: &Parameters, free: &[usize]) -> Vec<Option<f64>> {
        let mut errors = vec![None; 2 + self.before.depths_db.len()];
        let left = self.residuals(at);
        let rho = autocorrelation(&left).clamp(0.0, 0.99);
        let samples = left.len() as f64;
        let variance = squares(&left) / (samples - free.len() as f64).max(1.0) * (1.0 + rho) / (1.0 - rho);
        let (normal, _) = self.normal(at, free);
        for (n, parameter) in free.iter().enumerate() {
            let unit = (0..free.len()).map(|m| f64::from(u8::from(m == n))).collect();
            let inverse = solve(normal.clone(), unit).map(|column| column[n]);
            errors[*parameter] =
                inverse.filter(|value| value.is_finite() && *value > 0.0).map(|value| (variance * value).sqrt());
        }
        errors
    }

    /// From the correlation of seconds that follow each other.
    fn correlation_m(&self, left: &[f64]) -> Option<f64> {
        let is_dense =
            self.measured.windows(2).filter(|pair| pair[1].second == pair[0].second + 1).count() * 2 > left.len();
        let rho = autocorrelation(left);
        let way = self.measured.iter().map(|one| one.way_m).sum::<f64>() / left.len() as f64;
        (is_dense && (0.01..0.999).contains(&rho)).then(|| -way / rho.ln())
    }

    fn rate(&self, before: &[f64], after: &[f64]) -> Option<RateError> {
        let rates: Vec<f64> = self.measured.iter().filter_map(|one| one.tx_bps).collect();
        if rates.is_empty() {
            return None;
        }
        let error = |residuals: &[f64]| {
            let mut choice = RateChoice::new(&self.scenario.radio);
            let errors = self.measured.iter().zip(residuals).filter_map(|(one, residual)| {
                let modelled = choice.next(&self.scenario.radio, one.snr_db - residual).tx_bps;
                Some((modelled - one.tx_bps?).abs())
            });
            errors.sum::<f64>() / rates.len() as f64
        };
        Some(RateError {
            mean_bps: rates.iter().sum::<f64>() / rates.len() as f64,
            mae_before_bps: error(before),
            mae_after_bps: error(after),
        })
    }
}

/// Both antennas at their best, nothing in the way.
fn at_1_km(scenario: &Scenario, at: &Parameters) -> f64 {
    let (radio, path) = (&scenario.radio, &scenario.model.path_loss);
    let path = crate::radio::path_loss::PathLoss { exponent: at.exponent, ..*path };
    let receiver = match radio.sender {
        crate::radio::Sender::Node => &scenario.aircraft.antenna,
        crate::radio::Sender::Aircraft => &scenario.node.antenna,
    };
    radio.eirp_dbm + receiver.peak_dbi() + at.offset_db
        - radio.losses_db
        - radio.noise_dbm()
        - path.loss_db(1_000.0, radio.wavelength_m())
}

fn squares(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum()
}

fn mean_absolute(values: &[f64]) -> f64 {
    values.iter().map(|value| value.abs()).sum::<f64>() / values.len().max(1) as f64
}

/// From one value to the next.
fn autocorrelation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let variance: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let next: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    if variance > 0.0 { next / variance } else { 0.0 }
}

/// A system of linear equations, by elimination with the largest pivot. `None` if it is singular.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Option<Vec<f64>> {
    let size = right.len();
    for column in 0..size {
        let pivot = (column..size).max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        if matrix[pivot][column].abs() <= 1e-12 || matrix[pivot][column].is_nan() {
            return None;
        }
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        for row in column + 1..size {
            let factor = matrix[row][column] / matrix[column][column];
            let above = matrix[column].clone();
            for (value, above) in matrix[row].iter_mut().zip(&above).skip(column) {
                *value -= factor * above;
            }
            right[row] -= factor * right[column];
        }
    }
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|column| matrix[row][column] * right[column]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    Some(right)
}

#[cfg(test)]
#[path = "fit_tests.rs"]
mod tests;
