//! The link in virtual time: the figures it is held to, each run twice with equal logs.

use std::time::Duration;

use aquila_emu::{Outage, PathConfig};
use aquila_lab::pair::{Pair, PairConfig, Source};
use aquila_proto::{Bitrate, Side};

const PROPAGATION: Duration = Duration::from_millis(30);
/// Queue that the controller lets stand.
const TARGET: Duration = Duration::from_millis(10);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// 4 Mbit/s, 30 ms one way, 60 kB drop-tail, both directions.
fn link(seed: u64) -> PairConfig {
    let path = PathConfig { rate_bps: Some(4_000_000), delay: PROPAGATION, queue_bytes: 60_000, loss: 0.0 };
    PairConfig { up: path, down: path, seed, mtu: 1200 }
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
        assert!(max.abs_diff(runs[0].2) <= ms(2));
    }
    assert_eq!(loaded(8).3, runs[1].3, "same seed, same log");
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
