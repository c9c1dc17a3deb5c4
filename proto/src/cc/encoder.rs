//! What an encoder can make.

use crate::Bitrate;

/// The rates that an encoder makes: R_min and R_max of [AQUILA eq. 7].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncoderRange {
    /// Below this it makes more than it is asked for; frames are left out instead.
    pub least: Bitrate,
    /// More is of no use.
    pub most: Bitrate,
}

impl Default for EncoderRange {
    /// 200 kbit/s to 20 Mbit/s.
    fn default() -> Self {
        Self { least: Bitrate::kbps(200), most: Bitrate::mbps(20) }
    }
}

impl EncoderRange {
    /// The nearest rate that it can make.
    pub fn clamp(&self, rate: Bitrate) -> Bitrate {
        rate.min(self.most).max(self.least)
    }
}
