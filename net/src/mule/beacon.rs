//! How a store in range is found: who listens says so, each second, to the group of all that look.
//!
//! | bytes | |
//! |---|---|
//! | 4 | `aqB1` |
//! | 32 | public key of who speaks |
//! | 1 | how many entries follow, at most 32 |
//! | 8, 2 | each: beginning of the SHA-256 hash of a peer's public key, UDP port at which that peer is waited for |
//!
//! Nothing here is authenticated: a beacon says only where to try. Who answers there has to prove its key in the handshake.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use aquila_proto::identity::PublicKey;
use ring::digest::{SHA256, digest};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use tokio::net::UdpSocket;

/// Group (administratively scoped, RFC 2365) and port that beacons go to.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 94, 10);
const PORT: u16 = 9_409;
const MAGIC: &[u8; 4] = b"aqB1";
const MAX_ENTRIES: usize = 32;
/// Longest beacon, in bytes.
pub const MAX_BEACON: usize = 37 + MAX_ENTRIES * 10;

/// What a beacon says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beacon {
    /// Who says it.
    pub key: PublicKey,
    /// Which peers it waits for, by [`Beacon::name_of`], and at which UDP ports; at most 32.
    pub waits_for: Vec<([u8; 8], u16)>,
}

impl Beacon {
    /// What a peer is called in a beacon.
    pub fn name_of(peer: &PublicKey) -> [u8; 8] {
        let mut name = [0; 8];
        name.copy_from_slice(&digest(&SHA256, &peer.0).as_ref()[..8]);
        name
    }

    /// The port at which it waits for a peer.
    pub fn port_for(&self, peer: &PublicKey) -> Option<u16> {
        let name = Self::name_of(peer);
        self.waits_for.iter().find(|(other, _)| *other == name).map(|(_, port)| *port)
    }

    /// As bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let entries = &self.waits_for[..self.waits_for.len().min(MAX_ENTRIES)];
        let mut bytes = [&MAGIC[..], &self.key.0, &[entries.len() as u8]].concat();
        for (name, port) in entries {
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(&port.to_be_bytes());
        }
        bytes
    }

    /// Reads one; `None` if these bytes are none.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (key, rest) = rest.split_first_chunk::<32>()?;
        let (count, rest) = rest.split_first()?;
        let count = usize::from(*count);
        if count > MAX_ENTRIES || rest.len() != count * 10 {
            return None;
        }
        let entries = rest.as_chunks::<10>().0.iter().map(|entry| {
            let (name, port) = entry.split_at(8);
            let name: [u8; 8] = name.try_into().unwrap_or_default();
            (name, port.iter().fold(0, |port, byte| port << 8 | u16::from(*byte)))
        });
        Some(Self { key: PublicKey(*key), waits_for: entries.collect() })
    }
}

/// Number of a network interface; `None` while there is none of that name.
pub(super) fn number_of(interface: &str) -> Option<u32> {
    nix::net::if_::if_nametoindex(interface).ok().filter(|number| *number > 0)
}

/// A socket that hears beacons on the interfaces on which the group is joined.
pub(super) fn listen() -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from((GROUP, PORT)).into())?;
    UdpSocket::from_std(socket.into())
}

/// Joins the group where that is not so yet; interfaces come and go.
pub(super) fn join<'a>(socket: impl Into<socket2::SockRef<'a>>, interfaces: &[String], troubles: &mut Troubles) {
    let socket = socket.into();
    for interface in interfaces {
        let joined = match number_of(interface) {
            Some(number) => socket.join_multicast_v4_n(&GROUP, &InterfaceIndexOrAddress::Index(number)),
            None => Err(no_such_interface()),
        };
        // It was done before.
        let joined = joined.or_else(|error| if error.kind() == io::ErrorKind::AddrInUse { Ok(()) } else { Err(error) });
        troubles.on("look for others", interface, joined);
    }
}

/// Speaks on each of these interfaces that there is.
pub(super) async fn speak(beacon: &Beacon, interfaces: &[String], troubles: &mut Troubles) {
    let bytes = beacon.to_bytes();
    for interface in interfaces {
        let sent = async {
            number_of(interface).ok_or_else(no_such_interface)?;
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
            socket.set_nonblocking(true)?;
            socket.set_multicast_ttl_v4(1)?;
            socket.bind_device(Some(interface.as_bytes()))?;
            let socket = UdpSocket::from_std(socket.into())?;
            socket.send_to(&bytes, SocketAddrV4::new(GROUP, PORT)).await
        };
        // An interface that is down just now is spoken on later.
        let sent: io::Result<usize> = sent.await;
        troubles.on("announce", interface, sent.map(drop));
    }
}

fn no_such_interface() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "there is no such interface")
}

/// What is wrong with interfaces: said once, and again when it is something else.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    said: BTreeMap<String, String>,
}

impl Troubles {
    /// What became of an attempt to do something there. Gives what was said of it.
    fn on(&mut self, what: &str, interface: &str, result: io::Result<()>) -> Option<String> {
        let before = self.said.get(interface);
        match result.map_err(|error| error.to_string()) {
            Ok(()) => {
                self.said.remove(interface)?;
                let now = format!("{what} on {interface}: works now");
                tracing::info!("{now}");
                Some(now)
            }
            Err(why) if before == Some(&why) => None,
            Err(why) => {
                let now = format!("cannot {what} on {interface}: {why}; trying again each second");
                tracing::warn!("{now}");
                self.said.insert(interface.to_owned(), why);
                Some(now)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_complained_of_once() {
        let mut troubles = Troubles::default();
        let mut on = |result| troubles.on("announce", "nosuchif0", result);
        let said = on(Err(no_such_interface())).unwrap();
        assert!(said.contains("nosuchif0") && said.contains("no such interface"), "{said}");
        assert_eq!(on(Err(no_such_interface())), None);
        let said = on(Err(io::Error::other("Network is down"))).unwrap();
        assert!(said.contains("Network is down"), "{said}");
        assert!(on(Ok(())).is_some());
        assert_eq!(on(Ok(())), None);
        assert!(on(Err(no_such_interface())).is_some());
    }

    #[tokio::test]
    async fn who_announces_on_an_interface_that_is_not_there_hears_of_it() {
        let beacon = Beacon { key: PublicKey([9; 32]), waits_for: Vec::new() };
        let interfaces = ["nosuchif0".to_owned()];
        let mut troubles = Troubles::default();
        speak(&beacon, &interfaces, &mut troubles).await;
        assert_eq!(troubles.said.get("nosuchif0").map(String::as_str), Some("there is no such interface"));
        let mut looking = Troubles::default();
        join(&Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap(), &interfaces, &mut looking);
        assert_eq!(looking.said, troubles.said);
    }

    #[test]
    fn a_beacon_is_read_and_nothing_else() {
        let peers = [1, 2, 3].map(|n| PublicKey([n; 32]));
        let waits_for = peers.iter().zip(9_410..).map(|(peer, port)| (Beacon::name_of(peer), port)).collect();
        let beacon = Beacon { key: PublicKey([9; 32]), waits_for };
        let bytes = beacon.to_bytes();
        assert!(bytes.len() <= MAX_BEACON);
        assert_eq!(Beacon::parse(&bytes), Some(beacon.clone()));
        assert_eq!(beacon.port_for(&peers[1]), Some(9_411));
        assert_eq!(beacon.port_for(&PublicKey([4; 32])), None);
        for at in 0..bytes.len() {
            assert_eq!(Beacon::parse(&bytes[..at]), None);
        }
        assert_eq!(Beacon::parse(&[&bytes[..], &[0]].concat()), None);
        let many = Beacon { waits_for: vec![([0; 8], 1); 100], ..beacon };
        assert_eq!(Beacon::parse(&many.to_bytes()).map(|beacon| beacon.waits_for.len()), Some(MAX_ENTRIES));
    }
}
