//! What stands in the way near the node: a ship's superstructure, by bearing from the bow.
//!
//! Each obstacle is a screen that is as wide as its sector and as high as its elevation says, at some distance from the
//! antenna. Around it there are three ways, over its top and past both sides, each a knife edge [ITU-R P.526-15 §4.1,
//! eq. 26 and 31]; their powers add up [§4.2, the mean of a finite-width screen]. So dips have no sharp edges, and wide
//! ones are deeper. What rigging, deck and sea scatter into the shadow is a floor of its own, `depth_db`.

use serde::{Deserialize, Serialize};

use crate::geodesy::wrap_180;

/// A part of the superstructure as the antenna sees it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Obstacle {
    /// Where it begins, clockwise from the bow, degrees.
    pub from_deg: f64,
    /// Where it ends; less than `from_deg` if the bow is within.
    pub to_deg: f64,
    /// Elevation of its upper edge, degrees.
    pub top_deg: f64,
    /// From the antenna to the edge, m.
    pub distance_m: f64,
    /// Most that it takes, dB.
    #[serde(default = "depth")]
    pub depth_db: f64,
}

fn depth() -> f64 {
    18.0
}

impl Obstacle {
    /// What it takes from a path of `length_m` in a direction, dB.
    pub fn loss_db(&self, elevation_deg: f64, relative_bearing_deg: f64, length_m: f64, wavelength_m: f64) -> f64 {
        let width = width(self.from_deg, self.to_deg);
        let off = wrap_180(relative_bearing_deg - (self.from_deg + width / 2.0));
        let cos = elevation_deg.to_radians().cos();
        let there = (length_m - self.distance_m).max(self.distance_m);
        // Eq. 26 with the height of the edge above the path: distance × sine of the angle between.
        let nu = |angle_deg: f64| {
            let height = self.distance_m * angle_deg.clamp(-90.0, 90.0).to_radians().sin();
            height * (2.0 / wavelength_m * (1.0 / self.distance_m + 1.0 / there)).sqrt()
        };
        let side = |angle_deg: f64| nu(angle_deg * cos);
        let ways = [nu(self.top_deg - elevation_deg), side(width / 2.0 - off), side(width / 2.0 + off)];
        // A screen all around has no sides.
        let open = if width >= 359.999 { 1 } else { 3 };
        let around: f64 = ways[..open].iter().map(|nu| 10f64.powf(-knife_edge_db(*nu) / 10.0)).sum();
        let through = 10f64.powf(-self.depth_db / 10.0);
        (-10.0 * (around + through).log10()).max(0.0)
    }

    /// Whether the straight line to a direction is in its sector and below its edge.
    pub fn hides(&self, elevation_deg: f64, relative_bearing_deg: f64) -> bool {
        let width = width(self.from_deg, self.to_deg);
        elevation_deg < self.top_deg
            && wrap_180(relative_bearing_deg - (self.from_deg + width / 2.0)).abs() <= width / 2.0
    }

    /// What is wrong with its numbers, if something is.
    pub(crate) fn fault(&self) -> Option<String> {
        let checks = [
            ("from_deg", self.from_deg, -360.0, 360.0),
            ("to_deg", self.to_deg, -360.0, 360.0),
            ("top_deg", self.top_deg, -90.0, 90.0),
            ("distance_m", self.distance_m, 0.1, 10_000.0),
            ("depth_db", self.depth_db, 0.0, 100.0),
        ];
        let wrong = checks.into_iter().find(|(_, value, from, to)| !(*from..=*to).contains(value));
        wrong.map(|(name, value, from, to)| format!("{name} is {value}; it must be from {from} to {to}"))
    }
}

/// From one bearing clockwise to another; all around if they are the same.
fn width(from: f64, to: f64) -> f64 {
    match crate::geodesy::wrap_360(to - from) {
        0.0 => 360.0,
        width => width,
    }
}

/// Loss at a knife edge that is ν in the way, or, if ν is negative, leaves so much room: J(ν) [ITU-R P.526-15 eq. 31].
/// At
/// -0.78 and below there is none.
pub fn knife_edge_db(nu: f64) -> f64 {
    if nu <= -0.78 {
        return 0.0;
    }
    let off = nu - 0.1;
    6.9 + 20.0 * ((off * off + 1.0).sqrt() + off).log10()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BRIDGE: Obstacle = Obstacle { from_deg: 30.0, to_deg: 120.0, top_deg: 30.0, distance_m: 6.0, depth_db: 18.0 };
    const WAVE: f64 = 0.0535;

    #[test]
    fn a_knife_edge_is_that_of_the_recommendation() {
        // Grazing takes 6 dB: half the field; J(1), J(2.4) by the exact integral are 13.9 and 20.5 dB.
        for (nu, wanted) in [(0.0, 6.03), (1.0, 13.93), (2.4, 20.54), (-0.78, 0.0), (-5.0, 0.0)] {
            assert!((knife_edge_db(nu) - wanted).abs() < 0.2, "{nu}: {}", knife_edge_db(nu));
        }
    }

    #[test]
    fn behind_it_is_dark_and_above_it_is_clear() {
        let loss = |elevation, bearing| BRIDGE.loss_db(elevation, bearing, 500.0, WAVE);
        assert!(loss(10.0, 75.0) > 15.0 && loss(10.0, 75.0) <= 18.0);
        assert_eq!(loss(45.0, 75.0), 0.0);
        assert_eq!(loss(10.0, 255.0), 0.0);
        // At its edge half the field is left; 3 dB come by the other ways and through.
        assert!((4.0..6.5).contains(&loss(30.0, 75.0)), "{}", loss(30.0, 75.0));
        assert!((4.0..6.5).contains(&loss(0.0, 30.0)));
        assert!(BRIDGE.hides(10.0, 75.0) && !BRIDGE.hides(31.0, 75.0) && !BRIDGE.hides(10.0, 121.0));
    }

    #[test]
    fn a_sector_may_have_the_bow_within() {
        let mast = Obstacle { from_deg: 350.0, to_deg: 20.0, ..BRIDGE };
        assert!(mast.hides(0.0, 0.0) && mast.hides(0.0, -5.0) && !mast.hides(0.0, 180.0));
        let all = Obstacle { from_deg: 0.0, to_deg: 360.0, ..BRIDGE };
        assert!((0..36).all(|n| all.loss_db(5.0, f64::from(n) * 10.0, 500.0, WAVE) > 15.0));
    }

    proptest! {
        #[test]
        fn loss_is_between_none_and_its_depth(
            elevation in -90.0..90.0f64, bearing in -720.0..720.0f64, length in 1.0..1e5f64, depth in 0.0..60.0f64,
        ) {
            let loss = Obstacle { depth_db: depth, ..BRIDGE }.loss_db(elevation, bearing, length, WAVE);
            prop_assert!((0.0..=depth + 1e-9).contains(&loss));
            // The other way round the same.
            let mirrored = Obstacle { from_deg: -120.0, to_deg: -30.0, depth_db: depth, ..BRIDGE };
            prop_assert!((mirrored.loss_db(elevation, -bearing, length, WAVE) - loss).abs() < 1e-9);
        }
    }
}
