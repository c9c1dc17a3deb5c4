//! The pieces that a [`Path`](crate::Path) is made of, one behaviour each.

use std::time::{Duration, Instant};

pub(crate) mod bit_errors;
pub(crate) mod ccq;
pub(crate) mod codel;
pub(crate) mod delay;
pub(crate) mod gilbert_elliott;
pub(crate) mod handovers;
pub(crate) mod jitter;
pub(crate) mod loss;
pub(crate) mod opportunities;
pub(crate) mod queue;
pub(crate) mod samples;
pub(crate) mod server;

/// `instant` plus `duration`, or as late as can be told, at least 30 years on.
pub(crate) fn later(instant: Instant, duration: Duration) -> Instant {
    /// Some platforms count from boot in 64 bits of nanoseconds.
    const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
    instant.checked_add(duration).or_else(|| instant.checked_add(FAR)).unwrap_or(instant)
}
