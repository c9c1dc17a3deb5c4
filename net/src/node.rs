//! A node: one session with its socket, MAVLink and video endpoints, and store, in one loop.
//!
//! The loop waits for whatever comes first, hands it to the session, and does what the session says until it says to wait.
//! One task owns all of it; no locks.

mod camera_log;
mod changes;
mod config;
mod dial;
mod events;
mod gate;
mod lane;
mod network;
mod picture;
mod snapshot;
mod wishes;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use aquila_proto::cc::Radio;
use aquila_proto::mavlink::router::{EndpointConfig, EndpointKind, Router, RouterConfig};
use aquila_proto::mavlink::{EndpointId, Frame, RadioReporter, Version};
use aquila_proto::quic::{MemoryTickets, QuicConfig, TicketStore, TlsError};
use aquila_proto::session::{Arrival, BearerConfig};
use aquila_proto::{BearerId, Class, LinkState, Output, Session, SessionConfig, Side};
use tokio::sync::{mpsc, watch};

use camera_log::{Asked, CameraLog};
pub use config::{NodeConfig, Role};
pub use gate::FrameGate;
use picture::PictureLog;
pub use snapshot::Snapshots;
pub use wishes::{CameraRate, CameraWishes};

use crate::bearer::BearerSpec;
use crate::encoder;
use crate::gateway::{GatewaySnapshot, SessionEnd};
use crate::mavlink::{EVENTS, Endpoint, EndpointEvent, EndpointIds, Endpoints, SpawnError};
use crate::mule::{Contact, News};
use crate::netwatch::{self, NetworkChange};
use crate::radio::{LineInput, LineNews, RadioLine, RadioSpec};
use crate::socket::Datagram;
use crate::status::{StatusError, StatusServer, StatusSnapshot};
use crate::store::{self, Store};
use crate::video::{Flow, VideoDatagram, VideoInput, VideoOutput, VideoSpec};
use lane::Lanes;

/// Snapshots for the status page are taken this often, and the autopilot's flow control looks at the queue.
const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(250);
/// Packets on their way from the cameras: a burst of a frame fits.
const VIDEO_CHANNEL: usize = 4096;
/// Inputs handled before others get their turn.
const BURST: usize = 16;

/// What happened to the link, for a display.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeEvent {
    /// State, and the age of the last word from the other side.
    State(LinkState, Duration),
    /// The same of one of several bearers, by its name.
    BearerState(String, LinkState, Duration),
    /// A class goes by this bearer from now on.
    Rerouted(Class, String),
    /// Connected to this address, by 0-RTT or not.
    Connected(Option<SocketAddr>, bool),
    /// The connection ended, and why.
    Disconnected(String),
    /// The other side's address changed.
    PeerMoved(SocketAddr, SocketAddr),
}

/// Why a node could not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The address to listen on.
    #[error("cannot listen on UDP {0}{hint}", hint = hint(.1, " (is Aquila running already? See `ss -ulpn`)"))]
    Listen(SocketAddr, #[source] io::Error),
    /// A MAVLink endpoint.
    #[error("cannot open a MAVLink endpoint")]
    Mavlink(#[from] SpawnError),
    /// A camera's port.
    #[error("cannot take video at {0}{hint}", hint = hint(.1, " (is a player or another Aquila running? See `ss -ulpn`)"))]
    VideoIn(VideoSpec, #[source] io::Error),
    /// Sockets for viewers.
    #[error("cannot send video")]
    VideoOut(#[source] io::Error),
    /// The status page.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// Identity or MTU.
    #[error("cannot set up encryption")]
    Session(#[from] TlsError),
    /// Another process has our state.
    #[error("cannot use the state in {}: is Aquila running already with this peer?", .0.display())]
    StateInUse(PathBuf, #[source] io::Error),
    /// No randomness from the system.
    #[error("the system gives no random numbers")]
    NoRandomness,
}

/// A running node.
#[derive(Debug)]
pub struct Node {
    config: NodeConfig,
    session: Session,
    lanes: Lanes,
    radios: BTreeMap<BearerId, RadioLine>,
    from_lines: mpsc::Receiver<LineNews>,
    /// What people call the bearers.
    names: BTreeMap<BearerId, String>,
    store: Option<Store>,
    router: Router,
    /// The air-ground link's id with the router.
    link: EndpointId,
    endpoints: Endpoints,
    peers: BTreeMap<EndpointId, Endpoint>,
    mavlink_events: mpsc::Receiver<EndpointEvent>,
    radio: RadioReporter,
    cameras: Vec<VideoInput>,
    camera_packets: mpsc::Receiver<VideoDatagram>,
    viewers: VideoOutput,
    network: Option<mpsc::Receiver<NetworkChange>>,
    status: Option<StatusServer>,
    snapshots: Snapshots,
    published: watch::Sender<StatusSnapshot>,
    /// Who films, in this process.
    camera: Option<watch::Sender<CameraWishes>>,
    encoder: Option<encoder::Served>,
    wanted: Option<mpsc::Receiver<Vec<BearerSpec>>>,
    files: Option<Contact>,
    gateway: Option<SessionEnd>,
    gateway_snapshots: Option<watch::Receiver<GatewaySnapshot>>,
    gate: FrameGate,
    questions: mpsc::Receiver<gate::Question>,
    events: Option<mpsc::Sender<NodeEvent>>,
    deadline: Instant,
    picture: PictureLog,
    camera_log: CameraLog,
    targets: Vec<EndpointId>,
}

impl Node {
    /// Opens everything. Must be called within a tokio runtime with one thread.
    ///
    /// # Errors
    /// [`NodeError`]: whatever would fail again at the next try; the rest is tried again while running.
    pub async fn start(config: NodeConfig) -> Result<Self, NodeError> {
        let started = Instant::now();
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut store = open_store(&config)?;
        let session = Session::new(session_config(&config, &mut store, started, since_1970)?)?;
        let mut lanes = Lanes::default();
        match &config.role {
            Role::Listen(address) => {
                lanes.listen(*address, config.bind_interface.as_deref(), config.modem.clone())?;
            }
            Role::ConnectByRadio => {}
            Role::Connect(remote) => {
                for (bearer, spec) in BearerId::all().zip(bearers(&config)) {
                    lanes.connect(bearer, spec, remote);
                }
            }
        }
        let mut names: BTreeMap<_, _> =
            lanes.iter().filter_map(|lane| Some((lane.bearer?, lane.spec.name()))).collect();
        let (line_news, from_lines) = mpsc::channel(EVENTS);
        let mut radios = BTreeMap::new();
        for (bearer, spec) in numbered_radios(&config) {
            names.insert(bearer, spec.name());
            radios.insert(bearer, RadioLine::spawn(bearer, spec.line.clone(), line_news.clone()));
        }
        let ids = EndpointIds::new();
        let link = ids.allocate();
        let mut router = Router::new(RouterConfig {
            forward_setup_signing: config.forward_setup_signing,
            ..RouterConfig::default()
        });
        router
            .add_endpoint(started, link, EndpointConfig::new(EndpointKind::Remote))
            .expect("an empty router has room");
        let (mavlink, mavlink_events) = mpsc::channel(EVENTS);
        let endpoints = Endpoints::spawn(&config.mavlink, &ids, mavlink).await?;
        let (packets, camera_packets) = mpsc::channel(VIDEO_CHANNEL);
        let mut cameras = Vec::new();
        for (flow, spec) in &config.cameras {
            let camera = VideoInput::spawn(spec, *flow, packets.clone());
            cameras.push(camera.map_err(|error| NodeError::VideoIn(spec.clone(), error))?);
        }
        let viewers = VideoOutput::spawn(&config.viewers).map_err(NodeError::VideoOut)?;
        let (published, snapshots) = watch::channel(StatusSnapshot::default());
        let status = config.status.map(|(address, exposure)| StatusServer::spawn(address, exposure, snapshots));
        let (gate, questions) = FrameGate::new();
        let network = netwatch::watch();
        if let Err(error) = &network {
            tracing::warn!(%error, "cannot watch for network changes; noticing them by silence only");
        }
        Ok(Self {
            session,
            lanes,
            radios,
            from_lines,
            names,
            store,
            router,
            link,
            endpoints,
            peers: BTreeMap::new(),
            mavlink_events,
            radio: RadioReporter::new(Version::V2),
            cameras,
            camera_packets,
            viewers,
            network: network.ok(),
            status: status.transpose()?,
            snapshots: Snapshots::new(&config, started),
            published,
            camera: None,
            encoder: config.encoder.as_ref().map(encoder::serve),
            wanted: None,
            files: None,
            gateway: None,
            gateway_snapshots: None,
            gate,
            questions,
            events: None,
            deadline: started,
            picture: PictureLog::default(),
            camera_log: CameraLog::default(),
            targets: Vec::new(),
            config,
        })
    }

    /// Where we listen, if we do.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.lanes.sockets.first_local()
    }

    /// Where the status page is.
    pub fn status_addr(&self) -> Option<SocketAddr> {
        self.status.as_ref().map(StatusServer::local_addr)
    }

    /// Where MAVLink endpoint number `port` of the configuration listens.
    pub fn mavlink_addr(&self, port: usize) -> Option<SocketAddr> {
        self.endpoints.local_addr(port)
    }

    /// Where camera number `index` of the configuration sends to.
    pub fn camera_addr(&self, index: usize) -> Option<SocketAddr> {
        self.cameras.get(index).map(VideoInput::local_addr)
    }

    /// Snapshots as they are published, four a second.
    pub fn snapshots(&self) -> watch::Receiver<StatusSnapshot> {
        self.published.subscribe()
    }

    /// What the link wants of the camera goes there.
    pub fn set_camera(&mut self, camera: watch::Sender<CameraWishes>) {
        self.camera = Some(camera);
    }

    /// Lists of the bearers that there are to be from now on, if this side connects: others are added and taken away as these
    /// say.
    pub fn set_wanted(&mut self, wanted: mpsc::Receiver<Vec<BearerSpec>>) {
        self.wanted = Some(wanted);
    }

    /// Files are carried beside all else.
    pub fn set_files(&mut self, files: Contact) {
        self.files = Some(files);
    }

    /// A gateway's connections are carried beside all else; the status page shows how it fares.
    pub fn set_gateway(&mut self, gateway: SessionEnd, snapshots: watch::Receiver<GatewaySnapshot>) {
        self.gateway = Some(gateway);
        self.gateway_snapshots = Some(snapshots);
    }

    /// For the encoder of camera number `index` of the configuration, if it asks before each frame.
    pub fn frame_gate(&self, index: usize) -> FrameGate {
        self.gate.of(self.config.cameras.get(index).map_or_else(Flow::default, |(flow, _)| *flow))
    }

    /// What happens to the link goes to `events` as well as to the log; what does not fit is dropped.
    pub fn set_events(&mut self, events: mpsc::Sender<NodeEvent>) {
        self.events = Some(events);
    }

    /// Runs until `shutdown`, then says goodbye to the other side and closes everything.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        let mut batch = Vec::new();
        let mut next_snapshot = Instant::now();
        // The first input: a side that connects asks for the address at once.
        let now = Instant::now();
        self.session.handle_timeout(now);
        self.drain(now);
        loop {
            let files_due = self.files.as_ref().and_then(|files| files.next_deadline(&self.session));
            let dues = [self.lanes.changes_due(), files_due, Some(self.deadline)];
            let timer = dues.into_iter().flatten().fold(next_snapshot, Instant::min);
            tokio::select! {
                () = &mut shutdown => break,
                lane = self.lanes.sockets.receive(&mut batch) => self.on_datagrams(lane, &mut batch),
                Some(event) = self.mavlink_events.recv() => self.on_endpoint_events(event),
                Some(question) = self.questions.recv() => question.answer(&mut self.session),
                flow = self.viewers.viewer_begun() => self.on_viewer_begun(flow),
                Some(packet) = self.camera_packets.recv() => self.on_camera_packets(packet),
                Some(news) = self.from_lines.recv() => self.on_line_news(news),
                (lane, radio) = self.lanes.modems.heard() => self.on_radio(lane, &radio),
                change = from(&mut self.network) => self.on_network_change(change),
                wanted = from(&mut self.wanted) => self.on_wanted(&wanted),
                news = heard(&mut self.files) => self.on_store_news(news),
                () = wanted_by(&mut self.gateway) => self.drain(Instant::now()),
                (lane, address) = self.lanes.diallers.resolved() => self.on_address(lane, address),
                () = tokio::time::sleep_until(timer.into()) => {}
            }
            let now = Instant::now();
            if now >= self.deadline {
                self.session.handle_timeout(now);
                self.drain(now);
            } else if files_due.is_some_and(|due| now >= due) {
                self.drain(now);
            }
            if self.lanes.changes_due().is_some_and(|due| now >= due) {
                (0..self.lanes.len()).for_each(|lane| self.on_changes(now, lane));
            }
            if now >= next_snapshot {
                next_snapshot = now + SNAPSHOT_INTERVAL;
                self.publish(now);
                self.report_to_autopilot(now);
            }
        }
        let now = Instant::now();
        self.session.close(now);
        self.drain(now);
        self.endpoints.shutdown().await;
        if let Some(encoder) = self.encoder {
            encoder.end().await;
        }
    }

    fn on_datagrams(&mut self, lane: usize, batch: &mut Vec<Datagram>) {
        let bearer = self.lanes.get(lane).bearer;
        for datagram in batch.drain(..) {
            let now = Instant::now();
            let Datagram { received, from, local, ecn, data } = datagram;
            let arrival = Arrival { bearer, received, from: canonical(from), local, ecn };
            self.session.handle_datagram(now, arrival, data);
            self.drain(now);
        }
    }

    fn on_endpoint_events(&mut self, first: EndpointEvent) {
        let mut next = Some(first);
        for _ in 0..BURST {
            let Some(event) = next.take() else { break };
            self.on_endpoint_event(event);
            next = self.mavlink_events.try_recv().ok();
        }
        if let Some(event) = next {
            self.on_endpoint_event(event);
        }
    }

    fn on_endpoint_event(&mut self, event: EndpointEvent) {
        let now = Instant::now();
        match event {
            EndpointEvent::Added(endpoint) => {
                let id = endpoint.id();
                match self.router.add_endpoint(now, id, EndpointConfig::new(EndpointKind::Local)) {
                    Ok(()) => drop(self.peers.insert(id, endpoint)),
                    Err(error) => tracing::warn!(%error, endpoint = endpoint.label(), "endpoint ignored"),
                }
            }
            EndpointEvent::Removed(id) => {
                self.router.remove_endpoint(id);
                self.peers.remove(&id);
            }
            EndpointEvent::Frame { from, frame } => {
                self.route(now, from, &frame);
            }
        }
    }

    /// Hands a frame to where it goes.
    fn route(&mut self, now: Instant, from: EndpointId, frame: &Frame) {
        let mut targets = std::mem::take(&mut self.targets);
        self.router.route(now, from, frame, &mut targets);
        let class = self.config.policy.treatment(frame.message_id()).class;
        let mut to_link = false;
        for target in &targets {
            match self.peers.get(target) {
                // What it refuses it counts.
                Some(endpoint) => drop(endpoint.send(frame.clone(), class)),
                None => to_link |= *target == self.link,
            }
        }
        self.targets = targets;
        while let Some(event) = self.router.poll_event() {
            tracing::info!(?event, "mavlink router");
        }
        if to_link {
            self.session.send_mavlink(now, frame);
            self.drain(now);
        }
    }

    fn on_camera_packets(&mut self, first: VideoDatagram) {
        let mut next = Some(first);
        let mut handled = 0;
        while let Some(packet) = next.take() {
            let now = Instant::now();
            self.session.send_video(now, usize::from(packet.flow.number()), &packet.bytes);
            self.drain_unflushed(now);
            handled += 1;
            if handled < BURST {
                next = self.camera_packets.try_recv().ok();
            }
        }
        self.lanes.flush();
    }

    fn on_store_news(&mut self, first: News) {
        let now = Instant::now();
        let Some(files) = &mut self.files else { return };
        let mut next = Some(first);
        while let Some(news) = next {
            files.on_news(now, news);
            next = files.try_heard();
        }
        self.drain(now);
    }

    fn on_radio(&mut self, lane: usize, radio: &Radio) {
        let bearer = self.lanes.get(lane).bearer;
        self.session.set_radio(Instant::now(), bearer, radio);
    }

    fn on_line_news(&mut self, news: LineNews) {
        let (now, LineNews { bearer, what }) = (Instant::now(), news);
        match what {
            LineInput::Opened => {
                tracing::info!(bearer = self.name_of(bearer), "radio's line open");
                self.session.begin_radio(now, bearer);
            }
            LineInput::Bytes(bytes) => self.session.handle_line(now, bearer, &bytes),
            LineInput::Gone(why) => {
                tracing::warn!(bearer = self.name_of(bearer), why, "radio's line is not there; trying again");
                return;
            }
        }
        self.drain(now);
    }

    /// Does what the session says, until it says to wait.
    fn drain(&mut self, now: Instant) {
        self.drain_unflushed(now);
        self.lanes.flush();
    }

    /// The same, but what is to be sent may stay with the socket until it is flushed, so that the packets of several inputs
    /// leave in one call.
    fn drain_unflushed(&mut self, now: Instant) {
        // Before a frame is handed on, what guards against doing so twice is stored.
        if let Some(store) = &mut self.store {
            while let Some((bearer, snapshot)) = self.session.resumption_snapshot() {
                store.save_resumption(bearer, &snapshot);
            }
            if let Some(snapshot) = self.session.replay_snapshot() {
                store.save_replay(&snapshot);
            }
        }
        loop {
            self.drain_session(now);
            // What the files and the gateway have to say is more for the session to do.
            let files = self.files.as_mut().is_some_and(|files| files.pump(now, &mut self.session));
            let gateway = self.gateway.as_mut().is_some_and(|gateway| gateway.pump(now, &mut self.session));
            if !files && !gateway {
                break;
            }
        }
    }

    fn drain_session(&mut self, now: Instant) {
        let mut events = Vec::new();
        loop {
            match self.session.poll_output(now) {
                Output::Transmit(bearer, transmit, data) => {
                    let lane = self.lanes.index_of(bearer);
                    if let Some(socket) = lane.and_then(|lane| self.lanes.socket(lane)) {
                        socket.send(transmit, data);
                    }
                }
                Output::Line(bearer, data) => {
                    self.radios.get_mut(&bearer).into_iter().for_each(|line| line.send(data));
                }
                Output::Event(event) => events.push(event),
                Output::Timeout(at) => {
                    self.deadline = at;
                    break;
                }
            }
        }
        for event in events {
            self.on_event(now, event);
        }
    }

    /// What people call a bearer.
    fn name_of(&self, bearer: BearerId) -> String {
        self.names.get(&bearer).cloned().unwrap_or_else(|| bearer.to_string())
    }

    fn ask_camera(&self, wish: impl FnOnce(&mut CameraWishes)) {
        if let Some(camera) = self.camera.as_ref().or(self.encoder.as_ref().map(|encoder| &encoder.wishes)) {
            camera.send_modify(|wishes| {
                wish(wishes);
                tracing::debug!(?wishes, "camera");
            });
        }
    }

    fn tell(&self, event: NodeEvent) {
        if let Some(events) = &self.events {
            let _ = events.try_send(event);
        }
    }

    /// Tells the autopilot to slow its streams down when the telemetry queue grows. Not while the link is out: there is
    /// nothing to learn from a queue that cannot move.
    fn report_to_autopilot(&mut self, now: Instant) {
        if self.config.side != Side::Air || !self.config.radio_status {
            return;
        }
        if self.radio.next_timeout().is_some_and(|due| now < due) {
            return;
        }
        let stats = self.session.stats(now);
        if stats.state != LinkState::Up {
            return;
        }
        let queue = snapshot::telemetry_queue(&stats);
        let Some((.., version)) = self.router.autopilots(now).next() else { return };
        self.radio.set_version(version);
        let Some(frame) = self.radio.poll_report(now, &queue, u8::MAX, u8::MAX) else { return };
        for (_, endpoint, _) in self.router.autopilots(now) {
            if let Some(endpoint) = self.peers.get(&endpoint) {
                // What it refuses it counts.
                let _ = endpoint.send(frame.clone(), Class::Control);
            }
        }
    }

    fn publish(&mut self, now: Instant) {
        let stats = self.session.stats(now);
        self.picture.update(stats.picture_age, stats.frames_out);
        let asked = Asked {
            rate: (stats.state == LinkState::Up).then_some(stats.target_rate),
            is_told: self.camera.is_some() || self.encoder.is_some(),
            held: stats.held,
        };
        self.camera_log.update(now, asked, &stats.cameras);
        let mut snapshot = self.snapshots.take(
            &stats,
            &self.endpoints,
            self.router.stats(),
            &self.cameras,
            &self.viewers,
            &self.lanes,
        );
        snapshot.gateway = self.gateway_snapshots.as_ref().map(|snapshots| snapshots.borrow().clone());
        self.published.send_replace(snapshot);
    }
}

/// What to do about the usual reasons for which a port cannot be had. The reason itself is the error's source.
fn hint(error: &io::Error, in_use: &'static str) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => in_use,
        io::ErrorKind::AddrNotAvailable => " (no interface of this machine has this address)",
        io::ErrorKind::PermissionDenied => " (ports below 1024 belong to root)",
        _ => "",
    }
}

/// Bearers of a side that connects.
fn bearers(config: &NodeConfig) -> Vec<BearerSpec> {
    let mut bearers = config.bearers.clone();
    if bearers.is_empty() {
        bearers.push(BearerSpec::default());
    }
    if let [only] = &mut bearers[..]
        && only.modem.is_none()
    {
        only.modem.clone_from(&config.modem);
    }
    bearers.truncate(BearerId::COUNT);
    bearers
}

fn open_store(config: &NodeConfig) -> Result<Option<Store>, NodeError> {
    let Some(dir) = &config.state_dir else { return Ok(None) };
    match Store::open_in(dir, config.volatile_dir.as_deref(), &config.peer) {
        Ok(store) => Ok(Some(store)),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(NodeError::StateInUse(dir.clone(), error)),
        Err(error) => {
            tracing::warn!(%error, dir = %dir.display(), "no state is kept: no 0-RTT after a restart");
            Ok(None)
        }
    }
}

fn session_config(
    config: &NodeConfig,
    store: &mut Option<Store>,
    started: Instant,
    since_1970: Duration,
) -> Result<SessionConfig, NodeError> {
    let tickets: Arc<dyn TicketStore> = match store {
        Some(store) => Arc::new(store.tickets()),
        None => Arc::new(MemoryTickets::default()),
    };
    let quic = QuicConfig {
        bearer: BearerId::FIRST,
        identity: config.identity.clone(),
        peer: config.peer,
        mtu: config.mtu,
        tickets,
        resumption: None,
        listen: matches!(config.role, Role::Listen(_)),
    };
    let mut seed = [0; 32];
    let random = ring::rand::SystemRandom::new();
    ring::rand::SecureRandom::fill(&random, &mut seed).map_err(|_| NodeError::NoRandomness)?;
    let mut session = SessionConfig::new(config.side, quic, started, since_1970, seed);
    // The counter in front, so that it grows; random bits behind, so that two lives never share one even if nothing can be
    // stored and the clock stands still at boot.
    let count = store.as_ref().map_or_else(|| store::epoch_by_clock(since_1970), |store| store.next_epoch(since_1970));
    session.epoch = u64::from(count) << 16 | u64::from(u16::from_be_bytes([seed[30], seed[31]]));
    if let Some(store) = store {
        session.replay = store.load_replay();
    }
    if matches!(config.role, Role::Connect(_)) {
        let tickets = |bearer| store.as_ref().and_then(|store| store.load_resumption(bearer));
        let numbered = BearerId::all().zip(bearers(config));
        session.bearers = numbered.map(|(bearer, spec)| lane::described(&spec, tickets(bearer))).collect();
    } else {
        session.bearers.clear();
    }
    for (bearer, spec) in numbered_radios(config) {
        session.bearers.push(BearerConfig {
            name: spec.name(),
            usage: spec.usage,
            resumption: store.as_ref().and_then(|store| store.load_resumption(bearer)),
            radio: Some(spec.config(count.into())),
        });
    }
    session.reliability = config.reliability;
    session.replicated.clone_from(&config.replicated);
    session.heartbeat = config.heartbeat;
    session.stalled_after = config.stalled_after;
    session.lost_after = config.lost_after;
    session.control = config.control;
    session.congestion = config.congestion;
    session.encoder = config.encoder_range;
    session.policy = config.policy.clone();
    session.video = config.video_queues.clone();
    session.reassembly = config.reassembly.clone();
    session.video_parity = config.video_parity;
    Ok(session)
}

/// Radios and the numbers that the session gives them: from the last one down.
fn numbered_radios(config: &NodeConfig) -> impl Iterator<Item = (BearerId, &RadioSpec)> {
    BearerId::all().rev().zip(&config.radios)
}

/// The next news of a watch; for ever if nobody watches.
async fn from<T>(watch: &mut Option<mpsc::Receiver<T>>) -> T {
    if let Some(receiver) = watch {
        match receiver.recv().await {
            Some(news) => return news,
            None => *watch = None,
        }
    }
    std::future::pending().await
}

/// Waits until the gateway has something to send; for ever if there is none.
async fn wanted_by(gateway: &mut Option<SessionEnd>) {
    match gateway {
        Some(gateway) => gateway.wants().await,
        None => std::future::pending().await,
    }
}

/// What the store says; for ever if there is none.
async fn heard(files: &mut Option<Contact>) -> News {
    match files {
        Some(files) => files.heard().await,
        None => std::future::pending().await,
    }
}

/// An IPv4 peer seen by an IPv6 socket, as IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
