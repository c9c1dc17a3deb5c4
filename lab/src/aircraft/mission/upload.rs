//! One upload: the vehicle asks for each item in turn.

use std::time::{Duration, Instant};

use mavlink::dialects::ardupilotmega::{
    MISSION_REQUEST_DATA, MISSION_REQUEST_INT_DATA, MavMessage, MavMissionResult, MavMissionType,
};

use super::{Item, Peer, Shape};
use crate::aircraft::wire::Outbox;

/// An item that did not come is asked for again after this time (ArduPilot's `upload_timeout` of an item).
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// After this time without any item the upload is given up (ArduPilot: 8 s).
const GIVE_UP: Duration = Duration::from_secs(8);

#[derive(Debug)]
pub(super) struct Upload {
    pub(super) from: Peer,
    pub(super) kind: MavMissionType,
    /// Number of the first item; not zero when part of a list is replaced.
    pub(super) first: u16,
    /// One past the last.
    end: u16,
    pub(super) items: Vec<Item>,
    /// How the next item is asked for. The newer form first; the other side may know only the older one, so every second attempt uses
    /// the other form, and the form of the last answer is kept.
    shape: Shape,
    asked: Instant,
    heard: Instant,
}

impl Upload {
    /// Asks for the first item.
    pub(super) fn begin(
        now: Instant,
        from: Peer,
        kind: MavMissionType,
        first: u16,
        end: u16,
        out: &mut Outbox,
    ) -> Self {
        let mut upload = Self { from, kind, first, end, items: Vec::new(), shape: Shape::Int, asked: now, heard: now };
        upload.ask(now, out);
        upload
    }

    /// Takes an item and asks for the next. One that has come already is ignored: it was asked for twice, or the network repeats.
    pub(super) fn take(
        &mut self,
        now: Instant,
        item: Item,
        shape: Shape,
        out: &mut Outbox,
    ) -> Result<(), MavMissionResult> {
        if (self.first..self.wanted()).contains(&item.seq) {
            return Ok(());
        }
        if item.seq != self.wanted() {
            return Err(MavMissionResult::MAV_MISSION_INVALID_SEQUENCE);
        }
        self.items.push(item);
        self.shape = shape;
        self.heard = now;
        if !self.is_complete() {
            self.ask(now, out);
        }
        Ok(())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.wanted() == self.end
    }

    pub(super) fn due(&self, slowdown: Duration) -> Instant {
        self.asked + ASK_AGAIN + slowdown
    }

    pub(super) fn is_stale(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.heard) >= GIVE_UP
    }

    pub(super) fn ask_again(&mut self, now: Instant, out: &mut Outbox) {
        self.shape = match self.shape {
            Shape::Int => Shape::Float,
            Shape::Float => Shape::Int,
        };
        self.ask(now, out);
    }

    fn ask(&mut self, now: Instant, out: &mut Outbox) {
        self.asked = now;
        let (seq, mission_type) = (self.wanted(), self.kind);
        let Peer { system: target_system, component: target_component } = self.from;
        out.send(&match self.shape {
            Shape::Int => MavMessage::MISSION_REQUEST_INT(MISSION_REQUEST_INT_DATA {
                seq,
                target_system,
                target_component,
                mission_type,
            }),
            Shape::Float => {
                MavMessage::MISSION_REQUEST(MISSION_REQUEST_DATA { seq, target_system, target_component, mission_type })
            }
        });
    }

    /// Number of the item that is asked for.
    fn wanted(&self) -> u16 {
        self.first + self.items.len() as u16
    }
}
