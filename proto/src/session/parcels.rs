//! Parcels on their way through a session: see [`crate::sched::parcels`].

use std::time::Instant;

use bytes::Bytes;

use super::bearer::{Beside, PACKET_OVERHEAD};
use super::{Event, ParcelPort, Session};
use crate::Class;
use crate::feedback::Kept;
use crate::sched::parcels::LEAST_ROOM;
use crate::wire::datagram::DatagramHeader;
use crate::wire::flow;

/// A parcel's flow id takes a byte, its sequence number two.
const HEADER: usize = 1 + 2;

impl Session {
    /// Sends a parcel: a datagram of class Bulk, that arrives once or not at all, in any order. `false` if as many wait as may
    /// ([`Event::ParcelRoom`] comes when there is room), or if it is longer than [`Session::max_parcel`]. With a token,
    /// [`Event::ParcelFate`] tells what became of it.
    pub fn send_parcel(&mut self, now: Instant, port: ParcelPort, token: Option<u64>, bytes: Bytes) -> bool {
        self.begin_input(now);
        let taken = bytes.len() <= self.longest_parcel() && self.parcels.push(port, token, bytes);
        if taken {
            self.haste.note_parcel(now, port);
            self.counters.accepted[Class::Bulk.index()] += 1;
        }
        self.after_input(now);
        taken
    }

    /// How many parcels of a port are taken now.
    pub fn parcel_room(&self, port: ParcelPort) -> usize {
        self.parcels.room(port)
    }

    /// Longest parcel that any bearer takes which may be used for them, in bytes; 0 while there is none.
    pub fn max_parcel(&mut self) -> usize {
        self.longest_parcel()
    }

    /// What every bearer takes that is used for them.
    fn longest_parcel(&mut self) -> usize {
        let mut least = None;
        for index in 0..self.bearers.len() {
            let size = if self.may_carry(index) { self.parcel_size(index) } else { 0 };
            if size >= LEAST_ROOM {
                least = Some(least.map_or(size, |least: usize| least.min(size)));
            }
        }
        least.unwrap_or(0)
    }

    fn parcel_size(&mut self, index: usize) -> usize {
        (self.bearers[index].max_body() + DatagramHeader::MAX_LEN).saturating_sub(HEADER)
    }

    /// Parcels take what bulk has left of any bearer that may be used for it.
    pub(super) fn feed_parcel(&mut self, now: Instant, index: usize) -> bool {
        if !self.parcels.is_waiting() || !self.may_carry(index) || !self.is_open(now, index) {
            return false;
        }
        let max = self.parcel_size(index);
        if max < LEAST_ROOM {
            return false;
        }
        let Some((port, token, bytes)) = self.parcels.pop(max) else {
            self.tell_parcels();
            return false;
        };
        let bearer = &mut self.bearers[index];
        let datagram_id = bearer.next_datagram();
        let mut datagram = bearer.start_datagram(now, flow::PARCELS + u64::from(port.number()), bytes.len());
        datagram.extend_from_slice(&bytes);
        bearer.pace(now, datagram.len() + PACKET_OVERHEAD);
        let kept = token.map(|_| Kept::Parcel);
        let sent = bearer.finish_datagram(now, datagram, Beside { kept, class: Class::Bulk, ..Beside::default() });
        if let Some(token) = token {
            self.parcels.on_sent(port, token, datagram_id);
            if !sent {
                self.parcels.on_fate(datagram_id, false);
            }
        }
        if sent {
            self.count_sent(Class::Bulk, bytes.len());
        }
        self.tell_parcels();
        sent
    }

    /// Tells of fates and of room.
    pub(super) fn tell_parcels(&mut self) {
        while let Some(fate) = self.parcels.take_fate() {
            self.events.push_back(Event::ParcelFate(fate));
        }
        while let Some(port) = self.parcels.take_room() {
            self.events.push_back(Event::ParcelRoom(port));
        }
    }
}
