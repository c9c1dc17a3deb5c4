//! The store's files, across restarts, kills and power cuts.

use std::collections::BTreeSet;
use std::time::Instant;

use aquila_proto::identity::Identity;
use aquila_proto::quic::TicketStore;

use super::tickets::MAX_TICKETS;
use super::*;

fn dir(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("aquila-store-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    dir
}

fn open(dir: &Path) -> Store {
    Store::open(dir, &peer()).unwrap()
}

/// With a folder in memory, here `run` in `dir`.
fn open_both(dir: &Path) -> Store {
    Store::open_in(&dir.join("state"), Some(&dir.join("run")), &peer()).unwrap()
}

fn peer() -> PublicKey {
    Identity::from_seed([1; 32]).public()
}

/// What a kill leaves: nothing is written any more, not even what the thread had still to do.
fn kill(store: Store) {
    store.work.kill();
}

/// A window that has seen nothing: the magic number and a digest over it.
fn whole_replay_window() -> Vec<u8> {
    window(&[])
}

/// One in which lives of the peer are known, each with nothing delivered.
fn window(lives: &[u64]) -> Vec<u8> {
    let mut bytes = b"aqR2".to_vec();
    for life in lives {
        bytes.extend_from_slice(&life.to_be_bytes());
        bytes.extend_from_slice(&[0; 8 + 2048 / 8]);
    }
    bytes.extend_from_slice(ring::digest::digest(&ring::digest::SHA256, &bytes.clone()).as_ref());
    bytes
}

fn wait_for(what: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !what() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn tickets_survive_a_restart_and_are_given_out_once() {
    let dir = dir("tickets");
    assert!(open(&dir).tickets().put(b"key", b"secret"));
    let reborn = open(&dir);
    assert_eq!(reborn.tickets().take(b"key"), Some(b"secret".to_vec()));
    assert_eq!(reborn.tickets().take(b"key"), None);
    drop(reborn);
    assert_eq!(open(&dir).tickets().take(b"key"), None);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn the_oldest_tickets_go_first() {
    let dir = dir("oldest");
    let store = open(&dir);
    for n in 0..MAX_TICKETS as u8 + 5 {
        store.tickets().put(&[n], &[n]);
    }
    drop(store);
    let tickets = open(&dir).tickets();
    assert_eq!(tickets.take(&[4]), None);
    assert!((5..MAX_TICKETS as u8 + 5).all(|n| tickets.take(&[n]) == Some(vec![n])));
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_ticket_that_was_used_just_before_a_kill_is_not_given_out_again() {
    for with_volatile in [false, true] {
        let dir = dir(&format!("killed-{with_volatile}"));
        let open = || if with_volatile { open_both(&dir) } else { open(&dir) };
        let store = open();
        for n in 0..4 {
            store.tickets().put(&[n], &[n]);
        }
        drop(store);
        for n in 0..4 {
            let store = open();
            assert_eq!(store.tickets().take(&[n]), Some(vec![n]));
            kill(store);
            let reborn = open();
            assert!((0..=n).all(|used| reborn.tickets().take(&[used]).is_none()), "after {n}");
            kill(reborn);
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn a_ticket_that_was_used_before_a_kill_is_off_the_disk_soon_after() {
    let dir = dir("off-disk");
    let store = open_both(&dir);
    store.tickets().put(b"key", b"secret");
    drop(store);
    let store = open_both(&dir);
    assert!(store.tickets().take(b"key").is_some());
    kill(store);
    drop(open_both(&dir));
    // A power cut: what was in memory is gone.
    fs::remove_dir_all(dir.join("run")).unwrap();
    assert_eq!(open_both(&dir).tickets().take(b"key"), None);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn the_record_of_used_tickets_does_not_grow_while_the_disk_is_stuck() {
    let dir = dir("stuck");
    let store = open(&dir);
    for n in 0..MAX_TICKETS as u8 {
        store.tickets().put(&[n], &[n]);
    }
    drop(store);
    let store = open(&dir);
    // A folder in its place: nothing can be renamed to it.
    let path = store.dir.join("tickets");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    for n in 0..1000u16 {
        assert_eq!(
            store.tickets().take(&(n as u8 % MAX_TICKETS as u8).to_be_bytes()).is_some(),
            n < MAX_TICKETS as u16
        );
        store.tickets().put(&n.to_be_bytes(), b"new");
        assert!(store.tickets().take(&n.to_be_bytes()).is_some(), "{n}");
    }
    drop(store);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_full_disk_costs_what_a_restart_would_have_kept_and_nothing_now() {
    let dir = dir("full");
    let mut store = open(&dir);
    // /dev/full says "no space left" to each write; here it is the folder that takes no file.
    fs::remove_dir_all(&store.dir).unwrap();
    fs::write(&store.dir, b"in the way").unwrap();
    let tickets = store.tickets();
    assert!(tickets.put(b"key", b"secret"));
    assert_eq!(tickets.take(b"other"), None);
    assert_eq!(tickets.take(b"key"), Some(b"secret".to_vec()), "still good in this life");
    store.save_resumption(BearerId::FIRST, b"x");
    store.save_replay(&whole_replay_window());
    drop(store);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_used_ticket_that_cannot_be_written_down_is_not_given_out() {
    let dir = dir("unwritable");
    let store = open(&dir);
    store.tickets().put(b"key", b"secret");
    store.tickets().put(b"other", b"secret");
    drop(store);
    let used = open(&dir).dir.join("used");
    fs::remove_file(&used).unwrap();
    fs::create_dir(&used).unwrap();
    let store = open(&dir);
    assert_eq!(store.tickets().take(b"key"), None);
    store.tickets().put(b"of this life", b"secret");
    assert!(store.tickets().take(b"of this life").is_some(), "never was on disk");
    drop(store);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn damaged_tickets_are_no_tickets() {
    let dir = dir("damaged");
    let store = open(&dir);
    store.tickets().put(b"key", b"secret");
    let path = store.dir.join("tickets");
    drop(store);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&path, &damaged).unwrap();
        let store = open(&dir);
        assert_eq!(store.tickets().take(b"key"), None, "byte {at}");
        kill(store);
    }
    fs::write(&path, &whole).unwrap();
    assert!(open(&dir).tickets().take(b"key").is_some());
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn epochs_grow_whatever_the_clock_does() {
    let dir = dir("epochs");
    let first = open(&dir).next_epoch(Duration::from_secs(1_790_000_000));
    let second = open(&dir).next_epoch(Duration::from_secs(1_000));
    assert!(second > first);
    assert!(open(&dir).next_epoch(Duration::from_secs(1_900_000_000)) > second);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn the_newest_whole_replay_window_is_loaded() {
    let dir = dir("replay");
    let mut store = open(&dir);
    assert_eq!(store.load_replay(), None);
    let (whole, torn) = (whole_replay_window(), b"torn");
    store.save_replay(&whole);
    drop(store);
    let mut store = open(&dir);
    assert_eq!(store.load_replay(), Some(whole.clone()));
    store.save_replay(torn);
    drop(store);
    let mut reborn = open(&dir);
    assert_eq!(reborn.load_replay(), Some(whole.clone()), "the one before");
    reborn.save_replay(&whole);
    drop(reborn);
    assert_eq!(open(&dir).load_replay(), Some(whole));
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_window_that_was_saved_just_before_a_kill_is_loaded() {
    let dir = dir("replay-killed");
    let (first, second) = (window(&[1]), window(&[1, 2]));
    let mut store = open_both(&dir);
    store.save_replay(&first);
    store.save_replay(&second);
    kill(store);
    assert_eq!(open_both(&dir).load_replay(), Some(second));
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_power_cut_leaves_the_window_on_disk() {
    let dir = dir("replay-power");
    let (first, second) = (window(&[1]), window(&[1, 2]));
    let mut store = open_both(&dir);
    store.save_replay(&first);
    let copy = store.dir.join(REPLAY_COPY);
    wait_for(|| !guard::windows(&fs::read(&copy).unwrap()).is_empty());
    kill(store);
    fs::remove_dir_all(dir.join("run")).unwrap();
    let mut reborn = open_both(&dir);
    assert_eq!(reborn.load_replay(), Some(first));
    reborn.save_replay(&second);
    drop(reborn);
    assert_eq!(open_both(&dir).load_replay(), Some(second), "it counts on from there");
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_folder_in_memory_that_goes_away_is_replaced_by_the_one_on_disk() {
    let dir = dir("logout");
    let (first, second) = (window(&[1]), window(&[1, 2]));
    let mut store = open_both(&dir);
    store.tickets().put(b"key", b"secret");
    store.save_replay(&first);
    drop(store);
    let mut store = open_both(&dir);
    assert_eq!(store.load_replay(), Some(first));
    fs::remove_dir_all(dir.join("run")).unwrap();
    store.save_replay(&second);
    assert!(store.tickets().take(b"key").is_some());
    kill(store);
    let mut reborn = open_both(&dir);
    assert_eq!(reborn.load_replay(), Some(second));
    assert_eq!(reborn.tickets().take(b"key"), None);
    drop(reborn);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn associations_and_state_folders_do_not_meet_in_memory() {
    let (dir, other) = (dir("apart"), Identity::from_seed([2; 32]).public());
    let run = dir.join("run");
    for (state, peer) in [("a", peer()), ("a", other), ("b", peer())] {
        let mut store = Store::open_in(&dir.join(state), Some(&run), &peer).unwrap();
        assert_eq!(store.load_replay(), None);
        store.save_replay(&whole_replay_window());
    }
    let names: BTreeSet<_> = fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn without_a_state_folder_the_one_in_memory_still_serves() {
    let dir = dir("memory-only");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("state"), b"in the way").unwrap();
    open_both(&dir).save_replay(&whole_replay_window());
    assert_eq!(open_both(&dir).load_replay(), Some(whole_replay_window()));
    fs::write(dir.join("run2"), b"in the way").unwrap();
    assert!(Store::open_in(&dir.join("state"), Some(&dir.join("run2")), &peer()).is_err());
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_folder_is_used_by_one_process_at_a_time() {
    let dir = dir("locked");
    let store = open(&dir);
    let second = Store::open(&dir, &peer());
    assert_eq!(second.unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    drop(store);
    assert!(Store::open(&dir, &peer()).is_ok());
    fs::remove_dir_all(&dir).unwrap();
}
