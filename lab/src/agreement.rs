//! Whether a plan comes out live as it does in virtual time.
//!
//! Repeats are compared by the medians of their figures. The bounds are those of the project: medians within 5 % or 3 ms,
//! 95 of 100 within 10 % or 8 ms, whichever is more; and of datagrams the bytes of each second within 2 % of the mean.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::judge::Judgement;
use crate::metrics::Metrics;
use crate::plan::{Plan, TrafficKind};
use crate::record::{Flow, Run};

/// A figure in both ways.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The swept values; empty if nothing is swept.
    pub variant: String,
    /// Which figure; of each repeat, and then the median of the repeats.
    pub metric: String,
    /// In virtual time, with so many repeats.
    pub virtual_time: f64,
    /// Live.
    pub live: f64,
    /// The least and the most of the live repeats.
    pub live_range: [f64; 2],
    /// Live repeats.
    pub live_repeats: usize,
    /// Live may differ by this, in the figure's unit.
    pub bound: f64,
    /// Whether it does not differ by more.
    pub agrees: bool,
}

/// Figures that are compared: relative and absolute bound.
const BOUNDS: [(&str, f64, f64); 4] = [
    ("latency_ms.p50", 0.05, 3.0),
    ("latency_ms.p95", 0.10, 8.0),
    ("recovery_ms.p50", 0.05, 3.0),
    ("recovery_ms.p95", 0.10, 8.0),
];
/// Per cent of the mean. Which packets find room in a full queue is decided by microseconds, and with them what is lost.
const SECONDS_BOUND: f64 = 2.0;

/// Compares what both have: contenders that have a model in virtual time and run live.
pub fn compare<'a>(virtual_time: &'a Judgement, live: &'a Judgement) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for (simulated, real) in virtual_time.variants.iter().zip(&live.variants) {
        let contenders: BTreeSet<&str> = real.runs.iter().map(|run| run.contender.as_str()).collect();
        for contender in contenders {
            let of = |runs: &'a [Run]| runs.iter().filter(|run| run.contender == contender).collect::<Vec<_>>();
            let (mut simulated, runs) = (of(&simulated.runs), of(&real.runs));
            // Equal luck on both sides.
            simulated.retain(|run| runs.iter().any(|other| other.seed == run.seed));
            let mut of_contender = figures(&real.plan, &simulated, &runs);
            of_contender.extend(seconds(&real.plan, &simulated, &runs));
            of_contender.iter_mut().for_each(|comparison| comparison.variant.clone_from(&real.variant));
            comparisons.extend(of_contender);
        }
    }
    comparisons
}

fn figures(plan: &Plan, simulated: &[&Run], real: &[&Run]) -> Vec<Comparison> {
    let of_each =
        |runs: &[&Run]| runs.iter().map(|run| Metrics::of(plan, std::slice::from_ref(run))).collect::<Vec<_>>();
    let (simulated, real) = (of_each(simulated), of_each(real));
    let names: BTreeSet<&String> = real.iter().flat_map(|metrics| metrics.0.keys()).collect();
    let values = |runs: &[Metrics], name: &str| -> Vec<f64> { runs.iter().filter_map(|run| run.get(name)).collect() };
    let mut comparisons = Vec::new();
    for name in names {
        let Some((_, relative, absolute)) = BOUNDS.iter().find(|(figure, ..)| name.ends_with(figure)) else { continue };
        let (expected, found) = (values(&simulated, name), values(&real, name));
        let Some(expected) = median(&expected) else { continue };
        let bound = (expected * relative).max(*absolute);
        comparisons.extend(comparison(name.clone(), expected, &found, bound));
    }
    comparisons
}

/// Bytes of all datagrams in each second of the run, repeat by repeat, equal seeds together.
fn seconds(plan: &Plan, simulated: &[&Run], real: &[&Run]) -> Vec<Comparison> {
    let is_datagrams = |flow: &&Flow| {
        let of_plan = plan.traffic().into_iter().find(|traffic| traffic.name() == flow.name);
        of_plan.is_some_and(|traffic| matches!(traffic.kind(), Ok(TrafficKind::Datagrams(_))))
    };
    let mut comparisons = Vec::new();
    for (direction, way) in crate::metrics::DIRECTION_NAMES.into_iter().enumerate() {
        let bins = |run: &Run| {
            let mut bins = vec![0.0; plan.duration().as_secs() as usize];
            for flow in run.flows.iter().filter(|flow| flow.direction == direction).filter(is_datagrams) {
                add_seconds(flow, &mut bins);
            }
            bins
        };
        let error = |run: &&Run| {
            let same = simulated.iter().find(|other| other.seed == run.seed)?;
            mae_percent(&bins(same), &bins(run))
        };
        let errors: Vec<f64> = real.iter().filter_map(error).collect();
        let Some(run) = real.first() else { continue };
        let metric = format!("{}.datagrams.{way}.seconds_mae_percent", run.contender);
        comparisons.extend(comparison(metric, 0.0, &errors, SECONDS_BOUND));
    }
    comparisons
}

/// Bytes by the second in which they arrived.
fn add_seconds(flow: &Flow, bins: &mut [f64]) {
    for message in &flow.messages {
        let second = message.arrived.map(|at| at.as_secs() as usize);
        if let Some(bin) = second.and_then(|second| bins.get_mut(second)) {
            *bin += f64::from(message.bytes);
        }
    }
}

/// Mean absolute error in per cent of the mean; `None` if nothing was expected.
fn mae_percent(expected: &[f64], found: &[f64]) -> Option<f64> {
    let error: f64 = expected.iter().zip(found).map(|(expected, found)| (expected - found).abs()).sum();
    let total: f64 = expected.iter().sum();
    (total > 0.0).then(|| error / total * 100.0)
}

fn comparison(metric: String, virtual_time: f64, found: &[f64], bound: f64) -> Option<Comparison> {
    let live = median(found)?;
    let least = found.iter().copied().fold(f64::INFINITY, f64::min);
    let most = found.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(Comparison {
        variant: String::new(),
        metric,
        virtual_time,
        live,
        live_range: [least, most],
        live_repeats: found.len(),
        bound,
        agrees: (live - virtual_time).abs() <= bound,
    })
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 if sorted.is_empty() => None,
        0 => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
        _ => Some(sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn flow(arrivals_ms: &[u64]) -> Flow {
        let mut flow = Flow { name: "datagrams".into(), direction: 0, messages: Vec::new(), skipped: Vec::new() };
        for arrived in arrivals_ms {
            let number = flow.on_sent(Duration::ZERO, 100);
            flow.on_arrived(number, Duration::from_millis(*arrived));
        }
        flow
    }

    #[test]
    fn the_median_of_an_even_number_is_between_both() {
        assert_eq!((median(&[]), median(&[3.0, 1.0]), median(&[5.0, 1.0, 2.0])), (None, Some(2.0), Some(2.0)));
    }

    #[test]
    fn a_packet_in_another_second_counts_in_both() {
        let seconds = |arrivals: &[u64]| {
            let mut bins = vec![0.0; 3];
            add_seconds(&flow(arrivals), &mut bins);
            bins
        };
        let expected = seconds(&[100, 200, 1100, 2100]);
        assert_eq!(mae_percent(&expected, &expected), Some(0.0));
        assert_eq!(mae_percent(&expected, &seconds(&[100, 1200, 1100, 2100])), Some(50.0));
        assert_eq!(mae_percent(&seconds(&[]), &expected), None);
    }

    #[test]
    fn bounds_are_relative_or_absolute_whichever_is_more() {
        let live = |value| comparison("m".into(), 100.0, &[value], 5.0).unwrap().agrees;
        assert!(live(95.0) && live(105.0) && !live(105.1) && !live(94.9));
    }
}
