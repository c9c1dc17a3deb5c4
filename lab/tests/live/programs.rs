//! Programs in nodes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use aquila_emu::PathConfig;
use aquila_lab::live::{End, Exit, Hooks, HooksReport, NodeId, Sandbox, Stage, Task, World};

use super::harness::ms;
use super::traffic::two_nodes;

/// A folder that goes away with the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        // The PID inside is always 2.
        let unique = Instant::now();
        let path =
            std::env::temp_dir().join(format!("aquila-{name}-{unique:?}").replace([' ', '{', '}', ':', ','], ""));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn task(node: NodeId, folder: &Path, name: &str, script: &str) -> Task {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).current_dir(folder);
    let log = folder.join(format!("{name}.log"));
    Task { node, name: name.into(), command, log, after: Duration::ZERO, is_service: false }
}

fn world(sandbox: &Sandbox) -> (World, NodeId, NodeId) {
    let mut builder = sandbox.world();
    let (a, b, _) = two_nodes(&mut builder, PathConfig { delay: ms(5), ..PathConfig::default() });
    (builder.build().unwrap(), a, b)
}

fn run(world: &World, hooks: Hooks) -> HooksReport {
    hooks.run(world, &AtomicBool::new(false), |_| Ok(())).unwrap()
}

pub fn processes_start_together(sandbox: &Sandbox) {
    let (world, a, b) = world(sandbox);
    let folder = Folder::new("together");
    let tasks = (0..4).map(|n| task([a, b][n % 2], &folder.0, &format!("p{n}"), "echo $AQUILA_NODE $AQUILA_START_NS"));
    let mut late = task(b, &folder.0, "late", "true");
    late.after = ms(200);
    let process = tasks.chain([late]).collect();
    let hooks = Hooks { process, lasts: Duration::from_secs(5), ends_when_done: true, ..Hooks::default() };
    let began = Instant::now();
    let report = run(&world, hooks);
    assert!(began.elapsed() < Duration::from_secs(4), "it ends when all have ended");
    assert_eq!(report.faults().count(), 0, "{report:?}");
    let start = report.start.unwrap();
    let mut delays: Vec<Duration> = report.tasks.iter().map(|task| task.started.unwrap() - start).collect();
    let late = delays.pop().unwrap();
    println!("  {delays:?}, and {:?} late for 200 ms", late - ms(200));
    // Starting a shell takes about 1 ms of a processor, and there may be two for four of them.
    assert!(delays.iter().all(|delay| *delay < ms(50)), "{delays:?}");
    assert!(late >= ms(200) && late < ms(250), "{late:?}");
    let words = std::fs::read_to_string(folder.0.join("p1.log")).unwrap();
    let (node, nanos) = words.trim().split_once(' ').unwrap();
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    let told = Duration::from_nanos(nanos.parse().unwrap());
    let measured = Duration::from(now) - start.elapsed();
    assert_eq!(node, "ground");
    assert!(told.abs_diff(measured) < ms(1), "{told:?} is not {measured:?}");
}

pub fn stages_run_in_order(sandbox: &Sandbox) {
    let (world, a, b) = world(sandbox);
    let folder = Folder::new("stages");
    let say = |node, name: &str, text: &str| task(node, &folder.0, name, &format!("sleep 0.05; echo {text} >> order"));
    let hooks = Hooks {
        set_up: vec![say(a, "one", "set-up"), say(a, "two", "set-up"), say(b, "three", "set-up")],
        process: vec![say(b, "process", "process")],
        tear_down: vec![say(a, "four", "tear-down"), task(b, &folder.0, "fails", "echo why; exit 3")],
        lasts: ms(300),
        ..Hooks::default()
    };
    let mut at_barrier = None;
    let began = Instant::now();
    let report = hooks
        .run(&world, &AtomicBool::new(false), |start| {
            at_barrier = Some(start);
            assert!(start > Instant::now());
            Ok(())
        })
        .unwrap();
    assert_eq!(report.start, at_barrier);
    let order = std::fs::read_to_string(folder.0.join("order")).unwrap();
    assert_eq!(order.split_whitespace().collect::<Vec<_>>(), ["set-up", "set-up", "set-up", "process", "tear-down"]);
    let two = report.tasks.iter().find(|task| task.name == "two").unwrap();
    assert!(two.started.unwrap() - began >= ms(50), "one after the other in a node");
    assert_eq!(report.tasks.iter().filter(|task| task.stage == Stage::SetUp).count(), 3);
    let faults: Vec<&str> = report.faults().collect();
    assert_eq!(faults.len(), 1, "{faults:?}");
    let expected = "'fails' at node 'ground' ended with exit code 3";
    assert!(faults[0].contains(expected) && faults[0].ends_with("why"), "{}", faults[0]);
}

pub fn a_failed_set_up_starts_nothing(sandbox: &Sandbox) {
    let (world, a, b) = world(sandbox);
    let folder = Folder::new("failed");
    let mut missing = task(b, &folder.0, "missing", "");
    missing.command = Command::new("no-such-program");
    let hooks = Hooks {
        set_up: vec![task(a, &folder.0, "bad", "false"), task(a, &folder.0, "never", "true"), missing],
        process: vec![task(a, &folder.0, "process", "touch started")],
        tear_down: vec![task(a, &folder.0, "tear-down", "touch tear-down")],
        lasts: ms(100),
        ..Hooks::default()
    };
    let report = hooks.run(&world, &AtomicBool::new(false), |_| panic!("no barrier")).unwrap();
    assert_eq!(report.start, None);
    let faults: Vec<&str> = report.faults().collect();
    assert!(faults.len() == 2 && faults[1].contains("no-such-program") | faults[1].contains("missing"), "{faults:?}");
    assert!(!folder.0.join("started").exists() && folder.0.join("tear-down").exists());
}

pub fn a_service_that_dies_early_is_reported(sandbox: &Sandbox) {
    let (world, a, b) = world(sandbox);
    let folder = Folder::new("early");
    let mut lasting = task(a, &folder.0, "lasting", "exec sleep 60");
    let mut dying = task(b, &folder.0, "dying", "echo line; echo it broke >&2; sleep 0.1; kill -SEGV $$");
    (lasting.is_service, dying.is_service) = (true, true);
    let hooks = Hooks { process: vec![lasting, dying], lasts: Duration::from_secs(30), ..Hooks::default() };
    let began = Instant::now();
    let report = run(&world, hooks);
    assert!(began.elapsed() < Duration::from_secs(10), "it ends when something failed");
    let faults: Vec<&str> = report.faults().collect();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("SIGSEGV") && faults[0].ends_with("line\nit broke"), "{}", faults[0]);
    let lasting = &report.tasks[0];
    assert!(lasting.was_stopped && lasting.ended.unwrap().how == Exit::Signal(15), "{lasting:?}");
}

pub fn who_ignores_sigterm_is_killed(sandbox: &Sandbox) {
    let (world, a, _) = world(sandbox);
    let folder = Folder::new("stubborn");
    let script = "trap '' TERM; (trap '' TERM; while :; do sleep 0.02; date > alive; done) & while :; do sleep 1; done";
    let Task { command, log, .. } = task(a, &folder.0, "stubborn", script);
    let process = world.spawn(a, "stubborn", command, &log).unwrap();
    let alive = folder.0.join("alive");
    while !alive.exists() {
        assert!(process.wait(ms(10)).is_none());
    }
    let began = Instant::now();
    let ended = process.stop(ms(200)).unwrap();
    assert_eq!((ended.how, ended.how.code()), (Exit::Signal(9), 137));
    assert!(began.elapsed() >= ms(200));
    // Its child, too.
    std::thread::sleep(ms(50));
    std::fs::remove_file(&alive).unwrap();
    std::thread::sleep(ms(100));
    assert!(!alive.exists(), "a child is still there");
}

pub fn tcp_gets_through(sandbox: &Sandbox) {
    const BYTES: usize = 1 << 20;
    let mut builder = sandbox.world();
    let path = PathConfig { rate_bps: Some(20_000_000), delay: ms(5), ..PathConfig::default() };
    let (a, b, link) = two_nodes(&mut builder, path);
    let world = builder.build().unwrap();
    let there = world.addresses(link, End::B);
    let listener = world.run_in(b, move || TcpListener::bind((there.v4, 80))).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        received.len()
    });
    let began = Instant::now();
    let mut client = world.run_in(a, move || TcpStream::connect((there.v4, 80))).unwrap();
    client.write_all(&vec![7; BYTES]).unwrap();
    drop(client);
    assert_eq!(server.join().unwrap(), BYTES);
    // 8.4 Mbit of payload at 20 Mbit/s.
    let took = began.elapsed();
    println!("  1 MiB in {took:?}");
    assert!(took >= ms(430), "faster than the link: {took:?}");
}
