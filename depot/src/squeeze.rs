//! Chunks as they travel: plain, or one zstd frame.

use aquila_proto::transfer::{Chunk, Hash};
use zstd::bulk::{Compressor, Decompressor};

/// zstd's level.
const LEVEL: i32 = 3;
/// Bytes of a file by which it is decided whether compressing it is worth the time.
pub const PROBE: usize = 64 << 10;

/// Compresses and decompresses, with memory of its own for both.
#[derive(Default)]
pub struct Squeezer {
    compressor: Option<Compressor<'static>>,
    decompressor: Option<Decompressor<'static>>,
    out: Vec<u8>,
}

impl std::fmt::Debug for Squeezer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Squeezer").finish_non_exhaustive()
    }
}

impl Squeezer {
    /// Whether this beginning of a file says that compressing saves a twentieth or more.
    pub fn probe(&mut self, bytes: &[u8]) -> bool {
        let bytes = &bytes[..bytes.len().min(PROBE)];
        self.compress(bytes).is_some_and(|out| out.len() * 20 <= bytes.len() * 19)
    }

    /// A frame, if that is shorter.
    pub fn compress(&mut self, bytes: &[u8]) -> Option<&[u8]> {
        if self.compressor.is_none() {
            self.compressor = Compressor::new(LEVEL).ok();
        }
        self.out.resize(bytes.len().saturating_sub(1), 0);
        // What does not get shorter has no room in `out`.
        let len = self.compressor.as_mut()?.compress_to_buffer(bytes, &mut self.out[..]).ok()?;
        self.out.get(..len)
    }

    /// The content of a chunk as it travels; `None` if it is another one's, or of another length. A frame that would become longer than
    /// the chunk is given up when it does.
    pub fn open<'a>(&'a mut self, chunk: &Chunk, wire: &'a [u8]) -> Option<&'a [u8]> {
        if wire.len() as u64 != u64::from(chunk.wire_len()) || chunk.len > Chunk::MAX {
            return None;
        }
        let content = if chunk.compressed == 0 {
            wire
        } else {
            if self.decompressor.is_none() {
                self.decompressor = Decompressor::new().ok();
            }
            self.out.resize(chunk.len as usize, 0);
            let len = self.decompressor.as_mut()?.decompress_to_buffer(wire, &mut self.out[..]).ok()?;
            self.out.get(..len)?
        };
        (content.len() as u64 == u64::from(chunk.len) && Hash::of(content) == chunk.hash).then_some(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_bombs_do_not_go_off() {
        let mut squeezer = Squeezer::default();
        let text = b"depth temperature salinity\n".repeat(3_000);
        assert!(squeezer.probe(&text));
        let wire = squeezer.compress(&text).unwrap().to_vec();
        let chunk = Chunk { hash: Hash::of(&text), len: text.len() as u32, compressed: wire.len() as u32 };
        assert_eq!(squeezer.open(&chunk, &wire), Some(&text[..]));
        assert_eq!(squeezer.open(&chunk, &wire[1..]), None);
        assert_eq!(squeezer.open(&Chunk { hash: Hash::of(b"x"), ..chunk }, &wire), None);
        // It says that it is shorter, or longer, than it becomes.
        for len in [1, text.len() as u32 - 1, text.len() as u32 + 1, Chunk::MAX, u32::MAX] {
            assert_eq!(squeezer.open(&Chunk { len, ..chunk }, &wire), None, "{len}");
        }
        let bomb = zstd::bulk::compress(&vec![0; 100 << 20], 19).unwrap();
        let chunk = Chunk { hash: Hash::of(b""), len: Chunk::MAX, compressed: bomb.len() as u32 };
        assert_eq!(squeezer.open(&chunk, &bomb), None);
        assert!(squeezer.out.capacity() <= 2 * Chunk::MAX as usize);
        let noise: Vec<u8> = (0..5_000u32).flat_map(|n| Hash::of(&n.to_be_bytes()).0).collect();
        assert!(!squeezer.probe(&noise));
        assert_eq!(squeezer.compress(&noise), None);
        assert!(!squeezer.probe(b"") && !squeezer.probe(b"x"));
    }
}
