//! The scheduler: what is handed to QUIC next, one packet's worth at a time ([AQUILA algorithm 1, part 2]).
//!
//! Order: hello, control, copies of control, recovery requests, feedback, heartbeat; then, through the gate (window and
//! pacing), telemetry, video, bulk. It is called only when QUIC has nothing left to send, so nothing queues inside it.

use std::time::{Duration, Instant};

use bytes::BytesMut;

use super::{LinkState, PROTOCOL_REVISION, Session, Side};
use crate::cc::{Load, SentPacket};
use crate::quic::ConnectionId;
use crate::sched::outbox::Outgoing;
use crate::sched::reserve;
use crate::signing::Place;
use crate::video::MIN_PAYLOAD;
use crate::wire::datagram::{DatagramHeader, Heartbeat};
use crate::wire::flow;
use crate::wire::message::{Hello, MessageHeader, put_copy};
use crate::{ByteCount, Class};

/// QUIC's own bytes around a datagram: short header with connection id and packet number, frame header, AEAD tag
/// (RFC 9000 §17.3, RFC 9221 §4).
const PACKET_OVERHEAD: usize = 1 + 8 + 2 + 3 + 16;
/// Left free in video packets for an acknowledgement, which otherwise costs a packet of its own.
const ACK_ROOM: usize = 16;
/// Control frames handed over for one packet.
const CONTROL_PACKET: usize = 1000;
/// A copy of a control message leaves when it has not been acknowledged after 1.25 round trips and this.
const COPY_MARGIN: Duration = Duration::from_millis(10);
/// While nothing is heard: time between probes, by how long the silence has lasted.
const PROBES: [(Duration, Duration); 3] = [
    (Duration::from_secs(3), Duration::from_millis(40)),
    (Duration::from_secs(30), Duration::from_millis(100)),
    (Duration::MAX, Duration::from_millis(250)),
];
/// Control frames in a probe: it may queue up in the network, so it is kept small.
const PROBE_BYTES: usize = 256;
/// Pacing may catch up at most this much after a pause of the process.
const PACING_SLACK: Duration = Duration::from_millis(2);
/// A batch of transactions without news after 1.5 round trips and this, for the peer's report, is sent again.
const BATCH_MARGIN: Duration = Duration::from_millis(50);
/// Frame headers around the two parts of a bulk packet: a datagram of ours and a piece of the stream (RFC 9000 §19.8,
/// RFC 9221 §4).
const BULK_FRAMES: usize = 3 + 1 + 8 + 8 + 2;
/// Streams carry control and the hello, which come first, and bulk, which comes last.
const PRIORITY: i32 = 100;

/// State of sending.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    /// The connection that is sent on.
    pub connection: Option<ConnectionId>,
    /// Its handshake is complete; before, only control leaves, as early data.
    live: bool,
    hello_sent: bool,
    heartbeat_due: Option<Instant>,
    last_probe: Option<Instant>,
    /// A probe with everything unacknowledged leaves at once.
    probe_at_once: bool,
    /// The next packet through the gate may leave then.
    paced_until: Option<Instant>,
    /// Bytes of a frame's first packet, of which the second has yet to keep the distance.
    unpaced: usize,
    next_video: usize,
    /// A connection that our peer is resuming beside the one in use, and the last message that was copied to it.
    pub resuming: Option<(ConnectionId, u64)>,
    /// The peer's flow control holds bulk back; only something from the peer can change that.
    pub bulk_blocked: bool,
}

/// What is to be known of a datagram that leaves.
#[derive(Debug, Clone, Copy)]
struct Beside {
    /// Bytes of other frames that leave in the same packet.
    bytes: usize,
    /// The batch of transactions that it carries.
    batch: Option<u64>,
    /// It is the first of a video frame.
    leads: bool,
    /// It is reported at once, not with the other side's next heartbeat.
    urgent: bool,
}

impl Default for Beside {
    fn default() -> Self {
        Self { bytes: 0, batch: None, leads: false, urgent: true }
    }
}

impl Outbound {
    pub fn on_new_connection(&mut self) {
        self.connection = None;
        self.live = false;
        self.hello_sent = false;
        self.heartbeat_due = None;
        self.paced_until = None;
    }

    pub fn on_connected(&mut self, now: Instant, connection: ConnectionId) {
        self.connection = Some(connection);
        self.live = true;
        self.resuming = None;
        self.heartbeat_due = Some(now);
    }

    pub fn is_live(&self, connection: ConnectionId) -> bool {
        self.live && self.connection == Some(connection)
    }

    pub fn is_live_now(&self) -> bool {
        self.live
    }

    /// Pacing has held nothing back of late.
    fn has_rested(&self, now: Instant) -> bool {
        self.paced_until.is_none_or(|until| now.saturating_duration_since(until) > PACING_SLACK)
    }

    pub fn probe_now(&mut self, now: Instant) {
        self.probe_at_once = true;
        self.heartbeat_due = self.heartbeat_due.map(|_| now);
    }
}

impl Session {
    /// Hands one packet's worth to QUIC; `false` if there is nothing, or the gate is closed.
    pub(super) fn feed(&mut self, now: Instant) -> bool {
        if self.feed_resuming() {
            return true;
        }
        if !self.bearer.is_ready() {
            return false;
        }
        let live = self.outbound.live;
        (live && self.feed_hello())
            || self.feed_control(now)
            || self.feed_copies(now)
            || (live && (self.feed_recovery(now) || self.feed_feedback(now) || self.feed_heartbeat(now)))
            || (live && self.is_up() && (self.feed_telemetry(now) || self.feed_video(now) || self.feed_bulk(now)))
    }

    /// When something will be there to feed, or to expire, if nothing comes in.
    pub(super) fn next_deadline(&mut self, now: Instant) -> Instant {
        let limits = (self.config.stalled_after, self.config.lost_after);
        let mut due = [
            self.bearer.poll_timeout(),
            self.outbox.next_expiry(),
            self.transactions.next_expiry(),
            self.resequencer.next_deadline(),
            self.silence.next_deadline(limits),
            self.video_in.iter().flatten().filter_map(|reassembler| reassembler.next_deadline()).min(),
            self.video_out.iter().filter_map(|queue| queue.next_deadline()).min(),
            self.hold_due(),
            None,
            None,
        ];
        if self.bearer.is_ready() {
            due[8] = self.copies_due(now);
            if self.outbound.live {
                due[9] = [self.arrivals.next_due(), self.outbound.heartbeat_due, self.gate_due(now)]
                    .into_iter()
                    .flatten()
                    .min();
            }
        }
        let far = now + Duration::from_secs(1);
        // A deadline that has passed could only be answered with another one: never spin.
        due.into_iter().flatten().min().unwrap_or(far).max(now + Duration::from_micros(50)).min(far)
    }

    fn feed_hello(&mut self) -> bool {
        if self.outbound.hello_sent {
            return false;
        }
        self.outbound.hello_sent = true;
        let air = self.config.side == Side::Air;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let mut head = Vec::new();
        Hello { revision: PROTOCOL_REVISION, air, version }.put_on_stream(&mut head);
        // Token 0 belongs to no message: sequence numbers begin at 1.
        self.bearer.send_message(&head, &[], PRIORITY, 0).is_some()
    }

    /// Control messages, as many as share a packet.
    fn feed_control(&mut self, now: Instant) -> bool {
        let mut fed = 0;
        while fed < CONTROL_PACKET {
            let Some(message) = self.outbox.pop_waiting(&mut self.places) else { break };
            let len = message.frame.len();
            let mut head = Vec::with_capacity(MessageHeader::MAX_LEN);
            self.control_header(&message).put_on_stream(&mut head);
            let Some(stream) = self.bearer.send_message(&head, &message.frame, PRIORITY, message.seq) else {
                // No stream is free: the peer has thousands open and has stopped reading.
                self.outbox.unpop(message);
                break;
            };
            self.outbox.on_sent(now, message, stream);
            self.count_sent(Class::Control, len);
            fed += head.len() + len;
        }
        fed > 0
    }

    /// Copies of control messages that should have been acknowledged, or a probe while nothing is heard.
    fn feed_copies(&mut self, now: Instant) -> bool {
        let Some(due) = self.copies_due(now) else { return false };
        if due > now {
            return false;
        }
        let probing = !self.is_up() && !self.outbound.probe_at_once;
        let room = if probing { PROBE_BYTES } else { self.max_body() };
        let before = match probing || self.outbound.probe_at_once {
            true => now,
            false => now.checked_sub(self.copy_after()).unwrap_or(now),
        };
        self.outbound.probe_at_once = false;
        let mut body = Vec::with_capacity(room);
        let mut copied = Vec::new();
        for message in self.outbox.due_copies(before) {
            let header = self.control_header(message);
            if !body.is_empty() && body.len() + MessageHeader::MAX_LEN + 2 + message.frame.len() > room {
                break;
            }
            put_copy(&mut body, &header, &message.frame);
            copied.push(message.seq);
        }
        if !self.is_up() {
            self.outbound.last_probe = Some(now);
        }
        if copied.is_empty() {
            // Nothing is unacknowledged: a heartbeat is probe enough.
            return self.outbound.live && self.send_heartbeat(now);
        }
        for seq in &copied {
            self.outbox.on_copied(now, *seq);
        }
        self.counters.copies_sent += copied.len() as u64;
        self.send_datagram(now, flow::MESSAGE, &body)
    }

    /// Copies of control for a client that is resuming: it reads them a round trip before the handshake is complete here.
    fn feed_resuming(&mut self) -> bool {
        let Some((connection, copied)) = self.outbound.resuming else { return false };
        if !self.bearer.is_drained_to(connection) {
            return false; // What it may be sent before its address is validated is used up: copies would only age.
        }
        let room = usize::from(self.config.quic.mtu) - 100;
        let (mut body, mut last) = (BytesMut::with_capacity(room), copied);
        flow::put(&mut body, flow::COPIES);
        for message in self.outbox.from(copied + 1) {
            if last > copied && body.len() + MessageHeader::MAX_LEN + 2 + message.frame.len() > room {
                break;
            }
            put_copy(&mut body, &self.control_header(message), &message.frame);
            last = last.max(message.seq);
        }
        if last == copied {
            return false;
        }
        let sent = self.bearer.send_datagram_to(connection, body.freeze());
        self.outbound.resuming = sent.then_some((connection, last));
        sent
    }

    fn copies_due(&self, now: Instant) -> Option<Instant> {
        if self.outbound.probe_at_once {
            return Some(now);
        }
        if self.is_up() {
            return self.outbox.earliest_sent().map(|at| at + self.copy_after());
        }
        let silence = self.silence.age(now)?;
        let spacing = PROBES.iter().find(|(until, _)| silence < *until).map_or(PROBES[0].1, |(_, spacing)| *spacing);
        Some(self.outbound.last_probe.map_or(now, |at| at + spacing))
    }

    fn copy_after(&self) -> Duration {
        let rtt = self.bearer.rtt().unwrap_or(Duration::from_millis(100));
        rtt.mul_f64(1.25) + COPY_MARGIN
    }

    fn feed_recovery(&mut self, now: Instant) -> bool {
        let Some(request) = self.inbound.recovery.pop_front() else { return false };
        let mut body = Vec::new();
        request.put(&mut body);
        self.send_datagram(now, flow::RECOVERY, &body)
    }

    fn feed_feedback(&mut self, now: Instant) -> bool {
        self.arrivals.next_due().is_some_and(|due| due <= now) && self.send_feedback(now)
    }

    fn send_feedback(&mut self, now: Instant) -> bool {
        if self.inbound.connection != self.outbound.connection {
            // Sequence numbers of another connection mean nothing on this one.
            self.arrivals.reset();
            return false;
        }
        // At most nine bytes a packet, mostly two.
        let max_packets = self.max_body() / 9;
        let now_us = self.clock_us(now);
        let Some(report) = self.arrivals.take_report(now_us, max_packets) else { return false };
        let mut out = BytesMut::with_capacity(16 + report.arrivals.len() * 3);
        report.put(&mut out);
        self.bearer.send_datagram(out.freeze())
    }

    fn feed_heartbeat(&mut self, now: Instant) -> bool {
        if self.outbound.heartbeat_due.is_none_or(|due| due > now) {
            return false;
        }
        // In the same packet: what is not worth one of its own.
        if self.arrivals.has_news() {
            self.send_feedback(now);
        }
        self.send_heartbeat(now)
    }

    fn send_heartbeat(&mut self, now: Instant) -> bool {
        self.outbound.heartbeat_due = Some(now + self.config.heartbeat);
        let now_us = self.clock_us(now);
        let echo = self.inbound.heartbeat.map(|(peer_us, at_us)| (peer_us, now_us.saturating_sub(at_us)));
        let counters = || self.video_in.iter().flatten().map(|reassembler| reassembler.counters());
        let frames_received = counters().map(|counters| counters.frames_out).sum();
        let frames_lost = counters().map(|counters| counters.frames_lost).sum();
        let frames_stale = counters().map(|counters| counters.frames_stale).sum();
        let picture_age_ms = self.inbound.picture_age(now).map(|age| age.as_millis() as u64);
        let mut body = Vec::with_capacity(32);
        Heartbeat { echo, frames_received, frames_lost, frames_stale, picture_age_ms }.put(&mut body);
        self.send_datagram(now, flow::HEARTBEAT, &body)
    }

    fn feed_telemetry(&mut self, now: Instant) -> bool {
        if self.gate_opens(now).is_none_or(|at| at > now) {
            return false;
        }
        let silence = self.batch_silence();
        if self.transactions.due(now, silence).is_none() {
            let max = self.max_batch();
            let Some(batch) = self.telemetry.pop_batch(now, max, self.transactions.has_room()) else { return false };
            let place = batch.signing.and_then(|stream| self.places.issue(stream, Class::Telemetry, batch.reliable));
            let expires = batch.origin + self.config.telemetry.age;
            match (batch.reliable, place) {
                (true, place) => self.transactions.add(batch.origin, expires, batch.frames, place),
                (false, None) => return self.send_states(now, &batch.frames),
                (false, place) => {
                    let seq = self.transactions.number();
                    let header = self.header_of_batch(seq, batch.origin, expires, place);
                    return self.send_batch(now, &header, &batch.frames, None);
                }
            }
        }
        let Some(batch) = self.transactions.due(now, silence).cloned() else { return false };
        let header = self.header_of_batch(batch.seq, batch.origin, batch.expires, batch.place);
        let datagram = self.sent.next_datagram();
        let sent = self.send_batch(now, &header, &batch.frames, Some(batch.seq));
        self.transactions.on_sent(now, batch.seq, datagram);
        sent
    }

    fn send_states(&mut self, now: Instant, frames: &[u8]) -> bool {
        self.count_sent(Class::Telemetry, frames.len());
        self.pace(now, frames.len() + PACKET_OVERHEAD);
        self.send_datagram(now, flow::TELEMETRY, frames)
    }

    /// Sends telemetry with a message's header; `kept`: its number, if it is kept until it has arrived.
    fn send_batch(&mut self, now: Instant, header: &MessageHeader, frames: &[u8], kept: Option<u64>) -> bool {
        let mut body = Vec::with_capacity(MessageHeader::MAX_LEN + 2 + frames.len());
        put_copy(&mut body, header, frames);
        self.count_sent(Class::Telemetry, frames.len());
        self.pace(now, body.len() + PACKET_OVERHEAD);
        let mut datagram = self.start_datagram(now, flow::MESSAGE, body.len());
        datagram.extend_from_slice(&body);
        self.finish_datagram(now, datagram, Beside { batch: kept, ..Beside::default() })
    }

    /// Frames of telemetry that fit a datagram with a message's header.
    fn max_batch(&mut self) -> usize {
        self.max_body() - MessageHeader::MAX_LEN - 2
    }

    /// A batch of which nothing is heard for this long is sent again.
    fn batch_silence(&self) -> Duration {
        self.bearer.rtt().unwrap_or(Duration::from_millis(100)).mul_f64(1.5) + BATCH_MARGIN
    }

    fn feed_video(&mut self, now: Instant) -> bool {
        if self.gate_opens(now).is_none_or(|at| at > now) {
            return false;
        }
        let max = self.max_body().saturating_sub(ACK_ROOM).max(MIN_PAYLOAD);
        for turn in 0..self.video_out.len() {
            let index = (self.outbound.next_video + turn) % self.video_out.len();
            let mut datagram = self.start_datagram(now, flow::VIDEO + index as u64, max);
            let header_len = datagram.len();
            let Some(fragment) = self.video_out[index].pop_fragment(now, max, &mut datagram) else { continue };
            self.outbound.next_video = index + 1;
            self.count_sent(Class::Video, datagram.len() - header_len);
            let leads = fragment.header.index == 0;
            let bytes = datagram.len() + PACKET_OVERHEAD;
            // The first two leave at once, unless a frame before keeps the pace: how far apart they arrive tells what the link
            // carries.
            let pairs =
                self.controller.pair_every().is_some_and(|every| fragment.header.frame.is_multiple_of(every.get()));
            if leads && pairs && self.outbound.has_rested(now) {
                self.outbound.unpaced = bytes;
            } else {
                let first = std::mem::take(&mut self.outbound.unpaced);
                self.pace(now, first + bytes);
            }
            return self.finish_datagram(now, datagram, Beside { leads, ..Beside::default() });
        }
        false
    }

    fn feed_bulk(&mut self, now: Instant) -> bool {
        if self.gate_opens(now).is_none_or(|at| at > now) {
            return false;
        }
        let max = self.max_body().saturating_sub(BULK_FRAMES + ACK_ROOM);
        let Some(front) = self.bulk_out.front_mut() else { return false };
        let taken = self.bearer.write_bulk(&front[..front.len().min(max)]);
        self.outbound.bulk_blocked = taken == 0;
        bytes::Buf::advance(front, taken);
        if front.is_empty() {
            self.bulk_out.pop_front();
        }
        self.bulk_bytes -= taken;
        if taken == 0 {
            return false;
        }
        self.count_sent(Class::Bulk, taken);
        self.pace(now, taken + BULK_FRAMES + DatagramHeader::MAX_LEN + PACKET_OVERHEAD);
        // A mark in the same packet, so that feedback tells the controller when the packet arrived.
        let mark = self.start_datagram(now, flow::BULK, 0);
        self.finish_datagram(now, mark, Beside { bytes: taken + BULK_FRAMES, ..Beside::default() })
    }

    /// When the gate opens for the next packet if no acknowledgement comes; `None` if only one can open it.
    fn gate_opens(&self, now: Instant) -> Option<Instant> {
        let window = self.controller.window(now).0;
        let packet = u64::from(self.config.quic.mtu);
        if self.in_flight().0 + packet <= window {
            return Some(self.outbound.paced_until.unwrap_or(now));
        }
        self.controller.next_deadline().filter(|at| *at > now)
    }

    /// When the gate has to be tried again for what waits.
    fn gate_due(&mut self, now: Instant) -> Option<Instant> {
        if !self.is_up() {
            return None;
        }
        let max = self.max_body();
        let again = self.transactions.next_due(now, self.batch_silence());
        let max_batch = self.max_batch();
        let fresh = self.telemetry.next_due(max_batch, self.transactions.has_room());
        let telemetry = again.into_iter().chain(fresh).min();
        let telemetry = telemetry.and_then(|due| Some(due.max(self.gate_opens(now)?)));
        let fragment = max.saturating_sub(ACK_ROOM).max(MIN_PAYLOAD);
        let bulk = !self.bulk_out.is_empty() && !self.outbound.bulk_blocked;
        let waits = bulk || self.video_out.iter().any(|queue| queue.has_fragment(fragment));
        let rest = if waits { self.gate_opens(now) } else { None };
        telemetry.into_iter().chain(rest).min()
    }

    /// What waits and what is under way.
    pub(super) fn load(&self) -> Load {
        let queued = self.video_out.iter().map(|queue| queue.queued_bytes().0).sum();
        let beside = ByteCount::from(self.bulk_bytes + self.telemetry.waiting().1);
        Load { in_flight: self.in_flight(), queued: ByteCount(queued), beside }
    }

    /// What is under way and not paid for by the C2 reserve.
    fn in_flight(&self) -> ByteCount {
        let rtt = self.bearer.rtt().unwrap_or_default();
        let (messages, bytes) = self.outbox.held();
        self.sent.in_flight() + reserve::beyond_credits(messages, bytes, rtt)
    }

    fn pace(&mut self, now: Instant, bytes: usize) {
        let earliest = now.checked_sub(PACING_SLACK).unwrap_or(now);
        let from = self.outbound.paced_until.map_or(now, |until| until.max(earliest));
        let time = self.controller.pacing_rate(now).time_for(ByteCount::from(bytes));
        self.outbound.paced_until = Some(from + time.min(Duration::from_secs(1)));
    }

    pub(super) fn is_up(&self) -> bool {
        self.silence.state() == LinkState::Up
    }

    fn control_header(&self, message: &Outgoing) -> MessageHeader {
        MessageHeader {
            epoch: self.config.epoch,
            seq: message.seq,
            origin_us: self.clock_us(message.origin) as u32,
            max_age_ms: message.expires.saturating_duration_since(message.origin).as_millis() as u64,
            slot: message.slot,
            telemetry: false,
            place: message.place,
        }
    }

    fn header_of_batch(&self, seq: u64, origin: Instant, expires: Instant, place: Option<Place>) -> MessageHeader {
        MessageHeader {
            epoch: self.config.epoch,
            seq,
            origin_us: self.clock_us(origin) as u32,
            max_age_ms: expires.saturating_duration_since(origin).as_millis() as u64,
            slot: None,
            telemetry: true,
            place,
        }
    }

    /// Room in a datagram behind our header.
    fn max_body(&mut self) -> usize {
        let max = self.bearer.max_datagram().unwrap_or(usize::from(self.config.quic.mtu) - 100);
        max - DatagramHeader::MAX_LEN
    }

    fn start_datagram(&mut self, now: Instant, flow: u64, room: usize) -> BytesMut {
        let mut datagram = BytesMut::with_capacity(DatagramHeader::MAX_LEN + room);
        let sent_us = self.clock_us(now) as u32;
        DatagramHeader { flow, seq: self.sent.next_seq(), sent_us }.put(&mut datagram);
        datagram
    }

    /// Hands a datagram over.
    fn finish_datagram(&mut self, now: Instant, datagram: BytesMut, beside: Beside) -> bool {
        let bytes = ByteCount::from(datagram.len() + PACKET_OVERHEAD + beside.bytes);
        if !self.bearer.send_datagram(datagram.freeze()) {
            return false;
        }
        let sent_us = self.clock_us(now);
        self.controller.on_sent(now, SentPacket { sent_us, bytes, urgent: beside.urgent });
        self.sent.on_sent(sent_us, bytes, beside.batch, beside.leads);
        true
    }

    fn send_datagram(&mut self, now: Instant, flow: u64, body: &[u8]) -> bool {
        let mut datagram = self.start_datagram(now, flow, body.len());
        datagram.extend_from_slice(body);
        self.finish_datagram(now, datagram, Beside { urgent: flow != flow::HEARTBEAT, ..Beside::default() })
    }

    fn count_sent(&mut self, class: Class, bytes: usize) {
        self.counters.sent[class.index()] += 1;
        self.counters.sent_bytes[class.index()] += bytes as u64;
    }
}
