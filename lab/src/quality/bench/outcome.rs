//! What came out for one contender.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use serde::Serialize;

use super::camera::Film;
use super::{BenchError, INTERVAL};
use crate::plan::{Plan, TrafficPlan};
use crate::quality::codec::{Order, Unit};
use crate::quality::judge::{Quality, Setting, judge};
use crate::quality::shown::{Encoded, Fate, View, decodable, shown, timing};
use crate::record::{Flow, Run};

/// The ways of seeing that are judged, by name.
pub const VIEWS: [(&str, View); 3] = [
    ("by_index", View::ByIndex),
    ("live_300", View::Live(Duration::from_millis(300))),
    ("live_over_100", View::Over(Duration::from_millis(100))),
];

/// One contender's run, picture by picture.
#[derive(Debug)]
pub struct Filmed<'a> {
    /// The swept values; empty if nothing is swept.
    pub variant: &'a str,
    /// The run.
    pub run: &'a Run,
    /// What the encoder made, by number of the picture.
    pub units: &'a [Option<Unit>],
    /// What it was told with each, likewise; `None`: it was not asked.
    pub orders: &'a [Option<Order>],
    /// What became of it, likewise.
    pub fates: Vec<Fate>,
    /// When it could be decoded, likewise.
    pub times: Vec<Option<Duration>>,
    range: Range<usize>,
    flow: &'a Flow,
}

/// Figures of one contender.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Who.
    pub contender: String,
    /// For each way of seeing: how good it looks.
    pub quality: BTreeMap<&'static str, Quality>,
    /// The same over the codec oracle's.
    pub of_oracle: BTreeMap<&'static str, Quality>,
    /// Share of pictures that could be decoded.
    pub delivered: f64,
    /// Share of pictures that were left out by the encoder, or before it.
    pub left_out: f64,
    /// Seconds in which the picture stood.
    pub frozen_s: f64,
    /// From filming to the last byte, milliseconds, of those delivered: p50, p95, p99.
    pub latency_ms: [Option<f64>; 3],
    /// What the camera sent, in RTP packets.
    pub rate_mbps: f64,
    /// What arrived of it over what the first link could have carried; `None` without limit.
    pub used: Option<f64>,
    /// Hash of all that happened; empty if it was live.
    pub log: String,
    /// Why the run does not count, if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

impl<'a> Filmed<'a> {
    pub(super) fn new(
        variant: &'a str,
        plan: &Plan,
        traffic: &TrafficPlan,
        run: &'a Run,
        film: &'a Film,
    ) -> Result<Self, BenchError> {
        let missing = || BenchError::Plan(format!("{}: the run has no flow {}", run.contender, traffic.name()));
        let flow = run.flow(traffic.name(), 0).ok_or_else(missing)?;
        let fates = fates(flow, &film.units);
        let times = decodable(&fates)?;
        let judged = plan.warm_up.get()..plan.duration().saturating_sub(plan.cool_down.get());
        let first = fates.partition_point(|fate| fate.filmed < judged.start);
        let end = fates.partition_point(|fate| fate.filmed < judged.end);
        if first >= end {
            return Err(BenchError::Plan("no picture is filmed between warm_up and cool_down".into()));
        }
        Ok(Self { variant, run, units: &film.units, orders: &film.orders, fates, times, range: first..end, flow })
    }

    /// The pictures that count.
    pub fn range(&self) -> Range<u32> {
        self.range.start as u32..self.range.end as u32
    }

    /// When the first picture was filmed.
    pub fn first(&self) -> Duration {
        self.fates.first().map_or(Duration::ZERO, |fate| fate.filmed)
    }

    /// The frames that could be decoded, in order.
    pub fn decodable(&self) -> Vec<(u32, &'a Unit)> {
        let units = (0..).zip(self.units).zip(&self.times);
        units.filter_map(|((number, unit), time)| Some((number, unit.as_ref().filter(|_| time.is_some())?))).collect()
    }

    pub(super) fn judge(&self, setting: &Setting<'_>, best: &Quality) -> Result<Outcome, BenchError> {
        let views: Vec<_> = VIEWS.iter().map(|(_, view)| shown(&self.fates, &self.times, *view)).collect();
        let qualities = judge(setting, &self.decodable(), &views)?;
        let named = |quality: &dyn Fn(&Quality) -> Quality| {
            VIEWS.iter().zip(&qualities).map(|((name, _), of)| (*name, quality(of))).collect()
        };
        let timing = timing(&self.fates, &self.times, self.range.clone(), INTERVAL);
        let seconds = self.range.len() as f64 * INTERVAL.as_secs_f64();
        let span = self.fates[self.range.start].filmed..self.fates[self.range.end - 1].filmed + INTERVAL;
        let sent = self.flow.messages.iter().filter(|message| span.contains(&message.sent));
        let arrived = self.flow.messages.iter().filter(|message| message.arrived.is_some_and(|at| span.contains(&at)));
        let bits = |bytes: u64| bytes as f64 * 8.0;
        Ok(Outcome {
            contender: self.run.contender.clone(),
            quality: named(&|of| *of),
            of_oracle: named(&|of| of.over(best)),
            delivered: timing.delivered_share(),
            left_out: timing.left_out as f64 / timing.filmed.max(1) as f64,
            frozen_s: timing.frozen.as_secs_f64(),
            latency_ms: [0.5, 0.95, 0.99].map(|share| timing.latency_ms(share)),
            rate_mbps: bits(sent.map(|message| u64::from(message.bytes)).sum()) / seconds / 1e6,
            used: carried(self.run, &span)
                .map(|capacity| bits(arrived.map(|message| u64::from(message.bytes)).sum()) / capacity),
            log: self.run.log_hash.clone(),
            invalid: self.run.invalid.clone(),
        })
    }
}

/// Bits that the first link could have carried from the first node.
fn carried(run: &Run, span: &Range<Duration>) -> Option<f64> {
    let series = run.links.iter().find(|series| series.direction == 0)?;
    let step = crate::channels::SERIES_STEP.as_secs_f64();
    let inside = series.samples.iter().filter(|sample| {
        let middle = sample.at_s - step / 2.0;
        (span.start.as_secs_f64()..span.end.as_secs_f64()).contains(&middle)
    });
    inside.map(|sample| Some(sample.capacity_bps? * step)).sum::<Option<f64>>().filter(|bits| *bits > 0.0)
}

/// Every picture has left the encoder as the next message, or was skipped at the next such time.
fn fates(flow: &Flow, units: &[Option<Unit>]) -> Vec<Fate> {
    let (mut messages, mut skipped) = (flow.messages.iter(), flow.skipped.iter());
    let mut fates = Vec::new();
    for number in 0..flow.messages.len() + flow.skipped.len() {
        let unit = units.get(number).and_then(Option::as_ref);
        let fate = match unit {
            Some(unit) => messages.next().map(|message| Fate {
                filmed: message.sent,
                encoded: Some(Encoded { is_recovery: unit.is_recovery }),
                arrived: message.arrived,
                propagation: message.propagation,
            }),
            None => {
                skipped.next().map(|at| Fate { filmed: *at, encoded: None, arrived: None, propagation: Duration::ZERO })
            }
        };
        fates.extend(fate);
    }
    fates
}
