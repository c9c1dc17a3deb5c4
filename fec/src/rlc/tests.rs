use std::collections::BTreeSet;

use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::*;

const LIMITS: Limits = Limits { packets: 32, bytes: 1 << 20 };

/// A packet that tells its number.
fn packet(number: u32) -> Vec<u8> {
    let bytes = number.to_be_bytes().into_iter().cycle();
    bytes.take(number as usize * 7 % 40).collect()
}

fn recovered(decoder: &mut Decoder) -> Vec<u32> {
    let mut numbers = Vec::new();
    while let Some((number, bytes)) = decoder.poll_recovered() {
        assert_eq!(bytes, packet(number), "packet {number}");
        numbers.push(number);
    }
    numbers
}

fn push(encoder: &mut Encoder, numbers: std::ops::Range<u32>) {
    numbers.for_each(|number| assert_eq!(encoder.push(&packet(number)), Ok(number)));
}

fn repair(encoder: &mut Encoder) -> (RepairHeader, Vec<u8>) {
    let mut coded = Vec::new();
    (encoder.repair(&mut coded).unwrap(), coded)
}

#[test]
fn header_round_trip() {
    for count in [1, 2, 255, 256] {
        let header = RepairHeader { first: 0xdead_beef, count, key: 0x1234 };
        assert_eq!(RepairHeader::from_bytes(header.to_bytes()), header);
    }
    assert_eq!(RepairHeader { first: 1, count: 8, key: 2 }.to_bytes(), [0, 0, 0, 1, 7, 0, 2]);
}

/// By its description, without the kernels.
#[test]
fn a_repair_is_as_described() {
    let mut encoder = Encoder::new(Limits { packets: 5, bytes: 1000 }, 100);
    push(&mut encoder, 100..107);
    repair(&mut encoder);
    let (header, coded) = repair(&mut encoder);
    assert_eq!(header, RepairHeader { first: 102, count: 5, key: 1 });
    let mut wanted = vec![0; 2 + (102..107).map(|number| packet(number).len()).max().unwrap()];
    for (number, c) in (102..107).zip(Coefficients::new(1)) {
        let packet = packet(number);
        let symbol = (packet.len() as u16).to_be_bytes().into_iter().chain(packet);
        wanted.iter_mut().zip(symbol).for_each(|(sum, byte)| *sum ^= crate::gf256::mul(c, byte));
    }
    assert_eq!(coded, wanted);
}

#[test]
fn a_part_of_the_window_is_repaired_by_itself() {
    let mut encoder = Encoder::new(Limits { packets: 5, bytes: 1000 }, u32::MAX - 3);
    (0..7).for_each(|n| assert_eq!(encoder.push(&[n; 9]), Ok((u32::MAX - 3).wrapping_add(n.into()))));
    let mut coded = Vec::new();
    let mut part = |first: u32, end| {
        let header = encoder.repair_between(first, end, &mut coded)?;
        Some((header.first, header.count))
    };
    assert_eq!(part(0, 1), Some((0, 1)));
    assert_eq!(part(u32::MAX, 2), Some((u32::MAX, 3)));
    assert_eq!(part(u32::MAX - 3, 1), Some((u32::MAX - 1, 3)), "as far as it is there");
    for (first, end) in [(0, 0), (1, 0), (u32::MAX - 3, u32::MAX - 1), (0, 4), (4, 5), (3, 1)] {
        assert_eq!(part(first, end), None, "{first} to {end}");
    }
    let mut decoder = Decoder::new(Limits::default());
    for n in [0u8, 1, 2, 3, 5, 6] {
        decoder.handle_packet((u32::MAX - 3).wrapping_add(n.into()), &[n; 9]);
    }
    let header = encoder.repair_between(0, 1, &mut coded).unwrap();
    decoder.handle_repair(header, &coded);
    assert_eq!(decoder.poll_recovered(), Some((0, &[4; 9][..])));
}

#[test]
fn the_window_is_bounded_in_packets_and_bytes() {
    let mut encoder = Encoder::new(Limits { packets: 3, bytes: 100 }, 0);
    assert_eq!(encoder.repair(&mut Vec::new()), None);
    for (len, window) in [(10, 1), (10, 2), (10, 3), (10, 3), (74, 3), (13, 2), (500, 1), (0, 1), (0, 2)] {
        encoder.push(&vec![0; len]).unwrap();
        assert_eq!(encoder.window(), window, "after {len} bytes");
    }
    assert_eq!(encoder.push(&vec![0; MAX_PACKET + 1]), Err(TooLong(MAX_PACKET + 1)));
    assert_eq!(encoder.push(&vec![0; MAX_PACKET]), Ok(9));
    encoder.push(&[]).unwrap();
    encoder.forget_before(10);
    assert_eq!(encoder.window(), 1);
    encoder.forget_before(9);
    assert_eq!(encoder.window(), 1);
    encoder.forget_before(11);
    assert_eq!(encoder.window(), 0);
}

/// At the first moment at which they can be.
#[test]
fn lost_packets_come_back_with_as_many_repairs_across_the_wrap() {
    for first in [0, u32::MAX - 7, u32::MAX, 1 << 31] {
        let mut encoder = Encoder::new(LIMITS, first);
        let mut decoder = Decoder::new(LIMITS);
        for n in 0..20 {
            let number = first.wrapping_add(n);
            encoder.push(&packet(number)).unwrap();
            if ![4, 5, 9, 19].contains(&n) {
                assert!(decoder.handle_packet(number, &packet(number)));
                assert!(!decoder.handle_packet(number, &packet(number)));
            }
        }
        let lost = [4, 5, 9, 19].map(|n| first.wrapping_add(n));
        for n in 0..4 {
            assert_eq!(recovered(&mut decoder), [0; 0]);
            let (header, coded) = repair(&mut encoder);
            decoder.handle_repair(header, &coded);
            if n == 1 {
                // One of them arrives late: one repair less is needed.
                assert!(decoder.handle_packet(lost[1], &packet(lost[1])));
            }
            if n == 2 {
                let mut came = recovered(&mut decoder);
                came.sort_by_key(|number| number.wrapping_sub(first));
                assert_eq!(came, [lost[0], lost[2], lost[3]]);
            }
        }
        let statistics = decoder.statistics();
        assert_eq!((statistics.recovered, statistics.redundant, statistics.duplicates), (3, 1, 16));
    }
}

#[test]
fn the_first_packets_can_be_lost() {
    let mut encoder = Encoder::new(LIMITS, 7);
    push(&mut encoder, 7..12);
    let mut decoder = Decoder::new(LIMITS);
    assert!(decoder.handle_packet(9, &packet(9)));
    for _ in 0..4 {
        let (header, coded) = repair(&mut encoder);
        decoder.handle_repair(header, &coded);
    }
    let mut came = recovered(&mut decoder);
    came.sort_unstable();
    assert_eq!(came, [7, 8, 10, 11]);
    // Nothing but repairs at all.
    let mut decoder = Decoder::new(LIMITS);
    for _ in 0..5 {
        let (header, coded) = repair(&mut encoder);
        decoder.handle_repair(header, &coded);
    }
    let mut came = recovered(&mut decoder);
    came.sort_unstable();
    assert_eq!(came, [7, 8, 9, 10, 11]);
}

#[test]
fn what_left_the_window_is_forgotten() {
    let mut encoder = Encoder::new(LIMITS, 0);
    let mut decoder = Decoder::new(Limits { packets: 40, bytes: 1000 });
    push(&mut encoder, 0..4);
    let (header, coded) = repair(&mut encoder);
    decoder.handle_packet(0, &packet(0));
    decoder.handle_repair(header, &coded);
    assert!(decoder.bytes() > 0 && recovered(&mut decoder).is_empty());
    decoder.handle_packet(43, &[]);
    decoder.handle_repair(header, &coded);
    assert!(!decoder.handle_packet(3, &packet(3)));
    assert_eq!((decoder.statistics().late, decoder.bytes()), (2, 2));
    // A packet may jump, a repair not.
    decoder.handle_repair(RepairHeader { first: 200, count: 5, key: 0 }, &[0; 20]);
    assert_eq!(decoder.statistics().refused, 1);
    assert!(decoder.handle_packet(1_000_000, &[1; 990]));
    assert!(decoder.handle_packet(1_000_001, &[1; 990]));
    assert_eq!(decoder.bytes(), 992);
}

#[test]
fn what_no_encoder_makes_is_refused() {
    let mut decoder = Decoder::new(LIMITS);
    let header = RepairHeader { first: 0, count: 4, key: 9 };
    decoder.handle_repair(RepairHeader { count: 0, ..header }, &[0; 9]);
    decoder.handle_repair(RepairHeader { count: 33, ..header }, &[0; 9]);
    decoder.handle_repair(header, &[0; 1]);
    decoder.handle_repair(header, &vec![0; MAX_PACKET + LENGTH + 1]);
    assert!(!decoder.handle_packet(0, &vec![0; MAX_PACKET + 1]));
    assert_eq!(decoder.statistics().refused, 5);
    // Shorter than what it is said to be made of.
    (0..3).for_each(|number| assert!(decoder.handle_packet(number, &[7; 20])));
    decoder.handle_repair(header, &[0; 9]);
    assert_eq!(decoder.statistics().refused, 6);
    // A length that is longer than the repair.
    decoder.handle_repair(header, &[0xff; 22]);
    assert_eq!((decoder.statistics().refused, decoder.poll_recovered()), (7, None));
}

/// Frames of 8 packets, of which repairs are to make up for the loss: how many are incomplete when their time is up.
struct Trial {
    /// Packets that repairs cover.
    window: usize,
    /// Repairs after each packet of a frame.
    schedule: [usize; 8],
    /// Frames that may come until a frame's time is up: its own repairs and those of so many more count.
    wait: u32,
    /// Of a packet in the good state to be followed by the bad one, and of one in the bad state to be followed by the good
    /// one; in the bad state everything is lost (Gilbert, "Capacity of a burst-noise channel", 1960).
    to_bad: f64,
    to_good: f64,
}

impl Trial {
    /// 5 % loss in bursts of 4 packets on average.
    const BURSTS: (f64, f64) = (0.25 * 0.05 / 0.95, 0.25);
    /// 5 % loss, each packet by itself.
    const EVEN: (f64, f64) = (0.05, 0.95);

    fn misses(&self, frames: u32, seed: u64) -> f64 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut chance = || f64::from(rng.next_u32()) / 2f64.powi(32);
        let mut bad = false;
        let mut lost = || {
            bad = chance() < if bad { 1.0 - self.to_good } else { self.to_bad };
            bad
        };
        let mut encoder = Encoder::new(Limits { packets: self.window, bytes: 1 << 20 }, 0);
        let mut decoder = Decoder::new(Limits { packets: self.window + 8 * self.wait as usize, bytes: 1 << 20 });
        let mut have = std::collections::VecDeque::new();
        let (mut coded, mut missed) = (Vec::new(), 0);
        for frame in 0..frames {
            have.push_back(0u32);
            for (n, repairs) in self.schedule.iter().enumerate() {
                let payload = [n as u8, frame as u8];
                let number = encoder.push(&payload).unwrap();
                if !lost() {
                    *have.back_mut().unwrap() += 1;
                    decoder.handle_packet(number, &payload);
                }
                for _ in 0..*repairs {
                    let header = encoder.repair(&mut coded).unwrap();
                    if !lost() {
                        decoder.handle_repair(header, &coded);
                    }
                }
                while let Some((number, bytes)) = decoder.poll_recovered() {
                    let age = frame - number / 8;
                    assert_eq!(bytes, [(number % 8) as u8, (number / 8) as u8]);
                    if let Some(of) = have.len().checked_sub(1 + age as usize) {
                        have[of] += 1;
                    }
                }
            }
            if have.len() > self.wait as usize {
                missed += u32::from(have.pop_front() != Some(8));
            }
        }
        f64::from(missed) / f64::from(frames)
    }
}

/// The figure that the window is for, 50 % of repairs. A frame is missed if it is not complete when the last repair of
/// the third frame after it has come or should have: then no repair covers it any more.
///
/// Repairs leave with the end of a frame: one that leaves earlier covers less of it, and they would not be apart for
/// longer than a burst anyway.
#[test]
fn frames_missed_at_5_percent_loss_in_bursts_and_even() {
    let end = [0, 0, 0, 0, 0, 0, 0, 4];
    let (to_bad, to_good) = Trial::BURSTS;
    let bursts = Trial { window: 32, schedule: end, wait: 3, to_bad, to_good };
    let missed = bursts.misses(200_000, 1);
    let between = Trial { schedule: [0, 1, 0, 1, 0, 1, 0, 1], ..bursts }.misses(50_000, 2);
    let block = Trial { window: 8, wait: 0, ..bursts }.misses(50_000, 3);
    let (to_bad, to_good) = Trial::EVEN;
    let even = Trial { to_bad, to_good, ..bursts }.misses(200_000, 4);
    let even_block = Trial { window: 8, wait: 0, to_bad, to_good, ..bursts }.misses(50_000, 5);
    println!("bursts: {missed:.5}, repairs between packets {between:.5}, blocks of a frame {block:.4}");
    println!("even: {even:.6}, blocks of a frame {even_block:.6}");
    assert!(missed <= 0.006, "{missed}");
    assert!((0.035..0.055).contains(&block), "{block}");
    assert!(even <= 1e-4 && even_block <= 4e-4, "{even}, {even_block}");
}

/// The packets that follow from those that came and these repairs, all at once and step by step, as in a textbook.
fn determined(mut known: BTreeSet<u32>, repairs: &[RepairHeader], first: u32) -> BTreeSet<u32> {
    let row = |repair: &RepairHeader| {
        let from = repair.first.wrapping_sub(first) as usize;
        let mut row = [0; 128];
        row[from..].iter_mut().zip(Coefficients::new(repair.key)).take(repair.count.into()).for_each(|(to, c)| *to = c);
        known.iter().for_each(|number| row[*number as usize] = 0);
        row
    };
    let mut rows: Vec<[u8; 128]> = repairs.iter().map(row).collect();
    let mut done = 0;
    for column in 0..128 {
        let Some(pivot) = (done..rows.len()).find(|n| rows[*n][column] != 0) else { continue };
        rows.swap(done, pivot);
        let by = crate::gf256::inverse(rows[done][column]);
        rows[done].iter_mut().for_each(|c| *c = crate::gf256::mul(*c, by));
        let pivot = rows[done];
        for (_, row) in rows.iter_mut().enumerate().filter(|(n, row)| *n != done && row[column] != 0) {
            let factor = row[column];
            row.iter_mut().zip(pivot).for_each(|(c, p)| *c ^= crate::gf256::mul(factor, p));
        }
        done += 1;
    }
    for row in rows.iter().filter(|row| row.iter().filter(|c| **c != 0).count() == 1) {
        known.extend(row.iter().position(|c| *c != 0).map(|number| number as u32));
    }
    known
}

proptest! {
    /// Any packets lost, any repairs, in any order within reach: what comes out is what went in, and all that follows from
    /// what came.
    #[test]
    fn what_comes_out_went_in(
        first in any::<u32>(),
        events in proptest::collection::vec((any::<bool>(), any::<bool>(), 0..6usize), 1..120),
        seed in any::<u64>(),
    ) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut encoder = Encoder::new(Limits { packets: 200, bytes: 1 << 20 }, first);
        let mut decoder = Decoder::new(Limits { packets: 256, bytes: 1 << 20 });
        let (mut sent, mut came) = (Vec::new(), BTreeSet::new());
        let (mut packets, mut repairs) = (BTreeSet::new(), Vec::new());
        let mut held = Vec::new();
        for (is_repair, arrives, delay) in events {
            if is_repair {
                let mut coded = Vec::new();
                if let Some(header) = encoder.repair(&mut coded) && arrives {
                    held.push((delay, header.first, Some(header), coded));
                }
            } else {
                let mut bytes = vec![0; rng.next_u32() as usize % 60];
                rng.fill_bytes(&mut bytes);
                let number = encoder.push(&bytes).unwrap();
                prop_assert_eq!(number, first.wrapping_add(sent.len() as u32));
                sent.push(bytes.clone());
                if arrives {
                    held.push((delay, number, None, bytes));
                }
            }
            held.iter_mut().for_each(|(delay, ..)| *delay = delay.saturating_sub(1));
            let (due, later): (Vec<_>, Vec<_>) = held.into_iter().partition(|(delay, ..)| *delay == 0);
            held = later;
            for (_, number, header, bytes) in due {
                match header {
                    Some(_) => repairs.extend(header),
                    None => _ = packets.insert(number.wrapping_sub(first)),
                }
                match header {
                    Some(header) => decoder.handle_repair(header, &bytes),
                    None if decoder.handle_packet(number, &bytes) => prop_assert!(came.insert(number.wrapping_sub(first))),
                    None => prop_assert!(came.contains(&number.wrapping_sub(first))),
                }
                while let Some((number, bytes)) = decoder.poll_recovered() {
                    prop_assert_eq!(bytes, &sent[number.wrapping_sub(first) as usize][..]);
                    prop_assert!(came.insert(number.wrapping_sub(first)));
                }
            }
        }
        let statistics = decoder.statistics();
        prop_assert_eq!((statistics.refused, statistics.late), (0, 0));
        prop_assert!(statistics.recovered + statistics.redundant <= repairs.len() as u64);
        prop_assert_eq!(came, determined(packets, &repairs, first));
    }

    /// Whatever comes in: no panic, and within the bounds.
    #[test]
    fn anything_can_come(
        packets in 0..300usize,
        bytes in 0..3000usize,
        events in proptest::collection::vec(
            (0..2u8, 0..600u32, any::<u16>(), 0..300u16, proptest::collection::vec(any::<u8>(), 0..60), 0..100u8), 0..200),
    ) {
        let mut decoder = Decoder::new(Limits { packets, bytes });
        for (kind, number, key, count, payload, jump) in events {
            let first = if jump == 0 { number.wrapping_mul(0x0123_4567) } else { number };
            match kind {
                0 => _ = decoder.handle_packet(first, &payload),
                _ => decoder.handle_repair(RepairHeader { first, count, key: key % 4 }, &payload),
            }
            prop_assert!(decoder.bytes() <= bytes);
            if jump % 2 == 0 {
                while let Some((_, packet)) = decoder.poll_recovered() {
                    prop_assert!(packet.len() < 60);
                }
            }
        }
    }
}
