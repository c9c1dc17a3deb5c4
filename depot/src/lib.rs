//! The store of files that are carried over contacts that come and go.
//!
//! A [`Depot`] is a folder: a database of what there is and what became of it, and segments, plain files that chunks are appended to as
//! they travel. Files are [put](Depot::put) into it, or taken by a [`Spool`]; others' objects come chunk by chunk
//! ([`Depot::on_offer`], [`Depot::store`]); a shore [delivers](Depot::deliver) them. Nothing is promised to anybody, neither a number
//! nor custody, before [`Depot::commit`] has returned, and everything that was is there after a power cut.
//!
//! All calls are synchronous, and wait for the disk. Several processes, or threads with a depot each, may have a folder open.

mod chunks;
mod config;
mod cut;
mod db;
mod deliver;
mod depot;
mod disk;
mod error;
mod folder;
mod give;
mod health;
mod intake;
mod list;
pub mod pack;
mod receipts;
mod rules;
mod segment;
mod spool;
mod squeeze;
mod staging;
mod state;
mod take;

pub use config::{Config, Delete, Shore};
pub use deliver::Delivered;
pub use depot::{Committed, Depot};
pub use error::{DepotError, NoRoom};
pub use give::{Candidate, Queued};
pub use health::Health;
pub use intake::{MAX_BUNDLE, PACKED_BELOW, Put, PutOptions, Source};
pub use list::{Filter, Row, Rows, Total, View};
pub use receipts::Heard;
pub use rules::{ParseRuleError, Rule, SpanError, span};
pub use spool::{Spool, Taken};
pub use state::State;
pub use take::{Refusal, Stored, Verdict};

#[cfg(test)]
mod tests;
