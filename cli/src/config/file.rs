//! What a configuration file may say. Every key is optional; what is missing has the default that `packaging/aquila.toml`
//! names.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use aquila_net::bearer::BearerSpec;
use aquila_net::encoder::{EncoderKind, EncoderSpec, Size};
use aquila_net::mavlink::EndpointSpec;
use aquila_net::modem::ModemSpec;
use aquila_net::radio::RadioSpec;
use aquila_net::video::VideoSpec;
use aquila_proto::identity::PublicKey;
use serde::Deserialize;

use super::congestion::Congestion;
use super::gateway::Gateway;
use super::mule::Mule;
use super::units::{Bytes, Chance, Count, Mtu, Ratio, Remote, Speed, Text, Time};

/// A whole configuration file. The fields are its sections and keys, where they are explained.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    pub identity: Identity,
    pub link: Link,
    pub mavlink: Mavlink,
    pub video: Video,
    pub control: Control,
    pub replication: Replication,
    pub congestion: Congestion,
    pub gateway: Gateway,
    pub mule: Mule,
    pub status: Status,
    pub log: Log,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Identity {
    pub key: Option<PathBuf>,
    pub peer: Option<Text<PublicKey>>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Link {
    pub listen: Option<Text<SocketAddr>>,
    pub connect: Option<Text<Remote>>,
    pub bind_interface: Option<String>,
    pub bearers: Option<Vec<Text<BearerSpec>>>,
    pub radios: Option<Vec<Text<RadioSpec>>>,
    pub mtu: Option<Mtu>,
    pub modem: Option<Text<ModemSpec>>,
    pub heartbeat: Option<Time<20, 5_000>>,
    pub stalled_after: Option<Time<50, 30_000>>,
    pub lost_after: Option<Time<100, 60_000>>,
    pub state: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mavlink {
    pub endpoints: Option<Vec<EndpointSpec>>,
    pub setup_signing: Option<bool>,
    pub radio_status: Option<bool>,
    pub overrides: BTreeMap<String, Treatment>,
}

/// How a MAVLink message travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Treatment {
    /// Control, kept until acknowledged.
    Command,
    /// Control, only the newest, and only while it is fresh.
    Setpoint,
    /// Telemetry, only the newest.
    State,
    /// Telemetry, kept until acknowledged.
    Transaction,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Video {
    pub inputs: Option<Vec<Text<VideoSpec>>>,
    pub outputs: Option<Vec<Text<VideoSpec>>>,
    pub camera: Option<String>,
    pub h265: Option<bool>,
    pub intra_refresh: Option<bool>,
    pub encoder: Option<Text<EncoderSpec>>,
    pub encoder_kind: Option<Text<EncoderKind>>,
    pub sizes: Option<Vec<Text<Size>>>,
    pub encoder_least: Option<Speed<10_000, 100_000_000>>,
    pub encoder_most: Option<Speed<10_000, 1_000_000_000>>,
    pub queue_frames: Option<Count<1, 10_000>>,
    pub queue_bytes: Option<Bytes<65_536, 67_108_864>>,
    pub queue_age: Option<Time<20, 10_000>>,
    pub reorder: Option<Time<0, 1_000>>,
    pub max_frame_age: Option<Time<100, 60_000>>,
    pub parity: Option<Ratio<0, 2_000>>,
    pub parity_frames: Option<Count<1, 16>>,
    pub repeat: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Control {
    pub command_age: Option<Time<100, 120_000>>,
    pub setpoint_age: Option<Time<50, 2_000>>,
    pub liveness_age: Option<Time<100, 5_000>>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Replication {
    pub classes: Option<Vec<Replicated>>,
    pub failure: Option<Chance>,
    pub deadline: Option<Time<0, 10_000>>,
    pub repeats: Option<Chance>,
    pub budget: Option<Speed<0, 100_000_000>>,
}

/// A class that can be replicated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Replicated {
    Control,
    Telemetry,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Status {
    pub listen: Option<Text<SocketAddr>>,
    pub allow_remote: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    pub level: Option<String>,
}
