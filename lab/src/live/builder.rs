//! From a description to a world.

use std::fs::File;
use std::net::IpAddr;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::Builder;

use nix::net::if_::if_nametoindex;
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::addresses::Addresses;
use super::bare;
use super::cells::Cells;
use super::emulator::{self, Line, Setup};
use super::health::HealthBounds;
use super::netlink::{Interface, Netlink};
use super::node::{self, Node};
use super::records::Recorder;
use super::sandbox::{Sandbox, open_tun};
use super::timeline::Timeline;
use super::world::{Baseline, Emulator, Link, LinkId, NodeId, Shared, World, WorldError};

/// Packets that wait in a device until the emulator reads them: 13 ms of the fastest sender that was seen.
const DEVICE_QUEUE: u32 = 4096;
/// Below it the kernel has no IPv6 (RFC 8200 §5).
const IPV6_LEAST_MTU: u32 = 1280;
const LARGEST_MTU: u32 = 65_535;

/// A link to be made.
#[derive(Debug)]
pub struct LinkSpec {
    /// Also the name of its interface at both nodes: 1 to 15 letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Its end A.
    pub a: NodeId,
    /// Its end B.
    pub b: NodeId,
    /// Bytes of the largest IP packet, 68 to 65535.
    pub mtu: u32,
    /// At A and B.
    pub addresses: [Addresses; 2],
    /// What becomes of packets.
    pub cells: Cells,
}

/// What a world is to consist of.
#[derive(Debug)]
pub struct WorldBuilder {
    nodes: Vec<String>,
    links: Vec<LinkSpec>,
    record: Option<Option<usize>>,
    bounds: HealthBounds,
    buffer_budget: usize,
    realtime: bool,
}

impl Sandbox {
    /// Nothing yet.
    pub fn world(&self) -> WorldBuilder {
        WorldBuilder {
            nodes: Vec::new(),
            links: Vec::new(),
            record: None,
            bounds: HealthBounds::default(),
            buffer_budget: 256 << 20,
            realtime: true,
        }
    }
}

impl WorldBuilder {
    /// A node of that name.
    pub fn node(&mut self, name: impl Into<String>) -> NodeId {
        self.nodes.push(name.into());
        NodeId::new(self.nodes.len() - 1)
    }

    /// A link between two nodes; there may be several between the same two.
    pub fn link(&mut self, link: LinkSpec) -> LinkId {
        self.links.push(link);
        LinkId::new(self.links.len() - 1)
    }

    /// Keeps records for [`World::take_records`]: a row per link, direction and 100 ms; and if `packet_bytes` is given,
    /// each packet with so many of its first bytes.
    pub fn record(&mut self, packet_bytes: Option<usize>) {
        self.record = Some(packet_bytes);
    }

    /// When a run counts.
    pub fn health_bounds(&mut self, bounds: HealthBounds) {
        self.bounds = bounds;
    }

    /// Bytes of packets that may be inside all links at once; 256 MiB unless told otherwise. What comes beyond is lost,
    /// and makes the run invalid.
    pub fn buffer_budget(&mut self, bytes: usize) {
        self.buffer_budget = bytes;
    }

    /// Whether the emulator's thread asks for real-time priority; it does unless told otherwise.
    pub fn realtime(&mut self, realtime: bool) {
        self.realtime = realtime;
    }

    /// Makes it. From now on packets travel.
    ///
    /// # Errors
    ///
    /// If names or addresses do not fit, or the kernel refuses something.
    pub fn build(self) -> Result<World, WorldError> {
        self.build_on(emulator::run)
    }

    /// The same with a bare forwarder instead of the emulator: all links are wires, and only programs work. For the
    /// benchmark.
    #[doc(hidden)]
    pub fn build_bare(self) -> Result<World, WorldError> {
        self.build_on(bare::run)
    }

    fn build_on(self, run: fn(Setup)) -> Result<World, WorldError> {
        self.check()?;
        let make = |name: &String| Node::new(name).map_err(|error| WorldError::Node(name.clone(), error));
        let nodes = self.nodes.iter().map(make).collect::<Result<Vec<Node>, _>>()?;
        let largest_mtu = self.links.iter().map(|link| link.mtu).max().unwrap_or(0) as usize;
        let (mut lines, mut links) = (Vec::new(), Vec::new());
        for LinkSpec { name, a, b, mtu, addresses, cells } in self.links {
            let has_v6 = mtu >= IPV6_LEAST_MTU && Path::new("/proc/sys/net/ipv6").exists();
            let at = |node: NodeId, addresses: Addresses| {
                open_interface(&nodes[node.index()], &name, mtu, addresses.all(has_v6).collect())
            };
            let (a_tun, a_index) = at(a, addresses[0])?;
            let (b_tun, b_index) = at(b, addresses[1])?;
            lines.push(Line { cells, tuns: [a_tun, b_tun] });
            let addresses = Mutex::new(addresses);
            links.push(Link { name, nodes: [a, b], indices: [a_index, b_index], has_v6, addresses });
        }
        let (orders, inbox) = channel();
        let failed = |error: nix::Error| WorldError::Thread(error.into());
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let wake = Arc::new(EventFd::from_value_and_flags(0, flags).map_err(failed)?);
        let (recorder, records) = self.record.map(Recorder::new).unzip();
        let setup = Setup {
            lines,
            orders: inbox,
            wake: Arc::clone(&wake),
            recorder,
            largest_mtu,
            buffer_budget: self.buffer_budget,
            realtime: self.realtime,
        };
        let thread = Builder::new().name("emulator".into()).spawn(move || run(setup));
        let thread = Some(thread.map_err(WorldError::Thread)?);
        let emulator = Emulator { orders: Mutex::new(orders), wake, thread };
        let baseline = Mutex::new(Baseline::default());
        let shared = Shared { emulator, nodes, links, bounds: self.bounds, baseline };
        let shared = Arc::new(shared);
        let timeline = Timeline::new(&shared).map_err(WorldError::Thread)?;
        let world = World { shared, timeline, records: Mutex::new(records) };
        world.reset_health()?;
        Ok(world)
    }

    fn check(&self) -> Result<(), WorldError> {
        let bad = |name: &str, what, why| Err(WorldError::Name(name.to_owned(), what, why));
        for (number, name) in self.nodes.iter().enumerate() {
            if self.nodes[..number].contains(name) {
                return bad(name, "node", "another one has it");
            }
        }
        for (number, link) in self.links.iter().enumerate() {
            let name = &link.name;
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if name.is_empty() || name.len() > 15 || !name.chars().all(allowed) {
                return bad(name, "link", "it is that of an interface: 1 to 15 letters, digits, '-', '_' and '.'");
            }
            if ["lo", ".", "..", "all", "default"].contains(&name.as_str()) {
                return bad(name, "link", "the system uses it");
            }
            if self.links[..number].iter().any(|other| other.name == *name) {
                return bad(name, "link", "another one has it");
            }
            let fault = |text: String| Err(WorldError::Link(name.clone(), text));
            if link.a == link.b || link.a.index().max(link.b.index()) >= self.nodes.len() {
                return fault("its ends are to be two of the nodes".into());
            }
            if !(68..=LARGEST_MTU).contains(&link.mtu) {
                return fault(format!("an MTU of {} bytes is not between 68 and {LARGEST_MTU}", link.mtu));
            }
            if !link.addresses[0].shares_networks_with(&link.addresses[1]) {
                return fault("its addresses are to be two of one /24 and two of one /64".into());
            }
            let network =
                |link: &LinkSpec| (u32::from(link.addresses[0].v4) >> 8, link.addresses[0].v6.octets()[..8].to_vec());
            let (v4, v6) = network(link);
            if let Some(other) = self.links[..number].iter().find(|&other| {
                let (other_v4, other_v6) = network(other);
                other_v4 == v4 || other_v6 == v6
            }) {
                return fault(format!("link '{}' has addresses of the same network", other.name));
            }
        }
        Ok(())
    }
}

/// Runs on the node's thread, so that the device is the node's.
fn open_interface(node: &Node, link: &str, mtu: u32, addresses: Vec<(IpAddr, u8)>) -> Result<(File, u32), WorldError> {
    let name = link.to_owned();
    let opened = node.run(move || {
        let tun = open_tun()?;
        aquila_net::attach_tun(&tun, &name)?;
        let index = if_nametoindex(name.as_str())?;
        // Link-local addresses bring router solicitations, which nobody has asked for.
        if addresses.iter().any(|(address, _)| address.is_ipv6()) {
            node::set(&format!("net/ipv6/conf/{name}/addr_gen_mode"), "1")?;
        }
        let mut netlink = Netlink::open()?;
        netlink.set(index, Interface { up: Some(true), mtu: Some(mtu), queue: Some(DEVICE_QUEUE) })?;
        for (address, prefix) in addresses {
            netlink.add_address(index, address, prefix)?;
        }
        Ok((tun, index))
    });
    let (action, link, node) = ("make", link.to_owned(), node.name.clone());
    opened.map_err(|error| WorldError::Interface { action, link, node, error })
}
