//! Two stores in memory, over a channel that loses, delays and overtakes, and contacts that end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::identity::Identity;

const MAX: usize = 1_400;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Bytes that look like nothing, of any length.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

/// What is on a disk.
#[derive(Debug, Clone, Default)]
struct Disk {
    manifests: BTreeMap<ObjectId, Bytes>,
    chunks: BTreeMap<Hash, Bytes>,
    custody: BTreeSet<ObjectId>,
    /// How often each chunk came that was there.
    again: usize,
}

/// A store with its hop.
#[derive(Debug)]
struct Depot {
    hop: Hop,
    disk: Disk,
    offered: BTreeMap<Handle, ObjectId>,
    taking: BTreeMap<Handle, ObjectId>,
    given: BTreeSet<ObjectId>,
    refused: usize,
    receipts: Vec<Bytes>,
    /// Of objects whose number is divisible by it, nothing is wanted.
    refuse: Option<u64>,
    room: bool,
}

impl Depot {
    fn new(store: u8, life: u64, disk: Disk) -> Self {
        let hop = Hop::new(HopConfig { store: StoreId([store; 8]), life });
        let (offered, taking, given) = Default::default();
        Self { hop, disk, offered, taking, given, refused: 0, receipts: vec![], refuse: None, room: true }
    }

    /// Takes in a file, cut into chunks of this length.
    fn put(&mut self, number: u64, content: &[u8], chunk: usize, priority: u8) -> ObjectId {
        let pieces = content.chunks(chunk);
        let chunks = pieces.map(|piece| {
            self.disk.chunks.insert(Hash::of(piece), Bytes::copy_from_slice(piece));
            Chunk { hash: Hash::of(piece), len: piece.len() as u32, compressed: 0 }
        });
        let identity = Identity::from_seed([7; 32]);
        let manifest = Manifest {
            kind: Kind::File,
            source: StoreId([1; 8]),
            key: identity.public(),
            number,
            priority,
            created_s: 1,
            deadline_s: 0,
            expires_s: 0,
            destination: String::new(),
            path: format!("file {number}"),
            modified_ns: 0,
            hash: Hash::of(content),
            chunks: chunks.collect(),
        };
        let bytes = manifest.sign(&identity).unwrap();
        let object = ObjectId(Hash::of(&bytes));
        self.disk.manifests.insert(object, bytes);
        self.disk.custody.insert(object);
        object
    }

    fn offer_all(&mut self) {
        let all: Vec<_> = self.disk.custody.iter().copied().collect();
        for object in all {
            if self.given.contains(&object) || self.offered.values().any(|other| *other == object) {
                continue;
            }
            let bytes = &self.disk.manifests[&object];
            let manifest = Manifest::parse(bytes).unwrap();
            let offer = Offer {
                object,
                manifest_len: bytes.len() as u32,
                wire_len: manifest.chunks.iter().map(|chunk| u64::from(chunk.wire_len())).sum(),
                priority: manifest.priority,
                deadline_s: 0,
            };
            if let Some(handle) = self.hop.offer(offer, manifest.chunks.len() as u64) {
                self.offered.insert(handle, object);
            }
        }
    }

    fn answer_by_manifest(&mut self, handle: Handle, object: ObjectId) {
        let manifest = Manifest::parse(&self.disk.manifests[&object]).unwrap();
        let is_there = |(_, chunk): &(u64, &Chunk)| self.disk.chunks.contains_key(&chunk.hash);
        let mut have = Ranges::default();
        for (part, _) in (1..).zip(&manifest.chunks).filter(is_there) {
            have.insert(part, part + 1);
        }
        let lens = manifest.chunks.iter().map(Chunk::wire_len).collect();
        self.hop.answer(handle, Answer::Chunks { lens, have });
    }

    /// A chunk is there: other objects that need it need not wait for it.
    fn tell_others(&mut self, now: Instant, handle: Handle, hash: Hash) {
        for (other, object) in self.taking.iter().filter(|(other, _)| **other != handle) {
            let Some(manifest) = self.disk.manifests.get(object) else { continue };
            let manifest = Manifest::parse(manifest).unwrap();
            for (part, _) in (1..).zip(&manifest.chunks).filter(|(_, chunk)| chunk.hash == hash) {
                self.hop.on_there(now, *other, part);
            }
        }
    }

    fn settle(&mut self, now: Instant) {
        while let Some(action) = self.hop.poll_action() {
            match action {
                Action::Met { .. } => self.taking.clear(),
                Action::Load { handle, part } => {
                    let object = self.offered[&handle];
                    let manifest = &self.disk.manifests[&object];
                    let bytes = match part {
                        0 => manifest.clone(),
                        part => {
                            let chunk = Manifest::parse(manifest).unwrap().chunks[part as usize - 1];
                            self.disk.chunks[&chunk.hash].clone()
                        }
                    };
                    self.hop.on_loaded(handle, part, Some(bytes));
                }
                Action::Given(handle) => {
                    let object = self.offered.remove(&handle).unwrap();
                    assert!(self.given.insert(object), "given twice");
                }
                Action::Refused(handle) => {
                    let object = self.offered.remove(&handle).unwrap();
                    self.given.insert(object);
                    self.refused += 1;
                }
                Action::Offered { handle, offer } => {
                    self.taking.insert(handle, offer.object);
                    if self.disk.custody.contains(&offer.object) {
                        self.hop.answer(handle, Answer::Custody);
                    } else if !self.room {
                        self.hop.answer(handle, Answer::NotNow);
                    } else if self.disk.manifests.contains_key(&offer.object) {
                        self.answer_by_manifest(handle, offer.object);
                    } else {
                        self.hop.answer(handle, Answer::Manifest);
                    }
                }
                Action::Judge { handle, manifest } => {
                    let object = self.taking[&handle];
                    let number = Manifest::parse(&manifest).unwrap().number;
                    if self.refuse.is_some_and(|refuse| number.is_multiple_of(refuse)) {
                        self.hop.answer(handle, Answer::Refuse);
                        continue;
                    }
                    self.disk.manifests.insert(object, manifest);
                    self.answer_by_manifest(handle, object);
                }
                Action::Store { handle, part, bytes } => {
                    let manifest = Manifest::parse(&self.disk.manifests[&self.taking[&handle]]).unwrap();
                    let good = Hash::of(&bytes) == manifest.chunks[part as usize - 1].hash;
                    if good {
                        let hash = Hash::of(&bytes);
                        self.disk.again += usize::from(self.disk.chunks.insert(hash, bytes).is_some());
                        self.tell_others(now, handle, hash);
                    }
                    self.hop.on_stored(now, handle, part, good);
                }
                Action::Complete(handle) => {
                    assert!(self.disk.custody.insert(self.taking[&handle]), "complete twice");
                    self.hop.answer(handle, Answer::Custody);
                }
                Action::Withdrawn(handle) => drop(self.taking.remove(&handle)),
                Action::Receipt(bytes) => self.receipts.push(bytes),
            }
        }
    }
}

/// A parcel under way, and whose fate will be told how.
#[derive(Debug)]
struct Parcel {
    at: Instant,
    from: usize,
    token: u64,
    bytes: Bytes,
    lost: bool,
}

/// Both, and what is between them.
#[derive(Debug)]
struct World {
    now: Instant,
    depots: [Depot; 2],
    under_way: Vec<Parcel>,
    fates: VecDeque<(Instant, usize, u64, bool)>,
    random: u64,
    loss: f64,
    in_contact: bool,
}

impl World {
    fn new(seed: u64, loss: f64) -> Self {
        let depots = [Depot::new(1, 100, Disk::default()), Depot::new(2, 200, Disk::default())];
        let (under_way, fates) = Default::default();
        let random = seed << 1 | 1;
        Self { now: Instant::now(), depots, under_way, fates, random, loss, in_contact: false }
    }

    fn chance(&mut self, share: f64) -> bool {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.random >> 33) as f64) < share * f64::from(1u32 << 31)
    }

    /// A millisecond, in which each side may send this many parcels.
    fn step(&mut self, parcels: usize) {
        self.now += ms(1);
        let now = self.now;
        for side in 0..2 {
            self.depots[side].offer_all();
            self.depots[side].settle(now);
            for _ in 0..parcels {
                let polled = self.depots[side].hop.poll_parcel(now, MAX);
                self.depots[side].settle(now);
                let Some((token, bytes)) = polled else { break };
                assert!(bytes.len() <= MAX);
                let lost = self.chance(self.loss) || !self.in_contact;
                let at = now + ms(if self.chance(0.1) { 15 } else { 5 });
                self.under_way.push(Parcel { at, from: side, token, bytes, lost });
            }
        }
        let (due, rest) = std::mem::take(&mut self.under_way).into_iter().partition(|parcel| parcel.at <= now);
        self.under_way = rest;
        let due: Vec<Parcel> = due;
        for Parcel { from, token, bytes, lost, .. } in due {
            let lost = lost || !self.in_contact;
            if !lost {
                self.depots[1 - from].hop.handle_parcel(now, bytes);
                self.depots[1 - from].settle(now);
            }
            // Now and then a parcel that came is taken for lost.
            let received = !lost && !self.chance(0.02);
            self.fates.push_back((now + ms(8), from, token, received));
        }
        while self.fates.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, from, token, received) = self.fates.pop_front().unwrap();
            self.depots[from].hop.on_fate(now, token, received);
            self.depots[from].settle(now);
        }
    }

    fn meet(&mut self, contact: bool) {
        self.in_contact = contact;
        let now = self.now;
        for depot in &mut self.depots {
            if contact {
                depot.hop.on_contact(now)
            } else {
                depot.hop.on_contact_lost()
            }
            depot.settle(now);
        }
    }

    /// A side's process dies and starts anew with what was on its disk.
    fn kill(&mut self, side: usize, life: u64) {
        let depot = &self.depots[side];
        let given = depot.given.clone();
        let mut new = Depot::new(side as u8 + 1, life, depot.disk.clone());
        (new.given, new.refuse, new.room) = (given, depot.refuse, depot.room);
        self.depots[side] = new;
        self.under_way.retain(|parcel| parcel.from != side);
        self.fates.retain(|(_, from, ..)| *from != side);
        if self.in_contact {
            // Both sides' sessions tell of a new connection.
            self.meet(true);
        }
    }

    fn run_until_given(&mut self, objects: usize, most: usize) -> usize {
        for n in 0..most {
            if self.depots[0].given.len() == objects {
                return n;
            }
            self.step(4);
        }
        panic!("{} of {objects} given; {:?}", self.depots[0].given.len(), self.depots[0].hop.stats());
    }
}

#[test]
fn objects_cross_a_bad_link_whole_and_nothing_verified_comes_twice() {
    let mut world = World::new(1, 0.4);
    let mut objects = Vec::new();
    for n in 1..=20 {
        objects.push(world.depots[0].put(n, &noise(n, 10_000 * n as usize), 30_000, 3));
    }
    objects.push(world.depots[0].put(21, b"", 1, 3));
    world.meet(true);
    world.run_until_given(21, 20_000);
    let [giver, taker] = &world.depots;
    assert_eq!(taker.disk.custody, objects.iter().copied().collect());
    for (hash, bytes) in &giver.disk.chunks {
        assert_eq!(taker.disk.chunks.get(hash), Some(bytes));
    }
    assert_eq!(taker.disk.again, 0);
    let (sent, taken) = (giver.hop.stats(), taker.hop.stats());
    // Beside what was lost, only what seemed to be.
    let total: u64 = giver.disk.chunks.values().chain(giver.disk.manifests.values()).map(|b| b.len() as u64).sum();
    assert_eq!(taken.bytes_taken, total);
    assert!(taken.bytes_again + taken.unwanted * MAX as u64 <= total / 25, "{taken:?}");
    assert!(sent.bytes_sent <= (total as f64 / 0.6 * 1.08) as u64, "{sent:?} of {total}");
    assert_eq!((taken.malformed, taken.no_room, taken.wrong), (0, 0, 0));
}

#[test]
fn what_stands_in_the_radios_queue_from_one_contact_to_the_next_is_not_sent_again() {
    let mut world = World::new(5, 0.0);
    world.depots[0].put(1, &noise(1, 3_000_000), 100_000, 3);
    world.meet(true);
    (0..700).for_each(|_| world.step(1));
    // The other side has gone, which nobody has noticed yet.
    let mut queue = VecDeque::new();
    for _ in 0..130 {
        world.now += ms(1);
        let now = world.now;
        let (token, bytes) = world.depots[0].hop.poll_parcel(now, MAX).unwrap();
        world.depots[0].settle(now);
        queue.push_back((token, bytes));
    }
    world.meet(false);
    let now = world.now;
    for (token, _) in &queue {
        world.depots[0].hop.on_fate(now, *token, false);
    }
    world.now += ms(30_000);
    let before = world.depots[1].hop.stats().bytes_again;
    world.meet(true);
    while let Some((_, bytes)) = queue.pop_front() {
        let now = world.now;
        world.depots[1].hop.handle_parcel(now, bytes);
        world.depots[1].settle(now);
        world.step(1);
    }
    world.run_until_given(1, 5_000);
    let again = world.depots[1].hop.stats().bytes_again - before;
    // A fiftieth of what comes is taken for lost, as always here.
    assert!(again < 3_000_000 / 50 + 20_000, "{again}");
}

#[test]
fn two_versions_in_one_contact_send_what_they_share_once() {
    let mut world = World::new(3, 0.1);
    let mut content = noise(6, 2_000_000);
    let first = world.depots[0].put(1, &content, 20_000, 2);
    content[1_000_000..1_020_000].copy_from_slice(&noise(7, 20_000));
    let second = world.depots[0].put(2, &content, 20_000, 3);
    world.meet(true);
    world.run_until_given(2, 20_000);
    let [giver, taker] = &world.depots;
    assert_eq!(taker.disk.custody, [first, second].into());
    let sent = giver.hop.stats().bytes_sent - giver.hop.stats().bytes_lost;
    // What came last is told of after 50 ms and the way back, at 5.6 MB/s.
    assert!(sent < 2_020_000 + 400_000, "{sent} bytes for 2.02 MB, {} chunks twice", taker.disk.again);
    assert!(taker.hop.assembling() == 0, "{} bytes of parts that came otherwise", taker.hop.assembling());
}

#[test]
fn what_was_rewritten_sends_what_changed() {
    let mut world = World::new(2, 0.1);
    let content = noise(5, 1_000_000);
    world.depots[0].put(1, &content, 10_000, 3);
    world.meet(true);
    world.run_until_given(1, 20_000);
    let before = world.depots[0].hop.stats().bytes_sent;
    let mut content = content;
    content[500_000..510_000].copy_from_slice(&noise(6, 10_000));
    world.depots[0].put(2, &content, 10_000, 3);
    world.run_until_given(2, 20_000);
    let sent = world.depots[0].hop.stats().bytes_sent - before;
    // A chunk of a hundred, and the manifest.
    assert!((10_000..20_000).contains(&sent), "{sent}");
}

#[test]
fn what_is_urgent_goes_first_also_when_it_comes_later() {
    let mut world = World::new(3, 0.1);
    world.depots[0].put(1, &noise(1, 2_000_000), 60_000, 5);
    world.meet(true);
    (0..200).for_each(|_| world.step(2));
    let urgent = world.depots[0].put(2, &noise(2, 50_000), 60_000, 0);
    let mut steps = 0;
    while !world.depots[1].disk.custody.contains(&urgent) {
        world.step(2);
        steps += 1;
        assert!(steps < 400, "it has to wait");
    }
    assert_eq!(world.depots[1].disk.custody.len(), 1);
    world.run_until_given(2, 20_000);
}

#[test]
fn refusals_full_disks_and_receipts_are_told() {
    let mut world = World::new(4, 0.3);
    world.depots[1].refuse = Some(3);
    world.depots[1].room = false;
    for n in 1..=9 {
        world.depots[0].put(n, &noise(n, 5_000), 2_000, 3);
    }
    let receipt = Bytes::from_static(b"some receipt");
    world.depots[1].hop.set_receipts([receipt.clone()]);
    world.meet(true);
    (0..500).for_each(|_| world.step(4));
    assert_eq!((world.depots[0].given.len(), world.depots[0].hop.stats().bytes_sent), (0, 0));
    assert_eq!(world.depots[0].receipts.first(), Some(&receipt));
    // There is room again.
    world.depots[1].room = true;
    let waiting: Vec<_> = world.depots[1].taking.keys().copied().collect();
    waiting.into_iter().for_each(|handle| world.depots[1].hop.answer(handle, Answer::Manifest));
    world.run_until_given(9, 20_000);
    assert_eq!((world.depots[0].refused, world.depots[1].disk.custody.len()), (3, 6));
    let told = world.depots[0].receipts.len();
    (0..500).for_each(|_| world.step(4));
    assert_eq!(world.depots[0].receipts.len(), told, "a receipt that arrived is not told again");
    // One that takes its place is, whatever becomes of parcels with the former.
    let newer = Bytes::from_static(b"a newer one");
    world.depots[1].hop.set_receipts([newer.clone(), receipt]);
    (0..500).for_each(|_| world.step(4));
    assert!(world.depots[0].receipts[told..].iter().all(|other| *other == newer));
    assert_eq!(world.depots[0].receipts.last(), Some(&newer));
}

#[test]
fn what_was_withdrawn_is_forgotten_and_what_found_no_room_is_offered_again() {
    let mut world = World::new(7, 0.3);
    world.depots[1].room = false;
    for n in 1..=60 {
        world.depots[0].put(n, &noise(n, 500), 2_000, 3);
    }
    world.meet(true);
    (0..300).for_each(|_| world.step(4));
    assert_eq!(world.depots[1].taking.len(), 60);
    // Others have filled the rest of the table, so that what is put on offer now is not heard of.
    for n in 0..200 {
        let object = ObjectId(Hash::of(b"x"));
        let offer = Offer { object, manifest_len: 9, wire_len: 9, priority: 0, deadline_s: 0 };
        let mut parcel = Vec::new();
        Frame::Offer(1_000 + n, offer).put(&mut parcel);
        world.depots[1].hop.handle_parcel(world.now, parcel.into());
    }
    let late = world.depots[0].put(61, &noise(61, 500), 2_000, 3);
    (0..300).for_each(|_| world.step(4));
    assert!(!world.depots[1].taking.values().any(|object| *object == late), "there is no room");
    // All but the late one are withdrawn, which the taker hears although much is lost.
    let others = world.depots[0].offered.clone().into_iter().filter(|(_, object)| *object != late);
    for (handle, object) in others {
        world.depots[0].hop.withdraw(handle);
        world.depots[0].offered.remove(&handle);
        world.depots[0].disk.custody.remove(&object);
    }
    (0..100).for_each(|_| world.step(4));
    assert!(world.depots[1].taking.keys().all(|handle| *handle >= 1_000), "what was withdrawn is forgotten");
    world.depots[1].room = true;
    world.meet(true);
    world.run_until_given(1, 5_000);
    assert!(world.depots[1].disk.custody.contains(&late));
}

#[test]
fn what_left_last_and_is_not_heard_of_is_repeated_now_and_then() {
    let start = Instant::now();
    let [mut giver, mut taker] = [1, 2].map(|store| Depot::new(store, 1, Disk::default()));
    giver.put(1, &noise(1, 3_000), 60_000, 3);
    giver.offer_all();
    let mut now = start;
    giver.hop.on_contact(now);
    taker.hop.on_contact(now);
    // All but data arrives at once, and its fate is known after 20 ms.
    let mut data = Vec::new();
    for _ in 0..100 {
        now += ms(20);
        for side in 0..2 {
            let (from, to) = if side == 0 { (&mut giver, &mut taker) } else { (&mut taker, &mut giver) };
            let sent = from.hop.stats().bytes_sent;
            while let Some((token, parcel)) = from.hop.poll_parcel(now, MAX) {
                if from.hop.stats().bytes_sent > sent && from.disk.manifests.len() == to.disk.manifests.len() {
                    data.push((now, token));
                    continue;
                }
                to.hop.handle_parcel(now, parcel);
                from.hop.on_fate(now + ms(20), token, true);
                from.settle(now);
                to.settle(now);
            }
            from.settle(now);
        }
    }
    // Three parcels, which are repeated after some 50 ms, after 100 more, and so on.
    let sent: Vec<_> = data.iter().map(|(at, _)| (*at - data[0].0).as_millis()).collect();
    assert_eq!(sent[..9], [0, 0, 0, 60, 60, 60, 160, 160, 160]);
    assert_eq!(sent.len(), 18, "{sent:?}");
    // That it is heard of late does no harm.
    data.iter().for_each(|(_, token)| giver.hop.on_fate(now, *token, false));
    assert!(giver.hop.poll_parcel(now, MAX).is_some());
}

#[test]
fn what_the_contact_can_still_finish_goes_first() {
    for forecast in [Some(100_000), None] {
        let mut world = World::new(8, 0.0);
        let large = world.depots[0].put(1, &noise(1, 900_000), 60_000, 3);
        world.depots[0].offer_all();
        let small = world.depots[0].put(2, &noise(2, 30_000), 60_000, 3);
        world.depots[0].hop.set_forecast(forecast);
        world.meet(true);
        while world.depots[1].disk.custody.is_empty() {
            world.step(2);
        }
        // Who knows of no end sends in the order in which they came.
        let first = if forecast.is_some() { small } else { large };
        assert!(world.depots[1].disk.custody.contains(&first), "{forecast:?}");
    }
}

#[test]
fn more_objects_than_are_offered_at_a_time_all_get_their_turn() {
    let mut world = World::new(5, 0.2);
    for n in 1..=300 {
        world.depots[0].put(n, &noise(n, 700), 2_000, 3);
    }
    world.meet(true);
    world.run_until_given(300, 20_000);
    assert_eq!(world.depots[1].disk.custody.len(), 300);
}

#[test]
fn a_taker_that_lies_and_a_giver_that_sends_rubbish_do_no_harm() {
    let mut world = World::new(6, 0.0);
    world.depots[0].put(1, &noise(1, 300_000), 60_000, 3);
    world.meet(true);
    (0..60).for_each(|_| world.step(2));
    let now = world.now;
    let mut lies = Vec::new();
    for handle in [0, 1, 2, u64::MAX >> 2] {
        lies.push(Frame::State(handle, 5, Want::NotNow));
        lies.push(Frame::State(handle, 6, Want::Chunks));
        lies.push(Frame::Chunks(handle, (0, u64::MAX >> 2), Ranges::of(2, 4)));
        lies.push(Frame::Part(handle, 1, Ranges::of(0, u64::MAX >> 2)));
        lies.push(Frame::Data(handle, 1, u64::MAX >> 2, Bytes::from_static(b"far")));
        lies.push(Frame::Data(handle, u64::MAX >> 2, 0, Bytes::from_static(b"far")));
        lies.push(Frame::Data(handle, 0, 0, Bytes::from_static(b"again")));
        lies.push(Frame::Resumed);
    }
    for lie in &lies {
        let mut parcel = Vec::new();
        Frame::To(100).put(&mut parcel);
        lie.put(&mut parcel);
        world.depots.iter_mut().for_each(|depot| depot.hop.handle_parcel(now, parcel.clone().into()));
    }
    let offers: Vec<u8> = (0..10_000u64)
        .flat_map(|n| {
            let mut out = Vec::new();
            let object = ObjectId(Hash::of(&n.to_be_bytes()));
            Frame::Offer(1_000 + n, Offer { object, manifest_len: 8 << 20, wire_len: 1, priority: 0, deadline_s: 0 })
                .put(&mut out);
            out
        })
        .collect();
    world.depots[1].hop.handle_parcel(now, offers.into());
    world.depots[1].settle(now);
    for handle in 0..10_000u64 {
        let mut parcel = Vec::new();
        Frame::Data(1_000 + handle, 0, 0, Bytes::from_static(b"m")).put(&mut parcel);
        world.depots[1].hop.handle_parcel(now, parcel.into());
    }
    assert!(world.depots[1].hop.assembling() <= 16 << 20);
    (0..100).for_each(|_| world.step(2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_ends_and_begins_again_all_arrives_and_no_chunk_twice(
        seed in 0..1_000u64,
        loss in 0.0..0.7f64,
        sizes in prop::collection::vec(0..80_000usize, 1..12),
        breaks in prop::collection::vec((20..600usize, 0..5u8), 0..10),
    ) {
        let mut world = World::new(seed, loss);
        for (n, size) in (1..).zip(&sizes) {
            world.depots[0].put(n, &noise(n, *size), 8_000, (n % 3) as u8);
        }
        world.meet(true);
        for (n, (after, what)) in breaks.iter().enumerate() {
            (0..*after).for_each(|_| world.step(2));
            match what {
                0 | 1 => {
                    world.meet(false);
                    (0..100).for_each(|_| world.step(2));
                    world.meet(true);
                }
                2 => world.kill(0, 1_000 + n as u64),
                3 => world.kill(1, 1_000 + n as u64),
                _ => world.meet(true),
            }
        }
        world.run_until_given(sizes.len(), 60_000);
        prop_assert_eq!(world.depots[1].disk.custody.len(), sizes.len());
        prop_assert_eq!(&world.depots[1].disk.custody, &world.depots[0].disk.custody);
        prop_assert_eq!(world.depots[1].disk.again, 0);
        for (hash, bytes) in &world.depots[0].disk.chunks {
            prop_assert_eq!(world.depots[1].disk.chunks.get(hash), Some(bytes));
        }
    }

    #[test]
    fn any_parcels_leave_it_whole(parcels in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..60)) {
        let mut depot = Depot::new(1, 1, Disk::default());
        let now = Instant::now();
        depot.hop.on_contact(now);
        depot.room = false;
        let mut hello = Vec::new();
        Frame::Hello { life: 1, store: StoreId([9; 8]) }.put(&mut hello);
        depot.hop.handle_parcel(now, hello.into());
        for parcel in parcels {
            depot.hop.handle_parcel(now, parcel.into());
            while let Some(action) = depot.hop.poll_action() {
                if let Action::Offered { handle, .. } = action {
                    depot.hop.answer(handle, Answer::Manifest);
                }
            }
            while depot.hop.poll_parcel(now, MAX).is_some() {}
        }
        prop_assert!(depot.hop.assembling() <= 16 << 20);
    }
}
