//! `aquila gateway`.

pub mod args;

use std::sync::Arc;

use anyhow::{Context, anyhow};
use aquila_net::gateway::{GatewayNode, GatewaySetup};
use aquila_proto::identity::Identity;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::config::{self, Environment, File, GatewaySettings, GatewaySide};
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
        let node = GatewayNode::start(setup(settings, identity)).await?;
        let listening: Vec<String> = node.local_addrs().iter().map(ToString::to_string).collect();
        let listening = listening.join(" ");
        tracing::info!(version = env!("CARGO_PKG_VERSION"), fingerprint, peer, radio, listening, "gateway started");
        node.run(termination, asked()?).await;
        tracing::info!("ended");
        Ok(())
    })
}

/// Something at each SIGUSR1.
fn asked() -> anyhow::Result<mpsc::Receiver<()>> {
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

fn setup(settings: GatewaySettings, identity: Identity) -> GatewaySetup {
    GatewaySetup {
        identity: Arc::new(identity),
        peer: settings.peer,
        initiates: settings.side == GatewaySide::Air,
        radio: settings.radio,
        forwards: settings.forwards,
        intercepts: settings.intercepts,
        tun: settings.tun,
        rules: settings.rules,
        allow: settings.allow,
        limits: settings.limits,
        state_dir: settings.state,
        status: settings.status,
        report: Some(settings.report),
    }
}
