//! A folder that nothing is written outside of: every part of a path is opened by itself, and none may be a link.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, FileTimes};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use aquila_proto::transfer::Hash;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

/// What there is under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum There {
    /// Nothing.
    Nothing,
    /// A plain file with this content.
    File { len: u64, hash: Hash },
    /// Something else: a folder, a link, a device.
    Other,
}

/// A folder that is open.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
}

const FOLDER: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

impl Folder {
    /// The uppermost one, which may be a link: whoever configured it meant it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = FOLDER.difference(OFlag::O_NOFOLLOW);
        Ok(Self { fd: openat(nix::fcntl::AT_FDCWD, path, flags, Mode::empty())? })
    }

    /// A folder in it, which is made if it is not there; `None` if something else has its name.
    pub fn enter(&self, name: &OsStr) -> io::Result<Option<Self>> {
        match mkdirat(&self.fd, name, Mode::from_bits_truncate(0o777)) {
            Ok(()) => nix::unistd::fsync(&self.fd)?,
            Err(Errno::EEXIST) => {}
            Err(error) => return Err(error.into()),
        }
        match openat(&self.fd, name, FOLDER, Mode::empty()) {
            Ok(fd) => Ok(Some(Self { fd })),
            Err(Errno::ENOTDIR | Errno::ELOOP) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What has this name.
    pub fn look(&self, name: &OsStr) -> io::Result<There> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let mut file = match openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::ENOENT) => return Ok(There::Nothing),
            Err(Errno::ELOOP | Errno::ENXIO | Errno::EACCES) => return Ok(There::Other),
            Err(error) => return Err(error.into()),
        };
        if !file.metadata()?.is_file() {
            return Ok(There::Other);
        }
        let mut hasher = blake3::Hasher::new();
        let (mut buffer, mut len) = (vec![0; 64 << 10], 0);
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(There::File { len, hash: Hash(*hasher.finalize().as_bytes()) }),
                read => {
                    hasher.update(&buffer[..read]);
                    len += read as u64;
                }
            }
        }
    }

    /// Whether anything has this name.
    pub fn has(&self, name: &OsStr) -> io::Result<bool> {
        match nix::sys::stat::fstatat(&self.fd, name, nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Begins a file that has another name until it is whole. Left over ones of that name are removed.
    pub fn begin(self, temporary: String, name: String) -> io::Result<Begun> {
        match unlinkat(&self.fd, &*temporary, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = openat(&self.fd, &*temporary, flags, Mode::from_bits_truncate(0o666))?.into();
        Ok(Begun { folder: self, file, temporary, name })
    }
}

/// A file that has another name until it is whole.
#[derive(Debug)]
pub struct Begun {
    folder: Folder,
    /// To write into.
    pub file: File,
    temporary: String,
    name: String,
}

impl Begun {
    /// When it is to say that it was changed last, nanoseconds since 1970. A time that the file system cannot have is left out.
    pub fn set_modified(&self, modified_ns: i64) -> io::Result<()> {
        let since = Duration::from_nanos(modified_ns.unsigned_abs());
        let modified = if modified_ns < 0 { UNIX_EPOCH.checked_sub(since) } else { UNIX_EPOCH.checked_add(since) };
        modified.map_or(Ok(()), |modified| self.file.set_times(FileTimes::new().set_modified(modified)))
    }

    /// Removes it.
    pub fn give_up(&self) {
        let _ = unlinkat(&self.folder.fd, &*self.temporary, UnlinkatFlags::NoRemoveDir);
    }

    /// Gives files of one file system their names, once all of them are sure to be on the disk. Those that get none are removed.
    ///
    /// What a disk takes longest for is to be told that something must be on it, so it is told once for all of them.
    pub fn finish(all: &[Self]) -> io::Result<()> {
        let named = Self::try_finish(all);
        if let Err((at, error)) = named {
            all.iter().skip(at).for_each(Self::give_up);
            return Err(error);
        }
        Ok(())
    }

    /// Up to which file it went well, if not to the end.
    fn try_finish(all: &[Self]) -> Result<(), (usize, io::Error)> {
        if let [first, _, ..] = all {
            nix::unistd::syncfs(&first.folder.fd).map_err(|error| (0, error.into()))?;
        }
        // A file of which nothing is left to be written costs little, and says if writing failed; kernels before 5.8 say it nowhere else.
        all.iter().try_for_each(|begun| begun.file.sync_all()).map_err(|error| (0, error))?;
        let mut folders = BTreeMap::new();
        for (at, Self { folder, temporary, name, .. }) in all.iter().enumerate() {
            renameat(&folder.fd, &**temporary, &folder.fd, &**name).map_err(|error| (at, error.into()))?;
            let stat = nix::sys::stat::fstat(&folder.fd).map_err(|error| (at + 1, error.into()))?;
            folders.insert((stat.st_dev, stat.st_ino), folder);
        }
        let sync = |folder: &&Folder| nix::unistd::fsync(&folder.fd);
        folders.values().try_for_each(sync).map_err(|error| (all.len(), error.into()))
    }
}
