//! What the link carries, read off trains of packets.
//!
//! The packets of a frame leave together, faster than the link is believed to be: a *train*. What a train brings over the
//! time from its first arrival to its last is what the link carries, or, if the train comes as it left, no less than the
//! rate at which it left. No queue has to be built to find that out. Between trains the link may be idle; that time counts
//! only if the later packet would have come before the earlier one had the link been free.
//!
//! Only pairs of which the second found the link busy would be the obvious choice. On a radio that pauses for some
//! milliseconds now and then, packets find it busy mostly because of the pauses, and the capacity comes out too low, by half
//! on a recorded drive (docs/congestion.md).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::cc::minimum::Minimum;
use crate::{Bitrate, ByteCount};

/// Span of a measurement, and how far it reaches back for [`MIN_PAIRS`].
const SPAN_US: u64 = 275_000;
const LONG_SPAN_US: u64 = 1_000_000;
const MIN_PAIRS: usize = 12;
/// Fewer say nothing.
const LEAST_PAIRS: usize = 4;
/// What was received is averaged over no less than this.
const RECEIVED_SPAN_US: u64 = 120_000;
/// Packets that left within this of each other are of one train.
const TRAIN_US: u64 = 10_000;
/// A packet must be this much earlier than free flow for the link to count as busy: timestamps are not perfect.
const BUSY_MARGIN_US: i64 = 1_500;
/// A train that comes at this share of the rate at which it left has met no limit.
const AS_IT_LEFT: f64 = 0.9;
/// A pause of this length is an outage, not a rate, unless the one before was as long: then the link is that slow.
const OUTAGE_US: u64 = 150_000;
/// Above this share of what the link was seen to take time for, it always had something to do.
const BUSY_SHARE: f64 = 0.8;
/// What a packet that came alone is taken to have spent on the link, at least: timestamps are not perfect.
const LEAST_ALONE_US: u64 = 1_000;
/// In less than this nothing can be told apart: a network that hands over several packets at once, as radios do, has carried them at no rate.
const LEAST_TAKEN_US: u64 = 1_000;
/// Where there are so many within [`SPAN_US`], they tell of the link as it is.
const FRESH_PAIRS: usize = 6;
/// What packets prove that left one by one is to be so much more than what older ones brought.
const FASTER: f64 = 1.5;
/// Trains of fewer pairs, or that took less, are not compared with each other, nor are fewer trains than these.
const COMPARED_PAIRS: usize = 4;
const COMPARED_US: u64 = 2_000;
const COMPARED_TRAINS: u32 = 3;
/// More says that something went wrong.
const MOST_UNEVEN: f64 = 3.0;
/// Smaller packets take their time by their number, not by their size.
const LEAST_BYTES: u64 = 200;
/// The least delay of smaller packets is that of this long.
const SMALL_SPAN: Duration = Duration::from_secs(10);
/// Samples kept: 480 ms at 100 Mbit/s.
const MAX_SAMPLES: usize = 4096;

/// A packet that arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub sent_us: u64,
    pub arrived_us: u64,
    pub bytes: u64,
}

/// What the arrivals of late say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    /// The link was the limit, and carried this.
    Limited(Bitrate),
    /// It was not.
    Free {
        /// What arrived, pauses included.
        received: Bitrate,
        /// The rate within trains, which it carries at least.
        at_least: Bitrate,
    },
    /// There are no trains, but packets that left one by one came sooner than they would have over a link of less than this, if the
    /// path alone takes no longer than the quickest small packet did.
    Quick {
        /// What arrived, pauses included.
        received: Bitrate,
        up_to: Bitrate,
    },
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    sent_us: u64,
    arrived_us: u64,
    bytes: u64,
    /// Since the arrival before it, if the link had something to do all the time.
    taken_us: Option<u64>,
    /// Since the packet before it left, within a train.
    gap_us: Option<u64>,
    /// What it took longer than a small packet, if it left alone.
    alone_us: Option<u64>,
    /// The packet before it was still under way when this one would have come over a free link.
    busy: bool,
    /// That it had something to do follows from a delay that may be the path's.
    doubtful: bool,
}

/// Which arrivals are judged.
#[derive(Debug, Clone, Copy, Default)]
struct With {
    /// Those too of which the delay may be the path's.
    doubtful: bool,
    /// Only what left since.
    since_us: u64,
    /// None, if all of them took less than this.
    least_us: u64,
}

/// Arrivals of late.
#[derive(Debug)]
pub(super) struct Trains {
    samples: VecDeque<Sample>,
    /// Least (receive clock - send clock) of packets that take next to no time, µs.
    small_us: Minimum<i64>,
    /// When the last packet left, and the latest arrival.
    last: Option<(u64, u64)>,
    /// The last arrival came after [`OUTAGE_US`].
    paused: bool,
}

impl Trains {
    pub fn new() -> Self {
        Self { samples: VecDeque::new(), small_us: Minimum::new(SMALL_SPAN), last: None, paused: false }
    }

    /// Takes in an arrival, in order of sending. `free_us`: smallest (receive clock - send clock) of a packet that meets no
    /// queue; `doubtful_us`: a delay over that which may be the path's.
    pub fn on_arrival(&mut self, now: Instant, packet: Arrival, free_us: i64, doubtful_us: i64) {
        let Arrival { sent_us, arrived_us, bytes } = packet;
        let delay_us = arrived_us as i64 - sent_us as i64;
        if bytes < LEAST_BYTES {
            self.small_us.update(now, delay_us);
            return;
        }
        let latest = self.last.map_or(arrived_us, |(_, latest)| latest.max(arrived_us));
        let Some((last_sent_us, last_arrived_us)) = self.last.replace((sent_us, latest)) else { return };
        let gap_us = sent_us.saturating_sub(last_sent_us);
        let in_train = gap_us < TRAIN_US;
        let busy = sent_us as i64 + free_us + BUSY_MARGIN_US < last_arrived_us as i64;
        let taken_us = arrived_us.saturating_sub(last_arrived_us);
        let paused = std::mem::replace(&mut self.paused, taken_us > OUTAGE_US);
        let is_outage = taken_us > OUTAGE_US && !paused;
        let queue_us = delay_us - free_us;
        let alone_us = self.small_us.value().filter(|_| !in_train).map(|least_us| delay_us - least_us.min(free_us));
        if self.samples.len() == MAX_SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample {
            sent_us,
            arrived_us,
            bytes,
            busy,
            taken_us: ((in_train || busy) && !is_outage).then_some(taken_us),
            gap_us: in_train.then_some(gap_us),
            alone_us: alone_us.map(|us| us.max(0) as u64),
            doubtful: !in_train && queue_us > doubtful_us,
        });
    }

    /// What the arrivals up to now say; `None` if they say nothing. `in_doubt`: it is being found out whether the path has
    /// become longer. `found`: the link has been the limit before. `since_us`: packets that left earlier say little, for a while,
    /// since they left at another pace.
    pub fn verdict(&mut self, in_doubt: bool, found: bool, since_us: Option<u64>) -> Option<Verdict> {
        let (newest_sent, newest) = self.last?;
        while self.samples.front().is_some_and(|sample| sample.arrived_us + LONG_SPAN_US < newest) {
            self.samples.pop_front();
        }
        if self.samples.len() < LEAST_PAIRS {
            return None;
        }
        if let Some(since_us) = since_us {
            let verdict = self.judge(newest, found, With { since_us, ..With::default() });
            if verdict.is_some() || newest_sent < since_us + SPAN_US {
                return verdict;
            }
        }
        let timed = With { least_us: LEAST_TAKEN_US, ..With::default() };
        // Frames of a packet or two have no trains to speak of. What neither takes time, the link carries as it comes.
        let or_else = [With { doubtful: true, ..timed }, With::default()];
        let mut or_else = or_else.iter().filter(|_| !in_doubt);
        let judged =
            self.judge(newest, found, timed).or_else(|| or_else.find_map(|with| self.judge(newest, found, *with)));
        match judged {
            Some(verdict) => Some(self.outdated(newest, verdict)),
            None if in_doubt => None,
            None => Some(Verdict::Quick { received: self.received(newest), up_to: self.one_by_one(newest) }),
        }
    }

    fn judge(&self, newest: u64, found: bool, with: With) -> Option<Verdict> {
        let (mut taken, mut taken_us, mut busy, mut pairs) = (0, 0, 0, 0);
        let (mut offered, mut offered_us) = (0, 0);
        for sample in self.samples.iter().rev() {
            let is_old = sample.arrived_us + SPAN_US < newest && pairs >= MIN_PAIRS;
            if is_old || sample.sent_us < with.since_us {
                break;
            }
            if let Some(us) = sample.taken_us.filter(|_| with.doubtful || !sample.doubtful) {
                taken += sample.bytes;
                taken_us += us;
                busy += if sample.busy { sample.bytes } else { 0 };
                pairs += 1;
            }
            if let Some(us) = sample.gap_us {
                offered += sample.bytes;
                offered_us += us;
            }
        }
        if pairs < LEAST_PAIRS || taken_us < with.least_us {
            return None;
        }
        let rate = |bytes, us: u64| Bitrate::from_transfer(ByteCount(bytes), Duration::from_micros(us.max(100)));
        let (carried, offered) = (rate(taken, taken_us), rate(offered, offered_us));
        // A handful of packets, of which the last was late by a scheduler's whim, would seem to have met a limit; but where there is one,
        // packets wait for each other.
        let tells = found || busy > 0;
        if tells && (offered_us == 0 || carried < offered * AS_IT_LEFT) {
            return Some(Verdict::Limited(carried));
        }
        // What came faster than it left was held back, and let go at once.
        let at_least = carried.min(offered);
        match busy as f64 > BUSY_SHARE * taken as f64 {
            // Who sends no faster than the window lets him has everything come as it left.
            true => Some(Verdict::Limited(at_least)),
            false => Some(Verdict::Free { received: self.received(newest), at_least }),
        }
    }

    /// Where too few packets came of late for a judgement, it is old ones that were held back. Those that left one by one since may tell of
    /// a much faster link.
    fn outdated(&self, newest: u64, verdict: Verdict) -> Verdict {
        let Verdict::Limited(carried) = verdict else { return verdict };
        let recent = self.samples.iter().rev().take_while(|sample| sample.arrived_us + SPAN_US >= newest);
        if recent.filter(|sample| sample.taken_us.is_some()).count() >= FRESH_PAIRS {
            return verdict;
        }
        let up_to = self.one_by_one(newest);
        match up_to > carried * FASTER {
            true => Verdict::Quick { received: self.received(newest), up_to },
            false => verdict,
        }
    }

    /// What packets that left alone prove: the link has carried each in what it took longer than a small one. Where they waited for
    /// others, it carries more.
    fn one_by_one(&self, newest: u64) -> Bitrate {
        let (mut bytes, mut alone_us, mut count) = (0, 0u64, 0);
        for sample in self.samples.iter().rev().take_while(|sample| sample.arrived_us + SPAN_US >= newest) {
            if let Some(us) = sample.alone_us {
                bytes += sample.bytes - LEAST_BYTES;
                alone_us = alone_us.saturating_add(us.max(LEAST_ALONE_US));
                count += 1;
            }
        }
        match count < LEAST_PAIRS {
            true => Bitrate::ZERO,
            false => Bitrate::from_transfer(ByteCount(bytes), Duration::from_micros(alone_us)),
        }
    }

    /// The arithmetic over the harmonic mean of the rates at which the trains of late were carried; `None` if there were too few.
    pub fn unevenness(&self) -> Option<f64> {
        let (_, newest) = self.last?;
        let (mut trains, mut rates, mut times) = (0, 0.0, 0.0);
        let (mut bytes, mut taken_us, mut pairs) = (0, 0, 0);
        for sample in self.samples.iter().rev().take_while(|sample| sample.arrived_us + SPAN_US >= newest) {
            if let (Some(_), Some(us)) = (sample.gap_us, sample.taken_us) {
                (bytes, taken_us, pairs) = (bytes + sample.bytes, taken_us + us, pairs + 1);
                continue;
            }
            // The first packet of a train.
            if pairs >= COMPARED_PAIRS && taken_us > COMPARED_US {
                let rate = bytes as f64 / taken_us as f64;
                (trains, rates, times) = (trains + 1, rates + rate, times + 1.0 / rate);
            }
            (bytes, taken_us, pairs) = (0, 0, 0);
        }
        let count = f64::from(trains);
        (trains >= COMPARED_TRAINS).then(|| (rates * times / (count * count)).min(MOST_UNEVEN))
    }

    /// What arrived of late, pauses included.
    pub fn lately_received(&self) -> Bitrate {
        self.last.map_or(Bitrate::ZERO, |(_, newest)| self.received(newest))
    }

    fn received(&self, newest: u64) -> Bitrate {
        let span = self.samples.front().map_or(0, |first| newest.saturating_sub(first.arrived_us));
        let bytes = self.samples.iter().map(|sample| sample.bytes).sum();
        Bitrate::from_transfer(ByteCount(bytes), Duration::from_micros(span.max(RECEIVED_SPAN_US)))
    }

    /// Forgets all trains: what comes next came another way, or after a pause.
    pub fn clear(&mut self) {
        (self.samples, self.last, self.paused) = (VecDeque::new(), None, false);
    }
}
