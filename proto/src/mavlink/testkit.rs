//! Frames for the tests: vectors made by pymavlink, and a small encoder of our own.

use std::time::Instant;

use bytes::Bytes;

use super::crc::checksum;
use super::frame::{Frame, MAGIC_V2, MessageId};
use super::messages;

pub(super) struct Vector {
    pub(super) kind: &'static str,
    pub(super) version: u8,
    pub(super) name: &'static str,
    pub(super) bytes: Vec<u8>,
}

/// All vectors, in the order of the file.
pub(super) fn vectors() -> Vec<Vector> {
    include_str!("testdata/vectors.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut words = line.split(' ');
            let mut word = || words.next().unwrap();
            let (kind, version, name) = (word(), word().parse().unwrap(), word());
            Vector { kind, version, name, bytes: unhex(word()) }
        })
        .collect()
}

/// The first vector of this message and version.
pub(super) fn known(name: &str, version: u8) -> Frame {
    let vector = vectors().into_iter().find(|v| v.name == name && v.version == version && v.kind == "known");
    Frame::from_bytes(Bytes::from(vector.unwrap().bytes)).unwrap()
}

/// A v2 frame; unknown ids get an arbitrary checksum seed.
pub(super) fn v2(system: u8, component: u8, id: u32, payload: &[u8]) -> Frame {
    v2_seq(0, system, component, id, payload)
}

/// A v2 frame with a sequence number; trailing zeros of the payload are cut as the specification wants.
pub(super) fn v2_seq(seq: u8, system: u8, component: u8, id: u32, payload: &[u8]) -> Frame {
    let kept = payload.iter().rposition(|&b| b != 0).map_or(1, |last| last + 1).min(payload.len());
    let [low, mid, high, _] = id.to_le_bytes();
    let mut bytes = vec![MAGIC_V2, kept as u8, 0, 0, seq, system, component, low, mid, high];
    bytes.extend_from_slice(&payload[..kept]);
    let seed = messages::lookup(MessageId(id)).map_or(42, |info| info.crc_extra);
    let crc = checksum(&bytes[1..], seed);
    bytes.extend_from_slice(&crc.to_le_bytes());
    Frame::from_bytes(Bytes::from(bytes)).unwrap()
}

/// Any point in time; the tests only add to it.
#[expect(clippy::disallowed_methods, reason = "an Instant cannot be made otherwise")]
pub(super) fn epoch() -> Instant {
    Instant::now()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
