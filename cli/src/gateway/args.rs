//! The command line of `aquila gateway`.

use std::net::SocketAddr;
use std::path::PathBuf;

use aquila_net::gateway::{Allow, Forward, InterceptSpec, Rule, TunSpec};
use aquila_net::radio::RadioSpec;
use aquila_proto::identity::PublicKey;
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum, ValueHint};

use crate::config::{File, GatewaySide, Text};

/// What a gateway carries. Each overrides the configuration file's key that is named with it.
#[derive(Debug, Args, Default)]
pub struct CarriedArgs {
    /// Listen here, and carry what comes to a target at the far side: PROTOCOL/[ADDRESS:]PORT:TARGET:PORT[=MODE]; may be given
    /// several times [gateway.forwards]
    #[arg(long, value_name = "FORWARD", help_heading = "TCP and UDP")]
    pub forward: Vec<Forward>,
    /// Take connections to these addresses where applications open them, and pass them through to the far side, acknowledgements
    /// included (mode reliable): tcp/ADDRESS[/BITS]:PORTS[>ADDRESS]; may be given several times; needs CAP_NET_ADMIN
    /// [gateway.intercepts]
    #[arg(long, value_name = "INTERCEPT", help_heading = "TCP and UDP")]
    pub intercept: Vec<InterceptSpec>,
    /// TUN device for connections that are passed through: NAME[,ADDRESS/BITS]...; the side that has the targets needs it, the
    /// other has aquila0 by itself; needs CAP_NET_ADMIN [gateway.tun]
    #[arg(long, value_name = "TUN", help_heading = "TCP and UDP")]
    pub tun: Option<TunSpec>,
    /// Mode of a target's ports, for forwards without one: PROTOCOL/PORTS=MODE; the first that fits counts [gateway.rules]
    #[arg(long, value_name = "RULE", help_heading = "TCP and UDP")]
    pub rule: Vec<Rule>,
    /// What the far side may reach from here: PROTOCOL/ADDRESS[/BITS]:PORTS; without any, this machine's own loopback and
    /// nothing else; with one, nothing but what is allowed [gateway.allow]
    #[arg(long, value_name = "ALLOW", help_heading = "TCP and UDP")]
    pub allow: Vec<Allow>,
}

/// Options of `gateway`. Each overrides the configuration file's key that is named with it.
#[derive(Debug, Args, Default)]
#[command(after_long_help = HELP)]
pub struct GatewayArgs {
    /// Configuration file; without it, defaults and the options given here
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Which end this is; the aircraft's begins the handshake [gateway.side]
    #[arg(long, value_enum)]
    pub side: Option<GatewaySide>,

    /// Private key of this side, made by `aquila keys generate` [identity.key]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Identity")]
    pub key: Option<PathBuf>,
    /// Public key of the other side, as its `aquila keys show` prints it [identity.peer]
    #[arg(long, value_name = "aq1:KEY", help_heading = "Identity")]
    pub peer: Option<PublicKey>,
    /// Directory for what must survive a restart, custody included [link.state]
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath, help_heading = "Identity")]
    pub state: Option<PathBuf>,

    /// The radio between the two: DEVICE:BAUD for a serial one, or udp:LOCAL:PORT>REMOTE:PORT,rate=RATE; both ours alone
    /// [gateway.radio]
    #[arg(long, value_name = "RADIO", help_heading = "Carrying")]
    pub radio: Option<RadioSpec>,
    #[command(flatten)]
    pub carried: CarriedArgs,

    /// Serve how each connection fares here, as text, JSON and Prometheus metrics, for example at 127.0.0.1:9420 [status.listen]
    #[arg(long, value_name = "ADDRESS", help_heading = "Watching")]
    pub status: Option<SocketAddr>,
    /// What to log: error, warn, info, debug, trace, or a filter [log.level]
    #[arg(long, value_name = "LEVEL", help_heading = "Watching")]
    pub log: Option<String>,
}

impl CarriedArgs {
    /// Whether nothing was given.
    pub fn is_empty(&self) -> bool {
        let Self { forward, intercept, tun, rule, allow } = self;
        forward.is_empty() && intercept.is_empty() && tun.is_none() && rule.is_empty() && allow.is_empty()
    }

    /// Puts what was given in place of what the file has.
    pub fn override_file(self, file: &mut File) {
        fn list<T>(key: &mut Option<Vec<Text<T>>>, given: Vec<T>) {
            if !given.is_empty() {
                *key = Some(given.into_iter().map(Text).collect());
            }
        }
        list(&mut file.gateway.forwards, self.forward);
        list(&mut file.gateway.intercepts, self.intercept);
        list(&mut file.gateway.rules, self.rule);
        list(&mut file.gateway.allow, self.allow);
        if let Some(tun) = self.tun {
            file.gateway.tun = Some(Text(tun));
        }
    }
}

impl GatewayArgs {
    /// Puts what was given in place of what the file has.
    pub fn override_file(self, file: &mut File) {
        fn set<T>(key: &mut Option<T>, given: Option<T>) {
            if given.is_some() {
                *key = given;
            }
        }
        set(&mut file.identity.key, self.key);
        set(&mut file.identity.peer, self.peer.map(Text));
        set(&mut file.link.state, self.state);
        set(&mut file.gateway.side, self.side);
        set(&mut file.gateway.radio, self.radio.map(Text));
        self.carried.override_file(file);
        set(&mut file.status.listen, self.status.map(Text));
        set(&mut file.log.level, self.log);
    }
}

const HELP: &str = "\
Examples:
  SSH into the aircraft, and its MAVLink, over a telemetry radio. In the aircraft:
    aquila gateway --side air --radio /dev/ttyUSB0:57600 --peer aq1:<key of the ground>
  On the ground; then `ssh -p 2222 pilot@127.0.0.1`:
    aquila gateway --side ground --radio /dev/ttyUSB0:57600 --peer aq1:<key of the aircraft> \\
        --forward tcp/2222:127.0.0.1:22 --forward udp/14550:127.0.0.1:14550

  Files from the aircraft to a machine beside the ground station, which its gateway has to allow:
    aquila gateway --side air ... --forward tcp/8873:192.168.1.5:873=near-reliable
    aquila gateway --side ground ... --allow tcp/192.168.1.5:873

  The aircraft's own SSH, end to end: nothing is acknowledged here before the SSH server's kernel has acknowledged it. In the
  aircraft, as root, and on the ground, as root; then `ssh pilot@10.20.0.5`:
    aquila gateway --side air ... --tun aquila0
    aquila gateway --side ground ... --intercept 'tcp/10.20.0.5:22>127.0.0.1'

Modes, each AeroTP's transfer mode of that name:
  reliable (tcp, by --intercept)
      Acknowledgements are passed through: what is acknowledged here, the far application's kernel has.
  near-reliable (tcp, the default)
      What is acknowledged here is kept on disk until the far application has it, over outages and restarts of both gateways.
      If it cannot be delivered after all, the connection is reset and the log says how much that concerns.
  quasi-reliable[,deadline=500ms][,fill=nothing|zeros] (tcp)
      Sent once, with error correction. What is missing after the deadline is left out, or zeros stand in for it.
  unreliable-datagram (udp, the default)
      One for one, by itself.
  unreliable-connection (udp)
      One for one, in order.

The far side connects to addresses as it sees them: 127.0.0.1 is the far gateway's own machine. It looks names up as well.

Exit codes:
  0  done, or ended by Ctrl-C or SIGTERM
  1  failed while running: an address, a folder or a radio could not be used
  2  wrong usage or configuration; nothing was started";

/// Beside the configuration, which knows nothing of command lines.
impl ValueEnum for GatewaySide {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Air, Self::Ground]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::Air => PossibleValue::new("air").help("In the aircraft"),
            Self::Ground => PossibleValue::new("ground").help("On the ground"),
        })
    }
}
