//! Flight modes: ArduPilot's numbers and names, and what the simulation makes of them.

use super::Kind;

/// What a mode does. Modes that differ in ArduPilot in ways that the kinematics here do not show share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// The sticks fly it.
    Sticks,
    /// Stays where it is (a plane circles), moved by the sticks.
    Hold,
    /// Flies to where it is told.
    Guided,
    /// Flies the mission.
    Auto,
    /// Flies home; a copter lands there, a plane circles.
    Return,
    /// Lands where it is.
    Land,
    /// Climbs straight ahead, then circles.
    Takeoff,
}

/// A flight mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode {
    /// `custom_mode` in HEARTBEAT.
    pub(super) number: u32,
    /// As ground stations show it.
    pub(super) name: &'static str,
    pub(super) behaviour: Behaviour,
}

impl Mode {
    /// `None`: the vehicle has no such mode.
    pub(super) fn by_number(kind: Kind, number: u32) -> Option<Self> {
        table(kind).iter().copied().find(|mode| mode.number == number)
    }

    /// The vehicle's usual mode of that behaviour.
    pub(super) fn of(kind: Kind, behaviour: Behaviour) -> Self {
        let all = table(kind);
        // Both tables have every behaviour that is asked for; the first mode is the mildest answer otherwise.
        all.iter().copied().find(|mode| mode.behaviour == behaviour).unwrap_or(all[0])
    }
}

fn table(kind: Kind) -> &'static [Mode] {
    match kind {
        Kind::Copter => COPTER,
        Kind::Plane => PLANE,
    }
}

const fn mode(number: u32, name: &'static str, behaviour: Behaviour) -> Mode {
    Mode { number, name, behaviour }
}

/// ArduCopter's `Mode::Number`, COPTER_MODE in ardupilotmega.xml.
const COPTER: &[Mode] = &[
    mode(0, "STABILIZE", Behaviour::Sticks),
    mode(1, "ACRO", Behaviour::Sticks),
    mode(2, "ALT_HOLD", Behaviour::Sticks),
    mode(3, "AUTO", Behaviour::Auto),
    mode(4, "GUIDED", Behaviour::Guided),
    mode(5, "LOITER", Behaviour::Hold),
    mode(6, "RTL", Behaviour::Return),
    mode(9, "LAND", Behaviour::Land),
    mode(13, "SPORT", Behaviour::Sticks),
    mode(16, "POSHOLD", Behaviour::Hold),
    mode(17, "BRAKE", Behaviour::Hold),
    mode(21, "SMART_RTL", Behaviour::Return),
];

/// ArduPlane's `Mode::Number`, PLANE_MODE in ardupilotmega.xml.
const PLANE: &[Mode] = &[
    mode(0, "MANUAL", Behaviour::Sticks),
    mode(1, "CIRCLE", Behaviour::Hold),
    mode(2, "STABILIZE", Behaviour::Sticks),
    mode(5, "FBWA", Behaviour::Sticks),
    mode(6, "FBWB", Behaviour::Sticks),
    mode(7, "CRUISE", Behaviour::Sticks),
    mode(10, "AUTO", Behaviour::Auto),
    mode(11, "RTL", Behaviour::Return),
    mode(12, "LOITER", Behaviour::Hold),
    mode(13, "TAKEOFF", Behaviour::Takeoff),
    mode(15, "GUIDED", Behaviour::Guided),
];
