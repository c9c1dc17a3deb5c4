//! The side that has objects: offers them, and sends what the other side says that it wants.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::frame::{Frame, Handle, Offer, Want, data_header};
use super::order::{Candidate, order};
use super::ranges::Ranges;
use super::{Action, Note, Progress};

/// Objects offered and not yet taken over, at most.
pub const MAX_OFFERED: usize = 64;
/// Parts in memory, read ahead or not yet confirmed, at most; and bytes of those that have not left at all.
const MAX_LOADED: usize = 96;
const READ_AHEAD: u64 = 1 << 20;
/// A part that has all arrived, as far as the fates of its parcels tell, and that the taker does not confirm is sent again.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(3);
/// At a contact's beginning the taker tells what it has; for so long nothing is sent.
const HOLD: Duration = Duration::from_millis(400);
/// What left at the end of the last contact may stand in the radio's queue, and come at the beginning of this one: for so long what has not
/// left yet goes first. A little earlier the taker tells what has come.
pub(super) const SETTLING: Duration = Duration::from_millis(250);
/// The order is looked at this often.
const ORDER_EVERY: Duration = Duration::from_secs(1);

/// A part that is being sent.
#[derive(Debug)]
struct Loaded {
    bytes: Bytes,
    /// Bytes to send.
    due: Ranges,
    /// Bytes that have arrived.
    there: Ranges,
    flying: u32,
    /// When the first of it left.
    begun: Option<Instant>,
    /// Nothing is due or under way since.
    done: Option<Instant>,
}

#[derive(Debug)]
struct Giving {
    offer: Offer,
    /// Chunks that it has.
    chunks: u64,
    offer_due: bool,
    turn: u64,
    want: Option<Want>,
    /// Parts of which the taker has told.
    told: Ranges,
    /// Parts that it has.
    have: Ranges,
    /// Parts that it wants and that are not being sent.
    todo: Ranges,
    /// Being read.
    loading: BTreeSet<u64>,
    loaded: BTreeMap<u64, Loaded>,
}

impl Giving {
    /// The taker has started anew, or is another one: nothing is known of what it has.
    fn forget(&mut self) {
        self.offer_due = true;
        self.turn = 0;
        self.want = None;
        self.told = Ranges::default();
        self.have = Ranges::default();
        self.todo = Ranges::default();
        self.loading.clear();
        self.loaded.clear();
    }

    fn is_wanted(&self) -> bool {
        matches!(self.want, Some(Want::Manifest | Want::Chunks))
    }

    fn want_parts(&mut self, from: u64, to: u64) {
        self.todo.insert(from, to);
        let there: Vec<_> = self.have.iter().collect();
        there.into_iter().for_each(|(from, to)| self.todo.remove(from, to));
        for part in self.loaded.keys().chain(&self.loading) {
            self.todo.remove(*part, part + 1);
        }
    }

    fn candidate(&self, handle: Handle) -> Candidate {
        let have = self.have.count().min(self.chunks) as f64 / self.chunks.max(1) as f64;
        let left = (self.offer.wire_len as f64 * (1.0 - have)) as u64;
        let Offer { priority, deadline_s, wire_len: total, .. } = self.offer;
        Candidate { handle, priority, deadline_s, total, left }
    }
}

/// All that is on offer.
#[derive(Debug, Default)]
pub struct Giver {
    objects: BTreeMap<Handle, Giving>,
    given: Handle,
    /// In the order in which they are sent.
    order: Vec<Handle>,
    /// Not on offer any more, of which the taker is to be told.
    withdrawn: BTreeSet<Handle>,
    ordered: Option<Instant>,
    hold: Option<Instant>,
    /// When this contact began, while what left in the last one may still come.
    settling: Option<Instant>,
    /// When the taker had told last all that it had at a contact's beginning.
    resumed: Option<Instant>,
    forecast: Option<u64>,
    loads: usize,
    ahead: u64,
}

impl Giver {
    /// Puts an object on offer, which has so many chunks; `None` if as many as may are.
    pub fn offer(&mut self, offer: Offer, chunks: u64) -> Option<Handle> {
        if self.objects.len() >= MAX_OFFERED {
            return None;
        }
        self.given += 1;
        let giving = Giving {
            offer,
            chunks,
            offer_due: true,
            turn: 0,
            want: None,
            told: Ranges::default(),
            have: Ranges::default(),
            todo: Ranges::default(),
            loading: BTreeSet::new(),
            loaded: BTreeMap::new(),
        };
        self.objects.insert(self.given, giving);
        self.ordered = None;
        Some(self.given)
    }

    pub fn room(&self) -> usize {
        MAX_OFFERED - self.objects.len()
    }

    pub fn withdraw(&mut self, handle: Handle) {
        // Of what was never told of, nothing has to be told.
        if self.objects.remove(&handle).is_some_and(|giving| !giving.offer_due) {
            self.withdrawn.insert(handle);
        }
        self.ordered = None;
        self.count();
    }

    pub fn set_forecast(&mut self, bytes: Option<u64>) {
        self.forecast = bytes;
    }

    /// A contact begins. Offers that were not answered are made again: the taker may have had no room for them.
    pub fn on_contact(&mut self, now: Instant) {
        for giving in self.objects.values_mut() {
            giving.offer_due |= giving.want.is_none();
        }
        // It may have been first.
        let told = self.resumed.is_some_and(|at| now.saturating_duration_since(at) < HOLD);
        self.hold = (!told).then(|| now + HOLD);
        self.settling = Some(now);
    }

    /// The other side has started anew.
    pub fn on_new_peer(&mut self) {
        self.objects.values_mut().for_each(Giving::forget);
        self.resumed = None;
        // Another life of the other side's never heard of those.
        self.withdrawn.clear();
        self.ordered = None;
        self.count();
    }

    pub fn on_resumed(&mut self, now: Instant) {
        self.resumed = Some(now);
        self.hold = None;
    }

    /// The taker says how it is about an object.
    pub fn on_state(&mut self, handle: Handle, turn: u64, want: Want, actions: &mut VecDeque<Action>) {
        let Some(giving) = self.objects.get_mut(&handle) else { return };
        if turn <= giving.turn {
            return;
        }
        giving.turn = turn;
        giving.offer_due = false;
        let before = giving.want.replace(want);
        match want {
            Want::Manifest if before != Some(want) => giving.want_parts(0, 1),
            Want::Chunks if before != Some(want) => {
                // It has the manifest.
                giving.todo.remove(0, 1);
                giving.loaded.remove(&0);
                giving.loading.remove(&0);
                let told: Vec<_> = giving.told.iter().collect();
                told.into_iter().for_each(|(from, to)| giving.want_parts(from, to));
            }
            Want::Custody | Want::Refused => {
                self.objects.remove(&handle);
                actions.push_back(match want {
                    Want::Custody => Action::Given(handle),
                    _ => Action::Refused(handle),
                });
            }
            _ => {}
        }
        self.ordered = None;
        self.count();
    }

    /// The taker says which chunks it has.
    pub fn on_chunks(&mut self, handle: Handle, span: (u64, u64), there: &Ranges) {
        let Some(giving) = self.objects.get_mut(&handle) else { return };
        // Part 0, and what is behind the last one, are not spoken of.
        let (from, to) = (span.0.max(1), span.1.min(giving.chunks + 1));
        for (from, to) in there.iter() {
            giving.have.insert(from.max(1), to.min(giving.chunks + 1));
        }
        let have = &giving.have;
        giving.loaded.retain(|part, _| !have.contains(*part));
        giving.told.insert(from, to);
        if giving.want == Some(Want::Chunks) {
            giving.want_parts(from, to);
        }
        self.count();
    }

    /// The taker says which bytes of a part it has.
    pub fn on_part(&mut self, now: Instant, handle: Handle, part: u64, there: &Ranges) {
        if let Some(loaded) = self.objects.get_mut(&handle).and_then(|giving| giving.loaded.get_mut(&part)) {
            for (from, to) in there.iter() {
                let (from, to) = (from.min(loaded.bytes.len() as u64), to.min(loaded.bytes.len() as u64));
                loaded.there.insert(from, to);
                loaded.due.remove(from, to);
            }
            loaded.done = (loaded.due.is_empty() && loaded.flying == 0).then_some(now);
        }
    }

    /// A part was read, or cannot be.
    pub fn on_loaded(&mut self, handle: Handle, part: u64, bytes: Option<Bytes>) {
        let Some(giving) = self.objects.get_mut(&handle) else { return };
        if giving.loading.remove(&part)
            && let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty())
        {
            let due = Ranges::of(0, bytes.len() as u64);
            giving
                .loaded
                .insert(part, Loaded { bytes, due, there: Ranges::default(), flying: 0, begun: None, done: None });
        }
        self.count();
    }

    /// Offers to be told of, and which there are no more.
    pub fn next_offer(&mut self) -> Option<(Frame, Note)> {
        if let Some(handle) = self.withdrawn.pop_first() {
            return Some((Frame::Withdrawn(handle), Note::Withdrawn(handle)));
        }
        let (handle, giving) = self.objects.iter_mut().find(|(_, giving)| giving.offer_due)?;
        giving.offer_due = false;
        Some((Frame::Offer(*handle, giving.offer), Note::Offer(*handle)))
    }

    /// The word that an object is withdrawn was lost.
    pub fn on_withdrawal_lost(&mut self, handle: Handle) {
        self.withdrawn.insert(handle);
    }

    /// An offer was lost. If the taker has not spoken of it meanwhile it is made again.
    pub fn on_offer_lost(&mut self, handle: Handle) {
        if let Some(giving) = self.objects.get_mut(&handle) {
            giving.offer_due = giving.want.is_none();
        }
    }

    /// What became of bytes of a part.
    pub fn on_data(&mut self, now: Instant, handle: Handle, part: u64, (from, to): (u64, u64), received: bool) {
        let Some(giving) = self.objects.get_mut(&handle) else { return };
        let Some(loaded) = giving.loaded.get_mut(&part) else { return };
        loaded.flying = loaded.flying.saturating_sub(1);
        if received {
            loaded.there.insert(from, to);
            loaded.due.remove(from, to);
        } else if !loaded.there.covers(from, to) {
            loaded.due.insert(from, to);
            let there: Vec<_> = loaded.there.iter().collect();
            there.into_iter().for_each(|(from, to)| loaded.due.remove(from, to));
        }
        loaded.done = (loaded.due.is_empty() && loaded.flying == 0).then_some(now);
    }

    /// Of bytes of a part nothing was heard: they are sent once more.
    pub fn on_overdue(&mut self, handle: Handle, part: u64, (from, to): (u64, u64)) {
        let loaded = self.objects.get_mut(&handle).and_then(|giving| giving.loaded.get_mut(&part));
        if let Some(loaded) = loaded.filter(|loaded| !loaded.there.covers(from, to)) {
            loaded.due.insert(from, to);
            let there: Vec<_> = loaded.there.iter().collect();
            there.into_iter().for_each(|(from, to)| loaded.due.remove(from, to));
        }
    }

    /// Sends again what has not been confirmed, and has more read.
    pub fn poll(&mut self, now: Instant, actions: &mut VecDeque<Action>) {
        if self.ordered.is_none_or(|at| now.saturating_duration_since(at) >= ORDER_EVERY) {
            self.ordered = Some(now);
            let wanted = self.objects.iter().filter(|(_, giving)| giving.is_wanted());
            let mut wanted: Vec<_> = wanted.map(|(handle, giving)| giving.candidate(*handle)).collect();
            order(&mut wanted, self.forecast);
            self.order = wanted.iter().map(|candidate| candidate.handle).collect();
            for loaded in self.objects.values_mut().flat_map(|giving| giving.loaded.values_mut()) {
                if loaded.done.is_some_and(|at| now.saturating_duration_since(at) >= CONFIRMED_WITHIN) {
                    loaded.done = None;
                    loaded.there = Ranges::default();
                    loaded.due = Ranges::of(0, loaded.bytes.len() as u64);
                }
            }
        }
        for handle in &self.order {
            let Some(giving) = self.objects.get_mut(handle).filter(|giving| giving.is_wanted()) else { continue };
            while self.loads < MAX_LOADED && self.ahead < READ_AHEAD {
                let Some((part, _)) = giving.todo.pop(1) else { break };
                giving.loading.insert(part);
                self.loads += 1;
                self.ahead += u64::from(super::manifest::Chunk::MAX) / 4;
                actions.push_back(Action::Load { handle: *handle, part });
            }
        }
    }

    /// The next bytes to send in a parcel of at most `max`.
    pub fn next_data(&mut self, now: Instant, max: usize) -> Option<(Frame, Note)> {
        if self.hold.take_if(|until| *until <= now).is_none() && self.hold.is_some() {
            return None;
        }
        self.settling.take_if(|since| now.saturating_duration_since(*since) >= SETTLING);
        let is_new = |since| move |loaded: &Loaded| loaded.begun.is_none_or(|at| at >= since);
        let fresh = self.settling.and_then(|since| self.next_part(is_new(since)));
        let (handle, part) = fresh.or_else(|| self.next_part(|_| true))?;
        let loaded = self.objects.get_mut(&handle)?.loaded.get_mut(&part)?;
        let at = loaded.due.iter().next().map_or(0, |(from, _)| from);
        let room = max.saturating_sub(data_header(handle, part, at)).max(1);
        let (from, to) = loaded.due.pop(room as u64)?;
        loaded.flying += 1;
        loaded.begun.get_or_insert(now);
        loaded.done = None;
        let bytes = loaded.bytes.slice(from as usize..to as usize);
        self.ahead = self.ahead.saturating_sub(to - from);
        Some((Frame::Data(handle, part, from, bytes), Note::Data { handle, part, from, to }))
    }

    /// The first part of those that something is due of.
    fn next_part(&self, which: impl Fn(&Loaded) -> bool) -> Option<(Handle, u64)> {
        self.order.iter().find_map(|handle| {
            let giving = self.objects.get(handle).filter(|giving| giving.is_wanted())?;
            let (part, _) = giving.loaded.iter().find(|(_, loaded)| !loaded.due.is_empty() && which(loaded))?;
            Some((*handle, *part))
        })
    }

    /// When something is to be done if nothing comes in.
    pub fn next_deadline(&self) -> Option<Instant> {
        let again = self.ordered.map(|at| at + ORDER_EVERY).filter(|_| self.objects.values().any(Giving::is_wanted));
        self.hold.into_iter().chain(again).min()
    }

    /// How far an object is, by what the taker has confirmed.
    pub fn progress(&self, handle: Handle) -> Option<Progress> {
        let giving = self.objects.get(&handle)?;
        Some(Progress { have: giving.have.count(), chunks: giving.chunks, want: giving.want })
    }

    /// Counts what is in memory.
    fn count(&mut self) {
        let loading: usize = self.objects.values().map(|giving| giving.loading.len()).sum();
        let loaded = || self.objects.values().flat_map(|giving| giving.loaded.values());
        self.loads = loading + loaded().count();
        let due: u64 = loaded().map(|loaded| loaded.due.count()).sum();
        self.ahead = due + loading as u64 * u64::from(super::manifest::Chunk::MAX) / 4;
    }
}
