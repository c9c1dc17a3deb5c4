//! The link emulator, sans-IO: a packet goes in at one instant and comes out at a later one, or is dropped with a reason.
//!
//! It knows nothing of the protocols that it carries, reads no clock and draws no randomness beyond its seed, so a run in
//! virtual time and a run in real time see the same link.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use aquila_emu::{Path, PathConfig};
//!
//! # fn now() -> Instant { #[allow(clippy::disallowed_methods)] Instant::now() }
//! let start = now();
//! let config = PathConfig { rate_bps: Some(4_000_000), delay: Duration::from_millis(30), ..PathConfig::default() };
//! let mut up = Path::new(config, 7);
//! up.push(start, 1_250, "packet").unwrap();
//! // 1,250 bytes take 2.5 ms at 4 Mbit/s, then they propagate.
//! let due = start + Duration::from_micros(32_500);
//! assert_eq!(up.next_delivery(), Some(due));
//! assert_eq!(up.pop(due), Some("packet"));
//! ```
#![forbid(unsafe_code)]

mod cell;
mod link;
mod path;
mod profile;

pub use link::Link;
pub use path::{DropReason, Dropped, Outage, Packet, Path, PathConfig, PathStats, Tally};
pub use profile::{Change, Direction, Profile, Schedule, Step};
