//! Tokio drivers for the sans-IO core.

mod attach;
pub mod bearer;
pub mod camera;
pub mod encoder;
pub mod gateway;
pub mod mavlink;
pub mod modem;
pub mod mule;
pub mod netwatch;
pub mod node;
mod pauses;
pub mod radio;
pub mod socket;
pub mod status;
pub mod store;
#[cfg(test)]
mod testkit;
pub mod video;

pub use attach::attach_tun;
