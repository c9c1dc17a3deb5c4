//! A file transfer over TCP on the same radio: the lab's model of Linux' TCP ([`crate::run::tcp`]) with CUBIC, one connection in
//! which all files follow each other.
//!
//! It is what FTP or rsync would reach at best: no greeting and no name of a file takes a round trip, nothing is encrypted or verified,
//! a file in pieces goes on where it was, and the connection is never given up, however long it hears nothing.

use std::time::Duration;

use aquila_emu::{Loss, Path, PathConfig, Payload};

use super::Second;
use crate::run::tcp::connection::Connection;
use crate::run::tcp::cubic::Cubic;
use crate::run::tcp::segment::{Kind, Segment};
use crate::run::tcp::ticks::Ticks;

/// What waits in the sender's socket: the largest of `net.ipv4.tcp_wmem`.
const BUFFER: u64 = 4 << 20;

#[derive(Debug)]
struct Carried(Segment);

impl Payload for Carried {}

/// Carries `bytes` over a radio, both ways alike, and gives how many have come in order at the end of each second, until all have or
/// the radio ends.
///
/// The client connects at the beginning and sends. Packets are those of the model, of 1500 bytes at most with their IP header.
pub fn carry(bytes: u64, radio: &[Second], path: PathConfig, seed: u64) -> Vec<u64> {
    let start = crate::run::origin();
    // Machines that have been up for some hours, whose timers are at different places in their ticks.
    let uptime = |node: u64| Duration::from_micros((seed ^ node).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 31);
    let ticks = [0, 1].map(|node| Ticks::since(start.checked_sub(uptime(node)).unwrap_or(start)));
    let mut client = Connection::connect(start, Box::<Cubic>::default(), ticks[0]);
    let mut server: Option<Connection> = None;
    let mut paths = [seed, !seed].map(|seed| Path::<Carried>::new(path, seed));
    let (mut now, mut written, mut read, mut log) = (start, 0, 0, Vec::with_capacity(radio.len()));
    for (second, at) in (0..).map(Duration::from_secs).zip(radio) {
        let (begin, end) = (start + second, start + second + Duration::from_secs(1));
        for path in &mut paths {
            path.set_rate(begin, Some(if at.away { 0 } else { at.rate.0 }));
            path.set_air_loss(begin, Loss::Independent(if at.away { 1.0 } else { at.loss }));
        }
        now = now.max(begin);
        loop {
            while let Some(Carried(segment)) = paths[0].pop(now) {
                if server.is_none() && segment.kind == Kind::Syn {
                    server = Some(Connection::accept(now, &segment, Box::<Cubic>::default(), ticks[1]));
                }
                if let Some(server) = &mut server {
                    server.handle_segment(now, &segment);
                }
            }
            while let Some(Carried(segment)) = paths[1].pop(now) {
                client.handle_segment(now, &segment);
            }
            client.handle_timeout(now);
            let more = BUFFER.saturating_sub(client.buffered()).min(bytes - written);
            client.write(now, more);
            written += more;
            while let Some(segment) = client.poll_transmit(now) {
                let _ = paths[0].push(now, segment.bytes(), Carried(segment));
            }
            if let Some(server) = &mut server {
                server.handle_timeout(now);
                read += server.read();
                while let Some(segment) = server.poll_transmit(now) {
                    let _ = paths[1].push(now, segment.bytes(), Carried(segment));
                }
            }
            let of_ends = [Some(&client), server.as_ref()].into_iter().flatten().filter_map(Connection::next_deadline);
            let next = paths.iter().filter_map(Path::next_delivery).chain(of_ends).min();
            match next.map(|next| next.max(now)).filter(|next| *next < end) {
                Some(next) => now = next,
                None => break,
            }
        }
        log.push(read);
        if read >= bytes {
            break;
        }
    }
    log
}

#[cfg(test)]
mod tests {
    use aquila_emu::Queue;
    use aquila_proto::Bitrate;

    use super::*;

    fn path() -> PathConfig {
        let delay = Duration::from_millis(3);
        PathConfig { rate_bps: Some(0), delay, queue: Queue::packets(256), ..PathConfig::default() }
    }

    fn steady(mbps: u64, loss: f64, seconds: usize) -> Vec<Second> {
        vec![Second { rate: Bitrate::mbps(mbps), loss, away: false }; seconds]
    }

    #[test]
    fn a_clean_radio_is_filled_and_a_lossy_one_is_not() {
        let mbps = |loss| *carry(u64::MAX, &steady(10, loss, 60), path(), 1).last().unwrap() as f64 * 8.0 / 60e6;
        let (clean, lossy, worse) = (mbps(0.0), mbps(0.1), mbps(0.2));
        println!("{clean:.2} {lossy:.2} {worse:.2} Mbit/s");
        // 1448 of 1500 bytes, and the first seconds.
        assert!((9.3..=9.66).contains(&clean), "{clean}");
        assert!((0.3..4.5).contains(&lossy) && worse < 0.6 * lossy, "{lossy} {worse}");
    }

    #[test]
    fn nothing_comes_while_nobody_is_there_and_it_goes_on_afterwards() {
        let away = Second { rate: Bitrate(0), loss: 1.0, away: true };
        let radio = [steady(10, 0.0, 10), vec![away; 5], steady(10, 0.0, 15)].concat();
        let log = carry(u64::MAX, &radio, path(), 1);
        assert_eq!(log.len(), 30);
        assert_eq!(log[10..15].iter().max(), log[10..15].iter().min(), "{log:?}");
        assert!(log[9] > 8_000_000 && log[29] > log[14] + 6_000_000, "{log:?}");
        assert_eq!(log, carry(u64::MAX, &radio, path(), 1));
        let lossy = |seed| carry(u64::MAX, &steady(10, 0.1, 5), path(), seed);
        assert_ne!(lossy(1), lossy(2));
        // What there is, and no more: 5 MB at 10 Mbit/s.
        let log = carry(5_000_000, &radio, path(), 1);
        assert_eq!((log.len(), log.last()), (5, Some(&5_000_000)), "{log:?}");
    }
}
