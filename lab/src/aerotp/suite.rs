//! Which runs the figures consist of, and what comes out of them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Serialize;

use super::ledger::{Outcome, quantile};
use super::limits::{self, Limits};
use super::ours::Ours;
use super::peers::Congestion;
use super::{Channel, Framing, Scheme, Task};

/// The bit error rates of the figures.
pub const BIT_ERRORS: [f64; 7] = [0.0, 1e-6, 5e-6, 1e-5, 3.5e-5, 5e-5, 1e-4];
/// The losses of figure 12.
pub const LOSSES: [f64; 5] = [0.0, 0.05, 0.1, 0.15, 0.2];
/// The words of figures 13 to 20, and some fewer, which are enough for us.
pub const WORDS: [u16; 10] = [0, 4, 8, 12, 16, 32, 64, 96, 128, 256];

/// What to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Figure 12.
    pub set_up: bool,
    /// Figures 13 to 20.
    pub quasi: bool,
    /// Figures 21 to 24.
    pub modes: bool,
    /// Segments of the long transfers; none are run if it is 0.
    pub long: u64,
    /// Runs of a point of figures 13 to 24.
    pub seeds: u64,
    /// Runs of a point of figure 12.
    pub set_up_seeds: u64,
    /// The first seed.
    pub first_seed: u64,
}

impl Default for Extent {
    /// All, with the paper's number of runs of figures 13 to 24, and ten times as many of figure 12.
    fn default() -> Self {
        Self { set_up: true, quasi: true, modes: true, long: 0, seeds: 20, set_up_seeds: 1000, first_seed: 1 }
    }
}

/// Mean and standard deviation over runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Standard deviation, of a sample.
    pub sd: f64,
}

/// Of all segments of all runs, milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Delay {
    /// Half of them.
    pub p50: f64,
    /// 95 of 100.
    pub p95: f64,
    /// The greatest.
    pub max: f64,
}

/// What came of the runs with one bit error rate, or one loss.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Point {
    /// Share of wrong bits.
    pub bit_errors: f64,
    /// Share of lost packets.
    pub loss: f64,
    /// Runs.
    pub runs: usize,
    /// Of these, those in which all was delivered.
    pub complete: usize,
    /// Mbit/s.
    pub goodput: Spread,
    /// Megabytes.
    pub delivered: Spread,
    /// Megabytes of messages with wrong bits that were delivered.
    pub damaged: f64,
    /// Bytes on the wire, both ways, for each delivered, less that; `None` if nothing was delivered in a run.
    pub overhead: Option<Spread>,
    /// Share of the segments that never came out.
    pub lost: f64,
    /// From the beginning to the first delivery, milliseconds.
    pub first: Spread,
    /// From the first transmission of a segment to its delivery.
    pub since_sent: Delay,
    /// From the write to the delivery.
    pub since_written: Delay,
}

/// A line of a figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Who.
    pub name: String,
    /// At each rate of errors.
    pub points: Vec<Point>,
}

/// All that was run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// Seed of the first run of each point.
    pub first_seed: u64,
    /// Limits at each bit error rate.
    pub limits: Vec<Limits>,
    /// Figure 12.
    pub set_up: Vec<Line>,
    /// Figures 13 to 20.
    pub quasi: Vec<Line>,
    /// Figures 21 to 24.
    pub modes: Vec<Line>,
    /// See [`Long`].
    pub long: Vec<Long>,
}

impl Line {
    /// What came out at a rate of bit errors.
    pub fn at(&self, bit_errors: f64) -> Option<&Point> {
        self.points.iter().find(|point| point.bit_errors == bit_errors)
    }
}

/// The contenders of figures 21 to 24.
pub fn contenders() -> Vec<(&'static str, Scheme)> {
    let ours = |ours| Scheme::Ours(ours);
    vec![
        ("reliable, no parity, 1500 bytes", ours(Ours::PLAIN)),
        ("reliable, no parity, combining", ours(Ours::COMBINING)),
        ("reliable, no parity, lengths that fit", ours(Ours::FITTED)),
        ("reliable", ours(Ours::ADAPTIVE)),
        ("reliable, messages", ours(Ours { stream: false, ..Ours::ADAPTIVE })),
        ("near-reliable", ours(Ours::NEAR)),
        ("quasi-reliable", ours(Ours::QUASI)),
        ("unreliable, no parity", ours(Ours::UNRELIABLE)),
        ("UDP", Scheme::Udp { checksum: true }),
        ("TCP NewReno", Scheme::Tcp(Congestion::NewReno)),
        ("TCP CUBIC", Scheme::Tcp(Congestion::Cubic)),
    ]
}

/// Those of figure 12.
pub fn set_up_contenders() -> Vec<(&'static str, Scheme)> {
    vec![
        ("AeroTP, messages", Scheme::Ours(Ours { stream: false, ..Ours::ADAPTIVE })),
        ("AeroTP, a stream in order", Scheme::Ours(Ours::ADAPTIVE)),
        ("TCP", Scheme::Tcp(Congestion::NewReno)),
    ]
}

/// Runs it all, on all processors. `progress` hears how many of how many runs are done.
pub fn run(extent: &Extent, progress: &(dyn Fn(usize, usize) + Sync)) -> Report {
    let mut wanted = Vec::new();
    let seeds = |count: u64| extent.first_seed..extent.first_seed + count;
    let mut add = |group: usize, name: String, scheme: Scheme, tasks: Vec<Task>, count: u64| {
        wanted.push(Wanted { group, name, scheme, tasks, seeds: seeds(count) });
    };
    if extent.set_up {
        // What has come is all that counts, so a few writes are enough.
        let short = |loss: &f64| Task { bytes: 14_720, ..Task::new(Channel::setting_up(*loss)) };
        for (name, scheme) in set_up_contenders() {
            add(0, name.into(), scheme, LOSSES.iter().map(short).collect(), extent.set_up_seeds);
        }
    }
    let airborne = || BIT_ERRORS.iter().map(|rate| Task::new(Channel::airborne(*rate))).collect::<Vec<_>>();
    if extent.quasi {
        for words in WORDS {
            add(1, format!("{words} words"), Scheme::Ours(Ours::quasi(words)), airborne(), extent.seeds);
        }
        add(1, "adaptive".into(), Scheme::Ours(Ours::QUASI), airborne(), extent.seeds);
    }
    if extent.modes {
        for (name, scheme) in contenders() {
            add(2, name.into(), scheme, airborne(), extent.seeds);
        }
    }
    let limits = BIT_ERRORS.iter().map(|rate| limits::of(&Channel::airborne(*rate))).collect();
    let mut groups = [Vec::new(), Vec::new(), Vec::new()];
    for (wanted, line) in wanted.iter().zip(all(&wanted, progress)) {
        groups[wanted.group].push(line);
    }
    let [set_up, quasi, modes] = groups;
    let long = match extent.long {
        0 => Vec::new(),
        segments => long(segments, extent.first_seed, progress),
    };
    Report { first_seed: extent.first_seed, limits, set_up, quasi, modes, long }
}

struct Wanted {
    group: usize,
    name: String,
    scheme: Scheme,
    tasks: Vec<Task>,
    seeds: std::ops::Range<u64>,
}

fn all(wanted: &[Wanted], progress: &(dyn Fn(usize, usize) + Sync)) -> Vec<Line> {
    let jobs: Vec<(Scheme, &Task, u64)> = wanted
        .iter()
        .flat_map(|line| {
            let tasks = line.tasks.iter().enumerate();
            // Seeds differ by point, so that points are independent of each other.
            let of_task = move |(place, task)| {
                line.seeds.clone().map(move |seed| (line.scheme, task, seed + 1_000_003 * place as u64))
            };
            tasks.flat_map(of_task)
        })
        .collect();
    let mut outcomes = parallel(&jobs, |(scheme, task, seed)| super::run(*scheme, task, *seed), progress).into_iter();
    let mut line = |wanted: &Wanted| {
        let runs = (wanted.seeds.end - wanted.seeds.start) as usize;
        let mut point = |task: &Task| {
            let outcomes: Vec<Outcome> = outcomes.by_ref().take(runs).collect();
            summed_up(&task.channel, &outcomes)
        };
        Line { name: wanted.name.clone(), points: wanted.tasks.iter().map(&mut point).collect() }
    };
    wanted.iter().map(&mut line).collect()
}

/// Does all jobs, on as many threads as there are processors; results in order.
fn parallel<J: Sync, R: Send>(
    jobs: &[J],
    work: impl Fn(&J) -> R + Sync,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Vec<Mutex<Option<R>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let worker = || {
        while let Some((job, place)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| jobs.get(n).zip(results.get(n)))
        {
            let result = work(job);
            *place.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(result);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len().max(1));
    std::thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(worker)));
    let taken = |place: Mutex<Option<R>>| place.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.into_iter().map(|place| taken(place).expect("every job is done")).collect()
}

/// Means and quantiles of the runs of a point.
pub fn summed_up(channel: &Channel, outcomes: &[Outcome]) -> Point {
    let of = |value: &dyn Fn(&Outcome) -> f64| Spread::of(outcomes.iter().map(value));
    let overhead = of(&|outcome| outcome.overhead());
    let (lost, segments) =
        outcomes.iter().fold((0, 0), |(lost, all), outcome| (lost + outcome.lost, all + outcome.segments));
    Point {
        bit_errors: channel.bit_errors,
        loss: channel.loss,
        runs: outcomes.len(),
        complete: outcomes.iter().filter(|outcome| outcome.is_complete).count(),
        goodput: of(&|outcome| outcome.goodput() / 1e6),
        delivered: of(&|outcome| outcome.delivered as f64 / 1e6),
        damaged: of(&|outcome| outcome.damaged as f64 / 1e6).mean,
        overhead: Some(overhead).filter(|overhead| overhead.mean.is_finite()),
        lost: lost as f64 / (segments as f64).max(1.0),
        first: of(&|outcome| ms(outcome.first.unwrap_or(outcome.took))),
        since_sent: Delay::of(outcomes.iter().flat_map(|outcome| &outcome.since_sent)),
        since_written: Delay::of(outcomes.iter().flat_map(|outcome| &outcome.since_written)),
    }
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        Self { mean, sd: if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 } }
    }
}

impl Delay {
    fn of<'a>(times: impl Iterator<Item = &'a Duration>) -> Self {
        let mut times: Vec<Duration> = times.copied().collect();
        times.sort_unstable();
        let at = |share| ms(quantile(&times, share));
        Self { p50: at(0.5), p95: at(0.95), max: at(1.0) }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A long transfer in quasi-reliable mode.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Long {
    /// What.
    pub name: String,
    /// Segments that were sent once each.
    pub segments: u64,
    /// Of them, those that never came out.
    pub lost: u64,
    /// Bytes on the wire, both ways, for each delivered, less that.
    pub overhead: f64,
    /// The part of it that is parity, repairs and what comes back; the rest is headers, seal and check.
    pub protection: f64,
    /// From the first transmission to the delivery in order.
    pub since_sent: Delay,
}

/// AeroTP's header, seal and CRC.
const SEGMENT_AROUND: usize = 20 + 16 + 4;

/// Quasi-reliable mode at 10⁻⁴ for so many segments and some: on a serial line with sixteen words and no repairs, and as it is,
/// and over UDP.
pub fn long(segments: u64, seed: u64, progress: &(dyn Fn(usize, usize) + Sync)) -> Vec<Long> {
    let jobs = [
        ("serial line, 16 words, no repairs", Framing::Serial, Ours::quasi(16)),
        ("serial line, adaptive", Framing::Serial, Ours::QUASI),
        ("UDP, adaptive", Framing::Udp, Ours::QUASI),
    ];
    let run = |(name, framing, ours): &(&str, Framing, Ours)| {
        let channel = Channel { framing: *framing, ..Channel::airborne(1e-4) };
        let limit = Duration::from_secs(86_400);
        let task = Task { bytes: segments * LONG_SEGMENT, limit, ..Task::new(channel) };
        let outcome = super::run(Scheme::Ours(*ours), &task, seed);
        let around = (framing.bytes() + SEGMENT_AROUND) as f64 * outcome.segments as f64 / outcome.written as f64;
        Long {
            name: (*name).to_owned(),
            segments: outcome.segments,
            lost: outcome.lost,
            overhead: outcome.overhead(),
            protection: outcome.overhead() - around,
            since_sent: Delay::of(outcome.since_sent.iter()),
        }
    };
    parallel(&jobs, run, progress)
}

/// No segment of [`long`] has more bytes of the application.
const LONG_SEGMENT: u64 = 1453;
