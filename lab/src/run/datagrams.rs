//! UDP: each message is a datagram, or as many as its video frame has packets. Raw, there is no repetition, no order and
//! no control. A plan may ask for the simple schemes: a copy over every link, several at once, and each message again
//! after a fixed time until it is acknowledged.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use aquila_emu::Ecn;

use super::contender::{Contender, Content, Data, Outgoing, Output, Wire};
use crate::pair::IP_UDP;
use crate::plan::ContenderPlan;

/// Bytes of the MAVLink frames that stand for commands and parameters.
pub const COMMAND_BYTES: usize = 45;
pub const PARAMETER_BYTES: usize = 37;
/// Bytes of an acknowledgement.
pub const ACK_BYTES: usize = 8;

/// Parts of messages of which some are missing.
const MAX_PARTIAL: usize = 1024;
/// Messages that are not acknowledged yet, and numbers of those that have come, of a flow.
const MAX_PENDING: usize = 1 << 16;

/// The contender.
#[derive(Debug)]
pub struct Datagrams {
    /// Over so many links, so many copies on each.
    links: usize,
    copies: u32,
    retry: Option<Duration>,
    output: VecDeque<Output>,
    /// Parts that have come, by flow and number.
    partial: BTreeMap<(usize, u32), u32>,
    /// What is not acknowledged yet.
    pending: BTreeMap<(usize, u32), Pending>,
    /// Numbers of each flow that have come, the newest of them, if copies are to be told from each other.
    come: BTreeMap<usize, BTreeSet<u32>>,
    /// Flows of what goes with commands: over one link, in turn, and never again.
    data: BTreeSet<usize>,
    turn: usize,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    node: usize,
    bytes: usize,
    due: Instant,
}

impl Default for Datagrams {
    /// Raw UDP over the first link.
    fn default() -> Self {
        Self {
            links: 1,
            copies: 1,
            retry: None,
            output: VecDeque::new(),
            partial: BTreeMap::new(),
            pending: BTreeMap::new(),
            come: BTreeMap::new(),
            data: BTreeSet::new(),
            turn: 0,
        }
    }
}

impl Datagrams {
    /// As the plan says, where there are so many links.
    pub fn new(plan: &ContenderPlan, links: usize) -> Self {
        let links = if plan.duplicate { links } else { 1 };
        Self { links, copies: plan.copies, retry: plan.retry.map(crate::plan::Time::get), ..Self::default() }
    }

    /// Whether a message may come more than once.
    fn has_copies(&self) -> bool {
        self.links > 1 || self.copies > 1 || self.retry.is_some()
    }

    /// Puts a small message on all links.
    fn transmit_all(&mut self, node: usize, bytes: usize, wire: &Wire) {
        for _ in 0..self.copies {
            for link in 0..self.links {
                self.transmit(node, link, bytes, wire.clone());
            }
        }
    }

    fn transmit(&mut self, node: usize, link: usize, bytes: usize, wire: Wire) {
        let bytes = bytes + IP_UDP;
        self.output.push_back(Output::Transmit { node, link, bytes, ecn: Ecn::NotEct, wire });
    }

    fn send_small(&mut self, now: Instant, node: usize, (flow, number): (usize, u32), bytes: usize) {
        self.transmit_all(node, bytes, &Wire::Part { flow, number, of: 1 });
        if let Some(retry) = self.retry {
            if self.pending.len() >= MAX_PENDING {
                self.pending.pop_first();
            }
            self.pending.insert((flow, number), Pending { node, bytes, due: now + retry });
        }
    }

    /// Whether it is the first copy.
    fn is_first(&mut self, flow: usize, number: u32) -> bool {
        let come = self.come.entry(flow).or_default();
        if come.len() >= MAX_PENDING {
            come.pop_first();
        }
        come.insert(number)
    }
}

impl Contender for Datagrams {
    fn start(&mut self, _: Instant) {}

    fn send(&mut self, now: Instant, message: Outgoing) {
        let Outgoing { flow, number, node, content } = message;
        let (mut left, packet) = match content {
            Content::Command => return self.send_small(now, node, (flow, number), COMMAND_BYTES),
            Content::Parameter => return self.send_small(now, node, (flow, number), PARAMETER_BYTES),
            Content::Frame { bytes, packet, .. } => (bytes, packet),
        };
        let of = left.div_ceil(packet) as u32;
        while left > 0 {
            let len = left.min(packet);
            left -= len;
            self.transmit(node, 0, len, Wire::Part { flow, number, of });
        }
    }

    fn send_data(&mut self, _: Instant, data: Data) {
        let Data { flow, number, node, bytes } = data;
        self.data.insert(flow);
        let link = self.turn % self.links;
        self.turn += 1;
        self.transmit(node, link, bytes, Wire::Part { flow, number, of: 1 });
    }

    fn receive(&mut self, _: Instant, node: usize, _: Ecn, wire: Wire) {
        match wire {
            Wire::Part { flow, number, of: 1 } if self.has_copies() && !self.data.contains(&flow) => {
                if self.retry.is_some() {
                    for link in 0..self.links {
                        self.transmit(node, link, ACK_BYTES, Wire::Ack { flow, number });
                    }
                }
                if self.is_first(flow, number) {
                    self.output.push_back(Output::Delivered { flow, number });
                }
            }
            Wire::Part { flow, number, of } => {
                let have = self.partial.entry((flow, number)).or_default();
                *have += 1;
                if *have == of {
                    self.partial.remove(&(flow, number));
                    self.output.push_back(Output::Delivered { flow, number });
                } else if self.partial.len() > MAX_PARTIAL {
                    self.partial.pop_first();
                }
            }
            Wire::Ack { flow, number } => _ = self.pending.remove(&(flow, number)),
            _ => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        let Some(retry) = self.retry else { return };
        let due: Vec<_> = self.pending.iter().filter(|(_, pending)| pending.due <= now).map(|(key, _)| *key).collect();
        for (flow, number) in due {
            let Some(pending) = self.pending.get_mut(&(flow, number)) else { continue };
            pending.due += retry;
            let Pending { node, bytes, .. } = *pending;
            self.transmit_all(node, bytes, &Wire::Part { flow, number, of: 1 });
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.pending.values().map(|pending| pending.due).min()
    }

    fn poll(&mut self, _: Instant) -> Option<Output> {
        self.output.pop_front()
    }

    fn on_new_address(&mut self, _: Instant) {}

    fn on_link_up(&mut self, _: Instant, _: &[usize]) {}

    fn reconnect(&mut self, _: Instant) {}
}
