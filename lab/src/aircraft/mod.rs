//! A simulated vehicle that speaks MAVLink as ArduPilot does, sans-IO.
//!
//! It streams telemetry, holds parameters and a mission, flies (believably, not exactly), obeys commands, and returns home by itself
//! when its ground station falls silent. What it answers and when follows ArduPilot 4.7; where a ground station would not see a
//! difference, it is simpler. Time is passed in and randomness is a seed, so a run can be repeated exactly.
//!
//! Contract: give it what arrives with [`Aircraft::handle_frame`], take what it sends with [`Aircraft::poll_frame`] until `None`, sleep
//! until [`Aircraft::next_deadline`], and poll again.

#![allow(deprecated, reason = "what the dialect calls superseded is what ground stations send")]

mod commands;
mod failsafe;
mod flight;
mod mission;
mod modes;
mod params;
mod rc;
mod streams;
mod telemetry;
mod vehicle;
mod wire;

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use mavlink::Message;
use mavlink::dialects::ardupilotmega::{
    FILE_TRANSFER_PROTOCOL_DATA, MavFrame, MavMessage, MavMissionType, MavSeverity, PING_DATA, PositionTargetTypemask,
    SET_POSITION_TARGET_GLOBAL_INT_DATA, SET_POSITION_TARGET_LOCAL_NED_DATA, TIMESYNC_DATA,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

pub use flight::geo::Place;
pub use params::PARAM_COUNT;

use commands::Command;
use flight::geo::Local;
use mission::{Outcome, Peer};
use modes::Behaviour;
use streams::{Streams, id};
use telemetry::Clock;
use vehicle::{Guided, TICK, Vehicle};
use wire::{Frame, Outbox};

/// MAV_COMP_ID_AUTOPILOT1.
const COMPONENT: u8 = 1;

/// What kind of vehicle is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A multicopter with the modes and parameters of ArduCopter.
    Copter,
    /// A fixed-wing aircraft with the modes and parameters of ArduPlane.
    Plane,
}

/// A vehicle as it is switched on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AircraftConfig {
    /// Copter or plane.
    pub kind: Kind,
    /// MAVLink system id, 1 to 255. The component id is always 1.
    pub system_id: u8,
    /// Decides the restlessness of the sensors.
    pub seed: u64,
    /// Where it stands; the ground is level there and everywhere.
    pub home: Place,
    /// Where it looks to, degrees from north; the direction of a plane's runway.
    pub heading_deg: f64,
    /// Unix time in microseconds when it is switched on.
    pub epoch_us: u64,
}

impl Default for AircraftConfig {
    /// A copter at Canberra Model Aircraft Club, where ArduPilot's own simulator stands.
    fn default() -> Self {
        Self {
            kind: Kind::Copter,
            system_id: 1,
            seed: 1,
            home: Place { latitude_deg: -35.363_262, longitude_deg: 149.165_237, altitude_m: 584.0 },
            heading_deg: 353.0,
            epoch_us: telemetry::EPOCH_US,
        }
    }
}

/// What the vehicle is doing, for those who watch an experiment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Status {
    /// Name of the flight mode, as ground stations show it.
    pub mode: &'static str,
    /// Motors may turn.
    pub armed: bool,
    /// Off the ground.
    pub flying: bool,
    /// Where it is.
    pub place: Place,
    /// Metres above home.
    pub height_m: f64,
    /// Metres per second over ground.
    pub ground_speed_mps: f64,
    /// Roll, pitch and yaw in radians; yaw is 0 to 2π from north.
    pub attitude_rad: [f64; 3],
    /// Times that the ground-station failsafe has fired.
    pub failsafes: u32,
    /// When the ground station last gave a sign of life that the failsafe counts.
    pub gcs_last_seen: Option<Instant>,
    /// Good frames received.
    pub frames_in: u64,
    /// Bytes received that were part of no good frame.
    pub bad_bytes: u64,
    /// RC_CHANNELS_OVERRIDE and MANUAL_CONTROL obeyed.
    pub overrides: u64,
    /// SET_POSITION_TARGET_* and SET_ATTITUDE_TARGET received.
    pub setpoints: u64,
    /// What RADIO_STATUS has added to the interval of every stream.
    pub stream_slowdown: Duration,
}

/// A simulated vehicle.
#[derive(Debug)]
pub struct Aircraft {
    system_id: u8,
    vehicle: Vehicle,
    streams: Streams,
    clock: Clock,
    noise: ChaCha8Rng,
    out: Outbox,
    /// The kinematics are worked out up to here.
    ticked: Instant,
    frames_in: u64,
    bad_bytes: u64,
    overrides: u64,
    setpoints: u64,
}

impl Aircraft {
    /// Switches a vehicle on. It stands on the ground, disarmed, and begins to stream at once.
    pub fn new(config: AircraftConfig, now: Instant) -> Self {
        let vehicle = Vehicle::new(&config);
        Self {
            system_id: config.system_id,
            streams: Streams::new(&vehicle.params, now),
            vehicle,
            clock: Clock { boot: now, epoch_us: config.epoch_us, started: now },
            noise: ChaCha8Rng::seed_from_u64(config.seed),
            out: Outbox::new(config.system_id, COMPONENT),
            ticked: now,
            frames_in: 0,
            bad_bytes: 0,
            overrides: 0,
            setpoints: 0,
        }
    }

    /// Takes bytes from a ground station: any number of whole MAVLink 1 or 2 frames. What is not a good frame is skipped and counted.
    pub fn handle_frame(&mut self, now: Instant, bytes: &[u8]) {
        self.advance(now);
        let mut frames = wire::frames(bytes);
        for frame in frames.by_ref() {
            self.frames_in += 1;
            self.on_frame(now, &frame);
        }
        self.bad_bytes += frames.skipped as u64;
    }

    /// The next MAVLink 2 frame that is to be sent at `now`. Call until `None`.
    pub fn poll_frame(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.advance(now);
        self.out.pop()
    }

    /// When [`Aircraft::poll_frame`] must be called next. Only meaningful when it has been called until `None`.
    pub fn next_deadline(&self) -> Instant {
        debug_assert!(self.out.is_empty(), "call `poll_frame` until `None` first");
        let slowdown = self.streams.slowdown();
        let tick = self.vehicle.armed.then_some(self.ticked + TICK);
        let others = [
            self.streams.next_due(),
            self.vehicle.params.next_due(),
            self.vehicle.missions.next_due(slowdown),
            self.vehicle.failsafe.deadline(self.vehicle.failsafe_timeout()),
            tick,
        ];
        // With all streams off there is nothing to do; a second is soon enough to look again.
        others.into_iter().flatten().min().unwrap_or(self.ticked + Duration::from_secs(1))
    }

    /// What it is doing, as of the last call that passed a time.
    pub fn status(&self) -> Status {
        let v = &self.vehicle;
        Status {
            mode: v.mode.name,
            armed: v.armed,
            flying: v.body.flying,
            place: v.place(),
            height_m: v.height(),
            ground_speed_mps: v.body.ground_speed(),
            attitude_rad: v.body.attitude,
            failsafes: v.failsafe.count,
            gcs_last_seen: v.failsafe.last_seen(),
            frames_in: self.frames_in,
            bad_bytes: self.bad_bytes,
            overrides: self.overrides,
            setpoints: self.setpoints,
            stream_slowdown: self.streams.slowdown(),
        }
    }

    /// Value of a parameter; `None` when there is no such parameter.
    pub fn param(&self, name: &str) -> Option<f32> {
        self.vehicle.params.contains(name).then(|| self.vehicle.params.value(name))
    }

    /// Items of the mission that is stored, the home position (item 0) included.
    pub fn mission_len(&self) -> usize {
        self.vehicle.missions.mission().len()
    }

    /// Does what is due at `now`.
    fn advance(&mut self, now: Instant) {
        while self.ticked + TICK <= now {
            self.ticked += TICK;
            self.vehicle.tick(self.ticked, &mut self.out);
            self.vehicle.check_failsafe(self.ticked, &mut self.out);
        }
        self.vehicle.check_failsafe(now, &mut self.out);
        while let Some(id) = self.streams.poll(now) {
            self.send_now(now, id);
        }
        let slowdown = self.streams.slowdown();
        for value in self.vehicle.params.poll(now, slowdown) {
            self.out.send(&value);
        }
        self.vehicle.missions.poll(now, slowdown, &mut self.out);
    }

    /// Sends a telemetry message out of turn.
    fn send_now(&mut self, now: Instant, id: u32) {
        if let Some(message) = telemetry::message(id, &self.vehicle, &self.clock, now, &mut self.noise) {
            self.out.send(&message);
        }
    }

    fn on_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        let from = Peer { system: frame.system, component: frame.component };
        if (from.system, from.component) == (self.system_id, COMPONENT) {
            return; // Its own words, come back by some loop.
        }
        match frame.message() {
            Some(message) if self.is_for_us(&message) => self.on_message(now, from, &message),
            Some(_) => {}
            None => self.on_unreadable(from, frame),
        }
    }

    fn is_for_us(&self, message: &MavMessage) -> bool {
        let system = message.target_system_id().unwrap_or(0);
        let component = message.target_component_id().unwrap_or(0);
        (system == 0 || system == self.system_id) && (component == 0 || component == COMPONENT)
    }

    /// The frame is whole, but a field of it has a value that the dialect does not know.
    fn on_unreadable(&mut self, from: Peer, frame: &Frame<'_>) {
        /// Messages, and where the payload holds the target system.
        const COMMAND_INT: (u32, usize) = (75, 30);
        const COMMAND_LONG: (u32, usize) = (76, 30);
        const MISSION_ITEM: (u32, usize) = (39, 32);
        const MISSION_ITEM_INT: (u32, usize) = (73, 32);
        let is = |(id, target): (u32, usize)| frame.id == id && [0, self.system_id].contains(&frame.u8_at(target));
        if is(COMMAND_INT) || is(COMMAND_LONG) {
            self.on_unreadable_command(from, frame);
        } else if is(MISSION_ITEM) || is(MISSION_ITEM_INT) {
            self.vehicle.missions.on_unreadable_item(from, &mut self.out);
        }
    }

    fn on_message(&mut self, now: Instant, from: Peer, message: &MavMessage) {
        match message {
            MavMessage::HEARTBEAT(_) => self.on_sign_of_life(now, from, true),
            MavMessage::COMMAND_LONG(m) => self.on_command(now, from, Command::from(m)),
            MavMessage::COMMAND_INT(m) => self.on_command(now, from, Command::from(m)),
            MavMessage::SET_MODE(m) => {
                self.set_mode(m.base_mode.bits(), m.custom_mode);
            }
            MavMessage::PARAM_REQUEST_LIST(_) => self.vehicle.params.start_download(now),
            MavMessage::PARAM_REQUEST_READ(m) => {
                if let Some(value) =
                    self.vehicle.params.message_for(m.param_index, m.param_id.to_str().unwrap_or_default())
                {
                    self.out.send(&value);
                }
            }
            MavMessage::PARAM_SET(m) => self.on_param_set(now, m.param_id.to_str().unwrap_or_default(), m.param_value),
            MavMessage::REQUEST_DATA_STREAM(m) => {
                let rate = if m.start_stop == 0 { 0 } else { m.req_message_rate };
                self.streams.on_request(m.req_stream_id as u8, rate, &mut self.vehicle.params, now);
            }
            MavMessage::RADIO_STATUS(m) => self.streams.on_radio_status(m.txbuf),
            MavMessage::RADIO(m) => self.streams.on_radio_status(m.txbuf),
            MavMessage::RC_CHANNELS_OVERRIDE(_) | MavMessage::MANUAL_CONTROL(_) => self.on_sticks(now, from, message),
            MavMessage::SET_POSITION_TARGET_GLOBAL_INT(m) => self.on_global_setpoint(now, m),
            MavMessage::SET_POSITION_TARGET_LOCAL_NED(m) => self.on_local_setpoint(now, m),
            MavMessage::SET_ATTITUDE_TARGET(_) => self.setpoints += 1,
            MavMessage::TIMESYNC(m) if m.tc1 == 0 => self.out.send(&MavMessage::TIMESYNC(TIMESYNC_DATA {
                tc1: self.clock.since_boot(now).as_nanos() as i64,
                ts1: m.ts1,
                target_system: from.system,
                target_component: from.component,
            })),
            // A ping to everyone is a question, one to somebody an answer.
            MavMessage::PING(m) if m.target_system == 0 => self.out.send(&MavMessage::PING(PING_DATA {
                time_usec: m.time_usec,
                seq: m.seq,
                target_system: from.system,
                target_component: from.component,
            })),
            MavMessage::MISSION_SET_CURRENT(m) => {
                self.set_current_item(now, m.seq.into());
            }
            MavMessage::FILE_TRANSFER_PROTOCOL(m) => self.refuse_file_transfer(from, m),
            _ => self.on_mission_message(now, from, message),
        }
    }

    fn on_param_set(&mut self, now: Instant, name: &str, value: f32) {
        if !self.vehicle.params.set(name, value) {
            return;
        }
        self.on_params_changed(now);
        if let Some(value) = self.vehicle.params.message_after_set(name) {
            self.out.send(&value);
        }
    }

    fn on_params_changed(&mut self, now: Instant) {
        self.vehicle.on_params_changed();
        self.streams.on_params_changed(&self.vehicle.params, now);
    }

    /// Only the ground station that is set by MAV_GCS_SYSID counts.
    fn is_gcs(&self, from: Peer) -> bool {
        f32::from(from.system) == self.vehicle.params.value("MAV_GCS_SYSID")
    }

    fn on_sign_of_life(&mut self, now: Instant, from: Peer, heartbeat: bool) {
        if self.is_gcs(from) {
            self.vehicle.on_gcs_alive(now, heartbeat, &mut self.out);
        }
    }

    fn on_sticks(&mut self, now: Instant, from: Peer, message: &MavMessage) {
        if !self.is_gcs(from) {
            return;
        }
        match message {
            MavMessage::MANUAL_CONTROL(m) => self.vehicle.sticks.on_manual_control(now, m.x, m.y, m.z, m.r),
            MavMessage::RC_CHANNELS_OVERRIDE(m) => self.vehicle.sticks.on_override(
                now,
                &[
                    m.chan1_raw,
                    m.chan2_raw,
                    m.chan3_raw,
                    m.chan4_raw,
                    m.chan5_raw,
                    m.chan6_raw,
                    m.chan7_raw,
                    m.chan8_raw,
                    m.chan9_raw,
                    m.chan10_raw,
                    m.chan11_raw,
                    m.chan12_raw,
                    m.chan13_raw,
                    m.chan14_raw,
                    m.chan15_raw,
                    m.chan16_raw,
                    m.chan17_raw,
                    m.chan18_raw,
                ],
            ),
            _ => return,
        }
        self.overrides += 1;
        self.on_sign_of_life(now, from, false);
    }

    fn on_global_setpoint(&mut self, now: Instant, m: &SET_POSITION_TARGET_GLOBAL_INT_DATA) {
        let latitude_deg = f64::from(m.lat_int) / 1e7;
        let longitude_deg = f64::from(m.lon_int) / 1e7;
        let target = self.target(latitude_deg, longitude_deg, m.coordinate_frame, m.alt);
        self.on_setpoint(
            now,
            m.type_mask,
            target,
            Local::new(m.vx.into(), m.vy.into(), (-m.vz).into()),
            m.yaw,
            m.yaw_rate,
        );
    }

    fn on_local_setpoint(&mut self, now: Instant, m: &SET_POSITION_TARGET_LOCAL_NED_DATA) {
        let mut position = Local::new(m.x.into(), m.y.into(), (-m.z).into());
        let mut velocity = Local::new(m.vx.into(), m.vy.into(), (-m.vz).into());
        let (along_body, from_body) = match m.coordinate_frame {
            MavFrame::MAV_FRAME_BODY_NED | MavFrame::MAV_FRAME_BODY_OFFSET_NED | MavFrame::MAV_FRAME_BODY_FRD => {
                (true, true)
            }
            MavFrame::MAV_FRAME_LOCAL_OFFSET_NED => (false, true),
            _ => (false, false),
        };
        let (sin, cos) = if along_body { self.vehicle.body.yaw().sin_cos() } else { (0.0, 1.0) };
        for vector in [&mut position, &mut velocity] {
            *vector =
                Local::new(vector.north * cos - vector.east * sin, vector.north * sin + vector.east * cos, vector.up);
        }
        if from_body {
            position += self.vehicle.body.position;
        }
        self.on_setpoint(now, m.type_mask, position, velocity, m.yaw, m.yaw_rate);
    }

    fn on_setpoint(
        &mut self,
        now: Instant,
        ignore: PositionTargetTypemask,
        target: Local,
        velocity: Local,
        yaw: f32,
        yaw_rate: f32,
    ) {
        type Ignore = PositionTargetTypemask;
        self.setpoints += 1;
        let yaw = (!ignore.contains(Ignore::POSITION_TARGET_TYPEMASK_YAW_IGNORE)).then(|| yaw.into());
        let turns = !ignore.contains(Ignore::POSITION_TARGET_TYPEMASK_YAW_RATE_IGNORE);
        let task = if !ignore.contains(Ignore::POSITION_TARGET_TYPEMASK_X_IGNORE) {
            Guided::Place { target, speed: None, yaw }
        } else if !ignore.contains(Ignore::POSITION_TARGET_TYPEMASK_VX_IGNORE) {
            Guided::Velocity { velocity, yaw_rate: if turns { yaw_rate.into() } else { 0.0 }, since: now }
        } else {
            return;
        };
        let finite = [target.north, target.east, target.up, velocity.north, velocity.east, velocity.up]
            .iter()
            .all(|v| v.is_finite());
        if finite {
            // Outside guided mode setpoints are ignored, as ArduPilot does; there is no answer to them.
            let _ = self.vehicle.guide(task);
        }
    }

    fn on_mission_message(&mut self, now: Instant, from: Peer, message: &MavMessage) {
        let v = &mut self.vehicle;
        let Some(outcome) = v.missions.on_message(now, from, message, &v.home, &mut self.out) else { return };
        match outcome {
            Outcome::Received(kind) => {
                let what = match kind {
                    MavMissionType::MAV_MISSION_TYPE_FENCE => "Fence received",
                    MavMissionType::MAV_MISSION_TYPE_RALLY => "Rally points received",
                    _ => "Flight plan received",
                };
                self.out.say(MavSeverity::MAV_SEVERITY_INFO, what);
            }
            Outcome::Cleared if v.mode.behaviour != Behaviour::Auto => v.runner.jump_to(0),
            Outcome::Cleared => {}
            Outcome::GoTo(item) => {
                let place = Place::from_e7(item.x, item.y, 0.0);
                let target = self.target(place.latitude_deg, place.longitude_deg, item.frame, item.z);
                let _ = self.vehicle.guide(Guided::Place { target, speed: None, yaw: None });
            }
            Outcome::ChangeHeight(item) => {
                let up = v.origin.height_of(item.frame, item.z, &v.home);
                let target = v.target().unwrap_or(v.body.position).at_height(up);
                let _ = v.guide(Guided::Place { target, speed: None, yaw: None });
            }
        }
    }

    /// There are no files: a NAK sends ground stations back to the ordinary protocols at once, silence would cost them a timeout.
    fn refuse_file_transfer(&mut self, from: Peer, m: &FILE_TRANSFER_PROTOCOL_DATA) {
        /// Payload (FTP service of MAVLink): sequence (2 bytes), session, opcode, size, requested opcode, burst, padding, offset (4), data.
        const NAK: u8 = 129;
        const UNKNOWN_COMMAND: u8 = 7;
        if m.payload[3] >= 128 {
            return; // An answer, not a request.
        }
        let mut payload = [0; 251];
        let sequence = u16::from_le_bytes([m.payload[0], m.payload[1]]).wrapping_add(1);
        payload[..2].copy_from_slice(&sequence.to_le_bytes());
        payload[2] = m.payload[2];
        payload[3] = NAK;
        payload[4] = 1;
        payload[5] = m.payload[3];
        payload[12] = UNKNOWN_COMMAND;
        self.out.send(&MavMessage::FILE_TRANSFER_PROTOCOL(FILE_TRANSFER_PROTOCOL_DATA {
            target_network: 0,
            target_system: from.system,
            target_component: from.component,
            payload,
        }));
    }

    /// Starts anew where it stands; parameters and missions are kept, time since boot begins at zero.
    fn reboot(&mut self, now: Instant) {
        self.clock.boot = now;
        self.vehicle.failsafe = failsafe::GcsFailsafe::default();
        self.vehicle.runner.jump_to(0);
        self.streams = Streams::new(&self.vehicle.params, now);
        self.out.say(MavSeverity::MAV_SEVERITY_INFO, "Initialising ArduPilot");
        self.send_now(now, id::HEARTBEAT);
    }
}
