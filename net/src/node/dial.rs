//! Looking up the other side's address, again at each reconnection: names move with their addresses.
//!
//! A lookup through a network that is gone takes tens of seconds to fail. Meanwhile, and after it has failed, the addresses
//! of the last one that worked are tried on.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use tokio::task::JoinHandle;

/// Looks a name with a port up.
type Resolve = fn(String) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// A lookup that takes longer is not waited for while there are addresses to try; most answer in less.
const PATIENCE: Duration = Duration::from_millis(500);

/// Looks names up in the background, one at a time, and logs failures once until something changes.
#[derive(Debug)]
pub(super) struct Dialler {
    remote: Option<String>,
    resolve: Resolve,
    lookup: Option<JoinHandle<io::Result<Vec<SocketAddr>>>>,
    /// An address is wanted, and the lookup may take until then if there are others to try.
    wanted: Option<tokio::time::Instant>,
    /// What the name last meant.
    known: Vec<SocketAddr>,
    /// The address that is connected to, as far as it is; kept if it is still one of the name's.
    current: Option<SocketAddr>,
    last_failure: Option<String>,
    attempts: usize,
    connected: bool,
    unanswered: u32,
    /// The other side has been heard since an address was last wanted.
    up: bool,
}

impl Dialler {
    pub fn new(remote: Option<String>) -> Self {
        Self {
            remote,
            resolve: |remote| Box::pin(async move { Ok(tokio::net::lookup_host(remote).await?.collect()) }),
            lookup: None,
            wanted: None,
            known: Vec::new(),
            current: None,
            last_failure: None,
            attempts: 0,
            connected: false,
            up: false,
            unanswered: 0,
        }
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

    /// An address is wanted: starts a lookup, unless one is under way. `current`: the address that is connected to, but
    /// silent.
    pub fn look_up(&mut self, current: Option<SocketAddr>) {
        let Some(remote) = self.remote.clone() else { return };
        self.current = current;
        self.wanted = Some(tokio::time::Instant::now() + PATIENCE);
        self.up = false;
        if self.lookup.is_none() {
            self.lookup = Some(tokio::spawn((self.resolve)(remote)));
        }
    }

    /// The other side is heard: no other address is wanted, whatever a lookup under way will say.
    pub fn on_up(&mut self) {
        self.wanted = None;
        self.up = true;
    }

    /// Whether [`Dialler::resolved`] has anything to wait for.
    pub fn is_busy(&self) -> bool {
        self.lookup.is_some()
    }

    /// Waits for an address to connect to, one for each time that one was wanted; `None` if there is none to try. For ever
    /// if none is wanted.
    pub async fn resolved(&mut self) -> Option<SocketAddr> {
        loop {
            let Some(lookup) = &mut self.lookup else { return std::future::pending().await };
            let overdue = self.wanted.filter(|_| !self.known.is_empty());
            let result = tokio::select! {
                biased;
                result = lookup => result,
                () = at(overdue) => {
                    self.wanted = None;
                    self.on_failure("looking it up takes long; trying the last known address");
                    return Some(self.choose());
                }
            };
            self.lookup = None;
            match result {
                Ok(Ok(addresses)) if !addresses.is_empty() => {
                    // One that comes late must not disturb a link that is up again, nor, if it says nothing new, the attempt that
                    // is under way.
                    let news = !self.up && addresses.iter().any(|address| !self.known.contains(address));
                    self.known = addresses;
                    if self.wanted.take().is_some() || news {
                        return Some(self.choose());
                    }
                    continue;
                }
                Ok(Ok(_)) => self.on_failure("the name has no address"),
                Ok(Err(error)) => self.on_failure(&format!("cannot look it up: {error}")),
                Err(_) => {}
            }
            if self.wanted.take().is_some() {
                return (!self.known.is_empty()).then(|| self.choose());
            }
        }
    }

    /// The next of the known addresses, of which there are some.
    fn choose(&mut self) -> SocketAddr {
        match self.current {
            Some(current) if self.connected && self.known.contains(&current) => current,
            // A name may have an IPv6 and an IPv4 address, of which one does not work from here: take turns.
            _ => {
                let address = self.known[self.attempts % self.known.len()];
                self.attempts += 1;
                self.connected &= self.current == Some(address);
                address
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

/// Waits until then; for ever if there is no then.
async fn at(time: Option<tokio::time::Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, last], 9))
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_name_is_looked_up_at_each_try() {
        let mut dialler = Dialler::new(Some("127.0.0.1:9".into()));
        let (own, other) = (address(1), address(2));
        for (connected, current) in [(false, None), (true, Some(own)), (true, Some(other)), (false, Some(other))] {
            dialler.connected = connected;
            dialler.look_up(current);
            assert_eq!(dialler.resolved().await, Some(own));
        }
    }

    fn with(resolve: Resolve) -> Dialler {
        Dialler { resolve, ..Dialler::new(Some("name:9".into())) }
    }

    /// How long until there is an address, and which; time passes only where somebody waits.
    async fn wait(dialler: &mut Dialler) -> (Duration, Option<SocketAddr>) {
        let before = tokio::time::Instant::now();
        let address = dialler.resolved().await;
        (before.elapsed(), address)
    }

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn the_last_known_addresses_are_tried_while_a_lookup_hangs() {
        static LOOKUPS: AtomicUsize = AtomicUsize::new(0);
        let mut dialler = with(|_| {
            Box::pin(async {
                // The first answers, the second hangs for half a minute and fails, the third says that the name has moved.
                match LOOKUPS.fetch_add(1, SeqCst) {
                    0 => Ok(vec![address(1), address(2)]),
                    1 => {
                        tokio::time::sleep(Duration::from_secs(30)).await;
                        Err(io::ErrorKind::TimedOut.into())
                    }
                    _ => Ok(vec![address(3)]),
                }
            })
        });
        dialler.look_up(None);
        assert_eq!(wait(&mut dialler).await, (Duration::ZERO, Some(address(1))));
        for n in 0..6 {
            // As the session does after each two seconds of silence.
            dialler.look_up(None);
            assert_eq!(wait(&mut dialler).await, (PATIENCE, Some(address(2 - n % 2))), "they take turns");
        }
        assert_eq!(LOOKUPS.load(SeqCst), 2, "one lookup at a time");
        assert!(tokio::time::timeout(Duration::from_secs(60), dialler.resolved()).await.is_err(), "none is wanted");
        dialler.look_up(None);
        assert_eq!(wait(&mut dialler).await, (Duration::ZERO, Some(address(3))));
    }

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn a_late_answer_is_used_at_once_if_it_is_news() {
        static LOOKUPS: AtomicUsize = AtomicUsize::new(0);
        let mut dialler = with(|_| {
            Box::pin(async {
                let n = LOOKUPS.fetch_add(1, SeqCst);
                tokio::time::sleep(Duration::from_secs(10)).await;
                Ok(vec![address(if n < 2 { 1 } else { 2 })])
            })
        });
        dialler.look_up(None);
        assert_eq!(
            wait(&mut dialler).await,
            (Duration::from_secs(10), Some(address(1))),
            "the first has to be waited for"
        );
        dialler.look_up(None);
        assert_eq!(wait(&mut dialler).await, (PATIENCE, Some(address(1))));
        assert!(tokio::time::timeout(Duration::from_secs(60), dialler.resolved()).await.is_err(), "nothing new");
        dialler.look_up(None);
        assert_eq!(wait(&mut dialler).await, (PATIENCE, Some(address(1))));
        assert_eq!(wait(&mut dialler).await, (Duration::from_secs(10) - PATIENCE, Some(address(2))));
    }

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn after_a_lookup_that_fails_the_last_known_addresses_are_tried() {
        static LOOKUPS: AtomicUsize = AtomicUsize::new(0);
        let mut dialler = with(|_| {
            Box::pin(async {
                match LOOKUPS.fetch_add(1, SeqCst) {
                    1 => Ok(vec![address(1)]),
                    2 => Ok(vec![]),
                    _ => Err(io::ErrorKind::NotFound.into()),
                }
            })
        });
        for expected in [None, Some(address(1)), Some(address(1)), Some(address(1))] {
            dialler.look_up(None);
            assert_eq!(wait(&mut dialler).await, (Duration::ZERO, expected));
        }
    }
}
