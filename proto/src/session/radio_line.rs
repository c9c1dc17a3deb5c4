//! What a radio tells: the same as a network's bearer, with words of its own.

use std::time::Instant;

use super::{Event, Session};
use crate::aerotp::{RadioBearer, RadioEvent};
use crate::feedback::Kept;
use crate::quic::{ConnectionId, DisconnectReason};

impl Session {
    pub(super) fn on_radio_event(&mut self, now: Instant, index: usize, event: RadioEvent) {
        let bearer = &mut self.bearers[index];
        let id = bearer.id;
        let connection = ConnectionId::new(id, bearer.carrier.as_radio().map_or(0, RadioBearer::life));
        match event {
            RadioEvent::Connected { number } => {
                let connection = ConnectionId::new(id, number);
                self.on_connected(now, index, connection, false);
                self.events.push_back(Event::Connected { bearer: id, remote: None, resumed: false });
                self.release_held(now, connection);
            }
            RadioEvent::Disconnected => {
                self.on_connection_gone(now, index);
                self.bearers[index].silence.on_disconnected();
                let reason = DisconnectReason::PeerRestarted;
                self.events.push_back(Event::Disconnected { bearer: id, reason });
            }
            RadioEvent::Message(bytes) => self.on_stream(now, connection, bytes, false),
            RadioEvent::Datagram(bytes) => self.on_datagram(now, connection, &bytes, false),
            RadioEvent::Acknowledged { token } => {
                bearer.silence.on_word(now);
                self.on_acknowledged(token);
            }
            RadioEvent::Arrived { token } => {
                bearer.silence.on_word(now);
                match bearer.take_kept(token) {
                    Some((datagram, Kept::Batch(seq))) => self.transactions.on_fate(seq, datagram, true),
                    Some((datagram, Kept::Bulk(offset))) => self.bulk_out.on_fate(offset, datagram, true),
                    Some((datagram, Kept::Parcel)) => self.parcels.on_fate(datagram, true),
                    // Video is not kept here: a radio repeats by itself, or not at all.
                    Some((_, Kept::Fragment(..) | Kept::Repair(..))) | None => {}
                }
            }
        }
    }
}
