//! What decides over the packets of a link: two paths, each for itself or sharing one channel.

use std::time::{Duration, Instant};

use aquila_emu::{Delivered, Direction, DropEvent, HalfDuplex, Packet, Path, PathStats};

use super::packet::IpPacket;

/// Both directions of a link. Up is from its node `a` to its node `b`.
#[derive(Debug)]
pub enum Cells {
    /// Each direction for itself.
    Duplex(Box<[Path<IpPacket>; 2]>),
    /// One transmits at a time.
    HalfDuplex(Box<HalfDuplex<IpPacket>>),
}

impl Cells {
    /// Two paths that do not know of each other.
    pub fn duplex(up: Path<IpPacket>, down: Path<IpPacket>) -> Self {
        Self::Duplex(Box::new([up, down]))
    }

    /// Two paths on one channel.
    pub fn half_duplex(both: HalfDuplex<IpPacket>) -> Self {
        Self::HalfDuplex(Box::new(both))
    }

    pub(super) fn push(&mut self, direction: Direction, now: Instant, packet: Packet<IpPacket>) {
        // What is dropped at once is recorded as all drops are.
        let _ = match self {
            Self::Duplex(paths) => paths[direction as usize].push_packet(now, packet),
            Self::HalfDuplex(both) => both.push(direction, now, packet),
        };
    }

    pub(super) fn pop(&mut self, direction: Direction, now: Instant) -> Option<Delivered<IpPacket>> {
        match self {
            Self::Duplex(paths) => paths[direction as usize].pop_packet(now),
            Self::HalfDuplex(both) => both.pop(direction, now),
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        match self {
            Self::Duplex(paths) => [paths[0].next_delivery(), paths[1].next_delivery()].into_iter().flatten().min(),
            Self::HalfDuplex(both) => both.next_deadline(),
        }
    }

    pub(super) fn change(&mut self, now: Instant, f: impl FnOnce(&mut Path<IpPacket>, &mut Path<IpPacket>)) {
        match self {
            Self::Duplex(paths) => {
                let [up, down] = &mut **paths;
                f(up, down);
            }
            Self::HalfDuplex(both) => both.change(now, f),
        }
    }

    pub(super) fn record_drops(&mut self, now: Instant) {
        self.change(now, |up, down| {
            up.record_drops(true);
            down.record_drops(true);
        });
    }

    pub(super) fn take_drops(&mut self, now: Instant, mut each: impl FnMut(Direction, DropEvent<IpPacket>)) {
        self.change(now, |up, down| {
            while let Some(event) = up.pop_drop() {
                each(Direction::Up, event);
            }
            while let Some(event) = down.pop_drop() {
                each(Direction::Down, event);
            }
        });
    }

    pub(super) fn stats(&self, direction: Direction) -> PathStats {
        self.path(direction).stats()
    }

    pub(super) fn queue_delay(&self, direction: Direction, now: Instant) -> Duration {
        self.path(direction).queue_delay(now)
    }

    pub(super) fn fault(&self) -> Option<String> {
        let faults = [Direction::Up, Direction::Down].map(|direction| self.path(direction).trace_fault());
        faults.into_iter().flatten().next().map(ToString::to_string)
    }

    fn path(&self, direction: Direction) -> &Path<IpPacket> {
        match self {
            Self::Duplex(paths) => &paths[direction as usize],
            Self::HalfDuplex(both) => both.path(direction),
        }
    }
}
