//! Stores that meet, without anything between them.

mod basics;
mod hostile;
mod kills;
mod model;
mod power;
mod room;
mod spooled;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aquila_proto::identity::{Identity, PublicKey};
use aquila_proto::transfer::{Hash, ObjectId, Offer};

use crate::{Config, Delete, Depot, PutOptions, Shore, State, Verdict};

/// A folder of a test's own.
#[derive(Debug)]
pub struct Temp(pub PathBuf);

impl Temp {
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("aquila-depot-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn join(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    /// Writes a file below it.
    pub fn file(&self, path: &str, content: &[u8]) -> PathBuf {
        let path = self.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub const SHIP: u8 = 2;
pub const PLANE: u8 = 3;
pub const SHORE: u8 = 4;

pub fn identity(seed: u8) -> Arc<Identity> {
    Arc::new(Identity::from_seed([seed; 32]))
}

pub fn key(seed: u8) -> PublicKey {
    identity(seed).public()
}

/// A store that takes from the ship, and believes the shore.
pub fn config(seed: u8) -> Config {
    let sources = if seed == SHIP { Vec::new() } else { vec![key(SHIP)] };
    Config { sources, shores: vec![key(SHORE)], min_free: 0, ..Config::new(identity(seed)) }
}

pub fn open(temp: &Temp, seed: u8) -> Depot {
    let mut config = config(seed);
    if seed == SHORE {
        config.shore = Some(Shore { folder: Some(temp.join("ashore")), name: "shore".into() });
    }
    Depot::open(temp.join(&format!("store-{seed}")), config).unwrap()
}

/// Bytes that follow from a seed and cannot be compressed.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let block = |n: u64| Hash::of(&[seed.to_be_bytes(), n.to_be_bytes()].concat()).0;
    (0..len.div_ceil(32) as u64).flat_map(block).take(len).collect()
}

/// A log of lines that can be compressed.
pub fn log(seed: u64, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len + 64);
    let mut n = seed;
    while out.len() < len {
        n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        out.extend(format!("{:08x} depth {:5} temperature {:3}\n", n >> 32, n >> 20 & 0x3fff, n >> 40 & 0xff).bytes());
    }
    out.truncate(len);
    out
}

/// What a contact has carried.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Carried {
    pub objects: Vec<ObjectId>,
    pub bytes: u64,
    pub refused: usize,
}

/// A contact: all that one has and the other wants is carried, and receipts go both ways.
pub fn meet(from: &mut Depot, to: &mut Depot) -> Carried {
    let mut carried = Carried::default();
    swap_receipts(from, to);
    let (from_key, to_key) = (from.key(), to.key());
    let mut stuck = Vec::new();
    loop {
        let found = from.candidates(&to_key, 64, |object| stuck.contains(object)).unwrap();
        if found.is_empty() {
            break;
        }
        for candidate in found {
            let object = candidate.object;
            let mut verdict = to.on_offer(&from_key, &candidate.offer()).unwrap();
            if verdict == Verdict::WantManifest {
                let manifest = from.load(&object, 0).unwrap();
                assert_eq!(manifest.len(), candidate.manifest_len as usize);
                carried.bytes += manifest.len() as u64;
                verdict = to.on_manifest(&from_key, &object, &manifest).unwrap();
            }
            match verdict {
                Verdict::HaveCustody => {}
                Verdict::WantChunks { lens, have } => {
                    assert_eq!(lens.len() as u64, candidate.chunks);
                    assert_eq!(lens.iter().map(|len| u64::from(*len)).sum::<u64>(), candidate.wire_len);
                    for part in (1..=candidate.chunks).filter(|part| !have.contains(*part)) {
                        let bytes = from.load(&object, part).unwrap();
                        carried.bytes += bytes.len() as u64;
                        assert!(to.store(&object, part, &bytes).unwrap().good);
                    }
                    assert!(to.is_complete(&object).unwrap());
                    assert!(to.commit().unwrap().custody.contains(&object));
                    carried.objects.push(object);
                }
                Verdict::Refuse(_) => {
                    from.on_refused(&to_key, &object).unwrap();
                    carried.refused += 1;
                    continue;
                }
                Verdict::NotNow(_) => {
                    stuck.push(object);
                    continue;
                }
                Verdict::WantManifest => panic!("asked for twice"),
            }
            from.on_given(&to_key, &object).unwrap();
        }
    }
    swap_receipts(from, to);
    carried
}

pub fn swap_receipts(one: &mut Depot, other: &mut Depot) {
    for receipt in one.receipts_for(&other.key()).unwrap() {
        other.on_receipt(&one.key(), &receipt).unwrap();
    }
    for receipt in other.receipts_for(&one.key()).unwrap() {
        one.on_receipt(&other.key(), &receipt).unwrap();
    }
}

/// The one object that there is in a state.
pub fn state_of(depot: &Depot, object: &ObjectId) -> Option<State> {
    let mut rows = depot.list(crate::Filter::default()).map(Result::unwrap);
    rows.find(|row| row.object == *object).map(|row| row.state)
}

/// Bytes that the segments of a store take on the disk.
pub fn on_disk(dir: &Path) -> u64 {
    let files = fs::read_dir(dir.join("segments")).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().blocks() * 512).sum()
}

/// All files below a folder, by path.
pub fn tree(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                let name = entry.path().strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
                found.push((name, fs::read(entry.path()).unwrap_or_default()));
            }
        }
    }
    found.sort();
    found
}

/// Puts a file that holds this, and promises it.
pub fn put(temp: &Temp, depot: &mut Depot, path: &str, content: &[u8]) -> ObjectId {
    let file = temp.file(&format!("files/{path}"), content);
    let put = depot.put(&file, path, &PutOptions::default()).unwrap();
    depot.commit().unwrap();
    put.object
}

pub fn with_delete(mut config: Config, delete: Delete) -> Config {
    config.delete = delete;
    config
}
