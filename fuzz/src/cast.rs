//! A cast that is heard: datagrams of anybody's, and pieces of members that have the key.

use std::collections::BTreeMap;

use aquila_proto::transfer::cast::{
    Block, CastKey, CastReceiver, HeardAction, MAX_BLOCK, MAX_SYMBOLS, Piece, ReceiverConfig, Sealer,
};
use aquila_proto::transfer::{Answer, Hash, Manifest, ObjectId, Ranges, StoreId};
use bytes::Bytes;

use crate::input::{Input, epoch};

const ROOM: usize = 4 << 20;

/// The first byte says whether bytes are pieces, a datagram, or steps of members.
pub fn cast(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    match kind % 3 {
        0 => pieces(bytes),
        1 => {
            let mut receiver = receiver();
            // Nobody draws a tag by chance.
            assert!(receiver.handle_datagram(epoch(), bytes).is_err());
            assert!(receiver.poll_action().is_none() && receiver.stats().held == 0);
        }
        _ => steps(&mut Input(bytes)),
    }
}

fn receiver() -> CastReceiver {
    CastReceiver::new(ReceiverConfig { key: CastKey::new([1; 32]), store: StoreId([2; 8]), room: ROOM })
}

/// What is read is written again the same, but for numbers that were longer than they had to be.
fn pieces(bytes: &[u8]) {
    let mut rest = Bytes::copy_from_slice(bytes);
    while let Some(piece) = Piece::take(&mut rest) {
        let len = piece.block_len();
        assert!((1..=MAX_BLOCK).contains(&len) && len.div_ceil(piece.symbol.len()) <= MAX_SYMBOLS as usize);
        let mut written = Vec::new();
        piece.put(&mut written);
        assert_eq!(Piece::take(&mut written.into()), Some(piece));
    }
}

fn steps(input: &mut Input<'_>) {
    let mut now = epoch();
    let mut receiver = receiver();
    let mut sealer = Sealer::new(&CastKey::new([1; 32]), StoreId([3; 8]), [4; 4], 1);
    let mut stored: BTreeMap<ObjectId, Vec<u32>> = BTreeMap::new();
    while !input.is_empty() {
        let object = ObjectId(Hash::of(&[input.u8() & 3]));
        let answer = answer(input);
        if let Answer::Chunks { lens, .. } = &answer {
            stored.insert(object, lens.clone());
        }
        match input.below(8) {
            0 => receiver.answer(now, object, answer.clone()),
            1 => receiver.on_stored(object, u64::from(input.u8() & 7), input.bool()),
            2 => receiver.on_lost(),
            3 => now += input.step(),
            4 => hand(&mut receiver, now, &mut sealer, input.short_bytes()),
            _ => {
                let number = u32::from(input.u8() & 3);
                let block = if input.bool() { Block::Chunks(number) } else { Block::Manifest(number) };
                let len = 1 + u32::from(input.u16() & 0x3ff) * if input.bool() { 64 } else { 1 };
                let symbol = vec![input.u8(); 1 + usize::from(input.u8())];
                // Many of a block at once, so that it becomes whole.
                let (first, count) = (input.u32() >> 8, input.u8());
                for id in (first..).take(count.into()) {
                    let mut pieces = Vec::new();
                    Piece { object, block, len, id, symbol: symbol.clone().into() }.put(&mut pieces);
                    hand(&mut receiver, now, &mut sealer, &pieces);
                }
            }
        }
        for round in 0.. {
            assert!(round < 100_000, "a drain that does not end");
            match receiver.poll_action() {
                None => break,
                Some(HeardAction::Offered(object)) => receiver.answer(now, object, answer.clone()),
                Some(HeardAction::Judge(object, manifest)) => {
                    assert!(Hash::of(&manifest) == object.0 && manifest.len() <= Manifest::MAX_LEN);
                    receiver.answer(now, object, answer.clone());
                }
                Some(HeardAction::Store(object, part, bytes)) => {
                    let len = stored.get(&object).and_then(|lens| lens.get(part as usize - 1));
                    assert!(len.is_none_or(|len| *len as usize == bytes.len()), "a chunk of another length");
                    receiver.on_stored(object, part, input.bool());
                }
                Some(HeardAction::Complete(object)) => receiver.answer(now, object, Answer::Custody),
            }
        }
        assert!(receiver.stats().held <= ROOM as u64, "{:?}", receiver.stats());
    }
}

fn hand(receiver: &mut CastReceiver, now: std::time::Instant, sealer: &mut Sealer, pieces: &[u8]) {
    if let Some(datagram) = sealer.seal(pieces) {
        let heard = receiver.handle_datagram(now, &datagram);
        assert!(heard.is_ok() || datagram.len() > 1_472, "{heard:?}");
    }
}

fn answer(input: &mut Input<'_>) -> Answer {
    match input.below(5) {
        0 => Answer::Custody,
        1 => Answer::NotNow,
        2 => {
            let lens = (0..input.u8() & 7).map(|n| 1 + u32::from(n) * 100).collect();
            Answer::Chunks { lens, have: Ranges::of(1, 1 + u64::from(input.u8() & 3)) }
        }
        3 => Answer::Refuse,
        _ => Answer::Manifest,
    }
}
