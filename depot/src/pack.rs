//! Many small files in one object: an index, and behind it the files, one after the other.
//!
//! ```text
//! "aqP1"  count
//! count times:  length of path, path, length of file (varints), mtime (8 bytes, ns since 1970, big endian)
//! the files' bytes
//! ```

use std::collections::BTreeSet;

use aquila_proto::transfer::is_safe;
use aquila_proto::wire::varint::{put_varint, take_varint};

/// A file in a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its path, see [`is_safe`]; parts are at most [`MAX_PART`] bytes long.
    pub path: &'a str,
    /// When it was changed last, nanoseconds since 1970.
    pub modified_ns: i64,
    /// What is in it.
    pub content: &'a [u8],
}

/// Why bytes are no pack, or files make none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// It ends too early, goes on behind its end, or is longer than one may be.
    #[error("a pack of another length")]
    Length,
    /// A later version's, or nothing of the kind.
    #[error("not a pack, or one of a later version")]
    Version,
    /// No file, or more than there may be.
    #[error("a pack of no files, or of too many")]
    Count,
    /// A path that leads out of the folder, or is no path.
    #[error("a path in a pack that could lead out of the receiver's folder")]
    Path,
    /// Two files of one path.
    #[error("two files of one path in a pack")]
    Twice,
}

const MAGIC: &[u8; 4] = b"aqP1";
/// Longest pack, index included, in bytes.
pub const MAX_LEN: usize = 1 << 20;
/// Most files in one.
pub const MAX_FILES: usize = 16_384;
/// Longest part of a path between `/`, in bytes: there is room for what tells versions apart.
pub const MAX_PART: usize = 230;
/// Least bytes of an entry in the index: a path of one character, and an empty file.
const MIN_ENTRY: usize = 1 + 1 + 1 + 8;

/// Whether a path can be put into a folder here: it is safe, and no part of it is too long.
pub fn fits(path: &str) -> bool {
    is_safe(path) && path.split('/').all(|part| part.len() <= MAX_PART)
}

/// Bytes that a file takes in a pack, at most.
pub fn cost(path: &str, len: usize) -> usize {
    path.len() + len + 2 + 8 + 8
}

/// Writes a pack.
///
/// # Errors
/// If nobody could read it.
pub fn write(entries: &[Entry<'_>]) -> Result<Vec<u8>, PackError> {
    if entries.is_empty() || entries.len() > MAX_FILES {
        return Err(PackError::Count);
    }
    let mut out = MAGIC.to_vec();
    put_varint(&mut out, entries.len() as u64);
    let mut paths = BTreeSet::new();
    for entry in entries {
        if !fits(entry.path) {
            return Err(PackError::Path);
        }
        if !paths.insert(entry.path) {
            return Err(PackError::Twice);
        }
        put_varint(&mut out, entry.path.len() as u64);
        out.extend_from_slice(entry.path.as_bytes());
        put_varint(&mut out, entry.content.len() as u64);
        out.extend_from_slice(&entry.modified_ns.to_be_bytes());
    }
    let len = entries.iter().fold(out.len(), |len, entry| len.saturating_add(entry.content.len()));
    if len > MAX_LEN {
        return Err(PackError::Length);
    }
    entries.iter().for_each(|entry| out.extend_from_slice(entry.content));
    Ok(out)
}

/// Reads a pack. Nothing is copied, and nothing allotted before it is known to be there.
///
/// # Errors
/// If it is none, in whatever respect.
pub fn parse(bytes: &[u8]) -> Result<Vec<Entry<'_>>, PackError> {
    if bytes.len() > MAX_LEN {
        return Err(PackError::Length);
    }
    let (magic, mut rest) = bytes.split_first_chunk::<4>().ok_or(PackError::Length)?;
    if magic != MAGIC {
        return Err(PackError::Version);
    }
    let count = take_varint(&mut rest).ok_or(PackError::Length)?;
    if count == 0 || count > MAX_FILES as u64 {
        return Err(PackError::Count);
    }
    if count > (rest.len() / MIN_ENTRY) as u64 {
        return Err(PackError::Length);
    }
    let mut index = Vec::with_capacity(count as usize);
    let mut paths = BTreeSet::new();
    for _ in 0..count {
        let (path, len, modified_ns) = take_entry(&mut rest).ok_or(PackError::Length)?;
        let path = std::str::from_utf8(path).ok().filter(|path| fits(path)).ok_or(PackError::Path)?;
        if !paths.insert(path) {
            return Err(PackError::Twice);
        }
        index.push((path, len, modified_ns));
    }
    let mut entries = Vec::with_capacity(index.len());
    for (path, len, modified_ns) in index {
        let (content, behind) = rest.split_at_checked(len).ok_or(PackError::Length)?;
        rest = behind;
        entries.push(Entry { path, modified_ns, content });
    }
    if rest.is_empty() { Ok(entries) } else { Err(PackError::Length) }
}

/// How many files a pack says that it has, by its beginning.
pub(crate) fn count(beginning: &[u8]) -> Option<u64> {
    let mut rest = beginning.strip_prefix(MAGIC)?;
    take_varint(&mut rest).filter(|count| (1..=MAX_FILES as u64).contains(count))
}

fn take_entry<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], usize, i64)> {
    let len = usize::try_from(take_varint(rest)?).ok()?;
    let (path, behind) = rest.split_at_checked(len)?;
    *rest = behind;
    let len = usize::try_from(take_varint(rest)?).ok()?;
    let (modified_ns, behind) = rest.split_first_chunk::<8>()?;
    *rest = behind;
    Some((path, len, i64::from_be_bytes(*modified_ns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_absurd_is_not() {
        let entry = |path: &'static str, content: &'static [u8]| Entry { path, modified_ns: -7, content };
        let entries = [entry("a/b.txt", &b"one"[..]), entry("empty", b""), entry("\u{6c34}", b"three")];
        let bytes = write(&entries).unwrap();
        assert_eq!(parse(&bytes).unwrap(), entries);
        assert_eq!((count(&bytes), count(&bytes[..4]), count(b"aqP1\0")), (Some(3), None, None));
        for at in 0..bytes.len() {
            assert!(parse(&bytes[..at]).is_err(), "{at}");
        }
        assert_eq!(parse(&[&bytes[..], b"x"].concat()), Err(PackError::Length));
        assert_eq!(parse(&[b"aqP2", &bytes[4..]].concat()), Err(PackError::Version));
        for path in ["../x", "/x", "a//b", "a\\b", "", "."] {
            assert_eq!(write(&[entry(path, b"")]), Err(PackError::Path), "{path}");
        }
        let long = "x".repeat(MAX_PART + 1);
        assert_eq!(write(&[Entry { path: &long, ..entry("x", b"") }]), Err(PackError::Path));
        assert_eq!(write(&[entry("x", b"1"), entry("x", b"2")]), Err(PackError::Twice));
        assert_eq!(write(&[]), Err(PackError::Count));
        assert_eq!(write(&[Entry { content: &vec![0; MAX_LEN], ..entry("x", b"") }]), Err(PackError::Length));
        // Evil ones, by hand: a path that leads out, and counts and lengths that promise more than there is.
        let evil =
            |path: &[u8], len: &[u8]| [&b"aqP1"[..], &[1, path.len() as u8], path, len, &[0; 8], b"content"].concat();
        assert!(parse(&evil(b"good", &[7])).is_ok());
        assert_eq!(parse(&evil(b"../evil", &[7])), Err(PackError::Path));
        assert_eq!(parse(&evil(b"good", &[0xff; 8])), Err(PackError::Length));
        assert_eq!(parse(&[&b"aqP1"[..], &[0xbf, 0xff, 0xff, 0xff], &[0; 100]].concat()), Err(PackError::Count));
        assert_eq!(parse(&[&b"aqP1"[..], &[0x7f, 0xff], &[0; 100]].concat()), Err(PackError::Length));
    }
}
