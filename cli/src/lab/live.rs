//! `aquila lab live`.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use anyhow::{Context, anyhow};
use aquila_lab::judge::{self, Judgement, judge};
use aquila_lab::live::{Entered, Sandbox};
use aquila_lab::plan::{ContenderPlan, Mode, Plan, Variant};
use aquila_lab::record::Run;
use aquila_lab::run_live::{self, Now, Places};

use super::view::View;
use crate::Failure;
use crate::args::LabLiveArgs;

/// Enters the namespaces; must come before any thread. The outer process ends in it.
pub fn enter() -> Result<Sandbox, Failure> {
    match Sandbox::enter().map_err(|error| Failure::Config(error.into()))? {
        Entered::Inside(sandbox) => Ok(sandbox),
        Entered::Outside(code) => std::process::exit(code),
    }
}

/// Runs a plan in real time, contender after contender.
pub fn judged(args: &LabLiveArgs, variants: Vec<(Variant, Plan)>, sandbox: &Sandbox) -> Result<Judgement, Failure> {
    let config = |error: anyhow::Error| Failure::Config(error);
    let interrupted = sandbox.catch_interrupts().map_err(|error| config(error.into()))?;
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => std::env::current_exe().context("cannot find this program's own file").map_err(config)?,
    };
    let folder = args.logs.clone().unwrap_or_else(own_folder);
    eprintln!("logs: {}", folder.display());
    let looks_on = args.live && io::stderr().is_terminal();
    if args.live && !looks_on {
        eprintln!("--live is for a terminal");
    }
    let mut runs = Vec::new();
    for (number, (variant, plan)) in variants.iter().enumerate() {
        let mut of_variant = Vec::new();
        for contender in plan.contenders.iter().map(|contender| contender.get_ref()) {
            if let Err(reason) = run_live::is_possible(plan, contender) {
                eprintln!("{}: skipped: {reason}", contender.name());
                continue;
            }
            let repeats = args.repeats.unwrap_or(plan.repeats_in(Mode::Live));
            for repeat in 0..u64::from(repeats) {
                let seed = args.seed.unwrap_or(plan.seed) + repeat;
                let of =
                    if variant.describe().is_empty() { String::new() } else { format!(", {}", variant.describe()) };
                let title = format!("{} {} of {repeats}{of}", contender.name(), repeat + 1);
                let lasts = plan.duration();
                let mut places = Places {
                    binary: binary.clone(),
                    folder: folder.join(format!("variant-{}", number + 1)),
                    onlooker: None,
                };
                let run = if looks_on {
                    let view = View::open(title, lasts).map_err(|error| config(error.into()))?;
                    let view = Mutex::new(view);
                    let show = |now: &Now| show(&view, now, interrupted);
                    places.onlooker = Some(&show);
                    one(plan, contender, seed, sandbox, &places, interrupted)
                } else {
                    eprintln!("{title}: {} s", lasts.as_secs());
                    one(plan, contender, seed, sandbox, &places, interrupted)
                };
                let run = run?;
                if interrupted.load(Ordering::Relaxed) {
                    return Err(Failure::Runtime(anyhow!("interrupted; logs are in {}", folder.display())));
                }
                if let Some(reason) = &run.invalid {
                    eprintln!("{} (seed {seed}) does not count: {reason}", contender.name());
                }
                of_variant.push(run);
            }
        }
        runs.push(of_variant);
    }
    let simulated = match args.compare {
        true => Some(judge::run(variants.clone(), args.seed, &|_, _| {}).map_err(|error| config(error.into()))?),
        false => None,
    };
    let mut judgement = judge(variants, runs, Mode::Live, args.seed);
    if let Some(simulated) = &simulated {
        judgement.compare_with(simulated);
    }
    Ok(judgement)
}

/// One of this run's own, since several people may use the lab of a machine.
pub fn own_folder() -> PathBuf {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    std::env::temp_dir().join(format!("aquila-lab-{}", since_1970.as_millis()))
}

fn one(
    plan: &Plan,
    contender: &ContenderPlan,
    seed: u64,
    sandbox: &Sandbox,
    places: &Places<'_>,
    interrupted: &AtomicBool,
) -> Result<Run, Failure> {
    run_live::run(plan, contender, seed, sandbox, places, interrupted, None)
        .map_err(|error| Failure::Config(anyhow!("{error}; logs are in {}", places.folder.display())))
}

/// Draws; whoever presses q ends the run.
fn show(view: &Mutex<View>, now: &Now, interrupted: &AtomicBool) {
    let mut view = view.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // A terminal that has gone away is no reason to stop measuring.
    if view.draw(now).unwrap_or_default() {
        interrupted.store(true, Ordering::Relaxed);
    }
}
