//! Bundles (RFC 9171) of other networks, in and out of a store: see docs/bundles.md.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::thread::JoinHandle;
use std::time::Duration;

use aquila_bundle::agent::{
    Agent, AgentConfig, Arrival, Offer, Outcome, Request, Route, RouteId, Verdict, bind, now_ms,
};
use aquila_bundle::{Carried, Eid, NodeId, Pattern, PatternError, carry, read};
use aquila_depot::{Depot, DepotError, PutOptions};
use aquila_proto::transfer::{Kind, Manifest, ObjectId};
use bytes::Bytes;
use tokio::sync::mpsc;

use super::export::{Export, Fault, Piece};
use super::{MuleError, workers};

/// What a store that speaks with other networks is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleSetup {
    /// What it is called there.
    pub node: NodeId,
    /// Where their nodes hand bundles in.
    pub listen: Option<SocketAddr>,
    /// Where bundles go that have arrived.
    pub routes: Vec<RouteSpec>,
    /// For whom files leave as bundles; one of the routes has to be for it.
    pub files: Option<Eid>,
}

/// Where bundles go: `PATTERN=HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteSpec {
    /// For whom: an endpoint, or `dtn://shore/*`, `ipn:5.*`, `*`.
    pub pattern: Pattern,
    /// Host and port of the next node.
    pub address: String,
    text: String,
}

/// Why a text is no route.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseRouteError {
    /// Not of that form.
    #[error("'{0}' is no route for bundles: write PATTERN=HOST:PORT, such as dtn://shore/*=127.0.0.1:4556")]
    Form(String),
    /// The pattern.
    #[error("'{0}': {1}")]
    Pattern(String, String),
}

impl FromStr for RouteSpec {
    type Err = ParseRouteError;

    fn from_str(text: &str) -> Result<Self, ParseRouteError> {
        let form = || ParseRouteError::Form(text.to_owned());
        let (pattern, address) = text.rsplit_once('=').ok_or_else(form)?;
        let (host, port) = address.rsplit_once(':').ok_or_else(form)?;
        if host.is_empty() || !port.parse::<u16>().is_ok_and(|port| port > 0) {
            return Err(form());
        }
        let pattern =
            pattern.parse().map_err(|e: PatternError| ParseRouteError::Pattern(pattern.into(), e.to_string()))?;
        Ok(Self { pattern, address: address.to_owned(), text: text.to_owned() })
    }
}

impl fmt::Display for RouteSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Routes ask this often whether there is something for them.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Names of bundles that are known to be stored; one that comes a second time is not stored again.
const REMEMBERED: usize = 4_096;
/// A bundle that the next node did not want, or that has no route, is looked at again after this.
const SET_ASIDE: Duration = Duration::from_secs(600);

/// Speaks with other networks as long as it is kept.
#[derive(Debug)]
pub struct Bundles {
    agent: Option<Agent>,
    thread: Option<JoinHandle<()>>,
    /// Where it listens.
    pub local: Option<SocketAddr>,
}

impl Bundles {
    /// Starts it, with the store open a second time.
    ///
    /// # Errors
    /// If it cannot listen, or what it is told is absurd.
    pub async fn start(depot: Depot, setup: BundleSetup) -> Result<Self, MuleError> {
        let mut config = AgentConfig::new(setup.node);
        config.ask_again = ASK_AGAIN;
        let route =
            |route: RouteSpec| Route { pattern: route.pattern, address: route.address, ignore_transfer_mru: true };
        config.routes = setup.routes.into_iter().map(route).collect();
        let files = match setup.files {
            Some(eid) => {
                let route = config.route(&eid).ok_or_else(|| MuleError::Bundles(format!("no route for {eid}")))?;
                Some((eid, route))
            }
            None => None,
        };
        let listener = match setup.listen {
            Some(address) => {
                let listener = bind(&address.to_string()).await;
                Some(listener.map_err(|error| MuleError::BundlesListen(address, error))?)
            }
            None => None,
        };
        let local = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let desk = Desk {
            depot,
            config: config.clone(),
            known: HashSet::new(),
            order: VecDeque::new(),
            under_way: BTreeMap::new(),
            tokens: 0,
            aside: BTreeMap::new(),
            routes: BTreeMap::new(),
            forget_at: REMEMBERED,
            files,
            exports: BTreeMap::new(),
        };
        let (agent, requests) =
            Agent::start(config, listener).map_err(|error| MuleError::Bundles(error.to_string()))?;
        let thread = workers::spawn("bundles", move || desk.run(requests))?;
        Ok(Self { agent: Some(agent), thread: Some(thread), local })
    }

    /// Ends all sessions in order.
    pub async fn close(mut self) {
        if let Some(agent) = self.agent.take() {
            agent.close().await;
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread for bundles has failed");
        }
    }
}

/// Answers what the agent asks.
struct Desk {
    depot: Depot,
    config: AgentConfig,
    known: HashSet<String>,
    order: VecDeque<String>,
    /// Bundles under way, by token, and pieces of files.
    under_way: BTreeMap<u64, (ObjectId, Option<Piece>)>,
    tokens: u64,
    /// Bundles that have no route, or that the next node does not want, and until when they wait.
    aside: BTreeMap<ObjectId, std::time::Instant>,
    /// By which route bundles go that wait: what is known is not read again. Those that are gone are forgotten at so many.
    routes: BTreeMap<ObjectId, RouteId>,
    forget_at: usize,
    /// For whom files leave, and by which route.
    files: Option<(Eid, RouteId)>,
    /// Files that are leaving.
    exports: BTreeMap<ObjectId, Export>,
}

impl Desk {
    fn run(mut self, mut requests: mpsc::UnboundedReceiver<Request>) {
        while let Some(request) = requests.blocking_recv() {
            match request {
                Request::Store { arrival, answer } => {
                    let verdict = self.store(&arrival);
                    // A session that is over hears it when the bundle comes again.
                    let _ = answer.send(verdict);
                }
                Request::Next { route, answer, .. } => {
                    let offer = self.next(route).unwrap_or_else(|error| {
                        tracing::error!(%error, "cannot look for bundles");
                        None
                    });
                    if let Err(Some(offer)) = answer.send(offer) {
                        self.done(offer.token, &Outcome::Later("the session is over".to_owned()));
                    }
                }
                Request::Done { token, outcome, .. } => self.done(token, &outcome),
            }
        }
    }

    /// Stores a bundle for good, unless that was done.
    fn store(&mut self, arrival: &Arrival) -> Verdict {
        let summary = &arrival.summary;
        if self.known.contains(&summary.id) {
            return Verdict::Stored;
        }
        let lifetime_ms = u64::try_from(summary.lifetime.as_millis()).unwrap_or(u64::MAX);
        let expires_ms = summary.created_ms.unwrap_or_else(now_ms).saturating_add(lifetime_ms);
        let options = PutOptions { priority: PRIORITY, expires_s: expires_ms.div_ceil(1_000), ..PutOptions::default() };
        let put = self.depot.put_bundle(&arrival.bundle, &options).and_then(|put| self.depot.commit().map(|_| put));
        match put {
            Ok(put) => {
                tracing::info!(
                    source = %summary.source, destination = %summary.destination, bytes = summary.len, from = %arrival.from,
                    object = %put.object, "bundle taken"
                );
                self.remember(&summary.id);
                Verdict::Stored
            }
            Err(error) => {
                tracing::warn!(%error, source = %summary.source, "a bundle cannot be taken now");
                Verdict::Later
            }
        }
    }

    fn remember(&mut self, id: &str) {
        self.known.insert(id.to_owned());
        self.order.push_back(id.to_owned());
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// The oldest bundle that goes by this route, or a piece of the oldest file.
    fn next(&mut self, route: RouteId) -> Result<Option<Offer>, DepotError> {
        let now = std::time::Instant::now();
        self.aside.retain(|_, until| *until > now);
        if self.routes.len() >= self.forget_at {
            let waiting = self.depot.outgoing(usize::MAX, |_, kind| kind != Kind::Bundle)?;
            let waiting: HashSet<_> = waiting.into_iter().map(|(object, _)| object).collect();
            self.routes.retain(|object, _| waiting.contains(object));
            self.forget_at = REMEMBERED.max(2 * self.routes.len());
        }
        loop {
            if let Some(offer) = self.next_piece(route)? {
                return Ok(Some(offer));
            }
            let leaves_here = self.files.as_ref().is_some_and(|(_, by)| *by == route);
            let is_other = |object: &ObjectId, kind: Kind| {
                self.aside.contains_key(object)
                    || self.routes.get(object).is_some_and(|by| *by != route)
                    || self.under_way.values().any(|(other, _)| other == object)
                    || kind != Kind::Bundle && (!leaves_here || self.exports.contains_key(object))
            };
            let Some((object, kind)) = self.depot.outgoing(1, is_other)?.pop() else { return Ok(None) };
            if kind != Kind::Bundle {
                self.begin_export(object, now)?;
                continue;
            }
            match self.look_at(&object)? {
                Some((by, carried)) if by == route => return Ok(Some(self.offer(object, None, carried.pieces))),
                Some(_) => {}
                None => drop(self.aside.insert(object, now + SET_ASIDE)),
            }
        }
    }

    fn offer(&mut self, object: ObjectId, piece: Option<Piece>, pieces: Vec<Bytes>) -> Offer {
        self.tokens += 1;
        self.under_way.insert(self.tokens, (object, piece));
        Offer { token: self.tokens, pieces, from: None }
    }

    fn begin_export(&mut self, object: ObjectId, now: std::time::Instant) -> Result<(), DepotError> {
        match Export::open(&mut self.depot, object) {
            Ok(export) => drop(self.exports.insert(object, export)),
            Err(fault) => {
                self.aside.insert(object, now + SET_ASIDE);
                self.on_fault(&object, fault)?;
            }
        }
        Ok(())
    }

    /// The next piece of a file that is leaving.
    fn next_piece(&mut self, route: RouteId) -> Result<Option<Offer>, DepotError> {
        let Some((destination, _)) = self.files.clone().filter(|(_, by)| *by == route) else { return Ok(None) };
        let objects: Vec<_> = self.exports.keys().copied().collect();
        for object in objects {
            let Some(export) = self.exports.get_mut(&object) else { continue };
            let Some(piece) = export.next() else { continue };
            let source = Eid::from(self.config.session.node.clone());
            match export.bundle(&mut self.depot, &piece, source, destination.clone(), now_ms()) {
                Ok(bundle) => return Ok(Some(self.offer(object, Some(piece), vec![bundle.into()]))),
                Err(fault) => {
                    self.set_aside(object);
                    self.on_fault(&object, fault)?;
                }
            }
        }
        Ok(None)
    }

    fn on_fault(&mut self, object: &ObjectId, fault: Fault) -> Result<(), DepotError> {
        match fault {
            Fault::Now(DepotError::Unknown(_) | DepotError::Damaged { .. }) => Ok(()),
            Fault::Now(error) => Err(error),
            Fault::Useless(reason) => {
                self.give_up(object, &reason);
                Ok(())
            }
        }
    }

    fn set_aside(&mut self, object: ObjectId) {
        self.exports.remove(&object);
        self.aside.insert(object, std::time::Instant::now() + SET_ASIDE);
    }

    /// By which route a bundle goes, and how; `None` if it cannot now.
    fn look_at(&mut self, object: &ObjectId) -> Result<Option<(RouteId, Carried)>, DepotError> {
        let bytes = match self.depot.whole(object) {
            Ok(bytes) => bytes,
            Err(DepotError::Unknown(_) | DepotError::Damaged { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let summary = match read(&bytes, &self.config.limits, now_ms()) {
            Ok(summary) => summary,
            Err(error) => {
                self.give_up(object, &error.to_string());
                return Ok(None);
            }
        };
        let Some(route) = self.config.route(&summary.destination) else {
            tracing::warn!(destination = %summary.destination, "no route for a bundle; it waits");
            return Ok(None);
        };
        self.routes.insert(*object, route);
        let dwell = self.dwell(object);
        match carry(&bytes, &self.config.limits, &self.config.session.node, dwell, now_ms()) {
            Ok(carried) => Ok(Some((route, carried))),
            Err(dropped) => {
                self.give_up(object, &dropped.to_string());
                Ok(None)
            }
        }
    }

    /// For how long a bundle has been with us: since the store that it came to has signed for it.
    fn dwell(&mut self, object: &ObjectId) -> Duration {
        let manifest: Option<Bytes> = self.depot.load(object, 0).ok();
        let created_s =
            manifest.and_then(|manifest| Manifest::parse(&manifest).ok()).map(|manifest| manifest.created_s);
        Duration::from_secs(created_s.map_or(0, |created| (now_ms() / 1_000).saturating_sub(created)))
    }

    fn give_up(&mut self, object: &ObjectId, reason: &str) {
        tracing::warn!(%object, reason, "a bundle is given up");
        if let Err(error) = self.depot.useless(object, reason) {
            tracing::error!(%error, "cannot note that a bundle is given up");
        }
    }

    fn done(&mut self, token: u64, outcome: &Outcome) {
        let Some((object, piece)) = self.under_way.remove(&token) else { return };
        match (outcome, piece) {
            (Outcome::Delivered, None) => self.handed_over(&object),
            (Outcome::Delivered, Some(_)) => {
                if self.exports.get_mut(&object).is_some_and(Export::on_delivered) {
                    self.exports.remove(&object);
                    self.handed_over(&object);
                }
            }
            (Outcome::Later(reason), piece) => {
                tracing::debug!(%object, reason, "bundle to be handed over again");
                if let (Some(piece), Some(export)) = (piece, self.exports.get_mut(&object)) {
                    export.again(piece);
                }
            }
            (Outcome::Refused(_) | Outcome::TooLarge(_) | Outcome::Loop, _) => {
                tracing::warn!(%object, ?outcome, "the next node does not take a bundle; trying again in ten minutes");
                self.set_aside(object);
            }
        }
    }

    fn handed_over(&mut self, object: &ObjectId) {
        tracing::info!(%object, "handed over");
        if let Err(error) = self.depot.handed_over(object) {
            tracing::error!(%error, "cannot note what was handed over");
        }
    }
}

/// Bundles say nothing of how urgent they are: between files of the highest and of the lowest priority.
const PRIORITY: u8 = 3;
