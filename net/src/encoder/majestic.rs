//! OpenIPC's majestic, over HTTP: `GET /api/v1/set?video0.bitrate=KBITS` and `GET /request/idr`.
//!
//! Each set is written to the camera's flash (`/etc/majestic.yaml`), so they are few: down after 1 s and by a tenth at
//! least, up after 10 s and by a quarter, 120 in an hour. A camera that does not answer within 2 s, or answers with an
//! error, is asked again; that is logged once until it answers.

use std::time::{Duration, Instant};

use aquila_proto::Bitrate;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::sleep_until;
use super::steps::{StepConfig, Steps};
use crate::node::CameraRequest;

const STEPS: StepConfig = StepConfig {
    down_after: Duration::from_secs(1),
    up_after: Duration::from_secs(10),
    down_share: 0.1,
    up_share: 0.25,
    an_hour: 120,
    overshoot: 1.0,
    settles: Duration::ZERO,
};
/// A picture that can be decoded alone is asked for at most this often.
const IDR_AFTER: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(2);
/// Of an answer, more than any is long.
const MAX_ANSWER: u64 = 64 << 10;

/// `host` with a port if it is not 80.
pub(super) async fn serve(host: String, mut requests: mpsc::Receiver<CameraRequest>) {
    let agent = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).max_redirects(0).build().new_agent();
    let mut steps = Steps::new(STEPS);
    let (mut idr, mut idr_at): (bool, Option<Instant>) = (false, None);
    let mut is_silent = false;
    loop {
        let idr_due = idr.then(|| idr_at.map_or_else(Instant::now, |at| at + IDR_AFTER));
        let due = steps.due().into_iter().chain(idr_due).min();
        let mut request = tokio::select! {
            biased;
            request = requests.recv() => match request {
                Some(request) => Some(request),
                None => return,
            },
            () = sleep_until(due) => None,
        };
        // While the camera was asked, more may have come: the newest rate counts.
        while let Some(next) = request {
            match next {
                CameraRequest::Rate { target, .. } => steps.want(target),
                CameraRequest::RecoveryPoint { .. } => idr = true,
                // It cannot pause.
                CameraRequest::Hold(_) => {}
            }
            request = requests.try_recv().ok();
        }
        let now = Instant::now();
        let mut asked = Vec::new();
        if let Some(rate) = steps.poll(now) {
            asked.push((set_bitrate(&host, rate), true));
        }
        if idr && idr_at.is_none_or(|at| now >= at + IDR_AFTER) {
            (idr, idr_at) = (false, Some(now));
            asked.push((format!("http://{host}/request/idr"), false));
        }
        for (url, is_rate) in asked {
            let answer = get(&agent, url.clone()).await;
            if answer.is_err() && is_rate {
                steps.on_failure();
            }
            match &answer {
                Ok(()) if is_silent => tracing::info!(host, "the camera answers again"),
                Err(error) if !is_silent => tracing::warn!(url, error, "the camera does not do as asked; trying on"),
                _ => {}
            }
            is_silent = answer.is_err();
        }
    }
}

fn set_bitrate(host: &str, rate: Bitrate) -> String {
    format!("http://{host}/api/v1/set?video0.bitrate={}", (rate.0 / 1000).max(1))
}

async fn get(agent: &ureq::Agent, url: String) -> Result<(), String> {
    let agent = agent.clone();
    let ask = move || -> Result<(), String> {
        let mut response = agent.get(&url).call().map_err(|error| error.to_string())?;
        // So that the connection can be used again.
        let _ = response.body_mut().with_config().limit(MAX_ANSWER).read_to_vec();
        Ok(())
    };
    spawn_blocking(ask).await.unwrap_or_else(|error| Err(error.to_string()))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    fn rate(rate: u64) -> CameraRequest {
        CameraRequest::Rate { target: Bitrate(rate), asked: Bitrate(rate) }
    }

    /// The request line of the next request, which is answered with this.
    async fn answer(listener: &TcpListener, with: &str) -> String {
        let (mut stream, _) = timeout(Duration::from_secs(10), listener.accept()).await.expect("a request").unwrap();
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if stream.read(&mut byte).await.unwrap_or(0) == 0 {
                break;
            }
            text.push(byte[0]);
        }
        let _ = stream.write_all(with.as_bytes()).await;
        String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned()
    }

    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    const ERROR: &str = "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

    #[tokio::test]
    async fn a_camera_is_told_and_told_again_if_it_refuses() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (sender, requests) = mpsc::channel(8);
        let task = tokio::spawn(serve(host, requests));
        sender.send(rate(1_450_700)).await.unwrap();
        let line = answer(&listener, ERROR).await;
        assert_eq!(line, "GET /api/v1/set?video0.bitrate=1450 HTTP/1.1");
        assert_eq!(answer(&listener, OK).await, line, "again, after a second");
        sender.send(CameraRequest::RecoveryPoint { flow: 0 }).await.unwrap();
        assert_eq!(answer(&listener, OK).await, "GET /request/idr HTTP/1.1");
        sender.send(rate(1_400_000)).await.unwrap();
        sender.send(CameraRequest::RecoveryPoint { flow: 0 }).await.unwrap();
        assert_eq!(answer(&listener, OK).await, "GET /request/idr HTTP/1.1", "the rate is not worth a write");
        drop(sender);
        timeout(Duration::from_secs(5), task).await.expect("it ends with the node").unwrap();
    }

    #[tokio::test]
    async fn a_camera_that_hangs_does_not_hold_anybody_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (sender, requests) = mpsc::channel(2);
        let task = tokio::spawn(serve(listener.local_addr().unwrap().to_string(), requests));
        for n in 0..100 {
            // As the node does: what does not fit is dropped.
            let _ = sender.try_send(rate(1_000_000 + n));
            tokio::task::yield_now().await;
        }
        drop(sender);
        timeout(Duration::from_secs(8), task).await.expect("it gives up").unwrap();
    }
}
