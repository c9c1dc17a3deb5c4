//! UDP listening and sending.

use tokio::net::UdpSocket;

use super::*;

async fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").await.unwrap()
}

async fn receive(socket: &UdpSocket) -> (Frame, std::net::SocketAddr) {
    let mut datagram = [0; 2048];
    let (n, from) = within(socket.recv_from(&mut datagram)).await.unwrap();
    let (frame, len) = Frame::parse(&datagram[..n]).unwrap();
    assert_eq!(len, n, "one frame per datagram");
    (frame, from)
}

#[tokio::test]
async fn peers_are_learned_from_what_they_send_and_answered_from_the_same_port() {
    let mut bench = Bench::new(&["udpin:127.0.0.1:0"]).await;
    let at = bench.address(0);
    let (one, two) = (socket().await, socket().await);
    one.send_to(heartbeat(1).bytes(), at).await.unwrap();
    let first = bench.added().await;
    assert_eq!(bench.frame().await, (first.id(), heartbeat(1)));
    // Two frames in one datagram.
    two.send_to(&[&heartbeat(2).bytes()[..], attitude(3).bytes()].concat(), at).await.unwrap();
    let second = bench.added().await;
    assert_eq!(bench.frame().await, (second.id(), heartbeat(2)));
    assert_eq!(bench.frame().await, (second.id(), attitude(3)));
    assert!(second.label().ends_with(&format!("from {}", two.local_addr().unwrap())));
    first.send(heartbeat(4), Class::Control).unwrap();
    second.send(heartbeat(5), Class::Telemetry).unwrap();
    assert_eq!(receive(&one).await, (heartbeat(4), at));
    assert_eq!(receive(&two).await, (heartbeat(5), at));
    assert_eq!(bench.status(0).frames_in, 3);
}

#[tokio::test]
async fn dual_stack_sockets_name_ipv4_peers_as_such() {
    let mut bench = Bench::new(&["udpin:[::]:0"]).await;
    let peer = socket().await;
    peer.send_to(heartbeat(1).bytes(), ("127.0.0.1", bench.address(0).port())).await.unwrap();
    let endpoint = bench.added().await;
    assert!(endpoint.label().ends_with(&format!("from {}", peer.local_addr().unwrap())), "{}", endpoint.label());
    endpoint.send(heartbeat(2), Class::Control).unwrap();
    assert_eq!(receive(&peer).await.0, heartbeat(2));
}

#[tokio::test]
async fn strangers_with_nothing_to_say_are_not_answered() {
    let mut bench = Bench::new(&["udpin:127.0.0.1:0"]).await;
    let (stranger, peer) = (socket().await, socket().await);
    for seed in 0..50 {
        stranger.send_to(&noise(seed, 300), bench.address(0)).await.unwrap();
    }
    stranger.send_to(&[], bench.address(0)).await.unwrap();
    peer.send_to(heartbeat(1).bytes(), bench.address(0)).await.unwrap();
    let mut endpoint = bench.added().await;
    if !endpoint.label().contains(&peer.local_addr().unwrap().to_string()) {
        // Noise can be a frame by chance, once in some thousand datagrams.
        endpoint = bench.added().await;
    }
    // From a known peer noise is counted, and frames behind it are found.
    peer.send_to(&noise(99, 1000), bench.address(0)).await.unwrap();
    peer.send_to(heartbeat(2).bytes(), bench.address(0)).await.unwrap();
    within(async { while bench.frame().await != (endpoint.id(), heartbeat(2)) {} }).await;
    assert!(endpoint.status().skipped_bytes > 500);
    assert!(bench.status(0).refused >= 45);
}

#[tokio::test]
async fn peers_are_limited() {
    let mut bench = Bench::new(&["udpin:127.0.0.1:0"]).await;
    let mut sockets = Vec::new();
    for _ in 0..MAX_PEERS {
        let peer = socket().await;
        peer.send_to(heartbeat(1).bytes(), bench.address(0)).await.unwrap();
        bench.added().await;
        bench.frame().await;
        sockets.push(peer);
    }
    let late = socket().await;
    late.send_to(heartbeat(1).bytes(), bench.address(0)).await.unwrap();
    within(async {
        while bench.status(0).refused == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    sockets[0].send_to(heartbeat(2).bytes(), bench.address(0)).await.unwrap();
    assert_eq!(bench.frame().await.1, heartbeat(2));
}

#[tokio::test]
async fn one_stable_socket_sends_and_takes_answers_from_its_target_only() {
    let station = socket().await;
    let mut bench = Bench::new(&[&format!("udpout:{}", station.local_addr().unwrap())]).await;
    let endpoint = bench.added().await;
    until(&endpoint, EndpointState::Up).await;
    let mut ours = None;
    for n in 0..5 {
        endpoint.send(heartbeat(n), Class::Control).unwrap();
        let (frame, from) = receive(&station).await;
        assert_eq!(frame, heartbeat(n));
        assert_eq!(*ours.get_or_insert(from), from);
    }
    let ours = ours.unwrap();
    let at = ("127.0.0.1", ours.port());
    let elsewhere = UdpSocket::bind("127.0.0.2:0").await.unwrap();
    elsewhere.send_to(heartbeat(9).bytes(), at).await.unwrap();
    station.send_to(heartbeat(10).bytes(), at).await.unwrap();
    assert_eq!(bench.frame().await, (endpoint.id(), heartbeat(10)));
    let status = bench.status(0);
    assert_eq!((status.refused, status.frames_in), (1, 1));
}

#[tokio::test]
async fn a_target_that_is_not_running_yet_is_found_when_it_is() {
    let station = socket().await;
    let address = station.local_addr().unwrap();
    drop(station);
    let mut bench = Bench::new(&[&format!("udpout:localhost:{}", address.port())]).await;
    let endpoint = bench.added().await;
    until(&endpoint, EndpointState::Up).await;
    for n in 0..3 {
        endpoint.send(heartbeat(n), Class::Control).unwrap();
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    let station = UdpSocket::bind(address).await.unwrap();
    endpoint.send(heartbeat(7), Class::Control).unwrap();
    assert_eq!(receive(&station).await.0, heartbeat(7));
}

#[tokio::test]
async fn a_parameter_burst_reaches_a_receiver_with_a_small_buffer() {
    let station = socket().await;
    // What a socket has by default on most systems.
    socket2::SockRef::from(&station).set_recv_buffer_size(106_496).unwrap();
    let mut bench = Bench::new(&[&format!("udpout:{}", station.local_addr().unwrap()), "udpin:127.0.0.1:0"]).await;
    let out = bench.added().await;
    let peer = socket().await;
    peer.send_to(heartbeat(0).bytes(), bench.address(1)).await.unwrap();
    let listening = bench.added().await;
    until(&out, EndpointState::Up).await;
    for frame in parameters() {
        out.send(frame.clone(), Class::Telemetry).unwrap();
        listening.send(frame, Class::Telemetry).unwrap();
    }
    let all = async |socket: &UdpSocket| {
        let mut received = Vec::new();
        for _ in 0..1348 {
            received.push(receive(socket).await.0);
        }
        received
    };
    let (at_station, at_peer) = tokio::join!(all(&station), all(&peer));
    assert!(at_station == parameters() && at_peer == parameters());
    assert_eq!((out.status().frames_out, listening.status().frames_out), (1348, 1348));
}

#[tokio::test]
async fn a_parameter_burst_from_an_autopilot_is_complete() {
    let mut bench = Bench::new(&["udpin:127.0.0.1:0"]).await;
    let autopilot = socket().await;
    let at = bench.address(0);
    let sending = async {
        for (n, frame) in parameters().iter().enumerate() {
            autopilot.send_to(frame.bytes(), at).await.unwrap();
            // 0.7 s for all of them, as a real one takes.
            if n % 4 == 3 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    };
    let receiving = async {
        let id = bench.added().await.id();
        for expected in parameters() {
            assert_eq!(bench.frame().await, (id, expected));
        }
    };
    tokio::join!(sending, receiving);
    assert_eq!(bench.status(0).dropped_in, 0);
}

#[tokio::test]
async fn a_session_that_does_not_keep_up_is_counted() {
    let mut bench = Bench::with_capacity(&["udpin:127.0.0.1:0"], 2).await;
    let peer = socket().await;
    for n in 0..6 {
        peer.send_to(heartbeat(n).bytes(), bench.address(0)).await.unwrap();
    }
    within(async {
        while bench.status(0).dropped_in < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let endpoint = bench.added().await;
    assert_eq!(bench.frame().await, (endpoint.id(), heartbeat(0)));
}
