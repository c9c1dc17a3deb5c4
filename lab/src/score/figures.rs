//! Two lists of values in figures.

use serde::Serialize;

/// How far the second values are from the first.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// How many pairs.
    pub count: usize,
    /// Mean of the first, bit/s.
    pub mean_bps: f64,
    /// Mean of the second, bit/s.
    pub other_mean_bps: f64,
    /// Mean absolute error, bit/s.
    pub mae_bps: f64,
    /// The same in per cent of the first's mean; `None` if that is 0.
    pub mae_percent: Option<f64>,
    /// Mean of second less first, bit/s.
    pub bias_bps: f64,
    /// The same in per cent of the first's mean.
    pub bias_percent: Option<f64>,
    /// Kolmogorov-Smirnov distance, 0 to 1.
    pub ks: f64,
    /// Wasserstein-1 distance, bit/s.
    pub wasserstein_bps: f64,
}

impl Figures {
    /// Of pairs; at least one.
    pub fn of(pairs: &[(f64, f64)]) -> Self {
        let count = pairs.len().max(1) as f64;
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
        let (mean_bps, other_mean_bps) = (mean(&|pair| pair.0), mean(&|pair| pair.1));
        let (mae_bps, bias_bps) = (mean(&|pair| (pair.1 - pair.0).abs()), other_mean_bps - mean_bps);
        let percent = |value: f64| (mean_bps > 0.0).then(|| value / mean_bps * 100.0);
        let mut first: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
        let mut second: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
        first.sort_by(f64::total_cmp);
        second.sort_by(f64::total_cmp);
        Self {
            count: pairs.len(),
            mean_bps,
            other_mean_bps,
            mae_bps,
            mae_percent: percent(mae_bps),
            bias_bps,
            bias_percent: percent(bias_bps),
            ks: kolmogorov_smirnov(&first, &second),
            wasserstein_bps: first.iter().zip(&second).map(|(a, b)| (a - b).abs()).sum::<f64>() / count,
        }
    }
}

/// The largest difference of the shares of values up to one; both lists are sorted.
fn kolmogorov_smirnov(first: &[f64], second: &[f64]) -> f64 {
    let share = |list: &[f64], value: f64| list.partition_point(|other| *other <= value) as f64 / list.len() as f64;
    let differences = first.iter().chain(second).map(|value| (share(first, *value) - share(second, *value)).abs());
    differences.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn by_hand() {
        let figures = Figures::of(&[(1.0, 2.0), (3.0, 3.0), (8.0, 4.0)]);
        assert_eq!((figures.mean_bps, figures.other_mean_bps), (4.0, 3.0));
        assert!((figures.mae_bps - 5.0 / 3.0).abs() < 1e-12 && figures.bias_percent == Some(-25.0));
        // 1, 3, 8 and 2, 3, 4: up to 1 are a third and none; up to 4 two thirds and all.
        assert!((figures.ks - 1.0 / 3.0).abs() < 1e-12);
        assert!((figures.wasserstein_bps - 5.0 / 3.0).abs() < 1e-12);
        // The order counts for the error and not for the distributions.
        let swapped = Figures::of(&[(1.0, 5.0), (5.0, 1.0)]);
        assert_eq!((swapped.mae_bps, swapped.ks, swapped.wasserstein_bps), (4.0, 0.0, 0.0));
    }

    proptest! {
        #[test]
        fn distances_are_within_their_bounds(pairs in prop::collection::vec((0.0..1e9f64, 0.0..1e9f64), 1..50)) {
            let figures = Figures::of(&pairs);
            prop_assert!((0.0..=1.0).contains(&figures.ks));
            prop_assert!(figures.wasserstein_bps <= figures.mae_bps * (1.0 + 1e-9) + 1e-6);
            prop_assert!(figures.bias_bps.abs() <= figures.mae_bps * (1.0 + 1e-9) + 1e-6);
        }
    }
}
