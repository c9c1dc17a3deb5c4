//! What a radio's client connection quality (CCQ) means for packets.
//!
//! CCQ is an efficiency of airtime: the time that frames would have needed at the best rate and without repetition,
//! over the time that they took. The paper replays it as loss; a radio that repeats frames in its MAC shows it as a
//! lower rate and loses few. Which protocol wins depends on this choice, so it is one.

/// How CCQ becomes rate and loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CcqMode {
    /// The paper's: the radio's rate as it is, and loss = `error_factor` × (1 − CCQ), at most 1 (data mules, part V;
    /// its second trace has a factor of 2).
    Loss {
        /// 1 for the paper's first trace.
        error_factor: f64,
    },
    /// `mac-arq`: the rate times CCQ, and what is lost is what failed `retries` + 1 times: (1 − CCQ) to that power, as
    /// if all of the inefficiency were repetition.
    MacArq {
        /// Repetitions before a frame is given up; 7 is usual in 802.11.
        retries: u8,
    },
}

impl Default for CcqMode {
    /// As in the paper.
    fn default() -> Self {
        Self::Loss { error_factor: 1.0 }
    }
}

impl CcqMode {
    /// Rate and loss of a radio that uses `tx_bps` at a CCQ of 0 to 1 (clamped; not-a-number is 0).
    pub fn conditions(self, tx_bps: Option<u64>, ccq: f64) -> (Option<u64>, f64) {
        let ccq = if ccq.is_nan() { 0.0 } else { ccq.clamp(0.0, 1.0) };
        let errors = 1.0 - ccq;
        match self {
            Self::Loss { error_factor } => {
                let loss = errors * error_factor;
                (tx_bps, if loss.is_nan() { 0.0 } else { loss.clamp(0.0, 1.0) })
            }
            Self::MacArq { retries } => {
                // By repeated multiplication: `powi` may differ between platforms.
                let residual = (0..retries).fold(errors, |product, _| product * errors);
                (tx_bps.map(|tx| (tx as f64 * ccq) as u64), residual)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_mode_leaves_the_rate_alone() {
        let mode = CcqMode::default();
        assert_eq!(mode.conditions(Some(26_000_000), 0.75), (Some(26_000_000), 0.25));
        assert_eq!(mode.conditions(None, 1.0), (None, 0.0));
        assert_eq!(CcqMode::Loss { error_factor: 2.0 }.conditions(Some(1), 0.75).1, 0.5);
        assert_eq!(CcqMode::Loss { error_factor: 2.0 }.conditions(Some(1), 0.25).1, 1.0);
    }

    #[test]
    fn mac_arq_turns_errors_into_airtime() {
        let mode = CcqMode::MacArq { retries: 2 };
        assert_eq!(mode.conditions(Some(20_000_000), 0.5), (Some(10_000_000), 0.125));
        assert_eq!(mode.conditions(Some(20_000_000), 1.0), (Some(20_000_000), 0.0));
        assert_eq!(mode.conditions(Some(20_000_000), 0.0), (Some(0), 1.0));
        assert_eq!(CcqMode::MacArq { retries: 0 }.conditions(Some(4), 0.75).1, 0.25);
    }

    #[test]
    fn nonsense_is_a_link_that_carries_nothing() {
        assert_eq!(CcqMode::default().conditions(Some(1), f64::NAN).1, 1.0);
        assert_eq!(CcqMode::Loss { error_factor: f64::NAN }.conditions(Some(1), 0.5).1, 0.0);
        assert_eq!(CcqMode::default().conditions(Some(1), 7.0).1, 0.0);
    }
}
