//! How long the link's loop waits for the store while something else keeps the same disk busy.
//!
//! ```sh
//! cargo run --release -p aquila-net --example store_latency -- STATE_DIR [VOLATILE_DIR]
//! ```
//!
//! Calls what the loop calls, 50 times a second for 20 s: the replay window for each, the client's tickets for every
//! 10th, and for every 25th a handshake's worth of the server's tickets, of which one is used. Meanwhile two threads
//! write 4 MB each and sync it, over and over, and make and remove small files.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use aquila_net::store::Store;
use aquila_proto::identity::Identity;
use aquila_proto::quic::TicketStore;

const ROUNDS: u64 = 1000;
const INTERVAL: Duration = Duration::from_millis(20);

fn main() {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let Some(state) = arguments.next() else {
        eprintln!("usage: store_latency STATE_DIR [VOLATILE_DIR]");
        std::process::exit(2);
    };
    let volatile = arguments.next();
    let ending = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for n in 0..2 {
            let (ending, dir) = (&ending, state.join(format!("busy-{n}")));
            scope.spawn(move || keep_busy(&dir, ending));
        }
        measure(&state, volatile.as_deref());
        ending.store(true, Relaxed);
    });
}

fn measure(state: &Path, volatile: Option<&Path>) {
    let peer = Identity::from_seed([1; 32]).public();
    let mut store = Store::open_in(state, volatile, &peer).expect("a folder to write to");
    let tickets = store.tickets();
    let (mut replay, mut resumption, mut put, mut take) = (vec![], vec![], vec![], vec![]);
    for round in 0..ROUNDS {
        timed(&mut replay, || store.save_replay(&[7; 1124]));
        if round % 10 == 0 {
            timed(&mut resumption, || store.save_resumption(aquila_proto::BearerId::FIRST, &[8; 2000]));
        }
        if round % 25 == 0 {
            for n in 0..8 {
                timed(&mut put, || tickets.put(&[round.to_be_bytes(), [n; 8]].concat(), &[9; 300]));
            }
            timed(&mut take, || tickets.take(&[round.saturating_sub(25).to_be_bytes(), [0; 8]].concat()));
        }
        std::thread::sleep(INTERVAL);
    }
    println!("{:26}{:>8}{:>10}{:>10}{:>10}   ms", "call", "calls", "p50", "p99", "max");
    let rows = [
        ("replay window", replay),
        ("client's tickets", resumption),
        ("server's ticket kept", put),
        ("and used", take),
    ];
    for (name, mut times) in rows {
        times.sort();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        println!("{name:26}{:>8}{:>10.3}{:>10.3}{:>10.3}", times.len(), at(0.5), at(0.99), at(1.0));
    }
}

fn timed<T>(times: &mut Vec<Duration>, call: impl FnOnce() -> T) {
    let before = Instant::now();
    call();
    times.push(before.elapsed());
}

fn keep_busy(dir: &Path, ending: &AtomicBool) {
    fs::create_dir_all(dir).expect("room for a folder");
    let block = vec![0x5a; 4 << 20];
    for n in 0u64.. {
        if ending.load(Relaxed) {
            break;
        }
        let path = dir.join(format!("{}", n % 16));
        let _ = fs::remove_file(&path);
        let written = File::create(&path).and_then(|mut file| file.write_all(&block).and_then(|()| file.sync_all()));
        if let Err(error) = written.and_then(|()| File::open(dir)?.sync_all()) {
            eprintln!("{error}");
            break;
        }
    }
    let _ = fs::remove_dir_all(dir);
}
