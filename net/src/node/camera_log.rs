//! Says in the log what is wrong with the cameras: that they make more than they are asked for, send what is no RTP, have fallen silent, or have begun anew.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use aquila_proto::session::CameraStats;
use aquila_proto::video::QueueCounters;
use aquila_proto::{Bitrate, ByteCount};

/// What they make is the mean of so long.
const SPAN: Duration = Duration::from_secs(5);
/// It is too much if it is so many times the most that was asked for in that time and as long before: an encoder has heard of it by then, and misses
/// its rate by less.
const MUCH: f64 = 1.5;
/// A camera that is not told to pause films within this.
const SILENT: Duration = Duration::from_secs(3);
/// What goes on is told again after this.
const AGAIN: Duration = Duration::from_secs(60);

/// What is known of the cameras, and was said of them.
#[derive(Debug, Default)]
pub(super) struct CameraLog {
    cameras: Vec<Camera>,
    /// When, what all had sent by then, and what they were asked to make.
    made: VecDeque<(Instant, ByteCount, Bitrate)>,
    told_much: Option<Instant>,
}

/// What holds for all cameras now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// What they should make together; `None` while there is no link that could carry it.
    pub rate: Option<Bitrate>,
    /// They are told of it.
    pub is_told: bool,
    /// They should pause.
    pub held: bool,
}

#[derive(Debug, Default)]
struct Camera {
    seen: QueueCounters,
    /// When something last came, or it was asked for nothing.
    heard: Option<Instant>,
    /// Silence of which the log tells.
    is_silent: bool,
    told_silence: Option<Instant>,
    not_rtp: Told,
    anew: Told,
}

impl CameraLog {
    /// Takes what came of the cameras so far.
    pub fn update(&mut self, now: Instant, asked: Asked, cameras: &[CameraStats]) {
        self.cameras.resize_with(cameras.len(), Camera::default);
        for (flow, (camera, CameraStats { counters, .. })) in self.cameras.iter_mut().zip(cameras).enumerate() {
            camera.update(now, asked, flow, counters);
        }
        let Some(rate) = asked.rate else { return self.made.clear() };
        let sent = ByteCount(cameras.iter().map(|camera| camera.counters.bytes_in.0).sum());
        self.made.push_back((now, sent, rate));
        while self.made.get(1).is_some_and(|(at, ..)| now.saturating_duration_since(*at) >= 2 * SPAN) {
            self.made.pop_front();
        }
        if let Some((made, most)) = self.too_much(now).filter(|_| is_due(self.told_much, now)) {
            self.told_much = Some(now);
            let (made, asked_for) = (made.0 / 1000, most.0 / 1000);
            match asked.is_told {
                true => tracing::warn!(
                    made,
                    asked_for,
                    "the camera makes more kbit/s than it is asked for; what is too much is left out in whole frames (told once a minute)"
                ),
                false => tracing::warn!(
                    made,
                    asked_for,
                    "the camera makes more kbit/s than the link carries, and nothing tells it so (see `encoder` and `camera`); what is too much is left out in whole frames \
                     (told once a minute)"
                ),
            }
        }
    }

    /// What they made in the last span, and the most that was asked for, if that is much less.
    fn too_much(&self, now: Instant) -> Option<(Bitrate, Bitrate)> {
        let age = |(at, ..): &(Instant, ByteCount, Bitrate)| now.saturating_duration_since(*at);
        self.made.front().filter(|oldest| age(oldest) >= 2 * SPAN)?;
        let (since, before, _) = self.made.iter().rev().find(|then| age(then) >= SPAN)?;
        let (_, sent, _) = self.made.back()?;
        let seconds = now.saturating_duration_since(*since).as_secs_f64();
        let made = Bitrate(((*sent - *before).0 as f64 * 8.0 / seconds) as u64);
        let most = self.made.iter().map(|(.., rate)| *rate).max()?;
        (made > most * MUCH).then_some((made, most))
    }
}

impl Camera {
    fn update(&mut self, now: Instant, asked: Asked, flow: usize, counters: &QueueCounters) {
        let before = std::mem::replace(&mut self.seen, *counters);
        if let Some(count) = self.not_rtp.take(now, counters.packets_not_rtp - before.packets_not_rtp) {
            tracing::warn!(flow, count, "what comes from the camera is no RTP (told once a minute)");
        }
        if let Some(count) = self.anew.take(now, counters.began_anew - before.began_anew) {
            tracing::info!(flow, count, "the camera has begun anew (told once a minute)");
        }
        let comes = counters.packets_in > before.packets_in;
        let is_asked = asked.rate.is_some() && !asked.held;
        if comes || !is_asked || counters.packets_in == 0 {
            self.heard = Some(now);
        }
        if comes && std::mem::take(&mut self.is_silent) {
            tracing::info!(flow, "the camera films again");
        }
        let silence = self.heard.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        if silence >= SILENT && !self.is_silent && is_due(self.told_silence, now) {
            (self.is_silent, self.told_silence) = (true, Some(now));
            tracing::warn!(flow, ?silence, "nothing comes from the camera any more");
        }
    }
}

/// Something that may happen often: how often it did, once a minute.
#[derive(Debug, Default)]
struct Told {
    count: u64,
    at: Option<Instant>,
}

impl Told {
    /// It has happened so many times more: how often since that was told, if it is to be told now.
    fn take(&mut self, now: Instant, more: u64) -> Option<u64> {
        self.count += more;
        if self.count == 0 || !is_due(self.at, now) {
            return None;
        }
        self.at = Some(now);
        Some(std::mem::take(&mut self.count))
    }
}

fn is_due(told: Option<Instant>, now: Instant) -> bool {
    told.is_none_or(|at| now.saturating_duration_since(at) >= AGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::Log;

    const TICK: Duration = Duration::from_millis(250);
    const ASKED: Asked = Asked { rate: Some(Bitrate::mbps(1)), is_told: true, held: false };

    /// A camera that makes so many kbit/s for so long, and the lines of the log.
    struct Trial {
        cameras: CameraLog,
        counters: QueueCounters,
        now: Instant,
        log: Log,
    }

    impl Trial {
        fn new() -> Self {
            let (cameras, counters) = (CameraLog::default(), QueueCounters::default());
            Self { cameras, counters, now: Instant::now(), log: Log::begin() }
        }

        fn films(&mut self, kbps: u64, seconds: u32, asked: Asked) -> Vec<String> {
            let before = self.log.lines().len();
            for _ in 0..4 * seconds {
                self.now += TICK;
                self.counters.packets_in += u64::from(kbps > 0);
                self.counters.bytes_in += ByteCount(kbps * 1000 / 8 / 4);
                self.cameras.update(
                    self.now,
                    asked,
                    &[CameraStats { counters: self.counters, ..CameraStats::default() }],
                );
            }
            self.log.lines().split_off(before)
        }
    }

    #[test]
    fn one_that_ignores_its_rate_is_told_of_once_a_minute() {
        let mut trial = Trial::new();
        assert_eq!(trial.films(1400, 20, ASKED), [""; 0]);
        let lines = trial.films(4000, 50, ASKED);
        assert!(
            matches!(&lines[..], [line] if line.contains("than it is asked for") && line.contains("asked_for=1000")),
            "{lines:?}"
        );
        assert_eq!(trial.films(4000, 20, ASKED).len(), 1, "again");
        let lines = trial.films(4000, 60, Asked { is_told: false, ..ASKED });
        assert!(matches!(&lines[..], [line] if line.contains("nothing tells it so")), "{lines:?}");
        assert_eq!(trial.films(4000, 120, Asked { rate: None, ..ASKED }), [""; 0], "there is no link");
    }

    #[test]
    fn one_that_follows_a_fall_within_seconds_is_not_told_of() {
        let mut trial = Trial::new();
        trial.films(4000, 10, Asked { rate: Some(Bitrate::mbps(4)), ..ASKED });
        assert_eq!(trial.films(4000, 3, ASKED), [""; 0]);
        assert_eq!(trial.films(1000, 20, ASKED), [""; 0]);
    }

    #[test]
    fn silence_is_told_of_once_unless_it_was_asked_for() {
        let mut trial = Trial::new();
        assert_eq!(trial.films(0, 20, ASKED), [""; 0], "there is none yet");
        trial.films(900, 1, ASKED);
        assert_eq!(trial.films(0, 20, Asked { held: true, ..ASKED }), [""; 0]);
        assert_eq!(trial.films(0, 2, ASKED), [""; 0]);
        let lines = trial.films(0, 30, ASKED);
        assert!(matches!(&lines[..], [line] if line.contains("nothing comes")), "{lines:?}");
        let lines = trial.films(900, 1, ASKED);
        assert!(matches!(&lines[..], [line] if line.contains("films again")), "{lines:?}");
        // One that films so each few seconds.
        let lines: Vec<_> =
            (0..10).flat_map(|_| [trial.films(900, 1, ASKED), trial.films(0, 5, ASKED)]).flatten().collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
    }

    #[test]
    fn garbage_and_beginnings_are_counted_and_told_of_once_a_minute() {
        let mut trial = Trial::new();
        trial.films(900, 1, ASKED);
        let mut lines = Vec::new();
        for _ in 0..70 {
            trial.counters.packets_not_rtp += 3;
            trial.counters.began_anew += 1;
            lines.extend(trial.films(900, 1, ASKED));
        }
        let of = |what: &str| lines.iter().filter(|line| line.contains(what)).cloned().collect::<Vec<_>>();
        let (garbage, anew) = (of("is no RTP"), of("begun anew"));
        assert!(
            matches!(&garbage[..], [one, rest] if one.contains("count=3") && rest.contains("count=180")),
            "{garbage:?}"
        );
        assert_eq!(anew.len(), 2, "{anew:?}");
    }
}
