//! The network of this machine changes, and so do the bearers that there are to be.

use std::net::SocketAddr;
use std::time::Instant;

use super::{Node, Role, lane};
use crate::bearer::BearerSpec;
use crate::netwatch::NetworkChange;

impl Node {
    pub(super) fn on_network_change(&mut self, change: NetworkChange) {
        let now = Instant::now();
        for index in 0..self.lanes.len() {
            let refused = self.lanes.refused(index);
            let lane = self.lanes.get(index);
            if lane.is_concerned(&change) {
                lane.changes.on_change(now, change.what, refused);
            }
        }
    }

    /// Bearers are to come and go.
    pub(super) fn on_wanted(&mut self, wanted: &[BearerSpec]) {
        let Role::Connect(remote) = self.config.role.clone() else { return };
        let default = [BearerSpec::default()];
        let wanted = if wanted.is_empty() { &default[..] } else { wanted };
        let now = Instant::now();
        let there: Vec<_> = self.lanes.iter().filter_map(|lane| Some((lane.bearer?, lane.spec.clone()))).collect();
        let missing = wanted.iter().filter(|spec| !there.iter().any(|(_, own)| own == *spec));
        // The new ones first: the last bearer is never taken away.
        for spec in missing {
            let mut config = lane::described(spec, None);
            let number = self.session.free_id(&config);
            config.resumption = number.and_then(|bearer| self.store.as_ref()?.load_resumption(bearer));
            match self.session.add_bearer(now, config) {
                Ok(Some(bearer)) => {
                    tracing::info!(bearer = spec.name(), "bearer added");
                    self.lanes.connect(bearer, spec.clone(), &remote);
                    self.names.insert(bearer, spec.name());
                }
                Ok(None) => tracing::warn!(bearer = spec.name(), "bearer not added: there are too many"),
                Err(error) => tracing::warn!(%error, bearer = spec.name(), "bearer not added"),
            }
            self.drain(now);
        }
        for (bearer, spec) in there.into_iter().filter(|(_, own)| !wanted.contains(own)) {
            tracing::info!(bearer = spec.name(), "bearer removed");
            self.session.remove_bearer(now, bearer);
            // Its goodbye leaves with this.
            self.drain(now);
            self.lanes.remove(bearer);
            self.names.remove(&bearer);
        }
    }

    /// Probes a bearer if the network has changed and nothing has been heard since.
    pub(super) fn on_changes(&mut self, now: Instant, index: usize) {
        if self.lanes.get(index).changes.due().is_none_or(|due| now < due) {
            return;
        }
        let bearer = self.lanes.get(index).bearer;
        let stats = self.session.stats(now);
        let own = stats.bearers.iter().find(|own| Some(own.bearer) == bearer);
        let (silence, rtt) = own.map_or((stats.silence, stats.main().rtt), |own| (own.silence, own.rtt));
        let word = silence.and_then(|silence| now.checked_sub(silence));
        if self.lanes.get(index).changes.is_time(now, word) {
            self.lanes.reopen_bound_socket(index, &self.config.role);
            let refused = self.lanes.refused(index);
            self.lanes.get(index).changes.on_probe(now, refused, rtt);
            self.session.network_changed(now, bearer);
            self.drain(now);
        }
    }

    /// The other side's address has been looked up.
    pub(super) fn on_address(&mut self, index: usize, address: Option<SocketAddr>) {
        let (Some(address), Some(bearer)) = (address, self.lanes.get(index).bearer) else { return };
        let now = Instant::now();
        if !self.lanes.open_towards(index, address) {
            return;
        }
        if let Err(error) = self.session.reconnect(now, bearer, address) {
            self.lanes.diallers.get(index).on_failure(&error.to_string());
        }
        self.drain(now);
    }
}
