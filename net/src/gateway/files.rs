//! What is in custody, on disk: for each flow a log in pieces of a megabyte, appended to, and thrown away piece by piece as the
//! far side takes it.
//!
//! ```text
//! <flow>.<number>.log    records: kind 8 | offset 64 | length 32 | CRC-32C of the rest 32 | payload
//! ended                  a line for each flow of the other side's that has ended: flow, reason, bytes taken
//! ```
//!
//! A record is in the kernel's hands before anything is acknowledged for it, so it survives the end of the program at any moment.
//! A thread has it written to the disk within a second ([`SYNC_EVERY`]); a power cut may cost what was acknowledged in that.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aquila_fec::crc32c;
use aquila_proto::gateway::{Custody, Deed, FlowId, Kept, Reason, StorageError, Target};

/// What is written gets to the disk within this time.
pub const SYNC_EVERY: Duration = Duration::from_secs(1);
/// A piece of a log.
const PIECE: u64 = 1 << 20;
/// How far the far side is gets noted when it is so much farther.
const NOTE_EVERY: u64 = 64 << 10;
/// Lines of the list of ended flows, of which the last half stays.
const MAX_ENDED: usize = 2048;

const OPEN: u8 = 1;
const DATA: u8 = 2;
const FIN: u8 = 3;
const RELEASED: u8 = 4;
const HEADER: usize = 17;
/// No record is longer.
const MAX_RECORD: usize = 1 << 20;

/// Files that have to be synced.
type Dirty = Arc<Mutex<BTreeMap<(FlowId, u32), File>>>;

/// A record of data.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    offset: u64,
    len: u64,
    piece: u32,
    /// Of its payload in the file.
    at: u64,
}

#[derive(Debug)]
struct Log {
    deed: Deed,
    file: File,
    piece: u32,
    /// Length of the last piece.
    len: u64,
    first_piece: u32,
    released: u64,
    noted: u64,
    end: u64,
    fin: bool,
    stretches: VecDeque<Stretch>,
    /// The piece that was read last.
    reading: Option<(u32, File)>,
}

/// The folder of all logs.
#[derive(Debug)]
pub struct Files {
    dir: PathBuf,
    logs: BTreeMap<FlowId, Log>,
    dirty: Dirty,
    ended: usize,
    /// The thread ends when this is dropped.
    _alive: Sender<()>,
}

impl Files {
    /// Opens the folder, making it if need be.
    ///
    /// # Errors
    /// If it can be neither made nor written to.
    pub fn open(dir: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let probe = dir.join("probe");
        fs::write(&probe, b"")?;
        fs::remove_file(&probe)?;
        let dirty = Dirty::default();
        let (alive, ended) = mpsc::channel();
        let (todo, folder) = (Arc::clone(&dirty), dir.to_owned());
        std::thread::Builder::new().name("aquila-custody".to_owned()).spawn(move || {
            while ended.recv_timeout(SYNC_EVERY) == Err(RecvTimeoutError::Timeout) {
                sync(&folder, &todo);
            }
            sync(&folder, &todo);
        })?;
        let mut files = Self { dir: dir.to_owned(), logs: BTreeMap::new(), dirty, ended: 0, _alive: alive };
        files.read_all()?;
        Ok(files)
    }

    fn read_all(&mut self) -> io::Result<()> {
        let mut pieces: BTreeMap<FlowId, Vec<u32>> = BTreeMap::new();
        for entry in fs::read_dir(&self.dir)? {
            let name = entry?.file_name();
            if let Some((flow, piece)) = name.to_str().and_then(parse_name) {
                pieces.entry(flow).or_default().push(piece);
            }
        }
        for (flow, mut numbers) in pieces {
            numbers.sort_unstable();
            match read_log(&self.dir, flow, &numbers) {
                Ok(log) => drop(self.logs.insert(flow, log)),
                Err(error) => {
                    tracing::warn!(%flow, %error, "a log of the custody cannot be read: what is in it is lost");
                    for piece in numbers {
                        let path = self.dir.join(name(flow, piece));
                        let _ = fs::rename(&path, path.with_extension("broken"));
                    }
                }
            }
        }
        Ok(())
    }

    fn log(&mut self, flow: FlowId) -> Result<&mut Log, StorageError> {
        self.logs.get_mut(&flow).ok_or_else(|| StorageError("there is no log of this flow".to_owned()))
    }

    fn put(&mut self, flow: FlowId, kind: u8, offset: u64, payload: &[u8]) -> Result<u64, StorageError> {
        let (dir, dirty) = (self.dir.clone(), Arc::clone(&self.dirty));
        let log = self.log(flow)?;
        let mut put = || {
            if log.len >= PIECE {
                log.next_piece(&dir)?;
            }
            let at = log.write(kind, offset, payload)?;
            let mut dirty = dirty.lock().unwrap_or_else(PoisonError::into_inner);
            if let std::collections::btree_map::Entry::Vacant(entry) = dirty.entry((flow, log.piece)) {
                entry.insert(log.file.try_clone()?);
            }
            Ok(at)
        };
        put().map_err(|error: io::Error| StorageError(error.to_string()))
    }
}

impl Custody for Files {
    fn load(&mut self) -> Vec<Kept> {
        let kept = |log: &Log| Kept { deed: log.deed, released: log.released, end: log.end, fin: log.fin };
        self.logs.values().map(kept).collect()
    }

    fn load_ended(&mut self) -> Vec<(FlowId, Option<Reason>, u64)> {
        let text = fs::read_to_string(self.dir.join("ended")).unwrap_or_default();
        let lines: Vec<_> = text.lines().filter_map(parse_ended).collect();
        self.ended = lines.len();
        lines[lines.len().saturating_sub(MAX_ENDED / 2)..].to_vec()
    }

    fn begin(&mut self, deed: &Deed) -> Result<(), StorageError> {
        let log = Log::create(&self.dir, *deed).map_err(|error| StorageError(error.to_string()))?;
        self.logs.insert(deed.flow, log);
        Ok(())
    }

    fn append(&mut self, flow: FlowId, bytes: &[u8]) -> Result<(), StorageError> {
        let offset = self.log(flow)?.end;
        let at = self.put(flow, DATA, offset, bytes)?;
        let log = self.log(flow)?;
        let len = bytes.len() as u64;
        log.end += len;
        log.stretches.push_back(Stretch { offset, len, piece: log.piece, at });
        Ok(())
    }

    fn finish(&mut self, flow: FlowId) -> Result<(), StorageError> {
        let end = self.log(flow)?.end;
        self.put(flow, FIN, end, &[])?;
        self.log(flow)?.fin = true;
        Ok(())
    }

    fn read(&mut self, flow: FlowId, offset: u64, max: usize) -> Result<Vec<u8>, StorageError> {
        let dir = self.dir.clone();
        let log = self.log(flow)?;
        log.read(&dir, offset, max).map_err(|error| StorageError(error.to_string()))
    }

    fn release(&mut self, flow: FlowId, offset: u64) {
        let dir = self.dir.clone();
        let Ok(log) = self.log(flow) else { return };
        log.released = offset;
        while log.stretches.front().is_some_and(|first| first.offset + first.len <= offset) {
            log.stretches.pop_front();
        }
        let needed = log.stretches.front().map_or(log.piece, |first| first.piece);
        let (first, noted) = (std::mem::replace(&mut log.first_piece, needed), log.noted);
        for piece in first..needed {
            let _ = fs::remove_file(dir.join(name(flow, piece)));
        }
        // What is not noted is offered again after a restart, and known there.
        if offset >= noted + NOTE_EVERY && self.put(flow, RELEASED, offset, &[]).is_ok() {
            self.log(flow).into_iter().for_each(|log| log.noted = offset);
        }
    }

    fn end(&mut self, flow: FlowId, remember: Option<(Option<Reason>, u64)>) {
        if let Some((reason, taken)) = remember {
            let line = format!("{flow} {} {taken}\n", reason.map_or(0, Reason::number));
            if let Err(error) = self.remember(&line) {
                tracing::warn!(%error, "cannot note that a flow has ended: after a restart it might be begun again");
            }
        }
        if let Some(log) = self.logs.remove(&flow) {
            for piece in log.first_piece..=log.piece {
                self.dirty.lock().unwrap_or_else(PoisonError::into_inner).remove(&(flow, piece));
                let _ = fs::remove_file(self.dir.join(name(flow, piece)));
            }
        }
    }
}

impl Files {
    fn remember(&mut self, line: &str) -> io::Result<()> {
        let path = self.dir.join("ended");
        if self.ended >= MAX_ENDED {
            let text = fs::read_to_string(&path)?;
            let lines: Vec<&str> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(MAX_ENDED / 2)..].join("\n") + "\n";
            crate::store::write_whole(&path, last.as_bytes())?;
            self.ended = MAX_ENDED / 2;
        }
        self.ended += 1;
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        file.write_all(line.as_bytes())
    }
}

impl Log {
    fn create(dir: &Path, deed: Deed) -> io::Result<Self> {
        let file = new_file(&dir.join(name(deed.flow, 0)))?;
        let mut log = Self {
            deed,
            file,
            piece: 0,
            len: 0,
            first_piece: 0,
            released: 0,
            noted: 0,
            end: 0,
            fin: false,
            stretches: VecDeque::new(),
            reading: None,
        };
        log.write_head()?;
        Ok(log)
    }

    fn write_head(&mut self) -> io::Result<()> {
        let mut payload = vec![u8::from(self.deed.ours)];
        payload.extend_from_slice(self.deed.target.to_string().as_bytes());
        self.write(OPEN, self.end, &payload)?;
        self.write(RELEASED, self.released, &[]).map(drop)
    }

    fn next_piece(&mut self, dir: &Path) -> io::Result<()> {
        let next = self.piece + 1;
        let path = dir.join(name(self.deed.flow, next));
        let former = (std::mem::replace(&mut self.file, new_file(&path)?), self.len, self.piece);
        (self.len, self.piece) = (0, next);
        self.write_head().inspect_err(|_| {
            let _ = fs::remove_file(&path);
            (self.file, self.len, self.piece) = former;
        })
    }

    /// Appends a record as a whole or not at all; gives where its payload is.
    fn write(&mut self, kind: u8, offset: u64, payload: &[u8]) -> io::Result<u64> {
        let record = record(kind, offset, payload);
        if let Err(error) = self.file.write_all_at(&record, self.len) {
            // What is left of it is written over by the next.
            let _ = self.file.set_len(self.len);
            return Err(error);
        }
        let at = self.len + HEADER as u64;
        self.len += record.len() as u64;
        Ok(at)
    }

    fn read(&mut self, dir: &Path, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        let at = self.stretches.partition_point(|stretch| stretch.offset + stretch.len <= offset);
        let missing = || io::Error::new(io::ErrorKind::UnexpectedEof, "these bytes are not stored");
        let stretch = *self.stretches.get(at).filter(|stretch| stretch.offset <= offset).ok_or_else(missing)?;
        let skip = offset - stretch.offset;
        let mut bytes = vec![0; max.min((stretch.len - skip) as usize)];
        if self.reading.as_ref().is_none_or(|(piece, _)| *piece != stretch.piece) {
            self.reading = Some((stretch.piece, File::open(dir.join(name(self.deed.flow, stretch.piece)))?));
        }
        if let Some((_, file)) = &self.reading {
            file.read_exact_at(&mut bytes, stretch.at + skip)?;
        }
        Ok(bytes)
    }
}

fn record(kind: u8, offset: u64, payload: &[u8]) -> Vec<u8> {
    let mut covered = vec![kind];
    covered.extend_from_slice(&offset.to_be_bytes());
    covered.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    let mut record = covered.clone();
    covered.extend_from_slice(payload);
    record.extend_from_slice(&crc32c(&covered).to_be_bytes());
    record.extend_from_slice(payload);
    record
}

/// Kind, offset and payload of the first record.
fn parse_record(bytes: &[u8]) -> Option<(u8, u64, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEADER)?;
    let kind = head[0];
    let offset = u64::from_be_bytes(head[1..9].try_into().ok()?);
    let len = u32::from_be_bytes(head[9..13].try_into().ok()?) as usize;
    let payload = rest.get(..len).filter(|_| len <= MAX_RECORD)?;
    let whole = record(kind, offset, payload);
    (whole[..HEADER] == *head).then_some((kind, offset, payload))
}

fn read_log(dir: &Path, flow: FlowId, pieces: &[u32]) -> io::Result<Log> {
    let mut log: Option<Log> = None;
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    for (at, &piece) in pieces.iter().enumerate() {
        let path = dir.join(name(flow, piece));
        let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let mut len = 0;
        while let Some((kind, offset, payload)) = parse_record(&bytes[len..]) {
            if kind == OPEN && log.is_none() {
                let deed = parse_deed(flow, payload).ok_or_else(|| invalid("no flow begins here"))?;
                log = Some(Log {
                    deed,
                    file: file.try_clone()?,
                    piece,
                    len: 0,
                    first_piece: piece,
                    released: 0,
                    noted: 0,
                    end: offset,
                    fin: false,
                    stretches: VecDeque::new(),
                    reading: None,
                });
            }
            let Some(log) = &mut log else { return Err(invalid("no flow begins here")) };
            match kind {
                DATA if offset == log.end => {
                    let place = (len + HEADER) as u64;
                    log.end += payload.len() as u64;
                    log.stretches.push_back(Stretch { offset, len: payload.len() as u64, piece, at: place });
                }
                DATA => return Err(invalid("bytes are missing")),
                FIN => log.fin = true,
                RELEASED => log.released = log.released.max(offset),
                _ => {}
            }
            len += HEADER + payload.len();
        }
        if let Some(log) = &mut log {
            (log.file, log.piece, log.len) = (file, piece, len as u64);
            // The end of a record that was being written.
            log.file.set_len(log.len)?;
        }
        if len < bytes.len() && at + 1 < pieces.len() {
            return Err(invalid("a record is damaged"));
        }
    }
    let mut log = log.ok_or_else(|| invalid("it is empty"))?;
    if log.len == 0 {
        log.write_head()?;
    }
    log.released = log.released.min(log.end);
    log.noted = log.released;
    while log.stretches.front().is_some_and(|first| first.offset + first.len <= log.released) {
        log.stretches.pop_front();
    }
    Ok(log)
}

fn parse_deed(flow: FlowId, payload: &[u8]) -> Option<Deed> {
    let (&ours, target) = payload.split_first()?;
    let target: Target = std::str::from_utf8(target).ok()?.parse().ok()?;
    Some(Deed { flow, ours: ours != 0, target })
}

fn parse_ended(line: &str) -> Option<(FlowId, Option<Reason>, u64)> {
    let mut words = line.split(' ');
    let flow = FlowId(u64::from_str_radix(words.next()?, 16).ok()?);
    let reason = Reason::of_number(words.next()?.parse().ok()?);
    Some((flow, reason, words.next()?.parse().ok()?))
}

fn name(flow: FlowId, piece: u32) -> String {
    format!("{flow}.{piece:08}.log")
}

fn parse_name(name: &str) -> Option<(FlowId, u32)> {
    let (flow, piece) = name.strip_suffix(".log")?.split_once('.')?;
    Some((FlowId(u64::from_str_radix(flow, 16).ok()?), piece.parse().ok()?))
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)
}

fn sync(dir: &Path, dirty: &Dirty) {
    let files = std::mem::take(&mut *dirty.lock().unwrap_or_else(PoisonError::into_inner));
    if files.is_empty() {
        return;
    }
    let synced = files.values().try_for_each(File::sync_data).and_then(|()| File::open(dir)?.sync_all());
    if let Err(error) = synced {
        tracing::warn!(%error, "what is in custody may not be on the disk: a power cut could cost it");
    }
}

#[cfg(test)]
mod tests;
