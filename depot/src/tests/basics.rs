use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use aquila_proto::transfer::Kind;

use super::kills::sound;
use super::*;
use crate::{DepotError, Filter, Source, View};

#[test]
fn a_file_goes_from_ship_to_shore_and_the_receipt_comes_back() {
    let temp = Temp::new();
    let (mut ship, mut plane, mut shore) = (open(&temp, SHIP), open(&temp, PLANE), open(&temp, SHORE));
    let content = [noise(1, 700_000), log(1, 900_000)].concat();
    let file = temp.file("files/ctd/cast.cnv", &content);
    let then = SystemTime::UNIX_EPOCH + Duration::new(1_600_000_000, 7_000);
    fs::File::options().write(true).open(&file).unwrap().set_modified(then).unwrap();
    let put = ship.put(&file, "ctd/cast.cnv", &PutOptions::default()).unwrap();
    assert!(put.is_new && put.number == 1 && put.size == content.len() as u64);
    assert!(ship.candidates(&key(PLANE), 9, |_| false).unwrap().is_empty(), "nothing is given before it is promised");
    assert_eq!(ship.commit().unwrap().queued, [put.object]);
    assert_eq!(state_of(&ship, &put.object), Some(State::Queued));

    let carried = meet(&mut ship, &mut plane);
    assert_eq!(carried.objects, [put.object]);
    assert_eq!(state_of(&plane, &put.object), Some(State::Custody));
    assert_eq!(state_of(&ship, &put.object), Some(State::Custody));
    assert_eq!(meet(&mut ship, &mut plane), Carried::default());
    assert_eq!(meet(&mut plane, &mut ship), Carried::default(), "not to whom it comes from");

    assert_eq!(meet(&mut plane, &mut shore).objects, [put.object]);
    assert!(!temp.join("ashore/ctd/cast.cnv").exists());
    let delivered = shore.deliver(10).unwrap();
    assert_eq!(delivered.len(), 1);
    assert_eq!(delivered[0].files, ["ctd/cast.cnv"]);
    let there = temp.join("ashore/ctd/cast.cnv");
    assert!(fs::read(&there).unwrap() == content);
    assert_eq!(fs::metadata(&there).unwrap().modified().unwrap(), then);
    assert_eq!(state_of(&shore, &put.object), Some(State::Released));
    assert!(shore.deliver(10).unwrap().is_empty());

    assert_eq!(meet(&mut plane, &mut shore), Carried::default());
    assert_eq!(state_of(&plane, &put.object), Some(State::Released));
    assert_eq!(meet(&mut ship, &mut plane), Carried::default());
    assert_eq!(state_of(&ship, &put.object), Some(State::Released));
    assert!(file.exists(), "files that were put by name are never deleted");
    let view = View::open(&temp.join("store-2")).unwrap();
    let rows: Vec<_> = view.list(Filter { is_ours: Some(true), ..Filter::default() }).map(Result::unwrap).collect();
    assert_eq!((rows.len(), rows[0].path.as_str(), rows[0].size), (1, "ctd/cast.cnv", content.len() as u64));
    assert_eq!(view.summary().unwrap().len(), 1);
    assert_eq!(view.store_id().unwrap(), ship.store_id());
    assert_eq!(temp.join("store-2").metadata().unwrap().mode() & 0o777, 0o700);
}

#[test]
fn what_is_all_there_is_verified_and_in_custody_when_it_is_synced() {
    let temp = Temp::new();
    let (mut ship, mut plane) = (open(&temp, SHIP), open(&temp, PLANE));
    let put = ship.put(&temp.file("a", &noise(1, 500_000)), "a", &PutOptions::default()).unwrap();
    ship.commit().unwrap();
    let candidate = ship.candidates(&key(PLANE), 1, |_| false).unwrap().remove(0);
    plane.on_offer(&key(SHIP), &candidate.offer()).unwrap();
    let manifest = ship.load(&put.object, 0).unwrap();
    plane.on_manifest(&key(SHIP), &put.object, &manifest).unwrap();
    assert!(candidate.chunks > 1);
    for part in 1..=candidate.chunks {
        plane.flush().unwrap();
        assert_eq!(state(&plane), State::Partial, "without part {part}");
        let bytes = ship.load(&put.object, part).unwrap();
        plane.store(&put.object, part, &bytes).unwrap();
    }
    plane.flush().unwrap();
    assert_eq!(state(&plane), State::Verified);
    let in_state = |state| plane.list(Filter { state: Some(state), is_ours: None }).count();
    assert_eq!((in_state(State::Verified), in_state(State::Partial)), (1, 0));
    plane.commit().unwrap();
    assert_eq!(state(&plane), State::Custody);
}

/// The state of the only object, as a list and a summary have it.
fn state(depot: &Depot) -> State {
    let [total] = depot.summary().unwrap()[..] else { panic!("one state") };
    let row = depot.list(Filter::default()).next().unwrap().unwrap();
    assert_eq!((row.state, total.objects), (total.state, 1));
    row.state
}

#[test]
fn a_rewritten_log_sends_what_changed() {
    let temp = Temp::new();
    let (mut ship, mut plane) = (open(&temp, SHIP), open(&temp, PLANE));
    let mut content = noise(3, 20 << 20);
    let first = put(&temp, &mut ship, "log", &content);
    let carried = meet(&mut ship, &mut plane);
    assert!(carried.bytes > 20 << 20);
    // A hundredth is another, in one place; and a line is put in elsewhere.
    content.splice(7 << 20..(7 << 20) + 200_000, noise(4, 200_100));
    let second = put(&temp, &mut ship, "log", &content);
    assert_ne!(first, second);
    let carried = meet(&mut ship, &mut plane);
    assert_eq!(carried.objects, [second]);
    assert!(carried.bytes < content.len() as u64 * 3 / 100, "{} of {}", carried.bytes, content.len());
    assert!(on_disk(&temp.join("store-2")) < 21 << 20);
    // The same once more is nothing new.
    let same = ship.put(&temp.join("files/log"), "log", &PutOptions::default()).unwrap();
    assert_eq!((same.object, same.is_new), (second, false));
    assert_eq!(ship.commit().unwrap(), Default::default());
    // Under another name it is, but all of its chunks are there.
    let file = temp.join("files/log");
    assert!(ship.put(&file, "copy", &PutOptions::default()).unwrap().is_new);
    ship.commit().unwrap();
    assert!(meet(&mut ship, &mut plane).bytes < 40_000);
}

#[test]
fn what_two_objects_share_is_told_to_be_there_for_both() {
    let temp = Temp::new();
    let (mut ship, mut plane) = (open(&temp, SHIP), open(&temp, PLANE));
    let mut content = noise(5, 2 << 20);
    let first = put(&temp, &mut ship, "log", &content);
    content.extend(noise(6, 300_000));
    let second = put(&temp, &mut ship, "log", &content);
    let mut wanted = BTreeMap::new();
    for object in [first, second] {
        let manifest = ship.load(&object, 0).unwrap();
        let verdict = plane.on_manifest(&ship.key(), &object, &manifest).unwrap();
        let Verdict::WantChunks { lens, have } = verdict else { panic!("{verdict:?}") };
        assert_eq!(have.count(), 0);
        wanted.insert(object, (1..=lens.len() as u64).collect::<BTreeSet<_>>());
    }
    let shared = wanted[&first].len();
    for object in [first, second] {
        while let Some(part) = wanted.get_mut(&object).unwrap().pop_first() {
            let stored = plane.store(&object, part, &ship.load(&object, part).unwrap()).unwrap();
            assert!(stored.good && !stored.was_there, "came twice");
            for (other, part) in stored.also {
                assert!(other != object && wanted.get_mut(&other).unwrap().remove(&part));
            }
        }
        assert!(plane.is_complete(&object).unwrap());
    }
    assert!(shared > 20);
    assert_eq!(plane.commit().unwrap().custody.len(), 2);
}

#[test]
fn small_files_are_packed_and_unpacked() {
    let temp = Temp::new();
    let (mut ship, mut plane, mut shore) = (open(&temp, SHIP), open(&temp, PLANE), open(&temp, SHORE));
    let source = |n: usize| {
        let path = format!("casts/{n:03}.cnv");
        Source { file: temp.file(&format!("files/{path}"), &log(n as u64, n * 97)), path }
    };
    let files: Vec<_> = (0..300).map(source).collect();
    let put = ship.put_many(&files, &PutOptions::default());
    ship.commit().unwrap();
    let mut objects: Vec<_> = put.into_iter().map(|put| put.unwrap().object).collect();
    objects.sort();
    objects.dedup();
    assert_eq!(
        objects.len(),
        files.iter().map(|file| fs::metadata(&file.file).unwrap().len()).sum::<u64>() as usize / (1 << 20) + 1
    );
    assert!(ship.put_many(&files, &PutOptions::default()).into_iter().all(|put| !put.unwrap().is_new));
    assert_eq!(meet(&mut ship, &mut plane).objects.len(), objects.len());
    assert_eq!(meet(&mut plane, &mut shore).objects.len(), objects.len());
    shore.deliver(100).unwrap();
    assert_eq!(tree(&temp.join("ashore")), tree(&temp.join("files")));
    // One of them changes, and goes alone.
    fs::write(&files[7].file, b"changed").unwrap();
    ship.put(&files[7].file, &files[7].path, &PutOptions::default()).unwrap();
    ship.commit().unwrap();
    meet(&mut ship, &mut plane);
    meet(&mut plane, &mut shore);
    shore.deliver(100).unwrap();
    assert_eq!(tree(&temp.join("ashore")), tree(&temp.join("files")));
}

#[test]
fn files_of_a_pack_that_are_written_together_get_names_of_their_own() {
    let temp = Temp::new();
    let (mut ship, mut shore) = (open(&temp, SHIP), open(&temp, SHORE));
    temp.file("ashore/x", b"somebody else's");
    let id: String = ship.store_id().0[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    // More than are synced at once, and one that is called what another becomes.
    let names = ["x".to_owned(), format!("x~{id}")].into_iter().chain((0..300).map(|n| format!("d{}/{n}", n % 3)));
    let names: Vec<_> = names.collect();
    let source =
        |name: &String| Source { path: name.clone(), file: temp.file(&format!("files/{name}"), name.as_bytes()) };
    let sources: Vec<_> = names.iter().map(source).collect();
    ship.put_many(&sources, &PutOptions::default()).into_iter().for_each(|put| assert!(put.is_ok()));
    ship.commit().unwrap();
    meet(&mut ship, &mut shore);
    let delivered: usize = shore.deliver(9).unwrap().iter().map(|object| object.files.len()).sum();
    assert_eq!(delivered, names.len());
    let read = |path: &str| fs::read_to_string(temp.join("ashore").join(path)).unwrap();
    assert_eq!(read("x"), "somebody else's");
    assert_eq!((read(&format!("x~{id}")), read(&format!("x~{id}~{id}"))), ("x".into(), format!("x~{id}")));
    names[2..].iter().for_each(|name| assert_eq!(read(name), *name));
    assert_eq!(fs::read_dir(temp.join("ashore")).unwrap().count(), 3 + 3, "nothing of another name is left");
}

#[test]
fn without_a_folder_files_wait_to_be_handed_over() {
    let temp = Temp::new();
    let mut ship = open(&temp, SHIP);
    let mut config = config(SHORE);
    config.shore = Some(Shore { folder: None, name: "shore".into() });
    let mut shore = Depot::open(temp.join("shore"), config).unwrap();
    let content = log(1, 900_000);
    let put = ship.put(&temp.file("long.log", &content), "long.log", &PutOptions::default()).unwrap();
    let small: Vec<_> = (0..3).map(|n| temp.file(&format!("small/{n}"), &noise(n, 100))).collect();
    let small: Vec<_> = small.into_iter().map(|file| Source { path: "small".into(), file }).collect();
    let packs = ship.put_many(&small[..1], &PutOptions::default());
    let packed = packs[0].as_ref().unwrap().object;
    ship.commit().unwrap();
    meet(&mut ship, &mut shore);
    assert_eq!(shore.deliver(9).unwrap(), []);
    let waiting = shore.outgoing(8, |_, _| false).unwrap();
    assert_eq!(waiting[0], (put.object, Kind::File));
    assert_eq!(waiting[1].0, packed);
    assert_eq!(shore.outgoing(8, |object, _| *object == packed).unwrap(), [(put.object, Kind::File)]);
    shore.check(&put.object).unwrap();
    let chunks = shore.list(Filter::default()).map(|row| row.unwrap()).find(|row| row.object == put.object).unwrap();
    let parts = (1..=chunks.chunks).flat_map(|part| shore.content(&put.object, part).unwrap());
    assert!(parts.eq(content));
    shore.handed_over(&put.object).unwrap();
    shore.useless(&packed, "for a test").unwrap();
    assert!(shore.outgoing(8, |_, _| false).unwrap().is_empty());
    meet(&mut ship, &mut shore);
    assert_eq!(state_of(&ship, &put.object), Some(State::Released));
    assert_eq!(state_of(&shore, &packed), Some(State::Refused));
}

#[test]
fn bundles_come_out_as_they_went_in() {
    let temp = Temp::new();
    let (mut ship, mut shore) = (open(&temp, SHIP), open(&temp, SHORE));
    for len in [0, 1, 900_000] {
        let bundle = noise(len, len as usize);
        let put = ship.put_bundle(&bundle, &PutOptions::default()).unwrap();
        ship.commit().unwrap();
        assert_eq!(meet(&mut ship, &mut shore).objects, [put.object]);
        assert!(shore.deliver(9).unwrap().is_empty());
        assert_eq!(shore.outgoing(8, |_, _| false).unwrap(), [(put.object, Kind::Bundle)]);
        assert!(shore.whole(&put.object).unwrap() == bundle);
        assert_eq!(state_of(&shore, &put.object), Some(State::Custody));
        shore.handed_over(&put.object).unwrap();
        assert!(shore.handed_over(&put.object).is_err());
        assert!(shore.outgoing(8, |_, _| false).unwrap().is_empty());
        meet(&mut ship, &mut shore);
        assert_eq!(state_of(&ship, &put.object), Some(State::Released));
    }
    let long = vec![0; crate::MAX_BUNDLE + 1];
    assert!(ship.put_bundle(&long, &PutOptions::default()).is_err());
}

#[test]
fn the_most_urgent_go_first_and_nobody_gets_anything_twice() {
    let temp = Temp::new();
    let mut ship = open(&temp, SHIP);
    let mut put = |name: &str, priority, deadline_s, expires_s| {
        let file = temp.file(name, name.as_bytes());
        let options = PutOptions { priority, deadline_s, expires_s, destination: String::new() };
        ship.put(&file, name, &options).unwrap().object
    };
    let old = put("old", 3, 0, 0);
    let late = put("late", 3, 2_000_000_000, 0);
    let soon = put("soon", 3, 1_900_000_000, 0);
    let first = put("first", 0, 0, 0);
    let last = put("last", 7, 1, 0);
    let over = put("over", 0, 0, 1_000);
    ship.commit().unwrap();
    let of = |ship: &mut Depot, max, not: &[ObjectId]| -> Vec<_> {
        let found = ship.candidates(&key(PLANE), max, |object| not.contains(object)).unwrap();
        found.into_iter().map(|candidate| candidate.object).collect()
    };
    assert_eq!(of(&mut ship, 9, &[]), [first, soon, late, old, last]);
    assert_eq!(of(&mut ship, 2, &[soon]), [first, late]);
    ship.on_given(&key(PLANE), &first).unwrap();
    ship.on_refused(&key(PLANE), &soon).unwrap();
    assert_eq!(of(&mut ship, 9, &[]), [late, old, last]);
    let other: Vec<_> = ship.candidates(&key(9), 9, |_| false).unwrap();
    assert_eq!(other.len(), 5, "another peer has nothing yet");
    assert!(ship.candidates(&key(SHIP), 9, |_| false).unwrap().is_empty(), "it is the source");
    assert_eq!(ship.expire(1_001).unwrap(), 1);
    assert_eq!(state_of(&ship, &over), Some(State::Expired));
    // What is put later is on the list of those who are known.
    let file = temp.file("new", b"new");
    let new = ship.put(&file, "new", &PutOptions { priority: 1, ..PutOptions::default() }).unwrap().object;
    ship.commit().unwrap();
    assert_eq!(of(&mut ship, 1, &[]), [new]);
}

#[test]
fn older_versions_and_other_stores_take_nothing_away() {
    let temp = Temp::new();
    let (mut ship, mut shore) = (open(&temp, SHIP), open(&temp, SHORE));
    let mut other = Depot::open(temp.join("other"), config(SHIP)).unwrap();
    put(&temp, &mut ship, "a/log", b"version 1");
    let mut late = open(&temp, PLANE);
    meet(&mut ship, &mut late);
    put(&temp, &mut ship, "a/log", b"version 2");
    // The first one was not given to the shore yet, but comes later.
    let second = ship.candidates(&key(SHORE), 9, |_| false).unwrap()[0].object;
    ship.on_given(&key(SHORE), &second).unwrap();
    assert_eq!(meet(&mut ship, &mut shore).objects.len(), 1);
    shore.deliver(9).unwrap();
    assert_eq!(fs::read(temp.join("ashore/a/log")).unwrap(), b"version 2");
    assert_eq!(meet(&mut late, &mut shore).objects.len(), 1);
    let delivered = shore.deliver(9).unwrap();
    assert!(delivered[0].files.is_empty(), "{delivered:?}");
    assert_eq!(fs::read(temp.join("ashore/a/log")).unwrap(), b"version 2");
    meet(&mut ship, &mut shore);
    assert_eq!(ship.summary().unwrap()[0].state, State::Released);
    // Another store has a file of this name, and one that has a file's name for a folder.
    put(&temp, &mut other, "a/log", b"of another");
    fs::remove_file(temp.join("files/a/log")).unwrap();
    put(&temp, &mut other, "a/log/x", b"below a file");
    assert_eq!(meet(&mut other, &mut shore).objects.len(), 2);
    shore.deliver(9).unwrap();
    let id: String = other.store_id().0[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(fs::read(temp.join("ashore/a/log")).unwrap(), b"version 2");
    assert_eq!(fs::read(temp.join(&format!("ashore/a/log~{id}"))).unwrap(), b"of another");
    assert_eq!(fs::read(temp.join(&format!("ashore/a/log~{id}-2/x"))).unwrap(), b"below a file");
    assert_eq!(shore.summary().unwrap().len(), 1, "{:?}", shore.summary());
}

#[test]
fn custody_is_enough_where_it_was_said_to_be() {
    let temp = Temp::new();
    let config = with_delete(config(SHIP), Delete::AfterCustody);
    let mut ship = Depot::open(temp.join("ship"), Config { keep: 0, ..config }).unwrap();
    let mut plane = open(&temp, PLANE);
    let object = put(&temp, &mut ship, "x", &noise(1, 500_000));
    assert!(on_disk(&temp.join("ship")) > 400_000);
    meet(&mut ship, &mut plane);
    assert_eq!(state_of(&ship, &object), Some(State::Released));
    ship.commit().unwrap();
    assert!(on_disk(&temp.join("ship")) <= 8192, "all but the blocks at both ends");
    assert!(ship.load(&object, 1).is_err());
    assert_eq!(plane.on_receipt(&key(SHIP), b"nonsense").unwrap(), Default::default());
}

#[test]
fn a_damaged_chunk_is_noticed_and_fetched_again() {
    let temp = Temp::new();
    let (mut ship, mut plane) = (open(&temp, SHIP), open(&temp, PLANE));
    let object = put(&temp, &mut ship, "x", &noise(1, 400_000));
    meet(&mut ship, &mut plane);
    let damage = |store: &str| {
        let file = fs::read_dir(temp.join(store).join("segments")).unwrap().next().unwrap().unwrap().path();
        let mut bytes = fs::read(&file).unwrap();
        bytes[1_000] ^= 1;
        fs::write(&file, bytes).unwrap();
    };
    damage("store-3");
    assert!(matches!(plane.load(&object, 1), Err(crate::DepotError::Damaged { part: 1, .. })));
    assert_eq!(state_of(&plane, &object), Some(State::Partial));
    assert!(plane.candidates(&key(SHORE), 9, |_| false).unwrap().is_empty());
    let Verdict::WantChunks { have, .. } = plane.verdict(&object).unwrap() else { panic!() };
    assert!(!have.contains(1) && have.contains(2));
    let bytes = ship.load(&object, 1).unwrap();
    assert!(plane.store(&object, 1, &bytes).unwrap().good);
    assert_eq!(plane.commit().unwrap().custody, [object]);
    assert_eq!(plane.candidates(&key(SHORE), 9, |_| false).unwrap().len(), 1);
    // At its source there is nobody to ask; it can be put again.
    damage("store-2");
    assert!(ship.load(&object, 1).is_err());
    assert_eq!(ship.health().unwrap().damaged, 1);
    assert!(ship.candidates(&key(9), 9, |_| false).unwrap().is_empty());
    assert!(ship.put(&temp.join("files/x"), "x", &PutOptions::default()).unwrap().is_new);
    ship.commit().unwrap();
    assert_eq!(ship.health().unwrap().damaged, 0);
    assert_eq!(meet(&mut ship, &mut open(&temp, 9)).refused, 0);
}

#[test]
fn another_process_may_put_and_is_seen() {
    let temp = Temp::new();
    let (mut daemon, mut command) = (open(&temp, SHIP), open(&temp, SHIP));
    assert_eq!(daemon.store_id(), command.store_id());
    assert!(daemon.candidates(&key(PLANE), 9, |_| false).unwrap().is_empty());
    daemon.changed().unwrap();
    assert!(!daemon.changed().unwrap());
    let one = put(&temp, &mut daemon, "one", &noise(1, 300_000));
    assert!(!daemon.changed().unwrap());
    let two = put(&temp, &mut command, "two", &noise(2, 300_000));
    assert!(daemon.changed().unwrap());
    let found = daemon.candidates(&key(PLANE), 9, |_| false).unwrap();
    assert_eq!(found.iter().map(|candidate| candidate.object).collect::<Vec<_>>(), [one, two]);
    assert!(daemon.load(&two, 1).unwrap().len() > 10_000);
    // A third one tidies up nothing that is in use.
    let file = temp.file("three", &noise(3, 300_000));
    let three = command.put(&file, "three", &PutOptions::default()).unwrap();
    command.flush().unwrap();
    drop(open(&temp, SHIP));
    assert_eq!(command.commit().unwrap().queued, [three.object]);
    assert_eq!(three.number, 3);
}

#[test]
fn a_lock_that_outlives_its_process_for_a_moment_loses_nothing() {
    // As of one that was killed while it was starting another program.
    let temp = Temp::new();
    let mut ship = open(&temp, SHIP);
    let file = temp.file("a", &noise(1, 200_000));
    ship.put(&file, "a", &PutOptions::default()).unwrap();
    ship.flush().unwrap();
    let lock = ship.disk.lock().unwrap();
    drop(ship);
    let mut ship = open(&temp, SHIP);
    drop(lock);
    let put = ship.put(&file, "b", &PutOptions::default()).unwrap();
    let committed = ship.commit().unwrap();
    assert_eq!((committed.queued, committed.lost), (vec![put.object], Vec::new()));
    sound(&ship);
}

#[test]
fn a_folder_that_many_make_at_once_is_one_store() {
    for _ in 0..20 {
        let temp = Temp::new();
        let opened: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(|| open(&temp, SHIP).store_id())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(opened.iter().all(|id| *id == opened[0]));
    }
}

#[test]
fn the_queue_counts_files_and_not_packs() {
    let (ship_at, plane_at) = (Temp::new(), Temp::new());
    let (mut ship, mut plane) = (open(&ship_at, SHIP), open(&plane_at, PLANE));
    let small =
        |n: u64| Source { file: ship_at.file(&format!("in/{n}"), &noise(n, 2_000)), path: format!("small/{n}") };
    let small: Vec<_> = (0..30).map(small).collect();
    assert!(ship.put_many(&small, &PutOptions::default()).iter().all(Result::is_ok));
    put(&ship_at, &mut ship, "one", &noise(99, 200_000));
    ship.commit().unwrap();
    let files = |depot: &mut Depot, peer| depot.queue(&key(peer)).unwrap().iter().map(|q| q.files).collect::<Vec<_>>();
    assert_eq!(files(&mut ship, PLANE), [30, 1]);
    assert!(!ship.count_files(9).unwrap(), "whoever packs knows");
    meet(&mut ship, &mut plane);
    // In the air nobody has looked into the pack yet.
    assert_eq!(files(&mut plane, SHORE), [1, 1]);
    assert!(plane.count_files(9).unwrap());
    assert!(!plane.count_files(9).unwrap());
    assert_eq!(files(&mut plane, SHORE), [30, 1]);
    assert_eq!(plane.candidates(&key(SHORE), 9, |_| false).unwrap()[0].files, 30);
    assert!(files(&mut ship, PLANE).is_empty());
}

#[test]
fn a_store_of_the_version_before_is_opened_and_its_packs_are_counted() {
    let temp = Temp::new();
    let mut ship = open(&temp, SHIP);
    let small: Vec<_> = (0..5)
        .map(|n| Source { file: temp.file(&format!("in/{n}"), &noise(n, 2_000)), path: format!("small/{n}") })
        .collect();
    assert!(ship.put_many(&small, &PutOptions::default()).iter().all(Result::is_ok));
    ship.commit().unwrap();
    drop(ship);
    let dir = temp.join("store-2");
    let db = rusqlite::Connection::open(dir.join("state.db")).unwrap();
    db.execute_batch("DROP INDEX object_uncounted; ALTER TABLE object DROP COLUMN files; PRAGMA user_version = 1;")
        .unwrap();
    drop(db);
    assert_eq!(crate::View::open(&dir).unwrap().summary().unwrap()[0].objects, 1);
    let mut ship = open(&temp, SHIP);
    assert_eq!(ship.queue(&key(PLANE)).unwrap()[0].files, 1);
    ship.count_files(9).unwrap();
    assert_eq!(ship.queue(&key(PLANE)).unwrap()[0].files, 5);
}

#[test]
fn a_store_is_not_put_into_with_another_key() {
    let temp = Temp::new();
    let dir = temp.join("store");
    drop(Depot::open(&dir, config(SHIP)).unwrap());
    let error = Depot::open(&dir, config(PLANE)).unwrap_err();
    assert!(matches!(error, DepotError::Key { owner, given } if (owner, given) == (key(SHIP), key(PLANE))));
    let said = error.to_string();
    assert!(said.contains(&key(SHIP).fingerprint()) && said.contains(&key(PLANE).fingerprint()), "{said}");
    put(&temp, &mut Depot::open(&dir, config(SHIP)).unwrap(), "still", b"good");
}

#[test]
fn a_store_that_was_not_bound_belongs_to_the_key_of_what_is_in_it() {
    let temp = Temp::new();
    let dir = temp.join("store");
    put(&temp, &mut Depot::open(&dir, config(SHIP)).unwrap(), "a", b"b");
    let db = rusqlite::Connection::open(dir.join("state.db")).unwrap();
    db.execute("DELETE FROM meta WHERE name = 'key'", []).unwrap();
    drop(db);
    assert!(matches!(Depot::open(&dir, config(PLANE)), Err(DepotError::Key { .. })));
    Depot::open(&dir, config(SHIP)).unwrap();
}

#[test]
fn who_only_looks_sees_how_much_is_stored() {
    let temp = Temp::new();
    let (mut ship, mut plane) = (open(&temp, SHIP), open(&temp, PLANE));
    put(&temp, &mut ship, "a", &noise(1, 300_000));
    meet(&mut ship, &mut plane);
    for (depot, name) in [(&mut ship, "store-2"), (&mut plane, "store-3")] {
        let (seen, known) = (View::open(&temp.join(name)).unwrap(), depot.health().unwrap());
        let seen = seen.health(u64::MAX, 0).unwrap();
        assert!(seen.used >= 300_000 && seen.disk_free > 0, "{seen:?}");
        assert_eq!((seen.used, seen.full, seen.partial), (known.used, known.full, known.partial));
    }
    let full = View::open(&temp.join("store-2")).unwrap().health(300_000, 0).unwrap();
    assert_eq!(full.full, Some(crate::NoRoom::Quota));
}

/// Puts other bytes in place of a hundredth of a log, spread over so many places, and takes out or puts in a few at each.
fn rewritten(mut content: Vec<u8>, places: usize) -> Vec<u8> {
    let (each, apart) = (content.len() / 100 / places, content.len() / places);
    for place in (0..places).rev() {
        let at = place * apart + apart / 3;
        content.splice(at..at + each, noise(1_000 + place as u64, each + 40 - 80 * (place % 2)));
    }
    content
}

/// A log comes ashore, is given up everywhere, is rewritten, and comes ashore again. Bytes of the second version that ship and plane sent.
fn sent_of_a_next_version(content: Vec<u8>, places: usize, keep: u64) -> [u64; 2] {
    let temp = Temp::new();
    let with_keep = |seed| {
        let config = Config { keep, ..config(seed) };
        Depot::open(temp.join(&format!("store-{seed}")), config).unwrap()
    };
    let (mut ship, mut plane, mut shore) = (with_keep(SHIP), with_keep(PLANE), open(&temp, SHORE));
    let changed = rewritten(content.clone(), places);
    let mut carry = |content: &[u8]| {
        let object = put(&temp, &mut ship, "log", content);
        let sent = [meet(&mut ship, &mut plane).bytes, meet(&mut plane, &mut shore).bytes];
        assert_eq!(shore.deliver(9).unwrap().len(), 1);
        meet(&mut plane, &mut shore);
        meet(&mut ship, &mut plane);
        for depot in [&mut ship, &mut plane] {
            depot.commit().unwrap();
            assert_eq!(state_of(depot, &object), Some(State::Released));
        }
        sent
    };
    assert!(carry(&content)[0] > content.len() as u64);
    let sent = carry(&changed);
    assert_eq!(fs::read(temp.join("ashore/log")).unwrap(), changed);
    sent
}

#[test]
fn a_log_of_100_mb_that_changed_in_twelve_places_sends_less_than_a_thirtieth() {
    let content = noise(3, 100_000_000);
    let sent = sent_of_a_next_version(content, 12, 256 << 20);
    println!("of 100 MB, 1 % changed in 12 places: {sent:?} bytes");
    assert!(sent.iter().all(|sent| *sent <= 3_000_000), "{sent:?}");
}

#[test]
fn without_chunks_that_are_kept_a_next_version_is_sent_whole() {
    let [sent, _] = sent_of_a_next_version(noise(3, 5_000_000), 1, 0);
    assert!(sent > 4_900_000, "{sent}");
}
