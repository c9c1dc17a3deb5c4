//! What leaves, and in which order: what keeps the other side informed, then connections and datagrams by their priority; of
//! one connection, what was lost before what is new.

use std::time::{Duration, Instant};

use aquila_fec::rlc::RepairHeader;
use bytes::Bytes;

use super::super::connection::{Connection, ConnectionId, Kept};
use super::super::options::{InnerOption, OptionsWriter};
use super::super::{Flags, HEADER_LEN, Header, Seq, TransferMode, encode_segment};
use super::receive::CONTROL;
use super::{Endpoint, GREETING, Greeting, MAX_REPLICAS, data_flags};

/// A report that no MACK has taken along for this long leaves by itself.
const REPORT_ALONE: Duration = Duration::from_millis(200);
/// Holes are told of again after so many round trips, those that are due a sixth of it later along with them.
const HOLES_AGAIN: f64 = 1.5;
/// ACK numbers that leave room for options in a MACK.
const OPTIONS_ROOM: usize = 160;

/// What leaves next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Greeting,
    Report,
    Reset,
    Mack(ConnectionId),
    Again(ConnectionId),
    Asyn(ConnectionId),
    Probe(ConnectionId),
    New(ConnectionId),
    Repair(ConnectionId),
    Afin(ConnectionId),
    Datagram,
}

impl Endpoint {
    /// The next segment to be sent now: its bytes are put into `out`, and the line that it is for is given. Call it until it
    /// gives none.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<usize> {
        out.clear();
        if !self.security.can_seal() {
            return None;
        }
        for at in 0..self.lines.len() {
            let line = &mut self.lines[at];
            if line.pacer.is_free(now)
                && let Some(copy) = line.replicas.pop_front()
            {
                out.extend_from_slice(&copy);
                return Some(self.on_line(now, at, out));
            }
        }
        let line = (0..self.lines.len()).find(|at| self.lines[*at].pacer.is_free(now))?;
        while let Some(task) = self.next_task(now) {
            let line = self.line_for(now, task, line);
            if self.perform(now, line, task, out) {
                return Some(self.on_line(now, line, out));
            }
        }
        None
    }

    /// What repairs segments goes over another line than the last of them, if one is free.
    fn line_for(&self, now: Instant, task: Task, line: usize) -> usize {
        let Task::Repair(id) = task else { return line };
        let coder = self.connection(id).and_then(|connection| connection.coder.as_ref());
        let is_other = |at: &usize| coder.is_some_and(|coder| coder.line != *at) && self.lines[*at].pacer.is_free(now);
        (0..self.lines.len()).find(is_other).unwrap_or(line)
    }

    fn on_line(&mut self, now: Instant, at: usize, out: &[u8]) -> usize {
        let line = &mut self.lines[at];
        let bytes = out.len() + line.config.framing.as_usize();
        line.pacer.on_sent(now, bytes);
        self.counters.segments_out += 1;
        self.counters.bytes_out += bytes as u64;
        at
    }

    /// What leaves next, if a line is free.
    pub(super) fn next_task(&self, now: Instant) -> Option<Task> {
        if !self.resets.is_empty() {
            return Some(Task::Reset);
        }
        let acks = self.connections.iter().filter(|connection| connection.ack_due(now));
        if let Some(connection) = acks.min_by_key(|connection| connection.config.priority) {
            return Some(Task::Mack(connection.id));
        }
        if self.report_due().is_some_and(|due| due <= now) {
            return Some(Task::Report);
        }
        let held_back = self.holds_back(now);
        // A greeting and a repair do not fit one segment.
        let repairs = !self.greets();
        let tasks =
            self.connections.iter().filter_map(|connection| Some((connection, task_of(now, connection, repairs)?)));
        let next = tasks.filter(|(connection, _)| !(held_back && connection.config.repeats()));
        // Those of one priority take turns, and after the last of them a datagram of that priority.
        let had_turn = |connection: &Connection| Some(connection.id) <= self.served;
        let turn = |connection: &Connection| (connection.config.priority, had_turn(connection), connection.id);
        let best = next.min_by_key(|(connection, _)| turn(connection));
        match (best, self.datagrams.front()) {
            (Some((connection, _)), Some(datagram))
                if (datagram.priority, false) < (connection.config.priority, had_turn(connection)) =>
            {
                Some(Task::Datagram)
            }
            (Some((_, task)), _) => Some(task),
            (None, Some(_)) => Some(Task::Datagram),
            // Any other segment greets as well.
            (None, None) => self.greeting.filter(|greeting| greeting.due <= now).map(|_| Task::Greeting),
        }
    }

    /// When a report leaves by itself.
    pub(super) fn report_due(&self) -> Option<Instant> {
        self.meter.due().map(|due| due + REPORT_ALONE)
    }

    fn perform(&mut self, now: Instant, line: usize, task: Task, out: &mut Vec<u8>) -> bool {
        match task {
            Task::Greeting => self.send_greeting(now, out),
            Task::Report => self.send_control(now, true, out),
            Task::Reset => self.send_reset(now, out),
            Task::Mack(id) => self.send_mack(now, id, out),
            Task::Again(id) => self.send_again(now, line, id, out),
            Task::Asyn(id) => self.send_asyn(now, id, out),
            Task::Probe(id) => self.send_probe(now, id, out),
            Task::New(id) => self.send_new(now, line, id, out),
            Task::Repair(id) => self.send_repair(now, id, out),
            Task::Afin(id) => self.send_afin(now, id, out),
            Task::Datagram => self.send_waiting_datagram(now, out),
        }
    }

    fn send_greeting(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        self.greeting = match self.config.security.initiates && self.greets() {
            true => self.greeting.map(|Greeting { wait, .. }| Greeting {
                due: now + wait,
                wait: (wait * 2).clamp(*GREETING.start(), *GREETING.end()),
            }),
            false => None,
        };
        self.send_control(now, false, out)
    }

    /// A segment that concerns no connection; with a report if that is wanted or due.
    fn send_control(&mut self, now: Instant, report: bool, out: &mut Vec<u8>) -> bool {
        let mut plaintext = std::mem::take(&mut self.plaintext);
        plaintext.clear();
        let mut flags = Flags::NONE;
        if report || self.meter.is_due(now) {
            flags = Flags::OPTIONS;
            let report = self.meter.tell(now).report();
            OptionsWriter::new(&mut plaintext).push(&InnerOption::Report(report));
        }
        let seq = self.next_datagram_seq();
        let header = Header::new(CONTROL, CONTROL, TransferMode::UnreliableDatagram, seq, flags);
        self.seal(now, header, plaintext, out).is_some()
    }

    fn next_datagram_seq(&mut self) -> Seq {
        self.datagram_seq = self.datagram_seq.wrapping_add(1);
        Seq(self.datagram_seq)
    }

    fn send_reset(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let Some((local, remote, seq, mode)) = self.resets.pop_front() else { return false };
        let header = Header::new(local, remote, mode, seq, Flags::RESET);
        self.seal(now, header, Vec::new(), out).is_some()
    }

    fn send_waiting_datagram(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let Some(datagram) = self.datagrams.pop_front() else { return false };
        self.served = None;
        let seq = self.next_datagram_seq();
        let header =
            Header::new(datagram.source, datagram.destination, TransferMode::UnreliableDatagram, seq, Flags::PUSH);
        self.seal(now, header, datagram.bytes.to_vec(), out).is_some()
    }

    fn send_mack(&mut self, now: Instant, id: ConnectionId, out: &mut Vec<u8>) -> bool {
        let Some(at) = self.index(id) else { return false };
        let mut plaintext = std::mem::take(&mut self.plaintext);
        plaintext.clear();
        let ecn = std::mem::take(&mut self.ecn);
        let (rtt, loss) = (self.rtt, self.loss);
        let connection = &mut self.connections[at];
        let (syn, fin) = connection.on_ack_sent(now, &rtt, loss);
        let mut flags = Flags::MACK;
        for (set, flag) in [(syn, Flags::SYN), (fin, Flags::FIN)] {
            if set {
                flags = flags | flag;
            }
        }
        let mut options = OptionsWriter::new(&mut plaintext);
        if let Some((timestamp, held)) = connection.take_echo(now) {
            let held_us = u32::try_from(held.as_micros()).unwrap_or(u32::MAX);
            options.push(&InnerOption::Echo { timestamp, held_us });
        }
        if connection.config.repeats() {
            if let Some(window) = connection.receiver.window() {
                options.push(&InnerOption::Window(window));
            }
            let damaged = connection.receiver.take_damaged();
            options.push_eln(damaged);
            if connection.config.mode == TransferMode::NearReliable {
                let holes = connection.receiver.take_holes(now, rtt.smoothed().mul_f64(HOLES_AGAIN));
                options.push_snack(holes);
            }
        }
        if self.meter.is_due(now) {
            options.push(&InnerOption::Report(self.meter.tell(now).report()));
        }
        match options.is_empty() {
            true => plaintext.clear(),
            false => flags = flags | Flags::OPTIONS,
        }
        let max = self.config.max_segment.saturating_sub(HEADER_LEN + OPTIONS_ROOM) / 4;
        let (before, acks) = match self.connections[at].config.mode {
            TransferMode::NearReliable => (self.connections[at].receiver.take_acks(0).0, Vec::new()),
            _ => self.connections[at].receiver.take_acks(max.min(usize::from(u8::MAX))),
        };
        acks.iter().for_each(|ack| plaintext.extend_from_slice(&ack.0.to_be_bytes()));
        let connection = &self.connections[at];
        let mut header = Header::new(connection.local, connection.remote, connection.config.mode, before, flags);
        header.ecn = ecn;
        self.counters.macks_out += 1;
        self.seal(now, header, plaintext, out).is_some()
    }

    fn send_asyn(&mut self, now: Instant, id: ConnectionId, out: &mut Vec<u8>) -> bool {
        let Some(at) = self.index(id) else { return false };
        let rtt = self.rtt;
        let connection = &mut self.connections[at];
        connection.on_asyn_sent(now, &rtt);
        let seq = Seq(connection.sender.next() as u32);
        let header = Header::new(connection.local, connection.remote, connection.config.mode, seq, Flags::SYN);
        self.seal(now, header, Vec::new(), out).is_some()
    }

    /// Asks whether the other side takes more.
    fn send_probe(&mut self, now: Instant, id: ConnectionId, out: &mut Vec<u8>) -> bool {
        let Some(at) = self.index(id) else { return false };
        let connection = &mut self.connections[at];
        connection.probe = false;
        connection.sender.on_probe_sent(now);
        let seq = Seq(connection.sender.next() as u32);
        let header = Header::new(connection.local, connection.remote, connection.config.mode, seq, Flags::NONE);
        self.seal(now, header, Vec::new(), out).is_some()
    }

    fn send_afin(&mut self, now: Instant, id: ConnectionId, out: &mut Vec<u8>) -> bool {
        let Some(at) = self.index(id) else { return false };
        let (rtt, loss) = (self.rtt, self.loss);
        let connection = &mut self.connections[at];
        connection.on_afin_sent(now, &rtt, loss);
        let mut flags = Flags::FIN | Flags::OPTIONS;
        if connection.carries_asyn() {
            flags = flags | Flags::SYN;
        }
        let end = Seq(connection.sender.next() as u32);
        let header = Header::new(connection.local, connection.remote, connection.config.mode, end, flags);
        let mut plaintext = Vec::new();
        OptionsWriter::new(&mut plaintext).push(&InnerOption::Final(end));
        self.seal(now, header, plaintext, out).is_some()
    }

    fn send_new(&mut self, now: Instant, line: usize, id: ConnectionId, out: &mut Vec<u8>) -> bool {
        let Some(at) = self.index(id) else { return false };
        let config = self.connections[at].config;
        let max = self.segment_room(config.mode, config.stream);
        let share = self.strength.repairs(self.config.max_segment);
        let rtt = self.rtt;
        let connection = &mut self.connections[at];
        let seq = connection.sender.next();
        let mut cut = connection.sender.cut(max);
        let asyn = connection.carries_asyn();
        let flags = data_flags(cut.push, asyn);
        if asyn {
            connection.on_asyn_sent(now, &rtt);
        }
        if config.mode == TransferMode::QuasiReliable && share > 0.0 {
            connection.cover(now, line, cut.push, &cut.bytes, share);
        }
        let header = Header::new(connection.local, connection.remote, config.mode, Seq(seq as u32), flags);
        let Some(kept) = self.seal(now, header, std::mem::take(&mut cut.bytes), out) else { return false };
        self.replicate(line, config.everywhere, out);
        let connection = &mut self.connections[at];
        match config.repeats() {
            true => {
                connection.sender.on_sent(now, line, kept, &cut);
                self.on_asked(now);
            }
            false => connection.sender.on_sent_for_good(),
        }
        self.served = Some(id);
        true
    }

    fn send_repair(&mut self, now: Instant, id: ConnectionId, out: &mut Vec<u8>) -> bool {
        let Some(at) = self.index(id) else { return false };
        let connection = &mut self.connections[at];
        let mut coded = Vec::new();
        let Some(repair) = connection.coder.as_mut().and_then(|coder| coder.repair(&mut coded)) else { return false };
        let mut plaintext = Vec::with_capacity(coded.len() + 10);
        let RepairHeader { first, count, key } = repair;
        OptionsWriter::new(&mut plaintext).push(&InnerOption::Block { first, count: (count - 1) as u8, key });
        plaintext.extend_from_slice(&coded);
        let seq = Seq(connection.sender.next() as u32);
        let header = Header::new(connection.local, connection.remote, connection.config.mode, seq, Flags::OPTIONS);
        self.counters.repairs_out += 1;
        self.seal(now, header, plaintext, out).is_some()
    }

    fn send_again(&mut self, now: Instant, line: usize, id: ConnectionId, out: &mut Vec<u8>) -> bool {
        let Some(at) = self.index(id) else { return false };
        let Some((seq, kept)) = self.connections[at].sender.again() else { return false };
        let kept = kept.clone();
        let everywhere = self.connections[at].config.everywhere;
        self.served = Some(id);
        let anew = match !kept.is_void() && self.security.still_holds(now, kept.association, kept.number) {
            true => {
                self.encode(kept.header, &kept.extension, &kept.sealed, out);
                None
            }
            false => {
                // The other side has no key for it any more, or it was cancelled.
                let Some(kept) = self.seal(now, kept.header, kept.plaintext.clone(), out) else { return false };
                Some(kept)
            }
        };
        self.replicate(line, everywhere, out);
        self.connections[at].sender.on_sent_again(now, line, seq, anew);
        self.on_asked(now);
        true
    }

    fn replicate(&mut self, line: usize, everywhere: bool, out: &[u8]) {
        if everywhere {
            let others = self.lines.iter_mut().enumerate().filter(|(other, _)| *other != line);
            for (_, other) in others {
                if other.replicas.len() == MAX_REPLICAS {
                    other.replicas.pop_front();
                }
                other.replicas.push_back(out.to_vec());
            }
        }
    }

    /// Bytes that the next segment of a connection may carry.
    fn segment_room(&self, mode: TransferMode, stream: bool) -> usize {
        if !stream {
            // A message fitted when it came. If more parity is wanted now, it has less than that: it is never cut.
            return self.most_plaintext(mode);
        }
        let most = self.max_plaintext(mode);
        let around = self.config.max_segment - most;
        let wrong = self.told.and_then(|quality| quality.bit_errors);
        match wrong.filter(|_| self.config.fit_length && self.config.protection.most() == 0) {
            Some(wrong) => best_length(around as f64 + 28.0, wrong, self.config.combine).clamp(32, most),
            None => most,
        }
    }

    /// Seals and encodes a segment; gives what is kept of it.
    fn seal(&mut self, now: Instant, mut header: Header, plaintext: Vec<u8>, out: &mut Vec<u8>) -> Option<Kept> {
        let mut sealed = plaintext.clone();
        let (extension, number, association) = match self.security.seal(now, &mut header, &mut sealed) {
            Ok(keys) => (Bytes::copy_from_slice(keys.extension), keys.number, keys.association),
            Err(_) => return None,
        };
        if let Some(greeting) = self.greeting.as_mut().filter(|_| !extension.is_empty()) {
            // It is on its way with this one.
            greeting.due = greeting.due.max(now + greeting.wait);
        }
        self.encode(header, &extension, &sealed, out);
        Some(Kept { header, extension, sealed, plaintext, association, number })
    }

    fn encode(&mut self, mut header: Header, extension: &[u8], sealed: &[u8], out: &mut Vec<u8>) {
        out.clear();
        header.has_crc = self.config.checksum;
        let crc = if header.has_crc { 4 } else { 0 };
        let bare = HEADER_LEN + extension.len() + sealed.len() + crc;
        let room = self.config.max_segment.saturating_sub(bare) / 4;
        let words = usize::from(self.strength.words(header.mode, bare)).min(room);
        header.parity_words = words as u16;
        encode_segment(&mut self.codec, &mut header, extension, sealed, out);
    }

    fn index(&self, id: ConnectionId) -> Option<usize> {
        self.connections.iter().position(|connection| connection.id == id)
    }
}

/// What a connection sends next.
fn task_of(now: Instant, connection: &Connection, repairs: bool) -> Option<Task> {
    let id = connection.id;
    if connection.sender.has_again() {
        Some(Task::Again(id))
    } else if repairs && connection.repair_due() {
        Some(Task::Repair(id))
    } else if connection.sender.has_new() {
        Some(Task::New(id))
    } else if connection.asyn_due(now) {
        Some(Task::Asyn(id))
    } else if connection.probe {
        Some(Task::Probe(id))
    } else if connection.afin_due(now) {
        Some(Task::Afin(id))
    } else {
        None
    }
}

/// Length of the payload for which a byte costs least where each segment with a wrong bit is sent again: shorter segments are
/// hit less often, and have more around them. Where two damaged ones make a whole one, a hit costs little more.
fn best_length(around: f64, wrong: f64, combine: bool) -> usize {
    let hits = if combine { wrong / 2.0 } else { wrong } * 8.0;
    // The maximum of x/(x+h)·(1-p)^(x+h), for which x² + hx = h/p.
    let half = around / 2.0;
    ((half * half + around / hits.max(1e-12)).sqrt() - half) as usize
}
