//! Datagrams out of the kernel, each with the time at which it came, its ECN field and where it went.
//!
//! noq-udp could read them too, but does not ask for that time, and has no room for it beside ECN where several datagrams come as one.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::slice::Chunks;
use std::time::{Duration, SystemTime};

use aquila_proto::quic::EcnCodepoint;
use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt};

/// Bytes for what the kernel says of a read: it takes up to 120.
const CONTROL: usize = 256;
/// A receive time further back than this is a clock that was set.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Where a socket's datagrams are read into.
#[derive(Debug)]
pub(super) struct Reader {
    bytes: Box<[u8]>,
    control: Box<[u8]>,
}

/// One datagram, or several of one sender that the kernel put together.
#[derive(Debug)]
pub(super) struct Read<'a> {
    /// Where from.
    pub from: SocketAddr,
    /// To which of our addresses.
    pub local: Option<IpAddr>,
    /// ECN field.
    pub ecn: Option<EcnCodepoint>,
    /// How long ago the kernel got the first of them; nothing where it does not say.
    pub age: Duration,
    /// Their contents.
    pub datagrams: Chunks<'a, u8>,
}

impl Reader {
    /// For reads of at most so many bytes from `socket`, which is asked to note when datagrams come.
    pub fn new(socket: &impl AsFd, size: usize) -> Self {
        // Where it cannot, they came when they were read.
        let _ = setsockopt(socket, ReceiveTimestampns, &true);
        Self { bytes: vec![0; size].into(), control: vec![0; CONTROL].into() }
    }

    /// What is there next.
    ///
    /// # Errors
    /// `WouldBlock` if there is nothing; or of an earlier send, such as "connection refused".
    pub fn read(&mut self, socket: &impl AsRawFd) -> io::Result<Read<'_>> {
        let mut slices = [IoSliceMut::new(&mut self.bytes)];
        let (fd, control) = (socket.as_raw_fd(), Some(&mut self.control[..]));
        let message = recvmsg::<SockaddrStorage>(fd, &mut slices, control, MsgFlags::empty())?;
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let from = message.address.and_then(|address| {
            let v4 = address.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
            v4.or_else(|| address.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into())))
        });
        let from = from.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        let (len, mut stride) = (message.bytes, message.bytes);
        let (mut local, mut ecn, mut age) = (None, None, Duration::ZERO);
        for said in message.cmsgs().into_iter().flatten() {
            match said {
                ControlMessageOwned::ScmTimestampns(at) => {
                    age = wall.checked_sub(at.into()).filter(|age| *age < MAX_AGE).unwrap_or_default();
                }
                ControlMessageOwned::UdpGroSegments(size) => stride = usize::try_from(size).unwrap_or(len),
                ControlMessageOwned::Ipv4Tos(field) => ecn = EcnCodepoint::from_bits(field),
                ControlMessageOwned::Ipv6TClass(field) => ecn = EcnCodepoint::from_bits(field as u8),
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    local = Some(Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes()).into());
                }
                ControlMessageOwned::Ipv6PacketInfo(info) => {
                    local = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                _ => {}
            }
        }
        Ok(Read { from, local, ecn, age, datagrams: self.bytes[..len].chunks(stride.max(1)) })
    }
}
