//! Newtypes for units, and the arithmetic between them.
//!
//! Bare integers in public signatures have misled others (the same field documented once in bits and once in bytes), so
//! rates and sizes carry their unit in the type.

use std::ops::{Add, AddAssign, Mul, Sub};
use std::time::Duration;

/// A number of bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteCount(pub u64);

/// A bit rate in bits per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bitrate(pub u64);

impl ByteCount {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// The count as a buffer length; saturates on 32-bit machines.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// `self - other`, or zero if `other` is larger.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl From<usize> for ByteCount {
    fn from(n: usize) -> Self {
        Self(n as u64)
    }
}

impl Add for ByteCount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for ByteCount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for ByteCount {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl Bitrate {
    /// Nothing moves.
    pub const ZERO: Self = Self(0);

    /// A rate in units of 1000 bit/s.
    pub const fn kbps(kbps: u64) -> Self {
        Self(kbps * 1000)
    }

    /// A rate in units of 1,000,000 bit/s.
    pub const fn mbps(mbps: u64) -> Self {
        Self(mbps * 1_000_000)
    }

    /// The rate that moves `bytes` in `time`; zero for zero time.
    pub fn from_transfer(bytes: ByteCount, time: Duration) -> Self {
        let nanos = time.as_nanos();
        if nanos == 0 {
            return Self::ZERO;
        }
        let bits = u128::from(bytes.0) * 8 * 1_000_000_000;
        Self(u64::try_from(bits / nanos).unwrap_or(u64::MAX))
    }

    /// Bytes moved in `time`, rounded down.
    pub fn bytes_in(self, time: Duration) -> ByteCount {
        let bits = u128::from(self.0) * time.as_nanos() / 1_000_000_000;
        ByteCount(u64::try_from(bits / 8).unwrap_or(u64::MAX))
    }

    /// Time to serialise `bytes`, rounded up to the nanosecond; `Duration::MAX` at zero rate.
    pub fn time_for(self, bytes: ByteCount) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let nanos = (u128::from(bytes.0) * 8 * 1_000_000_000).div_ceil(u128::from(self.0));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The rate times a dimensionless factor; negative and NaN factors give zero.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor).max(0.0) as u64)
    }

    /// The rate in Mbit/s, for display.
    pub fn as_mbps(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Mul<f64> for Bitrate {
    type Output = Self;
    fn mul(self, factor: f64) -> Self {
        self.scaled(factor)
    }
}

impl Sub for Bitrate {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Bitrate {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialisation_time_and_bytes_are_inverse_at_the_boundary() {
        let rate = Bitrate::mbps(4);
        assert_eq!(rate.time_for(ByteCount(1200)), Duration::from_micros(2400));
        assert_eq!(rate.bytes_in(Duration::from_micros(2400)), ByteCount(1200));
        assert_eq!(Bitrate::ZERO.time_for(ByteCount(1)), Duration::MAX);
        assert_eq!(Bitrate::from_transfer(ByteCount(1200), Duration::from_micros(2400)), rate);
        assert_eq!(Bitrate::from_transfer(ByteCount(1200), Duration::ZERO), Bitrate::ZERO);
    }
}
