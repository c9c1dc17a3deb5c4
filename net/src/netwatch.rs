//! Tells when an interface or address of this machine comes or goes, from the kernel's netlink messages.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use futures_util::StreamExt;
use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::LinkFlags;
use netlink_packet_route::route::RouteAttribute;
use rtnetlink::MulticastGroup;
use tokio::sync::mpsc;

/// A change that may open or close a way to the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkChange {
    /// What changed.
    pub what: Change,
    /// The number of the interface that it is about, if it is about one.
    pub interface: Option<u32>,
}

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// There is something new to send over.
    Came(Means),
    /// There is less.
    Gone(Means),
}

/// What it takes to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// An address of an interface.
    Address,
    /// An interface that is up, and its carrier.
    Link,
    /// A default route.
    Route,
}

/// Changes that wait to be taken; more are one with the last.
const PENDING: usize = 8;

/// Starts watching; must be called within a tokio runtime. Changes that nobody takes are forgotten when some wait already.
///
/// # Errors
/// If there is no netlink (not Linux, or a sandbox without it).
pub fn watch() -> io::Result<mpsc::Receiver<NetworkChange>> {
    let groups = [
        MulticastGroup::Link,
        MulticastGroup::Ipv4Ifaddr,
        MulticastGroup::Ipv6Ifaddr,
        MulticastGroup::Ipv4Route,
        MulticastGroup::Ipv6Route,
    ];
    let (connection, _handle, mut messages) = rtnetlink::new_multicast_connection(&groups)?;
    let (changes, receiver) = mpsc::channel(PENDING);
    let driver = tokio::spawn(connection);
    tokio::spawn(async move {
        let mut known = Known::default();
        while let Some((message, _)) = messages.next().await {
            let NetlinkPayload::InnerMessage(message) = message.payload else { continue };
            let Some(what) = judge(&message, &mut known) else { continue };
            let change = NetworkChange { what, interface: interface_of(&message) };
            tracing::debug!(?change, "network");
            if let Err(mpsc::error::TrySendError::Closed(_)) = changes.try_send(change) {
                break;
            }
        }
        driver.abort();
    });
    Ok(receiver)
}

/// What was last heard: links report many things besides coming up, and an address each time that its lifetime is renewed.
#[derive(Debug, Default)]
struct Known {
    links: BTreeMap<u32, LinkFlags>,
    addresses: BTreeSet<(u32, IpAddr)>,
}

/// Addresses remembered; beyond it the memory begins anew.
const MAX_ADDRESSES: usize = 1024;

/// Interface and address of a message.
fn address_of(message: &AddressMessage) -> Option<(u32, IpAddr)> {
    let address = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) | AddressAttribute::Address(address) => Some(*address),
        _ => None,
    })?;
    Some((message.header.index, address))
}

/// The interface that a message is about.
fn interface_of(message: &RouteNetlinkMessage) -> Option<u32> {
    use RouteNetlinkMessage::{DelAddress, DelLink, DelRoute, NewAddress, NewLink, NewRoute};
    match message {
        NewAddress(address) | DelAddress(address) => Some(address.header.index),
        NewLink(link) | DelLink(link) => Some(link.header.index),
        NewRoute(route) | DelRoute(route) => route.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => Some(*index),
            _ => None,
        }),
        _ => None,
    }
}

/// What a message means.
fn judge(message: &RouteNetlinkMessage, known: &mut Known) -> Option<Change> {
    let links = &mut known.links;
    match message {
        RouteNetlinkMessage::NewAddress(address) => {
            if known.addresses.len() >= MAX_ADDRESSES {
                known.addresses.clear();
            }
            let is_new = address_of(address).is_none_or(|address| known.addresses.insert(address));
            is_new.then_some(Change::Came(Means::Address))
        }
        RouteNetlinkMessage::DelAddress(address) => {
            if let Some(address) = address_of(address) {
                known.addresses.remove(&address);
            }
            Some(Change::Gone(Means::Address))
        }
        RouteNetlinkMessage::NewLink(link) => {
            let up = link.header.flags & (LinkFlags::Up | LinkFlags::LowerUp);
            let before = links.insert(link.header.index, up);
            let is_up = up == LinkFlags::Up | LinkFlags::LowerUp;
            let change = if is_up { Change::Came(Means::Link) } else { Change::Gone(Means::Link) };
            (before != Some(up)).then_some(change)
        }
        RouteNetlinkMessage::DelLink(link) => {
            links.remove(&link.header.index);
            Some(Change::Gone(Means::Link))
        }
        RouteNetlinkMessage::NewRoute(route) => {
            (route.header.destination_prefix_length == 0).then_some(Change::Came(Means::Route))
        }
        RouteNetlinkMessage::DelRoute(route) => {
            (route.header.destination_prefix_length == 0).then_some(Change::Gone(Means::Route))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::link::LinkMessage;
    use netlink_packet_route::route::RouteMessage;

    use super::*;

    #[test]
    fn only_changes_of_state_and_default_routes_count() {
        let mut links = Known::default();
        let link = |flags| {
            let mut link = LinkMessage::default();
            link.header.index = 3;
            link.header.flags = flags;
            RouteNetlinkMessage::NewLink(link)
        };
        assert_eq!(judge(&link(LinkFlags::Up), &mut links), Some(Change::Gone(Means::Link)));
        assert_eq!(judge(&link(LinkFlags::Up | LinkFlags::Promisc), &mut links), None);
        assert_eq!(judge(&link(LinkFlags::Up | LinkFlags::LowerUp), &mut links), Some(Change::Came(Means::Link)));
        let route = |prefix| {
            let mut route = RouteMessage::default();
            route.header.destination_prefix_length = prefix;
            RouteNetlinkMessage::NewRoute(route)
        };
        let mut through = RouteMessage::default();
        through.attributes.push(RouteAttribute::Oif(7));
        assert_eq!(interface_of(&RouteNetlinkMessage::NewRoute(through)), Some(7));
        assert_eq!((interface_of(&link(LinkFlags::Up)), interface_of(&route(0))), (Some(3), None));
        assert_eq!(judge(&route(24), &mut links), None);
        assert_eq!(judge(&route(0), &mut links), Some(Change::Came(Means::Route)));
    }

    #[test]
    fn an_address_counts_when_it_comes_and_goes_not_when_its_lifetime_is_renewed() {
        let mut known = Known::default();
        let address = |index, last| {
            let mut message = AddressMessage::default();
            message.header.index = index;
            message.attributes.push(AddressAttribute::Address(IpAddr::from([192, 0, 2, last])));
            message
        };
        let new = |index, last| RouteNetlinkMessage::NewAddress(address(index, last));
        assert_eq!(judge(&new(1, 7), &mut known), Some(Change::Came(Means::Address)));
        assert_eq!(judge(&new(1, 7), &mut known), None);
        assert_eq!(judge(&new(2, 7), &mut known), Some(Change::Came(Means::Address)));
        assert_eq!(
            judge(&RouteNetlinkMessage::DelAddress(address(1, 7)), &mut known),
            Some(Change::Gone(Means::Address))
        );
        assert_eq!(judge(&new(1, 7), &mut known), Some(Change::Came(Means::Address)));
    }
}
