//! What survives a restart: the start counter, resumption tickets and the replay window.
//!
//! Two folders: what must be known of if we are killed at any moment is written to one that is in memory, before it is acted
//! on; the state folder gets a copy soon after, from a thread that waits for the disk while the link does not. Without the
//! first folder these writes go to the second as well, unsynced: they are few and small, but may wait for a busy disk.
//!
//! A full or missing disk never stops the link: each loss is logged once and costs what it must (0-RTT after the next
//! restart, or the memory of what was delivered).

mod guard;
mod tickets;
mod writer;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use aquila_proto::BearerId;
use aquila_proto::identity::PublicKey;

use guard::ReplayFile;
pub use tickets::FileTickets;
use writer::{Files, Once, Work, Writer, resumption_name};

const REPLAY_COPY: &str = "replay-copy";
/// A process that was killed has gone by then.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_RETRY: Duration = Duration::from_millis(2);

/// What is kept of one association.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    replay: ReplayFile,
    /// The thread keeps a copy of it on disk, since it is in memory only.
    copied: bool,
    generation: u64,
    replay_warned: Once,
    tickets: FileTickets,
    work: Work,
    _writer: Writer,
    /// Held as long as we live; nobody else uses the folder meanwhile.
    _lock: Option<File>,
}

impl Store {
    /// Opens the folder for the association with `peer` below `state_dir`, making it if need be.
    ///
    /// # Errors
    /// If it can be neither made nor read.
    pub fn open(state_dir: &Path, peer: &PublicKey) -> io::Result<Self> {
        Self::open_in(state_dir, None, peer)
    }

    /// The same, with a folder `volatile_dir` whose files are in memory and outlive us, but not the machine.
    ///
    /// # Errors
    /// If neither folder can be made, or, of kind [`io::ErrorKind::ResourceBusy`], if another process uses it.
    pub fn open_in(state_dir: &Path, volatile_dir: Option<&Path>, peer: &PublicKey) -> io::Result<Self> {
        let make = |dir: PathBuf| {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
            Ok(dir)
        };
        let dir = state_dir.join(peer.fingerprint());
        let made = make(dir.clone());
        let volatile = volatile_dir.map(|volatile| make(volatile.join(volatile_name(&dir)))).transpose();
        let volatile = volatile.unwrap_or_else(|error| {
            tracing::info!(%error, "no folder in memory for what a restart needs; using the state folder");
            None
        });
        match (made, &volatile) {
            (Ok(_), _) => {}
            (Err(error), None) => return Err(error),
            (Err(error), Some(_)) => tracing::warn!(%error, dir = %dir.display(), "cannot store anything on disk"),
        }
        let lock = lock(&dir)?;
        let guards: Vec<&Path> = volatile.as_deref().into_iter().chain([dir.as_path()]).collect();
        let work = Work::default();
        let (tickets, ticket_file) = FileTickets::open(&dir, &guards, work.clone());
        let copy = volatile.is_some().then(|| ReplayFile::open(&[&dir], REPLAY_COPY));
        Ok(Self {
            replay: ReplayFile::open(&guards, "replay"),
            copied: copy.is_some(),
            generation: 0,
            replay_warned: Once::default(),
            tickets,
            _writer: Writer::spawn(work.clone(), Files { replay: copy, dir: dir.clone(), tickets: ticket_file }),
            work,
            dir,
            _lock: lock,
        })
    }

    /// Counts this start: a number larger than at every start before. `since_1970` helps if the count was lost.
    pub fn next_epoch(&self, since_1970: Duration) -> u32 {
        let path = self.dir.join("starts");
        let stored = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse::<u32>().ok());
        let by_clock = epoch_by_clock(since_1970);
        let epoch = stored.map_or(by_clock, |stored| stored.saturating_add(1).max(by_clock));
        if let Err(error) = write_whole(&path, epoch.to_string().as_bytes()) {
            tracing::warn!(%error, path = %path.display(), "cannot store the start counter; relying on the clock");
        }
        epoch
    }

    /// The server's tickets.
    pub fn tickets(&self) -> FileTickets {
        self.tickets.clone()
    }

    /// The client's tickets of a bearer as last stored.
    pub fn load_resumption(&self, bearer: BearerId) -> Option<Vec<u8>> {
        fs::read(self.dir.join(resumption_name(bearer))).ok()
    }

    /// Stores the client's tickets of a bearer, soon. A ticket that is used again since we were killed meanwhile costs a round trip: the
    /// server knows that it is used.
    pub fn save_resumption(&mut self, bearer: BearerId, snapshot: &[u8]) {
        self.work.resumption_changed(bearer, snapshot.to_vec());
    }

    /// The replay window as last stored, in memory or on disk.
    pub fn load_replay(&mut self) -> Option<Vec<u8>> {
        let mut windows = self.replay.windows();
        windows.extend(guard::windows(&fs::read(self.dir.join(REPLAY_COPY)).unwrap_or_default()));
        let (generation, snapshot) = windows.into_iter().max_by_key(|(generation, _)| *generation)?;
        self.generation = generation;
        Some(snapshot)
    }

    /// Stores the replay window. It is in the kernel's hands when this returns, so it survives a crash of ours; after a
    /// power cut the last moments may be missing.
    pub fn save_replay(&mut self, snapshot: &[u8]) {
        self.generation += 1;
        let written = self.replay.write(self.generation, snapshot);
        self.replay_warned.check(
            written,
            "cannot store the replay window",
            "after a restart a copy might be taken for new",
        );
        if self.copied {
            self.work.replay_changed(self.generation, snapshot.to_vec());
        }
    }
}

/// A start counter from the clock alone: seconds since 2020.
pub fn epoch_by_clock(since_1970: Duration) -> u32 {
    u32::try_from(since_1970.as_secs().saturating_sub(1_577_836_800)).unwrap_or(u32::MAX)
}

/// What the folder `dir` is called in memory: another state folder has another one, whoever the peer is.
/// Two processes with one state would use each other's tickets and count each other's commands as replays. One that was
/// just killed may take a moment to go. `None`: the folder is not one that can be written to, and then nothing is used.
fn lock(dir: &Path) -> io::Result<Option<File>> {
    let Ok(file) = File::create(dir.join("lock")) else { return Ok(None) };
    let until = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if Instant::now() < until => sleep(LOCK_RETRY),
            Err(TryLockError::WouldBlock) => {
                let message = format!("another process uses {}", dir.display());
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
            }
            // A file system without locks.
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
}

fn volatile_name(dir: &Path) -> String {
    let whole = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let digest = ring::digest::digest(&ring::digest::SHA256, whole.as_os_str().as_bytes());
    digest.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a file as a whole or not at all, readable by us only, and waits until it is on disk.
///
/// # Errors
/// Those of the file system; a former version stays as it was.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()
    })();
    let renamed = written.and_then(|()| fs::rename(&temporary, path));
    match &renamed {
        // The new name is on disk with its folder.
        Ok(()) => drop(path.parent().map(|dir| File::open(dir)?.sync_all())),
        Err(_) => drop(fs::remove_file(&temporary)),
    }
    renamed
}

#[cfg(test)]
mod tests;
