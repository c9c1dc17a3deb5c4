//! Encoders that are called picture by picture, and decoders of what they made.

mod embedded;
mod external;
mod h265;

#[cfg(test)]
mod tests;

use std::io;
use std::str::FromStr;

use aquila_net::encoder::{EncoderKind, Ladder, Rung};
use aquila_proto::Bitrate;
use thiserror::Error;

use super::programs::Missing;
use super::scale::scaled;
use crate::camera::{DecodeError, EncodeError, EncodedFrame, Yuv};

/// Who encodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Cisco's OpenH264, which is part of this program.
    OpenH264,
    /// libx264 (superfast, zerolatency, buffer of 200 ms), in a process of its own.
    X264,
    /// libx264 with a buffer of a second, as long as encoders in hardware commonly have.
    X264LongBuffer,
    /// libx265 likewise (superfast, buffer of 200 ms). Each change of its target makes a recovery point.
    X265,
    /// libx265 with the preset that the camera in process flies (ultrafast).
    X265Ultrafast,
}

/// What is wanted of the next picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// Bits per second.
    pub target: Bitrate,
    /// Width and height to encode at. Another than before begins the stream anew.
    pub size: (usize, usize),
    /// As a recovery point.
    pub recovery: bool,
}

/// An encoded picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// NAL units, each behind a start code (Annex B).
    pub annex_b: Vec<u8>,
    /// A decoder can begin here.
    pub is_recovery: bool,
    /// Width and height at which it was encoded.
    pub size: (usize, usize),
}

/// Why a picture was not encoded or decoded.
#[derive(Debug, Error)]
pub enum CodecError {
    /// The engine is not installed.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The embedded encoder failed.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The embedded decoder failed on what should be whole.
    #[error("picture {number}: {error}")]
    Decode {
        /// Which.
        number: u32,
        /// Why.
        error: DecodeError,
    },
    /// A decoder gave another number of pictures than it was given.
    #[error("the decoder gave {got} pictures for {given}")]
    Count {
        /// Access units.
        given: usize,
        /// Pictures.
        got: usize,
    },
    /// A child process failed.
    #[error("{name} failed: {message}")]
    Child {
        /// Which.
        name: &'static str,
        /// What it said last.
        message: String,
    },
    /// A pipe to a child process broke.
    #[error("{name} cannot be talked to: {error}")]
    Pipe {
        /// Which.
        name: &'static str,
        /// Why.
        error: io::Error,
    },
}

impl Engine {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::OpenH264, Self::X264, Self::X264LongBuffer, Self::X265, Self::X265Ultrafast];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenH264 => "openh264",
            Self::X264 => "x264",
            Self::X264LongBuffer => "x264-long-buffer",
            Self::X265 => "x265",
            Self::X265Ultrafast => "x265-ultrafast",
        }
    }

    /// Which encoder it is, as the sender knows it.
    pub fn kind(self) -> EncoderKind {
        match self {
            Self::OpenH264 => EncoderKind::OpenH264,
            Self::X264 => EncoderKind::X264,
            Self::X264LongBuffer => EncoderKind::X264LongBuffer,
            Self::X265 | Self::X265Ultrafast => EncoderKind::X265,
        }
    }

    /// It makes H.265, else H.264.
    pub fn is_h265(self) -> bool {
        self.kind() == EncoderKind::X265
    }

    /// The sizes that its pictures may have, and from which rates on.
    pub fn sizes(self) -> [Rung; 5] {
        if self.is_h265() { Ladder::H265 } else { Ladder::DEFAULT }
    }

    /// Whether all that it needs is installed.
    ///
    /// # Errors
    /// What is missing and how to get it.
    pub fn is_available(self) -> Result<(), Missing> {
        match self {
            Self::OpenH264 => Ok(()),
            Self::X264 | Self::X264LongBuffer => external::is_available(self),
            Self::X265 | Self::X265Ultrafast => {
                external::is_available(self).and_then(|()| super::programs::ffmpeg().map(drop))
            }
        }
    }

    /// Decodes access units without gaps: the first, and each of another size than the one before, is a recovery point. Each gives one picture,
    /// in order, which is handed to `use_picture` with its number.
    ///
    /// # Errors
    /// [`CodecError`], or what `use_picture` returns.
    pub fn decode<E: From<CodecError>>(
        self,
        units: &[(u32, &Unit)],
        mut use_picture: impl FnMut(u32, Yuv) -> Result<(), E>,
    ) -> Result<(), E> {
        for run in units.chunk_by(|a, b| a.1.size == b.1.size) {
            if self.is_h265() { h265::decode(run, &mut use_picture)? } else { embedded::decode(run, &mut use_picture)? }
        }
        Ok(())
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|engine| engine.name() == text)
            .ok_or_else(|| format!("{text:?} is none of {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// An encoder of pictures of one size.
trait OneSize: Send {
    fn encode(&mut self, picture: &Yuv, target: Bitrate, recovery: bool) -> Result<Option<EncodedFrame>, CodecError>;
}

/// Encodes pictures as they come, each at once.
pub struct Encoder {
    engine: Engine,
    frames_per_second: u32,
    /// What encodes at present, and at which size.
    current: Option<((usize, usize), Box<dyn OneSize>)>,
}

impl Encoder {
    /// An encoder for so many pictures a second.
    pub fn new(engine: Engine, frames_per_second: u32) -> Self {
        Self { engine, frames_per_second, current: None }
    }

    /// Which one it is, as the sender knows it.
    pub fn kind(&self) -> EncoderKind {
        self.engine.kind()
    }

    /// So many pictures come a second from now on. Another number than before begins the stream anew.
    pub fn set_frame_rate(&mut self, frames_per_second: u32) {
        if std::mem::replace(&mut self.frames_per_second, frames_per_second) != frames_per_second {
            self.current = None;
        }
    }

    /// Encodes a picture. `None`: the encoder has left it out.
    ///
    /// # Errors
    /// [`CodecError`]; the encoder is then of no more use.
    pub fn encode(&mut self, picture: &Yuv, order: &Order) -> Result<Option<Unit>, CodecError> {
        let current = match self.current.take() {
            Some(current) if current.0 == order.size => current,
            // The old one ends before the new one begins.
            other => {
                drop(other);
                (order.size, self.begin(order)?)
            }
        };
        let (size, encoder) = self.current.insert(current);
        let resized = (*size != (picture.width(), picture.height())).then(|| scaled(picture, size.0, size.1));
        let frame = encoder.encode(resized.as_ref().unwrap_or(picture), order.target, order.recovery)?;
        Ok(frame.map(|frame| Unit { annex_b: frame.annex_b, is_recovery: frame.is_idr, size: order.size }))
    }

    fn begin(&self, order: &Order) -> Result<Box<dyn OneSize>, CodecError> {
        Ok(match self.engine {
            Engine::OpenH264 => Box::new(embedded::Embedded::new(order.target, self.frames_per_second)?),
            engine => Box::new(external::External::new(engine, order.size, order.target, self.frames_per_second)?),
        })
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("engine", &self.engine).finish_non_exhaustive()
    }
}
