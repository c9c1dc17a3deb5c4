//! Parcels: all that is left of a link, in any order, and what became of each. And the controller for a radio of one's own, which
//! loses much by itself.

use std::collections::BTreeSet;
use std::time::Duration;

use aquila_emu::{Loss, PathConfig, Queue};
use aquila_lab::mule::Radio;
use aquila_lab::pair::{Pair, PairConfig, Source};
use aquila_proto::Side;
use aquila_proto::cc::{CongestionConfig, EncoderRange};
use aquila_proto::session::ParcelPort;
use bytes::Bytes;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

struct Outcome {
    /// Of what the radio delivers of full packets, what arrived as payload, each parcel counted once.
    share: f64,
    /// Of those that arrived, that did so again.
    again: f64,
    /// Of commands both ways at 20 Hz.
    p99: Duration,
    /// Sent for the first time, but neither told to have arrived nor told to be lost.
    untold: usize,
}

/// Sends parcels without a pause, those that are told to be lost again.
fn pump(controller: &str, seconds: u64, seed: u64, radio: Radio) -> Outcome {
    let path = PathConfig { rate_bps: Some(0), delay: ms(3), queue: Queue::packets(256), ..PathConfig::default() };
    let (beside, radios) = (vec![], vec![]);
    let mut pair = Pair::new(PairConfig { mtu: 1472, beside, radios, ..PairConfig::new(path, seed) });
    for side in [Side::Air, Side::Ground] {
        let config = CongestionConfig::by_name(controller).unwrap();
        pair.session(side).set_controller(|| config.build(EncoderRange::default(), |_| unreachable!()));
        pair.add_source(Source::Commands { from: side, every: ms(50) }, Duration::from_secs(seconds - 2));
    }
    let (mut capacity, mut payload, mut again) = (0.0, 0.0, 0.0);
    let (mut fresh, mut due, mut under_way, mut got) = (0, BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for second in 0..seconds {
        let now = radio.at(seed, second);
        for from in [Side::Air, Side::Ground] {
            pair.change_path(0, from, now.rate, Loss::Independent(now.loss));
        }
        if second == 0 {
            pair.connect();
        }
        capacity += now.capacity();
        for step in 1..=500 {
            pair.run_until(Duration::from_secs(second) + ms(2 * step));
            while let Some((side, fate)) = pair.fates.pop_front() {
                assert_eq!((side, fate.port), (Side::Ground, ParcelPort::FILES));
                assert!(under_way.remove(&fate.token), "a fate is told once");
                if !fate.received {
                    due.insert(fate.token);
                }
            }
            while let Some((side, port, bytes)) = pair.parcels.pop_front() {
                assert_eq!((side, port), (Side::Air, ParcelPort::FILES));
                let fresh = got.insert(u64::from_be_bytes(bytes[..8].try_into().unwrap()));
                *(if fresh { &mut payload } else { &mut again }) += bytes.len() as f64;
            }
            let max = pair.session(Side::Ground).max_parcel();
            while max > 0 && pair.session(Side::Ground).parcel_room(ParcelPort::FILES) > 32 {
                let token = due.pop_first().unwrap_or_else(|| {
                    fresh += 1;
                    fresh
                });
                let mut bytes = vec![0; max];
                bytes[..8].copy_from_slice(&token.to_be_bytes());
                under_way.insert(token);
                assert!(pair.send_parcel(Side::Ground, ParcelPort::FILES, token, Bytes::from(bytes)));
            }
        }
    }
    let mut latencies = pair.latencies(Side::Air, Duration::ZERO);
    latencies.extend(pair.latencies(Side::Ground, Duration::ZERO));
    latencies.sort();
    let p99 = latencies[latencies.len() * 99 / 100];
    Outcome { share: payload / capacity, again: again / (payload + again), p99, untold: under_way.len() }
}

fn tell(name: &str, controller: &str, outcome: &Outcome) {
    let Outcome { share, again, p99, untold } = outcome;
    println!(
        "{name}, {controller}: {:.1} % of what full packets would bring, {:.2} % came twice, commands p99 {:.1} ms, {untold} untold",
        100.0 * share,
        100.0 * again,
        p99.as_secs_f64() * 1e3,
    );
}

#[test]
fn a_lossy_radio_of_our_own_is_filled_and_hardly_anything_is_sent_twice() {
    for (name, factor, least) in
        [("EFx0.1", 0.1, 0.935), ("EFx0.5", 0.5, 0.93), ("EFx1", 1.0, 0.92), ("EFx2", 2.0, 0.90)]
    {
        for seed in 1..=3 {
            let outcome = pump("dedicated", 150, seed, Radio::Circling { factor });
            tell(name, "dedicated", &outcome);
            assert!(outcome.share >= least, "{name}: {}", outcome.share);
            assert!(outcome.again <= 0.002, "{name}: {}", outcome.again);
            assert!(outcome.untold < 700, "{name}: {}", outcome.untold);
        }
    }
    // Who takes loss for congestion, or for a link that carries less, leaves two fifths of what the other one brings unused.
    let radio = Radio::Circling { factor: 1.0 };
    let [shared, own] = ["fpv2", "dedicated"].map(|controller| pump(controller, 150, 1, radio));
    tell("EFx1", "fpv2", &shared);
    assert!(shared.share > 0.5, "{}", shared.share);
    assert!(shared.share < 0.7 * own.share, "then there would be no need of the other one");
}

#[test]
fn commands_beside_it_wait_for_what_may_stand_in_front_of_the_radio_and_a_packet() {
    let outcome = pump("dedicated", 30, 1, Radio::Steady { mbps: 12, loss: 0.0 });
    tell("12 Mbit/s", "dedicated", &outcome);
    assert!(outcome.share > 0.93 && outcome.p99 < ms(3 + 15 + 4), "{} {:?}", outcome.share, outcome.p99);
    let outcome = pump("dedicated", 30, 1, Radio::Steady { mbps: 12, loss: 0.3 });
    tell("12 Mbit/s, 30 % lost", "dedicated", &outcome);
    assert!(outcome.share > 0.91 && outcome.p99 < ms(2 * (3 + 15 + 4) + 10), "{} {:?}", outcome.share, outcome.p99);
    // On a network that is shared, class Bulk is what is left: fpv2 keeps its queue as short as ever.
    let outcome = pump("fpv2", 30, 1, Radio::Steady { mbps: 12, loss: 0.0 });
    tell("12 Mbit/s", "fpv2", &outcome);
    assert!(outcome.share > 0.93 && outcome.p99 < ms(3 + 12), "{} {:?}", outcome.share, outcome.p99);
}
