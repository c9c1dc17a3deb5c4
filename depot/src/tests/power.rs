//! The power is cut: what was not synced is gone, in part, or is something else.

use std::collections::{BTreeMap, BTreeSet};

use super::kills::{Random, sound};
use super::*;
use crate::Filter;

/// Cuts for each run.
const CUTS: u64 = 40;

/// Copies a store as a power cut may leave it: segments up to where they were synced, and beyond that a random part of what was written,
/// some of it wrong; of the write-ahead log what was there at the last promise, and a random part of what came behind it.
fn cut(from: &Path, to: &Path, depot: &Depot, promised_log: &[u8], random: &mut Random) {
    fs::create_dir_all(to.join("segments")).unwrap();
    fs::copy(from.join("state.db"), to.join("state.db")).unwrap();
    let mut log = fs::read(from.join("state.db-wal")).unwrap_or_default();
    // If the log was begun anew since, all before is in the database, and was synced then.
    let is_same = log.len() >= promised_log.len() && log[..promised_log.len()] == *promised_log;
    tear(&mut log, if is_same { promised_log.len() } else { 0 }, is_same, random);
    fs::write(to.join("state.db-wal"), log).unwrap();
    let synced: BTreeMap<_, _> = depot.disk.synced().into_iter().collect();
    for file in fs::read_dir(from.join("segments")).unwrap() {
        let file = file.unwrap();
        let number: i64 = file.file_name().to_str().unwrap().parse().unwrap();
        let mut bytes = fs::read(file.path()).unwrap();
        // Those that nobody appends to were synced when they were promised.
        let sure = synced.get(&number).map_or(bytes.len(), |synced| *synced as usize);
        tear(&mut bytes, sure, true, random);
        fs::write(to.join("segments").join(file.file_name()), bytes).unwrap();
    }
}

/// Leaves what is sure, and a random part of the rest, wrong here and there.
fn tear(bytes: &mut Vec<u8>, sure: usize, is_wrong: bool, random: &mut Random) {
    if !is_wrong || bytes.len() <= sure {
        return;
    }
    let left = sure + random.below((bytes.len() - sure) as u64 + 1) as usize;
    bytes.truncate(left);
    if left > sure && random.below(2) == 0 {
        for _ in 0..1 + random.below(4) {
            let at = sure + random.below((left - sure) as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
    }
    if random.below(4) == 0 {
        bytes.extend(noise(random.0, random.below(5_000) as usize));
    }
}

fn config_of(seed: u8) -> Config {
    Config { keep: 200_000, ..config(seed) }
}

#[test]
fn what_was_promised_survives_the_loss_of_all_that_was_not_synced() {
    let temp = Temp::new();
    let mut random = Random(11);
    let (mut numbers, mut custody) = (BTreeMap::new(), BTreeSet::new());
    let dir = |cuts: u64, who: &str| temp.join(&format!("{who}-{cuts}"));
    for cuts in 0..CUTS {
        let mut ship = Depot::open(dir(cuts, "ship"), config_of(SHIP)).unwrap();
        let mut plane = Depot::open(dir(cuts, "plane"), config_of(PLANE)).unwrap();
        let log = |of: &str| fs::read(dir(cuts, of).join("state.db-wal")).unwrap_or_default();
        let (mut ship_log, mut plane_log) = (log("ship"), log("plane"));
        let steps = 6 + random.below(10);
        for _ in 0..steps {
            let name = format!("f{}", random.below(9));
            let content = [noise(random.below(30), random.below(250_000) as usize), b"end".to_vec()].concat();
            let file = temp.file(&name, &content);
            let put = ship.put(&file, &name, &PutOptions::default()).unwrap();
            assert!(!put.is_new || !numbers.contains_key(&put.number), "{} was given twice", put.number);
            match random.below(8) {
                0 => ship.flush().unwrap(),
                1..4 => {
                    for object in ship.commit().unwrap().queued {
                        numbers.insert(state_number(&ship, &object), object);
                    }
                    ship_log = log("ship");
                }
                4..7 => {
                    take_some(&mut ship, &mut plane, &mut random);
                    if random.below(2) == 0 {
                        custody.extend(plane.commit().unwrap().custody);
                        plane_log = log("plane");
                    }
                }
                _ => {}
            }
        }
        cut(&dir(cuts, "ship"), &dir(cuts + 1, "ship"), &ship, &ship_log, &mut random);
        cut(&dir(cuts, "plane"), &dir(cuts + 1, "plane"), &plane, &plane_log, &mut random);
        drop((ship, plane));
        fs::remove_dir_all(dir(cuts, "ship")).unwrap();
        fs::remove_dir_all(dir(cuts, "plane")).unwrap();

        let mut ship = Depot::open(dir(cuts + 1, "ship"), config_of(SHIP)).unwrap();
        let mut plane = Depot::open(dir(cuts + 1, "plane"), config_of(PLANE)).unwrap();
        sound(&ship);
        sound(&plane);
        for object in numbers.values() {
            all_there(&mut ship, object);
        }
        for object in &custody {
            all_there(&mut plane, object);
        }
    }
    assert!(numbers.len() > 50 && custody.len() > 20, "{} {}", numbers.len(), custody.len());
}

fn state_number(depot: &Depot, object: &ObjectId) -> u64 {
    let mut rows = depot.list(Filter::default()).map(Result::unwrap);
    rows.find(|row| row.object == *object).unwrap().number
}

fn all_there(depot: &mut Depot, object: &ObjectId) {
    assert!(matches!(state_of(depot, object), Some(State::Queued | State::Custody)));
    let (have, parts) = depot.progress(object).unwrap();
    assert_eq!(have, parts);
    (0..=parts).for_each(|part| drop(depot.load(object, part).unwrap()));
}

/// Takes parts of what there is, and promises nothing.
fn take_some(ship: &mut Depot, plane: &mut Depot, random: &mut Random) {
    for candidate in ship.candidates(&key(PLANE), 3, |_| random.0.is_multiple_of(3)).unwrap() {
        let manifest = ship.load(&candidate.object, 0).unwrap();
        match plane.on_manifest(&key(SHIP), &candidate.object, &manifest).unwrap() {
            Verdict::WantChunks { have, .. } => {
                for part in (1..=candidate.chunks).filter(|part| !have.contains(*part)) {
                    let bytes = ship.load(&candidate.object, part).unwrap();
                    assert!(plane.store(&candidate.object, part, &bytes).unwrap().good);
                    if random.below(12) == 0 {
                        return;
                    }
                }
            }
            Verdict::HaveCustody => ship.on_given(&key(PLANE), &candidate.object).unwrap(),
            other => panic!("{other:?}"),
        }
    }
}
