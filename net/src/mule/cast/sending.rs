//! A thread that sends a cast.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use aquila_depot::{Depot, DepotError};
use aquila_proto::identity::PublicKey;
use aquila_proto::transfer::cast::{CastAction, CastObject, CastSender, SenderConfig};
use aquila_proto::transfer::{Hash, StoreId};

use super::spec::CastSpec;
use super::state::{MAX_OBJECTS, Memory};
use super::{CastSetup, CastSnapshot, now_us, socket};
use crate::mule::MuleError;
use crate::mule::complaints::Complaints;
use crate::mule::desk::{Ask, Question};
use crate::mule::workers;

/// Objects that go round at a time.
const AT_A_TIME: usize = 4_096;
/// It is looked this often whether there is something new, and how things are is told.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const TELL_EVERY: Duration = Duration::from_secs(1);
/// What has to be remembered is written this often.
const SAVE_EVERY: Duration = Duration::from_secs(10);
/// A socket that cannot be had, or that fails, is tried again after this.
const AGAIN: Duration = Duration::from_secs(1);

/// What a cast is called in the store and among its listeners: of its own for each store and address, so that two casts of a store do not count
/// with the same counter.
fn address_name(store: StoreId, spec: &CastSpec) -> Hash {
    let text = format!("{}@{}", spec.air.address, spec.air.interface.as_deref().unwrap_or_default());
    Hash::of(&[b"aquila cast", &store.0[..], text.as_bytes()].concat())
}

/// Sends what is in the store.
pub(in crate::mule) fn send(
    depot: Depot,
    setup: CastSetup<CastSpec>,
    run: [u8; 4],
    dir: &std::path::Path,
    asks: Sender<Ask>,
    stop: Arc<AtomicBool>,
) -> Result<JoinHandle<()>, MuleError> {
    let CastSetup { spec, key } = setup;
    let name = address_name(depot.store_id(), &spec);
    let path = dir.join(format!("cast-{name:.16}"));
    let (memory, counter) = Memory::open(path.clone(), now_us())
        .map_err(|error| MuleError::Open(dir.to_owned(), DepotError::Io { path, error }))?;
    let store = StoreId(name.0.first_chunk().copied().unwrap_or_default());
    let snapshot =
        CastSnapshot { name: spec.air.name(), sends: true, key: key.fingerprint(), ..CastSnapshot::default() };
    let sender = CastSender::new(SenderConfig {
        key,
        store,
        run,
        counter,
        rate: spec.rate,
        datagram: spec.size,
        overhead: f64::from(spec.overhead) / 100.0,
        rounds: spec.rounds,
    });
    let now = Instant::now();
    let casting = Casting {
        depot,
        sender,
        // Nobody has this key: it is whom the store thinks that it gives to.
        listeners: PublicKey(name.0),
        memory,
        socket: None,
        again: now,
        looked: None,
        told: None,
        saved: now,
        is_changed: false,
        complaints: Complaints::about_cast(&snapshot.name),
        snapshot,
        asks,
        spec,
    };
    workers::spawn("cast", move || casting.run(&stop))
}

struct Casting {
    depot: Depot,
    sender: CastSender,
    listeners: PublicKey,
    memory: Memory,
    socket: Option<UdpSocket>,
    again: Instant,
    looked: Option<Instant>,
    told: Option<Instant>,
    saved: Instant,
    is_changed: bool,
    complaints: Complaints,
    snapshot: CastSnapshot,
    asks: Sender<Ask>,
    spec: CastSpec,
}

fn is_due(at: Option<Instant>, every: Duration, now: Instant) -> bool {
    at.is_none_or(|at| now.saturating_duration_since(at) >= every)
}

impl Casting {
    fn run(mut self, stop: &AtomicBool) {
        let mut has_looked = false;
        while !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            if is_due(self.looked, LOOK_EVERY, now) {
                self.looked = Some(now);
                let changed = self.depot.changed().unwrap_or(true);
                if changed || !has_looked || self.is_changed {
                    has_looked = self.look();
                }
            }
            if is_due(self.told, TELL_EVERY, now) {
                self.told = Some(now);
                self.tell();
            }
            let is_old = self.is_changed && now.saturating_duration_since(self.saved) >= SAVE_EVERY;
            if is_old || self.memory.is_short(self.sender.counter()) {
                self.save(now);
            }
            if !self.step(now) {
                let next = self.sender.next_deadline().filter(|at| *at > now).unwrap_or(now + LOOK_EVERY);
                thread::sleep(next.saturating_duration_since(now).min(LOOK_EVERY));
            }
        }
        self.save(Instant::now());
    }

    /// Sends a datagram, if it is time for one. Whether more may be due.
    fn step(&mut self, now: Instant) -> bool {
        if self.socket.is_none() {
            if now < self.again {
                return false;
            }
            self.again = now + AGAIN;
            match socket::open(&self.spec) {
                Ok(socket) => self.socket = Some(socket),
                Err(error) => {
                    self.complaints.say(format!("cannot cast to {}: {error}", self.spec.air.address));
                    return false;
                }
            }
        }
        // Counters that are not written down must not be used.
        if self.sender.counter() >= self.memory.reserved {
            return false;
        }
        let datagram = self.sender.poll_datagram(now);
        let has_acted = self.act();
        let Some(datagram) = datagram else { return has_acted };
        match self.socket.as_ref().map(|socket| socket.send(&datagram)) {
            Some(Ok(_)) => self.complaints.end(),
            // What was refused by a host that does not listen yet is lost as in the air.
            Some(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
            Some(Err(error)) => {
                self.complaints.say(format!("cannot cast to {}: {error}", self.spec.air.address));
                self.socket = None;
            }
            None => {}
        }
        true
    }

    fn act(&mut self) -> bool {
        let mut has_acted = false;
        while let Some(action) = self.sender.poll_action() {
            has_acted = true;
            match action {
                CastAction::Load(object, part) => {
                    let bytes = self.depot.load(&object, part);
                    if let Err(error) = &bytes {
                        self.complaints.say(format!("cannot read what is cast: {error}"));
                    }
                    self.sender.on_loaded(object, part, bytes.ok());
                }
                CastAction::Round(object, rounds) => {
                    self.memory.rounds.insert(object, rounds);
                    self.is_changed = true;
                }
            }
        }
        has_acted
    }

    /// What is to be cast now: what has rounds left, the most urgent first.
    fn look(&mut self) -> bool {
        let (rounds, limit) = (&self.memory.rounds, self.spec.rounds);
        let has = |object: &_| rounds.get(object).copied().unwrap_or_default();
        let is_done = |object: &_| limit > 0 && has(object) >= limit;
        match self.depot.candidates(&self.listeners, AT_A_TIME, is_done) {
            Ok(candidates) => {
                let objects = candidates.iter().map(|candidate| CastObject {
                    object: candidate.object,
                    manifest_len: candidate.manifest_len,
                    priority: candidate.priority,
                    deadline_s: candidate.deadline_s,
                    rounds: has(&candidate.object),
                });
                self.sender.set_objects(objects);
                true
            }
            Err(error) => {
                self.complaints.say(format!("cannot look for what is to be cast: {error}"));
                false
            }
        }
    }

    fn save(&mut self, now: Instant) {
        self.saved = now;
        if self.memory.rounds.len() > MAX_OBJECTS {
            tracing::warn!("more objects were cast than are remembered: after a restart some have all rounds again");
        }
        match self.memory.save(self.sender.counter(), self.sender.begun()) {
            Ok(()) => self.is_changed = false,
            Err(error) => self.complaints.say(format!("cannot write down what was cast: {error}")),
        }
    }

    fn tell(&mut self) {
        let stats = self.sender.stats();
        let snapshot = CastSnapshot {
            datagrams: stats.datagrams,
            symbols: stats.symbols,
            objects: stats.rounds,
            under_way: stats.objects,
            ..self.snapshot.clone()
        };
        // A store that is gone has said why.
        let _ = self.asks.send(Ask { link: 0, question: Question::Cast(Box::new(snapshot)) });
    }
}
