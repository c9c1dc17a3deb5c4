//! What a link will carry, found by playing it ahead, always full.

use std::time::{Duration, Instant};

use aquila_emu::{Direction, Loss, Packet, Queue};

use crate::channels::{Channel, change_path, seed_of};
use crate::plan::{OutageKind, Plan};
use crate::run::RunError;
use crate::timeline::{Step, timeline};

/// Bytes that leave the bottleneck of a plan's first link on its way up, from the start of the run.
#[derive(Debug)]
pub struct Curve {
    start: Instant,
    /// At the end of each [`STEP`]: bytes that the bottleneck has worked off, and those of them that got through.
    sums: Vec<(f64, f64)>,
}

/// Between two steps it is taken for constant. Opportunities of traces are at whole milliseconds.
const STEP: Duration = Duration::from_millis(1);
/// Kept waiting: what 1 Gbit/s carries within a step. A link without a limit has this one.
const STOCK: usize = 125_000;
/// The size of packets is the resolution; large ones for a link that carries much in a step.
const SMALL: usize = 125;
const LARGE: usize = 1500;
/// The run's last frames look beyond its end.
const BEYOND: Duration = Duration::from_secs(1);

impl Curve {
    /// Plays the link ahead, with the plan's actions.
    pub fn of(plan: &Plan, seed: u64, start: Instant) -> Result<Self, RunError> {
        let link = plan.links[0].get_ref();
        let mut channel: Channel<()> = Channel::new(link, &plan.folder, seed_of(link, seed), start)?;
        if matches!(channel, Channel::HalfDuplex(_)) {
            let message = "nobody knows ahead what a shared channel carries: it has no oracle".to_owned();
            return Err(RunError::Fault { link: link.name.get_ref().clone(), message });
        }
        let mut steps: std::collections::VecDeque<_> =
            timeline(plan).into_iter().filter(|entry| entry.link.is_none_or(|link| link == 0)).collect();
        let count = ((plan.duration() + BEYOND).as_nanos() / STEP.as_nanos()) as u32;
        let mut sums = vec![(0.0, 0.0)];
        let (mut deaf, mut served_before, mut carried) = (false, 0, 0.0);
        channel.path(Direction::Up, start, |path| {
            path.set_queue(start, Queue::bytes(4 * STOCK));
            for n in 0..count {
                let (from, to) = (start + STEP * n, start + STEP * (n + 1));
                while let Some(entry) = steps.pop_front_if(|entry| start + entry.at <= from) {
                    match entry.step {
                        // Deaf: what is in the queue is worked off, into the void.
                        Step::Begin(outage) if outage.packets == OutageKind::Drop => deaf = true,
                        Step::Begin(_) => path.begin_outage(from, aquila_emu::Outage::Hold),
                        Step::End(_) => {
                            deaf = false;
                            path.end_outage(from);
                        }
                        Step::Change(change) => {
                            if let Some(change) = &change.paths()[0] {
                                // What makes no sense is told by the run itself.
                                let _ = change_path(path, from, change);
                            }
                        }
                        Step::NewAddress | Step::Modem(_) => {}
                    }
                }
                path.set_loss(Loss::NONE);
                let last = sums.len().checked_sub(2).map_or(0.0, |last| sums[last + 1].0 - sums[last].0);
                let size = if last > 16_000.0 { LARGE } else { SMALL };
                for _ in 0..STOCK.saturating_sub(path.stats().queue_bytes).div_ceil(size) {
                    let _ = path.push_packet(from, Packet::new(size, ()));
                }
                while path.pop(to).is_some() {}
                let served = path.stats().served.bytes;
                carried += if deaf { 0.0 } else { (served - served_before) as f64 };
                served_before = served;
                sums.push((served as f64, carried));
            }
        });
        Ok(Self { start, sums })
    }

    /// Bytes that it works off from one instant to another if it has as many.
    pub fn worked(&self, from: Instant, to: Instant) -> f64 {
        (self.at(to).0 - self.at(from).0).max(0.0)
    }

    /// Bytes of those that get through.
    pub fn carried(&self, from: Instant, to: Instant) -> f64 {
        (self.at(to).1 - self.at(from).1).max(0.0)
    }

    fn at(&self, at: Instant) -> (f64, f64) {
        let steps = at.saturating_duration_since(self.start).as_secs_f64() / STEP.as_secs_f64();
        let Some(next) = self.sums.get(steps as usize + 1) else { return self.sums[self.sums.len() - 1] };
        let (before, share) = (self.sums[steps as usize], steps.fract());
        (before.0 + (next.0 - before.0) * share, before.1 + (next.1 - before.1) * share)
    }
}
