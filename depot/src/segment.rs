//! Plain files that chunks are appended to.
//!
//! Whoever appends to a segment holds a lock on it. What is behind the end that the database knows was never promised, and is cut off
//! by the next one who appends, or who opens the store.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{FallocateFlags, fallocate};

use crate::error::DepotError;

/// Where a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Number of the segment.
    pub segment: i64,
    /// Where in it.
    pub at: u64,
    /// Bytes.
    pub len: u32,
}

/// A segment that is full, in bytes.
pub const FULL: u64 = 64 << 20;
/// Segments that are open for reading, at most.
const MAX_OPEN: usize = 16;

/// A segment that is ours to append to.
#[derive(Debug)]
pub struct Writer {
    /// Its number.
    pub number: i64,
    /// Where the next chunk goes.
    pub end: u64,
    /// Up to where it is sure to be on the disk.
    pub synced: u64,
    path: PathBuf,
    file: File,
}

impl Writer {
    /// Takes a segment over from whoever appended to it before, up to the end that the database knows; `None` if it is locked, or gone.
    pub fn adopt(folder: &Path, number: i64, end: u64) -> Result<Option<Self>, DepotError> {
        let path = path(folder, number);
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(DepotError::at(path)(error)),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(DepotError::at(path)(error)),
        }
        if file.metadata().map_err(DepotError::at(&path))?.len() > end {
            file.set_len(end).map_err(DepotError::at(&path))?;
        }
        Ok(Some(Self { number, end, synced: end, path, file }))
    }

    /// Makes a segment; `None` if there is one of this number.
    pub fn make(folder: &Path, number: i64) -> Result<Option<Self>, DepotError> {
        let path = path(folder, number);
        let file = match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(DepotError::at(path)(error)),
        };
        file.lock().map_err(DepotError::at(&path))?;
        sync_folder(folder)?;
        Ok(Some(Self { number, end: 0, synced: 0, path, file }))
    }

    #[cfg(test)]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Bytes that the file really has.
    pub fn len_on_disk(&self) -> Result<u64, DepotError> {
        Ok(self.file.metadata().map_err(DepotError::at(&self.path))?.len())
    }

    /// Appends a chunk.
    pub fn append(&mut self, bytes: &[u8]) -> Result<Place, DepotError> {
        self.file.write_all_at(bytes, self.end).map_err(DepotError::at(&self.path))?;
        let place = Place { segment: self.number, at: self.end, len: bytes.len() as u32 };
        self.end += bytes.len() as u64;
        Ok(place)
    }

    /// Waits until all of it is on the disk.
    pub fn sync(&mut self) -> Result<(), DepotError> {
        if self.synced < self.end {
            self.file.sync_data().map_err(DepotError::at(&self.path))?;
            self.synced = self.end;
        }
        Ok(())
    }
}

/// Segments that are read.
#[derive(Debug)]
pub struct Readers {
    folder: PathBuf,
    open: VecDeque<(i64, File)>,
}

impl Readers {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, open: VecDeque::new() }
    }

    /// Reads a chunk.
    pub fn read(&mut self, place: Place) -> io::Result<Vec<u8>> {
        if let Some(index) = self.open.iter().position(|(number, _)| *number == place.segment) {
            let used = self.open.remove(index);
            self.open.extend(used);
        } else {
            let file = File::open(path(&self.folder, place.segment))?;
            if self.open.len() == MAX_OPEN {
                self.open.pop_front();
            }
            self.open.push_back((place.segment, file));
        }
        let mut bytes = vec![0; place.len as usize];
        if let Some((_, file)) = self.open.back() {
            file.read_exact_at(&mut bytes, place.at)?;
        }
        Ok(bytes)
    }

    /// A segment is not needed any more.
    pub fn forget(&mut self, segment: i64) {
        self.open.retain(|(number, _)| *number != segment);
    }
}

/// The file of a segment.
pub fn path(folder: &Path, number: i64) -> PathBuf {
    folder.join(format!("{number:06}"))
}

/// The number of the segment that a file is.
pub fn number(name: &str) -> Option<i64> {
    name.parse().ok().filter(|number| *number > 0)
}

/// Gives a part of a segment back to the file system. Where that cannot, nothing is done.
pub fn punch(folder: &Path, place: Place) {
    let Ok(file) = OpenOptions::new().write(true).open(path(folder, place.segment)) else { return };
    let mode = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    if let Err(error) = fallocate(&file, mode, place.at as i64, i64::from(place.len)) {
        tracing::debug!(segment = place.segment, %error, "space cannot be given back in part");
    }
}

/// Makes names of files in a folder sure to be there after a power cut.
pub fn sync_folder(folder: &Path) -> Result<(), DepotError> {
    let sync = || File::open(folder)?.sync_all();
    sync().map_err(DepotError::at(folder))
}
