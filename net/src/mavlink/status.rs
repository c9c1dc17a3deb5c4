//! What an endpoint is doing, readable from anywhere at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use aquila_proto::mavlink::SplitterStats;

/// What an endpoint is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum EndpointState {
    /// Not there: unplugged, not connected, or trying.
    Down = 0,
    /// Waiting for others to connect or to be heard.
    Listening = 1,
    /// Frames can pass.
    Up = 2,
    /// Gone for good: the peer hung up or fell silent.
    Closed = 3,
}

impl EndpointState {
    /// Lower-case name for status pages and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Listening => "listening",
            Self::Up => "up",
            Self::Closed => "closed",
        }
    }
}

/// Counters of an endpoint since it was made, and its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointStatus {
    /// What it is doing.
    pub state: EndpointState,
    /// Frames received and passed on.
    pub frames_in: u64,
    /// Bytes received, garbage included.
    pub bytes_in: u64,
    /// Frames sent.
    pub frames_out: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Frames received but not passed on, because the session did not keep up (UDP only; the others stop reading).
    pub dropped_in: u64,
    /// Frames not sent: the queue was full, the peer was not there, or they waited too long.
    pub dropped_out: u64,
    /// Frames of known messages with a wrong checksum.
    pub bad_checksum: u64,
    /// Bytes received that were no part of a frame.
    pub skipped_bytes: u64,
    /// Frames waiting to be sent.
    pub queued: u64,
    /// Peers refused because there are too many, or datagrams from somebody else than the one we send to.
    pub refused: u64,
}

/// The live counters behind an [`EndpointStatus`]. What happens to a peer of a listening endpoint counts for both.
#[derive(Debug)]
pub(super) struct Meter {
    state: AtomicU8,
    counts: [AtomicU64; COUNTS],
    of: Option<Arc<Meter>>,
}

/// Indices of [`Meter::counts`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Count {
    FramesIn,
    BytesIn,
    FramesOut,
    BytesOut,
    DroppedIn,
    DroppedOut,
    BadChecksum,
    SkippedBytes,
    Queued,
    Refused,
}

impl Meter {
    /// For an endpoint of its own.
    pub(super) fn new(state: EndpointState) -> Arc<Self> {
        Self::with(state, None)
    }

    /// For a peer of a listening endpoint.
    pub(super) fn peer_of(listener: &Arc<Self>) -> Arc<Self> {
        Self::with(EndpointState::Up, Some(listener.clone()))
    }

    fn with(state: EndpointState, of: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { state: AtomicU8::new(state as u8), counts: Default::default(), of })
    }

    pub(super) fn add(&self, count: Count, n: u64) {
        self.counts[count as usize].fetch_add(n, Ordering::Relaxed);
        if let Some(of) = &self.of {
            of.add(count, n);
        }
    }

    pub(super) fn subtract(&self, count: Count, n: u64) {
        self.counts[count as usize].fetch_sub(n, Ordering::Relaxed);
        if let Some(of) = &self.of {
            of.subtract(count, n);
        }
    }

    /// Adds what a splitter has counted since `before`.
    pub(super) fn add_splitter(&self, before: SplitterStats, after: SplitterStats) {
        self.add(Count::BadChecksum, after.bad_checksum - before.bad_checksum);
        self.add(Count::SkippedBytes, after.skipped_bytes - before.skipped_bytes);
    }

    pub(super) fn set_state(&self, state: EndpointState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    pub(super) fn state(&self) -> EndpointState {
        match self.state.load(Ordering::Relaxed) {
            0 => EndpointState::Down,
            1 => EndpointState::Listening,
            2 => EndpointState::Up,
            _ => EndpointState::Closed,
        }
    }

    pub(super) fn status(&self) -> EndpointStatus {
        let count = |count: Count| self.counts[count as usize].load(Ordering::Relaxed);
        EndpointStatus {
            state: self.state(),
            frames_in: count(Count::FramesIn),
            bytes_in: count(Count::BytesIn),
            frames_out: count(Count::FramesOut),
            bytes_out: count(Count::BytesOut),
            dropped_in: count(Count::DroppedIn),
            dropped_out: count(Count::DroppedOut),
            bad_checksum: count(Count::BadChecksum),
            skipped_bytes: count(Count::SkippedBytes),
            queued: count(Count::Queued),
            refused: count(Count::Refused),
        }
    }
}

const COUNTS: usize = Count::Refused as usize + 1;
