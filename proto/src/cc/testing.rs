//! What tests of controllers have in common.

use std::time::{Duration, Instant};

use super::{Controller, Load, PacketReport, Reports, SentPacket};
use crate::ByteCount;

/// Bytes of a full packet.
pub const PACKET: u64 = 1240;

/// A path of one round-trip time and no limit, as a controller hears of it: what it sends is reported a round trip later.
#[derive(Debug)]
pub struct Feed {
    /// Time, on every clock.
    pub now: Instant,
    /// Of the path, half of it there; a change of it is a queue on the way there.
    pub rtt: Duration,
    /// Packets are marked, or lost.
    pub marked: bool,
    pub lost: bool,
    began: Instant,
    back: Duration,
}

impl Feed {
    pub fn new(rtt: Duration) -> Self {
        let now = Instant::now();
        Self { now, rtt, marked: false, lost: false, began: now, back: rtt / 2 }
    }

    fn clock_us(&self) -> u64 {
        1_000_000_000 + self.now.duration_since(self.began).as_micros() as u64
    }

    /// So many packets are sent, and reported together.
    pub fn acked(&mut self, controller: &mut dyn Controller, packets: u64) {
        let sent_us = self.clock_us();
        let bytes = ByteCount(PACKET);
        for _ in 0..packets {
            controller.on_sent(self.now, SentPacket { sent_us, bytes, urgent: true });
        }
        let arrived_us = sent_us + self.rtt.saturating_sub(self.back).as_micros() as u64 + 77_000_000;
        let fate = |n: u64| PacketReport {
            sent_us,
            bytes,
            arrived_us: (!self.lost || n > 0).then_some(arrived_us),
            ce: self.marked,
            leads: n == 0,
        };
        let reports: Vec<_> = (0..packets).map(fate).collect();
        let load = Load { in_flight: ByteCount(packets * PACKET), ..Load::default() };
        controller.poll(self.now, load);
        self.now += self.rtt;
        let load = Load { in_flight: ByteCount(packets * PACKET / 2), ..Load::default() };
        controller.on_reports(self.now, Reports { now_us: self.clock_us(), packets: &reports, load });
        controller.poll(self.now, load);
    }

    /// As many as the window holds, in one round trip.
    pub fn window_acked(&mut self, controller: &mut dyn Controller) {
        let packets = controller.window(self.now).0 / PACKET;
        self.acked(controller, packets.clamp(1, 2000));
    }

    /// Windows for this long.
    pub fn run(&mut self, controller: &mut dyn Controller, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.window_acked(controller);
        }
    }
}
