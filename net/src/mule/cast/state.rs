//! What a sender has to remember over restarts: how far its counter may have come, and how many rounds each object has had.
//!
//! `aqK1`, the counter (8 bytes), and for each object its name (32) and its rounds (4), in network order.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use aquila_proto::transfer::{Hash, ObjectId};

const MAGIC: &[u8; 4] = b"aqK1";
/// Counters that are used before the next are written down: an hour at 1,000 datagrams a second.
const AHEAD: u64 = 1 << 22;
const ENTRY: usize = 36;
/// Objects that are remembered; of others that come again the rounds begin anew.
pub(super) const MAX_OBJECTS: usize = 16_384;

/// See the module.
#[derive(Debug)]
pub(super) struct Memory {
    path: PathBuf,
    /// Counters below this may be used.
    pub reserved: u64,
    /// Rounds of objects.
    pub rounds: BTreeMap<ObjectId, u32>,
}

impl Memory {
    /// Reads what was written, and gives the first counter to use: above all that were used, and not below `now_us`, microseconds since 1970, for
    /// those who have lost this.
    pub fn open(path: PathBuf, now_us: u64) -> io::Result<(Self, u64)> {
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let (used, rounds) = parse(&bytes).unwrap_or_default();
        let first = used.max(now_us).min(1 << 62);
        let mut memory = Self { path, reserved: 0, rounds };
        memory.save(first, [])?;
        Ok((memory, first))
    }

    /// Whether more has to be written down before this counter is used.
    pub fn is_short(&self, counter: u64) -> bool {
        counter + AHEAD / 2 > self.reserved
    }

    /// Writes it all, with counters from this one on reserved. Rounds that were begun count in the file, and here when they are done.
    pub fn save(&mut self, counter: u64, begun: impl IntoIterator<Item = (ObjectId, u32)>) -> io::Result<()> {
        while self.rounds.len() > MAX_OBJECTS {
            self.rounds.pop_first();
        }
        let mut rounds = self.rounds.clone();
        rounds.extend(begun);
        let reserved = counter + AHEAD;
        let mut bytes = [&MAGIC[..], &reserved.to_be_bytes()].concat();
        for (object, rounds) in &rounds {
            bytes.extend_from_slice(&object.0.0);
            bytes.extend_from_slice(&rounds.to_be_bytes());
        }
        let new = self.path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        self.reserved = reserved;
        Ok(())
    }
}

fn parse(bytes: &[u8]) -> Option<(u64, BTreeMap<ObjectId, u32>)> {
    let (counter, rest) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
    let entries = rest.as_chunks::<ENTRY>().0.iter().take(MAX_OBJECTS).filter_map(|entry| {
        let (object, rounds) = entry.split_first_chunk::<32>()?;
        Some((ObjectId(Hash(*object)), u32::from_be_bytes(rounds.try_into().ok()?)))
    });
    Some((u64::from_be_bytes(*counter), entries.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_grow_over_restarts_whatever_the_clock_says() {
        let dir = std::env::temp_dir().join(format!("aquila-cast-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("cast");
        let (mut memory, first) = Memory::open(path.clone(), 5_000).unwrap();
        assert_eq!(first, 5_000);
        let object = ObjectId(Hash([4; 32]));
        memory.rounds.insert(object, 2);
        memory.save(6_000, []).unwrap();
        assert!(!memory.is_short(6_000) && memory.is_short(6_000 + AHEAD));
        // The clock went back.
        let (memory, second) = Memory::open(path.clone(), 10).unwrap();
        assert_eq!((second, memory.rounds.get(&object)), (6_000 + AHEAD, Some(&2)));
        // And forth; a file that is none is one that was lost.
        assert_eq!(Memory::open(path.clone(), 1 << 50).unwrap().1, 1 << 50);
        fs::write(&path, b"nothing").unwrap();
        assert_eq!(Memory::open(path, 7).unwrap().1, 7);
        fs::remove_dir_all(dir).unwrap();
    }
}
