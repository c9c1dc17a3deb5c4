//! How fast a store takes files in, and chunks of others, and how much memory it needs with 100,000 objects, a million chunks, queued.
//!
//!     cargo run --release -p aquila-depot --example depot_bench [speed|memory] [FOLDER] [OBJECTS]
//!
//! Speeds are of one thread, with everything synced to the disk that FOLDER is on (the system's temporary folder).

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use aquila_depot::{Config, Depot, PutOptions, Verdict};
use aquila_proto::identity::Identity;
use aquila_proto::transfer::{Chunk, Hash, Kind, Manifest, ObjectId, Offer, StoreId};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Bytes of each file.
const FILE: usize = 8 << 20;
/// Files.
const FILES: usize = 64;
/// Chunks between two promises, as many as come in half a second at 400 Mbit/s.
const COMMIT_EVERY: usize = 400;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_else(|| "speed".into());
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = folder.join(format!("aquila-depot-bench-{}", std::process::id()));
    fs::create_dir(&folder)?;
    let done = match what.as_str() {
        "speed" => speed(&folder),
        "memory" => memory(&folder, arguments.next().map_or(Ok(100_000), |objects| objects.parse())?),
        other => Err(format!("speed or memory, not {other}").into()),
    };
    fs::remove_dir_all(&folder)?;
    done
}

fn identity(seed: u8) -> Arc<Identity> {
    Arc::new(Identity::from_seed([seed; 32]))
}

fn ship(folder: &Path) -> Result<Depot> {
    Ok(Depot::open(folder.join("ship"), Config { min_free: 0, ..Config::new(identity(1)) })?)
}

fn plane(folder: &Path) -> Result<Depot> {
    let sources = vec![identity(1).public()];
    Ok(Depot::open(folder.join("plane"), Config { min_free: 0, sources, ..Config::new(identity(2)) })?)
}

/// Bytes that follow from a seed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| next().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

/// Lines of a log.
fn text(seed: u64, len: usize) -> Vec<u8> {
    let numbers = noise(seed, len / 8);
    let lines = numbers.chunks(8).map(|n| {
        format!("time {:>12} depth {:>5} salinity {:>4}\n", u32::from_le_bytes([n[0], n[1], n[2], 0]), n[3], n[4])
    });
    let mut bytes: Vec<u8> = lines.flat_map(String::into_bytes).collect();
    bytes.truncate(len);
    bytes
}

fn report(what: &str, bytes: usize, began: Instant) {
    let seconds = began.elapsed().as_secs_f64();
    println!("{what}: {:.0} Mbit/s ({} MiB in {seconds:.2} s)", bytes as f64 * 8e-6 / seconds, bytes >> 20);
}

fn speed(folder: &Path) -> Result<()> {
    let write = |name: String, bytes: Vec<u8>| -> Result<PathBuf> {
        let path = folder.join(name);
        fs::File::create(&path)?.write_all(&bytes)?;
        Ok(path)
    };
    let mut files = Vec::new();
    for n in 0..FILES {
        files.push(write(format!("noise-{n}"), noise(n as u64, FILE))?);
    }
    let mut ship = ship(folder)?;
    let began = Instant::now();
    for (file, n) in files.iter().zip(0..) {
        ship.put(file, &format!("noise/{n}"), &PutOptions::default())?;
        ship.commit()?;
    }
    report("intake, cannot be compressed", FILES * FILE, began);

    let mut plane = plane(folder)?;
    let (ship_key, plane_key) = (ship.key(), plane.key());
    let found = ship.candidates(&plane_key, FILES, |_| false)?;
    let mut taking = 0.0;
    let (mut bytes, mut since) = (0, 0);
    for candidate in &found {
        let manifest = ship.load(&candidate.object, 0)?;
        let began = Instant::now();
        plane.on_manifest(&ship_key, &candidate.object, &manifest)?;
        taking += began.elapsed().as_secs_f64();
        for part in 1..=candidate.chunks {
            let chunk = ship.load(&candidate.object, part)?;
            let began = Instant::now();
            assert!(plane.store(&candidate.object, part, &chunk)?.good);
            bytes += chunk.len();
            since += 1;
            if since == COMMIT_EVERY {
                since = 0;
                plane.commit()?;
            }
            taking += began.elapsed().as_secs_f64();
        }
    }
    let began = Instant::now();
    plane.commit()?;
    taking += began.elapsed().as_secs_f64();
    println!("taking: {:.0} Mbit/s ({} MiB in {taking:.2} s)", bytes as f64 * 8e-6 / taking, bytes >> 20);

    let began = Instant::now();
    let mut loaded = 0;
    for candidate in &found {
        for part in 1..=candidate.chunks {
            loaded += ship.load(&candidate.object, part)?.len();
        }
    }
    report("giving", loaded, began);

    let mut files = Vec::new();
    for n in 0..FILES / 2 {
        files.push(write(format!("text-{n}"), text(n as u64, FILE))?);
    }
    let began = Instant::now();
    let mut len = 0;
    for (file, n) in files.iter().zip(0..) {
        len += ship.put(file, &format!("text/{n}"), &PutOptions::default())?.size as usize;
        ship.commit()?;
    }
    report("intake, can be compressed", len, began);

    let small = folder.join("small");
    fs::create_dir(&small)?;
    let mut sources = Vec::new();
    for n in 0..10_000 {
        let file = small.join(n.to_string());
        fs::write(&file, noise(n, 10_000))?;
        sources.push(aquila_depot::Source { file, path: format!("small/{n}") });
    }
    let began = Instant::now();
    for put in ship.put_many(&sources, &PutOptions::default()) {
        put?;
    }
    ship.commit()?;
    report("intake, 10,000 files of 10 kB", 100_000_000, began);
    Ok(())
}

/// Most memory that this process ever had, in MiB.
fn most_memory() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

/// An object of chunks that are 16 bytes each, and all differ.
fn tiny(number: u64, chunks: u64) -> Result<(ObjectId, bytes::Bytes)> {
    let chunk = |n: u64| Chunk { hash: Hash::of(&content(number, n)), len: 16, compressed: 0 };
    let manifest = Manifest {
        kind: Kind::File,
        source: StoreId(*b"benching"),
        key: identity(1).public(),
        number,
        priority: (number % 8) as u8,
        created_s: 1,
        deadline_s: 0,
        expires_s: 0,
        destination: String::new(),
        path: format!("{number}"),
        modified_ns: 0,
        hash: Hash::of(b""),
        chunks: (0..chunks).map(chunk).collect(),
    };
    let bytes = manifest.sign(&identity(1))?;
    Ok((ObjectId(Hash::of(&bytes)), bytes))
}

fn content(number: u64, n: u64) -> [u8; 16] {
    (u128::from(number) << 64 | u128::from(n)).to_be_bytes()
}

fn memory(folder: &Path, objects: u64) -> Result<()> {
    let mut plane = plane(folder)?;
    let (source, peer) = (identity(1).public(), identity(3).public());
    println!("opened: at most {:.1} MiB", most_memory());
    let began = Instant::now();
    // Objects of 8 chunks, and one of 200,000.
    let (mut slowest, mut big) = (0.0f64, None);
    for number in 1..=objects + 1 {
        let chunks = if number > objects { 200_000 } else { 8 };
        let (object, bytes) = tiny(number, chunks)?;
        let offer =
            Offer { object, manifest_len: bytes.len() as u32, wire_len: 16 * chunks, priority: 0, deadline_s: 0 };
        if number > objects {
            println!(
                "100,000 objects, 800,000 chunks: {:.0} s, at most {:.1} MiB",
                began.elapsed().as_secs_f64(),
                most_memory()
            );
        }
        let at = Instant::now();
        assert_eq!(plane.on_offer(&source, &offer)?, Verdict::WantManifest);
        plane.on_manifest(&source, &object, &bytes)?;
        if chunks > 8 {
            println!("on_manifest of 200,000 chunks: {:.0} ms", at.elapsed().as_secs_f64() * 1e3);
            let at = Instant::now();
            plane.on_offer(&source, &offer)?;
            println!("on_offer of 200,000 chunks: {:.0} ms", at.elapsed().as_secs_f64() * 1e3);
            big = Some((object, offer));
        }
        for n in 0..chunks {
            let at = Instant::now();
            assert!(plane.store(&object, n + 1, &content(number, n))?.good);
            slowest = slowest.max(at.elapsed().as_secs_f64());
        }
        if number % 100 == 0 {
            plane.commit()?;
        }
    }
    let at = Instant::now();
    plane.commit()?;
    println!("last commit: {:.0} ms; slowest store: {:.0} ms", at.elapsed().as_secs_f64() * 1e3, slowest * 1e3);
    println!("and one of 200,000: {:.1} s, at most {:.1} MiB", began.elapsed().as_secs_f64(), most_memory());
    let at = Instant::now();
    let found = plane.candidates(&peer, 64, |_| false)?;
    println!("first candidates of a peer: {:.1} ms", at.elapsed().as_secs_f64() * 1e3);
    assert_eq!(found.len(), 64);
    let at = Instant::now();
    for _ in 0..1_000 {
        let found = plane.candidates(&peer, 64, |_| false)?;
        plane.on_given(&peer, &found[0].object)?;
    }
    println!("candidates and on_given: {:.3} ms", at.elapsed().as_secs_f64());
    if let Some((object, offer)) = big {
        assert_eq!(plane.on_offer(&source, &offer)?, Verdict::HaveCustody);
        let at = Instant::now();
        assert!(plane.load(&object, 0)?.len() > 6 << 20);
        for part in (1..=200_000).step_by(20) {
            plane.load(&object, part)?;
        }
        println!("load: {:.3} ms", at.elapsed().as_secs_f64() / 10.0);
    }
    plane.health()?;
    plane.summary()?;
    let at = Instant::now();
    println!(
        "objects listed: {} in {:.0} ms",
        plane.list(Default::default()).count(),
        at.elapsed().as_secs_f64() * 1e3
    );
    let size =
        fs::metadata(folder.join("plane/state.db"))?.len() + fs::metadata(folder.join("plane/state.db-wal"))?.len();
    println!("the database: {} MiB", size >> 20);
    println!("at most {:.1} MiB in memory", most_memory());
    Ok(())
}
