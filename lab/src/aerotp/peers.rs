//! TCP and UDP over the same link. A packet with a wrong bit anywhere is dropped: by IP, by the checksum, or because nobody
//! knows where it belongs.

use std::time::{Duration, Instant};

use aquila_emu::{Path, Payload};

use super::ledger::{Ledger, Outcome};
use super::{DATAGRAM, Task, interval};
use crate::run::tcp::congestion::Algorithm;
use crate::run::tcp::connection::Connection;
use crate::run::tcp::cubic::Cubic;
use crate::run::tcp::reno::Reno;
use crate::run::tcp::segment::{Kind, MSS, Segment};
use crate::run::tcp::ticks::Ticks;

/// The controller of the model of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Congestion {
    /// NewReno.
    NewReno,
    /// CUBIC.
    Cubic,
}

impl Congestion {
    fn algorithm(self) -> Box<dyn Algorithm> {
        match self {
            Self::NewReno => Box::new(Reno),
            Self::Cubic => Box::<Cubic>::default(),
        }
    }
}

#[derive(Debug)]
struct Carried(Segment);

impl Payload for Carried {}

struct Tcp<'a> {
    task: &'a Task,
    congestion: Congestion,
    ticks: [Ticks; 2],
    now: Instant,
    client: Connection,
    /// There once a SYN has come.
    server: Option<Connection>,
    paths: [Path<Carried>; 2],
    next_write: Instant,
    /// The end of what has been sent.
    sent: u64,
    read: u64,
    packets: [u64; 2],
    ledger: Ledger,
}

/// TCP, once.
pub fn tcp(congestion: Congestion, task: &Task, seed: u64) -> Outcome {
    let start = crate::run::origin();
    // Machines that have been up for some hours, whose timers are at different places in their ticks.
    let uptime = |node: u64| Duration::from_micros((seed ^ node).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 31);
    let ticks = [0, 1].map(|node| Ticks::since(start.checked_sub(uptime(node)).unwrap_or(start)));
    let mut world = Tcp {
        task,
        congestion,
        ticks,
        now: start,
        client: Connection::connect(start, congestion.algorithm(), ticks[0]),
        server: None,
        paths: [seed, !seed].map(|seed| Path::new(task.channel.path(), seed)),
        next_write: start,
        sent: 0,
        read: 0,
        packets: [0; 2],
        ledger: Ledger::new(start),
    };
    let end = start + task.limit;
    world.step();
    while world.read < task.bytes
        && let Some(next) = world.next().filter(|next| *next <= end)
    {
        world.now = world.now.max(next);
        world.step();
    }
    let is_complete = world.read >= task.bytes;
    let wire = [0, 1].map(|end| world.paths[end].stats().input.bytes);
    let outcome = world.ledger.close((!is_complete).then_some(task.limit));
    Outcome { wire, packets: world.packets, ..outcome }
}

impl Tcp<'_> {
    fn next(&self) -> Option<Instant> {
        let write = (self.ledger.written() < self.task.bytes).then_some(self.next_write);
        let ends = [Some(&self.client), self.server.as_ref()];
        let ends = ends.into_iter().flatten().filter_map(Connection::next_deadline);
        self.paths.iter().filter_map(Path::next_delivery).chain(ends).chain(write).min()
    }

    fn step(&mut self) {
        let now = self.now;
        while self.next_write <= now && self.ledger.written() < self.task.bytes {
            let bytes = (self.task.bytes - self.ledger.written()).min(MSS);
            self.client.write(now, bytes);
            self.ledger.on_written(now, bytes);
            self.next_write += interval(self.task.source, bytes as usize);
        }
        while let Some(packet) = self.paths[0].pop_packet(now) {
            let Carried(segment) = packet.packet.payload;
            if packet.flipped_header_bits > 0 {
                continue;
            }
            if self.server.is_none() && segment.kind == Kind::Syn {
                self.server = Some(Connection::accept(now, &segment, self.congestion.algorithm(), self.ticks[1]));
            }
            if let Some(server) = &mut self.server {
                server.handle_segment(now, &segment);
            }
        }
        while let Some(packet) = self.paths[1].pop_packet(now) {
            if packet.flipped_header_bits == 0 {
                self.client.handle_segment(now, &packet.packet.payload.0);
            }
        }
        self.client.handle_timeout(now);
        if let Some(server) = &mut self.server {
            server.handle_timeout(now);
            let bytes = server.read();
            if bytes > 0 {
                self.ledger.on_delivered(now, self.read, self.read + bytes);
                self.read += bytes;
            }
            while let Some(segment) = server.poll_transmit(now) {
                self.packets[1] += 1;
                let _ = self.paths[1].push(now, segment.bytes(), Carried(segment));
            }
        }
        while let Some(segment) = self.client.poll_transmit(now) {
            self.packets[0] += 1;
            let new = segment.data.to.saturating_sub(self.sent);
            if !segment.data.is_empty() {
                self.ledger.on_sent(now, new);
                self.sent += new;
            }
            let _ = self.paths[0].push(now, segment.bytes(), Carried(segment));
        }
    }
}

/// UDP, once: datagrams of [`DATAGRAM`] bytes at the source's rate.
pub fn udp(checksum: bool, task: &Task, seed: u64) -> Outcome {
    let start = crate::run::origin();
    let mut path: Path<Vec<u8>> = Path::new(task.channel.path(), seed);
    let mut ledger = Ledger::new(start);
    let (mut now, mut next_write, mut wire, mut packets) = (start, start, 0, 0);
    let mut places = std::collections::VecDeque::new();
    loop {
        while next_write <= now && ledger.written() < task.bytes {
            let bytes = (task.bytes - ledger.written()).min(DATAGRAM as u64) as usize;
            places.push_back((packets, ledger.written()));
            ledger.on_written(now, bytes as u64);
            ledger.on_sent(now, bytes as u64);
            let on_wire = bytes + task.channel.framing.bytes();
            let _ = path.push(now, on_wire, vec![0; bytes]);
            (wire, packets) = (wire + on_wire as u64, packets + 1);
            next_write += interval(task.source, bytes);
        }
        while let Some(packet) = path.pop_packet(now) {
            while places.pop_front_if(|(number, _)| *number < packet.number).is_some() {}
            let Some((_, from)) = places.pop_front() else { continue };
            let bytes = packet.packet.payload.len() as u64;
            match (packet.flipped_header_bits, packet.flipped_bits) {
                (0, 0) => ledger.on_delivered(now, from, from + bytes),
                (0, _) if !checksum => ledger.on_damaged(bytes),
                _ => {}
            }
        }
        let write = (ledger.written() < task.bytes).then_some(next_write);
        match path.next_delivery().into_iter().chain(write).min() {
            Some(next) => now = next,
            None => break,
        }
    }
    Outcome { wire: [wire, 0], packets: [packets, 0], ..ledger.close(None) }
}
