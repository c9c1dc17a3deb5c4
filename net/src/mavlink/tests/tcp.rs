//! TCP server and client.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

async fn read(stream: &mut TcpStream, n: usize) -> Vec<Frame> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    while frames(&bytes).len() < n {
        let n = within(stream.read(&mut chunk)).await.unwrap();
        assert!(n > 0, "hung up");
        bytes.extend_from_slice(&chunk[..n]);
    }
    frames(&bytes)
}

#[tokio::test]
async fn each_client_is_an_endpoint_of_its_own() {
    for at in ["127.0.0.1:0", "[::1]:0"] {
        let mut bench = Bench::new(&[&format!("tcpin:{at}")]).await;
        let mut one = TcpStream::connect(bench.address(0)).await.unwrap();
        let first = bench.added().await;
        let mut two = TcpStream::connect(bench.address(0)).await.unwrap();
        let second = bench.added().await;
        assert_ne!(first.id(), second.id());
        assert!(first.label().contains(&one.local_addr().unwrap().to_string()), "{}", first.label());
        two.write_all(heartbeat(1).bytes()).await.unwrap();
        assert_eq!(bench.frame().await, (second.id(), heartbeat(1)));
        first.send(heartbeat(2), Class::Control).unwrap();
        second.send(heartbeat(3), Class::Control).unwrap();
        assert_eq!(read(&mut one, 1).await, [heartbeat(2)]);
        assert_eq!(read(&mut two, 1).await, [heartbeat(3)]);
        drop(one);
        assert_eq!(bench.removed().await, first.id());
        assert_eq!(first.send(heartbeat(4), Class::Control), Err(Refused::Down));
        assert_eq!((first.status().state, bench.status(0).state), (EndpointState::Closed, EndpointState::Listening));
        // The port's counters include the client that left.
        assert_eq!(bench.status(0).frames_out, 2);
    }
}

#[tokio::test]
async fn a_client_connects_again_when_the_server_comes_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut bench = Bench::new(&[&format!("tcpout:localhost:{}", address.port())]).await;
    let endpoint = bench.added().await;
    let (mut stream, _) = within(listener.accept()).await.unwrap();
    until(&endpoint, EndpointState::Up).await;
    stream.write_all(heartbeat(1).bytes()).await.unwrap();
    assert_eq!(bench.frame().await, (endpoint.id(), heartbeat(1)));
    // Half a frame is on its way when the server dies.
    stream.write_all(&heartbeat(2).bytes()[..10]).await.unwrap();
    drop((stream, listener));
    until(&endpoint, EndpointState::Down).await;
    assert_eq!(endpoint.send(heartbeat(3), Class::Control), Err(Refused::Down));

    let listener = within(rebind(address)).await;
    let (mut stream, _) = within(listener.accept()).await.unwrap();
    until(&endpoint, EndpointState::Up).await;
    endpoint.send(heartbeat(4), Class::Control).unwrap();
    assert_eq!(read(&mut stream, 1).await, [heartbeat(4)]);
    stream.write_all(heartbeat(5).bytes()).await.unwrap();
    assert_eq!(bench.frame().await, (endpoint.id(), heartbeat(5)));
}

async fn rebind(address: SocketAddr) -> TcpListener {
    loop {
        if let Ok(listener) = TcpListener::bind(address).await {
            return listener;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_parameter_burst_is_complete_for_each_client() {
    let mut bench = Bench::new(&["tcpin:127.0.0.1:0"]).await;
    let mut streams = Vec::new();
    let mut endpoints = Vec::new();
    for _ in 0..3 {
        streams.push(TcpStream::connect(bench.address(0)).await.unwrap());
        endpoints.push(bench.added().await);
    }
    for frame in parameters() {
        for endpoint in &endpoints {
            endpoint.send(frame.clone(), Class::Telemetry).unwrap();
        }
    }
    for stream in &mut streams {
        assert_eq!(read(stream, 1348).await, parameters());
    }
    let status = bench.status(0);
    assert_eq!((status.frames_out, status.dropped_out, status.queued), (3 * 1348, 0, 0));
}

#[tokio::test]
async fn a_client_that_does_not_read_costs_drops_and_disturbs_nobody() {
    let mut bench = Bench::new(&["tcpin:127.0.0.1:0"]).await;
    let _deaf = TcpStream::connect(bench.address(0)).await.unwrap();
    let deaf = bench.added().await;
    let mut reader = TcpStream::connect(bench.address(0)).await.unwrap();
    let good = bench.added().await;
    // Until its kernel buffers and then its queue are full.
    let mut sent = 0;
    while deaf.send(attitude(sent as u8), Class::Telemetry).is_ok() {
        sent += 1;
        if sent % 256 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let status = deaf.status();
    assert!(status.queued >= 4000 && status.dropped_out == 1, "{status:?}");
    for frame in parameters() {
        good.send(frame, Class::Telemetry).unwrap();
    }
    assert_eq!(read(&mut reader, 1348).await, parameters());
    assert_eq!(good.status().dropped_out, 0);
}

#[tokio::test]
async fn a_busy_session_stops_the_reading_and_loses_nothing() {
    let mut bench = Bench::with_capacity(&["tcpin:127.0.0.1:0"], 4).await;
    let mut stream = TcpStream::connect(bench.address(0)).await.unwrap();
    let endpoint = bench.added().await;
    let burst: Vec<u8> = parameters().iter().flat_map(|frame| frame.bytes().to_vec()).collect();
    stream.write_all(&burst).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(endpoint.status().frames_in <= 5, "{:?}", endpoint.status());
    for expected in parameters() {
        assert_eq!(bench.frame().await, (endpoint.id(), expected));
    }
}

#[tokio::test]
async fn noise_is_counted_and_the_next_frames_are_found() {
    let mut bench = Bench::new(&["tcpin:127.0.0.1:0"]).await;
    let mut stream = TcpStream::connect(bench.address(0)).await.unwrap();
    let endpoint = bench.added().await;
    stream.write_all(&noise(3, 100_000)).await.unwrap();
    // A false start may swallow 280 bytes before it is seen through.
    for _ in 0..20 {
        stream.write_all(heartbeat(1).bytes()).await.unwrap();
    }
    within(async { while bench.frame().await.1 != heartbeat(1) {} }).await;
    assert!(endpoint.status().skipped_bytes > 90_000);
}

#[tokio::test]
async fn clients_are_limited() {
    let mut bench = Bench::new(&["tcpin:127.0.0.1:0"]).await;
    let mut streams = Vec::new();
    for _ in 0..MAX_PEERS {
        streams.push(TcpStream::connect(bench.address(0)).await.unwrap());
        bench.added().await;
    }
    let mut refused = TcpStream::connect(bench.address(0)).await.unwrap();
    assert_eq!(within(refused.read(&mut [0; 1])).await.unwrap_or(0), 0);
    assert_eq!(bench.status(0).refused, 1);
    streams.pop();
    bench.removed().await;
    streams.push(TcpStream::connect(bench.address(0)).await.unwrap());
    bench.added().await;
}
