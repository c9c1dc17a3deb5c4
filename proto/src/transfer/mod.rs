//! Files that come home: objects go from store to store, over contacts of minutes on links that lose most of what is sent.
//!
//! Sans-IO. An object is a [`Manifest`] and the chunks that it names; any chunk that arrives on any contact counts. A [`Hop`] is what
//! two stores that meet say to each other, in parcels of a session ([`crate::sched::parcels`]): each is a giver of what it has and a
//! taker of what the other one has. Nothing is acknowledged to the giver before it is verified, and it is sent again only if it is lost:
//! the session tells each parcel's fate, and at the beginning of a contact the taker tells what it has, to the byte. Disk, hashing of
//! chunks and compression are the caller's, who is asked by [`Action`]s.

pub mod cast;
mod frame;
mod giver;
mod hop;
mod manifest;
mod order;
mod ranges;
mod receipt;
mod taker;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests;

use bytes::Bytes;

pub use frame::{Frame, Handle, Offer, Want};
pub use hop::{Hop, HopConfig};
pub use manifest::{Chunk, Hash, Kind, Manifest, ManifestError, ObjectId, StoreId, is_safe};
pub use order::{Candidate, order};
pub use ranges::Ranges;
pub use receipt::{Confirms, Receipt, ReceiptError};

/// What the caller is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The other side is there, and who it is; its life is another one after each start.
    Met {
        /// Its store.
        store: StoreId,
        /// Of its process.
        life: u64,
    },
    /// Read a part of an object of ours: 0 is its manifest, n its nth chunk as it travels; then [`Hop::on_loaded`].
    Load {
        /// Which.
        handle: Handle,
        /// Which part.
        part: u64,
    },
    /// The other side has taken custody of an object of ours. Its receipt comes for itself.
    Given(Handle),
    /// The other side does not want it.
    Refused(Handle),
    /// The other side has an object: say what becomes of it, [`Hop::answer`].
    Offered {
        /// What the other side calls it.
        handle: Handle,
        /// What it is said to be. The object is the manifest's hash, the rest is only said.
        offer: Offer,
    },
    /// Its manifest is there, and is what was offered. Look whether it can be trusted, and say what is missing: [`Hop::answer`].
    Judge {
        /// Which.
        handle: Handle,
        /// See [`Manifest::parse`].
        manifest: Bytes,
    },
    /// A chunk is there: verify and store it, then [`Hop::on_stored`].
    Store {
        /// Of which.
        handle: Handle,
        /// Which chunk, from 1.
        part: u64,
        /// As it travels.
        bytes: Bytes,
    },
    /// All chunks are stored. When they are sure to be there after a power cut: [`Hop::answer`] with [`Answer::Custody`].
    Complete(Handle),
    /// An object of the other side's is not to be had any more, and its handle means nothing.
    Withdrawn(Handle),
    /// A receipt of somebody's, see [`Receipt::parse`].
    Receipt(Bytes),
}

/// What becomes of an object that the other side has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Its manifest is wanted.
    Manifest,
    /// Chunks are.
    Chunks {
        /// Length of each chunk on the way, in bytes, at most [`Chunk::MAX`].
        lens: Vec<u32>,
        /// Numbers of those that are there, from 1.
        have: Ranges,
    },
    /// Nothing more: we have it, and answer for it.
    Custody,
    /// It is not wanted, ever.
    Refuse,
    /// Not now; say something else later.
    NotNow,
}

/// How far an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Chunks that the taker has, as far as is known.
    pub have: u64,
    /// How many there are; 0 at the taker, before it has the manifest.
    pub chunks: u64,
    /// What the taker said of it last; nothing if it did not speak yet.
    pub want: Option<Want>,
}

impl Progress {
    /// Whether anything of it is wanted now.
    pub fn is_wanted(&self) -> bool {
        matches!(self.want, Some(Want::Manifest | Want::Chunks))
    }

    /// Share of its chunks that are there, 0 to 1.
    pub fn done(&self) -> f64 {
        if self.chunks == 0 { 0.0 } else { self.have.min(self.chunks) as f64 / self.chunks as f64 }
    }
}

/// What a hop has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransferStats {
    /// Bytes of parts sent, those sent again included.
    pub bytes_sent: u64,
    /// Of them, those that were lost, or taken to be: they leave again.
    pub bytes_lost: u64,
    /// Bytes of parts that came and were new.
    pub bytes_taken: u64,
    /// Those that were there.
    pub bytes_again: u64,
    /// Parcels of parts that nobody wants any more.
    pub unwanted: u64,
    /// Parcels dropped since too much was incomplete.
    pub no_room: u64,
    /// Parts that were whole and wrong.
    pub wrong: u64,
    /// Parcels that could not be read.
    pub malformed: u64,
}

/// What a parcel told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Note {
    Hello,
    Offer(Handle),
    Withdrawn(Handle),
    State(Handle, Want),
    Chunks(Handle, u64, u64),
    Part(Handle, u64),
    Resumed,
    /// By the beginning of its hash.
    Receipt(u64),
    Data {
        handle: Handle,
        part: u64,
        from: u64,
        to: u64,
    },
}
