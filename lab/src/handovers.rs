//! Handovers of a plan: at random times, of a given length, each with a new base delay.

use std::time::Duration;

use aquila_emu::trace::{Source, TraceError};
use aquila_emu::{Handover, Handovers, Outage};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::plan::HandoverPlan;

/// The handovers that a plan asks for; what arrives meanwhile waits, as in LTE.
pub fn of_plan(plan: &HandoverPlan, seed: u64) -> Handovers {
    let gap = (60e9 / plan.per_minute.max(1e-6)) as u64;
    let source = Regular {
        luck: ChaCha8Rng::seed_from_u64(seed),
        gap,
        lasts: plan.lasts.get(),
        shift: plan.delay_shift.map_or(0, |shift| i64::try_from(shift.get().as_nanos()).unwrap_or(i64::MAX)),
        at: Duration::ZERO,
    };
    Handovers { source: Box::new(source), outage: Outage::Hold }
}

/// Gaps from half to one and a half times the mean, all equally probable; shifts likewise between both bounds.
#[derive(Debug)]
struct Regular {
    luck: ChaCha8Rng,
    /// Mean, nanoseconds.
    gap: u64,
    lasts: Duration,
    /// Largest, nanoseconds.
    shift: i64,
    at: Duration,
}

impl Source<Handover> for Regular {
    fn next_item(&mut self) -> Result<Option<Handover>, TraceError> {
        let gap = self.gap / 2 + below(&mut self.luck, self.gap);
        self.at += Duration::from_nanos(gap);
        let shift = below(&mut self.luck, 2 * self.shift.unsigned_abs() + 1) as i64 - self.shift;
        let delay_shift = (self.shift > 0).then_some(shift);
        Ok(Some(Handover { at: self.at, lasts: self.lasts, delay_shift }))
    }

    fn rewind(&mut self) -> Result<(), TraceError> {
        Ok(())
    }
}

/// A number below `bound`, without the bias that would matter here.
fn below(luck: &mut ChaCha8Rng, bound: u64) -> u64 {
    ((u128::from(luck.next_u64()) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_a_minute_as_asked_and_shifts_to_both_sides() {
        let text = "per_minute = 6\nlasts = \"300 ms\"\ndelay_shift = \"60 ms\"";
        let mut source = of_plan(&toml::from_str(text).unwrap(), 1).source;
        let all: Vec<Handover> = std::iter::from_fn(|| source.next_item().unwrap()).take(600).collect();
        let minutes = all.last().unwrap().at.as_secs_f64() / 60.0;
        assert!((95.0..105.0).contains(&minutes), "{minutes}");
        assert!(all.windows(2).all(|pair| pair[1].at - pair[0].at >= Duration::from_secs(5)));
        let shifts: Vec<i64> = all.iter().filter_map(|handover| handover.delay_shift).collect();
        assert!(shifts.iter().all(|shift| shift.abs() <= 60_000_000));
        assert!(*shifts.iter().min().unwrap() < -50_000_000 && *shifts.iter().max().unwrap() > 50_000_000);
    }
}
