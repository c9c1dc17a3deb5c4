use std::path::PathBuf;
use std::time::Instant;

use super::*;
use crate::cell::handovers::Handovers;
use crate::path::tests::{epoch, ms};
use crate::trace::convert::ToOpportunities;
use crate::{CcqMode, Outage, Path, PathConfig, Queue, Samples};

fn wandering(model: &Model) -> CapacityModel {
    let RateModel::Wander(capacity) = &model.rate else { panic!("{} does not wander", model.name) };
    capacity.clone()
}

fn rates(model: Model, seed: u64, seconds: u64) -> Vec<u64> {
    let mut capacity = Capacity::new(&wandering(&model), seed);
    (0..seconds * 10).map(|_| capacity.next_rate()).collect()
}

fn share_below(rates: &[u64], bound: u64) -> f64 {
    rates.iter().filter(|rate| **rate < bound).count() as f64 / rates.len() as f64
}

#[test]
fn names_are_known() {
    assert_eq!(Model::names().collect::<Vec<_>>(), ["lte", "uav", "loiter"]);
    assert!(Model::names().all(|name| Model::by_name(name).unwrap().name == name));
    assert!(Model::by_name("nonsense").is_none());
}

#[test]
fn capacity_has_its_median_and_its_spread() {
    for (model, low, high) in [(Model::lte(), 0.008, 0.06), (Model::uav(), 0.003, 0.04)] {
        let (median, capacity) = (wandering(&model).median_bps, wandering(&model));
        let rates: Vec<u64> = (0..20).flat_map(|seed| rates(model.clone(), seed, 600)).collect();
        let below = share_below(&rates, median);
        assert!((0.42..0.58).contains(&below), "{}: {below} below the median", model.name);
        let poor = share_below(&rates, 1_000_000);
        assert!((low..high).contains(&poor), "{}: {poor} below 1 Mbit/s", model.name);
        let bounds = capacity.floor_bps..=capacity.ceiling_bps;
        assert!(rates.iter().all(|rate| bounds.contains(rate)));
    }
}

#[test]
fn capacity_remembers_for_its_time() {
    // One process only, of which 1/e is left after 1 s.
    let still = Swing { octaves: 0.0, time: ms(1) };
    let model = CapacityModel {
        slow: Swing { octaves: 1.0, time: Duration::from_secs(1) },
        fast: still,
        floor_bps: 0,
        ceiling_bps: u64::MAX,
        ..wandering(&Model::lte())
    };
    let mut capacity = Capacity::new(&model, 3);
    let octaves: Vec<f64> = (0..100_000).map(|_| (capacity.next_rate() as f64 / 6.5e6).log2()).collect();
    let covariance = |lag: usize| {
        octaves.iter().zip(&octaves[lag..]).map(|(a, b)| a * b).sum::<f64>() / (octaves.len() - lag) as f64
    };
    assert!((covariance(0) - 1.0).abs() < 0.1, "{}", covariance(0));
    assert!((covariance(10) - 0.368).abs() < 0.08, "{}", covariance(10));
    assert!(covariance(60).abs() < 0.08, "{}", covariance(60));
}

#[test]
fn a_seed_gives_the_same_trace_everywhere() {
    assert_eq!(rates(Model::uav(), 7, 1)[..5], PINNED_RATES, "traces are no longer those on record");
    let first: Vec<_> = HandoverTrain::new(HandoverModel::default(), 7).take(3).map(|h| (h.at, h.lasts)).collect();
    assert_eq!(first.iter().map(|(at, lasts)| (at.as_nanos(), lasts.as_nanos())).collect::<Vec<_>>(), PINNED_HANDOVERS);
}

const PINNED_RATES: [u64; 5] = [3_612_242, 3_085_785, 2_114_040, 1_968_992, 2_839_189];
const PINNED_HANDOVERS: [(u128, u128); 3] =
    [(61_151_510_000, 3_474_000), (61_505_490_000, 1_496_000), (66_788_772_000, 1_974_000)];

/// How long handovers last, sorted.
fn durations(count: usize) -> Vec<Duration> {
    let mut durations: Vec<Duration> =
        HandoverTrain::new(HandoverModel::default(), 1).take(count).map(|handover| handover.lasts).collect();
    durations.sort_unstable();
    durations
}

fn quantile(sorted: &[Duration], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3
}

#[test]
fn handovers_last_as_long_as_in_the_study() {
    let durations = durations(100_000);
    for (share, expected) in [(0.5, 1.8), (0.95, 5.0), (0.99, 205.0)] {
        let found = quantile(&durations, share);
        assert!((found / expected - 1.0).abs() < 0.1, "{found} ms at {share}");
    }
    assert!(quantile(&durations, 1.0) <= 4_500.0 && quantile(&durations, 1.0) > 4_000.0);
}

#[test]
fn there_are_0_to_13_a_minute() {
    let mut minutes = vec![0; 2_000];
    for handover in HandoverTrain::new(HandoverModel::default(), 2) {
        let Some(minute) = minutes.get_mut((handover.at.as_secs() / 60) as usize) else { break };
        *minute += 1;
    }
    assert_eq!((minutes.iter().min(), minutes.iter().max()), (Some(&0), Some(&13)));
    let quiet = minutes.iter().filter(|count| **count == 0).count();
    assert!((660..820).contains(&quiet), "{quiet} of 2,000 minutes");
    let train: Vec<_> = HandoverTrain::new(HandoverModel::default(), 2).take(5_000).collect();
    assert!(train.is_sorted_by_key(|handover| handover.at));
}

/// The study's own list, where AQUILA_TRACES names a folder that has it; it is not part of the project.
#[test]
fn handovers_are_distributed_as_on_the_recorded_flights() {
    let name = "uav/handovers-fig4a+10b.csv";
    let folder = std::env::var_os("AQUILA_TRACES").map(PathBuf::from);
    let Some(text) = folder.and_then(|folder| std::fs::read_to_string(folder.join(name)).ok()) else {
        eprintln!("skipped: AQUILA_TRACES names no folder that has {name}");
        return;
    };
    let column = text.lines().next().and_then(|header| header.split(',').position(|name| name == "duration")).unwrap();
    let durations_of = |line: &str| line.split(',').nth(column).and_then(|text| text.parse().ok());
    let mut recorded: Vec<Duration> =
        text.lines().skip(1).filter_map(durations_of).map(Duration::from_secs_f64).collect();
    recorded.sort_unstable();
    assert_eq!(recorded.len(), 2_457);
    let made = durations(100_000);
    for share in [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 1.0] {
        let (is, was) = (quantile(&made, share), quantile(&recorded, share));
        assert!((is / was - 1.0).abs() < 0.15, "at {share}: {is} ms, recorded {was} ms");
    }
    // The Kolmogorov-Smirnov distance.
    let below = |sorted: &[Duration], bound| sorted.partition_point(|d| *d <= bound) as f64 / sorted.len() as f64;
    let distance = recorded.iter().map(|d| (below(&made, *d) - below(&recorded, *d)).abs()).fold(0.0, f64::max);
    assert!(distance < 0.1, "{distance}");
}

#[test]
fn a_trace_is_as_long_as_asked_and_out_in_handovers() {
    let length = Duration::from_secs(300);
    let samples: Vec<Sample> = Trace::new(Model::uav(), 4, length).collect();
    assert_eq!(samples.iter().map(|sample| sample.lasts).sum::<Duration>(), length);
    assert!(samples.iter().all(|sample| !sample.lasts.is_zero()));
    let out: Duration = samples.iter().filter(|sample| sample.rate_bps == Some(0)).map(|sample| sample.lasts).sum();
    let train = HandoverTrain::new(HandoverModel::default(), 4).take_while(|handover| handover.at < length);
    let (count, expected) = train.fold((0, Duration::ZERO), |(n, sum), handover| (n + 1, sum + handover.lasts));
    assert!(count > 5 && out.abs_diff(expected) < Duration::from_secs(5), "{out:?} of {expected:?}");
    let delays: std::collections::BTreeSet<_> = samples.iter().filter_map(|sample| sample.delay).collect();
    assert!(delays.len() > 3 && delays.iter().all(|delay| (ms(10)..=ms(50)).contains(delay)), "{delays:?}");
    // Again from the beginning.
    let mut trace = Trace::new(Model::uav(), 4, length);
    while trace.next_item().unwrap().is_some() {}
    trace.rewind().unwrap();
    assert!(trace.eq(samples));
}

/// Outages from the list and outages in the samples are the same link.
#[test]
fn playing_handovers_or_samples_with_them_is_the_same() {
    let start = epoch();
    let still = CapacityModel { floor_bps: 8_000_000, ceiling_bps: 8_000_000, ..wandering(&Model::uav()) };
    let train = HandoverModel { delay_shift: Duration::ZERO, ..HandoverModel::default() };
    let model = Model { rate: RateModel::Wander(still), handovers: Some(train.clone()), ..Model::uav() };
    let config =
        PathConfig { rate_bps: Some(8_000_000), delay: ms(30), queue: Queue::bytes(1 << 30), ..PathConfig::default() };
    let run = |play: &dyn Fn(&mut Path<u32>, Instant)| {
        let mut path = Path::new(config, 0);
        play(&mut path, start);
        for n in 0..20_000u32 {
            path.push(start + ms(u64::from(n) * 5), 3_000, n).unwrap();
        }
        std::iter::from_fn(|| path.pop_packet(start + ms(200_000))).map(|d| (d.number, d.due)).collect::<Vec<_>>()
    };
    let samples = run(&|path, start| {
        let source = Box::new(Trace::new(model.clone(), 9, Duration::from_secs(300)));
        path.play_samples(start, start, Samples { source, ccq: CcqMode::default() });
    });
    let handovers = run(&|path, start| {
        let source = Box::new(HandoverTrain::new(train.clone(), 9));
        path.play_handovers(start, start, Handovers { source, outage: Outage::Hold });
    });
    assert_eq!(samples.len(), 20_000);
    assert_eq!(samples, handovers);
}

/// Rate in Mbit/s and loss as the paper has it, of an hour of seconds.
fn loiter(seed: u64) -> Vec<(f64, f64)> {
    let samples = Trace::new(Model::loiter(), seed, Duration::from_secs(3_600));
    samples.map(|s| (s.rate_bps.unwrap() as f64 / 1e6, 1.0 - s.ccq.unwrap())).collect()
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count() as f64
}

/// -1 to 1.
fn correlation(pairs: &[(f64, f64)]) -> f64 {
    let (x, y) = (mean(pairs.iter().map(|pair| pair.0)), mean(pairs.iter().map(|pair| pair.1)));
    let product = |a: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(a).sum::<f64>();
    product(&|p| (p.0 - x) * (p.1 - y)) / (product(&|p| (p.0 - x).powi(2)) * product(&|p| (p.1 - y).powi(2))).sqrt()
}

#[test]
fn a_circling_aircraft_has_mean_spread_and_loss_of_the_measurement() {
    for seed in 0..5 {
        let trace = loiter(seed);
        assert_eq!(trace.len(), 3_600, "a sample a second");
        let (rate, loss) = (mean(trace.iter().map(|s| s.0)), mean(trace.iter().map(|s| s.1)));
        assert!((14.2..15.0).contains(&rate), "{rate} Mbit/s");
        assert!((0.24..0.27).contains(&loss), "{loss}");
        let spread = mean(trace.iter().map(|s| (s.0 - rate).powi(2))).sqrt();
        assert!((9.8..11.0).contains(&spread), "{spread} Mbit/s; 15 / √2 is 10.6");
        assert!(trace.iter().all(|s| (0.0..=30.0).contains(&s.0) && (0.0999..0.4001).contains(&s.1)));
        assert!(trace.iter().any(|s| s.0 == 0.0) && trace.iter().any(|s| s.0 > 29.0));
        assert!(correlation(&trace) < -0.9, "{}", correlation(&trace));
    }
}

#[test]
fn a_circle_takes_40_s() {
    let trace = loiter(3);
    let after = |lag: usize| {
        let pairs: Vec<_> = trace.iter().zip(&trace[lag..]).map(|(a, b)| (a.0, b.0)).collect();
        correlation(&pairs)
    };
    assert!(after(40) > 0.93 && after(80) > 0.93, "{} and {}", after(40), after(80));
    assert!(after(20) < -0.93 && after(10).abs() < 0.05, "{} and {}", after(20), after(10));
    assert!((30..50).all(|lag| after(lag) <= after(40)));
}

#[test]
fn a_circling_aircraft_is_the_same_everywhere() {
    let trace = Trace::new(Model::loiter(), 7, Duration::from_secs(3));
    let samples: Vec<_> = trace.map(|s| (s.rate_bps.unwrap(), s.ccq.unwrap(), s.delay.unwrap())).collect();
    assert_eq!(samples, PINNED_LOITER.map(|(rate, ccq)| (rate, ccq, ms(3))), "traces are no longer those on record");
    let other = Trace::new(Model::loiter(), 8, Duration::from_secs(1)).next().unwrap();
    assert_ne!(other.rate_bps, Some(PINNED_LOITER[0].0));
}

const PINNED_LOITER: [(u64, f64); 3] = [(27_390_036, 0.8837), (28_773_340, 0.883), (27_864_500, 0.8581)];

#[test]
fn a_trace_becomes_opportunities() {
    let trace = Trace::new(Model::lte(), 1, Duration::from_secs(60));
    let bits: f64 = trace.clone().map(|s| s.rate_bps.unwrap() as f64 * s.lasts.as_secs_f64()).sum();
    let count = ToOpportunities::new(trace, 1500).filter(|at| at.is_ok()).count();
    assert!((count as f64 - bits / 12_000.0).abs() <= 2.0, "{count} for {bits} bits");
}
