//! The options of `aquila plan`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use aquila_lab::conclone::Probability;
use aquila_lab::plan::Time;
use clap::{Args, Subcommand, ValueHint};

use super::flight_args::{FIT_HELP, FLIGHT_HELP, PlanFitArgs, PlanFlightArgs, PlanSweepArgs, SWEEP_HELP};

#[derive(Debug, Args)]
pub struct PlanArgs {
    #[command(subcommand)]
    pub command: PlanCommand,
}

#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    /// What will the link to an aircraft carry on its way, and which files fit?
    #[command(after_long_help = FLIGHT_HELP)]
    Flight(Box<PlanFlightArgs>),
    /// Which circle is best?
    #[command(after_long_help = SWEEP_HELP)]
    Sweep(Box<PlanSweepArgs>),
    /// What was the link like? Finds a model's constants in the logs of a flight
    #[command(after_long_help = FIT_HELP)]
    Fit(Box<PlanFitArgs>),
    /// How many links, and how many copies over them, for how reliable a command?
    #[command(after_long_help = LINKS_HELP)]
    Links(Box<PlanLinksArgs>),
}

#[derive(Debug, Args)]
pub struct PlanLinksArgs {
    /// Print what the ConClone paper prints beside what comes out, as tables in Markdown; takes no numbers of yours
    #[arg(long, conflicts_with_all = ["Numbers", "ChannelArgs", "AirframeArgs"])]
    pub paper: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// Draw it as well: a picture if the file's name ends with .svg, a page if with .html
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub numbers: Numbers,
    #[command(flatten)]
    pub channel: ChannelArgs,
    #[command(flatten)]
    pub airframe: AirframeArgs,
}

/// One's own numbers. Defaults are those of the paper's experiment, and of Aquila.
#[derive(Debug, Args)]
pub struct Numbers {
    /// That a packet is lost on a link, for example 0.1, 10%, or channel: as the options under Channel have it. Once for each
    /// link; without it, 28.4% for each of two
    #[arg(long, value_name = "PROBABILITY", help_heading = "Links")]
    pub loss: Vec<Loss>,
    /// So many links that lose alike
    #[arg(long, value_name = "NUMBER", help_heading = "Links", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub links: Option<u8>,
    /// That a packet is lost on all links at once, whatever each does: behind a hill, by a jammer. The paper has none
    #[arg(long, value_name = "PROBABILITY", help_heading = "Links", default_value = "0", value_parser = probability)]
    pub shared: Probability,

    /// How often a command may fail
    #[arg(long, value_name = "PROBABILITY", help_heading = "Commands", default_value = "1e-6", value_parser = probability)]
    pub target: Probability,
    /// Until when it has to be there
    #[arg(long, value_name = "TIME", help_heading = "Commands", default_value = "100ms")]
    pub deadline: Time,
    /// Round trip of the slowest link
    #[arg(long, value_name = "TIME", help_heading = "Commands", default_value = "30ms")]
    pub rtt: Time,

    /// Packets sent one after the other
    #[arg(long, value_name = "NUMBER", help_heading = "Completion time", default_value_t = 120)]
    pub packets: u32,
    /// From the delivery of one to the next
    #[arg(long, value_name = "TIME", help_heading = "Completion time", default_value = "500ms")]
    pub interval: Time,
    /// The first timeout, in intervals; the paper's k
    #[arg(long, value_name = "FACTOR", help_heading = "Completion time", default_value_t = 1.122)]
    pub retry: f64,
    /// How much longer than ideal it may take, in ideal times; the paper's T_r
    #[arg(long, value_name = "RATIO", help_heading = "Completion time", default_value_t = 1.1)]
    pub most: f64,

    /// Mean time until a link fails; the paper's 1/λ
    #[arg(long, value_name = "TIME", help_heading = "Lifetime", default_value = "60s")]
    pub lifetime: Time,
    /// Mean time until it is back, or never, as the paper has it
    #[arg(long, value_name = "TIME|never", help_heading = "Lifetime", default_value = "5s")]
    pub outage: Outage,
    /// Mean time until all links are out that is wanted; the paper's α
    #[arg(long, value_name = "TIME", help_heading = "Lifetime", default_value = "10min")]
    pub wanted: Time,
}

/// What is not in the paper says so; its default is one for 802.11g at 54 Mbit/s.
#[derive(Debug, Args)]
#[command(next_help_heading = "Channel")]
pub struct ChannelArgs {
    /// Along the ground
    #[arg(long, value_name = "METRES", default_value_t = 80.0)]
    pub distance: f64,
    /// Of the aircraft above the ground station
    #[arg(long, value_name = "METRES", default_value_t = 0.0, allow_negative_numbers = true)]
    pub height: f64,
    /// Carrier; the paper has only "2.4 GHz"
    #[arg(long, value_name = "MHZ", default_value_t = 2_437.0)]
    pub frequency: f64,
    /// Transmitter and both antennas; not in the paper
    #[arg(long, value_name = "DBM", default_value_t = 20.0, allow_negative_numbers = true)]
    pub power: f64,
    /// What fading, pointing and the aircraft's body take; not in the paper
    #[arg(long, value_name = "DB", default_value_t = 0.0, allow_negative_numbers = true)]
    pub margin: f64,
    /// Path loss exponent; the paper's for air to ground
    #[arg(long, value_name = "NUMBER", default_value_t = 2.03)]
    pub exponent: f64,
    /// Distance up to which the loss is that of free space
    #[arg(long, value_name = "METRES", default_value_t = 1.0)]
    pub reference: f64,
    /// Width of the channel; not in the paper
    #[arg(long, value_name = "MHZ", default_value_t = 20.0)]
    pub bandwidth: f64,
    /// Of the receiver; not in the paper
    #[arg(long, value_name = "DB", default_value_t = 7.0)]
    pub noise_figure: f64,
    /// Of the modulation; not in the paper: 64-QAM
    #[arg(long, value_name = "NUMBER", default_value_t = 6.0)]
    pub bits_per_symbol: f64,
    /// Of the bit error rate; not in the paper: uncoded M-QAM
    #[arg(long, value_name = "NUMBER", default_value_t = 0.2)]
    pub kappa1: f64,
    /// Likewise
    #[arg(long, value_name = "NUMBER", default_value_t = 1.5)]
    pub kappa2: f64,
    /// Length of a frame; not in the paper
    #[arg(long, value_name = "BYTES", default_value_t = 1_500.0)]
    pub frame: f64,
    /// How often a frame is sent again; not in the paper
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    pub retries: u32,
    /// Frames of a packet; not in the paper
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub frames: u32,
}

/// The paper's quadcopter.
#[derive(Debug, Args)]
#[command(next_help_heading = "Aircraft")]
pub struct AirframeArgs {
    /// All of it with one modem
    #[arg(long, value_name = "GRAMS", default_value_t = 1_013.0)]
    pub mass: f64,
    /// Of its body, a ball
    #[arg(long, value_name = "METRES", default_value_t = 0.07)]
    pub radius: f64,
    /// From the middle to a motor
    #[arg(long, value_name = "METRES", default_value_t = 0.25)]
    pub arm: f64,
    /// Motor and propeller at the end of an arm; not in the paper, whose table comes out with 30
    #[arg(long, value_name = "GRAMS", default_value_t = 30.0)]
    pub motor: f64,
    /// A modem
    #[arg(long, value_name = "GRAMS", default_value_t = 16.0)]
    pub modem: f64,
}

/// Loss of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// As given.
    Given(Probability),
    /// What the channel model says.
    Channel,
}

impl FromStr for Loss {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "channel" => Ok(Self::Channel),
            text => probability(text).map(Self::Given).map_err(|error| format!("{error}, or channel")),
        }
    }
}

/// Mean time until a link is back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outage(pub Option<Duration>);

impl FromStr for Outage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "never" => Ok(Self(None)),
            text => text.parse().map(|time: Time| Self(Some(time.get()))),
        }
    }
}

/// A share, or per cent.
fn probability(text: &str) -> Result<Probability, String> {
    let (number, whole) = text.strip_suffix('%').map_or((text, 1.0), |number| (number.trim_end(), 100.0));
    let value = number.parse::<f64>().ok().and_then(|value| Probability::new(value / whole));
    value.ok_or_else(|| format!("'{text}' is no probability: write for example 0.284 or 28.4%"))
}

const LINKS_HELP: &str = "\
The analysis of the ConClone paper for numbers of your own: how often a packet sent over all links at once
arrives, how much longer all packets take, how many links a reliability needs, how long they last, what the
air and the modems' weight do, and how many copies Aquila would send for a target within a deadline. Where
the paper is wrong the right value is shown, and the one by its formula beside it, as (printed);
docs/conclone.md says why. Losses of different links are taken as independent, but for --shared.

Examples:
  aquila plan links                                   the paper's experiment: two links that lose 28.4 %
  aquila plan links --loss 2% --loss 10% --rtt 60ms   LTE and a Wi-Fi that is worse
  aquila plan links --loss 5% --links 3 --target 1e-9 --deadline 250ms
  aquila plan links --loss 5% --links 3 --shared 0.1%   and a hill before all of them
  aquila plan links --lifetime 10min --outage never --wanted 1h
  aquila plan links --loss channel --links 2 --distance 235 --height 60 --margin 0.5
  aquila plan links --mass 2400 --arm 0.35 --motor 90 --modem 45
  aquila plan links --plot links.svg                  to look at; links.html is a page
  aquila plan links --paper                           what is printed there beside what comes out
  aquila plan links --json | jq .aquila               for scripts

Exit code: 0 if it is done, 1 if a file cannot be written, 2 if a number makes no sense.";
