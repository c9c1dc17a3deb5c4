//! Positions on WGS-84 and a plane that touches it.
//!
//! Ellipsoid and conversions: NIMA TR8350.2, §3 and §4; back from Cartesian coordinates by Bowring's formula (Survey
//! Review 23, 1976), once repeated. Heights above the sea are taken for heights above the ellipsoid: between two places
//! some kilometres apart only their difference counts, and the geoid is the same for both within centimetres.

use serde::Serialize;

/// Semi-major axis of WGS-84, m.
const A: f64 = 6_378_137.0;
/// Flattening of WGS-84.
const F: f64 = 1.0 / 298.257_223_563;
/// Square of the first eccentricity.
const E2: f64 = F * (2.0 - F);
/// Mean radius of the Earth, m [IUGG R1].
pub const EARTH_RADIUS_M: f64 = 6_371_008.8;

/// A place.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Position {
    /// North of the equator, -90 to 90 degrees.
    pub latitude_deg: f64,
    /// East of Greenwich, -180 to 180 degrees.
    pub longitude_deg: f64,
    /// Above the sea, m.
    pub altitude_m: f64,
}

impl Position {
    /// `None` if the numbers are no place on Earth below 100 km.
    pub fn new(latitude_deg: f64, longitude_deg: f64, altitude_m: f64) -> Option<Self> {
        let is_place = (-90.0..=90.0).contains(&latitude_deg)
            && (-180.0..=180.0).contains(&longitude_deg)
            && (-1_000.0..=100_000.0).contains(&altitude_m);
        is_place.then_some(Self { latitude_deg, longitude_deg, altitude_m })
    }

    fn cartesian(self) -> [f64; 3] {
        let (sin, cos) = self.latitude_deg.to_radians().sin_cos();
        let (sin_lon, cos_lon) = self.longitude_deg.to_radians().sin_cos();
        let n = A / (1.0 - E2 * sin * sin).sqrt();
        let ring = (n + self.altitude_m) * cos;
        [ring * cos_lon, ring * sin_lon, (n * (1.0 - E2) + self.altitude_m) * sin]
    }

    fn from_cartesian([x, y, z]: [f64; 3]) -> Self {
        let b = A * (1.0 - F);
        let ring = x.hypot(y);
        let mut beta = (A * z).atan2(b * ring);
        let mut latitude = 0.0;
        for _ in 0..2 {
            let (sin, cos) = f64::sin_cos(beta);
            latitude = (z + E2 / (1.0 - E2) * b * sin.powi(3)).atan2(ring - E2 * A * cos.powi(3));
            beta = ((1.0 - F) * latitude.sin()).atan2(latitude.cos());
        }
        let (sin, cos) = latitude.sin_cos();
        let n = A / (1.0 - E2 * sin * sin).sqrt();
        // At the poles the ring is too small to divide by its cosine.
        let altitude = if cos > 1e-3 { ring / cos - n } else { z.abs() / sin.abs() - n * (1.0 - E2) };
        Self { latitude_deg: latitude.to_degrees(), longitude_deg: y.atan2(x).to_degrees(), altitude_m: altitude }
    }
}

/// A vector in the plane that touches the Earth at a frame's origin, m.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Local {
    /// To the east.
    pub east: f64,
    /// To the north.
    pub north: f64,
    /// Up.
    pub up: f64,
}

impl Local {
    /// Its length.
    pub fn length(self) -> f64 {
        self.east.hypot(self.north).hypot(self.up)
    }

    /// Clockwise from north, 0 to 360 degrees.
    pub fn azimuth_deg(self) -> f64 {
        wrap_360(self.east.atan2(self.north).to_degrees())
    }

    /// Above the plane, -90 to 90 degrees.
    pub fn elevation_deg(self) -> f64 {
        self.up.atan2(self.east.hypot(self.north)).to_degrees()
    }
}

/// The plane at an origin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Frame {
    origin: Position,
    center: [f64; 3],
    /// Rows: east, north, up in Cartesian coordinates.
    axes: [[f64; 3]; 3],
}

impl Frame {
    /// At a place.
    pub fn new(origin: Position) -> Self {
        let (sin, cos) = origin.latitude_deg.to_radians().sin_cos();
        let (sin_lon, cos_lon) = origin.longitude_deg.to_radians().sin_cos();
        let axes =
            [[-sin_lon, cos_lon, 0.0], [-sin * cos_lon, -sin * sin_lon, cos], [cos * cos_lon, cos * sin_lon, sin]];
        Self { origin, center: origin.cartesian(), axes }
    }

    /// Its origin.
    pub fn origin(&self) -> Position {
        self.origin
    }

    /// From the origin to a place, straight through whatever is between.
    pub fn to_local(&self, position: Position) -> Local {
        let there = position.cartesian();
        let delta = [there[0] - self.center[0], there[1] - self.center[1], there[2] - self.center[2]];
        let along = |axis: [f64; 3]| axis[0] * delta[0] + axis[1] * delta[1] + axis[2] * delta[2];
        Local { east: along(self.axes[0]), north: along(self.axes[1]), up: along(self.axes[2]) }
    }

    /// The place at the end of a vector from the origin.
    pub fn to_global(&self, local: Local) -> Position {
        let weights = [local.east, local.north, local.up];
        let coordinate = |n: usize| self.center[n] + (0..3).map(|axis| weights[axis] * self.axes[axis][n]).sum::<f64>();
        Position::from_cartesian([coordinate(0), coordinate(1), coordinate(2)])
    }

    /// The place so far east and north of the origin, at a height above the sea. The plane is bent to the Earth: 10 km
    /// away it would be 8 m too high.
    pub fn place(&self, east: f64, north: f64, altitude_m: f64) -> Position {
        let drop = (east * east + north * north) / (2.0 * EARTH_RADIUS_M);
        let up = altitude_m - self.origin.altitude_m - drop;
        Position { altitude_m, ..self.to_global(Local { east, north, up }) }
    }
}

/// An angle from 0 to 360 degrees.
pub fn wrap_360(degrees: f64) -> f64 {
    let wrapped = degrees.rem_euclid(360.0);
    if wrapped >= 360.0 { 0.0 } else { wrapped }
}

/// An angle from -180 to 180 degrees.
pub fn wrap_180(degrees: f64) -> f64 {
    let wrapped = wrap_360(degrees);
    if wrapped > 180.0 { wrapped - 360.0 } else { wrapped }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(latitude: f64, longitude: f64, altitude: f64) -> Position {
        Position::new(latitude, longitude, altitude).unwrap()
    }

    #[test]
    fn cartesian_coordinates_are_those_of_the_ellipsoid() {
        // By definition: on the equator, and at the pole b = a (1 - f).
        assert_eq!(at(0.0, 0.0, 0.0).cartesian(), [A, 0.0, 0.0]);
        let pole = at(90.0, 0.0, 0.0).cartesian();
        assert!((pole[2] - 6_356_752.314_245).abs() < 1e-6, "{pole:?}");
        // EPSG Guidance Note 7-2, §4.1.1: WGS 84, 53°48'33.820"N, 2°07'46.380"E, 73 m.
        let example = at(53.809_394_444_444, 2.129_55, 73.0).cartesian();
        for (value, wanted) in example.iter().zip([3_771_793.97, 140_253.34, 5_124_304.35]) {
            assert!((value - wanted).abs() < 0.01, "{example:?}");
        }
    }

    #[test]
    fn a_minute_of_latitude_is_a_mile() {
        let frame = Frame::new(at(45.0, 10.0, 0.0));
        let local = frame.to_local(at(45.0 + 1.0 / 60.0, 10.0, 0.0));
        // The meridian's radius of curvature at 45 degrees is 6,367,381.8 m: 1852.2 m.
        assert!((local.north - 1_852.22).abs() < 0.05, "{local:?}");
        assert!((local.azimuth_deg()).abs() < 1e-9 && (local.up + 0.269).abs() < 0.01, "{local:?}");
        assert!((wrap_180(190.0) + 170.0).abs() < 1e-12 && wrap_360(-1e-20) == 0.0);
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for (latitude, longitude, altitude) in
            [(90.1, 0.0, 0.0), (0.0, 180.1, 0.0), (f64::NAN, 0.0, 0.0), (0.0, 0.0, 1e6), (0.0, f64::INFINITY, 0.0)]
        {
            assert_eq!(Position::new(latitude, longitude, altitude), None);
        }
    }

    proptest! {
        #[test]
        fn there_and_back(
            latitude in -90.0..90.0f64, longitude in -180.0..180.0f64, altitude in -100.0..9_000.0f64,
            east in -1e5..1e5f64, north in -1e5..1e5f64, up in -1e3..9e3f64,
        ) {
            let frame = Frame::new(at(latitude, longitude, altitude));
            let local = Local { east, north, up };
            let back = frame.to_local(frame.to_global(local));
            prop_assert!((back.east - east).abs() < 1e-3 && (back.north - north).abs() < 1e-3 && (back.up - up).abs() < 1e-3);
            let place = frame.place(east / 10.0, north / 10.0, altitude + 100.0);
            prop_assert!((frame.to_local(place).north - north / 10.0).abs() < 0.05);
            prop_assert_eq!(place.altitude_m, altitude + 100.0);
        }
    }
}
