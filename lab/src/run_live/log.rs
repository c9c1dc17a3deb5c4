//! What the applications of all nodes have sent, and what of it has arrived. All clocks are one, that of this process.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aquila_proto::mavlink::Frame;

use crate::frames;
use crate::record::Flow;

/// What a message is, by where and how it comes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A command.
    Command,
    /// A parameter.
    Parameter,
    /// A frame of video.
    Frame,
    /// A datagram beside the contender.
    Datagram,
    /// What goes with a command.
    Data,
}

/// What a sender is asked, or told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// To send a command now, beside the interval.
    Command,
    /// A message of a flow has arrived.
    Arrived {
        /// The flow.
        flow: usize,
        /// Its number among those of its kind and node.
        number: u32,
        /// When, since the start.
        at: Duration,
    },
}

/// A message by what is in its packets: the node that sent it, its kind and its number among those.
type Key = (usize, Kind, u32);

/// Shared by all threads.
#[derive(Debug, Clone, Default)]
pub struct Log(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    start: Option<Instant>,
    flows: Vec<Flow>,
    /// Flow and number of what was sent; packets of a frame that are missing.
    sent: BTreeMap<Key, (usize, u32, u32)>,
    counts: [[u32; KINDS]; 2],
    /// Who wants to know that messages of a flow arrive.
    listeners: BTreeMap<usize, Sender<Ask>>,
    /// Of what comes more than once the first counts, and the rest is dropped.
    drops_copies: bool,
}

const KINDS: usize = Kind::Data as usize + 1;

/// A flow as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowNow {
    /// Its name.
    pub name: String,
    /// 0: from the first node, 1: to it.
    pub direction: usize,
    /// Messages sent.
    pub sent: usize,
    /// Messages that have arrived.
    pub arrived: usize,
    /// Bytes of these.
    pub bytes: u64,
    /// Time that the newest of them took.
    pub latency: Option<Duration>,
}

impl Log {
    /// A new flow; gives its number.
    pub fn add_flow(&self, name: &str, direction: usize) -> usize {
        let mut inner = self.lock();
        inner.flows.push(Flow { name: name.to_owned(), direction, messages: Vec::new(), skipped: Vec::new() });
        inner.flows.len() - 1
    }

    /// Applications drop what they have already had.
    pub fn drop_copies(&self) {
        self.lock().drops_copies = true;
    }

    /// Tells a sender of each message of a flow that arrives, beside the link.
    pub fn listen(&self, flow: usize, listener: Sender<Ask>) {
        self.lock().listeners.insert(flow, listener);
    }

    /// Times count from here.
    pub fn start(&self, at: Instant) {
        self.lock().start = Some(at);
    }

    /// Notes a message that is being sent in so many packets; gives its number among those of its kind and node.
    pub fn on_sent(&self, node: usize, kind: Kind, flow: usize, bytes: usize, packets: u32) -> u32 {
        let mut inner = self.lock();
        let at = inner.elapsed();
        inner.on_sent(at, node, kind, flow, bytes, packets)
    }

    /// Notes a frame of the first node's that was filmed then, and is sent now.
    pub fn on_filmed(&self, flow: usize, at: Duration, bytes: usize, packets: u32, propagation: Duration) -> u32 {
        let mut inner = self.lock();
        let number = inner.on_sent(at, 0, Kind::Frame, flow, bytes, packets);
        if let Some(frame) = inner.flows[flow].messages.last_mut() {
            frame.propagation = propagation;
        }
        number
    }

    /// Notes a picture that was due then, and was not encoded.
    pub fn on_skipped(&self, flow: usize, at: Duration) {
        self.lock().flows[flow].skipped.push(at);
    }

    /// Notes that a packet of a message has come to a node.
    pub fn on_arrived(&self, node: usize, kind: Kind, number: u32) {
        let mut inner = self.lock();
        let at = inner.elapsed();
        let Some((flow, message, missing)) = inner.sent.get_mut(&(1 - node, kind, number)) else { return };
        *missing = missing.saturating_sub(1);
        let (flow, message, is_whole) = (*flow, *message, *missing == 0);
        if !is_whole {
            return;
        }
        let is_copy = inner.flows[flow].messages.get(message as usize).is_some_and(|message| message.times > 0);
        if !(is_copy && inner.drops_copies) {
            inner.flows[flow].on_arrived(message, at);
        }
        if let Some(listener) = inner.listeners.get(&flow).filter(|_| !is_copy) {
            // Who has ended sends nothing any more.
            let _ = listener.send(Ask::Arrived { flow, number, at });
        }
    }

    /// The same of a MAVLink frame, if it is one of ours.
    pub fn on_mavlink(&self, node: usize, frame: &Frame) {
        if let Some(number) = frames::command_index(frame) {
            self.on_arrived(node, Kind::Command, number);
        } else if let Some(number) = frames::param_index(frame) {
            self.on_arrived(node, Kind::Parameter, u32::from(number));
        } else if let Some(number) = frames::data_index(frame) {
            self.on_arrived(node, Kind::Data, number);
        }
    }

    /// How it stands.
    pub fn now(&self) -> Vec<FlowNow> {
        let of = |flow: &Flow| {
            let arrived = || flow.messages.iter().filter(|message| message.times > 0);
            let newest = arrived().next_back();
            FlowNow {
                name: flow.name.clone(),
                direction: flow.direction,
                sent: flow.messages.len(),
                arrived: arrived().count(),
                bytes: arrived().map(|message| u64::from(message.bytes)).sum(),
                latency: newest.and_then(|message| Some(message.arrived?.saturating_sub(message.sent))),
            }
        };
        self.lock().flows.iter().map(of).collect()
    }

    /// All of it; the log is empty then.
    pub fn take(&self) -> Vec<Flow> {
        std::mem::take(&mut self.lock().flows)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // What is behind it is whole at any time.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn on_sent(&mut self, at: Duration, node: usize, kind: Kind, flow: usize, bytes: usize, packets: u32) -> u32 {
        let count = &mut self.counts[node][kind as usize];
        let number = *count;
        *count += 1;
        let message = self.flows[flow].on_sent(at, bytes);
        self.sent.insert((node, kind, in_packet(kind, number)), (flow, message, packets));
        number
    }

    fn elapsed(&self) -> Duration {
        self.start.map_or(Duration::ZERO, |start| start.elapsed())
    }
}

/// A parameter has room for 16 bits of its number.
fn in_packet(kind: Kind, number: u32) -> u32 {
    if kind == Kind::Parameter { number & 0xffff } else { number }
}
