//! Objects that end here: written to the shore's folder, or handed over.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;

use aquila_proto::transfer::{Hash, Kind, ObjectId, StoreId};
use bytes::Bytes;
use rusqlite::OptionalExtension;

use crate::depot::{Depot, now_s};
use crate::error::DepotError;
use crate::folder::{Begun, Folder, There};
use crate::intake::MAX_BUNDLE;
use crate::pack;
use crate::receipts::{self, Set};
use crate::state::{self, Known, State};

/// An object that was handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// Which.
    pub object: ObjectId,
    /// Files below the shore's folder, as they are called there; none for older versions of files that are there.
    pub files: Vec<String>,
}

/// Names that files have until they are whole begin like this.
const TEMPORARY: &str = ".aquila-";
/// Files of a pack that are synced together; each has itself and its folder open until then.
const SYNCED_AT_ONCE: usize = 128;
/// Names that are tried where something else has a file's.
const MAX_BESIDE: u32 = 9;

/// A file to be written.
struct Target {
    path: String,
    modified_ns: i64,
    len: u64,
    hash: Hash,
}

/// Where its content comes from.
enum Content<'a> {
    /// The chunks of an object, so many.
    Object(&'a ObjectId, u64),
    Bytes(&'a [u8]),
}

/// Why a file could not be written.
enum Fault {
    /// Now.
    Now(DepotError),
    /// Ever: what came is not what its source says.
    Useless(&'static str),
}

impl<E: Into<DepotError>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Now(error.into())
    }
}

impl Depot {
    /// Writes whole objects to the shore's folder, at most `max` of those that are there: first to a temporary file, which gets its name when
    /// it is on the disk. Packs are unpacked. An older version of a file takes nothing's place. When this returns they are delivered, and
    /// there is a receipt for them. What is not for a folder is left to [`Depot::outgoing`].
    ///
    /// Where another store's file, or anything that was not written by this, has the name, or a part of the path is not a folder, the name
    /// gets `~` and the first eight digits of the source's name behind it; and `-2` to `-9` behind that if need be.
    ///
    /// # Errors
    /// If no file could be written or read now; those that cannot be are tried again at the next call.
    pub fn deliver(&mut self, max: usize) -> Result<Vec<Delivered>, DepotError> {
        let mut delivered = Vec::new();
        if self.shore_folder().is_none() {
            return Ok(delivered);
        }
        let (mut after, mut fault) = (0, None);
        while delivered.len() < max {
            let Some((known, kind)) = self.next_for_us(after)? else { break };
            after = known.id;
            let object = state::name(&self.db, known.id)?;
            let written = match kind {
                Kind::File => self.deliver_file(&known, &object),
                Kind::Pack => self.deliver_pack(&known, &object),
                Kind::Bundle => continue,
            };
            match written {
                Ok(files) => {
                    self.note_delivered(&known, &files)?;
                    let files = files.into_iter().filter_map(|file| file.is_written.then_some(file.path)).collect();
                    delivered.push(Delivered { object, files });
                }
                Err(Fault::Now(DepotError::Damaged { .. })) => {}
                Err(Fault::Now(error)) => {
                    tracing::warn!(object = crate::error::short(&object), %error, "an object cannot be delivered now");
                    fault.get_or_insert(error);
                }
                Err(Fault::Useless(reason)) => {
                    tracing::error!(object = crate::error::short(&object), reason, "an object cannot be delivered");
                    self.now(|tx| state::give_up(tx, &known, State::Refused, now_s(), reason))?;
                }
            }
        }
        match fault {
            Some(error) if delivered.is_empty() => Err(error),
            _ => Ok(delivered),
        }
    }

    fn next_for_us(&self, after: i64) -> Result<Option<(Known, Kind)>, DepotError> {
        let mut find = self.db.prepare_cached(
            "SELECT id, kind FROM object WHERE for_us = 1 AND state = 3 AND id > ? ORDER BY id LIMIT 1",
        )?;
        let found = find.query_row([after], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))).optional()?;
        found.map(|(id, kind)| Ok((state::get(&self.db, id)?, state::kind(kind)))).transpose()
    }

    fn shore_folder(&self) -> Option<&Path> {
        self.config.shore.as_ref()?.folder.as_deref()
    }

    /// What waits to be handed over to somebody who is no store: bundles, and, where a shore has no folder, files and packs. At most `max`,
    /// the oldest first, not those that `exclude` holds for.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn outgoing(
        &self,
        max: usize,
        exclude: impl Fn(&ObjectId, Kind) -> bool,
    ) -> Result<Vec<(ObjectId, Kind)>, DepotError> {
        let mut find = self.db.prepare_cached(
            "SELECT object, kind FROM object WHERE for_us = 1 AND state = 3 AND (kind = 2 OR ?) ORDER BY id",
        )?;
        let mut rows = find.query([self.shore_folder().is_none()])?;
        let mut outgoing = Vec::new();
        while outgoing.len() < max
            && let Some(row) = rows.next()?
        {
            let (object, kind) = (ObjectId(Hash(row.get(0)?)), state::kind(row.get(1)?));
            if !exclude(&object, kind) {
                outgoing.push((object, kind));
            }
        }
        Ok(outgoing)
    }

    /// The content of an object's nth chunk, from 1 on, as it was before it was compressed.
    ///
    /// # Errors
    /// As [`Depot::load`].
    pub fn content(&mut self, object: &ObjectId, part: u64) -> Result<Vec<u8>, DepotError> {
        self.with_content(object, part, |content| Ok(content.to_vec()))
    }

    /// All of a bundle or a pack, byte for byte as it was put.
    ///
    /// # Errors
    /// [`DepotError::Unknown`] if it is not here, [`DepotError::Damaged`] if it is not what it was. One that never was what its source says,
    /// or is longer than there are, is refused, and unknown from then on.
    pub fn whole(&mut self, object: &ObjectId) -> Result<Bytes, DepotError> {
        let known = state::find(&self.db, object)?.ok_or(DepotError::Unknown(*object))?;
        let read = self.read_all(&known, object, MAX_BUNDLE as u64);
        self.settle(&known, object, read.map(Bytes::from))
    }

    /// Reads all of a file, and compares it with what its source says it is.
    ///
    /// # Errors
    /// As [`Depot::whole`].
    pub fn check(&mut self, object: &ObjectId) -> Result<(), DepotError> {
        let known = state::find(&self.db, object)?.ok_or(DepotError::Unknown(*object))?;
        let mut find = self.db.prepare_cached("SELECT hash, parts FROM object WHERE id = ?")?;
        let (hash, parts) = find.query_row([known.id], |row| Ok((Hash(row.get(0)?), row.get::<_, i64>(1)? as u64)))?;
        drop(find);
        let mut hasher = blake3::Hasher::new();
        for part in 1..=parts {
            self.with_content(object, part, |content| {
                hasher.update(content);
                Ok(())
            })?;
        }
        let is_right = hasher.finalize().as_bytes() == &hash.0;
        self.settle(&known, object, if is_right { Ok(()) } else { Err(Fault::Useless("not what its manifest says")) })
    }

    fn settle<T>(&mut self, known: &Known, object: &ObjectId, read: Result<T, Fault>) -> Result<T, DepotError> {
        match read {
            Ok(read) => Ok(read),
            Err(Fault::Now(error)) => Err(error),
            Err(Fault::Useless(reason)) => {
                self.now(|tx| state::give_up(tx, known, State::Refused, now_s(), reason))?;
                Err(DepotError::Unknown(*object))
            }
        }
    }

    /// What waited was handed over: it is delivered, and there is a receipt for it.
    ///
    /// # Errors
    /// [`DepotError::Unknown`] if it is nothing that waits.
    pub fn handed_over(&mut self, object: &ObjectId) -> Result<(), DepotError> {
        let known = state::find(&self.db, object)?;
        let known = known.filter(|known| known.for_us && known.state == State::Custody);
        self.note_delivered(&known.ok_or(DepotError::Unknown(*object))?, &[])
    }

    /// What waits can never be handed over, for this reason: it is refused.
    ///
    /// # Errors
    /// [`DepotError::Unknown`] if it is nothing that waits.
    pub fn useless(&mut self, object: &ObjectId, reason: &str) -> Result<(), DepotError> {
        let known = state::find(&self.db, object)?;
        let known = known.filter(|known| known.for_us && known.state == State::Custody);
        let known = known.ok_or(DepotError::Unknown(*object))?;
        self.now(|tx| state::give_up(tx, &known, State::Refused, now_s(), reason))?;
        self.released = true;
        Ok(())
    }

    fn note_delivered(&mut self, known: &Known, files: &[Written]) -> Result<(), DepotError> {
        let delete = self.config.delete;
        self.now(|tx| {
            for file in files.iter().filter(|file| file.is_written) {
                tx.prepare_cached("INSERT OR REPLACE INTO shore VALUES (?, ?, ?)")?.execute((
                    &file.path,
                    known.source.0,
                    known.number as i64,
                ))?;
            }
            for set in [Set::HandedOver, Set::Delivered] {
                receipts::add(tx, set, known.source, known.number, known.number + 1)?;
            }
            state::on_delivered(tx, known, delete, now_s()).map(drop)
        })?;
        self.released = true;
        Ok(())
    }

    fn deliver_file(&mut self, known: &Known, object: &ObjectId) -> Result<Vec<Written>, Fault> {
        let mut find =
            self.db.prepare_cached("SELECT path, modified_ns, size, hash, parts FROM object WHERE id = ?")?;
        let (target, parts) = find.query_row([known.id], |row| {
            let target = Target {
                path: row.get(0)?,
                modified_ns: row.get(1)?,
                len: row.get::<_, i64>(2)? as u64,
                hash: Hash(row.get(3)?),
            };
            Ok((target, row.get::<_, i64>(4)? as u64))
        })?;
        drop(find);
        let mut writing = Writing::default();
        self.write_file(known, &target, &Content::Object(object, parts), &mut writing)?;
        self.finish(writing)
    }

    fn deliver_pack(&mut self, known: &Known, object: &ObjectId) -> Result<Vec<Written>, Fault> {
        let bytes = self.read_all(known, object, pack::MAX_LEN as u64)?;
        let entries = pack::parse(&bytes).map_err(|_| Fault::Useless("a pack that is none"))?;
        let (mut written, mut writing) = (Vec::new(), Writing::default());
        for entry in entries {
            if writing.written.len() >= SYNCED_AT_ONCE {
                written.append(&mut self.finish(std::mem::take(&mut writing))?);
            }
            let target = Target {
                path: entry.path.into(),
                modified_ns: entry.modified_ns,
                len: entry.content.len() as u64,
                hash: Hash::of(entry.content),
            };
            self.write_file(known, &target, &Content::Bytes(entry.content), &mut writing)?;
        }
        written.append(&mut self.finish(writing)?);
        Ok(written)
    }

    /// All of a small object.
    fn read_all(&mut self, known: &Known, object: &ObjectId, most: u64) -> Result<Vec<u8>, Fault> {
        let mut find = self.db.prepare_cached("SELECT size, hash, parts FROM object WHERE id = ?")?;
        let (size, hash, parts) = find.query_row([known.id], |row| {
            Ok((row.get::<_, i64>(0)? as u64, Hash(row.get(1)?), row.get::<_, i64>(2)? as u64))
        })?;
        drop(find);
        if size > most {
            return Err(Fault::Useless("longer than one may be"));
        }
        let mut bytes = Vec::with_capacity(size as usize);
        for part in 1..=parts {
            self.with_content(object, part, |content| {
                bytes.extend_from_slice(content);
                Ok(())
            })?;
        }
        if Hash::of(&bytes) == hash { Ok(bytes) } else { Err(Fault::Useless("not what its manifest says")) }
    }

    /// Gives files their names.
    fn finish(&self, mut writing: Writing) -> Result<Vec<Written>, Fault> {
        let begun = std::mem::take(&mut writing.begun);
        Begun::finish(&begun).map_err(DepotError::at(self.shore_folder().unwrap_or(Path::new(""))))?;
        Ok(std::mem::take(&mut writing.written))
    }

    /// Writes a file that is to get a name that is free for it.
    fn write_file(
        &mut self,
        known: &Known,
        target: &Target,
        content: &Content<'_>,
        writing: &mut Writing,
    ) -> Result<(), Fault> {
        let Some(at) = self.shore_folder().map(Path::to_owned) else { return Err(Fault::Useless("no folder for it")) };
        let io = |error| DepotError::at(at.join(&target.path))(error);
        let id = hex(&known.source.0[..4]);
        let names = |part: &str| {
            let beside = (1..=MAX_BESIDE).map(|n| if n == 1 { format!("~{id}") } else { format!("~{id}-{n}") });
            [String::new()].into_iter().chain(beside).map(move |suffix| format!("{part}{suffix}")).collect::<Vec<_>>()
        };
        let mut folder = Folder::open(&at).map_err(io)?;
        let (folders, leaf) = target.path.rsplit_once('/').unwrap_or(("", &target.path));
        let mut path = String::new();
        for part in folders.split('/').filter(|part| !part.is_empty()) {
            let mut entered = None;
            for name in names(part) {
                entered = folder.enter(OsStr::new(&name)).map_err(io)?.map(|folder| (folder, name));
                if entered.is_some() {
                    break;
                }
            }
            let (next, name) = entered.ok_or_else(|| io(std::io::ErrorKind::AlreadyExists.into()))?;
            folder = next;
            path = path + &name + "/";
        }
        for name in names(leaf) {
            let path = format!("{path}{name}");
            // A file of the same pack is to have it.
            if writing.written.iter().any(|written| written.path == path) {
                continue;
            }
            let is_written = match self.may_write(known, target, &folder, &path, &name)? {
                May::Not => continue,
                May::IsThere => true,
                May::IsOlder => false,
                May::Yes => {
                    let temporary = format!("{TEMPORARY}{}.part", hex(&Hash::of(path.as_bytes()).0[..8]));
                    let mut begun = folder.begin(temporary, name).map_err(io)?;
                    let copied = self.copy(&mut begun.file, target, content);
                    let copied = copied.and_then(|()| Ok(begun.set_modified(target.modified_ns).map_err(io)?));
                    if copied.is_err() {
                        begun.give_up();
                    }
                    copied?;
                    writing.begun.push(begun);
                    true
                }
            };
            writing.written.push(Written { path, is_written });
            return Ok(());
        }
        Err(io(std::io::ErrorKind::AlreadyExists.into()).into())
    }

    fn may_write(
        &self,
        known: &Known,
        target: &Target,
        folder: &Folder,
        path: &str,
        name: &str,
    ) -> Result<May, DepotError> {
        let at = self.shore_folder().map(|folder| folder.join(path)).unwrap_or_default();
        let mut find = self.db.prepare_cached("SELECT source, number FROM shore WHERE path = ?")?;
        let last = find.query_row([path], |row| Ok((StoreId(row.get(0)?), row.get::<_, i64>(1)? as u64))).optional()?;
        let is_there = folder.has(OsStr::new(name)).map_err(DepotError::at(&at))?;
        Ok(match last {
            Some((source, _)) if source != known.source => May::Not,
            Some((_, number)) if number >= known.number => May::IsOlder,
            _ if !is_there => May::Yes,
            last => match folder.look(OsStr::new(name)).map_err(DepotError::at(&at))? {
                // It was written before, and the power cut before that was noted; or it is the same anyway.
                There::File { len, hash } if (len, hash) == (target.len, target.hash) && last.is_none() => May::IsThere,
                There::File { .. } if last.is_some() => May::Yes,
                There::File { .. } | There::Other => May::Not,
                There::Nothing => May::Yes,
            },
        })
    }

    fn copy(&mut self, file: &mut std::fs::File, target: &Target, content: &Content<'_>) -> Result<(), Fault> {
        let folder = self.shore_folder().map(Path::to_owned).unwrap_or_default();
        let mut hasher = blake3::Hasher::new();
        match content {
            Content::Bytes(bytes) => {
                hasher.update(bytes);
                file.write_all(bytes).map_err(DepotError::at(&folder))?;
            }
            Content::Object(object, parts) => {
                for part in 1..=*parts {
                    self.with_content(object, part, |content| {
                        hasher.update(content);
                        file.write_all(content).map_err(DepotError::at(&folder))
                    })?;
                }
            }
        }
        let is_right = hasher.finalize().as_bytes() == &target.hash.0;
        if is_right { Ok(()) } else { Err(Fault::Useless("not what its manifest says")) }
    }
}

/// Whether a file may be written under a name.
enum May {
    Yes,
    /// The name is somebody else's.
    Not,
    /// It was already.
    IsThere,
    /// A newer version has it.
    IsOlder,
}

/// Files that are written and have no name yet, and what is to be told of them then.
#[derive(Default)]
struct Writing {
    begun: Vec<Begun>,
    written: Vec<Written>,
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.begun.iter().for_each(Begun::give_up);
    }
}

/// A file, and whether there was need to write it.
struct Written {
    path: String,
    is_written: bool,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
