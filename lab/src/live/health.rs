//! Whether the machine kept up: a run in which the emulator was late says nothing about the link.

use std::fmt;
use std::fs;
use std::time::Duration;

use hdrhistogram::Histogram;

/// How well the emulator kept its times.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    /// Time over which all this was counted.
    pub over: Duration,
    /// Packets delivered.
    pub deliveries: u64,
    /// How much later than due packets were delivered: half of them less.
    pub late_p50: Duration,
    /// 99 of 100 less.
    pub late_p99: Duration,
    /// All of them.
    pub late_max: Duration,
    /// How much later than meant the thread came to a change of a link, at most. What the change did is dated right
    /// nevertheless.
    pub late_change: Duration,
    /// Share of the processors' time that the hypervisor gave to others, 0 to 1. `None`: unknown.
    pub steal_share: Option<f64>,
    /// Share of one processor that the emulator's thread used.
    pub emulator_share: f64,
    /// The load average over a minute, at the end.
    pub load: Option<f64>,
    /// What the kernel let the thread be.
    pub priority: Priority,
    /// Packets that were lost since the emulator did not read them in time or had no buffer left: losses that no cell
    /// decided.
    pub overruns: u64,
    /// Packets that the emulator got.
    pub offered: u64,
    /// Packets that came out and that the receiver's kernel did not take.
    pub refused: Refused,
    /// Rows and packets that are missing in the records, since their reader was too slow.
    pub lost_records: u64,
    /// What to make of it.
    pub verdict: Verdict,
}

/// The scheduling class of the emulator's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// SCHED_FIFO: before everything else.
    RealTime,
    /// With this nice value.
    Nice(i32),
    /// As everybody.
    Normal,
}

/// Packets whose writing failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refused {
    /// Bit errors made something else of the IP version.
    pub not_ip: u64,
    /// The receiver's interface is down.
    pub down: u64,
    /// Anything else.
    pub other: u64,
}

/// Whether the run counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Valid,
    /// It does not, for these reasons.
    Invalid(Vec<String>),
}

impl Verdict {
    /// Whether the run counts.
    pub fn is_valid(&self) -> bool {
        *self == Self::Valid
    }
}

/// What a valid run must keep to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HealthBounds {
    /// Of [`Health::late_p99`].
    pub late_p99: Duration,
    /// Of overruns, as a share of all packets, 0 to 1.
    pub overrun_share: f64,
}

impl Default for HealthBounds {
    fn default() -> Self {
        Self { late_p99: Duration::from_millis(2), overrun_share: 0.001 }
    }
}

impl HealthBounds {
    pub(super) fn judge(&self, health: &Health, fault: Option<String>) -> Verdict {
        let mut reasons: Vec<String> = fault.into_iter().collect();
        if health.late_p99 > self.late_p99 {
            let (is, bound) = (health.late_p99, self.late_p99);
            reasons.push(format!("1 % of the packets were delivered {is:.1?} late or more, the bound is {bound:?}"));
        }
        let share = health.overruns as f64 / (health.offered + health.overruns).max(1) as f64;
        if share > self.overrun_share {
            let (lost, percent) = (health.overruns, share * 100.0);
            reasons.push(format!("{lost} packets ({percent:.2} %) came faster than the emulator could read them"));
        }
        if reasons.is_empty() {
            return Verdict::Valid;
        }
        if health.priority != Priority::RealTime {
            reasons.push("the emulator had no real-time priority; as root it has".to_owned());
        }
        Verdict::Invalid(reasons)
    }
}

impl fmt::Display for Health {
    /// One line for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { late_p50, late_p99, late_max, deliveries, .. } = self;
        write!(
            f,
            "{deliveries} packets late by {late_p50:.1?} (median), {late_p99:.1?} (p99), {late_max:.1?} (at most)"
        )?;
        write!(f, "; emulator {:.0} % of a processor", self.emulator_share * 100.0)?;
        if let Some(steal) = self.steal_share {
            write!(f, ", steal {:.1} %", steal * 100.0)?;
        }
        if let Some(load) = self.load {
            write!(f, ", load {load:.2}")?;
        }
        match &self.verdict {
            Verdict::Valid => write!(f, ": valid"),
            Verdict::Invalid(reasons) => write!(f, ": INVALID: {}", reasons.join("; ")),
        }
    }
}

/// Of nanoseconds up to a minute, to 1 %: 40 kB, and never more.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("bounds that hdrhistogram takes")
}

pub(super) fn quantile(histogram: &Histogram<u64>, quantile: f64) -> Duration {
    Duration::from_nanos(histogram.value_at_quantile(quantile))
}

/// The processors' time since the machine started, in ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuTime {
    stolen: u64,
    total: u64,
}

impl CpuTime {
    pub(super) fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// proc(5): user, nice, system, idle, iowait, irq, softirq, steal; what follows is contained in these.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).take(8).collect();
        Some(Self { stolen: *ticks.get(7)?, total: ticks.iter().sum() })
    }

    pub(super) fn steal_share_since(self, before: Self) -> Option<f64> {
        let total = self.total.checked_sub(before.total).filter(|total| *total > 0)?;
        Some(self.stolen.saturating_sub(before.stolen) as f64 / total as f64)
    }
}

pub(super) fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(late_p99: Duration, overruns: u64) -> Health {
        Health {
            over: Duration::from_secs(1),
            deliveries: 10,
            late_p50: Duration::ZERO,
            late_p99,
            late_max: late_p99,
            late_change: Duration::ZERO,
            steal_share: None,
            emulator_share: 0.1,
            load: None,
            priority: Priority::RealTime,
            overruns,
            offered: 1000 - overruns,
            refused: Refused::default(),
            lost_records: 0,
            verdict: Verdict::Valid,
        }
    }

    #[test]
    fn a_run_at_the_bounds_is_valid_and_one_beyond_is_not() {
        let bounds = HealthBounds::default();
        let ms = Duration::from_millis;
        assert!(bounds.judge(&health(ms(2), 1), None).is_valid());
        let Verdict::Invalid(late) = bounds.judge(&health(ms(2) + Duration::from_nanos(1), 0), None) else { panic!() };
        assert!(late[0].contains("late"), "{late:?}");
        let Verdict::Invalid(lost) = bounds.judge(&health(ms(1), 2), None) else { panic!() };
        assert!(lost[0].contains("2 packets (0.20 %)"), "{lost:?}");
        assert!(!bounds.judge(&health(ms(1), 0), Some("the trace ended".into())).is_valid());
    }

    #[test]
    fn steal_is_a_share_of_all_ticks() {
        let before = CpuTime::parse("cpu  10 0 10 70 0 0 0 10 5 5\ncpu0 1\n").unwrap();
        let after = CpuTime::parse("cpu  20 0 20 120 0 0 0 40 50 50\n").unwrap();
        assert_eq!(after.steal_share_since(before), Some(0.3));
        assert_eq!(before.steal_share_since(before), None);
        assert!(CpuTime::parse("cpu 1 2 3\n").is_none() && CpuTime::parse("").is_none());
    }
}
