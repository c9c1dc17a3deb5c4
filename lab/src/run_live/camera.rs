//! A node's camera: what the program tells its encoder, and pictures that are encoded while the run lasts.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aquila_proto::{Bitrate, FrameBitrate};
use serde_json::Value;

use super::log::Log;
use super::sockets::PATIENCE;
use crate::frames;
use crate::plan::VideoTraffic;
use crate::run::camera::FrameEncoder;

/// What the program tells its encoder, as far as it was heard.
#[derive(Debug)]
pub struct Wishes {
    /// In bit/s; [`u64::MAX`] before it has told of one.
    rate: AtomicU64,
    recovery: AtomicBool,
    holds: AtomicBool,
}

impl Default for Wishes {
    fn default() -> Self {
        Self { rate: AtomicU64::new(u64::MAX), recovery: AtomicBool::new(false), holds: AtomicBool::new(false) }
    }
}

impl Wishes {
    /// Hears a line as `exec:` writes it (docs/first-flight.md); what is none is ignored.
    pub fn hear(&self, line: &[u8]) {
        let said: Value = serde_json::from_slice(line).unwrap_or_default();
        if let Some(rate) = said.get("bitrate_bps").and_then(Value::as_u64) {
            self.rate.store(rate, Ordering::Relaxed);
        }
        if let Some(holds) = said.get("hold").and_then(Value::as_bool) {
            self.holds.store(holds, Ordering::Relaxed);
        }
        if said.get("recovery_point").is_some() {
            self.recovery.store(true, Ordering::Relaxed);
        }
    }

    /// The rate that the link asks for, if it has asked.
    pub fn rate(&self) -> Option<Bitrate> {
        Some(self.rate.load(Ordering::Relaxed)).filter(|rate| *rate != u64::MAX).map(Bitrate)
    }

    /// Whether pictures are to be left out.
    pub fn holds(&self) -> bool {
        self.holds.load(Ordering::Relaxed)
    }

    /// Whether the next picture has to be a recovery point; asked once.
    pub fn take_recovery(&self) -> bool {
        self.recovery.swap(false, Ordering::Relaxed)
    }
}

/// A flow of video that an encoder makes. What leaves are packets of the sizes that it says, with a unit of H.264 of the right kind in each: the
/// frames themselves are kept by who encodes them.
#[derive(Debug)]
pub struct Shooting {
    /// Its number in the log.
    pub flow: usize,
    /// What the plan says of it.
    pub video: VideoTraffic,
    /// First picture, since the start.
    pub at: Duration,
    /// None from here on.
    pub until: Duration,
    /// Where packets leave.
    pub socket: UdpSocket,
    /// Where they go.
    pub to: SocketAddr,
    /// What the encoder is told.
    pub wishes: Arc<Wishes>,
    /// Where frames are noted.
    pub log: Log,
    /// Propagation of the first link, as the plan begins.
    pub propagation: Duration,
}

impl Shooting {
    /// Films from `start` on until told to stop: each picture when it is due, or as soon as those before it have been encoded.
    pub fn run(self, encoder: &mut dyn FrameEncoder, start: Instant, stop: &AtomicBool) {
        let VideoTraffic { rate: most, start: first, follow, frames_per_second, packet, .. } = self.video;
        let (packet, mut sequence) = (packet.bytes(), 0_u16);
        for number in 0.. {
            let due = self.at + Duration::from_nanos(number * 1_000_000_000 / u64::from(frames_per_second));
            if due >= self.until || !wait_until(start + due, stop) {
                return;
            }
            if follow && self.wishes.holds() {
                self.log.on_skipped(self.flow, due);
                continue;
            }
            let told = self.wishes.rate().or(first.map(|first| first.bitrate())).filter(|_| follow);
            let rate = told.unwrap_or(most.bitrate()).min(most.bitrate());
            let Some(frame) = encoder.encode(number, FrameBitrate::both(rate), self.wishes.take_recovery()) else {
                self.log.on_skipped(self.flow, due);
                continue;
            };
            let packets = frame.bytes.div_ceil(packet).max(1);
            let count = self.log.on_filmed(self.flow, due, frame.bytes, packets as u32, self.propagation);
            for (place, len) in lens(frame.bytes, packet).enumerate() {
                let is_last = place + 1 == packets;
                // What the kernel does not take is lost, as for any application.
                let _ = self.socket.send_to(&frames::h264(sequence, count, len, is_last, frame.recovery), self.to);
                sequence = sequence.wrapping_add(1);
            }
        }
    }
}

/// Of the packets that so many bytes are sent in.
fn lens(bytes: usize, packet: usize) -> impl Iterator<Item = usize> {
    let packets = bytes.div_ceil(packet).max(1);
    (0..packets).map(move |place| packet.min(bytes - place * packet).max(frames::RTP_MIN))
}

/// Whether it has become so late before somebody said stop.
fn wait_until(at: Instant, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(PATIENCE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_what_was_said_last() {
        let wishes = Wishes::default();
        assert_eq!((wishes.rate(), wishes.holds(), wishes.take_recovery()), (None, false, false));
        for line in [
            r#"{"bitrate_bps": 800000}"#,
            r#"{"bitrate_bps": 700000, "hold": true}"#,
            r#"{"recovery_point": true}"#,
            "nonsense",
            r#"{"bitrate_bps": "much", "hold": 1}"#,
        ] {
            wishes.hear(line.as_bytes());
        }
        assert_eq!((wishes.rate(), wishes.holds()), (Some(Bitrate::kbps(700)), true));
        assert!(wishes.take_recovery() && !wishes.take_recovery());
        wishes.hear(br#"{"hold": false}"#);
        assert!(!wishes.holds());
    }

    #[test]
    fn packets_have_all_bytes_of_a_frame() {
        for (bytes, expected) in [(2_500, vec![1_200, 1_200, 100]), (2_400, vec![1_200; 2]), (1, vec![frames::RTP_MIN])]
        {
            assert_eq!(lens(bytes, 1_200).collect::<Vec<_>>(), expected);
        }
    }
}
