//! Objects that other stores have.

use aquila_proto::identity::PublicKey;
use aquila_proto::transfer::{Chunk, Hash, Kind, Manifest, ManifestError, ObjectId, Offer, Ranges};
use rusqlite::OptionalExtension;

use crate::db::{self, Promise};
use crate::depot::{Depot, now_s};
use crate::error::{DepotError, NoRoom};
use crate::intake::MAX_BUNDLE;
use crate::receipts::{self, Set};
use crate::staging::describe;
use crate::state::{self, Known, Origin, State, Told};
use crate::{chunks, pack};

/// Objects that are incomplete, at most.
const MAX_PARTIAL: i64 = 4096;
/// Room that a manifest needs to be looked at, in bytes.
const MANIFEST_ROOM: u64 = 1 << 20;

/// What becomes of an object that a peer has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is here, or was delivered; the peer needs to do nothing more about it.
    HaveCustody,
    /// Its manifest is wanted.
    WantManifest,
    /// Chunks are; or none, and then it is whole, and in custody after the next [`Depot::commit`].
    WantChunks {
        /// Length of each chunk on the way, in bytes.
        lens: Vec<u32>,
        /// Numbers of those that are there, from 1.
        have: Ranges,
    },
    /// It is not wanted, ever.
    Refuse(Refusal),
    /// There is no room now. Ask again when [`Depot::health`] says that there is some.
    NotNow(NoRoom),
}

/// Why an object is not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Its manifest cannot be read, or says what none may.
    #[error("its manifest: {0}")]
    Manifest(ManifestError),
    /// Its manifest is not the one that was offered.
    #[error("its manifest is another one's")]
    Another,
    /// It comes from somebody whose objects are not taken.
    #[error("it comes from somebody whose objects are not taken")]
    Source,
    /// It comes from this store.
    #[error("it comes from here")]
    Ours,
    /// Nobody wants it any more.
    #[error("it has expired")]
    Expired,
    /// A pack or bundle that is longer than one may be, or a path that no file here can have.
    #[error("its length or its path is absurd")]
    Absurd,
    /// The source has given the number to another object.
    #[error("another object has its number")]
    Number,
    /// It could not be handed over, and never can.
    #[error("it cannot be handed over")]
    Useless,
}

/// What became of a chunk that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// It is what it should be, and stored; it survives a power cut after the next [`Depot::commit`]. Else it is to be fetched again.
    pub good: bool,
    /// It was there before.
    pub was_there: bool,
    /// Parts of other objects that are being taken, and that it is as well: they need not come any more.
    pub also: Vec<(ObjectId, u64)>,
}

impl Stored {
    fn nothing_new(good: bool) -> Self {
        Self { good, was_there: good, also: Vec::new() }
    }
}

impl Depot {
    /// A peer has an object.
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub fn on_offer(&mut self, peer: &PublicKey, offer: &Offer) -> Result<Verdict, DepotError> {
        if offer.manifest_len as usize > Manifest::MAX_LEN {
            return Ok(Verdict::Refuse(Refusal::Manifest(ManifestError::TooLong)));
        }
        let Some(object) = state::find(&self.db, &offer.object)? else {
            return match self.room_for_another(u64::from(offer.manifest_len))? {
                Some(reason) => Ok(Verdict::NotNow(reason)),
                None => Ok(Verdict::WantManifest),
            };
        };
        let peer = self.peer(peer)?;
        if !object.is_ours {
            let tx = db::begin(&mut self.db, Promise::Later)?;
            state::told(&tx, &object, peer, Told::Has)?;
            tx.commit()?;
        }
        self.verdict_of(&object)
    }

    /// What an object that was offered lacks now: to be asked again when there may be room, or chunks that came with another object.
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub fn verdict(&mut self, object: &ObjectId) -> Result<Verdict, DepotError> {
        match state::find(&self.db, object)? {
            Some(object) => self.verdict_of(&object),
            None => match self.room_for_another(0)? {
                Some(reason) => Ok(Verdict::NotNow(reason)),
                None => Ok(Verdict::WantManifest),
            },
        }
    }

    fn room_for_another(&mut self, manifest_len: u64) -> Result<Option<NoRoom>, DepotError> {
        let partial: i64 = self
            .db
            .prepare_cached("SELECT count(*) FROM (SELECT 1 FROM object WHERE state = 2 LIMIT ?)")?
            .query_row([MAX_PARTIAL], |row| row.get(0))?;
        let (capacity, why) = self.capacity()?;
        Ok(match partial >= MAX_PARTIAL {
            true => Some(NoRoom::Objects),
            false => (why == NoRoom::Disk && capacity < MANIFEST_ROOM.max(manifest_len)).then_some(why),
        })
    }

    fn verdict_of(&mut self, object: &Known) -> Result<Verdict, DepotError> {
        if object.is_ours {
            return Ok(Verdict::Refuse(Refusal::Ours));
        }
        match object.state {
            State::Partial | State::Verified => {}
            State::Queued | State::Custody | State::Delivered | State::Released => return Ok(Verdict::HaveCustody),
            State::Expired => return Ok(Verdict::Refuse(Refusal::Expired)),
            State::Refused => return Ok(Verdict::Refuse(Refusal::Useless)),
        }
        if let Some(reason) = self.has_to_wait(object)? {
            return Ok(Verdict::NotNow(reason));
        }
        let sql = format!(
            "SELECT {} FROM part CROSS JOIN chunk ON chunk.id = part.chunk WHERE part.object = ? ORDER BY part.part",
            chunks::COLUMNS
        );
        let mut find = self.db.prepare_cached(&sql)?;
        let mut rows = find.query([object.id])?;
        let (mut lens, mut have, mut run) = (Vec::new(), Ranges::default(), 0);
        while let Some(row) = rows.next()? {
            let row = chunks::row(row, 0)?;
            lens.push(row.chunk.wire_len());
            let part = lens.len() as u64;
            if row.place.is_some() || self.pending.contains_key(&row.id) {
                run += 1;
            } else {
                have.insert(part - run, part);
                run = 0;
            }
        }
        let end = lens.len() as u64 + 1;
        have.insert(end - run, end);
        Ok(Verdict::WantChunks { lens, have })
    }

    /// Whether an object has to wait: there is room for those that are more urgent, or came before, but not for this one as well.
    fn has_to_wait(&mut self, object: &Known) -> Result<Option<NoRoom>, DepotError> {
        let mut sum = self.db.prepare_cached(
            "SELECT coalesce(sum(missing_len), 0) FROM object WHERE state = 2 AND (priority, id) <= (?, ?)",
        )?;
        let needed: i64 = sum.query_row((object.priority, object.id), |row| row.get(0))?;
        drop(sum);
        let stored: u64 = self.pending.values().map(|place| u64::from(place.len)).sum();
        let (capacity, why) = self.capacity()?;
        Ok((needed as u64 > capacity.saturating_add(stored)).then_some(why))
    }

    /// The manifest of an object that a peer has is there.
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub fn on_manifest(&mut self, peer: &PublicKey, object: &ObjectId, bytes: &[u8]) -> Result<Verdict, DepotError> {
        if state::find(&self.db, object)?.is_some() {
            return self.verdict(object);
        }
        let manifest = match self.judge(object, bytes) {
            Ok(manifest) => manifest,
            Err(refusal) => {
                tracing::warn!(object = crate::error::short(object), %refusal, "an object is refused");
                return Ok(Verdict::Refuse(refusal));
            }
        };
        let number = manifest.number;
        if receipts::contains(&self.db, Set::Delivered, manifest.source, number)? {
            return Ok(Verdict::HaveCustody);
        }
        if !state::numbered(&self.db, manifest.source, number, number + 1)?.is_empty() {
            return Ok(Verdict::Refuse(Refusal::Number));
        }
        if let Some(reason) = self.room_for_another(bytes.len() as u64)? {
            return Ok(Verdict::NotNow(reason));
        }
        if !self.pending.is_empty() {
            self.flush()?;
        }
        let peer = self.peer(peer)?;
        let for_us = self.is_for_us(&manifest);
        let tx = db::begin(&mut self.db, Promise::Later)?;
        let row = tx
            .prepare_cached("INSERT INTO object (state, origin, changed_s) VALUES (2, ?, ?)")?
            .insert((Origin::Taken as i64, now_s() as i64))?;
        describe(&tx, row, object, &manifest, bytes.len())?;
        tx.prepare_cached("INSERT INTO manifest VALUES (?, ?)")?.execute((row, bytes))?;
        let (mut missing, mut missing_len, mut wire_len) = (0, 0, 0);
        for (chunk, part) in manifest.chunks.iter().zip(1..) {
            let found = chunks::find(&tx, chunk)?;
            if found.is_none_or(|found| found.place.is_none()) {
                missing += 1;
                missing_len += i64::from(chunk.wire_len());
            }
            wire_len += i64::from(chunk.wire_len());
            let id = match found {
                Some(found) => found.id,
                None => chunks::insert(&tx, chunk)?,
            };
            chunks::need(&tx, row, part, id)?;
        }
        let mut set = tx.prepare_cached(
            "UPDATE object SET size = ?, wire_len = ?, parts = ?, missing = ?, missing_len = ?, for_us = ?, files = ? WHERE id = ?",
        )?;
        let parts = manifest.chunks.len() as i64;
        let files = i64::from(manifest.kind != Kind::Pack);
        set.execute((manifest.size() as i64, wire_len, parts, missing, missing_len, for_us, files, row))?;
        drop(set);
        let known = state::get(&tx, row)?;
        state::told(&tx, &known, peer, Told::Has)?;
        tx.commit()?;
        self.is_dirty = true;
        self.verdict_of(&known)
    }

    fn judge(&self, object: &ObjectId, bytes: &[u8]) -> Result<Manifest, Refusal> {
        if Hash::of(bytes) != object.0 {
            return Err(Refusal::Another);
        }
        let manifest = Manifest::parse(bytes).map_err(Refusal::Manifest)?;
        if manifest.source == self.store {
            return Err(Refusal::Ours);
        }
        if !self.config.sources.contains(&manifest.key) {
            return Err(Refusal::Source);
        }
        if manifest.expires_s > 0 && manifest.expires_s <= now_s() {
            return Err(Refusal::Expired);
        }
        let is_absurd = match manifest.kind {
            Kind::File => self.is_for_us(&manifest) && !pack::fits(&manifest.path),
            Kind::Pack => manifest.size() > pack::MAX_LEN as u64,
            Kind::Bundle => manifest.size() > MAX_BUNDLE as u64,
        };
        if is_absurd { Err(Refusal::Absurd) } else { Ok(manifest) }
    }

    /// Whether an object ends here.
    fn is_for_us(&self, manifest: &Manifest) -> bool {
        let is_ours = |name: &str| manifest.destination.is_empty() || manifest.destination == name;
        self.config.shore.as_ref().is_some_and(|shore| is_ours(&shore.name))
    }

    /// A chunk of an object came, as it travels: `part` counts from 1. It is verified, and kept if it is what it should be.
    ///
    /// # Errors
    /// [`DepotError::Full`] if there is no room, [`DepotError::Unknown`] if the object is not being taken (any more).
    pub fn store(&mut self, object: &ObjectId, part: u64, bytes: &[u8]) -> Result<Stored, DepotError> {
        let sql = format!(
            "SELECT {}, object.state FROM object JOIN part ON part.object = object.id
             JOIN chunk ON chunk.id = part.chunk WHERE object.object = ? AND part.part = ?",
            chunks::COLUMNS
        );
        let mut find = self.db.prepare_cached(&sql)?;
        let found = find.query_row((object.0.0, part as i64), |row| Ok((chunks::row(row, 0)?, row.get::<_, i64>(6)?)));
        let (row, state) = found.optional()?.ok_or(DepotError::Unknown(*object))?;
        drop(find);
        if row.place.is_some() || self.pending.contains_key(&row.id) {
            return Ok(Stored::nothing_new(true));
        }
        if state != State::Partial as i64 {
            return Err(DepotError::Unknown(*object));
        }
        if self.squeezer.open(&row.chunk, bytes).is_none() {
            return Ok(Stored::nothing_new(false));
        }
        let place = self.append(bytes)?;
        self.pending.insert(row.id, place);
        let mut needed = self.db.prepare_cached(
            "SELECT object.id, object.object, part.part, object.state FROM part JOIN object ON object.id = part.object
             WHERE part.chunk = ?",
        )?;
        let mut also = Vec::new();
        let mut rows = needed.query([row.id])?;
        while let Some(row) = rows.next()? {
            *self.arrived.entry(row.get(0)?).or_default() += 1;
            let (other, other_part) = (ObjectId(Hash(row.get(1)?)), row.get::<_, i64>(2)? as u64);
            if row.get::<_, i64>(3)? == State::Partial as i64 && (other, other_part) != (*object, part) {
                also.push((other, other_part));
            }
        }
        drop(rows);
        drop(needed);
        self.relieve()?;
        Ok(Stored { good: true, was_there: false, also })
    }

    /// Whether all chunks of an object are stored. It is in custody after the next [`Depot::commit`].
    ///
    /// # Errors
    /// [`DepotError::Unknown`] if there is no such object.
    pub fn is_complete(&self, object: &ObjectId) -> Result<bool, DepotError> {
        let known = state::find(&self.db, object)?.ok_or(DepotError::Unknown(*object))?;
        let arrived = self.arrived.get(&known.id).copied().unwrap_or_default();
        Ok(known.missing == arrived || !matches!(known.state, State::Queued | State::Partial))
    }

    /// Chunks that an object has, and how many there are.
    ///
    /// # Errors
    /// [`DepotError::Unknown`] if there is no such object.
    pub fn progress(&self, object: &ObjectId) -> Result<(u64, u64), DepotError> {
        let known = state::find(&self.db, object)?.ok_or(DepotError::Unknown(*object))?;
        let mut find = self.db.prepare_cached("SELECT parts FROM object WHERE id = ?")?;
        let parts = find.query_row([known.id], |row| row.get::<_, i64>(0))? as u64;
        let arrived = self.arrived.get(&known.id).copied().unwrap_or_default();
        Ok((parts - known.missing + arrived, parts))
    }

    /// Whether a chunk with this content is here, in whatever form.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn has(&self, chunk: &Chunk) -> Result<bool, DepotError> {
        let found = chunks::find(&self.db, chunk)?;
        Ok(found.is_some_and(|row| row.place.is_some() || self.pending.contains_key(&row.id)))
    }
}
