//! A gateway with a TUN device that anything comes from: packets that make no sense, applications' kernels that keep to no rule,
//! and another gateway with the right key that misbehaves. What it keeps is bounded, what it writes are packets, and it
//! acknowledges to a kernel no more than the other side has said.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use aquila_proto::Bitrate;
use aquila_proto::aerotp::{
    ConnectionConfig, ConnectionId, Endpoint, EndpointConfig, LineConfig, Port, Protection, RadioConfig,
    SecurityConfig, TransferMode,
};
use aquila_proto::gateway::{
    Action, Connect, Custody, Deed, FlowId, Former, Frame, Gateway, GatewayConfig, Intercept, Kept, Reason, Segment,
    StorageError, TunConfig,
};
use aquila_proto::identity::Identity;
use aquila_proto::seeded::SeededBytes;

use crate::input::{Input, epoch};

/// Nothing is in custody in this mode.
struct Nothing;

impl Custody for Nothing {
    fn load(&mut self) -> Vec<Kept> {
        Vec::new()
    }

    fn load_ended(&mut self) -> Vec<(FlowId, Option<Reason>, u64)> {
        Vec::new()
    }

    fn begin(&mut self, _: &Deed) -> Result<(), StorageError> {
        panic!("nothing is stored")
    }

    fn append(&mut self, _: FlowId, _: &[u8]) -> Result<(), StorageError> {
        panic!("nothing is stored")
    }

    fn finish(&mut self, _: FlowId) -> Result<(), StorageError> {
        panic!("nothing is stored")
    }

    fn read(&mut self, _: FlowId, _: u64, _: usize) -> Result<Vec<u8>, StorageError> {
        panic!("nothing is stored")
    }

    fn release(&mut self, _: FlowId, _: u64) {}

    fn end(&mut self, _: FlowId, _: Option<(Option<Reason>, u64)>) {}
}

/// Of one flow, in one direction: two windows, as the other side may be ahead of itself.
const MOST_KEPT: u64 = 3 << 20;
const MAX_FLOWS: usize = 6;

/// What the last packet to a kernel said, from which one that makes sense follows.
#[derive(Debug, Clone, Copy, Default)]
struct Stand {
    /// The gateway's next number, and what it has acknowledged.
    seq: u32,
    ack: u32,
}

/// Packets, and steps of a peer that misbehaves.
pub fn passthrough(data: &[u8]) {
    let mut input = Input(data);
    let identities = [Arc::new(Identity::from_seed([1; 32])), Arc::new(Identity::from_seed([2; 32]))];
    let security = |end: usize| SecurityConfig {
        identity: identities[end].clone(),
        peer: identities[1 - end].public(),
        initiates: end == 0,
        life: 1,
        accepted: None,
    };
    let mut now = epoch();
    let radio = RadioConfig { protection: Protection::Off, ..RadioConfig::packets(Bitrate::mbps(50)) };
    let limits = GatewayConfig { max_flows: MAX_FLOWS, ..GatewayConfig::default() };
    let random = SeededBytes::new(&[7; 32], "gateway");
    let mut gateway = Gateway::new(now, limits, &radio, security(1), random, Nothing).expect("good keys");
    gateway.set_tun(tun(), [Former { kernel: kernel(0, false), own: own(false), numbers: [1, 2] }]);
    let line = LineConfig { rate: Bitrate::mbps(50), framing: aquila_proto::ByteCount(28), shared: None };
    let config = EndpointConfig { protection: Protection::Off, ..EndpointConfig::new(security(0), line, 1400) };
    let mut peer = Endpoint::new(config, SeededBytes::new(&[8; 32], "peer")).expect("good keys");
    let mode = ConnectionConfig { ordered: true, ..ConnectionConfig::messages(TransferMode::Reliable) };
    peer.listen(20..=20, mode);
    peer.begin(now);

    let mut connections: Vec<ConnectionId> = Vec::new();
    let mut stands: BTreeMap<[SocketAddr; 2], Stand> = BTreeMap::new();
    // What the peer has ever said that it has acknowledged.
    let mut most_acked = 0;
    for step in 0..400u16 {
        if input.is_empty() && step > 40 {
            break;
        }
        match input.below(10) {
            0 => gateway.handle_packet(now, input.short_bytes()),
            1..=4 => {
                let made = made(&mut input, &stands);
                gateway.handle_packet(now, &made);
            }
            5 => {
                let from = Port(1000 + input.u16() % 8);
                if let Some(connection) = peer.connect(now, mode, from, Port(20)) {
                    let target = SocketAddr::new(kernel(input.below(2), input.bool()).ip(), 22);
                    let connect = Connect { flow: FlowId(input.u8().into()), room: input.u32().into(), target };
                    let _ = peer.send(connection, Frame::Connect(connect).encode().into(), None);
                    connections.push(connection);
                }
            }
            6..=8 if !connections.is_empty() => {
                let to = connections[input.below(connections.len().min(256))];
                let bytes = frame(&mut input, &mut most_acked);
                let _ = peer.send(to, bytes.into(), None);
            }
            _ => now += input.step().min(Duration::from_secs(100)),
        }
        now += Duration::from_millis(5);
        crate::gateway::exchange(now, &mut peer, &mut gateway, &mut connections);
        while let Some(action) = gateway.poll_action() {
            if let Action::Admit { flow, .. } = action {
                let result = if input.u8() < 230 { Ok(()) } else { Err(Reason::NotAllowed) };
                gateway.on_admitted(now, flow, result);
            }
        }
        while let Some(packet) = gateway.poll_packet() {
            note(&packet, &mut stands);
        }
        assert!(gateway.flows(now).count() <= MAX_FLOWS);
        for flow in gateway.flows(now) {
            assert!(flow.acknowledged <= flow.sent && flow.acknowledged.0 <= most_acked, "{flow:?}");
            assert!(flow.received.0 - flow.taken.0 <= MOST_KEPT, "{flow:?}");
        }
    }
}

fn kernel(number: usize, v6: bool) -> SocketAddr {
    let ip = match v6 {
        false => IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1 + number as u8)),
        true => IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1 + number as u16)),
    };
    SocketAddr::new(ip, 4000 + number as u16)
}

fn own(v6: bool) -> SocketAddr {
    let ip = if v6 { "fd20::5" } else { "10.20.0.5" };
    SocketAddr::new(ip.parse().expect("an address"), 22)
}

fn tun() -> TunConfig {
    let intercept = |network: IpAddr, bits| Intercept { network, bits, ports: 20..=30, to: None };
    TunConfig {
        mtu: 1500,
        v4: Some(Ipv4Addr::new(198, 18, 0, 2)),
        v6: Some(Ipv6Addr::new(0xfd61, 0, 0, 0, 0, 0, 0, 2)),
        intercepts: vec![intercept(own(false).ip(), 32), intercept(own(true).ip(), 64)],
    }
}

/// Remembers what the gateway said last; the packet has to be one.
fn note(packet: &[u8], stands: &mut BTreeMap<[SocketAddr; 2], Stand>) {
    let v6 = packet[0] >> 4 == 6;
    let (header, ips) = if v6 { (40, 8..40) } else { (20, 12..20) };
    assert!(packet.len() >= header + 20 && packet.len() <= 1500, "{} bytes", packet.len());
    let tcp = &packet[header..];
    let ips = &packet[ips];
    let ip = |bytes: &[u8]| match v6 {
        true => IpAddr::from(<[u8; 16]>::try_from(bytes).expect("sixteen")),
        false => IpAddr::from(<[u8; 4]>::try_from(bytes).expect("four")),
    };
    let (from, to) = ips.split_at(ips.len() / 2);
    let half = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
    let word = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
    let addresses = [SocketAddr::new(ip(to), half(2)), SocketAddr::new(ip(from), half(0))];
    if stands.len() < 64 || stands.contains_key(&addresses) {
        let length = (tcp.len() - usize::from(tcp[12] >> 4) * 4) as u32 + u32::from(tcp[13] & 3 != 0);
        stands.insert(addresses, Stand { seq: word(4).wrapping_add(length), ack: word(8) });
    }
}

/// A packet with good checksums: a kernel's that keeps to the rules, or nearly.
fn made(input: &mut Input<'_>, stands: &BTreeMap<[SocketAddr; 2], Stand>) -> Vec<u8> {
    let v6 = input.u8() > 200;
    let known = stands.iter().nth(input.below(stands.len().clamp(1, 256))).filter(|_| input.u8() > 60);
    let ([from, to], stand) = match known {
        Some((addresses, stand)) => (*addresses, *stand),
        None => ([kernel(input.below(4), v6), own(v6)], Stand::default()),
    };
    let flags = [0x02, 0x10, 0x10, 0x18, 0x18, 0x11, 0x04, 0x14, 0x12, 0x03, 0x00][input.below(11)];
    let off = [0, 0, 0, 1, u32::MAX, 1000][input.below(6)];
    let seq = stand.ack.wrapping_add(u32::from(input.u8() % 3) * 100).wrapping_add(off);
    let ack = stand.seq.wrapping_sub(if input.u8() > 200 { input.u16().into() } else { 0 });
    let payload = vec![9; if flags & 8 != 0 { usize::from(input.u16() % 1400) } else { 0 }];
    let options: &[u8] = match input.below(4) {
        0 => &[2, 4, 5, 180, 1, 3, 3, 7],
        1 => &[2, 4, 0, 1, 3, 3, 99, 0],
        2 => &[4, 2, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0],
        _ => &[],
    };
    let options = if flags & 2 != 0 { options } else { &[] };
    let mut tcp = Vec::new();
    tcp.extend_from_slice(&from.port().to_be_bytes());
    tcp.extend_from_slice(&to.port().to_be_bytes());
    tcp.extend_from_slice(&seq.to_be_bytes());
    tcp.extend_from_slice(&ack.to_be_bytes());
    tcp.extend_from_slice(&[(((20 + options.len()) / 4) << 4) as u8, flags]);
    tcp.extend_from_slice(&[input.u8(), input.u8(), 0, 0, 0, 0]);
    tcp.extend_from_slice(options);
    tcp.extend_from_slice(&payload);
    let mut ips = Vec::new();
    for address in [from, to] {
        match address.ip() {
            IpAddr::V4(ip) => ips.extend_from_slice(&ip.octets()),
            IpAddr::V6(ip) => ips.extend_from_slice(&ip.octets()),
        }
    }
    let mut covered = [&ips[..], &[0, 6], &(tcp.len() as u16).to_be_bytes()].concat();
    covered.extend_from_slice(&tcp);
    let check = checksum(&covered);
    tcp[16..18].copy_from_slice(&check.to_be_bytes());
    let mut packet = match from.ip() {
        IpAddr::V4(_) => {
            let length = (20 + tcp.len() as u16).to_be_bytes();
            let mut header = [&[0x45, 0, length[0], length[1], 0, 0, 0x40, 0, 64, 6, 0, 0][..], &ips].concat();
            let check = checksum(&header);
            header[10..12].copy_from_slice(&check.to_be_bytes());
            header
        }
        IpAddr::V6(_) => {
            let length = (tcp.len() as u16).to_be_bytes();
            [&[0x60, 0, 0, 0, length[0], length[1], 6, 64][..], &ips].concat()
        }
    };
    packet.extend_from_slice(&tcp);
    packet
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let pairs = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)));
    let sum: u32 = pairs.sum();
    let once = (sum & 0xffff) + (sum >> 16);
    !((once & 0xffff) + (once >> 16)) as u16
}

/// A frame that makes sense in itself, mostly.
fn frame(input: &mut Input<'_>, most_acked: &mut u64) -> Vec<u8> {
    let number = |input: &mut Input<'_>| match input.below(5) {
        0..=2 => 0,
        3 => u64::from(input.u16()),
        _ => u64::from(input.u32()) << 30,
    };
    let bytes = vec![1; input.below(200) * 6];
    match input.below(8) {
        0 => Frame::Reset { reason: Reason::of_number(1 + input.u8() % 9).expect("there are nine"), taken: 0 }.encode(),
        1 => input.short_bytes().to_vec(),
        _ => {
            let acked = number(input);
            *most_acked = (*most_acked).max(acked);
            let (room, offset) = (u64::from(input.u16()) * 16, number(input));
            let bits = input.u8();
            let has = |bit: u8| bits & bit != 0;
            let (fin, fin_acked, ask, answer) = (bits > 230, has(2) && bits > 200, has(4), has(8));
            Frame::Segment(Segment { acked, room, offset, fin, fin_acked, ask, answer, bytes: &bytes }).encode()
        }
    }
}
