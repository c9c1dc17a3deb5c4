use proptest::prelude::*;

use super::*;
use crate::mavlink::testkit::{known, v2, vectors};

#[test]
fn frames_of_pymavlink_are_accepted_and_kept_byte_for_byte() {
    let vectors = vectors();
    assert!(vectors.len() > 35);
    for v in vectors {
        let (frame, len) = Frame::parse(&v.bytes).unwrap_or_else(|e| panic!("{} {}: {e}", v.name, v.version));
        assert_eq!(len, v.bytes.len());
        assert_eq!(frame.bytes()[..], v.bytes[..]);
        assert_eq!(frame.source(), Address::new(3, 1));
        assert_eq!(frame.version(), if v.version == 1 { Version::V1 } else { Version::V2 });
        assert_eq!(frame.is_signed(), v.kind == "signed");
        assert_eq!(frame.message_id().to_string(), v.name);
        assert_eq!(frame.info().is_some(), v.kind != "unknown");
    }
}

#[test]
fn fields_are_read_through_truncation() {
    // v2 cut the confirmation and the zero parameters; v1 carries them.
    for version in [1, 2] {
        assert_eq!(known("COMMAND_LONG", version).target(), Address::new(1, 1));
        assert_eq!(known("SYSTEM_TIME", version).field(8), 4321u32.to_le_bytes());
        assert_eq!(known("BATTERY_STATUS", version).instance(), 2);
        assert_eq!(known("MANUAL_CONTROL", version).target(), Address::new(1, 0));
        assert_eq!(known("COMMAND_ACK", version).target(), Address::new(255, 190));
        assert_eq!(known("HEARTBEAT", version).target(), Address::new(0, 0));
        assert_eq!(known("NAMED_VALUE_FLOAT", version).instance().to_le_bytes(), *b"aquila\0\0\0\0\0\0\0\0\0\0");
    }
    // target_component 0 at the very end is cut off.
    let all_components = vectors().into_iter().filter(|v| v.name == "COMMAND_LONG" && v.version == 2).nth(1).unwrap();
    let frame = Frame::parse(&all_components.bytes).unwrap().0;
    assert_eq!((frame.payload().len(), frame.target()), (31, Address::new(1, 0)));
    assert_eq!(frame.field::<4>(usize::MAX), [0; 4]);
}

#[test]
fn signatures_show_their_link_and_time() {
    let signed: Vec<_> = vectors().into_iter().filter(|v| v.kind == "signed").collect();
    let stamps: Vec<_> = signed.iter().map(|v| Frame::parse(&v.bytes).unwrap().0.signature().unwrap()).collect();
    assert!(stamps.windows(2).all(|pair| pair[0].timestamp < pair[1].timestamp));
    assert_eq!(stamps[1].link_id, 5);
    assert_eq!(known("HEARTBEAT", 2).signature(), None);
    // The checksum of a signed frame is checked as any other's.
    let mut broken = signed[0].bytes.clone();
    broken[12] ^= 1;
    assert!(matches!(Frame::parse(&broken), Err(FrameError::Checksum { id: MessageId(0), len: 34 })));
}

#[test]
fn every_prefix_is_truncated_and_says_what_is_missing() {
    for v in vectors() {
        for cut in 0..v.bytes.len() {
            let Err(FrameError::Truncated { needed }) = Frame::parse(&v.bytes[..cut]) else {
                panic!("{} cut at {cut}", v.name)
            };
            assert!(needed > cut && needed <= v.bytes.len());
        }
    }
}

#[test]
fn a_datagram_may_hold_several_frames_and_unknown_ones_need_a_neighbour() {
    let unknown = v2(1, 1, 40_000, &[7; 20]);
    let mut datagram = unknown.bytes().to_vec();
    datagram.extend_from_slice(known("HEARTBEAT", 1).bytes());
    let (first, len) = Frame::parse(&datagram).unwrap();
    assert_eq!(first, unknown);
    assert_eq!(Frame::parse(&datagram[len..]).unwrap().0, known("HEARTBEAT", 1));
    datagram[len] = 0x55;
    assert_eq!(Frame::parse(&datagram), Err(FrameError::Implausible { id: MessageId(40_000) }));
    assert_eq!(Frame::parse(b"\x55"), Err(FrameError::NoMagic));

    let heartbeat = known("HEARTBEAT", 2).into_bytes();
    assert!(Frame::from_bytes(heartbeat.clone()).is_ok());
    let two = Bytes::from([&heartbeat[..], &heartbeat[..]].concat());
    assert_eq!(Frame::from_bytes(two), Err(FrameError::Trailing { extra: 21 }));
}

#[test]
fn newer_definitions_and_unknown_flags_pass() {
    // More extension bytes than we know of, checksum right: HEARTBEAT with 12 bytes.
    let longer = v2(1, 1, 0, &[1; 12]);
    assert_eq!(longer.payload().len(), 12);
    // Flags we do not know may change how the checksum is made.
    let mut odd = known("HEARTBEAT", 2).into_bytes().to_vec();
    odd[2] = 0x80;
    let (frame, len) = Frame::parse(&odd).unwrap();
    assert_eq!((frame.incompat_flags(), len), (0x80, odd.len()));
    odd[2] = 0;
    odd[3] = 0xff; // compatibility flags are covered by the checksum
    assert!(matches!(Frame::parse(&odd), Err(FrameError::Checksum { .. })));
    // The layout of EVENT is not settled: a checksum of another seed passes.
    let mut event = v2(1, 1, 410, &[1; 53]).into_bytes().to_vec();
    *event.last_mut().unwrap() ^= 1;
    assert!(Frame::parse(&event).is_ok());
}

#[test]
fn building_again_what_pymavlink_built_gives_the_same_bytes() {
    for v in vectors().into_iter().filter(|v| v.kind == "known") {
        let theirs = Frame::parse(&v.bytes).unwrap().0;
        // pymavlink pads v1 with the extension fields, which v1 does not have.
        let theirs_plain = theirs.payload().len() <= usize::from(theirs.info().unwrap().min_len);
        let (id, seq) = (theirs.message_id(), theirs.seq());
        let ours = Frame::build(theirs.version(), seq, theirs.source(), id, theirs.payload()).unwrap();
        if v.version == 2 || theirs_plain {
            assert_eq!(ours, theirs, "{}", v.name);
        }
    }
}

#[test]
fn what_cannot_be_built_is_refused() {
    let build = |version, id, payload: &[u8]| Frame::build(version, 0, Address::new(1, 1), MessageId(id), payload);
    assert_eq!(build(Version::V2, 0, &[1; 10]), Err(BuildError::PayloadTooLong { max: 9 }));
    assert_eq!(build(Version::V2, 54_321, &[]), Err(BuildError::UnknownMessage));
    assert_eq!(build(Version::V1, 256, &[]), Err(BuildError::NotInV1));
    assert_eq!(build(Version::V2, 0, &[]).unwrap().payload(), [0]);
    assert_eq!(build(Version::V1, 0, &[5]).unwrap().payload(), [5, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(build(Version::V2, 131, &[1; 255]).unwrap().payload().len(), 255);
}

#[test]
fn longest_frame() {
    let mut bytes = vec![MAGIC_V2, 255, 1, 0, 0, 1, 1, 0xff, 0xff, 0xff];
    bytes.resize(Frame::MAX_LEN, 0);
    let (frame, len) = Frame::parse(&bytes).unwrap();
    assert_eq!((len, frame.payload().len()), (Frame::MAX_LEN, 255));
    assert_eq!(frame.signature(), Some(Signature { link_id: 0, timestamp: 0 }));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(magic in prop_oneof![Just(MAGIC_V1), Just(MAGIC_V2), any::<u8>()], rest: Vec<u8>) {
        let mut bytes = vec![magic];
        bytes.extend(rest);
        if let Ok((frame, len)) = Frame::parse(&bytes) {
            prop_assert_eq!(&frame.bytes()[..], &bytes[..len]);
            let _ = (frame.seq(), frame.source(), frame.target(), frame.instance(), frame.signature(), frame.payload());
        }
    }

    #[test]
    fn a_flipped_bit_of_a_settled_message_is_noticed(at in 1usize..21, bit in 0..8u8) {
        let mut bytes = known("HEARTBEAT", 2).into_bytes().to_vec();
        bytes[at] ^= 1 << bit;
        // A flip in the id makes it another message, one in the flags or the length another layout.
        if !(7..10).contains(&at) && at != 2 {
            let noticed = matches!(Frame::parse(&bytes), Err(FrameError::Checksum { .. } | FrameError::Truncated { .. }));
            prop_assert!(noticed);
        }
    }
}
