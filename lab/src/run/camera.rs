//! Cameras: what is asked before a frame, and how large it becomes.

use std::time::Duration;

use aquila_net::encoder::EncoderKind;
use aquila_proto::{Bitrate, FrameBitrate};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::plan::VideoTraffic;

/// A frame as it left the encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoded {
    /// Its bytes.
    pub bytes: usize,
    /// A decoder can begin with it.
    pub recovery: bool,
}

/// Makes frames.
pub trait FrameEncoder {
    /// Encodes picture number `number` for this rate; `recovery`: as a recovery point. `None`: it has left it out.
    fn encode(&mut self, number: u64, rate: FrameBitrate, recovery: bool) -> Option<Encoded>;

    /// Which encoder it is; `None`: a model of one.
    fn kind(&self) -> Option<EncoderKind> {
        None
    }
}

/// An encoder that makes no pictures, only sizes: it follows its target with a lag, and frames are log-normal around it.
#[derive(Debug)]
pub struct SizeModel {
    video: VideoTraffic,
    rate: f64,
    /// Nothing has been made yet: the first frame is a recovery point.
    first: bool,
    random: ChaCha8Rng,
}

impl SizeModel {
    /// The one that a plan describes.
    pub fn new(video: VideoTraffic, seed: u64) -> Self {
        let start = video.start.unwrap_or(video.rate).bitrate();
        Self { video, rate: start.0 as f64, first: true, random: ChaCha8Rng::seed_from_u64(seed ^ 0x6361_6d65_7261) }
    }

    /// A standard normal variable (Box and Muller 1958).
    fn normal(&mut self) -> f64 {
        // From 0 to below 1.
        let mut uniform = || (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let (radius, angle) = (1.0 - uniform(), uniform());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

impl FrameEncoder for SizeModel {
    fn encode(&mut self, number: u64, rate: FrameBitrate, recovery: bool) -> Option<Encoded> {
        let VideoTraffic { rate: most, least, frames_per_second, variation, response, recovery: factor, .. } =
            self.video;
        let period = self.video.recovery_every.map(|every| {
            let frames = every.get().as_secs_f64() * f64::from(frames_per_second);
            (frames.round() as u64).max(1)
        });
        let least = least.map_or(Bitrate::ZERO, |least| least.bitrate());
        let wanted = rate.asked.min(most.bitrate()).max(least);
        self.rate += (wanted.0 as f64 - self.rate) * response;
        let frame = Duration::from_nanos(1_000_000_000 / u64::from(frames_per_second));
        let mut bytes = Bitrate(self.rate as u64).bytes_in(frame).0 as f64;
        if variation > 0.0 {
            // The mean of what comes out is the target.
            bytes *= (variation * self.normal() - variation * variation / 2.0).exp();
        }
        let is_due = period.is_some_and(|period| number.is_multiple_of(period));
        let recovery = std::mem::take(&mut self.first) || recovery || is_due;
        if recovery {
            bytes *= factor;
        }
        // The mean over a period is the target, too.
        bytes /= period.map_or(1.0, |period| 1.0 + (factor - 1.0) / period as f64);
        Some(Encoded { bytes: (bytes as usize).max(crate::frames::RTP_MIN), recovery })
    }
}
