//! Both ends of our transport feedback: the receiver's memory of arrivals, and the sender's of what it sent.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::cc::PacketReport;
use crate::wire::datagram::{unwrap_seq, unwrap_us};
use crate::wire::feedback::{Arrival, Feedback};
use crate::{BearerId, ByteCount};

/// A report is sent when this many datagrams have arrived since the last one, or after [`REPORT_DELAY`].
const REPORT_EVERY: usize = 16;
pub const REPORT_DELAY: Duration = Duration::from_millis(10);
/// Each arrival is reported twice, in two reports, in case one is lost.
const REPEATED: u64 = 32;
/// Arrivals remembered; above the 512 of one report, for reordering.
const MEMORY: usize = 1024;

/// The receiver: remembers arrivals and says when a report is due.
#[derive(Debug, Default)]
pub struct ArrivalLog {
    /// (sequence number, arrival, ECN), sorted, newest last.
    arrivals: VecDeque<(u64, u64, u8)>,
    newest: Option<u64>,
    unreported: usize,
    due: Option<Instant>,
    /// End of what the last report covered.
    reported_to: u64,
    /// End of the report before it.
    reported_before: u64,
}

impl ArrivalLog {
    /// Notes the arrival of datagram `seq`. `urgent`: it should be reported soon; heartbeats wait for company.
    pub fn on_arrival(&mut self, now: Instant, seq: u16, at_us: u64, ecn: u8, urgent: bool) {
        let seq = self.newest.map_or(u64::from(seq), |newest| unwrap_seq(newest, seq));
        let index = self.arrivals.iter().rposition(|(other, ..)| *other <= seq).map_or(0, |index| index + 1);
        if index > 0 && self.arrivals[index - 1].0 == seq {
            return;
        }
        self.arrivals.insert(index, (seq, at_us, ecn));
        if self.arrivals.len() > MEMORY {
            self.arrivals.pop_front();
        }
        self.newest = Some(self.newest.map_or(seq, |newest| newest.max(seq)));
        self.unreported += 1;
        if urgent {
            let due = if self.unreported >= REPORT_EVERY { now } else { now + REPORT_DELAY };
            self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
        }
    }

    /// When a report is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.due
    }

    /// Whether anything has arrived since the last report.
    pub fn has_news(&self) -> bool {
        self.unreported > 0
    }

    /// The report to send now, of at most `max_packets` packets: what is new, and what the last report said.
    pub fn take_report(&mut self, now_us: u64, max_packets: usize) -> Option<Feedback> {
        self.due = None;
        self.unreported = 0;
        let newest = self.newest?;
        let end = newest + 1;
        let first = self.reported_before.max(self.reported_to.saturating_sub(REPEATED));
        let first = first.max(end.saturating_sub(max_packets as u64)).max(self.arrivals.front()?.0);
        self.reported_before = self.reported_to;
        self.reported_to = end;
        if first >= end {
            return None;
        }
        let mut known = self.arrivals.iter().skip_while(|(seq, ..)| *seq < first).peekable();
        let arrivals = (first..end).map(|seq| {
            let (_, at_us, ecn) = known.next_if(|(known, ..)| *known == seq)?;
            Some(Arrival { at_us: *at_us as u32, ecn: *ecn })
        });
        Some(Feedback { sent_us: now_us as u32, first_seq: first as u16, arrivals: arrivals.collect() })
    }

    /// Another connection: sequence numbers begin anew.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

/// The sender: remembers what it sent until its fate is known.
#[derive(Debug, Default)]
pub struct SentLog {
    sent: VecDeque<Sent>,
    next_seq: u64,
    /// The highest that was reported.
    reported: Option<u64>,
    /// The receiver's clock, unwrapped.
    receiver_us: Option<u64>,
    reports: Vec<PacketReport>,
    fates: Vec<Fate>,
    in_flight: ByteCount,
    received: u64,
    lost: u64,
    /// Something urgent has left on this connection.
    has_urgent: bool,
}

/// A datagram of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramId {
    /// The bearer that it left on.
    pub bearer: BearerId,
    /// See [`SentLog::next_datagram`].
    pub number: u64,
}

/// What a datagram carries that is kept until it has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The batch of transactions of that number.
    Batch(u64),
    /// The piece of bulk from that offset on.
    Bulk(u64),
    /// The fragment of video with that running number. It is not kept as it is, but may be repaired while that is of use.
    Fragment(u8, u32),
    /// A repair of video, of that flow and round.
    Repair(u8, u32),
}

impl Kept {
    /// Its fate is wanted soon, even if it may be the wrong one.
    fn is_urgent(self) -> bool {
        matches!(self, Self::Fragment(..) | Self::Repair(..))
    }
}

/// What became of a datagram that carried something which is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fate {
    /// Number of the datagram.
    pub datagram: u64,
    /// What it carried.
    pub kept: Kept,
    /// It has arrived; otherwise it is taken for lost.
    pub received: bool,
}

/// A datagram that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    /// Sender's clock, microseconds.
    pub at_us: u64,
    /// Bytes of UDP payload.
    pub bytes: ByteCount,
    /// What it carries that is kept.
    pub kept: Option<Kept>,
    /// It is the first of a video frame.
    pub leads: bool,
    /// The other side reports it within [`REPORT_DELAY`].
    pub urgent: bool,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    seq: u64,
    leaving: Leaving,
    known: bool,
    /// Its fate has been told, perhaps before it was known.
    told: bool,
}

impl Sent {
    fn fate(&mut self, received: bool) -> Option<Fate> {
        if std::mem::replace(&mut self.told, true) {
            return None;
        }
        Some(Fate { datagram: self.seq, kept: self.leaving.kept?, received })
    }

    fn report(&self, arrived_us: Option<u64>, ce: bool) -> PacketReport {
        let Leaving { at_us: sent_us, bytes, leads, .. } = self.leaving;
        PacketReport { sent_us, bytes, arrived_us, ce, leads }
    }
}

/// A datagram this many places behind one that arrived is lost (RFC 9002 §6.1.1 has 3; a report is not an
/// acknowledgement, so reordering costs nothing and we can wait).
const LOST_BEHIND: u64 = 16;
/// One that left so long before one that arrived is lost too (RFC 9002 §6.1.2): small streams would wait long for sixteen.
const LOST_AFTER_US: u64 = 100_000;

/// The same of what is wanted soon (RFC 9002 §6.1.1).
const SUSPECT_BEHIND: u64 = 3;
const SUSPECT_AFTER_US: u64 = 10_000;

impl SentLog {
    /// Number of the next datagram on this connection, from 0.
    pub fn next_datagram(&self) -> u64 {
        self.next_seq
    }

    /// The same as it stands in the header.
    pub fn next_seq(&self) -> u16 {
        self.next_seq as u16
    }

    /// Notes that the datagram with [`SentLog::next_seq`] has been sent.
    pub fn on_sent(&mut self, leaving: Leaving) {
        self.sent.push_back(Sent { seq: self.next_seq, leaving, known: false, told: false });
        self.has_urgent |= leaving.kept.is_some_and(Kept::is_urgent);
        self.next_seq += 1;
        self.in_flight += leaving.bytes;
        if self.sent.len() > 2 * MEMORY
            && let Some(oldest) = self.sent.pop_front().filter(|oldest| !oldest.known)
        {
            self.in_flight = self.in_flight - oldest.leaving.bytes;
        }
    }

    /// A datagram has been sent of which no report will tell.
    pub fn skip(&mut self) {
        self.next_seq += 1;
    }

    /// Bytes of datagrams of which nothing is known.
    pub fn in_flight(&self) -> ByteCount {
        self.in_flight
    }

    /// When the first datagram left that should have been reported by now unless something is wrong: the first urgent one behind
    /// all those that have been reported. On the sender's clock, microseconds.
    pub fn unreported_since(&self) -> Option<u64> {
        let next = self.reported.map_or(0, |reported| reported + 1);
        let first = next.saturating_sub(self.sent.front()?.seq) as usize;
        let behind = self.sent.iter().skip(first);
        behind.map(|sent| sent.leaving).find(|leaving| leaving.urgent).map(|leaving| leaving.at_us)
    }

    /// Fates that the reports so far have told.
    pub fn take_fates(&mut self) -> Vec<Fate> {
        std::mem::take(&mut self.fates)
    }

    /// Takes in a report; see [`SentLog::reports`] for what it says.
    pub fn on_feedback(&mut self, feedback: &Feedback) {
        self.reports.clear();
        let (Some(oldest), Some(newest)) = (self.sent.front(), self.sent.back()) else { return };
        let (oldest, newest) = (oldest.seq, newest.seq);
        let first = unwrap_seq(newest, feedback.first_seq);
        // Clocks begin anywhere; half a wrap up keeps them positive.
        let mut clock = self.receiver_us.unwrap_or((1 << 33) + u64::from(feedback.sent_us));
        clock = unwrap_us(clock, feedback.sent_us);
        self.receiver_us = Some(clock);
        let mut highest = None;
        for (seq, arrival) in (first..).zip(&feedback.arrivals) {
            let Some(arrival) = arrival else { continue };
            if seq < oldest || seq > newest {
                continue;
            }
            highest = Some(seq);
            let sent = &mut self.sent[(seq - oldest) as usize];
            if !std::mem::replace(&mut sent.known, true) {
                let arrived_us = Some(unwrap_us(clock, arrival.at_us));
                self.reports.push(sent.report(arrived_us, arrival.ecn == 3));
                self.in_flight = self.in_flight - sent.leaving.bytes;
                self.fates.extend(sent.fate(true));
                self.received += 1;
            }
        }
        if let Some(highest) = highest {
            self.reported = self.reported.max(Some(highest));
            let sent_us = self.sent[(highest - oldest) as usize].leaving.at_us;
            if self.has_urgent
                && let Some(Some(arrival)) = feedback.arrivals.get((highest - first) as usize)
            {
                self.suspect(highest, sent_us, clock.saturating_sub(unwrap_us(clock, arrival.at_us)));
            }
            let is_past = |sent: &&Sent| {
                sent.seq < highest && (sent.seq + LOST_BEHIND < highest || sent.leaving.at_us + LOST_AFTER_US < sent_us)
            };
            while let Some(mut front) = self.sent.front().filter(is_past).copied() {
                self.sent.pop_front();
                if !front.known {
                    self.lost += 1;
                    self.fates.extend(front.fate(false));
                    self.reports.push(front.report(None, false));
                    self.in_flight = self.in_flight - front.leaving.bytes;
                }
            }
        }
        self.reports.sort_by_key(|report| report.sent_us);
    }

    /// Tells of urgent datagrams that they are lost as soon as it seems so: three that left later have arrived, or one that
    /// left 10 ms later, or would have. `highest` has, `age_us` before the report.
    fn suspect(&mut self, highest: u64, sent_us: u64, age_us: u64) {
        let seems_lost = |sent: &Sent| {
            let at_us = sent.leaving.at_us;
            sent.seq + SUSPECT_BEHIND <= highest
                || at_us + SUSPECT_AFTER_US <= sent_us + if sent.seq > highest { age_us } else { 0 }
        };
        for sent in &mut self.sent {
            if !sent.known && sent.leaving.kept.is_some_and(Kept::is_urgent) && seems_lost(sent) {
                self.fates.extend(sent.fate(false));
            }
        }
    }

    /// What the last report told that was not known before, in sending order.
    pub fn reports(&self) -> &[PacketReport] {
        &self.reports
    }

    /// Datagrams reported received, and taken for lost, on this connection.
    pub fn received_and_lost(&self) -> (u64, u64) {
        (self.received, self.lost)
    }

    /// Another connection: sequence numbers begin anew.
    pub fn reset(&mut self) {
        *self = Self { received: self.received, lost: self.lost, ..Self::default() };
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    #[test]
    fn arrivals_come_back_once_in_order_with_losses_and_reordering() {
        let start = Instant::now();
        let (mut log, mut sent) = (ArrivalLog::default(), SentLog::default());
        let mut seen = Vec::new();
        for n in 0..70_000u64 {
            let seq = sent.next_seq();
            let kept = (n % 7 == 0).then_some(Kept::Batch(n));
            sent.on_sent(Leaving { at_us: n * 1000, bytes: ByteCount(1000), kept, leads: false, urgent: n % 2 == 0 });
            if n % 10 != 3 {
                log.on_arrival(start, seq, n * 1000 + 30_000, if n == 20 { 3 } else { 2 }, true);
            }
            if n % 16 == 15 {
                let report = log.take_report(n * 1000 + 31_000, 512).unwrap();
                assert!(report.arrivals.len() <= 48);
                // Every third report is lost; the next one repeats it.
                if n / 16 % 3 != 0 {
                    sent.on_feedback(&report);
                    seen.extend_from_slice(sent.reports());
                }
            }
        }
        let arrived = seen.iter().filter(|report| report.arrived_us.is_some()).count() as u64;
        let lost = seen.len() as u64 - arrived;
        assert!(arrived > 62_900 && lost > 6_900, "{arrived} {lost}");
        assert_eq!(sent.received_and_lost(), (arrived, lost));
        let fates: Vec<Fate> = sent.take_fates();
        assert!(
            fates.len() >= 9_990
                && fates.iter().all(|fate| fate.kept == Kept::Batch(fate.datagram) && fate.datagram % 7 == 0)
        );
        assert!(fates.iter().all(|fate| fate.received == (fate.datagram % 10 != 3)));
        assert_eq!(seen.iter().filter(|report| report.ce).count(), 1);
        let base = seen[0].arrived_us.unwrap() - seen[0].sent_us;
        for report in &seen {
            if let Some(at) = report.arrived_us {
                assert!((at - report.sent_us).abs_diff(base) <= 8, "{report:?}");
            }
        }
    }

    #[test]
    fn tells_since_when_a_report_is_missing() {
        let mut sent = SentLog::default();
        let send = |sent: &mut SentLog, at_us, urgent| {
            sent.on_sent(Leaving { at_us, bytes: ByteCount(9), kept: None, leads: false, urgent });
        };
        assert_eq!(sent.unreported_since(), None);
        send(&mut sent, 1, false);
        assert_eq!(sent.unreported_since(), None, "a heartbeat is not told of at once");
        send(&mut sent, 2, true);
        send(&mut sent, 3, true);
        assert_eq!(sent.unreported_since(), Some(2));
        let arrivals = vec![None, Some(Arrival { at_us: 9, ecn: 0 })];
        sent.on_feedback(&Feedback { sent_us: 9, first_seq: 0, arrivals });
        assert_eq!(sent.unreported_since(), Some(3), "what was passed over is lost, not missing");
    }

    #[test]
    fn heartbeats_alone_do_not_make_a_report_due() {
        let start = Instant::now();
        let mut log = ArrivalLog::default();
        log.on_arrival(start, 0, 1, 0, false);
        assert_eq!(log.next_due(), None);
        log.on_arrival(start, 1, 2, 0, true);
        assert_eq!(log.next_due(), Some(start + REPORT_DELAY));
        for seq in 2..16 {
            log.on_arrival(start, seq, 3, 0, true);
        }
        assert_eq!(log.next_due(), Some(start));
        assert_eq!(log.take_report(9, 512).unwrap().arrivals.len(), 16);
        assert_eq!(log.next_due(), None);
    }
}
