//! A server of a given bit rate behind a drop-tail queue.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::path::Packet;

/// One packet at a time is in service; those behind it wait in a queue that is bounded in bytes.
///
/// Time is exact. The work that a packet still needs is counted in bit-nanoseconds (bits times 10⁹), of which a server of *r* bit/s
/// does *r* per nanosecond, so a change of rate or a pause in mid-packet carries the remaining bits over without rounding. A packet
/// leaves at the first whole nanosecond at which its work is done; what the server did beyond it in that nanosecond goes to the
/// packet behind, so rounding never adds up.
#[derive(Debug)]
pub(crate) struct Bottleneck<T> {
    /// `None`: no serialisation at all. Zero: nothing moves.
    rate_bps: Option<u64>,
    queue_bytes: usize,
    waiting: VecDeque<Packet<T>>,
    waiting_bytes: usize,
    in_service: Option<InService<T>>,
    /// Work done beyond the last departure, within the nanosecond of it.
    credit: u128,
    /// The server does not work.
    paused: bool,
    /// What enters service is lost on the way.
    failing: bool,
}

#[derive(Debug)]
struct InService<T> {
    packet: Packet<T>,
    /// Bit-nanoseconds still to do at `clock`.
    work: u128,
    clock: Instant,
    /// Some of its service fell into a failing time.
    doomed: bool,
}

/// A packet that has left the server.
#[derive(Debug)]
pub(crate) enum Served<T> {
    /// Sent whole; the last bit left at the instant.
    Sent(Instant, Packet<T>),
    /// Sent while the link was failing.
    Lost(Packet<T>),
}

impl<T> Bottleneck<T> {
    pub(crate) fn new(rate_bps: Option<u64>, queue_bytes: usize) -> Self {
        Self {
            rate_bps,
            queue_bytes,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            in_service: None,
            credit: 0,
            paused: false,
            failing: false,
        }
    }

    /// Takes a packet, or gives it back when the queue has no room for all of it.
    ///
    /// The packet in service does not count: `queue_bytes` bounds what waits behind it, so an idle server takes any packet and a
    /// packet that fits exactly is accepted.
    pub(crate) fn push(&mut self, now: Instant, packet: Packet<T>) -> Result<(), Packet<T>> {
        debug_assert!(self.in_service.as_ref().is_none_or(|s| s.clock == now), "serve up to `now` first");
        if self.in_service.is_none() {
            self.credit = 0;
            self.start(now, packet);
        } else if self.waiting_bytes + packet.bytes <= self.queue_bytes {
            self.waiting_bytes += packet.bytes;
            self.waiting.push_back(packet);
        } else {
            return Err(packet);
        }
        Ok(())
    }

    /// Works up to `now` or up to the next departure, whichever is first. Call until `None`; then all work up to `now` is done.
    pub(crate) fn serve(&mut self, now: Instant) -> Option<Served<T>> {
        let service = self.in_service.as_mut()?;
        if self.paused {
            service.clock = now;
            return None;
        }
        let available = nanos(now.saturating_duration_since(service.clock));
        let (needed, over) = match self.rate_bps {
            None => (0, 0),
            Some(0) => {
                service.clock = now;
                return None;
            }
            Some(rate) => {
                let rate = u128::from(rate);
                let needed = service.work.div_ceil(rate);
                if needed > available {
                    service.work -= available * rate;
                    service.clock = now;
                    return None;
                }
                (needed, needed * rate - service.work)
            }
        };
        let service = self.in_service.take()?;
        let departed = service.clock + duration(needed);
        self.credit += over;
        match self.waiting.pop_front() {
            Some(next) => {
                self.waiting_bytes -= next.bytes;
                self.start(departed, next);
            }
            None => self.credit = 0,
        }
        Some(if service.doomed { Served::Lost(service.packet) } else { Served::Sent(departed, service.packet) })
    }

    fn start(&mut self, now: Instant, packet: Packet<T>) {
        let work = work_of(packet.bytes);
        let done = self.credit.min(work);
        self.credit -= done;
        self.in_service = Some(InService { packet, work: work - done, clock: now, doomed: self.failing });
    }

    /// The caller has served up to the moment of the change.
    pub(crate) fn set_rate(&mut self, rate_bps: Option<u64>) {
        self.rate_bps = rate_bps;
    }

    pub(crate) fn rate_bps(&self) -> Option<u64> {
        self.rate_bps
    }

    /// The caller has served up to the moment of the change.
    pub(crate) fn set_outage(&mut self, paused: bool, failing: bool) {
        self.paused = paused;
        self.failing = failing;
        if let Some(service) = &mut self.in_service {
            service.doomed |= failing;
        }
    }

    /// When the next packet leaves whole, if nothing changes.
    pub(crate) fn next_sent(&self) -> Option<Instant> {
        let service = self.in_service.as_ref()?;
        let work = match (self.paused || self.failing, service.doomed) {
            (true, _) => return None,
            (false, false) => service.work,
            // This one is lost, the one behind it is not.
            (false, true) => service.work + work_of(self.waiting.front()?.bytes),
        };
        match self.rate_bps {
            None => Some(service.clock),
            Some(0) => None,
            Some(rate) => Some(service.clock + duration(work.div_ceil(u128::from(rate)))),
        }
    }

    /// How long a packet that arrives at `now` would wait before its service starts, if the rate stays and any pause ends now.
    pub(crate) fn queue_delay(&self, now: Instant) -> Duration {
        let Some(service) = &self.in_service else { return Duration::ZERO };
        let elapsed = if self.paused { 0 } else { nanos(now.saturating_duration_since(service.clock)) };
        match self.rate_bps {
            None => Duration::ZERO,
            Some(0) => Duration::MAX,
            Some(rate) => {
                let rate = u128::from(rate);
                let backlog = service.work + work_of(self.waiting_bytes);
                duration(backlog.saturating_sub(elapsed * rate).div_ceil(rate))
            }
        }
    }

    /// Bytes that count against the queue's bound, i.e. without the packet in service.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }
}

const NANOS_PER_SEC: u128 = 1_000_000_000;

fn work_of(bytes: usize) -> u128 {
    bytes as u128 * 8 * NANOS_PER_SEC
}

fn nanos(duration: Duration) -> u128 {
    duration.as_nanos()
}

/// Saturates at 584 years.
fn duration(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
