//! Blackouts: nothing is heard though something should be; and what the network has kept meanwhile.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Silence beyond the round trip that makes a blackout.
const PATIENCE: Duration = Duration::from_millis(120);
/// Silence that makes a pause: beyond when the oldest packet should have been answered of which nothing was heard, and since the last word;
/// neither less than so many packets take.
const PAUSE: Duration = Duration::from_millis(25);
const QUIET: Duration = Duration::from_millis(35);
const PAUSE_PACKETS: f64 = 4.0;
/// What word was held back for longer by was an outage. What it is usually held back for is smoothed, and so is by how much it differs, with
/// the weights of RFC 6298 §2; so many times the latter more are usual too.
const LONGEST_HOLD: Duration = Duration::from_millis(120);
const HOLD_WEIGHT: f64 = 1.0 / 8.0;
const DEVIATION_WEIGHT: f64 = 1.0 / 4.0;
const DEVIATIONS: f64 = 2.0;
/// Of packets that leave within this time of each other one is enough to wait for an answer to; of so many the oldest are remembered.
const TOGETHER: Duration = Duration::from_millis(3);
const MAX_UNHEARD: usize = 256;
/// A packet that has waited no longer than this was not kept.
const STALE: Duration = Duration::from_millis(100);
/// A shorter blackout, as of a handover, has kept little: frames that leave at the first word are not late by much.
const LONG: Duration = Duration::from_millis(600);
/// What was kept is through after this long, or was lost.
const LONGEST_CLEARING: Duration = Duration::from_secs(3);

/// Watches for silence.
#[derive(Debug, Default)]
pub(super) struct Stall {
    /// When the first packet left since something was last heard; by the sender's clock, µs, too.
    unanswered: Option<(Instant, u64)>,
    stalled: bool,
    /// When those left of which nothing was heard, nor of any that left later; by the sender's clock, µs, too.
    unheard: VecDeque<(Instant, u64)>,
    /// When something was heard last.
    last_word: Option<Instant>,
    /// When the newest packet left, by the sender's clock, µs.
    last_us: u64,
    clearing: Option<Clearing>,
    hold: Hold,
}

/// For how long word of what has arrived is held back, or lost again and again: where somebody thins it out, silence says nothing before then. What
/// the way back itself holds up does not count: where both ways pause together, that is a pause.
#[derive(Debug, Default)]
struct Hold {
    /// Smoothed, and by how much it differs, in seconds.
    known: Option<(f64, f64)>,
}

impl Hold {
    fn update(&mut self, held: Duration) {
        if held > LONGEST_HOLD {
            return;
        }
        let held = held.as_secs_f64();
        self.known = Some(self.known.map_or((held, held / 2.0), |(mean, deviation)| {
            let off = (held - mean).abs();
            (mean + (held - mean) * HOLD_WEIGHT, deviation + (off - deviation) * DEVIATION_WEIGHT)
        }));
    }

    /// Longer is not usual.
    fn usual(&self) -> Duration {
        let usual = self.known.map_or(0.0, |(mean, deviation)| mean + DEVIATIONS * deviation);
        Duration::from_secs_f64(usual).min(LONGEST_HOLD)
    }
}

/// After a blackout the network may carry what it has kept before anything newer. How much that is nobody knows: much of what leaves is not
/// reported, and what was not heard of is taken for lost. But once something arrives that left as late, all of it is through.
#[derive(Debug, Clone, Copy)]
struct Clearing {
    since: Instant,
    /// When the first packet of the blackout left, by the sender's clock, µs. Word of older ones is what the way back has kept.
    first_us: u64,
    /// When the last packet before it ended left.
    last_us: u64,
}

impl Clearing {
    /// What left at `sent_us` has arrived and waited for this long.
    fn lasts(&self, sent_us: u64, queue: Duration) -> bool {
        sent_us < self.first_us || queue > STALE && sent_us < self.last_us
    }
}

impl Stall {
    /// Something leaves, by the sender's clock at `sent_us`. `urgent`: the other side tells of it at once.
    pub fn on_sent(&mut self, now: Instant, sent_us: u64, urgent: bool) {
        self.last_us = sent_us;
        if urgent {
            self.unanswered.get_or_insert((now, sent_us));
            let is_apart = |last: &(Instant, u64)| now.saturating_duration_since(last.0) >= TOGETHER;
            if self.unheard.len() < MAX_UNHEARD && self.unheard.back().is_none_or(is_apart) {
                self.unheard.push_back((now, sent_us));
            }
        }
    }

    /// Something is heard: the newest packet that has arrived left at `sent_us` and met this queue. Whether that ends a blackout. `held`: for
    /// how long word of the first that it tells of was held back.
    pub fn on_word(&mut self, now: Instant, sent_us: u64, queue: Duration, held: Duration) -> bool {
        self.last_word = Some(now);
        self.hold.update(held);
        while self.unheard.front().is_some_and(|(_, left_us)| *left_us <= sent_us) {
            self.unheard.pop_front();
        }
        let ends = std::mem::take(&mut self.stalled);
        let first = self.unanswered.take().filter(|(left, _)| ends && now.saturating_duration_since(*left) >= LONG);
        let begun = first.map(|(_, first_us)| Clearing { since: now, first_us, last_us: self.last_us });
        self.clearing = begun.or(self.clearing).filter(|clearing| clearing.lasts(sent_us, queue));
        ends
    }

    /// Time passes. `caution`: from 0 to 1, makes it more impatient.
    pub fn poll(&mut self, now: Instant, rtt: Duration, caution: f64) {
        let patience = PATIENCE.mul_f64(1.0 - 0.5 * caution.clamp(0.0, 1.0));
        self.stalled |= self.unanswered.is_some_and(|(since, _)| now.saturating_duration_since(since) > rtt + patience);
        self.clearing = self.clearing.filter(|clearing| clearing.since + LONGEST_CLEARING > now);
    }

    /// Whether a blackout lasts.
    pub fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Whether the network gives nothing out at the moment, where an answer takes as long as `expected` and a packet this long: what leaves now
    /// would wait until it does. Silence that is usual is none.
    pub fn is_paused(&self, now: Instant, expected: Duration, packet: Duration) -> bool {
        let least = packet.mul_f64(PAUSE_PACKETS).max(self.hold.usual());
        let longer = |since: Instant, than: Duration| now.saturating_duration_since(since) > than;
        let overdue = self.unheard.front().is_some_and(|(since, _)| longer(*since, expected + PAUSE.max(least)));
        overdue && self.last_word.is_some_and(|word| longer(word, QUIET.max(least)))
    }

    /// Whether one lasts, or what was kept in it is still on its way: a frame would come late.
    pub fn holds_frames(&self) -> bool {
        self.stalled || self.clearing.is_some()
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);
    const PROMPT: Duration = Duration::from_millis(5);

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    /// Something leaves every 10 ms from 0 on, the last at 1.99 s; nothing is heard.
    fn blackout(start: Instant) -> Stall {
        let mut stall = Stall::default();
        for ms in (0..2_000).step_by(10) {
            stall.poll(at(start, ms), RTT, 0.0);
            assert_eq!((stall.is_stalled(), stall.holds_frames()), (ms > 160, ms > 160), "{ms}");
            stall.on_sent(at(start, ms), ms * 1_000, true);
        }
        stall
    }

    #[test]
    fn caution_makes_it_impatient() {
        let start = Instant::now();
        for (caution, longest) in [(0.0, 160), (0.5, 130), (1.0, 100), (7.0, 100)] {
            let mut stall = Stall::default();
            stall.on_sent(start, 0, true);
            stall.poll(at(start, longest), RTT, caution);
            assert!(!stall.is_stalled(), "{caution}");
            stall.poll(at(start, longest + 1), RTT, caution);
            assert!(stall.is_stalled(), "{caution}");
        }
    }

    #[test]
    fn frames_wait_after_a_blackout_for_what_was_kept_in_it() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut stall = blackout(start);
        assert!(stall.on_word(at(start, 2_000), 100_000, ms(1_880), PROMPT));
        assert!(!stall.is_stalled() && stall.holds_frames());
        stall.on_sent(at(start, 2_000), 2_000_000, true);
        assert!(!stall.on_word(at(start, 2_300), 1_980_000, ms(300), PROMPT));
        assert!(stall.holds_frames());
        stall.on_word(at(start, 2_310), 1_990_000, ms(300), PROMPT);
        assert!(!stall.holds_frames(), "that was the last");
        let mut stall = blackout(start);
        stall.on_word(at(start, 2_000), 100_000, ms(1_880), PROMPT);
        stall.on_word(at(start, 2_010), 1_900_000, ms(90), PROMPT);
        assert!(!stall.holds_frames(), "it left at the end of the blackout and waited for little");
        stall.on_word(at(start, 2_020), 1_910_000, ms(300), PROMPT);
        assert!(!stall.holds_frames(), "a queue without a blackout is known otherwise");
    }

    #[test]
    fn a_pause_is_silence_of_both_what_left_and_what_is_told() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut stall = Stall::default();
        assert!(!stall.is_paused(at(start, 500), RTT, ms(2)), "nothing has left");
        stall.on_sent(at(start, 0), 0, true);
        assert!(!stall.is_paused(at(start, 500), RTT, ms(2)), "nothing was ever heard");
        stall.on_word(at(start, 500), 0, ms(0), PROMPT);
        assert!(!stall.is_paused(at(start, 600), RTT, ms(2)), "nothing waits for an answer");
        stall.on_sent(at(start, 610), 610_000, true);
        assert!(!stall.is_paused(at(start, 675), RTT, ms(2)) && stall.is_paused(at(start, 676), RTT, ms(2)));
        let slow = |now| stall.is_paused(at(start, now), RTT, ms(20));
        assert!(!slow(730) && slow(731), "a packet takes 20 ms");
        let behind = |now| stall.is_paused(at(start, now), RTT + ms(30), ms(2));
        assert!(!behind(705) && behind(706), "it waits behind others");
        stall.on_word(at(start, 676), 610_000, ms(0), PROMPT);
        stall.on_sent(at(start, 677), 677_000, false);
        assert!(!stall.is_paused(at(start, 900), RTT, ms(2)), "nobody tells of that");
        assert!(!stall.is_stalled() && !stall.holds_frames());
        // What has just left is not expected yet.
        stall.on_sent(at(start, 900), 900_000, true);
        assert!(!stall.is_paused(at(start, 965), RTT, ms(2)) && stall.is_paused(at(start, 966), RTT, ms(2)));
    }

    #[test]
    fn silence_that_is_usual_is_no_pause() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        // Word comes each 60 ms, and tells of what arrived since: now is what the silence is then.
        let paused_after = |holds: &[u64]| {
            let mut stall = Stall::default();
            let mut now = 0;
            for held in holds {
                stall.on_sent(at(start, now), now * 1_000, true);
                now += RTT.as_millis() as u64 + held;
                stall.on_word(at(start, now), now * 1_000, ms(0), ms(*held));
            }
            stall.on_sent(at(start, now), now * 1_000, true);
            (0..300).find(|silence| stall.is_paused(at(start, now + silence), RTT, ms(2))).unwrap_or(300)
        };
        assert_eq!(paused_after(&[5; 100]), 66);
        assert_eq!(paused_after(&[10; 100]), 66, "reports wait for as long");
        let thinned = [20, 60, 35, 70].repeat(25);
        assert!((110..135).contains(&paused_after(&thinned)), "{}", paused_after(&thinned));
        let once = [vec![5; 100], vec![60]].concat();
        assert!(paused_after(&once) < 82, "{}: once is not usual", paused_after(&once));
        let outages = [5, 400].repeat(50);
        assert_eq!(paused_after(&outages), 66, "nor is an outage");
    }

    #[test]
    fn word_of_older_packets_makes_nothing_less_overdue() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut stall = Stall::default();
        for left in [0, 10, 33] {
            stall.on_sent(at(start, left), left * 1_000, true);
        }
        stall.on_word(at(start, 45), 10_000, ms(0), PROMPT);
        // The third left at 33 ms, so its answer is due at 73.
        assert!(!stall.is_paused(at(start, 98), RTT, ms(2)) && stall.is_paused(at(start, 99), RTT, ms(2)));
        stall.on_word(at(start, 99), 20_000, ms(0), PROMPT);
        assert!(!stall.is_paused(at(start, 134), RTT, ms(2)), "something has just been heard");
        assert!(stall.is_paused(at(start, 135), RTT, ms(2)), "but nothing of it");
        stall.on_word(at(start, 140), 33_000, ms(0), PROMPT);
        assert!(!stall.is_paused(at(start, 500), RTT, ms(2)));
    }

    #[test]
    fn what_is_remembered_of_a_silence_is_bounded() {
        let start = Instant::now();
        let mut stall = Stall::default();
        stall.on_word(start, 0, Duration::ZERO, PROMPT);
        for n in 0..100_000 {
            stall.on_sent(at(start, n), n * 1_000, true);
        }
        assert_eq!(stall.unheard.len(), MAX_UNHEARD);
        assert!(stall.is_paused(at(start, 100_000), RTT, Duration::from_millis(2)));
        stall.on_word(at(start, 100_000), 99_999_000, Duration::ZERO, PROMPT);
        assert!(stall.unheard.is_empty());
    }

    #[test]
    fn word_of_what_left_before_a_blackout_says_nothing_of_what_was_kept() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut stall = Stall::default();
        stall.on_sent(at(start, 0), 0, true);
        stall.on_word(at(start, 40), 0, ms(5), PROMPT);
        for sent in (50..2_000).step_by(10) {
            stall.on_sent(at(start, sent), sent * 1_000, true);
        }
        stall.poll(at(start, 2_000), RTT, 0.0);
        assert!(stall.on_word(at(start, 2_000), 20_000, ms(5), PROMPT), "the way back has kept it");
        assert!(stall.holds_frames());
        stall.on_word(at(start, 2_010), 60_000, ms(1_900), PROMPT);
        assert!(stall.holds_frames());
        stall.on_word(at(start, 2_300), 1_990_000, ms(270), PROMPT);
        assert!(!stall.holds_frames());
    }

    #[test]
    fn any_word_ends_the_waiting_after_a_short_blackout() {
        let start = Instant::now();
        for (silence, holds) in [(590, false), (600, true)] {
            let mut stall = Stall::default();
            stall.on_sent(at(start, 50), 50_000, true);
            let now = at(start, 50 + silence);
            stall.poll(now, RTT, 0.0);
            assert!(stall.on_word(now, 20_000, Duration::from_millis(5), PROMPT));
            assert_eq!(stall.holds_frames(), holds, "after {silence} ms");
        }
    }

    #[test]
    fn frames_do_not_wait_for_what_is_lost() {
        let start = Instant::now();
        let mut stall = blackout(start);
        stall.on_sent(at(start, 2_000), 2_000_000, true);
        stall.on_word(at(start, 2_040), 2_000_000, Duration::from_millis(200), PROMPT);
        assert!(!stall.holds_frames(), "all that left before it is gone");
        let mut stall = blackout(start);
        stall.on_word(at(start, 2_000), 100_000, Duration::from_millis(1_880), PROMPT);
        stall.poll(at(start, 4_990), RTT, 0.0);
        assert!(stall.holds_frames());
        stall.poll(at(start, 5_000), RTT, 0.0);
        assert!(!stall.holds_frames());
    }
}
