//! How each message travels: its traffic class, and what may become of it when the link is short of room.
//!
//! The lists go by name and are compiled into a table once, so that a look-up on the way is one binary search. What they
//! hold is a judgement, after research into what autopilots and ground stations send once and what they repeat:
//!
//! - what a human or program decided once must arrive, and first: Control, reliable;
//! - what is stale in a moment must never arrive late: setpoints and signs of life, Control, latest wins. Users have crashed
//!   from overrides that a network kept for them (ArduPilot issue 14061, MissionPlanner issue 1972);
//! - what repeats itself by the second may be replaced by its successor: Telemetry, state;
//! - everything else, and every message nobody knows, must not be lost: Telemetry, reliable.

use std::collections::BTreeMap;

use super::frame::{Address, Frame, MessageId};
use super::messages;
use crate::Class;

/// How one message travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Treatment {
    /// Its priority.
    pub class: Class,
    /// What may become of it.
    pub delivery: Delivery,
}

/// What may become of a message on a slow or broken link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// Kept until acknowledged.
    Reliable,
    /// Superseded by the next one with the same [`StateKey`]; dropped at its deadline; never
    /// replayed after an outage.
    Setpoint,
    /// Superseded by the next one with the same [`StateKey`]; sent once, as a datagram.
    State,
}

/// Which messages supersede each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateKey {
    /// The sender.
    pub source: Address,
    /// The message.
    pub message: MessageId,
    /// Which of several instances, such as the battery or the name of a value; see [`Frame::instance`].
    pub instance: u128,
    /// Whom it is for; 0/0 for everybody. One ground station may steer two vehicles.
    pub target: Address,
}

impl StateKey {
    /// The key of a frame.
    pub fn of(frame: &Frame) -> Self {
        Self { source: frame.source(), message: frame.message_id(), instance: frame.instance(), target: frame.target() }
    }
}

/// The treatment of every message: our defaults, and what the configuration says otherwise.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Parallel to [`messages::all`].
    known: Vec<Treatment>,
    /// Overrides for ids not in the table.
    unknown: BTreeMap<MessageId, Treatment>,
}

impl Policy {
    /// Our defaults.
    pub fn new() -> Self {
        let mut policy = Self { known: vec![OTHERS; messages::all().len()], unknown: BTreeMap::new() };
        for (names, treatment) in [(COMMANDS, COMMAND), (SETPOINTS, SETPOINT), (STATES, STATE)] {
            for name in names {
                let info = messages::lookup_name(name);
                debug_assert!(info.is_some(), "{name} is not in the table");
                if let Some(i) = info.and_then(|info| messages::index(info.id)) {
                    policy.known[i] = treatment;
                }
            }
        }
        policy
    }

    /// Changes the treatment of one message. A setpoint or state message that is not in the table has no target or
    /// instance to be told apart by: the newest of its sender supersedes the others.
    pub fn set(&mut self, id: MessageId, treatment: Treatment) {
        match messages::index(id) {
            Some(i) => self.known[i] = treatment,
            None => {
                self.unknown.insert(id, treatment);
            }
        }
    }

    /// Changes the treatment of the message called `name`, or with the decimal id `name`.
    ///
    /// # Errors
    /// [`UnknownMessage`] if it is neither a name in the table nor a number below 2^24.
    pub fn set_named(&mut self, name: &str, treatment: Treatment) -> Result<(), UnknownMessage> {
        self.set(message_named(name)?, treatment);
        Ok(())
    }

    /// The treatment of messages with this id.
    pub fn treatment(&self, id: MessageId) -> Treatment {
        match messages::index(id) {
            Some(i) => self.known[i],
            None if self.unknown.is_empty() => OTHERS,
            None => self.unknown.get(&id).copied().unwrap_or(OTHERS),
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::new()
    }
}

/// The message called `name`, or with the decimal id `name`, as configuration files say it.
///
/// # Errors
/// [`UnknownMessage`] if it is neither a name in the table nor a number below 2^24.
pub fn message_named(name: &str) -> Result<MessageId, UnknownMessage> {
    if let Some(info) = messages::lookup_name(name) {
        return Ok(info.id);
    }
    match name.parse() {
        Ok(id) if id < 1 << 24 => Ok(MessageId(id)),
        _ => Err(UnknownMessage(name.to_owned())),
    }
}

/// Neither a known message's name nor an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither the name of a known MAVLink message (such as MANUAL_CONTROL) nor an id from 0 to 16777215")]
pub struct UnknownMessage(pub String);

const COMMAND: Treatment = Treatment { class: Class::Control, delivery: Delivery::Reliable };
const SETPOINT: Treatment = Treatment { class: Class::Control, delivery: Delivery::Setpoint };
const STATE: Treatment = Treatment { class: Class::Telemetry, delivery: Delivery::State };
const OTHERS: Treatment = Treatment { class: Class::Telemetry, delivery: Delivery::Reliable };

/// Decided once: commands, their acknowledgements, and what changes how the vehicle flies.
const COMMANDS: &[&str] = &[
    "CHANGE_OPERATOR_CONTROL",
    "CHANGE_OPERATOR_CONTROL_ACK",
    "COMMAND_ACK",
    "COMMAND_CANCEL",
    "COMMAND_INT",
    "COMMAND_INT_STAMPED",
    "COMMAND_LONG",
    "COMMAND_LONG_STAMPED",
    "DIGICAM_CONFIGURE",
    "DIGICAM_CONTROL",
    "MISSION_CLEAR_ALL",
    "MISSION_SET_CURRENT",
    "MOUNT_CONFIGURE",
    "MOUNT_CONTROL",
    "PARAM_EXT_SET",
    "PARAM_MAP_RC",
    "PARAM_SET",
    "SAFETY_SET_ALLOWED_AREA",
    "SECURE_COMMAND",
    "SECURE_COMMAND_REPLY",
    "SETUP_SIGNING",
    "SET_GPS_GLOBAL_ORIGIN",
    "SET_HOME_POSITION",
    "SET_MODE",
    "SET_VELOCITY_LIMITS",
];

/// Worthless in a moment: sticks, setpoints, signs of life and clocks.
const SETPOINTS: &[&str] = &[
    "GIMBAL_DEVICE_SET_ATTITUDE",
    "GIMBAL_MANAGER_SET_ATTITUDE",
    "GIMBAL_MANAGER_SET_MANUAL_CONTROL",
    "GIMBAL_MANAGER_SET_PITCHYAW",
    "HEARTBEAT",
    "MANUAL_CONTROL",
    "PING",
    "RADIO_RC_CHANNELS",
    "RC_CHANNELS_OVERRIDE",
    "RC_CHANNELS_OVERRIDE_V2",
    "SET_ACTUATOR_CONTROL_TARGET",
    "SET_ATTITUDE_TARGET",
    "SET_POSITION_TARGET_GLOBAL_INT",
    "SET_POSITION_TARGET_LOCAL_NED",
    "STORM32_GIMBAL_MANAGER_CONTROL",
    "STORM32_GIMBAL_MANAGER_CONTROL_PITCHYAW",
    "SYSTEM_TIME",
    "TIMESYNC",
];

/// Streams: sent again and again, only the newest matters. What is sent once or on request is not here.
const STATES: &[&str] = &[
    "ACTUATOR_CONTROL_TARGET",
    "ACTUATOR_OUTPUT_STATUS",
    "ADAP_TUNING",
    "ADSB_VEHICLE",
    "AHRS",
    "AHRS2",
    "AHRS3",
    "AIRSPEED",
    "AIS_VESSEL",
    "ALTITUDE",
    "AOA_SSA",
    "AP_ADC",
    "ASLCTRL_DATA",
    "ASLCTRL_DEBUG",
    "ASLUAV_STATUS",
    "ASL_OBCTRL",
    "ATTITUDE",
    "ATTITUDE_QUATERNION",
    "ATTITUDE_QUATERNION_COV",
    "ATTITUDE_TARGET",
    "ATT_POS_MOCAP",
    "AUTOPILOT_STATE_FOR_GIMBAL_DEVICE",
    "AUTOPILOT_STATE_FOR_GIMBAL_DEVICE_EXT",
    "AVSS_DRONE_IMU",
    "AVSS_DRONE_OPERATION_MODE",
    "AVSS_DRONE_POSITION",
    "AVSS_PRS_SYS_STATUS",
    "BATTERY2",
    "BATTERY_STATUS",
    "BATTERY_STATUS_V2",
    "CAMERA_FOV_STATUS",
    "CAMERA_TRACKING_GEO_STATUS",
    "CAMERA_TRACKING_IMAGE_STATUS",
    "CELLULAR_STATUS",
    "COMPASSMOT_STATUS",
    "CONTROL_STATUS",
    "CONTROL_SYSTEM_STATE",
    "CUBEPILOT_RAW_RC",
    "DEBUG",
    "DEBUG_FLOAT_ARRAY",
    "DEBUG_VECT",
    "DEEPSTALL",
    "DISTANCE_SENSOR",
    "EFI_STATUS",
    "EKF_EXT",
    "EKF_STATUS_REPORT",
    "ESC_INFO",
    "ESC_STATUS",
    "ESC_TELEMETRY_13_TO_16",
    "ESC_TELEMETRY_17_TO_20",
    "ESC_TELEMETRY_1_TO_4",
    "ESC_TELEMETRY_21_TO_24",
    "ESC_TELEMETRY_25_TO_28",
    "ESC_TELEMETRY_29_TO_32",
    "ESC_TELEMETRY_5_TO_8",
    "ESC_TELEMETRY_9_TO_12",
    "ESTIMATOR_SENSOR_FUSION_STATUS",
    "ESTIMATOR_STATUS",
    "EXTENDED_SYS_STATE",
    "FENCE_STATUS",
    "FIGURE_EIGHT_EXECUTION_STATUS",
    "FOLLOW_TARGET",
    "FUEL_STATUS",
    "FW_SOARING_DATA",
    "GENERATOR_STATUS",
    "GIMBAL_DEVICE_ATTITUDE_STATUS",
    "GIMBAL_MANAGER_STATUS",
    "GIMBAL_REPORT",
    "GIMBAL_TORQUE_CMD_REPORT",
    "GLOBAL_POSITION_INT",
    "GLOBAL_POSITION_INT_COV",
    "GLOBAL_POSITION_SENSOR",
    "GLOBAL_VISION_POSITION_ESTIMATE",
    "GNSS_INTEGRITY",
    "GPS2_RAW",
    "GPS2_RTK",
    "GPS_INPUT",
    "GPS_RAW_INT",
    "GPS_RTK",
    "GPS_STATUS",
    "GSM_LINK_STATUS",
    "HERELINK_TELEM",
    "HIGHRES_IMU",
    "HIGH_LATENCY",
    "HIGH_LATENCY2",
    "HIL_ACTUATOR_CONTROLS",
    "HIL_CONTROLS",
    "HIL_GPS",
    "HIL_OPTICAL_FLOW",
    "HIL_RC_INPUTS_RAW",
    "HIL_SENSOR",
    "HIL_STATE",
    "HIL_STATE_QUATERNION",
    "HWSTATUS",
    "HYGROMETER_SENSOR",
    "ICAROUS_KINEMATIC_BANDS",
    "ISBD_LINK_STATUS",
    "LANDING_TARGET",
    "LIMITS_STATUS",
    "LINK_NODE_STATUS",
    "LOCAL_POSITION_NED",
    "LOCAL_POSITION_NED_COV",
    "LOCAL_POSITION_NED_SYSTEM_GLOBAL_OFFSET",
    "LOWEHEISER_GOV_EFI",
    "MAG_CAL_PROGRESS",
    "MANUAL_INPUT_STATUS",
    "MANUAL_SETPOINT",
    "MCU_STATUS",
    "MEMINFO",
    "MISSION_CURRENT",
    "MLRS_RADIO_LINK_FLOW_CONTROL",
    "MLRS_RADIO_LINK_STATS",
    "MOUNT_ORIENTATION",
    "MOUNT_STATUS",
    "NAMED_VALUE_FLOAT",
    "NAMED_VALUE_INT",
    "NAV_CONTROLLER_OUTPUT",
    "NAV_FILTER_BIAS",
    "OBSTACLE_DISTANCE",
    "OBSTACLE_DISTANCE_3D",
    "ODOMETRY",
    "ONBOARD_COMPUTER_STATUS",
    "OPTICAL_FLOW",
    "OPTICAL_FLOW_RAD",
    "ORBIT_EXECUTION_STATUS",
    "PID_TUNING",
    "POSITION_TARGET_GLOBAL_INT",
    "POSITION_TARGET_LOCAL_NED",
    "POWER_STATUS",
    "RADIO",
    "RADIO_STATUS",
    "RANGEFINDER",
    "RAW_IMU",
    "RAW_PRESSURE",
    "RAW_RPM",
    "RC_CHANNELS",
    "RC_CHANNELS_RAW",
    "RC_CHANNELS_SCALED",
    "RPM",
    "SATCOM_LINK_STATUS",
    "SCALED_IMU",
    "SCALED_IMU2",
    "SCALED_IMU3",
    "SCALED_PRESSURE",
    "SCALED_PRESSURE2",
    "SCALED_PRESSURE3",
    "SENSORPOD_STATUS",
    "SENSOR_AIRFLOW_ANGLES",
    "SENSOR_OFFSETS",
    "SENS_ATMOS",
    "SENS_BATMON",
    "SENS_MPPT",
    "SENS_POWER",
    "SENS_POWER_BOARD",
    "SERVO_OUTPUT_RAW",
    "SIMSTATE",
    "SIM_STATE",
    "STORM32_GIMBAL_MANAGER_STATUS",
    "SYS_STATUS",
    "TARGET_ABSOLUTE",
    "TARGET_RELATIVE",
    "TERRAIN_REPORT",
    "TIME_ESTIMATE_TO_TARGET",
    "UALBERTA_SYS_STATUS",
    "UAVCAN_NODE_STATUS",
    "VELOCITY_LIMITS",
    "VFR_HUD",
    "VIBRATION",
    "VICON_POSITION_ESTIMATE",
    "VISION_POSITION_ESTIMATE",
    "VISION_SPEED_ESTIMATE",
    "WATER_DEPTH",
    "WHEEL_DISTANCE",
    "WIND",
    "WINCH_STATUS",
    "WIND_COV",
];

#[cfg(test)]
#[path = "treatment_tests.rs"]
mod tests;
