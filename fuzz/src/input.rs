//! Reads numbers and bytes off an input.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What is left of an input. At its end numbers are zero and byte strings empty.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn u8(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) << 16 | u32::from(self.u16())
    }

    /// A number below `end`, which is at most 256.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.u8()) % end
    }

    pub fn bool(&mut self) -> bool {
        self.u8() & 1 == 1
    }

    /// As many bytes as the next byte says.
    pub fn short_bytes(&mut self) -> &'a [u8] {
        let len = usize::from(self.u8());
        self.take(len)
    }

    /// As many bytes as the next two say.
    pub fn long_bytes(&mut self) -> &'a [u8] {
        let len = usize::from(self.u16());
        self.take(len)
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A step in time: mostly milliseconds, now and then half a minute.
    pub fn step(&mut self) -> Duration {
        match self.u8() {
            byte @ 0..=127 => Duration::from_micros(u64::from(byte) * 250),
            byte @ 128..=250 => Duration::from_millis(u64::from(byte - 127) * 4),
            byte => Duration::from_secs(u64::from(byte - 250) * 8),
        }
    }
}

/// Any point in time; targets only add to it.
pub fn epoch() -> Instant {
    Instant::now()
}

/// A file of this thread's own, removed with it: for what reads files.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Calls `read` with a file that has this in it.
    pub fn with<T>(data: &[u8], read: impl FnOnce(&Path) -> T) -> T {
        thread_local! {
            static SCRATCH: Scratch = {
                let name = format!("aquila-fuzz-{}-{:?}", std::process::id(), std::thread::current().id());
                Scratch(std::env::temp_dir().join(name))
            };
        }
        SCRATCH.with(|scratch| {
            std::fs::write(&scratch.0, data).expect("room for a small file");
            read(&scratch.0)
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
