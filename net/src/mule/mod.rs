//! Files over intermittent contacts: a store on the disk, and links to other stores, each beside whatever else a session carries.
//!
//! The store ([`aquila_depot::Depot`]) belongs to a thread, which the links ask; what waits for the disk makes no link wait. Two more
//! threads have it open: one takes in what appears in a spool, one hands out what is to be delivered here.

mod beacon;
mod bundles;
mod cast;
mod complaints;
mod contact;
mod desk;
mod export;
mod forecast;
mod party;
mod snapshot;
mod spec;
mod workers;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use aquila_depot::{Config, Depot, DepotError, Rule};
use aquila_proto::identity::PublicKey;
use aquila_proto::transfer::HopConfig;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::watch;

pub use beacon::{Beacon, MAX_BEACON};
pub use bundles::{BundleSetup, Bundles, ParseRouteError, RouteSpec};
pub use cast::{Air, CastSetup, CastSnapshot, CastSpec, HearSpec, ParseCastError};
pub use contact::Contact;
pub(crate) use contact::News;
use desk::{Ask, Desk, Question};
pub use party::{Discovery, LinkSpec, Reach, ServeError, serve};
pub use snapshot::{
    ContactSnapshot, MuleSnapshot, ObjectSnapshot, PassSnapshot, RefusedSnapshot, StateSnapshot, bytes,
};
pub use spec::{ParsePeerError, PeerSpec, Role};

/// What the daemon writes into the store's folder each second, for other programs: a [`MuleSnapshot`] as JSON.
pub const LIVE: &str = "live.json";

/// A folder whose files are taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolSetup {
    /// Which.
    pub folder: PathBuf,
    /// How its files are carried: the first that is for one counts.
    pub rules: Vec<Rule>,
}

/// Another store that is met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partner {
    /// Who it is.
    pub key: PublicKey,
    /// What people call it.
    pub name: String,
    /// It is given what we have.
    pub gives_to: bool,
    /// What it has is taken.
    pub takes_from: bool,
    /// Bytes that a contact is expected to carry, until some have been seen.
    pub expected: Option<u64>,
}

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
pub enum MuleError {
    /// It cannot be opened.
    #[error("cannot open the store in {}", .0.display())]
    Open(PathBuf, #[source] DepotError),
    /// Another daemon has it.
    #[error("the store in {} is in use: is another `aquila` running with it?", .0.display())]
    InUse(PathBuf),
    /// The spool cannot be watched.
    #[error("cannot watch {}", .0.display())]
    Spool(PathBuf, #[source] DepotError),
    /// Where bundles are to be handed in.
    #[error("cannot listen for bundles on TCP {0} (is another program there? See `ss -tlpn`)")]
    BundlesListen(SocketAddr, #[source] std::io::Error),
    /// What is said of bundles makes no sense.
    #[error("bundles: {0}")]
    Bundles(String),
    /// No randomness, or no threads, from the system.
    #[error("the system gives no {0}")]
    System(&'static str),
}

/// A store that is open, and its threads. They end when this and all contacts are dropped.
#[derive(Debug)]
pub struct Mule {
    asks: mpsc::Sender<Ask>,
    arrived: mpsc::Sender<()>,
    hop: HopConfig,
    links: AtomicU32,
    dir: PathBuf,
    config: Config,
    snapshots: watch::Receiver<MuleSnapshot>,
    workers: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Mule {
    /// Opens the store in a folder. Files that appear in a spool are taken in.
    ///
    /// # Errors
    /// [`MuleError`].
    pub fn open(dir: &Path, config: Config, spool: Option<&SpoolSetup>) -> Result<Self, MuleError> {
        let open = || Depot::open(dir, config.clone()).map_err(|error| MuleError::Open(dir.to_owned(), error));
        let depot = open()?;
        let lock = workers::lock(dir)?;
        let mut life = [0; 8];
        SystemRandom::new().fill(&mut life).map_err(|_| MuleError::System("random numbers"))?;
        let hop = HopConfig { store: depot.store_id(), life: u64::from_be_bytes(life) };
        let (asks, questions) = mpsc::channel();
        let (published, snapshots) = watch::channel(MuleSnapshot::default());
        let (arrived, arrivals) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let mut workers = Vec::new();
        if config.shore.is_some() {
            workers.push(workers::deliver(open()?, arrivals)?);
        }
        if let Some(spool) = spool {
            workers.push(workers::watch_spool(open()?, spool, stop.clone())?);
        }
        let desk = Desk::new(depot, questions, published, arrived.clone());
        workers.push(workers::spawn("store", move || {
            desk.run();
            drop(lock);
        })?);
        let dir = dir.to_owned();
        Ok(Self { asks, arrived, hop, links: AtomicU32::new(0), dir, config, snapshots, workers, stop })
    }

    /// A link to another store; to be given to the node that has the session with it.
    pub fn meet(&self, partner: Partner) -> Contact {
        let link = self.links.fetch_add(1, Ordering::Relaxed);
        let (sender, news) = tokio::sync::mpsc::unbounded_channel();
        // A thread that has ended has said why.
        let _ = self.asks.send(Ask { link, question: Question::Join(partner.key, sender) });
        Contact::new(link, partner, self.hop, self.asks.clone(), news)
    }

    /// Sends what is in the store to whoever listens.
    ///
    /// # Errors
    /// If the store cannot be opened once more, or written to.
    pub fn cast(&mut self, setup: CastSetup<CastSpec>) -> Result<(), MuleError> {
        let mut run = [0; 4];
        SystemRandom::new().fill(&mut run).map_err(|_| MuleError::System("random numbers"))?;
        let sending = cast::send(self.open_again()?, setup, run, &self.dir, self.asks.clone(), self.stop.clone())?;
        self.workers.push(sending);
        Ok(())
    }

    /// Puts what others cast into the store.
    ///
    /// # Errors
    /// If the store cannot be opened once more.
    pub fn hear(&mut self, setup: CastSetup<HearSpec>) -> Result<(), MuleError> {
        let (asks, arrived) = (self.asks.clone(), self.arrived.clone());
        let hearing = cast::hear(self.open_again()?, setup, asks, arrived, self.stop.clone())?;
        self.workers.push(hearing);
        Ok(())
    }

    fn open_again(&self) -> Result<Depot, MuleError> {
        let depot = Depot::open(&self.dir, self.config.clone());
        depot.map_err(|error| MuleError::Open(self.dir.clone(), error))
    }

    /// Speaks with other networks.
    ///
    /// # Errors
    /// If it cannot listen, or the store cannot be opened once more.
    pub async fn bundles(&self, setup: BundleSetup) -> Result<Bundles, MuleError> {
        Bundles::start(self.open_again()?, setup).await
    }

    /// How things are, once a second.
    pub fn snapshots(&self) -> watch::Receiver<MuleSnapshot> {
        self.snapshots.clone()
    }

    /// The store's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Ends the threads, when all that was stored is promised. Contacts should be gone.
    pub fn close(self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.asks);
        drop(self.arrived);
        for worker in self.workers {
            if worker.join().is_err() {
                tracing::error!("a thread of the store has failed");
            }
        }
        // Nothing live any more.
        let _ = std::fs::remove_file(self.dir.join(LIVE));
    }
}
