//! Objects that other stores are to have.

use aquila_proto::identity::PublicKey;
use aquila_proto::transfer::{Hash, ObjectId, Offer};
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension};

use crate::chunks;
use crate::db::{self, Promise};
use crate::depot::{Depot, now_s};
use crate::error::DepotError;
use crate::state::{self, Told};

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
            "SELECT object.object, manifest_len, wire_len, object.priority, deadline_s, parts, expires_s
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
            };
            let expires_s = number(6)?;
            if (expires_s == 0 || expires_s > now_s) && !exclude(&candidate.object) {
                candidates.push(candidate);
            }
        }
        Ok(candidates)
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
