//! Finds frames in a byte stream: serial lines, TCP, and UDP bridges that cut frames where they please.
//!
//! # What is believed
//! A frame of a known message is taken wherever it is found if its checksum is right, and never if it is wrong. A frame
//! that cannot be verified (unknown id) has nothing but its place to speak for it, and noise is full of magic bytes. It is
//! taken only if it begins exactly where a frame should (at the beginning of the stream, or right after a frame) and is
//! followed by a magic byte or by nothing that has arrived yet. Waiting for the byte after it would hold back the last
//! frame of every burst. So noise becomes a frame only if its first byte after a good frame is a magic and another magic
//! or the end of a read lies where its length says: about one in 16,000 bursts of noise, against one in 128 bytes if every
//! magic was believed. After garbage, unknown messages are lost until the next known one; every MAVLink component sends
//! HEARTBEAT once a second.
//!
//! A candidate that proves false costs one byte: the search goes on right behind its magic, so a frame inside it is found.

use super::frame::{Frame, FrameError, Inspected, inspect, is_magic};

/// Splits one stream. Holds at most [`Splitter::MAX_PENDING`] bytes and the last chunk.
#[derive(Debug, Default)]
pub struct Splitter {
    pending: Vec<u8>,
    /// Start of what is not consumed, in `pending`.
    head: usize,
    /// The same place, counted from the beginning of the stream.
    position: u64,
    /// Where in the stream the next frame should begin.
    boundary: u64,
    /// No frame reaches across this place in the stream.
    seam: u64,
    stats: SplitterStats,
}

/// What a [`Splitter`] has seen since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SplitterStats {
    /// Frames given out.
    pub frames: u64,
    /// Of those, frames that could not be verified.
    pub unverified: u64,
    /// Frames of known messages that had a wrong checksum, where a frame was due.
    pub bad_checksum: u64,
    /// Bytes that were no part of a frame.
    pub skipped_bytes: u64,
}

impl Splitter {
    /// If more than this is left of earlier chunks because frames are not taken out, it is skipped.
    pub const MAX_PENDING: usize = 65_536;

    /// A splitter at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends bytes from the stream. Take out every frame with [`Splitter::next_frame`] before the next call.
    pub fn feed(&mut self, chunk: &[u8]) {
        if self.pending() > Self::MAX_PENDING {
            self.skip(self.pending());
        }
        self.pending.drain(..self.head);
        self.head = 0;
        self.pending.extend_from_slice(chunk);
    }

    /// Appends a datagram, which is either whole frames or a piece of a stream. If it begins with a verified frame,
    /// a frame left incomplete by the datagrams before it has lost its end and is given up.
    pub fn feed_datagram(&mut self, datagram: &[u8]) {
        let fresh = self.pending() == 0;
        let end = self.end();
        if fresh || matches!(inspect(datagram), Ok(Inspected { proven: true, .. })) {
            self.seam = end;
        }
        self.feed(datagram);
        if fresh {
            self.boundary = self.position;
        }
    }

    /// The next frame, or `None` until more bytes arrive.
    pub fn next_frame(&mut self) -> Option<Frame> {
        loop {
            let garbage = self.pending[self.head..].iter().position(|&b| is_magic(b));
            self.skip(garbage.unwrap_or(self.pending()));
            garbage?;

            let data = &self.pending[self.head..];
            let before_seam = usize::try_from(self.seam.saturating_sub(self.position)).unwrap_or(usize::MAX);
            let bounded = before_seam > 0;
            let data = if bounded { &data[..before_seam.min(data.len())] } else { data };
            let due = self.position == self.boundary || self.position == self.seam;
            match inspect(data) {
                Ok(Inspected { len, proven }) => {
                    if proven || (due && data.get(len).is_none_or(|&next| is_magic(next))) {
                        let frame = Frame::copied(&data[..len]);
                        self.advance(len);
                        self.boundary = self.position;
                        self.stats.frames += 1;
                        self.stats.unverified += u64::from(!proven);
                        return Some(frame);
                    }
                }
                Err(FrameError::Truncated { .. }) if !bounded => return None,
                Err(FrameError::Checksum { len, .. }) if due => {
                    self.stats.bad_checksum += 1;
                    self.boundary = self.position + len as u64;
                }
                Err(_) => {}
            }
            self.skip(1);
        }
    }

    /// Gives up on a frame whose end has not come, because the line went quiet: call [`Splitter::next_frame`] until it
    /// returns `None` afterwards, there may be whole frames behind the false start. On a serial line, a quiet time of
    /// several times the longest frame's (49 ms at 57,600 baud) is right; never on TCP, where a gap is just a gap.
    pub fn flush(&mut self) {
        self.seam = self.end();
    }

    /// Bytes held back, waiting for the rest of a frame; at most 279 after [`Splitter::next_frame`] returned `None`.
    pub fn pending(&self) -> usize {
        self.pending.len() - self.head
    }

    /// Counters since the beginning.
    pub fn stats(&self) -> SplitterStats {
        self.stats
    }

    fn end(&self) -> u64 {
        self.position + self.pending() as u64
    }

    fn skip(&mut self, n: usize) {
        self.advance(n);
        self.stats.skipped_bytes += n as u64;
    }

    fn advance(&mut self, n: usize) {
        self.head += n;
        self.position += n as u64;
    }
}

#[cfg(test)]
#[path = "splitter_tests.rs"]
mod tests;
