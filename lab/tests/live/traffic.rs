//! Traffic for the tests: numbered UDP packets, sent and received by threads in the nodes.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use aquila_emu::{Path, PathConfig};
use aquila_lab::live::{Addresses, Cells, LinkId, LinkSpec, NodeId, World, WorldBuilder};
use nix::sys::socket::{setsockopt, sockopt};

/// IPv4 and UDP headers.
pub const HEADERS: usize = 28;
const PORT: u16 = 7000;

/// Two nodes and a link of the same paths both ways.
pub fn two_nodes(builder: &mut WorldBuilder, path: PathConfig) -> (NodeId, NodeId, LinkId) {
    let (a, b) = (builder.node("air"), builder.node("ground"));
    let link = link(builder, "link", (a, b), 0, Cells::duplex(Path::new(path, 1), Path::new(path, 2)));
    (a, b, link)
}

pub fn link(builder: &mut WorldBuilder, name: &str, (a, b): (NodeId, NodeId), number: u8, cells: Cells) -> LinkId {
    let addresses = Addresses::numbered(number);
    builder.link(LinkSpec { name: name.into(), a, b, mtu: 1500, addresses, cells })
}

pub fn socket(world: &World, node: NodeId, address: impl Into<IpAddr>, port: u16) -> UdpSocket {
    let address = SocketAddr::new(address.into(), port);
    world.run_in(node, move || UdpSocket::bind(address)).unwrap()
}

/// Answers every packet, until the process ends.
pub fn echo(world: &World, node: NodeId, address: impl Into<IpAddr>) -> SocketAddr {
    let socket = socket(world, node, address, PORT);
    let address = socket.local_addr().unwrap();
    let answer = move || {
        let mut buffer = [0; 2048];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..len], from);
        }
    };
    drop(world.thread_in(node, "echo", answer).unwrap());
    address
}

/// Round-trip times of `count` packets, one after the other. One that is lost is `None`.
pub fn ping(socket: &UdpSocket, to: SocketAddr, count: usize, patience: Duration) -> Vec<Option<Duration>> {
    socket.set_read_timeout(Some(patience)).unwrap();
    let mut times = Vec::new();
    for number in 0..count as u64 {
        let sent = Instant::now();
        let _ = socket.send_to(&number.to_be_bytes(), to);
        let mut buffer = [0; 64];
        times.push(loop {
            match socket.recv_from(&mut buffer) {
                Ok((8, _)) if buffer[..8] == number.to_be_bytes() => break Some(sent.elapsed()),
                Ok(_) => {}
                Err(_) => break None,
            }
        });
    }
    times
}

pub fn median(times: &[Option<Duration>]) -> Duration {
    let mut times: Vec<Duration> = times.iter().flatten().copied().collect();
    times.sort();
    *times.get(times.len() / 2).expect("an answer")
}

/// Something happened between these times.
pub type Span = (Instant, Instant);

/// What a receiver got: when, and which number.
pub type Received = Vec<(Instant, u64)>;

/// Takes packets until told to stop.
pub struct Receiver {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Received>,
    pub address: SocketAddr,
}

impl Receiver {
    pub fn new(world: &World, node: NodeId, address: impl Into<IpAddr>) -> Self {
        let socket = socket(world, node, address, PORT + 1);
        let address = socket.local_addr().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        // So that nothing is lost here when this thread has to wait for a processor. Root may.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &(4 << 20));
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let receive = move || {
            let mut received = Vec::with_capacity(1 << 16);
            let mut buffer = [0; 2048];
            while !told.load(Ordering::Relaxed) {
                if let Ok(8..) = socket.recv(&mut buffer) {
                    let number = u64::from_be_bytes(buffer[..8].try_into().unwrap());
                    received.push((Instant::now(), number));
                }
            }
            received
        };
        Self { stop, thread: world.thread_in(node, "receive", receive).unwrap(), address }
    }

    pub fn finish(self, after: Duration) -> Received {
        sleep(after);
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Sends packets of `bytes` (IP and UDP headers included) at the given rate until `until`, in bursts of a millisecond.
/// Between which times each was sent.
pub fn send(socket: &UdpSocket, to: SocketAddr, bytes: usize, bits_per_second: u64, until: Instant) -> Vec<Span> {
    let mut packet = vec![0; bytes - HEADERS];
    let begin = Instant::now();
    let mut sent = Vec::new();
    loop {
        let now = Instant::now();
        if now >= until {
            return sent;
        }
        let due = (now - begin).as_secs_f64() * bits_per_second as f64 / 8.0 / bytes as f64;
        while (sent.len() as f64) < due {
            packet[..8].copy_from_slice(&(sent.len() as u64).to_be_bytes());
            let before = Instant::now();
            // The interface may be down.
            let _ = socket.send_to(&packet, to);
            sent.push((before, Instant::now()));
        }
        sleep(Duration::from_millis(1));
    }
}
