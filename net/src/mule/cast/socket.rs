//! Sockets of a cast.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockRef, Socket, Type};

use super::spec::{Air, CastSpec};
use crate::mule::beacon::number_of;

/// Bytes that wait in the kernel while we are busy with a block.
const BUFFER: usize = 4 << 20;

/// For sending.
pub(super) fn open(spec: &CastSpec) -> io::Result<UdpSocket> {
    let Air { address, interface, .. } = &spec.air;
    let socket = Socket::new(Domain::for_address(*address), Type::DGRAM, Some(Protocol::UDP))?;
    if let Some(name) = interface {
        socket.bind_device(Some(name.as_bytes()))?;
    }
    match address.ip() {
        IpAddr::V4(ip) if ip.is_multicast() => socket.set_multicast_ttl_v4(spec.ttl)?,
        IpAddr::V4(ip) if ip.is_broadcast() => socket.set_broadcast(true)?,
        IpAddr::V6(ip) if ip.is_multicast() => {
            socket.set_multicast_hops_v6(spec.ttl)?;
            socket.set_multicast_if_v6(interface.as_deref().and_then(number_of).unwrap_or_default())?;
        }
        _ => {}
    }
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    socket.bind(&SocketAddr::new(any, 0).into())?;
    socket.connect(&(*address).into())?;
    Ok(socket.into())
}

/// For hearing. Waits no longer than `patience` for a datagram.
pub(super) fn listen(air: &Air, patience: Duration) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(air.address), Type::DGRAM, Some(Protocol::UDP))?;
    let is_group = air.address.ip().is_multicast();
    if is_group {
        // Others on this machine may hear the same.
        socket.set_reuse_address(true)?;
    } else if let Some(name) = &air.interface {
        socket.bind_device(Some(name.as_bytes()))?;
    }
    // The kernel gives what it may.
    let _ = socket.set_recv_buffer_size(BUFFER);
    socket.set_read_timeout(Some(patience))?;
    socket.bind(&air.address.into())?;
    join(&socket, air);
    Ok(socket.into())
}

/// Joins the group, if it is one, where that is not so yet; interfaces come and go.
pub(super) fn join<'a>(socket: impl Into<SockRef<'a>>, air: &Air) {
    let socket = socket.into();
    let number = match &air.interface {
        Some(name) => match number_of(name) {
            Some(number) => number,
            None => return,
        },
        None => 0,
    };
    // It fails where that was done before.
    let _ = match air.address.ip() {
        IpAddr::V4(group) if group.is_multicast() => {
            socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(number))
        }
        IpAddr::V6(group) if group.is_multicast() => socket.join_multicast_v6(&group, number),
        _ => Ok(()),
    };
}
