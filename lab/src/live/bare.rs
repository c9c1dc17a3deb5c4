//! A forwarder without cells: the emulator's loop and nothing in it, to compare with. For the benchmark.

use std::fs::File;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use aquila_emu::{PathStats, Tally};
use nix::unistd::{read, write};

use super::emulator::{BATCH, Look, Order, Setup, cpu, prioritise};
use super::health::{Priority, Refused, histogram};
use super::records::INTERVAL;
use super::wait::Wait;

pub(super) fn run(setup: Setup) {
    let Setup { lines, orders, wake, largest_mtu, realtime, .. } = setup;
    let priority = if realtime { prioritise() } else { Priority::Normal };
    let tuns: Vec<File> = lines.into_iter().flat_map(|line| line.tuns).collect();
    let mut buffer = vec![0; largest_mtu + 4];
    let mut forwarded = Tally::default();
    let mut wait = Wait::new(&tuns, &wake);
    loop {
        let mut busy = false;
        for (port, readable) in wait.readable.iter_mut().enumerate().filter(|(_, readable)| **readable) {
            *readable = forward(&tuns[port], &tuns[port ^ 1], &mut buffer, &mut forwarded);
            busy |= *readable;
        }
        if !wait.wait((!busy).then(|| Instant::now() + INTERVAL)) {
            continue;
        }
        let _ = wake.read();
        loop {
            match orders.try_recv() {
                Ok(Order::Stop) | Err(TryRecvError::Disconnected) => return,
                Ok(Order::Look(answer)) => drop(answer.send(look(priority, forwarded))),
                Ok(_) => {}
                Err(TryRecvError::Empty) => break,
            }
        }
    }
}

fn forward(from: &File, to: &File, buffer: &mut [u8], forwarded: &mut Tally) -> bool {
    for _ in 0..BATCH {
        let Ok(len) = read(from, buffer) else { return false };
        let _ = write(to, &buffer[..len]);
        forwarded.packets += 1;
        forwarded.bytes += len as u64;
    }
    true
}

/// The thread's processor time since it began, and what it forwarded in either direction.
fn look(priority: Priority, forwarded: Tally) -> Look {
    Look {
        since: Instant::now(),
        lateness: histogram(),
        late_change: Duration::ZERO,
        overruns: 0,
        refused: Refused::default(),
        lost_records: 0,
        cpu: cpu(),
        priority,
        fault: None,
        stats: vec![[PathStats { input: forwarded, output: forwarded, ..PathStats::default() }, PathStats::default()]],
    }
}
