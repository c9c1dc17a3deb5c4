//! Connections of ours: one for each route, while there is something to send.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::sync::watch;
use tracing::{debug, info};

use super::driver::{Driver, Sending};
use super::{Offer, Outcome, RouteId, Shared, Signal};
use crate::tcpcl::{Role, Session};

/// Keeps a route going.
pub(super) struct Dialer {
    shared: Arc<Shared>,
    route: RouteId,
    signals: watch::Receiver<Signal>,
    wait: Duration,
}

impl Dialer {
    pub fn new(shared: Arc<Shared>, route: RouteId, signals: watch::Receiver<Signal>) -> Self {
        let wait = shared.config.backoff.0;
        Self { shared, route, signals, wait }
    }

    /// Until the agent closes.
    pub async fn run(mut self) {
        loop {
            if self.signals.borrow_and_update().closing {
                return;
            }
            let Ok(Some(offer)) = self.shared.ask(self.route, None).await else {
                let ask_again = self.shared.config.ask_again;
                if self.pause(ask_again, true).await {
                    continue;
                }
                return;
            };
            if !self.connect(offer).await {
                let (_, most) = self.shared.config.backoff;
                debug!("route {}: again in {:?}", self.address(), self.wait);
                let wait = self.wait;
                self.wait = (2 * wait).min(most);
                if !self.pause(wait, false).await {
                    return;
                }
            }
        }
    }

    /// A session that begins with this bundle. False if it did not come about, or did not end in order.
    async fn connect(&mut self, offer: Offer) -> bool {
        let connected = self.open().await;
        let config = &self.shared.config;
        let (stream, address) = match connected.and_then(|stream| Ok((stream.peer_addr()?, stream))) {
            Ok((address, stream)) => (stream, address),
            Err(error) => {
                debug!("route {}: {error}", self.address());
                self.shared.done(self.route, offer.token, Outcome::Later(error.to_string()));
                return false;
            }
        };
        let mut session = config.session.clone();
        session.ignore_transfer_mru = config.routes.get(self.route.0).is_some_and(|route| route.ignore_transfer_mru);
        let session = Session::new(Role::Active, session, Instant::now());
        let sending = Sending::new(self.route, offer);
        let driver = Driver::new(self.shared.clone(), session, address, self.signals.clone(), Some(sending));
        let end = driver.run(stream).await;
        info!("session with {address}: {end}");
        if end.was_up {
            self.wait = self.shared.config.backoff.0;
        }
        end.in_order
    }

    /// A connection, unless the agent closes meanwhile.
    async fn open(&self) -> io::Result<TcpStream> {
        let mut signals = self.signals.clone();
        let contact = self.shared.config.session.contact;
        tokio::select! {
            connected = tokio::time::timeout(contact, TcpStream::connect(self.address())) => {
                connected.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
            }
            _ = signals.wait_for(|signal| signal.closing) => Err(io::ErrorKind::Interrupted.into()),
        }
    }

    fn address(&self) -> &str {
        self.shared.config.routes.get(self.route.0).map_or("", |route| &route.address)
    }

    /// Waits that long, or until it is woken. False when the agent closes.
    async fn pause(&mut self, time: Duration, woken: bool) -> bool {
        let until = tokio::time::Instant::now() + time;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until) => return true,
                changed = self.signals.changed() => {
                    if changed.is_err() || self.signals.borrow_and_update().closing {
                        return false;
                    }
                    if woken {
                        return true;
                    }
                }
            }
        }
    }
}
