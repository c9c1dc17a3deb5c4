//! What a store is told when it is opened.

use std::path::PathBuf;
use std::sync::Arc;

use aquila_proto::identity::{Identity, PublicKey};

/// How a store is used. [`Config::new`] has the defaults.
#[derive(Debug, Clone)]
pub struct Config {
    /// Who it is: signs manifests and receipts.
    pub identity: Arc<Identity>,
    /// Keys of those whose objects are taken. Objects of anybody else's are refused.
    pub sources: Vec<PublicKey>,
    /// Keys of those whose word counts that something was delivered; ours counts if `shore` is set.
    pub shores: Vec<PublicKey>,
    /// Where objects end here, if they do.
    pub shore: Option<Shore>,
    /// When what was carried is given up.
    pub delete: Delete,
    /// Bytes of chunks that may be stored.
    pub quota: u64,
    /// Bytes that the disk must have free after anything was stored.
    pub min_free: u64,
    /// Bytes of chunks of released files that are kept as long as nothing else needs the room, so that a file's next version sends what
    /// changed.
    pub keep: u64,
}

/// A place where objects end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shore {
    /// The folder that files are put into. It is made if it is not there; nothing outside it is written. Without one files wait to be
    /// handed over as bundles do, see [`Depot::outgoing`](crate::Depot::outgoing).
    pub folder: Option<PathBuf>,
    /// Takes objects for this destination, and those for any.
    pub name: String,
}

/// When an object's chunks, and the spool's file it was made of, are given up. Files that were put by name are never deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delete {
    /// When a shore says that it is delivered.
    #[default]
    AfterDelivery,
    /// When another store has taken custody of it.
    AfterCustody,
    /// The spool's files never. Chunks after delivery.
    Never,
}

impl Config {
    /// A store that takes nothing from others, with no quota, 64 MiB of the disk left free, and 256 MiB kept for next versions.
    pub fn new(identity: Arc<Identity>) -> Self {
        Self {
            identity,
            sources: Vec::new(),
            shores: Vec::new(),
            shore: None,
            delete: Delete::default(),
            quota: u64::MAX,
            min_free: 64 << 20,
            keep: 256 << 20,
        }
    }
}
