//! Pictures that were made once and are needed several times, in a file without a name.
//!
//! A minute at 1280x720 is 2.5 GB: too much for memory, and making it again for each contender would take longer than all the rest.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use thiserror::Error;

use super::clip::{self, ClipError};
use super::{Content, Flight};
use crate::camera::Yuv;

/// Why there are no pictures.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The clip cannot be used.
    #[error(transparent)]
    Clip(#[from] ClipError),
    /// The temporary file cannot be written or read.
    #[error("pictures in {folder}: {error}")]
    File {
        /// Where.
        folder: String,
        /// Why.
        error: io::Error,
    },
}

/// Pictures by number.
#[derive(Debug)]
pub struct Store {
    file: File,
    folder: String,
    width: usize,
    height: usize,
    /// How many are kept.
    kept: u32,
    /// How many may be asked for: a clip begins again after its end.
    count: u32,
}

impl Store {
    /// Makes or reads `count` pictures and keeps them in a file in `folder`, which nobody else sees and which goes away with this. `progress`
    /// is told now and then how many there are.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn fill(
        content: &Content,
        seed: u64,
        (width, height): (usize, usize),
        count: u32,
        folder: &Path,
        progress: &(dyn Fn(u32) + Sync),
    ) -> Result<Self, StoreError> {
        let wrong = |error| StoreError::File { folder: folder.display().to_string(), error };
        let file = nameless_file(folder).map_err(wrong)?;
        let mut store = Self { file, folder: folder.display().to_string(), width, height, kept: count, count };
        match content {
            Content::Flight => store.fly(&Flight::new(seed, width, height), progress).map_err(wrong)?,
            Content::Clip(path) => {
                let mut kept = 0;
                clip::read(path, (width, height), Content::RATE, count, |picture| {
                    progress(kept);
                    kept += 1;
                    store.write(kept - 1, picture)
                })?;
                store.kept = kept;
            }
        }
        Ok(store)
    }

    /// Raw pictures of that size in a file, I420, without anything between them.
    ///
    /// # Errors
    /// [`StoreError::File`], also if there is not one whole picture in it.
    pub fn open(path: &Path, (width, height): (usize, usize)) -> Result<Self, StoreError> {
        let folder = path.display().to_string();
        let wrong = |error| StoreError::File { folder: folder.clone(), error };
        let file = File::open(path).map_err(wrong)?;
        let len = file.metadata().map_err(wrong)?.len();
        let mut store = Self { file, folder: folder.clone(), width, height, kept: 0, count: 0 };
        store.kept = u32::try_from(len / store.bytes()).unwrap_or(u32::MAX);
        store.count = store.kept;
        if store.kept == 0 {
            return Err(wrong(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(store)
    }

    /// How many pictures there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Width and height of each.
    pub fn size(&self) -> (usize, usize) {
        (self.width, self.height)
    }

    /// The picture with that number, which is below [`count`](Self::count).
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn picture(&self, number: u32) -> Result<Yuv, StoreError> {
        let mut picture = Yuv::new(self.width, self.height);
        let mut at = u64::from(number % self.kept) * self.bytes();
        let (y, u, v) = picture.planes_mut();
        for plane in [y, u, v] {
            self.file
                .read_exact_at(plane, at)
                .map_err(|error| StoreError::File { folder: self.folder.clone(), error })?;
            at += plane.len() as u64;
        }
        Ok(picture)
    }

    fn bytes(&self) -> u64 {
        (self.width * self.height * 3 / 2) as u64
    }

    fn write(&self, number: u32, picture: &Yuv) -> io::Result<()> {
        let mut at = u64::from(number) * self.bytes();
        for plane in [picture.y(), picture.u(), picture.v()] {
            self.file.write_all_at(plane, at)?;
            at += plane.len() as u64;
        }
        Ok(())
    }

    /// Every picture follows from its number, so all processors can work on them.
    fn fly(&self, flight: &Flight, progress: &(dyn Fn(u32) + Sync)) -> io::Result<()> {
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(16);
        let (next, done, failed) = (AtomicU32::new(0), AtomicU32::new(0), AtomicBool::new(false));
        let work = || -> io::Result<()> {
            while !failed.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= self.count {
                    break;
                }
                let written = self.write(number, &flight.render(number));
                failed.fetch_or(written.is_err(), Ordering::Relaxed);
                written?;
                progress(done.fetch_add(1, Ordering::Relaxed));
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }
}

/// A file that is gone when it is closed, however the program ends.
fn nameless_file(folder: &Path) -> io::Result<File> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("aquila-pictures-{}-{number}", std::process::id()));
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_was_made() {
        let folder = std::env::temp_dir();
        let store = Store::fill(&Content::Flight, 5, (160, 90), 7, &folder, &|_| {}).unwrap();
        let flight = Flight::new(5, 160, 90);
        for number in [0, 3, 6] {
            assert!(store.picture(number).unwrap() == flight.render(number));
        }
    }
}
