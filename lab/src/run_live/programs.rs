//! The user's own programs, as the live world runs them.

use std::path::Path;
use std::time::Duration;

use toml::Spanned;

use super::Topology;
use crate::live::{Hooks, HooksReport, Stage, Task};
use crate::plan::{Plan, ProgramPlan};
use crate::record::{Event, Program};

/// The programs of a plan beside a contender, in a run of that length; logs go to `folder`.
pub fn hooks(plan: &Plan, contender: &str, topology: &Topology, folder: &Path, lasts: Duration) -> Hooks {
    let mut number = 0;
    let mut tasks = |programs: &[Spanned<ProgramPlan>]| -> Vec<Task> {
        let beside = programs.iter().map(Spanned::get_ref).filter(|program| program.is_beside(contender));
        let task = |program: &ProgramPlan| {
            let node = usize::from(*program.node.get_ref() != plan.nodes[0]);
            let mut command = program.command();
            // Traces and other inputs are named from the plan's place.
            if plan.folder.is_dir() {
                command.current_dir(&plan.folder);
            }
            command.env("AQUILA_LOGS", folder);
            number += 1;
            Task {
                node: topology.nodes[node],
                name: program.name().to_owned(),
                command,
                log: folder.join(format!("{}-{number}-{}.log", plan.nodes[node], program.name())),
                after: program.at.unwrap_or_default().get(),
                is_service: program.service,
            }
        };
        beside.map(task).collect()
    };
    Hooks {
        set_up: tasks(&plan.set_ups),
        process: tasks(&plan.processes),
        tear_down: tasks(&plan.tear_downs),
        lasts,
        ..Hooks::default()
    }
}

/// What became of them, for the record and as events.
pub fn outcome(topology: &Topology, report: &HooksReport) -> (Vec<Program>, Vec<Event>) {
    let mut programs = Vec::new();
    let mut events = Vec::new();
    for task in &report.tasks {
        let node = topology.world.node_name(task.node).to_owned();
        let stage = match task.stage {
            Stage::SetUp => "set-up",
            Stage::Process => "process",
            Stage::TearDown => "tear-down",
        };
        let how = task.ended.map(|ended| ended.how);
        let text = match how {
            _ if task.was_stopped => format!("{} was ended", task.name),
            Some(how) => format!("{} ended with {how}", task.name),
            None => format!("{} was not started", task.name),
        };
        let at = task.ended.zip(report.start).and_then(|(ended, start)| ended.at.checked_duration_since(start));
        if let (Stage::Process, Some(at)) = (task.stage, at) {
            events.push(Event { at_s: at.as_secs_f64(), place: node.clone(), text });
        }
        let exit_code = how.filter(|_| !task.was_stopped).map(|how| how.code());
        programs.push(Program { node, name: task.name.clone(), stage, exit_code, log: task.log.clone() });
    }
    (programs, events)
}
