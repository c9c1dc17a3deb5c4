//! How the vehicle moves: believable, not exact. No wind, flat ground.

pub(super) mod battery;
mod copter;
pub(super) mod geo;
mod plane;

use geo::Local;

use super::Kind;
use super::params::Params;
use super::rc::Deflection;

/// Standard gravity, m/s².
pub(super) const GRAVITY: f64 = 9.806_65;

/// Position and attitude of the vehicle.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Body {
    /// From where it was switched on; that is at ground level.
    pub(super) position: Local,
    /// Metres per second.
    pub(super) velocity: Local,
    /// Roll, pitch, yaw in radians; yaw is 0 to 2π from north.
    pub(super) attitude: [f64; 3],
    /// Their change, radians per second.
    pub(super) rates: [f64; 3],
    /// 0 to 1.
    pub(super) throttle: f64,
    pub(super) flying: bool,
}

impl Body {
    pub(super) fn ground_speed(&self) -> f64 {
        self.velocity.north.hypot(self.velocity.east)
    }

    pub(super) fn yaw(&self) -> f64 {
        self.attitude[2]
    }

    /// Moves on by `dt` seconds and sets the rates from the change of attitude.
    fn integrate(&mut self, attitude: [f64; 3], dt: f64) {
        for (n, angle) in attitude.into_iter().enumerate() {
            self.rates[n] = wrap_pi(angle - self.attitude[n]) / dt;
            self.attitude[n] = angle;
        }
        self.attitude[2] = self.attitude[2].rem_euclid(std::f64::consts::TAU);
        self.position += self.velocity * dt;
    }

    /// Puts it to rest on the ground.
    fn touch_down(&mut self) {
        self.position.up = 0.0;
        self.velocity = Local::default();
        self.flying = false;
    }
}

/// What the vehicle shall do now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Demand {
    /// Motors off, or idling on the ground.
    Rest,
    /// Be at a place. A copter stops there, a plane circles it, unless it shall fly `through`.
    Goto { target: Local, speed: Option<f64>, yaw: Option<f64>, through: bool },
    /// Move with this velocity (m/s) and turn at this rate (rad/s). A plane takes its course and climb from it.
    Velocity { velocity: Local, yaw_rate: f64 },
    /// Obey the sticks.
    Steer(Deflection),
    /// Rise to this height, a copter upright, a plane straight ahead.
    Climb { up: f64 },
    /// Land here; a plane straight ahead.
    Descend,
}

/// What the vehicle is able to, from its parameters. Metres and seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limits {
    pub(super) speed: f64,
    pub(super) max_speed: f64,
    pub(super) min_speed: f64,
    pub(super) climb: f64,
    pub(super) sink: f64,
    pub(super) landing_sink: f64,
    pub(super) acceleration: f64,
    /// Radius of a plane's circles.
    pub(super) radius: f64,
    /// Largest bank of a plane, radians.
    pub(super) bank: f64,
    /// Throttle that keeps the height.
    pub(super) cruise_throttle: f64,
}

impl Limits {
    pub(super) fn new(kind: Kind, params: &Params) -> Self {
        let value = |name| f64::from(params.value(name));
        // A parameter set to nonsense makes a slow vehicle, not one that divides by zero.
        let at_least = |name, scale: f64, least: f64| (value(name) * scale).max(least);
        match kind {
            Kind::Copter => Self {
                speed: at_least("WPNAV_SPEED", 0.01, 0.2),
                max_speed: at_least("LOIT_SPEED", 0.01, 0.2),
                min_speed: 0.0,
                climb: at_least("WPNAV_SPEED_UP", 0.01, 0.1),
                sink: at_least("WPNAV_SPEED_DN", 0.01, 0.1),
                landing_sink: at_least("LAND_SPEED", 0.01, 0.1),
                acceleration: at_least("WPNAV_ACCEL", 0.01, 0.5),
                radius: at_least("CIRCLE_RADIUS", 0.01, 1.0),
                bank: (value("ANGLE_MAX") * 0.01).to_radians().clamp(0.1, 1.0),
                cruise_throttle: value("MOT_THST_HOVER").clamp(0.1, 0.9),
            },
            Kind::Plane => Self {
                speed: at_least("AIRSPEED_CRUISE", 1.0, 8.0),
                max_speed: at_least("AIRSPEED_MAX", 1.0, 9.0).max(value("AIRSPEED_MIN") + 2.0),
                min_speed: at_least("AIRSPEED_MIN", 1.0, 7.0),
                climb: at_least("TECS_CLMB_MAX", 1.0, 0.5),
                sink: at_least("TECS_SINK_MAX", 1.0, 0.5),
                landing_sink: 1.5,
                acceleration: 3.0,
                radius: value("WP_LOITER_RAD").abs().max(20.0),
                bank: value("ROLL_LIMIT_DEG").to_radians().clamp(0.2, 1.1),
                cruise_throttle: (value("TRIM_THROTTLE") * 0.01).clamp(0.1, 0.9),
            },
        }
    }
}

/// Moves the body on by `dt` seconds.
pub(super) fn step(kind: Kind, body: &mut Body, demand: Demand, limits: &Limits, dt: f64) {
    match kind {
        Kind::Copter => copter::step(body, demand, limits, dt),
        Kind::Plane => plane::step(body, demand, limits, dt),
    }
}

/// `value` moved towards `target` by at most `step`.
fn approach(value: f64, target: f64, step: f64) -> f64 {
    value + (target - value).clamp(-step, step)
}

/// Into -π to π.
pub(super) fn wrap_pi(angle: f64) -> f64 {
    (angle + std::f64::consts::PI).rem_euclid(std::f64::consts::TAU) - std::f64::consts::PI
}
