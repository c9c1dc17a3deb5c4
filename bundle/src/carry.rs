//! What changes in a bundle of somebody else's when it leaves us (RFC 9171 §5.4, §4.4).
//!
//! Age, hop count and previous node are written anew where they are present. All other bytes stay: also blocks we do
//! not know, and their order.

use std::time::Duration;

use bytes::Bytes;
use hardy_bpv7::block::Type;
use hardy_bpv7::hop_info::HopInfo;
use hardy_cbor::encode::emit;

use crate::blocks::write;
use crate::read::{Limits, Opened, ReadError, parse, summary};
use crate::{Eid, NodeId};

/// A bundle that leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried {
    /// Its bytes, one behind the other; what did not change is not copied.
    pub pieces: Vec<Bytes>,
    /// Blocks that would have to change but are covered by BPSec, and so left as they came.
    pub untouchable: usize,
}

impl Carried {
    /// Bytes of all of it.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// Never: a bundle has bytes.
    pub fn is_empty(&self) -> bool {
        self.pieces.iter().all(Bytes::is_empty)
    }

    /// All of it in one.
    pub fn to_vec(&self) -> Vec<u8> {
        self.pieces.concat()
    }
}

/// Why a bundle does not leave, and is to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Dropped {
    /// Its lifetime is over (RFC 9171 §5.5).
    #[error("its lifetime is over")]
    Expired,
    /// It would be one hop too far (RFC 9171 §4.4.3).
    #[error("more hops than it may make")]
    Hops,
    /// It cannot be read any more.
    #[error(transparent)]
    Unreadable(ReadError),
}

/// A bundle as it leaves `node`, after `dwell` with us. `now_ms` counts from 1970.
///
/// A bundle without blocks that change comes back byte for byte, in one piece that is not a copy.
///
/// # Errors
/// [`Dropped`] if it must not leave.
pub fn carry(bundle: &Bytes, limits: &Limits, node: &NodeId, dwell: Duration, now_ms: u64) -> Result<Carried, Dropped> {
    let opened = parse(bundle, limits).map_err(Dropped::Unreadable)?;
    let summary = summary(&opened, bundle.len());
    summary.check(now_ms).map_err(|error| match error {
        ReadError::Expired => Dropped::Expired,
        ReadError::Hops => Dropped::Hops,
        error => Dropped::Unreadable(error),
    })?;
    summary.remaining(now_ms, dwell).ok_or(Dropped::Expired)?;
    let Opened { bundle: parsed, covered } = opened;
    let mut untouchable = covered.hidden;
    let mut changes = Vec::new();
    for (&number, block) in &parsed.blocks {
        let data = match block.block_type {
            Type::PreviousNode => emit(&Eid::from(node.clone())).0,
            Type::BundleAge => {
                let age = parsed.age.unwrap_or_default().saturating_add(dwell);
                emit(&u64::try_from(age.as_millis()).unwrap_or(u64::MAX)).0
            }
            Type::HopCount => match &parsed.hop_count {
                Some(hops) if hops.count >= hops.limit => return Err(Dropped::Hops),
                Some(hops) => emit(&HopInfo { limit: hops.limit, count: hops.count + 1 }).0,
                None => Vec::new(),
            },
            _ => continue,
        };
        if covered.blocks.contains(&number) {
            untouchable += 1;
            continue;
        }
        let written = write(block.block_type.into(), number, (&block.flags).into(), block.crc_type, &data);
        let written = written.ok_or_else(|| Dropped::Unreadable(ReadError::Malformed("a block's checksum".into())))?;
        changes.push((block.extent.clone(), Bytes::from(written)));
    }
    changes.sort_by_key(|(extent, _)| extent.start);
    let mut pieces = Vec::with_capacity(2 * changes.len() + 1);
    let mut done = 0;
    for (extent, block) in changes {
        pieces.extend([bundle.slice(done..extent.start), block]);
        done = extent.end;
    }
    pieces.push(bundle.slice(done..));
    Ok(Carried { pieces, untouchable })
}
