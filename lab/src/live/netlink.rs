//! Interfaces and addresses of the calling thread's network namespace, over one netlink socket that waits for each
//! answer.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage, Stats64};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::sys::socket::{AddressFamily as Family, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

/// Larger than any answer to what is asked here.
const ANSWER: usize = 32 * 1024;

#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

/// What is set at an interface; `None` leaves it as it is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Interface {
    pub(super) up: Option<bool>,
    pub(super) mtu: Option<u32>,
    /// Packets that wait in the device for a reader.
    pub(super) queue: Option<u32>,
}

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        let socket = socket(Family::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
        Ok(Self { socket, sequence: 0 })
    }

    pub(super) fn set(&mut self, index: u32, interface: Interface) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        if let Some(up) = interface.up {
            message.header.change_mask = LinkFlags::Up;
            message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
        }
        message.attributes.extend(interface.mtu.map(LinkAttribute::Mtu));
        message.attributes.extend(interface.queue.map(LinkAttribute::TxQueueLen));
        self.request(RouteNetlinkMessage::SetLink(message), NLM_F_ACK).map(drop)
    }

    pub(super) fn add_address(&mut self, index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
        let message = RouteNetlinkMessage::NewAddress(address_message(index, address, prefix));
        self.request(message, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    pub(super) fn delete_address(&mut self, index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
        let message = RouteNetlinkMessage::DelAddress(address_message(index, address, prefix));
        self.request(message, NLM_F_ACK).map(drop)
    }

    pub(super) fn counters(&mut self, index: u32) -> io::Result<Stats64> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        let Some(RouteNetlinkMessage::NewLink(link)) = self.request(RouteNetlinkMessage::GetLink(message), 0)? else {
            return Err(io::Error::other("the kernel did not describe the interface"));
        };
        let counters = link.attributes.into_iter().find_map(|attribute| match attribute {
            LinkAttribute::Stats64(counters) => Some(counters),
            _ => None,
        });
        counters.ok_or_else(|| io::Error::other("the kernel has no counters of the interface"))
    }

    /// Sends a request and waits for the answer: a message, or `None` for "done".
    fn request(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Option<RouteNetlinkMessage>> {
        self.sequence += 1;
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | flags;
        request.header.sequence_number = self.sequence;
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        send(self.socket.as_raw_fd(), &bytes, MsgFlags::empty())?;
        let mut answer = vec![0; ANSWER];
        loop {
            let length = recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
            let message =
                NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer[..length]).map_err(io::Error::other)?;
            if message.header.sequence_number != self.sequence {
                continue;
            }
            return match message.payload {
                NetlinkPayload::Error(error) => match error.code {
                    Some(code) => Err(io::Error::from_raw_os_error(code.get().abs())),
                    None => Ok(None),
                },
                NetlinkPayload::InnerMessage(message) => Ok(Some(message)),
                _ => Ok(None),
            };
        }
    }
}

fn address_message(index: u32, address: IpAddr, prefix: u8) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.index = index;
    message.header.prefix_len = prefix;
    message.header.family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    // Without it an IPv6 address is tentative, and cannot be bound, until a worker of the kernel comes to it.
    message.header.flags = AddressHeaderFlags::Nodad;
    message.attributes.push(AddressAttribute::Address(address));
    message.attributes.push(AddressAttribute::Local(address));
    message
}
