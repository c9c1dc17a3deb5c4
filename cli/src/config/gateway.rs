//! `[gateway]`: what is carried between local applications and the far side's.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use aquila_net::gateway::{Allow, Forward, InterceptSpec, Rule, TunSpec};
use aquila_net::radio::RadioSpec;
use aquila_net::status::Exposure;
use aquila_proto::gateway::GatewayConfig;
use aquila_proto::identity::PublicKey;
use serde::Deserialize;
use tracing_subscriber::EnvFilter;

use super::file::File;
use super::settings::{DEFAULT_LOG, Environment, Invalid, key_file, status};
use super::units::{Bytes, Count, Text, Time};

/// The section of the file.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gateway {
    pub side: Option<GatewaySide>,
    pub radio: Option<Text<RadioSpec>>,
    pub forwards: Option<Vec<Text<Forward>>>,
    pub intercepts: Option<Vec<Text<InterceptSpec>>>,
    pub tun: Option<Text<TunSpec>>,
    pub rules: Option<Vec<Text<Rule>>>,
    pub allow: Option<Vec<Text<Allow>>>,
    pub max_flows: Option<Count<1, { GatewayConfig::MOST_FLOWS as u64 }>>,
    pub flow_custody: Option<Bytes<65_536, 4_294_967_296>>,
    pub custody: Option<Bytes<65_536, 1_099_511_627_776>>,
    pub udp_idle: Option<Time<1_000, 3_600_000>>,
    pub report: Option<Time<1_000, 86_400_000>>,
}

/// Which end this is: the aircraft's begins the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GatewaySide {
    /// In the aircraft
    Air,
    /// On the ground
    Ground,
}

/// Everything that a gateway needs to know.
#[derive(Debug, Clone)]
pub struct GatewaySettings {
    /// Which end.
    pub side: GatewaySide,
    /// The file of our private key.
    pub key: PathBuf,
    /// The only key that we talk to.
    pub peer: PublicKey,
    /// The radio.
    pub radio: RadioSpec,
    /// What is carried over it.
    pub carried: Carried,
    /// Folder of what must survive a restart.
    pub state: PathBuf,
    /// Where the status page is served, and to whom.
    pub status: Option<(SocketAddr, Exposure)>,
    /// What is logged.
    pub log: String,
}

/// What a gateway carries, by whatever way.
#[derive(Debug, Clone)]
pub struct Carried {
    /// What is carried to the far side.
    pub forwards: Vec<Forward>,
    /// What is passed through to the far side.
    pub intercepts: Vec<InterceptSpec>,
    /// The TUN device for that.
    pub tun: Option<TunSpec>,
    /// How.
    pub rules: Vec<Rule>,
    /// What the far side may reach.
    pub allow: Vec<Allow>,
    /// How much is taken.
    pub limits: GatewayConfig,
    /// How the flows fare is logged this often.
    pub report: Duration,
}

const REPORT: Duration = Duration::from_secs(60);

impl Gateway {
    /// Whether `aquila air` and `aquila ground` are to carry it on their link: something is, and there is no radio for it.
    pub fn goes_by_link(&self) -> bool {
        let something =
            self.forwards.is_some() || self.intercepts.is_some() || self.tun.is_some() || self.allow.is_some();
        something && self.radio.is_none()
    }

    pub fn carried(self) -> Carried {
        let defaults = GatewayConfig::default();
        let allow = self.allow.map(|list| list.into_iter().map(|Text(one)| one).collect());
        Carried {
            forwards: self.forwards.into_iter().flatten().map(|Text(one)| one).collect(),
            intercepts: self.intercepts.into_iter().flatten().map(|Text(one)| one).collect(),
            tun: self.tun.map(|Text(tun)| tun),
            rules: self.rules.into_iter().flatten().map(|Text(one)| one).collect(),
            allow: allow.unwrap_or_else(Allow::loopback),
            limits: GatewayConfig {
                max_flows: self.max_flows.map_or(defaults.max_flows, Count::get),
                flow_custody: self.flow_custody.map_or(defaults.flow_custody, Bytes::get),
                total_custody: self.custody.map_or(defaults.total_custody, Bytes::get),
                udp_idle: self.udp_idle.map_or(defaults.udp_idle, Time::get),
            },
            report: self.report.map_or(REPORT, Time::get),
        }
    }
}

impl GatewaySettings {
    /// What `file` means for a gateway.
    pub fn resolve(file: File, environment: &Environment) -> Result<Self, Invalid> {
        let gateway = file.gateway;
        let state = file.link.state.or_else(|| environment.state.clone());
        let log = file.log.level.unwrap_or_else(|| DEFAULT_LOG.to_owned());
        if EnvFilter::try_new(&log).is_err() {
            return Err(Invalid::Log(log));
        }
        let Text(peer) = file.identity.peer.ok_or(Invalid::NoPeer)?;
        let Text(radio) = gateway.radio.clone().ok_or(Invalid::NoGatewayRadio)?;
        Ok(Self {
            side: gateway.side.ok_or(Invalid::NoGatewaySide)?,
            key: file.identity.key.map_or_else(|| key_file(state.clone()), Ok)?,
            peer,
            radio,
            carried: gateway.carried(),
            state: state.ok_or(Invalid::NoState)?,
            status: status(file.status),
            log,
        })
    }
}
