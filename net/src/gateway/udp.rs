//! UDP sockets: one for each forward, and one for each client of the far side's.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use aquila_proto::gateway::{Client, Peer};
use socket2::SockRef;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// What has come.
#[derive(Debug)]
pub(super) enum UdpEvent {
    FromClient { listener: u16, address: SocketAddr, bytes: Vec<u8> },
    FromTarget { peer: Peer, bytes: Vec<u8> },
}

#[derive(Debug)]
struct Served {
    socket: Arc<UdpSocket>,
    task: JoinHandle<()>,
}

/// All of them.
#[derive(Debug)]
pub(super) struct UdpSockets {
    events: mpsc::Sender<UdpEvent>,
    listeners: BTreeMap<u16, Served>,
    targets: BTreeMap<Peer, Served>,
    told: bool,
}

/// Longest datagram.
const LONGEST: usize = 65_536;

impl UdpSockets {
    pub fn new(events: mpsc::Sender<UdpEvent>) -> Self {
        Self { events, listeners: BTreeMap::new(), targets: BTreeMap::new(), told: false }
    }

    pub async fn listen(&mut self, listener: u16, address: SocketAddr) -> io::Result<SocketAddr> {
        let socket = Arc::new(UdpSocket::bind(address).await?);
        let local = socket.local_addr()?;
        let (own, events) = (Arc::clone(&socket), self.events.clone());
        let task = tokio::spawn(async move {
            receive(&own, |address, bytes| {
                let event = UdpEvent::FromClient { listener, address, bytes };
                // What cannot be taken is dropped, as UDP does.
                !matches!(events.try_send(event), Err(mpsc::error::TrySendError::Closed(_)))
            })
            .await;
        });
        self.listeners.insert(listener, Served { socket, task });
        Ok(local)
    }

    /// Sends to a target, from a socket that the client has for itself.
    pub fn send(&mut self, peer: Peer, bytes: &[u8], allowed: bool) {
        if !allowed {
            if !std::mem::replace(&mut self.told, true) {
                tracing::warn!(target = %peer.to, "the far side sends where it is not allowed to: see --allow");
            }
            return;
        }
        if !self.targets.contains_key(&peer) {
            match self.open(peer) {
                Ok(served) => drop(self.targets.insert(peer, served)),
                Err(error) => return tracing::warn!(%error, target = %peer.to, "cannot send datagrams"),
            }
        }
        if let Some(served) = self.targets.get(&peer) {
            // A new socket is not known to be ready yet: the kernel is asked, not tokio.
            let _ = SockRef::from(&*served.socket).send(bytes);
        }
    }

    fn open(&self, peer: Peer) -> io::Result<Served> {
        let any: SocketAddr = match peer.to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = std::net::UdpSocket::bind(any)?;
        socket.set_nonblocking(true)?;
        socket.connect(peer.to)?;
        let socket = Arc::new(UdpSocket::from_std(socket)?);
        let (own, events) = (Arc::clone(&socket), self.events.clone());
        let task = tokio::spawn(async move {
            receive(&own, |_, bytes| {
                let event = UdpEvent::FromTarget { peer, bytes };
                !matches!(events.try_send(event), Err(mpsc::error::TrySendError::Closed(_)))
            })
            .await;
        });
        Ok(Served { socket, task })
    }

    pub fn answer(&self, client: Client, bytes: &[u8]) {
        if let Some(served) = self.listeners.get(&client.listener) {
            let _ = SockRef::from(&*served.socket).send_to(bytes, &client.address.into());
        }
    }

    pub fn forget(&mut self, peer: Peer) {
        self.targets.remove(&peer);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn receive(socket: &UdpSocket, mut take: impl FnMut(SocketAddr, Vec<u8>) -> bool) {
    let mut buffer = vec![0; LONGEST];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((len, from)) => {
                if !take(from, buffer[..len].to_vec()) {
                    return;
                }
            }
            // An ICMP message: nobody is there now.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}
