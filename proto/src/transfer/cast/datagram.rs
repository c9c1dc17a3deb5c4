//! A datagram of a cast, and what is in it.
//!
//! | bytes | |
//! |---|---|
//! | 4 | `aqC1` |
//! | 8 | name of the sender, of its own for each cast of a store |
//! | 4 | drawn by the sender when it starts |
//! | 8 | counter, grows with each datagram, also over restarts; below 2^63 |
//! | ... | pieces, sealed by ChaCha20-Poly1305 (RFC 8439): the nonce is the 12 bytes before, all 24 are associated data |
//! | 16 | its tag |
//!
//! The key is BLAKE3's `derive_key` of the shared key followed by the sender's name, with the context `aquila 2026-11 cast datagram 1`: each
//! sender has a key of its own, and so nonces of its own. A piece is
//!
//! | bytes | |
//! |---|---|
//! | 1 | 0: the block is of a manifest, 1: of chunks |
//! | 32 | the object |
//! | varint | number of the block |
//! | varint | bytes of the whole manifest, or of the block of chunks, `F` |
//! | 3 | encoding symbol id |
//! | 2 | bytes of a symbol, `T` |
//! | T | the symbol |
//!
//! Numbers are in network order, varints those of RFC 9000 §16. The symbol is that of RFC 6330 §5.3 for a source block of `K = ceil(F/T)`
//! symbols, `F` being the bytes of this block alone, filled up with zeros, in one sub-block (`N = 1`, `Al = 1`).

use std::fmt;
use std::str::FromStr;

use bytes::{BufMut, Bytes};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

use super::super::manifest::{Chunk, Hash, Manifest, ObjectId, StoreId, take};
use super::layout::Block;
use super::{DATAGRAM, MAX_BLOCK, MAX_SYMBOLS};
use crate::replay::{ReplayGuard, Verdict};
use crate::wire::varint::{put_varint, take_varint, varint_len};

const MAGIC: &[u8; 4] = b"aqC1";
const CONTEXT: &str = "aquila 2026-11 cast datagram 1";
const HEADER: usize = 24;
const TAG: usize = 16;
/// Bytes of a datagram that are not pieces.
pub(super) const FRAME: usize = HEADER + TAG;
/// Encoding symbol ids have 24 bits (RFC 6330 §3.2).
pub(super) const MAX_ID: u32 = (1 << 24) - 1;
const MAX_COUNTER: u64 = 1 << 63;
/// Senders whose counters are remembered; one more takes the place of the one that was heard longest ago.
const MAX_SENDERS: usize = 64;

/// The key that all members of a cast share.
#[derive(Clone, PartialEq, Eq)]
pub struct CastKey([u8; 32]);

/// Why a text is no shared key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no shared key: it begins with aqs1: and has 64 hexadecimal digits, as `aquila keys shared` writes it")]
pub struct CastKeyError;

impl CastKey {
    /// What a shared key begins with as text.
    pub const PREFIX: &'static str = "aqs1:";

    /// Of these bytes, which should be random.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// For the file of its owner. There is no `Display`, so that it gets into no log.
    pub fn to_text(&self) -> String {
        Self::PREFIX.to_owned() + &Hash(self.0).to_string()
    }

    /// What people compare: eight digits that tell nothing of the key.
    pub fn fingerprint(&self) -> String {
        format!("{:.8}", Hash(blake3::derive_key("aquila 2026-11 cast fingerprint 1", &self.0)))
    }

    fn of_sender(&self, sender: StoreId) -> LessSafeKey {
        let key = blake3::derive_key(CONTEXT, &[&self.0[..], &sender.0].concat());
        LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &key).expect("the key has the cipher's length"))
    }
}

impl fmt::Debug for CastKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CastKey({})", self.fingerprint())
    }
}

impl FromStr for CastKey {
    type Err = CastKeyError;

    fn from_str(text: &str) -> Result<Self, CastKeyError> {
        let digits = text.trim().strip_prefix(Self::PREFIX).filter(|digits| digits.len() == 64).ok_or(CastKeyError)?;
        let nibble = |digit: &u8| char::from(*digit).to_digit(16).map(|digit| digit as u8).ok_or(CastKeyError);
        let mut key = [0; 32];
        for (byte, pair) in key.iter_mut().zip(digits.as_bytes().as_chunks::<2>().0) {
            *byte = nibble(&pair[0])? << 4 | nibble(&pair[1])?;
        }
        Ok(Self(key))
    }
}

/// A symbol of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Of which object.
    pub object: ObjectId,
    /// Of which block.
    pub block: Block,
    /// Bytes of the whole manifest, or of the block of chunks.
    pub len: u32,
    /// Encoding symbol id, below 2^24.
    pub id: u32,
    /// The symbol, 1 to 1472 bytes.
    pub symbol: Bytes,
}

impl Piece {
    /// Bytes that a piece takes beside its symbol.
    pub(super) fn overhead(block: Block, len: u32) -> usize {
        let (Block::Manifest(number) | Block::Chunks(number)) = block;
        1 + 32 + varint_len(number.into()) + varint_len(len.into()) + 3 + 2
    }

    /// Bytes of its block, 1 to [`MAX_BLOCK`]. What was parsed has some.
    pub fn block_len(&self) -> usize {
        match self.block {
            Block::Manifest(number) => Block::of_manifest(number, self.len as usize).unwrap_or_default(),
            Block::Chunks(_) => self.len as usize,
        }
    }

    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let (kind, number) = match self.block {
            Block::Manifest(number) => (0, number),
            Block::Chunks(number) => (1, number),
        };
        out.put_u8(kind);
        out.put_slice(&self.object.0.0);
        put_varint(out, number.into());
        put_varint(out, self.len.into());
        out.put_slice(&self.id.min(MAX_ID).to_be_bytes()[1..]);
        out.put_u16(self.symbol.len() as u16);
        out.put_slice(&self.symbol);
    }

    /// Takes one from the front; `None` if these bytes are none, or it would be of a block that nobody sends.
    pub fn take(bytes: &mut Bytes) -> Option<Self> {
        let mut rest = &bytes[..];
        let [kind] = take(&mut rest)?;
        let object = ObjectId(Hash(take(&mut rest)?));
        let number = u32::try_from(take_varint(&mut rest)?).ok()?;
        let len = u32::try_from(take_varint(&mut rest)?).ok()?;
        let id = take::<3>(&mut rest)?;
        let symbol_len = usize::from(u16::from_be_bytes(take(&mut rest)?));
        let block = match kind {
            0 if len as usize <= Manifest::MAX_LEN => Block::Manifest(number),
            1 if len as usize <= MAX_BLOCK => Block::Chunks(number),
            _ => return None,
        };
        if symbol_len == 0 || symbol_len > rest.len() {
            return None;
        }
        let start = bytes.len() - rest.len();
        let symbol = bytes.slice(start..start + symbol_len);
        let id = id.iter().fold(0, |id, byte| id << 8 | u32::from(*byte));
        let piece = Self { object, block, len, id, symbol };
        let block_len = piece.block_len();
        // Chunks shorter than a byte, and blocks beyond what any manifest can have.
        let is_absurd = block_len == 0 || number > Manifest::MAX_LEN as u32 / 34;
        if is_absurd || symbol_len > block_len || block_len.div_ceil(symbol_len) > MAX_SYMBOLS as usize {
            return None;
        }
        let _ = bytes.split_to(start + symbol_len);
        Some(piece)
    }
}

const _: () = assert!(Chunk::MAX as usize <= MAX_BLOCK, "a chunk fits into a block");

/// Seals the datagrams of a sender.
#[derive(Debug)]
pub struct Sealer {
    key: LessSafeKey,
    sender: StoreId,
    run: [u8; 4],
    counter: u64,
}

impl Sealer {
    /// `run` was drawn for this start, `counter` is above all that this sender has ever used.
    pub fn new(key: &CastKey, sender: StoreId, run: [u8; 4], counter: u64) -> Self {
        Self { key: key.of_sender(sender), sender, run, counter }
    }

    /// The counter of the next datagram.
    pub fn counter(&self) -> u64 {
        self.counter
    }

    /// Makes a datagram of pieces. `None` when all counters are used up, which takes longer than anything lasts.
    pub fn seal(&mut self, pieces: &[u8]) -> Option<Vec<u8>> {
        let counter = Some(self.counter).filter(|counter| *counter < MAX_COUNTER)?;
        self.counter += 1;
        let mut out = Vec::with_capacity(FRAME + pieces.len());
        out.put_slice(MAGIC);
        out.put_slice(&self.sender.0);
        out.put_slice(&self.run);
        out.put_u64(counter);
        let header: [u8; HEADER] = out.first_chunk().copied().unwrap_or_default();
        out.put_slice(pieces);
        let sealed = self.key.seal_in_place_separate_tag(nonce(&header), Aad::from(header), &mut out[HEADER..]);
        out.put_slice(sealed.ok()?.as_ref());
        Some(out)
    }
}

fn nonce(header: &[u8; HEADER]) -> Nonce {
    let mut nonce = [0; 12];
    nonce.copy_from_slice(&header[12..]);
    Nonce::assume_unique_for_key(nonce)
}

/// Why a datagram is none of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Nothing of a cast, or of a later version.
    #[error("not a datagram of a cast, or one of a later version")]
    Foreign,
    /// Sealed with another key, or changed on the way.
    #[error("not sealed with our key")]
    Key,
    /// It was here before, or is too old for that to be known.
    #[error("it was here before")]
    Replayed,
}

/// Opens what others have sealed, each datagram once.
#[derive(Debug)]
pub struct Opener {
    key: CastKey,
    /// The one heard last is at the end.
    senders: Vec<(StoreId, LessSafeKey, ReplayGuard)>,
}

impl Opener {
    /// Nobody was heard yet.
    pub fn new(key: CastKey) -> Self {
        Self { key, senders: Vec::new() }
    }

    /// Who sent it, and its pieces.
    ///
    /// # Errors
    /// [`Refused`]; nothing of it is to be looked at then.
    pub fn open(&mut self, datagram: &[u8]) -> Result<(StoreId, Bytes), Refused> {
        let foreign = Refused::Foreign;
        let (header, sealed) = datagram.split_first_chunk::<HEADER>().ok_or(foreign)?;
        if !header.starts_with(MAGIC) || datagram.len() > *DATAGRAM.end() || sealed.len() < TAG {
            return Err(foreign);
        }
        let rest = &mut &header[MAGIC.len()..];
        let sender = StoreId(take(rest).ok_or(foreign)?);
        let _run: [u8; 4] = take(rest).ok_or(foreign)?;
        let counter = u64::from_be_bytes(take(rest).ok_or(foreign)?);
        let known = self.senders.iter().position(|(other, ..)| *other == sender);
        // One that nobody knows is remembered when it has shown that it has the key.
        let new = if known.is_none() { Some(self.key.of_sender(sender)) } else { None };
        let key = known.map(|index| &self.senders[index].1).or(new.as_ref()).ok_or(foreign)?;
        let mut bytes = sealed.to_vec();
        let opened = key.open_in_place(nonce(header), Aad::from(*header), &mut bytes);
        let len = opened.map_err(|_| Refused::Key)?.len();
        if counter >= MAX_COUNTER {
            return Err(foreign);
        }
        bytes.truncate(len);
        let entry = match (known, new) {
            (Some(index), _) => self.senders.remove(index),
            (None, Some(key)) => (sender, key, ReplayGuard::default()),
            (None, None) => return Err(foreign),
        };
        if self.senders.len() >= MAX_SENDERS {
            self.senders.remove(0);
        }
        self.senders.push(entry);
        let verdict = self.senders.last_mut().map(|(_, _, guard)| guard.check(0, counter, false));
        if verdict == Some(Verdict::Fresh) { Ok((sender, bytes.into())) } else { Err(Refused::Replayed) }
    }
}
