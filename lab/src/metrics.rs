//! Runs in figures, and the checks of a plan against them.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use serde::Serialize;

use crate::closed_loop::{Completion, Loop};
use crate::plan::{CheckPlan, Plan, Time};
use crate::record::{Flow, LinkSeries, Message, Run};
use crate::viewer::Viewer;

/// Names of directions in metrics.
pub const DIRECTION_NAMES: [&str; 2] = ["up", "down"];

/// A link that has so much to do, whenever it is looked at, is never idle. A packet that is just being sent is less.
const BACKLOG_MS: f64 = 5.0;
/// The wait behind a rate of 0 is not known.
const UNKNOWN_MS: f64 = 1e9;

/// Figures by their full names, such as `aquila.commands.up.latency_ms.p99`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Metrics(pub BTreeMap<String, f64>);

/// A check and what came out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// What it means.
    pub name: String,
    /// Which metric.
    pub metric: String,
    /// Its value; `None` if the runs do not have it.
    pub value: Option<f64>,
    /// Such as `<= 47.5`.
    pub bound: String,
    /// Whether it holds.
    pub pass: bool,
}

impl Metrics {
    /// Of all runs of a plan: messages of the repeats of a contender are judged together.
    pub fn of<R: Borrow<Run>>(plan: &Plan, runs: &[R]) -> Self {
        let mut metrics = Self::default();
        let runs: Vec<&Run> = runs.iter().map(Borrow::borrow).collect();
        let mut names: Vec<&str> = runs.iter().map(|run| run.contender.as_str()).collect();
        names.dedup();
        for name in names {
            let runs: Vec<&Run> = runs.iter().copied().filter(|run| run.contender == name).collect();
            metrics.add_flows(name, plan, &runs);
            metrics.add_links(name, plan, &runs);
        }
        metrics
    }

    /// A figure.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    fn set(&mut self, name: String, value: f64) {
        if value.is_finite() {
            self.0.insert(name, (value * 1e4).round() / 1e4);
        }
    }

    fn add_flows(&mut self, contender: &str, plan: &Plan, runs: &[&Run]) {
        let judged_span = plan.warm_up.get()..plan.duration() - plan.cool_down.get();
        let Some(first) = runs.first() else { return };
        for flow in &first.flows {
            let prefix = format!("{contender}.{}.{}", flow.name, DIRECTION_NAMES[flow.direction]);
            let flows: Vec<&Flow> = runs.iter().filter_map(|run| run.flow(&flow.name, flow.direction)).collect();
            let judged =
                || flows.iter().flat_map(|flow| &flow.messages).filter(|message| judged_span.contains(&message.sent));
            // A flow that does not last all the time has a rate while it does.
            let of_plan = plan.traffic_of(&flow.name);
            let from = of_plan.map_or(Duration::ZERO, |(_, at)| at.get()).max(judged_span.start);
            let of_plan = of_plan.map(|(traffic, _)| traffic);
            let to = of_plan.and_then(|traffic| traffic.until).map_or(judged_span.end, |until| until.get());
            let span_s = to.min(judged_span.end).saturating_sub(from).as_secs_f64();
            let (sent, arrived) = (judged().count(), judged().filter(|message| message.times > 0).count());
            self.set(format!("{prefix}.sent"), sent as f64);
            self.set(format!("{prefix}.delivered"), arrived as f64);
            self.set(format!("{prefix}.lost_share"), if sent == 0 { 0.0 } else { 1.0 - arrived as f64 / sent as f64 });
            self.set(format!("{prefix}.twice"), judged().filter(|message| message.times > 1).count() as f64);
            let bytes: f64 = judged()
                .filter(|message| message.times > 0)
                .map(|message| f64::from(message.bytes))
                .sum::<f64>()
                .max(0.0);
            self.set(format!("{prefix}.rate_mbps"), bytes * 8.0 / (span_s * runs.len() as f64) / 1e6);
            let latencies = judged().filter_map(|message| Some(message.arrived? - message.sent)).collect();
            self.add_distribution(&format!("{prefix}.latency_ms"), latencies);
            let excess =
                |message: &Message| Some((message.arrived? - message.sent).saturating_sub(message.propagation));
            self.add_distribution(&format!("{prefix}.over_propagation_ms"), judged().filter_map(excess).collect());
            if of_plan.is_some_and(|traffic| traffic.video.is_some()) {
                self.add_viewer(&prefix, &judged_span, &flows);
            }
            if let Some(deadline) = of_plan.and_then(|traffic| traffic.deadline).map(Time::get) {
                let in_time = |message: &&Message| message.arrived.is_some_and(|at| at - message.sent <= deadline);
                let late = 1.0 - judged().filter(in_time).count() as f64 / sent.max(1) as f64;
                self.set(format!("{prefix}.late_share"), if sent == 0 { 0.0 } else { late });
            }
            if let Some(looped) = Loop::of(plan, contender, &flow.name) {
                self.add_loop(&prefix, &looped, plan, &flows, &judged_span);
            }
            self.add_distribution(&format!("{prefix}.recovery_ms"), recoveries(&flow.name, flow.direction, runs));
        }
    }

    /// How far what a link carried is from what it could have carried, in the seconds in which much always waited.
    fn add_saturated(&mut self, prefix: &str, runs: &[&Run], of: &LinkSeries) {
        let per_second = (Duration::from_secs(1).as_nanos() / crate::channels::SERIES_STEP.as_nanos()) as usize;
        let (mut seconds, mut errors, mut total) = (0, 0.0, 0.0);
        let same = runs.iter().flat_map(|run| &run.links);
        for series in same.filter(|other| other.link == of.link && other.direction == of.direction) {
            for second in series.samples.chunks_exact(per_second) {
                let capacity: Option<f64> = second.iter().map(|sample| sample.capacity_bps).sum();
                let Some(capacity) = capacity.filter(|_| second.iter().all(|sample| sample.queue_ms >= BACKLOG_MS))
                else {
                    continue;
                };
                let capacity = capacity / per_second as f64;
                let carried = second.iter().map(|sample| sample.carried as f64 * 8.0).sum::<f64>();
                seconds += 1;
                errors += (carried - capacity).abs();
                total += capacity;
            }
        }
        self.set(format!("{prefix}.saturated_s"), f64::from(seconds));
        if total > 0.0 {
            self.set(format!("{prefix}.saturated_mae_percent"), errors / total * 100.0);
        }
    }

    /// Of commands that wait for each other: how regularly they came, and how long all of them took.
    fn add_loop(&mut self, prefix: &str, looped: &Loop, plan: &Plan, flows: &[&Flow], judged: &Range<Duration>) {
        let gaps: Vec<f64> =
            flows.iter().flat_map(|flow| inter_arrivals(flow, judged)).map(|t| t.as_secs_f64()).collect();
        if let Some((mean, std)) = mean_and_std(&gaps) {
            self.set(format!("{prefix}.inter_arrival_s.mean"), mean);
            self.set(format!("{prefix}.inter_arrival_s.std"), std);
            let mut sorted = gaps;
            sorted.sort_unstable_by(f64::total_cmp);
            for (name, share) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)] {
                let rank = (sorted.len() as f64 * share).ceil() as usize;
                self.set(format!("{prefix}.inter_arrival_s.{name}"), sorted[rank.clamp(1, sorted.len()) - 1]);
            }
            let above = sorted.iter().filter(|gap| **gap > 1.0).count();
            self.set(format!("{prefix}.inter_arrival_s.above_1s_share"), above as f64 / sorted.len() as f64);
        }
        let completions: Vec<Completion> = flows.iter().map(|flow| looped.completion(flow, plan.duration())).collect();
        let arrived = flows.iter().flat_map(|flow| &flow.messages).filter(|message| message.times > 0).count();
        let wanted = looped.count as usize * flows.len();
        self.set(format!("{prefix}.delivered_share"), arrived as f64 / wanted as f64);
        let censored = completions.iter().filter(|completion| completion.is_censored).count();
        self.set(format!("{prefix}.completion_s.censored"), censored as f64);
        let mut times: Vec<f64> = completions.iter().map(|completion| completion.time.as_secs_f64()).collect();
        times.sort_unstable_by(f64::total_cmp);
        if let Some((mean, std)) = mean_and_std(&times) {
            self.set(format!("{prefix}.completion_s.mean"), mean);
            self.set(format!("{prefix}.completion_s.std"), std);
            self.set(format!("{prefix}.completion_s.min"), times[0]);
            self.set(format!("{prefix}.completion_s.max"), times[times.len() - 1]);
        }
    }

    /// What a viewer of a flow of video sees.
    fn add_viewer(&mut self, prefix: &str, judged: &Range<Duration>, flows: &[&Flow]) {
        let viewers: Vec<Viewer> = flows.iter().map(|flow| Viewer::new(flow, judged)).collect();
        let due: usize = viewers.iter().map(|viewer| viewer.due).sum();
        let shown: usize = viewers.iter().map(|viewer| viewer.shown.len()).sum();
        self.set(format!("{prefix}.skipped"), viewers.iter().map(|viewer| viewer.skipped).sum::<usize>() as f64);
        self.set(format!("{prefix}.shown_share"), shown as f64 / due.max(1) as f64);
        let over = viewers.iter().flat_map(|viewer| viewer.shown.iter().copied()).collect();
        self.add_distribution(&format!("{prefix}.shown_over_propagation_ms"), over);
        self.add_distribution(&format!("{prefix}.age_ms"), viewers.iter().flat_map(Viewer::ages).collect());
    }

    /// Quantiles, mean and number of some times, in milliseconds.
    fn add_distribution(&mut self, prefix: &str, mut times: Vec<Duration>) {
        let Some(count) = std::num::NonZeroUsize::new(times.len()) else { return };
        times.sort_unstable();
        for (name, share) in [("min", 0.0), ("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)] {
            self.set(format!("{prefix}.{name}"), ms(quantile(&times, share)));
        }
        let sum: Duration = times.iter().sum();
        self.set(format!("{prefix}.mean"), ms(sum) / count.get() as f64);
        self.set(format!("{prefix}.count"), count.get() as f64);
    }

    fn add_links(&mut self, contender: &str, plan: &Plan, runs: &[&Run]) {
        let Some(first) = runs.first() else { return };
        let warm_up = plan.warm_up.get().as_secs_f64();
        for series in &first.links {
            let prefix = format!("{contender}.link_{}.{}", series.link, DIRECTION_NAMES[series.direction]);
            let of_all = runs.iter().flat_map(|run| &run.links);
            let same = of_all.filter(|other| other.link == series.link && other.direction == series.direction);
            let samples: Vec<_> = same.flat_map(|series| &series.samples).filter(|s| s.at_s > warm_up).collect();
            let sum =
                |of: &dyn Fn(&crate::record::LinkSample) -> f64| samples.iter().map(|sample| of(sample)).sum::<f64>();
            let delivered = sum(&|sample| sample.delivered as f64 * 8.0);
            let step = crate::channels::SERIES_STEP.as_secs_f64();
            if samples.iter().all(|sample| sample.capacity_bps.is_some()) {
                let capacity = sum(&|sample| sample.capacity_bps.unwrap_or_default() * step);
                self.set(format!("{prefix}.capacity_mbps"), capacity / (samples.len() as f64 * step) / 1e6);
                self.set(format!("{prefix}.use"), delivered / capacity);
                for (number, share) in series.shares.iter().enumerate() {
                    let same = runs.iter().flat_map(|run| &run.links);
                    let same = same.filter(|other| other.link == series.link && other.direction == series.direction);
                    let bytes: u64 = same
                        .flat_map(|other| other.samples.iter().zip(&other.shares[number].delivered))
                        .filter(|(sample, _)| sample.at_s > warm_up)
                        .map(|(_, bytes)| *bytes)
                        .sum();
                    self.set(format!("{prefix}.share.{}", share.name), bytes as f64 * 8.0 / capacity);
                }
            }
            self.set(format!("{prefix}.delivered_mbps"), delivered / (samples.len() as f64 * step) / 1e6);
            let waits = samples.iter().map(|sample| sample.queue_ms).filter(|ms| *ms < UNKNOWN_MS);
            let mut queue: Vec<Duration> = waits.map(|ms| Duration::from_secs_f64(ms.max(0.0) / 1e3)).collect();
            queue.sort_unstable();
            for (name, share) in [("p50", 0.5), ("p95", 0.95), ("max", 1.0)] {
                if !queue.is_empty() {
                    self.set(format!("{prefix}.queue_ms.{name}"), ms(quantile(&queue, share)));
                }
            }
            self.add_saturated(&prefix, runs, series);
            let offered = sum(&|sample| sample.offered as f64);
            let lost = sum(&|sample| (sample.lost + sample.dropped + sample.outage) as f64);
            self.set(format!("{prefix}.lost_share"), if offered > 0.0 { lost / offered } else { 0.0 });
        }
    }
}

/// Time from each return of a link to the first message of a flow that arrived after it.
pub fn recoveries(name: &str, direction: usize, runs: &[&Run]) -> Vec<Duration> {
    let of_run = |run: &&Run| {
        let mut arrivals: Vec<Duration> =
            run.flow(name, direction).into_iter().flat_map(|flow| &flow.messages).filter_map(|m| m.arrived).collect();
        arrivals.sort_unstable();
        let first_after = |end: &Duration| {
            let next = run.returns.iter().find(|other| *other > end);
            let first = *arrivals.get(arrivals.partition_point(|arrived| arrived < end))?;
            // One that comes only after the next outage is no recovery from this one.
            next.is_none_or(|next| first < *next).then(|| first - *end)
        };
        run.returns.iter().filter_map(first_after).collect::<Vec<_>>()
    };
    runs.iter().flat_map(of_run).collect()
}

/// Times between the arrivals of a flow's messages, in the order in which they came.
pub fn inter_arrivals(flow: &Flow, judged: &Range<Duration>) -> Vec<Duration> {
    let sent_within = flow.messages.iter().filter(|message| judged.contains(&message.sent));
    let mut arrivals: Vec<Duration> = sent_within.filter_map(|message| message.arrived).collect();
    arrivals.sort_unstable();
    arrivals.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// Mean and sample standard deviation; of a single value, 0.
fn mean_and_std(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (!values.is_empty()).then(|| (mean, (squares / (count - 1.0).max(1.0)).sqrt()))
}

/// The smallest value that at least this share of a sorted list does not exceed.
pub fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Holds the checks against the figures.
pub fn check(checks: &[&CheckPlan], metrics: &Metrics) -> Vec<Outcome> {
    let outcome = |check: &&CheckPlan| {
        let value = metrics.get(&check.metric).zip(check.over.as_ref().map_or(Some(1.0), |over| metrics.get(over)));
        let value = value.map(|(value, over)| value / over).filter(|value| value.is_finite());
        let above = check.min.map(|min| format!(">= {min}"));
        let below = check.max.map(|max| format!("<= {max}"));
        let holds = |value: f64| check.min.is_none_or(|min| value >= min) && check.max.is_none_or(|max| value <= max);
        Outcome {
            name: check.name.clone(),
            metric: match &check.over {
                Some(over) => format!("{} / {over}", check.metric),
                None => check.metric.clone(),
            },
            value,
            bound: above.into_iter().chain(below).collect::<Vec<_>>().join(" and "),
            pass: value.is_some_and(holds),
        }
    };
    checks.iter().map(outcome).collect()
}
