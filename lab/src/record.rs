//! What happened in a run, the same for virtual time and live: every message, the links ten times a second, events.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::plan::Mode;

/// A flow of an application in one direction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Flow {
    /// Its name in the plan.
    pub name: String,
    /// 0: from the first node, 1: to it.
    pub direction: usize,
    /// Its messages, in order of sending: commands, parameters, frames, datagrams.
    #[serde(skip)]
    pub messages: Vec<Message>,
    /// Frames of video that were not encoded, when they were due.
    #[serde(skip)]
    pub skipped: Vec<Duration>,
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// When the application sent it, since the start.
    pub sent: Duration,
    /// Its bytes, as the application counts them.
    pub bytes: u32,
    /// When it was first given out whole at the other end.
    pub arrived: Option<Duration>,
    /// How often it was given out.
    pub times: u32,
    /// Of a frame: a decoder can begin with it.
    pub recovery: bool,
    /// Propagation delay of the first link when it was sent.
    pub propagation: Duration,
}

/// A direction of a link over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LinkSeries {
    /// The link.
    pub link: String,
    /// 0: from the first node, 1: to it.
    pub direction: usize,
    /// Every tenth of a second.
    pub samples: Vec<LinkSample>,
    /// Who shares it, the contender first; empty if it is alone.
    #[serde(skip)]
    pub shares: Vec<LinkShare>,
}

/// What one of those on a link had of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LinkShare {
    /// Who.
    pub name: String,
    /// Bytes that came out, in the same tenths of a second.
    pub delivered: Vec<u64>,
}

/// A direction of a link in a tenth of a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LinkSample {
    /// Its end, seconds since the start.
    pub at_s: f64,
    /// What it could have carried, bit/s; `None` without limit.
    pub capacity_bps: Option<f64>,
    /// Bytes pushed, on the wire.
    pub offered: u64,
    /// Bytes that came out.
    pub delivered: u64,
    /// Bytes that have left the bottleneck: delivered, or lost on the air behind it.
    pub carried: u64,
    /// Bytes lost at random.
    pub lost: u64,
    /// Bytes that found the queue full or were dropped by its management.
    pub dropped: u64,
    /// Bytes lost in an outage.
    pub outage: u64,
    /// Time that a packet pushed at its end has to wait, milliseconds.
    pub queue_ms: f64,
    /// The link is out.
    pub is_out: bool,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// Seconds since the start.
    pub at_s: f64,
    /// Where: a node, a link, or nothing.
    pub place: String,
    /// What.
    pub text: String,
}

/// One of the plan's own programs, live.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Program {
    /// Where.
    pub node: String,
    /// Its name.
    pub name: String,
    /// `set-up`, `process` or `tear-down`.
    pub stage: &'static str,
    /// As shells have it; `None` if it was not started, or ended because the run was over.
    pub exit_code: Option<i32>,
    /// What it has written.
    pub log: PathBuf,
}

/// One run of one contender.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// Who.
    pub contender: String,
    /// In which way.
    pub mode: Mode,
    /// Its seed.
    pub seed: u64,
    /// Length, seconds.
    pub seconds: f64,
    /// What the applications sent.
    pub flows: Vec<Flow>,
    /// The links.
    pub links: Vec<LinkSeries>,
    /// What happened.
    pub events: Vec<Event>,
    /// The plan's own programs.
    pub programs: Vec<Program>,
    /// Ends of outages, since the start.
    #[serde(skip)]
    pub returns: Vec<Duration>,
    /// Over everything that happened, in order: equal seeds give equal ones, in virtual time.
    pub log_hash: String,
    /// Why the run does not count, live.
    pub invalid: Option<String>,
}

impl Run {
    /// The flow of that name in that direction.
    pub fn flow(&self, name: &str, direction: usize) -> Option<&Flow> {
        self.flows.iter().find(|flow| flow.name == name && flow.direction == direction)
    }
}

impl Flow {
    /// Notes a message that is being sent; gives its number.
    pub fn on_sent(&mut self, sent: Duration, bytes: usize) -> u32 {
        let (arrived, times, recovery, propagation) = (None, 0, false, Duration::ZERO);
        self.messages.push(Message { sent, bytes: bytes as u32, arrived, times, recovery, propagation });
        self.messages.len() as u32 - 1
    }

    /// Notes that message `number` was given out.
    pub fn on_arrived(&mut self, number: u32, at: Duration) {
        if let Some(message) = self.messages.get_mut(number as usize) {
            message.arrived.get_or_insert(at);
            message.times += 1;
        }
    }
}
