//! Two stores that meet.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::frame::{Frame, Handle, MAX_FRAME, Offer, PIECE_EXTRA, data_header};
use super::giver::Giver;
use super::manifest::{Hash, StoreId};
use super::taker::Taker;
use super::{Action, Answer, Note, Progress, TransferStats};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopConfig {
    /// Our store.
    pub store: StoreId,
    /// Another number at each start of the process.
    pub life: u64,
}

/// Longest receipt that is taken, in bytes.
const MAX_RECEIPT: usize = MAX_FRAME - 3;
/// Receipts that we have to tell of, at most.
const MAX_RECEIPTS: usize = 256;
/// Bytes of a hello, and of whom a parcel is for.
const FRONT: usize = 18 + 9;
const MIN_PARCEL: usize = MAX_FRAME + FRONT;
/// Room in a parcel that is worth another piece of data, in bytes.
const WORTH_IT: usize = 64;
/// Parcels of which the fate is not known, at most: the oldest count as lost.
const MAX_FLYING: usize = 16_384;
/// Fates take so long until that is known, and no less.
const UNKNOWN_FATE: Duration = Duration::from_millis(500);
const LEAST_FATE: Duration = Duration::from_millis(10);
const MAX_PATIENCE: u32 = 64;

/// A parcel under way.
#[derive(Debug)]
struct Flight {
    sent: Instant,
    notes: Vec<Note>,
    /// It is overdue after so many times what fates take; twice as many for what was repeated.
    patience: u32,
}

/// How long it takes to hear of a parcel that it has arrived.
#[derive(Debug, Default)]
struct FateDelay {
    mean: Option<Duration>,
    deviation: Duration,
}

impl FateDelay {
    /// Smoothed as RFC 6298, section 2, does it with round trips.
    fn measure(&mut self, delay: Duration) {
        let Some(mean) = self.mean else {
            self.mean = Some(delay);
            self.deviation = delay / 2;
            return;
        };
        self.deviation = (3 * self.deviation + mean.abs_diff(delay)) / 4;
        self.mean = Some((7 * mean + delay) / 8);
    }

    /// Later than this it is unlikely to come.
    fn longest(&self) -> Duration {
        let longest = self.mean.map_or(UNKNOWN_FATE, |mean| mean + 4 * self.deviation);
        longest.max(LEAST_FATE)
    }
}

/// What two stores that meet say to each other, from one's side. Hand in one input, then drain [`Hop::poll_action`] and, as far as there is
/// room for parcels, [`Hop::poll_parcel`].
#[derive(Debug)]
pub struct Hop {
    config: HopConfig,
    peer: Option<(StoreId, u64)>,
    in_contact: bool,
    hello_due: bool,
    /// The other side knows us.
    hello_heard: bool,
    giver: Giver,
    taker: Taker,
    receipts: Vec<(Bytes, bool)>,
    flying: BTreeMap<u64, Flight>,
    /// Up to this token, what is under way was repeated once its fate was overdue.
    repeated: u64,
    fate: FateDelay,
    /// There was nothing to send when it was last asked for.
    idle: bool,
    tokens: u64,
    actions: VecDeque<Action>,
    stats: TransferStats,
}

impl Hop {
    /// Nobody is met yet.
    pub fn new(config: HopConfig) -> Self {
        Self {
            config,
            peer: None,
            in_contact: false,
            hello_due: false,
            hello_heard: false,
            giver: Giver::default(),
            taker: Taker::default(),
            receipts: Vec::new(),
            flying: BTreeMap::new(),
            repeated: 0,
            fate: FateDelay::default(),
            idle: false,
            tokens: 0,
            actions: VecDeque::new(),
            stats: TransferStats::default(),
        }
    }

    /// Puts an object on offer, of which we have so many chunks; `None` if no more can be ([`Hop::offer_room`]). Those that were
    /// given or refused make room.
    pub fn offer(&mut self, offer: Offer, chunks: u64) -> Option<Handle> {
        self.giver.offer(offer, chunks)
    }

    /// How many more objects can be put on offer.
    pub fn offer_room(&self) -> usize {
        self.giver.room()
    }

    /// An object is not to be had any more.
    pub fn withdraw(&mut self, handle: Handle) {
        self.giver.withdraw(handle);
    }

    /// What is left of this contact is expected to carry so many bytes.
    pub fn set_forecast(&mut self, bytes: Option<u64>) {
        self.giver.set_forecast(bytes);
    }

    /// Receipts that the other side should have: each is told once to each life of the other side. At most 256 are kept, of at
    /// most 997 bytes each.
    pub fn set_receipts(&mut self, receipts: impl IntoIterator<Item = Bytes>) {
        let told = |receipt: &Bytes| self.receipts.iter().any(|(other, due)| other == receipt && !due);
        let receipts = receipts.into_iter().filter(|receipt| receipt.len() <= MAX_RECEIPT).take(MAX_RECEIPTS);
        self.receipts = receipts
            .map(|receipt| {
                let due = !told(&receipt);
                (receipt, due)
            })
            .collect();
    }

    /// The link to the other side is there, for the first time or again.
    pub fn on_contact(&mut self, now: Instant) {
        self.in_contact = true;
        self.hello_due = true;
        self.giver.on_contact(now);
        self.taker.on_contact(now);
    }

    /// The link is gone.
    pub fn on_contact_lost(&mut self) {
        self.in_contact = false;
    }

    /// Decides what becomes of an object of the other side's.
    pub fn answer(&mut self, handle: Handle, answer: Answer) {
        self.taker.answer(handle, answer, &mut self.actions);
    }

    /// A part was read; `None` if it cannot be, which stops the object: withdraw it.
    pub fn on_loaded(&mut self, handle: Handle, part: u64, bytes: Option<Bytes>) {
        self.giver.on_loaded(handle, part, bytes);
    }

    /// A chunk was verified and stored, or is wrong.
    pub fn on_stored(&mut self, now: Instant, handle: Handle, part: u64, good: bool) {
        self.taker.on_stored(now, handle, part, good, &mut self.stats, &mut self.actions);
    }

    /// A chunk of an object of the other side's has come otherwise: with another object, or from somebody else.
    pub fn on_there(&mut self, now: Instant, handle: Handle, part: u64) {
        self.taker.on_there(now, handle, part, &mut self.actions);
    }

    /// A parcel of the other side's.
    pub fn handle_parcel(&mut self, now: Instant, mut parcel: Bytes) {
        let mut for_us = false;
        while !parcel.is_empty() {
            match Frame::take(&mut parcel) {
                // Handles are those of one life: what is said of a former one's must not be taken for ours.
                Some(Frame::To(life)) => for_us = life == self.config.life,
                Some(Frame::State(..) | Frame::Chunks(..) | Frame::Part(..) | Frame::Resumed) if !for_us => {}
                Some(frame) => self.on_frame(now, frame),
                None => return self.stats.malformed += 1,
            }
        }
    }

    fn on_frame(&mut self, now: Instant, frame: Frame) {
        match frame {
            Frame::To(_) => {}
            Frame::Hello { life, store } => {
                if self.peer.replace((store, life)) != Some((store, life)) {
                    self.giver.on_new_peer();
                    self.taker.on_new_peer();
                    self.receipts.iter_mut().for_each(|(_, due)| *due = true);
                    self.flying.clear();
                    self.hello_due = true;
                    self.hello_heard = false;
                    self.giver.on_contact(now);
                    self.actions.push_back(Action::Met { store, life });
                }
            }
            // Handles mean nothing before it is known whose they are.
            _ if self.peer.is_none() => {}
            Frame::Offer(handle, offer) => self.taker.on_offer(handle, offer, &mut self.actions),
            Frame::Withdrawn(handle) => {
                let was_there = self.taker.on_withdrawn(handle);
                self.actions.extend(was_there.then_some(Action::Withdrawn(handle)));
            }
            Frame::State(handle, turn, want) => self.giver.on_state(handle, turn, want, &mut self.actions),
            Frame::Chunks(handle, span, there) => self.giver.on_chunks(handle, span, &there),
            Frame::Part(handle, part, there) => self.giver.on_part(now, handle, part, &there),
            Frame::Resumed => self.giver.on_resumed(now),
            Frame::Receipt(receipt) => self.actions.push_back(Action::Receipt(receipt)),
            Frame::Data(handle, part, offset, bytes) => {
                self.taker.on_data(handle, part, offset, &bytes, &mut self.stats, &mut self.actions);
            }
        }
    }

    /// What became of a parcel.
    pub fn on_fate(&mut self, now: Instant, token: u64, received: bool) {
        let Some(flight) = self.flying.remove(&token) else { return };
        if received {
            self.fate.measure(now.saturating_duration_since(flight.sent));
        }
        flight.notes.into_iter().for_each(|note| self.on_note(now, note, received));
    }

    fn on_note(&mut self, now: Instant, note: Note, received: bool) {
        match note {
            Note::Hello => {
                self.hello_heard |= received;
                self.hello_due |= !self.hello_heard;
            }
            Note::Offer(handle) if !received => self.giver.on_offer_lost(handle),
            Note::Withdrawn(handle) if !received => self.giver.on_withdrawal_lost(handle),
            Note::Offer(_) | Note::Withdrawn(_) => {}
            Note::Data { handle, part, from, to } => {
                self.stats.bytes_lost += if received { 0 } else { to - from };
                self.giver.on_data(now, handle, part, (from, to), received);
            }
            Note::Receipt(which) => {
                if let Some((_, due)) = self.receipts.iter_mut().find(|(receipt, _)| tag(receipt) == which) {
                    *due |= !received;
                }
            }
            note if received => self.taker.on_heard(note),
            note => self.taker.on_lost(note),
        }
    }

    /// The next parcel to send, of at most `max` bytes, none if that is less than 1027, and the token by which [`Hop::on_fate`] is to tell
    /// what became of it.
    pub fn poll_parcel(&mut self, now: Instant, max: usize) -> Option<(u64, Bytes)> {
        if !self.in_contact || max < MIN_PARCEL {
            return None;
        }
        let (mut parcel, mut notes, mut addressed) = (Vec::new(), Vec::new(), false);
        while parcel.len() + MAX_FRAME + FRONT <= max || notes.is_empty() {
            let Some((frame, note)) = self.next_frame(now) else { break };
            if notes.is_empty() && !self.hello_heard && note != Note::Hello {
                // Whoever does not know us can do nothing with the rest, and that may be there before our first hello is.
                self.hello().put(&mut parcel);
                notes.push(Note::Hello);
            }
            if !addressed && let Some((_, life)) = self.peer.filter(|_| note != Note::Hello) {
                Frame::To(life).put(&mut parcel);
                addressed = true;
            }
            frame.put(&mut parcel);
            notes.push(note);
        }
        let mut patience = 1;
        self.idle = notes.is_empty();
        if self.idle {
            self.peer?;
            if self.put_data(now, max, &mut parcel, &mut notes).is_none() {
                patience = self.repeat_overdue(now)?;
                self.put_data(now, max, &mut parcel, &mut notes)?;
            }
            self.idle = false;
        }
        self.tokens += 1;
        self.flying.insert(self.tokens, Flight { sent: now, notes, patience });
        if self.flying.len() > MAX_FLYING
            && let Some((_, flight)) = self.flying.pop_first()
        {
            flight.notes.into_iter().for_each(|note| self.on_note(now, note, false));
        }
        Some((self.tokens, parcel.into()))
    }

    /// Nothing is left to be sent. If what left last is lost, nothing behind it will show so: it is repeated when its fate is not known
    /// by the time that those of others were. How patient to be with the repetition.
    fn repeat_overdue(&mut self, now: Instant) -> Option<u32> {
        let (token, flight) = self.flying.range(self.repeated + 1..).next()?;
        if now < self.overdue(flight) {
            return None;
        }
        self.repeated = *token;
        for note in &flight.notes {
            if let Note::Data { handle, part, from, to } = *note {
                self.giver.on_overdue(handle, part, (from, to));
            }
        }
        Some(flight.patience.saturating_mul(2).min(MAX_PATIENCE))
    }

    fn overdue(&self, flight: &Flight) -> Instant {
        flight.sent + self.fate.longest() * flight.patience
    }

    /// Fills a parcel with data: the tail of one part and the head of the next share it.
    fn put_data(&mut self, now: Instant, max: usize, parcel: &mut Vec<u8>, notes: &mut Vec<Note>) -> Option<()> {
        self.giver.poll(now, &mut self.actions);
        let mut next = Some(self.giver.next_data(now, max)?);
        parcel.reserve_exact(max);
        while let Some((Frame::Data(handle, part, offset, bytes), note)) = next {
            self.stats.bytes_sent += bytes.len() as u64;
            notes.push(note);
            let used = parcel.len() + data_header(handle, part, offset) + bytes.len() + PIECE_EXTRA;
            let room = max.saturating_sub(used);
            next = if room >= WORTH_IT { self.giver.next_data(now, room) } else { None };
            match next {
                Some(_) => Frame::put_piece(handle, part, offset, &bytes, parcel),
                None => {
                    Frame::Data(handle, part, offset, bytes).put(parcel);
                }
            }
        }
        Some(())
    }

    fn hello(&self) -> Frame {
        let HopConfig { store, life } = self.config;
        Frame::Hello { life, store }
    }

    fn next_frame(&mut self, now: Instant) -> Option<(Frame, Note)> {
        if std::mem::take(&mut self.hello_due) {
            return Some((self.hello(), Note::Hello));
        }
        self.peer?;
        if let Some(index) = self.receipts.iter().position(|(_, due)| *due) {
            self.receipts[index].1 = false;
            let receipt = self.receipts[index].0.clone();
            let note = Note::Receipt(tag(&receipt));
            return Some((Frame::Receipt(receipt), note));
        }
        self.taker.next_frame(now).or_else(|| self.giver.next_offer())
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Hop::poll_parcel`] may have something though nothing came in. While there is no room for parcels it means nothing.
    pub fn next_deadline(&self) -> Option<Instant> {
        let overdue = self.flying.range(self.repeated + 1..).next().filter(|_| self.idle);
        let overdue = overdue.map(|(_, flight)| self.overdue(flight));
        let deadlines = [self.giver.next_deadline(), self.taker.next_deadline(), overdue];
        deadlines.into_iter().flatten().min().filter(|_| self.in_contact)
    }

    /// How far an object is that is on offer.
    pub fn given(&self, handle: Handle) -> Option<Progress> {
        self.giver.progress(handle)
    }

    /// How far an object of the other side's is.
    pub fn taken(&self, handle: Handle) -> Option<Progress> {
        self.taker.progress(handle)
    }

    /// Counters.
    pub fn stats(&self) -> TransferStats {
        self.stats
    }

    /// Bytes of parts that are not whole yet, which is what this needs most memory for.
    pub fn assembling(&self) -> u64 {
        self.taker.assembling()
    }
}

/// What a receipt is known by while it is under way.
fn tag(receipt: &[u8]) -> u64 {
    Hash::of(receipt).0.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}
