//! Small records that are written before something is done, so that a killed process finds them again.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use aquila_proto::session::is_replay_snapshot;

/// Two copies of the replay window are written in turn, so that a torn write costs one delivery's memory at most. Each
/// is a page, so that a write is in it wholly or not at all when the process is killed.
const REPLAY_SLOT: usize = 4096;
/// What stands in front of a window: its generation and its length.
const REPLAY_HEADER: usize = 8 + 2;

/// A file of fixed size in the first of some folders that can be written to.
///
/// The first is meant to be in memory, and may go away while we run, as a login session's folder does with the session:
/// then the next one is taken, so that the record is where our next life looks for it.
#[derive(Debug)]
pub(super) struct Guard {
    places: Vec<PathBuf>,
    file: io::Result<File>,
    len: usize,
}

impl Guard {
    /// Opens file `name` in one of `dirs`, and takes its room there.
    pub fn open(dirs: &[&Path], name: &str, len: usize) -> Self {
        let places: Vec<_> = dirs.iter().map(|dir| dir.join(name)).collect();
        Self { file: open_any(&places, len), places, len }
    }

    /// What stands in each of the places, whatever we write to now.
    pub fn contents(&self) -> impl Iterator<Item = Vec<u8>> {
        self.places.iter().filter_map(|place| fs::read(place).ok())
    }

    /// Writes `bytes`; they are in the kernel's hands when this returns.
    ///
    /// # Errors
    /// Those of the file system, or that no place could be opened.
    pub fn write_at(&mut self, bytes: &[u8], offset: usize) -> io::Result<()> {
        if self.file.as_ref().is_ok_and(|file| file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)) {
            self.file = open_any(&self.places, self.len);
        }
        match &self.file {
            Ok(file) => file.write_all_at(bytes, offset as u64),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        }
    }
}

fn open_any(places: &[PathBuf], len: usize) -> io::Result<File> {
    let mut result = Err(io::ErrorKind::NotFound.into());
    for place in places {
        result = open(place, len);
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Opens a file and takes the room that it will need, so that a disk that fills up later does not matter to it.
fn open(path: &Path, len: usize) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let have = file.metadata()?.len();
    if let Some(missing) = (len as u64).checked_sub(have) {
        file.write_all_at(&vec![0; missing as usize], have)?;
    }
    Ok(file)
}

/// The replay window's file.
#[derive(Debug)]
pub(super) struct ReplayFile(Guard);

impl ReplayFile {
    pub fn open(dirs: &[&Path], name: &str) -> Self {
        Self(Guard::open(dirs, name, 2 * REPLAY_SLOT))
    }

    /// Each whole window in any of its places, with its generation.
    pub fn windows(&self) -> Vec<(u64, Vec<u8>)> {
        self.0.contents().flat_map(|bytes| windows(&bytes)).collect()
    }

    /// Writes a window, over the one before the last.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&mut self, generation: u64, window: &[u8]) -> io::Result<()> {
        let len = u16::try_from(window.len()).ok().filter(|len| usize::from(*len) <= REPLAY_SLOT - REPLAY_HEADER);
        let len = len.ok_or(io::ErrorKind::InvalidInput)?;
        let record = [&generation.to_be_bytes()[..], &len.to_be_bytes(), window].concat();
        self.0.write_at(&record, (generation % 2) as usize * REPLAY_SLOT)
    }
}

/// Each whole window in a file of windows, with its generation.
pub(super) fn windows(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut windows = Vec::new();
    for slot in bytes.chunks(REPLAY_SLOT) {
        let Some((generation, rest)) = slot.split_first_chunk() else { continue };
        let Some((len, rest)) = rest.split_first_chunk() else { continue };
        let (generation, len) = (u64::from_be_bytes(*generation), usize::from(u16::from_be_bytes(*len)));
        if generation == 0 {
            continue;
        }
        match rest.get(..len).filter(|window| is_replay_snapshot(window)) {
            Some(window) => windows.push((generation, window.to_vec())),
            None => tracing::warn!(generation, "a stored replay window is damaged; using the one before"),
        }
    }
    windows
}
