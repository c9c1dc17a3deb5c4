//! Tests through the public interface: one binary for all of them.

use std::time::Instant;

mod composition;
mod half_duplex;
mod path;
mod traces;

/// An instant to count from; its value does not matter.
#[allow(clippy::disallowed_methods, reason = "an `Instant` cannot be made from nothing")]
fn epoch() -> Instant {
    Instant::now()
}
