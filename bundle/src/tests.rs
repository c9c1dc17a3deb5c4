//! Bundles read, made and carried; objects cut and put together.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use hardy_bpv7::block::{Flags, Type};
use hardy_bpv7::builder::Builder;
use hardy_bpv7::crc::CrcType;
use hardy_bpv7::creation_timestamp::CreationTimestamp;
use hardy_bpv7::dtn_time::DtnTime;
use proptest::prelude::*;

use super::*;

/// Some time in 2026, milliseconds since 1970.
const NOW: u64 = 1_795_376_891_000;
const HOUR: Duration = Duration::from_secs(3600);

/// What dtn7 0.21 sent, on its first hop: hop count, previous node, no checksums.
const DTN7: &str = "9f88071a00020004008201682f2f74776f2f696e8201682f2f6f6e652f696e8201682f2f6f6e652f696e821b000000c599fd94c9001a\
                    0036ee808506030000498201662f2f6f6e652f850a020000448218200185010100004568656c6c6fff";

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hex")).collect()
}

fn eid(name: &str) -> Eid {
    name.parse().expect(name)
}

fn mule() -> NodeId {
    "dtn://mule/".parse().expect("a node")
}

fn draft() -> Draft {
    Draft::new(eid("dtn://a/out"), eid("ipn:5.1"), NOW, HOUR)
}

fn look(bytes: &[u8]) -> Result<Summary, ReadError> {
    read(bytes, &Limits::default(), NOW)
}

fn carried(bytes: &[u8], dwell: Duration) -> Result<Carried, Dropped> {
    carry(&Bytes::copy_from_slice(bytes), &Limits::default(), &mule(), dwell, NOW)
}

/// A bundle with a block of any kind and these data, number 2.
fn with_block(kind: Type, data: &[u8], crc: CrcType, created_ms: Option<u64>) -> Vec<u8> {
    let time = created_ms.map(|ms| DtnTime::new(ms - 946_684_800_000));
    let builder = Builder::new(eid("ipn:1.1"), eid("ipn:2.1")).with_lifetime(HOUR);
    let builder = builder.add_extension_block(kind).expect("a block").with_crc_type(crc).build(data.into());
    let stamp = CreationTimestamp::from_parts(time, 0);
    builder.with_payload(b"payload"[..].into()).build(stamp).expect("a bundle").1.into()
}

#[test]
fn dtn7s_bundle_is_read_and_carried() {
    let bytes = hex(DTN7);
    let summary = look(&bytes).expect("a bundle");
    assert_eq!((summary.source, summary.destination), (eid("dtn://one/in"), eid("dtn://two/in")));
    assert_eq!((summary.created_ms, summary.lifetime), (Some(1_795_376_890_057), HOUR));
    assert_eq!((summary.hops, summary.previous), (Some(Hops { limit: 32, count: 1 }), Some(eid("dtn://one/"))));
    assert_eq!((&bytes[summary.payload], summary.checked, summary.blocks), (&b"hello"[..], false, 4));
    let carried = carried(&bytes, HOUR / 2).expect("goes on");
    let after = look(&carried.to_vec()).expect("a bundle");
    assert_eq!((after.hops, after.previous), (Some(Hops { limit: 32, count: 2 }), Some(eid("dtn://mule/"))));
    // Primary block, payload, and what is between the two blocks that changed.
    let out = carried.to_vec();
    assert_eq!((&out[..62], &out[out.len() - 12..]), (&bytes[..62], &bytes[bytes.len() - 12..]));
    assert_eq!((out.len(), carried.len(), carried.untouchable), (bytes.len() + 1, out.len(), 0));
}

#[test]
fn without_blocks_that_change_it_leaves_as_it_came() {
    let bytes = Bytes::from(Draft { hop_limit: None, ..draft() }.build(&[7; 5000]).expect("a bundle"));
    let carried = carry(&bytes, &Limits::default(), &mule(), HOUR / 2, NOW).expect("goes on");
    assert_eq!(carried.pieces, std::slice::from_ref(&bytes));
    assert_eq!(carried.pieces[0].as_ptr(), bytes.as_ptr(), "not copied");
}

#[test]
fn age_grows_by_the_time_that_it_was_with_us() {
    for crc in [CrcType::None, CrcType::CRC16_X25, CrcType::CRC32_CASTAGNOLI] {
        let bytes = with_block(Type::BundleAge, &[0x19, 0x03, 0xe8], crc, None);
        let before = look(&bytes).expect("a bundle");
        assert_eq!((before.age, before.created_ms), (Some(Duration::from_secs(1)), None));
        let out = carried(&bytes, Duration::from_secs(100)).expect("goes on").to_vec();
        assert_eq!(look(&out).expect("a bundle").age, Some(Duration::from_secs(101)));
        assert_eq!(carried(&bytes, HOUR), Err(Dropped::Expired));
    }
}

#[test]
fn lifetime() {
    let bytes = draft().build(b"x").expect("a bundle");
    let at = |now| read(&bytes, &Limits::default(), now).map(|summary| summary.remaining(now, HOUR * 9));
    assert_eq!(at(NOW + 3_599_999), Ok(Some(Duration::from_millis(1))), "by the clock, not by how long it is here");
    assert_eq!(at(NOW + 3_600_000), Err(ReadError::Expired));
    // Our clock stands before the bundle was made: what counts is how long it is here.
    assert_eq!(at(5000), Ok(None));
    let late = carry(&bytes.into(), &Limits::default(), &mule(), Duration::ZERO, NOW + 3_600_000);
    assert_eq!(late, Err(Dropped::Expired));
    let expired = with_block(Type::BundleAge, &[0x1a, 0, 0x36, 0xee, 0x80], CrcType::None, None);
    assert_eq!(look(&expired), Err(ReadError::Expired));
}

#[test]
fn hops() {
    let with = |data: &[u8]| with_block(Type::HopCount, data, CrcType::CRC32_CASTAGNOLI, Some(NOW));
    assert_eq!(look(&with(&[0x82, 3, 4])), Err(ReadError::Hops));
    let last = with(&[0x82, 3, 3]);
    assert_eq!(look(&last).expect("here it may be").hops, Some(Hops { limit: 3, count: 3 }));
    assert_eq!(carried(&last, HOUR / 2), Err(Dropped::Hops));
    assert!(matches!(look(&with(&[0x82, 0, 0])), Err(ReadError::Malformed(_))), "a limit of 0");
    let out = carried(&with(&[0x82, 3, 2]), HOUR / 2).expect("goes on").to_vec();
    assert_eq!(look(&out).expect("a bundle").hops, Some(Hops { limit: 3, count: 3 }));
}

#[test]
fn blocks_that_we_do_not_know_stay() {
    let bytes = with_block(Type::Unrecognised(192), b"anything", CrcType::CRC16_X25, Some(NOW));
    assert_eq!(carried(&bytes, HOUR / 2).expect("goes on").to_vec(), bytes);
    let builder = Builder::new(eid("ipn:1.1"), eid("ipn:2.1"));
    let flags = Flags { delete_bundle_on_failure: true, ..Flags::default() };
    let builder = builder.add_extension_block(Type::Unrecognised(192)).expect("a block").with_flags(flags);
    let stamp = CreationTimestamp::from_parts(Some(DtnTime::new(NOW - 946_684_800_000)), 0);
    let bytes = builder.build(b"?"[..].into()).with_payload(b"x"[..].into()).build(stamp).expect("a bundle").1;
    assert_eq!(look(&bytes), Err(ReadError::UnknownBlock));
}

/// With a hop count, and a block of BPSec that covers that (RFC 9172 §3.6): targets, context 99, no parameters, source
/// ipn:1.1, one result.
fn covered(kind: Type, hops: &[u8], targets: &str, flags: Flags, crc: CrcType) -> Vec<u8> {
    let data = hex(&format!("{targets}1863008202820101818182004100"));
    let builder = Builder::new(eid("ipn:1.1"), eid("ipn:2.1")).with_lifetime(HOUR);
    let builder = builder.add_extension_block(Type::HopCount).expect("a block").with_crc_type(crc).build(hops.into());
    let builder = builder.add_extension_block(kind).expect("a block").with_crc_type(crc).with_flags(flags);
    let stamp = CreationTimestamp::from_parts(Some(DtnTime::new(NOW - 946_684_800_000)), 0);
    builder.build(data.into()).with_payload(b"x"[..].into()).build(stamp).expect("a bundle").1.into()
}

#[test]
fn what_bpsec_covers_is_left_as_it_is() {
    let delete = Flags { delete_bundle_on_failure: true, ..Flags::default() };
    for (crc, flags) in [(CrcType::None, delete), (CrcType::CRC16_X25, Flags::default())] {
        for kind in [Type::BlockIntegrity, Type::BlockSecurity] {
            let bytes = covered(kind, &[0x82, 9, 0], "8102", flags.clone(), crc);
            let summary = look(&bytes).expect("a bundle");
            let readable = kind == Type::BlockIntegrity;
            assert_eq!((summary.secured, summary.hops.is_some()), (true, readable));
            let carried = carried(&bytes, HOUR / 2).expect("goes on");
            assert_eq!((carried.untouchable, carried.to_vec()), (1, bytes));
        }
        // Encrypted, it is anything.
        let bytes = covered(Type::BlockSecurity, b"\xffanything", "8102", flags.clone(), crc);
        assert_eq!(carried(&bytes, HOUR / 2).expect("goes on").to_vec(), bytes);
        // The payload alone: the hop count goes on counting.
        let bytes = covered(Type::BlockSecurity, &[0x82, 9, 0], "8101", flags.clone(), crc);
        let carried = carried(&bytes, HOUR / 2).expect("goes on");
        assert_eq!((carried.untouchable, carried.to_vec().len()), (0, bytes.len()));
        assert_eq!(look(&carried.to_vec()).expect("a bundle").hops, Some(Hops { limit: 9, count: 1 }));
        let bytes = covered(Type::BlockIntegrity, &[0x82, 9, 0], "80", flags, crc);
        assert!(matches!(look(&bytes), Err(ReadError::Malformed(_))), "it covers nothing");
    }
}

#[test]
fn what_is_no_bundle() {
    let good = draft().build(b"payload").expect("a bundle");
    for len in 0..good.len() {
        assert!(look(&good[..len]).is_err(), "broken off after {len} bytes");
    }
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        look(&bytes)
    };
    assert_eq!(changed(2, 8), Err(ReadError::Version(8)));
    assert_eq!(changed(good.len() - 2, !good[good.len() - 2]), Err(ReadError::Checksum));
    let payload = look(&good).expect("a bundle").payload.start;
    assert_eq!(changed(payload, b'P'), Err(ReadError::Checksum));
    assert_eq!(changed(6, good[6] ^ 1), Err(ReadError::Checksum), "of the primary block");
    assert!(matches!(changed(0, 0x82), Err(ReadError::Malformed(_))), "an array of a length");
    assert!(matches!(look(&[&good[..], &[0]].concat()), Err(ReadError::Malformed(_))), "more behind it");
    let no_clock = with_block(Type::Unrecognised(192), b"", CrcType::None, None);
    assert_eq!(look(&no_clock), Err(ReadError::NoAge));
}

#[test]
fn what_is_absurd() {
    let limits = Limits::default();
    let small = Limits { bundle: 50, ..limits };
    let bytes = draft().build(b"payload").expect("a bundle");
    assert_eq!(read(&bytes, &small, NOW), Err(ReadError::TooLarge(bytes.len())));
    // Numbers 2 to 65, before a payload that there is not: nothing of it is kept.
    let primary_len = hardy_cbor::decode::skip_value(&bytes[1..], 16).expect("a block").1;
    let mut many = bytes[..=primary_len].to_vec();
    for number in 2..70 {
        many.extend([0x85, 0x18, 192, 0x18, number, 0, 0, 0x40]);
    }
    many.extend(&bytes[1 + primary_len..]);
    assert_eq!(look(&many), Err(ReadError::Blocks));
    let long = Draft { destination: eid(&format!("dtn://{}/in", "a".repeat(3000))), ..draft() };
    assert_eq!(look(&long.build(b"x").expect("a bundle")), Err(ReadError::BlockLength));
    let block = with_block(Type::Unrecognised(192), &[0; 70_000], CrcType::None, Some(NOW));
    assert_eq!(look(&block), Err(ReadError::BlockLength));
    let deep = [&[0x9f][..], &[0x81; 100_000]].concat();
    assert!(matches!(look(&deep), Err(ReadError::Malformed(_))));
}

#[test]
fn what_is_not_made() {
    assert_eq!(Draft { hop_limit: Some(0), ..draft() }.build(b"x"), Err(MakeError::HopLimit));
    let anonymous = Draft { source: Eid::Null, ..draft() };
    assert!(look(&anonymous.build(b"x").expect("a bundle")).is_ok());
    let requests = Requests { whole: true, report_delivery: true, ..Requests::default() };
    assert_eq!(Draft { requests, ..anonymous }.build(b"x"), Err(MakeError::Anonymous));
    // By a clock that stands before 2000 there is none.
    let early = Draft { created_ms: Some(1_000_000), ..draft() }.build(b"x").expect("a bundle");
    let summary = look(&early).expect("a bundle");
    assert_eq!((summary.created_ms, summary.age), (None, Some(Duration::ZERO)));
}

fn of(total: u64) -> PartOf {
    PartOf { object: [3; 32], total, hash: [4; 32], path: "ctd/cast 1.cnv".into() }
}

#[test]
fn a_piece_as_it_is_written() {
    let bytes = Part { of: PartOf { path: "a".into(), ..of(9) }, offset: 5, data: b"xyz" }.encode().expect("a piece");
    let expected =
        format!("a8000101 5820{} 0205 0303 0409 055820{} 066161 074378797a", "03".repeat(32), "04".repeat(32));
    assert_eq!(bytes, hex(&expected.replace(' ', "")));
    for len in 0..bytes.len() {
        assert_eq!(Part::decode(&bytes[..len]), Err(PartError::Format));
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            if let Ok(part) = Part::decode(&changed) {
                assert_eq!(part.encode().expect("a piece"), changed, "written in one way only");
            }
        }
    }
}

#[test]
fn pieces_that_are_none() {
    let fails = |part: Part<'_>| part.encode().expect_err("no piece");
    let path = |path: &str| fails(Part { of: PartOf { path: path.into(), ..of(3) }, offset: 0, data: b"abc" });
    for bad in ["/etc/passwd", "a/../b", "..", "a//b", "a\\b", "c:x", "a\0", "a/", &"x".repeat(1025)] {
        assert_eq!(path(bad), PartError::Path, "{bad}");
    }
    assert_eq!(fails(Part { of: of(3), offset: 1, data: b"abc" }), PartError::Length);
    assert_eq!(fails(Part { of: of(3), offset: u64::MAX, data: b"abc" }), PartError::Length);
    assert_eq!(fails(Part { of: of(3), offset: 0, data: b"" }), PartError::Length);
    assert_eq!(fails(Part { of: of(u64::MAX), offset: 0, data: b"a" }), PartError::Total);
    let long = vec![0; Part::MAX_DATA + 1];
    assert_eq!(fails(Part { of: of(1 << 30), offset: 0, data: &long }), PartError::Length);
}

#[test]
fn a_full_piece_is_a_bundle_of_at_most_a_mebibyte() {
    let name = format!("dtn://{}/{}", "n".repeat(300), "s".repeat(300));
    let path = ["p"; 512].join("/") + "p";
    let part = Part { of: PartOf { path, ..of(PartOf::MAX_TOTAL) }, offset: 1 << 34, data: &vec![1; Part::MAX_DATA] };
    let draft = Draft { source: eid(&name), destination: eid(&name), ..draft() };
    let bundle = draft.build(&part.encode().expect("a piece")).expect("a bundle");
    assert!(bundle.len() <= 1 << 20, "{}", bundle.len());
    let payload = look(&bundle).expect("a bundle").payload;
    assert_eq!(Part::decode(&bundle[payload]), Ok(part));
}

fn content(len: usize) -> (Vec<u8>, PartOf) {
    let content: Vec<u8> = (0..len).map(|at| (at / 7) as u8).collect();
    let hash = *blake3::hash(&content).as_bytes();
    let of = PartOf { object: hash, total: len as u64, hash, path: String::new() };
    (content, of)
}

#[test]
fn what_a_collector_refuses() {
    let limits = CollectorLimits { objects: 2, object: 1000, bytes: 1500, runs: 3 };
    let mut collector = Collector::new(limits, Memory::default());
    let (bytes, of) = content(1000);
    let mut add = |of: &PartOf, offset: usize, len: usize| {
        collector.add(&Part { of: of.clone(), offset: offset as u64, data: &bytes[offset..offset + len] })
    };
    assert!(matches!(add(&PartOf { total: 1001, ..of.clone() }, 0, 9), Err(CollectError::TooLarge(1001))));
    assert!(matches!(add(&of, 0, 10), Ok(Added::Kept)));
    assert!(matches!(add(&of, 2, 5), Ok(Added::Known)));
    let other = PartOf { object: [9; 32], total: 501, ..of.clone() };
    assert!(matches!(add(&other, 0, 10), Err(CollectError::Full)));
    assert!(matches!(add(&PartOf { total: 999, ..of.clone() }, 0, 10), Err(CollectError::Contradiction)));
    assert!(matches!(add(&of, 100, 10), Ok(Added::Kept)));
    assert!(matches!(add(&of, 200, 10), Ok(Added::Kept)));
    assert!(matches!(add(&of, 300, 10), Err(CollectError::Holes)));
    assert!(matches!(add(&of, 5, 995), Ok(Added::Whole(_))));
    // Announced with another hash: forgotten, and may come again.
    let false_hash = PartOf { hash: [0; 32], ..of.clone() };
    assert!(matches!(add(&false_hash, 0, 1000), Err(CollectError::Hash)));
    assert!(matches!(add(&of, 0, 1000), Ok(Added::Whole(_))));
    assert!(!collector.forget(&of.object));
    assert_eq!(collector.partial().count(), 0);
}

#[test]
fn on_disk() {
    let folder = std::env::temp_dir().join(format!("aquila-bundle-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut collector = Collector::new(CollectorLimits::default(), Folder::new(&folder));
    let (bytes, of) = content(3_000_000);
    let mut whole = None;
    for range in parts(of.total).collect::<Vec<_>>().into_iter().rev() {
        let data = &bytes[range.start as usize..range.end as usize];
        if let Added::Whole(object) = collector.add(&Part { of: of.clone(), offset: range.start, data }).expect("kept")
        {
            whole = Some(object.object);
        }
    }
    let (empty, empty_of) = content(0);
    let none = collector.add(&Part { of: empty_of, offset: 0, data: &empty }).expect("kept");
    assert!(matches!(none, Added::Whole(_)));
    assert!(std::fs::read(whole.expect("whole")).expect("a file") == bytes);
    assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 2, "nothing else is left");
    std::fs::remove_dir_all(&folder).expect("removed");
}

proptest! {
    #[test]
    fn bundles_are_read_as_made(
        ipn: bool, node in 1..u32::MAX - 1, service: u32, sequence: u64, lifetime in 1..1u64 << 40, clock: bool,
        hop_limit in proptest::option::of(1..=255u8), payload in proptest::collection::vec(any::<u8>(), 0..3000),
    ) {
        let source = if ipn { eid(&format!("ipn:{node}.{service}")) } else { eid(&format!("dtn://n{node}/s{service}")) };
        let lifetime = Duration::from_millis(lifetime);
        let created_ms = clock.then_some(NOW);
        let draft = Draft { source: source.clone(), sequence, lifetime, hop_limit, created_ms, ..draft() };
        let bytes = draft.build(&payload).expect("a bundle");
        let summary = look(&bytes).expect("readable");
        prop_assert_eq!(&summary.source, &source);
        prop_assert_eq!(summary.destination, eid("ipn:5.1"));
        prop_assert_eq!((summary.sequence, summary.lifetime, summary.created_ms), (sequence, lifetime, created_ms));
        prop_assert_eq!(summary.age.is_some(), !clock);
        prop_assert_eq!(summary.hops, hop_limit.map(|limit| Hops { limit: limit.into(), count: 0 }));
        prop_assert_eq!(&bytes[summary.payload], &payload[..]);
        prop_assert!(summary.checked && !summary.id.contains('/'));
        let out = carried(&bytes, Duration::ZERO).expect("goes on").to_vec();
        let after = look(&out).expect("readable");
        prop_assert_eq!(after.id, summary.id);
        prop_assert_eq!(&out[after.payload], &payload[..]);
    }

    #[test]
    fn any_change_of_a_bundle_does_no_harm(at in 0..500usize, byte: u8, cut in 0..500usize, insert: bool) {
        let mut bytes = hex(DTN7);
        let at = at % bytes.len();
        if insert { bytes.insert(at, byte) } else { bytes[at] = byte }
        bytes.truncate(cut.max(60));
        if look(&bytes).is_ok() && let Ok(carried) = carried(&bytes, HOUR / 2) {
            prop_assert!(look(&carried.to_vec()).is_ok(), "what leaves can be read");
        }
    }

    #[test]
    fn pieces_in_any_order(
        lens in proptest::collection::vec(0..4000usize, 1..4),
        cuts in proptest::collection::vec((0..4usize, 0..4000usize, 1..900usize), 0..60),
    ) {
        let objects: Vec<(Vec<u8>, PartOf)> = lens.iter().map(|len| content(*len)).collect();
        let objects: BTreeMap<[u8; 32], (Vec<u8>, PartOf)> = objects.into_iter().map(|(bytes, of)| (of.object, (bytes, of))).collect();
        let mut collector = Collector::new(CollectorLimits::in_memory(), Memory::default());
        let mut whole = BTreeMap::new();
        let anything = cuts.into_iter().map(|(n, from, len)| (n, from, from + len));
        // In the end all of each, so that nothing is missing.
        let all = (0..objects.len()).map(|n| (n, 0, 4000));
        for (n, from, to) in anything.chain(all) {
            let Some((bytes, of)) = objects.values().nth(n) else { continue };
            let (from, to) = (from.min(bytes.len()), to.min(bytes.len()));
            if (from == to && of.total > 0) || whole.contains_key(&of.object) {
                continue;
            }
            match collector.add(&Part { of: of.clone(), offset: from as u64, data: &bytes[from..to] }) {
                Ok(Added::Whole(object)) => { whole.insert(of.object, object.object); }
                Ok(_) => {}
                Err(error) => prop_assert!(false, "{}", error),
            }
        }
        for (name, (bytes, _)) in &objects {
            prop_assert_eq!(whole.get(name), Some(bytes));
        }
    }
}
