//! Places on the earth and metres from one of them.

use std::ops::{Add, AddAssign, Mul, Sub};

use mavlink::dialects::ardupilotmega::MavFrame;

/// Metres a degree of latitude, on a sphere of 6,378,100 m as ArduPilot reckons.
const METRES_PER_DEGREE: f64 = 6_378_100.0 * std::f64::consts::PI / 180.0;

/// A place on the earth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// WGS 84 latitude in degrees, north positive.
    pub latitude_deg: f64,
    /// WGS 84 longitude in degrees, east positive.
    pub longitude_deg: f64,
    /// Metres above mean sea level.
    pub altitude_m: f64,
}

impl Place {
    /// The place that lies `offset` from this one. Flat earth: right to a metre within some ten kilometres.
    pub(in crate::aircraft) fn offset(&self, offset: Local) -> Self {
        Self {
            latitude_deg: self.latitude_deg + offset.north / METRES_PER_DEGREE,
            longitude_deg: self.longitude_deg + offset.east / (METRES_PER_DEGREE * self.shrink()),
            altitude_m: self.altitude_m + offset.up,
        }
    }

    /// Where `place` lies, seen from this one.
    pub(in crate::aircraft) fn to(&self, place: &Self) -> Local {
        Local {
            north: (place.latitude_deg - self.latitude_deg) * METRES_PER_DEGREE,
            east: (place.longitude_deg - self.longitude_deg) * METRES_PER_DEGREE * self.shrink(),
            up: place.altitude_m - self.altitude_m,
        }
    }

    /// Latitude as MAVLink carries it, in 1e-7 degrees.
    pub(in crate::aircraft) fn lat_e7(&self) -> i32 {
        (self.latitude_deg * 1e7).round() as i32
    }

    /// Longitude as MAVLink carries it, in 1e-7 degrees.
    pub(in crate::aircraft) fn lon_e7(&self) -> i32 {
        (self.longitude_deg * 1e7).round() as i32
    }

    /// Height above this place of an altitude `z` that is given in `frame`: above the sea, or else above home (the ground is flat, so
    /// above terrain is the same).
    pub(in crate::aircraft) fn height_of(&self, frame: MavFrame, z: f32, home: &Self) -> f64 {
        let above_sea = match frame {
            MavFrame::MAV_FRAME_GLOBAL | MavFrame::MAV_FRAME_GLOBAL_INT => f64::from(z),
            _ => home.altitude_m + f64::from(z),
        };
        above_sea - self.altitude_m
    }

    pub(in crate::aircraft) fn from_e7(lat: i32, lon: i32, altitude_m: f64) -> Self {
        Self { latitude_deg: f64::from(lat) / 1e7, longitude_deg: f64::from(lon) / 1e7, altitude_m }
    }

    /// Degrees of longitude are shorter away from the equator; never zero, so that the poles do no harm.
    fn shrink(&self) -> f64 {
        self.latitude_deg.to_radians().cos().max(0.01)
    }
}

/// Metres (or metres per second) north, east and up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in crate::aircraft) struct Local {
    pub(in crate::aircraft) north: f64,
    pub(in crate::aircraft) east: f64,
    pub(in crate::aircraft) up: f64,
}

impl Local {
    pub(in crate::aircraft) fn new(north: f64, east: f64, up: f64) -> Self {
        Self { north, east, up }
    }

    /// Distance over ground to `other`.
    pub(in crate::aircraft) fn distance(&self, other: Self) -> f64 {
        (other.north - self.north).hypot(other.east - self.east)
    }

    /// Direction to `other` over ground, radians from north, -π to π.
    pub(in crate::aircraft) fn bearing(&self, other: Self) -> f64 {
        (other.east - self.east).atan2(other.north - self.north)
    }

    pub(in crate::aircraft) fn at_height(self, up: f64) -> Self {
        Self { up, ..self }
    }
}

impl Add for Local {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::new(self.north + other.north, self.east + other.east, self.up + other.up)
    }
}

impl AddAssign for Local {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Local {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + other * -1.0
    }
}

impl Mul<f64> for Local {
    type Output = Self;
    fn mul(self, factor: f64) -> Self {
        Self::new(self.north * factor, self.east * factor, self.up * factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let home = Place { latitude_deg: 47.4, longitude_deg: 8.5, altitude_m: 400.0 };
        let offset = Local::new(1_200.0, -800.0, 35.0);
        let back = home.to(&home.offset(offset));
        assert!(back.distance(offset) < 1e-6 && (back.up - 35.0).abs() < 1e-9);
    }

    #[test]
    fn bearings_count_from_north_over_east() {
        let here = Local::default();
        assert_eq!(here.bearing(Local::new(1.0, 0.0, 0.0)), 0.0);
        assert_eq!(here.bearing(Local::new(0.0, 1.0, 0.0)), std::f64::consts::FRAC_PI_2);
    }
}
