//! The thread that waits for the disk, so that the link's loop does not.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aquila_proto::BearerId;

use super::guard::ReplayFile;
use super::tickets::TicketFile;
use super::write_whole;

/// What changes within this time is written together: the tickets of a handshake come one by one.
const SETTLE: Duration = Duration::from_millis(250);
/// A disk that hangs must not keep the program from ending.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// What is to be written; of each kind only the newest.
#[derive(Debug, Clone, Default)]
pub(super) struct Work(Arc<(Mutex<Pending>, Condvar)>);

#[derive(Debug, Default)]
struct Pending {
    replay: Option<(u64, Vec<u8>)>,
    /// Of each bearer.
    resumption: BTreeMap<BearerId, Vec<u8>>,
    tickets: bool,
    ending: bool,
}

impl Work {
    /// The replay window of this generation.
    pub fn replay_changed(&self, generation: u64, window: Vec<u8>) {
        self.change(|pending| pending.replay = Some((generation, window)));
    }

    /// The client's tickets of a bearer.
    pub fn resumption_changed(&self, bearer: BearerId, snapshot: Vec<u8>) {
        self.change(|pending| drop(pending.resumption.insert(bearer, snapshot)));
    }

    /// The server's tickets.
    pub fn tickets_changed(&self) {
        self.change(|pending| pending.tickets = true);
    }

    /// The end, as a kill makes it: what was to be written is not.
    #[cfg(test)]
    pub fn kill(&self) {
        self.change(|pending| *pending = Pending { ending: true, ..Pending::default() });
    }

    fn change(&self, change: impl FnOnce(&mut Pending)) {
        let mut pending = self.lock();
        // It looks again when it has settled: one wake-up is enough.
        let idle = pending.is_empty();
        change(&mut pending);
        if idle || pending.ending {
            self.0.1.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something has changed and time has passed for what belongs to it; `None` at the end.
    fn next(&self) -> Option<Pending> {
        let (pending, changed) = (self.lock(), &self.0.1);
        let wait = changed.wait_while(pending, |pending| pending.is_empty() && !pending.ending);
        let pending = wait.unwrap_or_else(PoisonError::into_inner);
        let settle = changed.wait_timeout_while(pending, SETTLE, |pending| !pending.ending);
        let (mut pending, _) = settle.unwrap_or_else(PoisonError::into_inner);
        let ending = pending.ending;
        let next = std::mem::replace(&mut *pending, Pending { ending, ..Pending::default() });
        (!next.is_empty()).then_some(next)
    }
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.replay.is_none() && self.resumption.is_empty() && !self.tickets
    }
}

/// What the thread writes to.
#[derive(Debug)]
pub(super) struct Files {
    /// A copy for after a power cut; none if each window is on disk anyway.
    pub replay: Option<ReplayFile>,
    /// Folder of the client's tickets.
    pub dir: PathBuf,
    pub tickets: TicketFile,
}

/// The thread. It writes what is left when dropped.
#[derive(Debug)]
pub(super) struct Writer {
    work: Work,
    ended: Option<Receiver<()>>,
}

impl Writer {
    pub fn spawn(work: Work, mut files: Files) -> Self {
        let (alive, ended) = mpsc::channel::<()>();
        let todo = work.clone();
        let thread = std::thread::Builder::new().name("aquila-store".to_owned()).spawn(move || {
            let _alive = alive;
            let mut warned = Warned::default();
            while let Some(pending) = todo.next() {
                files.write(pending, &mut warned);
            }
        });
        if let Err(error) = &thread {
            tracing::warn!(%error, "cannot store anything on disk: no thread for it");
        }
        Self { work, ended: thread.is_ok().then_some(ended) }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.work.change(|pending| pending.ending = true);
        if let Some(ended) = &self.ended {
            // Nothing is ever sent: this ends when the thread does.
            let _ = ended.recv_timeout(LAST_WRITE);
        }
    }
}

impl Files {
    fn write(&mut self, pending: Pending, warned: &mut Warned) {
        if let (Some((generation, window)), Some(file)) = (pending.replay, &mut self.replay) {
            // Not synced: the kernel puts many of these into one write, and a power cut takes longer than a command lives.
            let costs = "after a power cut a copy might be taken for new";
            warned.replay.check(file.write(generation, &window), "cannot store the replay window on disk", costs);
        }
        let costs = "no 0-RTT after the next restart";
        if pending.tickets {
            warned.tickets.check(self.tickets.write(), "cannot store tickets", costs);
        }
        for (bearer, snapshot) in pending.resumption {
            let path = self.dir.join(resumption_name(bearer));
            warned.resumption.check(write_whole(&path, &snapshot), "cannot store tickets", costs);
        }
    }
}

/// The file of a bearer's tickets.
pub(super) fn resumption_name(bearer: BearerId) -> String {
    match bearer {
        BearerId::FIRST => "resumption".to_owned(),
        other => format!("resumption-{other}"),
    }
}

/// What was said already, so that it is said once.
#[derive(Debug, Default)]
struct Warned {
    replay: Once,
    resumption: Once,
    tickets: Once,
}

/// A failure that is logged when it begins.
#[derive(Debug, Default)]
pub(super) struct Once(bool);

impl Once {
    /// Logs an error unless the call before failed too.
    pub fn check(&mut self, result: io::Result<()>, what: &str, costs: &str) {
        let before = std::mem::replace(&mut self.0, result.is_err());
        if let Err(error) = result
            && !before
        {
            tracing::warn!(%error, "{what}: {costs}");
        }
    }
}
