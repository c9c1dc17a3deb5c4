//! Controllers that are not ours: which, and what of them can be set. What drives them is with QUIC.

use crate::ByteCount;

/// One of `noq-proto`'s own congestion controllers, fed with our reports in place of QUIC's acknowledgements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Borrowed {
    /// Which.
    pub kind: BorrowedKind,
    /// What can be set.
    pub config: BorrowedConfig,
}

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BorrowedKind {
    /// BBRv3 (draft-ietf-ccwg-bbr).
    Bbr,
    /// CUBIC (RFC 9438).
    Cubic,
}

/// Parameters of either.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BorrowedConfig {
    /// Bytes in flight at the start (RFC 9002 §7.2).
    pub initial_window: ByteCount,
    /// Share of its rate that video gets: of BBR's pacing rate, 0.75, so that probing for a quarter more does not fill the
    /// sender's queue; of CUBIC's window in a round trip, 0.9.
    pub gamma: f64,
}

impl BorrowedConfig {
    /// What a controller has unless told otherwise.
    pub fn of(kind: BorrowedKind) -> Self {
        let gamma = match kind {
            BorrowedKind::Bbr => 0.75,
            BorrowedKind::Cubic => 0.9,
        };
        Self { initial_window: ByteCount(12_000), gamma }
    }
}

impl BorrowedKind {
    /// Its name in configuration and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bbr => "bbr",
            Self::Cubic => "cubic",
        }
    }
}
