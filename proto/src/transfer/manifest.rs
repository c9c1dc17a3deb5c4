//! What an object is: signed by the one it comes from, and named by its own hash.
//!
//! A file is cut into chunks where its content says so, so that a file that was rewritten has most of its chunks in common with what it
//! was. Each chunk is named by the BLAKE3 hash of its content, and travels as it is or compressed by zstd; its length on the way is in
//! the manifest, so that everybody on the way carries the same bytes and knows how many there are.

use std::fmt;

use bytes::{BufMut, Bytes};
use ring::signature::{ED25519, Ed25519KeyPair, UnparsedPublicKey};

use crate::identity::{Identity, PublicKey};
use crate::wire::varint::{put_varint, take_varint};

/// A BLAKE3 hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

/// Name of an object: the hash of its manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub Hash);

impl fmt::Display for Hash {
    /// In hexadecimal; `{:.8}` gives the first eight digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(64);
        let hex: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        f.write_str(&hex[..digits.min(64)])
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Name of a store, drawn when it is made: its objects are counted apart from those of any other store, also of one that had its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(pub [u8; 8]);

/// What an object holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One file.
    File,
    /// Many small files, one behind the other.
    Pack,
    /// A bundle (RFC 9171) of somebody else's, byte for byte.
    Bundle,
}

impl Kind {
    const ALL: [Self; 3] = [Self::File, Self::Pack, Self::Bundle];
}

/// A chunk of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Of its content.
    pub hash: Hash,
    /// Bytes of content, 1 to [`Chunk::MAX`].
    pub len: u32,
    /// Bytes on the way if it is compressed, less than `len`; else 0.
    pub compressed: u32,
}

impl Chunk {
    /// Longest content, in bytes.
    pub const MAX: u32 = 256 << 10;

    /// Bytes on the way.
    pub fn wire_len(&self) -> u32 {
        if self.compressed > 0 { self.compressed } else { self.len }
    }
}

/// What an object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// What it holds.
    pub kind: Kind,
    /// The store that it comes from, whose key signed this.
    pub source: StoreId,
    /// That key.
    pub key: PublicKey,
    /// Counts the objects of the store, from 1.
    pub number: u64,
    /// 0 is served first, 7 last.
    pub priority: u8,
    /// When it was taken in, seconds since 1970.
    pub created_s: u64,
    /// By when it should be delivered, seconds since 1970; 0 if nothing is said.
    pub deadline_s: u64,
    /// From when on nobody wants it any more; 0 for never.
    pub expires_s: u64,
    /// Who it is for; empty for any shore.
    pub destination: String,
    /// Its path below the receiver's folder, with `/` between parts; empty for packs and bundles.
    pub path: String,
    /// When the file was changed last, nanoseconds since 1970.
    pub modified_ns: i64,
    /// Of the whole content.
    pub hash: Hash,
    /// Its chunks in order.
    pub chunks: Vec<Chunk>,
}

/// Why bytes are no manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// They end too early, or go on behind the end.
    #[error("it ends too early, or goes on behind its end")]
    Length,
    /// More bytes than a manifest may have.
    #[error("more than 8 MiB")]
    TooLong,
    /// Nothing of the kind.
    #[error("not a manifest")]
    NotOne,
    /// Another version's.
    #[error("a manifest of another version, {0:?}")]
    Version(char),
    /// A value that there is not.
    #[error("an unknown kind or priority")]
    Value,
    /// More or longer chunks than there may be, or an absurd sum.
    #[error("absurd chunks")]
    Chunks,
    /// A path that leads out of the folder, or is no path.
    #[error("a path that could lead out of the receiver's folder")]
    Path,
    /// Not signed by the key that it names.
    #[error("a signature that is wrong")]
    Signature,
}

const MAGIC: &[u8; 4] = b"aqM1";
const CONTEXT: &[u8] = b"aquila manifest 1\0";
const SIGNATURE: usize = 64;
/// Longest destination, in bytes.
const MAX_DESTINATION: usize = 255;
/// Longest path, in bytes.
const MAX_PATH: usize = 1024;

impl Manifest {
    /// Longest manifest in bytes: some 200,000 chunks, or 13 GB of them.
    pub const MAX_LEN: usize = 8 << 20;

    /// Bytes of content.
    pub fn size(&self) -> u64 {
        self.chunks.iter().map(|chunk| u64::from(chunk.len)).sum()
    }

    /// Writes and signs it; the identity's key takes the place of `key`.
    ///
    /// # Errors
    /// [`ManifestError::Length`], [`ManifestError::Path`] or [`ManifestError::Chunks`] if nobody could read it.
    pub fn sign(&self, identity: &Identity) -> Result<Bytes, ManifestError> {
        let mut out = Vec::with_capacity(160 + self.path.len() + self.chunks.len() * 38);
        out.put_slice(MAGIC);
        out.put_u8(self.kind as u8);
        out.put_slice(&self.source.0);
        out.put_slice(&identity.public().0);
        put_varint(&mut out, self.number);
        out.put_u8(self.priority);
        [self.created_s, self.deadline_s, self.expires_s].into_iter().for_each(|time| put_varint(&mut out, time));
        for text in [&self.destination, &self.path] {
            put_varint(&mut out, text.len() as u64);
            out.put_slice(text.as_bytes());
        }
        out.put_i64(self.modified_ns);
        out.put_slice(&self.hash.0);
        put_varint(&mut out, self.chunks.len() as u64);
        for chunk in &self.chunks {
            out.put_slice(&chunk.hash.0);
            put_varint(&mut out, chunk.len.into());
            put_varint(&mut out, chunk.compressed.into());
        }
        out.put_slice(&signature(identity, CONTEXT, &out));
        if out.len() > Self::MAX_LEN {
            return Err(ManifestError::Length);
        }
        Self::read(&out)?;
        Ok(out.into())
    }

    /// Reads a manifest and checks its signature. Whether the key is one to be trusted is another question.
    ///
    /// # Errors
    /// If it is none, in whatever respect.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        let manifest = Self::read(bytes)?;
        let (signed, signature) = bytes.split_at(bytes.len() - SIGNATURE);
        verify(&manifest.key, CONTEXT, signed, signature).then_some(manifest).ok_or(ManifestError::Signature)
    }

    fn read(bytes: &[u8]) -> Result<Self, ManifestError> {
        let length = ManifestError::Length;
        if bytes.len() > Self::MAX_LEN {
            return Err(ManifestError::TooLong);
        }
        let rest = &mut &bytes[..bytes.len().checked_sub(SIGNATURE).ok_or(length)?];
        let magic = take::<4>(rest).ok_or(length)?;
        if magic[..3] != MAGIC[..3] {
            return Err(ManifestError::NotOne);
        }
        if magic != *MAGIC {
            return Err(ManifestError::Version(magic[3].into()));
        }
        let [kind] = take(rest).ok_or(length)?;
        let source = StoreId(take(rest).ok_or(length)?);
        let key = PublicKey(take(rest).ok_or(length)?);
        let number = take_varint(rest).ok_or(length)?;
        let [priority] = take(rest).ok_or(length)?;
        let kind = *Kind::ALL.get(usize::from(kind)).ok_or(ManifestError::Value)?;
        if priority > 7 || number == 0 {
            return Err(ManifestError::Value);
        }
        let mut time = || take_varint(rest).ok_or(length);
        let (created_s, deadline_s, expires_s) = (time()?, time()?, time()?);
        let destination = take_text(rest, MAX_DESTINATION).ok_or(length)?;
        let path = take_text(rest, MAX_PATH).ok_or(length)?;
        if destination.contains(char::is_control)
            || (kind == Kind::File) != is_safe(&path)
            || (kind != Kind::File && !path.is_empty())
        {
            return Err(ManifestError::Path);
        }
        let modified_ns = i64::from_be_bytes(take(rest).ok_or(length)?);
        let hash = Hash(take(rest).ok_or(length)?);
        let count = take_varint(rest).ok_or(length)?;
        // Each takes 34 bytes at least.
        if count > rest.len() as u64 / 34 {
            return Err(length);
        }
        let mut chunks = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let hash = Hash(take(rest).ok_or(length)?);
            let len = take_varint(rest).ok_or(length)?;
            let compressed = take_varint(rest).ok_or(length)?;
            if len == 0 || len > u64::from(Chunk::MAX) || compressed >= len {
                return Err(ManifestError::Chunks);
            }
            chunks.push(Chunk { hash, len: len as u32, compressed: compressed as u32 });
        }
        if !rest.is_empty() {
            return Err(length);
        }
        Ok(Self {
            kind,
            source,
            key,
            number,
            priority,
            created_s,
            deadline_s,
            expires_s,
            destination,
            path,
            modified_ns,
            hash,
            chunks,
        })
    }
}

/// Whether a path stays below the folder that it is put into, on any system: parts between `/`, none empty, `.` or `..`, no control
/// characters, backslashes or colons.
pub fn is_safe(path: &str) -> bool {
    let part = |part: &str| {
        !matches!(part, "" | "." | "..") && !part.contains(|c: char| c.is_control() || matches!(c, '\\' | ':'))
    };
    path.len() <= MAX_PATH && path.split('/').all(part)
}

/// Signs bytes for one purpose.
pub(super) fn signature(identity: &Identity, context: &[u8], bytes: &[u8]) -> [u8; SIGNATURE] {
    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(identity.pkcs8()).expect("an identity's key is one");
    let signed = pair.sign(&[context, bytes].concat());
    signed.as_ref().try_into().expect("Ed25519 signatures are 64 bytes")
}

/// Whether a key has signed bytes for one purpose.
pub(super) fn verify(key: &PublicKey, context: &[u8], bytes: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, &key.0).verify(&[context, bytes].concat(), signature).is_ok()
}

/// Takes so many bytes.
pub(super) fn take<const LEN: usize>(bytes: &mut &[u8]) -> Option<[u8; LEN]> {
    let (taken, rest) = bytes.split_first_chunk::<LEN>()?;
    *bytes = rest;
    Some(*taken)
}

/// Takes a text behind its length.
fn take_text(bytes: &mut &[u8], max: usize) -> Option<String> {
    let len = usize::try_from(take_varint(bytes)?).ok().filter(|len| *len <= max)?;
    let (text, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Manifest {
        let chunk = |n: u8| Chunk { hash: Hash::of(&[n]), len: 70_000, compressed: u32::from(n) * 1_000 };
        Manifest {
            kind: Kind::File,
            source: StoreId(*b"a store "),
            key: Identity::from_seed([7; 32]).public(),
            number: 12,
            priority: 3,
            created_s: 1_790_000_000,
            deadline_s: 0,
            expires_s: 1_800_000_000,
            destination: "shore".into(),
            path: "ctd/cast 7.cnv".into(),
            modified_ns: -5,
            hash: Hash::of(b"all of it"),
            chunks: (0..3).map(chunk).collect(),
        }
    }

    #[test]
    fn what_is_signed_is_read_and_every_other_byte_is_refused() {
        let identity = Identity::from_seed([7; 32]);
        let bytes = sample().sign(&identity).unwrap();
        assert_eq!(Manifest::parse(&bytes), Ok(sample()));
        assert_eq!(sample().size(), 210_000);
        assert_eq!(sample().chunks.iter().map(Chunk::wire_len).collect::<Vec<_>>(), [70_000, 1_000, 2_000]);
        for at in 0..bytes.len() {
            assert!(Manifest::parse(&bytes[..at]).is_err());
            let mut wrong = bytes.to_vec();
            wrong[at] ^= 1;
            assert!(Manifest::parse(&wrong).is_err(), "byte {at}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(Manifest::parse(&longer).is_err());
        let other = Identity::from_seed([8; 32]);
        assert_eq!(
            Manifest { key: other.public(), ..sample() },
            Manifest::parse(&sample().sign(&other).unwrap()).unwrap()
        );
    }

    #[test]
    fn what_could_do_harm_is_neither_written_nor_read() {
        let identity = Identity::from_seed([7; 32]);
        for path in ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", ".", "a\\..\\b", "c:x", "a\0b", "a\nb"] {
            assert_eq!(
                Manifest { path: path.into(), ..sample() }.sign(&identity),
                Err(ManifestError::Path),
                "{path:?}"
            );
        }
        for path in ["a", "a b/c.d", "..a/b..", "\u{f8}/\u{6c34}"] {
            assert!(Manifest { path: path.into(), ..sample() }.sign(&identity).is_ok(), "{path:?}");
        }
        let chunk = |len, compressed| vec![Chunk { hash: Hash::of(b""), len, compressed }];
        for (len, compressed) in [(0, 0), (Chunk::MAX + 1, 0), (10, 10), (10, 11)] {
            let manifest = Manifest { chunks: chunk(len, compressed), ..sample() };
            assert_eq!(manifest.sign(&identity), Err(ManifestError::Chunks), "{len} {compressed}");
        }
        assert_eq!(Manifest { priority: 8, ..sample() }.sign(&identity), Err(ManifestError::Value));
        assert_eq!(Manifest { number: 0, ..sample() }.sign(&identity), Err(ManifestError::Value));
        assert_eq!(Manifest { kind: Kind::Pack, ..sample() }.sign(&identity), Err(ManifestError::Path));
        assert!(Manifest { kind: Kind::Pack, path: String::new(), ..sample() }.sign(&identity).is_ok());
        let many = Manifest { chunks: vec![sample().chunks[0]; 300_000], ..sample() };
        assert_eq!(many.sign(&identity), Err(ManifestError::Length));
        // A count that promises more than there is reserves nothing.
        assert_eq!(Manifest::parse(&[b'a'; 200]), Err(ManifestError::NotOne));
    }
}
