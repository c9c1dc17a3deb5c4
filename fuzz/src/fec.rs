//! Error-correcting codes: no panic on anything, and what they call right is what they say it is.

use aquila_fec::combine::{CombineError, combine, combine_coded, combine_with};
use aquila_fec::crc32c;
use aquila_fec::rlc::{Decoder, Encoder, Limits, RepairHeader};
use aquila_fec::rs::{CorrectError, Interleaved};

use crate::input::Input;

/// A code, errors and erasures on a packet that was coded, or any bytes instead of it: what is corrected is a codeword, and
/// the packet if its errors were within reach.
pub fn correct(data: &[u8]) {
    let mut input = Input(data);
    let (len, words) = (usize::from(input.u16()) % 2048, input.u16() % 600);
    let Ok(code) = Interleaved::new(len, words) else {
        assert!(words > aquila_fec::rs::MAX_WORDS);
        return;
    };
    let mut coded = vec![0; code.coded_len()];
    input.long_bytes().iter().zip(&mut coded).for_each(|(byte, coded)| *coded = *byte);
    if input.bool() {
        let (data, parity) = coded.split_at_mut(len);
        code.encode(data, parity).expect("the code's own lengths");
    }
    let sent = coded.clone();
    let (mut erased, mut wrong) = (Vec::new(), vec![0; code.codewords()]);
    while !input.is_empty() {
        let (at, flip) = (usize::from(input.u16()), input.u8());
        match coded.get_mut(at) {
            Some(byte) if flip != 0 => *byte ^= flip,
            _ => erased.push(at),
        }
    }
    for at in (0..coded.len()).filter(|at| coded[*at] != sent[*at]) {
        if let Some(codeword) = code.codeword_of(at) {
            wrong[codeword] += 1;
        }
    }
    let mut parity = vec![0; code.parity_len()];
    code.encode(&sent[..len], &mut parity).expect("the code's own lengths");
    // Each codeword has this much parity at least.
    let least = if words == 0 { 0 } else { 2 * (2 * usize::from(words) / code.codewords()) };
    let within_reach = parity == sent[len..] && erased.is_empty() && wrong.iter().all(|wrong| 2 * wrong <= least);
    match code.correct_erased(&mut coded, &erased) {
        Ok(_) => {
            code.encode(&coded[..len], &mut parity).expect("the code's own lengths");
            assert_eq!(parity, coded[len..]);
            assert!(!within_reach || coded == sent);
        }
        Err(CorrectError::Uncorrectable { codewords, .. }) => {
            assert!(!within_reach && 0 < codewords && codewords <= code.codewords());
        }
        Err(CorrectError::Length(error)) => panic!("{error}"),
    }
}

/// Copies of a packet with flipped bits, or any bytes: what comes out passes its check and is made of the copies' bits.
pub fn copies(data: &[u8]) {
    let mut input = Input(data);
    let (words, count) = (u16::from(input.u8() % 16), input.below(5));
    let mut packet = input.long_bytes().to_vec();
    packet.truncate(1024);
    packet.extend(crc32c(&packet).to_be_bytes());
    let code = Interleaved::new(packet.len(), words).expect("short");
    let body = packet.len() - 4;
    packet.resize(code.coded_len(), 0);
    let (data, parity) = packet.split_at_mut(body + 4);
    code.encode(data, parity).expect("the code's own lengths");
    let mut copies = vec![packet.clone(); count];
    while !input.is_empty() {
        let (copy, bit) = (input.below(6), usize::from(input.u16()));
        match copies.get_mut(copy) {
            Some(copy) if !copy.is_empty() => {
                let at = bit / 8 % copy.len();
                copy[at] ^= 1 << (bit % 8);
            }
            Some(_) => {}
            None => drop(copies.last_mut().and_then(Vec::pop)),
        }
    }
    let mut out = vec![1, 2, 3];
    let whole: Vec<_> = copies.iter().map(Vec::as_slice).collect();
    let passes = |coded: &[u8]| crc32c(&coded[..body]).to_be_bytes() == coded[body..body + 4];
    match combine_coded(&code, &whole, passes, &mut out) {
        Ok(()) => assert!(passes(&out) && out.len() == code.coded_len()),
        Err(CombineError::TooFew(few)) => assert!(few < 2),
        Err(_) => {}
    }
    let without: Vec<_> = whole.iter().map(|copy| &copy[..copy.len().min(body + 4)]).collect();
    if combine(&without, &mut out).is_ok() {
        let (body, crc) = out.split_last_chunk().expect("a CRC");
        assert_eq!(crc32c(body).to_be_bytes(), *crc);
        for (at, byte) in out.iter().enumerate() {
            let (all, any) = without.iter().fold((0xff, 0), |(all, any), copy| (all & copy[at], any | copy[at]));
            assert_eq!((byte & !any, !byte & all), (0, 0), "a bit that no copy has");
        }
    }
    let crcs: Vec<_> = whole.iter().map(|copy| copy.first().map_or(0, |byte| u32::from(*byte))).collect();
    if let Ok(crc) = combine_with(&whole, &crcs, &mut out) {
        assert_eq!(crc32c(&out), crc);
    }
}

/// Packets and repairs, real ones in any order and made-up ones: bounded, and as long as nothing was made up, what comes
/// out is what went in.
pub fn window(data: &[u8]) {
    let mut input = Input(data);
    let limits = Limits { packets: input.below(256) + 1, bytes: usize::from(input.u16()) };
    let first = input.u32();
    let mut encoder = Encoder::new(Limits { packets: input.below(256), bytes: 1 << 14 }, first);
    let mut decoder = Decoder::new(limits);
    let (mut sent, mut repairs, mut honest) = (Vec::new(), Vec::new(), true);
    while !input.is_empty() {
        match input.below(6) {
            0 => {
                let packet = input.short_bytes().to_vec();
                let number = encoder.push(&packet).expect("short");
                assert_eq!(number, first.wrapping_add(sent.len() as u32));
                sent.push(packet);
            }
            1 => {
                let mut coded = Vec::new();
                let header = encoder.repair_of(input.below(256), &mut coded);
                repairs.extend(header.map(|header| (header, coded)));
            }
            2 if !sent.is_empty() => {
                let n = usize::from(input.u8()) % sent.len();
                decoder.handle_packet(first.wrapping_add(n as u32), &sent[n]);
            }
            3 if !repairs.is_empty() => {
                let (header, coded) = &repairs[usize::from(input.u8()) % repairs.len()];
                assert_eq!(RepairHeader::from_bytes(header.to_bytes()), *header);
                decoder.handle_repair(*header, coded);
            }
            4 => {
                honest = false;
                let header = RepairHeader { first: input.u32(), count: input.u16(), key: input.u16() };
                decoder.handle_repair(header, input.short_bytes());
            }
            5 => {
                honest = false;
                decoder.handle_packet(input.u32(), input.short_bytes());
            }
            _ => encoder.forget_before(first.wrapping_add(u32::from(input.u8()))),
        }
        assert!(decoder.bytes() <= limits.bytes);
        while let Some((number, packet)) = decoder.poll_recovered() {
            let wanted = sent.get(number.wrapping_sub(first) as usize);
            assert!(!honest || wanted.is_some_and(|wanted| wanted == packet), "packet {number}");
        }
    }
}
