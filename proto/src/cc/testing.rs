//! What tests of controllers have in common.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{Controller, Load, PacketReport, Reports, SentPacket};
use crate::{Bitrate, ByteCount};

/// More than any link that this is for.
const MAX_WINDOW: ByteCount = ByteCount(256 << 20);
const MAX_RATE: Bitrate = Bitrate::mbps(1000);

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
            number: n,
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
        controller
            .on_reports(self.now, Reports { now_us: self.clock_us(), packets: &reports, held: Duration::ZERO, load });
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

/// What a peer, a network and a clock can do to a controller.
#[derive(Debug, Clone)]
pub enum Step {
    Sent {
        after_us: u64,
        bytes: u64,
    },
    /// (age when it was sent, delay or lost, bytes, marked), microseconds; the sender's clock may have jumped.
    Reported {
        after_us: u64,
        packets: Vec<(i64, Option<i64>, u64, bool)>,
        jump_us: i64,
        in_flight: u64,
    },
    Polled {
        after_us: u64,
        in_flight: u64,
        queued: u64,
    },
    Rtt(u64),
    Moved,
}

fn time() -> impl Strategy<Value = u64> {
    prop_oneof![0..50_000u64, 0..2_000_000u64, Just(3_600_000_000)]
}

fn clock() -> impl Strategy<Value = i64> {
    prop_oneof![0..300_000i64, -5_000_000..5_000_000i64, Just(i64::MIN / 2), Just(i64::MAX / 2), any::<i64>()]
}

fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![0..1500u64, Just(u64::from(u16::MAX)), Just(1 << 40)]
}

pub fn step() -> impl Strategy<Value = Step> {
    let packet = (clock(), proptest::option::weighted(0.8, clock()), bytes(), any::<bool>());
    let reported = (time(), proptest::collection::vec(packet, 0..20), prop_oneof![Just(0i64), clock()], bytes());
    prop_oneof![
        4 => (time(), bytes()).prop_map(|(after_us, bytes)| Step::Sent { after_us, bytes }),
        6 => reported.prop_map(|(after_us, packets, jump_us, in_flight)| Step::Reported {
            after_us,
            packets,
            jump_us,
            in_flight
        }),
        2 => (time(), bytes(), bytes()).prop_map(|(after_us, in_flight, queued)| Step::Polled {
            after_us,
            in_flight,
            queued
        }),
        1 => time().prop_map(Step::Rtt),
        1 => Just(Step::Moved),
    ]
}

fn apply(controller: &mut dyn Controller, now: &mut Instant, clock_us: &mut u64, step: &Step) {
    let mut pass = |after_us: u64| {
        *now += Duration::from_micros(after_us);
        *clock_us = clock_us.saturating_add(after_us);
    };
    match step {
        Step::Sent { after_us, bytes } => {
            pass(*after_us);
            controller.on_sent(*now, SentPacket { sent_us: *clock_us, bytes: ByteCount(*bytes), urgent: true });
        }
        Step::Reported { after_us, packets, jump_us, in_flight } => {
            pass(*after_us);
            let packets: Vec<_> = packets
                .iter()
                .map(|(age, delay, bytes, ce)| {
                    let sent_us = clock_us.saturating_add_signed(age.saturating_neg());
                    let arrived_us = delay.map(|delay| sent_us.saturating_add_signed(delay));
                    PacketReport { number: *bytes, sent_us, bytes: ByteCount(*bytes), arrived_us, ce: *ce, leads: *ce }
                })
                .collect();
            let load = Load { in_flight: ByteCount(*in_flight), ..Load::default() };
            let now_us = clock_us.saturating_add_signed(*jump_us);
            controller.on_reports(*now, Reports { now_us, packets: &packets, held: Duration::ZERO, load });
        }
        Step::Polled { after_us, in_flight, queued } => {
            pass(*after_us);
            controller
                .poll(*now, Load { in_flight: ByteCount(*in_flight), queued: ByteCount(*queued), ..Load::default() });
        }
        Step::Rtt(us) => controller.on_rtt(*now, Duration::from_micros(*us)),
        Step::Moved => controller.on_path_change(*now),
    }
}

/// Applies a step, after which whatever the controller says must be within bounds.
pub fn check(
    controller: &mut dyn Controller,
    now: &mut Instant,
    clock_us: &mut u64,
    step: &Step,
) -> Result<(), TestCaseError> {
    apply(controller, now, clock_us, step);
    let name = controller.name();
    prop_assert!(controller.window(*now) <= MAX_WINDOW, "{name}: {:?}", controller.window(*now));
    prop_assert!(controller.target_rate() <= MAX_RATE, "{name}: {:?}", controller.target_rate());
    prop_assert!(controller.capacity() <= MAX_RATE, "{name}: {:?}", controller.capacity());
    prop_assert!(controller.pacing_rate(*now) > Bitrate::ZERO, "{name}");
    let _ = (controller.queue_delay(), controller.may_encode(*now, Load::default()));
    Ok(())
}

/// After anything, a quiet path of 50 ms for two minutes, as fast as the window lets.
pub fn recover(controller: &mut dyn Controller, mut now: Instant) -> (ByteCount, Bitrate) {
    // Times of a peer that has started anew.
    controller.on_path_change(now);
    let (began, mut number) = (now, 0);
    while now < began + Duration::from_secs(120) {
        let sent_us = 1_000_000_000 + now.duration_since(began).as_micros() as u64;
        let packets = (controller.window(now).0 / 1240).clamp(1, 40);
        for _ in 0..packets {
            controller.on_sent(now, SentPacket { sent_us, bytes: ByteCount(1240), urgent: true });
        }
        let load = Load { in_flight: ByteCount(packets * 1240), ..Load::default() };
        controller.poll(now, load);
        now += Duration::from_millis(50);
        let report = |n: u64| PacketReport {
            number: number + n,
            sent_us,
            bytes: ByteCount(1240),
            arrived_us: Some(sent_us + 25_000),
            ce: false,
            leads: false,
        };
        let reports: Vec<_> = (0..packets).map(report).collect();
        number += packets;
        controller.on_reports(now, Reports { now_us: sent_us + 50_000, packets: &reports, held: Duration::ZERO, load });
        controller.poll(now, Load::default());
    }
    (controller.window(now), controller.target_rate())
}
