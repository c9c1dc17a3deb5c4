//! Bulk: a stream of bytes over whatever bearers have room for it.
//!
//! It travels in pieces, each in a datagram with its offset. The sender keeps a piece until our feedback says that it has arrived;
//! what is lost goes through the gate again, on any bearer. The receiver puts the pieces in order and says how far it will take
//! more, so that whoever does not read makes the other side wait. A stream outlives connections; it ends with the process at
//! either end.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};

use crate::BearerId;
use crate::feedback::DatagramId;
use crate::wire::datagram::{BulkPiece, BulkWindow};

/// Bytes that wait to be sent for the first time; more are refused, so that the writer waits.
const MAX_WAITING: usize = 64 << 10;
/// Bytes sent and not known to have arrived: 20 Mbit/s over half a second.
const MAX_KEPT: usize = 1 << 20;
/// Bytes that a receiver takes beyond what was read from it.
const WINDOW: u64 = 1 << 20;
/// Pieces ahead of a gap: of full packets, a window holds a quarter of that.
const MAX_AHEAD: usize = 4096;
/// The sender is told that there is more room when there is so much more.
const TELL: u64 = WINDOW / 8;

/// A piece to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Where it belongs.
    pub header: BulkPiece,
    /// Its bytes.
    pub bytes: Bytes,
}

#[derive(Debug)]
struct Kept {
    bytes: Bytes,
    /// Its last sending; `None` if that is known to be lost.
    sent: Option<DatagramId>,
}

/// The sending end.
#[derive(Debug)]
pub struct BulkSender {
    stream: u64,
    waiting: BytesMut,
    kept: BTreeMap<u64, Kept>,
    kept_bytes: usize,
    /// How many of them are due.
    due: usize,
    next: u64,
    /// The receiver takes bytes up to here.
    limit: u64,
}

impl BulkSender {
    /// A stream that has not begun. `stream`: larger than any before that the other side may know, not 0.
    pub fn new(stream: u64) -> Self {
        Self { stream, waiting: BytesMut::new(), kept: BTreeMap::new(), kept_bytes: 0, due: 0, next: 0, limit: WINDOW }
    }

    /// Takes bytes to send; returns how many.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(MAX_WAITING - self.waiting.len());
        self.waiting.extend_from_slice(&bytes[..taken]);
        taken
    }

    /// The other process has gone, and with it whatever it had: a new stream begins. Whether anything of the old one had been
    /// written.
    pub fn restart(&mut self) -> bool {
        let begun = self.next > 0 || !self.waiting.is_empty();
        if begun {
            *self = Self::new(self.stream + 1);
        }
        begun
    }

    /// Whether there is a piece to send.
    pub fn has_piece(&self) -> bool {
        self.due > 0 || (!self.waiting.is_empty() && self.kept_bytes < MAX_KEPT && self.next < self.limit)
    }

    /// The next piece to send, of at most `room` bytes with its header: one that was lost, or the next.
    pub fn next_piece(&mut self, room: usize) -> Option<Piece> {
        if let Some((offset, kept)) = self.kept.iter().find(|(_, kept)| kept.sent.is_none()).filter(|_| self.due > 0) {
            let piece = self.piece(*offset, kept.bytes.clone());
            return Some(piece).filter(|piece| piece.header.encoded_len() + piece.bytes.len() <= room);
        }
        if !self.has_piece() {
            return None;
        }
        let header = BulkPiece { stream: self.stream, offset: self.next };
        let max = room.checked_sub(header.encoded_len()).filter(|max| *max > 0)?;
        let window = usize::try_from(self.limit - self.next).unwrap_or(usize::MAX);
        let bytes = self.waiting.split_to(self.waiting.len().min(max).min(window)).freeze();
        self.kept_bytes += bytes.len();
        let offset = self.next;
        self.next += bytes.len() as u64;
        self.kept.insert(offset, Kept { bytes: bytes.clone(), sent: None });
        self.due += 1;
        Some(self.piece(offset, bytes))
    }

    fn piece(&self, offset: u64, bytes: Bytes) -> Piece {
        Piece { header: BulkPiece { stream: self.stream, offset }, bytes }
    }

    /// Notes that a piece has left.
    pub fn on_sent(&mut self, offset: u64, datagram: DatagramId) {
        if let Some(kept) = self.kept.get_mut(&offset)
            && kept.sent.replace(datagram).is_none()
        {
            self.due -= 1;
        }
    }

    /// What became of a datagram that carried a piece.
    pub fn on_fate(&mut self, offset: u64, datagram: DatagramId, received: bool) {
        let Some(kept) = self.kept.get_mut(&offset) else { return };
        if received {
            self.due -= usize::from(kept.sent.is_none());
            self.kept_bytes -= kept.bytes.len();
            self.kept.remove(&offset);
        } else if kept.sent == Some(datagram) {
            kept.sent = None;
            self.due += 1;
        }
    }

    /// A bearer has fallen silent, or is gone: what left on it and is not known to have arrived is due.
    pub fn on_bearer_gone(&mut self, bearer: BearerId) {
        for kept in self.kept.values_mut() {
            if kept.sent.take_if(|sent| sent.bearer == bearer).is_some() {
                self.due += 1;
            }
        }
    }

    /// The receiver has said how far it takes bytes.
    pub fn on_window(&mut self, window: BulkWindow) {
        if window.stream == self.stream {
            self.limit = self.limit.max(window.limit);
        }
    }

    /// Bytes that have not left yet, and those that are under way.
    pub fn bytes(&self) -> (usize, usize) {
        (self.waiting.len(), self.kept_bytes)
    }
}

/// The receiving end.
#[derive(Debug, Default)]
pub struct BulkReceiver {
    stream: u64,
    /// In order, to be read.
    ready: VecDeque<Bytes>,
    /// Ahead of a gap.
    ahead: BTreeMap<u64, Bytes>,
    /// End of what is in order.
    next: u64,
    /// Bytes that were read.
    read: u64,
    /// The limit that was told last.
    told: u64,
}

impl BulkReceiver {
    /// Takes in a piece; whether there is something new to read. Pieces beyond the window, of an older stream or already there
    /// are dropped.
    pub fn on_piece(&mut self, header: BulkPiece, bytes: &[u8]) -> bool {
        let BulkPiece { stream, offset } = header;
        if stream > self.stream {
            *self = Self { stream, ..Self::default() };
        }
        let Some(end) = offset.checked_add(bytes.len() as u64) else { return false };
        if stream < self.stream || offset < self.next || end > self.limit() || bytes.is_empty() {
            return false;
        }
        // The sender cuts once: pieces never overlap, unless it is broken. Then what was there first stays.
        let before = self.ahead.range(..end).next_back();
        if before.is_some_and(|(start, there)| start + there.len() as u64 > offset) {
            return false;
        }
        if self.ahead.len() >= MAX_AHEAD && offset != self.next {
            return false;
        }
        self.ahead.insert(offset, Bytes::copy_from_slice(bytes));
        let grown = self.next;
        while let Some(bytes) = self.ahead.remove(&self.next) {
            self.next += bytes.len() as u64;
            self.ready.push_back(bytes);
        }
        self.next > grown
    }

    /// Gives out at most `max` bytes; `None` if none are there.
    pub fn read(&mut self, max: usize) -> Option<Bytes> {
        let front = self.ready.front_mut()?;
        let bytes = front.split_to(front.len().min(max));
        if front.is_empty() {
            self.ready.pop_front();
        }
        self.read += bytes.len() as u64;
        Some(bytes)
    }

    /// What the sender is to be told.
    pub fn window(&mut self) -> BulkWindow {
        self.told = self.limit();
        BulkWindow { stream: self.stream, limit: self.told }
    }

    /// Whether the sender should hear soon.
    pub fn has_news(&self) -> bool {
        self.limit() >= self.told + TELL && self.stream > 0
    }

    fn limit(&self) -> u64 {
        self.read.saturating_add(WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(bearer: u8, number: u64) -> DatagramId {
        DatagramId { bearer: BearerId::new(bearer).unwrap(), number }
    }

    #[test]
    fn what_is_not_read_makes_the_sender_wait() {
        let (mut sender, mut receiver) = (BulkSender::new(7), BulkReceiver::default());
        let mut sent = 0u64;
        let mut fill = |sender: &mut BulkSender, receiver: &mut BulkReceiver| {
            loop {
                while sender.write(&[9; 5_000]) > 0 {}
                let Some(piece) = sender.next_piece(1_000) else { break };
                receiver.on_piece(piece.header, &piece.bytes);
                sender.on_sent(piece.header.offset, id(0, sent));
                sender.on_fate(piece.header.offset, id(0, sent), true);
                sent += 1;
            }
        };
        fill(&mut sender, &mut receiver);
        assert_eq!((receiver.next, sender.bytes()), (WINDOW, (MAX_WAITING, 0)));
        // One byte more is not taken, whoever sends it.
        assert!(!receiver.on_piece(BulkPiece { stream: 7, offset: WINDOW }, &[1]));
        assert!(receiver.has_news(), "nothing was told yet");
        sender.on_window(receiver.window());
        assert!(!sender.has_piece() && !receiver.has_news());
        while receiver.read + 1 < TELL {
            receiver.read((TELL - 1 - receiver.read) as usize).unwrap();
        }
        assert!(!receiver.has_news(), "not for a little");
        receiver.read(1).unwrap();
        assert!(receiver.has_news());
        sender.on_window(receiver.window());
        fill(&mut sender, &mut receiver);
        assert_eq!(receiver.next, WINDOW + TELL);
        sender.on_window(BulkWindow { stream: 6, limit: u64::MAX });
        assert!(!sender.has_piece(), "that was said of another stream");
    }

    #[test]
    fn what_left_on_a_bearer_that_is_gone_leaves_again_on_another() {
        let mut sender = BulkSender::new(1);
        sender.write(&[1; 2_500]);
        let mut offsets = Vec::new();
        for (n, bearer) in [0, 1, 0].into_iter().enumerate() {
            let piece = sender.next_piece(1_000).unwrap();
            sender.on_sent(piece.header.offset, id(bearer, n as u64));
            offsets.push(piece.header.offset);
        }
        assert_eq!(offsets, [0, 998, 998 + 997], "a piece and its header fill a packet");
        assert!(!sender.has_piece());
        sender.on_bearer_gone(BearerId::FIRST);
        assert_eq!(sender.next_piece(1_000).unwrap().header.offset, 0);
        sender.on_sent(0, id(1, 9));
        // It had arrived after all, which is heard of late; the copy is then no news.
        sender.on_fate(offsets[2], id(0, 2), true);
        sender.on_fate(offsets[1], id(1, 1), true);
        sender.on_fate(0, id(0, 0), false);
        assert!(!sender.has_piece(), "its last sending is still under way");
        sender.on_fate(0, id(1, 9), false);
        assert!(sender.has_piece() && sender.next_piece(999).is_none(), "it is not cut anew");
        sender.on_fate(0, id(1, 9), true);
        assert_eq!((sender.bytes(), sender.has_piece()), ((0, 0), false));
    }

    #[test]
    fn a_new_life_of_the_other_side_begins_a_new_stream() {
        let (mut sender, mut receiver) = (BulkSender::new(1), BulkReceiver::default());
        assert!(!sender.restart(), "nothing had been written");
        sender.write(b"former");
        let former = sender.next_piece(100).unwrap();
        assert!(receiver.on_piece(former.header, &former.bytes));
        assert!(sender.restart());
        sender.write(b"new");
        let new = sender.next_piece(100).unwrap();
        assert!(receiver.on_piece(new.header, &new.bytes));
        assert!(!receiver.on_piece(former.header, &former.bytes), "it belongs to the stream before");
        assert_eq!(receiver.read(100).unwrap(), b"new"[..]);
    }

    proptest! {
        #[test]
        fn bytes_arrive_once_and_in_order_whatever_is_lost_repeated_and_overtaken(
            steps in prop::collection::vec((any::<u8>(), 1..1_200usize), 1..600),
        ) {
            let (mut sender, mut receiver) = (BulkSender::new(1), BulkReceiver::default());
            let source: Vec<u8> = (0..60_000u32).map(|n| (n * 7 + n / 251) as u8).collect();
            let (mut written, mut read, mut number) = (0, Vec::new(), 0);
            let mut under_way: Vec<(Piece, DatagramId)> = Vec::new();
            for (what, size) in steps {
                written += sender.write(&source[written..(written + size).min(source.len())]);
                match what % 8 {
                    0..=3 => if let Some(piece) = sender.next_piece(1_200) {
                        number += 1;
                        let datagram = id(what / 128, number);
                        sender.on_sent(piece.header.offset, datagram);
                        under_way.push((piece, datagram));
                    },
                    4 | 5 if !under_way.is_empty() => {
                        let (piece, datagram) = under_way.swap_remove(size % under_way.len());
                        receiver.on_piece(piece.header, &piece.bytes);
                        sender.on_fate(piece.header.offset, datagram, true);
                        under_way.extend((what & 64 != 0).then_some((piece, datagram)));
                    }
                    6 if !under_way.is_empty() => {
                        let (piece, datagram) = under_way.swap_remove(size % under_way.len());
                        sender.on_fate(piece.header.offset, datagram, false);
                    }
                    7 => sender.on_bearer_gone(BearerId::new(what / 128).unwrap()),
                    _ => {}
                }
                read.extend(receiver.read(size).into_iter().flatten());
                sender.on_window(receiver.window());
                prop_assert!(sender.bytes().1 <= MAX_KEPT + 1_200);
                prop_assert_eq!(sender.due, sender.kept.values().filter(|kept| kept.sent.is_none()).count());
            }
            // In the end all of it arrives.
            while let Some(piece) = sender.next_piece(1_200) {
                receiver.on_piece(piece.header, &piece.bytes);
                sender.on_sent(piece.header.offset, id(0, 0));
                sender.on_fate(piece.header.offset, id(0, 0), true);
            }
            for (piece, _) in under_way {
                receiver.on_piece(piece.header, &piece.bytes);
            }
            while let Some(bytes) = receiver.read(usize::MAX) {
                read.extend(bytes);
            }
            prop_assert!(read == source[..written]);
        }
    }
}
