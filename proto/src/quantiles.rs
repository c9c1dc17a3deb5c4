//! Latency quantiles of the last seconds in fixed memory.

use std::time::{Duration, Instant};

/// Buckets: 32 per doubling, from 1 µs up to about 134 s; values are known to 3 %.
const SUB_BITS: u32 = 5;
const BUCKETS: usize = 27 << SUB_BITS;

/// Length of one of the two alternating windows; quantiles cover one to two of them.
const WINDOW: Duration = Duration::from_secs(10);

/// p50, p95, p99 and maximum of a number of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Samples.
    pub count: u64,
    /// Median.
    pub p50: Duration,
    /// 95th percentile.
    pub p95: Duration,
    /// 99th percentile.
    pub p99: Duration,
    /// Largest.
    pub max: Duration,
}

/// Collects durations.
#[derive(Debug, Clone)]
pub struct Quantiles {
    windows: [Box<Window>; 2],
    began: Option<Instant>,
}

#[derive(Debug, Clone)]
struct Window {
    counts: [u32; BUCKETS],
    max: Duration,
}

impl Default for Quantiles {
    fn default() -> Self {
        let window = || Box::new(Window { counts: [0; BUCKETS], max: Duration::ZERO });
        Self { windows: [window(), window()], began: None }
    }
}

impl Quantiles {
    /// Adds a sample.
    pub fn add(&mut self, now: Instant, value: Duration) {
        self.turn(now);
        let us = u64::try_from(value.as_micros()).unwrap_or(u64::MAX);
        let window = &mut self.windows[0];
        window.counts[bucket(us)] = window.counts[bucket(us)].saturating_add(1);
        window.max = window.max.max(value);
    }

    /// Quantiles of the last 10 to 20 s.
    pub fn summary(&mut self, now: Instant) -> Summary {
        self.turn(now);
        let [a, b] = &self.windows;
        let count_at = |bucket: usize| u64::from(a.counts[bucket]) + u64::from(b.counts[bucket]);
        let count: u64 = (0..BUCKETS).map(count_at).sum();
        let max = a.max.max(b.max);
        let quantile = |q: f64| {
            let rank = ((count as f64 * q).ceil() as u64).max(1);
            let mut seen = 0;
            let found = (0..BUCKETS).find(|bucket| {
                seen += count_at(*bucket);
                seen >= rank
            });
            found.map_or(Duration::ZERO, |bucket| Duration::from_micros(upper_edge(bucket)).min(max))
        };
        Summary { count, p50: quantile(0.5), p95: quantile(0.95), p99: quantile(0.99), max }
    }

    fn turn(&mut self, now: Instant) {
        let began = *self.began.get_or_insert(now);
        let age = now.saturating_duration_since(began);
        if age < WINDOW {
            return;
        }
        self.windows.swap(0, 1);
        self.windows[0].clear();
        if age >= 2 * WINDOW {
            self.windows[1].clear();
        }
        self.began = Some(now);
    }
}

impl Window {
    fn clear(&mut self) {
        self.counts.fill(0);
        self.max = Duration::ZERO;
    }
}

fn bucket(us: u64) -> usize {
    let us = us.max(1);
    let log = us.ilog2();
    let index = if log < SUB_BITS {
        us as usize
    } else {
        ((log - SUB_BITS + 1) << SUB_BITS) as usize + (us >> (log - SUB_BITS)) as usize - (1 << SUB_BITS)
    };
    index.min(BUCKETS - 1)
}

fn upper_edge(bucket: usize) -> u64 {
    let (octave, sub) = ((bucket >> SUB_BITS) as u32, (bucket & ((1 << SUB_BITS) - 1)) as u64);
    match octave {
        0 => sub,
        _ => ((sub + (1 << SUB_BITS) + 1) << (octave - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_within_three_per_cent() {
        for us in (0..27).flat_map(|log| [1u64 << log, (1 << log) + 1, (1 << log) * 7 / 4]) {
            let edge = upper_edge(bucket(us));
            assert!(edge >= us && (edge - us) as f64 <= us as f64 / 31.0, "{us} {edge}");
        }
    }

    #[test]
    fn quantiles_of_one_to_hundred_ms_and_forgetting() {
        #[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
        let start = Instant::now();
        let mut quantiles = Quantiles::default();
        for ms in 1..=100 {
            quantiles.add(start, Duration::from_millis(ms));
        }
        let summary = quantiles.summary(start);
        assert_eq!((summary.count, summary.max), (100, Duration::from_millis(100)));
        assert!((50..52).contains(&summary.p50.as_millis()) && (95..99).contains(&summary.p95.as_millis()));
        assert_eq!(quantiles.summary(start + WINDOW).count, 100);
        assert_eq!(quantiles.summary(start + WINDOW * 3).count, 0);
    }
}
