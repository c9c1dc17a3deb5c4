//! A session: one air-ground association.
//!
//! Sans-IO: hand in one input, then call [`Session::poll_output`] until it gives a timeout. The parts (bearer, queues,
//! controller, reassembly) do not know each other; everything meets here.

mod bearer;
mod bearers;
mod carrier;
mod config;
mod control;
mod encoding;
mod event;
mod haste;
mod link_state;
mod notice;
mod parcels;
mod parity;
mod pauses;
mod pictures;
mod radio;
mod radio_line;
mod receipts;
mod receive;
mod recovery;
mod rhythm;
mod round_trip;
mod route;
mod stats;
mod transmit;
mod words;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use noq_proto::EcnCodepoint;

pub use crate::feedback::ReportFault;
pub use crate::sched::parcels::{ParcelFate, ParcelPort};
pub use bearer::{BearerConfig, BearerCounters};
pub use config::{SessionConfig, Side};
pub use event::{Event, FrameBitrate, FrameTurn, LinkState, Output};
pub use stats::{BearerStats, CameraStats, ClassStats, Counters, Stats};

use crate::cc::{Controller, EncoderLag, EncoderRange, LatelyTold, Load, Response};
use crate::mavlink::treatment::Delivery;
use crate::mavlink::{Frame, MessageId};
use crate::quic::{BearerEvent, Door};
use crate::replay::ReplayGuard;
use crate::replication::Budget;
use crate::sched::batches::Batches;
use crate::sched::bulk::{BulkReceiver, BulkSender};
use crate::sched::outbox::Outbox;
use crate::sched::parcels::Parcels;
use crate::sched::telemetry::{TelemetryDrops, TelemetryQueue};
use crate::signing::{PlaceIssuer, Resequencer};
use crate::video::{PushOutcome, Reassembler, SendQueue};
use crate::wire::flow;
use crate::{BearerId, Bitrate, Class};
use bearer::{Bearer, Clock};
use carrier::{CarrierEvent, Leaves};
use encoding::Encoding;
use haste::Haste;
use parity::Repairs;
use radio::ModemTeller;
use receipts::Receipts;
use receive::{Inbound, Received};
use recovery::RecoveryPoints;
use rhythm::Rhythm;
use route::Route;
use stats::Latencies;

/// Revision of the protocol within `aquila/1`; see [`crate::wire::message::Hello`].
pub const PROTOCOL_REVISION: u64 = 7;

/// A video frame that is this old when it is given out is late: the pilot flies by an old picture.
pub const LATE: Duration = Duration::from_millis(200);

/// HEARTBEAT, SYSTEM_TIME, PING and TIMESYNC: latest-wins like setpoints, but worth something for a second.
const LIVENESS: [MessageId; 4] = [MessageId(0), MessageId(2), MessageId(4), MessageId(111)];

/// Changes of the encoder's rate smaller than this share are not reported.
const RATE_STEP: f64 = 0.04;
/// Of what lasts, for an encoder that is told seldom. Its recovery points are queues that nobody works off: when this was chosen, with one
/// of four frames each second, 1.0 in its place had a fifth of the pictures not shown, 0.9 had 2 % (lab scenario `seldom`).
const SELDOM_SHARE: f64 = 0.85;

/// A picture that waits for its turn asks for it again after this.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// What encoders were told last.
#[derive(Debug, Clone, Copy)]
struct ToldRate {
    at: Instant,
    asked: Bitrate,
    lasting: Bitrate,
}

impl ToldRate {
    /// By more than is worth a word.
    fn differs_from(&self, last: &Self) -> bool {
        let differs = |now: Bitrate, last: Bitrate| now.0.abs_diff(last.0) as f64 > last.0 as f64 * RATE_STEP;
        differs(self.asked, last.asked) || differs(self.lasting, last.lasting)
    }
}

/// Frames had better not be encoded, since when, and whether encoders were told.
#[derive(Debug, Clone, Copy)]
struct Held {
    since: Instant,
    told: bool,
}

/// One end of an air-ground association.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    clock: Clock,
    /// In order of their numbers.
    bearers: Vec<Bearer>,
    /// Bearers made so far, each with randomness of its own.
    made: u64,
    door: Door,
    telemetry_route: Route,
    video_route: Route,
    /// Video will take another way once no frame is under way: no other begins.
    video_leaves: bool,
    /// The link's: the best of its bearers'.
    state: LinkState,
    haste: Haste,
    budget: Budget,
    receipts: Receipts,
    outbox: Outbox,
    telemetry: TelemetryQueue,
    transactions: Batches,
    places: PlaceIssuer,
    video_out: Vec<SendQueue>,
    video_in: Vec<Option<Reassembler>>,
    repairs: Repairs,
    bulk_out: BulkSender,
    bulk_in: BulkReceiver,
    parcels: Parcels,
    replay: ReplayGuard,
    /// The same for batches of telemetry, which count on their own; not kept over a restart.
    batches: ReplayGuard,
    replay_dirty: bool,
    resequencer: Resequencer<Received>,
    inbound: Inbound,
    next_video: usize,
    latencies: Latencies,
    counters: Counters,
    last_target: Option<ToldRate>,
    /// When the encoder's rate was last looked at.
    target_looked_at: Option<Instant>,
    /// Of an encoder that asks before each frame.
    encoder_lag: EncoderLag,
    /// Of one that does not.
    told_lag: EncoderLag,
    rhythm: Rhythm,
    /// Of each flow.
    encodings: Vec<Encoding>,
    /// Likewise.
    recovery: Vec<RecoveryPoints>,
    held: Option<Held>,
    radio: LatelyTold,
    /// When somebody who asks the modem itself told of it last.
    modem_asked: Option<Instant>,
    modem_teller: ModemTeller,
    events: VecDeque<Event>,
    buffer: Vec<u8>,
    drained: bool,
}

/// Whether these bytes are a whole [`Session::replay_snapshot`].
pub fn is_replay_snapshot(bytes: &[u8]) -> bool {
    ReplayGuard::restore(bytes).is_ok()
}

/// A UDP datagram that came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// On the socket of this bearer; a side that listens has one socket for all.
    pub bearer: Option<BearerId>,
    /// When, at or before now.
    pub received: Instant,
    /// Where from.
    pub from: SocketAddr,
    /// To which of our addresses, if that matters.
    pub local: Option<IpAddr>,
    /// ECN field.
    pub ecn: Option<EcnCodepoint>,
}

impl Arrival {
    /// One of which no more is known.
    pub fn new(received: Instant, from: SocketAddr) -> Self {
        Self { bearer: None, received, from, local: None, ecn: None }
    }
}

impl Session {
    /// A session with no connection yet.
    ///
    /// # Errors
    /// If the identity cannot be used or the MTU is below QUIC's minimum.
    ///
    /// # Panics
    /// If there are more bearers than [`BearerId::COUNT`].
    pub fn new(config: SessionConfig) -> Result<Self, rustls::Error> {
        assert!(config.bearers.len() <= BearerId::COUNT, "too many bearers");
        let replay = config.replay.as_deref().map(ReplayGuard::restore).transpose();
        // Varints have 62 bits; the newest stream of a life begins above all of the life before.
        let stream = config.epoch.min(1 << 52) << 8 | 1;
        // What it makes over after a fall, those who tell it know better, unless the dip is bounded, which makes it safe to ask for less.
        let Response { fall, dip, .. } = config.encoder.response;
        let response = Response { fall: if dip > 0.0 { fall } else { 1.0 }, ..config.encoder.response };
        let told = EncoderRange { response, ..config.encoder };
        let mut session = Self {
            clock: Clock { started: config.started, since_1970: config.since_1970 },
            bearers: Vec::new(),
            made: 0,
            door: Door::new(&config.quic.identity, &config.quic.peer),
            telemetry_route: Route::default(),
            video_route: Route::default(),
            video_leaves: false,
            state: LinkState::Down,
            haste: Haste::default(),
            budget: Budget::default(),
            receipts: Receipts::default(),
            outbox: Outbox::new(config.control),
            telemetry: TelemetryQueue::new(config.telemetry),
            transactions: Batches::default(),
            places: PlaceIssuer::default(),
            video_out: config.video.iter().map(|video| SendQueue::new(video.clone())).collect(),
            video_in: (0..flow::MAX_VIDEO_FLOWS).map(|_| None).collect(),
            repairs: Repairs::new(&config),
            bulk_out: BulkSender::new(stream),
            bulk_in: BulkReceiver::default(),
            parcels: Parcels::default(),
            replay: replay.ok().flatten().unwrap_or_default(),
            batches: ReplayGuard::default(),
            replay_dirty: false,
            resequencer: Resequencer::default(),
            inbound: Inbound::default(),
            next_video: 0,
            latencies: Latencies::default(),
            counters: Counters::default(),
            last_target: None,
            target_looked_at: None,
            encoder_lag: EncoderLag::new(config.encoder),
            told_lag: EncoderLag::new(told),
            rhythm: Rhythm::default(),
            encodings: config.video.iter().map(|_| Encoding::default()).collect(),
            recovery: config.video.iter().map(|_| RecoveryPoints::default()).collect(),
            held: None,
            radio: LatelyTold::default(),
            modem_asked: None,
            modem_teller: ModemTeller::default(),
            events: VecDeque::new(),
            buffer: Vec::new(),
            drained: true,
            config,
        };
        let mut bearers = std::mem::take(&mut session.config.bearers);
        if session.config.quic.listen {
            bearers.retain(|bearer| bearer.radio.is_some());
        }
        if bearers.is_empty() || session.config.quic.listen {
            // One there is always: of one that listens, that of a peer who has no more.
            bearers.insert(0, BearerConfig::default());
        }
        for config in bearers {
            let Some(id) = session.free_id(&config) else { break };
            session.insert_bearer(id, config)?;
        }
        session.update_routes(session.clock.started);
        Ok(session)
    }

    /// Takes in a UDP datagram.
    pub fn handle_datagram(&mut self, now: Instant, arrival: Arrival, data: BytesMut) {
        self.begin_input(now);
        let Arrival { from, local, ecn, received, .. } = arrival;
        if let Some(index) = self.bearer_for(&arrival, &data) {
            let bearer = &mut self.bearers[index];
            bearer.counters.packets_in += 1;
            bearer.counters.bytes_in += data.len() as u64;
            self.inbound.received_us = self.clock.us(received.min(now));
            self.inbound.ecn = ecn.map_or(0, |ecn| ecn as u8);
            bearer.carrier.handle_datagram(now, from, local, ecn, data);
        }
        self.after_input(now);
    }

    /// Takes in what a radio's line has delivered: bytes, or one packet.
    pub fn handle_line(&mut self, now: Instant, bearer: BearerId, bytes: &[u8]) {
        self.begin_input(now);
        if let Some(index) = self.index_of(bearer) {
            let bearer = &mut self.bearers[index];
            bearer.counters.packets_in += 1;
            bearer.counters.bytes_in += bytes.len() as u64;
            self.inbound.received_us = self.clock.us(now);
            self.inbound.ecn = 0;
            bearer.carrier.as_radio_mut().into_iter().for_each(|radio| radio.handle_bytes(now, bytes));
        }
        self.after_input(now);
    }

    /// To be called when the time that [`Output::Timeout`] gave has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.begin_input(now);
        self.bearers.iter_mut().for_each(|bearer| bearer.carrier.handle_timeout(now));
        self.after_input(now);
    }

    /// An interface or address of ours changed, or a link came up: probe at once, on that bearer or on all.
    pub fn network_changed(&mut self, now: Instant, changed: Option<BearerId>) {
        self.begin_input(now);
        for index in 0..self.bearers.len() {
            let bearer = &mut self.bearers[index];
            if changed.is_some_and(|id| id != bearer.id) {
                continue;
            }
            bearer.carrier.network_changed(now);
            bearer.outbound.probe_now(now);
            let Some(remote) = bearer.carrier.remote().filter(|_| !self.config.quic.listen) else { continue };
            let live = bearer.outbound.is_live_now();
            let Some(quic) = bearer.carrier.as_quic() else { continue };
            // An address that is connected to can be connected to.
            let _ = match live {
                // The other side may send nothing to a new address before it has been validated, two round trips from
                // now. A session that is resumed beside it is answered after one.
                true => quic.resume_aside(now, remote),
                // An attempt that has met silence waits longer each time: another one is sooner.
                false if quic.abandon_unanswered(now) => self.replace_connection(now, index, remote),
                false => Ok(()),
            };
        }
        self.after_input(now);
    }

    /// Sends a MAVLink frame to the other side.
    pub fn send_mavlink(&mut self, now: Instant, frame: &Frame) {
        self.begin_input(now);
        self.note_radio(now, frame);
        let treatment = self.config.policy.treatment(frame.message_id());
        self.counters.accepted[treatment.class.index()] += 1;
        match (treatment.delivery, treatment.class) {
            (Delivery::Setpoint, _) => {
                self.outbox.push_setpoint(now, frame, LIVENESS.contains(&frame.message_id()));
            }
            (Delivery::State, _) => self.telemetry.push_state(now, frame),
            (Delivery::Reliable, Class::Control) => self.outbox.push_command(now, frame),
            (Delivery::Reliable, _) => self.telemetry.push_transaction(now, frame),
        }
        self.after_input(now);
    }

    /// Sends a packet of a camera's stream to the other side; `flow` is an index into [`SessionConfig::video`].
    pub fn send_video(&mut self, now: Instant, flow: usize, packet: &[u8]) -> Option<PushOutcome> {
        self.begin_input(now);
        self.counters.accepted[Class::Video.index()] += 1;
        let outcome = self.video_out.get_mut(flow).map(|queue| {
            if queue.counters().packets_in == 0 {
                queue.begin_grace(now);
            }
            let pictures = |queue: &SendQueue| queue.counters().frames_in - queue.counters().frames_beside;
            let before = pictures(queue);
            queue.set_waited_raw(self.encodings[flow].age(now));
            let outcome = queue.push(now, packet);
            if pictures(queue) > before {
                let waited = self.encodings[flow].end(now);
                let leads = self.rhythm.on_frame(now.checked_sub(waited).unwrap_or(now), flow);
                if let (true, Some(told)) = (leads, self.last_target) {
                    self.told_lag.on_frame(told.asked);
                }
            }
            outcome
        });
        self.after_input(now);
        outcome
    }

    /// A viewer of the other side's camera `flow` has not seen the pictures before, for instance since it has just begun to look: asks for a
    /// recovery point, until one comes and no sooner after the last request than after a loss. Does nothing before any video has come.
    pub fn request_recovery_point(&mut self, now: Instant, flow: usize) {
        self.begin_input(now);
        if let Some(Some(reassembler)) = self.video_in.get_mut(flow) {
            reassembler.want_recovery();
        }
        self.after_input(now);
    }

    /// Sends bytes on the bulk stream; returns how many were taken, none when 64 kB wait already. They arrive complete
    /// and in order, by whatever bearers have room; or the other side's process is started anew ([`Event::BulkRestarted`]), and
    /// what it had not handed on has to be written again.
    pub fn write_bulk(&mut self, now: Instant, bytes: &[u8]) -> usize {
        self.begin_input(now);
        let taken = self.bulk_out.write(bytes);
        self.after_input(now);
        taken
    }

    /// Reads from the other side's bulk stream, at most `max` bytes; `None` when nothing is there. Not reading makes the
    /// other side wait.
    pub fn read_bulk(&mut self, now: Instant, max: usize) -> Option<Bytes> {
        self.begin_input(now);
        let bytes = self.bulk_in.read(max);
        if let Some(bytes) = &bytes {
            self.count_delivered(Class::Bulk, bytes.len());
        }
        if self.bulk_in.has_news() {
            // It rides on a heartbeat.
            let up = self.bearers.iter_mut().filter(|bearer| bearer.is_up());
            up.for_each(|bearer| bearer.outbound.heartbeat_due = Some(now));
            self.bulk_in.window();
        }
        self.after_input(now);
        bytes
    }

    /// Says goodbye; what [`Session::poll_output`] gives until the next timeout should still be sent.
    pub fn close(&mut self, now: Instant) {
        self.begin_input(now);
        self.bearers.iter_mut().for_each(|bearer| bearer.carrier.close(now));
        self.after_input(now);
    }

    /// The next thing to do. Call it after each input until it gives [`Output::Timeout`].
    pub fn poll_output(&mut self, now: Instant) -> Output<'_> {
        if let Some(event) = self.events.pop_front() {
            return Output::Event(event);
        }
        loop {
            let buffer = &mut self.buffer;
            let in_use = |bearer: &mut Bearer| Some((bearer.carrier.poll_transmit_in_use(now, buffer)?, bearer.id));
            let mut transmit = self.bearers.iter_mut().find_map(in_use);
            // QUIC has nothing left: the gate may hand it one more packet's worth, commands first.
            if transmit.is_none() && self.feed(now) {
                continue;
            }
            let buffer = &mut self.buffer;
            let any = |bearer: &mut Bearer| Some((bearer.carrier.poll_transmit(now, buffer)?, bearer.id));
            transmit = transmit.or_else(|| self.bearers.iter_mut().find_map(any));
            let Some((transmit, id)) = transmit else { break };
            if let Some(index) = self.index_of(id) {
                let counters = &mut self.bearers[index].counters;
                counters.packets_out += 1;
                counters.bytes_out += self.buffer.len() as u64;
            }
            return match transmit {
                Leaves::Packet(transmit) => Output::Transmit(id, transmit, &self.buffer),
                Leaves::Line => Output::Line(id, &self.buffer),
            };
        }
        if let Some(event) = self.events.pop_front() {
            return Output::Event(event);
        }
        self.bearers.retain(|bearer| !bearer.leaving);
        self.drained = true;
        Output::Timeout(self.next_deadline(now))
    }

    /// Bytes of the replay window to be kept over a restart, if it changed since the last call. Store them before handing
    /// on the frames of the same drain, or a crash in between lets a copy through.
    pub fn replay_snapshot(&mut self) -> Option<Vec<u8>> {
        std::mem::take(&mut self.replay_dirty).then(|| self.replay.snapshot())
    }

    /// Bytes of a bearer's resumption tickets to be kept over a restart, if they changed since the last call; see
    /// [`BearerConfig::resumption`]. Call it until it gives none. Secret. Store them soon: a ticket that is
    /// used again costs a round trip, since the server knows that it was used.
    pub fn resumption_snapshot(&mut self) -> Option<(BearerId, Vec<u8>)> {
        self.bearers.iter_mut().find_map(|bearer| Some((bearer.id, bearer.carrier.snapshot()?)))
    }

    /// A picture of camera `flow` is there to be encoded, and has been for as long as it `waited`: what should become of it. One that the link does not take
    /// at once may wait for up to three quarters of the time until the next, if the controller has patience: the link may then carry
    /// more than it seemed to, and no frame has been spent on finding that out.
    pub fn next_frame(&mut self, now: Instant, flow: usize, waited: Duration) -> FrameTurn {
        let index = self.video_bearer();
        let until_frame = self.encodings.get(flow).map_or(Duration::ZERO, Encoding::takes);
        let load = Load { until_frame, waited, ..self.load(now, index) };
        self.bearers[index].controller.poll(now, load);
        if self.may_encode(now, load) {
            if let Some(encoding) = self.encodings.get_mut(flow) {
                encoding.begin(now, waited);
            }
            let wanted = self.beside_parity(self.carried_video());
            let rate = FrameBitrate { asked: self.encoder_lag.ask(wanted), lasting: self.lasting_rate(1.0) };
            return FrameTurn::Encode(rate);
        }
        let until_next = self.rhythm.interval(now, flow).unwrap_or_default();
        let patience = self.bearers[index].controller.patience().min(until_next * 3 / 4);
        if waited + LOOK_AGAIN <= patience {
            return FrameTurn::Wait(LOOK_AGAIN);
        }
        self.rhythm.on_hold();
        FrameTurn::LeaveOut
    }

    fn may_encode(&self, now: Instant, load: Load) -> bool {
        let bearer = &self.bearers[self.video_bearer()];
        bearer.is_up() && bearer.controller.may_encode(now, load)
    }

    /// The bearer that video takes, or took last; some bearer there is always.
    fn video_bearer(&self) -> usize {
        self.way_of(Class::Video).unwrap_or(0)
    }

    /// Puts another congestion controller in place on all bearers, one that the configuration does not know.
    pub fn set_controller(&mut self, controller: impl Fn() -> Box<dyn Controller>) {
        self.bearers.iter_mut().for_each(|bearer| bearer.controller = controller());
    }

    fn telemetry_drops(&self) -> TelemetryDrops {
        let drops = self.telemetry.drops();
        TelemetryDrops { expired: drops.expired + self.transactions.expired(), ..drops }
    }

    /// Which end this is.
    pub fn side(&self) -> Side {
        self.config.side
    }

    fn begin_input(&mut self, now: Instant) {
        debug_assert!(self.drained, "drain poll_output until it gives a timeout before the next input");
        self.drained = false;
        let since_1970 = self.config.since_1970 + now.saturating_duration_since(self.config.started);
        self.bearers.iter_mut().for_each(|bearer| bearer.carrier.set_wall_clock(since_1970));
    }

    /// What every input may have caused.
    fn after_input(&mut self, now: Instant) {
        let hurried = [Class::Control, Class::Telemetry, Class::Video].map(Class::index);
        let Counters { accepted, delivered, .. } = &self.counters;
        self.haste.note(now, hurried.map(|class| accepted[class] + delivered[class]).iter().sum());
        for index in 0..self.bearers.len() {
            while let Some(event) = self.bearers[index].carrier.poll_event() {
                match event {
                    CarrierEvent::Quic(event) => self.on_bearer_event(now, index, event),
                    CarrierEvent::Radio(event) => self.on_radio_event(now, index, event),
                }
            }
        }
        self.expire(now);
        self.release_in_order(now);
        self.poll_reassembly(now);
        self.update_link_state(now);
        self.tell_parcels();
        self.update_routes(now);
        self.ask_recovery_points(now);
        self.update_hold(now);
    }

    fn on_bearer_event(&mut self, now: Instant, index: usize, event: BearerEvent) {
        let id = self.bearers[index].id;
        match event {
            BearerEvent::Connected { connection, remote, resumed } => {
                self.on_connected(now, index, connection, resumed);
                self.events.push_back(Event::Connected { bearer: id, remote: Some(remote), resumed });
                self.release_held(now, connection);
            }
            BearerEvent::Resuming { connection } => self.bearers[index].outbound.resuming = Some((connection, 0)),
            BearerEvent::EarlyDataRejected => self.on_connection_gone(now, index),
            BearerEvent::Message { connection, bytes, early } => self.on_stream(now, connection, bytes, early),
            BearerEvent::Datagram { connection, bytes, early } => self.on_datagram(now, connection, &bytes, early),
            BearerEvent::Acknowledged { token } => {
                self.bearers[index].silence.on_word(now);
                self.on_acknowledged(token);
            }
            BearerEvent::Refused { token } => self.outbox.requeue_one(token),
            BearerEvent::PeerMoved { from, to } => {
                self.bearers[index].controller.on_path_change(now);
                self.bearers[index].outbound.probe_now(now);
                self.events.push_back(Event::PeerMoved { bearer: id, from, to });
            }
            BearerEvent::Disconnected(reason) => {
                self.on_connection_gone(now, index);
                self.bearers[index].silence.on_disconnected();
                self.events.push_back(Event::Disconnected { bearer: id, reason });
            }
            BearerEvent::Unknown(peer) => {
                self.counters.unknown_peers += u64::from(!peer.handshake);
                self.counters.handshakes_refused += u64::from(peer.handshake);
                self.inbound.unknown.note(peer);
            }
        }
    }

    /// The other side has a message.
    fn on_acknowledged(&mut self, seq: u64) {
        let held = self.outbox.unacknowledged();
        let stream = self.outbox.on_acknowledged(seq);
        self.counters.acknowledged += (held - self.outbox.unacknowledged()) as u64;
        self.cancel_on_radios(seq);
        // It came by another bearer. Where nothing is heard, QUIC would send it again as soon as something is.
        if let Some(index) = stream.and_then(|stream| self.index_of(stream.bearer())).filter(|_| self.bearers.len() > 1)
            && let Some(stream) = stream
            && !self.bearers[index].is_up()
        {
            self.bearers[index].carrier.cancel(stream);
        }
    }

    fn expire(&mut self, now: Instant) {
        self.outbox.expire(now);
        while let Some((seq, stream)) = self.outbox.take_cancelled() {
            self.cancel_on_radios(seq);
            if let Some((stream, index)) = stream.and_then(|stream| Some((stream, self.index_of(stream.bearer())?))) {
                self.bearers[index].carrier.cancel(stream);
            }
        }
        self.transactions.expire(now);
        let recovered = || self.bearers.iter().any(|bearer| bearer.silence.just_recovered(now));
        let stale_states = self.state != LinkState::Up && recovered();
        self.telemetry.expire(now, stale_states);
        for (flow, queue) in self.video_out.iter_mut().enumerate() {
            if queue.next_deadline().is_some_and(|due| due <= now) {
                queue.handle_timeout(now);
            }
            if queue.take_recovery_needed() {
                self.recovery[flow].want();
            }
        }
        if let Some((peer, count)) = self.inbound.unknown.take(now) {
            self.events.push_back(Event::Unknown { from: peer.from, reason: peer.reason, count });
        }
        if let Some(((bearer, fault), count)) = self.inbound.report_faults.take(now) {
            self.events.push_back(Event::ReportFaults { bearer, fault, count });
        }
    }

    fn ask_recovery_points(&mut self, now: Instant) {
        for (flow, points) in self.recovery.iter_mut().enumerate() {
            if points.take(now) {
                self.counters.recovery_points_wanted += 1;
                self.events.push_back(Event::RecoveryPointWanted { flow: flow as u8 });
            }
        }
    }

    fn update_target(&mut self, now: Instant) {
        let index = self.video_bearer();
        let load = self.load(now, index);
        self.bearers[index].controller.poll(now, load);
        self.target_looked_at = Some(now);
        let target = self.target_rate();
        let rate = ToldRate { at: now, asked: self.told_lag.answer(target), lasting: self.lasting_rate(1.0) };
        let is_due = self.last_target.is_none_or(|last| {
            now.saturating_duration_since(last.at) >= self.config.encoder.told_every && rate.differs_from(&last)
        });
        if is_due && !self.video_out.is_empty() {
            self.last_target = Some(rate);
            let (asked, lasting, seldom) = (rate.asked, rate.lasting, self.lasting_rate(SELDOM_SHARE));
            self.events.push_back(Event::TargetRate { target, asked, lasting, seldom });
        }
    }

    /// Tells encoders that do not ask before each frame to pause, and to go on.
    fn update_hold(&mut self, now: Instant) {
        let mut load = Load::default();
        for index in 0..self.bearers.len() {
            let own = self.load(now, index);
            self.bearers[index].controller.poll(now, own);
            if index == self.video_bearer() {
                load = own;
            }
        }
        if self.video_out.is_empty() {
            return;
        }
        let told_every = self.config.encoder.told_every;
        if self.target_looked_at.is_none_or(|at| now.saturating_duration_since(at) >= told_every) {
            self.update_target(now);
        }
        if self.may_encode(now, load) {
            if self.held.take().is_some_and(|held| held.told) {
                self.events.push_back(Event::Hold(false));
            }
            return;
        }
        let is_up = self.is_up();
        let held = self.held.get_or_insert(Held { since: now, told: false });
        let due = !is_up || now.saturating_duration_since(held.since) >= told_every;
        self.rhythm.on_hold();
        if due && !std::mem::replace(&mut held.told, true) {
            self.counters.holds += 1;
            self.events.push_back(Event::Hold(true));
        }
    }

    /// When to tell them to pause, if nothing changes.
    fn hold_due(&self) -> Option<Instant> {
        self.held.filter(|held| !held.told).map(|held| held.since + self.config.encoder.told_every)
    }

    /// R_enc of [AQUILA eq. 7].
    fn target_rate(&self) -> Bitrate {
        self.config.encoder.clamp(self.beside_parity(self.carried_video()))
    }

    /// The same without what works off the queue of the moment, or a share of that.
    fn lasting_rate(&self, share: f64) -> Bitrate {
        let controller = &self.bearers[self.video_bearer()].controller;
        self.config.encoder.clamp(self.beside_parity(controller.lasting_rate()) * share)
    }

    /// What the link carries of video, as far as the encoder should know.
    fn carried_video(&self) -> Bitrate {
        let controller = &self.bearers[self.video_bearer()].controller;
        self.config.encoder.wanted(controller.target_rate(), controller.lasting_rate())
    }

    fn count_delivered(&mut self, class: Class, bytes: usize) {
        self.counters.delivered[class.index()] += 1;
        self.counters.delivered_bytes[class.index()] += bytes as u64;
    }

    /// Something can be sent that is not control.
    fn is_up(&self) -> bool {
        self.state == LinkState::Up
    }
}
