//! The same in real time: our endpoints on UDP sockets without a checksum, and the kernel's TCP and UDP, over a link between two
//! network namespaces that flips bits.
//!
//! Both ends of a run are threads of this process, so they share a clock. Bit errors hit all of the packet. The kernel drops what
//! its checks find wrong, as it would behind a radio.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aquila_emu::Path;
use aquila_net::radio::without_checksum;
use aquila_proto::aerotp::{ConnectionId, Endpoint, EndpointEvent, TransferMode};
use bytes::Bytes;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Protocol, Socket, Type};

use super::ledger::{Ledger, Outcome};
use super::ours::{FILLING, Ours, PORTS};
use super::{DATAGRAM, Task, interval};
use crate::live::{Addresses, Cells, End, LinkSpec, NodeId, Sandbox, World, WorldError, prioritise};

/// Who carries the bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LiveScheme {
    /// AeroTP over UDP without a checksum.
    Ours(Ours),
    /// The kernel's TCP, with this congestion control.
    Tcp(&'static str),
    /// The kernel's UDP.
    Udp {
        /// Whether datagrams have a checksum.
        checksum: bool,
    },
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The link cannot be made.
    #[error(transparent)]
    World(#[from] WorldError),
    /// A socket.
    #[error("a socket: {0}")]
    Socket(#[from] io::Error),
}

const PORT: u16 = 4014;
/// Nothing waits longer than this without looking whether it is over.
const LOOK: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_millis(50);
/// Without a delivery for so long after the last write nothing more will come, where nothing is repeated.
const QUIET: Duration = Duration::from_secs(1);
/// What a segment of TCP carries beside 20 bytes of IP, 20 of its own and 12 of time stamps.
const TCP_PAYLOAD: usize = 1448;
/// A datagram's number, twice, so that one that is damaged is seen.
const NUMBERS: usize = 8;

/// Runs it once.
///
/// # Errors
/// [`LiveError`].
pub fn run(sandbox: &Sandbox, scheme: LiveScheme, task: &Task, seed: u64) -> Result<Outcome, LiveError> {
    let mut world = sandbox.world();
    let nodes = [world.node("air"), world.node("ground")];
    let path = task.channel.path();
    let cells = Cells::duplex(Path::new(path, seed), Path::new(path, !seed));
    let addresses = Addresses::numbered(0);
    world.link(LinkSpec { name: "radio".into(), a: nodes[0], b: nodes[1], mtu: 1500, addresses, cells });
    let world = world.build()?;
    let link = world.links().next().map(|(id, ..)| id).expect("one was made");
    let address = |end| SocketAddr::from((world.addresses(link, end).v4, PORT));
    let run = Run {
        world: &world,
        nodes,
        at: [address(End::A), address(End::B)],
        task: *task,
        shared: Arc::new(Shared::new(task)),
    };
    match scheme {
        LiveScheme::Ours(ours) => run.ours(ours, seed)?,
        LiveScheme::Tcp(congestion) => run.tcp(congestion)?,
        LiveScheme::Udp { checksum } => run.udp(checksum)?,
    }
    let stats = world.stats()?;
    let [up, down] = &stats[0];
    let shared = Arc::clone(&run.shared);
    drop(run);
    let state = std::mem::replace(&mut *shared.state(), State::new(shared.start));
    let repeats = match scheme {
        LiveScheme::Ours(ours) => matches!(ours.mode, TransferMode::Reliable | TransferMode::NearReliable),
        LiveScheme::Tcp(_) => true,
        LiveScheme::Udp { .. } => false,
    };
    let given_up = repeats && state.read < task.bytes;
    let outcome = state.ledger.close(given_up.then_some(task.limit));
    let wire = [up.input.bytes, down.input.bytes];
    Ok(Outcome { wire, packets: [up.input.packets, down.input.packets], ..outcome })
}

/// What both ends know.
struct Shared {
    start: Instant,
    task: Task,
    is_over: AtomicBool,
    state: Mutex<State>,
}

struct State {
    ledger: Ledger,
    /// Places of messages among all bytes.
    messages: Vec<u64>,
    read: u64,
}

impl State {
    fn new(start: Instant) -> Self {
        Self { ledger: Ledger::new(start), messages: vec![0], read: 0 }
    }

    /// The message of that number has come out.
    fn on_message(&mut self, now: Instant, number: u32) {
        let number = number as usize;
        if let (Some(from), Some(to)) = (self.messages.get(number), self.messages.get(number + 1)) {
            self.read += to - from;
            self.ledger.on_delivered(now, *from, *to);
        }
    }
}

impl Shared {
    fn new(task: &Task) -> Self {
        let start = Instant::now();
        Self { start, task: *task, is_over: AtomicBool::new(false), state: Mutex::new(State::new(start)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Looks whether it is over: all has come, nothing more will, or it takes too long.
    fn look(&self, now: Instant, repeats: bool) {
        let state = self.state();
        let all_written = state.ledger.written() >= self.task.bytes;
        let latest = state.ledger.latest().unwrap_or(self.start);
        let is_quiet = !repeats && all_written && now > latest + QUIET;
        if state.read >= self.task.bytes || is_quiet || now > self.start + self.task.limit {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }
}

struct Run<'a> {
    world: &'a World,
    nodes: [NodeId; 2],
    at: [SocketAddr; 2],
    task: Task,
    shared: Arc<Shared>,
}

impl Run<'_> {
    fn socket(&self, end: usize) -> io::Result<UdpSocket> {
        let (own, other) = (self.at[end], self.at[1 - end]);
        self.world.run_in(self.nodes[end], move || {
            let socket = UdpSocket::bind(own)?;
            socket.connect(other)?;
            Ok(socket)
        })
    }

    /// Runs both ends, each in its node, until both have ended.
    fn both(
        &self,
        air: impl FnOnce() + Send + 'static,
        ground: impl FnOnce() + Send + 'static,
    ) -> Result<(), LiveError> {
        let of_air = self.world.thread_in(self.nodes[0], "sender", air)?;
        let of_ground = self.world.thread_in(self.nodes[1], "receiver", ground)?;
        for thread in [of_air, of_ground] {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        Ok(())
    }

    fn ours(&self, ours: Ours, seed: u64) -> Result<(), LiveError> {
        let sockets = [self.socket(0)?, self.socket(1)?];
        for socket in &sockets {
            without_checksum(socket)?;
            socket.set_nonblocking(true)?;
        }
        let [air, ground] = sockets;
        let mut ends = [0, 1].map(|end| ours.endpoint(&self.task.channel, end, seed));
        let config = ours.connection();
        ends[1].listen(PORTS.1.0..=PORTS.1.0, config);
        let id = ends[0].connect(Instant::now(), config, PORTS.0, PORTS.1).expect("the first connection");
        let [sender, receiver] = ends;
        let driver = |endpoint, socket, id| Driver {
            endpoint,
            socket,
            id,
            ours,
            next_write: self.shared.start,
            segment: 0,
            shared: Arc::clone(&self.shared),
        };
        let (mut sender, mut receiver) = (driver(sender, air, Some(id)), driver(receiver, ground, None));
        self.both(move || sender.run(true), move || receiver.run(false))
    }

    fn udp(&self, checksum: bool) -> Result<(), LiveError> {
        let (air, ground) = (self.socket(0)?, self.socket(1)?);
        if !checksum {
            without_checksum(&air)?;
        }
        ground.set_read_timeout(Some(PATIENCE))?;
        let (writes, reads) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        let write = move || {
            prioritise();
            paced(&writes, DATAGRAM, |bytes, number| {
                bytes[..4].copy_from_slice(&number.to_be_bytes());
                bytes[4..NUMBERS].copy_from_slice(&number.to_be_bytes());
                let _ = air.send(bytes);
            });
        };
        let read = move || {
            prioritise();
            let mut buffer = [0; 2048];
            while !reads.is_over() {
                if let Ok(len) = ground.recv(&mut buffer) {
                    take_datagram(&reads, &buffer[..len]);
                }
                reads.look(Instant::now(), false);
            }
        };
        self.both(write, read)
    }

    fn tcp(&self, congestion: &'static str) -> Result<(), LiveError> {
        let listener = self.world.run_in(self.nodes[1], move || {
            let socket = tcp_socket(congestion)?;
            socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)).into())?;
            socket.listen(1)?;
            socket.set_nonblocking(true)?;
            Ok::<TcpListener, io::Error>(socket.into())
        })?;
        let (to, limit) = (self.at[1], self.task.limit);
        let (writes, reads) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        let write = move || {
            prioritise();
            let stream = tcp_socket(congestion).and_then(|socket| {
                socket.connect_timeout(&to.into(), limit)?;
                socket.set_write_timeout(Some(PATIENCE))?;
                Ok::<TcpStream, io::Error>(socket.into())
            });
            let Ok(mut stream) = stream else { return };
            paced(&writes, TCP_PAYLOAD, |bytes, _| {
                let mut rest = &*bytes;
                while !rest.is_empty() && !writes.is_over() {
                    let written = stream.write(rest).unwrap_or(0);
                    rest = &rest[written..];
                }
            });
            while !writes.is_over() {
                std::thread::sleep(LOOK);
            }
        };
        let read = move || {
            prioritise();
            let mut stream: Option<TcpStream> = None;
            let mut buffer = [0; 65_536];
            while !reads.is_over() {
                match &mut stream {
                    None => match listener.accept() {
                        Ok((accepted, _)) => {
                            let _ = accepted.set_nonblocking(false);
                            let _ = accepted.set_read_timeout(Some(PATIENCE));
                            stream = Some(accepted);
                        }
                        Err(_) => std::thread::sleep(Duration::from_millis(1)),
                    },
                    Some(stream) => {
                        let len = stream.read(&mut buffer).unwrap_or(0) as u64;
                        let mut state = reads.state();
                        let from = state.read;
                        state.read += len;
                        if len > 0 {
                            state.ledger.on_delivered(Instant::now(), from, from + len);
                        }
                    }
                }
                reads.look(Instant::now(), true);
            }
        };
        self.both(write, read)
    }
}

fn tcp_socket(congestion: &str) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_congestion(congestion.as_bytes())?;
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

/// Gives out what the source writes, at its times: at most `most` bytes at once.
fn paced(shared: &Shared, most: usize, mut send: impl FnMut(&mut [u8], u32)) {
    let (mut due, mut buffer) = (Instant::now(), vec![FILLING; most]);
    loop {
        let written = shared.state().ledger.written();
        if written >= shared.task.bytes || shared.is_over() {
            return;
        }
        let len = most.min((shared.task.bytes - written) as usize).max(NUMBERS);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let number = {
            let mut state = shared.state();
            let now = Instant::now();
            state.ledger.on_written(now, len as u64);
            state.ledger.on_sent(now, len as u64);
            let end = state.ledger.written();
            state.messages.push(end);
            state.messages.len() as u32 - 2
        };
        send(&mut buffer[..len], number);
        due += interval(shared.task.source, len);
    }
}

/// A datagram is whole if both numbers and the filling are.
fn take_datagram(shared: &Shared, datagram: &[u8]) {
    let mut state = shared.state();
    let numbers = datagram.first_chunk::<NUMBERS>().filter(|numbers| numbers[..4] == numbers[4..]);
    match numbers.filter(|_| datagram[NUMBERS..].iter().all(|byte| *byte == FILLING)) {
        Some([a, b, c, d, ..]) => state.on_message(Instant::now(), u32::from_be_bytes([*a, *b, *c, *d])),
        None => state.ledger.on_damaged(datagram.len() as u64),
    }
}

/// An endpoint on a socket.
struct Driver {
    endpoint: Endpoint,
    socket: UdpSocket,
    id: Option<ConnectionId>,
    ours: Ours,
    next_write: Instant,
    /// Of a stream: the next segment that comes out.
    segment: usize,
    shared: Arc<Shared>,
}

impl Driver {
    fn run(&mut self, writes: bool) {
        prioritise();
        let repeats = matches!(self.ours.mode, TransferMode::Reliable | TransferMode::NearReliable);
        let (mut buffer, mut out) = ([0; 2048], Vec::new());
        while !self.shared.is_over() {
            let now = Instant::now();
            if writes {
                self.write(now);
            }
            self.endpoint.handle_timeout(now);
            while self.transmit(now, writes, &mut out) {}
            while let Ok(len) = self.socket.recv(&mut buffer) {
                self.endpoint.handle_segment(Instant::now(), 0, &mut buffer[..len]);
            }
            while let Some(event) = self.endpoint.poll_event() {
                if let EndpointEvent::Opened { connection, .. } = event {
                    self.id = Some(connection);
                }
            }
            if !writes {
                self.read(Instant::now());
                self.shared.look(now, repeats);
            }
            self.wait(writes);
        }
    }

    fn transmit(&mut self, now: Instant, writes: bool, out: &mut Vec<u8>) -> bool {
        let waiting = |endpoint: &Endpoint, id: Option<ConnectionId>| id.and_then(|id| endpoint.waiting_bytes(id));
        let before = waiting(&self.endpoint, self.id).unwrap_or(0);
        if self.endpoint.poll_transmit(now, out).is_none() {
            return false;
        }
        if writes {
            let left = before - waiting(&self.endpoint, self.id).unwrap_or(before);
            self.shared.state().ledger.on_sent(now, left as u64);
        }
        let _ = self.socket.send(out);
        true
    }

    fn write(&mut self, now: Instant) {
        let Some(id) = self.id else { return };
        let mut state = self.shared.state();
        while self.next_write <= now && state.ledger.written() < self.shared.task.bytes {
            let left = (self.shared.task.bytes - state.ledger.written()) as usize;
            let fits = match self.ours.stream {
                true => self.endpoint.segment_payload(id),
                false => self.endpoint.max_message(id),
            };
            let mut bytes = vec![FILLING; fits.min(left).max(4)];
            if !self.ours.stream {
                bytes[..4].copy_from_slice(&(state.messages.len() as u32 - 1).to_be_bytes());
            }
            let len = bytes.len();
            self.next_write += interval(self.shared.task.source, len);
            if self.endpoint.send(id, Bytes::from(bytes), None).is_ok() {
                state.ledger.on_written(now, len as u64);
                let end = state.ledger.written();
                state.messages.push(end);
            }
        }
    }

    fn read(&mut self, now: Instant) {
        let Some(id) = self.id else { return };
        let mut state = self.shared.state();
        while let Some(piece) = self.endpoint.read(now, id) {
            let skipped = if self.ours.stream { 0 } else { 4 };
            assert!(piece.bytes.iter().skip(skipped).all(|byte| *byte == FILLING), "delivered as it was written");
            match piece.bytes.first_chunk::<4>().filter(|_| !self.ours.stream) {
                Some(number) => state.on_message(now, u32::from_be_bytes(*number)),
                None => {
                    self.segment += piece.skipped as usize + 1;
                    let (from, to) = state.ledger.span(self.segment - 1).expect("it has been sent");
                    state.read += to - from;
                    state.ledger.on_delivered(now, from, to);
                }
            }
        }
    }

    /// Until something comes or is due. `ppoll`, since the timeouts of sockets are as coarse as the kernel's ticks.
    fn wait(&mut self, writes: bool) {
        let now = Instant::now();
        let write =
            (writes && self.shared.state().ledger.written() < self.shared.task.bytes).then_some(self.next_write);
        let due = self.endpoint.poll_timeout(now).into_iter().chain(write).min();
        let wait = due.map_or(LOOK, |due| due.saturating_duration_since(now).min(LOOK));
        let mut socket = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        let _ = ppoll(&mut socket, Some(TimeSpec::from_duration(wait)), None);
    }
}
