//! `aquila plan`.

pub mod args;
mod links;
mod table;

use self::args::{PlanArgs, PlanCommand};
use crate::Failure;

/// Does what was asked; results go to `out`.
pub fn run(args: PlanArgs, out: &mut Vec<u8>) -> Result<(), Failure> {
    match args.command {
        PlanCommand::Links(args) => links::run(&args, out),
    }
}
