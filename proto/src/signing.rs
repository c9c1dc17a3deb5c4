//! Order among signed frames.
//!
//! A receiver of signed MAVLink takes a frame only if its time stamp is above all before it from the same signing stream
//! (devguide `en/guide/message_signing.md`), so a command that was lost once and sent again behind newer frames would be
//! refused. The sender numbers the signed messages that it repeats until they arrive, and the receiver holds back what was
//! sent after one that is missing, for a bounded time. Unsigned frames are never held.
//!
//! Control waits for Control only: a command is worth more than a parameter, which is refused then and asked for again by
//! the protocols above. Telemetry waits for both, until something of Control passes: then what is still missing is lost
//! anyway, and what waits for it goes first.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::Class;
use crate::mavlink::{Address, Frame};

/// Frames signed by one source on one of its links: what a receiver keeps one time stamp for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SigningStream {
    /// Who sent them.
    pub source: Address,
    /// The link id in their signatures.
    pub link: u8,
}

impl SigningStream {
    /// The stream of a frame; `None` if it is not signed.
    pub fn of(frame: &Frame) -> Option<Self> {
        Some(Self { source: frame.source(), link: frame.signature()?.link_id })
    }
}

/// Place of a message in its signing stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Counted messages of class Control that were sent before this one in its stream, in this life of the sender.
    pub control: u64,
    /// Counted messages of class Telemetry that were; `None` if it does not wait for them, being Control.
    pub telemetry: Option<u64>,
    /// Whether this one counts: it is repeated until it arrives, so it is worth waiting for.
    pub counted: bool,
}

impl Place {
    /// What is given out once this message has been.
    fn done(self) -> Done {
        let own = u64::from(self.counted);
        match self.telemetry {
            None => Done { control: self.control + own, telemetry: 0 },
            Some(telemetry) => Done { control: self.control, telemetry: telemetry + own },
        }
    }
}

/// Counted messages of a stream that have been given out or given up, by class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Done {
    control: u64,
    telemetry: u64,
}

impl Done {
    fn allows(self, place: Place) -> bool {
        place.control <= self.control && place.telemetry.is_none_or(|telemetry| telemetry <= self.telemetry)
    }

    /// Takes in that a message is given out whose turn it is.
    fn on_next(&mut self, place: Place) {
        match place.telemetry {
            None => self.control += u64::from(place.counted && place.control == self.control),
            Some(telemetry) => self.telemetry += u64::from(place.counted && telemetry == self.telemetry),
        }
    }

    /// Takes in that nothing before these is waited for any longer.
    fn skip_to(&mut self, other: Self) {
        self.control = self.control.max(other.control);
        self.telemetry = self.telemetry.max(other.telemetry);
    }
}

/// Streams that are told apart at either end. More do not occur; beyond it their order is not kept.
const MAX_STREAMS: usize = 64;
/// Messages held at a time, over all streams; beyond it they are given out at once.
const MAX_HELD: usize = 512;

/// The sender's counters.
#[derive(Debug, Default)]
pub struct PlaceIssuer {
    counted: BTreeMap<SigningStream, Done>,
}

impl PlaceIssuer {
    /// The place of the next message of a stream, in order of sending.
    pub fn issue(&mut self, stream: SigningStream, class: Class, counted: bool) -> Option<Place> {
        if self.counted.len() >= MAX_STREAMS && !self.counted.contains_key(&stream) {
            return None;
        }
        let next = self.counted.entry(stream).or_default();
        let telemetry = (class != Class::Control).then_some(next.telemetry);
        let place = Place { control: next.control, telemetry, counted };
        next.on_next(place);
        Some(place)
    }
}

/// The receiver: holds messages back until what was sent before them is there, or no longer waited for.
#[derive(Debug)]
pub struct Resequencer<M> {
    /// By the sender's epoch, so that the oldest go first.
    streams: BTreeMap<(u64, SigningStream), Stream<M>>,
    held: usize,
}

#[derive(Debug)]
struct Stream<M> {
    done: Done,
    /// In order of sending, as far as places tell: by what went before, what is not counted first; then by arrival.
    held: BTreeMap<(u64, u64, bool, u64), Held<M>>,
    arrivals: u64,
}

#[derive(Debug)]
struct Held<M> {
    until: Instant,
    place: Place,
    message: M,
}

impl<M> Default for Resequencer<M> {
    fn default() -> Self {
        Self { streams: BTreeMap::new(), held: 0 }
    }
}

impl<M> Resequencer<M> {
    /// Takes in a message that is seen for the first time. Given back, it can be used now; else [`Resequencer::poll`] will
    /// give it out, at the latest `hold` after `now`. Call `poll` afterwards in either case: it may have been waited for.
    pub fn admit(
        &mut self,
        now: Instant,
        hold: Duration,
        (epoch, stream): (u64, SigningStream),
        place: Place,
        message: M,
    ) -> Option<M> {
        let key = (epoch, stream);
        if !self.streams.contains_key(&key) && !self.make_room() {
            return Some(message);
        }
        // The first one heard of a stream sets its beginning: what was sent earlier may never come.
        let stream = self.streams.entry(key).or_insert_with(|| Stream {
            done: Done { control: place.control, telemetry: place.telemetry.unwrap_or_default() },
            held: BTreeMap::new(),
            arrivals: 0,
        });
        let in_turn = stream.done.allows(place);
        let passes = in_turn && place.telemetry.is_none() && stream.give_up_telemetry_before(place);
        if self.held >= MAX_HELD || (in_turn && !passes) {
            stream.done.on_next(place);
            return Some(message);
        }
        stream.arrivals += 1;
        // Telemetry that is after as many commands was sent before the next of them.
        let key = (place.control, place.telemetry.unwrap_or(u64::MAX), place.counted, stream.arrivals);
        stream.held.insert(key, Held { until: now + hold, place, message });
        self.held += 1;
        None
    }

    /// The next message that may be used now, in order within its stream.
    pub fn poll(&mut self, now: Instant) -> Option<M> {
        if self.held == 0 {
            return None;
        }
        let (stream, key) = self.streams.values_mut().find_map(|stream| {
            let key = stream.ready(now)?;
            Some((stream, key))
        })?;
        let held = stream.held.remove(&key)?;
        stream.done.skip_to(held.place.done());
        self.held -= 1;
        Some(held.message)
    }

    /// When [`Resequencer::poll`] has something at the latest.
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.held == 0 {
            return None;
        }
        self.streams.values().filter_map(Stream::next_release).min()
    }

    /// Forgets the oldest stream that holds nothing, if there are too many.
    fn make_room(&mut self) -> bool {
        if self.streams.len() < MAX_STREAMS {
            return true;
        }
        let idle = self.streams.iter().find(|(_, stream)| stream.held.is_empty()).map(|(key, _)| *key);
        idle.is_some_and(|key| self.streams.remove(&key).is_some())
    }
}

impl<M> Stream<M> {
    /// The first whose turn it is, or else, if one has waited long enough, the first of its class.
    fn ready(&self, now: Instant) -> Option<(u64, u64, bool, u64)> {
        let in_turn = self.held.iter().find(|(_, held)| self.done.allows(held.place));
        let waited = || self.held.values().find(|held| held.until <= now).map(|held| held.place.telemetry.is_some());
        let released = || {
            let telemetry = waited()?;
            self.held.iter().find(|(_, held)| held.place.telemetry.is_some() == telemetry)
        };
        in_turn.or_else(released).map(|(key, _)| *key)
    }

    /// Waits no longer for what telemetry waits for that was sent before `place`; whether there is any.
    fn give_up_telemetry_before(&mut self, place: Place) -> bool {
        let before = |held: &&Held<M>| held.place.telemetry.is_some() && held.place.control <= place.control;
        let last = self.held.values().filter(before).map(|held| held.place.done().telemetry).max();
        self.done.telemetry = self.done.telemetry.max(last.unwrap_or_default());
        last.is_some()
    }

    /// When the first of the held ones has waited long enough; those before it in order go with it.
    fn next_release(&self) -> Option<Instant> {
        self.held.values().map(|held| held.until).min()
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOLD: Duration = Duration::from_millis(100);
    const STREAM: SigningStream = SigningStream { source: Address::new(255, 190), link: 0 };

    fn command(control: u64) -> Place {
        Place { control, telemetry: None, counted: true }
    }

    fn setpoint(control: u64) -> Place {
        Place { control, telemetry: None, counted: false }
    }

    fn parameter(control: u64, telemetry: u64) -> Place {
        Place { control, telemetry: Some(telemetry), counted: true }
    }

    fn drain(order: &mut Resequencer<u32>, now: Instant) -> Vec<u32> {
        std::iter::from_fn(|| order.poll(now)).collect()
    }

    /// What comes out when a message comes in `ms` after the start.
    fn admit(order: &mut Resequencer<u32>, start: Instant, ms: u64, place: Place, message: u32) -> Vec<u32> {
        let now = start + Duration::from_millis(ms);
        let mut out: Vec<u32> = order.admit(now, HOLD, (1, STREAM), place, message).into_iter().collect();
        out.extend(drain(order, now));
        out
    }

    #[test]
    fn what_came_after_a_lost_command_waits_for_it_and_not_longer_than_it_must() {
        let start = Instant::now();
        let mut order = Resequencer::default();
        let admit = |order: &mut Resequencer<u32>, ms, place, message| admit(order, start, ms, place, message);
        assert_eq!(admit(&mut order, 0, command(0), 10), [10]);
        assert_eq!(admit(&mut order, 0, setpoint(1), 11), [11]);
        // Command 1 is lost; a setpoint and command 2 wait for it.
        assert_eq!(admit(&mut order, 10, setpoint(2), 13), []);
        assert_eq!(admit(&mut order, 20, command(2), 14), []);
        assert_eq!(order.next_deadline(), Some(start + Duration::from_millis(110)));
        assert_eq!(admit(&mut order, 80, command(1), 12), [12, 13, 14]);
        assert_eq!(order.next_deadline(), None);
        // Command 3 never comes: given up when the first that waits has waited long enough, and only for it.
        assert_eq!(admit(&mut order, 100, setpoint(4), 15), []);
        assert_eq!(admit(&mut order, 150, command(5), 16), []);
        assert_eq!(drain(&mut order, start + Duration::from_millis(199)), []);
        assert_eq!(drain(&mut order, start + Duration::from_millis(200)), [15]);
        assert_eq!(drain(&mut order, start + Duration::from_millis(249)), []);
        assert_eq!(drain(&mut order, start + Duration::from_millis(250)), [16]);
        assert_eq!(admit(&mut order, 300, command(3), 17), [17], "later still than it was waited for: at once");
        assert_eq!(admit(&mut order, 300, command(6), 18), [18]);
    }

    #[test]
    fn control_does_not_wait_for_a_parameter_which_waits_for_it() {
        let start = Instant::now();
        let mut order = Resequencer::default();
        let admit = |order: &mut Resequencer<u32>, ms, place, message| admit(order, start, ms, place, message);
        assert_eq!(admit(&mut order, 0, command(0), 10), [10]);
        assert_eq!(admit(&mut order, 1, parameter(1, 0), 11), [11]);
        // Parameter 1 is lost: parameter 2 waits. A command does not, and what waits goes before it.
        assert_eq!(admit(&mut order, 2, parameter(1, 2), 13), []);
        assert_eq!(admit(&mut order, 3, command(1), 14), [13, 14]);
        assert_eq!(admit(&mut order, 4, setpoint(2), 15), [15]);
        assert_eq!(admit(&mut order, 50, parameter(1, 1), 12), [12], "too late for its receiver");
        // Command 2 is lost: all that came after it wait.
        assert_eq!(admit(&mut order, 60, parameter(3, 3), 17), []);
        assert_eq!(admit(&mut order, 61, setpoint(3), 18), []);
        assert_eq!(admit(&mut order, 80, command(2), 16), [16, 17, 18]);
        // Parameter 4 is lost and comes before any command.
        assert_eq!(admit(&mut order, 100, parameter(3, 5), 20), []);
        assert_eq!(admit(&mut order, 150, parameter(3, 4), 19), [19, 20]);
        // Parameter 6 never comes.
        assert_eq!(admit(&mut order, 200, parameter(3, 7), 22), []);
        assert_eq!(drain(&mut order, start + Duration::from_millis(300)), [22]);
    }

    #[test]
    fn a_stream_heard_for_the_first_time_begins_where_it_is() {
        let now = Instant::now();
        let mut order = Resequencer::default();
        assert_eq!(order.admit(now, HOLD, (1, STREAM), command(700), 1), Some(1));
        assert_eq!(order.admit(now, HOLD, (1, STREAM), command(701), 2), Some(2));
        let other = SigningStream { link: 1, ..STREAM };
        assert_eq!(order.admit(now, HOLD, (1, other), command(9), 3), Some(3), "streams do not wait for each other");
        assert_eq!(order.admit(now, HOLD, (2, STREAM), command(0), 4), Some(4), "nor do lives of the sender");
    }

    #[test]
    fn memory_is_bounded_and_what_does_not_fit_is_given_out() {
        let now = Instant::now();
        let mut order = Resequencer::default();
        order.admit(now, HOLD, (1, STREAM), command(0), 0);
        let held = (2..2000).filter(|n| order.admit(now, HOLD, (1, STREAM), command(*n), *n as u32).is_none()).count();
        assert_eq!(held, MAX_HELD);
        for link in 0..=255 {
            let stream = SigningStream { link, ..STREAM };
            assert_eq!(order.admit(now, HOLD, (2, stream), command(0), 0), Some(0));
            assert!(order.streams.len() <= MAX_STREAMS);
        }
        assert_eq!(drain(&mut order, now + HOLD).len(), MAX_HELD);
    }

    #[test]
    fn places_count_per_stream_and_their_number_is_bounded() {
        let mut issuer = PlaceIssuer::default();
        let other = SigningStream { link: 1, ..STREAM };
        assert_eq!(issuer.issue(STREAM, Class::Control, true), Some(command(0)));
        assert_eq!(issuer.issue(STREAM, Class::Control, false), Some(setpoint(1)));
        assert_eq!(issuer.issue(other, Class::Control, true), Some(command(0)));
        assert_eq!(issuer.issue(STREAM, Class::Telemetry, true), Some(parameter(1, 0)));
        assert_eq!(issuer.issue(STREAM, Class::Control, true), Some(command(1)));
        assert_eq!(issuer.issue(STREAM, Class::Telemetry, true), Some(parameter(2, 1)));
        let stream = |link| SigningStream { link, ..STREAM };
        let named = (0..=255).filter(|link| issuer.issue(stream(*link), Class::Control, true).is_some());
        assert_eq!(named.count(), MAX_STREAMS);
    }

    proptest! {
        /// Any delays, any losses: nothing is lost or doubled here, nothing waits beyond its time, and what arrives within
        /// the time of the oldest that is missing comes out in order: control always, telemetry as long as no control comes
        /// behind it, which does not wait.
        #[test]
        fn given_out_once_in_time_and_in_order_if_all_come_in_time(
            mut messages in proptest::collection::vec((any::<bool>(), any::<bool>(), 0u64..150, 0u8..10), 1..200),
            only_telemetry in any::<bool>(),
        ) {
            messages.iter_mut().skip(1).for_each(|(_, telemetry, ..)| *telemetry |= only_telemetry);
            let start = Instant::now();
            let mut issuer = PlaceIssuer::default();
            // One message every 5 ms, each with a delay of its own; some of those not counted are lost.
            let mut arrivals: Vec<(u64, u32, Place)> = Vec::new();
            let mut all_in_time = true;
            for (n, (counted, telemetry, delay, luck)) in messages.iter().enumerate() {
                let class = if *telemetry { Class::Telemetry } else { Class::Control };
                let place = issuer.issue(STREAM, class, *counted).unwrap();
                // The first that arrives sets the beginning: it is the first.
                let delay = if n == 0 { &0 } else { delay };
                if *counted || *luck > 0 || n == 0 {
                    all_in_time &= *delay < 100;
                    arrivals.push((n as u64 * 5 + delay, n as u32, place));
                }
            }
            arrivals.sort_by_key(|(at, n, _)| (*at, *n));
            let mut order = Resequencer::default();
            let mut out: Vec<(u64, u32)> = Vec::new();
            let mut next = arrivals.iter().peekable();
            for ms in 0..2_000u64 {
                let now = start + Duration::from_millis(ms);
                while let Some((_, n, place)) = next.next_if(|(at, ..)| *at == ms) {
                    out.extend(order.admit(now, HOLD, (1, STREAM), *place, *n).map(|n| (ms, n)));
                    out.extend(drain(&mut order, now).into_iter().map(|n| (ms, n)));
                }
                let due = order.next_deadline().is_some_and(|due| due <= now);
                let given = drain(&mut order, now);
                prop_assert_eq!(due, !given.is_empty());
                out.extend(given.into_iter().map(|n| (ms, n)));
            }
            let mut given: Vec<u32> = out.iter().map(|(_, n)| *n).collect();
            for (at, n) in &out {
                let arrived = arrivals.iter().find(|(_, m, _)| m == n).unwrap().0;
                prop_assert!(*at <= arrived + 100, "{n} waited {} ms", at - arrived);
            }
            if all_in_time {
                for class in [false, true].into_iter().take(1 + usize::from(only_telemetry)) {
                    let of_class = |n: &u32| messages[*n as usize].0 && messages[*n as usize].1 == class;
                    let counted: Vec<u32> = given.iter().copied().filter(of_class).collect();
                    prop_assert!(counted.is_sorted(), "{counted:?}");
                }
            }
            given.sort_unstable();
            given.dedup();
            prop_assert_eq!(given.len(), arrivals.len());
        }
    }
}
