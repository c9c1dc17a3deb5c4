//! Two hosts with TCPs of another make (smoltcp), each at the TUN device of a gateway, and a bad radio between the gateways.

use std::cell::RefCell;
use std::collections::BTreeMap;

use aquila_emu::{Path, PathConfig};
use proptest::prelude::*;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp;
use smoltcp::time::Instant as HostTime;
use smoltcp::wire::{HardwareAddress, IpCidr, IpEndpoint, IpListenEndpoint};

use super::*;
use crate::gateway::tests::{MS, Memory, gateway, path};
use crate::gateway::{Action, Ending, FlowState, Gateway, GatewayConfig};

/// What a host's device has received, and sends.
#[derive(Debug, Default)]
struct Wire {
    received: VecDeque<Vec<u8>>,
    sent: RefCell<Vec<Vec<u8>>>,
}

struct Received(Vec<u8>);
struct Sent<'a>(&'a RefCell<Vec<Vec<u8>>>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.borrow_mut().push(packet);
        result
    }
}

impl Device for Wire {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sent<'a>;

    fn receive(&mut self, _: HostTime) -> Option<(Received, Sent<'_>)> {
        let packet = self.received.pop_front()?;
        Some((Received(packet), Sent(&self.sent)))
    }

    fn transmit(&mut self, _: HostTime) -> Option<Sent<'_>> {
        Some(Sent(&self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = 1500;
        capabilities
    }
}

/// A host with one socket, and what its application has yet to send, and got.
struct Host {
    wire: Wire,
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    to_send: Vec<u8>,
    got: Vec<u8>,
    /// It reads.
    reads: bool,
    closes: bool,
    ended: bool,
    unplugged: bool,
}

impl Host {
    fn new(address: IpAddr, via: IpAddr, seed: u64, buffer: usize) -> Self {
        let mut wire = Wire::default();
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut wire, HostTime::ZERO);
        interface.update_ip_addrs(|all| all.push(IpCidr::new(address.into(), 8)).unwrap());
        match via {
            IpAddr::V4(via) => drop(interface.routes_mut().add_default_ipv4_route(via).unwrap()),
            IpAddr::V6(via) => drop(interface.routes_mut().add_default_ipv6_route(via).unwrap()),
        }
        let buffer = || tcp::SocketBuffer::new(vec![0; buffer]);
        let mut sockets = SocketSet::new(Vec::new());
        let socket = sockets.add(tcp::Socket::new(buffer(), buffer()));
        Self {
            wire,
            interface,
            sockets,
            socket,
            to_send: Vec::new(),
            got: Vec::new(),
            reads: true,
            closes: true,
            ended: false,
            unplugged: false,
        }
    }

    fn tcp(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.socket)
    }

    fn connect(&mut self, to: SocketAddr) {
        let socket = self.sockets.get_mut::<tcp::Socket<'static>>(self.socket);
        let endpoint = IpEndpoint::new(to.ip().into(), to.port());
        socket.connect(self.interface.context(), endpoint, 40_000).unwrap();
    }

    fn work(&mut self, at: HostTime) {
        self.interface.poll(at, &mut self.wire, &mut self.sockets);
        let socket = self.sockets.get_mut::<tcp::Socket<'static>>(self.socket);
        if self.reads && socket.can_recv() {
            let got = &mut self.got;
            let _ = socket.recv(|bytes| {
                got.extend_from_slice(bytes);
                (bytes.len(), ())
            });
        }
        self.ended |= !socket.may_recv() && socket.state() == tcp::State::CloseWait;
        if socket.can_send() && !self.to_send.is_empty() {
            let taken = socket.send_slice(&self.to_send).unwrap();
            self.to_send.drain(..taken);
        }
        if self.closes && self.to_send.is_empty() && socket.may_send() {
            socket.close();
        }
        self.interface.poll(at, &mut self.wire, &mut self.sockets);
    }
}

/// How bad the ways between hosts and gateways are.
#[derive(Debug, Clone, Copy, Default)]
struct Tun {
    loss: f64,
    twice: f64,
    /// Packets take up to so much longer than others.
    spread: Duration,
}

/// What has been seen of one direction's acknowledgements, relative to their SYNs.
#[derive(Debug, Default)]
struct Seen {
    /// Of the SYNs that the host, and the gateway in its host's name, sent.
    host_syn: Option<u32>,
    gateway_syn: Option<u32>,
    /// The farthest that the host acknowledged, and was told.
    by_host: u32,
    to_host: u32,
}

struct World {
    now: Instant,
    start: Instant,
    gateways: [Gateway<Memory>; 2],
    lives: [u64; 2],
    hosts: [Host; 2],
    radio: [Path<Vec<u8>>; 2],
    cut: bool,
    tun: Tun,
    random: Random,
    /// Packets on their way: to host 0 and 1, to gateway 0 and 1.
    under_way: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    number: u64,
    seen: [Seen; 2],
    endings: [Vec<Ending>; 2],
    admits: Result<(), Reason>,
    kept: [Vec<Former>; 2],
    v6: bool,
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn chance(&mut self, of: f64) -> bool {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) as f64 / u64::MAX as f64) < of
    }

    fn share(&mut self) -> f64 {
        (0..10).map(|bit| if self.chance(0.5) { 0.5f64.powi(bit + 1) } else { 0.0 }).sum()
    }
}

fn addresses(v6: bool) -> [IpAddr; 4] {
    let texts = if v6 {
        ["fd10::1", "fd10::2", "fd20::5", "fd20::9"]
    } else {
        ["10.1.0.1", "10.1.0.2", "10.2.0.5", "10.2.0.9"]
    };
    texts.map(|text| text.parse().unwrap())
}

fn tun_config(v6: bool, end: usize) -> TunConfig {
    let [_, _, target, own] = addresses(v6);
    let near = end == 0;
    let intercept = Intercept { network: target, bits: if v6 { 128 } else { 32 }, ports: 22..=23, to: None };
    let (v4, v6) = match own {
        IpAddr::V4(own) => (Some(own).filter(|_| !near), None),
        IpAddr::V6(own) => (None, Some(own).filter(|_| !near)),
    };
    TunConfig { mtu: 1500, v4, v6, intercepts: if near { vec![intercept] } else { Vec::new() } }
}

impl World {
    fn new(radio: PathConfig, tun: Tun, seed: u64, buffers: [usize; 2], v6: bool) -> Self {
        let now = Instant::now();
        let [near, via, target, own] = addresses(v6);
        let mut hosts = [Host::new(near, via, seed, buffers[0]), Host::new(target, own, !seed, buffers[1])];
        hosts[1].tcp().listen(IpListenEndpoint { addr: None, port: 22 }).unwrap();
        let gateways = [0, 1].map(|end| {
            let mut gateway = gateway(end, 1, GatewayConfig::default(), &Memory::default(), now);
            gateway.set_tun(tun_config(v6, end), []);
            gateway
        });
        Self {
            now,
            start: now,
            gateways,
            lives: [1; 2],
            hosts,
            radio: [Path::new(radio, seed), Path::new(radio, !seed)],
            cut: false,
            tun,
            random: Random(seed),
            under_way: BTreeMap::new(),
            number: 0,
            seen: Default::default(),
            endings: Default::default(),
            admits: Ok(()),
            kept: Default::default(),
            v6,
        }
    }

    fn target(&self) -> SocketAddr {
        SocketAddr::new(addresses(self.v6)[2], 22)
    }

    fn host_time(&self) -> HostTime {
        HostTime::from_micros((self.now - self.start).as_micros() as i64)
    }

    /// A gateway is killed and started again.
    fn restart(&mut self, end: usize) {
        self.lives[end] += 1;
        let config = GatewayConfig::default();
        self.gateways[end] = gateway(end, self.lives[end], config, &Memory::default(), self.now);
        self.gateways[end].set_tun(tun_config(self.v6, end), std::mem::take(&mut self.kept[end]));
    }

    /// A packet between a host and its gateway: `to` 0 and 1 are hosts, 2 and 3 gateways.
    fn carry(&mut self, to: usize, packet: Vec<u8>) {
        let copies = 1 + usize::from(self.random.chance(self.tun.twice));
        for _ in 0..copies {
            if self.random.chance(self.tun.loss) || self.hosts[to % 2].unplugged {
                continue;
            }
            let at = self.now + MS / 10 + self.tun.spread.mul_f64(self.random.share());
            self.number += 1;
            self.under_way.insert((at, self.number), (to, packet.clone()));
        }
    }

    /// Checks that no host is told of more than the other has acknowledged.
    fn look(&mut self, end: usize, from_host: bool, packet: &[u8]) {
        let packet = Packet::parse(packet).expect("hosts and gateways send good packets");
        let seen = &mut self.seen[end];
        if packet.flags.syn {
            *(if from_host { &mut seen.host_syn } else { &mut seen.gateway_syn }) = Some(packet.seq);
        }
        let of = if from_host { seen.gateway_syn } else { seen.host_syn };
        let (Some(ack), Some(syn), false) = (packet.ack, of, packet.flags.rst) else { return };
        let ahead = ack.wrapping_sub(syn.wrapping_add(1));
        if from_host && ahead < 1 << 31 {
            seen.by_host = seen.by_host.max(ahead);
        } else if !from_host {
            seen.to_host = seen.to_host.max(ahead);
            let (told, acked) = (self.seen[end].to_host, self.seen[1 - end].by_host);
            assert!(told <= acked, "host {end} is told of {told} bytes, the other has acknowledged {acked}");
        }
    }

    fn step(&mut self) -> bool {
        let mut busy = false;
        let (now, at) = (self.now, self.host_time());
        while let Some(entry) = self.under_way.first_entry()
            && entry.key().0 <= now
        {
            let (to, packet) = entry.remove();
            busy = true;
            match to {
                0 | 1 => self.hosts[to].wire.received.push_back(packet),
                _ => self.gateways[to - 2].handle_packet(now, &packet),
            }
        }
        let mut out = Vec::new();
        for end in 0..2 {
            self.hosts[end].work(at);
            let sent = self.hosts[end].wire.sent.take();
            for packet in sent {
                busy = true;
                self.look(end, true, &packet);
                self.carry(end + 2, packet);
            }
            self.gateways[end].handle_timeout(now);
            while let Some(action) = self.gateways[end].poll_action() {
                busy = true;
                match action {
                    Action::Admit { flow, .. } => self.gateways[end].on_admitted(now, flow, self.admits),
                    Action::Intercepted { .. } => {}
                    Action::Ended(ending) => self.endings[end].push(ending),
                    action => panic!("{action:?}"),
                }
            }
            while self.gateways[end].poll_transmit(now, &mut out) {
                if !self.cut {
                    let _ = self.radio[end].push(now, out.len() + 28, out.clone());
                }
            }
            while let Some(packet) = self.gateways[end].poll_packet() {
                busy = true;
                self.look(end, false, &packet);
                self.carry(end, packet);
            }
            while let Some(packet) = self.radio[end].pop(now) {
                self.gateways[1 - end].handle_bytes(now, &packet);
                busy = true;
            }
            let kept: Vec<_> = self.gateways[end].formers().collect();
            if !kept.is_empty() {
                self.kept[end] = kept;
            }
        }
        busy
    }

    /// Until something is so; at most for a time.
    fn run(&mut self, time: Duration, mut until: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now + time;
        let mut spins = 0;
        loop {
            while self.step() {
                spins += 1;
                assert!(spins < 10_000, "spins");
            }
            if until(self) {
                return true;
            }
            let at = self.host_time();
            let hosts = self.hosts.iter_mut().filter_map(|host| {
                let delay = host.interface.poll_delay(at, &host.sockets)?;
                Some(self.now + Duration::from(delay).max(MS / 10))
            });
            let hosts: Vec<Instant> = hosts.collect();
            let due = (0..2)
                .filter_map(|at| self.gateways[at].poll_timeout(self.now))
                .chain((0..2).filter_map(|at| self.radio[at].next_delivery()))
                .chain(self.under_way.keys().map(|(at, _)| *at))
                .chain(hosts)
                .min();
            match due {
                Some(due) if due <= end => {
                    spins = if due <= self.now { spins + 1 } else { 0 };
                    self.now = self.now.max(due);
                }
                _ => {
                    self.now = end;
                    return until(self);
                }
            }
        }
    }

    fn state(&mut self, end: usize) -> tcp::State {
        self.hosts[end].tcp().state()
    }

    /// With a connection that stays open till it is closed.
    fn open(mut self) -> Self {
        let target = self.target();
        self.hosts.iter_mut().for_each(|host| host.closes = false);
        self.hosts[0].connect(target);
        let open = |world: &mut Self| (0..2).all(|end| world.state(end) == tcp::State::Established);
        assert!(self.run(LONG, open));
        self
    }

    /// Bytes that leave by the radio from here, in a time.
    fn radio_bytes(&mut self, time: Duration) -> u64 {
        let before = self.gateways[0].stats(self.now).radio.bytes_out;
        self.run(time, |_| false);
        self.gateways[0].stats(self.now).radio.bytes_out - before
    }

    fn is_over(&mut self) -> bool {
        self.gateways.iter().all(|gateway| gateway.flows(self.now).count() == 0)
    }
}

const LONG: Duration = Duration::from_secs(600);

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|at| (at * 7 + at / 251) as u8).collect()
}

fn clean(buffers: [usize; 2]) -> World {
    World::new(path(0.0, 0.0), Tun::default(), 1, buffers, false)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The bytes are the same, both ends come, and no host is told of what the other has not acknowledged ([`World::look`]),
    /// whatever is lost, doubled and reordered.
    #[test]
    fn both_ways_arrive_and_nothing_is_acknowledged_before_its_time(
        seed: u64,
        radio in (0.0..0.2, 0.0..2e-5),
        tun in (0.0..0.05, 0.0..0.1, 0u32..6),
        lengths in (0..80_000usize, 0..80_000usize),
        buffers in (600..70_000usize, 600..70_000usize),
        (v6, late) in any::<(bool, bool)>(),
    ) {
        let tun = Tun { loss: tun.0, twice: tun.1, spread: MS * tun.2 };
        let mut world = World::new(path(radio.1, radio.0), tun, seed, buffers.into(), v6);
        let sent = [bytes(lengths.0), bytes(lengths.1)];
        for (host, sent) in world.hosts.iter_mut().zip(&sent) {
            host.to_send.clone_from(sent);
        }
        // One that closes late: the other direction goes on after the first FIN.
        world.hosts[1].closes = !late;
        let target = world.target();
        world.hosts[0].connect(target);
        let near_done = world.run(LONG, |world| world.hosts[1].got.len() >= lengths.0 && world.hosts[1].ended || !late);
        prop_assert!(near_done, "{:?} {:?}", world.hosts[1].got.len(), world.gateways[0].flows(world.now).collect::<Vec<_>>());
        world.hosts[1].closes = true;
        let over = world.run(LONG, |world| world.endings.iter().all(|endings| !endings.is_empty()));
        let shown = [0, 1].map(|end| (world.state(end), world.hosts[end].got.len(), world.hosts[end].to_send.len()));
        prop_assert!(over, "{shown:?} {:?}", world.gateways[0].flows(world.now).collect::<Vec<_>>());
        let closed = |world: &mut World| (0..2).all(|end| matches!(world.state(end), tcp::State::Closed | tcp::State::TimeWait));
        prop_assert!(world.run(Duration::from_secs(60), closed), "{shown:?}");
        for end in 0..2 {
            prop_assert!(world.hosts[end].got == sent[1 - end], "{shown:?}");
            prop_assert_eq!(world.endings[end].len(), 1);
            prop_assert_eq!(world.endings[end][0].reason, None);
        }
    }
}

#[test]
fn nothing_is_acknowledged_while_the_radio_is_cut() {
    let mut world = clean([8000, 8000]).open();
    world.cut = true;
    world.hosts[0].tcp().set_nagle_enabled(false);
    world.hosts[0].to_send = bytes(5000);
    world.run(Duration::from_secs(30), |_| false);
    assert_eq!(world.hosts[0].tcp().send_queue(), 5000);
    let status = world.gateways[0].flows(world.now).next().unwrap();
    assert_eq!((status.sent.0, status.acknowledged.0, status.custody.0), (5000, 0, 0));
    world.cut = false;
    assert!(world.run(Duration::from_secs(10), |world| world.hosts[0].tcp().send_queue() == 0));
    assert_eq!(world.hosts[1].got, bytes(5000));
}

#[test]
fn a_connection_is_there_only_when_the_target_has_answered() {
    let mut world = clean([8000, 8000]);
    let target = world.target();
    world.hosts.iter_mut().for_each(|host| host.closes = false);
    world.hosts[1].unplugged = true;
    world.hosts[0].connect(target);
    world.run(Duration::from_secs(10), |_| false);
    assert_eq!(world.state(0), tcp::State::SynSent);
    assert_eq!(world.gateways[1].flows(world.now).next().unwrap().state, FlowState::Opening);
    world.hosts[1].unplugged = false;
    assert!(world.run(Duration::from_secs(10), |world| world.state(0) == tcp::State::Established));
}

#[test]
fn a_target_that_refuses_or_is_not_allowed_or_silent_is_a_reset() {
    for (case, reason) in
        [Reason::Refused, Reason::NotAllowed, Reason::Unreachable, Reason::NoTun].into_iter().enumerate()
    {
        let mut world = clean([8000, 8000]);
        let target = world.target();
        match case {
            0 => world.hosts[1].tcp().abort(),
            1 => world.admits = Err(Reason::NotAllowed),
            2 => world.hosts[1].unplugged = true,
            _ => world.gateways[1].set_tun(TunConfig { mtu: 1500, v4: None, v6: None, intercepts: Vec::new() }, []),
        }
        world.hosts[0].connect(target);
        assert!(world.run(Duration::from_secs(25), |world| !world.endings[0].is_empty()), "{reason}");
        assert!(world.run(Duration::from_secs(1), |world| world.state(0) == tcp::State::Closed), "{reason}");
        assert_eq!(world.endings[0][0].reason, Some(reason));
    }
}

#[test]
fn what_a_host_repeats_costs_the_radio_nothing() {
    let mut world = World::new(path(0.0, 0.0), Tun::default(), 1, [30_000, 30_000], false).open();
    // The target's host does not answer for longer than any time-out of the application's.
    world.hosts[1].unplugged = true;
    world.hosts[0].to_send = bytes(20_000);
    world.run(Duration::from_secs(1), |_| false);
    let before = world.gateways[0].packets().taken;
    let waiting = world.radio_bytes(Duration::from_secs(60));
    assert!(world.gateways[0].packets().taken > before + 5, "the host has repeated nothing");
    let idle = clean([8000, 8000]).open().radio_bytes(Duration::from_secs(60));
    assert!(waiting < idle + 200, "waiting costs {waiting} bytes a minute, silence {idle}");
    world.hosts[1].unplugged = false;
    assert!(world.run(LONG, |world| world.hosts[1].got.len() == 20_000));
}

#[test]
fn a_host_that_does_not_read_makes_the_other_wait() {
    let mut world = clean([50_000, 3000]);
    let target = world.target();
    world.hosts[1].reads = false;
    world.hosts[0].to_send = bytes(100_000);
    world.hosts[0].connect(target);
    world.run(Duration::from_secs(60), |_| false);
    let status = world.gateways[0].flows(world.now).next().unwrap();
    assert_eq!(world.hosts[1].tcp().recv_queue(), 3000);
    assert!(status.sent.0 < 8000, "{status:?}");
    let waiting = world.radio_bytes(Duration::from_secs(60));
    let idle = clean([8000, 8000]).open().radio_bytes(Duration::from_secs(60));
    assert!(waiting < idle + 1000, "waiting costs {waiting} bytes a minute, silence {idle}");
    world.hosts[1].reads = true;
    assert!(world.run(LONG, World::is_over));
    assert_eq!(world.hosts[1].got, bytes(100_000));
}

#[test]
fn a_reset_goes_through_both_ways() {
    for end in 0..2 {
        let mut world = clean([8000, 8000]).open();
        world.hosts[end].tcp().abort();
        assert!(world.run(Duration::from_secs(2), |world| world.state(1 - end) == tcp::State::Closed), "{end}");
        assert!(world.run(Duration::from_secs(2), World::is_over));
        assert_eq!(world.endings[1 - end][0].reason, Some(Reason::Application));
    }
}

#[test]
fn a_gateway_that_restarts_resets_both_hosts() {
    for end in 0..2 {
        let mut world = clean([8000, 8000]).open();
        world.run(Duration::from_secs(1), |_| false);
        world.restart(end);
        // Neither has anything to say that would bring it out.
        assert!(
            world.run(Duration::from_secs(30), |world| world.state(end) == tcp::State::Closed),
            "its own host {end}"
        );
        assert!(
            world.run(Duration::from_secs(30), |world| world.state(1 - end) == tcp::State::Closed),
            "the other {end}"
        );
        assert!(world.is_over());
    }
}

#[test]
fn a_keep_alive_is_answered_by_the_other_end_only() {
    let mut world = clean([8000, 8000]);
    let target = world.target();
    let keep_alive = smoltcp::time::Duration::from_secs(10);
    world.hosts[0].closes = false;
    world.hosts[1].closes = false;
    world.hosts[0].tcp().set_keep_alive(Some(keep_alive));
    world.hosts[0].tcp().set_timeout(Some(keep_alive * 3));
    world.hosts[0].connect(target);
    assert!(world.run(LONG, |world| world.state(1) == tcp::State::Established));
    world.run(Duration::from_secs(120), |_| false);
    assert_eq!(world.state(0), tcp::State::Established, "the other end is alive, and its word comes through");
    world.hosts[1].unplugged = true;
    world.run(Duration::from_secs(60), |_| false);
    assert_eq!(world.state(0), tcp::State::Closed, "it is not there, and nobody answers for it");
}

#[test]
fn a_host_that_has_vanished_ends_its_flows() {
    let mut world = clean([8000, 8000]).open();
    world.run(Duration::from_secs(3600), |_| false);
    assert_eq!(world.gateways[0].flows(world.now).count(), 1, "silence alone is no reason");
    world.hosts[0].unplugged = true;
    assert!(world.run(Duration::from_secs(1000), |world| world.state(1) == tcp::State::Closed));
    assert!(world.is_over());
}

#[test]
fn what_belongs_to_nothing_is_counted_and_refused() {
    let mut world = clean([8000, 8000]);
    let other = SocketAddr::new(world.target().ip(), 80);
    world.hosts[0].connect(other);
    assert!(world.run(Duration::from_secs(2), |world| world.state(0) == tcp::State::Closed));
    for packet in [&b""[..], b"garbage", &[0x45; 40], &[0x60; 80]] {
        world.gateways[0].handle_packet(world.now, packet);
    }
    let counters = world.gateways[0].packets();
    assert_eq!((counters.taken, counters.refused), (0, 1));
    assert_eq!(counters.malformed + counters.fragments + counters.other, 4);
}

#[test]
fn a_target_behind_the_same_device_is_refused() {
    let mut world = clean([8000, 8000]);
    let [.., target, own] = addresses(false);
    let IpAddr::V4(own) = own else { unreachable!() };
    let intercept = Intercept { network: target, bits: 16, ports: 1..=u16::MAX, to: None };
    let tun = TunConfig { mtu: 1500, v4: Some(own), v6: None, intercepts: vec![intercept] };
    world.gateways[1].set_tun(tun, []);
    let target = world.target();
    world.hosts[0].connect(target);
    assert!(world.run(Duration::from_secs(5), |world| !world.endings[0].is_empty()));
    assert_eq!(world.endings[0][0].reason, Some(Reason::Unreachable));
}

#[test]
fn a_host_that_gives_up_before_the_radio_is_there_leaves_nothing_behind() {
    let mut world = clean([8000, 8000]);
    let target = world.target();
    world.cut = true;
    world.hosts[0].connect(target);
    assert!(world.run(Duration::from_secs(5), |world| world.gateways[0].flows(world.now).count() == 1));
    world.hosts[0].tcp().abort();
    assert!(world.run(Duration::from_secs(200), World::is_over));
    world.cut = false;
    world.run(Duration::from_secs(60), |_| false);
    assert_eq!(world.gateways[1].flows(world.now).count() + world.endings[1].len(), 0);
}

#[test]
fn half_a_connection_whose_host_has_vanished_ends() {
    let mut world = clean([8000, 8000]).open();
    world.hosts[0].closes = true;
    assert!(world.run(Duration::from_secs(5), |world| world.state(1) == tcp::State::CloseWait));
    world.hosts[1].unplugged = true;
    world.run(Duration::from_secs(600), |_| false);
    assert!(!world.is_over());
    assert!(world.run(Duration::from_secs(600), World::is_over));
}
