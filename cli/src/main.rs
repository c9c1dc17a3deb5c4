//! The `aquila` program.

mod args;
mod check;
mod config;
mod demo;
mod gateway;
mod keys;
mod lab;
mod link;
mod man;
mod mule;
mod plan;
#[cfg(test)]
mod testing;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use aquila_proto::identity::Identity;
use aquila_proto::session::Side;
use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::args::{Cli, Command, LinkArgs};
use crate::config::{Environment, File, Settings};

/// Why the program ends without having done what it was asked.
enum Failure {
    /// Wrong usage or configuration; nothing was started. Exit code 2, as clap's own.
    Config(anyhow::Error),
    /// It failed while running. Exit code 1.
    Runtime(anyhow::Error),
}

fn main() -> ExitCode {
    // Written at the end: a reader that went away is no failure.
    let mut out = Vec::new();
    let result = run(Cli::parse().command, &mut out);
    let written = io::stdout().write_all(&out).and_then(|()| io::stdout().flush());
    let result = result.and_then(|()| match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Runtime(error.into())),
        _ => Ok(()),
    });
    let (error, code) = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Runtime(error)) => (error, 1),
        Err(Failure::Config(error)) => (error, 2),
    };
    eprintln!("aquila: {error:#}");
    ExitCode::from(code)
}

fn run(command: Command, out: &mut Vec<u8>) -> Result<(), Failure> {
    match command {
        Command::Keys(keys) => keys::run(keys.command, out).map_err(Failure::Config),
        Command::Check(args) => match check::run(&args, &Environment::read(), out) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::Config(anyhow!("{} cannot be used", args.file.display()))),
            Err(error) => Err(Failure::Config(error)),
        },
        Command::Air(args) => start(Side::Air, args),
        Command::Ground(args) => start(Side::Ground, args),
        Command::Gateway(args) => {
            let (settings, identity) = gateway::prepare(args).map_err(Failure::Config)?;
            start_log(&settings.log);
            gateway::run(settings, identity).map_err(Failure::Runtime)
        }
        Command::Demo(args) if args.profile == "list" => {
            demo::list_profiles(out).map_err(|error| Failure::Runtime(error.into()))
        }
        Command::Demo(args) if !demo::is_profile(&args.profile) => {
            Err(Failure::Config(anyhow!(demo::unknown_profile(&args.profile))))
        }
        Command::Demo(args) => {
            start_log(&args.log);
            demo::run(&args, out).map_err(Failure::Runtime)
        }
        Command::Lab(args) => lab::run(args.command, out),
        Command::Plan(args) => plan::run(args, out),
        Command::Mule(args) => mule::run(args, out),
        Command::Completions { shell } => {
            man::completions(shell, out);
            Ok(())
        }
        Command::Man { out: directory } => {
            man::pages(directory.as_deref(), out).map_err(|error| Failure::Runtime(error.into()))
        }
    }
}

fn start(side: Side, args: LinkArgs) -> Result<(), Failure> {
    let reload = args.config.clone().map(reload);
    let (settings, identity) = prepare(side, args).map_err(Failure::Config)?;
    start_log(&settings.log);
    link::run(settings, identity, reload).map_err(Failure::Runtime)
}

/// Reads the bearers of a configuration file anew.
fn reload(path: PathBuf) -> link::Reload {
    Box::new(move || Ok(config::bearers(&config::load(&path)?.link)?))
}

/// Reads configuration and key, so that what is wrong with them is said before anything starts.
fn prepare(side: Side, args: LinkArgs) -> anyhow::Result<(Settings, Identity)> {
    let mut file = args.config.as_deref().map_or_else(|| Ok(File::default()), config::load)?;
    args.override_file(&mut file);
    let settings = Settings::resolve(file, side, &Environment::read())?;
    let identity = keys::load(&settings.key)?;
    if identity.public() == settings.peer {
        return Err(anyhow!("[identity] peer is our own public key; it must be the other side's"));
    }
    Ok((settings, identity))
}

/// Logs go to standard error; standard output is for results.
fn start_log(filter: &str) {
    let colours = io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(EnvFilter::new(filter)).with_ansi(colours).with_writer(io::stderr).init();
}
