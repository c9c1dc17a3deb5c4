//! tokio around the sessions: listens, dials, takes bundles in, and hands out what the caller gives.
//!
//! The caller gets an [`Agent`] and a stream of [`Request`]s, which it answers in its own time:
//!
//! * [`Request::Store`]: here is a bundle. Its sender is told that we have it when the answer says that it is stored for good, and not
//!   before.
//! * [`Request::Next`]: a route has room for a bundle. It is asked again after [`Agent::wake`], and from time to time.
//! * [`Request::Done`]: what became of a bundle that was given.
//!
//! So nothing large is queued here: each session holds the bundles that are under way, [`SessionConfig::window`] at
//! most. Requests are few at any time: for each session those undecided, those under way, and one question.

mod dial;
mod driver;
mod listen;
mod stats;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};

pub use stats::Stats;

use crate::tcpcl::{ConfigError, Refusal, SessionConfig};
use crate::{Carried, Eid, Limits, NodeId, Pattern, Summary};

/// Where bundles for some endpoints go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Which endpoints.
    pub pattern: Pattern,
    /// `host:port` of the next node. Looked up anew for each connection.
    pub address: String,
    /// See [`SessionConfig::ignore_transfer_mru`].
    pub ignore_transfer_mru: bool,
}

/// Number of a route in [`AgentConfig::routes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(pub usize);

/// What an agent is told.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// Our name, and what sessions are told.
    pub session: SessionConfig,
    /// What bundles may be.
    pub limits: Limits,
    /// Where bundles go.
    pub routes: Vec<Route>,
    /// Sessions of others' at a time. 32.
    pub sessions: usize,
    /// Bytes of bundles in memory that are coming or not decided about, of all sessions. 64 MiB. What is beyond is
    /// refused for now.
    pub memory: u64,
    /// How long to wait after a connection that failed: at first, and at most; doubled each time. 1 s, 60 s.
    pub backoff: (Duration, Duration),
    /// How long until a route that had nothing is asked again without [`Agent::wake`]. 30 s.
    pub ask_again: Duration,
}

impl AgentConfig {
    /// For this node, with no routes; all else as said above.
    pub fn new(node: NodeId) -> Self {
        Self {
            session: SessionConfig::new(node),
            limits: Limits::default(),
            routes: Vec::new(),
            sessions: 32,
            memory: 64 << 20,
            backoff: (Duration::from_secs(1), Duration::from_secs(60)),
            ask_again: Duration::from_secs(30),
        }
    }

    /// The route for this endpoint: of those that match the closest, and of those alike the first.
    pub fn route(&self, destination: &Eid) -> Option<RouteId> {
        let matching = self.routes.iter().enumerate().filter(|(_, route)| route.pattern.matches(destination));
        matching.rev().max_by_key(|(_, route)| route.pattern.closeness()).map(|(at, _)| RouteId(at))
    }
}

/// A bundle that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// Byte for byte as it came.
    pub bundle: Bytes,
    /// What it says of itself.
    pub summary: Summary,
    /// The node that the session is with, as it calls itself.
    pub from: NodeId,
    /// Its address.
    pub address: SocketAddr,
}

/// What becomes of a bundle that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is stored and survives a power cut, or it was before.
    Stored,
    /// Not now: its sender may try again.
    Later,
    /// Never: its sender should not try again.
    Refused,
}

/// A bundle for a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The caller's name for it; told back by [`Request::Done`].
    pub token: u64,
    /// Its bytes, one piece behind the other.
    pub pieces: Vec<Bytes>,
    /// The node that it came from, if it came from one: it is not sent back there.
    pub from: Option<NodeId>,
}

impl Offer {
    /// Of a bundle that was carried.
    pub fn carried(token: u64, carried: Carried, from: Option<NodeId>) -> Self {
        Self { token, pieces: carried.pieces, from }
    }
}

/// What became of a bundle that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The next node has it, and said so.
    Delivered,
    /// The next node does not want it, now or later.
    Refused(Refusal),
    /// The next node takes none of that length; the most that it takes, in bytes.
    TooLarge(u64),
    /// The next node is the one that it came from.
    Loop,
    /// It was not acknowledged, for this reason: to be given again. The next node may have it nevertheless.
    Later(String),
}

/// What the caller is asked.
#[derive(Debug)]
pub enum Request {
    /// Store this. An answer that is dropped means [`Verdict::Later`].
    Store {
        /// The bundle.
        arrival: Box<Arrival>,
        /// What becomes of it.
        answer: oneshot::Sender<Verdict>,
    },
    /// What goes by this route next? An answer that is dropped means nothing. If the answer cannot be sent, the session
    /// is over, and the bundle was not taken.
    Next {
        /// The route.
        route: RouteId,
        /// Who is there, if the connection is up.
        peer: Option<NodeId>,
        /// A bundle that is not under way by this route already, and was not told to be too large, a loop or not
        /// wanted: the route asks again at once.
        answer: oneshot::Sender<Option<Offer>>,
    },
    /// A bundle that was given is done with.
    Done {
        /// By which route.
        route: RouteId,
        /// [`Offer::token`].
        token: u64,
        /// What became of it.
        outcome: Outcome,
    },
}

/// Runs until it is closed or dropped.
#[derive(Debug)]
pub struct Agent {
    shared: Arc<Shared>,
    signal: watch::Sender<Signal>,
    /// Ends when all tasks have.
    alive: mpsc::Receiver<()>,
}

/// What tasks have in common.
#[derive(Debug)]
struct Shared {
    config: AgentConfig,
    requests: mpsc::UnboundedSender<Request>,
    stats: stats::Counters,
    /// Bytes of bundles in memory.
    memory: AtomicU64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Signal {
    /// Counts [`Agent::wake`].
    wakes: u64,
    closing: bool,
}

impl Agent {
    /// Starts it on this thread's runtime. With a listener, others may connect.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn start(
        config: AgentConfig,
        listener: Option<TcpListener>,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Request>), ConfigError> {
        config.session.check()?;
        let (requests, receiver) = mpsc::unbounded_channel();
        let (signal, signals) = watch::channel(Signal::default());
        let (guard, alive) = mpsc::channel(1);
        let shared =
            Arc::new(Shared { config, requests, stats: stats::Counters::default(), memory: AtomicU64::new(0) });
        if let Some(listener) = listener {
            tokio::spawn(listen::listen(shared.clone(), listener, signals.clone(), guard.clone()));
        }
        for route in 0..shared.config.routes.len() {
            let dialer = dial::Dialer::new(shared.clone(), RouteId(route), signals.clone());
            let guard = guard.clone();
            tokio::spawn(async move {
                dialer.run().await;
                drop(guard);
            });
        }
        Ok((Self { shared, signal, alive }, receiver))
    }

    /// There may be something for routes that had nothing.
    pub fn wake(&self) {
        self.signal.send_modify(|signal| signal.wakes += 1);
    }

    /// What was done so far.
    pub fn stats(&self) -> Stats {
        self.shared.stats.snapshot()
    }

    /// Ends all sessions in order, and waits for them. Requests have to be answered until then.
    pub async fn close(mut self) {
        self.signal.send_modify(|signal| signal.closing = true);
        let _ = self.alive.recv().await;
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.signal.send_modify(|signal| signal.closing = true);
    }
}

impl Shared {
    /// Asks the caller for a bundle.
    fn ask(&self, route: RouteId, peer: Option<NodeId>) -> oneshot::Receiver<Option<Offer>> {
        let (answer, receiver) = oneshot::channel();
        let _ = self.requests.send(Request::Next { route, peer, answer });
        receiver
    }

    fn done(&self, route: RouteId, token: u64, outcome: Outcome) {
        self.stats.done(&outcome);
        let _ = self.requests.send(Request::Done { route, token, outcome });
    }
}

/// Milliseconds since 1970, by the system's clock.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Listens at this address.
///
/// # Errors
/// If it cannot be bound.
pub async fn bind(address: &str) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

#[cfg(test)]
mod tests;
