//! Where the applications of a node listen.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use aquila_proto::mavlink::Frame;
use nix::sys::socket::{setsockopt, sockopt};

use super::log::{Kind, Log};
use crate::frames;
use crate::live::{NodeId, World, WorldError, prioritise};

/// A stop is noticed within this time.
pub const PATIENCE: Duration = Duration::from_millis(50);
/// No datagram is larger.
const BUFFER: usize = 65_536;
/// Bytes that wait for a listener, so that a busy machine loses nothing that the link has carried.
const WAITING: usize = 8 << 20;

/// The peer that was heard last.
pub type Heard = Arc<Mutex<Option<SocketAddr>>>;

/// A socket of a node.
pub fn open(world: &World, node: NodeId, at: SocketAddr) -> io::Result<UdpSocket> {
    let socket = world.run_in(node, move || UdpSocket::bind(at))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    // Without privileges less has to do.
    let _ = setsockopt(&socket, sockopt::RcvBufForce, &WAITING);
    Ok(socket)
}

/// Any port of all addresses, or of the machine itself only.
pub fn any(is_local: bool) -> SocketAddr {
    let address = if is_local { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
    SocketAddr::from((address, 0))
}

/// Listens for MAVLink in datagrams.
pub fn hear_mavlink(
    (world, id, node): (&World, NodeId, usize),
    socket: UdpSocket,
    heard: Heard,
    log: Log,
    stop: Arc<AtomicBool>,
) -> Result<JoinHandle<()>, WorldError> {
    hear((world, id), "mavlink", socket, stop, move |datagram, from| {
        *heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(from);
        let mut rest = datagram;
        while let Ok((frame, len)) = Frame::parse(rest) {
            log.on_mavlink(node, &frame);
            rest = &rest[len..];
        }
    })
}

/// Listens for packets that are numbered as RTP: frames of video, or datagrams.
pub fn hear_numbered(
    (world, id, node): (&World, NodeId, usize),
    kind: Kind,
    socket: UdpSocket,
    log: Log,
    stop: Arc<AtomicBool>,
) -> Result<JoinHandle<()>, WorldError> {
    hear((world, id), "numbered", socket, stop, move |datagram, _| {
        if let Some(number) = frames::rtp_index(datagram) {
            log.on_arrived(node, kind, number);
        }
    })
}

/// Listens; each datagram is handed on with its sender.
pub fn hear(
    (world, node): (&World, NodeId),
    name: &str,
    socket: UdpSocket,
    stop: Arc<AtomicBool>,
    mut each: impl FnMut(&[u8], SocketAddr) + Send + 'static,
) -> Result<JoinHandle<()>, WorldError> {
    world.thread_in(node, name, move || {
        prioritise();
        let mut buffer = vec![0; BUFFER];
        while !stop.load(Ordering::Relaxed) {
            if let Ok((len, from)) = socket.recv_from(&mut buffer) {
                each(&buffer[..len], from);
            }
        }
    })
}
