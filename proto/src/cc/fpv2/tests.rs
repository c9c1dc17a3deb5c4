#![expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]

use proptest::prelude::*;

use super::*;
use crate::cc::PacketReport;
use crate::cc::testing::{check, step};

const FRAME: Duration = Duration::from_micros(33_333);

/// A link of `rate`, packets of 1200 bytes in order, and feedback every 10 ms.
struct FakeLink {
    start: Instant,
    rate: Bitrate,
    delay_us: u64,
    free_us: u64,
    /// Sent, arrives.
    under_way: Vec<(u64, u64)>,
    /// There is always more to send, as of bulk, in place of the camera.
    flooded: bool,
    unhurried: bool,
}

const PACKET: ByteCount = ByteCount(1200);

impl FakeLink {
    fn new(rate: Bitrate) -> Self {
        let under_way = Vec::new();
        Self { start: Instant::now(), rate, delay_us: 20_000, free_us: 0, under_way, flooded: false, unhurried: false }
    }

    fn at(&self, us: u64) -> Instant {
        self.start + Duration::from_micros(us)
    }

    /// A camera that makes what it is asked for, 30 times a second, from one time to another; gives what was skipped.
    fn run(&mut self, controller: &mut Fpv2, from_ms: u64, to_ms: u64) -> usize {
        let (mut queued, mut next_us, mut skipped) = (if self.flooded { u64::MAX } else { 0 }, from_ms * 1000, 0);
        for ms in from_ms..to_ms {
            let now = self.at(ms * 1000);
            let load = self.load(queued);
            controller.poll(now, load);
            if ms % 33 == 0 && !self.flooded {
                match controller.may_encode(now, load) {
                    true => queued += controller.range.clamp(controller.target_rate()).bytes_in(FRAME).0.max(1),
                    false => skipped += 1,
                }
            }
            if ms % 10 == 0 {
                self.report(controller, ms * 1000);
            }
            next_us = next_us.max(ms * 1000);
            while queued > 0 && next_us < (ms + 1) * 1000 && self.load(0).in_flight + PACKET <= controller.window(now) {
                let leads = ms % 33 == 0;
                controller.on_sent(now, SentPacket { sent_us: next_us, bytes: PACKET, urgent: true });
                self.free_us = self.free_us.max(next_us) + self.rate.time_for(PACKET).as_micros() as u64;
                self.under_way.push((next_us * 2 + u64::from(leads), self.free_us + self.delay_us));
                next_us += controller.pacing_rate(now).time_for(PACKET).as_micros() as u64;
                queued = queued.saturating_sub(PACKET.0);
            }
        }
        skipped
    }

    fn load(&self, queued: u64) -> Load {
        let (queued, beside) = if self.flooded { (0, 1_000_000) } else { (queued, 0) };
        Load {
            in_flight: ByteCount(self.under_way.len() as u64 * PACKET.0),
            queued: ByteCount(queued),
            beside: ByteCount(beside),
            unhurried: self.unhurried,
            ..Load::default()
        }
    }

    fn report(&mut self, controller: &mut Fpv2, now_us: u64) {
        let heard = self.under_way.iter().take_while(|(_, arrived)| arrived + self.delay_us <= now_us).count();
        let packets: Vec<PacketReport> = self
            .under_way
            .drain(..heard)
            .map(|(sent, arrived)| PacketReport {
                number: 0,
                sent_us: sent / 2,
                bytes: PACKET,
                arrived_us: Some(arrived + 5_000_000),
                ce: false,
                leads: sent % 2 == 1,
            })
            .collect();
        let load = self.load(0);
        if heard > 0 {
            controller.on_reports(self.at(now_us), Reports { now_us, packets: &packets, held: Duration::ZERO, load });
        }
    }
}

fn controller() -> Fpv2 {
    Fpv2::new(Fpv2Config::default(), EncoderRange { most: Bitrate::mbps(10), ..EncoderRange::default() })
}

fn is_near(rate: Bitrate, mbps: f64) -> bool {
    (rate.as_mbps() - mbps).abs() < 0.1 * mbps
}

#[test]
fn the_capacity_is_found_within_two_seconds_and_followed_down_within_a_third_of_one() {
    let mut link = FakeLink::new(Bitrate::mbps(5));
    let mut controller = controller();
    link.run(&mut controller, 0, 2_000);
    assert!(is_near(controller.capacity(), 5.0), "{:?}", controller.capacity());
    link.rate = Bitrate::mbps(1);
    link.run(&mut controller, 2_000, 2_333);
    assert!(is_near(controller.capacity(), 1.0), "{:?}", controller.capacity());
    link.run(&mut controller, 2_333, 6_000);
    assert!((0.6..0.95).contains(&controller.target_rate().as_mbps()), "{:?}", controller.target_rate());
    assert!(controller.queue_delay() < Duration::from_millis(60), "{:?}", controller.queue_delay());
}

#[test]
fn a_queue_that_stands_is_drained_by_a_pause_and_what_follows_is_paced() {
    let mut link = FakeLink { flooded: true, unhurried: true, ..FakeLink::new(Bitrate::mbps(2)) };
    let mut controller = controller();
    let (mut pauses, mut was_draining) = (Vec::new(), false);
    for ms in 0..20_000 {
        link.run(&mut controller, ms, ms + 1);
        let now = link.at(ms * 1000);
        let is_draining = controller.drain.is_draining(now);
        if is_draining {
            assert_eq!(controller.window(now), ByteCount::ZERO, "{ms}");
            assert!(!controller.may_encode(now, link.load(0)), "{ms}");
        } else if controller.drain.ends().is_some_and(|ends| now < ends + controller.pipe()) {
            // What has waited for the pause to end does not leave at once.
            assert!(controller.pacing_rate(now) <= controller.ours(), "{ms}");
        }
        let floor_us = controller.base.floor_us();
        if is_draining && !was_draining {
            pauses.push((ms, floor_us, floor_us));
        }
        if let Some((_, _, least_us)) = pauses.last_mut() {
            *least_us = floor_us.min(*least_us);
        }
        was_draining = is_draining;
    }
    assert_eq!(pauses.len(), 3, "once in five seconds: {pauses:?}");
    assert!(pauses.iter().all(|(_, stood_us, least_us)| *stood_us >= 8_000 && *least_us < 1_000), "{pauses:?}");
}

/// Frames of two packets that the network hands over at once, 60 ms late, every 40 ms: 496 kbit/s.
fn handed_over_in_pairs() -> Trains {
    let (mut trains, start) = (Trains::new(), Instant::now());
    for frame in 0..20 {
        let sent_us = frame * 40_000;
        for behind_us in [0, 100] {
            let arrival = Arrival { sent_us: sent_us + behind_us, arrived_us: sent_us + 5_080_000, bytes: 1240 };
            trains.on_arrival(start, arrival, 5_020_000, 22_000);
        }
    }
    trains
}

#[test]
fn packets_that_are_handed_over_at_once_tell_of_no_rate() {
    let verdict = handed_over_in_pairs().verdict(false, true, None);
    assert!(matches!(verdict, Some(Verdict::Limited(rate)) if is_near(rate, 0.496)), "{verdict:?}");
    assert_eq!(handed_over_in_pairs().verdict(true, true, None), None, "the delay may be the path's");
}

#[test]
fn a_measurement_that_makes_no_sense_does_not_make_a_flood() {
    let mut link = FakeLink::new(Bitrate::mbps(1));
    let mut controller = controller();
    link.run(&mut controller, 0, 4_000);
    assert!(controller.found && is_near(controller.capacity(), 1.0), "{:?}", controller.capacity());
    let packets: Vec<PacketReport> = (0..40)
        .map(|n| PacketReport {
            number: n,
            sent_us: 6_000_000 + n * 10,
            bytes: PACKET,
            arrived_us: Some(11_021_000 + n * 60),
            ce: false,
            leads: n == 0,
        })
        .collect();
    for packet in &packets {
        controller
            .on_sent(link.at(packet.sent_us), SentPacket { sent_us: packet.sent_us, bytes: PACKET, urgent: true });
    }
    let now_us = 6_050_000;
    controller.on_reports(
        link.at(now_us),
        Reports { now_us, packets: &packets, held: Duration::ZERO, load: Load::default() },
    );
    // These say 160 Mbit/s; 3.2 arrived, of which three times as much and 0.2 are believed.
    assert!(controller.capacity() <= Bitrate::mbps(10), "{:?}", controller.capacity());
}

#[test]
fn a_trickle_of_too_few_packets_to_measure_is_known_by_how_long_they_wait() {
    let mut link = FakeLink::new(Bitrate::mbps(1));
    let mut controller = controller();
    link.run(&mut controller, 0, 3_000);
    link.rate = Bitrate::kbps(24);
    link.run(&mut controller, 3_000, 9_000);
    assert!(controller.capacity() < Bitrate::kbps(60), "{:?}", controller.capacity());
    link.rate = Bitrate::mbps(1);
    link.run(&mut controller, 9_000, 15_000);
    assert!(is_near(controller.capacity(), 1.0), "{:?}", controller.capacity());
}

#[test]
fn the_rate_that_lasts_does_not_work_off_a_queue() {
    let mut link = FakeLink::new(Bitrate::mbps(2));
    let mut controller = controller();
    link.run(&mut controller, 0, 3_000);
    let lasting = controller.lasting_rate();
    assert!((1.5..1.95).contains(&lasting.as_mbps()), "{lasting:?}");
    let now = link.at(3_000_000);
    let queued = Load { queued: ByteCount(15_000), ..link.load(0) };
    controller.poll(now, queued);
    assert!(controller.target_rate() < Bitrate::kbps(200), "60 ms of queue: {:?}", controller.target_rate());
    assert_eq!(controller.lasting_rate(), lasting);
}

#[test]
fn what_leaves_before_the_next_frame_comes_is_not_in_its_way() {
    let mut link = FakeLink::new(Bitrate::mbps(2));
    let mut controller = controller();
    link.run(&mut controller, 0, 3_000);
    let now = link.at(3_000_000);
    let queue = |kilobytes: u64, ms| Load {
        queued: ByteCount(kilobytes * 1000),
        until_frame: Duration::from_millis(ms),
        ..link.load(0)
    };
    let mut rate = |load| {
        controller.poll(now, load);
        (controller.target_rate().as_mbps(), controller.may_encode(now, load))
    };
    // 44 ms of queue.
    let (now_due, may_now) = rate(queue(11, 0));
    let (soon_due, may_soon) = rate(queue(11, 30));
    let (late_due, may_late) = rate(queue(11, 60));
    let lasting = controller.lasting_rate().as_mbps();
    assert!(now_due < 0.3 * lasting && !may_now, "{now_due} of {lasting}");
    assert!((0.5..0.95).contains(&(soon_due / lasting)) && may_soon, "{soon_due} of {lasting}");
    assert!(late_due > 0.95 * lasting && may_late, "{late_due} of {lasting}");
}

#[test]
fn a_frame_that_waits_for_the_queue_is_taken_if_that_is_gone_sooner_than_was_thought() {
    let mut link = FakeLink::new(Bitrate::mbps(2));
    let mut controller = controller();
    link.run(&mut controller, 0, 3_000);
    let now = link.at(3_000_000);
    let may = |queued_ms: u64, waited_ms| {
        let queued = ByteCount(MSS) + controller.capacity().bytes_in(Duration::from_millis(queued_ms));
        let waited = Duration::from_millis(waited_ms);
        controller.may_encode(now, Load { queued, waited, ..link.load(0) })
    };
    assert!(may(31, 0) && !may(36, 0));
    assert!(!may(31, 20), "what has waited for 20 ms and would for 31 more is no sooner there");
    assert!(!may(24, 20) && may(17, 20), "the queue went three times as fast");
    assert!(controller.patience() > Duration::from_millis(20));
}

#[test]
fn without_a_limit_the_rate_reaches_what_the_encoder_makes_within_two_seconds() {
    let mut link = FakeLink::new(Bitrate::mbps(900));
    link.delay_us = 120_000;
    let mut controller = controller();
    link.run(&mut controller, 0, 2_000);
    assert!(controller.target_rate() >= Bitrate::mbps(10), "{:?}", controller.target_rate());
}

#[test]
fn a_longer_path_is_told_from_a_queue_within_half_a_second_and_a_queue_is_not_taken_for_one() {
    let mut link = FakeLink::new(Bitrate::mbps(5));
    let mut controller = controller();
    link.run(&mut controller, 0, 5_000);
    link.delay_us += 60_000;
    link.run(&mut controller, 5_000, 5_900);
    assert!(controller.queue_delay() < Duration::from_millis(20), "{:?}", controller.queue_delay());
    assert!(is_near(controller.capacity(), 5.0), "{:?}", controller.capacity());
    // A queue of 300 ms that was not ours drains; no base is raised by it.
    let base = controller.base.value();
    link.free_us += 300_000;
    link.run(&mut controller, 5_900, 8_000);
    assert_eq!(controller.base.value(), base);
    assert!(controller.queue_delay() < Duration::from_millis(20), "{:?}", controller.queue_delay());
}

#[test]
fn whatever_the_modem_tells_a_queue_is_not_taken_for_a_longer_path_for_long() {
    let cell = |cell| Radio { cell: Some(cell), ..Radio::default() };
    let weak = || Radio { rsrp_dbm: Some(-125.0), altitude_m: Some(120.0), ..cell(1) };
    for (before, then) in
        [(cell(1), cell(1)), (weak(), weak()), (cell(1), cell(2)), (weak(), Radio { cell: Some(2), ..weak() })]
    {
        let mut link = FakeLink::new(Bitrate::mbps(5));
        let mut controller = controller();
        controller.on_radio(link.at(0), &before);
        link.run(&mut controller, 0, 5_000);
        let base = controller.base.value().unwrap();
        // 300 ms that are not ours, as of a handover.
        link.free_us += 300_000;
        controller.on_radio(link.at(5_000_000), &then);
        link.run(&mut controller, 5_000, 8_000);
        let (after, waits) = (controller.base.value().unwrap(), controller.queue_delay());
        assert!(after <= base + 5_000, "{then:?}: from {base} to {after} us");
        assert!(waits < Duration::from_millis(20), "{then:?}: {waits:?}");
    }
}

#[test]
fn what_the_modem_tells_makes_careful_and_never_lets_more_wait() {
    let told = |radio: Radio| {
        let mut link = FakeLink::new(Bitrate::mbps(5));
        let mut controller = controller();
        controller.on_radio(link.at(0), &radio);
        link.run(&mut controller, 0, 5_000);
        let asked = controller.target_rate();
        let window = controller.window(link.at(5_000_000));
        // A path that is 60 ms longer is looked into sooner: how many ms until the base is another.
        let base = controller.base.value();
        link.delay_us += 60_000;
        let took = (5_000..7_000).step_by(10).find(|ms| {
            link.run(&mut controller, *ms, ms + 10);
            controller.base.value() > base.map(|base| base + 50_000)
        });
        (asked, window, took.expect("it is found") - 5_000)
    };
    let (asked, window, took) = told(Radio::default());
    let weak = told(Radio { rsrp_dbm: Some(-125.0), ..Radio::default() });
    let high = told(Radio { altitude_m: Some(80.0), ..Radio::default() });
    assert!(weak.0 < high.0 && high.0 < asked, "{weak:?}, {high:?}, {asked:?}");
    assert!(weak.0 > asked * 0.9, "{weak:?}, {asked:?}");
    assert!(weak.1 <= window && high.1 <= window, "{weak:?}, {high:?}, {window:?}");
    assert!(weak.2 + 30 <= took && high.2 <= took, "{weak:?}, {high:?}, {took}");
}

#[test]
fn of_a_new_cell_a_much_longer_path_is_believed() {
    for (tells, believed) in [(false, false), (true, true)] {
        let mut link = FakeLink::new(Bitrate::mbps(5));
        let mut controller = controller();
        controller.on_radio(link.at(0), &Radio { cell: Some(1), ..Radio::default() });
        link.run(&mut controller, 0, 5_000);
        let base = controller.base.value().unwrap();
        link.delay_us += 200_000;
        let cell = if tells { 2 } else { 1 };
        controller.on_radio(link.at(5_000_000), &Radio { cell: Some(cell), ..Radio::default() });
        link.run(&mut controller, 5_000, 8_000);
        assert_eq!(controller.base.value().unwrap() > base + 190_000, believed, "told: {tells}");
    }
}

#[test]
fn in_a_blackout_nothing_is_encoded_and_the_capacity_is_kept() {
    let mut link = FakeLink::new(Bitrate::mbps(5));
    let mut controller = controller();
    link.run(&mut controller, 0, 3_000);
    let before = controller.capacity();
    link.free_us = 3_400_000;
    let skipped = link.run(&mut controller, 3_000, 3_400);
    assert!((5..12).contains(&skipped), "{skipped}");
    assert_eq!(controller.window(link.at(3_390_000)), ByteCount::ZERO);
    link.run(&mut controller, 3_400, 3_700);
    assert!(controller.capacity() >= before * 0.8, "{:?} {before:?}", controller.capacity());
    assert_eq!(link.run(&mut controller, 3_700, 5_000), 0);
}

#[test]
fn while_the_link_pauses_nothing_is_encoded_behind_what_waits() {
    let mut link = FakeLink::new(Bitrate::mbps(5));
    let mut controller = controller();
    link.run(&mut controller, 0, 3_000);
    // One as is between any two frames, and one that is no blackout yet.
    for (from_ms, pause_ms, expected) in [(3_000, 40, 0..=0), (4_000, 130, 1..=3)] {
        link.free_us = (from_ms + pause_ms) * 1_000;
        let skipped = link.run(&mut controller, from_ms, from_ms + pause_ms);
        assert!(expected.contains(&skipped), "{skipped} in {pause_ms} ms");
        assert!(!controller.stall.is_stalled());
        link.run(&mut controller, from_ms + pause_ms, from_ms + 1_000);
    }
}

#[test]
fn a_link_that_carries_each_frame_differently_is_given_more_than_the_capacity() {
    let more = |slow: f64| {
        let mut link = FakeLink::new(Bitrate::mbps(5));
        let mut controller = controller();
        for n in 0..300 {
            link.rate = if n % 2 == 0 { Bitrate::mbps(5) } else { Bitrate::mbps(5) * slow };
            link.run(&mut controller, 33 * n, 33 * (n + 1));
        }
        let now = link.at(33 * 300_000);
        let lasting = controller.lasting_rate().as_mbps();
        // The longest queue beyond a packet at which a frame is encoded, in hundreds of bytes.
        let longest = |controller: &Fpv2| {
            let queue = |hundreds: u64| Load { queued: ByteCount(MSS + 100 * hundreds), ..Load::default() };
            (0..1_000).take_while(|hundreds| controller.may_encode(now, queue(*hundreds))).count() as f64
        };
        let waits = longest(&controller);
        controller.unevenness = Unevenness::new();
        (lasting / controller.lasting_rate().as_mbps(), waits / longest(&controller))
    };
    assert_eq!(more(1.0), (1.0, 1.0));
    assert_eq!(more(0.5), (1.0, 1.0), "that is 1.125");
    let (rate, waits) = more(0.2);
    assert!(rate > 1.2 && waits > 1.3, "{rate} {waits}: that is 1.8");
}

#[test]
fn of_the_little_that_a_varying_link_carries_less_is_asked_for() {
    // Two packets of each frame leave at once; one frame's arrive `gaps_us[0]` apart, the next one's `gaps_us[1]`.
    let share = |kbps: u64, factors: [f64; 2], gaps_us: [u64; 2]| {
        let mut controller = controller();
        let start = Instant::now();
        for frame in 0..600 {
            controller.variation.update(Bitrate::kbps(kbps) * factors[frame / 8 % 2]);
            let sent_us = 33_000 * frame as u64;
            let arrives = [(true, sent_us), (false, sent_us + gaps_us[frame % 2])];
            for (leads, at_us) in arrives {
                let now = start + Duration::from_micros(at_us);
                controller.company.on_arrival(now, sent_us, at_us, 1_200, leads);
            }
        }
        controller.capacity = Bitrate::kbps(kbps);
        controller.share()
    };
    let (varies, differ) = ([0.5, 2.0], [10_000, 30_000]);
    assert_eq!(share(200, [1.0; 2], differ), share(1_000, [1.0; 2], differ), "it is steady");
    assert_eq!(share(200, varies, [20_000; 2]), share(1_000, varies, [20_000; 2]), "others make it vary");
    let most = share(1_000, varies, differ);
    assert_eq!(share(4_000, varies, differ), most);
    assert!((share(700, varies, differ) / most - 0.75).abs() < 1e-9);
    assert!((share(200, varies, differ) / most - 0.5).abs() < 1e-9);
}

#[test]
fn care_asks_for_no_more_whatever_is_configured() {
    for (utilisation, mbps) in [(0.5, 1), (0.5, 20), (0.72, 6), (0.895, 1), (0.895, 20), (1.0, 3)] {
        let config = Fpv2Config { utilisation, ..Fpv2Config::default() };
        let mut controller = Fpv2::new(config, EncoderRange::default());
        controller.capacity = Bitrate::mbps(mbps);
        let calm = controller.share();
        controller.caution = 1.0;
        assert!(controller.share() <= calm, "{utilisation} of {mbps} Mbit/s");
    }
}

#[test]
fn marks_and_losses_behind_a_long_queue_lower_the_rate() {
    let mut reaction = Reaction::default();
    let start = Instant::now();
    let round = |n: u64| start + Duration::from_millis(40 * n);
    let rtt = Duration::from_millis(40);
    assert!((reaction.poll(round(0), rtt, Duration::ZERO) - 1.0).abs() < 1e-9);
    (0..100).for_each(|n| reaction.on_packet(n % 20 != 0, false));
    assert!((reaction.poll(round(1), rtt, Duration::from_millis(100)) - AT_LOSS_EXPECTED).abs() < 1e-9);
    (0..100).for_each(|n| reaction.on_packet(n % 20 != 0, false));
    assert!((reaction.poll(round(2), rtt, Duration::from_millis(10)) - 1.0).abs() < 1e-9, "random loss");
    for n in 3..60 {
        (0..10).for_each(|_| reaction.on_packet(true, true));
        reaction.poll(round(n), rtt, Duration::ZERO);
    }
    assert!(reaction.share() < 0.55, "{}", reaction.share());
}

const AT_LOSS_EXPECTED: f64 = 0.9;

#[test]
fn random_loss_is_made_up_for_and_an_outage_is_none() {
    let mut reaction = Reaction::default();
    let start = Instant::now();
    let rtt = Duration::from_millis(40);
    let mut round = |n: u32, lost: u32| {
        (0..20).for_each(|packet| reaction.on_packet(packet >= lost, false));
        reaction.poll(start + rtt * n, rtt, Duration::ZERO);
        reaction.arrives()
    };
    for n in 0..300 {
        round(n, 2);
    }
    assert!((round(300, 2) - 0.9).abs() < 0.005);
    let before = round(301, 2);
    assert!((round(302, 20) - before).abs() < 1e-9);
    for n in 303..700 {
        round(n, 0);
    }
    assert!(round(700, 0) > 0.995);
}

#[test]
fn a_receivers_clock_that_runs_faster_is_no_queue() {
    let (mut base, mut deaf) = (Base::new(), Base::new());
    let start = Instant::now();
    let (mut drifted, mut without) = (0, 0);
    for n in 0..400u32 {
        let now = start + Duration::from_millis(50) * n;
        // 400 ppm: 20 µs in 50 ms. 30 ms there and 30 back, of which a heartbeat takes 1 ms less.
        let offset = 5_000_000 + 20 * i64::from(n);
        let rtt = Duration::from_millis(59);
        base.on_round_trip(now, rtt, 30_000 - offset);
        drifted = base.on_delay(now, 30_000 + offset, 1200).unwrap();
        without = deaf.on_delay(now, 30_000 + offset, 1200).unwrap();
    }
    assert!(drifted < 4_500 && without > 7_500, "{drifted} {without}");
    // A way back that has become shorter lifts it slowly, and a longer one ends that.
    base.on_round_trip(start + Duration::from_millis(20_010), Duration::from_secs(5), 0);
    assert!(base.value().unwrap() - deaf.value().unwrap() <= 10_000);
    base.on_round_trip(start + Duration::from_millis(20_020), Duration::ZERO, 0);
    assert_eq!(base.value(), deaf.value());
}

#[test]
fn full_packets_take_longer_than_heartbeats_and_that_is_no_queue() {
    // 1 Mbit/s: a heartbeat takes 0.8 ms, a full packet 9.6 ms, on a path of 20 ms.
    let (heartbeat, full, capacity) = (20_800, 29_600, 125_000.0);
    let mut base = Base::new();
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    (0..10).for_each(|n| assert_eq!(base.on_delay(at(n * 100), heartbeat, 100), Some(0)));
    let mut met = |ms, delay_us| {
        let waited_us = base.on_delay(at(ms), delay_us, 1200).unwrap();
        base.met_us(waited_us, 1200, capacity)
    };
    assert_eq!(met(1_000, full), 0);
    assert_eq!(met(1_033, full + 15_000), 15_000);
    // A queue that has been there since video began is one.
    let mut base = Base::new();
    base.on_delay(start, heartbeat, 100);
    let waited_us = base.on_delay(at(100), full + 15_000, 1200).unwrap();
    assert!(base.met_us(waited_us, 1200, capacity) > 14_000);
}

#[test]
fn what_is_held_back_by_the_window_alone_grows_as_at_first_after_ten_updates() {
    let mut link = FakeLink { flooded: true, ..FakeLink::new(Bitrate::mbps(2)) };
    let mut controller = controller();
    link.run(&mut controller, 0, 2_000);
    assert!(is_near(controller.capacity(), 2.0), "{:?}", controller.capacity());
    link.rate = Bitrate::mbps(40);
    link.run(&mut controller, 2_000, 2_300);
    assert!(controller.capacity() < Bitrate::mbps(4), "carefully at first: {:?}", controller.capacity());
    link.run(&mut controller, 2_300, 4_500);
    assert!(is_near(controller.capacity(), 40.0), "{:?}", controller.capacity());
}

#[test]
fn files_alone_have_20_ms_of_queue_and_11_as_soon_as_somebody_waits_for_something() {
    let mut link = FakeLink { flooded: true, unhurried: true, ..FakeLink::new(Bitrate::mbps(10)) };
    let mut controller = controller();
    // What stands after each tenth of a second, less what one packet takes.
    let mut stands = |link: &mut FakeLink, from_ms: u64| -> Vec<u64> {
        let rate = link.rate;
        let ends = (from_ms..from_ms + 4_000).step_by(100);
        ends.map(|from| {
            link.run(&mut controller, from, from + 100);
            let way = rate.bytes_in(Duration::from_micros(2 * link.delay_us));
            rate.time_for(link.load(0).in_flight.saturating_sub(way)).as_millis() as u64
        })
        .collect()
    };
    let alone = stands(&mut link, 0);
    assert!(alone[20..].iter().all(|ms| (17..=24).contains(ms)), "{alone:?}");
    link.unhurried = false;
    let beside = stands(&mut link, 4_000);
    assert!(beside[10..].iter().all(|ms| (8..=15).contains(ms)), "{beside:?}");
}

/// Five packets, (left, waited on the way) in µs, on a path of 20 ms.
fn five(packets: [(u64, u64); 5]) -> Trains {
    let mut trains = Trains::new();
    for (sent_us, waited_us) in packets {
        arrives(&mut trains, sent_us, waited_us, 1200);
    }
    trains
}

fn arrives(trains: &mut Trains, sent_us: u64, waited_us: u64, bytes: u64) {
    let packet = Arrival { sent_us, arrived_us: sent_us + 20_000 + waited_us, bytes };
    trains.on_arrival(Instant::now(), packet, 20_000, 22_000);
}

#[test]
fn a_packet_that_is_late_alone_is_no_limit_while_the_link_is_being_found() {
    let late = [(0, 0), (5_000, 0), (10_000, 0), (15_000, 0), (20_000, 7_400)];
    let carried = Bitrate::from_transfer(ByteCount(4_800), Duration::from_micros(27_400));
    let expected = Verdict::Free { received: Bitrate(320_000), at_least: carried };
    assert_eq!(five(late).verdict(false, false, None), Some(expected));
    assert_eq!(
        five(late).verdict(false, true, None),
        Some(Verdict::Limited(carried)),
        "later a mistake of a moment is mended soon"
    );
    // Each waits for the one before it.
    let waiting = [(0, 0), (1_000, 2_800), (2_000, 5_600), (3_000, 8_400), (4_000, 11_200)];
    let carried = Bitrate::from_transfer(ByteCount(4_800), Duration::from_micros(15_200));
    assert_eq!(five(waiting).verdict(false, false, None), Some(Verdict::Limited(carried)));
}

#[test]
fn how_unevenly_trains_were_carried_is_the_arithmetic_over_the_harmonic_mean_of_their_rates() {
    // Frames of five packets each, of which every one but the first takes so long, in µs.
    let frames = |each_us: &[u64]| {
        let mut trains = Trains::new();
        for (frame, each_us) in (0..).zip(each_us) {
            (0..5).for_each(|n| arrives(&mut trains, 33_000 * frame + 500 * n, (each_us - 500) * n, 1200));
        }
        trains.unevenness()
    };
    let near = |ratio: Option<f64>, expected: f64| ratio.is_some_and(|ratio| (ratio - expected).abs() < 1e-9);
    assert_eq!(frames(&[]), None);
    assert_eq!(frames(&[2_000; 3]), None, "too few");
    assert_eq!(frames(&[500; 6]), None, "nothing can be told apart in so little time");
    assert!(near(frames(&[2_000; 6]), 1.0));
    // Of 1 and 1/3 the means are 2/3 and 1/2; nothing says where the oldest of all began.
    assert!(near(frames(&[2_000, 2_000, 6_000, 2_000, 6_000]), 4.0 / 3.0));
    assert!(near(frames(&[1_000, 1_000, 1_000, 1_000, 1_000, 25_000]), 3.0), "no more is believed");
    let old: Vec<u64> = [6_000].into_iter().chain([2_000; 12]).collect();
    assert!(near(frames(&old), 1.0), "the first is too old");
}

#[test]
fn packets_that_come_one_by_one_tell_of_a_link_that_has_become_faster() {
    // A packet takes 100 ms, and each waits for the one before it; then one takes 2 ms.
    let slow = Bitrate::from_transfer(ByteCount(1200), Duration::from_millis(100));
    let after = |small: bool| {
        let mut trains = Trains::new();
        for n in 0..12 {
            arrives(&mut trains, 33_000 * n, 100_000 + 67_000 * n, 1200);
        }
        assert_eq!(trains.verdict(false, true, None), Some(Verdict::Limited(slow)));
        if small {
            arrives(&mut trains, 1_230_000, 0, 100);
        }
        for n in 0..8 {
            arrives(&mut trains, 1_240_000 + 33_000 * n, 2_000, 1200);
        }
        trains.verdict(false, true, None)
    };
    assert_eq!(after(false), Some(Verdict::Limited(slow)), "nobody knows what the path alone takes");
    let Some(Verdict::Quick { up_to, .. }) = after(true) else { panic!("{:?}", after(true)) };
    // Without what a small one of 200 bytes may have taken.
    assert_eq!(up_to, Bitrate::from_transfer(ByteCount(1000), Duration::from_millis(2)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever was reported, and whatever the radio was said to be: a good link is used again once it is there, with the times of a peer
    /// that has started anew.
    #[test]
    fn whatever_is_reported_a_good_link_is_used_again(
        steps in prop::collection::vec(step(), 1..80),
        cells in prop::collection::vec(any::<u64>(), 0..5),
    ) {
        let mut controller = controller();
        let (mut now, mut clock_us) = (Instant::now(), 1_000_000_000);
        for step in &steps {
            check(&mut controller, &mut now, &mut clock_us, step)?;
        }
        for cell in cells {
            controller.on_radio(now, &Radio { cell: Some(cell), ..Radio::default() });
        }
        controller.on_path_change(now);
        let mut link = FakeLink::new(Bitrate::mbps(5));
        link.start = now;
        link.run(&mut controller, 0, 15_000);
        let left_out = link.run(&mut controller, 15_000, 20_000);
        prop_assert!(is_near(controller.capacity(), 5.0), "{:?}", controller.capacity());
        prop_assert!(controller.lasting_rate() > Bitrate::mbps(4), "{:?}", controller.lasting_rate());
        prop_assert!(left_out <= 5, "{left_out}");
        prop_assert!(controller.queue_delay() < Duration::from_millis(60), "{:?}", controller.queue_delay());
    }
}
