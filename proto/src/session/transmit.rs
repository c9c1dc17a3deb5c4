//! The scheduler: what is handed to QUIC next, one packet's worth at a time ([AQUILA algorithm 1, part 2]).
//!
//! Order: hello, control, copies of control, probes, receipts, recovery requests, feedback, heartbeat; then, through the gate
//! (window and pacing) of the bearer that they take, telemetry, repairs of video, video, bulk. It is called only when QUIC has nothing left to send,
//! so nothing queues inside it.

use std::time::{Duration, Instant};

use super::Session;
use super::bearer::{Bearer, Beside, PACKET_OVERHEAD};
use crate::cc::{Load, PACING_SLACK};
use crate::feedback::Kept;
use crate::quic::ConnectionId;
use crate::sched::reserve;
use crate::signing::Place;
use crate::video::MIN_PAYLOAD;
use crate::wire::datagram::Heartbeat;
use crate::wire::flow;
use crate::wire::message::{MessageHeader, put_copy};
use crate::wire::repair::VideoRepair;
use crate::{ByteCount, Class, Usage};

/// Left free in video packets: a repair is longer than its fragments by so much at most.
const REPAIR_ROOM: usize = 16;
const _: () = assert!(VideoRepair::OVERHEAD <= REPAIR_ROOM);
/// A batch of transactions without news after 1.5 round trips and this, for the peer's report, is sent again.
const BATCH_MARGIN: Duration = Duration::from_millis(50);

/// State of sending.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    /// The connection that is sent on.
    pub connection: Option<ConnectionId>,
    /// Its handshake is complete; before, only control leaves, as early data.
    live: bool,
    pub hello_sent: bool,
    pub heartbeat_due: Option<Instant>,
    pub last_probe: Option<Instant>,
    /// A probe with everything unacknowledged leaves at once.
    pub probe_at_once: bool,
    /// The next packet through the gate may leave then.
    pub paced_until: Option<Instant>,
    /// Bytes of a frame's first packet, of which the second has yet to keep the distance.
    pub unpaced: usize,
    /// When a frame of video last left here.
    pub carried_video: Option<Instant>,
    /// A connection that our peer is resuming beside the one in use, and the last message that was copied to it.
    pub resuming: Option<(ConnectionId, u64)>,
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
    /// Hands one packet's worth to QUIC; `false` if there is nothing, or the gates are closed.
    pub(super) fn feed(&mut self, now: Instant) -> bool {
        let all = 0..self.bearers.len();
        let is_live = |session: &Self, index: usize| session.bearers[index].outbound.is_live_now();
        all.clone().any(|index| self.feed_resuming(index))
            || all.clone().any(|index| is_live(self, index) && self.feed_hello(index))
            || self.feed_control(now)
            || self.feed_copies(now)
            || all.clone().any(|index| self.feed_probe(now, index))
            || self.feed_receipt(now)
            || all.clone().any(|index| is_live(self, index) && self.feed_recovery(now, index))
            || all.clone().any(|index| is_live(self, index) && self.feed_feedback(now, index))
            || all.clone().any(|index| is_live(self, index) && self.feed_heartbeat(now, index))
            || self.feed_telemetry(now)
            || self.feed_repair(now)
            || self.feed_video(now)
            || all.clone().any(|index| self.feed_bulk(now, index))
            || all.clone().any(|index| self.feed_parcel(now, index))
    }

    /// When something will be there to feed, or to expire, if nothing comes in.
    pub(super) fn next_deadline(&mut self, now: Instant) -> Instant {
        let mut due = [
            self.outbox.next_expiry(),
            self.copies_due(now),
            self.transactions.next_expiry(),
            self.resequencer.next_deadline(),
            self.receipt_due(now).filter(|_| self.is_up()),
            self.video_in.iter().flatten().filter_map(|reassembler| reassembler.next_deadline()).min(),
            self.video_out.iter().filter_map(|queue| queue.next_deadline()).min(),
            self.recovery.iter().filter_map(|points| points.due(now)).min(),
            self.hold_due(),
            self.route_due(now),
            self.gates_due(now),
        ]
        .into_iter()
        .flatten()
        .min();
        for index in 0..self.bearers.len() {
            let timeout = self.bearers[index].carrier.poll_timeout(now);
            let bearer = &self.bearers[index];
            let own = [timeout, bearer.silence.next_deadline(bearer.limits), self.probe_due(now, index)];
            let reports = [bearer.arrivals.next_due(), bearer.outbound.heartbeat_due];
            let reports = reports.into_iter().filter(|_| bearer.outbound.is_live_now());
            due = own.into_iter().chain(reports).flatten().chain(due).min();
        }
        let far = now + Duration::from_secs(1);
        // A deadline that has passed could only be answered with another one: never spin.
        due.unwrap_or(far).max(now + Duration::from_micros(50)).min(far)
    }

    fn feed_recovery(&mut self, now: Instant, index: usize) -> bool {
        if !self.bearers[index].is_up() && self.is_up() {
            return false;
        }
        let Some(request) = self.inbound.recovery.pop_front() else { return false };
        let mut body = Vec::new();
        request.put(&mut body);
        let sent = self.bearers[index].send_datagram(now, flow::RECOVERY, &body);
        self.accompany(now, index);
        sent
    }

    fn feed_feedback(&mut self, now: Instant, index: usize) -> bool {
        let bearer = &mut self.bearers[index];
        let due = bearer.arrivals.next_due().is_some_and(|due| due <= now);
        if !due || !bearer.send_feedback(now, self.inbound.takes_histories) {
            return false;
        }
        self.accompany(now, index);
        true
    }

    fn feed_heartbeat(&mut self, now: Instant, index: usize) -> bool {
        let due = self.bearers[index].outbound.heartbeat_due;
        due.is_some_and(|due| due <= now) && self.send_heartbeat_and_report(now, index)
    }

    /// In the packet that has just been handed over: words of our own that wait for something to go with.
    pub(super) fn accompany(&mut self, now: Instant, index: usize) {
        let within = self.bearers[index].company(now);
        if within.is_zero() || !self.bearers[index].outbound.is_live_now() {
            return;
        }
        let is_near = |due: Option<Instant>| due.is_some_and(|due| due <= now + within);
        if is_near(self.receipt_due(now)) {
            self.send_receipt(now);
        }
        if is_near(self.bearers[index].outbound.heartbeat_due) {
            self.send_heartbeat_and_report(now, index);
        } else if is_near(self.bearers[index].arrivals.next_due()) || self.bearers[index].loses_much(now) {
            self.bearers[index].send_feedback(now, self.inbound.takes_histories);
        }
    }

    fn send_heartbeat_and_report(&mut self, now: Instant, index: usize) -> bool {
        let bearer = &mut self.bearers[index];
        // In the same packet: what is not worth one of its own.
        if bearer.arrivals.has_news() {
            bearer.send_feedback(now, self.inbound.takes_histories);
        }
        self.send_heartbeat(now, index)
    }

    pub(super) fn send_heartbeat(&mut self, now: Instant, index: usize) -> bool {
        let counters = || self.video_in.iter().flatten().map(|reassembler| reassembler.counters());
        let told = Heartbeat {
            echo: None,
            frames_received: counters().map(|counters| counters.frames_out).sum(),
            frames_lost: counters().map(|counters| counters.frames_lost).sum(),
            frames_stale: counters().map(|counters| counters.frames_stale).sum(),
            picture_age_ms: self.inbound.pictures.age(now).map(|age| age.as_millis() as u64),
            bulk: Some(self.bulk_in.window()),
        };
        self.bearers[index].send_heartbeat(now, told)
    }

    fn feed_telemetry(&mut self, now: Instant) -> bool {
        let Some(index) = self.open_way(now, Class::Telemetry) else { return false };
        let silence = self.batch_silence();
        if self.transactions.due(now, silence).is_none() {
            let max = self.max_batch(index);
            let Some(batch) = self.telemetry.pop_batch(now, max, self.transactions.has_room()) else { return false };
            let place = batch.signing.and_then(|stream| self.places.issue(stream, Class::Telemetry, batch.reliable));
            let expires = batch.origin + self.config.telemetry.age;
            match (batch.reliable, place) {
                (true, place) => self.transactions.add(batch.origin, expires, batch.frames, place),
                (false, None) if !self.replicates_telemetry() => return self.send_states(now, index, &batch.frames),
                (false, place) => {
                    let seq = self.transactions.number();
                    let header = self.header_of_batch(seq, batch.origin, expires, place);
                    return self.send_batch(now, index, &header, &batch.frames, None);
                }
            }
        }
        let Some(batch) = self.transactions.due(now, silence).cloned() else { return false };
        let header = self.header_of_batch(batch.seq, batch.origin, batch.expires, batch.place);
        let datagram = self.bearers[index].next_datagram();
        let sent = self.send_batch(now, index, &header, &batch.frames, Some(batch.seq));
        let repeated = self.bearers[index].carrier.repeats(Class::Telemetry);
        self.transactions.on_sent(now, batch.seq, datagram, repeated);
        sent
    }

    fn send_states(&mut self, now: Instant, index: usize, frames: &[u8]) -> bool {
        self.count_sent(Class::Telemetry, frames.len());
        let bearer = &mut self.bearers[index];
        bearer.pace(now, frames.len() + PACKET_OVERHEAD);
        bearer.send_datagram(now, flow::TELEMETRY, frames)
    }

    /// Sends telemetry with a message's header; `kept`: its number, if it is kept until it has arrived.
    fn send_batch(
        &mut self,
        now: Instant,
        index: usize,
        header: &MessageHeader,
        frames: &[u8],
        kept: Option<u64>,
    ) -> bool {
        let mut body = Vec::with_capacity(MessageHeader::MAX_LEN + 2 + frames.len());
        put_copy(&mut body, header, frames);
        self.count_sent(Class::Telemetry, frames.len());
        if self.replicates_telemetry()
            && let Some(other) = self.open_other(now, index)
        {
            let bearer = &mut self.bearers[other];
            bearer.pace(now, body.len() + PACKET_OVERHEAD);
            let mut datagram = bearer.start_datagram(now, flow::MESSAGE, body.len());
            datagram.extend_from_slice(&body);
            bearer.finish_datagram(now, datagram, Beside { class: Class::Telemetry, ..Beside::default() });
            self.counters.redundant_bytes += body.len() as u64;
        }
        let bearer = &mut self.bearers[index];
        bearer.pace(now, body.len() + PACKET_OVERHEAD);
        let mut datagram = bearer.start_datagram(now, flow::MESSAGE, body.len());
        datagram.extend_from_slice(&body);
        let kept = kept.map(Kept::Batch);
        bearer.finish_datagram(now, datagram, Beside { kept, class: Class::Telemetry, ..Beside::default() })
    }

    /// A batch of which nothing is heard for this long is sent again; it may have left on the slowest bearer.
    fn batch_silence(&self) -> Duration {
        let up = self.bearers.iter().filter(|bearer| bearer.is_up());
        let rtt = up.map(Bearer::rtt).max().unwrap_or(Duration::from_millis(100));
        rtt.mul_f64(1.5) + BATCH_MARGIN
    }

    fn replicates_telemetry(&self) -> bool {
        self.bearers.len() > 1 && self.config.replicated.contains(&Class::Telemetry)
    }

    /// Another bearer of the same usage that has room for a copy, the best first.
    fn open_other(&self, now: Instant, index: usize) -> Option<usize> {
        let usage = self.bearers[index].usage();
        let others = (0..self.bearers.len()).filter(|other| *other != index && self.bearers[*other].usage() == usage);
        let open = others.filter(|other| self.is_open(now, *other));
        open.min_by_key(|other| self.bearers[*other].candidate().expected())
    }

    /// Frames of telemetry that fit a datagram with a message's header.
    fn max_batch(&mut self, index: usize) -> usize {
        self.bearers[index].max_body() - MessageHeader::MAX_LEN - 2
    }

    fn feed_video(&mut self, now: Instant) -> bool {
        let Some(way) = self.open_way(now, Class::Video) else { return false };
        let max = self.fragment_room(way);
        let sent_us = self.clock.us(now) as u32;
        let bearer = &mut self.bearers[way];
        for turn in 0..self.video_out.len() {
            let index = (self.next_video + turn) % self.video_out.len();
            if self.video_leaves && !self.video_out[index].is_within_frame() {
                continue;
            }
            let mut datagram = bearer.start_datagram(now, flow::VIDEO + index as u64, max);
            let header_len = datagram.len();
            let Some(fragment) = self.video_out[index].pop_fragment(now, max, &mut datagram) else { continue };
            self.next_video = index + 1;
            self.counters.sent[Class::Video.index()] += 1;
            self.counters.sent_bytes[Class::Video.index()] += (datagram.len() - header_len) as u64;
            let kept = self.repairs.on_fragment(now, index, &fragment, sent_us, &datagram[header_len..]);
            let kept = kept.filter(|_| !bearer.carrier.is_radio());
            let leads = fragment.header.index == 0;
            let bytes = datagram.len() + PACKET_OVERHEAD;
            bearer.outbound.carried_video = Some(now);
            // The first two leave at once, unless a frame before keeps the pace: how far apart they arrive tells what the link
            // carries.
            let every = bearer.controller.pair_every();
            let pairs = every.is_some_and(|every| fragment.header.frame.is_multiple_of(every.get()));
            if leads && pairs && bearer.outbound.has_rested(now) {
                bearer.outbound.unpaced = bytes;
            } else {
                let first = std::mem::take(&mut bearer.outbound.unpaced);
                bearer.pace(now, first + bytes);
            }
            let beside = Beside { kept, leads, class: Class::Video, ..Beside::default() };
            return bearer.finish_datagram(now, datagram, beside);
        }
        false
    }

    /// Most bytes of a fragment on a bearer; with repairs, of one that a repair can bring back on any other.
    pub(super) fn fragment_room(&mut self, way: usize) -> usize {
        let mut room = self.bearers[way].max_body();
        let active = self.repairs.is_active();
        for index in 0..self.bearers.len() {
            if active && self.may_repair(index) {
                room = room.min(self.bearers[index].max_body());
            }
        }
        room.saturating_sub(REPAIR_ROOM).max(MIN_PAYLOAD)
    }

    /// Bulk takes what is left of any bearer that may be used for it.
    fn feed_bulk(&mut self, now: Instant, index: usize) -> bool {
        if !self.bulk_out.has_piece() || !self.may_carry(index) || !self.is_open(now, index) {
            return false;
        }
        let bearer = &mut self.bearers[index];
        let room = bearer.max_body();
        let Some(piece) = self.bulk_out.next_piece(room) else { return false };
        let datagram_id = bearer.next_datagram();
        let mut datagram = bearer.start_datagram(now, flow::BULK, piece.header.encoded_len() + piece.bytes.len());
        piece.header.put(&mut datagram);
        datagram.extend_from_slice(&piece.bytes);
        bearer.pace(now, datagram.len() + PACKET_OVERHEAD);
        let kept = Some(Kept::Bulk(piece.header.offset));
        let sent = bearer.finish_datagram(now, datagram, Beside { kept, class: Class::Bulk, ..Beside::default() });
        if sent {
            self.bulk_out.on_sent(piece.header.offset, datagram_id);
            self.count_sent(Class::Bulk, piece.bytes.len());
        }
        sent
    }

    /// Whether a bearer may be used for more than control: none that is meant to be used before it is up.
    pub(super) fn may_carry(&self, index: usize) -> bool {
        let up = self.bearers.iter().filter(|bearer| bearer.is_up());
        let usage = up.map(|bearer| bearer.usage()).min().unwrap_or(Usage::Normal);
        let bearer = &self.bearers[index];
        bearer.is_up() && bearer.usage() == usage
    }

    /// The bearer that a class takes, if its gate is open.
    fn open_way(&self, now: Instant, class: Class) -> Option<usize> {
        self.way_of(class).filter(|index| self.is_open(now, *index))
    }

    pub(super) fn is_open(&self, now: Instant, index: usize) -> bool {
        self.bearers[index].is_up() && self.gate_opens(now, index).is_some_and(|at| at <= now)
    }

    /// When a gate opens for the next packet if no acknowledgement comes; `None` if only one can open it.
    pub(super) fn gate_opens(&self, now: Instant, index: usize) -> Option<Instant> {
        let bearer = &self.bearers[index];
        if let Some(radio) = bearer.carrier.as_radio() {
            let at = radio.free_at(now);
            return Some(if at > now || radio.is_free(now) { at } else { now + Duration::from_millis(1) });
        }
        let window = bearer.controller.window(now).0;
        let packet = u64::from(self.config.quic.mtu);
        if self.in_flight(index).0 + packet <= window {
            return Some(bearer.outbound.paced_until.unwrap_or(now));
        }
        bearer.controller.next_deadline().filter(|at| *at > now)
    }

    /// When the gates have to be tried again for what waits.
    fn gates_due(&mut self, now: Instant) -> Option<Instant> {
        let way = |session: &Self, class| session.way_of(class).filter(|index| session.bearers[*index].is_up());
        let mut due = None;
        if let Some(index) = way(self, Class::Telemetry) {
            let again = self.transactions.next_due(now, self.batch_silence());
            let max_batch = self.max_batch(index);
            let fresh = self.telemetry.next_due(max_batch, self.transactions.has_room());
            let telemetry = again.into_iter().chain(fresh).min();
            due = telemetry.and_then(|at| Some(at.max(self.gate_opens(now, index)?)));
        }
        if let Some(index) = way(self, Class::Video) {
            let fragment = self.fragment_room(index);
            let waits = self.video_out.iter().any(|queue| queue.has_fragment(fragment));
            let repair = self.repair_due(now, index, waits);
            due = due.into_iter().chain(self.gate_opens(now, index).filter(|_| waits)).chain(repair).min();
        }
        if self.bulk_out.has_piece() || self.parcels.is_waiting() {
            let may = (0..self.bearers.len()).filter(|index| self.may_carry(*index));
            due = may.filter_map(|index| self.gate_opens(now, index)).chain(due).min();
        }
        due
    }

    /// What waits for a bearer and what is under way on it.
    pub(super) fn load(&self, now: Instant, index: usize) -> Load {
        let takes = |class| self.way_of(class) == Some(index);
        let queued = match takes(Class::Video) {
            true => self.video_out.iter().map(|queue| queue.queued_bytes().0).sum(),
            false => 0,
        };
        let telemetry = if takes(Class::Telemetry) { self.telemetry.held_back(now) } else { 0 };
        let bulk = if self.bulk_out.has_piece() { self.bulk_out.bytes().0 } else { 0 } + self.parcels.bytes();
        Load {
            in_flight: self.in_flight(index),
            queued: ByteCount(queued),
            beside: ByteCount::from(telemetry + bulk),
            unhurried: self.haste.is_gone(now),
            until_frame: self.rhythm.next(now),
            waited: Duration::ZERO,
        }
    }

    /// What is under way on a bearer and not paid for by the C2 reserve.
    fn in_flight(&self, index: usize) -> ByteCount {
        let bearer = &self.bearers[index];
        let (messages, bytes) = self.outbox.held();
        bearer.sent.in_flight() + reserve::beyond_credits(messages, bytes, bearer.rtt())
    }

    fn header_of_batch(&self, seq: u64, origin: Instant, expires: Instant, place: Option<Place>) -> MessageHeader {
        MessageHeader {
            epoch: self.config.epoch,
            seq,
            origin_us: self.clock.us(origin) as u32,
            max_age_ms: expires.saturating_duration_since(origin).as_millis() as u64,
            slot: None,
            telemetry: true,
            place,
        }
    }

    pub(super) fn count_sent(&mut self, class: Class, bytes: usize) {
        self.counters.sent[class.index()] += 1;
        self.counters.sent_bytes[class.index()] += bytes as u64;
    }
}
