//! The sliding window: frames of 8 packets of 1200 bytes and 4 repairs over the last 4 frames.

use std::hint::black_box;

use aquila_fec::gf256::Kernel;
use aquila_fec::rlc::{Decoder, Encoder, Limits, RepairHeader};

use crate::clock::Time;
use crate::{name, random};

const LEN: usize = 1200;
const LIMITS: Limits = Limits { packets: 32, bytes: 1 << 20 };
const FRAMES: usize = 64;

/// Packets with their numbers, and repairs.
type Frame = (Vec<(u32, Vec<u8>)>, Vec<(RepairHeader, Vec<u8>)>);

pub fn table() {
    println!(
        "Sliding window, packets of {LEN} bytes, 4 repairs for each 8, over the last 32: microseconds, best (median).\n"
    );
    println!(
        "| | a packet into the encoder | a repair | all into the decoder, each packet of source: nothing lost | 1 of each 8 lost | 4 of each 8 lost |"
    );
    println!("|---|---|---|---|---|---|");
    for kernel in Kernel::all() {
        let packet = random(LEN, 1);
        let mut encoder = Encoder::new(LIMITS, 0).with_kernel(kernel);
        let push = Time::of(|| _ = black_box(encoder.push(black_box(&packet))));
        let mut coded = Vec::new();
        let repair = Time::of(|| _ = black_box(encoder.repair(&mut coded)));
        let decode = [0, 1, 4].map(|lost| decode(kernel, lost));
        let cells: Vec<_> = [push, repair].into_iter().chain(decode).map(|time| time.micros()).collect();
        println!("| {} | {} |", name(kernel), cells.join(" | "));
    }
    println!();
}

/// For a packet, if the first `lost` of each frame are.
fn decode(kernel: Kernel, lost: usize) -> Time {
    let mut encoder = Encoder::new(LIMITS, 0).with_kernel(kernel);
    let mut frames: Vec<Frame> = Vec::new();
    for frame in 0..FRAMES {
        let packets = (0..8).map(|n| random(LEN, (8 * frame + n) as u64));
        let packets = packets.map(|packet| (encoder.push(&packet).expect("short enough"), packet)).collect();
        let mut repair = || {
            let mut coded = Vec::new();
            (encoder.repair(&mut coded).expect("not empty"), coded)
        };
        frames.push((packets, (0..4).map(|_| repair()).collect()));
    }
    let time = Time::of(|| {
        let mut decoder = Decoder::new(LIMITS).with_kernel(kernel);
        let mut recovered = 0;
        for (packets, repairs) in black_box(&frames) {
            for (number, packet) in &packets[lost..] {
                decoder.handle_packet(*number, packet);
            }
            for (header, coded) in repairs {
                decoder.handle_repair(*header, coded);
            }
            while black_box(decoder.poll_recovered()).is_some() {
                recovered += 1;
            }
        }
        assert_eq!(recovered, lost * FRAMES);
    });
    let each = (8 * FRAMES) as u32;
    Time { best: time.best / each, median: time.median / each }
}
