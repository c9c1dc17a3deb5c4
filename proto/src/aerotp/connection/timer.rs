//! The times that a connection waits for.

/// What is to be done at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Timer {
    /// When to send a MACK for what has come, at the latest.
    Acknowledge,
    /// When to tell the other side of a gap (SNACK), for the first time or again.
    TellHoles,
    /// When to take what is under way for lost.
    Repeat,
    /// When to ask whether the other side takes more, since it holds us back.
    Probe,
    /// When to give out what waits behind a gap that nothing will fill.
    Release,
    /// When to send a repair segment, since nothing more follows that it could cover.
    Cover,
    /// When to send ASYN, without data if there is none.
    Asyn,
    /// When to send AFIN, for the first time or again.
    Afin,
    /// When to give up closing in order (CLOSE_TO).
    Close,
    /// When to forget a connection that the other side closed (LISTEN_TO).
    Listen,
}

impl Timer {
    pub const ALL: [Self; 10] = [
        Self::Acknowledge,
        Self::TellHoles,
        Self::Repeat,
        Self::Probe,
        Self::Release,
        Self::Cover,
        Self::Asyn,
        Self::Afin,
        Self::Close,
        Self::Listen,
    ];
}
