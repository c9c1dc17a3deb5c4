use proptest::prelude::*;

use super::*;
use crate::mavlink::testkit::{epoch, v2, v2_seq};

const AUTOPILOT: EndpointId = EndpointId(1);
const PROGRAM: EndpointId = EndpointId(2);
const GROUND: EndpointId = EndpointId(3);

/// A router and its clock. The air side by default: autopilot and program here, the ground over the link.
struct Bench {
    router: Router,
    now: Instant,
    seq: u8,
}

impl Bench {
    fn new() -> Self {
        Self::with(RouterConfig::default())
    }

    fn with(config: RouterConfig) -> Self {
        let mut bench = Self { router: Router::new(config), now: epoch(), seq: 0 };
        bench.add(AUTOPILOT, EndpointKind::Local);
        bench.add(PROGRAM, EndpointKind::Local);
        bench.add(GROUND, EndpointKind::Remote);
        bench
    }

    fn add(&mut self, id: EndpointId, kind: EndpointKind) {
        self.router.add_endpoint(self.now, id, EndpointConfig::new(kind)).unwrap();
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    fn route(&mut self, from: EndpointId, frame: &Frame) -> Result<Vec<u32>, DropReason> {
        let mut out = vec![EndpointId(999)];
        match self.router.route(self.now, from, frame, &mut out) {
            Verdict::Forward => Ok(out.into_iter().map(|id| id.0).collect()),
            Verdict::Drop(reason) => {
                assert!(out.is_empty());
                Err(reason)
            }
        }
    }

    /// A heartbeat that is no copy of another.
    fn heartbeat(&mut self, from: EndpointId, system: u8, component: u8) -> Result<Vec<u32>, DropReason> {
        let frame = self.next(system, component, 0, &[1; 9]);
        self.route(from, &frame)
    }

    fn next(&mut self, system: u8, component: u8, id: u32, payload: &[u8]) -> Frame {
        self.seq = self.seq.wrapping_add(1);
        v2_seq(self.seq, system, component, id, payload)
    }

    fn command(&mut self, from: EndpointId, system: u8, component: u8) -> Result<Vec<u32>, DropReason> {
        let mut payload = [1; 33];
        (payload[30], payload[31]) = (system, component);
        let frame = self.next(255, 190, 76, &payload);
        self.route(from, &frame)
    }

    fn system_time(&mut self, from: EndpointId, boot_ms: u32) -> Result<Vec<u32>, DropReason> {
        let mut payload = [1; 12];
        payload[8..].copy_from_slice(&boot_ms.to_le_bytes());
        let frame = self.next(1, 1, 2, &payload);
        self.route(from, &frame)
    }
}

#[test]
fn broadcasts_go_everywhere_but_back() {
    let mut bench = Bench::new();
    assert_eq!(bench.heartbeat(AUTOPILOT, 1, 1), Ok(vec![2, 3]));
    assert_eq!(bench.heartbeat(GROUND, 255, 190), Ok(vec![1, 2]));
    let unknown = v2(1, 1, 54_321, &[1]);
    assert_eq!(bench.route(AUTOPILOT, &unknown), Ok(vec![2, 3]));
    assert_eq!(bench.route(EndpointId(77), &unknown), Err(DropReason::UnknownEndpoint));
}

#[test]
fn addressed_frames_go_where_their_target_was_heard() {
    let mut bench = Bench::new();
    bench.heartbeat(AUTOPILOT, 1, 1).unwrap();
    bench.heartbeat(PROGRAM, 1, 191).unwrap();
    assert_eq!(bench.command(GROUND, 1, 1), Ok(vec![1]));
    assert_eq!(bench.command(GROUND, 1, 191), Ok(vec![2]));
    assert_eq!(bench.command(GROUND, 1, 0), Ok(vec![1, 2]));
    assert_eq!(bench.command(GROUND, 0, 0), Ok(vec![1, 2]));
    // A component that never spoke is somewhere in its system.
    assert_eq!(bench.command(GROUND, 1, 154), Ok(vec![1, 2]));
    assert_eq!(bench.command(GROUND, 7, 1), Err(DropReason::NoRoute));
    assert_eq!(bench.router.stats().dropped(DropReason::NoRoute), 1);
    // The target is where the frame comes from.
    assert_eq!(bench.command(AUTOPILOT, 1, 1), Err(DropReason::NoRoute));
}

#[test]
fn the_first_command_finds_its_way_before_anybody_spoke() {
    let mut bench = Bench::new();
    assert_eq!(bench.command(GROUND, 1, 1), Ok(vec![1, 2]));
    bench.heartbeat(PROGRAM, 1, 191).unwrap();
    assert_eq!(bench.command(GROUND, 9, 1), Ok(vec![1]));
    // From this side an unknown target is beyond the link, whatever was heard there.
    bench.heartbeat(AUTOPILOT, 1, 1).unwrap();
    assert_eq!(bench.command(PROGRAM, 9, 1), Ok(vec![3]));
}

#[test]
fn routes_age_out() {
    let mut bench = Bench::new();
    bench.heartbeat(AUTOPILOT, 1, 1).unwrap();
    bench.heartbeat(PROGRAM, 2, 1).unwrap();
    bench.wait(Duration::from_secs(300));
    assert_eq!(bench.command(GROUND, 1, 1), Ok(vec![1]));
    bench.wait(Duration::from_nanos(1));
    assert_eq!(bench.command(GROUND, 1, 1), Err(DropReason::NoRoute));
    assert_eq!(bench.router.routes(bench.now).count(), 1); // the ground station, from its command
}

#[test]
fn a_reboot_clears_the_routes_of_that_system_only() {
    let mut bench = Bench::new();
    bench.heartbeat(AUTOPILOT, 1, 100).unwrap();
    bench.heartbeat(PROGRAM, 2, 1).unwrap();
    bench.system_time(AUTOPILOT, 50_000).unwrap();
    bench.system_time(AUTOPILOT, 48_000).unwrap(); // late, not rebooted
    assert_eq!(bench.router.poll_event(), None);
    bench.system_time(AUTOPILOT, 50_000).unwrap();
    bench.system_time(AUTOPILOT, 47_999).unwrap();
    assert_eq!(bench.router.poll_event(), Some(RouterEvent::Rebooted(Address::new(1, 1))));
    assert_eq!(bench.router.poll_event(), None);
    assert_eq!(bench.router.stats().reboots, 1);
    let known: Vec<_> = bench.router.routes(bench.now).map(|(address, ..)| address.to_string()).collect();
    assert_eq!(known, ["1/1", "2/1"]);
}

#[test]
fn setup_signing_stays_on_its_side_and_is_never_spread() {
    let signing = |bench: &mut Bench, from, system| {
        let mut payload = [7; 42];
        (payload[8], payload[9]) = (system, 1);
        let frame = bench.next(255, 190, 256, &payload);
        bench.route(from, &frame)
    };
    let mut bench = Bench::new();
    bench.heartbeat(AUTOPILOT, 1, 1).unwrap();
    bench.heartbeat(GROUND, 2, 1).unwrap();
    assert_eq!(signing(&mut bench, GROUND, 1), Err(DropReason::SetupSigning));
    assert_eq!(signing(&mut bench, PROGRAM, 2), Err(DropReason::SetupSigning));
    assert_eq!(signing(&mut bench, PROGRAM, 0), Err(DropReason::SetupSigning));
    assert_eq!(signing(&mut bench, PROGRAM, 9), Err(DropReason::SetupSigning));
    assert_eq!(bench.router.stats().dropped(DropReason::SetupSigning), 4);
    assert_eq!(signing(&mut bench, PROGRAM, 1), Ok(vec![1]));

    let mut bench = Bench::with(RouterConfig { forward_setup_signing: true, ..Default::default() });
    bench.heartbeat(AUTOPILOT, 1, 1).unwrap();
    assert_eq!(signing(&mut bench, GROUND, 1), Ok(vec![1]));
    assert_eq!(signing(&mut bench, GROUND, 0), Err(DropReason::SetupSigning));
}

#[test]
fn radio_status_stays_on_its_hop_and_teaches_nothing() {
    let mut bench = Bench::new();
    for id in [109, 166] {
        let here = bench.next(51, 68, id, &[1; 9]);
        assert_eq!(bench.route(PROGRAM, &here), Ok(vec![1]));
        let beyond = bench.next(51, 68, id, &[1; 9]);
        assert_eq!(bench.route(GROUND, &beyond), Err(DropReason::HopOnly));
    }
    assert_eq!(bench.router.routes(bench.now).count(), 0);
}

#[test]
fn filters_stop_messages_at_either_end() {
    let mut bench = Bench::new();
    let config = EndpointConfig {
        incoming: Filter::new().block([MessageId(0)]),
        outgoing: Filter::new().allow([MessageId(30)]),
        ..EndpointConfig::new(EndpointKind::Local)
    };
    bench.router.add_endpoint(bench.now, EndpointId(4), config).unwrap();
    assert_eq!(bench.heartbeat(EndpointId(4), 9, 9), Err(DropReason::BlockedIncoming));
    assert_eq!(bench.heartbeat(AUTOPILOT, 1, 1), Ok(vec![2, 3]));
    assert_eq!(bench.router.stats().blocked_outgoing, 1);
    let attitude = bench.next(1, 1, 30, &[1; 28]);
    assert_eq!(bench.route(AUTOPILOT, &attitude), Ok(vec![2, 3, 4]));
}

#[test]
fn the_same_frame_by_two_ways_counts_once_and_answers_take_both() {
    // The ground side: the vehicle comes over our link and over a telemetry radio.
    let (link, radio, station) = (EndpointId(10), EndpointId(11), EndpointId(12));
    let mut bench = Bench { router: Router::new(RouterConfig::default()), now: epoch(), seq: 0 };
    bench.add(link, EndpointKind::Remote);
    bench.add(radio, EndpointKind::Local);
    bench.add(station, EndpointKind::Local);
    bench.heartbeat(radio, 1, 1).unwrap();
    for _ in 0..3 {
        let frame = bench.next(1, 1, 30, &[5; 28]);
        assert_eq!(bench.route(link, &frame), Ok(vec![12]), "not back to the radio it was heard on");
        bench.wait(Duration::from_millis(700));
        assert_eq!(bench.route(radio, &frame), Err(DropReason::Duplicate));
    }
    assert_eq!(bench.command(station, 1, 1), Ok(vec![10, 11]));
    // One way falls silent: 5 s later the other side of it is told again.
    bench.wait(Duration::from_secs(6));
    assert_eq!(bench.heartbeat(link, 1, 1), Ok(vec![11, 12]));
}

#[test]
fn two_ground_stations_with_one_id_do_not_silence_each_other() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        for (from, others) in [(PROGRAM, vec![1, 3]), (GROUND, vec![1, 2])] {
            let heartbeat = bench.next(255, 190, 0, &[0, 0, 0, 0, 6, 8, 0, 0, 3]);
            assert_eq!(bench.route(from, &heartbeat), Ok(others.clone()));
            let corrections = bench.next(255, 190, 233, &[1; 182]);
            assert_eq!(bench.route(from, &corrections), Ok(others));
        }
    }
    bench.heartbeat(AUTOPILOT, 1, 1).unwrap();
    assert_eq!(bench.command(PROGRAM, 1, 1), Ok(vec![1]));
    assert_eq!(bench.command(GROUND, 1, 1), Ok(vec![1]));
}

#[test]
fn autopilots_are_those_heard_here_lately() {
    let mut bench = Bench::new();
    let of_type = |bench: &mut Bench, from, system, component, kind: [u8; 2]| {
        let frame = bench.next(system, component, 0, &[0, 0, 0, 0, kind[0], kind[1], 0, 0, 3]);
        bench.route(from, &frame).unwrap();
    };
    of_type(&mut bench, AUTOPILOT, 1, 1, [2, 3]);
    of_type(&mut bench, AUTOPILOT, 1, 154, [26, 8]); // a gimbal
    of_type(&mut bench, PROGRAM, 255, 190, [6, 8]);
    of_type(&mut bench, GROUND, 2, 1, [2, 12]);
    let autopilots: Vec<_> = bench.router.autopilots(bench.now).collect();
    assert_eq!(autopilots, [(Address::new(1, 1), AUTOPILOT, Version::V2)]);
    bench.wait(Duration::from_millis(5001));
    assert_eq!(bench.router.autopilots(bench.now).count(), 0);
}

#[test]
fn a_client_that_connects_again_and_repeats_itself_is_heard() {
    let mut bench = Bench::new();
    let hello = v2(255, 190, 0, &[1; 9]);
    assert!(bench.route(PROGRAM, &hello).is_ok());
    bench.router.remove_endpoint(PROGRAM);
    bench.wait(Duration::from_millis(100));
    bench.add(EndpointId(20), EndpointKind::Local);
    assert_eq!(bench.route(EndpointId(20), &hello), Ok(vec![1, 3]));
}

#[test]
fn a_sender_that_never_counts_is_not_mistaken_for_a_loop() {
    let mut bench = Bench::new();
    let stuck = v2(255, 190, 70, &[1; 18]);
    for _ in 0..20 {
        assert!(bench.route(GROUND, &stuck).is_ok());
        bench.wait(Duration::from_millis(100));
    }
}

/// A router that forwards to everybody else and remembers nothing: the kind that two of which storm.
struct Hub {
    ports: Vec<EndpointId>,
}

#[test]
fn a_loop_through_another_router_dies_out() {
    // The other router is connected to us twice, by mistake. Its own vehicle, ours, and a ground station here.
    for origin in [None, Some(AUTOPILOT)] {
        let hub = Hub { ports: vec![EndpointId(30), EndpointId(31)] };
        let mut bench = Bench::new();
        for &port in &hub.ports {
            bench.add(port, EndpointKind::Local);
        }
        let mut copies = 0;
        for _ in 0..50 {
            let frame = bench.next(1, 1, 30, &[5; 28]);
            let mut arriving: VecDeque<EndpointId> = match origin {
                None => hub.ports.iter().copied().collect(),
                Some(endpoint) => [endpoint].into(),
            };
            let mut delivered = 0;
            while let Some(from) = arriving.pop_front() {
                copies += 1;
                assert!(copies < 10 * 50, "the loop does not die out");
                for to in bench.route(from, &frame).unwrap_or_default().into_iter().map(EndpointId) {
                    delivered += usize::from(to == PROGRAM);
                    if hub.ports.contains(&to) {
                        arriving.extend(hub.ports.iter().copied().filter(|&port| port != to));
                    }
                }
            }
            assert_eq!(delivered, 1, "the program hears each frame once");
            bench.wait(Duration::from_millis(100));
        }
        assert!(bench.router.stats().dropped(DropReason::Echo) > 0);
        // Nothing false was learned from echoes.
        if let Some(endpoint) = origin {
            assert!(bench.router.routes(bench.now).all(|(_, on, _)| on == endpoint));
        }
    }
}

#[test]
fn of_a_group_one_endpoint_is_active() {
    let (one, two) = (EndpointId(40), EndpointId(41));
    let mut bench = Bench::new();
    for id in [one, two] {
        let group = EndpointConfig { group: Some(GroupId(1)), ..EndpointConfig::new(EndpointKind::Local) };
        bench.router.add_endpoint(bench.now, id, group).unwrap();
    }
    assert_eq!(bench.heartbeat(one, 1, 1), Ok(vec![1, 2, 3]));
    assert_eq!(bench.heartbeat(two, 1, 1), Err(DropReason::Standby));
    assert_eq!(bench.command(GROUND, 1, 1), Ok(vec![40]));
    assert_eq!(bench.heartbeat(GROUND, 255, 190), Ok(vec![1, 2, 40]));
    bench.wait(Duration::from_secs(2));
    assert_eq!(bench.heartbeat(two, 1, 1), Err(DropReason::Standby));
    bench.wait(Duration::from_nanos(1));
    assert_eq!(bench.heartbeat(two, 1, 1), Ok(vec![1, 2, 3]));
    assert_eq!(bench.router.poll_event(), Some(RouterEvent::Switched(two)));
    assert_eq!(bench.command(GROUND, 1, 1), Ok(vec![41]));
    // The active one is unplugged.
    bench.router.remove_endpoint(two);
    assert_eq!(bench.command(GROUND, 1, 1), Ok(vec![40]));
}

#[test]
fn vehicles_do_not_hear_each_other_over_the_ground_unless_wanted() {
    for relay in [false, true] {
        let mut bench = Bench::with(RouterConfig { relay_between_remotes: relay, ..Default::default() });
        bench.add(EndpointId(50), EndpointKind::Remote);
        let expected = if relay { vec![1, 2, 50] } else { vec![1, 2] };
        assert_eq!(bench.heartbeat(GROUND, 1, 1), Ok(expected));
    }
}

#[test]
fn endpoints_are_limited_and_ids_are_used_once() {
    let mut bench = Bench::new();
    let config = EndpointConfig::new(EndpointKind::Local);
    assert_eq!(bench.router.add_endpoint(bench.now, AUTOPILOT, config.clone()), Err(NoRoom(AUTOPILOT)));
    for id in 100..100 + (MAX_ENDPOINTS - 3) as u32 {
        bench.add(EndpointId(id), EndpointKind::Local);
    }
    assert_eq!(bench.router.add_endpoint(bench.now, EndpointId(9), config.clone()), Err(NoRoom(EndpointId(9))));
    assert_eq!(bench.heartbeat(AUTOPILOT, 1, 1).unwrap().len(), MAX_ENDPOINTS - 1);
    bench.router.remove_endpoint(EndpointId(227 - 3));
    bench.router.remove_endpoint(EndpointId(8888));
    assert!(bench.router.add_endpoint(bench.now, EndpointId(9), config).is_ok());
}

#[test]
fn a_flood_of_made_up_systems_hurts_nobody_else() {
    let mut bench = Bench::new();
    bench.heartbeat(AUTOPILOT, 1, 1).unwrap();
    for system in 1..=255 {
        for component in 1..=255 {
            bench.heartbeat(PROGRAM, system, component).ok();
        }
    }
    assert_eq!(bench.router.routes(bench.now).count(), MAX_ADDRESSES + 1);
    assert_eq!(bench.router.stats().unlearned, 255 * 255 - MAX_ADDRESSES as u64);
    bench.heartbeat(GROUND, 255, 190).unwrap();
    assert!(bench.command(GROUND, 1, 1).unwrap().contains(&1));
    // System 0 is nobody.
    bench.heartbeat(GROUND, 0, 5).unwrap();
    assert!(bench.router.routes(bench.now).all(|(address, ..)| address.system != EVERYBODY));
    // In time the made-up ones give way.
    bench.wait(Duration::from_secs(301));
    bench.heartbeat(PROGRAM, 77, 1).unwrap();
    assert_eq!(bench.command(GROUND, 77, 1), Ok(vec![2]));
}

#[derive(Debug, Clone)]
enum Op {
    Add(u8, bool, Option<u16>),
    Remove(u8),
    Frame { from: u8, system: u8, id: u32, target: u8, seq: u8 },
    Wait(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let ids = prop::sample::select(vec![0, 2, 30, 76, 109, 256, 54_321]);
    let op = prop_oneof![
        (0..8u8, any::<bool>(), prop::option::of(0..2u16)).prop_map(|(id, remote, group)| Op::Add(id, remote, group)),
        (0..8u8).prop_map(Op::Remove),
        (0..9u8, 0..4u8, ids, 0..4u8, 0..3u8).prop_map(|(from, system, id, target, seq)| Op::Frame {
            from,
            system,
            id,
            target,
            seq
        }),
        (0..4000u64).prop_map(Op::Wait),
    ];
    prop::collection::vec(op, 1..200)
}

proptest! {
    #[test]
    fn whatever_happens_no_frame_goes_back_twice_or_nowhere(ops in ops()) {
        let mut router = Router::new(RouterConfig::default());
        let mut now = epoch();
        let mut kinds = BTreeMap::new();
        let mut groups = BTreeMap::new();
        let mut out = Vec::new();
        let mut routed = 0;
        for op in ops {
            match op {
                Op::Add(id, remote, group) => {
                    let kind = if remote { EndpointKind::Remote } else { EndpointKind::Local };
                    let config = EndpointConfig { group: group.map(GroupId), ..EndpointConfig::new(kind) };
                    if router.add_endpoint(now, EndpointId(u32::from(id)), config).is_ok() {
                        kinds.insert(EndpointId(u32::from(id)), kind);
                        groups.insert(EndpointId(u32::from(id)), group);
                    }
                }
                Op::Remove(id) => {
                    router.remove_endpoint(EndpointId(u32::from(id)));
                    kinds.remove(&EndpointId(u32::from(id)));
                }
                Op::Wait(ms) => now += Duration::from_millis(ms),
                Op::Frame { from, system, id, target, seq } => {
                    let frame = v2_seq(seq, system, 1, id, &[target; 42]);
                    let from = EndpointId(u32::from(from));
                    let verdict = router.route(now, from, &frame, &mut out);
                    routed += 1;
                    prop_assert_eq!(verdict == Verdict::Forward, !out.is_empty());
                    for (i, to) in out.iter().enumerate() {
                        prop_assert!(*to != from && kinds.contains_key(to) && !out[..i].contains(to));
                        if let Some(group) = groups[to] {
                            let same = |other: &EndpointId| groups[other] == Some(group);
                            prop_assert!(!same(&from) && out.iter().filter(|other| same(other)).count() == 1);
                        }
                        let crosses = kinds[to] == EndpointKind::Remote || kinds[&from] == EndpointKind::Remote;
                        prop_assert!(!crosses || ![109, 256].contains(&id));
                    }
                }
            }
        }
        let dropped: u64 = DropReason::ALL.iter().map(|&reason| router.stats().dropped(reason)).sum();
        prop_assert_eq!(router.stats().forwarded + dropped, routed);
    }
}
