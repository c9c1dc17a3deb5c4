use proptest::prelude::*;

use super::*;

fn config(max_packet_bytes: usize) -> PacketizerConfig {
    PacketizerConfig { max_packet_bytes, ..PacketizerConfig::default() }
}

/// NAL units behind four-byte start codes, as the depacketiser writes them.
fn annex_b(nals: &[Vec<u8>]) -> Vec<u8> {
    nals.iter().flat_map(|nal| [&[0, 0, 0, 1], &nal[..]].concat()).collect()
}

fn nal(head: u8, len: usize) -> Vec<u8> {
    // No zeros, which could look like a start code.
    std::iter::once(head).chain((1..len).map(|n| (n % 255) as u8 + 1)).collect()
}

fn units(depacketizer: &mut Depacketizer) -> Vec<AccessUnit> {
    std::iter::from_fn(|| depacketizer.poll_access_unit()).collect()
}

#[test]
fn start_codes_of_three_and_four_bytes_are_found() {
    let stream = [0, 0, 0, 1, 0x67, 1, 2, 0, 0, 1, 0x68, 3, 0, 0, 0, 0, 1, 0x65, 9];
    let found: Vec<&[u8]> = nal_units(&stream).collect();
    assert_eq!(found, [&[0x67, 1, 2][..], &[0x68, 3], &[0x65, 9]]);
    assert_eq!(nal_units(&[0, 0, 1, 0, 0, 1]).count(), 0);
    assert_eq!(nal_units(&[1, 2, 3]).count(), 0);
}

#[test]
fn a_nal_unit_is_fragmented_from_one_byte_too_many() {
    let mut packetizer = Packetizer::new(config(112));
    assert_eq!(packetizer.packetize(&annex_b(&[nal(0x65, 100)]), 0).len(), 1);
    let packets = packetizer.packetize(&annex_b(&[nal(0x65, 101)]), 0);
    assert_eq!(packets.iter().map(Vec::len).collect::<Vec<_>>(), [112, 16]);
    assert_eq!((packets[0][12], packets[0][13]), (0x60 | 28, 0x80 | 5));
    assert_eq!((packets[1][12], packets[1][13]), (0x60 | 28, 0x40 | 5));
}

#[test]
fn headers_count_and_the_last_packet_bears_the_marker() {
    let mut packetizer = Packetizer::new(PacketizerConfig { first_sequence: 65_534, ..config(64) });
    let packets = packetizer.packetize(&annex_b(&[nal(0x67, 10), nal(0x65, 150)]), 90_000);
    let sequences: Vec<u16> = packets.iter().map(|p| u16::from_be_bytes([p[2], p[3]])).collect();
    assert_eq!(sequences, [65_534, 65_535, 0, 1]);
    let markers: Vec<bool> = packets.iter().map(|p| p[1] & 0x80 != 0).collect();
    assert_eq!(markers, [false, false, false, true]);
    assert!(packets.iter().all(|p| p[0] == 0x80 && p[1] & 0x7F == 96 && p[4..8] == 90_000u32.to_be_bytes()));
}

#[test]
fn a_lost_packet_makes_its_unit_incomplete_and_no_other() {
    let stream = annex_b(&[nal(0x67, 10), nal(0x65, 300)]);
    let mut packetizer = Packetizer::new(config(100));
    let frames: Vec<Vec<Vec<u8>>> = (0..3).map(|n| packetizer.packetize(&stream, n * 3_000)).collect();
    for lost in 0..frames[1].len() {
        let mut depacketizer = Depacketizer::new();
        for (frame, packets) in frames.iter().enumerate() {
            for (n, packet) in packets.iter().enumerate() {
                if (frame, n) != (1, lost) {
                    depacketizer.handle_packet(packet);
                }
            }
        }
        let complete: Vec<bool> = units(&mut depacketizer).iter().map(|unit| unit.is_complete).collect();
        // When the last packet of a frame is lost, the frame behind cannot know that nothing of its own was.
        let last = lost == frames[1].len() - 1;
        assert_eq!(complete, [true, false, !last], "packet {lost}");
        assert_eq!(depacketizer.lost(), 1);
    }
}

#[test]
fn a_frame_lost_whole_leaves_no_trace_but_the_count() {
    let stream = annex_b(&[nal(0x41, 50)]);
    let mut packetizer = Packetizer::new(config(100));
    let mut depacketizer = Depacketizer::new();
    for n in 0..3 {
        let packets = packetizer.packetize(&stream, n * 3_000);
        if n != 1 {
            packets.iter().for_each(|packet| depacketizer.handle_packet(packet));
        }
    }
    assert_eq!(units(&mut depacketizer).iter().map(|unit| unit.timestamp).collect::<Vec<_>>(), [0, 6_000]);
    assert_eq!(depacketizer.lost(), 1);
}

#[test]
fn repeated_and_late_packets_are_dropped() {
    let mut packetizer = Packetizer::new(config(100));
    let packets = packetizer.packetize(&annex_b(&[nal(0x65, 250)]), 0);
    let mut depacketizer = Depacketizer::new();
    for packet in [&packets[0], &packets[0], &packets[1], &packets[0], &packets[2]] {
        depacketizer.handle_packet(packet);
    }
    let units = units(&mut depacketizer);
    assert_eq!(units.len(), 1);
    assert!(units[0].is_complete && units[0].is_idr);
    assert_eq!(units[0].annex_b, annex_b(&[nal(0x65, 250)]));
}

#[test]
fn aggregates_padding_and_extensions_are_read() {
    let mut packet = vec![0x80 | 0x20 | 0x10 | 1, 0x80 | 96, 0, 7, 0, 0, 0, 9, 0, 0, 0, 1];
    packet.extend([1, 2, 3, 4]); // one contributing source
    packet.extend([0xBE, 0xDE, 0, 1, 5, 6, 7, 8]); // an extension of one word
    packet.extend([0x60 | 24, 0, 3, 0x67, 1, 2, 0, 2, 0x68, 3]);
    packet.extend([0, 0, 3]); // padding
    let mut depacketizer = Depacketizer::new();
    depacketizer.handle_packet(&packet);
    let unit = depacketizer.poll_access_unit().unwrap();
    assert_eq!(unit.annex_b, [0, 0, 0, 1, 0x67, 1, 2, 0, 0, 0, 1, 0x68, 3]);
    assert!(unit.is_complete && !unit.is_idr);
}

#[test]
fn what_is_not_rtp_is_counted() {
    let mut depacketizer = Depacketizer::new();
    for packet in [&[][..], &[0x80; 11], &[0x40; 20], &[0xA0, 96, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x65, 200]] {
        depacketizer.handle_packet(packet);
    }
    assert_eq!((depacketizer.bad(), depacketizer.poll_access_unit()), (4, None));
}

proptest! {
    #[test]
    fn units_come_out_as_they_went_in(
        sizes in prop::collection::vec(1usize..4_000, 1..6), max in 64usize..1_500, timestamp: u32, first_sequence: u16,
    ) {
        let stream = annex_b(&sizes.iter().map(|size| nal(0x41, *size)).collect::<Vec<_>>());
        let mut packetizer = Packetizer::new(PacketizerConfig { first_sequence, ..config(max) });
        let mut depacketizer = Depacketizer::new();
        for n in 0..3u32 {
            let timestamp = timestamp.wrapping_add(n);
            for packet in packetizer.packetize(&stream, timestamp) {
                prop_assert!(packet.len() <= max);
                depacketizer.handle_packet(&packet);
            }
            let unit = AccessUnit { annex_b: stream.clone(), timestamp, is_complete: true, is_idr: false };
            prop_assert_eq!(depacketizer.poll_access_unit(), Some(unit));
        }
        prop_assert_eq!((depacketizer.lost(), depacketizer.bad()), (0, 0));
    }

    #[test]
    fn any_bytes_are_survived(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..40)) {
        let mut depacketizer = Depacketizer::new();
        for mut packet in packets {
            if let Some(first) = packet.first_mut() {
                *first = *first & 0x3F | 0x80;
            }
            depacketizer.handle_packet(&packet);
            while depacketizer.poll_access_unit().is_some() {}
        }
    }
}
