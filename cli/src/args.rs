//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use aquila_lab::plan::Time;
use aquila_lab::quality::bench::Sizes;
use aquila_lab::quality::codec::Engine;
use aquila_lab::quality::content::Content;
use aquila_net::bearer::BearerSpec;
use aquila_net::encoder::EncoderSpec;
use aquila_net::mavlink::{EndpointSpec, KINDS};
use aquila_net::modem::ModemSpec;
use aquila_net::radio::RadioSpec;
use aquila_net::video::VideoSpec;
use aquila_proto::identity::PublicKey;
use aquila_proto::session::Side;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;

use crate::config::{ControllerName, File, Mtu, Remote, Text};
use crate::gateway::args::{CarriedArgs, GatewayArgs};
use crate::mule::args::MuleArgs;
use crate::plan::args::PlanArgs;

/// One link between aircraft and ground: commands always get through, the picture stays live.
#[derive(Debug, Parser)]
#[command(name = "aquila", version, max_term_width = 110, after_long_help = overview())]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make and show the key that tells the other side who this is
    #[command(after_long_help = KEYS_HELP)]
    Keys(KeysArgs),
    /// Run the link on the aircraft's companion computer
    #[command(after_long_help = air_help())]
    Air(LinkArgs),
    /// Run the link beside the ground station
    #[command(after_long_help = ground_help())]
    Ground(LinkArgs),
    /// Carry TCP connections and UDP between programs here and at the far side of a raw radio
    Gateway(GatewayArgs),
    /// Carry files from where they are made to the shore, by whoever passes
    Mule(MuleArgs),
    /// Fly a simulated aircraft over an emulated cellular link on this machine
    #[command(after_long_help = DEMO_HELP)]
    Demo(DemoArgs),
    /// Try links out: run plans in virtual time or live, and see whether what was promised holds
    #[command(after_long_help = LAB_HELP)]
    Lab(LabArgs),
    /// Work out before the flight what the links will give
    Plan(PlanArgs),
    /// Check a configuration file and say what it means
    #[command(after_long_help = CHECK_HELP)]
    Check(CheckArgs),
    /// Write a completion script for a shell to standard output
    #[command(after_long_help = COMPLETIONS_HELP)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual pages
    Man {
        /// Directory for one page of each command; without it, the main page goes to standard output
        #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
        out: Option<PathBuf>,
    },
}

/// Options of `air` and `ground`. Each overrides the configuration file's key that is named with it.
#[derive(Debug, Args, Default)]
pub struct LinkArgs {
    /// Configuration file; without it, defaults and the options given here
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,

    /// Private key of this side, made by `aquila keys generate` [identity.key]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Identity")]
    pub key: Option<PathBuf>,
    /// Public key of the other side, as its `aquila keys show` prints it [identity.peer]
    #[arg(long, value_name = "aq1:KEY", help_heading = "Identity")]
    pub peer: Option<PublicKey>,

    /// Wait for the other side at this UDP address; the ground station's default is [::]:9400 [link.listen]
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "connect", help_heading = "Link")]
    pub listen: Option<SocketAddr>,
    /// Connect to the other side; the port is 9400 if none is given [link.connect]
    #[arg(long, value_name = "HOST[:PORT]", help_heading = "Link")]
    pub connect: Option<Remote>,
    /// Listen on this network interface only [link.bind_interface]
    #[arg(long, value_name = "NAME", conflicts_with = "bearer", help_heading = "Link")]
    pub bind_interface: Option<String>,
    /// A way to the other side: an interface, an address of ours, or @HOST:PORT, and perhaps ,backup or ,metered; given several
    /// times, commands are replicated and the first copy wins [link.bearers]
    #[arg(long, value_name = "BEARER", help_heading = "Link")]
    pub bearer: Vec<BearerSpec>,
    /// A radio of ours alone, over which AeroTP is spoken beside the network or instead of it: DEVICE:BAUD, such as
    /// /dev/ttyUSB0:57600, or udp:LOCAL:PORT>REMOTE:PORT,rate=5M; both sides name theirs, and may do so several times
    /// [link.radios]
    #[arg(long, value_name = "RADIO", help_heading = "Link")]
    pub radio: Vec<RadioSpec>,
    /// Bytes of UDP payload in a packet, 1200 to 1472; 1200 passes every overlay [link.mtu]
    #[arg(long, value_name = "BYTES", help_heading = "Link")]
    pub mtu: Option<Mtu>,
    /// Modem to ask each second how it hears the network, so that the link is careful in time: mmcli:0, at:/dev/ttyUSB2, or
    /// file:PATH for a script [link.modem]
    #[arg(long, value_name = "MODEM", help_heading = "Link")]
    pub modem: Option<ModemSpec>,
    /// Congestion controller of video and bulk: fpv2, or for comparison paper, paper-literal, scream, bbr, cubic; dedicated for a lossy radio of your own
    /// [congestion.controller]
    #[arg(long, value_name = "NAME", help_heading = "Link")]
    pub controller: Option<ControllerName>,
    /// Directory for what must survive a restart [link.state]
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath, help_heading = "Link")]
    pub state: Option<PathBuf>,

    /// MAVLink endpoint on this machine; may be given several times [mavlink.endpoints]
    #[arg(short, long, value_name = "ENDPOINT", help_heading = "MAVLink and video")]
    pub mavlink: Vec<EndpointSpec>,
    /// Camera that sends RTP to this UDP address; may be given several times [video.inputs]
    #[arg(long, value_name = "rtp://ADDRESS:PORT", help_heading = "MAVLink and video")]
    pub video_in: Vec<VideoSpec>,
    /// What makes the camera's pictures and is told how much the link carries: majestic:root:PASSWORD@HOST is a camera with
    /// OpenIPC (better in a file that only aquila may read: who may list processes sees it here),
    /// v4l2:DEVICE one of the kernel's that encodes itself, exec:COMMAND starts a program that gets lines of JSON [video.encoder]
    #[arg(long, value_name = "ENCODER", help_heading = "MAVLink and video")]
    pub encoder: Option<EncoderSpec>,
    /// Pipeline of GStreamer's that films in this process and ends with an encoder, which is asked before each picture; for
    /// example: v4l2src ! videoconvert ! x264enc. Needs a build with --features gstreamer [video.camera]
    #[arg(long, value_name = "PIPELINE", help_heading = "MAVLink and video")]
    pub camera: Option<String>,
    /// Viewer that the other side's RTP is sent to; may be given several times [video.outputs]
    #[arg(long, value_name = "rtp://ADDRESS:PORT", help_heading = "MAVLink and video")]
    pub video_out: Vec<VideoSpec>,

    #[command(flatten)]
    pub carried: CarriedArgs,

    /// Serve a status page, JSON and Prometheus metrics here, for example at 127.0.0.1:9420 [status.listen]
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Watching")]
    pub status: Option<SocketAddr>,
    /// What to log: error, warn, info, debug, trace, or a filter such as info,aquila_net=debug [log.level]
    #[arg(long, value_name = "LEVEL", help_heading = "Watching")]
    pub log: Option<String>,
}

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// How long to fly
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(5..=3600))]
    pub seconds: u32,
    /// How the emulated link behaves: scripted (handover, lte-city, lte-rural, clean) or made up (lte, uav, loiter); list
    /// describes them
    #[arg(long, value_name = "NAME", default_value = "handover")]
    pub profile: String,
    /// The link's luck; over a made-up link, each number is another flight
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Fly over this many bearers, lte-a, lte-b and so on, each by a link of its own, each a little farther than the one before;
    /// with several, the one that carries video is cut in mid-flight
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=4))]
    pub bearers: u8,
    /// Fly with a serial telemetry radio beside: 57,600 baud, a bit in 50,000 flipped; commands go by both
    #[arg(long)]
    pub radio: bool,
    /// End with one JSON object on standard output instead of a table
    #[arg(long)]
    pub json: bool,
    /// No live view: for scripts, and where there is no terminal
    #[arg(long)]
    pub headless: bool,
    /// Serve the ground side's status page here, for example at 127.0.0.1:9420
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub status: Option<SocketAddr>,
    /// What to log to standard error: error, warn, info, debug, trace, or a filter
    #[arg(long, value_name = "LEVEL", default_value = "error")]
    pub log: String,
}

#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    pub command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Run a plan in virtual time
    Run(LabRunArgs),
    /// Run a plan in real time: this program and the kernel's sockets in network namespaces
    Live(LabLiveArgs),
    /// Run a plan in virtual time with real pictures: what would the pilot have seen?
    #[command(after_long_help = VIDEO_HELP)]
    Video(LabVideoArgs),
    /// Run the experiments of the AeroTP paper in virtual time: AeroTP, TCP and UDP over a link that flips bits
    #[command(after_long_help = AEROTP_HELP)]
    Aerotp(LabAerotpArgs),
    /// Carry files over radios that lose most of what is sent, in virtual time: does all come home, and how fast?
    Mule(crate::lab::mule::LabMuleArgs),
    /// Look at traces of links, convert, make up and draw them
    #[command(after_long_help = TRACE_HELP)]
    Trace(TraceArgs),
    /// Compare two files of rates over time: how well does a run repeat what was recorded?
    #[command(after_long_help = SCORE_HELP)]
    Score(ScoreArgs),
    /// Run every shipped plan in virtual time and say what holds
    Check,
    /// List the shipped plans
    List,
    /// Print a shipped plan, to begin one's own with
    Show {
        /// Its name
        plan: String,
    },
}

#[derive(Debug, Args)]
pub struct LabLiveArgs {
    /// A plan: the name of a shipped one, or a file
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath)]
    pub plan: String,
    /// Seed of the first repeat, in place of the plan's
    #[arg(long)]
    pub seed: Option<u64>,
    /// How often each contender runs, in place of the plan's number
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: Option<u32>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// Write a report in this directory: report.html, and CSV and JSON beside it
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Directory for the programs' logs; without it, a new one in the system's for temporary files
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub logs: Option<PathBuf>,
    /// The program under test, in place of this one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub binary: Option<PathBuf>,
    /// Run only these contenders; can be given several times
    #[arg(long = "only", value_name = "CONTENDER")]
    pub contenders: Vec<String>,
    /// Run the plan in virtual time too, and fail if medians or 95 of 100 differ by more than the bounds in the manual
    #[arg(long)]
    pub compare: bool,
    /// Look on: links and flows in the terminal while it runs
    #[arg(long)]
    pub live: bool,
    /// With the report, capture each contender's first repeat: a pcapng file for each node, drops with their reasons
    #[arg(long, requires = "out")]
    pub pcap: bool,
}

#[derive(Debug, Args)]
pub struct LabRunArgs {
    /// A plan: the name of a shipped one, or a file
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath)]
    pub plan: String,
    /// Seed of the first repeat, in place of the plan's
    #[arg(long)]
    pub seed: Option<u64>,
    /// Run only these contenders; can be given several times
    #[arg(long = "only", value_name = "CONTENDER")]
    pub contenders: Vec<String>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// Write a report in this directory: report.html, and CSV and JSON beside it
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// With the report, capture each contender's first repeat: a pcapng file for each node, drops with their reasons
    #[arg(long, requires = "out")]
    pub pcap: bool,
}

#[derive(Debug, Args)]
pub struct LabVideoArgs {
    /// A plan with a camera: the name of a shipped one, or a file
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath)]
    pub plan: String,
    /// Who encodes: openh264, x264, x264-long-buffer, x265 or x265-ultrafast
    #[arg(long, value_name = "ENCODER", default_value = "openh264")]
    pub codec: Engine,
    /// What is filmed: flight, or a video file
    #[arg(long, value_name = "flight|FILE", default_value = "flight")]
    pub content: Content,
    /// Size at which it is encoded; steps: as the rate has it, by the encoder's own ladder or one given, such as
    /// 1280x720@30:1600,640x360@30:0
    #[arg(long, value_name = "WIDTHxHEIGHT|steps", default_value = "1280x720")]
    pub size: Sizes,
    /// In real time: this program's own file in network namespaces, as `aquila lab live` has it, and an encoder that takes its time
    #[arg(long)]
    pub live: bool,
    /// With --live: directory for the programs' logs; without it, a new one in the system's for temporary files
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath, requires = "live")]
    pub logs: Option<PathBuf>,
    /// Measure VMAF too, with an ffmpeg that has libvmaf
    #[arg(long)]
    pub vmaf: bool,
    /// That ffmpeg, if it is neither in PATH nor that of the Python package imageio-ffmpeg
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ffmpeg: Option<PathBuf>,
    /// VMAF of every so manieth picture
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub vmaf_every: u32,
    /// Seed of the first repeat, in place of the plan's
    #[arg(long)]
    pub seed: Option<u64>,
    /// How often each contender runs, each time with the next seed
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Run only these contenders; can be given several times
    #[arg(long = "only", value_name = "CONTENDER")]
    pub contenders: Vec<String>,
    /// Fail if a contender has less than this of the codec oracle's quality, live@one way + 100 ms, over all variants and repeats: of VMAF
    /// if it is asked for, of SSIM otherwise
    #[arg(long, value_name = "PERCENT")]
    pub min_oracle_percent: Option<f64>,
    /// Print one line of JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Write into this directory: quality.json, each picture's fate, and the streams that could be decoded
    #[arg(short, long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct LabAerotpArgs {
    /// Run only these parts; can be given several times
    #[arg(long, value_enum, value_name = "PART")]
    pub only: Vec<AerotpPart>,
    /// Runs of each point of figures 13 to 24; of figure 12 there are 50 times as many
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub runs: u64,
    /// Seed of the first run of each point
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// In real time, with the kernel's TCP and UDP, over a link of the lab that flips bits, instead of in virtual time: figures 21
    /// to 23, so many runs of each point
    #[arg(long, value_name = "RUNS", num_args = 0..=1, default_missing_value = "2", value_parser = clap::value_parser!(u64).range(1..=100), conflicts_with_all = ["only", "runs", "plot"])]
    pub live: Option<u64>,
    /// Draw it as well: a picture if the file's name ends with .svg, a page if with .html
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub plot: Option<PathBuf>,
    /// Print tables in Markdown
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AerotpPart {
    /// Figure 12: from connecting to the first data
    SetUp,
    /// Figures 13 to 20: quasi-reliable mode by words of parity
    Quasi,
    /// Figures 21 to 24: all modes, TCP and UDP
    Modes,
    /// A million segments in quasi-reliable mode; takes some minutes, and is run only if asked for
    Long,
}

#[derive(Debug, Args)]
pub struct ScoreArgs {
    /// What is true: a trace, a radio log, output of iperf or iperf3, or a report's links.csv
    #[arg(value_name = "TRUTH", value_hint = ValueHint::FilePath)]
    pub truth: PathBuf,
    /// What is compared with it: likewise
    #[arg(value_name = "OTHER", value_hint = ValueHint::FilePath)]
    pub other: PathBuf,
    /// Fail if the mean absolute error per second is more than this share of the true mean
    #[arg(long, value_name = "PERCENT")]
    pub max_mae_percent: Option<f64>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Of a links.csv: this contender; the first one if nothing is said
    #[arg(long)]
    pub contender: Option<String>,
    /// Of a links.csv: this link
    #[arg(long)]
    pub link: Option<String>,
    /// Of a links.csv: this direction
    #[arg(long, value_enum)]
    pub direction: Option<DirectionArg>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DirectionArg {
    /// From the first node
    Up,
    /// To it
    Down,
}

impl DirectionArg {
    /// As in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

#[derive(Debug, Args)]
pub struct TraceArgs {
    #[command(subcommand)]
    pub command: TraceCommand,
}

#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// Say what traces are like: length, rates, outages, where they are from
    Info {
        /// Traces, in mahimahi's format or as CSV
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, required = true)]
        files: Vec<PathBuf>,
        /// Print JSON: an object, or a list of them for several files
        #[arg(long)]
        json: bool,
    },
    /// Convert a trace to the other format, and say what is lost
    Convert(TraceConvertArgs),
    /// Make up a trace of a cellular link from a seed
    Synth(TraceSynthArgs),
    /// Draw a trace over time
    Plot {
        /// The trace
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Where to: a picture if it ends with .svg, else a page
        #[arg(value_name = "TO", value_hint = ValueHint::FilePath)]
        to: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct TraceConvertArgs {
    /// The trace
    #[arg(value_name = "FROM", value_hint = ValueHint::FilePath)]
    pub from: PathBuf,
    /// Where to; replaced if it is there
    #[arg(value_name = "TO", value_hint = ValueHint::FilePath)]
    pub to: PathBuf,
    /// Format to write; the other one if nothing is said
    #[arg(long, value_enum)]
    pub format: Option<FormatArg>,
    /// When a mahimahi trace becomes CSV: time that a row sums up
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub span: Time,
    /// Write kind, source and licence as comments into a mahimahi trace, too; mahimahi itself would not take it
    #[arg(long)]
    pub comments: bool,
}

#[derive(Debug, Args)]
pub struct TraceSynthArgs {
    /// Where to; replaced if it is there
    #[arg(value_name = "TO", value_hint = ValueHint::FilePath)]
    pub to: PathBuf,
    /// Kind of link: lte (moving on the ground), uav (in the air, with up to 13 handovers a minute) or loiter (circling near
    /// a ship)
    #[arg(long, default_value = "uav")]
    pub model: String,
    /// Another seed makes another link of that kind; the same seed the same one on every machine
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Length
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub seconds: u32,
    /// Format to write
    #[arg(long, value_enum, default_value = "csv")]
    pub format: FormatArg,
    /// Write kind, source and licence as comments into a mahimahi trace, too; mahimahi itself would not take it
    #[arg(long)]
    pub comments: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// One opportunity of 1500 bytes a line, in milliseconds
    Mahimahi,
    /// Rate, delay and loss over time
    Csv,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The configuration file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The side that it is for; without it, both are tried
    #[arg(long, value_enum)]
    pub side: Option<SideArg>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SideArg {
    Air,
    Ground,
}

#[derive(Debug, Args)]
pub struct KeysArgs {
    #[command(subcommand)]
    pub command: KeysCommand,
}

#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Make a new private key, readable by its owner only; never replaces one
    Generate(KeyFileArgs),
    /// Show the public key, to be put into the other side's configuration
    Show {
        #[command(flatten)]
        file: KeyFileArgs,
        /// Only the public key, for scripts
        #[arg(long)]
        public: bool,
    },
    /// Make a key that all members of a cast share, readable by its owner only; never replaces one
    Shared {
        /// The file; give a copy to each member, by a way that nobody else can read
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        out: PathBuf,
    },
    /// Show the fingerprint of a public key, to compare by voice
    Fingerprint {
        /// The public key
        #[arg(value_name = "aq1:KEY")]
        key: PublicKey,
    },
}

/// Where the private key is.
#[derive(Debug, Args, Default)]
pub struct KeyFileArgs {
    /// File of the private key; without it, as the configuration file says, else identity.key in the state directory
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub key: Option<PathBuf>,
    /// State directory, as of `aquila air` and `aquila ground`
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub state: Option<PathBuf>,
    /// Configuration file
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

impl LinkArgs {
    /// Puts what was given here in the place of what `file` says.
    pub fn override_file(self, file: &mut File) {
        fn set<T>(key: &mut Option<T>, given: Option<T>) {
            if given.is_some() {
                *key = given;
            }
        }
        fn list<T>(given: Vec<T>) -> Option<Vec<T>> {
            (!given.is_empty()).then_some(given)
        }
        if self.listen.is_some() || self.connect.is_some() {
            (file.link.listen, file.link.connect) = (None, None);
        }
        let texts = |specs: Vec<VideoSpec>| list(specs.into_iter().map(Text).collect());
        set(&mut file.identity.key, self.key);
        set(&mut file.identity.peer, self.peer.map(Text));
        set(&mut file.link.listen, self.listen.map(Text));
        set(&mut file.link.connect, self.connect.map(Text));
        set(&mut file.link.bind_interface, self.bind_interface);
        set(&mut file.link.bearers, list(self.bearer.into_iter().map(Text).collect()));
        set(&mut file.link.radios, list(self.radio.into_iter().map(Text).collect()));
        set(&mut file.link.mtu, self.mtu);
        set(&mut file.link.modem, self.modem.map(Text));
        set(&mut file.link.state, self.state);
        set(&mut file.congestion.controller, self.controller.map(Text));
        set(&mut file.mavlink.endpoints, list(self.mavlink));
        set(&mut file.video.inputs, texts(self.video_in));
        set(&mut file.video.encoder, self.encoder.map(Text));
        set(&mut file.video.camera, self.camera);
        set(&mut file.video.outputs, texts(self.video_out));
        if !self.carried.is_empty() {
            // The file's may have a radio of their own; these go by this link.
            file.gateway.radio = None;
            self.carried.override_file(file);
        }
        set(&mut file.status.listen, self.status.map(Text));
        set(&mut file.log.level, self.log);
    }
}

impl From<SideArg> for Side {
    fn from(side: SideArg) -> Self {
        match side {
            SideArg::Air => Self::Air,
            SideArg::Ground => Self::Ground,
        }
    }
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done, or ended by Ctrl-C or SIGTERM
  1  it failed while running
  2  wrong usage or configuration; nothing was started";

const KEYS_HELP: &str = "\
Each side has a private key that never leaves it, and knows the public key of the other; nobody else is ever answered.

Examples:
  aquila keys generate
  aquila keys show
  sudo -u aquila aquila keys generate     for the systemd services, which run as this user
  aquila keys fingerprint aq1:<key>       read it to each other on the telephone";

const DEMO_HELP: &str = "\
A simulated aircraft with a camera, both sides of the link, and between them an emulated cellular network with changing
rate, an outage and a change of address. QGroundControl or MAVProxy can join in: MAVLink on UDP 14550, video on UDP 5600.

The link can be made up instead, its rate another every tenth of a second, with the handovers of recorded flights: most of
them last 2 ms, few 0.2 s or more, and after each the delay is another. Each seed is another flight. No address changes.

With --bearers 2, 3 or 4 the session goes over that many links. The further ones follow the same profile, begun at another
time and with other luck, and take 20 ms longer one way, each than the one before. After about 40 % of the flight the bearer
that carries video is cut in both directions for 20 % of it; the demo waits a little for a moment at which all links are
there. It then says what each bearer did, what copies of commands cost, how long the worst command of the cut took, and when
the first picture came another way. A command should take no longer than 1.25 round trips of the bearer that is left and
20 ms, the first picture 250 ms; the exit code depends on what was delivered, not on that.

With --radio both sides have a serial radio as well, on a pseudo-terminal, and speak AeroTP over it. While the network is out
commands go by it. The result says how many came by it first, and how often it had to repeat.

Examples:
  aquila demo
  aquila demo --bearers 2                 one of the two is cut in mid-flight
  aquila demo --radio                     a serial radio beside: who brought the commands first?
  aquila demo --profile list
  aquila demo --profile uav --seed 24     LTE above many cells, a handover of 0.2 s among 11
  aquila demo --headless --seconds 20 --json";

const LAB_HELP: &str = "\
A plan says what links there are, who sends what over them, what happens, and what has to come out; docs/lab.md is its
manual. In virtual time a minute takes a fraction of a second, and the same seed gives the same run on every machine.

Examples:
  aquila lab list                         what is shipped
  aquila lab run figure5                  commands beside video, ours and raw UDP
  aquila lab run figure7 --out report     with a report to look at in a browser
  aquila lab show figure5 > mine.toml     a plan to change
  aquila lab run mine.toml --json         for scripts
  aquila lab live figure5                 the same in real time, beside the kernel's TCP
  aquila lab video quality-s4 --vmaf      what the pilot sees, with a real encoder
  aquila lab trace synth flight.csv       a made-up trace of a cellular link in the air
  aquila lab score flight.csv report/links.csv   how well a run repeats it
  aquila lab check                        the shipped plans, but the long ones

Exit code: 0 if all checks hold, 1 if one falls short, 2 if the plan cannot be used or the run does not count.";

const VIDEO_HELP: &str = "\
A real encoder films a synthetic flight (or a file) frame by frame over each contender's link in virtual time; what arrived
is decoded and compared with what was filmed: by index, as if time did not matter, and live@D, where only what arrived in
time counts. Quality is also given over that of the codec oracle: the same encoder, told the link's true capacity, without
any link in between. docs/quality.md is the manual, and says what to install for x264, x265, clips and VMAF.

Examples:
  aquila lab video quality-s4
  aquila lab video quality-s2 --codec x264 --vmaf
  aquila lab video quality-s4 --codec x264 --vmaf --size steps
  aquila lab video quality-s2 --codec x264 --vmaf --only aquila --min-oracle-percent 95
  aquila lab video mine.toml --content road.mp4 -o pictures
  aquila lab video quality-s4 --codec x264 --vmaf --live

Exit code: 0 if it is done, 1 if quality falls short of --min-oracle-percent or a file cannot be written, 2 if the plan or the
encoder cannot be used, a live run does not count, or there is no VMAF for --min-oracle-percent to go by.";

const TRACE_HELP: &str = "\
Two formats: mahimahi's, one line for each opportunity to deliver 1500 bytes, and CSV with a header such as
time_s,rate_mbps,delay_ms,loss. Comments '# kind: capacity', '# source: ...' and '# licence: ...' say where a trace is
from. A plan plays either: [[link]] both = { trace = \"flight.csv\" }.

Examples:
  aquila lab trace synth flight.csv --model uav --seed 3 --seconds 600
  aquila lab trace info flight.csv
  aquila lab trace plot flight.csv flight.svg
  aquila lab trace convert flight.csv flight.mahi
  aquila lab trace convert flight.mahi seconds.csv --span 100ms

Exit code: 0 if it is done, 1 if a file cannot be written, 2 if a trace is malformed (file, line and reason are said).";

const AEROTP_HELP: &str = "\
A megabyte, written at 4.416 Mbit/s, over 5 Mbit/s and 10 ms with wrong bits in all that is sent, both ways; packets of 1500
bytes, IP and UDP included. First data: over 10 Mbit/s and 5 ms with loss both ways. Equal seeds give equal runs. Tables go to
standard output; docs/aerotp-experiments.md says what they mean.

Examples:
  aquila lab aerotp                                      all, about a minute of two processors
  aquila lab aerotp --only modes --runs 5 --plot modes.html
  aquila lab aerotp --json > figures.json
  aquila lab aerotp --only long                          a million segments
  aquila lab aerotp --live                               in real time, some seven minutes

Exit code: 0, 1 if a figure falls short of its bound.";

const SCORE_HELP: &str = "\
Both files begin at time 0, and what is compared is the time that both cover. Of each whole second: MAE (mean absolute
error), bias (other less truth), and how far the distributions are apart: KS (Kolmogorov-Smirnov, 0 to 1) and W1
(Wasserstein-1, Mbit/s). With iperf's tests also of each test. Known are traces in mahimahi's format and as CSV (a radio
log of rate and CCQ counts as rate x CCQ), iperf3 --json and iperf 2's server (-y C, or its text, with times by -e), any
number of tests one after the other, and links.csv of a report.

Examples:
  aquila lab score flight.csv iperf.json
  aquila lab score flight.csv iperf2.csv                 of iperf -s -u -i 1 -y C
  aquila lab score flight.csv report/links.csv --contender udp --direction up --max-mae-percent 1

Exit code: 0, 1 if the error is more than --max-mae-percent, 2 if a file cannot be read (file, line and reason are said).";

const CHECK_HELP: &str = "\
Examples:
  aquila check /etc/aquila/aquila.toml
  aquila check --side air aquila.toml

Exit codes:
  0  it can be used
  2  it cannot; each mistake is named with its line";

const COMPLETIONS_HELP: &str = "\
Examples:
  aquila completions bash > ~/.local/share/bash-completion/completions/aquila
  aquila completions zsh > ~/.zfunc/_aquila
  aquila completions fish > ~/.config/fish/completions/aquila.fish";

const ENDPOINTS_AND_VIDEO: &str = "\
Video endpoints:
  rtp://ADDRESS:PORT[?codec=auto|h264|h265|opaque][&flow=0..15]
      RTP over UDP, as cameras, GStreamer and ffmpeg send it
      e.g. rtp://0.0.0.0:5600 as --video-in, rtp://127.0.0.1:5600 as --video-out
  Several cameras are told apart by their place in the list, or by flow=;
  a viewer is shown flow 0 unless it asks for another.";

fn overview() -> String {
    format!(
        "\
Examples:
  See it work, with nothing else installed:
    aquila demo

  Make a key on each side, and note what is printed:
    aquila keys generate

  On the ground, beside QGroundControl:
    aquila ground --peer aq1:<key of the aircraft>

  On the companion computer, with the autopilot on a serial line and a camera that sends RTP to port 5600:
    aquila air --peer aq1:<key of the ground> --connect ground.example.org \\
        --mavlink serial:/dev/ttyAMA0:921600

{EXIT_CODES}"
    )
}

fn air_help() -> String {
    format!(
        "\
Examples:
  Autopilot on a serial line, camera on port 5600 (the default):
    aquila air --peer aq1:<key> --connect ground.example.org --mavlink serial:/dev/ttyAMA0:921600

  A simulator on this machine, no camera file needed:
    aquila air --peer aq1:<key> --connect 127.0.0.1 --mavlink tcpout:127.0.0.1:5760

  Its SSH server may be reached from the ground, through the link and behind everything else:
    aquila air --peer aq1:<key> --connect ground.example.org --allow tcp/127.0.0.1:22

  Everything from a file, as the systemd service does:
    aquila air --config /etc/aquila/aquila.toml

MAVLink endpoints (default udpin:127.0.0.1:14550):
{}
{ENDPOINTS_AND_VIDEO}

{EXIT_CODES}",
        endpoint_table()
    )
}

fn ground_help() -> String {
    format!(
        "\
Examples:
  QGroundControl on this machine, with its own defaults (MAVLink on 14550, video on 5600):
    aquila ground --peer aq1:<key>

  MAVProxy by TCP, and a second viewer on a tablet:
    aquila ground --peer aq1:<key> --mavlink tcpin:127.0.0.1:5760 \\
        --video-out rtp://127.0.0.1:5600 --video-out rtp://192.168.1.30:5600

  SSH into the aircraft, which allows it; then `ssh -p 2222 pilot@127.0.0.1`. Modes and rules: see `aquila gateway --help`:
    aquila ground --peer aq1:<key> --forward tcp/2222:127.0.0.1:22

MAVLink endpoints (default udpout:127.0.0.1:14550):
{}
{ENDPOINTS_AND_VIDEO}

{EXIT_CODES}",
        endpoint_table()
    )
}

fn endpoint_table() -> String {
    KINDS.iter().map(|kind| format!("  {}\n      {}\n      e.g. {}\n", kind.syntax, kind.help, kind.example)).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_teaches_with_examples_endpoints_and_exit_codes() {
        let mut command = Cli::command();
        assert!(command.render_long_help().to_string().contains("Exit codes:"));
        for name in ["air", "ground"] {
            let help = command.find_subcommand_mut(name).unwrap().render_long_help().to_string();
            for wanted in ["Examples:", "serial:DEVICE", "rtp://ADDRESS:PORT", "Exit codes:", "[link.mtu]"] {
                assert!(help.contains(wanted), "{name}: {wanted} in\n{help}");
            }
        }
    }

    #[test]
    fn wrong_values_are_refused_with_what_to_write() {
        for (args, hint) in [
            (vec!["air", "--mtu", "1100"], "1392"),
            (vec!["air", "--peer", "abc"], "aquila keys show"),
            (vec!["air", "--mavlink", "udp:1"], "udpin"),
            (vec!["air", "--video-in", "rtsp://x"], "rtp://ADDRESS:PORT"),
            (vec!["air", "--listen", "[::]:1", "--connect", "host"], "cannot be used with"),
            (vec!["demo", "--seconds", "1"], "5..=3600"),
            (vec!["demo", "--bearers", "0"], "1..=4"),
            (vec!["demo", "--bearers", "5"], "1..=4"),
            (vec!["keys"], "generate"),
        ] {
            let error = Cli::try_parse_from(std::iter::once("aquila").chain(args.iter().copied())).unwrap_err();
            assert!(error.to_string().contains(hint), "{args:?}: {error}");
            assert_eq!(error.exit_code(), 2);
        }
    }
}
