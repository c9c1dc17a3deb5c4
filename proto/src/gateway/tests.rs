use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use aquila_emu::{BitErrors, Loss, Path, PathConfig};

use super::*;
use crate::aerotp::Protection;
use crate::identity::Identity;
use crate::{Bitrate, ByteCount};

pub(super) const MS: Duration = Duration::from_millis(1);
const TARGET: &str = "127.0.0.1:22";

#[derive(Debug, Default)]
pub(super) struct Disk {
    flows: BTreeMap<FlowId, (Kept, Vec<u8>)>,
    ended: Vec<(FlowId, Option<Reason>, u64)>,
    full: bool,
    most: u64,
}

/// Survives a gateway that is dropped.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory(Rc<RefCell<Disk>>);

impl Custody for Memory {
    fn load(&mut self) -> Vec<Kept> {
        self.0.borrow().flows.values().map(|(kept, _)| *kept).collect()
    }

    fn load_ended(&mut self) -> Vec<(FlowId, Option<Reason>, u64)> {
        self.0.borrow().ended.clone()
    }

    fn begin(&mut self, deed: &Deed) -> Result<(), StorageError> {
        let kept = Kept { deed: *deed, released: 0, end: 0, fin: false };
        self.0.borrow_mut().flows.insert(deed.flow, (kept, Vec::new()));
        Ok(())
    }

    fn append(&mut self, flow: FlowId, bytes: &[u8]) -> Result<(), StorageError> {
        let mut disk = self.0.borrow_mut();
        if disk.full {
            return Err(StorageError("no space left on device".into()));
        }
        let (kept, all) = disk.flows.get_mut(&flow).unwrap();
        all.extend_from_slice(bytes);
        kept.end += bytes.len() as u64;
        let held = disk.flows.values().map(|(kept, _)| kept.end - kept.released).sum();
        disk.most = disk.most.max(held);
        Ok(())
    }

    fn finish(&mut self, flow: FlowId) -> Result<(), StorageError> {
        self.0.borrow_mut().flows.get_mut(&flow).unwrap().0.fin = true;
        Ok(())
    }

    fn read(&mut self, flow: FlowId, offset: u64, max: usize) -> Result<Vec<u8>, StorageError> {
        let disk = self.0.borrow();
        let (kept, all) = &disk.flows[&flow];
        assert!(offset >= kept.released, "what was released is not there");
        let from = offset as usize;
        Ok(all[from..all.len().min(from + max)].to_vec())
    }

    fn release(&mut self, flow: FlowId, offset: u64) {
        self.0.borrow_mut().flows.get_mut(&flow).unwrap().0.released = offset;
    }

    fn end(&mut self, flow: FlowId, remember: Option<(Option<Reason>, u64)>) {
        let mut disk = self.0.borrow_mut();
        disk.flows.remove(&flow);
        disk.ended.extend(remember.map(|(reason, taken)| (flow, reason, taken)));
    }
}

#[derive(Debug, Default)]
struct TestApp {
    got: Vec<u8>,
    finished: bool,
    /// What is yet to be sent, and closed behind.
    to_send: Vec<u8>,
    stalled: bool,
    closes: bool,
    closed: bool,
    stopped: bool,
}

struct World {
    now: Instant,
    start: Instant,
    gateways: [Gateway<Memory>; 2],
    disks: [Memory; 2],
    lives: [u64; 2],
    config: GatewayConfig,
    paths: [Path<Vec<u8>>; 2],
    apps: [BTreeMap<FlowId, TestApp>; 2],
    endings: [Vec<Ending>; 2],
    datagrams: [Vec<Action>; 2],
    dials: Result<(), Reason>,
    /// Applications write so much at a time.
    chunk: usize,
    /// The far application answers with what it got.
    reply: Vec<u8>,
    session: Option<TestSession>,
}

/// A session of two bearers, which says when a segment may leave, and sends it on one of them.
struct TestSession {
    others: [Path<Vec<u8>>; 2],
    free: [Instant; 2],
    sent: [u64; 2],
}

impl TestSession {
    /// The same over which bearer, at 4 Mbit/s.
    fn leave(&mut self, now: Instant, end: usize, len: usize) -> bool {
        self.sent[end] += 1;
        self.free[end] = self.free[end].max(now) + Bitrate::mbps(4).time_for(ByteCount::from(len));
        self.sent[end].is_multiple_of(2)
    }
}

pub(super) fn gateway(end: usize, life: u64, config: GatewayConfig, disk: &Memory, now: Instant) -> Gateway<Memory> {
    let radio = RadioConfig { protection: Protection::Off, ..RadioConfig::packets(Bitrate::mbps(5)) };
    gateway_over(&radio, end, life, config, disk, now)
}

fn gateway_over(
    radio: &RadioConfig,
    end: usize,
    life: u64,
    config: GatewayConfig,
    disk: &Memory,
    now: Instant,
) -> Gateway<Memory> {
    let identity = |n: u8| Arc::new(Identity::from_seed([n; 32]));
    let (own, peer) = if end == 0 { (1, 2) } else { (2, 1) };
    let security = SecurityConfig {
        identity: identity(own),
        peer: identity(peer).public(),
        initiates: end == 0,
        life,
        accepted: None,
    };
    let random = SeededBytes::new(&[life as u8 * 2 + end as u8; 32], "gateway");
    let mut gateway = Gateway::new(now, config, radio, security, random, disk.clone()).unwrap();
    gateway.begin(now);
    gateway
}

pub(super) fn path(wrong: f64, loss: f64) -> PathConfig {
    PathConfig {
        rate_bps: Some(5_000_000),
        delay: 10 * MS,
        bit_errors: BitErrors { rate: wrong, spared_bytes: 0 },
        air_loss: Loss::Independent(loss),
        ..PathConfig::default()
    }
}

impl World {
    fn new(path: PathConfig, seed: u64, config: GatewayConfig) -> Self {
        let now = Instant::now();
        let disks = [Memory::default(), Memory::default()];
        Self {
            now,
            start: now,
            gateways: [0, 1].map(|end| gateway(end, 1, config, &disks[end], now)),
            disks,
            lives: [1; 2],
            config,
            paths: [Path::new(path, seed), Path::new(path, !seed)],
            apps: Default::default(),
            endings: Default::default(),
            datagrams: Default::default(),
            dials: Ok(()),
            chunk: 5000,
            reply: Vec::new(),
            session: None,
        }
    }

    /// The same by parcels of a session, whose second bearer is like `other`.
    fn by_session(path: PathConfig, other: PathConfig, seed: u64) -> Self {
        let mut world = Self::new(path, seed, GatewayConfig::default());
        let now = world.now;
        for end in 0..2 {
            world.gateways[end] = gateway_over(&RadioConfig::parcels(), end, 1, world.config, &world.disks[end], now);
        }
        let others = [Path::new(other, seed + 100), Path::new(other, !seed - 100)];
        world.session = Some(TestSession { others, free: [now; 2], sent: [0; 2] });
        world
    }

    /// As kill -9 does it: what is not on disk is gone, connections to applications too.
    fn kill(&mut self, end: usize) {
        self.lives[end] += 1;
        self.gateways[end] = gateway(end, self.lives[end], self.config, &self.disks[end], self.now);
        for app in self.apps[end].values_mut() {
            (app.closed, app.closes, app.to_send) = (true, false, Vec::new());
        }
    }

    fn open(&mut self, end: usize, mode: TcpMode, bytes: Vec<u8>) -> FlowId {
        let id = self.gateways[end].open(self.now, TARGET.parse().unwrap(), mode).unwrap();
        self.apps[end].insert(id, TestApp { to_send: bytes, closes: true, ..TestApp::default() });
        id
    }

    fn step(&mut self) -> bool {
        let mut busy = false;
        let mut out = Vec::new();
        for end in 0..2 {
            let now = self.now;
            self.gateways[end].handle_timeout(now);
            while let Some(action) = self.gateways[end].poll_action() {
                busy = true;
                self.act(end, action);
            }
            let gateway = &mut self.gateways[end];
            for (id, app) in &mut self.apps[end] {
                while !app.stalled && !app.to_send.is_empty() {
                    let len = app.to_send.len().min(self.chunk);
                    app.stalled = !gateway.on_app_bytes(now, *id, &app.to_send[..len], true);
                    if !app.stalled {
                        app.to_send.drain(..len);
                    }
                }
                if app.closes && !app.closed && !app.stalled && app.to_send.is_empty() {
                    app.closed = gateway.on_app_fin(now, *id);
                }
            }
            let has_room =
                |session: &Option<TestSession>| session.as_ref().is_none_or(|session| session.free[end] <= now);
            while has_room(&self.session) && gateway.poll_transmit(now, &mut out) {
                let mut path = &mut self.paths[end];
                if let Some(session) = &mut self.session {
                    assert!(out.len() <= crate::sched::parcels::LEAST_ROOM, "{} bytes fit no parcel", out.len());
                    if session.leave(now, end, out.len() + 80) {
                        path = &mut session.others[end];
                    }
                }
                let _ = path.push(now, out.len() + 28, out.clone());
            }
            let others = self.session.as_mut().map(|session| &mut session.others[end]);
            for path in [Some(&mut self.paths[end]), others].into_iter().flatten() {
                while let Some(packet) = path.pop(now) {
                    self.gateways[1 - end].handle_bytes(now, &packet);
                    busy = true;
                }
            }
        }
        busy
    }

    fn act(&mut self, end: usize, action: Action) {
        let (now, gateway) = (self.now, &mut self.gateways[end]);
        match action {
            Action::Dial { flow, .. } => {
                let app = TestApp { to_send: self.reply.clone(), closes: true, ..TestApp::default() };
                self.apps[end].insert(flow, app);
                gateway.on_dialled(now, flow, self.dials);
            }
            Action::Write { flow, bytes } => {
                let app = self.apps[end].get_mut(&flow).unwrap();
                app.got.extend_from_slice(&bytes);
                if !app.stopped {
                    gateway.on_taken(now, flow, app.got.len() as u64, false);
                }
            }
            Action::Finish { flow } => {
                let app = self.apps[end].get_mut(&flow).unwrap();
                app.finished = true;
                if !app.stopped {
                    gateway.on_taken(now, flow, app.got.len() as u64, true);
                }
            }
            Action::Room { flow } => self.apps[end].get_mut(&flow).unwrap().stalled = false,
            Action::Ended(ending) => self.endings[end].push(ending),
            datagram => self.datagrams[end].push(datagram),
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        let mut spins = 0;
        loop {
            if self.step() {
                continue;
            }
            let others = self.session.iter().flat_map(|session| &session.others);
            let deliveries = self.paths.iter().chain(others).filter_map(Path::next_delivery).min();
            let now = self.now;
            let due = (0..2).filter_map(|at| {
                // What cannot leave yet is not waited for.
                let free = self.session.as_ref().map_or(now, |session| session.free[at]);
                self.gateways[at].poll_timeout(now).map(|due| due.max(free))
            });
            match due.chain(deliveries).min() {
                Some(due) if due <= end => {
                    spins = if due <= self.now { spins + 1 } else { 0 };
                    assert!(
                        spins < 100,
                        "spins at {:?}: {:?} {:?}",
                        self.now - self.start,
                        self.gateways[0].flows,
                        self.gateways[1].flows
                    );
                    self.now = due.max(self.now + Duration::from_nanos(1));
                }
                _ => break,
            }
        }
        self.now = end;
    }
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn a_connection_over_a_bad_radio_has_all_bytes_both_ways_and_closes() {
    for (seed, wrong, loss) in [(1, 0.0, 0.0), (2, 1e-5, 0.0), (3, 1e-5, 0.2)] {
        let mut world = World::new(path(wrong, loss), seed, GatewayConfig::default());
        world.reply = bytes(150_000);
        let flow = world.open(0, TcpMode::NearReliable, bytes(300_000));
        world.run(Duration::from_secs(20));
        for (end, sent) in [(0, 150_000), (1, 300_000)] {
            let app = &world.apps[end][&flow];
            assert!(app.got == bytes(sent) && app.finished, "{end}: {} bytes, {:?}", app.got.len(), app.finished);
            let [ending] = &world.endings[end][..] else { panic!("{:?}", world.endings[end]) };
            assert_eq!((ending.reason, ending.undelivered), (None, ByteCount::ZERO));
            assert!(world.disks[end].0.borrow().flows.is_empty());
        }
    }
}

#[test]
fn by_a_session_of_two_bearers_all_comes_and_little_is_sent_twice() {
    let near = PathConfig { air_loss: Loss::Independent(0.02), ..path(0.0, 0.0) };
    let far = PathConfig { delay: 60 * MS, ..near };
    let mut world = World::by_session(near, far, 1);
    world.reply = bytes(100_000);
    let flow = world.open(0, TcpMode::NearReliable, bytes(3_000_000));
    world.run(Duration::from_secs(12));
    for (end, sent) in [(0, 100_000), (1, 3_000_000)] {
        let app = &world.apps[end][&flow];
        assert!(app.got == bytes(sent) && app.finished, "{end}: {} bytes, {:?}", app.got.len(), app.finished);
    }
    let stats = world.gateways[0].stats(world.now).radio;
    let again = stats.sent_again as f64 / stats.segments_out as f64;
    // One in fifty is lost.
    assert!(again < 0.03, "{again:.3} of {} sent again", stats.segments_out);
}

#[test]
fn by_a_session_quasi_reliable_waits_for_what_was_overtaken() {
    let near = path(0.0, 0.0);
    let far = PathConfig { delay: 60 * MS, ..near };
    let mut world = World::by_session(near, far, 1);
    let mode = TcpMode::QuasiReliable { deadline: Duration::from_millis(200), fill: Fill::Nothing };
    let flow = world.open(0, mode, bytes(300_000));
    world.run(Duration::from_secs(5));
    let app = &world.apps[1][&flow];
    assert!(app.got == bytes(300_000) && app.finished, "{} bytes, {:?}", app.got.len(), app.finished);
}

#[test]
fn what_was_confirmed_survives_any_kill_of_the_gateway_that_has_it() {
    for seed in 0..40u64 {
        let mut world = World::new(path(1e-6, 0.05), seed, GatewayConfig::default());
        let flow = world.open(0, TcpMode::NearReliable, bytes(200_000));
        // All is in custody at once; sending takes some 400 ms.
        for kill in 0..1 + seed % 5 {
            world.run(Duration::from_micros(1000 + (seed * 7919 + kill * 104_729) % 150_000));
            world.kill(0);
        }
        world.run(Duration::from_secs(30));
        let app = &world.apps[1][&flow];
        assert!(app.got == bytes(200_000) && app.finished, "seed {seed}: {} bytes", app.got.len());
        assert!(
            world.disks[0].0.borrow().flows.is_empty(),
            "seed {seed}: {:?}",
            world.disks[0].0.borrow().flows.keys()
        );
    }
}

#[test]
fn a_far_gateway_that_is_killed_takes_its_connection_along_and_it_is_said_what_that_costs() {
    for seed in 0..20u64 {
        let mut world = World::new(path(0.0, 0.02), seed, GatewayConfig::default());
        let flow = world.open(0, TcpMode::NearReliable, bytes(200_000));
        world.run(Duration::from_millis(60 + seed * 10));
        let got = world.apps[1].get(&flow).map_or(0, |app| app.got.len());
        world.kill(1);
        world.run(Duration::from_secs(60));
        let [ending] = &world.endings[0][..] else { panic!("seed {seed}: {:?}", world.endings[0]) };
        assert_eq!(ending.reason, Some(Reason::Restarted), "seed {seed}");
        let undelivered = ending.undelivered.as_usize();
        assert!(undelivered + got >= 200_000, "seed {seed}: {got} delivered, {undelivered} said not to be");
        assert!(undelivered + got <= 200_000 + 100_000, "seed {seed}: {got} delivered, {undelivered} said not to be");
        assert!(world.apps[1].get(&flow).is_none_or(|app| app.got.len() == got), "begun again");
    }
}

#[test]
fn a_reader_that_stops_fills_the_custody_and_no_more() {
    let config = GatewayConfig { flow_custody: ByteCount(2 << 20), ..GatewayConfig::default() };
    let mut world = World::new(path(0.0, 0.0), 1, config);
    let flow = world.open(0, TcpMode::NearReliable, bytes(6_000_000));
    world.run(Duration::from_millis(100));
    world.apps[1].get_mut(&flow).unwrap().stopped = true;
    world.run(Duration::from_secs(30));
    let taken = 6_000_000 - world.apps[0][&flow].to_send.len();
    assert!((2 << 20..3_300_000).contains(&taken), "{taken}");
    assert!(world.disks[0].0.borrow().most <= 2 << 20);
    let app = world.apps[1].get_mut(&flow).unwrap();
    app.stopped = false;
    let len = app.got.len() as u64;
    assert!(len <= flow::WINDOW + 200_000, "{len}");
    world.gateways[1].on_taken(world.now, flow, len, false);
    world.run(Duration::from_secs(30));
    assert!(world.apps[1][&flow].got == bytes(6_000_000) && world.apps[1][&flow].finished);
}

#[test]
fn what_cannot_be_stored_is_not_taken_until_it_can() {
    let mut world = World::new(path(0.0, 0.0), 1, GatewayConfig::default());
    world.disks[0].0.borrow_mut().full = true;
    let flow = world.open(0, TcpMode::NearReliable, bytes(50_000));
    world.run(Duration::from_secs(5));
    assert_eq!(world.apps[0][&flow].to_send.len(), 50_000);
    world.disks[0].0.borrow_mut().full = false;
    world.run(Duration::from_secs(5));
    assert!(world.apps[1][&flow].got == bytes(50_000) && world.apps[1][&flow].finished);
}

#[test]
fn a_target_that_refuses_is_told_and_so_is_a_far_side_that_comes_late() {
    let mut world = World::new(path(0.0, 0.0), 1, GatewayConfig::default());
    world.dials = Err(Reason::Refused);
    world.open(0, TcpMode::NearReliable, bytes(100));
    world.run(Duration::from_secs(2));
    assert_eq!(world.endings[0][0].reason, Some(Reason::Refused));
    assert_eq!(world.endings[0][0].undelivered, ByteCount(100));

    // A day without the far side.
    let mut world = World::new(path(0.0, 1.0), 1, GatewayConfig::default());
    let flow = world.open(0, TcpMode::NearReliable, bytes(100_000));
    world.run(Duration::from_secs(3600));
    assert_eq!(world.gateways[0].stats(world.now).custody, ByteCount(100_000));
    world.paths = [Path::new(path(0.0, 0.0), 5), Path::new(path(0.0, 0.0), 6)];
    world.run(Duration::from_secs(10));
    assert!(world.apps[1][&flow].got == bytes(100_000) && world.apps[1][&flow].finished);
}

#[test]
fn quasi_reliable_gives_what_came_in_order_and_waits_for_nothing_longer_than_its_deadline() {
    for fill in [Fill::Nothing, Fill::Zeros] {
        let mut world = World::new(path(0.0, 0.1), 3, GatewayConfig::default());
        let mode = TcpMode::QuasiReliable { deadline: 200 * MS, fill };
        world.chunk = 1000;
        let sent: Vec<u8> = (0..60_000u32).flat_map(|n| (n + 1).to_be_bytes()).collect();
        let flow = world.open(0, mode, sent.clone());
        world.run(Duration::from_secs(5));
        let app = &world.apps[1][&flow];
        assert!(app.finished, "{} bytes", app.got.len());
        let skipped = world.endings[1][0].status.skipped.as_usize();
        assert!((5_000..120_000).contains(&skipped), "{skipped}");
        match fill {
            Fill::Zeros => {
                assert_eq!(app.got.len(), sent.len());
                assert!(app.got.iter().zip(&sent).all(|(got, sent)| got == sent || *got == 0));
            }
            Fill::Nothing => {
                assert_eq!(app.got.len() + skipped, sent.len());
                // Messages of 1000 bytes, which fit a segment.
                let words = app.got.as_chunks::<4>().0.iter().map(|word| u32::from_be_bytes(*word));
                assert!(words.is_sorted());
            }
        }
    }
}

#[test]
fn datagrams_go_one_for_one_and_answers_find_back() {
    for ordered in [false, true] {
        let mut world = World::new(path(0.0, 0.0), 3, GatewayConfig::default());
        let client = Client { listener: 0, address: "127.0.0.1:5000".parse().unwrap() };
        let to: SocketAddr = "127.0.0.1:14550".parse().unwrap();
        for n in 0..5u8 {
            world.gateways[0].send_datagram(world.now, client, to, ordered, &[n; 100]);
        }
        world.run(Duration::from_secs(1));
        let got: Vec<u8> = world.datagrams[1]
            .iter()
            .map(|action| match action {
                Action::Datagram { peer, bytes } if peer.to == to && bytes.len() == 100 => bytes[0],
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(got, [0, 1, 2, 3, 4]);
        let Action::Datagram { peer, .. } = world.datagrams[1][0] else { panic!() };
        world.gateways[1].send_answer(world.now, peer, b"yes");
        world.run(Duration::from_secs(1));
        let answer = Action::Answer { client, bytes: Bytes::from_static(b"yes") };
        assert_eq!(world.datagrams[0], [answer]);
        world.run(Duration::from_secs(200));
        assert_eq!(world.gateways[0].stats(world.now).udp + world.gateways[1].stats(world.now).udp, 0);
        assert_eq!(world.datagrams[1].last(), Some(&Action::Forget { peer }));
    }
}

#[test]
fn datagrams_do_not_wait_for_a_file_to_end() {
    for ordered in [false, true] {
        let mut world = World::new(path(0.0, 0.0), 4, GatewayConfig::default());
        world.open(0, TcpMode::NearReliable, bytes(2_000_000));
        world.run(Duration::from_millis(300));
        let client = Client { listener: 0, address: "127.0.0.1:5000".parse().unwrap() };
        let to: SocketAddr = "127.0.0.1:14550".parse().unwrap();
        for n in 0..10usize {
            world.gateways[0].send_datagram(world.now, client, to, ordered, &[n as u8; 100]);
            world.run(Duration::from_millis(50));
            assert_eq!(world.datagrams[1].len(), n + 1, "{n}, ordered {ordered}");
        }
    }
}

#[test]
fn a_refusal_is_heard_although_its_segment_is_lost() {
    for seed in 0..60 {
        let near = PathConfig { delay: Duration::from_micros(100), ..path(0.0, 0.15) };
        let mut world = World::new(near, seed, GatewayConfig::default());
        world.run(Duration::from_millis(500));
        world.dials = Err(Reason::NotAllowed);
        let flow = world.gateways[0].open(world.now, TARGET.parse().unwrap(), TcpMode::NearReliable).unwrap();
        world.apps[0].insert(flow, TestApp::default());
        world.run(Duration::from_secs(10));
        assert_eq!(world.endings[0].len(), 1, "seed {seed}: {:?}", world.gateways[0].flows);
        assert_eq!(world.endings[0][0].reason, Some(Reason::NotAllowed));
    }
}
