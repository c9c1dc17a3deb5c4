//! What goes wrong is said once, not each time that it is tried again.

use std::collections::BTreeSet;

/// Complaints that are remembered.
const REMEMBERED: usize = 16;

/// Complaints of a thread.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    cast: Option<String>,
    made: BTreeSet<String>,
}

impl Complaints {
    /// Those about a cast of this name.
    pub fn about_cast(name: &str) -> Self {
        Self { cast: Some(name.to_owned()), made: BTreeSet::new() }
    }

    /// Says what is wrong, if that was not said.
    pub fn say(&mut self, complaint: String) {
        if self.made.contains(&complaint) {
            return;
        }
        tracing::error!(cast = self.cast, "{complaint}");
        if self.made.len() >= REMEMBERED {
            self.made.clear();
        }
        self.made.insert(complaint);
    }

    /// It works again: what goes wrong from now on is new.
    pub fn end(&mut self) {
        self.made.clear();
    }
}
