//! A fixed-wing aircraft: it always moves ahead, and turns by banking.

use std::f64::consts::FRAC_PI_2;

use super::geo::Local;
use super::{Body, Demand, GRAVITY, Limits, approach, wrap_pi};

/// Bank per error of course.
const COURSE_GAIN: f64 = 1.6;
/// Time constant of banking, seconds.
const ROLL_TIME: f64 = 0.4;
/// How quickly it corrects its height, per second.
const HEIGHT_GAIN: f64 = 0.35;
const CLIMB_ACCELERATION: f64 = 2.0;
/// Nose up in level flight, radians.
const TRIM_PITCH: f64 = 0.035;
/// It lifts off at this much above its lowest airspeed.
const LIFT_OFF: f64 = 1.15;
/// Below this height wings are kept level after take-off.
const WINGS_LEVEL: f64 = 10.0;
/// Braking on the ground, m/s².
const BRAKING: f64 = 4.0;

pub(super) fn step(body: &mut Body, demand: Demand, limits: &Limits, dt: f64) {
    if body.flying {
        fly(body, demand, limits, dt);
    } else {
        roll_on_ground(body, demand, limits, dt);
    }
}

/// What a demand means for an aircraft in the air.
struct Aim {
    /// `None`: the wings follow the bank that is given.
    course: Option<f64>,
    bank: f64,
    climb: f64,
    speed: f64,
}

fn fly(body: &mut Body, demand: Demand, limits: &Limits, dt: f64) {
    let aim = aim(body, demand, limits);
    let speed = body.ground_speed();
    let speed = approach(speed, aim.speed.clamp(limits.min_speed, limits.max_speed), limits.acceleration * 0.5 * dt);
    let bank = match aim.course {
        Some(course) => (wrap_pi(course - body.yaw()) * COURSE_GAIN).clamp(-limits.bank, limits.bank),
        None => aim.bank.clamp(-limits.bank, limits.bank),
    };
    let [roll, _, yaw] = body.attitude;
    let roll = roll + (bank - roll) * (dt / ROLL_TIME).min(1.0);
    let yaw = yaw + GRAVITY * roll.tan() / speed.max(limits.min_speed) * dt;
    let climb = approach(body.velocity.up, aim.climb.clamp(-limits.sink, limits.climb), CLIMB_ACCELERATION * dt);
    let pitch = TRIM_PITCH + (climb / speed.max(1.0)).clamp(-0.6, 0.6).asin();
    body.velocity = Local::new(speed * yaw.cos(), speed * yaw.sin(), climb);
    let effort = 0.35 * climb / limits.climb + 0.15 * (1.0 / roll.cos() - 1.0) + 0.02 * (speed - limits.speed);
    body.throttle = (limits.cruise_throttle + effort).clamp(0.0, 1.0);
    body.integrate([roll, pitch, yaw], dt);
    if body.position.up <= 0.0 && body.velocity.up <= 0.0 {
        body.position.up = 0.0;
        body.velocity.up = 0.0;
        body.flying = false;
    }
}

fn aim(body: &Body, demand: Demand, limits: &Limits) -> Aim {
    let to_height = |up: f64| (up - body.position.up) * HEIGHT_GAIN;
    let straight = |climb: f64| Aim { course: None, bank: 0.0, climb, speed: limits.speed };
    match demand {
        Demand::Rest => straight(-limits.sink),
        Demand::Goto { target, speed, through, .. } => {
            let course = if through { body.position.bearing(target) } else { circling(body, target, limits.radius) };
            Aim { course: Some(course), climb: to_height(target.up), bank: 0.0, speed: speed.unwrap_or(limits.speed) }
        }
        Demand::Velocity { velocity, .. } => {
            let speed = velocity.north.hypot(velocity.east);
            let course = if speed > 0.1 { velocity.east.atan2(velocity.north) } else { body.yaw() };
            Aim { course: Some(course), climb: velocity.up, bank: 0.0, speed }
        }
        Demand::Steer(sticks) => Aim {
            course: None,
            bank: sticks.roll * limits.bank,
            climb: if sticks.pitch > 0.0 { sticks.pitch * limits.climb } else { sticks.pitch * limits.sink },
            speed: limits.min_speed + sticks.throttle * (limits.max_speed - limits.min_speed),
        },
        Demand::Climb { up } => straight(if body.position.up < WINGS_LEVEL { limits.climb } else { to_height(up) }),
        Demand::Descend => Aim { speed: limits.min_speed * 1.2, ..straight(-limits.landing_sink) },
    }
}

/// Course that leads onto a clockwise circle around `centre` and along it: outside it points ever more at the centre.
fn circling(body: &Body, centre: Local, radius: f64) -> f64 {
    let inwards = ((body.position.distance(centre) - radius) / (radius * 0.5)).atan();
    body.position.bearing(centre) - FRAC_PI_2 + inwards.clamp(-FRAC_PI_2, FRAC_PI_2)
}

/// Runs along the runway until it is fast enough to fly, or brakes.
fn roll_on_ground(body: &mut Body, demand: Demand, limits: &Limits, dt: f64) {
    let wants_to_fly = match demand {
        Demand::Rest | Demand::Descend => false,
        Demand::Climb { up } => up > body.position.up,
        Demand::Goto { target, .. } => target.up > body.position.up + 1.0,
        Demand::Velocity { velocity, .. } => velocity.up > 0.0,
        Demand::Steer(sticks) => sticks.throttle > 0.5,
    };
    let (target, rate) = if wants_to_fly { (limits.speed, limits.acceleration) } else { (0.0, BRAKING) };
    let speed = approach(body.ground_speed(), target, rate * dt);
    body.throttle = if wants_to_fly { 0.9 } else { 0.0 };
    let yaw = body.yaw();
    body.velocity = Local::new(speed * yaw.cos(), speed * yaw.sin(), 0.0);
    body.integrate([0.0, 0.0, yaw], dt);
    body.flying = wants_to_fly && speed >= limits.min_speed * LIFT_OFF;
}
