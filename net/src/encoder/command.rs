//! A program of the user's. It is started once, and a line of JSON on its standard input says what is wanted:
//!
//! ```text
//! {"bitrate_bps":1450000}
//! {"recovery_point":0}
//! {"hold":true}
//! ```
//!
//! The rate is for all flows together, and comes as often as it changes; the newest counts. A recovery point is wanted of
//! the flow of that number. On `hold` no pictures should be encoded until it is `false` again: the link does not carry them
//! now, and what is not encoded need not be thrown away. A program that ignores it loses whole frames, and is asked for a
//! recovery point. A program that ends is started again, after a second at first and half a minute at most, and told what is
//! in force.

use std::fmt::Write as _;
use std::process::Stdio;
use std::time::Duration;

use aquila_proto::Bitrate;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::node::CameraRequest;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A program that has run for so long has worked: the next pause is the first again.
const WORKED: Duration = Duration::from_secs(60);
/// A program that does not read for so long is as good as gone.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) async fn serve(command: String, mut requests: mpsc::Receiver<CameraRequest>) {
    let mut wanted = Wanted::default();
    let mut pause = FIRST_PAUSE;
    loop {
        let began = Instant::now();
        match start(&command) {
            Ok((mut child, stdin)) => {
                tracing::info!(command, "encoder started");
                match tell(&mut requests, &mut child, stdin, &mut wanted).await {
                    Ended::Node => return,
                    Ended::Program(reason) => tracing::warn!(command, reason, "the encoder is gone; starting it again"),
                }
                let _ = child.kill().await;
            }
            Err(error) => tracing::warn!(command, %error, "the encoder cannot be started; trying on"),
        }
        pause = if began.elapsed() >= WORKED { FIRST_PAUSE } else { pause };
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        while let Ok(request) = requests.try_recv() {
            wanted.note(request);
        }
        if requests.is_closed() {
            return;
        }
    }
}

/// What is in force.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Wanted {
    rate: Option<Bitrate>,
    hold: bool,
}

enum Ended {
    Node,
    Program(String),
}

fn start(command: &str) -> std::io::Result<(Child, ChildStdin)> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).stdin(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true);
    let mut child = shell.spawn()?;
    let stdin = child.stdin.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
    Ok((child, stdin))
}

/// Until one of both ends.
async fn tell(
    requests: &mut mpsc::Receiver<CameraRequest>,
    child: &mut Child,
    mut stdin: ChildStdin,
    wanted: &mut Wanted,
) -> Ended {
    let mut lines = String::new();
    wanted.say(&mut lines, &Wanted::default());
    loop {
        if !lines.is_empty() {
            match timeout(PATIENCE, stdin.write_all(lines.as_bytes())).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Ended::Program(error.to_string()),
                Err(_) => return Ended::Program("it does not read".to_owned()),
            }
            lines.clear();
        }
        let mut request = tokio::select! {
            request = requests.recv() => match request {
                Some(request) => Some(request),
                None => return Ended::Node,
            },
            status = child.wait() => {
                return Ended::Program(status.map_or_else(|error| error.to_string(), |status| status.to_string()));
            }
        };
        // Of several rates only the newest is of interest.
        let before = *wanted;
        while let Some(next) = request {
            wanted.note(next);
            if let CameraRequest::RecoveryPoint { flow } = next {
                let _ = writeln!(lines, "{{\"recovery_point\":{flow}}}");
            }
            request = requests.try_recv().ok();
        }
        wanted.say(&mut lines, &before);
    }
}

impl Wanted {
    fn note(&mut self, request: CameraRequest) {
        match request {
            CameraRequest::Rate(rate) => self.rate = Some(rate),
            CameraRequest::Hold(hold) => self.hold = hold,
            CameraRequest::RecoveryPoint { .. } => {}
        }
    }

    /// Appends a line for each thing that is not as it was.
    fn say(&self, lines: &mut String, before: &Self) {
        if let Some(rate) = self.rate.filter(|_| self.rate != before.rate) {
            let _ = writeln!(lines, "{{\"bitrate_bps\":{}}}", rate.0);
        }
        if self.hold != before.hold {
            let _ = writeln!(lines, "{{\"hold\":{}}}", self.hold);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(path: &std::path::Path, until: &str) -> String {
        for _ in 0..500 {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            if text.contains(until) {
                return text;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("{until} did not come: {:?}", std::fs::read_to_string(path))
    }

    #[tokio::test]
    async fn a_program_is_told_and_told_again_when_it_was_started_anew() {
        let path = std::env::temp_dir().join(format!("aquila-encoder-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        // It reads two lines and ends.
        let command = format!("for i in 1 2; do read line; echo \"$line\" >> {}; done", path.display());
        let (sender, requests) = mpsc::channel(8);
        let task = tokio::spawn(serve(command, requests));
        sender.send(CameraRequest::Rate(Bitrate(500_000))).await.unwrap();
        read(&path, "{\"bitrate_bps\":500000}\n").await;
        sender.send(CameraRequest::RecoveryPoint { flow: 3 }).await.unwrap();
        read(&path, "{\"recovery_point\":3}\n").await;
        sleep(Duration::from_millis(100)).await;
        sender.send(CameraRequest::Rate(Bitrate(750_000))).await.unwrap();
        let all = read(&path, "{\"bitrate_bps\":750000}\n").await;
        assert_eq!(all.lines().count(), 3, "the newest rate only: {all}");
        sender.send(CameraRequest::Hold(true)).await.unwrap();
        read(&path, "{\"hold\":true}\n").await;
        drop(sender);
        timeout(Duration::from_secs(5), task).await.expect("it ends with the node").unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}
