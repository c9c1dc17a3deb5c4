//! Several bearers: what is replicated arrives once and first, and the rest goes by the best of them.

mod properties;

use std::collections::BTreeSet;
use std::time::Duration;

use aquila_emu::{Loss, Outage, PathConfig};
use aquila_lab::frames;
use aquila_lab::pair::{Pair, PairConfig, Source};
use aquila_proto::session::Stats;
use aquila_proto::{BearerId, Bitrate, Class, LinkState, Side, Usage};

use crate::ms;

const BOTH: [Side; 2] = [Side::Air, Side::Ground];

fn path(mbps: u64, delay_ms: u64, loss: f64) -> PathConfig {
    PathConfig {
        rate_bps: Some(mbps * 1_000_000),
        delay: ms(delay_ms),
        loss: Loss::Independent(loss),
        ..PathConfig::default()
    }
}

/// A pair over these bearers, alike in both directions.
fn over(seed: u64, paths: &[(PathConfig, Usage)]) -> Pair {
    let (first, _) = paths[0];
    let beside = paths[1..].iter().map(|(path, usage)| (*path, *path, *usage)).collect();
    Pair::new(PairConfig { beside, ..PairConfig::new(first, seed) })
}

fn normal(paths: &[PathConfig]) -> Vec<(PathConfig, Usage)> {
    paths.iter().map(|path| (*path, Usage::Normal)).collect()
}

fn quantile(sorted: &[Duration], q: f64) -> Duration {
    sorted[((sorted.len() - 1) as f64 * q).round() as usize]
}

/// All commands of both sides have arrived, each once.
fn assert_exactly_once(pair: &Pair) {
    for (from, to) in [(Side::Air, Side::Ground), (Side::Ground, Side::Air)] {
        let mut indices: Vec<u32> = pair.deliveries.iter().filter(|d| d.to == to).map(|d| d.index).collect();
        let count = indices.len();
        indices.sort_unstable();
        indices.dedup();
        assert_eq!(indices.len(), count, "a command was delivered twice");
        assert_eq!(count, pair.commands_sent(from), "from {from:?}");
    }
}

fn won(stats: &Stats) -> Vec<u64> {
    stats.bearers.iter().map(|bearer| bearer.counters.control_won).collect()
}

#[test]
fn the_first_copy_wins_and_no_other_is_delivered() {
    let mut pair = over(1, &normal(&[path(10, 20, 0.0), path(10, 60, 0.0)]));
    pair.connect();
    pair.run_until(ms(1_000));
    for from in BOTH {
        pair.add_source(Source::Commands { from, every: ms(50) }, ms(11_000));
    }
    pair.run_until(ms(12_000));
    assert_exactly_once(&pair);
    let mut latencies = pair.latencies(Side::Air, Duration::ZERO);
    latencies.sort();
    assert!(quantile(&latencies, 1.0) < ms(22), "{:?}", quantile(&latencies, 1.0));
    let (air, ground) = (pair.stats(Side::Air), pair.stats(Side::Ground));
    for stats in [&air, &ground] {
        let sent = pair.commands_sent(Side::Air) as u64;
        assert_eq!(won(stats), [sent, 0], "the faster wins");
        assert_eq!(stats.bearers[1].counters.control_late, sent, "and the other's copies come after it");
        assert_eq!(stats.unacknowledged, 0);
    }
    assert_eq!(ground.bearers[1].name, "bearer-1", "the side that connects gives the names");
    assert_eq!(air.state, LinkState::Up);
}

/// ConClone's closed loop: 1000 bytes of telemetry right behind each command, the next one half a second after the one before was
/// delivered. Gives latencies, and how long it took until all were through.
fn closed_loop(seed: u64, loss: f64, commands: u32) -> (Vec<Duration>, Duration) {
    let mut pair = over(seed, &normal(&[path(20, 10, loss); 2]));
    pair.connect();
    let begun = ms(2_000);
    let mut now = begun;
    pair.run_until(now);
    for n in 0..commands {
        pair.send_command(Side::Ground);
        frames::data(Side::Ground, n, 1_000).iter().for_each(|frame| pair.send_frame(Side::Ground, frame));
        while pair.deliveries.len() <= n as usize {
            now += Duration::from_micros(500);
            pair.run_until(now);
        }
        now = pair.deliveries.last().expect("it was delivered").arrived + ms(500);
        pair.run_until(now);
    }
    assert_exactly_once(&pair);
    (pair.latencies(Side::Air, Duration::ZERO), now - begun)
}

/// 120 commands over two paths that lose 28.4 % (figures 9 and 10), 20 seeds.
#[test]
fn conclones_closed_loop() {
    let (mut all, mut slowest) = (Vec::new(), Duration::ZERO);
    for seed in 0..20 {
        let (latencies, took) = closed_loop(seed, 0.284, 120);
        assert_eq!(latencies.len(), 120);
        all.extend(latencies);
        slowest = slowest.max(took);
    }
    let mean = all.iter().sum::<Duration>().as_secs_f64() / all.len() as f64;
    let variance = all.iter().map(|at| (at.as_secs_f64() - mean).powi(2)).sum::<f64>() / all.len() as f64;
    all.sort();
    let (p95, p99, max) = (quantile(&all, 0.95), quantile(&all, 0.99), quantile(&all, 1.0));
    eprintln!("inter-arrival {:.4} s / {:.4} s; p95 {p95:?} p99 {p99:?} max {max:?}", 0.5 + mean, variance.sqrt());
    eprintln!("all through after {slowest:?} at most");
    assert!(0.5 + mean <= 0.514 && variance.sqrt() <= 0.004);
    assert!(p99 <= ms(36));
    assert!(slowest <= ms(120 * 514), "{slowest:?}");
}

#[test]
fn open_loop_at_20_hz() {
    for (loss, allowed) in [(0.284, 0.003), (0.1, 0.0)] {
        let (mut late, mut sent) = (0, 0);
        for seed in 0..20 {
            let mut pair = over(seed, &normal(&[path(20, 10, loss); 2]));
            pair.connect();
            pair.run_until(ms(2_000));
            pair.add_source(Source::Commands { from: Side::Ground, every: ms(50) }, ms(52_000));
            pair.run_until(ms(54_000));
            assert_exactly_once(&pair);
            late += pair.latencies(Side::Air, Duration::ZERO).iter().filter(|latency| **latency > ms(100)).count();
            sent += pair.commands_sent(Side::Ground);
        }
        eprintln!("{loss}: {late} of {sent} late");
        assert!(sent >= 20_000 && late as f64 <= allowed * sent as f64, "{loss}: {late} of {sent}");
    }
}

/// Video that asks before each frame is not what Pair sends; a camera that does not ask fills what there is.
fn saturated(seed: u64, paths: &[(PathConfig, Usage)], rate: Bitrate, until: Duration) -> Pair {
    let mut pair = over(seed, paths);
    pair.connect();
    pair.run_until(ms(500));
    pair.add_source(Source::Video { rate, packet: 1200 }, until);
    for from in BOTH {
        pair.add_source(Source::Commands { from, every: ms(20) }, until - ms(2_000));
    }
    pair
}

#[test]
fn one_of_two_is_cut_while_video_fills_it() {
    for seed in 0..5 {
        let mut pair = saturated(seed, &normal(&[path(4, 20, 0.0), path(4, 30, 0.0)]), Bitrate::mbps(3), ms(12_000));
        pair.run_until(ms(6_000));
        let stats = pair.stats(Side::Air);
        let used = stats.video;
        let rtt = stats.bearers[1 - used].rtt_min.unwrap();
        pair.begin_outage_of(used, &BOTH, Outage::Drop);
        let cut = ms(6_000);
        pair.run_until(ms(13_000));
        assert_exactly_once(&pair);
        for to in BOTH {
            let after = pair.deliveries.iter().filter(|d| d.to == to && d.sent >= cut - ms(100));
            let worst = after.map(|d| d.arrived - d.sent).max().unwrap();
            eprintln!("seed {seed}, to {to:?}: worst {worst:?}, round trip {rtt:?}");
            assert!(worst <= rtt.mul_f64(1.25) + ms(20), "{worst:?}");
        }
        let first = pair.frames.iter().find(|frame| frame.sent >= cut && frame.arrived > cut).unwrap();
        eprintln!("first frame after {:?}; {:?}", first.arrived - cut, pair.reroutes);
        assert!(first.arrived - cut <= ms(250), "{:?}", first.arrived - cut);
    }
}

/// How long after `since` the aircraft's video took another bearer.
fn video_moved_after(pair: &Pair, since: Duration) -> Option<Duration> {
    let mut moves = pair.reroutes.iter().filter(|(_, side, class, _)| (*side, *class) == (Side::Air, Class::Video));
    moves.find(|(at, ..)| *at >= since).map(|(at, ..)| *at - since)
}

#[test]
fn one_that_is_cut_is_left_as_soon_though_the_other_carries_a_quarter() {
    let cut = ms(6_000);
    for seed in 0..5 {
        let mut pair = saturated(seed, &normal(&[path(8, 20, 0.0), path(2, 30, 0.0)]), Bitrate::mbps(4), ms(12_000));
        pair.run_until(cut);
        assert_eq!(pair.stats(Side::Air).video, 0);
        pair.begin_outage_of(0, &BOTH, Outage::Drop);
        pair.run_until(ms(13_000));
        assert_exactly_once(&pair);
        let moved = video_moved_after(&pair, cut).expect("it has left the bearer that is gone");
        let first = pair.frames.iter().find(|frame| frame.sent >= cut && frame.arrived > cut).unwrap();
        eprintln!("seed {seed}: moved after {moved:?}, first frame after {:?}", first.arrived - cut);
        // A round trip, what the last packet waited, a report's delay, and what word is waited for beyond that.
        assert!(moved <= ms(40 + 5 + 10 + 15), "{moved:?}");
        assert!(first.arrived - cut <= ms(250), "{:?}", first.arrived - cut);
    }
}

#[test]
fn one_that_begins_to_lose_packets_is_left_within_a_second_and_not_returned_to() {
    for seed in 0..5 {
        let mut pair = saturated(seed, &normal(&[path(8, 20, 0.0), path(6, 30, 0.0)]), Bitrate::mbps(4), ms(20_000));
        pair.run_until(ms(6_000));
        let used = pair.stats(Side::Air).video;
        pair.change_path(used, Side::Air, Bitrate::mbps([8, 6][used]), Loss::Independent(0.1));
        pair.run_until(ms(20_000));
        assert_exactly_once(&pair);
        let moved = video_moved_after(&pair, ms(6_000)).expect("a picture of ten packets does not survive there");
        eprintln!("seed {seed}: moved after {moved:?}");
        assert!(moved <= ms(1_000), "{moved:?}");
        assert_eq!(pair.stats(Side::Air).video, 1 - used, "{:?}", pair.reroutes);
    }
}

/// The other side hears nothing any more, but is heard: nothing is acknowledged, on either bearer.
#[test]
fn what_is_not_acknowledged_is_repeated_within_bounds() {
    let mut pair = over(1, &normal(&[path(2, 10, 0.0); 2]));
    pair.connect();
    pair.run_until(ms(2_000));
    pair.add_source(Source::Commands { from: Side::Ground, every: ms(20) }, ms(22_000));
    pair.run_until(ms(7_000));
    (0..2).for_each(|bearer| pair.begin_outage_of(bearer, &[Side::Ground], Outage::Drop));
    let sent = |pair: &mut Pair| -> Vec<u64> {
        pair.stats(Side::Ground).bearers.iter().map(|bearer| bearer.counters.bytes_out).collect()
    };
    pair.run_until(ms(17_000));
    let before = sent(&mut pair);
    pair.run_until(ms(21_000));
    for (after, before) in sent(&mut pair).into_iter().zip(before) {
        let kbps = (after - before) * 8 / 4_000;
        eprintln!("{kbps} kbit/s");
        // An eighth of what it carries, the commands themselves, and signs of life.
        assert!(kbps <= 250 + 150, "{kbps}");
    }
    (0..2).for_each(|bearer| pair.end_outage_of(bearer));
    pair.run_until(ms(24_000));
    let late = pair.latencies(Side::Air, ms(14_000));
    assert!(late.len() > 300 && pair.stats(Side::Ground).unacknowledged == 0, "all of the last seconds are there");
}

#[test]
fn what_is_lost_on_the_bearer_that_is_left_is_sent_again_though_the_other_stays_silent() {
    let mut worst = Duration::ZERO;
    for after in (0..400).step_by(10) {
        let mut pair = over(1, &normal(&[path(10, 20, 0.0), path(10, 35, 0.0)]));
        pair.connect();
        pair.run_until(ms(3_000));
        pair.begin_outage_of(0, &BOTH, Outage::Drop);
        pair.run_until(ms(3_000 + after));
        pair.begin_outage_of(1, &BOTH, Outage::Drop);
        // Both its first copies are lost. The first bearer is probed from some time on, with what is unacknowledged.
        BOTH.into_iter().for_each(|from| pair.send_command(from));
        pair.run_until(ms(3_030 + after));
        pair.end_outage_of(1);
        pair.run_until(ms(8_000));
        assert_exactly_once(&pair);
        let latencies = BOTH.into_iter().flat_map(|to| pair.latencies(to, ms(3_000)));
        worst = latencies.fold(worst, Duration::max);
    }
    // 1.25 round trips of the second and 10 ms after the first, and its way.
    assert!(worst < ms(98 + 35 + 5), "{worst:?}");
}

/// The best of three is gone, and nobody has been told: what leaves meanwhile is on its way by both of the others.
#[test]
fn a_bearer_of_which_word_is_missing_is_none_of_the_two_that_are_enough() {
    let mut worst = Duration::ZERO;
    for after in (70..400).step_by(10) {
        let mut pair = over(1, &normal(&[path(10, 20, 0.0), path(10, 35, 0.0), path(10, 50, 0.0)]));
        pair.connect();
        pair.run_until(ms(3_000));
        pair.begin_outage_of(0, &BOTH, Outage::Drop);
        // Commands go on; otherwise nothing is missing but heartbeats.
        for from in BOTH {
            pair.add_source(Source::Commands { from, every: ms(20) }, ms(3_000 + after));
        }
        pair.run_until(ms(3_000 + after));
        pair.begin_outage_of(1, &BOTH, Outage::Drop);
        BOTH.into_iter().for_each(|from| pair.send_command(from));
        pair.run_until(ms(3_030 + after));
        pair.end_outage_of(1);
        pair.run_until(ms(8_000));
        assert_exactly_once(&pair);
        let last = pair.deliveries.iter().filter(|delivery| delivery.sent >= ms(3_000 + after));
        worst = last.map(|delivery| delivery.arrived - delivery.sent).fold(worst, Duration::max);
    }
    assert!(worst > Duration::ZERO && worst < ms(50 + 2), "{worst:?}");
}

/// The faster of two bearers is dead the one way for 20 s. What goes the other way has no word back by it: commands are repeated
/// there by probes, all else goes by the slower one.
#[test]
fn a_bearer_that_delivers_only_one_direction_is_used_in_that_one() {
    let (dies, heals, ends) = (ms(3_000), ms(23_000), ms(45_000));
    for dead in BOTH {
        let hears = dead as usize; // The side whose packets are lost is the one that hears the other.
        let mut pair = over(3, &normal(&[path(10, 80, 0.0), path(10, 20, 0.0)]));
        pair.connect();
        pair.keep_frames = true;
        pair.add_source(Source::Video { rate: Bitrate::mbps(1), packet: 1200 }, ends);
        for from in BOTH {
            pair.add_source(Source::Commands { from, every: ms(47) }, ends - ms(2_000));
        }
        pair.add_source(Source::Parameters { every: ms(50) }, ends - ms(2_000));
        let won_by_it = |pair: &mut Pair| BOTH.map(|to| pair.stats(to).bearers[1].counters.control_won);
        let carried = |pair: &mut Pair, bearer: usize| BOTH.map(|side| pair.stats(side).bearers[bearer].carries);
        pair.run_until(dies);
        assert_eq!(carried(&mut pair, 1), [[true; 2]; 2], "the faster one is in use");
        pair.begin_outage_of(1, &[dead], Outage::Drop);
        pair.run_until(dies + ms(1_000));
        let before = won_by_it(&mut pair);
        assert_eq!(carried(&mut pair, 0), [[true; 2]; 2], "nothing waits for word that cannot come");
        pair.run_until(heals);
        assert_eq!(carried(&mut pair, 0), [[true; 2]; 2]);
        let won = won_by_it(&mut pair);
        let by_it = [0, 1].map(|to| won[to] - before[to]);
        // A probe every 40 ms, then every 100; one within 60 ms of a command's leaving by the other wins.
        assert!(by_it[hears] >= 150, "{by_it:?} of 404: used in the direction that it delivers");
        assert_eq!(by_it[1 - hears], 0, "and in no other");
        pair.end_outage_of(1);
        pair.run_until(heals + ms(15_000));
        assert_eq!(carried(&mut pair, 1), [[true; 2]; 2], "healed, it is in use again");
        pair.run_until(ends);
        assert_exactly_once(&pair);
        let worst = |from: Duration, until: Duration| {
            let of = pair.deliveries.iter().filter(move |d| d.sent >= from && d.sent < until);
            of.map(|d| d.arrived - d.sent).max().unwrap()
        };
        let (cut, without, healed) =
            (worst(dies - ms(100), dies + ms(1_000)), worst(dies + ms(1_000), heals), worst(heals + ms(15_000), ends));
        let params = pair.mavlink.iter().filter(|(_, _, frame)| frame[7] == 22);
        let params: BTreeSet<_> = params.map(|(to, _, frame)| (*to as u8, frame.clone())).collect();
        let lost = pair.stats(Side::Air).frames_sent - pair.frames.len() as u64;
        eprintln!(
            "dead from {dead:?}: won by it {by_it:?}; worst {cut:?}, {without:?}, {healed:?}; {lost} frames lost"
        );
        assert!(cut.max(without) <= ms(80 + 5) && healed <= ms(20 + 5), "{cut:?}, {without:?}, {healed:?}");
        assert_eq!(params.len(), 2 * 861, "each parameter has arrived");
        // What was under way, and what left until it was noticed.
        assert!(lost <= 10, "{lost} frames");
        let stats = BOTH.map(|side| pair.stats(side));
        assert!(stats.iter().all(|stats| stats.state == LinkState::Up && stats.unacknowledged == 0));
    }
}

#[test]
fn three_bearers_of_which_one_dies_every_five_seconds() {
    let mut pair = over(5, &normal(&[path(4, 20, 0.01), path(4, 35, 0.01), path(4, 50, 0.01)]));
    pair.connect();
    pair.run_until(ms(500));
    pair.add_source(Source::Video { rate: Bitrate::mbps(1), packet: 1200 }, ms(60_000));
    for from in BOTH {
        pair.add_source(Source::Commands { from, every: ms(50) }, ms(60_000));
    }
    for round in 0..12u64 {
        let dying = (round % 3) as usize;
        pair.run_until(ms(5_000 * (round + 1)));
        pair.begin_outage_of(dying, &BOTH, Outage::Drop);
        pair.run_until(ms(5_000 * (round + 1) + 3_000));
        pair.end_outage_of(dying);
    }
    pair.run_until(ms(66_000));
    assert_exactly_once(&pair);
    let mut latencies = pair.latencies(Side::Air, Duration::ZERO);
    latencies.sort();
    let shown = pair.frames.len();
    eprintln!("p99 {:?} max {:?}, {shown} frames", quantile(&latencies, 0.99), quantile(&latencies, 1.0));
    assert!(quantile(&latencies, 1.0) < ms(150), "{:?}", quantile(&latencies, 1.0));
    assert!(shown > 1_600, "{shown} of 1785");
}

#[test]
fn a_satellite_beside_a_network_of_20_ms_is_there_when_that_is_gone() {
    let mut pair = over(7, &normal(&[path(2, 300, 0.0), path(8, 10, 0.0)]));
    pair.connect();
    pair.run_until(ms(3_000));
    for from in BOTH {
        pair.add_source(Source::Commands { from, every: ms(50) }, ms(20_000));
        pair.add_source(Source::Parameters { every: ms(50) }, ms(20_000));
    }
    pair.run_until(ms(10_000));
    let stats = pair.stats(Side::Air);
    assert_eq!(stats.bearers.iter().map(|bearer| bearer.carries).collect::<Vec<_>>(), [[false; 2], [true; 2]]);
    assert_eq!(stats.bearers[0].counters.control_won, 0);
    pair.begin_outage_of(1, &BOTH, Outage::Drop);
    pair.run_until(ms(15_000));
    assert_eq!(pair.stats(Side::Air).bearers[0].carries, [true; 2]);
    pair.end_outage_of(1);
    pair.run_until(ms(23_000));
    assert_exactly_once(&pair);
    let mut latencies = pair.latencies(Side::Air, Duration::ZERO);
    latencies.sort();
    assert!(quantile(&latencies, 0.4) < ms(12), "{:?}", quantile(&latencies, 0.4));
    assert!(quantile(&latencies, 1.0) < ms(320), "{:?}", quantile(&latencies, 1.0));
    assert_eq!(pair.stats(Side::Air).bearers[1].carries, [true; 2], "back on the faster one");
}

#[test]
fn what_costs_is_used_for_control_only_until_the_others_fail() {
    for usage in [Usage::Backup, Usage::Metered] {
        let mut pair = over(9, &[(path(2, 60, 0.0), Usage::Normal), (path(8, 20, 0.0), usage)]);
        pair.connect();
        pair.run_until(ms(1_000));
        pair.add_source(Source::Video { rate: Bitrate::kbps(800), packet: 1200 }, ms(30_000));
        for from in BOTH {
            pair.add_source(Source::Commands { from, every: ms(50) }, ms(28_000));
        }
        pair.run_until(ms(10_000));
        let stats = pair.stats(Side::Air);
        assert_eq!(stats.bearers[1].usage, usage);
        assert_eq!(pair.stats(Side::Ground).bearers[1].usage, usage, "the other side is told");
        assert_eq!(won(&stats)[0], 0, "commands come by the faster one");
        let before = pair.paths_of(1).0.output.bytes;
        assert!(before < 300_000, "{before} bytes by the one that costs");
        pair.begin_outage_of(0, &BOTH, Outage::Drop);
        pair.run_until(ms(20_000));
        assert!(pair.paths_of(1).0.output.bytes - before > 600_000, "video goes by it when there is no other");
        pair.end_outage_of(0);
        pair.run_until(ms(32_000));
        let video = pair.stats(Side::Air).video;
        assert_eq!(video, 0, "and back");
        assert_exactly_once(&pair);
    }
}

#[test]
fn bulk_takes_what_is_left_of_all() {
    let mut pair = over(11, &normal(&[path(10, 20, 0.0); 2]));
    pair.connect();
    pair.run_until(ms(1_000));
    pair.add_source(Source::Commands { from: Side::Ground, every: ms(100) }, ms(20_000));
    let (mut got, mut from) = (0, 0);
    for step in 0..1_900 {
        pair.run_until(ms(1_000 + step * 10));
        while pair.write_bulk(&[0x5a; 16_384]) == 16_384 {}
        while let Some(bytes) = pair.read_bulk(Side::Ground, 65_536) {
            assert!(bytes.iter().all(|byte| *byte == 0x5a));
            got += bytes.len();
        }
        if step == 400 {
            from = got;
        }
    }
    let mbps = (got - from) as f64 * 8.0 / 15e6;
    // Commands go the one way, receipts for them the other.
    let stats = [Side::Air, Side::Ground].map(|side| pair.stats(side));
    let sent: u64 = stats.iter().flat_map(|stats| &stats.bearers).map(|bearer| bearer.counters.bytes_out).sum();
    let redundant: u64 = stats.iter().map(|stats| stats.counters.redundant_bytes).sum();
    assert!(redundant > 0, "commands were replicated");
    let cost = redundant as f64 / sent as f64;
    eprintln!("{mbps:.2} Mbit/s of 20; replication {:.2} %", cost * 100.0);
    assert!(mbps > 17.0, "{mbps}");
    assert!(cost <= 0.02);
    pair.run_until(ms(22_000));
    assert_exactly_once(&pair);
}

#[test]
fn bearers_that_share_an_address_and_a_restart_of_either_side() {
    for restarted in BOTH {
        let mut pair = over(13, &normal(&[path(10, 20, 0.05), path(10, 40, 0.05), path(10, 30, 0.05)]));
        pair.share_address(0, 1);
        pair.connect();
        pair.run_until(ms(1_000));
        for from in BOTH {
            pair.add_source(Source::Commands { from, every: ms(50) }, ms(8_000));
        }
        pair.run_until(ms(3_990));
        pair.restart(restarted);
        pair.run_until(ms(12_000));
        // What the process that died had not sent on is gone with it.
        let lost = 2 * pair.commands_sent(Side::Air) - pair.deliveries.len();
        assert!(lost <= 8, "{lost}");
        let mut seen: Vec<_> = pair.deliveries.iter().map(|delivery| (delivery.to as u8, delivery.index)).collect();
        seen.sort_unstable();
        let count = seen.len();
        seen.dedup();
        assert_eq!(seen.len(), count, "once, also over a restart");
        let stats = pair.stats(Side::Ground);
        assert!(stats.bearers.iter().all(|bearer| bearer.state == LinkState::Up), "{:?}", pair.disconnects);
    }
}

#[test]
fn bearers_come_and_go_while_the_session_runs() {
    let mut pair = over(15, &normal(&[path(10, 20, 0.0)]));
    pair.connect();
    pair.run_until(ms(1_000));
    for from in BOTH {
        pair.add_source(Source::Commands { from, every: ms(20) }, ms(8_000));
    }
    pair.run_until(ms(2_000));
    assert_eq!(pair.stats(Side::Ground).bearers.len(), 1, "nobody has heard of the other yet");
    let other = path(10, 40, 0.0);
    assert_eq!(pair.add_bearer(other, other, Usage::Normal), BearerId::new(1));
    pair.run_until(ms(4_000));
    assert_eq!(pair.stats(Side::Ground).bearers.len(), 2);
    pair.remove_bearer(BearerId::FIRST);
    pair.run_until(ms(6_000));
    assert_eq!(pair.stats(Side::Air).bearers.len(), 1);
    assert_eq!(pair.stats(Side::Air).state, LinkState::Up);
    pair.run_until(ms(9_000));
    assert_exactly_once(&pair);
    assert!(pair.reroutes.iter().any(|(_, side, class, _)| (*side, *class) == (Side::Ground, Class::Telemetry)));
}

/// Of two bearers one is left. What left on the other, and arrived by copies, is known to have arrived.
#[test]
fn what_was_under_way_on_a_bearer_that_is_taken_away_is_acknowledged() {
    let mut pair = over(21, &normal(&[path(10, 20, 0.0), path(10, 40, 0.0)]));
    pair.connect();
    pair.run_until(ms(1_000));
    for from in BOTH {
        pair.add_source(Source::Commands { from, every: ms(5) }, ms(4_000));
    }
    pair.run_until(ms(2_000));
    pair.remove_bearer(BearerId::FIRST);
    pair.run_until(ms(4_500));
    for side in BOTH {
        assert_eq!(pair.stats(side).unacknowledged, 0, "{side:?}");
    }
    pair.run_until(ms(15_000));
    assert_exactly_once(&pair);
    assert!(BOTH.into_iter().all(|side| pair.stats(side).control_drops.expired == 0));
}

/// Each tenth of a second one of up to sixteen bearers is taken away, another one comes, and half of all are out; video, bulk and
/// commands go on over what there is.
#[test]
fn bearers_that_come_and_go_at_10_hz_beside_video_and_bulk_for_five_minutes() {
    let like = |n: u64| path(2, 10 + n % 16 * 5, 0.02);
    let mut pair = over(23, &normal(&(0..8).map(like).collect::<Vec<_>>()));
    pair.connect();
    pair.run_until(ms(1_000));
    pair.add_source(Source::Video { rate: Bitrate::kbps(300), packet: 1200 }, ms(301_000));
    for from in BOTH {
        pair.add_source(Source::Commands { from, every: ms(100) }, ms(301_000));
    }
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let (mut written, mut read, mut held, mut most) = (0u64, 0u64, [0; 3], 0);
    for tick in 0..3_000u64 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let there = pair.session(Side::Air).bearers();
        most = most.max(there.len());
        if there.len() > 3 && state >> 8 & 1 == 0 {
            pair.remove_bearer(there[(state >> 16) as usize % there.len()]);
        } else {
            let added = pair.add_bearer(like(tick), like(tick), Usage::Normal);
            assert_eq!(added.is_none(), there.len() == BearerId::COUNT);
        }
        for (n, bearer) in pair.session(Side::Air).bearers().into_iter().enumerate() {
            match state >> (20 + 2 * n) & 1 {
                0 => pair.begin_outage_of(bearer.number().into(), &BOTH, Outage::Drop),
                _ => pair.end_outage_of(bearer.number().into()),
            }
        }
        let bytes: Vec<u8> = (written..written + 2_000).map(|n| n as u8).collect();
        written += pair.write_bulk(&bytes) as u64;
        pair.run_until(ms(1_000 + tick * 100));
        while let Some(bytes) = pair.read_bulk(Side::Ground, 65_536) {
            assert!((read..).zip(&bytes).all(|(n, byte)| n as u8 == *byte), "bulk is in order");
            read += bytes.len() as u64;
        }
        for side in BOTH {
            let stats = pair.stats(side);
            let now = [stats.unacknowledged, stats.classes[2].queued_bytes, stats.classes[3].queued_bytes];
            held = [0, 1, 2].map(|n| held[n].max(now[n]));
        }
    }
    let there = pair.session(Side::Air).bearers();
    there.iter().for_each(|bearer| pair.end_outage_of(bearer.number().into()));
    pair.run_until(ms(315_000));
    while let Some(bytes) = pair.read_bulk(Side::Ground, 65_536) {
        read += bytes.len() as u64;
        let later = pair.elapsed() + ms(100);
        pair.run_until(later);
    }
    assert_exactly_once(&pair);
    let mut latencies = pair.latencies(Side::Air, Duration::ZERO);
    latencies.sort();
    let (shown, sent) = (pair.frames.len(), pair.stats(Side::Air).frames_in);
    eprintln!(
        "p50 {:?} p99 {:?} max {:?}; {shown} of {sent} frames; bulk {read} of {written}; held {held:?}; {most} bearers",
        quantile(&latencies, 0.5),
        quantile(&latencies, 0.99),
        quantile(&latencies, 1.0)
    );
    assert_eq!(read, written);
    assert!(
        written > 2_000_000 && shown as u64 * 3 > sent,
        "{shown} of {sent} frames: half of the time their bearer is out"
    );
    assert!(quantile(&latencies, 0.99) < ms(500) && quantile(&latencies, 1.0) < ms(2_000));
    assert!(held[0] <= 64 && held[1] <= 2 << 20 && held[2] <= 1 << 20, "{held:?}");
    let stats = pair.stats(Side::Ground);
    assert!(stats.bearers.len() <= BearerId::COUNT && stats.state == LinkState::Up);
}

/// A process that starts anew resumes on each of its bearers: a command that it sends at once goes with the first packet of each, and
/// arrives one way later, whichever of them is the only one that carries anything.
#[test]
fn each_of_several_bearers_is_resumed_by_0_rtt() {
    let delays = [20, 40, 60];
    for open in [Some(0), Some(1), Some(2), None] {
        let mut pair = over(25, &normal(&delays.map(|delay| path(10, delay, 0.0))));
        pair.connect();
        pair.run_until(ms(2_000));
        let resumed = |pair: &mut Pair, side: Side| -> Vec<(u64, u64)> {
            let bearers = pair.stats(side).bearers;
            bearers.iter().map(|bearer| (bearer.counters.connections, bearer.counters.resumed)).collect()
        };
        assert_eq!(resumed(&mut pair, Side::Ground), [(1, 0); 3], "nobody had a ticket yet");
        for bearer in (0..3).filter(|bearer| open.is_some_and(|open| open != *bearer)) {
            pair.begin_outage_of(bearer, &BOTH, Outage::Drop);
        }
        pair.restart(Side::Air);
        pair.send_command(Side::Air);
        pair.run_until(ms(2_000 + 4 * 60));
        let took: Vec<_> = pair.deliveries.iter().map(|delivery| delivery.arrived - delivery.sent).collect();
        assert!(took.len() == 1 && took[0] < ms(delays[open.unwrap_or(0)] + 5), "{open:?}: {took:?}");
        let (there, here) = (resumed(&mut pair, Side::Ground), resumed(&mut pair, Side::Air));
        for bearer in (0..3).filter(|bearer| open.is_none_or(|open| open == *bearer)) {
            assert_eq!((there[bearer], here[bearer]), ((2, 1), (1, 1)), "bearer {bearer} of {open:?}");
        }
    }
}

/// Bearers of 20 and 120 ms change places every 15 s, and whichever carries video is gone for half a second each four. A frame takes
/// most of the time until the next one; that comes when all of it has left, so that what leaves between is of one frame.
#[test]
fn a_frame_is_never_split_over_bearers_of_unlike_delay() {
    for seed in 0..3 {
        let mut pair = over(seed, &normal(&[path(4, 20, 0.0), path(4, 120, 0.0)]));
        pair.connect();
        pair.run_until(ms(2_000));
        pair.record = true;
        let mut carried = [0; 2];
        for n in 0..3_600u32 {
            if n % 450 == 0 {
                let swapped = n / 450 % 2 == 1;
                pair.set_delay(usize::from(swapped), ms(20));
                pair.set_delay(usize::from(!swapped), ms(120));
            }
            match n % 120 {
                60 => {
                    let used = pair.stats(Side::Air).video;
                    pair.begin_outage_of(used, &BOTH, Outage::Drop);
                }
                75 => (0..2).for_each(|bearer| pair.end_outage_of(bearer)),
                _ => {}
            }
            pair.recorded.clear();
            for packet in 0..12 {
                pair.send_video(&frames::rtp((n * 12 + packet) as u16, n, 1_000, packet == 11));
            }
            let next = pair.elapsed() + Duration::from_micros(33_333);
            pair.run_until(next);
            while pair.stats(Side::Air).classes[Class::Video.index()].queued > 0 {
                let later = pair.elapsed() + ms(1);
                pair.run_until(later);
            }
            // All else is shorter, but for handshakes, which are filled up to 1200 bytes.
            let video = pair.recorded.iter().filter(|packet| (400..1200).contains(&packet.bytes().len()));
            let ways: BTreeSet<usize> = video.map(|packet| packet.bearer).collect();
            assert!(ways.len() <= 1, "seed {seed}, frame {n}, after {:?}", pair.elapsed());
            ways.iter().for_each(|bearer| carried[*bearer] += 1);
        }
        let is_video = |(_, side, class, _): &&(_, _, _, _)| (*side, *class) == (Side::Air, Class::Video);
        let moves = pair.reroutes.iter().filter(is_video).count();
        eprintln!("seed {seed}: {moves} moves, frames by each {carried:?}; {} arrived", pair.frames.len());
        assert!(moves >= 12 && carried.iter().all(|frames| *frames > 500), "{moves} moves, {carried:?}");
    }
}

/// Each bearer is there for half of each tenth of a second, at random; one is taken away every five seconds, and comes again. A trickle
/// of video and of bulk goes on beside.
#[test]
fn sixteen_bearers_flapping_at_10_hz_for_an_hour() {
    let like = |n: u64| path(2, 10 + n * 5, 0.02);
    let mut pair = over(17, &normal(&(0..16).map(like).collect::<Vec<_>>()));
    pair.connect();
    pair.run_until(ms(1_000));
    pair.add_source(Source::Video { rate: Bitrate::kbps(30), packet: 1200 }, ms(3_590_000));
    for from in BOTH {
        pair.add_source(Source::Commands { from, every: ms(500) }, ms(3_590_000));
    }
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let (mut most, mut written, mut read) = ([0; 3], 0, 0);
    for tick in 0..36_000u64 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        match tick % 50 {
            10 => pair.remove_bearer(BearerId::new((state >> 32) as u8 % 16).unwrap()),
            35 => {
                let path = like(tick / 50 % 16);
                assert!(pair.add_bearer(path, path, Usage::Normal).is_some());
            }
            _ => {}
        }
        for bearer in 0..16 {
            match state >> (bearer * 4) & 1 {
                0 => pair.begin_outage_of(bearer, &BOTH, Outage::Drop),
                _ => pair.end_outage_of(bearer),
            }
        }
        written += pair.write_bulk(&[0x5a; 100]);
        pair.run_until(ms(1_000 + tick * 100));
        while let Some(bytes) = pair.read_bulk(Side::Ground, 65_536) {
            read += bytes.len();
        }
        if tick % 600 == 0 {
            let stats = pair.stats(Side::Air);
            let now = [stats.unacknowledged, stats.classes[2].queued_bytes, stats.classes[3].queued_bytes];
            most = [0, 1, 2].map(|n| most[n].max(now[n]));
        }
    }
    (0..16).for_each(|bearer| pair.end_outage_of(bearer));
    pair.run_until(ms(3_620_000));
    while let Some(bytes) = pair.read_bulk(Side::Ground, 65_536) {
        read += bytes.len();
    }
    assert_exactly_once(&pair);
    let mut latencies = pair.latencies(Side::Air, Duration::ZERO);
    latencies.sort();
    let (shown, sent) = (pair.frames.len() as u64, pair.stats(Side::Air).frames_in);
    eprintln!("p99 {:?} max {:?}; {shown} of {sent} frames", quantile(&latencies, 0.99), quantile(&latencies, 1.0));
    eprintln!("bulk {read} of {written}; held at most {most:?}");
    assert!(most[0] <= 64 && most[1] <= 1 << 20 && most[2] <= 1 << 20, "{most:?}");
    assert!(read == written && written == 3_600_000, "{read} of {written}");
    assert!(shown * 3 > sent, "{shown} of {sent} frames");
    let stats = pair.stats(Side::Ground);
    assert!(stats.bearers.len() == 16 && stats.bearers.iter().all(|bearer| bearer.state == LinkState::Up));
}
