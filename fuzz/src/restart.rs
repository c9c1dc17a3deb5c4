//! What an end finds on its disk when it starts: its own files, perhaps torn, perhaps of another version.

use std::path::{Path, PathBuf};
use std::time::Duration;

use aquila_net::store::Store;
use aquila_proto::identity::Identity;
use aquila_proto::quic::TicketStore;
use aquila_proto::{BearerId, Output, Session, SessionConfig, Side};

use crate::input::{Input, epoch};
use crate::quic::{GROUND, SINCE_1970, address, quic_config};

/// A replay window. Both forms of stored state end with a SHA-256, which is added here, or nothing would get past it.
pub fn replay_window(data: &[u8]) {
    start(Side::Ground, Some(data), None);
}

/// The transcript that a client's tickets follow from, enacted again.
pub fn resumption(data: &[u8]) {
    start(Side::Air, None, Some(data));
}

fn start(side: Side, replay: Option<&[u8]>, resumption: Option<&[u8]>) {
    let now = epoch();
    for with_digest in [false, true] {
        let complete = |bytes: &[u8]| match with_digest {
            true => {
                let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
                [bytes, digest.as_ref()].concat()
            }
            false => bytes.to_vec(),
        };
        let quic = quic_config(side, side == Side::Ground);
        let mut config = SessionConfig::new(side, quic, now, SINCE_1970, [3; 32]);
        config.replay = replay.map(complete);
        config.bearers[0].resumption = resumption.map(complete);
        // Whatever was stored, an end starts, and can connect.
        let mut session = Session::new(config).expect("damaged state is no reason not to start");
        if side == Side::Air {
            session.connect(now, BearerId::FIRST, address(GROUND)).expect("a valid address");
            while !matches!(session.poll_output(now), Output::Timeout(_)) {}
            while session.resumption_snapshot().is_some() {}
        }
    }
}

/// The files of the store.
pub fn store(data: &[u8]) {
    let mut input = Input(data);
    SCRATCH.with(|scratch| {
        let peer = Identity::from_seed([1; 32]).public();
        let dir = scratch.0.join(peer.fingerprint());
        std::fs::create_dir_all(&dir).expect("room for a folder");
        for name in ["starts", "replay", "resumption"] {
            std::fs::write(dir.join(name), input.long_bytes()).expect("room for a small file");
        }
        let (used, mut tickets, whole) = (input.long_bytes(), input.long_bytes().to_vec(), input.bool());
        if whole {
            let digest = ring::digest::digest(&ring::digest::SHA256, &tickets);
            tickets.extend_from_slice(digest.as_ref());
        }
        std::fs::write(dir.join("used"), used).expect("room for a small file");
        std::fs::write(dir.join("tickets"), tickets).expect("room for a small file");
        let mut store = Store::open(&scratch.0, &peer).expect("a folder of our own");
        let first = store.next_epoch(SINCE_1970);
        assert!(store.next_epoch(Duration::ZERO) > first || first == u32::MAX);
        let _ = store.load_resumption(BearerId::FIRST);
        // Whatever was stored, a ticket is given out once.
        let tickets = store.tickets();
        tickets.put(b"new", b"secret");
        assert_eq!(tickets.take(b"new").as_deref(), Some(&b"secret"[..]));
        assert_eq!(tickets.take(b"new"), None);
        let _ = tickets.take(b"old");
        assert_eq!(tickets.take(b"old"), None);
        if let Some(snapshot) = store.load_replay() {
            // What was found can be stored again, and is found again.
            store.save_replay(&snapshot);
            drop(store);
            let mut reborn = Store::open(&scratch.0, &peer).expect("a folder of our own");
            assert_eq!(reborn.load_replay(), Some(snapshot));
        }
    });
}

/// A folder of this thread's own, removed with it.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

thread_local! {
    static SCRATCH: Scratch = {
        let name = format!("aquila-fuzz-{}-{:?}", std::process::id(), std::thread::current().id());
        Scratch(Path::new(&std::env::temp_dir()).join(name))
    };
}
