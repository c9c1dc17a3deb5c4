//! A gateway whose other side has the right key and misbehaves: any frames on any connection, in any order, while applications
//! come, go and stop reading. What is given to the applications is bounded, and the gateway comes to rest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aquila_proto::Bitrate;
use aquila_proto::ByteCount;
use aquila_proto::aerotp::{
    ConnectionConfig, ConnectionId, Endpoint, EndpointConfig, EndpointEvent, LineConfig, Port, Protection, RadioConfig,
    SecurityConfig, TransferMode,
};
use aquila_proto::gateway::{
    Action, Client, Custody, Deed, Fill, FlowId, Frame, Gateway, GatewayConfig, Kept, Open, Reason, StorageError,
    TcpMode,
};
use aquila_proto::identity::Identity;
use aquila_proto::seeded::SeededBytes;

use crate::input::{Input, epoch};

/// In memory; `full` from some size on.
#[derive(Debug, Default)]
struct Memory(BTreeMap<FlowId, (u64, Vec<u8>)>);

/// Of one flow, before nothing more is taken.
const FULL: usize = 20_000;
/// A gateway takes two windows ahead of its application, of a megabyte each.
const MOST_UNREAD: u64 = 3 << 20;

impl Custody for Memory {
    fn load(&mut self) -> Vec<Kept> {
        Vec::new()
    }

    fn load_ended(&mut self) -> Vec<(FlowId, Option<Reason>, u64)> {
        vec![(FlowId(3), None, 7), (FlowId(4), Some(Reason::Refused), 0)]
    }

    fn begin(&mut self, deed: &Deed) -> Result<(), StorageError> {
        self.0.insert(deed.flow, (0, Vec::new()));
        Ok(())
    }

    fn append(&mut self, flow: FlowId, bytes: &[u8]) -> Result<(), StorageError> {
        let (_, all) = self.0.get_mut(&flow).expect("it has begun");
        if all.len() + bytes.len() > FULL {
            return Err(StorageError("full".to_owned()));
        }
        all.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(&mut self, flow: FlowId) -> Result<(), StorageError> {
        assert!(self.0.contains_key(&flow));
        Ok(())
    }

    fn read(&mut self, flow: FlowId, offset: u64, max: usize) -> Result<Vec<u8>, StorageError> {
        let (released, all) = &self.0[&flow];
        assert!(offset >= *released && offset < all.len() as u64);
        let from = offset as usize;
        Ok(all[from..all.len().min(from + max)].to_vec())
    }

    fn release(&mut self, flow: FlowId, offset: u64) {
        let (released, all) = self.0.get_mut(&flow).expect("it has begun");
        assert!(offset > *released && offset <= all.len() as u64);
        *released = offset;
    }

    fn end(&mut self, flow: FlowId, _: Option<(Option<Reason>, u64)>) {
        self.0.remove(&flow);
    }
}

/// The steps of a peer that misbehaves, and of applications.
pub fn gateway(data: &[u8]) {
    let mut input = Input(data);
    if input.bool() {
        if let Ok(frame) = Frame::parse(input.0) {
            assert_eq!(Frame::parse(&frame.encode()), Ok(frame));
        }
        return;
    }
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
    let limits = GatewayConfig { max_flows: 6, total_custody: ByteCount(50_000), ..GatewayConfig::default() };
    let random = SeededBytes::new(&[7; 32], "gateway");
    let mut gateway = Gateway::new(now, limits, &radio, security(1), random, Memory::default()).expect("good keys");
    let line = LineConfig { rate: Bitrate::mbps(50), framing: ByteCount(28), shared: None };
    let config = EndpointConfig { protection: Protection::Off, ..EndpointConfig::new(security(0), line, 1400) };
    let mut peer = Endpoint::new(config, SeededBytes::new(&[8; 32], "peer")).expect("good keys");
    for (port, mode) in [(16, TransferMode::NearReliable), (17, TransferMode::Reliable)] {
        peer.listen(port..=port, ConnectionConfig { ordered: true, ..ConnectionConfig::messages(mode) });
    }
    peer.listen(18..=18, ConnectionConfig::messages(TransferMode::QuasiReliable));
    peer.begin(now);

    let mut connections: Vec<ConnectionId> = Vec::new();
    let mut unread: BTreeMap<FlowId, (u64, u64)> = BTreeMap::new();
    let target: std::net::SocketAddr = "127.0.0.1:22".parse().expect("an address");
    for step in 0..400u16 {
        if input.is_empty() && step > 40 {
            break;
        }
        match input.below(12) {
            0 | 1 => {
                let (port, mode) = [
                    (16, TransferMode::NearReliable),
                    (17, TransferMode::Reliable),
                    (18, TransferMode::QuasiReliable),
                    (19, TransferMode::UnreliableConnection),
                ][input.below(4)];
                let config = ConnectionConfig { ordered: port != 18, ..ConnectionConfig::messages(mode) };
                connections.extend(peer.connect(now, config, Port(1000 + input.u16() % 8), Port(port)));
            }
            2..=6 if !connections.is_empty() => {
                let to = connections[input.below(connections.len())];
                let bytes = frame(&mut input, &unread);
                let _ = peer.send(to, bytes.into(), None);
            }
            7 => {
                let bytes = frame(&mut input, &unread);
                let _ = peer.send_datagram(Port(input.u16()), Port(1 + input.u16() % 100), 4, bytes.into());
            }
            8 => {
                let mode = match input.below(3) {
                    0 => TcpMode::QuasiReliable { deadline: Duration::from_millis(20), fill: Fill::Zeros },
                    1 => TcpMode::QuasiReliable { deadline: Duration::from_millis(20), fill: Fill::Nothing },
                    _ => TcpMode::NearReliable,
                };
                if let Ok(flow) = gateway.open(now, target.into(), mode) {
                    unread.insert(flow, (0, 0));
                }
            }
            9 if !unread.is_empty() => {
                let flow = *unread.keys().nth(input.below(unread.len())).expect("there is one");
                let bytes = vec![5; usize::from(input.u16() % 6000)];
                let _ = gateway.on_app_bytes(now, flow, &bytes, input.bool());
            }
            10 if !unread.is_empty() => {
                let flow = *unread.keys().nth(input.below(unread.len())).expect("there is one");
                match input.below(3) {
                    0 => drop(gateway.on_app_fin(now, flow)),
                    1 => gateway.on_app_reset(now, flow),
                    _ => {
                        let (written, taken) = unread.get_mut(&flow).expect("there is one");
                        *taken = *written;
                        gateway.on_taken(now, flow, *taken, input.bool());
                    }
                }
            }
            _ => {
                let client = Client { listener: 0, address: target };
                gateway.send_datagram(now, client, target, input.bool(), input.short_bytes());
                now += input.step().min(Duration::from_secs(100));
            }
        }
        now += Duration::from_millis(5);
        exchange(now, &mut peer, &mut gateway, &mut connections);
        while let Some(action) = gateway.poll_action() {
            match action {
                Action::Dial { flow, .. } => {
                    unread.insert(flow, (0, 0));
                    let result = if input.u8() < 200 { Ok(()) } else { Err(Reason::Unreachable) };
                    gateway.on_dialled(now, flow, result);
                }
                Action::Write { flow, bytes } => {
                    let (written, taken) = unread.get_mut(&flow).expect("it was opened");
                    *written += bytes.len() as u64;
                    assert!(*written - *taken <= MOST_UNREAD, "too much for an application that does not read");
                }
                Action::Ended(ending) => drop(unread.remove(&ending.status.flow)),
                _ => {}
            }
        }
        assert!(gateway.flows(now).count() <= 6);
        assert!(gateway.stats(now).custody <= ByteCount(50_000));
    }
}

/// Both ends say what they have to say, and the peer reads what has come.
pub fn exchange<C: Custody>(
    now: Instant,
    peer: &mut Endpoint,
    gateway: &mut Gateway<C>,
    connections: &mut Vec<ConnectionId>,
) {
    let mut packet = Vec::new();
    peer.handle_timeout(now);
    gateway.handle_timeout(now);
    for _ in 0..200 {
        if peer.poll_transmit(now, &mut packet).is_none() {
            break;
        }
        gateway.handle_bytes(now, &packet);
    }
    for _ in 0..200 {
        if !gateway.poll_transmit(now, &mut packet) {
            break;
        }
        peer.handle_segment(now, 0, &mut packet);
    }
    let _ = gateway.poll_timeout(now);
    while let Some(event) = peer.poll_event() {
        if let EndpointEvent::Opened { connection, .. } = event {
            connections.push(connection);
        }
    }
    for connection in connections {
        while peer.read(now, *connection).is_some() {}
    }
}

/// A frame that makes sense in itself, perhaps of a flow that there is; or anything.
fn frame(input: &mut Input<'_>, flows: &BTreeMap<FlowId, (u64, u64)>) -> Vec<u8> {
    let offset = match input.below(4) {
        0 => 0,
        1 => u64::from(input.u16()),
        2 => u64::from(input.u32()) << 30,
        _ => flows.values().map(|(written, _)| *written).max().unwrap_or(0),
    };
    let target = if input.bool() { "127.0.0.1:23" } else { "a-name:23" }.parse().expect("a target");
    let zeros;
    let frame = match input.below(8) {
        0 | 1 => {
            let known = flows.keys().nth(input.below(flows.len().max(1)));
            let flow = known.filter(|_| input.u8() > 200).copied().unwrap_or(FlowId(u64::from(input.u8() % 8)));
            Frame::Open(Open {
                flow,
                resumed: input.bool(),
                zero_fill: input.bool(),
                deadline_ms: input.u16().into(),
                released: offset,
                taken: offset,
                target,
            })
        }
        2 | 3 => {
            zeros = vec![1; input.below(200) * 6];
            Frame::Data { offset, begins: input.bool(), ends: input.bool(), bytes: &zeros }
        }
        4 => Frame::Fin { offset },
        5 => Frame::Taken { offset, fin: input.bool() },
        6 => Frame::Reset { reason: Reason::of_number(1 + input.u8() % 8).expect("there are eight"), taken: offset },
        _ => return input.short_bytes().to_vec(),
    };
    frame.encode()
}
