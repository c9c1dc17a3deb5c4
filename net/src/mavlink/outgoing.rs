//! The queue of frames on their way out of an endpoint.
//!
//! Two lanes, so that a command does not wait behind a parameter burst on a slow serial line. Both are bounded in frames and
//! bytes; a frame that finds its lane full is dropped and counted, and one that waited too long is dropped when its turn
//! comes: what a peer did not read for seconds must not reach it as if it were new.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use aquila_proto::Class;
use aquila_proto::mavlink::Frame;
use tokio::sync::mpsc;

use super::status::{Count, EndpointState, Meter};

/// Where frames go in. Clones feed the same queue.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    lanes: [mpsc::UnboundedSender<Queued>; 2],
}

/// Where they come out.
#[derive(Debug)]
pub(super) struct Backlog {
    urgent: mpsc::UnboundedReceiver<Queued>,
    normal: mpsc::UnboundedReceiver<Queued>,
}

/// One peer's share of a queue: its bounds, its address and its counters.
#[derive(Debug)]
pub(super) struct Share {
    used: [Used; 2],
    to: Option<SocketAddr>,
    pub(super) meter: Arc<Meter>,
}

#[derive(Debug, Default)]
struct Used {
    frames: AtomicUsize,
    bytes: AtomicUsize,
}

/// A frame with what is needed to send and to account for it.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) frame: Frame,
    since: Instant,
    lane: Lane,
    share: Arc<Share>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Urgent = 0,
    Normal = 1,
}

/// Why a frame was not queued. It is counted; there is nothing to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The endpoint is not connected.
    #[error("the endpoint is down")]
    Down,
    /// The peer does not read, or not fast enough.
    #[error("the endpoint's queue is full")]
    Full,
}

/// An empty queue.
pub(super) fn queue() -> (Outgoing, Backlog) {
    let (urgent_in, urgent) = mpsc::unbounded_channel();
    let (normal_in, normal) = mpsc::unbounded_channel();
    (Outgoing { lanes: [urgent_in, normal_in] }, Backlog { urgent, normal })
}

impl Share {
    pub(super) fn new(meter: Arc<Meter>, to: Option<SocketAddr>) -> Arc<Self> {
        Arc::new(Self { used: Default::default(), to, meter })
    }
}

impl Outgoing {
    /// Queues a frame; control frames overtake all others.
    pub(super) fn send(&self, share: &Arc<Share>, frame: Frame, class: Class) -> Result<(), Refused> {
        let refuse = |why| {
            share.meter.add(Count::DroppedOut, 1);
            Err(why)
        };
        if share.meter.state() != EndpointState::Up {
            return refuse(Refused::Down);
        }
        let lane = if class == Class::Control { Lane::Urgent } else { Lane::Normal };
        let (used, len) = (&share.used[lane as usize], frame.bytes().len());
        let frames = used.frames.load(Ordering::Relaxed);
        let bytes = used.bytes.load(Ordering::Relaxed);
        if frames >= lane.max_frames() || bytes + len > lane.max_bytes() {
            return refuse(Refused::Full);
        }
        used.frames.fetch_add(1, Ordering::Relaxed);
        used.bytes.fetch_add(len, Ordering::Relaxed);
        share.meter.add(Count::Queued, 1);
        let queued = Queued { frame, since: Instant::now(), lane, share: share.clone() };
        match self.lanes[lane as usize].send(queued) {
            Ok(()) => Ok(()),
            // Dropping the frame has given its place back.
            Err(_) => refuse(Refused::Down),
        }
    }
}

impl Backlog {
    /// The next frame to send, or `None` once every [`Outgoing`] is gone. Loses nothing if it is not awaited to the end.
    pub(super) async fn next(&mut self) -> Option<Queued> {
        loop {
            let queued = tokio::select! {
                biased;
                Some(queued) = self.urgent.recv() => queued,
                Some(queued) = self.normal.recv() => queued,
                else => return None,
            };
            if let Some(queued) = queued.fresh() {
                return Some(queued);
            }
        }
    }

    /// The next frame, if one is waiting.
    pub(super) fn try_next(&mut self) -> Option<Queued> {
        loop {
            let queued = self.urgent.try_recv().or_else(|_| self.normal.try_recv()).ok()?;
            if let Some(queued) = queued.fresh() {
                return Some(queued);
            }
        }
    }

    /// Drops what waits, because it was meant for a connection that is gone.
    pub(super) fn discard(&mut self) {
        while let Some(queued) = self.try_next() {
            queued.drop_counted();
        }
    }
}

impl Queued {
    /// Where it goes, if the endpoint has several peers on one socket.
    pub(super) fn to(&self) -> Option<SocketAddr> {
        self.share.to
    }

    /// Counts it as sent.
    pub(super) fn sent(self) {
        self.share.meter.add(Count::FramesOut, 1);
        self.share.meter.add(Count::BytesOut, self.frame.bytes().len() as u64);
    }

    /// Counts it as dropped.
    pub(super) fn drop_counted(self) {
        self.share.meter.add(Count::DroppedOut, 1);
    }

    fn fresh(self) -> Option<Self> {
        if self.since.elapsed() <= self.lane.max_age() && self.share.meter.state() == EndpointState::Up {
            return Some(self);
        }
        self.drop_counted();
        None
    }
}

impl Drop for Queued {
    /// However it leaves the queue, its place is free again.
    fn drop(&mut self) {
        let used = &self.share.used[self.lane as usize];
        used.frames.fetch_sub(1, Ordering::Relaxed);
        used.bytes.fetch_sub(self.frame.bytes().len(), Ordering::Relaxed);
        self.share.meter.subtract(Count::Queued, 1);
    }
}

impl Lane {
    /// A parameter set of ArduCopter is 1,348 frames at once; three of them fit.
    const fn max_frames(self) -> usize {
        match self {
            Self::Urgent => 1024,
            Self::Normal => 4096,
        }
    }

    const fn max_bytes(self) -> usize {
        match self {
            Self::Urgent => 256 << 10,
            Self::Normal => 1 << 20,
        }
    }

    /// Ground stations repeat a command after 1.5 to 3 s; a parameter burst at 57,600 baud takes 9 s.
    const fn max_age(self) -> Duration {
        match self {
            Self::Urgent => Duration::from_secs(1),
            Self::Normal => Duration::from_secs(15),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mavlink::testkit::{attitude, heartbeat};

    fn up() -> (Outgoing, Backlog, Arc<Share>) {
        let (outgoing, backlog) = queue();
        (outgoing, backlog, Share::new(Meter::new(EndpointState::Up), None))
    }

    #[test]
    fn control_overtakes_and_each_lane_keeps_its_order() {
        let (outgoing, mut backlog, share) = up();
        for n in 0..3 {
            outgoing.send(&share, attitude(n), Class::Telemetry).unwrap();
            outgoing.send(&share, heartbeat(n), Class::Control).unwrap();
        }
        let order: Vec<_> = std::iter::from_fn(|| backlog.try_next()).map(|queued| queued.frame.clone()).collect();
        assert_eq!(order, [heartbeat(0), heartbeat(1), heartbeat(2), attitude(0), attitude(1), attitude(2)]);
    }

    #[test]
    fn a_full_lane_refuses_exactly_at_its_bound_and_leaves_the_other_alone() {
        let (outgoing, mut backlog, share) = up();
        for n in 0..4096 {
            outgoing.send(&share, heartbeat(n as u8), Class::Telemetry).unwrap();
        }
        assert_eq!(outgoing.send(&share, heartbeat(0), Class::Telemetry), Err(Refused::Full));
        assert_eq!(outgoing.send(&share, heartbeat(0), Class::Control), Ok(()));
        let status = share.meter.status();
        assert_eq!((status.queued, status.dropped_out), (4097, 1));
        backlog.try_next().unwrap().sent();
        backlog.try_next().unwrap().sent();
        assert_eq!(outgoing.send(&share, heartbeat(0), Class::Telemetry), Ok(()));
        backlog.discard();
        let status = share.meter.status();
        assert_eq!((status.queued, status.frames_out, status.dropped_out), (0, 2, 1 + 4096));
    }

    #[test]
    fn nothing_is_queued_for_an_endpoint_that_is_down_and_nothing_survives_it() {
        let (outgoing, mut backlog, share) = up();
        outgoing.send(&share, heartbeat(0), Class::Control).unwrap();
        share.meter.set_state(EndpointState::Down);
        assert_eq!(outgoing.send(&share, heartbeat(1), Class::Control), Err(Refused::Down));
        assert!(backlog.try_next().is_none());
        share.meter.set_state(EndpointState::Up);
        assert!(backlog.try_next().is_none());
        assert_eq!(share.meter.status().dropped_out, 2);
        drop(backlog);
        assert_eq!(outgoing.send(&share, heartbeat(1), Class::Control), Err(Refused::Down));
        assert_eq!(share.meter.status().queued, 0);
    }
}
