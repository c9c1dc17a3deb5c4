//! No room: nothing that was promised is lost, it is told, and goes on when there is room.

use std::process::Command;

use aquila_proto::transfer::Offer;

use super::kills::sound;
use super::*;
use crate::{DepotError, Filter, NoRoom};

const FOLDER: &str = "AQUILA_DEPOT_ROOM";

fn offer_of(from: &mut Depot, object: ObjectId) -> Offer {
    let found = from.candidates(&key(PLANE), 100, |_| false).unwrap();
    let candidate = found.into_iter().find(|candidate| candidate.object == object).unwrap();
    candidate.offer()
}

/// Offers an object and its manifest.
fn ask(from: &mut Depot, to: &mut Depot, object: ObjectId) -> Verdict {
    match to.on_offer(&key(SHIP), &offer_of(from, object)).unwrap() {
        Verdict::WantManifest => to.on_manifest(&key(SHIP), &object, &from.load(&object, 0).unwrap()).unwrap(),
        other => other,
    }
}

#[test]
fn a_quota_makes_what_is_less_urgent_wait() {
    let temp = Temp::new();
    let mut ship = open(&temp, SHIP);
    let mut plane =
        Depot::open(temp.join("plane"), Config { quota: 1_000_000, keep: 1_000_000, ..config(PLANE) }).unwrap();
    let mut shore = open(&temp, SHORE);
    let put = |ship: &mut Depot, name: &str, priority| {
        let file = temp.file(name, &noise(name.len() as u64, 600_000));
        let object = ship.put(&file, name, &PutOptions { priority, ..PutOptions::default() }).unwrap().object;
        ship.commit().unwrap();
        object
    };
    let (low, other) = (put(&mut ship, "low", 3), put(&mut ship, "another", 3));
    // Begun, and then overtaken by something that there is no room for beside it.
    assert!(matches!(ask(&mut ship, &mut plane, low), Verdict::WantChunks { .. }));
    let bytes = ship.load(&low, 1).unwrap();
    assert!(plane.store(&low, 1, &bytes).unwrap().good);
    plane.commit().unwrap();
    assert_eq!(ask(&mut ship, &mut plane, other), Verdict::NotNow(NoRoom::Quota));
    let high = put(&mut ship, "urgent", 0);
    assert!(matches!(ask(&mut ship, &mut plane, high), Verdict::WantChunks { .. }));
    assert_eq!(plane.verdict(&low).unwrap(), Verdict::NotNow(NoRoom::Quota));
    let health = plane.health().unwrap();
    assert_eq!((health.partial, health.paused, health.full), (3, 2, None));
    let carried = meet(&mut ship, &mut plane);
    assert_eq!(carried.objects, [high]);
    // Delivered, it makes room by itself, though it is kept for its next version.
    meet(&mut plane, &mut shore);
    shore.deliver(9).unwrap();
    meet(&mut plane, &mut shore);
    assert!(plane.health().unwrap().kept > 0);
    assert_eq!(meet(&mut ship, &mut plane).objects, [low]);
    assert!(plane.health().unwrap().used <= 1_000_000);
    sound(&plane);
    meet(&mut plane, &mut shore);
    shore.deliver(9).unwrap();
    meet(&mut plane, &mut shore);
    assert_eq!(meet(&mut ship, &mut plane).objects, [other]);
    assert_eq!(plane.health().unwrap().paused, 0);
}

#[test]
fn what_does_not_fit_is_not_put_and_later_is() {
    let temp = Temp::new();
    let mut ship = Depot::open(temp.join("ship"), Config { quota: 500_000, keep: 0, ..config(SHIP) }).unwrap();
    let first = put(&temp, &mut ship, "first", &noise(1, 400_000));
    let file = temp.file("second", &noise(2, 400_000));
    let refused = ship.put(&file, "second", &PutOptions::default());
    assert!(matches!(refused, Err(DepotError::Full(NoRoom::Quota))));
    assert_eq!(ship.commit().unwrap().queued, []);
    assert!(ship.health().unwrap().used <= 500_000);
    let mut plane = open(&temp, PLANE);
    assert_eq!(meet(&mut ship, &mut plane).objects, [first]);
    ship.expire(0).unwrap();
    let receipt = aquila_proto::transfer::Receipt {
        confirms: aquila_proto::transfer::Confirms::Delivery,
        issuer: key(SHORE),
        source: ship.store_id(),
        numbers: aquila_proto::transfer::Ranges::of(1, 2),
    };
    assert_eq!(ship.on_receipt(&key(PLANE), &receipt.sign(&identity(SHORE))).unwrap().delivered, 1);
    assert!(ship.put(&file, "second", &PutOptions::default()).unwrap().is_new);
    assert_eq!(ship.commit().unwrap().queued.len(), 1);
    sound(&ship);
}

#[test]
fn a_disk_without_room_to_spare_is_told() {
    let temp = Temp::new();
    let mut ship = Depot::open(temp.join("ship"), Config { min_free: u64::MAX / 2, ..config(SHIP) }).unwrap();
    let file = temp.file("x", &noise(1, 1_000));
    assert!(matches!(ship.put(&file, "x", &PutOptions::default()), Err(DepotError::Full(NoRoom::Disk))));
    assert_eq!(ship.health().unwrap().full, Some(NoRoom::Disk));
    let mut plane = Depot::open(temp.join("plane"), Config { min_free: u64::MAX / 2, ..config(PLANE) }).unwrap();
    let mut rich = open(&temp, SHIP);
    let object = put(&temp, &mut rich, "y", b"y");
    assert_eq!(ask(&mut rich, &mut plane, object), Verdict::NotNow(NoRoom::Disk));
}

/// What runs without room: puts until it cannot, and says what was promised.
#[test]
fn limited() {
    let Ok(dir) = std::env::var(FOLDER) else { return };
    let dir = Path::new(&dir);
    let mut depot = Depot::open(dir.join("ship"), config(SHIP)).unwrap();
    let mut failures = 0;
    for n in 0..200 {
        // It is in memory that there is room for the content.
        let put = depot.put_bundle(&noise(n, 100_000), &PutOptions::default());
        let committed = depot.commit();
        match (put, committed) {
            (Ok(put), Ok(committed)) if committed.queued.contains(&put.object) => println!("!{n}"),
            (Err(_), _) | (_, Err(_)) => {
                failures += 1;
                println!("?{}", depot.health().is_ok_and(|health| health.full.is_some()));
            }
            (Ok(_), Ok(_)) => panic!("neither promised nor refused"),
        }
        if failures == 5 {
            return;
        }
    }
    panic!("there is no end to the room");
}

/// Runs it with a shell's command before it, and checks what is left when there is room again.
fn run_limited(temp: &Temp, before: &str) -> bool {
    let program = std::env::current_exe().unwrap();
    let script = format!("{before}\nexec \"$0\" --exact tests::room::limited --nocapture");
    let run = Command::new("sh").args(["-c", &script]).arg(program).env(FOLDER, &temp.0).output().unwrap();
    let said = String::from_utf8(run.stdout).unwrap();
    let lines =
        |sign: char| said.lines().filter_map(move |line| line.split_once(sign)).map(|(_, word)| word.to_owned());
    let promised: Vec<u64> = lines('!').map(|word| word.parse().unwrap()).collect();
    if promised.is_empty() && !run.status.success() {
        eprintln!("not to be had here: {}", String::from_utf8_lossy(&run.stderr));
        return false;
    }
    assert!(run.status.success(), "{said} {}", String::from_utf8_lossy(&run.stderr));
    assert!(promised.len() > 1 && lines('?').count() == 5);
    promised_is_there(&mut Depot::open(temp.join("ship"), config(SHIP)).unwrap(), &promised);
    true
}

fn promised_is_there(depot: &mut Depot, promised: &[u64]) {
    let rows: Vec<_> = depot.list(Filter::default()).map(Result::unwrap).collect();
    assert!(rows.len() >= promised.len());
    for n in promised {
        let row = rows.iter().find(|row| row.size == 100_000 && holds(depot, row, *n));
        assert!(row.is_some(), "{n} is lost");
    }
    sound(depot);
    let more = depot.put_bundle(&noise(9_999, 100_000), &PutOptions::default()).unwrap();
    assert_eq!(depot.commit().unwrap().queued, [more.object]);
}

fn holds(depot: &mut Depot, row: &crate::Row, n: u64) -> bool {
    let parts = (1..=row.chunks).map(|part| depot.load(&row.object, part).unwrap());
    parts.collect::<Vec<_>>().concat() == noise(n, 100_000)
}

#[test]
fn a_limit_of_the_length_of_files_loses_nothing() {
    // In blocks of 512 bytes: first segments come to it, then the database.
    for blocks in [4_000, 700] {
        let temp = Temp::new();
        assert!(run_limited(&temp, &format!("trap '' XFSZ\nulimit -f {blocks}")));
    }
}

#[test]
fn a_full_disk_loses_nothing() {
    // A file system of 4 MB of one's own, where that is allowed. It is gone afterwards, so what is left is looked at in there.
    let temp = Temp::new();
    let mount = format!("mount -t tmpfs -o size=4m none '{}'", temp.0.display());
    let keep = temp.join("../").join(format!("{}-kept", temp.0.file_name().unwrap().to_str().unwrap()));
    let script = format!(
        "exec unshare -rm sh -c \"{mount} || exit 9\n\\\"$0\\\" --exact tests::room::limited --nocapture || exit 8\n\
         cp -a '{}/ship' '{}'\" \"$0\"",
        temp.0.display(),
        keep.display()
    );
    let program = std::env::current_exe().unwrap();
    let run = Command::new("sh").args(["-c", &script]).arg(program).env(FOLDER, &temp.0).output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    if run.status.code() != Some(0) && !said.contains('!') {
        println!("skipped: no file system of one's own here: {}", String::from_utf8_lossy(&run.stderr));
        return;
    }
    let promised: Vec<u64> =
        said.lines().filter_map(|line| line.split_once('!')).map(|(_, word)| word.parse().unwrap()).collect();
    assert!(run.status.success() && promised.len() > 5, "{said} {}", String::from_utf8_lossy(&run.stderr));
    assert!(said.contains("?true"), "it was told: {said}");
    let kept = Temp(keep.clone());
    promised_is_there(&mut Depot::open(kept.0.clone(), config(SHIP)).unwrap(), &promised);
}
