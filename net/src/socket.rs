//! The UDP socket of a bearer: batches in, ECN and receive times from the kernel, never a fragment.

mod receive;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use aquila_proto::quic::{EcnCodepoint, Transmit};
use bytes::BytesMut;
use noq_udp::{UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use self::receive::Reader;
use crate::bearer::Source;

/// Largest datagram read, times what the kernel may coalesce into one read.
const READ_SIZE: usize = 2048;
/// Asked of the kernel for both directions; it may give less.
const BUFFER: usize = 2 << 20;
/// Reads in a row, so that what comes all the time leaves time for the rest.
const MAX_READS: usize = 32;

/// Most packets handed to the kernel in one call. More save little, and where Linux's own queues are full, that many are
/// lost together: they count such a call as one packet.
const MAX_SEGMENTS: usize = 16;

/// A UDP socket for one bearer.
#[derive(Debug)]
pub struct BearerSocket {
    socket: UdpSocket,
    state: UdpSocketState,
    /// Whether packets say from which of our addresses they go: a server must answer from the one it was asked on, while
    /// a client follows its routing table from network to network.
    pinned_source: bool,
    /// It reaches IPv4 by mapped addresses.
    is_ipv6: bool,
    /// What is to be sent at the next [`BearerSocket::flush`].
    staged: Staged,
    /// For sending several packets at once. A failure, which some devices are good for, changes how this sends from then
    /// on, and must not touch what [`BearerSocket::state`] does.
    offload: UdpSocketState,
    reader: Reader,
    errors: u64,
}

/// Packets of one size, the last perhaps smaller, with one destination.
#[derive(Debug, Default)]
struct Staged {
    to: Option<Transmit>,
    size: usize,
    bytes: Vec<u8>,
}

/// A datagram that came in.
#[derive(Debug)]
pub struct Datagram {
    /// When the kernel got it.
    pub received: Instant,
    /// Where from.
    pub from: SocketAddr,
    /// To which of our addresses, if that matters.
    pub local: Option<IpAddr>,
    /// ECN field.
    pub ecn: Option<EcnCodepoint>,
    /// Payload.
    pub data: BytesMut,
}

impl BearerSocket {
    /// A socket to listen on.
    ///
    /// # Errors
    /// The address is in use, or not ours, or `interface` does not exist or may not be bound to.
    pub fn listen(address: SocketAddr, interface: Option<&str>) -> io::Result<Self> {
        Self::bind(address, interface, true)
    }

    /// A socket to reach `remote` from `source`, on any port.
    ///
    /// # Errors
    /// As for [`BearerSocket::listen`].
    pub fn towards(remote: SocketAddr, source: &Source) -> io::Result<Self> {
        let any: IpAddr = match remote {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let (local, interface) = match source {
            Source::Any => (any, None),
            Source::Interface(name) => (any, Some(name.as_str())),
            Source::Address(address) => (*address, None),
        };
        if local.is_ipv4() != remote.is_ipv4() {
            let message = format!("{remote} cannot be reached from {local}: one is IPv4, the other IPv6");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Self::bind(SocketAddr::new(local, 0), interface, false)
    }

    fn bind(address: SocketAddr, interface: Option<&str>, pinned_source: bool) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            // `[::]` takes IPv4 as well.
            socket.set_only_v6(false)?;
        }
        if let Some(interface) = interface {
            socket.bind_device(Some(interface.as_bytes()))?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // Best effort: without privileges the kernel caps both.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), BUFFER);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), BUFFER);
        let segments = state.gro_segments().get();
        let offload = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let is_ipv6 = socket.local_addr()?.is_ipv6();
        let reader = Reader::new(&socket, READ_SIZE * segments);
        Ok(Self {
            socket: UdpSocket::from_std(socket.into())?,
            state,
            pinned_source,
            is_ipv6,
            staged: Staged::default(),
            offload,
            reader,
            errors: 0,
        })
    }

    /// Our address.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Failed sends and reads so far.
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// Puts the datagrams that are there into `out`, or has the task woken when there are some. Errors such as "connection
    /// refused" by an earlier send are counted only: the next packet may get through.
    pub fn poll_receive(&mut self, context: &mut Context<'_>, out: &mut Vec<Datagram>) -> Poll<()> {
        loop {
            if ready!(self.socket.poll_recv_ready(context)).is_err() {
                // Only while the runtime ends.
                self.errors += 1;
                return Poll::Pending;
            }
            match self.read_batch(out) {
                Ok(()) if !out.is_empty() => return Poll::Ready(()),
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.errors += 1,
            }
        }
    }

    /// Waits for datagrams and puts what is there into `out`.
    pub async fn receive(&mut self, out: &mut Vec<Datagram>) {
        std::future::poll_fn(|context| self.poll_receive(context, out)).await;
    }

    /// All that is there, within bounds. Fails if that is nothing.
    fn read_batch(&mut self, out: &mut Vec<Datagram>) -> io::Result<()> {
        let before = out.len();
        for _ in 0..MAX_READS {
            let (socket, reader) = (&self.socket, &mut self.reader);
            let read = match socket.try_io(Interest::READABLE, || reader.read(socket)) {
                Ok(read) => read,
                Err(error) if out.len() == before => return Err(error),
                Err(error) => {
                    self.errors += u64::from(error.kind() != io::ErrorKind::WouldBlock);
                    break;
                }
            };
            let received = Instant::now() - read.age;
            let local = read.local.filter(|_| self.pinned_source);
            out.extend(read.datagrams.map(|data| Datagram {
                received,
                from: read.from,
                local,
                ecn: read.ecn,
                data: BytesMut::from(data),
            }));
        }
        Ok(())
    }

    /// Sends a packet, at the latest at the next [`BearerSocket::flush`]. What the kernel does not take is lost, as anywhere
    /// on the way, and counted.
    pub fn send(&mut self, transmit: Transmit, data: &[u8]) {
        if !self.staged.fits(&transmit, data.len()) {
            self.flush();
        }
        if self.staged.to.is_none() {
            self.staged.size = data.len();
            self.staged.to = Some(transmit);
        }
        self.staged.bytes.extend_from_slice(data);
        if data.len() < self.staged.size || self.staged.bytes.len() >= self.max_segments() * self.staged.size {
            self.flush();
        }
    }

    /// Sends what was kept back so that several packets leave in one call (UDP_SEGMENT), which costs the kernel little more
    /// than one packet does.
    pub fn flush(&mut self) {
        let Some(to) = self.staged.to.take() else { return };
        let bytes = std::mem::take(&mut self.staged.bytes);
        let several = bytes.len() > self.staged.size;
        if !several || self.send_now(&self.offload, &to, &bytes, Some(self.staged.size)).is_err() {
            for packet in bytes.chunks(self.staged.size.max(1)) {
                let sent = self.send_now(&self.state, &to, packet, None);
                self.errors += u64::from(sent.is_err());
            }
        }
        self.staged.bytes = bytes;
        self.staged.bytes.clear();
    }

    fn send_now(
        &self,
        state: &UdpSocketState,
        to: &Transmit,
        contents: &[u8],
        segment_size: Option<usize>,
    ) -> io::Result<()> {
        let transmit = noq_udp::Transmit {
            destination: self.destination(to.destination),
            ecn: to.ecn.and_then(|ecn| noq_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents,
            segment_size,
            src_ip: to.source.filter(|_| self.pinned_source),
        };
        // Not through tokio's readiness: a new socket has none yet, and the very first packet would be lost.
        state.try_send(UdpSockRef::from(&self.socket), &transmit)
    }

    /// One where the kernel or a device cannot do it.
    fn max_segments(&self) -> usize {
        self.offload.max_gso_segments().get().min(MAX_SEGMENTS)
    }

    /// An IPv6 socket reaches IPv4 by mapped addresses.
    fn destination(&self, to: SocketAddr) -> SocketAddr {
        match to {
            SocketAddr::V4(v4) if self.is_ipv6 => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
            _ => to,
        }
    }
}

impl Staged {
    /// Whether a packet can leave in the same call as those that are here.
    fn fits(&self, transmit: &Transmit, len: usize) -> bool {
        self.to.as_ref().is_some_and(|to| {
            len <= self.size
                && (to.destination, to.source) == (transmit.destination, transmit.source)
                && to.ecn == transmit.ecn
        })
    }
}

#[cfg(test)]
mod tests;
