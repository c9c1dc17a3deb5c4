//! The sockets of one TCP connection: what is read stays in the kernel until it is in custody, and what is written counts when
//! the application's kernel has acknowledged it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aquila_proto::gateway::{FlowId, Reason, Target};
use bytes::Bytes;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::Interest;
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::outq::unacknowledged;
use super::rules::{Allow, Protocol};

/// What a flow's sockets say.
#[derive(Debug)]
pub(super) enum TcpEvent {
    /// Bytes can be read; they have not been.
    Bytes {
        bytes: Vec<u8>,
        /// There were no more.
        drained: bool,
    },
    /// The application has closed.
    Fin,
    /// So much of what was written is acknowledged, and the end after it.
    Taken { bytes: u64, fin: bool },
    /// The connection is broken.
    Reset,
}

/// A flow's connection to its application.
#[derive(Debug)]
pub(super) struct App {
    stream: Arc<TcpStream>,
    to_writer: mpsc::UnboundedSender<Order>,
    to_reader: mpsc::Sender<bool>,
    tasks: [JoinHandle<()>; 2],
}

#[derive(Debug)]
enum Order {
    Write(Bytes),
    Finish,
}

/// Bytes read at a time.
const READ: usize = 16 << 10;
/// How often the kernel is asked what is acknowledged: soon at first, then less often.
const ASK: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(100)];
/// A target that does not answer.
const DIAL: Duration = Duration::from_secs(20);
/// Addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;
/// A peer that has vanished is found out after some of these.
const KEEPALIVE: Duration = Duration::from_secs(60);

impl App {
    /// Serves a connection that is open.
    pub fn spawn(flow: FlowId, stream: TcpStream, events: mpsc::Sender<(FlowId, TcpEvent)>) -> Self {
        let _ = stream.set_nodelay(true);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
        let stream = Arc::new(stream);
        let (to_writer, orders) = mpsc::unbounded_channel();
        let (to_reader, verdicts) = mpsc::channel(1);
        let reader = tokio::spawn(read(flow, Arc::clone(&stream), events.clone(), verdicts));
        let writer = tokio::spawn(write(flow, Arc::clone(&stream), events, orders));
        Self { stream, to_writer, to_reader, tasks: [reader, writer] }
    }

    /// Writes to the application. How much may wait is bounded by whom the bytes come from.
    pub fn write(&self, bytes: Bytes) {
        let _ = self.to_writer.send(Order::Write(bytes));
    }

    /// Closes the way to the application when all is written.
    pub fn finish(&self) {
        let _ = self.to_writer.send(Order::Finish);
    }

    /// Whether what was read is in custody, or is to be offered again.
    pub fn answer(&self, taken: bool) {
        let _ = self.to_reader.try_send(taken);
    }

    /// Resets the connection instead of closing it.
    pub fn reset(self) {
        let _ = SockRef::from(&*self.stream).set_linger(Some(Duration::ZERO));
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Connects to a target, at the first of its addresses that is allowed and answers.
pub(super) async fn dial(target: Target, allow: &[Allow]) -> Result<TcpStream, Reason> {
    let addresses: Vec<SocketAddr> = match target {
        Target::Address(address) => vec![address],
        Target::Name(name, port) => match timeout(DIAL, lookup_host((name.as_str(), port))).await {
            Ok(Ok(addresses)) => addresses.take(MAX_ADDRESSES).collect(),
            _ => Vec::new(),
        },
    };
    let is_known = !addresses.is_empty();
    let is_allowed = |address: &SocketAddr| allow.iter().any(|allow| allow.allows(Protocol::Tcp, *address));
    let allowed: Vec<SocketAddr> = addresses.into_iter().filter(is_allowed).collect();
    if allowed.is_empty() {
        return Err(if is_known { Reason::NotAllowed } else { Reason::Unreachable });
    }
    match timeout(DIAL, TcpStream::connect(&allowed[..])).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Err(Reason::Refused),
        Ok(Err(_)) | Err(_) => Err(Reason::Unreachable),
    }
}

async fn read(
    flow: FlowId,
    stream: Arc<TcpStream>,
    events: mpsc::Sender<(FlowId, TcpEvent)>,
    mut verdicts: mpsc::Receiver<bool>,
) {
    let mut buffer = vec![0; READ];
    loop {
        // What is looked at stays where it is: it is acknowledged by the kernel, and gone only when it is in custody.
        let event = match stream.peek(&mut buffer).await {
            Ok(0) => TcpEvent::Fin,
            Ok(len) => TcpEvent::Bytes { bytes: buffer[..len].to_vec(), drained: len < READ },
            Err(_) => TcpEvent::Reset,
        };
        let (mut len, fin, over) = match &event {
            TcpEvent::Bytes { bytes, .. } => (bytes.len(), false, false),
            event => (0, matches!(event, TcpEvent::Fin), matches!(event, TcpEvent::Reset)),
        };
        if events.send((flow, event)).await.is_err() || over {
            return;
        }
        match verdicts.recv().await {
            Some(true) if fin => return watch(flow, &stream, &events).await,
            Some(true) => {
                while len > 0 {
                    match stream.try_read(&mut buffer[..len]) {
                        Ok(0) => return,
                        Ok(read) => len -= read,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                            if stream.readable().await.is_err() {
                                return;
                            }
                        }
                        Err(_) => return drop(events.send((flow, TcpEvent::Reset)).await),
                    }
                }
            }
            Some(false) => {}
            None => return,
        }
    }
}

/// Nothing more comes but perhaps a reset.
async fn watch(flow: FlowId, stream: &TcpStream, events: &mpsc::Sender<(FlowId, TcpEvent)>) {
    if stream.ready(Interest::ERROR).await.is_ok() && matches!(stream.take_error(), Ok(Some(_)) | Err(_)) {
        let _ = events.send((flow, TcpEvent::Reset)).await;
    }
}

async fn write(
    flow: FlowId,
    stream: Arc<TcpStream>,
    events: mpsc::Sender<(FlowId, TcpEvent)>,
    mut orders: mpsc::UnboundedReceiver<Order>,
) {
    let (mut written, mut told, mut finished) = (0u64, 0u64, false);
    let mut ask = ASK[0];
    loop {
        let waits = told < written + u64::from(finished);
        tokio::select! {
            order = orders.recv() => match order {
                Some(Order::Write(mut bytes)) => {
                    while !bytes.is_empty() {
                        match stream.try_write(&bytes) {
                            Ok(len) => {
                                written += len as u64;
                                drop(bytes.split_to(len));
                            }
                            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                                // A slow reader takes some all the same.
                                let _ = timeout(ASK[1], stream.writable()).await;
                                if tell(flow, &stream, &events, written, false, &mut told).await.is_err() {
                                    return;
                                }
                            }
                            Err(_) => return drop(events.send((flow, TcpEvent::Reset)).await),
                        }
                    }
                    ask = ASK[0];
                }
                Some(Order::Finish) => {
                    finished = true;
                    if SockRef::from(&*stream).shutdown(std::net::Shutdown::Write).is_err() {
                        return drop(events.send((flow, TcpEvent::Reset)).await);
                    }
                    ask = ASK[0];
                }
                None => return,
            },
            () = sleep(ask), if waits => ask = (ask * 2).min(ASK[1]),
        }
        if tell(flow, &stream, &events, written, finished, &mut told).await.is_err() {
            return;
        }
    }
}

/// Tells what the application's kernel has acknowledged; `told` counts the FIN as one more.
async fn tell(
    flow: FlowId,
    stream: &TcpStream,
    events: &mpsc::Sender<(FlowId, TcpEvent)>,
    written: u64,
    finished: bool,
    told: &mut u64,
) -> Result<(), ()> {
    let all = written + u64::from(finished);
    // A socket that has no queue any more is closed on both ways, or broken: the reader hears of that.
    let acknowledged = all - unacknowledged(stream).unwrap_or(all).min(all);
    if acknowledged > *told {
        *told = acknowledged;
        let event = TcpEvent::Taken { bytes: acknowledged.min(written), fin: finished && acknowledged == all };
        events.send((flow, event)).await.map_err(drop)?;
    }
    Ok(())
}
