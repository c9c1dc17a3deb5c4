//! Raw UDP: each message is a datagram, or as many as its video frame has packets. No repetition, no order, no control.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use aquila_emu::Ecn;

use super::contender::{Contender, Content, Outgoing, Output, Wire};
use crate::pair::IP_UDP;

/// Bytes of the MAVLink frames that stand for commands and parameters.
pub const COMMAND_BYTES: usize = 45;
pub const PARAMETER_BYTES: usize = 37;

/// Parts of messages of which some are missing.
const MAX_PARTIAL: usize = 1024;

/// The contender.
#[derive(Debug, Default)]
pub struct Datagrams {
    output: VecDeque<Output>,
    /// Parts that have come, by flow and number.
    partial: BTreeMap<(usize, u32), u32>,
}

impl Contender for Datagrams {
    fn start(&mut self, _: Instant) {}

    fn send(&mut self, _: Instant, message: Outgoing) {
        let Outgoing { flow, number, node, content } = message;
        let (mut left, packet) = match content {
            Content::Command => (COMMAND_BYTES, COMMAND_BYTES),
            Content::Parameter => (PARAMETER_BYTES, PARAMETER_BYTES),
            Content::Frame { bytes, packet, .. } => (bytes, packet),
        };
        let of = left.div_ceil(packet) as u32;
        while left > 0 {
            let len = left.min(packet);
            left -= len;
            let wire = Wire::Part { flow, number, of };
            self.output.push_back(Output::Transmit { node, link: 0, bytes: len + IP_UDP, ecn: Ecn::NotEct, wire });
        }
    }

    fn receive(&mut self, _: Instant, _: usize, _: Ecn, wire: Wire) {
        let Wire::Part { flow, number, of } = wire else { return };
        let have = self.partial.entry((flow, number)).or_default();
        *have += 1;
        if *have == of {
            self.partial.remove(&(flow, number));
            self.output.push_back(Output::Delivered { flow, number });
        } else if self.partial.len() > MAX_PARTIAL {
            self.partial.pop_first();
        }
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn poll(&mut self, _: Instant) -> Option<Output> {
        self.output.pop_front()
    }

    fn on_new_address(&mut self, _: Instant) {}

    fn on_link_up(&mut self, _: Instant) {}

    fn reconnect(&mut self, _: Instant) {}
}
