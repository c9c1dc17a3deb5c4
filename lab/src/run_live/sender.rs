//! What sends at a node, each message at its time.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use aquila_proto::Side;
use aquila_proto::mavlink::Frame;

use super::camera::Wishes;
use super::copies::Copies;
use super::log::{Ask, Kind, Log};
use super::sockets::{Heard, PATIENCE};
use super::stream::Outlet;
use crate::closed_loop::ClosedLoop;
use crate::frames;
use crate::live::prioritise;
use crate::plan::TrafficKind;
use crate::run::{COMMAND_BYTES, PARAMETER_BYTES};

/// Between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// All that sends from a node.
#[derive(Debug)]
pub struct Sender {
    /// 0 or 1.
    pub node: usize,
    /// One for each flow.
    pub sources: Vec<Source>,
    /// Where commands and parameters go.
    pub mavlink: Mavlink,
    /// Where video goes.
    pub video: Option<(UdpSocket, SocketAddr)>,
    /// What the link asks of the camera.
    pub wishes: Arc<Wishes>,
    /// Sequence number of the next RTP packet.
    pub rtp_seq: u16,
    /// Where messages are noted.
    pub log: Log,
    /// When the next heartbeat is due, of an application that has nothing else to send: a port has to hear of it before it
    /// gives anything out.
    pub heartbeat: Option<Instant>,
    /// Set when nothing will be sent any more, because all there was are closed loops that have come to their end.
    pub done: Arc<AtomicBool>,
}

/// A flow.
#[derive(Debug)]
pub struct Source {
    /// Its number in the log.
    pub flow: usize,
    /// What it is.
    pub kind: TrafficKind,
    /// Of datagrams: their socket, and where it sends to.
    pub datagrams: Option<(UdpSocket, SocketAddr)>,
    /// First message, since the start.
    pub at: Duration,
    /// None from here on.
    pub until: Duration,
    /// Messages so far.
    pub count: u64,
    /// Of commands: the flow of what goes with each, and its bytes.
    pub data: Option<(usize, usize)>,
    /// Of commands that wait for each other.
    pub awaits: Option<ClosedLoop>,
}

/// Where a node's MAVLink goes.
#[derive(Debug)]
pub enum Mavlink {
    /// Nowhere: there is no contender.
    Nowhere,
    /// In datagrams.
    Datagrams(UdpSocket, SocketAddr),
    /// In datagrams to the peer that was heard last: it may have another address by now.
    Answers(UdpSocket, Heard),
    /// In datagrams of which there are several.
    Copies(Copies),
    /// Into a connection, or all of several; and into which of them what goes with the next command is left.
    Streams(Vec<Outlet>, usize),
}

impl Sender {
    /// Sends from `start` on, and a command each time that it is asked for one, until told to stop.
    pub fn run(mut self, start: Instant, asked: &Receiver<Ask>, stop: &AtomicBool) {
        prioritise();
        while !stop.load(Ordering::Relaxed) {
            let next = self.sources.iter().filter_map(Source::next).min().map(|next| start + next);
            let wait = next.map_or(PATIENCE, |next| next.saturating_duration_since(Instant::now()));
            match asked.recv_timeout(wait.min(PATIENCE)) {
                Ok(Ask::Command) => {
                    let commands = self.sources.iter().find(|source| matches!(source.kind, TrafficKind::Commands(_)));
                    if let Some(flow) = commands.map(|source| source.flow) {
                        self.send_command(flow);
                    }
                }
                Ok(Ask::Arrived { flow, number, at }) => {
                    let awaits = self.sources.iter_mut().filter(|source| source.flow == flow);
                    awaits.flat_map(|source| &mut source.awaits).for_each(|awaits| awaits.on_delivered(number, at));
                }
                Err(_) => {}
            }
            for index in 0..self.sources.len() {
                while self.sources[index].next().is_some_and(|next| start + next <= Instant::now()) {
                    self.emit(index, start);
                }
            }
            if let Some(due) = self.heartbeat.filter(|due| *due <= Instant::now()) {
                self.mavlink.send(&frames::heartbeat(self.side()));
                self.heartbeat = Some(due + HEARTBEAT);
            }
            let since = start.elapsed();
            let is_done = |source: &Source| source.awaits.as_ref().is_some_and(|awaits| awaits.is_done(since));
            self.done.store(self.sources.iter().all(is_done), Ordering::Relaxed);
        }
    }

    fn emit(&mut self, index: usize, start: Instant) {
        let Source { flow, kind, data, .. } = self.sources[index];
        self.sources[index].count += 1;
        match kind {
            TrafficKind::Commands(_) => {
                let number = self.send_command(flow);
                if let Some(awaits) = &mut self.sources[index].awaits {
                    awaits.on_sent(number, start.elapsed());
                }
                if let Some((flow, bytes)) = data {
                    self.send_data(flow, bytes);
                }
            }
            TrafficKind::Parameters(_) => {
                let count = self.log.on_sent(self.node, Kind::Parameter, flow, PARAMETER_BYTES, 1);
                self.mavlink.send(&frames::param_value(self.side(), count as u16));
            }
            TrafficKind::Video(video) => {
                let Some((socket, to)) = &self.video else { return };
                let told = self.wishes.rate().filter(|_| video.follow);
                let rate = told.unwrap_or(video.rate.bitrate()).min(video.rate.bitrate());
                let frame = Duration::from_secs(1) / video.frames_per_second;
                let bytes = rate.bytes_in(frame).as_usize().max(frames::RTP_MIN);
                let packet = video.packet.bytes();
                let packets = bytes.div_ceil(packet) as u32;
                let count = self.log.on_sent(self.node, Kind::Frame, flow, bytes, packets);
                let mut left = bytes;
                while left > 0 {
                    let len = left.min(packet).max(frames::RTP_MIN);
                    left = left.saturating_sub(len);
                    // What the kernel does not take is lost, as for any application.
                    let _ = socket.send_to(&frames::rtp(self.rtp_seq, count, len, left == 0), to);
                    self.rtp_seq = self.rtp_seq.wrapping_add(1);
                }
            }
            TrafficKind::Datagrams(datagrams) => {
                let bytes = datagrams.packet.bytes().max(frames::RTP_MIN);
                let count = self.log.on_sent(self.node, Kind::Datagram, flow, bytes, 1);
                if let Some((socket, to)) = &self.sources[index].datagrams {
                    let _ = socket.send_to(&frames::rtp(count as u16, count, bytes, true), to);
                }
            }
        }
    }

    /// Gives its number among those of its kind.
    fn send_command(&mut self, flow: usize) -> u32 {
        let count = self.log.on_sent(self.node, Kind::Command, flow, COMMAND_BYTES, 1);
        self.mavlink.send(&frames::command(self.side(), count));
        count
    }

    fn send_data(&mut self, flow: usize, bytes: usize) {
        let parts = frames::data(self.side(), 0, bytes).len() as u32;
        let count = self.log.on_sent(self.node, Kind::Data, flow, bytes, parts);
        self.mavlink.send_data(&frames::data(self.side(), count, bytes));
    }

    fn side(&self) -> Side {
        if self.node == 0 { Side::Air } else { Side::Ground }
    }
}

impl Source {
    /// When it sends next, since the start.
    fn next(&self) -> Option<Duration> {
        if let Some(awaits) = &self.awaits {
            return awaits.next().filter(|next| *next < self.until);
        }
        let after = match self.kind {
            TrafficKind::Commands(commands) => commands.interval().as_nanos() * u128::from(self.count),
            TrafficKind::Parameters(every) => every.every.get().as_nanos() * u128::from(self.count),
            TrafficKind::Video(video) => u128::from(self.count) * 1_000_000_000 / u128::from(video.frames_per_second),
            TrafficKind::Datagrams(datagrams) => {
                let bits = u128::from(self.count) * datagrams.packet.bytes() as u128 * 8;
                bits * 1_000_000_000 / u128::from(datagrams.rate.bps())
            }
        };
        Some(self.at + Duration::from_nanos(after as u64)).filter(|next| *next < self.until)
    }
}

impl Mavlink {
    /// What the kernel does not take is lost, as for any application.
    fn send(&self, frame: &Frame) {
        match self {
            Self::Copies(copies) => copies.send(frame),
            Self::Streams(outlets, _) => outlets.iter().for_each(|outlet| outlet.send(frame.bytes())),
            _ => self.send_datagram(frame.bytes()),
        }
    }

    /// What goes with a command: one datagram, or over one of the connections, in turn.
    fn send_data(&mut self, frames: &[Frame]) {
        let message: Vec<u8> = frames.iter().flat_map(|frame| frame.bytes()).copied().collect();
        match self {
            Self::Copies(copies) => copies.send_data(&message),
            Self::Streams(outlets, turn) => {
                outlets[*turn % outlets.len()].send(&message);
                *turn += 1;
            }
            _ => self.send_datagram(&message),
        }
    }

    fn send_datagram(&self, datagram: &[u8]) {
        match self {
            Self::Datagrams(socket, to) => drop(socket.send_to(datagram, to)),
            Self::Answers(socket, heard) => {
                if let Some(to) = *heard.lock().unwrap_or_else(PoisonError::into_inner) {
                    let _ = socket.send_to(datagram, to);
                }
            }
            Self::Nowhere | Self::Copies(_) | Self::Streams(..) => {}
        }
    }
}
