//! One connection: reads, writes, and asks the caller.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tracing::{debug, info};

use super::{Arrival, Offer, Outcome, Request, RouteId, Shared, Signal, Verdict, now_ms};
use crate::tcpcl::{End, Event, Refusal, SendError, Session, TermReason, TransferId};
use crate::{NodeId, read};

/// Bytes that are read at once.
const READ: usize = 64 << 10;
/// Bytes that are gathered for one writing.
const WRITE: usize = 128 << 10;
/// Pieces in one writing.
const PIECES: usize = 16;
/// How long what is left may take to be written when the session is over.
const FLUSH: Duration = Duration::from_secs(5);

/// How a session went.
#[derive(Debug)]
pub(super) struct Outline {
    pub end: End,
    pub was_up: bool,
    /// It ended as sessions do, and can begin again at once.
    pub in_order: bool,
}

impl fmt::Display for Outline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.end.fmt(f)
    }
}

/// What goes by this connection.
pub(super) struct Sending {
    route: RouteId,
    /// Waits until the session is up.
    first: Option<Offer>,
    under_way: HashMap<TransferId, u64>,
    asking: Option<oneshot::Receiver<Option<Offer>>>,
    /// When the caller is asked again; `None` for now.
    ask_at: Option<tokio::time::Instant>,
}

impl Sending {
    pub fn new(route: RouteId, first: Offer) -> Self {
        Self { route, first: Some(first), under_way: HashMap::new(), asking: None, ask_at: None }
    }
}

pub(super) struct Driver {
    shared: Arc<Shared>,
    session: Session,
    address: SocketAddr,
    signals: watch::Receiver<Signal>,
    sending: Option<Sending>,
    peer: Option<NodeId>,
    /// The bundle that is coming.
    coming: Option<TransferId>,
    /// In the order in which they came.
    undecided: VecDeque<(TransferId, u64, oneshot::Receiver<Verdict>)>,
    out: VecDeque<Bytes>,
    /// Of the memory of all, in bytes.
    memory: u64,
    end: Option<End>,
}

impl Driver {
    pub fn new(
        shared: Arc<Shared>,
        session: Session,
        address: SocketAddr,
        signals: watch::Receiver<Signal>,
        sending: Option<Sending>,
    ) -> Self {
        Self {
            shared,
            session,
            address,
            signals,
            sending,
            peer: None,
            coming: None,
            undecided: VecDeque::new(),
            out: VecDeque::new(),
            memory: 0,
            end: None,
        }
    }

    pub async fn run(mut self, mut stream: TcpStream) -> Outline {
        // Answers are small and waited for.
        let _ = stream.set_nodelay(true);
        let stall = self.shared.config.session.stall;
        let (mut reader, mut writer) = stream.split();
        let mut buffer = vec![0; READ];
        let mut wrote = Instant::now();
        if self.signals.borrow_and_update().closing {
            self.session.terminate(Instant::now(), TermReason::Unknown);
        }
        loop {
            self.settle();
            let over = self.session.is_over();
            if over && (self.out.is_empty() || wrote.elapsed() > FLUSH) {
                break;
            }
            let slices: Vec<IoSlice<'_>> = self.out.iter().take(PIECES).map(|piece| IoSlice::new(piece)).collect();
            let writing = !slices.is_empty();
            if !writing {
                wrote = Instant::now();
            }
            let write_by = if over { Some(wrote + FLUSH) } else { (!stall.is_zero()).then(|| wrote + stall) };
            let until = self.session.poll_timeout().into_iter().chain(write_by.filter(|_| writing)).min();
            let ask_at = self.sending.as_ref().and_then(|sending| sending.ask_at);
            tokio::select! {
                read = reader.read(&mut buffer), if self.session.wants_input() => match read {
                    Ok(0) => self.session.on_closed(Instant::now()),
                    Ok(len) => self.session.handle_input(Instant::now(), &buffer[..len]),
                    Err(error) => {
                        debug!("{}: {error}", self.address);
                        self.session.on_closed(Instant::now());
                    }
                },
                written = writer.write_vectored(&slices), if writing => {
                    wrote = Instant::now();
                    match written {
                        Ok(len) if len > 0 => advance(&mut self.out, len),
                        _ => {
                            self.out.clear();
                            self.session.on_closed(wrote);
                        }
                    }
                }
                () = sleep_until(until) => {
                    let now = Instant::now();
                    if writing && write_by.is_some_and(|by| by <= now) {
                        self.out.clear();
                        self.session.on_closed(now);
                    } else {
                        self.session.handle_timeout(now);
                    }
                }
                verdict = first_verdict(&mut self.undecided) => self.on_verdict(verdict),
                offer = answer(&mut self.sending) => self.on_offer(offer),
                () = tokio::time::sleep_until(ask_at.unwrap_or_else(far)), if ask_at.is_some() => self.ask_now(),
                changed = self.signals.changed() => {
                    if changed.is_err() || self.signals.borrow_and_update().closing {
                        self.session.terminate(Instant::now(), TermReason::Unknown);
                    } else {
                        self.ask_now();
                    }
                }
            }
        }
        let _ = writer.shutdown().await;
        self.finish()
    }

    /// Events, memory, output, questions: until nothing comes of it any more.
    fn settle(&mut self) {
        loop {
            self.fill();
            let Some(event) = self.session.poll_event() else { break };
            self.on_event(event);
        }
        let waiting: u64 = self.undecided.iter().map(|(_, len, _)| len).sum();
        let memory = self.session.buffered() + waiting;
        let all = &self.shared.memory;
        let before = if memory >= self.memory {
            all.fetch_add(memory - self.memory, Ordering::Relaxed) + (memory - self.memory)
        } else {
            all.fetch_sub(self.memory - memory, Ordering::Relaxed) - (self.memory - memory)
        };
        self.memory = memory;
        if before > self.shared.config.memory
            && let Some(id) = self.coming.take()
            && self.session.refuse(Instant::now(), id, Refusal::NoResources)
        {
            self.refused("no memory for it".into());
            self.fill();
        }
        self.ask();
    }

    fn fill(&mut self) {
        let mut len: usize = self.out.iter().map(Bytes::len).sum();
        while len < WRITE {
            let Some(piece) = self.session.poll_transmit(Instant::now()) else { break };
            len += piece.len();
            self.out.push_back(piece);
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Up(peer) => {
                info!("session with {} at {}", peer.node, self.address);
                self.shared.stats.count(|stats| stats.sessions += 1);
                self.peer = Some(peer.node);
                if let Some(offer) = self.sending.as_mut().and_then(|sending| sending.first.take()) {
                    self.send(offer);
                }
            }
            Event::Begun { id, length } => {
                self.coming = Some(id);
                let taken = self.shared.memory.load(Ordering::Relaxed);
                if length.is_some_and(|length| taken.saturating_add(length) > self.shared.config.memory) {
                    self.session.refuse(Instant::now(), id, Refusal::NoResources);
                    self.refused("no memory for it".into());
                }
            }
            Event::Received { id, bundle } => {
                self.coming = None;
                self.on_bundle(id, bundle.into());
            }
            Event::Delivered(id) => self.done(id, Outcome::Delivered),
            Event::Refused(id, reason) => {
                let outcome = match reason {
                    Refusal::NotAcceptable | Refusal::ExtensionFailure => Outcome::Refused(reason),
                    reason => Outcome::Later(reason.to_string()),
                };
                if matches!(outcome, Outcome::Later(_)) {
                    // It would be given again at once.
                    self.ask_later();
                }
                self.done(id, outcome);
            }
            Event::Failed(id) => self.done(id, Outcome::Later("the session ended".into())),
            Event::Ended(end) => self.end = Some(end),
        }
    }

    fn on_bundle(&mut self, id: TransferId, bundle: Bytes) {
        let summary = read(&bundle, &self.shared.config.limits, now_ms());
        let (summary, from) = match (summary, self.peer.clone()) {
            (Ok(summary), Some(from)) => (summary, from),
            (summary, _) => {
                let reason = summary.err().map(|error| error.to_string()).unwrap_or_default();
                debug!("{}: a bundle refused: {reason}", self.address);
                self.refused(reason);
                self.session.refuse(Instant::now(), id, Refusal::NotAcceptable);
                return;
            }
        };
        let (answer, receiver) = oneshot::channel();
        self.undecided.push_back((id, bundle.len() as u64, receiver));
        let arrival = Box::new(Arrival { bundle, summary, from, address: self.address });
        // If nobody is there to hear it, the answer is dropped, and means later.
        let _ = self.shared.requests.send(Request::Store { arrival, answer });
    }

    fn on_verdict(&mut self, verdict: Verdict) {
        let Some((id, ..)) = self.undecided.pop_front() else { return };
        let now = Instant::now();
        match verdict {
            Verdict::Stored => {
                self.shared.stats.count(|stats| stats.stored += 1);
                self.session.accept(now, id);
            }
            Verdict::Later => {
                self.refused("no room now".into());
                self.session.refuse(now, id, Refusal::NoResources);
            }
            Verdict::Refused => {
                self.refused("not wanted".into());
                self.session.refuse(now, id, Refusal::NotAcceptable);
            }
        }
    }

    /// Asks the caller for a bundle if there is room for one.
    fn ask(&mut self) {
        let Some(sending) = &mut self.sending else { return };
        if self.session.has_room() && sending.asking.is_none() && sending.ask_at.is_none() {
            sending.asking = Some(self.shared.ask(sending.route, self.peer.clone()));
        }
    }

    fn ask_now(&mut self) {
        if let Some(sending) = &mut self.sending {
            sending.ask_at = None;
        }
    }

    fn ask_later(&mut self) {
        if let Some(sending) = &mut self.sending {
            sending.ask_at = Some(tokio::time::Instant::now() + self.shared.config.backoff.0);
        }
    }

    fn on_offer(&mut self, offer: Option<Offer>) {
        let Some(sending) = &mut self.sending else { return };
        sending.asking = None;
        match offer {
            Some(offer) => self.send(offer),
            None => sending.ask_at = Some(tokio::time::Instant::now() + self.shared.config.ask_again),
        }
    }

    fn send(&mut self, offer: Offer) {
        let Some(sending) = &mut self.sending else { return };
        let (route, token) = (sending.route, offer.token);
        if offer.from.is_some() && offer.from == self.peer {
            return self.shared.done(route, token, Outcome::Loop);
        }
        match self.session.send(Instant::now(), offer.pieces) {
            Ok(id) => {
                sending.under_way.insert(id, token);
            }
            Err(SendError::TooLarge { limit, .. }) => self.shared.done(route, token, Outcome::TooLarge(limit)),
            Err(error) => {
                self.ask_later();
                self.shared.done(route, token, Outcome::Later(error.to_string()));
            }
        }
    }

    fn done(&mut self, id: TransferId, outcome: Outcome) {
        let Some(sending) = &mut self.sending else { return };
        if let Some(token) = sending.under_way.remove(&id) {
            self.shared.done(sending.route, token, outcome);
        }
    }

    fn refused(&self, reason: String) {
        self.shared.stats.refused(reason);
    }

    /// Nothing that was given stays without an answer.
    fn finish(mut self) -> Outline {
        let end = self.end.take().unwrap_or(End::Lost);
        self.shared.stats.ended(end.to_string());
        if let Some(sending) = &mut self.sending {
            let given = sending.asking.take().and_then(|mut asking| {
                asking.close();
                asking.try_recv().ok().flatten()
            });
            let waiting = sending.first.take().into_iter().chain(given).map(|offer| offer.token);
            let tokens: Vec<u64> = waiting.chain(sending.under_way.drain().map(|(_, token)| token)).collect();
            for token in tokens {
                self.shared.done(sending.route, token, Outcome::Later(end.to_string()));
            }
        }
        let in_order = matches!(end, End::Ours(_) | End::Theirs(TermReason::IdleTimeout));
        Outline { end, was_up: self.peer.is_some(), in_order }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.memory.fetch_sub(self.memory, Ordering::Relaxed);
    }
}

/// What was written is taken off.
fn advance(out: &mut VecDeque<Bytes>, mut len: usize) {
    while let Some(piece) = out.front_mut() {
        let taken = len.min(piece.len());
        piece.advance(taken);
        len -= taken;
        if !piece.is_empty() {
            break;
        }
        out.pop_front();
    }
}

async fn first_verdict(undecided: &mut VecDeque<(TransferId, u64, oneshot::Receiver<Verdict>)>) -> Verdict {
    match undecided.front_mut() {
        Some((_, _, receiver)) => receiver.await.unwrap_or(Verdict::Later),
        None => std::future::pending().await,
    }
}

async fn answer(sending: &mut Option<Sending>) -> Option<Offer> {
    match sending.as_mut().and_then(|sending| sending.asking.as_mut()) {
        Some(receiver) => receiver.await.ok().flatten(),
        None => std::future::pending().await,
    }
}

async fn sleep_until(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until.into()).await,
        None => std::future::pending().await,
    }
}

/// Never waited for.
fn far() -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_secs(3600)
}
