//! What the world asks of a contender, and what a contender asks of it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use aquila_emu::{Ecn, Payload};
use aquila_proto::cc::Radio;
use aquila_proto::{Bitrate, FrameBitrate};
use bytes::BytesMut;

use super::tcp::segment::Segment;

/// A message of an application.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing {
    /// Flow, as the world numbers them; a flow has one direction.
    pub flow: usize,
    /// Number within it.
    pub number: u32,
    /// The node that sends.
    pub node: usize,
    /// What it is.
    pub content: Content,
}

/// What goes with a command: telemetry that nobody waits for.
#[derive(Debug, Clone, Copy)]
pub struct Data {
    /// Flow, as the world numbers them.
    pub flow: usize,
    /// Number within it.
    pub number: u32,
    /// The node that sends.
    pub node: usize,
    /// Its bytes, as MAVLink has them.
    pub bytes: usize,
}

/// Contents of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// A command.
    Command,
    /// A parameter.
    Parameter,
    /// A frame of video of so many bytes, in packets of so many.
    Frame {
        /// Bytes.
        bytes: usize,
        /// Bytes of a packet.
        packet: usize,
        /// A decoder can begin with it.
        recovery: bool,
    },
}

/// A packet of a contender.
#[derive(Debug, Clone)]
pub enum Wire {
    /// A UDP datagram.
    Datagram {
        /// Its sender's address.
        from: SocketAddr,
        /// Where it goes.
        to: SocketAddr,
        /// Payload.
        data: BytesMut,
    },
    /// A datagram that stands for a part of a message.
    Part {
        /// The message's flow.
        flow: usize,
        /// Its number.
        number: u32,
        /// How many parts it has.
        of: u32,
    },
    /// A datagram that acknowledges a message.
    Ack {
        /// The message's flow.
        flow: usize,
        /// Its number.
        number: u32,
    },
    /// A packet of one of several connections, each of which has a link of its own.
    Over {
        /// Which link.
        link: usize,
        /// The packet.
        wire: Box<Wire>,
    },
    /// A segment of a modelled TCP connection.
    Segment {
        /// The connection.
        connection: u32,
        /// The first node's address when it left.
        address: u32,
        /// The segment.
        segment: Segment,
    },
    /// A packet of one of the contender's company.
    Of {
        /// Which of them, from 1.
        party: usize,
        /// The packet.
        wire: Box<Wire>,
    },
}

impl Payload for Wire {
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Datagram { data, .. } => data,
            Self::Part { .. } | Self::Ack { .. } | Self::Segment { .. } => &mut [],
            Self::Of { wire, .. } | Self::Over { wire, .. } => wire.bytes_mut(),
        }
    }
}

/// What a contender has to say.
#[derive(Debug)]
pub enum Output {
    /// Put this packet on a link.
    Transmit {
        /// From this node.
        node: usize,
        /// Over this link.
        link: usize,
        /// Bytes on the wire, IP header included.
        bytes: usize,
        /// ECN field.
        ecn: Ecn,
        /// What the other end gets.
        wire: Wire,
    },
    /// A message was given out whole.
    Delivered {
        /// Its flow.
        flow: usize,
        /// Its number.
        number: u32,
    },
    /// Something worth a line in the report.
    Note {
        /// At this node.
        node: usize,
        /// What.
        text: String,
    },
}

/// What a contender wants of an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The rate.
    pub rate: FrameBitrate,
    /// It had better leave the frame out.
    pub skip: bool,
    /// It had better keep it, and ask again after this.
    pub wait: Option<Duration>,
    /// It should be a recovery point.
    pub recovery: bool,
}

impl Default for Wanted {
    /// Whatever the encoder likes.
    fn default() -> Self {
        Self { rate: FrameBitrate::both(Bitrate(u64::MAX)), skip: false, wait: None, recovery: false }
    }
}

/// Both ends of a way to carry messages, in virtual time.
pub trait Contender {
    /// The run begins.
    fn start(&mut self, now: Instant);
    /// An application sends a message.
    fn send(&mut self, now: Instant, message: Outgoing);
    /// An application sends telemetry with a command.
    fn send_data(&mut self, _now: Instant, _data: Data) {}
    /// A packet arrives at a node.
    fn receive(&mut self, now: Instant, node: usize, ecn: Ecn, wire: Wire);
    /// A deadline has come.
    fn handle_timeout(&mut self, now: Instant);
    /// When that is due.
    fn next_deadline(&self) -> Option<Instant>;
    /// The next thing it has to say; to be asked until `None` after each call.
    fn poll(&mut self, now: Instant) -> Option<Output>;
    /// The first node has another address from now on; what is sent to the old one does not arrive.
    fn on_new_address(&mut self, now: Instant);
    /// Both nodes are told that a link came up.
    fn on_link_up(&mut self, now: Instant, links: &[usize]);
    /// The first node is told of its radio on a link, or of that of all.
    fn on_radio(&mut self, _now: Instant, _link: Option<usize>, _radio: &Radio) {}
    /// An outage begins after which the plan wants it to reconnect.
    fn before_reconnect(&mut self, _: Instant) {}
    /// The outage is over, and the plan wants it to reconnect, in its own way.
    fn reconnect(&mut self, now: Instant);
    /// A frame of a flow of video has been due from a node for as long as it `waited`: what the encoder should make of it, if the contender
    /// has a say.
    fn next_frame(&mut self, _now: Instant, _node: usize, _flow: usize, _waited: Duration) -> Wanted {
        Wanted::default()
    }
}
