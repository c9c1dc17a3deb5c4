//! Threads beside the one that has the store.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use aquila_depot::{Depot, DepotError, Spool};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::complaints::Complaints;
use super::{MuleError, SpoolSetup};

/// What could not be handed out is tried again this often, and the spool is looked into for what is still being written.
const AGAIN: Duration = Duration::from_secs(5);
const SPOOL_WAIT: Duration = Duration::from_millis(250);
/// Objects that are handed out before it is looked whether the program ends.
const AT_A_TIME: usize = 16;

/// Says that a daemon has the store, as long as the file is held.
pub(super) fn lock(dir: &Path) -> Result<File, MuleError> {
    let path = dir.join("daemon.lock");
    let open = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = open.map_err(|error| MuleError::Open(dir.to_owned(), DepotError::Io { path, error }))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(MuleError::InUse(dir.to_owned())),
        Err(TryLockError::Error(error)) => {
            let path = dir.join("daemon.lock");
            Err(MuleError::Open(dir.to_owned(), DepotError::Io { path, error }))
        }
    }
}

pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, MuleError> {
    let spawned: io::Result<_> = thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map_err(|_| MuleError::System("threads"))
}

/// Hands out what has come, and whenever something does.
pub(super) fn deliver(mut depot: Depot, arrivals: Receiver<()>) -> Result<JoinHandle<()>, MuleError> {
    spawn("deliver", move || {
        let mut complaints = Complaints::default();
        loop {
            match depot.deliver(AT_A_TIME) {
                Ok(delivered) if !delivered.is_empty() => {
                    for path in delivered.iter().flat_map(|object| &object.files) {
                        tracing::info!(path, "delivered");
                    }
                    continue;
                }
                Ok(_) => complaints.end(),
                Err(error) => complaints.say(format!("cannot hand out what has come; trying again: {error}")),
            }
            match arrivals.recv_timeout(AGAIN) {
                Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    })
}

/// Takes in what appears in a folder.
pub(super) fn watch_spool(
    mut depot: Depot,
    setup: &SpoolSetup,
    stop: Arc<AtomicBool>,
) -> Result<JoinHandle<()>, MuleError> {
    let spool = Spool::open(&setup.folder, setup.rules.clone());
    let mut spool = spool.map_err(|error| MuleError::Spool(setup.folder.clone(), error))?;
    spawn("spool", move || {
        let mut complaints = Complaints::default();
        while !stop.load(Ordering::Relaxed) {
            match take_in(&mut spool, &mut depot) {
                Ok(()) => {
                    complaints.end();
                    wait(&spool);
                }
                Err(error) => {
                    complaints.say(format!("cannot take in what is in the spool; trying again: {error}"));
                    thread::sleep(AGAIN);
                }
            }
        }
    })
}

fn take_in(spool: &mut Spool, depot: &mut Depot) -> Result<(), DepotError> {
    let taken = spool.poll(depot, Instant::now())?;
    if taken.is_empty() {
        return Ok(());
    }
    depot.commit()?;
    for file in taken {
        match file.put {
            Ok(put) if put.is_new => tracing::info!(path = file.path, bytes = put.size, "taken from the spool"),
            Ok(_) => tracing::debug!(path = file.path, "in the spool as it was"),
            Err(error) => tracing::warn!(%error, "in the spool, and cannot be taken"),
        }
    }
    Ok(())
}

/// Until something happens in the spool, or it is to be looked at again.
fn wait(spool: &Spool) {
    let until = spool.next_deadline().map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
    let time = until.min(SPOOL_WAIT);
    match spool.fd() {
        Some(fd) => {
            let time = PollTimeout::try_from(time).unwrap_or(PollTimeout::ZERO);
            // Whatever it says, the spool is looked at.
            let _ = poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], time);
        }
        None => thread::sleep(time),
    }
}
