//! What a node is made of.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aquila_proto::cc::{CongestionConfig, EncoderRange};
use aquila_proto::identity::{Identity, PublicKey};
use aquila_proto::mavlink::Policy;
use aquila_proto::replication::Reliability;
use aquila_proto::sched::outbox::OutboxLimits;
use aquila_proto::video::{ReassemblerConfig, SendQueueConfig, VideoParity};
use aquila_proto::{Class, Side};

use crate::bearer::BearerSpec;
use crate::encoder::EncoderSetup;
use crate::mavlink::EndpointSpec;
use crate::modem::ModemSpec;
use crate::radio::RadioSpec;
use crate::status::Exposure;
use crate::video::{Flow, VideoSpec};

/// Who calls whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// The other side connects to us.
    Listen(SocketAddr),
    /// We connect to this host and port, looked up at each try.
    Connect(String),
    /// We connect over radios only.
    ConnectByRadio,
}

/// What a node is made of.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// Which side this is.
    pub side: Side,
    /// Who we are.
    pub identity: Arc<Identity>,
    /// The only key that we talk to.
    pub peer: PublicKey,
    /// Who calls whom.
    pub role: Role,
    /// Interface that packets leave by if we listen.
    pub bind_interface: Option<String>,
    /// Bearers if we connect; one as the routes say if there are none.
    pub bearers: Vec<BearerSpec>,
    /// Radios over which AeroTP is spoken, bearers as well; both sides name theirs.
    pub radios: Vec<RadioSpec>,
    /// How sure a control message is to arrive, and what may be spent on copies.
    pub reliability: Reliability,
    /// Which classes are replicated over several bearers.
    pub replicated: Vec<Class>,
    /// UDP payload in bytes.
    pub mtu: u16,
    /// A heartbeat leaves this often.
    pub heartbeat: Duration,
    /// Silence after which the link counts as stalled.
    pub stalled_after: Duration,
    /// Silence after which it counts as lost.
    pub lost_after: Duration,
    /// Folder of what survives a restart; without one nothing does.
    pub state_dir: Option<PathBuf>,
    /// Folder in memory for what must be stored at once; without one it goes to `state_dir`.
    pub volatile_dir: Option<PathBuf>,
    /// MAVLink endpoints.
    pub mavlink: Vec<EndpointSpec>,
    /// SETUP_SIGNING may leave this machine.
    pub forward_setup_signing: bool,
    /// RADIO_STATUS is made for the autopilot.
    pub radio_status: bool,
    /// Which message is what.
    pub policy: Policy,
    /// Cameras: where their RTP comes in.
    pub cameras: Vec<(Flow, VideoSpec)>,
    /// What makes the cameras' pictures, if it is to be told how much the link carries.
    pub encoder: Option<EncoderSetup>,
    /// What the cameras' encoders make, all together.
    pub encoder_range: EncoderRange,
    /// The modem that the link goes through, if it is to be asked how it hears the network and no bearer has one of its own.
    pub modem: Option<ModemSpec>,
    /// Viewers: where RTP goes out.
    pub viewers: Vec<VideoSpec>,
    /// One queue per flow.
    pub video_queues: Vec<SendQueueConfig>,
    /// How received fragments are put together.
    pub reassembly: ReassemblerConfig,
    /// What is sent so that lost fragments of video can be restored.
    pub video_parity: VideoParity,
    /// Bounds and lifetimes of control messages.
    pub control: OutboxLimits,
    /// What holds video and bulk back.
    pub congestion: CongestionConfig,
    /// Where the status page is served.
    pub status: Option<(SocketAddr, Exposure)>,
}

impl NodeConfig {
    /// A node with the defaults of everything that has one, and no endpoints.
    pub fn new(side: Side, identity: Arc<Identity>, peer: PublicKey, role: Role) -> Self {
        Self {
            side,
            identity,
            peer,
            role,
            bind_interface: None,
            bearers: Vec::new(),
            radios: Vec::new(),
            reliability: Reliability::default(),
            replicated: vec![Class::Control],
            mtu: aquila_proto::quic::MIN_MTU,
            heartbeat: Duration::from_millis(100),
            stalled_after: Duration::from_millis(250),
            lost_after: Duration::from_secs(1),
            state_dir: None,
            volatile_dir: None,
            mavlink: Vec::new(),
            forward_setup_signing: false,
            radio_status: true,
            policy: Policy::default(),
            cameras: Vec::new(),
            encoder: None,
            encoder_range: EncoderRange::default(),
            modem: None,
            viewers: Vec::new(),
            video_queues: vec![SendQueueConfig::default()],
            reassembly: ReassemblerConfig::default(),
            video_parity: VideoParity::default(),
            control: OutboxLimits::default(),
            congestion: CongestionConfig::default(),
            status: None,
        }
    }
}
