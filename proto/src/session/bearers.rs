//! Bearers that come, connect, fall silent and go.

use std::net::SocketAddr;
use std::time::Instant;

use super::bearer::{Bearer, BearerConfig};
use super::{Arrival, Event, LinkState, Session};
use crate::BearerId;
use crate::feedback::ReportFault;
use crate::quic::{ConnectionId, bearer_of};
use crate::seeded::SeededBytes;

impl Session {
    /// Adds a bearer while the session runs; `None` if there are [`BearerId::COUNT`] already. It is not connected yet.
    ///
    /// # Errors
    /// As for [`Session::new`].
    pub fn add_bearer(&mut self, now: Instant, config: BearerConfig) -> Result<Option<BearerId>, rustls::Error> {
        let Some(id) = self.free_id(&config) else { return Ok(None) };
        self.begin_input(now);
        let added = self.insert_bearer(id, config);
        self.after_input(now);
        added.map(|_| Some(id))
    }

    /// Takes a bearer out of use. What [`Session::poll_output`] gives for it until the next timeout should still be sent. The
    /// last one stays.
    pub fn remove_bearer(&mut self, now: Instant, id: BearerId) {
        self.begin_input(now);
        if let Some(index) = self.index_of(id).filter(|_| self.bearers.len() > 1) {
            self.bearers[index].carrier.close(now);
            self.on_connection_gone(now, index);
            self.bearers[index].leaving = true;
        }
        self.after_input(now);
    }

    /// The bearers there are.
    pub fn bearers(&self) -> Vec<BearerId> {
        self.bearers.iter().map(|bearer| bearer.id).collect()
    }

    /// A number that no bearer has: what [`Session::add_bearer`] gives. A radio's is of no concern to the other side: they are
    /// taken from the top, so that those below are the other side's to give.
    pub fn free_id(&self, config: &BearerConfig) -> Option<BearerId> {
        let mut free = BearerId::all().filter(|id| self.index_of(*id).is_none());
        if config.radio.is_some() { free.next_back() } else { free.next() }
    }

    /// A radio's line is there: the side that initiates begins to talk over it.
    pub fn begin_radio(&mut self, now: Instant, bearer: BearerId) {
        self.begin_input(now);
        if let Some(index) = self.index_of(bearer) {
            self.bearers[index].silence.on_connect(now);
            self.bearers[index].carrier.as_radio_mut().into_iter().for_each(|radio| radio.begin(now));
        }
        self.after_input(now);
    }

    pub(super) fn insert_bearer(&mut self, id: BearerId, config: BearerConfig) -> Result<usize, rustls::Error> {
        // Never the same randomness twice, also if a number is used again.
        let purpose = match self.made {
            0 => "aquila session".to_owned(),
            made => format!("aquila session, bearer {made}"),
        };
        let mut random = SeededBytes::new(&self.config.seed, &purpose);
        let bearer = Bearer::new(id, config, &self.config, &mut random)?;
        self.made += 1;
        let index = self.bearers.partition_point(|other| other.id < id);
        self.bearers.insert(index, bearer);
        Ok(index)
    }

    pub(super) fn index_of(&self, id: BearerId) -> Option<usize> {
        self.bearers.iter().position(|bearer| bearer.id == id)
    }

    /// Starts a connection to the other side on a bearer, in place of one there may be. With a ticket from a former connection,
    /// commands leave with the very first packet.
    ///
    /// # Errors
    /// If `remote` is no address to send to.
    pub fn connect(
        &mut self,
        now: Instant,
        bearer: BearerId,
        remote: SocketAddr,
    ) -> Result<(), noq_proto::ConnectError> {
        self.begin_input(now);
        if let Some(index) = self.index_of(bearer) {
            self.replace_connection(now, index, remote)?;
        }
        self.after_input(now);
        Ok(())
    }

    /// The answer to [`Event::AddressWanted`]. A connection to the same address that is complete, only silent, is kept
    /// until a new one is: after an outage the old one is back at once, after a restart of the other side only a new one
    /// is. Any other is replaced.
    ///
    /// # Errors
    /// As for [`Session::connect`].
    pub fn reconnect(
        &mut self,
        now: Instant,
        bearer: BearerId,
        remote: SocketAddr,
    ) -> Result<(), noq_proto::ConnectError> {
        self.begin_input(now);
        if let Some(index) = self.index_of(bearer) {
            let bearer = &mut self.bearers[index];
            if bearer.outbound.is_live_now() && bearer.carrier.remote() == Some(remote) {
                bearer.carrier.as_quic().map_or(Ok(()), |quic| quic.connect_aside(now, remote))?;
                bearer.silence.on_connect(now);
            } else {
                self.replace_connection(now, index, remote)?;
            }
        }
        self.after_input(now);
        Ok(())
    }

    pub(super) fn replace_connection(
        &mut self,
        now: Instant,
        index: usize,
        remote: SocketAddr,
    ) -> Result<(), noq_proto::ConnectError> {
        self.bearers[index].carrier.connect(now, remote)?;
        self.on_connection_gone(now, index);
        let bearer = &mut self.bearers[index];
        bearer.outbound.connection = bearer.carrier.active_connection();
        bearer.silence.on_connect(now);
        Ok(())
    }

    /// Whose a packet is. A client knows by the socket; a server by the connection id that it is for, but for stateless resets,
    /// which look like nothing: they come from where the bearer goes to.
    pub(super) fn bearer_for(&mut self, arrival: &Arrival, packet: &[u8]) -> Option<usize> {
        if !self.config.quic.listen {
            return self.index_of(arrival.bearer.unwrap_or_default());
        }
        let named = bearer_of(packet);
        let index = named.and_then(|id| self.index_of(id));
        let goes_there = |bearer: &Bearer| bearer.carrier.remote() == Some(arrival.from);
        if index.is_some_and(|index| self.bearers.len() == 1 || goes_there(&self.bearers[index])) {
            return index;
        }
        if self.door.is_for_us(packet) {
            // The first packet of a bearer that we have not heard of, or one that was sent to a former life of ours.
            return index.or_else(|| self.insert_bearer(named?, BearerConfig::default()).ok());
        }
        // Whoever it is, somebody counts it.
        self.bearers.iter().position(goes_there).or(index).or(Some(0))
    }

    pub(super) fn on_connected(&mut self, now: Instant, index: usize, connection: ConnectionId, resumed: bool) {
        let bearer = &mut self.bearers[index];
        bearer.counters.connections += 1;
        bearer.counters.resumed += u64::from(resumed);
        // What was sent on another connection is sent again; what left on this one as early data is not.
        if bearer.outbound.connection != Some(connection) {
            self.on_connection_gone(now, index);
        }
        let bearer = &mut self.bearers[index];
        bearer.outbound.on_connected(now, connection);
        bearer.silence.on_word(now);
        self.video_out.iter_mut().for_each(|queue| queue.begin_grace(now));
    }

    /// A connection is gone, or another takes its place: per-connection state begins anew, and what was under way leaves
    /// again, on another bearer if there is one.
    pub(super) fn on_connection_gone(&mut self, now: Instant, index: usize) {
        let id = self.bearers[index].id;
        self.bearers[index].on_new_connection(now);
        let others = self.bearers.iter().any(|other| other.id != id && other.carrier.is_ready());
        match others {
            true => self.outbox.on_bearer_gone(id),
            false => {
                self.outbox.requeue();
                self.video_out.iter_mut().for_each(|queue| queue.set_tells_waits(false));
            }
        }
        self.transactions.on_bearer_gone(id);
        self.bulk_out.on_bearer_gone(id);
        self.parcels.on_bearer_gone(id);
    }

    pub(super) fn update_link_state(&mut self, now: Instant) {
        let several = self.bearers.len() > 1;
        let mut missing = None;
        for bearer in &mut self.bearers {
            let connected = bearer.carrier.is_connecting_or_ready();
            if let Some((state, silence)) = bearer.silence.update(now, connected, bearer.limits) {
                if several {
                    self.events.push_back(Event::BearerState { bearer: bearer.id, state, silence });
                }
                if state == LinkState::Up {
                    bearer.returned = Some(now);
                }
                if state == LinkState::Up
                    && let Some(quic) = bearer.carrier.as_quic()
                {
                    quic.abandon_aside(now);
                }
                if state != LinkState::Up {
                    // What it has under way may be lost; others may have room.
                    self.transactions.on_bearer_gone(bearer.id);
                    self.bulk_out.on_bearer_gone(bearer.id);
                }
                if matches!(state, LinkState::Lost | LinkState::Down) {
                    // Each is sent in full if it is sent again, and most often a stall passes: sooner would be too soon.
                    self.parcels.on_bearer_gone(bearer.id);
                }
            }
            if bearer.misses_reports(now) {
                missing = Some(bearer.id);
            }
            let wanted = !bearer.leaving && bearer.silence.address_wanted(now, connected);
            if wanted && !self.config.quic.listen && !bearer.carrier.is_radio() {
                self.events.push_back(Event::AddressWanted(bearer.id));
            }
        }
        if let Some(bearer) = missing {
            self.on_report_fault(bearer, ReportFault::Missing);
        }
        let state_of = |state: &LinkState| self.bearers.iter().any(|bearer| bearer.silence.state() == *state);
        let state = LinkState::BEST_FIRST.into_iter().find(state_of).unwrap_or(LinkState::Down);
        if std::mem::replace(&mut self.state, state) != state {
            let silence = self.bearers.iter().filter_map(|bearer| bearer.silence.age(now)).min().unwrap_or_default();
            self.events.push_back(Event::State { state, silence });
        }
    }

    pub(super) fn connection_is_older(&self, connection: ConnectionId) -> bool {
        let index = self.index_of(connection.bearer());
        let newest = index.and_then(|index| self.bearers[index].heard.connection);
        newest.is_some_and(|newest| connection < newest)
    }
}
