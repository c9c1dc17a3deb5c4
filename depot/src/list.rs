//! What is in a store, for those who look.

use std::path::{Path, PathBuf};

use aquila_proto::transfer::{Hash, Kind, ObjectId, StoreId};
use rusqlite::Connection;

use crate::db;
use crate::depot::Depot;
use crate::error::DepotError;
use crate::state::{self, Origin, SEEN, State};

/// A store that is only looked at, beside whoever writes.
#[derive(Debug)]
pub struct View {
    pub(crate) db: Connection,
    pub(crate) dir: PathBuf,
}

/// An object in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub object: ObjectId,
    /// How far it is.
    pub state: State,
    /// Whether it was put here.
    pub is_ours: bool,
    /// What it holds.
    pub kind: Kind,
    /// The store that it comes from.
    pub source: StoreId,
    /// Its number there.
    pub number: u64,
    /// 0 is served first, 7 last.
    pub priority: u8,
    /// When it was put, seconds since 1970.
    pub created_s: u64,
    /// By when it should be delivered; 0 if nothing is said.
    pub deadline_s: u64,
    /// From when on nobody wants it; 0 for never.
    pub expires_s: u64,
    /// Who it is for; empty for any shore.
    pub destination: String,
    /// Its path; empty for packs and bundles.
    pub path: String,
    /// Bytes of content.
    pub size: u64,
    /// Bytes on the way.
    pub wire_len: u64,
    /// Its chunks.
    pub chunks: u64,
    /// Of them, those that are missing.
    pub missing: u64,
    /// When its state changed last, seconds since 1970.
    pub changed_s: u64,
    /// Why, if that needs saying.
    pub reason: String,
}

/// Which objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only those in this state.
    pub state: Option<State>,
    /// Only those that were put here, or only those that were not.
    pub is_ours: Option<bool>,
}

/// How many objects there are in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Total {
    /// The state.
    pub state: State,
    /// How many.
    pub objects: u64,
    /// Bytes of their content.
    pub size: u64,
    /// Bytes of them on the way.
    pub wire_len: u64,
}

/// Rows that are fetched at once.
const PAGE: usize = 256;

impl View {
    /// Opens the store in a folder for reading. There must be one.
    ///
    /// # Errors
    /// If there is none, or it is of a later version.
    pub fn open(dir: &Path) -> Result<Self, DepotError> {
        let db = dir.join("state.db");
        if !db.exists() {
            return Err(DepotError::NoStore);
        }
        Ok(Self { db: db::open_read_only(&db)?, dir: dir.to_owned() })
    }

    /// Objects, the oldest first.
    pub fn list(&self, filter: Filter) -> Rows<'_> {
        Rows { db: &self.db, filter, after: 0, page: Vec::new().into_iter() }
    }

    /// How many objects are in which state; those that no object is in are left out.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn summary(&self) -> Result<Vec<Total>, DepotError> {
        summary(&self.db)
    }

    /// The name of the store.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn store_id(&self) -> Result<StoreId, DepotError> {
        Ok(StoreId(db::meta(&self.db, "store")?.unwrap_or_default()))
    }
}

impl Depot {
    /// See [`View::list`].
    pub fn list(&self, filter: Filter) -> Rows<'_> {
        Rows { db: &self.db, filter, after: 0, page: Vec::new().into_iter() }
    }

    /// See [`View::summary`].
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn summary(&self) -> Result<Vec<Total>, DepotError> {
        summary(&self.db)
    }
}

fn summary(db: &Connection) -> Result<Vec<Total>, DepotError> {
    let mut find = db.prepare_cached(&format!(
        "SELECT {SEEN} AS seen, count(*), sum(size), sum(wire_len) FROM object WHERE state > 0 GROUP BY seen"
    ))?;
    let rows = find.query_map([], |row| {
        let number = |index| row.get::<_, i64>(index).map(|number| number as u64);
        Ok(Total { state: row.get(0)?, objects: number(1)?, size: number(2)?, wire_len: number(3)? })
    })?;
    let mut totals = rows.collect::<Result<Vec<Total>, _>>()?;
    totals.sort_by_key(|total| State::ALL.iter().position(|state| *state == total.state));
    Ok(totals)
}

/// Objects in a list; see [`View::list`].
#[derive(Debug)]
pub struct Rows<'a> {
    db: &'a Connection,
    filter: Filter,
    after: i64,
    page: std::vec::IntoIter<(i64, Row)>,
}

impl Rows<'_> {
    fn fetch(&self) -> Result<Vec<(i64, Row)>, DepotError> {
        let mut find = self.db.prepare_cached(&format!(
            "SELECT id, object, {SEEN}, origin, kind, source, number, priority, created_s, deadline_s, expires_s,
                    destination, path, size, wire_len, parts, missing, changed_s, reason
             FROM object WHERE id > ?1 AND state > 0 AND (?2 = 0 OR {SEEN} = ?2) AND (?3 = 2 OR (origin <> 2) = ?3)
             ORDER BY id LIMIT ?4"
        ))?;
        let state = self.filter.state.map_or(0, |state| state as i64);
        let is_ours = self.filter.is_ours.map_or(2, i64::from);
        let rows = find.query_map((self.after, state, is_ours, PAGE as i64), |row| {
            let number = |index| row.get::<_, i64>(index).map(|number| number as u64);
            Ok((
                row.get(0)?,
                Row {
                    object: ObjectId(Hash(row.get(1)?)),
                    state: row.get(2)?,
                    is_ours: row.get::<_, i64>(3)? != Origin::Taken as i64,
                    kind: state::kind(row.get(4)?),
                    source: StoreId(row.get(5)?),
                    number: number(6)?,
                    priority: row.get(7)?,
                    created_s: number(8)?,
                    deadline_s: number(9)?,
                    expires_s: number(10)?,
                    destination: row.get(11)?,
                    path: row.get(12)?,
                    size: number(13)?,
                    wire_len: number(14)?,
                    chunks: number(15)?,
                    missing: number(16)?,
                    changed_s: number(17)?,
                    reason: row.get(18)?,
                },
            ))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, DepotError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.page.len() == 0 {
            match self.fetch() {
                Ok(page) => self.page = page.into_iter(),
                Err(error) => {
                    // Nothing more comes.
                    self.after = i64::MAX;
                    return Some(Err(error));
                }
            }
        }
        let (id, row) = self.page.next()?;
        self.after = id;
        Some(Ok(row))
    }
}
