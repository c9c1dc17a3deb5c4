//! The same over several links: a connection over each, every message on all of them, and the copy that comes first
//! counts [CONCLONE 3.2]. Video goes over the first link, and what goes with a command over one of them, in turn: only
//! control is worth its price twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use aquila_emu::Ecn;

use super::contender::{Contender, Content, Data, Outgoing, Output, Wire};

/// All connections as one contender.
pub struct Doubled {
    /// One for each link, in order.
    connections: Vec<Box<dyn Contender>>,
    /// Over which link what goes with the next command is sent.
    turn: usize,
    /// Numbers of each flow that have come, the newest of them.
    come: BTreeMap<usize, BTreeSet<u32>>,
}

/// Numbers remembered of a flow: more than a connection has waiting.
const MAX_COME: usize = 1 << 17;

impl Doubled {
    /// One connection for each link, in order.
    pub fn new(connections: Vec<Box<dyn Contender>>) -> Self {
        Self { connections, turn: 0, come: BTreeMap::new() }
    }

    /// Whether it is the first copy.
    fn is_first(&mut self, flow: usize, number: u32) -> bool {
        let come = self.come.entry(flow).or_default();
        if come.len() >= MAX_COME {
            come.pop_first();
        }
        come.insert(number)
    }
}

impl Contender for Doubled {
    fn start(&mut self, now: Instant) {
        self.connections.iter_mut().for_each(|connection| connection.start(now));
    }

    fn send(&mut self, now: Instant, message: Outgoing) {
        let copies = if matches!(message.content, Content::Frame { .. }) { 1 } else { self.connections.len() };
        self.connections.iter_mut().take(copies).for_each(|connection| connection.send(now, message));
    }

    fn send_data(&mut self, now: Instant, data: Data) {
        let link = self.turn % self.connections.len();
        self.turn += 1;
        self.connections[link].send_data(now, data);
    }

    fn receive(&mut self, now: Instant, node: usize, ecn: Ecn, wire: Wire) {
        if let Wire::Over { link, wire } = wire
            && let Some(connection) = self.connections.get_mut(link)
        {
            connection.receive(now, node, ecn, *wire);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        for connection in &mut self.connections {
            if connection.next_deadline().is_some_and(|due| due <= now) {
                connection.handle_timeout(now);
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.connections.iter().filter_map(|connection| connection.next_deadline()).min()
    }

    fn poll(&mut self, now: Instant) -> Option<Output> {
        loop {
            let mut each = self.connections.iter_mut().enumerate();
            let (link, output) = each.find_map(|(link, connection)| Some((link, connection.poll(now)?)))?;
            return Some(match output {
                Output::Transmit { node, bytes, ecn, wire, .. } => {
                    Output::Transmit { node, link, bytes, ecn, wire: Wire::Over { link, wire: Box::new(wire) } }
                }
                Output::Delivered { flow, number } if !self.is_first(flow, number) => continue,
                Output::Note { node, text } => Output::Note { node, text: format!("connection {}: {text}", link + 1) },
                output => output,
            });
        }
    }

    fn on_new_address(&mut self, now: Instant) {
        self.connections.iter_mut().for_each(|connection| connection.on_new_address(now));
    }

    fn on_link_up(&mut self, now: Instant, links: &[usize]) {
        self.connections.iter_mut().for_each(|connection| connection.on_link_up(now, links));
    }

    fn before_reconnect(&mut self, now: Instant) {
        self.connections.iter_mut().for_each(|connection| connection.before_reconnect(now));
    }

    fn reconnect(&mut self, now: Instant) {
        self.connections.iter_mut().for_each(|connection| connection.reconnect(now));
    }
}
