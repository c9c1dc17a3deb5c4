//! One connection that is passed through: a [`Splice`] here, its like at the far side, and what the two tell each other over
//! a reliable connection of AeroTP.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::intake::AHEAD;
use super::outlet::WINDOW;
use super::splice::{Event, Splice};
use crate::ByteCount;
use crate::aerotp::{ConnectionId, Endpoint};
use crate::gateway::frame::{Connect, FlowId, Frame, Reason, SEGMENT_OVERHEAD, Segment};
use crate::gateway::status::{FlowState, FlowStatus};

/// What is free in a message, since a handshake may be under way later.
const RESERVED: usize = 64 + SEGMENT_OVERHEAD;
/// The other side is told what has been acknowledged here when it is so much, or after a quarter of a round trip within these.
const TELL_BYTES: u64 = 16 << 10;
const TELL_AFTER: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(250)];
/// The far side is asked whether it is alive this often at most; an answer holds for so long.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// A connection of AeroTP that cannot be opened is tried again after this.
const REOPEN: Duration = Duration::from_secs(1);

/// What the other side has been told of our kernel.
#[derive(Debug, Default)]
struct Told {
    acked: u64,
    fin: bool,
    /// How far it takes bytes.
    edge: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct PassFlow {
    pub id: FlowId,
    /// Our side's kernel opened it. Else the other side's did.
    pub ours: bool,
    pub target: SocketAddr,
    pub splice: Splice,
    pub connection: Option<ConnectionId>,
    began: Instant,
    /// When the connection is opened.
    reopen: Option<Instant>,
    /// The target's kernel has answered.
    met: bool,
    told: Option<Told>,
    tell_at: Option<Instant>,
    ask: bool,
    asked: Option<Instant>,
    /// When the far kernel said last that it is there.
    alive: Option<Instant>,
    /// The other side waits for a word of our kernel's.
    owes_answer: bool,
    answer: bool,
    over: Option<Over>,
}

/// How a flow ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Over {
    /// Why, if not since both kernels have closed.
    pub reason: Option<Reason>,
    /// The kernel here ended it, and knows.
    pub by_kernel: bool,
    /// The other side ended it, and knows.
    pub by_peer: bool,
}

impl PassFlow {
    pub fn new(now: Instant, id: FlowId, ours: bool, target: SocketAddr, splice: Splice) -> Self {
        Self {
            id,
            ours,
            target,
            splice,
            connection: None,
            began: now,
            reopen: ours.then_some(now),
            met: false,
            told: None,
            tell_at: None,
            ask: false,
            asked: None,
            alive: None,
            owes_answer: false,
            answer: false,
            over: None,
        }
    }

    /// The target has answered.
    pub fn is_met(&self) -> bool {
        self.met
    }

    pub fn over(&self) -> Option<Over> {
        self.over
    }

    pub fn end(&mut self, reason: Reason) {
        self.over = self.over.or(Some(Over { reason: Some(reason), by_kernel: false, by_peer: false }));
    }

    fn end_by_kernel(&mut self, reason: Reason) {
        self.over = self.over.or(Some(Over { reason: Some(reason), by_kernel: true, by_peer: false }));
    }

    fn end_by_peer(&mut self, reason: Reason) {
        self.over = self.over.or(Some(Over { reason: Some(reason), by_kernel: false, by_peer: true }));
    }

    /// The connection of AeroTP is no more, and what was said on it cannot be taken up.
    pub fn on_disconnected(&mut self) {
        self.connection = None;
        self.end_by_peer(Reason::Restarted);
    }

    pub fn wants_connection(&self, now: Instant) -> bool {
        self.connection.is_none() && self.over.is_none() && self.reopen.is_some_and(|at| at <= now)
    }

    /// The connection is there, or cannot be opened yet.
    pub fn on_connection(&mut self, now: Instant, endpoint: &mut Endpoint, connection: Option<ConnectionId>) {
        self.connection = connection;
        self.reopen = match connection {
            Some(connection) => {
                let room = self.splice.outlet.room();
                let connect = Connect { flow: self.id, room, target: self.target };
                let _ = endpoint.send(connection, Frame::Connect(connect).encode().into(), None);
                self.told = Some(Told { edge: room, ..Told::default() });
                None
            }
            None => Some(now + REOPEN),
        };
    }

    /// What a packet or the time did to the connection here.
    pub fn on_event(&mut self, event: Event) {
        match event {
            Event::None => {}
            Event::Reset | Event::Anew => self.end_by_kernel(Reason::Application),
            Event::Refused => self.end_by_kernel(Reason::Refused),
            Event::Silent => self.end_by_kernel(Reason::Unreachable),
        }
    }

    /// A frame of the other side's.
    pub fn on_frame(&mut self, now: Instant, frame: Frame<'_>) {
        match frame {
            Frame::Segment(segment) => self.on_segment(now, segment),
            Frame::Reset { reason, .. } => self.end_by_peer(reason),
            _ => self.end(Reason::Protocol),
        }
    }

    fn on_segment(&mut self, now: Instant, segment: Segment<'_>) {
        let Segment { acked, room, offset, fin, fin_acked, ask, answer, bytes } = segment;
        let outlet = &mut self.splice.outlet;
        let until = offset.saturating_add(bytes.len() as u64);
        let in_order = offset == outlet.end() || (bytes.is_empty() && !fin);
        let fits = until <= outlet.acked() + 2 * WINDOW && !(outlet.has_ended() && (fin || !bytes.is_empty()));
        if !in_order || !fits || !(self.ours || self.splice.is_open()) {
            return self.end(Reason::Protocol);
        }
        if self.splice.is_asked() {
            self.met = true;
            self.splice.answer(now, room);
        }
        match self.splice.intake.on_taken(acked, fin_acked, room) {
            Ok(false) => {}
            Ok(true) => self.splice.acknowledge(),
            Err(()) => return self.end(Reason::Protocol),
        }
        let outlet = &mut self.splice.outlet;
        outlet.push(bytes);
        if fin {
            outlet.finish();
        }
        if ask {
            outlet.ask();
            let _ = self.splice.take_answered();
            self.owes_answer = true;
        }
        if answer {
            self.alive = Some(now);
            self.splice.acknowledge();
        }
    }

    /// When [`PassFlow::serve`] has something to do without anything coming in.
    pub fn deadline(&self) -> Option<Instant> {
        let reopen = self.reopen.filter(|_| self.connection.is_none());
        let tell = self.tell_at.filter(|_| self.connection.is_some());
        [self.splice.deadline(), reopen, tell].into_iter().flatten().min()
    }

    /// Bytes that have been passed on and have not left.
    pub fn ahead(&self, endpoint: &Endpoint) -> usize {
        self.connection.and_then(|connection| endpoint.waiting_bytes(connection)).unwrap_or(0)
    }

    /// Says and passes on what there is.
    pub fn serve(&mut self, now: Instant, endpoint: &mut Endpoint) {
        let event = self.splice.handle_timeout(now);
        self.on_event(event);
        if self.over.is_some() {
            return;
        }
        if self.splice.take_probe() {
            let lately = |at: Option<Instant>| at.is_some_and(|at| now.saturating_duration_since(at) < ASK_AGAIN);
            match (lately(self.alive), lately(self.asked)) {
                (true, _) => self.splice.acknowledge(),
                (false, true) => {}
                (false, false) => (self.ask, self.asked) = (true, Some(now)),
            }
        }
        if self.owes_answer && self.splice.take_answered() {
            (self.owes_answer, self.answer) = (false, true);
        }
        let Some(connection) = self.connection else { return };
        if self.ours && !self.met {
            return; // The other side has not answered.
        }
        if !self.ours && !self.splice.is_open() {
            return; // Our target has not.
        }
        self.met = true;
        self.plan_tell(now, endpoint.rtt());
        let room = endpoint.max_message(connection).saturating_sub(RESERVED).max(1);
        loop {
            let free = endpoint.waiting_bytes(connection).is_some_and(|bytes| (bytes as u64) < AHEAD);
            let (offset, bytes) = if free { self.splice.intake.take(room) } else { self.splice.intake.take(0) };
            let fin = self.splice.intake.take_fin();
            let must_say = self.ask || self.answer || self.tell_at.is_some_and(|at| at <= now);
            if bytes.is_empty() && !fin && !must_say {
                break;
            }
            let outlet = &self.splice.outlet;
            let told = Told {
                acked: outlet.acked(),
                fin: outlet.is_done(),
                edge: (outlet.acked() + outlet.room()).max(self.told.as_ref().map_or(0, |told| told.edge)),
            };
            let segment = Segment {
                acked: told.acked,
                room: told.edge.saturating_sub(told.acked),
                offset,
                fin,
                fin_acked: told.fin,
                ask: std::mem::take(&mut self.ask),
                answer: std::mem::take(&mut self.answer),
                bytes: &bytes,
            };
            if endpoint.send(connection, Frame::Segment(segment).encode().into(), None).is_err() {
                // The other side has closed: it does not wait for what we have.
                return self.end(Reason::Protocol);
            }
            (self.told, self.tell_at) = (Some(told), None);
        }
        let told_end = self.told.as_ref().is_some_and(|told| told.fin);
        if self.splice.intake.is_done() && told_end {
            self.over = Some(Over { reason: None, by_kernel: true, by_peer: true });
        }
    }

    /// Decides when the other side is told what our kernel has acknowledged.
    fn plan_tell(&mut self, now: Instant, rtt: Option<Duration>) {
        let outlet = &self.splice.outlet;
        let edge = outlet.acked() + outlet.room();
        let due = match &self.told {
            // That the target has answered.
            None => Some(now),
            Some(told) => {
                let fin = outlet.is_done() && !told.fin;
                let at_once = fin || outlet.acked() - told.acked >= TELL_BYTES;
                let worth = outlet.worth_telling();
                let has_room = told.edge.saturating_sub(outlet.acked()) < worth && edge >= told.edge + worth;
                let soon = outlet.acked() > told.acked || has_room || edge >= told.edge + WINDOW / 4;
                let after = rtt.map_or(TELL_AFTER[0], |rtt| (rtt / 4).clamp(TELL_AFTER[0], TELL_AFTER[1]));
                at_once.then_some(now).or(soon.then_some(now + after))
            }
        };
        self.tell_at = match (self.tell_at, due) {
            (Some(planned), Some(due)) => Some(planned.min(due)),
            (planned, due) => planned.or(due),
        };
    }

    pub fn status(&self, now: Instant) -> FlowStatus {
        let (intake, outlet) = (&self.splice.intake, &self.splice.outlet);
        let state = match () {
            () if self.connection.is_none() && self.ours => FlowState::Disconnected,
            () if !self.splice.is_open() => FlowState::Opening,
            () if intake.has_ended() || outlet.has_ended() => FlowState::Closing,
            () => FlowState::Open,
        };
        FlowStatus {
            flow: self.id,
            ours: self.ours,
            target: self.target.into(),
            mode: "reliable",
            state,
            age: now.saturating_duration_since(self.began),
            sent: ByteCount(intake.received()),
            acknowledged: ByteCount(intake.acked()),
            custody: ByteCount::ZERO,
            received: ByteCount(outlet.end()),
            taken: ByteCount(outlet.acked()),
            skipped: ByteCount::ZERO,
        }
    }
}
