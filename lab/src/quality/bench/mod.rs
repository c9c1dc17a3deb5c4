//! A plan with real pictures: an encoder behind the camera of each contender's run, and what its pilot would have seen.

mod camera;
mod outcome;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use aquila_net::encoder::{Ladder, Rung};
use aquila_proto::Bitrate;
use serde::Serialize;
use thiserror::Error;

use super::codec::{Encoder, Engine};
use super::content::{Content, Store, StoreError};
use super::judge::{JudgeError, Quality, Setting};
use super::oracle::{Capacity, Oracle, STEP, UNLIMITED, oracle, oracle_in_steps};
use super::shown::FatesError;
use super::vmaf::Vmaf;
use crate::live::Sandbox;
use crate::plan::{ContenderKind, ContenderPlan, Plan, TrafficPlan, Variant, VideoTraffic};
use crate::record::{LinkSample, Run};
use crate::run::{self, RunError};
use crate::run_live::{self, LiveRunError, Places};
use camera::{Camera, Film};
pub use outcome::{Filmed, Outcome, VIEWS};

/// How to film.
#[derive(Debug, Clone)]
pub struct Options {
    /// Who encodes.
    pub engine: Engine,
    /// What is filmed.
    pub content: Content,
    /// Width and height at which it is filmed and judged; [`Content::SIZE`] but in tests.
    pub filmed: (usize, usize),
    /// Width and height at which it is encoded.
    pub sizes: Sizes,
    /// VMAF, if it is wanted.
    pub vmaf: Option<Vmaf>,
    /// Seed of the first repeat, in place of the plan's.
    pub seed: Option<u64>,
    /// How often each contender runs.
    pub repeats: u32,
    /// Names of the contenders that run; all if there are none.
    pub only: Vec<String>,
}

/// How large the pictures are that are encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sizes {
    /// All of this width and height.
    One((usize, usize)),
    /// As the rate has it, by the encoder's own ladder.
    Steps,
    /// By this one.
    Rungs(Vec<Rung>),
}

impl Sizes {
    /// The ladder of an encoder's pictures, if their size changes.
    fn ladder(&self, engine: Engine) -> Option<Ladder> {
        match self {
            Self::One(_) => None,
            // Both were looked at when they were made.
            Self::Steps => Ladder::new(&engine.sizes()).ok(),
            Self::Rungs(rungs) => Ladder::new(rungs).ok(),
        }
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "steps" {
            return Ok(Self::Steps);
        }
        if text.contains('@') {
            let rungs: Vec<Rung> =
                text.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|e| format!("{e}"))?;
            return Ladder::new(&rungs).map(|_| Self::Rungs(rungs)).map_err(|error| error.to_string());
        }
        let numbers =
            text.split_once('x').and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
        let is_usable = |number: usize| (64..=4096).contains(&number) && number.is_multiple_of(2);
        numbers.filter(|(width, height)| is_usable(*width) && is_usable(*height)).map(Self::One).ok_or_else(|| {
            "a size is two even numbers from 64 to 4096, such as 640x360; steps; or sizes such as \
             1280x720@30:1600,640x360@30:0"
                .to_owned()
        })
    }
}

impl std::fmt::Display for Sizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::One((width, height)) => write!(f, "at {width}x{height}"),
            Self::Steps | Self::Rungs(_) => f.write_str("in steps"),
        }
    }
}

/// In which world.
#[derive(Debug, Clone)]
pub enum Stage<'a> {
    /// On a simulated clock, in which encoding takes what the plan says.
    Virtual,
    /// In real time, with the product's own binary in network namespaces.
    Live {
        /// Where namespaces are made.
        sandbox: &'a Sandbox,
        /// The program under test.
        binary: PathBuf,
        /// Logs and keys of each run go below it.
        folder: PathBuf,
        /// Ends a run.
        interrupted: &'a AtomicBool,
    },
}

impl Stage<'_> {
    fn is_possible(&self, plan: &Plan, contender: &ContenderPlan) -> bool {
        match self {
            Self::Virtual => run::is_possible(contender).is_ok(),
            Self::Live { .. } => run_live::is_possible(plan, contender).is_ok(),
        }
    }

    fn run(
        &self,
        plan: &Plan,
        contender: &ContenderPlan,
        seed: u64,
        mut camera: Camera<'_>,
    ) -> Result<Run, BenchError> {
        match self {
            Self::Virtual => Ok(run::run_filmed(plan, contender, seed, Box::new(camera))?),
            Self::Live { sandbox, binary, folder, interrupted } => {
                let places = Places { binary: binary.clone(), folder: folder.clone(), onlooker: None };
                let run = run_live::run(plan, contender, seed, sandbox, &places, interrupted, Some(&mut camera))?;
                if interrupted.load(Ordering::Relaxed) { Err(BenchError::Interrupted) } else { Ok(run) }
            }
        }
    }
}

/// What came out of one variant of the plan with one seed.
#[derive(Debug, Clone, Serialize)]
pub struct Session {
    /// The swept values; empty if nothing is swept.
    pub variant: String,
    /// The seed.
    pub seed: u64,
    /// What the encoder makes of the same pictures without a transport.
    pub oracle: Best,
    /// What each contender makes of them.
    pub contenders: Vec<Outcome>,
}

/// What a contender has in several sessions: means, and these over the mean of the codec oracles.
#[derive(Debug, Clone)]
pub struct Together<'a> {
    /// Who.
    pub contender: &'a str,
    /// The codec oracles'.
    pub oracle: Quality,
    /// For each way of seeing: how good it looks.
    pub quality: BTreeMap<&'static str, Quality>,
    /// The same over the codec oracle's.
    pub of_oracle: BTreeMap<&'static str, Quality>,
}

/// Each contender of the first session, over all of them: the windows of a recorded link, or several seeds, as one.
pub fn together(sessions: &[Session]) -> Vec<Together<'_>> {
    let Some(first) = sessions.first() else { return Vec::new() };
    let oracles: Vec<Quality> = sessions.iter().map(|session| session.oracle.quality).collect();
    let of = |name: &str, view: &str| -> Option<Quality> {
        let of = |session: &Session| {
            let outcome = session.contenders.iter().find(|outcome| outcome.contender == name)?;
            outcome.quality.get(view).copied()
        };
        Quality::mean(&sessions.iter().map(of).collect::<Option<Vec<_>>>()?)
    };
    let each = first.contenders.iter().filter_map(|outcome| {
        let (contender, oracle) = (outcome.contender.as_str(), Quality::mean(&oracles)?);
        let named = |(view, _): &(&'static str, _)| Some((*view, of(contender, view)?));
        let quality = VIEWS.iter().map(named).collect::<Option<BTreeMap<_, _>>>()?;
        let of_oracle = quality.iter().map(|(view, quality)| (*view, quality.over(&oracle))).collect();
        Some(Together { contender, oracle, quality, of_oracle })
    });
    each.collect()
}

/// The codec oracle's result.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Best {
    /// Of the pictures that count.
    #[serde(flatten)]
    pub quality: Quality,
    /// What the encoder made of them, before packets.
    pub rate_mbps: f64,
    /// Width and height at which it was best; `None`: by the ladder.
    pub size: Option<(usize, usize)>,
}

/// Why a plan could not be filmed.
#[derive(Debug, Error)]
pub enum BenchError {
    /// It has no camera at its first node.
    #[error("{0}")]
    Plan(String),
    /// It cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// It cannot be run live.
    #[error(transparent)]
    Live(#[from] LiveRunError),
    /// Somebody has ended a live run.
    #[error("interrupted")]
    Interrupted,
    /// There are no pictures.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Pictures could not be encoded, decoded or judged.
    #[error(transparent)]
    Judge(#[from] JudgeError),
    /// The run says what cannot be.
    #[error(transparent)]
    Fates(#[from] FatesError),
}

/// Is told what is being done, how much of it is done, and of how much.
pub type Progress<'a> = &'a (dyn Fn(&str, u32, u32) + Sync);

/// Films a plan: every variant, seed after seed, contender after contender. `folder` is for temporary files. `keep` gets each contender's
/// film.
///
/// # Errors
/// [`BenchError`].
pub fn film(
    variants: &[(Variant, Plan)],
    options: &Options,
    stage: &Stage<'_>,
    folder: &Path,
    progress: Progress<'_>,
    keep: &mut dyn FnMut(&Filmed<'_>),
) -> Result<Vec<Session>, BenchError> {
    let bench = Bench { options, stage, folder, progress };
    let mut sessions = Vec::new();
    for (variant, plan) in variants {
        let first = options.seed.unwrap_or(plan.seed);
        for seed in (0..u64::from(options.repeats)).map(|repeat| first + repeat) {
            sessions.push(bench.session(&variant.describe(), plan, seed, keep)?);
        }
    }
    Ok(sessions)
}

/// What all runs of a plan have in common.
struct Bench<'a> {
    options: &'a Options,
    stage: &'a Stage<'a>,
    folder: &'a Path,
    progress: Progress<'a>,
}

impl Bench<'_> {
    fn session(
        &self,
        variant: &str,
        plan: &Plan,
        seed: u64,
        keep: &mut dyn FnMut(&Filmed<'_>),
    ) -> Result<Session, BenchError> {
        let Self { options, progress, .. } = *self;
        let (traffic, video) = camera_of(plan)?;
        let until = traffic.until.map_or(plan.duration(), |until| until.get()).min(plan.duration());
        let lasts = until.saturating_sub(traffic.at.get());
        let count = (lasts.as_secs_f64() * f64::from(Content::RATE)).ceil() as u32;
        let films = |done| progress("filming", done, count);
        let store = Store::fill(&options.content, seed, options.filmed, count, self.folder, &films)?;
        let contenders = plan.contenders.iter().map(|contender| contender.get_ref());
        let chosen = contenders.filter(|contender| {
            let is_wanted = options.only.is_empty() || options.only.iter().any(|name| name == contender.name());
            is_wanted && self.stage.is_possible(plan, contender)
        });
        let mut filmed = Vec::new();
        for contender in chosen {
            filmed.push(self.shoot(plan, contender, seed, &store, video)?);
        }
        let Some((run, film)) = filmed.first() else {
            return Err(BenchError::Plan("the plan has no contender that runs so".into()));
        };
        let one = Filmed::new(variant, plan, traffic, run, film)?;
        let tell = |number: u32| progress("codec oracle", number, count);
        let setting = Setting {
            store: &store,
            engine: options.engine,
            range: one.range(),
            vmaf: options.vmaf.as_ref(),
            progress: &tell,
        };
        let (best, size) = best_oracle(&setting, options, &capacity(run, video), one.first())?;
        let mut outcomes = Vec::new();
        for (run, film) in &filmed {
            let tell = |number: u32| progress(&format!("{}: judging", run.contender), number, count);
            let filmed = Filmed::new(variant, plan, traffic, run, film)?;
            outcomes.push(filmed.judge(&Setting { progress: &tell, ..setting.clone() }, &best.quality)?);
            keep(&filmed);
        }
        let best = Best { quality: best.quality, rate_mbps: best.rate.as_mbps(), size };
        Ok(Session { variant: variant.to_owned(), seed, oracle: best, contenders: outcomes })
    }

    /// Runs a contender with the encoder behind its camera.
    fn shoot(
        &self,
        plan: &Plan,
        contender: &ContenderPlan,
        seed: u64,
        store: &Store,
        video: VideoTraffic,
    ) -> Result<(Run, Film), BenchError> {
        let Self { options, progress, .. } = *self;
        let film = Mutex::new(Film::default());
        let name = contender.name();
        let tell = |number| progress(&format!("{name}: encoding and sending"), number, store.count());
        let encoder = Encoder::new(options.engine, Content::RATE);
        let steps = options.sizes.ladder(options.engine);
        let size = if let Sizes::One(size) = options.sizes { size } else { options.filmed };
        let began = Instant::now();
        let unasked = (contender.kind != ContenderKind::Aquila).then_some(UNASKED);
        let camera = Camera {
            encoder,
            store,
            video,
            size,
            steps,
            began,
            recovery: false,
            unasked,
            film: &film,
            progress: &tell,
        };
        let run = self.stage.run(plan, contender, seed, camera)?;
        let film = film.into_inner().unwrap_or_else(PoisonError::into_inner);
        match film.fault {
            Some(fault) => Err(fault.into()),
            None => Ok((run, film)),
        }
    }
}

/// The codec oracle at the best of the sizes that the encoder has, or stepping between them as if each change were for free.
fn best_oracle(
    setting: &Setting<'_>,
    options: &Options,
    capacity: &Capacity,
    first: Duration,
) -> Result<(Oracle, Option<(usize, usize)>), BenchError> {
    let at = |size| -> Result<_, BenchError> { Ok((oracle(setting, size, capacity, first)?, Some(size))) };
    let ladder = match (&options.sizes, options.sizes.ladder(options.engine)) {
        (Sizes::One(size), _) => return at(*size),
        (_, ladder) => ladder.ok_or_else(|| BenchError::Plan("these sizes are no ladder".into()))?,
    };
    let size_of = |rung: &Rung| (usize::from(rung.width), usize::from(rung.height));
    let mut sizes: Vec<_> = ladder.rungs().iter().map(size_of).collect();
    sizes.dedup();
    let mut all = sizes.into_iter().map(at).collect::<Result<Vec<_>, _>>()?;
    let steps = |rate| size_of(&ladder.best_for(rate));
    all.push((oracle_in_steps(setting, &steps, capacity, first)?, None));
    let value = |of: &Quality| of.vmaf.unwrap_or(of.ssim);
    let best = all.into_iter().reduce(|a, b| if value(&b.0.quality) > value(&a.0.quality) { b } else { a });
    best.ok_or_else(|| BenchError::Plan("there are no sizes".into()))
}

/// The camera at the first node.
fn camera_of(plan: &Plan) -> Result<(&TrafficPlan, VideoTraffic), BenchError> {
    match plan.video_from_first() {
        None => Err(BenchError::Plan(format!("the plan has no video from {}", plan.nodes[0]))),
        Some((_, video)) if video.frames_per_second != Content::RATE => Err(BenchError::Plan(format!(
            "the pictures are {} a second, and the plan wants {}",
            Content::RATE,
            video.frames_per_second
        ))),
        Some(found) => Ok(found),
    }
}

/// What the first link carries from the first node, half second by half second.
fn capacity(run: &Run, video: VideoTraffic) -> Capacity {
    let most = video.rate.bitrate();
    let per_step = (STEP.as_secs_f64() / crate::channels::SERIES_STEP.as_secs_f64()).round() as usize;
    let of = |samples: &[LinkSample]| {
        let rates: Vec<f64> = samples.iter().filter_map(|sample| sample.capacity_bps).collect();
        if rates.is_empty() { UNLIMITED } else { Bitrate((rates.iter().sum::<f64>() / rates.len() as f64) as u64) }
    };
    let series = run.links.iter().find(|series| series.direction == 0);
    let steps = series.map_or_else(Vec::new, |series| series.samples.chunks(per_step).map(of).collect());
    Capacity { steps, least: video.least.map_or(Bitrate::kbps(150), |least| least.bitrate()), most }
}

/// Pictures from one recovery point to the next where the receiver cannot ask for one.
const UNASKED: u32 = 60;
/// Time from one picture to the next.
const INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / Content::RATE as u64);
