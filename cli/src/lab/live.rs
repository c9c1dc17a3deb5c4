//! `aquila lab live`.

use anyhow::{Context, anyhow};
use aquila_lab::judge::{Judgement, judge};
use aquila_lab::live::{Entered, Sandbox};
use aquila_lab::plan::{Mode, Plan, Variant};
use aquila_lab::run_live::{self, Places};

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
    let folder = args.logs.clone().unwrap_or_else(|| std::env::temp_dir().join("aquila-lab"));
    let mut runs = Vec::new();
    for (number, (variant, plan)) in variants.iter().enumerate() {
        let mut of_variant = Vec::new();
        let places = Places { binary: binary.clone(), folder: folder.join(format!("variant-{}", number + 1)) };
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
                eprintln!("{} {} of {repeats}{of}: {} s", contender.name(), repeat + 1, plan.duration().as_secs());
                let run = run_live::run(plan, contender, seed, sandbox, &places, interrupted);
                of_variant.push(run.map_err(|error| Failure::Config(error.into()))?);
                if interrupted.load(std::sync::atomic::Ordering::Relaxed) {
                    return Err(Failure::Runtime(anyhow!("interrupted; logs are in {}", folder.display())));
                }
            }
        }
        runs.push(of_variant);
    }
    Ok(judge(variants, runs, Mode::Live, args.seed))
}
