//! What became of the packets.

use std::time::Instant;

use thiserror::Error;

use crate::packet::Ecn;

/// Why a packet will not come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum DropReason {
    /// Random loss before the queue.
    #[error("lost at random")]
    Loss,
    /// Random loss behind the server: it has used its share of the link.
    #[error("lost on the air")]
    AirLoss,
    /// Another one has just passed where only one may in a while: [`Path::set_thinned`](crate::Path::set_thinned).
    #[error("thinned out")]
    Thinned,
    /// The queue had no room for it.
    #[error("the queue was full")]
    QueueFull,
    /// The queue's management dropped it, to tell the sender to slow down.
    #[error("dropped by queue management")]
    Aqm,
    /// It arrived, or was in service, in an [`Outage::Drop`](crate::Outage::Drop).
    #[error("the link was out")]
    Outage,
}

/// A number of packets and their bytes on the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }

    pub(crate) fn remove(&mut self, bytes: usize) {
        self.packets -= 1;
        self.bytes -= bytes as u64;
    }
}

/// Packets dropped, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// See [`DropReason::Loss`].
    pub loss: Tally,
    /// See [`DropReason::AirLoss`].
    pub air_loss: Tally,
    /// See [`DropReason::Thinned`].
    pub thinned: Tally,
    /// See [`DropReason::QueueFull`].
    pub queue_full: Tally,
    /// See [`DropReason::Aqm`].
    pub aqm: Tally,
    /// See [`DropReason::Outage`].
    pub outage: Tally,
}

impl Dropped {
    /// All reasons together.
    pub fn total(&self) -> Tally {
        let all = [self.loss, self.air_loss, self.thinned, self.queue_full, self.aqm, self.outage];
        Tally { packets: all.iter().map(|t| t.packets).sum(), bytes: all.iter().map(|t| t.bytes).sum() }
    }

    /// Of what has used the link.
    pub fn behind_bottleneck(&self) -> Tally {
        let Tally { packets, bytes } = self.thinned;
        Tally { packets: self.air_loss.packets + packets, bytes: self.air_loss.bytes + bytes }
    }

    pub(crate) fn add(&mut self, reason: DropReason, bytes: usize) {
        match reason {
            DropReason::Loss => self.loss.add(bytes),
            DropReason::AirLoss => self.air_loss.add(bytes),
            DropReason::Thinned => self.thinned.add(bytes),
            DropReason::QueueFull => self.queue_full.add(bytes),
            DropReason::Aqm => self.aqm.add(bytes),
            DropReason::Outage => self.outage.add(bytes),
        }
    }
}

/// Counts since the path was made. At any time `input` = `output` + `dropped.total()` + `queued`, in packets and in
/// bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PathStats {
    /// Packets pushed, whatever became of them.
    pub input: Tally,
    /// Packets popped.
    pub output: Tally,
    /// Packets that will not come out.
    pub dropped: Dropped,
    /// Packets inside: waiting, in service, propagating, or due and not popped.
    pub queued: Tally,
    /// Of these, bytes that wait for service and count against the queue's bound.
    pub queue_bytes: usize,
    /// Of these, packets that wait for service.
    pub queue_packets: usize,
    /// Packets that the server sent whole, also those that are lost on the air then.
    pub served: Tally,
    /// Packets that the path marked [`Ecn::Ce`].
    pub marked: Tally,
    /// Packets that came out with bits flipped, in the payload or in front of it.
    pub corrupted: Tally,
    /// Bits flipped in them.
    pub flipped_bits: u64,
    /// Packets that came out before one that was pushed earlier.
    pub reordered: u64,
    /// Opportunities of a trace that have passed, used or not.
    pub opportunities: u64,
    /// Bytes of them that packets used. What is not used is lost.
    pub opportunity_bytes: u64,
}

/// A packet that was dropped; see [`Path::record_drops`](crate::Path::record_drops).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropEvent<T> {
    /// When.
    pub at: Instant,
    /// Why.
    pub reason: DropReason,
    /// The packet's number: how many were pushed before it.
    pub number: u64,
    /// When it was pushed.
    pub pushed: Instant,
    /// Its bytes on the wire.
    pub bytes: usize,
    /// Its ECN field as it was then.
    pub ecn: Ecn,
    /// What it carried.
    pub payload: T,
}
