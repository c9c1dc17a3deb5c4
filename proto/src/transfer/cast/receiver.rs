//! What is heard of a cast: symbols become blocks, and blocks manifests and chunks.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::block::{Brought, Decoder};
use super::datagram::{CastKey, Opener, Piece, Refused};
use super::layout::{Block, Layout};
use crate::transfer::Answer;
use crate::transfer::manifest::{Hash, Manifest, ObjectId, StoreId};
use crate::transfer::ranges::Ranges;

/// How a cast is heard.
#[derive(Debug, Clone)]
pub struct ReceiverConfig {
    /// The key of all members.
    pub key: CastKey,
    /// Our own store, whose datagrams may come back to us.
    pub store: StoreId,
    /// Bytes of memory for what is not whole, at least 4 MiB.
    pub room: usize,
}

/// What the caller is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeardAction {
    /// An object is being cast: say what becomes of it, [`CastReceiver::answer`].
    Offered(ObjectId),
    /// Its manifest is there, and is what the object is named by. Look whether it can be trusted, and say what is missing:
    /// [`CastReceiver::answer`].
    Judge(ObjectId, Bytes),
    /// A chunk is there, numbered from 1: verify and store it, then [`CastReceiver::on_stored`].
    Store(ObjectId, u64, Bytes),
    /// All chunks are stored. When they are sure to be there after a power cut: [`CastReceiver::answer`] with [`Answer::Custody`].
    Complete(ObjectId),
}

/// What a receiver has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Datagrams that were opened.
    pub datagrams: u64,
    /// Those that were nothing of a cast.
    pub foreign: u64,
    /// Those that were sealed with another key, or changed on the way.
    pub wrong_key: u64,
    /// Those that were here before.
    pub replayed: u64,
    /// Those that could not be read though the key was right.
    pub malformed: u64,
    /// Symbols that brought something.
    pub symbols: u64,
    /// Symbols of what is there, or not wanted.
    pub unneeded: u64,
    /// Symbols that were dropped since there was no room.
    pub no_room: u64,
    /// Blocks that were made whole.
    pub blocks: u64,
    /// Blocks that were whole and wrong, or could not be solved: begun again.
    pub wrong: u64,
    /// Blocks that were given up for others.
    pub dropped: u64,
    /// Objects of which all was there.
    pub objects: u64,
    /// Bytes of memory for what is not whole.
    pub held: u64,
}

/// Objects that something is known of, at most.
const MAX_OBJECTS: usize = 1024;
/// Objects that nothing is wanted of, at most; of those that were named before them the store is asked again.
const MAX_DONE: usize = 16_384;
/// The store is asked again after so long what becomes of an object that it had no room for.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// A block of which nothing was heard for so long makes room first.
const STALE: Duration = Duration::from_secs(600);
/// What an object takes in memory beside its chunks and blocks.
const OBJECT: usize = 512;
const LEAST_ROOM: usize = 4 << 20;

/// What is heard of an object.
#[derive(Debug)]
struct Hearing {
    heard: Instant,
    /// The store was asked, and has not answered.
    asked: bool,
    /// The store wants nothing of it until then.
    not_before: Option<Instant>,
    wants: Wants,
    blocks: BTreeMap<BlockKey, Decoding>,
}

#[derive(Debug)]
enum Wants {
    /// Nothing now.
    Nothing,
    /// Pieces that are there.
    Manifest(BTreeMap<u32, Vec<u8>>),
    Chunks {
        layout: Layout,
        /// Chunks that are stored, from 1.
        have: Ranges,
        /// Those that were handed on.
        storing: Ranges,
    },
}

/// Blocks that differ in how they are cut are different ones: one that was made up does not stand in the way of the true one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct BlockKey {
    block: Block,
    len: u32,
    symbol_len: usize,
}

/// Whether it was heard of lately, what of it is there, and when it was heard: less goes first.
type Worth = (bool, u64, Instant);

#[derive(Debug)]
struct Decoding {
    decoder: Decoder,
    heard: Instant,
}

impl Wants {
    fn memory(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Manifest(pieces) => pieces.values().map(Vec::len).sum(),
            Self::Chunks { layout, .. } => layout.memory(),
        }
    }
}

impl Hearing {
    fn memory(&self) -> usize {
        OBJECT + self.wants.memory() + self.blocks.values().map(|block| block.decoder.memory()).sum::<usize>()
    }

    /// Whether a symbol of this block is of any use; before the manifest is there, chunks are held too.
    fn wants(&self, piece: &Piece) -> bool {
        match (&self.wants, piece.block) {
            (Wants::Nothing, _) | (Wants::Chunks { .. }, Block::Manifest(_)) => false,
            (Wants::Manifest(pieces), Block::Manifest(number)) => !pieces.contains_key(&number),
            (Wants::Manifest(_), Block::Chunks(_)) => true,
            (Wants::Chunks { layout, have, storing }, Block::Chunks(number)) => {
                let parts = layout.parts(number);
                let is_in = |ranges: &Ranges| ranges.covers(parts.start, parts.end);
                layout.len_of(number) == piece.len as usize && !is_in(have) && !is_in(storing)
            }
        }
    }
}

/// Hears a cast. Hand in one datagram or answer, then drain [`CastReceiver::poll_action`].
#[derive(Debug)]
pub struct CastReceiver {
    store: StoreId,
    room: usize,
    opener: Opener,
    objects: BTreeMap<ObjectId, Hearing>,
    /// Nothing is wanted of these; the latest at the end.
    done: BTreeMap<ObjectId, ()>,
    order: VecDeque<ObjectId>,
    held: usize,
    actions: VecDeque<HeardAction>,
    stats: ReceiverStats,
}

impl CastReceiver {
    /// Nothing was heard yet.
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            store: config.store,
            room: config.room.max(LEAST_ROOM),
            opener: Opener::new(config.key),
            objects: BTreeMap::new(),
            done: BTreeMap::new(),
            order: VecDeque::new(),
            held: 0,
            actions: VecDeque::new(),
            stats: ReceiverStats::default(),
        }
    }

    /// A datagram came. Who sent it, if it is one of the cast that was not here before.
    ///
    /// # Errors
    /// [`Refused`]: it is counted, and nothing else.
    pub fn handle_datagram(&mut self, now: Instant, datagram: &[u8]) -> Result<StoreId, Refused> {
        let (sender, mut pieces) = self.opener.open(datagram).inspect_err(|refused| match refused {
            Refused::Foreign => self.stats.foreign += 1,
            Refused::Key => self.stats.wrong_key += 1,
            Refused::Replayed => self.stats.replayed += 1,
        })?;
        self.stats.datagrams += 1;
        if sender != self.store {
            while !pieces.is_empty() {
                match Piece::take(&mut pieces) {
                    Some(piece) => self.on_piece(now, piece),
                    None => {
                        self.stats.malformed += 1;
                        break;
                    }
                }
            }
        }
        Ok(sender)
    }

    fn on_piece(&mut self, now: Instant, piece: Piece) {
        let object = piece.object;
        if self.done.contains_key(&object) {
            self.stats.unneeded += 1;
            return;
        }
        if !self.objects.contains_key(&object) && !self.make_room_for_object(now) {
            self.stats.no_room += 1;
            return;
        }
        let hearing = self.objects.entry(object).or_insert_with(|| {
            self.held += OBJECT;
            // Until the store has answered, what comes is held as if its manifest were wanted.
            let wants = Wants::Manifest(BTreeMap::new());
            Hearing { heard: now, asked: false, not_before: Some(now), wants, blocks: BTreeMap::new() }
        });
        hearing.heard = now;
        if !hearing.asked && hearing.not_before.is_some_and(|at| at <= now) {
            hearing.asked = true;
            hearing.not_before = None;
            self.actions.push_back(HeardAction::Offered(object));
        }
        if !hearing.wants(&piece) {
            self.stats.unneeded += 1;
            return;
        }
        let key = BlockKey { block: piece.block, len: piece.len, symbol_len: piece.symbol.len() };
        let needed = match hearing.blocks.get(&key) {
            Some(block) => block.decoder.memory_of_symbol(),
            None => Decoder::least_memory(piece.block_len(), key.symbol_len),
        };
        if !self.make_room(now, needed, (object, key)) {
            self.stats.no_room += 1;
            return;
        }
        self.put(now, &piece, key);
    }

    fn put(&mut self, now: Instant, piece: &Piece, key: BlockKey) {
        let Some(hearing) = self.objects.get_mut(&piece.object) else { return };
        let mut grown = 0;
        let block = hearing.blocks.entry(key).or_insert_with(|| {
            let decoder = Decoder::new(piece.block_len(), key.symbol_len);
            grown += decoder.memory();
            Decoding { decoder, heard: now }
        });
        block.heard = now;
        let before = block.decoder.memory();
        let brought = block.decoder.handle(piece.id, &piece.symbol);
        self.held += grown + block.decoder.memory() - before;
        match brought {
            Brought::Nothing => self.stats.unneeded += 1,
            Brought::More => self.stats.symbols += 1,
            Brought::Hopeless => {
                self.stats.wrong += 1;
                self.forget_block(piece.object, key);
            }
            Brought::Whole(bytes) => {
                self.stats.symbols += 1;
                self.stats.blocks += 1;
                self.on_whole(piece.object, key, bytes);
            }
        }
        self.stats.held = self.held as u64;
    }

    /// A block is whole.
    fn on_whole(&mut self, object: ObjectId, key: BlockKey, bytes: Vec<u8>) {
        let Some(hearing) = self.objects.get_mut(&object) else { return };
        match (&mut hearing.wants, key.block) {
            (Wants::Manifest(_), Block::Chunks(_)) => {
                // It waits for the manifest.
                let Some(block) = hearing.blocks.get_mut(&key) else { return };
                self.held -= block.decoder.memory();
                block.decoder.keep(bytes);
                self.held += block.decoder.memory();
                return;
            }
            (Wants::Manifest(pieces), Block::Manifest(number)) => {
                self.held += bytes.len();
                pieces.insert(number, bytes);
                if pieces.values().map(Vec::len).sum::<usize>() >= key.len as usize {
                    let manifest: Bytes = std::mem::take(pieces).into_values().flatten().collect::<Vec<u8>>().into();
                    self.held -= manifest.len();
                    if Hash::of(&manifest) == object.0 && manifest.len() <= Manifest::MAX_LEN {
                        hearing.asked = true;
                        self.actions.push_back(HeardAction::Judge(object, manifest));
                    } else {
                        self.stats.wrong += 1;
                    }
                }
            }
            (Wants::Chunks { layout, have, storing }, Block::Chunks(number)) => {
                for part in layout.parts(number).filter(|part| !have.contains(*part)) {
                    if let Some(chunk) = bytes.get(layout.place(number, part)) {
                        storing.insert(part, part + 1);
                        self.actions.push_back(HeardAction::Store(object, part, Bytes::copy_from_slice(chunk)));
                    }
                }
            }
            _ => {}
        }
        self.forget_block(object, key);
    }

    /// What becomes of an object. Chunks and manifests that are wanted are collected as they are heard.
    pub fn answer(&mut self, now: Instant, object: ObjectId, answer: Answer) {
        let Some(hearing) = self.objects.get_mut(&object) else { return };
        hearing.asked = false;
        self.held -= hearing.memory();
        match answer {
            Answer::Manifest => {
                if !matches!(hearing.wants, Wants::Manifest(_)) {
                    hearing.wants = Wants::Manifest(BTreeMap::new());
                }
            }
            Answer::Chunks { lens, have } => {
                let layout = Layout::new(lens);
                hearing.blocks.retain(|key, _| match key.block {
                    Block::Manifest(_) => false,
                    Block::Chunks(number) => layout.len_of(number) == key.len as usize,
                });
                hearing.wants = Wants::Chunks { layout, have, storing: Ranges::default() };
            }
            Answer::NotNow => {
                hearing.wants = Wants::Nothing;
                hearing.blocks.clear();
                hearing.not_before = Some(now + ASK_AGAIN);
            }
            Answer::Custody | Answer::Refuse => {
                let was_taken = answer == Answer::Custody && matches!(hearing.wants, Wants::Chunks { .. });
                self.objects.remove(&object);
                return self.finish(object, was_taken);
            }
        }
        self.held += hearing.memory();
        self.shrink(now, object);
        self.solve(object);
        self.complete(object);
        self.stats.held = self.held as u64;
    }

    /// Blocks of chunks that were whole before the manifest was there.
    fn solve(&mut self, object: ObjectId) {
        let Some(hearing) = self.objects.get_mut(&object) else { return };
        if !matches!(hearing.wants, Wants::Chunks { .. }) {
            return;
        }
        let blocks = hearing.blocks.iter();
        let whole: Vec<_> = blocks.filter(|(_, block)| block.decoder.whole().is_some()).map(|(key, _)| *key).collect();
        for key in whole {
            let block = self.objects.get(&object).and_then(|hearing| hearing.blocks.get(&key));
            if let Some(bytes) = block.and_then(|block| block.decoder.whole()) {
                self.on_whole(object, key, bytes.to_vec());
            }
        }
    }

    fn complete(&mut self, object: ObjectId) {
        let Some(hearing) = self.objects.get_mut(&object).filter(|hearing| !hearing.asked) else { return };
        if let Wants::Chunks { layout, have, .. } = &hearing.wants
            && have.covers(1, layout.chunks() + 1)
        {
            hearing.asked = true;
            self.actions.push_back(HeardAction::Complete(object));
        }
    }

    fn finish(&mut self, object: ObjectId, was_taken: bool) {
        self.stats.objects += u64::from(was_taken);
        self.stats.held = self.held as u64;
        if self.done.insert(object, ()).is_none() {
            self.order.push_back(object);
        }
        if self.order.len() > MAX_DONE
            && let Some(oldest) = self.order.pop_front()
        {
            self.done.remove(&oldest);
        }
    }

    /// A chunk was verified and stored, or is not what it should be: then its block is begun again.
    pub fn on_stored(&mut self, object: ObjectId, part: u64, good: bool) {
        let Some(hearing) = self.objects.get_mut(&object) else { return };
        let Wants::Chunks { have, storing, .. } = &mut hearing.wants else { return };
        storing.remove(part, part.saturating_add(1));
        match good {
            true => drop(have.insert(part, part.saturating_add(1))),
            false => self.stats.wrong += 1,
        }
        self.complete(object);
    }

    /// What was stored last may be lost: the store is asked of each object again.
    pub fn on_lost(&mut self) {
        self.objects.clear();
        self.actions.clear();
        self.held = 0;
        self.stats.held = 0;
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<HeardAction> {
        self.actions.pop_front()
    }

    /// Counters.
    pub fn stats(&self) -> ReceiverStats {
        self.stats
    }

    /// Objects of which something is heard, and how many they are.
    pub fn hearing(&self) -> impl ExactSizeIterator<Item = ObjectId> {
        self.objects.keys().copied()
    }

    fn forget_block(&mut self, object: ObjectId, key: BlockKey) {
        let removed = self.objects.get_mut(&object).and_then(|hearing| hearing.blocks.remove(&key));
        self.held -= removed.map_or(0, |block| block.decoder.memory());
    }

    fn forget_object(&mut self, object: ObjectId) {
        if let Some(hearing) = self.objects.remove(&object) {
            self.held -= hearing.memory();
            self.stats.dropped += hearing.blocks.len() as u64;
        }
    }

    /// Another object: where there are too many, the one that was heard longest ago goes.
    fn make_room_for_object(&mut self, now: Instant) -> bool {
        if self.objects.len() >= MAX_OBJECTS {
            let oldest = self.objects.iter().min_by_key(|(_, hearing)| hearing.heard).map(|(object, _)| *object);
            oldest.into_iter().for_each(|object| self.forget_object(object));
        }
        self.held + OBJECT <= self.room || self.give_up(now, None)
    }

    /// Makes room for a symbol of a block. First blocks go that were not heard of for long, then those of which the least is there: on the
    /// next round of the carousel those that were nearly whole are finished, and make room. A block that is itself the least gets none.
    fn make_room(&mut self, now: Instant, needed: usize, of: (ObjectId, BlockKey)) -> bool {
        while self.held + needed > self.room {
            if !self.give_up(now, Some(of)) {
                return false;
            }
        }
        true
    }

    /// Gives a block up, but not for one of which less is there.
    fn give_up(&mut self, now: Instant, for_one: Option<(ObjectId, BlockKey)>) -> bool {
        let Some((worth, victim)) = self.least(now) else { return self.give_up_object(for_one.map(|(keep, _)| keep)) };
        let wanted = for_one.map(|(object, key)| {
            let block = self.objects.get(&object).and_then(|hearing| hearing.blocks.get(&key));
            block.map_or(0, |block| block.decoder.progress())
        });
        if worth.0 && wanted.unwrap_or_default() <= worth.1 {
            return false;
        }
        self.forget_block(victim.0, victim.1);
        self.stats.dropped += 1;
        true
    }

    /// The block that goes first, and what it is worth.
    fn least(&self, now: Instant) -> Option<(Worth, (ObjectId, BlockKey))> {
        let all = self.objects.iter().flat_map(|(object, hearing)| {
            hearing.blocks.iter().map(|(key, block)| {
                let is_fresh = now.saturating_duration_since(block.heard) < STALE;
                let progress = if is_fresh { block.decoder.progress() } else { 0 };
                ((is_fresh, progress, block.heard), (*object, *key))
            })
        });
        all.min()
    }

    /// A list of chunks came that takes more than there is: blocks go, and then other objects.
    fn shrink(&mut self, now: Instant, keep: ObjectId) {
        while self.held > self.room {
            if let Some((_, (object, key))) = self.least(now) {
                self.forget_block(object, key);
                self.stats.dropped += 1;
            } else if !self.give_up_object(Some(keep)) {
                return;
            }
        }
    }

    /// Without blocks, what is left is objects: long lists of chunks, and pieces of manifests.
    fn give_up_object(&mut self, keep: Option<ObjectId>) -> bool {
        let others = self.objects.iter().filter(|(object, _)| Some(**object) != keep);
        let Some(oldest) = others.min_by_key(|(_, hearing)| hearing.heard).map(|(object, _)| *object) else {
            return false;
        };
        self.forget_object(oldest);
        true
    }
}
