//! Missions, geofences and rally points: what is stored, and the protocol that carries it up and down.
//!
//! As in ArduPilot, item 0 of a mission is the home position: it is replaced on the way down, whatever was uploaded.

mod runner;
mod upload;

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use mavlink::dialects::ardupilotmega::{
    MISSION_ACK_DATA, MISSION_COUNT_DATA, MISSION_ITEM_DATA, MISSION_ITEM_INT_DATA, MavCmd, MavFrame, MavMessage,
    MavMissionResult, MavMissionType,
};

pub(super) use runner::{Progress, Runner, World};
use upload::Upload;

use super::flight::geo::Place;
use super::wire::Outbox;

/// Items that fit; ArduPilot's usual number for a board with little storage.
pub(super) const CAPACITY: usize = 718;

/// A stored item.
pub(super) type Item = MISSION_ITEM_INT_DATA;

/// Who a message came from, and who the answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) system: u8,
    pub(super) component: u8,
}

/// What a message has brought about beyond an answer to it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    /// A whole list was received.
    Received(MavMissionType),
    /// Lists were emptied.
    Cleared,
    /// Fly there now: an item with `current` 2, as older ground stations send it.
    GoTo(Item),
    /// Fly at this height now: an item with `current` 3.
    ChangeHeight(Item),
}

/// The three lists and the upload that is going on.
#[derive(Debug, Default)]
pub(super) struct Missions {
    mission: Vec<Item>,
    fence: Vec<Item>,
    rally: Vec<Item>,
    upload: Option<Upload>,
}

impl Missions {
    /// The mission's items; the first stands for home and is not flown.
    pub(super) fn mission(&self) -> &[Item] {
        &self.mission
    }

    /// Takes a message of the mission protocol that is addressed to this vehicle; any other is ignored.
    pub(super) fn on_message(
        &mut self,
        now: Instant,
        from: Peer,
        message: &MavMessage,
        home: &Place,
        out: &mut Outbox,
    ) -> Option<Outcome> {
        match message {
            MavMessage::MISSION_REQUEST_LIST(m) => self.send_count(from, m.mission_type, out),
            MavMessage::MISSION_REQUEST_INT(m) => self.send_item(from, m.mission_type, m.seq, Shape::Int, home, out),
            MavMessage::MISSION_REQUEST(m) => self.send_item(from, m.mission_type, m.seq, Shape::Float, home, out),
            MavMessage::MISSION_COUNT(m) => return self.begin_upload(now, from, m.mission_type, 0, m.count, out),
            MavMessage::MISSION_WRITE_PARTIAL_LIST(m) => {
                let (Ok(first), Ok(last)) = (u16::try_from(m.start_index), u16::try_from(m.end_index)) else {
                    ack(from, m.mission_type, MavMissionResult::MAV_MISSION_INVALID, out);
                    return None;
                };
                if first > last || usize::from(last) >= self.list(m.mission_type).len() {
                    ack(from, m.mission_type, MavMissionResult::MAV_MISSION_INVALID_SEQUENCE, out);
                    return None;
                }
                return self.begin_upload(now, from, m.mission_type, first, last + 1, out);
            }
            MavMessage::MISSION_ITEM_INT(item) => return self.on_item(now, from, item.clone(), Shape::Int, out),
            MavMessage::MISSION_ITEM(item) => return self.on_item(now, from, to_int(item), Shape::Float, out),
            MavMessage::MISSION_CLEAR_ALL(m) => {
                self.clear(m.mission_type);
                ack(from, m.mission_type, MavMissionResult::MAV_MISSION_ACCEPTED, out);
                return Some(Outcome::Cleared);
            }
            MavMessage::MISSION_ACK(m) if m.mavtype != MavMissionResult::MAV_MISSION_ACCEPTED => {
                // The other side gives up.
                self.upload = self.upload.take().filter(|upload| upload.from != from);
            }
            _ => {}
        }
        None
    }

    /// An item came that holds a command or a frame which does not exist.
    pub(super) fn on_unreadable_item(&mut self, from: Peer, out: &mut Outbox) {
        if let Some(upload) = self.upload.take_if(|upload| upload.from == from) {
            ack(from, upload.kind, MavMissionResult::MAV_MISSION_UNSUPPORTED, out);
        }
    }

    /// When an item must be asked for again.
    pub(super) fn next_due(&self, slowdown: Duration) -> Option<Instant> {
        self.upload.as_ref().map(|upload| upload.due(slowdown))
    }

    /// Asks again for an item that did not come, or gives up.
    pub(super) fn poll(&mut self, now: Instant, slowdown: Duration, out: &mut Outbox) {
        let Some(upload) = self.upload.as_mut().filter(|upload| upload.due(slowdown) <= now) else { return };
        if upload.is_stale(now) {
            ack(upload.from, upload.kind, MavMissionResult::MAV_MISSION_OPERATION_CANCELLED, out);
            self.upload = None;
        } else {
            upload.ask_again(now, out);
        }
    }

    fn begin_upload(
        &mut self,
        now: Instant,
        from: Peer,
        kind: MavMissionType,
        first: u16,
        end: u16,
        out: &mut Outbox,
    ) -> Option<Outcome> {
        let refusal = if self.upload.as_ref().is_some_and(|upload| upload.from != from) {
            Some(MavMissionResult::MAV_MISSION_DENIED)
        } else if kind == MavMissionType::MAV_MISSION_TYPE_ALL {
            Some(MavMissionResult::MAV_MISSION_UNSUPPORTED)
        } else if usize::from(end) > CAPACITY {
            Some(MavMissionResult::MAV_MISSION_NO_SPACE)
        } else {
            None
        };
        if let Some(result) = refusal {
            ack(from, kind, result, out);
            return None;
        }
        if end == 0 {
            self.upload = None;
            self.clear(kind);
            ack(from, kind, MavMissionResult::MAV_MISSION_ACCEPTED, out);
            return Some(Outcome::Cleared);
        }
        self.upload = Some(Upload::begin(now, from, kind, first, end, out));
        None
    }

    fn on_item(&mut self, now: Instant, from: Peer, item: Item, shape: Shape, out: &mut Outbox) -> Option<Outcome> {
        if let 2 | 3 = item.current {
            ack(from, item.mission_type, MavMissionResult::MAV_MISSION_ACCEPTED, out);
            return Some(if item.current == 2 { Outcome::GoTo(item) } else { Outcome::ChangeHeight(item) });
        }
        let kind = item.mission_type;
        let Some(upload) = self.upload.as_mut().filter(|upload| upload.from == from && upload.kind == kind) else {
            ack(from, kind, MavMissionResult::MAV_MISSION_ERROR, out);
            return None;
        };
        if let Err(result) = upload.take(now, item, shape, out) {
            ack(from, kind, result, out);
            return None;
        }
        let done = self.upload.take_if(|upload| upload.is_complete())?;
        let list = self.list_mut(kind);
        if done.first == 0 {
            list.clear();
        }
        let first = usize::from(done.first);
        let kept = list.len().min(first + done.items.len());
        list.splice(first.min(kept)..kept, done.items);
        ack(from, kind, MavMissionResult::MAV_MISSION_ACCEPTED, out);
        Some(Outcome::Received(kind))
    }

    fn send_count(&self, to: Peer, kind: MavMissionType, out: &mut Outbox) {
        if kind == MavMissionType::MAV_MISSION_TYPE_ALL {
            return ack(to, kind, MavMissionResult::MAV_MISSION_UNSUPPORTED, out);
        }
        out.send(&MavMessage::MISSION_COUNT(MISSION_COUNT_DATA {
            count: self.list(kind).len() as u16,
            target_system: to.system,
            target_component: to.component,
            mission_type: kind,
            opaque_id: 0,
        }));
    }

    fn send_item(&self, to: Peer, kind: MavMissionType, seq: u16, shape: Shape, home: &Place, out: &mut Outbox) {
        let Some(item) = self.list(kind).get(usize::from(seq)) else {
            return ack(to, kind, MavMissionResult::MAV_MISSION_INVALID_SEQUENCE, out);
        };
        let is_home = seq == 0 && kind == MavMissionType::MAV_MISSION_TYPE_MISSION;
        let item = Item {
            seq,
            target_system: to.system,
            target_component: to.component,
            current: 0,
            ..if is_home { home_item(home) } else { item.clone() }
        };
        out.send(&match shape {
            Shape::Int => MavMessage::MISSION_ITEM_INT(item),
            Shape::Float => MavMessage::MISSION_ITEM(to_float(&item)),
        });
    }

    fn clear(&mut self, kind: MavMissionType) {
        if kind == MavMissionType::MAV_MISSION_TYPE_ALL {
            self.mission.clear();
            self.fence.clear();
            self.rally.clear();
        } else {
            self.list_mut(kind).clear();
        }
    }

    fn list(&self, kind: MavMissionType) -> &[Item] {
        match kind {
            MavMissionType::MAV_MISSION_TYPE_FENCE => &self.fence,
            MavMissionType::MAV_MISSION_TYPE_RALLY => &self.rally,
            _ => &self.mission,
        }
    }

    fn list_mut(&mut self, kind: MavMissionType) -> &mut Vec<Item> {
        match kind {
            MavMissionType::MAV_MISSION_TYPE_FENCE => &mut self.fence,
            MavMissionType::MAV_MISSION_TYPE_RALLY => &mut self.rally,
            _ => &mut self.mission,
        }
    }
}

/// How an item travels: with integer or with floating-point coordinates (the older form).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Int,
    Float,
}

fn ack(to: Peer, kind: MavMissionType, result: MavMissionResult, out: &mut Outbox) {
    out.send(&MavMessage::MISSION_ACK(MISSION_ACK_DATA {
        target_system: to.system,
        target_component: to.component,
        mavtype: result,
        mission_type: kind,
        opaque_id: 0,
    }));
}

fn home_item(home: &Place) -> Item {
    Item {
        command: MavCmd::MAV_CMD_NAV_WAYPOINT,
        frame: MavFrame::MAV_FRAME_GLOBAL,
        autocontinue: 1,
        x: home.lat_e7(),
        y: home.lon_e7(),
        z: home.altitude_m as f32,
        ..Item::default()
    }
}

/// Whether `x` and `y` of an item are metres, in the integer form in units of 1e-4 m, instead of degrees.
fn is_local(frame: MavFrame) -> bool {
    matches!(frame, MavFrame::MAV_FRAME_LOCAL_NED | MavFrame::MAV_FRAME_LOCAL_ENU)
}

fn to_int(item: &MISSION_ITEM_DATA) -> Item {
    let scale = if is_local(item.frame) { 1e4 } else { 1e7 };
    Item {
        param1: item.param1,
        param2: item.param2,
        param3: item.param3,
        param4: item.param4,
        x: (f64::from(item.x) * scale).round() as i32,
        y: (f64::from(item.y) * scale).round() as i32,
        z: item.z,
        seq: item.seq,
        command: item.command,
        target_system: item.target_system,
        target_component: item.target_component,
        frame: item.frame,
        current: item.current,
        autocontinue: item.autocontinue,
        mission_type: item.mission_type,
    }
}

fn to_float(item: &Item) -> MISSION_ITEM_DATA {
    let scale = if is_local(item.frame) { 1e4 } else { 1e7 };
    MISSION_ITEM_DATA {
        param1: item.param1,
        param2: item.param2,
        param3: item.param3,
        param4: item.param4,
        x: (f64::from(item.x) / scale) as f32,
        y: (f64::from(item.y) / scale) as f32,
        z: item.z,
        seq: item.seq,
        command: item.command,
        target_system: item.target_system,
        target_component: item.target_component,
        frame: item.frame,
        current: item.current,
        autocontinue: item.autocontinue,
        mission_type: item.mission_type,
    }
}
