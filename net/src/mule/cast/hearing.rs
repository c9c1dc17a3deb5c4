//! A thread that hears a cast.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use aquila_depot::{Depot, DepotError, Refusal, Verdict};
use aquila_proto::transfer::cast::{CastReceiver, HeardAction, ReceiverConfig, Refused};
use aquila_proto::transfer::{Answer, Manifest, ObjectId};

use super::spec::HearSpec;
use super::{CastSetup, CastSnapshot, socket};
use crate::mule::complaints::Complaints;
use crate::mule::desk::{Ask, Question, answer_to};
use crate::mule::{MuleError, workers};

/// Bytes of memory for what is not whole.
const ROOM: usize = 64 << 20;
/// What was stored is promised this often; what is whole at once.
const COMMIT_EVERY: Duration = Duration::from_millis(500);
/// It is looked this often whether to end, and groups are joined on interfaces that have come.
const PATIENCE: Duration = Duration::from_millis(100);
const TELL_EVERY: Duration = Duration::from_secs(1);
/// A socket that cannot be had is tried again after this.
const AGAIN: Duration = Duration::from_secs(1);
/// Longest datagram that is looked at, and one byte.
const LONGEST: usize = 1_473;

/// Hears what is cast, and puts it into the store. `arrived` is told of objects that are in custody.
pub(in crate::mule) fn hear(
    depot: Depot,
    setup: CastSetup<HearSpec>,
    asks: Sender<Ask>,
    arrived: Sender<()>,
    stop: Arc<AtomicBool>,
) -> Result<JoinHandle<()>, MuleError> {
    let CastSetup { spec, key } = setup;
    let snapshot = CastSnapshot { name: spec.air.name(), key: key.fingerprint(), ..CastSnapshot::default() };
    let receiver = CastReceiver::new(ReceiverConfig { key, store: depot.store_id(), room: ROOM });
    let now = Instant::now();
    let hearing = Hearing {
        depot,
        receiver,
        is_dirty: false,
        whole: Vec::new(),
        committed: now,
        told: None,
        complaints: Complaints::about_cast(&snapshot.name),
        snapshot,
        asks,
        arrived,
        spec,
    };
    workers::spawn("hear", move || hearing.run(&stop))
}

struct Hearing {
    depot: Depot,
    receiver: CastReceiver,
    is_dirty: bool,
    /// Objects that are whole and not promised yet.
    whole: Vec<ObjectId>,
    committed: Instant,
    told: Option<Instant>,
    complaints: Complaints,
    snapshot: CastSnapshot,
    asks: Sender<Ask>,
    arrived: Sender<()>,
    spec: HearSpec,
}

impl Hearing {
    fn run(mut self, stop: &AtomicBool) {
        let mut socket = None;
        let mut bytes = [0; LONGEST];
        while !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            self.settle(now, socket.as_ref());
            let Some(ears) = &socket else {
                match socket::listen(&self.spec.air, PATIENCE) {
                    Ok(ears) => socket = Some(ears),
                    Err(error) => {
                        self.complaints.say(format!("cannot hear {}: {error}", self.spec.air.address));
                        thread::sleep(AGAIN);
                    }
                }
                continue;
            };
            match ears.recv_from(&mut bytes) {
                Ok((len, from)) => self.on_datagram(&bytes[..len], from),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.complaints.say(format!("cannot hear {}: {error}", self.spec.air.address));
                    socket = None;
                }
            }
        }
        self.commit();
    }

    fn settle(&mut self, now: Instant, socket: Option<&UdpSocket>) {
        let is_time = now.saturating_duration_since(self.committed) >= COMMIT_EVERY;
        if !self.whole.is_empty() || self.is_dirty && is_time {
            self.committed = now;
            self.commit();
        }
        if self.told.is_none_or(|at| now.saturating_duration_since(at) >= TELL_EVERY) {
            self.told = Some(now);
            if let Some(socket) = socket {
                socket::join(socket, &self.spec.air);
            }
            self.tell();
        }
    }

    fn on_datagram(&mut self, datagram: &[u8], from: SocketAddr) {
        let now = Instant::now();
        match self.receiver.handle_datagram(now, datagram) {
            Err(Refused::Key) => self.complaints.say(format!(
                "a cast from {} is refused: not sealed with our key {} ({}); do all members have the same?",
                from.ip(),
                self.spec.air.key.display(),
                self.snapshot.key
            )),
            Err(refused) => tracing::debug!(%from, %refused, "datagram refused"),
            Ok(_) => {}
        }
        while let Some(action) = self.receiver.poll_action() {
            self.act(now, action);
        }
    }

    fn act(&mut self, now: Instant, action: HeardAction) {
        match action {
            HeardAction::Offered(object) => {
                let verdict = self.depot.verdict(&object);
                self.answer(now, object, verdict);
            }
            HeardAction::Judge(object, manifest) => {
                // The source has what it sends, if nobody else has.
                let verdict = match Manifest::parse(&manifest) {
                    Ok(parsed) => self.depot.on_manifest(&parsed.key, &object, &manifest),
                    Err(error) => Ok(Verdict::Refuse(Refusal::Manifest(error))),
                };
                self.is_dirty = true;
                self.answer(now, object, verdict);
            }
            HeardAction::Store(object, part, bytes) => match self.depot.store(&object, part, &bytes) {
                Ok(stored) => {
                    self.is_dirty = true;
                    self.receiver.on_stored(object, part, stored.good);
                }
                Err(error) => {
                    self.complaints.say(format!("cannot store a chunk: {error}"));
                    self.receiver.answer(now, object, Answer::NotNow);
                }
            },
            HeardAction::Complete(object) => {
                self.is_dirty = true;
                self.whole.push(object);
            }
        }
    }

    fn answer(&mut self, now: Instant, object: ObjectId, verdict: Result<Verdict, DepotError>) {
        if let Ok(Verdict::Refuse(why)) = &verdict {
            // A store that is gone has said why.
            let _ = self.asks.send(Ask { link: 0, question: Question::Turned(*why) });
        }
        let answer = answer_to(verdict, &mut self.complaints);
        self.receiver.answer(now, object, answer);
        while let Some(action) = self.receiver.poll_action() {
            self.act(now, action);
        }
    }

    /// Promises what was stored.
    fn commit(&mut self) {
        let now = Instant::now();
        self.is_dirty = false;
        match self.depot.commit() {
            Ok(committed) => {
                if !committed.custody.is_empty() {
                    tracing::info!(cast = self.snapshot.name, objects = committed.custody.len(), "in custody");
                    // Only a shore listens.
                    let _ = self.arrived.send(());
                }
                for object in std::mem::take(&mut self.whole) {
                    let verdict = self.depot.verdict(&object);
                    self.answer(now, object, verdict);
                }
            }
            Err(error) => {
                self.complaints.say(format!("cannot store what came: {error}"));
                self.whole.clear();
                self.receiver.on_lost();
            }
        }
    }

    fn tell(&mut self) {
        let stats = self.receiver.stats();
        let snapshot = CastSnapshot {
            datagrams: stats.datagrams,
            refused: stats.foreign + stats.wrong_key + stats.replayed + stats.malformed,
            wrong_key: stats.wrong_key,
            symbols: stats.symbols,
            unneeded: stats.unneeded,
            blocks: stats.blocks,
            dropped: stats.dropped + stats.wrong,
            no_room: stats.no_room,
            objects: stats.objects,
            under_way: self.receiver.hearing().len() as u64,
            held_bytes: stats.held,
            ..self.snapshot.clone()
        };
        // A store that is gone has said why.
        let _ = self.asks.send(Ask { link: 0, question: Question::Cast(Box::new(snapshot)) });
    }
}
