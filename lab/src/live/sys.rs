//! The four system calls that `nix` has no safe form of.
#![allow(
    unsafe_code,
    reason = "TUNSETIFF, sched_setscheduler, setpriority and signal handlers have no safe form in nix"
)]

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Notes SIGINT, SIGTERM and SIGHUP from now on, instead of ending by them. Programs that are started get them as ever.
pub(super) fn catch_interrupts() -> io::Result<&'static AtomicBool> {
    extern "C" fn note(_: libc::c_int) {
        INTERRUPTED.store(true, Ordering::Relaxed);
    }
    let action = SigAction::new(SigHandler::Handler(note), SaFlags::SA_RESTART, SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the handler does nothing but store into an atomic, which is async-signal-safe.
        unsafe { sigaction(signal, &action) }?;
    }
    Ok(&INTERRUPTED)
}

/// Puts the calling thread into the class SCHED_FIFO, at its lowest priority, which is above everything that is not
/// real-time.
pub(super) fn schedule_fifo() -> io::Result<()> {
    // SAFETY: `sched_param` is plain old data, for which all zeros is a valid value.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = 1;
    // What the thread starts later must not inherit it.
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is the calling thread, and the kernel reads one `sched_param`, which lives until the call returns.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Puts a thread that measures before the programs that it measures, where the kernel allows it; elsewhere it has to take
/// its turn, and the run's self-check says whether that was good enough.
pub(crate) fn prioritise() {
    let _ = schedule_fifo();
}

/// Gives the calling thread this nice value.
pub(super) fn renice(nice: i32) -> io::Result<()> {
    // SAFETY: no memory is passed; on Linux 0 is the calling thread.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
