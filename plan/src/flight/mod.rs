//! Where the aircraft is, second by second: flown by the numbers, or as it was logged.
//!
//! | file | what |
//! |---|---|
//! | [`airframe`] | the aircraft and the wind: ground speed, heading, bank |
//! | [`pilot`] | lines, turns and circles, flown in steps |
//! | [`planned`] | loiters and missions |
//! | [`recorded`] | logs |

pub mod airframe;
pub mod pilot;
pub mod planned;
pub mod recorded;

use serde::Serialize;

use crate::geodesy::Position;

/// A flight that is farther from the node than this is refused, m: the model has nothing to say there.
pub const FARTHEST_M: f64 = 200_000.0;

/// A flight, a moment each second.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Track {
    /// The first is at 0 s.
    pub moments: Vec<Moment>,
    /// What was left out or taken otherwise, and why.
    pub notes: Vec<String>,
}

/// Where the aircraft is and how it is turned.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Moment {
    /// Where.
    pub position: Position,
    /// Over the ground, m/s.
    pub ground_speed_mps: f64,
    /// Clockwise from north, degrees; where the nose is, not where it flies to.
    pub heading_deg: f64,
    /// Right wing down, degrees.
    pub roll_deg: f64,
    /// Nose up, degrees.
    pub pitch_deg: f64,
}

/// A flight that cannot be flown or forecast.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FlightError {
    /// The wind is as fast as the aircraft.
    #[error("an airspeed of {airspeed_mps} m/s makes no way against a wind of {wind_mps} m/s")]
    Wind {
        /// Of the aircraft.
        airspeed_mps: f64,
        /// Of the wind.
        wind_mps: f64,
    },
    /// Farther than [`FARTHEST_M`].
    #[error("goes {0:.0} km away from the node; 200 km are the most")]
    Far(f64),
    /// Of a mission.
    #[error("item {number}: {reason}")]
    Item {
        /// Its number in the mission.
        number: u32,
        /// Why it cannot be flown.
        reason: String,
    },
    /// It has no way in it.
    #[error("the mission goes nowhere")]
    Nowhere,
}
