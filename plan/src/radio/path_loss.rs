//! Loss over distance: that of free space up to a reference distance, from there on with an exponent [CONCLONE eq. 11].

use serde::{Deserialize, Serialize};

/// Metres a second.
pub const LIGHT: f64 = 299_792_458.0;

/// How the path loss grows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathLoss {
    /// Of the distance. Default: 2.03, ConClone's for air to ground; 2 is free space.
    pub exponent: f64,
    /// Up to which it is free space, m. ConClone: 1.
    pub reference_m: f64,
    /// Added to the signal, dB: what `aquila plan fit` found to be missing, or too much.
    pub offset_db: f64,
}

impl Default for PathLoss {
    fn default() -> Self {
        Self { exponent: 2.03, reference_m: 1.0, offset_db: 0.0 }
    }
}

impl PathLoss {
    /// Over a distance, dB; without the offset.
    pub fn loss_db(&self, distance_m: f64, wavelength_m: f64) -> f64 {
        let distance = distance_m.max(0.1);
        let free = |distance: f64| 20.0 * (4.0 * std::f64::consts::PI * distance / wavelength_m).log10();
        match distance <= self.reference_m {
            true => free(distance),
            false => free(self.reference_m) + 10.0 * self.exponent * (distance / self.reference_m).log10(),
        }
    }

    /// What is wrong with its numbers, if something is.
    pub(crate) fn fault(&self) -> Option<String> {
        let checks = [
            ("exponent", self.exponent, 1.0, 8.0),
            ("reference_m", self.reference_m, 0.1, 10_000.0),
            ("offset_db", self.offset_db, -100.0, 100.0),
        ];
        let wrong = checks.into_iter().find(|(_, value, from, to)| !(*from..=*to).contains(value));
        wrong.map(|(name, value, from, to)| format!("{name} is {value}; it must be from {from} to {to}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_and_an_exponent() {
        let wave = LIGHT / 5.6e9;
        // 32.45 + 20 log10(1 km) + 20 log10(5600 MHz) = 107.4 dB.
        let free = PathLoss { exponent: 2.0, ..PathLoss::default() };
        assert!((free.loss_db(1_000.0, wave) - 107.41).abs() < 0.01);
        // 0.03 more, over three powers of ten.
        assert!((PathLoss::default().loss_db(1_000.0, wave) - free.loss_db(1_000.0, wave) - 0.9).abs() < 1e-9);
        assert_eq!(PathLoss::default().loss_db(1.0, wave), free.loss_db(1.0, wave));
        assert!(free.loss_db(0.0, wave).is_finite());
    }
}
