//! The example in `docs/aerotp.md`: whole segments, computed and read again.

use std::fmt::Write;
use std::time::Duration;

use x25519_dalek::PublicKey as X25519Public;

use super::tests::start;
use super::*;
use crate::aerotp::{
    Flags, InnerOption, InnerOptions, LINE_OVERHEAD, OptionsWriter, Port, SegmentCodec, Seq, TransferMode,
    encode_segment, put_frame,
};

const DOCUMENT: &str = include_str!("../../../../docs/aerotp.md");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// The bytes that the document gives under a name; they may go on in indented lines.
fn documented(name: &str) -> Vec<u8> {
    let (_, block) = DOCUMENT.split_once("```known-answers\n").expect("the block is there");
    let (block, _) = block.split_once("```").expect("the block ends");
    let mut lines = block.lines().skip_while(|line| *line != name).skip(1).take_while(|line| line.starts_with("  "));
    let text: String = lines.by_ref().map(str::trim).collect();
    assert!(!text.is_empty(), "nothing under {name}");
    text.as_bytes().chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

fn ends() -> (Security, Security) {
    let end = |us: u8, peer: u8, initiates, life| {
        let (identity, peer) = (Identity::from_seed([us; 32]), Identity::from_seed([peer; 32]).public());
        let config = SecurityConfig { identity: Arc::new(identity), peer, initiates, life, accepted: None };
        Security::new(config, SeededBytes::new(&[us; 32], "known answers")).unwrap()
    };
    (end(1, 2, true, 5), end(2, 1, false, 7))
}

/// Seals and encodes.
fn segment(end: &mut Security, now: Instant, mut header: Header, mut text: Vec<u8>) -> Vec<u8> {
    let extension = end.seal(now, &mut header, &mut text).unwrap().extension.to_vec();
    let mut out = Vec::new();
    encode_segment(&mut SegmentCodec::new(), &mut header, &extension, &text, &mut out);
    out
}

/// Decodes and opens.
fn read(end: &mut Security, now: Instant, mut bytes: Vec<u8>) -> (Header, u64, Vec<u8>) {
    let mut codec = SegmentCodec::new();
    let decoded = codec.decode(&mut bytes).unwrap();
    let opened = end.open(now, &decoded.header, decoded.extension, decoded.sealed).unwrap();
    (decoded.header, opened.number, opened.plaintext.to_vec())
}

#[test]
fn the_documents_example_is_what_we_send_and_understand() {
    let now = start();
    let after = |ms| now + Duration::from_millis(ms);
    let (mut a, mut b) = ends();
    let ephemerals = [ends().0.ephemeral(), ends().1.ephemeral()];
    let statics = [&a.statics, &b.statics].map(|statics| X25519Public::from(&statics.secret).to_bytes());
    a.begin(now);

    let first = Header::new(Port(5), Port(6), TransferMode::Reliable, Seq(7), Flags::SYN | Flags::PUSH);
    let first = Header { has_crc: true, parity_words: 2, ..first };
    let first = segment(&mut a, after(1000), first, b"aquila".to_vec());
    let (_, number, text) = read(&mut b, after(1000), first.clone());
    assert_eq!((number, text.as_slice()), (1_000_000, b"aquila".as_slice()));

    let flags = Flags::OPTIONS | Flags::MACK | Flags::SYN;
    let second = Header::new(Port(6), Port(5), TransferMode::Reliable, Seq(8), flags);
    let mut text = Vec::new();
    OptionsWriter::new(&mut text).push(&InnerOption::Echo { timestamp: 1_000_000, held_us: 500_000 });
    text.extend_from_slice(&10_u32.to_be_bytes());
    let second = segment(&mut b, after(1500), Header { has_crc: true, ..second }, text);
    let (_, number, text) = read(&mut a, after(1500), second.clone());
    assert_eq!(number, 500_000);
    let (mut options, rest) = InnerOptions::parse(&text).unwrap();
    assert_eq!(options.next(), Some(InnerOption::Echo { timestamp: 1_000_000, held_us: 500_000 }));
    assert_eq!(rest, [0, 0, 0, 10]);

    let third = Header::new(Port(5), Port(6), TransferMode::Reliable, Seq(8), Flags::PUSH);
    let third = segment(&mut a, after(2000), third, b"well".to_vec());
    assert_eq!(read(&mut b, after(2000), third.clone()).2, b"well");
    let mut frame = Vec::new();
    put_frame(&mut frame, &third).unwrap();

    let answers: [(&str, &[u8]); 10] = [
        ("initiator: public key, Ed25519", &Identity::from_seed([1; 32]).public().0),
        ("initiator: public key, X25519", &statics[0]),
        ("responder: public key, Ed25519", &Identity::from_seed([2; 32]).public().0),
        ("responder: public key, X25519", &statics[1]),
        ("initiator: ephemeral secret", &ephemerals[0]),
        ("responder: ephemeral secret", &ephemerals[1]),
        ("first segment", &first),
        ("second segment", &second),
        ("third segment", &third),
        ("third segment: what precedes it on a serial line", &frame[..LINE_OVERHEAD]),
    ];
    let lines = |bytes: &[u8]| bytes.chunks(32).map(|line| format!("  {}\n", hex(line))).collect::<String>();
    let block: String = answers.iter().map(|(name, bytes)| format!("{name}\n{}", lines(bytes))).collect();
    for (name, bytes) in answers {
        assert_eq!(hex(&documented(name)), hex(bytes), "{name}; the whole block is\n{block}");
    }
}
