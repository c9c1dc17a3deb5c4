//! What survives a restart: the start counter, resumption tickets and the replay window.
//!
//! A full or missing disk never stops the link: each loss is logged once and costs what it must (0-RTT after the next
//! restart, or the memory of what was delivered).

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aquila_proto::identity::PublicKey;
use aquila_proto::quic::TicketStore;
use aquila_proto::session::is_replay_snapshot;

/// Tickets kept on disk for one peer.
const MAX_TICKETS: usize = 64;
/// Two copies of the replay window are written in turn, so that a torn write costs one delivery's memory at most.
const REPLAY_SLOT: usize = 4096;

/// The state folder of one association.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    replay: Option<File>,
    replay_generation: u64,
    replay_warned: bool,
    resumption_warned: bool,
}

impl Store {
    /// Opens the folder for the association with `peer` below `state_dir`, making it if need be.
    ///
    /// # Errors
    /// If it can be neither made nor read.
    pub fn open(state_dir: &Path, peer: &PublicKey) -> io::Result<Self> {
        let dir = state_dir.join(peer.fingerprint());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir.join("tickets"))?;
        let replay =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(dir.join("replay"));
        Ok(Self { dir, replay: replay.ok(), replay_generation: 0, replay_warned: false, resumption_warned: false })
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

    /// The tickets.
    pub fn tickets(&self) -> FileTickets {
        FileTickets { dir: self.dir.join("tickets"), cache: Mutex::default(), warned: AtomicBool::new(false) }
    }

    /// The client's tickets as last stored.
    pub fn load_resumption(&self) -> Option<Vec<u8>> {
        fs::read(self.dir.join("resumption")).ok()
    }

    /// Stores the client's tickets. It is not waited for the disk: a ticket that is used again after a power cut costs a
    /// round trip, since the server knows it is used.
    pub fn save_resumption(&mut self, snapshot: &[u8]) {
        if let Err(error) = write_unsynced(&self.dir.join("resumption"), snapshot)
            && !std::mem::replace(&mut self.resumption_warned, true)
        {
            tracing::warn!(%error, "cannot store tickets: no 0-RTT after the next restart");
        }
    }

    /// The replay window as last stored.
    pub fn load_replay(&mut self) -> Option<Vec<u8>> {
        let file = self.replay.as_ref()?;
        let mut newest: Option<(u64, Vec<u8>)> = None;
        for slot in 0..2 {
            let mut record = vec![0; REPLAY_SLOT];
            if file.read_exact_at(&mut record, slot * REPLAY_SLOT as u64).is_err() {
                continue;
            }
            let generation = u64::from_be_bytes(record[..8].try_into().expect("eight bytes"));
            let len = usize::from(u16::from_be_bytes(record[8..10].try_into().expect("two bytes")));
            let snapshot = record.get(10..10 + len).unwrap_or_default();
            if generation == 0 || newest.as_ref().is_some_and(|(best, _)| generation < *best) {
                continue;
            }
            match is_replay_snapshot(snapshot) {
                true => newest = Some((generation, snapshot.to_vec())),
                false => tracing::warn!(generation, "a stored replay window is damaged; using the one before"),
            }
        }
        let (generation, snapshot) = newest?;
        self.replay_generation = generation;
        Some(snapshot)
    }

    /// Stores the replay window. It is in the kernel's hands when this returns, so it survives a crash of ours; after a
    /// power cut the last seconds may be missing.
    pub fn save_replay(&mut self, snapshot: &[u8]) {
        self.replay_generation += 1;
        let mut record = vec![0; REPLAY_SLOT];
        record[..8].copy_from_slice(&self.replay_generation.to_be_bytes());
        record[8..10].copy_from_slice(&(snapshot.len() as u16).to_be_bytes());
        record[10..10 + snapshot.len()].copy_from_slice(snapshot);
        let offset = self.replay_generation % 2 * REPLAY_SLOT as u64;
        let written = match &self.replay {
            Some(file) => file.write_all_at(&record, offset),
            None => Err(io::Error::other("not open")),
        };
        match written {
            Ok(()) => self.replay_warned = false,
            Err(error) if !self.replay_warned => {
                self.replay_warned = true;
                tracing::warn!(%error, "cannot store the replay window: after a restart a copy might be taken for new");
            }
            Err(_) => {}
        }
    }
}

/// A start counter from the clock alone: seconds since 2020.
pub fn epoch_by_clock(since_1970: Duration) -> u32 {
    u32::try_from(since_1970.as_secs().saturating_sub(1_577_836_800)).unwrap_or(u32::MAX)
}

/// Resumption tickets in files, one each, and in memory.
#[derive(Debug)]
pub struct FileTickets {
    dir: PathBuf,
    cache: Mutex<HashMap<String, Vec<u8>>>,
    warned: AtomicBool,
}

impl FileTickets {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Makes room for one more, oldest first.
    fn prune(&self) -> io::Result<()> {
        let mut files: Vec<(SystemTime, PathBuf)> = fs::read_dir(&self.dir)?
            .flatten()
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        files.sort();
        let surplus = (files.len() + 1).saturating_sub(MAX_TICKETS);
        for (_, path) in files.iter().take(surplus) {
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

impl TicketStore for FileTickets {
    fn put(&self, key: &[u8], value: &[u8]) -> bool {
        let name = name_of(key);
        {
            let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            if cache.len() >= MAX_TICKETS {
                cache.clear();
            }
            cache.insert(name.clone(), value.to_vec());
        }
        if let Err(error) = self.prune().and_then(|()| write_unsynced(&self.path(&name), value))
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(%error, dir = %self.dir.display(), "cannot store tickets: no 0-RTT after the next restart");
        }
        true
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let name = name_of(key);
        let cached = self.cache.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
        let path = self.path(&name);
        let stored = fs::read(&path).ok();
        // Forgotten for good before it is used, or not used at all: single use is what keeps 0-RTT from being replayed.
        match fs::remove_file(&path).and_then(|()| File::open(&self.dir)?.sync_all()) {
            Ok(()) => cached.or(stored),
            Err(error) if error.kind() == io::ErrorKind::NotFound => cached,
            Err(error) => {
                tracing::warn!(%error, "cannot delete a used ticket; not accepting its 0-RTT");
                None
            }
        }
    }
}

fn name_of(key: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, key);
    digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a file as a whole or not at all, readable by us only.
///
/// # Errors
/// Those of the file system; a former version stays as it was.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write(path, bytes, true)
}

/// The same, but a power cut soon after may leave nothing of it.
fn write_unsynced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write(path, bytes, false)
}

fn write(path: &Path, bytes: &[u8], sync: bool) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        if sync { file.sync_all() } else { Ok(()) }
    })();
    let renamed = written.and_then(|()| fs::rename(&temporary, path));
    if renamed.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    renamed
}

#[cfg(test)]
mod tests {
    use aquila_proto::identity::Identity;

    use super::*;

    fn dir(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("aquila-store-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        dir
    }

    fn open(dir: &Path) -> Store {
        Store::open(dir, &Identity::from_seed([1; 32]).public()).unwrap()
    }

    #[test]
    fn tickets_survive_a_restart_and_are_given_out_once() {
        let dir = dir("tickets");
        assert!(open(&dir).tickets().put(b"key", b"secret"));
        let reborn = open(&dir).tickets();
        assert_eq!(reborn.take(b"key"), Some(b"secret".to_vec()));
        assert_eq!(reborn.take(b"key"), None);
        assert_eq!(open(&dir).tickets().take(b"key"), None);
        for n in 0..MAX_TICKETS + 5 {
            reborn.put(format!("{n}").as_bytes(), b"x");
        }
        assert_eq!(
            fs::read_dir(dir.join(Identity::from_seed([1; 32]).public().fingerprint()).join("tickets"))
                .unwrap()
                .count(),
            MAX_TICKETS
        );
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_full_disk_costs_what_a_restart_would_have_kept_and_nothing_now() {
        let dir = dir("full");
        let tickets = open(&dir).tickets();
        // /dev/full says "no space left" to each write; here it is the folder that takes no file.
        fs::remove_dir_all(&tickets.dir).unwrap();
        fs::write(&tickets.dir, b"in the way").unwrap();
        assert!(tickets.put(b"key", b"secret"));
        assert_eq!(tickets.take(b"other"), None);
        let path = tickets.path(&name_of(b"key"));
        assert!(fs::read(path).is_err());
        fs::remove_file(&tickets.dir).unwrap();
        assert_eq!(tickets.take(b"key"), Some(b"secret".to_vec()), "still good in this life");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_ticket_that_cannot_be_deleted_is_not_given_out() {
        let dir = dir("undeletable");
        let tickets = open(&dir).tickets();
        tickets.put(b"key", b"secret");
        // A folder in its place cannot be unlinked, whoever we are.
        let path = tickets.path(&name_of(b"key"));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(tickets.take(b"key"), None);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn epochs_grow_whatever_the_clock_does() {
        let dir = dir("epochs");
        let first = open(&dir).next_epoch(Duration::from_secs(1_790_000_000));
        let second = open(&dir).next_epoch(Duration::from_secs(1_000));
        assert!(second > first);
        assert!(open(&dir).next_epoch(Duration::from_secs(1_900_000_000)) > second);
        fs::remove_dir_all(&dir).unwrap();
    }

    /// The magic number and a digest over it: a window that has seen nothing.
    fn whole_replay_window() -> Vec<u8> {
        let mut bytes = b"aqR2".to_vec();
        bytes.extend_from_slice(ring::digest::digest(&ring::digest::SHA256, b"aqR2").as_ref());
        bytes
    }

    #[test]
    fn the_newest_whole_replay_window_is_loaded() {
        let dir = dir("replay");
        let mut store = open(&dir);
        assert_eq!(store.load_replay(), None);
        let (whole, torn) = (whole_replay_window(), b"torn");
        store.save_replay(&whole);
        assert_eq!(open(&dir).load_replay(), Some(whole.clone()));
        store.save_replay(torn);
        let mut reborn = open(&dir);
        assert_eq!(reborn.load_replay(), Some(whole.clone()), "the one before");
        reborn.save_replay(&whole);
        assert_eq!(open(&dir).load_replay(), Some(whole));
        fs::remove_dir_all(&dir).unwrap();
    }
}
