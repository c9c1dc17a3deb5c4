//! The server's resumption tickets: in memory, on disk soon after, and given out once.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aquila_proto::quic::TicketStore;

use super::guard::Guard;
use super::write_whole;
use super::writer::Work;

/// Tickets kept, of sixteen connections; the oldest goes first.
pub(super) const MAX_TICKETS: usize = 192;
const MAGIC: &[u8] = b"aqS1";
const DIGEST: usize = 32;
const NAME: usize = 16;
/// A ticket is in the file on disk or in the one that replaces it, so this many used ones can be in either.
const MAX_USED: usize = 2 * MAX_TICKETS;

/// What a ticket is called here: a digest of its key.
type Name = [u8; NAME];

/// Resumption tickets that survive a restart.
///
/// They live in memory; a thread writes them to disk. The file may still hold a ticket that has been used: so those
/// are written down, with a write that the kernel has taken before the ticket is given out.
#[derive(Debug, Clone)]
pub struct FileTickets {
    book: Arc<Mutex<Book>>,
    work: Work,
}

/// The tickets' file, from the side of the thread that writes it.
#[derive(Debug)]
pub(super) struct TicketFile {
    path: PathBuf,
    book: Arc<Mutex<Book>>,
}

#[derive(Debug)]
struct Book {
    /// Oldest first.
    tickets: VecDeque<(Name, Vec<u8>)>,
    /// Those that our next life may find on disk.
    on_disk: BTreeSet<Name>,
    /// Of these, the ones that it must not use.
    used: Vec<Name>,
    guard: Guard,
    warned: bool,
}

impl FileTickets {
    /// Reads what is in `dir`. `guard_dirs`: where used tickets are written down, best first.
    pub(super) fn open(dir: &Path, guard_dirs: &[&Path], work: Work) -> (Self, TicketFile) {
        let path = dir.join("tickets");
        let guard = Guard::open(guard_dirs, "used", MAX_USED * NAME);
        let (found, on_disk) = match std::fs::read(&path) {
            Ok(bytes) => {
                let tickets = decode(&bytes).unwrap_or_default();
                let on_disk = tickets.iter().map(|(name, _)| *name).collect();
                (tickets, on_disk)
            }
            Err(_) => Default::default(),
        };
        let written_down: Vec<Vec<u8>> = guard.contents().collect();
        let was_used = |name: &Name| written_down.iter().any(|names| names.as_chunks().0.contains(name));
        let (used, tickets): (VecDeque<_>, _) = found.into_iter().partition(|(name, _)| was_used(name));
        let used: Vec<Name> = used.into_iter().map(|(name, _)| name).collect();
        if !used.is_empty() {
            // What is in memory is gone after a power cut; then they must not be on disk any more.
            work.tickets_changed();
        }
        let book = Book { tickets, on_disk, used, guard, warned: false };
        let book = Arc::new(Mutex::new(book));
        (Self { book: book.clone(), work }, TicketFile { path, book })
    }
}

impl TicketStore for FileTickets {
    fn put(&self, key: &[u8], value: &[u8]) -> bool {
        let mut book = lock(&self.book);
        if book.tickets.len() >= MAX_TICKETS {
            book.tickets.pop_front();
        }
        book.tickets.push_back((name_of(key), value.to_vec()));
        drop(book);
        self.work.tickets_changed();
        true
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let name = name_of(key);
        let mut book = lock(&self.book);
        let index = book.tickets.iter().position(|(have, _)| *have == name)?;
        let (_, value) = book.tickets.remove(index)?;
        let written = book.write_down(name);
        let first = written.is_err() && !std::mem::replace(&mut book.warned, written.is_err());
        drop(book);
        self.work.tickets_changed();
        // Forgotten for good before it is used, or not used at all: single use is what keeps 0-RTT from being replayed.
        match written {
            Ok(()) => Some(value),
            Err(error) => {
                if first {
                    tracing::warn!(%error, "cannot write down that a ticket is used; not accepting its 0-RTT");
                }
                None
            }
        }
    }
}

impl Book {
    /// Notes that a ticket is used, if our next life could find it.
    fn write_down(&mut self, name: Name) -> io::Result<()> {
        if !self.on_disk.contains(&name) {
            return Ok(());
        }
        self.used.push(name);
        let mut record = self.used.concat();
        if record.len() > MAX_USED * NAME {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        // All of it each time, and in one page: what a kill leaves is this or what was there before.
        record.resize(MAX_USED * NAME, 0);
        self.guard.write_at(&record, 0)
    }
}

impl TicketFile {
    /// Writes the tickets as they are now, and waits for the disk.
    ///
    /// # Errors
    /// Those of the file system; what was there stays.
    pub fn write(&self) -> io::Result<()> {
        let (bytes, names, before) = {
            let mut book = lock(&self.book);
            let names: BTreeSet<Name> = book.tickets.iter().map(|(name, _)| *name).collect();
            let before = book.on_disk.clone();
            book.on_disk.extend(&names);
            (encode(&book.tickets), names, before)
        };
        let written = write_whole(&self.path, &bytes);
        let mut book = lock(&self.book);
        book.on_disk = if written.is_ok() { names } else { before };
        // Their turn in the record is over, since they are no longer found.
        let Book { used, on_disk, .. } = &mut *book;
        used.retain(|name| on_disk.contains(name));
        written
    }
}

fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name_of(key: &[u8]) -> Name {
    let digest = ring::digest::digest(&ring::digest::SHA256, key);
    std::array::from_fn(|n| digest.as_ref()[n])
}

/// Each ticket's name, length and value, with a digest behind all of them.
fn encode(tickets: &VecDeque<(Name, Vec<u8>)>) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    for (name, value) in tickets {
        out.extend_from_slice(name);
        out.extend_from_slice(&(value.len() as u32).to_be_bytes());
        out.extend_from_slice(value);
    }
    let digest = ring::digest::digest(&ring::digest::SHA256, &out);
    out.extend_from_slice(digest.as_ref());
    out
}

fn decode(bytes: &[u8]) -> Option<VecDeque<(Name, Vec<u8>)>> {
    let (body, digest) = bytes.split_last_chunk::<DIGEST>()?;
    if ring::digest::digest(&ring::digest::SHA256, body).as_ref() != digest {
        return None;
    }
    let mut rest = body.strip_prefix(MAGIC)?;
    let mut tickets = VecDeque::new();
    while let Some((name, after)) = rest.split_first_chunk::<NAME>() {
        let (len, after) = after.split_first_chunk()?;
        let (value, after) = after.split_at_checked(u32::from_be_bytes(*len) as usize)?;
        tickets.push_back((*name, value.to_vec()));
        rest = after;
    }
    (rest.is_empty() && tickets.len() <= MAX_TICKETS).then_some(tickets)
}
