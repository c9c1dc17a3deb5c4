//! All links of a store that are for files alone, and how those in range are found.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aquila_proto::identity::PublicKey;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet, LocalSet};
use tokio::time::MissedTickBehavior;

use super::beacon::{self, Beacon, MAX_BEACON, Troubles};
use super::{LIVE, Mule, Partner};
use crate::node::{Node, NodeConfig, NodeError, Role};

/// A beacon is sent this often, and interfaces are looked for.
const BEACON_EVERY: Duration = Duration::from_secs(1);
/// A link to a store that was found ends when its beacon was not heard for so long and nothing else either.
const FORGET_AFTER: Duration = Duration::from_secs(60);

/// How another store is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// At this host and port.
    At(String),
    /// It comes to us, here.
    Listen(SocketAddr),
    /// At the address that its beacon comes from.
    Discover,
}

/// A link to another store.
#[derive(Debug, Clone)]
pub struct LinkSpec {
    /// Who is met.
    pub partner: Partner,
    /// How.
    pub reach: Reach,
    /// The session; its role is that of `reach`.
    pub node: NodeConfig,
}

/// Why links are not served any more.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// One could not be begun.
    #[error(transparent)]
    Link(#[from] NodeError),
    /// The thread that has the store has failed; the log says how.
    #[error("the store's thread has failed")]
    Store,
}

/// Where beacons are sent and heard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovery {
    /// Interfaces on which we say that we wait for others.
    pub announce: Vec<String>,
    /// Interfaces on which we look for others.
    pub look: Vec<String>,
}

/// A link that was begun.
#[derive(Debug)]
struct Begun {
    /// Where it waits, if it does.
    local: Option<SocketAddr>,
    is_up: Arc<AtomicBool>,
    task: AbortHandle,
    /// Ends it when it is dropped.
    stop: Option<oneshot::Sender<()>>,
}

/// A link to a store that was found.
#[derive(Debug)]
struct Found {
    at: SocketAddr,
    heard: Instant,
    link: Begun,
}

/// Runs all links until `shutdown`, and writes each second how things are into the store's folder. `started` is called when all links
/// that need not be found have begun, with the addresses at which others are waited for.
///
/// # Errors
/// If a link cannot be begun, or the store's thread has failed.
pub async fn serve(
    mule: &Mule,
    links: Vec<LinkSpec>,
    discovery: Discovery,
    started: impl FnOnce(&[SocketAddr]),
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let local = LocalSet::new();
    let party = Party { mule, nodes: JoinSet::new(), begun: Vec::new(), found: BTreeMap::new(), links: Vec::new() };
    local.run_until(party.run(links, discovery, started, shutdown)).await
}

struct Party<'a> {
    mule: &'a Mule,
    nodes: JoinSet<()>,
    /// Those that need not be found.
    begun: Vec<Begun>,
    found: BTreeMap<PublicKey, Found>,
    /// Those that are to be found.
    links: Vec<LinkSpec>,
}

impl Party<'_> {
    async fn run(
        mut self,
        links: Vec<LinkSpec>,
        discovery: Discovery,
        started: impl FnOnce(&[SocketAddr]),
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let mut waiting = Vec::new();
        let mut ours = None;
        for link in links {
            ours = Some(link.node.identity.public());
            let role = match &link.reach {
                Reach::At(remote) => Role::Connect(remote.clone()),
                Reach::Listen(address) => Role::Listen(*address),
                Reach::Discover => {
                    self.links.push(link);
                    continue;
                }
            };
            let peer = link.partner.key;
            let begun = self.begin(&link, role).await?;
            waiting.extend(begun.local.map(|address| (peer, address)));
            self.begun.push(begun);
        }
        let addresses: Vec<_> = waiting.iter().map(|(_, address)| *address).collect();
        started(&addresses);
        let waits_for = waiting.iter().map(|(peer, address)| (Beacon::name_of(peer), address.port())).collect();
        let beacon = ours.filter(|_| !waiting.is_empty() && !discovery.announce.is_empty());
        let beacon = beacon.map(|key| Beacon { key, waits_for });
        let ears = if discovery.look.is_empty() || self.links.is_empty() {
            None
        } else {
            beacon::listen().inspect_err(|error| tracing::error!(%error, "cannot hear beacons")).ok()
        };
        let (mut announcing, mut looking) = (Troubles::default(), Troubles::default());
        let mut clock = tokio::time::interval(BEACON_EVERY);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut snapshots = self.mule.snapshots();
        let mut bytes = [0; MAX_BEACON + 1];
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                changed = snapshots.changed() => {
                    if changed.is_err() {
                        return Err(ServeError::Store);
                    }
                }
                _ = clock.tick() => {
                    if let Some(beacon) = &beacon {
                        beacon::speak(beacon, &discovery.announce, &mut announcing).await;
                    }
                    if let Some(ears) = &ears {
                        beacon::join(ears, &discovery.look, &mut looking);
                    }
                    let now = Instant::now();
                    for (peer, found) in &mut self.found {
                        let is_old = now.saturating_duration_since(found.heard) >= FORGET_AFTER && !found.link.is_up();
                        if is_old && found.link.stop.take().is_some() {
                            tracing::info!(peer = peer.fingerprint(), "out of range");
                        }
                    }
                    self.found.retain(|_, found| !found.link.task.is_finished());
                    self.write_live(&snapshots);
                }
                Some(Err(error)) = self.nodes.join_next() => {
                    if let Ok(panic) = error.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    }
                }
                heard = hear(ears.as_ref(), &mut bytes) => {
                    if let (Some((len, from)), Some(ours)) = (heard, ours)
                        && let Some(beacon) = bytes.get(..len).and_then(Beacon::parse)
                        && let Some(port) = beacon.port_for(&ours)
                    {
                        self.on_found(&beacon.key, SocketAddr::new(from.ip(), port)).await;
                    }
                }
            }
        }
        drop(self.begun);
        drop(self.found);
        while self.nodes.join_next().await.is_some() {}
        Ok(())
    }

    async fn begin(&mut self, link: &LinkSpec, role: Role) -> Result<Begun, NodeError> {
        let mut node = Node::start(NodeConfig { role, ..link.node.clone() }).await?;
        let contact = self.mule.meet(link.partner.clone());
        let is_up = contact.is_up();
        node.set_files(contact);
        let local = node.local_addr();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = self.nodes.spawn_local(node.run(async move {
            // Dropping the other end is what ends it.
            let _ = stopped.await;
        }));
        Ok(Begun { local, is_up, task, stop: Some(stop) })
    }

    /// A beacon says that a store which may be one of ours waits for us there.
    async fn on_found(&mut self, key: &PublicKey, at: SocketAddr) {
        let Some(link) = self.links.iter().find(|link| link.partner.key == *key).cloned() else { return };
        if let Some(found) = self.found.get_mut(key) {
            if found.at == at && found.link.stop.is_some() {
                found.heard = Instant::now();
                return;
            }
            // Anybody can send beacons: a link that works is not given up for one.
            if found.link.is_up() {
                return;
            }
            // The next beacon begins another, when this has ended.
            found.link.stop = None;
            if !found.link.task.is_finished() {
                return;
            }
        }
        tracing::info!(store = link.partner.name, %at, "in range");
        match self.begin(&link, Role::Connect(at.to_string())).await {
            Ok(begun) => drop(self.found.insert(*key, Found { at, heard: Instant::now(), link: begun })),
            Err(error) => tracing::error!(%error, store = link.partner.name, "cannot connect"),
        }
    }

    /// For `aquila mule status`.
    fn write_live(&self, snapshots: &tokio::sync::watch::Receiver<super::MuleSnapshot>) {
        let json = serde_json::to_vec(&*snapshots.borrow()).unwrap_or_default();
        let (new, path) = (self.mule.dir().join("live.new"), self.mule.dir().join(LIVE));
        // Only to look at: the store itself says when its disk is full.
        let _ = std::fs::write(&new, json).and_then(|()| std::fs::rename(&new, &path));
    }
}

impl Begun {
    fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }
}

/// The next beacon; for ever if nobody listens.
async fn hear(ears: Option<&tokio::net::UdpSocket>, bytes: &mut [u8]) -> Option<(usize, SocketAddr)> {
    match ears {
        Some(ears) => ears.recv_from(bytes).await.ok(),
        None => std::future::pending().await,
    }
}
