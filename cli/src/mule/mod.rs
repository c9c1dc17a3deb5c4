//! `aquila mule`: stores of files, and the links between them.

pub mod args;
mod look;
mod put;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use aquila_depot::Delete;
use aquila_net::mule::{Bundles, CastSetup, LinkSpec, Mule, Reach, Role, serve};
use aquila_net::node::{NodeConfig, Role as NodeRole};
use aquila_net::status::StatusServer;
use aquila_proto::Side;
use aquila_proto::cc::CongestionConfig;
use aquila_proto::identity::Identity;
use args::{MuleArgs, MuleCommand, RunArgs, StoreArgs};

use crate::config::{self, Environment, File, MuleProgram, MuleSettings, store_folder};
use crate::link::termination;
use crate::{Failure, keys, start_log};

/// Does what was asked for.
pub fn run(args: MuleArgs, out: &mut Vec<u8>) -> Result<(), Failure> {
    let (role, args) = match args.command {
        MuleCommand::Node(args) => (Role::Node, args),
        MuleCommand::Carry(args) => (Role::Carrier, args),
        MuleCommand::Shore(args) => (Role::Shore, args),
        MuleCommand::Put(args) => return put::run(args, out),
        MuleCommand::Ls(args) => return look::list(args, out),
        MuleCommand::Status(args) => return look::status(&args, out),
    };
    let (program, identity) = prepare(role, args).map_err(Failure::Config)?;
    start_log(&program.log);
    run_store(program, identity).map_err(Failure::Runtime)
}

/// Reads configuration and key, so that what is wrong with them is said before anything starts.
fn prepare(role: Role, args: RunArgs) -> anyhow::Result<(MuleProgram, Identity)> {
    let mut file = load(&args.at)?;
    args.override_file(&mut file);
    let program = MuleProgram::resolve(file, role, &Environment::read())?;
    let identity = keys::load(&program.key)?;
    if program.mule.peers.is_empty() && program.mule.casts.is_empty() && program.mule.hears.is_empty() {
        return Err(anyhow!(
            "[mule] peers is missing: who is met? See `aquila mule --help`, and use --peer, --cast or --hear"
        ));
    }
    program.mule.airs().try_for_each(|air| keys::load_shared(&air.key).map(drop))?;
    if program.mule.peers.iter().any(|peer| peer.key == identity.public()) {
        return Err(anyhow!("[mule] peers has our own public key; it must be the other store's"));
    }
    Ok((program, identity))
}

fn load(at: &StoreArgs) -> anyhow::Result<File> {
    Ok(at.config.as_deref().map_or_else(|| Ok(File::default()), config::load)?)
}

/// The store's folder, and what else is said of it.
fn folder(at: StoreArgs) -> anyhow::Result<(PathBuf, File)> {
    let mut file = load(&at)?;
    at.override_file(&mut file);
    Ok((store_folder(&file, &Environment::read())?, file))
}

/// Opens the store, and says what of its configuration will disappoint.
pub async fn open(settings: &MuleSettings, identity: Arc<Identity>) -> anyhow::Result<(Mule, Option<Bundles>)> {
    if settings.role != Role::Shore && settings.shores.is_empty() && settings.delete != Delete::AfterCustody {
        tracing::warn!(
            "nobody's word counts that files were delivered, so that none is ever given up: name the shore's key with \
             --delivered-by, or [mule] shores"
        );
    }
    if settings.role != Role::Node && settings.sources.is_empty() {
        tracing::warn!("nobody's files are taken: name the nodes' keys with --source, or [mule] sources");
    }
    let looks = settings.peers.iter().any(|peer| peer.reach == Reach::Discover);
    if looks && settings.discovery.look.is_empty() {
        tracing::warn!("peers without an address are never found: say where to look with --look, or [mule] look");
    }
    let waits = settings.peers.iter().any(|peer| matches!(peer.reach, Reach::Listen(_)));
    if !waits && !settings.discovery.announce.is_empty() {
        tracing::warn!("nothing is announced: no peer is waited for; give one listen=0.0.0.0:0");
    }
    let mut mule = Mule::open(&settings.store, settings.config(identity), settings.spool.as_ref())?;
    for spec in &settings.casts {
        let key = keys::load_shared(&spec.air.key)?;
        tracing::info!(cast = %spec, key = key.fingerprint(), "files are cast");
        mule.cast(CastSetup { spec: spec.clone(), key })?;
    }
    for spec in &settings.hears {
        let key = keys::load_shared(&spec.air.key)?;
        tracing::info!(cast = %spec, key = key.fingerprint(), "a cast is heard");
        mule.hear(CastSetup { spec: spec.clone(), key })?;
    }
    let Some(setup) = settings.bundles.clone() else { return Ok((mule, None)) };
    let bundles = mule.bundles(setup).await?;
    if let Some(local) = bundles.local {
        tracing::info!(%local, "bundles are taken");
    }
    Ok((mule, Some(bundles)))
}

/// Closes it, when no link asks it any more.
pub async fn close(mule: Mule, bundles: Option<Bundles>) {
    if let Some(bundles) = bundles {
        bundles.close().await;
    }
    mule.close();
}

/// Links that are for files alone.
pub fn links(settings: &MuleSettings, identity: &Arc<Identity>, template: &NodeConfig) -> Vec<LinkSpec> {
    let link = |peer: &aquila_net::mule::PeerSpec| {
        // Who connects is what an aircraft is to a ground station.
        let side = if matches!(peer.reach, Reach::Listen(_)) { Side::Ground } else { Side::Air };
        let mut node = NodeConfig::new(side, identity.clone(), peer.key, NodeRole::ConnectByRadio);
        node.state_dir.clone_from(&template.state_dir);
        node.volatile_dir.clone_from(&template.volatile_dir);
        if peer.radio {
            node.congestion = CongestionConfig::by_name("dedicated").unwrap_or_default();
            node.mtu = RADIO_MTU;
        }
        LinkSpec { partner: peer.partner(settings.role), reach: peer.reach.clone(), node }
    };
    settings.peers.iter().map(link).collect()
}

/// UDP payload over a radio that looks like Ethernet, in bytes.
const RADIO_MTU: u16 = 1_472;

/// Runs a store until SIGTERM, SIGINT or SIGHUP.
fn run_store(program: MuleProgram, identity: Identity) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let identity = Arc::new(identity);
    let settings = &program.mule;
    runtime.block_on(async {
        let termination = termination(true)?;
        let (mule, bundles) = open(settings, identity.clone()).await?;
        let status = program.status.map(|(address, exposure)| StatusServer::spawn(address, exposure, mule.snapshots()));
        let status = status.transpose()?;
        let page = status.as_ref().map(|status| format!("http://{}/", status.local_addr()));
        let mut template = NodeConfig::new(Side::Air, identity.clone(), identity.public(), NodeRole::ConnectByRadio);
        template.state_dir = Some(program.state.clone());
        template.volatile_dir.clone_from(&program.volatile);
        let links = links(settings, &identity, &template);
        let (role, store) = (settings.role.name(), settings.store.display().to_string());
        let fingerprint = identity.public().fingerprint();
        let started = |addresses: &[std::net::SocketAddr]| {
            let listening: Vec<_> = addresses.iter().map(ToString::to_string).collect();
            let listening = listening.join(" ");
            tracing::info!(
                version = env!("CARGO_PKG_VERSION"),
                role,
                fingerprint,
                store,
                listening,
                status = page,
                "store started"
            );
        };
        let served = serve(&mule, links, settings.discovery.clone(), started, termination).await;
        close(mule, bundles).await;
        served?;
        tracing::info!("ended");
        Ok(())
    })
}

#[cfg(test)]
mod tests;
