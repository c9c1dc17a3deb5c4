//! Loss in bursts: the model of Gilbert and Elliott.
//!
//! A chain of two states, good and bad, each with its probability of loss. It makes one step per packet *number*: the
//! state that packet *n* meets is a function of the seed and of *n*, also when packets before it were dropped for other
//! reasons. (As in netem's `gemodel`, and other than a process in time: a sender that sends twice as fast leaves a
//! burst twice as soon. What lasts for a time is an outage.) The chain begins in the state that its long-run shares
//! draw.

use thiserror::Error;

use crate::luck::{Luck, Threshold};

/// The four parameters, probabilities of 0 to 1 (clamped).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GilbertElliott {
    /// That the packet after one in the good state meets the bad one (*p*).
    pub to_bad: f64,
    /// That the packet after one in the bad state meets the good one (*r*). Bursts last 1 / *r* packets in the mean.
    pub to_good: f64,
    /// That a packet is lost in the good state (1 − *k*).
    pub loss_good: f64,
    /// That a packet is lost in the bad state (1 − *h*).
    pub loss_bad: f64,
}

/// There are no bursts like that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BurstError {
    /// Mean loss is no share of at least 0 and below 1.
    #[error("mean loss must be at least 0 and below 1")]
    Loss,
    /// A burst is shorter than one packet.
    #[error("a burst has at least one packet in the mean")]
    Length,
    /// With bursts that short there is no good packet between them.
    #[error("bursts are too short for so much loss: at least loss / (1 - loss) packets")]
    TooShort,
}

impl GilbertElliott {
    /// Gilbert's model: everything is lost in the bad state and nothing in the good one, so that the share `mean_loss`
    /// (0 to below 1) is lost, in bursts of `burst` packets in the mean (1 or more).
    ///
    /// # Errors
    ///
    /// If there is no such model.
    pub fn from_mean(mean_loss: f64, burst: f64) -> Result<Self, BurstError> {
        if !(0.0..1.0).contains(&mean_loss) {
            return Err(BurstError::Loss);
        }
        if !(burst >= 1.0 && burst.is_finite()) {
            return Err(BurstError::Length);
        }
        let to_good = 1.0 / burst;
        // In the long run as many steps lead in as out: (1 − loss) p = loss r.
        let to_bad = to_good * (mean_loss / (1.0 - mean_loss));
        if to_bad > 1.0 {
            return Err(BurstError::TooShort);
        }
        Ok(Self { to_bad, to_good, loss_good: 0.0, loss_bad: 1.0 })
    }

    /// The share lost in the long run.
    pub fn mean_loss(&self) -> f64 {
        let bad = self.share_bad();
        bad * self.loss_bad.clamp(0.0, 1.0) + (1.0 - bad) * self.loss_good.clamp(0.0, 1.0)
    }

    /// The share of packets that meet the bad state in the long run. A chain that never changes is good.
    fn share_bad(&self) -> f64 {
        let (p, r) = (self.to_bad.clamp(0.0, 1.0), self.to_good.clamp(0.0, 1.0));
        let sum = p + r;
        if sum > 0.0 { p / sum } else { 0.0 }
    }
}

/// The chain as it runs.
#[derive(Debug)]
pub(crate) struct Chain {
    to_bad: Threshold,
    to_good: Threshold,
    good: Threshold,
    bad: Threshold,
    begin_bad: Threshold,
    /// Number of the packet that meets `is_bad`. `None`: not begun.
    at: Option<u64>,
    is_bad: bool,
    luck: Luck,
}

impl Chain {
    pub(crate) fn new(model: GilbertElliott, luck: Luck) -> Self {
        let never = Threshold::new(0.0);
        let mut chain = Self {
            to_bad: never,
            to_good: never,
            good: never,
            bad: never,
            begin_bad: never,
            at: None,
            is_bad: false,
            luck,
        };
        chain.set(model);
        chain
    }

    /// The state stays.
    pub(crate) fn set(&mut self, model: GilbertElliott) {
        self.to_bad = Threshold::new(model.to_bad);
        self.to_good = Threshold::new(model.to_good);
        self.good = Threshold::new(model.loss_good);
        self.bad = Threshold::new(model.loss_bad);
        self.begin_bad = Threshold::new(model.share_bad());
    }

    /// The probability of loss that packet `n` meets. Numbers must not go back.
    pub(crate) fn threshold(&mut self, n: u64) -> Threshold {
        let mut at = self.at.unwrap_or_else(|| {
            // Word 0 for the beginning; word k for the step from packet k - 1 to k.
            self.is_bad = self.begin_bad.hits(self.luck.word(0));
            0
        });
        while at < n {
            at += 1;
            let leave = if self.is_bad { self.to_good } else { self.to_bad };
            self.is_bad ^= leave.hits(self.luck.word(at));
        }
        self.at = Some(at);
        if self.is_bad { self.bad } else { self.good }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::luck::Purpose;

    #[test]
    fn means_give_the_parameters() {
        let model = GilbertElliott::from_mean(0.2, 4.0).unwrap();
        assert_eq!((model.to_good, model.to_bad), (0.25, 0.0625));
        assert!((model.mean_loss() - 0.2).abs() < 1e-12);
        assert_eq!(GilbertElliott::from_mean(0.0, 1.0).unwrap().mean_loss(), 0.0);
    }

    #[test]
    fn impossible_bursts_are_refused() {
        assert_eq!(GilbertElliott::from_mean(1.0, 4.0), Err(BurstError::Loss));
        assert_eq!(GilbertElliott::from_mean(-0.1, 4.0), Err(BurstError::Loss));
        assert_eq!(GilbertElliott::from_mean(f64::NAN, 4.0), Err(BurstError::Loss));
        assert_eq!(GilbertElliott::from_mean(0.1, 0.9), Err(BurstError::Length));
        assert_eq!(GilbertElliott::from_mean(0.1, f64::INFINITY), Err(BurstError::Length));
        assert_eq!(GilbertElliott::from_mean(0.6, 1.0), Err(BurstError::TooShort));
        // Exactly: every second packet, one at a time.
        assert_eq!(GilbertElliott::from_mean(0.5, 1.0).unwrap().to_bad, 1.0);
    }

    #[test]
    fn certain_changes_alternate() {
        let model = GilbertElliott { to_bad: 1.0, to_good: 1.0, loss_good: 0.0, loss_bad: 1.0 };
        let mut chain = Chain::new(model, Luck::new(3, Purpose::LossState));
        let lost: Vec<bool> = (0..6).map(|n| chain.threshold(n).hits(0)).collect();
        assert!(lost.windows(2).all(|pair| pair[0] != pair[1]), "{lost:?}");
    }
}
