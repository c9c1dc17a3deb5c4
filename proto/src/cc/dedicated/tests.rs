use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::*;
use crate::cc::PacketReport;

const TICK_US: u64 = 250;
const DELAY_US: u64 = 5_000;
const PACKET: u64 = 1_450;
const LINK: f64 = 30e6;
const REPORT_EVERY_US: u64 = 10_000;

/// A radio that loses, the program in front of it, which now and then does not run, and a sender that always has something.
struct Loop {
    controller: Dedicated,
    origin: Instant,
    now_us: u64,
    loss: f64,
    /// Bytes in front of the radio.
    room: f64,
    /// Pauses of the radio's program.
    pauses: bool,
    random: u64,
    /// When the radio will have sent what waits.
    free_us: f64,
    paused_until_us: u64,
    credit: f64,
    number: u64,
    /// What left and is not reported: number, when, when it arrives.
    under_way: VecDeque<(u64, u64, Option<u64>)>,
    in_flight: u64,
    /// Bytes that left, and those that arrived.
    sent: f64,
    arrived: f64,
}

impl Loop {
    fn new(loss: f64, pauses: bool) -> Self {
        Self {
            controller: Dedicated::new(DedicatedConfig::default()),
            origin: Instant::now(),
            now_us: 1_000_000,
            loss,
            room: 60_000.0,
            pauses,
            random: 0x9e37_79b9_7f4a_7c15,
            free_us: 0.0,
            paused_until_us: 0,
            credit: 0.0,
            number: 0,
            under_way: VecDeque::new(),
            in_flight: 0,
            sent: 0.0,
            arrived: 0.0,
        }
    }

    fn chance(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    fn at(&self, us: u64) -> Instant {
        self.origin + Duration::from_micros(us)
    }

    fn send(&mut self) {
        let now = self.at(self.now_us);
        self.controller.on_sent(now, SentPacket { sent_us: self.now_us, bytes: ByteCount(PACKET), urgent: true });
        self.number += 1;
        self.sent += PACKET as f64;
        self.in_flight += PACKET;
        let waits = (self.free_us - self.now_us as f64).max(0.0) * LINK / 8e6;
        let mut arrives = None;
        if waits + PACKET as f64 <= self.room {
            self.free_us = self.free_us.max(self.now_us as f64) + PACKET as f64 * 8e6 / LINK;
            if self.chance() >= self.loss {
                // What was due during a pause comes all at once behind it.
                arrives = Some((self.free_us as u64).max(self.paused_until_us) + DELAY_US);
                self.arrived += PACKET as f64;
            }
        }
        self.under_way.push_back((self.number, self.now_us, arrives));
    }

    fn report(&mut self) {
        // What left this long ago was told of.
        let told_us = self.now_us - DELAY_US;
        let mut packets = Vec::new();
        while let Some(&(number, sent_us, arrives)) = self.under_way.front() {
            let is_told = match arrives {
                Some(arrives) => arrives <= told_us,
                None => (sent_us as f64 + 2.0 * self.room * 8e6 / LINK) as u64 + DELAY_US <= told_us,
            };
            if !is_told {
                break;
            }
            self.under_way.pop_front();
            self.in_flight -= PACKET;
            let bytes = ByteCount(PACKET);
            packets.push(PacketReport { number, sent_us, bytes, arrived_us: arrives, ce: false, leads: false });
        }
        let load = Load { in_flight: ByteCount(self.in_flight), ..Load::default() };
        let now = self.at(self.now_us);
        if packets.is_empty() {
            return;
        }
        self.controller.on_reports(now, Reports { now_us: self.now_us, packets: &packets, held: Duration::ZERO, load });
        self.controller.on_rtt(now, Duration::from_micros(2 * DELAY_US));
    }

    /// For so long.
    fn run(&mut self, time: Duration) {
        let until = self.now_us + time.as_micros() as u64;
        while self.now_us < until {
            self.now_us += TICK_US;
            let now = self.at(self.now_us);
            if self.pauses && self.chance() < 0.01 {
                self.paused_until_us = self.now_us + (self.chance() * 40_000.0) as u64;
            }
            let load = Load { in_flight: ByteCount(self.in_flight), ..Load::default() };
            self.controller.poll(now, load);
            let pace = self.controller.pacing_rate(now).as_mbps() / 8.0;
            let most = pace * self.controller.pacing_slack().as_micros() as f64 + PACKET as f64;
            self.credit = (self.credit + pace * TICK_US as f64).min(most);
            while self.credit >= PACKET as f64 && self.in_flight < self.controller.window(now).0 {
                self.credit -= PACKET as f64;
                self.send();
            }
            if self.now_us.is_multiple_of(REPORT_EVERY_US) {
                self.report();
            }
        }
    }

    /// Of what the radio carries, what leaves and what arrives, over some seconds.
    fn shares(&mut self, seconds: u64) -> (f64, f64) {
        (self.sent, self.arrived) = (0.0, 0.0);
        self.run(Duration::from_secs(seconds));
        let carries = LINK / 8.0 * seconds as f64;
        (self.sent / carries, self.arrived / carries / (1.0 - self.loss))
    }
}

#[test]
fn a_radio_is_filled_and_not_flooded_whatever_its_program_does() {
    for (loss, pauses, most, least) in [
        (0.0, false, 1.02, 0.98),
        (0.2, false, 1.05, 0.97),
        (0.5, false, 1.06, 0.97),
        (0.8, false, 1.1, 0.95),
        (0.0, true, 1.05, 0.95),
        (0.2, true, 1.2, 0.85),
        (0.5, true, 1.2, 0.85),
        (0.8, true, 1.2, 0.85),
    ] {
        let mut path = Loop::new(loss, pauses);
        path.run(Duration::from_secs(1));
        let (sent, arrived) = path.shares(60);
        println!("{loss} lost, pauses {pauses}: {sent:.3} sent, {arrived:.3} arrived");
        assert!(sent <= most && arrived >= least, "{loss} lost, pauses {pauses}: {sent} sent, {arrived} arrived");
    }
}

#[test]
fn a_rate_that_is_far_too_high_is_found_to_be_so() {
    for loss in [0.0, 0.2, 0.5, 0.8] {
        for factor in [2.5, 5.0, 15.0] {
            let mut path = Loop::new(loss, false);
            path.run(Duration::from_secs(2));
            // And where the queue has stood since delays are known, so that nothing tells of it.
            for is_base_known in [true, false] {
                path.controller.rate = Bitrate::mbps(30).scaled(factor);
                if !is_base_known {
                    path.run(Duration::from_millis(20));
                    path.controller.on_path_change(path.at(path.now_us));
                }
                path.run(Duration::from_secs(3));
                let (sent, arrived) = path.shares(2);
                println!("{loss} lost, {factor}, {is_base_known}: {sent:.3} sent, {arrived:.3} arrived");
                assert!(sent < 1.15 && arrived > 0.93, "{loss} lost, {factor}, {is_base_known}: {sent} {arrived}");
            }
        }
    }
}

#[test]
fn what_always_waits_is_not_taken_for_the_way() {
    let mut path = Loop::new(0.0, false);
    path.room = 1e6;
    path.run(Duration::from_secs(150));
    let standing = (0..300).map(|_| {
        path.run(Duration::from_millis(100));
        path.free_us - path.now_us as f64
    });
    let most = standing.fold(0.0, f64::max);
    assert!(most < 25_000.0, "{most} us wait");
}

#[test]
fn the_rate_is_known_after_a_round_trip() {
    let mut path = Loop::new(0.02, false);
    // A round trip, a report, and what a window of 1 Mbit/s takes on the radio.
    path.run(Duration::from_millis(10 + 10 + 10));
    let rate = path.controller.rate.as_mbps();
    assert!((24.0..36.0).contains(&rate), "{rate} Mbit/s");
}

#[test]
fn what_a_connection_begins_with_says_nothing_of_its_rate() {
    let mut controller = Dedicated::new(DedicatedConfig::default());
    let now = Instant::now();
    let small = |number| PacketReport {
        number,
        sent_us: 1_000 + 20 * number,
        bytes: ByteCount(60),
        arrived_us: Some(9_000 + 60 * number),
        ce: false,
        leads: false,
    };
    let packets: Vec<_> = (0..20).map(small).collect();
    controller
        .on_reports(now, Reports { now_us: 12_000, packets: &packets, held: Duration::ZERO, load: Load::default() });
    assert_eq!(controller.rate, DedicatedConfig::default().initial);
    assert!(!controller.found);
}
