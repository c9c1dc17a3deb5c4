//! What several tests need.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A public key.
pub const PEER: &str = "aq1:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

/// A directory of its own, removed at the end.
pub struct TempDir(PathBuf);

impl TempDir {
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("aquila-{name}-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(unique);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.join(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
