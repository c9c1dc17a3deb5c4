//! Connections of others'.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};
use tracing::{debug, info, warn};

use super::driver::Driver;
use super::{Shared, Signal};
use crate::tcpcl::{Role, Session};

/// How long to wait when the system gives no connection, for want of descriptors.
const PAUSE: Duration = Duration::from_millis(200);

/// Takes connections until the agent closes.
pub(super) async fn listen(
    shared: Arc<Shared>,
    listener: TcpListener,
    mut signals: watch::Receiver<Signal>,
    guard: mpsc::Sender<()>,
) {
    let places = Arc::new(Semaphore::new(shared.config.sessions));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            changed = signals.changed() => {
                if changed.is_err() || signals.borrow_and_update().closing { return }
                continue
            }
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!("no connection: {error}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            debug!("{address} turned away: {} sessions already", shared.config.sessions);
            shared.stats.count(|stats| stats.turned_away += 1);
            continue;
        };
        let session = Session::new(Role::Passive, shared.config.session.clone(), Instant::now());
        let (shared, signals, guard) = (shared.clone(), signals.clone(), guard.clone());
        tokio::spawn(async move {
            let end = Driver::new(shared, session, address, signals, None).run(stream).await;
            info!("session with {address}: {end}");
            drop((place, guard));
        });
    }
}
