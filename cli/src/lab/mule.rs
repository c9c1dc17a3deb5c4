//! `aquila lab mule`.

pub mod tables;

use std::io::{self, IsTerminal, Write};

use anyhow::anyhow;
use aquila_lab::mule::figures::{Figure, Task};
use clap::{Args, Subcommand};

use self::tables::LabMuleTablesArgs;
use crate::Failure;
use crate::plan::table::Table;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LabMuleArgs {
    #[command(subcommand)]
    pub command: Option<LabMuleCommand>,
    /// Flights of each figure, with seeds one after the other
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub seeds: u64,
    /// Leave out the gigabyte in five passes, which takes longest
    #[arg(long)]
    pub quick: bool,
    /// Print tables in Markdown
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print one JSON array instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum LabMuleCommand {
    /// Tables 2 to 5 of the data-mule paper: three trajectories, half an hour each, beside the radio's capacity and TCP
    #[command(after_long_help = tables::HELP)]
    Tables(LabMuleTablesArgs),
}

/// Flies, and prints what was reached and what has to be.
pub fn run(args: &LabMuleArgs, out: &mut Vec<u8>) -> Result<(), Failure> {
    if let Some(LabMuleCommand::Tables(args)) = &args.command {
        return tables::run(args, out);
    }
    let tasks: Vec<Task> = Task::all().into_iter().filter(|task| !args.quick || *task != Task::PowerCuts).collect();
    let of = tasks.len() as u64 * args.seeds;
    let is_terminal = io::stderr().is_terminal();
    let mut figures = Vec::new();
    for task in &tasks {
        for seed in 1..=args.seeds {
            figures.push(task.run(seed));
            let done = figures.len() as u64;
            if is_terminal {
                eprint!("\r{done} of {of} flights{}", if done == of { "\r\x1b[K" } else { "" });
            }
        }
    }
    let written = if args.json {
        serde_json::to_writer(&mut *out, &figures).map_err(io::Error::from).and_then(|()| writeln!(out))
    } else {
        let table = table(&tasks, &figures);
        if args.markdown { table.write_markdown(out) } else { table.write(out) }
    };
    written.map_err(|error| Failure::Runtime(error.into()))?;
    match figures.iter().filter(|figure| !figure.holds).count() {
        0 => Ok(()),
        short => Err(Failure::Runtime(anyhow!("{short} of {of} flights fall short"))),
    }
}

fn table(tasks: &[Task], figures: &[Figure]) -> Table {
    let mut table = Table::new(&["", "worst", "best", "bound", ""]);
    for task in tasks {
        let of: Vec<&Figure> = figures.iter().filter(|figure| figure.task == *task).collect();
        let values = of.iter().map(|figure| figure.value);
        let (low, high) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (worst, best) = if task.less_is_better() { (high, low) } else { (low, high) };
        let holds = of.iter().all(|figure| figure.holds);
        let bound = of.first().map_or(f64::NAN, |figure| figure.bound);
        let verdict = if holds { "holds" } else { "falls short" };
        table.push(vec![task.name(), task.show(worst), task.show(best), task.show(bound), verdict.into()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_flight_is_shown_and_judged() {
        let task = Task::Rewritten;
        let good = task.run(1);
        let bad = Figure { seed: 2, value: 0.5, holds: false, ..good.clone() };
        let mut out = Vec::new();
        table(&[task], &[good, bad]).write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("50.0 %") && text.contains("3.0 %") && text.contains("falls short"), "{text}");
    }
}
