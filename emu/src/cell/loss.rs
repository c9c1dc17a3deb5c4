//! Random loss: which packets, by their numbers.
//!
//! Independent loss compares word *n* of a keystream with the probability then in force: the fate of packet *n* depends
//! on the seed and on its number alone, not on its size, its time or its predecessors, and raising the probability only
//! adds losses to those there were. Bursts: see [`GilbertElliott`].
//!
//! A link has two such cells. The one in front of the queue loses packets before they use any of the link, as netem
//! does. The one behind the server loses them after they have taken their time on it, as the air does. They draw from
//! different streams.

use super::gilbert_elliott::{Chain, GilbertElliott};
use crate::luck::{Luck, Purpose, Threshold};

/// Which packets are lost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// Each with this probability, 0 to 1 (clamped; not-a-number loses nothing), independently of all others.
    Independent(f64),
    /// In bursts.
    GilbertElliott(GilbertElliott),
}

impl Loss {
    /// None.
    pub const NONE: Self = Self::Independent(0.0);

    /// The mean share that is lost in the long run, 0 to 1.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Independent(probability) if probability.is_nan() => 0.0,
            Self::Independent(probability) => probability.clamp(0.0, 1.0),
            Self::GilbertElliott(model) => model.mean_loss(),
        }
    }
}

impl Default for Loss {
    fn default() -> Self {
        Self::NONE
    }
}

/// The cell.
#[derive(Debug)]
pub(crate) struct LossCell {
    model: Loss,
    threshold: Threshold,
    chain: Option<Chain>,
    luck: Luck,
    seed: u64,
    state_purpose: Purpose,
}

impl LossCell {
    /// `purpose` decides over packets, `state_purpose` over changes between good and bad.
    pub(crate) fn new(model: Loss, seed: u64, purpose: Purpose, state_purpose: Purpose) -> Self {
        let mut cell = Self {
            model: Loss::NONE,
            threshold: Threshold::new(0.0),
            chain: None,
            luck: Luck::new(seed, purpose),
            seed,
            state_purpose,
        };
        cell.set(model);
        cell
    }

    /// For packets that are asked about from now on. A burst that is going on goes on under the new parameters.
    pub(crate) fn set(&mut self, model: Loss) {
        self.model = model;
        match model {
            Loss::Independent(probability) => {
                self.threshold = Threshold::new(probability);
                self.chain = None;
            }
            Loss::GilbertElliott(parameters) => match &mut self.chain {
                Some(chain) => chain.set(parameters),
                None => self.chain = Some(Chain::new(parameters, Luck::new(self.seed, self.state_purpose))),
            },
        }
    }

    /// Whether packet `n` is lost. Numbers must not go back.
    pub(crate) fn is_lost(&mut self, n: u64) -> bool {
        let threshold = match &mut self.chain {
            Some(chain) => chain.threshold(n),
            None => self.threshold,
        };
        !threshold.is_never() && threshold.hits(self.luck.word(n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(model: Loss, seed: u64) -> Vec<bool> {
        let mut loss = LossCell::new(model, seed, Purpose::Loss, Purpose::LossState);
        (0..10_000).map(|n| loss.is_lost(n)).collect()
    }

    fn independent(probability: f64, seed: u64) -> Vec<bool> {
        fates(Loss::Independent(probability), seed)
    }

    #[test]
    fn zero_never_loses_and_one_always_does() {
        assert!(independent(0.0, 1).iter().all(|lost| !lost));
        assert!(independent(1.0, 1).iter().all(|lost| *lost));
        assert!(independent(f64::NAN, 1).iter().all(|lost| !lost));
        assert!(independent(-3.0, 1).iter().all(|lost| !lost));
    }

    #[test]
    fn the_share_lost_is_the_probability() {
        let lost = independent(0.05, 3).iter().filter(|lost| **lost).count();
        // 500 expected, standard deviation 22.
        assert!((400..600).contains(&lost), "{lost} of 10,000");
    }

    #[test]
    fn a_higher_rate_loses_the_same_packets_and_more() {
        for (low, high) in independent(0.02, 9).into_iter().zip(independent(0.10, 9)) {
            assert!(!low || high);
        }
    }

    #[test]
    fn the_keystream_is_pinned() {
        let fates = independent(0.01, 42);
        let lost: Vec<usize> = (0..fates.len()).filter(|n| fates[*n]).take(4).collect();
        assert_eq!(lost, PINNED, "seeded runs are no longer comparable with those on record");
    }

    const PINNED: [usize; 4] = [85, 415, 468, 570];

    #[test]
    fn packets_that_are_not_asked_about_do_not_change_the_fate_of_others() {
        for model in [Loss::Independent(0.1), Loss::GilbertElliott(GilbertElliott::from_mean(0.1, 5.0).unwrap())] {
            let all = fates(model, 5);
            let mut loss = LossCell::new(model, 5, Purpose::Loss, Purpose::LossState);
            for n in (0..10_000).filter(|n| n % 7 == 3 || n % 1_000 < 10) {
                assert_eq!(loss.is_lost(n), all[n as usize], "packet {n} of {model:?}");
            }
        }
    }

    #[test]
    fn bursts_have_their_mean_loss_and_length() {
        let model = Loss::GilbertElliott(GilbertElliott::from_mean(0.1, 8.0).unwrap());
        let mut loss = LossCell::new(model, 11, Purpose::Loss, Purpose::LossState);
        let fates: Vec<bool> = (0..200_000).map(|n| loss.is_lost(n)).collect();
        let lost = fates.iter().filter(|lost| **lost).count();
        let bursts = fates.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        assert!((18_000..22_000).contains(&lost), "{lost} of 200,000");
        let length = lost as f64 / bursts as f64;
        assert!((7.4..8.6).contains(&length), "{length} packets a burst");
    }

    #[test]
    fn equal_loss_in_both_states_is_independent_loss() {
        let model = GilbertElliott { to_bad: 0.1, to_good: 0.3, loss_good: 0.05, loss_bad: 0.05 };
        assert_eq!(fates(Loss::GilbertElliott(model), 2), independent(0.05, 2));
    }
}
