//! Repairs of video: parity by the other bearer, and repetition, against losses of all kinds.

use std::time::Duration;

use aquila_emu::{GilbertElliott, Loss, Outage, PathConfig};
use aquila_lab::pair::{Pair, PairConfig, Source};
use aquila_proto::video::VideoParity;
use aquila_proto::{Bitrate, Class, Side, Usage};

use crate::ms;

const BOTH: [Side; 2] = [Side::Air, Side::Ground];
/// Eight fragments a frame.
const RATE: Bitrate = Bitrate(2_130_000);
const OFF: VideoParity = VideoParity { share: 0.0, frames: 4, repeat: false };
const HALF: VideoParity = VideoParity { share: 0.5, frames: 4, repeat: false };
const REPEAT: VideoParity = VideoParity { share: 0.0, frames: 4, repeat: true };

fn path(mbps: u64, delay_ms: u64) -> PathConfig {
    PathConfig { rate_bps: Some(mbps * 1_000_000), delay: ms(delay_ms), ..PathConfig::default() }
}

/// Over these bearers, of which the first loses video and the others nothing.
fn over(seed: u64, loss: Loss, paths: &[PathConfig], parity: VideoParity) -> Pair {
    let beside = paths[1..].iter().map(|path| (*path, *path, Usage::Normal)).collect();
    let (up, down) = (PathConfig { loss, ..paths[0] }, paths[0]);
    let config = PairConfig { down, beside, ..PairConfig::new(up, seed) };
    Pair::with_parity(config, parity)
}

/// In bursts of four in the mean.
fn bursts(mean: f64) -> Loss {
    Loss::GilbertElliott(GilbertElliott::from_mean(mean, 4.0).expect("there are such bursts"))
}

/// What became of the frames of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Outcome {
    sent: usize,
    missed: usize,
    /// Given out more than 300 ms after they were made.
    late: usize,
    fragments: u64,
    repairs: u64,
    beside: u64,
    restored: u64,
    /// Dropped before they left, and reroutes of video.
    dropped: u64,
    reroutes: usize,
    hash: u64,
    /// Latency of the commands: the 99th percentile, and the slowest.
    p99: Duration,
    slowest: Duration,
}

impl Outcome {
    fn miss(&self) -> f64 {
        (self.missed + self.late) as f64 / self.sent as f64
    }

    fn and(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            missed: self.missed + other.missed,
            late: self.late + other.late,
            fragments: self.fragments + other.fragments,
            repairs: self.repairs + other.repairs,
            beside: self.beside + other.beside,
            restored: self.restored + other.restored,
            dropped: self.dropped + other.dropped,
            reroutes: self.reroutes + other.reroutes,
            hash: self.hash ^ other.hash,
            p99: self.p99.max(other.p99),
            slowest: self.slowest.max(other.slowest),
        }
    }
}

/// A minute of video and of commands both ways.
fn minute(mut pair: Pair, rate: Bitrate) -> Outcome {
    pair.connect();
    pair.run_until(ms(1_000));
    let end = ms(61_000);
    pair.add_source(Source::Video { rate, packet: 1100 }, end);
    for from in BOTH {
        pair.add_source(Source::Commands { from, every: ms(100) }, end);
    }
    pair.run_until(end + ms(1_000));
    outcome(&mut pair)
}

fn outcome(pair: &mut Pair) -> Outcome {
    let (air, ground) = (pair.stats(Side::Air), pair.stats(Side::Ground));
    let sent = air.frames_in as usize;
    let mut latencies: Vec<_> = BOTH.iter().flat_map(|to| pair.latencies(*to, Duration::ZERO)).collect();
    latencies.sort();
    Outcome {
        sent,
        missed: sent - pair.frames.len(),
        late: pair.frames.iter().filter(|frame| frame.arrived - frame.sent > ms(300)).count(),
        fragments: air.counters.sent[2],
        repairs: air.counters.repairs,
        beside: air.counters.repairs_beside,
        restored: ground.counters.fragments_restored,
        dropped: air.frames_dropped,
        reroutes: pair
            .reroutes
            .iter()
            .filter(|(_, side, class, _)| (*side, *class) == (Side::Air, Class::Video))
            .count(),
        hash: pair.log_hash(),
        p99: latencies.get(latencies.len().saturating_sub(1) * 99 / 100).copied().unwrap_or_default(),
        slowest: latencies.last().copied().unwrap_or_default(),
    }
}

/// Four minutes, each of its own seed.
fn four(make: impl Fn(u64) -> Pair, what: &str) -> Outcome {
    let all = (1..5).map(|seed| minute(make(seed), RATE)).fold(Outcome::default(), Outcome::and);
    let Outcome { sent, missed, late, fragments, repairs, .. } = all;
    let cost = repairs as f64 / fragments as f64 * 100.0;
    eprintln!(
        "{what}: missed {:.4} ({missed} and {late} late of {sent}), {:.2} fragments a frame, repairs {cost:.1} %, {all:?}",
        all.miss(),
        fragments as f64 / sent as f64
    );
    all
}

#[test]
fn bursts_are_survived_by_parity_on_the_other_bearer() {
    // Where nothing is repaired, video leaves for the other one, slow as it is; with parity it stays.
    let paths = [path(10, 20), path(10, 70)];
    let with = |parity| move |seed| over(seed, bursts(0.05), &paths, parity);
    let off = four(with(OFF), "bursts of 4, 5 %, no parity");
    let one = four(with(VideoParity { frames: 1, ..HALF }), "half as parity, of one frame");
    let window = four(with(HALF), "half as parity, of four frames");
    assert_eq!((off.repairs, off.restored), (0, 0));
    assert!((7.9..8.1).contains(&(off.fragments as f64 / off.sent as f64)), "eight fragments a frame");
    assert!(window.beside * 100 >= window.repairs * 98, "by the other bearer");
    assert!(window.miss() <= 0.006, "{}", window.miss());
    assert!(one.miss() > 4.0 * window.miss(), "a burst is longer than what half of a frame makes good for");
    assert!((1..=8).contains(&off.reroutes) && off.miss() < 0.01, "it leaves within the first second, and stays there");
    let again = minute(over(1, bursts(0.05), &paths, HALF), RATE);
    assert_eq!(again, minute(over(1, bursts(0.05), &paths, HALF), RATE), "same seed, same log");
}

#[test]
fn single_losses_are_repeated_in_time() {
    let with = |parity| move |seed| over(seed, Loss::Independent(0.1), &[path(10, 15)], parity);
    let off = four(with(OFF), "10 % of single losses, no parity");
    let repeat = four(with(REPEAT), "repeated");
    assert!(off.miss() > 0.3);
    assert!(repeat.miss() <= 0.003, "{}", repeat.miss());
    assert!(repeat.repairs * 4 <= repeat.fragments, "at most a quarter more packets");
}

#[test]
fn a_bearer_dies_and_parity_on_the_other_saves_what_it_can() {
    for seed in 1..4 {
        let run = |parity| {
            let mut pair = over(seed, Loss::NONE, &[path(10, 20), path(10, 30)], parity);
            pair.connect();
            pair.run_until(ms(1_000));
            pair.add_source(Source::Video { rate: RATE, packet: 1100 }, ms(8_000));
            pair.run_until(ms(4_000 + seed * 7));
            pair.begin_outage_of(0, &BOTH, Outage::Drop);
            pair.run_until(ms(10_000));
            outcome(&mut pair)
        };
        let (off, whole) = (run(OFF), run(VideoParity { share: 1.0, ..HALF }));
        eprintln!("seed {seed}: missed {} without, {} with all of it twice", off.missed, whole.missed);
        assert!(whole.missed < off.missed);
    }
}

#[test]
fn without_parity_nothing_of_it_is_on_the_wire() {
    let paths = [path(10, 20), path(10, 30)];
    let off = minute(over(1, bursts(0.02), &paths, OFF), RATE);
    let idle = minute(over(1, bursts(0.02), &paths, VideoParity { share: 0.0, frames: 9, repeat: false }), RATE);
    assert_eq!(off, idle);
    assert_eq!(off.repairs, 0);
}

#[test]
fn parity_by_the_same_bearer_is_room_that_pictures_do_not_get() {
    let target = |parity| {
        let mut pair = over(1, Loss::NONE, &[path(4, 20)], parity);
        pair.connect();
        pair.run_until(ms(500));
        pair.add_source(Source::Video { rate: Bitrate::mbps(2), packet: 1100 }, ms(10_000));
        pair.run_until(ms(10_000));
        pair.stats(Side::Air).target_rate.0 as f64
    };
    let ratio = target(HALF) / target(OFF);
    assert!((0.6..0.72).contains(&ratio), "two thirds of it: {ratio}");
}

/// As of the link without parity, see link.rs; which carries pictures of half as much again.
#[test]
fn commands_do_not_feel_the_parity() {
    let serialisation = Duration::from_micros(1228 * 8 / 4);
    for paths in [&[path(4, 30)][..], &[path(4, 30), path(4, 40)]] {
        for mbps in [2, 8] {
            let half = minute(over(1, Loss::NONE, paths, HALF), Bitrate::mbps(mbps));
            let Outcome { p99, slowest, repairs, .. } = half;
            eprintln!("{} bearers, {mbps} Mbit/s, {repairs} repairs: p99 {p99:?}, slowest {slowest:?}", paths.len());
            // Beside a camera that makes twice what one bearer carries, there is no room for any.
            assert_eq!(repairs > 0, mbps == 2 || paths.len() > 1);
            // Propagation, and the queue that the controller lets stand.
            let far = ms(30 + 10);
            assert!(p99 <= far + serialisation + ms(5), "{p99:?}");
            assert!(slowest <= far + serialisation + ms(10), "{slowest:?}");
        }
    }
}
