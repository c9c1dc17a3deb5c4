//! `aquila lab`.

mod aerotp;
mod live;
pub mod mule;
mod score;
mod trace;
mod video;
mod view;

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::anyhow;
use aquila_lab::judge::{self, Judgement};
use aquila_lab::metrics::Outcome;
use aquila_lab::plan::{CapturePlan, Plan, Variant};
use aquila_lab::{report, scenarios};

use crate::Failure;
use crate::args::{LabCommand, LabLiveArgs, LabRunArgs};

/// Does what was asked; results go to `out`.
pub fn run(command: LabCommand, out: &mut Vec<u8>) -> Result<(), Failure> {
    match command {
        LabCommand::Run(args) => run_plan(&args, out),
        LabCommand::Live(args) => run_live(&args, out),
        LabCommand::Video(args) => video::run(&args, &opened(&args.plan)?, out),
        LabCommand::Aerotp(args) => aerotp::run(&args, out),
        LabCommand::Mule(args) => mule::run(&args, out),
        LabCommand::Trace(args) => trace::run(args.command, out),
        LabCommand::Score(args) => score::run(&args, out),
        LabCommand::Check => check_all(out),
        LabCommand::List => list(out).map_err(|error| Failure::Runtime(error.into())),
        LabCommand::Show { plan } => match scenarios::text(&plan) {
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                Ok(())
            }
            None => Err(Failure::Config(unknown(&plan))),
        },
    }
}

fn run_live(args: &LabLiveArgs, out: &mut Vec<u8>) -> Result<(), Failure> {
    let mut variants = opened(&args.plan)?;
    run_only(&mut variants, &args.contenders)?;
    let capture = args.out.as_ref().filter(|_| args.pcap).map(|directory| directory.join("pcap"));
    add_capture(&mut variants, capture.as_deref(), args.seed);
    let sandbox = live::enter()?;
    let judgement = live::judged(args, variants, &sandbox)?;
    present(&judgement, args.out.as_deref(), args.json, out)
}

fn run_plan(args: &LabRunArgs, out: &mut Vec<u8>) -> Result<(), Failure> {
    let capture = args.out.as_ref().filter(|_| args.pcap).map(|directory| directory.join("pcap"));
    let mut variants = opened(&args.plan)?;
    run_only(&mut variants, &args.contenders)?;
    let judgement = judged(variants, args.seed, capture.as_deref())?;
    present(&judgement, args.out.as_deref(), args.json, out)
}

/// Report, tables or JSON, and the verdict.
fn present(judgement: &Judgement, directory: Option<&Path>, json: bool, out: &mut Vec<u8>) -> Result<(), Failure> {
    if let Some(directory) = directory {
        let page = report::write(judgement, directory).map_err(|error| Failure::Runtime(error.into()))?;
        eprintln!("report: {}", page.display());
    }
    if json {
        serde_json::to_writer(&mut *out, judgement).map_err(|error| Failure::Runtime(error.into()))?;
        out.push(b'\n');
    } else {
        write_tables(out, judgement).map_err(|error| Failure::Runtime(error.into()))?;
    }
    verdict(judgement)
}

/// All variants of a shipped plan, or of the one in a file.
fn opened(plan: &str) -> Result<Vec<(Variant, Plan)>, Failure> {
    let is_name = !plan.contains(['/', '.']) && scenarios::text(plan).is_none() && !Path::new(plan).exists();
    match is_name {
        true => Err(Failure::Config(unknown(plan))),
        false => scenarios::open(plan).map_err(|error| Failure::Config(error.into())),
    }
}

/// Leaves out the contenders that are not wanted.
fn run_only(variants: &mut [(Variant, Plan)], names: &[String]) -> Result<(), Failure> {
    let none = |name| Failure::Config(anyhow!("--only {name}: the plan has no such contender"));
    variants.iter_mut().try_for_each(|(_, plan)| plan.run_only(names).map_err(none))
}

fn judged(mut variants: Vec<(Variant, Plan)>, seed: Option<u64>, capture: Option<&Path>) -> Result<Judgement, Failure> {
    add_capture(&mut variants, capture, seed);
    for (name, reason) in variants[0].1.contenders.iter().filter_map(|contender| {
        Some((contender.get_ref().name(), aquila_lab::run::is_possible(contender.get_ref()).err()?))
    }) {
        eprintln!("{name}: skipped: {reason}");
    }
    if variants[0].1.has_programs() {
        eprintln!("the plan's programs are not run in virtual time");
    }
    let live = io::stderr().is_terminal();
    let progress = |done: usize, of: usize| {
        if live {
            eprint!("\r{done} of {of} runs{}", if done == of { "\r\x1b[K" } else { "" });
        }
    };
    judge::run(variants, seed, &progress).map_err(|error| Failure::Config(error.into()))
}

/// Captures the first repeat of each variant, if there is a place for it.
fn add_capture(variants: &mut [(Variant, Plan)], capture: Option<&Path>, seed: Option<u64>) {
    let count = variants.len();
    for (number, (_, plan)) in variants.iter_mut().enumerate() {
        plan.capture = capture.map(|directory| CapturePlan {
            directory: if count > 1 { directory.join(format!("variant-{}", number + 1)) } else { directory.to_owned() },
            seed: seed.unwrap_or(plan.seed),
        });
    }
}

/// Exit codes: 1 if a check falls short, 2 if the run does not count.
fn verdict(judgement: &Judgement) -> Result<(), Failure> {
    if let Some(reason) = &judgement.invalid {
        return Err(Failure::Config(anyhow!("the run does not count: {reason}")));
    }
    let failed = judgement.checks.iter().filter(|check| !check.pass).count();
    let differ = judgement.agreement.iter().flatten().filter(|comparison| !comparison.agrees).count();
    match failed {
        0 if differ > 0 => Err(Failure::Runtime(anyhow!("{differ} figures differ from those in virtual time"))),
        0 => Ok(()),
        _ => Err(Failure::Runtime(anyhow!("{failed} of {} checks fall short", judgement.checks.len()))),
    }
}

fn check_all(out: &mut Vec<u8>) -> Result<(), Failure> {
    let mut failed = Vec::new();
    for name in scenarios::checked() {
        let judgement = judged(opened(name)?, None, None)?;
        let holds = judgement.checks.iter().filter(|check| check.pass).count();
        let line = format!("{name:<18} {holds:>3} of {:>3} checks hold   {}\n", judgement.checks.len(), judgement.plan);
        out.extend_from_slice(line.as_bytes());
        for outcome in judgement.checks.iter().filter(|check| !check.pass) {
            write_outcome(out, outcome).map_err(|error| Failure::Runtime(error.into()))?;
        }
        if !judgement.pass {
            failed.push(name);
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::Runtime(anyhow!("checks fall short: {}", failed.join(", ")))),
    }
}

fn list(out: &mut Vec<u8>) -> io::Result<()> {
    for name in scenarios::names() {
        if let Ok(plans) = scenarios::open(name) {
            writeln!(out, "{name:<18} {}", plans[0].1.title)?;
        }
    }
    Ok(())
}

fn unknown(plan: &str) -> anyhow::Error {
    let known: Vec<_> = scenarios::names().collect();
    anyhow!("there is no plan '{plan}': give a file, or one of {}", known.join(", "))
}

/// Latencies by contender, flow and direction, then the checks.
fn write_tables(out: &mut Vec<u8>, judgement: &Judgement) -> io::Result<()> {
    writeln!(out, "{}", judgement.plan)?;
    for variant in &judgement.variants {
        writeln!(out)?;
        if !variant.variant.is_empty() {
            writeln!(out, "{}", variant.variant)?;
        }
        writeln!(
            out,
            "{:<34} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "milliseconds", "sent", "lost %", "p50", "p95", "p99", "max", "Mbit/s"
        )?;
        let Some(contenders) = variant.metrics.as_object() else { continue };
        for (contender, flows) in contenders {
            for (flow, directions) in flows.as_object().into_iter().flatten() {
                for (direction, figures) in directions.as_object().into_iter().flatten() {
                    let figure = |path: &str| figures.pointer(path).and_then(serde_json::Value::as_f64);
                    let Some(sent) = figure("/sent") else { continue };
                    let text = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
                    writeln!(
                        out,
                        "{:<34} {sent:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9}",
                        format!("{contender} {flow} {direction}"),
                        text(figure("/lost_share").map(|share| share * 100.0)),
                        text(figure("/latency_ms/p50")),
                        text(figure("/latency_ms/p95")),
                        text(figure("/latency_ms/p99")),
                        text(figure("/latency_ms/max")),
                        figure("/rate_mbps").map_or("-".to_owned(), |rate| format!("{rate:.3}")),
                    )?;
                }
            }
        }
        write_intervals(out, &variant.metrics)?;
    }
    if !judgement.checks.is_empty() {
        writeln!(out)?;
    }
    for outcome in &judgement.checks {
        write_outcome(out, outcome)?;
    }
    write_agreement(out, judgement)
}

/// Of commands that wait for each other, or have a deadline.
fn write_intervals(out: &mut Vec<u8>, metrics: &serde_json::Value) -> io::Result<()> {
    let mut has_head = false;
    for (contender, flows) in metrics.as_object().into_iter().flatten() {
        for (flow, directions) in flows.as_object().into_iter().flatten() {
            for (direction, figures) in directions.as_object().into_iter().flatten() {
                let figure = |path: &str| figures.pointer(path).and_then(serde_json::Value::as_f64);
                if figure("/inter_arrival_s/mean").or(figure("/late_share")).is_none() {
                    continue;
                }
                if !std::mem::replace(&mut has_head, true) {
                    writeln!(
                        out,
                        "\n{:<34} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
                        "seconds", "late %", "mean gap", "std", "max", "all after", "censored", "arrived %"
                    )?;
                }
                let text = |value: Option<f64>, places: usize| {
                    value.map_or("-".to_owned(), |value| format!("{value:.places$}"))
                };
                writeln!(
                    out,
                    "{:<34} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
                    format!("{contender} {flow} {direction}"),
                    text(figure("/late_share").map(|share| share * 100.0), 2),
                    text(figure("/inter_arrival_s/mean"), 4),
                    text(figure("/inter_arrival_s/std"), 4),
                    text(figure("/inter_arrival_s/max"), 2),
                    text(figure("/completion_s/mean"), 2),
                    text(figure("/completion_s/censored"), 0),
                    text(figure("/delivered_share").map(|share| share * 100.0), 2),
                )?;
            }
        }
    }
    Ok(())
}

/// Live beside virtual time.
fn write_agreement(out: &mut Vec<u8>, judgement: &Judgement) -> io::Result<()> {
    let Some(agreement) = &judgement.agreement else { return Ok(()) };
    writeln!(
        out,
        "\n{:<50} {:>9} {:>9} {:>21} {:>9}",
        "medians of repeats", "virtual", "live", "least to most", "bound"
    )?;
    for comparison in agreement {
        let [least, most] = comparison.live_range;
        let range = format!("{least:.1} to {most:.1}");
        let verdict = if comparison.agrees { "" } else { "  DIFFERS" };
        let variant = if comparison.variant.is_empty() { String::new() } else { format!("  ({})", comparison.variant) };
        writeln!(
            out,
            "{:<50} {:>9.1} {:>9.1} {range:>21} {:>9.1}{verdict}{variant}",
            comparison.metric, comparison.virtual_time, comparison.live, comparison.bound
        )?;
    }
    Ok(())
}

fn write_outcome(out: &mut Vec<u8>, outcome: &Outcome) -> io::Result<()> {
    let value = outcome.value.map_or("not measured".to_owned(), |value| format!("{value:.4}"));
    let holds = if outcome.pass { "holds" } else { "FALLS SHORT" };
    writeln!(out, "{holds:<12} {}: {} = {value}, {}", outcome.name, outcome.metric, outcome.bound)
}
