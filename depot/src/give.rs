//! Objects that other stores are to have.

use aquila_proto::identity::PublicKey;
use aquila_proto::transfer::{Hash, ObjectId, Offer};
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension};

use crate::db::{self, Promise};
use crate::depot::{Depot, now_s};
use crate::error::DepotError;
use crate::state::{self, Told};
use crate::{chunks, pack};

/// An object that a peer is to be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Which.
    pub object: ObjectId,
    /// Bytes of its manifest.
    pub manifest_len: u32,
    /// Bytes of its chunks on the way.
    pub wire_len: u64,
    /// 0 is served first, 7 last.
    pub priority: u8,
    /// By when it should be delivered, seconds since 1970; 0 if nothing is said.
    pub deadline_s: u64,
    /// How many chunks.
    pub chunks: u64,
    /// How many files; 1 of a pack that nobody has looked into yet.
    pub files: u64,
}

/// An object that waits for a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued {
    /// Which.
    pub object: ObjectId,
    /// How many files it is; 1 of a pack that nobody has looked into yet.
    pub files: u64,
    /// Bytes of its chunks on the way.
    pub wire_len: u64,
    /// 0 is served first, 7 last.
    pub priority: u8,
    /// By when it should be delivered, seconds since 1970; 0 if nothing is said.
    pub deadline_s: u64,
}

impl Candidate {
    /// How it is offered.
    pub fn offer(&self) -> Offer {
        let Self { object, manifest_len, wire_len, priority, deadline_s, .. } = *self;
        Offer { object, manifest_len, wire_len, priority, deadline_s }
    }
}

impl Depot {
    /// Whole objects that a peer is to be given, at most `max`, the most urgent first: by priority, deadline and age. Not those that it
    /// has, refused or is the source of, nor what is delivered or has expired, nor those that `exclude` holds for. Needs no more time than
    /// there are objects given out and excluded.
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub fn candidates(
        &mut self,
        peer: &PublicKey,
        max: usize,
        exclude: impl Fn(&ObjectId) -> bool,
    ) -> Result<Vec<Candidate>, DepotError> {
        let peer = self.peer(peer)?;
        let now_s = now_s();
        let mut find = self.db.prepare_cached(
            "SELECT object.object, manifest_len, wire_len, object.priority, deadline_s, parts, files, expires_s
             FROM todo CROSS JOIN object ON object.id = todo.object WHERE todo.peer = ?
             ORDER BY todo.priority, todo.deadline, todo.object",
        )?;
        let mut rows = find.query([peer])?;
        let mut candidates = Vec::new();
        while candidates.len() < max
            && let Some(row) = rows.next()?
        {
            let number = |index| row.get::<_, i64>(index).map(|number| number as u64);
            let candidate = Candidate {
                object: ObjectId(Hash(row.get(0)?)),
                manifest_len: row.get(1)?,
                wire_len: number(2)?,
                priority: row.get(3)?,
                deadline_s: number(4)?,
                chunks: number(5)?,
                files: number(6)?.max(1),
            };
            let expires_s = number(7)?;
            if (expires_s == 0 || expires_s > now_s) && !exclude(&candidate.object) {
                candidates.push(candidate);
            }
        }
        Ok(candidates)
    }

    /// All that waits for a peer, in the order of [`Depot::candidates`]. Needs as much time as there are objects: some 0.05 s for 100,000.
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub fn queue(&mut self, peer: &PublicKey) -> Result<Vec<Queued>, DepotError> {
        let peer = self.peer(peer)?;
        let mut find = self.db.prepare_cached(
            "SELECT object.object, files, wire_len, object.priority, deadline_s
             FROM todo CROSS JOIN object ON object.id = todo.object
             WHERE todo.peer = ? AND (expires_s = 0 OR expires_s > ?)
             ORDER BY todo.priority, todo.deadline, todo.object",
        )?;
        let rows = find.query_map((peer, now_s() as i64), |row| {
            let number = |index| row.get::<_, i64>(index).map(|number| number as u64);
            Ok(Queued {
                object: ObjectId(Hash(row.get(0)?)),
                files: number(1)?.max(1),
                wire_len: number(2)?,
                priority: row.get(3)?,
                deadline_s: number(4)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Looks into packs of other stores, at most so many, for how many files they are. Whether any was there to be looked into.
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub fn count_files(&mut self, max: usize) -> Result<bool, DepotError> {
        let packs: Vec<(i64, ObjectId)> = {
            let mut find = self.db.prepare_cached(
                "SELECT id, object FROM object WHERE files = 0 AND state IN (1, 3) AND missing = 0 LIMIT ?",
            )?;
            let rows = find.query_map([max as i64], |row| Ok((row.get(0)?, ObjectId(Hash(row.get(1)?)))))?;
            rows.collect::<Result<_, _>>()?
        };
        for (id, object) in &packs {
            // What cannot be read, or is no pack, is one thing that waits all the same.
            let count = self.with_content(object, 1, |content| Ok(pack::count(content))).ok().flatten();
            let mut set = self.db.prepare_cached("UPDATE object SET files = ? WHERE id = ? AND files = 0")?;
            set.execute((count.unwrap_or(1) as i64, id))?;
        }
        Ok(!packs.is_empty())
    }

    /// Reads a part of an object: 0 is its manifest, n its nth chunk as it travels. It is verified.
    ///
    /// # Errors
    /// [`DepotError::Unknown`] if it is not here (any more); [`DepotError::Damaged`] if it cannot be read or is not what it was. Then it
    /// counts as missing: an object of another store is fetched again when somebody has it, one of ours is given to nobody any more, is
    /// told by [`Depot::health`], and taken anew if its file is in the spool.
    pub fn load(&mut self, object: &ObjectId, part: u64) -> Result<Bytes, DepotError> {
        if part == 0 {
            return self.load_manifest(object);
        }
        // What was moved or freed by another process between looking and reading is looked for once more.
        for _ in 0..2 {
            let row = find_part(&self.db, object, part)?.ok_or(DepotError::Unknown(*object))?;
            let Some(place) = row.place.or_else(|| self.pending.get(&row.id).copied()) else {
                return Err(DepotError::Damaged { object: *object, part });
            };
            let read = self.disk.readers.read(place);
            if let Ok(bytes) = &read
                && self.squeezer.open(&row.chunk, bytes).is_some()
            {
                return Ok(read.unwrap_or_default().into());
            }
            let again = find_part(&self.db, object, part)?;
            if again.is_some_and(|again| again.id == row.id && again.place == row.place) {
                tracing::error!(object = crate::error::short(object), part, error = ?read.err(), "a chunk is damaged");
                self.disk.readers.forget(place.segment);
                self.flush()?;
                self.now(|tx| state::on_damaged(tx, row.id, now_s()))?;
                return Err(DepotError::Damaged { object: *object, part });
            }
        }
        Err(DepotError::Unknown(*object))
    }

    /// Does something with the content of a chunk.
    pub(crate) fn with_content<T>(
        &mut self,
        object: &ObjectId,
        part: u64,
        work: impl FnOnce(&[u8]) -> Result<T, DepotError>,
    ) -> Result<T, DepotError> {
        let wire = self.load(object, part)?;
        let row = find_part(&self.db, object, part)?.ok_or(DepotError::Unknown(*object))?;
        let content = self.squeezer.open(&row.chunk, &wire);
        work(content.ok_or(DepotError::Damaged { object: *object, part })?)
    }

    fn load_manifest(&mut self, object: &ObjectId) -> Result<Bytes, DepotError> {
        let mut find = self.db.prepare_cached(
            "SELECT bytes FROM manifest JOIN object ON object.id = manifest.object
             WHERE object.object = ? AND object.state > 0",
        )?;
        let bytes: Option<Vec<u8>> = find.query_row([object.0.0], |row| row.get(0)).optional()?;
        let bytes = bytes.ok_or(DepotError::Unknown(*object))?;
        if Hash::of(&bytes) != object.0 {
            return Err(DepotError::Damaged { object: *object, part: 0 });
        }
        Ok(bytes.into())
    }

    /// A peer has custody of an object. Its signature for that comes by itself, and is what counts.
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub fn on_given(&mut self, peer: &PublicKey, object: &ObjectId) -> Result<(), DepotError> {
        self.on_told(peer, object, Told::Given)
    }

    /// A peer does not want an object.
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub fn on_refused(&mut self, peer: &PublicKey, object: &ObjectId) -> Result<(), DepotError> {
        self.on_told(peer, object, Told::Refused)
    }

    fn on_told(&mut self, peer: &PublicKey, object: &ObjectId, what: Told) -> Result<(), DepotError> {
        let peer = self.peer(peer)?;
        let tx = db::begin(&mut self.db, Promise::Later)?;
        if let Some(object) = state::find(&tx, object)? {
            state::told(&tx, &object, peer, what)?;
        }
        tx.commit()?;
        Ok(())
    }
}

/// The row of a part.
fn find_part(db: &Connection, object: &ObjectId, part: u64) -> Result<Option<chunks::Row>, DepotError> {
    let sql = format!(
        "SELECT {} FROM object JOIN part ON part.object = object.id JOIN chunk ON chunk.id = part.chunk
         WHERE object.object = ? AND part.part = ? AND object.state > 0",
        chunks::COLUMNS
    );
    let mut find = db.prepare_cached(&sql)?;
    Ok(find.query_row((object.0.0, part as i64), |row| chunks::row(row, 0)).optional()?)
}
