//! Others on the link: whether there are any, and what is our share.
//!
//! Two packets that leave at once meet a queue one behind the other, whoever else is in it: they arrive as far apart as the link
//! takes for one, so the head of each frame tells what the link carries in all. What a train of packets brings is what the link
//! carries for us, since others get in between. Where the second is much less than the first for seconds, we have company, and
//! then neither a queue nor a train tells what we should send: he who sends less is told to send less still.
//!
//! Where a link is so slow, or frames so small, that those of two fit one beside the other, nobody gets in between, and trains bring
//! nearly all. But a link whose pairs agree carries no less than they say, all the time that something waits: where there is always a queue, what of ours
//! arrives is our share.
//!
//! So a share of the link takes the place of the capacity. While all others yield to a queue as well, it grows by addition and
//! falls by a factor when the floor rises over its own low of late, which all see at once however their frames lie in time; that
//! makes shares equal (Chiu and Jain 1989). Not all see each rise, so who has more than half falls by more. Beside somebody who fills
//! the queue whatever we do, it falls only at losses, and begins high enough for pairs: who sends frames of one packet has none, and
//! would not see that he is starved.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use crate::Bitrate;
use crate::cc::minimum::Minimum;

/// Packets that left within this of each other left at once.
const AT_ONCE_US: u64 = 300;
/// Smaller packets take their time by their number, not by their size.
const LEAST_BYTES: u64 = 500;
/// Radios give out several packets at once. So no link counts for more than a packet a millisecond, 10 Mbit/s, and others on a faster
/// one are not seen.
const LEAST_GAP_US: u64 = 1_000;
/// Pairs are averaged over this many, and no longer than this.
const PAIRS: f64 = 60.0;
const PAIRS_SPAN: Duration = Duration::from_secs(2);
/// One that comes later and tells of so many times more or less is of another link.
const OTHER: f64 = 1.1;
/// On a link below this, pairs are made of every so manieth frame only, while there is nobody else.
const SLOW: Bitrate = Bitrate::kbps(1_500);
const SELDOM: NonZeroU32 = NonZeroU32::new(6).expect("not 0");
/// Nothing is said before so many, or so long after the last one.
const FIRST_PAIRS: u32 = 30;
const STALE: Duration = Duration::from_secs(4);
/// Pairs agree that differ by no more than this from their mean, in the mean. Those less than [`LEAST_GAP_US`] apart do not.
const AGREED: f64 = 0.1;
/// There is a queue if the floor is above this, what the link takes for a packet and a half, and [`RISE`], and by that above its least of late, too. And always
/// is most of the time.
const WAITS_BITS: f64 = 1.5 * super::MSS as f64 * 8.0;
const ALWAYS: f64 = 0.5;
/// The floor has never been above this in [`LOW_SPAN`], fourteen packets, if all others yield: who fills the queue leaves it after each loss and comes back.
const SHORT_BITS: f64 = 14.0 * super::MSS as f64 * 8.0;
/// A link that brings less than so many pairs in this time stutters: its queue is nobody's doing.
const STEADY_PAIRS: usize = 8;
const STEADY_SPAN: Duration = Duration::from_millis(1_500);
/// What we get is smoothed over this long, and over less to see the end.
const MINE_SPAN: f64 = 3.0;
const RECENT_SPAN: f64 = 1.0;
/// There are others if we get less of the link than this, and none any more above that.
const COMPANY_BELOW: f64 = 0.7;
const ALONE_ABOVE: f64 = 0.85;
/// Growth of the share in a second.
const GROWTH: f64 = 0.1;
/// The floor's rise over the least of [`LOW_SPAN`] at which all give way, to this.
const RISE: Duration = Duration::from_millis(4);
/// The same in what the link takes time for: three full packets.
const RISE_BITS: f64 = 3.0 * super::MSS as f64 * 8.0;
const LOW_SPAN: Duration = Duration::from_secs(3);
const AT_RISE: f64 = 0.9;
/// Who has more than half of the link gives way by so much more of what he has beyond: whether a rise is seen, and how often, is a
/// matter of how his frames lie in time, and small differences add up.
const BEYOND_HALF: f64 = 0.3;
/// What a fall of the share brings is seen a round trip and this long after.
const FLOOR_SPAN: Duration = Duration::from_millis(150);
/// Somebody fills the queue if the floor has been above this for so long, though all who yield would have, and that within so long.
const FULL: Duration = Duration::from_millis(40);
const FULL_AFTER: Duration = Duration::from_secs(1);
const FULL_SPAN: Duration = Duration::from_secs(2);
const AT_LOSS: f64 = 0.85;
/// Bounds of the share; beside somebody who fills the queue, he keeps half.
const LEAST: f64 = 0.02;
const MOST_IF_CROWDED: f64 = 0.5;
/// Who comes and fills the queue takes nearly all before he is noticed, and less than this makes no frames of two packets, so no pairs.
const FIRST_IF_LONG: f64 = 0.15;

/// What is known of others.
#[derive(Debug)]
pub(super) struct Company {
    /// First packet of a frame: (sent, arrived), each by its clock, µs.
    head: Option<(u64, u64)>,
    /// Seconds that the link takes for a bit, by pairs, and how far single ones are from it, as a share.
    link: f64,
    differ: f64,
    pairs: u32,
    /// When pairs were heard of, in [`STEADY_SPAN`].
    heard: VecDeque<Instant>,
    /// Of ours that arrived since the last update.
    arrived_bits: u64,
    /// What of the link is ours.
    mine: Option<Mine>,
    /// Our share of the link, while there are others.
    share: Option<f64>,
    /// They are beside our trains, not in between; and the share has fallen since that was seen.
    beside: bool,
    fell_beside: bool,
    /// What waits is nobody's: the share has grown to all, and nothing rose.
    nobodys: bool,
    low: Minimum<Duration>,
    high: Minimum<Reverse<Duration>>,
    lost: bool,
    fell: Option<Instant>,
    /// The floor has been above [`FULL`] since then, and was when somebody filled the queue for sure.
    full_since: Option<Instant>,
    full: Option<Instant>,
    last: Option<Instant>,
}

/// What of the link is ours, bit/s.
#[derive(Debug, Clone, Copy)]
struct Mine {
    since: Instant,
    /// What trains bring.
    trains: Smoothed,
    /// What arrives.
    arrives: Smoothed,
    /// Share of the time in which there is a queue, smoothed over [`MINE_SPAN`].
    waits: f64,
}

/// Smoothed over [`MINE_SPAN`] and [`RECENT_SPAN`].
#[derive(Debug, Clone, Copy)]
struct Smoothed {
    long: f64,
    recent: f64,
}

impl Smoothed {
    fn most(&self) -> f64 {
        self.long.max(self.recent)
    }

    fn update(&mut self, value: f64, elapsed: f64) {
        self.long += (value - self.long) * elapsed / MINE_SPAN;
        self.recent += (value - self.recent) * elapsed / RECENT_SPAN;
    }
}

impl Company {
    pub fn new() -> Self {
        Self {
            head: None,
            link: 0.0,
            differ: 0.0,
            pairs: 0,
            heard: VecDeque::new(),
            arrived_bits: 0,
            mine: None,
            share: None,
            beside: false,
            fell_beside: false,
            nobodys: false,
            low: Minimum::new(LOW_SPAN),
            high: Minimum::new(LOW_SPAN),
            lost: false,
            fell: None,
            full: None,
            full_since: None,
            last: None,
        }
    }

    /// Takes in a packet that arrived, in order of sending; `leads`: the first of a frame.
    pub fn on_arrival(&mut self, now: Instant, sent_us: u64, arrived_us: u64, bytes: u64, leads: bool) {
        self.arrived_bits += bytes * 8;
        let head = std::mem::replace(&mut self.head, leads.then_some((sent_us, arrived_us)));
        let Some((head_sent_us, head_arrived_us)) = head else { return };
        if sent_us.saturating_sub(head_sent_us) > AT_ONCE_US || bytes < LEAST_BYTES {
            return;
        }
        let apart_us = arrived_us.saturating_sub(head_arrived_us);
        let gap_us = apart_us.max(LEAST_GAP_US);
        let taken = gap_us as f64 / 1e6 / (bytes * 8) as f64;
        let since = self.heard.back().map_or(PAIRS_SPAN, |at| now.saturating_duration_since(*at));
        let is_other = taken > self.link * OTHER || taken * OTHER < self.link;
        if since >= STALE || since >= PAIRS_SPAN && is_other {
            // A link that carried next to nothing until now may be another one.
            (self.pairs, self.mine) = (0, None);
        }
        self.pairs = self.pairs.saturating_add(1);
        let weight = (1.0 / f64::from(self.pairs).min(PAIRS)).max(since.as_secs_f64() / PAIRS_SPAN.as_secs_f64());
        self.link += (taken - self.link) * weight.min(1.0);
        let differs = if apart_us < LEAST_GAP_US { 1.0 } else { (taken / self.link - 1.0).abs() };
        self.differ += (differs - self.differ) * weight.min(1.0);
        self.heard.push_back(now);
        self.forget(now);
    }

    fn forget(&mut self, now: Instant) {
        while self.heard.len() > 1
            && self.heard.front().is_some_and(|at| now.saturating_duration_since(*at) > STEADY_SPAN)
        {
            self.heard.pop_front();
        }
    }

    /// The first two packets of every so manieth frame are to leave at once. On a slow link the second is in the way of commands,
    /// so there, unless there are others, no more than it takes to see that it is one.
    pub fn pair_every(&self) -> NonZeroU32 {
        let is_slow = self.pairs >= FIRST_PAIRS && self.link * SLOW.0 as f64 > 1.0;
        if is_slow && self.share.is_none() { SELDOM } else { NonZeroU32::MIN }
    }

    /// Takes in a loss.
    pub fn on_loss(&mut self) {
        self.lost = true;
    }

    /// Judges anew. `capacity`: what trains bring; `floor`: least queue of late; `rtt`: with the queue; `satisfied`: the encoder
    /// makes no more anyway.
    pub fn update(&mut self, now: Instant, capacity: Bitrate, floor: Duration, rtt: Duration, satisfied: bool) {
        let elapsed = self.last.replace(now).map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        let arrived = std::mem::take(&mut self.arrived_bits) as f64 / elapsed.as_secs_f64().max(1e-3);
        let elapsed = elapsed.as_secs_f64().min(0.2);
        let lost = std::mem::take(&mut self.lost);
        self.low.update(now, floor);
        self.high.update(now, Reverse(floor));
        self.forget(now);
        let capacity = capacity.0 as f64;
        let first = Smoothed { long: capacity, recent: capacity };
        let mine = self.mine.get_or_insert(Mine { since: now, trains: first, arrives: first, waits: 0.0 });
        mine.trains.update(capacity, elapsed);
        mine.arrives.update(arrived, elapsed);
        let risen = floor.saturating_sub(self.low.value().unwrap_or_default());
        let waits = floor > RISE && floor.as_secs_f64() > self.link * WAITS_BITS;
        self.nobodys &= waits;
        let waits = waits && risen >= RISE;
        mine.waits += (f64::from(u8::from(waits)) - mine.waits) * elapsed / MINE_SPAN;
        // Trains come to what the link carries in steps, pairs tell it at once.
        let lasts = now.saturating_duration_since(mine.since).as_secs_f64() >= MINE_SPAN;
        let (arrives, most, always) =
            (mine.arrives.long * self.link, mine.arrives.most() * self.link, mine.waits > ALWAYS);
        let (mine, recent) = (mine.trains.long * self.link, mine.trains.recent * self.link);
        if floor <= FULL {
            self.full_since = None;
        } else if self.is_full(now) {
            // As long as it is so, no pairs are needed: he may leave us no room for any.
            self.full = Some(now);
        } else if self.heard.len() >= STEADY_PAIRS {
            let since = *self.full_since.get_or_insert(now);
            if now.saturating_duration_since(since) > FULL_AFTER {
                self.full = Some(now);
            }
        }
        let is_known =
            self.pairs >= FIRST_PAIRS && self.heard.back().is_some_and(|at| now.saturating_duration_since(*at) < STALE);
        let is_short = self.high.value().is_none_or(|high| high.0.as_secs_f64() < self.link * SHORT_BITS);
        let is_somebodys = always && is_short && !self.is_full(now) && !self.nobodys;
        let are_beside = self.differ <= AGREED && is_somebodys && most < COMPANY_BELOW;
        self.share = match self.share {
            None if is_known && lasts && mine.max(recent) < COMPANY_BELOW && !satisfied => {
                Some(if floor > FULL { mine.max(FIRST_IF_LONG) } else { mine })
            }
            None if is_known && lasts && are_beside && !satisfied => {
                (self.beside, self.fell_beside) = (true, false);
                // What rises above the floor of now is theirs; a path that has become longer does not.
                self.low.reset_to(now, floor);
                Some(arrives)
            }
            Some(share) if is_known && self.beside => Some(self.next(now, share, elapsed, floor, rtt, lost).max(LEAST)),
            // Trains that leave fast now and then bring nearly all of a link of which others fill the queue.
            Some(share) if is_known && (recent < ALONE_ABOVE || self.is_full(now) && mine < ALONE_ABOVE) => {
                Some(self.next(now, share, elapsed, floor, rtt, lost).max(LEAST))
            }
            _ => None,
        };
        // Who has come to have all is alone.
        if self.beside && self.share.is_some_and(|share| share >= 1.0) {
            (self.share, self.nobodys) = (None, !self.fell_beside);
        }
        self.beside &= self.share.is_some() && is_short && !self.is_full(now);
    }

    fn next(&mut self, now: Instant, share: f64, elapsed: f64, floor: Duration, rtt: Duration, lost: bool) -> f64 {
        let since = self.fell.map_or(Duration::MAX, |at| now.saturating_duration_since(at));
        let (falls, most) = if self.is_full(now) {
            ((lost && since > rtt).then_some(AT_LOSS), MOST_IF_CROWDED)
        } else {
            let rise = floor.saturating_sub(self.low.value().unwrap_or_default());
            let limit = RISE.max(Duration::from_secs_f64(self.link * RISE_BITS));
            // What others do at once tells no more until the fall has been seen.
            if rise >= limit && since <= rtt + FLOOR_SPAN {
                return share;
            }
            ((rise >= limit).then_some(AT_RISE - BEYOND_HALF * (share - 0.5).max(0.0)), 1.0)
        };
        match falls {
            Some(factor) => {
                self.fell = Some(now);
                self.fell_beside = true;
                share * factor
            }
            None => (share + GROWTH * elapsed).min(most),
        }
    }

    fn is_full(&self, now: Instant) -> bool {
        self.full.is_some_and(|at| now.saturating_duration_since(at) < FULL_SPAN)
    }

    /// There are others, and what waits is theirs. Where they are beside our trains that is not known before the first fall of the share: the path may have
    /// become longer, and then it grows to all.
    pub fn is_sure(&self) -> bool {
        self.share.is_some() && (!self.beside || self.fell_beside)
    }

    /// None are seen, and pairs do not agree: the link itself varies.
    pub fn is_unlikely(&self) -> bool {
        self.share.is_none() && self.pairs >= FIRST_PAIRS && self.differ > AGREED
    }

    /// Somebody keeps the queue long, whatever we do.
    pub fn is_crowded(&self, now: Instant) -> bool {
        self.share.is_some() && self.is_full(now)
    }

    /// What is ours of what the link carries, while there are others.
    pub fn share(&self) -> Option<Bitrate> {
        self.share.map(|share| Bitrate((share / self.link.max(1e-12)) as u64))
    }

    /// What trains bring is found out anew.
    pub fn forget_trains(&mut self) {
        self.mine = None;
        self.share = None;
        self.beside = false;
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    const LINK_US: u64 = 2_000;
    const RTT: Duration = Duration::from_millis(60);

    /// `seconds` of frames at 30 Hz whose heads come 2 ms apart (1000 bytes: 4 Mbit/s), while trains bring `mbps` and the floor is
    /// `floor`.
    fn run(company: &mut Company, now: &mut Instant, seconds: u64, mbps: u64, floor: Duration) {
        for _ in 0..seconds * 30 {
            *now += Duration::from_micros(33_333);
            company.on_arrival(*now, 0, 0, 1000, true);
            company.on_arrival(*now, 0, LINK_US, 1000, false);
            company.update(*now, Bitrate::mbps(mbps), floor, RTT, false);
        }
    }

    #[test]
    fn who_gets_all_is_alone() {
        let (mut company, mut now) = (Company::new(), Instant::now());
        run(&mut company, &mut now, 10, 4, Duration::ZERO);
        assert_eq!(company.share(), None);
    }

    #[test]
    fn a_share_grows_until_the_floor_rises_and_ends_with_the_company() {
        let (mut company, mut now) = (Company::new(), Instant::now());
        run(&mut company, &mut now, 4, 1, Duration::ZERO);
        let before = company.share().expect("a quarter of the link is company");
        run(&mut company, &mut now, 2, 1, Duration::ZERO);
        let grown = company.share().expect("still");
        assert!(grown >= before + Bitrate::kbps(700), "{before:?} {grown:?}");
        run(&mut company, &mut now, 1, 1, Duration::from_millis(12));
        assert!(company.share().expect("still") < grown * 0.8);
        assert!(!company.is_crowded(now), "nobody fills the queue");
        run(&mut company, &mut now, 6, 4, Duration::ZERO);
        assert_eq!(company.share(), None, "the others have gone");
    }

    /// `seconds` of frames at 30 Hz of which a tenth of a second has the first floor, and a fifth the second; heads come `apart_us` apart in turn, and 0.5
    /// Mbit/s arrive, though trains bring `kbps`.
    fn beside(
        company: &mut Company,
        now: &mut Instant,
        seconds: usize,
        kbps: u64,
        floor_ms: [u64; 2],
        apart_us: [u64; 2],
    ) {
        for frame in 0..seconds * 30 {
            *now += Duration::from_micros(33_333);
            company.on_arrival(*now, 0, 0, 1000, true);
            company.on_arrival(*now, 0, apart_us[frame % 2], 1000, false);
            let floor = Duration::from_millis(floor_ms[usize::from(frame % 9 >= 3)]);
            company.update(*now, Bitrate::kbps(kbps), floor, RTT, false);
        }
    }

    #[test]
    fn who_gets_little_though_something_always_waits_is_not_alone() {
        let like = [LINK_US; 2];
        for (floor_ms, apart_us, are_beside, what) in [
            ([8, 14], like, true, "a packet and a half and more, which others make longer"),
            ([0, 0], like, false, "a camera that makes little"),
            ([2, 3], like, false, "less than a packet and a half"),
            ([14, 14], like, false, "a longer path"),
            ([20, 40], like, false, "so much only where somebody fills the queue"),
            ([8, 14], [LINK_US * 3 / 4, LINK_US * 5 / 4], false, "what the link carries is not known so well"),
            ([8, 14], [LINK_US / 5; 2], false, "nor where it is more than a packet in a millisecond"),
        ] {
            let (mut company, mut now) = (Company::new(), Instant::now());
            beside(&mut company, &mut now, 6, 3_600, floor_ms, apart_us);
            assert_eq!(company.beside, are_beside, "{what}");
        }
        let (mut company, mut now) = (Company::new(), Instant::now());
        beside(&mut company, &mut now, 5, 3_600, [8, 14], like);
        let share = company.share().expect("company");
        beside(&mut company, &mut now, 3, 3_600, [0, 0], like);
        assert!(company.share().is_some_and(|now| now > share), "it grows, whatever trains bring");
        beside(&mut company, &mut now, 6, 3_600, [0, 0], like);
        assert_eq!(company.share(), None, "who has come to have all is alone");
    }

    #[test]
    fn a_longer_path_is_taken_for_others_once_at_most_and_never_for_sure() {
        let (mut company, mut now) = (Company::new(), Instant::now());
        beside(&mut company, &mut now, 6, 3_600, [0, 0], [LINK_US; 2]);
        let mut shared = 0;
        for second in 0..60 {
            beside(&mut company, &mut now, 1, 3_600, [18, 18], [LINK_US; 2]);
            assert!(!company.is_sure());
            shared += u32::from(company.share().is_some());
            assert!(second < 14 || company.share().is_none());
        }
        assert!(shared > 0, "it looks like that at first");
    }

    #[test]
    fn beside_one_who_begins_to_fill_the_queue_trains_say_when_he_has_gone() {
        // 1 Mbit/s: fourteen packets take 139 ms.
        let (mut company, mut now) = (Company::new(), Instant::now());
        beside(&mut company, &mut now, 5, 900, [16, 24], [8_000; 2]);
        assert!(company.beside);
        beside(&mut company, &mut now, 4, 500, [60, 60], [8_000; 2]);
        assert!(company.share().is_some_and(|share| share <= Bitrate::kbps(501)), "half at most");
        beside(&mut company, &mut now, 12, 950, [60, 60], [8_000; 2]);
        assert_eq!(company.share(), None);
    }

    /// Left of a share of `mbps` of 4 Mbit/s once the floor has risen.
    fn left_of(mbps: u64) -> f64 {
        let (mut company, mut now) = (Company::new(), Instant::now());
        run(&mut company, &mut now, 3, 1, Duration::ZERO);
        company.share = Some(mbps as f64 / 4.0);
        run(&mut company, &mut now, 1, 1, Duration::ZERO);
        let before = company.share().expect("company");
        now += Duration::from_millis(33);
        company.update(now, Bitrate::mbps(1), Duration::from_millis(12), RTT, false);
        company.share().expect("still").0 as f64 / before.0 as f64
    }

    #[test]
    fn who_has_more_than_half_gives_way_by_more() {
        assert!((left_of(1) - AT_RISE).abs() < 0.001, "{}", left_of(1));
        assert!(left_of(3) < AT_RISE - 0.05, "{}", left_of(3));
    }

    #[test]
    fn beside_one_who_fills_the_queue_only_losses_count() {
        let (mut company, mut now) = (Company::new(), Instant::now());
        run(&mut company, &mut now, 3, 1, Duration::ZERO);
        run(&mut company, &mut now, 12, 1, Duration::from_millis(150));
        assert!(company.is_crowded(now));
        assert!(
            company.share().is_some_and(|share| share.0.abs_diff(2_000_000) < 1_000),
            "half: {:?}",
            company.share()
        );
        company.on_loss();
        now += Duration::from_millis(33);
        company.update(now, Bitrate::mbps(1), Duration::from_millis(150), RTT, false);
        assert!(company.share().expect("still") < Bitrate::mbps(2) * 0.9);
    }

    fn pair_after_a_while(company: &mut Company, now: Instant, apart_us: u64) {
        company.on_arrival(now, 0, 0, 1000, true);
        company.on_arrival(now, 0, apart_us, 1000, false);
        company.update(now, Bitrate::kbps(100), Duration::from_millis(150), RTT, false);
    }

    #[test]
    fn who_was_left_next_to_nothing_takes_enough_to_see_the_link_by() {
        let (mut company, mut now) = (Company::new(), Instant::now());
        run(&mut company, &mut now, 10, 4, Duration::ZERO);
        // Somebody comes and fills the queue. The sender hears nothing for a while, and then sends frames of a packet.
        run(&mut company, &mut now, 2, 4, Duration::from_millis(150));
        company.forget_trains();
        for _ in 0..100 {
            now += Duration::from_micros(33_333);
            company.update(now, Bitrate::kbps(100), Duration::from_millis(150), RTT, false);
        }
        assert!(company.is_crowded(now), "it is the same queue, though no pair tells so");
        let share = company.share().expect("a fortieth of the link is company");
        assert!(share >= Bitrate::kbps(600), "{share:?}");
        pair_after_a_while(&mut company, now, LINK_US);
        assert!(company.share().is_some(), "the first pair after a while tells of the same link");
        now += Duration::from_secs(3);
        pair_after_a_while(&mut company, now, 3 * LINK_US);
        assert_eq!(company.share(), None, "it is another one");
    }

    #[test]
    fn beside_a_full_queue_trains_that_bring_nearly_all_have_to_do_so_for_seconds() {
        let (mut company, mut now) = (Company::new(), Instant::now());
        run(&mut company, &mut now, 6, 1, Duration::from_millis(150));
        assert!(company.is_crowded(now));
        run(&mut company, &mut now, 3, 4, Duration::from_millis(150));
        assert!(company.share().is_some(), "for a moment");
        run(&mut company, &mut now, 6, 4, Duration::from_millis(150));
        assert_eq!(company.share(), None, "it is the path that has become longer");
    }

    #[test]
    fn a_link_that_comes_back_is_not_shared_until_trains_have_had_time_to_find_it() {
        let (mut company, mut now) = (Company::new(), Instant::now());
        run(&mut company, &mut now, 10, 4, Duration::ZERO);
        // A trickle: no frame of two packets.
        for _ in 0..300 {
            now += Duration::from_micros(33_333);
            company.update(now, Bitrate::kbps(60), Duration::ZERO, RTT, false);
        }
        run(&mut company, &mut now, 2, 1, Duration::ZERO);
        assert_eq!(company.share(), None, "trains are behind, and that is all");
        run(&mut company, &mut now, 10, 4, Duration::ZERO);
        assert_eq!(company.share(), None);
    }

    #[test]
    fn a_link_that_stutters_is_not_crowded() {
        let (mut company, mut now) = (Company::new(), Instant::now());
        run(&mut company, &mut now, 3, 1, Duration::ZERO);
        for _ in 0..20 {
            now += Duration::from_millis(500);
            company.update(now, Bitrate::mbps(1), Duration::from_millis(200), RTT, false);
            assert!(!company.is_crowded(now));
        }
        assert_eq!(company.share(), None, "and nothing is known of it after a while");
    }
}
