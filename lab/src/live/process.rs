//! A program under test.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::sandbox;
use super::world::lock;

/// A program that was started in a node, and its process group. Dropping it kills the group.
#[derive(Debug)]
pub struct Process {
    name: String,
    group: Pid,
    log: PathBuf,
    started: Instant,
    ended: Arc<(Mutex<Option<Ended>>, Condvar)>,
}

/// How and when a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub how: Exit,
    /// When.
    pub at: Instant,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// Exit code 0.
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }

    fn of(status: ExitStatus) -> Self {
        match status.code() {
            Some(code) => Self::Code(code),
            None => Self::Signal(status.signal().unwrap_or_default()),
        }
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(number) => match Signal::try_from(*number) {
                Ok(signal) => write!(f, "{signal}"),
                Err(_) => write!(f, "signal {number}"),
            },
        }
    }
}

impl Process {
    /// Starts it in the namespaces of the calling thread.
    pub(super) fn start(name: &str, mut command: Command, log: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        sandbox::hide_stage(&mut command);
        let mut child = command.spawn()?;
        let started = Instant::now();
        let group = Pid::from_raw(child.id().cast_signed());
        let ended = Arc::new((Mutex::new(None), Condvar::new()));
        let process = Self { name: name.to_owned(), group, log: log.to_owned(), started, ended: Arc::clone(&ended) };
        Builder::new().name(format!("wait-{name}")).spawn(move || {
            // It fails only if something else has waited for the child.
            let how = child.wait().map_or(Exit::Code(-1), Exit::of);
            *lock(&ended.0) = Some(Ended { how, at: Instant::now() });
            ended.1.notify_all();
        })?;
        Ok(process)
    }

    /// The name it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its PID and that of its process group, in the sandbox's PID namespace.
    pub fn pid(&self) -> u32 {
        self.group.as_raw().cast_unsigned()
    }

    /// When it was started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Where its output goes.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        *lock(&self.ended.0)
    }

    /// Waits for its end, but not longer than `at_most`.
    pub fn wait(&self, at_most: Duration) -> Option<Ended> {
        let (ended, told) = &*self.ended;
        let waited = told.wait_timeout_while(lock(ended), at_most, |ended| ended.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Sends a signal to its group. Whether there was anybody to get it.
    pub fn signal(&self, signal: Signal) -> bool {
        killpg(self.group, signal).is_ok()
    }

    /// Asks its group to end (SIGTERM), and after `grace` makes it (SIGKILL). What it started and left behind in the
    /// group is killed, too. How it ended, unless the kernel holds it for more than another second.
    pub fn stop(&self, grace: Duration) -> Option<Ended> {
        if self.ended().is_none() {
            self.signal(Signal::SIGTERM);
            self.wait(grace);
        }
        self.signal(Signal::SIGKILL);
        self.wait(Duration::from_secs(1))
    }

    /// The last lines of its log, at most so many.
    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.log, lines).unwrap_or_else(|error| format!("{}: {error}", self.log.display()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

/// Bytes of a log that are looked at.
const TAIL: u64 = 16 * 1024;

fn tail(path: &Path, lines: usize) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    Ok(all[all.len().saturating_sub(lines)..].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_a_log_is_its_last_lines() {
        let path = std::env::temp_dir().join(format!("aquila-tail-{}", std::process::id()));
        std::fs::write(&path, "one\ntwo\nthree\n").unwrap();
        assert_eq!(tail(&path, 2).unwrap(), "two\nthree");
        assert_eq!(tail(&path, 9).unwrap(), "one\ntwo\nthree");
        std::fs::write(&path, "x".repeat(100_000)).unwrap();
        assert_eq!(tail(&path, 2).unwrap().len(), TAIL as usize);
        std::fs::remove_file(&path).unwrap();
        assert!(tail(&path, 1).is_err());
    }
}
