//! Interoperation with delay-tolerant networks at the edges: bundles (RFC 9171) in and out over TCP (TCPCLv4, RFC
//! 9174).
//!
//! A bundle of somebody else's is taken, checked, and handed to the caller byte for byte; on its way out only the
//! blocks that say how long and over how many nodes it travelled are written anew. Objects of ours leave as bundles of
//! at most 1 MiB, and are put together again from them.
//!
//! * [`read`] checks a bundle, [`Draft`] makes one, [`carry`] updates one that leaves;
//! * [`Part`] is a piece of an object as a bundle's payload, [`Collector`] puts pieces together;
//! * [`tcpcl`] is the session: bytes, events and time go in; bytes, events and a deadline come out;
//! * [`agent`] is tokio around it: listens, dials, and asks the caller what to do.
//!
//! `docs/bundles.md` says what is spoken and what is not.

pub mod agent;
mod blocks;
mod carry;
mod collect;
mod eid;
mod make;
mod part;
mod read;
pub mod tcpcl;

pub use carry::{Carried, Dropped, carry};
pub use collect::{Added, CollectError, Collector, CollectorLimits, Folder, Memory, Place, Whole};
pub use eid::{Pattern, PatternError};
pub use make::{Draft, MakeError, Requests};
pub use part::{Part, PartError, PartOf, parts};
pub use read::{Hops, Limits, ReadError, Summary, read};

/// Names of endpoints and of nodes, as [`hardy_bpv7`] has them.
pub use hardy_bpv7::eid::{Eid, NodeId};

#[cfg(test)]
mod tests;
