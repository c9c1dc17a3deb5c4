//! Frames and a session for the tests.

use std::time::Duration;

use aquila_proto::mavlink::{Address, EndpointId, Frame, MessageId, Version};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{EVENTS, Endpoint, EndpointEvent, EndpointIds, EndpointSpec, EndpointState, EndpointStatus, Endpoints};

pub(super) fn heartbeat(seq: u8) -> Frame {
    Frame::build(Version::V2, seq, Address::new(1, 1), MessageId(0), &[0, 0, 0, 0, 2, 3, 81, 4, 3]).unwrap()
}

pub(super) fn attitude(seq: u8) -> Frame {
    Frame::build(Version::V1, seq, Address::new(1, 1), MessageId(30), &[seq.max(1); 28]).unwrap()
}

/// The burst of an ArduCopter that was asked for its parameters.
pub(super) fn parameters() -> Vec<Frame> {
    let parameter = |n: u16| {
        let mut payload = [0; 25];
        payload[4..6].copy_from_slice(&1348u16.to_le_bytes());
        payload[6..8].copy_from_slice(&n.to_le_bytes());
        payload[8..13].copy_from_slice(b"PARAM");
        payload[24] = 9;
        Frame::build(Version::V2, n as u8, Address::new(1, 1), MessageId(22), &payload).unwrap()
    };
    (0..1348).map(parameter).collect()
}

/// Endpoints and what a session sees of them.
pub(super) struct Bench {
    pub(super) endpoints: Endpoints,
    pub(super) events: mpsc::Receiver<EndpointEvent>,
}

impl Bench {
    pub(super) async fn new(specs: &[&str]) -> Self {
        Self::with_capacity(specs, EVENTS).await
    }

    pub(super) async fn with_capacity(specs: &[&str], capacity: usize) -> Self {
        let specs: Vec<EndpointSpec> = specs.iter().map(|spec| spec.parse().unwrap()).collect();
        let (tx, events) = mpsc::channel(capacity);
        Self { endpoints: Endpoints::spawn(&specs, &EndpointIds::new(), tx).await.unwrap(), events }
    }

    pub(super) async fn event(&mut self) -> EndpointEvent {
        within(self.events.recv()).await.unwrap()
    }

    pub(super) async fn added(&mut self) -> Endpoint {
        match self.event().await {
            EndpointEvent::Added(endpoint) => endpoint,
            other => panic!("not added: {other:?}"),
        }
    }

    pub(super) async fn frame(&mut self) -> (EndpointId, Frame) {
        match self.event().await {
            EndpointEvent::Frame { from, frame } => (from, frame),
            other => panic!("no frame: {other:?}"),
        }
    }

    pub(super) async fn removed(&mut self) -> EndpointId {
        loop {
            if let EndpointEvent::Removed(id) = self.event().await {
                return id;
            }
        }
    }

    pub(super) fn status(&self, port: usize) -> EndpointStatus {
        self.endpoints.status().nth(port).unwrap().1
    }

    pub(super) fn address(&self, port: usize) -> std::net::SocketAddr {
        self.endpoints.local_addr(port).unwrap()
    }
}

/// Waits until the endpoint is in this state.
pub(super) async fn until(endpoint: &Endpoint, state: EndpointState) {
    within(async {
        while endpoint.status().state != state {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Fails a test that hangs; long, for a machine that is busy.
pub(super) async fn within<T>(task: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), task).await.expect("nothing happened for 30 s")
}
