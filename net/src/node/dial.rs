//! Looking up the other side's address, again at each reconnection: names move with their addresses.

use std::net::SocketAddr;

use tokio::task::JoinHandle;

/// Looks names up in the background, one at a time, and logs failures once until something changes.
#[derive(Debug)]
pub(super) struct Dialler {
    remote: Option<String>,
    lookup: Option<JoinHandle<std::io::Result<Vec<SocketAddr>>>>,
    /// The address that is connected to, as far as it is; kept if it is still one of the name's.
    current: Option<SocketAddr>,
    last_failure: Option<String>,
    attempts: usize,
    connected: bool,
    unanswered: u32,
}

impl Dialler {
    pub fn new(remote: Option<String>) -> Self {
        Self { remote, lookup: None, current: None, last_failure: None, attempts: 0, connected: false, unanswered: 0 }
    }

    /// Nothing has come back from the address that was tried. Said once: a side that is not meant for our key does not
    /// answer, so there is nothing else to tell it by.
    pub fn on_silence(&mut self) {
        if self.connected {
            return;
        }
        self.unanswered += 1;
        if self.unanswered == 3 {
            self.on_failure(
                "nobody answers. Is the other side running and reachable by UDP, does it have our public key as its peer, and \
                 do we have its?",
            );
        }
    }

    /// Starts a lookup, unless one is under way. `current`: the address that is connected to, but silent.
    pub fn look_up(&mut self, current: Option<SocketAddr>) {
        let Some(remote) = self.remote.clone() else { return };
        self.current = current;
        if self.lookup.is_none() {
            self.lookup = Some(tokio::spawn(async move { Ok(tokio::net::lookup_host(remote).await?.collect()) }));
        }
    }

    /// Waits for a lookup; gives the address to connect to, or `None` if it failed. For ever if none is under way.
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
            Some(current) if self.connected && addresses.contains(&current) => Some(current),
            // A name may have an IPv6 and an IPv4 address, of which one does not work from here: take turns.
            _ => {
                let address = addresses[self.attempts % addresses.len()];
                self.attempts += 1;
                self.connected &= self.current == Some(address);
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
        self.unanswered = 0;
        self.connected = true;
    }

    /// The connection is gone.
    pub fn on_disconnected(&mut self) {
        self.connected = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn a_name_is_looked_up_at_each_try() {
        let mut dialler = Dialler::new(Some("127.0.0.1:9".into()));
        let address = "127.0.0.1:9".parse().unwrap();
        let other = "127.0.0.2:9".parse().unwrap();
        for (connected, current) in [(false, None), (true, Some(address)), (true, Some(other)), (false, Some(other))] {
            dialler.connected = connected;
            dialler.look_up(current);
            assert_eq!(dialler.resolved().await, Some(address));
        }
    }
}
