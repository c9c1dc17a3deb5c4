//! The vehicle itself: what it is doing, and what it may be told to do.

use std::time::{Duration, Instant};

use mavlink::dialects::ardupilotmega::{MISSION_ITEM_REACHED_DATA, MavMessage, MavSeverity, STATUSTEXT_DATA};

use super::failsafe::{GcsFailsafe, Verdict};
use super::flight::battery::Battery;
use super::flight::geo::{Local, Place};
use super::flight::{Body, Demand, Limits, step};
use super::mission::{Missions, Progress, Runner, World};
use super::modes::{Behaviour, Mode};
use super::params::Params;
use super::rc::Sticks;
use super::wire::Outbox;
use super::{AircraftConfig, Kind};

/// Step of the kinematics.
pub(super) const TICK: Duration = Duration::from_millis(20);

/// Its state. Heights are above the origin unless a name says otherwise.
#[derive(Debug)]
pub(super) struct Vehicle {
    pub(super) kind: Kind,
    /// Where it was switched on; origin of the body's position.
    pub(super) origin: Place,
    pub(super) home: Place,
    pub(super) body: Body,
    pub(super) battery: Battery,
    pub(super) params: Params,
    pub(super) mode: Mode,
    pub(super) armed: bool,
    pub(super) sticks: Sticks,
    pub(super) missions: Missions,
    pub(super) runner: Runner,
    pub(super) failsafe: GcsFailsafe,
    limits: Limits,
    guided: Guided,
    /// Where a mode that stays somewhere stays.
    hold: Local,
    /// How far it has got on its way home.
    way_home: WayHome,
    /// Since when it has been armed and on the ground.
    idle_since: Option<Instant>,
    /// What it is doing, for telemetry.
    demand: Demand,
}

/// The task of guided mode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Guided {
    /// Stay.
    Hold,
    /// Rise to this height.
    TakeOff { up: f64 },
    /// Go there.
    Place { target: Local, speed: Option<f64>, yaw: Option<f64> },
    /// Move like this, until GUID_TIMEOUT has passed without another word.
    Velocity { velocity: Local, yaw_rate: f64, since: Instant },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum WayHome {
    Climb,
    Fly,
    Wait { since: Instant },
    Land,
}

/// Why something was refused; the text goes to the ground station.
pub(super) type Refusal = &'static str;

impl Vehicle {
    pub(super) fn new(config: &AircraftConfig) -> Self {
        let params = Params::new(config.kind);
        let body = Body { attitude: [0.0, 0.0, config.heading_deg.to_radians()], ..Body::default() };
        Self {
            kind: config.kind,
            origin: config.home,
            home: config.home,
            body,
            battery: Battery::new(params.value("BATT_CAPACITY")),
            limits: Limits::new(config.kind, &params),
            params,
            mode: Mode::of(config.kind, Behaviour::Sticks),
            armed: false,
            sticks: Sticks::default(),
            missions: Missions::default(),
            runner: Runner::new(),
            failsafe: GcsFailsafe::default(),
            guided: Guided::Hold,
            hold: body.position,
            way_home: WayHome::Climb,
            idle_since: None,
            demand: Demand::Rest,
        }
    }

    /// Where it is.
    pub(super) fn place(&self) -> Place {
        self.origin.offset(self.body.position)
    }

    /// Height above home, metres.
    pub(super) fn height(&self) -> f64 {
        self.place().altitude_m - self.home.altitude_m
    }

    /// Where it is flying to.
    pub(super) fn target(&self) -> Option<Local> {
        match self.demand {
            Demand::Goto { target, .. } => Some(target),
            Demand::Climb { up } => Some(self.body.position.at_height(up)),
            _ => None,
        }
    }

    pub(super) fn on_params_changed(&mut self) {
        self.limits = Limits::new(self.kind, &self.params);
    }

    pub(super) fn set_mode(&mut self, mode: Mode) -> Result<(), Refusal> {
        if mode == self.mode {
            return Ok(());
        }
        if mode.behaviour == Behaviour::Auto && self.missions.mission().len() < 2 {
            return Err("Mode change to AUTO failed: no mission");
        }
        self.mode = mode;
        self.hold = self.stopping_point();
        self.guided = match mode.behaviour {
            Behaviour::Takeoff => Guided::TakeOff { up: self.above_home(f64::from(self.params.value("TKOFF_ALT"))) },
            _ => Guided::Hold,
        };
        self.way_home = WayHome::Climb;
        self.idle_since = None;
        Ok(())
    }

    pub(super) fn set_behaviour(&mut self, behaviour: Behaviour) -> Result<(), Refusal> {
        self.set_mode(Mode::of(self.kind, behaviour))
    }

    pub(super) fn arm(&mut self, out: &mut Outbox) -> Result<(), Refusal> {
        if self.armed {
            return Ok(());
        }
        if matches!(self.mode.behaviour, Behaviour::Return | Behaviour::Land) {
            return Err("Arm: mode not armable");
        }
        self.armed = true;
        self.idle_since = None;
        self.runner = Runner::new();
        // ArduPilot's home is where the vehicle was armed last.
        self.home = self.place();
        out.say(MavSeverity::MAV_SEVERITY_INFO, "Arming motors");
        Ok(())
    }

    pub(super) fn disarm(&mut self, force: bool, out: &mut Outbox) -> Result<(), Refusal> {
        if !self.armed {
            return Ok(());
        }
        if self.body.flying && !force {
            return Err("Disarm: in flight");
        }
        self.armed = false;
        self.guided = Guided::Hold;
        out.say(MavSeverity::MAV_SEVERITY_INFO, "Disarming motors");
        Ok(())
    }

    /// Rises to `height` metres above home.
    pub(super) fn take_off(&mut self, height: f64) -> Result<(), Refusal> {
        if !self.armed {
            return Err("Takeoff: not armed");
        }
        if !(height > 0.0 && height.is_finite()) {
            return Err("Takeoff: no altitude");
        }
        match (self.kind, self.mode.behaviour) {
            (Kind::Copter, Behaviour::Guided) if self.body.flying => return Err("Takeoff: already flying"),
            (_, Behaviour::Guided) => {}
            (Kind::Plane, _) => self.set_behaviour(Behaviour::Takeoff)?,
            (Kind::Copter, _) => return Err("Takeoff: not in GUIDED"),
        }
        self.guided = Guided::TakeOff { up: self.above_home(height) };
        Ok(())
    }

    /// The task of guided mode; refused in others.
    pub(super) fn guide(&mut self, task: Guided) -> Result<(), Refusal> {
        if self.mode.behaviour != Behaviour::Guided {
            return Err("not in GUIDED");
        }
        if self.kind == Kind::Copter && !self.body.flying {
            return Err("not flying");
        }
        self.guided = task;
        Ok(())
    }

    /// Height above the origin of a height above home.
    pub(super) fn above_home(&self, height: f64) -> f64 {
        height + self.home.altitude_m - self.origin.altitude_m
    }

    /// After this time without a ground station the failsafe fires; `None` when it is off or would save nothing.
    pub(super) fn failsafe_timeout(&self) -> Option<Duration> {
        let (enable, timeout) = match self.kind {
            Kind::Copter => ("FS_GCS_ENABLE", "FS_GCS_TIMEOUT"),
            Kind::Plane => ("FS_GCS_ENABL", "FS_LONG_TIMEOUT"),
        };
        (self.armed && self.body.flying && self.params.value(enable) > 0.0).then(|| self.params.seconds(timeout))
    }

    /// A word from the ground station that counts as a sign of life.
    pub(super) fn on_gcs_alive(&mut self, now: Instant, heartbeat: bool, out: &mut Outbox) {
        if self.failsafe.on_sign_of_life(now, heartbeat) == Some(Verdict::Cleared) {
            out.say(MavSeverity::MAV_SEVERITY_WARNING, "GCS Failsafe Cleared");
        }
    }

    /// Moves on by one [`TICK`], to `now`.
    pub(super) fn tick(&mut self, now: Instant, out: &mut Outbox) {
        let dt = TICK.as_secs_f64();
        self.sticks.expire(now, self.params.seconds("RC_OVERRIDE_TIME"));
        self.demand = if self.armed { self.decide(now) } else { Demand::Rest };
        step(self.kind, &mut self.body, self.demand, &self.limits, dt);
        self.battery.step(if self.armed { self.body.throttle.max(0.05) } else { 0.0 }, dt);
        self.disarm_when_done(now, out);
        for seq in self.runner.take_reached() {
            out.send(&MavMessage::MISSION_ITEM_REACHED(MISSION_ITEM_REACHED_DATA { seq }));
            out.say(MavSeverity::MAV_SEVERITY_INFO, &format!("Reached command #{seq}"));
        }
    }

    /// Fires the failsafe if it is due.
    pub(super) fn check_failsafe(&mut self, now: Instant, out: &mut Outbox) {
        if self.failsafe.check(now, self.failsafe_timeout()) == Some(Verdict::Lost) {
            out.say(MavSeverity::MAV_SEVERITY_WARNING, "GCS Failsafe");
            // The return mode exists and is never refused.
            let _ = self.set_behaviour(Behaviour::Return);
        }
    }

    fn decide(&mut self, now: Instant) -> Demand {
        match self.mode.behaviour {
            Behaviour::Sticks => self.sticks_or_hold(),
            Behaviour::Hold if self.kind == Kind::Copter => self.sticks_or_hold(),
            Behaviour::Hold => self.stay(),
            Behaviour::Guided | Behaviour::Takeoff => self.guided_demand(now),
            Behaviour::Auto => self.fly_mission(now),
            Behaviour::Return => self.fly_home(now),
            Behaviour::Land => Demand::Descend,
        }
    }

    fn sticks_or_hold(&mut self) -> Demand {
        if self.sticks.is_held() {
            self.hold = self.stopping_point();
            Demand::Steer(self.sticks.deflection())
        } else if self.body.flying {
            self.stay()
        } else {
            Demand::Rest
        }
    }

    fn stay(&self) -> Demand {
        if !self.body.flying {
            return Demand::Rest;
        }
        Demand::Goto { target: self.hold, speed: None, yaw: None, through: false }
    }

    fn guided_demand(&mut self, now: Instant) -> Demand {
        match self.guided {
            Guided::Hold => self.stay(),
            Guided::TakeOff { up } => self.climb_then_hold(up),
            Guided::Place { target, speed, yaw } => Demand::Goto { target, speed, yaw, through: false },
            Guided::Velocity { velocity, yaw_rate, since } => {
                if now.saturating_duration_since(since) < self.params.seconds("GUID_TIMEOUT") {
                    self.hold = self.stopping_point();
                    return Demand::Velocity { velocity, yaw_rate };
                }
                self.guided = Guided::Hold;
                self.stay()
            }
        }
    }

    fn climb_then_hold(&mut self, up: f64) -> Demand {
        let close_enough = match self.kind {
            Kind::Copter => 0.3,
            Kind::Plane => 3.0,
        };
        if !self.body.flying || self.body.position.up < up - close_enough {
            return Demand::Climb { up };
        }
        self.hold = self.body.position.at_height(up);
        self.guided = Guided::Hold;
        self.stay()
    }

    fn fly_mission(&mut self, now: Instant) -> Demand {
        let arrival = match self.kind {
            Kind::Copter => f64::from(self.params.value("WPNAV_RADIUS")) * 0.01,
            Kind::Plane => f64::from(self.params.value("WP_RADIUS")),
        };
        let world = World {
            kind: self.kind,
            now,
            body: &self.body,
            limits: &self.limits,
            origin: &self.origin,
            home: &self.home,
            arrival: arrival.max(0.5),
        };
        match self.runner.step(self.missions.mission(), world) {
            Progress::Fly(demand) => {
                self.hold = self.stopping_point();
                demand
            }
            Progress::Return => self.fly_home(now),
            Progress::Finished if !self.body.flying => Demand::Rest,
            Progress::Finished if self.kind == Kind::Plane => {
                let _ = self.set_behaviour(Behaviour::Return);
                self.fly_home(now)
            }
            Progress::Finished => self.stay(),
        }
    }

    fn fly_home(&mut self, now: Instant) -> Demand {
        if !self.body.flying {
            return Demand::Rest;
        }
        let home = self.origin.to(&self.home);
        let goto = |target| Demand::Goto { target, speed: None, yaw: None, through: false };
        if self.kind == Kind::Plane {
            return goto(home.at_height(self.above_home(f64::from(self.params.value("RTL_ALTITUDE")))));
        }
        let up = self.above_home(f64::from(self.params.value("RTL_ALT")) * 0.01).max(self.hold.up);
        let above_home = home.at_height(up);
        match self.way_home {
            WayHome::Climb if self.body.position.up < up - 0.5 => goto(self.hold.at_height(up)),
            WayHome::Climb => {
                self.way_home = WayHome::Fly;
                goto(above_home)
            }
            WayHome::Fly => {
                if self.body.position.distance(home) < 1.0 {
                    self.way_home = WayHome::Wait { since: now };
                }
                goto(above_home)
            }
            WayHome::Wait { since } => {
                let wait = Duration::try_from_secs_f32(self.params.value("RTL_LOIT_TIME") / 1000.0).unwrap_or_default();
                if now.saturating_duration_since(since) >= wait {
                    self.way_home = WayHome::Land;
                }
                goto(above_home)
            }
            WayHome::Land => Demand::Descend,
        }
    }

    /// A vehicle that has landed by itself, or has been waiting on the ground, stops its motors.
    fn disarm_when_done(&mut self, now: Instant, out: &mut Outbox) {
        if !self.armed || self.body.flying || self.body.ground_speed() > 0.5 {
            self.idle_since = None;
            return;
        }
        let since = *self.idle_since.get_or_insert(now);
        let landed = matches!(self.mode.behaviour, Behaviour::Return | Behaviour::Land)
            || (self.mode.behaviour == Behaviour::Auto
                && usize::from(self.runner.current()) >= self.missions.mission().len());
        let delay = self.params.seconds("DISARM_DELAY");
        let waited = !delay.is_zero() && now.saturating_duration_since(since) >= delay;
        if landed || (waited && self.demand == Demand::Rest) {
            let _ = self.disarm(false, out);
        }
    }

    /// Where a copter can stop; a plane circles where it is.
    fn stopping_point(&self) -> Local {
        let Local { north, east, .. } = self.body.velocity;
        let seconds = if self.kind == Kind::Copter { 1.0 } else { 0.0 };
        let up = self.body.position.up.max(if self.body.flying { 1.0 } else { 0.0 });
        (self.body.position + Local::new(north, east, 0.0) * seconds).at_height(up)
    }
}

impl Outbox {
    /// STATUSTEXT; what is longer than 50 bytes is cut.
    pub(super) fn say(&mut self, severity: MavSeverity, text: &str) {
        self.send(&MavMessage::STATUSTEXT(STATUSTEXT_DATA { severity, text: text.into(), id: 0, chunk_seq: 0 }));
    }
}
