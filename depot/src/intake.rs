//! Files that are put here: read once, cut, compressed where that helps, and signed for.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use aquila_proto::transfer::{Chunk, Hash, Kind, Manifest, ObjectId};
use nix::fcntl::OFlag;

use crate::chunks;
use crate::config::Delete;
use crate::cut::{Cutter, Sizes};
use crate::db::{self, Promise};
use crate::depot::{Depot, now_s};
use crate::error::DepotError;
use crate::pack::{self, Entry};
use crate::spool::Stat;
use crate::squeeze::PROBE;
use crate::staging::FileOf;
use crate::state::{Origin, State};

/// How a file is to be carried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PutOptions {
    /// 0 is served first, 7 last.
    pub priority: u8,
    /// By when it should be delivered, seconds since 1970; 0 if nothing is said.
    pub deadline_s: u64,
    /// From when on nobody wants it any more, seconds since 1970; 0 for never.
    pub expires_s: u64,
    /// The shore that it is for, at most 255 bytes; empty for any.
    pub destination: String,
}

/// What was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Put {
    /// The object that the file is, or is in.
    pub object: ObjectId,
    /// Its number. No other object of this store has it, nor ever will.
    pub number: u64,
    /// Whether it is another object than there was: the newest version of this path may be the same.
    pub is_new: bool,
    /// Bytes of the file.
    pub size: u64,
}

/// A file to be put.
#[derive(Debug, Clone)]
pub struct Source {
    /// Where it is.
    pub file: PathBuf,
    /// What it is called in the object: a path below the receiver's folder.
    pub path: String,
}

/// Files shorter than this are packed if several are put at once, in bytes.
pub const PACKED_BELOW: u64 = 64 << 10;
/// Longest bundle, in bytes.
pub const MAX_BUNDLE: usize = 16 << 20;

/// A file as it was opened.
struct Opened {
    file: File,
    before: Metadata,
}

impl Depot {
    /// Puts a file into the queue, under a path below the receiver's folder. Nothing is promised before [`Depot::commit`].
    ///
    /// # Errors
    /// If it cannot be read, changes meanwhile, is not a plain file or too long, if the path is none, or if there is no room. Nothing of
    /// it is put then.
    pub fn put(&mut self, file: &Path, path: &str, options: &PutOptions) -> Result<Put, DepotError> {
        let opened = Opened::open(file, false)?;
        self.put_opened(file, path, options, opened, Origin::Put)
    }

    /// Puts several files, small ones together in packs. A result for each, in order.
    pub fn put_many(&mut self, files: &[Source], options: &PutOptions) -> Vec<Result<Put, DepotError>> {
        self.put_all(files, options, Origin::Put)
    }

    /// Puts somebody's bundle (RFC 9171) into the queue; it comes out byte for byte.
    ///
    /// # Errors
    /// If it is longer than [`MAX_BUNDLE`], or there is no room.
    pub fn put_bundle(&mut self, bundle: &[u8], options: &PutOptions) -> Result<Put, DepotError> {
        if bundle.len() > MAX_BUNDLE {
            return Err(DepotError::TooLong { len: bundle.len() as u64, most: MAX_BUNDLE as u64 });
        }
        let said = Said { kind: Kind::Bundle, path: String::new(), modified_ns: 0 };
        self.put_bytes(bundle, said, options, Origin::Put, Vec::new())
    }

    pub(crate) fn put_all(
        &mut self,
        files: &[Source],
        options: &PutOptions,
        origin: Origin,
    ) -> Vec<Result<Put, DepotError>> {
        let mut results: Vec<Option<Result<Put, DepotError>>> = files.iter().map(|_| None).collect();
        let mut small = Vec::new();
        for (index, source) in files.iter().enumerate() {
            let opened = match Opened::open(&source.file, origin == Origin::Spool) {
                Ok(opened) => opened,
                Err(error) => {
                    results[index] = Some(Err(error));
                    continue;
                }
            };
            if files.len() > 1 && opened.before.len() < PACKED_BELOW && pack::fits(&source.path) {
                small.push(index);
            } else {
                results[index] = Some(self.put_opened(&source.file, &source.path, options, opened, origin));
            }
        }
        self.put_packs(files, &small, options, origin, &mut results);
        let missed = |file: &Source| Err(DepotError::Changing(file.file.clone()));
        results.into_iter().zip(files).map(|(result, file)| result.unwrap_or_else(|| missed(file))).collect()
    }

    fn put_packs(
        &mut self,
        files: &[Source],
        small: &[usize],
        options: &PutOptions,
        origin: Origin,
        results: &mut [Option<Result<Put, DepotError>>],
    ) {
        let mut batch: Vec<(usize, Vec<u8>, FileOf, i64)> = Vec::new();
        let mut len = 16;
        for &index in small {
            let source = &files[index];
            let read = Opened::open(&source.file, origin == Origin::Spool).and_then(|opened| opened.read(&source.file));
            let (content, stat) = match read {
                Ok(read) => read,
                Err(error) => {
                    results[index] = Some(Err(error));
                    continue;
                }
            };
            let hash = Hash::of(&content);
            let size = content.len() as u64;
            match self.same(&source.path, &hash, stat.filter(|_| origin == Origin::Spool)) {
                Ok(Some((object, number))) => {
                    results[index] = Some(Ok(Put { object, number, is_new: false, size }));
                    continue;
                }
                Ok(None) => {}
                Err(error) => {
                    results[index] = Some(Err(error));
                    continue;
                }
            }
            // Two of one path cannot be in one pack, and the later one is the newer.
            let cost = pack::cost(&source.path, content.len());
            let is_twice = batch.iter().any(|(_, _, file, _)| file.path == source.path);
            if len + cost > pack::MAX_LEN || batch.len() == pack::MAX_FILES || is_twice {
                self.put_pack(std::mem::take(&mut batch), options, origin, results);
                len = 16;
            }
            len += cost;
            let modified_ns = stat.map_or(0, |stat| stat.modified_ns);
            let stat = stat.filter(|_| origin == Origin::Spool);
            batch.push((index, content, FileOf { path: source.path.clone(), hash, stat }, modified_ns));
        }
        self.put_pack(batch, options, origin, results);
    }

    fn put_pack(
        &mut self,
        batch: Vec<(usize, Vec<u8>, FileOf, i64)>,
        options: &PutOptions,
        origin: Origin,
        results: &mut [Option<Result<Put, DepotError>>],
    ) {
        if batch.is_empty() {
            return;
        }
        let entries: Vec<_> = batch
            .iter()
            .map(|(_, content, file, modified_ns)| Entry { path: &file.path, modified_ns: *modified_ns, content })
            .collect();
        let said = Said { kind: Kind::Pack, path: String::new(), modified_ns: 0 };
        let of = batch.iter().map(|(_, _, file, _)| file.clone()).collect();
        let put = pack::write(&entries)
            .map_err(DepotError::from)
            .and_then(|bytes| self.put_bytes(&bytes, said, options, origin, of));
        match put {
            Ok(put) => batch.iter().for_each(|(index, content, ..)| {
                results[*index] = Some(Ok(Put { size: content.len() as u64, ..put }));
            }),
            // The error is told of the first; the others are as if they had not been ready.
            Err(error) => results[batch[0].0] = Some(Err(error)),
        }
    }

    fn put_opened(
        &mut self,
        file: &Path,
        path: &str,
        options: &PutOptions,
        opened: Opened,
        origin: Origin,
    ) -> Result<Put, DepotError> {
        if !pack::fits(path) {
            return Err(DepotError::Path(path.into()));
        }
        let len = opened.before.len();
        if len > Sizes::LONGEST {
            return Err(DepotError::TooLong { len, most: Sizes::LONGEST });
        }
        let stat = Stat::of(&opened.before);
        let said = Said { kind: Kind::File, path: path.into(), modified_ns: stat.modified_ns };
        let mut cutter = Cutter::new((&opened.file).take(len), Sizes::of(len));
        let spool = (origin == Origin::Spool).then_some(stat);
        self.begin_put()?;
        let put = self.read_in(&mut cutter, file).and_then(|(chunks, hash)| {
            let read: u64 = chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
            if read != len || !opened.is_unchanged(file)? {
                return Err(DepotError::Changing(file.into()));
            }
            let files = vec![FileOf { path: path.into(), hash, stat: spool }];
            self.sign(chunks, hash, said, options, origin, files)
        });
        self.end_put(put)
    }

    fn put_bytes(
        &mut self,
        bytes: &[u8],
        said: Said,
        options: &PutOptions,
        origin: Origin,
        files: Vec<FileOf>,
    ) -> Result<Put, DepotError> {
        let mut cutter = Cutter::new(bytes, Sizes::of(bytes.len() as u64));
        self.begin_put()?;
        let put = self
            .read_in(&mut cutter, Path::new(""))
            .and_then(|(chunks, hash)| self.sign(chunks, hash, said, options, origin, files));
        self.end_put(put)
    }

    fn begin_put(&mut self) -> Result<(), DepotError> {
        // Chunks that just came count as there.
        if !self.pending.is_empty() {
            self.flush()?;
        }
        // With a segment comes what its last writer left, and goes: nothing of that is to count as there.
        self.disk.writer(&mut self.db)?;
        self.staging.begin();
        Ok(())
    }

    fn end_put(&mut self, put: Result<Put, DepotError>) -> Result<Put, DepotError> {
        if !put.as_ref().is_ok_and(|put| put.is_new) {
            self.staging.give_up();
        }
        self.relieve()?;
        self.promise_early()?;
        put
    }

    /// Cuts and stores what comes out of a reader.
    fn read_in<R: Read>(&mut self, cutter: &mut Cutter<R>, file: &Path) -> Result<(Vec<Chunk>, Hash), DepotError> {
        let mut chunks = Vec::new();
        let mut whole = blake3::Hasher::new();
        let is_compressible = self.squeezer.probe(cutter.peek(PROBE).map_err(DepotError::at(file))?);
        while let Some(content) = cutter.next().map_err(DepotError::at(file))? {
            whole.update(content);
            let hash = Hash::of(content);
            let there = match self.staging.find(&hash) {
                Some(chunk) => Some(chunk),
                None => chunks::find_content(&self.db, &hash)?,
            };
            let (chunk, place) = match there {
                Some(chunk) => (chunk, None),
                None => self.write_chunk(content, hash, is_compressible)?,
            };
            self.staging.push(chunk, place);
            chunks.push(chunk);
            self.relieve()?;
        }
        Ok((chunks, Hash(*whole.finalize().as_bytes())))
    }

    fn write_chunk(
        &mut self,
        content: &[u8],
        hash: Hash,
        is_compressible: bool,
    ) -> Result<(Chunk, Option<crate::segment::Place>), DepotError> {
        let mut squeezer = std::mem::take(&mut self.squeezer);
        let frame = if is_compressible { squeezer.compress(content) } else { None };
        let compressed = frame.map_or(0, |frame| frame.len() as u32);
        let place = self.append(frame.unwrap_or(content));
        self.squeezer = squeezer;
        Ok((Chunk { hash, len: content.len() as u32, compressed }, Some(place?)))
    }

    /// The newest version of a path, if it is the same; what was looked at in the spool is remembered as that.
    fn same(&mut self, path: &str, hash: &Hash, stat: Option<Stat>) -> Result<Option<(ObjectId, u64)>, DepotError> {
        if let Some((newest, object, number)) = self.staging.newest(path) {
            return Ok((newest == *hash).then_some((object, number)));
        }
        let mut find = self.db.prepare_cached(
            "SELECT object.object, object.number, object.id, object.state FROM latest JOIN object ON object.id = latest.object
             WHERE latest.path = ? AND latest.hash = ? AND object.missing = 0 AND object.state BETWEEN 1 AND 5",
        )?;
        let mut rows = find.query((path, hash.0))?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let (object, number, id) = (ObjectId(Hash(row.get(0)?)), row.get::<_, i64>(1)? as u64, row.get::<_, i64>(2)?);
        if let Some(stat) = stat {
            // What is delivered already is not needed again.
            let is_due = row.get::<_, State>(3)? == State::Released && self.config.delete != Delete::Never;
            stat.remember(&self.db, path, id, is_due)?;
        }
        Ok(Some((object, number)))
    }

    fn sign(
        &mut self,
        chunks: Vec<Chunk>,
        hash: Hash,
        said: Said,
        options: &PutOptions,
        origin: Origin,
        files: Vec<FileOf>,
    ) -> Result<Put, DepotError> {
        let size = chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
        if said.kind == Kind::File
            && let Some((object, number)) = self.same(&said.path, &hash, files.first().and_then(|file| file.stat))?
        {
            return Ok(Put { object, number, is_new: false, size });
        }
        let mut manifest = Manifest {
            kind: said.kind,
            source: self.store,
            key: self.key(),
            number: 1,
            priority: options.priority,
            created_s: now_s(),
            deadline_s: options.deadline_s,
            expires_s: options.expires_s,
            destination: options.destination.clone(),
            path: said.path,
            modified_ns: said.modified_ns,
            hash,
            chunks,
        };
        // Counted before it is used: if the object comes to nothing its number is nobody's.
        let tx = db::begin(&mut self.db, Promise::Later)?;
        manifest.number = db::meta::<i64>(&tx, "next")?.unwrap_or(1) as u64;
        db::set_meta(&tx, "next", manifest.number as i64 + 1)?;
        tx.commit()?;
        let bytes = manifest.sign(&self.config.identity)?;
        let object = ObjectId(Hash::of(&bytes));
        self.staging.finish(object, bytes, &manifest, origin, files);
        Ok(Put { object, number: manifest.number, is_new: true, size })
    }
}

/// What a manifest says of itself.
struct Said {
    kind: Kind,
    path: String,
    modified_ns: i64,
}

impl Opened {
    fn open(path: &Path, is_spool: bool) -> Result<Self, DepotError> {
        // Neither a pipe nor a device may stop us.
        let flags = OFlag::O_NONBLOCK | if is_spool { OFlag::O_NOFOLLOW } else { OFlag::empty() };
        let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path).map_err(DepotError::at(path))?;
        let before = file.metadata().map_err(DepotError::at(path))?;
        if !before.is_file() {
            return Err(DepotError::NotAFile(path.into()));
        }
        Ok(Self { file, before })
    }

    /// Whether it is what it was when it was opened.
    fn is_unchanged(&self, path: &Path) -> Result<bool, DepotError> {
        let after = self.file.metadata().map_err(DepotError::at(path))?;
        let times = |of: &Metadata| (of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec());
        Ok(after.len() == self.before.len() && times(&after) == times(&self.before))
    }

    /// All of a small file.
    fn read(self, path: &Path) -> Result<(Vec<u8>, Option<Stat>), DepotError> {
        let mut content = Vec::with_capacity(self.before.len() as usize + 1);
        (&self.file).take(PACKED_BELOW).read_to_end(&mut content).map_err(DepotError::at(path))?;
        if content.len() as u64 != self.before.len() || !self.is_unchanged(path)? {
            return Err(DepotError::Changing(path.into()));
        }
        Ok((content, Some(Stat::of(&self.before))))
    }
}
