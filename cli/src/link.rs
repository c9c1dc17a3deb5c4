//! `aquila air` and `aquila ground`.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;

use anyhow::Context;
use aquila_net::bearer::BearerSpec;
use aquila_net::gateway::{GatewayNode, Way, passage};
use aquila_net::mule::{Bundles, Discovery, LinkSpec, Mule, Partner, Role as Does, serve};
use aquila_net::node::{Node, NodeConfig, Role};
use aquila_proto::Side;
use aquila_proto::identity::Identity;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use crate::config::{self, Carried, MuleSettings, Settings};
use crate::{gateway, mule};

/// Runs one side until SIGTERM or SIGINT. With SIGHUP `reload` is asked for the bearers that there are to be; without it, or at a
/// terminal that is closed, that ends it as well.
pub fn run(settings: Settings, identity: Identity, reload: Option<Reload>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(async {
        let (side, fingerprint) = (settings.side.name(), identity.public().fingerprint());
        let peer = settings.peer.fingerprint();
        // Before anything is opened, so that being asked to end while starting is heard.
        let reload = reload.filter(|_| !std::io::stdin().is_terminal());
        let termination = termination(reload.is_none())?;
        // Before there is a session, which has to know how the encoder follows.
        #[cfg(feature = "gstreamer")]
        let settings = Settings { video: settings.video.with_encoder()?, ..settings };
        let camera = settings.video.camera.clone();
        let files = settings.mule.clone();
        let carried = settings.gateway.clone().map(|carried| (carried, settings.link.state.clone()));
        let config = node_config(settings, identity);
        let template = config.clone();
        let mut node = Node::start(config).await?;
        let gateway = match carried {
            Some((carried, state)) => Some(forward(&mut node, carried, state, &template).await?),
            None => None,
        };
        let files = match files {
            Some(files) => Some(carry(&mut node, &files, &template).await?),
            None => None,
        };
        #[cfg(feature = "gstreamer")]
        let _filming = camera.map(|camera| film(&mut node, &camera)).transpose()?;
        #[cfg(not(feature = "gstreamer"))]
        drop(camera);
        if let Some(reload) = reload {
            node.set_wanted(reloads(reload)?);
        }
        let listening = node.local_addr().map(|address| address.to_string());
        let status = node.status_addr().map(|address| format!("http://{address}/"));
        tracing::info!(version = env!("CARGO_PKG_VERSION"), side, fingerprint, peer, listening, status, "started");
        // One hears that the program is to end, and the others from it.
        let (stop, stopped) = watch::channel(());
        let ending = || {
            let mut stopped = stopped.clone();
            async move { drop(stopped.changed().await) }
        };
        let flying = async {
            node.run(termination).await;
            drop(stop);
        };
        let carrying = async {
            let Some(Files { mule, bundles, links, discovery }) = files else { return Ok(()) };
            let served = serve(&mule, links, discovery, |_| {}, ending()).await;
            // The link goes on without files.
            let served = served.inspect_err(|error| tracing::error!(%error, "no more files"));
            ending().await;
            mule::close(mule, bundles).await;
            served
        };
        let forwarding = async {
            if let Some((gateway, asked)) = gateway {
                gateway.run(ending(), asked).await;
            }
        };
        let ((), carried, ()) = tokio::join!(flying, carrying, forwarding);
        carried?;
        tracing::info!("ended");
        Ok(())
    })
}

/// Other programs' connections go beside all else on this link.
async fn forward(
    node: &mut Node,
    carried: Carried,
    state: PathBuf,
    template: &NodeConfig,
) -> anyhow::Result<(GatewayNode, mpsc::Receiver<()>)> {
    let (end, session) = passage();
    let initiates = template.side == Side::Air;
    let setup = gateway::setup(carried, template.identity.clone(), template.peer, initiates, state, None);
    let gateway = GatewayNode::start(setup, Way::Session(end)).await?;
    let listening: Vec<String> = gateway.local_addrs().iter().map(ToString::to_string).collect();
    tracing::info!(listening = listening.join(" "), "connections are carried");
    node.set_gateway(session, gateway.snapshots());
    Ok((gateway, gateway::asked()?))
}

/// Files beside all else.
struct Files {
    mule: Mule,
    bundles: Option<Bundles>,
    links: Vec<LinkSpec>,
    discovery: Discovery,
}

/// Files go beside all else on this link, and to and from other stores.
async fn carry(node: &mut Node, settings: &MuleSettings, template: &NodeConfig) -> anyhow::Result<Files> {
    let (mule, bundles) = mule::open(settings, template.identity.clone()).await?;
    let (name, gives_to, takes_from) = match settings.role {
        Does::Carrier => ("ground", true, false),
        _ => ("air", false, true),
    };
    let name = name.to_owned();
    node.set_files(mule.meet(Partner { key: template.peer, name, gives_to, takes_from, expected: None }));
    let links = mule::links(settings, &template.identity, template);
    Ok(Files { mule, bundles, links, discovery: settings.discovery.clone() })
}

/// Starts the camera that films in this process.
#[cfg(feature = "gstreamer")]
fn film(node: &mut Node, setup: &aquila_net::camera::CameraSetup) -> anyhow::Result<aquila_net::camera::GstCamera> {
    let mut to = node.camera_addr(0).context("there is no input for the camera")?;
    if to.ip().is_unspecified() {
        let local = if to.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
        to.set_ip(local);
    }
    let (sender, wishes) = watch::channel(aquila_net::node::CameraWishes::default());
    let camera = aquila_net::camera::GstCamera::start(setup, to, node.frame_gate(0), wishes)?;
    node.set_camera(sender);
    Ok(camera)
}

/// Reads the bearers anew.
pub type Reload = Box<dyn Fn() -> anyhow::Result<Vec<BearerSpec>> + Send>;

/// Bearers at each SIGHUP.
fn reloads(reload: Reload) -> anyhow::Result<mpsc::Receiver<Vec<BearerSpec>>> {
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for signals")?;
    let (wanted, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            match reload() {
                Ok(bearers) => {
                    if wanted.send(bearers).await.is_err() {
                        break;
                    }
                }
                Err(error) => tracing::warn!("SIGHUP: the bearers stay as they are: {error:#}"),
            }
        }
    });
    Ok(receiver)
}

/// Completes when the process is asked to end; `hangup`: SIGHUP asks for that, too.
pub fn termination(hangup: bool) -> anyhow::Result<impl Future<Output = ()>> {
    let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let kinds = &kinds[..if hangup { 3 } else { 2 }];
    let signals = kinds.iter().map(|kind| signal(*kind)).collect::<Result<Vec<_>, _>>();
    let mut signals = signals.context("cannot listen for signals")?;
    Ok(std::future::poll_fn(move |context| {
        match signals.iter_mut().any(|signal| signal.poll_recv(context).is_ready()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }))
}

fn node_config(settings: Settings, identity: Identity) -> NodeConfig {
    let role = match settings.link.role {
        config::Role::Listen(address) => Role::Listen(address),
        config::Role::Connect(remote) => Role::Connect(remote.to_string()),
        config::Role::ConnectByRadio => Role::ConnectByRadio,
    };
    NodeConfig {
        side: settings.side,
        identity: Arc::new(identity),
        peer: settings.peer,
        role,
        bind_interface: settings.link.bind_interface,
        bearers: settings.link.bearers,
        radios: settings.link.radios,
        reliability: settings.reliability,
        replicated: settings.replicated,
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
        video_parity: settings.video.parity,
        control: settings.control,
        congestion: settings.congestion,
        status: settings.status,
    }
}
