//! CUBIC (RFC 9438), in integers as Linux computes it, without HyStart.

use std::time::{Duration, Instant};

use super::congestion::{Algorithm, Window};

/// See the module.
#[derive(Debug, Default)]
pub struct Cubic {
    /// The window at the last loss: W_max.
    before: u32,
    epoch: Option<Epoch>,
}

/// Since the last loss.
#[derive(Debug)]
struct Epoch {
    began: Instant,
    /// The plateau, and when it is reached: K.
    plateau: u32,
    reached: Duration,
    /// The window that Reno would have (§4.3): W_est, and segments acknowledged since it last grew.
    reno: u32,
    acked: u32,
}

/// beta_cubic = 0.7 (§4.6); Linux: 717 / 1024.
const BETA: u64 = 717;
const ONE: u64 = 1024;
/// C = 0.4 segments / s^3 (§5.1): cubes of milliseconds for a segment.
const CUBE_PER_SEGMENT: u64 = 2_500_000_000;
/// W_est grows by a segment for each 15 / 8 windows: alpha = 3 (1 - beta) / (1 + beta) (§4.3).
const RENO_EIGHTHS: u64 = 8 * (ONE + BETA) / 3 / (ONE - BETA);
/// While W_max is not known: at least one segment for 20.
const UNKNOWN: u32 = 20;

impl Algorithm for Cubic {
    fn on_ack(&mut self, now: Instant, window: &mut Window, mut acked: u32, min_rtt: Duration) {
        if window.is_in_slow_start() {
            acked = window.slow_start(acked);
        }
        if acked > 0 {
            let per = self.acks_per_segment(now, window.size, acked, min_rtt);
            window.grow(per, acked);
        }
    }

    fn on_loss(&mut self, window: &Window) -> u32 {
        self.epoch = None;
        // Fast convergence (§4.7).
        let is_smaller = window.size < self.before;
        self.before = if is_smaller { scale(window.size, ONE + BETA, 2 * ONE) } else { window.size };
        scale(window.size, BETA, ONE).max(2)
    }

    fn on_timeout(&mut self) {
        // Linux: `bictcp_reset`.
        *self = Self::default();
    }

    fn on_idle(&mut self, idle: Duration) {
        // The curve stands still meanwhile (§5.8).
        if let Some(epoch) = &mut self.epoch {
            epoch.began += idle;
        }
    }
}

impl Cubic {
    /// How many segments have to be acknowledged for the window to grow by one.
    fn acks_per_segment(&mut self, now: Instant, size: u32, acked: u32, min_rtt: Duration) -> u32 {
        let before = self.before;
        let epoch = self.epoch.get_or_insert_with(|| {
            let below = u64::from(before.saturating_sub(size));
            let reached = Duration::from_millis(cube_root(below * CUBE_PER_SEGMENT));
            Epoch { began: now, plateau: before.max(size), reached, reno: size, acked: 0 }
        });
        epoch.acked += acked;
        // The window a round trip ahead (§4.2).
        let at = now.saturating_duration_since(epoch.began) + min_rtt;
        let from_plateau = at.abs_diff(epoch.reached).as_millis();
        let change = (from_plateau.pow(3) / u128::from(CUBE_PER_SEGMENT)).min(1 << 24) as u32;
        let is_beyond = at >= epoch.reached;
        let target = if is_beyond { epoch.plateau + change } else { epoch.plateau.saturating_sub(change) };
        let mut per = if target > size { size / (target - size) } else { size.saturating_mul(100) };
        if before == 0 {
            per = per.min(UNKNOWN);
        }
        let step = (u64::from(size) * RENO_EIGHTHS / 8) as u32;
        while epoch.acked > step {
            epoch.acked -= step;
            epoch.reno += 1;
        }
        if epoch.reno > size {
            per = per.min(size / (epoch.reno - size));
        }
        // At most half as much again a round trip.
        per.max(2)
    }
}

fn scale(size: u32, times: u64, of: u64) -> u32 {
    (u64::from(size) * times / of) as u32
}

fn cube_root(n: u64) -> u64 {
    // The root of 2^64 is below 2^22.
    (0..22).rev().fold(0, |root, bit| {
        let next: u64 = root | 1 << bit;
        if u128::from(next).pow(3) <= u128::from(n) { next } else { root }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_of_cubes() {
        for n in [0, 1, 7, 8, 9, 26, 27, 1_000_000, u64::MAX] {
            let root = u128::from(cube_root(n));
            assert!(root.pow(3) <= u128::from(n) && (root + 1).pow(3) > u128::from(n), "{n}");
        }
    }

    /// RFC 9438 §4.2: after a loss at 100 segments the window is back there after K = cbrt(30 / 0.4) = 4.2 s.
    #[test]
    fn the_window_is_back_at_the_plateau_after_k() {
        let rtt = Duration::from_millis(200);
        let start = Instant::now();
        let mut cubic = Cubic::default();
        let mut window = Window { size: 100, threshold: 100, count: 0 };
        window.threshold = cubic.on_loss(&window);
        window.size = window.threshold;
        assert_eq!(window.size, 70);
        let mut after = None;
        for round in 0..40 {
            let now = start + rtt * round;
            for _ in 0..window.size {
                cubic.on_ack(now, &mut window, 1, rtt);
            }
            if window.size >= 98 && after.is_none() {
                after = Some((rtt * round).as_secs_f64());
            }
        }
        let after = after.unwrap();
        assert!((2.4..4.6).contains(&after), "{after} s");
        assert!(window.size > 110, "then it goes on: {}", window.size);
    }
}
