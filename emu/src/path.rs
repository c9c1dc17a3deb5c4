//! One direction of a link.

use std::time::{Duration, Instant};

use thiserror::Error;

use crate::cell::{Bottleneck, DelayLine, Loss, Served};

/// A packet and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<T> {
    /// Bytes on the wire, IP and UDP headers included.
    pub bytes: usize,
    /// What the user of the emulator gets back at the other end.
    pub payload: T,
}

/// What a [`Path`] is like at the start. All but the queue can be changed while it runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathConfig {
    /// Bottleneck rate in bits per second. `None`: packets take no time to serialise. Zero: none ever leaves.
    pub rate_bps: Option<u64>,
    /// Propagation delay, one way.
    pub delay: Duration,
    /// Bytes that may wait behind the packet in service; what does not fit is dropped on arrival (drop-tail). The packet in service
    /// does not count.
    pub queue_bytes: usize,
    /// Probability, 0 to 1, that a packet is lost before it reaches the bottleneck, independently of all others. Values outside are
    /// clamped.
    pub loss: f64,
}

impl Default for PathConfig {
    /// A wire: no limit of rate, no delay, no loss, 60 kB of queue should a rate be set later.
    fn default() -> Self {
        Self { rate_bps: None, delay: Duration::ZERO, queue_bytes: 60_000, loss: 0.0 }
    }
}

/// Why a packet will not come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum DropReason {
    /// Random loss.
    #[error("lost at random")]
    Loss,
    /// The queue had no room for it.
    #[error("the queue was full")]
    QueueFull,
    /// It arrived, or was in service, in an [`Outage::Drop`].
    #[error("the link was out")]
    Outage,
}

/// What an outage does to packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outage {
    /// Nobody is listening. What arrives is lost, and so is what is in service or comes into service; the server goes on sending its
    /// queue into the void. What still waits when the outage ends survives.
    Drop,
    /// The server pauses and the queue fills, as in an LTE handover. The packet in service keeps the bits it has already sent.
    Hold,
}

/// A number of packets and their bytes on the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

impl Tally {
    fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }

    fn remove(&mut self, bytes: usize) {
        self.packets -= 1;
        self.bytes -= bytes as u64;
    }
}

/// Packets dropped, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// See [`DropReason::Loss`].
    pub loss: Tally,
    /// See [`DropReason::QueueFull`].
    pub queue_full: Tally,
    /// See [`DropReason::Outage`].
    pub outage: Tally,
}

impl Dropped {
    /// All reasons together.
    pub fn total(&self) -> Tally {
        let all = [self.loss, self.queue_full, self.outage];
        Tally { packets: all.iter().map(|t| t.packets).sum(), bytes: all.iter().map(|t| t.bytes).sum() }
    }

    fn add(&mut self, reason: DropReason, bytes: usize) {
        match reason {
            DropReason::Loss => self.loss.add(bytes),
            DropReason::QueueFull => self.queue_full.add(bytes),
            DropReason::Outage => self.outage.add(bytes),
        }
    }
}

/// Counts since the path was made. At any time `input` = `output` + `dropped.total()` + `queued`, in packets and in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PathStats {
    /// Packets pushed, whatever became of them.
    pub input: Tally,
    /// Packets popped.
    pub output: Tally,
    /// Packets that will not come out.
    pub dropped: Dropped,
    /// Packets inside: waiting, in service, propagating, or due and not popped.
    pub queued: Tally,
    /// Of these, bytes that wait for service and count against [`PathConfig::queue_bytes`].
    pub queue_bytes: usize,
}

/// One direction of a link: random loss, then a bottleneck with a drop-tail queue, then propagation delay. Never reorders.
///
/// Calls pass a time that must not go backwards; an earlier one is taken as the latest seen. Between two calls the path catches up
/// exactly, so it need not be called at any particular moment; after [`Path::next_delivery`] call [`Path::pop`] until `None`.
#[derive(Debug)]
pub struct Path<T> {
    loss: Loss,
    bottleneck: Bottleneck<T>,
    line: DelayLine<Packet<T>>,
    outage: Option<Outage>,
    latest: Option<Instant>,
    stats: PathStats,
}

impl<T> Path<T> {
    /// A path on which all randomness follows from `seed`: the same seed, calls and times give the same outcome on every machine.
    pub fn new(config: PathConfig, seed: u64) -> Self {
        Self {
            loss: Loss::new(config.loss, seed),
            bottleneck: Bottleneck::new(config.rate_bps, config.queue_bytes),
            line: DelayLine::new(config.delay),
            outage: None,
            latest: None,
            stats: PathStats::default(),
        }
    }

    /// Puts a packet of `wire_bytes` (IP and UDP headers included) on the path.
    ///
    /// # Errors
    ///
    /// The reason when it is dropped at once. A packet that was accepted can still be lost in an [`Outage::Drop`]; that is counted in
    /// [`Path::stats`] only, as in the real world.
    pub fn push(&mut self, now: Instant, wire_bytes: usize, payload: T) -> Result<(), DropReason> {
        let now = self.advance(now);
        self.stats.input.add(wire_bytes);
        let unlucky = self.loss.is_next_lost();
        let fate = if self.outage == Some(Outage::Drop) {
            Err(DropReason::Outage)
        } else if unlucky {
            Err(DropReason::Loss)
        } else {
            self.bottleneck.push(now, Packet { bytes: wire_bytes, payload }).map_err(|_| DropReason::QueueFull)
        };
        match fate {
            Ok(()) => self.stats.queued.add(wire_bytes),
            Err(reason) => self.stats.dropped.add(reason, wire_bytes),
        }
        self.stats.queue_bytes = self.bottleneck.waiting_bytes();
        // Without a rate it has left already.
        self.advance(now);
        fate
    }

    /// The next packet whose delivery time is not after `now`, in the order in which they were pushed.
    pub fn pop(&mut self, now: Instant) -> Option<T> {
        let now = self.advance(now);
        let packet = self.line.pop(now)?;
        self.stats.queued.remove(packet.bytes);
        self.stats.output.add(packet.bytes);
        Some(packet.payload)
    }

    /// When [`Path::pop`] will next give a packet if nothing is pushed or changed until then.
    ///
    /// `None`: nothing is inside, or what is inside waits for an outage to end or for a rate.
    pub fn next_delivery(&self) -> Option<Instant> {
        self.line.next_due().or_else(|| self.bottleneck.next_sent().map(|sent| self.line.due_if_entering(sent)))
    }

    /// Changes the bottleneck's rate (bits per second), in mid-packet if need be: bits already sent stay sent.
    pub fn set_rate(&mut self, now: Instant, rate_bps: Option<u64>) {
        let now = self.advance(now);
        self.bottleneck.set_rate(rate_bps);
        self.advance(now);
    }

    /// Changes the propagation delay for packets that leave the bottleneck from now on. Lowering it does not reorder: a packet that
    /// would overtake arrives together with the one ahead.
    pub fn set_delay(&mut self, now: Instant, delay: Duration) {
        self.advance(now);
        self.line.set_delay(delay);
    }

    /// Changes the probability of random loss, 0 to 1 (clamped), for packets pushed from now on.
    pub fn set_loss(&mut self, probability: f64) {
        self.loss.set_probability(probability);
    }

    /// Starts an outage, or changes its kind. What has left the bottleneck already still arrives.
    pub fn begin_outage(&mut self, now: Instant, outage: Outage) {
        self.advance(now);
        self.outage = Some(outage);
        self.bottleneck.set_outage(outage == Outage::Hold, outage == Outage::Drop);
    }

    /// Ends the outage, if there is one.
    pub fn end_outage(&mut self, now: Instant) {
        let now = self.advance(now);
        self.outage = None;
        self.bottleneck.set_outage(false, false);
        self.advance(now);
    }

    /// Counts as of the last call that passed a time.
    pub fn stats(&self) -> PathStats {
        self.stats
    }

    /// How long a packet pushed at `now` would wait before its own serialisation starts, if the rate stays as it is and an
    /// [`Outage::Hold`] ends now. [`Duration::MAX`] when the rate is zero.
    pub fn queue_delay(&self, now: Instant) -> Duration {
        self.bottleneck.queue_delay(now)
    }

    /// The bottleneck's rate in bits per second; `None` when there is no limit.
    pub fn rate(&self) -> Option<u64> {
        self.bottleneck.rate_bps()
    }

    /// The propagation delay for packets that leave the bottleneck now.
    pub fn delay(&self) -> Duration {
        self.line.delay()
    }

    /// The outage that is going on.
    pub fn outage(&self) -> Option<Outage> {
        self.outage
    }

    /// Catches up with `now` and returns the later of `now` and the latest time seen.
    fn advance(&mut self, now: Instant) -> Instant {
        let now = self.latest.map_or(now, |latest| latest.max(now));
        self.latest = Some(now);
        while let Some(served) = self.bottleneck.serve(now) {
            match served {
                Served::Sent(at, packet) => self.line.push(at, packet),
                Served::Lost(packet) => {
                    self.stats.queued.remove(packet.bytes);
                    self.stats.dropped.add(DropReason::Outage, packet.bytes);
                }
            }
        }
        self.stats.queue_bytes = self.bottleneck.waiting_bytes();
        now
    }
}

#[cfg(test)]
#[path = "path/tests.rs"]
pub(crate) mod tests;
