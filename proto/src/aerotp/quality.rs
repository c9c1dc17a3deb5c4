//! How well segments arrive: measured at the receiver, told to the sender, who chooses the strength of the code by it.

use std::time::{Duration, Instant};

use super::options::{BitErrorRate, LinkReport};

/// Segments over which shares are averaged.
const MEMORY: f64 = 64.0;
/// A change is told at most this often, and what has not changed each second.
const TELL_CHANGES: Duration = Duration::from_millis(250);
const TELL: Duration = Duration::from_secs(1);
/// A change of the error rate by this factor is worth telling of at once.
const CHANGE: f64 = 1.5;
/// From this share of damaged segments on their number says nothing of how many bits are wrong.
const SATURATED: f64 = 0.9;

/// What is known of a direction of the line.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Quality {
    /// Share of bits that are wrong; `None` if none was.
    pub bit_errors: Option<f64>,
    /// Share of segments that are lost: damaged and not repaired.
    pub lost: f64,
    /// Segments received, all that were recognised as such.
    pub received: u64,
    /// Of them damaged, and not repaired.
    pub damaged: u64,
    /// Of them repaired.
    pub repaired: u64,
}

impl Quality {
    /// As the other side tells it.
    pub(super) fn told(report: &LinkReport) -> Self {
        let rate = Some(report.bit_error_rate).filter(|rate| *rate != BitErrorRate::NONE);
        Self {
            bit_errors: rate.map(BitErrorRate::ratio),
            lost: f64::from(report.lost) / f64::from(u16::MAX),
            received: report.received.into(),
            damaged: report.damaged.into(),
            repaired: report.repaired.into(),
        }
    }

    /// To be told.
    pub(super) fn report(&self) -> LinkReport {
        LinkReport {
            bit_error_rate: self.bit_errors.map_or(BitErrorRate::NONE, BitErrorRate::from_ratio),
            lost: (self.lost.clamp(0.0, 1.0) * f64::from(u16::MAX)) as u16,
            received: self.received as u32,
            damaged: self.damaged as u32,
            repaired: self.repaired as u32,
        }
    }
}

/// Measures one direction.
#[derive(Debug, Default)]
pub(super) struct Meter {
    seen: f64,
    /// Shares, and means a segment.
    with_errors: f64,
    lost: f64,
    bits: f64,
    flipped: f64,
    counted: f64,
    totals: Quality,
    told: Option<(Instant, Quality)>,
}

impl Meter {
    /// A segment of `bytes` was intact, or was repaired and had so many wrong bits.
    pub fn on_segment(&mut self, bytes: usize, flipped: u32) {
        self.totals.received += 1;
        self.totals.repaired += u64::from(flipped > 0);
        self.add(bytes, flipped > 0, false);
        let weight = 1.0 / (self.counted + 1.0).min(MEMORY);
        self.counted += 1.0;
        self.flipped += (f64::from(flipped) / (bytes * 8).max(1) as f64 - self.flipped) * weight;
    }

    /// A segment was damaged beyond repair.
    pub fn on_damaged(&mut self, bytes: usize) {
        self.totals.received += 1;
        self.totals.damaged += 1;
        self.add(bytes, true, true);
    }

    /// One that was counted as damaged has been repaired all the same, with a copy.
    pub fn on_combined(&mut self) {
        self.totals.damaged = self.totals.damaged.saturating_sub(1);
        self.totals.repaired += 1;
    }

    fn add(&mut self, bytes: usize, with_errors: bool, lost: bool) {
        let weight = 1.0 / (self.seen + 1.0).min(MEMORY);
        self.seen += 1.0;
        self.with_errors += (f64::from(u8::from(with_errors)) - self.with_errors) * weight;
        self.lost += (f64::from(u8::from(lost)) - self.lost) * weight;
        self.bits += ((bytes * 8) as f64 - self.bits) * weight;
    }

    /// What is known now.
    pub fn quality(&self) -> Quality {
        // A segment of n bits is intact with (1 - p)^n. Where hardly one is, what the repaired ones had says more.
        let by_share = -(1.0 - self.with_errors.min(SATURATED)).ln() / self.bits.max(1.0);
        let rate = if self.with_errors < SATURATED { by_share } else { by_share.max(self.flipped) };
        Quality { bit_errors: (rate > 1e-12).then_some(rate), lost: self.lost, ..self.totals }
    }

    /// When the other side is to hear of it.
    pub fn due(&self) -> Option<Instant> {
        let (at, told) = self.told?;
        let now = self.quality();
        if now.received == told.received {
            return None;
        }
        let (old, new) = (told.bit_errors.unwrap_or(1e-7), now.bit_errors.unwrap_or(1e-7));
        // What few segments said is soon known better.
        let changed = now.received >= told.received * 4
            || new > old * CHANGE
            || old > new * CHANGE
            || now.lost > told.lost + 0.02;
        Some(at + if changed { TELL_CHANGES } else { TELL })
    }

    /// Whether the other side is to hear of it now.
    pub fn is_due(&self, now: Instant) -> bool {
        match self.told {
            None => self.totals.received > 0,
            Some(_) => self.due().is_some_and(|due| due <= now),
        }
    }

    /// What the other side hears now.
    pub fn tell(&mut self, now: Instant) -> Quality {
        let quality = self.quality();
        self.told = Some((now, quality));
        quality
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_rate_follows_from_how_many_segments_are_damaged() {
        let mut meter = Meter::default();
        assert_eq!(meter.quality().bit_errors, None);
        // At 10⁻⁵ 113 of 1000 segments of 1500 bytes have an error.
        for n in 0..2000_u32 {
            match n * 113 % 1000 < 113 {
                true => meter.on_segment(1500, 1),
                false => meter.on_segment(1500, 0),
            }
        }
        let rate = meter.quality().bit_errors.unwrap();
        assert!((7e-6..1.4e-5).contains(&rate), "{rate:e}");
        for _ in 0..500 {
            meter.on_segment(1500, 12);
        }
        let rate = meter.quality().bit_errors.unwrap();
        assert!((8e-4..1.2e-3).contains(&rate), "{rate:e}");
        for _ in 0..1000 {
            meter.on_segment(1500, 0);
        }
        assert!(meter.quality().bit_errors.is_none_or(|rate| rate < 1e-8));
        assert_eq!(meter.quality().received, 3500);
    }
}
