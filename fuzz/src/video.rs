//! Video: RTP, the sender's queue and the receiver's reassembly.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use aquila_proto::ByteCount;
use aquila_proto::video::{
    Classifier, Codec, Datagram, FragmentFlags, FragmentHeader, MAX_FRAGMENTS, PushOutcome, Reassembler,
    ReassemblerConfig, SendQueue, SendQueueConfig, VideoEvent,
};

use crate::input::{Input, epoch};

/// A run of packets from a camera.
pub fn rtp(data: &[u8]) {
    let mut input = Input(data);
    let mut classifiers = [Codec::Auto, Codec::H264, Codec::H265, Codec::Opaque].map(Classifier::new);
    while !input.is_empty() {
        let packet = input.short_bytes();
        let Datagram::Rtp(rtp) = Datagram::parse(packet) else { continue };
        assert!(packet.len() >= 12 + rtp.payload.len());
        for classifier in &mut classifiers {
            let configured = classifier.codec();
            classifier.handle_packet(&rtp);
            assert!(configured == Codec::Auto || matches!(configured, Codec::H264 | Codec::H265 | Codec::Opaque));
        }
        assert_eq!(classifiers[1].codec(), Codec::H264);
        assert_eq!(classifiers[3].codec(), Codec::Opaque);
    }
}

/// Any fragments, well-formed ones among them.
pub fn reassembly(data: &[u8]) {
    let mut input = Input(data);
    let config = match input.bool() {
        true => ReassemblerConfig { max_frames: 6, max_bytes: ByteCount(4000), ..ReassemblerConfig::default() },
        false => ReassemblerConfig::default(),
    };
    let mut receiver = Receiver::new(config);
    let mut now = epoch();
    let mut frame = 0u32;
    while !input.is_empty() {
        match input.below(8) {
            0 => now += input.step(),
            1 => receiver.push(now, input.short_bytes()),
            2 => frame = input.u32(),
            3 => frame = frame.wrapping_add(1),
            _ => {
                let bits = input.u8();
                receiver.age = Duration::from_millis(if bits & 64 != 0 { u64::from(bits) * 3 } else { 0 });
                let flags = FragmentFlags {
                    last: bits & 1 != 0,
                    recovery_point: bits & 2 != 0,
                    disposable: bits & 4 != 0,
                    abandoned: bits & 8 != 0,
                    classified: bits & 16 != 0,
                };
                let index = if bits & 32 != 0 { u32::from(input.u16()) % MAX_FRAGMENTS } else { u32::from(bits >> 6) };
                let mut fragment = Vec::new();
                let waited_ms = (bits & 32 != 0 && !flags.abandoned).then_some(u16::from(bits) << 2);
                let frame = frame.wrapping_add(input.below(8) as u32);
                let number = (bits & 128 != 0).then_some(u16::from(bits) * 0x101);
                FragmentHeader { flags, frame, index, waited_ms, number }.put(&mut fragment);
                fragment.extend_from_slice(input.short_bytes());
                receiver.push(now, &fragment);
            }
        }
        receiver.drain(now);
    }
}

/// Any packets through a queue, over a network that loses, repeats and delays, into reassembly: what comes out is what
/// went in, in order, in whole packets.
pub fn video_queue(data: &[u8]) {
    let mut input = Input(data);
    let bits = input.u8();
    let mut config = SendQueueConfig {
        codec: [Codec::Auto, Codec::H264, Codec::H265, Codec::Opaque][usize::from(bits & 3)],
        ..SendQueueConfig::default()
    };
    if bits & 4 != 0 {
        (config.max_frames, config.max_bytes) = (4, ByteCount(3000));
    }
    let (max_frames, max_bytes) = (config.max_frames, config.max_bytes);
    let mut queue = SendQueue::new(config);
    let mut receiver = Receiver::new(ReassemblerConfig::default());
    let mut now = epoch();
    let mut network: VecDeque<Vec<u8>> = VecDeque::new();
    let mut rtp = Rtp::default();
    while !input.is_empty() {
        match input.below(16) {
            0 => now += input.step(),
            1 => receiver.pushed(&mut queue, now, input.short_bytes()),
            2 => queue.clear(now),
            3 => drop(network.pop_front()),
            4 => network.rotate_left(usize::from(network.len() > 1)),
            5 => network.extend(network.front().cloned()),
            6 | 7 => {
                if let Some(fragment) = network.pop_front() {
                    receiver.push(now, &fragment);
                }
            }
            8..=10 => {
                let max_payload = usize::from(input.u8()) * 8;
                queue.handle_timeout(now);
                let expected = queue.has_fragment(max_payload);
                let mut out = Vec::new();
                let info = queue.pop_fragment(now, max_payload, &mut out);
                assert!(info.is_some() || out.is_empty());
                assert!(!expected || info.is_some(), "it said that there was one");
                if let Some(info) = info {
                    assert_eq!(info.size.as_usize(), out.len());
                    assert!(out.len() <= max_payload);
                    assert_eq!(FragmentHeader::parse(&out).map(|(header, _)| header), Ok(info.header));
                    network.push_back(out);
                }
            }
            _ => receiver.pushed(&mut queue, now, &rtp.next(&mut input)),
        }
        queue.handle_timeout(now);
        assert!(queue.next_deadline().is_none_or(|due| due > now), "a deadline that has passed");
        assert!(queue.queued_frames() <= max_frames && queue.queued_bytes() <= max_bytes);
        let _ = (queue.oldest_age(now), queue.take_recovery_needed(), queue.codec());
        receiver.drain(now);
    }
}

/// A camera that mostly does as it should.
#[derive(Default)]
struct Rtp {
    sequence: u16,
    timestamp: u32,
}

impl Rtp {
    fn next(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let bits = input.u8();
        self.sequence = self.sequence.wrapping_add(if bits & 0x70 == 0x70 { 5 } else { 1 });
        if bits & 2 != 0 {
            self.timestamp = self.timestamp.wrapping_add(3000);
        }
        let mut packet = vec![0x80, 96 | (bits & 1) << 7];
        packet.extend(self.sequence.to_be_bytes());
        packet.extend(self.timestamp.to_be_bytes());
        packet.extend(u32::from(bits >> 7).to_be_bytes());
        packet.extend(input.short_bytes());
        packet.resize(packet.len() + usize::from(bits & 12) * 40, bits);
        packet
    }
}

/// A reassembler and what is known of its input.
struct Receiver {
    reassembler: Reassembler,
    config: ReassemblerConfig,
    /// Packets that went into the queue and have not been passed by what came out.
    pushed: VecDeque<Vec<u8>>,
    /// Whether all that comes in is from a queue.
    from_queue: bool,
    newest: Option<u64>,
    /// Since what comes in left its sender.
    age: Duration,
}

impl Receiver {
    fn new(config: ReassemblerConfig) -> Self {
        let reassembler = Reassembler::new(config.clone());
        Self { reassembler, config, pushed: VecDeque::new(), from_queue: false, newest: None, age: Duration::ZERO }
    }

    fn pushed(&mut self, queue: &mut SendQueue, now: Instant, packet: &[u8]) {
        self.from_queue = true;
        if queue.push(now, packet) == PushOutcome::Queued {
            self.pushed.push_back(packet.to_vec());
        }
    }

    fn push(&mut self, now: Instant, fragment: &[u8]) {
        self.reassembler.push(now, self.age, fragment);
        self.drain(now);
    }

    fn drain(&mut self, now: Instant) {
        while let Some(event) = self.reassembler.poll(now) {
            match event {
                VideoEvent::Frame(frame) => {
                    assert!(self.newest.is_none_or(|newest| newest < frame.number), "out of order");
                    self.newest = Some(frame.number);
                    assert_eq!(frame.packets.len(), frame.packets.clone().count());
                    assert!(frame.first_fragment <= frame.completed && frame.completed <= now);
                    assert!(now - frame.born < self.config.max_frame_age, "too old");
                    // Old fragments that come again more than a second after the newest look like a sender that began anew.
                    if self.from_queue && self.reassembler.counters().restarts == 0 {
                        frame.packets.for_each(|packet| self.expect(&packet));
                    }
                }
                VideoEvent::FramesLost { first, count, .. } => {
                    assert!(count > 0 && self.newest.is_none_or(|newest| newest < first));
                    self.newest = Some(first + count - 1);
                }
                VideoEvent::RecoveryNeeded => {}
            }
        }
        let waits = self.reassembler.next_deadline().is_none_or(|due| due > now);
        assert!(waits, "a deadline that has passed");
        assert!(self.reassembler.frames_in_flight() <= self.config.max_frames);
        assert!(self.reassembler.held_bytes() <= self.config.max_bytes);
        let _ = self.reassembler.counters();
    }

    fn expect(&mut self, packet: &[u8]) {
        while let Some(next) = self.pushed.pop_front() {
            if next == packet {
                return;
            }
        }
        panic!("a packet that never went in, or went in before one that came out earlier: {packet:x?}");
    }
}
