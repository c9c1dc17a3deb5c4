//! The runs of a variant, as plots need them: by contender, with classes of flows, outages and events.

use crate::judge::VariantJudgement;
use crate::plan::{Plan, TrafficKind};
use crate::record::{Flow, LinkSeries, Run};

use super::series::joined;

/// Names of classes of flows, in the order in which they are stacked.
pub const CLASSES: [&str; 5] = ["commands", "parameters", "video", "datagrams", "data"];
/// What goes with commands, the last of them: too little for a plot of rates.
pub const DATA: usize = 4;
/// Both directions, for titles.
pub const DIRECTIONS: [usize; 2] = [0, 1];

/// A variant's runs.
#[derive(Debug)]
pub struct Scene<'a> {
    pub plan: &'a Plan,
    /// In the order of the plan.
    pub contenders: Vec<Contender<'a>>,
}

/// A contender's runs.
#[derive(Debug)]
pub struct Contender<'a> {
    pub name: &'a str,
    /// One of each repeat; at least one.
    pub runs: Vec<&'a Run>,
}

impl<'a> Scene<'a> {
    pub fn new(variant: &'a VariantJudgement) -> Self {
        let mut contenders: Vec<Contender<'a>> = Vec::new();
        for run in &variant.runs {
            match contenders.iter_mut().find(|contender| contender.name == run.contender) {
                Some(contender) => contender.runs.push(run),
                None => contenders.push(Contender { name: &run.contender, runs: vec![run] }),
            }
        }
        Self { plan: &variant.plan, contenders }
    }

    /// Length of a run, seconds.
    pub fn seconds(&self) -> f64 {
        self.plan.duration().as_secs_f64()
    }

    /// What is sent in this time is judged, seconds.
    pub fn judged(&self) -> (f64, f64) {
        (self.plan.warm_up.get().as_secs_f64(), self.seconds() - self.plan.cool_down.get().as_secs_f64())
    }

    /// Class of a flow, by its name in the plan.
    pub fn class_of(&self, flow: &Flow) -> usize {
        if self.plan.is_data(&flow.name) {
            return DATA;
        }
        match self.plan.traffic_of(&flow.name).map(|(traffic, _)| traffic.kind()) {
            Some(Ok(TrafficKind::Parameters(_))) => 1,
            Some(Ok(TrafficKind::Video(_))) => 2,
            Some(Ok(TrafficKind::Datagrams(_))) => 3,
            _ => 0,
        }
    }

    /// Flows of a class in a direction, of one run.
    pub fn flows(&self, run: &'a Run, class: usize, direction: usize) -> impl Iterator<Item = &'a Flow> {
        run.flows.iter().filter(move |flow| flow.direction == direction && self.class_of(flow) == class)
    }

    /// From where to where a direction goes, for titles.
    pub fn way(&self, direction: usize) -> String {
        let [from, to] = [&self.plan.nodes[direction], &self.plan.nodes[1 - direction]];
        format!("{from} to {to}")
    }
}

/// The series of a direction, one of each link.
pub fn links(run: &Run, direction: usize) -> impl Iterator<Item = &LinkSeries> {
    run.links.iter().filter(move |series| series.direction == direction)
}

/// When any link was out, seconds: as events say to the nanosecond, and where only the samples say so (handovers of a
/// trace or a generator) to a tenth of a second.
pub fn outages(run: &Run) -> Vec<(f64, f64)> {
    let mut exact = Vec::new();
    for (number, event) in run.events.iter().enumerate().filter(|(_, event)| event.text == "outage begins") {
        let ends = |other: &&crate::record::Event| other.place == event.place && other.text == "outage ends";
        let end = run.events[number..].iter().find(ends).map_or(run.seconds, |end| end.at_s);
        exact.push((event.at_s, end));
    }
    let step = crate::channels::SERIES_STEP.as_secs_f64();
    let mut sampled = Vec::new();
    for series in &run.links {
        for sample in series.samples.iter().filter(|sample| sample.is_out) {
            let known = |(from, to): &(f64, f64)| (*from..=*to).contains(&sample.at_s);
            if !exact.iter().any(known) {
                sampled.push((sample.at_s - step / 2.0, sample.at_s + step / 2.0 + 1e-6));
            }
        }
    }
    exact.extend(sampled);
    joined(exact)
}

/// Events that are drawn as lines, for all contenders or for the one whose run this is. None if they are too many to be
/// told apart.
pub fn marks(run: &Run, plan: &Plan, with_nodes: bool) -> Vec<(f64, String)> {
    const MOST: usize = 60;
    let is_outage = |text: &str| text == "outage begins" || text == "outage ends";
    let shown = run.events.iter().filter(|event| !is_outage(&event.text));
    let shown = shown.filter(|event| with_nodes || !plan.nodes.contains(&event.place));
    let marks: Vec<_> = shown.map(|event| (event.at_s, format!("{} {}", event.place, event.text))).collect();
    if marks.len() > MOST { Vec::new() } else { marks }
}
