//! Why frames went nowhere.

/// Why a frame goes nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DropReason {
    /// It came from an endpoint the router was not told of.
    UnknownEndpoint = 0,
    /// The endpoint's list for incoming messages stops it.
    BlockedIncoming = 1,
    /// It came from a group's standby endpoint.
    Standby = 2,
    /// It is a copy that a loop brought back.
    Echo = 3,
    /// It is a copy that came by another way.
    Duplicate = 4,
    /// It is a SETUP_SIGNING that may not go on.
    SetupSigning = 5,
    /// It is a RADIO_STATUS or RADIO from the other side.
    HopOnly = 6,
    /// Nobody knows its target.
    NoRoute = 7,
    /// There is no other endpoint to take it.
    NoReceiver = 8,
}

impl DropReason {
    /// All reasons, in the order of [`RouterStats::dropped`].
    pub const ALL: [Self; 9] = [
        Self::UnknownEndpoint,
        Self::BlockedIncoming,
        Self::Standby,
        Self::Echo,
        Self::Duplicate,
        Self::SetupSigning,
        Self::HopOnly,
        Self::NoRoute,
        Self::NoReceiver,
    ];

    /// Lower-case name for logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownEndpoint => "unknown_endpoint",
            Self::BlockedIncoming => "blocked_incoming",
            Self::Standby => "standby",
            Self::Echo => "echo",
            Self::Duplicate => "duplicate",
            Self::SetupSigning => "setup_signing",
            Self::HopOnly => "hop_only",
            Self::NoRoute => "no_route",
            Self::NoReceiver => "no_receiver",
        }
    }
}

/// Counters of a [`super::Router`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouterStats {
    /// Frames that went somewhere.
    pub forwarded: u64,
    /// Copies given out, one for each endpoint.
    pub copies: u64,
    /// Copies not sent because their source is where they would go.
    pub not_returned: u64,
    /// Copies stopped by the list of the endpoint they would go to.
    pub blocked_outgoing: u64,
    /// Frames whose source was not remembered because the endpoint's table is full.
    pub unlearned: u64,
    /// Reboots noticed.
    pub reboots: u64,
    dropped: [u64; DropReason::ALL.len()],
}

impl RouterStats {
    /// Frames dropped for this reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }

    pub(super) fn count(&mut self, reason: DropReason) {
        self.dropped[reason as usize] += 1;
    }
}
