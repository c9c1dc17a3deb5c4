//! What is left when a run ends in one of the ways in which runs end. Looked at from outside.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use aquila_emu::PathConfig;
use aquila_lab::live::{Hooks, NodeId, Sandbox, Task, World};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::harness::{Skip, again, ms};
use super::traffic::two_nodes;

const MARK: &str = "AQUILA_TEST_MARK";
const PATIENCE: Duration = Duration::from_secs(10);

/// A world with programs that do not want to end, until the end of the process.
pub fn victim(sandbox: &Sandbox) {
    let _world = busy_world(sandbox);
    sleep(Duration::from_secs(60));
}

pub fn panics(sandbox: &Sandbox) {
    let _world = busy_world(sandbox);
    // Without unwinding nothing of ours cleans up.
    std::process::abort();
}

pub fn exits_with_7(_: &Sandbox) {
    std::process::exit(7);
}

fn busy_world(sandbox: &Sandbox) -> World {
    let mut builder = sandbox.world();
    let (a, b, _) = two_nodes(&mut builder, PathConfig::default());
    let world = builder.build().unwrap();
    let start = |node: NodeId, script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        std::mem::forget(world.spawn(node, "stubborn", command, Path::new("/dev/null")).unwrap());
    };
    start(a, "trap '' TERM INT HUP; while :; do sleep 1; done");
    // A daemon, in a session of its own and without a parent.
    start(b, "(setsid sh -c \"trap '' TERM INT HUP; while :; do sleep 1; done\" &)");
    sleep(ms(200));
    let namespace = |node| world.run_in(node, || fs::read_link("/proc/thread-self/ns/net").unwrap());
    println!("namespace {}", namespace(a).display());
    println!("namespace {}", namespace(b).display());
    println!("ready");
    world
}

/// A victim, and what there is of it.
struct Run {
    child: Child,
    mark: String,
    namespaces: HashSet<String>,
    /// Outside, init, inside.
    chain: [i32; 3],
}

impl Run {
    fn new(test: &str) -> Self {
        let mark = format!("{}-{:?}", std::process::id(), Instant::now()).replace(' ', "");
        let mut child = again(test).env(MARK, &mark).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut namespaces = HashSet::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
            match line.strip_prefix("namespace ") {
                Some(name) => drop(namespaces.insert(name.to_owned())),
                None if line == "ready" => break,
                None => {}
            }
        }
        let outside = child.id().cast_signed();
        let init = only_child(outside);
        let run = Self { child, mark, namespaces, chain: [outside, init, only_child(init)] };
        assert_eq!(run.namespaces.len(), 2);
        run
    }

    /// Waits until nothing is left, and gives the exit code of the outside.
    fn finish(mut self) -> i32 {
        let status = self.child.wait().unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            let left = what_is_left(&self.mark, &self.namespaces);
            if left.is_empty() {
                break;
            }
            assert!(Instant::now() < until, "left: {left:?}");
            sleep(ms(10));
        }
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
    }
}

/// Ends a test that cannot tell.
fn skip(reason: String) -> ! {
    resume_unwind(Box::new(Skip(reason)))
}

fn only_child(of: i32) -> i32 {
    let path = format!("/proc/{of}/task/{of}/children");
    match fs::read_to_string(&path) {
        Ok(text) => text.split_whitespace().next().expect("a child").parse().unwrap(),
        Err(error) => skip(format!("the kernel does not list children: {path}: {error}")),
    }
}

/// Processes with that mark in their environment, or in one of these network namespaces, or with a file or mount that
/// holds one.
fn what_is_left(mark: &str, namespaces: &HashSet<String>) -> Vec<String> {
    let mut left = Vec::new();
    let wanted = format!("{MARK}={mark}");
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let path = process.path();
        let Some(pid) = path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()) else { continue };
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|word| word == wanted.as_bytes()) {
            left.push(format!("process {pid}"));
        }
        let threads = fs::read_dir(path.join("task")).into_iter().flatten().flatten();
        let mut links: Vec<_> = threads.map(|thread| thread.path().join("ns/net")).collect();
        links.extend(fs::read_dir(path.join("fd")).into_iter().flatten().flatten().map(|file| file.path()));
        for link in links {
            if let Ok(target) = fs::read_link(&link)
                && namespaces.contains(&*target.to_string_lossy())
            {
                left.push(link.display().to_string());
            }
        }
        let mounts = fs::read_to_string(path.join("mountinfo")).unwrap_or_default();
        left.extend(namespaces.iter().filter(|name| mounts.contains(*name)).cloned());
    }
    left
}

fn send(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

fn killed(which: usize, code: i32) {
    let run = Run::new("victim");
    let left = what_is_left(&run.mark, &run.namespaces);
    assert!(left.len() > 5, "the check sees what is there: {left:?}");
    send(run.chain[which], Signal::SIGKILL);
    assert_eq!(run.finish(), code);
}

pub fn nothing_is_left_when_outside_is_killed() {
    killed(0, 137);
}

pub fn nothing_is_left_when_init_is_killed() {
    killed(1, 137);
}

pub fn nothing_is_left_when_inside_is_killed() {
    killed(2, 137);
}

pub fn nothing_is_left_after_a_panic() {
    // It may have ended before anybody can look at its children.
    let mark = format!("{}-abort", std::process::id());
    let output = again("panics").env(MARK, &mark).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let namespaces = text.lines().filter_map(|line| line.strip_prefix("namespace ")).map(str::to_owned).collect();
    assert!(text.contains("ready"), "{text}");
    assert_eq!(output.status.code(), Some(128 + Signal::SIGABRT as i32));
    let until = Instant::now() + PATIENCE;
    while !what_is_left(&mark, &namespaces).is_empty() {
        assert!(Instant::now() < until);
        sleep(ms(10));
    }
}

pub fn ctrl_c_ends_it() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        if is_ignored(signal) {
            println!(
                "  {signal} left out: it is ignored here, as it is behind nohup and in background jobs of scripts"
            );
            continue;
        }
        let run = Run::new("victim");
        send(run.chain[0], signal);
        assert_eq!(run.finish(), code);
    }
}

/// Whether this process was started with a signal ignored, which its children inherit.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask & 1 << (signal as i32 - 1) != 0
}

/// Ends in good order when it is interrupted, with exit code 3 if the tear-down ran.
pub fn interruptible(sandbox: &Sandbox) {
    let interrupted = sandbox.catch_interrupts().unwrap();
    let world = busy_world(sandbox);
    let (node, _) = world.nodes().next().unwrap();
    let mark = std::env::temp_dir().join(format!("aquila-torn-{}", std::env::var(MARK).unwrap()));
    let task = |name: &str, program: &str, arguments: &[&std::ffi::OsStr]| {
        let mut command = Command::new(program);
        command.args(arguments);
        let log = "/dev/null".into();
        Task { node, name: name.into(), command, log, after: Duration::ZERO, is_service: false }
    };
    let hooks = Hooks {
        process: vec![task("long", "sleep", &["60".as_ref()])],
        tear_down: vec![task("tear-down", "touch", &[mark.as_os_str()])],
        lasts: Duration::from_secs(60),
        ..Hooks::default()
    };
    let report = hooks.run(&world, interrupted, |_| Ok(())).unwrap();
    let torn = fs::remove_file(&mark).is_ok();
    std::process::exit(if torn && report.faults().count() == 0 { 3 } else { 4 });
}

pub fn an_interrupted_run_is_torn_down() {
    let run = Run::new("interruptible");
    send(run.chain[0], Signal::SIGINT);
    assert_eq!(run.finish(), 3);
}

pub fn the_second_ctrl_c_ends_what_does_not_listen() {
    let run = Run::new("deaf");
    send(run.chain[0], Signal::SIGINT);
    sleep(ms(100));
    assert!(fs::exists(format!("/proc/{}", run.chain[2])).unwrap());
    send(run.chain[0], Signal::SIGINT);
    assert_eq!(run.finish(), 137);
}

/// Hears Ctrl-C and does nothing about it.
pub fn deaf(sandbox: &Sandbox) {
    sandbox.catch_interrupts().unwrap();
    let _world = busy_world(sandbox);
    sleep(Duration::from_secs(60));
}

pub fn exit_codes_come_out() {
    let output = again("exits_with_7").output().unwrap();
    assert_eq!(output.status.code(), Some(7));
}

/// As user 65534, with a TUN device that everybody may open, as most systems have it.
pub fn an_ordinary_user_can_run_it() {
    if !nix::unistd::geteuid().is_root() {
        // Then the others have shown it.
        return;
    }
    let folder = std::env::temp_dir().join(format!("aquila-user-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let script = r#"
        chmod 755 "$0" "$0/program" && mknod -m 666 "$0/tun" c 10 200 && mount --bind "$0/tun" /dev/net/tun || exit 79
        command -v setpriv > /dev/null || exit 79
        exec setpriv --reuid 65534 --regid 65534 --clear-groups "$0/program" --inside a_new_address_replaces_the_old_one
    "#;
    let output = Command::new("unshare").args(["--mount", "sh", "-c", script]).arg(&folder).current_dir("/").output();
    let _ = fs::remove_dir_all(&folder);
    let output = output.unwrap_or_else(|error| skip(format!("unshare: {error}")));
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    match output.status.code() {
        Some(0) => {}
        Some(77..=79) => skip(said.trim().lines().last().unwrap_or("no mount or setpriv").to_owned()),
        code => panic!("{code:?}: {said}"),
    }
}
