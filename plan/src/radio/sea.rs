//! The reflection from the sea: a second way, as strong as the sea is smooth.
//!
//! Two rays over a flat sea (Saunders and Aragón-Zavala, Antennas and Propagation, §5.6), the second times Fresnel's
//! coefficient for sea water and times what roughness leaves of it in phase: exp(-g²/2), g = 4π σ sin γ / λ (Ament,
//! Proc. IRE 41, 1953).

use serde::{Deserialize, Serialize};

/// The sea.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sea {
    /// Whether there is a sea, or something as flat, between both.
    pub reflects: bool,
    /// Of its surface about its mean, root mean square, m; a quarter of the significant wave height. Default: 0.15.
    pub wave_rms_m: f64,
    /// Of both antennas.
    pub polarisation: Polarisation,
    /// Relative permittivity of the water. Default: 67, of sea water at 10 °C and about 5 GHz, rounded from ITU-R P.527.
    pub permittivity: f64,
    /// Conductivity of the water, S/m. Default: 10, from there as well.
    pub conductivity_spm: f64,
    /// Deepest dip, dB: real ones are filled by what is scattered. Not in the papers; default: 25.
    pub deepest_fade_db: f64,
}

/// Of both antennas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Polarisation {
    /// Upright.
    Vertical,
    /// Level.
    Horizontal,
}

impl Default for Sea {
    fn default() -> Self {
        Self {
            reflects: true,
            wave_rms_m: 0.15,
            polarisation: Polarisation::Vertical,
            permittivity: 67.0,
            conductivity_spm: 10.0,
            deepest_fade_db: 25.0,
        }
    }
}

/// Both ways between two antennas.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ways {
    /// Angle between the second way and the sea, degrees.
    pub grazing_deg: f64,
    /// How much longer the second way is, m.
    pub longer_m: f64,
}

impl Ways {
    /// Over a flat sea, from heights above it and the distance along it, m.
    pub fn new(height_m: f64, other_m: f64, along_m: f64) -> Self {
        let (sum, difference) = (height_m.max(0.0) + other_m.max(0.0), height_m.max(0.0) - other_m.max(0.0));
        let along = along_m.max(0.1);
        // As a product: the difference of two roots loses its digits.
        let (far, near) = (along.hypot(sum), along.hypot(difference));
        Self {
            grazing_deg: sum.atan2(along).to_degrees(),
            longer_m: (sum * sum - difference * difference) / (far + near),
        }
    }
}

impl Sea {
    /// What the reflection adds to the direct way, dB; negative if it takes away. `gain_db` is that of both antennas
    /// towards the reflection less that along the direct way.
    pub fn gain_db(&self, ways: Ways, gain_db: f64, wavelength_m: f64) -> f64 {
        if !self.reflects {
            return 0.0;
        }
        let sin = ways.grazing_deg.to_radians().sin().max(1e-6);
        let g = 4.0 * std::f64::consts::PI * self.wave_rms_m * sin / wavelength_m;
        let (re, im) = self.fresnel(sin, wavelength_m);
        let strength = (-g * g / 2.0).exp() * 10f64.powf(gain_db / 20.0);
        let (turn_sin, turn_cos) = (-std::f64::consts::TAU * ways.longer_m / wavelength_m).sin_cos();
        let (field_re, field_im) =
            (1.0 + strength * (re * turn_cos - im * turn_sin), strength * (re * turn_sin + im * turn_cos));
        (10.0 * (field_re * field_re + field_im * field_im).max(1e-12).log10()).max(-self.deepest_fade_db)
    }

    /// Fresnel's coefficient as a complex number.
    fn fresnel(&self, sin: f64, wavelength_m: f64) -> (f64, f64) {
        // ε = εr - j 60 λ σ.
        let (re, im) = (self.permittivity, -60.0 * wavelength_m * self.conductivity_spm);
        let cos2 = 1.0 - sin * sin;
        // √(ε - cos²γ).
        let (a, b) = (re - cos2, im);
        let size = a.hypot(b);
        let root = (((size + a) / 2.0).sqrt(), -((size - a) / 2.0).sqrt());
        let first = match self.polarisation {
            Polarisation::Vertical => (re * sin, im * sin),
            Polarisation::Horizontal => (sin, 0.0),
        };
        let (above, below) = ((first.0 - root.0, first.1 - root.1), (first.0 + root.0, first.1 + root.1));
        let size = below.0 * below.0 + below.1 * below.1;
        ((above.0 * below.0 + above.1 * below.1) / size, (above.1 * below.0 - above.0 * below.1) / size)
    }

    /// What is wrong with its numbers, if something is.
    pub(crate) fn fault(&self) -> Option<String> {
        let checks = [
            ("wave_rms_m", self.wave_rms_m, 0.0, 20.0),
            ("permittivity", self.permittivity, 1.0, 200.0),
            ("conductivity_spm", self.conductivity_spm, 0.0, 1_000.0),
            ("deepest_fade_db", self.deepest_fade_db, 0.0, 100.0),
        ];
        let wrong = checks.into_iter().find(|(_, value, from, to)| !(*from..=*to).contains(value));
        wrong.map(|(name, value, from, to)| format!("{name} is {value}; it must be from {from} to {to}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WAVE: f64 = 0.0535;

    #[test]
    fn a_mirror_at_grazing_angles_turns_the_wave_over() {
        let sea = Sea { wave_rms_m: 0.0, ..Sea::default() };
        for polarisation in [Polarisation::Vertical, Polarisation::Horizontal] {
            let (re, im) = Sea { polarisation, ..sea }.fresnel(1e-6, WAVE);
            assert!((re + 1.0).abs() < 1e-3 && im.abs() < 1e-3);
        }
        // Half a wave longer and turned over: twice the field. A whole wave: next to nothing.
        let horizontal = Sea { polarisation: Polarisation::Horizontal, ..sea };
        let at = |longer_m| horizontal.gain_db(Ways { grazing_deg: 0.05, longer_m }, 0.0, WAVE);
        assert!((at(WAVE / 2.0) - 6.02).abs() < 0.01 && (at(WAVE) + 25.0).abs() < 1e-9);
        // Straight down, water reflects (√ε - 1) / (√ε + 1) of the field: 0.78.
        let (re, im) = sea.fresnel(1.0, WAVE);
        assert!((re.hypot(im) - 0.79).abs() < 0.02);
    }

    #[test]
    fn the_water_and_the_deepest_dip_are_keys() {
        let sea = Sea { wave_rms_m: 0.0, deepest_fade_db: 12.0, ..Sea::default() };
        let horizontal = Sea { polarisation: Polarisation::Horizontal, ..sea };
        assert_eq!(horizontal.gain_db(Ways { grazing_deg: 0.05, longer_m: WAVE }, 0.0, WAVE), -12.0);
        // Without salt and nearly air, next to nothing comes back from straight below.
        let air = Sea { permittivity: 1.1, conductivity_spm: 0.0, ..sea };
        let (re, im) = air.fresnel(1.0, WAVE);
        assert!(re.hypot(im) < 0.03);
        assert!(Sea { permittivity: 0.5, ..sea }.fault().unwrap().contains("permittivity is 0.5"));
    }

    #[test]
    fn waves_end_it_but_at_grazing_angles() {
        let sea = Sea::default();
        let above = Ways::new(6.0, 300.0, 400.0);
        assert!(sea.gain_db(above, 0.0, WAVE).abs() < 1e-6 && (above.grazing_deg - 37.4).abs() < 0.1);
        let far = Ways::new(6.0, 100.0, 20_000.0);
        // 2 h h' / d.
        assert!((far.longer_m - 0.06).abs() < 1e-4);
        assert!(sea.gain_db(far, 0.0, WAVE).abs() > 1.0);
        assert_eq!(Sea { reflects: false, ..sea }.gain_db(far, 0.0, WAVE), 0.0);
    }

    proptest! {
        #[test]
        fn two_rays_are_never_more_than_twice_one(
            heights in (0.0..5_000.0f64, 0.0..5_000.0f64), along in 0.0..1e5f64, rms in 0.0..3.0f64,
        ) {
            let gain = Sea { wave_rms_m: rms, ..Sea::default() }.gain_db(Ways::new(heights.0, heights.1, along), 0.0, WAVE);
            prop_assert!((-25.0..=6.03).contains(&gain));
        }
    }
}
