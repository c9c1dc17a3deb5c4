use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::*;
use crate::crc32c;
use crate::rs::Interleaved;

/// A packet of `len` random bytes and its CRC.
fn packet(len: usize, rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut packet = vec![0; len];
    rng.fill_bytes(&mut packet);
    let crc = crc32c(&packet);
    packet.extend(crc.to_be_bytes());
    packet
}

fn with_flips(packet: &[u8], bits: &[usize]) -> Vec<u8> {
    let mut copy = packet.to_vec();
    bits.iter().for_each(|bit| copy[bit / 8] ^= 1 << (bit % 8));
    copy
}

fn combined(copies: &[Vec<u8>]) -> Result<Vec<u8>, CombineError> {
    let copies: Vec<_> = copies.iter().map(Vec::as_slice).collect();
    let mut out = vec![1; 3];
    combine(&copies, &mut out).map(|()| out)
}

#[test]
fn crc_is_castagnolis() {
    // RFC 3720 B.4.
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
}

#[test]
fn a_bit_has_the_same_effect_whatever_is_around_it() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for len in [1, 2, 5, 64, 1500] {
        let body = packet(len, &mut rng);
        let body = &body[..len];
        for bit in (0..8 * len).step_by(1 + len / 20) {
            let change = crc32c(body) ^ crc32c(&with_flips(body, &[bit]));
            assert_eq!(effect(len - 1 - bit / 8, (bit % 8) as u8), change, "bit {bit} of {len} bytes");
        }
    }
}

#[test]
fn two_copies_up_to_the_bound() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let packet = packet(1496, &mut rng);
    for doubtful in 0..=MAX_DOUBTFUL + 1 {
        // Some in the CRC.
        let bits: Vec<usize> = (0..doubtful).map(|n| if n % 4 == 3 { 8 * 1496 + 2 * n } else { 901 * n }).collect();
        for mine in 0..=doubtful {
            let copies = [with_flips(&packet, &bits[..mine]), with_flips(&packet, &bits[mine..])];
            let intact = mine == 0;
            if doubtful <= MAX_DOUBTFUL || intact {
                assert_eq!(combined(&copies), Ok(packet.clone()), "{mine} and {}", doubtful - mine);
            } else {
                assert_eq!(combined(&copies), Err(CombineError::TooDifferent));
            }
        }
    }
}

#[test]
fn what_cannot_be_combined() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let packet = packet(100, &mut rng);
    assert_eq!(combined(&[]), Err(CombineError::TooFew(0)));
    assert_eq!(combined(std::slice::from_ref(&packet)), Err(CombineError::TooFew(1)));
    assert_eq!(combined(&[vec![0; 3], vec![0; 3]]), Err(CombineError::Lengths));
    assert_eq!(combined(&[packet.clone(), packet[1..].to_vec()]), Err(CombineError::Lengths));
    assert_eq!(combine_with(&[b"a", b"b"], &[1], &mut Vec::new()), Err(CombineError::Lengths));
    // The same bit wrong in both.
    let both = [with_flips(&packet, &[7, 70]), with_flips(&packet, &[7, 700])];
    assert_eq!(combined(&both), Err(CombineError::NoChoice));
    // Nothing but a CRC.
    let empty = crc32c(&[]).to_be_bytes().to_vec();
    assert_eq!(combined(&[with_flips(&empty, &[3]), with_flips(&empty, &[4])]), Ok(empty));
}

#[test]
fn two_choices_that_pass_are_none() {
    assert_eq!(only_choice(5, &[1, 4, 2]), Ok(0b011));
    assert_eq!(only_choice(5, &[1, 4, 5]), Err(CombineError::Ambiguous));
    assert_eq!(only_choice(5, &[1, 2]), Err(CombineError::NoChoice));
    assert_eq!(only_choice(5, &[]), Err(CombineError::NoChoice));
}

#[test]
fn three_copies_outvote_what_two_could_not_choose() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let packet = packet(1000, &mut rng);
    let bits = |from: usize, count: usize| (0..count).map(|n| from + 37 * n).collect::<Vec<_>>();
    // 60 bits in doubt, but never two copies wrong in one.
    let copies = [bits(0, 20), bits(1, 20), bits(2, 20)].map(|bits| with_flips(&packet, &bits));
    assert_eq!(combined(&copies), Ok(packet.clone()));
    // Three bits wrong in two of three: the majority is wrong, the choice is right.
    let [a, b, c] = [bits(0, 5), bits(74, 5), bits(5000, 2)].map(|bits| with_flips(&packet, &bits));
    assert_eq!(combined(&[a, b, c]), Ok(packet.clone()));
    // Of four copies the even votes come first: 40 bits wrong in one copy, 6 in two.
    let even = bits(6000, 6);
    let copies = [
        with_flips(&packet, &[bits(0, 10), even.clone()].concat()),
        with_flips(&packet, &[bits(1, 10), even].concat()),
        with_flips(&packet, &bits(2, 10)),
        with_flips(&packet, &bits(3, 10)),
    ];
    assert_eq!(combined(&copies), Ok(packet));
}

#[test]
fn copies_that_cannot_be_corrected_alone() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let code = Interleaved::new(1460, 8).unwrap();
    let (mut alone, mut together, trials) = (0, 0, 300);
    for _ in 0..trials {
        let mut coded = packet(1456, &mut rng);
        coded.resize(code.coded_len(), 0);
        let (data, parity) = coded.split_at_mut(1460);
        code.encode(data, parity).unwrap();
        // 14 wrong bits, 1.2e-3 of them, which a copy alone is seldom corrected of.
        let bits = 8 * coded.len();
        let copies: [_; 2] = std::array::from_fn(|_| {
            with_flips(&coded, &(0..14).map(|_| rng.next_u32() as usize % bits).collect::<Vec<_>>())
        });
        let check = |coded: &[u8]| crc32c(&coded[..1456]).to_be_bytes() == coded[1456..1460];
        let corrected = |copy: &Vec<u8>| {
            let mut copy = copy.clone();
            code.correct(&mut copy).is_ok() && check(&copy)
        };
        alone += u32::from(copies.iter().any(corrected));
        let copies: Vec<_> = copies.iter().map(Vec::as_slice).collect();
        let mut out = Vec::new();
        if combine_coded(&code, &copies, check, &mut out).is_ok() {
            assert_eq!(out, coded);
            together += 1;
        }
    }
    println!("one of two copies corrected: {alone} of {trials}, together: {together}");
    assert!(alone < trials / 2 && together > trials * 9 / 10);
}

proptest! {
    #[test]
    fn what_is_combined_has_the_right_crc(
        len in 4..80usize,
        flips in proptest::collection::vec(proptest::collection::vec(0..640usize, 0..8), 0..5),
        seed in any::<u64>(),
    ) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let packet = packet(len - 4, &mut rng);
        let flips = flips.iter().map(|bits| bits.iter().map(|bit| bit % (8 * len)).collect::<Vec<_>>());
        let copies: Vec<_> = flips.map(|bits| with_flips(&packet, &bits)).collect();
        if let Ok(combined) = combined(&copies) {
            prop_assert_eq!(combined.len(), len);
            prop_assert_eq!(crc32c(&combined[..len - 4]).to_be_bytes(), &combined[len - 4..]);
            for (at, byte) in combined.iter().enumerate() {
                let allowed = copies.iter().fold((0xff, 0), |(all, any), copy| (all & copy[at], any | copy[at]));
                prop_assert!(byte & !allowed.1 == 0 && !byte & allowed.0 == 0, "a bit that no copy has");
            }
        }
    }

    #[test]
    fn coded_copies_of_anything(
        words in 0..6u16,
        copies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 300), 0..4),
        passes in any::<bool>(),
    ) {
        let code = Interleaved::new(300 - 4 * usize::from(words), words).unwrap();
        let copies: Vec<_> = copies.iter().map(Vec::as_slice).collect();
        let mut out = Vec::new();
        let result = combine_coded(&code, &copies, |_| passes, &mut out);
        prop_assert!(result.is_err() || passes && out.len() == 300);
    }
}
