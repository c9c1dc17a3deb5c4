//! Numbered commands both ways at 10 Hz, and how long each took over what physics allows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aquila_proto::Side;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::links::Links;

/// Time between two commands of one direction.
pub const INTERVAL: Duration = Duration::from_millis(100);
/// What was sent this recently may be on its way.
const RECENT: Duration = Duration::from_secs(1);

/// Quantiles in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl Quantiles {
    /// Of these durations; `None` if there are none.
    pub fn of(durations: impl IntoIterator<Item = Duration>) -> Option<Self> {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 3_600_000_000, 3).expect("valid bounds");
        for duration in durations {
            histogram.saturating_record(duration.as_micros() as u64);
        }
        if histogram.is_empty() {
            return None;
        }
        let ms = |us: u64| (us as f64 / 10.0).round() / 100.0;
        let at = |q| ms(histogram.value_at_quantile(q));
        Some(Self { p50: at(0.50), p95: at(0.95), p99: at(0.99), max: ms(histogram.max()) })
    }
}

/// What is known of the commands of one direction.
#[derive(Debug, Default)]
struct Way {
    /// When each was sent, and when it arrived.
    commands: Vec<(Instant, Option<Instant>)>,
    twice: u64,
}

/// The commands of both directions, shared by those who send and those who receive.
#[derive(Debug, Clone, Default)]
pub struct CommandLog(Arc<Mutex<[Way; 2]>>);

/// A direction's commands, judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// Sent, leaving out those of the last second, which may be on their way, and those that an outage at the end holds.
    pub sent: usize,
    /// Of these, arrived.
    pub delivered: usize,
    /// Arrived more than once.
    pub twice: u64,
    /// Time from when it could leave (see [`Links::earliest`]) to its arrival, less propagation.
    pub over_propagation: Option<Quantiles>,
}

impl CommandLog {
    fn lock(&self) -> MutexGuard<'_, [Way; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a command is sent now; gives its number.
    pub fn on_sent(&self, from: Side, now: Instant) -> u32 {
        let way = &mut self.lock()[from as usize];
        way.commands.push((now, None));
        (way.commands.len() - 1) as u32
    }

    /// Notes that a command arrived now.
    pub fn on_arrived(&self, from: Side, number: u32, now: Instant) {
        let way = &mut self.lock()[from as usize];
        match way.commands.get_mut(number as usize) {
            Some((_, arrived @ None)) => *arrived = Some(now),
            Some(_) => way.twice += 1,
            None => {}
        }
    }

    /// Judges a direction.
    pub fn verdict(&self, from: Side, links: &Links, now: Instant) -> Verdict {
        let ways = self.lock();
        let way = &ways[from as usize];
        let horizon = links.none_there().horizon(now, RECENT);
        let judged = || way.commands.iter().filter(|(sent, _)| horizon.saturating_duration_since(*sent) >= RECENT);
        let arrived = || judged().filter_map(|(sent, arrived)| Some((*sent, (*arrived)?)));
        let over = |(sent, arrived)| links.over_propagation(from, sent, arrived);
        Verdict {
            sent: judged().count(),
            delivered: arrived().count(),
            twice: way.twice,
            over_propagation: Quantiles::of(arrived().map(over)),
        }
    }

    /// Latency over propagation of the newest command of a direction that arrived.
    pub fn newest(&self, from: Side, links: &Links) -> Option<Duration> {
        let ways = self.lock();
        let (sent, arrived) =
            ways[from as usize].commands.iter().rev().find_map(|(sent, arrived)| Some((*sent, (*arrived)?)))?;
        Some(links.over_propagation(from, sent, arrived))
    }

    /// Commands of a direction that were sent within this time: when, and when they arrived.
    pub fn sent_within(&self, from: Side, begin: Instant, end: Instant) -> Vec<(Instant, Option<Instant>)> {
        let ways = self.lock();
        ways[from as usize].commands.iter().filter(|(sent, _)| (begin..end).contains(sent)).copied().collect()
    }

    /// How long nobody could steer around an outage that began at `begin` and ended at `end`: from its begin to the
    /// first command that reached the aircraft after its end.
    pub fn without_control(&self, begin: Instant, end: Instant) -> Option<Duration> {
        let ways = self.lock();
        let arrivals = ways[Side::Ground as usize].commands.iter().filter_map(|(_, arrived)| *arrived);
        arrivals.filter(|arrived| *arrived >= end).min().map(|first| first - begin)
    }
}

#[cfg(test)]
mod tests {
    use super::super::relay::LinkView;
    use super::*;

    #[test]
    fn latency_counts_from_when_a_command_could_leave() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let delay = Duration::from_millis(30);
        let view = LinkView {
            outages: vec![(at(100), Some(at(300)))],
            delays: [(); 2].map(|()| vec![(start, delay)]),
            ..LinkView::default()
        };
        let view = Links::from(view);
        let log = CommandLog::default();
        for (sent, arrived) in [(0, 32), (150, 340), (400, 435)] {
            let number = log.on_sent(Side::Ground, at(sent));
            log.on_arrived(Side::Ground, number, at(arrived));
        }
        log.on_arrived(Side::Ground, 0, at(500));
        log.on_sent(Side::Ground, at(600));
        let verdict = log.verdict(Side::Ground, &view, at(5_000));
        assert_eq!((verdict.sent, verdict.delivered, verdict.twice), (4, 3, 1));
        let over = verdict.over_propagation.unwrap();
        assert!((over.p50 - 5.0).abs() < 0.05 && (over.max - 10.0).abs() < 0.05, "{over:?}");
        assert_eq!(log.without_control(at(100), at(300)), Some(Duration::from_millis(240)));
        assert_eq!(log.verdict(Side::Air, &view, at(5_000)).over_propagation, None);
    }

    #[test]
    fn a_command_that_an_outage_holds_at_the_end_is_not_lost() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut view = LinkView { outages: vec![(at(2_000), None)], ..LinkView::default() };
        let log = CommandLog::default();
        for sent in [500, 1_900, 2_100, 2_900] {
            log.on_sent(Side::Air, at(sent));
        }
        log.on_arrived(Side::Air, 0, at(520));
        let verdict = |view: &LinkView| log.verdict(Side::Air, &view.clone().into(), at(4_000));
        assert_eq!((verdict(&view).sent, verdict(&view).delivered), (1, 1));
        // It was over in time, and they did not come.
        view.outages[0].1 = Some(at(2_950));
        assert_eq!((verdict(&view).sent, verdict(&view).delivered), (4, 1));
    }
}
