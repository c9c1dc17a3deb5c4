//! The mission protocol, message by message, and missions flown.

use mavlink::dialects::ardupilotmega::{
    MISSION_CLEAR_ALL_DATA, MISSION_REQUEST_DATA, MISSION_REQUEST_INT_DATA, MISSION_WRITE_PARTIAL_LIST_DATA,
};

use super::*;
use crate::aircraft::flight::geo::Local;
use crate::aircraft::flight::{Body, Demand, Limits};
use crate::aircraft::params::Params;
use crate::aircraft::{Kind, wire};

const GCS: Peer = Peer { system: 255, component: 190 };
const OTHER: Peer = Peer { system: 254, component: 190 };
const HOME: Place = Place { latitude_deg: 47.0, longitude_deg: 8.0, altitude_m: 400.0 };
const MISSION: MavMissionType = MavMissionType::MAV_MISSION_TYPE_MISSION;

/// A vehicle's side of the protocol.
struct Bench {
    missions: Missions,
    now: Instant,
    out: Outbox,
}

impl Bench {
    fn new() -> Self {
        Self { missions: Missions::default(), now: Instant::now(), out: Outbox::new(1, 1) }
    }

    /// The answers to a message and what it has brought about.
    fn tell(&mut self, from: Peer, message: MavMessage) -> (Vec<MavMessage>, Option<Outcome>) {
        let outcome = self.missions.on_message(self.now, from, &message, &HOME, &mut self.out);
        (self.answers(), outcome)
    }

    fn answers(&mut self) -> Vec<MavMessage> {
        let frames: Vec<Vec<u8>> = std::iter::from_fn(|| self.out.pop()).collect();
        frames.iter().map(|frame| wire::frames(frame).next().unwrap().message().unwrap()).collect()
    }

    /// Waits until something is due, and tells what is sent then.
    fn wait(&mut self) -> Vec<MavMessage> {
        self.now = self.missions.next_due(Duration::ZERO).unwrap();
        self.missions.poll(self.now, Duration::ZERO, &mut self.out);
        self.answers()
    }

    fn begin(&mut self, count: u16) -> Vec<MavMessage> {
        self.tell(GCS, MavMessage::MISSION_COUNT(MISSION_COUNT_DATA { count, ..MISSION_COUNT_DATA::default() })).0
    }

    fn upload(&mut self, items: &[Item]) {
        let mut answers = self.begin(items.len() as u16);
        for item in items {
            assert_eq!(wanted(&answers), Some(item.seq));
            answers = self.tell(GCS, MavMessage::MISSION_ITEM_INT(item.clone())).0;
        }
        assert_eq!(result(&answers), Some(MavMissionResult::MAV_MISSION_ACCEPTED));
    }
}

fn waypoint(seq: u16, north: f64, up: f32) -> Item {
    let place = HOME.offset(Local::new(north, 0.0, 0.0));
    Item {
        command: MavCmd::MAV_CMD_NAV_WAYPOINT,
        frame: MavFrame::MAV_FRAME_GLOBAL_RELATIVE_ALT,
        seq,
        x: place.lat_e7(),
        y: place.lon_e7(),
        z: up,
        autocontinue: 1,
        ..Item::default()
    }
}

fn plan(count: u16) -> Vec<Item> {
    (0..count).map(|seq| waypoint(seq, f64::from(seq) * 50.0, 30.0)).collect()
}

/// The item that is asked for, in either form.
fn wanted(answers: &[MavMessage]) -> Option<u16> {
    match answers {
        [MavMessage::MISSION_REQUEST_INT(m)] => Some(m.seq),
        [MavMessage::MISSION_REQUEST(m)] => Some(m.seq),
        _ => None,
    }
}

fn result(answers: &[MavMessage]) -> Option<MavMissionResult> {
    match answers {
        [MavMessage::MISSION_ACK(ack)] => Some(ack.mavtype),
        _ => None,
    }
}

#[test]
fn what_goes_up_comes_down_but_for_home() {
    let mut bench = Bench::new();
    let items = plan(CAPACITY as u16);
    bench.upload(&items);
    let (count, _) = bench.tell(GCS, MavMessage::MISSION_REQUEST_LIST(Default::default()));
    assert!(matches!(&count[..], [MavMessage::MISSION_COUNT(m)] if usize::from(m.count) == CAPACITY));
    for item in &items {
        let request = MISSION_REQUEST_INT_DATA { seq: item.seq, ..Default::default() };
        let (answer, _) = bench.tell(GCS, MavMessage::MISSION_REQUEST_INT(request));
        let [MavMessage::MISSION_ITEM_INT(read)] = &answer[..] else { panic!("{answer:?}") };
        assert_eq!((read.target_system, read.target_component), (255, 190));
        if item.seq == 0 {
            assert_eq!((read.x, read.y, read.z), (470_000_000, 80_000_000, 400.0));
        } else {
            assert_eq!((read.x, read.y, read.z, read.command), (item.x, item.y, item.z, item.command));
        }
    }
}

#[test]
fn the_older_form_goes_up_and_down() {
    let mut bench = Bench::new();
    let mut answers = bench.begin(3);
    for item in plan(3) {
        assert_eq!(wanted(&answers), Some(item.seq));
        answers = bench.tell(GCS, MavMessage::MISSION_ITEM(to_float(&item))).0;
        if item.seq == 0 {
            assert!(
                matches!(answers[0], MavMessage::MISSION_REQUEST(_)),
                "it is asked for in the form that was answered"
            );
        }
    }
    assert_eq!(result(&answers), Some(MavMissionResult::MAV_MISSION_ACCEPTED));
    let (answer, _) =
        bench.tell(GCS, MavMessage::MISSION_REQUEST(MISSION_REQUEST_DATA { seq: 2, ..Default::default() }));
    let [MavMessage::MISSION_ITEM(item)] = &answer[..] else { panic!("{answer:?}") };
    // A float holds a latitude to about half a metre.
    assert!((f64::from(item.x) - f64::from(plan(3)[2].x) / 1e7).abs() < 5e-6);
}

#[test]
fn a_lost_item_is_asked_for_again_every_second_and_given_up_after_eight() {
    let mut bench = Bench::new();
    let start = bench.now;
    assert_eq!(wanted(&bench.begin(5)), Some(0));
    for second in 1..8 {
        let again = bench.wait();
        assert_eq!(bench.now - start, Duration::from_secs(second));
        assert_eq!(wanted(&again), Some(0));
        assert_eq!(matches!(again[0], MavMessage::MISSION_REQUEST(_)), second % 2 == 1, "the forms take turns");
    }
    assert_eq!(result(&bench.wait()), Some(MavMissionResult::MAV_MISSION_OPERATION_CANCELLED));
    assert_eq!(bench.missions.next_due(Duration::ZERO), None);
}

#[test]
fn a_repeated_item_does_no_harm_and_one_out_of_turn_is_refused() {
    let mut bench = Bench::new();
    let items = plan(4);
    bench.begin(4);
    let item = |n: usize| MavMessage::MISSION_ITEM_INT(items[n].clone());
    assert_eq!(wanted(&bench.tell(GCS, item(0)).0), Some(1));
    assert_eq!(bench.tell(GCS, item(0)).0, []);
    assert_eq!(result(&bench.tell(GCS, item(3)).0), Some(MavMissionResult::MAV_MISSION_INVALID_SEQUENCE));
    assert_eq!(wanted(&bench.tell(GCS, item(1)).0), Some(2), "the upload goes on");
}

#[test]
fn too_much_is_refused_and_so_is_a_second_ground_station() {
    let mut bench = Bench::new();
    assert_eq!(result(&bench.begin(CAPACITY as u16 + 1)), Some(MavMissionResult::MAV_MISSION_NO_SPACE));
    bench.begin(2);
    let count = MavMessage::MISSION_COUNT(MISSION_COUNT_DATA { count: 1, ..MISSION_COUNT_DATA::default() });
    assert_eq!(result(&bench.tell(OTHER, count).0), Some(MavMissionResult::MAV_MISSION_DENIED));
    let item = MavMessage::MISSION_ITEM_INT(waypoint(0, 0.0, 0.0));
    assert_eq!(result(&bench.tell(OTHER, item).0), Some(MavMissionResult::MAV_MISSION_ERROR));
}

#[test]
fn the_three_lists_are_kept_apart_and_cleared() {
    let mut bench = Bench::new();
    bench.upload(&plan(3));
    let fence = MavMissionType::MAV_MISSION_TYPE_FENCE;
    bench.tell(
        GCS,
        MavMessage::MISSION_COUNT(MISSION_COUNT_DATA { count: 1, mission_type: fence, ..Default::default() }),
    );
    let corner = Item { mission_type: fence, ..waypoint(0, 10.0, 0.0) };
    let (_, outcome) = bench.tell(GCS, MavMessage::MISSION_ITEM_INT(corner));
    assert_eq!(outcome, Some(Outcome::Received(fence)));
    assert_eq!((bench.missions.mission.len(), bench.missions.fence.len()), (3, 1));
    let clear = |mission_type| {
        MavMessage::MISSION_CLEAR_ALL(MISSION_CLEAR_ALL_DATA { mission_type, target_system: 1, target_component: 1 })
    };
    bench.tell(GCS, clear(MISSION));
    assert_eq!((bench.missions.mission.len(), bench.missions.fence.len()), (0, 1));
    bench.tell(GCS, clear(MavMissionType::MAV_MISSION_TYPE_ALL));
    assert_eq!(bench.missions.fence.len(), 0);
}

#[test]
fn a_part_of_a_mission_is_replaced() {
    let mut bench = Bench::new();
    bench.upload(&plan(6));
    let part = MISSION_WRITE_PARTIAL_LIST_DATA { start_index: 2, end_index: 3, ..Default::default() };
    let (answers, _) = bench.tell(GCS, MavMessage::MISSION_WRITE_PARTIAL_LIST(part));
    assert_eq!(wanted(&answers), Some(2));
    bench.tell(GCS, MavMessage::MISSION_ITEM_INT(waypoint(2, 0.0, 77.0)));
    let (answers, _) = bench.tell(GCS, MavMessage::MISSION_ITEM_INT(waypoint(3, 0.0, 78.0)));
    assert_eq!(result(&answers), Some(MavMissionResult::MAV_MISSION_ACCEPTED));
    let heights: Vec<f32> = bench.missions.mission.iter().map(|item| item.z).collect();
    assert_eq!(heights, [30.0, 30.0, 77.0, 78.0, 30.0, 30.0]);
    for (start_index, end_index) in [(-1, 2), (3, 2), (2, 6)] {
        let part = MISSION_WRITE_PARTIAL_LIST_DATA { start_index, end_index, ..Default::default() };
        assert!(result(&bench.tell(GCS, MavMessage::MISSION_WRITE_PARTIAL_LIST(part)).0).is_some());
    }
}

/// Where a runner is after each of `steps`, for a vehicle that is at once wherever it is sent.
fn fly(items: &[Item], steps: usize) -> (Vec<u16>, Progress) {
    let params = Params::new(Kind::Copter);
    let limits = Limits::new(Kind::Copter, &params);
    let mut body = Body { flying: true, ..Body::default() };
    let mut runner = Runner::new();
    let mut now = Instant::now();
    let mut visited = Vec::new();
    let mut progress = Progress::Finished;
    for _ in 0..steps {
        let world =
            World { kind: Kind::Copter, now, body: &body, limits: &limits, origin: &HOME, home: &HOME, arrival: 2.0 };
        progress = runner.step(items, world);
        visited.push(runner.current());
        match progress {
            Progress::Fly(Demand::Goto { target, .. }) => body.position = target,
            Progress::Fly(Demand::Climb { up }) => body.position.up = up,
            _ => break,
        }
        now += Duration::from_secs(1);
    }
    (visited, progress)
}

#[test]
fn items_are_flown_in_order() {
    let mut items = plan(4);
    items[1].command = MavCmd::MAV_CMD_NAV_TAKEOFF;
    let (visited, progress) = fly(&items, 20);
    assert_eq!(visited, [1, 2, 3, 4]);
    assert_eq!(progress, Progress::Finished);
}

#[test]
fn a_jump_is_taken_as_often_as_it_says() {
    let mut items = plan(4);
    items.push(Item { command: MavCmd::MAV_CMD_DO_JUMP, param1: 2.0, param2: 2.0, seq: 4, ..Item::default() });
    assert_eq!(fly(&items, 20).0, [1, 2, 3, 2, 3, 2, 3, 5]);
}

#[test]
fn a_mission_of_nothing_but_jumps_does_not_hang() {
    let jump = |seq| Item { command: MavCmd::MAV_CMD_DO_JUMP, param1: 1.0, param2: -1.0, seq, ..Item::default() };
    let items = [waypoint(0, 0.0, 0.0), jump(1), jump(2)];
    assert!(matches!(fly(&items, 5).1, Progress::Fly(_)));
}

#[test]
fn it_waits_where_it_shall_wait_and_returns_where_it_shall_return() {
    let mut items = plan(2);
    items[1].param1 = 3.0;
    items.push(Item { command: MavCmd::MAV_CMD_NAV_RETURN_TO_LAUNCH, seq: 2, ..Item::default() });
    let (visited, progress) = fly(&items, 20);
    assert_eq!(visited, [1, 1, 1, 1, 2]);
    assert_eq!(progress, Progress::Return);
}
