//! Two nodes on loopback: what people plug in at one end comes out at the other.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aquila_net::encoder::EncoderSpec;
use aquila_net::node::{Node, NodeConfig, NodeEvent, Role};
use aquila_net::status::StatusSnapshot;
use aquila_net::video::{Flow, VideoSpec};
use aquila_proto::Side;
use aquila_proto::identity::Identity;
use aquila_proto::mavlink::{Address, Frame, MessageId, Version};
use aquila_proto::video::Codec;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Generous: machines that test are busy.
const PATIENCE: Duration = Duration::from_secs(20);

const AUTOPILOT: Address = Address::new(1, 1);
const STATION: Address = Address::new(255, 190);
const HEARTBEAT: MessageId = MessageId(0);
const COMMAND_LONG: MessageId = MessageId(76);
const RADIO_STATUS: MessageId = MessageId(109);

struct Running {
    mavlink: SocketAddr,
    camera: Option<SocketAddr>,
    link: Option<SocketAddr>,
    events: mpsc::Receiver<NodeEvent>,
    snapshots: watch::Receiver<StatusSnapshot>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(config: NodeConfig) -> Self {
        let mut node = Node::start(config).await.unwrap();
        let (tell, events) = mpsc::channel(256);
        node.set_events(tell);
        let (mavlink, camera, link) = (node.mavlink_addr(0).unwrap(), node.camera_addr(0), node.local_addr());
        let snapshots = node.snapshots();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(node.run(async { drop(stopped.await) }));
        Self { mavlink, camera, link, events, snapshots, stop, task }
    }

    async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap();
    }

    /// Waits for a connection; says whether it was by 0-RTT.
    async fn connected(&mut self) -> bool {
        loop {
            let event = timeout(PATIENCE, self.events.recv()).await.expect("no connection").unwrap();
            if let NodeEvent::Connected(_, resumed) = event {
                return resumed;
            }
        }
    }
}

fn identity(n: u8) -> Arc<Identity> {
    Arc::new(Identity::from_seed([n; 32]))
}

fn config(side: Side, role: Role) -> NodeConfig {
    let (me, peer) = if side == Side::Air { (1, 2) } else { (2, 1) };
    let mut config = NodeConfig::new(side, identity(me), identity(peer).public(), role);
    config.mavlink = vec!["udpin:127.0.0.1:0".parse().unwrap()];
    config
}

fn ground() -> NodeConfig {
    config(Side::Ground, Role::Listen("127.0.0.1:0".parse().unwrap()))
}

fn air(ground: &Running) -> NodeConfig {
    let port = ground.link.unwrap().port();
    // By name: it is looked up, and IPv4 is found although `localhost` may have IPv6 as well.
    config(Side::Air, Role::Connect(format!("127.0.0.1:{port}")))
}

async fn plug_in(endpoint: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(endpoint).await.unwrap();
    socket
}

fn frame(from: Address, id: MessageId, payload: &[u8]) -> Frame {
    Frame::build(Version::V2, 0, from, id, payload).unwrap()
}

/// An autopilot's HEARTBEAT, or a ground station's.
fn heartbeat(from: Address) -> Frame {
    let (kind, autopilot) = if from == AUTOPILOT { (2, 3) } else { (6, 8) };
    frame(from, HEARTBEAT, &[0, 0, 0, 0, kind, autopilot, 0, 4, 3])
}

/// A COMMAND_LONG to the autopilot with a number in it.
fn command(number: u32) -> Frame {
    let mut payload = [0; 33];
    payload[..4].copy_from_slice(&(number as f32).to_le_bytes());
    payload[28..30].copy_from_slice(&31_010u16.to_le_bytes());
    (payload[30], payload[31]) = (1, 1);
    frame(STATION, COMMAND_LONG, &payload)
}

/// Receives frames until one fits.
async fn receive(socket: &UdpSocket, fits: impl Fn(&Frame) -> bool) -> Frame {
    let mut buffer = [0; 2048];
    let wait = async {
        loop {
            // Nobody there yet answers with an error; so does a lost packet's word.
            let Ok(len) = socket.recv(&mut buffer).await else { continue };
            let (frame, _) = Frame::parse(&buffer[..len]).unwrap();
            if fits(&frame) {
                return frame;
            }
        }
    };
    timeout(PATIENCE, wait).await.expect("the frame did not come")
}

/// Makes both ends of the MAVLink path known to the routers.
async fn introduce(autopilot: &UdpSocket, station: &UdpSocket) {
    autopilot.send(heartbeat(AUTOPILOT).bytes()).await.unwrap();
    station.send(heartbeat(STATION).bytes()).await.unwrap();
    receive(station, |frame| frame.source() == AUTOPILOT && frame.message_id() == HEARTBEAT).await;
    receive(autopilot, |frame| frame.source() == STATION).await;
}

#[tokio::test(flavor = "current_thread")]
async fn commands_telemetry_and_video_pass_and_the_autopilot_gets_flow_control() {
    let viewer = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut ground_config = ground();
    ground_config.viewers = vec![VideoSpec { address: viewer.local_addr().unwrap(), codec: Codec::Auto, flow: None }];
    let mut ground = Running::start(ground_config).await;
    let mut air_config = air(&ground);
    let camera = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    air_config.cameras = vec![(Flow::default(), VideoSpec { address: camera, codec: Codec::Opaque, flow: None })];
    let mut air = Running::start(air_config).await;
    assert!(!air.connected().await, "nothing to resume");
    ground.connected().await;

    let (autopilot, station) = (plug_in(air.mavlink).await, plug_in(ground.mavlink).await);
    introduce(&autopilot, &station).await;
    for number in 0..20 {
        let sent = command(number);
        station.send(sent.bytes()).await.unwrap();
        let got = receive(&autopilot, |frame| frame.message_id() == COMMAND_LONG).await;
        assert_eq!(got.bytes(), sent.bytes(), "byte-identical");
    }
    let status = receive(&autopilot, |frame| frame.message_id() == RADIO_STATUS).await;
    assert!(status.payload()[6] >= 90, "an empty queue lets the autopilot send: {:?}", status.payload());

    let eye = plug_in(air.camera.unwrap()).await;
    for n in 0..50u8 {
        eye.send(&[n; 700]).await.unwrap();
        let mut buffer = [0; 2048];
        let len = timeout(PATIENCE, viewer.recv(&mut buffer)).await.expect("the picture did not come").unwrap();
        assert_eq!(buffer[..len], [n; 700]);
    }

    tokio::time::sleep(Duration::from_millis(600)).await;
    let snapshot = air.snapshots.borrow().clone();
    assert_eq!((snapshot.side.as_str(), snapshot.bearers[0].state.as_str()), ("air", "up"));
    assert!(snapshot.classes.video.sent >= 50 && snapshot.bearers[0].rtt_ms.is_some());
    air.stop().await;
    ground.stop().await;
}

/// An air and a ground with a camera and a viewer, whose encoder is this.
async fn with_encoder(encoder: &str) -> (Running, Running, UdpSocket) {
    let viewer = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut ground_config = ground();
    ground_config.viewers = vec![VideoSpec { address: viewer.local_addr().unwrap(), codec: Codec::Auto, flow: None }];
    let mut ground = Running::start(ground_config).await;
    let mut air_config = air(&ground);
    let camera = VideoSpec { address: "127.0.0.1:0".parse().unwrap(), codec: Codec::Opaque, flow: None };
    air_config.cameras = vec![(Flow::default(), camera)];
    air_config.encoder = Some(encoder.parse::<EncoderSpec>().unwrap().into());
    let mut air = Running::start(air_config).await;
    air.connected().await;
    ground.connected().await;
    (air, ground, viewer)
}

/// A command to the aircraft and a picture from it come through.
async fn pass(number: u8, [station, autopilot, eye, viewer]: [&UdpSocket; 4]) {
    let sent = command(number.into());
    station.send(sent.bytes()).await.unwrap();
    let got = receive(autopilot, |frame| frame.message_id() == COMMAND_LONG).await;
    assert_eq!(got.bytes(), sent.bytes());
    eye.send(&[number; 700]).await.unwrap();
    let mut buffer = [0; 2048];
    let len = timeout(PATIENCE, viewer.recv(&mut buffer)).await.expect("the picture did not come").unwrap();
    assert_eq!(buffer[..len], [number; 700]);
}

#[tokio::test(flavor = "current_thread")]
async fn commands_and_video_go_on_while_the_camera_fails_in_all_that_is_asked_of_it() {
    let failing = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = failing.local_addr().unwrap();
    let (asked, mut was_asked) = tokio::sync::watch::channel(0);
    let task = tokio::spawn(async move {
        loop {
            let (mut request, _) = failing.accept().await.unwrap();
            asked.send_modify(|times| *times += 1);
            let _ = request.read(&mut [0; 4096]).await;
            let _ = request.write_all(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
        }
    });
    let (air, ground, viewer) = with_encoder(&format!("majestic:{host}")).await;
    let (autopilot, station) = (plug_in(air.mavlink).await, plug_in(ground.mavlink).await);
    introduce(&autopilot, &station).await;
    let eye = plug_in(air.camera.unwrap()).await;
    // Asked again and again, and all else passes behind each time.
    for number in 0..3 {
        timeout(PATIENCE, was_asked.changed()).await.expect("it is asked").unwrap();
        pass(number, [&station, &autopilot, &eye, &viewer]).await;
    }
    timeout(PATIENCE, air.stop()).await.expect("it ends all the same");
    ground.stop().await;
    task.abort();
}

#[tokio::test(flavor = "current_thread")]
async fn commands_and_video_go_on_while_the_encoder_hangs() {
    let hung = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let deaf = "exec:trap '' TERM; while :; do sleep 1; done".to_owned();
    for encoder in [format!("majestic:{}", hung.local_addr().unwrap()), deaf] {
        let (air, ground, viewer) = with_encoder(&encoder).await;
        let (autopilot, station) = (plug_in(air.mavlink).await, plug_in(ground.mavlink).await);
        introduce(&autopilot, &station).await;
        let eye = plug_in(air.camera.unwrap()).await;
        let pass = |number| pass(number, [&station, &autopilot, &eye, &viewer]);
        // It takes requests and answers none; while one waits, all else passes. A busy machine has more than one try.
        let mut passed_meanwhile = !encoder.starts_with("majestic");
        for number in 0..10 {
            if passed_meanwhile {
                pass(number).await;
                continue;
            }
            let (request, _) = timeout(PATIENCE, hung.accept()).await.expect("a request").unwrap();
            pass(number).await;
            let mut buffer = [0; 4096];
            let mut is_given_up = false;
            while let Ok(len) = request.try_read(&mut buffer) {
                is_given_up = len == 0;
                if is_given_up {
                    break;
                }
            }
            passed_meanwhile = !is_given_up;
        }
        assert!(passed_meanwhile, "all waited for {encoder}");
        timeout(PATIENCE, air.stop()).await.expect("it ends all the same");
        ground.stop().await;
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_viewer_that_opens_its_port_late_has_a_recovery_point_made_for_it() {
    let nobody = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut ground_config = ground();
    ground_config.viewers = vec![VideoSpec { address: nobody, codec: Codec::Auto, flow: None }];
    let ground = Running::start(ground_config).await;
    let mut air_config = air(&ground);
    let camera = VideoSpec { address: "127.0.0.1:0".parse().unwrap(), codec: Codec::Opaque, flow: None };
    air_config.cameras = vec![(Flow::default(), camera)];
    let mut air = Running::start(air_config).await;
    air.connected().await;
    let eye = plug_in(air.camera.unwrap()).await;
    let wanted_after = async |frames: usize| {
        for _ in 0..frames {
            eye.send(&[0; 700]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            if air.snapshots.borrow().video.recovery_points_wanted > 0 {
                break;
            }
        }
        air.snapshots.borrow().video.recovery_points_wanted
    };
    assert_eq!(wanted_after(50).await, 0, "nobody watches");
    let _viewer = UdpSocket::bind(nobody).await.unwrap();
    assert_eq!(wanted_after(1000).await, 1);
    air.stop().await;
    ground.stop().await;
}

#[tokio::test(flavor = "current_thread")]
async fn either_side_may_listen_and_ipv6_works() {
    let mut air_config = config(Side::Air, Role::Listen("[::1]:0".parse().unwrap()));
    air_config.mtu = 1400;
    let mut air = Running::start(air_config).await;
    let mut ground = Running::start(config(Side::Ground, Role::Connect(air.link.unwrap().to_string()))).await;
    ground.connected().await;
    air.connected().await;
    let (autopilot, station) = (plug_in(air.mavlink).await, plug_in(ground.mavlink).await);
    introduce(&autopilot, &station).await;
    air.stop().await;
    ground.stop().await;
}

fn state_dir(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("aquila-node-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

#[tokio::test(flavor = "current_thread")]
async fn both_sides_resume_after_a_restart() {
    let (air_dir, ground_dir) = (state_dir("air"), state_dir("ground"));
    let mut ground_config = ground();
    ground_config.state_dir = Some(ground_dir.clone());
    let mut ground = Running::start(ground_config.clone()).await;
    ground_config.role = Role::Listen(ground.link.unwrap());
    let mut air_config = air(&ground);
    air_config.state_dir = Some(air_dir.clone());
    let mut air = Running::start(air_config.clone()).await;
    assert!(!air.connected().await);
    ground.connected().await;
    // Tickets come right after the handshake.
    tokio::time::sleep(Duration::from_millis(300)).await;
    air.stop().await;
    let mut air = Running::start(air_config.clone()).await;
    assert!(air.connected().await, "the aircraft was restarted");
    ground.connected().await;
    ground.stop().await;
    let began = Instant::now();
    let mut ground = Running::start(ground_config).await;
    assert!(air.connected().await, "the ground was restarted");
    ground.connected().await;
    eprintln!("back {:?} after the ground's restart", began.elapsed());
    air.stop().await;
    ground.stop().await;
    for dir in [air_dir, ground_dir] {
        std::fs::remove_dir_all(dir).unwrap();
    }
}

#[tokio::test(flavor = "current_thread")]
async fn noise_on_every_socket_does_not_disturb_the_link() {
    let mut ground = Running::start(ground()).await;
    let mut air = Running::start(air(&ground)).await;
    air.connected().await;
    ground.connected().await;
    let (autopilot, station) = (plug_in(air.mavlink).await, plug_in(ground.mavlink).await);
    introduce(&autopilot, &station).await;
    let mut noise = 1u32;
    for number in 0..200 {
        for target in [air.mavlink, ground.mavlink, ground.link.unwrap()] {
            let stranger = plug_in(target).await;
            let bytes: Vec<u8> = (0..noise % 1400)
                .map(|_| {
                    noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (noise >> 24) as u8
                })
                .collect();
            noise = noise.wrapping_add(7);
            let _ = stranger.send(&bytes).await;
        }
        if number % 20 == 0 {
            let sent = command(number);
            station.send(sent.bytes()).await.unwrap();
            assert_eq!(receive(&autopilot, |frame| frame.message_id() == COMMAND_LONG).await.bytes(), sent.bytes());
        }
    }
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(ground.snapshots.borrow().security.unknown_peers > 50);
    air.stop().await;
    ground.stop().await;
}

/// What a person is told: an error with all that is behind it, in one line.
fn in_one_line(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[tokio::test(flavor = "current_thread")]
async fn a_port_that_is_taken_is_named_once_and_so_is_the_reason() {
    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (udp, tcp) = (udp.local_addr().map(|at| (udp, at)).unwrap(), tcp.local_addr().map(|at| (tcp, at)).unwrap());
    let (keys, peer) = (Arc::new(Identity::from_seed([1; 32])), Identity::from_seed([2; 32]).public());
    let config = |change: &dyn Fn(&mut NodeConfig)| {
        let mut config = NodeConfig::new(Side::Ground, keys.clone(), peer, Role::Listen(([127, 0, 0, 1], 0).into()));
        change(&mut config);
        config
    };
    let camera = || (Flow::default(), VideoSpec { address: udp.1, codec: Codec::Auto, flow: None });
    let exposure = aquila_net::status::Exposure::LoopbackOnly;
    let cases = [
        (config(&|config| config.role = Role::Listen(udp.1)), udp.1, "cannot listen on UDP"),
        (
            config(&|config| config.mavlink = vec![format!("udpin:{}", udp.1).parse().unwrap()]),
            udp.1,
            "MAVLink endpoint",
        ),
        (
            config(&|config| config.mavlink = vec![format!("tcpin:{}", tcp.1).parse().unwrap()]),
            tcp.1,
            "MAVLink endpoint",
        ),
        (config(&|config| config.cameras = vec![camera()]), udp.1, "cannot take video at"),
        (config(&|config| config.status = Some((tcp.1, exposure))), tcp.1, "cannot serve the status page at"),
    ];
    for (config, taken, what) in cases {
        let line = in_one_line(&Node::start(config).await.unwrap_err());
        assert!(line.contains(what) && !line.contains('\n'), "{line}");
        assert_eq!(line.matches(&taken.to_string()).count(), 1, "{line}");
        assert_eq!(line.matches("in use").count(), 1, "{line}");
        assert!(line.contains("`ss -") || line.contains("choose another"), "what to do: {line}");
    }
}
