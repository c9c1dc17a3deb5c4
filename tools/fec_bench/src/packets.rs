//! Reed-Solomon within packets of 1500 bytes, parity included, as `reed-solomon` is compared: the same codewords, dealt out
//! by hand.

use std::hint::black_box;

use aquila_fec::combine::{combine, combine_coded};
use aquila_fec::crc32c;
use aquila_fec::rs::{Interleaved, residual, words_for};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use reed_solomon::{Decoder, Encoder};

use crate::clock::Time;
use crate::random;

const LEN: usize = 1500;
const WORDS: [u16; 5] = [4, 8, 16, 32, 96];
/// Packets with different errors, so that no branch is learnt by heart.
const PACKETS: usize = 512;

pub fn table() {
    println!("Within a packet of {LEN} bytes: GB/s of the packet, best (median).\n");
    println!(
        "| words of parity | encode | clean | bit errors of 1e-4 | 1e-3 | `reed-solomon` 0.2.1: encode | clean | 1e-4 |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for words in WORDS {
        let (ours, peer) = (ours(words), peer(words));
        let cells = ours.into_iter().chain(peer).map(|time| time.rate(LEN));
        println!("| {words} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    println!("\n| | microseconds, best (median) |\n|---|---|");
    let chance = Time::of(|| _ = black_box(residual(black_box(1460), 8, 1e-4)));
    println!("| chance that correction fails, 1460 bytes, 8 words | {} |", chance.micros());
    let least = Time::of(|| _ = black_box(words_for(black_box(1460), 1e-4, 1e-6)));
    println!(
        "| least parity for 1e-6, 1460 bytes at 1e-4: {:?} words | {} |",
        words_for(1460, 1e-4, 1e-6),
        least.micros()
    );
    let packet = random(LEN, 5);
    println!("| CRC-32C of {LEN} bytes | {} |", Time::of(|| _ = black_box(crc32c(black_box(&packet)))).micros());
    for bits in [2, 6, 12] {
        println!("| two copies of {LEN} bytes that differ in {bits} bits | {} |", copies(bits).micros());
    }
    println!("| two copies with 8 words of parity, 14 wrong bits in each | {} |", coded_copies().micros());
    println!();
}

fn ours(words: u16) -> Vec<Time> {
    let code = Interleaved::new(LEN - 4 * usize::from(words), words).expect("such a code");
    let mut packet = random(LEN, 1);
    let (data, parity) = packet.split_at_mut(code.data_len());
    let encode = Time::of(|| code.encode(black_box(data), parity).expect("lengths fit"));
    let mut copy = packet.clone();
    let clean = Time::of(|| _ = black_box(code.correct(black_box(&mut copy))));
    let correct = |ber| {
        let damaged = damaged(&packet, ber);
        let mut copy = packet.clone();
        let mut n = 0;
        Time::of(move || {
            copy.copy_from_slice(&damaged[n % PACKETS]);
            n += 1;
            _ = black_box(code.correct(black_box(&mut copy)));
        })
    };
    vec![encode, clean, correct(1e-4), correct(1e-3)]
}

/// As many codewords as ours have, with as much parity as one of ours has at most.
fn peer(words: u16) -> Vec<Time> {
    let code = Interleaved::new(LEN - 4 * usize::from(words), words).expect("such a code");
    let depth = code.codewords();
    let parity = 2 * (2 * usize::from(words)).div_ceil(depth);
    let (encoder, decoder) = (Encoder::new(parity), Decoder::new(parity));
    let share = LEN / depth - parity;
    let data: Vec<_> = (0..depth).map(|n| random(share, n as u64)).collect();
    let encode = Time::of(|| data.iter().for_each(|data| _ = black_box(encoder.encode(black_box(data)))));
    let coded: Vec<_> = data.iter().map(|data| encoder.encode(data).to_vec()).collect();
    let clean = Time::of(|| coded.iter().for_each(|word| _ = black_box(decoder.correct(black_box(word), None))));
    let damaged: Vec<Vec<_>> = (0..depth).map(|n| damaged(&coded[n], 1e-4)).collect();
    let mut n = 0;
    let correct = Time::of(|| {
        n += 1;
        damaged.iter().for_each(|words| _ = black_box(decoder.correct(black_box(&words[n % PACKETS]), None)));
    });
    vec![encode, clean, correct]
}

fn damaged(packet: &[u8], ber: f64) -> Vec<Vec<u8>> {
    let mut rng = ChaCha8Rng::seed_from_u64(packet.len() as u64);
    let flip = |byte: u8, rng: &mut ChaCha8Rng| {
        (0..8).fold(byte, |byte, bit| byte ^ u8::from(f64::from(rng.next_u32()) < ber * 2f64.powi(32)) << bit)
    };
    (0..PACKETS).map(|_| packet.iter().map(|byte| flip(*byte, &mut rng)).collect()).collect()
}

fn copies(bits: usize) -> Time {
    let mut packet = random(LEN - 4, 3);
    packet.extend(crc32c(&packet).to_be_bytes());
    let mut copies = [packet.clone(), packet.clone()];
    (0..bits).for_each(|n| copies[n % 2][n * 113] ^= 1 << (n % 8));
    let copies = [&copies[0][..], &copies[1]];
    let mut out = Vec::new();
    let time = Time::of(|| combine(black_box(&copies), &mut out).expect("one choice"));
    assert_eq!(out, packet);
    time
}

fn coded_copies() -> Time {
    let code = Interleaved::new(LEN - 32, 8).expect("such a code");
    let mut packet = random(LEN - 36, 3);
    packet.extend(crc32c(&packet).to_be_bytes());
    packet.resize(LEN, 0);
    let (data, parity) = packet.split_at_mut(LEN - 32);
    code.encode(data, parity).expect("lengths fit");
    let mut copies = [packet.clone(), packet.clone()];
    // Two wrong symbols in each codeword of each copy: as many in all as there is parity, or fewer.
    (0..28).for_each(|n| copies[n % 2][n / 2 + (n % 2 + 2 * (n / 14)) * 350] ^= 1 << (n % 8));
    let copies = [&copies[0][..], &copies[1]];
    let check = |coded: &[u8]| crc32c(&coded[..LEN - 36]).to_be_bytes() == coded[LEN - 36..LEN - 32];
    let mut out = Vec::new();
    let time = Time::of(|| combine_coded(&code, black_box(&copies), check, &mut out).expect("one choice"));
    assert_eq!(out, packet);
    time
}
