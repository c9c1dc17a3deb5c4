//! The queues that the scheduler serves in strict priority ([AQUILA algorithm 1]): bounded, and counting what they drop.
//! Video's queue is in [`crate::video`].

pub mod batches;
pub mod bulk;
pub mod outbox;
pub mod parcels;
pub mod reserve;
pub mod telemetry;
