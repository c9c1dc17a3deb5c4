//! What the fuzz targets do with their input: one function each, called by libFuzzer (`fuzz_targets/`) and by the replay
//! on stable (`tests/replay.rs`). A target panics when something is wrong, and else returns.
//!
//! Parsers are given the bytes as they are. What has a state is given a list of steps, which [`input::Input`] reads from
//! the bytes; inputs that end early are short lists.

mod aerotp;
mod bundle;
mod cast;
mod endpoint;
mod fec;
mod gateway;
mod input;
mod mavlink;
mod pack;
mod passthrough;
mod plan;
mod quic;
mod restart;
mod router;
mod score;
mod session;
mod tcpcl;
mod texts;
mod trace;
mod transfer;
mod video;
mod wire;

pub use aerotp::{association, deframer, inner_options, segment};
pub use bundle::bundle;
pub use cast::cast;
pub use endpoint::endpoint;
pub use fec::{copies, correct, window};
pub use gateway::gateway;
pub use mavlink::mavlink;
pub use pack::pack;
pub use passthrough::passthrough;
pub use plan::{flight_log, mission, scenario, tables};
pub use quic::bearer;
pub use restart::{replay_window, resumption, store};
pub use router::router;
pub use score::score;
pub use session::session;
pub use tcpcl::tcpcl;
pub use texts::{config, texts};
pub use trace::trace;
pub use transfer::transfer;
pub use video::{reassembly, rtp, video_queue};
pub use wire::wire;

/// What the seeds are made with.
pub mod seeds {
    pub use crate::quic::stored_by_a_real_client;
}

/// A target's body.
pub type Target = fn(&[u8]);

/// Every target, by the name of its binary and of its folder in `corpus`.
pub const TARGETS: [(&str, Target); 34] = [
    ("association", association),
    ("bearer", bearer),
    ("bundle", bundle),
    ("cast", cast),
    ("config", config),
    ("copies", copies),
    ("correct", correct),
    ("deframer", deframer),
    ("endpoint", endpoint),
    ("flight_log", flight_log),
    ("gateway", gateway),
    ("inner_options", inner_options),
    ("mavlink", mavlink),
    ("mission", mission),
    ("pack", pack),
    ("passthrough", passthrough),
    ("reassembly", reassembly),
    ("replay_window", replay_window),
    ("resumption", resumption),
    ("router", router),
    ("rtp", rtp),
    ("scenario", scenario),
    ("score", score),
    ("segment", segment),
    ("session", session),
    ("store", store),
    ("tables", tables),
    ("tcpcl", tcpcl),
    ("texts", texts),
    ("trace", trace),
    ("transfer", transfer),
    ("video_queue", video_queue),
    ("window", window),
    ("wire", wire),
];
