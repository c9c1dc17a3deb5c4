//! What happens to links and contenders during a run, each thing at its time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Topology;
use super::apps::Apps;
use super::aquila::Aquila;
use super::sockets::PATIENCE;
use crate::live::{Addresses, End, Event as LiveEvent, LinkId, WorldError, prioritise};
use crate::plan::{ContenderKind, ContenderPlan, OutageKind, Plan, Reconnect};
use crate::record::Event;
use crate::run::tcp::GIVE_UP;
use crate::timeline::{Entry, Step};

/// A change of address is carried out within this time, or the machine is too slow.
const CHANGE: Duration = Duration::from_millis(50);

/// Something that the contender does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    /// The first node's process is killed and started again; whether it keeps its session.
    Restart { keeps_session: bool },
    /// The first node's connection is made again; whether the second is told.
    Connect { both: bool },
    /// Each end sends a command.
    Commands,
    /// Nothing before the first node has its new address.
    Await,
}

/// Deeds in order of time.
#[derive(Debug, Default)]
pub struct Deeds(Vec<(Instant, Deed)>);

/// Orders what the plan says of the links. Gives the times at which outages end, and what the contender and the applications
/// have to do.
///
/// # Errors
/// If the emulator has ended.
pub fn schedule(
    plan: &Plan,
    contender: &ContenderPlan,
    topology: &Topology,
    steps: &[Entry],
    start: Instant,
    events: &mut Vec<Event>,
) -> Result<(Vec<Instant>, Deeds), WorldError> {
    let Topology { world, links, .. } = topology;
    let (mut returns, mut deeds) = (Vec::new(), Deeds::default());
    for entry in steps {
        let at = start + entry.at;
        let hit: Vec<LinkId> = entry.link.map_or_else(|| links.clone(), |link| vec![links[link]]);
        let mut note = |text: &str| {
            let place = entry.link.map(|link| plan.links[link].get_ref().name.get_ref().clone()).unwrap_or_default();
            events.push(Event { at_s: entry.at.as_secs_f64(), place, text: text.to_owned() });
        };
        match &entry.step {
            Step::Begin(plan) => {
                let outage = match plan.packets {
                    OutageKind::Drop => aquila_emu::Outage::Drop,
                    OutageKind::Hold => aquila_emu::Outage::Hold,
                };
                for link in hit {
                    world.change(link, at, move |now, up, down| {
                        up.begin_outage(now, outage);
                        down.begin_outage(now, outage);
                    })?;
                }
                let is_ours = contender.kind == ContenderKind::Aquila;
                if is_ours && contender.reconnect != Reconnect::Keep && plan.reconnect {
                    deeds.add(at, Deed::Restart { keeps_session: contender.reconnect == Reconnect::Resume });
                }
                note("outage begins");
            }
            Step::End(outage) => {
                for link in &hit {
                    world.change(*link, at, |now, up, down| {
                        up.end_outage(now);
                        down.end_outage(now);
                    })?;
                    if outage.new_address {
                        world.at(at, LiveEvent::NextAddress(*link, End::A));
                    } else if outage.link_event {
                        // Down just before it comes up: programs are told of both.
                        let before = at.checked_sub(Duration::from_millis(100)).unwrap_or(at);
                        world.at(before, LiveEvent::Up(*link, End::A, false));
                        world.at(at, LiveEvent::Up(*link, End::A, true));
                    }
                }
                returns.push(at);
                deeds.add_reconnection(contender, at, outage.new_address, outage.reconnect);
                if outage.reconnect {
                    deeds.add(at, Deed::Commands);
                }
                note("outage ends");
            }
            Step::NewAddress => {
                hit.iter().for_each(|link| world.at(at, LiveEvent::NextAddress(*link, End::A)));
                deeds.add_reconnection(contender, at, true, false);
                note("new address");
            }
            Step::Change(change) => {
                for link in hit {
                    let changes = change.paths();
                    world.change(link, at, move |now, up, down| {
                        for (path, change) in [up, down].into_iter().zip(changes) {
                            if let Some(change) = change {
                                // What cannot be was refused when the plan was read.
                                let _ = crate::channels::change_path(path, now, &change);
                            }
                        }
                    })?;
                }
                note("the link changes");
            }
            // A modem's words go by the configuration of a process, which does not know when the run began.
            Step::Modem(_) => note("the modem tells of its radio: in virtual time only, left out"),
        }
    }
    deeds.0.sort_by_key(|(at, _)| *at);
    Ok((returns, deeds))
}

impl Deeds {
    fn add(&mut self, at: Instant, deed: Deed) {
        self.0.push((at, deed));
    }

    /// As the model in virtual time: a connection that is to go on is given up 5 s after it has lost its address.
    fn add_reconnection(&mut self, contender: &ContenderPlan, at: Instant, new_address: bool, is_asked: bool) {
        if new_address {
            self.add(at, Deed::Await);
        }
        match contender.reconnect {
            _ if contender.kind == ContenderKind::Aquila => {} // It knows by itself.
            Reconnect::Keep if new_address => self.add(at + GIVE_UP, Deed::Connect { both: false }),
            Reconnect::Resume | Reconnect::Fresh if new_address || is_asked => {
                self.add(at, Deed::Connect { both: is_asked });
            }
            Reconnect::Keep | Reconnect::Resume | Reconnect::Fresh => {}
        }
    }

    /// Does them, until told to stop. Gives what went wrong.
    pub fn run(self, topology: &Topology, apps: &Apps, aquila: Option<&Aquila>, stop: &AtomicBool) -> Vec<String> {
        prioritise();
        let mut faults = Vec::new();
        let mut before = addresses(topology);
        for (at, deed) in self.0 {
            loop {
                let left = at.saturating_duration_since(Instant::now());
                if stop.load(Ordering::Relaxed) {
                    return faults;
                }
                if left.is_zero() {
                    break;
                }
                std::thread::sleep(left.min(PATIENCE));
            }
            match deed {
                Deed::Restart { keeps_session } => {
                    let restarted = aquila.map(|aquila| aquila.restart(&topology.world, keeps_session));
                    faults.extend(restarted.and_then(Result::err).map(|error| error.to_string()));
                }
                Deed::Connect { both } => apps.reconnect(both),
                Deed::Commands => apps.send_commands(),
                Deed::Await => {
                    while addresses(topology) == before && at.elapsed() < CHANGE {
                        std::thread::sleep(Duration::from_micros(50));
                    }
                    before = addresses(topology);
                }
            }
        }
        faults
    }
}

/// Those of the first node, which change.
fn addresses(topology: &Topology) -> Vec<Addresses> {
    topology.links.iter().map(|link| topology.world.addresses(*link, End::A)).collect()
}
