//! Which bytes of an object are in which block. Sender and receiver both work it out from the manifest.

use std::ops::Range;

use super::MAX_BLOCK;

/// A block: something that is sent as symbols, and is whole or not there at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Block {
    /// A piece of the manifest: the nth [`MAX_BLOCK`] bytes, the last one shorter.
    Manifest(u32),
    /// Chunks, whole and in order; the nth block of [`Layout`].
    Chunks(u32),
}

impl Block {
    /// How long a piece of a manifest of this length is; `None` if there is no such piece.
    pub fn of_manifest(number: u32, manifest_len: usize) -> Option<usize> {
        let start = (number as usize).checked_mul(MAX_BLOCK)?;
        manifest_len.checked_sub(start).filter(|rest| *rest > 0).map(|rest| rest.min(MAX_BLOCK))
    }

    /// How many pieces a manifest of this length has.
    pub fn count_of_manifest(manifest_len: usize) -> u32 {
        manifest_len.div_ceil(MAX_BLOCK) as u32
    }
}

/// The chunks of an object in blocks: in their order, as many in each as [`MAX_BLOCK`] bytes hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// Where each chunk ends, in bytes since the beginning of its block.
    ends: Vec<u32>,
    /// The first chunk of each block, from 0.
    firsts: Vec<u32>,
}

impl Layout {
    /// Of chunks of these lengths on the way, each at most [`super::super::Chunk::MAX`].
    pub fn new(lens: impl IntoIterator<Item = u32>) -> Self {
        let mut layout = Self::default();
        let mut end = 0;
        for len in lens {
            if layout.ends.is_empty() || end + len as usize > MAX_BLOCK {
                layout.firsts.push(layout.ends.len() as u32);
                end = 0;
            }
            end += len as usize;
            layout.ends.push(end as u32);
        }
        layout
    }

    /// How many blocks.
    pub fn blocks(&self) -> u32 {
        self.firsts.len() as u32
    }

    /// How many chunks.
    pub fn chunks(&self) -> u64 {
        self.ends.len() as u64
    }

    /// Numbers of the chunks in a block, from 1; empty if there is no such block.
    pub fn parts(&self, block: u32) -> Range<u64> {
        let Some(&first) = self.firsts.get(block as usize) else { return 0..0 };
        let end = self.firsts.get(block as usize + 1).map_or(self.ends.len() as u64, |next| u64::from(*next));
        u64::from(first) + 1..end + 1
    }

    /// Bytes of a block; 0 if there is no such block.
    pub fn len_of(&self, block: u32) -> usize {
        let last = self.parts(block).end.checked_sub(2).and_then(|last| self.ends.get(last as usize));
        last.copied().unwrap_or_default() as usize
    }

    /// Which bytes of its block a chunk is.
    pub fn place(&self, block: u32, part: u64) -> Range<usize> {
        let parts = self.parts(block);
        if !parts.contains(&part) {
            return 0..0;
        }
        let end = |part: u64| self.ends.get(part as usize - 1).copied().unwrap_or_default() as usize;
        let start = if part == parts.start { 0 } else { end(part - 1) };
        start..end(part)
    }

    /// What it takes in memory, in bytes.
    pub fn memory(&self) -> usize {
        4 * (self.ends.len() + self.firsts.len())
    }
}
