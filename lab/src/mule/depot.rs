//! A store in virtual time: content that follows from a seed, a disk that is synced now and then, and power that may be cut.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use aquila_proto::identity::Identity;
use aquila_proto::transfer::{
    Action, Answer, Chunk, Handle, Hash, Hop, HopConfig, Kind, Manifest, ObjectId, Offer, Ranges, StoreId,
};
use bytes::{Bytes, BytesMut};

/// What is stored is sure to survive a power cut after this.
const SYNC_EVERY: Duration = Duration::from_millis(500);
/// A chunk is hashed, and a manifest looked at, within this.
const WORK: Duration = Duration::from_millis(2);
/// Longest chunk, in bytes.
pub const CHUNK: usize = 64 << 10;
/// Files shorter than this are packed.
const PACKED_BELOW: usize = 64 << 10;
/// Longest pack.
const PACK: usize = 1 << 20;

/// An object, of which the content is made when it is asked for.
#[derive(Debug)]
struct Object {
    manifest: Bytes,
    /// Seed and length of each chunk.
    chunks: Vec<(u64, u32)>,
    hashes: Vec<Hash>,
    /// Files in it, and their bytes.
    files: usize,
    bytes: u64,
}

/// What there is to be carried.
#[derive(Debug, Default)]
pub struct Freight {
    objects: BTreeMap<ObjectId, Object>,
    /// In the order in which they were put.
    order: Vec<ObjectId>,
}

fn content(seed: u64, len: u32) -> Bytes {
    let mut bytes = BytesMut::with_capacity(len as usize + 8);
    let mut state = seed;
    while bytes.len() < len as usize {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend_from_slice(&(mixed ^ mixed >> 31).to_le_bytes());
    }
    bytes.truncate(len as usize);
    bytes.freeze()
}

impl Freight {
    /// So many files of one length, the small ones in packs.
    pub fn of(files: usize, len: usize) -> Self {
        let mut freight = Self::default();
        let in_one = if len < PACKED_BELOW { PACK / len.max(1) } else { 1 };
        let mut left = files;
        while left > 0 {
            let count = left.min(in_one);
            left -= count;
            freight.put(count * len, count);
        }
        freight
    }

    /// An object of so many bytes, which are so many files.
    pub fn put(&mut self, len: usize, files: usize) -> ObjectId {
        let number = self.order.len() as u64 + 1;
        let chunk = |n: u64| (n | number << 32, (len - n as usize * CHUNK).min(CHUNK) as u32);
        let chunks = (0..len.div_ceil(CHUNK) as u64).map(chunk).collect();
        self.insert(number, files, len as u64, chunks)
    }

    /// A version of one and the same file: chunks for which `changed` holds differ from those of any other version.
    pub fn put_version(&mut self, len: usize, changed: impl Fn(u64) -> bool) -> ObjectId {
        let number = self.order.len() as u64 + 1;
        let chunks = (0..len.div_ceil(CHUNK) as u64).map(|n| {
            let seed = if changed(n) { n | number << 40 } else { n | 1 << 60 };
            (seed, (len - n as usize * CHUNK).min(CHUNK) as u32)
        });
        let chunks = chunks.collect();
        self.insert(number, 1, len as u64, chunks)
    }

    fn insert(&mut self, number: u64, files: usize, bytes: u64, chunks: Vec<(u64, u32)>) -> ObjectId {
        let identity = Identity::from_seed([2; 32]);
        let hashes: Vec<_> = chunks.iter().map(|(seed, len)| Hash::of(&content(*seed, *len))).collect();
        let manifest = Manifest {
            kind: if files > 1 { Kind::Pack } else { Kind::File },
            source: StoreId(*b"the ship"),
            key: identity.public(),
            number,
            priority: 3,
            created_s: 1_790_000_000,
            deadline_s: 0,
            expires_s: 0,
            destination: String::new(),
            path: if files > 1 { String::new() } else { format!("data/{number}.bin") },
            modified_ns: 0,
            hash: Hash::of(&number.to_be_bytes()),
            chunks: hashes
                .iter()
                .zip(&chunks)
                .map(|(hash, (_, len))| Chunk { hash: *hash, len: *len, compressed: 0 })
                .collect(),
        };
        let manifest = manifest.sign(&identity).expect("a manifest that can be read");
        let id = ObjectId(Hash::of(&manifest));
        self.objects.insert(id, Object { manifest, chunks, hashes, files, bytes });
        self.order.push(id);
        id
    }

    /// How many objects it is.
    pub fn total_objects(&self) -> usize {
        self.order.len()
    }

    /// Bytes of the files in these objects, and how many there are.
    pub fn total_of(&self, objects: &BTreeSet<ObjectId>) -> (u64, usize) {
        let of = objects.iter().filter_map(|id| self.objects.get(id));
        of.fold((0, 0), |(bytes, files), object| (bytes + object.bytes, files + object.files))
    }

    /// Bytes of all chunks that differ, and of all manifests: the least that has to be sent.
    pub fn least(&self) -> u64 {
        let mut seen = HashSet::new();
        let chunks = self.objects.values().flat_map(|object| object.hashes.iter().zip(&object.chunks));
        let chunks: u64 = chunks.filter(|(hash, _)| seen.insert(**hash)).map(|(_, (_, len))| u64::from(*len)).sum();
        chunks + self.objects.values().map(|object| object.manifest.len() as u64).sum::<u64>()
    }
}

/// What a power cut leaves.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    manifests: HashMap<ObjectId, Manifest>,
    chunks: HashSet<Hash>,
    /// Objects that are whole.
    pub custody: BTreeSet<ObjectId>,
}

/// Something that the disk does later.
#[derive(Debug)]
enum Work {
    Stored(Handle, u64, Hash),
    Judged(Handle, ObjectId),
    Whole(Handle, ObjectId),
}

/// One end of a hop.
#[derive(Debug)]
pub struct Depot {
    /// What it says to the other one.
    pub hop: Hop,
    /// What was synced.
    pub durable: Disk,
    /// What was written.
    written: Disk,
    offered: BTreeMap<Handle, ObjectId>,
    taking: BTreeMap<Handle, ObjectId>,
    /// Objects that the other side has custody of.
    pub given: BTreeSet<ObjectId>,
    work: VecDeque<(Instant, Work)>,
    synced: Option<Instant>,
    /// Bytes of chunks that came though they were stored.
    pub again: u64,
}

impl Depot {
    /// A store that has its freight on offer, or takes what it is offered.
    pub fn new(store: [u8; 8], life: u64, durable: Disk) -> Self {
        Self {
            hop: Hop::new(HopConfig { store: StoreId(store), life }),
            written: durable.clone(),
            durable,
            offered: BTreeMap::new(),
            taking: BTreeMap::new(),
            given: BTreeSet::new(),
            work: VecDeque::new(),
            synced: None,
            again: 0,
        }
    }

    /// Puts on offer what fits and is not given yet.
    pub fn offer(&mut self, freight: &Freight) {
        for id in &freight.order {
            if self.hop.offer_room() == 0 {
                return;
            }
            if self.given.contains(id) || self.offered.values().any(|other| other == id) {
                continue;
            }
            let object = &freight.objects[id];
            let wire_len = object.chunks.iter().map(|(_, len)| u64::from(*len)).sum();
            let manifest_len = object.manifest.len() as u32;
            let offer = Offer { object: *id, manifest_len, wire_len, priority: 3, deadline_s: 0 };
            if let Some(handle) = self.hop.offer(offer, object.chunks.len() as u64) {
                self.offered.insert(handle, *id);
            }
        }
    }

    /// Does what the hop wants, and what the disk has done meanwhile.
    pub fn settle(&mut self, now: Instant, freight: &Freight) {
        while self.work.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, work)) = self.work.pop_front() else { break };
            self.done(now, work);
        }
        if self.synced.is_none_or(|at| now.saturating_duration_since(at) >= SYNC_EVERY) {
            self.synced = Some(now);
            self.sync();
        }
        while let Some(action) = self.hop.poll_action() {
            self.act(now, freight, action);
        }
    }

    /// When the disk has done something.
    pub fn next_deadline(&self) -> Option<Instant> {
        let work = self.work.front().map(|(at, _)| *at);
        work.into_iter().chain(self.hop.next_deadline()).min()
    }

    fn act(&mut self, now: Instant, freight: &Freight, action: Action) {
        match action {
            Action::Met { .. } => self.taking.clear(),
            Action::Load { handle, part } => {
                let object = self.offered.get(&handle).and_then(|id| freight.objects.get(id));
                let bytes = object.and_then(|object| match part {
                    0 => Some(object.manifest.clone()),
                    part => object.chunks.get(part as usize - 1).map(|(seed, len)| content(*seed, *len)),
                });
                self.hop.on_loaded(handle, part, bytes);
            }
            Action::Given(handle) | Action::Refused(handle) => self.given.extend(self.offered.remove(&handle)),
            Action::Offered { handle, offer } => {
                self.taking.insert(handle, offer.object);
                match self.written.manifests.contains_key(&offer.object) {
                    _ if self.written.custody.contains(&offer.object) => self.hop.answer(handle, Answer::Custody),
                    true => self.answer(handle, offer.object),
                    false => self.hop.answer(handle, Answer::Manifest),
                }
            }
            Action::Judge { handle, manifest } => {
                let Some(id) = self.taking.get(&handle).copied() else { return };
                match Manifest::parse(&manifest) {
                    Ok(manifest) => {
                        self.written.manifests.insert(id, manifest);
                        self.work.push_back((now + WORK, Work::Judged(handle, id)));
                    }
                    Err(_) => self.hop.answer(handle, Answer::Refuse),
                }
            }
            Action::Store { handle, part, bytes } => {
                self.work.push_back((now + WORK, Work::Stored(handle, part, Hash::of(&bytes))));
            }
            Action::Complete(handle) => {
                let Some(id) = self.taking.get(&handle).copied() else { return };
                self.work.push_back((now + WORK, Work::Whole(handle, id)));
            }
            Action::Withdrawn(handle) => drop(self.taking.remove(&handle)),
            Action::Receipt(_) => {}
        }
    }

    fn answer(&mut self, handle: Handle, id: ObjectId) {
        let manifest = &self.written.manifests[&id];
        let mut have = Ranges::default();
        for (part, chunk) in (1..).zip(&manifest.chunks) {
            if self.written.chunks.contains(&chunk.hash) {
                have.insert(part, part + 1);
            }
        }
        let lens = manifest.chunks.iter().map(Chunk::wire_len).collect();
        self.hop.answer(handle, Answer::Chunks { lens, have });
    }

    fn done(&mut self, now: Instant, work: Work) {
        match work {
            Work::Judged(handle, id) => self.answer(handle, id),
            Work::Stored(handle, part, hash) => {
                let chunk = self.taking.get(&handle).and_then(|id| self.written.manifests.get(id));
                let chunk = chunk.and_then(|manifest| manifest.chunks.get(part as usize - 1)).copied();
                let good = chunk.is_some_and(|chunk| chunk.hash == hash);
                if good && !self.written.chunks.insert(hash) {
                    self.again += chunk.map_or(0, |chunk| u64::from(chunk.len));
                }
                self.hop.on_stored(now, handle, part, good);
            }
            Work::Whole(handle, id) => {
                self.written.custody.insert(id);
                // Custody is told when it is sure.
                self.sync();
                self.hop.answer(handle, Answer::Custody);
            }
        }
    }

    fn sync(&mut self) {
        if self.written.chunks.len() != self.durable.chunks.len()
            || self.written.custody.len() != self.durable.custody.len()
        {
            self.durable = self.written.clone();
        }
    }
}
