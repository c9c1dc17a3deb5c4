//! What a run leaves for reports: a row per link, direction and 100 ms, and every packet if wanted.
//!
//! Both go through a bounded channel. The emulator never waits for whoever reads it: what does not fit is lost, and
//! counted.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use aquila_emu::{Delivered, Direction, DropEvent, DropReason, Dropped, Ecn, PathStats, Tally};

use super::packet::IpPacket;
use super::world::LinkId;

/// Length of an [`Interval`].
pub const INTERVAL: Duration = Duration::from_millis(100);
/// Records that wait for their reader. A batch of packets is at most 64 kB and what one packet adds to it.
const CHANNEL: usize = 1024;
const BATCH_ENTRIES: usize = 512;
const BATCH_BYTES: usize = 64 * 1024;

/// Something to keep.
#[derive(Debug)]
pub enum Record {
    /// A row.
    Interval(Interval),
    /// Packets, in the order in which their fate was decided.
    Packets(PacketBatch),
}

/// What happened in one direction of a link in 100 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// The link, as [`WorldBuilder::link`](super::WorldBuilder::link) numbered it.
    pub link: LinkId,
    /// Up is from the link's node `a`.
    pub direction: Direction,
    /// Its begin.
    pub begin: Instant,
    /// Its end.
    pub end: Instant,
    /// Packets that the sender's side gave to the link.
    pub offered: Tally,
    /// Packets that were given to the receiver's side.
    pub delivered: Tally,
    /// Packets dropped, by reason.
    pub dropped: Dropped,
    /// Packets marked as having met congestion.
    pub marked: Tally,
    /// Of the delivered packets those that the receiver's kernel did not take: bit errors made them no IP packets, or
    /// its interface is down.
    pub refused: u64,
    /// Bytes that wait at the end of the interval.
    pub queue_bytes: usize,
    /// Packets that wait then.
    pub queue_packets: usize,
    /// How long a packet that came then would wait; see [`Path::queue_delay`](aquila_emu::Path::queue_delay).
    pub queue_delay: Duration,
}

/// Packets and their bytes.
#[derive(Debug, Default)]
pub struct PacketBatch {
    /// The packets.
    pub entries: Vec<PacketEntry>,
    /// Packets that are missing before the first of these, since the reader was too slow.
    pub lost: u64,
    bytes: Vec<u8>,
}

/// A packet whose fate is decided. One that is still inside at the end has no entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketEntry {
    /// The link, as [`WorldBuilder::link`](super::WorldBuilder::link) numbered it.
    pub link: LinkId,
    /// Up is from the link's node `a`.
    pub direction: Direction,
    /// How many went this way before it.
    pub number: u64,
    /// When the link got it.
    pub sent: Instant,
    /// When it was delivered or dropped.
    pub at: Instant,
    /// Its length, IP header included.
    pub wire_bytes: usize,
    /// Its ECN field at the end.
    pub ecn: Ecn,
    /// What became of it.
    pub fate: Fate,
    data: Range<usize>,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It arrived.
    Delivered {
        /// When it should have.
        due: Instant,
        /// Bits flipped on the way.
        flipped_bits: u32,
    },
    /// It came out, and the receiver's kernel did not take it.
    Refused {
        /// The error of the write: EINVAL after bit errors in the IP version, EIO when the interface is down.
        errno: i32,
    },
    /// It did not come out.
    Dropped(DropReason),
}

impl PacketBatch {
    /// The first bytes of a packet of this batch, as many as were asked for, from the IP header on. Of one that arrived
    /// they are as they arrived: marked and damaged.
    pub fn data(&self, entry: &PacketEntry) -> &[u8] {
        self.bytes.get(entry.data.clone()).unwrap_or_default()
    }
}

/// The emulator's end.
#[derive(Debug)]
pub(super) struct Recorder {
    sender: SyncSender<Record>,
    /// Bytes of each packet to keep; `None`: no packets.
    snap: Option<usize>,
    batch: PacketBatch,
    lost_packets: u64,
    lost: u64,
}

impl Recorder {
    pub(super) fn new(snap: Option<usize>) -> (Self, Receiver<Record>) {
        let (sender, receiver) = sync_channel(CHANNEL);
        (Self { sender, snap, batch: PacketBatch::default(), lost_packets: 0, lost: 0 }, receiver)
    }

    pub(super) fn interval(&mut self, interval: Interval) {
        self.lost += u64::from(self.sender.try_send(Record::Interval(interval)).is_err());
    }

    pub(super) fn delivered(
        &mut self,
        (link, direction): (LinkId, Direction),
        at: Instant,
        packet: &Delivered<IpPacket>,
        refused: Option<i32>,
    ) {
        let fate = match refused {
            Some(errno) => Fate::Refused { errno },
            None => Fate::Delivered { due: packet.due, flipped_bits: packet.flipped_bits },
        };
        let entry = PacketEntry {
            link,
            direction,
            number: packet.number,
            sent: packet.pushed,
            at,
            wire_bytes: packet.packet.bytes,
            ecn: packet.packet.ecn,
            fate,
            data: 0..0,
        };
        self.packet(entry, packet.packet.payload.bytes());
    }

    pub(super) fn dropped(&mut self, (link, direction): (LinkId, Direction), event: &DropEvent<IpPacket>) {
        let entry = PacketEntry {
            link,
            direction,
            number: event.number,
            sent: event.pushed,
            at: event.at,
            wire_bytes: event.bytes,
            ecn: event.ecn,
            fate: Fate::Dropped(event.reason),
            data: 0..0,
        };
        self.packet(entry, event.payload.bytes());
    }

    fn packet(&mut self, mut entry: PacketEntry, bytes: &[u8]) {
        let Some(snap) = self.snap else { return };
        let begin = self.batch.bytes.len();
        self.batch.bytes.extend_from_slice(&bytes[..bytes.len().min(snap)]);
        entry.data = begin..self.batch.bytes.len();
        self.batch.entries.push(entry);
        if self.batch.entries.len() >= BATCH_ENTRIES || self.batch.bytes.len() >= BATCH_BYTES {
            self.flush();
        }
    }

    /// Gives out the packets so far.
    pub(super) fn flush(&mut self) {
        if self.batch.entries.is_empty() {
            return;
        }
        let batch = PacketBatch { lost: self.lost_packets, ..std::mem::take(&mut self.batch) };
        let count = batch.entries.len() as u64;
        if self.sender.try_send(Record::Packets(batch)).is_ok() {
            self.lost_packets = 0;
        } else {
            self.lost_packets += count;
            self.lost += count;
        }
        self.batch.entries.reserve(BATCH_ENTRIES);
    }

    /// Rows and packets that did not fit.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}

/// What was added from one reading of a path's counters to the next.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Added {
    pub(super) offered: Tally,
    pub(super) delivered: Tally,
    pub(super) dropped: Dropped,
    pub(super) marked: Tally,
}

impl Added {
    pub(super) fn between(before: &PathStats, after: &PathStats) -> Self {
        let (was, is) = (&before.dropped, &after.dropped);
        Self {
            offered: minus(after.input, before.input),
            delivered: minus(after.output, before.output),
            dropped: Dropped {
                loss: minus(is.loss, was.loss),
                air_loss: minus(is.air_loss, was.air_loss),
                thinned: minus(is.thinned, was.thinned),
                queue_full: minus(is.queue_full, was.queue_full),
                aqm: minus(is.aqm, was.aqm),
                outage: minus(is.outage, was.outage),
            },
            marked: minus(after.marked, before.marked),
        }
    }
}

fn minus(after: Tally, before: Tally) -> Tally {
    Tally { packets: after.packets - before.packets, bytes: after.bytes - before.bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(now: Instant, number: u64) -> DropEvent<IpPacket> {
        let bytes = [0x45, 0, number as u8, 3, 4];
        let payload = IpPacket::new(bytes.into(), bytes.len());
        let (reason, ecn) = (DropReason::Loss, Ecn::NotEct);
        DropEvent { at: now, reason, number, pushed: now, bytes: bytes.len(), ecn, payload }
    }

    #[test]
    fn packets_keep_their_first_bytes() {
        let (mut recorder, records) = Recorder::new(Some(3));
        let now = Instant::now();
        for number in 0..2 {
            recorder.dropped((LinkId::new(0), Direction::Up), &event(now, number));
        }
        assert!(records.try_recv().is_err(), "nothing before a batch is full");
        recorder.flush();
        let Record::Packets(batch) = records.try_recv().unwrap() else { panic!("a row") };
        assert_eq!(batch.data(&batch.entries[0]), [0x45, 0, 0]);
        assert_eq!(batch.data(&batch.entries[1]), [0x45, 0, 1]);
        assert_eq!((batch.entries[1].wire_bytes, batch.lost), (5, 0));
    }

    #[test]
    fn a_slow_reader_loses_packets_and_is_told() {
        let (mut recorder, records) = Recorder::new(Some(0));
        let now = Instant::now();
        let fits = (CHANNEL * BATCH_ENTRIES) as u64;
        for number in 0..fits + 2 * BATCH_ENTRIES as u64 {
            recorder.dropped((LinkId::new(0), Direction::Up), &event(now, number));
        }
        assert_eq!(recorder.lost(), 2 * BATCH_ENTRIES as u64);
        assert!(records.try_recv().is_ok());
        recorder.dropped((LinkId::new(0), Direction::Up), &event(now, 0));
        recorder.flush();
        let Some(Record::Packets(last)) = records.try_iter().last() else { panic!("a row") };
        assert_eq!(last.lost, 2 * BATCH_ENTRIES as u64);
    }
}
