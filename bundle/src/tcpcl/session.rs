//! The session: contact, parameters, transfers both ways, and the end (RFC 9174 §3, §4, §6).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::codec::{self, CAN_TLS, Message, Refusal, RejectReason, TermReason, VERSION};
use super::incoming::{Incoming, Segment};
use super::outgoing::{Outgoing, SendError};
use super::{DecodeError, Decoder, Item, SessionConfig, TransferId};
use crate::NodeId;

/// Who opened the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// We: we speak first.
    Active,
    /// The other side.
    Passive,
}

/// What the other side says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its name. Nothing proves it.
    pub node: NodeId,
    /// Bytes of data in a segment that it takes.
    pub segment: u64,
    /// Bytes of a bundle that it takes.
    pub transfer: u64,
    /// How long each side may be silent; zero for ever.
    pub keepalive: Duration,
}

/// What the session tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Bundles can be sent now.
    Up(Peer),
    /// A bundle begins to come. It can be refused from now on.
    Begun {
        /// Its transfer.
        id: TransferId,
        /// Bytes, if its sender says.
        length: Option<u64>,
    },
    /// A bundle is there. Its sender hears of it when it is accepted or refused.
    Received {
        /// Its transfer.
        id: TransferId,
        /// Its bytes, which nobody has looked into.
        bundle: Vec<u8>,
    },
    /// The other side has it, and said so.
    Delivered(TransferId),
    /// The other side does not want it.
    Refused(TransferId, Refusal),
    /// The session ended before it was acknowledged: whether the other side has it is not known.
    Failed(TransferId),
    /// There will be nothing more. What [`Session::poll_transmit`] still has may be written; then the connection is
    /// closed.
    Ended(End),
}

/// Why a session ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum End {
    /// We asked for it, and all that was under way was done.
    #[error("ended by us: {0}")]
    Ours(TermReason),
    /// The other side asked for it.
    #[error("ended by the peer: {0}")]
    Theirs(TermReason),
    /// The connection was closed before the session had ended.
    #[error("the connection was lost")]
    Lost,
    /// What was under way when the session was to end took too long.
    #[error("transfers were not done in time before the end")]
    NotDrained,
    /// Nothing was heard.
    #[error("nothing heard from the peer")]
    Silent,
    /// A bundle did not come on, or was not acknowledged.
    #[error("the peer is too slow")]
    Stalled,
    /// The session was not agreed upon in time.
    #[error("no session within the time for contact")]
    ContactTimeout,
    /// The other side does not do without TLS.
    #[error("the peer asks for TLS, which is not spoken here")]
    Tls,
    /// Another version of the protocol.
    #[error("the peer speaks version {0} of TCPCL")]
    Version(u8),
    /// Its name is none.
    #[error("the peer's name is not that of a node")]
    PeerName,
    /// It has our name.
    #[error("the peer has our own name")]
    Ourselves,
    /// An extension of the session that it must not do without.
    #[error("the peer asks for extension {0} of the session")]
    Extension(u16),
    /// What came cannot be read.
    #[error(transparent)]
    Unreadable(DecodeError),
    /// What came has no place in the protocol.
    #[error(transparent)]
    Fault(Fault),
}

/// What the other side did that it must not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A segment longer than we said we take.
    #[error("a segment longer than we take")]
    SegmentLength,
    /// A transfer that begins within another (RFC 9174 §5.2.2).
    #[error("a transfer that begins within another")]
    Interleaved,
    /// A transfer that has the number of one that is not answered.
    #[error("two transfers of one number")]
    SameTransfer,
    /// A message about a transfer that there is not.
    #[error("a message about a transfer that there is not")]
    NoTransfer,
    /// An acknowledgement of what was not sent, or of less than before.
    #[error("an acknowledgement of what was not sent")]
    Ack,
    /// A message out of place, again and again.
    #[error("messages out of place")]
    Unexpected,
}

/// A session. After each call that takes `now`: [`Self::poll_event`] until it gives nothing.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    role: Role,
    state: State,
    peer: Option<Peer>,
    decoder: Decoder,
    incoming: Incoming,
    outgoing: Outgoing,
    out: VecDeque<Bytes>,
    events: VecDeque<Event>,
    /// The other side could speak TLS.
    peer_tls: bool,
    rejected: u32,
    /// Not reading, since the caller or the connection is behind.
    paused: bool,
    ending: Option<Ending>,
    heard: Instant,
    spoke: Instant,
    /// When a transfer last went on, either way.
    active: Instant,
    /// When sending last went on.
    sent: Instant,
    since: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Contact,
    Init,
    Up,
    Over,
}

#[derive(Debug)]
struct Ending {
    end: End,
    answered: bool,
    by: Option<Instant>,
}

/// Pieces of messages that wait to be written. More stop the reading.
const MAX_OUT: usize = 256;
/// Messages out of place that are answered by MSG_REJECT.
const MAX_REJECTED: u32 = 16;

impl Session {
    /// Of a connection that was just opened.
    pub fn new(role: Role, config: SessionConfig, now: Instant) -> Self {
        let mut out = VecDeque::new();
        if role == Role::Active {
            out.push_back(codec::contact());
        }
        Self {
            config,
            role,
            state: State::Contact,
            peer: None,
            decoder: Decoder::default(),
            incoming: Incoming::default(),
            outgoing: Outgoing::default(),
            out,
            events: VecDeque::new(),
            peer_tls: false,
            rejected: 0,
            paused: false,
            ending: None,
            heard: now,
            spoke: now,
            active: now,
            sent: now,
            since: now,
        }
    }

    /// The other side, once the session is up.
    pub fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref()
    }

    /// It ended: nothing more is taken or told.
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// More bytes may be handed in. While not, the connection is better not read.
    pub fn wants_input(&self) -> bool {
        self.state != State::Over && self.out.len() < MAX_OUT && self.incoming.has_room(&self.config)
    }

    /// Bytes in memory of a bundle that is coming.
    pub fn buffered(&self) -> u64 {
        self.incoming.buffered()
    }

    /// Another bundle could be sent.
    pub fn has_room(&self) -> bool {
        self.state == State::Up
            && self.ending.is_none()
            && self.outgoing.len() < self.config.window
            && !self.outgoing.is_spent()
    }

    /// Bytes came from the connection.
    pub fn handle_input(&mut self, now: Instant, bytes: &[u8]) {
        if self.state == State::Over {
            return;
        }
        self.heard = now;
        self.decoder.push(bytes);
        self.process(now);
    }

    /// The other side closed the connection, or it broke.
    pub fn on_closed(&mut self, now: Instant) {
        self.process(now);
        let quiet = self.outgoing.is_empty() && self.incoming.is_quiet();
        let end = match (&self.ending, self.state) {
            (Some(ending), _) if quiet => ending.end.clone(),
            (None, State::Init) if self.peer_tls => End::Tls,
            _ => End::Lost,
        };
        self.end(end);
    }

    /// Sends a bundle, given in pieces one behind the other.
    ///
    /// # Errors
    /// [`SendError`] if it is not taken.
    pub fn send(&mut self, now: Instant, pieces: Vec<Bytes>) -> Result<TransferId, SendError> {
        let Some(peer) = self.peer.as_ref().filter(|_| self.state == State::Up && self.ending.is_none()) else {
            return Err(SendError::NotUp);
        };
        let len: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        let limit = match (peer.segment, self.config.ignore_transfer_mru) {
            (0, _) => 0,
            (_, true) => u64::MAX,
            (_, false) => peer.transfer,
        };
        if len == 0 {
            return Err(SendError::Empty);
        }
        if len > limit {
            return Err(SendError::TooLarge { len, limit });
        }
        if !self.has_room() {
            return Err(SendError::Full);
        }
        if self.outgoing.is_empty() {
            self.sent = now;
        }
        self.active = now;
        Ok(self.outgoing.push(pieces))
    }

    /// The caller has this bundle for good: its sender is told so. False if it is not waiting for that.
    pub fn accept(&mut self, now: Instant, id: TransferId) -> bool {
        let known = self.incoming.accept(id);
        self.process(now);
        known
    }

    /// This bundle is not wanted, whether it is whole or coming. False if there is none such.
    pub fn refuse(&mut self, now: Instant, id: TransferId, reason: Refusal) -> bool {
        let known = self.incoming.refuse(id, reason);
        self.process(now);
        known
    }

    /// The session is to end when what is under way is done.
    pub fn terminate(&mut self, now: Instant, reason: TermReason) {
        if self.state != State::Up {
            self.end(End::Ours(reason));
        } else if self.ending.is_none() {
            self.out.push_back(Message::Term { reply: false, reason }.encode());
            self.begin_end(now, End::Ours(reason), false);
        }
    }

    /// What to write next. Call it again when that was written.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.out.pop_front() {
                self.spoke = now;
                return Some(bytes);
            }
            if self.state == State::Over {
                return None;
            }
            // Reading was paused if there were many answers.
            let answers = std::iter::from_fn(|| self.incoming.next_answer());
            self.out.extend(answers.map(|message| message.encode()));
            if self.paused {
                self.process(now);
            }
            if self.out.is_empty()
                && let Some(peer) = &self.peer
                && let Some(segment) = self.outgoing.next_segment(peer.segment.min(self.config.segment))
            {
                (self.active, self.sent) = (now, now);
                self.out.extend(segment);
            }
            if self.out.is_empty() {
                self.end_if_drained();
                return None;
            }
        }
    }

    /// What happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Self::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines().into_iter().flatten().map(|(at, _)| at).min()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let due: Vec<Deadline> =
            self.deadlines().into_iter().flatten().filter(|(at, _)| *at <= now).map(|(_, what)| what).collect();
        for deadline in due {
            match deadline {
                Deadline::Contact => self.fail(End::ContactTimeout, Some(TermReason::ContactFailure)),
                Deadline::Speak => {
                    self.spoke = now;
                    self.out.push_back(Message::Keepalive.encode());
                }
                Deadline::Hear => self.fail(End::Silent, Some(TermReason::IdleTimeout)),
                Deadline::Stall => self.fail(End::Stalled, Some(TermReason::ResourceExhaustion)),
                Deadline::Idle => self.terminate(now, TermReason::IdleTimeout),
                Deadline::Drain => self.end(End::NotDrained),
            }
        }
    }

    fn deadlines(&self) -> [Option<(Instant, Deadline)>; 6] {
        let after = |since: Instant, time: Duration, what| (!time.is_zero()).then(|| (since + time, what));
        let stall = self.config.stall;
        match self.state {
            State::Over => [None; 6],
            State::Contact | State::Init => {
                [Some((self.since + self.config.contact, Deadline::Contact)), None, None, None, None, None]
            }
            State::Up => {
                let keepalive = self.peer.as_ref().map_or(Duration::ZERO, |peer| peer.keepalive);
                // RFC 9174 §5.1.1: twice the interval without anything heard.
                let hear = (!self.paused).then(|| after(self.heard, 2 * keepalive, Deadline::Hear)).flatten();
                let coming = self.incoming.waiting_since().filter(|_| !self.paused);
                let idle = self.outgoing.is_empty() && self.incoming.is_quiet() && self.ending.is_none();
                [
                    after(self.spoke, keepalive, Deadline::Speak),
                    hear,
                    coming.and_then(|since| after(since, stall, Deadline::Stall)),
                    if self.outgoing.is_empty() { None } else { after(self.sent, stall, Deadline::Stall) },
                    if idle { after(self.active, self.config.idle, Deadline::Idle) } else { None },
                    self.ending.as_ref().and_then(|ending| ending.by).map(|by| (by, Deadline::Drain)),
                ]
            }
        }
    }

    /// Reads as far as there is room for what it brings.
    fn process(&mut self, now: Instant) {
        while self.wants_input() {
            if self.paused {
                self.paused = false;
                self.heard = now;
                self.incoming.on_resumed(now);
            }
            match self.decoder.next_item() {
                Ok(Some(item)) => self.handle_item(now, item),
                Ok(None) => break,
                Err(error) => return self.unreadable(error),
            }
        }
        self.paused = !self.wants_input();
    }

    fn handle_item(&mut self, now: Instant, item: Item) {
        let code = if let Item::Message(message) = &item { message.code() } else { codec::code::XFER_SEGMENT };
        let done = match item {
            Item::Contact { version, flags } => {
                self.on_contact(version, flags);
                Ok(None)
            }
            Item::Data(data) => {
                self.active = now;
                self.incoming.on_data(now, &self.config, &data)
            }
            Item::Message(message) => match (self.state, message) {
                (State::Init, Message::SessInit { keepalive, segment_mru, transfer_mru, node, extensions }) => {
                    let critical = extensions.iter().find(|extension| extension.critical);
                    if let Some(extension) = critical {
                        self.fail(End::Extension(extension.kind), Some(TermReason::ContactFailure));
                    } else {
                        self.on_init(now, keepalive, segment_mru, transfer_mru, &node);
                    }
                    Ok(None)
                }
                (State::Init, Message::Term { reason, .. }) => {
                    let tls = self.peer_tls && reason == TermReason::ContactFailure;
                    self.end(if tls { End::Tls } else { End::Theirs(reason) });
                    Ok(None)
                }
                (State::Up, message) => self.on_message(now, message),
                (_, message) => {
                    self.reject(&message);
                    Ok(None)
                }
            },
        };
        match done {
            Ok(event) => self.events.extend(event),
            Err(fault) => {
                let reason = RejectReason::Unexpected;
                self.out.push_back(Message::Reject { reason, code }.encode());
                self.fail(End::Fault(fault), None);
            }
        }
    }

    fn on_contact(&mut self, version: u8, flags: u8) {
        if self.role == Role::Passive {
            self.out.push_back(codec::contact());
        }
        self.peer_tls = flags & CAN_TLS != 0;
        self.state = State::Init;
        if version != VERSION {
            self.fail(End::Version(version), Some(TermReason::VersionMismatch));
        } else if self.role == Role::Active {
            self.init();
        }
    }

    fn init(&mut self) {
        let message = Message::SessInit {
            keepalive: u16::try_from(self.config.keepalive.as_secs()).unwrap_or(u16::MAX),
            segment_mru: self.config.segment,
            transfer_mru: self.config.transfer,
            node: self.config.node.to_string().into(),
            extensions: Vec::new(),
        };
        self.out.push_back(message.encode());
    }

    fn on_init(&mut self, now: Instant, keepalive: u16, segment: u64, transfer: u64, node: &[u8]) {
        let Some(node) = std::str::from_utf8(node).ok().and_then(|name| name.parse::<NodeId>().ok()) else {
            return self.fail(End::PeerName, Some(TermReason::ContactFailure));
        };
        if node == self.config.node {
            return self.fail(End::Ourselves, Some(TermReason::ContactFailure));
        }
        if self.role == Role::Passive {
            self.init();
        }
        // RFC 9174 §4.7: the smaller of both; none if either has none.
        let keepalive = self.config.keepalive.min(Duration::from_secs(keepalive.into()));
        let peer = Peer { node, segment, transfer, keepalive };
        self.peer = Some(peer.clone());
        self.state = State::Up;
        (self.active, self.spoke) = (now, now);
        self.events.push_back(Event::Up(peer));
    }

    fn on_message(&mut self, now: Instant, message: Message) -> Result<Option<Event>, Fault> {
        match message {
            Message::Segment { start, end, id, extensions, len } => {
                self.active = now;
                let segment = Segment { start, end, id, extensions, len };
                self.incoming.on_segment(now, &self.config, self.ending.is_some(), segment)
            }
            Message::Ack { id, len, .. } => {
                (self.active, self.sent) = (now, now);
                self.outgoing.on_ack(id, len)
            }
            Message::Refuse { reason, id } => {
                (self.active, self.sent) = (now, now);
                self.outgoing.on_refuse(id, reason)
            }
            Message::Term { reason, .. } => {
                match &mut self.ending {
                    Some(ending) => ending.answered = true,
                    None => {
                        self.out.push_back(Message::Term { reply: true, reason }.encode());
                        self.begin_end(now, End::Theirs(reason), true);
                    }
                }
                Ok(None)
            }
            Message::Keepalive => Ok(None),
            // What we sent is not understood: what of it cannot be said.
            Message::Reject { .. } => Err(Fault::Unexpected),
            message @ Message::SessInit { .. } => {
                self.reject(&message);
                Ok(None)
            }
        }
    }

    /// Answers a message that has no place here (RFC 9174 §5.1.2). Segments' data are passed over.
    fn reject(&mut self, message: &Message) {
        self.rejected += 1;
        if self.rejected > MAX_REJECTED {
            return self.fail(End::Fault(Fault::Unexpected), None);
        }
        self.out.push_back(Message::Reject { reason: RejectReason::Unexpected, code: message.code() }.encode());
    }

    fn unreadable(&mut self, error: DecodeError) {
        if let DecodeError::Unknown(code) = error {
            self.out.push_back(Message::Reject { reason: RejectReason::TypeUnknown, code }.encode());
        }
        self.fail(if error == DecodeError::Tls { End::Tls } else { End::Unreadable(error) }, None);
    }

    fn begin_end(&mut self, now: Instant, end: End, answered: bool) {
        let drain = self.config.drain;
        let by = (!drain.is_zero()).then(|| now + drain);
        self.ending = Some(Ending { end, answered, by });
        // RFC 9174 §6.1: what has begun goes on, nothing new begins.
        let failed = self.outgoing.take(false);
        self.events.extend(failed.into_iter().map(Event::Failed));
    }

    fn end_if_drained(&mut self) {
        let drained = self.outgoing.is_empty() && self.incoming.is_quiet();
        if let Some(ending) = self.ending.as_ref().filter(|ending| ending.answered && drained) {
            let end = ending.end.clone();
            self.end(end);
        }
    }

    fn fail(&mut self, end: End, reason: Option<TermReason>) {
        if let Some(reason) = reason.filter(|_| self.state != State::Contact && self.ending.is_none()) {
            self.out.push_back(Message::Term { reply: false, reason }.encode());
        }
        self.end(end);
    }

    fn end(&mut self, end: End) {
        if self.state != State::Over {
            self.state = State::Over;
            let failed = self.outgoing.take(true);
            self.events.extend(failed.into_iter().map(Event::Failed));
            self.events.push_back(Event::Ended(end));
        }
    }
}

/// What is waited for.
#[derive(Debug, Clone, Copy)]
enum Deadline {
    /// When the session has to be up.
    Contact,
    /// When something has to be said.
    Speak,
    /// When something has to have been heard.
    Hear,
    /// When a transfer has to have gone on.
    Stall,
    /// When there was nothing to do for long enough.
    Idle,
    /// When what was under way has to be done.
    Drain,
}
