//! The H.264 decoder.

use openh264::formats::YUVSource;
use thiserror::Error;

use super::picture::Yuv;

/// Why an access unit gave no picture.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// Damaged, or it refers to a picture that was never received: ask for a recovery point and go on.
    #[error("the decoder failed: {0}")]
    Codec(#[from] openh264::Error),
}

/// Decodes pictures as they come.
pub struct Decoder {
    inner: openh264::decoder::Decoder,
}

impl Decoder {
    /// A decoder that knows nothing: its first access unit must be a recovery point.
    ///
    /// # Errors
    ///
    /// When the codec cannot be set up.
    pub fn new() -> Result<Self, DecodeError> {
        Ok(Self { inner: openh264::decoder::Decoder::new()? })
    }

    /// Decodes one access unit, NAL units behind start codes (Annex B). `None`: it held no picture.
    ///
    /// # Errors
    ///
    /// See [`DecodeError::Codec`]. After an access unit was lost all that follow fail until the next recovery point; no damaged picture is
    /// given out.
    pub fn decode(&mut self, annex_b: &[u8]) -> Result<Option<Yuv>, DecodeError> {
        let Some(decoded) = self.inner.decode(annex_b)? else { return Ok(None) };
        let (width, height) = decoded.dimensions();
        let mut picture = Yuv::new(width, height);
        let (y_stride, u_stride, v_stride) = decoded.strides();
        let (y, u, v) = picture.planes_mut();
        copy_lines(y, width, decoded.y(), y_stride);
        copy_lines(u, width / 2, decoded.u(), u_stride);
        copy_lines(v, width / 2, decoded.v(), v_stride);
        Ok(Some(picture))
    }
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").finish_non_exhaustive()
    }
}

/// Takes the padding out.
fn copy_lines(to: &mut [u8], width: usize, from: &[u8], stride: usize) {
    for (to, from) in to.chunks_exact_mut(width).zip(from.chunks(stride)) {
        to.copy_from_slice(&from[..width]);
    }
}
