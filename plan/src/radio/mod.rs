//! The radio and what is between two of them.
//!
//! | file | what |
//! |---|---|
//! | [`path_loss`] | over distance |
//! | [`sea`] | the reflection from the sea |
//! | [`shadowing`] | what is left to chance, from a seed |
//! | [`rate`] | signal over noise to rate, errors and what a packet sees of them |

pub mod path_loss;
pub mod rate;
pub mod sea;
pub mod shadowing;

use serde::{Deserialize, Serialize};

/// Thermal noise at 290 K, dBm in 1 Hz.
const THERMAL_DBM_HZ: f64 = -173.975;

/// A radio. What is not in the data-mule paper says so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Radio {
    /// Carrier, MHz. The paper: a Ubiquiti Rocket M5, which is for 5 GHz; default: 5600.
    pub frequency_mhz: f64,
    /// Width of the channel, MHz: 5, 10, 20 or 40. Not in the paper; default: 20.
    pub bandwidth_mhz: f64,
    /// What the sender radiates in its antenna's best direction, dBm: transmitter less cable plus antenna. Not in the
    /// paper; default: 33, a Rocket M5's 27 dBm and 6 dBi.
    pub eirp_dbm: f64,
    /// Whose EIRP that is: who sends the files.
    pub sender: Sender,
    /// Of the receiver, dB. Not in the paper; default: 6.
    pub noise_figure_db: f64,
    /// Cables, polarisation, the airframe, dB. Not in the paper; default: 3.
    pub losses_db: f64,
    /// Rates and the signal over noise at which `threshold_frame_loss` of the frames is lost; empty: 802.11n, one stream, long guard
    /// interval (IEEE 802.11-2016 table 19-27), with thresholds of common chips.
    pub mcs: Vec<Mcs>,
    /// Share of the rate that IP packets get when no frame is lost. Not in the paper; default: 0.65.
    pub mac_efficiency: f64,
    /// How often a frame is sent again. Not in the paper; default: 7.
    pub retries: u32,
    /// How the odds of losing a frame change with signal over noise: e-fold in so many dB. Not in the paper; default:
    /// 1.
    pub per_scale_db: f64,
    /// Share of the frames that is lost when signal over noise is at a rate's threshold: what the table's thresholds are for.
    /// Default: 0.1, as receivers' sensitivities are in IEEE 802.11-2016.
    pub threshold_frame_loss: f64,
    /// What the radio keeps in reserve when it chooses a rate, dB. Not in the paper; default: 2.
    pub margin_db: f64,
    /// How much better it has to be than that for the next rate up, dB. Not in the paper; default: 1.
    pub hysteresis_db: f64,
    /// Time over which it averages signal over noise for this, s. Not in the paper; default: 2.
    pub smoothing_s: f64,
    /// One way, besides the time that light takes: queueing for the air, ms. Not in the paper; default: 1.
    pub delay_ms: f64,
    /// Less than this is no contact, kbit/s.
    pub contact_kbps: f64,
    /// What the trace says of loss.
    pub loss: LossReading,
    /// What goes into CCQ.
    pub ccq: CcqReading,
    /// CCQ without any loss. Not in the paper; default: 0.92.
    pub ccq_best: f64,
}

/// Who sends most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sender {
    /// The one on ship or shore: the aircraft fetches.
    Node,
    /// The aircraft: it delivers.
    Aircraft,
}

/// How the radio's errors become loss of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LossReading {
    /// The data-mule paper's: the rate that the radio reports, and loss = 100 % - CCQ.
    #[serde(rename = "1-ccq")]
    OneLessCcq,
    /// The radio repeats frames: repetition takes time on the air, and little is lost.
    #[serde(rename = "mac-arq")]
    MacArq,
}

impl LossReading {
    /// Both.
    pub const ALL: [Self; 2] = [Self::OneLessCcq, Self::MacArq];

    /// As a scenario's `radio.loss` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneLessCcq => "1-ccq",
            Self::MacArq => "mac-arq",
        }
    }
}

/// What CCQ counts. Ubiquiti does not say; MikroTik's is time at the best rate over time taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CcqReading {
    /// Repeated frames only: rate × CCQ then counts nothing twice.
    Retries,
    /// Repeated frames, and that the rate is lower than the best: rate × CCQ counts the rate twice.
    Airtime,
}

/// A modulation and coding scheme.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mcs {
    /// On the air, Mbit/s.
    pub rate_mbps: f64,
    /// Signal over noise at its threshold, dB: see [`Radio::threshold_frame_loss`].
    pub snr_db: f64,
}

/// 802.11n, one stream, 20 MHz, 800 ns guard interval: rates of IEEE 802.11-2016 table 19-27. Thresholds are typical of
/// data sheets and differ by 2 dB from chip to chip.
const HT20: [Mcs; 8] = [
    Mcs { rate_mbps: 6.5, snr_db: 2.0 },
    Mcs { rate_mbps: 13.0, snr_db: 5.0 },
    Mcs { rate_mbps: 19.5, snr_db: 9.0 },
    Mcs { rate_mbps: 26.0, snr_db: 11.0 },
    Mcs { rate_mbps: 39.0, snr_db: 15.0 },
    Mcs { rate_mbps: 52.0, snr_db: 18.0 },
    Mcs { rate_mbps: 58.5, snr_db: 20.0 },
    Mcs { rate_mbps: 65.0, snr_db: 25.0 },
];
/// 40 MHz has 108 data carriers for 20 MHz' 52: 13.5 Mbit/s for 6.5 (IEEE 802.11-2016 table 19-31).
const HT40: f64 = 108.0 / 52.0;
/// Entries of a table of one's own.
const MAX_MCS: usize = 32;

impl Default for Radio {
    fn default() -> Self {
        Self {
            frequency_mhz: 5_600.0,
            bandwidth_mhz: 20.0,
            eirp_dbm: 33.0,
            sender: Sender::Node,
            noise_figure_db: 6.0,
            losses_db: 3.0,
            mcs: Vec::new(),
            mac_efficiency: 0.65,
            retries: 7,
            per_scale_db: 1.0,
            threshold_frame_loss: 0.1,
            margin_db: 2.0,
            hysteresis_db: 1.0,
            smoothing_s: 2.0,
            delay_ms: 1.0,
            contact_kbps: 100.0,
            loss: LossReading::MacArq,
            ccq: CcqReading::Retries,
            ccq_best: 0.92,
        }
    }
}

impl Radio {
    /// Of the carrier, m.
    pub fn wavelength_m(&self) -> f64 {
        path_loss::LIGHT / (self.frequency_mhz * 1e6)
    }

    /// In the channel, with the receiver's, dBm.
    pub fn noise_dbm(&self) -> f64 {
        THERMAL_DBM_HZ + 10.0 * (self.bandwidth_mhz * 1e6).log10() + self.noise_figure_db
    }

    /// What it can send at, from the slowest on. 5 and 10 MHz are the same at a quarter and half of the clock.
    pub fn rates(&self) -> Vec<Mcs> {
        if !self.mcs.is_empty() {
            return self.mcs.clone();
        }
        let factor = if self.bandwidth_mhz > 20.0 { HT40 } else { self.bandwidth_mhz / 20.0 };
        HT20.map(|mcs| Mcs { rate_mbps: mcs.rate_mbps * factor, ..mcs }).to_vec()
    }

    /// What is wrong with its numbers, if something is.
    pub(crate) fn fault(&self) -> Option<String> {
        let checks = [
            ("frequency_mhz", self.frequency_mhz, 30.0, 100_000.0),
            ("eirp_dbm", self.eirp_dbm, -30.0, 90.0),
            ("noise_figure_db", self.noise_figure_db, 0.0, 40.0),
            ("losses_db", self.losses_db, -20.0, 60.0),
            ("mac_efficiency", self.mac_efficiency, 0.01, 1.0),
            ("per_scale_db", self.per_scale_db, 0.05, 10.0),
            ("threshold_frame_loss", self.threshold_frame_loss, 0.000_001, 0.999),
            ("margin_db", self.margin_db, -10.0, 20.0),
            ("hysteresis_db", self.hysteresis_db, 0.0, 20.0),
            ("smoothing_s", self.smoothing_s, 0.0, 600.0),
            ("delay_ms", self.delay_ms, 0.0, 60_000.0),
            ("contact_kbps", self.contact_kbps, 1.0, 1e6),
            ("ccq_best", self.ccq_best, 0.01, 1.0),
        ];
        if let Some((name, value, from, to)) =
            checks.into_iter().find(|(_, value, from, to)| !(*from..=*to).contains(value))
        {
            return Some(format!("{name} is {value}; it must be from {from} to {to}"));
        }
        if self.retries > 100 {
            return Some(format!("retries is {}; it must be from 0 to 100", self.retries));
        }
        if self.mcs.is_empty() && ![5.0, 10.0, 20.0, 40.0].contains(&self.bandwidth_mhz) {
            return Some("bandwidth_mhz is 5, 10, 20 or 40, unless there is a table mcs".into());
        }
        if !(0.001..=10_000.0).contains(&self.bandwidth_mhz) {
            return Some(format!("bandwidth_mhz is {}; it must be from 0.001 to 10,000", self.bandwidth_mhz));
        }
        let is_ordered =
            self.mcs.windows(2).all(|pair| pair[0].rate_mbps < pair[1].rate_mbps && pair[0].snr_db <= pair[1].snr_db);
        let is_known =
            |mcs: &Mcs| (0.000_1..=100_000.0).contains(&mcs.rate_mbps) && (-50.0..=100.0).contains(&mcs.snr_db);
        if self.mcs.len() > MAX_MCS || !is_ordered || !self.mcs.iter().all(is_known) {
            return Some(format!(
                "mcs has up to {MAX_MCS} rates that grow, with thresholds from -50 to 100 dB that grow as well"
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_channel_has_half_the_rate_and_half_the_noise() {
        let radio = |bandwidth_mhz| Radio { bandwidth_mhz, ..Radio::default() };
        assert_eq!(radio(10.0).rates()[7].rate_mbps, 32.5);
        assert_eq!(radio(5.0).rates()[0].rate_mbps, 1.625);
        assert!((radio(40.0).rates()[7].rate_mbps - 135.0).abs() < 1e-9);
        assert!((radio(20.0).noise_dbm() - radio(10.0).noise_dbm() - 3.01).abs() < 0.01);
        // -174 + 73 + 6.
        assert!((radio(20.0).noise_dbm() + 94.96).abs() < 0.01);
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let fault = |radio: Radio| radio.fault().unwrap_or_default();
        assert_eq!(Radio::default().fault(), None);
        assert!(fault(Radio { bandwidth_mhz: 7.0, ..Radio::default() }).contains("5, 10, 20 or 40"));
        assert!(fault(Radio { eirp_dbm: f64::NAN, ..Radio::default() }).contains("eirp_dbm is NaN"));
        assert!(fault(Radio { mcs: vec![HT20[1], HT20[0]], ..Radio::default() }).contains("grow"));
    }
}
