//! AeroTP's endpoint: two of them over lines that lose, repeat, reorder and damage; or one whose other side has the right key and
//! misbehaves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aquila_proto::aerotp::{
    ConnectionConfig, ConnectionId, Endpoint, EndpointConfig, EndpointEvent, Flags, Header, LineConfig, Port,
    Protection, Security, SecurityConfig, SegmentCodec, Seq, TransferMode, encode_segment,
};
use aquila_proto::identity::Identity;
use aquila_proto::seeded::SeededBytes;
use aquila_proto::{Bitrate, ByteCount};
use bytes::Bytes;

use crate::input::{Input, epoch};

/// Segments under way at most; more are lost.
const UNDER_WAY: usize = 64;
/// What one step may make an endpoint send.
const BURST: usize = 4096;
const PORTS: u16 = 6;

/// Runs the steps that the input is.
pub fn endpoint(data: &[u8]) {
    let mut input = Input(data);
    match input.u8() {
        0..=159 => Pair::new(&mut input).run(&mut input),
        _ => hostile(&mut input),
    }
}

fn security(end: usize, life: u64, accepted: Option<u64>) -> SecurityConfig {
    let identities = [Arc::new(Identity::from_seed([1; 32])), Arc::new(Identity::from_seed([2; 32]))];
    let peer = identities[1 - end].public();
    SecurityConfig { identity: identities[end].clone(), peer, initiates: end == 0, life, accepted }
}

fn config(end: usize, life: u64, accepted: Option<u64>, choice: u8) -> EndpointConfig {
    let line = LineConfig {
        rate: Bitrate::kbps(200),
        framing: ByteCount(7),
        shared: (choice & 1 == 1).then_some(Duration::from_millis(2)),
    };
    let protection = match choice >> 1 & 3 {
        0 => Protection::Off,
        1 => Protection::Fixed(4),
        _ => Protection::default(),
    };
    let mut config = EndpointConfig::new(security(end, life, accepted), line, 300);
    config.lines = vec![line; 1 + usize::from(choice >> 3 & 1)];
    config.protection = protection;
    config.max_connections = 8;
    config
}

fn listens(mode: TransferMode, port: u16) -> ConnectionConfig {
    if port & 1 == 0 { ConnectionConfig::stream(mode) } else { ConnectionConfig::messages(mode) }
}

struct Pair {
    now: Instant,
    ends: [Endpoint; 2],
    lives: [u64; 2],
    accepted: [Option<u64>; 2],
    choice: u8,
    /// What each end has sent.
    under_way: [VecDeque<(usize, Vec<u8>)>; 2],
    /// Of each connection, by its ports as the first end sees them and the lives of both ends: what was sent towards each end, and
    /// how much of it has come.
    sent: BTreeMap<(u16, u16, [u64; 2], usize), Vec<u8>>,
    got: BTreeMap<(usize, ConnectionId), usize>,
    ports: BTreeMap<(usize, ConnectionId), (u16, u16)>,
    /// Streams that repeat what is lost.
    whole: BTreeSet<(usize, ConnectionId)>,
    /// Ports are used once in a pair of lives, so that what is sent belongs together.
    used: BTreeMap<(u16, u16), [u64; 2]>,
}

impl Pair {
    fn new(input: &mut Input<'_>) -> Self {
        let choice = input.u8();
        let end = |end: usize| {
            Endpoint::new(config(end, 1, None, choice), SeededBytes::new(&[7; 32], "pair")).expect("good keys")
        };
        let mut pair = Self {
            now: epoch(),
            ends: [end(0), end(1)],
            lives: [1; 2],
            accepted: [None; 2],
            choice,
            under_way: Default::default(),
            sent: BTreeMap::new(),
            got: BTreeMap::new(),
            ports: BTreeMap::new(),
            whole: BTreeSet::new(),
            used: BTreeMap::new(),
        };
        (0..2).for_each(|at| pair.listen(at));
        pair
    }

    fn listen(&mut self, at: usize) {
        for port in 1..=PORTS {
            for mode in &TransferMode::ALL[..4] {
                self.ends[at].listen(port..=port, listens(*mode, port));
            }
        }
    }

    fn run(mut self, input: &mut Input<'_>) {
        while !input.is_empty() {
            let (step, at) = (input.u8(), input.below(2));
            match step % 16 {
                0 | 1 => self.connect(at, input),
                2..=4 => self.send(at, input),
                5 => self.end_one(at, input),
                6 => {
                    let datagram = Bytes::copy_from_slice(input.short_bytes());
                    let _ = self.ends[at].send_datagram(Port(9), Port(9), input.u8() % 4, datagram);
                }
                7 if input.below(8) == 0 => self.restart(at),
                7 => self.ends[at].begin(self.now),
                8 => {
                    let mut bytes = input.short_bytes().to_vec();
                    self.ends[at].handle_segment(self.now, 0, &mut bytes);
                }
                9 => self.ends[at].on_radio_buffer(self.now, 0, input.u8()),
                10..=12 => self.deliver(at, input),
                _ => {
                    self.now += input.step();
                    self.turn(at);
                    self.turn(1 - at);
                }
            }
            self.turn(at);
        }
        // In the end the lines are good, and everything that is repeated arrives, if nobody restarted.
        for _ in 0..200 {
            self.now += Duration::from_millis(10);
            for at in 0..2 {
                self.turn(at);
                while let Some((line, mut segment)) = self.under_way[at].pop_front() {
                    self.ends[1 - at].handle_segment(self.now, line, &mut segment);
                }
            }
        }
    }

    fn connect(&mut self, at: usize, input: &mut Input<'_>) {
        let (mode, local, remote) = (TransferMode::ALL[input.below(4)], input.u16(), 1 + input.u16() % PORTS);
        let first = if at == 0 { (local, remote) } else { (remote, local) };
        if self.used.insert(first, self.lives).is_some() {
            return;
        }
        let opened = self.ends[at].connect(self.now, listens(mode, remote), Port(local), Port(remote));
        if let Some(id) = opened {
            self.ports.insert((at, id), first);
            self.note(at, id, mode, remote);
        }
    }

    fn note(&mut self, at: usize, id: ConnectionId, mode: TransferMode, port: u16) {
        if matches!(mode, TransferMode::Reliable | TransferMode::NearReliable) && listens(mode, port).stream {
            self.whole.insert((at, id));
        }
    }

    /// One of the connections of an end.
    fn pick(&self, at: usize, input: &mut Input<'_>) -> Option<ConnectionId> {
        let own: Vec<ConnectionId> = self.ports.keys().filter(|(end, _)| *end == at).map(|(_, id)| *id).collect();
        (!own.is_empty()).then(|| own[input.below(256) % own.len()])
    }

    fn send(&mut self, at: usize, input: &mut Input<'_>) {
        let Some(id) = self.pick(at, input) else { return };
        let bytes = input.short_bytes();
        if self.ends[at].send(id, Bytes::copy_from_slice(bytes), Some(1)).is_ok() {
            let (one, other) = self.ports[&(at, id)];
            self.sent.entry((one, other, self.lives, 1 - at)).or_default().extend_from_slice(bytes);
        }
    }

    fn end_one(&mut self, at: usize, input: &mut Input<'_>) {
        let Some(id) = self.pick(at, input) else { return };
        let how = input.below(3);
        match how {
            0 => self.ends[at].close(self.now, id),
            1 => self.ends[at].reset(id),
            _ => self.ends[at].cancel(id, 1),
        }
        if how == 2 {
            // What was cancelled cannot be told from what was sent.
            let ports = self.ports[&(at, id)];
            self.sent.retain(|(one, other, ..), _| (*one, *other) != ports);
            self.used.insert(ports, [0; 2]);
        }
    }

    fn restart(&mut self, at: usize) {
        self.accepted[at] = self.ends[at].snapshot().or(self.accepted[at]);
        self.lives[at] += 1;
        let random = SeededBytes::new(&[self.lives[at] as u8; 32], "again");
        let config = config(at, self.lives[at], self.accepted[at], self.choice);
        self.ends[at] = Endpoint::new(config, random).expect("good keys");
        self.ports.retain(|(end, _), _| *end != at);
        self.listen(at);
    }

    fn deliver(&mut self, at: usize, input: &mut Input<'_>) {
        let which = input.below(8).min(self.under_way[at].len().saturating_sub(1));
        let fate = input.u8();
        let Some((line, mut segment)) = (match fate & 3 {
            0 => self.under_way[at].get(which).cloned(),
            _ => self.under_way[at].remove(which),
        }) else {
            return;
        };
        if fate & 12 == 12 {
            return; // Lost.
        }
        if fate & 48 == 48 {
            for _ in 0..1 + (fate >> 6) {
                let place = usize::from(input.u16()) % (segment.len() * 8).max(1);
                if let Some(byte) = segment.get_mut(place / 8) {
                    *byte ^= 1 << (place % 8);
                }
            }
        }
        self.ends[1 - at].handle_segment(self.now, line, &mut segment);
        self.turn(1 - at);
    }

    /// Lets an end do what it has to.
    fn turn(&mut self, at: usize) {
        let mut out = Vec::new();
        self.ends[at].handle_timeout(self.now);
        for n in 0.. {
            assert!(n < BURST, "an end that never stops");
            let Some(line) = self.ends[at].poll_transmit(self.now, &mut out) else { break };
            // What is sealed anew may have a greeting before it.
            assert!(out.len() <= 360, "{} bytes", out.len());
            if self.under_way[at].len() < UNDER_WAY {
                self.under_way[at].push_back((line, out.clone()));
            }
        }
        while let Some(event) = self.ends[at].poll_event() {
            match event {
                EndpointEvent::Opened { connection, local, remote, mode } => {
                    let ports = if at == 0 { (local.0, remote.0) } else { (remote.0, local.0) };
                    self.ports.insert((at, connection), ports);
                    self.note(at, connection, mode, local.0);
                }
                EndpointEvent::Readable(id) => self.read(at, id),
                EndpointEvent::Closed { connection, .. } => {
                    self.ports.remove(&(at, connection));
                }
                _ => {}
            }
        }
        let _ = self.ends[at].poll_timeout(self.now);
    }

    /// On streams that repeat what is lost, what comes is what was sent, from its beginning.
    fn read(&mut self, at: usize, id: ConnectionId) {
        while let Some(piece) = self.ends[at].read(self.now, id) {
            let Some((one, other)) = self.ports.get(&(at, id)) else { continue };
            let Some(sent) = self.sent.get(&(*one, *other, self.used[&(*one, *other)], at)) else { continue };
            if !self.whole.contains(&(at, id)) || self.used[&(*one, *other)] != self.lives {
                continue;
            }
            let got = self.got.entry((at, id)).or_default();
            let expected = sent.get(*got..*got + piece.bytes.len());
            assert_eq!(expected, Some(&piece.bytes[..]), "byte {got} of a stream");
            *got += piece.bytes.len();
        }
    }
}

/// The other side has the right key, and seals what it likes.
fn hostile(input: &mut Input<'_>) {
    let mut now = epoch();
    let choice = input.u8();
    let mut end = Endpoint::new(config(1, 1, None, choice), SeededBytes::new(&[9; 32], "honest")).expect("good keys");
    for port in 0..=PORTS {
        for mode in &TransferMode::ALL[..4] {
            end.listen(port..=port, listens(*mode, port));
        }
    }
    let mut peer = Security::new(security(0, 1, None), SeededBytes::new(&[8; 32], "hostile")).expect("good keys");
    let mut codec = SegmentCodec::default();
    peer.begin(now);
    let mut out = Vec::new();
    while !input.is_empty() {
        let ports = (Port(input.u8().into()), Port(u16::from(input.u8()) % (PORTS + 2)));
        let bits = input.u8();
        let flags = [Flags::OPTIONS, Flags::MACK, Flags::PUSH, Flags::RESET, Flags::SYN, Flags::FIN];
        let flags = flags.into_iter().enumerate().filter(|(n, _)| bits >> n & 1 == 1);
        let flags = flags.fold(Flags::NONE, |all, (_, flag)| all | flag);
        let mode = TransferMode::ALL[input.below(5)];
        let seq = if input.bool() { u32::from(input.u8()) } else { input.u32() };
        let mut header = Header::new(ports.0, ports.1, mode, Seq(seq), flags);
        header.has_crc = bits & 64 == 0;
        header.parity_words = u16::from(input.u8() >> 5);
        let mut plaintext = input.short_bytes().to_vec();
        let Ok(sealed) = peer.seal(now, &mut header, &mut plaintext) else { continue };
        let extension = sealed.extension.to_vec();
        let mut segment = Vec::new();
        encode_segment(&mut codec, &mut header, &extension, &plaintext, &mut segment);
        end.handle_segment(now, usize::from(bits >> 7), &mut segment);
        now += input.step();
        end.handle_timeout(now);
        let mut answers = 0;
        while end.poll_transmit(now, &mut out).is_some() {
            answers += 1;
            assert!(answers < BURST, "an end that never stops");
            if let Ok(decoded) = codec.decode(&mut out) {
                let _ = peer.open(now, &decoded.header, decoded.extension, decoded.sealed);
            }
        }
        let mut open = Vec::new();
        while let Some(event) = end.poll_event() {
            match event {
                EndpointEvent::Opened { connection, .. } | EndpointEvent::Readable(connection) => open.push(connection),
                _ => {}
            }
        }
        for id in open {
            while end.read(now, id).is_some() {}
            let _ = end.send(id, Bytes::from_static(b"an answer"), Some(2));
        }
        let _ = end.poll_timeout(now);
    }
}
