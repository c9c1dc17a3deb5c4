//! OpenH264.

use aquila_proto::Bitrate;

use super::{CodecError, OneSize, Unit};
use crate::camera::{DecodeError, Decoder, EncodedFrame, Encoder, EncoderConfig, Yuv};

/// The embedded encoder. It leaves pictures out when it has spent too much: otherwise it would take seconds to get down to a lower rate.
pub(super) struct Embedded(Encoder);

impl Embedded {
    pub(super) fn new(target: Bitrate, frames_per_second: u32) -> Result<Self, CodecError> {
        let config =
            EncoderConfig { bitrate: target, frame_rate: frames_per_second as f32, idr_period: 0, may_skip: true };
        Ok(Self(Encoder::new(config)?))
    }
}

impl OneSize for Embedded {
    fn encode(&mut self, picture: &Yuv, target: Bitrate, recovery: bool) -> Result<Option<EncodedFrame>, CodecError> {
        self.0.set_bitrate(target);
        if recovery {
            self.0.request_idr();
        }
        Ok(self.0.encode(picture)?)
    }
}

/// Decodes H.264 of any encoder.
pub(super) fn decode<E: From<CodecError>>(
    units: &[(u32, &Unit)],
    use_picture: &mut impl FnMut(u32, Yuv) -> Result<(), E>,
) -> Result<(), E> {
    let wrong = |number: u32| move |error: DecodeError| CodecError::Decode { number, error };
    let Some(((first, _), _)) = units.split_first() else { return Ok(()) };
    let mut decoder = Decoder::new().map_err(wrong(*first))?;
    for (done, (number, unit)) in units.iter().enumerate() {
        let picture = decoder.decode(&unit.annex_b).map_err(wrong(*number))?;
        let picture = picture.ok_or(CodecError::Count { given: done + 1, got: done })?;
        use_picture(*number, picture)?;
    }
    Ok(())
}
