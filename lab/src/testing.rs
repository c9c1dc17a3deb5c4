//! What tests have in common.

use std::path::{Path, PathBuf};

use crate::plan::{Plan, Variant, parse};

/// A plan that is right, and all its variants.
pub fn variants(text: &str) -> Vec<(Variant, Plan)> {
    parse(Path::new("test.toml"), text).unwrap()
}

/// A plan that is right, and sweeps nothing.
pub fn plan(text: &str) -> Plan {
    variants(text).remove(0).1
}

/// A directory of a test's own, removed at its end.
pub struct Folder(PathBuf);

impl Folder {
    /// `name` is unlike that of any other test.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("aquila-lab-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A file in it.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
