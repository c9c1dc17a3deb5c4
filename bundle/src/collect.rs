//! Puts the pieces of objects together: in any order, several objects at a time, within bounds.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::{Part, PartOf};

/// What a collector holds at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectorLimits {
    /// Objects that are not whole. 64.
    pub objects: usize,
    /// Bytes of one object. 4 GiB.
    pub object: u64,
    /// Bytes of all objects that are not whole, as long as they say they are. 16 GiB.
    pub bytes: u64,
    /// Runs of bytes of one object with holes between them. 4096.
    pub runs: usize,
}

impl Default for CollectorLimits {
    fn default() -> Self {
        Self { objects: 64, object: 4 << 30, bytes: 16 << 30, runs: 4096 }
    }
}

impl CollectorLimits {
    /// For [`Memory`]: 8 objects of 16 MiB each, 64 MiB together.
    pub fn in_memory() -> Self {
        Self { objects: 8, object: 16 << 20, bytes: 64 << 20, runs: 4096 }
    }
}

/// Where the bytes of objects that are not whole are kept.
pub trait Place {
    /// A whole object, as it is handed on.
    type Object;

    /// Writes this at this offset of an object's content.
    ///
    /// # Errors
    /// If it is not kept.
    fn write(&mut self, of: &PartOf, offset: u64, data: &[u8]) -> io::Result<()>;

    /// The BLAKE3 of an object that is all there, read back from where it is kept.
    ///
    /// # Errors
    /// If it cannot be read.
    fn hash(&mut self, of: &PartOf) -> io::Result<[u8; 32]>;

    /// Hands on an object that is whole.
    ///
    /// # Errors
    /// If it is not sure to survive a power cut, where that is promised.
    fn finish(&mut self, of: &PartOf) -> io::Result<Self::Object>;

    /// Forgets an object.
    fn forget(&mut self, of: &PartOf);
}

/// What a piece did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Added<T> {
    /// It was taken; the object has holes yet.
    Kept,
    /// All of it was there already.
    Known,
    /// It was the last; the object is whole, and its hash is right.
    Whole(Whole<T>),
}

/// An object that is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole<T> {
    /// Name, length, hash and path.
    pub of: PartOf,
    /// Where it is, or what it is.
    pub object: T,
}

/// Why a piece is refused.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// It contradicts the pieces before it about length, hash or path.
    #[error("a piece that contradicts those before it")]
    Contradiction,
    /// The object is larger than we collect.
    #[error("an object of {0} bytes, more than we collect")]
    TooLarge(u64),
    /// There are too many objects that are not whole, or they are too large together. Later there may be room.
    #[error("too much is not whole yet")]
    Full,
    /// The object came in too many pieces with holes between them.
    #[error("too many holes")]
    Holes,
    /// All of it was there and its hash was wrong; it was forgotten, and has to come again.
    #[error("content that is not what was announced")]
    Hash,
    /// It could not be kept.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Collects pieces.
///
/// What an object's hash and path are is said by its pieces alone: who can send bundles to us can send pieces of a
/// false object by any name. Who needs more asks for the manifest, which is signed.
#[derive(Debug)]
pub struct Collector<P> {
    limits: CollectorLimits,
    place: P,
    objects: BTreeMap<[u8; 32], Partial>,
    bytes: u64,
}

#[derive(Debug)]
struct Partial {
    of: PartOf,
    /// Runs that are there: start and end, no two touch.
    runs: BTreeMap<u64, u64>,
}

impl<P: Place> Collector<P> {
    /// Of nothing so far.
    pub fn new(limits: CollectorLimits, place: P) -> Self {
        Self { limits, place, objects: BTreeMap::new(), bytes: 0 }
    }

    /// Takes a piece.
    ///
    /// # Errors
    /// [`CollectError`] names why not. What was there before stays, but after [`CollectError::Hash`] and
    /// [`CollectError::Io`] at the end.
    pub fn add(&mut self, part: &Part<'_>) -> Result<Added<P::Object>, CollectError> {
        let of = &part.of;
        match self.objects.get(&of.object) {
            Some(partial) if partial.of != *of => return Err(CollectError::Contradiction),
            Some(_) => {}
            None => self.begin(of)?,
        }
        let Some(partial) = self.objects.get_mut(&of.object) else { return Err(CollectError::Full) };
        let end = part.offset.saturating_add(part.data.len() as u64);
        let gaps = partial.gaps(part.offset..end);
        if gaps.is_empty() && of.total > 0 {
            return Ok(Added::Known);
        }
        if partial.runs_with(part.offset..end) > self.limits.runs {
            return Err(CollectError::Holes);
        }
        for gap in gaps {
            let from = usize::try_from(gap.start - part.offset).unwrap_or(usize::MAX);
            let to = usize::try_from(gap.end - part.offset).unwrap_or(usize::MAX);
            self.place.write(of, gap.start, part.data.get(from..to).unwrap_or_default())?;
            partial.insert(gap);
        }
        if !partial.is_whole() {
            return Ok(Added::Kept);
        }
        let whole = self.finish(of);
        if whole.is_err() {
            self.place.forget(of);
        }
        whole
    }

    /// Forgets an object that is not whole. True if there was one.
    pub fn forget(&mut self, object: &[u8; 32]) -> bool {
        let Some(partial) = self.objects.remove(object) else { return false };
        self.bytes -= partial.of.total;
        self.place.forget(&partial.of);
        true
    }

    /// Objects that are not whole, with bytes that are there.
    pub fn partial(&self) -> impl Iterator<Item = (&PartOf, u64)> {
        self.objects.values().map(|partial| (&partial.of, partial.runs.iter().map(|(start, end)| end - start).sum()))
    }

    fn begin(&mut self, of: &PartOf) -> Result<(), CollectError> {
        if of.total > self.limits.object {
            return Err(CollectError::TooLarge(of.total));
        }
        if self.objects.len() >= self.limits.objects || self.bytes + of.total > self.limits.bytes {
            return Err(CollectError::Full);
        }
        self.bytes += of.total;
        self.objects.insert(of.object, Partial { of: of.clone(), runs: BTreeMap::new() });
        Ok(())
    }

    fn finish(&mut self, of: &PartOf) -> Result<Added<P::Object>, CollectError> {
        self.objects.remove(&of.object);
        self.bytes -= of.total;
        if of.total == 0 {
            self.place.write(of, 0, &[])?;
        }
        if self.place.hash(of)? != of.hash {
            return Err(CollectError::Hash);
        }
        Ok(Added::Whole(Whole { object: self.place.finish(of)?, of: of.clone() }))
    }
}

impl Partial {
    fn is_whole(&self) -> bool {
        self.of.total == 0 || self.runs.first_key_value() == Some((&0, &self.of.total))
    }

    /// What of this is not there.
    fn gaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let before = self.runs.range(..range.start).next_back().map_or(range.start, |(_, end)| *end);
        let mut at = before.max(range.start);
        let mut gaps = Vec::new();
        for (&start, &end) in self.runs.range(range.clone()) {
            if at < start {
                gaps.push(at..start);
            }
            at = at.max(end);
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        gaps
    }

    /// How many runs there are when this is there: it becomes one with all that it touches.
    fn runs_with(&self, range: Range<u64>) -> usize {
        let touched = self.runs.range(..=range.end).rev().take_while(|(_, end)| **end >= range.start).count();
        self.runs.len() - touched + 1
    }

    /// A gap that is filled: runs that touch become one.
    fn insert(&mut self, gap: Range<u64>) {
        let start = match self.runs.range(..=gap.start).next_back() {
            Some((&start, &end)) if end == gap.start => start,
            _ => gap.start,
        };
        let end = self.runs.remove(&gap.end).unwrap_or(gap.end);
        self.runs.insert(start, end);
    }
}

/// Keeps objects in memory.
#[derive(Debug, Default)]
pub struct Memory(BTreeMap<[u8; 32], Vec<u8>>);

impl Place for Memory {
    type Object = Vec<u8>;

    fn write(&mut self, of: &PartOf, offset: u64, data: &[u8]) -> io::Result<()> {
        let content = self.0.entry(of.object).or_default();
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let end = start.checked_add(data.len()).ok_or(io::ErrorKind::InvalidInput)?;
        // Only as far as there is something: a length that was announced takes no memory.
        if content.len() < end {
            content.resize(end, 0);
        }
        content[start..end].copy_from_slice(data);
        Ok(())
    }

    fn hash(&mut self, of: &PartOf) -> io::Result<[u8; 32]> {
        let content = self.0.get(&of.object).ok_or(io::ErrorKind::NotFound)?;
        Ok(*blake3::hash(content).as_bytes())
    }

    fn finish(&mut self, of: &PartOf) -> io::Result<Vec<u8>> {
        self.0.remove(&of.object).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn forget(&mut self, of: &PartOf) {
        self.0.remove(&of.object);
    }
}

/// Keeps objects as files of a folder: `<name>.part` while there are holes, `<name>` when they are whole and synced to
/// the disk.
///
/// What runs are there is known in memory only: after a restart pieces have to come again.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// In this folder, which has to be there and is for nothing else.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    fn path(&self, of: &PartOf, suffix: &str) -> PathBuf {
        use std::fmt::Write as _;
        let mut name = String::with_capacity(70);
        for byte in of.object {
            let _ = write!(name, "{byte:02x}");
        }
        self.0.join(name + suffix)
    }
}

impl Place for Folder {
    type Object = PathBuf;

    fn write(&mut self, of: &PartOf, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(self.path(of, PARTIAL))?;
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(data)
    }

    fn hash(&mut self, of: &PartOf) -> io::Result<[u8; 32]> {
        let mut file = File::open(self.path(of, PARTIAL))?;
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; 64 << 10];
        let mut left = of.total;
        // A file of the same name may be there from before, and be longer.
        while left > 0 {
            let max = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let read = file.read(&mut buffer[..max])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            hasher.update(&buffer[..read]);
            left -= read as u64;
        }
        Ok(*hasher.finalize().as_bytes())
    }

    fn finish(&mut self, of: &PartOf) -> io::Result<PathBuf> {
        let (partial, whole) = (self.path(of, PARTIAL), self.path(of, ""));
        let file = OpenOptions::new().write(true).open(&partial)?;
        file.set_len(of.total)?;
        file.sync_all()?;
        std::fs::rename(&partial, &whole)?;
        sync_folder(&self.0)?;
        Ok(whole)
    }

    fn forget(&mut self, of: &PartOf) {
        let _ = std::fs::remove_file(self.path(of, PARTIAL));
    }
}

const PARTIAL: &str = ".part";

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
