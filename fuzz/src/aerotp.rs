//! AeroTP's wire: whatever a line brings is taken or refused, and what opens was sealed by the other end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aquila_proto::aerotp::{
    Damaged, Deframer, Flags, Header, InnerOptions, LineEvent, OptionsWriter, Port, Repaired, Security, SecurityConfig,
    SegmentCodec, Seq, TransferMode, combine_segments, encode_segment, put_frame,
};
use aquila_proto::identity::Identity;
use aquila_proto::seeded::SeededBytes;

use crate::input::{Input, epoch};

/// Any bytes as a segment, or a segment with some bits flipped: what is taken has the lengths that it says, and is the one
/// that was sent if few bits were wrong.
pub fn segment(data: &[u8]) {
    let mut input = Input(data);
    let mut codec = SegmentCodec::new();
    for _ in 0..input.below(6) {
        codec.expect_parity(input.u16());
    }
    if input.bool() {
        let bytes = input.0;
        taken_or_left(&mut codec, bytes);
        let (a, b) = bytes.split_at(bytes.len() / 2);
        combine_segments(&mut codec, &[a, &b[..a.len()]]);
        return;
    }
    let mode = TransferMode::from_number(input.u8() % 5).expect("there are five");
    let mut header = Header::new(Port(input.u16()), Port(input.u16()), mode, Seq(input.u32()), Flags::PUSH);
    header.has_crc = input.bool();
    header.parity_words = input.u16() % 64;
    let extension = vec![input.u8(); input.below(16) * 4];
    let sealed = input.long_bytes();
    let mut sent = Vec::new();
    encode_segment(&mut codec, &mut header, &extension, sealed, &mut sent);
    assert_eq!(sent.len(), header.segment_len());
    let decoded = codec.decode(&mut sent.clone()).map(|decoded| (decoded.header, decoded.repaired));
    assert_eq!(decoded, Ok((header, Repaired::default())));

    let mut copies = vec![sent.clone(); 2 + input.below(3)];
    let mut flips = 0;
    while !input.is_empty() {
        let (copy, at, bit) = (input.below(copies.len()), usize::from(input.u16()) % sent.len(), input.below(8));
        copies[copy][at] ^= 1 << bit;
        flips += 1;
    }
    for copy in &copies {
        let mended = taken_or_left(&mut codec, copy);
        // A CRC-32C sees any three wrong bits, and a mended segment is at most as far from the right one.
        if flips <= 3 && header.has_crc && header.parity_words == 0 {
            assert!(mended.is_none_or(|mended| mended == sent));
        }
    }
    let damaged: Vec<&[u8]> = copies.iter().map(Vec::as_slice).collect();
    if let Some(combined) = combine_segments(&mut codec, &damaged) {
        assert!(SegmentCodec::new().decode(&mut combined.clone()).is_ok());
    }
}

/// What a segment is mended to; one that is refused is left as it was.
fn taken_or_left(codec: &mut SegmentCodec, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut buffer = bytes.to_vec();
    let taken = match codec.decode(&mut buffer) {
        Ok(decoded) => {
            let header = decoded.header;
            assert_eq!(decoded.extension.len() + decoded.sealed.len(), usize::from(header.payload_len));
            assert_eq!(header.segment_len(), bytes.len());
            let changed = decoded.repaired.symbols;
            assert_eq!(buffer.iter().zip(bytes).filter(|(a, b)| a != b).count(), changed as usize);
            true
        }
        Err(Damaged::Payload(header)) => {
            assert_eq!(header.segment_len(), bytes.len());
            false
        }
        Err(Damaged::Unrecognisable) => false,
    };
    assert!(taken || buffer == bytes);
    taken.then_some(buffer)
}

/// Any bytes as inner options: what is read is written again the same.
pub fn inner_options(data: &[u8]) {
    let Ok((options, rest)) = InnerOptions::parse(data) else { return };
    let mut out = Vec::new();
    let mut writer = OptionsWriter::new(&mut out);
    let mut count = 0;
    for option in options {
        assert!(writer.push(&option), "it fitted before");
        count += 1;
    }
    out.extend_from_slice(rest);
    let (again, rest_again) = InnerOptions::parse(&out).expect("we wrote it");
    assert!(again.eq(options) && again.count() == count && rest_again == rest);
}

/// A line with any bytes in any reads and pauses, and true frames and sync words among them.
pub fn deframer(data: &[u8]) {
    let mut input = Input(data);
    let mut now = epoch();
    let mut deframer = Deframer::new(Duration::from_millis(20));
    while !input.is_empty() {
        let mut bytes = Vec::new();
        match input.below(8) {
            0 => now += input.step(),
            1 => bytes.extend_from_slice(&[0x1a, 0xcf, 0xfc, 0x1d]),
            2 => {
                let payload = input.short_bytes();
                put_frame(&mut bytes, &sent(payload)).expect("it is short");
                bytes.truncate(bytes.len() - input.below(3));
            }
            3 => bytes.extend_from_slice(input.long_bytes()),
            _ => bytes.extend_from_slice(input.short_bytes()),
        }
        deframer.push(now, &bytes);
        drain(&mut deframer, now);
    }
    if let Some(deadline) = deframer.next_deadline() {
        now = now.max(deadline);
        drain(&mut deframer, now);
    }
    assert!(deframer.next_deadline().is_none() && deframer.pending() < 4);
    let (mut bytes, good) = (Vec::new(), sent(b"the last one"));
    put_frame(&mut bytes, &good).expect("it is short");
    deframer.push(now, &bytes);
    let found = drain(&mut deframer, now).pop();
    assert!(found == Some(good) || deframer.counters().limited > 0, "a good frame was not found");
}

fn sent(payload: &[u8]) -> Vec<u8> {
    let mut header = Header::new(Port(1), Port(2), TransferMode::Reliable, Seq(3), Flags::NONE);
    header.has_crc = true;
    let mut segment = Vec::new();
    encode_segment(&mut SegmentCodec::new(), &mut header, &[], payload, &mut segment);
    segment
}

fn drain(deframer: &mut Deframer, now: Instant) -> Vec<Vec<u8>> {
    let mut codec = SegmentCodec::new();
    let mut found = Vec::new();
    while let Some(event) = deframer.poll(now, |bytes| codec.decode(bytes).is_ok()) {
        if let LineEvent::Segment(segment) = event {
            found.push(segment);
        }
    }
    assert!(deframer.pending() <= 7 + 4095 + 21);
    assert!(deframer.next_deadline().is_none_or(|deadline| deadline > now));
    found
}

/// Two ends and a stranger over a network that loses, repeats, changes and makes up; ends restart as often as they like.
pub fn association(data: &[u8]) {
    let mut input = Input(data);
    let mut world = World::new();
    while !input.is_empty() {
        match input.below(16) {
            0 => world.now += input.step(),
            1 => world.ends[0].security.begin(world.now),
            2 => {
                let deadline = world.ends[0].security.next_deadline();
                world.now = world.now.max(deadline.unwrap_or(world.now));
                world.ends[0].security.handle_timeout(world.now);
            }
            3 => world.restart(0),
            4 => world.restart(1),
            5 => world.ends[2].security.begin(world.now),
            6..=9 => {
                let (from, text) = (input.below(3), input.short_bytes());
                world.seal(from, text);
            }
            10 => {
                let (to, which, at, bit) = (input.below(3), input.u8(), input.u16(), input.below(8));
                world.deliver(to, which, Some((at, bit)));
            }
            11 => {
                let (to, which, other) = (input.below(3), input.u8(), input.u8());
                world.splice(to, which, other);
            }
            _ => {
                let (to, which) = (input.below(3), input.u8());
                world.deliver(to, which, None);
            }
        }
    }
    world.comes_together();
}

#[derive(Clone)]
struct Segment {
    header: Header,
    extension: Vec<u8>,
    sealed: Vec<u8>,
}

/// What an end has sealed: association, number and text.
type Record = (u64, u64, Vec<u8>);

struct End {
    security: Security,
    life: u64,
    /// In all its lives, and in which.
    sealed: Vec<(u64, Record)>,
}

/// Initiator, responder, and a stranger that takes the responder for its peer.
struct World {
    ends: [End; 3],
    accepted: Option<u64>,
    /// What came early and was acted upon, in any life of the responder's.
    acted: BTreeSet<(u64, u64)>,
    air: Vec<Segment>,
    now: Instant,
}

impl World {
    fn new() -> Self {
        let end = |who| End { security: security(who, 1, None), life: 1, sealed: Vec::new() };
        Self { ends: [end(0), end(1), end(2)], accepted: None, acted: BTreeSet::new(), air: Vec::new(), now: epoch() }
    }

    fn restart(&mut self, who: usize) {
        self.ends[who].life += 1;
        self.ends[who].security = security(who, self.ends[who].life, self.accepted.filter(|_| who == 1));
    }

    fn seal(&mut self, from: usize, text: &[u8]) {
        let mut header = Header::new(Port(1), Port(2), TransferMode::Reliable, Seq(3), Flags::NONE);
        let end = &mut self.ends[from];
        let overhead = end.security.overhead();
        let mut sealed = text.to_vec();
        let Ok(done) = end.security.seal(self.now, &mut header, &mut sealed) else { return };
        let extension = done.extension.to_vec();
        assert_eq!(extension.len() + sealed.len(), text.len() + overhead);
        let record = (done.association, done.number, text.to_vec());
        assert!(end.security.still_holds(self.now, record.0, record.1));
        // Under one key a number comes once. Early and later ones of an attempt have different keys, and one clock; a responder that answers
        // an attempt once more in another life has different keys then.
        let key = |life: u64, record: &Record| (if from == 1 { life } else { 0 }, record.0, record.1);
        assert!(end.sealed.iter().all(|(life, other)| key(*life, other) != key(end.life, &record)));
        end.sealed.push((end.life, record));
        self.air.push(Segment { header, extension, sealed });
        if self.air.len() > 64 {
            self.air.remove(0);
        }
    }

    fn deliver(&mut self, to: usize, which: u8, change: Option<(u16, usize)>) {
        let Some(segment) = self.air.iter().rev().nth(usize::from(which) % 64).cloned() else { return };
        let Segment { header, mut extension, mut sealed } = segment;
        if let Some((at, bit)) = change {
            let at = usize::from(at) % (extension.len() + sealed.len());
            extension.iter_mut().chain(&mut sealed).nth(at).into_iter().for_each(|byte| *byte ^= 1 << bit);
        }
        self.open(to, &header, &extension, &mut sealed);
    }

    /// The extension of one segment before the ciphertext of another.
    fn splice(&mut self, to: usize, which: u8, other: u8) {
        let nth = |n: u8| self.air.iter().rev().nth(usize::from(n) % 64).cloned();
        let (Some(mut segment), Some(other)) = (nth(which), nth(other)) else { return };
        segment.extension = other.extension;
        segment.header.extension_words = (segment.extension.len() / 4) as u8;
        segment.header.payload_len = (segment.extension.len() + segment.sealed.len()) as u16;
        self.open(to, &segment.header, &segment.extension, &mut segment.sealed);
    }

    fn open(&mut self, to: usize, header: &Header, extension: &[u8], sealed: &mut [u8]) {
        let security = &mut self.ends[to].security;
        let opened = security.open(self.now, header, extension, sealed);
        let is_early = opened.as_ref().is_ok_and(|opened| opened.early && !opened.repeated);
        let record = opened.ok().map(|opened| (opened.association, opened.number, opened.plaintext.to_vec()));
        if to == 1 {
            self.accepted = self.ends[1].security.snapshot().or(self.accepted);
        }
        let Some(record) = record else { return };
        assert!(to != 2, "the stranger has opened something");
        assert!(
            self.ends[1 - to].sealed.iter().any(|(_, sealed)| *sealed == record),
            "this was not sealed by the other end"
        );
        assert!(!is_early || self.acted.insert((record.0, record.1)), "what came early is acted upon twice");
    }

    /// Whatever was before, an attempt that arrives makes an association.
    fn comes_together(&mut self) {
        self.now += Duration::from_secs(600);
        self.ends[0].security.begin(self.now);
        for (from, to) in [(0, 1), (1, 0), (0, 1), (1, 0)] {
            self.seal(from, b"");
            self.deliver(to, 0, None);
        }
        for end in &self.ends[..2] {
            assert!(end.security.is_established() && end.security.overhead() == 16);
        }
    }
}

fn security(who: usize, life: u64, accepted: Option<u64>) -> Security {
    let identity = |seed: usize| Identity::from_seed([seed as u8; 32]);
    let peer = identity(if who == 1 { 0 } else { 1 }).public();
    let config = SecurityConfig { identity: Arc::new(identity(who)), peer, initiates: who != 1, life, accepted };
    // The same randomness in each life, which must do no harm.
    Security::new(config, SeededBytes::new(&[who as u8; 32], "fuzz")).expect("the keys are good")
}
