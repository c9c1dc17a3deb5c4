//! A session: one air-ground association.
//!
//! Sans-IO: hand in one input, then call [`Session::poll_output`] until it gives a timeout. The parts (bearer, queues,
//! controller, reassembly) do not know each other; everything meets here.

mod config;
mod event;
#[cfg(test)]
mod lies;
mod link_state;
mod radio;
mod receive;
mod stats;
mod transmit;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use noq_proto::EcnCodepoint;

pub use config::{SessionConfig, Side};
pub use event::{Event, LinkState, Output};
pub use stats::{ClassStats, Counters, Stats};

use crate::cc::{Controller, EncoderLag, Load, Radio};
use crate::feedback::{ArrivalLog, SentLog};
use crate::mavlink::treatment::Delivery;
use crate::mavlink::{Frame, MessageId};
use crate::quic::{BearerEvent, ConnectionId, QuicBearer};
use crate::replay::ReplayGuard;
use crate::sched::batches::Batches;
use crate::sched::outbox::Outbox;
use crate::sched::telemetry::{TelemetryDrops, TelemetryQueue};
use crate::seeded::SeededBytes;
use crate::signing::{PlaceIssuer, Resequencer};
use crate::video::{PushOutcome, Reassembler, SendQueue};
use crate::wire::{datagram::Heartbeat, flow};
use crate::{Bitrate, Class, delay::DelayBase};
use link_state::Silence;
use receive::{Inbound, Received};
use stats::Latencies;
use transmit::Outbound;

/// Revision of the protocol within `aquila/1`; see [`crate::wire::message::Hello`].
pub const PROTOCOL_REVISION: u64 = 2;

/// A video frame that is this old over propagation when it is given out is late: the pilot flies by an old picture.
pub const LATE: Duration = Duration::from_millis(200);

/// HEARTBEAT, SYSTEM_TIME, PING and TIMESYNC: latest-wins like setpoints, but worth something for a second.
const LIVENESS: [MessageId; 4] = [MessageId(0), MessageId(2), MessageId(4), MessageId(111)];

/// Changes of the encoder's rate smaller than this share are not reported, nor any before this time has passed.
const RATE_STEP: f64 = 0.04;
const RATE_INTERVAL: Duration = Duration::from_millis(100);

/// Frames had better not be encoded for this long before encoders that do not ask before each are told: three at 30 a
/// second. For less it is not worth it, they take as long to follow.
const HOLD_AFTER: Duration = Duration::from_millis(100);

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
    bearer: QuicBearer,
    controller: Box<dyn Controller>,
    outbox: Outbox,
    telemetry: TelemetryQueue,
    transactions: Batches,
    places: PlaceIssuer,
    video_out: Vec<SendQueue>,
    video_in: Vec<Option<Reassembler>>,
    bulk_out: VecDeque<Bytes>,
    bulk_bytes: usize,
    replay: ReplayGuard,
    /// The same for batches of telemetry, which count on their own; not kept over a restart.
    batches: ReplayGuard,
    replay_dirty: bool,
    resequencer: Resequencer<Received>,
    arrivals: ArrivalLog,
    sent: SentLog,
    delay: DelayBase,
    silence: Silence,
    inbound: Inbound,
    outbound: Outbound,
    latencies: Latencies,
    counters: Counters,
    last_target: Option<(Instant, Bitrate)>,
    /// When the encoder's rate was last looked at.
    target_looked_at: Option<Instant>,
    encoder_lag: EncoderLag,
    held: Option<Held>,
    radio: Radio,
    events: VecDeque<Event>,
    buffer: Vec<u8>,
    drained: bool,
}

/// Whether these bytes are a whole [`Session::replay_snapshot`].
pub fn is_replay_snapshot(bytes: &[u8]) -> bool {
    ReplayGuard::restore(bytes).is_ok()
}

/// Bytes of bulk data that wait in the session; more are refused, so that the writer waits.
const MAX_BULK: usize = 64 << 10;

impl Session {
    /// A session with no connection yet.
    ///
    /// # Errors
    /// If the identity cannot be used or the MTU is below QUIC's minimum.
    pub fn new(config: SessionConfig) -> Result<Self, rustls::Error> {
        let mut random = SeededBytes::new(&config.seed, "aquila session");
        let mut bearer = QuicBearer::new(config.quic.clone(), &mut random)?;
        bearer.set_wall_clock(config.since_1970);
        let replay = config.replay.as_deref().map(ReplayGuard::restore).transpose();
        Ok(Self {
            controller: config.congestion.build(config.encoder, |borrowed| bearer.lend(borrowed, config.started)),
            bearer,
            outbox: Outbox::new(config.control),
            telemetry: TelemetryQueue::new(config.telemetry),
            transactions: Batches::default(),
            places: PlaceIssuer::default(),
            video_out: config.video.iter().map(|video| SendQueue::new(video.clone())).collect(),
            video_in: (0..flow::MAX_VIDEO_FLOWS).map(|_| None).collect(),
            bulk_out: VecDeque::new(),
            bulk_bytes: 0,
            replay: replay.ok().flatten().unwrap_or_default(),
            batches: ReplayGuard::default(),
            replay_dirty: false,
            resequencer: Resequencer::default(),
            arrivals: ArrivalLog::default(),
            sent: SentLog::default(),
            delay: DelayBase::default(),
            silence: Silence::default(),
            inbound: Inbound::default(),
            outbound: Outbound::default(),
            latencies: Latencies::default(),
            counters: Counters::default(),
            last_target: None,
            target_looked_at: None,
            encoder_lag: EncoderLag::new(config.encoder),
            held: None,
            radio: Radio::default(),
            events: VecDeque::new(),
            buffer: Vec::new(),
            drained: true,
            config,
        })
    }

    /// Starts a connection to the other side, in place of one there may be. With a ticket from a former connection,
    /// commands leave with the very first packet.
    ///
    /// # Errors
    /// If `remote` is no address to send to.
    pub fn connect(&mut self, now: Instant, remote: SocketAddr) -> Result<(), noq_proto::ConnectError> {
        self.begin_input(now);
        self.replace_connection(now, remote)?;
        self.after_input(now);
        Ok(())
    }

    /// The answer to [`Event::AddressWanted`]. A connection to the same address that is complete, only silent, is kept
    /// until a new one is: after an outage the old one is back at once, after a restart of the other side only a new one
    /// is. Any other is replaced.
    ///
    /// # Errors
    /// As for [`Session::connect`].
    pub fn reconnect(&mut self, now: Instant, remote: SocketAddr) -> Result<(), noq_proto::ConnectError> {
        self.begin_input(now);
        if self.outbound.is_live_now() && self.bearer.remote() == Some(remote) {
            self.bearer.connect_aside(now, remote)?;
            self.silence.on_connect(now);
        } else {
            self.replace_connection(now, remote)?;
        }
        self.after_input(now);
        Ok(())
    }

    fn replace_connection(&mut self, now: Instant, remote: SocketAddr) -> Result<(), noq_proto::ConnectError> {
        self.bearer.connect(now, remote)?;
        self.outbox.requeue();
        self.on_new_connection(now);
        self.outbound.connection = self.bearer.active_connection();
        self.silence.on_connect(now);
        Ok(())
    }

    /// Takes in a UDP datagram that arrived at `received`, at or before `now`.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        received: Instant,
        from: SocketAddr,
        local: Option<IpAddr>,
        ecn: Option<EcnCodepoint>,
        data: BytesMut,
    ) {
        self.begin_input(now);
        self.counters.packets_in += 1;
        self.counters.bytes_in += data.len() as u64;
        self.outbound.bulk_blocked = false;
        self.inbound.received_us = self.clock_us(received.min(now));
        self.inbound.ecn = ecn.map_or(0, |ecn| ecn as u8);
        self.bearer.handle_datagram(now, from, local, ecn, data);
        self.after_input(now);
    }

    /// To be called when the time that [`Output::Timeout`] gave has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.begin_input(now);
        self.bearer.handle_timeout(now);
        self.after_input(now);
    }

    /// An interface or address of ours changed, or a link came up: probe at once.
    pub fn network_changed(&mut self, now: Instant) {
        self.begin_input(now);
        self.bearer.network_changed(now);
        self.outbound.probe_now(now);
        if !self.config.quic.listen
            && let Some(remote) = self.bearer.remote()
        {
            // An address that is connected to can be connected to.
            let _ = match self.outbound.is_live_now() {
                // The other side may send nothing to a new address before it has been validated, two round trips from
                // now. A session that is resumed beside it is answered after one.
                true => self.bearer.resume_aside(now, remote),
                // An attempt that has met silence waits longer each time: another one is sooner.
                false if self.bearer.abandon_unanswered(now) => self.replace_connection(now, remote),
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
        if self.video_out.get(flow).is_some_and(|queue| queue.queued_frames() == 0) {
            // As between two frames: in the middle of one it would seem that much waits.
            self.update_target(now);
        }
        let outcome = self.video_out.get_mut(flow).map(|queue| {
            if queue.counters().packets_in == 0 {
                queue.begin_grace(now);
            }
            queue.push(now, packet)
        });
        self.after_input(now);
        outcome
    }

    /// Sends bytes on the bulk stream; returns how many were taken, none when 64 kB wait already. They arrive complete
    /// and in order, or the connection ends ([`Event::Disconnected`]) and with it the stream: what is not there by then
    /// has to be written again.
    pub fn write_bulk(&mut self, now: Instant, bytes: &[u8]) -> usize {
        self.begin_input(now);
        let taken = bytes.len().min(MAX_BULK - self.bulk_bytes);
        if taken > 0 {
            self.bulk_bytes += taken;
            self.bulk_out.push_back(Bytes::copy_from_slice(&bytes[..taken]));
        }
        self.after_input(now);
        taken
    }

    /// Reads from the other side's bulk stream, at most `max` bytes; `None` when nothing is there. Not reading makes the
    /// other side wait.
    pub fn read_bulk(&mut self, now: Instant, max: usize) -> Option<Bytes> {
        self.begin_input(now);
        let bytes = self.bearer.read_bulk(max);
        if let Some(bytes) = &bytes {
            self.count_delivered(Class::Bulk, bytes.len());
        }
        self.after_input(now);
        bytes
    }

    /// Says goodbye; what [`Session::poll_output`] gives until the next timeout should still be sent.
    pub fn close(&mut self, now: Instant) {
        self.begin_input(now);
        self.bearer.close(now);
        self.after_input(now);
    }

    /// The next thing to do. Call it after each input until it gives [`Output::Timeout`].
    pub fn poll_output(&mut self, now: Instant) -> Output<'_> {
        if let Some(event) = self.events.pop_front() {
            return Output::Event(event);
        }
        loop {
            let mut transmit = self.bearer.poll_transmit_in_use(now, &mut self.buffer);
            // QUIC has nothing left: the gate may hand it one more packet's worth, commands first.
            if transmit.is_none() && self.feed(now) {
                continue;
            }
            transmit = transmit.or_else(|| self.bearer.poll_transmit(now, &mut self.buffer));
            let Some(transmit) = transmit else { break };
            self.counters.packets_out += 1;
            self.counters.bytes_out += self.buffer.len() as u64;
            return Output::Transmit(transmit, &self.buffer);
        }
        self.drained = true;
        Output::Timeout(self.next_deadline(now))
    }

    /// Bytes of the replay window to be kept over a restart, if it changed since the last call. Store them before handing
    /// on the frames of the same drain, or a crash in between lets a copy through.
    pub fn replay_snapshot(&mut self) -> Option<Vec<u8>> {
        std::mem::take(&mut self.replay_dirty).then(|| self.replay.snapshot())
    }

    /// Bytes of the resumption tickets to be kept over a restart, if they changed since the last call; see
    /// [`QuicConfig::resumption`](crate::quic::QuicConfig::resumption). Secret. Store them soon: a ticket that is
    /// used again costs a round trip, since the server knows that it was used.
    pub fn resumption_snapshot(&mut self) -> Option<Vec<u8>> {
        self.bearer.resumption_snapshot()
    }

    /// Counters and states for a status page.
    pub fn stats(&mut self, now: Instant) -> Stats {
        let mut classes = [ClassStats::default(); 4];
        for (class, stats) in classes.iter_mut().enumerate() {
            stats.latency = self.latencies.by_class[class].summary(now);
        }
        (classes[0].queued, classes[0].queued_bytes) = self.outbox.waiting();
        (classes[1].queued, classes[1].queued_bytes) = self.telemetry.waiting();
        classes[1].queued_bytes += self.transactions.bytes();
        classes[1].oldest = self.telemetry.oldest_age(now);
        for queue in &self.video_out {
            classes[2].queued += queue.queued_frames();
            classes[2].queued_bytes += queue.queued_bytes().as_usize();
            classes[2].oldest = classes[2].oldest.max(queue.oldest_age(now).unwrap_or_default());
        }
        (classes[3].queued, classes[3].queued_bytes) = (self.bulk_out.len(), self.bulk_bytes);
        let video_in = || self.video_in.iter().flatten().map(Reassembler::counters);
        let (datagrams_received, datagrams_lost) = self.sent.received_and_lost();
        let (told_at, there) = self.inbound.peer_sees.unwrap_or((now, Heartbeat::default()));
        let told = now.saturating_duration_since(told_at);
        Stats {
            at: now,
            state: self.silence.state(),
            silence: self.silence.age(now),
            rtt: self.bearer.rtt(),
            rtt_min: self.inbound.rtt_min(),
            remote: self.bearer.remote(),
            classes,
            unacknowledged: self.outbox.unacknowledged(),
            control_drops: self.outbox.drops(),
            telemetry_drops: self.telemetry_drops(),
            telemetry_fill: self.telemetry.fill(),
            frames_in: self.video_out.iter().map(|queue| queue.counters().frames_in).sum(),
            frames_sent: self.video_out.iter().map(|queue| queue.counters().frames_sent).sum(),
            frames_late: self.counters.frames_late,
            frames_dropped: self.video_out.iter().map(|queue| queue.counters().dropped_total()).sum(),
            frames_out: video_in().map(|counters| counters.frames_out).sum(),
            frames_lost: video_in().map(|counters| counters.frames_lost).sum(),
            frames_stale: video_in().map(|counters| counters.frames_stale).sum(),
            picture_age: self.inbound.picture_age(now),
            frames_shown_there: there.frames_received,
            frames_lost_there: there.frames_lost,
            frames_stale_there: there.frames_stale,
            picture_age_there: there.picture_age_ms.map(|ms| Duration::from_millis(ms) + told),
            held: self.held.is_some_and(|held| held.told),
            datagrams_received,
            datagrams_lost,
            controller: self.controller.name(),
            capacity: self.controller.capacity(),
            target_rate: self.target_rate(),
            window: self.controller.window(now).0,
            in_flight: self.sent.in_flight().0,
            queue_delay: self.controller.queue_delay(),
            radio: self.radio,
            counters: self.counters.clone(),
        }
    }

    /// A picture is there to be encoded: the rate to encode it for, or `None` if it should be left out.
    pub fn next_frame(&mut self, now: Instant) -> Option<Bitrate> {
        let load = self.load();
        self.controller.poll(now, load);
        let wanted = self.controller.target_rate();
        self.may_encode(now, load).then(|| self.encoder_lag.ask(wanted))
    }

    fn may_encode(&self, now: Instant, load: Load) -> bool {
        self.is_up() && self.controller.may_encode(now, load)
    }

    /// Puts another congestion controller in place, one that the configuration does not know.
    pub fn set_controller(&mut self, controller: Box<dyn Controller>) {
        self.controller = controller;
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
        self.bearer.set_wall_clock(self.config.since_1970 + now.saturating_duration_since(self.config.started));
    }

    /// What every input may have caused.
    fn after_input(&mut self, now: Instant) {
        while let Some(event) = self.bearer.poll_event() {
            self.on_bearer_event(now, event);
        }
        self.expire(now);
        self.release_in_order(now);
        self.poll_reassembly(now);
        self.update_link_state(now);
        self.update_hold(now);
    }

    fn on_bearer_event(&mut self, now: Instant, event: BearerEvent) {
        match event {
            BearerEvent::Connected { connection, remote, resumed } => {
                self.counters.connections += 1;
                self.counters.resumed += u64::from(resumed);
                // What was sent on another connection is sent again; what left on this one as early data is not.
                if self.outbound.connection != Some(connection) {
                    self.outbox.requeue();
                    self.on_new_connection(now);
                }
                self.outbound.on_connected(now, connection);
                self.video_out.iter_mut().for_each(|queue| queue.begin_grace(now));
                self.silence.on_word(now);
                self.events.push_back(Event::Connected { remote, resumed });
                self.release_held(now, connection);
            }
            BearerEvent::Resuming { connection } => self.outbound.resuming = Some((connection, 0)),
            BearerEvent::EarlyDataRejected => {
                self.outbox.requeue();
                self.on_new_connection(now);
            }
            BearerEvent::Message { connection, bytes, early } => self.on_stream(now, connection, bytes, early),
            BearerEvent::Datagram { connection, bytes, early } => self.on_datagram(now, connection, &bytes, early),
            BearerEvent::BulkReadable => self.events.push_back(Event::BulkReadable),
            BearerEvent::Acknowledged { token } => {
                self.silence.on_word(now);
                self.counters.acknowledged += u64::from(self.outbox.on_acknowledged(token));
            }
            BearerEvent::Refused { token } => self.outbox.requeue_one(token),
            BearerEvent::PeerMoved { from, to } => {
                self.controller.on_path_change(now);
                self.outbound.probe_now(now);
                self.events.push_back(Event::PeerMoved { from, to });
            }
            BearerEvent::Disconnected(reason) => {
                self.outbox.requeue();
                self.on_new_connection(now);
                self.silence.on_disconnected();
                self.events.push_back(Event::Disconnected(reason));
            }
            BearerEvent::Unknown(peer) => {
                self.counters.unknown_peers += u64::from(!peer.handshake);
                self.counters.handshakes_refused += u64::from(peer.handshake);
                self.inbound.on_unknown(peer);
            }
        }
    }

    /// Per-connection state begins anew.
    fn on_new_connection(&mut self, now: Instant) {
        self.outbound.on_new_connection();
        self.sent.reset();
        self.video_out.iter_mut().for_each(|queue| queue.set_tells_waits(false));
        self.transactions.on_new_connection();
        self.bulk_out.clear();
        self.bulk_bytes = 0;
        self.controller.on_path_change(now);
    }

    fn expire(&mut self, now: Instant) {
        self.outbox.expire(now);
        while let Some(stream) = self.outbox.take_cancelled() {
            self.bearer.cancel(stream);
        }
        self.transactions.expire(now);
        let stale_states = self.silence.state() != LinkState::Up && self.silence.just_recovered(now);
        self.telemetry.expire(now, stale_states);
        for (flow, queue) in self.video_out.iter_mut().enumerate() {
            if queue.next_deadline().is_some_and(|due| due <= now) {
                queue.handle_timeout(now);
            }
            if queue.take_recovery_needed() {
                self.counters.recovery_points_wanted += 1;
                self.events.push_back(Event::RecoveryPointWanted { flow: flow as u8 });
            }
        }
        if let Some((from, reason, count)) = self.inbound.take_unknown(now) {
            self.events.push_back(Event::Unknown { from, reason, count });
        }
    }

    fn update_link_state(&mut self, now: Instant) {
        let connected = self.bearer.is_connecting_or_ready();
        let limits = (self.config.stalled_after, self.config.lost_after);
        if let Some((state, silence)) = self.silence.update(now, connected, limits) {
            self.events.push_back(Event::State { state, silence });
        }
        if self.silence.address_wanted(now, connected) && !self.config.quic.listen {
            self.events.push_back(Event::AddressWanted);
        }
    }

    fn update_target(&mut self, now: Instant) {
        self.controller.poll(now, self.load());
        self.target_looked_at = Some(now);
        let target = self.target_rate();
        let changed = match self.last_target {
            None => true,
            Some((at, last)) => {
                now.saturating_duration_since(at) >= RATE_INTERVAL
                    && target.0.abs_diff(last.0) as f64 > last.0 as f64 * RATE_STEP
            }
        };
        if changed && !self.video_out.is_empty() {
            self.last_target = Some((now, target));
            self.events.push_back(Event::TargetRate(target));
        }
    }

    /// Tells encoders that do not ask before each frame to pause, and to go on.
    fn update_hold(&mut self, now: Instant) {
        let load = self.load();
        self.controller.poll(now, load);
        if self.video_out.is_empty() {
            return;
        }
        if self.target_looked_at.is_none_or(|at| now.saturating_duration_since(at) >= RATE_INTERVAL) {
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
        let due = !is_up || now.saturating_duration_since(held.since) >= HOLD_AFTER;
        if due && !std::mem::replace(&mut held.told, true) {
            self.counters.holds += 1;
            self.events.push_back(Event::Hold(true));
        }
    }

    /// When to tell them to pause, if nothing changes.
    fn hold_due(&self) -> Option<Instant> {
        self.held.filter(|held| !held.told).map(|held| held.since + HOLD_AFTER)
    }

    /// R_enc of [AQUILA eq. 7].
    fn target_rate(&self) -> Bitrate {
        self.config.encoder.clamp(self.controller.target_rate())
    }

    fn count_delivered(&mut self, class: Class, bytes: usize) {
        self.counters.delivered[class.index()] += 1;
        self.counters.delivered_bytes[class.index()] += bytes as u64;
    }

    /// Our wrapping-free microsecond clock: wall time, so that a restart does not set it back.
    fn clock_us(&self, at: Instant) -> u64 {
        (self.config.since_1970 + at.saturating_duration_since(self.config.started)).as_micros() as u64
    }

    fn connection_is_older(&self, connection: ConnectionId) -> bool {
        self.inbound.connection.is_some_and(|newest| connection < newest)
    }
}
