//! One direction of a link.
//!
//! A packet meets the cells in this order, which is that of a modem's link; each has its exact semantics in its own
//! file:
//!
//! 1. **outage**: nobody is listening, and what arrives is lost ([`Outage::Drop`]);
//! 2. **loss** in front of the queue ([`PathConfig::loss`]), which costs the link nothing;
//! 3. **queue**: its bound, ECN marking, CoDel ([`Queue`](crate::Queue));
//! 4. **server**: a rate, a trace of opportunities, or samples; one packet at a time, paused in an [`Outage::Hold`];
//! 5. **loss on the air** ([`PathConfig::air_loss`]), of packets that have taken their time on the link;
//! 6. **thinning** ([`Path::set_thinned`]): of what arrives within a time only the first does;
//! 7. **delay** with shifts and jitter, in order or not, and grants;
//! 7. **bit errors**, when a packet is handed out.
//!
//! The order is fixed, because no link has another one and what is not used costs nothing; the one place where links
//! differ, whether loss comes before or behind the queue, is two cells. Several hops are several paths, one pushed from
//! the other. Two directions that share one channel are a [`HalfDuplex`](crate::HalfDuplex).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::cell::bit_errors::{BitErrorCell, BitErrors};
use crate::cell::delay::DelayLine;
use crate::cell::handovers::{HandoverChange, HandoverPlayer, Handovers};
use crate::cell::jitter::{Jitter, JitterCell};
use crate::cell::loss::{Loss, LossCell};
use crate::cell::opportunities::{Opportunities, Timetable};
use crate::cell::queue::{Buffer, Queue};
use crate::cell::samples::{SamplePlayer, Samples};
use crate::cell::server::{Pace, Served, Server};
use crate::luck::Purpose;
use crate::packet::{Delivered, Item, Packet, Payload};
use crate::stats::{DropEvent, DropReason, PathStats};
use crate::trace::TraceError;

/// What a [`Path`] is like at the start. All of it can be changed while it runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathConfig {
    /// Bottleneck rate in bits per second. `None`: packets take no time to serialise. Zero: none ever leaves.
    pub rate_bps: Option<u64>,
    /// Propagation delay, one way.
    pub delay: Duration,
    /// What is added to it, packet by packet.
    pub jitter: Jitter,
    /// What may wait for the bottleneck.
    pub queue: Queue,
    /// Random loss in front of the queue.
    pub loss: Loss,
    /// Random loss behind the bottleneck.
    pub air_loss: Loss,
    /// Bits flipped in what is delivered.
    pub bit_errors: BitErrors,
}

impl Default for PathConfig {
    /// A wire: no limit of rate, no delay, no loss, 60 kB of queue should a rate be set later.
    fn default() -> Self {
        Self {
            rate_bps: None,
            delay: Duration::ZERO,
            jitter: Jitter::default(),
            queue: Queue::default(),
            loss: Loss::NONE,
            air_loss: Loss::NONE,
            bit_errors: BitErrors::default(),
        }
    }
}

/// What an outage does to packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outage {
    /// Nobody is listening. What arrives is lost, and so is what is in service or comes into service; the server goes
    /// on sending its queue into the void. What still waits when the outage ends survives.
    Drop,
    /// The server pauses and the queue fills, as in an LTE handover. The packet in service keeps the bits it has
    /// already sent; opportunities of a trace pass unused.
    Hold,
}

/// One direction of a link; the module's text has its parts.
///
/// Calls pass a time that must not go backwards; an earlier one is taken as the latest seen. Between two calls the path
/// catches up exactly, so it need not be called at any particular moment; after [`Path::next_delivery`] call
/// [`Path::pop`] until `None`.
#[derive(Debug)]
pub struct Path<T> {
    loss: LossCell,
    queue: Buffer<T>,
    server: Server<T>,
    air_loss: LossCell,
    /// After one has passed none does for this long; and when the last one has.
    thinned: Option<(Duration, Option<Instant>)>,
    jitter: JitterCell,
    line: DelayLine<Item<T>>,
    bit_errors: BitErrorCell,
    outage: Option<Outage>,
    samples: Option<SamplePlayer>,
    handovers: Option<HandoverPlayer>,
    latest: Option<Instant>,
    /// One more than the largest number that came out.
    newest_out: u64,
    drops: Option<VecDeque<DropEvent<T>>>,
    stats: PathStats,
}

impl<T: Payload> Path<T> {
    /// A path on which all randomness follows from `seed`: the same seed, calls and times give the same outcome on
    /// every machine.
    pub fn new(config: PathConfig, seed: u64) -> Self {
        Self {
            loss: LossCell::new(config.loss, seed, Purpose::Loss, Purpose::LossState),
            queue: Buffer::new(config.queue),
            server: Server::new(config.rate_bps),
            air_loss: LossCell::new(config.air_loss, seed, Purpose::AirLoss, Purpose::AirLossState),
            thinned: None,
            jitter: JitterCell::new(config.jitter, seed),
            line: DelayLine::new(config.delay),
            bit_errors: BitErrorCell::new(config.bit_errors, seed),
            outage: None,
            samples: None,
            handovers: None,
            latest: None,
            newest_out: 0,
            drops: None,
            stats: PathStats::default(),
        }
    }

    /// Puts a packet of `wire_bytes` (IP and UDP headers included) on the path, not ECN-capable.
    ///
    /// # Errors
    ///
    /// The reason when it is dropped at once. A packet that was accepted can still be lost later; that is counted in
    /// [`Path::stats`] and told by [`Path::pop_drop`] only, as in the real world.
    pub fn push(&mut self, now: Instant, wire_bytes: usize, payload: T) -> Result<(), DropReason> {
        self.push_packet(now, Packet::new(wire_bytes, payload))
    }

    /// Puts a packet on the path.
    ///
    /// # Errors
    ///
    /// As [`Path::push`].
    pub fn push_packet(&mut self, now: Instant, packet: Packet<T>) -> Result<(), DropReason> {
        let now = self.advance(now);
        let bytes = packet.bytes;
        let item = Item { packet, number: self.stats.input.packets, pushed: now };
        self.stats.input.add(bytes);
        let fate = if self.outage == Some(Outage::Drop) {
            Err((DropReason::Outage, item))
        } else if self.loss.is_lost(item.number) {
            Err((DropReason::Loss, item))
        } else {
            self.server.push(now, item, &mut self.queue)
        };
        self.stats.queued.add(bytes);
        let fate = fate.map_err(|(reason, item)| {
            self.drop_item(now, item, reason);
            reason
        });
        // Without a rate it has left already.
        self.advance(now);
        fate
    }

    /// The next packet that is due at `now`: in the order in which they were pushed, unless jitter reorders.
    pub fn pop(&mut self, now: Instant) -> Option<T> {
        self.pop_packet(now).map(|delivered| delivered.packet.payload)
    }

    /// As [`Path::pop`], with all there is to know of the packet.
    pub fn pop_packet(&mut self, now: Instant) -> Option<Delivered<T>> {
        let now = self.advance(now);
        let (due, item) = self.line.pop(now)?;
        let Item { mut packet, number, pushed } = item;
        self.stats.queued.remove(packet.bytes);
        self.stats.output.add(packet.bytes);
        if number < self.newest_out {
            self.stats.reordered += 1;
        }
        self.newest_out = self.newest_out.max(number + 1);
        let flips = self.bit_errors.hit(number, packet.bytes, packet.payload.bytes_mut());
        if flips.payload + flips.headers > 0 {
            self.stats.corrupted.add(packet.bytes);
            self.stats.flipped_bits += u64::from(flips.payload) + u64::from(flips.headers);
        }
        Some(Delivered { packet, number, pushed, due, flipped_bits: flips.payload, flipped_header_bits: flips.headers })
    }

    /// When to call [`Path::pop`] next, if nothing is pushed or changed until then. No packet comes out before.
    ///
    /// At a rate, without queue management, loss on the air and jitter a packet does come out then. Else it may turn
    /// out that none does: samples changed, an opportunity was too small, the packet was dropped. Then this gives a
    /// later time.
    ///
    /// `None`: nothing is inside, or what is inside waits for a call that ends an outage or sets a rate.
    pub fn next_delivery(&self) -> Option<Instant> {
        let flying = self.line.next_due();
        let reorders = self.jitter.reorders();
        if flying.is_some() && !reorders {
            return flying;
        }
        let sent = self.server.next_sent(&self.queue);
        let sent = sent.map(|at| if reorders { at } else { self.line.due_if_entering(at, Duration::ZERO) });
        let change = self.next_change().filter(|_| self.is_waiting());
        [flying, sent, change].into_iter().flatten().min()
    }

    /// Changes the bottleneck's rate (bits per second), in mid-packet if need be: bits already sent stay sent. Ends a
    /// trace of opportunities; samples change it again with the next one.
    pub fn set_rate(&mut self, now: Instant, rate_bps: Option<u64>) {
        let now = self.advance(now);
        self.server.set_pace(now, Pace::Rate(rate_bps), &mut self.queue);
        self.advance(now);
    }

    /// Changes the propagation delay for packets that leave the bottleneck from now on. Lowering it does not reorder,
    /// unless jitter may: a packet that would overtake arrives together with the one ahead.
    pub fn set_delay(&mut self, now: Instant, delay: Duration) {
        self.advance(now);
        self.line.set_delay(delay);
    }

    /// Packets that leave the bottleneck from now on arrive only at `start` and at whole multiples of `every` after it: what
    /// is due in between arrives together at the next one. A time of 0 ends that.
    pub fn set_grants(&mut self, now: Instant, start: Instant, every: Duration) {
        self.advance(now);
        self.line.set_grants(start, every);
    }

    /// Of the packets that leave the bottleneck from now on one passes, and none within such a time behind it, as where acknowledgements are
    /// thinned out that cannot be told from other packets. A time of 0 ends that.
    pub fn set_thinned(&mut self, now: Instant, every: Duration) {
        self.advance(now);
        self.thinned = (!every.is_zero()).then_some((every, None));
    }

    /// Changes the jitter of packets that leave the bottleneck from now on.
    pub fn set_jitter(&mut self, now: Instant, jitter: Jitter) {
        self.advance(now);
        self.jitter.set(jitter);
    }

    /// Changes the queue. What waits in it stays, even beyond a smaller bound.
    pub fn set_queue(&mut self, now: Instant, queue: Queue) {
        self.advance(now);
        self.queue.configure(queue);
    }

    /// Changes the loss in front of the queue, for packets pushed from now on.
    pub fn set_loss(&mut self, loss: Loss) {
        self.loss.set(loss);
    }

    /// Changes the loss on the air, for packets that leave the bottleneck from now on.
    pub fn set_air_loss(&mut self, now: Instant, loss: Loss) {
        self.advance(now);
        self.air_loss.set(loss);
    }

    /// Changes the bit errors, for packets that are popped from now on.
    pub fn set_bit_errors(&mut self, bit_errors: BitErrors) {
        self.bit_errors.set(bit_errors);
    }

    /// Starts an outage, or changes its kind. What has left the bottleneck already still arrives.
    pub fn begin_outage(&mut self, now: Instant, outage: Outage) {
        self.advance(now);
        self.change_outage(Some(outage));
    }

    /// Ends the outage, if there is one.
    pub fn end_outage(&mut self, now: Instant) {
        let now = self.advance(now);
        self.change_outage(None);
        self.advance(now);
    }

    /// From now on the bottleneck follows a trace of opportunities, of which the first cycle begins at `start`. See
    /// [`Path::trace_fault`]. Not on a path of a [`HalfDuplex`](crate::HalfDuplex): a trace has taken turns already.
    pub fn play_opportunities(&mut self, now: Instant, start: Instant, opportunities: Opportunities) {
        let now = self.advance(now);
        let mut timetable = Timetable::new(start, opportunities);
        timetable.skip(now);
        self.server.set_pace(now, Pace::Opportunities(Box::new(timetable)), &mut self.queue);
    }

    /// From now on samples set rate, delay and loss on the air; the first one begins at `start`. Other calls that set
    /// them hold until the next sample.
    pub fn play_samples(&mut self, now: Instant, start: Instant, samples: Samples) {
        let now = self.advance(now);
        self.samples = Some(SamplePlayer::new(start, samples));
        self.advance(now);
    }

    /// From now on outages come from a list or a generator whose time 0 is `start`. [`Path::begin_outage`] and
    /// [`Path::end_outage`] go on working: whichever comes last counts.
    pub fn play_handovers(&mut self, now: Instant, start: Instant, handovers: Handovers) {
        let now = self.advance(now);
        self.handovers = Some(HandoverPlayer::new(start, handovers));
        self.advance(now);
    }

    /// Why what is played does not go on: its file changed since it was checked, or cannot be read. The bottleneck then
    /// has no more opportunities, or a rate of 0; a run in which this happens is not valid.
    pub fn trace_fault(&self) -> Option<&TraceError> {
        let timetable = self.server.timetable().and_then(Timetable::fault);
        let samples = self.samples.as_ref().and_then(SamplePlayer::fault);
        timetable.or(samples).or_else(|| self.handovers.as_ref().and_then(HandoverPlayer::fault))
    }

    /// Whether to keep each packet that is dropped from now on, for [`Path::pop_drop`]. Off at the start.
    pub fn record_drops(&mut self, record: bool) {
        self.drops = record.then(|| self.drops.take().unwrap_or_default());
    }

    /// The next packet that was dropped, of those that [`Path::record_drops`] has kept. What is not fetched is kept for
    /// ever: call until `None` now and then. In order of time, but for packets that the queue dropped when one ahead of
    /// them left.
    pub fn pop_drop(&mut self) -> Option<DropEvent<T>> {
        self.drops.as_mut()?.pop_front()
    }

    /// Counts as of the last call that passed a time.
    pub fn stats(&self) -> PathStats {
        let timetable = self.server.timetable();
        PathStats {
            queue_bytes: self.queue.bytes(),
            queue_packets: self.queue.packets(),
            served: self.server.sent(),
            marked: self.queue.marked(),
            opportunities: timetable.map_or(0, Timetable::passed),
            opportunity_bytes: timetable.map_or(0, Timetable::used_bytes),
            ..self.stats
        }
    }

    /// How long a packet pushed at `now` would wait before its own serialisation starts, if the rate stays as it is and
    /// an [`Outage::Hold`] ends now. [`Duration::MAX`] when the rate is zero. With a trace of opportunities an
    /// estimate, at its mean rate.
    pub fn queue_delay(&self, now: Instant) -> Duration {
        self.server.queue_delay(now, &self.queue)
    }

    /// The bottleneck's rate in bits per second; `None` when there is no limit, or a trace of opportunities.
    pub fn rate(&self) -> Option<u64> {
        self.server.rate_bps()
    }

    /// The propagation delay for packets that leave the bottleneck now, without jitter.
    pub fn delay(&self) -> Duration {
        self.line.delay()
    }

    /// The outage that is going on.
    pub fn outage(&self) -> Option<Outage> {
        self.outage
    }

    /// Catches up with `now` and returns the later of `now` and the latest time seen.
    pub(crate) fn advance(&mut self, now: Instant) -> Instant {
        while self.advance_to_service(now).is_some() {}
        self.latest.map_or(now, |latest| latest.max(now))
    }

    /// Catches up with `now`, or with the next end of a service if that is earlier, and returns that.
    pub(crate) fn advance_to_service(&mut self, now: Instant) -> Option<Instant> {
        let now = self.latest.map_or(now, |latest| latest.max(now));
        loop {
            let change = self.next_change().filter(|change| *change <= now);
            let until = change.unwrap_or(now);
            if let Some(served) = self.server.serve(until, &mut self.queue) {
                let at = self.on_served(served);
                self.latest = self.latest.max(Some(at));
                return Some(at);
            }
            self.latest = self.latest.max(Some(until));
            match change {
                Some(_) if self.skip_changes(now) => {}
                Some(at) => self.on_change(at),
                None => return None,
            }
        }
    }

    fn on_served(&mut self, served: Served<T>) -> Instant {
        match served {
            Served::Sent(at, item) if self.air_loss.is_lost(item.number) => {
                self.drop_item(at, item, DropReason::AirLoss);
                at
            }
            Served::Sent(at, item) if self.is_thinned_out(at) => {
                self.drop_item(at, item, DropReason::Thinned);
                at
            }
            Served::Sent(at, item) => {
                let jitter = self.jitter.of(item.number);
                self.line.push(at, jitter, self.jitter.reorders(), item);
                at
            }
            Served::Dropped(at, item, reason) => {
                self.drop_item(at, item, reason);
                at
            }
        }
    }

    /// What leaves the bottleneck then is too soon behind another one.
    fn is_thinned_out(&mut self, at: Instant) -> bool {
        let Some((every, passed)) = &mut self.thinned else { return false };
        let too_soon = passed.is_some_and(|passed| at.saturating_duration_since(passed) < *every);
        if !too_soon {
            *passed = Some(at);
        }
        too_soon
    }

    fn next_change(&self) -> Option<Instant> {
        let samples = self.samples.as_ref().and_then(SamplePlayer::next_change);
        let handovers = self.handovers.as_ref().and_then(HandoverPlayer::next_change);
        match (samples, handovers) {
            (Some(samples), Some(handovers)) => Some(samples.min(handovers)),
            (samples, handovers) => samples.or(handovers),
        }
    }

    /// While nothing waits, the samples of whole cycles change nothing. Whether any were left out.
    fn skip_changes(&mut self, now: Instant) -> bool {
        if self.handovers.as_ref().is_some_and(|handovers| handovers.next_change().is_some()) || self.is_waiting() {
            return false;
        }
        let Some(samples) = &mut self.samples else { return false };
        let before = samples.next_change();
        samples.skip(now);
        samples.next_change() != before
    }

    /// Carries out what is due at `at`.
    fn on_change(&mut self, at: Instant) {
        if let Some(samples) = self.samples.as_mut().filter(|samples| samples.next_change() == Some(at))
            && let Some(conditions) = samples.advance()
        {
            if let Some(rate) = conditions.rate_bps {
                self.server.set_pace(at, Pace::Rate(Some(rate)), &mut self.queue);
            }
            if let Some(delay) = conditions.delay {
                self.line.set_delay(delay);
            }
            if let Some(loss) = conditions.loss {
                self.air_loss.set(Loss::Independent(loss));
            }
        }
        if let Some(handovers) = self.handovers.as_mut().filter(|handovers| handovers.next_change() == Some(at)) {
            match handovers.advance() {
                Some(HandoverChange::Begin(outage)) => self.change_outage(Some(outage)),
                Some(HandoverChange::End { delay_shift }) => {
                    if let Some(shift) = delay_shift {
                        self.line.set_shift(shift);
                    }
                    self.change_outage(None);
                }
                None => {}
            }
        }
    }

    fn change_outage(&mut self, outage: Option<Outage>) {
        self.outage = outage;
        self.server.set_outage(outage == Some(Outage::Hold), outage == Some(Outage::Drop));
    }

    /// Whether packets wait or are in service.
    fn is_waiting(&self) -> bool {
        self.server.is_serving() || self.queue.packets() > 0
    }

    /// A packet that counts as queued is no more.
    fn drop_item(&mut self, at: Instant, item: Item<T>, reason: DropReason) {
        let Item { packet: Packet { bytes, ecn, payload }, number, pushed } = item;
        self.stats.queued.remove(bytes);
        self.stats.dropped.add(reason, bytes);
        if let Some(drops) = &mut self.drops {
            drops.push_back(DropEvent { at, reason, number, pushed, bytes, ecn, payload });
        }
    }
}

/// What a [`HalfDuplex`](crate::HalfDuplex) does with its paths.
impl<T: Payload> Path<T> {
    /// From now on packets begin their service only when told.
    pub(crate) fn gate(&mut self) {
        self.server.gate(true);
    }

    /// As [`Path::push_packet`], and the packet begins its service at once.
    pub(crate) fn push_ungated(&mut self, now: Instant, packet: Packet<T>) -> Result<(), DropReason> {
        self.server.gate(false);
        let fate = self.push_packet(now, packet);
        self.server.gate(true);
        fate
    }

    /// When the packet that has waited longest was pushed.
    pub(crate) fn head_pushed(&self) -> Option<Instant> {
        self.queue.head().map(|item| item.pushed)
    }

    /// The next packet begins its service. The queue's management may leave none.
    pub(crate) fn start_next(&mut self, at: Instant) {
        let at = self.advance(at);
        self.server.start_next(at, &mut self.queue);
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.server.is_serving()
    }

    /// When the service that is going on ends, if nothing changes.
    pub(crate) fn next_done(&self) -> Option<Instant> {
        let change = self.next_change().filter(|_| self.is_serving());
        [self.server.next_done(), change].into_iter().flatten().min()
    }

    /// When the next of those that have left the server is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.line.next_due()
    }
}

#[cfg(test)]
#[path = "path/tests.rs"]
pub(crate) mod tests;
