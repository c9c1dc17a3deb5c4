//! What comes in.

use std::time::{Duration, Instant};

use aquila_fec::rlc::RepairHeader;
use bytes::Bytes;

use super::super::connection::{Data, Verdict};
use super::super::guard::Place;
use super::super::options::{InnerOption, InnerOptions, SeqList};
use super::super::{
    Closed, Damaged, Decoded, Ecn, Flags, Header, News, Port, Quality, Seq, TransferMode, combine_segments,
};
use super::{Endpoint, EndpointEvent, GREETING, Greeting, LOSS_WEIGHT};
use crate::Bitrate;

/// What options say, as far as it concerns the connection.
#[derive(Debug, Default)]
struct Told {
    echo: Option<(u32, Duration)>,
    window: Option<Seq>,
    missing: Vec<Seq>,
    end: Option<Seq>,
    repair: Option<RepairHeader>,
}

/// A segment that was opened.
#[derive(Debug)]
struct Authentic {
    header: Header,
    place: Place,
    /// It has come before, or that cannot be told.
    repeated: bool,
    plaintext: Vec<u8>,
}

/// SNACK and ELN name so many segments at most that are taken in.
const MAX_MISSING: usize = 4096;
/// The port of what concerns all connections.
pub(super) const CONTROL: Port = Port(0);

impl Endpoint {
    /// Takes in what came on a line: bytes that may be a segment. Whether they were recognised as one, be it damaged.
    pub fn handle_segment(&mut self, now: Instant, line: usize, bytes: &mut [u8]) -> bool {
        let len = bytes.len();
        let decoded = self.codec.decode(bytes);
        // Of noise, in which a serial line looks for segments again and again, nothing is reckoned as the other side's time.
        if let Some(line) = self.lines.get_mut(line).filter(|_| !matches!(decoded, Err(Damaged::Unrecognisable))) {
            line.pacer.on_heard(now, len + line.config.framing.as_usize());
        }
        match decoded {
            Ok(decoded) => {
                let flipped = decoded.repaired.bits;
                let opened = Self::open(&mut self.security, now, decoded);
                self.on_opened(now, opened, len, flipped);
                true
            }
            Err(Damaged::Payload(header)) => {
                self.on_damaged(now, &header, bytes);
                true
            }
            Err(Damaged::Unrecognisable) => {
                self.counters.unrecognisable += 1;
                false
            }
        }
    }

    fn open(
        security: &mut super::Security,
        now: Instant,
        decoded: Decoded<'_>,
    ) -> Result<(Authentic, Option<News>), super::super::OpenError> {
        let Decoded { header, extension, sealed, .. } = decoded;
        let opened = security.open(now, &header, extension, sealed)?;
        let place = (opened.association, opened.number);
        let repeated = opened.repeated;
        let plaintext = opened.plaintext.to_vec();
        Ok((Authentic { header, place, repeated, plaintext }, opened.news))
    }

    fn on_opened(
        &mut self,
        now: Instant,
        opened: Result<(Authentic, Option<News>), super::super::OpenError>,
        len: usize,
        flipped: u32,
    ) {
        self.counters.segments_in += 1;
        match opened {
            Ok((segment, news)) => {
                self.meter.on_segment(len, flipped);
                self.on_news(now, news);
                self.on_authentic(now, segment);
            }
            Err(_) => {
                self.counters.forged += 1;
                self.on_unopened(now);
            }
        }
    }

    /// A copy is kept, and told of; with another one it may be whole.
    fn on_damaged(&mut self, now: Instant, header: &Header, bytes: &[u8]) {
        self.counters.damaged += 1;
        let mut believed = true;
        let at = self.find(header.destination, header.source);
        if at.is_some_and(|at| !self.connections[at].receiver.wants(header.seq)) && !header.flags.contains(Flags::MACK)
        {
            return; // It has come before.
        }
        let is_theirs =
            |at: usize| self.connections[at].config.repeats() && self.connections[at].config.mode == header.mode;
        if at.is_some_and(is_theirs) && !header.flags.contains(Flags::MACK) && !self.belief.claim(now, header) {
            believed = false;
        }
        if believed {
            self.meter.on_damaged(bytes.len());
        }
        if self.config.combine && header.has_crc && !header.flags.contains(Flags::MACK) {
            let copies = self.copies.add(header, bytes);
            let whole = copies.and_then(|copies| {
                let copies: Vec<&[u8]> = copies.iter().map(Vec::as_slice).collect();
                combine_segments(&mut self.codec, &copies)
            });
            if let Some(mut whole) = whole
                && let Ok(decoded) = self.codec.decode(&mut whole)
            {
                if let Ok((segment, news)) = Self::open(&mut self.security, now, decoded) {
                    self.counters.combined += 1;
                    self.counters.segments_in += 1;
                    if believed {
                        self.meter.on_combined();
                    }
                    self.on_news(now, news);
                    return self.on_authentic(now, segment);
                }
                self.on_unopened(now);
            }
        }
        if let Some(at) = at
            && believed
            && !header.flags.contains(Flags::MACK)
            && header.mode == self.connections[at].config.mode
        {
            self.connections[at].on_damaged(now, header.seq);
        }
    }

    fn on_news(&mut self, now: Instant, news: Option<News>) {
        let Some(News::Associated { restarted, .. }) = news else { return };
        if restarted {
            self.guard.on_restart();
            self.datagrams.clear();
            for at in (0..self.connections.len()).rev() {
                // One that has not been heard of yet was begun with this life.
                if self.connections[at].heard {
                    self.end(at, Closed::PeerRestarted);
                }
            }
        }
        if !self.config.security.initiates {
            // The answer goes at once; with data if there is any.
            self.greeting = Some(Greeting { due: now, wait: *GREETING.start() });
        } else {
            self.greeting = None;
        }
        self.events.push_back(EndpointEvent::Associated { restarted });
    }

    /// A segment that cannot be opened, since we have restarted, may begin a handshake, or say that our answer was not heard.
    fn on_unopened(&mut self, now: Instant) {
        let news = self.security.take_news();
        self.on_news(now, news);
        if self.security.wants_to_send() {
            self.answer_again(now);
        }
    }

    /// The initiator has not heard our answer yet.
    fn answer_again(&mut self, now: Instant) {
        if !self.config.security.initiates && self.greets() && self.greeting.is_none() {
            self.greeting = Some(Greeting { due: now + *GREETING.start() / 4, wait: *GREETING.start() });
        }
    }

    fn on_authentic(&mut self, now: Instant, segment: Authentic) {
        let Authentic { header, place, repeated, plaintext } = segment;
        self.heard = Some(now);
        self.unanswered = None;
        self.guard.on_segment(place);
        self.copies.forget(&header);
        self.belief.on_whole(&header);
        if header.extension_words > 0 {
            self.answer_again(now);
        }
        let (mut told, mut body) = (Told::default(), &plaintext[..]);
        if header.flags.contains(Flags::OPTIONS) {
            let Ok((options, rest)) = InnerOptions::parse(&plaintext) else {
                self.counters.malformed += 1;
                return;
            };
            body = rest;
            for option in options {
                self.on_option(option, &mut told);
            }
        }
        if header.mode == TransferMode::UnreliableDatagram {
            return self.on_datagram(&header, repeated, body);
        }
        let Some(at) =
            self.find(header.destination, header.source).or_else(|| self.accept(now, &header, place, repeated))
        else {
            if !header.flags.contains(Flags::RESET) {
                self.queue_reset(header.destination, header.source, header.seq, header.mode);
            }
            self.counters.stale += 1;
            return;
        };
        if self.connections[at].config.mode != header.mode {
            self.counters.malformed += 1;
            return;
        }
        self.on_connection(now, at, &header, place, told, Bytes::copy_from_slice(body));
    }

    fn on_option(&mut self, option: InnerOption<'_>, told: &mut Told) {
        match option {
            InnerOption::Echo { timestamp, held_us } => {
                told.echo = Some((timestamp, Duration::from_micros(held_us.into())));
            }
            InnerOption::Window(allowed) => told.window = Some(allowed),
            InnerOption::Report(report) => {
                let quality = Quality::told(&report);
                self.strength.on_quality(&quality, self.config.max_segment);
                self.strength.on_arrivals(self.counters.segments_out, &quality);
                self.told = Some(quality);
            }
            InnerOption::Snack(holes) => {
                for (start, count) in holes.iter() {
                    let room = MAX_MISSING - told.missing.len().min(MAX_MISSING);
                    told.missing.extend((0..u32::from(count)).take(room).map(|n| start.plus(n)));
                }
            }
            InnerOption::Eln(damaged) => told.missing.extend(damaged.iter()),
            InnerOption::Rate(rate) => {
                let rate = Bitrate(rate.into());
                self.lines.iter_mut().for_each(|line| line.pacer.on_hint(rate));
            }
            InnerOption::Final(end) => told.end = Some(end),
            InnerOption::Block { first, count, key } => {
                told.repair = Some(RepairHeader { first, count: u16::from(count) + 1, key });
            }
            InnerOption::Custody(_) => {}
        }
    }

    fn on_datagram(&mut self, header: &Header, repeated: bool, body: &[u8]) {
        if repeated {
            self.counters.duplicates += 1;
        } else if header.destination != CONTROL {
            self.events.push_back(EndpointEvent::Datagram {
                source: header.source,
                destination: header.destination,
                bytes: Bytes::copy_from_slice(body),
            });
        }
    }

    /// A segment of no connection that we know: it opens one if it may.
    fn accept(&mut self, now: Instant, header: &Header, place: Place, repeated: bool) -> Option<usize> {
        let opens = header.flags.contains(Flags::SYN)
            && !header.flags.contains(Flags::RESET)
            && !header.flags.contains(Flags::MACK);
        let ports = (header.destination, header.source);
        let listener =
            self.listeners.iter().find(|(range, config)| range.contains(&ports.0.0) && config.mode == header.mode);
        let config = listener.map(|(_, config)| *config)?;
        if !opens
            || repeated
            || self.connections.len() >= self.config.max_connections
            || !self.guard.may_open(ports, place)
        {
            return None;
        }
        // The first sequence number ends in 16 zeros.
        let first = Seq(header.seq.0 & 0xffff_0000);
        let connection = self.add(now, config, ports, first, false);
        let (local, remote) = ports;
        self.events.push_back(EndpointEvent::Opened { connection, local, remote, mode: config.mode });
        Some(self.connections.len() - 1)
    }

    fn on_connection(&mut self, now: Instant, at: usize, header: &Header, place: Place, told: Told, body: Bytes) {
        let flags = header.flags;
        let times = self.times();
        let connection = &mut self.connections[at];
        connection.on_word(place);
        if flags.contains(Flags::RESET) {
            return self.end(at, Closed::Reset);
        }
        if flags.contains(Flags::MACK) {
            return self.on_mack(now, at, header, place, &told, &body);
        }
        if header.ecn == Ecn::Stop || (header.ecn == Ecn::SlowDown && self.ecn != Ecn::Stop) {
            self.ecn = header.ecn;
        }
        if flags.contains(Flags::FIN) {
            let end = told.end.unwrap_or(header.seq);
            let first = connection.peer_end().is_none();
            connection.on_afin(now, end);
            if first {
                let event = EndpointEvent::PeerClosed(connection.id);
                self.events.push_back(event);
            }
            return;
        }
        if let Some(repair) = told.repair {
            let was_readable = connection.receiver.is_readable();
            self.counters.recovered += connection.mend(now, Some((repair, &body)));
            if !was_readable && connection.receiver.is_readable() {
                self.events.push_back(EndpointEvent::Readable(connection.id));
            }
            return;
        }
        let (push, syn) = (flags.contains(Flags::PUSH), flags.contains(Flags::SYN));
        if body.is_empty() && !push {
            match syn {
                true => connection.on_asyn(now),
                false => connection.on_probe(now),
            }
            return;
        }
        let data = Data { seq: header.seq, timestamp: header.timestamp, push, syn, bytes: body };
        let was_readable = connection.receiver.is_readable();
        if connection.on_data(now, data, &times) != Verdict::New {
            self.counters.duplicates += 1;
        }
        let connection = &mut self.connections[at];
        self.counters.recovered += connection.mend(now, None);
        if !was_readable && connection.receiver.is_readable() {
            self.events.push_back(EndpointEvent::Readable(connection.id));
        }
    }

    fn on_mack(&mut self, now: Instant, at: usize, header: &Header, place: Place, told: &Told, body: &[u8]) {
        let Some(acks) = SeqList::parse(body) else {
            self.counters.malformed += 1;
            return;
        };
        let connection = &mut self.connections[at];
        let sample = told.echo.and_then(|(timestamp, held)| {
            let sent = connection.sender.sent_once(timestamp)?;
            now.saturating_duration_since(sent).checked_sub(held)
        });
        let newest = connection.is_newest_mack(place);
        let lost = connection.sender.lost;
        let progress = connection.on_acks(now, &self.rtt, header.seq, acks.iter());
        if newest {
            told.missing.iter().for_each(|seq| connection.sender.on_missing(now, &self.rtt, *seq));
            connection.sender.on_window(told.window);
        }
        let id = connection.id;
        while let Some(token) = connection.sender.poll_done() {
            self.events.push_back(EndpointEvent::Acknowledged { connection: id, token });
        }
        for _ in lost..connection.sender.lost {
            self.loss += (1.0 - self.loss) * LOSS_WEIGHT;
        }
        for _ in 0..progress.segments {
            self.loss -= self.loss * LOSS_WEIGHT;
        }
        let ended = header.flags.contains(Flags::FIN).then(|| connection.on_afin_ack()).flatten();
        if let Some(sample) = sample {
            self.rtt.on_sample(sample);
            let delay = sample.saturating_sub(self.rtt.least());
            self.lines.iter_mut().for_each(|line| line.pacer.on_delay(now, delay, sample));
        }
        for line in &mut self.lines {
            line.pacer.on_ecn(now, header.ecn, self.rtt.smoothed());
        }
        if let Some(reason) = ended {
            self.end(at, reason);
        }
    }
}
