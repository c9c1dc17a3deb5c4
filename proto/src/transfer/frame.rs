//! What two stores say to each other, in parcels: some frames, or a piece of an object.
//!
//! | type | frame | fields behind it |
//! |---|---|---|
//! | 1 | hello | version 1, life of the process (64 bits), name of the store (8 bytes) |
//! | 2 | offer | handle, object (32 bytes), length of the manifest, bytes of the chunks on the way, priority (1 byte), deadline in s since 1970 |
//! | 3 | state | handle, turn, state (1 byte: 0 the manifest is wanted, 1 chunks are, 2 in custody, 3 refused, 4 not now) |
//! | 4 | chunks | handle, first part, then alternating, until the frame's length: how many parts are missing, how many are there |
//! | 5 | part | handle, part, then alternating: bytes missing, bytes there |
//! | 6 | resumed | none: all that was known at this contact's beginning has been told |
//! | 7 | receipt | its length and bytes |
//! | 8 | data | handle, part, offset, bytes to the end of the parcel |
//! | 9 | to | life of the process that frames 3 to 6 behind it in this parcel are for; others take no notice of them |
//! | 10 | piece | length of what follows, then as data |
//! | 11 | withdrawn | handle: it is not to be had any more |
//!
//! Numbers are varints where nothing else is said. Frames 4 and 5 have their length behind the type. Part 0 of an object is its manifest, part n its nth
//! chunk as it travels. A handle is the number that the giver has given an object, from 1, never again in its life.

use bytes::{BufMut, Bytes};

use super::manifest::{Hash, ObjectId, StoreId, take};
use super::ranges::Ranges;
use crate::wire::varint::{put_varint, take_varint, varint_len};

/// What a giver calls an object.
pub type Handle = u64;

/// An object that is to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Which.
    pub object: ObjectId,
    /// Bytes of its manifest.
    pub manifest_len: u32,
    /// Bytes of its chunks on the way.
    pub wire_len: u64,
    /// 0 is served first, 7 last.
    pub priority: u8,
    /// By when it should be delivered, seconds since 1970; 0 if nothing is said.
    pub deadline_s: u64,
}

/// How a taker is about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// The manifest is wanted.
    Manifest,
    /// Chunks are.
    Chunks,
    /// Nothing more: it is in custody.
    Custody,
    /// It is not taken, ever.
    Refused,
    /// Not now: there is no room.
    NotNow,
}

impl Want {
    const ALL: [Self; 5] = [Self::Manifest, Self::Chunks, Self::Custody, Self::Refused, Self::NotNow];
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Who is there.
    Hello {
        /// Drawn at each start.
        life: u64,
        /// Whose.
        store: StoreId,
    },
    /// An object.
    Offer(Handle, Offer),
    /// How it stands with one; a later turn is newer.
    State(Handle, u64, Want),
    /// Of the parts from the first number to before the second, those that are there.
    Chunks(Handle, (u64, u64), Ranges),
    /// Of a part's bytes, those that are there.
    Part(Handle, u64, Ranges),
    /// All that was known when this contact began has been told.
    Resumed,
    /// A receipt.
    Receipt(Bytes),
    /// An object is not to be had any more.
    Withdrawn(Handle),
    /// Frames 3 to 6 behind it in this parcel are for this life of the other side.
    To(u64),
    /// Bytes of a part, at an offset.
    Data(Handle, u64, u64, Bytes),
}

const VERSION: u8 = 1;
const HELLO: u8 = 1;
const OFFER: u8 = 2;
const STATE: u8 = 3;
const CHUNKS: u8 = 4;
const PART: u8 = 5;
const RESUMED: u8 = 6;
const RECEIPT: u8 = 7;
const DATA: u8 = 8;
const TO: u8 = 9;
const PIECE: u8 = 10;
const WITHDRAWN: u8 = 11;
/// A piece costs so many bytes more than data, at most.
pub const PIECE_EXTRA: usize = 2;
/// Longest frame but data, in bytes: it fits the smallest parcel.
pub const MAX_FRAME: usize = 1_000;
/// Of its numbers, so many pairs fit.
const MAX_RUNS: usize = 110;

impl Frame {
    /// Writes it. Of [`Frame::Chunks`] and [`Frame::Part`] at most so many ranges as fit [`MAX_FRAME`] are written: of the first,
    /// what is behind them is left out of the frame's span; of the second, as if it were missing. Gives where the span ends.
    pub fn put(&self, out: &mut Vec<u8>) -> u64 {
        match self {
            Self::Hello { life, store } => {
                out.put_slice(&[HELLO, VERSION]);
                out.put_u64(*life);
                out.put_slice(&store.0);
            }
            Self::Offer(handle, offer) => {
                out.put_u8(OFFER);
                put_varint(out, *handle);
                out.put_slice(&offer.object.0.0);
                put_varint(out, offer.manifest_len.into());
                put_varint(out, offer.wire_len);
                out.put_u8(offer.priority);
                put_varint(out, offer.deadline_s);
            }
            Self::State(handle, turn, want) => {
                out.put_u8(STATE);
                put_varint(out, *handle);
                put_varint(out, *turn);
                out.put_u8(*want as u8);
            }
            Self::Chunks(handle, (first, end), there) => return put_runs(out, CHUNKS, *handle, *first, *end, there),
            Self::Part(handle, part, there) => {
                let end = there.iter().next_back().map_or(0, |(_, end)| end);
                let mut body = Vec::new();
                put_varint(&mut body, *handle);
                put_varint(&mut body, *part);
                put_pairs(&mut body, 0, end, there);
                put_block(out, PART, &body);
            }
            Self::Resumed => out.put_u8(RESUMED),
            Self::Withdrawn(handle) => {
                out.put_u8(WITHDRAWN);
                put_varint(out, *handle);
            }
            Self::Receipt(bytes) => {
                out.put_u8(RECEIPT);
                put_varint(out, bytes.len() as u64);
                out.put_slice(bytes);
            }
            Self::To(life) => {
                out.put_u8(TO);
                out.put_u64(*life);
            }
            Self::Data(handle, part, offset, bytes) => {
                out.put_u8(DATA);
                [*handle, *part, *offset].into_iter().for_each(|value| put_varint(out, value));
                out.put_slice(bytes);
            }
        }
        0
    }

    /// Writes data that something follows: [`Frame::take`] gives [`Frame::Data`].
    pub fn put_piece(handle: Handle, part: u64, offset: u64, bytes: &[u8], out: &mut Vec<u8>) {
        out.put_u8(PIECE);
        put_varint(out, (data_header(handle, part, offset) - 1 + bytes.len()) as u64);
        [handle, part, offset].into_iter().for_each(|value| put_varint(out, value));
        out.put_slice(bytes);
    }

    /// Takes a frame from a parcel's front; `None` if that is none, with which the parcel is no good any more.
    pub fn take(parcel: &mut Bytes) -> Option<Self> {
        let all = parcel.clone();
        let mut rest = &all[..];
        let frame = Self::read(&mut rest, &all)?;
        *parcel = all.slice_ref(rest);
        Some(frame)
    }

    fn read(rest: &mut &[u8], all: &Bytes) -> Option<Self> {
        let [kind] = take(rest)?;
        Some(match kind {
            HELLO => {
                let [version] = take(rest)?;
                let life = u64::from_be_bytes(take(rest)?);
                let store = StoreId(take(rest)?);
                (version == VERSION).then_some(Self::Hello { life, store })?
            }
            OFFER => {
                let handle = take_varint(rest)?;
                let object = ObjectId(Hash(take(rest)?));
                let manifest_len = take_varint(rest)?.try_into().ok()?;
                let wire_len = take_varint(rest)?;
                let [priority] = take(rest)?;
                let deadline_s = take_varint(rest)?;
                Self::Offer(handle, Offer { object, manifest_len, wire_len, priority, deadline_s })
            }
            STATE => {
                let (handle, turn) = (take_varint(rest)?, take_varint(rest)?);
                let [want] = take(rest)?;
                Self::State(handle, turn, *Want::ALL.get(usize::from(want))?)
            }
            CHUNKS | PART => {
                let len = usize::try_from(take_varint(rest)?).ok()?;
                let (mut body, behind) = rest.split_at_checked(len)?;
                *rest = behind;
                let (handle, number) = (take_varint(&mut body)?, take_varint(&mut body)?);
                let first = if kind == CHUNKS { number } else { 0 };
                let (mut at, mut there) = (first, Ranges::default());
                while !body.is_empty() {
                    let from = at.checked_add(take_varint(&mut body)?)?;
                    at = from.checked_add(take_varint(&mut body)?)?;
                    there.insert(from, at);
                }
                match kind {
                    CHUNKS => Self::Chunks(handle, (first, at), there),
                    _ => Self::Part(handle, number, there),
                }
            }
            RESUMED => Self::Resumed,
            WITHDRAWN => Self::Withdrawn(take_varint(rest)?),
            RECEIPT => {
                let len = usize::try_from(take_varint(rest)?).ok()?;
                let (bytes, behind) = rest.split_at_checked(len)?;
                *rest = behind;
                Self::Receipt(all.slice_ref(bytes))
            }
            PIECE => {
                let len = usize::try_from(take_varint(rest)?).ok()?;
                let (mut piece, behind) = rest.split_at_checked(len)?;
                *rest = behind;
                let rest = &mut piece;
                let (handle, part, offset) = (take_varint(rest)?, take_varint(rest)?, take_varint(rest)?);
                Self::Data(handle, part, offset, all.slice_ref(piece))
            }
            TO => Self::To(u64::from_be_bytes(take(rest)?)),
            DATA => {
                let (handle, part, offset) = (take_varint(rest)?, take_varint(rest)?, take_varint(rest)?);
                let bytes = all.slice_ref(std::mem::take(rest));
                Self::Data(handle, part, offset, bytes)
            }
            _ => return None,
        })
    }
}

/// Bytes in front of data.
pub fn data_header(handle: Handle, part: u64, offset: u64) -> usize {
    1 + varint_len(handle) + varint_len(part) + varint_len(offset)
}

fn put_runs(out: &mut Vec<u8>, kind: u8, handle: Handle, first: u64, end: u64, there: &Ranges) -> u64 {
    let mut body = Vec::new();
    put_varint(&mut body, handle);
    put_varint(&mut body, first);
    let told = put_pairs(&mut body, first, end.max(first), there);
    put_block(out, kind, &body);
    told
}

/// Writes how many are missing, how many are there, and so on, from `first` to before `end`; gives where it had to stop.
fn put_pairs(body: &mut Vec<u8>, first: u64, end: u64, there: &Ranges) -> u64 {
    let mut at = first;
    let inside =
        there.iter().map(|(from, to)| (from.clamp(first, end), to.clamp(first, end))).filter(|(from, to)| from < to);
    for (runs, (from, to)) in inside.enumerate() {
        if runs == MAX_RUNS {
            return at;
        }
        put_varint(body, from - at);
        put_varint(body, to - from);
        at = to;
    }
    if at < end {
        put_varint(body, end - at);
        put_varint(body, 0);
    }
    end
}

fn put_block(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    out.put_u8(kind);
    put_varint(out, body.len() as u64);
    out.put_slice(body);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn some() -> Vec<Frame> {
        let offer = Offer {
            object: ObjectId(Hash::of(b"o")),
            manifest_len: 900,
            wire_len: 1 << 40,
            priority: 7,
            deadline_s: 9,
        };
        let mut there = Ranges::of(70, 90);
        there.insert(100, 170_000);
        vec![
            Frame::Hello { life: 5, store: StoreId([1; 8]) },
            Frame::Offer(1, offer),
            Frame::State(1 << 40, 3, Want::NotNow),
            Frame::Chunks(2, (64, 200_000), there.clone()),
            Frame::Part(2, 9, there),
            Frame::Resumed,
            Frame::Withdrawn(70),
            Frame::To(u64::MAX),
            Frame::Receipt(Bytes::from_static(b"receipt")),
            Frame::Data(1, 0, 1_200, Bytes::from_static(b"bytes")),
        ]
    }

    #[test]
    fn frames_follow_each_other_in_a_parcel_and_no_cut_one_is_taken() {
        let mut out = Vec::new();
        for frame in some() {
            frame.put(&mut out);
        }
        let mut parcel = Bytes::from(out);
        let read: Vec<_> = std::iter::from_fn(|| Frame::take(&mut parcel)).collect();
        assert!(parcel.is_empty());
        assert_eq!(read, some());
        for frame in some() {
            let mut out = Vec::new();
            frame.put(&mut out);
            assert!(out.len() <= MAX_FRAME);
            let whole = Bytes::from(out);
            for len in 0..whole.len() {
                let cut = Frame::take(&mut whole.slice(..len));
                let shorter = |cut: &Frame| matches!((cut, &frame), (Frame::Data(.., a), Frame::Data(.., b)) if a.len() < b.len());
                assert!(cut.is_none() || cut.as_ref().is_some_and(shorter), "{frame:?} {len}");
            }
        }
    }

    #[test]
    fn pieces_are_data_that_something_follows() {
        let (first, last) = (Bytes::from_static(b"tail"), Bytes::from_static(b"head"));
        let mut out = Vec::new();
        Frame::put_piece(70, 3, 65_000, &first, &mut out);
        let data = Frame::Data(70, 3, 65_000, first);
        let mut alone = Vec::new();
        data.put(&mut alone);
        assert!(out.len() <= alone.len() + PIECE_EXTRA);
        Frame::Data(70, 4, 0, last.clone()).put(&mut out);
        let mut parcel = Bytes::from(out);
        assert_eq!(Frame::take(&mut parcel), Some(data));
        assert_eq!(Frame::take(&mut parcel), Some(Frame::Data(70, 4, 0, last)));
    }

    #[test]
    fn what_does_not_fit_is_told_of_in_another_frame() {
        let mut there = Ranges::default();
        for n in 0..1_000 {
            there.insert(20 * n + 16_384, 20 * n + 16_394);
        }
        let (mut at, mut told, mut frames) = (0, Ranges::default(), 0);
        while at < 40_000 {
            let mut out = Vec::new();
            let end = Frame::Chunks(1 << 40, (at, 40_000), there.clone()).put(&mut out);
            assert!(out.len() <= MAX_FRAME && end > at);
            let Some(Frame::Chunks(_, span, there)) = Frame::take(&mut Bytes::from(out)) else { panic!("a frame") };
            assert_eq!(span, (at, end));
            for (from, to) in there.iter() {
                told.insert(from, to);
            }
            (at, frames) = (end, frames + 1);
        }
        assert_eq!((told, frames), (there, 10));
    }

    proptest! {
        #[test]
        fn any_bytes_are_frames_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..12u8) {
            let mut parcel = Bytes::from([&[kind], &bytes[..]].concat());
            while let Some(frame) = Frame::take(&mut parcel) {
                let mut out = Vec::new();
                frame.put(&mut out);
                // What was written with runs of nothing is written shorter, and long lists are cut.
                let again = Frame::take(&mut Bytes::from(out));
                let same = again.as_ref() == Some(&frame);
                prop_assert!(same || matches!(frame, Frame::Chunks(..) | Frame::Part(..)), "{:?} {:?}", frame, again);
            }
        }
    }
}
