//! The battery: four lithium-polymer cells.

/// Full and empty voltage at rest.
const FULL_V: f64 = 16.8;
const EMPTY_V: f64 = 13.6;
/// Volts lost per ampere.
const RESISTANCE_OHM: f64 = 0.02;
/// What the electronics draw.
const IDLE_A: f64 = 0.6;
/// What the motors draw at full throttle.
const FULL_THROTTLE_A: f64 = 45.0;

/// Charge used so far and the load of the moment.
#[derive(Debug, Clone, Copy)]
pub(in crate::aircraft) struct Battery {
    capacity_mah: f64,
    used_mah: f64,
    current_a: f64,
}

impl Battery {
    pub(in crate::aircraft) fn new(capacity_mah: f32) -> Self {
        Self { capacity_mah: f64::from(capacity_mah).max(1.0), used_mah: 0.0, current_a: IDLE_A }
    }

    /// Draws for `dt` seconds at a throttle of 0 to 1.
    pub(in crate::aircraft) fn step(&mut self, throttle: f64, dt: f64) {
        self.current_a = IDLE_A + FULL_THROTTLE_A * throttle;
        self.used_mah = (self.used_mah + self.current_a * dt / 3.6).min(self.capacity_mah);
    }

    pub(in crate::aircraft) fn voltage(&self) -> f64 {
        EMPTY_V + (FULL_V - EMPTY_V) * self.remaining() - RESISTANCE_OHM * self.current_a
    }

    pub(in crate::aircraft) fn current_a(&self) -> f64 {
        self.current_a
    }

    pub(in crate::aircraft) fn used_mah(&self) -> f64 {
        self.used_mah
    }

    /// 1 (full) to 0.
    pub(in crate::aircraft) fn remaining(&self) -> f64 {
        1.0 - self.used_mah / self.capacity_mah
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_at_idle_uses_what_idle_draws() {
        let mut battery = Battery::new(5_200.0);
        (0..3_600).for_each(|_| battery.step(0.0, 1.0));
        assert!((battery.used_mah() - 600.0).abs() < 1e-6);
        assert!(battery.voltage() < FULL_V);
    }

    #[test]
    fn it_does_not_go_below_empty() {
        let mut battery = Battery::new(100.0);
        battery.step(1.0, 1e6);
        assert_eq!(battery.remaining(), 0.0);
    }
}
