//! A plan in real time: the product's own binary, or sockets of the kernel, in network namespaces over the emulator.
//!
//! The applications are the same in each case: they send numbered MAVLink frames and RTP packets from a socket at one node,
//! and note when they come out of one at the other. All clocks are one, that of this process.

mod apps;
mod carrier;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crate::channels::{Channel, ChannelError, DIRECTIONS, SERIES_STEP, index};
use crate::live::{
    Addresses, Cells, End, Event as LiveEvent, IpPacket, LinkId, LinkSpec, NodeId, Process, Record, Sandbox, Verdict,
    World, WorldError,
};
use crate::plan::{ContenderKind, ContenderPlan, Mode, OutageKind, Plan, Reconnect, TrafficKind};
use crate::record::{Event, LinkSample, LinkSeries, Run};
use crate::timeline::{Entry, Step, timeline};
use apps::Apps;

/// Why a plan cannot be run live.
#[derive(Debug, thiserror::Error)]
pub enum LiveRunError {
    /// A link cannot be made.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The namespaces or devices cannot be had.
    #[error(transparent)]
    World(#[from] WorldError),
    /// A contender cannot be set up.
    #[error("contender {name}: {message}")]
    Contender {
        /// Which.
        name: String,
        /// What is wrong.
        message: String,
    },
}

/// Where things are.
#[derive(Debug, Clone)]
pub struct Places {
    /// The program under test.
    pub binary: PathBuf,
    /// Logs and keys of each run go below it.
    pub folder: PathBuf,
}

/// Programs are given this long to be ready before the clock starts.
const READY: Duration = Duration::from_millis(1_500);
/// And this long to end.
const GRACE: Duration = Duration::from_secs(2);

/// Whether a contender runs live as the plan has it, and if not, why.
pub fn is_possible(plan: &Plan, contender: &ContenderPlan) -> Result<(), &'static str> {
    let video_from_elsewhere = |traffic: &&crate::plan::TrafficPlan| {
        matches!(traffic.kind(), Ok(TrafficKind::Video(_) | TrafficKind::Datagrams(_)))
            && *traffic.from.get_ref() != plan.nodes[0]
    };
    let datagrams = |traffic: &&crate::plan::TrafficPlan| matches!(traffic.kind(), Ok(TrafficKind::Datagrams(_)));
    let moves = timeline(plan).iter().any(|entry| match &entry.step {
        Step::NewAddress => true,
        Step::End(outage) => outage.new_address || outage.reconnect,
        Step::Begin(_) | Step::Change(_) => false,
    });
    if plan.traffic().iter().any(video_from_elsewhere) {
        return Err("video and datagrams come from the first node only, live");
    }
    match (contender.kind, contender.reconnect) {
        (ContenderKind::Aquila, Reconnect::Resume | Reconnect::Fresh) => {
            Err("the program decides by itself how it reconnects; in virtual time it can be told")
        }
        (ContenderKind::Aquila, Reconnect::Keep) if plan.traffic().iter().any(datagrams) => {
            Err("datagrams beside the program are not sent live yet")
        }
        (ContenderKind::Tcp | ContenderKind::TcpReno, _) if moves => {
            Err("a TCP connection that has to be made again is not, live")
        }
        (ContenderKind::Aquila | ContenderKind::Udp | ContenderKind::Tcp | ContenderKind::TcpReno, _) => Ok(()),
        (ContenderKind::Tls | ContenderKind::Mptcp, _) => Err("not run live yet"),
    }
}

/// Runs a contender once, in as much time as the plan says.
///
/// # Errors
/// [`LiveRunError`]; a run on a machine that was too slow is none, but marked as not counting.
pub fn run(
    plan: &Plan,
    contender: &ContenderPlan,
    seed: u64,
    sandbox: &Sandbox,
    places: &Places,
    interrupted: &AtomicBool,
) -> Result<Run, LiveRunError> {
    let wrong = |message: String| LiveRunError::Contender { name: contender.name().to_owned(), message };
    is_possible(plan, contender).map_err(|reason| wrong(reason.to_owned()))?;
    let folder = places.folder.join(format!("{}-{seed}", contender.name()));
    std::fs::create_dir_all(&folder).map_err(|error| wrong(format!("{}: {error}", folder.display())))?;
    let (world, nodes, links) = build(plan, seed, sandbox)?;
    let records = world.take_records();
    let target = carrier::target(contender.kind, &world, links[0]);
    let programs = match contender.kind {
        ContenderKind::Aquila => {
            carrier::start_aquila(&world, nodes, links[0], contender, places, &folder).map_err(wrong)?
        }
        _ => Vec::new(),
    };
    let apps = Apps::new(plan, &world, nodes, &target, seed).map_err(|error| wrong(error.to_string()))?;
    let start = Instant::now() + READY;
    // Cells as at the start: set-up has used the link.
    for (number, link) in links.iter().enumerate() {
        world.replace(*link, start, cells(plan, number, seed, start)?)?;
    }
    let mut events = Vec::new();
    let follows =
        |traffic: &&crate::plan::TrafficPlan| matches!(traffic.kind(), Ok(TrafficKind::Video(video)) if video.follow);
    if plan.traffic().iter().any(follows) {
        let text = "the camera does not follow the link, live: it sends at its full rate".to_owned();
        events.push(Event { at_s: 0.0, place: plan.nodes[0].clone(), text });
    }
    let steps = timeline(plan);
    let returns = schedule(plan, &world, &links, &steps, start, &mut events)?;
    let flows = apps.run(start, plan.duration(), &returns, interrupted);
    let health = world.health()?;
    let tails = stop(programs);
    let invalid = match health.verdict {
        Verdict::Valid => tails,
        Verdict::Invalid(ref reasons) => Some(format!("{reasons:?}")),
    };
    for fault in world.event_faults() {
        events.push(Event { at_s: plan.duration().as_secs_f64(), place: String::new(), text: fault.to_string() });
    }
    drop(world);
    let mut links = series(plan, &links, records, start);
    add_capacity(plan, seed, &mut links)?;
    Ok(Run {
        contender: contender.name().to_owned(),
        mode: Mode::Live,
        seed,
        seconds: plan.duration().as_secs_f64(),
        flows,
        links,
        events,
        returns: returns.iter().map(|at| *at - start).collect(),
        log_hash: String::new(),
        invalid,
    })
}

fn build(plan: &Plan, seed: u64, sandbox: &Sandbox) -> Result<(World, [NodeId; 2], Vec<LinkId>), LiveRunError> {
    let mut builder = sandbox.world();
    let [a, b] = [0, 1].map(|node| builder.node(plan.nodes[node].clone()));
    builder.record(None);
    let mut links = Vec::new();
    for (number, link) in plan.links.iter().enumerate() {
        let link = link.get_ref();
        links.push(builder.link(LinkSpec {
            name: link.name.get_ref().clone(),
            a,
            b,
            mtu: u32::from(link.mtu),
            addresses: Addresses::numbered(number as u8),
            cells: cells(plan, number, seed, Instant::now())?,
        }));
    }
    Ok((builder.build()?, [a, b], links))
}

fn cells(plan: &Plan, number: usize, seed: u64, start: Instant) -> Result<Cells, ChannelError> {
    let link = plan.links[number].get_ref();
    let channel: Channel<IpPacket> = Channel::new(link, &plan.folder, crate::channels::seed_of(link, seed), start)?;
    Ok(match channel {
        Channel::Duplex(paths) => {
            let [up, down] = *paths;
            Cells::duplex(up, down)
        }
        Channel::HalfDuplex(both) => Cells::half_duplex(*both),
    })
}

/// Orders what the plan says; gives the times at which outages end.
fn schedule(
    plan: &Plan,
    world: &World,
    links: &[LinkId],
    steps: &[Entry],
    start: Instant,
    events: &mut Vec<Event>,
) -> Result<Vec<Instant>, LiveRunError> {
    let mut returns = Vec::new();
    for entry in steps {
        let at = start + entry.at;
        let hit: Vec<LinkId> = entry.link.map_or_else(|| links.to_vec(), |link| vec![links[link]]);
        let mut note = |text: &str| {
            let place = entry.link.map(|link| plan.links[link].get_ref().name.get_ref().clone()).unwrap_or_default();
            events.push(Event { at_s: entry.at.as_secs_f64(), place, text: text.to_owned() });
        };
        match &entry.step {
            Step::Begin(kind) => {
                let outage = match kind {
                    OutageKind::Drop => aquila_emu::Outage::Drop,
                    OutageKind::Hold => aquila_emu::Outage::Hold,
                };
                for link in hit {
                    world.change(link, at, move |now, up, down| {
                        up.begin_outage(now, outage);
                        down.begin_outage(now, outage);
                    })?;
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
                        world.at(
                            at.checked_sub(Duration::from_millis(100)).unwrap_or(at),
                            LiveEvent::Up(*link, End::A, false),
                        );
                        world.at(at, LiveEvent::Up(*link, End::A, true));
                    }
                }
                returns.push(at);
                note("outage ends");
            }
            Step::NewAddress => {
                hit.iter().for_each(|link| world.at(at, LiveEvent::NextAddress(*link, End::A)));
                note("new address");
            }
            Step::Change(change) => {
                for link in hit {
                    let change = change.clone();
                    world.change(link, at, move |now, up, down| {
                        for (path, change) in [(up, &change.up), (down, &change.down)] {
                            if let Some(change) = change {
                                // What cannot be was refused when the plan was read.
                                let _ = crate::channels::change_path(path, now, change);
                            }
                        }
                    })?;
                }
                note("the link changes");
            }
        }
    }
    Ok(returns)
}

/// Ends programs; a text if one had ended by itself.
fn stop(programs: Vec<Process>) -> Option<String> {
    let mut faults = Vec::new();
    for program in programs {
        if program.ended().is_some() {
            faults.push(format!("{} ended before its time: {}", program.name(), program.log_tail(5)));
        } else {
            program.stop(GRACE);
        }
    }
    (!faults.is_empty()).then(|| faults.join("; "))
}

/// Rows of the emulator as the report has them.
fn series(plan: &Plan, links: &[LinkId], records: Option<Receiver<Record>>, start: Instant) -> Vec<LinkSeries> {
    let of = |link: usize, direction: usize| LinkSeries {
        link: plan.links[link].get_ref().name.get_ref().clone(),
        direction,
        samples: Vec::new(),
    };
    let mut series: Vec<LinkSeries> = (0..links.len()).flat_map(|link| [of(link, 0), of(link, 1)]).collect();
    let rows = records.into_iter().flat_map(|records| records.try_iter().collect::<Vec<_>>());
    for row in rows {
        let Record::Interval(row) = row else { continue };
        let Some(at) =
            row.end.checked_duration_since(start).filter(|at| *at <= plan.duration() + Duration::from_millis(50))
        else {
            continue;
        };
        let Some(link) = links.iter().position(|link| *link == row.link) else { continue };
        series[link * 2 + index(row.direction)].samples.push(LinkSample {
            at_s: at.as_secs_f64(),
            capacity_bps: None,
            offered: row.offered.bytes,
            delivered: row.delivered.bytes,
            lost: row.dropped.loss.bytes + row.dropped.air_loss.bytes,
            dropped: row.dropped.queue_full.bytes + row.dropped.aqm.bytes,
            outage: row.dropped.outage.bytes,
            queue_ms: row.queue_delay.as_secs_f64().min(1e6) * 1e3,
            is_out: row.dropped.outage.bytes > 0,
        });
    }
    series
}

/// What the links could have carried, which the emulator's rows do not say: the same cells once more, without packets.
fn add_capacity(plan: &Plan, seed: u64, series: &mut [LinkSeries]) -> Result<(), ChannelError> {
    let start = crate::run::origin();
    let steps = timeline(plan);
    for link in 0..plan.links.len() {
        let of_plan = plan.links[link].get_ref();
        let seed = crate::channels::seed_of(of_plan, seed);
        let mut channel: Channel<()> = Channel::new(of_plan, &plan.folder, seed, start)?;
        let mut steps = steps.iter().filter(|entry| entry.link.is_none_or(|of| of == link)).peekable();
        let mut before = [0; 2];
        let samples = series[link * 2].samples.len().max(series[link * 2 + 1].samples.len());
        for sample in 0..samples {
            let Some(at) = series[link * 2].samples.get(sample).map(|sample| sample.at_s) else { break };
            let now = start + Duration::from_secs_f64(at);
            while let Some(entry) = steps.next_if(|entry| start + entry.at <= now) {
                if let Step::Change(change) = &entry.step {
                    for (direction, change) in DIRECTIONS.into_iter().zip([&change.up, &change.down]) {
                        // What cannot be was refused when the plan was read.
                        let _ = change.as_ref().map(|change| channel.change(direction, start + entry.at, change));
                    }
                }
            }
            for direction in DIRECTIONS {
                let _ = channel.pop(direction, now);
                let path = channel.look(direction);
                let passed = path.stats().opportunities;
                let new = passed - std::mem::replace(&mut before[index(direction)], passed);
                let by_trace = (passed > 0).then(|| new as f64 * 12_000.0 / SERIES_STEP.as_secs_f64());
                if let Some(sample) = series[link * 2 + index(direction)].samples.get_mut(sample) {
                    sample.capacity_bps = path.rate().map(|rate| rate as f64).or(by_trace);
                }
            }
        }
    }
    Ok(())
}

/// A command of the program under test.
fn command(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    command.env("RUST_BACKTRACE", "1");
    command
}
