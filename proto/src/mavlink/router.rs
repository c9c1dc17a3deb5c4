//! Decides which endpoints a frame goes to.
//!
//! The rules are those of the MAVLink routing guide (mavlink-devguide `en/guide/routing.md`): a broadcast goes to every
//! other endpoint, an addressed frame to those where its target was heard, nothing goes back where it came from, and
//! nothing is changed. What the guide leaves open:
//!
//! - **Unknown target.** The frame goes to the other side of the air-ground link (if that is not where it came from) and to
//!   local endpoints on which nothing was heard yet, since anybody may be there. So the first command after a restart is
//!   not lost. An unknown component of a known system goes where the system was heard.
//! - **Several ways.** A system heard on several endpoints is sent to on all of them; identical copies that arrive by
//!   different ways are dropped, the first one wins. A vehicle's broadcasts are not sent to an endpoint on which it was
//!   itself heard in the last 5 s: they have been there, and a redundant telemetry radio has no room to carry them back.
//!   This does not hold for ground stations: two of them often share one id (255/190), and neither may be silenced by the
//!   other.
//! - **Loops.** A copy that comes back from an endpoint the frame was sent to is an echo: it is dropped, and nothing is
//!   learned from it. As long as there are echoes, copies that come back by the first endpoint are dropped too. Without
//!   echoes they pass, because some senders never count up their sequence number.
//! - **Groups.** Endpoints that lead to the same place, such as two serial ports of one autopilot. One of them is active;
//!   frames from the others are dropped, frames for any of them go to the active one. If it is silent for 2 s, the next
//!   member that is heard takes over.
//! - **Several vehicles.** What comes over one air-ground link goes out on another only if configured.
//! - **Reboot.** If SYSTEM_TIME.time_boot_ms goes backwards, all routes to that system are forgotten.
//! - **SETUP_SIGNING** carries a secret key: it goes only where its target was heard, and crosses the air-ground link only
//!   if configured.
//! - **RADIO_STATUS** and RADIO describe the hop they were heard on. They stay on their side of the air-ground link, and
//!   their source is not a system one can send to.
//!
//! Everything is bounded: endpoints, addresses per endpoint, frames remembered. An endpoint that floods random addresses
//! fills only its own table; its frames still pass.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::frame::{Address, Frame, MessageId, SystemId, Version};
use recent::{Fingerprint, Recent};

mod filter;
mod recent;
mod stats;

pub use filter::Filter;
pub use stats::{DropReason, RouterStats};

/// Names an endpoint; whoever makes endpoints makes the numbers, and uses each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub u32);

/// Which side of the air-ground link an endpoint is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndpointKind {
    /// On this machine or next to it: autopilot, ground station, companion program.
    Local,
    /// The air-ground link.
    Remote,
}

/// Names a group of endpoints that lead to the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u16);

/// What the router knows of an endpoint from the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointConfig {
    /// Its side.
    pub kind: EndpointKind,
    /// Its group, if others lead to the same place.
    pub group: Option<GroupId>,
    /// Messages taken from it.
    pub incoming: Filter,
    /// Messages sent to it.
    pub outgoing: Filter,
}

impl EndpointConfig {
    /// An endpoint without group and filters.
    pub fn new(kind: EndpointKind) -> Self {
        Self { kind, group: None, incoming: Filter::new(), outgoing: Filter::new() }
    }
}

/// Settings of a [`Router`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterConfig {
    /// Let SETUP_SIGNING cross the air-ground link.
    pub forward_setup_signing: bool,
    /// Let frames from one air-ground link go out on another: from vehicle to vehicle, by way of the ground.
    pub relay_between_remotes: bool,
    /// How long an address is remembered after it was last heard.
    pub route_lifetime: Duration,
    /// How long a frame is remembered to notice copies of it.
    pub duplicate_window: Duration,
}

impl Default for RouterConfig {
    fn default() -> Self {
        Self {
            forward_setup_signing: false,
            relay_between_remotes: false,
            route_lifetime: Duration::from_secs(300),
            duplicate_window: Duration::from_secs(3),
        }
    }
}

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes to the endpoints given out, at least one.
    Forward,
    /// It goes nowhere.
    Drop(DropReason),
}

/// Something the router noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterEvent {
    /// A system's clock went backwards: its routes are forgotten, and it may have forgotten the streams it was asked for.
    Rebooted(Address),
    /// A group's active endpoint fell silent and this one took over.
    Switched(EndpointId),
}

/// Every endpoint's slot is taken, or the id is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no room for endpoint {}: {MAX_ENDPOINTS} at most, each id once", .0.0)]
pub struct NoRoom(pub EndpointId);

/// Routing table and loop suppression of one side.
#[derive(Debug)]
pub struct Router {
    config: RouterConfig,
    slots: Vec<Option<Endpoint>>,
    groups: BTreeMap<GroupId, EndpointId>,
    recent: Recent,
    echoed: Option<Instant>,
    events: VecDeque<RouterEvent>,
    stats: RouterStats,
}

#[derive(Debug)]
struct Endpoint {
    id: EndpointId,
    config: EndpointConfig,
    added: Instant,
    last_heard: Option<Instant>,
    heard: BTreeMap<Address, Heard>,
}

#[derive(Debug, Clone, Copy)]
struct Heard {
    at: Instant,
    role: Role,
    version: Version,
    boot_ms: Option<u32>,
}

/// What a HEARTBEAT says its sender is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It sent none yet.
    Unknown,
    /// A ground station.
    Station,
    /// Camera, gimbal, companion computer ...
    Part,
    /// What flies the vehicle.
    Autopilot,
}

impl Router {
    /// A router without endpoints.
    pub fn new(config: RouterConfig) -> Self {
        let recent = Recent::new(config.duplicate_window);
        Self {
            config,
            slots: Vec::new(),
            groups: BTreeMap::new(),
            recent,
            echoed: None,
            events: VecDeque::new(),
            stats: RouterStats::default(),
        }
    }

    /// Adds an endpoint. The first of a group is its active one.
    ///
    /// # Errors
    /// [`NoRoom`] if there are [`MAX_ENDPOINTS`], or one with this id.
    pub fn add_endpoint(&mut self, now: Instant, id: EndpointId, config: EndpointConfig) -> Result<(), NoRoom> {
        if self.slot_of(id).is_some() {
            return Err(NoRoom(id));
        }
        let slot = match self.slots.iter().position(Option::is_none) {
            Some(slot) => slot,
            None if self.slots.len() < MAX_ENDPOINTS => {
                self.slots.push(None);
                self.slots.len() - 1
            }
            None => return Err(NoRoom(id)),
        };
        if let Some(group) = config.group {
            self.groups.entry(group).or_insert(id);
        }
        self.slots[slot] = Some(Endpoint { id, config, added: now, last_heard: None, heard: BTreeMap::new() });
        Ok(())
    }

    /// Removes an endpoint and the routes through it; unknown ids are ignored.
    pub fn remove_endpoint(&mut self, id: EndpointId) {
        let Some(slot) = self.slot_of(id) else { return };
        let group = self.slots[slot].take().and_then(|endpoint| endpoint.config.group);
        let Some(group) = group.filter(|group| self.groups.get(group) == Some(&id)) else { return };
        let next = self.endpoints().find(|other| other.config.group == Some(group)).map(|other| other.id);
        match next {
            Some(next) => self.groups.insert(group, next),
            None => self.groups.remove(&group),
        };
    }

    /// Where the frame that came from `from` goes. `out` is cleared, then filled with endpoints, each once; it keeps its
    /// allocation between calls.
    pub fn route(&mut self, now: Instant, from: EndpointId, frame: &Frame, out: &mut Vec<EndpointId>) -> Verdict {
        out.clear();
        match self.try_route(now, from, frame, out) {
            Ok(()) => {
                self.stats.forwarded += 1;
                self.stats.copies += out.len() as u64;
                Verdict::Forward
            }
            Err(reason) => {
                out.clear();
                self.stats.count(reason);
                Verdict::Drop(reason)
            }
        }
    }

    /// What the router noticed, oldest first. At most 16 are kept.
    pub fn poll_event(&mut self) -> Option<RouterEvent> {
        self.events.pop_front()
    }

    /// Counters since the beginning.
    pub fn stats(&self) -> &RouterStats {
        &self.stats
    }

    /// The addresses in the table, each with an endpoint it was heard on and when; several entries if several endpoints.
    pub fn routes(&self, now: Instant) -> impl Iterator<Item = (Address, EndpointId, Instant)> {
        let lifetime = self.config.route_lifetime;
        self.endpoints().flat_map(move |endpoint| {
            let fresh = move |heard: &Heard| now.saturating_duration_since(heard.at) <= lifetime;
            let heard = endpoint.heard.iter().filter(move |(_, heard)| fresh(heard));
            heard.map(|(address, heard)| (*address, endpoint.id, heard.at))
        })
    }

    /// The autopilots next to this machine, with their endpoint and the version of MAVLink they speak: those that a
    /// RADIO_STATUS of our own is for.
    pub fn autopilots(&self, now: Instant) -> impl Iterator<Item = (Address, EndpointId, Version)> {
        let local = self.endpoints().filter(|endpoint| endpoint.config.kind == EndpointKind::Local);
        local.flat_map(move |endpoint| {
            let flies = move |heard: &Heard| {
                heard.role == Role::Autopilot && now.saturating_duration_since(heard.at) <= HEARD_LATELY
            };
            let heard = endpoint.heard.iter().filter(move |(_, heard)| flies(heard));
            heard.map(|(address, heard)| (*address, endpoint.id, heard.version))
        })
    }

    fn try_route(
        &mut self,
        now: Instant,
        from: EndpointId,
        frame: &Frame,
        out: &mut Vec<EndpointId>,
    ) -> Result<(), DropReason> {
        let slot = self.slot_of(from).ok_or(DropReason::UnknownEndpoint)?;
        let endpoint = self.slots[slot].as_mut().ok_or(DropReason::UnknownEndpoint)?;
        let kind = endpoint.config.kind;
        let id = frame.message_id();
        if !endpoint.config.incoming.passes(id) {
            return Err(DropReason::BlockedIncoming);
        }
        endpoint.last_heard = Some(now);
        self.check_standby(now, slot)?;
        let hop_only = matches!(id, RADIO_STATUS | RADIO);
        let stays_on_side = hop_only || (id == SETUP_SIGNING && !self.config.forward_setup_signing);
        if stays_on_side && kind == EndpointKind::Remote {
            return Err(if hop_only { DropReason::HopOnly } else { DropReason::SetupSigning });
        }
        let print = Fingerprint::of(frame);
        self.check_copy(now, slot, print, frame)?;
        if !hop_only {
            self.learn(now, slot, frame);
        }
        let local_only = stays_on_side || (kind == EndpointKind::Remote && !self.config.relay_between_remotes);
        let target = frame.target();
        let sent = self.select(now, slot, frame, target, local_only, out);
        if out.is_empty() {
            return Err(match id {
                // A secret that would have gone to the other side is worth its own counter.
                SETUP_SIGNING => DropReason::SetupSigning,
                _ if target.system == EVERYBODY => DropReason::NoReceiver,
                _ => DropReason::NoRoute,
            });
        }
        self.recent.insert(now, print, slot, sent);
        Ok(())
    }

    /// Frames from a group's standby are dropped, unless the active one has fallen silent.
    fn check_standby(&mut self, now: Instant, slot: usize) -> Result<(), DropReason> {
        let Some(endpoint) = &self.slots[slot] else { return Ok(()) };
        let (id, group) = (endpoint.id, endpoint.config.group);
        let Some(group) = group else { return Ok(()) };
        let Some(&active) = self.groups.get(&group).filter(|&&active| active != id) else { return Ok(()) };
        let heard = self.endpoints().find(|other| other.id == active).and_then(|other| other.last_heard);
        if heard.is_some_and(|at| now.saturating_duration_since(at) <= STANDBY_AFTER) {
            return Err(DropReason::Standby);
        }
        self.groups.insert(group, id);
        self.note(RouterEvent::Switched(id));
        Ok(())
    }

    /// Copies of a frame that passed lately: echoes of loops, and the same frame by another way.
    fn check_copy(&mut self, now: Instant, slot: usize, print: Fingerprint, frame: &Frame) -> Result<(), DropReason> {
        let Some(passed) = self.recent.find(now, print) else { return Ok(()) };
        // What passed before this endpoint was there cannot have come back through it: a client that connects again and
        // says the same again is heard.
        if self.slots[slot].as_ref().is_some_and(|endpoint| passed.at < endpoint.added) {
            return Ok(());
        }
        if passed.from == slot {
            let looping = self.echoed.is_some_and(|at| now.saturating_duration_since(at) <= HEARD_LATELY);
            return if looping { Err(DropReason::Echo) } else { Ok(()) };
        }
        if passed.sent & (1 << slot) != 0 {
            self.echoed = Some(now);
            return Err(DropReason::Echo);
        }
        self.learn(now, slot, frame);
        Err(DropReason::Duplicate)
    }

    fn learn(&mut self, now: Instant, slot: usize, frame: &Frame) {
        let source = frame.source();
        if source.system == EVERYBODY {
            return;
        }
        let boot_ms = (frame.message_id() == SYSTEM_TIME).then(|| u32::from_le_bytes(frame.field(TIME_BOOT_MS)));
        let Some(endpoint) = &self.slots[slot] else { return };
        let before = endpoint.heard.get(&source).and_then(|heard| heard.boot_ms);
        if let (Some(before), Some(boot_ms)) = (before, boot_ms)
            && before > boot_ms.saturating_add(REORDERED_MS)
        {
            for endpoint in self.slots.iter_mut().flatten() {
                endpoint.heard.retain(|address, _| address.system != source.system);
            }
            self.stats.reboots += 1;
            self.note(RouterEvent::Rebooted(source));
        }
        let role = Role::of(frame);
        let lifetime = self.config.route_lifetime;
        let Some(endpoint) = &mut self.slots[slot] else { return };
        if let Some(heard) = endpoint.heard.get_mut(&source) {
            heard.at = now;
            heard.version = frame.version();
            heard.role = role.unwrap_or(heard.role);
            heard.boot_ms = boot_ms.or(heard.boot_ms);
            return;
        }
        if endpoint.heard.len() >= MAX_ADDRESSES {
            endpoint.heard.retain(|_, heard| now.saturating_duration_since(heard.at) <= lifetime);
        }
        if endpoint.heard.len() >= MAX_ADDRESSES {
            self.stats.unlearned += 1;
            return;
        }
        let role = role.unwrap_or(Role::Unknown);
        endpoint.heard.insert(source, Heard { at: now, role, version: frame.version(), boot_ms });
    }

    /// Fills `out` and gives the slots in it as bits.
    fn select(
        &mut self,
        now: Instant,
        from: usize,
        frame: &Frame,
        target: Address,
        local_only: bool,
        out: &mut Vec<EndpointId>,
    ) -> u128 {
        let wanted = self.wanted(now, from, target, frame.message_id() == SETUP_SIGNING);
        let from_group = self.slots[from].as_ref().and_then(|endpoint| endpoint.config.group);
        let (source, id) = (frame.source(), frame.message_id());
        let broadcast = target.system == EVERYBODY;
        let mut sent = 0;
        for (slot, endpoint) in self.slots.iter().enumerate().filter(|(slot, _)| wanted & (1 << slot) != 0) {
            let Some(endpoint) = endpoint else { continue };
            let group = endpoint.config.group;
            let active = group.is_none_or(|group| self.groups.get(&group) == Some(&endpoint.id));
            if slot == from || (group.is_some() && group == from_group) || !active {
                continue;
            }
            if local_only && endpoint.config.kind == EndpointKind::Remote {
                continue;
            }
            if broadcast && endpoint.hears_vehicle(now, source) {
                self.stats.not_returned += 1;
                continue;
            }
            if !endpoint.config.outgoing.passes(id) {
                self.stats.blocked_outgoing += 1;
                continue;
            }
            out.push(endpoint.id);
            sent |= 1 << slot;
        }
        sent
    }

    /// The slots that lead to `target`, as bits; for groups the active member's is among them. What is `secret` goes
    /// only where its target was heard.
    fn wanted(&self, now: Instant, from: usize, target: Address, secret: bool) -> u128 {
        let slots_where = |chosen: &dyn Fn(&Endpoint) -> bool| {
            let mut bits = 0u128;
            for (slot, endpoint) in self.slots.iter().enumerate() {
                if endpoint.as_ref().is_some_and(chosen) {
                    bits |= 1 << slot;
                }
            }
            bits
        };
        if target.system == EVERYBODY {
            return if secret { 0 } else { u128::MAX };
        }
        let lifetime = self.config.route_lifetime;
        let mut bits = 0;
        if target.component.0 != 0 {
            bits = slots_where(&|endpoint| endpoint.hears(now, target, lifetime));
        }
        if bits == 0 {
            bits = slots_where(&|endpoint| endpoint.hears_system(now, target.system, lifetime));
        }
        if bits == 0 && !secret {
            let local = self.slots[from].as_ref().is_some_and(|e| e.config.kind == EndpointKind::Local);
            bits = slots_where(&|endpoint| match endpoint.config.kind {
                EndpointKind::Remote => local,
                EndpointKind::Local => endpoint.heard.is_empty(),
            });
        }
        self.with_active_members(bits)
    }

    /// Adds the active member of every group that has a member in `bits`.
    fn with_active_members(&self, mut bits: u128) -> u128 {
        for (&group, &active) in &self.groups {
            let member = |(slot, endpoint): (usize, &Option<Endpoint>)| {
                bits & (1 << slot) != 0 && endpoint.as_ref().is_some_and(|e| e.config.group == Some(group))
            };
            if self.slots.iter().enumerate().any(member)
                && let Some(slot) = self.slot_of(active)
            {
                bits |= 1 << slot;
            }
        }
        bits
    }

    fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.slots.iter().flatten()
    }

    fn slot_of(&self, id: EndpointId) -> Option<usize> {
        self.slots.iter().position(|slot| slot.as_ref().is_some_and(|endpoint| endpoint.id == id))
    }

    fn note(&mut self, event: RouterEvent) {
        if self.events.len() >= MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}

impl Endpoint {
    fn hears(&self, now: Instant, address: Address, within: Duration) -> bool {
        self.heard.get(&address).is_some_and(|heard| now.saturating_duration_since(heard.at) <= within)
    }

    fn hears_vehicle(&self, now: Instant, address: Address) -> bool {
        self.hears(now, address, HEARD_LATELY)
            && self.heard.get(&address).is_some_and(|heard| matches!(heard.role, Role::Part | Role::Autopilot))
    }

    fn hears_system(&self, now: Instant, system: SystemId, within: Duration) -> bool {
        let components = Address::new(system.0, 0)..=Address::new(system.0, 255);
        self.heard.range(components).any(|(_, heard)| now.saturating_duration_since(heard.at) <= within)
    }
}

impl Role {
    /// What a frame says, if it is a HEARTBEAT.
    fn of(frame: &Frame) -> Option<Self> {
        if frame.message_id() != HEARTBEAT {
            return None;
        }
        let [kind, autopilot] = frame.field(HEARTBEAT_TYPE);
        Some(match (kind, autopilot) {
            (TYPE_GCS, _) => Self::Station,
            (_, AUTOPILOT_INVALID) => Self::Part,
            _ => Self::Autopilot,
        })
    }
}

/// Most endpoints of one router.
pub const MAX_ENDPOINTS: usize = 128;
/// Most addresses remembered per endpoint: a fleet of 255 with two components each.
pub const MAX_ADDRESSES: usize = 512;

const EVERYBODY: SystemId = SystemId(0);
const HEARTBEAT: MessageId = MessageId(0);
const SYSTEM_TIME: MessageId = MessageId(2);
const RADIO_STATUS: MessageId = MessageId(109);
const RADIO: MessageId = MessageId(166);
const SETUP_SIGNING: MessageId = MessageId(256);
/// Payload offset of `type` in HEARTBEAT, `autopilot` follows it.
const HEARTBEAT_TYPE: usize = 4;
/// MAV_TYPE_GCS.
const TYPE_GCS: u8 = 6;
/// MAV_AUTOPILOT_INVALID: not an autopilot.
const AUTOPILOT_INVALID: u8 = 8;
/// Payload offset in SYSTEM_TIME.
const TIME_BOOT_MS: usize = 8;
/// A boot time lower by no more than this is an old frame that came late.
const REORDERED_MS: u32 = 2000;
/// A source heard on an endpoint within this time is there. HEARTBEAT comes every second, lost after 4 to 5.
const HEARD_LATELY: Duration = Duration::from_secs(5);
/// A group's active endpoint that is silent for this long is replaced: two heartbeats.
const STANDBY_AFTER: Duration = Duration::from_secs(2);
const MAX_EVENTS: usize = 16;

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
