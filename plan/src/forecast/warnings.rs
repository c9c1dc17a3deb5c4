//! What somebody should look at before the flight.

use std::ops::Range;

use serde::Serialize;

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

/// An antenna this far below its best looks past the other side, dB.
const NULL_DB: f64 = 10.0;
/// The superstructure takes this much, dB.
const MASKED_DB: f64 = 6.0;
/// Of the time: less is not worth a word.
const WORTH: f64 = 0.05;

/// Of a flight.
pub fn find(scenario: &Scenario, seconds: &[Second], contact: &[Range<usize>]) -> Vec<Warning> {
    let mut warnings = Vec::new();
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
        let weak = share(&|second| gain(second) < antenna.peak_dbi() - NULL_DB);
        if weak > WORTH {
            say(
                Severity::Link,
                format!("{whose} antenna is {NULL_DB} dB and more below its best for {} of the time", percent(weak)),
            );
        }
    }
    let masked = share(&|second| second.sight.obstruction_db > MASKED_DB);
    if masked > WORTH {
        say(
            Severity::Link,
            format!(
                "the superstructure takes more than {MASKED_DB} dB for {} of the time{}",
                percent(masked),
                sector(seconds)
            ),
        );
    }
    let hills = share(&|second| second.sight.terrain_db > MASKED_DB);
    if hills > WORTH {
        say(Severity::Link, format!("hills take more than {MASKED_DB} dB for {} of the time", percent(hills)));
    }
    let out = 1.0 - contact.iter().map(ExactSizeIterator::len).sum::<usize>() as f64 / seconds.len().max(1) as f64;
    if out > WORTH {
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
fn sector(seconds: &[Second]) -> String {
    let mut masked = [false; 36];
    for second in seconds.iter().filter(|second| second.sight.obstruction_db > MASKED_DB) {
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
