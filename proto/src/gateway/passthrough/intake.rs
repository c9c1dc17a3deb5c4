//! What an application's kernel sends: put in order, passed on once, and not acknowledged before the far kernel has
//! acknowledged it.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

/// Bytes that wait here for the radio, at most: beyond them the kernel's window closes, so that they stay in its socket.
pub(super) const AHEAD: u64 = 16 << 10;
/// Segments kept that came before others.
const MAX_EARLY: usize = 64;

/// What a segment asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Response {
    /// Nothing; its bytes are under way, or will be.
    None,
    /// To be told what is acknowledged and how large the window is.
    Ack,
    /// Whether the other end is alive: a keep-alive, or a probe of a closed window.
    Probe,
}

/// One direction of a connection. Offsets count the bytes of the stream from 0.
#[derive(Debug)]
pub(super) struct Intake {
    /// Sequence number of offset 0.
    first: u32,
    /// All before it has come.
    received: u64,
    /// The stream ends there.
    fin: Option<u64>,
    early: BTreeMap<u64, Bytes>,
    /// What has come and was not passed on: the last bytes before `received`.
    queue: VecDeque<u8>,
    fin_passed: bool,
    /// The far kernel has acknowledged all before it, and the end.
    acked: u64,
    fin_acked: bool,
    /// The far kernel's window ends there, and how large it was at most.
    limit: u64,
    largest: u64,
    /// Window that the kernel knows of; it never shrinks (RFC 9293 §3.8.6).
    edge: u64,
}

impl Intake {
    /// The kernel began with SYN at this number; the far one takes `room` bytes at first.
    pub fn new(syn: u32, room: u64) -> Self {
        Self {
            first: syn.wrapping_add(1),
            received: 0,
            fin: None,
            early: BTreeMap::new(),
            queue: VecDeque::new(),
            fin_passed: false,
            acked: 0,
            fin_acked: false,
            limit: room,
            largest: room,
            edge: 0,
        }
    }

    /// How many bytes the far kernel takes beyond what it has acknowledged.
    pub fn room(&self) -> u64 {
        self.limit - self.acked
    }

    /// All before it has come from the kernel.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Of that, what is acknowledged.
    pub fn acked(&self) -> u64 {
        self.acked
    }

    /// The kernel's FIN has come, behind all its bytes.
    pub fn has_ended(&self) -> bool {
        self.fin == Some(self.received)
    }

    /// And the far kernel has acknowledged that too.
    pub fn is_done(&self) -> bool {
        self.fin_acked
    }

    /// The acknowledgement for the kernel.
    pub fn ack(&self) -> u32 {
        self.seq(self.acked + u64::from(self.fin_acked))
    }

    /// Whether a reset with this number is meant (RFC 5961 §3.2): at what we last acknowledged, which is all that the kernel
    /// knows of us, or at what we have.
    pub fn is_exact(&self, seq: u32) -> bool {
        seq == self.ack() || seq == self.seq(self.received) || (self.has_ended() && seq == self.seq(self.received + 1))
    }

    /// Whether a number is in the window.
    pub fn is_in_window(&self, seq: u32) -> bool {
        self.offset(seq).is_some_and(|at| at >= self.acked && at <= self.edge.max(self.received) + 1)
    }

    fn seq(&self, offset: u64) -> u32 {
        self.first.wrapping_add(offset as u32)
    }

    /// The offset of a number, near what has come; `None`: before the stream.
    fn offset(&self, seq: u32) -> Option<u64> {
        let ahead = seq.wrapping_sub(self.seq(self.received)) as i32;
        self.received.checked_add_signed(i64::from(ahead))
    }

    /// Takes a segment of the kernel's.
    pub fn on_segment(&mut self, seq: u32, payload: &[u8], fin: bool) -> Response {
        // A keep-alive of a connection without a byte is at the number of the SYN.
        let Some(at) = self.offset(seq) else { return Response::Probe };
        let end = at + payload.len() as u64;
        if payload.is_empty() && !fin {
            return match at {
                _ if at < self.acked + u64::from(self.fin_acked) => Response::Probe,
                _ if at > self.edge.max(self.received) + 1 => Response::Ack,
                _ => Response::None,
            };
        }
        if end + u64::from(fin) <= self.acked + u64::from(self.fin_acked) {
            // Our acknowledgement was lost.
            return Response::Ack;
        }
        // What is beyond the window is not taken (RFC 9293 §3.10.7.4), with one exception, a FIN without bytes.
        let end_taken = end.min(self.edge.max(self.received));
        if fin && end == end_taken && self.fin.is_none() && end >= self.received {
            self.fin = Some(end);
        }
        let end_taken = end_taken.min(self.fin.unwrap_or(u64::MAX));
        let taken = end_taken.saturating_sub(at) as usize;
        let payload = &payload[..taken.min(payload.len())];
        if at <= self.received {
            self.append(&payload[((self.received - at) as usize).min(payload.len())..]);
            self.join();
        } else if self.early.len() < MAX_EARLY && !payload.is_empty() {
            let known = self.early.get(&at).map_or(0, Bytes::len);
            if known < payload.len() {
                self.early.insert(at, Bytes::copy_from_slice(payload));
            }
        }
        let beyond = end_taken < end;
        // The kernel can repeat nothing but what is first: it hears of a gap once that is what it misses.
        let gap = at > self.received && self.acked == self.received;
        if beyond || gap { Response::Ack } else { Response::None }
    }

    fn append(&mut self, bytes: &[u8]) {
        self.queue.extend(bytes);
        self.received += bytes.len() as u64;
    }

    fn join(&mut self) {
        while let Some(entry) = self.early.first_entry()
            && *entry.key() <= self.received
        {
            let at = *entry.key();
            let bytes = entry.remove();
            let known = ((self.received - at) as usize).min(bytes.len());
            self.append(&bytes[known..]);
        }
    }

    /// The next bytes for the far side, and where they begin.
    pub fn take(&mut self, max: usize) -> (u64, Vec<u8>) {
        let at = self.received - self.queue.len() as u64;
        (at, self.queue.drain(..max.min(self.queue.len())).collect())
    }

    /// Whether all bytes have been passed on, and now the end is to be.
    pub fn take_fin(&mut self) -> bool {
        let now = self.queue.is_empty() && self.has_ended() && !self.fin_passed;
        self.fin_passed |= now;
        now
    }

    /// The far side says what its kernel has acknowledged, and how many bytes beyond it that takes. Whether that can be; the
    /// kernel is to hear of what is new.
    pub fn on_taken(&mut self, taken: u64, fin: bool, room: u64) -> Result<bool, ()> {
        let passed = self.received - self.queue.len() as u64;
        if taken > passed || (fin && !(self.fin_passed && taken == passed)) {
            return Err(());
        }
        let news = taken > self.acked || (fin && !self.fin_acked);
        self.acked = self.acked.max(taken);
        self.fin_acked |= fin;
        self.limit = self.limit.max(taken.saturating_add(room));
        self.largest = self.largest.max(room);
        Ok(news)
    }

    /// How far the window may go, with `ahead` bytes that have been passed on and not left.
    fn wanted_edge(&self, ahead: usize) -> u64 {
        let waiting = (self.queue.len() + ahead) as u64;
        let ours = self.received + AHEAD.saturating_sub(waiting);
        self.edge.max(ours.min(self.limit))
    }

    /// The window for a segment that leaves now, shifted by `scale`.
    pub fn window(&mut self, ahead: usize, scale: u8) -> u16 {
        let base = self.acked + u64::from(self.fin_acked);
        let units = (self.wanted_edge(ahead).saturating_sub(base) >> scale).min(u64::from(u16::MAX));
        self.edge = self.edge.max(base + (units << scale));
        units as u16
    }

    /// Whether the kernel should be told of a larger window: of two segments more, or of one where there is none, or of half of a
    /// small window (RFC 9293 §3.8.6.2.2).
    pub fn has_room_to_tell(&self, ahead: usize, mss: usize) -> bool {
        let more = self.wanted_edge(ahead).saturating_sub(self.edge);
        let left = self.edge.saturating_sub(self.received);
        let mss = (mss as u64).min(AHEAD / 4).min(self.largest / 2).max(1);
        !self.has_ended() && (more >= 2 * mss || (left < mss && more >= mss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(syn: u32) -> Intake {
        let mut intake = Intake::new(syn, 5000);
        assert_eq!(intake.window(0, 0), 5000);
        intake
    }

    #[test]
    fn nothing_is_acknowledged_before_the_far_kernel_has_it() {
        let mut intake = open(u32::MAX - 3);
        assert_eq!(intake.on_segment(u32::MAX - 2, b"abcdef", false), Response::None);
        assert_eq!((intake.ack(), intake.received()), (u32::MAX - 2, 6));
        assert_eq!(intake.take(4), (0, b"abcd".to_vec()));
        assert_eq!(intake.on_taken(5, false, 5000), Err(()), "what has not been passed on cannot be there");
        assert_eq!(intake.on_taken(4, false, 5000), Ok(true));
        assert_eq!(intake.ack(), 1);
        assert_eq!(intake.on_taken(4, false, 5000), Ok(false));
    }

    #[test]
    fn what_is_repeated_is_passed_on_once() {
        let mut intake = open(0);
        intake.on_segment(1, b"abc", false);
        assert_eq!(intake.on_segment(1, b"abcdef", false), Response::None);
        assert_eq!(intake.on_segment(1, b"abc", false), Response::None);
        assert_eq!(intake.take(100), (0, b"abcdef".to_vec()));
        assert_eq!(intake.on_segment(3, b"cd", false), Response::None);
        assert_eq!(intake.take(100), (6, Vec::new()));
        intake.on_taken(6, false, 100).unwrap();
        // Now it is our acknowledgement that was lost.
        assert_eq!(intake.on_segment(1, b"abc", false), Response::Ack);
        assert_eq!(intake.on_segment(6, b"", false), Response::Probe);
        assert_eq!(intake.on_segment(7, b"", false), Response::None);
    }

    #[test]
    fn order_is_restored_and_the_end_waits_for_it() {
        let mut intake = open(0);
        assert_eq!(intake.on_segment(4, b"def", true), Response::Ack);
        assert!(!intake.has_ended() && !intake.take_fin());
        assert_eq!(intake.on_segment(1, b"abcd", false), Response::None);
        assert_eq!(intake.take(100), (0, b"abcdef".to_vec()));
        assert!(intake.has_ended() && intake.take_fin() && !intake.take_fin());
        assert_eq!(intake.on_segment(7, b"more", false), Response::Ack, "nothing follows a FIN");
        assert_eq!(intake.received(), 6);
        assert_eq!(intake.on_taken(6, true, 0), Ok(true));
        assert_eq!(intake.ack(), 8);
        assert!(intake.is_done());
        assert_eq!(intake.on_segment(7, b"", true), Response::Ack);
    }

    #[test]
    fn the_window_is_the_far_kernels_and_never_shrinks() {
        let mut intake = open(0);
        intake.on_segment(1, &[7; 6000], false);
        assert_eq!(intake.received(), 5000, "what is beyond the window is not taken");
        assert_eq!(intake.window(0, 0), 5000);
        let _ = intake.take(5000);
        intake.on_taken(5000, false, 0).unwrap();
        assert_eq!(intake.window(0, 0), 0);
        assert!(!intake.has_room_to_tell(0, 1000));
        // It takes 300 more: too few to be worth a word, then enough.
        intake.on_taken(5000, false, 300).unwrap();
        assert!(!intake.has_room_to_tell(0, 1000));
        intake.on_taken(5000, false, 70_000).unwrap();
        assert!(intake.has_room_to_tell(0, 1000));
        // No more than may wait for the radio, shifted down.
        assert_eq!(intake.window(0, 3), 16 << 10 >> 3);
        intake.on_taken(5000, false, 0).unwrap();
        assert_eq!(intake.window(16 << 10, 3), 16 << 10 >> 3);
        assert_eq!(intake.window(0, 0), 16 << 10);
    }

    #[test]
    fn resets_are_meant_only_where_the_stream_stands() {
        let mut intake = open(0);
        intake.on_segment(1, b"abc", false);
        assert!(intake.is_exact(1) && intake.is_exact(4));
        for seq in [0, 2, 3, 5, 5000] {
            assert!(!intake.is_exact(seq), "{seq}");
        }
        assert!(intake.is_in_window(2) && intake.is_in_window(5000) && !intake.is_in_window(5003));
        assert!(!intake.is_in_window(0));
    }
}
