//! The analysis of [CONCLONE] ("An MPTCP-Based Transmission Scheme for Improving the Control Stability of Unmanned Aerial
//! Vehicles", Sensors 2021, 21, 2791) as functions: what copies over several links are worth.
//!
//! | file | of the paper | what |
//! |---|---|---|
//! | [`reliability`] | eq. 1, 2 | does a packet arrive over one of the links? |
//! | [`completion`] | eq. 3 to 7 | how much longer do all packets take? |
//! | [`links`] | eq. 9, 10 | how many links are enough? |
//! | [`lifetime`] | eq. 8, 9 | how long until all links have failed? |
//! | [`channel`] | eq. 11 to 14 | what does a packet meet on its way through the air? |
//! | [`inertia`] | eq. 15, 16 | what do the modems weigh on the aircraft? |
//! | [`copies`] | | how many copies does Aquila send for a target within a deadline? |
//! | [`analysis`] | | all of it for one's own numbers |
//! | [`paper`] | | what is printed beside what comes out |
//! | [`plots`] | figures 3, 4, 7, 8 | the same to look at |
//!
//! Where the paper is wrong, both are here: the function with `paper` in its name is as printed, the other one is right. Why is
//! said in `docs/conclone.md`. Like the paper, all of it takes losses of different links as independent; [`analysis`] has a
//! share of losses that takes all links at once, for those who know better.

pub mod analysis;
pub mod channel;
pub mod completion;
pub mod copies;
pub mod inertia;
pub mod lifetime;
pub mod links;
pub mod paper;
pub mod plots;
pub mod reliability;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;

/// A number from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
pub struct Probability(f64);

impl Probability {
    /// Never.
    pub const NEVER: Self = Self(0.0);
    /// Always.
    pub const ALWAYS: Self = Self(1.0);

    /// `None` if it is not one, as NaN is not.
    pub fn new(value: f64) -> Option<Self> {
        // 0 as well if it is written -0.
        (0.0..=1.0).contains(&value).then_some(Self(value.abs()))
    }

    /// From 0 to 1.
    pub fn get(self) -> f64 {
        self.0
    }

    /// That it is otherwise.
    pub fn complement(self) -> Self {
        Self(1.0 - self.0)
    }

    /// What floating point has left slightly outside is put on the edge; NaN is `ALWAYS`, since failures are what is computed.
    fn clamped(value: f64) -> Self {
        if value.is_nan() { Self::ALWAYS } else { Self(value.clamp(0.0, 1.0)) }
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number that the analysis has no meaning for.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum DomainError {
    /// It has to be positive.
    #[error("{what} is {value}; it must be more than 0, and finite")]
    NotPositive {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// It has to be positive or 0.
    #[error("{what} is {value}; it must be 0 or more, and finite")]
    Negative {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// It has to be a number.
    #[error("{what} is {value}; it must be a finite number")]
    NotFinite {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// It has bounds.
    #[error("{what} is {value}; it must be from {least} to {most}")]
    OutOfBounds {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: f64,
        /// Lower bound.
        least: f64,
        /// Upper bound.
        most: f64,
    },
}

/// Checks used by several files.
mod must {
    use super::DomainError;

    pub fn be_positive(what: &'static str, value: f64) -> Result<(), DomainError> {
        if value.is_finite() && value > 0.0 { Ok(()) } else { Err(DomainError::NotPositive { what, value }) }
    }

    pub fn not_be_negative(what: &'static str, value: f64) -> Result<(), DomainError> {
        if value.is_finite() && value >= 0.0 { Ok(()) } else { Err(DomainError::Negative { what, value }) }
    }

    pub fn be_finite(what: &'static str, value: f64) -> Result<(), DomainError> {
        if value.is_finite() { Ok(()) } else { Err(DomainError::NotFinite { what, value }) }
    }

    pub fn be_within(what: &'static str, value: f64, least: f64, most: f64) -> Result<(), DomainError> {
        match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(DomainError::OutOfBounds { what, value, least, most }),
        }
    }
}
