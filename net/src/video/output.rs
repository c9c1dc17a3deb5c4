//! RTP out: whole frames to all viewers of their flow.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket as StdSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use aquila_proto::video::Packets;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::spec::{Flow, VideoSpec};

/// Sends frames to viewers, all from one socket for each address family that keeps its port. Stops when dropped.
///
/// A frame's packets leave [`BURST`] at a time with a millisecond between: a viewer's receive buffer, by default 208 kB on
/// Linux of which a 1200-byte packet takes 2304 bytes, holds 92 packets, and an intra-coded frame can have hundreds.
#[derive(Debug)]
pub struct VideoOutput {
    frames: mpsc::Sender<(Flow, Packets)>,
    consumers: Arc<[Consumer]>,
    /// Bytes of the frames that wait.
    waiting: Arc<AtomicUsize>,
    dropped: AtomicU64,
    task: JoinHandle<()>,
}

/// Totals since the output was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutputCounters {
    /// Frames dropped since sending was too slow.
    pub frames_dropped: u64,
    /// For each viewer, in the order given.
    pub consumers: Vec<ConsumerCounters>,
}

/// Totals of one viewer since the output was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerCounters {
    /// The viewer.
    pub address: SocketAddr,
    /// The camera it is shown.
    pub flow: Flow,
    /// Packets sent.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that the system refused to send.
    pub errors: u64,
}

#[derive(Debug)]
struct Consumer {
    address: SocketAddr,
    flow: Flow,
    packets: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
}

/// The sockets that packets leave from, made when a viewer needs them.
#[derive(Debug)]
struct Sockets {
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
}

impl VideoOutput {
    /// Opens the sockets for `viewers` and starts sending. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// No socket can be opened for an address family that a viewer needs.
    pub fn spawn(viewers: &[VideoSpec]) -> io::Result<Self> {
        let sockets = Sockets::open(viewers)?;
        let consumers: Arc<[Consumer]> = viewers.iter().map(Consumer::new).collect();
        let (frames, queue) = mpsc::channel(MAX_FRAMES);
        let waiting = Arc::new(AtomicUsize::new(0));
        let task = tokio::spawn(run(sockets, queue, Arc::clone(&consumers), Arc::clone(&waiting)));
        Ok(Self { frames, consumers, waiting, dropped: AtomicU64::new(0), task })
    }

    /// Sends a frame's packets to all viewers of `flow`, soon; drops the whole frame, counted, if too many wait.
    pub fn send(&self, flow: Flow, packets: Packets) {
        if !self.consumers.iter().any(|consumer| consumer.flow == flow) {
            return;
        }
        let bytes = packets.byte_len();
        let fits = self.waiting.fetch_add(bytes, Relaxed) + bytes <= MAX_BYTES;
        if !fits || self.frames.try_send((flow, packets)).is_err() {
            self.waiting.fetch_sub(bytes, Relaxed);
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Totals since the output was opened.
    pub fn counters(&self) -> OutputCounters {
        OutputCounters {
            frames_dropped: self.dropped.load(Relaxed),
            consumers: self.consumers.iter().map(Consumer::counters).collect(),
        }
    }
}

impl Drop for VideoOutput {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(
    sockets: Sockets,
    mut queue: mpsc::Receiver<(Flow, Packets)>,
    consumers: Arc<[Consumer]>,
    waiting: Arc<AtomicUsize>,
) {
    while let Some((flow, packets)) = queue.recv().await {
        waiting.fetch_sub(packets.byte_len(), Relaxed);
        for (place, packet) in packets.enumerate() {
            if place > 0 && place % BURST == 0 {
                tokio::time::sleep(BURST_INTERVAL).await;
            }
            for consumer in consumers.iter().filter(|consumer| consumer.flow == flow) {
                consumer.on_sent(sockets.send(&packet, consumer.address), packet.len());
            }
        }
    }
}

impl Sockets {
    fn open(viewers: &[VideoSpec]) -> io::Result<Self> {
        let open = |any: SocketAddr| {
            let socket = StdSocket::bind(any)?;
            socket.set_nonblocking(true)?;
            UdpSocket::from_std(socket)
        };
        let needed = |v4: bool| viewers.iter().any(|viewer| viewer.address.is_ipv4() == v4);
        Ok(Self {
            v4: needed(true).then(|| open((Ipv4Addr::UNSPECIFIED, 0).into())).transpose()?,
            v6: needed(false).then(|| open((Ipv6Addr::UNSPECIFIED, 0).into())).transpose()?,
        })
    }

    /// Sends one packet, never waiting. A refusal that belongs to an earlier packet, perhaps of another viewer, costs this
    /// one a second attempt only.
    fn send(&self, packet: &[u8], to: SocketAddr) -> io::Result<()> {
        let socket = if to.is_ipv4() { &self.v4 } else { &self.v6 };
        let Some(socket) = socket else { return Err(io::ErrorKind::AddrNotAvailable.into()) };
        // `try_send_to` gives up as long as the runtime has not seen the socket writable, which would lose the first
        // packets; the system call itself does not block.
        let send = || socket2::SockRef::from(socket).send_to(packet, &to.into());
        match send() {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => send()?,
            sent => sent?,
        };
        Ok(())
    }
}

impl Consumer {
    fn new(viewer: &VideoSpec) -> Self {
        Self {
            address: viewer.address,
            flow: viewer.flow.unwrap_or_default(),
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            errors: AtomicU64::new(0),
        }
    }

    fn on_sent(&self, result: io::Result<()>, len: usize) {
        match result {
            Ok(()) => {
                self.packets.fetch_add(1, Relaxed);
                self.bytes.fetch_add(len as u64, Relaxed);
            }
            Err(error) => {
                // The first only: a viewer that is gone fails for each packet.
                if self.errors.fetch_add(1, Relaxed) == 0 {
                    tracing::warn!(viewer = %self.address, %error, "cannot send video");
                }
            }
        }
    }

    fn counters(&self) -> ConsumerCounters {
        ConsumerCounters {
            address: self.address,
            flow: self.flow,
            packets: self.packets.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            errors: self.errors.load(Relaxed),
        }
    }
}

/// Frames that wait for being sent; a third of a second at 8 Mbit/s if each datagram is a frame of its own (MPEG-TS).
const MAX_FRAMES: usize = 256;
/// Bytes that wait for being sent: a few frames of the largest size.
const MAX_BYTES: usize = 8 << 20;
/// Packets sent without a pause; two thirds of what a default receive buffer holds.
const BURST: usize = 64;
const BURST_INTERVAL: Duration = Duration::from_millis(1);
