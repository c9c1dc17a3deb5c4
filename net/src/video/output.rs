//! RTP out: whole frames to all viewers of their flow.

use std::io::ErrorKind::{ConnectionRefused, WouldBlock};
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket as StdSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use aquila_proto::video::Packets;
use bytes::Bytes;
use socket2::{MsgHdr, SockRef};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::refusals::Ear;
use super::spec::{Flow, MAX_FLOWS, VideoSpec};

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
    begun: mpsc::Receiver<Flow>,
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
    /// Several packets leave in one call; until that fails, as it does for some devices and for packets above the MTU.
    offload: bool,
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
        let (tell, begun) = mpsc::channel(MAX_FLOWS.into());
        let task = tokio::spawn(run(sockets, queue, Arc::clone(&consumers), Arc::clone(&waiting), tell));
        Ok(Self { frames, consumers, waiting, dropped: AtomicU64::new(0), begun, task })
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

    /// Waits for a viewer that begins to listen when frames of its flow have been refused; gives the flow, of which it needs a recovery
    /// point. Known of viewers on this machine, and of others whose system refuses what nobody listens to: many drop it in silence.
    pub async fn viewer_begun(&mut self) -> Flow {
        match self.begun.recv().await {
            Some(flow) => flow,
            None => std::future::pending().await,
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
    mut sockets: Sockets,
    mut queue: mpsc::Receiver<(Flow, Packets)>,
    consumers: Arc<[Consumer]>,
    waiting: Arc<AtomicUsize>,
    begun: mpsc::Sender<Flow>,
) {
    let ear = |to: &Consumer| Some((to.flow, Ear::new(to.address, sockets.port_to(to.address)?)?));
    let mut ears: Vec<_> = consumers.iter().filter_map(ear).collect();
    while let Some((flow, packets)) = queue.recv().await {
        waiting.fetch_sub(packets.byte_len(), Relaxed);
        let now = Instant::now();
        for (_, ear) in ears.iter_mut().filter(|(of, _)| *of == flow) {
            if ear.has_begun(now) {
                // Full: that one is asked for.
                let _ = begun.try_send(flow);
            }
        }
        let packets: Vec<Bytes> = packets.collect();
        for (place, burst) in packets.chunks(BURST).enumerate() {
            if place > 0 {
                tokio::time::sleep(BURST_INTERVAL).await;
            }
            for consumer in consumers.iter().filter(|consumer| consumer.flow == flow) {
                sockets.send(burst, consumer);
            }
        }
    }
}

impl Sockets {
    fn open(viewers: &[VideoSpec]) -> io::Result<Self> {
        let open = |any: SocketAddr| {
            let socket = StdSocket::bind(any)?;
            socket.set_nonblocking(true)?;
            // The ears share its port.
            SockRef::from(&socket).set_reuse_address(true)?;
            UdpSocket::from_std(socket)
        };
        let needed = |v4: bool| viewers.iter().any(|viewer| viewer.address.is_ipv4() == v4);
        Ok(Self {
            v4: needed(true).then(|| open((Ipv4Addr::UNSPECIFIED, 0).into())).transpose()?,
            v6: needed(false).then(|| open((Ipv6Addr::UNSPECIFIED, 0).into())).transpose()?,
            offload: true,
        })
    }

    /// The port that packets to a viewer leave from.
    fn port_to(&self, viewer: SocketAddr) -> Option<u16> {
        let socket = if viewer.is_ipv4() { &self.v4 } else { &self.v6 };
        socket.as_ref()?.local_addr().ok().map(|local| local.port())
    }

    /// Sends packets to a viewer, as many at once as may leave in one call.
    fn send(&mut self, mut packets: &[Bytes], to: &Consumer) {
        while let Some(first) = packets.first() {
            let (run, rest) = packets.split_at(run_of(packets));
            packets = rest;
            if run.len() > 1 && self.offload {
                match self.send_run(run, first.len(), to.address) {
                    Ok(()) => {
                        run.iter().for_each(|packet| to.on_sent(Ok(()), packet.len()));
                        continue;
                    }
                    // Of the viewer, not of the way of sending.
                    Err(error) if matches!(error.kind(), ConnectionRefused | WouldBlock) => {}
                    Err(error) => {
                        tracing::debug!(viewer = %to.address, %error, "sending packets one by one");
                        self.offload = false;
                    }
                }
            }
            run.iter().for_each(|packet| to.on_sent(self.send_one(packet, to.address), packet.len()));
        }
    }

    /// Sends packets of `size`, of which the last may be smaller, in one call; the kernel cuts them (UDP_SEGMENT).
    fn send_run(&self, run: &[Bytes], size: usize, to: SocketAddr) -> io::Result<()> {
        let slices: [IoSlice<'_>; MAX_SEGMENTS] =
            std::array::from_fn(|n| IoSlice::new(run.get(n).map_or(&[], |packet| &packet[..])));
        let (to, control) = (to.into(), segment_size(size as u16));
        let message = MsgHdr::new().with_addr(&to).with_buffers(&slices[..run.len()]).with_control(&control);
        self.socket(to.is_ipv4())?.sendmsg(&message, 0).map(drop)
    }

    /// Sends one packet, never waiting. A refusal that belongs to an earlier packet, perhaps of another viewer, costs this
    /// one a second attempt only.
    fn send_one(&self, packet: &[u8], to: SocketAddr) -> io::Result<()> {
        let socket = self.socket(to.is_ipv4())?;
        match socket.send_to(packet, &to.into()) {
            Err(error) if error.kind() == ConnectionRefused => socket.send_to(packet, &to.into())?,
            sent => sent?,
        };
        Ok(())
    }

    /// `try_send_to` of tokio's gives up as long as the runtime has not seen the socket writable, which would lose the first
    /// packets; the system call itself does not block.
    fn socket(&self, v4: bool) -> io::Result<SockRef<'_>> {
        let socket = if v4 { &self.v4 } else { &self.v6 };
        socket.as_ref().map(SockRef::from).ok_or(io::ErrorKind::AddrNotAvailable.into())
    }
}

/// How many of the first packets may leave in one call: all of one size but the last, which may be smaller.
fn run_of(packets: &[Bytes]) -> usize {
    let size = packets.first().map_or(0, Bytes::len);
    let most = MAX_SEGMENTS.min(MAX_RUN_BYTES / size.max(1)).max(1);
    let full = packets.iter().take(most).take_while(|packet| packet.len() == size).count();
    let smaller = full < most && packets.get(full).is_some_and(|packet| packet.len() < size);
    full + usize::from(smaller)
}

/// What tells the kernel to cut a message into datagrams of `size`: a `cmsghdr` (length, level, type), the size, and padding
/// to a word.
fn segment_size(size: u16) -> [u8; CONTROL] {
    let mut control = [0; CONTROL];
    let fields: [&[u8]; 4] = [
        &(WORD + 2 * 4 + size_of::<u16>()).to_ne_bytes(),
        &SOL_UDP.to_ne_bytes(),
        &UDP_SEGMENT.to_ne_bytes(),
        &size.to_ne_bytes(),
    ];
    let bytes = fields.into_iter().flatten();
    control.iter_mut().zip(bytes).for_each(|(slot, byte)| *slot = *byte);
    control
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
/// Packets sent in one call; more save little.
const MAX_SEGMENTS: usize = 16;
/// Of an IPv4 packet, less its headers.
const MAX_RUN_BYTES: usize = 65_000;
const WORD: usize = size_of::<usize>();
const CONTROL: usize = WORD + 2 * 4 + WORD;
/// linux/udp.h
const SOL_UDP: i32 = 17;
const UDP_SEGMENT: i32 = 103;
const BURST_INTERVAL: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_one_size_leave_together_with_a_smaller_one_behind() {
        let packets = |sizes: &[usize]| sizes.iter().map(|size| Bytes::from(vec![0; *size])).collect::<Vec<_>>();
        for (sizes, run) in [
            (&[][..], 0),
            (&[1200], 1),
            (&[1200, 1200, 700, 1200], 3),
            (&[1200, 1201], 1),
            (&[1200, 1], 2),
            (&[1200; 40], MAX_SEGMENTS),
            (&[20_000; 10], 3),
            (&[65_507, 65_507], 1),
        ] {
            assert_eq!(run_of(&packets(sizes)), run, "{sizes:?}");
        }
    }
}
