//! Damaged copies of segments, kept until one that came again, damaged elsewhere, makes a whole one of them.

use std::collections::VecDeque;

use super::{Header, Port, Seq};

/// Segments of which copies are kept.
const SEGMENTS: usize = 64;
/// Copies of one segment.
const COPIES: usize = 4;

#[derive(Debug, PartialEq, Eq)]
struct Key {
    ports: (Port, Port),
    seq: Seq,
    timestamp: u32,
    parity_words: u16,
    len: usize,
}

/// What is kept.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// The oldest first.
    segments: VecDeque<(Key, Vec<Vec<u8>>)>,
}

impl Copies {
    /// Keeps a copy; gives all there are of this segment, if it is not the first.
    pub fn add(&mut self, header: &Header, bytes: &[u8]) -> Option<&[Vec<u8>]> {
        let key = key(header, bytes.len());
        let at = match self.segments.iter().position(|(own, _)| *own == key) {
            Some(at) => at,
            None => {
                if self.segments.len() == SEGMENTS {
                    self.segments.pop_front();
                }
                self.segments.push_back((key, Vec::new()));
                self.segments.len() - 1
            }
        };
        let copies = &mut self.segments[at].1;
        if copies.len() == COPIES {
            copies.remove(0);
        }
        copies.push(bytes.to_vec());
        (copies.len() > 1).then_some(&copies[..])
    }

    /// The segment has been received whole.
    pub fn forget(&mut self, header: &Header) {
        let ports = (header.source, header.destination);
        self.segments.retain(|(key, _)| key.ports != ports || key.seq != header.seq);
    }
}

fn key(header: &Header, len: usize) -> Key {
    let Header { source, destination, seq, timestamp, parity_words, .. } = *header;
    Key { ports: (source, destination), seq, timestamp, parity_words, len }
}
