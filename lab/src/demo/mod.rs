//! The whole link on one machine: a simulated aircraft with a camera, the air side, an emulated cellular link or
//! several, the ground side, an operator and a viewer. Both sides are the very nodes that fly, each on a thread of its own.

mod bearers;
mod commands;
mod flight;
mod links;
mod picture;
mod radio;
mod relay;

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use aquila_emu::Profile;
use aquila_net::bearer::BearerSpec;
use aquila_net::mavlink::EndpointSpec;
use aquila_net::node::{CameraWishes, FrameGate, Node, NodeConfig, Role};
use aquila_net::status::StatusSnapshot;
use aquila_net::video::{Flow, VideoSpec};
use aquila_proto::identity::Identity;
use aquila_proto::{Bitrate, LinkState, Side};
use serde::Serialize;
use tokio::sync::{mpsc, oneshot, watch};

pub use bearers::{BearerReport, CutReport, Happening, ReplicationReport};
pub use commands::Quantiles;
use commands::{CommandLog, Verdict};
use flight::SharedStatus;
use links::Links;
use picture::PictureLog;
pub use radio::RadioReport;
use relay::{Relay, SharedView};

use crate::aircraft;

/// The link is up within this time, or the machine cannot run the demo.
pub const SET_UP_TIME: Duration = Duration::from_secs(10);

/// What a demo is made of.
#[derive(Debug, Clone)]
pub struct DemoConfig {
    /// How the link of each bearer behaves; further ones take somewhat longer than their profiles say.
    pub links: Vec<Profile>,
    /// The first link's luck, and of each further one the next number; a made-up profile was made with the same.
    pub seed: u64,
    /// A serial radio beside them.
    pub radio: bool,
    /// How long the flight will be: with several bearers, one is cut in the middle.
    pub flight: Duration,
    /// Where ground stations listen for MAVLink.
    pub mavlink: SocketAddr,
    /// Where they listen for video.
    pub video: SocketAddr,
    /// Where the ground side's status page is served, if anywhere.
    pub status: Option<SocketAddr>,
}

impl DemoConfig {
    /// With QGroundControl's own ports.
    pub fn new(profile: Profile) -> Self {
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let flight = Duration::from_secs(60);
        Self {
            links: vec![profile],
            seed: 1,
            radio: false,
            flight,
            mavlink: local(14550),
            video: local(5600),
            status: None,
        }
    }
}

/// A running demo. Everything ends when it is dropped.
#[derive(Debug)]
pub struct Demo {
    started: Instant,
    seed: u64,
    /// Of each bearer's link.
    views: Vec<SharedView>,
    commands: CommandLog,
    pictures: PictureLog,
    aircraft: SharedStatus,
    events: mpsc::Receiver<Happening>,
    air: watch::Receiver<StatusSnapshot>,
    ground: watch::Receiver<StatusSnapshot>,
    stop: Arc<AtomicBool>,
    stops: Vec<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<anyhow::Result<()>>>,
}

/// What is going on now, for a display.
#[derive(Debug, Clone)]
pub struct Now {
    /// Time since the start.
    pub elapsed: Duration,
    /// What the link that carries video can carry from the aircraft; `None` without limit.
    pub capacity: Option<Bitrate>,
    /// The link is out; of several, all are.
    pub out: bool,
    /// Each bearer, if there are several.
    pub bearers: Vec<BearerReport>,
    /// What their copies cost.
    pub replication: Option<ReplicationReport>,
    /// How the cut went so far.
    pub cut: Option<CutReport>,
    /// What the encoder is asked to make.
    pub target: Bitrate,
    /// Bytes of video sent by the camera since the start.
    pub video_bytes: u64,
    /// Latency over propagation of the newest command, air to ground and ground to air.
    pub commands: (Option<Duration>, Option<Duration>),
    /// Latency of the newest picture, and its quality in dB.
    pub picture: Option<(Duration, Option<f64>)>,
    /// Both sides' own view.
    pub air: StatusSnapshot,
    /// Ground's.
    pub ground: StatusSnapshot,
    /// What the aircraft is doing.
    pub aircraft: Option<aircraft::Status>,
}

/// How it went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Name of the profile.
    pub profile: &'static str,
    /// The link's luck, and which flight it was if the link is made up.
    pub seed: u64,
    /// Length of the run.
    pub seconds: f64,
    /// Commands from the aircraft to the ground, the direction that carries the video: latency in milliseconds over
    /// propagation. One sent while the link was out counts from the end of the outage.
    pub c2_up_ms: Option<Quantiles>,
    /// The same from the ground to the aircraft.
    pub c2_down_ms: Option<Quantiles>,
    /// Commands sent and delivered, both directions.
    pub commands: CommandCount,
    /// One-way propagation of the link at the end of the run, milliseconds.
    pub propagation_ms: f64,
    /// The picture.
    pub video: VideoReport,
    /// The longest outage, the first of several alike, if there was one.
    pub handover: HandoverReport,
    /// Address changes during the run.
    pub address_changes: usize,
    /// Each bearer, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bearers: Vec<BearerReport>,
    /// What their copies cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replication: Option<ReplicationReport>,
    /// The serial radio, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub radio: Option<RadioReport>,
    /// The bearer that was cut, and how commands and pictures fared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<CutReport>,
    /// Why the link did not work, if it did not.
    pub failures: Vec<String>,
}

/// Commands, both directions together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CommandCount {
    /// Sent.
    pub sent: usize,
    /// Delivered.
    pub delivered: usize,
    /// Delivered more than once.
    pub twice: u64,
}

/// The picture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VideoReport {
    /// Frames filmed and sent.
    pub frames_sent: usize,
    /// Frames decoded on the ground.
    pub frames_shown: usize,
    /// Of these, more than 200 ms later than propagation.
    pub frames_late: usize,
    /// From film to decoded picture, encoding and decoding included.
    pub latency_ms: Option<Quantiles>,
    /// Mean luma PSNR against what was filmed.
    pub psnr_db: Option<f64>,
}

/// An outage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct HandoverReport {
    /// How long the link was out.
    pub outage_ms: Option<f64>,
    /// From its begin to the first command that reached the aircraft after its end.
    pub without_control_ms: Option<f64>,
}

impl Demo {
    /// Starts everything.
    ///
    /// # Errors
    /// If a thread, a port or the encoder cannot be had.
    pub fn start(config: DemoConfig) -> anyhow::Result<Self> {
        let (air_key, ground_key) = (Arc::new(fresh_identity()?), Arc::new(fresh_identity()?));
        let stop = Arc::new(AtomicBool::new(false));
        let (commands, pictures, aircraft) = (CommandLog::default(), PictureLog::default(), SharedStatus::default());
        let (tell, events) = mpsc::channel(256);

        let mut radio_thread = None;
        let viewer = UdpSocket::bind("127.0.0.1:0").context("no free port")?;
        let mut ground = NodeConfig::new(
            Side::Ground,
            ground_key.clone(),
            air_key.public(),
            Role::Listen(SocketAddr::from(([127, 0, 0, 1], 0))),
        );
        ground.mavlink = vec![any_udp_in(), format!("udpout:{}", config.mavlink).parse()?];
        ground.viewers = vec![viewer_spec(viewer.local_addr()?), viewer_spec(config.video)];
        ground.status = config.status.map(|address| (address, aquila_net::status::Exposure::LoopbackOnly));
        let radio = config.radio.then(|| radio::open(config.seed)).transpose().context("no pseudo-terminals")?;
        let (pair, radios) = radio.map_or((None, None), |(pair, radios)| (Some(pair), Some(radios)));
        let [air_radios, ground_radios] =
            radios.map_or_else(Default::default, |[air, ground]| [vec![air], vec![ground]]);
        ground.radios = ground_radios;
        if let Some(pair) = pair {
            let stop = stop.clone();
            radio_thread =
                Some(std::thread::Builder::new().name("radio".to_owned()).spawn(move || radio::run(pair, &stop))?);
        }
        let ground = Running::start("ground", ground, tell.clone(), None)?;

        let listens = ground.local.ok_or_else(|| anyhow!("the ground side does not listen"))?;
        let relays = start_relays(listens, config.links, config.seed)?;
        let [first, ..] = &relays[..] else { return Err(anyhow!("a demo needs a link")) };

        let role = Role::Connect(first.address.to_string());
        let mut air = NodeConfig::new(Side::Air, air_key, ground_key.public(), role);
        if relays.len() > 1 {
            let bearer = |(number, relay): (usize, &RunningRelay)| BearerSpec {
                remote: Some(relay.address.to_string()),
                name: Some(bearers::name(number)),
                ..BearerSpec::default()
            };
            air.bearers = relays.iter().enumerate().map(bearer).collect();
        }
        air.radios = air_radios;
        let bearers = relays.len() + air.radios.len();
        air.mavlink = vec![any_udp_in()];
        let camera = VideoSpec { address: free_udp_port()?, codec: aquila_proto::video::Codec::H264, flow: None };
        air.cameras = vec![(Flow::default(), camera)];
        air.encoder_range = picture::RANGE;
        let (sender, wishes) = watch::channel(CameraWishes::default());
        let air = Running::start("air", air, tell.clone(), Some(sender))?;

        wait_for_link(&air.snapshots, &ground.snapshots, bearers)?;
        let mut demo = Self {
            started: Instant::now(),
            seed: config.seed,
            views: relays.iter().map(|relay| relay.view.clone()).collect(),
            commands: commands.clone(),
            pictures: pictures.clone(),
            aircraft: aircraft.clone(),
            events,
            air: air.snapshots,
            ground: ground.snapshots,
            stop: stop.clone(),
            stops: vec![air.stop, ground.stop],
            threads: vec![air.thread, ground.thread],
        };
        demo.threads.extend(radio_thread);
        for relay in relays {
            demo.stops.push(relay.stop);
            demo.threads.push(relay.thread);
        }
        let mavlink = (air.mavlink, ground.mavlink);
        let to_camera = air.camera.ok_or_else(|| anyhow!("the air side takes no video"))?;
        let (stopper, stopped) = oneshot::channel::<()>();
        demo.stops.push(stopper);
        demo.spawn("flight", move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                tokio::select! {
                    flown = flight::aircraft(mavlink.0, commands.clone(), aircraft.clone()) => Ok(flown?),
                    operated = flight::operator(mavlink.1, commands, aircraft) => Ok(operated?),
                    _ = stopped => Ok(()),
                }
            })
        })?;
        let (log, flag) = (pictures.clone(), stop.clone());
        let gate = air.gate;
        if demo.views.len() > 1 {
            let cutter = bearers::Cutter {
                started: demo.started,
                flight: config.flight,
                views: demo.views.clone(),
                air: demo.air.clone(),
                tell,
                stop: stop.clone(),
            };
            demo.spawn("cutter", move || {
                cutter.run();
                Ok(())
            })?;
        }
        demo.spawn("camera", move || picture::film(to_camera, &gate, wishes, &log, &flag))?;
        demo.spawn("viewer", move || picture::watch(&viewer, &pictures, &stop))?;
        Ok(demo)
    }

    /// What is going on.
    pub fn now(&self) -> Now {
        let links = self.links();
        let (air, ground) = (self.air.borrow().clone(), self.ground.borrow().clone());
        let video = bearers::video_carrier(&air).filter(|number| *number < links.views().len()).unwrap_or(0);
        Now {
            elapsed: self.started.elapsed(),
            capacity: links.views()[video].up_bps.map(Bitrate),
            out: links.none_there().is_out(),
            bearers: self.bearers(&links, &air, &ground),
            replication: self.replication(&air, &ground),
            cut: self.cut(&links),
            target: self.pictures.target(),
            video_bytes: self.pictures.bytes(),
            commands: (self.commands.newest(Side::Air, &links), self.commands.newest(Side::Ground, &links)),
            picture: self.pictures.newest(),
            air,
            ground,
            aircraft: *self.aircraft.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// What has happened to either side or to a link since the last call.
    pub fn poll_event(&mut self) -> Option<Happening> {
        self.events.try_recv().ok()
    }

    /// Whether a part has ended though it should not.
    pub fn has_failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Ends everything and says how it went.
    pub fn finish(mut self, profile: &Profile) -> Report {
        let (links, now) = (self.links(), Instant::now());
        let (air, ground) = (self.air.borrow().clone(), self.ground.borrow().clone());
        let up = self.commands.verdict(Side::Air, &links, now);
        let down = self.commands.verdict(Side::Ground, &links, now);
        let picture = self.pictures.verdict(&links, now);
        let outage = links.none_there().longest_outage();
        let (bearers, replication) = (self.bearers(&links, &air, &ground), self.replication(&air, &ground));
        let cut = self.cut(&links);
        let seconds = (now - self.started).as_secs_f64();
        let mut failures = judge(&up, &down, &picture);
        failures.extend(self.end());
        Report {
            profile: profile.name,
            seed: self.seed,
            seconds: (seconds * 100.0).round() / 100.0,
            c2_up_ms: up.over_propagation,
            c2_down_ms: down.over_propagation,
            commands: CommandCount {
                sent: up.sent + down.sent,
                delivered: up.delivered + down.delivered,
                twice: up.twice + down.twice,
            },
            propagation_ms: ms(links.propagation(Side::Air, now)),
            video: VideoReport {
                frames_sent: picture.sent,
                frames_shown: picture.shown,
                frames_late: picture.late,
                latency_ms: Quantiles::of(picture.latencies),
                psnr_db: picture.psnr_db.map(|db| (db * 100.0).round() / 100.0),
            },
            handover: HandoverReport {
                outage_ms: outage.map(|(begin, end)| ms(end - begin)),
                without_control_ms: outage.and_then(|(begin, end)| self.commands.without_control(begin, end)).map(ms),
            },
            address_changes: links.views().iter().map(|view| view.address_changes.len()).sum(),
            bearers,
            replication,
            radio: radio::report(&air, &ground, outage, &self.commands),
            cut,
            failures,
        }
    }

    fn links(&self) -> Links {
        let view = |view: &SharedView| view.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Links::new(self.views.iter().map(view).collect())
    }

    fn bearers(&self, links: &Links, air: &StatusSnapshot, ground: &StatusSnapshot) -> Vec<BearerReport> {
        if self.views.len() > 1 { bearers::report(links, air, ground) } else { Vec::new() }
    }

    fn replication(&self, air: &StatusSnapshot, ground: &StatusSnapshot) -> Option<ReplicationReport> {
        (self.views.len() > 1).then(|| ReplicationReport::new(air, ground))
    }

    fn cut(&self, links: &Links) -> Option<CutReport> {
        CutReport::new(self.started, links, &self.commands, &self.pictures)
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() -> anyhow::Result<()> + Send + 'static) -> anyhow::Result<()> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        self.threads.push(thread);
        Ok(())
    }

    /// Stops all threads; gives what they failed of.
    fn end(&mut self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        for stop in self.stops.drain(..) {
            let _ = stop.send(());
        }
        let ended = self.threads.drain(..).map(|thread| (thread.thread().name().map(str::to_owned), thread.join()));
        ended
            .filter_map(|(name, result)| {
                let name = name.unwrap_or_default();
                match result {
                    Ok(Ok(())) => None,
                    Ok(Err(error)) => Some(format!("{name}: {error:#}")),
                    Err(_) => Some(format!("{name}: panicked")),
                }
            })
            .collect()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        self.end();
    }
}

/// What makes a run a failure: the link's promises, loosely, since the machine may be busy.
fn judge(up: &Verdict, down: &Verdict, picture: &picture::PictureVerdict) -> Vec<String> {
    let mut failures = Vec::new();
    for (name, verdict) in [("air to ground", up), ("ground to air", down)] {
        if verdict.sent == 0 || verdict.delivered < verdict.sent {
            failures.push(format!("{name}: {} of {} commands delivered", verdict.delivered, verdict.sent));
        }
        if verdict.twice > 0 {
            failures.push(format!("{name}: {} commands delivered twice", verdict.twice));
        }
    }
    if picture.shown * 2 < picture.sent || picture.shown == 0 {
        failures.push(format!("{} of {} frames shown", picture.shown, picture.sent));
    }
    failures
}

/// Waits until both sides say that the link is up, and each bearer of several; what is measured begins then.
fn wait_for_link(
    air: &watch::Receiver<StatusSnapshot>,
    ground: &watch::Receiver<StatusSnapshot>,
    bearers: usize,
) -> anyhow::Result<()> {
    let until = Instant::now() + SET_UP_TIME;
    while up(&air.borrow()).min(up(&ground.borrow())) < bearers {
        if Instant::now() > until {
            let which = if bearers > 1 { "not all bearers came" } else { "the link did not come" };
            return Err(anyhow!("{which} up within {} s", SET_UP_TIME.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// A node on a thread of its own.
struct Running {
    local: Option<SocketAddr>,
    mavlink: SocketAddr,
    camera: Option<SocketAddr>,
    snapshots: watch::Receiver<StatusSnapshot>,
    gate: FrameGate,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl Running {
    fn start(
        name: &str,
        config: NodeConfig,
        tell: mpsc::Sender<Happening>,
        camera: Option<watch::Sender<CameraWishes>>,
    ) -> anyhow::Result<Self> {
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, started) = std::sync::mpsc::channel();
        let side = config.side;
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async move {
                let mut node = match Node::start(config).await {
                    Ok(node) => node,
                    Err(error) => {
                        let _ = ready.send(Err(error));
                        return Ok(());
                    }
                };
                let (events, mut happened) = mpsc::channel(64);
                node.set_events(events);
                if let Some(camera) = camera {
                    node.set_camera(camera);
                }
                let addresses = (node.local_addr(), node.mavlink_addr(0), node.camera_addr(0));
                let _ = ready.send(Ok((addresses, node.snapshots(), node.frame_gate(0))));
                let forward = async {
                    while let Some(event) = happened.recv().await {
                        let _ = tell.try_send(Happening::Node(side, event));
                    }
                };
                tokio::join!(forward, node.run(async { drop(stopped.await) }));
                Ok(())
            })
        })?;
        let ((local, mavlink, camera), snapshots, gate) =
            started.recv().map_err(|_| anyhow!("{name}: ended while starting"))??;
        let mavlink = mavlink.ok_or_else(|| anyhow!("{name}: no MAVLink endpoint"))?;
        Ok(Self { local, mavlink, camera, snapshots, gate, stop, thread })
    }
}

/// A link on a thread of its own.
struct RunningRelay {
    /// Where the aircraft finds the ground station by this link.
    address: SocketAddr,
    view: SharedView,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<anyhow::Result<()>>,
}

/// One link for each bearer. Their profiles begin at different times, since two networks do not hand over at once.
fn start_relays(ground: SocketAddr, profiles: Vec<Profile>, seed: u64) -> anyhow::Result<Vec<RunningRelay>> {
    let count = profiles.len().max(1) as u32;
    let numbered = (0..).zip(profiles);
    let relays = numbered.map(|(number, profile)| {
        let ahead = profile.cycle * number / count;
        start_relay(ground, links::further(profile, number), seed.wrapping_add(number.into()), ahead)
    });
    relays.collect()
}

fn start_relay(ground: SocketAddr, profile: Profile, seed: u64, ahead: Duration) -> anyhow::Result<RunningRelay> {
    let (stop, stopped) = oneshot::channel::<()>();
    let (ready, started) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new().name("link".into()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async move {
            let relay = Relay::new(ground, profile, seed, ahead).await?;
            let _ = ready.send((relay.address()?, relay.view()));
            tokio::select! {
                () = relay.run() => {}
                _ = stopped => {}
            }
            Ok(())
        })
    })?;
    let (address, view) = started.recv().map_err(|_| anyhow!("no free port for the emulated link"))?;
    Ok(RunningRelay { address, view, stop, thread })
}

/// To a hundredth of a millisecond.
fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e5).round() / 100.0
}

fn fresh_identity() -> anyhow::Result<Identity> {
    let mut seed = [0; 32];
    let random = ring::rand::SystemRandom::new();
    ring::rand::SecureRandom::fill(&random, &mut seed).map_err(|_| anyhow!("the system gives no random numbers"))?;
    Ok(Identity::from_seed(seed))
}

fn any_udp_in() -> EndpointSpec {
    "udpin:127.0.0.1:0".parse().expect("a valid endpoint")
}

fn viewer_spec(address: SocketAddr) -> VideoSpec {
    VideoSpec { address, codec: aquila_proto::video::Codec::Auto, flow: None }
}

/// A port that was free a moment ago.
fn free_udp_port() -> anyhow::Result<SocketAddr> {
    UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).context("no free port")
}

/// How many bearers are up, as a node says.
fn up(snapshot: &StatusSnapshot) -> usize {
    snapshot.bearers.iter().filter(|bearer| bearer.state == LinkState::Up.name()).count()
}
