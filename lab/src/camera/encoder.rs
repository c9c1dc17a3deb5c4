//! The H.264 encoder.

use aquila_proto::Bitrate;
use openh264::OpenH264API;
use openh264::encoder::{
    BitRate, Complexity, FrameRate, FrameType, IntraFramePeriod, Level, Profile, RateControlMode, SpsPpsStrategy,
    UsageType,
};
use openh264::formats::YUVSource;
use thiserror::Error;

use super::options;
use super::picture::Yuv;

/// The encoder takes no less (OpenH264's rate control misbehaves below) and no more (the limit of level 4.1, and far more than such a
/// picture can use).
const MIN_RATE: Bitrate = Bitrate(20_000);
const MAX_RATE: Bitrate = Bitrate(50_000_000);

/// How pictures are encoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EncoderConfig {
    /// Target to begin with; see [`Encoder::set_bitrate`].
    pub bitrate: Bitrate,
    /// Pictures a second, on which the rate control relies.
    pub frame_rate: f32,
    /// Pictures from one recovery point (IDR) to the next; 0 for none but the first and those that are requested. Viewers that join late
    /// see nothing until the next one.
    pub idr_period: u32,
    /// Pictures may be left out to keep the rate.
    pub may_skip: bool,
}

impl Default for EncoderConfig {
    /// 1 Mbit/s, 30 pictures a second, a recovery point every two seconds, none left out.
    fn default() -> Self {
        Self { bitrate: Bitrate(1_000_000), frame_rate: 30.0, idr_period: 60, may_skip: false }
    }
}

/// Why a picture could not be encoded.
#[derive(Debug, Error)]
pub enum EncodeError {
    /// The encoder says so; its message.
    #[error("the encoder failed: {0}")]
    Codec(#[from] openh264::Error),
    /// The rate was set, but not accepted.
    #[error("the encoder refused a rate of {0:?}")]
    Rate(Bitrate),
}

/// An encoded picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedFrame {
    /// NAL units, each behind a start code (Annex B). A recovery point begins with its parameter sets.
    pub annex_b: Vec<u8>,
    /// A decoder can begin here.
    pub is_idr: bool,
}

/// Encodes pictures as they come, each at once: baseline profile, one slice, no picture refers to a later one.
pub struct Encoder {
    inner: openh264::encoder::Encoder,
    wanted: Bitrate,
    /// The rate that the encoder knows of; `None` before its first picture, which sets it up.
    applied: Option<Bitrate>,
}

impl Encoder {
    /// An encoder whose picture size is that of the first picture.
    ///
    /// # Errors
    ///
    /// When the codec cannot be set up.
    pub fn new(config: EncoderConfig) -> Result<Self, EncodeError> {
        let bitrate = within_limits(config.bitrate);
        let settings = openh264::encoder::EncoderConfig::new()
            .bitrate(BitRate::from_bps(bitrate.0 as u32))
            .max_frame_rate(FrameRate::from_hz(config.frame_rate))
            .usage_type(UsageType::CameraVideoRealTime)
            .rate_control_mode(RateControlMode::Bitrate)
            .skip_frames(config.may_skip)
            .profile(Profile::Baseline)
            .level(Level::Level_4_1)
            .complexity(Complexity::Low)
            .sps_pps_strategy(SpsPpsStrategy::ConstantId)
            .intra_frame_period(IntraFramePeriod::from_num_frames(config.idr_period))
            .scene_change_detect(false)
            .background_detection(false)
            .num_threads(1);
        let mut inner = openh264::encoder::Encoder::with_api_config(OpenH264API::from_source(), settings)?;
        // Noise on standard error would be the only consequence of a refusal.
        let _ = options::silence(&mut inner);
        Ok(Self { inner, wanted: bitrate, applied: None })
    }

    /// Changes the target, from the next picture on and without a recovery point. Clamped to 20 kbit/s to 50 Mbit/s.
    pub fn set_bitrate(&mut self, bitrate: Bitrate) {
        self.wanted = within_limits(bitrate);
    }

    /// The target in force.
    pub fn bitrate(&self) -> Bitrate {
        self.wanted
    }

    /// The next picture will be a recovery point.
    pub fn request_idr(&mut self) {
        // Before the first picture the encoder is not set up, and that one is a recovery point anyway.
        if self.applied.is_some() {
            self.inner.force_intra_frame();
        }
    }

    /// Encodes a picture. `None`: the encoder has left it out.
    ///
    /// # Errors
    ///
    /// When the codec fails; the next picture may be tried.
    pub fn encode(&mut self, picture: &Yuv) -> Result<Option<EncodedFrame>, EncodeError> {
        if self.applied.is_some_and(|applied| applied != self.wanted) {
            self.apply_bitrate()?;
        }
        let first = self.applied.is_none();
        let stream = self.inner.encode(picture)?;
        let kind = stream.frame_type();
        let annex_b = stream.to_vec();
        if first {
            // Also lifts the upper bound, which begins as the first target.
            self.apply_bitrate()?;
        }
        if annex_b.is_empty() {
            return Ok(None);
        }
        Ok(Some(EncodedFrame { annex_b, is_idr: kind == FrameType::IDR }))
    }

    fn apply_bitrate(&mut self) -> Result<(), EncodeError> {
        if !options::set_bitrate(&mut self.inner, self.wanted.0 as i32, MAX_RATE.0 as i32) {
            return Err(EncodeError::Rate(self.wanted));
        }
        self.applied = Some(self.wanted);
        Ok(())
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("bitrate", &self.wanted).finish_non_exhaustive()
    }
}

impl YUVSource for Yuv {
    fn dimensions(&self) -> (usize, usize) {
        (self.width(), self.height())
    }

    fn strides(&self) -> (usize, usize, usize) {
        (self.width(), self.width() / 2, self.width() / 2)
    }

    fn y(&self) -> &[u8] {
        Self::y(self)
    }

    fn u(&self) -> &[u8] {
        Self::u(self)
    }

    fn v(&self) -> &[u8] {
        Self::v(self)
    }
}

fn within_limits(bitrate: Bitrate) -> Bitrate {
    bitrate.clamp(MIN_RATE, MAX_RATE)
}
