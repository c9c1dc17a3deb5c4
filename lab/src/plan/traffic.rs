//! Who competes, what is sent, and what happens.

use std::collections::BTreeMap;
use std::time::Duration;

use aquila_proto::ByteCount;
use aquila_proto::cc::{CongestionConfig, Radio};
use serde::Deserialize;
use toml::Spanned;

use super::{CommandTraffic, DATA, LossPlan, OutageKind, Pace, Rate, Size, Time};
use crate::closed_loop::ClosedLoop;
use crate::fnv;
use crate::run::oracle::Oracle;

/// Who carries the traffic.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContenderPlan {
    /// Its name in metrics; that of its kind if there is none.
    pub name: Option<String>,
    /// What it is.
    pub kind: ContenderKind,
    /// How it comes back when the plan says so.
    #[serde(default)]
    pub reconnect: Reconnect,
    /// Bytes of UDP payload in its packets, for those that send datagrams of their own.
    #[serde(default = "mtu")]
    pub mtu: u16,
    /// Of this product: the congestion controller, `fpv2` if nothing is said; in virtual time also `oracle` and
    /// `late-oracle`, which know the link.
    pub controller: Option<Spanned<String>>,
    /// Each message goes over every link, and the copy that comes first counts: a datagram on each, or a connection over
    /// each.
    #[serde(default)]
    pub duplicate: bool,
    /// Of `udp`: copies of a message on a link, one right behind the other.
    #[serde(default = "one_copy")]
    pub copies: u32,
    /// Of `udp`: what was not acknowledged is sent again after such a time, and again.
    pub retry: Option<Time>,
    /// In a closed loop its application waits so long for a command to arrive before it sends the next; for ever if
    /// nothing is said.
    pub give_up: Option<Time>,
    /// Of this product, in virtual time: a file without end goes from the first node to the second, by whatever links have room.
    #[serde(default)]
    pub bulk: bool,
    /// Who else is on the links meanwhile, in virtual time.
    #[serde(default)]
    pub beside: Vec<Spanned<CompanyPlan>>,
}

/// Somebody else on the links, whom nobody judges.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompanyPlan {
    /// Its name in metrics; that of its kind if there is none.
    pub name: Option<String>,
    /// `aquila`: another session, whose ends send what the plan's do. `tcp` and `tcp-reno`: a transfer without end.
    pub kind: ContenderKind,
    /// When it comes.
    #[serde(default)]
    pub at: Time,
    /// Of a transfer: the node that sends, the first if nothing is said.
    pub from: Option<String>,
}

/// What carries the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContenderKind {
    /// This product; live, its release binary.
    Aquila,
    /// Each message in a UDP datagram, video too: no repetition, no control.
    Udp,
    /// Commands and parameters on a TCP connection with CUBIC, video in UDP datagrams beside it: what people use today. In
    /// virtual time a model of TCP, live the kernel's.
    Tcp,
    /// The same with NewReno.
    TcpReno,
    /// TCP with TLS 1.3.
    Tls,
    /// MPTCP over all links with CUBIC and the kernel's scheduler, live only.
    Mptcp,
    /// The same with BBR, live only.
    MptcpBbr,
    /// TCP with BBR, live only.
    TcpBbr,
    /// Nothing but what the plan's programs send, live only.
    Programs,
}

/// How a contender comes back after an action asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reconnect {
    /// By what it has: the connection goes on, from a new address if it has one.
    #[default]
    Keep,
    /// A new connection, resuming the former session (0-RTT; TLS: a ticket).
    Resume,
    /// A new connection with a full handshake.
    Fresh,
}

/// A flow of an application: one of its four tables says of which kind.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficPlan {
    /// Its name in metrics; that of its kind if there is none.
    pub name: Option<String>,
    /// Who sends: a node, or "both".
    #[serde(default = "both")]
    pub from: Spanned<String>,
    /// When it begins.
    #[serde(default)]
    pub at: Time,
    /// When it ends; the end of the run if nothing is said.
    pub until: Option<Time>,
    /// Commands at a fixed interval, or in a closed loop.
    pub commands: Option<CommandTraffic>,
    /// Parameters at a fixed interval: transactions of class Telemetry.
    pub parameters: Option<Every>,
    /// Frames of video, all of one size.
    pub video: Option<VideoTraffic>,
    /// UDP datagrams at a constant rate beside the contender, as iperf makes them.
    pub datagrams: Option<DatagramTraffic>,
    /// Of datagrams: the link that they take, the first if nothing is said.
    pub link: Option<Spanned<String>>,
    /// What takes longer is late.
    pub deadline: Option<Time>,
    /// Of commands that wait for each other: times between two that somebody expects, by name, drawn beside those that were.
    #[serde(default)]
    pub expected: BTreeMap<String, Time>,
}

/// An interval.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Every {
    /// The interval.
    pub every: Time,
}

/// Video.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VideoTraffic {
    /// Bit rate.
    pub rate: Rate,
    /// The rate follows what the link asks of the encoder, up to `rate`.
    #[serde(default)]
    pub follow: bool,
    /// Frames a second.
    #[serde(default = "thirty")]
    pub frames_per_second: u32,
    /// Bytes of one RTP packet.
    #[serde(default = "packet")]
    pub packet: Size,
    /// The encoder makes no less than this.
    pub least: Option<Rate>,
    /// Its rate before it hears of another; `rate` if nothing is said.
    pub start: Option<Rate>,
    /// Standard deviation of the logarithm of the frames' sizes.
    #[serde(default)]
    pub variation: f64,
    /// Share of a change of the rate that the next frame follows.
    #[serde(default = "all")]
    pub response: f64,
    /// The program knows `response`; else it takes it that all of a change is followed at once.
    #[serde(default = "yes")]
    pub known: bool,
    /// From a picture to its frame.
    pub encoding: Option<Time>,
    /// Size of a recovery point over that of other frames.
    #[serde(default = "all")]
    pub recovery: f64,
    /// Such a recovery point is made each time when so long has passed, whoever asks; other frames are as much smaller.
    pub recovery_every: Option<Time>,
    /// The encoder asks before each frame whether to make it.
    #[serde(default)]
    pub asks: bool,
    /// How it is told, if it does not ask.
    #[serde(default)]
    pub told: Told,
}

/// How an encoder is told rates that does not ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// Each, as it comes.
    #[default]
    Rates,
    /// The same, and to pause: as a program is.
    Pauses,
    /// Few, as OpenIPC's majestic.
    Seldom,
}

/// Datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatagramTraffic {
    /// Bit rate of their payload.
    pub rate: Rate,
    /// Bytes of payload.
    pub packet: Size,
}

/// Kinds of traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TrafficKind {
    /// See [`TrafficPlan::commands`].
    Commands(CommandTraffic),
    /// See [`TrafficPlan::parameters`].
    Parameters(Every),
    /// See [`TrafficPlan::video`].
    Video(VideoTraffic),
    /// See [`TrafficPlan::datagrams`].
    Datagrams(DatagramTraffic),
}

/// Something that happens: one of its four keys says what.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionPlan {
    /// When, after the start.
    pub at: Time,
    /// Again after each such time, to the end of the run.
    pub every: Option<Time>,
    /// The link that it happens to; all if none is named.
    pub link: Option<Spanned<String>>,
    /// An outage of both directions.
    pub outage: Option<OutagePlan>,
    /// The first node gets a new address.
    pub new_address: Option<bool>,
    /// A direction becomes another.
    pub change: Option<ChangePlan>,
    /// The first node's modem tells of its radio, or its autopilot of the height.
    pub modem: Option<ModemPlan>,
}

/// What a modem, or the autopilot, tells from then on; what is not said here stays what it was.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModemPlan {
    /// The serving cell, by any number.
    pub cell: Option<u64>,
    /// Power of its reference signal, dBm.
    pub rsrp: Option<f32>,
    /// Its quality, dB.
    pub rsrq: Option<f32>,
    /// Signal to interference and noise, dB.
    pub sinr: Option<f32>,
    /// Height above home, metres.
    pub altitude: Option<f32>,
}

/// An outage, and what its end brings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutagePlan {
    /// How long.
    pub lasts: Time,
    /// What becomes of packets.
    #[serde(default)]
    pub packets: OutageKind,
    /// The first node has a new address.
    #[serde(default)]
    pub new_address: bool,
    /// Both ends are told that their link came up.
    #[serde(default)]
    pub link_event: bool,
    /// The contender reconnects, each in its way, and each end sends a command at that moment.
    #[serde(default)]
    pub reconnect: bool,
}

/// What becomes of a link: what is said here replaces what was; the rest stays.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangePlan {
    /// From the first node.
    pub up: Option<PathChange>,
    /// To it.
    pub down: Option<PathChange>,
    /// Both, in place of `up` and `down`.
    pub both: Option<PathChange>,
}

/// What becomes of a direction.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathChange {
    /// Its rate.
    pub rate: Option<Rate>,
    /// Its delay.
    pub delay: Option<Time>,
    /// Its random loss.
    pub loss: Option<LossPlan>,
}

/// Things that happen.
#[derive(Debug, Clone)]
pub enum ActionKind {
    /// See [`ActionPlan::outage`].
    Outage(OutagePlan),
    /// See [`ActionPlan::new_address`].
    NewAddress,
    /// See [`ActionPlan::change`].
    Change(ChangePlan),
    /// See [`ActionPlan::modem`].
    Modem(ModemPlan),
}

impl TrafficKind {
    /// Of commands that wait for each other: their loop, of which the first is sent at `first`.
    pub fn closed_loop(self, first: Duration, give_up: Option<Duration>) -> Option<ClosedLoop> {
        let Self::Commands(commands) = self else { return None };
        match commands.pace() {
            Ok(Pace::After { pause, count }) => Some(ClosedLoop::new(pause, count, give_up, first)),
            Ok(Pace::Every(_)) | Err(_) => None,
        }
    }

    /// Applications are not in step with each other: flow number `flow`, from 1, begins somewhere within its first interval,
    /// by the seed.
    pub fn phase(self, seed: u64, flow: usize) -> Duration {
        let interval = match self {
            Self::Commands(commands) => commands.interval(),
            Self::Parameters(every) => every.every.get(),
            Self::Video(video) => Duration::from_secs(1) / video.frames_per_second,
            Self::Datagrams(datagrams) => datagrams.rate.bitrate().time_for(ByteCount::from(datagrams.packet.bytes())),
        };
        let luck = fnv::of(&format!("{seed} {flow}"));
        Duration::from_nanos(((u128::from(luck) * interval.as_nanos()) >> 64) as u64)
    }
}

impl ActionPlan {
    /// What happens.
    ///
    /// # Errors
    /// If the plan says nothing, or more than one thing.
    pub fn kind(&self) -> Result<ActionKind, String> {
        match (&self.outage, self.new_address, &self.change, self.modem) {
            (Some(outage), None, None, None) => Ok(ActionKind::Outage(outage.clone())),
            (None, Some(true), None, None) => Ok(ActionKind::NewAddress),
            (None, None, Some(change), None) => Ok(ActionKind::Change(change.clone())),
            (None, None, None, Some(modem)) => Ok(ActionKind::Modem(modem)),
            _ => Err("an action has one of outage, new_address = true, change and modem".into()),
        }
    }
}

impl From<ModemPlan> for Radio {
    fn from(told: ModemPlan) -> Self {
        let ModemPlan { cell, rsrp, rsrq, sinr, altitude } = told;
        Self { altitude_m: altitude, cell, rsrp_dbm: rsrp, rsrq_db: rsrq, sinr_db: sinr }
    }
}

impl ChangePlan {
    /// What becomes of the directions, from the first node and to it.
    pub fn paths(&self) -> [Option<PathChange>; 2] {
        [self.up.or(self.both), self.down.or(self.both)]
    }
}

impl VideoTraffic {
    /// The same from an encoder that makes exactly what it is asked for.
    pub fn exact(self) -> Self {
        Self { variation: 0.0, response: 1.0, recovery: 1.0, ..self }
    }
}

impl ContenderPlan {
    /// Its congestion controller; of a yardstick, the one that it replaces.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn congestion(&self) -> Result<CongestionConfig, &str> {
        let Some(name) = self.controller.as_ref().filter(|_| self.oracle().is_none()) else {
            return Ok(CongestionConfig::default());
        };
        CongestionConfig::by_name(name.get_ref()).ok_or(name.get_ref())
    }

    /// The yardstick that it is, if it is one.
    pub fn oracle(&self) -> Option<Oracle> {
        self.controller.as_ref().and_then(|name| Oracle::by_name(name.get_ref()))
    }

    /// Whether a message of it may come more than once.
    pub fn has_copies(&self) -> bool {
        self.duplicate || self.copies > 1 || self.retry.is_some()
    }

    /// Its name in metrics.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.kind.name())
    }
}

impl CompanyPlan {
    /// Its name in metrics.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.kind.name())
    }

    /// Whether it sends what the plan's applications send.
    pub fn is_session(&self) -> bool {
        self.kind == ContenderKind::Aquila
    }

    /// Name of a flow of the plan as it has it.
    pub fn flow(&self, traffic: &str) -> String {
        format!("{}-{traffic}", self.name())
    }

    /// The same as a contender.
    pub fn contender(&self) -> ContenderPlan {
        let (name, kind) = (Some(self.name().to_owned()), self.kind);
        ContenderPlan {
            name,
            kind,
            reconnect: Reconnect::Keep,
            mtu: mtu(),
            controller: None,
            duplicate: false,
            copies: one_copy(),
            retry: None,
            give_up: None,
            bulk: false,
            beside: Vec::new(),
        }
    }
}

impl ContenderKind {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aquila => "aquila",
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::TcpReno => "tcp-reno",
            Self::Tls => "tls",
            Self::Mptcp => "mptcp",
            Self::MptcpBbr => "mptcp-bbr",
            Self::TcpBbr => "tcp-bbr",
            Self::Programs => "programs",
        }
    }
}

impl TrafficPlan {
    /// Its kind.
    ///
    /// # Errors
    /// If the plan says none, or more than one.
    pub fn kind(&self) -> Result<TrafficKind, String> {
        match (self.commands, self.parameters, self.video, self.datagrams) {
            (Some(every), None, None, None) => Ok(TrafficKind::Commands(every)),
            (None, Some(every), None, None) => Ok(TrafficKind::Parameters(every)),
            (None, None, Some(video), None) => Ok(TrafficKind::Video(video)),
            (None, None, None, Some(datagrams)) => Ok(TrafficKind::Datagrams(datagrams)),
            _ => Err("traffic has one of commands, parameters, video and datagrams".into()),
        }
    }

    /// What goes with its commands: the name of that flow, and bytes.
    pub fn data(&self) -> Option<(String, usize)> {
        let data = self.commands.and_then(|commands| commands.with_data)?;
        Some((format!("{}{DATA}", self.name()), data.bytes()))
    }

    /// Its name in metrics.
    pub fn name(&self) -> &str {
        let of_kind = match self.kind() {
            Ok(TrafficKind::Commands(_)) | Err(_) => "commands",
            Ok(TrafficKind::Parameters(_)) => "parameters",
            Ok(TrafficKind::Video(_)) => "video",
            Ok(TrafficKind::Datagrams(_)) => "datagrams",
        };
        self.name.as_deref().unwrap_or(of_kind)
    }
}

fn both() -> Spanned<String> {
    Spanned::new(0..0, "both".into())
}

fn mtu() -> u16 {
    1200
}

fn one_copy() -> u32 {
    1
}

fn thirty() -> u32 {
    30
}

const fn yes() -> bool {
    true
}

fn all() -> f64 {
    1.0
}

fn packet() -> Size {
    "1200 B".parse().expect("a size")
}
