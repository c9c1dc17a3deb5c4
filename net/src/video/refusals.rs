//! Whether a viewer listens, by what its system says of what is sent to it.
//!
//! What comes to a UDP port that nobody has opened is refused (RFC 1122 §4.1.3.1: port unreachable). So who opens it later, as who starts
//! QGroundControl after the aircraft, is noticed when refusals stop. It needs a recovery point then: cameras that are asked for them
//! make few by themselves.
//!
//! This machine refuses always. Others do as their firewalls let them, and many drop in silence: a viewer there is not noticed, and is
//! black until the camera makes a recovery point by itself.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

/// Hears what a viewer refuses. By a socket of its own, since only one that is connected to the viewer is told, and the one that sends
/// is for all of them. It has the same port, or it would be told nothing; it neither sends nor reads.
#[derive(Debug)]
pub(super) struct Ear {
    viewer: SocketAddr,
    /// What is sent to the viewer leaves from this port.
    port: u16,
    socket: Option<Socket>,
    opened: Option<Instant>,
    listening: Listening,
}

impl Ear {
    /// For a viewer; there is none for a multicast group, which refuses nothing.
    pub(super) fn new(viewer: SocketAddr, port: u16) -> Option<Self> {
        let listening = Listening::new(if viewer.ip().is_loopback() { PATIENCE_HERE } else { PATIENCE });
        (!viewer.ip().is_multicast()).then_some(Self { viewer, port, socket: None, opened: None, listening })
    }

    /// To be asked before each frame that is sent to the viewer: whether it has begun to listen.
    pub(super) fn has_begun(&mut self, now: Instant) -> bool {
        let refused = self.socket.as_ref().is_some_and(|socket| matches!(socket.take_error(), Ok(Some(_))));
        let begun = self.socket.is_some() && self.listening.on_frame(now, refused);
        if self.opened.is_none_or(|at| now.saturating_duration_since(at) >= MAX_AGE) {
            self.opened = Some(now);
            self.socket = open(self.viewer, self.port).inspect_err(|error| self.log(error)).ok();
        }
        begun
    }

    fn log(&self, error: &io::Error) {
        tracing::debug!(viewer = %self.viewer, %error, "cannot hear whether it listens");
    }
}

fn open(viewer: SocketAddr, port: u16) -> io::Result<Socket> {
    let any: SocketAddr = match viewer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, port).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, port).into(),
    };
    let socket = Socket::new(Domain::for_address(viewer), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    socket.bind(&any.into())?;
    socket.connect(&viewer.into())?;
    Ok(socket)
}

/// What refusals say.
#[derive(Debug)]
struct Listening {
    patience: Duration,
    /// The last refusal, until there were none for long enough.
    refused: Option<Instant>,
    last_frame: Option<Instant>,
}

impl Listening {
    fn new(patience: Duration) -> Self {
        Self { patience, refused: None, last_frame: None }
    }

    /// With each frame, whether one before it was refused; whether refusals have stopped.
    fn on_frame(&mut self, now: Instant, refused: bool) -> bool {
        let before = self.last_frame.replace(now);
        let paused = before.is_some_and(|before| now.saturating_duration_since(before) >= PAUSE);
        if refused || (paused && self.refused.is_some()) {
            // Where nothing was sent, nothing was refused.
            self.refused = Some(now);
            return false;
        }
        self.refused.take_if(|at| now.saturating_duration_since(*at) >= self.patience).is_some()
    }
}

/// Refusals stop for so long if somebody listens on this machine, where each frame is refused ...
const PATIENCE_HERE: Duration = Duration::from_millis(100);
/// ... and elsewhere: Linux refuses once a second (`icmp_ratelimit`).
const PATIENCE: Duration = Duration::from_millis(1500);
/// Without frames for so long it is not known whether they would be refused.
const PAUSE: Duration = Duration::from_secs(1);
/// An ear is made anew after this: there may have been no way to the viewer, or this machine has another address now.
const MAX_AGE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: [u64; 0] = [];

    /// At which of these times, in ms, somebody began to listen; whether a frame was refused by then.
    fn begun(patience: Duration, frames: &[(u64, bool)]) -> Vec<u64> {
        let (start, mut listening) = (Instant::now(), Listening::new(patience));
        let at = |ms| start + Duration::from_millis(ms);
        frames.iter().filter(|(ms, refused)| listening.on_frame(at(*ms), *refused)).map(|(ms, _)| *ms).collect()
    }

    #[test]
    fn somebody_has_begun_to_listen_when_refusals_have_stopped_for_long_enough() {
        let here = [(0, false), (30, true), (60, true), (90, false), (120, false), (160, false), (200, false)];
        assert_eq!(begun(PATIENCE_HERE, &here), [160]);
        let every_second: Vec<_> = (0..200).map(|n| (n * 33, n % 30 == 0)).collect();
        assert_eq!(begun(PATIENCE, &every_second), NEVER, "the system refuses seldom");
        let and_then: Vec<_> = (0..200).map(|n| (n * 33, n == 60)).collect();
        assert_eq!(begun(PATIENCE, &and_then), [106 * 33]);
    }

    #[test]
    fn who_never_refused_has_not_just_begun_and_a_pause_says_nothing() {
        assert_eq!(begun(PATIENCE_HERE, &[(0, false), (30, false), (9000, false), (9030, false)]), NEVER);
        assert_eq!(begun(PATIENCE, &[(0, true), (9000, false), (9033, true), (9066, false)]), NEVER);
    }
}
