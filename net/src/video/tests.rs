//! Video endpoints on loopback.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use aquila_proto::video::{Reassembler, ReassemblerConfig, SendQueue, SendQueueConfig, VideoEvent};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;

/// An address of loopback that was free a moment ago.
fn free_address() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A viewer's socket, with the system's default buffer.
async fn viewer() -> (tokio::net::UdpSocket, VideoSpec) {
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let spec = socket.local_addr().unwrap().to_string().parse().unwrap();
    (socket, spec)
}

async fn receive(socket: &tokio::net::UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = vec![0; 2048];
    let (len, source) = timeout(Duration::from_secs(5), socket.recv_from(&mut buffer)).await.unwrap().unwrap();
    buffer.truncate(len);
    (buffer, source)
}

/// Packets `count` of `len` bytes, different from each other, as the far side would give them out.
fn frame(count: usize, len: usize) -> (Vec<Vec<u8>>, aquila_proto::video::Packets) {
    let now = Instant::now();
    let packets: Vec<Vec<u8>> = (0..count)
        .map(|i| {
            let mut packet = vec![0x80, if i + 1 == count { 0xe0 } else { 0x60 }];
            packet.extend((i as u16).to_be_bytes());
            packet.resize(len, i as u8);
            packet[4..12].fill(0);
            packet
        })
        .collect();
    let mut queue = SendQueue::new(SendQueueConfig::default());
    let mut reassembler = Reassembler::new(ReassemblerConfig::default());
    for packet in &packets {
        queue.push(now, packet);
    }
    let mut fragment = Vec::new();
    while queue.pop_fragment(now, 60_000, &mut fragment).is_some() {
        reassembler.push(now, Duration::ZERO, &fragment);
        fragment.clear();
    }
    match reassembler.poll(now) {
        Some(VideoEvent::Frame(frame)) => (packets, frame.packets),
        event => panic!("{event:?}"),
    }
}

#[tokio::test]
async fn datagrams_come_in_as_they_are_and_in_order() {
    let spec = VideoSpec { address: free_address(), ..":1".parse().unwrap() };
    let (to, mut from) = mpsc::channel(1024);
    let input = VideoInput::spawn(&spec, Flow::new(3).unwrap(), to).unwrap();
    assert_eq!(input.local_addr(), spec.address);
    let camera = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (packets, _) = frame(60, 1400);
    for packet in &packets {
        camera.send_to(packet, spec.address).unwrap();
    }
    for packet in packets {
        let datagram = timeout(Duration::from_secs(5), from.recv()).await.unwrap().unwrap();
        assert_eq!((datagram.flow.number(), datagram.bytes), (3, packet.into()));
    }
    assert_eq!(input.counters(), InputCounters { packets: 60, bytes: 84_000, ..Default::default() });
}

#[tokio::test]
async fn what_others_send_to_a_cameras_port_is_dropped_and_counted() {
    let spec = VideoSpec { address: free_address(), ..":1".parse().unwrap() };
    let (to, mut from) = mpsc::channel(1024);
    let input = VideoInput::spawn(&spec, Flow::default(), to).unwrap();
    let (camera, other) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    for _ in 0..20 {
        camera.send_to(b"picture", spec.address).unwrap();
        other.send_to(b"noise", spec.address).unwrap();
    }
    camera.send_to(b"end", spec.address).unwrap();
    for n in 0..=20 {
        let datagram = timeout(Duration::from_secs(5), from.recv()).await.unwrap().unwrap();
        assert_eq!(&datagram.bytes[..], if n < 20 { &b"picture"[..] } else { b"end" });
    }
    assert_eq!(input.counters(), InputCounters { packets: 21, bytes: 143, foreign: 20, ..Default::default() });
}

#[tokio::test]
async fn what_the_session_does_not_take_is_dropped_and_counted() {
    let spec = VideoSpec { address: free_address(), ..":1".parse().unwrap() };
    let (to, mut from) = mpsc::channel(10);
    let input = VideoInput::spawn(&spec, Flow::default(), to).unwrap();
    let camera = UdpSocket::bind("127.0.0.1:0").unwrap();
    for i in 0..30u8 {
        camera.send_to(&[i; 100], spec.address).unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    while input.counters().packets < 30 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(input.counters(), InputCounters { packets: 30, bytes: 3000, dropped: 20, ..Default::default() });
    for i in 0..10u8 {
        assert_eq!(from.recv().await.unwrap().bytes[0], i, "the oldest stay");
    }
}

#[tokio::test]
async fn the_port_is_free_again_when_the_input_is_dropped() {
    let spec = VideoSpec { address: free_address(), ..":1".parse().unwrap() };
    let (to, _from) = mpsc::channel(10);
    let input = VideoInput::spawn(&spec, Flow::default(), to.clone()).unwrap();
    assert!(VideoInput::spawn(&spec, Flow::default(), to).is_err(), "in use");
    drop(input);
    let deadline = Instant::now() + Duration::from_secs(5);
    while UdpSocket::bind(spec.address).is_err() {
        assert!(Instant::now() < deadline, "still in use");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn viewers_get_their_flow_from_one_port_and_one_that_is_gone_disturbs_nobody() {
    let gone: VideoSpec = free_address().to_string().parse().unwrap();
    let ((first, first_spec), (second, second_spec)) = (viewer().await, viewer().await);
    let other = VideoSpec { flow: Flow::new(1), ..second_spec.clone() };
    let output = VideoOutput::spawn(&[gone, first_spec, second_spec, other]).unwrap();
    let mut sources = Vec::new();
    for _ in 0..5 {
        let (packets, frame) = frame(3, 200);
        output.send(Flow::default(), frame);
        for socket in [&first, &second] {
            for packet in &packets {
                let (received, source) = receive(socket).await;
                assert_eq!(received, *packet);
                sources.push(source.port());
            }
        }
    }
    sources.dedup();
    assert_eq!(sources.len(), 1, "one port for all");
    let counters = output.counters();
    assert_eq!(counters.frames_dropped, 0);
    assert_eq!(counters.consumers.iter().map(|c| c.packets).collect::<Vec<_>>()[1..], [15, 15, 0]);
    assert_eq!(counters.consumers[0].packets + counters.consumers[0].errors, 15);
}

#[tokio::test]
async fn a_viewer_that_comes_late_is_noticed_once_and_one_that_was_there_is_not() {
    for loopback in ["127.0.0.1:0", "[::1]:0"] {
        let late = UdpSocket::bind(loopback).unwrap().local_addr().unwrap();
        let (_watching, watching) = viewer().await;
        let [late_spec, spec] = [(late, 2), (watching.address, 1)].map(|(address, flow)| VideoSpec {
            address,
            flow: Flow::new(flow),
            ..watching.clone()
        });
        let mut output = VideoOutput::spawn(&[late_spec, spec]).unwrap();
        let mut begun_within = async |frames: usize| {
            for _ in 0..frames {
                for flow in [1, 2] {
                    output.send(Flow::new(flow).unwrap(), frame(20, 1200).1);
                }
                if let Ok(flow) = timeout(Duration::from_millis(20), output.viewer_begun()).await {
                    return Some(flow.number());
                }
            }
            None
        };
        assert_eq!(begun_within(20).await, None, "nobody listens at {late}");
        let _socket = UdpSocket::bind(late).unwrap();
        assert_eq!(begun_within(250).await, Some(2), "{late}");
        assert_eq!(begun_within(20).await, None, "{late}");
    }
}

#[tokio::test]
async fn packets_of_any_size_come_out_as_they_went_in() {
    let (socket, spec) = viewer().await;
    let output = VideoOutput::spawn(&[spec]).unwrap();
    for len in [1400, 30_000, 1400] {
        let (packets, frame) = frame(4, len);
        output.send(Flow::default(), frame);
        for packet in packets {
            let mut buffer = vec![0; 65_536];
            let (len, _) = timeout(Duration::from_secs(5), socket.recv_from(&mut buffer)).await.unwrap().unwrap();
            assert!(buffer[..len] == packet);
        }
    }
}

#[tokio::test]
async fn a_large_frame_fits_through_a_default_receive_buffer() {
    let (socket, spec) = viewer().await;
    let output = VideoOutput::spawn(&[spec]).unwrap();
    let (packets, frame) = frame(600, 1400);
    output.send(Flow::default(), frame);
    for packet in packets {
        assert_eq!(receive(&socket).await.0, packet);
    }
}

#[tokio::test]
async fn frames_that_wait_too_long_are_dropped_whole() {
    let (_socket, spec) = viewer().await;
    let output = VideoOutput::spawn(&[spec]).unwrap();
    let (_, frame) = frame(1, 200);
    for _ in 0..300 {
        output.send(Flow::default(), frame.clone());
    }
    assert_eq!(output.counters().frames_dropped, 300 - 256);
    output.send(Flow::new(7).unwrap(), frame);
    assert_eq!(output.counters().frames_dropped, 300 - 256, "nobody watches this one");
}
