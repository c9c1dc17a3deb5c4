//! What is said of a bearer: its number, and what it may be used for.

use std::fmt;

/// Number of a bearer within a session. The side that connects gives it; the other learns it from the first packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BearerId(u8);

impl BearerId {
    /// Bearers of a session at most.
    pub const COUNT: usize = 16;
    /// That of a session with one bearer.
    pub const FIRST: Self = Self(0);

    /// The bearer of this number; `None` from [`BearerId::COUNT`] on.
    pub const fn new(number: u8) -> Option<Self> {
        if (number as usize) < Self::COUNT { Some(Self(number)) } else { None }
    }

    /// All there can be.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> {
        (0..Self::COUNT as u8).map(Self)
    }

    /// The number, from 0.
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl fmt::Display for BearerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What a bearer may be used for. In this order they are turned to: a later one carries nothing but Control as long as there is an
/// earlier one that is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Usage {
    /// Everything.
    #[default]
    Normal,
    /// Control, until the normal ones have failed.
    Backup,
    /// Control, until all the others have failed: each byte costs.
    Metered,
}

impl Usage {
    /// All, in order.
    pub const ALL: [Self; 3] = [Self::Normal, Self::Backup, Self::Metered];

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Backup => "backup",
            Self::Metered => "metered",
        }
    }
}
