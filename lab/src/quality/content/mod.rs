//! What is filmed: raw pictures by number.

mod clip;
mod flight;
mod store;

use std::path::PathBuf;
use std::str::FromStr;

pub use clip::ClipError;
pub(in crate::quality) use clip::read_picture;
pub use flight::Flight;
pub use store::{Store, StoreError};

/// What to film.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The synthetic flight, of the run's seed.
    Flight,
    /// A video file, over and over.
    Clip(PathBuf),
}

impl Content {
    /// Width and height of all pictures.
    pub const SIZE: (usize, usize) = (1_280, 720);
    /// Pictures a second.
    pub const RATE: u32 = 30;
}

impl FromStr for Content {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "flight" { Self::Flight } else { Self::Clip(text.into()) })
    }
}
