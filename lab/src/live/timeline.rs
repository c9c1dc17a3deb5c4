//! Things that happen to interfaces at given times. They take system calls, so the emulator's thread has no time for
//! them.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::sys::prioritise;
use super::world::{Event, Shared, WorldError, lock};

const IDLE: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(super) struct Timeline {
    events: Option<Sender<(Instant, Event)>>,
    faults: Arc<Mutex<Vec<WorldError>>>,
    thread: Option<JoinHandle<()>>,
}

impl Timeline {
    pub(super) fn new(world: &Arc<Shared>) -> io::Result<Self> {
        let (events, inbox) = channel();
        let (world, faults) = (Arc::clone(world), Arc::new(Mutex::new(Vec::new())));
        let told = Arc::clone(&faults);
        let thread = Builder::new().name("timeline".into()).spawn(move || play(&world, &inbox, &told))?;
        Ok(Self { events: Some(events), faults, thread: Some(thread) })
    }

    pub(super) fn add(&self, at: Instant, event: Event) {
        if let Some(events) = &self.events {
            // It fails only if the thread has panicked.
            let _ = events.send((at, event));
        }
    }

    pub(super) fn take_faults(&self) -> Vec<WorldError> {
        std::mem::take(&mut lock(&self.faults))
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        self.events = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn play(world: &Shared, inbox: &Receiver<(Instant, Event)>, faults: &Mutex<Vec<WorldError>>) {
    prioritise();
    let mut due: BTreeMap<(Instant, u64), Event> = BTreeMap::new();
    for number in 0.. {
        let wait = due.first_key_value().map_or(IDLE, |((at, _), _)| at.saturating_duration_since(Instant::now()));
        match inbox.recv_timeout(wait) {
            Ok((at, event)) => drop(due.insert((at, number), event)),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        while let Some(first) = due.first_entry().filter(|first| first.key().0 <= Instant::now()) {
            if let Err(fault) = world.carry_out(first.remove()) {
                lock(faults).push(fault);
            }
        }
    }
}
