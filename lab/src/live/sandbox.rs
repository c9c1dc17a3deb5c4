//! Namespaces for a run, and nothing left of it afterwards.
//!
//! A process can enter a user namespace only while it has a single thread, and a PID namespace only by starting a child
//! in it. So the program runs three times, with the same arguments:
//!
//! 1. **outside**: what the user started. It makes the namespaces, starts the next one and waits for it, passing
//!    signals on.
//! 2. **init**: PID 1 of the PID namespace. It mounts `/proc`, starts the next one, reaps orphans, and ends when that
//!    one ends.
//! 3. **inside**: PID 2, which does the work.
//!
//! The kernel cleans up, whatever happens. When *outside* is killed, init gets SIGKILL (`PR_SET_PDEATHSIG`). When
//! *inside* ends, in whatever way, init ends. When init ends, the kernel kills all processes of the PID namespace, also
//! those that ignore SIGTERM or became daemons; with the last of them the network namespaces go, and the TUN devices in
//! them.
//!
//! An ordinary user gets a user namespace of their own, in which they are root; their files stay theirs. Root needs
//! none.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::AtomicBool;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getegid, geteuid, getpid, setsid};
use thiserror::Error;

use super::sys;

/// Tells a process which of the three it is. Together with its PID, so that a run inside a run is not mistaken.
const STAGE: &str = "AQUILA_LIVE_STAGE";
const INSIDE: &str = "inside";
const PID_INIT: i32 = 1;
const PID_INSIDE: i32 = 2;
/// Passed on to the process inside.
const FORWARDED: [Signal; 7] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGWINCH,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];
/// Of these, the ones that ask for the end. The second one is not passed on but obeyed.
const ENDING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// Proof of being inside, for [`WorldBuilder`](super::WorldBuilder).
#[derive(Debug)]
pub struct Sandbox {
    _private: (),
}

/// Which of the processes this one is.
#[derive(Debug)]
pub enum Entered {
    /// The one that does the work.
    Inside(Sandbox),
    /// Another one, and all is over: leave with this exit code, now. It is that of the process inside, or 128 and the
    /// number of the signal that ended it, as shells have it.
    Outside(i32),
}

/// Why there is no sandbox.
#[derive(Debug, Error)]
pub enum SandboxError {
    /// Called too late.
    #[error("the sandbox has to be entered before the first thread is started, and there are {0} threads")]
    Threads(usize),
    /// No TUN.
    #[error("cannot open /dev/net/tun: {error}; {hint}")]
    Tun {
        /// What the kernel said.
        error: io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// No namespaces.
    #[error("cannot {action}: {error}; {hint}")]
    Namespace {
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        error: io::Error,
        /// What to do.
        hint: String,
    },
    /// The program could not start itself again.
    #[error("cannot start {0} again inside the sandbox: {1}")]
    Spawn(String, io::Error),
    /// Signals and children.
    #[error("cannot handle signals or wait for the processes of the sandbox: {0}")]
    Wait(#[from] io::Error),
}

impl Sandbox {
    /// Enters the sandbox. Call it first thing in `main`, before anything starts a thread (an async runtime, logging to
    /// files).
    ///
    /// What `main` did before it is done once more in each of the processes.
    ///
    /// # Errors
    ///
    /// If the machine does not allow it; the text says what to do.
    pub fn enter() -> Result<Entered, SandboxError> {
        let stage = env::var(STAGE).unwrap_or_default();
        let pid = getpid().as_raw();
        if stage == INSIDE && pid == PID_INSIDE {
            SigSet::empty().thread_set_mask().map_err(io::Error::from)?;
            return Ok(Entered::Inside(Self { _private: () }));
        }
        match stage.parse::<u32>() {
            Ok(outside) if pid == PID_INIT => init(outside),
            _ => outside(),
        }
    }

    /// From now on Ctrl-C, SIGTERM and SIGHUP do not end the process inside but make this true, for
    /// [`Hooks::run`](super::Hooks::run) and whoever else can end in good order. A second one kills everything all the
    /// same.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Wait`].
    pub fn catch_interrupts(&self) -> Result<&'static AtomicBool, SandboxError> {
        Ok(sys::catch_interrupts()?)
    }

    /// Why [`Sandbox::enter`] would fail for want of TUN, if so. Does not try the namespaces.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Tun`].
    pub fn check_tun() -> Result<(), SandboxError> {
        open_tun().map(drop).map_err(|error| {
            let hint = match error.raw_os_error().map(Errno::from_raw) {
                Some(Errno::ENOENT) => {
                    "load the module with `modprobe tun`, or start the container with `--device /dev/net/tun`"
                }
                Some(Errno::ENODEV | Errno::ENXIO) => "load the module with `modprobe tun`",
                Some(Errno::EACCES | Errno::EPERM) => {
                    "run as root, or let everybody open it, as most systems do: `chmod 666 /dev/net/tun`"
                }
                _ => "run on a Linux kernel with TUN",
            };
            SandboxError::Tun { error, hint }
        })
    }
}

/// The TUN device, not attached to an interface.
pub(super) fn open_tun() -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().read(true).write(true).custom_flags(nix::libc::O_NONBLOCK).open("/dev/net/tun")
}

/// So that what runs inside does not take itself for a stage.
pub(super) fn hide_stage(command: &mut Command) {
    command.env_remove(STAGE);
}

fn outside() -> Result<Entered, SandboxError> {
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        return Err(SandboxError::Threads(threads));
    }
    Sandbox::check_tun()?;
    make_namespaces()?;
    let signals = watched();
    signals.thread_block().map_err(io::Error::from)?;
    let mut child = start_again(&std::process::id().to_string())?;
    let pid = Pid::from_raw(child.id().cast_signed());
    let mut asked = 0;
    loop {
        match signals.wait().map_err(io::Error::from)? {
            Signal::SIGCHLD => {
                if let Some(status) = child.try_wait()? {
                    return Ok(Entered::Outside(code_of(status)));
                }
            }
            signal => {
                asked += usize::from(ENDING.contains(&signal));
                // It may have ended just now.
                let _ = kill(pid, if asked > 1 { Signal::SIGKILL } else { signal });
            }
        }
    }
}

fn make_namespaces() -> Result<(), SandboxError> {
    let failed = |action| move |error: Errno| namespace_error(action, error.into());
    let error = match unshare(CloneFlags::CLONE_NEWPID) {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    if error != Errno::EPERM {
        return Err(failed("make a PID namespace")(error));
    }
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(failed("make a user namespace"))?;
    let write = |file: &str, text: String| {
        fs::write(file, text).map_err(|error| namespace_error("become root in a user namespace", error))
    };
    write("/proc/self/setgroups", "deny".into())?;
    write("/proc/self/uid_map", format!("0 {user} 1"))?;
    write("/proc/self/gid_map", format!("0 {group} 1"))?;
    unshare(CloneFlags::CLONE_NEWPID).map_err(failed("make a PID namespace"))
}

fn init(outside: u32) -> Result<Entered, SandboxError> {
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from)?;
    // `/proc` is still that of the outside. If the parent had died before the call above, another one would be there.
    if parent()? != outside {
        return Ok(Entered::Outside(128 + Signal::SIGKILL as i32));
    }
    // Ctrl-C then comes from the outside only, once.
    setsid().map_err(io::Error::from)?;
    let failed = |action| move |error: Errno| namespace_error(action, error.into());
    unshare(CloneFlags::CLONE_NEWNS).map_err(failed("make a mount namespace"))?;
    keep_mounts_private().map_err(failed("make the mounts private"))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>).map_err(failed("mount /proc"))?;
    let signals = watched();
    signals.thread_block().map_err(io::Error::from)?;
    let child = start_again(INSIDE)?;
    let inside = Pid::from_raw(child.id().cast_signed());
    loop {
        let signal = signals.wait().map_err(io::Error::from)?;
        if signal != Signal::SIGCHLD {
            let _ = kill(inside, signal);
            continue;
        }
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == inside => return Ok(Entered::Outside(code)),
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == inside => {
                    return Ok(Entered::Outside(128 + signal as i32));
                }
                Ok(WaitStatus::StillAlive) | Err(_) => break,
                // An orphan.
                Ok(_) => {}
            }
        }
    }
}

/// So that mounts of this mount namespace are not seen outside it.
pub(super) fn keep_mounts_private() -> nix::Result<()> {
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
}

fn start_again(stage: &str) -> Result<Child, SandboxError> {
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_else(|| "aquila".into());
    Command::new("/proc/self/exe")
        .arg0(&name)
        .args(arguments)
        .env(STAGE, stage)
        .spawn()
        .map_err(|error| SandboxError::Spawn(name.to_string_lossy().into_owned(), error))
}

fn watched() -> SigSet {
    FORWARDED.into_iter().chain([Signal::SIGCHLD]).collect()
}

fn code_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// The parent's PID, as `/proc` has it.
fn parent() -> io::Result<u32> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    line.and_then(|text| text.trim().parse().ok()).ok_or_else(|| io::Error::other("no PPid in /proc/self/status"))
}

fn namespace_error(action: &'static str, error: io::Error) -> SandboxError {
    SandboxError::Namespace { action, error, hint: hint() }
}

/// What keeps users from making namespaces, as far as the kernel tells.
fn hint() -> String {
    let setting = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let mut ways = vec!["run as root".to_owned()];
    if setting("/proc/sys/kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        ways.push("allow user namespaces: `sysctl kernel.unprivileged_userns_clone=1`".into());
    }
    if setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") {
        ways.push("allow user namespaces: `sysctl kernel.apparmor_restrict_unprivileged_userns=0`".into());
    }
    if setting("/proc/sys/user/max_user_namespaces").as_deref() == Some("0") {
        ways.push("allow user namespaces: `sysctl user.max_user_namespaces=15000`".into());
    }
    if ways.len() == 1 {
        ways.push(
            "in a container start it with `--privileged`, or with SYS_ADMIN and NET_ADMIN and without masked /proc"
                .into(),
        );
    }
    ways.join(", or ")
}
