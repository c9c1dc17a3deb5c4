//! A multicopter: a point that can accelerate in any direction, and the tilt that this takes.

use super::geo::Local;
use super::{Body, Demand, GRAVITY, Limits, approach, wrap_pi};
use crate::aircraft::rc::Deflection;

/// How quickly it follows a demanded velocity, per second.
const VELOCITY_GAIN: f64 = 2.0;
/// How quickly it corrects its height, per second.
const HEIGHT_GAIN: f64 = 1.0;
const CLIMB_ACCELERATION: f64 = 2.0;
/// Air drag as deceleration per speed, 1/s: 10 m/s takes 11 degrees of tilt.
const DRAG: f64 = 0.2;
/// Time constant of tilting, seconds.
const TILT_TIME: f64 = 0.15;
/// Rate of turn towards a demanded heading, and at full stick, rad/s.
const YAW_RATE: f64 = 1.2;
/// Half the throttle range around the middle in which the height is kept.
const THROTTLE_DEAD_BAND: f64 = 0.1;
/// Below this height it lands at the final speed.
const FINAL_HEIGHT: f64 = 10.0;

pub(super) fn step(body: &mut Body, demand: Demand, limits: &Limits, dt: f64) {
    let (velocity, yaw) = match demand {
        Demand::Rest => return rest(body, dt),
        Demand::Goto { target, speed, yaw, .. } => (towards(body, target, speed, limits), heading(body, target, yaw)),
        Demand::Velocity { velocity, yaw_rate } => (velocity, Yaw::Rate(yaw_rate)),
        Demand::Steer(sticks) => (steered(body, sticks, limits), Yaw::Rate(sticks.yaw * YAW_RATE)),
        Demand::Climb { up } => (towards(body, body.position.at_height(up), None, limits), Yaw::Rate(0.0)),
        Demand::Descend => {
            let sink = if body.position.up > FINAL_HEIGHT { limits.sink } else { limits.landing_sink };
            (Local::new(0.0, 0.0, -sink), Yaw::Rate(0.0))
        }
    };
    if !body.flying {
        if velocity.up <= 0.05 {
            return rest(body, dt);
        }
        body.flying = true;
    }
    fly(body, velocity, yaw, limits, dt);
    if body.position.up <= 0.0 && body.velocity.up < 0.0 {
        body.touch_down();
    }
}

enum Yaw {
    Towards(f64),
    Rate(f64),
}

/// Sits on the ground, or keeps still in the air.
fn rest(body: &mut Body, dt: f64) {
    if !body.flying {
        body.throttle = 0.0;
        body.velocity = Local::default();
        let yaw = body.yaw();
        body.integrate([0.0, 0.0, yaw], dt);
    }
}

/// Velocity to a place: as fast as allowed, and slow enough to stop there.
fn towards(body: &Body, target: Local, speed: Option<f64>, limits: &Limits) -> Local {
    let distance = body.position.distance(target);
    let stopping = (2.0 * 0.5 * limits.acceleration * distance).sqrt();
    let speed =
        speed.unwrap_or(limits.speed).clamp(0.0, limits.max_speed.max(limits.speed)).min(stopping).min(distance);
    let bearing = body.position.bearing(target);
    let climb = ((target.up - body.position.up) * HEIGHT_GAIN).clamp(-limits.sink, limits.climb);
    Local::new(speed * bearing.cos(), speed * bearing.sin(), climb)
}

/// Looks where it flies while that is far away.
fn heading(body: &Body, target: Local, yaw: Option<f64>) -> Yaw {
    match yaw {
        Some(yaw) => Yaw::Towards(yaw),
        None if body.position.distance(target) > 2.0 => Yaw::Towards(body.position.bearing(target)),
        None => Yaw::Rate(0.0),
    }
}

fn steered(body: &Body, sticks: Deflection, limits: &Limits) -> Local {
    let (forward, right) = (-sticks.pitch * limits.max_speed, sticks.roll * limits.max_speed);
    let (sin, cos) = body.yaw().sin_cos();
    let lift = sticks.throttle * 2.0 - 1.0;
    let lift = (lift.abs() - THROTTLE_DEAD_BAND).max(0.0) / (1.0 - THROTTLE_DEAD_BAND) * lift.signum();
    let climb = if lift > 0.0 { lift * limits.climb } else { lift * limits.sink };
    Local::new(forward * cos - right * sin, forward * sin + right * cos, climb)
}

fn fly(body: &mut Body, wanted: Local, yaw: Yaw, limits: &Limits, dt: f64) {
    let pull = (wanted - body.velocity) * VELOCITY_GAIN;
    let strength = pull.north.hypot(pull.east);
    let scale = if strength > limits.acceleration { limits.acceleration / strength } else { 1.0 };
    let acceleration =
        Local::new(pull.north * scale, pull.east * scale, pull.up.clamp(-CLIMB_ACCELERATION, CLIMB_ACCELERATION));
    body.velocity += acceleration * dt;

    let (sin, cos) = body.yaw().sin_cos();
    let thrust_north = acceleration.north + DRAG * body.velocity.north;
    let thrust_east = acceleration.east + DRAG * body.velocity.east;
    let tilt = |thrust: f64| thrust.atan2(GRAVITY).clamp(-limits.bank, limits.bank);
    let pitch = -tilt(thrust_north * cos + thrust_east * sin);
    let roll = tilt(thrust_east * cos - thrust_north * sin);
    let follow = (dt / TILT_TIME).min(1.0);
    let [old_roll, old_pitch, old_yaw] = body.attitude;
    let turn = match yaw {
        Yaw::Rate(rate) => rate.clamp(-YAW_RATE, YAW_RATE) * dt,
        Yaw::Towards(yaw) => approach(0.0, wrap_pi(yaw - old_yaw), YAW_RATE * dt),
    };
    body.throttle =
        (limits.cruise_throttle * (1.0 + acceleration.up / GRAVITY + 0.06 * body.velocity.up)).clamp(0.05, 1.0);
    body.integrate(
        [old_roll + (roll - old_roll) * follow, old_pitch + (pitch - old_pitch) * follow, old_yaw + turn],
        dt,
    );
}
