//! Reads a bundle (RFC 9171 §4), and refuses what is malformed or absurd by name.
//!
//! The library parses; here is what it leaves to its caller: bounds that are checked before anything is allotted, and
//! the rules about time and hops.

use std::ops::Range;
use std::time::Duration;

use hardy_bpv7::block::Block;
use hardy_bpv7::bpsec::key::KeySet;
use hardy_bpv7::bundle::{Bundle, ParsedBundle};
use hardy_bpv7::crc::CrcType;
use hardy_bpv7::{Error, crc};

use crate::Eid;
use crate::blocks::{self, Covered};

/// The epoch of DTN time (RFC 9171 §4.2.6), 1 January 2000, in milliseconds since 1970.
pub(crate) const DTN_EPOCH_MS: u64 = 946_684_800_000;

/// What a bundle may be at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the whole bundle. 16 MiB.
    pub bundle: usize,
    /// Blocks, with the primary and the payload block. 64.
    pub blocks: usize,
    /// Bytes of the primary block, and with it of the names in it. 2 KiB.
    pub primary: usize,
    /// Bytes of any other block but the payload. 64 KiB.
    pub extension: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bundle: 16 << 20, blocks: 64, primary: 2 << 10, extension: 64 << 10 }
    }
}

/// Hop limit and count (RFC 9171 §4.4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hops {
    /// 1 to 255.
    pub limit: u64,
    /// Nodes that forwarded it so far.
    pub count: u64,
}

/// What a bundle says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Source, creation time and sequence number, and what part of a payload it is: the bundle's name (RFC 9171
    /// §4.2.7), as text without blanks or slashes.
    pub id: String,
    /// Who made it; `dtn:none` if nobody says so.
    pub source: Eid,
    /// Who it is for.
    pub destination: Eid,
    /// Who is told what became of it.
    pub report_to: Eid,
    /// When it was made, milliseconds since 1970; `None` if the source has no clock.
    pub created_ms: Option<u64>,
    /// Counts the bundles that the source made in the same millisecond.
    pub sequence: u64,
    /// How long after that anybody wants it.
    pub lifetime: Duration,
    /// How long it had been travelling when it was sent to us, if it says so (RFC 9171 §4.4.2).
    pub age: Option<Duration>,
    /// Over how many nodes it may go, if it says so.
    pub hops: Option<Hops>,
    /// The node that sent it to us, if it says so (RFC 9171 §4.4.1).
    pub previous: Option<Eid>,
    /// Offset and total length, in bytes, if it is a fragment of a payload.
    pub fragment: Option<(u64, u64)>,
    /// It is an administrative record (RFC 9171 §6.1).
    pub administrative: bool,
    /// It has blocks of BPSec (RFC 9172), which are carried and not looked into.
    pub secured: bool,
    /// The primary block has a CRC or is covered by an integrity block, as RFC 9171 §4.3.1 asks for. dtn7 makes bundles
    /// that are not.
    pub checked: bool,
    /// Blocks, with the primary and the payload block.
    pub blocks: usize,
    /// Where the payload is in the bundle.
    pub payload: Range<usize>,
    /// Bytes of the whole bundle.
    pub len: usize,
}

/// Why bytes are refused as a bundle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// More bytes than [`Limits::bundle`].
    #[error("a bundle of {0} bytes, more than we take")]
    TooLarge(usize),
    /// More blocks than [`Limits::blocks`].
    #[error("a bundle of more blocks than we take")]
    Blocks,
    /// A primary or an extension block that is longer than it may be.
    #[error("a block or a name that is longer than we take")]
    BlockLength,
    /// A version of the protocol that is not 7.
    #[error("version {0} of the bundle protocol")]
    Version(u64),
    /// A checksum that is wrong.
    #[error("a checksum that is wrong")]
    Checksum,
    /// A block that we do not know and whose flags say that the bundle is to be deleted then (RFC 9171 §5.6).
    #[error("a block that we do not know, without which it must not go on")]
    UnknownBlock,
    /// Encoded otherwise than RFC 9171 §4.1 says, broken off, or contradicting itself.
    #[error("not a bundle: {0}")]
    Malformed(String),
    /// Its source has no clock, and it does not tell its age, so nobody can say when it expires (RFC 9171 §4.4.2).
    #[error("neither a time of creation nor an age")]
    NoAge,
    /// Its lifetime is over.
    #[error("its lifetime is over")]
    Expired,
    /// It went over more nodes than it may.
    #[error("more hops than it may make")]
    Hops,
}

impl Summary {
    /// How long it lives on; `None` if its lifetime is over. `now_ms` counts from 1970; `dwell` is how long it has been
    /// with us.
    ///
    /// The age by the clock counts if the source has one, else that of the block (RFC 9171 §4.2.1, §5.5). If by our
    /// clock it was made in the future, one of the clocks is wrong, and the block counts too.
    pub fn remaining(&self, now_ms: u64, dwell: Duration) -> Option<Duration> {
        let by_block = self.age.map(|age| age.saturating_add(dwell));
        let by_clock = self.created_ms.and_then(|created| now_ms.checked_sub(created)).map(Duration::from_millis);
        self.lifetime.checked_sub(by_clock.or(by_block).unwrap_or(dwell)).filter(|left| !left.is_zero())
    }
}

impl Summary {
    /// The rules about time and hops.
    pub(crate) fn check(&self, now_ms: u64) -> Result<(), ReadError> {
        // Its age may be in a block that is encrypted.
        if self.created_ms.is_none() && self.age.is_none() && !self.secured {
            return Err(ReadError::NoAge);
        }
        if self.hops.is_some_and(|hops| hops.count > hops.limit) {
            return Err(ReadError::Hops);
        }
        self.remaining(now_ms, Duration::ZERO).map(drop).ok_or(ReadError::Expired)
    }
}

/// Reads and checks a bundle. `now_ms` counts from 1970.
///
/// # Errors
/// [`ReadError`] names what is wrong with it.
pub fn read(bytes: &[u8], limits: &Limits, now_ms: u64) -> Result<Summary, ReadError> {
    let summary = summary(&parse(bytes, limits)?, bytes.len());
    summary.check(now_ms)?;
    Ok(summary)
}

/// What it says of itself.
pub(crate) fn summary(opened: &Opened, len: usize) -> Summary {
    let Opened { bundle, covered } = opened;
    let payload = bundle.blocks.get(&1).map(Block::payload_range).unwrap_or_default();
    let created = bundle.id.timestamp.creation_time();
    Summary {
        id: bundle.id.to_key(),
        created_ms: created.map(|time| time.millisecs().saturating_add(DTN_EPOCH_MS)),
        sequence: bundle.id.timestamp.sequence_number(),
        fragment: bundle.id.fragment_info.as_ref().map(|info| (info.offset, info.total_adu_length)),
        source: bundle.id.source.clone(),
        destination: bundle.destination.clone(),
        report_to: bundle.report_to.clone(),
        lifetime: bundle.lifetime,
        age: bundle.age,
        hops: bundle.hop_count.as_ref().map(|hops| Hops { limit: hops.limit, count: hops.count }),
        previous: bundle.previous_node.clone(),
        administrative: bundle.flags.is_admin_record,
        secured: covered.any,
        checked: covered.blocks.contains(&0) || !matches!(bundle.crc_type, CrcType::None),
        blocks: bundle.blocks.len(),
        payload,
        len,
    }
}

/// A bundle that was read.
pub(crate) struct Opened {
    /// The library's view of it: blocks of BPSec, and what they encrypt, are not told apart from blocks that nobody
    /// knows.
    pub bundle: Bundle,
    pub covered: Covered,
}

/// The library's view of it, within bounds.
pub(crate) fn parse(bytes: &[u8], limits: &Limits) -> Result<Opened, ReadError> {
    if bytes.len() > limits.bundle {
        return Err(ReadError::TooLarge(bytes.len()));
    }
    let (shown, covered) = blocks::open(bytes, limits)?;
    let parsed = ParsedBundle::parse_with_keys(&shown, &KeySet::EMPTY).map_err(name)?;
    Ok(Opened { bundle: parsed.bundle, covered })
}

/// What it was at the bottom: the library tells in which field of which block it found it.
fn name(error: Error) -> ReadError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(inner) = cause {
        match inner.downcast_ref::<Error>() {
            Some(Error::InvalidVersion(version)) => return ReadError::Version(*version),
            Some(Error::Unsupported(_)) => return ReadError::UnknownBlock,
            Some(Error::InvalidCrc(crc::Error::IncorrectCrc)) => return ReadError::Checksum,
            _ => {}
        }
        if let Some(crc::Error::IncorrectCrc) = inner.downcast_ref() {
            return ReadError::Checksum;
        }
        cause = inner.source();
    }
    ReadError::Malformed(error.to_string())
}
