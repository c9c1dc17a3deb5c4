//! TCP: server and client.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::outgoing::{self, Backlog};
use super::status::Count;
use super::stream::{self, Ended, Manner};
use super::{Door, Endpoint, EndpointEvent, EndpointState, HostPort, MAX_PEERS, StateLog};

/// A listening socket.
pub(super) async fn bind(at: &HostPort) -> io::Result<TcpListener> {
    // Sets SO_REUSEADDR, so that a restart does not wait for old connections to be forgotten.
    TcpListener::bind((at.host.as_str(), at.port)).await
}

/// Serves clients, each an endpoint of its own.
pub(super) async fn listen(door: Door, listener: TcpListener) {
    let mut clients = JoinSet::new();
    door.until_stopped(accept(&door, &listener, &mut clients)).await;
    clients.shutdown().await;
}

async fn accept(door: &Door, listener: &TcpListener, clients: &mut JoinSet<()>) {
    let mut log = StateLog::new(&door.spec.to_string().into());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = clients.join_next() => continue,
        };
        match accepted {
            Ok((stream, address)) if clients.len() < MAX_PEERS => {
                let (outgoing, backlog) = outgoing::queue();
                let endpoint = door.peer(address, outgoing, None);
                clients.spawn(serve_client(door.clone(), endpoint, backlog, stream));
            }
            Ok(_) => {
                door.meter.add(Count::Refused, 1);
                log.trouble(&format_args!("more than {MAX_PEERS} clients, the next is refused"));
            }
            Err(error) => {
                // Out of file descriptors, usually: trying at once would only burn time.
                log.trouble(&error);
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn serve_client(door: Door, endpoint: Endpoint, mut backlog: Backlog, stream: TcpStream) {
    let id = endpoint.id;
    if door.say(EndpointEvent::Added(endpoint.clone())).await.is_err() {
        return;
    }
    tracing::info!(endpoint = %endpoint.label, "connected");
    let ended = carry(&door, &endpoint, &mut backlog, stream).await;
    endpoint.share.meter.set_state(EndpointState::Closed);
    backlog.discard();
    tracing::info!(endpoint = %endpoint.label, "{ended}");
    // If nobody listens any more there is nobody to tell.
    let _ = door.say(EndpointEvent::Removed(id)).await;
}

/// Keeps a connection to a server, as one endpoint.
pub(super) async fn connect(door: Door, to: HostPort) {
    door.until_stopped(keep_connected(&door, &to)).await;
}

async fn keep_connected(door: &Door, to: &HostPort) {
    let Ok((endpoint, mut backlog)) = door.only_endpoint().await else { return };
    let mut log = StateLog::new(&endpoint.label);
    let mut wait = FIRST_WAIT;
    loop {
        match dial(to).await {
            Ok(stream) => {
                backlog.discard();
                log.up(&door.meter);
                wait = FIRST_WAIT;
                let ended = carry(door, &endpoint, &mut backlog, stream).await;
                if matches!(ended, Ended::Stopped) {
                    return;
                }
                log.down(&door.meter, &ended);
            }
            Err(error) => log.down(&door.meter, &error),
        }
        sleep(wait).await;
        wait = (wait * 2).min(LAST_WAIT);
    }
}

/// Resolves the name, anew each time since addresses change, and tries each address.
async fn dial(to: &HostPort) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let addresses = timeout(DIAL_TIMEOUT, lookup_host((to.host.as_str(), to.port))).await??;
    for address in addresses {
        match timeout(DIAL_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(elapsed) => last = elapsed.into(),
        }
    }
    Err(last)
}

async fn carry(door: &Door, endpoint: &Endpoint, backlog: &mut Backlog, mut stream: TcpStream) -> Ended {
    if let Err(error) = tune(&stream) {
        return Ended::Failed(error);
    }
    let manner = Manner { quiet: None, stall: Some(STALL), gather: GATHER, line_rate: None };
    let (reader, writer) = stream.split();
    stream::run(endpoint, &door.events, backlog, reader, writer, manner).await
}

fn tune(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE))?;
    // A peer that vanished without a word is noticed, and what it has not read does not pile up in the kernel for minutes.
    socket.set_tcp_user_timeout(Some(STALL))?;
    socket.set_send_buffer_size(SEND_BUFFER)
}

const FIRST_WAIT: Duration = Duration::from_millis(250);
const LAST_WAIT: Duration = Duration::from_secs(5);
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
const ACCEPT_RETRY: Duration = Duration::from_millis(200);
const STALL: Duration = Duration::from_secs(20);
const KEEPALIVE: Duration = Duration::from_secs(5);
/// A parameter set of ArduCopter is 50 kB.
const SEND_BUFFER: usize = 128 << 10;
/// Three packets' worth.
const GATHER: usize = 4096;
