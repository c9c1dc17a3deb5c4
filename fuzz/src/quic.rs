//! The QUIC bearer as a listener: noise, damaged packets, and handshakes of a stranger who has seen a greeting.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use aquila_proto::identity::Identity;
use aquila_proto::quic::{BearerEvent, MIN_MTU, MemoryTickets, QuicBearer, QuicConfig};
use aquila_proto::seeded::SeededBytes;
use aquila_proto::session::Arrival;
use aquila_proto::{BearerId, Output, Session, SessionConfig, Side};
use bytes::BytesMut;
use rustls::quic::{Keys, Version};

use crate::input::{Input, epoch};

/// Where the ground listens, where the aircraft is, and where strangers are.
pub(crate) const GROUND: &str = "203.0.113.1:9400";
pub(crate) const AIR: &str = "198.51.100.7:40001";

/// Wall-clock time when a target begins.
pub(crate) const SINCE_1970: Duration = Duration::from_secs(1_790_000_000);

/// Who an end is and whom it talks to; tickets in memory.
pub(crate) fn quic_config(side: Side, listen: bool) -> QuicConfig {
    let (air, ground) = (Identity::from_seed([1; 32]), Identity::from_seed([2; 32]));
    let (identity, peer) = match side {
        Side::Air => (air, ground.public()),
        Side::Ground => (ground, air.public()),
    };
    QuicConfig {
        bearer: BearerId::FIRST,
        identity: Arc::new(identity),
        peer,
        mtu: MIN_MTU,
        tickets: Arc::new(MemoryTickets::default()),
        resumption: None,
        listen,
    }
}

pub(crate) fn new_bearer(side: Side, listen: bool) -> QuicBearer {
    new_bearer_of(BearerId::FIRST, side, listen)
}

pub(crate) fn new_bearer_of(id: BearerId, side: Side, listen: bool) -> QuicBearer {
    let mut random = SeededBytes::new(&[side as u8 + 2 * id.number(); 32], "fuzzed bearer");
    let config = QuicConfig { bearer: id, ..quic_config(side, listen) };
    let mut bearer = QuicBearer::new(config, &mut random).expect("a valid configuration");
    bearer.set_wall_clock(SINCE_1970);
    bearer
}

/// Packets that a bearer wants to send now.
pub(crate) fn transmits(bearer: &mut QuicBearer, now: Instant) -> Vec<BytesMut> {
    let mut buffer = Vec::new();
    let mut packets = Vec::new();
    while bearer.poll_transmit(now, &mut buffer).is_some() {
        assert!(buffer.len() <= usize::from(MIN_MTU));
        packets.push(BytesMut::from(&buffer[..]));
        assert!(packets.len() < 10_000, "it never stops sending");
    }
    packets
}

pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().expect("a valid address")
}

/// A list of steps: a client and a listener exchange packets that are damaged on the way, and anything else comes in.
pub fn bearer(data: &[u8]) {
    let mut input = Input(data);
    let mut now = epoch();
    let mut client = new_bearer(Side::Air, false);
    let mut listener = new_bearer(Side::Ground, true);
    let (mut up, mut down) = (VecDeque::new(), VecDeque::new());
    let (ground, air) = (address(GROUND), address(AIR));
    while !input.is_empty() {
        match input.below(10) {
            0 => now += input.step(),
            1 => {
                let _ = client.connect(now, ground);
            }
            2 | 3 => {
                if let Some(packet) = up.pop_front() {
                    listener.handle_datagram(now, air, None, None, damaged(&mut input, packet));
                }
            }
            4 | 5 => {
                if let Some(packet) = down.pop_front() {
                    client.handle_datagram(now, ground, None, None, damaged(&mut input, packet));
                }
            }
            6 => {
                let from = SocketAddr::new(air.ip(), 1 + u16::from(input.u8()));
                listener.handle_datagram(now, from, None, None, BytesMut::from(input.long_bytes()));
            }
            7 => {
                let from = SocketAddr::new(air.ip(), 1 + u16::from(input.u8()));
                listener.handle_datagram(now, from, None, None, FIRST_FLIGHT.forged(&mut input));
            }
            8 => {
                let message = input.short_bytes();
                let _ = client.send_message(message, &[], 0, 1);
                let _ = client.send_datagram(bytes::Bytes::copy_from_slice(message));
            }
            _ => {
                up.extend(client_packet_copies(&up, input.below(4)));
            }
        }
        for bearer in [&mut client, &mut listener] {
            if bearer.poll_timeout().is_some_and(|due| due <= now) {
                bearer.handle_timeout(now);
            }
        }
        up.extend(transmits(&mut client, now));
        down.extend(transmits(&mut listener, now));
        up.truncate(64);
        down.truncate(64);
        while client.poll_event().is_some() {}
        while let Some(event) = listener.poll_event() {
            if let BearerEvent::Message { bytes, .. } = event {
                assert!(bytes.len() <= 256, "longer than any that was sent");
            }
        }
    }
}

/// A few packets of those that are on their way, for the network to repeat.
fn client_packet_copies(packets: &VecDeque<BytesMut>, count: usize) -> Vec<BytesMut> {
    packets.iter().take(count).cloned().collect()
}

/// The packet with up to three bytes changed, or cut.
fn damaged(input: &mut Input<'_>, mut packet: BytesMut) -> BytesMut {
    let bits = input.u8();
    for _ in 0..bits & 3 {
        let at = usize::from(input.u16()) % packet.len().max(1);
        if let Some(byte) = packet.get_mut(at) {
            *byte ^= input.u8();
        }
    }
    if bits & 0xf0 == 0xf0 {
        packet.truncate(usize::from(input.u16()));
    }
    packet
}

static FIRST_FLIGHT: LazyLock<FirstFlight> = LazyLock::new(FirstFlight::record);

/// A client's first packet, taken apart: whoever sees one can read it, since its keys follow from its connection id
/// (RFC 9001 §5.2), and make others like it.
struct FirstFlight {
    /// The destination connection id, which has the greeting in it.
    cid: Vec<u8>,
    /// The frames in it.
    payload: Vec<u8>,
}

/// Fixed part of the header of an Initial packet: flags, version, length of the connection id (RFC 9000 §17.2).
const CID_AT: usize = 6;
const CID_LEN: usize = 20;
const TAG_LEN: usize = 16;
/// As we write headers, see [`FirstFlight::forged`].
const SCID: [u8; 8] = [7; 8];

impl FirstFlight {
    fn record() -> Self {
        let mut client = new_bearer(Side::Air, false);
        let now = epoch();
        client.connect(now, address(GROUND)).expect("a valid address");
        let mut packet = transmits(&mut client, now).remove(0).to_vec();
        assert_eq!(usize::from(packet[CID_AT - 1]), CID_LEN);
        let cid = packet[CID_AT..CID_AT + CID_LEN].to_vec();
        // Behind it: source connection id, token (none), length in two bytes, packet number, payload.
        let scid_len = usize::from(packet[CID_AT + CID_LEN]);
        let pn_at = CID_AT + CID_LEN + 1 + scid_len + 1 + 2;
        let keys = Self::keys(&cid, rustls::Side::Server);
        let (header, rest) = packet.split_at_mut(pn_at);
        let (pn, sample) = rest.split_at_mut(4);
        let opened = keys.remote.header.decrypt_in_place(&sample[..16], &mut header[0], pn);
        opened.expect("a sample of 16 bytes");
        let pn_len = usize::from(header[0] & 3) + 1;
        let number = pn[..pn_len].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let (header, payload) = packet.split_at_mut(pn_at + pn_len);
        let payload = keys.remote.packet.decrypt_in_place(number, header, payload).expect("our own packet");
        Self { cid, payload: payload.to_vec() }
    }

    fn keys(cid: &[u8], side: rustls::Side) -> Keys {
        let provider = rustls::crypto::ring::default_provider();
        let suites = provider.cipher_suites.iter().filter_map(rustls::SupportedCipherSuite::tls13);
        let suite = suites.filter(|suite| suite.common.suite == rustls::CipherSuite::TLS13_AES_128_GCM_SHA256);
        let suite = suite.filter_map(rustls::Tls13CipherSuite::quic_suite).next().expect("ring has it");
        Keys::initial(Version::V1, suite.suite, suite.quic, cid, side)
    }

    /// An Initial packet whose protection is right and whose content is the input's: the frames of the recorded one with
    /// some bytes changed, or any others.
    fn forged(&self, input: &mut Input<'_>) -> BytesMut {
        let bits = input.u8();
        let mut payload = self.payload.clone();
        if bits & 1 == 0 {
            for _ in 0..bits >> 5 {
                let at = usize::from(input.u16()) % payload.len();
                payload[at] ^= input.u8();
            }
        } else {
            payload = input.long_bytes().to_vec();
        }
        let mut cid = self.cid.clone();
        if bits & 2 != 0 {
            let at = input.below(CID_LEN);
            cid[at] ^= input.u8();
        }
        let number = input.u8();
        // A server drops datagrams of less than 1200 bytes that begin a connection (RFC 9000 §14.1): PADDING frames.
        payload.resize(payload.len().max(usize::from(MIN_MTU) - 60 - TAG_LEN).min(1400), 0);
        let mut header = vec![0xc0, 0, 0, 0, 1, CID_LEN as u8];
        header.extend_from_slice(&cid);
        header.push(SCID.len() as u8);
        header.extend_from_slice(&SCID);
        header.push(0);
        header.extend_from_slice(&(0x4000 | (1 + payload.len() + TAG_LEN) as u16).to_be_bytes());
        header.push(number);
        let keys = Self::keys(&cid, rustls::Side::Client);
        let tag = keys.local.packet.encrypt_in_place(u64::from(number), &header, &mut payload).expect("not too long");
        payload.extend_from_slice(tag.as_ref());
        // The sample begins four bytes behind the start of the packet number (RFC 9001 §5.4.2).
        let sample = payload[3..19].to_vec();
        let (first, pn) = header.split_at_mut(1);
        let at = pn.len() - 1;
        keys.local.header.encrypt_in_place(&sample, &mut first[0], &mut pn[at..]).expect("a sample of 16 bytes");
        header.extend_from_slice(&payload);
        BytesMut::from(&header[..])
    }
}

/// What a listener and a client have stored after a connection: the replay window, and the tickets. For seeds.
pub fn stored_by_a_real_client() -> (Vec<u8>, Vec<u8>) {
    let now = epoch();
    let start = |side, listen| {
        let config = SessionConfig::new(side, quic_config(side, listen), now, SINCE_1970, [side as u8; 32]);
        Session::new(config).expect("a valid configuration")
    };
    let (mut air, mut ground) = (start(Side::Air, false), start(Side::Ground, true));
    let (mut replay, mut tickets) = (Vec::new(), Vec::new());
    let mut exchange = |air: &mut Session, ground: &mut Session, now: Instant| {
        let mut packets = drain(air, now);
        loop {
            for packet in packets {
                ground.handle_datagram(now, Arrival::new(now, address(AIR)), packet);
                packets = drain(ground, now);
                for packet in std::mem::take(&mut packets) {
                    air.handle_datagram(now, Arrival::new(now, address(GROUND)), packet);
                    packets.extend(drain(air, now));
                }
            }
            replay = ground.replay_snapshot().unwrap_or(std::mem::take(&mut replay));
            tickets = air.resumption_snapshot().map_or(std::mem::take(&mut tickets), |(_, bytes)| bytes);
            packets = drain(air, now);
            if packets.is_empty() {
                break;
            }
        }
    };
    air.connect(now, BearerId::FIRST, address(GROUND)).expect("a valid address");
    exchange(&mut air, &mut ground, now);
    for step in 1..40 {
        let now = now + Duration::from_millis(step * 5);
        let heartbeat = aquila_proto::mavlink::Frame::build(
            aquila_proto::mavlink::Version::V2,
            step as u8,
            aquila_proto::mavlink::Address::new(1, 1),
            aquila_proto::mavlink::MessageId(76),
            &[1; 33],
        );
        air.send_mavlink(now, &heartbeat.expect("a known message"));
        exchange(&mut air, &mut ground, now);
        air.handle_timeout(now);
        exchange(&mut air, &mut ground, now);
        ground.handle_timeout(now);
        for packet in drain(&mut ground, now) {
            air.handle_datagram(now, Arrival::new(now, address(GROUND)), packet);
            exchange(&mut air, &mut ground, now);
        }
    }
    (replay, tickets)
}

/// Packets that a session wants to send now.
fn drain(session: &mut Session, now: Instant) -> Vec<BytesMut> {
    let mut packets = Vec::new();
    loop {
        match session.poll_output(now) {
            Output::Transmit(_, _, data) => packets.push(BytesMut::from(data)),
            Output::Event(_) => {}
            Output::Line(..) => unreachable!("there is no radio"),
            Output::Timeout(_) => return packets,
        }
    }
}
