//! More than one on the same links: the contender that is judged, and its company.

use std::time::{Duration, Instant};

use aquila_emu::Ecn;
use aquila_proto::cc::Radio;

use super::contender::{Contender, Data, Outgoing, Output, Wanted, Wire};

/// All of them as one contender. The first is the one that is judged.
pub struct Company {
    parties: Vec<Party>,
    /// Who carries a flow.
    of_flow: Vec<usize>,
}

/// One of them.
pub struct Party {
    pub name: String,
    pub contender: Box<dyn Contender>,
    /// When it comes.
    pub begins: Instant,
    pub is_there: bool,
}

impl Company {
    pub fn new(parties: Vec<Party>, of_flow: Vec<usize>) -> Self {
        Self { parties, of_flow }
    }

    fn there(&mut self) -> impl Iterator<Item = &mut dyn Contender> {
        self.parties.iter_mut().filter(|party| party.is_there).map(|party| &mut *party.contender as &mut dyn Contender)
    }

    fn of_flow(&mut self, flow: usize) -> &mut dyn Contender {
        let party = self.of_flow.get(flow).copied().unwrap_or_default();
        &mut *self.parties[party].contender
    }
}

impl Contender for Company {
    fn start(&mut self, now: Instant) {
        self.handle_timeout(now);
    }

    fn send(&mut self, now: Instant, message: Outgoing) {
        self.of_flow(message.flow).send(now, message);
    }

    fn send_data(&mut self, now: Instant, data: Data) {
        self.of_flow(data.flow).send_data(now, data);
    }

    fn receive(&mut self, now: Instant, node: usize, ecn: Ecn, wire: Wire) {
        let (party, wire) = match wire {
            Wire::Of { party, wire } => (party, *wire),
            wire => (0, wire),
        };
        self.parties[party].contender.receive(now, node, ecn, wire);
    }

    fn handle_timeout(&mut self, now: Instant) {
        for party in &mut self.parties {
            if party.is_there {
                if party.contender.next_deadline().is_some_and(|due| due <= now) {
                    party.contender.handle_timeout(now);
                }
            } else if party.begins <= now {
                party.is_there = true;
                party.contender.start(now);
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let due = |party: &Party| if party.is_there { party.contender.next_deadline() } else { Some(party.begins) };
        self.parties.iter().filter_map(due).min()
    }

    fn poll(&mut self, now: Instant) -> Option<Output> {
        let (number, output) = self
            .parties
            .iter_mut()
            .enumerate()
            .find_map(|(number, party)| Some((number, party.contender.poll(now)?)))?;
        Some(match output {
            Output::Transmit { node, link, bytes, ecn, wire } if number > 0 => {
                let wire = Wire::Of { party: number, wire: Box::new(wire) };
                Output::Transmit { node, link, bytes, ecn, wire }
            }
            Output::Note { node, text } if number > 0 => {
                Output::Note { node, text: format!("{}: {text}", self.parties[number].name) }
            }
            output => output,
        })
    }

    fn on_new_address(&mut self, now: Instant) {
        self.there().for_each(|contender| contender.on_new_address(now));
    }

    fn on_link_up(&mut self, now: Instant, links: &[usize]) {
        self.there().for_each(|contender| contender.on_link_up(now, links));
    }

    fn on_radio(&mut self, now: Instant, link: Option<usize>, radio: &Radio) {
        self.there().for_each(|contender| contender.on_radio(now, link, radio));
    }

    fn before_reconnect(&mut self, now: Instant) {
        self.there().for_each(|contender| contender.before_reconnect(now));
    }

    fn reconnect(&mut self, now: Instant) {
        self.there().for_each(|contender| contender.reconnect(now));
    }

    fn next_frame(&mut self, now: Instant, node: usize, flow: usize, waited: Duration) -> Wanted {
        self.of_flow(flow).next_frame(now, node, flow, waited)
    }
}
