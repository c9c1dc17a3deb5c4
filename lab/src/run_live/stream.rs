//! Connections of the kernel's between the nodes: TCP or MPTCP, with TLS 1.3 or without.
//!
//! The first node connects, the second accepts. Each end has a thread that owns its socket; applications leave frames
//! with it. What is left while there is no connection waits for the next one, as in the model in virtual time; what was
//! written into a connection that is gone is lost with it.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aquila_proto::mavlink::{Frame, Splitter};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use rustls::Connection as TlsConnection;
use socket2::{Domain, Protocol, Socket, Type};

use super::log::Log;
use super::sockets::PATIENCE;
use super::tls::TlsEnd;
use crate::live::{NodeId, World, prioritise};

/// Messages that wait at an end, as in the model.
const MAX_WAITING: usize = 1 << 16;
/// The first connection is there within this time, or there is none.
const SET_UP: Duration = Duration::from_secs(10);
/// After an attempt that the kernel refuses at once, such as without a route.
const RETRY: Duration = Duration::from_millis(10);
const BUFFER: usize = 1 << 16;
/// Bytes that a connection takes beside what the kernel has, before frames wait.
const MAX_OUT: usize = 1 << 16;

/// What kind of connection.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// MPTCP instead of TCP.
    pub is_multipath: bool,
    /// The kernel's name of the congestion control; its default if none.
    pub congestion: Option<&'static str>,
}

/// Where an application leaves frames.
#[derive(Debug, Clone)]
pub struct Outlet {
    /// Messages, each of which is written by itself.
    waiting: Arc<Mutex<VecDeque<Vec<u8>>>>,
    doorbell: Arc<EventFd>,
}

/// Both ends.
#[derive(Debug)]
pub struct Streams {
    /// Of the first node, and of the second.
    pub outlets: [Outlet; 2],
    orders: [Arc<Orders>; 2],
    threads: Vec<JoinHandle<()>>,
}

/// What an end is told, and what it tells.
#[derive(Debug, Default)]
struct Orders {
    anew: AtomicBool,
    stop: AtomicBool,
    is_ready: AtomicBool,
}

impl Outlet {
    fn new() -> io::Result<Self> {
        let doorbell = EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Self { waiting: Arc::default(), doorbell: Arc::new(doorbell) })
    }

    /// Leaves a message: a frame, or several.
    pub fn send(&self, message: &[u8]) {
        let mut waiting = self.lock();
        if waiting.len() < MAX_WAITING {
            waiting.push_back(message.to_owned());
            drop(waiting);
            self.ring();
        }
    }

    fn ring(&self) {
        // It fails only if it rings already.
        let _ = self.doorbell.write(1);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Streams {
    /// Connects the first node with `to` at the second, and waits until both can write.
    ///
    /// # Errors
    /// If a socket cannot be had, or there is no connection within 10 s.
    pub fn open(
        world: &World,
        nodes: [NodeId; 2],
        to: SocketAddr,
        kind: Kind,
        tls: Option<[TlsEnd; 2]>,
        log: &Log,
    ) -> io::Result<Self> {
        let mut streams =
            Self { outlets: [Outlet::new()?, Outlet::new()?], orders: Default::default(), threads: Vec::new() };
        let listener = world.run_in(nodes[1], move || listen(to.port(), kind))?;
        let mut tls = tls.map_or([None, None], |ends| ends.map(Some));
        let mut roles = [Role::Connects(to), Role::Accepts(listener)].into_iter();
        for node in 0..2 {
            let end = End {
                node,
                role: roles.next().expect("two roles"),
                kind,
                tls: tls[node].take(),
                current: None,
                retry: None,
                outlet: streams.outlets[node].clone(),
                orders: streams.orders[node].clone(),
                log: log.clone(),
            };
            let thread = world.thread_in(nodes[node], "stream", move || end.run());
            streams.threads.push(thread.map_err(io::Error::other)?);
        }
        let until = Instant::now() + SET_UP;
        while !streams.orders.iter().all(|orders| orders.is_ready.load(Ordering::Relaxed)) {
            if Instant::now() > until {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no connection within 10 s"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(streams)
    }

    /// The first node connects anew; the second closes the old connection too, if it is told.
    pub fn anew(&self, both: bool) {
        for (orders, outlet) in self.orders.iter().zip(&self.outlets).take(if both { 2 } else { 1 }) {
            orders.anew.store(true, Ordering::Release);
            outlet.ring();
        }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        for (orders, outlet) in self.orders.iter().zip(&self.outlets) {
            orders.stop.store(true, Ordering::Relaxed);
            outlet.ring();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// One end, on its own thread.
struct End {
    node: usize,
    role: Role,
    kind: Kind,
    tls: Option<TlsEnd>,
    current: Option<Connection>,
    /// When to try again to connect.
    retry: Option<Instant>,
    outlet: Outlet,
    orders: Arc<Orders>,
    log: Log,
}

enum Role {
    Connects(SocketAddr),
    Accepts(TcpListener),
}

impl End {
    fn run(mut self) {
        prioritise();
        let mut buffer = vec![0; BUFFER];
        self.connect();
        while !self.orders.stop.load(Ordering::Relaxed) {
            self.wait();
            let _ = self.outlet.doorbell.read();
            if self.orders.anew.swap(false, Ordering::Acquire) {
                self.current = None;
                self.connect();
            }
            if self.retry.is_some_and(|at| at <= Instant::now()) {
                self.connect();
            }
            self.accept();
            self.exchange(&mut buffer);
        }
    }

    /// Until there is something to do.
    fn wait(&self) {
        let mut fds = vec![PollFd::new(self.outlet.doorbell.as_fd(), PollFlags::POLLIN)];
        if let Role::Accepts(listener) = &self.role {
            fds.push(PollFd::new(listener.as_fd(), PollFlags::POLLIN));
        }
        if let Some(current) = &self.current {
            let also = if current.wants_write() { PollFlags::POLLOUT } else { PollFlags::empty() };
            fds.push(PollFd::new(current.socket.as_fd(), PollFlags::POLLIN | also));
        }
        let at_most = if self.retry.is_some() { RETRY } else { PATIENCE };
        let _ = poll(&mut fds, PollTimeout::try_from(at_most).unwrap_or(PollTimeout::ZERO));
    }

    fn connect(&mut self) {
        let Role::Connects(to) = &self.role else { return };
        self.retry = None;
        let made = connect(*to, self.kind).and_then(|socket| Connection::new(socket, self.tls.as_ref(), false));
        match made {
            Ok(connection) => self.current = Some(connection),
            Err(_) => self.retry = Some(Instant::now() + RETRY),
        }
    }

    /// The newest connection takes the place of the one before.
    fn accept(&mut self) {
        let Role::Accepts(listener) = &self.role else { return };
        while let Ok((socket, _)) = listener.accept() {
            let set = socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true));
            if let Ok(connection) = set.and_then(|()| Connection::new(socket, self.tls.as_ref(), true)) {
                self.current = Some(connection);
            }
        }
    }

    fn exchange(&mut self, buffer: &mut [u8]) {
        let Some(current) = &mut self.current else { return };
        let (node, log) = (self.node, &self.log);
        let mut done = current.receive(buffer, |frame| log.on_mavlink(node, frame));
        if done.is_ok() && current.is_ready() {
            self.orders.is_ready.store(true, Ordering::Relaxed);
            while current.out.len() < MAX_OUT {
                let Some(message) = self.outlet.lock().pop_front() else { break };
                // Two messages are two segments, as in the model, if the connection may send them.
                done = done.and_then(|()| current.write(&message)).and_then(|()| current.flush());
            }
        }
        if done.and_then(|()| current.flush()).is_err() {
            self.current = None;
            if matches!(self.role, Role::Connects(_)) {
                self.retry = Some(Instant::now() + RETRY);
            }
        }
    }
}

/// A connection and what is on its way into it.
struct Connection {
    socket: TcpStream,
    tls: Option<TlsConnection>,
    is_connected: bool,
    /// In the clear, without TLS.
    out: VecDeque<u8>,
    splitter: Splitter,
}

impl Connection {
    fn new(socket: TcpStream, tls: Option<&TlsEnd>, is_connected: bool) -> io::Result<Self> {
        let tls = tls.map(TlsEnd::connection).transpose()?;
        Ok(Self { socket, tls, is_connected, out: VecDeque::new(), splitter: Splitter::new() })
    }

    fn is_ready(&self) -> bool {
        self.is_connected && self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking())
    }

    fn wants_write(&self) -> bool {
        !self.is_connected || !self.out.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Reads what has come.
    fn receive(&mut self, buffer: &mut [u8], mut on_frame: impl FnMut(&Frame)) -> io::Result<()> {
        if !self.is_connected {
            if let Some(error) = self.socket.take_error()? {
                return Err(error);
            }
            self.is_connected = self.socket.peer_addr().is_ok();
            return Ok(());
        }
        while let Some(len) = self.read(buffer)? {
            self.splitter.feed(&buffer[..len]);
            while let Some(frame) = self.splitter.next_frame() {
                on_frame(&frame);
            }
        }
        Ok(())
    }

    /// The next bytes in the clear; `None`: no more now.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(tls) = &mut self.tls else { return some(self.socket.read(buffer)) };
        loop {
            if let Some(len) = some(tls.reader().read(buffer))? {
                return Ok(Some(len));
            }
            if some(tls.read_tls(&mut self.socket))?.is_none() {
                return Ok(None);
            }
            tls.process_new_packets().map_err(io::Error::other)?;
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => tls.writer().write_all(bytes),
            None => {
                self.out.extend(bytes);
                Ok(())
            }
        }
    }

    /// Gives the kernel as much as it takes.
    fn flush(&mut self) -> io::Result<()> {
        if !self.is_connected {
            return Ok(());
        }
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() && some(tls.write_tls(&mut self.socket))?.is_some() {}
            return Ok(());
        }
        while !self.out.is_empty() {
            let Some(written) = some(self.socket.write(self.out.as_slices().0))? else { break };
            self.out.drain(..written);
        }
        Ok(())
    }
}

/// How much was read or written; `None` if nothing can be now; the end is an error.
fn some(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(len) => Ok(Some(len)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the kernel has a congestion control of that name. One that it has but does not allow fails when it is used.
pub fn has_congestion(name: &str) -> bool {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP));
    let set = socket.and_then(|socket| socket.set_tcp_congestion(name.as_bytes()));
    set.err().is_none_or(|error| error.raw_os_error() != Some(nix::libc::ENOENT))
}

fn socket(kind: Kind) -> io::Result<Socket> {
    let protocol = if kind.is_multipath { Protocol::MPTCP } else { Protocol::TCP };
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
    socket.set_nonblocking(true)?;
    if let Some(congestion) = kind.congestion {
        socket.set_tcp_congestion(congestion.as_bytes())?;
    }
    Ok(socket)
}

fn listen(port: u16, kind: Kind) -> io::Result<TcpListener> {
    let socket = socket(kind)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
    socket.listen(16)?;
    Ok(socket.into())
}

fn connect(to: SocketAddr, kind: Kind) -> io::Result<TcpStream> {
    let socket = socket(kind)?;
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(nix::libc::EINPROGRESS) => Err(error),
        _ => Ok(socket.into()),
    }
}
