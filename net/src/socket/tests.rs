//! The bearer's socket on loopback.

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
        let mut client = BearerSocket::towards(address, None).unwrap();
        client.send(&to(address), b"there");
        let there = receive(&mut server, 1).await.remove(0);
        assert_eq!((&there.data[..], there.ecn), (&b"there"[..], Some(EcnCodepoint::Ect0)));
        // Answered at the address as the session knows it, without the mapping.
        let back = SocketAddr::new(there.from.ip().to_canonical(), there.from.port());
        server.send(&Transmit { source: there.local, ..to(back) }, b"back");
        assert_eq!(&receive(&mut client, 1).await[0].data[..], b"back");
    }
}
