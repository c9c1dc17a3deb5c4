//! Files over a radio, in virtual time: a ship gives, an aircraft takes, over the session that also carries commands.

mod depot;
pub mod figures;
mod peer;
mod radio;
pub mod tables;

use std::time::Duration;

use aquila_emu::{Loss, Outage, PathConfig, Queue};
use aquila_proto::cc::{CongestionConfig, EncoderRange};
use aquila_proto::session::ParcelPort;
use aquila_proto::{Bitrate, LinkState, Side};
use serde::Serialize;

use crate::pair::{Pair, PairConfig, Source};
pub use depot::{CHUNK, Depot, Disk, Freight};
pub use radio::{Radio, Second};

/// A flight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flight<'a> {
    /// The radio.
    pub radio: Radio<'a>,
    /// Seconds at most; it ends when all is there.
    pub seconds: u64,
    /// Everything random.
    pub seed: u64,
    /// Name of the congestion controller.
    pub controller: &'static str,
    /// The aircraft's power is cut at the end of each contact, and comes back in the gap.
    pub power_cuts: bool,
    /// Commands both ways at 20 Hz beside it.
    pub commands: bool,
    /// One way, besides the time that packets take to be sent.
    pub delay: Duration,
}

impl<'a> Flight<'a> {
    /// With our controller for such radios, and nothing beside.
    pub fn over(radio: Radio<'a>, seconds: u64, seed: u64) -> Self {
        Self {
            radio,
            seconds,
            seed,
            controller: "dedicated",
            power_cuts: false,
            commands: false,
            delay: Duration::from_millis(3),
        }
    }
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Outcome {
    /// Bytes of files that are there, whole and verified.
    pub bytes: u64,
    /// How many they are.
    pub files: usize,
    /// When the last was, seconds; `None` if not all are.
    pub done_s: Option<f64>,
    /// What the radio could have brought until then, of bytes of packets with all their headers.
    pub capacity: f64,
    /// `bytes` of `capacity`.
    pub share: f64,
    /// Bytes of parts sent, repetitions included.
    pub sent: u64,
    /// Bytes of parts that arrived and were not there; after a power cut that may be for the second time.
    pub taken: u64,
    /// Bytes that arrived though they were there.
    pub again: u64,
    /// Of them, those of chunks that had been verified.
    pub verified_again: u64,
    /// Of commands, 99 of 100 took no longer; milliseconds.
    pub p99_ms: Option<f64>,
}

/// How far a flight is at the end of a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of parts that arrived and were not there.
    pub taken: u64,
    /// Objects that are there, whole, verified and safe from a power cut.
    pub objects: usize,
}

const STEP: Duration = Duration::from_millis(2);
/// UDP payload in bytes.
const MTU: u16 = 1472;

/// Flies.
///
/// # Panics
/// If there is no controller of that name, or it is one of QUIC's own.
pub fn fly(flight: &Flight, freight: &Freight) -> Outcome {
    fly_with(flight, freight, Disk::default()).0
}

/// The same with an aircraft that has something on its disk; gives what is there afterwards.
///
/// # Panics
/// As [`fly`].
pub fn fly_with(flight: &Flight, freight: &Freight, disk: Disk) -> (Outcome, Disk) {
    fly_watched(flight, freight, disk, &mut |_| {})
}

/// The same, watched: told at the end of each second, and when all is there.
///
/// # Panics
/// As [`fly`].
pub fn fly_watched(flight: &Flight, freight: &Freight, disk: Disk, watch: &mut dyn FnMut(Progress)) -> (Outcome, Disk) {
    let path =
        PathConfig { rate_bps: Some(0), delay: flight.delay, queue: Queue::packets(256), ..PathConfig::default() };
    let (beside, radios) = (vec![], vec![]);
    let mut pair = Pair::new(PairConfig { mtu: MTU, beside, radios, ..PairConfig::new(path, flight.seed) });
    let mut world = World {
        flight: *flight,
        ship: Depot::new(*b"the ship", 1, Disk::default()),
        aircraft: Depot::new(*b"the mule", 1, disk),
        lives: 1,
        seen: (0, 0),
        was_up: [false; 2],
        taken: 0,
        again: 0,
        verified_again: 0,
    };
    world.control(&mut pair);
    if flight.commands {
        for from in [Side::Air, Side::Ground] {
            let until = Duration::from_secs(flight.seconds.saturating_sub(2));
            pair.add_source(Source::Commands { from, every: Duration::from_millis(50) }, until);
        }
    }
    let mut capacity = 0.0;
    let mut done = None;
    let mut away = false;
    'flight: for second in 0..flight.seconds {
        let now = flight.radio.at(flight.seed, second);
        for from in [Side::Air, Side::Ground] {
            let rate = if now.away { Bitrate(1_000) } else { now.rate };
            pair.change_path(0, from, rate, Loss::Independent(now.loss));
        }
        match (away, now.away) {
            (false, true) => {
                pair.begin_outage(Outage::Drop);
                if flight.power_cuts {
                    world.cut_power(&mut pair);
                }
            }
            (true, false) => pair.end_outage(false),
            _ => {}
        }
        away = now.away;
        if second == 0 {
            pair.connect();
        }
        for step in 1..=500 {
            pair.run_until(Duration::from_secs(second) + step * STEP);
            world.work(&mut pair, freight);
            if world.aircraft.durable.custody.len() == freight.total_objects() {
                capacity += now.capacity() * f64::from(step) / 500.0;
                done = Some(pair.elapsed().as_secs_f64());
                watch(world.progress());
                break 'flight;
            }
        }
        capacity += now.capacity();
        watch(world.progress());
    }
    let (bytes, files) = freight.total_of(&world.aircraft.durable.custody);
    let mut latencies = pair.latencies(Side::Air, Duration::ZERO);
    latencies.extend(pair.latencies(Side::Ground, Duration::ZERO));
    latencies.sort();
    let p99 = latencies.get(latencies.len() * 99 / 100).filter(|_| flight.commands);
    let outcome = Outcome {
        bytes,
        files,
        done_s: done,
        capacity,
        share: bytes as f64 / capacity,
        sent: world.ship.hop.stats().bytes_sent,
        taken: world.progress().taken,
        again: world.again + world.aircraft.hop.stats().bytes_again,
        verified_again: world.verified_again + world.aircraft.again,
        p99_ms: p99.map(|p99| p99.as_secs_f64() * 1e3),
    };
    (outcome, world.aircraft.durable)
}

#[derive(Debug)]
struct World<'a> {
    flight: Flight<'a>,
    ship: Depot,
    aircraft: Depot,
    lives: u64,
    /// Connections and states of the pair that were looked at.
    seen: (usize, usize),
    was_up: [bool; 2],
    /// Of the aircraft's former lives.
    taken: u64,
    again: u64,
    verified_again: u64,
}

impl World<'_> {
    fn progress(&self) -> Progress {
        let taken = self.taken + self.aircraft.hop.stats().bytes_taken;
        Progress { taken, objects: self.aircraft.durable.custody.len() }
    }

    /// Sets both sessions' congestion control.
    fn control(&self, pair: &mut Pair) {
        let config = CongestionConfig::by_name(self.flight.controller).expect("a controller of that name");
        for side in [Side::Air, Side::Ground] {
            let build = || config.build(EncoderRange::default(), |_| panic!("not one of QUIC's own"));
            pair.session(side).set_controller(build);
        }
    }

    fn depot(&mut self, side: Side) -> &mut Depot {
        if side == Side::Air { &mut self.aircraft } else { &mut self.ship }
    }

    /// The aircraft's computer dies and comes back with what was synced.
    fn cut_power(&mut self, pair: &mut Pair) {
        self.lives += 1;
        self.taken += self.aircraft.hop.stats().bytes_taken;
        self.again += self.aircraft.hop.stats().bytes_again;
        self.verified_again += self.aircraft.again;
        self.aircraft = Depot::new(*b"the mule", self.lives, std::mem::take(&mut self.aircraft.durable));
        self.was_up[0] = false;
        pair.restart(Side::Air);
        self.control(pair);
    }

    /// Hands what has come to the stores, and what they have to say to the sessions.
    fn work(&mut self, pair: &mut Pair, freight: &Freight) {
        let now = pair.now();
        while let Some((side, _, bytes)) = pair.parcels.pop_front() {
            self.depot(side).hop.handle_parcel(now, bytes);
            self.depot(side).settle(now, freight);
        }
        while let Some((side, fate)) = pair.fates.pop_front() {
            self.depot(side).hop.on_fate(now, fate.token, fate.received);
        }
        for (_, side, _) in pair.connects[self.seen.0..].iter().copied() {
            self.depot(side).hop.on_contact(now);
        }
        for (_, side, state, _) in pair.states[self.seen.1..].iter().copied() {
            let up = &mut self.was_up[side as usize];
            match state {
                LinkState::Up if !std::mem::replace(up, true) => self.depot(side).hop.on_contact(now),
                LinkState::Lost | LinkState::Down => {
                    *up = false;
                    self.depot(side).hop.on_contact_lost();
                }
                _ => {}
            }
        }
        self.seen = (pair.connects.len(), pair.states.len());
        self.ship.offer(freight);
        for side in [Side::Air, Side::Ground] {
            self.depot(side).settle(now, freight);
            loop {
                let max = pair.session(side).max_parcel();
                if max == 0 || pair.session(side).parcel_room(ParcelPort::FILES) == 0 {
                    break;
                }
                let polled = self.depot(side).hop.poll_parcel(now, max);
                self.depot(side).settle(now, freight);
                let Some((token, bytes)) = polled else { break };
                let taken = pair.send_parcel(side, ParcelPort::FILES, token, bytes);
                debug_assert!(taken, "there was room");
            }
        }
    }
}

#[cfg(test)]
mod tests;
