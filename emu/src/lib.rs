//! The link emulator, sans-IO: a packet goes in at one instant and comes out at a later one, or is dropped with a
//! reason.
//!
//! It knows nothing of the protocols that it carries, reads no clock and draws no randomness beyond its seed, so a run
//! in virtual time and a run in real time see the same link.
//!
//! - [`Path`] is one direction of a link, made of cells: loss, queue, server, delay and jitter, bit errors, outages.
//! - [`Link`] is both directions and a [`Profile`] that changes them; [`HalfDuplex`] is two that share one channel.
//! - [`trace`] reads and writes what links were like; [`synth`] makes such traces up.
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
//!
//! A recorded link instead of a constant rate:
//!
//! ```
//! use std::io::Cursor;
//! use std::time::{Duration, Instant};
//! use aquila_emu::trace::AnyTrace;
//! use aquila_emu::{CcqMode, Path, PathConfig};
//!
//! # fn now() -> Instant { #[allow(clippy::disallowed_methods)] Instant::now() }
//! # fn main() -> Result<(), aquila_emu::trace::TraceError> {
//! let start = now();
//! let file = Cursor::new("# source: by hand\n10\n20\n20\n"); // or a `BufReader` of a file
//! let trace = AnyTrace::open(file)?;
//! assert_eq!(trace.info().mean_rate_bps, 1_800_000);
//! let mut up = Path::new(PathConfig::default(), 7);
//! trace.play(&mut up, start, start, CcqMode::default());
//! up.push(start, 1_250, "packet").unwrap();
//! assert_eq!(up.pop(start + Duration::from_millis(10)), Some("packet"));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod cell;
mod half_duplex;
mod link;
mod luck;
mod packet;
mod path;
mod profile;
mod serial_radio;
mod stats;
pub mod synth;
pub mod trace;

pub use cell::bit_errors::BitErrors;
pub use cell::ccq::CcqMode;
pub use cell::codel::CoDel;
pub use cell::gilbert_elliott::{BurstError, GilbertElliott};
pub use cell::handovers::{Handover, Handovers};
pub use cell::jitter::{Jitter, JitterShape};
pub use cell::loss::Loss;
pub use cell::opportunities::Opportunities;
pub use cell::queue::{Bound, Discipline, MarkAt, Marking, Queue};
pub use cell::samples::{Sample, Samples};
pub use half_duplex::HalfDuplex;
pub use link::Link;
pub use packet::{Delivered, Ecn, Packet, Payload};
pub use path::{Outage, Path, PathConfig};
pub use profile::{Change, Direction, Profile, Schedule, Step};
pub use serial_radio::{RadioTally, SerialRadio, SerialRadioConfig};
pub use stats::{DropEvent, DropReason, Dropped, PathStats, Tally};
