//! Links, applications and events around a contender, on a simulated clock.

mod capture;
mod sources;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use aquila_emu::{Ecn, Packet, Payload};

use capture::Capture;
use sources::{NEVER, Source};

use super::camera::FrameEncoder;
use super::contender::{Contender, Output, Wire};
use super::modems::Modems;
use super::oracle::Truth;
use super::{RunError, direction_from};
use crate::channels::{Channel, DIRECTIONS, SERIES_STEP, index};
use crate::fnv::Fnv;
use crate::plan::{CompanyPlan, ContenderPlan, Mode, Plan, TrafficKind};
use crate::record::{Event, Flow, LinkSample, LinkSeries, LinkShare, Run};
use crate::timeline::{Entry, Step, timeline};

/// A packet on a link.
#[derive(Debug)]
struct InTransit {
    /// The first node's address when it left.
    generation: u32,
    wire: Wire,
}

impl Payload for InTransit {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.wire.bytes_mut()
    }
}

/// Everything around a contender.
pub struct World<'a> {
    plan: &'a Plan,
    seed: u64,
    start: Instant,
    end: Instant,
    now: Instant,
    channels: Vec<Channel<InTransit>>,
    flows: Vec<Flow>,
    sources: Vec<Source<'a>>,
    timeline: VecDeque<Entry>,
    modems: Modems,
    generation: u32,
    series: Vec<LinkSeries>,
    /// Counts at the last sample: offered, delivered, carried, lost, dropped, outage, opportunities.
    before: Vec<[u64; 7]>,
    /// Rates at the last sample.
    rates: Vec<Option<u64>>,
    next_sample: Instant,
    events: Vec<Event>,
    returns: Vec<Duration>,
    hash: Fnv,
    capture: Option<Capture>,
    /// What a contender that knows the link is told.
    truth: Option<Truth>,
    /// Who else is on the links.
    company: Vec<&'a CompanyPlan>,
    /// How long the contender's applications wait for a command.
    give_up: Option<Duration>,
}

impl<'a> World<'a> {
    /// With `truth`, encoders make exactly what they are asked for: who knows the link is not to be late for another reason.
    pub fn new(
        plan: &'a Plan,
        contender: &'a ContenderPlan,
        seed: u64,
        start: Instant,
        truth: Option<Truth>,
    ) -> Result<Self, RunError> {
        let channel = |link: &toml::Spanned<crate::plan::LinkPlan>| {
            Channel::new(link.get_ref(), &plan.folder, crate::channels::seed_of(link.get_ref(), seed), start)
        };
        let channels = plan.links.iter().map(channel).collect::<Result<Vec<_>, _>>()?;
        let rates = channels.iter().flat_map(|channel| DIRECTIONS.map(|direction| channel.look(direction).rate()));
        let company: Vec<&CompanyPlan> = contender.beside.iter().map(toml::Spanned::get_ref).collect();
        let names = std::iter::once(contender.name()).chain(company.iter().map(|company| company.name()));
        let share = |name: &str| LinkShare { name: name.to_owned(), delivered: vec![0] };
        let shares: Vec<LinkShare> = names.filter(|_| !company.is_empty()).map(share).collect();
        let mut world = Self {
            rates: rates.collect(),
            plan,
            seed,
            start,
            end: start + plan.duration(),
            now: start,
            series: plan
                .links
                .iter()
                .flat_map(|link| {
                    let name = link.get_ref().name.get_ref().clone();
                    let (samples, shares) = (Vec::new(), &shares);
                    [0, 1].map(|direction| LinkSeries {
                        link: name.clone(),
                        direction,
                        samples: samples.clone(),
                        shares: shares.clone(),
                    })
                })
                .collect(),
            before: vec![[0; 7]; channels.len() * 2],
            modems: Modems::new(channels.len()),
            channels,
            flows: Vec::new(),
            sources: Vec::new(),
            timeline: timeline(plan).into(),
            generation: 0,
            next_sample: start + SERIES_STEP,
            events: Vec::new(),
            returns: Vec::new(),
            hash: Fnv::default(),
            capture: None,
            truth,
            company,
            give_up: contender.give_up.map(crate::plan::Time::get),
        };
        world.add_sources(0, None);
        for (number, company) in (1..).zip(world.company.clone()) {
            if company.is_session() {
                world.add_sources(number, Some(company));
            }
        }
        Ok(world)
    }

    /// Who carries each flow.
    pub fn parties(&self) -> Vec<usize> {
        self.sources.iter().map(|source| source.party).collect()
    }

    /// Puts another encoder behind the first camera of the first node.
    pub fn film_with(&mut self, encoder: Box<dyn FrameEncoder + 'a>) {
        if let Some(camera) = self.sources.iter_mut().find(|source| source.node == 0 && source.encoder.is_some()) {
            camera.encoder = Some(encoder);
        }
    }

    /// Runs to the end.
    pub fn run(mut self, mut contender: Box<dyn Contender>, name: &str) -> Result<Run, RunError> {
        self.begin_capture(name).map_err(|message| RunError::Contender { name: name.to_owned(), message })?;
        contender.start(self.now);
        self.drain(&mut *contender);
        while let Some(next) = self.next(&*contender).filter(|next| *next <= self.end) {
            self.now = self.now.max(next);
            self.step(&mut *contender);
        }
        self.now = self.end;
        if let Some(capture) = self.capture.take() {
            capture.finish().map_err(|message| RunError::Contender { name: name.to_owned(), message })?;
        }
        for (link, channel) in self.plan.links.iter().zip(&self.channels) {
            for direction in DIRECTIONS {
                if let Some(fault) = channel.look(direction).trace_fault() {
                    let link = link.get_ref().name.get_ref().clone();
                    return Err(RunError::Fault { link, message: fault.to_string() });
                }
            }
        }
        Ok(Run {
            contender: name.to_owned(),
            mode: Mode::Virtual,
            seed: self.seed,
            seconds: (self.end - self.start).as_secs_f64(),
            flows: self.flows,
            links: self.series,
            events: self.events,
            programs: Vec::new(),
            returns: self.returns,
            log_hash: format!("{:016x}", self.hash.value()),
            invalid: None,
        })
    }

    fn next(&self, contender: &dyn Contender) -> Option<Instant> {
        let channels = self.channels.iter().filter_map(Channel::next_deadline);
        let sources = self.sources.iter().map(|source| source.next).filter(|next| *next < self.end);
        let encoded = self.sources.iter().filter_map(Source::encoded);
        let step = self.timeline.front().map(|entry| self.start + entry.at);
        let others = [contender.next_deadline(), step, self.modems.next(), Some(self.next_sample)];
        channels.chain(sources).chain(encoded).chain(others.into_iter().flatten()).min()
    }

    fn step(&mut self, contender: &mut dyn Contender) {
        while let Some(entry) = self.timeline.pop_front_if(|entry| self.start + entry.at <= self.now) {
            self.on_step(contender, &entry);
        }
        for (link, radio) in self.modems.poll(self.now) {
            contender.on_radio(self.now, Some(link), &radio);
            self.drain(contender);
        }
        for link in 0..self.channels.len() {
            for direction in DIRECTIONS {
                while let Some(delivered) = self.channels[link].pop(direction, self.now) {
                    let node = 1 - index(direction);
                    if let Some(capture) = &mut self.capture {
                        let InTransit { generation, wire } = &delivered.packet.payload;
                        capture.on_arrived(node, link, &delivered, wire, node == 0 && *generation != self.generation);
                    }
                    self.on_arrival(contender, node, link, delivered.packet);
                }
            }
        }
        if contender.next_deadline().is_some_and(|due| due <= self.now) {
            contender.handle_timeout(self.now);
            self.drain(contender);
        }
        for index in 0..self.sources.len() {
            self.send_encoded(contender, index);
            while self.sources[index].next <= self.now && self.sources[index].next < self.sources[index].until {
                self.emit(contender, index);
            }
            if self.sources[index].next >= self.sources[index].until {
                // Done: never again within the run.
                self.sources[index].next = self.end + NEVER;
            }
        }
        if self.now >= self.next_sample {
            self.sample();
            if self.is_done() {
                self.end = self.end.min(self.now + self.plan.cool_down.get());
            }
        }
        self.capture_drops();
    }

    /// Captures what goes over the links, if the plan wants this run's.
    fn begin_capture(&mut self, contender: &str) -> Result<(), String> {
        let Some(wanted) = self.plan.capture.as_ref().filter(|wanted| wanted.seed == self.seed) else { return Ok(()) };
        self.capture = Some(Capture::new(self.plan, &wanted.directory, contender, self.seed, self.start)?);
        for channel in &mut self.channels {
            for direction in DIRECTIONS {
                channel.path(direction, self.now, |path| path.record_drops(true));
            }
        }
        Ok(())
    }

    fn capture_drops(&mut self) {
        let Some(capture) = &mut self.capture else { return };
        for (link, channel) in self.channels.iter_mut().enumerate() {
            for direction in DIRECTIONS {
                channel.path(direction, self.now, |path| {
                    while let Some(drop) = path.pop_drop() {
                        capture.on_dropped(1 - index(direction), link, &drop, &drop.payload.wire);
                    }
                });
            }
        }
    }

    fn on_arrival(&mut self, contender: &mut dyn Contender, node: usize, link: usize, packet: Packet<InTransit>) {
        self.note(&[10 + node as u64, packet.bytes as u64]);
        let InTransit { generation, wire } = packet.payload;
        let party = if let Wire::Of { party, .. } = &wire { *party } else { 0 };
        let is_datagram = matches!(&wire, Wire::Part { flow, .. } if self.is_beside(*flow));
        let share = self.series[link * 2 + 1 - node].shares.get_mut(party).filter(|_| !is_datagram);
        if let Some(now) = share.and_then(|share| share.delivered.last_mut()) {
            *now += packet.bytes as u64;
        }
        if node == 0 && generation != self.generation {
            return; // It was sent to an address that is no longer the node's.
        }
        match wire {
            Wire::Part { flow, number, .. } if is_datagram => self.on_delivered(flow, number),
            wire => {
                contender.receive(self.now, node, packet.ecn, wire);
                self.drain(contender);
            }
        }
    }

    /// Whether a flow goes beside the contender.
    fn is_beside(&self, flow: usize) -> bool {
        self.sources.iter().any(|source| source.flow == flow && matches!(source.kind, TrafficKind::Datagrams(_)))
    }

    fn on_step(&mut self, contender: &mut dyn Contender, entry: &Entry) {
        let links: Vec<usize> = entry.link.map_or_else(|| (0..self.channels.len()).collect(), |link| vec![link]);
        let place = entry.link.map(|link| self.plan.links[link].get_ref().name.get_ref().clone()).unwrap_or_default();
        match &entry.step {
            Step::Begin(outage) => {
                links.iter().for_each(|link| self.channels[*link].begin_outage(self.now, outage.packets));
                self.event(&place, "outage begins".into());
                if outage.reconnect {
                    contender.before_reconnect(self.now);
                    self.drain(contender);
                }
            }
            Step::End(outage) => {
                for link in &links {
                    self.channels[*link].end_outage(self.now);
                }
                self.returns.push(self.now - self.start);
                self.event(&place, "outage ends".into());
                if outage.new_address {
                    self.new_address(contender);
                }
                if outage.link_event {
                    contender.on_link_up(self.now, &links);
                    self.drain(contender);
                }
                if outage.reconnect {
                    contender.reconnect(self.now);
                    self.drain(contender);
                    self.emit_commands(contender);
                }
            }
            Step::NewAddress => self.new_address(contender),
            Step::Change(change) => {
                for link in links {
                    for (direction, change) in DIRECTIONS.into_iter().zip(change.paths()) {
                        let Some(change) = change else { continue };
                        if let Err(message) = self.channels[link].change(direction, self.now, &change) {
                            self.event(&place, message);
                        }
                    }
                }
                self.event(&place, "the link changes".into());
            }
            Step::Modem(radio) => {
                self.modems.on_radio(self.now, &links, radio);
                contender.on_radio(self.now, entry.link, radio);
                self.drain(contender);
                self.event(&place, "the modem tells of its radio".into());
            }
        }
    }

    fn new_address(&mut self, contender: &mut dyn Contender) {
        self.generation += 1;
        let node = self.plan.nodes[0].clone();
        self.event(&node, "has a new address".into());
        contender.on_new_address(self.now);
        self.drain(contender);
    }

    fn drain(&mut self, contender: &mut dyn Contender) {
        while let Some(output) = contender.poll(self.now) {
            match output {
                Output::Transmit { node, link, bytes, ecn, wire } => self.transmit(node, link, bytes, ecn, wire),
                Output::Delivered { flow, number } => self.on_delivered(flow, number),
                Output::Note { node, text } => {
                    let node = self.plan.nodes[node].clone();
                    self.event(&node, text);
                }
            }
        }
    }

    fn transmit(&mut self, node: usize, link: usize, bytes: usize, ecn: Ecn, wire: Wire) {
        self.note(&[node as u64, link as u64, bytes as u64]);
        if let Some(capture) = &mut self.capture {
            capture.on_sent(self.now, node, link, bytes, ecn, &wire);
        }
        let payload = InTransit { generation: self.generation, wire };
        let packet = Packet::new(bytes, payload).with_ecn(ecn);
        let accepted = self.channels[link].push(direction_from(node), self.now, packet).is_ok();
        if let Some(truth) = self.truth.as_ref().filter(|_| accepted && (node, link) == (0, 0)) {
            truth.on_pushed(self.now, bytes);
        }
    }

    fn on_delivered(&mut self, flow: usize, number: u32) {
        self.note(&[30, flow as u64, u64::from(number)]);
        let at = self.now - self.start;
        self.flows[flow].on_arrived(number, at);
        self.tell_source(flow, number);
    }

    fn event(&mut self, place: &str, text: String) {
        self.note(&[50]);
        let at_s = (self.now - self.start).as_secs_f64();
        self.events.push(Event { at_s, place: place.to_owned(), text });
    }

    fn sample(&mut self) {
        let at_s = (self.next_sample - self.start).as_secs_f64();
        self.next_sample += SERIES_STEP;
        for (link, channel) in self.channels.iter().enumerate() {
            for direction in DIRECTIONS {
                let slot = link * 2 + index(direction);
                let path = channel.look(direction);
                let stats = path.stats();
                let dropped = stats.dropped.queue_full.bytes + stats.dropped.aqm.bytes;
                let behind = stats.dropped.behind_bottleneck().bytes;
                let lost = stats.dropped.loss.bytes + behind;
                let counts = [
                    stats.input.bytes,
                    stats.output.bytes,
                    stats.output.bytes + behind,
                    lost,
                    dropped,
                    stats.dropped.outage.bytes,
                    stats.opportunities,
                ];
                let before = std::mem::replace(&mut self.before[slot], counts);
                let [offered, delivered, carried, lost, dropped, outage, opportunities] =
                    std::array::from_fn(|n| counts[n].saturating_sub(before[n]));
                // What was in force until now, not what begins now.
                let by_rate = std::mem::replace(&mut self.rates[slot], path.rate()).map(|rate| rate as f64);
                let by_trace =
                    (stats.opportunities > 0).then(|| opportunities as f64 * 12_000.0 / SERIES_STEP.as_secs_f64());
                let queue = path.queue_delay(self.now);
                self.series[slot].shares.iter_mut().for_each(|share| share.delivered.push(0));
                self.series[slot].samples.push(LinkSample {
                    at_s,
                    capacity_bps: by_rate.or(by_trace),
                    offered,
                    delivered,
                    carried,
                    lost,
                    dropped,
                    outage,
                    queue_ms: if queue == Duration::MAX { 1e9 } else { queue.as_secs_f64() * 1e3 },
                    is_out: path.outage().is_some(),
                });
            }
        }
    }

    /// Hashes the time and some numbers.
    fn note(&mut self, numbers: &[u64]) {
        let time = (self.now - self.start).as_nanos() as u64;
        self.hash.add(std::iter::once(time).chain(numbers.iter().copied()));
    }
}

impl Plan {
    /// The traffic, without its places in the file.
    pub fn traffic(&self) -> Vec<&crate::plan::TrafficPlan> {
        self.traffic.iter().map(toml::Spanned::get_ref).collect()
    }

    /// The number of a link.
    pub fn link_number(&self, name: &str) -> Option<usize> {
        self.links.iter().position(|link| link.get_ref().name.get_ref() == name)
    }
}
