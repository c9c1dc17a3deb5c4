//! MAVLink endpoints: serial lines, UDP and TCP, any number of them, each with its own task.
//!
//! What goes where is not decided here but by [`aquila_proto::mavlink::Router`]; frames pass byte for byte. Everything an
//! endpoint has to say comes over one channel as [`EndpointEvent`]s, in order; everything for it goes through its
//! [`Endpoint`] handle.
//!
//! **One endpoint per peer.** `udpin` and `tcpin` are only doors: each UDP peer and each TCP client becomes an [`Endpoint`] with
//! an id of its own when it is first heard or connects, and goes away when it falls silent or hangs up. So a frame addressed to
//! one ground station is not sent to the others, and what one of them sends reaches the others. `serial`, `udpout` and `tcpout`
//! are one endpoint each for as long as the program runs, unplugged or not.
//!
//! **Pressure.** If the session does not take events, serial lines and TCP connections are not read any more, so that the
//! sender waits; UDP has nobody to wait and counts drops after [`UDP_PATIENCE`]. If a peer does not read, its queue fills and
//! drops are counted; see [`Refused`].

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aquila_proto::Class;
use aquila_proto::mavlink::{EndpointId, Frame};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use outgoing::{Backlog, Outgoing, Share};
use status::Meter;

mod outgoing;
mod serial;
mod spec;
mod status;
mod stream;
mod tcp;
mod udp;

pub use outgoing::Refused;
pub use spec::{EndpointSpec, HostPort, KINDS, Kind, SpecError, help};
pub use status::{EndpointState, EndpointStatus};

/// Something an endpoint has to say.
#[derive(Debug)]
pub enum EndpointEvent {
    /// There is an endpoint; precedes everything else about it.
    Added(Endpoint),
    /// It received a frame.
    Frame {
        /// The endpoint.
        from: EndpointId,
        /// What it received.
        frame: Frame,
    },
    /// It is gone for good; its id is not used again.
    Removed(EndpointId),
}

/// One peer to exchange frames with.
#[derive(Debug, Clone)]
pub struct Endpoint {
    id: EndpointId,
    port: usize,
    label: Arc<str>,
    outgoing: Outgoing,
    share: Arc<Share>,
}

impl Endpoint {
    /// Its id, for the router.
    pub fn id(&self) -> EndpointId {
        self.id
    }

    /// Which of the specs given to [`Endpoints::spawn`] it belongs to.
    pub fn port(&self) -> usize {
        self.port
    }

    /// For people: the spec, and the peer's address if there may be several.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Queues a frame to be sent; never waits. [`Class::Control`] overtakes all others.
    ///
    /// # Errors
    /// [`Refused`] if it was dropped instead, which is counted.
    pub fn send(&self, frame: Frame, class: Class) -> Result<(), Refused> {
        self.outgoing.send(&self.share, frame, class)
    }

    /// What it is doing.
    pub fn status(&self) -> EndpointStatus {
        self.share.meter.status()
    }
}

/// Makes endpoint ids. Clones make ids of one sequence, so that the session can name its air-ground link from it too.
#[derive(Debug, Clone, Default)]
pub struct EndpointIds(Arc<AtomicU32>);

impl EndpointIds {
    /// A sequence that begins at 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// An id not used before.
    pub fn allocate(&self) -> EndpointId {
        EndpointId(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// The tasks behind a list of specs. They end when this is dropped or the receiver of events is.
#[derive(Debug)]
pub struct Endpoints {
    ports: Vec<Port>,
    tasks: JoinSet<()>,
    stop: watch::Sender<bool>,
}

#[derive(Debug)]
struct Port {
    spec: EndpointSpec,
    meter: Arc<Meter>,
    local: Option<SocketAddr>,
}

/// A listening endpoint could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("{spec}{}", hint(source))]
pub struct SpawnError {
    /// Which one.
    pub spec: EndpointSpec,
    /// What the system says.
    pub source: io::Error,
}

impl Endpoints {
    /// Starts one task per spec. [`EVENTS`] is a good capacity for the channel. Ports that listen are bound when this
    /// returns; whatever else is not there yet is tried again for as long as it takes.
    ///
    /// # Errors
    /// [`SpawnError`] if a port to listen on is taken or not ours.
    pub async fn spawn(
        specs: &[EndpointSpec],
        ids: &EndpointIds,
        events: mpsc::Sender<EndpointEvent>,
    ) -> Result<Self, SpawnError> {
        let (stop, stopped) = watch::channel(false);
        let mut endpoints = Self { ports: Vec::new(), tasks: JoinSet::new(), stop };
        for (port, spec) in specs.iter().enumerate() {
            let listens = matches!(spec, EndpointSpec::UdpIn(_) | EndpointSpec::TcpIn(_));
            let meter = Meter::new(if listens { EndpointState::Listening } else { EndpointState::Down });
            let door = Door {
                port,
                spec: spec.clone(),
                meter: meter.clone(),
                ids: ids.clone(),
                events: events.clone(),
                stopped: stopped.clone(),
            };
            let local =
                endpoints.start(spec, door).await.map_err(|source| SpawnError { spec: spec.clone(), source })?;
            endpoints.ports.push(Port { spec: spec.clone(), meter, local });
        }
        Ok(endpoints)
    }

    /// Each spec with its state and counters; for `udpin` and `tcpin` these include all their peers, past ones too.
    pub fn status(&self) -> impl Iterator<Item = (&EndpointSpec, EndpointStatus)> {
        self.ports.iter().map(|port| (&port.spec, port.meter.status()))
    }

    /// The address that the spec at `port` listens on or sends from, if it is known: `serial` and `tcpout` have none.
    pub fn local_addr(&self, port: usize) -> Option<SocketAddr> {
        self.ports.get(port)?.local
    }

    /// Ends all tasks and returns when every port is closed. Frames still queued are lost.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }

    async fn start(&mut self, spec: &EndpointSpec, door: Door) -> io::Result<Option<SocketAddr>> {
        match spec {
            EndpointSpec::Serial { path, baud } => {
                self.tasks.spawn(serial::run(door, path.clone(), *baud));
                Ok(None)
            }
            EndpointSpec::UdpIn(at) => {
                let socket = udp::bind(at).await?;
                let local = socket.local_addr()?;
                self.tasks.spawn(udp::listen(door, socket));
                Ok(Some(local))
            }
            EndpointSpec::UdpOut(to) => {
                self.tasks.spawn(udp::send(door, to.clone()));
                Ok(None)
            }
            EndpointSpec::TcpIn(at) => {
                let listener = tcp::bind(at).await?;
                let local = listener.local_addr()?;
                self.tasks.spawn(tcp::listen(door, listener));
                Ok(Some(local))
            }
            EndpointSpec::TcpOut(to) => {
                self.tasks.spawn(tcp::connect(door, to.clone()));
                Ok(None)
            }
        }
    }
}

/// What a task knows: the port it serves and how to talk to the session.
#[derive(Debug, Clone)]
struct Door {
    port: usize,
    spec: EndpointSpec,
    meter: Arc<Meter>,
    ids: EndpointIds,
    events: mpsc::Sender<EndpointEvent>,
    stopped: watch::Receiver<bool>,
}

/// The session does not listen any more, or the program ends.
#[derive(Debug)]
struct Stopped;

impl Door {
    /// The port's only endpoint, announced to the session.
    async fn only_endpoint(&self) -> Result<(Endpoint, Backlog), Stopped> {
        let (outgoing, backlog) = outgoing::queue();
        let share = Share::new(self.meter.clone(), None);
        let endpoint = self.endpoint(self.spec.to_string(), outgoing, share);
        self.say(EndpointEvent::Added(endpoint.clone())).await?;
        Ok((endpoint, backlog))
    }

    /// An endpoint for one of several peers; not announced yet.
    fn peer(&self, address: SocketAddr, outgoing: Outgoing, to: Option<SocketAddr>) -> Endpoint {
        let shown = SocketAddr::new(address.ip().to_canonical(), address.port());
        let share = Share::new(Meter::peer_of(&self.meter), to);
        self.endpoint(format!("{} from {shown}", self.spec), outgoing, share)
    }

    fn endpoint(&self, label: String, outgoing: Outgoing, share: Arc<Share>) -> Endpoint {
        Endpoint { id: self.ids.allocate(), port: self.port, label: label.into(), outgoing, share }
    }

    async fn say(&self, event: EndpointEvent) -> Result<(), Stopped> {
        self.events.send(event).await.map_err(|_| Stopped)
    }

    /// Runs `task` until it ends, the program does, or nobody listens to events any more.
    async fn until_stopped<T>(&self, task: impl Future<Output = T>) {
        let mut stopped = self.stopped.clone();
        tokio::select! {
            biased;
            _ = stopped.wait_for(|&stopped| stopped) => {}
            () = self.events.closed() => {}
            _ = task => {}
        }
    }
}

/// Says a change of state once, and a reason for being down once.
#[derive(Debug)]
struct StateLog {
    label: Arc<str>,
    said: Option<String>,
}

impl StateLog {
    fn new(label: &Arc<str>) -> Self {
        Self { label: label.clone(), said: None }
    }

    fn up(&mut self, meter: &Meter) {
        meter.set_state(EndpointState::Up);
        self.said = None;
        tracing::info!(endpoint = %self.label, "up");
    }

    fn down(&mut self, meter: &Meter, why: &dyn std::fmt::Display) {
        meter.set_state(EndpointState::Down);
        self.trouble(why);
    }

    /// Something is wrong, though not enough to be down.
    fn trouble(&mut self, why: &dyn std::fmt::Display) {
        let why = why.to_string();
        if self.said.as_ref() != Some(&why) {
            tracing::warn!(endpoint = %self.label, "{why}");
            self.said = Some(why);
        }
    }
}

/// What to do about the usual errors.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => " (another program has this port: close it, or choose another port)",
        io::ErrorKind::PermissionDenied => {
            " (ports below 1024 belong to root; serial devices need membership in the group dialout)"
        }
        io::ErrorKind::AddrNotAvailable => " (no interface of this machine has this address)",
        _ => "",
    }
}

/// Capacity for the channel of events: three parameter sets of ArduCopter (1,348 messages each).
pub const EVENTS: usize = 4096;
/// How long a UDP frame waits for room in the channel of events before it is dropped. The socket's buffer holds what
/// arrives meanwhile.
pub const UDP_PATIENCE: Duration = Duration::from_millis(100);
/// Most peers of one listening endpoint.
pub const MAX_PEERS: usize = 32;

#[cfg(test)]
mod testkit;
#[cfg(test)]
mod tests;
