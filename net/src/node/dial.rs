//! Looking up the other side's address, again at each reconnection: names move with their addresses.

use std::net::SocketAddr;

use tokio::task::JoinHandle;

/// Looks names up in the background, one at a time, and logs failures once until something changes.
#[derive(Debug)]
pub(super) struct Dialler {
    remote: Option<String>,
    lookup: Option<JoinHandle<std::io::Result<Vec<SocketAddr>>>>,
    /// The address of a connection that is complete: only another one is worth a new connection.
    current: Option<SocketAddr>,
    last_failure: Option<String>,
    attempts: usize,
}

impl Dialler {
    pub fn new(remote: Option<String>) -> Self {
        Self { remote, lookup: None, current: None, last_failure: None, attempts: 0 }
    }

    /// Starts a lookup, unless one is under way. `current`: the address that is connected to but silent.
    pub fn look_up(&mut self, current: Option<SocketAddr>) {
        let Some(remote) = self.remote.clone() else { return };
        self.current = current;
        if self.lookup.is_none() {
            self.lookup = Some(tokio::spawn(async move { Ok(tokio::net::lookup_host(remote).await?.collect()) }));
        }
    }

    /// Waits for a lookup; gives the address to connect to, or `None` if it failed or brought nothing new. For ever if
    /// none is under way.
    pub async fn resolved(&mut self) -> Option<SocketAddr> {
        let Some(lookup) = &mut self.lookup else { return std::future::pending().await };
        let result = lookup.await;
        self.lookup = None;
        let addresses = match result {
            Ok(Ok(addresses)) if !addresses.is_empty() => addresses,
            Ok(Ok(_)) => {
                self.on_failure("the name has no address");
                return None;
            }
            Ok(Err(error)) => {
                self.on_failure(&format!("cannot look it up: {error}"));
                return None;
            }
            Err(_) => return None,
        };
        match self.current {
            Some(current) if addresses.contains(&current) => None,
            // A name may have an IPv6 and an IPv4 address, of which one does not work from here: take turns.
            _ => {
                let address = addresses[self.attempts % addresses.len()];
                self.attempts += 1;
                Some(address)
            }
        }
    }

    pub fn on_failure(&mut self, reason: &str) {
        if self.last_failure.as_deref() != Some(reason) {
            let remote = self.remote.as_deref().unwrap_or_default();
            tracing::warn!(remote, reason, "cannot reach the other side; trying on");
            self.last_failure = Some(reason.to_owned());
        }
    }

    /// Connected: this address works, and the next failure is news again.
    pub fn on_connected(&mut self) {
        self.last_failure = None;
        self.attempts = self.attempts.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn only_news_leads_to_a_connection() {
        let mut dialler = Dialler::new(Some("127.0.0.1:9".into()));
        let address = "127.0.0.1:9".parse().unwrap();
        dialler.look_up(None);
        assert_eq!(dialler.resolved().await, Some(address));
        dialler.look_up(Some(address));
        assert_eq!(dialler.resolved().await, None);
        dialler.look_up(Some("127.0.0.2:9".parse().unwrap()));
        assert_eq!(dialler.resolved().await, Some(address));
    }
}
