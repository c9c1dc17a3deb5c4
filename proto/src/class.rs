//! Traffic classes and how a message of a class is delivered.

/// Traffic class, in strict priority order: `Control` is served to exhaustion before `Telemetry`, and so on
/// ([AQUILA algorithm 1], extended from two queues to four).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Commands, their acknowledgements, manual control and heartbeats.
    Control = 0,
    /// Everything else that MAVLink carries.
    Telemetry = 1,
    /// Video frames.
    Video = 2,
    /// Files; uses what the others leave.
    Bulk = 3,
}

impl Class {
    /// All classes, highest priority first.
    pub const ALL: [Self; 4] = [Self::Control, Self::Telemetry, Self::Video, Self::Bulk];

    /// Lower-case name as used in configuration, logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Telemetry => "telemetry",
            Self::Video => "video",
            Self::Bulk => "bulk",
        }
    }

    /// Position in [`Class::ALL`], for arrays indexed by class.
    pub const fn index(self) -> usize {
        self as usize
    }
}
