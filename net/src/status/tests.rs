//! The status page, asked over TCP.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::*;
use crate::gateway::{GatewayFlow, GatewaySnapshot};

/// A snapshot in which everything has a value.
fn full() -> StatusSnapshot {
    let count = |name: &str, n| BTreeMap::from([(name.to_owned(), n)]);
    let class = |n| ClassStatus {
        queued: n,
        sent: 10 * n,
        dropped: count("full", n),
        latency_ms: Some(LatencyStatus { p50: 1.0, p95: 2.0, p99: 3.5, max: 40.0 }),
        ..ClassStatus::default()
    };
    StatusSnapshot {
        version: "0.1.0".to_owned(),
        side: "air".to_owned(),
        uptime_s: 12.5,
        peer: PeerStatus { fingerprint: Some("abcd-0123".to_owned()), version: None, address: None },
        bearers: vec![BearerStatus {
            number: 1,
            usage: "metered".to_owned(),
            carries_video: true,
            control_won: 6,
            control_late: 5,
            name: "a \"quoted\\name\"\n".to_owned(),
            local: Some("192.0.2.1:49152".to_owned()),
            remote: Some("198.51.100.1:9400".to_owned()),
            state: "up".to_owned(),
            silence_ms: Some(50.0),
            rtt_ms: Some(61.5),
            rtt_min_ms: Some(60.0),
            loss: Some(0.25),
            packets_out: 7,
            ..BearerStatus::default()
        }],
        replication: ReplicationStatus { copies: 8, redundant_bytes: 900, share: Some(0.015), ..Default::default() },
        classes: PerClass { control: class(1), telemetry: class(2), video: class(3), bulk: class(4) },
        video: VideoStatus {
            frames_in: 30,
            frames_dropped: count("too_old", 2),
            picture_age_ms: Some(75.0),
            picture_age_there_ms: Some(125.0),
            inputs: vec![VideoInputStatus { address: "0.0.0.0:5600".to_owned(), packets: 9, ..Default::default() }],
            outputs: vec![VideoOutputStatus { address: "127.0.0.1:5600".to_owned(), errors: 1, ..Default::default() }],
            ..VideoStatus::default()
        },
        congestion: CongestionStatus { capacity_bps: 4_000_000, ..CongestionStatus::default() },
        mavlink: MavlinkStatus {
            endpoints: vec![MavlinkEndpointStatus {
                name: "udpout:127.0.0.1:14550".to_owned(),
                state: "up".to_owned(),
                frames_in: 5,
                ..Default::default()
            }],
            dropped: count("no_route", 3),
        },
        security: SecurityStatus {
            replayed: 1,
            handshakes_refused: 2,
            unknown_peers: 3,
            malformed: 4,
            report_faults: 5,
        },
        gateway: Some(GatewaySnapshot {
            flows: vec![GatewayFlow { target: "127.0.0.1:22".to_owned(), ..GatewayFlow::default() }],
            custody_bytes: 77,
            ..GatewaySnapshot::default()
        }),
    }
}

fn serve(snapshot: StatusSnapshot) -> (StatusServer, watch::Sender<StatusSnapshot>) {
    let (publish, snapshots) = watch::channel(snapshot);
    let server = StatusServer::spawn("127.0.0.1:0".parse().unwrap(), Exposure::LoopbackOnly, snapshots).unwrap();
    (server, publish)
}

/// Sends `request` and gives the answer's header and body.
async fn ask(address: SocketAddr, request: &[u8]) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    timeout(Duration::from_secs(4), stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    let (header, body) = answer.split_once("\r\n\r\n").unwrap();
    (header.to_owned(), body.to_owned())
}

async fn get(address: SocketAddr, path: &str) -> (String, String) {
    ask(address, format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await
}

#[tokio::test]
async fn the_latest_snapshot_comes_as_json() {
    let (server, publish) = serve(StatusSnapshot::default());
    publish.send_replace(full());
    let (header, body) = get(server.local_addr(), "/status").await;
    assert!(header.starts_with("HTTP/1.1 200 OK\r\n") && header.contains("application/json"), "{header}");
    assert!(header.contains(&format!("Content-Length: {}", body.len())));
    assert_eq!(serde_json::from_str::<StatusSnapshot>(&body).unwrap(), full());
    let json: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(json["classes"]["video"]["latency_ms"]["p99"], 3.5);
    assert_eq!(json["peer"]["address"], serde_json::Value::Null);
}

#[tokio::test]
async fn other_pages_and_methods() {
    let (server, _publish) = serve(full());
    let address = server.local_addr();
    let (header, body) = get(address, "/?x=1").await;
    assert!(header.contains("text/plain") && body.contains("round trip 62 ms, loss 25.0 %"), "{body}");
    assert!(body.contains(" 192.0.2.1:49152 to 198.51.100.1:9400: up"), "{body}");
    // What the pilot sees is so old: of the aircraft's camera there, of the other side's here.
    let ages = ["too old, picture 125 ms old\n", "too old, picture 75 ms old; "];
    assert!(ages.iter().all(|age| body.contains(age)), "{body}");
    assert!(body.contains("custody 77 bytes") && body.contains("to 127.0.0.1:22"), "{body}");
    assert!(get(address, "/favicon.ico").await.0.starts_with("HTTP/1.1 404"));
    let (header, body) = ask(address, b"HEAD /metrics HTTP/1.0\r\n\r\n").await;
    assert!(header.contains("200 OK") && !header.contains("Content-Length: 0") && body.is_empty());
    let (header, _) = ask(address, b"POST / HTTP/1.1\r\n\r\n").await;
    assert!(header.starts_with("HTTP/1.1 405") && header.contains("Allow: GET, HEAD"));
    assert!(ask(address, b"GET / HTTP/2.0\r\n\r\n").await.0.starts_with("HTTP/1.1 505"));
    assert!(ask(address, b"\xff\x00 hello\r\n\r\n").await.0.starts_with("HTTP/1.1 400"));
}

#[tokio::test]
async fn a_header_without_end_is_refused() {
    let (server, _publish) = serve(full());
    let (header, _) = ask(server.local_addr(), &vec![b'a'; 8 << 10]).await;
    assert!(header.starts_with("HTTP/1.1 431"), "{header}");
}

#[tokio::test]
async fn silent_connections_do_not_keep_others_out_for_long() {
    let (server, _publish) = serve(full());
    let mut silent = Vec::new();
    for _ in 0..16 {
        silent.push(TcpStream::connect(server.local_addr()).await.unwrap());
    }
    // One more than there is room for: answered once the others have timed out.
    let mut stream = TcpStream::connect(server.local_addr()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test]
async fn others_are_let_in_only_if_told_so() {
    let (_publish, snapshots) = watch::channel(StatusSnapshot::default());
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:9420"] {
        let refused = StatusServer::spawn(address.parse().unwrap(), Exposure::LoopbackOnly, snapshots.clone());
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("127.0.0.1") && message.contains("allow_remote"), "{message}");
    }
    assert!(StatusServer::spawn("0.0.0.0:0".parse().unwrap(), Exposure::Anyone, snapshots).is_ok());
}

#[test]
fn metrics_are_well_formed_and_said_once() {
    let page = render_metrics(&full());
    let (mut helped, mut typed, mut samples) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').unwrap();
            assert!(helped.insert(name) && !text.is_empty(), "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(matches!(kind, "gauge" | "counter") && helped.contains(name), "{line}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            typed.insert(name, kind);
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            assert!(typed.contains_key(name) && name.starts_with("aquila_"), "{line}");
            assert!(value.parse::<f64>().unwrap().is_finite(), "{line}");
            assert!(samples.insert(series), "twice: {line}");
        }
    }
    assert!(page.contains(r#"aquila_bearer_loss_ratio{bearer="1",name="a \"quoted\\name\"\n"} 0.25"#), "{page}");
    assert!(page.contains(r#"aquila_class_latency_seconds{class="control",quantile="0.99"} 0.0035"#));
    assert!(page.contains(r#"aquila_class_dropped_total{class="bulk",reason="full"} 4"#));
    assert!(page.contains("aquila_replayed_total 1\n"));
    assert!(page.contains("aquila_video_picture_age_seconds 0.075\n"), "{page}");
    assert!(page.contains("aquila_video_picture_age_there_seconds 0.125\n"), "{page}");
    assert!(page.contains("aquila_gateway_custody_bytes 77\n"));
    assert!(!page.contains("192.0.2.1") && !page.contains("198.51.100.1"), "a series for each socket: {page}");
    assert!(page.contains("aquila_mavlink_up{endpoint=\"udpout:127.0.0.1:14550\"} 1\n"));
}

#[test]
fn what_is_not_known_has_no_sample() {
    let page = render_metrics(&StatusSnapshot { bearers: vec![BearerStatus::default()], ..Default::default() });
    assert!(!page.lines().any(|line| line.starts_with("aquila_bearer_rtt_seconds")));
    assert!(render_summary(&StatusSnapshot::default()).contains("peer unknown"));
}
