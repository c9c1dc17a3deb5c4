//! Block codes: k packets, r of parity, the first r packets lost (all, if they are fewer).

use std::hint::black_box;

use aquila_fec::block::Block;
use aquila_fec::gf256::Kernel;
use raptorq::{ObjectTransmissionInformation, SourceBlockDecoder, SourceBlockEncoder, SourceBlockEncodingPlan};
use reed_solomon_erasure::galois_8::ReedSolomon;
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

use crate::clock::Time;
use crate::{name, random};

const LEN: usize = 1200;
const SIZES: [(usize, usize); 4] = [(8, 2), (16, 4), (32, 8), (200, 50)];

type Code = (String, fn(usize, usize, Option<Kernel>) -> (Time, Time), Option<Kernel>);

pub fn table() {
    println!("Erasures, symbols of {LEN} bytes, r lost: GB/s of source, encoding / decoding, best (median).\n");
    println!("| | {} |", SIZES.map(|(k, r)| format!("{k}, {r}")).join(" | "));
    println!("|---|{}", "---|".repeat(SIZES.len()));
    let ours = Kernel::all().map(|kernel| (format!("aquila-fec, {}", name(kernel)), ours as _, Some(kernel)));
    let peers: [Code; 3] = [
        ("reed-solomon-simd 3.1.0".into(), simd, None),
        ("reed-solomon-erasure 6.0.0".into(), erasure, None),
        ("raptorq 2.0.1, plan kept".into(), raptor, None),
    ];
    for (name, measure, kernel) in ours.chain(peers) {
        let cells = SIZES.map(|(k, r)| {
            let (encode, decode) = measure(k, r, kernel);
            format!("{} / {}", encode.rate(k * LEN), decode.rate(k * LEN))
        });
        println!("| {name} | {} |", cells.join(" | "));
    }
    println!();
}

fn symbols(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| random(LEN, n as u64)).collect()
}

fn ours(k: usize, r: usize, kernel: Option<Kernel>) -> (Time, Time) {
    let block = Block::new(k, r).expect("such a code").with_kernel(kernel.unwrap_or_default());
    let (data, mut parity) = (symbols(k), vec![vec![0; LEN]; r]);
    let encode = Time::of(|| block.encode(black_box(&data), &mut parity).expect("lengths fit"));
    let came: Vec<_> = data.iter().enumerate().map(|(n, symbol)| (n >= r).then_some(symbol)).collect();
    let came: Vec<_> = came.into_iter().chain(parity.iter().map(Some)).collect();
    let mut lost = vec![vec![0; LEN]; r];
    let decode = Time::of(|| block.recover(black_box(&came), &mut lost).expect("enough came"));
    assert_eq!(lost, data[..r]);
    (encode, decode)
}

fn simd(k: usize, r: usize, _: Option<Kernel>) -> (Time, Time) {
    let data = symbols(k);
    let mut encoder = ReedSolomonEncoder::new(k, r, LEN).expect("such a code");
    let encode = Time::of(|| {
        data.iter().for_each(|symbol| encoder.add_original_shard(black_box(symbol)).expect("room"));
        black_box(encoder.encode().expect("all there"));
    });
    data.iter().for_each(|symbol| encoder.add_original_shard(symbol).expect("room"));
    let parity: Vec<_> = encoder.encode().expect("all there").recovery_iter().map(<[u8]>::to_vec).collect();
    let mut decoder = ReedSolomonDecoder::new(k, r, LEN).expect("such a code");
    let mut first = Vec::new();
    let decode = Time::of(|| {
        for (n, symbol) in data.iter().enumerate().skip(r) {
            decoder.add_original_shard(n, black_box(symbol)).expect("room");
        }
        parity.iter().enumerate().for_each(|(n, symbol)| decoder.add_recovery_shard(n, symbol).expect("room"));
        let restored = decoder.decode().expect("enough came");
        first.clear();
        first.extend_from_slice(restored.restored_original(0).expect("it was lost"));
    });
    assert_eq!(first, data[0]);
    (encode, decode)
}

fn erasure(k: usize, r: usize, _: Option<Kernel>) -> (Time, Time) {
    let code = ReedSolomon::new(k, r).expect("such a code");
    let (data, mut parity) = (symbols(k), vec![vec![0; LEN]; r]);
    let encode = Time::of(|| code.encode_sep(black_box(&data), &mut parity).expect("lengths fit"));
    let mut shards: Vec<_> = data.iter().chain(&parity).cloned().map(Some).collect();
    let decode = Time::of(|| {
        shards[..r].fill(None);
        code.reconstruct_data(black_box(&mut shards)).expect("enough came");
    });
    assert_eq!(shards[0].as_ref(), Some(&data[0]));
    (encode, decode)
}

/// It takes and gives owned packets; copying those that come in is counted, as a receiver has to do it. With exactly k
/// packets it fails now and then, so it gets one more than the others.
fn raptor(k: usize, r: usize, _: Option<Kernel>) -> (Time, Time) {
    let source = symbols(k).concat();
    let config = ObjectTransmissionInformation::new(source.len() as u64, LEN as u16, 1, 1, 8);
    let plan = SourceBlockEncodingPlan::generate(k as u16);
    let encode = Time::of(|| {
        let encoder = SourceBlockEncoder::with_encoding_plan(0, &config, black_box(&source), &plan);
        black_box(encoder.repair_packets(0, r as u32));
    });
    let encoder = SourceBlockEncoder::with_encoding_plan(0, &config, &source, &plan);
    let mut packets = encoder.source_packets().split_off(r);
    packets.extend(encoder.repair_packets(0, r as u32 + 1));
    let mut decoded = None;
    let decode = Time::of(|| {
        let mut decoder = SourceBlockDecoder::new(0, &config, source.len() as u64);
        decoded = decoder.decode(black_box(packets.clone()));
    });
    assert_eq!(decoded.as_ref(), Some(&source));
    (encode, decode)
}
