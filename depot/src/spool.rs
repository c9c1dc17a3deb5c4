//! A folder from which files are taken by themselves.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fs::{self, Metadata};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use rusqlite::{Connection, OptionalExtension};

use crate::depot::{Depot, now_s};
use crate::error::DepotError;
use crate::intake::{Put, PutOptions, Source};
use crate::rules::{self, Rule};
use crate::state::Origin;

/// What a file was when it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub size: u64,
    pub modified_ns: i64,
    pub inode: u64,
}

impl Stat {
    pub fn of(metadata: &Metadata) -> Self {
        let modified_ns = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
        Self { size: metadata.len(), modified_ns, inode: metadata.ino() }
    }

    /// A file of the spool is this object; if that is `due` it is not needed there any more.
    pub fn remember(&self, db: &Connection, path: &str, object: i64, due: bool) -> Result<(), DepotError> {
        let row = (path, self.size as i64, self.modified_ns, self.inode as i64, object, due);
        db.prepare_cached("INSERT OR REPLACE INTO spool VALUES (?, ?, ?, ?, ?, ?)")?.execute(row)?;
        Ok(())
    }
}

/// The folder is looked through this often, whatever the system says about it.
const SCAN_EVERY: Duration = Duration::from_secs(10);
/// A file that nobody is known to have closed is taken when it has not changed for so long.
const STABLE: Duration = Duration::from_secs(2);
/// Files taken in one go.
const AT_ONCE: usize = 256;
/// Bytes of them, after which there is no further one.
const BYTES_AT_ONCE: u64 = 64 << 20;
/// Folders below each other, at most.
const MAX_DEPTH: usize = 64;
/// Every so many scans, files that are gone are forgotten.
const FORGET_EVERY: u64 = 60;

/// A file that was taken from the spool, or could not be.
#[derive(Debug)]
pub struct Taken {
    /// Its path below the spool.
    pub path: String,
    /// What it is. An error is told once for each file.
    pub put: Result<Put, DepotError>,
}

/// A folder that is watched. Files renamed into it, and those that were closed after they were written, are taken at once, others when
/// they have not changed for 2 s. Hidden ones, and those that end in `.part` or `.tmp`, are left alone, and links are not followed.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    rules: Vec<Rule>,
    inotify: Option<Inotify>,
    watched: HashMap<WatchDescriptor, String>,
    /// Files to be taken.
    ready: VecDeque<String>,
    queued: HashSet<String>,
    /// Files that may still change, and since when they have not.
    settling: HashMap<String, (Stat, Instant)>,
    /// Those that were complained of.
    told: HashSet<String>,
    next_scan: Option<Instant>,
    scans: u64,
}

impl Spool {
    /// Watches a folder, which is made if it is not there. Files are carried as the first of the rules says that is for them.
    ///
    /// # Errors
    /// If it cannot be made or read.
    pub fn open(folder: impl Into<PathBuf>, rules: Vec<Rule>) -> Result<Self, DepotError> {
        let folder = folder.into();
        fs::create_dir_all(&folder).map_err(DepotError::at(&folder))?;
        fs::read_dir(&folder).map_err(DepotError::at(&folder))?;
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)
            .inspect_err(|error| tracing::warn!(%error, "the spool is looked through every 10 s only"));
        Ok(Self {
            folder,
            rules,
            inotify: inotify.ok(),
            watched: HashMap::new(),
            ready: VecDeque::new(),
            queued: HashSet::new(),
            settling: HashMap::new(),
            told: HashSet::new(),
            next_scan: None,
            scans: 0,
        })
    }

    /// Becomes readable when something happens in the folder.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(|inotify| inotify.as_fd())
    }

    /// When [`Spool::poll`] is to be called though nothing happened; `None` is at once.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.next_scan.filter(|_| self.ready.is_empty())
    }

    /// Takes what is ready, at most 256 files or 64 MiB and one more file, and deletes what is done with. What was taken is promised by
    /// [`Depot::commit`], and not taken again after that. While a long file is read the caller waits: a spool may have a thread and an open
    /// [`Depot`] of its own.
    ///
    /// # Errors
    /// If the database cannot be read or written, or there is no room. Files that cannot be read are in the result.
    pub fn poll(&mut self, depot: &mut Depot, now: Instant) -> Result<Vec<Taken>, DepotError> {
        self.delete_due(depot)?;
        self.hear(now);
        if self.next_scan.is_none_or(|at| at <= now) {
            self.scan(depot, now)?;
        }
        let put = self.put(depot);
        let mut taken = Vec::new();
        let mut full = None;
        for (path, put) in put {
            match put {
                Ok(put) => {
                    self.told.remove(&path);
                    taken.push(Taken { path, put: Ok(put) });
                }
                // The next scan sees it again.
                Err(DepotError::Changing(_)) => {}
                Err(DepotError::Io { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error @ (DepotError::Full(_) | DepotError::Database(_))) => full = Some(error),
                Err(error) if self.told.insert(path.clone()) => taken.push(Taken { path, put: Err(error) }),
                Err(_) => {}
            }
        }
        match full {
            Some(error) if taken.is_empty() => Err(error),
            _ => Ok(taken),
        }
    }

    /// Puts the next files, the most urgent first. Only those that are carried alike can be in one pack.
    fn put(&mut self, depot: &mut Depot) -> Vec<(String, Result<Put, DepotError>)> {
        let now_s = now_s();
        let mut alike: Vec<(PutOptions, Vec<Source>)> = Vec::new();
        for path in self.batch() {
            let options = rules::options(&self.rules, &path, now_s);
            let source = Source { file: self.folder.join(&path), path };
            match alike.iter_mut().find(|(other, _)| *other == options) {
                Some((_, sources)) => sources.push(source),
                None => alike.push((options, vec![source])),
            }
        }
        alike.sort_by_key(|(options, _)| options.priority);
        let put = |(options, sources): (PutOptions, Vec<Source>)| {
            let put = depot.put_all(&sources, &options, Origin::Spool);
            sources.into_iter().map(|source| source.path).zip(put)
        };
        alike.into_iter().flat_map(put).collect()
    }

    /// The next files to be taken.
    fn batch(&mut self) -> Vec<String> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < AT_ONCE
            && bytes < BYTES_AT_ONCE
            && let Some(path) = self.ready.pop_front()
        {
            self.queued.remove(&path);
            self.settling.remove(&path);
            bytes += fs::symlink_metadata(self.folder.join(&path)).map_or(0, |metadata| metadata.len());
            batch.push(path);
        }
        batch
    }

    fn ready(&mut self, path: String) {
        if self.queued.insert(path.clone()) {
            self.ready.push_back(path);
        }
    }

    /// What the system says has happened.
    fn hear(&mut self, now: Instant) {
        loop {
            let Some(events) = self.inotify.as_ref().and_then(|inotify| inotify.read_events().ok()) else { return };
            for event in events {
                if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                    self.next_scan = None;
                }
                if event.mask.contains(AddWatchFlags::IN_IGNORED) {
                    self.watched.remove(&event.wd);
                }
                let Some(folder) = self.watched.get(&event.wd) else { continue };
                let Some(name) = event.name.as_ref().and_then(|name| name.to_str()) else { continue };
                if event.mask.contains(AddWatchFlags::IN_ISDIR) {
                    // Something may be in it already.
                    self.next_scan = None;
                } else if is_wanted(name)
                    && event.mask.intersects(AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MOVED_TO)
                {
                    let path = join(folder, name);
                    let metadata = fs::symlink_metadata(self.folder.join(&path));
                    if metadata.is_ok_and(|metadata| metadata.is_file()) {
                        self.ready(path);
                    }
                } else if is_wanted(name) {
                    // It is being written: looked at when it may have come to rest.
                    self.next_scan = self.next_scan.map(|at| at.min(now + STABLE));
                }
            }
        }
    }

    /// Looks through the folder.
    fn scan(&mut self, depot: &mut Depot, now: Instant) -> Result<(), DepotError> {
        let mut found = BTreeSet::new();
        let mut folders = vec![(String::new(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            self.watch(&folder);
            let Ok(entries) = fs::read_dir(self.folder.join(&folder)) else {
                self.complain(&folder, "a folder that cannot be read");
                continue;
            };
            for entry in entries.filter_map(Result::ok) {
                let Ok(name) = entry.file_name().into_string() else {
                    self.complain(&entry.file_name().to_string_lossy(), "a name that is no UTF-8");
                    continue;
                };
                let path = join(&folder, &name);
                // Of a link this is the link's own.
                let Ok(metadata) = entry.metadata() else { continue };
                if !is_wanted(&name) {
                } else if metadata.is_dir() && depth < MAX_DEPTH {
                    folders.push((path, depth + 1));
                } else if metadata.is_file() {
                    let stat = Stat::of(&metadata);
                    if remembered(&depot.db, &path)? != Some(stat) {
                        self.settle(&path, stat, now);
                        found.insert(path);
                    }
                }
            }
        }
        self.settling.retain(|path, _| found.contains(path));
        if self.scans.is_multiple_of(FORGET_EVERY) {
            self.forget(depot)?;
        }
        self.scans += 1;
        let soon = if self.settling.is_empty() { SCAN_EVERY } else { STABLE };
        self.next_scan = Some(now + soon);
        Ok(())
    }

    /// A file that was not taken: it is when it has come to rest.
    fn settle(&mut self, path: &str, stat: Stat, now: Instant) {
        match self.settling.get(path) {
            Some((last, since)) if *last == stat => {
                if now.saturating_duration_since(*since) >= STABLE {
                    self.ready(path.into());
                }
            }
            _ => drop(self.settling.insert(path.into(), (stat, now))),
        }
    }

    fn watch(&mut self, folder: &str) {
        let Some(inotify) = &self.inotify else { return };
        let flags = AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_ONLYDIR
            | AddWatchFlags::IN_DONT_FOLLOW;
        let flags = if folder.is_empty() { flags.difference(AddWatchFlags::IN_DONT_FOLLOW) } else { flags };
        match inotify.add_watch(&self.folder.join(folder), flags) {
            Ok(watch) => drop(self.watched.insert(watch, folder.into())),
            Err(error) => self.complain(folder, &format!("a folder that is only looked at every 10 s: {error}")),
        }
    }

    fn complain(&mut self, path: &str, what: &str) {
        if self.told.insert(path.into()) {
            tracing::warn!(path, "{what}");
        }
    }

    /// Forgets what was taken and is gone.
    fn forget(&mut self, depot: &mut Depot) -> Result<(), DepotError> {
        let mut last = String::new();
        loop {
            let paths: Vec<String> = {
                let mut find =
                    depot.db.prepare_cached("SELECT path FROM spool WHERE path > ? ORDER BY path LIMIT 1000")?;
                find.query_map([&last], |row| row.get(0))?.collect::<Result<_, _>>()?
            };
            let Some(end) = paths.last() else { return Ok(()) };
            last.clone_from(end);
            for path in paths.iter().filter(|path| fs::symlink_metadata(self.folder.join(path)).is_err()) {
                depot.db.prepare_cached("DELETE FROM spool WHERE path = ?")?.execute([path])?;
            }
        }
    }

    /// Deletes files that are done with, if they are still what was taken.
    fn delete_due(&mut self, depot: &mut Depot) -> Result<(), DepotError> {
        let due: Vec<(String, Stat)> = {
            let mut find =
                depot.db.prepare_cached("SELECT path, size, modified_ns, inode FROM spool WHERE due = 1 LIMIT 1000")?;
            find.query_map([], |row| Ok((row.get(0)?, stat(row, 1)?)))?.collect::<Result<_, _>>()?
        };
        for (path, taken) in due {
            let file = self.folder.join(&path);
            if fs::symlink_metadata(&file).is_ok_and(|metadata| metadata.is_file() && Stat::of(&metadata) == taken) {
                match fs::remove_file(&file) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        self.complain(&path, &format!("cannot be deleted: {error}"));
                        continue;
                    }
                    _ => {}
                }
            }
            depot.db.prepare_cached("DELETE FROM spool WHERE path = ? AND due = 1")?.execute([&path])?;
        }
        Ok(())
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

fn remembered(db: &Connection, path: &str) -> Result<Option<Stat>, DepotError> {
    let mut find = db.prepare_cached("SELECT size, modified_ns, inode FROM spool WHERE path = ?")?;
    Ok(find.query_row([path], |row| stat(row, 0)).optional()?)
}

fn stat(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Stat> {
    Ok(Stat {
        size: row.get::<_, i64>(first)? as u64,
        modified_ns: row.get(first + 1)?,
        inode: row.get::<_, i64>(first + 2)? as u64,
    })
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.into() } else { format!("{folder}/{name}") }
}

/// Whether a file of this name is to be carried.
fn is_wanted(name: &str) -> bool {
    !name.starts_with('.') && !name.ends_with(".part") && !name.ends_with(".tmp")
}
