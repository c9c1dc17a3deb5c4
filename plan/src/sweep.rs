//! Which circle is best: altitudes, radii and distances from the node, all combinations.

use serde::{Deserialize, Serialize};

use crate::flight::FlightError;
use crate::flight::planned::Loiter;
use crate::forecast::Forecast;
use crate::forecast::warnings::Severity;
use crate::scenario::{Flight, Scenario, Way};

/// What is tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Axes {
    /// Above the node's ground, m.
    pub altitude_m: Vec<f64>,
    /// Of the circle, m.
    pub radius_m: Vec<f64>,
    /// From the node to its center, m.
    pub offset_m: Vec<f64>,
    /// Where the center is from the node, clockwise from north, degrees.
    pub bearing_deg: Vec<f64>,
}

/// Circles of a sweep, at most.
pub const MAX_CIRCLES: usize = 20_000;
/// Seconds of link that a sweep plays, at most: some minutes.
const MOST_S: f64 = 1e9;

/// A sweep that would take too long.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{circles} circles of {lasts_s} s with {seeds} seeds are too many: fewer of one of them")]
pub struct SweepError {
    /// How many circles.
    pub circles: usize,
    /// Of each, s.
    pub lasts_s: f64,
    /// How many tries.
    pub seeds: u32,
}

impl Default for Axes {
    fn default() -> Self {
        Self {
            altitude_m: vec![100.0, 150.0, 200.0, 250.0, 300.0, 400.0, 500.0, 600.0, 800.0],
            radius_m: vec![100.0, 200.0, 300.0, 400.0, 600.0],
            offset_m: vec![0.0, 400.0, 800.0],
            bearing_deg: vec![0.0],
        }
    }
}

/// A circle that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tried {
    /// Which.
    pub loiter: Loiter,
    /// Mean of what comes over, in one of ten seeds less, bit/s.
    pub p10_bps: f64,
    /// In the median, bit/s.
    pub p50_bps: f64,
    /// In one of ten seeds more, bit/s.
    pub p90_bps: f64,
    /// Most bank, degrees.
    pub bank_deg: f64,
    /// Share of seconds with contact.
    pub contact_share: f64,
    /// Why it should not be flown, or cannot be; empty if nothing speaks against it.
    pub dangers: Vec<String>,
}

impl Axes {
    /// What is wrong with its numbers, if something is.
    pub(crate) fn fault(&self) -> Option<String> {
        let lengths = [self.altitude_m.len(), self.radius_m.len(), self.offset_m.len(), self.bearing_deg.len()];
        let circles = lengths.iter().try_fold(1usize, |product, length| product.checked_mul(*length));
        if circles.is_none_or(|circles| !(1..=MAX_CIRCLES).contains(&circles)) {
            return Some(format!("each axis needs a value, and all together make {MAX_CIRCLES} circles at most"));
        }
        self.circles(1.0, true).find_map(|loiter| loiter.fault())
    }

    /// All of them.
    fn circles(&self, lasts_s: f64, clockwise: bool) -> impl Iterator<Item = Loiter> + '_ {
        let Self { altitude_m, radius_m, offset_m, bearing_deg } = self;
        let circle = move |altitude_m, radius_m, offset_m, bearing_deg| Loiter {
            altitude_m,
            radius_m,
            offset_m,
            bearing_deg,
            clockwise,
            lasts_s,
        };
        altitude_m.iter().flat_map(move |altitude| {
            radius_m.iter().flat_map(move |radius| {
                offset_m.iter().flat_map(move |offset| {
                    // Around the node all bearings are the same.
                    let bearings = if *offset == 0.0 { &bearing_deg[..bearing_deg.len().min(1)] } else { bearing_deg };
                    bearings.iter().map(move |bearing| circle(*altitude, *radius, *offset, *bearing))
                })
            })
        })
    }
}

/// Tries all circles of the scenario's axes, each for as long, and the same way around, as the scenario's first loiter,
/// or for 300 s clockwise. The best comes first; those with dangers come last.
///
/// # Errors
/// [`SweepError`]
pub fn sweep(scenario: &Scenario) -> Result<Vec<Tried>, SweepError> {
    let first = scenario.flights.iter().find_map(|flight| match &flight.way {
        Way::Loiter(loiter) => Some((loiter.lasts_s, loiter.clockwise)),
        _ => None,
    });
    let (lasts_s, clockwise) = first.unwrap_or((300.0, true));
    let (circles, seeds) = (scenario.sweep.circles(lasts_s, clockwise).count(), scenario.model.seeds);
    if circles as f64 * lasts_s * f64::from(seeds) > MOST_S {
        return Err(SweepError { circles, lasts_s, seeds });
    }
    let mut tried: Vec<Tried> =
        scenario.sweep.circles(lasts_s, clockwise).map(|loiter| one(scenario, loiter)).collect();
    tried.sort_by(|a, b| {
        a.dangers.is_empty().cmp(&b.dangers.is_empty()).reverse().then(b.p50_bps.total_cmp(&a.p50_bps))
    });
    Ok(tried)
}

fn one(scenario: &Scenario, loiter: Loiter) -> Tried {
    let flight = Flight { name: String::new(), way: Way::Loiter(loiter), horizon_s: loiter.lasts_s };
    let failed = |error: FlightError| Tried {
        loiter,
        p10_bps: 0.0,
        p50_bps: 0.0,
        p90_bps: 0.0,
        bank_deg: 0.0,
        contact_share: 0.0,
        dangers: vec![error.to_string()],
    };
    let track = match scenario.fly(&flight) {
        Ok(track) => track,
        Err(error) => return failed(error),
    };
    let forecast = Forecast::new(scenario, "", &track);
    let seconds = forecast.seconds.len().max(1) as f64;
    let contact: u32 = forecast.windows.iter().map(|window| window.to_s - window.from_s).sum();
    let dangers = forecast.warnings.iter().filter(|warning| warning.severity == Severity::Danger);
    Tried {
        loiter,
        p10_bps: forecast.volume.p10_bits / seconds,
        p50_bps: forecast.volume.p50_bits / seconds,
        p90_bps: forecast.volume.p90_bits / seconds,
        bank_deg: forecast.seconds.iter().map(|second| second.moment.roll_deg.abs()).fold(0.0, f64::max),
        contact_share: f64::from(contact) / seconds,
        dangers: dangers.map(|warning| warning.text.clone()).collect(),
    }
}
