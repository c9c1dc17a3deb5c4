//! RADIO_STATUS, which SiK radios put into the byte stream wherever they are, within a frame too.

use crate::mavlink::{Frame, RadioStatus};

/// What the bytes at a place are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// No report.
    Nothing,
    /// As far as it is there it looks like the beginning of one.
    Beginning,
    /// A report of so many bytes.
    Report(RadioStatus, usize),
}

/// Looks for a report that begins with the first byte. With a wrong byte it is none; 40 bits of it are fixed, and 16 are
/// checked.
pub(super) fn find(bytes: &[u8]) -> Found {
    let (fixed, len): (&[Option<u8>], usize) = match bytes {
        [] => return Found::Beginning,
        [0xfe, ..] => (&V1, 17),
        [0xfd, payload @ 1..=9, ..] => (&V2, 12 + usize::from(*payload)),
        [0xfd] => return Found::Beginning,
        _ => return Found::Nothing,
    };
    if fixed.iter().zip(bytes).any(|(fixed, byte)| fixed.is_some_and(|fixed| fixed != *byte)) {
        return Found::Nothing;
    }
    let Some(report) = bytes.get(..len) else { return Found::Beginning };
    let status = Frame::parse(report).ok().and_then(|(frame, _)| RadioStatus::from_frame(&frame));
    status.map_or(Found::Nothing, |status| Found::Report(status, len))
}

/// Longest report.
pub(super) const MAX_REPORT: usize = 21;

/// Magic, length, sequence, system 51, component 68, message 109.
const V1: [Option<u8>; 6] = [Some(0xfe), Some(9), None, Some(0x33), Some(0x44), Some(0x6d)];

/// Magic, length less trailing zeros, both sets of flags, sequence, system, component, message in three bytes.
const V2: [Option<u8>; 10] =
    [Some(0xfd), None, Some(0), Some(0), None, Some(0x33), Some(0x44), Some(0x6d), Some(0), Some(0)];
