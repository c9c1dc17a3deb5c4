//! Programs of the user's own at the nodes, in three stages as in the data-mule paper (III, figure 8).

use std::process::Command;

use serde::Deserialize;
use toml::Spanned;

use super::{Plan, Time};

/// A program at a node.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramPlan {
    /// Where.
    pub node: Spanned<String>,
    /// What.
    pub run: RunPlan,
    /// What reports call it; the program's own name if nothing is said.
    pub name: Option<String>,
    /// When it starts, processes only.
    pub at: Option<Time>,
    /// It has to last until the end, processes only: it is ended then, and that is no fault.
    #[serde(default)]
    pub service: bool,
    /// Beside these contenders only; beside each if nothing is said.
    pub contenders: Option<Vec<String>>,
}

/// A line for the shell, or a program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a line for the shell, or a list of a program and its arguments")]
pub enum RunPlan {
    /// Given to `sh -c`.
    Line(String),
    /// Started as it is.
    Program(Vec<String>),
}

impl ProgramPlan {
    /// Its name in reports and logs.
    pub fn name(&self) -> &str {
        let first = match &self.run {
            RunPlan::Line(line) => line.split_whitespace().next(),
            RunPlan::Program(words) => words.first().map(String::as_str),
        };
        let of_run = first.and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        self.name.as_deref().unwrap_or(of_run)
    }

    /// Ready to be started.
    pub fn command(&self) -> Command {
        match &self.run {
            RunPlan::Line(line) => {
                let mut command = Command::new("/bin/sh");
                command.args(["-c", line]);
                command
            }
            RunPlan::Program(words) => {
                let (program, arguments) = words.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
                let mut command = Command::new(program);
                command.args(arguments);
                command
            }
        }
    }

    /// Whether it runs beside this contender.
    pub fn is_beside(&self, contender: &str) -> bool {
        self.contenders.as_ref().is_none_or(|names| names.iter().any(|name| name == contender))
    }

    /// What is wrong with it, in this plan.
    pub(super) fn fault(&self, plan: &Plan, is_process: bool) -> Option<String> {
        let node = self.node.get_ref();
        if !plan.nodes.contains(node) {
            return Some(format!("node: there is no node '{node}'"));
        }
        if self.command().get_program().is_empty() || self.name().is_empty() {
            return Some("run: there is nothing to run".into());
        }
        if self.name().contains(['/', '\0']) {
            return Some("name: it is part of a file's name, so it has no '/'".into());
        }
        let unknown = |name: &&String| !plan.contenders.iter().any(|known| known.get_ref().name() == name.as_str());
        if let Some(name) = self.contenders.iter().flatten().find(unknown) {
            return Some(format!("contenders: there is none called '{name}'"));
        }
        if !is_process && (self.at.is_some() || self.service) {
            return Some("at and service are for a [[process]]".into());
        }
        self.at.filter(|at| at.get() >= plan.duration()).map(|_| "at: the run is over by then".into())
    }
}
