//! Flies lines, turns and circles in steps of a tenth of a second, and keeps what happens at each whole second.
//!
//! The plane is flat, east and north of the node. Bank is that of a coordinated turn: atan(v ω / g), v the airspeed and
//! ω how fast the heading turns; without wind on a circle that is atan(v² / (g r)). It changes at the
//! airframe's roll rate at most.

use std::f64::consts::{PI, TAU};

use super::airframe::{Airframe, GRAVITY, Wind};
use super::{FARTHEST_M, FlightError, Moment, Track};
use crate::geodesy::{Frame, wrap_360};

/// East and north, m.
pub type Point = [f64; 2];

/// A step, s; ten of them are a second.
const STEP: f64 = 0.1;
const STEPS: u32 = 10;

/// The state of a flight.
#[derive(Debug)]
pub struct Pilot<'a> {
    frame: &'a Frame,
    airframe: &'a Airframe,
    wind: Wind,
    /// Through the air, m/s.
    pub airspeed_mps: f64,
    /// Where it is.
    pub at: Point,
    /// Above the sea, m.
    pub altitude_m: f64,
    horizon_s: f64,
    /// Steps since the beginning.
    steps: u32,
    heading: Option<f64>,
    roll_deg: f64,
    track: Track,
}

/// How long a circle is flown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Until {
    /// So far around, radians.
    Around(f64),
    /// So long, s.
    Seconds(f64),
    /// Until at the altitude.
    AtAltitude,
}

impl<'a> Pilot<'a> {
    /// At its beginning; the flight ends at the horizon.
    pub fn new(
        frame: &'a Frame,
        airframe: &'a Airframe,
        wind: Wind,
        at: Point,
        altitude_m: f64,
        horizon_s: f64,
    ) -> Self {
        let airspeed_mps = airframe.airspeed_mps;
        let (steps, heading, roll_deg, track) = (0, None, 0.0, Track::default());
        Self { frame, airframe, wind, airspeed_mps, at, altitude_m, horizon_s, steps, heading, roll_deg, track }
    }

    /// Since the beginning, s.
    pub fn time_s(&self) -> f64 {
        f64::from(self.steps) * STEP
    }

    /// Whether the horizon is reached.
    pub fn is_over(&self) -> bool {
        self.time_s() >= self.horizon_s
    }

    /// What was flown.
    pub fn finish(self) -> Track {
        self.track
    }

    /// One step in a direction, towards an altitude. Gives the way over the ground.
    fn step(&mut self, direction: Point, altitude_m: f64) -> Result<f64, FlightError> {
        let motion = self.wind.motion(self.airspeed_mps, direction)?;
        let turn = self.heading.map_or(0.0, |last| (motion.heading_rad - last + PI).rem_euclid(TAU) - PI);
        // A corner that is not flown as a turn would be a spin.
        let rate = if turn.abs() < 0.3 { turn / STEP } else { 0.0 };
        let wanted = (self.airspeed_mps * rate / GRAVITY).atan().to_degrees();
        // On a circle from the beginning, it is banked from the beginning.
        let is_new = self.steps <= 1;
        let roll = self.airframe.roll_rate_dps * STEP;
        self.roll_deg += if is_new { wanted - self.roll_deg } else { (wanted - self.roll_deg).clamp(-roll, roll) };
        self.heading = Some(motion.heading_rad);
        let climb =
            (altitude_m - self.altitude_m).clamp(-self.airframe.climb_mps * STEP, self.airframe.climb_mps * STEP);
        if self.steps.is_multiple_of(STEPS) {
            let away = self.at[0].hypot(self.at[1]);
            if away > FARTHEST_M {
                return Err(FlightError::Far(away / 1e3));
            }
            self.track.moments.push(Moment {
                position: self.frame.place(self.at[0], self.at[1], self.altitude_m),
                ground_speed_mps: motion.ground_mps,
                heading_deg: wrap_360(motion.heading_rad.to_degrees()),
                roll_deg: self.roll_deg,
                pitch_deg: (climb / STEP / self.airspeed_mps).clamp(-1.0, 1.0).asin().to_degrees(),
            });
        } else if let Some(first) = self.track.moments.first_mut().filter(|_| self.steps == 1) {
            // The first moment has no turn behind it yet.
            first.roll_deg = self.roll_deg;
        }
        self.altitude_m += climb;
        self.steps += 1;
        Ok(motion.ground_mps * STEP)
    }

    /// Straight on, and evenly up or down to an altitude as far as the climb allows.
    ///
    /// # Errors
    /// [`FlightError`]
    pub fn line(&mut self, to: Point, altitude_m: f64) -> Result<(), FlightError> {
        let (from, start_m) = (self.at, self.altitude_m);
        let delta = [to[0] - from[0], to[1] - from[1]];
        let length = delta[0].hypot(delta[1]);
        let mut flown = 0.0;
        while flown < length && !self.is_over() {
            let direction = [delta[0] / length, delta[1] / length];
            let share = ((flown + 1.0) / length).min(1.0);
            let way = self.step(direction, start_m + (altitude_m - start_m) * share)?;
            flown = (flown + way).min(length);
            self.at = [from[0] + direction[0] * flown, from[1] + direction[1] * flown];
        }
        Ok(())
    }

    /// Around a center, from where it is on.
    ///
    /// # Errors
    /// [`FlightError`]
    pub fn circle(&mut self, center: Point, clockwise: bool, until: Until, altitude_m: f64) -> Result<(), FlightError> {
        let (east, north) = (self.at[0] - center[0], self.at[1] - center[1]);
        let (radius, side) = (east.hypot(north).max(1.0), if clockwise { 1.0 } else { -1.0 });
        let (mut bearing, mut around, begin) = (east.atan2(north), 0.0, self.time_s());
        while !self.is_over() {
            let left = match until {
                Until::Around(angle) => angle - around,
                Until::Seconds(seconds) if self.time_s() - begin >= seconds => break,
                Until::AtAltitude if (self.altitude_m - altitude_m).abs() < 0.5 => break,
                _ => f64::INFINITY,
            };
            if left <= 0.0 {
                break;
            }
            let (sin, cos) = f64::sin_cos(bearing);
            let way = self.step([side * cos, -side * sin], altitude_m)?;
            let angle = (way / radius).min(left);
            bearing += side * angle;
            around += angle;
            self.at = [center[0] + radius * bearing.sin(), center[1] + radius * bearing.cos()];
        }
        Ok(())
    }
}

/// How far around from a bearing to another, radians from 0 to a whole turn.
pub fn sweep(from: f64, to: f64, clockwise: bool) -> f64 {
    let angle = if clockwise { to - from } else { from - to };
    let wrapped = angle.rem_euclid(TAU);
    // What rounding leaves of a whole turn is none.
    if wrapped > TAU - 1e-6 { 0.0 } else { wrapped }
}
