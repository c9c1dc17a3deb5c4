//! The thread that has the store: it waits for the disk while links do not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aquila_depot::{Depot, DepotError, Refusal, Verdict};
use aquila_proto::identity::PublicKey;
use aquila_proto::transfer::{Answer, Handle, ObjectId, Offer};
use bytes::Bytes;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use super::cast::CastSnapshot;
use super::complaints::Complaints;
use super::contact::News;
use super::forecast::{Queue, Way, shares};
use super::snapshot::{ContactSnapshot, MuleSnapshot, RefusedSnapshot};

/// Number of a link to another store.
pub(super) type LinkNumber = u32;

/// Objects on offer on a link.
const ON_OFFER: usize = 64;
/// What was stored is promised this often; what is whole at once.
const COMMIT_EVERY: Duration = Duration::from_millis(500);
/// Whether another process has put something in is looked at this often.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How things are is told this often: counting all objects takes the longer the more there are.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);
/// What has expired is given up this often.
const EXPIRE_EVERY: Duration = Duration::from_secs(10);
/// Packs that are looked into at a time for how many files they are.
const COUNT_AT_A_TIME: usize = 16;
/// Questions that are dealt with before what is whole is promised: one wait for the disk is for all of them.
const BATCH: usize = 256;

/// What a link wants of the store.
#[derive(Debug)]
pub(super) struct Ask {
    pub link: LinkNumber,
    pub question: Question,
}

#[derive(Debug)]
pub(super) enum Question {
    /// A link is there, to this peer.
    Join(PublicKey, UnboundedSender<News>),
    /// An object of the other side's: is it wanted?
    Offered(Handle, Offer),
    /// Its manifest.
    Judge(Handle, ObjectId, Bytes),
    /// A chunk of it.
    Store(Handle, ObjectId, u64, Bytes),
    /// All chunks are there.
    Complete(Handle, ObjectId),
    /// A part of one of ours is wanted.
    Load(Handle, ObjectId, u64),
    /// The other side has it.
    Given(ObjectId),
    /// The other side does not want it.
    Refused(ObjectId),
    /// What should be on offer?
    Candidates,
    /// Somebody's receipt.
    Receipt(Bytes),
    /// What is the other side to be told?
    Receipts,
    /// How things are.
    Status(Box<Told>),
    /// Something of others is not wanted, ever.
    Turned(Refusal),
    /// How a cast is.
    Cast(Box<CastSnapshot>),
    /// The link is there no more.
    Leave,
}

/// How a link is, and what is under way on it.
#[derive(Debug)]
pub(super) struct Told {
    pub snapshot: ContactSnapshot,
    /// What the other side is given, if it is: files.
    pub gives: Option<Way>,
    /// What is taken from it: objects.
    pub takes: Option<Way>,
}

#[derive(Debug)]
struct Link {
    peer: PublicKey,
    news: UnboundedSender<News>,
    /// Objects that are whole and not promised yet.
    whole: Vec<(Handle, ObjectId)>,
    status: Option<ContactSnapshot>,
    /// All that waits for it.
    queue: Queue,
}

/// The store's thread.
#[derive(Debug)]
pub(super) struct Desk {
    depot: Depot,
    asks: Receiver<Ask>,
    links: BTreeMap<LinkNumber, Link>,
    /// By whether they are sent, and by name.
    casts: BTreeMap<(bool, String), CastSnapshot>,
    published: watch::Sender<MuleSnapshot>,
    /// Hears of objects of others that are in custody and were not before.
    arrived: Sender<()>,
    dirty: bool,
    committed: Instant,
    looked: Instant,
    published_at: Option<Instant>,
    expired: Instant,
    /// Links are to be told that there may be more to offer, and what is to be told has changed.
    changed: bool,
    receipts_changed: bool,
    complaints: Complaints,
    /// How many objects of others were refused, and why.
    turned: BTreeMap<String, u64>,
}

impl Desk {
    pub fn new(depot: Depot, asks: Receiver<Ask>, published: watch::Sender<MuleSnapshot>, arrived: Sender<()>) -> Self {
        let now = Instant::now();
        Self {
            depot,
            asks,
            links: BTreeMap::new(),
            casts: BTreeMap::new(),
            published,
            arrived,
            dirty: false,
            committed: now,
            looked: now,
            published_at: None,
            expired: now,
            changed: false,
            receipts_changed: false,
            complaints: Complaints::default(),
            turned: BTreeMap::new(),
        }
    }

    /// Works until nobody asks any more.
    pub fn run(mut self) {
        loop {
            match self.asks.recv_timeout(LOOK_EVERY) {
                Ok(ask) => {
                    self.answer(ask);
                    for _ in 0..BATCH {
                        let Ok(ask) = self.asks.try_recv() else { break };
                        self.answer(ask);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.settle();
        }
        self.commit();
    }

    fn settle(&mut self) {
        let now = Instant::now();
        let is_whole = self.links.values().any(|link| !link.whole.is_empty());
        if is_whole || self.dirty && now.saturating_duration_since(self.committed) >= COMMIT_EVERY {
            self.commit();
        }
        if now.saturating_duration_since(self.looked) >= LOOK_EVERY {
            self.looked = now;
            match self.depot.count_files(COUNT_AT_A_TIME) {
                Ok(true) => self.links.values_mut().for_each(|link| link.queue.on_changed()),
                Ok(false) => {}
                Err(error) => self.complain("look into packs", &error),
            }
            match self.depot.changed() {
                Ok(true) => (self.changed, self.receipts_changed) = (true, true),
                Ok(false) => {}
                Err(error) => self.complain("look into the store", &error),
            }
        }
        if self.published_at.is_none_or(|at| now.saturating_duration_since(at) >= PUBLISH_EVERY) {
            self.published_at = Some(now);
            self.publish();
        }
        if now.saturating_duration_since(self.expired) >= EXPIRE_EVERY {
            self.expired = now;
            let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            match self.depot.expire(now_s) {
                Ok(0) => {}
                Ok(count) => {
                    tracing::warn!(count, "objects have expired before they were delivered");
                    self.changed = true;
                }
                Err(error) => self.complain("give up what has expired", &error),
            }
        }
        if std::mem::take(&mut self.changed) {
            for link in self.links.values_mut() {
                link.queue.on_changed();
                // A link that is gone needs no answer.
                let _ = link.news.send(News::Changed);
            }
        }
        if std::mem::take(&mut self.receipts_changed) {
            for number in self.links.keys().copied().collect::<Vec<_>>() {
                self.tell_receipts(number);
            }
        }
    }

    /// Promises what was stored.
    fn commit(&mut self) {
        self.committed = Instant::now();
        self.dirty = false;
        let result = self.depot.commit();
        let is_ok = result.is_ok();
        match result {
            Ok(committed) => {
                if !committed.custody.is_empty() {
                    tracing::info!(objects = committed.custody.len(), "in custody");
                    // Only a shore listens.
                    let _ = self.arrived.send(());
                    self.changed = true;
                    self.receipts_changed = true;
                }
                self.changed |= !committed.queued.is_empty();
            }
            Err(error) => {
                self.complain("store what came", &error);
                self.links.values().for_each(|link| drop(link.news.send(News::Lost)));
            }
        }
        for (number, handle, object) in self.take_whole() {
            let answer = match is_ok {
                true => self.verdict(number, |depot, _| depot.verdict(&object)),
                false => Answer::NotNow,
            };
            self.tell(number, News::Answer(handle, answer));
        }
    }

    fn take_whole(&mut self) -> Vec<(LinkNumber, Handle, ObjectId)> {
        let each = self.links.iter_mut().flat_map(|(number, link)| {
            let number = *number;
            link.whole.drain(..).map(move |(handle, object)| (number, handle, object))
        });
        each.collect()
    }

    fn tell(&self, link: LinkNumber, news: News) {
        if let Some(link) = self.links.get(&link) {
            // A link that is gone needs no answer.
            let _ = link.news.send(news);
        }
    }

    fn tell_receipts(&mut self, number: LinkNumber) {
        let Some(peer) = self.links.get(&number).map(|link| link.peer) else { return };
        match self.depot.receipts_for(&peer) {
            Ok(receipts) => self.tell(number, News::Receipts(receipts)),
            Err(error) => self.complain("read receipts", &error),
        }
    }

    fn verdict(
        &mut self,
        link: LinkNumber,
        ask: impl FnOnce(&mut Depot, &PublicKey) -> Result<Verdict, DepotError>,
    ) -> Answer {
        let Some(peer) = self.links.get(&link).map(|link| link.peer) else { return Answer::NotNow };
        let verdict = ask(&mut self.depot, &peer);
        if let Ok(Verdict::Refuse(why)) = &verdict {
            self.on_turned(*why);
        }
        answer_to(verdict, &mut self.complaints)
    }

    fn answer(&mut self, Ask { link, question }: Ask) {
        match question {
            Question::Join(peer, news) => {
                self.links.insert(link, Link { peer, news, whole: Vec::new(), status: None, queue: Queue::default() });
            }
            Question::Offered(handle, offer) => {
                let answer = self.verdict(link, |depot, peer| depot.on_offer(peer, &offer));
                self.tell(link, News::Answer(handle, answer));
            }
            Question::Judge(handle, object, manifest) => {
                let answer = self.verdict(link, |depot, peer| depot.on_manifest(peer, &object, &manifest));
                self.tell(link, News::Answer(handle, answer));
            }
            Question::Store(handle, object, part, bytes) => {
                let good = match self.depot.store(&object, part, &bytes) {
                    Ok(stored) => {
                        if !stored.also.is_empty() {
                            let also: Arc<[_]> = stored.also.into();
                            self.links.values().for_each(|link| drop(link.news.send(News::Also(also.clone()))));
                        }
                        stored.good
                    }
                    Err(error) => {
                        self.complain("store a chunk", &error);
                        if error.is_full() {
                            self.tell(link, News::Answer(handle, Answer::NotNow));
                        }
                        false
                    }
                };
                self.dirty = true;
                self.tell(link, News::Stored(handle, part, bytes.len(), good));
            }
            Question::Complete(handle, object) => {
                if let Some(link) = self.links.get_mut(&link) {
                    link.whole.push((handle, object));
                }
            }
            Question::Load(handle, object, part) => {
                let bytes = self.depot.load(&object, part).map_err(|error| self.complain("read an object", &error));
                self.tell(link, News::Loaded(handle, part, bytes.ok()));
            }
            Question::Given(object) => {
                self.gone(link, object);
                self.note(link, |depot, peer| depot.on_given(peer, &object));
            }
            Question::Refused(object) => {
                tracing::warn!(%object, "refused by the other store");
                self.gone(link, object);
                self.note(link, |depot, peer| depot.on_refused(peer, &object));
            }
            Question::Candidates => {
                let Some(peer) = self.links.get(&link).map(|link| link.peer) else { return };
                match self.depot.candidates(&peer, ON_OFFER, |_| false) {
                    Ok(candidates) => self.tell(link, News::Candidates(candidates)),
                    Err(error) => {
                        self.complain("look for what is to be given", &error);
                        self.tell(link, News::Candidates(Vec::new()));
                    }
                }
            }
            Question::Receipt(receipt) => {
                let Some(peer) = self.links.get(&link).map(|link| link.peer) else { return };
                match self.depot.on_receipt(&peer, &receipt) {
                    Ok(_) => (self.dirty, self.changed, self.receipts_changed) = (true, true, true),
                    Err(error) => self.complain("take a receipt", &error),
                }
            }
            Question::Receipts => self.tell_receipts(link),
            Question::Status(told) => self.on_told(link, *told),
            Question::Turned(why) => self.on_turned(why),
            Question::Cast(cast) => drop(self.casts.insert((cast.sends, cast.name.clone()), *cast)),
            Question::Leave => drop(self.links.remove(&link)),
        }
    }

    fn on_turned(&mut self, why: Refusal) {
        // One's own come back by others. That is nobody's fault.
        if why != Refusal::Ours {
            *self.turned.entry(why.to_string()).or_default() += 1;
        }
    }

    /// A peer needs an object no more.
    fn gone(&mut self, link: LinkNumber, object: ObjectId) {
        if let Some(link) = self.links.get_mut(&link) {
            link.queue.on_gone(object);
        }
    }

    /// Looks how much of what waits for a link's peer, here and there, this contact will finish.
    fn on_told(&mut self, link: LinkNumber, told: Told) {
        let Told { mut snapshot, gives, takes } = told;
        let Some(link) = self.links.get_mut(&link) else { return };
        let mut failed = None;
        let gives = gives.map(|way| {
            failed = link.queue.refresh(|| self.depot.queue(&link.peer)).err();
            Way { waiting: link.queue.waiting(&way.waiting), ..way }
        });
        let nothing = Way::default();
        let ways = [gives.as_ref().unwrap_or(&nothing), takes.as_ref().unwrap_or(&nothing)];
        let [to_give, to_take] = shares(snapshot.forecast, ways);
        snapshot.files = gives.map(|way| way.pass(to_give));
        snapshot.objects = takes.map(|way| way.pass(to_take));
        link.status = Some(snapshot);
        if let Some(error) = failed {
            self.complain("look for what is to be given", &error);
        }
    }

    fn note(&mut self, link: LinkNumber, note: impl FnOnce(&mut Depot, &PublicKey) -> Result<(), DepotError>) {
        let Some(peer) = self.links.get(&link).map(|link| link.peer) else { return };
        if let Err(error) = note(&mut self.depot, &peer) {
            self.complain("note what was given", &error);
        }
        self.dirty = true;
    }

    fn publish(&mut self) {
        let (summary, health) = match (self.depot.summary(), self.depot.health()) {
            (Ok(summary), Ok(health)) => (summary, health),
            (Err(error), _) | (_, Err(error)) => return self.complain("look into the store", &error),
        };
        let contacts = self.links.values().filter_map(|link| link.status.clone()).collect();
        let casts = self.casts.values().cloned().collect();
        let refused = self.turned.iter().map(|(why, objects)| RefusedSnapshot { why: why.clone(), objects: *objects });
        let snapshot = MuleSnapshot::new(&summary, &health);
        self.published.send_replace(MuleSnapshot { contacts, casts, refused: refused.collect(), ..snapshot });
    }

    fn complain(&mut self, what: &str, error: &DepotError) {
        self.complaints.say(format!("cannot {what}: {error}"));
    }
}

/// What the other side hears of what the store says to an object of its.
pub(super) fn answer_to(verdict: Result<Verdict, DepotError>, complaints: &mut Complaints) -> Answer {
    match verdict {
        Ok(Verdict::HaveCustody) => Answer::Custody,
        Ok(Verdict::WantManifest) => Answer::Manifest,
        Ok(Verdict::WantChunks { lens, have }) => Answer::Chunks { lens, have },
        // Of our own there is nothing to complain.
        Ok(Verdict::Refuse(Refusal::Ours)) => Answer::Refuse,
        // Who is believed may be mended in the configuration; a refusal is for ever.
        Ok(Verdict::Refuse(why @ Refusal::Source)) => {
            complaints.say(format!("objects are not taken: {why}"));
            Answer::NotNow
        }
        Ok(Verdict::Refuse(why)) => {
            complaints.say(format!("objects are refused: {why}"));
            Answer::Refuse
        }
        Ok(Verdict::NotNow(why)) => {
            complaints.say(format!("objects have to wait: {why}"));
            Answer::NotNow
        }
        Err(error) => {
            complaints.say(format!("cannot take an object: {error}"));
            Answer::NotNow
        }
    }
}
