//! Randomness that is a function: of a seed, of what it decides, and of the packet's number.
//!
//! The word that decides over packet *n* is word *n* of a ChaCha8 keystream, one stream for each purpose. It depends
//! neither on the packet's size and time, nor on what became of the packets before it, nor on how often anything was
//! polled. So two contenders on equal seeds meet the same luck, packet by packet. The two directions of a link have
//! different seeds ([`Link`](crate::Link) takes the complement for the second).
//!
//! Words are compared as integers: a probability becomes a threshold once, by operations that IEEE 754 rounds the same
//! everywhere.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// What a keystream decides; its number is the ChaCha stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Loss before the queue.
    Loss = 0,
    /// Changes of state of a Gilbert-Elliott process before the queue.
    LossState = 1,
    /// Loss behind the server.
    AirLoss = 2,
    /// Changes of state of a Gilbert-Elliott process behind the server.
    AirLossState = 3,
    /// Jitter.
    Jitter = 4,
    /// Bit errors.
    BitErrors = 5,
    /// Synthetic capacity.
    Capacity = 6,
    /// Synthetic handovers.
    Handovers = 7,
    /// Frames that a serial radio loses.
    RadioLoss = 8,
    /// Bit errors of a serial radio.
    RadioBits = 9,
}

/// One keystream of 64-bit words with random access.
#[derive(Debug, Clone)]
pub(crate) struct Luck {
    stream: ChaCha8Rng,
    /// Number of the word that the stream gives next.
    next: u64,
}

impl Luck {
    pub(crate) fn new(seed: u64, purpose: Purpose) -> Self {
        let mut stream = ChaCha8Rng::seed_from_u64(seed);
        stream.set_stream(purpose as u64);
        Self { stream, next: 0 }
    }

    /// Word `n`. Cheapest in order, and nearly so with small gaps.
    pub(crate) fn word(&mut self, n: u64) -> u64 {
        /// Going to another place makes four blocks of eight words anew; a gap smaller than that is cheaper read over.
        const GAP: u64 = 32;
        match n.checked_sub(self.next) {
            Some(gap) if gap < GAP => (0..gap).for_each(|_| _ = self.stream.next_u64()),
            _ => self.stream.set_word_pos(u128::from(n) * 2),
        }
        self.next = n.wrapping_add(1);
        self.stream.next_u64()
    }

    /// As many words as are needed about `n`.
    pub(crate) fn words(&mut self, n: u64) -> Words {
        Words(self.word(n))
    }
}

/// Any number of words from one: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, figure 15), a counter with a mixing
/// function.
#[derive(Debug, Clone)]
pub(crate) struct Words(pub(crate) u64);

impl Words {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in 0 to `max`, both included.
    pub(crate) fn up_to(&mut self, max: u64) -> u64 {
        scale(self.next(), max)
    }

    /// About normal, mean 0 and standard deviation 1, as an integer in units of 2⁻³²: the sum of sixteen uniform 32-bit
    /// numbers.
    ///
    /// Its kurtosis is 2.925 instead of 3, and it ends at 6.9 standard deviations. It takes integers only.
    pub(crate) fn normal_q32(&mut self) -> i64 {
        /// Standard deviation of the sum: √(16 / 12) · 2³².
        const DEVIATION: i128 = 4_959_401_049;
        /// Mean of the sum.
        const MEAN: i128 = 8 * 0xffff_ffff;
        let sum: i128 = (0..8)
            .map(|_| {
                let word = self.next();
                i128::from(word >> 32) + i128::from(word & 0xffff_ffff)
            })
            .sum();
        // At most 7 · 2³².
        (((sum - MEAN) << 32) / DEVIATION) as i64
    }
}

/// Maps a uniform word to 0 to `max`, both included.
pub(crate) fn scale(word: u64, max: u64) -> u64 {
    // Below 2⁶⁴, as the first factor is.
    ((u128::from(word) * (u128::from(max) + 1)) >> 64) as u64
}

/// A probability as a threshold: of the 2⁵³ equally probable values of [`Threshold::hits`], that many hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Threshold(u64);

impl Threshold {
    /// Clamped to 0 to 1; not-a-number never hits.
    pub(crate) fn new(probability: f64) -> Self {
        let sane = if probability.is_nan() { 0.0 } else { probability.clamp(0.0, 1.0) };
        // Scaling by a power of two and rounding up are exact.
        Self((sane * (1u64 << 53) as f64).ceil() as u64)
    }

    /// Whether the word hits. A higher probability hits wherever a lower one does.
    pub(crate) fn hits(self, word: u64) -> bool {
        (word >> 11) < self.0
    }

    pub(crate) fn is_never(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_does_not_depend_on_what_was_asked_before() {
        let mut in_order = Luck::new(42, Purpose::Jitter);
        let words: Vec<u64> = (0..200).map(|n| in_order.word(n)).collect();
        let mut asked = Luck::new(42, Purpose::Jitter);
        for n in [7, 8, 8, 0, 199, 100, 101, 131, 132, 164, 165, 3] {
            assert_eq!(asked.word(n), words[n as usize], "word {n}");
        }
    }

    #[test]
    fn purposes_and_seeds_differ() {
        let first = |seed, purpose| Luck::new(seed, purpose).word(0);
        assert_ne!(first(1, Purpose::Loss), first(1, Purpose::Jitter));
        assert_ne!(first(1, Purpose::Loss), first(2, Purpose::Loss));
    }

    #[test]
    fn thresholds_are_exact_at_their_ends() {
        assert!(!Threshold::new(0.0).hits(0));
        assert!(Threshold::new(1.0).hits(u64::MAX));
        assert!(!Threshold::new(f64::NAN).hits(0));
        assert!(!Threshold::new(-1.0).hits(0));
        let half = Threshold::new(0.5);
        assert!(half.hits((1 << 63) - 1) && !half.hits(1 << 63));
        // The smallest probability still hits the smallest word.
        assert!(Threshold::new(f64::MIN_POSITIVE).hits(0));
    }

    #[test]
    fn scaling_reaches_both_ends() {
        assert_eq!((scale(0, 9), scale(u64::MAX, 9)), (0, 9));
        assert_eq!(scale(u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(scale(u64::MAX, 0), 0);
    }

    #[test]
    fn normal_has_mean_zero_and_deviation_one() {
        let mut words = Words(1);
        let draws: Vec<f64> = (0..20_000).map(|_| words.normal_q32() as f64 / (1u64 << 32) as f64).collect();
        let mean = draws.iter().sum::<f64>() / 20_000.0;
        let variance = draws.iter().map(|x| x * x).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.02, "{mean}");
        assert!((variance - 1.0).abs() < 0.03, "{variance}");
        let within_one = draws.iter().filter(|x| x.abs() < 1.0).count();
        assert!((13_350..13_950).contains(&within_one), "{within_one} of 20,000, 13,654 expected");
    }
}
