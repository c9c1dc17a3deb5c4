//! How long something takes.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Measurements of each thing.
pub const REPEATS: usize = 15;
/// Of each measurement.
const LENGTH: Duration = Duration::from_millis(20);

/// What a call takes.
pub struct Time {
    pub best: Duration,
    pub median: Duration,
}

impl Time {
    /// Of a call, which is repeated until it can be measured.
    pub fn of(mut call: impl FnMut()) -> Self {
        let mut calls = 1;
        while measure(calls, &mut call) < LENGTH / 4 {
            calls *= 2;
        }
        calls *= 4;
        let mut times: Vec<_> = (0..REPEATS).map(|_| measure(calls, &mut call).div_f64(f64::from(calls))).collect();
        times.sort_unstable();
        Self { best: times[0], median: times[REPEATS / 2] }
    }

    /// GB/s of so many bytes: at best, and in the median.
    pub fn rate(&self, bytes: usize) -> String {
        let rate = |time: Duration| bytes as f64 / time.as_secs_f64() / 1e9;
        format!("{} ({})", digits(rate(self.best)), digits(rate(self.median)))
    }

    /// Microseconds.
    pub fn micros(&self) -> String {
        format!("{} ({})", digits(self.best.as_secs_f64() * 1e6), digits(self.median.as_secs_f64() * 1e6))
    }
}

/// Three of them.
fn digits(number: f64) -> String {
    let decimals = (2.0 - number.abs().log10().floor()).clamp(0.0, 4.0) as usize;
    format!("{number:.decimals$}")
}

fn measure(calls: u32, call: &mut impl FnMut()) -> Duration {
    let began = now();
    (0..calls).for_each(|_| call());
    now() - began
}

fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has it").into()
}
