//! `aquila plan`.

mod advice;
pub mod args;
mod fit;
mod flight;
pub mod flight_args;
mod input;
mod links;
mod report;
mod sweep;
pub mod table;

use std::path::Path;

use anyhow::anyhow;

use self::args::{PlanArgs, PlanCommand};
use crate::Failure;

/// Does what was asked; results go to `out`.
pub fn run(args: PlanArgs, out: &mut Vec<u8>) -> Result<(), Failure> {
    match args.command {
        PlanCommand::Flight(args) => flight::run(&args, out),
        PlanCommand::Sweep(args) => sweep::run(&args, out),
        PlanCommand::Fit(args) => fit::run(&args, out),
        PlanCommand::Links(args) => links::run(&args, out),
    }
}

/// Whether a plot can be written to a file of this name.
pub fn check_name(path: &Path) -> anyhow::Result<()> {
    let is_known = |end: &std::ffi::OsStr| ["svg", "html", "htm"].iter().any(|known| end.eq_ignore_ascii_case(known));
    match path.extension().is_some_and(is_known) {
        true => Ok(()),
        false => Err(anyhow!("{}: a plot's name ends with .svg or .html", path.display())),
    }
}
