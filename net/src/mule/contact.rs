//! One link to another store: what it says goes between the link's session and our store.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use aquila_depot::Candidate;
use aquila_proto::session::{ParcelFate, ParcelPort};
use aquila_proto::transfer::{Action, Answer, Handle, Hop, HopConfig, ObjectId, Offer};
use aquila_proto::{LinkState, Session};
use bytes::Bytes;
use tokio::sync::mpsc::UnboundedReceiver;

use super::Partner;
use super::desk::{Ask, LinkNumber, Question, Told};
use super::forecast::{Waiting, Way, in_order};
use super::snapshot::{ContactSnapshot, ObjectSnapshot};

/// Objects for which there was no room are asked for again this often.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// When so many of what is on offer have been given, more is put on offer.
const OFFER_MORE: usize = 16;
/// Bytes of chunks that wait to be stored, at most; what comes beyond has to be sent again.
const MAX_STORING: usize = 64 << 20;
/// The store hears this often how things are.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// What was carried in so many contacts before tells what this one will.
const CONTACTS_KEPT: usize = 8;
/// A contact that carried less says nothing, in bytes.
const WORTH_REMEMBERING: u64 = 1 << 20;
/// The hop is looked at no more often than this unless something comes in.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What the store says.
#[derive(Debug)]
pub(crate) enum News {
    /// Of an object of the other side's.
    Answer(Handle, Answer),
    /// A part was read.
    Loaded(Handle, u64, Option<Bytes>),
    /// A part was stored, of so many bytes, or is wrong.
    Stored(Handle, u64, usize, bool),
    /// Parts of objects that are being taken came with another object.
    Also(Arc<[(ObjectId, u64)]>),
    /// What should be on offer.
    Candidates(Vec<Candidate>),
    /// What the other side should be told.
    Receipts(Vec<Bytes>),
    /// There may be more to offer.
    Changed,
    /// What was stored last is lost: what is there of objects that are being taken is to be asked for again.
    Lost,
}

/// An object of ours that is on offer.
#[derive(Debug)]
struct Offered {
    object: ObjectId,
    offer: Offer,
    files: u64,
}

/// An object of the other side's.
#[derive(Debug)]
struct Taking {
    offer: Offer,
    /// There was no room for it.
    postponed: bool,
    /// Something of it was wanted.
    wanted: bool,
}

/// A link to another store, see [`super::Mule::meet`].
#[derive(Debug)]
pub struct Contact {
    link: LinkNumber,
    partner: Partner,
    hop: Hop,
    store: mpsc::Sender<Ask>,
    news: UnboundedReceiver<News>,
    offered: BTreeMap<Handle, Offered>,
    taking: BTreeMap<Handle, Taking>,
    storing: usize,
    up: Arc<AtomicBool>,
    /// What is on offer is not what it should be, and the store was asked what that is.
    stale: bool,
    asked: bool,
    given_since: usize,
    ask_again: Option<Instant>,
    told: Option<Instant>,
    looked: Option<Instant>,
    /// Bytes that were given and taken before this contact, and what contacts before brought.
    before: u64,
    contacts: VecDeque<u64>,
    /// Files that were given in this contact, and objects that were taken.
    done: [u64; 2],
    rate: Rate,
}

/// Bytes a second, over the last few.
#[derive(Debug, Default)]
struct Rate {
    last: Option<(Instant, [u64; 2])>,
    bps: [f64; 2],
}

impl Rate {
    fn update(&mut self, now: Instant, bytes: [u64; 2]) {
        if let Some((at, before)) = self.last {
            let seconds = now.saturating_duration_since(at).as_secs_f64().max(0.001);
            for (rate, (now, before)) in self.bps.iter_mut().zip(bytes.iter().zip(before)) {
                *rate += 0.5 * (8.0 * now.saturating_sub(before) as f64 / seconds - *rate);
            }
        }
        self.last = Some((now, bytes));
    }
}

impl Contact {
    pub(super) fn new(
        link: LinkNumber,
        partner: Partner,
        config: HopConfig,
        store: mpsc::Sender<Ask>,
        news: UnboundedReceiver<News>,
    ) -> Self {
        let contacts = partner.expected.into_iter().collect();
        Self {
            link,
            partner,
            hop: Hop::new(config),
            store,
            news,
            offered: BTreeMap::new(),
            taking: BTreeMap::new(),
            storing: 0,
            up: Arc::new(AtomicBool::new(false)),
            stale: false,
            asked: false,
            given_since: 0,
            ask_again: None,
            told: None,
            looked: None,
            before: 0,
            contacts,
            done: [0; 2],
            rate: Rate::default(),
        }
    }

    fn up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }

    /// Whether there is contact, for others to look at.
    pub(super) fn is_up(&self) -> Arc<AtomicBool> {
        self.up.clone()
    }

    /// Waits for what the store says; then [`Contact::on_news`].
    pub(crate) async fn heard(&mut self) -> News {
        match self.news.recv().await {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }

    /// What the store has said meanwhile.
    pub(crate) fn try_heard(&mut self) -> Option<News> {
        self.news.try_recv().ok()
    }

    /// The link's state.
    pub(crate) fn on_state(&mut self, now: Instant, state: LinkState) {
        match state {
            LinkState::Up if !self.up() => self.begin(now),
            LinkState::Lost | LinkState::Down if self.up() => {
                self.up.store(false, Ordering::Relaxed);
                self.hop.on_contact_lost();
                let carried = self.carried();
                if carried >= WORTH_REMEMBERING {
                    self.contacts.push_back(carried);
                    if self.contacts.len() > CONTACTS_KEPT {
                        self.contacts.pop_front();
                    }
                }
                tracing::info!(store = self.partner.name, bytes = carried, "out of contact");
            }
            _ => {}
        }
    }

    /// The link's only connection has been made anew, so that nothing that was under way will arrive.
    pub(crate) fn on_connected(&mut self, now: Instant) {
        if self.up() {
            self.hop.on_contact(now);
        }
    }

    fn begin(&mut self, now: Instant) {
        tracing::info!(store = self.partner.name, "in contact");
        self.up.store(true, Ordering::Relaxed);
        self.before = self.bytes().iter().sum();
        self.done = [0; 2];
        self.hop.on_contact(now);
        self.stale = true;
        self.ask(Question::Receipts);
    }

    /// Bytes given and taken.
    fn bytes(&self) -> [u64; 2] {
        let stats = self.hop.stats();
        [stats.bytes_sent.saturating_sub(stats.bytes_lost), stats.bytes_taken]
    }

    fn carried(&self) -> u64 {
        self.bytes().iter().sum::<u64>().saturating_sub(self.before)
    }

    /// Bytes that a contact is expected to carry: the median of those before.
    fn expected(&self) -> Option<u64> {
        let mut contacts: Vec<_> = self.contacts.iter().copied().collect();
        contacts.sort_unstable();
        contacts.get(contacts.len() / 2).copied()
    }

    /// What is left of that.
    fn forecast(&self) -> Option<u64> {
        self.expected().map(|expected| expected.saturating_sub(self.carried()))
    }

    pub(crate) fn on_parcel(&mut self, now: Instant, bytes: Bytes) {
        self.hop.handle_parcel(now, bytes);
    }

    pub(crate) fn on_fate(&mut self, now: Instant, fate: ParcelFate) {
        self.hop.on_fate(now, fate.token, fate.received);
    }

    fn ask(&self, question: Question) {
        // A store that is gone has said why.
        let _ = self.store.send(Ask { link: self.link, question });
    }

    pub(crate) fn on_news(&mut self, now: Instant, news: News) {
        match news {
            News::Answer(handle, answer) => {
                let Some(taking) = self.taking.get_mut(&handle) else { return };
                taking.postponed = answer == Answer::NotNow;
                taking.wanted |= matches!(answer, Answer::Manifest | Answer::Chunks { .. });
                // What was there before they met was not taken in this contact.
                self.done[1] += u64::from(answer == Answer::Custody && taking.wanted);
                if taking.postponed {
                    self.ask_again.get_or_insert(now + ASK_AGAIN);
                }
                if matches!(answer, Answer::Custody | Answer::Refuse) {
                    self.taking.remove(&handle);
                }
                self.hop.answer(handle, answer);
            }
            News::Loaded(handle, part, bytes) => {
                let is_gone = bytes.is_none();
                self.hop.on_loaded(handle, part, bytes);
                if is_gone && self.offered.remove(&handle).is_some() {
                    self.hop.withdraw(handle);
                    self.stale = true;
                }
            }
            News::Stored(handle, part, len, good) => {
                self.storing = self.storing.saturating_sub(len);
                self.hop.on_stored(now, handle, part, good);
            }
            News::Also(parts) => {
                for (object, part) in parts.iter() {
                    let mut taking = self.taking.iter().filter(|(_, taking)| taking.offer.object == *object);
                    if let Some((handle, _)) = taking.next() {
                        self.hop.on_there(now, *handle, *part);
                    }
                }
            }
            News::Candidates(candidates) => self.put_on_offer(&candidates),
            News::Receipts(receipts) => self.hop.set_receipts(receipts),
            News::Changed => self.stale = true,
            News::Lost => {
                for (handle, taking) in &self.taking {
                    self.ask(Question::Offered(*handle, taking.offer));
                }
            }
        }
    }

    /// What is on offer is this from now on.
    fn put_on_offer(&mut self, candidates: &[Candidate]) {
        self.asked = false;
        self.given_since = 0;
        let wanted: BTreeSet<_> = candidates.iter().map(|candidate| candidate.object).collect();
        let hop = &mut self.hop;
        self.offered.retain(|handle, offered| {
            let stays = wanted.contains(&offered.object);
            if !stays {
                hop.withdraw(*handle);
            }
            stays
        });
        let there: BTreeSet<_> = self.offered.values().map(|offered| offered.object).collect();
        for candidate in candidates.iter().filter(|candidate| !there.contains(&candidate.object)) {
            let Some(handle) = self.hop.offer(candidate.offer(), candidate.chunks) else { break };
            let Candidate { object, files, .. } = *candidate;
            self.offered.insert(handle, Offered { object, offer: candidate.offer(), files });
        }
    }

    fn on_action(&mut self, action: Action) {
        match action {
            Action::Met { .. } => {
                self.taking.clear();
                self.ask(Question::Receipts);
                self.stale = true;
            }
            Action::Load { handle, part } => match self.offered.get(&handle) {
                Some(Offered { object, .. }) => self.ask(Question::Load(handle, *object, part)),
                None => self.hop.on_loaded(handle, part, None),
            },
            Action::Given(handle) => {
                if let Some(offered) = self.offered.remove(&handle) {
                    self.done[0] += offered.files;
                    self.ask(Question::Given(offered.object));
                    self.count_given();
                }
            }
            Action::Refused(handle) => {
                if let Some(offered) = self.offered.remove(&handle) {
                    self.ask(Question::Refused(offered.object));
                    self.count_given();
                }
            }
            // Configuration may change; a refusal is for ever.
            Action::Offered { handle, .. } if !self.partner.takes_from => self.hop.answer(handle, Answer::NotNow),
            Action::Offered { handle, offer } => {
                self.taking.insert(handle, Taking { offer, postponed: false, wanted: false });
                self.ask(Question::Offered(handle, offer));
            }
            Action::Withdrawn(handle) => {
                self.taking.remove(&handle);
            }
            Action::Judge { handle, manifest } => {
                if let Some(taking) = self.taking.get(&handle) {
                    self.ask(Question::Judge(handle, taking.offer.object, manifest));
                }
            }
            Action::Store { handle, part, bytes } => match self.taking.get(&handle) {
                Some(taking) if self.storing + bytes.len() <= MAX_STORING => {
                    self.storing += bytes.len();
                    self.ask(Question::Store(handle, taking.offer.object, part, bytes));
                }
                // Now is soon enough for a chunk that is to be sent again.
                _ => self.hop.on_stored(Instant::now(), handle, part, false),
            },
            Action::Complete(handle) => {
                if let Some(taking) = self.taking.get(&handle) {
                    self.ask(Question::Complete(handle, taking.offer.object));
                }
            }
            Action::Receipt(receipt) => self.ask(Question::Receipt(receipt)),
        }
    }

    fn count_given(&mut self) {
        self.given_since += 1;
        self.stale |= self.given_since >= OFFER_MORE || self.offered.is_empty();
    }

    /// Does what the hop wants, and hands the session a parcel if it takes one. Whether it did: then the session is to be asked what it
    /// does with it, and this called again.
    pub(crate) fn pump(&mut self, now: Instant, session: &mut Session) -> bool {
        self.looked = Some(now);
        self.settle(now);
        let max = session.max_parcel();
        if max > 0 && session.parcel_room(ParcelPort::FILES) > 0 {
            let parcel = self.hop.poll_parcel(now, max);
            self.settle(now);
            if let Some((token, bytes)) = parcel {
                if session.send_parcel(now, ParcelPort::FILES, Some(token), bytes) {
                    return true;
                }
                self.hop.on_fate(now, token, false);
            }
        }
        if self.told.is_none_or(|at| now.saturating_duration_since(at) >= TELL_EVERY) {
            self.told = Some(now);
            self.rate.update(now, self.bytes());
            self.hop.set_forecast(self.forecast());
            self.ask(Question::Status(Box::new(self.tell())));
        }
        false
    }

    fn settle(&mut self, now: Instant) {
        if self.ask_again.take_if(|at| *at <= now).is_some() {
            for (handle, taking) in self.taking.iter().filter(|(_, taking)| taking.postponed) {
                self.ask(Question::Offered(*handle, taking.offer));
            }
        }
        while let Some(action) = self.hop.poll_action() {
            self.on_action(action);
        }
        if self.up() && self.partner.gives_to && self.stale && !self.asked {
            self.stale = false;
            self.asked = true;
            self.ask(Question::Candidates);
        }
    }

    /// When [`Contact::pump`] may have something to do though nothing came in.
    pub(crate) fn next_deadline(&self, session: &Session) -> Option<Instant> {
        let has_room = session.parcel_room(ParcelPort::FILES) > 0;
        let hop = self.hop.next_deadline().filter(|_| has_room);
        let tell = self.told.map(|at| at + TELL_EVERY);
        let next = [hop, self.ask_again, tell].into_iter().flatten().min()?;
        Some(self.looked.map_or(next, |at| next.max(at + LOOK_EVERY)))
    }

    /// What is on offer, and what the other side offers.
    fn waiting(&self) -> [Vec<Waiting>; 2] {
        let given = |(handle, offered): (&Handle, &Offered)| {
            Some(Waiting::new(*handle, &offered.offer, offered.files, self.hop.given(*handle)?))
        };
        let taken = |(handle, taking): (&Handle, &Taking)| {
            Some(Waiting::new(*handle, &taking.offer, 1, self.hop.taken(*handle)?))
        };
        [self.offered.iter().filter_map(given).collect(), self.taking.iter().filter_map(taken).collect()]
    }

    /// For the store, which knows what else waits for the other side.
    fn tell(&self) -> Told {
        let [given, taken] = self.bytes();
        let stats = self.hop.stats();
        let (up, partner, forecast) = (self.up(), &self.partner, self.forecast());
        let [gives, takes] = self.waiting();
        let under_way = |waiting: &[Waiting]| {
            in_order(waiting, forecast).iter().filter(|waiting| waiting.is_wanted()).map(ObjectSnapshot::from).collect()
        };
        let snapshot = ContactSnapshot {
            store: partner.name.clone(),
            peer: partner.key.fingerprint(),
            up,
            bytes_given: given,
            bytes_taken: taken,
            bytes_again: stats.bytes_again,
            bytes_lost: stats.bytes_lost,
            given_bps: if up { self.rate.bps[0] } else { 0.0 },
            taken_bps: if up { self.rate.bps[1] } else { 0.0 },
            this_contact: if up { self.carried() } else { 0 },
            expected_bytes: self.expected(),
            forecast: forecast.filter(|_| up),
            files: None,
            objects: None,
            giving: under_way(&gives),
            taking: under_way(&takes),
        };
        let [files, objects] = if up { self.done } else { [0; 2] };
        Told {
            snapshot,
            gives: partner.gives_to.then_some(Way { done: files, waiting: gives }),
            takes: partner.takes_from.then_some(Way { done: objects, waiting: takes }),
        }
    }
}

impl Drop for Contact {
    fn drop(&mut self) {
        self.ask(Question::Leave);
    }
}
