//! UDP: listening, and sending to one address.
//!
//! One frame goes into one datagram, as autopilots send them. Frames are handed out no faster than a receiver can take
//! them: a socket's buffer holds some 280 small datagrams by default, and a parameter set is 1,348 of them at once.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aquila_proto::mavlink::{Frame, Splitter};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{UdpSocket, lookup_host};
use tokio::sync::mpsc::error::{SendTimeoutError, TrySendError};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::outgoing::{self, Backlog, Outgoing};
use super::status::{Count, Meter};
use super::{Door, Endpoint, EndpointEvent, EndpointState, HostPort, MAX_PEERS, StateLog, Stopped, UDP_PATIENCE};

/// A socket to listen on; `[::]` takes IPv4 as well.
pub(super) async fn bind(at: &HostPort) -> io::Result<UdpSocket> {
    let address = resolve(at).await?;
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    widen(SockRef::from(&socket));
    UdpSocket::from_std(socket.into())
}

/// Serves everybody who is heard, each an endpoint of its own.
pub(super) async fn listen(door: Door, socket: UdpSocket) {
    let (outgoing, mut backlog) = outgoing::queue();
    let mut listener = Listener { door: &door, socket: &socket, outgoing, peers: BTreeMap::new() };
    let live = AtomicU32::new(0);
    let mut log = StateLog::new(&door.spec.to_string().into());
    let both = async {
        tokio::select! {
            _ = listener.run(&live) => {}
            () = write(&socket, &mut backlog, &live, None, &mut log) => {}
        }
    };
    door.until_stopped(both).await;
}

struct Listener<'a> {
    door: &'a Door,
    socket: &'a UdpSocket,
    outgoing: Outgoing,
    peers: BTreeMap<SocketAddr, Peer>,
}

struct Peer {
    endpoint: Endpoint,
    splitter: Splitter,
    heard: Instant,
}

impl Listener<'_> {
    async fn run(&mut self, live: &AtomicU32) -> Result<(), Stopped> {
        let mut datagram = vec![0; MAX_DATAGRAM];
        let mut tick = interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                received = self.socket.recv_from(&mut datagram) => match received {
                    Ok((n, from)) => self.handle(from, &datagram[..n]).await?,
                    // About something sent earlier, or the network is down for the moment.
                    Err(_) => sleep(ERROR_PAUSE).await,
                },
                now = tick.tick() => self.forget_silent(now, IDLE).await?,
            }
            live.store(self.peers.len() as u32, Ordering::Relaxed);
        }
    }

    async fn handle(&mut self, from: SocketAddr, datagram: &[u8]) -> Result<(), Stopped> {
        if !self.peers.contains_key(&from) && !self.welcome(from, datagram).await? {
            self.door.meter.add(Count::BytesIn, datagram.len() as u64);
            self.door.meter.add(Count::Refused, 1);
            return Ok(());
        }
        let Some(peer) = self.peers.get_mut(&from) else { return Ok(()) };
        if take(self.door, &peer.endpoint, &mut peer.splitter, datagram).await? {
            peer.heard = Instant::now();
        }
        Ok(())
    }

    /// Makes a peer of somebody new who brings a frame, if there is room.
    async fn welcome(&mut self, from: SocketAddr, datagram: &[u8]) -> Result<bool, Stopped> {
        let mut probe = Splitter::new();
        probe.feed_datagram(datagram);
        if probe.next_frame().is_none() {
            return Ok(false);
        }
        if self.peers.len() >= MAX_PEERS {
            self.forget_silent(Instant::now(), IDLE_IF_FULL).await?;
        }
        if self.peers.len() >= MAX_PEERS {
            return Ok(false);
        }
        let endpoint = self.door.peer(from, self.outgoing.clone(), Some(from));
        // Without room for the news there is none for the frames either: the peer is welcome with its next datagram.
        match self.door.events.try_send(EndpointEvent::Added(endpoint.clone())) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Ok(false),
            Err(TrySendError::Closed(_)) => return Err(Stopped),
        }
        tracing::info!(endpoint = %endpoint.label, "heard");
        self.peers.insert(from, Peer { endpoint, splitter: Splitter::new(), heard: Instant::now() });
        Ok(true)
    }

    async fn forget_silent(&mut self, now: Instant, idle: Duration) -> Result<(), Stopped> {
        let silent = |peer: &Peer| now.saturating_duration_since(peer.heard) >= idle;
        let gone: Vec<_> = self.peers.iter().filter(|(_, peer)| silent(peer)).map(|(&from, _)| from).collect();
        for from in gone {
            let Some(peer) = self.peers.remove(&from) else { continue };
            peer.endpoint.share.meter.set_state(EndpointState::Closed);
            tracing::info!(endpoint = %peer.endpoint.label, "silent for {} s, forgotten", idle.as_secs());
            self.door.say(EndpointEvent::Removed(peer.endpoint.id)).await?;
        }
        Ok(())
    }
}

/// Sends to one address, and takes what comes back from it, through one socket.
pub(super) async fn send(door: Door, to: HostPort) {
    door.until_stopped(serve(&door, &to)).await;
}

async fn serve(door: &Door, to: &HostPort) {
    let Ok((endpoint, mut backlog)) = door.only_endpoint().await else { return };
    let mut log = StateLog::new(&endpoint.label);
    loop {
        match open(to).await {
            Ok((socket, address)) => {
                backlog.discard();
                log.up(&door.meter);
                let (target, targets) = watch::channel(address);
                let one = AtomicU32::new(1);
                tokio::select! {
                    _ = receive(door, &endpoint, &socket, &targets) => return,
                    () = write(&socket, &mut backlog, &one, Some(&targets), &mut log) => return,
                    () = follow_name(to, &target) => {}
                }
            }
            Err(error) => log.down(&door.meter, &error),
        }
        sleep(RESOLVE_RETRY).await;
    }
}

async fn open(to: &HostPort) -> io::Result<(UdpSocket, SocketAddr)> {
    let address = resolve(to).await?;
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    if address.is_ipv4() {
        socket.set_broadcast(true)?;
    }
    widen(SockRef::from(&socket));
    Ok((socket, address))
}

/// Keeps the target up to date with its name; ends if a new address needs another socket.
async fn follow_name(to: &HostPort, target: &watch::Sender<SocketAddr>) {
    if to.host.parse::<IpAddr>().is_ok() {
        return std::future::pending().await;
    }
    loop {
        sleep(RESOLVE_AGAIN).await;
        // A name that does not resolve right now keeps its last address.
        let Ok(address) = resolve(to).await else { continue };
        if address.is_ipv4() != target.borrow().is_ipv4() {
            return;
        }
        target.send_if_modified(|known| std::mem::replace(known, address) != address);
    }
}

async fn receive(
    door: &Door,
    endpoint: &Endpoint,
    socket: &UdpSocket,
    targets: &watch::Receiver<SocketAddr>,
) -> Result<(), Stopped> {
    let mut splitter = Splitter::new();
    let mut datagram = vec![0; MAX_DATAGRAM];
    loop {
        let Ok((n, from)) = socket.recv_from(&mut datagram).await else {
            sleep(ERROR_PAUSE).await;
            continue;
        };
        let target = targets.borrow().ip();
        let to_many =
            target.is_multicast() || matches!(target, IpAddr::V4(v4) if v4.is_broadcast() || v4.octets()[3] == 255);
        if from.ip() == target || to_many {
            take(door, endpoint, &mut splitter, &datagram[..n]).await?;
        } else {
            door.meter.add(Count::Refused, 1);
        }
    }
}

/// Passes the frames of a datagram to the session; whether there were any.
async fn take(door: &Door, endpoint: &Endpoint, splitter: &mut Splitter, datagram: &[u8]) -> Result<bool, Stopped> {
    let meter = &endpoint.share.meter;
    let before = splitter.stats();
    meter.add(Count::BytesIn, datagram.len() as u64);
    splitter.feed_datagram(datagram);
    let mut any = false;
    while let Some(frame) = splitter.next_frame() {
        any = true;
        pass_on(door, endpoint, meter, frame).await?;
    }
    meter.add_splitter(before, splitter.stats());
    Ok(any)
}

async fn pass_on(door: &Door, endpoint: &Endpoint, meter: &Meter, frame: Frame) -> Result<(), Stopped> {
    let event = EndpointEvent::Frame { from: endpoint.id, frame };
    match door.events.send_timeout(event, UDP_PATIENCE).await {
        Ok(()) => meter.add(Count::FramesIn, 1),
        Err(SendTimeoutError::Timeout(_)) => meter.add(Count::DroppedIn, 1),
        Err(SendTimeoutError::Closed(_)) => return Err(Stopped),
    }
    Ok(())
}

/// Sends what is queued, to each frame's own peer or to the one target.
async fn write(
    socket: &UdpSocket,
    backlog: &mut Backlog,
    peers: &AtomicU32,
    targets: Option<&watch::Receiver<SocketAddr>>,
    log: &mut StateLog,
) {
    let mut pacer = Pacer { credit: BURST, at: Instant::now() };
    while let Some(queued) = backlog.next().await {
        pacer.wait(peers.load(Ordering::Relaxed)).await;
        let to = queued.to().or_else(|| targets.map(|targets| *targets.borrow()));
        let Some(to) = to else { continue };
        match socket.send_to(queued.frame.bytes(), to).await {
            Ok(_) => queued.sent(),
            Err(error) => {
                queued.drop_counted();
                log.trouble(&format_args!("cannot send: {error}"));
            }
        }
    }
}

/// Hands out [`BURST`] frames at once, then [`FRAMES_PER_MS`] per peer.
#[derive(Debug)]
struct Pacer {
    credit: f64,
    at: Instant,
}

impl Pacer {
    async fn wait(&mut self, peers: u32) {
        let rate = FRAMES_PER_MS * f64::from(peers.max(1));
        loop {
            let now = Instant::now();
            let earned = now.saturating_duration_since(self.at).as_secs_f64() * 1000.0 * rate;
            self.credit = (self.credit + earned).min(BURST);
            self.at = now;
            if self.credit >= 1.0 {
                self.credit -= 1.0;
                return;
            }
            sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn resolve(at: &HostPort) -> io::Result<SocketAddr> {
    let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    timeout(RESOLVE_TIMEOUT, lookup_host((at.host.as_str(), at.port))).await??.next().ok_or_else(none)
}

/// Asks for a receive buffer that holds a parameter set; the system may grant less.
fn widen(socket: SockRef<'_>) {
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
}

const MAX_DATAGRAM: usize = 65_536;
const RECEIVE_BUFFER: usize = 2 << 20;
/// Ground stations send a HEARTBEAT every second.
const IDLE: Duration = Duration::from_secs(60);
/// When all places are taken, whoever missed ten heartbeats makes room.
const IDLE_IF_FULL: Duration = Duration::from_secs(10);
const ERROR_PAUSE: Duration = Duration::from_millis(10);
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
const RESOLVE_RETRY: Duration = Duration::from_secs(1);
const RESOLVE_AGAIN: Duration = Duration::from_secs(30);
/// As fast as an autopilot with a direct cable sends its parameters (1,348 in 0.7 s), and twenty times what it sends on all
/// streams. Slow programs keep up with that, and what they do not take is lost without a word.
const FRAMES_PER_MS: f64 = 2.0;
const BURST: f64 = 64.0;
