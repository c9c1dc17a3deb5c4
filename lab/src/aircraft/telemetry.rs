//! Telemetry messages, made from the state of the vehicle.

use std::time::{Duration, Instant};

use mavlink::dialects::ardupilotmega::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use super::Kind;
use super::modes::Behaviour;
use super::rc::CHANNELS;
use super::streams::id;
use super::vehicle::Vehicle;

/// 2026-01-01 00:00:00 UTC, the time at which a simulated vehicle is switched on unless its configuration says otherwise.
pub(super) const EPOCH_US: u64 = 1_767_225_600_000_000;

/// ArduPilot's version number as AUTOPILOT_VERSION carries it: 4.7.0, development.
const VERSION: u32 = 4 << 24 | 7 << 16;

/// What telemetry needs to know beside the vehicle.
#[derive(Debug)]
pub(super) struct Clock {
    pub(super) boot: Instant,
    /// Unix time at `started`.
    pub(super) epoch_us: u64,
    pub(super) started: Instant,
}

impl Clock {
    pub(super) fn since_boot(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.boot)
    }

    pub(super) fn boot_ms(&self, now: Instant) -> u32 {
        self.since_boot(now).as_millis() as u32
    }

    pub(super) fn boot_us(&self, now: Instant) -> u64 {
        self.since_boot(now).as_micros() as u64
    }

    fn unix_us(&self, now: Instant) -> u64 {
        self.epoch_us + now.saturating_duration_since(self.started).as_micros() as u64
    }
}

/// The message of that id; `None` when the vehicle has no such message. `noise` makes sensors as restless as real ones.
pub(super) fn message(
    id: u32,
    vehicle: &Vehicle,
    clock: &Clock,
    now: Instant,
    noise: &mut ChaCha8Rng,
) -> Option<MavMessage> {
    let source = Source { vehicle, clock, now };
    Some(match id {
        id::HEARTBEAT => source.heartbeat(),
        id::SYS_STATUS => source.sys_status(),
        id::SYSTEM_TIME => MavMessage::SYSTEM_TIME(SYSTEM_TIME_DATA {
            time_unix_usec: clock.unix_us(now),
            time_boot_ms: clock.boot_ms(now),
        }),
        id::GPS_RAW_INT => source.gps(noise),
        id::RAW_IMU => source.raw_imu(noise),
        id::SCALED_IMU2 => source.scaled_imu2(noise),
        id::SCALED_PRESSURE => source.pressure(noise),
        id::ATTITUDE => source.attitude(noise),
        id::LOCAL_POSITION_NED => source.local_position(),
        id::GLOBAL_POSITION_INT => source.global_position(),
        id::SERVO_OUTPUT_RAW => source.servos(),
        id::MISSION_CURRENT => source.mission_current(),
        id::GPS_GLOBAL_ORIGIN => MavMessage::GPS_GLOBAL_ORIGIN(GPS_GLOBAL_ORIGIN_DATA {
            latitude: vehicle.origin.lat_e7(),
            longitude: vehicle.origin.lon_e7(),
            altitude: millimetres(vehicle.origin.altitude_m),
            time_usec: clock.boot_us(now),
        }),
        id::NAV_CONTROLLER_OUTPUT => source.nav_controller(),
        id::RC_CHANNELS => source.rc_channels(),
        id::VFR_HUD => source.vfr_hud(noise),
        id::POSITION_TARGET_GLOBAL_INT => source.position_target(),
        id::POWER_STATUS => MavMessage::POWER_STATUS(POWER_STATUS_DATA {
            Vcc: 5_030 + (noise.next_u32() % 20) as u16,
            Vservo: 5_000,
            flags: MavPowerStatus::MAV_POWER_STATUS_BRICK_VALID,
        }),
        id::TERRAIN_REPORT => source.terrain(),
        id::BATTERY_STATUS => source.battery(),
        id::AUTOPILOT_VERSION => autopilot_version(),
        id::MEMINFO => MavMessage::MEMINFO(MEMINFO_DATA { brkval: 0, freemem: u16::MAX, freemem32: 131_072 }),
        id::AHRS => MavMessage::AHRS(AHRS_DATA {
            omegaIx: jitter(noise, 0.001),
            omegaIy: jitter(noise, 0.001),
            omegaIz: jitter(noise, 0.001),
            error_rp: 0.002 + jitter(noise, 0.001).abs(),
            error_yaw: 0.003 + jitter(noise, 0.001).abs(),
            ..AHRS_DATA::default()
        }),
        id::HWSTATUS => MavMessage::HWSTATUS(HWSTATUS_DATA { Vcc: 5_030 + (noise.next_u32() % 20) as u16, I2Cerr: 0 }),
        id::WIND => MavMessage::WIND(WIND_DATA { direction: 0.0, speed: 0.0, speed_z: 0.0 }),
        id::AHRS2 => source.ahrs2(noise),
        id::EKF_STATUS_REPORT => source.ekf(noise),
        id::VIBRATION => source.vibration(noise),
        id::HOME_POSITION => source.home_position(),
        id::EXTENDED_SYS_STATE => source.extended_state(),
        _ => return None,
    })
}

struct Source<'a> {
    vehicle: &'a Vehicle,
    clock: &'a Clock,
    now: Instant,
}

impl Source<'_> {
    fn heartbeat(&self) -> MavMessage {
        let v = self.vehicle;
        let mut base_mode =
            MavModeFlag::MAV_MODE_FLAG_CUSTOM_MODE_ENABLED | MavModeFlag::MAV_MODE_FLAG_STABILIZE_ENABLED;
        if v.armed {
            base_mode |= MavModeFlag::MAV_MODE_FLAG_SAFETY_ARMED;
        }
        base_mode |= match v.mode.behaviour {
            Behaviour::Sticks => MavModeFlag::MAV_MODE_FLAG_MANUAL_INPUT_ENABLED,
            Behaviour::Hold => {
                MavModeFlag::MAV_MODE_FLAG_MANUAL_INPUT_ENABLED | MavModeFlag::MAV_MODE_FLAG_GUIDED_ENABLED
            }
            _ => MavModeFlag::MAV_MODE_FLAG_GUIDED_ENABLED,
        };
        let system_status = match (v.failsafe.is_active(), v.armed) {
            (true, _) => MavState::MAV_STATE_CRITICAL,
            (false, true) if v.body.flying => MavState::MAV_STATE_ACTIVE,
            (false, _) => MavState::MAV_STATE_STANDBY,
        };
        MavMessage::HEARTBEAT(HEARTBEAT_DATA {
            custom_mode: v.mode.number,
            mavtype: match v.kind {
                Kind::Copter => MavType::MAV_TYPE_QUADROTOR,
                Kind::Plane => MavType::MAV_TYPE_FIXED_WING,
            },
            autopilot: MavAutopilot::MAV_AUTOPILOT_ARDUPILOTMEGA,
            base_mode,
            system_status,
            mavlink_version: 3,
        })
    }

    fn sys_status(&self) -> MavMessage {
        type Sensor = MavSysStatusSensor;
        let v = self.vehicle;
        let present = Sensor::MAV_SYS_STATUS_SENSOR_3D_GYRO
            | Sensor::MAV_SYS_STATUS_SENSOR_3D_ACCEL
            | Sensor::MAV_SYS_STATUS_SENSOR_3D_MAG
            | Sensor::MAV_SYS_STATUS_SENSOR_ABSOLUTE_PRESSURE
            | Sensor::MAV_SYS_STATUS_SENSOR_GPS
            | Sensor::MAV_SYS_STATUS_SENSOR_ANGULAR_RATE_CONTROL
            | Sensor::MAV_SYS_STATUS_SENSOR_ATTITUDE_STABILIZATION
            | Sensor::MAV_SYS_STATUS_SENSOR_YAW_POSITION
            | Sensor::MAV_SYS_STATUS_SENSOR_Z_ALTITUDE_CONTROL
            | Sensor::MAV_SYS_STATUS_SENSOR_XY_POSITION_CONTROL
            | Sensor::MAV_SYS_STATUS_SENSOR_MOTOR_OUTPUTS
            | Sensor::MAV_SYS_STATUS_SENSOR_RC_RECEIVER
            | Sensor::MAV_SYS_STATUS_AHRS
            | Sensor::MAV_SYS_STATUS_TERRAIN
            | Sensor::MAV_SYS_STATUS_LOGGING
            | Sensor::MAV_SYS_STATUS_SENSOR_BATTERY
            | Sensor::MAV_SYS_STATUS_PREARM_CHECK;
        let motors = if v.armed { Sensor::empty() } else { Sensor::MAV_SYS_STATUS_SENSOR_MOTOR_OUTPUTS };
        MavMessage::SYS_STATUS(SYS_STATUS_DATA {
            onboard_control_sensors_present: present,
            onboard_control_sensors_enabled: present - motors,
            // Not present, but ground stations take a fence that is not healthy for one that was breached.
            onboard_control_sensors_health: present | Sensor::MAV_SYS_STATUS_GEOFENCE,
            load: 230,
            voltage_battery: (v.battery.voltage() * 1000.0) as u16,
            current_battery: (v.battery.current_a() * 100.0) as i16,
            drop_rate_comm: 0,
            errors_comm: 0,
            errors_count1: 0,
            errors_count2: 0,
            errors_count3: 0,
            errors_count4: 0,
            battery_remaining: percent(v.battery.remaining()),
            onboard_control_sensors_present_extended: MavSysStatusSensorExtended::empty(),
            onboard_control_sensors_enabled_extended: MavSysStatusSensorExtended::empty(),
            onboard_control_sensors_health_extended: MavSysStatusSensorExtended::empty(),
        })
    }

    fn gps(&self, noise: &mut ChaCha8Rng) -> MavMessage {
        let v = self.vehicle;
        let place = v.place();
        let course = v.body.velocity.east.atan2(v.body.velocity.north).rem_euclid(std::f64::consts::TAU);
        MavMessage::GPS_RAW_INT(GPS_RAW_INT_DATA {
            time_usec: self.clock.boot_us(self.now),
            lat: place.lat_e7() + (noise.next_u32() % 7) as i32 - 3,
            lon: place.lon_e7() + (noise.next_u32() % 7) as i32 - 3,
            alt: millimetres(place.altitude_m),
            eph: 121,
            epv: 200,
            vel: (v.body.ground_speed() * 100.0) as u16,
            cog: (course.to_degrees() * 100.0) as u16 % 36_000,
            fix_type: GpsFixType::GPS_FIX_TYPE_3D_FIX,
            satellites_visible: 14,
            alt_ellipsoid: 0,
            h_acc: 300,
            v_acc: 450,
            vel_acc: 120,
            hdg_acc: 0,
            yaw: 0,
        })
    }

    /// Acceleration in milli-g, rotation in mrad/s and field in milligauss, body axes.
    fn imu(&self, noise: &mut ChaCha8Rng) -> [i16; 9] {
        let [roll, pitch, yaw] = self.vehicle.body.attitude;
        let gravity = [pitch.sin(), -roll.sin() * pitch.cos(), -roll.cos() * pitch.cos()];
        let field = [230.0 * yaw.cos(), -230.0 * yaw.sin(), 420.0];
        std::array::from_fn(|n| {
            let (value, restless) = match n {
                0..3 => (gravity[n] * 1000.0, 8.0),
                3..6 => (self.vehicle.body.rates[n - 3] * 1000.0, 4.0),
                _ => (field[n - 6], 2.0),
            };
            (value + f64::from(jitter(noise, restless))) as i16
        })
    }

    fn raw_imu(&self, noise: &mut ChaCha8Rng) -> MavMessage {
        let [xacc, yacc, zacc, xgyro, ygyro, zgyro, xmag, ymag, zmag] = self.imu(noise);
        let time_usec = self.clock.boot_us(self.now);
        let temperature = 4_250;
        MavMessage::RAW_IMU(RAW_IMU_DATA {
            time_usec,
            xacc,
            yacc,
            zacc,
            xgyro,
            ygyro,
            zgyro,
            xmag,
            ymag,
            zmag,
            id: 0,
            temperature,
        })
    }

    fn scaled_imu2(&self, noise: &mut ChaCha8Rng) -> MavMessage {
        let [xacc, yacc, zacc, xgyro, ygyro, zgyro, xmag, ymag, zmag] = self.imu(noise);
        let time_boot_ms = self.clock.boot_ms(self.now);
        let temperature = 4_310;
        MavMessage::SCALED_IMU2(SCALED_IMU2_DATA {
            time_boot_ms,
            xacc,
            yacc,
            zacc,
            xgyro,
            ygyro,
            zgyro,
            xmag,
            ymag,
            zmag,
            temperature,
        })
    }

    fn pressure(&self, noise: &mut ChaCha8Rng) -> MavMessage {
        /// Barometric formula of the standard atmosphere.
        fn hectopascal(altitude_m: f64) -> f64 {
            1013.25 * (1.0 - 2.255_77e-5 * altitude_m).powf(5.255_88)
        }
        MavMessage::SCALED_PRESSURE(SCALED_PRESSURE_DATA {
            time_boot_ms: self.clock.boot_ms(self.now),
            press_abs: hectopascal(self.vehicle.place().altitude_m) as f32 + jitter(noise, 0.02),
            press_diff: 0.0,
            temperature: 3_100,
            temperature_press_diff: 0,
        })
    }

    fn attitude(&self, noise: &mut ChaCha8Rng) -> MavMessage {
        let body = &self.vehicle.body;
        let [roll, pitch, yaw] = body.attitude.map(|angle| angle as f32);
        let [rollspeed, pitchspeed, yawspeed] = body.rates.map(|rate| rate as f32 + jitter(noise, 0.002));
        MavMessage::ATTITUDE(ATTITUDE_DATA {
            time_boot_ms: self.clock.boot_ms(self.now),
            roll: roll + jitter(noise, 0.001),
            pitch: pitch + jitter(noise, 0.001),
            yaw: if yaw > std::f32::consts::PI { yaw - std::f32::consts::TAU } else { yaw },
            rollspeed,
            pitchspeed,
            yawspeed,
        })
    }

    fn ahrs2(&self, noise: &mut ChaCha8Rng) -> MavMessage {
        let place = self.vehicle.place();
        let [roll, pitch, yaw] = self.vehicle.body.attitude.map(|angle| angle as f32);
        MavMessage::AHRS2(AHRS2_DATA {
            roll: roll + jitter(noise, 0.004),
            pitch: pitch + jitter(noise, 0.004),
            yaw,
            altitude: place.altitude_m as f32,
            lat: place.lat_e7(),
            lng: place.lon_e7(),
        })
    }

    fn local_position(&self) -> MavMessage {
        let v = self.vehicle;
        MavMessage::LOCAL_POSITION_NED(LOCAL_POSITION_NED_DATA {
            time_boot_ms: self.clock.boot_ms(self.now),
            x: v.body.position.north as f32,
            y: v.body.position.east as f32,
            z: -v.body.position.up as f32,
            vx: v.body.velocity.north as f32,
            vy: v.body.velocity.east as f32,
            vz: -v.body.velocity.up as f32,
        })
    }

    fn global_position(&self) -> MavMessage {
        let v = self.vehicle;
        let place = v.place();
        MavMessage::GLOBAL_POSITION_INT(GLOBAL_POSITION_INT_DATA {
            time_boot_ms: self.clock.boot_ms(self.now),
            lat: place.lat_e7(),
            lon: place.lon_e7(),
            alt: millimetres(place.altitude_m),
            relative_alt: millimetres(v.height()),
            vx: (v.body.velocity.north * 100.0) as i16,
            vy: (v.body.velocity.east * 100.0) as i16,
            vz: (-v.body.velocity.up * 100.0) as i16,
            hdg: (v.body.yaw().to_degrees() * 100.0) as u16 % 36_000,
        })
    }

    fn servos(&self) -> MavMessage {
        let v = self.vehicle;
        let throttle = if v.armed { 1_100 + (v.body.throttle * 850.0) as u16 } else { 1_000 };
        let [roll, pitch, _] = v.body.attitude;
        let surface = |angle: f64| (1_500.0 + angle * 400.0).clamp(1_000.0, 2_000.0) as u16;
        let [servo1_raw, servo2_raw, servo3_raw, servo4_raw] = match v.kind {
            Kind::Copter => [throttle; 4],
            Kind::Plane => [surface(roll), surface(pitch), throttle, 1_500],
        };
        MavMessage::SERVO_OUTPUT_RAW(SERVO_OUTPUT_RAW_DATA {
            time_usec: self.clock.boot_us(self.now) as u32,
            servo1_raw,
            servo2_raw,
            servo3_raw,
            servo4_raw,
            ..SERVO_OUTPUT_RAW_DATA::default()
        })
    }

    fn mission_current(&self) -> MavMessage {
        let v = self.vehicle;
        let total = v.missions.mission().len().saturating_sub(1) as u16;
        let mission_state = match (total, v.mode.behaviour) {
            (0, _) => MissionState::MISSION_STATE_NO_MISSION,
            (_, Behaviour::Auto) if v.runner.current() > total => MissionState::MISSION_STATE_COMPLETE,
            (_, Behaviour::Auto) => MissionState::MISSION_STATE_ACTIVE,
            _ if v.runner.current() == 0 => MissionState::MISSION_STATE_NOT_STARTED,
            _ => MissionState::MISSION_STATE_PAUSED,
        };
        MavMessage::MISSION_CURRENT(MISSION_CURRENT_DATA {
            seq: v.runner.current(),
            total,
            mission_state,
            mission_mode: if v.mode.behaviour == Behaviour::Auto { 1 } else { 2 },
            ..MISSION_CURRENT_DATA::default()
        })
    }

    fn nav_controller(&self) -> MavMessage {
        let v = self.vehicle;
        let target = v.target().unwrap_or(v.body.position);
        let bearing = v.body.position.bearing(target).to_degrees() as i16;
        MavMessage::NAV_CONTROLLER_OUTPUT(NAV_CONTROLLER_OUTPUT_DATA {
            nav_roll: v.body.attitude[0].to_degrees() as f32,
            nav_pitch: v.body.attitude[1].to_degrees() as f32,
            alt_error: (target.up - v.body.position.up) as f32,
            aspd_error: 0.0,
            xtrack_error: 0.0,
            nav_bearing: bearing,
            target_bearing: bearing,
            wp_dist: v.body.position.distance(target) as u16,
        })
    }

    fn position_target(&self) -> MavMessage {
        let v = self.vehicle;
        let target = v.origin.offset(v.target().unwrap_or(v.body.position));
        MavMessage::POSITION_TARGET_GLOBAL_INT(POSITION_TARGET_GLOBAL_INT_DATA {
            time_boot_ms: self.clock.boot_ms(self.now),
            lat_int: target.lat_e7(),
            lon_int: target.lon_e7(),
            alt: target.altitude_m as f32,
            // Only the position is meant.
            type_mask: PositionTargetTypemask::from_bits_retain(0xFF8),
            coordinate_frame: MavFrame::MAV_FRAME_GLOBAL,
            ..POSITION_TARGET_GLOBAL_INT_DATA::default()
        })
    }

    fn rc_channels(&self) -> MavMessage {
        let [
            chan1_raw,
            chan2_raw,
            chan3_raw,
            chan4_raw,
            chan5_raw,
            chan6_raw,
            chan7_raw,
            chan8_raw,
            chan9_raw,
            chan10_raw,
            chan11_raw,
            chan12_raw,
            chan13_raw,
            chan14_raw,
            chan15_raw,
            chan16_raw,
            chan17_raw,
            chan18_raw,
        ] = self.vehicle.sticks.channels();
        MavMessage::RC_CHANNELS(RC_CHANNELS_DATA {
            time_boot_ms: self.clock.boot_ms(self.now),
            chan1_raw,
            chan2_raw,
            chan3_raw,
            chan4_raw,
            chan5_raw,
            chan6_raw,
            chan7_raw,
            chan8_raw,
            chan9_raw,
            chan10_raw,
            chan11_raw,
            chan12_raw,
            chan13_raw,
            chan14_raw,
            chan15_raw,
            chan16_raw,
            chan17_raw,
            chan18_raw,
            chancount: CHANNELS as u8,
            rssi: 255,
        })
    }

    fn vfr_hud(&self, noise: &mut ChaCha8Rng) -> MavMessage {
        let v = self.vehicle;
        let speed = v.body.ground_speed() as f32;
        MavMessage::VFR_HUD(VFR_HUD_DATA {
            airspeed: (speed + jitter(noise, 0.05)).max(0.0),
            groundspeed: speed,
            alt: v.place().altitude_m as f32,
            climb: v.body.velocity.up as f32,
            heading: v.body.yaw().to_degrees() as i16,
            throttle: (v.body.throttle * 100.0) as u16,
        })
    }

    fn terrain(&self) -> MavMessage {
        let place = self.vehicle.place();
        MavMessage::TERRAIN_REPORT(TERRAIN_REPORT_DATA {
            lat: place.lat_e7(),
            lon: place.lon_e7(),
            terrain_height: self.vehicle.origin.altitude_m as f32,
            current_height: self.vehicle.body.position.up as f32,
            spacing: 100,
            pending: 0,
            loaded: 504,
        })
    }

    fn battery(&self) -> MavMessage {
        let battery = &self.vehicle.battery;
        // ArduPilot gives the whole voltage as the first cell when it does not know the cells.
        let mut voltages = [u16::MAX; 10];
        voltages[0] = (battery.voltage() * 1000.0) as u16;
        MavMessage::BATTERY_STATUS(BATTERY_STATUS_DATA {
            current_consumed: battery.used_mah() as i32,
            energy_consumed: -1,
            temperature: i16::MAX,
            voltages,
            current_battery: (battery.current_a() * 100.0) as i16,
            id: 0,
            battery_function: MavBatteryFunction::MAV_BATTERY_FUNCTION_UNKNOWN,
            mavtype: MavBatteryType::MAV_BATTERY_TYPE_UNKNOWN,
            battery_remaining: percent(battery.remaining()),
            time_remaining: 0,
            charge_state: MavBatteryChargeState::MAV_BATTERY_CHARGE_STATE_OK,
            voltages_ext: [0; 4],
            mode: MavBatteryMode::MAV_BATTERY_MODE_UNKNOWN,
            fault_bitmask: MavBatteryFault::empty(),
        })
    }

    fn ekf(&self, noise: &mut ChaCha8Rng) -> MavMessage {
        let mut variance = |typical: f32| typical * (1.0 + jitter(noise, 0.2));
        MavMessage::EKF_STATUS_REPORT(EKF_STATUS_REPORT_DATA {
            velocity_variance: variance(0.03),
            pos_horiz_variance: variance(0.02),
            pos_vert_variance: variance(0.01),
            compass_variance: variance(0.03),
            terrain_alt_variance: 0.0,
            // Attitude, velocities and positions are good, relative, absolute and predicted.
            flags: EkfStatusFlags::from_bits_retain(0x33F),
            airspeed_variance: 0.0,
        })
    }

    fn vibration(&self, noise: &mut ChaCha8Rng) -> MavMessage {
        let level = if self.vehicle.body.throttle > 0.0 { 6.0 } else { 0.05 };
        let mut axis = || level * (1.0 + jitter(noise, 0.3));
        MavMessage::VIBRATION(VIBRATION_DATA {
            time_usec: self.clock.boot_us(self.now),
            vibration_x: axis(),
            vibration_y: axis(),
            vibration_z: axis() * 1.5,
            clipping_0: 0,
            clipping_1: 0,
            clipping_2: 0,
        })
    }

    fn home_position(&self) -> MavMessage {
        let v = self.vehicle;
        let offset = v.origin.to(&v.home);
        MavMessage::HOME_POSITION(HOME_POSITION_DATA {
            latitude: v.home.lat_e7(),
            longitude: v.home.lon_e7(),
            altitude: millimetres(v.home.altitude_m),
            x: offset.north as f32,
            y: offset.east as f32,
            z: -offset.up as f32,
            q: [1.0, 0.0, 0.0, 0.0],
            time_usec: self.clock.boot_us(self.now),
            ..HOME_POSITION_DATA::default()
        })
    }

    fn extended_state(&self) -> MavMessage {
        let v = self.vehicle;
        let landed_state = match (v.body.flying, v.mode.behaviour) {
            (false, _) => MavLandedState::MAV_LANDED_STATE_ON_GROUND,
            (true, Behaviour::Land) => MavLandedState::MAV_LANDED_STATE_LANDING,
            (true, Behaviour::Takeoff) => MavLandedState::MAV_LANDED_STATE_TAKEOFF,
            (true, _) => MavLandedState::MAV_LANDED_STATE_IN_AIR,
        };
        MavMessage::EXTENDED_SYS_STATE(EXTENDED_SYS_STATE_DATA {
            vtol_state: MavVtolState::MAV_VTOL_STATE_UNDEFINED,
            landed_state,
        })
    }
}

fn autopilot_version() -> MavMessage {
    type Capability = MavProtocolCapability;
    // No FTP: parameters and missions go the ordinary way.
    let capabilities = Capability::MAV_PROTOCOL_CAPABILITY_MISSION_FLOAT
        | Capability::MAV_PROTOCOL_CAPABILITY_MISSION_INT
        | Capability::MAV_PROTOCOL_CAPABILITY_COMMAND_INT
        | Capability::MAV_PROTOCOL_CAPABILITY_PARAM_ENCODE_C_CAST
        | Capability::MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_LOCAL_NED
        | Capability::MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_GLOBAL_INT
        | Capability::MAV_PROTOCOL_CAPABILITY_MAVLINK2
        | Capability::MAV_PROTOCOL_CAPABILITY_MISSION_FENCE
        | Capability::MAV_PROTOCOL_CAPABILITY_MISSION_RALLY
        // Bit 1, the older name of the same encoding of parameters.
        | Capability::from_bits_retain(1 << 1);
    MavMessage::AUTOPILOT_VERSION(AUTOPILOT_VERSION_DATA {
        capabilities,
        flight_sw_version: VERSION,
        flight_custom_version: *b"aquilsim",
        ..AUTOPILOT_VERSION_DATA::default()
    })
}

fn millimetres(metres: f64) -> i32 {
    (metres * 1000.0).round() as i32
}

fn percent(share: f64) -> i8 {
    (share * 100.0).round() as i8
}

/// Uniform within plus or minus `amount`.
fn jitter(noise: &mut ChaCha8Rng, amount: f64) -> f32 {
    ((f64::from(noise.next_u32()) / f64::from(u32::MAX) * 2.0 - 1.0) * amount) as f32
}
