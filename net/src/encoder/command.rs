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
//! in force. So is one that does not read: once 4 KiB of lines wait for it, 160 or so, what is wanted waits here, the newest of it only,
//! and after 2 s more it is ended.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::ladder::{Ladder, Rung};
use super::steps::Steps;
use super::{EncoderKind, sleep_until};
use crate::node::CameraWishes;
use crate::pauses::Pauses;

/// A program that does not read for so long is as good as gone.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes that wait for a program to read them, the least that Linux has. With its usual 64 KiB one that hangs would have half a minute
/// of old rates to read before it hears of the new one, and it would be as long before it is known to hang.
const UNREAD: i32 = 4096;
/// From the polite request to end to the other one.
const GRACE: Duration = Duration::from_secs(1);

pub(super) async fn serve(command: String, mut wanted: Wanted, mut camera: watch::Receiver<CameraWishes>) {
    let mut pauses = Pauses::new();
    loop {
        let began = Instant::now();
        match Program::start(&command) {
            Ok(mut program) => {
                tracing::info!(command, "encoder started");
                wanted.forget();
                let ended = tell(&mut camera, &mut program, &mut wanted).await;
                program.end().await;
                match ended {
                    Ended::Node => return,
                    Ended::Program(reason) => tracing::warn!(command, reason, "the encoder is gone; starting it again"),
                }
            }
            Err(error) => tracing::warn!(command, %error, "the encoder cannot be started; trying on"),
        }
        let again = Instant::now() + pauses.after(began.elapsed());
        loop {
            tokio::select! {
                () = sleep_until(Some(again)) => break,
                changed = camera.changed() => if changed.is_err() { return },
            }
            wanted.note(Instant::now(), *camera.borrow_and_update());
        }
    }
}

enum Ended {
    Node,
    Program(String),
}

/// A program, and what it has started: a group of processes that ends as one.
struct Program {
    shell: Child,
    stdin: ChildStdin,
    group: Pid,
}

impl Program {
    fn start(command: &str) -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0).kill_on_drop(true);
        let mut shell = shell.spawn()?;
        let stdin = shell.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        // Where it is refused it is as it was.
        let _ = fcntl(&stdin, FcntlArg::F_SETPIPE_SZ(UNREAD));
        let group = shell.id().and_then(|id| i32::try_from(id).ok()).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { shell, stdin, group: Pid::from_raw(group) })
    }

    /// Ends all of it, and waits until it has.
    async fn end(mut self) {
        let _ = killpg(self.group, Signal::SIGTERM);
        let gone = async {
            loop {
                let _ = self.shell.try_wait();
                if killpg(self.group, None).is_err() {
                    return;
                }
                sleep(GRACE / 50).await;
            }
        };
        if timeout(GRACE, gone).await.is_err() {
            let _ = killpg(self.group, Signal::SIGKILL);
            let _ = self.shell.wait().await;
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // If nobody had the time to wait.
        let _ = killpg(self.group, Signal::SIGTERM);
    }
}

/// Until one of both ends.
async fn tell(camera: &mut watch::Receiver<CameraWishes>, program: &mut Program, wanted: &mut Wanted) -> Ended {
    let mut lines = String::new();
    loop {
        wanted.note(Instant::now(), *camera.borrow_and_update());
        wanted.say(Instant::now(), &mut lines);
        if !lines.is_empty() {
            tokio::select! {
                written = timeout(PATIENCE, program.stdin.write_all(lines.as_bytes())) => match written {
                    Ok(Ok(())) => wanted.recovery.clear(),
                    Ok(Err(error)) => return Ended::Program(error.to_string()),
                    Err(_) => return Ended::Program("it does not read".to_owned()),
                },
                () = gone(camera) => return Ended::Node,
            }
            lines.clear();
            // What has been wanted meanwhile.
            continue;
        }
        tokio::select! {
            changed = camera.changed() => if changed.is_err() { return Ended::Node },
            status = program.shell.wait() => {
                return Ended::Program(status.map_or_else(|error| error.to_string(), |status| status.to_string()));
            }
            () = sleep_until(wanted.due()) => {}
        }
    }
}

/// When the node is. What it wants until then is seen, but not taken.
async fn gone(camera: &mut watch::Receiver<CameraWishes>) {
    while camera.changed().await.is_ok() {}
}

/// What the program is to do, and what of it it has been told.
#[derive(Debug)]
pub(super) struct Wanted {
    rate: Steps,
    size: Option<Ladder>,
    /// What was wanted last.
    heard: CameraWishes,
    told_hold: bool,
    /// Until the line is written.
    recovery: BTreeSet<u8>,
}

impl Wanted {
    pub(super) fn new(kind: EncoderKind, size: Option<Ladder>) -> Self {
        let rate = Steps::new(kind.model().steps());
        Self { rate, size, heard: CameraWishes::default(), told_hold: false, recovery: BTreeSet::new() }
    }

    fn note(&mut self, now: Instant, wishes: CameraWishes) {
        if let Some(rate) = wishes.rate {
            self.rate.want(now, rate.asked);
            // A size is for longer than the queue of the moment.
            self.size.iter_mut().for_each(|size| size.want(now, rate.lasting));
        }
        self.recovery.extend(wishes.recovery_points_since(&self.heard));
        self.heard = wishes;
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
        let hold = self.heard.hold;
        if hold != std::mem::replace(&mut self.told_hold, hold) {
            let _ = writeln!(lines, "{{\"hold\":{hold}}}");
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
    use crate::node::CameraRate;
    use crate::testkit::Log;

    fn rate(rate: u64) -> Option<CameraRate> {
        Some(CameraRate { asked: Bitrate(rate), lasting: Bitrate(rate), seldom: Bitrate(1) })
    }

    async fn read(path: &std::path::Path, until: &str) -> String {
        let read = timeout(Duration::from_secs(5), read_late(path, until)).await;
        read.unwrap_or_else(|_| panic!("{until} did not come: {:?}", std::fs::read_to_string(path)))
    }

    async fn read_late(path: &std::path::Path, until: &str) -> String {
        loop {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            if text.contains(until) {
                return text;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn a_program_is_told_and_told_again_when_it_was_started_anew() {
        let path = std::env::temp_dir().join(format!("aquila-encoder-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        // It reads two lines and ends.
        let command = format!("for i in 1 2; do read line; echo \"$line\" >> {}; done", path.display());
        let (sender, camera) = watch::channel(CameraWishes::default());
        let wanted = Wanted::new(EncoderKind::Unknown, None);
        let task = tokio::spawn(serve(command, wanted, camera));
        sender.send_modify(|wishes| wishes.rate = rate(500_000));
        read(&path, "{\"bitrate_bps\":500000}\n").await;
        sender.send_modify(|wishes| wishes.ask_recovery_point(3));
        read(&path, "{\"recovery_point\":3}\n").await;
        sleep(Duration::from_millis(100)).await;
        sender.send_modify(|wishes| wishes.rate = rate(750_000));
        let all = read(&path, "{\"bitrate_bps\":750000}\n").await;
        assert_eq!(all.lines().count(), 3, "the newest rate only: {all}");
        sender.send_modify(|wishes| wishes.hold = true);
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
        let (sender, camera) = watch::channel(CameraWishes::default());
        let task = tokio::spawn(serve(command, Wanted::new(EncoderKind::Unknown, None), camera));
        while !path.exists() {
            sleep(Duration::from_millis(10)).await;
        }
        // While it is gone.
        sleep(Duration::from_millis(250)).await;
        sender.send_modify(|wishes| wishes.ask_recovery_point(3));
        sender.send_modify(|wishes| wishes.rate = rate(500_000));
        let all = read(&path, "\"recovery_point\"").await;
        assert_eq!(all, "{\"bitrate_bps\":500000}\n{\"recovery_point\":3}\n");
        drop(sender);
        timeout(Duration::from_secs(5), task).await.expect("it ends with the node").unwrap();
        std::fs::remove_file(&path).unwrap();
    }

    /// Rates, one after the other, until a program that reads none of them has to be waited for.
    async fn fill(camera: &watch::Sender<CameraWishes>) {
        for n in 0..5_000 {
            camera.send_modify(|wishes| wishes.rate = rate(if n % 2 == 0 { 1_000_000 } else { 2_000_000 }));
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_program_that_does_not_read_is_started_again_and_told_the_newest_only() {
        let log = Log::begin();
        let path = std::env::temp_dir().join(format!("aquila-deaf-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        // The first never reads, nor ends if it is asked to; the second does.
        let file = path.display();
        let command =
            format!("test -e {file} && exec cat >> {file}; touch {file}; trap '' TERM; while :; do sleep 1; done");
        let (sender, camera) = watch::channel(CameraWishes::default());
        let task = tokio::spawn(serve(command, Wanted::new(EncoderKind::Unknown, None), camera));
        sender.send_modify(|wishes| wishes.rate = rate(900_000));
        while !path.exists() {
            sleep(Duration::from_millis(10)).await;
        }
        fill(&sender).await;
        sender.send_modify(|wishes| wishes.ask_recovery_point(3));
        sender.send_modify(|wishes| wishes.rate = rate(500_000));
        // After 2 s of patience, 1 s from the polite request to end to the other, and the pause before a start.
        let all = timeout(Duration::from_secs(20), read_late(&path, "\"recovery_point\"")).await.expect("another one");
        assert_eq!(all, "{\"bitrate_bps\":500000}\n{\"recovery_point\":3}\n", "nothing of before");
        assert_eq!(log.lines().iter().filter(|line| line.contains("it does not read")).count(), 1, "{:?}", log.lines());
        drop(sender);
        timeout(Duration::from_secs(5), task).await.expect("it ends with the node").unwrap();
        std::fs::remove_file(&path).unwrap();
    }

    #[tokio::test]
    async fn little_that_is_old_waits_for_a_program_that_hangs() {
        let path = std::env::temp_dir().join(format!("aquila-hung-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let go = path.with_extension("go");
        let _ = std::fs::remove_file(&go);
        let command = format!("while ! test -e {}; do sleep 0.02; done; exec cat >> {}", go.display(), path.display());
        let (sender, camera) = watch::channel(CameraWishes::default());
        let task = tokio::spawn(serve(command, Wanted::new(EncoderKind::Unknown, None), camera));
        fill(&sender).await;
        sender.send_modify(|wishes| wishes.rate = rate(700_000));
        std::fs::write(&go, "").unwrap();
        let all = read(&path, "{\"bitrate_bps\":700000}\n").await;
        assert!(all.len() < 3 * UNREAD as usize, "{} lines, the newest last", all.lines().count());
        assert!(all.ends_with("{\"bitrate_bps\":700000}\n"), "{all}");
        drop(sender);
        timeout(Duration::from_secs(5), task).await.expect("it ends with the node").unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(&go).unwrap();
    }

    #[tokio::test]
    async fn a_program_that_does_not_read_is_not_waited_for_at_the_end() {
        let (sender, mut camera) = watch::channel(CameraWishes::default());
        let mut program = Program::start("exec sleep 100").unwrap();
        let task = tokio::spawn(async move {
            let mut wanted = Wanted::new(EncoderKind::Unknown, None);
            tell(&mut camera, &mut program, &mut wanted).await
        });
        fill(&sender).await;
        drop(sender);
        let ended = timeout(PATIENCE * 3 / 4, task).await.expect("before its patience is over").unwrap();
        assert!(matches!(ended, Ended::Node));
    }

    /// Whether a process of this number is there, and no zombie.
    fn is_alive(pid: &str) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        status.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
    }

    #[tokio::test]
    async fn a_pause_that_ended_while_the_program_was_gone_is_over_for_the_next() {
        let path = std::env::temp_dir().join(format!("aquila-hold-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        // The first is told to pause, and ends.
        let file = path.display();
        let command =
            format!("if test -e {file}; then exec cat >> {file}; fi; read line; read line; echo first > {file}");
        let (sender, camera) = watch::channel(CameraWishes::default());
        let task = tokio::spawn(serve(command, Wanted::new(EncoderKind::X264, None), camera));
        sender.send_modify(|wishes| (wishes.rate, wishes.hold) = (rate(500_000), true));
        read(&path, "first").await;
        // Much is wanted until the next one is there.
        for n in 0..500 {
            sender.send_modify(|wishes| wishes.rate = rate(500_000 + 1000 * n));
            tokio::task::yield_now().await;
        }
        sender.send_modify(|wishes| (wishes.rate, wishes.hold) = (rate(700_000), false));
        let all = read(&path, "bitrate").await;
        assert_eq!(all, "first\n{\"bitrate_bps\":700000}\n");
        drop(sender);
        timeout(Duration::from_secs(5), task).await.expect("it ends with the node").unwrap();
        std::fs::remove_file(&path).unwrap();
    }

    #[tokio::test]
    async fn what_a_program_has_started_ends_with_it() {
        let path = std::env::temp_dir().join(format!("aquila-group-{}", std::process::id()));
        // Deaf to polite requests, and something behind it that reads.
        let deaf = format!("sh -c 'trap \"\" TERM; echo $$ > {}; exec sleep 100' | sleep 100", path.display());
        for drops in [false, true] {
            let _ = std::fs::remove_file(&path);
            let command = if drops { deaf.replace("trap \"\" TERM; ", "") } else { deaf.clone() };
            let program = Program::start(&command).unwrap();
            let pid = read(&path, "\n").await;
            assert!(is_alive(&pid));
            if drops {
                drop(program)
            } else {
                program.end().await
            }
            for _ in 0..200 {
                if !is_alive(&pid) {
                    break;
                }
                sleep(Duration::from_millis(10)).await;
            }
            assert!(!is_alive(&pid), "dropped: {drops}");
        }
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
        let mut wishes = rate(3_000_000).map(CameraWishes::from).unwrap();
        wanted.note(start, wishes);
        let first = "{\"size\":\"1280x720\",\"fps\":30}\n{\"bitrate_bps\":3000000}\n";
        assert_eq!(said(&mut wanted, 0), first);
        for _ in 0..3 {
            wishes.ask_recovery_point(1);
            wanted.note(start, wishes);
        }
        wishes.hold = true;
        wanted.note(start, wishes);
        assert_eq!(said(&mut wanted, 10), "{\"hold\":true}\n{\"recovery_point\":1}\n");
        wishes.rate = rate(1_000_000);
        wanted.note(start, wishes);
        assert_eq!(said(&mut wanted, 20), "{\"bitrate_bps\":1000000}\n");
        wishes.rate = Some(CameraRate { asked: Bitrate(2_500_000), lasting: Bitrate(1_900_000), seldom: Bitrate(1) });
        wanted.note(start, wishes);
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
