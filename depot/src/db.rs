//! The database: its tables, and transactions that are sure to survive a power cut, or not.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior};

use crate::error::DepotError;

/// Of the tables.
pub const VERSION: i64 = 2;

/// Other processes hold the database for a moment, or for as long as the largest object takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether what is written must survive a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// It will, if anything that is promised later does.
    Later,
    /// Before the call returns.
    Now,
}

/// What is written down.
///
/// `object` are the objects, `part` the chunks of each in order, `chunk` the chunks that any of them needs; those without a segment are
/// missing. `todo` is what each peer is to be given, in order; `told` what each had, gave or refused. `latest` are the newest versions
/// of paths that come from here, `spool` the files that were taken from there, `shore` those that were written ashore. `dead` are
/// places in segments that nothing needs.
///
/// `files` of an object is 0 for packs of other stores until somebody has looked into them, see [`UNCOUNTED`].
const TABLES: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE object (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    object BLOB,
    state INTEGER NOT NULL,
    origin INTEGER NOT NULL,
    writer INTEGER,
    kind INTEGER NOT NULL DEFAULT 0,
    source BLOB NOT NULL DEFAULT x'',
    key BLOB NOT NULL DEFAULT x'',
    number INTEGER NOT NULL DEFAULT 0,
    priority INTEGER NOT NULL DEFAULT 0,
    created_s INTEGER NOT NULL DEFAULT 0,
    deadline_s INTEGER NOT NULL DEFAULT 0,
    expires_s INTEGER NOT NULL DEFAULT 0,
    destination TEXT NOT NULL DEFAULT '',
    path TEXT NOT NULL DEFAULT '',
    modified_ns INTEGER NOT NULL DEFAULT 0,
    hash BLOB NOT NULL DEFAULT x'',
    size INTEGER NOT NULL DEFAULT 0,
    wire_len INTEGER NOT NULL DEFAULT 0,
    manifest_len INTEGER NOT NULL DEFAULT 0,
    parts INTEGER NOT NULL DEFAULT 0,
    missing INTEGER NOT NULL DEFAULT 0,
    missing_len INTEGER NOT NULL DEFAULT 0,
    for_us INTEGER NOT NULL DEFAULT 0,
    kept INTEGER NOT NULL DEFAULT 0,
    files INTEGER NOT NULL DEFAULT 1,
    changed_s INTEGER NOT NULL DEFAULT 0,
    reason TEXT NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX object_name ON object (object);
CREATE INDEX object_number ON object (source, number);
CREATE INDEX object_state ON object (state, size, wire_len);
CREATE INDEX object_partial ON object (priority, id, missing_len) WHERE state = 2;
CREATE INDEX object_whole ON object (id) WHERE state = 2 AND missing = 0;
CREATE INDEX object_for_us ON object (id) WHERE for_us = 1 AND state = 3;
CREATE INDEX object_kept ON object (changed_s, id, wire_len) WHERE kept = 1;
CREATE INDEX object_expires ON object (expires_s) WHERE expires_s > 0 AND state < 4;
CREATE TABLE manifest (object INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
CREATE TABLE chunk (
    id INTEGER PRIMARY KEY,
    tag INTEGER NOT NULL,
    hash BLOB NOT NULL,
    len INTEGER NOT NULL,
    compressed INTEGER NOT NULL,
    segment INTEGER,
    at INTEGER
);
CREATE INDEX chunk_tag ON chunk (tag);
CREATE TABLE part (
    object INTEGER NOT NULL,
    part INTEGER NOT NULL,
    chunk INTEGER NOT NULL,
    PRIMARY KEY (object, part)
) WITHOUT ROWID;
CREATE INDEX part_chunk ON part (chunk);
CREATE TABLE segment (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    end INTEGER NOT NULL DEFAULT 0,
    live INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE dead (segment INTEGER NOT NULL, at INTEGER NOT NULL, len INTEGER NOT NULL);
CREATE TABLE peer (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, met_s INTEGER NOT NULL);
CREATE TABLE todo (
    peer INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    deadline INTEGER NOT NULL,
    object INTEGER NOT NULL,
    PRIMARY KEY (peer, priority, deadline, object)
) WITHOUT ROWID;
CREATE TABLE told (
    object INTEGER NOT NULL,
    peer INTEGER NOT NULL,
    what INTEGER NOT NULL,
    PRIMARY KEY (object, peer)
) WITHOUT ROWID;
CREATE TABLE receipt (
    id INTEGER PRIMARY KEY,
    confirms INTEGER NOT NULL,
    issuer BLOB NOT NULL,
    source BLOB NOT NULL,
    bytes BLOB NOT NULL
);
CREATE INDEX receipt_of ON receipt (confirms, issuer, source);
CREATE TABLE confirmed (
    confirms INTEGER NOT NULL,
    source BLOB NOT NULL,
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    PRIMARY KEY (confirms, source, start)
) WITHOUT ROWID;
CREATE TABLE latest (path TEXT PRIMARY KEY, hash BLOB NOT NULL, object INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX latest_object ON latest (object);
CREATE TABLE spool (
    path TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    object INTEGER NOT NULL,
    due INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX spool_object ON spool (object);
CREATE INDEX spool_due ON spool (due) WHERE due = 1;
CREATE TABLE shore (path TEXT PRIMARY KEY, source BLOB NOT NULL, number INTEGER NOT NULL) WITHOUT ROWID;
";

/// Packs that can be looked into and were not.
const UNCOUNTED: &str =
    "CREATE INDEX object_uncounted ON object (id) WHERE files = 0 AND state IN (1, 3) AND missing = 0;";
/// What a store of version 1 lacks.
const SINCE_1: &str = "
ALTER TABLE object ADD COLUMN files INTEGER NOT NULL DEFAULT 1;
UPDATE object SET files = 0 WHERE kind = 1;
";

/// Opens the database of a store for writing, and makes it if it is not there.
pub fn open(path: &Path) -> Result<Connection, DepotError> {
    // Who is not the first would be told that the database is busy, for once without waiting.
    let lock = path.with_extension("lock");
    let lock = File::create(&lock).and_then(|file| file.lock().map(|()| file)).map_err(DepotError::at(lock))?;
    let mut db = Connection::open(path)?;
    db.busy_timeout(PATIENCE)?;
    if db.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0))? != "wal" {
        db.pragma_update(None, "journal_mode", "wal")?;
    }
    // Else each other value of a parameter may have a statement compiled anew.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // 4 MiB of pages in memory.
    db.pragma_update(None, "cache_size", -4096)?;
    db.pragma_update(None, "temp_store", "memory")?;
    // Of 4 KiB pages: fewer write-backs, each of which waits for the disk.
    db.pragma_update(None, "wal_autocheckpoint", 4000)?;
    db.pragma_update(None, "journal_size_limit", 32 << 20)?;
    db.set_prepared_statement_cache_capacity(128);
    make_tables(&mut db)?;
    drop(lock);
    Ok(db)
}

fn make_tables(db: &mut Connection) -> Result<(), DepotError> {
    let tx = begin(db, Promise::Now)?;
    match tx.query_row("PRAGMA user_version", [], |row| row.get(0))? {
        0 => {
            tx.execute_batch(TABLES)?;
            tx.execute_batch(UNCOUNTED)?;
            tx.pragma_update(None, "user_version", VERSION)?;
            Ok(tx.commit()?)
        }
        1 => {
            tx.execute_batch(SINCE_1)?;
            tx.execute_batch(UNCOUNTED)?;
            tx.pragma_update(None, "user_version", VERSION)?;
            Ok(tx.commit()?)
        }
        VERSION => Ok(()),
        other => Err(DepotError::Version(other)),
    }
}

/// Opens the database of a store for reading, beside whoever writes.
pub fn open_read_only(path: &Path) -> Result<Connection, DepotError> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.busy_timeout(PATIENCE)?;
    db.pragma_update(None, "cache_size", -2048)?;
    match db.query_row("PRAGMA user_version", [], |row| row.get(0))? {
        // Who only looks needs nothing that is new in version 2.
        1 | VERSION => Ok(db),
        other => Err(DepotError::Version(other)),
    }
}

/// Begins a transaction that writes. Write-ahead logs are read in order: what was promised for later is there if anything that came
/// behind it is.
pub fn begin(db: &mut Connection, promise: Promise) -> Result<Transaction<'_>, DepotError> {
    let mode = if promise == Promise::Now { "full" } else { "normal" };
    db.pragma_update(None, "synchronous", mode)?;
    Ok(db.transaction_with_behavior(TransactionBehavior::Immediate)?)
}

/// A value of the store's own.
pub fn meta<T: rusqlite::types::FromSql>(db: &Connection, name: &str) -> Result<Option<T>, DepotError> {
    let mut find = db.prepare_cached("SELECT value FROM meta WHERE name = ?")?;
    Ok(find.query_row([name], |row| row.get(0)).optional()?)
}

/// Sets a value of the store's own.
pub fn set_meta(db: &Connection, name: &str, value: impl rusqlite::ToSql) -> Result<(), DepotError> {
    db.prepare_cached("INSERT OR REPLACE INTO meta VALUES (?, ?)")?.execute((name, value))?;
    Ok(())
}
