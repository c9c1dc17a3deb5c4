//! A plan in real time: the product's own binary, sockets of the kernel, or programs of the user's, in network namespaces
//! over the emulator.

mod apps;
mod aquila;
mod camera;
mod conduct;
mod copies;
mod log;
mod mptcp;
mod programs;
mod sender;
mod sockets;
mod stream;
mod tls;
mod watch;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crate::channels::{Channel, ChannelError, DIRECTIONS, SERIES_STEP, index};
use crate::live::{Addresses, Cells, IpPacket, LinkId, LinkSpec, NodeId, Sandbox, Verdict, World, WorldError};
use crate::plan::{ContenderKind, ContenderPlan, Mode, Plan, TrafficKind};
use crate::record::{Event, LinkSeries, Run};
use crate::report::pcapng::SNAP_LENGTH;
use crate::run::camera::FrameEncoder;
use crate::timeline::{Step, timeline};
use apps::Apps;
use aquila::Aquila;
pub use log::FlowNow;
use watch::{Capture, Watch};
pub use watch::{Now, OnLooker};

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

/// Where things are, and who wants to know.
pub struct Places<'a> {
    /// The program under test.
    pub binary: PathBuf,
    /// Logs and keys of each run go below it.
    pub folder: PathBuf,
    /// Told how a run stands, four times a second.
    pub onlooker: Option<OnLooker<'a>>,
}

impl std::fmt::Debug for Places<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Places").field("binary", &self.binary).field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// The namespaces of a run and what is between them.
struct Topology {
    world: World,
    nodes: [NodeId; 2],
    links: Vec<LinkId>,
}

/// The program under test is given this long to be ready before the clock starts.
const READY: Duration = Duration::from_millis(1_500);
/// After the end of the run what is under way may still arrive.
const LINGER: Duration = Duration::from_millis(500);

/// Whether a contender runs live as the plan has it, and if not, why.
///
/// # Errors
/// The reason.
pub fn is_possible(plan: &Plan, contender: &ContenderPlan) -> Result<(), &'static str> {
    let sends = |kind: fn(&TrafficKind) -> bool| plan.traffic().iter().any(|t| t.kind().is_ok_and(|of| kind(&of)));
    let video_to_air = plan
        .traffic()
        .iter()
        .any(|traffic| matches!(traffic.kind(), Ok(TrafficKind::Video(_))) && *traffic.from.get_ref() != plan.nodes[0]);
    match contender.kind {
        _ if !contender.beside.is_empty() => Err("it has company on its links, which is there in virtual time only"),
        _ if contender.bulk => Err("it sends a file without end, in virtual time only"),
        ContenderKind::Aquila if contender.oracle().is_some() => {
            Err("nobody knows a link ahead of time when it is live")
        }
        ContenderKind::Aquila if plan.clocks.is_some() => Err("both ends have this machine's clock when it is live"),
        ContenderKind::Aquila if video_to_air => Err("its video goes from the first node to the second only"),
        ContenderKind::Programs if sends(|kind| !matches!(kind, TrafficKind::Datagrams(_))) => {
            Err("programs carry nothing but their own: the plan's traffic may be datagrams only")
        }
        ContenderKind::Mptcp | ContenderKind::MptcpBbr if !mptcp::is_there() => {
            Err("this kernel has no MPTCP, or it is off (net.mptcp.enabled)")
        }
        ContenderKind::MptcpBbr | ContenderKind::TcpBbr if !stream::has_congestion("bbr") => {
            Err("this kernel has no BBR (tcp_bbr)")
        }
        _ => Ok(()),
    }
}

/// Runs a contender once, in as much time as the plan says; `encoder`: another one behind the first camera of the first node.
///
/// # Errors
/// [`LiveRunError`]; a run on a machine that was too slow, or whose programs failed, is none, but marked as not counting.
pub fn run(
    plan: &Plan,
    contender: &ContenderPlan,
    seed: u64,
    sandbox: &Sandbox,
    places: &Places<'_>,
    interrupted: &AtomicBool,
    mut encoder: Option<&mut (dyn FrameEncoder + Send)>,
) -> Result<Run, LiveRunError> {
    let wrong = |message: String| LiveRunError::Contender { name: contender.name().to_owned(), message };
    is_possible(plan, contender).map_err(|reason| wrong(reason.to_owned()))?;
    let folder = places.folder.join(format!("{}-{seed}", contender.name()));
    std::fs::create_dir_all(&folder).map_err(|error| wrong(format!("{}: {error}", folder.display())))?;
    let wanted = plan.capture.as_ref().filter(|wanted| wanted.seed == seed);
    let capture = wanted.map(|wanted| Capture::new(plan, &wanted.directory, contender.name(), seed));
    let capture = capture.transpose().map_err(wrong)?;
    let topology = build(plan, seed, sandbox, capture.is_some())?;
    let Topology { world, nodes, links } = &topology;
    let mut aquila = None;
    if contender.kind == ContenderKind::Aquila {
        let kind = encoder.as_ref().map(|encoder| encoder.kind().unwrap_or_default());
        let known = kind.zip(plan.video_from_first()).map(|(kind, (_, video))| (kind, video));
        aquila = Some(Aquila::start(world, *nodes, links, contender, places, &folder, known).map_err(wrong)?);
    }
    let mut apps = Apps::new(plan, contender, &topology, seed, &folder, encoder.is_some())
        .map_err(|error| wrong(error.to_string()))?;
    let hooks = programs::hooks(plan, contender.name(), &topology, &folder, plan.duration() + LINGER);
    let (records, log) = (world.take_records(), apps.log().clone());
    let watch = Watch::new(plan, links, capture);
    let start_of_watch = watch.start();
    std::thread::sleep(READY);

    let (stop, steps) = (AtomicBool::new(false), timeline(plan));
    let (mut events, mut returns) = (Vec::new(), Vec::new());
    let mut set_up_error = None;
    let (over, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let (report, series, capture_fault, deed_faults) = std::thread::scope(|scope| {
        let done = apps.done();
        scope.spawn(|| wait_for_the_end(plan, done, interrupted, &ended, &over));
        let watching = scope.spawn(|| watch.run(records, &log, places.onlooker, &stop));
        let mut deeds = None;
        let report = hooks.run(world, &over, |start| {
            *start_of_watch.lock().unwrap_or_else(PoisonError::into_inner) = Some(start);
            // Cells as at the start: set-up has used the links.
            for (number, link) in links.iter().enumerate() {
                match cells(plan, number, seed, start) {
                    Ok(cells) => world.replace(*link, start, cells)?,
                    Err(error) => set_up_error = Some(LiveRunError::Channel(error)),
                }
            }
            world.reset_health()?;
            let (ends, deeds_of_run) = conduct::schedule(plan, contender, &topology, &steps, start, &mut events)?;
            returns = ends.iter().map(|at| *at - start).collect();
            apps.start(&topology, start).map_err(WorldError::Thread)?;
            if let Some((shooting, encoder)) = apps.take_shooting().zip(encoder.take()) {
                let stop = &stop;
                scope.spawn(move || shooting.run(encoder, start, stop));
            }
            let (topology, apps, aquila, stop) = (&topology, &apps, aquila.as_ref(), &stop);
            deeds = Some(scope.spawn(move || deeds_of_run.run(topology, apps, aquila, stop)));
            Ok(())
        });
        ended.store(true, Ordering::Relaxed);
        let health = world.health();
        stop.store(true, Ordering::Relaxed);
        let deed_faults = deeds.map(|deeds| deeds.join().expect("no panic in deeds")).unwrap_or_default();
        let (series, capture_fault) = watching.join().expect("no panic in watching");
        (report.and_then(|report| Ok((report, health?))), series, capture_fault, deed_faults)
    });
    if let Some(error) = set_up_error {
        return Err(error);
    }
    let (report, health) = report?;
    let flows = apps.finish();
    let mut faults: Vec<String> = report.faults().map(str::to_owned).collect();
    faults.extend(deed_faults);
    faults.extend(aquila.map(Aquila::stop).unwrap_or_default());
    faults.extend(capture_fault);
    if let Verdict::Invalid(reasons) = &health.verdict {
        faults.extend(reasons.iter().cloned());
    }
    let lasted = report.start.map(|start| report.end.saturating_duration_since(start)).unwrap_or_default();
    let at_end = plan.duration().min(lasted).as_secs_f64();
    events.retain(|event| event.at_s <= at_end);
    let text = format!("the emulator: {health}");
    events.push(Event { at_s: at_end, place: String::new(), text });
    faults.extend(world.event_faults().iter().map(ToString::to_string));
    let (programs, endings) = programs::outcome(&topology, &report);
    events.extend(endings);
    events.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    drop(topology);
    let mut links = series;
    add_capacity(plan, seed, &mut links)?;
    Ok(Run {
        contender: contender.name().to_owned(),
        mode: Mode::Live,
        seed,
        seconds: at_end,
        flows,
        links,
        events,
        programs,
        returns,
        log_hash: String::new(),
        invalid: (!faults.is_empty()).then(|| faults.join("; ")),
    })
}

/// Until the run has ended, says that it is over when nothing is sent any more, or somebody has interrupted it.
fn wait_for_the_end(
    plan: &Plan,
    done: [Arc<AtomicBool>; 2],
    interrupted: &AtomicBool,
    ended: &AtomicBool,
    over: &AtomicBool,
) {
    let is_loop =
        |traffic: &&crate::plan::TrafficPlan| traffic.commands.is_some_and(|commands| commands.after.is_some());
    let may_end = plan.traffic().iter().any(is_loop) && !plan.has_programs();
    let mut done_at = None;
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(sockets::PATIENCE);
        if may_end && done.iter().all(|done| done.load(Ordering::Relaxed)) {
            done_at.get_or_insert_with(Instant::now);
        }
        let is_done = done_at.is_some_and(|at: Instant| at.elapsed() >= plan.cool_down.get() + LINGER);
        if is_done || interrupted.load(Ordering::Relaxed) {
            over.store(true, Ordering::Relaxed);
        }
    }
}

fn build(plan: &Plan, seed: u64, sandbox: &Sandbox, captures: bool) -> Result<Topology, LiveRunError> {
    let mut builder = sandbox.world();
    let [a, b] = [0, 1].map(|node| builder.node(plan.nodes[node].clone()));
    builder.record(captures.then_some(SNAP_LENGTH));
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
    Ok(Topology { world: builder.build()?, nodes: [a, b], links })
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

/// Looks at a link's rate within a row.
const PARTS: u32 = 10;

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
        let rows = series[link * 2].samples.len().min(series[link * 2 + 1].samples.len());
        let mut begin = 0.0;
        for row in 0..rows {
            let end = series[link * 2].samples[row].at_s;
            let mut sums = [Some(0.0); 2];
            // Rows of a live run begin at any time, so that a rate may change within one.
            for part in 0..PARTS {
                let at = begin + (end - begin) * (f64::from(part) + 0.5) / f64::from(PARTS);
                let now = start + Duration::from_secs_f64(at);
                while let Some(entry) = steps.next_if(|entry| start + entry.at <= now) {
                    if let Step::Change(change) = &entry.step {
                        for (direction, change) in DIRECTIONS.into_iter().zip(change.paths()) {
                            // What cannot be was refused when the plan was read.
                            let _ = change.as_ref().map(|change| channel.change(direction, start + entry.at, change));
                        }
                    }
                }
                for direction in DIRECTIONS {
                    let _ = channel.pop(direction, now);
                    let rate = channel.look(direction).rate().map(|rate| rate as f64 / f64::from(PARTS));
                    let sum = &mut sums[index(direction)];
                    *sum = sum.zip(rate).map(|(sum, rate)| sum + rate);
                }
            }
            for direction in DIRECTIONS {
                let passed = channel.look(direction).stats().opportunities;
                let new = passed - std::mem::replace(&mut before[index(direction)], passed);
                let by_trace = (passed > 0).then(|| new as f64 * 12_000.0 / SERIES_STEP.as_secs_f64());
                series[link * 2 + index(direction)].samples[row].capacity_bps = sums[index(direction)].or(by_trace);
            }
            begin = end;
        }
    }
    Ok(())
}
