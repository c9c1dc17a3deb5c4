//! Both ends of our transport feedback: the receiver's memory of arrivals, and the sender's of what it sent.

mod reporter;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::cc::PacketReport;
use crate::wire::datagram::{unwrap_seq, unwrap_us};
use crate::wire::feedback::{Arrival, Feedback};
use crate::wire::history::History;
use crate::{BearerId, ByteCount};
use reporter::{Impossible, ReporterClock};

/// A report is sent when this many datagrams have arrived since the last one, or after [`REPORT_DELAY`].
const REPORT_EVERY: usize = 16;
pub const REPORT_DELAY: Duration = Duration::from_millis(10);
/// Each arrival is told of in two reports, in case one is lost; in more where many are, so that with this chance all of them are, and in
/// so many at most. Where many datagrams arrive at once, so many for each of these reports are told of again.
const LEAST_TOLD: usize = 2;
const MOST_TOLD: usize = 8;
const UNTOLD: f64 = 0.1;
const REPEATED: u64 = 16;
/// Arrivals remembered; above the 512 of one report, for reordering.
const MEMORY: usize = 1024;
/// A history is sent this often while at least this share of the last datagrams is missing, of so many at least: where the way
/// there is bad, the way back is likely to be.
const HISTORY_EVERY: Duration = Duration::from_millis(25);
const HISTORY_FROM: f64 = 0.05;
const HISTORY_LEAST: u64 = 64;

/// The receiver: remembers arrivals and says when a report is due.
#[derive(Debug, Default)]
pub struct ArrivalLog {
    /// (sequence number, arrival, ECN), sorted, newest last.
    arrivals: VecDeque<(u64, u64, u8)>,
    newest: Option<u64>,
    unreported: usize,
    due: Option<Instant>,
    /// Ends of what the last [`MOST_TOLD`] reports covered, newest last.
    ends: VecDeque<u64>,
    history_sent: Option<Instant>,
}

impl ArrivalLog {
    /// Notes the arrival of datagram `seq`. `urgent`: it should be reported soon, or within this time if that is longer; others wait for
    /// company.
    pub fn on_arrival(&mut self, now: Instant, seq: u16, at_us: u64, ecn: u8, urgent: Option<Duration>) {
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
        if let Some(delay) = urgent {
            let due = if self.unreported >= REPORT_EVERY { now } else { now + delay.max(REPORT_DELAY) };
            self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
        }
    }

    /// What is known is to be told now.
    pub fn hasten(&mut self, now: Instant) {
        if self.has_news() {
            self.due = Some(now);
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

    /// The report to send now, of at most `max_packets` packets: what is new, and what the last one said, or several if this share of what we
    /// send is lost.
    pub fn take_report(&mut self, now_us: u64, max_packets: usize, loss: f64) -> Option<Feedback> {
        self.due = None;
        self.unreported = 0;
        let newest = self.newest?;
        let end = newest + 1;
        let told = told(loss);
        let ago = |reports: usize| self.ends.len().checked_sub(reports).map_or(0, |index| self.ends[index]);
        let first = ago(told).max(ago(1).saturating_sub(REPEATED * told as u64));
        let first = first.max(end.saturating_sub(max_packets as u64)).max(self.arrivals.front()?.0);
        if self.ends.len() == MOST_TOLD {
            self.ends.pop_front();
        }
        self.ends.push_back(end);
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

    /// What to say beside a report about the datagrams before it, if much is lost and it has not just been said.
    pub fn take_history(&mut self, now: Instant) -> Option<History> {
        if self.history_sent.is_some_and(|at| now.saturating_duration_since(at) < HISTORY_EVERY) {
            return None;
        }
        self.history_sent = Some(now);
        let end = self.ends.back().copied().unwrap_or_default();
        let told = (end - self.arrivals.front()?.0.min(end)).min(8 * History::MAX_BYTES as u64);
        let recent = self.arrivals.iter().rev().skip_while(|(seq, ..)| *seq >= end);
        let recent = recent.map(|(seq, ..)| end - 1 - seq).take_while(|back| *back < told);
        let mut history = History { end: end as u16, bits: vec![0; told.div_ceil(8) as usize] };
        let arrived = recent.inspect(|back| history.set(*back as usize)).count() as f64;
        (told >= HISTORY_LEAST && arrived <= told as f64 * (1.0 - HISTORY_FROM)).then_some(history)
    }

    /// Another connection: sequence numbers begin anew.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

/// In how many reports an arrival is told of where this share of them is lost.
fn told(loss: f64) -> usize {
    let enough = UNTOLD.ln() / loss.clamp(1e-3, 0.999).ln();
    (enough.ceil() as usize).clamp(LEAST_TOLD, MOST_TOLD)
}

/// The sender: remembers what it sent until its fate is known.
#[derive(Debug, Default)]
pub struct SentLog {
    sent: VecDeque<Sent>,
    next_seq: u64,
    /// The highest that was reported.
    reported: Option<u64>,
    receiver: ReporterClock,
    reports: Vec<PacketReport>,
    /// For the next report: what one has told, but a history has settled.
    settled: Vec<PacketReport>,
    fates: Vec<Fate>,
    in_flight: ByteCount,
    received: u64,
    lost: u64,
    /// Something urgent has left on this connection.
    has_urgent: bool,
    /// When the newest datagram had left, by the sender's clock, as the last history came.
    history_us: Option<u64>,
    fault: Option<ReportFault>,
    /// Of the last report, µs.
    held_us: u64,
    /// Reports are by another clock than until then.
    other_clock: bool,
}

/// Why reports cannot be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReportFault {
    /// What has not been sent has arrived.
    #[error("it tells of the arrival of what has not been sent")]
    NeverSent,
    /// Something has arrived after the report had left.
    #[error("it tells of arrivals after it had left itself")]
    Ahead,
    /// Something has arrived before it had left.
    #[error("it tells of arrivals before what arrived had left")]
    Early,
    /// It left before an earlier one.
    #[error("it left long before an earlier one: the other side's clock has gone back")]
    ClockWentBack,
    /// It left later than it can have.
    #[error("more time has passed for the other side than here: its clock has leapt")]
    ClockLeapt,
    /// It left long before it can have.
    #[error("less time has passed for the other side than here: its clock is slow, or stood for a while")]
    ClockFellBehind,
    /// Nothing of what was sent for seconds has been reported.
    #[error("it does not come: nothing sent in the last seconds has been reported, although the other side is heard")]
    Missing,
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
    /// A parcel.
    Parcel,
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

/// A datagram that a report has told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// When it left, on the sender's clock, microseconds.
    pub sent_us: u64,
    /// For how long it had been there when the report left, in microseconds.
    pub held_us: u64,
}

impl Answered {
    /// The round trip that this shows, if the report comes at `now_us` on the sender's clock.
    pub fn round_trip(self, now_us: u64) -> Duration {
        Duration::from_micros(now_us.saturating_sub(self.sent_us).saturating_sub(self.held_us))
    }
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    seq: u64,
    leaving: Leaving,
    known: bool,
    /// Its fate has been told, perhaps before it was known.
    told: bool,
    /// Later ones have arrived: it is not under way any more, whatever became of it.
    passed: bool,
    /// A report, and a history, have told that it had not arrived.
    denied: bool,
    denied_later: bool,
}

impl Sent {
    /// It is under way no more; bytes of it that were until now.
    fn passes(&mut self) -> ByteCount {
        if std::mem::replace(&mut self.passed, true) { ByteCount(0) } else { self.leaving.bytes }
    }

    fn fate(&mut self, received: bool) -> Option<Fate> {
        if std::mem::replace(&mut self.told, true) {
            return None;
        }
        Some(Fate { datagram: self.seq, kept: self.leaving.kept?, received })
    }

    fn report(&self, arrived_us: Option<u64>, ce: bool) -> PacketReport {
        let Leaving { at_us: sent_us, bytes, leads, .. } = self.leaving;
        PacketReport { number: self.seq, sent_us, bytes, arrived_us, ce, leads }
    }
}

/// A datagram this many places behind one that arrived is lost (RFC 9002 §6.1.1 has 3; a report is not an
/// acknowledgement, so reordering costs nothing and we can wait).
const LOST_BEHIND: u64 = 16;
/// One that left so long before one that arrived is lost too (RFC 9002 §6.1.2): small streams would wait long for sixteen.
const LOST_AFTER_US: u64 = 100_000;
/// While histories come, what no report has told of is not lost before one of them tells: this long after the last one, the next
/// ones may be lost too.
const HISTORY_HOLDS_US: u64 = 1_000_000;

/// The same of what is wanted soon (RFC 9002 §6.1.1).
const SUSPECT_BEHIND: u64 = 3;
const SUSPECT_AFTER_US: u64 = 10_000;

/// A report of so many datagrams may be one that had no room for all.
const FULL: usize = 100;

/// A kernel may stamp an arrival by a clock that is being adjusted: so much is no fault.
const TOLERATED_US: u64 = 1_000_000;

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
        self.sent.push_back(Sent {
            seq: self.next_seq,
            leaving,
            known: false,
            told: false,
            passed: false,
            denied: false,
            denied_later: false,
        });
        self.has_urgent |= leaving.kept.is_some_and(Kept::is_urgent);
        self.next_seq += 1;
        self.in_flight += leaving.bytes;
        if self.sent.len() > 2 * MEMORY
            && let Some(mut oldest) = self.sent.pop_front().filter(|oldest| !oldest.known)
        {
            self.in_flight = self.in_flight - oldest.passes();
            self.fates.extend(oldest.fate(false));
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
        self.unreported().find(|leaving| leaving.urgent).map(|leaving| leaving.at_us)
    }

    /// The same of what is not urgent too, and is reported with the other side's next heartbeat.
    pub fn untold_since(&self) -> Option<u64> {
        self.unreported().next().map(|leaving| leaving.at_us)
    }

    /// Behind all those that have been reported.
    fn unreported(&self) -> impl Iterator<Item = Leaving> {
        let next = self.reported.map_or(0, |reported| reported + 1);
        let first = self.sent.front().map_or(0, |oldest| next.saturating_sub(oldest.seq));
        self.sent.iter().skip(first as usize).map(|sent| sent.leaving)
    }

    /// Fates that the reports so far have told.
    pub fn take_fates(&mut self) -> Vec<Fate> {
        std::mem::take(&mut self.fates)
    }

    /// Takes in a report that comes at `now_us` by our clock; see [`SentLog::reports`] for what it says. Gives the newest datagram that it
    /// tells of, unless that was known before.
    ///
    /// Of one that cannot be true ([`SentLog::fault`]) nothing is believed, since who believes it floods the link: no picture leaves then, and
    /// commands wait for nothing. Arrivals that are stamped too late, all of them alike, are as good as others.
    pub fn on_feedback(&mut self, feedback: &Feedback, now_us: u64) -> Option<Answered> {
        self.reports.clear();
        self.reports.append(&mut self.settled);
        (self.fault, self.held_us) = (None, 0);
        let (Some(oldest), Some(newest)) = (self.sent.front(), self.sent.back()) else { return None };
        let (oldest, newest) = (oldest.seq, newest.seq);
        let first = unwrap_seq(newest, feedback.first_seq);
        let clock = unwrap_us(self.receiver.near_us(feedback.sent_us), feedback.sent_us);
        let not_sent = feedback.arrivals.iter().skip((newest + 1).saturating_sub(first) as usize);
        let told = (first..)
            .zip(&feedback.arrivals)
            .filter(|(seq, arrival)| arrival.is_some() && (oldest..=newest).contains(seq));
        let told = told.last().map(|(seq, _)| self.sent[(seq - oldest) as usize].leaving.at_us);
        let took_us = told.map(|sent_us| now_us.saturating_sub(sent_us));
        let clock_told = self.receiver.on_report(clock, now_us, took_us);
        self.other_clock |= clock_told == Ok(true);
        self.fault = match clock_told {
            Err(Impossible::WentBack) => Some(ReportFault::ClockWentBack),
            Err(Impossible::Leapt) => Some(ReportFault::ClockLeapt),
            Err(Impossible::FellBehind) => Some(ReportFault::ClockFellBehind),
            Ok(_) if not_sent.flatten().next().is_some() => Some(ReportFault::NeverSent),
            Ok(_) => None,
        };
        if self.fault.is_some() {
            return None;
        }
        if feedback.arrivals.len() >= FULL {
            // It has no room for more: all that lies between it and the one before has not arrived.
            let after = self.reported.map_or(0, |reported| reported + 1);
            let between = self.sent.iter_mut().filter(|sent| (after..first).contains(&sent.seq));
            between.for_each(|sent| sent.denied = true);
        }
        let (mut highest, mut answered) = (None, None);
        for (seq, arrival) in (first..).zip(&feedback.arrivals) {
            if seq < oldest || seq > newest {
                continue;
            }
            let sent = &mut self.sent[(seq - oldest) as usize];
            let Some(arrival) = arrival else {
                sent.denied = true;
                continue;
            };
            highest = Some(seq);
            answered = None;
            if !std::mem::replace(&mut sent.known, true) {
                let at_us = unwrap_us(clock, arrival.at_us);
                if at_us > clock + TOLERATED_US {
                    self.fault = Some(ReportFault::Ahead);
                }
                if self.receiver.can_have_arrived(at_us, sent.leaving.at_us, now_us) {
                    self.held_us = self.held_us.max(clock.saturating_sub(at_us));
                    self.reports.push(sent.report(Some(at_us), arrival.ecn == 3));
                    let held_us = clock.saturating_sub(at_us);
                    answered = Some(Answered { sent_us: sent.leaving.at_us, held_us });
                } else {
                    // That it has arrived may be, but when it did nobody knows.
                    self.fault = Some(ReportFault::Early);
                }
                self.in_flight = self.in_flight - sent.passes();
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
                let at_us = unwrap_us(clock, arrival.at_us);
                let is_known = self.receiver.can_have_arrived(at_us, sent_us, now_us);
                self.suspect(highest, sent_us, if is_known { clock.saturating_sub(at_us) } else { 0 });
            }
            self.drop_past(highest, sent_us);
        }
        self.reports.sort_by_key(|report| report.sent_us);
        answered
    }

    /// Takes for lost what is too far behind the datagram `highest`, which has arrived and left at `sent_us`; but not what a
    /// history may yet tell of.
    fn drop_past(&mut self, highest: u64, sent_us: u64) {
        let is_past = |sent: &Sent| {
            sent.seq < highest && (sent.seq + LOST_BEHIND < highest || sent.leaving.at_us + LOST_AFTER_US < sent_us)
        };
        let newest_us = self.sent.back().map_or(0, |sent| sent.leaving.at_us);
        let waits = self.history_us.is_some_and(|at| newest_us < at + HISTORY_HOLDS_US);
        let reach = highest.saturating_sub(8 * History::MAX_BYTES as u64);
        let may_wait = |sent: &Sent| waits && !sent.known && !sent.denied && !sent.denied_later && sent.seq >= reach;
        while let Some(mut front) = self.sent.front().filter(|sent| is_past(sent) && !may_wait(sent)).copied() {
            self.sent.pop_front();
            if !front.known {
                self.lost += 1;
                self.fates.extend(front.fate(false));
                // Of what no report tells of, since those that would have were lost, controllers hear nothing: neither what arrived, since no
                // time is known, nor, or all of it would seem lost, what did not.
                self.reports.extend(front.denied.then(|| front.report(None, false)));
                self.in_flight = self.in_flight - front.passes();
            }
        }
        if waits {
            for sent in self.sent.iter_mut().take_while(|sent| is_past(sent)) {
                self.in_flight = self.in_flight - sent.passes();
            }
        }
    }

    /// Takes in a history. What it tells of is not in [`SentLog::reports`]: without times they are of no use. One that cannot be true is told
    /// of by [`SentLog::fault`].
    pub fn on_history(&mut self, history: &History) {
        self.fault = None;
        let (Some(oldest), Some(newest)) = (self.sent.front(), self.sent.back()) else { return };
        let (oldest, newest, newest_us) = (oldest.seq, newest.seq, newest.leaving.at_us);
        let end = unwrap_seq(newest, history.end);
        if end > newest + 1 {
            self.fault = Some(ReportFault::NeverSent);
            return;
        }
        self.history_us = Some(newest_us);
        for back in 0..history.len() {
            let (Some(seq), Some(arrived)) = (end.checked_sub(1 + back as u64), history.get(back)) else { break };
            if seq < oldest {
                break;
            }
            let sent = &mut self.sent[(seq - oldest) as usize];
            sent.denied_later |= !arrived;
            if arrived && !std::mem::replace(&mut sent.known, true) {
                self.in_flight = self.in_flight - sent.passes();
                self.fates.extend(sent.fate(true));
                self.received += 1;
                self.reported = self.reported.max(Some(seq));
            }
        }
        let highest = self.reported.filter(|reported| *reported >= oldest);
        if let Some(highest) = highest {
            let sent_us = self.sent[(highest - oldest) as usize].leaving.at_us;
            self.reports.clear();
            self.drop_past(highest, sent_us);
            self.settled.append(&mut self.reports);
        }
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

    /// From the first arrival that the last report told of, and that was not known before, to when it left.
    pub fn held(&self) -> Duration {
        Duration::from_micros(self.held_us)
    }

    /// Whether reports have come to be by another clock: what their arrivals tell has nothing to do with what those before did. Says so once.
    pub fn take_other_clock(&mut self) -> bool {
        std::mem::take(&mut self.other_clock)
    }

    /// Why the last report, or history, cannot be true.
    pub fn fault(&self) -> Option<ReportFault> {
        self.fault
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
    use std::collections::BTreeSet;

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
                log.on_arrival(start, seq, n * 1000 + 30_000, if n == 20 { 3 } else { 2 }, Some(Duration::ZERO));
            }
            if n % 16 == 15 {
                let report = log.take_report(n * 1000 + 31_000, 512, 0.0).unwrap();
                assert!(report.arrivals.len() <= 48);
                // Every third report is lost; the next one repeats it.
                if n / 16 % 3 != 0 {
                    sent.on_feedback(&report, n * 1000 + 61_000);
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
    fn where_most_reports_are_lost_histories_tell_what_has_arrived() {
        for with_histories in [true, false] {
            let start = Instant::now();
            let (mut log, mut sent) = (ArrivalLog::default(), SentLog::default());
            let mut random = 7u32;
            let mut chance = move |share: f64| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                f64::from(random >> 8) < share * f64::from(1 << 24)
            };
            let (mut arrived, mut fates, mut times) = (BTreeSet::new(), Vec::new(), (0u64, 0u64));
            for n in 0..50_000u64 {
                let now = start + Duration::from_micros(n * 1000);
                let at_us = n * 1000;
                let kept = Some(Kept::Batch(n));
                let seq = sent.next_seq();
                sent.on_sent(Leaving { at_us, bytes: ByteCount(1000), kept, leads: false, urgent: true });
                if !chance(0.5) {
                    arrived.insert(n);
                    log.on_arrival(now, seq, at_us + 5_000, 2, Some(Duration::ZERO));
                }
                if log.next_due().is_some_and(|due| due <= now) {
                    let report = log.take_report(at_us + 5_000, 512, 0.0).unwrap();
                    let history = log.take_history(now).filter(|_| with_histories);
                    if !chance(0.7) {
                        sent.on_feedback(&report, at_us + 10_000);
                        times.0 += sent.reports().iter().filter(|report| report.arrived_us.is_some()).count() as u64;
                        times.1 += sent.reports().len() as u64;
                        history.iter().for_each(|history| sent.on_history(history));
                    }
                }
                fates.extend(sent.take_fates());
                assert!(
                    sent.in_flight() <= ByteCount(600_000),
                    "what has passed is not under way: {:?}",
                    sent.in_flight()
                );
            }
            let told: BTreeSet<u64> = fates.iter().map(|fate| fate.datagram).collect();
            assert_eq!(told.len(), fates.len(), "a fate is told once");
            assert!(fates.len() > 49_000, "{}", fates.len());
            let wrong = fates.iter().filter(|fate| fate.received != arrived.contains(&fate.datagram)).count();
            // With reports alone half of what has arrived is taken for lost.
            assert_eq!(wrong < 60, with_histories, "{wrong}");
            assert!(with_histories || wrong > 5_000, "{wrong}");
            // Controllers see what was lost and what was not by the same sample.
            let share = times.0 as f64 / times.1 as f64;
            assert!(!with_histories || (0.45..0.55).contains(&share), "{share}");
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
        sent.on_feedback(&Feedback { sent_us: 9, first_seq: 0, arrivals }, 9);
        assert_eq!(sent.unreported_since(), Some(3), "what was passed over is lost, not missing");
        send(&mut sent, 4, false);
        assert_eq!(sent.untold_since(), Some(3));
    }

    /// A millisecond apart, from 0 on.
    fn sent(count: u64) -> SentLog {
        let mut log = SentLog::default();
        for n in 0..count {
            log.on_sent(Leaving { at_us: n * 1_000, bytes: ByteCount(9), kept: None, leads: false, urgent: true });
        }
        log
    }

    /// By a clock that is `ahead_us` of ours: all of these came 20 ms after they had left.
    fn report(numbers: std::ops::Range<u64>, now_us: u64, ahead_us: u64) -> Feedback {
        let arrival = |n: u64| Some(Arrival { at_us: (ahead_us + n * 1_000 + 20_000) as u32, ecn: 0 });
        let first_seq = numbers.start as u16;
        Feedback { sent_us: (ahead_us + now_us) as u32, first_seq, arrivals: numbers.map(arrival).collect() }
    }

    #[test]
    fn of_what_arrives_before_it_has_left_nobody_knows_when() {
        let mut log = sent(4);
        let mut told = report(0..4, 30_000, 77_000_000);
        told.arrivals[3].as_mut().unwrap().at_us -= 5_000_000;
        assert_eq!(log.on_feedback(&told, 30_000), None, "no round trip is read off it");
        assert_eq!(log.fault(), Some(ReportFault::Early));
        assert_eq!(log.reports().iter().map(|report| report.number).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((log.in_flight(), log.received_and_lost()), (ByteCount(0), (4, 0)), "it has arrived all the same");
    }

    #[test]
    fn another_clock_is_told_of_once() {
        let mut log = sent(40);
        log.on_feedback(&report(0..2, 30_000, 77_000_000), 30_000);
        for n in 0..8 {
            let now_us = 40_000 + n * 10_000;
            log.on_feedback(&report(2 + n..3 + n, now_us, 900_000_000), now_us);
            let (fault, is_another) = (log.fault(), log.take_other_clock());
            assert_eq!((fault.is_none(), is_another), (n == 7, n == 7), "{n}: {fault:?}");
        }
        log.on_feedback(&report(10..12, 130_000, 900_000_000), 130_000);
        assert!(log.fault().is_none() && !log.take_other_clock());
    }

    #[test]
    fn what_no_report_has_told_of_is_no_loss_to_a_controller_unless_one_had_no_room() {
        for (told, heard) in [(90, 0), (FULL as u64, 200)] {
            let mut log = sent(400);
            log.on_feedback(&report(0..2, 30_000, 77_000_000), 30_000);
            log.on_feedback(&report(202..202 + told, 330_000, 77_000_000), 330_000);
            let lost = log.reports().iter().filter(|report| report.arrived_us.is_none()).count();
            assert_eq!((lost, log.received_and_lost().1), (heard, 200), "of {told} in one report");
        }
    }

    #[test]
    fn reports_repeat_more_where_more_of_them_are_lost() {
        let start = Instant::now();
        for (loss, told) in [(0.0, 2), (0.05, 2), (0.3, 2), (0.5, 4), (0.75, 8), (1.0, 8)] {
            let mut log = ArrivalLog::default();
            let mut last = 0;
            for n in 0..200u16 {
                log.on_arrival(start, n, u64::from(n) * 1_000, 0, Some(Duration::ZERO));
                if n % 4 == 3 {
                    last = log.take_report(u64::from(n) * 1_000, 512, loss).unwrap().arrivals.len();
                }
            }
            assert_eq!(last, 4 * told, "{loss}: four that are new, and those of the reports before");
        }
    }

    #[test]
    fn heartbeats_alone_do_not_make_a_report_due() {
        let start = Instant::now();
        let mut log = ArrivalLog::default();
        log.on_arrival(start, 0, 1, 0, None);
        assert_eq!(log.next_due(), None);
        log.on_arrival(start, 1, 2, 0, Some(Duration::ZERO));
        assert_eq!(log.next_due(), Some(start + REPORT_DELAY));
        for seq in 2..16 {
            log.on_arrival(start, seq, 3, 0, Some(Duration::ZERO));
        }
        assert_eq!(log.next_due(), Some(start));
        assert_eq!(log.take_report(9, 512, 0.0).unwrap().arrivals.len(), 16);
        assert_eq!(log.next_due(), None);
        log.hasten(start);
        assert_eq!(log.next_due(), None, "there is nothing to tell");
        log.on_arrival(start, 16, 4, 0, Some(Duration::ZERO));
        log.hasten(start);
        assert_eq!(log.next_due(), Some(start));
    }
}
