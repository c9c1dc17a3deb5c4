//! RTP in: one UDP port, read many datagrams at a time.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use aquila_proto::ByteCount;
use bytes::Bytes;
use noq_udp::{BATCH_SIZE, RecvMeta, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::spec::{Flow, VideoSpec};

/// One datagram from a camera.
#[derive(Debug, Clone)]
pub struct VideoDatagram {
    /// The camera.
    pub flow: Flow,
    /// When it was read from the socket.
    pub received: Instant,
    /// Its payload, as it came.
    pub bytes: Bytes,
}

/// A UDP port that takes a camera's RTP. Stops listening when dropped.
#[derive(Debug)]
pub struct VideoInput {
    flow: Flow,
    local: SocketAddr,
    receive_buffer: ByteCount,
    counters: Arc<Counters>,
    task: JoinHandle<()>,
}

/// Totals since the input was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InputCounters {
    /// Datagrams of the camera.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of these, datagrams that the session had no room for.
    pub dropped: u64,
    /// Datagrams of others, beside those of the camera: dropped.
    pub foreign: u64,
    /// Failed reads.
    pub errors: u64,
}

#[derive(Debug, Default)]
struct Counters {
    packets: AtomicU64,
    bytes: AtomicU64,
    dropped: AtomicU64,
    foreign: AtomicU64,
    errors: AtomicU64,
}

impl VideoInput {
    /// Listens at `spec` and hands what comes to `to`, as `flow`. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The address is in use or not of this machine, or the multicast group cannot be joined.
    pub fn spawn(spec: &VideoSpec, flow: Flow, to: mpsc::Sender<VideoDatagram>) -> io::Result<Self> {
        let socket = bind(spec.address)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let receive_buffer = grow_receive_buffer(&socket, &state, spec);
        let socket = UdpSocket::from_std(socket.into())?;
        let local = socket.local_addr()?;
        let counters = Arc::new(Counters::default());
        let task = tokio::spawn(run(socket, state, flow, to, Arc::clone(&counters)));
        Ok(Self { flow, local, receive_buffer, counters, task })
    }

    /// The camera's number.
    pub fn flow(&self) -> Flow {
        self.flow
    }

    /// The address listened on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// What the kernel keeps while the session is busy.
    pub fn receive_buffer(&self) -> ByteCount {
        self.receive_buffer
    }

    /// Totals since the input was opened.
    pub fn counters(&self) -> InputCounters {
        let Counters { packets, bytes, dropped, foreign, errors } = &*self.counters;
        InputCounters {
            packets: packets.load(Relaxed),
            bytes: bytes.load(Relaxed),
            dropped: dropped.load(Relaxed),
            foreign: foreign.load(Relaxed),
            errors: errors.load(Relaxed),
        }
    }
}

impl Drop for VideoInput {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(
    socket: UdpSocket,
    state: UdpSocketState,
    flow: Flow,
    to: mpsc::Sender<VideoDatagram>,
    counters: Arc<Counters>,
) {
    let mut storage = vec![0; SLOTS * SLOT_BYTES];
    let mut camera = Sender::default();
    loop {
        let mut metas = [RecvMeta::default(); SLOTS];
        let mut chunks = storage.chunks_exact_mut(SLOT_BYTES);
        let mut slices: [_; SLOTS] = std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let read = socket
            .async_io(Interest::READABLE, || state.recv(UdpSockRef::from(&socket), &mut slices, &mut metas))
            .await;
        let received = Instant::now();
        let count = match read {
            Ok(count) => count,
            Err(error) => {
                counters.errors.fetch_add(1, Relaxed);
                tracing::debug!(%flow, %error, "video input failed to read");
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
                continue;
            }
        };
        for (meta, slice) in metas[..count].iter().zip(&slices) {
            let datagrams = slice[..meta.len].chunks(meta.stride.max(1));
            if !camera.is(meta.addr, received, flow) {
                counters.foreign.fetch_add(datagrams.len() as u64, Relaxed);
                continue;
            }
            for datagram in datagrams {
                counters.packets.fetch_add(1, Relaxed);
                counters.bytes.fetch_add(datagram.len() as u64, Relaxed);
                let datagram = VideoDatagram { flow, received, bytes: Bytes::copy_from_slice(datagram) };
                match to.try_send(datagram) {
                    Ok(()) => {}
                    Err(mpsc::error::TrySendError::Full(_)) => {
                        counters.dropped.fetch_add(1, Relaxed);
                    }
                    Err(mpsc::error::TrySendError::Closed(_)) => return,
                }
            }
        }
    }
}

/// Who sends to a port. The first one heard is the camera until it falls silent: two streams on one port, or one with what
/// somebody else sends between, are no picture.
#[derive(Debug, Default)]
struct Sender {
    /// Its address, and when it was last heard.
    heard: Option<(SocketAddr, Instant)>,
    /// Another one was heard beside it, and logged.
    disturbed: bool,
}

impl Sender {
    /// Whether a datagram that comes `from` there is the camera's.
    fn is(&mut self, from: SocketAddr, now: Instant, flow: Flow) -> bool {
        match self.heard {
            Some((camera, at)) if camera != from && now.saturating_duration_since(at) < CAMERA_SILENCE => {
                if !std::mem::replace(&mut self.disturbed, true) {
                    tracing::warn!(%flow, %camera, other = %from, "two senders of video to one port: using the first");
                }
                return false;
            }
            Some((camera, _)) if camera == from => {}
            _ => {
                tracing::info!(%flow, camera = %from, "video comes in");
                self.disturbed = false;
            }
        }
        self.heard = Some((from, now));
        true
    }
}

fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if address.ip().is_multicast() {
        // Several programs may listen to a group.
        socket.set_reuse_address(true)?;
    }
    socket.bind(&address.into())?;
    match address.ip() {
        IpAddr::V4(group) if group.is_multicast() => socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED)?,
        IpAddr::V6(group) if group.is_multicast() => socket.join_multicast_v6(&group, 0)?,
        _ => {}
    }
    Ok(socket)
}

/// Asks for a large receive buffer, takes what the kernel gives, and says so if that is little.
fn grow_receive_buffer(socket: &Socket, state: &UdpSocketState, spec: &VideoSpec) -> ByteCount {
    let socket = || UdpSockRef::from(socket);
    if let Err(error) = state.set_recv_buffer_size(socket(), RECEIVE_BUFFER) {
        tracing::warn!(%spec, %error, "cannot set the receive buffer");
    }
    let got = state.recv_buffer_size(socket()).unwrap_or(0);
    if got < ENOUGH_BUFFER {
        tracing::info!(
            %spec,
            bytes = got,
            "small receive buffer; large frames may be cut: allow more with sysctl net.core.rmem_max={RECEIVE_BUFFER}"
        );
    }
    ByteCount::from(got)
}

/// A second at 16 Mbit/s, in 1200-byte packets of which the kernel counts 2304 bytes each.
const RECEIVE_BUFFER: usize = 4 << 20;
/// An intra-coded frame of 250 kB arrives in one burst.
const ENOUGH_BUFFER: usize = 512 << 10;
/// Reads taken from the kernel at a time; at 20 Mbit/s a wake-up finds a few.
const SLOTS: usize = 16;
/// The largest UDP payload, and the most that the kernel joins into one read (Linux `UDP_GRO`), rounded up.
const SLOT_BYTES: usize = 64 << 10;
const _: () = assert!(SLOTS <= BATCH_SIZE);
/// A camera that was not heard for this long is gone, and the next sender takes its place: it may be the same camera, which
/// has started again with another port.
const CAMERA_SILENCE: Duration = Duration::from_secs(2);
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sender_is_the_camera_until_it_has_been_silent_for_two_seconds() {
        let (camera, other) = (SocketAddr::from(([10, 0, 0, 1], 5600)), SocketAddr::from(([10, 0, 0, 1], 5601)));
        let (start, mut sender) = (Instant::now(), Sender::default());
        let mut is = |from, ms| sender.is(from, start + Duration::from_millis(ms), Flow::default());
        assert!(is(camera, 0));
        assert!(!is(other, 1), "the port counts too");
        assert!(is(camera, 1500));
        assert!(!is(other, 3499));
        assert!(is(other, 3500), "the camera starts again with another port");
        assert!(!is(camera, 3501));
        assert!(is(other, 60_000), "a pause without anybody else is a pause");
        assert!(!is(camera, 61_999));
        assert!(is(camera, 62_000));
    }
}
