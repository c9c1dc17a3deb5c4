//! What a gateway is made of, and why it cannot be.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aquila_proto::aerotp::SecurityError;
use aquila_proto::gateway::GatewayConfig;
use aquila_proto::identity::{Identity, PublicKey};

use super::intercept::{InterceptSpec, TunSpec};
use super::passage::GatewayEnd;
use super::rules::{Allow, Forward, Rule};
use super::tun::TunError;
use crate::radio::RadioSpec;
use crate::status::{Exposure, StatusError};

/// What is between two gateways.
#[derive(Debug)]
pub enum Way {
    /// A radio that is theirs alone.
    Radio(RadioSpec),
    /// A session, beside all else that it carries.
    Session(GatewayEnd),
}

/// What a gateway is made of.
#[derive(Debug, Clone)]
pub struct GatewaySetup {
    /// Who we are.
    pub identity: Arc<Identity>,
    /// The only one that we talk to.
    pub peer: PublicKey,
    /// We begin the handshake. One of the two sides does.
    pub initiates: bool,
    /// What is carried to the far side.
    pub forwards: Vec<Forward>,
    /// Connections that are taken where applications open them, and passed through to the far side.
    pub intercepts: Vec<InterceptSpec>,
    /// The TUN device for those, and for what the far side passes through to here; `None`: there is none, unless there are
    /// intercepts.
    pub tun: Option<TunSpec>,
    /// How, where a forward does not say so itself: the first that fits.
    pub rules: Vec<Rule>,
    /// What the far side may reach from here.
    pub allow: Vec<Allow>,
    /// How much it takes.
    pub limits: GatewayConfig,
    /// Folder of what must survive a restart, custody included.
    pub state_dir: PathBuf,
    /// Where the status page is served, and to whom.
    pub status: Option<(SocketAddr, Exposure)>,
    /// How the flows fare is logged this often; `None`: never.
    pub report: Option<Duration>,
}

/// Why a gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The other side's key is none that a secret can be agreed with.
    #[error("no secret can be agreed with the other side's key: {0}")]
    Key(#[from] SecurityError),
    /// There is no randomness.
    #[error("the system gives no random numbers")]
    Random,
    /// The folder cannot be used.
    #[error("cannot keep anything in custody in {}", .0.display())]
    State(PathBuf, #[source] io::Error),
    /// A forward's address cannot be used.
    #[error("cannot listen for {0}{hint}", hint = match .1.kind() {
        io::ErrorKind::AddrInUse => " (another program has this port: see `ss -lntup`)",
        io::ErrorKind::PermissionDenied => " (ports below 1024 need root, or CAP_NET_BIND_SERVICE)",
        _ => "",
    })]
    Listen(Box<Forward>, #[source] io::Error),
    /// There is no status page.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// There is no TUN device.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// What the radio is spoken over would be taken by its own gateway.
    #[error("{0} would take what goes to the other gateway at {1}")]
    Circle(InterceptSpec, SocketAddr),
}
