//! `aquila gateway`: sockets and files around [`aquila_proto::gateway`].

mod files;
mod former;
mod intercept;
mod line;
mod outq;
mod passage;
mod rules;
mod setup;
mod status;
mod tcp;
mod tun;
mod udp;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use aquila_proto::aerotp::{RadioConfig, SecurityConfig, TransferMode};
use aquila_proto::gateway::{
    Action, Client, Ending, FlowId, Gateway, Intercept, Reason, Target, TcpMode, TunConfig, is_within,
};
use aquila_proto::seeded::SeededBytes;
use bytes::Bytes;
use ring::rand::SecureRandom;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

pub use files::{Files, SYNC_EVERY};
pub use intercept::{InterceptSpec, TunSpec};
pub use passage::{GatewayEnd, SessionEnd, passage};
pub use rules::{Allow, Forward, ParseRuleError, Protocol, Rule, Treatment};
pub use setup::{GatewayError, GatewaySetup, Way};
pub use status::{GatewayFlow, GatewayRadio, GatewaySnapshot, GatewayTun};
pub use tun::TunError;

use crate::radio::{LineInput, LineNews, LineSpec, RadioSpec};
use crate::status::StatusServer;
use crate::store::{self, Store};
use former::Formers;
use line::Line;
use tcp::{App, TcpEvent};
use tun::Tun;
use udp::{UdpEvent, UdpSockets};

/// A gateway that runs.
#[derive(Debug)]
pub struct GatewayNode {
    setup: GatewaySetup,
    gateway: Gateway<Files>,
    line: Line,
    from_line: mpsc::Receiver<LineNews>,
    apps: BTreeMap<FlowId, App>,
    dials: BTreeMap<FlowId, Dial>,
    events: mpsc::Receiver<Event>,
    to_events: mpsc::Sender<Event>,
    tcp_events: mpsc::Receiver<(FlowId, TcpEvent)>,
    to_tcp_events: mpsc::Sender<(FlowId, TcpEvent)>,
    udp: UdpSockets,
    udp_events: mpsc::Receiver<UdpEvent>,
    tun: Option<Tun>,
    packets: mpsc::Receiver<Vec<u8>>,
    formers: Formers,
    started: Instant,
    status: Option<StatusServer>,
    published: watch::Sender<GatewaySnapshot>,
    listeners: Vec<JoinHandle<()>>,
    addresses: Vec<SocketAddr>,
    accepted: PathBuf,
    /// It was said that nobody answers.
    told_alone: bool,
    deadline: Instant,
    packet: Vec<u8>,
    _store: Store,
}

/// A target that is being connected to, and what is to be written to it then: as much as the other side may send ahead.
#[derive(Debug)]
struct Dial {
    task: JoinHandle<()>,
    early: Vec<Bytes>,
    finish: bool,
}

#[derive(Debug)]
enum Event {
    Accepted(usize, TcpStream),
    Dialled(FlowId, Result<TcpStream, Reason>),
}

/// How often the status page is given something new.
const PUBLISH: Duration = Duration::from_millis(250);
/// Packets of the TUN device that are taken before anything is answered.
const BURST: usize = 64;
/// Nobody was heard although a connection has waited for so many seconds: that is said.
const ALONE: f64 = 10.0;
/// While the line takes nothing, times are looked at this often at most.
const HELD_BACK: Duration = Duration::from_millis(20);
/// Events that wait.
const EVENTS: usize = 256;
/// The gateway's folder in the state folder.
const FOLDER: &str = "gateway";

impl GatewayNode {
    /// Opens everything. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If an address or the folder cannot be used.
    pub async fn start(setup: GatewaySetup, way: Way) -> Result<Self, GatewayError> {
        let now = Instant::now();
        let root = setup.state_dir.join(FOLDER);
        let failed = |error| GatewayError::State(root.clone(), error);
        let store = Store::open(&root, &setup.peer).map_err(failed)?;
        let dir = root.join(setup.peer.fingerprint());
        let files = Files::open(&dir.join("custody")).map_err(failed)?;
        let accepted = dir.join("accepted");
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let life = u64::from(store.next_epoch(since_1970));
        let mut seed = [0; 32];
        ring::rand::SystemRandom::new().fill(&mut seed).map_err(|_| GatewayError::Random)?;
        let security = SecurityConfig {
            identity: Arc::clone(&setup.identity),
            peer: setup.peer,
            initiates: setup.initiates,
            life,
            accepted: std::fs::read_to_string(&accepted).ok().and_then(|text| text.trim().parse().ok()),
        };
        let random = SeededBytes::new(&seed, "gateway");
        let radio = match &way {
            Way::Radio(spec) => spec.config(life),
            Way::Session(_) => RadioConfig { life, ..RadioConfig::parcels() },
        };
        let mut gateway = Gateway::new(now, setup.limits, &radio, security, random, files)?;
        let kept = gateway.stats(now).custody;
        if kept.0 > 0 {
            tracing::info!(bytes = kept.0, "in custody since before this start");
        }
        let (to_events, events) = mpsc::channel(EVENTS);
        let (to_tcp_events, tcp_events) = mpsc::channel(EVENTS);
        let (to_udp_events, udp_events) = mpsc::channel(EVENTS);
        let (published, snapshots) = watch::channel(GatewaySnapshot::default());
        let status = setup.status.map(|(address, exposure)| StatusServer::spawn(address, exposure, snapshots));
        let (to_packets, packets) = mpsc::channel(EVENTS);
        let (formers, former) = Formers::open(&dir.join("passed-through"));
        let tun = open_tun(&setup, &way, to_packets).await?.map(|(tun, config)| {
            gateway.set_tun(config, former);
            tun
        });
        let (line, from_line) = Line::open(way);
        let mut node = Self {
            gateway,
            line,
            from_line,
            apps: BTreeMap::new(),
            dials: BTreeMap::new(),
            events,
            to_events,
            tcp_events,
            to_tcp_events,
            udp: UdpSockets::new(to_udp_events),
            udp_events,
            tun,
            packets,
            formers,
            started: now,
            status: status.transpose()?,
            published,
            listeners: Vec::new(),
            addresses: Vec::new(),
            accepted,
            told_alone: false,
            deadline: now,
            packet: Vec::new(),
            _store: store,
            setup,
        };
        for index in 0..node.setup.forwards.len() {
            node.listen(index).await?;
        }
        Ok(node)
    }

    async fn listen(&mut self, index: usize) -> Result<(), GatewayError> {
        let forward = self.setup.forwards[index].clone();
        let failed = |error| GatewayError::Listen(Box::new(forward.clone()), error);
        let local = match forward.protocol {
            Protocol::Tcp => {
                let listener = TcpListener::bind(forward.listen).await.map_err(failed)?;
                let local = listener.local_addr().map_err(failed)?;
                self.listeners.push(tokio::spawn(accept(index, listener, self.to_events.clone())));
                local
            }
            Protocol::Udp => self.udp.listen(index as u16, forward.listen).await.map_err(failed)?,
        };
        self.addresses.push(local);
        Ok(())
    }

    /// Where the forwards are listened for, in their order.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// How it fares, four times a second.
    pub fn snapshots(&self) -> watch::Receiver<GatewaySnapshot> {
        self.published.subscribe()
    }

    /// Where the status page is.
    pub fn status_addr(&self) -> Option<SocketAddr> {
        self.status.as_ref().map(StatusServer::local_addr)
    }

    /// Runs until `shutdown` completes, and says how the flows fare when `asked` gives something. What is in custody at the end
    /// stays there for the next start.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>, mut asked: mpsc::Receiver<()>) {
        let mut shutdown = std::pin::pin!(shutdown);
        let mut report = self.setup.report.map(|every| Instant::now() + every);
        self.drain(Instant::now());
        let mut publish = tokio::time::interval(PUBLISH);
        publish.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let next = report.map_or(self.deadline, |at| at.min(self.deadline));
            tokio::select! {
                () = &mut shutdown => break,
                Some(event) = self.events.recv() => self.on_event(event),
                Some((flow, event)) = self.tcp_events.recv() => self.on_tcp(flow, event),
                Some(event) = self.udp_events.recv() => self.on_udp(event),
                Some(packet) = self.packets.recv() => self.on_packets(packet),
                Some(news) = self.from_line.recv() => self.on_line(news),
                () = self.line.room() => {}
                _ = publish.tick() => self.publish(),
                Some(()) = asked.recv() => self.report(Instant::now()),
                () = tokio::time::sleep_until(next.into()) => {}
            }
            let now = Instant::now();
            if report.is_some_and(|at| at <= now) {
                self.report(now);
                report = self.setup.report.map(|every| now + every);
            }
            if self.deadline <= now {
                self.gateway.handle_timeout(now);
            }
            self.drain(now);
        }
        self.report(Instant::now());
        self.gateway.end_passed_through(Instant::now());
        self.drain(Instant::now());
    }

    fn on_packets(&mut self, first: Vec<u8>) {
        let now = Instant::now();
        self.gateway.handle_packet(now, &first);
        for _ in 0..BURST {
            let Ok(packet) = self.packets.try_recv() else { break };
            self.gateway.handle_packet(now, &packet);
        }
    }

    /// Does what the gateway says, until it says to wait.
    fn drain(&mut self, now: Instant) {
        self.store_accepted();
        while let Some(action) = self.gateway.poll_action() {
            self.act(now, action);
        }
        let mut packet = std::mem::take(&mut self.packet);
        while self.line.has_room() && self.gateway.poll_transmit(now, &mut packet) {
            self.line.send(&packet);
        }
        self.packet = packet;
        while let Some(packet) = self.gateway.poll_packet() {
            self.tun.iter_mut().for_each(|tun| tun.send(&packet));
        }
        while let Some(action) = self.gateway.poll_action() {
            self.act(now, action);
        }
        self.formers.keep(self.gateway.formers());
        self.deadline = self.gateway.poll_timeout(now).unwrap_or(now + Duration::from_secs(3600));
        if !self.line.has_room() {
            // What is due cannot leave: there is no hurry.
            self.deadline = self.deadline.max(now + HELD_BACK);
        }
    }

    /// A handshake that was taken must not be taken again after a restart: that is stored before anything is made of it.
    fn store_accepted(&mut self) {
        if let Some(accepted) = self.gateway.snapshot()
            && let Err(error) = store::write_whole(&self.accepted, accepted.to_string().as_bytes())
        {
            tracing::warn!(%error, "cannot store which handshake was taken: after a restart it might be taken again");
        }
    }

    fn act(&mut self, now: Instant, action: Action) {
        match action {
            Action::Dial { flow, target } => self.dial(flow, target),
            Action::Admit { flow, target } => self.admit(now, flow, target),
            Action::Intercepted { flow, from, target } => {
                tracing::info!(%flow, %from, %target, mode = "reliable", "flow begins");
            }
            Action::Write { flow, bytes } => match (self.apps.get(&flow), self.dials.get_mut(&flow)) {
                (Some(app), _) => app.write(bytes),
                (None, Some(dial)) => dial.early.push(bytes),
                (None, None) => {}
            },
            Action::Finish { flow } => match (self.apps.get(&flow), self.dials.get_mut(&flow)) {
                (Some(app), _) => app.finish(),
                (None, Some(dial)) => dial.finish = true,
                (None, None) => {}
            },
            Action::Room { flow } => self.apps.get(&flow).into_iter().for_each(|app| app.answer(false)),
            Action::Ended(ending) => self.on_ended(&ending),
            Action::Datagram { peer, bytes } => {
                let allowed = self.setup.allow.iter().any(|allow| allow.allows(Protocol::Udp, peer.to));
                self.udp.send(peer, &bytes, allowed);
            }
            Action::Answer { client, bytes } => self.udp.answer(client, &bytes),
            Action::Forget { peer } => self.udp.forget(peer),
        }
    }

    /// Whether a connection may be passed through to a target.
    fn admit(&mut self, now: Instant, flow: FlowId, target: SocketAddr) {
        let ip = target.ip().to_canonical();
        let reaches = !ip.is_loopback() || (ip.is_ipv4() && self.tun.as_ref().is_some_and(|tun| tun.reaches_loopback));
        let result = match () {
            () if !self.setup.allow.iter().any(|allow| allow.allows(Protocol::Tcp, target)) => {
                tracing::warn!(%flow, %target, "the far side wants what is not allowed here: see --allow");
                Err(Reason::NotAllowed)
            }
            () if !reaches => {
                tracing::warn!(%flow, %target, "packets cannot reach this loopback address: name another one of this machine");
                Err(Reason::Unreachable)
            }
            () => {
                tracing::info!(%flow, %target, mode = "reliable", "flow begins, opened by the far side");
                Ok(())
            }
        };
        self.gateway.on_admitted(now, flow, result);
    }

    fn dial(&mut self, flow: FlowId, target: Target) {
        let (events, allow) = (self.to_events.clone(), self.setup.allow.clone());
        let task = tokio::spawn(async move {
            let result = tcp::dial(target, &allow).await;
            if matches!(result, Err(Reason::NotAllowed)) {
                tracing::warn!(%flow, %target, "the far side wants what is not allowed here: see --allow");
            }
            let _ = events.send(Event::Dialled(flow, result)).await;
        });
        self.dials.insert(flow, Dial { task, early: Vec::new(), finish: false });
    }

    fn on_event(&mut self, event: Event) {
        let now = Instant::now();
        match event {
            Event::Accepted(index, stream) => self.on_accepted(now, index, stream),
            Event::Dialled(flow, result) => {
                // It may have ended meanwhile.
                let Some(dial) = self.dials.remove(&flow) else { return self.drain(now) };
                let result = result.map(|stream| {
                    let app = App::spawn(flow, stream, self.to_tcp_events.clone());
                    dial.early.into_iter().for_each(|bytes| app.write(bytes));
                    if dial.finish {
                        app.finish();
                    }
                    self.apps.insert(flow, app);
                });
                self.gateway.on_dialled(now, flow, result);
            }
        }
    }

    fn on_accepted(&mut self, now: Instant, index: usize, stream: TcpStream) {
        let forward = &self.setup.forwards[index];
        let treatment = forward.treatment(&self.setup.rules);
        let mode = match treatment.mode {
            TransferMode::QuasiReliable => {
                TcpMode::QuasiReliable { deadline: treatment.deadline, fill: treatment.fill }
            }
            _ => TcpMode::NearReliable,
        };
        match self.gateway.open(now, forward.target, mode) {
            Ok(flow) => {
                let from = stream.peer_addr().ok();
                tracing::info!(%flow, ?from, target = %forward.target, mode = %treatment, "flow begins");
                self.apps.insert(flow, App::spawn(flow, stream, self.to_tcp_events.clone()));
            }
            Err(reason) => {
                tracing::warn!(target = %forward.target, %reason, "a connection is refused");
                let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
            }
        }
    }

    fn on_tcp(&mut self, flow: FlowId, event: TcpEvent) {
        let now = Instant::now();
        match event {
            TcpEvent::Bytes { bytes, drained } => {
                // If not, the gateway says when there is room.
                if self.gateway.on_app_bytes(now, flow, &bytes, drained) {
                    self.apps.get(&flow).into_iter().for_each(|app| app.answer(true));
                }
            }
            TcpEvent::Fin => {
                if self.gateway.on_app_fin(now, flow) {
                    self.apps.get(&flow).into_iter().for_each(|app| app.answer(true));
                }
            }
            TcpEvent::Taken { bytes, fin } => self.gateway.on_taken(now, flow, bytes, fin),
            TcpEvent::Reset => self.gateway.on_app_reset(now, flow),
        }
    }

    fn on_udp(&mut self, event: UdpEvent) {
        let now = Instant::now();
        match event {
            UdpEvent::FromClient { listener, address, bytes } => {
                let forward = &self.setup.forwards[usize::from(listener)];
                let Target::Address(to) = forward.target else { return };
                let ordered = forward.treatment(&self.setup.rules).mode == TransferMode::UnreliableConnection;
                self.gateway.send_datagram(now, Client { listener, address }, to, ordered, &bytes);
            }
            UdpEvent::FromTarget { peer, bytes } => self.gateway.send_answer(now, peer, &bytes),
        }
    }

    fn on_line(&mut self, news: LineNews) {
        let now = Instant::now();
        match news.what {
            LineInput::Opened => {
                tracing::info!(way = self.line.name(), "the way to the far gateway is open");
                self.gateway.begin(now);
            }
            LineInput::Bytes(bytes) => self.gateway.handle_bytes(now, &bytes),
            LineInput::Gone(why) => tracing::warn!(why, "radio's line is not there; trying again"),
        }
    }

    fn on_ended(&mut self, ending: &Ending) {
        let flow = ending.status.flow;
        if let Some(dial) = self.dials.remove(&flow) {
            dial.task.abort();
        }
        let app = self.apps.remove(&flow);
        let (sent, received, target) = (ending.status.sent.0, ending.status.received.0, ending.status.target);
        match ending.reason {
            None => tracing::info!(%flow, %target, sent, received, skipped = ending.status.skipped.0, "flow ended"),
            Some(reason) => {
                app.into_iter().for_each(App::reset);
                let undelivered = ending.undelivered.0;
                match undelivered {
                    0 => tracing::info!(%flow, %target, sent, received, %reason, "flow reset"),
                    _ => tracing::warn!(
                        %flow, %target, sent, received, undelivered, %reason,
                        "flow reset: its last bytes were confirmed here, and are not known to have been delivered",
                    ),
                }
            }
        }
    }

    fn publish(&mut self) {
        let beside = status::Beside {
            started: self.started,
            peer: &self.setup.peer.fingerprint(),
            radio: self.line.name(),
            refused: self.line.refused(),
            not_written: self.tun.as_ref().map(|tun| tun.refused),
        };
        let snapshot = GatewaySnapshot::take(Instant::now(), &self.gateway, &beside);
        let is_alone = snapshot.radio.silence_ms.is_none() && !snapshot.flows.is_empty();
        if is_alone
            && snapshot.flows.iter().any(|flow| flow.age_s > ALONE)
            && !std::mem::replace(&mut self.told_alone, true)
        {
            tracing::warn!("connections wait, and no gateway was heard at the far side yet: is one configured there?");
        }
        self.published.send_replace(snapshot);
    }

    fn report(&self, now: Instant) {
        let stats = self.gateway.stats(now);
        tracing::info!(
            custody = stats.custody.0,
            ended = stats.ended,
            undelivered = stats.undelivered.0,
            udp = stats.udp,
            rtt = ?stats.rtt,
            silent = ?stats.silent,
            segments_out = stats.radio.segments_out,
            sent_again = stats.radio.sent_again,
            refused = self.line.refused(),
            "gateway"
        );
        if let Some(tun) = &self.tun {
            let packets = self.gateway.packets();
            tracing::info!(
                taken = packets.taken,
                refused = packets.refused,
                fragments = packets.fragments,
                other = packets.other,
                malformed = packets.malformed,
                not_written = tun.refused,
                "packets of the TUN device"
            );
        }
        for flow in self.gateway.flows(now) {
            tracing::info!(
                flow = %flow.flow,
                target = %flow.target,
                mode = flow.mode,
                state = flow.state.name(),
                age = ?flow.age,
                sent = flow.sent.0,
                acknowledged = flow.acknowledged.0,
                custody = flow.custody.0,
                received = flow.received.0,
                taken = flow.taken.0,
                skipped = flow.skipped.0,
                "flow"
            );
        }
    }
}

impl Drop for GatewayNode {
    fn drop(&mut self) {
        let dials = self.dials.values().map(|dial| &dial.task);
        self.listeners.iter().chain(dials).for_each(JoinHandle::abort);
    }
}

/// The device, if it is wanted.
async fn open_tun(
    setup: &GatewaySetup,
    way: &Way,
    packets: mpsc::Sender<Vec<u8>>,
) -> Result<Option<(Tun, TunConfig)>, GatewayError> {
    let spec = match &setup.tun {
        Some(spec) => spec.clone(),
        None if setup.intercepts.is_empty() => return Ok(None),
        None => TunSpec::default(),
    };
    if let Way::Radio(RadioSpec { line: LineSpec::Udp { remote, .. }, .. }) = *way {
        let takes = |one: &&InterceptSpec| is_within(one.0.network, one.0.bits, remote.ip());
        if let Some(one) = setup.intercepts.iter().find(takes) {
            return Err(GatewayError::Circle(one.clone(), remote));
        }
    }
    let intercepts: Vec<Intercept> = setup.intercepts.iter().map(|one| one.0.clone()).collect();
    Ok(Some(Tun::open(&spec, &intercepts, packets).await?))
}

async fn accept(index: usize, listener: TcpListener, events: mpsc::Sender<Event>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if events.send(Event::Accepted(index, stream)).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                // As when there are no more descriptors.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}
