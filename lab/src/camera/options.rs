//! What the encoder's safe interface lacks: another bitrate while it runs, and silence.
#![allow(unsafe_code, reason = "the `openh264` crate offers run-time options only through its raw interface")]

use std::ffi::c_int;
use std::ptr::from_mut;

use openh264::encoder::Encoder;
use openh264_sys2::{
    ENCODER_OPTION_BITRATE, ENCODER_OPTION_MAX_BITRATE, ENCODER_OPTION_TRACE_LEVEL, SBitrateInfo, SPATIAL_LAYER_0,
    SPATIAL_LAYER_ALL, WELS_LOG_QUIET,
};

/// Sets target and upper bound of the encoder's rate, in bits per second. `false`: the encoder refuses, or has not encoded anything yet
/// (it is set up by its first picture).
pub(super) fn set_bitrate(encoder: &mut Encoder, target_bps: i32, max_bps: i32) -> bool {
    let mut bound = SBitrateInfo { iLayer: SPATIAL_LAYER_0, iBitrate: max_bps };
    let mut target = SBitrateInfo { iLayer: SPATIAL_LAYER_ALL, iBitrate: target_bps };
    // SAFETY: for these options `SetOption` reads one `SBitrateInfo` through the pointer during the call and keeps no reference to it;
    // both values outlive their calls. It checks by itself that the encoder is set up. What the wrapper relies on, picture size and data
    // format, is not touched.
    unsafe {
        encoder.raw_api().set_option(ENCODER_OPTION_MAX_BITRATE, from_mut(&mut bound).cast()) == 0
            && encoder.raw_api().set_option(ENCODER_OPTION_BITRATE, from_mut(&mut target).cast()) == 0
    }
}

/// Keeps the encoder from writing to standard error. The wrapper does this too, but only after it was set up, which is when it warns.
pub(super) fn silence(encoder: &mut Encoder) -> bool {
    let mut level: c_int = WELS_LOG_QUIET;
    // SAFETY: for this option, which is allowed before the encoder is set up, `SetOption` reads one `c_int` through the pointer during the
    // call and keeps no reference to it; `level` outlives the call.
    unsafe { encoder.raw_api().set_option(ENCODER_OPTION_TRACE_LEVEL, from_mut(&mut level).cast()) == 0 }
}
