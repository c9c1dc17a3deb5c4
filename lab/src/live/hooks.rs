//! Programs of a run in three stages, as in the data-mule paper (III, figure 8): set-up, a barrier, the processes,
//! tear-down.
//!
//! 1. **set-up**: all nodes at once, within a node one after the other; each has to succeed.
//! 2. **barrier**: when all set-ups are through, one instant of CLOCK_MONOTONIC is chosen, shortly ahead, at which the
//!    run starts for everybody: processes, changes of links, and whatever the caller begins then.
//! 3. **processes**: each is started at its time after that instant, by a thread that has been waiting for it in the
//!    node.
//! 4. **tear-down**, whatever happened before: the processes are ended, then the tear-downs run as the set-ups did.
//!
//! All of them find the instant in their environment: `AQUILA_START_NS`, nanoseconds of CLOCK_MONOTONIC (not in
//! set-ups).

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use super::process::{Ended, Exit, Process};
use super::sys;
use super::world::{NodeId, World, WorldError};

const START: &str = "AQUILA_START_NS";
/// From the barrier to the start. Threads are ready within a millisecond.
const LEAD: Duration = Duration::from_millis(100);
/// How often it is asked whether something has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const TAIL_LINES: usize = 20;

/// A program of a run.
#[derive(Debug)]
pub struct Task {
    /// Where.
    pub node: NodeId,
    /// What reports call it.
    pub name: String,
    /// The program and its arguments.
    pub command: Command,
    /// Where its output goes.
    pub log: PathBuf,
    /// Of processes only: how long after the start it starts.
    pub after: Duration,
    /// Of processes only: it is a service and has to last until it is ended.
    pub is_service: bool,
}

/// The programs of a run.
#[derive(Debug)]
pub struct Hooks {
    /// Before the start, each has to end with exit code 0.
    pub set_up: Vec<Task>,
    /// From the start on.
    pub process: Vec<Task>,
    /// After the end.
    pub tear_down: Vec<Task>,
    /// How long all set-ups, or all tear-downs, of a node may take.
    pub patience: Duration,
    /// How long a process may go on after SIGTERM.
    pub grace: Duration,
    /// How long the run lasts, from the start.
    pub lasts: Duration,
    /// Whether the run also ends when all processes that are no services have ended.
    pub ends_when_done: bool,
    /// Whether it also ends when something failed.
    pub ends_when_failed: bool,
}

impl Default for Hooks {
    /// No programs, a minute of patience, 2 s of grace; ends when something failed.
    fn default() -> Self {
        Self {
            set_up: Vec::new(),
            process: Vec::new(),
            tear_down: Vec::new(),
            patience: Duration::from_secs(60),
            grace: Duration::from_secs(2),
            lasts: Duration::ZERO,
            ends_when_done: false,
            ends_when_failed: true,
        }
    }
}

/// When in a run a program had its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Before the start.
    SetUp,
    /// From the start on.
    Process,
    /// After the end.
    TearDown,
}

/// What became of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskReport {
    /// Where.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Where its output is.
    pub log: PathBuf,
    /// When.
    pub stage: Stage,
    /// When it was started; `None`: not at all.
    pub started: Option<Instant>,
    /// How and when it ended; `None`: it was not started.
    pub ended: Option<Ended>,
    /// It was ended because the run was over.
    pub was_stopped: bool,
    /// Why it is a failure, with the last lines of its log.
    pub fault: Option<String>,
}

/// What became of a run.
#[derive(Debug)]
pub struct HooksReport {
    /// The instant behind the barrier; `None`: a set-up failed.
    pub start: Option<Instant>,
    /// When the processes were ended.
    pub end: Instant,
    /// All programs.
    pub tasks: Vec<TaskReport>,
}

impl HooksReport {
    /// Why the run is a failure, if it is.
    pub fn faults(&self) -> impl Iterator<Item = &str> {
        self.tasks.iter().filter_map(|task| task.fault.as_deref())
    }
}

impl Hooks {
    /// Runs all of it. `at_barrier` is called with the instant of the start, before it comes: give the links their
    /// changes there. `interrupted` ends the run early when it becomes true.
    ///
    /// # Errors
    ///
    /// If the kernel allows no threads. What programs do wrong is in the report.
    pub fn run(
        self,
        world: &World,
        interrupted: &AtomicBool,
        at_barrier: impl FnOnce(Instant) -> Result<(), WorldError>,
    ) -> Result<HooksReport, WorldError> {
        let Self { set_up, process, tear_down, patience, grace, lasts, ends_when_done, ends_when_failed } = self;
        let mut tasks = run_all(world, set_up, Stage::SetUp, patience, interrupted)?;
        let mut start = None;
        let mut end = Instant::now();
        let mut failed = Ok(());
        if tasks.iter().all(|task| task.fault.is_none()) && !interrupted.load(Ordering::Relaxed) {
            let at = Instant::now() + LEAD;
            start = Some(at);
            failed = at_barrier(at);
            if failed.is_ok() {
                let ends = Ends { at: at + lasts, when_done: ends_when_done, when_failed: ends_when_failed };
                let (reports, ended) = run_processes(world, process, at, &ends, grace, interrupted)?;
                tasks.extend(reports);
                end = ended;
            }
        }
        let tear_down = tear_down.into_iter().map(|mut task| {
            start.inspect(|start| tell_start(&mut task.command, *start));
            task
        });
        tasks.extend(run_all(world, tear_down.collect(), Stage::TearDown, patience, &AtomicBool::new(false))?);
        failed.map(|()| HooksReport { start, end, tasks })
    }
}

/// When the processes are ended.
struct Ends {
    at: Instant,
    when_done: bool,
    when_failed: bool,
}

/// Set-ups or tear-downs: nodes at the same time, within a node in order until one fails.
fn run_all(
    world: &World,
    tasks: Vec<Task>,
    stage: Stage,
    patience: Duration,
    interrupted: &AtomicBool,
) -> Result<Vec<TaskReport>, WorldError> {
    let mut nodes: Vec<(NodeId, Vec<Task>)> = Vec::new();
    for task in tasks {
        match nodes.iter_mut().find(|(node, _)| *node == task.node) {
            Some((_, tasks)) => tasks.push(task),
            None => nodes.push((task.node, vec![task])),
        }
    }
    let until = Instant::now() + patience;
    let reports = std::thread::scope(|scope| {
        let run = |tasks: Vec<Task>| {
            let mut reports: Vec<TaskReport> = Vec::new();
            for task in tasks {
                // Tear-downs clean up: each is tried.
                if stage == Stage::SetUp && reports.iter().any(|report| report.fault.is_some()) {
                    break;
                }
                reports.push(run_one(world, task, stage, until, interrupted));
            }
            reports
        };
        let threads: Vec<_> = nodes.into_iter().map(|(_, tasks)| scope.spawn(move || run(tasks))).collect();
        let joined = threads.into_iter().map(|thread| thread.join().expect("no panic in hooks"));
        joined.flatten().collect()
    });
    Ok(reports)
}

fn run_one(world: &World, task: Task, stage: Stage, until: Instant, interrupted: &AtomicBool) -> TaskReport {
    let Task { node, name, command, log, .. } = task;
    let mut report = TaskReport {
        node,
        name: name.clone(),
        log: log.clone(),
        stage,
        started: None,
        ended: None,
        was_stopped: false,
        fault: None,
    };
    let process = match world.spawn(node, &name, command, &log) {
        Ok(process) => process,
        Err(error) => {
            report.fault = Some(error.to_string());
            return report;
        }
    };
    report.started = Some(process.started());
    while process.ended().is_none() && Instant::now() < until && !interrupted.load(Ordering::Relaxed) {
        process.wait(LOOK_EVERY);
    }
    report.was_stopped = process.ended().is_none();
    report.ended = process.stop(Duration::ZERO);
    let how = report.ended.map(|ended| ended.how);
    report.fault = match how {
        _ if report.was_stopped && interrupted.load(Ordering::Relaxed) => Some("was interrupted".to_owned()),
        _ if report.was_stopped => Some("did not end in time".to_owned()),
        Some(how) if !how.is_success() => Some(format!("ended with {how}")),
        _ => None,
    };
    report.fault = report.fault.map(|fault| describe(world, node, &process, &fault));
    report
}

fn describe(world: &World, node: NodeId, process: &Process, fault: &str) -> String {
    let (name, node, log) = (process.name(), world.node_name(node), process.log().display());
    let tail = process.log_tail(TAIL_LINES);
    let tail = if tail.is_empty() { "(nothing)".to_owned() } else { tail };
    format!("'{name}' at node '{node}' {fault}; the end of {log}:\n{tail}")
}

/// A process that has been started, or its starter, or why there is neither.
struct Running {
    node: NodeId,
    name: String,
    log: PathBuf,
    is_service: bool,
    starter: Option<JoinHandle<std::io::Result<Option<Process>>>>,
    process: Option<Process>,
    fault: Option<String>,
}

impl Running {
    fn is_over(&self) -> bool {
        self.starter.is_none() && self.process.as_ref().is_none_or(|process| process.ended().is_some())
    }

    /// Notes what has happened since the last time.
    fn look(&mut self, world: &World) {
        if let Some(starter) = self.starter.take_if(|starter| starter.is_finished()) {
            match starter.join().expect("no panic in starters") {
                Ok(process) => self.process = process,
                Err(error) => self.fault = Some(world.spawn_error(self.node, &self.name, error).to_string()),
            }
        }
        let Some(process) = self.process.as_ref().filter(|_| self.fault.is_none()) else { return };
        let Some(Ended { how, .. }) = process.ended() else { return };
        let fault = match how {
            how if !how.is_success() => format!("ended with {how}"),
            _ if self.is_service => "ended before the run did".to_owned(),
            _ => return,
        };
        self.fault = Some(describe(world, self.node, process, &fault));
    }
}

fn run_processes(
    world: &World,
    tasks: Vec<Task>,
    start: Instant,
    ends: &Ends,
    grace: Duration,
    interrupted: &AtomicBool,
) -> Result<(Vec<TaskReport>, Instant), WorldError> {
    let cancelled = std::sync::Arc::new(AtomicBool::new(false));
    let mut running = Vec::new();
    for Task { node, name, mut command, log, after, is_service } in tasks {
        world.describe_to(node, &mut command);
        tell_start(&mut command, start);
        let (program, path, cancelled) = (name.clone(), log.clone(), std::sync::Arc::clone(&cancelled));
        let starter = world.node(node).spawn(&name, move || {
            // So that it comes in time on a busy machine, if it may; what it starts does not inherit it.
            let _ = sys::schedule_fifo();
            if !sleep_until(start + after, &cancelled) {
                return Ok(None);
            }
            Process::start(&program, command, &path).map(Some)
        });
        let starter = Some(starter.map_err(WorldError::Thread)?);
        running.push(Running { node, name, log, is_service, starter, process: None, fault: None });
    }
    loop {
        running.iter_mut().for_each(|running| running.look(world));
        let now = Instant::now();
        let done = ends.when_done && running.iter().filter(|running| !running.is_service).all(Running::is_over);
        let failed = ends.when_failed && running.iter().any(|running| running.fault.is_some());
        if now >= ends.at || done || failed || interrupted.load(Ordering::Relaxed) {
            break;
        }
        sleep(LOOK_EVERY.min(ends.at - now));
    }
    let end = Instant::now();
    cancelled.store(true, Ordering::Relaxed);
    Ok((stop_all(world, running, grace), end))
}

/// All at once.
fn stop_all(world: &World, running: Vec<Running>, grace: Duration) -> Vec<TaskReport> {
    std::thread::scope(|scope| {
        let stop = |mut running: Running| {
            while running.starter.as_ref().is_some_and(|starter| !starter.is_finished()) {
                sleep(LOOK_EVERY);
            }
            running.look(world);
            let Running { node, name, log, process, fault, .. } = running;
            let was_stopped = process.as_ref().is_some_and(|process| process.ended().is_none());
            let ended = process.as_ref().and_then(|process| process.stop(grace));
            let started = process.as_ref().map(Process::started);
            TaskReport { node, name, log, stage: Stage::Process, started, ended, was_stopped, fault }
        };
        let threads: Vec<_> = running.into_iter().map(|running| scope.spawn(move || stop(running))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic in stopping")).collect()
    })
}

/// Whether the time came before it was cancelled.
fn sleep_until(at: Instant, cancelled: &AtomicBool) -> bool {
    const LONGEST: Duration = Duration::from_millis(50);
    loop {
        if cancelled.load(Ordering::Relaxed) {
            return false;
        }
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        sleep(left.min(LONGEST));
    }
}

fn tell_start(command: &mut Command, start: Instant) {
    // `Instant` is CLOCK_MONOTONIC, but does not tell its number.
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    let here = Instant::now();
    let at = if start >= here { now + (start - here) } else { now.saturating_sub(here - start) };
    command.env(START, at.as_nanos().to_string());
}

impl Exit {
    /// As shells have it: the exit code, or 128 and the signal's number.
    pub fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(number) => 128 + number,
        }
    }
}
