//! Bundles of anybody's: read, and carried on; pieces of objects, put together.

use std::time::Duration;

use aquila_bundle::{
    Added, CollectError, Collector, CollectorLimits, Dropped, Limits, Memory, Part, PartOf, carry, read,
};
use bytes::Bytes;

use crate::input::Input;

/// Some time in 2026, milliseconds since 1970.
const NOW: u64 = 1_795_376_891_000;
/// How long a bundle is with us.
const DWELL: Duration = Duration::from_secs(100);

/// A bundle, a piece of an object, or a list of pieces.
pub fn bundle(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    match kind {
        0 => one(bytes),
        1 => {
            if let Ok(part) = Part::decode(bytes) {
                assert!(part.data.len() as u64 + part.offset <= part.of.total);
                assert!(part.of.path.split('/').all(|part| part != "..") && !part.of.path.starts_with('/'));
                assert_eq!(part.encode().expect("it was read"), bytes, "written in one way only");
            }
        }
        _ => collect(&mut Input(bytes)),
    }
}

fn one(bytes: &[u8]) {
    let limits = Limits { bundle: 3000, blocks: 8, primary: 200, extension: 300 };
    let Ok(summary) = read(bytes, &limits, NOW) else { return };
    assert!(summary.len == bytes.len() && summary.len <= limits.bundle && summary.blocks <= limits.blocks);
    let payload = &bytes[summary.payload.clone()];
    let node = "dtn://mule/".parse().expect("a node");
    let wide = Limits::default();
    match carry(&Bytes::copy_from_slice(bytes), &limits, &node, DWELL, NOW) {
        Ok(carried) => {
            let out = carried.to_vec();
            let after = read(&out, &wide, NOW).expect("what leaves can be read");
            assert_eq!((&after.id, &after.destination), (&summary.id, &summary.destination));
            assert_eq!((&out[after.payload], after.blocks), (payload, summary.blocks));
            if carried.untouchable == 0 {
                assert_eq!(after.age, summary.age.map(|age| age + DWELL));
                assert_eq!(after.hops.map(|hops| hops.count), summary.hops.map(|hops| hops.count + 1));
                assert!(after.previous.is_none_or(|previous| previous == node.into()));
            }
            if summary.age.is_none() && summary.hops.is_none() && summary.previous.is_none() && !summary.secured {
                assert_eq!(out, bytes, "without blocks that change it leaves as it came");
            }
        }
        Err(Dropped::Unreadable(error)) => panic!("it was read: {error}"),
        Err(Dropped::Expired | Dropped::Hops) => {}
    }
}

fn collect(input: &mut Input<'_>) {
    let limits = CollectorLimits { objects: 3, object: 2000, bytes: 4000, runs: 5 };
    let mut collector = Collector::new(limits, Memory::default());
    let mut offered: u64 = 0;
    while !input.is_empty() {
        let which = input.u8() & 3;
        let total = if input.below(8) == 7 { input.u32().into() } else { u64::from(which) * 600 };
        let content: Vec<u8> = (0..total.min(2000)).map(|at| (at as u8).wrapping_mul(which)).collect();
        let mut hash = *blake3::hash(&content).as_bytes();
        if input.below(16) == 15 {
            hash[0] ^= 1;
        }
        let of = PartOf { object: [which; 32], total, hash, path: String::new() };
        let from = usize::from(input.u16()) % (content.len() + 1);
        let to = content.len().min(from + usize::from(input.u16()) % 700);
        offered += (to - from) as u64;
        match collector.add(&Part { of, offset: from as u64, data: &content[from..to] }) {
            Ok(Added::Whole(whole)) => assert_eq!(whole.object, content, "right by hash, and another"),
            Ok(Added::Kept | Added::Known) => {}
            Err(CollectError::Io(error)) => panic!("memory does not fail: {error}"),
            Err(_) => {}
        }
        if input.below(8) == 7 {
            collector.forget(&[input.u8() & 3; 32]);
        }
        let there: u64 = collector.partial().map(|(_, there)| there).sum();
        assert!(there <= limits.bytes.min(offered) && collector.partial().count() <= limits.objects);
    }
}
