//! Rows of chunks: which there are, where, and who needs them.

use aquila_proto::transfer::{Chunk, Hash};
use rusqlite::{Connection, OptionalExtension};

use crate::error::DepotError;
use crate::segment::Place;

/// A row.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub id: i64,
    pub chunk: Chunk,
    /// `None` if it is missing.
    pub place: Option<Place>,
}

/// Columns of [`row`].
pub const COLUMNS: &str = "chunk.id, chunk.hash, chunk.len, chunk.compressed, chunk.segment, chunk.at";

/// Reads a row, of which the first column is the one with this index.
pub fn row(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Row> {
    let chunk = Chunk { hash: Hash(row.get(first + 1)?), len: row.get(first + 2)?, compressed: row.get(first + 3)? };
    let place = match row.get::<_, Option<i64>>(first + 4)? {
        Some(segment) => Some(Place { segment, at: row.get::<_, i64>(first + 5)? as u64, len: chunk.wire_len() }),
        None => None,
    };
    Ok(Row { id: row.get(first)?, chunk, place })
}

/// What chunks are found by: the beginning of their hash.
fn tag(hash: &Hash) -> i64 {
    i64::from_be_bytes(*hash.0.first_chunk().unwrap_or(&[0; 8]))
}

/// The row of a chunk in this form.
pub fn find(db: &Connection, chunk: &Chunk) -> Result<Option<Row>, DepotError> {
    let sql = format!("SELECT {COLUMNS} FROM chunk WHERE tag = ? AND hash = ? AND compressed = ? AND len = ?");
    let mut find = db.prepare_cached(&sql)?;
    let key = (tag(&chunk.hash), chunk.hash.0, chunk.compressed, chunk.len);
    Ok(find.query_row(key, |found| row(found, 0)).optional()?)
}

/// A chunk of this content that is there, in whatever form.
pub fn find_content(db: &Connection, hash: &Hash) -> Result<Option<Chunk>, DepotError> {
    let sql = format!("SELECT {COLUMNS} FROM chunk WHERE tag = ? AND hash = ? AND segment IS NOT NULL LIMIT 1");
    let mut find = db.prepare_cached(&sql)?;
    Ok(find.query_row((tag(hash), hash.0), |found| row(found, 0)).optional()?.map(|row| row.chunk))
}

/// A row for a chunk that is missing.
pub fn insert(db: &Connection, chunk: &Chunk) -> Result<i64, DepotError> {
    let mut insert = db.prepare_cached("INSERT INTO chunk (tag, hash, len, compressed) VALUES (?, ?, ?, ?)")?;
    Ok(insert.insert((tag(&chunk.hash), chunk.hash.0, chunk.len, chunk.compressed))?)
}

/// An object needs a chunk as one of its parts.
pub fn need(db: &Connection, object: i64, part: u64, chunk: i64) -> Result<(), DepotError> {
    db.prepare_cached("INSERT INTO part VALUES (?, ?, ?)")?.execute((object, part as i64, chunk))?;
    Ok(())
}

/// A chunk is there. If somebody else brought it before, or nobody needs it any more, its place is dead. Whoever misses it misses one
/// less.
pub fn put(db: &Connection, id: i64, place: Place) -> Result<(), DepotError> {
    let mut set = db.prepare_cached("UPDATE chunk SET segment = ?, at = ? WHERE id = ? AND segment IS NULL")?;
    if set.execute((place.segment, place.at as i64, id))? == 0 {
        return bury(db, vec![place], false);
    }
    db.prepare_cached("UPDATE segment SET live = live + ? WHERE id = ?")?.execute((place.len, place.segment))?;
    let mut had = db.prepare_cached(
        "UPDATE object SET missing = missing - n, missing_len = missing_len - n * ?1
         FROM (SELECT object AS o, count(*) AS n FROM part WHERE chunk = ?2 GROUP BY object) WHERE id = o",
    )?;
    had.execute((place.len, id))?;
    Ok(())
}

/// An object needs its chunks no more: those that nobody needs are given back.
pub fn free(db: &Connection, object: i64) -> Result<(), DepotError> {
    let mut find = db.prepare_cached("SELECT DISTINCT chunk FROM part WHERE object = ?")?;
    let needed: Vec<i64> = find.query_map([object], |row| row.get(0))?.collect::<Result<_, _>>()?;
    db.prepare_cached("DELETE FROM part WHERE object = ?")?.execute([object])?;
    let mut remove = db.prepare_cached(&format!(
        "DELETE FROM chunk WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM part WHERE part.chunk = ?1) RETURNING {COLUMNS}"
    ))?;
    let mut places = Vec::new();
    for id in needed {
        let freed = remove.query_row([id], |found| row(found, 0)).optional()?;
        places.extend(freed.and_then(|row| row.place));
    }
    bury(db, places, true)
}

/// A chunk is not what it should be. How long it is on the way.
pub fn damaged(db: &Connection, id: i64) -> Result<u32, DepotError> {
    let mut find = db.prepare_cached(&format!("SELECT {COLUMNS} FROM chunk WHERE id = ?"))?;
    let row = find.query_row([id], |found| row(found, 0))?;
    db.prepare_cached("UPDATE chunk SET segment = NULL, at = NULL WHERE id = ?")?.execute([id])?;
    bury(db, row.place.into_iter().collect(), true)?;
    Ok(row.chunk.wire_len())
}

/// Nothing needs these places any more.
pub fn bury(db: &Connection, mut places: Vec<Place>, were_alive: bool) -> Result<(), DepotError> {
    places.sort_unstable_by_key(|place| (place.segment, place.at));
    let mut merged: Vec<Place> = Vec::new();
    for place in places {
        match merged.last_mut() {
            Some(last)
                if last.segment == place.segment
                    && last.at + u64::from(last.len) == place.at
                    && last.len.checked_add(place.len).is_some() =>
            {
                last.len += place.len;
            }
            _ => merged.push(place),
        }
    }
    let mut add = db.prepare_cached("INSERT INTO dead VALUES (?, ?, ?)")?;
    let mut less = db.prepare_cached("UPDATE segment SET live = live - ? WHERE id = ?")?;
    for place in merged {
        add.execute((place.segment, place.at as i64, place.len))?;
        if were_alive {
            less.execute((place.len, place.segment))?;
        }
    }
    Ok(())
}
