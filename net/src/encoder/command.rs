//! A program of the user's. It is started once, and a line of JSON on its standard input says what is wanted:
//!
//! ```text
//! {"bitrate_bps":1450000}
//! {"recovery_point":0}
//! {"hold":true}
//! {"size":"640x360","fps":30}
//! ```
//!
//! The rate is for all flows together, and comes as often as it changes, ten times a second at most, or a hundred times for kinds that
//! take it from the next picture on; the newest counts. Sizes come if `sizes` is
//! configured, at most every 2 s. A recovery point is wanted of
//! the flow of that number. On `hold` no pictures should be encoded until it is `false` again: the link does not carry them
//! now, and what is not encoded need not be thrown away. A program that ignores it loses whole frames, and is asked for a
//! recovery point. A program that ends is started again, after a second at first and half a minute at most, and told what is
//! in force.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::ladder::{Ladder, Rung};
use super::steps::Steps;
use super::{EncoderKind, sleep_until};
use crate::node::CameraRequest;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A program that has run for so long has worked: the next pause is the first again.
const WORKED: Duration = Duration::from_secs(60);
/// A program that does not read for so long is as good as gone.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) async fn serve(command: String, mut wanted: Wanted, mut requests: mpsc::Receiver<CameraRequest>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let began = Instant::now();
        match start(&command) {
            Ok((mut child, stdin)) => {
                tracing::info!(command, "encoder started");
                wanted.forget();
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
            wanted.note(Instant::now(), request);
        }
        if requests.is_closed() {
            return;
        }
    }
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
    loop {
        wanted.say(Instant::now(), &mut lines);
        if !lines.is_empty() {
            match timeout(PATIENCE, stdin.write_all(lines.as_bytes())).await {
                Ok(Ok(())) => wanted.recovery.clear(),
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
            () = sleep_until(wanted.due()) => None,
        };
        // Of several rates only the newest is of interest.
        while let Some(next) = request {
            wanted.note(Instant::now(), next);
            request = requests.try_recv().ok();
        }
    }
}

/// What the program is to do, and what of it it has been told.
#[derive(Debug)]
pub(super) struct Wanted {
    rate: Steps,
    size: Option<Ladder>,
    hold: bool,
    told_hold: bool,
    /// Until the line is written.
    recovery: BTreeSet<u8>,
}

impl Wanted {
    pub(super) fn new(kind: EncoderKind, size: Option<Ladder>) -> Self {
        let rate = Steps::new(kind.model().steps());
        Self { rate, size, hold: false, told_hold: false, recovery: BTreeSet::new() }
    }

    fn note(&mut self, now: Instant, request: CameraRequest) {
        match request {
            CameraRequest::Rate { target, asked } => {
                self.rate.want(asked);
                if let Some(size) = &mut self.size {
                    size.want(now, target);
                }
            }
            CameraRequest::Hold(hold) => self.hold = hold,
            CameraRequest::RecoveryPoint { flow } => drop(self.recovery.insert(flow)),
        }
    }

    /// Another program, which has been told nothing. What comes then need not begin with a recovery point: it may drive an encoder
    /// elsewhere, which has gone on.
    fn forget(&mut self) {
        self.rate.forget();
        self.size.iter_mut().for_each(Ladder::forget);
        self.told_hold = false;
    }

    fn due(&self) -> Option<Instant> {
        self.rate.due().into_iter().chain(self.size.as_ref().and_then(Ladder::due)).min()
    }

    /// Appends a line for each thing that it is to be told now.
    fn say(&mut self, now: Instant, lines: &mut String) {
        if let Some(Rung { width, height, frames_per_second, .. }) = self.size.as_mut().and_then(|size| size.poll(now))
        {
            let _ = writeln!(lines, "{{\"size\":\"{width}x{height}\",\"fps\":{frames_per_second}}}");
        }
        if let Some(rate) = self.rate.poll(now) {
            let _ = writeln!(lines, "{{\"bitrate_bps\":{}}}", rate.0);
        }
        if self.hold != std::mem::replace(&mut self.told_hold, self.hold) {
            let _ = writeln!(lines, "{{\"hold\":{}}}", self.hold);
        }
        for flow in &self.recovery {
            let _ = writeln!(lines, "{{\"recovery_point\":{flow}}}");
        }
    }
}

#[cfg(test)]
mod tests {
    use aquila_proto::Bitrate;

    use super::*;

    fn rate(rate: u64) -> CameraRequest {
        CameraRequest::Rate { target: Bitrate(rate), asked: Bitrate(rate) }
    }

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
        let wanted = Wanted::new(EncoderKind::Unknown, None);
        let task = tokio::spawn(serve(command, wanted, requests));
        sender.send(rate(500_000)).await.unwrap();
        read(&path, "{\"bitrate_bps\":500000}\n").await;
        sender.send(CameraRequest::RecoveryPoint { flow: 3 }).await.unwrap();
        read(&path, "{\"recovery_point\":3}\n").await;
        sleep(Duration::from_millis(100)).await;
        sender.send(rate(750_000)).await.unwrap();
        let all = read(&path, "{\"bitrate_bps\":750000}\n").await;
        assert_eq!(all.lines().count(), 3, "the newest rate only: {all}");
        sender.send(CameraRequest::Hold(true)).await.unwrap();
        read(&path, "{\"hold\":true}\n").await;
        drop(sender);
        timeout(Duration::from_secs(5), task).await.expect("it ends with the node").unwrap();
        std::fs::remove_file(&path).unwrap();
    }

    #[tokio::test]
    async fn a_recovery_point_that_one_program_did_not_hear_of_is_asked_of_the_next() {
        let path = std::env::temp_dir().join(format!("aquila-recovery-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        // The first ends at once, and the second reads.
        let file = path.display();
        let command = format!("test -e {file} && exec cat >> {file}; touch {file}");
        let (sender, requests) = mpsc::channel(8);
        let task = tokio::spawn(serve(command, Wanted::new(EncoderKind::Unknown, None), requests));
        while !path.exists() {
            sleep(Duration::from_millis(10)).await;
        }
        // While it is gone.
        sleep(FIRST_PAUSE / 4).await;
        sender.send(CameraRequest::RecoveryPoint { flow: 3 }).await.unwrap();
        sender.send(rate(500_000)).await.unwrap();
        let all = read(&path, "\"recovery_point\"").await;
        assert_eq!(all, "{\"bitrate_bps\":500000}\n{\"recovery_point\":3}\n");
        drop(sender);
        timeout(Duration::from_secs(5), task).await.expect("it ends with the node").unwrap();
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_program_is_told_the_size_before_the_rate_and_all_of_it_again_if_it_is_another_one() {
        let start = Instant::now();
        let mut wanted = Wanted::new(EncoderKind::X264, Ladder::new(&Ladder::DEFAULT).ok());
        let said = |wanted: &mut Wanted, ms: u64| {
            let mut lines = String::new();
            wanted.say(start + Duration::from_millis(ms), &mut lines);
            wanted.recovery.clear();
            lines
        };
        assert_eq!(said(&mut wanted, 0), "");
        wanted.note(start, rate(3_000_000));
        let first = "{\"size\":\"1280x720\",\"fps\":30}\n{\"bitrate_bps\":3000000}\n";
        assert_eq!(said(&mut wanted, 0), first);
        for _ in 0..3 {
            wanted.note(start, CameraRequest::RecoveryPoint { flow: 1 });
        }
        wanted.note(start, CameraRequest::Hold(true));
        assert_eq!(said(&mut wanted, 10), "{\"hold\":true}\n{\"recovery_point\":1}\n");
        wanted.note(start, rate(1_000_000));
        assert_eq!(said(&mut wanted, 20), "{\"bitrate_bps\":1000000}\n");
        wanted.note(start, CameraRequest::Rate { target: Bitrate(1_900_000), asked: Bitrate(2_500_000) });
        assert_eq!(
            said(&mut wanted, 21),
            "{\"bitrate_bps\":2500000}\n",
            "it is slow up, and told what it is to be asked for"
        );
        wanted.forget();
        assert_eq!(
            said(&mut wanted, 300),
            "{\"size\":\"1280x720\",\"fps\":30}\n{\"bitrate_bps\":2500000}\n{\"hold\":true}\n"
        );
    }
}
