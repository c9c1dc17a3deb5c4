//! The options of `aquila plan flight`, `sweep` and `fit`.

use std::path::PathBuf;
use std::str::FromStr;

use aquila_plan::flight::planned::Loiter;
use clap::{Args, ValueHint};

/// What is flown where, with which radio.
#[derive(Debug, Args)]
pub struct ScenarioArgs {
    /// A scenario: packaging/flight.toml has every key; without one, defaults, and the options below say the rest
    #[arg(value_name = "FLIGHT.toml", value_hint = ValueHint::FilePath, conflicts_with = "example")]
    pub file: Option<PathBuf>,
    /// The data-mule paper's ship and trajectories
    #[arg(long)]
    pub example: bool,
    /// Where the node is, degrees north and east
    #[arg(long, value_name = "LAT,LON", allow_hyphen_values = true, help_heading = "Scenario")]
    pub node: Option<Place>,
    /// Where the bow points, clockwise from north
    #[arg(long, value_name = "DEGREES", allow_negative_numbers = true, help_heading = "Scenario")]
    pub heading: Option<f64>,
    /// Any key of a scenario: radio.eirp_dbm=27, aircraft.airspeed_mps=22
    #[arg(long = "set", value_name = "KEY=VALUE", help_heading = "Scenario")]
    pub set: Vec<Setting>,
    /// The first seed
    #[arg(long, value_name = "NUMBER", help_heading = "Scenario")]
    pub seed: Option<u64>,
    /// How many seeds are tried
    #[arg(long, value_name = "NUMBER", help_heading = "Scenario")]
    pub seeds: Option<u32>,
}

#[derive(Debug, Args)]
pub struct PlanFlightArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Circle: altitude, radius, distance of its center from the node and bearing of it, metres and degrees; once for
    /// each. Replaces the scenario's flights
    #[arg(long, value_name = "ALT,RADIUS[,OFFSET[,BEARING]]", help_heading = "Flights")]
    pub loiter: Vec<Circle>,
    /// A mission (QGC WPL 110, .plan) or a log (.tlog, .bin); once for each. Replaces the scenario's flights
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Flights")]
    pub fly: Vec<PathBuf>,
    /// Only this flight, by its number from 1
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Flights")]
    pub only: Option<u16>,
    /// Print one JSON object instead of tables, each second included
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Write the forecast second by second: a trace for `aquila lab`. Of several flights, the number goes before .csv
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub csv: Option<PathBuf>,
    /// Write a report to look at, with maps
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// Write the mission that flies it: .waypoints (QGC WPL 110) or .plan. Of several flights, the number goes before
    /// that
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub mission: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct PlanSweepArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Altitudes to try, m
    #[arg(long, value_name = "METRES", value_delimiter = ',', help_heading = "Circles")]
    pub altitude: Vec<f64>,
    /// Radii to try, m
    #[arg(long, value_name = "METRES", value_delimiter = ',', help_heading = "Circles")]
    pub radius: Vec<f64>,
    /// Distances of the center from the node to try, m
    #[arg(long, value_name = "METRES", value_delimiter = ',', help_heading = "Circles")]
    pub offset: Vec<f64>,
    /// Bearings of the center from the node to try, degrees
    #[arg(
        long,
        value_name = "DEGREES",
        value_delimiter = ',',
        allow_negative_numbers = true,
        help_heading = "Circles"
    )]
    pub bearing: Vec<f64>,
    /// Rows to print
    #[arg(long, value_name = "NUMBER", default_value_t = 12, help_heading = "Output")]
    pub top: usize,
    /// Print one JSON object instead of a table, all circles included
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Draw it as well: a picture if the file's name ends with .svg, a page if with .html
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub plot: Option<PathBuf>,
    /// Write the mission of the best circle: .waypoints (QGC WPL 110) or .plan
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub mission: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct PlanFitArgs {
    /// What was flown: a log (.tlog, .bin)
    #[arg(value_name = "LOG", value_hint = ValueHint::FilePath)]
    pub log: PathBuf,
    /// What the radio said: a CSV with time_s and snr_db, or signal_dbm and noise_dbm; rate_mbps is used if it is there
    #[arg(long, value_name = "CSV", value_hint = ValueHint::FilePath)]
    pub radio_log: PathBuf,
    /// With what it was forecast
    #[arg(long, value_name = "FLIGHT.toml", value_hint = ValueHint::FilePath, conflicts_with = "example")]
    pub with: Option<PathBuf>,
    /// The data-mule paper's ship
    #[arg(long)]
    pub example: bool,
    /// Where the node was, degrees north and east
    #[arg(long, value_name = "LAT,LON", allow_hyphen_values = true)]
    pub node: Option<Place>,
    /// Where the bow pointed, clockwise from north
    #[arg(long, value_name = "DEGREES", allow_negative_numbers = true)]
    pub heading: Option<f64>,
    /// Any key of a scenario
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<Setting>,
    /// Added to the radio's times, if its clock began with another one than the log's
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, allow_negative_numbers = true)]
    pub shift: f64,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Degrees north and east.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place(pub f64, pub f64);

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pair =
            text.split_once(',').and_then(|(lat, lon)| Some((lat.trim().parse().ok()?, lon.trim().parse().ok()?)));
        let place = pair.filter(|(lat, lon)| aquila_plan::geodesy::Position::new(*lat, *lon, 0.0).is_some());
        place
            .map(|(lat, lon)| Self(lat, lon))
            .ok_or_else(|| format!("'{text}' is no place: write for example 63.62,9.72"))
    }
}

/// A circle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Circle(pub Loiter);

impl FromStr for Circle {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no circle: write altitude and radius, for example 300m,400m");
        let number = |text: &str| {
            let text = text.trim();
            text.strip_suffix('m').unwrap_or(text).trim_end().parse::<f64>().ok().filter(|value| value.is_finite())
        };
        let numbers: Option<Vec<f64>> = text.split(',').map(number).collect();
        let numbers = numbers.ok_or_else(wrong)?;
        let [altitude_m, radius_m, rest @ ..] = numbers.as_slice() else { return Err(wrong()) };
        let (offset_m, bearing_deg) = match rest {
            [] => (0.0, 0.0),
            [offset] => (*offset, 0.0),
            [offset, bearing] => (*offset, *bearing),
            _ => return Err(wrong()),
        };
        let (clockwise, lasts_s) = (true, 300.0);
        Ok(Self(Loiter { altitude_m: *altitude_m, radius_m: *radius_m, offset_m, bearing_deg, clockwise, lasts_s }))
    }
}

/// A key of a scenario and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Keys joined by dots.
    pub key: String,
    /// As in TOML; what is no value there is text.
    pub value: toml::Value,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or_else(|| format!("'{text}': write key=value"))?;
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() || key.split('.').any(str::is_empty) {
            return Err(format!("'{key}' is no key: write for example radio.eirp_dbm=27"));
        }
        let read = toml::from_str::<toml::Table>(&format!("value = {value}")).ok();
        let read = read.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
        // A whole number stands for a level or a length as well.
        Ok(Self { key: key.to_owned(), value: read.unwrap_or_else(|| toml::Value::String(value.to_owned())) })
    }
}

pub const FLIGHT_HELP: &str = "\
Says what the radio link to an aircraft will carry: second by second, in contact windows, as P10,
P50 and P90 of many tries of chance, and which files fit. What a scenario is made of, the equations
and how far to trust them: docs/planner.md. Every key: packaging/flight.toml.

Examples:
  aquila plan flight --example                              the data-mule paper's experiment
  aquila plan flight --loiter 300m,400m --node 63.62,9.72   one circle, nothing in the way
  aquila plan flight --loiter 300,400 --loiter 200,400,800,130 --node 63.62,9.72
  aquila plan flight ship.toml --html report.html           maps, rates over time, windows, files
  aquila plan flight ship.toml --fly survey.plan --csv survey.csv
  aquila plan flight ship.toml --only 1 --mission circle.waypoints
  aquila plan flight --example --set radio.loss=1-ccq --set wind.speed_mps=8
  aquila plan flight --example --json | jq '.flights[].volume'

The CSV is a trace: both = { trace = \"survey.csv\" } in a plan of `aquila lab` plays it.

Exit code: 0 if it is done, 1 if a file cannot be written, 2 if something given cannot be used.";

pub const SWEEP_HELP: &str = "\
Tries circles, all combinations of altitude, radius, distance and bearing, and prints the best
first. Those that should not be flown, and why, come last.

Examples:
  aquila plan sweep --example                               the paper's ship
  aquila plan sweep ship.toml --altitude 100,200,300 --radius 200,400 --offset 0 --plot sweep.html
  aquila plan sweep ship.toml --offset 800 --bearing 0,45,90,135,180,225,270,315
  aquila plan sweep ship.toml --mission best.plan           and the mission of the best

Exit code: 0 if it is done, 1 if a file cannot be written, 2 if something given cannot be used.";

pub const FIT_HELP: &str = "\
Finds the link budget, the path loss exponent and the depth of the superstructure's shadow with
which the model is nearest to what a radio logged in flight, and prints the mean absolute error
before and after. What the flight does not tell is left as it was: an exponent needs distances that
differ tenfold, a depth needs time in the shadow.

Examples:
  aquila plan fit 00000042.bin --radio-log airos.csv --with ship.toml
  aquila plan fit flight.tlog --radio-log airos.csv --with ship.toml --shift 12.5

Times in the radio's log are those of the flight's log from 1970 on, if both say so, or seconds
since its first position.

Exit code: 0 if it is done, 2 if something given cannot be used.";
