//! Plans: one TOML file says what links there are, who sends what over them, what happens, and what has to come out.
//!
//! A plan is run in virtual time or live; `docs/lab.md` is its manual. Everything in it is checked before anything starts,
//! and every error names the file, the line and the reason.

mod commands;
mod link;
mod load;
mod programs;
mod sweep;
mod traffic;
mod units;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub use commands::{CommandTraffic, Pace};
pub use link::{
    Bound, BurstPlan, CcqPlan, HandoverPlan, JitterPlan, LinkPlan, LossPlan, OutageKind, PathPlan, QueuePlan, SynthPlan,
};
pub use load::{PlanError, load, parse};
pub use programs::{ProgramPlan, RunPlan};
pub use sweep::{SweepPlan, Variant};
pub use traffic::{
    ActionKind, ActionPlan, ChangePlan, CompanyPlan, ContenderKind, ContenderPlan, ModemPlan, OutagePlan, PathChange,
    Reconnect, Told, TrafficKind, TrafficPlan, VideoTraffic,
};
pub use units::{Drift, Rate, Share, Size, Time};

use serde::Deserialize;
use toml::Spanned;

/// A plan as it is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// One line.
    pub title: String,
    /// What it shows, for the report.
    #[serde(default)]
    pub about: String,
    /// Length of a run.
    pub lasts: Time,
    /// What is sent before this is not judged: connections are being set up.
    #[serde(default)]
    pub warm_up: Time,
    /// What is sent in the last time before the end is not judged: it may still be on its way.
    #[serde(default = "a_second")]
    pub cool_down: Time,
    /// Seed of the first repeat; each repeat adds one.
    #[serde(default = "one")]
    pub seed: u64,
    /// How often each contender runs.
    #[serde(default = "one_repeat")]
    pub repeats: u32,
    /// Repeats when run live, if another number: real time is dear.
    pub live_repeats: Option<u32>,
    /// Names of the two ends.
    #[serde(default = "air_and_ground")]
    pub nodes: [String; 2],
    /// How fast a node's clock runs, as this product's sessions have it, in virtual time.
    pub clocks: Option<Spanned<BTreeMap<String, Drift>>>,
    /// The links between them, in order of preference; up is from the first node to the second.
    #[serde(rename = "link")]
    pub links: Vec<Spanned<LinkPlan>>,
    /// Who competes; each runs alone, on links of equal luck.
    #[serde(rename = "contender")]
    pub contenders: Vec<Spanned<ContenderPlan>>,
    /// What the applications send.
    #[serde(rename = "traffic", default)]
    pub traffic: Vec<Spanned<TrafficPlan>>,
    /// What happens, and when.
    #[serde(rename = "action", default)]
    pub actions: Vec<Spanned<ActionPlan>>,
    /// Programs that prepare a node before the start, live.
    #[serde(rename = "set_up", default)]
    pub set_ups: Vec<Spanned<ProgramPlan>>,
    /// Programs that run from the start on, live.
    #[serde(rename = "process", default)]
    pub processes: Vec<Spanned<ProgramPlan>>,
    /// Programs that run after the end, live.
    #[serde(rename = "tear_down", default)]
    pub tear_downs: Vec<Spanned<ProgramPlan>>,
    /// Values of the plan that are varied.
    #[serde(rename = "sweep", default)]
    pub sweeps: Vec<SweepPlan>,
    /// What has to hold.
    #[serde(rename = "check", default)]
    pub checks: Vec<Spanned<CheckPlan>>,
    /// Where the plan is: traces are looked for beside it.
    #[serde(skip)]
    pub folder: PathBuf,
    /// Runs of which packets are captured; not in the file, but asked for by who runs it.
    #[serde(skip)]
    pub capture: Option<CapturePlan>,
}

/// Which runs of a plan are captured.
#[derive(Debug, Clone)]
pub struct CapturePlan {
    /// Where the files go; made if missing.
    pub directory: PathBuf,
    /// Of runs with this seed.
    pub seed: u64,
}

/// A bound on a metric.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckPlan {
    /// What it means, one line.
    pub name: String,
    /// Which metric, such as `aquila.commands.up.latency_ms.p99`; see `docs/lab.md`.
    pub metric: String,
    /// It may be this at most.
    pub max: Option<f64>,
    /// It must be this at least.
    pub min: Option<f64>,
    /// Another metric; the bounds then are on the ratio to it.
    pub over: Option<String>,
    /// Checked in runs of this kind only.
    pub only: Option<Mode>,
    /// Checked in variants that have this value only, such as `link.0.both.delay = 20 ms`.
    pub when: Option<String>,
}

/// How a plan is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// On a simulated clock.
    Virtual,
    /// In real time, with real programs in network namespaces.
    Live,
}

impl Plan {
    /// Length of a run.
    pub fn duration(&self) -> Duration {
        self.lasts.get()
    }

    /// How much faster than true the clock of node 0 or 1 runs.
    pub fn drift(&self, node: usize) -> Drift {
        self.clocks.as_ref().and_then(|clocks| clocks.get_ref().get(&self.nodes[node])).copied().unwrap_or_default()
    }

    /// Of a flow that a contender's company sends: its traffic, and when the company comes.
    fn of_company(&self, flow: &str) -> Option<(&TrafficPlan, Time)> {
        let company = self.contenders.iter().flat_map(|contender| &contender.get_ref().beside);
        company.map(Spanned::get_ref).filter(|company| company.is_session()).find_map(|company| {
            let traffic = self.traffic.iter().map(Spanned::get_ref);
            let is_it = |name: &str| company.flow(name) == flow;
            let of = traffic
                .into_iter()
                .find(|traffic| is_it(traffic.name()) || traffic.data().is_some_and(|data| is_it(&data.0)));
            Some((of?, company.at))
        })
    }

    /// Whether a flow is what goes with the commands of another, and not traffic of its own.
    pub fn is_data(&self, flow: &str) -> bool {
        self.traffic_of(flow).is_some_and(|(traffic, _)| flow.ends_with(DATA) && !flow.ends_with(traffic.name()))
    }

    /// How long the application waits for a command before it sends the next of a closed loop.
    pub fn give_up(&self, contender: &str) -> Option<Duration> {
        let known = self.contenders.iter().map(Spanned::get_ref).find(|known| known.name() == contender);
        known.and_then(|contender| contender.give_up).map(Time::get)
    }

    /// The traffic that a flow of that name is or goes with, and when it begins.
    pub fn traffic_of(&self, flow: &str) -> Option<(&TrafficPlan, Time)> {
        let is_it =
            |traffic: &&TrafficPlan| traffic.name() == flow || traffic.data().is_some_and(|data| data.0 == flow);
        let own = self.traffic.iter().map(Spanned::get_ref).find(is_it);
        let own = own.map(|traffic| (traffic, traffic.at));
        own.or_else(|| self.of_company(flow).map(|(traffic, at)| (traffic, traffic.at.max(at))))
    }

    /// Leaves out all contenders but those of these names, and the checks of those that are left out; no names: none is.
    ///
    /// # Errors
    /// A name that no contender has.
    pub fn run_only(&mut self, names: &[String]) -> Result<(), String> {
        let has = |contenders: &[Spanned<ContenderPlan>], name: &str| {
            contenders.iter().any(|contender| contender.get_ref().name() == name)
        };
        if let Some(unknown) = names.iter().find(|name| !has(&self.contenders, name)) {
            return Err(unknown.clone());
        }
        let all = self.contenders.clone();
        let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
        self.contenders.retain(|contender| is_wanted(contender.get_ref().name()));
        let of = |metric: &str| metric.split('.').next().unwrap_or_default().to_owned();
        let is_judged = |metric: &String| !has(&all, &of(metric)) || is_wanted(&of(metric));
        self.checks.retain(|check| is_judged(&check.get_ref().metric) && check.get_ref().over.iter().all(is_judged));
        Ok(())
    }

    /// The first flow of video from the first node.
    pub fn video_from_first(&self) -> Option<(&TrafficPlan, VideoTraffic)> {
        let from = [self.nodes[0].as_str(), "both"];
        let of_first = self.traffic().into_iter().filter(|traffic| from.contains(&traffic.from.get_ref().as_str()));
        let mut videos = of_first.filter_map(|traffic| match traffic.kind() {
            Ok(TrafficKind::Video(video)) => Some((traffic, video)),
            _ => None,
        });
        videos.next()
    }

    /// Whether it has programs of its own.
    pub fn has_programs(&self) -> bool {
        [&self.set_ups, &self.processes, &self.tear_downs].into_iter().any(|programs| !programs.is_empty())
    }

    /// How often each contender runs in this mode.
    pub fn repeats_in(&self, mode: Mode) -> u32 {
        match mode {
            Mode::Virtual => self.repeats,
            Mode::Live => self.live_repeats.unwrap_or(self.repeats),
        }
    }
}

/// Behind the name of commands: what goes with them.
const DATA: &str = "-data";

fn a_second() -> Time {
    "1 s".parse().expect("a time")
}

fn one() -> u64 {
    1
}

fn one_repeat() -> u32 {
    1
}

fn air_and_ground() -> [String; 2] {
    ["air".into(), "ground".into()]
}

#[cfg(test)]
mod tests;
