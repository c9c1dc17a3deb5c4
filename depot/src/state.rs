//! What becomes of an object, and what that means for its rows.

use aquila_proto::identity::PublicKey;
use aquila_proto::transfer::{Hash, Kind, ObjectId, StoreId};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Connection, OptionalExtension};

use crate::chunks;
use crate::config::Delete;
use crate::error::DepotError;

/// How far an object is. It only ever goes on from one to a later one, save that an object in custody of which a chunk turns out to be
/// damaged is incomplete again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Put here, and not yet with anybody else.
    Queued = 1,
    /// Coming from another store, and not all there.
    Partial = 2,
    /// Whole and sure to survive a power cut: here, or, of what was put here, in another store that has signed for it.
    Custody = 3,
    /// A shore has signed for it, or it was handed over here.
    Delivered = 4,
    /// Done with: its chunks are given back.
    Released = 5,
    /// Nobody wants it any more.
    Expired = 6,
    /// It could not be handed over, and never can.
    Refused = 7,
    /// Coming from another store, all there and verified, and not yet sure to survive a power cut. Those who look see it; the database has it
    /// as [`State::Partial`] with nothing missing.
    Verified = 8,
}

/// The state that those who look see, of a row of the database.
pub const SEEN: &str = "CASE WHEN state = 2 AND missing = 0 THEN 8 ELSE state END";

impl State {
    /// All of them, in order.
    pub const ALL: [Self; 8] = [
        Self::Queued,
        Self::Partial,
        Self::Verified,
        Self::Custody,
        Self::Delivered,
        Self::Released,
        Self::Expired,
        Self::Refused,
    ];

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Partial => "partial",
            Self::Verified => "verified",
            Self::Custody => "custody",
            Self::Delivered => "delivered",
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Refused => "refused",
        }
    }
}

impl FromSql for State {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let value = value.as_i64()?;
        Self::ALL.into_iter().find(|state| *state as i64 == value).ok_or(FromSqlError::OutOfRange(value))
    }
}

/// Where an object comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Put by name.
    Put = 0,
    /// Of the spool.
    Spool = 1,
    /// Of another store.
    Taken = 2,
}

/// What is known of an object, as far as most need it.
#[derive(Debug, Clone)]
pub struct Known {
    pub id: i64,
    pub state: State,
    pub is_ours: bool,
    pub missing: u64,
    pub priority: u8,
    pub deadline_s: u64,
    pub key: PublicKey,
    pub source: StoreId,
    pub number: u64,
    pub for_us: bool,
    pub reason: String,
}

const KNOWN: &str =
    "SELECT id, state, origin, missing, priority, deadline_s, key, source, number, for_us, reason FROM object";

fn known(row: &rusqlite::Row<'_>) -> rusqlite::Result<Known> {
    Ok(Known {
        id: row.get(0)?,
        state: row.get(1)?,
        is_ours: row.get::<_, i64>(2)? != Origin::Taken as i64,
        missing: row.get::<_, i64>(3)? as u64,
        priority: row.get(4)?,
        deadline_s: row.get::<_, i64>(5)? as u64,
        key: PublicKey(row.get(6)?),
        source: StoreId(row.get(7)?),
        number: row.get::<_, i64>(8)? as u64,
        for_us: row.get(9)?,
        reason: row.get(10)?,
    })
}

/// What is known of an object; nothing of those that are only just being put.
pub fn find(db: &Connection, object: &ObjectId) -> Result<Option<Known>, DepotError> {
    let mut find = db.prepare_cached(&format!("{KNOWN} WHERE object = ? AND state > 0"))?;
    Ok(find.query_row([object.0.0], known).optional()?)
}

/// The same, by row.
pub fn get(db: &Connection, id: i64) -> Result<Known, DepotError> {
    let mut find = db.prepare_cached(&format!("{KNOWN} WHERE id = ? AND state > 0"))?;
    Ok(find.query_row([id], known)?)
}

/// Objects of a store with numbers in a range, by number; at most a thousand at a time.
pub fn numbered(db: &Connection, source: StoreId, start: u64, end: u64) -> Result<Vec<Known>, DepotError> {
    let mut find = db.prepare_cached(&format!(
        "{KNOWN} WHERE source = ? AND number >= ? AND number < ? AND state > 0
         ORDER BY number LIMIT 1000"
    ))?;
    let rows = find.query_map((source.0, start as i64, end as i64), known)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The name of an object.
pub fn name(db: &Connection, id: i64) -> Result<ObjectId, DepotError> {
    let mut find = db.prepare_cached("SELECT object FROM object WHERE id = ?")?;
    Ok(ObjectId(Hash(find.query_row([id], |row| row.get(0))?)))
}

/// What a kind is called in the database.
pub fn kind(code: i64) -> Kind {
    [Kind::File, Kind::Pack, Kind::Bundle].get(code as usize).copied().unwrap_or(Kind::File)
}

fn set(db: &Connection, id: i64, state: State, now_s: u64, reason: &str) -> Result<(), DepotError> {
    let mut set = db.prepare_cached("UPDATE object SET state = ?, changed_s = ?, reason = ? WHERE id = ?")?;
    set.execute((state as i64, now_s as i64, reason, id))?;
    Ok(())
}

/// Deadlines in the order in which they are served.
pub fn deadline_key(deadline_s: u64) -> i64 {
    if deadline_s == 0 { i64::MAX } else { deadline_s as i64 }
}

/// Puts an object on the list of each peer that should have it.
pub fn enqueue(db: &Connection, object: &Known) -> Result<(), DepotError> {
    let mut add = db.prepare_cached(
        "INSERT OR IGNORE INTO todo SELECT id, ?1, ?2, ?3 FROM peer
         WHERE key <> ?4 AND NOT EXISTS (SELECT 1 FROM told WHERE object = ?3 AND peer = peer.id)",
    )?;
    add.execute((object.priority, deadline_key(object.deadline_s), object.id, object.key.0))?;
    Ok(())
}

/// Takes an object off all lists.
fn dequeue(db: &Connection, object: &Known) -> Result<(), DepotError> {
    let mut remove = db.prepare_cached(
        "DELETE FROM todo WHERE peer IN (SELECT id FROM peer) AND priority = ? AND deadline = ? AND object = ?",
    )?;
    remove.execute((object.priority, deadline_key(object.deadline_s), object.id))?;
    Ok(())
}

/// What a peer was told, or told us, of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It has it from us.
    Given = 0,
    /// It offered it.
    Has = 1,
    /// It does not want it.
    Refused = 2,
}

/// A peer needs an object no more.
pub fn told(db: &Connection, object: &Known, peer: i64, what: Told) -> Result<(), DepotError> {
    db.prepare_cached("INSERT OR REPLACE INTO told VALUES (?, ?, ?)")?.execute((object.id, peer, what as i64))?;
    let mut remove =
        db.prepare_cached("DELETE FROM todo WHERE peer = ? AND priority = ? AND deadline = ? AND object = ?")?;
    remove.execute((peer, object.priority, deadline_key(object.deadline_s), object.id))?;
    Ok(())
}

/// Another store, whose word it is, has taken custody of an object. Whether it was released.
pub fn on_custody(db: &Connection, object: &Known, delete: Delete, now_s: u64) -> Result<bool, DepotError> {
    match object.state {
        State::Queued | State::Custody if delete == Delete::AfterCustody && !object.for_us => {
            release(db, object, delete, now_s)?;
            Ok(true)
        }
        State::Queued => {
            set(db, object.id, State::Custody, now_s, &object.reason)?;
            Ok(false)
        }
        _ => Ok(false),
    }
}

/// A shore has signed for an object, or it was handed over here. Whether that is new.
pub fn on_delivered(db: &Connection, object: &Known, delete: Delete, now_s: u64) -> Result<bool, DepotError> {
    let is_new = matches!(object.state, State::Queued | State::Partial | State::Custody | State::Delivered);
    if is_new {
        release(db, object, delete, now_s)?;
    }
    Ok(is_new)
}

/// Gives an object up that is where it was to go: the chunks of files may serve the next version for a while.
fn release(db: &Connection, object: &Known, delete: Delete, now_s: u64) -> Result<(), DepotError> {
    dequeue(db, object)?;
    set(db, object.id, State::Released, now_s, "")?;
    if delete != Delete::Never {
        db.prepare_cached("UPDATE spool SET due = 1 WHERE object = ?")?.execute([object.id])?;
    }
    drop_manifest(db, object.id)?;
    let mut keep =
        db.prepare_cached("UPDATE object SET kept = 1 WHERE id = ? AND kind = 0 AND parts > 1 AND missing = 0")?;
    if keep.execute([object.id])? == 0 {
        chunks::free(db, object.id)?;
    }
    Ok(())
}

/// Gives an object up that is of no use.
pub fn give_up(db: &Connection, object: &Known, state: State, now_s: u64, reason: &str) -> Result<(), DepotError> {
    dequeue(db, object)?;
    set(db, object.id, state, now_s, reason)?;
    drop_manifest(db, object.id)?;
    chunks::free(db, object.id)
}

fn drop_manifest(db: &Connection, id: i64) -> Result<(), DepotError> {
    db.prepare_cached("DELETE FROM manifest WHERE object = ?")?.execute([id])?;
    Ok(())
}

/// Gives back chunks that are only kept for next versions, the oldest first, until they are at most so many bytes. How many were given
/// back.
pub fn trim(db: &Connection, keep: u64) -> Result<u64, DepotError> {
    let mut sum = db.prepare_cached("SELECT coalesce(sum(wire_len), 0) FROM object WHERE kept = 1")?;
    let mut kept: i64 = sum.query_row([], |row| row.get(0))?;
    let mut oldest =
        db.prepare_cached("SELECT id, wire_len FROM object WHERE kept = 1 ORDER BY changed_s, id LIMIT 1")?;
    let mut freed = 0;
    while kept > keep.min(i64::MAX as u64) as i64 {
        let Some((id, len)) =
            oldest.query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))).optional()?
        else {
            break;
        };
        db.prepare_cached("UPDATE object SET kept = 0 WHERE id = ?")?.execute([id])?;
        chunks::free(db, id)?;
        kept -= len;
        freed += len as u64;
    }
    Ok(freed)
}

/// A chunk turned out to be damaged. What needs it is incomplete again; what was put here cannot be given to anybody any more, and is
/// taken anew if it is still in the spool.
pub fn on_damaged(db: &Connection, chunk: i64, now_s: u64) -> Result<(), DepotError> {
    let mut parts = db.prepare_cached("SELECT object, count(*) FROM part WHERE chunk = ? GROUP BY object")?;
    let rows = parts.query_map([chunk], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    let rows: Vec<(i64, i64)> = rows.collect::<Result<_, _>>()?;
    let len = chunks::damaged(db, chunk)?;
    for (id, count) in rows {
        db.prepare_cached("UPDATE object SET missing = missing + ?, missing_len = missing_len + ? WHERE id = ?")?
            .execute((count, count * i64::from(len), id))?;
        let object = match get(db, id) {
            Ok(object) => object,
            Err(DepotError::Database(rusqlite::Error::QueryReturnedNoRows)) => continue,
            Err(error) => return Err(error),
        };
        match object.state {
            State::Custody if !object.is_ours => {
                dequeue(db, &object)?;
                set(db, id, State::Partial, now_s, "damaged")?;
            }
            State::Queued | State::Custody => {
                dequeue(db, &object)?;
                set(db, id, object.state, now_s, "damaged")?;
                db.prepare_cached("DELETE FROM spool WHERE object = ?")?.execute([id])?;
                db.prepare_cached("DELETE FROM latest WHERE object = ?")?.execute([id])?;
            }
            _ => {}
        }
    }
    Ok(())
}
