//! What each node of a run sends and gets, as captures.
//!
//! A node's file has an interface for each link, and one more for each link with what was on its way to the node and was
//! dropped, at the time of the drop and with the reason as a comment. Headers are made up where a contender has none of
//! its own: UDP from and to port 5000 and the number of the flow.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Instant;

use aquila_emu::{Delivered, DropEvent, Ecn};

use super::super::contender::Wire;
use super::super::tcp::segment::{Kind, Segment};
use crate::plan::Plan;
use crate::report::pcapng::{Captured, SNAP_LENGTH, Writer};

/// Packets of a run that are captured; later ones are not.
const MAX_PACKETS: u64 = 5_000_000;
const IPV4: usize = 20;
const UDP: usize = 8;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_TCP: u8 = 6;

/// The files of a run.
#[derive(Debug)]
pub struct Capture {
    start: Instant,
    links: usize,
    nodes: [Writer<BufWriter<File>>; 2],
    left: u64,
    /// The first thing that went wrong.
    error: Option<io::Error>,
    packet: Vec<u8>,
    comment: String,
}

impl Capture {
    /// Makes the files of a contender, in the plan's folder for them.
    ///
    /// # Errors
    /// What cannot be written.
    pub fn new(plan: &Plan, directory: &Path, contender: &str, seed: u64, start: Instant) -> Result<Self, String> {
        let names = plan.links.iter().map(|link| link.get_ref().name.get_ref().clone());
        let dropped = plan.links.iter().map(|link| format!("{} (dropped)", link.get_ref().name.get_ref()));
        let interfaces: Vec<String> = names.chain(dropped).collect();
        let open = |node: &String| {
            let path: PathBuf = directory.join(format!("{contender}-{seed}-{node}.pcapng"));
            let comment = format!("{}: {contender}, seed {seed}, node {node}, in virtual time", plan.title);
            std::fs::create_dir_all(directory)
                .and_then(|()| Writer::new(BufWriter::new(File::create(&path)?), &comment, &interfaces))
                .map_err(|error| format!("cannot write {}: {error}", path.display()))
        };
        Ok(Self {
            start,
            links: plan.links.len(),
            nodes: [open(&plan.nodes[0])?, open(&plan.nodes[1])?],
            left: MAX_PACKETS,
            error: None,
            packet: Vec::with_capacity(SNAP_LENGTH),
            comment: String::new(),
        })
    }

    /// A packet leaves `node`.
    pub fn on_sent(&mut self, at: Instant, node: usize, link: usize, bytes: usize, ecn: Ecn, wire: &Wire) {
        self.comment.clear();
        self.record(at, node, link, false, (bytes, ecn, node), wire);
    }

    /// A packet comes to `node`, with so many bits flipped, or to an address that it no longer has.
    pub fn on_arrived<T>(&mut self, node: usize, link: usize, packet: &Delivered<T>, wire: &Wire, is_astray: bool) {
        self.comment.clear();
        let flipped = packet.flipped_bits + packet.flipped_header_bits;
        if flipped > 0 {
            let _ = write!(self.comment, "bits flipped: {flipped} ");
        }
        if is_astray {
            self.comment.push_str("not taken: sent to a former address");
        }
        self.record(packet.due, node, link, true, (packet.packet.bytes, packet.packet.ecn, 1 - node), wire);
    }

    /// A packet on its way to `node` was dropped.
    pub fn on_dropped<T>(&mut self, node: usize, link: usize, drop: &DropEvent<T>, wire: &Wire) {
        self.comment.clear();
        let waited = drop.at.saturating_duration_since(drop.pushed);
        let _ = write!(self.comment, "dropped: {}", drop.reason);
        if !waited.is_zero() {
            let _ = write!(self.comment, ", {:.3} ms after it was sent", waited.as_secs_f64() * 1e3);
        }
        self.record(drop.at, node, self.links + link, true, (drop.bytes, drop.ecn, 1 - node), wire);
    }

    /// All is on disk, or what went wrong.
    pub fn finish(mut self) -> Result<(), String> {
        let flushed = self.nodes.iter_mut().try_for_each(Writer::flush);
        self.error.map_or(flushed, Err).map_err(|error| format!("cannot write the capture: {error}"))
    }

    fn record(
        &mut self,
        at: Instant,
        node: usize,
        interface: usize,
        is_inbound: bool,
        (length, ecn, from): (usize, Ecn, usize),
        wire: &Wire,
    ) {
        if self.left == 0 || self.error.is_some() {
            return;
        }
        self.left -= 1;
        ip_packet(&mut self.packet, interface % self.links, length, ecn, from, wire);
        let nanos = u64::try_from(at.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX);
        let data = &self.packet[..self.packet.len().min(length)];
        let comment = &self.comment;
        let captured = Captured { interface: interface as u32, nanos, length, data, is_inbound, comment };
        self.error = self.nodes[node].packet(&captured).err();
    }
}

/// The packet as it would be on the wire, or its beginning: behind the headers what the contender sent, or a line that
/// says which message it stands for.
fn ip_packet(packet: &mut Vec<u8>, link: usize, length: usize, ecn: Ecn, node: usize, wire: &Wire) {
    packet.clear();
    let address = |node: usize| Ipv4Addr::new(10, 0, link as u8, node as u8 + 1);
    let v4 = |socket: &SocketAddr, node| match socket.ip() {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(_) => address(node),
    };
    let udp = |packet: &mut Vec<u8>, from: u16, to: u16| {
        let bytes = (length.saturating_sub(IPV4) as u16).to_be_bytes();
        packet.extend([from.to_be_bytes(), to.to_be_bytes(), bytes, [0; 2]].concat());
    };
    match wire {
        Wire::Datagram { from, to, data } => {
            ipv4(packet, length, ecn, PROTOCOL_UDP, v4(from, node), v4(to, 1 - node));
            udp(packet, from.port(), to.port());
            packet.extend(&data[..data.len().min(SNAP_LENGTH - IPV4 - UDP)]);
        }
        Wire::Part { flow, number, of } => {
            ipv4(packet, length, ecn, PROTOCOL_UDP, address(node), address(1 - node));
            let port = 5000 + *flow as u16;
            udp(packet, port, port);
            packet.extend(format!("flow {flow}, message {number}, one of {of} parts").bytes());
        }
        Wire::Ack { flow, number } => {
            ipv4(packet, length, ecn, PROTOCOL_UDP, address(node), address(1 - node));
            let port = 5000 + *flow as u16;
            udp(packet, port, port);
            packet.extend(format!("flow {flow}, message {number} has come").bytes());
        }
        Wire::Segment { connection, segment, .. } => {
            ipv4(packet, length, ecn, PROTOCOL_TCP, address(node), address(1 - node));
            tcp(packet, length, 6000 + *connection as u16, segment);
        }
        Wire::Of { wire, .. } | Wire::Over { wire, .. } => ip_packet(packet, link, length, ecn, node, wire),
    }
}

/// The header of a modelled segment (RFC 9293 §3.1), with padding in place of its options. The stream begins at 0 behind
/// a SYN of number 0.
fn tcp(packet: &mut Vec<u8>, length: usize, port: u16, segment: &Segment) {
    let header = length.saturating_sub(IPV4 + segment.data.len() as usize).clamp(20, 60);
    let push = if segment.data.is_empty() { 0 } else { 0x08 };
    let (flags, number, ack) = match segment.kind {
        Kind::Syn => (0x02, 0, 0),
        Kind::SynAck => (0x12, 0, 1),
        Kind::Established => (0x10 | push, segment.data.from as u32 + 1, segment.ack as u32 + 1),
    };
    packet.extend([port.to_be_bytes(), port.to_be_bytes()].concat());
    packet.extend([number.to_be_bytes(), ack.to_be_bytes()].concat());
    packet.extend([(header as u8 / 4) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    // "No operation".
    packet.resize(IPV4 + header / 4 * 4, 1);
}

fn ipv4(packet: &mut Vec<u8>, length: usize, ecn: Ecn, protocol: u8, from: Ipv4Addr, to: Ipv4Addr) {
    let [high, low] = (length.min(usize::from(u16::MAX)) as u16).to_be_bytes();
    packet.extend([0x45, ecn.bits(), high, low, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    let words = packet.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::CapturePlan;
    use crate::testing::{Folder, plan};

    #[test]
    fn capturing_changes_nothing_and_tells_why_packets_were_dropped() {
        let text = r#"
            title = "too much"
            lasts = "3 s"
            link = [{ name = "lte", both = { rate = "1 Mbit/s", delay = "5 ms", queue = { packets = 5 } } }]
            contender = [{ kind = "aquila" }, { kind = "udp" }, { kind = "tcp" }]
            traffic = [{ commands = { every = "100 ms" } }, { from = "air", video = { rate = "4 Mbit/s" } }]
            action = [{ at = "1 s", outage = { lasts = "200 ms" } }]
        "#;
        let mut plan = plan(text);
        let folder = Folder::new("capture");
        let directory = folder.path();
        for contender in plan.contenders.clone() {
            plan.capture = None;
            let plain = crate::run::run(&plan, contender.get_ref(), 1).unwrap();
            plan.capture = Some(CapturePlan { directory: directory.to_owned(), seed: 1 });
            let captured = crate::run::run(&plan, contender.get_ref(), 1).unwrap();
            assert_eq!(captured.log_hash, plain.log_hash);
            assert_eq!(captured.links, plain.links);
        }
        let other = crate::run::run(&plan, plan.contenders[1].get_ref(), 2).unwrap();
        let read = |name: &str| std::fs::read(directory.join(name));
        let [air, ground] = ["udp-1-air.pcapng", "udp-1-ground.pcapng"].map(|name| read(name).unwrap());
        assert!(read("udp-2-air.pcapng").is_err() && other.seed == 2, "only the seed that was asked for");
        let has = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(has(&ground, "dropped: the queue was full") && has(&ground, "dropped: the link was out"));
        assert!(has(&air, "dropped: the link was out") && !has(&air, "the queue was full"));
        assert!(has(&air, "flow 0, message 3, one of 1"));
    }

    #[test]
    fn headers_say_what_a_packet_is() {
        let mut packet = Vec::new();
        ip_packet(&mut packet, 1, 73, Ecn::Ect0, 1, &Wire::Part { flow: 2, number: 9, of: 1 });
        assert_eq!(packet[..4], [0x45, 2, 0, 73]);
        assert_eq!(packet[12..20], [10, 0, 1, 2, 10, 0, 1, 1]);
        assert_eq!(packet[20..28], [0x13, 0x8a, 0x13, 0x8a, 0, 53, 0, 0]);
        // RFC 1071: with its checksum in place a header's sum is all ones.
        let sum: u32 = packet[..20].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert!(packet[28..].starts_with(b"flow 2, message 9"));
    }
}
