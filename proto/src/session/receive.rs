//! What comes from the other side.

use std::time::{Duration, Instant};

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::bearer::Bearer;
use super::notice::Notice;
use super::pictures::Pictures;
use super::{Event, LATE, ParcelPort, Session, Side};
use crate::cc::Reports;
use crate::feedback::{DatagramId, Fate, Kept, ReportFault};
use crate::mavlink::Frame;
use crate::quic::{ConnectionId, UnknownPeer};
use crate::replay::Verdict;
use crate::signing::SigningStream;
use crate::video::{Reassembler, VideoEvent};
use crate::wire::datagram::{BulkPiece, DatagramHeader, Heartbeat, RecoveryRequest};
use crate::wire::feedback::Feedback;
use crate::wire::history::History;
use crate::wire::message::{Hello, MessageHeader, take_copy};
use crate::wire::{flow, varint::take_varint};
use crate::{BearerId, Class};

/// Messages held back until their connection proves to be live.
const MAX_HELD: usize = 64;
/// Kinds of setpoint whose newest is remembered.
const MAX_SLOTS: usize = 1024;
/// See [`Session::is_past_its_time`].
const UNTOLD_AGE_MS: u64 = 1_000;
/// From this revision on, a peer understands how long a frame has waited at its sender.
const TELLS_WAITS: u64 = 2;
/// From this revision on, it understands histories.
const HISTORIES: u64 = 5;

/// State of receiving.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    /// Arrival of the packet being taken in, on our microsecond clock, and its ECN field.
    pub received_us: u64,
    pub ecn: u8,
    /// The peer understands histories.
    pub takes_histories: bool,
    /// Which life of the peer's we talk to.
    peer_epoch: Option<u64>,
    /// What the peer said of its pictures last, and when it came.
    pub peer_sees: Option<(Instant, Heartbeat)>,
    pub pictures: Pictures,
    /// (epoch, slot) of setpoints, and the newest sequence number delivered.
    newest_setpoint: BTreeMap<(u64, u64), u64>,
    held: Vec<(ConnectionId, Bytes)>,
    /// The first frame that was lost last.
    lost_frame: [u64; flow::MAX_VIDEO_FLOWS as usize],
    /// To be sent.
    pub recovery: VecDeque<RecoveryRequest>,
    pub unknown: Notice<UnknownPeer>,
    pub report_faults: Notice<(BearerId, ReportFault)>,
}

/// A message that was seen for the first time.
#[derive(Debug)]
pub(super) struct Received {
    /// The bearer that it came on.
    bearer: BearerId,
    header: MessageHeader,
    /// MAVLink frames, one after the other.
    frames: Bytes,
    early: bool,
}

/// A datagram of fewer bytes is a command or a few states, and not one of many batches.
const LITTLE: usize = 400;
/// Longest that signed frames wait for one that is missing: two repetitions of it, within these bounds.
const MIN_HOLD: Duration = Duration::from_millis(50);
const MAX_HOLD: Duration = Duration::from_secs(1);

impl Session {
    /// A whole message that came on a stream.
    pub(super) fn on_stream(&mut self, now: Instant, connection: ConnectionId, bytes: Bytes, early: bool) {
        let mut rest = &bytes[..];
        match take_varint(&mut rest) {
            Some(flow::MESSAGE) => {
                let start = bytes.len() - rest.len();
                self.on_message(now, connection, bytes.slice(start..), early);
                self.receipts.on_stream(connection.bearer());
            }
            Some(flow::HELLO) if !early => match Hello::parse(rest) {
                Some(hello) => self.on_hello(now, connection, hello),
                None => self.counters.malformed += 1,
            },
            _ => self.counters.malformed += 1,
        }
        if !early && let Some(index) = self.index_of(connection.bearer()) {
            self.bearers[index].silence.on_word(now);
        }
    }

    fn on_hello(&mut self, now: Instant, connection: ConnectionId, hello: Hello) {
        if hello.air == (self.config.side == Side::Air) {
            self.events.push_back(Event::SameSide);
        }
        let tells_waits = hello.revision >= TELLS_WAITS;
        self.video_out.iter_mut().for_each(|queue| queue.set_tells_waits(tells_waits));
        self.repairs.on_revision(hello.revision, &mut self.video_out);
        self.inbound.takes_histories = hello.revision >= HISTORIES;
        if self.inbound.peer_epoch.replace(hello.epoch).is_some_and(|former| former != hello.epoch) {
            self.repairs.on_new_peer();
            self.inbound.pictures.on_new_peer(now);
            if self.bulk_out.restart() {
                self.events.push_back(Event::BulkRestarted);
            }
        }
        let bearer = connection.bearer();
        if let Some(index) = self.index_of(bearer) {
            self.bearers[index].usage[1] = hello.usage;
            if self.config.quic.listen {
                self.bearers[index].name.clone_from(&hello.bearer);
            }
        }
        let Hello { version, revision, bearer: name, .. } = hello;
        self.events.push_back(Event::Hello { bearer, name, version, revision });
    }

    /// One message, without its flow id: a header and MAVLink frames.
    fn on_message(&mut self, now: Instant, connection: ConnectionId, bytes: Bytes, early: bool) {
        let Some((header, frames)) = MessageHeader::parse(&bytes) else {
            self.counters.malformed += 1;
            return;
        };
        let guard = if header.telemetry { &mut self.batches } else { &mut self.replay };
        let verdict = guard.check(header.epoch, header.seq, early);
        if !header.telemetry && matches!(verdict, Verdict::Fresh | Verdict::Duplicate) {
            self.note_receipt(connection, &header, verdict == Verdict::Fresh);
        }
        match verdict {
            Verdict::Fresh => {}
            Verdict::Duplicate => return self.counters.duplicates += 1,
            Verdict::TooOld => return self.counters.replayed += 1,
            Verdict::Doubtful if self.inbound.held.len() < MAX_HELD => {
                return self.inbound.held.push((connection, bytes));
            }
            Verdict::Doubtful => return self.counters.replayed += 1,
        }
        self.replay_dirty |= !header.telemetry;
        if let Some(slot) = header.slot {
            if self.inbound.newest_setpoint.len() >= MAX_SLOTS {
                self.inbound.newest_setpoint.clear();
            }
            let newest = self.inbound.newest_setpoint.entry((header.epoch, slot)).or_default();
            *newest = header.seq.max(*newest);
        }
        let received = Received { bearer: connection.bearer(), header, frames: bytes.slice_ref(frames), early };
        let signing = header.place.and_then(|_| SigningStream::of(&Frame::parse(frames).ok()?.0));
        let in_order = match header.place.zip(signing) {
            Some((place, stream)) => {
                let hold = self.hold();
                self.resequencer.admit(now, hold, (header.epoch, stream), place, received)
            }
            None => Some(received),
        };
        if let Some(received) = in_order {
            self.use_message(now, self.inbound.received_us, &received);
        }
        self.release_in_order(now);
    }

    /// Gives out signed messages whose turn it is.
    pub(super) fn release_in_order(&mut self, now: Instant) {
        let now_us = self.clock.us(now);
        while let Some(received) = self.resequencer.poll(now) {
            self.use_message(now, now_us, &received);
        }
    }

    /// How long signed frames wait for one that is missing. It is repeated after 1.25 round trips, counted from its own
    /// sending, and once more; of the slowest bearer, since it may be on its way there.
    fn hold(&self) -> Duration {
        let up = self.bearers.iter().filter(|bearer| bearer.is_up());
        let rtt = up.map(Bearer::rtt).max().unwrap_or(Duration::from_millis(100));
        (rtt.mul_f64(2.5) + Duration::from_millis(40)).clamp(MIN_HOLD, MAX_HOLD)
    }

    /// A message in its turn, at `at_us` on our clock.
    fn use_message(&mut self, now: Instant, at_us: u64, received: &Received) {
        let Received { bearer, header, frames, early } = received;
        let Some(index) = self.index_of(*bearer) else { return };
        if !header.telemetry && self.is_past_its_time(index, header, at_us, *early) {
            return match header.slot {
                Some(_) => self.counters.stale_setpoints += 1,
                None => self.counters.expired_commands += 1,
            };
        }
        let newest = header.slot.and_then(|slot| self.inbound.newest_setpoint.get(&(header.epoch, slot)));
        if newest.is_some_and(|newest| header.seq < *newest) {
            return self.counters.overtaken_setpoints += 1;
        }
        let age_us = self.bearers[index].delay.excess_us(header.origin_us, at_us);
        let class = if header.telemetry { Class::Telemetry } else { Class::Control };
        self.latencies.by_class[class.index()].add(now, Duration::from_micros(age_us));
        self.deliver_frames(class, frames);
    }

    /// Whether a control message came too late to be used. While its age cannot be told, on a connection of which nothing
    /// is known but its handshake, what may be a second old is used; a setpoint is not, the next one is under way.
    fn is_past_its_time(&self, index: usize, header: &MessageHeader, at_us: u64, early: bool) -> bool {
        let age = self.bearers[index].delay.age_us(header.origin_us, at_us).filter(|_| !early);
        age.map_or(header.max_age_ms < UNTOLD_AGE_MS, |age_us| age_us > header.max_age_ms.saturating_mul(1000))
    }

    /// Gives out MAVLink frames that lie one after the other.
    fn deliver_frames(&mut self, class: Class, mut frames: &[u8]) {
        while !frames.is_empty() {
            let Ok((frame, len)) = Frame::parse(frames) else {
                self.counters.malformed += 1;
                return;
            };
            frames = &frames[len..];
            self.count_delivered(class, len);
            self.events.push_back(Event::Mavlink { frame, class });
        }
    }

    /// Messages that waited for their connection to prove itself.
    pub(super) fn release_held(&mut self, now: Instant, live: ConnectionId) {
        for (connection, bytes) in std::mem::take(&mut self.inbound.held) {
            match connection == live {
                true => self.on_message(now, connection, bytes, false),
                false => self.counters.replayed += 1,
            }
        }
    }

    /// A datagram. In early data only messages are taken: they have a replay window, the rest has not.
    pub(super) fn on_datagram(&mut self, now: Instant, connection: ConnectionId, bytes: &[u8], early: bool) {
        if early {
            // It might be replayed: it must not touch what is known of the live connection.
            let copies = DatagramHeader::parse(bytes).filter(|(header, _)| header.flow == flow::MESSAGE);
            if let Some((_, body)) = copies {
                self.on_copies(now, connection, body, early);
            }
            return;
        }
        let Some(index) = self.index_of(connection.bearer()) else { return };
        self.bearers[index].silence.on_word(now);
        let mut rest = bytes;
        match take_varint(&mut rest) {
            Some(flow::FEEDBACK) if self.bearers[index].outbound.is_live(connection) => {
                return self.on_feedback(now, index, rest);
            }
            Some(flow::HISTORY) if self.bearers[index].outbound.is_live(connection) => {
                return self.on_history(now, index, rest);
            }
            Some(flow::FEEDBACK | flow::HISTORY) => return,
            Some(flow::COPIES) => return self.on_copies(now, connection, rest, early),
            Some(flow::RECEIPT) => return self.on_receipt(rest),
            _ => {}
        }
        let Some((header, body)) = DatagramHeader::parse(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        if self.connection_is_older(connection) {
            return;
        }
        let bearer = &mut self.bearers[index];
        if bearer.heard.connection.replace(connection) != Some(connection) {
            bearer.arrivals.reset();
            bearer.delay.reset();
            bearer.heard.heartbeat = None;
        }
        let received_us = self.inbound.received_us;
        // Of parcels, which have none, it is not asked for.
        let sent_us = header.sent_us.unwrap_or_default();
        let delay_us = header.sent_us.map_or(0, |sent_us| bearer.delay.on_packet(sent_us, received_us));
        bearer.heard.waited = Duration::from_micros(delay_us);
        let urgent = header.flow != flow::HEARTBEAT;
        if !bearer.carrier.is_radio() {
            // Who sends more than little needs to hear of it, however narrow the way back seems to be.
            let is_little = matches!(header.flow, flow::MESSAGE | flow::TELEMETRY) && body.len() < LITTLE;
            let delay = if is_little { bearer.word_delay(now) } else { Duration::ZERO };
            bearer.arrivals.on_arrival(now, header.seq, received_us, self.inbound.ecn, urgent.then_some(delay));
        }
        match header.flow {
            flow::MESSAGE => self.on_copies(now, connection, body, early),
            flow::BULK => match BulkPiece::parse(body) {
                Some((piece, bytes)) => {
                    if self.bulk_in.on_piece(piece, bytes) {
                        self.events.push_back(Event::BulkReadable);
                    }
                }
                None => self.counters.malformed += 1,
            },
            flow::HEARTBEAT => self.on_heartbeat(now, index, sent_us, body),
            flow::TELEMETRY => {
                self.latencies.by_class[Class::Telemetry.index()].add(now, Duration::from_micros(delay_us));
                self.deliver_frames(Class::Telemetry, body);
            }
            flow::RECOVERY => match RecoveryRequest::parse(body) {
                Some(request) if request.video < self.recovery.len() as u64 => {
                    self.recovery[request.video as usize].want();
                }
                _ => self.counters.malformed += 1,
            },
            video if (flow::VIDEO..flow::VIDEO + flow::MAX_VIDEO_FLOWS).contains(&video) => {
                let (way, index) = (index, (video - flow::VIDEO) as usize);
                let age = self.frame_age(now, way, sent_us);
                let config = &self.config.reassembly;
                let reassembler = self.video_in[index].get_or_insert_with(|| Reassembler::new(config.clone()));
                let before = reassembler.counters().frames_out;
                reassembler.push(now, age, body);
                if reassembler.counters().frames_out != before && !self.bearers[way].carrier.is_radio() {
                    // For a while nothing will come, and the next frame is made of what the sender knows by then.
                    self.bearers[way].arrivals.hasten(now);
                }
                self.restore_by_fragment(now, way, index, sent_us, body);
            }
            parcel if flow::is_parcel(parcel) => {
                self.count_delivered(Class::Bulk, body.len());
                if let Some(port) = ParcelPort::new((parcel - flow::PARCELS) as u8) {
                    self.haste.note_parcel(now, port);
                    self.events.push_back(Event::Parcel { port, bytes: Bytes::copy_from_slice(body) });
                }
            }
            flow::VIDEO_REPAIR => self.on_repair(now, index, body),
            _ => self.counters.malformed += 1,
        }
    }

    /// How long ago video left the other side. What it took over propagation is known by trusted heartbeats, as for setpoints, and by the
    /// fastest packet of the last 10 s: through a trickle even trusted heartbeats are late for more than the 2 s that they count.
    /// Propagation is taken for half of the smallest round trip, and for half of what a frame may be old at most: by way of a satellite no
    /// picture would be shown otherwise.
    pub(super) fn frame_age(&self, now: Instant, index: usize, sent_us: u32) -> Duration {
        let (now_us, bearer) = (self.clock.us(now), &self.bearers[index]);
        let trusted = bearer.delay.age_us(sent_us, now_us).unwrap_or_default();
        let over_propagation = Duration::from_micros(trusted.max(bearer.delay.excess_us(sent_us, now_us)));
        let propagation = bearer.heard.rtt_min.unwrap_or_default() / 2;
        over_propagation + propagation.min(self.config.reassembly.max_frame_age / 2)
    }

    fn on_copies(&mut self, now: Instant, connection: ConnectionId, mut body: &[u8], early: bool) {
        while !body.is_empty() {
            let before = body;
            if take_copy(&mut body).is_none() {
                self.counters.malformed += 1;
                return;
            }
            // Behind its length stands the message as on a stream.
            let mut copy = &before[..before.len() - body.len()];
            if take_varint(&mut copy).is_some() {
                self.on_message(now, connection, Bytes::copy_from_slice(copy), early);
            }
        }
    }

    fn on_heartbeat(&mut self, now: Instant, index: usize, sent_us: u32, body: &[u8]) {
        let Some(heartbeat) = Heartbeat::parse(body) else {
            self.counters.malformed += 1;
            return;
        };
        let received_us = self.inbound.received_us;
        self.inbound.peer_sees = Some((now, heartbeat));
        if let Some(window) = heartbeat.bulk {
            self.bulk_out.on_window(window);
        }
        let bearer = &mut self.bearers[index];
        bearer.heard.heartbeat = Some((sent_us, received_us));
        if let Some((echo_us, held_us)) = heartbeat.echo {
            let round_us = u64::from((received_us as u32).wrapping_sub(echo_us)).saturating_sub(held_us);
            let rtt = Duration::from_micros(round_us);
            bearer.delay.on_heartbeat(sent_us, received_us, round_us);
            if rtt < Duration::from_secs(60) {
                bearer.heard.on_rtt(rtt);
                bearer.round_trip.update(rtt);
                bearer.controller.on_rtt(now, rtt);
            }
        }
    }

    fn on_feedback(&mut self, now: Instant, index: usize, body: &[u8]) {
        let Some(feedback) = Feedback::parse(body) else {
            self.counters.malformed += 1;
            return;
        };
        let now_us = self.clock.us(now);
        let bearer = &mut self.bearers[index];
        bearer.pauses.on_word(now, bearer.overdue(now));
        if let Some(answered) = bearer.sent.on_feedback(&feedback, now_us) {
            bearer.round_trip.update(answered.round_trip(now_us));
        }
        if bearer.sent.take_other_clock() {
            bearer.controller.on_path_change(now);
        }
        self.on_fault(index);
        let load = self.load(now, index);
        let bearer = &mut self.bearers[index];
        bearer
            .controller
            .on_reports(now, Reports { now_us, packets: bearer.sent.reports(), held: bearer.sent.held(), load });
        self.on_fates(now, index);
    }

    /// Tells what was wrong with the report or the history that was taken in last, if anything was.
    fn on_fault(&mut self, index: usize) {
        let bearer = &self.bearers[index];
        if let Some(fault) = bearer.sent.fault() {
            self.on_report_fault(bearer.id, fault);
        }
    }

    pub(super) fn on_report_fault(&mut self, bearer: BearerId, fault: ReportFault) {
        self.counters.report_faults += 1;
        self.inbound.report_faults.note((bearer, fault));
    }

    fn on_history(&mut self, now: Instant, index: usize, body: &[u8]) {
        match History::parse(body) {
            Some(history) => {
                self.bearers[index].sent.on_history(&history);
                self.on_fault(index);
            }
            None => self.counters.malformed += 1,
        }
        self.on_fates(now, index);
    }

    /// What reports have told of datagrams of a bearer.
    fn on_fates(&mut self, now: Instant, index: usize) {
        let bearer = &mut self.bearers[index];
        bearer.count_known(now);
        let (id, fates) = (bearer.id, bearer.sent.take_fates());
        for Fate { datagram, kept, received } in fates {
            let datagram = DatagramId { bearer: id, number: datagram };
            match kept {
                Kept::Fragment(..) | Kept::Repair(..) => self.on_video_fate(now, index, kept, received),
                Kept::Batch(seq) => self.transactions.on_fate(seq, datagram, received),
                Kept::Bulk(offset) => self.bulk_out.on_fate(offset, datagram, received),
                Kept::Parcel => self.parcels.on_fate(datagram, received),
            }
        }
    }

    /// Gives out what reassembly has finished.
    pub(super) fn poll_reassembly(&mut self, now: Instant) {
        // A request sooner than a round trip after the last one could not have been answered yet.
        let up = self.bearers.iter().filter(|bearer| bearer.is_up());
        let interval = up.map(Bearer::rtt).max().unwrap_or_default() + Duration::from_millis(100);
        for index in 0..self.video_in.len() {
            let Some(reassembler) = self.video_in[index].as_mut() else { continue };
            reassembler.set_recovery_interval(interval);
            while let Some(event) = self.video_in[index].as_mut().and_then(|reassembler| reassembler.poll(now)) {
                self.on_video_event(now, index, event);
            }
        }
    }

    fn on_video_event(&mut self, now: Instant, index: usize, event: VideoEvent) {
        match event {
            VideoEvent::Frame(frame) => {
                let delay = now.saturating_duration_since(frame.born);
                self.inbound.pictures.on_picture(index, frame.born);
                self.latencies.by_class[Class::Video.index()].add(now, delay);
                self.counters.frames_late += u64::from(delay > LATE);
                let bytes = frame.packets.clone().map(|packet| packet.len()).sum();
                self.count_delivered(Class::Video, bytes);
                self.events.push_back(Event::Video { flow: index as u8, packets: frame.packets, delay });
            }
            VideoEvent::FramesLost { first, .. } => self.inbound.lost_frame[index] = first,
            VideoEvent::RecoveryNeeded => {
                self.counters.recovery_requests += 1;
                let frame = self.inbound.lost_frame[index];
                self.inbound.recovery.push_back(RecoveryRequest { video: index as u64, frame });
            }
        }
    }
}
