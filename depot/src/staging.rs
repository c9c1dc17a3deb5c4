//! Objects that were put here and are not promised yet.

use std::collections::HashMap;

use aquila_proto::transfer::{Chunk, Hash, Manifest, ObjectId};
use bytes::Bytes;
use rusqlite::Connection;

use crate::chunks;
use crate::depot::Committed;
use crate::error::DepotError;
use crate::segment::Place;
use crate::spool::Stat;
use crate::state::{self, Origin};

/// Chunks in memory, at most.
const MAX_CHUNKS: usize = 2048;
/// Objects.
const MAX_OBJECTS: usize = 1024;
/// Bytes of manifests.
const MAX_MANIFESTS: usize = 2 << 20;

/// A chunk of an object that is being put; without a place it was there.
#[derive(Debug, Clone, Copy)]
struct Slot {
    chunk: Chunk,
    place: Option<Place>,
}

/// A file of an object: its path, what is in it, and what it was in the spool.
#[derive(Debug, Clone)]
pub struct FileOf {
    pub path: String,
    pub hash: Hash,
    pub stat: Option<Stat>,
}

/// An object that is whole.
#[derive(Debug)]
struct Whole {
    object: ObjectId,
    manifest: Bytes,
    /// Without chunks.
    said: Manifest,
    origin: Origin,
    size: u64,
    wire_len: u64,
    files: Vec<FileOf>,
}

/// An object that is being put.
#[derive(Debug, Default)]
struct Staged {
    row: Option<i64>,
    /// Chunks that the database has.
    noted: u64,
    slots: Vec<Slot>,
    whole: Option<Whole>,
    lost: bool,
}

/// What was put and is not promised.
#[derive(Debug, Default)]
pub struct Staging {
    staged: Vec<Staged>,
    /// Chunks that were written for them.
    fresh: HashMap<Hash, (Chunk, Place)>,
    /// The newest versions of their paths.
    newest: HashMap<String, (Hash, ObjectId, u64)>,
    /// Places of those that were given up.
    dead: Vec<Place>,
    /// Rows to be removed.
    orphans: Vec<i64>,
}

impl Staging {
    pub fn is_empty(&self) -> bool {
        self.staged.is_empty() && self.dead.is_empty() && self.orphans.is_empty()
    }

    /// Whether it is time to write down what there is.
    pub fn is_heavy(&self) -> bool {
        let unnoted = self.staged.iter().rev().take_while(|staged| !staged.slots.is_empty() || staged.row.is_none());
        let (mut objects, mut manifests, mut slots) = (0, 0, 0);
        for staged in unnoted {
            objects += 1;
            slots += staged.slots.len();
            manifests += staged.whole.as_ref().map_or(0, |whole| whole.manifest.len());
        }
        objects >= MAX_OBJECTS || slots >= MAX_CHUNKS || manifests >= MAX_MANIFESTS
    }

    /// Whether so much was put that it should be promised before anybody asks.
    pub fn is_long(&self) -> bool {
        self.staged.len() >= MAX_OBJECTS
    }

    /// Bytes of chunks that the database does not know of.
    pub fn unnoted(&self) -> u64 {
        self.fresh.values().map(|(_, place)| u64::from(place.len)).sum()
    }

    /// A chunk of this content that was written just now.
    pub fn find(&self, hash: &Hash) -> Option<Chunk> {
        self.fresh.get(hash).map(|(chunk, _)| *chunk)
    }

    /// Another object is put.
    pub fn begin(&mut self) {
        self.staged.push(Staged::default());
    }

    /// Its next chunk, and where that was written, if it was.
    pub fn push(&mut self, chunk: Chunk, place: Option<Place>) {
        if let Some(place) = place {
            self.fresh.insert(chunk.hash, (chunk, place));
        }
        // What was written for an object before, and is not noted yet, is noted with that.
        if let Some(staged) = self.staged.last_mut() {
            staged.slots.push(Slot { chunk, place });
        }
    }

    /// The object that was begun last is not put after all.
    pub fn give_up(&mut self) {
        let Some(staged) = self.staged.pop() else { return };
        for slot in staged.slots {
            if let Some(place) = slot.place {
                self.fresh.remove(&slot.chunk.hash);
                self.dead.push(place);
            }
        }
        self.orphans.extend(staged.row);
    }

    /// The object that was begun last is whole.
    pub fn finish(&mut self, object: ObjectId, manifest: Bytes, said: &Manifest, origin: Origin, files: Vec<FileOf>) {
        let size = said.size();
        let wire_len = said.chunks.iter().map(|chunk| u64::from(chunk.wire_len())).sum();
        let said =
            Manifest { chunks: Vec::new(), destination: said.destination.clone(), path: said.path.clone(), ..*said };
        let newest = |file: &FileOf| (file.path.clone(), (file.hash, object, said.number));
        self.newest.extend(files.iter().map(newest));
        if let Some(staged) = self.staged.last_mut() {
            staged.whole = Some(Whole { object, manifest, said, origin, size, wire_len, files });
        }
    }

    /// The newest version of a path that is put and not promised yet: what is in it, and which object it is.
    pub fn newest(&self, path: &str) -> Option<(Hash, ObjectId, u64)> {
        self.newest.get(path).copied()
    }

    /// Forgets all: nothing that was written is sure to be there.
    pub fn forget(&mut self) {
        let rows = self.staged.drain(..).filter_map(|staged| staged.row);
        self.orphans.extend(rows);
        self.newest.clear();
        self.fresh.clear();
        self.dead.clear();
    }

    /// Writes down what there is; what has become of each is told to [`Staging::noted`] when that is committed.
    pub fn note(&self, db: &Connection, writer: Option<i64>) -> Result<Vec<Noted>, DepotError> {
        for row in &self.orphans {
            chunks::free(db, *row)?;
            db.prepare_cached("DELETE FROM object WHERE id = ?")?.execute([row])?;
        }
        chunks::bury(db, self.dead.clone(), false)?;
        self.staged.iter().map(|staged| staged.note(db, writer)).collect()
    }

    /// What was written down is.
    pub fn noted(&mut self, noted: Vec<Noted>) {
        for (staged, noted) in self.staged.iter_mut().zip(noted) {
            staged.row = Some(noted.row);
            staged.noted += staged.slots.len() as u64;
            staged.slots = Vec::new();
            staged.lost |= noted.lost;
            if let Some(whole) = &mut staged.whole {
                whole.manifest = Bytes::new();
            }
        }
        self.fresh.clear();
        self.dead.clear();
        self.orphans.clear();
    }

    /// Puts what is whole into the queue.
    pub fn promise(&self, db: &Connection, now_s: u64, committed: &mut Committed) -> Result<(), DepotError> {
        for staged in &self.staged {
            let (Some(whole), Some(row)) = (&staged.whole, staged.row) else { continue };
            if staged.lost {
                chunks::free(db, row)?;
                db.prepare_cached("DELETE FROM object WHERE id = ?")?.execute([row])?;
                committed.lost.push(whole.object);
                continue;
            }
            db.prepare_cached("UPDATE object SET state = 1, writer = NULL, changed_s = ? WHERE id = ?")?
                .execute((now_s as i64, row))?;
            state::enqueue(db, &state::get(db, row)?)?;
            for file in &whole.files {
                db.prepare_cached("INSERT OR REPLACE INTO latest VALUES (?, ?, ?)")?.execute((
                    &file.path,
                    file.hash.0,
                    row,
                ))?;
                if let Some(stat) = &file.stat {
                    stat.remember(db, &file.path, row, false)?;
                }
            }
            committed.queued.push(whole.object);
        }
        Ok(())
    }

    /// What was whole is promised.
    pub fn promised(&mut self) {
        self.staged.retain(|staged| staged.whole.is_none());
        self.newest.clear();
    }
}

/// What became of an object in the database.
#[derive(Debug, Clone, Copy)]
pub struct Noted {
    row: i64,
    /// A chunk that it was to share is gone.
    lost: bool,
}

impl Staged {
    fn note(&self, db: &Connection, writer: Option<i64>) -> Result<Noted, DepotError> {
        let row = match self.row {
            Some(row) => row,
            None => {
                let mut insert = db.prepare_cached("INSERT INTO object (state, origin, writer) VALUES (0, 0, ?)")?;
                insert.insert([writer])?
            }
        };
        let mut lost = self.lost;
        for (slot, part) in self.slots.iter().zip(self.noted + 1..) {
            let found = chunks::find(db, &slot.chunk)?;
            let chunk = match (found, slot.place) {
                (Some(found), place) => {
                    if let Some(place) = place {
                        chunks::put(db, found.id, place)?;
                    }
                    lost |= place.is_none() && found.place.is_none();
                    found.id
                }
                (None, Some(place)) => {
                    let id = chunks::insert(db, &slot.chunk)?;
                    chunks::put(db, id, place)?;
                    id
                }
                (None, None) => {
                    lost = true;
                    continue;
                }
            };
            chunks::need(db, row, part, chunk)?;
        }
        if let Some(whole) = self.whole.as_ref().filter(|whole| !whole.manifest.is_empty()) {
            whole.note(db, row, self.noted + self.slots.len() as u64)?;
        }
        Ok(Noted { row, lost })
    }
}

impl Whole {
    fn note(&self, db: &Connection, row: i64, parts: u64) -> Result<(), DepotError> {
        describe(db, row, &self.object, &self.said, self.manifest.len())?;
        let mut set = db.prepare_cached(
            "UPDATE object SET origin = ?, size = ?, wire_len = ?, parts = ?, files = ? WHERE id = ?",
        )?;
        // A bundle has no file, and counts as one.
        let files = self.files.len().max(1) as i64;
        set.execute((self.origin as i64, self.size as i64, self.wire_len as i64, parts as i64, files, row))?;
        db.prepare_cached("INSERT INTO manifest VALUES (?, ?)")?.execute((row, &self.manifest[..]))?;
        Ok(())
    }
}

/// Writes down what a manifest says, its chunks left out.
pub fn describe(
    db: &Connection,
    row: i64,
    object: &ObjectId,
    said: &Manifest,
    manifest_len: usize,
) -> Result<(), DepotError> {
    let mut set = db.prepare_cached(
        "UPDATE object SET object = ?, kind = ?, source = ?, key = ?, number = ?, priority = ?, created_s = ?,
         deadline_s = ?, expires_s = ?, destination = ?, path = ?, modified_ns = ?, hash = ?, manifest_len = ?
         WHERE id = ?",
    )?;
    set.execute(rusqlite::params![
        object.0.0,
        said.kind as i64,
        said.source.0,
        said.key.0,
        said.number as i64,
        said.priority,
        said.created_s as i64,
        said.deadline_s as i64,
        said.expires_s as i64,
        said.destination,
        said.path,
        said.modified_ns,
        said.hash.0,
        manifest_len as i64,
        row
    ])?;
    Ok(())
}
