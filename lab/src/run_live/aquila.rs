//! The program under test, at both nodes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Places;
use crate::live::{End, LinkId, NodeId, Process, World, WorldError};
use crate::plan::ContenderPlan;

/// Where the applications find it, at both nodes.
pub const MAVLINK: u16 = 14_551;
/// Where it takes video, at the first node.
pub const CAMERA: u16 = 5_700;
/// Where it gives video out, at the second.
pub const VIEWER: u16 = 5_701;
const LINK: u16 = 9_400;
const STATUS: u16 = 9_420;
/// The camera asks this often what the link wants of it.
const ASK_EVERY: Duration = Duration::from_millis(50);
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
    public: [String; 2],
    ground: SocketAddr,
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
        link: LinkId,
        plan: &ContenderPlan,
        places: &Places,
        folder: &Path,
    ) -> Result<Self, String> {
        let mut aquila = Self {
            nodes,
            binary: places.binary.clone(),
            folder: folder.to_owned(),
            mtu: plan.mtu,
            public: Default::default(),
            ground: (world.addresses(link, End::B).v4, LINK).into(),
            processes: Default::default(),
        };
        for (node, side) in SIDES.into_iter().enumerate() {
            // What a former run left knows other keys.
            let _ = std::fs::remove_dir_all(aquila.state(side));
            let _ = std::fs::remove_file(aquila.key(side));
            aquila.keys(side, &["generate"])?;
            aquila.public[node] = aquila.keys(side, &["show", "--public"])?;
        }
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
        program.args(["--mavlink", &format!("udpin:127.0.0.1:{MAVLINK}"), "--log", "info"]);
        match node {
            0 => {
                program.args(["--connect", &self.ground.to_string()]);
                program.args(["--video-in", &format!("rtp://127.0.0.1:{CAMERA}")]);
                program.args(["--status", &format!("127.0.0.1:{STATUS}")]);
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

/// Asks the first node's process what its encoder is to make, as an encoder of its own would.
///
/// # Errors
/// If the kernel allows no more threads.
pub fn follow(
    world: &World,
    node: NodeId,
    target: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
) -> Result<JoinHandle<()>, WorldError> {
    world.thread_in(node, "camera", move || {
        while !stop.load(Ordering::Relaxed) {
            if let Some(rate) = ask() {
                target.store(rate, Ordering::Relaxed);
            }
            std::thread::sleep(ASK_EVERY);
        }
    })
}

/// The target in bit/s, of the status page.
fn ask() -> Option<u64> {
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, STATUS));
    let mut stream = TcpStream::connect_timeout(&at, ASK_EVERY).ok()?;
    stream.set_read_timeout(Some(ASK_EVERY)).ok()?;
    stream.write_all(b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line).ok()? > 2 {
        line.clear();
    }
    let mut body = String::new();
    reader.take(1 << 20).read_to_string(&mut body).ok()?;
    let status: serde_json::Value = serde_json::from_str(&body).ok()?;
    status.pointer("/congestion/target_bps")?.as_u64().filter(|rate| *rate > 0)
}
