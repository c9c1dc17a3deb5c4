//! Aquila's sans-IO core.
#![forbid(unsafe_code)]

pub mod aerotp;
mod bearer;
pub mod cc;
pub mod class;
mod delay;
mod feedback;
pub mod gateway;
pub mod identity;
pub mod mavlink;
pub mod quantiles;
pub mod quic;
mod replay;
pub mod replication;
pub mod sched;
pub mod seeded;
pub mod session;
pub mod signing;
pub mod transfer;
pub mod units;
pub mod video;
pub mod wire;

pub use bearer::{BearerId, Usage};
pub use class::Class;
pub use session::{Event, FrameBitrate, FrameTurn, LinkState, Output, Session, SessionConfig, Side};
pub use units::{Bitrate, ByteCount};
