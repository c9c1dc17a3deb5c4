//! A ground station in miniature, and what it sees of the vehicle.

use mavlink::dialects::ardupilotmega::*;
use proptest::prelude::*;

use super::*;

/// The far side of the link: sends what a test says and keeps what comes back.
struct Ground {
    aircraft: Aircraft,
    now: Instant,
    out: Outbox,
    heard: Vec<MavMessage>,
}

impl Ground {
    fn new(kind: Kind) -> Self {
        let now = Instant::now();
        let mut ground = Self {
            aircraft: Aircraft::new(AircraftConfig { kind, ..AircraftConfig::default() }, now),
            now,
            out: Outbox::new(255, 190),
            heard: Vec::new(),
        };
        ground.send(MavMessage::HEARTBEAT(HEARTBEAT_DATA {
            mavtype: MavType::MAV_TYPE_GCS,
            ..HEARTBEAT_DATA::default()
        }));
        ground
    }

    fn send(&mut self, message: MavMessage) {
        self.out.send(&message);
        while let Some(frame) = self.out.pop() {
            self.aircraft.handle_frame(self.now, &frame);
        }
        self.listen();
    }

    fn listen(&mut self) {
        while let Some(frame) = self.aircraft.poll_frame(self.now) {
            let read: Vec<Frame<'_>> = wire::frames(&frame).collect();
            assert_eq!(read.len(), 1);
            // Only the answer to an unknown command cannot be read.
            self.heard.extend(read[0].message());
        }
    }

    /// Silence for that long.
    fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        while self.aircraft.next_deadline() <= until {
            self.now = self.aircraft.next_deadline();
            self.listen();
        }
        self.now = until;
    }

    /// Waits with a heartbeat a second.
    fn attend(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.send(MavMessage::HEARTBEAT(HEARTBEAT_DATA::default()));
            self.wait(Duration::from_secs(1));
        }
    }

    fn command(&mut self, command: MavCmd, params: [f32; 7]) -> MavResult {
        let [param1, param2, param3, param4, param5, param6, param7] = params;
        self.heard.clear();
        self.send(MavMessage::COMMAND_LONG(COMMAND_LONG_DATA {
            param1,
            param2,
            param3,
            param4,
            param5,
            param6,
            param7,
            command,
            target_system: 1,
            target_component: 1,
            confirmation: 0,
        }));
        let ack = self.heard.iter().find_map(|message| match message {
            MavMessage::COMMAND_ACK(ack) => Some(ack),
            _ => None,
        });
        let ack = ack.expect("every command is acknowledged");
        assert_eq!((ack.command, ack.target_system, ack.target_component), (command, 255, 190));
        ack.result
    }

    fn set_mode(&mut self, mode: f32) -> MavResult {
        self.command(MavCmd::MAV_CMD_DO_SET_MODE, [1.0, mode, 0.0, 0.0, 0.0, 0.0, 0.0])
    }

    fn arm(&mut self) -> MavResult {
        self.command(MavCmd::MAV_CMD_COMPONENT_ARM_DISARM, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    }

    fn take_off(&mut self, height: f32) -> MavResult {
        self.command(MavCmd::MAV_CMD_NAV_TAKEOFF, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, height])
    }

    fn upload(&mut self, items: &[(MavCmd, f64, f64, f32)]) {
        self.send(MavMessage::MISSION_COUNT(MISSION_COUNT_DATA {
            count: items.len() as u16,
            ..MISSION_COUNT_DATA::default()
        }));
        let home = AircraftConfig::default().home;
        for (seq, (command, north, east, z)) in items.iter().enumerate() {
            let place = home.offset(Local::new(*north, *east, 0.0));
            self.send(MavMessage::MISSION_ITEM_INT(MISSION_ITEM_INT_DATA {
                seq: seq as u16,
                command: *command,
                frame: MavFrame::MAV_FRAME_GLOBAL_RELATIVE_ALT,
                x: place.lat_e7(),
                y: place.lon_e7(),
                z: *z,
                ..MISSION_ITEM_INT_DATA::default()
            }));
        }
        assert_eq!(self.aircraft.mission_len(), items.len());
    }

    /// Numbers of the mission items that it has reported as reached.
    fn reached(&self) -> Vec<u16> {
        let reached = |message: &MavMessage| match message {
            MavMessage::MISSION_ITEM_REACHED(m) => Some(m.seq),
            _ => None,
        };
        self.heard.iter().filter_map(reached).collect()
    }

    /// A copter that hovers at 30 m.
    fn airborne() -> Self {
        let mut ground = Self::new(Kind::Copter);
        assert_eq!(ground.set_mode(4.0), ACCEPTED);
        assert_eq!(ground.arm(), ACCEPTED);
        assert_eq!(ground.take_off(30.0), ACCEPTED);
        ground.attend(20);
        ground
    }

    fn texts(&self) -> Vec<&str> {
        let texts = self.heard.iter().filter_map(|message| match message {
            MavMessage::STATUSTEXT(m) => m.text.to_str().ok(),
            _ => None,
        });
        texts.collect()
    }

    fn count(&self, id: u32) -> usize {
        self.heard.iter().filter(|message| message.message_id() == id).count()
    }
}

const ACCEPTED: MavResult = MavResult::MAV_RESULT_ACCEPTED;
const NOTHING: [f32; 7] = [0.0; 7];

fn params(first: f32) -> [f32; 7] {
    [first, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
}

#[test]
fn it_streams_100_messages_a_second_beside_the_heartbeat() {
    let mut ground = Ground::new(Kind::Copter);
    ground.wait(Duration::from_secs(1));
    ground.heard.clear();
    ground.wait(Duration::from_secs(10));
    assert_eq!(ground.count(id::HEARTBEAT), 10);
    assert_eq!(ground.heard.len(), 1_010);
    for id in [id::SYS_STATUS, id::ATTITUDE, id::GLOBAL_POSITION_INT, id::VFR_HUD, id::GPS_RAW_INT, id::BATTERY_STATUS]
    {
        assert_eq!(ground.count(id), 40, "message {id}");
    }
}

#[test]
fn the_heartbeat_is_ardupilots() {
    for (kind, mavtype) in [(Kind::Copter, MavType::MAV_TYPE_QUADROTOR), (Kind::Plane, MavType::MAV_TYPE_FIXED_WING)] {
        let ground = Ground::new(kind);
        let Some(MavMessage::HEARTBEAT(heartbeat)) = ground.heard.first() else { panic!("it comes first") };
        assert_eq!(heartbeat.mavtype, mavtype);
        assert_eq!(heartbeat.autopilot, MavAutopilot::MAV_AUTOPILOT_ARDUPILOTMEGA);
        assert!(heartbeat.base_mode.contains(MavModeFlag::MAV_MODE_FLAG_CUSTOM_MODE_ENABLED));
        assert!(!heartbeat.base_mode.contains(MavModeFlag::MAV_MODE_FLAG_SAFETY_ARMED));
    }
}

#[test]
fn all_parameters_come_once_each_when_asked_for() {
    let mut ground = Ground::new(Kind::Copter);
    ground.heard.clear();
    ground.send(MavMessage::PARAM_REQUEST_LIST(PARAM_REQUEST_LIST_DATA { target_system: 1, target_component: 1 }));
    ground.wait(Duration::from_millis(700));
    let mut indices: Vec<u16> = Vec::new();
    for message in &ground.heard {
        if let MavMessage::PARAM_VALUE(value) = message {
            assert_eq!(usize::from(value.param_count), PARAM_COUNT);
            indices.push(value.param_index);
        }
    }
    assert!(indices.iter().copied().eq(0..PARAM_COUNT as u16));
}

#[test]
fn a_parameter_is_read_by_name_and_by_index_set_and_kept() {
    let mut ground = Ground::new(Kind::Copter);
    let value = |ground: &Ground| match ground.heard.last() {
        Some(MavMessage::PARAM_VALUE(value)) => {
            (value.param_id.to_str().unwrap().to_owned(), value.param_value, value.param_index)
        }
        other => panic!("{other:?}"),
    };
    let read = |ground: &mut Ground, param_index, name: &str| {
        let message =
            PARAM_REQUEST_READ_DATA { param_index, target_system: 1, target_component: 1, param_id: name.into() };
        ground.send(MavMessage::PARAM_REQUEST_READ(message));
    };
    read(&mut ground, -1, "RTL_ALT");
    let (name, rtl_alt, index) = value(&ground);
    assert_eq!((name.as_str(), rtl_alt), ("RTL_ALT", 1_500.0));
    ground.send(MavMessage::PARAM_SET(PARAM_SET_DATA {
        param_value: 2_500.0,
        target_system: 1,
        target_component: 1,
        param_id: "RTL_ALT".into(),
        param_type: MavParamType::MAV_PARAM_TYPE_INT32,
    }));
    assert_eq!(value(&ground), ("RTL_ALT".to_owned(), 2_500.0, u16::MAX), "ArduPilot acknowledges without an index");
    read(&mut ground, index as i16, "");
    assert_eq!(value(&ground), ("RTL_ALT".to_owned(), 2_500.0, index));
    ground.heard.clear();
    read(&mut ground, -1, "NO_SUCH");
    read(&mut ground, PARAM_COUNT as i16, "");
    assert_eq!(ground.heard.len(), 0);
}

#[test]
fn a_copter_arms_takes_off_and_holds_its_height() {
    let mut ground = Ground::airborne();
    let status = ground.aircraft.status();
    assert_eq!((status.mode, status.armed, status.flying), ("GUIDED", true, true));
    assert!((status.height_m - 30.0).abs() < 0.5, "{status:?}");
    assert_eq!(ground.command(MavCmd::MAV_CMD_COMPONENT_ARM_DISARM, NOTHING), MavResult::MAV_RESULT_FAILED);
    assert_eq!(ground.texts(), ["Disarm: in flight"]);
    let before = status.height_m;
    ground.attend(60);
    assert!((ground.aircraft.status().height_m - before).abs() < 0.5);
}

#[test]
fn take_off_needs_guided_mode_and_running_motors() {
    let mut ground = Ground::new(Kind::Copter);
    assert_eq!(ground.take_off(10.0), MavResult::MAV_RESULT_FAILED);
    assert_eq!(ground.arm(), ACCEPTED);
    assert_eq!(ground.take_off(10.0), MavResult::MAV_RESULT_FAILED);
    assert_eq!(ground.set_mode(4.0), ACCEPTED);
    assert_eq!(ground.take_off(f32::NAN), MavResult::MAV_RESULT_FAILED);
    assert_eq!(ground.take_off(10.0), ACCEPTED);
}

#[test]
fn an_armed_copter_that_is_left_alone_disarms() {
    let mut ground = Ground::new(Kind::Copter);
    assert_eq!(ground.arm(), ACCEPTED);
    ground.attend(9);
    assert!(ground.aircraft.status().armed);
    ground.attend(2);
    assert!(!ground.aircraft.status().armed);
}

#[test]
fn reposition_flies_there_and_rtl_brings_it_home_and_lands() {
    let mut ground = Ground::airborne();
    let home = AircraftConfig::default().home;
    let there = home.offset(Local::new(120.0, -60.0, 0.0));
    ground.send(MavMessage::COMMAND_INT(COMMAND_INT_DATA {
        param1: -1.0,
        param2: 1.0,
        param4: f32::NAN,
        x: there.lat_e7(),
        y: there.lon_e7(),
        z: 40.0,
        command: MavCmd::MAV_CMD_DO_REPOSITION,
        target_system: 1,
        target_component: 1,
        frame: MavFrame::MAV_FRAME_GLOBAL_RELATIVE_ALT,
        ..COMMAND_INT_DATA::default()
    }));
    ground.attend(30);
    let status = ground.aircraft.status();
    assert!(there.to(&status.place).distance(Local::default()) < 1.0, "{status:?}");
    assert!((status.height_m - 40.0).abs() < 0.5);
    assert_eq!(ground.command(MavCmd::MAV_CMD_NAV_RETURN_TO_LAUNCH, NOTHING), ACCEPTED);
    ground.attend(90);
    let status = ground.aircraft.status();
    assert_eq!((status.mode, status.armed, status.flying), ("RTL", false, false));
    assert!(home.to(&status.place).distance(Local::default()) < 1.5);
}

#[test]
fn velocity_setpoints_move_it_until_they_stop_coming() {
    let mut ground = Ground::airborne();
    let setpoint = MavMessage::SET_POSITION_TARGET_LOCAL_NED(SET_POSITION_TARGET_LOCAL_NED_DATA {
        vx: 5.0,
        target_system: 1,
        target_component: 1,
        // Only the velocity counts.
        type_mask: PositionTargetTypemask::from_bits_retain(0b1101_1100_0111),
        coordinate_frame: MavFrame::MAV_FRAME_LOCAL_NED,
        ..SET_POSITION_TARGET_LOCAL_NED_DATA::default()
    });
    for _ in 0..5 {
        ground.send(setpoint.clone());
        ground.attend(1);
    }
    assert!((ground.aircraft.status().ground_speed_mps - 5.0).abs() < 0.3);
    assert_eq!(ground.aircraft.status().setpoints, 5);
    ground.attend(8);
    assert!(ground.aircraft.status().ground_speed_mps < 0.3, "GUID_TIMEOUT is 3 s");
}

#[test]
fn sticks_move_it_and_are_released_when_they_stop_coming() {
    let mut ground = Ground::airborne();
    assert_eq!(ground.set_mode(5.0), ACCEPTED);
    for _ in 0..20 {
        ground.send(MavMessage::MANUAL_CONTROL(MANUAL_CONTROL_DATA {
            x: 1000,
            z: 500,
            target: 1,
            ..MANUAL_CONTROL_DATA::default()
        }));
        ground.wait(Duration::from_millis(200));
    }
    assert!(ground.aircraft.status().ground_speed_mps > 5.0);
    ground.attend(15);
    assert!(ground.aircraft.status().ground_speed_mps < 0.3, "RC_OVERRIDE_TIME is 3 s");
    assert_eq!(ground.aircraft.status().overrides, 20);
}

#[test]
fn a_silent_ground_station_brings_it_home_after_5_s() {
    let mut ground = Ground::airborne();
    ground.send(MavMessage::HEARTBEAT(HEARTBEAT_DATA::default()));
    ground.heard.clear();
    ground.wait(Duration::from_millis(4_999));
    assert_eq!(ground.aircraft.status().failsafes, 0);
    ground.wait(Duration::from_millis(1));
    assert_eq!(ground.aircraft.status().failsafes, 1);
    assert_eq!(ground.aircraft.status().mode, "RTL");
    ground.listen();
    assert_eq!(ground.texts(), ["GCS Failsafe"]);
    ground.attend(1);
    assert_eq!(ground.texts(), ["GCS Failsafe", "GCS Failsafe Cleared"]);
    assert_eq!(ground.aircraft.status().mode, "RTL", "the operator decides what comes next");
}

#[test]
fn only_the_right_ground_station_counts_and_only_its_signs_of_life() {
    let mut ground = Ground::airborne();
    ground.out = Outbox::new(254, 190);
    for _ in 0..6 {
        ground.send(MavMessage::HEARTBEAT(HEARTBEAT_DATA::default()));
        ground.wait(Duration::from_secs(1));
    }
    assert_eq!(ground.aircraft.status().failsafes, 1);
}

#[test]
fn an_unknown_command_is_answered_with_its_own_number() {
    let mut ground = Ground::new(Kind::Copter);
    let mut payload = [0; 33];
    payload[28..30].copy_from_slice(&54_321u16.to_le_bytes());
    payload[30] = 1;
    ground.out.send_payload(76, &payload);
    let frame = ground.out.pop().unwrap();
    ground.aircraft.handle_frame(ground.now, &frame);
    let answers: Vec<Vec<u8>> = std::iter::from_fn(|| ground.aircraft.poll_frame(ground.now)).collect();
    let ack = wire::frames(&answers[0]).next().unwrap();
    assert_eq!((ack.id, ack.u16_at(0), ack.u8_at(2), ack.u8_at(8)), (77, 54_321, 3, 255));

    let unsupported = ground.command(MavCmd::MAV_CMD_DO_PARACHUTE, NOTHING);
    assert_eq!(unsupported, MavResult::MAV_RESULT_UNSUPPORTED);
}

#[test]
fn messages_can_be_requested_singly_and_at_an_interval() {
    let mut ground = Ground::new(Kind::Copter);
    assert_eq!(ground.command(MavCmd::MAV_CMD_REQUEST_AUTOPILOT_CAPABILITIES, params(1.0)), ACCEPTED);
    assert_eq!(ground.count(id::AUTOPILOT_VERSION), 1);
    assert_eq!(ground.command(MavCmd::MAV_CMD_REQUEST_MESSAGE, params(242.0)), ACCEPTED);
    assert_eq!(ground.count(id::HOME_POSITION), 1);
    assert_eq!(ground.command(MavCmd::MAV_CMD_REQUEST_MESSAGE, params(9_999.0)), MavResult::MAV_RESULT_FAILED);
    let interval = [30.0, 100_000.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(ground.command(MavCmd::MAV_CMD_SET_MESSAGE_INTERVAL, interval), ACCEPTED);
    ground.heard.clear();
    ground.wait(Duration::from_secs(1));
    assert_eq!(ground.count(id::ATTITUDE), 10);
}

#[test]
fn time_and_echo_are_answered() {
    let mut ground = Ground::new(Kind::Copter);
    ground.wait(Duration::from_millis(1_500));
    ground.heard.clear();
    ground.send(MavMessage::TIMESYNC(TIMESYNC_DATA { ts1: 77, ..TIMESYNC_DATA::default() }));
    ground.send(MavMessage::PING(PING_DATA { seq: 5, ..PING_DATA::default() }));
    let [MavMessage::TIMESYNC(time), MavMessage::PING(ping)] = &ground.heard[..] else { panic!("{:?}", ground.heard) };
    assert_eq!((time.ts1, time.tc1, time.target_system), (77, 1_500_000_000, 255));
    assert_eq!((ping.seq, ping.target_system, ping.target_component), (5, 255, 190));
}

#[test]
fn what_is_meant_for_another_vehicle_is_ignored() {
    let mut ground = Ground::new(Kind::Copter);
    ground.heard.clear();
    ground.send(MavMessage::PARAM_REQUEST_LIST(PARAM_REQUEST_LIST_DATA { target_system: 2, target_component: 1 }));
    ground.send(MavMessage::COMMAND_LONG(COMMAND_LONG_DATA { target_system: 2, ..COMMAND_LONG_DATA::default() }));
    assert_eq!(ground.heard.len(), 0);
}

#[test]
fn a_reboot_starts_its_time_anew_and_keeps_parameters() {
    let mut ground = Ground::new(Kind::Copter);
    ground.wait(Duration::from_secs(100));
    ground.aircraft.vehicle.params.set("RTL_ALT", 999.0);
    assert_eq!(ground.command(MavCmd::MAV_CMD_PREFLIGHT_REBOOT_SHUTDOWN, params(1.0)), ACCEPTED);
    ground.heard.clear();
    ground.wait(Duration::from_secs(2));
    let boot_ms = ground.heard.iter().find_map(|message| match message {
        MavMessage::SYSTEM_TIME(time) => Some(time.time_boot_ms),
        _ => None,
    });
    assert!(boot_ms.unwrap() < 2_000);
    assert_eq!(ground.aircraft.param("RTL_ALT"), Some(999.0));
}

#[test]
fn a_plane_takes_off_circles_and_returns() {
    let mut ground = Ground::new(Kind::Plane);
    assert_eq!(ground.set_mode(13.0), ACCEPTED);
    assert_eq!(ground.arm(), ACCEPTED);
    ground.attend(60);
    let status = ground.aircraft.status();
    assert!(status.flying && (status.height_m - 50.0).abs() < 5.0, "{status:?}");
    assert!((status.ground_speed_mps - 22.0).abs() < 1.0, "{status:?}");
    assert_eq!(ground.command(MavCmd::MAV_CMD_NAV_RETURN_TO_LAUNCH, NOTHING), ACCEPTED);
    ground.attend(180);
    let status = ground.aircraft.status();
    let distance = AircraftConfig::default().home.to(&status.place).distance(Local::default());
    assert!((distance - 60.0).abs() < 15.0, "circles home at {distance} m");
    assert!((status.height_m - 100.0).abs() < 3.0, "{status:?}");
}

#[test]
fn a_copter_flies_its_mission_and_lands_at_the_end() {
    let mut ground = Ground::new(Kind::Copter);
    ground.upload(&[
        (MavCmd::MAV_CMD_NAV_WAYPOINT, 0.0, 0.0, 0.0),
        (MavCmd::MAV_CMD_NAV_TAKEOFF, 0.0, 0.0, 20.0),
        (MavCmd::MAV_CMD_NAV_WAYPOINT, 100.0, 0.0, 30.0),
        (MavCmd::MAV_CMD_NAV_WAYPOINT, 100.0, 100.0, 25.0),
        (MavCmd::MAV_CMD_NAV_LAND, 0.0, 50.0, 0.0),
    ]);
    assert_eq!(ground.set_mode(4.0), ACCEPTED);
    assert_eq!(ground.arm(), ACCEPTED);
    assert_eq!(ground.command(MavCmd::MAV_CMD_MISSION_START, NOTHING), ACCEPTED);
    ground.attend(120);
    assert_eq!(ground.reached(), [1, 2, 3, 4]);
    let status = ground.aircraft.status();
    assert_eq!((status.armed, status.flying), (false, false));
    let landed = AircraftConfig::default().home.to(&status.place);
    assert!(landed.distance(Local::new(0.0, 50.0, 0.0)) < 3.0, "{landed:?}");
}

#[test]
fn a_plane_flies_its_mission_and_lands_on_the_runway() {
    let mut ground = Ground::new(Kind::Plane);
    ground.upload(&[
        (MavCmd::MAV_CMD_NAV_WAYPOINT, 0.0, 0.0, 0.0),
        (MavCmd::MAV_CMD_NAV_TAKEOFF, 0.0, 0.0, 40.0),
        (MavCmd::MAV_CMD_NAV_WAYPOINT, 600.0, 300.0, 80.0),
        (MavCmd::MAV_CMD_NAV_WAYPOINT, -600.0, 300.0, 80.0),
        (MavCmd::MAV_CMD_NAV_WAYPOINT, -900.0, 0.0, 60.0),
        (MavCmd::MAV_CMD_NAV_LAND, 0.0, 0.0, 0.0),
    ]);
    assert_eq!(ground.set_mode(10.0), ACCEPTED);
    assert_eq!(ground.arm(), ACCEPTED);
    ground.attend(240);
    assert_eq!(ground.reached(), [1, 2, 3, 4, 5]);
    let status = ground.aircraft.status();
    assert_eq!((status.armed, status.flying, status.ground_speed_mps), (false, false, 0.0));
    let landed = AircraftConfig::default().home.to(&status.place);
    assert!(landed.distance(Local::default()) < 150.0, "{landed:?}");
}

#[test]
fn a_mode_that_does_not_exist_or_lacks_a_mission_is_refused() {
    let mut ground = Ground::new(Kind::Copter);
    assert_eq!(ground.set_mode(99.0), MavResult::MAV_RESULT_FAILED);
    assert_eq!(ground.set_mode(3.0), MavResult::MAV_RESULT_FAILED);
    let no_custom_mode = ground.command(MavCmd::MAV_CMD_DO_SET_MODE, [0.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(no_custom_mode, MavResult::MAV_RESULT_DENIED);
    ground.send(MavMessage::SET_MODE(SET_MODE_DATA {
        custom_mode: 5,
        target_system: 1,
        base_mode: MavModeFlag::MAV_MODE_FLAG_CUSTOM_MODE_ENABLED,
    }));
    assert_eq!(ground.aircraft.status().mode, "LOITER");
}

#[derive(Debug, Clone)]
enum Op {
    /// Any payload in a whole frame.
    Frame(u32, Vec<u8>),
    /// A command with any parameters.
    Command(u16, [f32; 7]),
    Set(&'static str, f32),
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let ids = prop::sample::select(vec![
        0u32, 4, 11, 20, 21, 23, 39, 40, 41, 43, 44, 45, 47, 51, 66, 69, 70, 73, 75, 76, 82, 84, 86, 109, 110, 111,
        166, 38,
    ]);
    let commands =
        prop::sample::select(vec![16u16, 20, 21, 22, 115, 176, 178, 179, 192, 224, 246, 300, 400, 510, 511, 512]);
    let names = prop::sample::select(vec![
        "WPNAV_SPEED",
        "WPNAV_ACCEL",
        "AIRSPEED_MIN",
        "AIRSPEED_MAX",
        "AIRSPEED_CRUISE",
        "WP_LOITER_RAD",
        "ROLL_LIMIT_DEG",
        "TECS_SINK_MAX",
        "RTL_ALT",
        "MAV1_EXTRA1",
        "RC_OVERRIDE_TIME",
        "FS_GCS_TIMEOUT",
        "BATT_CAPACITY",
        "DISARM_DELAY",
    ]);
    let value = prop_oneof![any::<f32>(), -1e3f32..1e3, Just(0.0f32)];
    prop_oneof![
        (ids, prop::collection::vec(any::<u8>(), 0..255)).prop_map(|(id, payload)| Op::Frame(id, payload)),
        (commands, prop::array::uniform7(value.clone())).prop_map(|(id, params)| Op::Command(id, params)),
        (names, value).prop_map(|(name, value)| Op::Set(name, value)),
        (0u64..6_000).prop_map(Op::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_it_is_told_it_goes_on(plane: bool, ops in prop::collection::vec(op(), 1..60)) {
        let mut ground = if plane { Ground::new(Kind::Plane) } else { Ground::airborne() };
        for op in ops {
            match op {
                Op::Frame(id, payload) => ground.out.send_payload(id, &payload),
                Op::Command(id, params) => {
                    let mut payload: Vec<u8> = params.iter().flat_map(|value| value.to_le_bytes()).collect();
                    payload.extend(id.to_le_bytes());
                    ground.out.send_payload(76, &payload);
                }
                Op::Set(name, value) => ground.out.send(&MavMessage::PARAM_SET(PARAM_SET_DATA {
                    param_value: value,
                    param_id: name.into(),
                    ..PARAM_SET_DATA::default()
                })),
                Op::Wait(ms) => ground.wait(Duration::from_millis(ms)),
            }
            ground.heard.clear();
            while let Some(frame) = ground.out.pop() {
                ground.aircraft.handle_frame(ground.now, &frame);
            }
            ground.listen();
        }
        let status = ground.aircraft.status();
        prop_assert!(status.height_m.is_finite() && status.ground_speed_mps.is_finite(), "{:?}", status);
        prop_assert!(status.attitude_rad.iter().all(|angle| angle.is_finite()));
    }
}

#[test]
fn equal_seeds_give_equal_bytes() {
    let run = |seed| {
        let mut now = Instant::now();
        let until = now + Duration::from_secs(5);
        let mut aircraft = Aircraft::new(AircraftConfig { seed, ..AircraftConfig::default() }, now);
        let mut bytes = Vec::new();
        while now < until {
            bytes.extend(std::iter::from_fn(|| aircraft.poll_frame(now)).flatten());
            now = aircraft.next_deadline();
        }
        bytes
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn noise_is_counted_and_harmless() {
    let start = Instant::now();
    let mut aircraft = Aircraft::new(AircraftConfig::default(), start);
    let mut noise = ChaCha8Rng::seed_from_u64(1);
    for _ in 0..1_000 {
        let bytes: Vec<u8> = (0..300).map(|_| rand_chacha::rand_core::Rng::next_u32(&mut noise) as u8).collect();
        aircraft.handle_frame(start, &bytes);
    }
    assert_eq!(aircraft.status().bad_bytes, 300_000);
}
