//! The kernel's timers: late by a tick at least and by an eighth of their time at most, as its timer wheel has it.

use std::time::{Duration, Instant};

/// The clock of a machine.
#[derive(Debug, Clone, Copy)]
pub struct Ticks {
    origin: Instant,
}

/// `CONFIG_HZ` = 250, as Debian's kernels have it and the one that the model was compared with.
pub const TICK: Duration = Duration::from_millis(4);
/// Ticks that the finest level of the wheel reaches (kernel/time/timer.c: `LVL_SIZE` - 1); each further one reaches 8
/// times as far and is 8 times as coarse (`LVL_CLK_SHIFT`).
const FINEST: u64 = 63;
const COARSER: u32 = 3;

impl Ticks {
    /// A machine that was started then.
    pub fn since(origin: Instant) -> Self {
        Self { origin }
    }

    /// When a timer fires that is set at `now`: a whole slot of its level of the wheel after it is due.
    pub fn after(&self, now: Instant, wait: Duration) -> Instant {
        let tick = TICK.as_nanos() as u64;
        let wait = (wait.as_nanos() as u64).div_ceil(tick);
        let due = (now - self.origin).as_nanos() as u64 / tick + wait;
        let mut shift = 0;
        while wait >= FINEST << shift && shift < 24 {
            shift += COARSER;
        }
        self.origin + Duration::from_nanos((((due >> shift) + 1) << shift) * tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_timers_are_coarser() {
        let origin = Instant::now();
        let ms = Duration::from_millis;
        let late = |at, wait| Ticks::since(origin).after(origin + ms(at), ms(wait)) - (origin + ms(at + wait));
        assert_eq!((late(0, 40), late(3, 40)), (ms(4), ms(1)));
        assert_eq!(late(0, 260), ms(28), "slots of 32 ms: 256 to 288");
        assert_eq!(late(20, 260), ms(8));
        assert_eq!(late(28, 260), ms(32), "never early");
        assert_eq!(late(0, 2080), ms(224), "slots of 256 ms");
    }
}
