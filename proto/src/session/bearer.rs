//! One bearer of a session: its connection, its congestion control, and what is known of its health.
//!
//! What belongs to a bearer is here, what belongs to the session is not: the death of one disturbs no other.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::{BufMut, BytesMut};

use super::carrier::Carrier;
use super::link_state::Silence;
use super::pauses::Pauses;
use super::round_trip::RoundTrip;
use super::transmit::Outbound;
use super::words::Words;
use super::{LinkState, SessionConfig};
use crate::aerotp::{Handling, RadioConfig};
use crate::cc::OpenLoop;
use crate::cc::{Controller, SentPacket};
use crate::delay::DelayBase;
use crate::feedback::{ArrivalLog, DatagramId, Kept, Leaving, REPORT_DELAY, SentLog};
use crate::quic::ConnectionId;
use crate::replication::{Candidate, LossMeter, Repetitions, Told};
use crate::seeded::SeededBytes;
use crate::wire::datagram::{DatagramHeader, Heartbeat};
use crate::wire::flow;
use crate::{BearerId, Bitrate, ByteCount, Class, Usage};

/// QUIC's own bytes around a datagram: short header with connection id and packet number, frame header, AEAD tag
/// (RFC 9000 §17.3, RFC 9221 §4).
pub(super) const PACKET_OVERHEAD: usize = 1 + 8 + 2 + 3 + 16;
/// What was lost in a silence is told within a round trip and this after it.
const HOLE_TOLD: Duration = Duration::from_millis(250);
/// Until a round trip has been measured.
const ASSUMED_RTT: Duration = Duration::from_millis(100);
/// A bearer of which a report has been missing for longer may have failed.
pub(super) const OVERDUE: Duration = Duration::from_millis(10);
/// More lost than this is much; and so is silence on all that has left for so long. An outage is shorter, mostly, and loses nothing.
const LOSES_MUCH: f64 = 0.3;
const UNTOLD: Duration = Duration::from_secs(2);
/// If nothing that leaves is reported for so long, although the other side is heard, somebody should know.
const MISSED: Duration = Duration::from_secs(5);
/// A round trip below all of the last this many heartbeats is the smallest of late.
const RTT_SAMPLES: usize = 100;

/// What belongs to no message that is kept.
const LOOSE: Handling = Handling { class: Class::Control, token: None };
/// A heartbeat on a radio, with all around it, takes at most this share of its rate; but none leaves less often than this, since
/// age is told by those that are not much older than a second.
const HEARTBEAT_SHARE: f64 = 0.025;
const HEARTBEAT_BYTES: ByteCount = ByteCount(110);
const SLOWEST_HEARTBEAT: Duration = Duration::from_millis(1200);

/// What a bearer is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BearerConfig {
    /// What people call it, on both sides.
    pub name: String,
    /// What it may be used for.
    pub usage: Usage,
    /// [`Session::resumption_snapshot`](super::Session::resumption_snapshot) of the former life, of the same bearer or another.
    pub resumption: Option<Vec<u8>>,
    /// It is a radio, over which AeroTP is spoken; else it is QUIC over a network.
    pub radio: Option<RadioConfig>,
}

/// Microsecond clock of an end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    pub started: Instant,
    pub since_1970: Duration,
}

impl Clock {
    /// Without wrapping: wall time, so that a restart does not set it back.
    pub fn us(&self, at: Instant) -> u64 {
        (self.since_1970 + at.saturating_duration_since(self.started)).as_micros() as u64
    }
}

/// Running counters of a bearer; all since the session began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BearerCounters {
    /// UDP packets sent.
    pub packets_out: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Packets received.
    pub packets_in: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Connections completed.
    pub connections: u64,
    /// Of them by 0-RTT.
    pub resumed: u64,
    /// Control messages of which a copy was sent here.
    pub control_out: u64,
    /// Control messages whose first copy came here: it won.
    pub control_won: u64,
    /// Copies of control messages that came here after another had won.
    pub control_late: u64,
}

/// One bearer.
#[derive(Debug)]
pub(super) struct Bearer {
    pub id: BearerId,
    pub name: String,
    /// What we, and what the other side, may use it for.
    pub usage: [Usage; 2],
    pub carrier: Carrier,
    pub controller: Box<dyn Controller>,
    pub arrivals: ArrivalLog,
    pub sent: SentLog,
    pub delay: DelayBase,
    pub silence: Silence,
    pub heard: Heard,
    pub round_trip: RoundTrip,
    pub outbound: Outbound,
    pub loss: LossMeter,
    /// The same without holes: what is lost while the bearer is out says nothing of it afterwards.
    pub steady_loss: LossMeter,
    /// When it was last heard again after silence.
    pub returned: Option<Instant>,
    pub pauses: Pauses,
    pub repetitions: Repetitions,
    pub words: Words,
    pub counters: BearerCounters,
    /// A heartbeat leaves this often.
    pub heartbeat: Duration,
    /// Without a word for so long it is stalled, and lost.
    pub limits: (Duration, Duration),
    /// Datagrams that a radio keeps until they have arrived: by their numbers, what they carry.
    kept: BTreeMap<u64, Kept>,
    /// It has been removed, and says goodbye.
    pub leaving: bool,
    missed_reports: bool,
    clock: Clock,
    mtu: u16,
}

/// What came in on a bearer.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The newest connection that anything came on.
    pub connection: Option<ConnectionId>,
    /// Newest heartbeat of the peer: its clock, and ours when it came.
    pub heartbeat: Option<(u32, u64)>,
    /// What the newest packet waited in the network on its way here.
    pub waited: Duration,
    rtts: VecDeque<Duration>,
    /// Smallest round trip of late.
    pub rtt_min: Option<Duration>,
    /// Of datagrams, when the last report came: received and lost.
    known: (u64, u64),
}

impl Heard {
    pub fn on_rtt(&mut self, rtt: Duration) {
        if self.rtts.len() == RTT_SAMPLES {
            self.rtts.pop_front();
        }
        self.rtts.push_back(rtt);
        self.rtt_min = self.rtts.iter().min().copied();
    }
}

/// What is to be known of a datagram that leaves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beside {
    /// What it carries that is kept.
    pub kept: Option<Kept>,
    /// It is the first of a video frame.
    pub leads: bool,
    /// It is reported at once, not with the other side's next heartbeat.
    pub urgent: bool,
    /// Whose it is; what is nobody's goes with Control.
    pub class: Class,
}

impl Default for Beside {
    fn default() -> Self {
        Self { kept: None, leads: false, urgent: true, class: Class::Control }
    }
}

impl Bearer {
    pub fn new(
        id: BearerId,
        config: BearerConfig,
        session: &SessionConfig,
        random: &mut SeededBytes,
    ) -> Result<Self, rustls::Error> {
        let mut carrier = match config.radio {
            None => Carrier::quic(id, config.resumption, session, random)?,
            Some(radio) => Carrier::radio(id, radio, config.resumption.as_deref(), session, random)?,
        };
        let controller: Box<dyn Controller> = match (carrier.as_quic(), config.radio) {
            (Some(quic), _) => {
                session.congestion.build(session.encoder, |borrowed| quic.lend(borrowed, session.started))
            }
            (None, radio) => Box::new(OpenLoop::new(radio.map_or(Bitrate::ZERO, |radio| radio.rate))),
        };
        let heartbeat = heartbeat_of(session, config.radio.as_ref());
        let slower = heartbeat.as_secs_f64() / session.heartbeat.as_secs_f64().max(1e-3);
        let limits = (session.stalled_after.mul_f64(slower), session.lost_after.mul_f64(slower));
        Ok(Self {
            id,
            name: config.name,
            usage: [config.usage, Usage::Normal],
            controller,
            carrier,
            arrivals: ArrivalLog::default(),
            sent: SentLog::default(),
            delay: DelayBase::default(),
            silence: Silence::default(),
            heard: Heard::default(),
            round_trip: RoundTrip::default(),
            outbound: Outbound::default(),
            loss: LossMeter::default(),
            steady_loss: LossMeter::default(),
            returned: None,
            pauses: Pauses::default(),
            repetitions: Repetitions::default(),
            words: Words::default(),
            counters: BearerCounters::default(),
            heartbeat,
            limits,
            kept: BTreeMap::new(),
            leaving: false,
            missed_reports: false,
            clock: Clock { started: session.started, since_1970: session.since_1970 },
            mtu: session.quic.mtu,
        })
    }

    /// What it may be used for: the more careful side has its way.
    pub fn usage(&self) -> Usage {
        self.usage[0].max(self.usage[1])
    }

    /// Its handshake is complete, and the other side is heard.
    pub fn is_up(&self) -> bool {
        self.outbound.is_live_now() && self.silence.state() == LinkState::Up
    }

    /// Smoothed round trip: of this connection's heartbeats and reports, of its handshake before the first of them. A radio measures
    /// its own.
    pub fn measured_rtt(&self) -> Option<Duration> {
        let ours = self.round_trip.smoothed().filter(|_| !self.carrier.is_radio());
        ours.or_else(|| self.carrier.rtt())
    }

    /// Smoothed round trip, or what is taken for one.
    pub fn rtt(&self) -> Duration {
        self.measured_rtt().unwrap_or(ASSUMED_RTT)
    }

    /// As somewhere to send a copy.
    pub fn candidate(&self) -> Candidate {
        let loss = self.carrier.as_radio().map_or(self.loss.loss(), |radio| radio.loss());
        Candidate { loss, rtt: self.rtt() }
    }

    /// For how long a report has been missing that should have come.
    pub fn overdue(&self, now: Instant) -> Duration {
        let Some(since_us) = self.sent.unreported_since() else { return Duration::ZERO };
        let age = Duration::from_micros(self.clock.us(now).saturating_sub(since_us));
        age.saturating_sub(self.rtt() + REPORT_DELAY)
    }

    /// Whether the other side tells of what has left.
    pub fn told(&self, now: Instant) -> Told {
        // Word waits on its way as well.
        let here = self.heard.waited + self.silence.age(now).unwrap_or_default();
        let overdue = self.overdue(now);
        Told::of(overdue, overdue.saturating_sub(here), self.loss.loss())
    }

    /// Whether reports have now been missing for long, although the other side is heard; says so once.
    pub fn misses_reports(&mut self, now: Instant) -> bool {
        let misses = self.silence.state() == LinkState::Up && self.overdue(now) > MISSED;
        !std::mem::replace(&mut self.missed_reports, misses) && misses
    }

    /// How long words of our own wait here for something to go with; zero if they leave as they come.
    pub fn word_delay(&self, now: Instant) -> Duration {
        match self.carrier.is_radio() {
            true => Duration::ZERO,
            false => self.words.delay(now, self.controller.capacity(), self.told(now) == Told::Waits),
        }
    }

    /// A word of our own that is due within this time goes with what leaves now.
    pub fn company(&self, now: Instant) -> Duration {
        let delay = self.word_delay(now) / 2;
        if self.loses_much(now) { delay.max(self.heartbeat / 2) } else { delay }
    }

    /// Of several packets one gets through, and nobody knows which: much of what leaves is lost, or nothing at all is told of it.
    pub fn loses_much(&self, now: Instant) -> bool {
        let untold_us = self.sent.untold_since().map_or(0, |since_us| self.clock.us(now).saturating_sub(since_us));
        self.is_up()
            && !self.carrier.is_radio()
            && (self.loss.loss() > LOSES_MUCH || Duration::from_micros(untold_us) > UNTOLD)
    }

    /// A report has been missing for longer than it ever was of late without the bearer having failed.
    pub fn is_failing(&self, now: Instant) -> bool {
        self.overdue(now) > self.pauses.patience()
    }

    /// Whether a report, or any word since control left on it, has been missing for so long that the bearer may have failed.
    pub fn is_suspect(&self, now: Instant) -> bool {
        let silent = self.silence.unanswered(now).saturating_sub(self.rtt() + REPORT_DELAY);
        self.overdue(now).max(silent) > OVERDUE
    }

    /// Per-connection state begins anew.
    pub fn on_new_connection(&mut self, now: Instant) {
        self.outbound.on_new_connection();
        self.kept.clear();
        self.sent.reset();
        self.round_trip = RoundTrip::default();
        self.controller.on_path_change(now);
    }

    /// A report has been taken in by [`Bearer::sent`].
    pub fn count_known(&mut self, now: Instant) {
        self.words.update(now, self.counters.bytes_out, self.controller.queue_delay());
        if self.told(now) == Told::InTime {
            self.repetitions.on_told();
        }
        let (received, lost) = self.sent.received_and_lost();
        let before = std::mem::replace(&mut self.heard.known, (received, lost));
        let (received, lost) = (received - before.0, lost - before.1);
        self.loss.add(received, lost);
        let of_hole = self.returned.is_some_and(|at| now.saturating_duration_since(at) < self.rtt() + HOLE_TOLD);
        self.steady_loss.add(received, if of_hole || lost > received { 0 } else { lost });
    }

    /// Number of the next datagram, within the session.
    pub fn next_datagram(&self) -> DatagramId {
        DatagramId { bearer: self.id, number: self.sent.next_datagram() }
    }

    /// Room in a datagram behind our header.
    pub fn max_body(&mut self) -> usize {
        let max = self.carrier.max_datagram().unwrap_or(usize::from(self.mtu) - 100);
        max - DatagramHeader::MAX_LEN
    }

    pub fn start_datagram(&self, now: Instant, flow: u64, room: usize) -> BytesMut {
        let mut datagram = BytesMut::with_capacity(DatagramHeader::MAX_LEN + room);
        let sent_us = Some(self.clock.us(now) as u32);
        DatagramHeader { flow, seq: self.sent.next_seq(), sent_us }.put(&mut datagram);
        datagram
    }

    /// Hands a datagram over.
    pub fn finish_datagram(&mut self, now: Instant, datagram: BytesMut, beside: Beside) -> bool {
        let bytes = ByteCount::from(datagram.len() + PACKET_OVERHEAD);
        let Beside { kept, leads, urgent, class } = beside;
        let number = self.sent.next_datagram();
        let handling = Handling { class, token: kept.map(|_| number) };
        if !self.carrier.send_datagram(datagram.freeze(), handling) {
            return false;
        }
        if self.carrier.is_radio() {
            // It has acknowledgements of its own.
            self.kept.extend(kept.map(|kept| (number, kept)));
            self.sent.skip();
            return true;
        }
        let sent_us = self.clock.us(now);
        self.controller.on_sent(now, SentPacket { sent_us, bytes, urgent });
        self.sent.on_sent(Leaving { at_us: sent_us, bytes, kept, leads, urgent });
        true
    }

    pub fn send_datagram(&mut self, now: Instant, flow: u64, body: &[u8]) -> bool {
        let mut datagram = self.start_datagram(now, flow, body.len());
        datagram.extend_from_slice(body);
        let class = if flow == flow::TELEMETRY { Class::Telemetry } else { Class::Control };
        self.finish_datagram(now, datagram, Beside { urgent: flow != flow::HEARTBEAT, class, ..Beside::default() })
    }

    /// Hands a datagram over that has no header of ours: nothing reports on it.
    pub fn send_unreported(&mut self, flow: u64, body: &[u8]) -> bool {
        let mut datagram = BytesMut::with_capacity(1 + body.len());
        flow::put(&mut datagram, flow);
        datagram.put_slice(body);
        self.carrier.send_datagram(datagram.freeze(), LOOSE)
    }

    /// Sends a report on what has arrived; and, if the other side understands it, a history if there is reason for one.
    pub fn send_feedback(&mut self, now: Instant, history: bool) -> bool {
        if self.heard.connection != self.outbound.connection {
            // Sequence numbers of another connection mean nothing on this one.
            self.arrivals.reset();
            return false;
        }
        // At most nine bytes a packet, mostly two.
        let max_packets = self.max_body() / 9;
        let now_us = self.clock.us(now);
        let Some(report) = self.arrivals.take_report(now_us, max_packets, self.loss.loss()) else { return false };
        let mut out = BytesMut::with_capacity(16 + report.arrivals.len() * 3);
        report.put(&mut out);
        if !self.carrier.send_datagram(out.freeze(), LOOSE) {
            return false;
        }
        if let Some(history) = history.then(|| self.arrivals.take_history(now)).flatten() {
            let mut out = BytesMut::with_capacity(3 + history.bits.len());
            history.put(&mut out);
            self.carrier.send_datagram(out.freeze(), LOOSE);
        }
        true
    }

    /// Sends a heartbeat that says `told` of the session, and what belongs to this bearer.
    pub fn send_heartbeat(&mut self, now: Instant, told: Heartbeat) -> bool {
        // Not so seldom that the other side thinks us silent.
        let delay = self.word_delay(now).min(self.limits.0 * 3 / 5);
        self.outbound.heartbeat_due = Some(now + self.heartbeat.max(delay));
        let now_us = self.clock.us(now);
        let echo = self.heard.heartbeat.map(|(peer_us, at_us)| (peer_us, now_us.saturating_sub(at_us)));
        let mut body = Vec::with_capacity(48);
        Heartbeat { echo, ..told }.put(&mut body);
        self.send_datagram(now, flow::HEARTBEAT, &body)
    }

    /// Something that was kept has arrived: which datagram it was, and what it carried.
    pub fn take_kept(&mut self, number: u64) -> Option<(DatagramId, Kept)> {
        let kept = self.kept.remove(&number)?;
        Some((DatagramId { bearer: self.id, number }, kept))
    }

    pub fn pace(&mut self, now: Instant, bytes: usize) {
        if self.carrier.is_radio() {
            return; // It paces what leaves by itself.
        }
        let earliest = now.checked_sub(self.controller.pacing_slack()).unwrap_or(now);
        let from = self.outbound.paced_until.map_or(now, |until| until.max(earliest));
        let time = self.controller.pacing_rate(now).time_for(ByteCount::from(bytes));
        self.outbound.paced_until = Some(from + time.min(Duration::from_secs(1)));
    }
}

fn heartbeat_of(session: &SessionConfig, radio: Option<&RadioConfig>) -> Duration {
    let Some(radio) = radio else { return session.heartbeat };
    let takes = radio.rate.time_for(HEARTBEAT_BYTES).min(SLOWEST_HEARTBEAT);
    takes.div_f64(HEARTBEAT_SHARE).clamp(session.heartbeat, SLOWEST_HEARTBEAT.max(session.heartbeat))
}
