//! The command line of `aquila mule`.

use std::net::SocketAddr;
use std::path::PathBuf;

use aquila_bundle::{Eid, NodeId};
use aquila_depot::{Rule, State};
use aquila_net::mule::{CastSpec, HearSpec, PeerSpec, RouteSpec};
use aquila_proto::identity::PublicKey;
use clap::{Args, Subcommand, ValueHint};

use crate::config::{BundleName, DeleteWhen, File, Text};

/// Files from where they are made to the shore, by whoever passes
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct MuleArgs {
    #[command(subcommand)]
    pub command: MuleCommand,
}

#[derive(Debug, Subcommand)]
pub enum MuleCommand {
    /// Run the store of a ship, buoy or sensor: files in it are given to carriers that pass
    Node(RunArgs),
    /// Run the store of an aircraft: takes what nodes have, and gives it to a shore
    Carry(RunArgs),
    /// Run the store where files end: puts what carriers bring into a folder
    Shore(RunArgs),
    /// Put files into the queue, whether the store is running or not
    Put(PutArgs),
    /// List what is in the store, and how far it is
    Ls(LsArgs),
    /// Show how the transfers go, and what this contact is expected to finish
    Status(StatusArgs),
}

/// Where the store is.
#[derive(Debug, Args, Default)]
pub struct StoreArgs {
    /// Configuration file; without it, defaults and the options given here
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// The store's folder [mule.store]
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub store: Option<PathBuf>,
}

/// Options of `node`, `carry` and `shore`. Each overrides the configuration file's key that is named with it.
#[derive(Debug, Args, Default)]
pub struct RunArgs {
    #[command(flatten)]
    pub at: StoreArgs,
    /// Private key of this store, made by `aquila keys generate` [identity.key]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Identity")]
    pub key: Option<PathBuf>,
    /// Directory for what must survive a restart beside the store [link.state]
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath, help_heading = "Identity")]
    pub state: Option<PathBuf>,

    /// Another store: KEY[@HOST:PORT][,listen=ADDRESS:PORT][,radio][,shore]...; without an address it is looked for; may be given
    /// several times [mule.peers]
    #[arg(long, value_name = "PEER", help_heading = "Others")]
    pub peer: Vec<PeerSpec>,
    /// Key of a store whose files are taken although it is not met itself: on a shore, the nodes' [mule.sources]
    #[arg(long, value_name = "aq1:KEY", help_heading = "Others")]
    pub source: Vec<PublicKey>,
    /// Key of a shore whose word counts that files were delivered: on nodes and carriers [mule.shores]
    #[arg(long, value_name = "aq1:KEY", help_heading = "Others")]
    pub delivered_by: Vec<PublicKey>,
    /// Say on this network interface, each second, that others are waited for here [mule.announce]
    #[arg(long, value_name = "INTERFACE", help_heading = "Others")]
    pub announce: Vec<String>,
    /// Look on this network interface for others that say so [mule.look]
    #[arg(long, value_name = "INTERFACE", help_heading = "Others")]
    pub look: Vec<String>,

    /// Send files to whoever listens, without an answer: udp:ADDRESS:PORT[@INTERFACE],rate=2M,key=FILE[,overhead=30%][,rounds=3]
    /// [,ttl=1][,size=1472]; on nodes and carriers; may be given several times [mule.cast]
    #[arg(long, value_name = "CAST", help_heading = "One way")]
    pub cast: Vec<CastSpec>,
    /// Hear what is sent so: udp:ADDRESS:PORT[@INTERFACE],key=FILE; on carriers and shores; may be given several times [mule.hear]
    #[arg(long, value_name = "CAST", help_heading = "One way")]
    pub hear: Vec<HearSpec>,

    /// Take in files that appear in this folder [mule.spool]
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath, help_heading = "Files")]
    pub spool: Option<PathBuf>,
    /// How files of the spool are carried: PATTERN[,priority=0..7][,within=6h][,expires=30d][,destination=NAME], such as
    /// 'alarms/,priority=0,within=1h' or '*.raw,priority=7'; the first that fits counts; may be given several times
    /// [mule.spool_rules]
    #[arg(long, value_name = "RULE", help_heading = "Files")]
    pub spool_rule: Vec<Rule>,
    /// Put files that have arrived into this folder; a shore needs one, or --bundles-files [mule.deliver]
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath, help_heading = "Files")]
    pub deliver: Option<PathBuf>,
    /// When files are given up, those in the spool included [mule.delete]
    #[arg(long, value_enum, help_heading = "Files")]
    pub delete: Option<DeleteWhen>,

    /// What this node is called among those who send bundles, such as dtn://ship/ or ipn:5.0 [mule.bundles_node]
    #[arg(long, value_name = "EID", help_heading = "Bundles")]
    pub bundles_node: Option<BundleName<NodeId>>,
    /// Take bundles (RFC 9171) of other networks here, by TCPCLv4 without TLS: on nodes and carriers [mule.bundles_listen]
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Bundles")]
    pub bundles_listen: Option<SocketAddr>,
    /// Hand bundles over that have arrived, to the next node of those that match: PATTERN=HOST:PORT; on shores; may be given several
    /// times [mule.bundles_to]
    #[arg(long, value_name = "ROUTE", help_heading = "Bundles")]
    pub bundles_to: Vec<RouteSpec>,
    /// Hand files over too, as bundles for this endpoint, instead of putting them into a folder: on shores [mule.bundles_files]
    #[arg(long, value_name = "EID", help_heading = "Bundles")]
    pub bundles_files: Option<BundleName<Eid>>,

    /// Serve a status page, JSON and Prometheus metrics here, for example at 127.0.0.1:9420 [status.listen]
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Watching")]
    pub status: Option<SocketAddr>,
    /// What to log: error, warn, info, debug, trace, or a filter [log.level]
    #[arg(long, value_name = "LEVEL", help_heading = "Watching")]
    pub log: Option<String>,
}

#[derive(Debug, Args)]
pub struct PutArgs {
    #[command(flatten)]
    pub at: StoreArgs,
    /// Private key of this store [identity.key]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub key: Option<PathBuf>,
    /// Files, and folders with all that is in them
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::AnyPath)]
    pub files: Vec<PathBuf>,
    /// Folder that they get at the shore
    #[arg(long, value_name = "PATH", default_value = "")]
    pub under: String,
    /// 0 is served first, 7 last
    #[arg(long, value_name = "0..7", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub priority: u8,
    /// By when they should be delivered, from now: 90min, 6h, 2d
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub within: Option<u64>,
    /// When nobody wants them any more, from now: 12h, 30d
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub expires: Option<u64>,
    /// Name of the shore that they are for; any if nothing is said
    #[arg(long, value_name = "NAME", default_value = "")]
    pub destination: String,
    /// Print one JSON object for each file
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct LsArgs {
    #[command(flatten)]
    pub at: StoreArgs,
    /// Only what is in this state: queued, partial, verified, custody, delivered, released, expired or refused
    #[arg(long, value_name = "STATE", value_parser = state)]
    pub state: Option<State>,
    /// Print one JSON object for each
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub at: StoreArgs,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Show it again each second, until Ctrl-C
    #[arg(long, conflicts_with = "json")]
    pub watch: bool,
}

/// The state that is called this.
fn state(text: &str) -> Result<State, String> {
    let named = State::ALL.into_iter().find(|state| state.name() == text);
    named.ok_or_else(|| format!("one of {}", State::ALL.map(State::name).join(", ")))
}

/// Seconds.
fn span(text: &str) -> Result<u64, String> {
    aquila_depot::span(text).map_err(|error| error.to_string())
}

fn set<T>(key: &mut Option<T>, given: Option<T>) {
    if given.is_some() {
        *key = given;
    }
}

impl StoreArgs {
    /// Puts what was given in place of what the file has.
    pub fn override_file(self, file: &mut File) {
        set(&mut file.mule.store, self.store);
    }
}

impl RunArgs {
    /// Puts what was given in place of what the file has.
    pub fn override_file(self, file: &mut File) {
        fn list<T>(key: &mut Option<Vec<Text<T>>>, given: Vec<T>) {
            if !given.is_empty() {
                *key = Some(given.into_iter().map(Text).collect());
            }
        }
        self.at.override_file(file);
        set(&mut file.identity.key, self.key);
        set(&mut file.link.state, self.state);
        list(&mut file.mule.peers, self.peer);
        list(&mut file.mule.sources, self.source);
        list(&mut file.mule.shores, self.delivered_by);
        list(&mut file.mule.cast, self.cast);
        list(&mut file.mule.hear, self.hear);
        set(&mut file.mule.announce, Some(self.announce).filter(|list| !list.is_empty()));
        set(&mut file.mule.look, Some(self.look).filter(|list| !list.is_empty()));
        set(&mut file.mule.spool, self.spool);
        list(&mut file.mule.spool_rules, self.spool_rule);
        set(&mut file.mule.deliver, self.deliver);
        set(&mut file.mule.delete, self.delete);
        set(&mut file.mule.bundles_node, self.bundles_node.map(Text));
        set(&mut file.mule.bundles_listen, self.bundles_listen.map(Text));
        list(&mut file.mule.bundles_to, self.bundles_to);
        set(&mut file.mule.bundles_files, self.bundles_files.map(Text));
        set(&mut file.status.listen, self.status.map(Text));
        set(&mut file.log.level, self.log);
    }
}

const HELP: &str = "\
A ship's files come ashore by an aircraft that passes. On each of the three machines, once:

  aquila keys generate

and then, with the keys that `aquila keys show` prints:

  on the ship    aquila mule node --spool /data/out --peer AIRCRAFT,listen=0.0.0.0:9410,radio --delivered-by OFFICE
  in the air     aquila mule carry --peer SHIP@192.0.2.20:9410,radio --peer OFFICE@office.example:9410,shore
  in the office  aquila mule shore --deliver /srv/files --peer AIRCRAFT,listen=[::]:9410 --source SHIP

\"radio\" is for a lossy radio that belongs to nobody else. Without an address a store is looked for: --announce wlan0 on the ship and
--look wlan0 in the air. `aquila air` and `aquila ground` carry files beside commands and video, see [mule] in the sample
configuration. To several receivers at once, or to some that do not answer: --cast and --hear, with a key of `aquila keys shared`. How it works and what it guarantees: docs/mule.md.";
