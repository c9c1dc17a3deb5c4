//! What can go wrong in a store.

use std::io;
use std::path::PathBuf;

use aquila_proto::identity::PublicKey;
use aquila_proto::transfer::{ManifestError, ObjectId};

use crate::pack::PackError;

/// Why something could not be done. Nothing that was promised before is lost by any of them.
#[derive(Debug, thiserror::Error)]
pub enum DepotError {
    /// The database could not be read or written.
    #[error("the store's database: {0}")]
    Database(#[from] rusqlite::Error),
    /// A file could not be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// There is no store in the folder that was to be looked at.
    #[error("there is none")]
    NoStore,
    /// The folder belongs to a later version of this program.
    #[error("the store's folder is of version {0}, this program knows version {known}", known = crate::db::VERSION)]
    Version(i64),
    /// The store belongs to another key.
    #[error(
        "the store belongs to the key {}, and this one is {}: use the key it was made with, or another folder",
        .owner.fingerprint(), .given.fingerprint()
    )]
    Key {
        /// Whose it is.
        owner: PublicKey,
        /// Who wanted to use it.
        given: PublicKey,
    },
    /// There is no room: the quota is used up, or the disk is full. See [`crate::Health`].
    #[error("no room: {0}")]
    Full(NoRoom),
    /// There is no such object here, or not any more.
    #[error("object {} is not here", short(.0))]
    Unknown(ObjectId),
    /// A chunk could not be read, or is not what it was when it was stored. It counts as missing now.
    #[error("part {part} of object {} is damaged", short(.object))]
    Damaged {
        /// Which object.
        object: ObjectId,
        /// Which part of it.
        part: u64,
    },
    /// A file changed while it was read: try again later. Nothing of it was taken.
    #[error("{}: changed while it was read", .0.display())]
    Changing(PathBuf),
    /// Only plain files are carried.
    #[error("{}: not a plain file", .0.display())]
    NotAFile(PathBuf),
    /// A path in the object that is absolute, leads upwards, or cannot be a file's on some system.
    #[error("{0:?} is no path below a folder")]
    Path(String),
    /// Longer than can be carried as one object.
    #[error("{} bytes are too long: {} at most", .len, .most)]
    TooLong {
        /// Bytes that there are.
        len: u64,
        /// Bytes that there may be.
        most: u64,
    },
    /// An object that could not be described.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A pack that could not be read or written.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random,
}

/// Why there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// The store holds as much as it may.
    #[error("the store's quota is used up")]
    Quota,
    /// The disk has less free than it should keep.
    #[error("the disk has no more to spare")]
    Disk,
    /// Too many objects are incomplete.
    #[error("too many objects are incomplete")]
    Objects,
}

/// The beginning of an object's name.
pub(crate) fn short(object: &ObjectId) -> String {
    object.0.0[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

impl DepotError {
    /// Names the file that an error is about; what says that the disk is full becomes [`DepotError::Full`].
    pub(crate) fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::Full(NoRoom::Disk)
            }
            _ => Self::Io { path, error },
        }
    }

    /// Whether it is for want of room, which may come back.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
            || matches!(self, Self::Database(rusqlite::Error::SqliteFailure(error, _))
                if error.code == rusqlite::ErrorCode::DiskFull)
    }
}
