//! Two gateways in one process, with a radio that damages and loses packets between them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aquila_net::gateway::{Allow, GatewayNode, GatewaySetup, Way};
use aquila_proto::gateway::GatewayConfig;
use aquila_proto::identity::Identity;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("aquila-gateway-{}-{number}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A radio between two UDP ports; of a thousand packets so many are lost, and a bit of others is wrong.
struct Radio {
    ends: [SocketAddr; 2],
    task: JoinHandle<()>,
}

async fn free_port() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

impl Radio {
    async fn new(lost: u32, wrong: u32) -> (Self, [String; 2]) {
        let sockets = [UdpSocket::bind("127.0.0.1:0").await.unwrap(), UdpSocket::bind("127.0.0.1:0").await.unwrap()];
        let ours = [sockets[0].local_addr().unwrap(), sockets[1].local_addr().unwrap()];
        let ends = [free_port().await, free_port().await];
        let task = tokio::spawn(async move {
            let mut buffers = [[0; 4096]; 2];
            let mut random = 12_345u32;
            loop {
                let [first, second] = &mut buffers;
                let (from, len) = tokio::select! {
                    Ok((len, _)) = sockets[0].recv_from(first) => (0, len),
                    Ok((len, _)) = sockets[1].recv_from(second) => (1, len),
                    else => continue,
                };
                let mut next = || {
                    random ^= random << 13;
                    random ^= random >> 17;
                    random ^= random << 5;
                    random
                };
                if next() % 1000 < lost {
                    continue;
                }
                if next() % 1000 < wrong {
                    buffers[from][next() as usize % len] ^= 1 << (next() % 8);
                }
                let _ = sockets[1 - from].send_to(&buffers[from][..len], ends[1 - from]).await;
            }
        });
        let spec = |end: usize| format!("udp:{}>{},rate=20M", ends[end], ours[end]);
        (Self { ends, task }, [spec(0), spec(1)])
    }
}

impl Drop for Radio {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn setup(end: u8, state: &Path, forwards: &[String]) -> GatewaySetup {
    let identity = |n: u8| Arc::new(Identity::from_seed([n; 32]));
    GatewaySetup {
        identity: identity(end + 1),
        peer: identity(2 - end).public(),
        initiates: end == 0,
        forwards: forwards.iter().map(|text| text.parse().unwrap()).collect(),
        intercepts: Vec::new(),
        tun: None,
        rules: Vec::new(),
        allow: Allow::loopback(),
        limits: GatewayConfig::default(),
        state_dir: state.to_owned(),
        status: None,
        report: None,
    }
}

struct Running {
    addresses: Vec<SocketAddr>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(radio: &str, setup: GatewaySetup) -> Self {
        let node = GatewayNode::start(setup, Way::Radio(radio.parse().unwrap())).await.unwrap();
        let addresses = node.local_addrs().to_vec();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(node.run(async move { drop(stopped.await) }, mpsc::channel(1).1));
        Self { addresses, stop, task }
    }

    async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap();
    }
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// A target that reads all there is, and gives it.
async fn sink() -> (SocketAddr, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        stream.write_all(&all[..all.len().min(100_000)]).await.unwrap();
        all
    });
    (address, task)
}

fn assert_same(got: &[u8], wanted: &[u8]) {
    let differ = got.iter().zip(wanted).position(|(got, wanted)| got != wanted);
    assert!(got.len() == wanted.len() && differ.is_none(), "{} bytes, differ from {differ:?} on", got.len());
}

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn tcp_near_reliable_and_udp_through_a_bad_radio() {
    let (radio, specs) = Radio::new(50, 100).await;
    let folders = [Folder::new(), Folder::new()];
    let (target, received) = sink().await;
    let echo = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let forwards = [
        format!("tcp/0:{target}=near-reliable"),
        format!("udp/0:{}", echo.local_addr().unwrap()),
        format!("udp/0:{}=unreliable-connection", echo.local_addr().unwrap()),
        "tcp/0:192.0.2.1:22".to_owned(),
    ];
    let air = Running::start(&specs[0], setup(0, &folders[0].0, &forwards)).await;
    let ground = Running::start(&specs[1], setup(1, &folders[1].0, &[])).await;

    let sent = bytes(2_000_000);
    let mut stream = TcpStream::connect(air.addresses[0]).await.unwrap();
    stream.write_all(&sent).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    assert_same(&received.await.unwrap(), &sent);
    assert_same(&answer, &sent[..100_000]);

    for address in &air.addresses[1..3] {
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        client.connect(address).await.unwrap();
        let mut buffer = [0; 2000];
        let mut heard = 0;
        for n in 0..20u8 {
            client.send(&[n; 300]).await.unwrap();
            // One in twenty is lost, there as well as back.
            if let Ok(Ok((len, from))) = timeout(Duration::from_millis(300), echo.recv_from(&mut buffer)).await {
                assert_eq!(buffer[..len], [n; 300]);
                echo.send_to(&buffer[..len], from).await.unwrap();
                if timeout(Duration::from_millis(300), client.recv(&mut buffer)).await.is_ok() {
                    heard += 1;
                }
            }
        }
        assert!(heard >= 12, "{heard}");
    }

    // What the far side does not allow.
    let mut stream = TcpStream::connect(air.addresses[3]).await.unwrap();
    let error = timeout(PATIENCE, stream.read(&mut [0; 1])).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(radio.ends[0] != radio.ends[1]);
    air.stop().await;
    ground.stop().await;
}

#[tokio::test]
async fn what_was_taken_is_delivered_after_restarts_and_a_far_side_that_comes_late() {
    let (_radio, specs) = Radio::new(20, 0).await;
    let folders = [Folder::new(), Folder::new()];
    let (target, received) = sink().await;
    // A name, which the far side looks up.
    let forwards = [format!("tcp/0:localhost:{}", target.port())];
    let air = Running::start(&specs[0], setup(0, &folders[0].0, &forwards)).await;
    // Nobody at the other end yet.
    let sent = bytes(3_000_000);
    let mut stream = TcpStream::connect(air.addresses[0]).await.unwrap();
    stream.write_all(&sent).await.unwrap();
    stream.shutdown().await.unwrap();
    sleep(Duration::from_millis(500)).await;
    air.stop().await;
    // As after kill -9: the connection is gone, what was in custody is not.
    let mut air = Running::start(&specs[0], setup(0, &folders[0].0, &forwards)).await;
    let ground = Running::start(&specs[1], setup(1, &folders[1].0, &[])).await;
    for _ in 0..4 {
        sleep(Duration::from_millis(250)).await;
        air.stop().await;
        air = Running::start(&specs[0], setup(0, &folders[0].0, &forwards)).await;
    }
    let received = timeout(PATIENCE, received).await.unwrap().unwrap();
    assert_same(&received, &sent);
    air.stop().await;
    ground.stop().await;
}
