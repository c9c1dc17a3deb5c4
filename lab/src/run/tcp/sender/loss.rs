//! What an acknowledgement or a timeout says about losses, and what the window does then.

use std::time::{Duration, Instant};

use super::{First, News, Phase, Rack, Reduction, Sender, Undo};
use crate::run::tcp::segment::Segment;

/// Segments found lost.
#[derive(Debug, Default)]
pub struct Found {
    /// How many.
    pub lost: u32,
    /// Among them repetitions.
    pub lost_again: bool,
    /// Others may be, if they do not arrive within this time.
    pub wait: Option<Duration>,
}

/// SACKed segments that show a loss without time for reordering: `net.ipv4.tcp_reordering`.
const DUPLICATES: usize = 3;

impl Sender {
    pub(super) fn mark_sacked(&mut self, now: Instant, segment: &Segment, news: &mut News) {
        let highest = self.highest;
        for block in segment.sacks.iter() {
            let first = self.segments.partition_point(|sent| sent.span.from < block.from);
            for index in first..self.segments.len() {
                let sent = self.segments[index];
                if sent.span.to > block.to {
                    break;
                }
                if sent.sacked {
                    continue;
                }
                if !sent.ever {
                    news.original |= sent.span.to <= self.high;
                    news.reordered |= sent.span.to <= highest;
                    news.first_sacked = Some(news.first_sacked.map_or(sent.at, |first| first.min(sent.at)));
                    news.last = news.last.max(Some(sent.at));
                }
                news.delivered += 1;
                news.sacked = true;
                self.advance_rack(now, index);
                let sent = &mut self.segments[index];
                (sent.sacked, sent.lost, sent.again) = (true, false, false);
                self.highest = self.highest.max(sent.span.to);
            }
        }
    }

    pub(super) fn remove_acked(&mut self, now: Instant, ack: u64, news: &mut News) {
        let highest = self.highest;
        while let Some(sent) = self.segments.front().copied().filter(|sent| sent.span.from < ack) {
            if sent.span.to > ack {
                // A part of what was sent again as one segment.
                self.segments[0].span.from = ack;
                break;
            }
            if sent.ever {
                news.repeat_acked = true;
            } else if !sent.sacked {
                news.original |= sent.span.to <= self.high;
                news.reordered |= sent.span.to <= highest;
                news.first_acked.get_or_insert(sent.at);
                news.last = news.last.max(Some(sent.at));
            }
            if !sent.sacked {
                news.delivered += 1;
                // The echo shows that an earlier copy arrived (`tcp_skb_spurious_retrans`).
                if !(sent.ever && news.echo.is_some_and(|echo| echo < sent.at)) {
                    self.advance_rack(now, 0);
                }
            }
            self.segments.pop_front();
        }
        self.una = self.una.max(ack);
    }

    /// RFC 8985 §6.2, step 2.
    fn advance_rack(&mut self, now: Instant, index: usize) {
        let sent = self.segments[index];
        let rtt = now - sent.at;
        if sent.ever && self.rtt.min().is_some_and(|min| rtt < min) {
            return; // It is the first copy that arrived.
        }
        let newest = self.rack.filter(|rack| (rack.at, rack.end) > (sent.at, sent.span.to));
        let (at, end) = newest.map_or((sent.at, sent.span.to), |rack| (rack.at, rack.end));
        self.rack = Some(Rack { at, end, rtt });
    }

    /// RFC 8985 §6.2, step 5: what left long enough before something that arrived is lost.
    pub(super) fn detect(&mut self, now: Instant) -> Found {
        let mut found = Found::default();
        let Some(rack) = self.rack else { return found };
        let patience = rack.rtt + self.time_for_reordering();
        for sent in self.segments.iter_mut().filter(|sent| !sent.sacked && (!sent.lost || sent.again)) {
            if (sent.at, sent.span.to) >= (rack.at, rack.end) {
                continue;
            }
            let left = patience.saturating_sub(now - sent.at);
            if left.is_zero() {
                found.lost += 1;
                found.lost_again |= sent.again;
                (sent.lost, sent.again) = (true, false);
            } else {
                found.wait = found.wait.max(Some(left));
            }
        }
        found
    }

    /// `tcp_rack_reo_wnd`: a quarter of the least round trip. None once losses are evident, as long as no segment has
    /// been seen to overtake another.
    fn time_for_reordering(&self) -> Duration {
        let is_evident =
            self.phase != Phase::Open || self.segments.iter().filter(|sent| sent.sacked).count() >= DUPLICATES;
        match (self.rtt.min(), self.rtt.smoothed()) {
            (Some(min), Some(smoothed)) if self.reordering || !is_evident => (min / 4).min(smoothed),
            _ => Duration::ZERO,
        }
    }

    /// What the state of the connection becomes, and what goes first (`tcp_fastretrans_alert`).
    pub(super) fn on_news(&mut self, now: Instant, segment: &Segment, news: &News) -> Found {
        if self.phase == Phase::Open {
            self.first_repeat = self.first_repeat.filter(|_| self.is_disordered);
        } else if self.phase == Phase::Recovery && self.una >= self.high {
            if self.may_undo(news.echo) {
                self.undo(false);
            } else if self.undo.is_some() {
                self.window.size = self.window.threshold;
            }
            self.phase = Phase::Open;
        }
        self.first = First::Lost;
        let mut found = Found::default();
        match self.phase {
            Phase::Recovery => {
                if news.advanced && self.is_delayed(news.echo) {
                    self.reordering = true; // `tcp_try_undo_partial`
                    if self.segments.iter().any(|sent| sent.again) {
                        self.first = First::NewOnly;
                        return found;
                    }
                    self.undo(true);
                    self.phase = Phase::Open;
                }
                if self.all_named() {
                    self.undo(false);
                    self.phase = Phase::Open;
                }
                found = self.detect(now);
            }
            Phase::Loss => {
                self.on_news_after_timeout(segment, news);
                found = self.detect(now);
                if found.lost_again {
                    self.enter_recovery();
                    self.first = First::Lost;
                }
            }
            Phase::Open => {
                if self.all_named() {
                    self.undo(false);
                }
                found = self.detect(now);
            }
        }
        if self.phase == Phase::Open && self.segments.iter().any(|sent| sent.lost) {
            self.enter_recovery();
            self.first = First::Lost;
        }
        self.note_disorder();
        found
    }

    /// `tcp_process_loss`, with F-RTO (RFC 5682 §3.1, the SACK-enhanced version).
    fn on_news_after_timeout(&mut self, segment: &Segment, news: &News) {
        let is_recovered = self.una >= self.high;
        // Step 3b: what was sent once has arrived, so not all was lost.
        let is_original = self.is_in_doubt && news.original;
        if is_original || (news.advanced && self.may_undo(news.echo)) {
            self.undo(true);
            (self.phase, self.timeouts) = (Phase::Open, 0);
            return;
        }
        if self.is_in_doubt && self.next > self.high {
            let is_duplicate = !news.advanced && segment.data.is_empty() && !segment.sacks.duplicate;
            self.is_in_doubt = !news.sacked && !is_duplicate; // Step 3a: the loss was real.
        } else if self.is_in_doubt && news.advanced && !is_recovered {
            self.high = self.next;
            self.first = First::New; // Step 2b.
            return;
        }
        if is_recovered {
            if self.may_undo(news.echo) {
                self.undo(false);
            }
            self.phase = Phase::Open;
        }
    }

    /// `tcp_try_to_open`.
    fn note_disorder(&mut self) {
        let is_repeated = self.segments.front().is_some_and(|head| head.ever);
        self.is_disordered = is_repeated || self.segments.iter().any(|sent| sent.sacked || sent.lost || sent.again);
        if self.phase == Phase::Open && !is_repeated && self.segments.iter().all(|sent| !sent.again) {
            self.first_repeat = None;
        }
    }

    pub(super) fn enter_recovery(&mut self) {
        self.remember();
        self.reduction = Reduction { from: self.window.size, ..Reduction::default() };
        self.window.threshold = self.algorithm.on_loss(&self.window);
        self.window.count = 0;
        (self.phase, self.high, self.probe) = (Phase::Recovery, self.next, None);
    }

    /// `tcp_init_undo`.
    fn remember(&mut self) {
        let again = self.segments.iter().filter(|sent| sent.again).count() as u32;
        let repeats = again + u32::from(self.probe.is_some_and(|probe| probe.is_repeat));
        let (size, threshold) = (self.window.size, self.threshold_now());
        self.undo = Some(Undo { size, threshold, una: self.una, repeats: (repeats > 0).then_some(repeats) });
    }

    /// `tcp_cwnd_reduction`: proportional rate reduction with its slow-start bound (RFC 6937 §3).
    pub(super) fn reduce(&mut self, delivered: u32, lost: u32, advanced: bool) {
        if delivered == 0 {
            return;
        }
        let (flight, threshold) = (self.in_flight(), self.window.threshold);
        let state = &mut self.reduction;
        state.delivered += delivered;
        let more = if flight > threshold {
            let share = (u64::from(threshold) * u64::from(state.delivered)).div_ceil(u64::from(state.from.max(1)));
            (share as u32).saturating_sub(state.out)
        } else {
            let bound = state.delivered.saturating_sub(state.out).max(delivered) + u32::from(advanced && lost == 0);
            bound.min(threshold - flight)
        };
        // The first segment of a recovery always goes.
        self.window.size = flight + more.max(u32::from(state.out == 0));
    }

    /// The retransmission timer expired (RFC 6298 §5.4 to 5.6; `tcp_enter_loss`).
    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.segments.is_empty() {
            return;
        }
        let is_new = self.phase == Phase::Open || self.una >= self.high;
        self.is_in_doubt = self.phase == Phase::Open || self.timeouts > 0;
        if is_new || (self.phase == Phase::Loss && self.timeouts == 0) {
            self.remember();
            self.window.threshold = self.algorithm.on_loss(&self.window);
        }
        self.algorithm.on_timeout();
        self.mark_lost(now);
        (self.window.size, self.window.count) = (self.in_flight() + 1, 0);
        (self.phase, self.high, self.probe, self.first) = (Phase::Loss, self.next, None, First::Lost);
        self.timeouts += 1;
        self.rtt.back_off();
        self.arm(now);
    }

    /// All that was not SACKed is lost, but for what left less than a round trip ago (`tcp_timeout_mark_lost`).
    fn mark_lost(&mut self, now: Instant) {
        let rtt = self.rack.map_or(Duration::ZERO, |rack| rack.rtt);
        for (index, sent) in self.segments.iter_mut().enumerate().filter(|(_, sent)| !sent.sacked) {
            if index == 0 || now - sent.at >= rtt {
                (sent.lost, sent.again) = (true, false);
            }
        }
    }

    /// Goes back to the window before it shrank (`tcp_undo_cwnd_reduction`).
    fn undo(&mut self, nothing_is_lost: bool) {
        if let Some(undo) = self.undo.take() {
            self.window.size = self.window.size.max(undo.size);
            self.window.threshold = self.window.threshold.max(undo.threshold);
        }
        if nothing_is_lost {
            self.segments.iter_mut().for_each(|sent| sent.lost = false);
        }
    }

    fn may_undo(&self, echo: Option<Instant>) -> bool {
        self.all_named() || self.is_delayed(echo)
    }

    /// D-SACKs have named all that was repeated (RFC 3708).
    fn all_named(&self) -> bool {
        self.undo.is_some_and(|undo| undo.repeats == Some(0))
    }

    /// Eifel (RFC 3522, RFC 4015): what arrived had left before the first repetition (`tcp_packet_delayed`).
    fn is_delayed(&self, echo: Option<Instant>) -> bool {
        let is_before = |repeat| echo.is_some_and(|echo| echo < repeat);
        self.undo.is_some() && self.first_repeat.is_none_or(is_before)
    }

    /// `tcp_check_dsack`.
    pub(super) fn note_duplicate(&mut self, segment: &Segment) {
        let Some(block) = segment.sacks.blocks[0].filter(|_| segment.sacks.duplicate) else { return };
        if let Some(undo) = self.undo.as_mut().filter(|undo| block.to > undo.una) {
            undo.repeats = undo.repeats.map(|repeats| repeats.saturating_sub(1));
        }
    }

    /// RFC 8985 §7.4: the probe repaired a loss, which the window has to hear of.
    pub(super) fn on_probe_acked(&mut self, segment: &Segment, advanced: bool) {
        let Some(probe) = self.probe.filter(|probe| segment.ack >= probe.end) else { return };
        let is_pure_duplicate = !advanced && segment.sacks.blocks[0].is_none() && segment.data.is_empty();
        if !probe.is_repeat || segment.sacks.duplicate || is_pure_duplicate {
            self.probe = None;
        } else if segment.ack > probe.end {
            self.probe = None;
            self.window.threshold = self.algorithm.on_loss(&self.window);
            self.window.size = self.window.threshold;
        }
    }
}
