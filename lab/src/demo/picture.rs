//! The camera beside the air side, and a viewer beside the ground side that compares what it sees with what was filmed.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aquila_net::encoder::EncoderKind;
use aquila_net::node::{CameraWishes, FrameGate};
use aquila_proto::cc::EncoderRange;
use aquila_proto::{Bitrate, Side};
use tokio::sync::watch;

use super::links::Links;
use crate::camera::{
    Decoder, Depacketizer, Encoder, EncoderConfig, Packetizer, PacketizerConfig, Scene, Yuv, psnr_luma_db,
    read_frame_number,
};

/// Frames per second.
pub const FRAME_RATE: u32 = 30;
/// The encoder's limits ([AQUILA eq. 7], R_min and R_max).
pub const RANGE: EncoderRange = EncoderKind::OpenH264.range(Bitrate::kbps(150), Bitrate::mbps(6));
const FIRST_RATE: Bitrate = Bitrate::kbps(500);
/// Ticks per second of RTP's clock for video (RFC 6184 §8.2.1).
const RTP_CLOCK: u32 = 90_000;
/// The picture is compared with the original this often: it costs as much as filming it.
const COMPARE_EVERY: u32 = 3;
/// Shown this much later than propagation and encoding allow, a frame counts as late.
const LATE: Duration = Duration::from_millis(200);

/// One frame's fate.
#[derive(Debug, Clone, Copy)]
struct Filmed {
    at: Instant,
    shown: Option<Instant>,
}

/// What was filmed and what was seen.
#[derive(Debug, Default)]
struct Record {
    frames: Vec<Filmed>,
    psnr_sum: f64,
    psnr_count: u64,
    last_psnr: Option<f64>,
}

/// The record, shared by camera, viewer and display.
#[derive(Debug, Clone, Default)]
pub struct PictureLog {
    record: Arc<Mutex<Record>>,
    /// Bits per second asked of the encoder.
    target: Arc<AtomicU64>,
    /// Bytes of RTP sent.
    bytes: Arc<AtomicU64>,
}

/// Frames judged.
#[derive(Debug, Clone, PartialEq)]
pub struct PictureVerdict {
    /// Sent, leaving out those of the last second.
    pub sent: usize,
    /// Of these, decoded and recognised on the ground.
    pub shown: usize,
    /// Of these, more than 200 ms after propagation.
    pub late: usize,
    /// From film to decoded picture of each shown frame.
    pub latencies: Vec<Duration>,
    /// Mean of the luma PSNR of the frames compared, dB.
    pub psnr_db: Option<f64>,
}

impl PictureLog {
    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a picture that was decoded just now, and compares some.
    fn on_shown(&self, picture: &Yuv, scene: &Scene) {
        let shown = Instant::now();
        let Some(number) = read_frame_number(picture) else { return };
        match self.lock().frames.get_mut(number as usize) {
            Some(frame) => drop(frame.shown.get_or_insert(shown)),
            None => return,
        }
        if number % COMPARE_EVERY == 0
            && let Some(psnr) = psnr_luma_db(&scene.render(number), picture)
        {
            let mut record = self.lock();
            record.psnr_sum += psnr;
            record.psnr_count += 1;
            record.last_psnr = Some(psnr);
        }
    }

    /// Judges what was seen over these links.
    pub fn verdict(&self, links: &Links, now: Instant) -> PictureVerdict {
        let record = self.lock();
        let recent = Duration::from_secs(1);
        let judged = || record.frames.iter().filter(|frame| now.saturating_duration_since(frame.at) >= recent);
        let shown = || judged().filter_map(|frame| Some((frame.at, frame.shown?)));
        let is_late =
            |(filmed, shown): &(Instant, Instant)| *shown - *filmed > links.propagation(Side::Air, *filmed) + LATE;
        let latencies: Vec<_> = shown().map(|(filmed, shown)| shown - filmed).collect();
        PictureVerdict {
            sent: judged().count(),
            shown: latencies.len(),
            late: shown().filter(is_late).count(),
            latencies,
            psnr_db: (record.psnr_count > 0).then(|| record.psnr_sum / record.psnr_count as f64),
        }
    }

    /// When the first picture filmed since `since` was shown.
    pub fn first_shown(&self, since: Instant) -> Option<Instant> {
        self.lock().frames.iter().filter(|frame| frame.at >= since).filter_map(|frame| frame.shown).min()
    }

    /// Latency of the newest frame shown, and its quality.
    pub fn newest(&self) -> Option<(Duration, Option<f64>)> {
        let record = self.lock();
        let latency = record.frames.iter().rev().find_map(|frame| Some(frame.shown? - frame.at))?;
        Some((latency, record.last_psnr))
    }

    /// What the encoder is to make.
    pub fn target(&self) -> Bitrate {
        Bitrate(self.target.load(Ordering::Relaxed))
    }

    /// Bytes of RTP that the camera has sent.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Films until `stop`: renders, asks the node for each frame whether and at what rate to encode it, and sends RTP to `to`.
/// Blocks its thread.
///
/// # Errors
/// Of the socket or the encoder.
pub fn film(
    to: SocketAddr,
    gate: &FrameGate,
    mut wishes: watch::Receiver<CameraWishes>,
    log: &PictureLog,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let scene = Scene::default();
    let mut encoder = Encoder::new(EncoderConfig { bitrate: FIRST_RATE, ..EncoderConfig::default() })?;
    let mut packetizer = Packetizer::new(PacketizerConfig::default());
    log.target.store(FIRST_RATE.0, Ordering::Relaxed);
    let mut heard = CameraWishes::default();
    let start = Instant::now();
    for number in 0.. {
        let due = start + Duration::from_secs(1) * number / FRAME_RATE;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if stop.load(Ordering::Relaxed) {
            break;
        }
        // For rates, and whether to film at all, it asks before each frame.
        let wanted = *wishes.borrow_and_update();
        if wanted.recovery_points_since(&heard).next().is_some() {
            encoder.request_idr();
        }
        heard = wanted;
        let filmed = Instant::now();
        let picture = scene.render(number);
        log.lock().frames.push(Filmed { at: filmed, shown: None });
        // What the link does not carry is left out before it is encoded, and breaks nothing.
        let Some(rate) = gate.next_frame() else { continue };
        let rate = RANGE.clamp(rate.asked);
        log.target.store(rate.0, Ordering::Relaxed);
        encoder.set_bitrate(rate);
        // The encoder may leave a frame out to keep its rate; it counts as sent and not shown.
        let Some(encoded) = encoder.encode(&picture)? else { continue };
        for packet in packetizer.packetize(&encoded.annex_b, number.wrapping_mul(RTP_CLOCK / FRAME_RATE)) {
            log.bytes.fetch_add(packet.len() as u64, Ordering::Relaxed);
            // Nobody there yet, or a full buffer: what a camera's network does.
            let _ = socket.send_to(&packet, to);
        }
    }
    Ok(())
}

/// Watches until `stop`: takes RTP from `socket`, decodes, and compares. Blocks its thread.
///
/// # Errors
/// Of the socket or the decoder's set-up.
pub fn watch(socket: &UdpSocket, log: &PictureLog, stop: &AtomicBool) -> anyhow::Result<()> {
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let scene = Scene::default();
    let mut depacketizer = Depacketizer::new();
    let mut decoder = Decoder::new()?;
    let mut buffer = vec![0; 65_536];
    while !stop.load(Ordering::Relaxed) {
        let len = match socket.recv(&mut buffer) {
            Ok(len) => len,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => continue,
            Err(error) => return Err(error.into()),
        };
        depacketizer.handle_packet(&buffer[..len]);
        while let Some(unit) = depacketizer.poll_access_unit() {
            // A picture that cannot be decoded is not shown.
            if let Ok(Some(picture)) = decoder.decode(&unit.annex_b) {
                log.on_shown(&picture, &scene);
            }
        }
    }
    Ok(())
}
