//! A folder from which files are taken by themselves.

use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use super::*;
use crate::{Spool, Taken};

struct Watched {
    temp: Temp,
    depot: Depot,
    spool: Spool,
    now: Instant,
}

impl Watched {
    fn new(delete: Delete) -> Self {
        let temp = Temp::new();
        let depot = Depot::open(temp.join("ship"), with_delete(config(SHIP), delete)).unwrap();
        let spool = Spool::open(temp.join("spool"), Vec::new()).unwrap();
        let mut watched = Self { temp, depot, spool, now: Instant::now() };
        assert_eq!(watched.poll(), Vec::<String>::new());
        watched
    }

    fn taken(&mut self) -> Vec<Taken> {
        let taken = self.spool.poll(&mut self.depot, self.now).unwrap();
        self.depot.commit().unwrap();
        taken
    }

    /// Paths of what was taken as something new.
    fn poll(&mut self) -> Vec<String> {
        let taken = self.taken().into_iter().filter(|taken| taken.put.as_ref().is_ok_and(|put| put.is_new));
        let mut paths: Vec<_> = taken.map(|taken| taken.path).collect();
        paths.sort();
        paths
    }

    /// The same until nothing more comes for a while.
    fn settle(&mut self) -> Vec<String> {
        let mut paths = Vec::new();
        for _ in 0..30 {
            paths.extend(self.poll());
            self.now += Duration::from_millis(1_100);
        }
        paths.sort();
        paths
    }

    fn write(&self, path: &str, content: &[u8]) -> PathBuf {
        self.temp.file(&format!("spool/{path}"), content)
    }

    /// The shore has signed for all.
    fn deliver(&mut self) {
        use aquila_proto::transfer::{Confirms, Ranges, Receipt};
        let numbers = Ranges::of(1, 1_000 + self.depot.summary().unwrap().len() as u64);
        let receipt =
            Receipt { confirms: Confirms::Delivery, issuer: key(SHORE), source: self.depot.store_id(), numbers };
        self.depot.on_receipt(&key(PLANE), &receipt.sign(&identity(SHORE))).unwrap();
    }
}

#[test]
fn files_that_are_closed_or_renamed_are_taken_at_once_and_others_when_they_rest() {
    let mut at = Watched::new(Delete::AfterDelivery);
    at.write("closed", b"1");
    let other = at.temp.file("elsewhere", b"2");
    fs::rename(other, at.temp.join("spool/renamed")).unwrap();
    for left in [".hidden", "x.part", "y.tmp", ".folder/z"] {
        at.write(left, b"3");
    }
    assert_eq!(at.poll(), ["closed", "renamed"]);
    fs::rename(at.temp.join("spool/x.part"), at.temp.join("spool/x")).unwrap();
    assert_eq!(at.poll(), ["x"]);
    // One that stays open: not before it has rested for two seconds.
    let mut open = fs::File::create(at.temp.join("spool/open")).unwrap();
    std::io::Write::write_all(&mut open, b"begun").unwrap();
    assert!(at.poll().is_empty());
    at.now += Duration::from_secs(2);
    assert!(at.poll().is_empty(), "seen for the first time");
    std::io::Write::write_all(&mut open, b" and went on").unwrap();
    at.now += Duration::from_secs(2);
    assert!(at.poll().is_empty(), "it has changed");
    at.now += Duration::from_secs(2);
    assert_eq!(at.poll(), ["open"]);
    drop(open);
    assert!(at.settle().is_empty(), "closed without a change");
    // A folder, and what was in it before anybody could look.
    at.write("a/b/c", b"4");
    assert_eq!(at.settle(), ["a/b/c"]);
    at.write("a/b/d", b"5");
    assert_eq!(at.poll(), ["a/b/d"]);
    at.write("closed", b"another version");
    assert_eq!(at.poll(), ["closed"]);
    assert!(at.settle().is_empty());
}

#[test]
fn a_restart_takes_nothing_twice_and_what_came_meanwhile() {
    let mut at = Watched::new(Delete::AfterDelivery);
    let files: Vec<_> = (0..40).map(|n| format!("f{n:02}")).collect();
    files.iter().for_each(|name| drop(at.write(name, name.as_bytes())));
    assert_eq!(at.settle(), files);
    at.write("while-it-is-off", b"x");
    at.depot = Depot::open(at.temp.join("ship"), config(SHIP)).unwrap();
    at.spool = Spool::open(at.temp.join("spool"), Vec::new()).unwrap();
    assert_eq!(at.settle(), ["while-it-is-off"]);
    // What was put and not promised is taken again.
    at.write("late", b"y");
    at.spool.poll(&mut at.depot, at.now).unwrap();
    at.depot = Depot::open(at.temp.join("ship"), config(SHIP)).unwrap();
    at.spool = Spool::open(at.temp.join("spool"), Vec::new()).unwrap();
    assert_eq!(at.settle(), ["late"]);
}

#[test]
fn links_pipes_and_bad_names_are_left_alone_and_told_once() {
    let mut at = Watched::new(Delete::AfterDelivery);
    let secret = at.temp.file("secret", b"not for the spool");
    let outside = at.temp.file("outside/x", b"not either");
    symlink(&secret, at.temp.join("spool/link")).unwrap();
    symlink(outside.parent().unwrap(), at.temp.join("spool/folder")).unwrap();
    nix::unistd::mkfifo(&at.temp.join("spool/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    at.write("bad:name", b"1");
    at.write("good", b"2");
    let mut told = 0;
    for _ in 0..20 {
        told += at.taken().iter().filter(|taken| taken.put.is_err()).count();
        at.now += Duration::from_millis(1_100);
    }
    assert_eq!(told, 1);
    let rows: Vec<_> = at.depot.list(crate::Filter::default()).map(Result::unwrap).collect();
    assert_eq!(rows.len(), 1);
}

#[test]
fn what_is_done_with_is_deleted_if_it_is_still_the_same() {
    let mut at = Watched::new(Delete::AfterDelivery);
    let (file, small, changed) =
        (at.write("a/file", &noise(1, 100_000)), at.write("small", b"1"), at.write("log", b"2"));
    assert_eq!(at.settle(), ["a/file", "log", "small"]);
    // Taken before; its new version is not, when the receipt of the old one comes.
    fs::write(&changed, b"2, and a new line").unwrap();
    at.deliver();
    assert!(file.exists());
    at.poll();
    assert!(!file.exists() && !small.exists());
    assert!(changed.exists(), "another one than was delivered");
    // What is there again, as it was delivered, is deleted without being carried.
    at.write("small", b"1");
    assert!(at.settle().is_empty());
    assert!(!small.exists());
}

#[test]
fn what_is_never_to_be_deleted_is_not() {
    let mut at = Watched::new(Delete::Never);
    let file = at.write("file", b"1");
    assert_eq!(at.settle(), ["file"]);
    at.deliver();
    assert_eq!(at.depot.summary().unwrap()[0].state, State::Released);
    assert!(at.settle().is_empty());
    assert!(file.exists());
}

#[test]
fn files_of_a_spool_are_carried_as_the_rules_say() {
    let temp = Temp::new();
    let mut depot = open(&temp, SHIP);
    let rules = ["alarms/,priority=0,within=1h", "*.raw,priority=7,expires=2d,destination=archive"];
    let rules = rules.map(|rule| rule.parse().unwrap()).into();
    let mut spool = Spool::open(temp.join("spool"), rules).unwrap();
    for path in ["bulk.raw", "alarms/a.raw", "alarms/b", "note", "other.raw"] {
        temp.file(&format!("spool/{path}"), path.as_bytes());
    }
    let long = temp.file("spool/long.raw", &noise(1, 100_000));
    let mut now = Instant::now();
    let mut taken = 0;
    while taken < 6 {
        taken += spool.poll(&mut depot, now).unwrap().len();
        depot.commit().unwrap();
        now += Duration::from_millis(1_100);
    }
    assert!(long.exists());
    let rows: Vec<_> = depot.list(crate::Filter::default()).map(Result::unwrap).collect();
    let of = |priority| rows.iter().filter(|row| row.priority == priority).collect::<Vec<_>>();
    let (alarms, plain, raw) = (of(0), of(3), of(7));
    assert_eq!(rows.len(), alarms.len() + plain.len() + raw.len());
    assert!(alarms.iter().all(|row| row.deadline_s > row.created_s && row.expires_s == 0));
    assert!(plain.iter().all(|row| row.deadline_s == 0 && row.expires_s == 0));
    assert!(raw.iter().all(|row| row.expires_s > row.created_s && row.destination == "archive"), "{raw:?}");
    let files = |row: &&crate::Row| if row.path.is_empty() { 2 } else { 1 };
    assert_eq!([alarms, plain, raw].map(|rows| rows.iter().map(files).sum::<i32>()), [2, 1, 3]);
    // What is urgent goes first, whatever was there before.
    assert_eq!(depot.candidates(&key(PLANE), 9, |_| false).unwrap()[0].priority, 0);
}
