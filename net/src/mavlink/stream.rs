//! Frames over byte streams: what serial lines and TCP connections have in common.

use std::io;
use std::time::Duration;

use aquila_proto::mavlink::{EndpointId, Splitter};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::outgoing::{Backlog, Queued};
use super::status::{Count, Meter};
use super::{Endpoint, EndpointEvent};

/// How a stream is read and written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// A frame whose end has not come after this long without a byte is given up; `None`: a gap means nothing.
    pub(super) quiet: Option<Duration>,
    /// A peer that has taken nothing for this long is hung up on.
    pub(super) stall: Option<Duration>,
    /// Frames are gathered into writes of about this many bytes; 1 for one frame per write.
    pub(super) gather: usize,
    /// Bits per second of the line, ten for a byte, if writes are to be paced by it.
    pub(super) line_rate: Option<u32>,
}

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("the other end hung up")]
    HungUp,
    #[error("{0}")]
    Failed(#[from] io::Error),
    #[error("the other end does not read")]
    Stalled,
    #[error("the program ends")]
    Stopped,
}

/// Carries frames both ways until the stream ends.
pub(super) async fn run(
    endpoint: &Endpoint,
    events: &mpsc::Sender<EndpointEvent>,
    backlog: &mut Backlog,
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
    manner: Manner,
) -> Ended {
    let meter = &endpoint.share.meter;
    tokio::select! {
        ended = read(endpoint.id, meter, events, reader, manner) => ended,
        ended = write(backlog, writer, manner) => ended,
    }
}

async fn read(
    id: EndpointId,
    meter: &Meter,
    events: &mpsc::Sender<EndpointEvent>,
    mut reader: impl AsyncRead + Unpin,
    manner: Manner,
) -> Ended {
    let mut splitter = Splitter::new();
    let mut chunk = vec![0; READ_SIZE];
    loop {
        let before = splitter.stats();
        let read = match manner.quiet.filter(|_| splitter.pending() > 0) {
            Some(quiet) => timeout(quiet, reader.read(&mut chunk)).await.ok(),
            None => Some(reader.read(&mut chunk).await),
        };
        match read {
            None => splitter.flush(),
            Some(Ok(0)) => return Ended::HungUp,
            Some(Ok(n)) => {
                meter.add(Count::BytesIn, n as u64);
                splitter.feed(&chunk[..n]);
            }
            Some(Err(error)) => return Ended::Failed(error),
        }
        while let Some(frame) = splitter.next_frame() {
            meter.add(Count::FramesIn, 1);
            // Waits while the session is busy: nothing is read meanwhile, and the sender is slowed.
            if events.send(EndpointEvent::Frame { from: id, frame }).await.is_err() {
                return Ended::Stopped;
            }
        }
        meter.add_splitter(before, splitter.stats());
    }
}

async fn write(backlog: &mut Backlog, mut writer: impl AsyncWrite + Unpin, manner: Manner) -> Ended {
    let mut bytes = Vec::with_capacity(READ_SIZE);
    let mut frames: Vec<Queued> = Vec::new();
    let mut line_idle_at = Instant::now();
    loop {
        let Some(first) = backlog.next().await else { return Ended::Stopped };
        bytes.clear();
        bytes.extend_from_slice(first.frame.bytes());
        frames.push(first);
        while bytes.len() < manner.gather
            && let Some(next) = backlog.try_next()
        {
            bytes.extend_from_slice(next.frame.bytes());
            frames.push(next);
        }
        let written = match manner.stall {
            Some(stall) => timeout(stall, writer.write_all(&bytes)).await.ok(),
            None => Some(writer.write_all(&bytes).await),
        };
        match written {
            Some(Ok(())) => frames.drain(..).for_each(Queued::sent),
            failed => {
                frames.drain(..).for_each(Queued::drop_counted);
                return failed.map_or(Ended::Stalled, |result| result.err().map_or(Ended::HungUp, Ended::Failed));
            }
        }
        if let Some(rate) = manner.line_rate {
            let time = Duration::from_secs_f64(bytes.len() as f64 * BITS_PER_BYTE / f64::from(rate));
            line_idle_at = line_idle_at.max(Instant::now()) + time;
            sleep_until(line_idle_at - LINE_AHEAD).await;
        }
    }
}

const READ_SIZE: usize = 4096;
/// Start, eight data bits, stop.
const BITS_PER_BYTE: f64 = 10.0;
/// How far writes run ahead of the line. The driver's buffer holds 4 kB, 0.7 s at 57,600 baud, and a command written
/// behind that would be late.
const LINE_AHEAD: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use aquila_proto::Class;

    use super::*;
    use crate::mavlink::outgoing::{self, Share};
    use crate::mavlink::testkit::{attitude, heartbeat, within};
    use crate::mavlink::{EndpointState, Frame};

    #[tokio::test]
    async fn on_a_slow_line_a_command_waits_for_a_few_frames_not_for_the_driver() {
        let (outgoing, mut backlog) = outgoing::queue();
        let share = Share::new(Meter::new(EndpointState::Up), None);
        let (mut far, near) = tokio::io::duplex(4096);
        // 36 bytes each: 6.25 ms at this rate, 4 kB would be 0.7 s.
        for n in 0..100 {
            outgoing.send(&share, attitude(n), Class::Telemetry).unwrap();
        }
        let manner = Manner { quiet: None, stall: None, gather: 1, line_rate: Some(57_600) };
        let reading = async {
            let mut splitter = Splitter::new();
            let mut chunk = [0; 64];
            let mut seen: Vec<Frame> = Vec::new();
            loop {
                let n = within(far.read(&mut chunk)).await.unwrap();
                splitter.feed(&chunk[..n]);
                let before = seen.len();
                seen.extend(std::iter::from_fn(|| splitter.next_frame()));
                if before < 10 && seen.len() >= 10 {
                    outgoing.send(&share, heartbeat(0), Class::Control).unwrap();
                }
                if let Some(place) = seen.iter().position(|frame| *frame == heartbeat(0)) {
                    return place;
                }
            }
        };
        let place = tokio::select! {
            place = reading => place,
            ended = write(&mut backlog, near, manner) => panic!("{ended}"),
        };
        assert!((10..20).contains(&place), "{place}");
    }
}
