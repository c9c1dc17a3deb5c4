//! Radios: the lines that AeroTP is spoken over, opened again whenever they come back.

mod checksum;
mod spec;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aquila_proto::BearerId;
use serial2_tokio::SerialPort;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;

pub use checksum::without as without_checksum;
pub use spec::{LineSpec, ParseRadioError, RadioSpec, mode_name, mode_of};

/// What a radio's line has to say.
#[derive(Debug)]
pub struct LineNews {
    /// Whose.
    pub bearer: BearerId,
    /// What.
    pub what: LineInput,
}

/// See [`LineNews`].
#[derive(Debug)]
pub enum LineInput {
    /// It is open.
    Opened,
    /// Bytes have come, or one packet.
    Bytes(Vec<u8>),
    /// It is gone, for this reason; it is tried again.
    Gone(String),
}

/// A line in use. Closed when dropped.
#[derive(Debug)]
pub struct RadioLine {
    to_line: mpsc::Sender<Vec<u8>>,
    task: JoinHandle<()>,
    /// Writes that the line did not take.
    pub refused: u64,
}

/// Frames that wait for the line: it is paced, so that they are few.
const WAITING: usize = 16;
/// A device that is missing is looked for this often.
const RETRY: Duration = Duration::from_millis(500);
/// Bytes read at a time.
const READ: usize = 4096;

impl RadioLine {
    /// Opens a line and keeps it open; what comes goes to `news`.
    pub fn spawn(bearer: BearerId, line: LineSpec, news: mpsc::Sender<LineNews>) -> Self {
        let (to_line, from_node) = mpsc::channel(WAITING);
        let task = tokio::spawn(serve(bearer, line, news, from_node));
        Self { to_line, task, refused: 0 }
    }

    /// Hands bytes to the line, or one packet. What it cannot take is dropped: it is late already.
    pub fn send(&mut self, bytes: &[u8]) {
        self.refused += u64::from(self.to_line.try_send(bytes.to_vec()).is_err());
    }
}

impl Drop for RadioLine {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(bearer: BearerId, line: LineSpec, news: mpsc::Sender<LineNews>, mut frames: mpsc::Receiver<Vec<u8>>) {
    let mut told = None;
    loop {
        while frames.try_recv().is_ok() {} // From before it was there.
        let tell = |what| news.send(LineNews { bearer, what });
        let ended = match &line {
            LineSpec::Serial { device, baud } => match open(device, *baud) {
                Ok(port) => {
                    told = None;
                    if tell(LineInput::Opened).await.is_err() {
                        return;
                    }
                    run_serial(bearer, port, &news, &mut frames).await
                }
                Err(error) => Err(error),
            },
            LineSpec::Udp { local, remote } => match open_udp(*local, *remote) {
                Ok(socket) => {
                    told = None;
                    if tell(LineInput::Opened).await.is_err() {
                        return;
                    }
                    run_udp(bearer, socket, &news, &mut frames).await
                }
                Err(error) => Err(error),
            },
        };
        let Err(error) = ended else { return };
        let why = error.to_string();
        if told.as_ref() != Some(&why) {
            told = Some(why.clone());
            if news.send(LineNews { bearer, what: LineInput::Gone(why) }).await.is_err() {
                return;
            }
        }
        sleep(RETRY).await;
    }
}

/// Until the line fails; `Ok` when nobody listens any more.
async fn run_serial(
    bearer: BearerId,
    port: SerialPort,
    news: &mpsc::Sender<LineNews>,
    frames: &mut mpsc::Receiver<Vec<u8>>,
) -> io::Result<()> {
    let (mut reader, mut writer) = tokio::io::split(port);
    let mut buffer = vec![0; READ];
    let mut waiting: Vec<u8> = Vec::new();
    loop {
        tokio::select! {
            read = reader.read(&mut buffer) => {
                let len = read?;
                if len == 0 {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the device is gone"));
                }
                let what = LineInput::Bytes(buffer[..len].to_vec());
                if news.send(LineNews { bearer, what }).await.is_err() {
                    return Ok(());
                }
            }
            // A write may take a part: the rest follows, so that no frame is torn.
            written = writer.write(&waiting), if !waiting.is_empty() => drop(waiting.drain(..written?)),
            frame = frames.recv(), if waiting.is_empty() => match frame {
                Some(frame) => waiting = frame,
                None => return Ok(()),
            },
        }
    }
}

async fn run_udp(
    bearer: BearerId,
    socket: UdpSocket,
    news: &mpsc::Sender<LineNews>,
    frames: &mut mpsc::Receiver<Vec<u8>>,
) -> io::Result<()> {
    let mut buffer = vec![0; READ];
    loop {
        tokio::select! {
            received = socket.recv(&mut buffer) => match received {
                Ok(len) => {
                    let what = LineInput::Bytes(buffer[..len].to_vec());
                    if news.send(LineNews { bearer, what }).await.is_err() {
                        return Ok(());
                    }
                }
                // An ICMP message: the other side is not there yet.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            },
            frame = frames.recv() => match frame {
                Some(frame) => match socket.send(&frame).await {
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    sent => drop(sent?),
                },
                None => return Ok(()),
            },
        }
    }
}

fn open(device: &Path, baud: u32) -> io::Result<SerialPort> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}{}", device.display(), hint(&error)));
    let port = SerialPort::open(PathBuf::from(device), baud).map_err(named)?;
    // What the driver has kept is from before we were there.
    port.discard_buffers().map_err(named)?;
    Ok(port)
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (is this user in the group dialout?)",
        io::ErrorKind::NotFound => " (is it plugged in? `ls /dev/serial/by-id` shows what is)",
        _ => "",
    }
}

/// UDP without checksum, so that damaged packets come through where the radio lets them, towards one address.
fn open_udp(local: SocketAddr, remote: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    if local.is_ipv4() {
        // IPv6 has no UDP without checksum (RFC 8200 §8.1).
        checksum::without(&socket)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::from(local))?;
    socket.connect(&SockAddr::from(remote))?;
    UdpSocket::from_std(socket.into())
}
