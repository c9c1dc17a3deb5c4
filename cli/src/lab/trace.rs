//! `aquila lab trace`.

use std::time::Duration;

use anyhow::anyhow;
use aquila_emu::synth::Model;
use aquila_lab::traces::{self, Conversion, Format, TraceFileError};
use serde_json::Value;

use crate::Failure;
use crate::args::{FormatArg, TraceCommand, TraceConvertArgs, TraceSynthArgs};

/// Does what was asked; results go to `out`.
pub fn run(command: TraceCommand, out: &mut Vec<u8>) -> Result<(), Failure> {
    match command {
        TraceCommand::Info { files, json } => {
            let mut all = Vec::new();
            for file in &files {
                let trace = traces::open(file).map_err(failure)?;
                match json {
                    true => all.push(traces::json(file, &trace)),
                    false => out.extend(traces::describe(file, &trace).bytes()),
                }
            }
            if json {
                let value = if all.len() == 1 { all.remove(0) } else { Value::Array(all) };
                out.extend(format!("{value}\n").bytes());
            }
            Ok(())
        }
        TraceCommand::Convert(args) => convert(&args).map_err(failure),
        TraceCommand::Synth(args) => synth(&args),
        TraceCommand::Plot { file, to } => traces::plot(&file, &to).map_err(failure),
    }
}

fn convert(args: &TraceConvertArgs) -> Result<(), TraceFileError> {
    let done = traces::convert(&args.from, &args.to, args.format.map(format), args.span.get(), args.comments)?;
    told(&args.to, &done);
    Ok(())
}

fn synth(args: &TraceSynthArgs) -> Result<(), Failure> {
    let known: Vec<_> = Model::names().collect();
    let unknown = || Failure::Config(anyhow!("there is no model '{}': one of {}", args.model, known.join(", ")));
    let model = Model::by_name(&args.model).ok_or_else(unknown)?;
    let length = Duration::from_secs(args.seconds.into());
    let done = traces::synth(&args.to, model, args.seed, length, format(args.format), args.comments);
    told(&args.to, &done.map_err(failure)?);
    Ok(())
}

/// What was written and what was lost, on standard error.
fn told(to: &std::path::Path, done: &Conversion) {
    eprintln!("{}: {} lines of data", to.display(), done.lines);
    done.lost.iter().for_each(|lost| eprintln!("  lost: {lost}"));
}

fn format(format: FormatArg) -> Format {
    match format {
        FormatArg::Mahimahi => Format::Mahimahi,
        FormatArg::Csv => Format::Csv,
    }
}

fn failure(error: TraceFileError) -> Failure {
    match error {
        TraceFileError::Write { .. } => Failure::Runtime(error.into()),
        _ => Failure::Config(error.into()),
    }
}
