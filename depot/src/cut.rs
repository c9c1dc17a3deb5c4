//! Cuts what is read into chunks, where its content says so (FastCDC, version of 2020).

use std::io::{self, Read};

use aquila_proto::transfer::Chunk;
use fastcdc::v2020::FastCDC;

/// How long chunks are, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    min: usize,
    avg: usize,
    max: usize,
}

impl Sizes {
    /// Most chunks of an object: with path and destination, 200,000 fit a manifest of 8 MiB.
    pub const MOST: u64 = 200_000;
    /// Longest file, in bytes: all chunks as long as they may be.
    pub const LONGEST: u64 = Self::MOST * Chunk::MAX as u64;
    const MAX: usize = Chunk::MAX as usize;

    /// For a file of so many bytes. 64 KiB on average; where that makes more chunks than a manifest holds, longer ones: 192 KiB on average
    /// above 8 GB, and all of 256 KiB above 32 GB, of which those behind an insertion have nothing in common with what was there before.
    pub fn of(len: u64) -> Self {
        // With min 16 and max 256 KiB a chunk is somewhat longer than `avg` on average, never shorter than 2/3 of it.
        if len <= Self::MOST * (42 << 10) {
            Self { min: 16 << 10, avg: 64 << 10, max: Self::MAX }
        } else if len <= Self::MOST * (160 << 10) {
            Self { min: 160 << 10, avg: 192 << 10, max: Self::MAX }
        } else {
            Self { min: Self::MAX, avg: Self::MAX, max: Self::MAX }
        }
    }
}

/// Bytes that are read at once.
const BUFFER: usize = 1 << 20;

/// What comes out of a reader, in chunks.
#[derive(Debug)]
pub struct Cutter<R> {
    reader: R,
    sizes: Sizes,
    buffer: Vec<u8>,
    /// Of the buffer: where the next chunk begins, and where what was read ends.
    start: usize,
    end: usize,
    at_end: bool,
}

impl<R: Read> Cutter<R> {
    pub fn new(reader: R, sizes: Sizes) -> Self {
        Self { reader, sizes, buffer: Vec::new(), start: 0, end: 0, at_end: false }
    }

    /// Reads on until at least so many bytes are there, or the end is.
    fn fill(&mut self, least: usize) -> io::Result<()> {
        if self.end - self.start >= least || self.at_end {
            return Ok(());
        }
        self.buffer.resize(BUFFER, 0);
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        while self.end < BUFFER && !self.at_end {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(len) => self.end += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What comes next, at most so many bytes; it is not taken.
    pub fn peek(&mut self, most: usize) -> io::Result<&[u8]> {
        self.fill(most.min(BUFFER))?;
        Ok(&self.buffer[self.start..self.end.min(self.start + most)])
    }

    /// The next chunk; `None` at the end.
    pub fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.fill(Sizes::MAX)?;
        let rest = &self.buffer[self.start..self.end];
        if rest.is_empty() {
            return Ok(None);
        }
        let len = if self.sizes.min == Sizes::MAX {
            rest.len().min(Sizes::MAX)
        } else {
            let cutter = FastCDC::new(rest, self.sizes.min, self.sizes.avg, self.sizes.max);
            cutter.cut(0, rest.len()).1.clamp(1, Sizes::MAX)
        };
        let at = self.start;
        self.start += len;
        Ok(Some(&self.buffer[at..at + len]))
    }
}

#[cfg(test)]
mod tests {
    use aquila_proto::transfer::Hash;

    use super::*;

    /// Nothing that could be compressed or that repeats.
    fn noise(len: usize) -> Vec<u8> {
        (0..len.div_ceil(32) as u32).flat_map(|n| Hash::of(&n.to_be_bytes()).0).take(len).collect()
    }

    fn chunks(bytes: &[u8], sizes: Sizes) -> Vec<Vec<u8>> {
        let mut cutter = Cutter::new(bytes, sizes);
        let mut chunks = Vec::new();
        while let Some(chunk) = cutter.next().unwrap() {
            chunks.push(chunk.to_vec());
        }
        chunks
    }

    #[test]
    fn chunks_are_the_file_and_of_the_lengths_that_were_said() {
        let bytes = noise(12 << 20);
        for (len, average) in [(0, 60 << 10), (9 << 30, 170 << 10), (40 << 30, 250 << 10)] {
            let sizes = Sizes::of(len);
            let cut = chunks(&bytes, sizes);
            assert!(cut.concat() == bytes);
            let (last, before) = cut.split_last().unwrap();
            assert!(before.iter().all(|chunk| (sizes.min..=sizes.max).contains(&chunk.len())));
            assert!(last.len() <= sizes.max);
            assert!(bytes.len() / cut.len() > average, "{} on average", bytes.len() / cut.len());
        }
        for len in [0, 1, 100, 16 << 10] {
            assert_eq!(chunks(&bytes[..len], Sizes::of(0)).len(), len.min(1));
        }
        assert_eq!(chunks(&vec![0; 1 << 20], Sizes::of(0)).len(), 4);
    }

    #[test]
    fn an_insertion_leaves_the_other_chunks_alone() {
        let bytes = noise(6 << 20);
        let before = chunks(&bytes, Sizes::of(0));
        let changed = [&bytes[..3 << 20], b"inserted", &bytes[3 << 20..]].concat();
        let after = chunks(&changed, Sizes::of(0));
        assert!(after.iter().filter(|chunk| !before.contains(chunk)).count() <= 3);
    }
}
