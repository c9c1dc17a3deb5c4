//! Whatever is done to two to four bearers: each command once, signed ones in order, memory bounded.

use std::cell::Cell;

use aquila_emu::{Jitter, JitterShape};
use aquila_lab::frames;
use aquila_lab::pair::Delivery;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use super::*;

/// Something to do to a pair over several bearers; a bearer is meant by any number.
#[derive(Debug, Clone)]
enum Op {
    Wait(u64),
    Commands(bool, u8),
    Signed(bool, u8),
    Parameter(bool, u16),
    Video(u16),
    /// For so many ms, in these directions, losing or holding.
    Outage(usize, u64, [bool; 2], bool),
    Change(usize, bool, u64, f64),
    Add(Likeness),
    Remove(usize),
    Restart(bool),
    Replay(usize, usize),
    Flipped(usize, usize, usize),
    Garbage(usize, bool, Vec<u8>),
}

/// A path: delay and what is added to it at random in ms, share lost.
type Likeness = (u64, u64, f64);

fn likeness() -> impl Strategy<Value = Likeness> {
    (5u64..600, prop_oneof![Just(0), 1u64..60], prop_oneof![Just(0.0), 0.0..0.4])
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1u64..400).prop_map(Op::Wait),
        4 => (any::<bool>(), 1u8..20).prop_map(|(air, count)| Op::Commands(air, count)),
        3 => (any::<bool>(), 1u8..6).prop_map(|(air, count)| Op::Signed(air, count)),
        1 => (any::<bool>(), any::<u16>()).prop_map(|(air, n)| Op::Parameter(air, n)),
        2 => (20u16..8_000).prop_map(Op::Video),
        2 => (any::<usize>(), 20u64..2_000, any::<[bool; 2]>(), any::<bool>())
            .prop_map(|(bearer, lasts, from, hold)| Op::Outage(bearer, lasts, from, hold)),
        1 => (any::<usize>(), any::<bool>(), 300u64..8_000, 0.0..0.4)
            .prop_map(|(bearer, air, kbps, loss)| Op::Change(bearer, air, kbps, loss)),
        1 => likeness().prop_map(Op::Add),
        1 => any::<usize>().prop_map(Op::Remove),
        1 => any::<bool>().prop_map(Op::Restart),
        2 => any::<[usize; 2]>().prop_map(|[bearer, packet]| Op::Replay(bearer, packet)),
        1 => any::<[usize; 3]>().prop_map(|[bearer, packet, bit]| Op::Flipped(bearer, packet, bit)),
        1 => (any::<usize>(), any::<bool>(), prop::collection::vec(any::<u8>(), 0..1300))
            .prop_map(|(bearer, air, bytes)| Op::Garbage(bearer, air, bytes)),
    ]
}

fn path_like((delay, jitter, loss): Likeness) -> PathConfig {
    let shape = if jitter > 0 { JitterShape::Uniform { max: ms(jitter) } } else { JitterShape::None };
    PathConfig { jitter: Jitter { shape, reorder: true }, ..path(4, delay, loss) }
}

fn side(air: bool) -> Side {
    if air { Side::Air } else { Side::Ground }
}

fn other(side: Side) -> Side {
    if side == Side::Air { Side::Ground } else { Side::Air }
}

/// Packets that may be put on the wire again.
const RECORDED: usize = 400;
/// Signed messages wait for one that is missing at least so long (`MIN_HOLD`).
const LEAST_HOLD: Duration = ms(50);

/// A pair, and what is known of it from outside.
struct World {
    pair: Pair,
    /// Bearers by index: there, and out of use until then.
    there: Vec<bool>,
    out_until: Vec<Option<Duration>>,
    /// Lives of the ends, and in which of them each command was sent, signed or not.
    lives: [u32; 2],
    sent: [Vec<(u32, bool)>; 2],
    /// Deliveries seen so far, and the lives of the ends that they arrived in.
    arrived_in: Vec<[u32; 2]>,
    /// Commands that went with the process that was to send them, or that may have: signed ones that it had taken and held back,
    /// since one before them was missing.
    gone: BTreeSet<(u8, u32)>,
    /// Commands that were given up, in lives that are over.
    given_up: [u64; 2],
    copies: u64,
}

impl World {
    fn new(seed: u64, paths: &[Likeness], twice_each: u64) -> Self {
        let mut pair = over(seed, &normal(&paths.iter().copied().map(path_like).collect::<Vec<_>>()));
        (pair.record, pair.record_ground, pair.twice_each) = (true, true, twice_each);
        pair.connect();
        let count = paths.len();
        Self {
            pair,
            there: vec![true; count],
            out_until: vec![None; count],
            lives: [1; 2],
            sent: [vec![], vec![]],
            arrived_in: vec![],
            gone: BTreeSet::new(),
            given_up: [0; 2],
            copies: 0,
        }
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.pair.elapsed() + time;
        loop {
            let ends = self.out_until.iter().enumerate().filter_map(|(bearer, at)| at.map(|at| (at, bearer)));
            let Some((at, bearer)) = ends.min().filter(|(at, _)| *at <= until) else { break };
            self.pair.run_until(at.max(self.pair.elapsed()));
            self.pair.end_outage_of(bearer);
            self.out_until[bearer] = None;
        }
        self.pair.run_until(until);
        let excess = self.pair.recorded.len().saturating_sub(RECORDED);
        self.pair.recorded.drain(..excess);
        self.note_arrivals();
    }

    fn note_arrivals(&mut self) {
        self.arrived_in.resize(self.pair.deliveries.len(), self.lives);
    }

    fn any_of(&self, bearer: usize) -> usize {
        bearer % self.there.len()
    }

    fn command(&mut self, from: Side, signed: bool) {
        self.sent[from as usize].push((self.lives[from as usize], signed));
        if signed { self.pair.send_signed_command(from) } else { self.pair.send_command(from) }
    }

    /// What an end has counted is gone with it.
    fn close_books(&mut self, end: Side) {
        let stats = self.pair.stats(end);
        self.given_up[end as usize] += stats.control_drops.expired + stats.control_drops.full;
        self.given_up[other(end) as usize] += stats.counters.expired_commands;
        self.copies += stats.counters.duplicates + stats.counters.delivered[0];
    }

    fn restart(&mut self, end: Side) {
        self.note_arrivals();
        self.close_books(end);
        for from in BOTH {
            let there: BTreeSet<u32> = self.arrived(other(from)).map(|delivery| delivery.index).collect();
            let sent = (0..).zip(&self.sent[from as usize]);
            let gone = sent.filter(|(index, (_, signed))| !there.contains(index) && (from == end || *signed));
            self.gone.extend(gone.map(|(index, _)| (from as u8, index)));
        }
        self.lives[end as usize] += 1;
        self.pair.restart(end);
    }

    fn arrived(&self, to: Side) -> impl Iterator<Item = &Delivery> {
        self.pair.deliveries.iter().filter(move |delivery| delivery.to == to)
    }

    fn apply(&mut self, op: Op, number: u16) {
        match op {
            Op::Wait(time) => self.run_for(ms(time)),
            Op::Commands(air, count) => (0..count).for_each(|_| self.command(side(air), false)),
            Op::Signed(air, count) => (0..count).for_each(|_| self.command(side(air), true)),
            Op::Parameter(air, n) => self.pair.send_frame(side(air), &frames::param_value(side(air), n)),
            Op::Video(len) => self.pair.send_video(&frames::rtp(number, number.into(), len.into(), true)),
            Op::Outage(bearer, lasts, from, hold) => {
                let bearer = self.any_of(bearer);
                let from: Vec<Side> = BOTH.into_iter().filter(|side| from[*side as usize]).collect();
                self.pair.begin_outage_of(bearer, &from, if hold { Outage::Hold } else { Outage::Drop });
                self.out_until[bearer] = Some(self.pair.elapsed() + ms(lasts));
            }
            Op::Change(bearer, air, kbps, loss) => {
                let bearer = self.any_of(bearer);
                self.pair.change_path(bearer, side(air), Bitrate::kbps(kbps), Loss::Independent(loss));
            }
            Op::Add(like) => {
                let path = path_like(like);
                let Some(id) = self.pair.add_bearer(path, path, Usage::Normal) else { return };
                let index = usize::from(id.number());
                self.there.resize(self.there.len().max(index + 1), false);
                self.out_until.resize(self.there.len(), None);
                (self.there[index], self.out_until[index]) = (true, None);
            }
            Op::Remove(bearer) => {
                let bearer = self.any_of(bearer);
                if self.there[bearer] && self.there.iter().filter(|there| **there).count() > 1 {
                    self.there[bearer] = false;
                    self.pair.remove_bearer(BearerId::new(bearer as u8).unwrap());
                }
            }
            Op::Restart(air) => {
                self.restart(side(air));
                if air {
                    // It begins with what its configuration has.
                    let ids = self.pair.session(Side::Air).bearers();
                    let is_there = |index| ids.iter().any(|id| usize::from(id.number()) == index);
                    self.there = (0..self.there.len()).map(is_there).collect();
                }
            }
            Op::Replay(bearer, packet) => self.again(bearer, packet, None),
            Op::Flipped(bearer, packet, bit) => self.again(bearer, packet, Some(bit)),
            Op::Garbage(bearer, air, bytes) => self.pair.inject_on(self.any_of(bearer), side(air), &bytes),
        }
    }

    fn again(&mut self, bearer: usize, packet: usize, flipped: Option<usize>) {
        let recorded = &self.pair.recorded;
        if let Some(packet) = recorded.get(packet % recorded.len().max(1)).cloned() {
            self.pair.replay_on(self.any_of(bearer), &packet, flipped);
        }
    }

    fn assert_bounded(&mut self) -> Result<(), TestCaseError> {
        for end in BOTH {
            let stats = self.pair.stats(end);
            prop_assert!(stats.classes[0].queued + stats.unacknowledged <= 1024);
            prop_assert!(stats.classes[1].queued_bytes <= 1 << 20, "{}", stats.classes[1].queued_bytes);
            prop_assert!(stats.classes[2].queued_bytes <= 4 << 20);
            prop_assert!(stats.bearers.len() <= BearerId::COUNT);
        }
        Ok(())
    }

    /// Each command once; missing are only those that went with their process, or were given up at their age.
    fn assert_once(&mut self) -> Result<(), TestCaseError> {
        BOTH.into_iter().for_each(|end| self.close_books(end));
        for to in BOTH {
            let mut seen = BTreeSet::new();
            for delivery in self.arrived(to) {
                prop_assert!(seen.insert(delivery.index), "{:?} twice", delivery);
            }
            let from = other(to);
            let is_missing = |index: &u32| !seen.contains(index) && !self.gone.contains(&(from as u8, *index));
            let missing: Vec<_> = (0..self.pair.commands_sent(from) as u32).filter(is_missing).collect();
            let given_up = self.given_up[from as usize];
            prop_assert!(
                missing.len() as u64 <= given_up,
                "{:?} from {:?}: {:?}",
                missing,
                from,
                self.sent[from as usize]
            );
        }
        Ok(())
    }

    /// Of one life of either end: what was signed is given out in order, unless what is missing was waited for.
    fn assert_in_order(&self) -> Result<(), TestCaseError> {
        let all = || self.pair.deliveries.iter().zip(&self.arrived_in);
        for to in BOTH {
            let from = other(to);
            let sent_in = |delivery: &Delivery| self.sent[from as usize][delivery.index as usize];
            let lives: BTreeSet<[u32; 2]> = self.arrived_in.iter().copied().collect();
            for life in lives {
                // The life of the sender in which it was sent counts: what is under way may outlive it.
                let of_life = all().filter(|(delivery, arrived_in)| {
                    delivery.to == to
                        && arrived_in[to as usize] == life[to as usize]
                        && sent_in(delivery) == (life[from as usize], true)
                });
                let of_life: Vec<Delivery> = of_life.map(|(delivery, _)| *delivery).collect();
                // The first one heard sets the beginning.
                let Some(first) = of_life.first().map(|delivery| delivery.index) else { continue };
                for (n, late) in of_life.iter().enumerate().filter(|(_, delivery)| delivery.index > first) {
                    // The first to go before it had waited for it; those behind that one follow at once.
                    if let Some(overtook) = of_life[..n].iter().find(|delivery| delivery.index > late.index) {
                        let waited = overtook.arrived - overtook.sent;
                        prop_assert!(waited >= LEAST_HOLD, "{:?} came after {:?}", late, overtook);
                    }
                }
            }
        }
        Ok(())
    }
}

/// What came of all cases.
#[derive(Debug, Default)]
struct Count {
    cases: Cell<u64>,
    delivered: Cell<u64>,
    copies: Cell<u64>,
    given_up: Cell<u64>,
}

/// `PROPTEST_CASES` overrides the number of cases; the same ones each time.
#[test]
fn whatever_is_done_to_several_bearers_each_command_arrives_once() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(150);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let count = Count::default();
    let paths = prop::collection::vec(likeness(), 2..=4);
    let ops = prop::collection::vec(op(), 10..80);
    let twice_each = prop_oneof![Just(0u64), 1u64..10];
    let outcome = runner.run(&(0u64..1000, paths, twice_each, ops), |(seed, paths, twice_each, ops)| {
        let mut world = World::new(seed, &paths, twice_each);
        for (number, op) in ops.into_iter().enumerate() {
            world.apply(op, number as u16);
            world.assert_bounded()?;
        }
        // All is well again: what is under way arrives, and commands pass on.
        world.run_for(ms(16_000));
        let before = world.pair.deliveries.len();
        BOTH.into_iter().for_each(|from| world.command(from, false));
        world.run_for(ms(9_000));
        prop_assert_eq!(world.pair.deliveries.len(), before + 2, "commands pass again");
        world.assert_once()?;
        world.assert_in_order()?;
        count.cases.set(count.cases.get() + 1);
        count.delivered.set(count.delivered.get() + world.pair.deliveries.len() as u64);
        count.copies.set(count.copies.get() + world.copies);
        count.given_up.set(count.given_up.get() + world.given_up.iter().sum::<u64>());
        Ok(())
    });
    eprintln!("{count:?}");
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    assert!(count.copies.get() > 2 * count.delivered.get(), "there was something to refuse");
    assert!(count.given_up.get() * 200 <= count.delivered.get(), "few are given up at their age");
}

/// Over bearers that lose, reorder and come and go: of more than a million copies that arrive, no command is delivered twice, and
/// none is missed.
#[test]
fn a_million_copies_of_commands_are_delivered_once() {
    let paths = [(10, 30, 0.3), (25, 40, 0.3), (60, 50, 0.3), (120, 60, 0.3)].map(path_like);
    let mut pair = over(19, &normal(&paths));
    pair.twice_each = 7;
    pair.connect();
    pair.run_until(ms(3_000));
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    for burst in 0..14_000 {
        BOTH.into_iter().for_each(|from| (0..20).for_each(|_| pair.send_command(from)));
        if burst % 5 == 0 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (0..4).for_each(|bearer| pair.end_outage_of(bearer));
            if random % 8 < 4 {
                pair.begin_outage_of((random % 8) as usize, &BOTH, Outage::Drop);
            }
        }
        pair.run_until(ms(3_000 + 20 * burst));
    }
    (0..4).for_each(|bearer| pair.end_outage_of(bearer));
    pair.run_until(ms(298_000));
    assert_exactly_once(&pair);
    let counters = BOTH.map(|end| pair.stats(end).counters);
    let refused: u64 = counters.iter().map(|counters| counters.duplicates + counters.replayed).sum();
    eprintln!("{} delivered, {refused} refused", pair.deliveries.len());
    assert!(pair.deliveries.len() as u64 + refused >= 1_000_000);
}
