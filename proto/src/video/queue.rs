//! The sender's queue of one video flow: packets in, frames queued and dropped whole, fragments out.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::BufMut;

use super::classify::Codec;
use super::fragment::{FragmentFlags, FragmentHeader, MAX_FRAGMENTS, MAX_FRAME_BYTES, MIN_PAYLOAD};
use super::frame::{framed_len, put_packet};
use super::nal::PacketKind;
use super::reassembly::DEFAULT_MAX_FRAME_AGE;
use super::rtp::{Datagram, RtpPacket};
use super::streams::Streams;
use crate::units::ByteCount;

/// Limits of a [`SendQueue`]. All are hard: what goes beyond is dropped in whole frames and counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendQueueConfig {
    /// What the flow carries.
    pub codec: Codec,
    /// Most frames, the one that is still coming in included.
    pub max_frames: usize,
    /// Most bytes that have not left yet.
    pub max_bytes: ByteCount,
    /// A frame of which nothing has left is dropped when its first packet came in this long ago.
    pub max_age: Duration,
    /// One that has begun to leave may become older before the rest of it is dropped, or a camera that makes more than the link carries
    /// would have every frame dropped half-way; but no older than the other side gives out, as far as is known here
    /// ([`ReassemblerConfig::max_frame_age`](super::ReassemblerConfig::max_frame_age)), if that is more than `max_age`.
    pub max_age_begun: Duration,
    /// Silence within a frame after which what there is of it leaves, in a fragment that is not full.
    pub flush_after: Duration,
    /// Silence after which a frame without marker counts as ended.
    pub close_after: Duration,
    /// Longest time that a frame takes packets; later ones with the same timestamp become a frame of their own.
    pub max_open: Duration,
}

/// See [`SendQueue::begin_grace`].
const GRACE: Duration = Duration::from_secs(1);

/// The queue of one video flow.
///
/// Packets of one RTP timestamp and SSRC, with consecutive sequence numbers, are a frame; the marker ends it. RTCP, and sound beside
/// the picture, ride in the frame that is open. A datagram that is not RTP is a frame of its own. A frame's first fragments may leave while
/// its last packets are still coming in, so that a frame does not wait for itself.
///
/// Frames are numbered when their first fragment leaves: what is dropped before that leaves no gap for the receiver to
/// wait for.
#[derive(Debug)]
pub struct SendQueue {
    config: SendQueueConfig,
    streams: Streams,
    frames: VecDeque<Frame>,
    /// The frame that packets are added to: the last of `frames`, unless it was refused.
    open: Option<Open>,
    unsent: usize,
    next_number: u32,
    /// A frame that was dropped after some of it had left; the receiver is told before anything else leaves.
    abandoned: Option<FragmentHeader>,
    recovery_needed: bool,
    /// When a dropped frame last made it so.
    asked: Option<Instant>,
    grace_until: Option<Instant>,
    tells_waits: bool,
    /// How long the picture of the next frame has waited before it was encoded.
    waited_raw: Duration,
    /// Running number of the next fragment, if they are to have one.
    numbers: Option<u16>,
    spare: Vec<Vec<u8>>,
    counters: QueueCounters,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushOutcome {
    /// Queued; it may still be dropped with its frame.
    Queued,
    /// Dropped, and with it the whole of its frame.
    Dropped(DropReason),
    /// Empty, and so nothing to carry.
    Ignored,
}

/// Why a frame was dropped at the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DropReason {
    /// No room in frames or bytes when it came in ([AQUILA algorithm 1], line 7).
    Full = 0,
    /// More than [`MAX_FRAME_BYTES`], or more than [`MAX_FRAGMENTS`] fragments.
    TooLarge = 1,
    /// Waited for longer than [`SendQueueConfig::max_age`].
    TooOld = 2,
    /// [`SendQueue::clear`] was called.
    Cleared = 3,
    /// It refers to one that was dropped, and waited behind it.
    Undecodable = 4,
}

/// What left as one fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FragmentInfo {
    /// The header that was written.
    pub header: FragmentHeader,
    /// Bytes written, header included; at most the `max_payload` asked for.
    pub size: ByteCount,
    /// When the first packet of its frame came in; for an abandoned frame, the time of the call.
    pub arrived: Instant,
}

/// Totals since the queue was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueCounters {
    /// Packets pushed, those dropped and ignored included.
    pub packets_in: u64,
    /// Their bytes.
    pub bytes_in: ByteCount,
    /// Empty datagrams.
    pub packets_ignored: u64,
    /// Packets that a gap in the RTP sequence numbers shows to be lost before they came here.
    pub packets_missing: u64,
    /// Datagrams that are neither RTP nor RTCP, where the codec is not [`Codec::Opaque`].
    pub packets_not_rtp: u64,
    /// Times that a stream of pictures began in place of another: the camera was started again, or is another one.
    pub began_anew: u64,
    /// Frames begun, those refused included.
    pub frames_in: u64,
    /// Those of them that had no picture when they began: RTCP, or sound.
    pub frames_beside: u64,
    /// Frames whose last fragment left.
    pub frames_sent: u64,
    /// Frames dropped after some of them had left; each is also counted by reason.
    pub frames_abandoned: u64,
    /// Fragments that left.
    pub fragments_sent: u64,
    /// Their bytes, headers included.
    pub bytes_sent: ByteCount,
    dropped: [u64; DropReason::ALL.len()],
}

#[derive(Debug)]
struct Frame {
    bytes: Vec<u8>,
    sent: usize,
    /// Of an open frame, the bytes that may leave in a fragment that is not full.
    releasable: usize,
    number: Option<u32>,
    next_index: u32,
    kind: PacketKind,
    classified: bool,
    arrived: Instant,
    /// How long its picture has waited before that.
    waited_raw: Duration,
    /// The other side is told how long it has waited.
    tells_wait: bool,
    ended: bool,
}

#[derive(Debug)]
struct Open {
    /// SSRC, timestamp and sequence number of its last RTP packet; none while it has only RTCP.
    last: Option<(u32, u32, u16)>,
    since: Instant,
    last_packet: Instant,
    refused: Option<DropReason>,
}

impl Default for SendQueueConfig {
    fn default() -> Self {
        Self {
            codec: Codec::Auto,
            max_frames: DEFAULT_MAX_FRAMES,
            max_bytes: DEFAULT_MAX_BYTES,
            max_age: DEFAULT_MAX_AGE,
            max_age_begun: DEFAULT_MAX_FRAME_AGE,
            flush_after: DEFAULT_FLUSH_AFTER,
            close_after: DEFAULT_CLOSE_AFTER,
            max_open: DEFAULT_MAX_OPEN,
        }
    }
}

impl DropReason {
    /// All reasons, in the order of [`QueueCounters::dropped`].
    pub const ALL: [Self; 5] = [Self::Full, Self::TooLarge, Self::TooOld, Self::Cleared, Self::Undecodable];

    /// Lower-case name as used in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::TooLarge => "too_large",
            Self::TooOld => "too_old",
            Self::Cleared => "cleared",
            Self::Undecodable => "undecodable",
        }
    }
}

impl QueueCounters {
    /// Frames dropped for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }

    /// Frames dropped for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }
}

impl SendQueue {
    /// An empty queue.
    pub fn new(config: SendQueueConfig) -> Self {
        Self {
            streams: Streams::new(config.codec),
            config,
            frames: VecDeque::new(),
            open: None,
            unsent: 0,
            next_number: 0,
            abandoned: None,
            recovery_needed: false,
            asked: None,
            grace_until: None,
            tells_waits: false,
            waited_raw: Duration::ZERO,
            numbers: None,
            spare: Vec::new(),
            counters: QueueCounters::default(),
        }
    }

    /// Takes one datagram from the camera.
    pub fn push(&mut self, now: Instant, packet: &[u8]) -> PushOutcome {
        self.handle_timeout(now);
        self.counters.packets_in += 1;
        self.counters.bytes_in += ByteCount::from(packet.len());
        if packet.is_empty() {
            self.counters.packets_ignored += 1;
            return PushOutcome::Ignored;
        }
        match Datagram::parse(packet) {
            Datagram::Rtp(rtp) => {
                let seen = self.streams.handle_packet(now, &rtp);
                self.counters.packets_missing += u64::from(seen.missing);
                self.counters.began_anew += u64::from(seen.begins_anew);
                self.recovery_needed |= seen.needs_recovery;
                if seen.is_beside {
                    // It may be one of the numbers that a picture's packets have.
                    self.open.iter_mut().for_each(|open| open.goes_over(&rtp));
                    return self.append_beside(now, packet);
                }
                if !self.open.as_ref().is_some_and(|open| open.is_continued_by(&rtp)) {
                    self.end_open();
                }
                let outcome = self.append(now, packet, seen.kind);
                if let Some(open) = &mut self.open {
                    open.last = Some((rtp.ssrc, rtp.timestamp, rtp.sequence));
                    open.last_packet = now;
                }
                if rtp.marker {
                    self.end_open();
                }
                outcome
            }
            Datagram::Rtcp => self.append_beside(now, packet),
            Datagram::Other => {
                self.counters.packets_not_rtp += u64::from(self.config.codec != Codec::Opaque);
                self.end_open();
                let outcome = self.append(now, packet, PacketKind::Unknown);
                self.end_open();
                outcome
            }
        }
    }

    /// Appends the next fragment to `out`, at most `max_payload` bytes with its header; `None`, writing nothing, if
    /// nothing may leave yet or `max_payload` is below [`MIN_PAYLOAD`].
    pub fn pop_fragment(&mut self, now: Instant, max_payload: usize, out: &mut impl BufMut) -> Option<FragmentInfo> {
        self.handle_timeout(now);
        if max_payload < MIN_PAYLOAD {
            return None;
        }
        let max_payload = self.beside_number(max_payload);
        if self.abandoned.is_none() && self.frames.front()?.is_out_of_indices(max_payload) {
            self.drop_front(now, DropReason::TooLarge);
        }
        if let Some(header) = self.abandoned.take() {
            let header = FragmentHeader { number: self.numbers, ..header };
            header.put(out);
            return Some(self.on_sent(header, header.wire_len(), now));
        }
        let numbers = self.numbers;
        let frame = self.frames.front_mut()?;
        let (size, last) = frame.next_cut(max_payload)?;
        let waited = (now.saturating_duration_since(frame.arrived) + frame.waited_raw).as_millis();
        let waited_ms = frame.tells_now().then(|| u16::try_from(waited).unwrap_or(u16::MAX));
        let number = *frame.number.get_or_insert(self.next_number);
        self.next_number = number.wrapping_add(1);
        let header = FragmentHeader {
            flags: frame.flags(last),
            frame: number,
            index: frame.next_index,
            waited_ms,
            number: numbers,
        };
        header.put(out);
        out.put_slice(&frame.bytes[frame.sent..frame.sent + size]);
        frame.sent += size;
        frame.next_index += 1;
        self.unsent -= size;
        let arrived = frame.arrived;
        if last {
            self.counters.frames_sent += 1;
            let sent = self.frames.pop_front().map(|frame| frame.bytes);
            self.recycle(sent);
        }
        Some(self.on_sent(header, header.wire_len() + size, arrived))
    }

    /// Whether [`pop_fragment`](Self::pop_fragment) with this `max_payload` would give one, as of the last call that took
    /// the time.
    pub fn has_fragment(&self, max_payload: usize) -> bool {
        let next = || self.frames.front().and_then(|frame| frame.next_cut(self.beside_number(max_payload)));
        max_payload >= MIN_PAYLOAD && (self.abandoned.is_some() || next().is_some())
    }

    /// Ends and drops what is due. [`push`](Self::push) and [`pop_fragment`](Self::pop_fragment) do so as well.
    pub fn handle_timeout(&mut self, now: Instant) {
        let SendQueueConfig { flush_after, close_after, max_open, .. } = self.config;
        if let Some(open) = &self.open {
            let silence = now.saturating_duration_since(open.last_packet);
            if silence >= close_after || now.saturating_duration_since(open.since) >= max_open {
                self.end_open();
            } else if silence >= flush_after && open.refused.is_none() {
                self.release_open();
            }
        }
        while self.front_expires().is_some_and(|at| at <= now) {
            self.drop_front(now, DropReason::TooOld);
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next. After that call it is later than its `now`, or none.
    pub fn next_deadline(&self) -> Option<Instant> {
        let age = self.front_expires();
        let open = self.open.as_ref().filter(|open| open.refused.is_none()).map(|open| {
            let close = (open.last_packet + self.config.close_after).min(open.since + self.config.max_open);
            let flushed = self.frames.back().is_none_or(|frame| frame.releasable == frame.bytes.len());
            if flushed { close } else { close.min(open.last_packet + self.config.flush_after) }
        });
        age.into_iter().chain(open).min()
    }

    /// Whether, since the last call, a frame was dropped or a packet missed without which later frames cannot be shown.
    pub fn take_recovery_needed(&mut self) -> bool {
        std::mem::take(&mut self.recovery_needed)
    }

    /// Bytes that have not left yet, packet lengths included, fragment headers not.
    pub fn queued_bytes(&self) -> ByteCount {
        ByteCount::from(self.unsent)
    }

    /// Frames that have not left entirely, the one that is still coming in included.
    pub fn queued_frames(&self) -> usize {
        self.frames.len()
    }

    /// How long ago the first packet of the oldest frame came in.
    pub fn oldest_age(&self, now: Instant) -> Option<Duration> {
        self.frames.front().map(|frame| now.saturating_duration_since(frame.arrived))
    }

    /// The codec as configured or found so far.
    pub fn codec(&self) -> Codec {
        self.streams.codec()
    }

    /// Totals since the queue was made.
    pub fn counters(&self) -> &QueueCounters {
        &self.counters
    }

    /// Drops all frames, the rest of the one that is still coming in included.
    pub fn clear(&mut self, now: Instant) {
        self.handle_timeout(now);
        while !self.frames.is_empty() {
            self.drop_at(now, 0, DropReason::Cleared);
        }
    }

    /// Frames that come in within the next second are kept as long as those that have begun to leave: the connection is new, its rate is
    /// only being found, and a stream that begins with a large recovery point should not begin with its loss.
    pub fn begin_grace(&mut self, now: Instant) {
        self.grace_until = Some(now + GRACE);
    }

    /// Whether a frame has begun to leave, or to be given up, and not ended.
    pub fn is_within_frame(&self) -> bool {
        self.abandoned.is_some() || self.frames.front().is_some_and(|frame| frame.number.is_some())
    }

    /// Whether the other side understands how long a frame has waited here; for frames that come in from now on.
    pub fn set_tells_waits(&mut self, tells: bool) {
        self.tells_waits = tells;
    }

    /// How long the picture of the next frame that comes in has waited before it was encoded: the other side is told, and the frame is as
    /// old there. [`SendQueueConfig::max_age`] is of the time in here.
    pub fn set_waited_raw(&mut self, waited: Duration) {
        self.waited_raw = waited;
    }

    /// Whether fragments have running numbers, and from which on; for those that leave from now on.
    pub fn set_numbers(&mut self, from: Option<u16>) {
        self.numbers = from;
    }

    /// How old a frame may become that has not begun to leave.
    pub fn max_age(&self) -> Duration {
        self.config.max_age
    }

    /// What a running number leaves of a payload.
    fn beside_number(&self, max_payload: usize) -> usize {
        max_payload - if self.numbers.is_some() { 2 } else { 0 }
    }

    fn front_expires(&self) -> Option<Instant> {
        let frame = self.frames.front()?;
        let in_grace = self.grace_until.is_some_and(|until| frame.arrived <= until);
        let SendQueueConfig { max_age, max_age_begun, .. } = self.config;
        let has_longer = in_grace || frame.number.is_some();
        // There its age counts from when it was filmed.
        let begun = max_age_begun.saturating_sub(frame.waited_raw).max(max_age);
        Some(frame.arrived + if has_longer { begun } else { max_age })
    }

    /// Adds a packet of no picture: to the frame that is open, or else it is one by itself.
    fn append_beside(&mut self, now: Instant, packet: &[u8]) -> PushOutcome {
        let alone = self.open.is_none();
        self.counters.frames_beside += u64::from(alone);
        // That is the picture's.
        self.waited_raw = Duration::ZERO;
        let outcome = self.append(now, packet, PacketKind::Neutral);
        if alone {
            self.end_open();
        }
        outcome
    }

    /// Adds a packet to the open frame, beginning one if there is none, or drops it with its frame.
    fn append(&mut self, now: Instant, packet: &[u8], kind: PacketKind) -> PushOutcome {
        if self.open.is_none() {
            self.begin(now);
        }
        let framed = framed_len(packet);
        let refused = self.open.as_ref().and_then(|open| open.refused).or_else(|| {
            let frame_len = self.frames.back().map_or(0, |frame| frame.bytes.len());
            if frame_len + framed > MAX_FRAME_BYTES {
                Some(DropReason::TooLarge)
            } else if self.unsent + framed > self.config.max_bytes.as_usize() {
                Some(DropReason::Full)
            } else {
                None
            }
        });
        if let Some(reason) = refused {
            let arrived = self.open.as_ref().map_or(now, |open| open.since);
            self.need_recovery(now, arrived, kind);
            self.refuse_open(now, reason);
            return PushOutcome::Dropped(reason);
        }
        if let Some(frame) = self.frames.back_mut() {
            put_packet(&mut frame.bytes, packet);
            frame.kind = frame.kind.max(kind);
            frame.classified = matches!(self.streams.codec(), Codec::H264 | Codec::H265);
            self.unsent += framed;
        }
        PushOutcome::Queued
    }

    fn begin(&mut self, now: Instant) {
        self.counters.frames_in += 1;
        let waited_raw = std::mem::take(&mut self.waited_raw);
        let mut refused = None;
        if self.frames.len() >= self.config.max_frames {
            self.counters.dropped[DropReason::Full as usize] += 1;
            refused = Some(DropReason::Full);
        } else {
            let frame = Frame { waited_raw, ..Frame::new(self.spare.pop().unwrap_or_default(), now, self.tells_waits) };
            self.frames.push_back(frame);
        }
        self.open = Some(Open { last: None, since: now, last_packet: now, refused });
    }

    fn end_open(&mut self) {
        let Some(open) = self.open.take() else { return };
        if let (None, Some(frame)) = (open.refused, self.frames.back_mut()) {
            frame.ended = true;
        }
    }

    fn release_open(&mut self) {
        if let Some(frame) = self.frames.back_mut() {
            frame.releasable = frame.bytes.len();
        }
    }

    /// Drops the open frame; the rest of its packets will be dropped as they come.
    fn refuse_open(&mut self, now: Instant, reason: DropReason) {
        let Some(open) = self.open.as_mut().filter(|open| open.refused.is_none()) else { return };
        open.refused = Some(reason);
        let frame = self.frames.pop_back();
        self.on_dropped(now, frame, reason);
    }

    /// Drops the first frame, and with it what waits behind it and cannot be shown without it: so the next recovery point has room.
    fn drop_front(&mut self, now: Instant, reason: DropReason) {
        let front = self.frames.front().map(|frame| (frame.classified, frame.kind));
        self.drop_at(now, 0, reason);
        if front.is_none_or(|(classified, kind)| !classified || kind <= PacketKind::Disposable) {
            return;
        }
        let mut index = 0;
        while let Some(frame) = self.frames.get(index) {
            match frame.kind {
                // Sound, or what may still become a recovery point.
                PacketKind::Neutral => index += 1,
                PacketKind::Disposable | PacketKind::Reference if frame.classified => {
                    self.drop_at(now, index, DropReason::Undecodable);
                }
                _ => break,
            }
        }
    }

    fn drop_at(&mut self, now: Instant, index: usize, reason: DropReason) {
        if index + 1 == self.frames.len() && self.open.as_ref().is_some_and(|open| open.refused.is_none()) {
            return self.refuse_open(now, reason);
        }
        let frame = self.frames.remove(index);
        self.on_dropped(now, frame, reason);
    }

    fn on_dropped(&mut self, now: Instant, frame: Option<Frame>, reason: DropReason) {
        let Some(frame) = frame else { return };
        self.counters.dropped[reason as usize] += 1;
        self.need_recovery(now, frame.arrived, frame.kind);
        self.unsent -= frame.bytes.len() - frame.sent;
        if let Some(number) = frame.number {
            self.counters.frames_abandoned += 1;
            let flags = FragmentFlags { abandoned: true, ..frame.flags(false) };
            let (frame, index) = (number, frame.next_index);
            self.abandoned = Some(FragmentHeader { flags, frame, index, waited_ms: None, number: None });
        }
        self.recycle(Some(frame.bytes));
    }

    /// A frame of this kind was dropped that has come in then. What came before the last request is mended by what that has brought, or
    /// will.
    fn need_recovery(&mut self, now: Instant, arrived: Instant, kind: PacketKind) {
        if kind > PacketKind::Disposable && self.asked.is_none_or(|asked| arrived > asked) {
            (self.recovery_needed, self.asked) = (true, Some(now));
        }
    }

    fn on_sent(&mut self, header: FragmentHeader, size: usize, arrived: Instant) -> FragmentInfo {
        self.counters.fragments_sent += 1;
        self.numbers = self.numbers.map(|number| number.wrapping_add(1));
        self.counters.bytes_sent += ByteCount::from(size);
        FragmentInfo { header, size: ByteCount::from(size), arrived }
    }

    fn recycle(&mut self, buffer: Option<Vec<u8>>) {
        if let Some(mut buffer) = buffer.filter(|b| self.spare.len() < SPARES && b.capacity() <= SPARE_BYTES) {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}

impl Frame {
    fn new(bytes: Vec<u8>, arrived: Instant, tells_wait: bool) -> Self {
        Self {
            bytes,
            sent: 0,
            releasable: 0,
            number: None,
            next_index: 0,
            kind: PacketKind::Neutral,
            classified: false,
            arrived,
            waited_raw: Duration::ZERO,
            tells_wait,
            ended: false,
        }
    }

    /// Bytes that the next fragment takes, and whether it is the last; `None` while the frame had better wait for more.
    fn next_cut(&self, max_payload: usize) -> Option<(usize, bool)> {
        let (left, room) = (self.bytes.len() - self.sent, self.room(max_payload));
        if self.ended {
            // As many fragments as needed, of equal size: a small last one costs a datagram's overhead all the same.
            let fragments = left.div_ceil(room).max(1);
            Some((left.div_ceil(fragments), fragments == 1))
        } else if left > room {
            Some((room, false))
        } else {
            (self.releasable > self.sent).then_some((left, false))
        }
    }

    /// Whether what is left needs more fragments than have an index. The last index is kept for saying so.
    fn is_out_of_indices(&self, max_payload: usize) -> bool {
        self.next_index == MAX_FRAGMENTS - 1 && self.next_cut(max_payload).is_some_and(|(_, last)| !last)
    }

    /// Whether the next fragment says how long the frame has waited.
    fn tells_now(&self) -> bool {
        self.tells_wait && self.next_index == 0
    }

    fn room(&self, max_payload: usize) -> usize {
        let waited_ms = self.tells_now().then_some(0);
        let (flags, index) = (FragmentFlags::default(), self.next_index);
        let header = FragmentHeader { flags, frame: 0, index, waited_ms, number: None };
        max_payload.saturating_sub(header.wire_len()).max(1)
    }

    fn flags(&self, last: bool) -> FragmentFlags {
        let disposable = match self.ended {
            true => self.kind <= PacketKind::Disposable,
            false => self.kind == PacketKind::Disposable,
        };
        FragmentFlags {
            last,
            recovery_point: self.kind == PacketKind::Recovery,
            disposable,
            abandoned: false,
            classified: self.classified,
        }
    }
}

impl Open {
    /// A packet that is none of the frame's has the next number.
    fn goes_over(&mut self, rtp: &RtpPacket<'_>) {
        if let Some((ssrc, _, sequence)) = &mut self.last
            && (*ssrc, sequence.wrapping_add(1)) == (rtp.ssrc, rtp.sequence)
        {
            *sequence = rtp.sequence;
        }
    }

    fn is_continued_by(&self, rtp: &RtpPacket<'_>) -> bool {
        self.last.is_some_and(|(ssrc, timestamp, sequence)| {
            (ssrc, timestamp, sequence.wrapping_add(1)) == (rtp.ssrc, rtp.timestamp, rtp.sequence)
        })
    }
}

/// At 60 frames/s the age limit leaves 18 frames; the bound is for flows in which each datagram is a frame: 512 of
/// 1316 bytes (MPEG-TS) in 300 ms are 18 Mbit/s.
const DEFAULT_MAX_FRAMES: usize = 512;
/// 300 ms at 53 Mbit/s; with frames in flight below it, and a frame of [`MAX_FRAME_BYTES`] just fits.
const DEFAULT_MAX_BYTES: ByteCount = ByteCount(2 << 20);
/// A picture later than this is of no use for flying, and what replaces it is already waiting behind it.
const DEFAULT_MAX_AGE: Duration = Duration::from_millis(300);
/// Above the spacing of a camera's packets within a frame (1400 bytes at 8 Mbit/s: 1.4 ms), well below a frame interval.
const DEFAULT_FLUSH_AFTER: Duration = Duration::from_millis(2);
/// Just more than a frame interval at 60 frames/s: with slower cameras it ends a frame whose marker was lost before the
/// next timestamp would.
const DEFAULT_CLOSE_AFTER: Duration = Duration::from_millis(20);
/// Half the age limit, for sources that never change the timestamp: without it their one frame would grow too old.
const DEFAULT_MAX_OPEN: Duration = Duration::from_millis(150);

/// Buffers kept for reuse, and the largest one kept.
const SPARES: usize = 16;
const SPARE_BYTES: usize = 128 << 10;

#[cfg(test)]
mod tests;
