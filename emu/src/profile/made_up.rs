//! A profile of a made-up trace, so that whoever plays profiles can play those too.

use std::time::Duration;

use super::{Change, Direction, Profile, Step};
use crate::cell::queue::Queue;
use crate::path::{Outage, PathConfig};
use crate::synth::{Model, Trace};

/// What the bottleneck holds: 85 ms at the median of LTE in the air, 185 ms on the ground.
const QUEUE_BYTES: usize = 150_000;

/// What one direction is like from some time on.
struct Turn {
    at: Duration,
    direction: Direction,
    /// 0 in a handover.
    rate_bps: u64,
    delay: Duration,
}

/// A flight over such a link. Both directions have a capacity of their own; handovers and delays are common to both, and
/// while either direction has no rate the link is out and holds what it has.
pub(super) fn of_model(model: &Model, seed: u64, length: Duration) -> Profile {
    let cycle = length.max(Duration::from_secs(1));
    let up = Trace::new(model.clone(), seed, cycle);
    // Any other seed will do; the complement cannot meet `seed` itself.
    let down = Trace::new(Model { handovers: None, ..model.clone() }, !seed, cycle);
    let mut turns = turns(up, Direction::Up);
    let first_delay = turns.first().map_or(model.delay, |turn| turn.delay);
    turns.extend(self::turns(down, Direction::Down));
    turns.sort_by_key(|turn| turn.at);
    let mut state = State { delay: first_delay, ..State::default() };
    let mut steps = Vec::new();
    for now in turns.chunk_by(|a, b| a.at == b.at) {
        state.turn(now, &mut steps);
    }
    if state.is_out {
        steps.push(Step { at: cycle - Duration::from_micros(1), change: Change::OutageEnd });
    }
    let path = |direction| PathConfig {
        rate_bps: steps.iter().find_map(|step| match step.change {
            Change::Rate(of, rate) if of == direction => rate,
            _ => None,
        }),
        delay: first_delay,
        queue: Queue::bytes(QUEUE_BYTES),
        ..PathConfig::default()
    };
    Profile {
        name: model.name,
        summary: model.summary,
        up: path(Direction::Up),
        down: path(Direction::Down),
        cycle,
        steps,
    }
}

/// A trace's samples with the times at which they begin. A CCQ counts as rate that repetitions take away: the link is
/// slower, not lossy.
fn turns(trace: Trace, direction: Direction) -> Vec<Turn> {
    let mut at = Duration::ZERO;
    let turns = trace.map(|sample| {
        let begin = at;
        at += sample.lasts;
        let rate = sample.rate_bps.unwrap_or(0) as f64 * sample.ccq.unwrap_or(1.0);
        Turn { at: begin, direction, rate_bps: rate as u64, delay: sample.delay.unwrap_or_default() }
    });
    turns.collect()
}

/// The link while the steps are made.
#[derive(Default)]
struct State {
    rates_bps: [u64; 2],
    delay: Duration,
    is_out: bool,
}

impl State {
    /// What happens at one time.
    fn turn(&mut self, now: &[Turn], steps: &mut Vec<Step>) {
        let at = now[0].at;
        let mut push = |change| steps.push(Step { at, change });
        for turn in now {
            let rate = &mut self.rates_bps[turn.direction as usize];
            if *rate != turn.rate_bps && turn.rate_bps > 0 {
                push(Change::Rate(turn.direction, Some(turn.rate_bps)));
            }
            *rate = turn.rate_bps;
            // Whoever plays the cycle again begins it with the delay that it began with.
            if turn.direction == Direction::Up && (turn.delay != self.delay || at.is_zero()) {
                self.delay = turn.delay;
                push(Change::Delay(Direction::Up, turn.delay));
                push(Change::Delay(Direction::Down, turn.delay));
            }
        }
        let is_out = self.rates_bps.contains(&0);
        match (self.is_out, is_out) {
            (false, true) => push(Change::OutageBegin(Outage::Hold)),
            (true, false) => push(Change::OutageEnd),
            _ => {}
        }
        self.is_out = is_out;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::tests::{epoch, ms};
    use crate::synth::HandoverTrain;
    use crate::{Link, Sample};

    const LENGTH: Duration = Duration::from_secs(120);

    fn models() -> impl Iterator<Item = Model> {
        Model::names().map(|name| Model::by_name(name).unwrap())
    }

    #[test]
    fn steps_are_in_order_and_within_the_cycle() {
        for (model, seed) in models().flat_map(|model| (0..20).map(move |seed| (model.clone(), seed))) {
            let profile = of_model(&model, seed, LENGTH);
            assert_eq!((profile.name, profile.cycle), (model.name, LENGTH));
            assert!(profile.steps.is_sorted_by_key(|step| step.at) && profile.steps.last().unwrap().at < LENGTH);
            assert!(profile.steps.iter().all(|step| !matches!(step.change, Change::Rate(_, Some(0) | None))));
            // Begins and ends of outages take turns, and none is open at the end.
            let outages =
                profile.steps.iter().filter(|step| matches!(step.change, Change::OutageBegin(_) | Change::OutageEnd));
            let is_begin: Vec<bool> = outages.map(|step| step.change != Change::OutageEnd).collect();
            assert!(
                is_begin.len().is_multiple_of(2) && is_begin.chunks(2).all(|pair| pair == [true, false]),
                "{is_begin:?}"
            );
        }
    }

    #[test]
    fn handovers_are_outages_and_shift_the_delay_of_both_directions() {
        let profile = of_model(&Model::uav(), 4, LENGTH);
        let mut train: Vec<(Duration, Duration)> = Vec::new();
        for handover in HandoverTrain::new(Model::uav().handovers.unwrap(), 4).take_while(|h| h.at < LENGTH) {
            match train.last_mut() {
                Some((at, lasts)) if *at + *lasts >= handover.at => *lasts += handover.lasts,
                _ => train.push((handover.at, handover.lasts)),
            }
        }
        assert_eq!(profile.outages(), train);
        let delays = |of| {
            profile.steps.iter().filter(move |step| matches!(step.change, Change::Delay(d, _) if d == of)).map(|s| s.at)
        };
        let ends: Vec<Duration> =
            std::iter::once(Duration::ZERO).chain(train.iter().map(|(at, lasts)| *at + *lasts)).collect();
        assert_eq!(delays(Direction::Up).collect::<Vec<_>>(), ends);
        assert_eq!(delays(Direction::Down).collect::<Vec<_>>(), ends);
    }

    /// The link that the profile plays is the one of the trace, packet for packet.
    #[test]
    fn playing_the_profile_or_the_trace_is_the_same() {
        for model in [Model::lte(), Model::uav()] {
            let start = epoch();
            let mut link: Link<u32> = Link::new(&of_model(&model, 7, LENGTH), 1, start);
            let samples: Vec<Sample> = Trace::new(model.clone(), 7, LENGTH).collect();
            let (mut next, mut at) = (0, Duration::ZERO);
            for n in 0..LENGTH.as_millis() as u64 - 1 {
                while link.poll_change(start + ms(n)).is_some() {}
                while at + samples[next].lasts <= ms(n) {
                    at += samples[next].lasts;
                    next += 1;
                }
                assert_eq!(link.up.outage().is_some(), samples[next].rate_bps == Some(0), "{} at {n} ms", model.name);
                assert!(link.up.outage().is_some() || link.up.rate() == samples[next].rate_bps);
                assert_eq!((Some(link.up.delay()), link.down.delay()), (samples[next].delay, link.up.delay()));
            }
        }
    }

    #[test]
    fn a_circling_aircraft_has_its_rate_times_ccq() {
        let profile = of_model(&Model::loiter(), 1, LENGTH);
        let best = profile.uplink_range_bps().1.unwrap();
        assert!((20_000_000..28_000_000).contains(&best), "{best}");
        assert!(profile.outages().iter().all(|(_, lasts)| *lasts < Duration::from_secs(8)));
    }

    #[test]
    fn a_cycle_begins_as_it_began() {
        let length = Duration::from_secs(90);
        let (profile, start) = (of_model(&Model::uav(), 3, length), epoch());
        let mut link: Link<u32> = Link::new(&profile, 1, start);
        let mut seen = |at| {
            while link.poll_change(start + at).is_some() {}
            (link.up.rate(), link.down.rate(), link.up.delay(), link.down.delay(), link.up.outage())
        };
        let first = seen(ms(50));
        assert_eq!(seen(length + ms(50)), first);
    }

    #[test]
    fn another_seed_is_another_flight() {
        let flight = |seed| of_model(&Model::uav(), seed, LENGTH);
        assert_eq!(flight(1), flight(1));
        assert_ne!(flight(1), flight(2));
        assert_ne!(flight(1).up.rate_bps, flight(1).down.rate_bps);
    }
}
