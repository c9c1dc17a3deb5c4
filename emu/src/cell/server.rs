//! The server: one packet at a time, at a given bit rate or at the opportunities of a trace.
//!
//! **At a rate**, time is exact. The work that a packet still needs is counted in bit-nanoseconds (bits times 10⁹), of
//! which a server of *r* bit/s does *r* per nanosecond, so a change of rate or a pause in mid-packet carries the
//! remaining bits over without rounding. A packet leaves at the first whole nanosecond at which its work is done; what
//! the server did beyond it in that nanosecond goes to the packet behind, so rounding never adds up. Without a rate
//! serialisation takes no time; at a rate of zero nothing moves.
//!
//! **At opportunities**: see [`Opportunities`](super::opportunities::Opportunities).
//!
//! In an outage the server is *paused* (it does no work, opportunities pass unused), or *failing* (it goes on, and each
//! packet of which some service fell into that time is lost when its service ends).

use std::time::{Duration, Instant};

use super::opportunities::Timetable;
use super::queue::Buffer;
use crate::packet::Item;
use crate::stats::{DropReason, Tally};

/// How fast the server works.
#[derive(Debug)]
pub(crate) enum Pace {
    /// Bits per second. `None`: no serialisation at all. Zero: nothing moves.
    Rate(Option<u64>),
    /// As a trace has it.
    Opportunities(Box<Timetable>),
}

#[derive(Debug)]
pub(crate) struct Server<T> {
    pace: Pace,
    /// The last rate that was not zero.
    nominal_bps: Option<u64>,
    serving: Option<Serving<T>>,
    /// At a rate: work done beyond the last departure, within the nanosecond of it.
    credit: u128,
    /// It does not work.
    paused: bool,
    /// What is in service is lost on the way.
    failing: bool,
    /// It takes the next packet only when told: [`Server::start_next`].
    gated: bool,
    sent: Tally,
}

#[derive(Debug)]
struct Serving<T> {
    item: Item<T>,
    /// Bit-nanoseconds still to do at `clock`.
    work: u128,
    clock: Instant,
    /// Some of its service fell into a failing time.
    doomed: bool,
}

/// A packet that is done with, and when.
#[derive(Debug)]
pub(crate) enum Served<T> {
    /// Sent whole; the last bit left at the instant.
    Sent(Instant, Item<T>),
    /// Sent into the void, or dropped by the queue.
    Dropped(Instant, Item<T>, DropReason),
}

impl<T> Server<T> {
    pub(crate) fn new(rate_bps: Option<u64>) -> Self {
        Self {
            pace: Pace::Rate(rate_bps),
            nominal_bps: rate_bps.filter(|rate| *rate > 0),
            serving: None,
            credit: 0,
            paused: false,
            failing: false,
            gated: false,
            sent: Tally::default(),
        }
    }

    /// Takes a packet into service if it is idle, else puts it into the queue. The caller has served up to `now`.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        item: Item<T>,
        queue: &mut Buffer<T>,
    ) -> Result<(), (DropReason, Item<T>)> {
        debug_assert!(self.serving.as_ref().is_none_or(|s| s.clock == now) || self.timetable().is_some());
        if matches!(self.pace, Pace::Rate(_)) && !self.gated && self.serving.is_none() && queue.packets() == 0 {
            self.credit = 0;
            queue.enter(item)?;
            self.start_next(now, queue);
            return Ok(());
        }
        queue.offer(item, self.nominal_rate())
    }

    /// Works up to `until` or up to the next packet that is done with, whichever is first. Call until `None`; then all
    /// work up to `until` is done.
    pub(crate) fn serve(&mut self, until: Instant, queue: &mut Buffer<T>) -> Option<Served<T>> {
        let managed = |(at, item)| Served::Dropped(at, item, DropReason::Aqm);
        if let Some(dropped) = queue.pop_managed() {
            return Some(managed(dropped));
        }
        let served = match self.pace {
            Pace::Rate(rate) => self.serve_at_rate(rate, until, queue),
            Pace::Opportunities(_) => self.serve_at_opportunities(until, queue),
        };
        served.or_else(|| queue.pop_managed().map(managed))
    }

    fn serve_at_rate(&mut self, rate: Option<u64>, until: Instant, queue: &mut Buffer<T>) -> Option<Served<T>> {
        let serving = self.serving.as_mut()?;
        if self.paused || rate == Some(0) {
            serving.clock = serving.clock.max(until);
            return None;
        }
        let (needed, over) = match rate.map(u128::from) {
            None => (0, 0),
            Some(rate) => {
                let available = until.saturating_duration_since(serving.clock).as_nanos();
                if serving.work > available.saturating_mul(rate) {
                    serving.work -= available * rate;
                    serving.clock = serving.clock.max(until);
                    return None;
                }
                let needed = serving.work.div_ceil(rate);
                (needed, needed * rate - serving.work)
            }
        };
        let serving = self.serving.take()?;
        let departed = super::later(serving.clock, duration(needed));
        self.credit += over;
        if self.gated {
            self.credit = 0;
        } else {
            self.start_next(departed, queue);
        }
        Some(self.done(departed, serving))
    }

    fn serve_at_opportunities(&mut self, until: Instant, queue: &mut Buffer<T>) -> Option<Served<T>> {
        let Pace::Opportunities(timetable) = &mut self.pace else { return None };
        loop {
            if timetable.left() == 0 {
                if self.serving.is_none() && queue.packets() == 0 {
                    timetable.skip(until);
                    return None;
                }
                if !timetable.open(until) {
                    return None;
                }
                if self.paused {
                    timetable.close();
                    continue;
                }
            }
            let now = timetable.now()?;
            if self.serving.is_none() {
                let Some(item) = queue.take(now) else {
                    timetable.close();
                    continue;
                };
                let work = work_of(item.packet.bytes);
                self.serving = Some(Serving { item, work, clock: now, doomed: self.failing });
                if queue.has_managed() {
                    // These are told first.
                    return None;
                }
            }
            let serving = self.serving.as_mut()?;
            serving.clock = now;
            serving.work -= timetable.spend(serving.work);
            if serving.work == 0 {
                let serving = self.serving.take()?;
                return Some(self.done(now, serving));
            }
        }
    }

    fn done(&mut self, at: Instant, serving: Serving<T>) -> Served<T> {
        if serving.doomed {
            return Served::Dropped(at, serving.item, DropReason::Outage);
        }
        self.sent.add(serving.item.packet.bytes);
        Served::Sent(at, serving.item)
    }

    /// At a rate: takes the next packet of the queue into service at `now`, if there is one.
    pub(crate) fn start_next(&mut self, now: Instant, queue: &mut Buffer<T>) {
        debug_assert!(self.serving.is_none());
        let Some(item) = queue.take(now) else {
            self.credit = 0;
            return;
        };
        let work = work_of(item.packet.bytes);
        let credit = std::mem::take(&mut self.credit);
        let done = credit.min(work);
        self.credit = credit - done;
        self.serving = Some(Serving { item, work: work - done, clock: now, doomed: self.failing });
    }

    /// Changes the pace. The caller has served up to `now`, the moment of the change. What was sent of the packet in
    /// service stays sent.
    pub(crate) fn set_pace(&mut self, now: Instant, pace: Pace, queue: &mut Buffer<T>) {
        self.nominal_bps = match &pace {
            Pace::Rate(Some(0)) => self.nominal_bps,
            Pace::Rate(rate) => *rate,
            Pace::Opportunities(timetable) => Some(timetable.mean_rate_bps()),
        };
        let was_trace = self.timetable().is_some();
        self.pace = pace;
        if was_trace && self.timetable().is_none() {
            self.credit = 0;
            match &mut self.serving {
                Some(serving) => serving.clock = now,
                None if !self.gated => self.start_next(now, queue),
                None => {}
            }
        }
    }

    /// The rate, unless a trace of opportunities is played.
    pub(crate) fn rate_bps(&self) -> Option<u64> {
        match self.pace {
            Pace::Rate(rate) => rate,
            Pace::Opportunities(_) => None,
        }
    }

    /// The rate that a bound in time counts with.
    fn nominal_rate(&self) -> Option<u64> {
        match self.pace {
            Pace::Rate(None) => None,
            // Nothing was ever carried: no time makes room.
            Pace::Rate(_) | Pace::Opportunities(_) => Some(self.nominal_bps.unwrap_or(0)),
        }
    }

    pub(crate) fn timetable(&self) -> Option<&Timetable> {
        match &self.pace {
            Pace::Opportunities(timetable) => Some(timetable),
            Pace::Rate(_) => None,
        }
    }

    /// The caller has served up to the moment of the change.
    pub(crate) fn set_outage(&mut self, paused: bool, failing: bool) {
        self.paused = paused;
        self.failing = failing;
        if let Some(serving) = &mut self.serving {
            serving.doomed |= failing;
        }
    }

    pub(crate) fn gate(&mut self, gated: bool) {
        self.gated = gated;
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.serving.is_some()
    }

    /// When the server next sends a packet whole if nothing changes, or an earlier time.
    pub(crate) fn next_sent(&self, queue: &Buffer<T>) -> Option<Instant> {
        if self.paused || self.failing {
            return None;
        }
        let rate = match &self.pace {
            Pace::Rate(rate) => *rate,
            Pace::Opportunities(timetable) => {
                return (self.is_serving() || queue.packets() > 0).then(|| timetable.next()).flatten();
            }
        };
        let serving = self.serving.as_ref()?;
        let work = match serving.doomed {
            false => serving.work,
            // This one is lost, the one behind it is not.
            true => serving.work + work_of(queue.next_bytes().filter(|_| !self.gated)?),
        };
        match rate {
            None => Some(serving.clock),
            Some(0) => None,
            Some(rate) => Some(super::later(serving.clock, duration(work.div_ceil(u128::from(rate))))),
        }
    }

    /// When the packet in service is done with, sent or lost.
    pub(crate) fn next_done(&self) -> Option<Instant> {
        let serving = self.serving.as_ref().filter(|_| !self.paused)?;
        match self.rate_bps() {
            None => Some(serving.clock),
            Some(0) => None,
            Some(rate) => Some(super::later(serving.clock, duration(serving.work.div_ceil(u128::from(rate))))),
        }
    }

    /// How long a packet that arrives at `now` would wait before its service starts, if the rate stays and any pause
    /// ends now. With a trace of opportunities: at its mean rate.
    pub(crate) fn queue_delay(&self, now: Instant, queue: &Buffer<T>) -> Duration {
        if !self.is_serving() && queue.packets() == 0 {
            return Duration::ZERO;
        }
        let (left, elapsed) = match &self.serving {
            Some(serving) if self.paused => (serving.work, 0),
            Some(serving) => (serving.work, now.saturating_duration_since(serving.clock).as_nanos()),
            None => (0, 0),
        };
        let (rate, elapsed) = match &self.pace {
            Pace::Rate(rate) => (*rate, elapsed),
            Pace::Opportunities(timetable) => (Some(timetable.mean_rate_bps()), 0),
        };
        match rate.map(u128::from) {
            None => Duration::ZERO,
            Some(0) => Duration::MAX,
            Some(rate) => {
                let backlog = left + work_of(queue.bytes());
                duration(backlog.saturating_sub(elapsed.saturating_mul(rate)).div_ceil(rate))
            }
        }
    }

    pub(crate) fn sent(&self) -> Tally {
        self.sent
    }
}

pub(crate) const NANOS_PER_SEC: u128 = 1_000_000_000;

/// Bit-nanoseconds that a packet takes.
pub(crate) fn work_of(bytes: usize) -> u128 {
    bytes as u128 * 8 * NANOS_PER_SEC
}

/// Saturates at 584 years.
fn duration(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
