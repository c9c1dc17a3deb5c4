//! Processes that are killed at any moment: nothing that they promised is lost, and no number is given twice.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aquila_proto::transfer::{Confirms, Hash, Ranges, Receipt};

use super::*;
use crate::{Filter, Source};

/// Rounds, of two processes that are killed.
const ROUNDS: u64 = 160;
const FOLDER: &str = "AQUILA_DEPOT_KILLS";

/// Steps that are random, and the same for a seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

fn hex(object: &ObjectId) -> String {
    object.0.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> ObjectId {
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
    ObjectId(Hash(std::array::from_fn(byte)))
}

/// Tells the parent, whole lines at a time.
fn tell(line: String) {
    std::io::stdout().write_all(format!("!{line}\n").as_bytes()).unwrap();
}

fn ship(dir: &str) -> Depot {
    Depot::open(Path::new(dir).join("ship"), Config { keep: 1 << 20, ..config(SHIP) }).unwrap()
}

fn plane(dir: &str) -> Depot {
    Depot::open(Path::new(dir).join("plane"), Config { keep: 1 << 20, ..config(PLANE) }).unwrap()
}

/// What the killed processes do; a test only so that there is a program to be started.
#[test]
fn child() {
    let Ok(of) = std::env::var(FOLDER) else { return };
    let mut words = of.split('|');
    let (dir, what, seed) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap().parse().unwrap());
    let mut random = Random(seed);
    match what {
        "put" => put_for_ever(dir, &mut random),
        _ => carry_for_ever(dir, &mut random),
    }
}

/// Puts files, singly and in packs, and hears from the shore now and then.
fn put_for_ever(dir: &str, random: &mut Random) {
    let mut depot = ship(dir);
    loop {
        let mut put = Vec::new();
        for _ in 0..1 + random.below(3) {
            let name = format!("f{}", random.below(20));
            let file = Path::new(dir).join(format!("put-{name}"));
            let mut content = noise(random.below(40), random.below(300_000) as usize);
            content.extend(log(random.below(4), random.below(100_000) as usize));
            fs::write(&file, content).unwrap();
            if random.below(3) == 0 {
                let small = |n: u64| {
                    let file = Path::new(dir).join(format!("small-{n}"));
                    fs::write(&file, noise(random.below(50), 100)).unwrap();
                    Source { file, path: format!("small/{n}") }
                };
                let files: Vec<_> = (0..20).map(small).collect();
                put.extend(depot.put_many(&files, &PutOptions::default()));
            }
            put.push(depot.put(&file, &name, &PutOptions::default()));
        }
        let committed = depot.commit().unwrap();
        assert!(committed.lost.is_empty() || random.0 > 0);
        for put in put {
            let put = put.unwrap();
            if put.is_new && !committed.lost.contains(&put.object) {
                assert!(committed.queued.contains(&put.object));
                tell(format!("queued {} {}", hex(&put.object), put.number));
            }
        }
        if random.below(4) == 0 {
            let rows: Vec<_> = depot.list(Filter::default()).map(Result::unwrap).collect();
            let end = rows.len() as u64 * random.below(80) / 100;
            if let Some(number) = rows.get(end as usize).map(|row| row.number) {
                tell(format!("delivering {} {number}", hex(&ObjectId(Hash([0; 32])))));
                depot.on_receipt(&key(PLANE), &receipt(&depot, number)).unwrap();
            }
        }
    }
}

/// The shore's, for all up to a number.
fn receipt(depot: &Depot, number: u64) -> bytes::Bytes {
    let numbers = Ranges::of(1, number);
    let receipt = Receipt { confirms: Confirms::Delivery, issuer: key(SHORE), source: depot.store_id(), numbers };
    receipt.sign(&identity(SHORE))
}

/// Takes what there is, in random order, and stops in the middle of it.
fn carry_for_ever(dir: &str, random: &mut Random) {
    let (mut ship, mut plane) = (ship(dir), plane(dir));
    loop {
        let mut stored = Vec::new();
        for candidate in ship.candidates(&key(PLANE), 4, |_| random.0.is_multiple_of(7)).unwrap() {
            let object = candidate.object;
            let mut verdict = plane.on_offer(&key(SHIP), &candidate.offer()).unwrap();
            // What the shore has may be gone meanwhile.
            if verdict == Verdict::WantManifest {
                let Ok(manifest) = ship.load(&object, 0) else { continue };
                verdict = plane.on_manifest(&key(SHIP), &object, &manifest).unwrap();
            }
            if verdict == Verdict::HaveCustody {
                ship.on_given(&key(PLANE), &object).unwrap();
            }
            let Verdict::WantChunks { have, .. } = verdict else { continue };
            for part in (1..=candidate.chunks).filter(|part| !have.contains(*part)) {
                let Ok(bytes) = ship.load(&object, part) else { continue };
                assert!(plane.store(&object, part, &bytes).unwrap().good);
                stored.push((object, part));
                if random.below(30) == 0 {
                    break;
                }
            }
        }
        for object in plane.commit().unwrap().custody {
            tell(format!("custody {} 0", hex(&object)));
        }
        for (object, part) in stored {
            tell(format!("chunk {} {part}", hex(&object)));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn spawn(dir: &Path, what: &str, seed: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::kills::child", "--nocapture"])
        .env(FOLDER, format!("{}|{what}|{seed}", dir.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Kills it, and returns what it said, in whole lines.
fn kill(mut child: Child) -> Vec<(String, ObjectId, u64)> {
    child.kill().unwrap();
    let (mut said, mut complaint) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "it ended before: {complaint}");
    let whole = said.rfind('\n').map_or("", |at| &said[..at]);
    let lines = whole.lines().filter_map(|line| line.split_once('!')).map(|(_, line)| line);
    lines
        .map(|line| {
            let mut words = line.split(' ');
            let mut word = || words.next().unwrap();
            (word().to_owned(), from_hex(word()), word().parse().unwrap())
        })
        .collect()
}

#[test]
fn killed_hundreds_of_times_nothing_that_was_promised_is_lost() {
    let temp = Temp::new();
    let dir = temp.0.to_str().unwrap();
    let mut random = Random(7);
    let (mut numbers, mut custody) = (BTreeMap::new(), BTreeSet::new());
    let (mut parts, mut delivered) = (BTreeSet::new(), 0);
    for round in 0..ROUNDS {
        let mut children = [spawn(&temp.0, "put", 2 * round), spawn(&temp.0, "carry", 2 * round + 1)];
        std::thread::sleep(Duration::from_millis(15 + random.below(120)));
        if random.below(2) == 0 {
            children.reverse();
        }
        for child in children {
            for (what, object, number) in kill(child) {
                match what.as_str() {
                    "queued" => {
                        let before = numbers.insert(number, object);
                        assert!(before.is_none_or(|before| before == object), "{number} was given twice");
                    }
                    "custody" => drop(custody.insert(object)),
                    "chunk" => drop(parts.insert((object, number))),
                    _ => delivered = delivered.max(number),
                }
            }
            std::thread::sleep(Duration::from_millis(random.below(10)));
        }
        // All that is new, and some of what is old.
        let is_last = round + 1 == ROUNDS;
        check(dir, &numbers, &custody, &mut parts, delivered, |_| is_last || random.below(10) == 0);
    }
    assert!(numbers.len() > 200 && custody.len() > 50 && delivered > 0, "{} {}", numbers.len(), custody.len());
    println!("{} numbers, {} in custody, {} kills", numbers.len(), custody.len(), 2 * ROUNDS);
}

fn check(
    dir: &str,
    numbers: &BTreeMap<u64, ObjectId>,
    custody: &BTreeSet<ObjectId>,
    parts: &mut BTreeSet<(ObjectId, u64)>,
    delivered: u64,
    mut is_looked_at: impl FnMut(u64) -> bool,
) {
    let (mut ship, mut plane) = (ship(dir), plane(dir));
    let rows: BTreeMap<_, _> = ship.list(Filter::default()).map(Result::unwrap).map(|row| (row.object, row)).collect();
    let mut all = BTreeSet::new();
    assert!(rows.values().all(|row| all.insert(row.number)), "a number twice");
    let newest = numbers.len() as u64;
    for ((number, object), at) in numbers.iter().zip(0..) {
        let row = rows.get(object).unwrap_or_else(|| panic!("number {number} is lost"));
        assert_eq!(row.number, *number);
        if row.state == State::Released {
            assert!(*number < delivered);
        } else if at + 10 > newest || is_looked_at(*number) {
            assert!(matches!(row.state, State::Queued | State::Custody));
            (0..=row.chunks).for_each(|part| drop(ship.load(object, part).unwrap()));
        }
    }
    let rows: BTreeMap<_, _> = plane.list(Filter::default()).map(Result::unwrap).map(|row| (row.object, row)).collect();
    for (object, at) in custody.iter().zip(0..) {
        let row = rows.get(object).expect("custody is lost");
        if row.state == State::Released {
            assert!(row.number < delivered);
        } else if is_looked_at(at) {
            assert_eq!(row.state, State::Custody);
            (0..=row.chunks).for_each(|part| drop(plane.load(object, part).unwrap()));
        }
    }
    // Chunks that are promised are had when the object is offered again.
    for (object, part) in std::mem::take(parts) {
        match plane.verdict(&object).unwrap() {
            Verdict::HaveCustody => {}
            Verdict::WantChunks { have, .. } => {
                assert!(have.contains(part), "chunk {part} is lost");
                plane.load(&object, part).unwrap();
                parts.insert((object, part));
            }
            other => panic!("{other:?}"),
        }
    }
    let receipts = plane.receipts_for(&key(SHIP)).unwrap();
    let told: u64 = receipts.iter().map(|bytes| Receipt::parse(bytes).unwrap().numbers.count()).sum();
    assert!(told >= custody.len() as u64);
    swap_receipts(&mut ship, &mut plane);
    drop(plane);
    // Nothing is wrong in the database, and nothing is counted twice or not at all.
    sound(&ship);
}

/// Whether what the database says agrees with itself.
pub fn sound(depot: &Depot) {
    let one = |sql: &str| depot.db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let wire = "CASE compressed WHEN 0 THEN len ELSE compressed END";
    assert_eq!(depot.db.query_row("PRAGMA quick_check", [], |row| row.get::<_, String>(0)).unwrap(), "ok");
    assert_eq!(
        one("SELECT coalesce(sum(live), 0) FROM segment"),
        one(&format!("SELECT coalesce(sum({wire}), 0) FROM chunk WHERE segment IS NOT NULL"))
    );
    assert_eq!(one("SELECT count(*) FROM chunk WHERE NOT EXISTS (SELECT 1 FROM part WHERE chunk = chunk.id)"), 0);
    assert_eq!(one("SELECT count(*) FROM part WHERE NOT EXISTS (SELECT 1 FROM object WHERE id = part.object)"), 0);
    assert_eq!(one("SELECT count(*) FROM part WHERE NOT EXISTS (SELECT 1 FROM chunk WHERE id = part.chunk)"), 0);
    assert_eq!(
        one(&format!(
            "SELECT count(*) FROM object WHERE state > 0 AND
             (missing, missing_len) <> (SELECT count(*), coalesce(sum({wire}), 0) FROM part JOIN chunk
              ON chunk.id = part.chunk WHERE part.object = object.id AND segment IS NULL)"
        )),
        0
    );
    assert_eq!(
        one(&format!("SELECT count(*) FROM chunk JOIN segment ON segment.id = segment WHERE at + {wire} > end")),
        0
    );
    // No two chunks are in one place.
    assert_eq!(
        one(&format!(
            "SELECT count(*) FROM (SELECT at + {wire} AS until, lead(at) OVER (PARTITION BY segment ORDER BY at) AS next
             FROM chunk WHERE segment IS NOT NULL) WHERE next < until"
        )),
        0
    );
}
