//! What a forecast is made from: one TOML file, and what it names.
//!
//! `packaging/flight.toml` has every key with its default ([`EXAMPLE`]). Unknown keys are refused.

use serde::{Deserialize, Serialize};

use crate::antenna::{Antenna, Pattern};
use crate::fault::{ParseError, text};
use crate::flight::airframe::{Airframe, Wind};
use crate::flight::planned::{self, Loiter};
use crate::flight::{FlightError, Track, recorded};
use crate::forecast::files::FileSet;
use crate::forecast::warnings::Limits;
use crate::geodesy::{Frame, Position};
use crate::log::FlightLog;
use crate::mission::Mission;
use crate::obstruction::Obstacle;
use crate::radio::Radio;
use crate::radio::path_loss::PathLoss;
use crate::radio::sea::Sea;
use crate::radio::shadowing::Shadowing;
use crate::sweep::Axes;
use crate::terrain::Terrain;
use crate::{log, mission};

/// The data-mule paper's ship and its three trajectories, and every key with its default.
pub const EXAMPLE: &str = include_str!("../../packaging/flight.toml");

/// Larger scenarios are refused.
const MAX_BYTES: usize = 1 << 20;
/// Flights of a scenario, at most.
const MAX_FLIGHTS: usize = 100;
/// Obstacles, and sets of files, at most.
const MAX_LIST: usize = 1_000;

/// A scenario, all files read.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// One line.
    pub title: String,
    /// On ship or shore.
    pub node: Node,
    /// What flies.
    pub aircraft: Airframe,
    /// The same everywhere.
    pub wind: Wind,
    /// At both ends.
    pub radio: Radio,
    /// What is between.
    pub model: Model,
    /// What is to be compared.
    pub flights: Vec<Flight>,
    /// What is to be transferred.
    pub files: Vec<FileSet>,
    /// What is worth a word.
    pub warnings: Limits,
    /// What `aquila plan sweep` tries.
    pub sweep: Axes,
    /// Ground, if there is some.
    pub terrain: Option<Terrain>,
}

/// The node on ship or shore.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Node {
    /// Degrees north.
    pub latitude_deg: f64,
    /// Degrees east.
    pub longitude_deg: f64,
    /// Of the ground at the node above the sea, m; 0 on a ship.
    pub ground_m: f64,
    /// Of the antenna above that, m.
    pub antenna_height_m: f64,
    /// Where the bow points, clockwise from north, degrees.
    pub heading_deg: f64,
    /// Upright.
    pub antenna: Antenna,
    /// What stands in the way near it.
    #[serde(rename = "obstacle")]
    pub obstacles: Vec<Obstacle>,
}

/// What is between both antennas, and how often chance is tried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Model {
    /// Over distance.
    pub path_loss: PathLoss,
    /// The reflection.
    pub sea: Sea,
    /// What is left to chance.
    pub shadowing: Shadowing,
    /// Of the trace that is written, and the first of those that are tried.
    pub seed: u64,
    /// How many are tried, 1 to 1000.
    pub seeds: u32,
    /// Standard deviation of what is not known of the link budget, dB: each try has one error for the whole flight; the
    /// trace has none. Not in the papers; default: 3. After a fit, 1 is enough.
    pub budget_deviation_db: f64,
    /// Share of what the link carries that is files. Aquila's transfers have 0.93 to 0.97 on the lab's traces.
    pub file_efficiency: f64,
    /// Radius of an Earth over which waves would be straight, in radii of ours: bends them over hills. Default: 4/3, of a standard
    /// atmosphere (ITU-R P.310).
    pub earth_factor: f64,
}

/// A flight to be forecast.
#[derive(Debug, Clone, PartialEq)]
pub struct Flight {
    /// In tables.
    pub name: String,
    /// What is flown.
    pub way: Way,
    /// A mission is looked at for so long, s.
    pub horizon_s: f64,
}

/// What is flown.
#[derive(Debug, Clone, PartialEq)]
pub enum Way {
    /// A circle.
    Loiter(Loiter),
    /// What a ground station has stored.
    Mission(Mission),
    /// What an autopilot has logged.
    Log(FlightLog),
}

/// A scenario that cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}{error}", if file.is_empty() { String::new() } else { format!("{file}: ") })]
pub struct ScenarioError {
    /// Which of its files; empty: its own.
    pub file: String,
    /// Where and why.
    pub error: ParseError,
}

impl Default for Node {
    fn default() -> Self {
        Self {
            latitude_deg: 0.0,
            longitude_deg: 0.0,
            ground_m: 0.0,
            antenna_height_m: 6.0,
            heading_deg: 0.0,
            antenna: Antenna::Omni { gain_dbi: 6.0, beamwidth_deg: 80.0, floor_db: 20.0 },
            obstacles: Vec::new(),
        }
    }
}

impl Node {
    /// On the ground, or the sea, below the antenna.
    pub fn position(&self) -> Position {
        Position { latitude_deg: self.latitude_deg, longitude_deg: self.longitude_deg, altitude_m: self.ground_m }
    }

    fn fault(&self) -> Option<String> {
        if Position::new(self.latitude_deg, self.longitude_deg, self.ground_m).is_none() {
            return Some("latitude_deg, longitude_deg and ground_m are no place on Earth".into());
        }
        if !(0.0..=5_000.0).contains(&self.antenna_height_m) {
            return Some(format!("antenna_height_m is {}; it must be from 0 to 5000", self.antenna_height_m));
        }
        if !(-360.0..=360.0).contains(&self.heading_deg) {
            return Some(format!("heading_deg is {}; it must be from -360 to 360", self.heading_deg));
        }
        None
    }
}

impl Default for Model {
    fn default() -> Self {
        Self {
            path_loss: PathLoss::default(),
            sea: Sea::default(),
            shadowing: Shadowing::default(),
            seed: 1,
            seeds: 200,
            budget_deviation_db: 3.0,
            file_efficiency: 0.95,
            earth_factor: 4.0 / 3.0,
        }
    }
}

impl Model {
    fn fault(&self) -> Option<String> {
        if !(1..=1_000).contains(&self.seeds) {
            return Some(format!("seeds is {}; it must be from 1 to 1000", self.seeds));
        }
        if !(0.0..=20.0).contains(&self.budget_deviation_db) {
            return Some(format!("budget_deviation_db is {}; it must be from 0 to 20", self.budget_deviation_db));
        }
        if !(0.3..=100.0).contains(&self.earth_factor) {
            return Some(format!("earth_factor is {}; it must be from 0.3 to 100", self.earth_factor));
        }
        let is_share = (0.01..=1.0).contains(&self.file_efficiency);
        (!is_share).then(|| format!("file_efficiency is {}; it must be from 0.01 to 1", self.file_efficiency))
    }
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Written {
    title: String,
    node: Node,
    aircraft: Airframe,
    wind: Wind,
    radio: Radio,
    model: Model,
    flight: Vec<WrittenFlight>,
    file: Vec<FileSet>,
    warnings: Limits,
    sweep: Axes,
    terrain: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFlight {
    #[serde(default)]
    name: String,
    loiter: Option<Loiter>,
    mission: Option<String>,
    log: Option<String>,
    #[serde(default = "hour")]
    horizon_s: f64,
}

fn hour() -> f64 {
    3_600.0
}

/// Gives what is in a file that a scenario names, or says why not.
pub type Load<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;

impl Scenario {
    /// Reads one, and the files that it names by `load`.
    ///
    /// # Errors
    /// Which file, where, and why.
    pub fn parse(bytes: &[u8], load: Load) -> Result<Self, ScenarioError> {
        let own = |error| ScenarioError { file: String::new(), error };
        if bytes.len() > MAX_BYTES {
            return Err(own(ParseError::file("is larger than 1 MiB")));
        }
        let text = text(bytes).map_err(own)?;
        let mut written: Written = toml::from_str(text).map_err(|error| own(located(text, &error)))?;
        for antenna in [&mut written.node.antenna, &mut written.aircraft.antenna] {
            if let Antenna::Table { file, pattern } = antenna {
                *pattern = read(file, load, |bytes| Pattern::parse(crate::fault::text(bytes)?))?;
            }
        }
        let terrain = written.terrain.map(|file| read(&file, load, |bytes| Terrain::parse(crate::fault::text(bytes)?)));
        let mut flights = Vec::new();
        for (number, flight) in (1..).zip(written.flight) {
            if number > MAX_FLIGHTS {
                return Err(own(ParseError::file(format!("more than {MAX_FLIGHTS} flights"))));
            }
            flights.push(flight.read(number, load)?);
        }
        let scenario = Self {
            title: written.title,
            node: written.node,
            aircraft: written.aircraft,
            wind: written.wind,
            radio: written.radio,
            model: written.model,
            flights,
            files: written.file,
            warnings: written.warnings,
            sweep: written.sweep,
            terrain: terrain.transpose()?,
        };
        scenario.check().map_err(|reason| own(ParseError::file(reason)))?;
        Ok(scenario)
    }

    /// The data-mule paper's: [`EXAMPLE`].
    ///
    /// # Errors
    /// None, as a test sees to.
    pub fn example() -> Result<Self, ScenarioError> {
        Self::parse(EXAMPLE.as_bytes(), &|name| Err(format!("{name}: the example names no files")))
    }

    /// Whether all its numbers make sense; to be asked after one was changed.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<(), String> {
        let (node, aircraft) = (&self.node, &self.aircraft);
        let parts = [
            ("node", node.fault()),
            ("node.antenna", node.antenna.fault()),
            ("aircraft", aircraft.fault()),
            ("aircraft.antenna", aircraft.antenna.fault()),
            ("wind", self.wind.fault()),
            ("radio", self.radio.fault()),
            ("model", self.model.fault()),
            ("model.path_loss", self.model.path_loss.fault()),
            ("model.sea", self.model.sea.fault()),
            ("model.shadowing", self.model.shadowing.fault()),
            ("warnings", self.warnings.fault()),
            ("sweep", self.sweep.fault()),
        ];
        let parts = parts.into_iter().map(|(name, fault)| (name.to_owned(), fault));
        let flights = (1..).zip(&self.flights).map(|(n, flight): (u32, _)| (format!("flight {n}"), flight.fault()));
        let obstacles =
            (1..).zip(&node.obstacles).map(|(n, one): (u32, _)| (format!("node.obstacle {n}"), one.fault()));
        let files = (1..).zip(&self.files).map(|(n, set): (u32, _)| (format!("file {n}"), set.fault()));
        if node.obstacles.len() > MAX_LIST || self.files.len() > MAX_LIST {
            return Err(format!("more than {MAX_LIST} obstacles, or files"));
        }
        let found = parts.chain(flights).chain(obstacles).chain(files).find_map(|(name, fault)| Some((name, fault?)));
        found.map_or(Ok(()), |(name, fault)| Err(format!("{name}: {fault}")))
    }

    /// Flies a flight.
    ///
    /// # Errors
    /// [`FlightError`]
    pub fn fly(&self, flight: &Flight) -> Result<Track, FlightError> {
        let node = Frame::new(self.node.position());
        let ground = self.node.ground_m;
        match &flight.way {
            Way::Loiter(loiter) => loiter.fly(&node, ground, &self.aircraft, self.wind),
            Way::Mission(mission) => {
                planned::fly(mission, &node, ground, self.terrain.as_ref(), &self.aircraft, self.wind, flight.horizon_s)
            }
            Way::Log(log) => recorded::track(log, &node),
        }
    }
}

impl Flight {
    fn fault(&self) -> Option<String> {
        if !(1.0..=86_400.0).contains(&self.horizon_s) {
            return Some(format!("horizon_s is {}; it must be from 1 to 86,400", self.horizon_s));
        }
        match &self.way {
            Way::Loiter(loiter) => loiter.fault(),
            _ => None,
        }
    }
}

impl WrittenFlight {
    fn read(self, number: usize, load: Load) -> Result<Flight, ScenarioError> {
        let (file, way) = match (self.loiter, self.mission, self.log) {
            (Some(loiter), None, None) => (String::new(), Way::Loiter(loiter)),
            (None, Some(file), None) => {
                let way = Way::Mission(read(&file, load, mission::parse)?);
                (file, way)
            }
            (None, None, Some(file)) => {
                let way = Way::Log(read(&file, load, log::parse)?);
                (file, way)
            }
            _ => {
                let error = ParseError::file(format!("flight {number}: needs one of loiter, mission and log"));
                return Err(ScenarioError { file: String::new(), error });
            }
        };
        let name = match (self.name.is_empty(), file.is_empty()) {
            (false, _) => self.name,
            (true, false) => file,
            (true, true) => format!("flight {number}"),
        };
        Ok(Flight { name, way, horizon_s: self.horizon_s })
    }
}

fn read<T>(file: &str, load: Load, parse: impl Fn(&[u8]) -> Result<T, ParseError>) -> Result<T, ScenarioError> {
    let named = |error| ScenarioError { file: file.to_owned(), error };
    let bytes = load(file).map_err(|reason| named(ParseError::file(reason)))?;
    parse(&bytes).map_err(named)
}

/// TOML's own words, and the line.
fn located(text: &str, error: &toml::de::Error) -> ParseError {
    let message = error.message().to_owned();
    match error.span() {
        Some(span) => {
            let before = text.as_bytes().iter().take(span.start).filter(|byte| **byte == b'\n').count();
            ParseError::line(before + 1, message)
        }
        None => ParseError::file(message),
    }
}

#[cfg(test)]
#[path = "scenario_tests.rs"]
mod tests;
