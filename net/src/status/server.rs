//! HTTP/1.1 as far as three read-only pages need it (RFC 9112): one request on a connection, GET and HEAD.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::metrics::render_metrics;
use super::snapshot::StatusSnapshot;
use super::summary::render_summary;

/// What a status page shows.
pub trait Shown: Serialize + Send + Sync + 'static {
    /// For people: `/`.
    fn summary(&self) -> String;

    /// For Prometheus, text format 0.0.4: `/metrics`.
    fn metrics(&self) -> String;
}

impl Shown for StatusSnapshot {
    fn summary(&self) -> String {
        render_summary(self)
    }

    fn metrics(&self) -> String {
        render_metrics(self)
    }
}

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Exposure {
    /// Programs on this machine.
    #[default]
    LoopbackOnly,
    /// Whoever reaches the address. There is no password and no encryption.
    Anyone,
}

/// Why there is no status page.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// An address that others reach, without [`Exposure::Anyone`].
    #[error(
        "{0} can be reached from other machines, and the status page has no password: use 127.0.0.1:{port}, or set \
         allow_remote = true in [status] if you mean it",
        port = .0.port()
    )]
    Exposed(SocketAddr),
    /// The address is in use or not of this machine.
    #[error("cannot serve the status page at {0}{hint}", hint = match .1.kind() {
        io::ErrorKind::AddrInUse => " (another program has this port: choose another one; see `ss -tlpn`)",
        _ => "",
    })]
    Bind(SocketAddr, #[source] io::Error),
}

/// The status page. Stops when dropped.
#[derive(Debug)]
pub struct StatusServer {
    local: SocketAddr,
    task: JoinHandle<()>,
}

impl StatusServer {
    /// Serves the latest of `snapshots` at `address`; port 0 takes any. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The address is exposed though it should not be, in use, or not of this machine.
    pub fn spawn<S: Shown>(
        address: SocketAddr,
        exposure: Exposure,
        snapshots: watch::Receiver<S>,
    ) -> Result<Self, StatusError> {
        if exposure == Exposure::LoopbackOnly && !address.ip().to_canonical().is_loopback() {
            return Err(StatusError::Exposed(address));
        }
        let listen = || {
            // The standard library sets SO_REUSEADDR: a restart need not wait for old connections to expire.
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            Ok((listener.local_addr()?, listener))
        };
        let (local, listener) = listen().map_err(|error| StatusError::Bind(address, error))?;
        Ok(Self { local, task: tokio::spawn(accept(listener, snapshots)) })
    }

    /// The address served at.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for StatusServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept<S: Shown>(listener: TcpListener, snapshots: watch::Receiver<S>) {
    let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // Beyond the limit, connections wait in the kernel's own bounded queue.
        let Ok(permit) = Arc::clone(&free).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let snapshots = snapshots.clone();
                tokio::spawn(async move {
                    let _permit = permit;
                    match timeout(TIME_LIMIT, serve(stream, &snapshots)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => tracing::debug!(%error, "status request failed"),
                        Err(_) => tracing::debug!("status request took too long"),
                    }
                });
            }
            Err(error) => {
                tracing::debug!(%error, "cannot accept a status request");
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            }
        }
    }
}

async fn serve<S: Shown>(mut stream: TcpStream, snapshots: &watch::Receiver<S>) -> io::Result<()> {
    let mut request = Vec::with_capacity(1024);
    let complete = loop {
        if request.windows(4).any(|end| end == b"\r\n\r\n") {
            break true;
        }
        if request.len() >= MAX_HEADER {
            break false;
        }
        let room = (MAX_HEADER - request.len()) as u64;
        if (&mut stream).take(room).read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    };
    let answer = match complete {
        true => answer(&request, &*snapshots.borrow()),
        false => Answer::text("431 Request Header Fields Too Large", "the header is larger than 8 kB\n"),
    };
    stream.write_all(&answer.into_bytes()).await?;
    stream.shutdown().await
}

/// What a request gets.
struct Answer {
    status: &'static str,
    content_type: &'static str,
    body: String,
    head_only: bool,
}

fn answer(request: &[u8], snapshot: &impl Shown) -> Answer {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Answer::text("400 Bad Request", "not an HTTP request\n");
    };
    if !version.starts_with("HTTP/1.") {
        return Answer::text("505 HTTP Version Not Supported", "HTTP/1.1 or 1.0, please\n");
    }
    if !matches!(method, "GET" | "HEAD") {
        return Answer::text("405 Method Not Allowed", "there is nothing to change here: GET or HEAD\n");
    }
    let path = target.split('?').next().unwrap_or_default();
    let answer = match path {
        "/" => Answer::text("200 OK", &snapshot.summary()),
        "/metrics" => Answer {
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            ..Answer::text("200 OK", &snapshot.metrics())
        },
        "/status" => match serde_json::to_string_pretty(snapshot) {
            Ok(json) => Answer { content_type: "application/json", ..Answer::text("200 OK", &(json + "\n")) },
            Err(error) => Answer::text("500 Internal Server Error", &format!("{error}\n")),
        },
        _ => Answer::text("404 Not Found", "there are /, /status and /metrics\n"),
    };
    Answer { head_only: method == "HEAD", ..answer }
}

impl Answer {
    fn text(status: &'static str, body: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.to_owned(), head_only: false }
    }

    fn into_bytes(self) -> Vec<u8> {
        let allow = if self.status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let mut out = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}Cache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            self.status,
            self.content_type,
            self.body.len(),
        );
        if !self.head_only {
            out.push_str(&self.body);
        }
        out.into_bytes()
    }
}

/// Largest request line and header together.
const MAX_HEADER: usize = 8 << 10;
/// Most requests at a time.
const MAX_CONNECTIONS: usize = 16;
/// From the connection to the end of the answer.
const TIME_LIMIT: Duration = Duration::from_secs(5);
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);
