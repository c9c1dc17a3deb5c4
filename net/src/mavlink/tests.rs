//! Endpoints against real sockets and pseudo terminals.

use std::time::Duration;

use aquila_proto::Class;

use super::testkit::*;
use super::*;

mod serial;
mod tcp;
mod udp;

/// Random bytes with a bias for magic bytes, so that false starts of frames are common.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    (0..len)
        .map(|_| match next() % 16 {
            0 => 0xfd,
            1 => 0xfe,
            _ => next() as u8,
        })
        .collect()
}

/// The frames of a byte stream.
fn frames(bytes: &[u8]) -> Vec<Frame> {
    let mut splitter = aquila_proto::mavlink::Splitter::new();
    splitter.feed(bytes);
    std::iter::from_fn(|| splitter.next_frame()).collect()
}

#[tokio::test]
async fn ids_are_unique_and_every_spec_has_a_status() {
    let specs = [
        "udpin:127.0.0.1:0",
        "tcpin:[::1]:0",
        "udpout:localhost:9",
        "tcpout:127.0.0.1:1",
        "serial:/dev/does-not-exist",
    ];
    let mut bench = Bench::new(&specs).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let endpoint = bench.added().await;
        assert_eq!(specs[endpoint.port()].split(':').next(), endpoint.label().split(':').next());
        ids.push(endpoint.id());
    }
    ids.sort();
    assert_eq!(ids, [EndpointId(0), EndpointId(1), EndpointId(2)]);
    let states: Vec<_> = bench.endpoints.status().map(|(spec, status)| (spec.kind(), status.state)).collect();
    use EndpointState::*;
    assert_eq!(states[0], ("udpin", Listening));
    assert_eq!(states[1], ("tcpin", Listening));
    assert_eq!(states[3], ("tcpout", Down));
    assert_eq!(states[4], ("serial", Down));
    within(bench.endpoints.shutdown()).await;
}

#[tokio::test]
async fn a_port_that_is_taken_is_an_error_that_says_so() {
    let bench = Bench::new(&["udpin:127.0.0.1:0", "tcpin:127.0.0.1:0"]).await;
    for port in 0..2 {
        let kind = ["udpin", "tcpin"][port];
        let spec = format!("{kind}:{}", bench.address(port)).parse().unwrap();
        let (tx, _rx) = mpsc::channel(1);
        let error = Endpoints::spawn(&[spec], &EndpointIds::new(), tx).await.unwrap_err().to_string();
        assert!(error.starts_with(kind) && error.contains("another program"), "{error}");
    }
}

#[tokio::test]
async fn shutdown_closes_every_port_so_that_they_can_be_opened_again() {
    let specs = ["udpin:127.0.0.1:0", "tcpin:127.0.0.1:0"];
    let bench = Bench::new(&specs).await;
    let (udp, tcp) = (bench.address(0), bench.address(1));
    let client = tokio::net::TcpStream::connect(tcp).await.unwrap();
    within(bench.endpoints.shutdown()).await;
    drop(client);
    let again = [format!("udpin:{udp}"), format!("tcpin:{tcp}")];
    Bench::new(&again.each_ref().map(String::as_str)).await;
}

#[tokio::test]
async fn tasks_end_when_nobody_listens_to_them() {
    let mut bench = Bench::new(&["udpin:127.0.0.1:0", "tcpin:127.0.0.1:0", "udpout:127.0.0.1:9"]).await;
    bench.events.close();
    within(async { while bench.endpoints.tasks.join_next().await.is_some() {} }).await;
}
