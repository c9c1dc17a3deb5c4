//! `[mule]`: files that are carried over contacts that come and go.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use aquila_bundle::{Eid, NodeId};
use aquila_depot::{Config, Delete, Rule, Shore};
use aquila_net::mule::{Air, BundleSetup, CastSpec, Discovery, HearSpec, PeerSpec, Role, RouteSpec, SpoolSetup};
use aquila_net::status::Exposure;
use aquila_proto::identity::{Identity, PublicKey};
use clap::ValueEnum;
use serde::Deserialize;
use tracing_subscriber::EnvFilter;

use super::file::File;
use super::settings::{DEFAULT_LOG, Environment, Invalid, key_file, status};
use super::units::{BundleName, Bytes, Text};

/// The section of the file.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mule {
    pub store: Option<PathBuf>,
    pub peers: Option<Vec<Text<PeerSpec>>>,
    pub sources: Option<Vec<Text<PublicKey>>>,
    pub shores: Option<Vec<Text<PublicKey>>>,
    pub spool: Option<PathBuf>,
    pub spool_rules: Option<Vec<Text<Rule>>>,
    pub deliver: Option<PathBuf>,
    pub destination: Option<String>,
    pub delete: Option<DeleteWhen>,
    pub quota: Option<Bytes<1_000_000, 1_000_000_000_000_000>>,
    pub min_free: Option<Bytes<0, 1_000_000_000_000_000>>,
    pub keep: Option<Bytes<0, 1_000_000_000_000_000>>,
    pub announce: Option<Vec<String>>,
    pub look: Option<Vec<String>>,
    pub cast: Option<Vec<Text<CastSpec>>>,
    pub hear: Option<Vec<Text<HearSpec>>>,
    pub bundles_node: Option<Text<BundleName<NodeId>>>,
    pub bundles_listen: Option<Text<SocketAddr>>,
    pub bundles_to: Option<Vec<Text<RouteSpec>>>,
    pub bundles_files: Option<Text<BundleName<Eid>>>,
}

/// When a file is given up, see [`Delete`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum DeleteWhen {
    /// When a shore says that it is delivered
    AfterDelivery,
    /// When a carrier has it
    AfterCustody,
    /// Files in the spool stay where they are
    Never,
}

impl From<DeleteWhen> for Delete {
    fn from(when: DeleteWhen) -> Self {
        match when {
            DeleteWhen::AfterDelivery => Self::AfterDelivery,
            DeleteWhen::AfterCustody => Self::AfterCustody,
            DeleteWhen::Never => Self::Never,
        }
    }
}

/// How much a store holds, in bytes. The same for all who open it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Chunks that may be stored.
    pub quota: u64,
    /// What the disk must have free.
    pub min_free: u64,
    /// Chunks of released files that are kept for their next versions.
    pub keep: u64,
}

impl Mule {
    /// What the section says of how much is held.
    pub fn bounds(&self) -> Bounds {
        let defaults = Config::new(Arc::new(Identity::from_seed([0; 32])));
        Bounds {
            quota: self.quota.map_or(defaults.quota, |quota| quota.get().0),
            min_free: self.min_free.map_or(defaults.min_free, |free| free.get().0),
            keep: self.keep.map_or(defaults.keep, |keep| keep.get().0),
        }
    }
}

impl Bounds {
    /// A store that takes nothing from others.
    pub fn config(self, identity: Arc<Identity>) -> Config {
        let Self { quota, min_free, keep } = self;
        Config { quota, min_free, keep, ..Config::new(identity) }
    }
}

/// Everything that a store and its links need to know.
#[derive(Debug, Clone)]
pub struct MuleSettings {
    /// What it does.
    pub role: Role,
    /// Its folder.
    pub store: PathBuf,
    /// Other stores.
    pub peers: Vec<PeerSpec>,
    /// Whose objects are taken.
    pub sources: Vec<PublicKey>,
    /// Whose word counts that something was delivered.
    pub shores: Vec<PublicKey>,
    /// A folder whose files are taken in.
    pub spool: Option<SpoolSetup>,
    /// Where files end, if they do.
    pub shore: Option<Shore>,
    /// When files are given up.
    pub delete: Delete,
    /// How much it holds.
    pub bounds: Bounds,
    /// Where others are told of us, and looked for.
    pub discovery: Discovery,
    /// Where files are sent to whoever listens.
    pub casts: Vec<CastSpec>,
    /// Where what others send so is heard.
    pub hears: Vec<HearSpec>,
    /// How bundles of other networks come and go, if they do.
    pub bundles: Option<BundleSetup>,
}

/// Everything that `aquila mule` needs to know beside it.
#[derive(Debug, Clone)]
pub struct MuleProgram {
    /// The store and its links.
    pub mule: MuleSettings,
    /// The file of our private key.
    pub key: PathBuf,
    /// Directory of what must survive a restart beside the store.
    pub state: PathBuf,
    /// Directory in memory.
    pub volatile: Option<PathBuf>,
    /// Where the status page is served, and to whom.
    pub status: Option<(SocketAddr, Exposure)>,
    /// What is logged.
    pub log: String,
}

/// The store's folder below the state directory.
const FOLDER: &str = "files";

/// The store's folder, for commands that need nothing else.
pub fn store_folder(file: &File, environment: &Environment) -> Result<PathBuf, Invalid> {
    let state = file.link.state.clone().or_else(|| environment.state.clone());
    file.mule.store.clone().map_or_else(|| state.map(|state| state.join(FOLDER)).ok_or(Invalid::NoState), Ok)
}

/// Bundles come in where files do, and leave where files end.
fn bundles(mule: &Mule, role: Role) -> Result<Option<BundleSetup>, Invalid> {
    let listen = mule.bundles_listen.as_ref().map(|Text(address)| *address);
    let routes: Vec<_> = mule.bundles_to.iter().flatten().map(|Text(route)| route.clone()).collect();
    let files = mule.bundles_files.as_ref().map(|Text(BundleName(eid))| eid.clone());
    if listen.is_none() && routes.is_empty() && files.is_none() {
        return Ok(None);
    }
    if let Some(eid) = files.as_ref().filter(|eid| !routes.iter().any(|route| route.pattern.matches(eid)))
        && role == Role::Shore
    {
        return Err(Invalid::MuleBundlesRoute(eid.to_string()));
    }
    if files.is_some() && role != Role::Shore {
        return Err(Invalid::MuleBundles(role.name()));
    }
    if (role == Role::Shore) != listen.is_none() || (role == Role::Shore) == routes.is_empty() {
        return Err(Invalid::MuleBundles(role.name()));
    }
    let node =
        mule.bundles_node.as_ref().map(|Text(BundleName(node))| node.clone()).ok_or(Invalid::NoMuleBundlesNode)?;
    Ok(Some(BundleSetup { node, listen, routes, files }))
}

/// Files are cast by those who give them to others, and heard by those who take them.
fn casts(mule: &Mule, role: Role) -> Result<(Vec<CastSpec>, Vec<HearSpec>), Invalid> {
    let casts: Vec<_> = mule.cast.iter().flatten().map(|Text(spec)| spec.clone()).collect();
    let hears: Vec<_> = mule.hear.iter().flatten().map(|Text(spec)| spec.clone()).collect();
    if role == Role::Shore && !casts.is_empty() {
        return Err(Invalid::MuleCast);
    }
    if role == Role::Node && !hears.is_empty() {
        return Err(Invalid::MuleHear);
    }
    let places = |air: &Air| (air.address, air.interface.clone());
    for airs in
        [casts.iter().map(|cast| places(&cast.air)).collect(), hears.iter().map(|hear| places(&hear.air)).collect()]
    {
        let mut airs: Vec<_> = airs;
        airs.sort_unstable();
        if let Some(twice) = airs.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Invalid::MuleCastTwice(twice[0].0));
        }
    }
    Ok((casts, hears))
}

impl MuleSettings {
    /// Where files are cast and heard.
    pub fn airs(&self) -> impl Iterator<Item = &Air> {
        self.casts.iter().map(|cast| &cast.air).chain(self.hears.iter().map(|hear| &hear.air))
    }

    /// What the section means for a store of this role. `link`: the other side of a session that files go beside, and what it does.
    pub fn resolve(
        file: &File,
        role: Role,
        link: Option<(PublicKey, Role)>,
        environment: &Environment,
    ) -> Result<Self, Invalid> {
        let store = store_folder(file, environment)?;
        let mule = &file.mule;
        let texts = |list: &Option<Vec<Text<PublicKey>>>| list.iter().flatten().map(|Text(key)| *key).collect();
        let peers: Vec<PeerSpec> = mule.peers.iter().flatten().map(|Text(peer)| peer.clone()).collect();
        let mut keys: Vec<_> = peers.iter().map(|peer| peer.key).collect();
        keys.extend(link.map(|(key, _)| key));
        keys.sort_unstable_by_key(|key| key.0);
        if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Invalid::MulePeerTwice(twice[0]));
        }
        let shore = match (&mule.deliver, role) {
            (Some(_), Role::Shore) if mule.bundles_files.is_some() => return Err(Invalid::MuleFilesTwice),
            (None, Role::Shore) if mule.bundles_files.is_none() => return Err(Invalid::NoMuleFolder),
            (folder, Role::Shore) => {
                Some(Shore { folder: folder.clone(), name: mule.destination.clone().unwrap_or_default() })
            }
            (Some(_), _) => return Err(Invalid::MuleFolder(role.name())),
            (None, _) => None,
        };
        if mule.spool.is_some() && role == Role::Shore {
            return Err(Invalid::MuleSpool);
        }
        let rules: Vec<_> = mule.spool_rules.iter().flatten().map(|Text(rule)| rule.clone()).collect();
        if mule.spool.is_none() && !rules.is_empty() {
            return Err(Invalid::MuleSpoolRules);
        }
        // Who is met is believed as far as what it does goes.
        let met = peers.iter().map(|peer| (peer.key, peer.role)).chain(link.map(|(key, role)| (key, Some(role))));
        let met: Vec<_> = met.collect();
        let mut sources: Vec<PublicKey> = texts(&mule.sources);
        let mut shores: Vec<PublicKey> = texts(&mule.shores);
        for peer in &peers {
            if peer.partner(role).takes_from {
                sources.push(peer.key);
            }
        }
        for (key, role) in met {
            match role {
                Some(Role::Shore) => shores.push(key),
                Some(Role::Node | Role::Carrier) => sources.push(key),
                None => {}
            }
        }
        for list in [&mut sources, &mut shores] {
            list.sort_unstable_by_key(|key| key.0);
            list.dedup();
        }
        let (casts, hears) = casts(mule, role)?;
        Ok(Self {
            role,
            store,
            peers,
            sources,
            shores,
            spool: mule.spool.clone().map(|folder| SpoolSetup { folder, rules }),
            shore,
            delete: mule.delete.map_or(Delete::default(), Delete::from),
            bounds: mule.bounds(),
            casts,
            hears,
            bundles: bundles(mule, role)?,
            discovery: Discovery {
                announce: mule.announce.clone().unwrap_or_default(),
                look: mule.look.clone().unwrap_or_default(),
            },
        })
    }

    /// As the store is opened with.
    pub fn config(&self, identity: Arc<Identity>) -> Config {
        Config {
            sources: self.sources.clone(),
            shores: self.shores.clone(),
            shore: self.shore.clone(),
            delete: self.delete,
            ..self.bounds.config(identity)
        }
    }
}

impl MuleProgram {
    /// What `file` means for a store of this role.
    pub fn resolve(file: File, role: Role, environment: &Environment) -> Result<Self, Invalid> {
        let mule = MuleSettings::resolve(&file, role, None, environment)?;
        let state = file.link.state.or_else(|| environment.state.clone());
        let log = file.log.level.unwrap_or_else(|| DEFAULT_LOG.to_owned());
        if EnvFilter::try_new(&log).is_err() {
            return Err(Invalid::Log(log));
        }
        Ok(Self {
            mule,
            key: file.identity.key.map_or_else(|| key_file(state.clone()), Ok)?,
            state: state.ok_or(Invalid::NoState)?,
            volatile: environment.volatile.clone(),
            status: status(file.status),
            log,
        })
    }
}
