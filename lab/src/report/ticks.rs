//! Round numbers for axes.

/// Steps of 1, 2 or 5 times a power of ten: the finest that needs at most `most` of them from `from` to `to`.
pub fn step(from: f64, to: f64, most: usize) -> f64 {
    let span = (to - from).abs();
    if !span.is_finite() || span <= 0.0 {
        return 1.0;
    }
    let raw = span / most.max(1) as f64;
    let power = 10f64.powf(raw.log10().floor());
    // A hair of slack: 0.30000000000000004 is to count as 0.3.
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= raw * (1.0 - 1e-9)).unwrap_or(10.0);
    factor * power
}

/// Multiples of a round step within the bounds.
pub fn linear(from: f64, to: f64, most: usize) -> Vec<f64> {
    let step = step(from, to, most);
    let (first, last) = ((from / step - 1e-9).ceil(), (to / step + 1e-9).floor());
    // Infinity less infinity is nowhere between them.
    if !(0.0..=1_000.0).contains(&(last - first)) {
        return Vec::new();
    }
    (0..=(last - first) as u32).map(|n| tidy((first + f64::from(n)) * step)).collect()
}

/// Powers of ten within the bounds; with their 2- and 5-fold if those are few.
pub fn logarithmic(from: f64, to: f64) -> Vec<f64> {
    let all = fine(from, to);
    let is_power = |value: &&f64| (value.log10() - value.log10().round()).abs() < 1e-6;
    match to / from <= 2_000.0 {
        true => all,
        false => all.iter().filter(is_power).copied().collect(),
    }
}

/// 1, 2 and 5 times all powers of ten within the bounds.
pub fn fine(from: f64, to: f64) -> Vec<f64> {
    let (first, last) = (from.log10().floor(), to.log10().ceil());
    if !(first.is_finite() && last.is_finite()) {
        return Vec::new();
    }
    let powers = (first as i32..=last as i32).map(|power| 10f64.powi(power));
    let all = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|factor| tidy(factor * power)));
    all.filter(|value| (from * (1.0 - 1e-9)..=to * (1.0 + 1e-9)).contains(value)).collect()
}

/// As short as it can be written with six significant digits.
pub fn text(value: f64) -> String {
    format!("{}", tidy(value))
}

/// Without what floating point adds behind the sixth significant digit.
fn tidy(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(linear(0.0, 60.0, 6), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(linear(0.0, 0.3, 3), [0.0, 0.1, 0.2, 0.3]);
        assert_eq!(linear(0.0, 102.0, 8), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(logarithmic(1.0, 20_000.0), [1.0, 10.0, 100.0, 1_000.0, 10_000.0]);
        assert_eq!(logarithmic(20.0, 300.0), [20.0, 50.0, 100.0, 200.0]);
        assert_eq!(text(0.1 + 0.2), "0.3");
    }

    proptest! {
        #[test]
        fn any_bounds_give_few_ticks_within_them(from in -1e6..1e6f64, span in 1.0..1e12f64, most in 1usize..20) {
            let ticks = linear(from, from + span, most);
            prop_assert!(ticks.len() <= most + 2);
            let slack = span * 1e-5 + from.abs() * 1e-5;
            prop_assert!(ticks.iter().all(|tick| (from - slack..=from + span + slack).contains(tick)));
            logarithmic(from, from + span);
        }
    }
}
