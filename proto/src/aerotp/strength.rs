//! How strong the code in a segment has to be.
//!
//! In modes with repetition the cheapest: parity costs room in every segment, a failure costs one more. In the others the
//! weakest for which no more than a given share is lost. Both by the bit errors that the other side reports; what it could
//! not repair although it should have, since errors come in bursts, makes it stronger.

use std::cell::Cell;

use aquila_fec::rs;

use super::TransferMode;
use super::connection::COVERED;
use super::endpoint::Protection;
use super::quality::Quality;

/// Words until the first report.
const UNTOLD: u16 = 8;
/// Without any error in what was received, bits are taken to be wrong at this rate at most.
const UNSEEN: f64 = 5e-7;
/// What is taken for the bit error rate until the first report, as far as repairs are concerned.
const UNTOLD_RATE: f64 = 5e-5;
/// Segments between two measurements of what does not arrive, and those over which it is averaged.
const COUNT: u64 = 32;
const MISSING_MEMORY: f64 = 1024.0;
/// What is taken for it until then.
const UNTOLD_MISSING: f64 = 0.02;
/// Repairs of [`COVERED`] segments at most.
const MOST_REPAIRS: u32 = COVERED as u32;
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
    /// Share of what we send that does not arrive, whatever the reason; and what that was last measured from.
    missing: f64,
    /// Segments that it is the average of.
    seen: f64,
    counted: Option<(u64, u64)>,
    /// Last answers by length: for modes with repetition, with repairs, and with neither.
    known: [Cell<(usize, u16)>; 3],
    known_repairs: Cell<(usize, f64)>,
}

impl Strength {
    pub fn new(protection: Protection) -> Self {
        Self {
            protection,
            bit_errors: None,
            more: 1.0,
            missing: UNTOLD_MISSING,
            seen: COUNT as f64,
            counted: None,
            known: Default::default(),
            known_repairs: Cell::default(),
        }
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
        self.forget();
    }

    /// So many segments had been sent when the other side said how many arrived.
    pub fn on_arrivals(&mut self, sent: u64, quality: &Quality) {
        let whole = quality.received.saturating_sub(quality.damaged);
        let Some((sent_then, whole_then)) = self.counted else {
            self.counted = Some((sent, whole));
            return;
        };
        let count = sent.saturating_sub(sent_then);
        if count >= COUNT {
            let arrived = whole.saturating_sub(whole_then).min(count);
            let share = 1.0 - arrived as f64 / count as f64;
            self.seen = (self.seen + count as f64).min(MISSING_MEMORY);
            self.missing += (share - self.missing) * (count as f64 / self.seen).min(1.0);
            self.counted = Some((sent, whole));
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.known = Default::default();
        self.known_repairs = Cell::default();
    }

    /// Words of parity for a segment of `len` bytes, parity included.
    pub fn words(&self, mode: TransferMode, len: usize) -> u16 {
        let (most, residual) = match self.protection {
            Protection::Off => return 0,
            Protection::Fixed(words) => return words,
            Protection::Adaptive { most, residual } => (most, residual),
        };
        let Some(rate) = self.bit_errors else { return UNTOLD.min(most) };
        let known = match mode {
            TransferMode::Reliable | TransferMode::NearReliable => &self.known[0],
            TransferMode::QuasiReliable => &self.known[1],
            TransferMode::UnreliableConnection | TransferMode::UnreliableDatagram => &self.known[2],
        };
        if known.get().0 == len {
            return known.get().1;
        }
        let words = match mode {
            TransferMode::Reliable | TransferMode::NearReliable => cheapest(len, rate, most),
            TransferMode::QuasiReliable => with_repairs(len, rate, most, residual),
            TransferMode::UnreliableConnection | TransferMode::UnreliableDatagram => weakest(len, rate, most, residual),
        };
        let words = ((f64::from(words) * self.more).round() as u16).min(most);
        known.set((len, words));
        words
    }
}

impl Strength {
    /// Repair segments for each segment of a quasi-reliable connection.
    pub fn repairs(&self, len: usize) -> f64 {
        let Protection::Adaptive { residual, .. } = self.protection else { return 0.0 };
        if self.known_repairs.get().0 == len {
            return self.known_repairs.get().1;
        }
        let words = self.words(TransferMode::QuasiReliable, len);
        let data = len.saturating_sub(usize::from(words) * 4).max(1);
        let expected = rs::residual(data, words, self.bit_errors.unwrap_or(UNTOLD_RATE));
        let share = repairs_for(expected.max(self.missing), residual);
        self.known_repairs.set((len, share));
        share
    }
}

/// The words for which parity and repairs together are least.
fn with_repairs(len: usize, rate: f64, most: u16, residual: f64) -> u16 {
    let mut best = (f64::INFINITY, 0);
    for words in 0..=most {
        let data = len.saturating_sub(usize::from(words) * 4).max(1);
        if 1.0 / data as f64 > best.0 {
            break; // The parity alone costs more.
        }
        let cost = (1.0 + repairs_for(rs::residual(data, words, rate), residual)) / data as f64;
        best = if cost < best.0 { (cost, words) } else { best };
    }
    best.1
}

/// Repairs for each segment, of which this share is lost, so that of those that a repair covers with the repairs that cover them
/// hardly ever more are lost than there are repairs: in a tenth of the cases in which a segment may be lost at all.
fn repairs_for(lost: f64, residual: f64) -> f64 {
    let covered = COVERED as f64;
    let mut factorial = 0.0; // Its logarithm.
    for repairs in 1..=MOST_REPAIRS {
        // Poisson's distribution: the first number of losses that is too many, and what follows as a geometric series.
        let first = f64::from(repairs + 1);
        factorial += first.ln();
        let mean = lost * (covered + f64::from(repairs));
        let chance = (first * mean.ln() - mean - factorial).exp() / (1.0 - mean / (first + 1.0));
        if mean < first && chance <= residual / 10.0 {
            return f64::from(repairs) / covered;
        }
    }
    f64::from(MOST_REPAIRS) / covered
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
    fn repairs_cover_what_is_lost_and_then_some() {
        // Of 192 and the repairs, 4.6 are lost in the mean.
        let shares = [1e-9, 1e-5, 1e-3, 0.022, 0.1, 0.9].map(|lost| repairs_for(lost, 1e-6) * COVERED as f64);
        assert!((shares[0], shares[1], shares[5]) == (1.0, 2.0, 192.0), "{shares:?}");
        assert!((5.0..8.0).contains(&shares[2]) && (16.0..24.0).contains(&shares[3]), "{shares:?}");
        assert!((45.0..70.0).contains(&shares[4]), "{shares:?}");
        assert_eq!(with_repairs(1472, 0.0, 64, 1e-6), 0);
        assert!((9..=12).contains(&with_repairs(1472, 1e-4, 64, 1e-6)), "{}", with_repairs(1472, 1e-4, 64, 1e-6));
    }

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
