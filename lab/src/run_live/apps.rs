//! The applications: they send what the plan says, and note what arrives. They are the same whatever carries it:
//! numbered MAVLink frames and RTP packets from a socket at one node, which come out of one at the other.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use super::aquila::{self, CAMERA, MAVLINK, VIEWER};
use super::camera::{Shooting, Wishes};
use super::copies::Copies;
use super::log::{Ask, Kind, Log};
use super::sender::{Mavlink, Sender as NodeSender, Source};
use super::sockets::{any, hear_mavlink, hear_numbered, open};
use super::stream::{self, Streams};
use super::tls::TlsEnd;
use super::{Topology, mptcp};
use crate::live::End;
use crate::plan::{ContenderKind, ContenderPlan, Plan, Reconnect, Time, TrafficKind};
use crate::record::Flow;

/// Datagrams that go beside the contender come here, at both nodes.
const BESIDE: u16 = 5_702;

/// The applications of both nodes.
#[derive(Debug)]
pub struct Apps {
    /// Whether the program under test carries what they send.
    is_ours: bool,
    log: Log,
    stop: Arc<AtomicBool>,
    waiting: Vec<NodeSender>,
    /// One for each node, when they are sending.
    asks: Vec<Sender<Ask>>,
    /// Whether each node has nothing to send any more.
    done: [Arc<AtomicBool>; 2],
    threads: Vec<JoinHandle<()>>,
    /// The connections of a contender that has some: one, or one over each link.
    streams: Vec<Streams>,
    /// What the link asks of the first node's camera.
    wishes: Arc<Wishes>,
    /// The first flow of video of the first node, if an encoder makes it.
    shooting: Option<Shooting>,
}

impl Apps {
    /// Opens all sockets in their nodes and begins to listen. A contender that is a connection is connected then. `films`: the first flow of
    /// video of the first node is left to [`Apps::take_shooting`].
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn new(
        plan: &Plan,
        contender: &ContenderPlan,
        topology: &Topology,
        seed: u64,
        folder: &Path,
        films: bool,
    ) -> io::Result<Self> {
        let world = &topology.world;
        let (log, stop) = (Log::default(), Arc::new(AtomicBool::new(false)));
        let wishes = Arc::new(Wishes::default());
        let streams = streams(contender, topology, &log)?;
        if contender.has_copies() {
            log.drop_copies();
        }
        let mut apps = Self {
            is_ours: contender.kind == ContenderKind::Aquila,
            log,
            stop,
            waiting: Vec::new(),
            asks: Vec::new(),
            done: Default::default(),
            threads: Vec::new(),
            streams,
            wishes: wishes.clone(),
            shooting: None,
        };
        for node in 0..2 {
            let mavlink = apps.mavlink(contender, topology, node)?;
            let video = match carries_video(contender.kind, node) {
                true => {
                    Some((open(world, topology.nodes[node], any(false))?, video_target(contender.kind, topology, node)))
                }
                false => None,
            };
            apps.hear(contender.kind, topology, node)?;
            let (log, wishes, done) = (apps.log.clone(), wishes.clone(), apps.done[node].clone());
            let sources = Vec::new();
            let (rtp_seq, heartbeat) = (0, None);
            let sender = NodeSender { node, sources, mavlink, video, wishes, rtp_seq, log, heartbeat, done };
            apps.waiting.push(sender);
        }
        apps.add_sources(plan, contender, topology, seed, films)?;
        if contender.kind == ContenderKind::Aquila && plan.has_camera_that_follows() {
            apps.threads.push(aquila::follow(world, topology.nodes[0], folder, wishes, apps.stop.clone())?);
        }
        Ok(apps)
    }

    /// Where a node's MAVLink goes, and who listens for that of the other.
    fn mavlink(&mut self, contender: &ContenderPlan, topology: &Topology, node: usize) -> io::Result<Mavlink> {
        let kind = contender.kind;
        if kind == ContenderKind::Programs {
            return Ok(Mavlink::Nowhere);
        }
        if !self.streams.is_empty() {
            return Ok(Mavlink::Streams(self.streams.iter().map(|streams| streams.outlets[node].clone()).collect(), 0));
        }
        let is_ours = kind == ContenderKind::Aquila;
        let own = if is_ours { any(true) } else { SocketAddr::from((Ipv4Addr::UNSPECIFIED, MAVLINK)) };
        let socket = open(&topology.world, topology.nodes[node], own)?;
        let who = (&topology.world, topology.nodes[node], node);
        let (log, stop) = (self.log.clone(), self.stop.clone());
        if contender.has_copies() {
            let links = if contender.duplicate { topology.links.len() } else { 1 };
            let targets = (0..links).map(|link| topology.address(link, 1 - node, MAVLINK)).collect();
            let copies = Copies::new(socket, targets, contender.copies, contender.retry.map(Time::get));
            self.threads.extend(copies.start(who, log, &stop)?);
            return Ok(Mavlink::Copies(copies));
        }
        // Until it is heard the other node is where it was at the start.
        let heard = Arc::new(Mutex::new((!is_ours).then(|| topology.address(0, 1 - node, MAVLINK))));
        let thread = hear_mavlink(who, socket.try_clone()?, heard.clone(), log, stop).map_err(io::Error::other)?;
        self.threads.push(thread);
        Ok(match (is_ours, node) {
            (true, _) => Mavlink::Datagrams(socket, local(MAVLINK)),
            (false, 0) => Mavlink::Datagrams(socket, topology.address(0, 1, MAVLINK)),
            (false, _) => Mavlink::Answers(socket, heard),
        })
    }

    /// Who listens for video and datagrams at a node.
    fn hear(&mut self, kind: ContenderKind, topology: &Topology, node: usize) -> io::Result<()> {
        let who = (&topology.world, topology.nodes[node], node);
        let everywhere = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let is_ours = kind == ContenderKind::Aquila;
        let viewer = if is_ours { local(VIEWER) } else { everywhere(VIEWER) };
        for (kind, at) in [(Kind::Frame, viewer), (Kind::Datagram, everywhere(BESIDE))] {
            let socket = open(who.0, who.1, at)?;
            let thread = hear_numbered(who, kind, socket, self.log.clone(), self.stop.clone());
            self.threads.push(thread.map_err(io::Error::other)?);
        }
        Ok(())
    }

    fn add_sources(
        &mut self,
        plan: &Plan,
        contender: &ContenderPlan,
        topology: &Topology,
        seed: u64,
        films: bool,
    ) -> io::Result<()> {
        for traffic in plan.traffic() {
            for node in 0..2 {
                let from = traffic.from.get_ref();
                let Ok(kind) = traffic.kind() else { continue };
                if from != "both" && *from != plan.nodes[node] {
                    continue;
                }
                let flow = self.log.add_flow(traffic.name(), node);
                let data = traffic.data().map(|(name, bytes)| (self.log.add_flow(&name, node), bytes));
                let until = traffic.until.map_or(plan.duration(), |until| until.get().min(plan.duration()));
                let link = traffic.link.as_ref().and_then(|link| plan.link_number(link.get_ref())).unwrap_or(0);
                let datagrams = match kind {
                    TrafficKind::Datagrams(_) => {
                        let socket = open(&topology.world, topology.nodes[node], any(false))?;
                        Some((socket, topology.address(link, 1 - node, BESIDE)))
                    }
                    _ => None,
                };
                if let (TrafficKind::Video(video), 0, true, None) = (kind, node, films, &self.shooting) {
                    self.shooting = Some(Shooting {
                        flow,
                        video,
                        at: traffic.at.get(),
                        until,
                        socket: open(&topology.world, topology.nodes[0], any(false))?,
                        to: video_target(contender.kind, topology, 0),
                        wishes: self.wishes.clone(),
                        log: self.log.clone(),
                        propagation: plan.links[0].get_ref().paths()[0].delay.get(),
                    });
                    continue;
                }
                let at = traffic.at.get() + kind.phase(seed, flow + 1);
                let awaits = kind.closed_loop(at, contender.give_up.map(Time::get));
                self.waiting[node].sources.push(Source { flow, kind, datagrams, at, until, count: 0, data, awaits });
            }
        }
        Ok(())
    }

    /// The flow of video that is left to an encoder.
    pub fn take_shooting(&mut self) -> Option<Shooting> {
        self.shooting.take()
    }

    /// Sends from `start` on.
    ///
    /// # Errors
    /// If the kernel allows no more threads.
    pub fn start(&mut self, topology: &Topology, start: Instant) -> io::Result<()> {
        self.log.start(start);
        for mut sender in self.waiting.drain(..) {
            let speaks = |source: &Source| matches!(source.kind, TrafficKind::Commands(_) | TrafficKind::Parameters(_));
            if self.is_ours && !sender.sources.iter().any(speaks) {
                sender.heartbeat = Some(start);
            }
            let (ask, asked) = channel();
            for source in sender.sources.iter().filter(|source| source.awaits.is_some()) {
                self.log.listen(source.flow, ask.clone());
            }
            self.asks.push(ask);
            let (id, stop) = (topology.nodes[sender.node], self.stop.clone());
            let thread = topology.world.thread_in(id, "send", move || sender.run(start, &asked, &stop));
            self.threads.push(thread.map_err(io::Error::other)?);
        }
        Ok(())
    }

    /// Each end sends a command now, beside the interval.
    pub fn send_commands(&self) {
        for ask in &self.asks {
            // Who has ended sends nothing any more.
            let _ = ask.send(Ask::Command);
        }
    }

    /// Of each node, whether it has nothing to send any more: all it had were closed loops that have come to their end.
    pub fn done(&self) -> [Arc<AtomicBool>; 2] {
        self.done.clone()
    }

    /// The first node connects anew, and the second is told or is not, if there is a connection.
    pub fn reconnect(&self, both: bool) {
        self.streams.iter().for_each(|streams| streams.anew(both));
    }

    /// How it stands, for who looks on.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Stops everything; gives what was sent and what arrived.
    pub fn finish(mut self) -> Vec<Flow> {
        self.halt();
        self.log.take()
    }

    fn halt(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.streams.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Apps {
    fn drop(&mut self) {
        self.halt();
    }
}

/// The connection of a contender that is one, or its connections over all links.
fn streams(contender: &ContenderPlan, topology: &Topology, log: &Log) -> io::Result<Vec<Streams>> {
    let kind = |is_multipath, congestion| stream::Kind { is_multipath, congestion };
    let kind = match contender.kind {
        ContenderKind::Tcp | ContenderKind::Tls => kind(false, Some("cubic")),
        ContenderKind::TcpReno => kind(false, Some("reno")),
        ContenderKind::TcpBbr => kind(false, Some("bbr")),
        ContenderKind::Mptcp => kind(true, Some("cubic")),
        ContenderKind::MptcpBbr => kind(true, Some("bbr")),
        ContenderKind::Aquila | ContenderKind::Udp | ContenderKind::Programs => return Ok(Vec::new()),
    };
    if kind.is_multipath {
        mptcp::allow(&topology.world, topology.nodes, &topology.links)?;
    }
    let resumes = contender.reconnect == Reconnect::Resume;
    let links = if contender.duplicate { topology.links.len() } else { 1 };
    let over = |link: usize| {
        let tls = (contender.kind == ContenderKind::Tls).then(|| TlsEnd::pair(resumes)).transpose()?;
        // A port for each, since a listener has all addresses.
        let to = topology.address(link, 1, MAVLINK + link as u16);
        Streams::open(&topology.world, topology.nodes, to, kind, tls, log)
    };
    (0..links).map(over).collect()
}

fn carries_video(kind: ContenderKind, node: usize) -> bool {
    match kind {
        ContenderKind::Programs => false,
        ContenderKind::Aquila => node == 0,
        _ => true,
    }
}

fn video_target(kind: ContenderKind, topology: &Topology, node: usize) -> SocketAddr {
    match kind {
        ContenderKind::Aquila => local(CAMERA),
        _ => topology.address(0, 1 - node, VIEWER),
    }
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

impl Topology {
    /// A port at a node's end of a link, at the address it has now.
    fn address(&self, link: usize, node: usize, port: u16) -> SocketAddr {
        let end = if node == 0 { End::A } else { End::B };
        SocketAddr::new(IpAddr::V4(self.world.addresses(self.links[link], end).v4), port)
    }
}

impl Plan {
    /// Whether there is a camera that does what the link asks of it.
    fn has_camera_that_follows(&self) -> bool {
        self.traffic().iter().any(|traffic| matches!(traffic.kind(), Ok(TrafficKind::Video(video)) if video.follow))
    }
}
