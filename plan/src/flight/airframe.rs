//! The aircraft and the wind.

use serde::{Deserialize, Serialize};

use super::FlightError;
use crate::antenna::Antenna;

/// Standard gravity, m/s².
pub const GRAVITY: f64 = 9.806_65;

/// An aircraft. Numbers are those of a Skywalker X8 as the data-mule paper's was; the paper prints none of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Airframe {
    /// Through the air, m/s.
    pub airspeed_mps: f64,
    /// Below which it stalls in level flight, m/s; in a turn, times the root of the load factor.
    pub stall_mps: f64,
    /// Most bank, degrees; turns between legs are flown with it.
    pub bank_limit_deg: f64,
    /// How fast it rolls, degrees a second. Default: 30, unhurried for an aircraft of 2 m span; it takes up to a bank's change
    /// only.
    pub roll_rate_dps: f64,
    /// Up and down, m/s.
    pub climb_mps: f64,
    /// Lowest safe altitude above home, m.
    pub lowest_safe_m: f64,
    /// Least height above ground of the terrain, if there is one, m.
    pub clearance_m: f64,
    /// Fixed to the airframe, upright when the wings are level.
    pub antenna: Antenna,
}

/// The wind, the same everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Wind {
    /// Its speed, m/s.
    pub speed_mps: f64,
    /// Where it comes from, clockwise from north, degrees.
    pub from_deg: f64,
}

/// Over the ground and through the air.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Motion {
    /// Over the ground, m/s.
    pub ground_mps: f64,
    /// Clockwise from north, radians.
    pub heading_rad: f64,
}

impl Default for Airframe {
    fn default() -> Self {
        Self {
            airspeed_mps: 18.0,
            stall_mps: 12.0,
            bank_limit_deg: 35.0,
            roll_rate_dps: 30.0,
            climb_mps: 3.0,
            lowest_safe_m: 100.0,
            clearance_m: 60.0,
            antenna: Antenna::Dipole { floor_db: 20.0 },
        }
    }
}

impl Airframe {
    /// Of the tightest turn in a wind, m: v² / (g tan φ) at the fastest over the ground.
    pub fn turn_radius_m(&self, airspeed_mps: f64, wind: Wind) -> f64 {
        (airspeed_mps + wind.speed_mps).powi(2) / (GRAVITY * self.bank_limit_deg.to_radians().tan())
    }

    /// What is wrong with its numbers, if something is.
    pub(crate) fn fault(&self) -> Option<String> {
        let checks = [
            ("airspeed_mps", self.airspeed_mps, 1.0, 400.0),
            ("stall_mps", self.stall_mps, 0.0, 400.0),
            ("bank_limit_deg", self.bank_limit_deg, 5.0, 80.0),
            ("roll_rate_dps", self.roll_rate_dps, 1.0, 720.0),
            ("climb_mps", self.climb_mps, 0.1, 100.0),
            ("lowest_safe_m", self.lowest_safe_m, 0.0, 10_000.0),
            ("clearance_m", self.clearance_m, 0.0, 10_000.0),
        ];
        let wrong = checks.into_iter().find(|(_, value, from, to)| !(*from..=*to).contains(value));
        wrong.map(|(name, value, from, to)| format!("{name} is {value}; it must be from {from} to {to}"))
    }
}

impl Wind {
    /// East and north, m/s.
    pub fn vector(self) -> [f64; 2] {
        let (sin, cos) = self.from_deg.to_radians().sin_cos();
        [-self.speed_mps * sin, -self.speed_mps * cos]
    }

    /// Along a direction over the ground, a unit vector east and north: the triangle of winds.
    ///
    /// # Errors
    /// [`FlightError::Wind`] below half a metre a second.
    pub fn motion(self, airspeed_mps: f64, [east, north]: [f64; 2]) -> Result<Motion, FlightError> {
        let [wind_east, wind_north] = self.vector();
        let (along, across) = (wind_east * east + wind_north * north, wind_east * north - wind_north * east);
        let ground_mps = along + (airspeed_mps * airspeed_mps - across * across).max(0.0).sqrt();
        if across.abs() >= airspeed_mps || ground_mps < 0.5 {
            return Err(FlightError::Wind { airspeed_mps, wind_mps: self.speed_mps });
        }
        let air = [ground_mps * east - wind_east, ground_mps * north - wind_north];
        Ok(Motion { ground_mps, heading_rad: air[0].atan2(air[1]) })
    }

    /// What is wrong with its numbers, if something is.
    pub(crate) fn fault(&self) -> Option<String> {
        if !(0.0..=200.0).contains(&self.speed_mps) {
            return Some(format!("speed_mps is {}; it must be from 0 to 200", self.speed_mps));
        }
        let is_known = (-360.0..=360.0).contains(&self.from_deg);
        (!is_known).then(|| format!("from_deg is {}; it must be from -360 to 360", self.from_deg))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_triangle_of_winds() {
        let north = Wind { speed_mps: 5.0, from_deg: 0.0 };
        let close = |motion: Motion, ground: f64, heading: f64| {
            assert!((motion.ground_mps - ground).abs() < 1e-9, "{motion:?}");
            assert!((motion.heading_rad.to_degrees() - heading).abs() < 1e-6, "{motion:?}");
        };
        close(north.motion(13.0, [0.0, 1.0]).unwrap(), 8.0, 0.0);
        close(north.motion(13.0, [0.0, -1.0]).unwrap(), 18.0, 180.0);
        // 5, 12, 13: eastwards with the nose to the wind.
        close(north.motion(13.0, [1.0, 0.0]).unwrap(), 12.0, 90.0 - 5f64.atan2(12.0).to_degrees());
        assert!(north.motion(5.0, [0.0, 1.0]).is_err() && north.motion(4.0, [1.0, 0.0]).is_err());
    }

    #[test]
    fn the_tightest_turn() {
        let frame = Airframe::default();
        // 18² / (9.81 tan 35°).
        assert!((frame.turn_radius_m(18.0, Wind::default()) - 47.18).abs() < 0.01);
    }
}
