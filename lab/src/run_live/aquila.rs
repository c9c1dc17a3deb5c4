//! The program under test, at both nodes.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use aquila_net::encoder::EncoderKind;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::Places;
use super::camera::Wishes;
use super::sockets::PATIENCE;
use crate::live::{End, LinkId, NodeId, Process, World, WorldError, prioritise};
use crate::plan::{ContenderPlan, VideoTraffic};

/// Where the applications find it, at both nodes.
pub const MAVLINK: u16 = 14_551;
/// Where it takes video, at the first node.
pub const CAMERA: u16 = 5_700;
/// Where it gives video out, at the second.
pub const VIEWER: u16 = 5_701;
const LINK: u16 = 9_400;
/// What the program tells its encoder comes through this.
const PIPE: &str = "encoder";
/// What the first node is told of a real encoder stands in this.
const CONFIG: &str = "air.toml";
/// A program is given this long to end.
const GRACE: Duration = Duration::from_secs(2);
const SIDES: [&str; 2] = ["air", "ground"];

/// Both of its processes.
#[derive(Debug)]
pub struct Aquila {
    nodes: [NodeId; 2],
    binary: PathBuf,
    folder: PathBuf,
    mtu: u16,
    /// Its congestion controller.
    controller: &'static str,
    public: [String; 2],
    /// By interface of the first node: where the second is reached over that link.
    ways: Vec<(String, SocketAddr)>,
    processes: [Mutex<Option<Process>>; 2],
}

impl Aquila {
    /// Makes keys and starts both ends.
    ///
    /// # Errors
    /// What the program says, or why it cannot be started.
    pub fn start(
        world: &World,
        nodes: [NodeId; 2],
        links: &[LinkId],
        plan: &ContenderPlan,
        places: &Places,
        folder: &Path,
        encoder: Option<(EncoderKind, VideoTraffic)>,
    ) -> Result<Self, String> {
        let mut aquila = Self {
            nodes,
            binary: places.binary.clone(),
            folder: folder.to_owned(),
            mtu: plan.mtu,
            controller: plan.congestion().map_err(|name| format!("'{name}' is no controller"))?.name(),
            public: Default::default(),
            ways: links.iter().map(|link| way(world, *link)).collect(),
            processes: Default::default(),
        };
        for (node, side) in SIDES.into_iter().enumerate() {
            // What a former run left knows other keys.
            let _ = std::fs::remove_dir_all(aquila.state(side));
            let _ = std::fs::remove_file(aquila.key(side));
            aquila.keys(side, &["generate"])?;
            aquila.public[node] = aquila.keys(side, &["show", "--public"])?;
        }
        std::fs::write(folder.join(CONFIG), encoder.map_or_else(String::new, |(kind, video)| config(kind, video)))
            .map_err(|error| format!("{}: {error}", folder.join(CONFIG).display()))?;
        let pipe = folder.join(PIPE);
        let _ = std::fs::remove_file(&pipe);
        mkfifo(&pipe, Mode::S_IRUSR | Mode::S_IWUSR).map_err(|error| format!("{}: {error}", pipe.display()))?;
        for node in [1, 0] {
            aquila.spawn(world, node).map_err(|error| error.to_string())?;
        }
        Ok(aquila)
    }

    /// Ends the first node's process without warning and starts another one: as after a power cut, it resumes with what
    /// is on disk; or without, with nothing but its key.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn restart(&self, world: &World, keeps_session: bool) -> Result<(), WorldError> {
        // Killed when dropped.
        if let Some(process) = self.lock(0).take() {
            drop(process);
        }
        if !keeps_session {
            let folders = std::fs::read_dir(self.state(SIDES[0])).into_iter().flatten().flatten();
            for folder in folders {
                let _ = std::fs::remove_file(folder.path().join("resumption"));
            }
        }
        self.spawn(world, 0)
    }

    /// Ends both; what is wrong if one had ended by itself.
    pub fn stop(self) -> Vec<String> {
        let mut faults = Vec::new();
        for process in self.processes {
            let Some(process) = process.into_inner().unwrap_or_else(PoisonError::into_inner) else { continue };
            if let Some(ended) = process.ended() {
                let (name, log) = (process.name(), process.log().display());
                faults.push(format!(
                    "{name} ended before its time, {}; the end of {log}:\n{}",
                    ended.how,
                    process.log_tail(5)
                ));
            } else if process.stop(GRACE).is_none_or(|ended| !ended.how.is_success()) {
                faults.push(format!("{} did not end in order; its log is {}", process.name(), process.log().display()));
            }
        }
        faults
    }

    fn lock(&self, node: usize) -> MutexGuard<'_, Option<Process>> {
        self.processes[node].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, side: &str) -> PathBuf {
        self.folder.join(format!("{side}.key"))
    }

    fn state(&self, side: &str) -> PathBuf {
        self.folder.join(format!("{side}.state"))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command.env("RUST_BACKTRACE", "1");
        command
    }

    fn keys(&self, side: &str, arguments: &[&str]) -> Result<String, String> {
        let output = self.command().arg("keys").args(arguments).arg("--key").arg(self.key(side)).output();
        let output = output.map_err(|error| format!("cannot run {}: {error}", self.binary.display()))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    fn spawn(&self, world: &World, node: usize) -> Result<(), WorldError> {
        let side = SIDES[node];
        let mut program = self.command();
        program.arg(side).arg("--key").arg(self.key(side)).args(["--peer", &self.public[1 - node]]);
        program.arg("--state").arg(self.state(side)).args(["--mtu", &self.mtu.to_string()]);
        program.args(["--controller", self.controller]);
        program.args(["--mavlink", &format!("udpin:127.0.0.1:{MAVLINK}"), "--log", "info"]);
        match node {
            0 => {
                if let Some((_, ground)) = self.ways.first() {
                    program.args(["--connect", &ground.to_string()]);
                }
                for (interface, ground) in self.ways.iter().filter(|_| self.ways.len() > 1) {
                    program.args(["--bearer", &format!("{interface}@{ground}")]);
                }
                program.arg("--config").arg(self.folder.join(CONFIG));
                program.args(["--video-in", &format!("rtp://127.0.0.1:{CAMERA}")]);
                program.args(["--encoder", &format!("exec:exec cat > '{}'", self.folder.join(PIPE).display())]);
            }
            _ => {
                program.args(["--listen", &format!("0.0.0.0:{LINK}")]);
                program.args(["--video-out", &format!("rtp://127.0.0.1:{VIEWER}")]);
            }
        }
        let log = self.folder.join(format!("{side}.log"));
        *self.lock(node) = Some(world.spawn(self.nodes[node], side, program, &log)?);
        Ok(())
    }
}

/// What the program is told of its encoder.
fn config(kind: EncoderKind, video: VideoTraffic) -> String {
    let name = EncoderKind::ALL.into_iter().find(|(_, known)| *known == kind).map(|(name, _)| name);
    let kind = name.map_or_else(String::new, |name| format!("encoder_kind = \"{name}\"\n"));
    let least = video.least.map_or_else(String::new, |least| format!("encoder_least = \"{}bit/s\"\n", least.bps()));
    format!("[video]\n{kind}{least}encoder_most = \"{}bit/s\"\n", video.rate.bps())
}

fn way(world: &World, link: LinkId) -> (String, SocketAddr) {
    (world.link_name(link).to_owned(), (world.addresses(link, End::B).v4, LINK).into())
}

/// Reads what the first node's process tells its encoder.
///
/// # Errors
/// If the kernel allows no more threads, or the pipe cannot be opened.
pub fn follow(
    world: &World,
    node: NodeId,
    folder: &Path,
    wishes: Arc<Wishes>,
    stop: Arc<AtomicBool>,
) -> io::Result<JoinHandle<()>> {
    // For both: so there is always a writer, and it never ends.
    let mut pipe =
        OpenOptions::new().read(true).write(true).custom_flags(nix::libc::O_NONBLOCK).open(folder.join(PIPE))?;
    let thread = world.thread_in(node, "camera", move || {
        prioritise();
        let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
        while !stop.load(Ordering::Relaxed) {
            let mut fds = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut fds, PollTimeout::try_from(PATIENCE).unwrap_or(PollTimeout::ZERO));
            let Ok(len) = pipe.read(&mut buffer) else { continue };
            text.extend(&buffer[..len]);
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                wishes.hear(&line);
            }
        }
    });
    thread.map_err(io::Error::other)
}
