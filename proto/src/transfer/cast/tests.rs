//! Objects over one-way links in virtual time: what gets through at which loss, and what does not get in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::*;
use crate::Bitrate;
use crate::identity::Identity;
use crate::transfer::{Answer, Chunk, Hash, Kind, Manifest, ObjectId, Ranges, StoreId};

const SHIP: StoreId = StoreId(*b"the ship");
const LISTENER: StoreId = StoreId(*b"listener");
const RATE: Bitrate = Bitrate(2_000_000);

fn key(of: u8) -> CastKey {
    CastKey::new([of; 32])
}

/// An object of a store that is in memory.
struct Object {
    manifest: Bytes,
    chunks: Vec<Bytes>,
}

/// Objects of these lengths, each in chunks of 64 kB, by name; the first is number 1.
fn objects(lens: &[usize]) -> Vec<(ObjectId, Object)> {
    let identity = Identity::from_seed([7; 32]);
    let each = lens.iter().zip(1..).map(|(len, number)| {
        let mut content = vec![0; *len];
        ChaCha8Rng::seed_from_u64(number).fill_bytes(&mut content);
        let chunks: Vec<_> = content.chunks(64_000).map(Bytes::copy_from_slice).collect();
        let of = |chunk: &Bytes| Chunk { hash: Hash::of(chunk), len: chunk.len() as u32, compressed: 0 };
        let manifest = Manifest {
            kind: Kind::File,
            source: SHIP,
            key: identity.public(),
            number,
            priority: 3,
            created_s: 1_790_000_000,
            deadline_s: 0,
            expires_s: 0,
            destination: String::new(),
            path: format!("file {number}"),
            modified_ns: 0,
            hash: Hash::of(&content),
            chunks: chunks.iter().map(of).collect(),
        };
        let manifest = manifest.sign(&identity).unwrap();
        (ObjectId(Hash::of(&manifest)), Object { manifest, chunks })
    });
    each.collect()
}

struct Ship {
    sender: CastSender,
    objects: BTreeMap<ObjectId, Object>,
    now: Instant,
    sent: Vec<(ObjectId, u32)>,
}

fn config(overhead: f64, rounds: u32) -> SenderConfig {
    SenderConfig {
        key: key(1),
        store: SHIP,
        run: [1, 2, 3, 4],
        counter: 1_000,
        rate: RATE,
        datagram: 1472,
        overhead,
        rounds,
    }
}

fn named(object: ObjectId, of: &Object, priority: u8) -> CastObject {
    CastObject { object, manifest_len: of.manifest.len() as u32, priority, deadline_s: 0, rounds: 0 }
}

impl Ship {
    fn new(config: SenderConfig, objects: Vec<(ObjectId, Object)>) -> Self {
        let mut sender = CastSender::new(config);
        sender.set_objects(objects.iter().map(|(object, of)| named(*object, of, 3)));
        Self { sender, objects: objects.into_iter().collect(), now: Instant::now(), sent: Vec::new() }
    }

    /// The next datagram; `None` when all rounds are done.
    fn next(&mut self) -> Option<Vec<u8>> {
        for _ in 0..10_000 {
            while let Some(action) = self.sender.poll_action() {
                match action {
                    CastAction::Load(object, part) => {
                        let of = &self.objects[&object];
                        let bytes = if part == 0 { &of.manifest } else { &of.chunks[part as usize - 1] };
                        self.sender.on_loaded(object, part, Some(bytes.clone()));
                    }
                    CastAction::Round(object, round) => self.sent.push((object, round)),
                }
            }
            if let Some(datagram) = self.sender.poll_datagram(self.now) {
                return Some(datagram);
            }
            self.now = self.sender.next_deadline().filter(|at| *at > self.now).unwrap_or(self.now);
            if self.sender.stats().objects == 0 {
                return None;
            }
        }
        panic!("a carousel that stands still");
    }
}

/// A store that listens.
struct Listener {
    receiver: CastReceiver,
    manifests: BTreeMap<ObjectId, Manifest>,
    stored: BTreeMap<ObjectId, BTreeMap<u64, Bytes>>,
    whole: BTreeSet<ObjectId>,
    now: Instant,
}

impl Listener {
    fn new(of: u8) -> Self {
        let receiver = CastReceiver::new(ReceiverConfig { key: key(of), store: LISTENER, room: 64 << 20 });
        let now = Instant::now();
        Self { receiver, manifests: BTreeMap::new(), stored: BTreeMap::new(), whole: BTreeSet::new(), now }
    }

    fn verdict(&self, object: ObjectId) -> Answer {
        let Some(manifest) = self.manifests.get(&object) else { return Answer::Manifest };
        if self.whole.contains(&object) {
            return Answer::Custody;
        }
        let mut have = Ranges::default();
        for part in self.stored.get(&object).into_iter().flatten() {
            have.insert(*part.0, part.0 + 1);
        }
        Answer::Chunks { lens: manifest.chunks.iter().map(Chunk::wire_len).collect(), have }
    }

    fn hear(&mut self, datagram: &[u8]) -> Result<StoreId, Refused> {
        let result = self.receiver.handle_datagram(self.now, datagram);
        while let Some(action) = self.receiver.poll_action() {
            match action {
                HeardAction::Offered(object) => {
                    let answer = self.verdict(object);
                    self.receiver.answer(self.now, object, answer);
                }
                HeardAction::Judge(object, bytes) => {
                    assert_eq!(Hash::of(&bytes), object.0);
                    let answer = match Manifest::parse(&bytes) {
                        Ok(manifest) => {
                            self.manifests.insert(object, manifest);
                            self.verdict(object)
                        }
                        Err(_) => Answer::Refuse,
                    };
                    self.receiver.answer(self.now, object, answer);
                }
                HeardAction::Store(object, part, bytes) => {
                    let good = Hash::of(&bytes) == self.manifests[&object].chunks[part as usize - 1].hash;
                    if good {
                        self.stored.entry(object).or_default().insert(part, bytes);
                    }
                    self.receiver.on_stored(object, part, good);
                }
                HeardAction::Complete(object) => {
                    self.whole.insert(object);
                    self.receiver.answer(self.now, object, Answer::Custody);
                }
            }
        }
        let stats = self.receiver.stats();
        assert!(stats.held <= 64 << 20, "{stats:?}");
        result
    }

    fn assert_same(&self, ship: &Ship) {
        for (object, of) in &ship.objects {
            assert!(self.whole.contains(object), "{:?}", self.receiver.stats());
            let stored: Vec<_> =
                self.stored.get(object).map(|parts| parts.values().cloned().collect()).unwrap_or_default();
            assert_eq!(of.chunks, stored);
        }
        assert_eq!(self.receiver.stats().held, 0, "nothing is left in memory");
    }
}

#[test]
fn without_losses_everything_arrives_in_one_round_and_nothing_is_sent_twice() {
    let mut ship = Ship::new(config(0.0, 1), objects(&[2_500_000, 0, 1, 64_000, 500]));
    let mut listener = Listener::new(1);
    while let Some(datagram) = ship.next() {
        assert!(datagram.len() <= 1472);
        listener.hear(&datagram).unwrap();
    }
    listener.assert_same(&ship);
    assert_eq!(ship.sent.len(), 5);
    let (sent, heard) = (ship.sender.stats(), listener.receiver.stats());
    assert_eq!((sent.datagrams, sent.rounds, sent.objects), (heard.datagrams, 5, 0));
    assert_eq!((heard.wrong, heard.dropped, heard.no_room, heard.malformed), (0, 0, 0, 0));
    // One symbol more than needed of each block.
    assert!(sent.symbols <= heard.symbols + 2 * 8, "{sent:?} {heard:?}");
}

#[test]
fn datagrams_leave_at_the_rate_that_was_said() {
    let mut ship = Ship::new(config(0.3, 1), objects(&[1_000_000]));
    let (began, mut bits) = (ship.now, 0);
    while let Some(datagram) = ship.next() {
        bits += (datagram.len() + 28) * 8;
    }
    let rate = bits as f64 / (ship.now - began).as_secs_f64();
    assert!((0.99..1.02).contains(&(rate / RATE.0 as f64)), "{rate}");
}

#[test]
fn a_caller_that_was_late_catches_up_with_little() {
    let mut ship = Ship::new(config(0.3, 1), objects(&[1_000_000]));
    ship.next().unwrap();
    ship.now += Duration::from_secs(10);
    let burst = std::iter::from_fn(|| ship.sender.poll_datagram(ship.now)).take(100).count();
    assert!(burst <= 3, "{burst} datagrams at once");
}

#[test]
fn what_is_urgent_overtakes_at_the_next_datagram() {
    let mut all = objects(&[3_000_000, 50_000]);
    let urgent = all.pop().unwrap();
    let mut ship = Ship::new(config(0.3, 1), all);
    (0..100).for_each(|_| drop(ship.next()));
    let slow = ship.objects.iter().map(|(object, of)| named(*object, of, 3)).next().unwrap();
    ship.sender.set_objects([slow, named(urgent.0, &urgent.1, 0)]);
    ship.objects.insert(urgent.0, urgent.1);
    let mut listener = Listener::new(1);
    let mut datagrams = 0;
    while !listener.whole.contains(&urgent.0) {
        listener.hear(&ship.next().unwrap()).unwrap();
        datagrams += 1;
    }
    // 37 symbols, and the manifest.
    assert!(datagrams < 45, "{datagrams}");
}

#[test]
fn later_rounds_bring_symbols_that_were_never_sent() {
    let mut ship = Ship::new(config(0.1, 4), objects(&[600_000]));
    let mut opener = Opener::new(key(1));
    let mut seen = BTreeSet::new();
    while let Some(datagram) = ship.next() {
        let (_, mut pieces) = opener.open(&datagram).unwrap();
        while let Some(piece) = Piece::take(&mut pieces) {
            assert!(seen.insert((piece.block, piece.id)), "{piece:?} twice");
        }
    }
    assert_eq!(ship.sent.iter().map(|(_, round)| *round).collect::<Vec<_>>(), [1, 2, 3, 4]);
    // One that was off for three rounds needs the fourth, at 60 % loss four of them.
    let mut again = Ship::new(config(0.1, 4), objects(&[600_000]));
    let mut late = Listener::new(1);
    let mut random = ChaCha8Rng::seed_from_u64(5);
    while let Some(datagram) = again.next() {
        if random.next_u32() % 10 >= 6 {
            late.hear(&datagram).unwrap();
        }
    }
    late.assert_same(&again);
}

#[test]
fn forged_changed_cut_and_replayed_datagrams_are_counted_and_nothing_else() {
    let mut ship = Ship::new(config(0.0, 1), objects(&[20_000]));
    let datagrams: Vec<_> = std::iter::from_fn(|| ship.next()).collect();
    let mut listener = Listener::new(1);
    let mut deaf = Listener::new(2);
    for datagram in &datagrams {
        assert_eq!(deaf.hear(datagram), Err(Refused::Key));
        for at in [0, 4, 12, 16, 24, datagram.len() - 1] {
            let mut changed = datagram.clone();
            changed[at] ^= 1;
            assert!(listener.hear(&changed).is_err(), "a change at {at}");
        }
        assert!(listener.hear(&datagram[..datagram.len() - 1]).is_err());
        assert_eq!(listener.hear(&datagram[..30]), Err(Refused::Foreign));
        assert_eq!(listener.hear(datagram), Ok(SHIP));
        assert_eq!(listener.hear(datagram), Err(Refused::Replayed));
    }
    listener.assert_same(&ship);
    let stats = listener.receiver.stats();
    let of = datagrams.len() as u64;
    assert_eq!((stats.datagrams, stats.replayed), (of, of));
    assert_eq!((stats.foreign, stats.wrong_key), (2 * of, 6 * of));
    assert_eq!(deaf.receiver.stats().wrong_key, of);
    assert_eq!(deaf.receiver.hearing().len(), 0);
}

#[test]
fn members_that_send_nonsense_hold_nothing_up_for_good_and_fill_no_memory() {
    let mut ship = Ship::new(config(0.5, 3), objects(&[300_000]));
    let object = *ship.objects.keys().next().unwrap();
    let mut sealer = Sealer::new(&key(1), StoreId(*b"a member"), [9; 4], 1);
    let mut listener = Listener::new(1);
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let mut number = 0u32;
    while let Some(datagram) = ship.next() {
        listener.hear(&datagram).unwrap();
        let mut pieces = Vec::new();
        number += 1;
        let mut symbol = vec![0; 1];
        // Blocks of as many symbols as there may be, objects that there are not, and now and then a wrong symbol of the true object.
        let (of, len, block) = match number % 40 {
            0 => {
                symbol = vec![0; 1364];
                random.fill_bytes(&mut symbol);
                (object, 300_000, Block::Chunks(0))
            }
            1..20 => (ObjectId(Hash::of(&number.to_be_bytes())), 4_096, Block::Chunks(number)),
            _ => (ObjectId(Hash::of(&[7])), 4_096, Block::Chunks(number)),
        };
        Piece { object: of, block, len, id: random.next_u32() >> 8, symbol: symbol.into() }.put(&mut pieces);
        listener.hear(&sealer.seal(&pieces).unwrap()).unwrap();
    }
    let stats = listener.receiver.stats();
    assert!(listener.whole.contains(&object), "{stats:?}");
    assert!(stats.held <= 64 << 20 && stats.no_room > 0, "{stats:?}");
}

#[test]
fn the_room_is_never_exceeded_and_the_carousel_comes_round() {
    // 8 MB of blocks that one round does not finish, in 4 MiB.
    let mut ship = Ship::new(config(0.0, 30), objects(&[1_000_000; 8]));
    let mut listener = Listener::new(1);
    listener.receiver = CastReceiver::new(ReceiverConfig { key: key(1), store: LISTENER, room: 4 << 20 });
    let mut random = ChaCha8Rng::seed_from_u64(8);
    let mut most = 0;
    while let Some(datagram) = ship.next() {
        listener.now = ship.now;
        if random.next_u32() % 100 >= 15 {
            listener.hear(&datagram).unwrap();
            most = most.max(listener.receiver.stats().held);
        }
        if listener.whole.len() == 8 {
            break;
        }
    }
    listener.assert_same(&ship);
    assert!((3 << 20..=4 << 20).contains(&most), "{most}");
}

#[test]
fn a_poisoned_block_is_begun_again() {
    let mut ship = Ship::new(config(0.2, 2), objects(&[60_000]));
    let object = *ship.objects.keys().next().unwrap();
    let mut sealer = Sealer::new(&key(1), StoreId(*b"a member"), [9; 4], 1);
    let mut listener = Listener::new(1);
    let mut pieces = Vec::new();
    let first = ship.next().unwrap();
    listener.hear(&first).unwrap();
    // What a symbol of the block looks like.
    let mut symbol_len = 0;
    let mut opener = Opener::new(key(1));
    for _ in 0..5 {
        let datagram = ship.next().unwrap();
        let mut bytes = opener.open(&datagram).unwrap().1;
        while let Some(piece) = Piece::take(&mut bytes) {
            symbol_len = piece.symbol.len().max(symbol_len);
        }
        listener.hear(&datagram).unwrap();
    }
    let symbol = vec![0xee; symbol_len].into();
    Piece { object, block: Block::Chunks(0), len: 60_000, id: 9_999, symbol }.put(&mut pieces);
    listener.hear(&sealer.seal(&pieces).unwrap()).unwrap();
    while let Some(datagram) = ship.next() {
        listener.hear(&datagram).unwrap();
    }
    listener.assert_same(&ship);
    assert_eq!(listener.receiver.stats().wrong, 1);
}

#[test]
fn a_restarted_receiver_goes_on_with_the_chunks_that_it_has() {
    let mut ship = Ship::new(config(0.1, 2), objects(&[2_500_000]));
    let mut listener = Listener::new(1);
    while listener.stored.is_empty() {
        listener.hear(&ship.next().unwrap()).unwrap();
    }
    assert!(listener.whole.is_empty());
    listener.receiver = CastReceiver::new(ReceiverConfig { key: key(1), store: LISTENER, room: 64 << 20 });
    while let Some(datagram) = ship.next() {
        listener.hear(&datagram).unwrap();
    }
    listener.assert_same(&ship);
    assert!(listener.receiver.stats().unneeded > 0);
}

#[test]
fn the_same_objects_make_the_same_datagrams() {
    let all = || {
        let mut ship = Ship::new(config(0.3, 2), objects(&[900_000, 10_000, 200_000]));
        std::iter::from_fn(|| ship.next()).collect::<Vec<_>>()
    };
    assert_eq!(all(), all());
}

#[test]
fn a_shared_key_is_written_as_it_is_read_and_shown_to_nobody() {
    let text = key(0xa5).to_text();
    assert_eq!(text.parse(), Ok(key(0xa5)));
    assert_eq!(format!(" {text}\n").parse(), Ok(key(0xa5)));
    assert!(!format!("{:?}", key(0xa5)).contains("a5a5"));
    for wrong in ["", "aqs1:", "aqs1:00", &text[..68], &text.replace("a5", "g5"), &format!("{text}0")] {
        assert_eq!(wrong.parse::<CastKey>(), Err(CastKeyError), "{wrong}");
    }
}

#[test]
fn chunks_are_grouped_as_the_format_says() {
    let layout = Layout::new([262_144; 9]);
    assert_eq!((layout.blocks(), layout.chunks()), (3, 9));
    assert_eq!((layout.parts(0), layout.parts(2), layout.parts(3)), (1..5, 9..10, 0..0));
    assert_eq!((layout.len_of(0), layout.len_of(2), layout.len_of(3)), (MAX_BLOCK, 262_144, 0));
    assert_eq!((layout.place(0, 2), layout.place(2, 9), layout.place(0, 9)), (262_144..524_288, 0..262_144, 0..0));
    assert_eq!(Layout::new([]).blocks(), 0);
    assert_eq!(Block::of_manifest(1, MAX_BLOCK + 5), Some(5));
    assert_eq!(Block::of_manifest(1, MAX_BLOCK), None);
}

/// What plain repetition needs and what coding does, in parts of what a link would carry that knew what is lost: printed by
/// `cargo test -p aquila-proto cast::tests::coded -- --nocapture`.
#[test]
fn coded_casts_need_little_more_than_was_lost_and_much_less_than_repetition() {
    println!(
        "| {OBJECTS} x 1 MB | receivers | coded: sent of the limit | repeated: sent of the limit |\n|---|---|---|---|"
    );
    for (name, loss, burst, most) in [
        ("10 %", 0.1, 1.0, 1.2),
        ("20 %", 0.2, 1.0, 1.2),
        ("40 %", 0.4, 1.0, 1.25),
        ("20 % in bursts of 50", 0.2, 50.0, 2.8),
    ] {
        for receivers in [1, 3] {
            let (coded, plain) = (coded(loss, burst, receivers), repeated(loss, burst, receivers));
            println!("| {name} | {receivers} | {coded:.2} | {plain:.2} |");
            assert!(coded < most && 1.5 * coded < plain, "{name}, {receivers}: {coded} coded, {plain} repeated");
        }
    }
}

/// Of 1 MB each.
const OBJECTS: usize = 20;

/// Two states: in the bad one everything is lost, and it lasts `burst` datagrams on average.
struct Loss {
    random: ChaCha8Rng,
    loss: f64,
    burst: f64,
    is_bad: bool,
}

impl Loss {
    fn new(loss: f64, burst: f64, seed: u64) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(seed), loss, burst, is_bad: false }
    }

    fn is_lost(&mut self) -> bool {
        let chance = f64::from(self.random.next_u32()) / f64::from(u32::MAX);
        if self.burst <= 1.0 {
            return chance < self.loss;
        }
        let turn = if self.is_bad { 1.0 / self.burst } else { self.loss / (1.0 - self.loss) / self.burst };
        self.is_bad ^= chance < turn;
        self.is_bad
    }
}

/// Bytes on the wire until all have all, of those that a link needs which repeats exactly what was lost: content over `1 - loss`, in datagrams
/// that are content but for the headers of UDP and IPv4.
fn coded(loss: f64, burst: f64, receivers: u64) -> f64 {
    // Bursts take more of one block than of another.
    let overhead = (1.0 / (1.0 - loss) - 1.0) * if burst > 1.0 { 1.8 } else { 1.1 };
    let mut ship = Ship::new(config(overhead, 10), objects(&[1_000_000; OBJECTS]));
    let mut all: Vec<_> = (0..receivers).map(|seed| (Loss::new(loss, burst, seed), Listener::new(1))).collect();
    while let Some(datagram) = ship.next() {
        for (losses, listener) in &mut all {
            if !losses.is_lost() {
                listener.hear(&datagram).unwrap();
            }
        }
        if all.iter().all(|(_, listener)| listener.whole.len() == OBJECTS) {
            break;
        }
    }
    all.iter().for_each(|(_, listener)| listener.assert_same(&ship));
    let sent = ship.sender.stats();
    (sent.bytes + 28 * sent.datagrams) as f64 / (OBJECTS as f64 * 1e6 * 1500.0 / 1472.0 / (1.0 - loss))
}

/// The same without a code: as much in datagrams with as much content as ours, sent in their order again and again.
fn repeated(loss: f64, burst: f64, receivers: u64) -> f64 {
    let count = (OBJECTS * 1_000_000).div_ceil(1386);
    let mut all: Vec<_> =
        (0..receivers).map(|seed| (Loss::new(loss, burst, seed), vec![false; count], count)).collect();
    let mut sent = 0u64;
    for at in (0..count).cycle() {
        sent += 1;
        for (losses, there, missing) in &mut all {
            if !losses.is_lost() && !std::mem::replace(&mut there[at], true) {
                *missing -= 1;
            }
        }
        if all.iter().all(|(.., missing)| *missing == 0) {
            break;
        }
    }
    (sent * 1500) as f64 / (OBJECTS as f64 * 1e6 * 1500.0 / 1472.0 / (1.0 - loss))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Whatever is lost of each block, as long as enough is left.
    #[test]
    fn any_losses_below_the_overhead_leave_enough(
        lens in prop::collection::vec(0usize..150_000, 1..4),
        datagram in 512usize..=1472,
        seed in any::<u64>(),
    ) {
        let settings = SenderConfig { datagram, ..config(0.5, 1) };
        let mut ship = Ship::new(settings, objects(&lens));
        let mut opener = Opener::new(key(1));
        let mut listener = Listener::new(1);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut lost: BTreeMap<(ObjectId, Block), u32> = BTreeMap::new();
        while let Some(datagram) = ship.next() {
            let mut pieces = opener.open(&datagram).unwrap().1;
            let mut blocks = Vec::new();
            while let Some(piece) = Piece::take(&mut pieces) {
                let symbols = piece.block_len().div_ceil(piece.symbol.len()) as u32;
                // All but two more than needed.
                blocks.push(((piece.object, piece.block), (symbols_of_a_round(symbols, 0.5) - symbols).saturating_sub(2)));
            }
            let can_lose = blocks.iter().all(|(block, most)| lost.get(block).copied().unwrap_or(0) < *most);
            if can_lose && random.next_u32() % 3 < 2 {
                blocks.iter().for_each(|(block, _)| *lost.entry(*block).or_default() += 1);
            } else {
                listener.hear(&datagram).unwrap();
            }
        }
        listener.assert_same(&ship);
    }

    #[test]
    fn anything_that_has_the_key_is_read_or_dropped(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..20),
    ) {
        let mut sealer = Sealer::new(&key(1), SHIP, [0; 4], 7);
        let mut listener = Listener::new(1);
        for bytes in pieces {
            prop_assert_eq!(listener.hear(&sealer.seal(&bytes).unwrap()), Ok(SHIP));
        }
    }

    #[test]
    fn pieces_are_read_as_they_are_written(
        number in 0u32..1000, len in 1u32..=MAX_BLOCK as u32, id in 0u32..1 << 24, symbol in 300usize..1472,
    ) {
        let symbol = Bytes::from(vec![3; symbol.min(len as usize)]);
        let piece = Piece { object: ObjectId(Hash([5; 32])), block: Block::Chunks(number), len, id, symbol };
        let mut bytes = Vec::new();
        piece.put(&mut bytes);
        let mut read = Bytes::from(bytes.clone());
        prop_assert_eq!(Piece::take(&mut read), Some(piece));
        prop_assert!(read.is_empty());
        for at in 0..bytes.len() {
            prop_assert_eq!(Piece::take(&mut Bytes::copy_from_slice(&bytes[..at])), None);
        }
    }
}
