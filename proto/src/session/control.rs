//! Control: sent first, over several bearers if there are several, and again until the other side has it.
//!
//! The first copy leaves on a stream of the best bearer, which QUIC carries to its end ([AQUILA §3.1]); all others leave in
//! datagrams, on the other bearers and some time later ([ConClone]). How many there are follows from what the bearers lose, see
//! [`crate::replication`].

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use super::bearer::{Bearer, PACKET_OVERHEAD};
use super::{Session, Side};
use crate::quic::ConnectionId;
use crate::replication::{Candidate, Copies, SPACING, Told, again_after};
use crate::sched::outbox::{Cadence, Outgoing};
use crate::wire::datagram::DatagramHeader;
use crate::wire::flow;
use crate::wire::message::{Hello, MessageHeader, put_copy};
use crate::wire::receipt::Receipt;
use crate::{BearerId, Bitrate, ByteCount, Class};

/// Control frames handed over for one packet.
const CONTROL_PACKET: usize = 1000;
/// While nothing is heard: time between probes, by how long the silence has lasted. An aircraft that goes round comes back within two
/// minutes, and what a probe waits is lost of the contact.
const PROBES: [(Duration, Duration); 3] = [
    (Duration::from_secs(3), Duration::from_millis(40)),
    (Duration::from_secs(120), Duration::from_millis(100)),
    (Duration::MAX, Duration::from_millis(250)),
];
/// Control frames in a probe: it may queue up in the network, so it is kept small.
const PROBE_BYTES: usize = 256;
/// What a datagram of copies takes besides them.
const COPY_OVERHEAD: usize = DatagramHeader::MAX_LEN + PACKET_OVERHEAD;
/// Streams carry the hello and control, which come first.
const PRIORITY: i32 = 100;

/// Where control goes now.
#[derive(Debug)]
struct Ways {
    /// Indices of bearers, the best first.
    bearers: Vec<usize>,
    /// So many of them from the beginning, and so many copies on each.
    copies: Copies,
    /// It would be more if the budget were not spent.
    over_budget: bool,
}

impl Session {
    pub(super) fn feed_hello(&mut self, index: usize) -> bool {
        let bearer = &mut self.bearers[index];
        if bearer.outbound.hello_sent {
            return false;
        }
        bearer.outbound.hello_sent = true;
        let hello = Hello {
            revision: super::PROTOCOL_REVISION,
            air: self.config.side == Side::Air,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            epoch: self.config.epoch,
            usage: bearer.usage[0],
            bearer: bearer.name.clone(),
        };
        let mut head = Vec::new();
        hello.put_on_stream(&mut head);
        // Token 0 belongs to no message: sequence numbers begin at 1.
        bearer.carrier.send_message(&head, &[], PRIORITY, 0).is_some()
    }

    /// Bearers that control goes by: those on which the other side is heard, the best first. One of which word is missing counts
    /// for none of them: it gets a copy in addition, after those that are enough without it. If the other side is heard on none,
    /// all that can send.
    fn ways(&mut self, now: Instant) -> Option<Ways> {
        let mut up: Vec<usize> = (0..self.bearers.len()).filter(|index| self.bearers[*index].is_up()).collect();
        let heard = !up.is_empty();
        if !heard {
            up = (0..self.bearers.len()).filter(|index| self.bearers[*index].carrier.is_ready()).collect();
        }
        if up.is_empty() {
            return None;
        }
        up.sort_by_key(|index| self.bearers[*index].candidate().expected());
        let (mut suspects, mut bearers): (Vec<usize>, Vec<usize>) =
            up.into_iter().partition(|index| self.bearers[*index].is_suspect(now));
        if bearers.is_empty() {
            std::mem::swap(&mut suspects, &mut bearers);
        }
        if !self.config.replicated.contains(&Class::Control) {
            bearers.truncate(1);
            suspects.clear();
        }
        let candidates: Vec<Candidate> = bearers.iter().map(|index| self.bearers[*index].candidate()).collect();
        let mut copies = self.config.reliability.copies(&candidates);
        let over_budget = heard && !self.may_spend(now, &bearers);
        if !heard {
            // Probes follow.
            (copies.bearers, copies.each) = (bearers.len(), 1);
        } else if over_budget {
            (copies.bearers, copies.each) = (bearers.len().min(2), 1);
            suspects.truncate(2 - copies.bearers);
        }
        let enough = copies.bearers;
        copies.bearers += suspects.len();
        bearers.splice(enough..enough, suspects);
        Some(Ways { bearers, copies, over_budget })
    }

    /// When copies leave: word of the first one should be there by the fastest bearer.
    fn cadence(&self) -> Option<Cadence> {
        let up = self.bearers.iter().filter(|bearer| bearer.is_up());
        let again = again_after(up.map(Bearer::rtt).min()?);
        Some(Cadence { spacing: SPACING.min(again / 4), again })
    }

    /// When the next copy leaves; on bearers on which nothing is heard there are probes.
    pub(super) fn copies_due(&self, now: Instant) -> Option<Instant> {
        let cadence = self.cadence()?;
        let due = self.outbox.next_copy(cadence)?;
        let carriers = self.bearers.iter().filter(|bearer| bearer.is_up() && !bearer.carrier.repeats(Class::Control));
        let may_leave = carriers.map(|bearer| bearer.repetitions.wait_until(now).unwrap_or(now)).min();
        let radios = self.only_radios();
        let stray = radios.and_then(|radios| self.outbox.next_stray(cadence, &radios));
        may_leave.map(|at| due.max(at)).into_iter().chain(stray).min()
    }

    /// The bearers on which the other side is heard, if all of them repeat messages by themselves: they get no copies.
    fn only_radios(&self) -> Option<Vec<BearerId>> {
        let up = || self.bearers.iter().filter(|bearer| bearer.is_up());
        let only = up().all(|bearer| bearer.carrier.repeats(Class::Control));
        let radios: Vec<BearerId> = up().map(|bearer| bearer.id).filter(|_| only).collect();
        Some(radios).filter(|radios| !radios.is_empty())
    }

    /// What left on networks that are gone leaves again where no copies do.
    fn requeue_strays(&mut self, now: Instant, cadence: Cadence) -> bool {
        let Some(radios) = self.only_radios() else { return false };
        let streams = self.outbox.requeue_strays(now, cadence, &radios);
        for stream in streams.iter().flatten() {
            if let Some(index) = self.index_of(stream.bearer()) {
                self.bearers[index].carrier.cancel(*stream);
            }
        }
        !streams.is_empty()
    }

    /// Whether there is something left to spend on copies.
    fn may_spend(&mut self, now: Instant, bearers: &[usize]) -> bool {
        let carried = bearers.iter().map(|index| self.bearers[*index].controller.capacity().0);
        self.budget.has_some(self.clock.us(now), self.config.reliability.budget, Bitrate(carried.sum()))
    }

    /// Control messages, as many as share a packet.
    pub(super) fn feed_control(&mut self, now: Instant) -> bool {
        if !self.outbox.is_waiting() {
            return false;
        }
        let Some(ways) = self.ways(now) else { return false };
        let best = ways.bearers[0];
        let mut messages: Vec<(MessageHeader, Bytes)> = Vec::new();
        let mut fed = 0;
        while fed < CONTROL_PACKET {
            let Some(message) = self.outbox.pop_waiting(&mut self.places) else { break };
            let header = self.control_header(&message);
            let mut head = Vec::with_capacity(MessageHeader::MAX_LEN);
            header.put_on_stream(&mut head);
            let carrier = &mut self.bearers[best].carrier;
            let Some(stream) = carrier.send_message(&head, &message.frame, PRIORITY, message.seq) else {
                // No stream is free: the peer has thousands open and has stopped reading.
                self.outbox.unpop(message);
                break;
            };
            fed += head.len() + message.frame.len();
            self.count_sent(Class::Control, message.frame.len());
            messages.push((header, message.frame.clone()));
            self.outbox.on_sent(now, message, stream, ways.copies.each);
            self.bearers[best].silence.on_asked(now);
        }
        self.bearers[best].counters.control_out += messages.len() as u64;
        self.accompany(now, best);
        self.counters.over_budget += if ways.over_budget { messages.len() as u64 } else { 0 };
        for index in ways.bearers[1..ways.copies.bearers].iter().copied() {
            let bytes = match self.bearers[index].carrier.repeats(Class::Control) {
                true => self.send_beside(index, &messages),
                false => self.send_copies(now, index, &messages),
            };
            if index != ways.bearers[1] {
                self.budget.spend(ByteCount::from(bytes));
            }
        }
        fed > 0
    }

    /// Sends copies on a bearer that repeats them itself until they have arrived; gives their bytes.
    fn send_beside(&mut self, index: usize, messages: &[(MessageHeader, Bytes)]) -> usize {
        let bearer = &mut self.bearers[index];
        let mut total = 0;
        for (header, frame) in messages {
            let mut head = Vec::with_capacity(MessageHeader::MAX_LEN);
            header.put_on_stream(&mut head);
            if bearer.carrier.send_message(&head, frame, PRIORITY, header.seq).is_some() {
                bearer.counters.control_out += 1;
                self.counters.copies_sent += 1;
                total += head.len() + frame.len();
            }
        }
        self.counters.redundant_bytes += total as u64;
        total
    }

    /// A message need not arrive any more by a radio that repeats it.
    pub(super) fn cancel_on_radios(&mut self, seq: u64) {
        for bearer in &mut self.bearers {
            bearer.carrier.as_radio_mut().into_iter().for_each(|radio| radio.cancel(seq));
        }
    }

    /// Sends copies on a bearer, in as many datagrams as it takes; gives their bytes.
    fn send_copies(&mut self, now: Instant, index: usize, messages: &[(MessageHeader, Bytes)]) -> usize {
        let bearer = &mut self.bearers[index];
        let room = bearer.max_body();
        let mut body = Vec::with_capacity(room);
        let mut total = 0;
        for (header, frame) in messages {
            if !body.is_empty() && body.len() + MessageHeader::MAX_LEN + 2 + frame.len() > room {
                total += body.len() + COPY_OVERHEAD;
                bearer.send_datagram(now, flow::MESSAGE, &body);
                body.clear();
            }
            put_copy(&mut body, header, frame);
        }
        total += body.len() + COPY_OVERHEAD;
        bearer.send_datagram(now, flow::MESSAGE, &body);
        bearer.counters.control_out += messages.len() as u64;
        self.counters.copies_sent += messages.len() as u64;
        self.counters.redundant_bytes += total as u64;
        total
    }

    /// Copies of control messages that were planned, or that should have been acknowledged.
    pub(super) fn feed_copies(&mut self, now: Instant) -> bool {
        if self.copies_due(now).is_none_or(|due| due > now) {
            return false;
        }
        let Some(cadence) = self.cadence() else { return false };
        if self.requeue_strays(now, cadence) {
            return self.feed_control(now);
        }
        let Some(ways) = self.ways(now) else { return false };
        let best = &mut self.bearers[ways.bearers[0]];
        let room = if best.told(now) == Told::InTime { best.max_body() } else { PROBE_BYTES };
        let mut messages: Vec<(MessageHeader, Bytes)> = Vec::new();
        let mut bytes = 0;
        for message in self.outbox.due_copies(now, cadence) {
            let len = MessageHeader::MAX_LEN + 2 + message.frame.len();
            if !messages.is_empty() && bytes + len > room {
                break;
            }
            bytes += len;
            messages.push((self.control_header(message), message.frame.clone()));
        }
        let mut planned = true;
        for (header, _) in &messages {
            planned &= self.outbox.on_copied(now, header.seq);
        }
        // Where the first ones did not get through, all bearers are tried, but those that go on trying by themselves.
        let count = if planned { ways.copies.bearers } else { ways.bearers.len() };
        for index in ways.bearers[..count].iter().copied() {
            let bearer = &self.bearers[index];
            if bearer.carrier.repeats(Class::Control) || !planned && bearer.repetitions.wait_until(now).is_some() {
                continue;
            }
            let bytes = ByteCount::from(self.send_copies(now, index, &messages));
            self.accompany(now, index);
            if planned {
                self.budget.spend(bytes);
            } else {
                let bearer = &mut self.bearers[index];
                let (carried, told) = (bearer.controller.capacity(), bearer.told(now));
                bearer.repetitions.on_sent(now, bytes, carried, told);
            }
        }
        true
    }

    /// A probe on a bearer on which nothing is heard, with what is unacknowledged; or, since the network has changed, a whole
    /// packet of it.
    pub(super) fn feed_probe(&mut self, now: Instant, index: usize) -> bool {
        if self.probe_due(now, index).is_none_or(|due| due > now) {
            return false;
        }
        let bearer = &mut self.bearers[index];
        let (up, at_once) = (bearer.is_up(), std::mem::take(&mut bearer.outbound.probe_at_once));
        let room = if at_once { bearer.max_body() } else { PROBE_BYTES };
        if !up {
            bearer.outbound.last_probe = Some(now);
        }
        let mut body = Vec::with_capacity(room);
        let mut copied = Vec::new();
        for message in self.outbox.under_way() {
            let header = self.control_header(message);
            if !body.is_empty() && body.len() + MessageHeader::MAX_LEN + 2 + message.frame.len() > room {
                break;
            }
            put_copy(&mut body, &header, &message.frame);
            copied.push(message.seq);
        }
        if copied.is_empty() {
            // Nothing is unacknowledged: a heartbeat is probe enough.
            return self.bearers[index].outbound.is_live_now() && self.send_heartbeat(now, index);
        }
        // While the other side is heard on another bearer, copies on that one are not to wait for what nobody may hear.
        if up || !self.is_up() {
            for seq in &copied {
                self.outbox.on_copied(now, *seq);
            }
        }
        self.counters.copies_sent += copied.len() as u64;
        self.counters.redundant_bytes += (body.len() + COPY_OVERHEAD) as u64;
        let bearer = &mut self.bearers[index];
        bearer.counters.control_out += copied.len() as u64;
        bearer.send_datagram(now, flow::MESSAGE, &body)
    }

    /// When a bearer's next probe is due.
    pub(super) fn probe_due(&self, now: Instant, index: usize) -> Option<Instant> {
        let bearer = &self.bearers[index];
        if !bearer.carrier.is_ready() {
            return None;
        }
        if bearer.outbound.probe_at_once {
            return Some(now);
        }
        if bearer.is_up() || bearer.carrier.is_radio() {
            return None; // A radio repeats by itself, and has no room for more.
        }
        let silence = bearer.silence.age(now)?;
        let spacing = PROBES.iter().find(|(until, _)| silence < *until).map_or(PROBES[0].1, |(_, spacing)| *spacing);
        Some(bearer.outbound.last_probe.map_or(now, |at| at + spacing))
    }

    /// Copies of control for a client that is resuming: it reads them a round trip before the handshake is complete here.
    pub(super) fn feed_resuming(&mut self, index: usize) -> bool {
        let Some((connection, copied)) = self.bearers[index].outbound.resuming else { return false };
        let Some(quic) = self.bearers[index].carrier.as_quic() else { return false };
        if !quic.is_drained_to(connection) {
            return false; // What it may be sent before its address is validated is used up: copies would only age.
        }
        let room = usize::from(self.config.quic.mtu) - 100;
        let (mut body, mut last) = (BytesMut::with_capacity(room), copied);
        flow::put(&mut body, flow::COPIES);
        for message in self.outbox.from(copied + 1) {
            if last > copied && body.len() + MessageHeader::MAX_LEN + 2 + message.frame.len() > room {
                break;
            }
            put_copy(&mut body, &self.control_header(message), &message.frame);
            last = last.max(message.seq);
        }
        if last == copied {
            return false;
        }
        let bearer = &mut self.bearers[index];
        let sent = bearer.carrier.as_quic().is_some_and(|quic| quic.send_datagram_to(connection, body.freeze()));
        bearer.outbound.resuming = sent.then_some((connection, last));
        sent
    }

    /// Word of what has arrived, on the bearers on whose streams it came, since a bearer without word is taken for one that has
    /// failed, and on the two best: the sender may hear nothing on the one that it came by.
    pub(super) fn feed_receipt(&mut self, now: Instant) -> bool {
        if self.receipt_due(now).is_none_or(|due| due > now) || !self.send_receipt(now) {
            return false;
        }
        (0..self.bearers.len()).for_each(|index| self.accompany(now, index));
        true
    }

    /// When the next receipt leaves: where it has to wait least.
    pub(super) fn receipt_due(&self, now: Instant) -> Option<Instant> {
        let up = self.bearers.iter().filter(|bearer| bearer.is_up());
        self.receipts.next_due(now, up.map(|bearer| bearer.word_delay(now)).min().unwrap_or_default())
    }

    pub(super) fn send_receipt(&mut self, now: Instant) -> bool {
        let Some((receipt, by)) = self.receipts.take(now, &self.replay) else { return false };
        let mut body = Vec::with_capacity(24);
        receipt.put(&mut body);
        let mut first = true;
        for (place, index) in self.ways(now).map_or(Vec::new(), |ways| ways.bearers).into_iter().enumerate() {
            let bearer = &self.bearers[index];
            let wanted = place < 2 || by.contains(&bearer.id);
            // A radio acknowledges what came by it.
            if wanted && bearer.is_up() && !bearer.carrier.repeats(Class::Control) {
                self.bearers[index].send_unreported(flow::RECEIPT, &body);
                self.counters.receipts += 1;
                let redundant = if std::mem::take(&mut first) { 0 } else { body.len() + PACKET_OVERHEAD + 1 };
                self.counters.redundant_bytes += redundant as u64;
            }
        }
        true
    }

    /// A control message has come, for the first time or again.
    pub(super) fn note_receipt(&mut self, connection: ConnectionId, header: &MessageHeader, fresh: bool) {
        if let Some(index) = self.index_of(connection.bearer()) {
            let counters = &mut self.bearers[index].counters;
            counters.control_won += u64::from(fresh);
            counters.control_late += u64::from(!fresh);
        }
        self.receipts.on_message(header.epoch, header.seq);
    }

    /// The other side says what it has.
    pub(super) fn on_receipt(&mut self, body: &[u8]) {
        let Some(receipt) = Receipt::parse(body) else {
            self.counters.malformed += 1;
            return;
        };
        if receipt.epoch == self.config.epoch {
            receipt.messages().for_each(|seq| self.on_acknowledged(seq));
        }
    }

    fn control_header(&self, message: &Outgoing) -> MessageHeader {
        MessageHeader {
            epoch: self.config.epoch,
            seq: message.seq,
            origin_us: self.clock.us(message.origin) as u32,
            max_age_ms: message.expires.saturating_duration_since(message.origin).as_millis() as u64,
            slot: message.slot,
            telemetry: false,
            place: message.place,
        }
    }
}
