//! Nodes and links: what unmodified programs see as machines and their modems.

use std::fmt;
use std::io;
use std::path::Path as FilePath;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aquila_emu::{Change, Path, PathStats, Profile, Schedule};
use nix::sys::eventfd::EventFd;
use thiserror::Error;

use super::addresses::Addresses;
use super::cells::Cells;
use super::emulator::{Look, Order};
use super::health::{CpuTime, Health, HealthBounds, Verdict, load, quantile};
use super::netlink::{Interface, Netlink};
use super::node::Node;
use super::packet::IpPacket;
use super::process::Process;
use super::records::Record;
use super::timeline::Timeline;

/// A node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(usize);

/// A link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(usize);

impl NodeId {
    pub(super) fn new(index: usize) -> Self {
        Self(index)
    }

    /// Nodes are numbered from 0 in the order of [`WorldBuilder::node`](super::WorldBuilder::node).
    pub fn index(self) -> usize {
        self.0
    }
}

impl LinkId {
    pub(super) fn new(index: usize) -> Self {
        Self(index)
    }

    /// Links are numbered from 0 in the order of [`WorldBuilder::link`](super::WorldBuilder::link).
    pub fn index(self) -> usize {
        self.0
    }
}

/// One of the two ends of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// At its node `a`, from which packets go up.
    A,
    /// At its node `b`.
    B,
}

/// Why there is no world, or why something did not work in it.
#[derive(Debug, Error)]
pub enum WorldError {
    /// A name that is none, or taken.
    #[error("'{0}' cannot be the name of a {1}: {2}")]
    Name(String, &'static str, &'static str),
    /// A link that cannot be.
    #[error("link '{0}': {1}")]
    Link(String, String),
    /// A node's namespace.
    #[error("cannot make the network namespace of node '{0}': {1}")]
    Node(String, io::Error),
    /// An interface.
    #[error("cannot {action} interface '{link}' at node '{node}': {error}")]
    Interface {
        /// What was tried.
        action: &'static str,
        /// The link.
        link: String,
        /// The node.
        node: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// A thread.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// A program.
    #[error("cannot start '{program}' at node '{node}': {error}")]
    Spawn {
        /// Its name.
        program: String,
        /// Where.
        node: String,
        /// Why not.
        error: io::Error,
    },
    /// A defect: the thread panicked.
    #[error("the emulator's thread has ended")]
    EmulatorEnded,
}

/// Nodes, links and the emulator between them. It ends when this is dropped.
#[derive(Debug)]
pub struct World {
    pub(super) shared: Arc<Shared>,
    pub(super) timeline: Timeline,
    pub(super) records: Mutex<Option<Receiver<Record>>>,
}

/// What [`World::at`] needs, too.
#[derive(Debug)]
pub(super) struct Shared {
    /// First, so that it ends before the namespaces do.
    pub(super) emulator: Emulator,
    pub(super) nodes: Vec<Node>,
    pub(super) links: Vec<Link>,
    pub(super) bounds: HealthBounds,
    pub(super) baseline: Mutex<Baseline>,
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) nodes: [NodeId; 2],
    /// Of its interfaces.
    pub(super) indices: [u32; 2],
    pub(super) has_v6: bool,
    pub(super) addresses: Mutex<[Addresses; 2]>,
}

#[derive(Debug)]
pub(super) struct Emulator {
    pub(super) orders: Mutex<Sender<Order>>,
    pub(super) wake: Arc<EventFd>,
    pub(super) thread: Option<JoinHandle<()>>,
}

/// What was counted before health was.
#[derive(Debug, Default)]
pub(super) struct Baseline {
    cpu: Option<CpuTime>,
    device_drops: u64,
    offered: u64,
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Order")
    }
}

impl Emulator {
    fn order(&self, order: Order) -> Result<(), WorldError> {
        lock(&self.orders).send(order).map_err(|_| WorldError::EmulatorEnded)?;
        // It fails only if 2⁶⁴ - 2 wake-ups are pending.
        let _ = self.wake.write(1);
        Ok(())
    }

    fn look(&self) -> Result<Look, WorldError> {
        let (sender, receiver) = channel();
        self.order(Order::Look(sender))?;
        receiver.recv().map_err(|_| WorldError::EmulatorEnded)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.order(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl World {
    /// Runs `job` on a thread in the node and waits for it: sockets that it opens are the node's, wherever they are
    /// used.
    ///
    /// # Panics
    ///
    /// If `job` does.
    pub fn run_in<R: Send + 'static>(&self, node: NodeId, job: impl FnOnce() -> R + Send + 'static) -> R {
        self.shared.nodes[node.0].run(job)
    }

    /// Starts a thread in the node. Threads that it starts are in the node, too, so a runtime made there is.
    ///
    /// # Errors
    ///
    /// If the kernel allows no more threads.
    pub fn thread_in<R: Send + 'static>(
        &self,
        node: NodeId,
        name: &str,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> Result<JoinHandle<R>, WorldError> {
        self.shared.nodes[node.0].spawn(name, job).map_err(WorldError::Thread)
    }

    /// Starts a program in the node, in a process group of its own, without input, its output and errors going to the
    /// file `log`.
    ///
    /// It finds `AQUILA_NODE`, the node's name, in its environment, and for each link of the node `AQUILA_<LINK>_HERE`
    /// and `_THERE`, the IPv4 addresses of its ends; characters of the name that are no letters and digits become `_`.
    ///
    /// # Errors
    ///
    /// If the program or the log cannot be opened.
    pub fn spawn(&self, node: NodeId, name: &str, mut command: Command, log: &FilePath) -> Result<Process, WorldError> {
        self.describe_to(node, &mut command);
        let (program, log) = (name.to_owned(), log.to_owned());
        let started = self.run_in(node, move || Process::start(&program, command, &log));
        started.map_err(|error| self.spawn_error(node, name, error))
    }

    pub(super) fn spawn_error(&self, node: NodeId, name: &str, error: io::Error) -> WorldError {
        WorldError::Spawn { program: name.to_owned(), node: self.node_name(node).to_owned(), error }
    }

    pub(super) fn describe_to(&self, node: NodeId, command: &mut Command) {
        command.env("AQUILA_NODE", self.node_name(node));
        for link in &self.shared.links {
            let Some(here) = link.nodes.iter().position(|other| *other == node) else { continue };
            let addresses = *lock(&link.addresses);
            let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
            let name: String = link.name.chars().map(plain).collect();
            command.env(format!("AQUILA_{name}_HERE"), addresses[here].v4.to_string());
            command.env(format!("AQUILA_{name}_THERE"), addresses[1 - here].v4.to_string());
        }
    }

    /// Changes the paths of a link, up and down, at `at`. It must not put others in their places; see
    /// [`World::replace`]. The closure runs on the emulator's thread and passes its first argument on to the calls of
    /// the paths. Packets that come from then on meet the change even if the thread is late; if `at` has passed
    /// already, the paths take it as the latest time they have seen.
    ///
    /// # Errors
    ///
    /// [`WorldError::EmulatorEnded`].
    pub fn change(
        &self,
        link: LinkId,
        at: Instant,
        change: impl FnOnce(Instant, &mut Path<IpPacket>, &mut Path<IpPacket>) + Send + 'static,
    ) -> Result<(), WorldError> {
        assert!(link.0 < self.shared.links.len(), "a link of another world");
        self.shared.emulator.order(Order::Change { link: link.0, at, change: Box::new(change) })
    }

    /// Gives a link other cells at `at`, whose packets are numbered from 0 and whose luck begins anew. What is inside
    /// the old ones is lost. For the start of a run, after set-ups that have used the link, and for one run after
    /// another: both meet the same luck then.
    ///
    /// [`World::stats`] then count from there, and so do [`Health::offered`] and the rows of the records.
    ///
    /// # Errors
    ///
    /// [`WorldError::EmulatorEnded`].
    pub fn replace(&self, link: LinkId, at: Instant, cells: Cells) -> Result<(), WorldError> {
        assert!(link.0 < self.shared.links.len(), "a link of another world");
        self.shared.emulator.order(Order::Replace { link: link.0, at, cells })
    }

    /// Looks at the paths of a link now.
    ///
    /// # Errors
    ///
    /// [`WorldError::EmulatorEnded`].
    pub fn inspect<R: Send + 'static>(
        &self,
        link: LinkId,
        look: impl FnOnce(Instant, &Path<IpPacket>, &Path<IpPacket>) -> R + Send + 'static,
    ) -> Result<R, WorldError> {
        let (sender, receiver) = channel();
        self.change(link, Instant::now(), move |now, up, down| drop(sender.send(look(now, up, down))))?;
        receiver.recv().map_err(|_| WorldError::EmulatorEnded)
    }

    /// Counts of all links since they were made, up and down.
    ///
    /// # Errors
    ///
    /// [`WorldError::EmulatorEnded`].
    pub fn stats(&self) -> Result<Vec<[PathStats; 2]>, WorldError> {
        Ok(self.shared.emulator.look()?.stats)
    }

    /// Gives an end of a link another address, as a modem gets one: the old one goes, and what is sent to it from then
    /// on is lost. Returns the new ones. If the kernel does not take the new address, the end has none.
    ///
    /// # Errors
    ///
    /// If the address is in use, or in another network than the link's.
    pub fn change_address(&self, link: LinkId, end: End, new: Addresses) -> Result<(), WorldError> {
        self.shared.change_address(link, end, new)
    }

    /// The addresses that an end of a link has now.
    pub fn addresses(&self, link: LinkId, end: End) -> Addresses {
        lock(&self.shared.links[link.0].addresses)[end as usize]
    }

    /// Takes the interface at an end of a link down, or up again, as `ip link set` does: programs are told by the
    /// kernel. What arrives meanwhile is lost.
    ///
    /// # Errors
    ///
    /// If the kernel refuses it.
    pub fn set_up(&self, link: LinkId, end: End, up: bool) -> Result<(), WorldError> {
        self.shared.set_up(link, end, up)
    }

    /// Does [`World::change_address`] or [`World::set_up`] at `at`, on a thread for such; up to some milliseconds
    /// later. If it fails, [`World::event_faults`] tells.
    pub fn at(&self, at: Instant, event: Event) {
        self.timeline.add(at, event);
    }

    /// Plays a profile on a link from `start` to `until`; its own conditions at the start are those of the link's
    /// cells. Address changes happen at that end.
    ///
    /// # Errors
    ///
    /// [`WorldError::EmulatorEnded`].
    pub fn play(
        &self,
        link: LinkId,
        profile: &Profile,
        start: Instant,
        until: Instant,
        changing: End,
    ) -> Result<(), WorldError> {
        let mut schedule = Schedule::new(profile, start);
        while let Some((at, change)) = schedule.poll_change(until) {
            match change {
                Change::AddressChange => self.at(at, Event::NextAddress(link, changing)),
                change => self.change(link, at, move |now, up, down| change.apply(now, up, down))?,
            }
        }
        Ok(())
    }

    /// What went wrong in [`World::at`] since the last call.
    pub fn event_faults(&self) -> Vec<WorldError> {
        self.timeline.take_faults()
    }

    /// The name of a node.
    pub fn node_name(&self, node: NodeId) -> &str {
        &self.shared.nodes[node.0].name
    }

    /// The name of a link.
    pub fn link_name(&self, link: LinkId) -> &str {
        &self.shared.links[link.0].name
    }

    /// Name of a link, and the nodes at its ends.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, &str, [NodeId; 2])> {
        self.shared.links.iter().enumerate().map(|(number, link)| (LinkId(number), link.name.as_str(), link.nodes))
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &str)> {
        self.shared.nodes.iter().enumerate().map(|(number, node)| (NodeId(number), node.name.as_str()))
    }

    /// The records that [`WorldBuilder::record`](super::WorldBuilder::record) asked for, the first time. Read them
    /// while the world runs; they end when it is dropped.
    pub fn take_records(&self) -> Option<Receiver<Record>> {
        lock(&self.records).take()
    }

    /// Begins to count anew: what was late while everything started is of no interest.
    ///
    /// # Errors
    ///
    /// [`WorldError::EmulatorEnded`].
    pub fn reset_health(&self) -> Result<(), WorldError> {
        self.shared.emulator.order(Order::Reset)?;
        let look = self.shared.emulator.look()?;
        *lock(&self.shared.baseline) =
            Baseline { cpu: CpuTime::now(), device_drops: self.device_drops()?, offered: offered(&look) };
        Ok(())
    }

    /// Whether the emulator kept up since the world was made, or since [`World::reset_health`].
    ///
    /// # Errors
    ///
    /// [`WorldError::EmulatorEnded`].
    pub fn health(&self) -> Result<Health, WorldError> {
        let device_drops = self.device_drops()?;
        let look = self.shared.emulator.look()?;
        let baseline = lock(&self.shared.baseline);
        let over = look.since.elapsed();
        let steal = baseline.cpu.zip(CpuTime::now()).and_then(|(before, now)| now.steal_share_since(before));
        let mut health = Health {
            over,
            deliveries: look.lateness.len(),
            late_p50: quantile(&look.lateness, 0.5),
            late_p99: quantile(&look.lateness, 0.99),
            late_max: quantile(&look.lateness, 1.0),
            late_change: look.late_change,
            steal_share: steal,
            emulator_share: look.cpu.as_secs_f64() / over.as_secs_f64().max(1e-9),
            load: load(),
            priority: look.priority,
            overruns: look.overruns + device_drops.saturating_sub(baseline.device_drops),
            offered: offered(&look).saturating_sub(baseline.offered),
            refused: look.refused,
            lost_records: look.lost_records,
            verdict: Verdict::Valid,
        };
        health.verdict = self.shared.bounds.judge(&health, look.fault);
        Ok(health)
    }

    /// Processor time that the thread between the devices has used since [`World::reset_health`].
    ///
    /// # Errors
    ///
    /// [`WorldError::EmulatorEnded`].
    pub fn processor_time(&self) -> Result<Duration, WorldError> {
        Ok(self.shared.emulator.look()?.cpu)
    }

    /// Packets that the devices had no room for.
    fn device_drops(&self) -> Result<u64, WorldError> {
        let mut drops = 0;
        for link in 0..self.shared.links.len() {
            for end in [End::A, End::B] {
                let counters =
                    self.shared.at_interface(LinkId(link), end, "ask", |netlink, index| netlink.counters(index))?;
                drops += counters.tx_dropped;
            }
        }
        Ok(drops)
    }
}

/// Something that [`World::at`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// See [`World::change_address`].
    Address(LinkId, End, Addresses),
    /// The same, with [`Addresses::next`] of what the end has then.
    NextAddress(LinkId, End),
    /// See [`World::set_up`].
    Up(LinkId, End, bool),
}

impl Shared {
    pub(super) fn carry_out(&self, event: Event) -> Result<(), WorldError> {
        match event {
            Event::Address(link, end, new) => self.change_address(link, end, new),
            Event::NextAddress(link, end) => {
                let old = lock(&self.links[link.0].addresses)[end as usize];
                self.change_address(link, end, old.next())
            }
            Event::Up(link, end, up) => self.set_up(link, end, up),
        }
    }

    fn change_address(&self, link: LinkId, end: End, new: Addresses) -> Result<(), WorldError> {
        let Link { name, has_v6, addresses, .. } = &self.links[link.0];
        let (mut addresses, has_v6) = (lock(addresses), *has_v6);
        if !new.shares_networks_with(&addresses[1 - end as usize]) {
            return Err(WorldError::Link(name.clone(), format!("{new:?} is not a free address of its networks")));
        }
        let old = std::mem::replace(&mut addresses[end as usize], new);
        self.at_interface(link, end, "change the address of", move |netlink, index| {
            for ((old, prefix), (new, _)) in old.all(has_v6).zip(new.all(has_v6)) {
                netlink.delete_address(index, old, prefix)?;
                netlink.add_address(index, new, prefix)?;
            }
            Ok(())
        })
    }

    fn set_up(&self, link: LinkId, end: End, up: bool) -> Result<(), WorldError> {
        let Link { has_v6, addresses, .. } = &self.links[link.0];
        let (has_v6, addresses) = (*has_v6, lock(addresses)[end as usize]);
        let action = if up { "take up" } else { "take down" };
        self.at_interface(link, end, action, move |netlink, index| {
            netlink.set(index, Interface { up: Some(up), ..Interface::default() })?;
            // The kernel forgets IPv6 addresses when the interface goes down.
            for (address, prefix) in addresses.all(has_v6).filter(|(address, _)| up && address.is_ipv6()) {
                match netlink.add_address(index, address, prefix) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    other => other?,
                }
            }
            Ok(())
        })
    }

    fn at_interface<R: Send + 'static>(
        &self,
        link: LinkId,
        end: End,
        action: &'static str,
        job: impl FnOnce(&mut Netlink, u32) -> io::Result<R> + Send + 'static,
    ) -> Result<R, WorldError> {
        let Link { name, nodes, indices, .. } = &self.links[link.0];
        let (node, index) = (&self.nodes[nodes[end as usize].0], indices[end as usize]);
        let result = node.run(move || job(&mut Netlink::open()?, index));
        let (link, node) = (name.clone(), node.name.clone());
        result.map_err(|error| WorldError::Interface { action, link, node, error })
    }
}

fn offered(look: &Look) -> u64 {
    look.stats.iter().flatten().map(|stats| stats.input.packets).sum()
}

/// What is behind these locks is whole at any time.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For [`World::thread_in`] with a program started from that thread.
impl World {
    pub(super) fn node(&self, node: NodeId) -> &Node {
        &self.shared.nodes[node.0]
    }
}
