//! What does a packet meet on its way through the air? Path loss over a distance [CONCLONE eq. 11], bit errors of quadrature
//! amplitude modulation [eq. 12], frames [eq. 13] and packets [eq. 14].
//!
//! The paper names exponent, reference distance and 802.11g, and leaves out all else that its figure 8 needs. Here each of
//! those is a field with a default. There is no fading in it: what is lost beyond the mean goes into `margin_db`.

use serde::Serialize;

use super::{DomainError, Probability, must};

/// Metres a second.
const LIGHT: f64 = 299_792_458.0;
/// Thermal noise at 290 K, dBm in 1 Hz.
const THERMAL_DBM_HZ: f64 = -173.975;

/// A radio link from the ground to the air.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Channel {
    /// Along the ground, m.
    pub distance_m: f64,
    /// Of the aircraft above the ground station, m. In the paper: 0, its distance is that along the line.
    pub height_m: f64,
    /// Carrier, MHz. Not in the paper but for "2.4 GHz"; default: channel 6.
    pub frequency_mhz: f64,
    /// What is radiated and received: transmitter and both antennas, dBm. Not in the paper; default: 20, the limit of 2.4 GHz
    /// in Europe, with an antenna of 0 dBi at the other end.
    pub power_dbm: f64,
    /// What fading, pointing and the body of the aircraft take, dB. Not in the paper; default: 0.
    pub margin_db: f64,
    /// Path loss exponent. Default: the paper's for air to ground, 2.03.
    pub exponent: f64,
    /// Distance up to which the loss is that of free space, m: d_0. The paper: 1.
    pub reference_m: f64,
    /// Width of the channel, MHz. Not in the paper; default: 802.11g's 20.
    pub bandwidth_mhz: f64,
    /// Of the receiver, dB. Not in the paper; default: 7.
    pub noise_figure_db: f64,
    /// Bits of a symbol: ρ. Not in the paper; default: 6, that is 64-QAM, 802.11g at 54 Mbit/s.
    pub bits_per_symbol: f64,
    /// κ1 of the bit error rate. Not in the paper; default: 0.2, of uncoded M-QAM.
    pub kappa1: f64,
    /// κ2 of the bit error rate. Not in the paper; default: 1.5, of uncoded M-QAM.
    pub kappa2: f64,
    /// Length of a frame, bytes: L_fr / 8. Not in the paper; default: 1500.
    pub frame_bytes: f64,
    /// How often a frame is sent again: N_re. Not in the paper; default: 7, as 802.11 does with short frames.
    pub retries: u32,
    /// Frames of a packet: N_fr. Not in the paper; default: 1.
    pub frames: u32,
}

/// What comes out at one distance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Reception {
    /// Along the line, m.
    pub line_m: f64,
    /// dB.
    pub path_loss_db: f64,
    /// Signal over noise, dB.
    pub snr_db: f64,
    /// That a bit is wrong [CONCLONE eq. 12].
    pub bit_error: Probability,
    /// That a frame has a wrong bit [CONCLONE eq. 13].
    pub frame_error: Probability,
    /// That a packet is lost [CONCLONE eq. 14].
    pub packet_loss: Probability,
}

impl Default for Channel {
    fn default() -> Self {
        Self {
            distance_m: 80.0,
            height_m: 0.0,
            frequency_mhz: 2_437.0,
            power_dbm: 20.0,
            margin_db: 0.0,
            exponent: 2.03,
            reference_m: 1.0,
            bandwidth_mhz: 20.0,
            noise_figure_db: 7.0,
            bits_per_symbol: 6.0,
            kappa1: 0.2,
            kappa2: 1.5,
            frame_bytes: 1_500.0,
            retries: 7,
            frames: 1,
        }
    }
}

impl Channel {
    /// Says what is wrong with it.
    ///
    /// # Errors
    /// [`DomainError`], with the field. Bounds are those of radio, wide: up to 1e9 m, from 1 to 1e6 MHz, ±300 dB.
    pub fn check(&self) -> Result<(), DomainError> {
        must::be_within("the distance", self.distance_m, 0.0, 1e9)?;
        must::be_within("the height", self.height_m, -1e9, 1e9)?;
        must::be_within("the frequency", self.frequency_mhz, 1.0, 1e6)?;
        must::be_within("the power", self.power_dbm, -300.0, 300.0)?;
        must::be_within("the margin", self.margin_db, -300.0, 300.0)?;
        must::be_within("the path loss exponent", self.exponent, 0.0, 20.0)?;
        must::be_within("the reference distance", self.reference_m, 1e-3, 1e6)?;
        must::be_within("the bandwidth", self.bandwidth_mhz, 1e-6, 1e6)?;
        must::be_within("the noise figure", self.noise_figure_db, 0.0, 300.0)?;
        must::be_within("the number of bits of a symbol", self.bits_per_symbol, 1.0, 16.0)?;
        must::be_positive("kappa1", self.kappa1)?;
        must::be_positive("kappa2", self.kappa2)?;
        must::be_finite("the length of a frame", self.frame_bytes)?;
        must::be_within("the length of a frame", self.frame_bytes, 1.0, 1e6)?;
        must::be_within("the number of frames of a packet", f64::from(self.frames), 1.0, f64::from(u32::MAX))
    }

    /// What arrives.
    ///
    /// # Errors
    /// [`DomainError`] as [`Channel::check`].
    pub fn reception(&self) -> Result<Reception, DomainError> {
        self.check()?;
        let line_m = self.distance_m.hypot(self.height_m);
        let path_loss_db = self.path_loss_db(line_m);
        let snr_db = self.power_dbm - self.margin_db - path_loss_db - self.noise_dbm();
        let bit_error = self.bit_error(10f64.powf(snr_db / 10.0));
        let frame_error = any_of(bit_error, self.frame_bytes * 8.0);
        let frame_lost = Probability::clamped(frame_error.get().powf(f64::from(self.retries) + 1.0));
        let packet_loss = any_of(frame_lost, f64::from(self.frames));
        Ok(Reception { line_m, path_loss_db, snr_db, bit_error, frame_error, packet_loss })
    }

    /// The signal over noise, dB, with which a packet is lost so often: equations 12 to 14 backwards.
    ///
    /// `None` if no signal is weak or strong enough for that, or the channel does not pass [`Channel::check`].
    pub fn snr_for_db(&self, loss: Probability) -> Option<f64> {
        self.check().ok()?;
        let frame_lost = root_of(loss, f64::from(self.frames));
        let frame_error = Probability::clamped(frame_lost.get().powf(1.0 / (f64::from(self.retries) + 1.0)));
        let bit_error = root_of(frame_error, self.frame_bytes * 8.0).get();
        let snr = -(bit_error / self.kappa1).ln() * self.modulation() / self.kappa2;
        (snr.is_finite() && snr > 0.0).then(|| 10.0 * snr.log10())
    }

    /// The distance along the line, m, at which a packet is lost so often. `None` as [`Channel::snr_for_db`], or if it is
    /// within the reference distance.
    pub fn range_m(&self, loss: Probability) -> Option<f64> {
        let snr = self.snr_for_db(loss)?;
        let beyond = self.power_dbm - self.margin_db - self.noise_dbm() - snr - self.path_loss_db(self.reference_m);
        let range = self.reference_m * 10f64.powf(beyond / (10.0 * self.exponent));
        (range.is_finite() && beyond >= 0.0).then_some(range)
    }

    /// Of receiver and warmth, dBm.
    pub fn noise_dbm(&self) -> f64 {
        THERMAL_DBM_HZ + 10.0 * (self.bandwidth_mhz * 1e6).log10() + self.noise_figure_db
    }

    /// [CONCLONE eq. 11]; up to the reference distance as at it, where the model does not hold.
    fn path_loss_db(&self, line_m: f64) -> f64 {
        let free = 20.0 * (4.0 * std::f64::consts::PI * self.reference_m * self.frequency_mhz * 1e6 / LIGHT).log10();
        free + 10.0 * self.exponent * (line_m.max(self.reference_m) / self.reference_m).log10()
    }

    /// [CONCLONE eq. 12], and no more than by tossing a coin.
    fn bit_error(&self, snr: f64) -> Probability {
        Probability::clamped((self.kappa1 * (-self.kappa2 * snr / self.modulation()).exp()).min(0.5))
    }

    /// 2^ρ − 1.
    fn modulation(&self) -> f64 {
        self.bits_per_symbol.exp2() - 1.0
    }
}

/// 1 − (1 − p)^n, exact for small p too.
fn any_of(one: Probability, count: f64) -> Probability {
    Probability::clamped(-(count * (-one.get()).ln_1p()).exp_m1())
}

/// The p of which [`any_of`] makes `any`.
fn root_of(any: Probability, count: f64) -> Probability {
    Probability::clamped(-((-any.get()).ln_1p() / count).exp_m1())
}
