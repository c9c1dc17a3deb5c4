//! What an acknowledgement or a timeout says about losses, and what the window does then.

use std::time::{Duration, Instant};

use super::{News, Phase, Rack, Reduction, Sender};
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
                    news.reordered |= sent.span.to <= highest;
                    news.first_sacked = Some(news.first_sacked.map_or(sent.at, |first| first.min(sent.at)));
                    news.last = news.last.max(Some(sent.at));
                }
                news.delivered += 1;
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
                news.reordered |= sent.span.to <= highest;
                news.first_acked.get_or_insert(sent.at);
                news.last = news.last.max(Some(sent.at));
            }
            if !sent.sacked {
                news.delivered += 1;
                self.advance_rack(now, 0);
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

    pub(super) fn enter_recovery(&mut self) {
        if self.phase == Phase::Open {
            self.undo = Some((self.window.size, self.window.threshold));
        }
        self.reduction = Reduction { from: self.window.size, ..Reduction::default() };
        self.window.threshold = self.algorithm.on_loss(&self.window);
        self.window.count = 0;
        (self.phase, self.high, self.probe) = (Phase::Recovery, self.next, None);
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
        if is_new || (self.phase == Phase::Loss && self.timeouts == 0) {
            self.undo = Some((self.window.size, self.window.threshold));
            self.first_repeat = None;
            self.window.threshold = self.algorithm.on_loss(&self.window);
        }
        self.algorithm.on_timeout();
        self.mark_lost(now);
        (self.window.size, self.window.count) = (self.in_flight() + 1, 0);
        (self.phase, self.high, self.probe) = (Phase::Loss, self.next, None);
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

    /// Eifel (RFC 3522, RFC 4015): what arrived had left before the first repetition, so nothing was lost.
    pub(super) fn undo_if_needless(&mut self, echo: Option<Instant>) {
        if self.phase == Phase::Open {
            self.first_repeat = None;
            return;
        }
        let is_needless = self.first_repeat.zip(echo).is_some_and(|(repeat, echo)| echo < repeat);
        if is_needless && let Some((size, threshold)) = self.undo {
            self.window.size = self.window.size.max(size);
            self.window.threshold = self.window.threshold.max(threshold);
            for sent in &mut self.segments {
                sent.lost = false;
            }
            self.end_phase();
        }
    }

    pub(super) fn end_phase(&mut self) {
        self.phase = Phase::Open;
        self.undo = None;
        self.first_repeat = None;
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
