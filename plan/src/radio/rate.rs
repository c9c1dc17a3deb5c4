//! From signal over noise to what a packet sees: the radio chooses a rate, frames are lost, the MAC repeats them.

use serde::Serialize;

use super::{CcqReading, LossReading, Mcs, Radio};

/// The choice of rates, second by second.
#[derive(Debug, Clone)]
pub struct RateChoice {
    rates: Vec<Mcs>,
    smoothed_db: Option<f64>,
    current: usize,
}

/// What a second is like.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Conditions {
    /// Signal over noise, dB.
    pub snr_db: f64,
    /// Number of the rate, from 0.
    pub mcs: usize,
    /// On the air, bit/s.
    pub tx_bps: f64,
    /// That a frame is lost, once sent.
    pub frame_loss: f64,
    /// What the radio would report, 0 to 1.
    pub ccq: f64,
    /// What a trace has: how fast packets leave the queue, bit/s.
    pub rate_bps: f64,
    /// What a trace has: share of them that never arrives.
    pub loss: f64,
    /// See [`Conditions::goodput_bps`]. Not one less the loss of it, which has no digits left where next to all is lost.
    #[serde(skip)]
    goodput_bps: f64,
}

impl Conditions {
    /// What arrives of a sender that always has something to send, bit/s.
    pub fn goodput_bps(&self) -> f64 {
        self.goodput_bps
    }

    /// The same second at the same rate with `factor` times as many errors, [DATA-MULES §V-A]'s EF: of what is lost in the paper's
    /// reading, 100 % - CCQ, and of lost frames in the other one. No more than all is lost.
    #[must_use]
    pub fn with_error_factor(&self, radio: &Radio, factor: f64) -> Self {
        if factor == 1.0 {
            return *self;
        }
        let times = |share: f64| (share * factor.max(0.0)).min(1.0);
        let (frame_loss, ccq) = (times(self.frame_loss), 1.0 - times(1.0 - self.ccq));
        let Passed { rate_bps, loss, goodput_bps } = passed_on(radio, self.tx_bps, frame_loss, 1.0 - frame_loss, ccq);
        Self { frame_loss, ccq, rate_bps, loss, goodput_bps, ..*self }
    }
}

impl RateChoice {
    /// At the slowest rate.
    pub fn new(radio: &Radio) -> Self {
        Self { rates: radio.rates(), smoothed_db: None, current: 0 }
    }

    /// One second on.
    pub fn next(&mut self, radio: &Radio, snr_db: f64) -> Conditions {
        let weight = if radio.smoothing_s > 0.0 { 1.0 - (-1.0 / radio.smoothing_s).exp() } else { 1.0 };
        let is_first = self.smoothed_db.is_none();
        let smoothed = self.smoothed_db.map_or(snr_db, |last| last + weight * (snr_db - last));
        self.smoothed_db = Some(smoothed);
        let reach = |level: f64| self.rates.iter().rposition(|mcs| mcs.snr_db <= level).unwrap_or(0);
        let held = reach(smoothed - radio.margin_db);
        let up = reach(smoothed - radio.margin_db - radio.hysteresis_db);
        // Down at once, up only with room to spare.
        self.current = if is_first { held } else { self.current.max(up).min(held) };
        let mcs = self.rates[self.current];
        conditions(radio, mcs, self.current, snr_db, self.rates.last().map_or(mcs.rate_mbps, |best| best.rate_mbps))
    }
}

/// That a frame is lost, logistic in dB, and that it arrives: each with all its digits, however small it is.
fn frame_fate(radio: &Radio, snr_db: f64, threshold_db: f64) -> (f64, f64) {
    let at_threshold = radio.threshold_frame_loss;
    let odds = at_threshold / (1.0 - at_threshold) * (-(snr_db - threshold_db) / radio.per_scale_db).min(700.0).exp();
    (odds / (1.0 + odds), 1.0 / (1.0 + odds))
}

fn conditions(radio: &Radio, mcs: Mcs, number: usize, snr_db: f64, best_mbps: f64) -> Conditions {
    let (frame_loss, frame_arrives) = frame_fate(radio, snr_db, mcs.snr_db);
    let tx_bps = mcs.rate_mbps * 1e6;
    let fallback = match radio.ccq {
        CcqReading::Retries => 1.0,
        CcqReading::Airtime => mcs.rate_mbps / best_mbps,
    };
    let ccq = radio.ccq_best * frame_arrives * fallback;
    let Passed { rate_bps, loss, goodput_bps } = passed_on(radio, tx_bps, frame_loss, frame_arrives, ccq);
    Conditions { snr_db, mcs: number, tx_bps, frame_loss, ccq, rate_bps, loss, goodput_bps }
}

/// What packets see of it: see [`Conditions`].
struct Passed {
    rate_bps: f64,
    loss: f64,
    goodput_bps: f64,
}

fn passed_on(radio: &Radio, tx_bps: f64, frame_loss: f64, frame_arrives: f64, ccq: f64) -> Passed {
    match radio.loss {
        LossReading::OneLessCcq => Passed { rate_bps: tx_bps, loss: 1.0 - ccq, goodput_bps: tx_bps * ccq },
        LossReading::MacArq => {
            // A packet takes 1 + p + ... + p^r times the air, and is lost if all of them fail.
            // Not by `powi`, whose last digit the compiler may choose anew each time.
            let again = |(tries, term), _| (tries + term, term * frame_loss);
            let (tries, residual) = (0..=radio.retries).fold((0.0, 1.0), again);
            // Of the time on the air so much brings a packet, whatever is repeated: (1 - residual) / tries is the chance of a frame.
            let on_air = tx_bps * radio.mac_efficiency;
            Passed { rate_bps: on_air / tries, loss: residual, goodput_bps: on_air * frame_arrives }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn repetition_costs_time_and_not_packets() {
        let radio = Radio::default();
        let mcs = Mcs { rate_mbps: 26.0, snr_db: 11.0 };
        let there = conditions(&radio, mcs, 3, 11.0, 65.0);
        let strict = Radio { threshold_frame_loss: 0.01, ..radio.clone() };
        assert!((conditions(&strict, mcs, 3, 11.0, 65.0).frame_loss - 0.01).abs() < 1e-12);
        assert!((there.frame_loss - 0.1).abs() < 1e-12 && there.loss < 1.1e-8);
        // 0.65 × 26 Mbit/s × (1 - 0.1).
        assert!((there.goodput_bps() - 15.21e6).abs() < 1.0, "{}", there.goodput_bps());
        let paper = Radio { loss: LossReading::OneLessCcq, ..Radio::default() };
        let there = conditions(&paper, mcs, 3, 11.0, 65.0);
        assert_eq!(there.rate_bps, 26e6);
        assert!((there.loss - (1.0 - 0.92 * 0.9)).abs() < 1e-12 && (there.loss + there.ccq - 1.0).abs() < 1e-12);
        let twice = Radio { ccq: CcqReading::Airtime, ..paper };
        assert!((conditions(&twice, mcs, 3, 11.0, 65.0).ccq - 0.92 * 0.9 * 0.4).abs() < 1e-12);
    }

    #[test]
    fn twice_the_errors_are_loss_in_one_reading_and_time_in_the_other() {
        let mcs = Mcs { rate_mbps: 26.0, snr_db: 11.0 };
        let radio = Radio::default();
        let there = conditions(&radio, mcs, 3, 11.0, 65.0);
        assert_eq!(there.with_error_factor(&radio, 1.0), there);
        // 0.65 × 26 Mbit/s × (1 - 0.2).
        let twice = there.with_error_factor(&radio, 2.0);
        assert!((twice.goodput_bps() - 13.52e6).abs() < 1.0 && twice.loss < 2.6e-6, "{twice:?}");
        let paper = Radio { loss: LossReading::OneLessCcq, ..Radio::default() };
        let there = conditions(&paper, mcs, 3, 11.0, 65.0);
        let twice = there.with_error_factor(&paper, 2.0);
        assert!((twice.loss - 2.0 * there.loss).abs() < 1e-12 && twice.rate_bps == there.rate_bps, "{twice:?}");
        let all = there.with_error_factor(&paper, 100.0);
        assert_eq!((all.loss, all.ccq, all.frame_loss), (1.0, 0.0, 1.0));
    }

    #[test]
    fn the_rate_follows_down_at_once_and_up_with_room() {
        let radio = Radio { smoothing_s: 0.0, ..Radio::default() };
        let mut choice = RateChoice::new(&radio);
        let mut at = |snr_db| choice.next(&radio, snr_db).mcs;
        // 13 dB less a margin of 2 dB is MCS 3; 17.5 would be MCS 4, but for the hysteresis.
        assert_eq!([at(13.0), at(17.5), at(18.0), at(17.5), at(16.9), at(-40.0)], [3, 3, 4, 4, 3, 0]);
    }

    proptest! {
        #[test]
        fn more_signal_is_never_less(snr in -60.0..60.0f64, more in 0.0..20.0f64, paper: bool) {
            let loss = if paper { LossReading::OneLessCcq } else { LossReading::MacArq };
            let radio = Radio { loss, ..Radio::default() };
            let at = |snr| RateChoice::new(&radio).next(&radio, snr);
            let (one, other) = (at(snr), at(snr + more));
            prop_assert!((0.0..=1.0).contains(&one.loss) && one.rate_bps > 0.0 && (0.0..=1.0).contains(&one.ccq));
            prop_assert!(other.mcs >= one.mcs);
            // At a change of rate frames get lost again: by less than the change gains.
            prop_assert!(other.goodput_bps() >= one.goodput_bps() * 0.999);
            // What arrives is the rate less what is lost of it, but for the last digits.
            prop_assert!((one.goodput_bps() - one.rate_bps * (1.0 - one.loss)).abs() < 1e-12 * one.rate_bps);
        }
    }
}
