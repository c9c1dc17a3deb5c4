//! How many copies of a control message leave at once, and over which bearers ([ConClone eq. 2]).
//!
//! A message fails if all its copies do. Copies on different bearers, and on one bearer some time apart, are taken for
//! independent, as in the paper. Those that are sent again when no receipt has come count as long as they still make the deadline;
//! that there is time for them is why a path of 28 % loss needs two copies on each of two bearers, and not eleven in all. A third one
//! spares nearly all commands the wait for a repetition.

use std::time::{Duration, Instant};

use crate::{Bitrate, ByteCount};

/// A copy leaves again when no receipt has come after 1.25 round trips and this.
pub const AGAIN_MARGIN: Duration = Duration::from_millis(10);
/// Copies on one bearer keep this distance: what loses one packet often loses the next.
pub const SPACING: Duration = Duration::from_millis(5);
/// Copies on one bearer before the first receipt can be there.
pub const MOST_EACH: u32 = 4;

/// How sure a message is to arrive, and by when.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reliability {
    /// The chance that none of its copies arrives in time stays below this.
    pub failure: f64,
    /// In time is this long after it was sent, over the propagation of the fastest bearer.
    pub deadline: Duration,
    /// The chance that all copies that leave at once are lost, and a repetition has to be waited for, stays below this.
    pub repeats: f64,
    /// What may be spent on copies that were not asked for by a missing receipt, over all bearers; never more than a tenth
    /// of what these carry. The second copy, on a second bearer, is always sent.
    pub budget: Bitrate,
}

impl Default for Reliability {
    fn default() -> Self {
        Self { failure: 1e-6, deadline: Duration::from_millis(100), repeats: 2e-3, budget: Bitrate::kbps(100) }
    }
}

/// What is known of a bearer that a copy may be sent on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Share of packets lost, 0 to 1.
    pub loss: f64,
    /// Round trip; what waits in the network's queue is part of it.
    pub rtt: Duration,
}

impl Candidate {
    /// How long a message takes on average if it is sent on this bearer alone: the order of "performance" in which bearers are
    /// turned to. Lost ones take as much longer as it takes to notice.
    pub fn expected(&self) -> Duration {
        let loss = self.loss.clamp(0.0, 0.99);
        self.rtt / 2 + again_after(self.rtt).mul_f64(loss / (1.0 - loss))
    }
}

/// A choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copies {
    /// So many bearers, the first of the list.
    pub bearers: usize,
    /// So many copies on each.
    pub each: u32,
}

/// How long to wait for a receipt over a path of this round trip.
pub fn again_after(rtt: Duration) -> Duration {
    rtt.mul_f64(1.25) + AGAIN_MARGIN
}

impl Reliability {
    /// The least number of copies that is enough; of two choices of as many copies that with more bearers. At least two bearers
    /// if there are two. `candidates`, the best first.
    pub fn copies(&self, candidates: &[Candidate]) -> Copies {
        let least = candidates.len().min(2);
        let enough = (least..=candidates.len())
            .flat_map(|bearers| (1..=MOST_EACH).map(move |each| Copies { bearers, each }))
            // A hair of slack: 0.1^6 is to count as 1e-6.
            .filter(|copies| self.chance_of_failure(candidates, *copies) <= self.failure * (1.0 + 1e-9))
            .filter(|copies| chance_of_repetition(candidates, *copies) <= self.repeats * (1.0 + 1e-9))
            .min_by_key(|copies| (copies.bearers as u32 * copies.each, candidates.len() - copies.bearers));
        enough.unwrap_or(Copies { bearers: candidates.len(), each: MOST_EACH })
    }

    /// [ConClone eq. 2] for copies that make the deadline.
    pub fn chance_of_failure(&self, candidates: &[Candidate], copies: Copies) -> f64 {
        let used = || candidates.iter().take(copies.bearers);
        let fastest = used().map(|candidate| candidate.rtt).min().unwrap_or_default();
        let again = again_after(fastest);
        let times = |candidate: &Candidate| {
            let left = self.deadline.checked_sub((candidate.rtt - fastest) / 2)?;
            Some((left.as_secs_f64() / again.as_secs_f64()) as i32 + 1)
        };
        let failed = |candidate: &Candidate| {
            let sent = times(candidate).unwrap_or(0).saturating_mul(copies.each as i32);
            candidate.loss.clamp(0.0, 1.0).powi(sent)
        };
        used().map(failed).product()
    }
}

/// That all copies that leave at once are lost ([ConClone eq. 2]).
pub fn chance_of_repetition(candidates: &[Candidate], copies: Copies) -> f64 {
    candidates
        .iter()
        .take(copies.bearers)
        .map(|candidate| candidate.loss.clamp(0.0, 1.0).powi(copies.each as i32))
        .product()
}

/// What may be spent on copies.
#[derive(Debug, Clone, Copy, Default)]
pub struct Budget {
    /// Bytes.
    left: f64,
    at_us: Option<u64>,
}

/// Of what the bearers carry.
const SHARE: u64 = 10;

impl Budget {
    /// Whether there is something left at `now_us`, on a clock that does not go backwards, of what `most` allows where the bearers
    /// carry `carried`. What is not spent is kept for a second.
    pub fn has_some(&mut self, now_us: u64, most: Bitrate, carried: Bitrate) -> bool {
        let second = most.0.min(carried.0 / SHARE) as f64 / 8.0;
        let since = self.at_us.map_or(1_000_000, |at| now_us.saturating_sub(at));
        self.at_us = self.at_us.max(Some(now_us));
        self.left = (self.left + second * since as f64 / 1e6).min(second);
        self.left > 0.0
    }

    /// Takes from it; it may then owe something.
    pub fn spend(&mut self, bytes: ByteCount) {
        self.left -= bytes.0 as f64;
    }
}

/// What repetitions take that are sent since no receipt has come. Nothing of them is lost, they wait: where word never comes back,
/// what is unacknowledged grows for as long as commands are kept, and all of it is due again each round trip. A network that is silent
/// may keep all of it, and carries it before anything newer once it is back.
#[derive(Debug, Clone, Copy, Default)]
pub struct Repetitions {
    /// Up to then what has been sent is paid for.
    paid_until: Option<Instant>,
    /// What was sent last was few, since word was missing.
    few: bool,
}

/// Whether a bearer's other side tells of what has left on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    InTime,
    /// Word has been missing for long: what has left may be lost.
    Late,
    /// Word is missing, though the other side is heard and little was lost before: most likely what has left waits in the network, and
    /// whatever follows waits behind it.
    Waits,
}

/// A bearer that has lost less than this share has lost little.
const LITTLE_LOST: f64 = 0.1;
const LATE: Duration = Duration::from_millis(300);
const WAITS: Duration = Duration::from_millis(100);

impl Told {
    /// Word has been missing for so long, `overdue`, of which the way back does not account for `there`, on a bearer that has lost this share.
    pub fn of(overdue: Duration, there: Duration, loss: f64) -> Self {
        match loss < LITTLE_LOST {
            true if there > WAITS => Self::Waits,
            _ if overdue > LATE => Self::Late,
            _ => Self::InTime,
        }
    }
}

/// Of what a bearer carries, and at least so much. On a trickle that least would be what it is full of: there it is the second share of what is
/// carried, and no less than the second rate.
const REPETITIONS_SHARE: u64 = 8;
const REPETITIONS_LEAST: Bitrate = Bitrate::kbps(16);
const REPETITIONS_SHARE_ON_TRICKLE: u64 = 16;
const REPETITIONS_ON_TRICKLE: Bitrate = Bitrate::kbps(1);
/// If all waits, no more than this: as soon as word comes of anything, whatever it does not tell of leaves again at once.
const REPETITIONS_IF_WAITING: Bitrate = Bitrate::kbps(4);
/// What was not used is kept for this long.
const REPETITIONS_KEPT: Duration = Duration::from_millis(500);

impl Repetitions {
    /// When the next may leave; `None`: now.
    pub fn wait_until(&self, now: Instant) -> Option<Instant> {
        self.paid_until.filter(|until| *until > now)
    }

    /// Word is in time: what waits for its turn among few does so no longer.
    pub fn on_told(&mut self) {
        if std::mem::take(&mut self.few) {
            self.paid_until = None;
        }
    }

    /// So many bytes leave on a bearer that carries `carried`.
    pub fn on_sent(&mut self, now: Instant, bytes: ByteCount, carried: Bitrate, told: Told) {
        let on_trickle = Bitrate(carried.0 / REPETITIONS_SHARE_ON_TRICKLE).max(REPETITIONS_ON_TRICKLE);
        let least = REPETITIONS_LEAST.min(on_trickle);
        let rate = match told {
            Told::InTime => Bitrate(carried.0 / REPETITIONS_SHARE).max(least),
            Told::Late => least,
            Told::Waits => least.min(REPETITIONS_IF_WAITING),
        };
        self.few = told != Told::InTime;
        let earliest = now.checked_sub(REPETITIONS_KEPT).unwrap_or(now);
        self.paid_until = Some(self.paid_until.map_or(earliest, |until| until.max(earliest)) + rate.time_for(bytes));
    }
}

/// Share of packets that a bearer loses, forgetting the past: the last 128 or so count.
#[derive(Debug, Clone, Copy)]
pub struct LossMeter {
    lost: f64,
    known: f64,
}

const MEMORY: f64 = 128.0;
/// A bearer that was never used is taken for good, but what its first packets say counts for much.
const PRIOR: LossMeter = LossMeter { lost: 0.0, known: 8.0 };
/// Less is not told apart from nothing.
const LEAST: f64 = 1e-7;

impl Default for LossMeter {
    fn default() -> Self {
        PRIOR
    }
}

impl LossMeter {
    /// So many packets more have arrived, and so many have not.
    pub fn add(&mut self, received: u64, lost: u64) {
        let fade = (1.0 - 1.0 / MEMORY).powf((received + lost) as f64);
        // The sum of what is left of each of them.
        let added = MEMORY * (1.0 - fade);
        let share = lost as f64 / (received + lost).max(1) as f64;
        self.lost = self.lost * fade + share * added;
        self.known = self.known * fade + added;
    }

    /// Share lost, 0 to 1.
    pub fn loss(&self) -> f64 {
        (self.lost / self.known).max(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    fn candidate(loss: f64, rtt_ms: u64) -> Candidate {
        Candidate { loss, rtt: Duration::from_millis(rtt_ms) }
    }

    fn copies(candidates: &[Candidate]) -> (usize, u32) {
        let Copies { bearers, each } = Reliability::default().copies(candidates);
        (bearers, each)
    }

    #[test]
    fn as_many_copies_as_the_loss_asks_for() {
        // Three times within the deadline: .284^12 = 2.8e-7; but .284^4 = 6.5e-3 would be repeated.
        assert_eq!(copies(&[candidate(0.284, 20); 2]), (2, 3));
        assert_eq!(copies(&[candidate(0.284, 20); 3]), (3, 2));
        assert_eq!(copies(&[candidate(0.2, 20); 3]), (2, 2));
        assert_eq!(copies(&[candidate(0.05, 20); 3]), (3, 1), "1.3e-4 are repeated, of two copies 2.5e-3");
        assert_eq!(copies(&[candidate(0.04, 20); 3]), (2, 1));
        let patient = Reliability { repeats: 1.0, ..Reliability::default() };
        assert_eq!(patient.copies(&[candidate(0.284, 20); 2]), Copies { bearers: 2, each: 2 });
        assert_eq!(patient.copies(&[candidate(0.2, 20); 3]), Copies { bearers: 3, each: 1 });
        assert_eq!(copies(&[candidate(0.02, 20)]), (1, 2));
        assert_eq!(copies(&[candidate(0.001, 20)]), (1, 1));
        assert_eq!(copies(&[candidate(0.001, 600)]), (1, 2), "no time for another");
        // One that is far behind the other does not help to make the deadline, and is used all the same.
        assert_eq!(copies(&[candidate(0.02, 20), candidate(0.02, 600)]), (2, 2));
        assert_eq!(copies(&[candidate(1.0, 20); 2]), (2, MOST_EACH));
        assert_eq!(copies(&[]).0, 0);
    }

    #[test]
    fn the_papers_equation() {
        let one_shot = Reliability { deadline: Duration::ZERO, ..Reliability::default() };
        for (bearers, failure) in [(1, 0.1), (2, 0.01), (3, 0.001)] {
            let all = [candidate(0.1, 20); 3];
            let chance = one_shot.chance_of_failure(&all, Copies { bearers, each: 1 });
            assert!((chance - failure).abs() < 1e-12, "{chance}");
        }
    }

    #[test]
    fn the_better_bearer_is_the_one_that_is_sooner_there_on_average() {
        assert!(candidate(0.0, 40).expected() < candidate(0.4, 30).expected());
        assert!(candidate(0.1, 30).expected() < candidate(0.0, 60).expected());
        assert!(candidate(1.0, 1).expected() < Duration::from_secs(5));
    }

    #[test]
    fn loss_is_learned_within_seconds_and_forgotten_as_fast() {
        let mut meter = LossMeter::default();
        assert_eq!(meter.loss(), LEAST);
        meter.add(8, 2);
        assert!((0.1..0.12).contains(&meter.loss()), "{}", meter.loss());
        (0..300).for_each(|_| meter.add(7, 3));
        assert!((0.28..0.31).contains(&meter.loss()), "{}", meter.loss());
        (0..1_500).for_each(|_| meter.add(1, 0));
        assert!((1e-7..1e-5).contains(&meter.loss()), "{}", meter.loss());
        meter.add(1_000_000, 0);
        assert_eq!(meter.loss(), LEAST);
        meter.add(0, 0);
        assert_eq!(meter.loss(), LEAST);
    }

    #[test]
    fn a_budget_is_a_second_of_its_rate() {
        let mut budget = Budget::default();
        let has_some = |budget: &mut Budget, at_us| budget.has_some(at_us, Bitrate::kbps(8), Bitrate::mbps(9));
        assert!(has_some(&mut budget, 5_000_000));
        budget.spend(ByteCount(1_500));
        assert!(!has_some(&mut budget, 5_100_000) && !has_some(&mut budget, 5_000_000));
        assert!(has_some(&mut budget, 5_600_000));
        budget.spend(ByteCount(100));
        assert!(has_some(&mut budget, u64::MAX));
        budget.spend(ByteCount(1_000));
        assert!(!has_some(&mut budget, u64::MAX));
        // A slow bearer is not filled with copies.
        let mut budget = Budget::default();
        budget.has_some(0, Bitrate::kbps(100), Bitrate::kbps(100));
        budget.spend(ByteCount(1_250));
        assert!(!budget.has_some(0, Bitrate::kbps(100), Bitrate::kbps(100)));
    }

    /// Bits that are repeated in 10 s on a bearer that carries so much, in packets of so many bytes, of which is told what `told` says of
    /// a time in ms; and what has repeated them, at its end.
    #[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
    fn repeated(carried: Bitrate, bytes: u64, told: impl Fn(u64) -> Told) -> (u64, Repetitions, Instant) {
        let start = Instant::now();
        let mut repetitions = Repetitions::default();
        let mut sent = 0;
        for ms in 0..10_000 {
            let now = start + Duration::from_millis(ms);
            if repetitions.wait_until(now).is_none() {
                repetitions.on_sent(now, ByteCount(bytes), carried, told(ms));
                sent += bytes * 8;
            }
        }
        (sent, repetitions, start + Duration::from_secs(10))
    }

    #[test]
    fn repetitions_take_an_eighth_of_a_bearer() {
        let (sent, repetitions, end) = repeated(Bitrate::mbps(2), 1_000, |_| Told::InTime);
        assert!((2_500_000..2_640_000).contains(&sent), "{sent} bits in 10 s, and half a second's from before");
        let until = repetitions.wait_until(end).unwrap();
        assert!(repetitions.wait_until(until).is_none());
    }

    #[test]
    fn a_silent_network_is_not_filled_with_repetitions() {
        let silent = |loss: f64| {
            repeated(Bitrate::mbps(2), 250, |ms| Told::of(Duration::from_millis(ms), Duration::from_millis(ms), loss)).0
        };
        // An eighth of 2 Mbit/s for 0.3 s, and half a second's from before; then 16 kbit/s.
        let sent = silent(0.2);
        assert!((300_000..370_000).contains(&sent), "{sent} bits in 10 s");
        // For 0.1 s; then 4 kbit/s.
        let sent = silent(0.01);
        assert!((150_000..200_000).contains(&sent), "{sent} bits in 10 s, where little was lost before");
        assert_eq!(Told::of(LATE, WAITS, 0.0), Told::InTime, "it is the way back on which word waits");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
    fn once_word_is_back_nothing_waits_for_what_was_few() {
        let now = Instant::now();
        for (told, waits_still) in [(Told::Waits, false), (Told::Late, false), (Told::InTime, true)] {
            let mut repetitions = Repetitions::default();
            repetitions.on_sent(now, ByteCount(100_000), Bitrate::mbps(2), told);
            assert!(repetitions.wait_until(now).is_some());
            repetitions.on_told();
            assert_eq!(repetitions.wait_until(now).is_some(), waits_still, "{told:?}");
        }
    }

    #[test]
    fn nor_is_a_trickle() {
        let late = [(24_000, 1_500), (2_000, 1_000), (0, 1_000), (200_000, 12_500)].map(|of| (Told::Late, of));
        let waits = [(24_000, 1_500), (200_000, 4_000)].map(|of| (Told::Waits, of));
        for (told, (carried, share)) in late.into_iter().chain(waits) {
            let (sent, ..) = repeated(Bitrate(carried), 120, |_| told);
            // Half a second's from before, and one more that is not yet paid for.
            let most = share * 21 / 2 + 120 * 8;
            assert!((share * 10..=most).contains(&sent), "{sent} bits in 10 s of {carried} bit/s");
        }
    }

    proptest! {
        #[test]
        fn a_choice_is_within_bounds_and_worse_bearers_never_mean_less(
            losses in prop::collection::vec((0.0..=1.0f64, 1..2_000u64), 1..6),
            more in 0.0..1.0f64,
        ) {
            let candidates: Vec<_> = losses.iter().map(|(loss, rtt)| candidate(*loss, *rtt)).collect();
            let worse: Vec<_> = losses.iter().map(|(loss, rtt)| candidate(loss + more * (1.0 - loss), *rtt)).collect();
            let (chosen, for_worse) = (copies(&candidates), copies(&worse));
            prop_assert!(chosen.0 >= candidates.len().min(2) && chosen.0 <= candidates.len());
            prop_assert!((1..=MOST_EACH).contains(&chosen.1));
            prop_assert!(for_worse.0 as u32 * for_worse.1 >= chosen.0 as u32 * chosen.1);
            prop_assert!(candidates.iter().all(|candidate| candidate.expected() < Duration::from_secs(600)));
        }
    }

    #[test]
    fn a_receipt_is_waited_for_a_little_longer_than_it_takes() {
        assert_eq!(again_after(RTT), Duration::from_millis(35));
    }
}
