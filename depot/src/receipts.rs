//! Who has signed for what.

use aquila_proto::identity::PublicKey;
use aquila_proto::transfer::{Confirms, Ranges, Receipt, ReceiptError, StoreId};
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension};

use crate::depot::{Depot, now_s};
use crate::error::DepotError;
use crate::state::{self, Told};

/// Most receipts that a peer is told.
const MAX_TOLD: usize = 256;
/// Receipts of one issuer for one store and purpose that are kept. One tells 48 ranges; another one is needed where there are gaps.
const MAX_KEPT: i64 = 64;

/// Numbers that are kept as ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// What this store has taken custody of.
    Custody = 0,
    /// What was handed over here.
    HandedOver = 1,
    /// What was delivered, by anybody who is to be believed.
    Delivered = 2,
}

/// What a receipt has told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Heard {
    /// It is one that counts, and was not known. The receipts to be told are others now.
    pub is_new: bool,
    /// Objects here that the peer has, of which that was not known.
    pub custody: u64,
    /// Objects here that are delivered, of which that was not known.
    pub delivered: u64,
}

/// Adds numbers to a set.
pub fn add(db: &Connection, set: Set, source: StoreId, start: u64, end: u64) -> Result<(), DepotError> {
    let (mut start, mut end) = (start as i64, end as i64);
    let touching = "confirms = ? AND source = ? AND start <= ? AND end >= ?";
    let mut find = db.prepare_cached(&format!("SELECT min(start), max(end) FROM confirmed WHERE {touching}"))?;
    let found = find.query_row((set as i64, source.0, end, start), |row| {
        Ok(row.get::<_, Option<i64>>(0)?.zip(row.get::<_, Option<i64>>(1)?))
    })?;
    if let Some((first, last)) = found {
        let mut remove = db.prepare_cached(&format!("DELETE FROM confirmed WHERE {touching}"))?;
        remove.execute((set as i64, source.0, end, start))?;
        (start, end) = (start.min(first), end.max(last));
    }
    db.prepare_cached("INSERT INTO confirmed VALUES (?, ?, ?, ?)")?.execute((set as i64, source.0, start, end))?;
    Ok(())
}

/// Whether a number is in a set.
pub fn contains(db: &Connection, set: Set, source: StoreId, number: u64) -> Result<bool, DepotError> {
    let mut find = db.prepare_cached(
        "SELECT end > ?1 FROM confirmed WHERE confirms = ?2 AND source = ?3 AND start <= ?1 ORDER BY start DESC LIMIT 1",
    )?;
    Ok(find.query_row((number as i64, set as i64, source.0), |row| row.get(0)).optional()?.unwrap_or(false))
}

/// Numbers of a store's objects, as half-open ranges, ascending.
type Numbers = (StoreId, Vec<(u64, u64)>);

/// All of a set, by store.
fn ranges(db: &Connection, set: Set) -> Result<Vec<Numbers>, DepotError> {
    let mut find =
        db.prepare_cached("SELECT source, start, end FROM confirmed WHERE confirms = ? ORDER BY source, start")?;
    let mut rows = find.query([set as i64])?;
    let mut sets: Vec<Numbers> = Vec::new();
    while let Some(row) = rows.next()? {
        let source = StoreId(row.get(0)?);
        let range = (row.get::<_, i64>(1)? as u64, row.get::<_, i64>(2)? as u64);
        match sets.last_mut().filter(|(of, _)| *of == source) {
            Some((_, ranges)) => ranges.push(range),
            None => sets.push((source, vec![range])),
        }
    }
    Ok(sets)
}

impl Depot {
    /// Receipts that a peer should have: of what was handed over here, deliveries that others have signed for, and our custody. At most
    /// 256, of at most 997 bytes each, the newest first where there are more. They change with [`Depot::commit`],
    /// [`Depot::deliver`] and [`Depot::on_receipt`].
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn receipts_for(&self, peer: &PublicKey) -> Result<Vec<Bytes>, DepotError> {
        let mut receipts = self.own_receipts(Set::HandedOver, Confirms::Delivery)?;
        let mut find = self
            .db
            .prepare_cached("SELECT bytes FROM receipt WHERE confirms = ? AND issuer <> ? ORDER BY id DESC LIMIT ?")?;
        let rows =
            find.query_map((Confirms::Delivery as i64, peer.0, MAX_TOLD as i64), |row| row.get::<_, Vec<u8>>(0))?;
        for bytes in rows {
            receipts.push(Bytes::from(bytes?));
        }
        // What was delivered matters more, but a peer that has given something away must hear of it.
        let custody = self.own_receipts(Set::Custody, Confirms::Custody)?;
        receipts.truncate(MAX_TOLD - custody.len().min(MAX_TOLD / 2));
        receipts.extend(custody);
        receipts.truncate(MAX_TOLD);
        Ok(receipts)
    }

    /// Ours, the newest numbers first.
    fn own_receipts(&self, set: Set, confirms: Confirms) -> Result<Vec<Bytes>, DepotError> {
        let mut receipts = Vec::new();
        for (source, ranges) in ranges(&self.db, set)? {
            for page in ranges.chunks(Receipt::MAX_RANGES).rev().take(MAX_TOLD) {
                let mut numbers = Ranges::default();
                page.iter().for_each(|(start, end)| _ = numbers.insert(*start, *end));
                let receipt = Receipt { confirms, issuer: self.key(), source, numbers };
                receipts.push(receipt.sign(&self.config.identity));
            }
        }
        Ok(receipts)
    }

    /// A receipt came from a peer. What counts are deliveries that a shore of the configuration has signed for, whoever brings them, and
    /// the custody of the peer itself. It is acted upon when this returns, and promised; deliveries are carried further.
    ///
    /// # Errors
    /// If the database cannot be read or written. What is no receipt, or nobody's who counts, is no error: nothing is heard.
    pub fn on_receipt(&mut self, peer: &PublicKey, bytes: &[u8]) -> Result<Heard, DepotError> {
        let receipt = match Receipt::parse(bytes) {
            Ok(receipt) => receipt,
            Err(ReceiptError::Malformed | ReceiptError::Signature) => {
                tracing::warn!(?peer, "a receipt that is none");
                return Ok(Heard::default());
            }
        };
        let counts = match receipt.confirms {
            Confirms::Custody => receipt.issuer == *peer,
            Confirms::Delivery => self.config.shores.contains(&receipt.issuer),
        };
        if !counts || receipt.issuer == self.key() {
            return Ok(Heard::default());
        }
        let known = self.told_before(&receipt)?;
        let mut fresh = receipt.numbers.clone();
        for (_, numbers) in &known {
            numbers.iter().for_each(|(start, end)| fresh.remove(start, end));
        }
        if fresh.is_empty() {
            return Ok(Heard::default());
        }
        let peer = self.peer(peer)?;
        self.flush()?;
        let (delete, now_s) = (self.config.delete, now_s());
        let heard = self.now(|tx| {
            keep(tx, &receipt, &known, bytes)?;
            let mut heard = Heard { is_new: true, ..Heard::default() };
            for (start, end) in fresh.iter() {
                if receipt.confirms == Confirms::Delivery {
                    add(tx, Set::Delivered, receipt.source, start, end)?;
                }
                let mut next = start;
                loop {
                    let objects = state::numbered(tx, receipt.source, next, end)?;
                    let Some(last) = objects.last() else { break };
                    next = last.number + 1;
                    for object in &objects {
                        match receipt.confirms {
                            Confirms::Custody => {
                                state::told(tx, object, peer, Told::Given)?;
                                state::on_custody(tx, object, delete, now_s)?;
                                heard.custody += 1;
                            }
                            Confirms::Delivery => {
                                heard.delivered += u64::from(state::on_delivered(tx, object, delete, now_s)?);
                            }
                        }
                    }
                }
            }
            Ok(heard)
        })?;
        self.released |= heard.custody + heard.delivered > 0;
        Ok(heard)
    }

    /// Receipts that are kept of the same issuer for the same store and purpose.
    fn told_before(&self, receipt: &Receipt) -> Result<Vec<(i64, Ranges)>, DepotError> {
        let mut find =
            self.db.prepare_cached("SELECT id, bytes FROM receipt WHERE confirms = ? AND issuer = ? AND source = ?")?;
        let rows = find.query_map((receipt.confirms as i64, receipt.issuer.0, receipt.source.0), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
        })?;
        let mut kept = Vec::new();
        for row in rows {
            let (id, bytes) = row?;
            kept.extend(Receipt::parse(&bytes).ok().map(|receipt| (id, receipt.numbers)));
        }
        Ok(kept)
    }
}

/// Keeps a receipt, and those before it that tell something that it does not.
fn keep(db: &Connection, receipt: &Receipt, known: &[(i64, Ranges)], bytes: &[u8]) -> Result<(), DepotError> {
    let is_told = |numbers: &Ranges| numbers.iter().all(|(start, end)| receipt.numbers.covers(start, end));
    for (id, _) in known.iter().filter(|(_, numbers)| is_told(numbers)) {
        db.prepare_cached("DELETE FROM receipt WHERE id = ?")?.execute([id])?;
    }
    let of = (receipt.confirms as i64, receipt.issuer.0, receipt.source.0);
    db.prepare_cached("INSERT INTO receipt (confirms, issuer, source, bytes) VALUES (?, ?, ?, ?)")?
        .execute((of.0, of.1, of.2, bytes))?;
    db.prepare_cached(
        "DELETE FROM receipt WHERE confirms = ?1 AND issuer = ?2 AND source = ?3 AND id NOT IN
         (SELECT id FROM receipt WHERE confirms = ?1 AND issuer = ?2 AND source = ?3 ORDER BY id DESC LIMIT ?4)",
    )?
    .execute((of.0, of.1, of.2, MAX_KEPT))?;
    Ok(())
}
