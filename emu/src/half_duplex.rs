//! Two directions that share one channel: a half-duplex radio.

use std::time::{Duration, Instant};

use crate::packet::{Delivered, Packet, Payload};
use crate::path::{Path, PathConfig};
use crate::profile::Direction;
use crate::stats::DropReason;

/// Two paths of which one transmits at a time.
///
/// - A packet holds the channel for its service at its own direction's rate; nothing else is sent meanwhile.
///   Propagation, jitter and loss on the air are each direction's own, and do not hold the channel.
/// - **Arbitration** is first come, first served over both directions, by the time at which the packets at the heads of
///   the two queues were pushed; of two that came at the same instant, that of the direction which did not send last,
///   and at the very beginning the one that goes up. What has been chosen is not revised while the channel turns
///   around.
/// - **Turn-around**: after the end of a service, a packet of the other direction begins not before the turn-around
///   time has passed; one of the same direction may begin at once. A channel that has been free for longer than that is
///   ready for both.
/// - Each direction has its own queue, bound and discipline. A packet that finds the channel ready begins at once,
///   whatever the bound; all others wait in their queue. A head that CoDel drops when it was to begin has used no time
///   but the turn-around.
/// - In an [`Outage::Hold`](crate::Outage::Hold) of the direction that is sending, the channel stays taken; in an
///   [`Outage::Drop`](crate::Outage::Drop) it is used in vain. An outage of the direction that is not sending shows
///   when it is its turn.
///
/// Rates may come from samples ([`Path::play_samples`]), but not from a trace of opportunities.
#[derive(Debug)]
pub struct HalfDuplex<T> {
    up: Path<T>,
    down: Path<T>,
    turn_around: Duration,
    channel: Channel,
    /// Who sent last.
    last: Option<Direction>,
    latest: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
enum Channel {
    /// Nobody sends; the last service ended then.
    Free(Option<Instant>),
    /// The next packet of that direction begins then.
    Turning(Direction, Instant),
    /// A packet of that direction is in service.
    Busy(Direction),
}

impl<T: Payload> HalfDuplex<T> {
    /// Two paths, with seeds as a [`Link`](crate::Link) has them.
    pub fn new(up: PathConfig, down: PathConfig, turn_around: Duration, seed: u64) -> Self {
        let gated = |config, seed| {
            let mut path = Path::new(config, seed);
            path.gate();
            path
        };
        Self {
            up: gated(up, seed),
            down: gated(down, !seed),
            turn_around,
            channel: Channel::Free(None),
            last: None,
            latest: None,
        }
    }

    /// Puts a packet on the link.
    ///
    /// # Errors
    ///
    /// As [`Path::push`].
    pub fn push(&mut self, direction: Direction, now: Instant, packet: Packet<T>) -> Result<(), DropReason> {
        let now = self.advance(now);
        let ready = match self.channel {
            Channel::Free(since) => self.begins(direction, since, now) <= now,
            Channel::Turning(..) | Channel::Busy(_) => false,
        };
        let path = self.path_mut(direction);
        if !ready {
            let fate = path.push_packet(now, packet);
            self.advance(now);
            return fate;
        }
        let before = path.stats().served.packets;
        let fate = path.push_ungated(now, packet);
        let (serving, sent) = (path.is_serving(), path.stats().served.packets > before);
        if serving || sent {
            self.last = Some(direction);
            self.channel = if serving { Channel::Busy(direction) } else { Channel::Free(Some(now)) };
        }
        fate
    }

    /// The next packet of that direction that is due at `now`.
    pub fn pop(&mut self, direction: Direction, now: Instant) -> Option<Delivered<T>> {
        let now = self.advance(now);
        self.path_mut(direction).pop_packet(now)
    }

    /// When to pop both directions next, if nothing is pushed or changed until then. No packet comes out before; it may
    /// turn out that none does then.
    pub fn next_deadline(&self) -> Option<Instant> {
        let channel = match self.channel {
            Channel::Free(_) => None,
            Channel::Turning(_, at) => Some(at),
            Channel::Busy(direction) => self.path(direction).next_done(),
        };
        [channel, self.up.next_due(), self.down.next_due()].into_iter().flatten().min()
    }

    /// Changes the paths at `now`, first the one that goes up: call their setters with the same time, or
    /// [`Change::apply`](crate::Change::apply).
    pub fn change(&mut self, now: Instant, change: impl FnOnce(&mut Path<T>, &mut Path<T>)) {
        let now = self.advance(now);
        change(&mut self.up, &mut self.down);
        self.advance(now);
    }

    /// The path of that direction, to look at.
    pub fn path(&self, direction: Direction) -> &Path<T> {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    fn path_mut(&mut self, direction: Direction) -> &mut Path<T> {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    fn advance(&mut self, now: Instant) -> Instant {
        let now = self.latest.map_or(now, |latest| latest.max(now));
        self.latest = Some(now);
        loop {
            match self.channel {
                Channel::Busy(direction) => {
                    let path = self.path_mut(direction);
                    let Some(at) = path.advance_to_service(now) else { break };
                    if !path.is_serving() {
                        self.channel = Channel::Free(Some(at));
                    }
                }
                Channel::Free(since) => match self.choose(since) {
                    Some((direction, at)) => self.channel = Channel::Turning(direction, at),
                    None => break,
                },
                Channel::Turning(_, at) if at > now => break,
                Channel::Turning(direction, at) => {
                    self.last = Some(direction);
                    let path = self.path_mut(direction);
                    path.start_next(at);
                    self.channel = if path.is_serving() { Channel::Busy(direction) } else { Channel::Free(Some(at)) };
                }
            }
        }
        self.up.advance(now);
        self.down.advance(now);
        now
    }

    /// Whose packet is next, and when it begins.
    fn choose(&self, since: Option<Instant>) -> Option<(Direction, Instant)> {
        let (up, down) = (self.up.head_pushed(), self.down.head_pushed());
        let (direction, pushed) = match (up, down) {
            (Some(up), Some(down)) => {
                let down_first = down < up || (down == up && self.last == Some(Direction::Up));
                if down_first { (Direction::Down, down) } else { (Direction::Up, up) }
            }
            (Some(up), None) => (Direction::Up, up),
            (None, Some(down)) => (Direction::Down, down),
            (None, None) => return None,
        };
        Some((direction, self.begins(direction, since, pushed)))
    }

    /// When a packet of that direction may begin.
    fn begins(&self, direction: Direction, since: Option<Instant>, pushed: Instant) -> Instant {
        let Some(since) = since else { return pushed };
        let turns = self.last.is_some_and(|last| last != direction);
        let ready = if turns { crate::cell::later(since, self.turn_around) } else { since };
        ready.max(pushed)
    }
}

#[cfg(test)]
#[path = "half_duplex/tests.rs"]
mod tests;
