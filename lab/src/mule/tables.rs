//! Tables 2 to 5 of [DATA-MULES] (Palma et al., "Unmanned Aerial Vehicles as Data Mules: An Experimental Assessment", IEEE Access 5,
//! 2017) in virtual time: three trajectories of half an hour, errors as they are and twice as many, files of 40 and of 1 MB.
//!
//! The planner flies the paper's trajectories around its ship and says what the radio is like in each second; sessions, the model
//! of TCP and a yardstick meet the same seconds. On offer are the paper's files, 560 MB; or, as a backlog, more than fit, so that no
//! cell is full. docs/mule.md says what differs from the paper, and why.

pub mod findings;
pub mod sectors;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aquila_emu::{PathConfig, Queue};
use aquila_plan::forecast::play;
use aquila_plan::forecast::sight::Geometry;
use aquila_plan::radio::LossReading;
use aquila_plan::scenario::{Scenario, Way};
use aquila_proto::Bitrate;
use serde::Serialize;

use self::findings::Finding;
use self::sectors::Sector;
use super::{Disk, Flight, Freight, Progress, Radio, Second, fly_watched, peer};

/// What all cells have in common. Nothing here differs from cell to cell.
pub const LASTS_S: u64 = 1_800;
/// Width of the channel, MHz. The paper does not print it; its radio reports up to some 30 Mbit/s, and 32.5 is the most of 10 MHz.
pub const BANDWIDTH_MHZ: f64 = 10.0;
/// Radiated by the ship, dBm: half of what the planner's example has, for half of its channel, so that signal over noise is the same.
pub const EIRP_DBM: f64 = 30.0;
/// A transfer's best rate is that of so many seconds, as long as a test of the paper's iperf.
pub const BEST_OF_S: usize = 10;

/// A cell of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Cell {
    /// The paper's number of the trajectory, 1 to 3.
    pub experiment: usize,
    /// The radio's errors as loss: as the paper does it, or as time.
    pub reading: LossReading,
    /// Errors are so many times those of the radio: the paper's EF, 1 or 2.
    pub factor: u32,
    /// Length of a file, millions of bytes: 40 or 1.
    pub megabytes: u64,
    /// Of the planner's shadowing, and of the luck of packets.
    pub seed: u64,
}

/// What a cell of the paper has.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Printed {
    /// Complete files of the best of DTN, FTP, Rsync and SCP: tables 2 and 4.
    pub files: u64,
    /// Its transfer rate, Mbit/s: tables 3 and 5.
    pub mbps: f64,
}

/// What somebody has carried: until all that was on offer was there, or until the end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Carried {
    /// Complete files.
    pub files: u64,
    /// Bytes, those of files that are not complete included.
    pub bytes: u64,
    /// Until then, whole seconds.
    pub seconds: u64,
    /// Bytes of complete files, of those that the radio could have brought until then with all headers.
    pub share: f64,
    /// When as many files as the paper has were complete, seconds; `None`: not within the flight.
    pub paper_set_s: Option<u64>,
    /// Mean of `bytes` over `seconds`, Mbit/s: the paper's "transfer rate", as far as its tables tell.
    pub mbps: f64,
    /// The best [`BEST_OF_S`] seconds, Mbit/s.
    pub best_mbps: f64,
}

/// A row: what a cell came to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Row {
    /// Which.
    pub cell: Cell,
    /// In the paper.
    pub paper: Printed,
    /// The yardstick: bytes that the radio brings within the flight if it is never idle, of packets with all their headers.
    pub capacity: f64,
    /// The same as a mean over the flight, Mbit/s.
    pub capacity_mbps: f64,
    /// Aquila, over its own sessions: verified, and safe from a power cut.
    pub aquila: Carried,
    /// TCP with CUBIC, at its best: one connection, all files one after the other, nothing spent on them but their bytes.
    pub cubic: Carried,
}

/// What is to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Seeds from this one on.
    pub first_seed: u64,
    /// How many.
    pub seeds: u64,
    /// Of the flights, seconds.
    pub lasts_s: u64,
    /// The paper's reading and files of 1 MB only.
    pub quick: bool,
    /// More files are on offer than fit, instead of the paper's.
    pub backlog: bool,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Of the flights, seconds.
    pub lasts_s: u64,
    /// All cells of all seeds.
    pub rows: Vec<Row>,
    /// Of each experiment, from the bow clockwise; of all seeds together.
    pub sectors: [Vec<Sector>; 3],
    /// The paper's, and ours.
    pub findings: Vec<Finding>,
}

/// Why nothing was run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the planner's example: {0}")]
pub struct TablesError(String);

/// What the planner says of a flight.
#[derive(Debug, Clone, PartialEq)]
pub struct Sky {
    /// What the radio is like.
    pub seconds: Vec<Second>,
    /// The aircraft from the ship, clockwise from the bow, -180 to 180 degrees.
    pub bearings_deg: Vec<f64>,
    /// One way.
    pub delay: Duration,
}

impl Cell {
    /// How many files the paper has: 560 MB in all.
    pub fn paper_set(&self) -> u64 {
        560 / self.megabytes.max(1)
    }

    /// [DATA-MULES tables 2 to 5].
    pub fn printed(&self) -> Printed {
        let of_40 = [[(14, 2.81), (11, 1.75), (11, 2.06)], [(9, 1.36), (4, 0.63), (4, 0.76)]];
        let of_1 = [[(560, 2.80), (475, 1.76), (462, 2.10)], [(352, 1.31), (179, 0.67), (180, 0.82)]];
        let table = if self.megabytes == 40 { of_40 } else { of_1 };
        let (files, mbps) = table[usize::from(self.factor > 1)][self.experiment.clamp(1, 3) - 1];
        Printed { files, mbps }
    }

    fn file_bytes(&self) -> u64 {
        self.megabytes * 1_000_000
    }
}

/// The planner's example with this module's radio.
///
/// # Errors
/// [`TablesError`], which a test rules out.
pub fn scenario(reading: LossReading, lasts_s: u64) -> Result<Scenario, TablesError> {
    let mut scenario = Scenario::example().map_err(|error| TablesError(error.to_string()))?;
    scenario.radio.bandwidth_mhz = BANDWIDTH_MHZ;
    scenario.radio.eirp_dbm = EIRP_DBM;
    scenario.radio.loss = reading;
    for flight in &mut scenario.flights {
        if let Way::Loiter(loiter) = &mut flight.way {
            loiter.lasts_s = lasts_s as f64;
        }
    }
    scenario.check().map_err(TablesError)?;
    Ok(scenario)
}

/// Flies an experiment by the planner.
///
/// # Errors
/// [`TablesError`]: the scenario has no such flight, or it cannot be flown.
pub fn sky(scenario: &Scenario, experiment: usize, factor: u32, seed: u64) -> Result<Sky, TablesError> {
    let flight = experiment.checked_sub(1).and_then(|number| scenario.flights.get(number));
    let flight = flight.ok_or_else(|| TablesError(format!("there is no flight {experiment}")))?;
    let track = scenario.fly(flight).map_err(|error| TablesError(error.to_string()))?;
    let geometry = Geometry::new(scenario);
    let sights: Vec<_> = track.moments.iter().map(|moment| geometry.sight(moment)).collect();
    let links = play(scenario, &track, &sights, seed, 0.0);
    let seconds = links.iter().map(|link| {
        let link = link.with_error_factor(&scenario.radio, f64::from(factor));
        Second { rate: Bitrate(link.rate_bps as u64), loss: link.loss, away: false }
    });
    Ok(Sky {
        seconds: seconds.collect(),
        bearings_deg: sights.iter().map(|sight| sight.relative_bearing_deg).collect(),
        delay: Duration::from_secs_f64(scenario.radio.delay_ms / 1e3),
    })
}

impl Sky {
    /// Bytes that the radio brings if it is never idle, of packets with all their headers.
    pub fn capacity(&self) -> f64 {
        self.seconds.iter().map(Second::capacity).sum()
    }
}

impl Carried {
    /// From bytes and complete files at the end of each second, with so many files on offer.
    fn new(cell: &Cell, log: &[(u64, u64)], sky: &Sky, offered: u64) -> Self {
        let reached = |wanted: u64| log.iter().position(|(_, files)| *files >= wanted).map(|second| second + 1);
        let end = reached(offered).unwrap_or(sky.seconds.len());
        let log = &log[..end.min(log.len())];
        let (bytes, files) = log.last().copied().unwrap_or_default();
        let taken: Vec<u64> = log.iter().map(|(bytes, _)| *bytes).collect();
        let capacity: f64 = sky.seconds.iter().take(end).map(Second::capacity).sum();
        Self {
            files,
            bytes,
            seconds: end as u64,
            share: (files * cell.file_bytes()) as f64 / capacity.max(1.0),
            paper_set_s: reached(cell.paper_set()).map(|second| second as u64),
            mbps: mbps(bytes as f64, end as u64),
            best_mbps: best_mbps(&taken, BEST_OF_S),
        }
    }
}

fn mbps(bytes: f64, seconds: u64) -> f64 {
    bytes * 8.0 / 1e6 / seconds.max(1) as f64
}

/// The most that came in so many seconds on end, Mbit/s; of bytes in all at the end of each second. A shorter flight is one window.
pub fn best_mbps(log: &[u64], window_s: usize) -> f64 {
    let window_s = window_s.clamp(1, log.len().max(1));
    let before = |end: usize| end.checked_sub(window_s).map_or(0, |before| log[before]);
    let most = (window_s - 1..log.len()).map(|end| log[end].saturating_sub(before(end))).max();
    mbps(most.unwrap_or(0) as f64, window_s as u64)
}

/// Flies it with our sessions: bytes and files at the end of each second, until all is there.
fn aquila(cell: &Cell, sky: &Sky, freight: &Freight) -> Vec<(u64, u64)> {
    let radio = Radio::Trace(&sky.seconds);
    let flight = Flight { delay: sky.delay, ..Flight::over(radio, sky.seconds.len() as u64, cell.seed) };
    let mut log = Vec::with_capacity(sky.seconds.len());
    let mut watch = |progress: Progress| log.push((progress.taken, progress.objects as u64));
    fly_watched(&flight, freight, Disk::default(), &mut watch);
    log
}

/// The same with TCP.
fn cubic(cell: &Cell, sky: &Sky, offered: u64) -> Vec<(u64, u64)> {
    let path = PathConfig { rate_bps: Some(0), delay: sky.delay, queue: Queue::packets(256), ..PathConfig::default() };
    let log = peer::carry(offered * cell.file_bytes(), &sky.seconds, path, cell.seed);
    log.into_iter().map(|bytes| (bytes, bytes / cell.file_bytes())).collect()
}

/// Runs a cell, and gives what came in all until the end of each second beside it.
fn run_cell(cell: &Cell, sky: &Sky, freight: &Freight) -> (Row, Vec<u64>) {
    let (capacity, offered) = (sky.capacity(), freight.total_objects() as u64);
    let log = aquila(cell, sky, freight);
    let carried = |log: &[(u64, u64)]| Carried::new(cell, log, sky, offered);
    let (ours, tcp) = (carried(&log), carried(&cubic(cell, sky, offered)));
    let capacity_mbps = mbps(capacity, sky.seconds.len() as u64);
    let row = Row { cell: *cell, paper: cell.printed(), capacity, capacity_mbps, aquila: ours, cubic: tcp };
    (row, log.into_iter().map(|(bytes, _)| bytes).collect())
}

/// Runs all cells, on all processors. `progress` hears how many of how many are done.
///
/// # Errors
/// [`TablesError`], before anything is run.
pub fn run(extent: &Extent, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Report, TablesError> {
    let readings = if extent.quick { &LossReading::ALL[..1] } else { &LossReading::ALL[..] };
    let lengths: &[u64] = if extent.quick { &[1] } else { &[40, 1] };
    let mut jobs: Vec<(Cell, Sky)> = Vec::new();
    for reading in readings.iter().copied() {
        let scenario = scenario(reading, extent.lasts_s)?;
        for seed in extent.first_seed..extent.first_seed.saturating_add(extent.seeds) {
            for (factor, experiment) in [1, 2].into_iter().flat_map(|factor| [1, 2, 3].map(|number| (factor, number))) {
                let sky = sky(&scenario, experiment, factor, seed)?;
                let cell = |megabytes| Cell { experiment, reading, factor, megabytes, seed };
                jobs.extend(lengths.iter().map(|megabytes| (cell(*megabytes), sky.clone())));
            }
        }
    }
    let most = jobs.iter().map(|(_, sky)| sky.capacity()).fold(0.0, f64::max);
    let on_offer = |megabytes: &u64| {
        let (bytes, set) = (megabytes * 1_000_000, 560 / megabytes);
        let files = if extent.backlog { ((most / bytes as f64) as u64 + 2).max(set) } else { set };
        (*megabytes, Freight::of(files as usize, bytes as usize))
    };
    let freights: BTreeMap<u64, Freight> = lengths.iter().map(on_offer).collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Mutex<BTreeMap<usize, (Row, Vec<u64>)>> = Mutex::default();
    let work = || {
        while let Some((number, (cell, sky))) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, jobs.get(n)?)))
        {
            let result = run_cell(cell, sky, &freights[&cell.megabytes]);
            results.lock().unwrap_or_else(PoisonError::into_inner).insert(number, result);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len().max(1));
    std::thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(work)));
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let is_shown = |cell: &Cell| (cell.reading, cell.factor, cell.megabytes) == (LossReading::OneLessCcq, 1, 1);
    let sectors = [1, 2, 3].map(|experiment| {
        let all = jobs.iter().zip(results.values());
        let of = all.filter(|((cell, _), _)| cell.experiment == experiment && is_shown(cell));
        sectors::of(of.map(|((_, sky), (_, log))| (sky, log.as_slice())))
    });
    let rows: Vec<Row> = results.into_values().map(|(row, _)| row).collect();
    let findings = findings::of(&rows, &sectors);
    Ok(Report { lasts_s: extent.lasts_s, rows, sectors, findings })
}

#[cfg(test)]
mod tests;
