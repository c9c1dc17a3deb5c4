//! Segments as one process appends to them, and what is tidied up: tails that nobody promised, places that nothing needs.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use rusqlite::{Connection, OptionalExtension};

use crate::chunks;
use crate::db::{self, Promise};
use crate::error::DepotError;
use crate::segment::{self, FULL, Place, Readers, Writer};
use crate::state;

/// Places given back at once.
const SWEEP: i64 = 4096;

/// The folder of segments.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    /// What is read from.
    pub readers: Readers,
    current: Option<Writer>,
    /// Full ones, of which the locks are held until what is in them is promised.
    retired: Vec<Writer>,
}

impl Disk {
    pub fn new(folder: PathBuf) -> Self {
        Self { readers: Readers::new(folder.clone()), folder, current: None, retired: Vec::new() }
    }

    /// Appends a chunk to a segment of ours.
    pub fn append(&mut self, db: &mut Connection, bytes: &[u8]) -> Result<Place, DepotError> {
        if self.current.as_ref().is_some_and(|writer| writer.end + bytes.len() as u64 > FULL) {
            self.retired.extend(self.current.take());
        }
        self.writer(db)?.append(bytes)
    }

    /// A segment of ours: one that somebody left, or a new one.
    pub fn writer(&mut self, db: &mut Connection) -> Result<&mut Writer, DepotError> {
        let writer = match self.current.take() {
            Some(writer) => writer,
            None => self.acquire(db)?,
        };
        Ok(self.current.insert(writer))
    }

    fn acquire(&self, db: &mut Connection) -> Result<Writer, DepotError> {
        // Nobody else looks for abandoned segments meanwhile.
        let tx = db::begin(db, Promise::Later)?;
        let left = {
            let mut find = tx.prepare("SELECT id, end FROM segment WHERE end < ? ORDER BY end DESC LIMIT 16")?;
            let rows = find.query_map([(FULL - FULL / 8) as i64], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))?;
            rows.collect::<Result<Vec<(i64, i64)>, _>>()?
        };
        for (number, end) in left {
            if let Some(writer) = Writer::adopt(&self.folder, number, end as u64)? {
                if writer.len_on_disk()? < end as u64 {
                    continue;
                }
                abandon(&tx, number)?;
                tx.commit()?;
                return Ok(writer);
            }
        }
        loop {
            tx.execute("INSERT INTO segment DEFAULT VALUES", [])?;
            if let Some(writer) = Writer::make(&self.folder, tx.last_insert_rowid())? {
                tx.commit()?;
                return Ok(writer);
            }
            // A file that the database does not know, since the power was cut: it is not ours to write over.
            tx.execute("DELETE FROM segment WHERE id = ?", [tx.last_insert_rowid()])?;
        }
    }

    /// Waits until all that was appended is on the disk. After an error nobody knows what is: it is all given up.
    pub fn sync(&mut self) -> Result<(), DepotError> {
        let synced = self.retired.iter_mut().chain(&mut self.current).try_for_each(Writer::sync);
        if synced.is_err() {
            self.retired.clear();
            self.current = None;
        }
        synced
    }

    /// Notes how far our segments go. What is in them is [synced](Self::sync).
    pub fn note_ends(&self, db: &Connection) -> Result<(), DepotError> {
        let mut note = db.prepare_cached("UPDATE segment SET end = ? WHERE id = ? AND end < ?1")?;
        for writer in self.retired.iter().chain(&self.current) {
            note.execute((writer.synced as i64, writer.number))?;
        }
        Ok(())
    }

    /// The file of the segment that is ours: its lock is held as long as this is open.
    #[cfg(test)]
    pub fn lock(&self) -> Option<fs::File> {
        self.current.as_ref().and_then(|writer| writer.file().try_clone().ok())
    }

    /// Up to where our segments are synced.
    #[cfg(test)]
    pub fn synced(&self) -> Vec<(i64, u64)> {
        self.retired.iter().chain(&self.current).map(|writer| (writer.number, writer.synced)).collect()
    }

    /// All is promised: the full ones are anybody's.
    pub fn let_go(&mut self) {
        self.retired.clear();
    }

    /// Number of the segment that says that this process is alive, if there is one.
    pub fn number(&self) -> Option<i64> {
        self.current.as_ref().map(|writer| writer.number)
    }

    /// Tidies up after those who are gone: tails, segments that nothing is in, objects that were only just being put. Returns chunks that
    /// a segment lost, though they were promised.
    pub fn recover(&mut self, db: &mut Connection) -> Result<Vec<i64>, DepotError> {
        let tx = db::begin(db, Promise::Later)?;
        let rows: Vec<(i64, i64, i64)> = {
            let mut find = tx.prepare("SELECT id, end, live FROM segment")?;
            let rows = find.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect::<Result<_, _>>()?
        };
        let mut lost = Vec::new();
        for (number, end, live) in &rows {
            match Writer::adopt(&self.folder, *number, *end as u64) {
                Ok(Some(writer)) => {
                    abandon(&tx, *number)?;
                    let len = writer.len_on_disk()?;
                    if len < *end as u64 {
                        tracing::error!(segment = number, len, end, "a segment has lost its end");
                        lost.extend(behind(&tx, *number, len)?);
                    }
                    if *live == 0 {
                        self.remove(&tx, *number)?;
                    }
                }
                Ok(None) if segment::path(&self.folder, *number).exists() => {}
                Ok(None) => {
                    abandon(&tx, *number)?;
                    lost.extend(behind(&tx, *number, 0)?);
                    tx.execute("DELETE FROM segment WHERE id = ? AND live = 0", [number])?;
                }
                Err(error) => tracing::warn!(segment = number, %error, "a segment cannot be tidied up"),
            }
        }
        // Files that the database has forgotten: they were made just before a power cut.
        let known: BTreeSet<i64> = rows.iter().map(|(number, ..)| *number).collect();
        let files = fs::read_dir(&self.folder).map_err(DepotError::at(&self.folder))?;
        for name in files.filter_map(|file| file.ok()?.file_name().into_string().ok()) {
            if let Some(number) = segment::number(&name).filter(|number| !known.contains(number))
                && let Ok(Some(_lock)) = Writer::adopt(&self.folder, number, 0)
            {
                fs::remove_file(segment::path(&self.folder, number)).map_err(DepotError::at(&self.folder))?;
            }
        }
        tx.commit()?;
        Ok(lost)
    }

    fn remove(&mut self, db: &Connection, number: i64) -> Result<(), DepotError> {
        let path = segment::path(&self.folder, number);
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(DepotError::at(path)(error)),
        }
        db.execute("DELETE FROM segment WHERE id = ?", [number])?;
        db.execute("DELETE FROM dead WHERE segment = ?", [number])?;
        self.readers.forget(number);
        Ok(())
    }

    /// Places that nothing needs, as the transaction sees them that promises it.
    pub fn dead(db: &Connection) -> Result<Vec<(i64, Place)>, DepotError> {
        let mut find = db.prepare_cached("SELECT rowid, segment, at, len FROM dead LIMIT ?")?;
        let rows = find.query_map([SWEEP], |row| {
            let at = row.get::<_, i64>(2)? as u64;
            Ok((row.get(0)?, Place { segment: row.get(1)?, at, len: row.get(3)? }))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Gives those places back to the file system, and removes segments that nothing is in any more.
    pub fn sweep(&mut self, db: &mut Connection, dead: &[(i64, Place)]) -> Result<(), DepotError> {
        if dead.is_empty() {
            return Ok(());
        }
        dead.iter().for_each(|(_, place)| segment::punch(&self.folder, *place));
        let tx = db::begin(db, Promise::Later)?;
        for (id, _) in dead {
            tx.prepare_cached("DELETE FROM dead WHERE rowid = ?")?.execute([id])?;
        }
        let touched: BTreeSet<i64> = dead.iter().map(|(_, place)| place.segment).collect();
        for number in touched {
            let end =
                tx.query_row("SELECT end FROM segment WHERE id = ? AND live = 0", [number], |row| row.get::<_, i64>(0));
            if let Some(end) = end.optional()?
                && let Some(_lock) = Writer::adopt(&self.folder, number, end as u64)?
            {
                self.remove(&tx, number)?;
            }
        }
        tx.commit()?;
        Ok(())
    }
}

/// Whoever wrote a segment is gone: what it was just putting was never promised.
fn abandon(db: &Connection, number: i64) -> Result<(), DepotError> {
    let mut find = db.prepare_cached("SELECT id FROM object WHERE state = 0 AND writer = ?")?;
    let put: Vec<i64> = find.query_map([number], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for id in put {
        chunks::free(db, id)?;
        db.prepare_cached("DELETE FROM object WHERE id = ?")?.execute([id])?;
    }
    Ok(())
}

/// Chunks of a segment that go on behind this.
fn behind(db: &Connection, number: i64, len: u64) -> Result<Vec<i64>, DepotError> {
    let mut find = db.prepare(
        "SELECT id FROM chunk WHERE segment = ? AND at + CASE compressed WHEN 0 THEN len ELSE compressed END > ?",
    )?;
    Ok(find.query_map((number, len as i64), |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// Marks chunks as missing that a segment lost.
pub fn mark_lost(db: &mut Connection, lost: &[i64], now_s: u64) -> Result<(), DepotError> {
    if lost.is_empty() {
        return Ok(());
    }
    let tx = db::begin(db, Promise::Now)?;
    lost.iter().try_for_each(|id| state::on_damaged(&tx, *id, now_s))?;
    tx.commit()?;
    Ok(())
}
