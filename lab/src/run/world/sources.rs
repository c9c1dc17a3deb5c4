//! The applications of a run: what each of them sends, and when.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use aquila_emu::Ecn;

use super::World;
use crate::closed_loop::ClosedLoop;
use crate::pair::IP_UDP;
use crate::plan::{CompanyPlan, Time, TrafficKind, VideoTraffic};
use crate::record::Flow;
use crate::run::camera::{Encoded, FrameEncoder, SizeModel};
use crate::run::contender::{Contender, Content, Data, Outgoing, Wanted, Wire};
use crate::run::datagrams::{COMMAND_BYTES, PARAMETER_BYTES};
use crate::run::direction_from;

/// Later than the end of the run.
pub const NEVER: Duration = Duration::from_secs(1);

/// An application that sends.
pub struct Source<'a> {
    pub flow: usize,
    /// Who carries it: the contender, or one of its company, from 1.
    pub party: usize,
    pub node: usize,
    pub kind: TrafficKind,
    /// Where datagrams go.
    link: usize,
    pub next: Instant,
    /// How many it has sent.
    count: u64,
    began: Instant,
    pub until: Instant,
    /// Of video.
    pub encoder: Option<Box<dyn FrameEncoder + 'a>>,
    /// What it is making, and when each is ready.
    encoding: VecDeque<(Instant, Outgoing)>,
    /// Of commands: the flow of what goes with each, and its bytes.
    data: Option<(usize, usize)>,
    /// Of commands that wait for each other.
    awaits: Option<ClosedLoop>,
}

impl Source<'_> {
    /// When a frame leaves the encoder.
    pub fn encoded(&self) -> Option<Instant> {
        self.encoding.front().map(|(ready, _)| *ready)
    }
}

impl<'a> World<'a> {
    /// What the applications send by the contender, or by one of its company.
    pub(super) fn add_sources(&mut self, party: usize, company: Option<&CompanyPlan>) {
        let from_then_on = company.map_or(Duration::ZERO, |company| company.at.get());
        for traffic in self.plan.traffic() {
            for node in 0..2 {
                let from = traffic.from.get_ref();
                let Ok(kind) = traffic.kind() else { continue };
                let is_beside = company.is_some() && traffic.datagrams.is_some();
                if is_beside || from != "both" && *from != self.plan.nodes[node] {
                    continue;
                }
                let mut add_flow = |name: &str| {
                    let name = company.map_or_else(|| name.to_owned(), |company| company.flow(name));
                    self.flows.push(Flow { name, direction: node, messages: Vec::new(), skipped: Vec::new() });
                    self.flows.len() - 1
                };
                let flow = add_flow(traffic.name());
                let data = traffic.data().map(|(name, bytes)| (add_flow(&name), bytes));
                let next = self.start + traffic.at.get().max(from_then_on) + kind.phase(self.seed, flow + 1);
                let until = traffic.until.map_or(self.end, |until| self.start + until.get()).min(self.end);
                let link = traffic.link.as_ref().and_then(|link| self.plan.link_number(link.get_ref())).unwrap_or(0);
                let encoder = match kind {
                    TrafficKind::Video(video) => {
                        let video = if self.truth.is_some() { video.exact() } else { video };
                        Some(Box::new(SizeModel::new(video, self.seed + flow as u64)) as Box<dyn FrameEncoder>)
                    }
                    _ => None,
                };
                let give_up = self.give_up.filter(|_| company.is_none());
                let awaits = kind.closed_loop(next - self.start, give_up);
                self.sources.push(Source {
                    flow,
                    party,
                    node,
                    kind,
                    link,
                    next,
                    count: 0,
                    began: next,
                    until,
                    encoder,
                    encoding: VecDeque::new(),
                    data,
                    awaits,
                });
            }
        }
    }
}

impl World<'_> {
    /// Message `number` of a flow has arrived: a closed loop goes on.
    pub(super) fn tell_source(&mut self, flow: usize, number: u32) {
        let since = self.now - self.start;
        let Some(source) = self.sources.iter_mut().find(|source| source.flow == flow) else { return };
        let Some(awaits) = &mut source.awaits else { return };
        awaits.on_delivered(number, since);
        source.next = awaits.next().map_or(self.end + NEVER, |next| self.start + next);
    }

    /// Whether nothing is sent any more, because all there is are closed loops that have come to their end.
    pub(super) fn is_done(&self) -> bool {
        let since = self.now - self.start;
        let is_done = |source: &Source<'_>| source.awaits.as_ref().is_some_and(|awaits| awaits.is_done(since));
        !self.sources.is_empty() && self.sources.iter().all(is_done)
    }

    /// Each end sends a command beside the interval.
    pub(super) fn emit_commands(&mut self, contender: &mut dyn Contender) {
        for node in 0..2 {
            let of_node = |source: &&Source| source.node == node && matches!(source.kind, TrafficKind::Commands(_));
            if let Some(flow) = self.sources.iter().find(of_node).map(|source| source.flow) {
                self.send(contender, flow, node, Content::Command, COMMAND_BYTES);
            }
        }
    }

    pub(super) fn emit(&mut self, contender: &mut dyn Contender, index: usize) {
        let Source { flow, node, kind, link, count, began, .. } = self.sources[index];
        let nth = |interval: Duration, n: u64| began + mul(interval, n);
        let next = match kind {
            TrafficKind::Commands(commands) => {
                self.emit_command(contender, index);
                let awaits = self.sources[index].awaits.as_ref();
                awaits.map_or(nth(commands.interval(), count + 1), |awaits| {
                    awaits.next().map_or(self.end + NEVER, |next| self.start + next)
                })
            }
            TrafficKind::Parameters(every) => {
                self.send(contender, flow, node, Content::Parameter, PARAMETER_BYTES);
                nth(every.every.get(), count + 1)
            }
            TrafficKind::Video(video) => {
                // Frames do not drift: the n-th of them is due at n / rate.
                let due = |nth: u64| {
                    let nanos = u128::from(nth) * 1_000_000_000 / u128::from(video.frames_per_second);
                    began + Duration::from_nanos(nanos as u64)
                };
                if let Some(wait) = self.emit_frame(contender, index, video, due(count)) {
                    self.sources[index].next = self.now + wait;
                    return;
                }
                due(count + 1)
            }
            TrafficKind::Datagrams(datagrams) => {
                let bytes = datagrams.packet.bytes();
                let number = self.flows[flow].on_sent(self.now - self.start, bytes);
                self.transmit(node, link, bytes + IP_UDP, Ecn::NotEct, Wire::Part { flow, number, of: 1 });
                let bits = u128::from(count + 1) * bytes as u128 * 8;
                began + Duration::from_nanos((bits * 1_000_000_000 / u128::from(datagrams.rate.bps())) as u64)
            }
        };
        self.sources[index].count += 1;
        self.sources[index].next = next;
    }

    /// A command, and what goes with it right behind. What a closed loop waits for is noted before it is sent: without a
    /// delay it is delivered at once.
    fn emit_command(&mut self, contender: &mut dyn Contender, index: usize) {
        let Source { flow, node, data, .. } = self.sources[index];
        let (number, since) = (self.flows[flow].messages.len() as u32, self.now - self.start);
        if let Some(awaits) = &mut self.sources[index].awaits {
            awaits.on_sent(number, since);
        }
        self.send(contender, flow, node, Content::Command, COMMAND_BYTES);
        if let Some((flow, bytes)) = data {
            let number = self.flows[flow].on_sent(since, bytes);
            contender.send_data(self.now, Data { flow, number, node, bytes });
            self.drain(contender);
        }
    }

    /// A frame is encoded and sent, or left out, unless it has to wait for its turn: gives for how long.
    fn emit_frame(
        &mut self,
        contender: &mut dyn Contender,
        index: usize,
        video: VideoTraffic,
        due: Instant,
    ) -> Option<Duration> {
        let Source { flow, node, count, .. } = self.sources[index];
        let wanted = match video.follow {
            true => contender.next_frame(self.now, node, flow, self.now.saturating_duration_since(due)),
            false => Wanted::default(),
        };
        self.drain(contender);
        if video.asks && wanted.wait.is_some() {
            return wanted.wait;
        }
        let encoder = self.sources[index].encoder.as_mut().filter(|_| !wanted.skip);
        let encoded = encoder.and_then(|encoder| encoder.encode(count, wanted.rate, wanted.recovery));
        let Some(Encoded { bytes, recovery }) = encoded else {
            self.flows[flow].skipped.push(due - self.start);
            return None;
        };
        let propagation = self.channels[0].look(direction_from(node)).delay();
        let number = self.flows[flow].on_sent(due - self.start, bytes);
        let message = &mut self.flows[flow].messages[number as usize];
        (message.recovery, message.propagation) = (recovery, propagation);
        let content = Content::Frame { bytes, packet: video.packet.bytes(), recovery };
        let takes = video.encoding.map_or(Duration::ZERO, Time::get);
        self.sources[index].encoding.push_back((self.now + takes, Outgoing { flow, number, node, content }));
        self.send_encoded(contender, index);
        None
    }

    /// Frames leave the encoder.
    pub(super) fn send_encoded(&mut self, contender: &mut dyn Contender, index: usize) {
        while let Some((_, frame)) = self.sources[index].encoding.pop_front_if(|(ready, _)| *ready <= self.now) {
            contender.send(self.now, frame);
            self.drain(contender);
        }
    }

    fn send(&mut self, contender: &mut dyn Contender, flow: usize, node: usize, content: Content, bytes: usize) {
        let number = self.flows[flow].on_sent(self.now - self.start, bytes);
        let propagation = self.channels[0].look(direction_from(node)).delay();
        self.flows[flow].messages[number as usize].propagation = propagation;
        contender.send(self.now, Outgoing { flow, number, node, content });
        self.drain(contender);
    }
}

fn mul(duration: Duration, times: u64) -> Duration {
    Duration::from_nanos(u64::try_from(duration.as_nanos() * u128::from(times)).unwrap_or(u64::MAX))
}
