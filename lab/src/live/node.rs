//! A node: a network namespace, and a thread that lives in it.
//!
//! Threads and processes that this thread starts are born in its namespaces, so nothing else has to enter them.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

use super::netlink::{Interface, Netlink};
use super::sandbox;
use super::sys::prioritise;

type Job = Box<dyn FnOnce() + Send>;

/// The loopback interface is the first one of a namespace.
const LOOPBACK: u32 = 1;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: String,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Node {
    /// Makes the namespace, with the loopback interface up.
    pub(super) fn new(name: &str) -> io::Result<Self> {
        let (jobs, inbox) = channel::<Job>();
        let thread = Builder::new().name(format!("node-{name}")).spawn(move || {
            prioritise();
            for job in inbox {
                job();
            }
        })?;
        let node = Self { name: name.to_owned(), jobs: Some(jobs), thread: Some(thread) };
        node.run(make_namespace)?;
        Ok(node)
    }

    /// Runs `job` on the node's thread and waits for it. A panic in it comes back here.
    pub(super) fn run<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> R {
        let (sender, receiver) = channel();
        let job = move || {
            // Nobody waits for it only if the caller's thread has ended.
            let _ = sender.send(catch_unwind(AssertUnwindSafe(job)));
        };
        let jobs = self.jobs.as_ref().expect("taken on drop only");
        jobs.send(Box::new(job)).expect("the node's thread ends with the node");
        receiver.recv().expect("the node's thread answers").unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Starts a thread in the node.
    pub(super) fn spawn<R: Send + 'static>(
        &self,
        name: &str,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> io::Result<JoinHandle<R>> {
        let name = format!("{}-{name}", self.name);
        self.run(move || Builder::new().name(name).spawn(job))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// On the node's thread.
fn make_namespace() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)?;
    sandbox::keep_mounts_private()?;
    // So that /sys/class/net is that of the node; only few programs look there, and not every kernel allows it.
    let _ = umount2("/sys", MntFlags::MNT_DETACH);
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let _ = mount(Some("sysfs"), "/sys", Some("sysfs"), flags, None::<&str>);
    // With several links the answer may come over another one than the question.
    set("net/ipv4/conf/all/rp_filter", "0")?;
    set("net/ipv4/conf/default/rp_filter", "0")?;
    Netlink::open()?.set(LOOPBACK, Interface { up: Some(true), ..Interface::default() })
}

/// Writes a kernel parameter of the calling thread's network namespace.
pub(super) fn set(parameter: &str, value: &str) -> io::Result<()> {
    let path = format!("/proc/sys/{parameter}");
    fs::write(&path, value).map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}
