//! The carousel: objects go round, the most urgent first, each time with symbols that were never sent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::DATAGRAM;
use super::block::{Encoder, Plans, cut, symbols_of_a_round};
use super::datagram::{CastKey, FRAME, MAX_ID, Piece, Sealer};
use super::layout::{Block, Layout};
use crate::Bitrate;
use crate::transfer::manifest::{Manifest, ObjectId, StoreId};

/// How an object is cast.
#[derive(Debug, Clone)]
pub struct SenderConfig {
    /// The key of all members.
    pub key: CastKey,
    /// The store that sends.
    pub store: StoreId,
    /// Drawn for this start.
    pub run: [u8; 4],
    /// Above all counters that this sender has used before.
    pub counter: u64,
    /// What is sent in a second, headers of UDP and IPv4 included. Nobody says that it is too much.
    pub rate: Bitrate,
    /// Bytes of a datagram, taken into [`DATAGRAM`].
    pub datagram: usize,
    /// Symbols beyond those of a block, in parts of one, that leave in a round.
    pub overhead: f64,
    /// Rounds of an object; 0 for no end.
    pub rounds: u32,
}

/// An object that is to be cast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CastObject {
    /// Which.
    pub object: ObjectId,
    /// Bytes of its manifest.
    pub manifest_len: u32,
    /// 0 first, 7 last.
    pub priority: u8,
    /// By when it should be delivered, seconds since 1970; 0 if nothing is said.
    pub deadline_s: u64,
    /// Rounds that it has had, also before this start.
    pub rounds: u32,
}

/// What the caller is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CastAction {
    /// Read a part of an object, 0 is its manifest; then [`CastSender::on_loaded`].
    Load(ObjectId, u64),
    /// An object has had so many rounds: to be remembered, for a later start.
    Round(ObjectId, u32),
}

/// What a sender has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Datagrams.
    pub datagrams: u64,
    /// Bytes of them, UDP payload.
    pub bytes: u64,
    /// Symbols.
    pub symbols: u64,
    /// Rounds of objects that were finished.
    pub rounds: u64,
    /// Objects that have rounds before them.
    pub objects: u64,
}

/// Blocks of which symbols leave by turns. Each takes some 3.2 MiB at most.
const OPEN: usize = 8;
/// Blocks that are kept while others are more urgent.
const KEPT: usize = 12;
/// Headers of UDP and IPv4.
const HEADERS: usize = 28;
/// What may be sent at once after a delay of the caller's.
const CATCH_UP: Duration = Duration::from_millis(5);

/// An object, and how far its round is.
#[derive(Debug)]
struct Casting {
    object: CastObject,
    /// In the order in which they were named.
    age: usize,
    layout: Option<Layout>,
    /// Its manifest or a chunk is being read.
    asked: bool,
    /// The next block of this round.
    next: u32,
    /// Blocks that were begun and are not through: how many of how many symbols have left.
    begun: BTreeMap<Block, (u32, u32)>,
}

impl Casting {
    /// Each round that it has had costs an object a step of priority, so that what is new is not kept waiting by what has been sent.
    fn rank(&self) -> (u32, u8, u64, usize) {
        let CastObject { rounds, priority, deadline_s, .. } = self.object;
        (rounds.saturating_add(priority.into()), priority, deadline_s.checked_sub(1).unwrap_or(u64::MAX), self.age)
    }

    fn block(&self, number: u32) -> Option<Block> {
        let manifest = Block::count_of_manifest(self.object.manifest_len as usize);
        if number < manifest {
            return Some(Block::Manifest(number));
        }
        let number = number - manifest;
        (number < self.layout.as_ref()?.blocks()).then_some(Block::Chunks(number))
    }

    fn len_of(&self, block: Block) -> usize {
        match block {
            Block::Manifest(number) => {
                Block::of_manifest(number, self.object.manifest_len as usize).unwrap_or_default()
            }
            Block::Chunks(number) => self.layout.as_ref().map_or(0, |layout| layout.len_of(number)),
        }
    }
}

/// A block that is being put together.
#[derive(Debug)]
struct Filling {
    object: ObjectId,
    block: Block,
    missing: VecDeque<u64>,
    bytes: Vec<u8>,
}

/// Sends objects to whoever listens.
#[derive(Debug)]
pub struct CastSender {
    config: SenderConfig,
    sealer: Sealer,
    objects: BTreeMap<ObjectId, Casting>,
    /// Blocks of which symbols can be made, the one used last at the end.
    encoders: Vec<(ObjectId, Block, Encoder)>,
    plans: Plans,
    filling: Option<Filling>,
    manifests: VecDeque<(ObjectId, Bytes)>,
    actions: VecDeque<CastAction>,
    due: Option<Instant>,
    stats: SenderStats,
}

/// Manifests of objects that are being cast, in memory.
const MANIFESTS: usize = 2;

impl CastSender {
    /// Nothing is cast yet.
    pub fn new(mut config: SenderConfig) -> Self {
        config.datagram = config.datagram.clamp(*DATAGRAM.start(), *DATAGRAM.end());
        config.rate = Bitrate(config.rate.0.max(1));
        let sealer = Sealer::new(&config.key, config.store, config.run, config.counter);
        Self {
            config,
            sealer,
            objects: BTreeMap::new(),
            encoders: Vec::new(),
            plans: Plans::default(),
            filling: None,
            manifests: VecDeque::new(),
            actions: VecDeque::new(),
            due: None,
            stats: SenderStats::default(),
        }
    }

    /// What is to be cast from now on, in the order of age. Those that were there go on where they are; those that are not named end.
    pub fn set_objects(&mut self, objects: impl IntoIterator<Item = CastObject>) {
        let mut named = BTreeSet::new();
        for (object, age) in objects.into_iter().zip(0..) {
            named.insert(object.object);
            let fresh = || Casting { object, age, layout: None, asked: false, next: 0, begun: BTreeMap::new() };
            self.objects.entry(object.object).or_insert_with(fresh).age = age;
        }
        self.objects.retain(|object, _| named.contains(object));
        self.forget_strangers();
    }

    /// Drops what belongs to objects that are not cast any more.
    fn forget_strangers(&mut self) {
        let objects = &self.objects;
        let is_begun = |object: &ObjectId, block: &Block| {
            objects.get(object).is_some_and(|casting| casting.begun.contains_key(block))
        };
        self.encoders.retain(|(object, block, _)| is_begun(object, block));
        self.manifests.retain(|(object, _)| objects.contains_key(object));
        self.filling.take_if(|filling| !is_begun(&filling.object, &filling.block));
        self.stats.objects = objects.values().filter(|casting| self.has_rounds(casting)).count() as u64;
    }

    fn has_rounds(&self, casting: &Casting) -> bool {
        self.config.rounds == 0 || casting.object.rounds < self.config.rounds
    }

    /// A part was read; `None` if it cannot be, which ends the object until it is named again.
    pub fn on_loaded(&mut self, object: ObjectId, part: u64, bytes: Option<Bytes>) {
        let Some(casting) = self.objects.get_mut(&object) else { return };
        casting.asked = false;
        let is_good = match bytes {
            None => false,
            Some(bytes) if part == 0 => match Manifest::parse(&bytes) {
                Ok(manifest) if bytes.len() == casting.object.manifest_len as usize => {
                    casting.layout = Some(Layout::new(manifest.chunks.iter().map(|chunk| chunk.wire_len())));
                    self.manifests.retain(|(other, _)| *other != object);
                    self.manifests.push_back((object, bytes));
                    if self.manifests.len() > MANIFESTS {
                        self.manifests.pop_front();
                    }
                    true
                }
                _ => false,
            },
            Some(bytes) => {
                if let Some(filling) = self.filling.as_mut().filter(|filling| filling.object == object)
                    && filling.missing.front() == Some(&part)
                {
                    filling.missing.pop_front();
                    filling.bytes.extend_from_slice(&bytes);
                }
                true
            }
        };
        if !is_good {
            self.objects.remove(&object);
            self.forget_strangers();
        }
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<CastAction> {
        self.actions.pop_front()
    }

    /// The next datagram, when it is time for one. If it is and there is none, parts are being read, or there is nothing to cast.
    pub fn poll_datagram(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.due.is_some_and(|due| now < due) {
            return None;
        }
        let pieces = self.fill();
        if pieces.is_empty() {
            return None;
        }
        let datagram = self.sealer.seal(&pieces)?;
        let airtime = Duration::from_secs_f64((datagram.len() + HEADERS) as f64 * 8.0 / self.config.rate.0 as f64);
        let since = now.checked_sub(CATCH_UP).unwrap_or(now);
        self.due = Some(self.due.map_or(now, |due| due.max(since)) + airtime);
        self.stats.datagrams += 1;
        self.stats.bytes += datagram.len() as u64;
        Some(datagram)
    }

    /// When the next datagram may leave; `None` if there is nothing to cast.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.due.filter(|_| self.stats.objects > 0)
    }

    /// The counter of the next datagram.
    pub fn counter(&self) -> u64 {
        self.sealer.counter()
    }

    /// Objects of which a round was begun, with the rounds that they have had when that one is counted: what a later start should begin
    /// with, so that no symbol is sent twice.
    pub fn begun(&self) -> impl Iterator<Item = (ObjectId, u32)> {
        let begun = self.objects.iter().filter(|(_, casting)| casting.next > 0);
        begun.map(|(object, casting)| (*object, casting.object.rounds.saturating_add(1)))
    }

    /// Counters.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    /// Fills a datagram: a long symbol, or several short ones, each of another block.
    fn fill(&mut self) -> Vec<u8> {
        self.open();
        let (mut pieces, mut used) = (Vec::new(), Vec::new());
        while let Some((object, block)) = self.choose(self.config.datagram - FRAME - pieces.len(), &used) {
            used.push((object, block));
            self.put_symbol(object, block, &mut pieces);
        }
        pieces
    }

    /// Which block's turn it is: of the most urgent ones, the one of which the smallest share has left. So the symbols of each are spread
    /// over the same time, however many they are, and a burst of losses takes as little as it can of each.
    fn choose(&self, room: usize, used: &[(ObjectId, Block)]) -> Option<(ObjectId, Block)> {
        let mut candidates: Vec<_> = (self.encoders.iter())
            .filter_map(|(object, block, _)| {
                let casting = self.objects.get(object)?;
                let (sent, of) = *casting.begun.get(block)?;
                Some((casting.rank(), sent, of, casting, *object, *block))
            })
            .collect();
        let urgent = candidates.iter().map(|((level, ..), ..)| *level).min()?;
        candidates.retain(|((level, ..), ..)| *level == urgent);
        candidates.sort_by_key(|(rank, ..)| *rank);
        candidates.truncate(OPEN);
        let fits = candidates.into_iter().filter(|(.., casting, object, block)| {
            let len = casting.len_of(*block);
            let said = self.said_len(casting, *block);
            let needed = Piece::overhead(*block, said) + cut(len, self.max_symbol()).1;
            needed <= room && !used.contains(&(*object, *block))
        });
        let least = fits.min_by(|(a_rank, a, a_of, ..), (b_rank, b, b_of, ..)| {
            let share = (u64::from(*a) * u64::from(*b_of)).cmp(&(u64::from(*b) * u64::from(*a_of)));
            share.then(a_rank.cmp(b_rank))
        })?;
        Some((least.4, least.5))
    }

    /// What a piece says of how long something is.
    fn said_len(&self, casting: &Casting, block: Block) -> u32 {
        match block {
            Block::Manifest(_) => casting.object.manifest_len,
            Block::Chunks(_) => casting.len_of(block) as u32,
        }
    }

    /// Bytes of a symbol, at most: one fills a datagram.
    fn max_symbol(&self) -> usize {
        self.config.datagram - FRAME - Piece::overhead(Block::Chunks(1 << 14), 1 << 20)
    }

    fn put_symbol(&mut self, object: ObjectId, block: Block, pieces: &mut Vec<u8>) {
        let Some(casting) = self.objects.get(&object) else { return };
        let len = self.said_len(casting, block);
        let Some((sent, of)) = casting.begun.get(&block).copied() else { return };
        let Some((.., encoder)) = self.encoders.iter().find(|(o, b, _)| (*o, *b) == (object, block)) else { return };
        // After the last there is they begin again.
        let id = (u64::from(casting.object.rounds) * u64::from(of) + u64::from(sent)) % u64::from(MAX_ID);
        let piece = Piece { object, block, len, id: id as u32, symbol: encoder.symbol(id as u32) };
        piece.put(pieces);
        self.stats.symbols += 1;
        let Some(casting) = self.objects.get_mut(&object) else { return };
        if sent + 1 < of {
            casting.begun.insert(block, (sent + 1, of));
            return;
        }
        casting.begun.remove(&block);
        self.encoders.retain(|(o, b, _)| (*o, *b) != (object, block));
        if casting.begun.is_empty() && casting.layout.is_some() && casting.block(casting.next).is_none() {
            casting.next = 0;
            casting.layout = None;
            casting.object.rounds = casting.object.rounds.saturating_add(1);
            self.actions.push_back(CastAction::Round(object, casting.object.rounds));
            self.stats.rounds += 1;
            self.manifests.retain(|(other, _)| *other != object);
            self.forget_strangers();
        }
    }

    /// Sees to it that there are as many blocks as leave by turns, of the most urgent objects.
    fn open(&mut self) {
        self.finish_filling();
        if self.filling.is_some() {
            return;
        }
        let mut urgent: Vec<_> = self.objects.values().filter(|casting| self.has_rounds(casting)).collect();
        if urgent.len() > OPEN {
            urgent.select_nth_unstable_by_key(OPEN, |casting| casting.rank());
            urgent.truncate(OPEN);
        }
        urgent.sort_unstable_by_key(|casting| casting.rank());
        let mut open = 0;
        let urgent: Vec<ObjectId> = urgent.into_iter().map(|casting| casting.object.object).collect();
        for object in urgent {
            let Some(casting) = self.objects.get(&object) else { continue };
            if casting.layout.is_none() {
                return self.ask(object, 0);
            }
            // Blocks that were begun before something more urgent came are made again.
            let is_there = |block: &Block| self.encoders.iter().any(|(o, b, _)| (*o, *b) == (object, *block));
            let lost = casting.begun.keys().find(|block| !is_there(block)).copied();
            open += casting.begun.len();
            if let Some(block) = lost {
                return self.begin(object, block);
            }
            if open >= OPEN {
                return;
            }
            if let Some(block) = casting.block(casting.next) {
                return self.begin(object, block);
            }
        }
    }

    fn ask(&mut self, object: ObjectId, part: u64) {
        if let Some(casting) = self.objects.get_mut(&object).filter(|casting| !casting.asked) {
            casting.asked = true;
            self.actions.push_back(CastAction::Load(object, part));
        }
    }

    /// Begins to put a block together.
    fn begin(&mut self, object: ObjectId, block: Block) {
        let max = self.max_symbol();
        let Some(casting) = self.objects.get_mut(&object) else { return };
        let missing = match (block, &casting.layout) {
            (Block::Chunks(number), Some(layout)) => layout.parts(number).collect(),
            _ => VecDeque::new(),
        };
        let of = symbols_of_a_round(cut(casting.len_of(block), max).0, self.config.overhead);
        let begun = casting.begun.len();
        casting.begun.entry(block).or_insert((0, of));
        casting.next += u32::from(casting.begun.len() > begun);
        let mut bytes = Vec::with_capacity(casting.len_of(block));
        if let Block::Manifest(number) = block {
            match self.manifests.iter().find(|(other, _)| *other == object) {
                Some((_, manifest)) => {
                    let start = number as usize * super::MAX_BLOCK;
                    bytes.extend_from_slice(&manifest[start..start + casting.len_of(block)]);
                }
                None => return self.ask(object, 0),
            }
        }
        self.filling = Some(Filling { object, block, missing, bytes });
        self.finish_filling();
    }

    fn finish_filling(&mut self) {
        let Some(filling) = self.filling.take() else { return };
        if let Some(part) = filling.missing.front().copied() {
            let object = filling.object;
            self.filling = Some(filling);
            return self.ask(object, part);
        }
        let Filling { object, block, bytes, .. } = filling;
        let wanted = self.objects.get(&object).map(|casting| casting.len_of(block));
        if wanted != Some(bytes.len()) || bytes.is_empty() {
            // The store gave other bytes than its manifest says.
            self.objects.remove(&object);
            return self.forget_strangers();
        }
        let encoder = Encoder::new(bytes, self.max_symbol(), &mut self.plans);
        self.encoders.push((object, block, encoder));
        if self.encoders.len() > KEPT {
            let objects = &self.objects;
            let rank = |(object, ..): &(ObjectId, Block, Encoder)| objects.get(object).map(Casting::rank);
            let last = (0..self.encoders.len()).max_by_key(|index| rank(&self.encoders[*index]));
            last.map(|index| self.encoders.remove(index));
        }
    }
}
