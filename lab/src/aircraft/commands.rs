//! COMMAND_LONG and COMMAND_INT.

use std::time::Instant;

use mavlink::dialects::ardupilotmega::{
    COMMAND_ACK_DATA, COMMAND_INT_DATA, COMMAND_LONG_DATA, MESSAGE_INTERVAL_DATA, MavCmd, MavFrame, MavMessage,
    MavResult, MavSeverity,
};

use super::flight::geo::{Local, Place};
use super::mission::Peer;
use super::modes::{Behaviour, Mode};
use super::streams::id;
use super::vehicle::{Guided, Refusal};
use super::wire::Frame;
use super::{Aircraft, Kind};

/// `param2` of an arm or disarm that leaves out all checks.
const FORCE: f32 = 21196.0;
/// Flag in `base_mode` that `custom_mode` holds the mode.
const CUSTOM_MODE: u8 = 1;
/// Flag in `param2` of DO_REPOSITION: change to guided mode first.
const CHANGE_MODE: u32 = 1;

/// A command in either form.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command {
    id: MavCmd,
    /// Parameters 1 to 4.
    p: [f32; 4],
    /// Parameters 5 and 6 as a place in degrees.
    latitude_deg: f64,
    longitude_deg: f64,
    /// Parameter 7.
    z: f32,
    frame: MavFrame,
}

impl From<&COMMAND_LONG_DATA> for Command {
    fn from(m: &COMMAND_LONG_DATA) -> Self {
        Self {
            id: m.command,
            p: [m.param1, m.param2, m.param3, m.param4],
            latitude_deg: m.param5.into(),
            longitude_deg: m.param6.into(),
            z: m.param7,
            // What ArduPilot assumes, since the message has no frame.
            frame: MavFrame::MAV_FRAME_GLOBAL_RELATIVE_ALT,
        }
    }
}

impl From<&COMMAND_INT_DATA> for Command {
    fn from(m: &COMMAND_INT_DATA) -> Self {
        Self {
            id: m.command,
            p: [m.param1, m.param2, m.param3, m.param4],
            latitude_deg: f64::from(m.x) / 1e7,
            longitude_deg: f64::from(m.y) / 1e7,
            z: m.z,
            frame: m.frame,
        }
    }
}

impl Aircraft {
    pub(super) fn on_command(&mut self, now: Instant, from: Peer, command: Command) {
        // Sent before the acknowledgement of the same command, as ArduPilot does.
        let result = match self.carry_out(now, command) {
            Ok(result) => result,
            Err(reason) => {
                self.out.say(MavSeverity::MAV_SEVERITY_WARNING, reason);
                MavResult::MAV_RESULT_FAILED
            }
        };
        self.out.send(&MavMessage::COMMAND_ACK(COMMAND_ACK_DATA {
            command: command.id,
            result,
            progress: 0,
            result_param2: 0,
            target_system: from.system,
            target_component: from.component,
        }));
        if matches!(command.id, MavCmd::MAV_CMD_PREFLIGHT_REBOOT_SHUTDOWN) && result == MavResult::MAV_RESULT_ACCEPTED {
            self.reboot(now);
        }
    }

    /// A command that the dialect does not know, or in a frame that does not exist: its number is at this offset in both forms.
    pub(super) fn on_unreadable_command(&mut self, from: Peer, frame: &Frame<'_>) {
        const COMMAND_OFFSET: usize = 28;
        const COMMAND_ACK: u32 = 77;
        let [low, high] = frame.u16_at(COMMAND_OFFSET).to_le_bytes();
        let unsupported = MavResult::MAV_RESULT_UNSUPPORTED as u8;
        // COMMAND_ACK: command, result, progress, result_param2 (4 bytes), target system and component.
        self.out.send_payload(COMMAND_ACK, &[low, high, unsupported, 0, 0, 0, 0, 0, from.system, from.component]);
    }

    fn carry_out(&mut self, now: Instant, c: Command) -> Result<MavResult, Refusal> {
        match c.id {
            MavCmd::MAV_CMD_COMPONENT_ARM_DISARM => match c.p[0] {
                1.0 => self.vehicle.arm(&mut self.out)?,
                0.0 => self.vehicle.disarm(c.p[1] == FORCE, &mut self.out)?,
                _ => return Ok(MavResult::MAV_RESULT_DENIED),
            },
            MavCmd::MAV_CMD_NAV_TAKEOFF => self.vehicle.take_off(c.z.into())?,
            MavCmd::MAV_CMD_NAV_RETURN_TO_LAUNCH => self.vehicle.set_behaviour(Behaviour::Return)?,
            MavCmd::MAV_CMD_NAV_LAND if self.vehicle.kind == Kind::Copter => {
                self.vehicle.set_behaviour(Behaviour::Land)?
            }
            MavCmd::MAV_CMD_NAV_LOITER_UNLIM => self.vehicle.set_behaviour(Behaviour::Hold)?,
            MavCmd::MAV_CMD_DO_SET_MODE => return Ok(self.set_mode(c.p[0] as u8, c.p[1] as u32)),
            MavCmd::MAV_CMD_MISSION_START => {
                if !self.vehicle.armed {
                    return Err("Mission start: not armed");
                }
                self.vehicle.set_behaviour(Behaviour::Auto)?;
            }
            MavCmd::MAV_CMD_DO_SET_MISSION_CURRENT => return Ok(self.set_current_item(now, c.p[0])),
            MavCmd::MAV_CMD_DO_REPOSITION => return self.reposition(c),
            MavCmd::MAV_CMD_DO_CHANGE_SPEED => return Ok(self.change_speed(now, c.p[1])),
            MavCmd::MAV_CMD_CONDITION_YAW => {
                let turn = f64::from(c.p[0]).to_radians();
                let relative = c.p[3] != 0.0;
                let yaw = if relative { self.vehicle.body.yaw() + turn * f64::from(c.p[2]).signum() } else { turn };
                let target = self.vehicle.target().unwrap_or(self.vehicle.body.position);
                self.vehicle.guide(Guided::Place { target, speed: None, yaw: Some(yaw) })?;
            }
            MavCmd::MAV_CMD_DO_SET_HOME => self.set_home(now, c)?,
            MavCmd::MAV_CMD_GET_HOME_POSITION => self.send_now(now, id::HOME_POSITION),
            MavCmd::MAV_CMD_REQUEST_AUTOPILOT_CAPABILITIES => self.send_now(now, id::AUTOPILOT_VERSION),
            MavCmd::MAV_CMD_REQUEST_MESSAGE => {
                let wanted = c.p[0] as u32;
                if self.streams.interval(wanted).is_none() {
                    return Ok(MavResult::MAV_RESULT_FAILED);
                }
                self.send_now(now, wanted);
            }
            MavCmd::MAV_CMD_SET_MESSAGE_INTERVAL => {
                if !self.streams.set_interval(c.p[0] as u32, c.p[1], now) {
                    return Ok(MavResult::MAV_RESULT_FAILED);
                }
            }
            MavCmd::MAV_CMD_GET_MESSAGE_INTERVAL => return Ok(self.send_interval(c.p[0] as u32)),
            MavCmd::MAV_CMD_PREFLIGHT_CALIBRATION
            | MavCmd::MAV_CMD_PREFLIGHT_STORAGE
            | MavCmd::MAV_CMD_PREFLIGHT_REBOOT_SHUTDOWN => {
                if self.vehicle.armed {
                    return Err("not while armed");
                }
            }
            // Accepted without effect: nothing is attached that would show one.
            MavCmd::MAV_CMD_DO_SET_SERVO
            | MavCmd::MAV_CMD_DO_SET_RELAY
            | MavCmd::MAV_CMD_DO_DIGICAM_CONTROL
            | MavCmd::MAV_CMD_DO_SET_CAM_TRIGG_DIST
            | MavCmd::MAV_CMD_DO_SET_ROI_LOCATION
            | MavCmd::MAV_CMD_DO_SET_ROI_NONE
            | MavCmd::MAV_CMD_DO_FENCE_ENABLE => {}
            _ => return Ok(MavResult::MAV_RESULT_UNSUPPORTED),
        }
        Ok(MavResult::MAV_RESULT_ACCEPTED)
    }

    /// DO_SET_MODE and SET_MODE.
    pub(super) fn set_mode(&mut self, base_mode: u8, custom_mode: u32) -> MavResult {
        if base_mode & CUSTOM_MODE == 0 {
            return MavResult::MAV_RESULT_DENIED;
        }
        let Some(mode) = Mode::by_number(self.vehicle.kind, custom_mode) else {
            return MavResult::MAV_RESULT_FAILED;
        };
        match self.vehicle.set_mode(mode) {
            Ok(()) => MavResult::MAV_RESULT_ACCEPTED,
            Err(reason) => {
                self.out.say(MavSeverity::MAV_SEVERITY_WARNING, reason);
                MavResult::MAV_RESULT_FAILED
            }
        }
    }

    /// Also MISSION_SET_CURRENT. Tells where the mission is then.
    pub(super) fn set_current_item(&mut self, now: Instant, seq: f32) -> MavResult {
        let exists = (0.0..self.vehicle.missions.mission().len() as f32).contains(&seq);
        if !exists {
            return MavResult::MAV_RESULT_DENIED;
        }
        self.vehicle.runner.jump_to(seq as u16);
        self.send_now(now, id::MISSION_CURRENT);
        MavResult::MAV_RESULT_ACCEPTED
    }

    fn reposition(&mut self, c: Command) -> Result<MavResult, Refusal> {
        if c.latitude_deg.abs() > 90.0 || c.longitude_deg.abs() > 180.0 || !c.z.is_finite() {
            return Ok(MavResult::MAV_RESULT_DENIED);
        }
        if c.p[1] as u32 & CHANGE_MODE != 0 {
            self.vehicle.set_behaviour(Behaviour::Guided)?;
        }
        let speed = (c.p[0] > 0.0).then(|| f64::from(c.p[0]));
        let yaw = (!c.p[3].is_nan()).then(|| f64::from(c.p[3]));
        let target = self.target(c.latitude_deg, c.longitude_deg, c.frame, c.z);
        self.vehicle.guide(Guided::Place { target, speed, yaw })?;
        Ok(MavResult::MAV_RESULT_ACCEPTED)
    }

    /// Where a place lies, seen from the origin; latitude and longitude of exactly zero mean "here".
    pub(super) fn target(&self, latitude_deg: f64, longitude_deg: f64, frame: MavFrame, z: f32) -> Local {
        let v = &self.vehicle;
        let up = v.origin.height_of(frame, z, &v.home);
        if latitude_deg == 0.0 && longitude_deg == 0.0 {
            return v.body.position.at_height(up);
        }
        v.origin.to(&Place { latitude_deg, longitude_deg, altitude_m: 0.0 }).at_height(up)
    }

    /// Sets the parameter that holds the speed of the kind, metres per second.
    fn change_speed(&mut self, now: Instant, speed: f32) -> MavResult {
        if speed.is_nan() || speed <= 0.0 {
            return MavResult::MAV_RESULT_DENIED;
        }
        match self.vehicle.kind {
            Kind::Copter => self.vehicle.params.set("WPNAV_SPEED", speed * 100.0),
            Kind::Plane => self.vehicle.params.set("AIRSPEED_CRUISE", speed),
        };
        self.on_params_changed(now);
        MavResult::MAV_RESULT_ACCEPTED
    }

    fn set_home(&mut self, now: Instant, c: Command) -> Result<(), Refusal> {
        if c.p[0] == 1.0 {
            self.vehicle.home = self.vehicle.place();
        } else {
            if c.latitude_deg.abs() > 90.0 || c.longitude_deg.abs() > 180.0 || !c.z.is_finite() {
                return Err("Set home: no such place");
            }
            self.vehicle.home =
                Place { latitude_deg: c.latitude_deg, longitude_deg: c.longitude_deg, altitude_m: c.z.into() };
        }
        self.send_now(now, id::HOME_POSITION);
        Ok(())
    }

    fn send_interval(&mut self, id: u32) -> MavResult {
        let (interval_us, result) = match self.streams.interval(id) {
            Some(Some(interval)) => (interval.as_micros() as i32, MavResult::MAV_RESULT_ACCEPTED),
            Some(None) => (-1, MavResult::MAV_RESULT_ACCEPTED),
            // Zero: no such message.
            None => (0, MavResult::MAV_RESULT_FAILED),
        };
        let message_id = id as u16;
        self.out.send(&MavMessage::MESSAGE_INTERVAL(MESSAGE_INTERVAL_DATA { interval_us, message_id }));
        result
    }
}
