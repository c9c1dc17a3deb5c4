//! How a store is: whether there is room, and what waits for it.

use std::path::Path;

use aquila_proto::transfer::Chunk;
use rusqlite::Connection;

use crate::depot::Depot;
use crate::error::{DepotError, NoRoom};
use crate::list::View;

/// How a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Health {
    /// Why nothing more can be stored, if nothing can.
    pub full: Option<NoRoom>,
    /// Bytes of chunks.
    pub used: u64,
    /// Bytes of them that are only kept for next versions.
    pub kept: u64,
    /// Bytes of chunks that there may be.
    pub quota: u64,
    /// Bytes that the disk has free.
    pub disk_free: u64,
    /// Objects that are incomplete.
    pub partial: u64,
    /// Of them, those that have to wait for room.
    pub paused: u64,
    /// Objects that were put here of which a chunk cannot be read any more.
    pub damaged: u64,
}

/// How much may be stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub quota: u64,
    pub min_free: u64,
}

impl Bounds {
    /// Bytes that could still be stored, and what would be in the way then.
    pub fn left(self, used: u64, free: u64) -> (u64, NoRoom) {
        let quota = self.quota.saturating_sub(used);
        let disk = free.saturating_sub(self.min_free);
        if quota <= disk { (quota, NoRoom::Quota) } else { (disk, NoRoom::Disk) }
    }
}

impl Depot {
    /// How it is: whether there is room, and what waits for it.
    ///
    /// # Errors
    /// If the database or the disk cannot be read.
    pub fn health(&mut self) -> Result<Health, DepotError> {
        self.look()?;
        let health = measure(&self.db, self.bounds(), self.used(), self.free())?;
        // What was refused last is not forgotten while something waits.
        Ok(Health { full: health.full.or(self.refused().filter(|_| health.paused > 0)), ..health })
    }
}

impl View {
    /// How it is, if it may hold so many bytes and leaves so many of the disk free.
    ///
    /// # Errors
    /// If the database or the disk cannot be read.
    pub fn health(&self, quota: u64, min_free: u64) -> Result<Health, DepotError> {
        measure(&self.db, Bounds { quota, min_free }, used(&self.db)?, free(&self.dir)?)
    }
}

fn measure(db: &Connection, bounds: Bounds, used: u64, free: u64) -> Result<Health, DepotError> {
    let kept = kept(db)?;
    let (left, why) = bounds.left(used, free);
    let mut capacity = left.saturating_add(kept);
    // Without room for one more chunk of any length nothing goes on.
    let full = (capacity < u64::from(Chunk::MAX)).then_some(why);
    let damaged = number(db, "SELECT count(*) FROM object WHERE state IN (1, 3) AND missing > 0")?;
    let (mut partial, mut paused) = (0, 0);
    let mut find = db.prepare_cached("SELECT missing_len FROM object WHERE state = 2 ORDER BY priority, id")?;
    for len in find.query_map([], |row| row.get::<_, i64>(0))? {
        partial += 1;
        match capacity.checked_sub(len? as u64) {
            Some(rest) => capacity = rest,
            None => paused += 1,
        }
    }
    Ok(Health { full, used, kept, quota: bounds.quota, disk_free: free, partial, paused, damaged })
}

/// Bytes of chunks, as far as the database knows of them.
pub(crate) fn used(db: &Connection) -> Result<u64, DepotError> {
    number(db, "SELECT coalesce(sum(live), 0) FROM segment")
}

/// Bytes that are only kept for next versions.
pub(crate) fn kept(db: &Connection) -> Result<u64, DepotError> {
    number(db, "SELECT coalesce(sum(wire_len), 0) FROM object WHERE kept = 1")
}

/// Bytes that the disk has free.
pub(crate) fn free(dir: &Path) -> Result<u64, DepotError> {
    let disk = nix::sys::statvfs::statvfs(dir).map_err(|error| DepotError::at(dir)(error.into()))?;
    Ok(disk.blocks_available() as u64 * disk.fragment_size() as u64)
}

fn number(db: &Connection, sql: &str) -> Result<u64, DepotError> {
    Ok(db.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0))? as u64)
}
