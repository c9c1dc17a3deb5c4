//! `aquila gateway`.

pub mod args;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use aquila_net::gateway::{GatewayNode, GatewaySetup, Way};
use aquila_net::status::Exposure;
use aquila_proto::identity::{Identity, PublicKey};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::config::{self, Carried, Environment, File, GatewaySettings, GatewaySide};
use crate::keys;
use crate::link::termination;
use args::GatewayArgs;

/// Reads configuration and key, so that what is wrong with them is said before anything starts.
pub fn prepare(args: GatewayArgs) -> anyhow::Result<(GatewaySettings, Identity)> {
    let mut file = args.config.as_deref().map_or_else(|| Ok(File::default()), config::load)?;
    args.override_file(&mut file);
    let settings = GatewaySettings::resolve(file, &Environment::read())?;
    let identity = keys::load(&settings.key)?;
    if identity.public() == settings.peer {
        return Err(anyhow!("[identity] peer is our own public key; it must be the other side's"));
    }
    Ok((settings, identity))
}

/// Runs a gateway until SIGTERM, SIGINT or SIGHUP.
pub fn run(settings: GatewaySettings, identity: Identity) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(async {
        let termination = termination(true)?;
        let (fingerprint, peer) = (identity.public().fingerprint(), settings.peer.fingerprint());
        let radio = settings.radio.name();
        let GatewaySettings { side, peer: key, radio: spec, carried, state, status, .. } = settings;
        let setup = setup(carried, Arc::new(identity), key, side == GatewaySide::Air, state, status);
        let node = GatewayNode::start(setup, Way::Radio(spec)).await?;
        let listening: Vec<String> = node.local_addrs().iter().map(ToString::to_string).collect();
        let listening = listening.join(" ");
        tracing::info!(version = env!("CARGO_PKG_VERSION"), fingerprint, peer, radio, listening, "gateway started");
        node.run(termination, asked()?).await;
        tracing::info!("ended");
        Ok(())
    })
}

/// Something at each SIGUSR1.
pub fn asked() -> anyhow::Result<mpsc::Receiver<()>> {
    let mut usr1 = signal(SignalKind::user_defined1()).context("cannot listen for signals")?;
    let (ask, asked) = mpsc::channel(1);
    tokio::spawn(async move {
        while usr1.recv().await.is_some() {
            if ask.send(()).await.is_err() {
                break;
            }
        }
    });
    Ok(asked)
}

/// What a gateway is made of; `initiates`: we begin the handshake, the aircraft.
pub fn setup(
    carried: Carried,
    identity: Arc<Identity>,
    peer: PublicKey,
    initiates: bool,
    state_dir: PathBuf,
    status: Option<(SocketAddr, Exposure)>,
) -> GatewaySetup {
    let Carried { forwards, intercepts, tun, rules, allow, limits, report } = carried;
    let report = Some(report);
    GatewaySetup {
        identity,
        peer,
        initiates,
        forwards,
        intercepts,
        tun,
        rules,
        allow,
        limits,
        state_dir,
        status,
        report,
    }
}
