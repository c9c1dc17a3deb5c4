//! The queue in front of the server: how much may wait, and what is done before it is full.
//!
//! A packet waits from when it is pushed until the server takes it; the one in service does not count. A server of a
//! given rate that is idle takes any packet at once, so with it the bound is on what waits *behind* the packet in
//! service. A server that follows a trace of opportunities takes packets only when an opportunity comes, so there every
//! packet waits, as in mahimahi.
//!
//! - **Bound**: a packet that fits exactly is accepted, one that does not is dropped on arrival (drop-tail), whatever
//!   the discipline. [`Bound::Time`] is a number of bytes in disguise, as in a real modem: what the link carries in
//!   that time at its rate at the arrival; while the rate is zero, at the last one that was not; with a trace of
//!   opportunities, at the trace's mean rate; without a rate there is no bound, since nothing waits.
//! - **Marking**: a step. [`MarkAt::Sojourn`] looks when the packet leaves the queue: one that waited longer than that
//!   is marked. [`MarkAt::Bytes`] looks when it arrives: it is marked if more bytes than that wait then, itself
//!   included (RFC 8257 §3.1). Packets that are not ECN-capable pass, or are dropped instead if so configured.
//! - **CoDel**: see [`CoDel`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::codel::{CoDel, CoDelState};
use super::server::{NANOS_PER_SEC, work_of};
use crate::packet::{Ecn, Item};
use crate::stats::{DropReason, Tally};

/// A queue: its bound and its discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// How much may wait.
    pub bound: Bound,
    /// What happens before it is full.
    pub discipline: Discipline,
}

impl Queue {
    /// Drop-tail, bounded in bytes.
    pub const fn bytes(bytes: usize) -> Self {
        Self { bound: Bound::Bytes(bytes), discipline: Discipline::DropTail }
    }

    /// Drop-tail, bounded in packets.
    pub const fn packets(packets: usize) -> Self {
        Self { bound: Bound::Packets(packets), discipline: Discipline::DropTail }
    }

    /// Drop-tail, bounded in time at the link's rate.
    pub const fn time(time: Duration) -> Self {
        Self { bound: Bound::Time(time), discipline: Discipline::DropTail }
    }

    /// The same bound with another discipline.
    pub const fn with(self, discipline: Discipline) -> Self {
        Self { bound: self.bound, discipline }
    }
}

impl Default for Queue {
    /// 60 kB, drop-tail: 120 ms at 4 Mbit/s.
    fn default() -> Self {
        Self::bytes(60_000)
    }
}

/// How much may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Bytes on the wire.
    Bytes(usize),
    /// Packets, whatever their size.
    Packets(usize),
    /// Bytes that the link carries in this time; see the module's text.
    Time(Duration),
}

/// What a queue does before it is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// Nothing.
    DropTail,
    /// Controlled delay.
    CoDel(CoDel),
    /// Marks from a threshold on.
    Mark(Marking),
}

/// ECN marking by a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marking {
    /// From where on.
    pub at: MarkAt,
    /// Whether packets that are not ECN-capable are dropped where others are marked. Else they pass.
    pub drop_not_capable: bool,
}

/// Where marking begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkAt {
    /// A packet that has waited longer than this.
    Sojourn(Duration),
    /// A packet on whose arrival more bytes than this wait, itself included.
    Bytes(usize),
}

/// The packets that wait.
#[derive(Debug)]
pub(crate) struct Buffer<T> {
    config: Queue,
    waiting: VecDeque<Item<T>>,
    bytes: usize,
    codel: CoDelState,
    /// Dropped when they were to leave, and not yet told.
    managed: VecDeque<(Instant, Item<T>)>,
    marked: Tally,
}

impl<T> Buffer<T> {
    pub(crate) fn new(config: Queue) -> Self {
        Self {
            config,
            waiting: VecDeque::new(),
            bytes: 0,
            codel: CoDelState::default(),
            managed: VecDeque::new(),
            marked: Tally::default(),
        }
    }

    /// What waits stays, even beyond the new bound.
    pub(crate) fn configure(&mut self, config: Queue) {
        self.config = config;
        self.codel = CoDelState::default();
    }

    /// Takes a packet that has to wait, or gives it back with the reason. `rate_bps` is what [`Bound::Time`] counts
    /// with.
    pub(crate) fn offer(&mut self, item: Item<T>, rate_bps: Option<u64>) -> Result<(), (DropReason, Item<T>)> {
        let fits = match self.config.bound {
            Bound::Bytes(bound) => self.bytes.saturating_add(item.packet.bytes) <= bound,
            Bound::Packets(bound) => self.waiting.len() < bound,
            Bound::Time(bound) => rate_bps.is_none_or(|rate| {
                let room = u128::from(rate) * bound.as_nanos().min(NANOS_PER_SEC << 32);
                work_of(self.bytes) + work_of(item.packet.bytes) <= room
            }),
        };
        if fits { self.enter(item) } else { Err((DropReason::QueueFull, item)) }
    }

    /// Takes a packet without asking for the bound: the server is idle and will take it at once.
    pub(crate) fn enter(&mut self, mut item: Item<T>) -> Result<(), (DropReason, Item<T>)> {
        if let Discipline::Mark(Marking { at: MarkAt::Bytes(from), drop_not_capable }) = self.config.discipline
            && self.bytes.saturating_add(item.packet.bytes) > from
            && !mark(&mut item, &mut self.marked)
            && drop_not_capable
        {
            return Err((DropReason::Aqm, item));
        }
        self.bytes += item.packet.bytes;
        self.waiting.push_back(item);
        Ok(())
    }

    /// The packet that the server takes at `now`. On the way others may be dropped; see [`Buffer::pop_managed`].
    pub(crate) fn take(&mut self, now: Instant) -> Option<Item<T>> {
        match self.config.discipline {
            Discipline::DropTail => self.first(),
            Discipline::CoDel(codel) => self.take_controlled(codel, now),
            Discipline::Mark(marking) => self.take_marked(marking, now),
        }
    }

    fn take_marked(&mut self, marking: Marking, now: Instant) -> Option<Item<T>> {
        loop {
            let mut item = self.first()?;
            let MarkAt::Sojourn(longest) = marking.at else { return Some(item) };
            let passes = now.saturating_duration_since(item.pushed) <= longest
                || mark(&mut item, &mut self.marked)
                || !marking.drop_not_capable;
            if passes {
                return Some(item);
            }
            self.managed.push_back((now, item));
        }
    }

    /// RFC 8289 §5.6.
    fn take_controlled(&mut self, codel: CoDel, now: Instant) -> Option<Item<T>> {
        let mut item = self.first();
        let mut above = self.is_above(&codel, now, item.as_ref());
        if self.codel.is_dropping() {
            if !above {
                self.codel.leave();
            }
            while let Some(doomed) = item.take_if(|_| self.codel.is_due(now)) {
                let doomed = match self.mark_instead(&codel, doomed) {
                    Ok(marked) => {
                        item = Some(marked);
                        self.codel.next(&codel);
                        break;
                    }
                    Err(doomed) => doomed,
                };
                self.managed.push_back((now, doomed));
                item = self.first();
                above = self.is_above(&codel, now, item.as_ref());
                if above { self.codel.next(&codel) } else { self.codel.leave_counted() }
            }
        } else if above && let Some(doomed) = item.take() {
            item = match self.mark_instead(&codel, doomed) {
                Ok(marked) => Some(marked),
                Err(doomed) => {
                    self.managed.push_back((now, doomed));
                    let next = self.first();
                    self.is_above(&codel, now, next.as_ref());
                    next
                }
            };
            self.codel.begin(&codel, now);
        }
        item
    }

    fn is_above(&mut self, codel: &CoDel, now: Instant, item: Option<&Item<T>>) -> bool {
        let sojourn = item.map(|item| now.saturating_duration_since(item.pushed));
        self.codel.is_above(codel, now, sojourn, self.bytes)
    }

    fn mark_instead(&mut self, codel: &CoDel, mut item: Item<T>) -> Result<Item<T>, Item<T>> {
        if codel.ecn && mark(&mut item, &mut self.marked) { Ok(item) } else { Err(item) }
    }

    fn first(&mut self) -> Option<Item<T>> {
        let item = self.waiting.pop_front()?;
        self.bytes -= item.packet.bytes;
        Some(item)
    }

    /// The next packet that the discipline dropped, and when.
    pub(crate) fn pop_managed(&mut self) -> Option<(Instant, Item<T>)> {
        self.managed.pop_front()
    }

    pub(crate) fn has_managed(&self) -> bool {
        !self.managed.is_empty()
    }

    /// Bytes of the packet that leaves next, or fewer if the discipline may prefer a smaller one behind it.
    pub(crate) fn next_bytes(&self) -> Option<usize> {
        let head = self.head()?.packet.bytes;
        Some(if self.config.discipline == Discipline::DropTail { head } else { 0 })
    }

    /// The packet that has waited longest.
    pub(crate) fn head(&self) -> Option<&Item<T>> {
        self.waiting.front()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn packets(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn marked(&self) -> Tally {
        self.marked
    }
}

/// Whether the packet is ECN-capable and so carries the mark now.
fn mark<T>(item: &mut Item<T>, marked: &mut Tally) -> bool {
    if !item.packet.ecn.is_capable() {
        return false;
    }
    if item.packet.ecn != Ecn::Ce {
        item.packet.ecn = Ecn::Ce;
        marked.add(item.packet.bytes);
    }
    true
}

#[cfg(test)]
#[path = "queue/tests.rs"]
mod tests;
