//! What a configuration means for one side: complete, and checked where keys depend on each other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aquila_net::bearer::{BearerSpec, is_interface_name};
use aquila_net::camera::CameraSetup;
use aquila_net::encoder::{EncoderKind, EncoderSetup, EncoderSpec, LadderError, Sizes};
use aquila_net::mavlink::EndpointSpec;
use aquila_net::modem::ModemSpec;
use aquila_net::mule::Role as Does;
use aquila_net::radio::RadioSpec;
use aquila_net::status::Exposure;
use aquila_net::video::{Flow, MAX_FLOWS, ParseVideoError, VideoSpec};
use aquila_proto::cc::{CongestionConfig, EncoderRange};
use aquila_proto::identity::PublicKey;
use aquila_proto::mavlink::treatment::{Delivery, Policy, Treatment as Travels, UnknownMessage};
use aquila_proto::replication::Reliability;
use aquila_proto::sched::outbox::OutboxLimits;
use aquila_proto::session::Side;
use aquila_proto::video::{ReassemblerConfig, SendQueueConfig, VideoParity};
use aquila_proto::{BearerId, Class};
use tracing_subscriber::EnvFilter;

use super::file::{self, File, Replicated, Status, Treatment};
use super::gateway::Carried;
use super::mule::{Mule, MuleSettings};
use super::units::{DEFAULT_PORT, Mtu, Remote, Speed, Text};

/// Everything that one side needs to know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which side.
    pub side: Side,
    /// The file of our private key.
    pub key: PathBuf,
    /// The only key that we talk to.
    pub peer: PublicKey,
    /// The link to the other side.
    pub link: LinkSettings,
    /// MAVLink on this machine.
    pub endpoints: Vec<EndpointSpec>,
    /// SETUP_SIGNING may leave this machine.
    pub forward_setup_signing: bool,
    /// RADIO_STATUS is made from the state of the queues.
    pub radio_status: bool,
    /// How each message travels.
    pub policy: Policy,
    /// Video on this machine.
    pub video: VideoSettings,
    /// Bounds and lifetimes of control messages.
    pub control: OutboxLimits,
    /// How sure a control message is to arrive, and what may be spent on copies.
    pub reliability: Reliability,
    /// Which classes are replicated over several bearers.
    pub replicated: Vec<Class>,
    /// What holds video and bulk back.
    pub congestion: CongestionConfig,
    /// Files that are carried beside all else, if any are.
    pub mule: Option<MuleSettings>,
    /// Other programs' connections that are carried beside all else, if any are.
    pub gateway: Option<Carried>,
    /// Where the status page is served, and to whom.
    pub status: Option<(SocketAddr, Exposure)>,
    /// What is logged, as `tracing_subscriber::EnvFilter` reads it.
    pub log: String,
}

/// The link to the other side.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkSettings {
    /// Who calls whom.
    pub role: Role,
    /// Interface that packets leave by if we listen.
    pub bind_interface: Option<String>,
    /// Bearers if we connect.
    pub bearers: Vec<BearerSpec>,
    /// Radios.
    pub radios: Vec<RadioSpec>,
    /// Bytes of UDP payload in a packet.
    pub mtu: u16,
    /// The modem that is asked how it hears the network.
    pub modem: Option<ModemSpec>,
    /// A sign of life leaves this often.
    pub heartbeat: Duration,
    /// Without a word from the other side for this long, the link counts as stalled.
    pub stalled_after: Duration,
    /// Without a word for this long, it counts as lost.
    pub lost_after: Duration,
    /// Directory of what must survive a restart.
    pub state: PathBuf,
    /// Directory in memory, of what must survive a crash of ours at any moment.
    pub volatile: Option<PathBuf>,
}

/// Who calls whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// The other side connects to us.
    Listen(SocketAddr),
    /// We connect to the other side.
    Connect(Remote),
    /// We connect to the other side, over radios only.
    ConnectByRadio,
}

/// Video on this machine.
#[derive(Debug, Clone)]
pub struct VideoSettings {
    /// Cameras, each with a flow of its own.
    pub inputs: Vec<(Flow, VideoSpec)>,
    /// What makes the pictures.
    pub encoder: Option<EncoderSetup>,
    /// A pipeline of GStreamer's that films in this process.
    pub camera: Option<CameraSetup>,
    /// What the encoders make, all together, and how they follow.
    pub range: EncoderRange,
    /// Viewers.
    pub outputs: Vec<VideoSpec>,
    /// Queue of each flow, in order of their numbers, up to the last camera's.
    pub queues: Vec<SendQueueConfig>,
    /// How received fragments are put together.
    pub reassembly: ReassemblerConfig,
    /// What is sent so that lost fragments can be restored.
    pub parity: VideoParity,
}

#[cfg(feature = "gstreamer")]
impl VideoSettings {
    /// The same with the encoder that is used where the camera's text leaves that open, and with how it follows.
    ///
    /// # Errors
    /// If there is none.
    pub fn with_encoder(mut self) -> Result<Self, aquila_net::camera::CameraError> {
        if let Some(camera) = self.camera.take() {
            let camera = camera.chosen()?;
            self.range = camera.kind().range(self.range.least, self.range.most);
            self.camera = Some(camera);
        }
        Ok(self)
    }
}

/// What the defaults depend on: the program's surroundings, read in one place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// The directory that state is kept in unless another is named.
    pub state: Option<PathBuf>,
    /// The directory in memory that this program may use, if there is one.
    pub volatile: Option<PathBuf>,
}

/// Why a configuration makes no sense for a side, and what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// No peer.
    #[error(
        "[identity] peer is missing: whom may we talk to? Run `aquila keys show` on the other side and put its public key \
         here, or use --peer"
    )]
    NoPeer,
    /// A gateway without a radio.
    #[error(
        "[gateway] radio is missing: write radio = \"/dev/ttyUSB0:57600\" or use --radio; over the link of `aquila air` and `aquila \
         ground` these carry it themselves"
    )]
    NoGatewayRadio,
    /// Which end a gateway is.
    #[error(
        "[gateway] side is missing: write side = \"air\" in the aircraft and \"ground\" on the ground, or use --side"
    )]
    NoGatewaySide,
    /// A shore without a folder.
    #[error(
        "[mule] deliver is missing: where do files end? Write deliver = \"/srv/files\" or use --deliver, or --bundles-files"
    )]
    NoMuleFolder,
    /// A folder, and bundles.
    #[error("[mule] deliver and bundles_files exclude each other: files are written to a folder, or leave as bundles")]
    MuleFilesTwice,
    /// Files that nobody is there for.
    #[error(
        "[mule] bundles_files is {0}, and none of bundles_to is for it: write bundles_to = [\"{0}=HOST:PORT\"], or '*=HOST:PORT'"
    )]
    MuleBundlesRoute(String),
    /// A folder of what is no shore.
    #[error("[mule] deliver is for a shore; this is a {0}, which hands files on")]
    MuleFolder(&'static str),
    /// A spool of a shore.
    #[error("[mule] spool is for nodes and carriers; a shore gives files to nobody")]
    MuleSpool,
    /// Rules for files that nobody takes.
    #[error(
        "[mule] spool_rules is for files of a spool, and there is none: write spool = \"/data/out\" or use --spool"
    )]
    MuleSpoolRules,
    /// Bundles the wrong way.
    #[error(
        "[mule] bundles_listen is for nodes and carriers, where bundles come in, bundles_to and bundles_files are for shores, where they leave; this is a {0}"
    )]
    MuleBundles(&'static str),
    /// What we are called among those who send bundles.
    #[error(
        "[mule] bundles_node is missing: what is this node called? Write bundles_node = \"dtn://ship/\" or use --bundles-node"
    )]
    NoMuleBundlesNode,
    /// A shore that casts.
    #[error("[mule] cast is for nodes and carriers; a shore gives files to nobody")]
    MuleCast,
    /// A node that hears.
    #[error("[mule] hear is for carriers and shores; a node takes nothing")]
    MuleHear,
    /// The same twice.
    #[error("[mule] cast or hear has {0} twice on one interface")]
    MuleCastTwice(SocketAddr),
    /// Another store twice.
    #[error("[mule] peers has {} twice, or as well as the other side of the link", .0.fingerprint())]
    MulePeerTwice(PublicKey),
    /// Neither listening nor connecting.
    #[error(
        "[link] connect is missing: where is the ground station? Write connect = \"HOST:{DEFAULT_PORT}\" or use --connect; \
         if the ground station is to connect to this side, write listen = \"[::]:{DEFAULT_PORT}\""
    )]
    NoRole,
    /// Both listening and connecting.
    #[error("[link] has both listen and connect: one side listens, the other connects; remove one of them")]
    BothRoles,
    /// Port 0 to listen on.
    #[error("[link] listen has port 0: the other side must know the port; use {DEFAULT_PORT}")]
    NoPort,
    /// An interface name that Linux cannot have.
    #[error("[link] bind_interface '{0}' is not an interface name: they have 1 to 15 characters, see `ip link`")]
    Interface(String),
    /// Bearers of a side that does not call.
    #[error(
        "[link] bearers belong to the side that connects; this one listens, and takes them as they come. For one interface only write bind_interface"
    )]
    BearersListen,
    /// The interface of a side that connects.
    #[error("[link] bind_interface is for a side that listens: write bearers = [\"{0}\"]")]
    BindConnect(String),
    /// A bearer twice.
    #[error("[link] two bearers are called {0}: give them names, such as \"{0},name=other\"")]
    BearerTwice(String),
    /// Too many bearers.
    #[error("[link] has more than {count} bearers and radios", count = BearerId::COUNT)]
    TooManyBearers,
    /// A modem of several bearers.
    #[error("[link] modem: of which bearer? Write it there, as in \"wwan0,modem={0}\"")]
    ModemOfWhich(String),
    /// Times out of order.
    #[error(
        "[link] heartbeat ({0:?}), stalled_after ({1:?}) and lost_after ({2:?}) must grow in this order, or the link would \
         count as lost between two signs of life"
    )]
    Times(Duration, Duration, Duration),
    /// No directory to keep state in.
    #[error("[link] state is missing, and neither STATE_DIRECTORY, XDG_STATE_HOME nor HOME is set to derive it from")]
    NoState,
    /// A MAVLink endpoint twice.
    #[error("[mavlink] endpoints has '{0}' twice")]
    EndpointTwice(EndpointSpec),
    /// A message that there is not.
    #[error("[mavlink.overrides]: {0}")]
    Message(#[from] UnknownMessage),
    /// A camera's port twice.
    #[error("[video] inputs listen at {0} twice: give each camera a port of its own")]
    InputTwice(SocketAddr),
    /// A flow twice.
    #[error("[video] inputs have flow {0} twice: number them with ?flow=, or leave the numbers out")]
    FlowTwice(Flow),
    /// Too many cameras.
    #[error("[video] has more than {MAX_FLOWS} inputs")]
    TooManyInputs,
    /// Built without.
    #[error(
        "[video] camera needs GStreamer, and this program was built without: install libgstreamer1.0-dev and \
         libgstreamer-plugins-base1.0-dev, then `cargo build --release --features gstreamer`; or send RTP from gst-launch-1.0 to \
         the first of inputs"
    )]
    NoGStreamer,
    /// Two that tell it, or nowhere to send to.
    #[error(
        "[video] camera is told by this program itself: remove encoder; and it sends to the first of inputs, which must be there"
    )]
    Camera,
    /// What only a command can be told, or a camera in this process.
    #[error("[video] sizes are for encoder = \"exec:COMMAND\" and for camera: others cannot be told any")]
    NoSizes,
    /// A kind that makes no difference there.
    #[error(
        "[video] encoder_kind is for encoder = \"exec:COMMAND\", and \"rekeying\" for v4l2: too; that of a camera is known by its encoder's name, and \
         majestic is told so few rates that it makes no difference"
    )]
    NoKind,
    /// What is chosen for a camera in this process only.
    #[error("[video] h265 is for camera = \"... ! encoder\": elsewhere the encoder is already chosen")]
    NotChosen,
    /// What a camera in this process only can be set to.
    #[error(
        "[video] intra_refresh is for camera: a program behind encoder = \"exec:COMMAND\" answers a request for a recovery point as it likes"
    )]
    NotRefreshed,
    /// An encoder without a rate that it can make.
    #[error("[video] encoder_least must not be above encoder_most")]
    Range,
    /// Sizes that are no ladder.
    #[error("[video] sizes: {0}")]
    Sizes(#[from] LadderError),
    /// An output that cannot be sent to.
    #[error("[video] outputs: {0}")]
    Output(#[from] ParseVideoError),
    /// An unusable filter.
    #[error(
        "[log] level '{0}' is not a filter: use error, warn, info, debug or trace, or for example info,aquila_net=debug"
    )]
    Log(String),
}

impl Settings {
    /// What `file` means for `side`.
    pub fn resolve(file: File, side: Side, environment: &Environment) -> Result<Self, Invalid> {
        let state = file.link.state.clone().or_else(|| environment.state.clone());
        let log = file.log.level.clone().unwrap_or_else(|| DEFAULT_LOG.to_owned());
        if EnvFilter::try_new(&log).is_err() {
            return Err(Invalid::Log(log));
        }
        let Text(peer) = file.identity.peer.clone().ok_or(Invalid::NoPeer)?;
        // An aircraft brings files home, unless something else is said.
        let (role, other) = match side {
            Side::Air => (Does::Carrier, Does::Shore),
            Side::Ground => (Does::Shore, Does::Carrier),
        };
        let is_set = file.mule != Mule::default();
        let mule = is_set.then(|| MuleSettings::resolve(&file, role, Some((peer, other)), environment)).transpose()?;
        Ok(Self {
            side,
            key: file.identity.key.map_or_else(|| key_file(state.clone()), Ok)?,
            peer,
            link: link(file.link, state, environment.volatile.clone(), side)?,
            endpoints: endpoints(file.mavlink.endpoints, side)?,
            forward_setup_signing: file.mavlink.setup_signing.unwrap_or(false),
            radio_status: file.mavlink.radio_status.unwrap_or(true),
            policy: policy(&file.mavlink.overrides)?,
            video: video(file.video, side)?,
            control: control(&file.control),
            reliability: reliability(&file.replication),
            replicated: replicated(&file.replication),
            congestion: file.congestion.resolve(),
            mule,
            gateway: file.gateway.goes_by_link().then(|| file.gateway.carried()),
            status: status(file.status),
            log,
        })
    }
}

/// Where the status page is served, and to whom.
pub(super) fn status(status: Status) -> Option<(SocketAddr, Exposure)> {
    let exposure = if status.allow_remote.unwrap_or(false) { Exposure::Anyone } else { Exposure::LoopbackOnly };
    status.listen.map(|Text(address)| (address, exposure))
}

impl Environment {
    /// Of this process: the directory that systemd gives (`STATE_DIRECTORY`); `/var/lib/aquila` if it belongs to this user;
    /// else `aquila` in `XDG_STATE_HOME` or in `~/.local/state`. In memory: `RUNTIME_DIRECTORY`, which systemd gives too, or
    /// `aquila` in `XDG_RUNTIME_DIR`.
    pub fn read() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let system = PathBuf::from(SYSTEM_STATE);
        let state = variable("STATE_DIRECTORY")
            .or_else(|| owned_by_us(&system).then_some(system))
            .or_else(|| variable("XDG_STATE_HOME").map(|home| home.join("aquila")))
            .or_else(|| variable("HOME").map(|home| home.join(".local/state/aquila")));
        // Both are there already or not at all: we make none where nobody looks after it.
        let volatile = variable("RUNTIME_DIRECTORY")
            .filter(|dir| dir.is_dir())
            .or_else(|| variable("XDG_RUNTIME_DIR").filter(|dir| dir.is_dir()).map(|dir| dir.join("aquila")));
        Self { state, volatile }
    }
}

/// The file of the private key unless another is named.
pub fn key_file(state: Option<PathBuf>) -> Result<PathBuf, Invalid> {
    Ok(state.ok_or(Invalid::NoState)?.join("identity.key"))
}

fn link(
    link: file::Link,
    state: Option<PathBuf>,
    volatile: Option<PathBuf>,
    side: Side,
) -> Result<LinkSettings, Invalid> {
    let bearers = bearers(&link)?;
    let radios: Vec<RadioSpec> = link.radios.iter().flatten().map(|Text(radio)| radio.clone()).collect();
    if bearers.len().max(1) + radios.len() > BearerId::COUNT {
        return Err(Invalid::TooManyBearers);
    }
    let mut names: BTreeSet<String> = bearers.iter().map(BearerSpec::name).collect();
    if let Some(twice) = radios.iter().map(RadioSpec::name).find(|name| !names.insert(name.clone())) {
        return Err(Invalid::BearerTwice(twice));
    }
    let role = match (link.listen, link.connect) {
        (Some(_), Some(_)) => return Err(Invalid::BothRoles),
        (Some(Text(address)), None) if address.port() == 0 => return Err(Invalid::NoPort),
        (Some(Text(address)), None) => Role::Listen(address),
        (None, Some(Text(remote))) => Role::Connect(remote),
        (None, None) if side == Side::Ground => Role::Listen((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT).into()),
        (None, None) if !radios.is_empty() && bearers.is_empty() => Role::ConnectByRadio,
        (None, None) => return Err(Invalid::NoRole),
    };
    if let Some(name) = &link.bind_interface {
        if !is_interface_name(name) {
            return Err(Invalid::Interface(name.clone()));
        }
        if !matches!(role, Role::Listen(_)) {
            return Err(Invalid::BindConnect(name.clone()));
        }
    }
    if !bearers.is_empty() && matches!(role, Role::Listen(_)) {
        return Err(Invalid::BearersListen);
    }
    let heartbeat = link.heartbeat.map_or(DEFAULT_HEARTBEAT, |time| time.get());
    let stalled_after = link.stalled_after.map_or(DEFAULT_STALLED_AFTER, |time| time.get());
    let lost_after = link.lost_after.map_or(DEFAULT_LOST_AFTER, |time| time.get());
    if !(heartbeat < stalled_after && stalled_after < lost_after) {
        return Err(Invalid::Times(heartbeat, stalled_after, lost_after));
    }
    Ok(LinkSettings {
        role,
        bind_interface: link.bind_interface,
        bearers,
        radios,
        mtu: link.mtu.unwrap_or(Mtu::DEFAULT).get(),
        modem: link.modem.map(|Text(modem)| modem),
        heartbeat,
        stalled_after,
        lost_after,
        state: state.ok_or(Invalid::NoState)?,
        volatile,
    })
}

/// The bearers that a side which connects is to have.
///
/// # Errors
/// If there are too many, two have one name, or it is not clear whose the modem is.
pub fn bearers(link: &file::Link) -> Result<Vec<BearerSpec>, Invalid> {
    let given = link.bearers.iter().flatten();
    let bearers: Vec<BearerSpec> = given.map(|Text(bearer)| bearer.clone()).collect();
    if bearers.len() > BearerId::COUNT {
        return Err(Invalid::TooManyBearers);
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = bearers.iter().map(BearerSpec::name).find(|name| !names.insert(name.clone())) {
        return Err(Invalid::BearerTwice(twice));
    }
    match &link.modem {
        Some(Text(modem)) if bearers.len() > 1 => Err(Invalid::ModemOfWhich(modem.to_string())),
        _ => Ok(bearers),
    }
}

fn endpoints(given: Option<Vec<EndpointSpec>>, side: Side) -> Result<Vec<EndpointSpec>, Invalid> {
    let endpoints = given.unwrap_or_else(|| {
        let default = match side {
            Side::Air => DEFAULT_AIR_ENDPOINT,
            Side::Ground => DEFAULT_GROUND_ENDPOINT,
        };
        default.parse().into_iter().collect()
    });
    let mut seen = BTreeSet::new();
    match endpoints.iter().find(|endpoint| !seen.insert(endpoint.to_string())) {
        Some(twice) => Err(Invalid::EndpointTwice(twice.clone())),
        None => Ok(endpoints),
    }
}

fn policy(overrides: &BTreeMap<String, Treatment>) -> Result<Policy, Invalid> {
    let mut policy = Policy::default();
    for (message, treatment) in overrides {
        let (class, delivery) = match treatment {
            Treatment::Command => (Class::Control, Delivery::Reliable),
            Treatment::Setpoint => (Class::Control, Delivery::Setpoint),
            Treatment::State => (Class::Telemetry, Delivery::State),
            Treatment::Transaction => (Class::Telemetry, Delivery::Reliable),
        };
        policy.set_named(message, Travels { class, delivery })?;
    }
    Ok(policy)
}

fn video(video: file::Video, side: Side) -> Result<VideoSettings, Invalid> {
    let given = |specs: Option<Vec<Text<VideoSpec>>>, default_for, default: &str| match specs {
        Some(specs) => specs.into_iter().map(|Text(spec)| spec).collect(),
        None if side == default_for => default.parse().into_iter().collect::<Vec<VideoSpec>>(),
        None => Vec::new(),
    };
    let inputs = number_flows(given(video.inputs, Side::Air, DEFAULT_VIDEO_INPUT))?;
    let outputs = given(video.outputs, Side::Ground, DEFAULT_VIDEO_OUTPUT);
    let outputs = outputs.into_iter().map(VideoSpec::for_output).collect::<Result<_, _>>()?;

    let (defaults, shown) = (SendQueueConfig::default(), ReassemblerConfig::default());
    let max_frame_age = video.max_frame_age.map_or(shown.max_frame_age, |time| time.get());
    let queue = SendQueueConfig {
        max_frames: video.queue_frames.map_or(defaults.max_frames, |count| count.get()),
        max_bytes: video.queue_bytes.map_or(defaults.max_bytes, |bytes| bytes.get()),
        max_age: video.queue_age.map_or(defaults.max_age, |time| time.get()),
        max_age_begun: max_frame_age,
        ..defaults
    };
    let flows = inputs.iter().map(|(flow, _)| flow.number() + 1).max().unwrap_or(0);
    let mut queues = vec![queue; usize::from(flows)];
    for (flow, spec) in &inputs {
        queues[usize::from(flow.number())].codec = spec.codec;
    }
    let reorder_time = video.reorder.map_or(shown.reorder_time, |time| time.get());
    let reassembly = ReassemblerConfig { reorder_time, max_frame_age, ..shown };
    let kind = video.encoder_kind.map(|Text(kind)| kind);
    let (has_sizes, has_kind) = match video.encoder {
        Some(Text(EncoderSpec::Command(_))) => (true, true),
        Some(Text(EncoderSpec::V4l2(_))) => (false, kind == Some(EncoderKind::Rekeying)),
        Some(Text(EncoderSpec::Majestic(..))) | None => (video.camera.is_some(), false),
    };
    if kind.is_some() && !has_kind {
        return Err(Invalid::NoKind);
    }
    if video.sizes.is_some() && !has_sizes {
        return Err(Invalid::NoSizes);
    }
    let sizes = Sizes::new(video.sizes.into_iter().flatten().map(|Text(size)| size))?;
    let kind = kind.unwrap_or_default();
    let h265 = video.h265.unwrap_or_default();
    let intra_refresh = video.intra_refresh.unwrap_or_default();
    if intra_refresh && video.camera.is_none() {
        return Err(Invalid::NotRefreshed);
    }
    let camera = video.camera.map(|pipeline| CameraSetup { pipeline, sizes: sizes.clone(), h265, intra_refresh });
    if h265 && camera.as_ref().is_none_or(|camera| !camera.pipeline.trim_end().ends_with(aquila_net::camera::ANY)) {
        return Err(Invalid::NotChosen);
    }
    let defaults = EncoderRange::default();
    let least = video.encoder_least.map_or(defaults.least, Speed::get);
    let most = video.encoder_most.map_or(defaults.most, Speed::get);
    if least > most {
        return Err(Invalid::Range);
    }
    let encoder = video.encoder.map(|Text(spec)| EncoderSetup { spec, kind, sizes });
    let range = camera.as_ref().map_or(kind, CameraSetup::kind).range(least, most);
    if camera.is_some() && !aquila_net::camera::IS_BUILT {
        return Err(Invalid::NoGStreamer);
    }
    if camera.is_some() && (encoder.is_some() || inputs.is_empty()) {
        return Err(Invalid::Camera);
    }
    let defaults = VideoParity::default();
    let parity = VideoParity {
        share: video.parity.map_or(defaults.share, |share| share.get()),
        frames: video.parity_frames.map_or(defaults.frames, |count| count.get() as u32),
        repeat: video.repeat.unwrap_or(defaults.repeat),
    };
    Ok(VideoSettings { inputs, encoder, camera, range, outputs, queues, reassembly, parity })
}

/// Gives each camera the flow that it asks for, or that of its place in the list.
fn number_flows(specs: Vec<VideoSpec>) -> Result<Vec<(Flow, VideoSpec)>, Invalid> {
    let (mut addresses, mut flows) = (BTreeSet::new(), BTreeSet::new());
    let mut inputs = Vec::with_capacity(specs.len());
    for (place, spec) in specs.into_iter().enumerate() {
        let by_place = || u8::try_from(place).ok().and_then(Flow::new);
        let flow = spec.flow.or_else(by_place).ok_or(Invalid::TooManyInputs)?;
        if !addresses.insert(spec.address) {
            return Err(Invalid::InputTwice(spec.address));
        }
        if !flows.insert(flow) {
            return Err(Invalid::FlowTwice(flow));
        }
        inputs.push((flow, spec));
    }
    Ok(inputs)
}

fn control(control: &file::Control) -> OutboxLimits {
    let defaults = OutboxLimits::default();
    OutboxLimits {
        command_age: control.command_age.map_or(defaults.command_age, |time| time.get()),
        setpoint_age: control.setpoint_age.map_or(defaults.setpoint_age, |time| time.get()),
        liveness_age: control.liveness_age.map_or(defaults.liveness_age, |time| time.get()),
        ..defaults
    }
}

fn reliability(replication: &file::Replication) -> Reliability {
    let defaults = Reliability::default();
    Reliability {
        failure: replication.failure.map_or(defaults.failure, |chance| chance.get()),
        deadline: replication.deadline.map_or(defaults.deadline, |time| time.get()),
        repeats: replication.repeats.map_or(defaults.repeats, |chance| chance.get()),
        budget: replication.budget.map_or(defaults.budget, Speed::get),
    }
}

fn replicated(replication: &file::Replication) -> Vec<Class> {
    let class = |replicated: &Replicated| match replicated {
        Replicated::Control => Class::Control,
        Replicated::Telemetry => Class::Telemetry,
    };
    replication.classes.as_ref().map_or(vec![Class::Control], |classes| classes.iter().map(class).collect())
}

fn owned_by_us(directory: &Path) -> bool {
    let owner = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.uid());
    matches!((owner(directory), owner("/proc/self".as_ref())), (Ok(theirs), Ok(ours)) if theirs == ours)
}

const SYSTEM_STATE: &str = "/var/lib/aquila";
pub(super) const DEFAULT_LOG: &str = "info";
/// Ten a second: with [`DEFAULT_STALLED_AFTER`] one may be lost.
const DEFAULT_HEARTBEAT: Duration = Duration::from_millis(100);
const DEFAULT_STALLED_AFTER: Duration = Duration::from_millis(250);
const DEFAULT_LOST_AFTER: Duration = Duration::from_secs(1);
/// Programs and simulators on this machine; a serial line has no name that fits all.
const DEFAULT_AIR_ENDPOINT: &str = "udpin:127.0.0.1:14550";
/// Where QGroundControl and Mission Planner listen.
const DEFAULT_GROUND_ENDPOINT: &str = "udpout:127.0.0.1:14550";
const DEFAULT_VIDEO_INPUT: &str = "rtp://0.0.0.0:5600";
/// Where QGroundControl listens.
const DEFAULT_VIDEO_OUTPUT: &str = "rtp://127.0.0.1:5600";
