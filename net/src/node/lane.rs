//! The sockets of a node: one for each bearer of the side that connects, one for all of the side that listens.

use std::fs;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;

use aquila_proto::BearerId;
use aquila_proto::cc::Radio;
use aquila_proto::session::BearerConfig;
use futures_util::future::select_all;
use tokio::sync::mpsc;

use super::changes::Changes;
use super::dial::Dialler;
use super::{NodeError, Role};
use crate::bearer::{BearerSpec, Source};
use crate::modem::{self, ModemSpec};
use crate::netwatch::NetworkChange;
use crate::socket::{BearerSocket, Datagram};

/// One socket and what belongs to it. The socket itself, what looks its address up and its modem are waited for at the same time,
/// and so are kept apart in [`Lanes`].
#[derive(Debug)]
pub(super) struct Lane {
    /// `None`: whichever the packet belongs to.
    pub bearer: Option<BearerId>,
    pub spec: BearerSpec,
    pub changes: Changes,
    /// Number of the interface that it is bound to, as long as there was one.
    interface: Option<u32>,
}

/// All of them; the lists are parallel.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    pub sockets: Sockets,
    pub diallers: Diallers,
    pub modems: Modems,
}

#[derive(Debug, Default)]
pub(super) struct Sockets {
    sockets: Vec<Option<BearerSocket>>,
    /// The one that is looked at first, so that none is forgotten.
    turn: usize,
}

/// The index of a lane, and the address if there is one.
type Resolved = (usize, Option<SocketAddr>);

#[derive(Debug, Default)]
pub(super) struct Diallers(Vec<Dialler>);

#[derive(Debug, Default)]
pub(super) struct Modems(Vec<Option<mpsc::Receiver<Radio>>>);

impl Lane {
    /// Whether a change of the network may concern it.
    pub fn is_concerned(&mut self, change: &NetworkChange) -> bool {
        if !matches!(self.spec.source, Source::Interface(_)) {
            return true;
        }
        let before = self.interface;
        self.look_for_interface();
        change.interface.is_none_or(|changed| before == Some(changed) || self.interface == Some(changed))
    }

    fn look_for_interface(&mut self) {
        if let Source::Interface(name) = &self.spec.source {
            let number = fs::read_to_string(format!("/sys/class/net/{name}/ifindex")).ok();
            self.interface = number.and_then(|number| number.trim().parse().ok()).or(self.interface);
        }
    }
}

impl Lanes {
    /// Adds that of a side that listens.
    pub fn listen(
        &mut self,
        address: SocketAddr,
        interface: Option<&str>,
        modem: Option<ModemSpec>,
    ) -> Result<(), NodeError> {
        let socket = BearerSocket::listen(address, interface).map_err(|error| NodeError::Listen(address, error))?;
        let spec = BearerSpec { modem, ..interface.map_or(BearerSpec::default(), BearerSpec::through) };
        self.push(None, spec, Some(socket), None);
        Ok(())
    }

    /// Adds that of a bearer to `remote`, or to where the bearer says. Its socket is opened with the first address.
    pub fn connect(&mut self, bearer: BearerId, spec: BearerSpec, remote: &str) {
        let remote = spec.remote.clone().unwrap_or_else(|| remote.to_owned());
        self.push(Some(bearer), spec, None, Some(remote));
    }

    fn push(
        &mut self,
        bearer: Option<BearerId>,
        spec: BearerSpec,
        socket: Option<BearerSocket>,
        remote: Option<String>,
    ) {
        self.sockets.sockets.push(socket);
        self.diallers.0.push(Dialler::new(remote));
        self.modems.0.push(spec.modem.as_ref().map(modem::watch));
        let mut lane = Lane { bearer, spec, changes: Changes::default(), interface: None };
        lane.look_for_interface();
        self.lanes.push(lane);
    }

    /// Takes that of a bearer away.
    pub fn remove(&mut self, bearer: BearerId) {
        if let Some(index) = self.lanes.iter().position(|lane| lane.bearer == Some(bearer)) {
            self.lanes.remove(index);
            self.sockets.sockets.remove(index);
            self.diallers.0.remove(index);
            self.modems.0.remove(index);
        }
    }

    /// The index of a bearer's.
    pub fn index_of(&self, bearer: BearerId) -> Option<usize> {
        let own = self.lanes.iter().position(|lane| lane.bearer == Some(bearer));
        own.or_else(|| self.lanes.iter().position(|lane| lane.bearer.is_none()))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter()
    }

    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    pub fn get(&mut self, index: usize) -> &mut Lane {
        &mut self.lanes[index]
    }

    pub fn socket(&mut self, index: usize) -> Option<&mut BearerSocket> {
        self.sockets.sockets[index].as_mut()
    }

    /// The address of a bearer's socket.
    pub fn local(&self, bearer: BearerId) -> Option<SocketAddr> {
        self.sockets.local(self.index_of(bearer)?)
    }

    pub fn dialler(&mut self, bearer: BearerId) -> Option<&mut Dialler> {
        self.index_of(bearer).map(|index| &mut self.diallers.0[index])
    }

    pub fn flush(&mut self) {
        self.sockets.sockets.iter_mut().flatten().for_each(BearerSocket::flush);
    }

    /// Packets that the kernel did not take.
    pub fn refused(&self, index: usize) -> u64 {
        self.sockets.sockets[index].as_ref().map_or(0, BearerSocket::errors)
    }

    /// When one of them has to look whether the network has changed.
    pub fn changes_due(&self) -> Option<Instant> {
        self.lanes.iter().filter_map(|lane| lane.changes.due()).min()
    }

    /// A socket that is bound to an interface or address dies with it; after the modem is back only a new one works.
    pub fn reopen_bound_socket(&mut self, index: usize, role: &Role) {
        let lane = &self.lanes[index];
        if lane.spec.source == Source::Any {
            return;
        }
        let reopened = match (role, self.sockets.local(index)) {
            (Role::Connect(_), Some(old)) => BearerSocket::towards(old, &lane.spec.source),
            // Opened with the next address that is looked up: at once, what was missing may be there.
            (Role::Connect(_), None) => return self.diallers.0[index].look_up(None),
            // There is no socket.
            (Role::ConnectByRadio, _) => return,
            (Role::Listen(address), _) => {
                // Its port has to be free first.
                self.sockets.sockets[index] = None;
                let Source::Interface(interface) = &lane.spec.source else { return };
                BearerSocket::listen(*address, Some(interface))
            }
        };
        match reopened {
            Ok(socket) => self.sockets.sockets[index] = Some(socket),
            // Still gone: its return is another network change.
            Err(error) => {
                let bearer = lane.spec.name();
                tracing::warn!(%error, bearer, "cannot open its socket; trying again when the network changes");
            }
        }
    }

    /// Makes sure that there is a socket to reach this address from; says why there is none.
    pub fn open_towards(&mut self, index: usize, address: SocketAddr) -> bool {
        if self.sockets.local(index).is_some_and(|local| local.is_ipv4() == address.is_ipv4()) {
            return true;
        }
        match BearerSocket::towards(address, &self.lanes[index].spec.source) {
            Ok(socket) => {
                self.sockets.sockets[index] = Some(socket);
                self.lanes[index].look_for_interface();
                true
            }
            Err(error) => {
                self.diallers.0[index].on_failure(&format!("cannot open a socket: {error}"));
                false
            }
        }
    }
}

impl Sockets {
    fn local(&self, index: usize) -> Option<SocketAddr> {
        self.sockets.get(index)?.as_ref()?.local_addr().ok()
    }

    /// Where the first one is.
    pub fn first_local(&self) -> Option<SocketAddr> {
        self.local(0)
    }

    /// Waits for datagrams on any of them and puts those of one into `batch`; gives its index.
    pub async fn receive(&mut self, batch: &mut Vec<Datagram>) -> usize {
        poll_fn(|context| {
            for n in 0..self.sockets.len() {
                let index = (self.turn + n) % self.sockets.len();
                let Some(socket) = &mut self.sockets[index] else { continue };
                if socket.poll_receive(context, batch).is_ready() {
                    self.turn = index + 1;
                    return Poll::Ready(index);
                }
            }
            Poll::Pending
        })
        .await
    }
}

impl Diallers {
    /// Waits for an address that a lane is to connect to; gives its index.
    pub async fn resolved(&mut self) -> Resolved {
        let mut resolved: Vec<Pin<Box<dyn Future<Output = Resolved> + Send + '_>>> = Vec::new();
        for (index, dialler) in self.0.iter_mut().enumerate() {
            if dialler.is_busy() {
                resolved.push(Box::pin(async move { (index, dialler.resolved().await) }));
            }
        }
        if resolved.is_empty() {
            return std::future::pending().await;
        }
        select_all(resolved).await.0
    }

    pub fn get(&mut self, index: usize) -> &mut Dialler {
        &mut self.0[index]
    }
}

impl Modems {
    /// Waits for what one of them has to say; gives the lane's index.
    pub async fn heard(&mut self) -> (usize, Radio) {
        poll_fn(|context| {
            for (index, modem) in self.0.iter_mut().enumerate() {
                let Some(receiver) = modem else { continue };
                match receiver.poll_recv(context) {
                    Poll::Ready(Some(radio)) => return Poll::Ready((index, radio)),
                    Poll::Ready(None) => *modem = None,
                    Poll::Pending => {}
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// What a session is told of a bearer.
pub(super) fn described(spec: &BearerSpec, resumption: Option<Vec<u8>>) -> BearerConfig {
    BearerConfig { name: spec.name(), usage: spec.usage, resumption, radio: None }
}
