//! What a session says has happened: handed on, logged, told.

use std::time::Instant;

use aquila_proto::quic::DisconnectReason;
use aquila_proto::session::ParcelPort;
use aquila_proto::{Event, LinkState};

use super::dial::Dialler;
use super::{CameraRate, Node, NodeEvent, Role};
use crate::video::Flow;

impl Node {
    /// What it is shown refers to pictures that it has not seen.
    pub(super) fn on_viewer_begun(&mut self, flow: Flow) {
        let now = Instant::now();
        tracing::info!(%flow, "somebody has begun to watch; asking for a recovery point");
        self.session.request_recovery_point(now, flow.number().into());
        self.drain(now);
    }

    pub(super) fn on_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Mavlink { frame, .. } => {
                let link = self.link;
                self.route(now, link, &frame);
            }
            Event::Video { flow, packets, .. } => {
                if let Some(flow) = Flow::new(flow) {
                    self.viewers.send(flow, packets);
                }
            }
            Event::TargetRate { asked, lasting, seldom, .. } => {
                self.ask_camera(|wishes| wishes.rate = Some(CameraRate { asked, lasting, seldom }));
            }
            Event::RecoveryPointWanted { flow } => self.ask_camera(|wishes| wishes.ask_recovery_point(flow)),
            Event::Hold(hold) => self.ask_camera(|wishes| wishes.hold = hold),
            Event::State { state, silence } => {
                match state {
                    LinkState::Up => tracing::info!("link up"),
                    LinkState::Stalled => tracing::debug!(?silence, "link stalled"),
                    LinkState::Lost => tracing::warn!(?silence, "link lost: nothing heard from the other side"),
                    LinkState::Down => tracing::warn!("link down: no connection"),
                }
                if let (LinkState::Up, [only]) = (state, &self.session.bearers()[..])
                    && let Some(dialler) = self.lanes.dialler(*only)
                {
                    dialler.on_up();
                }
                self.files.iter_mut().for_each(|files| files.on_state(now, state));
                self.gateway.iter_mut().for_each(|gateway| gateway.on_state(state));
                self.tell(NodeEvent::State(state, silence));
            }
            Event::BearerState { bearer, state, silence } => {
                let name = self.name_of(bearer);
                match state {
                    LinkState::Up => {
                        self.lanes.dialler(bearer).into_iter().for_each(Dialler::on_up);
                        tracing::info!(bearer = name, "bearer up");
                    }
                    LinkState::Stalled => tracing::debug!(bearer = name, ?silence, "bearer stalled"),
                    LinkState::Lost => tracing::warn!(bearer = name, ?silence, "bearer lost: nothing heard on it"),
                    LinkState::Down => tracing::warn!(bearer = name, "bearer down: no connection"),
                }
                self.tell(NodeEvent::BearerState(name, state, silence));
            }
            Event::Rerouted { class, bearer } => {
                let name = self.name_of(bearer);
                tracing::info!(class = class.name(), bearer = name, "goes by another bearer");
                self.tell(NodeEvent::Rerouted(class, name));
            }
            Event::Connected { bearer, remote, resumed } => {
                let address = remote.map(|remote| remote.to_string());
                tracing::info!(remote = address, resumed, bearer = self.name_of(bearer), "connected");
                self.lanes.dialler(bearer).into_iter().for_each(Dialler::on_connected);
                if let ([_], Some(files)) = (&self.session.bearers()[..], &mut self.files) {
                    files.on_connected(now);
                }
                self.tell(NodeEvent::Connected(remote, resumed));
            }
            Event::Disconnected { bearer, reason } => {
                let name = self.name_of(bearer);
                match reason {
                    DisconnectReason::Superseded => tracing::info!(%reason, bearer = name, "disconnected"),
                    _ => tracing::warn!(%reason, bearer = name, "disconnected"),
                }
                self.lanes.dialler(bearer).into_iter().for_each(Dialler::on_disconnected);
                self.tell(NodeEvent::Disconnected(reason.to_string()));
            }
            Event::AddressWanted(bearer) => {
                let stats = self.session.stats(now);
                let remote = stats.bearers.iter().find(|own| own.bearer == bearer).and_then(|own| own.remote);
                if let Some(dialler) = self.lanes.dialler(bearer) {
                    dialler.on_silence();
                    dialler.look_up(remote);
                }
            }
            Event::PeerMoved { bearer, from, to } => {
                tracing::info!(%from, %to, bearer = self.name_of(bearer), "the other side's address changed");
                self.tell(NodeEvent::PeerMoved(from, to));
            }
            Event::Hello { bearer, name, version, revision } => {
                if matches!(self.config.role, Role::Listen(_)) && !name.is_empty() {
                    self.names.insert(bearer, name);
                }
                let (ours, name) = (env!("CARGO_PKG_VERSION"), self.name_of(bearer));
                tracing::info!(version, revision, ours, bearer = name, "the other side says hello");
                self.snapshots.set_peer_version(version);
            }
            Event::SameSide => {
                let side = self.config.side.name();
                tracing::error!("the other side is {side} too: run `aquila air` on the aircraft, `aquila ground` here");
            }
            Event::Unknown { from, reason, count } => {
                tracing::warn!(%from, reason, count, "unknown peer not answered (reported once a minute)");
            }
            Event::ReportFaults { bearer, fault, count } => {
                let bearer = self.name_of(bearer);
                tracing::warn!(bearer, reason = %fault, count, "reports on what arrives cannot be relied on (told once a minute)");
            }
            Event::Parcel { port, bytes } => match (port, &mut self.files, &self.gateway) {
                (ParcelPort::FILES, Some(files), _) => files.on_parcel(now, bytes),
                (ParcelPort::GATEWAY, _, Some(gateway)) => gateway.on_parcel(&bytes),
                _ => {}
            },
            Event::ParcelFate(fate) => {
                if let Some(files) = self.files.as_mut().filter(|_| fate.port == ParcelPort::FILES) {
                    files.on_fate(now, fate);
                }
            }
            // Nobody here reads or writes the bulk stream: what is not read holds the other side back. Room is looked at after every input.
            Event::BulkReadable | Event::BulkRestarted | Event::ParcelRoom(_) => {}
        }
    }
}
