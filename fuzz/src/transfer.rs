//! Two stores that meet, of which the other one is broken or hostile; manifests and receipts of anybody's.

use std::collections::BTreeMap;
use std::time::Duration;

use aquila_proto::transfer::{
    Action, Answer, Chunk, Frame, Handle, Hash, Hop, HopConfig, Manifest, ObjectId, Offer, Ranges, Receipt, StoreId,
    Want,
};
use bytes::Bytes;

use crate::input::{Input, epoch};

/// What parts in memory may take.
const MAX_ASSEMBLING: u64 = 16 << 20;
const LIFE: u64 = 7;
const MAX: usize = 1_200;

/// A manifest, a receipt, or a list of steps of both stores.
pub fn transfer(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    match kind {
        0 => {
            if let Ok(manifest) = Manifest::parse(bytes) {
                assert!(manifest.chunks.iter().all(|chunk| (1..=Chunk::MAX).contains(&chunk.wire_len())));
                assert!(manifest.path.split('/').all(|part| part != ".."));
                assert!(!manifest.path.starts_with('/') && manifest.priority <= 7 && manifest.number > 0);
            }
        }
        1 => {
            if let Ok(receipt) = Receipt::parse(bytes) {
                assert!(receipt.numbers.iter().len() <= Receipt::MAX_RANGES);
            }
        }
        _ => steps(&mut Input(bytes)),
    }
}

fn steps(input: &mut Input<'_>) {
    let mut now = epoch();
    let mut hop = Hop::new(HopConfig { store: StoreId([1; 8]), life: LIFE });
    let mut offered: BTreeMap<Handle, u64> = BTreeMap::new();
    let mut taking: BTreeMap<Handle, Vec<u32>> = BTreeMap::new();
    let mut tokens = Vec::new();
    let mut receipts = 0;
    while !input.is_empty() {
        let handle = u64::from(input.u8() & 7);
        match input.below(16) {
            0 => hop.on_contact(now),
            1 => hop.on_contact_lost(),
            2 => {
                let chunks = u64::from(input.u8() & 31);
                let object = ObjectId(Hash::of(&[input.u8()]));
                let offer = Offer {
                    object,
                    manifest_len: 100,
                    wire_len: chunks * 1_000,
                    priority: input.u8() & 7,
                    deadline_s: 0,
                };
                if let Some(handle) = hop.offer(offer, chunks) {
                    offered.insert(handle, chunks);
                }
            }
            3 => hand(&mut hop, now, &Frame::Hello { life: input.u8().into(), store: StoreId([2; 8]) }),
            4 => {
                let want = [Want::Manifest, Want::Chunks, Want::Custody, Want::Refused, Want::NotNow][input.below(5)];
                hand(&mut hop, now, &Frame::State(handle, input.u8().into(), want));
            }
            5 => {
                let span = ranges(input);
                let end = u64::from(input.u8());
                hand(&mut hop, now, &Frame::Chunks(handle, (u64::from(input.u8() & 15), end), span));
            }
            6 => hand(&mut hop, now, &Frame::Part(handle, u64::from(input.u8() & 31), ranges(input))),
            7 => {
                let frame = if input.bool() { Frame::Resumed } else { Frame::Withdrawn(handle) };
                hand(&mut hop, now, &frame);
            }
            8 => {
                let manifest_len = if input.bool() { input.u32() } else { u32::from(input.u8()) };
                let offer = Offer {
                    object: ObjectId(Hash::of(&vec![5; manifest_len.min(1_000) as usize])),
                    manifest_len,
                    wire_len: input.u32().into(),
                    priority: input.u8(),
                    deadline_s: 0,
                };
                hand(&mut hop, now, &Frame::Offer(handle, offer));
            }
            9 => {
                let len = if input.bool() { usize::from(input.u8()) } else { 1_000 };
                let (part, offset) = (u64::from(input.u8() & 15), u64::from(input.u16()) * 500);
                hand(&mut hop, now, &Frame::Data(handle, part, offset, vec![5; len].into()));
            }
            10 => hop.handle_parcel(now, Bytes::copy_from_slice(input.short_bytes())),
            11 => {
                let answer = match input.below(5) {
                    0 => Answer::Manifest,
                    1 => {
                        let lens: Vec<u32> = (0..input.u8() & 15).map(|n| 1 + u32::from(n) * 17_000).collect();
                        taking.insert(handle, lens.clone());
                        Answer::Chunks { lens, have: ranges(input) }
                    }
                    2 => Answer::Custody,
                    3 => Answer::Refuse,
                    _ => Answer::NotNow,
                };
                hop.answer(handle, answer);
            }
            12 => hop.on_stored(now, handle, u64::from(input.u8() & 15), input.bool()),
            13 => {
                receipts += 1;
                hop.set_receipts((0..receipts).map(|n: u32| Bytes::from(n.to_be_bytes().to_vec())));
            }
            14 if !tokens.is_empty() => {
                let token = tokens.swap_remove(usize::from(input.u8()) % tokens.len());
                hop.on_fate(now, token, input.bool());
            }
            _ => now += input.step().min(Duration::from_secs(10)),
        }
        for round in 0.. {
            assert!(round < 100_000, "a drain that does not end");
            while let Some(action) = hop.poll_action() {
                act(&mut hop, &offered, &taking, action);
            }
            let Some((token, parcel)) = hop.poll_parcel(now, MAX) else { break };
            assert!(!parcel.is_empty() && parcel.len() <= MAX);
            assert!(readable(parcel), "a parcel that nobody can read");
            tokens.push(token);
            if tokens.len() > 200 {
                // Somebody has to say what becomes of it.
                tokens.drain(..).for_each(|token| hop.on_fate(now, token, true));
            }
        }
        assert!(hop.assembling() <= MAX_ASSEMBLING);
    }
}

fn act(hop: &mut Hop, offered: &BTreeMap<Handle, u64>, taking: &BTreeMap<Handle, Vec<u32>>, action: Action) {
    match action {
        Action::Load { handle, part } => {
            assert!(offered.get(&handle).is_some_and(|chunks| part <= *chunks), "a part that there is not");
            hop.on_loaded(handle, part, Some(vec![9; 1_000].into()));
        }
        Action::Given(handle) | Action::Refused(handle) => assert!(offered.contains_key(&handle)),
        Action::Store { handle, part, bytes } => {
            let len = taking.get(&handle).and_then(|lens| lens.get(part as usize - 1));
            assert_eq!(len.map(|len| *len as usize), Some(bytes.len()), "a chunk of another length");
        }
        Action::Judge { manifest, .. } => assert!(manifest.len() <= Manifest::MAX_LEN),
        _ => {}
    }
}

fn hand(hop: &mut Hop, now: std::time::Instant, frame: &Frame) {
    let mut parcel = Vec::new();
    Frame::To(LIFE).put(&mut parcel);
    frame.put(&mut parcel);
    hop.handle_parcel(now, parcel.into());
}

fn readable(mut parcel: Bytes) -> bool {
    while !parcel.is_empty() {
        if Frame::take(&mut parcel).is_none() {
            return false;
        }
    }
    true
}

fn ranges(input: &mut Input<'_>) -> Ranges {
    let mut ranges = Ranges::default();
    let far = input.bool();
    for pair in input.short_bytes().chunks(2).take(200) {
        let from = u64::from(pair[0]) * if far { 1 << 40 } else { 1 };
        ranges.insert(from, from + pair.get(1).map_or(1, |len| u64::from(*len)));
    }
    ranges
}
