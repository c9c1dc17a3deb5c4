//! The applications: they send what the plan says, and note what arrives.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aquila_proto::Side;
use aquila_proto::mavlink::{Frame, Splitter};

use super::carrier::{MAVLINK, Target, Way};
use crate::frames;
use crate::live::{NodeId, World};
use crate::plan::{Plan, TrafficKind};
use crate::record::Flow;

/// Sockets are looked at for a stop this often.
const PATIENCE: Duration = Duration::from_millis(50);
/// After the end of the run what is under way may still arrive.
const LINGER: Duration = Duration::from_millis(500);
/// No datagram is larger.
const BUFFER: usize = 65_536;

/// A message by what is in its packets, and where it is noted.
type Key = (usize, Kind, u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Command,
    Parameter,
    Frame,
}

/// What all threads share.
#[derive(Debug, Default)]
struct Log {
    start: Option<Instant>,
    flows: Vec<Flow>,
    /// Flow and number of what was sent; packets of a frame that are missing.
    sent: BTreeMap<Key, (usize, u32, u32)>,
    counts: [[u32; 3]; 2],
}

type SharedLog = Arc<Mutex<Log>>;

/// The applications of both nodes, ready to start.
pub struct Apps {
    log: SharedLog,
    stop: Arc<AtomicBool>,
    senders: Vec<Sender>,
    receivers: Vec<JoinHandle<()>>,
}

/// What sends from a node.
struct Sender {
    node: usize,
    sources: Vec<Source>,
    commands: Output,
    video: Option<UdpSocket>,
    rtp_seq: u16,
}

#[derive(Debug, Clone, Copy)]
struct Source {
    flow: usize,
    kind: TrafficKind,
    at: Duration,
    until: Duration,
    count: u64,
}

/// Where a node's MAVLink goes.
enum Output {
    Datagrams(UdpSocket),
    /// To the node's peer that was heard last: it may have another address by now.
    Answers(UdpSocket, Arc<Mutex<Option<SocketAddr>>>),
    Stream(Arc<Mutex<Option<TcpStream>>>),
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Apps {
    /// Opens all sockets in their nodes and begins to listen.
    pub fn new(plan: &Plan, world: &World, nodes: [NodeId; 2], target: &Target, seed: u64) -> io::Result<Self> {
        let (log, stop) = (SharedLog::default(), Arc::new(AtomicBool::new(false)));
        let mut receivers = Vec::new();
        let mut senders = Vec::new();
        let mut streams: Vec<Output> = match target.way {
            Way::Datagrams => Vec::new(),
            Way::Stream(congestion) => connect(world, nodes, target, congestion, &log, &stop, &mut receivers)?,
        };
        for (node, id) in nodes.into_iter().enumerate() {
            let to = target.mavlink[node];
            let commands = match streams.is_empty() {
                false => streams.remove(0),
                true => {
                    let own = if to.ip().is_loopback() {
                        SocketAddr::from(([127, 0, 0, 1], 0))
                    } else {
                        SocketAddr::from(([0, 0, 0, 0], MAVLINK))
                    };
                    let socket = world.run_in(id, move || UdpSocket::bind(own))?;
                    socket.set_read_timeout(Some(PATIENCE))?;
                    let heard = Arc::new(Mutex::new(None));
                    let (listening, log, stop, from) = (socket.try_clone()?, log.clone(), stop.clone(), heard.clone());
                    receivers.push(std::thread::spawn(move || listen(node, &listening, &from, &log, &stop)));
                    match node == 1 && !to.ip().is_loopback() {
                        true => Output::Answers(socket, heard),
                        false => {
                            socket
                                .connect(to)
                                .or_else(|error| if to.ip().is_loopback() { Err(error) } else { Ok(()) })?;
                            Output::Datagrams(socket)
                        }
                    }
                }
            };
            let video = match node {
                0 => Some(world.run_in(id, || UdpSocket::bind("0.0.0.0:0"))?),
                _ => None,
            };
            if let Some(video) = &video {
                video.connect(target.video)?;
            }
            senders.push(Sender { node, sources: Vec::new(), commands, video, rtp_seq: 0 });
        }
        let viewer = target.viewer;
        let viewer = world.run_in(nodes[1], move || UdpSocket::bind(viewer))?;
        viewer.set_read_timeout(Some(PATIENCE))?;
        let (shared, stopped) = (log.clone(), stop.clone());
        receivers.push(std::thread::spawn(move || view(&viewer, &shared, &stopped)));
        let mut apps = Self { log, stop, senders, receivers };
        apps.add_sources(plan, seed);
        Ok(apps)
    }

    fn add_sources(&mut self, plan: &Plan, seed: u64) {
        let mut log = lock(&self.log);
        for traffic in plan.traffic() {
            for node in 0..2 {
                let from = traffic.from.get_ref();
                let Ok(kind) = traffic.kind() else { continue };
                if from != "both" && *from != plan.nodes[node] {
                    continue;
                }
                log.flows.push(Flow { name: traffic.name().to_owned(), direction: node, messages: Vec::new() });
                let until = traffic.until.map_or(plan.duration(), |until| until.get().min(plan.duration()));
                let flow = log.flows.len() - 1;
                self.senders[node].sources.push(Source {
                    flow,
                    kind,
                    at: traffic.at.get() + kind.phase(seed, flow + 1),
                    until,
                    count: 0,
                });
            }
        }
    }

    /// Sends from `start` on for as long as `lasts`; a command from each end at each of `returns`. Gives the flows.
    pub fn run(self, start: Instant, lasts: Duration, returns: &[Instant], interrupted: &AtomicBool) -> Vec<Flow> {
        lock(&self.log).start = Some(start);
        let senders: Vec<_> = self
            .senders
            .into_iter()
            .map(|sender| {
                let (log, stop, returns) = (self.log.clone(), self.stop.clone(), returns.to_vec());
                std::thread::spawn(move || sender.run(start, &returns, &log, &stop))
            })
            .collect();
        let end = start + lasts + LINGER;
        while Instant::now() < end && !interrupted.load(Ordering::Relaxed) {
            std::thread::sleep(PATIENCE.min(end.saturating_duration_since(Instant::now())));
        }
        self.stop.store(true, Ordering::Relaxed);
        for thread in senders.into_iter().chain(self.receivers) {
            let _ = thread.join();
        }
        std::mem::take(&mut lock(&self.log).flows)
    }
}

impl Sender {
    fn run(mut self, start: Instant, returns: &[Instant], log: &SharedLog, stop: &AtomicBool) {
        let mut returns = returns.iter().copied().peekable();
        while !stop.load(Ordering::Relaxed) {
            let next = self.sources.iter().filter_map(Source::next).min().map(|next| start + next);
            let Some(next) = next.into_iter().chain(returns.peek().copied()).min() else { break };
            let wait = next.saturating_duration_since(Instant::now());
            std::thread::sleep(wait.min(PATIENCE));
            if wait > PATIENCE {
                continue;
            }
            while returns.next_if(|at| *at <= Instant::now()).is_some() {
                let commands = self.sources.iter().find(|source| matches!(source.kind, TrafficKind::Commands(_)));
                if let Some(flow) = commands.map(|source| source.flow) {
                    self.send_command(flow, log);
                }
            }
            for index in 0..self.sources.len() {
                while self.sources[index].next().is_some_and(|next| start + next <= Instant::now()) {
                    self.emit(index, log);
                }
            }
        }
    }

    fn emit(&mut self, index: usize, log: &SharedLog) {
        let Source { flow, kind, .. } = self.sources[index];
        self.sources[index].count += 1;
        match kind {
            TrafficKind::Commands(_) => self.send_command(flow, log),
            TrafficKind::Parameters(_) => {
                let count = note(log, self.node, Kind::Parameter, flow, crate::run::PARAMETER_BYTES, 1);
                self.commands.send(&frames::param_value(self.side(), count as u16));
            }
            TrafficKind::Video(video) => {
                let frame = Duration::from_secs(1) / video.frames_per_second;
                let bytes = video.rate.bitrate().bytes_in(frame).as_usize().max(frames::RTP_MIN);
                let packet = video.packet.bytes();
                let count = note(log, self.node, Kind::Frame, flow, bytes, bytes.div_ceil(packet) as u32);
                let mut left = bytes;
                while left > 0 {
                    let len = left.min(packet).max(frames::RTP_MIN);
                    left = left.saturating_sub(len);
                    let rtp = frames::rtp(self.rtp_seq, count, len, left == 0);
                    self.rtp_seq = self.rtp_seq.wrapping_add(1);
                    if let Some(video) = &self.video {
                        let _ = video.send(&rtp);
                    }
                }
            }
            TrafficKind::Datagrams(datagrams) => {
                // One packet is a frame of one.
                let bytes = datagrams.packet.bytes().max(frames::RTP_MIN);
                let count = note(log, self.node, Kind::Frame, flow, bytes, 1);
                if let Some(video) = &self.video {
                    let _ = video.send(&frames::rtp(self.rtp_seq, count, bytes, true));
                    self.rtp_seq = self.rtp_seq.wrapping_add(1);
                }
            }
        }
    }

    fn send_command(&mut self, flow: usize, log: &SharedLog) {
        let count = note(log, self.node, Kind::Command, flow, crate::run::COMMAND_BYTES, 1);
        self.commands.send(&frames::command(self.side(), count));
    }

    fn side(&self) -> Side {
        if self.node == 0 { Side::Air } else { Side::Ground }
    }
}

impl Source {
    /// When it sends next, since the start.
    fn next(&self) -> Option<Duration> {
        let after = match self.kind {
            TrafficKind::Commands(every) | TrafficKind::Parameters(every) => {
                Duration::from_nanos((every.every.get().as_nanos() * u128::from(self.count)) as u64)
            }
            TrafficKind::Video(video) => Duration::from_nanos(
                (u128::from(self.count) * 1_000_000_000 / u128::from(video.frames_per_second)) as u64,
            ),
            TrafficKind::Datagrams(datagrams) => {
                let bits = u128::from(self.count) * datagrams.packet.bytes() as u128 * 8;
                Duration::from_nanos((bits * 1_000_000_000 / u128::from(datagrams.rate.bps())) as u64)
            }
        };
        Some(self.at + after).filter(|next| *next < self.until)
    }
}

impl Output {
    /// What the kernel does not take is lost, as for any application.
    fn send(&mut self, frame: &Frame) {
        match self {
            Self::Datagrams(socket) => drop(socket.send(frame.bytes())),
            Self::Answers(socket, heard) => {
                if let Some(to) = *lock(heard) {
                    let _ = socket.send_to(frame.bytes(), to);
                }
            }
            Self::Stream(stream) => {
                if let Some(stream) = lock(stream).as_mut() {
                    let _ = stream.write_all(frame.bytes());
                }
            }
        }
    }
}

/// Notes a message that is being sent; gives its number among those of its kind and node.
fn note(log: &SharedLog, node: usize, kind: Kind, flow: usize, bytes: usize, packets: u32) -> u32 {
    let mut log = lock(log);
    let at = log.start.map_or(Duration::ZERO, |start| start.elapsed());
    let count = &mut log.counts[node][kind as usize];
    let number = *count;
    *count += 1;
    let message = log.flows[flow].on_sent(at, bytes);
    let number = if kind == Kind::Parameter { number & 0xffff } else { number };
    log.sent.insert((node, kind, number), (flow, message, packets));
    number
}

/// Notes that a packet arrived at a node.
fn arrived(log: &SharedLog, node: usize, kind: Kind, number: u32) {
    let mut log = lock(log);
    let at = log.start.map_or(Duration::ZERO, |start| start.elapsed());
    let Some((flow, message, missing)) = log.sent.get_mut(&(1 - node, kind, number)) else { return };
    *missing = missing.saturating_sub(1);
    let (flow, message, whole) = (*flow, *message, *missing == 0);
    if whole {
        log.flows[flow].on_arrived(message, at);
    }
}

fn on_frame(log: &SharedLog, node: usize, frame: &Frame) {
    if let Some(number) = frames::command_index(frame) {
        arrived(log, node, Kind::Command, number);
    } else if let Some(number) = frames::param_index(frame) {
        arrived(log, node, Kind::Parameter, u32::from(number));
    }
}

fn listen(node: usize, socket: &UdpSocket, heard: &Mutex<Option<SocketAddr>>, log: &SharedLog, stop: &AtomicBool) {
    let mut buffer = vec![0; BUFFER];
    while !stop.load(Ordering::Relaxed) {
        let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
        *lock(heard) = Some(from);
        let mut rest = &buffer[..len];
        while let Ok((frame, len)) = Frame::parse(rest) {
            on_frame(log, node, &frame);
            rest = &rest[len..];
        }
    }
}

fn view(socket: &UdpSocket, log: &SharedLog, stop: &AtomicBool) {
    let mut buffer = vec![0; BUFFER];
    while !stop.load(Ordering::Relaxed) {
        let Ok(len) = socket.recv(&mut buffer) else { continue };
        if let Some(number) = frames::rtp_index(&buffer[..len]) {
            arrived(log, 1, Kind::Frame, number);
        }
    }
}

/// A TCP connection from the first node to the second, with a thread that reads at each end.
fn connect(
    world: &World,
    nodes: [NodeId; 2],
    target: &Target,
    congestion: &'static str,
    log: &SharedLog,
    stop: &Arc<AtomicBool>,
    receivers: &mut Vec<JoinHandle<()>>,
) -> io::Result<Vec<Output>> {
    let listener = world.run_in(nodes[1], || TcpListener::bind(("0.0.0.0", MAVLINK)))?;
    let to = target.mavlink[0];
    let near = world.run_in(nodes[0], move || TcpStream::connect_timeout(&to, Duration::from_secs(10)))?;
    let (far, _) = listener.accept()?;
    let mut outputs = Vec::new();
    for (node, stream) in [near, far].into_iter().enumerate() {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // A writer that blocks would stop all that the node sends.
        stream.set_write_timeout(Some(PATIENCE))?;
        socket2::SockRef::from(&stream).set_tcp_congestion(congestion.as_bytes())?;
        let (mut reading, log, stop) = (stream.try_clone()?, log.clone(), stop.clone());
        receivers.push(std::thread::spawn(move || {
            let (mut splitter, mut buffer) = (Splitter::new(), vec![0; BUFFER]);
            while !stop.load(Ordering::Relaxed) {
                match reading.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(len) => {
                        splitter.feed(&buffer[..len]);
                        while let Some(frame) = splitter.next_frame() {
                            on_frame(&log, node, &frame);
                        }
                    }
                    Err(_) => {}
                }
            }
        }));
        outputs.push(Output::Stream(Arc::new(Mutex::new(Some(stream)))));
    }
    Ok(outputs)
}
