//! The store itself: opening it, room, and promises.

use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use aquila_proto::identity::PublicKey;
use aquila_proto::transfer::{ObjectId, StoreId};
use ring::rand::{SecureRandom, SystemRandom};
use rusqlite::{Connection, OptionalExtension, Transaction};

use crate::config::Config;
use crate::db::{self, Promise};
use crate::disk::{self, Disk};
use crate::error::{DepotError, NoRoom};
use crate::health::{self, Bounds};
use crate::receipts::{self, Set};
use crate::segment::{self, Place};
use crate::squeeze::Squeezer;
use crate::staging::Staging;
use crate::{chunks, state};

/// Chunks that were stored and are not in the database, at most.
const MAX_PENDING: usize = 4096;
/// Bytes of them.
const MAX_UNSYNCED: u64 = 64 << 20;
/// How much is written before it is looked again how much the disk has free, in bytes.
const LOOK_EVERY: u64 = 16 << 20;
/// Rows of objects that are done with, for lists.
const KEEP_ROWS: i64 = 10_000;
/// Peers that objects are remembered for; one more takes the place of the one that was not met for longest.
const MAX_PEERS: i64 = 64;

/// A store of files that are carried.
#[derive(Debug)]
pub struct Depot {
    pub(crate) config: Config,
    pub(crate) db: Connection,
    pub(crate) disk: Disk,
    pub(crate) squeezer: Squeezer,
    pub(crate) store: StoreId,
    /// Chunks that came and that the database does not know of, by row.
    pub(crate) pending: HashMap<i64, Place>,
    /// How many parts of objects, by row, they are.
    pub(crate) arrived: HashMap<i64, u64>,
    pub(crate) staging: Staging,
    /// What was promised before anybody asked.
    pub(crate) early: Committed,
    /// Something was written that is not promised yet.
    pub(crate) is_dirty: bool,
    /// Something was given up, so that there may be more to give up.
    pub(crate) released: bool,
    dir: PathBuf,
    room: Room,
    version: i64,
}

/// What is known of the room that there is.
#[derive(Debug, Default)]
struct Room {
    /// Bytes of chunks, as the database said last.
    used: u64,
    /// Bytes that the disk had free then.
    free: u64,
    /// Bytes written since.
    written: u64,
    full: Option<NoRoom>,
}

/// What was promised by [`Depot::commit`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Committed {
    /// Objects of others that are whole, and sure to be there after a power cut.
    pub custody: Vec<ObjectId>,
    /// Objects that were put here, of which the same is true.
    pub queued: Vec<ObjectId>,
    /// Objects that were put here and are not: another process gave chunks back that they have in common with others. Put them again.
    pub lost: Vec<ObjectId>,
}

/// Seconds since 1970.
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Depot {
    /// Opens the store in this folder, and makes it if it is not there, for its owner only. Several processes may have it open.
    ///
    /// # Errors
    /// If the folder cannot be read and written, or belongs to a later version.
    pub fn open(dir: impl Into<PathBuf>, config: Config) -> Result<Self, DepotError> {
        let dir = dir.into();
        let segments = dir.join("segments");
        for folder in [&dir, &segments] {
            match DirBuilder::new().mode(0o700).recursive(false).create(folder) {
                Ok(()) => segment::sync_folder(above(folder))?,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(DepotError::at(folder)(error)),
            }
        }
        if let Some(folder) = config.shore.as_ref().and_then(|shore| shore.folder.as_ref()) {
            fs::create_dir_all(folder).map_err(DepotError::at(folder))?;
        }
        let mut db = db::open(&dir.join("state.db"))?;
        let store = store_id(&mut db)?;
        bind(&mut db, config.identity.public())?;
        let mut disk = Disk::new(segments);
        let lost = disk.recover(&mut db)?;
        disk::mark_lost(&mut db, &lost, now_s())?;
        let mut depot = Self {
            config,
            db,
            disk,
            squeezer: Squeezer::default(),
            store,
            pending: HashMap::new(),
            arrived: HashMap::new(),
            staging: Staging::default(),
            early: Committed::default(),
            is_dirty: true,
            released: true,
            dir,
            room: Room::default(),
            version: 0,
        };
        depot.look()?;
        depot.changed()?;
        Ok(depot)
    }

    /// The name of this store, drawn when its folder was made.
    pub fn store_id(&self) -> StoreId {
        self.store
    }

    /// The key that it signs with.
    pub fn key(&self) -> PublicKey {
        self.config.identity.public()
    }

    /// Whether another process has changed something since this was called last.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn changed(&mut self) -> Result<bool, DepotError> {
        let version = self.db.query_row("PRAGMA data_version", [], |row| row.get(0))?;
        Ok(std::mem::replace(&mut self.version, version) != version)
    }

    /// Looks how much room there is.
    pub(crate) fn look(&mut self) -> Result<(), DepotError> {
        let used = health::used(&self.db)?;
        let unnoted = self.staging.unnoted() + self.pending.values().map(|place| u64::from(place.len)).sum::<u64>();
        self.room.used = used + unnoted;
        self.room.free = health::free(&self.dir)?;
        self.room.written = 0;
        Ok(())
    }

    /// Bytes that could be stored, chunks that are only kept not counted as room.
    fn left(&self) -> (u64, NoRoom) {
        self.bounds().left(self.used(), self.free())
    }

    pub(crate) fn bounds(&self) -> Bounds {
        Bounds { quota: self.config.quota, min_free: self.config.min_free }
    }

    /// Bytes of chunks.
    pub(crate) fn used(&self) -> u64 {
        self.room.used + self.room.written
    }

    /// Bytes that the disk has free.
    pub(crate) fn free(&self) -> u64 {
        self.room.free.saturating_sub(self.room.written)
    }

    /// What was in the way of what was refused last.
    pub(crate) fn refused(&self) -> Option<NoRoom> {
        self.room.full
    }

    /// Sees to it that so many bytes can be stored; what is only kept makes room.
    pub(crate) fn make_room(&mut self, need: u64) -> Result<(), DepotError> {
        if self.room.written >= LOOK_EVERY || self.left().0 < need {
            self.look()?;
        }
        let (left, why) = self.left();
        if left >= need {
            self.room.full = None;
            return Ok(());
        }
        let kept = health::kept(&self.db)?;
        if kept > 0 {
            self.trim(kept.saturating_sub(need - left))?;
            self.look()?;
        }
        let (left, _) = self.left();
        self.room.full = (left < need).then_some(why);
        if left < need { Err(DepotError::Full(why)) } else { Ok(()) }
    }

    /// Bytes that can be promised to objects to come, what is only kept included.
    pub(crate) fn capacity(&mut self) -> Result<(u64, NoRoom), DepotError> {
        self.look()?;
        let kept = health::kept(&self.db)?;
        let (left, why) = self.left();
        Ok((left.saturating_add(kept), why))
    }

    fn trim(&mut self, keep: u64) -> Result<(), DepotError> {
        self.now(|tx| state::trim(tx, keep)).map(drop)
    }

    /// Writes something that is promised at once; room that becomes free by it is given back.
    pub(crate) fn now<T>(
        &mut self,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, DepotError>,
    ) -> Result<T, DepotError> {
        let tx = db::begin(&mut self.db, Promise::Now)?;
        let written = write(&tx)?;
        let dead = Disk::dead(&tx)?;
        tx.commit()?;
        self.disk.sweep(&mut self.db, &dead)?;
        Ok(written)
    }

    /// Appends a chunk, if there is room.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<Place, DepotError> {
        self.make_room(bytes.len() as u64)?;
        let appended = self.disk.append(&mut self.db, bytes);
        match &appended {
            Ok(_) => self.room.written += bytes.len() as u64,
            Err(error) if error.is_full() => self.room.full = Some(NoRoom::Disk),
            Err(_) => {}
        }
        appended
    }

    /// Notes what was stored so far, if that is much: it needs no memory any more. Nothing is promised.
    pub(crate) fn relieve(&mut self) -> Result<(), DepotError> {
        if self.pending.len() >= MAX_PENDING || self.staging.is_heavy() || self.room.written >= MAX_UNSYNCED {
            self.flush()?;
        }
        Ok(())
    }

    /// Waits until all chunks are on the disk.
    fn sync(&mut self) -> Result<(), DepotError> {
        self.disk.sync().inspect_err(|error| {
            tracing::error!(%error, "what was stored last cannot be written to the disk");
            self.pending.clear();
            self.arrived.clear();
            self.staging.forget();
        })
    }

    /// Notes in the database what was stored, so that it needs no memory any more. Nothing is promised yet.
    pub(crate) fn flush(&mut self) -> Result<(), DepotError> {
        if self.pending.is_empty() && self.staging.is_empty() {
            return Ok(());
        }
        self.sync()?;
        // A segment of ours says that this process is there, also when it found all chunks stored already.
        self.disk.writer(&mut self.db)?;
        let tx = db::begin(&mut self.db, Promise::Later)?;
        note_pending(&tx, &self.pending)?;
        let noted = self.staging.note(&tx, self.disk.number())?;
        self.disk.note_ends(&tx)?;
        tx.commit()?;
        self.pending.clear();
        self.arrived.clear();
        self.staging.noted(noted);
        self.is_dirty = true;
        self.look()
    }

    /// Promises all that was stored and put since: it is on the disk, and survives a power cut. Objects that are whole are in custody now.
    ///
    /// # Errors
    /// If the disk is full, or broken. Nothing that was promised before is lost, nothing is promised now. What was stored since may have to
    /// be stored again: ask [`Depot::verdict`] of each object that is being taken. When there is room again, it goes on.
    pub fn commit(&mut self) -> Result<Committed, DepotError> {
        if !self.is_dirty && !self.released && self.pending.is_empty() && self.staging.is_empty() {
            return Ok(std::mem::take(&mut self.early));
        }
        let done = self.flush().and_then(|()| self.promise()).inspect_err(|error| self.note_error(error))?;
        let mut committed = std::mem::take(&mut self.early);
        committed.custody.extend(done.custody);
        committed.queued.extend(done.queued);
        committed.lost.extend(done.lost);
        Ok(committed)
    }

    /// Promises what was put when it is so much that it needs memory.
    pub(crate) fn promise_early(&mut self) -> Result<(), DepotError> {
        if self.staging.is_long() {
            self.early = self.commit()?;
        }
        Ok(())
    }

    fn note_error(&mut self, error: &DepotError) {
        if error.is_full() {
            self.room.full = Some(NoRoom::Disk);
        }
    }

    fn promise(&mut self) -> Result<Committed, DepotError> {
        let now_s = now_s();
        let tx = db::begin(&mut self.db, Promise::Now)?;
        let mut committed = Committed::default();
        let whole: Vec<i64> = {
            let mut find = tx.prepare_cached("SELECT id FROM object WHERE state = 2 AND missing = 0")?;
            find.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?
        };
        for id in whole {
            let object = state::get(&tx, id)?;
            tx.prepare_cached("UPDATE object SET state = 3, changed_s = ?, reason = '' WHERE id = ?")?
                .execute((now_s as i64, id))?;
            receipts::add(&tx, Set::Custody, object.source, object.number, object.number + 1)?;
            if !object.for_us {
                state::enqueue(&tx, &object)?;
            }
            committed.custody.push(state::name(&tx, id)?);
        }
        self.staging.promise(&tx, now_s, &mut committed)?;
        if self.released {
            state::trim(&tx, self.config.keep)?;
        }
        let dead = Disk::dead(&tx)?;
        tx.commit()?;
        self.staging.promised();
        self.disk.let_go();
        self.is_dirty = false;
        self.released = false;
        self.disk.sweep(&mut self.db, &dead)?;
        self.look()?;
        Ok(committed)
    }

    /// Gives up what nobody wants any more, and forgets all but the last 10,000 objects that are done with. To be called now and then.
    /// Returns how many objects expired.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn expire(&mut self, now_s: u64) -> Result<usize, DepotError> {
        self.flush()?;
        self.now(|tx| {
            let due: Vec<i64> = {
                let mut find = tx.prepare_cached(
                    "SELECT id FROM object WHERE expires_s > 0 AND state < 4 AND expires_s <= ? AND state > 0",
                )?;
                find.query_map([now_s as i64], |row| row.get(0))?.collect::<Result<_, _>>()?
            };
            for id in &due {
                state::give_up(tx, &state::get(tx, *id)?, state::State::Expired, now_s, "expired")?;
            }
            forget(tx)?;
            Ok(due.len())
        })
    }

    /// The row of a peer; those that there are keep what they are to be given.
    pub(crate) fn peer(&mut self, key: &PublicKey) -> Result<i64, DepotError> {
        let mut find = self.db.prepare_cached("SELECT id FROM peer WHERE key = ?")?;
        if let Some(id) = find.query_row([key.0], |row| row.get(0)).optional()? {
            return Ok(id);
        }
        drop(find);
        let tx = db::begin(&mut self.db, Promise::Later)?;
        let oldest = "SELECT id FROM peer ORDER BY met_s, id LIMIT max(0, (SELECT count(*) FROM peer) - ?)";
        for table in ["todo", "told"] {
            tx.execute(&format!("DELETE FROM {table} WHERE peer IN ({oldest})"), [MAX_PEERS - 1])?;
        }
        tx.execute(&format!("DELETE FROM peer WHERE id IN ({oldest})"), [MAX_PEERS - 1])?;
        tx.execute("INSERT INTO peer (key, met_s) VALUES (?, ?)", (key.0, now_s() as i64))?;
        let id = tx.last_insert_rowid();
        tx.execute(
            "INSERT INTO todo
             SELECT ?1, priority, CASE deadline_s WHEN 0 THEN ?2 ELSE deadline_s END, id FROM object
             WHERE state IN (1, 3) AND for_us = 0 AND missing = 0 AND key <> ?3",
            (id, i64::MAX, key.0),
        )?;
        tx.commit()?;
        Ok(id)
    }
}

/// The folder that a folder is in.
fn above(folder: &Path) -> &Path {
    match folder.parent() {
        // One that is named without a path is in the current one.
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("/"),
    }
}

/// The store's name: drawn once.
fn store_id(db: &mut Connection) -> Result<StoreId, DepotError> {
    if let Some(store) = db::meta(db, "store")? {
        return Ok(StoreId(store));
    }
    let mut drawn = [0; 8];
    SystemRandom::new().fill(&mut drawn).map_err(|_| DepotError::Random)?;
    let tx = db::begin(db, Promise::Now)?;
    // Somebody else may have been faster.
    tx.execute("INSERT OR IGNORE INTO meta VALUES ('store', ?)", [drawn])?;
    let store = db::meta(&tx, "store")?.unwrap_or(drawn);
    tx.commit()?;
    Ok(StoreId(store))
}

/// A store's objects and receipts are signed by one key: the one that it was made with. Whoever took objects of one that changed would
/// refuse them, and say so to nobody here.
fn bind(db: &mut Connection, key: PublicKey) -> Result<(), DepotError> {
    let owner = match db::meta(db, "key")? {
        Some(owner) => PublicKey(owner),
        None => {
            let tx = db::begin(db, Promise::Now)?;
            // Stores were not always bound: then it is the key of what is in it.
            let mut find =
                tx.prepare("SELECT key FROM object WHERE origin <> 2 AND state > 0 ORDER BY id DESC LIMIT 1")?;
            let owner = find.query_row([], |row| row.get(0)).optional()?.unwrap_or(key.0);
            drop(find);
            tx.execute("INSERT OR IGNORE INTO meta VALUES ('key', ?)", [owner])?;
            let owner = db::meta(&tx, "key")?.unwrap_or(owner);
            tx.commit()?;
            PublicKey(owner)
        }
    };
    if owner == key { Ok(()) } else { Err(DepotError::Key { owner, given: key }) }
}

/// Writes down where chunks are that came.
fn note_pending(db: &Connection, pending: &HashMap<i64, Place>) -> Result<(), DepotError> {
    let mut rows: Vec<_> = pending.iter().collect();
    rows.sort_unstable_by_key(|(id, _)| **id);
    rows.into_iter().try_for_each(|(id, place)| chunks::put(db, *id, *place))
}

/// Forgets objects that are done with, but for the last ones.
fn forget(db: &Connection) -> Result<usize, DepotError> {
    let done = "state IN (5, 6, 7) AND kept = 0";
    let count: i64 = db.query_row(&format!("SELECT count(*) FROM object WHERE {done}"), [], |row| row.get(0))?;
    if count <= KEEP_ROWS {
        return Ok(0);
    }
    let oldest: Vec<i64> = {
        let mut find = db.prepare(&format!("SELECT id FROM object WHERE {done} ORDER BY changed_s, id LIMIT ?"))?;
        find.query_map([count - KEEP_ROWS], |row| row.get(0))?.collect::<Result<_, _>>()?
    };
    for id in &oldest {
        for table in ["told", "latest"] {
            db.prepare_cached(&format!("DELETE FROM {table} WHERE object = ?"))?.execute([id])?;
        }
        db.prepare_cached("DELETE FROM object WHERE id = ?")?.execute([id])?;
    }
    Ok(oldest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_named_without_a_path_is_in_the_current_one() {
        let above = |folder| above(Path::new(folder)).to_str().unwrap();
        assert_eq!(["files", "./files", "a/files", "/files", "/"].map(above), [".", ".", "a", "/", "/"]);
    }
}
