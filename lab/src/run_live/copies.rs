//! Simple schemes over UDP: each message in several datagrams, over one link or all of them, and again after a fixed time
//! until it is acknowledged. As the model in virtual time does it.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aquila_proto::mavlink::Frame;

use super::log::Log;
use super::sockets::{PATIENCE, hear};
use crate::frames;
use crate::live::{NodeId, World, prioritise};
use crate::run::ACK_BYTES;

/// No frame of MAVLink begins so.
const ACK: [u8; 3] = *b"ACK";
/// Messages that are not acknowledged yet.
const MAX_PENDING: usize = 1 << 16;

/// A command or a parameter by its number.
type Key = (u8, u32);

/// One node's end.
#[derive(Debug, Clone)]
pub struct Copies(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    socket: UdpSocket,
    /// The other node, by link.
    targets: Vec<SocketAddr>,
    copies: u32,
    retry: Option<Duration>,
    pending: Mutex<BTreeMap<Key, Pending>>,
    changed: Condvar,
    turn: AtomicUsize,
}

#[derive(Debug)]
struct Pending {
    frame: Frame,
    due: Instant,
}

impl Copies {
    /// Sends to these.
    pub fn new(socket: UdpSocket, targets: Vec<SocketAddr>, copies: u32, retry: Option<Duration>) -> Self {
        let (pending, changed, turn) = (Mutex::default(), Condvar::new(), AtomicUsize::new(0));
        Self(Arc::new(Inner { socket, targets, copies, retry, pending, changed, turn }))
    }

    /// Sends a message; what the kernel does not take is lost, or sent again.
    pub fn send(&self, frame: &Frame) {
        if let (Some(retry), Some(key)) = (self.0.retry, key_of(frame)) {
            let mut pending = self.0.lock();
            if pending.len() >= MAX_PENDING {
                pending.pop_first();
            }
            pending.insert(key, Pending { frame: frame.clone(), due: Instant::now() + retry });
            drop(pending);
            self.0.changed.notify_one();
        }
        self.0.transmit(frame);
    }

    /// Sends what goes with a command: once, over one of the links in turn.
    pub fn send_data(&self, datagram: &[u8]) {
        let turn = self.0.turn.fetch_add(1, Ordering::Relaxed);
        let _ = self.0.socket.send_to(datagram, self.0.targets[turn % self.0.targets.len()]);
    }

    /// Listens, acknowledges, and repeats.
    ///
    /// # Errors
    /// If the kernel allows no more threads.
    pub fn start(
        &self,
        (world, id, node): (&World, NodeId, usize),
        log: Log,
        stop: &Arc<AtomicBool>,
    ) -> io::Result<Vec<JoinHandle<()>>> {
        let (inner, repeats) = (self.0.clone(), self.0.clone());
        let socket = self.0.socket.try_clone()?;
        let hears = hear((world, id), "mavlink", socket, stop.clone(), move |datagram, _| {
            inner.handle(datagram, |frame| log.on_mavlink(node, frame));
        });
        let stop = stop.clone();
        let repeats = world.thread_in(id, "retry", move || {
            prioritise();
            while !stop.load(Ordering::Relaxed) {
                repeats.repeat();
            }
        });
        Ok(vec![hears.map_err(io::Error::other)?, repeats.map_err(io::Error::other)?])
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn transmit(&self, frame: &Frame) {
        for _ in 0..self.copies {
            for to in &self.targets {
                let _ = self.socket.send_to(frame.bytes(), to);
            }
        }
    }

    fn handle(&self, datagram: &[u8], mut on_frame: impl FnMut(&Frame)) {
        if let Some(key) = acknowledged(datagram) {
            self.lock().remove(&key);
            return;
        }
        let mut rest = datagram;
        while let Ok((frame, len)) = Frame::parse(rest) {
            if let (Some(_), Some(key)) = (self.retry, key_of(&frame)) {
                for to in &self.targets {
                    let _ = self.socket.send_to(&acknowledgement(key), to);
                }
            }
            on_frame(&frame);
            rest = &rest[len..];
        }
    }

    /// Sends what is due, and waits for the next.
    fn repeat(&self) {
        let mut pending = self.lock();
        let now = Instant::now();
        for one in pending.values_mut().filter(|one| one.due <= now) {
            self.transmit(&one.frame);
            one.due += self.retry.unwrap_or(PATIENCE);
        }
        let next = pending.values().map(|one| one.due.saturating_duration_since(now)).min();
        let _ = self.changed.wait_timeout(pending, next.unwrap_or(PATIENCE).min(PATIENCE));
    }
}

/// Of what is acknowledged.
fn key_of(frame: &Frame) -> Option<Key> {
    let parameter = || frames::param_index(frame).map(|number| (1, u32::from(number)));
    frames::command_index(frame).map(|number| (0, number)).or_else(parameter)
}

fn acknowledgement((kind, number): Key) -> [u8; ACK_BYTES] {
    let mut bytes = [0; ACK_BYTES];
    bytes[..3].copy_from_slice(&ACK);
    bytes[3] = kind;
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn acknowledged(datagram: &[u8]) -> Option<Key> {
    let bytes: [u8; ACK_BYTES] = datagram.try_into().ok()?;
    let [a, b, c, kind, number @ ..] = bytes;
    ([a, b, c] == ACK).then(|| (kind, u32::from_be_bytes(number)))
}

#[cfg(test)]
mod tests {
    use aquila_proto::Side;

    use super::*;

    #[test]
    fn an_acknowledgement_is_read_as_it_is_written_and_no_frame_is_one() {
        assert_eq!(acknowledged(&acknowledgement((1, 70_000))), Some((1, 70_000)));
        assert_eq!(acknowledged(frames::command(Side::Air, 1).bytes()), None);
        assert_eq!(key_of(&frames::command(Side::Air, 70_000)), Some((0, 70_000)));
        assert_eq!(key_of(&frames::data(Side::Air, 1, 100)[0]), None);
    }

    #[test]
    fn a_message_is_sent_again_until_it_is_acknowledged_and_goes_to_all() {
        let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (here, there) = (socket(), [socket(), socket()]);
        let targets = there.iter().map(|socket| socket.local_addr().unwrap()).collect();
        let copies = Copies::new(here, targets, 2, Some(Duration::from_millis(1)));
        let frame = frames::command(Side::Ground, 3);
        copies.send(&frame);
        std::thread::sleep(Duration::from_millis(2));
        copies.0.repeat();
        copies.0.handle(&acknowledgement((0, 3)), |_| unreachable!());
        std::thread::sleep(Duration::from_millis(2));
        copies.0.repeat();
        for socket in there {
            socket.set_nonblocking(true).unwrap();
            let mut buffer = [0; 100];
            let come = (0..9).take_while(|_| socket.recv(&mut buffer).is_ok_and(|len| buffer[..len] == *frame.bytes()));
            assert_eq!(come.count(), 4);
        }
    }
}
