//! The bearer's socket on loopback.

use std::time::Duration;

use tokio::time::timeout;

use super::*;

/// Where a socket that listens at `address` is reached.
fn listen(address: &str) -> (BearerSocket, u16) {
    let socket = BearerSocket::listen(address.parse().unwrap(), None).unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

fn to(destination: SocketAddr) -> Transmit {
    Transmit { destination, source: None, ecn: Some(EcnCodepoint::Ect0) }
}

/// The next `count` datagrams.
async fn receive(socket: &mut BearerSocket, count: usize) -> Vec<Datagram> {
    let mut datagrams = Vec::new();
    while datagrams.len() < count {
        timeout(Duration::from_secs(5), socket.receive(&mut datagrams)).await.unwrap();
    }
    datagrams
}

#[tokio::test(flavor = "current_thread")]
async fn every_family_reaches_a_socket_that_takes_both() {
    let (mut server, port) = listen("[::]:0");
    for address in [format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        let address = address.parse().unwrap();
        let mut client = BearerSocket::towards(address, &Source::Any).unwrap();
        client.send(to(address), b"there");
        client.flush();
        let there = receive(&mut server, 1).await.remove(0);
        assert_eq!((&there.data[..], there.ecn), (&b"there"[..], Some(EcnCodepoint::Ect0)));
        // Answered at the address as the session knows it, without the mapping.
        let back = SocketAddr::new(there.from.ip().to_canonical(), there.from.port());
        server.send(Transmit { source: there.local, ..to(back) }, b"back");
        server.flush();
        assert_eq!(&receive(&mut client, 1).await[0].data[..], b"back");
    }
}

/// Packets of these sizes, each with bytes of its own.
fn packets(sizes: impl IntoIterator<Item = usize>) -> Vec<Vec<u8>> {
    sizes.into_iter().enumerate().map(|(n, size)| vec![n as u8; size]).collect()
}

#[tokio::test(flavor = "current_thread")]
async fn packets_that_leave_together_arrive_one_by_one_and_in_order() {
    let (mut server, port) = listen("127.0.0.1:0");
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut client = BearerSocket::towards(address, &Source::Any).unwrap();
    let full = [1200; 3 * MAX_SEGMENTS + 5];
    let cases = [&full[..], &[1200, 1200, 700, 1200, 40, 40, 41, 40, 1200, 1201, 1201, 1], &[1], &[1472; 40]];
    for sizes in cases {
        let sent = packets(sizes.iter().copied());
        for packet in &sent {
            client.send(to(address), packet);
        }
        client.flush();
        let received = receive(&mut server, sent.len()).await;
        assert!(received.iter().all(|datagram| datagram.ecn == Some(EcnCodepoint::Ect0)));
        assert_eq!(received.into_iter().map(|datagram| datagram.data.to_vec()).collect::<Vec<_>>(), sent);
    }
    assert_eq!(client.errors(), 0);
}

#[tokio::test(flavor = "current_thread")]
async fn packets_for_different_peers_do_not_meet() {
    let ((mut first, first_port), (mut second, second_port)) = (listen("127.0.0.1:0"), listen("127.0.0.1:0"));
    let addresses = [first_port, second_port].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let mut client = BearerSocket::towards(addresses[0], &Source::Any).unwrap();
    for n in 0..20u8 {
        client.send(to(addresses[usize::from(n / 3 % 2)]), &[n; 100]);
    }
    client.flush();
    let numbers = |datagrams: Vec<Datagram>| datagrams.iter().map(|datagram| datagram.data[0]).collect::<Vec<_>>();
    assert_eq!(numbers(receive(&mut first, 11).await), [0, 1, 2, 6, 7, 8, 12, 13, 14, 18, 19]);
    assert_eq!(numbers(receive(&mut second, 9).await), [3, 4, 5, 9, 10, 11, 15, 16, 17]);
}

#[tokio::test(flavor = "current_thread")]
async fn where_packets_cannot_leave_together_they_leave_one_by_one() {
    let (mut server, port) = listen("127.0.0.1:0");
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut client = BearerSocket::towards(address, &Source::Any).unwrap();
    // More than the kernel takes in one call: it refuses, as it does for a device that cannot do it.
    let sent = packets([9000; 10]);
    for packet in &sent {
        client.send(to(address), packet);
    }
    client.flush();
    let received = receive(&mut server, 10).await;
    assert!(received.iter().zip(&sent).all(|(received, sent)| received.data[0] == sent[0]));
    assert_eq!(client.errors(), 0);
}

#[tokio::test(flavor = "current_thread")]
async fn a_datagram_came_when_the_kernel_got_it_and_not_when_it_was_read() {
    const UNREAD: Duration = Duration::from_millis(50);
    for host in ["127.0.0.1", "[::1]"] {
        let (mut server, port) = listen(&format!("{host}:0"));
        let address = format!("{host}:{port}").parse().unwrap();
        let mut client = BearerSocket::towards(address, &Source::Any).unwrap();
        // The kernel begins to note times a moment after it was first asked to.
        let mut tries = 20;
        loop {
            // Two that come as one, and one of its own.
            for packet in packets([1200, 1200, 1300]) {
                client.send(to(address), &packet);
            }
            client.flush();
            let sent = Instant::now();
            std::thread::sleep(UNREAD);
            let datagrams = receive(&mut server, 3).await;
            assert!(datagrams.iter().all(|datagram| datagram.ecn == Some(EcnCodepoint::Ect0)));
            if datagrams.iter().all(|datagram| datagram.received < sent + UNREAD / 2) {
                break;
            }
            tries -= 1;
            assert!(tries > 0, "{host}: received when they were read");
        }
    }
}
