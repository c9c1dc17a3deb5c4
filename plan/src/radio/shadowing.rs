//! What the model does not know, as chance: a normal deviation in dB that changes with the way flown, AR(1) with a
//! correlation of exp(-way / distance) (Gudmundson, Electronics Letters 27, 1991).

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// How large it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Shadowing {
    /// Standard deviation, dB. Not in the papers; default: 2.5.
    pub deviation_db: f64,
    /// Way over which 1/e of it is left, m. Not in the papers; default: 20, about a second of flight.
    pub distance_m: f64,
}

impl Default for Shadowing {
    fn default() -> Self {
        Self { deviation_db: 2.5, distance_m: 20.0 }
    }
}

impl Shadowing {
    /// What is wrong with its numbers, if something is.
    pub(crate) fn fault(&self) -> Option<String> {
        if !(0.0..=20.0).contains(&self.deviation_db) {
            return Some(format!("deviation_db is {}; it must be from 0 to 20", self.deviation_db));
        }
        let is_known = (0.1..=1e6).contains(&self.distance_m);
        (!is_known).then(|| format!("distance_m is {}; it must be from 0.1 to 1,000,000", self.distance_m))
    }
}

/// It, along a flight. The same seed gives the same.
#[derive(Debug, Clone)]
pub struct Shadow {
    model: Shadowing,
    random: ChaCha8Rng,
    spare: Option<f64>,
    value: Option<f64>,
}

impl Shadow {
    /// At the beginning of a flight.
    pub fn new(model: Shadowing, seed: u64) -> Self {
        Self { model, random: ChaCha8Rng::seed_from_u64(seed), spare: None, value: None }
    }

    /// After `way_m` more, dB.
    pub fn next_db(&mut self, way_m: f64) -> f64 {
        let fresh = self.normal();
        let value = match self.value {
            None => fresh,
            Some(last) => {
                let kept = (-way_m.max(0.0) / self.model.distance_m).exp();
                kept * last + (1.0 - kept * kept).sqrt() * fresh
            }
        };
        self.value = Some(value);
        self.model.deviation_db * value
    }

    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        // 53 bits each; never 0, whose logarithm is infinite.
        let mut uniform = || ((self.random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let (radius, angle) = ((-2.0 * uniform().ln()).sqrt(), std::f64::consts::TAU * uniform());
        self.spare = Some(radius * angle.sin());
        radius * angle.cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_its_deviation_and_its_correlation() {
        let model = Shadowing { deviation_db: 3.0, distance_m: 50.0 };
        let mut shadow = Shadow::new(model, 1);
        let values: Vec<f64> = (0..100_000).map(|_| shadow.next_db(18.0)).collect();
        let mean = values.iter().sum::<f64>() / 1e5;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 1e5;
        let after_one: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.1 && (variance.sqrt() - 3.0).abs() < 0.1, "{mean} {variance}");
        assert!((after_one / variance - (-18.0f64 / 50.0).exp()).abs() < 0.02);
        let mut again = Shadow::new(model, 1);
        assert_eq!(again.next_db(0.0), values[0]);
        assert_ne!(Shadow::new(model, 2).next_db(0.0), values[0]);
    }
}
