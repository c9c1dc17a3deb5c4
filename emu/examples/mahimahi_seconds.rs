//! Plays mahimahi traces under overload and compares, second by second, what is delivered with the trace's lines: 1500
//! bytes each.
//!
//! ```text
//! cargo run --release -p aquila-emu --example mahimahi_seconds -- FILE...
//! ```
//!
//! Each trace is played to its end and, since it begins again there, a second time. The exit code is 1 if a second differs.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a program has files and a clock")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use aquila_emu::trace::mahimahi::MahimahiTrace;
use aquila_emu::{Path, PathConfig, Queue};

/// What is sent, and an opportunity: bytes.
const PACKET: usize = 1500;
/// Opportunities are in whole milliseconds.
const TICK: Duration = Duration::from_millis(1);

fn main() -> ExitCode {
    let mut differs = false;
    for name in std::env::args().skip(1) {
        match seconds(&name) {
            Ok((trace, delivered)) => {
                let largest = trace.iter().zip(&delivered).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0);
                let (total, came) = (trace.iter().sum::<u64>(), delivered.iter().sum::<u64>());
                println!(
                    "{name}: {} s, trace {total} bytes, delivered {came}, largest difference of a second {largest}",
                    trace.len()
                );
                differs |= largest > 0;
            }
            Err(error) => {
                println!("{name}: {error}");
                differs = true;
            }
        }
    }
    ExitCode::from(u8::from(differs))
}

/// Bytes of each second by the trace's lines, and as delivered.
fn seconds(name: &str) -> Result<(Vec<u64>, Vec<u64>), Box<dyn std::error::Error>> {
    let lines = BufReader::new(File::open(name)?).lines();
    let times: Vec<u64> =
        lines.map(|line| Ok(line?.trim().parse()?)).collect::<Result<_, Box<dyn std::error::Error>>>()?;
    let length = *times.last().ok_or("an empty trace")?;
    let twice = times.iter().copied().chain(times.iter().map(|at| at + length));
    let mut by_lines = vec![0; (2 * length).div_ceil(1000) as usize + 1];
    // What is at 0 comes before any packet; at the very end a third time begins.
    twice.filter(|at| (1..2 * length).contains(at)).for_each(|at| by_lines[(at / 1000) as usize] += PACKET as u64);
    Ok((by_lines, deliver(name, 2 * length)?))
}

fn deliver(name: &str, length_ms: u64) -> Result<Vec<u64>, Box<dyn std::error::Error>> {
    let start = Instant::now();
    let mut path = Path::new(PathConfig { queue: Queue::bytes(4_000_000), ..PathConfig::default() }, 0);
    let trace = MahimahiTrace::open(BufReader::new(File::open(name)?))?;
    path.play_opportunities(start, start, trace.into_opportunities());
    let mut delivered = vec![0; length_ms.div_ceil(1000) as usize + 1];
    for ms in 1..length_ms {
        let now = start + TICK * u32::try_from(ms)?;
        while path.stats().queue_bytes < 2_000_000 && path.push(now - TICK, PACKET, ()).is_ok() {}
        while path.pop(now).is_some() {
            delivered[(ms / 1000) as usize] += PACKET as u64;
        }
    }
    match path.trace_fault() {
        None => Ok(delivered),
        Some(fault) => Err(fault.to_string().into()),
    }
}
