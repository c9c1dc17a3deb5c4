//! The links of a plan, made of the emulator's cells: the same for virtual time and live.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path as FilePath, PathBuf};
use std::time::{Duration, Instant};

use aquila_emu::synth::{self, Model};
use aquila_emu::trace::{AnyTrace, TraceError};
use aquila_emu::{
    BitErrors, CcqMode, CoDel, Delivered, Direction, Discipline, DropReason, GilbertElliott, HalfDuplex, Jitter,
    JitterShape, Loss, MarkAt, Marking, Outage, Packet, Path, PathConfig, PathStats, Payload, Queue, Samples,
};

use crate::fnv;
use crate::plan::{Bound, CcqPlan, LinkPlan, LossPlan, OutageKind, PathChange, PathPlan, QueuePlan};

/// Why a link of a plan cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// A trace cannot be opened.
    #[error("link {link}: cannot read the trace {}: {error}", path.display())]
    Open {
        /// Of which link.
        link: String,
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// A trace is not one.
    #[error("link {link}: {}: {error}", path.display())]
    Trace {
        /// Of which link.
        link: String,
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and in which line.
        error: TraceError,
    },
    /// Values that do not fit together.
    #[error("link {link}: {message}")]
    Value {
        /// Of which link.
        link: String,
        /// What.
        message: String,
    },
}

/// Both directions of a link, each on its own or sharing a channel.
#[derive(Debug)]
pub enum Channel<T> {
    /// Each direction on its own: up, down.
    Duplex(Box<[Path<T>; 2]>),
    /// One at a time.
    HalfDuplex(Box<HalfDuplex<T>>),
}

impl<T: Payload> Channel<T> {
    /// The link of a plan whose traces are looked for in `folder`, at time `start`. Equal seeds bring equal luck.
    ///
    /// # Errors
    /// If a trace cannot be used, with its line, or values do not fit together.
    pub fn new(plan: &LinkPlan, folder: &FilePath, seed: u64, start: Instant) -> Result<Self, ChannelError> {
        let name = plan.name.get_ref();
        let value = |message: String| ChannelError::Value { link: name.clone(), message };
        let [up, down] = plan.paths();
        let configs = [config(&up).map_err(value)?, config(&down).map_err(value)?];
        let mut channel = match plan.half_duplex {
            Some(turn_around) => {
                Self::HalfDuplex(Box::new(HalfDuplex::new(configs[0], configs[1], turn_around.get(), seed)))
            }
            None => Self::Duplex(Box::new([Path::new(configs[0], seed), Path::new(configs[1], !seed)])),
        };
        for (direction, path) in DIRECTIONS.into_iter().zip([up, down]) {
            channel.play(name, direction, &path, folder, start, seed)?;
        }
        Ok(channel)
    }

    /// Plays the trace, the handovers, the grants and the thinning of a direction.
    fn play(
        &mut self,
        name: &str,
        direction: Direction,
        plan: &PathPlan,
        folder: &FilePath,
        start: Instant,
        seed: u64,
    ) -> Result<(), ChannelError> {
        if let Some(handovers) = &plan.handovers {
            let handovers = crate::handovers::of_plan(handovers, seed ^ direction as u64);
            self.path(direction, start, |path| path.play_handovers(start, start, handovers));
        }
        if let Some(grants) = plan.grants {
            self.path(direction, start, |path| path.set_grants(start, start, grants.get()));
        }
        if let Some(every) = plan.thinned {
            self.path(direction, start, |path| path.set_thinned(start, every.get()));
        }
        let began = start.checked_sub(plan.trace_from.unwrap_or_default().get()).unwrap_or(start);
        if let Some(synth) = &plan.synth {
            // Names are checked with the plan. Each direction and each repeat is another link of the kind.
            let model = Model::by_name(&synth.model).unwrap_or_else(Model::lte);
            let source = synth::Trace::new(model, seed ^ index(direction) as u64, synth.length.get());
            let samples = Samples { source: Box::new(source), ccq: ccq_mode(plan.ccq) };
            self.path(direction, start, |path| path.play_samples(start, began, samples));
        }
        let Some(trace) = &plan.trace else { return Ok(()) };
        let file = folder.join(trace.get_ref());
        let open_error = |error| ChannelError::Open { link: name.to_owned(), path: file.clone(), error };
        let trace_error = |error| ChannelError::Trace { link: name.to_owned(), path: file.clone(), error };
        let reader = BufReader::with_capacity(1 << 16, File::open(&file).map_err(open_error)?);
        let trace = AnyTrace::open(reader).map_err(trace_error)?;
        let is_packets = matches!(trace, AnyTrace::Mahimahi(_));
        if is_packets && (plan.ccq.is_some() || matches!(self, Self::HalfDuplex(_))) {
            let message = "a trace of packet opportunities has no CCQ and cannot share a channel".to_owned();
            return Err(ChannelError::Value { link: name.to_owned(), message });
        }
        self.path(direction, start, |path| trace.play(path, start, began, ccq_mode(plan.ccq)));
        Ok(())
    }

    /// Puts a packet on the link.
    ///
    /// # Errors
    /// Why it was dropped at once.
    pub fn push(&mut self, direction: Direction, now: Instant, packet: Packet<T>) -> Result<(), DropReason> {
        match self {
            Self::Duplex(paths) => paths[index(direction)].push_packet(now, packet),
            Self::HalfDuplex(both) => both.push(direction, now, packet),
        }
    }

    /// The next packet of a direction that is due.
    pub fn pop(&mut self, direction: Direction, now: Instant) -> Option<Delivered<T>> {
        match self {
            Self::Duplex(paths) => paths[index(direction)].pop_packet(now),
            Self::HalfDuplex(both) => both.pop(direction, now),
        }
    }

    /// When to pop next.
    pub fn next_deadline(&self) -> Option<Instant> {
        match self {
            Self::Duplex(paths) => paths.iter().filter_map(Path::next_delivery).min(),
            Self::HalfDuplex(both) => both.next_deadline(),
        }
    }

    /// Changes a direction.
    pub fn path(&mut self, direction: Direction, now: Instant, change: impl FnOnce(&mut Path<T>)) {
        match self {
            Self::Duplex(paths) => change(&mut paths[index(direction)]),
            Self::HalfDuplex(both) => {
                both.change(now, |up, down| change(if direction == Direction::Up { up } else { down }))
            }
        }
    }

    /// A direction, to look at.
    pub fn look(&self, direction: Direction) -> &Path<T> {
        match self {
            Self::Duplex(paths) => &paths[index(direction)],
            Self::HalfDuplex(both) => both.path(direction),
        }
    }

    /// Counts of a direction.
    pub fn stats(&self, direction: Direction) -> PathStats {
        self.look(direction).stats()
    }

    /// An outage of both directions begins.
    pub fn begin_outage(&mut self, now: Instant, kind: OutageKind) {
        let outage = match kind {
            OutageKind::Drop => Outage::Drop,
            OutageKind::Hold => Outage::Hold,
        };
        for direction in DIRECTIONS {
            self.path(direction, now, |path| path.begin_outage(now, outage));
        }
    }

    /// It ends.
    pub fn end_outage(&mut self, now: Instant) {
        for direction in DIRECTIONS {
            self.path(direction, now, |path| path.end_outage(now));
        }
    }

    /// What the plan says changes in a direction.
    ///
    /// # Errors
    /// If a loss makes no sense.
    pub fn change(&mut self, direction: Direction, now: Instant, change: &PathChange) -> Result<(), String> {
        let mut changed = Ok(());
        self.path(direction, now, |path| changed = change_path(path, now, change));
        changed
    }
}

/// What the plan says changes in a direction.
///
/// # Errors
/// If a loss makes no sense.
pub fn change_path<T: Payload>(path: &mut Path<T>, now: Instant, change: &PathChange) -> Result<(), String> {
    let loss = change.loss.map(loss).transpose()?;
    if let Some(rate) = change.rate {
        path.set_rate(now, Some(rate.bps()));
    }
    if let Some(delay) = change.delay {
        path.set_delay(now, delay.get());
    }
    if let Some(loss) = loss {
        path.set_loss(loss);
    }
    Ok(())
}

/// The seed of a link in a run with this seed: links differ, contenders meet the same.
pub fn seed_of(link: &LinkPlan, seed: u64) -> u64 {
    seed ^ fnv::of(link.name.get_ref())
}

/// Both directions: from the first node, and to it.
pub const DIRECTIONS: [Direction; 2] = [Direction::Up, Direction::Down];

/// Number of a direction in lists: up, down.
pub fn index(direction: Direction) -> usize {
    match direction {
        Direction::Up => 0,
        Direction::Down => 1,
    }
}

fn config(plan: &PathPlan) -> Result<PathConfig, String> {
    let jitter = plan
        .jitter
        .map(|jitter| Jitter { shape: JitterShape::Uniform { max: jitter.up_to.get() }, reorder: jitter.reorder });
    Ok(PathConfig {
        rate_bps: plan.rate.map(|rate| rate.bps()),
        delay: plan.delay.get(),
        jitter: jitter.unwrap_or_default(),
        queue: plan.queue.as_ref().map(queue).transpose()?.unwrap_or_default(),
        loss: plan.loss.map(loss).transpose()?.unwrap_or_default(),
        air_loss: plan.air_loss.map(loss).transpose()?.unwrap_or_default(),
        bit_errors: BitErrors { rate: plan.bit_errors.unwrap_or_default().get(), spared_bytes: 0 },
    })
}

fn queue(plan: &QueuePlan) -> Result<Queue, String> {
    let queue = match plan.bound()? {
        Bound::Bytes(bytes) => Queue::bytes(bytes),
        Bound::Packets(packets) => Queue::packets(packets),
        Bound::Time(time) => Queue::time(time.get()),
    };
    Ok(match (plan.codel, plan.mark_after) {
        (true, _) => queue.with(Discipline::CoDel(CoDel::default())),
        (false, Some(after)) => {
            queue.with(Discipline::Mark(Marking { at: MarkAt::Sojourn(after.get()), drop_not_capable: false }))
        }
        (false, None) => queue,
    })
}

fn loss(plan: LossPlan) -> Result<Loss, String> {
    match plan {
        LossPlan::Independent(share) => Ok(Loss::Independent(share.get())),
        LossPlan::Bursts(bursts) => GilbertElliott::from_mean(bursts.mean.get(), bursts.burst)
            .map(Loss::GilbertElliott)
            .map_err(|error| error.to_string()),
    }
}

fn ccq_mode(plan: Option<CcqPlan>) -> CcqMode {
    match plan {
        None => CcqMode::default(),
        Some(CcqPlan::Loss(error_factor)) => CcqMode::Loss { error_factor },
        Some(CcqPlan::MacArq(retries)) => CcqMode::MacArq { retries },
    }
}

/// Spaces samples of a run: the state of links is noted this often.
pub const SERIES_STEP: Duration = Duration::from_millis(100);
