//! How often correction fails, and how much parity it takes for that to be rare.

use super::layout::{Layout, MAX_WORDS};

/// The chance that a packet of `data_len` bytes with `words` words of parity is not corrected, if each of its bits, the
/// parity's included, is wrong with the chance `ber`, independently: that in one of its codewords more than half as many
/// symbols are wrong as it has parity. Exact but for rounding; 1 if there is no such code or `ber` is no chance.
///
/// It costs about a microsecond, and depends on its arguments only.
pub fn residual(data_len: usize, words: u16, ber: f64) -> f64 {
    Layout::new(data_len, words).map_or(1.0, |layout| layout.residual(ber))
}

/// The least number of words of parity with which at most `target` of the packets of `data_len` bytes are not corrected,
/// if each bit is wrong with the chance `ber`. `None` if even [`MAX_WORDS`] do not suffice.
///
/// It costs what [`residual`] costs for each number that is too small.
pub fn words_for(data_len: usize, ber: f64, target: f64) -> Option<u16> {
    (0..=MAX_WORDS).find(|words| residual(data_len, *words, ber) <= target)
}

impl Layout {
    pub fn residual(&self, ber: f64) -> f64 {
        if !(0.0..=1.0).contains(&ber) {
            return 1.0;
        }
        // ln of the chance that a symbol is right.
        let right = 8.0 * (-ber).ln_1p();
        if self.depth == 0 {
            return -(right * self.data_len as f64).exp_m1();
        }
        let kinds = self.kinds().map(|(len, parity, count)| count as f64 * (-tail(len, parity / 2, right)).ln_1p());
        -kinds.sum::<f64>().exp_m1()
    }
}

/// The chance of more than `most` wrong symbols in `len`, each right with the chance e^`right`.
pub(super) fn tail(len: usize, most: usize, right: f64) -> f64 {
    let wrong = -right.exp_m1();
    if wrong == 0.0 || most >= len {
        return 0.0;
    }
    if wrong == 1.0 {
        return 1.0;
    }
    // From the likelier end, so that what underflows is what does not matter.
    let odds = wrong / right.exp();
    let term = |count: usize| {
        let ln_choose: f64 = (0..count).map(|n| ((len - n) as f64 / (n + 1) as f64).ln()).sum();
        (ln_choose + count as f64 * wrong.ln() + (len - count) as f64 * right).exp()
    };
    if most as f64 > len as f64 * wrong {
        series(term(most + 1), (most + 1..=len).map(|count| (len - count) as f64 / (count + 1) as f64 * odds))
    } else {
        1.0 - series(term(most), (0..=most).rev().map(|count| count as f64 / (len - count + 1) as f64 / odds))
    }
}

/// The sum of terms of which the first and the ratios of neighbours are given.
fn series(first: f64, ratios: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut term) = (0.0, first);
    for ratio in ratios {
        sum += term;
        term *= ratio;
        // What follows is less than a geometric series.
        if ratio < 0.5 && term < sum * 1e-16 {
            break;
        }
    }
    sum.min(1.0)
}
