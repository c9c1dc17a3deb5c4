//! How strong the code in a segment has to be.
//!
//! In modes with repetition the cheapest: parity costs room in every segment, a failure costs one more. In the others the
//! weakest for which no more than a given share is lost. Both by the bit errors that the other side reports; what it could
//! not repair although it should have, since errors come in bursts, makes it stronger.

use std::cell::Cell;

use aquila_fec::rs;

use super::TransferMode;
use super::endpoint::Protection;
use super::quality::Quality;

/// Words until the first report.
const UNTOLD: u16 = 8;
/// Without any error in what was received, bits are taken to be wrong at this rate at most.
const UNSEEN: f64 = 5e-7;
/// A share of losses that is more than so many times what was expected asks for more.
const UNEXPECTED: f64 = 4.0;
/// That much more each time, up to so much.
const MORE: f64 = 1.3;
const MOST_MORE: f64 = 4.0;

/// The choice, with what it was made from.
#[derive(Debug)]
pub(super) struct Strength {
    protection: Protection,
    bit_errors: Option<f64>,
    /// Times what the bit errors alone ask for.
    more: f64,
    /// Last answers: for modes with and without repetition, by length.
    known: [Cell<(usize, u16)>; 2],
}

impl Strength {
    pub fn new(protection: Protection) -> Self {
        Self { protection, bit_errors: None, more: 1.0, known: Default::default() }
    }

    /// The other side tells how segments arrive.
    pub fn on_quality(&mut self, quality: &Quality, len: usize) {
        let expected = self.bit_errors.map(|rate| {
            let words = self.words(TransferMode::Reliable, len);
            rs::residual(len.saturating_sub(usize::from(words) * 4), words, rate)
        });
        // That the first segments had no error says little: one in what was received may be just to come.
        let unseen = (1.0 / (quality.received.max(1) as f64 * (len * 8) as f64)).max(UNSEEN);
        let rate = quality.bit_errors.unwrap_or(unseen).max(unseen);
        let steady = self.bit_errors.is_some_and(|old| (0.5..2.0).contains(&(rate / old)));
        if steady && expected.is_some_and(|expected| quality.lost > (expected * UNEXPECTED).max(0.02)) {
            self.more = (self.more * MORE).min(MOST_MORE);
        } else if quality.lost < 0.005 {
            self.more = (self.more / 1.02).max(1.0);
        }
        self.bit_errors = Some(rate);
        self.known = Default::default();
    }

    /// Words of parity for a segment of `len` bytes, parity included.
    pub fn words(&self, mode: TransferMode, len: usize) -> u16 {
        let (most, residual) = match self.protection {
            Protection::Off => return 0,
            Protection::Fixed(words) => return words,
            Protection::Adaptive { most, residual } => (most, residual),
        };
        let Some(rate) = self.bit_errors else { return UNTOLD.min(most) };
        let repeats = matches!(mode, TransferMode::Reliable | TransferMode::NearReliable);
        let known = &self.known[usize::from(repeats)];
        if known.get().0 == len {
            return known.get().1;
        }
        let words = match repeats {
            true => cheapest(len, rate, most),
            false => weakest(len, rate, most, residual),
        };
        let words = ((f64::from(words) * self.more).round() as u16).min(most);
        known.set((len, words));
        words
    }
}

/// The words for which a delivered byte costs least.
fn cheapest(len: usize, rate: f64, most: u16) -> u16 {
    let cost = |words: u16| {
        let data = len.saturating_sub(usize::from(words) * 4).max(1);
        1.0 / (data as f64 * (1.0 - rs::residual(data, words, rate)).max(1e-9))
    };
    (0..=most).min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(0)
}

/// The least words for which at most this share is lost.
fn weakest(len: usize, rate: f64, most: u16, residual: f64) -> u16 {
    let fails = |words: u16| rs::residual(len.saturating_sub(usize::from(words) * 4).max(1), words, rate);
    (0..=most).find(|words| fails(*words) <= residual).unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_segments_without_errors_do_not_make_it_weak() {
        let mut strength = Strength::new(Protection::default());
        let words = |strength: &Strength| strength.words(TransferMode::Reliable, 1472);
        assert_eq!(words(&strength), UNTOLD);
        strength.on_quality(&Quality { received: 1, ..Quality::default() }, 1472);
        assert!((5..=9).contains(&words(&strength)), "as at 8.5e-5: {}", words(&strength));
        strength.on_quality(&Quality { received: 1000, ..Quality::default() }, 1472);
        assert!(words(&strength) <= 1, "{}", words(&strength));
        strength.on_quality(&Quality { received: 1100, bit_errors: Some(1e-4), ..Quality::default() }, 1472);
        assert!((5..=10).contains(&words(&strength)), "{}", words(&strength));
    }
}
