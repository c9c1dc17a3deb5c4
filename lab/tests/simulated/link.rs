//! The link in virtual time: the figures it is held to, each run twice with equal logs.

use std::time::Duration;

use aquila_emu::{Outage, PathConfig};
use aquila_lab::pair::{Pair, PairConfig, Source};
use aquila_proto::{Bitrate, ByteCount, Side};

use crate::ms;

const PROPAGATION: Duration = Duration::from_millis(30);
/// Queue that the controller lets stand.
const TARGET: Duration = Duration::from_millis(10);

/// 4 Mbit/s, 30 ms one way, 60 kB drop-tail, both directions.
fn link(seed: u64) -> PairConfig {
    let path = PathConfig { rate_bps: Some(4_000_000), delay: PROPAGATION, ..PathConfig::default() };
    PairConfig::new(path, seed)
}

/// Time to serialise a full packet with its headers.
fn serialisation() -> Duration {
    Duration::from_nanos((1200 + 28) * 8 * 250)
}

fn quantile(sorted: &[Duration], q: f64) -> Duration {
    sorted[((sorted.len() as f64 * q).ceil() as usize).clamp(1, sorted.len()) - 1]
}

/// 10 Hz commands both ways and video at `mbps` for a minute.
fn loaded(mbps: u64) -> (Duration, Duration, Duration, u64) {
    let mut pair = Pair::new(link(1));
    pair.connect();
    pair.run_until(ms(500));
    let end = Duration::from_secs(60);
    for from in [Side::Air, Side::Ground] {
        pair.add_source(Source::Commands { from, every: ms(100) }, end);
    }
    pair.add_source(Source::Video { rate: Bitrate::mbps(mbps), packet: 1200 }, end);
    pair.run_until(end + ms(1000));
    let mut latencies = pair.latencies(Side::Ground, Duration::ZERO);
    assert_eq!(latencies.len(), pair.commands_sent(Side::Air), "every command arrives");
    latencies.sort();
    let (up, _) = pair.paths();
    eprintln!(
        "video {mbps} Mbit/s: C2 up p50 {:?} p99 {:?} max {:?}; frames out {}, uplink used {:.1} %",
        quantile(&latencies, 0.5),
        quantile(&latencies, 0.99),
        latencies.last().unwrap(),
        pair.frames.len(),
        up.output.bytes as f64 * 8.0 / 60.5 / 4e6 * 100.0,
    );
    let last = *latencies.last().unwrap();
    (quantile(&latencies, 0.5), quantile(&latencies, 0.99), last, pair.log_hash())
}

#[test]
fn commands_do_not_feel_the_video() {
    let runs = [4, 8, 40].map(loaded);
    for (p50, p99, max, _) in runs {
        assert!(p99 <= PROPAGATION + TARGET + serialisation() + ms(5), "p99 {p99:?}");
        assert!(max <= p99 + ms(5), "p99 {p99:?} max {max:?}");
        assert!(p50.abs_diff(runs[0].0) <= ms(2) && p99.abs_diff(runs[0].1) <= ms(2));
        // A command meets at most a packet more.
        assert!(max.abs_diff(runs[0].2) <= serialisation());
    }
    assert_eq!(loaded(8).3, runs[1].3, "same seed, same log");
}

#[test]
fn who_sends_hears_of_a_frame_as_soon_as_all_of_it_is_there() {
    let near = ms(10);
    let path = PathConfig { rate_bps: Some(4_000_000), delay: near, ..PathConfig::default() };
    let mut pair = Pair::new(PairConfig::new(path, 6));
    pair.connect();
    pair.add_source(Source::Video { rate: Bitrate::kbps(500), packet: 1000 }, Duration::from_secs(4));
    pair.run_until(ms(2_000));
    let (mut since, mut took) = (None, Vec::new());
    for at in 2_000..3_500 {
        pair.run_until(ms(at));
        // Heartbeats are told of later.
        let under_way = pair.stats(Side::Air).bearers[0].in_flight > 500;
        match (under_way, since) {
            (true, None) => since = Some(at),
            (false, Some(left)) => {
                took.push(ms(at - left));
                since = None;
            }
            _ => {}
        }
    }
    took.sort();
    // Two packets; a report that waits for company would come 10 ms after the first of them.
    let at_once = near * 2 + serialisation() * 2;
    assert!(took.len() > 10 && took[took.len() - 1] <= at_once + ms(3), "{took:?}");
}

/// What is sent beside the commands.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Beside {
    Parameters,
    Bulk,
}

/// 10 Hz commands both ways, and more of something else than the link carries, for half a minute; gives the latencies up from
/// the fifth second on, in order, and the share of the uplink that was used.
fn saturated(kbps: u64, beside: Beside) -> (Vec<Duration>, f64) {
    let mut config = link(5);
    config.up.rate_bps = Some(kbps * 1000);
    config.down.rate_bps = Some(kbps * 1000);
    let mut pair = Pair::new(config);
    pair.connect();
    pair.run_until(ms(1_000));
    let end = Duration::from_secs(30);
    for from in [Side::Air, Side::Ground] {
        pair.add_source(Source::Commands { from, every: ms(100) }, end);
    }
    if beside == Beside::Parameters {
        pair.add_source(Source::Parameters { every: Duration::from_micros(250_000 / kbps) }, end);
    }
    let mut from = 0;
    for step in 0..2_900 {
        pair.run_until(ms(1_000 + step * 10));
        if beside == Beside::Bulk {
            while pair.write_bulk(&[0x5a; 8_192]) == 8_192 {}
            while pair.read_bulk(Side::Ground, 65_536).is_some() {}
        }
        if step == 400 {
            from = pair.paths().0.output.bytes;
        }
    }
    let used = (pair.paths().0.output.bytes - from) as f64 * 8.0 / 25.0 / (kbps as f64 * 1000.0);
    pair.run_until(end + ms(12_000));
    let mut latencies = pair.latencies(Side::Ground, Duration::from_secs(5));
    assert_eq!(pair.deliveries.len(), pair.commands_sent(Side::Air) + pair.commands_sent(Side::Ground));
    latencies.sort();
    (latencies, used)
}

#[test]
fn commands_do_not_feel_parameters_or_bulk() {
    for (kbps, beside) in
        [4_000, 1_000, 300, 100].into_iter().flat_map(|kbps| [(kbps, Beside::Parameters), (kbps, Beside::Bulk)])
    {
        let (latencies, used) = saturated(kbps, beside);
        let packet = Bitrate::kbps(kbps).time_for(ByteCount(1228));
        let (p50, p99, max) = (quantile(&latencies, 0.5), quantile(&latencies, 0.99), latencies[latencies.len() - 1]);
        eprintln!(
            "{beside:?} at {kbps} kbit/s (a packet takes {packet:?}): C2 up p50 {p50:?} p99 {p99:?} max {max:?}; \
             uplink used {:.1} %",
            used * 100.0
        );
        // What is being sent is not interrupted, so on a slow link a command waits for packets of another class.
        assert!(p99 <= PROPAGATION + TARGET + 3 * packet + ms(15), "{beside:?} {kbps}: p99 {p99:?}");
        assert!(max <= p99 + 2 * packet + ms(5), "{beside:?} {kbps}: p99 {p99:?} max {max:?}");
        assert!(used > 0.65, "{beside:?} {kbps}: {used}");
    }
}

/// Commands at 10 Hz each way, from the first second to this one, over 2 Mbit/s up.
fn commands_both_ways(until: Duration) -> Pair {
    let mut config = link(5);
    config.up.rate_bps = Some(2_000_000);
    let mut pair = Pair::new(config);
    pair.connect();
    pair.run_until(ms(1_000));
    for from in [Side::Air, Side::Ground] {
        pair.add_source(Source::Commands { from, every: ms(100) }, until);
    }
    pair
}

/// Commands at 10 Hz each way take 10 kbit/s with all that is around them; what we say of our own beside them takes 30 where there is room.
#[test]
fn on_a_trickle_commands_do_not_wait_behind_our_own_words() {
    for (kbps, most) in [(20, 1_200), (24, 700), (40, 100), (80, 50)] {
        let mut pair = commands_both_ways(ms(40_000));
        pair.run_until(ms(3_000));
        pair.set_up_rate(Bitrate::kbps(kbps));
        pair.run_until(ms(45_000));
        assert_eq!(pair.deliveries.len(), pair.commands_sent(Side::Air) + pair.commands_sent(Side::Ground));
        let mut latencies = pair.latencies(Side::Ground, ms(10_000));
        latencies.sort();
        let p95 = quantile(&latencies, 0.95);
        eprintln!("{kbps} kbit/s: p50 {:?} p95 {p95:?}", quantile(&latencies, 0.5));
        assert!(p95 < PROPAGATION + ms(most), "{kbps} kbit/s: {p95:?}");
    }
}

/// What leaves before it is known that the link has fallen is in the way of all that follows, for as long as it lasts. Without the rules for
/// what waits it is 4.0 s.
#[test]
fn a_link_that_falls_to_12_kbps_for_six_seconds_is_not_filled_by_us_at_once() {
    let mut pair = commands_both_ways(ms(20_000));
    pair.run_until(ms(10_000));
    pair.set_up_rate(Bitrate::kbps(12));
    pair.run_until(ms(16_000));
    pair.set_up_rate(Bitrate::mbps(2));
    pair.run_until(ms(25_000));
    assert_eq!(pair.deliveries.len(), pair.commands_sent(Side::Air) + pair.commands_sent(Side::Ground));
    let latencies = pair.latencies(Side::Ground, ms(10_000));
    let longest = latencies.iter().max().unwrap();
    eprintln!("longest {longest:?}");
    assert!(*longest < PROPAGATION + ms(3_600), "{longest:?}");
}

/// A blackout of two seconds; gives the time from its end to the first command delivered, per direction.
fn blackout(video: bool, link_event: bool, phase: Duration, outage: Outage) -> [Duration; 2] {
    let run = || {
        let mut pair = Pair::new(link(2));
        pair.connect();
        pair.run_until(ms(500) + phase);
        let end = Duration::from_secs(12);
        for from in [Side::Air, Side::Ground] {
            pair.add_source(Source::Commands { from, every: ms(100) }, end);
        }
        if video {
            pair.add_source(Source::Video { rate: Bitrate::mbps(8), packet: 1200 }, end);
        }
        pair.run_until(ms(5_050));
        pair.begin_outage(outage);
        pair.run_until(ms(7_050));
        let before = pair.deliveries.len();
        pair.end_outage(link_event);
        pair.run_until(end + ms(1_000));
        let first = |to| {
            let delivery = pair.deliveries[before..].iter().find(|delivery| delivery.to == to);
            delivery.expect("commands flow again").arrived - ms(7_050)
        };
        for from in [Side::Air, Side::Ground] {
            let to = if from == Side::Air { Side::Ground } else { Side::Air };
            let mut got: Vec<_> =
                pair.deliveries.iter().filter(|delivery| delivery.to == to).map(|delivery| delivery.index).collect();
            got.sort_unstable();
            assert_eq!(got, (0..pair.commands_sent(from) as u32).collect::<Vec<_>>(), "each command once");
        }
        ([first(Side::Air), first(Side::Ground)], pair.log_hash())
    };
    let ((times, hash), again) = (run(), run());
    assert_eq!(hash, again.1, "same seed, same log");
    eprintln!("blackout, video {video}, link event {link_event}, phase {phase:?}, {outage:?}: {times:?}");
    times
}

#[test]
fn first_command_after_a_blackout() {
    for phase in [ms(0), ms(17), ms(49), ms(83)] {
        for (video, link_event) in [(true, false), (true, true), (false, true)] {
            for time in blackout(video, link_event, phase, Outage::Drop) {
                assert!(
                    time <= PROPAGATION + ms(50),
                    "video {video} link event {link_event} phase {phase:?}: {time:?}"
                );
            }
        }
        for time in blackout(false, false, phase, Outage::Drop) {
            assert!(time <= ms(300), "without video or event, phase {phase:?}: {time:?}");
        }
    }
}

#[test]
fn zero_rtt_command_arrives_one_propagation_after_connect() {
    let run = |restart_server: bool, restart_client: bool| {
        let mut pair = Pair::new(link(3));
        pair.connect();
        pair.run_until(ms(2_000));
        if restart_server {
            pair.restart(Side::Ground);
        }
        if restart_client {
            pair.restart(Side::Air);
        } else {
            pair.connect();
        }
        pair.send_command(Side::Air);
        pair.run_until(ms(4_000));
        let [delivery] = pair.deliveries[..] else { panic!("{:?}", pair.deliveries) };
        eprintln!(
            "0-RTT, server restarted {restart_server}, client restarted {restart_client}: {:?}; {:?}",
            delivery.arrived - delivery.sent,
            pair.connects
        );
        (delivery.arrived - delivery.sent, pair.log_hash())
    };
    for (server, client) in [(false, false), (true, false), (false, true), (true, true)] {
        let (time, hash) = run(server, client);
        assert!(time <= PROPAGATION + serialisation() + ms(1), "{time:?}");
        assert_eq!(run(server, client).1, hash, "same seed, same log");
    }
}

/// Commands that take fifteen times what R_safe provides for, beside a camera that asks for more than there is, take the
/// place of video: they spend the reserve, and what is beyond it is charged to the gate.
#[test]
fn a_flood_of_commands_is_paid_for_by_video() {
    let mut config = link(6);
    config.up.rate_bps = Some(1_000_000);
    let mut pair = Pair::new(config);
    pair.connect();
    pair.run_until(ms(500));
    let (calm, flood, end) = (ms(20_000), ms(20_000), ms(40_000));
    pair.add_source(Source::Commands { from: Side::Air, every: ms(100) }, calm);
    pair.add_source(Source::Video { rate: Bitrate::mbps(2), packet: 1200 }, end);
    pair.run_until(flood);
    pair.add_source(Source::Commands { from: Side::Air, every: ms(3) }, end);
    pair.run_until(end + ms(1_000));
    let mut latencies = pair.latencies(Side::Ground, Duration::from_secs(22));
    assert_eq!(pair.deliveries.len(), pair.commands_sent(Side::Air), "each command arrives once");
    latencies.sort();
    let (p50, p99) = (quantile(&latencies, 0.5), quantile(&latencies, 0.99));
    eprintln!("{} commands: p50 {p50:?} p99 {p99:?}", latencies.len());
    let packet = Bitrate::mbps(1).time_for(ByteCount(1228));
    assert!(p50 <= PROPAGATION + TARGET + packet, "{p50:?}");
    assert!(p99 <= PROPAGATION + TARGET + 3 * packet + ms(15), "{p99:?}");
}
