//! `aquila air` and `aquila ground`.

use std::sync::Arc;

use anyhow::Context;
use aquila_net::node::{Node, NodeConfig, Role};
use aquila_proto::identity::Identity;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{self, Settings};

/// Runs one side until SIGTERM, SIGINT or SIGHUP.
pub fn run(settings: Settings, identity: Identity) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(async {
        let (side, fingerprint) = (settings.side.name(), identity.public().fingerprint());
        let peer = settings.peer.fingerprint();
        // Before anything is opened, so that being asked to end while starting is heard.
        let termination = termination()?;
        let camera = settings.video.camera.clone();
        #[cfg_attr(not(feature = "gstreamer"), expect(unused_mut, reason = "only a camera changes it"))]
        let mut node = Node::start(node_config(settings, identity)).await?;
        #[cfg(feature = "gstreamer")]
        let _filming = camera.map(|camera| film(&mut node, &camera)).transpose()?;
        #[cfg(not(feature = "gstreamer"))]
        drop(camera);
        let listening = node.local_addr().map(|address| address.to_string());
        let status = node.status_addr().map(|address| format!("http://{address}/"));
        tracing::info!(version = env!("CARGO_PKG_VERSION"), side, fingerprint, peer, listening, status, "started");
        node.run(termination).await;
        tracing::info!("ended");
        Ok(())
    })
}

/// Starts the camera that films in this process.
#[cfg(feature = "gstreamer")]
fn film(node: &mut Node, setup: &aquila_net::camera::CameraSetup) -> anyhow::Result<aquila_net::camera::GstCamera> {
    let mut to = node.camera_addr(0).context("there is no input for the camera")?;
    if to.ip().is_unspecified() {
        let local = if to.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
        to.set_ip(local);
    }
    let (requests, asked) = tokio::sync::mpsc::channel(64);
    let camera = aquila_net::camera::GstCamera::start(setup, to, node.frame_gate(), asked)?;
    node.set_camera(requests);
    Ok(camera)
}

/// Completes when the process is asked to end.
pub fn termination() -> anyhow::Result<impl Future<Output = ()>> {
    let mut signals = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()]
        .into_iter()
        .map(signal)
        .collect::<Result<Vec<_>, _>>()
        .context("cannot listen for signals")?;
    Ok(async move {
        let [terminate, interrupt, hangup] = &mut signals[..] else { unreachable!("three were made") };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}

fn node_config(settings: Settings, identity: Identity) -> NodeConfig {
    let role = match settings.link.role {
        config::Role::Listen(address) => Role::Listen(address),
        config::Role::Connect(remote) => Role::Connect(remote.to_string()),
    };
    NodeConfig {
        side: settings.side,
        identity: Arc::new(identity),
        peer: settings.peer,
        role,
        bind_interface: settings.link.bind_interface,
        mtu: settings.link.mtu,
        heartbeat: settings.link.heartbeat,
        stalled_after: settings.link.stalled_after,
        lost_after: settings.link.lost_after,
        state_dir: Some(settings.link.state),
        volatile_dir: settings.link.volatile,
        mavlink: settings.endpoints,
        forward_setup_signing: settings.forward_setup_signing,
        radio_status: settings.radio_status,
        policy: settings.policy,
        cameras: settings.video.inputs,
        encoder: settings.video.encoder,
        encoder_range: settings.video.range,
        modem: settings.link.modem,
        viewers: settings.video.outputs,
        video_queues: settings.video.queues,
        reassembly: settings.video.reassembly,
        control: settings.control,
        congestion: settings.congestion,
        status: settings.status,
    }
}
