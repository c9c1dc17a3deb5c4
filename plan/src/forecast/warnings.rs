//! What somebody should look at before the flight.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Second;
use crate::scenario::Scenario;

/// How bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// It should not be flown like that.
    Danger,
    /// It costs volume.
    Link,
}

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Warning {
    /// How bad.
    pub severity: Severity,
    /// What.
    pub text: String,
}

/// What is worth a word. None of these numbers is in the papers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// An antenna this far below its best looks past the other side, dB. Default: 10.
    pub null_db: f64,
    /// The superstructure, or hills, take more than this, dB. Default: 6, what the edge of a screen takes.
    pub masked_db: f64,
    /// Either, or no contact, for more than this share of the time. Default: 0.05.
    pub share: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { null_db: 10.0, masked_db: 6.0, share: 0.05 }
    }
}

impl Limits {
    /// What is wrong with its numbers, if something is.
    pub(crate) fn fault(&self) -> Option<String> {
        let checks = [
            ("null_db", self.null_db, 0.0, 60.0),
            ("masked_db", self.masked_db, 0.0, 60.0),
            ("share", self.share, 0.0, 1.0),
        ];
        let wrong = checks.into_iter().find(|(_, value, from, to)| !(*from..=*to).contains(value));
        wrong.map(|(name, value, from, to)| format!("{name} is {value}; it must be from {from} to {to}"))
    }
}

/// Of a flight.
pub fn find(scenario: &Scenario, seconds: &[Second], contact: &[Range<usize>]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let Limits { null_db, masked_db, share: worth } = scenario.warnings;
    let mut say = |severity, text| warnings.push(Warning { severity, text });
    let airframe = &scenario.aircraft;
    let steepest = seconds.iter().map(|second| second.moment.roll_deg.abs()).fold(0.0, f64::max);
    if steepest > airframe.bank_limit_deg + 1.0 {
        say(Severity::Danger, format!("banks by {steepest:.0} degrees; bank_limit_deg is {}", airframe.bank_limit_deg));
    }
    // In a level turn the load factor is 1 / cos φ, and the stall speed grows with its root.
    let stall = airframe.stall_mps / steepest.min(89.0).to_radians().cos().sqrt();
    if stall > airframe.airspeed_mps {
        say(
            Severity::Danger,
            format!(
                "stalls at {stall:.1} m/s with {steepest:.0} degrees of bank, and flies at {} m/s",
                airframe.airspeed_mps
            ),
        );
    }
    let height = |second: &Second| second.moment.position.altitude_m - scenario.node.ground_m;
    let lowest = aloft(seconds, |second| height(second) >= airframe.lowest_safe_m);
    let lowest = lowest.iter().map(height).fold(f64::INFINITY, f64::min);
    if lowest < airframe.lowest_safe_m {
        say(
            Severity::Danger,
            format!(
                "flies {lowest:.0} m above the node's ground; the lowest safe altitude is {} m",
                airframe.lowest_safe_m
            ),
        );
    }
    if let Some(terrain) = &scenario.terrain {
        // Every third second: 50 m of way at most, and as far to each side is looked at.
        let clearance = seconds
            .iter()
            .step_by(3)
            .map(|second| second.moment.position.altitude_m - terrain.highest_m(second.moment.position, 60.0));
        let clearance = clearance.fold(f64::INFINITY, f64::min);
        if clearance < airframe.clearance_m {
            say(
                Severity::Danger,
                format!("comes within {clearance:.0} m of the ground; clearance_m is {}", airframe.clearance_m),
            );
        }
    }
    let share = |is_so: &dyn Fn(&Second) -> bool| {
        seconds.iter().filter(|second| is_so(second)).count() as f64 / seconds.len().max(1) as f64
    };
    let antennas = [
        ("the node's", &scenario.node.antenna, (|second| second.sight.node_gain_dbi) as fn(&Second) -> f64),
        ("the aircraft's", &scenario.aircraft.antenna, |second| second.sight.aircraft_gain_dbi),
    ];
    for (whose, antenna, gain) in antennas {
        let weak = share(&|second| gain(second) < antenna.peak_dbi() - null_db);
        if weak > worth {
            say(
                Severity::Link,
                format!("{whose} antenna is {null_db} dB and more below its best for {} of the time", percent(weak)),
            );
        }
    }
    let masked = share(&|second| second.sight.obstruction_db > masked_db);
    if masked > worth {
        say(
            Severity::Link,
            format!(
                "the superstructure takes more than {masked_db} dB for {} of the time{}",
                percent(masked),
                sector(seconds, masked_db)
            ),
        );
    }
    let hills = share(&|second| second.sight.terrain_db > masked_db);
    if hills > worth {
        say(Severity::Link, format!("hills take more than {masked_db} dB for {} of the time", percent(hills)));
    }
    let out = 1.0 - contact.iter().map(ExactSizeIterator::len).sum::<usize>() as f64 / seconds.len().max(1) as f64;
    if out > worth {
        say(Severity::Link, format!("no contact for {} of the time", percent(out)));
    }
    warnings
}

/// Without the climb after take-off and the descent to land: from where it is first high enough to where it is last.
/// All, if it never is.
fn aloft(seconds: &[Second], is_high: impl Fn(&Second) -> bool) -> &[Second] {
    match (seconds.iter().position(&is_high), seconds.iter().rposition(&is_high)) {
        (Some(first), Some(last)) => &seconds[first..=last],
        _ => seconds,
    }
}

/// The relative bearings in which it is masked, if they are one sector.
fn sector(seconds: &[Second], masked_db: f64) -> String {
    let mut masked = [false; 36];
    for second in seconds.iter().filter(|second| second.sight.obstruction_db > masked_db) {
        let bearing = crate::geodesy::wrap_360(second.sight.relative_bearing_deg);
        masked[(bearing / 10.0) as usize % 36] = true;
    }
    let begins: Vec<usize> = (0..36).filter(|n| masked[*n] && !masked[(n + 35) % 36]).collect();
    let sectors: Vec<String> = begins
        .iter()
        .map(|begin| {
            let length = (0..36).take_while(|step| masked[(begin + step) % 36]).count();
            format!("{}-{}", begin * 10, (begin + length) % 36 * 10)
        })
        .collect();
    match sectors.is_empty() {
        true => String::new(),
        false => format!(", at {} degrees from the bow", sectors.join(", ")),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
