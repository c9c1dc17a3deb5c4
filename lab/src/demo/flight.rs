//! The simulated aircraft beside the air side, and an operator beside the ground side.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aquila_proto::Side;
use aquila_proto::mavlink::Frame;
use mavlink::dialects::ardupilotmega::{
    COMMAND_INT_DATA, COMMAND_LONG_DATA, HEARTBEAT_DATA, MavAutopilot, MavCmd, MavFrame, MavMessage, MavModeFlag,
    MavState, MavType,
};
use tokio::net::UdpSocket;

use super::commands::{CommandLog, INTERVAL};
use crate::aircraft::{Aircraft, AircraftConfig, Status};
use crate::frames;

/// The operator's address: a ground station's usual system.
const OPERATOR: u8 = 255;
/// ArduCopter's mode GUIDED.
const GUIDED: f32 = 4.0;
/// Metres above home that the tour is flown at.
const HEIGHT_M: f32 = 40.0;
/// Corners of the tour, degrees from home.
const TOUR: [(f64, f64); 4] = [(0.0009, 0.0), (0.0009, 0.0011), (0.0, 0.0011), (0.0, 0.0)];
/// The operator looks at the aircraft and decides this often, and moves on along the tour every fifth time.
const DECISION: Duration = Duration::from_secs(1);
/// No datagram of MAVLink is larger.
const BUFFER: usize = 65_536;

/// What the aircraft is doing, for the operator and the display.
pub type SharedStatus = Arc<Mutex<Option<Status>>>;

/// Flies the aircraft, connected to the air side's MAVLink endpoint, until dropped.
///
/// # Errors
/// Those of its socket.
pub async fn aircraft(endpoint: SocketAddr, log: CommandLog, status: SharedStatus) -> std::io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    socket.connect(endpoint).await?;
    let mut aircraft = Aircraft::new(AircraftConfig::default(), Instant::now());
    let mut next_command = Instant::now();
    let mut buffer = vec![0; BUFFER];
    loop {
        let now = Instant::now();
        if now >= next_command {
            next_command += INTERVAL;
            let number = log.on_sent(Side::Air, now);
            let _ = socket.send(frames::command(Side::Air, number).bytes()).await;
        }
        while let Some(frame) = aircraft.poll_frame(Instant::now()) {
            let _ = socket.send(&frame).await;
        }
        *status.lock().unwrap_or_else(PoisonError::into_inner) = Some(aircraft.status());
        let deadline = aircraft.next_deadline().min(next_command);
        tokio::select! {
            Ok(len) = socket.recv(&mut buffer) => for_each_frame(&buffer[..len], |frame| {
                match frames::command_index(frame).filter(|_| is_numbered(frame)) {
                    Some(number) => log.on_arrived(Side::Ground, number, Instant::now()),
                    None => aircraft.handle_frame(Instant::now(), frame.bytes()),
                }
            }),
            () = tokio::time::sleep_until(deadline.into()) => {}
        }
    }
}

/// An operator at the ground side's MAVLink endpoint: takes off, flies a tour, sends numbered commands; until dropped.
///
/// # Errors
/// Those of its socket.
pub async fn operator(endpoint: SocketAddr, log: CommandLog, status: SharedStatus) -> std::io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    socket.connect(endpoint).await?;
    let mut commands = tokio::time::interval(INTERVAL);
    let mut decisions = tokio::time::interval(DECISION);
    let mut buffer = vec![0; BUFFER];
    let mut decided = 0;
    loop {
        tokio::select! {
            Ok(len) = socket.recv(&mut buffer) => for_each_frame(&buffer[..len], |frame| {
                if let Some(number) = frames::command_index(frame).filter(|_| is_numbered(frame)) {
                    log.on_arrived(Side::Air, number, Instant::now());
                }
            }),
            _ = commands.tick() => {
                let number = log.on_sent(Side::Ground, Instant::now());
                let _ = socket.send(frames::command(Side::Ground, number).bytes()).await;
            }
            _ = decisions.tick() => {
                let now = *status.lock().unwrap_or_else(PoisonError::into_inner);
                for message in [Some(heartbeat()), now.and_then(|status| decide(&status, decided))].into_iter().flatten() {
                    let _ = socket.send(frames::frame(OPERATOR, &message).bytes()).await;
                }
                decided += 1;
            }
        }
    }
}

/// The next thing to tell the aircraft.
fn decide(status: &Status, decided: usize) -> Option<MavMessage> {
    let command = |command, params: [f32; 7]| {
        let [param1, param2, param3, param4, param5, param6, param7] = params;
        let (target_system, target_component) = (1, 1);
        Some(MavMessage::COMMAND_LONG(COMMAND_LONG_DATA {
            param1,
            param2,
            param3,
            param4,
            param5,
            param6,
            param7,
            command,
            target_system,
            target_component,
            ..Default::default()
        }))
    };
    if status.mode != "GUIDED" {
        return command(MavCmd::MAV_CMD_DO_SET_MODE, [1.0, GUIDED, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }
    if !status.armed {
        return command(MavCmd::MAV_CMD_COMPONENT_ARM_DISARM, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }
    if !status.flying {
        return command(MavCmd::MAV_CMD_NAV_TAKEOFF, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, HEIGHT_M]);
    }
    if !decided.is_multiple_of(5) || status.height_m < f64::from(HEIGHT_M) / 2.0 {
        return None;
    }
    let home = AircraftConfig::default().home;
    let (north, east) = TOUR[decided / 5 % TOUR.len()];
    let degrees = |degrees: f64| (degrees * 1e7) as i32;
    Some(MavMessage::COMMAND_INT(COMMAND_INT_DATA {
        param1: -1.0,
        x: degrees(home.latitude_deg + north),
        y: degrees(home.longitude_deg + east),
        z: HEIGHT_M,
        command: MavCmd::MAV_CMD_DO_REPOSITION,
        target_system: 1,
        target_component: 1,
        frame: MavFrame::MAV_FRAME_GLOBAL_RELATIVE_ALT,
        ..Default::default()
    }))
}

fn heartbeat() -> MavMessage {
    MavMessage::HEARTBEAT(HEARTBEAT_DATA {
        mavtype: MavType::MAV_TYPE_GCS,
        autopilot: MavAutopilot::MAV_AUTOPILOT_INVALID,
        base_mode: MavModeFlag::empty(),
        system_status: MavState::MAV_STATE_ACTIVE,
        mavlink_version: 3,
        ..Default::default()
    })
}

/// Our numbered commands are MAV_CMD_USER_1; all others are for the aircraft.
fn is_numbered(frame: &Frame) -> bool {
    /// Offset of `command` in COMMAND_LONG's payload: after seven floats.
    const COMMAND: usize = 28;
    u16::from_le_bytes(frame.field(COMMAND)) == MavCmd::MAV_CMD_USER_1 as u16
}

fn for_each_frame(mut datagram: &[u8], mut handle: impl FnMut(&Frame)) {
    while let Ok((frame, len)) = Frame::parse(datagram) {
        datagram = &datagram[len..];
        handle(&frame);
    }
}
