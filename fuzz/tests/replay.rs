//! The fuzz targets on stable: every input of the corpus, and random changes of them, from a fixed seed.
//!
//! An input that a target fails on is written to `fuzz/artifacts/<target>/`, as libFuzzer does.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aquila_fuzz::{TARGETS, Target};

/// Changed inputs for each target. On a slow machine there may be fewer, see [`PATIENCE`].
const MUTATIONS: u64 = 2000;
/// No target takes longer.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest input that is made.
const MAX_LEN: usize = 4096;

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test] fn $name() { replay(stringify!($name), aquila_fuzz::$name); })*

        #[test]
        fn every_target_is_replayed() {
            let mut replayed = [$(stringify!($name)),*];
            replayed.sort_unstable();
            assert_eq!(replayed.to_vec(), TARGETS.map(|(name, _)| name).to_vec());
        }
    };
}

targets! {
    association bearer bundle cast config copies correct deframer endpoint flight_log gateway inner_options mavlink mission pack passthrough reassembly replay_window
    resumption router rtp scenario score segment session store tables tcpcl texts trace transfer video_queue window wire
}

fn replay(name: &str, target: Target) {
    let began = Instant::now();
    let seeds = seeds(name);
    assert!(!seeds.is_empty(), "fuzz/corpus/{name} is empty");
    for (path, seed) in &seeds {
        run(name, target, seed, &path.display().to_string());
    }
    let mut random = Random(0x5eed);
    let mut done = 0;
    while done < MUTATIONS && began.elapsed() < PATIENCE {
        let mut input = seeds[random.below(seeds.len())].1.clone();
        let other = &seeds[random.below(seeds.len())].1;
        for _ in 0..1 + random.below(6) {
            change(&mut input, other, &mut random);
        }
        input.truncate(MAX_LEN);
        run(name, target, &input, &format!("mutation {done}"));
        done += 1;
    }
    println!("{name}: {} inputs and {done} changes of them in {:.1} s", seeds.len(), began.elapsed().as_secs_f64());
}

fn run(name: &str, target: Target, input: &[u8], what: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) {
        let folder = root().join("artifacts").join(name);
        let path = folder.join("crash-on-stable");
        let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, input));
        eprintln!("{name} fails on {what}, kept as {}: {written:?}", path.display());
        resume_unwind(panic);
    }
}

/// The corpus of a target, in a fixed order.
fn seeds(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = root().join("corpus").join(name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).expect("readable"))).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// One change, of the kinds that libFuzzer makes.
fn change(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    /// Magic bytes, boundaries of varints, and what ends numbers.
    const TELLING: [u8; 12] = [0, 1, 0x3f, 0x40, 0x7f, 0x80, 0xbf, 0xc0, 0xfd, 0xfe, 0xff, b':'];
    let at = random.below(input.len() + 1);
    let end = (at + 1 + random.below(16)).min(input.len());
    match (random.below(8), input.get_mut(at)) {
        (0, Some(byte)) => *byte ^= 1 << random.below(8),
        (1, Some(byte)) => *byte = random.next() as u8,
        (2, Some(byte)) => *byte = TELLING[random.below(TELLING.len())],
        (3, Some(_)) => drop(input.drain(at..end)),
        (4, Some(_)) => {
            let again = input[at..end].to_vec();
            drop(input.splice(at..at, again));
        }
        (5, _) => input.truncate(at),
        (6, _) if !other.is_empty() => {
            let from = random.below(other.len());
            drop(input.splice(at..at, other[from..].iter().take(64).copied()));
        }
        _ => input.insert(at, random.next() as u8),
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014): enough for choosing.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}
