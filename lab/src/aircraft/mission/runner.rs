//! Flies a mission, item by item.

use std::time::{Duration, Instant};

use mavlink::dialects::ardupilotmega::MavCmd;

use super::Item;
use crate::aircraft::Kind;
use crate::aircraft::flight::geo::{Local, Place};
use crate::aircraft::flight::{Body, Demand, Limits};

/// Height that a plane loses on its approach, per distance.
const GLIDE_SLOPE: f64 = 0.1;

/// Commands below this number take the vehicle somewhere (MAV_CMD_NAV_LAST).
const NAV_LAST: u32 = 95;

/// What the runner needs to know of the vehicle.
#[derive(Debug, Clone, Copy)]
pub(in crate::aircraft) struct World<'a> {
    pub(in crate::aircraft) kind: Kind,
    pub(in crate::aircraft) now: Instant,
    pub(in crate::aircraft) body: &'a Body,
    pub(in crate::aircraft) limits: &'a Limits,
    /// Origin of the body's position.
    pub(in crate::aircraft) origin: &'a Place,
    pub(in crate::aircraft) home: &'a Place,
    /// A waypoint counts as reached within this distance, metres.
    pub(in crate::aircraft) arrival: f64,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::aircraft) enum Progress {
    /// Do this.
    Fly(Demand),
    /// Fly home.
    Return,
    /// Nothing is left.
    Finished,
}

/// Position in the mission.
#[derive(Debug)]
pub(in crate::aircraft) struct Runner {
    /// Number of the item that is being flown; 0 before the start.
    current: usize,
    /// When the item's place was reached.
    arrived: Option<Instant>,
    /// From DO_CHANGE_SPEED, m/s.
    speed: Option<f64>,
    /// Jumps taken at each DO_JUMP.
    jumps: Vec<(usize, u16)>,
    /// Items reached since the last look.
    reached: Vec<u16>,
}

impl Runner {
    pub(in crate::aircraft) fn new() -> Self {
        Self { current: 0, arrived: None, speed: None, jumps: Vec::new(), reached: Vec::new() }
    }

    pub(in crate::aircraft) fn current(&self) -> u16 {
        self.current as u16
    }

    /// Continues with item `seq`.
    pub(in crate::aircraft) fn jump_to(&mut self, seq: u16) {
        self.current = seq.into();
        self.arrived = None;
    }

    /// Items reached since the last call, in order.
    pub(in crate::aircraft) fn take_reached(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.reached)
    }

    /// Goes through the items until one takes time.
    pub(in crate::aircraft) fn step(&mut self, items: &[Item], world: World<'_>) -> Progress {
        self.current = self.current.max(1);
        // Jumps may lead in a circle without an item that takes time; then the rest has to wait for the next step.
        for _ in 0..=items.len() {
            let Some(item) = items.get(self.current) else { return Progress::Finished };
            match self.fly(item, world) {
                Some(progress) => return progress,
                None => self.advance(item),
            }
        }
        Progress::Fly(Demand::Goto { target: world.body.position, speed: None, yaw: None, through: false })
    }

    /// `None`: the item is done.
    fn fly(&mut self, item: &Item, world: World<'_>) -> Option<Progress> {
        let target = place(item, world);
        let speed = self.speed;
        let goto = |through| Progress::Fly(Demand::Goto { target, speed, yaw: None, through });
        let near = world.body.position.distance(target) <= world.arrival;
        let level = world.kind == Kind::Plane || (world.body.position.up - target.up).abs() <= world.arrival;
        match item.command {
            MavCmd::MAV_CMD_NAV_TAKEOFF => {
                let done = world.body.flying && world.body.position.up >= target.up - 0.5;
                (!done).then_some(Progress::Fly(Demand::Climb { up: target.up }))
            }
            MavCmd::MAV_CMD_NAV_WAYPOINT | MavCmd::MAV_CMD_NAV_SPLINE_WAYPOINT => {
                let wait = Duration::try_from_secs_f32(item.param1).unwrap_or_default();
                self.stay(near && level, wait, world.now).then(|| goto(wait.is_zero()))
            }
            MavCmd::MAV_CMD_NAV_LOITER_UNLIM => Some(goto(false)),
            MavCmd::MAV_CMD_NAV_LOITER_TIME | MavCmd::MAV_CMD_NAV_DELAY => {
                let wait = Duration::try_from_secs_f32(item.param1).unwrap_or_default();
                self.stay(circles(near, world, target) && level, wait, world.now).then(|| goto(false))
            }
            MavCmd::MAV_CMD_NAV_LOITER_TURNS => {
                let speed = self.speed.unwrap_or(world.limits.speed).max(0.1);
                let turn = std::f64::consts::TAU * world.limits.radius / speed;
                let wait = Duration::try_from_secs_f64(turn * f64::from(item.param1)).unwrap_or_default();
                self.stay(circles(near, world, target) && level, wait, world.now).then(|| goto(false))
            }
            MavCmd::MAV_CMD_NAV_RETURN_TO_LAUNCH => Some(Progress::Return),
            MavCmd::MAV_CMD_NAV_LAND => self.land(near, target, world),
            MavCmd::MAV_CMD_DO_CHANGE_SPEED => {
                self.speed = (item.param2 > 0.0).then(|| f64::from(item.param2)).or(self.speed);
                None
            }
            // Cameras, servos and the like: nothing that would show here.
            _ => None,
        }
    }

    /// Whether the vehicle has still to stay: it has not arrived, or not waited for long enough.
    fn stay(&mut self, arrived: bool, wait: Duration, now: Instant) -> bool {
        if self.arrived.is_none() && arrived {
            self.arrived = Some(now);
        }
        self.arrived.is_none_or(|since| now.saturating_duration_since(since) < wait)
    }

    fn land(&mut self, near: bool, target: Local, world: World<'_>) -> Option<Progress> {
        if !world.body.flying {
            return None;
        }
        if self.arrived.is_none() && near {
            self.arrived = Some(world.now);
        }
        let height = match world.kind {
            Kind::Copter => world.body.position.up,
            Kind::Plane => world.body.position.up.min(world.body.position.distance(target) * GLIDE_SLOPE),
        };
        let approach = Demand::Goto { target: target.at_height(height), speed: self.speed, yaw: None, through: true };
        Some(Progress::Fly(if self.arrived.is_some() { Demand::Descend } else { approach }))
    }

    fn advance(&mut self, item: &Item) {
        if (item.command as u32) < NAV_LAST {
            self.reached.push(self.current as u16);
        }
        self.arrived = None;
        self.current += 1;
        if item.command == MavCmd::MAV_CMD_DO_JUMP && self.may_jump(self.current - 1, item.param2) {
            self.current = (item.param1.max(1.0) as usize).max(1);
        }
    }

    /// Counts a jump; `times` below zero stands for ever.
    fn may_jump(&mut self, at: usize, times: f32) -> bool {
        let n = self.jumps.iter().position(|(seq, _)| *seq == at).unwrap_or_else(|| {
            self.jumps.push((at, 0));
            self.jumps.len() - 1
        });
        let taken = &mut self.jumps[n].1;
        let may = times < 0.0 || f32::from(*taken) < times;
        *taken = taken.saturating_add(may.into());
        may
    }
}

/// Arrived, or circling: a plane that circles a place never gets nearer than its circle.
fn circles(near: bool, world: World<'_>, target: Local) -> bool {
    near || (world.kind == Kind::Plane && world.body.position.distance(target) <= world.limits.radius * 1.2)
}

/// Where an item lies; without coordinates, where the vehicle is.
fn place(item: &Item, world: World<'_>) -> Local {
    let height = world.origin.height_of(item.frame, item.z, world.home);
    if item.x == 0 && item.y == 0 {
        return world.body.position.at_height(height);
    }
    world.origin.to(&Place::from_e7(item.x, item.y, 0.0)).at_height(height)
}
