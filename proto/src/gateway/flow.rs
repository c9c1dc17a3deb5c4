//! One TCP connection that is carried: what its application here has sent, until the far side's has it, and the other way round.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::custody::{Custody, Deed, Kept};
use super::frame::{DATA_OVERHEAD, Frame, Open, Reason};
use super::quasi::{Fill, Reorder};
use super::status::{Ending, FlowState, FlowStatus};
use super::{Action, RETRY};
use crate::ByteCount;
use crate::aerotp::{ConnectionId, Endpoint, Port};

/// Bytes sent that the far application has not taken, at most: what either gateway keeps in memory of a flow.
pub(super) const WINDOW: u64 = 1 << 20;
/// Bytes handed to AeroTP that have not left.
const AHEAD: usize = 16 << 10;
/// What is free in a message, since a handshake may be under way later.
const RESERVED: usize = 64 + DATA_OVERHEAD;
/// The application is asked for more when there is room for so much.
const ROOM: u64 = 16 << 10;
/// The other side is told what has been taken when it is so much, or after so long.
const TELL_BYTES: u64 = 64 << 10;
const TELL_AFTER: Duration = Duration::from_millis(100);

/// How it travels.
#[derive(Debug)]
pub(super) enum Kind {
    /// Near-reliable: all is in custody until it has been taken.
    Custody,
    /// Quasi-reliable.
    Quasi(Quasi),
}

/// What a quasi-reliable flow needs beside.
#[derive(Debug)]
pub(super) struct Quasi {
    pub deadline: Duration,
    pub fill: Fill,
    reorder: Reorder,
    /// The next byte that is sent begins a message.
    begins: bool,
}

impl Kind {
    pub fn quasi(deadline: Duration, fill: Fill) -> Self {
        Self::Quasi(Quasi { deadline, fill, reorder: Reorder::new(deadline, fill), begins: true })
    }
}

/// The application's connection here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum App {
    /// We connect to it.
    Dialling,
    Open,
    /// It is no more. What it had sent is delivered, then the other side is told why.
    Gone(Reason),
}

/// What its application has sent, which goes to the other side.
#[derive(Debug, Default)]
struct Outgoing {
    /// All before it has been taken by the far application.
    released: u64,
    /// The next to be sent on this connection.
    next: u64,
    /// All there is so far.
    end: u64,
    /// The application has closed.
    fin: bool,
    fin_sent: bool,
    fin_taken: bool,
}

/// What comes from the other side.
#[derive(Debug, Default)]
struct Incoming {
    /// The next that is expected (custody).
    next: u64,
    /// What our application has taken.
    taken: u64,
    told: Option<u64>,
    fin: bool,
    fin_taken: bool,
    fin_told: bool,
    tell_at: Option<Instant>,
}

/// What a flow works with.
pub(super) struct Means<'a, C> {
    pub now: Instant,
    pub endpoint: &'a mut Endpoint,
    pub custody: &'a mut C,
    pub actions: &'a mut VecDeque<Action>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Flow {
    pub deed: Deed,
    pub kind: Kind,
    began: Instant,
    app: App,
    pub control: Option<ConnectionId>,
    pub data: Option<ConnectionId>,
    /// The other side's port, by which its data connection is known (quasi).
    peer_port: Option<Port>,
    reopen: Option<Instant>,
    /// Since when there is no connection, if it is a flow of the other side's that has restarted.
    disconnected: Option<Instant>,
    /// The other side knows of the flow.
    met: bool,
    outgoing: Outgoing,
    incoming: Incoming,
    /// The application's bytes were not taken.
    stalled: bool,
    retry: Option<Instant>,
    /// It is over, for this reason that came from the other side.
    over: Option<Reason>,
}

impl Flow {
    pub fn new(now: Instant, deed: Deed, kind: Kind, app: App) -> Self {
        Self {
            deed,
            kind,
            began: now,
            app,
            control: None,
            data: None,
            peer_port: None,
            reopen: deed.ours.then_some(now),
            disconnected: None,
            met: false,
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            stalled: false,
            retry: None,
            over: None,
        }
    }

    /// One that was in custody when the program ended; its application's connection ended with it.
    pub fn restored(now: Instant, kept: &Kept) -> Self {
        let mut flow = Self::new(now, kept.deed, Kind::Custody, App::Gone(Reason::Restarted));
        flow.outgoing.released = kept.released;
        flow.outgoing.next = kept.released;
        flow.outgoing.end = kept.end;
        flow.outgoing.fin = kept.fin;
        flow.met = kept.released > 0;
        flow.disconnected = (!kept.deed.ours).then_some(now);
        flow
    }

    /// Bytes in custody.
    pub fn held(&self) -> u64 {
        match self.kind {
            Kind::Custody => self.outgoing.end - self.outgoing.released,
            Kind::Quasi(_) => 0,
        }
    }

    /// What our application has taken.
    pub fn taken(&self) -> u64 {
        self.incoming.taken
    }

    pub fn wants_connection(&self, now: Instant) -> bool {
        self.deed.ours && self.control.is_none() && self.reopen.is_some_and(|at| at <= now)
    }

    pub fn reopen_at(&mut self, at: Instant) {
        self.reopen = Some(at);
    }

    /// When [`Flow::serve`] has something to do without anything coming in.
    pub fn deadline(&self) -> Option<Instant> {
        let reopen = self.reopen.filter(|_| self.deed.ours && self.control.is_none());
        let abandoned = self.disconnected.map(|since| since + super::ABANDONED);
        let reorder = match &self.kind {
            Kind::Quasi(quasi) => quasi.reorder.deadline(),
            Kind::Custody => None,
        };
        let tell = self.incoming.tell_at.filter(|_| self.control.is_some() && self.app != App::Dialling);
        [reopen, abandoned, reorder, tell, self.retry].into_iter().flatten().min()
    }

    /// We have opened what it travels on.
    pub fn on_connection(&mut self, endpoint: &mut Endpoint, control: ConnectionId, data: Option<ConnectionId>) {
        (self.control, self.data, self.reopen) = (Some(control), data, None);
        let (deadline, fill) = match &self.kind {
            Kind::Quasi(quasi) => (quasi.deadline, quasi.fill),
            Kind::Custody => (Duration::ZERO, Fill::Nothing),
        };
        let open = Open {
            flow: self.deed.flow,
            resumed: self.met,
            zero_fill: fill == Fill::Zeros,
            deadline_ms: u32::try_from(deadline.as_millis()).unwrap_or(u32::MAX),
            released: self.outgoing.released,
            taken: self.incoming.taken,
            target: self.deed.target,
        };
        let _ = endpoint.send(control, Frame::Open(open).encode().into(), None);
        self.begin_anew();
    }

    /// The other side has opened what it travels on; gives what it travelled on before.
    pub fn on_taken_up<C: Custody>(
        &mut self,
        endpoint: &mut Endpoint,
        control: ConnectionId,
        peer_port: Port,
        open: &Open,
        custody: &mut C,
    ) -> Option<ConnectionId> {
        let former = self.control.replace(control);
        former.into_iter().for_each(|former| endpoint.reset(former));
        (self.peer_port, self.disconnected, self.met) = (Some(peer_port), None, true);
        self.on_released(open.taken, custody);
        self.begin_anew();
        former
    }

    /// Nothing of what was sent before counts as sent on this connection.
    fn begin_anew(&mut self) {
        if matches!(self.kind, Kind::Custody) {
            self.outgoing.next = self.outgoing.released;
        }
        self.outgoing.fin_sent = false;
        let incoming = &mut self.incoming;
        (incoming.told, incoming.fin_told) = (None, false);
        let is_news = !self.deed.ours || incoming.fin_taken;
        incoming.tell_at = is_news.then_some(self.began);
    }

    /// Whether a connection from this port of the other side's is for its data.
    pub fn wants_data(&self, remote: Port) -> bool {
        matches!(self.kind, Kind::Quasi(_)) && self.data.is_none() && self.peer_port == Some(remote)
    }

    pub fn on_disconnected(&mut self, now: Instant, endpoint: &mut Endpoint, connection: ConnectionId, again: Instant) {
        if self.data == Some(connection) {
            self.data = None;
        }
        if self.control == Some(connection) {
            self.control = None;
            self.data.take().into_iter().for_each(|data| endpoint.reset(data));
            match self.deed.ours {
                true => self.reopen = Some(again),
                false => self.disconnected = Some(now),
            }
        }
    }

    pub fn on_app_bytes<C: Custody>(
        &mut self,
        means: &mut Means<'_, C>,
        bytes: &[u8],
        drained: bool,
        room: u64,
    ) -> bool {
        if self.outgoing.fin || self.over.is_some() || matches!(self.app, App::Gone(_)) {
            return true; // Nobody wants it.
        }
        let taken = match self.kind {
            Kind::Custody if bytes.len() as u64 > room => false,
            Kind::Custody => {
                let stored = means.custody.append(self.deed.flow, bytes);
                self.retry = stored.is_err().then_some(means.now + RETRY);
                stored.is_ok()
            }
            Kind::Quasi(_) => self.send_quasi(means.endpoint, bytes, drained),
        };
        self.stalled = !taken;
        if taken {
            self.outgoing.end += bytes.len() as u64;
        }
        taken
    }

    pub fn on_app_fin<C: Custody>(&mut self, now: Instant, custody: &mut C) -> bool {
        if matches!(self.kind, Kind::Custody) && !self.outgoing.fin && custody.finish(self.deed.flow).is_err() {
            (self.stalled, self.retry) = (true, Some(now + RETRY));
            return false;
        }
        self.outgoing.fin = true;
        true
    }

    pub fn on_app_gone(&mut self, reason: Reason) {
        if !matches!(self.app, App::Gone(_)) {
            self.app = App::Gone(reason);
        }
    }

    pub fn on_dialled(&mut self, now: Instant, result: Result<(), Reason>) {
        match result {
            Ok(()) if self.app == App::Dialling => {
                self.app = App::Open;
                // The other side hears of it at once.
                self.incoming.tell_at = Some(now);
            }
            Ok(()) => {}
            Err(reason) => self.on_app_gone(reason),
        }
    }

    pub fn on_taken(&mut self, now: Instant, bytes: u64, fin: bool) {
        let incoming = &mut self.incoming;
        incoming.taken = incoming.taken.max(bytes);
        incoming.fin_taken |= fin && incoming.fin;
        let told = incoming.told.unwrap_or(0);
        let at_once = incoming.taken - told.min(incoming.taken) >= TELL_BYTES || incoming.fin_taken;
        let due = if at_once { now } else { now + TELL_AFTER };
        if incoming.taken > told || (incoming.fin_taken && !incoming.fin_told) {
            incoming.tell_at = Some(incoming.tell_at.map_or(due, |at| at.min(due)));
        }
    }

    /// A frame of the other side's.
    pub fn on_frame<C: Custody>(&mut self, means: &mut Means<'_, C>, frame: Frame<'_>) {
        match frame {
            Frame::Data { offset, begins, ends, bytes } => self.on_data(means, offset, begins, ends, bytes),
            Frame::Fin { offset } => self.on_fin(means, offset),
            Frame::Taken { offset, fin } => {
                self.met = true;
                if offset > self.outgoing.end || (fin && !self.outgoing.fin) {
                    return self.on_nonsense();
                }
                self.on_released(offset, means.custody);
                self.outgoing.fin_taken |= fin;
            }
            Frame::Reset { reason, taken } => {
                self.on_released(taken.min(self.outgoing.end), means.custody);
                self.over = Some(reason);
            }
            Frame::Open(_) | Frame::Datagram { .. } | Frame::Answer { .. } | Frame::Connect(_) | Frame::Segment(_) => {
                self.on_nonsense()
            }
        }
    }

    fn on_nonsense(&mut self) {
        self.on_app_gone(Reason::Protocol);
    }

    fn on_data<C: Custody>(&mut self, means: &mut Means<'_, C>, offset: u64, begins: bool, ends: bool, bytes: &[u8]) {
        let until = offset + bytes.len() as u64;
        let incoming = &mut self.incoming;
        if matches!(self.app, App::Gone(_)) {
            return; // There is nobody to take it; the other side is told.
        }
        match &mut self.kind {
            Kind::Custody => {
                let nonsense = offset > incoming.next || until > incoming.taken + 2 * WINDOW;
                if nonsense || (incoming.fin && until > incoming.next) {
                    return self.on_nonsense();
                }
                // Before it, that came by an earlier connection.
                let known = (incoming.next - offset).min(bytes.len() as u64);
                let fresh = &bytes[known as usize..];
                if !fresh.is_empty() {
                    incoming.next = until;
                    let bytes = Bytes::copy_from_slice(fresh);
                    means.actions.push_back(Action::Write { flow: self.deed.flow, bytes });
                }
            }
            Kind::Quasi(quasi) => {
                if incoming.next > incoming.taken + WINDOW {
                    // The application does not read: what it will not get in time is not kept for it.
                    quasi.reorder.refuse(bytes.len());
                    return;
                }
                quasi.reorder.push(means.now, offset, begins, ends, bytes);
                self.deliver(means);
            }
        }
    }

    fn on_fin<C: Custody>(&mut self, means: &mut Means<'_, C>, offset: u64) {
        match &mut self.kind {
            Kind::Custody if self.incoming.fin && offset == self.incoming.next => {}
            Kind::Custody if offset != self.incoming.next => self.on_nonsense(),
            Kind::Custody => self.finish(means),
            Kind::Quasi(quasi) => {
                quasi.reorder.on_fin(means.now, offset);
                self.deliver(means);
            }
        }
    }

    fn finish<C: Custody>(&mut self, means: &mut Means<'_, C>) {
        if !std::mem::replace(&mut self.incoming.fin, true) {
            means.actions.push_back(Action::Finish { flow: self.deed.flow });
        }
    }

    /// Gives the application what is there in order (quasi-reliable).
    fn deliver<C: Custody>(&mut self, means: &mut Means<'_, C>) {
        let Kind::Quasi(quasi) = &mut self.kind else { return };
        while let Some(bytes) = quasi.reorder.poll(means.now) {
            self.incoming.next += bytes.len() as u64;
            means.actions.push_back(Action::Write { flow: self.deed.flow, bytes });
        }
        if quasi.reorder.is_finished() {
            self.finish(means);
        }
    }

    fn on_released<C: Custody>(&mut self, offset: u64, custody: &mut C) {
        let outgoing = &mut self.outgoing;
        if offset > outgoing.released && offset <= outgoing.end && matches!(self.kind, Kind::Custody) {
            outgoing.released = offset;
            outgoing.next = outgoing.next.max(offset);
            custody.release(self.deed.flow, offset);
        }
    }

    /// Says and sends what there is; `Some` if the flow is over, with the reason if there is one.
    pub fn serve<C: Custody>(
        &mut self,
        means: &mut Means<'_, C>,
        heard: Option<Instant>,
        room: u64,
    ) -> Option<Option<Reason>> {
        let now = means.now;
        if let Some(reason) = self.over {
            return Some(Some(reason));
        }
        let is_near = heard.is_some_and(|at| now.saturating_duration_since(at) < super::ABANDONED / 4);
        if let Some(since) = self.disconnected
            && now.saturating_duration_since(since) >= super::ABANDONED
        {
            match is_near {
                true => return Some(Some(Reason::Restarted)),
                false => self.disconnected = Some(now),
            }
        }
        if let App::Gone(reason) = self.app
            && self.deed.ours
            && !self.met
            && self.control.is_none()
            && self.outgoing.end == 0
        {
            // The other side never heard of it.
            return Some(Some(reason));
        }
        self.deliver(means);
        if self.control.is_some() {
            self.send(means);
            if let Some(reason) = self.is_done() {
                return Some(reason);
            }
            self.tell(means);
        }
        if self.incoming.fin_told && self.outgoing.fin_taken {
            return Some(None);
        }
        if self.stalled && self.has_room(means.endpoint, room) && self.retry.is_none_or(|at| at <= now) {
            (self.stalled, self.retry) = (false, None);
            means.actions.push_back(Action::Room { flow: self.deed.flow });
        }
        None
    }

    /// Our application is gone, and the other side has all that it had sent, so that it can be told.
    fn is_done(&self) -> Option<Option<Reason>> {
        let App::Gone(reason) = self.app else { return None };
        let delivered = match self.kind {
            Kind::Custody => {
                self.outgoing.released == self.outgoing.end && (!self.outgoing.fin || self.outgoing.fin_taken)
            }
            Kind::Quasi(_) => true,
        };
        delivered.then_some(Some(reason))
    }

    /// The other side is told why the flow is over, if it does not know; whether it was.
    pub fn say_over(&self, endpoint: &mut Endpoint) -> bool {
        let (Some(control), App::Gone(reason), None) = (self.control, self.app, self.over) else { return false };
        let frame = Frame::Reset { reason, taken: self.incoming.taken };
        endpoint.send(control, frame.encode().into(), None).is_ok()
    }

    fn has_room(&self, endpoint: &Endpoint, room: u64) -> bool {
        match self.kind {
            Kind::Custody => room >= ROOM,
            Kind::Quasi(_) => {
                self.data.and_then(|data| endpoint.waiting_bytes(data)).is_some_and(|bytes| bytes < AHEAD)
            }
        }
    }

    fn send<C: Custody>(&mut self, means: &mut Means<'_, C>) {
        let Some(control) = self.control else { return };
        if matches!(self.kind, Kind::Custody) {
            self.send_custody(means, control);
        }
        let outgoing = &mut self.outgoing;
        if outgoing.fin && !outgoing.fin_sent && outgoing.next == outgoing.end {
            let frame = Frame::Fin { offset: outgoing.end };
            outgoing.fin_sent = means.endpoint.send(control, frame.encode().into(), None).is_ok();
        }
    }

    fn send_custody<C: Custody>(&mut self, means: &mut Means<'_, C>, control: ConnectionId) {
        let room = means.endpoint.max_message(control).saturating_sub(RESERVED);
        let outgoing = &mut self.outgoing;
        while outgoing.next < outgoing.end.min(outgoing.released + WINDOW)
            && means.endpoint.waiting_bytes(control).is_some_and(|bytes| bytes < AHEAD)
        {
            let bytes = match means.custody.read(self.deed.flow, outgoing.next, room) {
                Ok(bytes) if !bytes.is_empty() => bytes,
                // It was stored, and is not there: nothing can be made of that.
                _ => return self.on_app_gone(Reason::Storage),
            };
            let ends = outgoing.next + bytes.len() as u64 == outgoing.end;
            let frame = Frame::Data { offset: outgoing.next, begins: false, ends, bytes: &bytes };
            if means.endpoint.send(control, frame.encode().into(), None).is_err() {
                return;
            }
            outgoing.next += bytes.len() as u64;
        }
    }

    /// Sends what the application has just sent, or nothing of it if too much waits.
    fn send_quasi(&mut self, endpoint: &mut Endpoint, bytes: &[u8], drained: bool) -> bool {
        let Kind::Quasi(quasi) = &mut self.kind else { return false };
        let Some(data) = self.data else { return false };
        if endpoint.waiting_bytes(data).is_none_or(|waiting| waiting >= AHEAD) {
            return false;
        }
        let room = endpoint.max_message(data).saturating_sub(RESERVED).max(1);
        for piece in bytes.chunks(room) {
            let ends = drained && piece.as_ptr_range().end == bytes.as_ptr_range().end;
            let begins = std::mem::replace(&mut quasi.begins, ends);
            let frame = Frame::Data { offset: self.outgoing.next, begins, ends, bytes: piece };
            // What it does not take is lost, as it may be on the way.
            let _ = endpoint.send(data, frame.encode().into(), None);
            self.outgoing.next += piece.len() as u64;
        }
        true
    }

    /// Tells the other side what has been taken.
    fn tell<C: Custody>(&mut self, means: &mut Means<'_, C>) {
        let (Some(control), incoming) = (self.control, &mut self.incoming) else { return };
        if incoming.tell_at.is_none_or(|at| at > means.now) || self.app == App::Dialling {
            return;
        }
        let offset = match self.kind {
            Kind::Custody => incoming.taken,
            Kind::Quasi(_) => 0,
        };
        let frame = Frame::Taken { offset, fin: incoming.fin_taken };
        incoming.tell_at = match means.endpoint.send(control, frame.encode().into(), None) {
            Ok(()) => {
                incoming.told = Some(incoming.taken);
                incoming.fin_told = incoming.fin_taken;
                None
            }
            // The other side is closing it.
            Err(_) => Some(means.now + RETRY),
        };
    }

    /// What there is to say at its end.
    pub fn ending(&self, now: Instant, reason: Option<Reason>) -> Ending {
        let undelivered = match reason {
            Some(_) => ByteCount(self.held()),
            None => ByteCount::ZERO,
        };
        Ending { status: self.status(now), reason, undelivered }
    }

    pub fn status(&self, now: Instant) -> FlowStatus {
        let state = match (self.app, self.control) {
            (App::Gone(_), _) => FlowState::Delivering,
            (_, None) => FlowState::Disconnected,
            (App::Dialling, _) => FlowState::Opening,
            (App::Open, Some(_)) if !self.met => FlowState::Opening,
            _ if self.outgoing.fin || self.incoming.fin => FlowState::Closing,
            _ => FlowState::Open,
        };
        let (mode, skipped) = match &self.kind {
            Kind::Custody => ("near-reliable", 0),
            Kind::Quasi(quasi) => ("quasi-reliable", quasi.reorder.skipped()),
        };
        FlowStatus {
            flow: self.deed.flow,
            ours: self.deed.ours,
            target: self.deed.target,
            mode,
            state,
            age: now.saturating_duration_since(self.began),
            sent: ByteCount(self.outgoing.end),
            acknowledged: ByteCount(self.outgoing.released),
            custody: ByteCount(self.held()),
            received: ByteCount(self.incoming.next),
            taken: ByteCount(self.incoming.taken),
            skipped: ByteCount(skipped),
        }
    }
}
