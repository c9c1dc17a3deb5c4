//! Links in real time under unmodified programs.
//!
//! Nodes are network namespaces; each link is a TUN device at two of them, and the cells of [`aquila_emu`] decide over
//! the packets in between, the same that decide in virtual time. Neither netem nor tc is needed, nor root where the
//! kernel lets users have namespaces.
//!
//! ```no_run
//! use std::process::Command;
//! use std::time::{Duration, Instant};
//!
//! use aquila_emu::{Path, PathConfig};
//! use aquila_lab::live::{Addresses, Cells, Entered, LinkSpec, Sandbox};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sandbox = match Sandbox::enter()? {
//!     Entered::Inside(sandbox) => sandbox,
//!     Entered::Outside(code) => std::process::exit(code),
//! };
//! let lte = PathConfig { rate_bps: Some(4_000_000), delay: Duration::from_millis(30), ..PathConfig::default() };
//! let mut world = sandbox.world();
//! let (a, b) = (world.node("air"), world.node("ground"));
//! let cells = Cells::duplex(Path::new(lte, 1), Path::new(lte, 2));
//! let link =
//!     world.link(LinkSpec { name: "lte".into(), a, b, mtu: 1500, addresses: Addresses::numbered(0), cells });
//! let world = world.build()?;
//! world.change(link, Instant::now() + Duration::from_secs(2), |now, up, _| up.set_rate(now, Some(1_000_000)))?;
//! let mut ping = Command::new("ping");
//! ping.args(["-c", "5", "10.77.0.2"]);
//! let ping = world.spawn(a, "ping", ping, "ping.log".as_ref())?;
//! println!("{:?}: {}", ping.wait(Duration::from_secs(10)), ping.log_tail(3));
//! println!("{}", world.health()?);
//! # Ok(())
//! # }
//! ```
//!
//! - [`Sandbox`]: namespaces, and nothing left of a run whatever happens;
//! - [`World`]: nodes, links, programs, what happens to links;
//! - [`Hooks`]: set-up, processes and tear-down at all nodes, on one clock;
//! - [`Record`]: what went where and when; [`Health`]: whether the machine kept up.

mod addresses;
mod bare;
mod builder;
mod cells;
mod emulator;
mod health;
mod hooks;
mod netlink;
mod node;
mod packet;
mod process;
mod records;
mod sandbox;
mod sys;
mod timeline;
mod wait;
mod world;

pub use addresses::Addresses;
pub use builder::{LinkSpec, WorldBuilder};
pub use cells::Cells;
pub use health::{Health, HealthBounds, Priority, Refused, Verdict};
pub use hooks::{Hooks, HooksReport, Stage, Task, TaskReport};
pub use packet::IpPacket;
pub use process::{Ended, Exit, Process};
pub use records::{Fate, INTERVAL, Interval, PacketBatch, PacketEntry, Record};
pub use sandbox::{Entered, Sandbox, SandboxError};
pub(crate) use sys::prioritise;
pub use world::{End, Event, LinkId, NodeId, World, WorldError};
