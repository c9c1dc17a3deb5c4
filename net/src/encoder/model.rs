//! How encoders follow a change of their rate, as measured (720p at 30 frames a second, steps 3000 to 1000 to 3000 to 500 to 3000
//! kbit/s), and what to ask of them so that what they make is what is wanted.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use aquila_proto::Bitrate;
use aquila_proto::cc::{EncoderRange, Response};

use super::steps::StepConfig;

/// An encoder that takes another rate from the next picture on is told of each change within this.
const PICTURE_BY_PICTURE: Duration = Duration::from_millis(10);
/// Any other one within this.
const SELDOM: Duration = Duration::from_millis(100);

/// An encoder whose answer to a change of rate is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EncoderKind {
    /// Not known: it is told of each change, as it comes.
    #[default]
    Unknown,
    /// x264 with a buffer of 200 ms (`vbv-buf-capacity=200`), which everybody should use.
    X264,
    /// x264 with GStreamer's own 600 ms, or a buffer of that order.
    X264LongBuffer,
    /// x265, which is opened anew for another rate.
    X265,
    /// OpenH264 with `skip_frames`.
    OpenH264,
    /// Any other that makes a recovery point of each change of its rate.
    Rekeying,
}

/// How one follows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EncoderModel {
    /// What it makes over what it was told, in the first frames after a step to half or less.
    pub overshoot: f64,
    /// For this long.
    pub settles: Duration,
    /// Each change begins with a recovery point, which costs as much as several frames.
    pub rekeys_on_change: bool,
    /// How the next picture follows, if it is asked picture by picture.
    pub response: Response,
}

impl EncoderKind {
    /// All that are known, and what they are called.
    pub const ALL: [(&'static str, Self); 5] = [
        ("x264", Self::X264),
        ("x264-long-buffer", Self::X264LongBuffer),
        ("x265", Self::X265),
        ("openh264", Self::OpenH264),
        ("rekeying", Self::Rekeying),
    ];

    /// What an encoder of this kind makes between these two rates.
    pub const fn range(self, least: Bitrate, most: Bitrate) -> EncoderRange {
        let EncoderModel { response, rekeys_on_change: rekeys, .. } = self.model();
        let told_every = match self {
            Self::X264 | Self::X264LongBuffer | Self::OpenH264 => PICTURE_BY_PICTURE,
            Self::Unknown | Self::X265 | Self::Rekeying => SELDOM,
        };
        EncoderRange { least, most, response, rekeys, told_every }
    }

    /// How it follows.
    pub const fn model(self) -> EncoderModel {
        let (overshoot, settles_ms, rekeys_on_change) = match self {
            Self::Unknown => (1.0, 0, false),
            // Frames 0 to 4 at 2.0 and 1.9 times the target, 5 to 9 at 1.1; see below.
            Self::X264 => (1.0, 0, false),
            // 2.7 to 4.5 times, then 1.3 to 2.1 times; less is asked for than would be needed, or there would be no picture.
            Self::X264LongBuffer => (2.5, 400, false),
            // 1.2 times in the first frames, which is its recovery point.
            Self::X265 | Self::Rekeying => (1.0, 0, true),
            // 1.2 times to a third, 1.9 times to a sixth.
            Self::OpenH264 => (1.2, 170, false),
        };
        // x264 makes a fifth of a rise in the next picture, and mostly some half as much again as in the last one: after a picture of nothing it
        // needs some eight to come up again. It spends what it has saved before it falls, unless it is asked for less than is wanted (docs/quality.md).
        let response = match self {
            Self::X264 => Response { rise: 0.3, fall: 0.6, slight: 0.75, dip: 0.25 },
            Self::X264LongBuffer => Response::both(0.6),
            Self::Unknown | Self::X265 | Self::OpenH264 | Self::Rekeying => Response::AT_ONCE,
        };
        EncoderModel { overshoot, settles: Duration::from_millis(settles_ms), rekeys_on_change, response }
    }
}

impl EncoderModel {
    /// When it is told another rate, and what.
    pub(super) const fn steps(self) -> StepConfig {
        let (down_ms, up_ms, lower_ms, higher_ms, down_share, up_share) = match self.rekeys_on_change {
            true => (500, 5_000, 200, 2_000, 0.1, 0.2),
            false => (0, 0, 0, 0, 0.01, 0.01),
        };
        StepConfig {
            down_after: Duration::from_millis(down_ms),
            up_after: Duration::from_millis(up_ms),
            lower_for: Duration::from_millis(lower_ms),
            higher_for: Duration::from_millis(higher_ms),
            down_share,
            up_share,
            an_hour: u32::MAX,
            overshoot: self.overshoot,
            settles: self.settles,
        }
    }
}

/// Why a text names no encoder that is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no kind of encoder that is known: x264, x264-long-buffer, x265, openh264 and rekeying are; leave the key out for any other"
)]
pub struct ParseKindError(String);

impl FromStr for EncoderKind {
    type Err = ParseKindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.iter().find(|(name, _)| *name == text);
        known.map(|(_, kind)| *kind).ok_or_else(|| ParseKindError(text.to_owned()))
    }
}

impl fmt::Display for EncoderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL.iter().find(|(_, kind)| kind == self).map_or("unknown", |(name, _)| name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_that_of_the_kind() {
        let (least, most) = (Bitrate::kbps(300), Bitrate::mbps(4));
        let of = |kind: EncoderKind| kind.range(least, most);
        assert_eq!(
            of(EncoderKind::X264),
            EncoderRange {
                least,
                most,
                response: Response { rise: 0.3, fall: 0.6, slight: 0.75, dip: 0.25 },
                rekeys: false,
                told_every: PICTURE_BY_PICTURE
            }
        );
        assert!(of(EncoderKind::X265).rekeys && of(EncoderKind::Rekeying).rekeys);
        assert_eq!(of(EncoderKind::Unknown).response, Response::AT_ONCE);
    }

    #[test]
    fn kinds_are_read_as_they_are_written() {
        for (name, kind) in EncoderKind::ALL {
            assert_eq!((name.parse(), kind.to_string()), (Ok(kind), name.to_owned()));
        }
        assert!("nvenc".parse::<EncoderKind>().unwrap_err().to_string().contains("x264"));
    }
}
