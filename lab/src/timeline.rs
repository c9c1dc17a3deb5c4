//! What happens in a run, in order of time.

use std::time::Duration;

use aquila_proto::cc::Radio;

use crate::plan::{ActionKind, ChangePlan, OutagePlan, Plan};

/// Something that happens at an instant.
#[derive(Debug, Clone)]
pub enum Step {
    /// An outage begins.
    Begin(OutagePlan),
    /// An outage ends.
    End(OutagePlan),
    /// The first node gets a new address.
    NewAddress,
    /// A direction changes.
    Change(ChangePlan),
    /// The first node is told of its radio.
    Modem(Radio),
}

/// A step and its place.
#[derive(Debug, Clone)]
pub struct Entry {
    /// When, since the start.
    pub at: Duration,
    /// Which link; all if none.
    pub link: Option<usize>,
    /// What.
    pub step: Step,
}

/// Steps of one plan; more would be a mistake.
const MAX_STEPS: usize = 1_000_000;

/// All steps of a plan that fall into the run, in order.
pub fn timeline(plan: &Plan) -> Vec<Entry> {
    let lasts = plan.duration();
    let mut entries = Vec::new();
    for action in plan.actions.iter().map(|action| action.get_ref()) {
        let link = action.link.as_ref().and_then(|name| plan.link_number(name.get_ref()));
        let Ok(kind) = action.kind() else { continue };
        let mut at = action.at.get();
        while at < lasts && entries.len() < MAX_STEPS {
            let mut add = |at, step| entries.push(Entry { at, link, step });
            match &kind {
                ActionKind::Outage(outage) => {
                    add(at, Step::Begin(outage.clone()));
                    add(at + outage.lasts.get(), Step::End(outage.clone()));
                }
                ActionKind::NewAddress => add(at, Step::NewAddress),
                ActionKind::Change(change) => add(at, Step::Change(change.clone())),
                ActionKind::Modem(modem) => add(at, Step::Modem((*modem).into())),
            }
            let Some(every) = action.every else { break };
            at += every.get();
        }
    }
    entries.sort_by_key(|entry| entry.at);
    entries
}
