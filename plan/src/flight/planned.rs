//! Loiters and missions, flown.

use std::f64::consts::TAU;

use serde::{Deserialize, Serialize};

use super::airframe::{Airframe, Wind};
use super::pilot::{Pilot, Point, Until, sweep};
use super::{FlightError, Track};
use crate::geodesy::{Frame, Position};
use crate::mission::{Item, Mission, command, frame};
use crate::terrain::Terrain;

/// A circle near the node, as the data-mule paper's trajectories are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loiter {
    /// Above the sea, or the ground at the node, m.
    pub altitude_m: f64,
    /// Of the circle, m.
    pub radius_m: f64,
    /// From the node to the circle's center, m.
    #[serde(default)]
    pub offset_m: f64,
    /// Where the center is from the node, clockwise from north, degrees.
    #[serde(default)]
    pub bearing_deg: f64,
    /// Which way around.
    #[serde(default = "yes")]
    pub clockwise: bool,
    /// How long, s.
    #[serde(default = "lasts")]
    pub lasts_s: f64,
}

fn yes() -> bool {
    true
}

/// Twenty tests of 15 s each, as the paper's.
fn lasts() -> f64 {
    300.0
}

impl Loiter {
    /// What is wrong with its numbers, if something is.
    pub(crate) fn fault(&self) -> Option<String> {
        let checks = [
            ("altitude_m", self.altitude_m, 0.0, 50_000.0),
            ("radius_m", self.radius_m, 5.0, 50_000.0),
            ("offset_m", self.offset_m, 0.0, 150_000.0),
            ("bearing_deg", self.bearing_deg, -360.0, 360.0),
            ("lasts_s", self.lasts_s, 1.0, 86_400.0),
        ];
        let wrong = checks.into_iter().find(|(_, value, from, to)| !(*from..=*to).contains(value));
        wrong.map(|(name, value, from, to)| format!("{name} is {value}; it must be from {from} to {to}"))
    }

    /// Where its center is, east and north of the node.
    pub fn center(&self) -> Point {
        let (sin, cos) = self.bearing_deg.to_radians().sin_cos();
        [self.offset_m * sin, self.offset_m * cos]
    }

    /// Flies it, from the northernmost point of the circle on.
    ///
    /// # Errors
    /// [`FlightError`]
    pub fn fly(&self, node: &Frame, ground_m: f64, airframe: &Airframe, wind: Wind) -> Result<Track, FlightError> {
        let center = self.center();
        let start = [center[0], center[1] + self.radius_m];
        let altitude_m = ground_m + self.altitude_m;
        let mut pilot = Pilot::new(node, airframe, wind, start, altitude_m, self.lasts_s);
        pilot.circle(center, self.clockwise, Until::Seconds(self.lasts_s), altitude_m)?;
        Ok(pilot.finish())
    }
}

/// Radius of a loiter that says none, m: the default of ArduPlane's WP_LOITER_RAD.
const LOITER_RADIUS_M: f64 = 60.0;
/// Items flown, those of jumps included.
const MAX_FLOWN: usize = 10_000;

/// Flies a mission until it ends or the horizon is reached.
///
/// # Errors
/// [`FlightError`]
pub fn fly(
    mission: &Mission,
    node: &Frame,
    ground_m: f64,
    terrain: Option<&Terrain>,
    airframe: &Airframe,
    wind: Wind,
    horizon_s: f64,
) -> Result<Track, FlightError> {
    let home = mission.home.filter(|home| home[0] != 0.0 || home[1] != 0.0);
    let origin = node.origin();
    let home = home.unwrap_or([origin.latitude_deg, origin.longitude_deg, ground_m]);
    let mut route = Route {
        node,
        terrain,
        home_m: home[2],
        legs: Vec::new(),
        last: Spot { at: flat(node, home[0], home[1]), altitude_m: home[2] },
        notes: mission.notes.clone(),
    };
    route.legs.push(Leg { spot: route.last, airspeed_mps: airframe.airspeed_mps, kind: Kind::Pass });
    route.read(mission, airframe)?;
    // A mission without a take-off begins at its first point: it is drawn, not armed.
    let takes_off = mission.items.iter().any(|item| item.command == command::TAKEOFF);
    let first = if takes_off { 0 } else { 1 };
    let legs = &route.legs[first.min(route.legs.len())..];
    let Some(start) = legs.first().filter(|_| route.legs.len() > 1) else { return Err(FlightError::Nowhere) };
    let mut pilot = Pilot::new(node, airframe, wind, start.spot.at, start.spot.altitude_m, horizon_s);
    if let Kind::Circle { radius_m, .. } = start.kind {
        pilot.at[1] += radius_m;
    }
    fly_legs(legs, &mut pilot, airframe, wind)?;
    let ended = pilot.is_over();
    let mut track = pilot.finish();
    if track.moments.is_empty() {
        return Err(FlightError::Nowhere);
    }
    track.notes = route.notes;
    if ended {
        track.notes.push(format!("the mission goes on after {horizon_s:.0} s, which is as far as it was looked at"));
    }
    Ok(track)
}

/// East and north of the node.
fn flat(node: &Frame, latitude_deg: f64, longitude_deg: f64) -> Point {
    let local = node.to_local(Position { latitude_deg, longitude_deg, altitude_m: node.origin().altitude_m });
    [local.east, local.north]
}

#[derive(Debug, Clone, Copy)]
struct Spot {
    at: Point,
    altitude_m: f64,
}

#[derive(Debug, Clone, Copy)]
struct Leg {
    spot: Spot,
    airspeed_mps: f64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Pass,
    Circle { radius_m: f64, clockwise: bool, until: Until },
}

struct Route<'a> {
    node: &'a Frame,
    terrain: Option<&'a Terrain>,
    home_m: f64,
    legs: Vec<Leg>,
    last: Spot,
    notes: Vec<String>,
}

impl Route<'_> {
    /// Follows the items, jumps included.
    fn read(&mut self, mission: &Mission, airframe: &Airframe) -> Result<(), FlightError> {
        let items = &mission.items;
        let mut jumps = vec![None; items.len()];
        let (mut next, mut airspeed_mps) = (0, airframe.airspeed_mps);
        for _ in 0..MAX_FLOWN {
            let Some(item) = items.get(next) else { return Ok(()) };
            next += 1;
            let fault = |reason: String| FlightError::Item { number: item.number, reason };
            match item.command {
                command::DO_JUMP => {
                    let target = items.iter().position(|other| f64::from(other.number) == item.params[0]);
                    let target =
                        target.ok_or_else(|| fault(format!("jumps to {}, which is not there", item.params[0])))?;
                    let left = jumps[next - 1].get_or_insert(item.params[1]);
                    if *left != 0.0 {
                        *left -= 1.0;
                        next = target;
                    }
                }
                command::DO_CHANGE_SPEED if item.params[1] > 0.0 => {
                    let speed = item.params[1];
                    if !(1.0..=400.0).contains(&speed) {
                        return Err(fault(format!("a speed of {speed} m/s; from 1 to 400 are known")));
                    }
                    airspeed_mps = speed;
                }
                command::RETURN_TO_LAUNCH => {
                    let home = self.legs[0].spot;
                    self.push(Spot { at: home.at, ..self.last }, airspeed_mps, Kind::Pass);
                    return Ok(());
                }
                number if number <= command::LAST_NAV => {
                    let is_end = self.nav(item, airspeed_mps).map_err(fault)?;
                    if is_end {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
        self.notes.push(format!("only the first {MAX_FLOWN} items were looked at, those of jumps included"));
        Ok(())
    }

    /// One that moves the aircraft; whether it is the last.
    fn nav(&mut self, item: &Item, airspeed_mps: f64) -> Result<bool, String> {
        let spot = self.spot(item)?;
        let circle = |radius: f64, until| Kind::Circle {
            radius_m: if radius.abs() < 1.0 { LOITER_RADIUS_M } else { radius.abs().min(50_000.0) },
            clockwise: radius >= 0.0,
            until,
        };
        let [first, second, third, _] = item.params;
        match item.command {
            command::WAYPOINT | command::SPLINE_WAYPOINT => self.push(spot, airspeed_mps, Kind::Pass),
            command::TAKEOFF => {
                // Up, without a place: the climb is made good on the way to the next item.
                let at = if item.has_place() { spot.at } else { self.last.at };
                self.push(Spot { at, ..spot }, airspeed_mps, Kind::Pass);
            }
            command::LAND => {
                self.push(spot, airspeed_mps, Kind::Pass);
                return Ok(true);
            }
            command::LOITER_UNLIM => self.push(spot, airspeed_mps, circle(third, Until::Around(f64::INFINITY))),
            command::LOITER_TURNS => {
                let turns = first.clamp(0.0, 100_000.0);
                self.push(spot, airspeed_mps, circle(third, Until::Around(turns * TAU)));
            }
            command::LOITER_TIME => {
                self.push(spot, airspeed_mps, circle(third, Until::Seconds(first.clamp(0.0, 86_400.0))));
            }
            command::LOITER_TO_ALT => self.push(spot, airspeed_mps, circle(second, Until::AtAltitude)),
            other => self.notes.push(format!("item {}: left out, command {other} is not known here", item.number)),
        }
        Ok(false)
    }

    fn push(&mut self, spot: Spot, airspeed_mps: f64, kind: Kind) {
        self.last = spot;
        self.legs.push(Leg { spot, airspeed_mps, kind });
    }

    fn spot(&self, item: &Item) -> Result<Spot, String> {
        let at = if item.has_place() { flat(self.node, item.latitude_deg, item.longitude_deg) } else { self.last.at };
        let altitude_m = match item.frame {
            frame::GLOBAL | frame::GLOBAL_INT => item.altitude_m,
            frame::RELATIVE | frame::RELATIVE_INT | frame::MISSION => self.home_m + item.altitude_m,
            frame::TERRAIN | frame::TERRAIN_INT => match self.terrain {
                Some(terrain) if item.has_place() => {
                    terrain.height_m(item.latitude_deg, item.longitude_deg) + item.altitude_m
                }
                Some(_) => self.last.altitude_m,
                None => return Err("its altitude is above the ground, and there is no terrain".into()),
            },
            other => return Err(format!("frame {other} is not known: 0, 3, 5, 6, 10 and 11 are")),
        };
        Ok(Spot { at, altitude_m })
    }
}

/// Flies lines with turns at their corners, and circles that lines touch.
fn fly_legs(legs: &[Leg], pilot: &mut Pilot, airframe: &Airframe, wind: Wind) -> Result<(), FlightError> {
    for (n, leg) in legs.iter().enumerate() {
        if pilot.is_over() {
            return Ok(());
        }
        let next = legs.get(n + 1);
        pilot.airspeed_mps = leg.airspeed_mps;
        match leg.kind {
            Kind::Pass => {
                let radius = airframe.turn_radius_m(leg.airspeed_mps, wind);
                let target = next.map(|next| aim(leg.spot.at, next));
                corner(pilot, leg.spot, target, radius)?;
            }
            Kind::Circle { radius_m, clockwise, until } => {
                let center = leg.spot.at;
                let entry = tangent(center, radius_m, pilot.at, clockwise);
                pilot.line(entry, leg.spot.altitude_m)?;
                pilot.circle(center, clockwise, until, leg.spot.altitude_m)?;
                if let Some(next) = next {
                    // Seen from behind, the way out is the way in of the other direction.
                    let exit = tangent(center, radius_m, next.spot.at, !clockwise);
                    let bearing = |at: Point| (at[0] - center[0]).atan2(at[1] - center[1]);
                    let rest = Until::Around(sweep(bearing(pilot.at), bearing(exit), clockwise));
                    pilot.circle(center, clockwise, rest, leg.spot.altitude_m)?;
                }
            }
        }
    }
    Ok(())
}

/// Where the line from a point to a leg goes: to the point, or to where it touches the circle.
fn aim(from: Point, leg: &Leg) -> Point {
    match leg.kind {
        Kind::Pass => leg.spot.at,
        Kind::Circle { radius_m, clockwise, .. } => tangent(leg.spot.at, radius_m, from, clockwise),
    }
}

/// Where a line from outside touches a circle so that it goes on around it; from within, the nearest point.
fn tangent(center: Point, radius: f64, from: Point, clockwise: bool) -> Point {
    let (east, north) = (from[0] - center[0], from[1] - center[1]);
    let distance = east.hypot(north);
    let off = if distance > radius { (radius / distance).acos() } else { 0.0 };
    let bearing = east.atan2(north) + if clockwise { off } else { -off };
    [center[0] + radius * bearing.sin(), center[1] + radius * bearing.cos()]
}

/// To a corner and around it, cutting it: a circle that touches both lines, within the half of each.
fn corner(pilot: &mut Pilot, spot: Spot, next: Option<Point>, radius: f64) -> Result<(), FlightError> {
    let from = pilot.at;
    let (here, there) = (between(from, spot.at), next.map_or((0.0, [0.0, 0.0]), |next| between(spot.at, next)));
    let (dot, cross) =
        (here.1[0] * there.1[0] + here.1[1] * there.1[1], here.1[0] * there.1[1] - here.1[1] * there.1[0]);
    let turn = cross.atan2(dot).abs();
    // Straight on needs none, and back the same way has none.
    if here.0 < 1.0 || there.0 < 1.0 || !(0.01..=3.1).contains(&turn) {
        return pilot.line(spot.at, spot.altitude_m);
    }
    let cut = (radius * (turn / 2.0).tan()).min(here.0 * 0.999).min(there.0 / 2.0);
    let radius = cut / (turn / 2.0).tan();
    let start = [spot.at[0] - here.1[0] * cut, spot.at[1] - here.1[1] * cut];
    pilot.line(start, spot.altitude_m)?;
    let clockwise = cross < 0.0;
    // To the right of the way in if clockwise.
    let side = if clockwise { radius } else { -radius };
    let center = [start[0] + here.1[1] * side, start[1] - here.1[0] * side];
    pilot.circle(center, clockwise, Until::Around(turn), spot.altitude_m)
}

/// Length and direction.
fn between(from: Point, to: Point) -> (f64, Point) {
    let delta = [to[0] - from[0], to[1] - from[1]];
    let length = delta[0].hypot(delta[1]);
    if length > 0.0 { (length, [delta[0] / length, delta[1] / length]) } else { (0.0, [0.0, 0.0]) }
}

#[cfg(test)]
#[path = "planned_tests.rs"]
mod tests;
