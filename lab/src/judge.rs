//! A plan from end to end: all variants, contenders and repeats, their figures, and whether the checks hold.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::agreement::{Comparison, compare};
use crate::metrics::{Metrics, Outcome, check};
use crate::plan::{CheckPlan, ContenderPlan, Mode, Plan, Variant};
use crate::record::{Program, Run};
use crate::run::RunError;

/// What came out of a plan.
#[derive(Debug, Serialize)]
pub struct Judgement {
    /// Its title.
    pub plan: String,
    /// Virtual or live.
    pub mode: Mode,
    /// Seed of the first repeat.
    pub seed: u64,
    /// One of each combination of swept values; one if nothing is swept.
    pub variants: Vec<VariantJudgement>,
    /// The checks of all variants.
    pub checks: Vec<Outcome>,
    /// Live: how the same comes out in virtual time, if that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreement: Option<Vec<Comparison>>,
    /// Why the run does not count, if it does not.
    pub invalid: Option<String>,
    /// Whether it counts and all checks hold.
    pub pass: bool,
}

/// What came out of a variant.
#[derive(Debug, Serialize)]
pub struct VariantJudgement {
    /// The swept values; empty if nothing is swept.
    pub variant: String,
    /// Figures: contender, flow or link, direction, figure.
    pub metrics: Value,
    /// Virtual: hashes of the logs by contender, in order of the repeats.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub logs: BTreeMap<String, Vec<String>>,
    /// The plan's own programs by contender, in order of the repeats: where, what became of them, and their logs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, Vec<Vec<Program>>>,
    /// The runs, for the report.
    #[serde(skip)]
    pub runs: Vec<Run>,
    /// The plan, for the report.
    #[serde(skip)]
    pub plan: Plan,
}

/// One run that has to be done.
#[derive(Debug, Clone, Copy)]
struct Job<'a> {
    variant: usize,
    contender: &'a ContenderPlan,
    seed: u64,
}

/// Runs a plan in virtual time, on all processors. `progress` hears how many of how many runs are done.
///
/// # Errors
/// The first [`RunError`], in order of the plan.
pub fn run(
    variants: Vec<(Variant, Plan)>,
    seed: Option<u64>,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Judgement, RunError> {
    let mut jobs = Vec::new();
    for (number, (_, plan)) in variants.iter().enumerate() {
        let first = seed.unwrap_or(plan.seed);
        // Those without a model are for live runs.
        for contender in plan.contenders.iter().filter(|contender| crate::run::is_possible(contender.get_ref()).is_ok())
        {
            let seeds = (0..u64::from(plan.repeats_in(Mode::Virtual))).map(|repeat| first + repeat);
            jobs.extend(seeds.map(|seed| Job { variant: number, contender: contender.get_ref(), seed }));
        }
    }
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Vec<Mutex<Option<Result<Run, RunError>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some((number, job)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, jobs.get(n)?)))
        {
            let result = crate::run::run(&variants[job.variant].1, job.contender, job.seed);
            *results[number].lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(result);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len().max(1));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut of_variant: Vec<Vec<Run>> = variants.iter().map(|_| Vec::new()).collect();
    for (job, result) in jobs.iter().zip(results) {
        let result = result.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        of_variant[job.variant].push(result.expect("every job is done")?);
    }
    Ok(judge(variants, of_variant, Mode::Virtual, seed))
}

/// Judges the runs of each variant.
pub fn judge(variants: Vec<(Variant, Plan)>, runs: Vec<Vec<Run>>, mode: Mode, seed: Option<u64>) -> Judgement {
    let title = variants.first().map_or_else(String::new, |(_, plan)| plan.title.clone());
    let seed = seed.or(variants.first().map(|(_, plan)| plan.seed)).unwrap_or_default();
    let mut checks = Vec::new();
    let mut judged = Vec::new();
    for ((variant, plan), runs) in variants.into_iter().zip(runs) {
        let metrics = Metrics::of(&plan, &runs);
        let described = variant.describe();
        let asked: Vec<&CheckPlan> = plan.checks.iter().map(|check| check.get_ref()).collect();
        let asked: Vec<&CheckPlan> = asked
            .into_iter()
            .filter(|check| check.only.is_none_or(|only| only == mode))
            .filter(|check| check.when.as_ref().is_none_or(|when| variant.has(when)))
            .collect();
        for mut outcome in check(&asked, &metrics) {
            if !described.is_empty() {
                outcome.name = format!("{} ({described})", outcome.name);
            }
            checks.push(outcome);
        }
        let mut logs: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut programs: BTreeMap<String, Vec<Vec<Program>>> = BTreeMap::new();
        for run in runs.iter().filter(|run| !run.programs.is_empty()) {
            programs.entry(run.contender.clone()).or_default().push(run.programs.clone());
        }
        for run in runs.iter().filter(|run| !run.log_hash.is_empty()) {
            logs.entry(run.contender.clone()).or_default().push(run.log_hash.clone());
        }
        judged.push(VariantJudgement { variant: described, metrics: nested(&metrics), logs, programs, runs, plan });
    }
    let invalid: Vec<String> = judged
        .iter()
        .flat_map(|variant| &variant.runs)
        .filter_map(|run| Some(format!("{} (seed {}): {}", run.contender, run.seed, run.invalid.as_ref()?)))
        .collect();
    let invalid = (!invalid.is_empty()).then(|| invalid.join("; "));
    let pass = invalid.is_none() && checks.iter().all(|check| check.pass);
    Judgement { plan: title, mode, seed, variants: judged, checks, agreement: None, invalid, pass }
}

impl Judgement {
    /// Holds a live judgement against one of the same plan in virtual time.
    pub fn compare_with(&mut self, virtual_time: &Judgement) {
        let agreement = compare(virtual_time, self);
        self.pass &= agreement.iter().all(|comparison| comparison.agrees);
        self.agreement = Some(agreement);
    }
}

/// Figures by the parts of their names.
fn nested(metrics: &Metrics) -> Value {
    let mut root = Value::Object(Map::new());
    for (name, value) in &metrics.0 {
        let mut at = &mut root;
        for part in name.split('.') {
            // Names are made of distinct levels, so what is there is a table.
            at = &mut at[part];
        }
        *at = serde_json::json!(value);
    }
    root
}
