//! The side that wants objects: says what is missing, and puts together what comes.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::BytesMut;

use super::frame::{Frame, Handle, Offer, Want};
use super::manifest::{Hash, Manifest};
use super::ranges::Ranges;
use super::{Action, Answer, Note, Progress, TransferStats};

/// Objects that the other side may have on offer, twice what ours has.
const MAX_OBJECTS: usize = 2 * super::giver::MAX_OFFERED;
/// Bytes of parts that are not whole yet.
const MAX_ASSEMBLING: u64 = 16 << 20;
/// Parts of an object in a report on bytes, at most.
const MAX_PARTS_TOLD: usize = 64;
/// What was stored is confirmed this often.
const TELL_EVERY: Duration = Duration::from_millis(50);

/// What came at a contact's beginning is told again so long after it.
const TOLD_AGAIN: Duration = Duration::from_millis(200);
const _: () = assert!(TOLD_AGAIN.as_millis() < super::giver::SETTLING.as_millis());

/// A part of which not all is there.
#[derive(Debug)]
struct Assembly {
    bytes: BytesMut,
    there: Ranges,
}

impl Assembly {
    fn new(len: u32) -> Self {
        Self { bytes: BytesMut::zeroed(len as usize), there: Ranges::default() }
    }

    /// Puts in bytes; whether the part is whole. What does not fit it is left out.
    fn put(&mut self, offset: u64, bytes: &[u8]) -> bool {
        let end = offset.saturating_add(bytes.len() as u64);
        if end <= self.bytes.len() as u64 {
            self.bytes[offset as usize..end as usize].copy_from_slice(bytes);
            self.there.insert(offset, end);
        }
        self.there.covers(0, self.bytes.len() as u64)
    }
}

#[derive(Debug)]
struct Taking {
    offer: Offer,
    /// `None` before anything was decided.
    want: Option<Want>,
    state_due: bool,
    /// Lengths of its chunks on the way.
    lens: Vec<u32>,
    /// Parts that are stored.
    have: Ranges,
    assembling: BTreeMap<u64, Assembly>,
    storing: BTreeSet<u64>,
    /// Parts of which the giver is to be told, and since when.
    untold: Ranges,
    untold_since: Option<Instant>,
    completed: bool,
}

impl Taking {
    fn last(&self) -> u64 {
        self.lens.len() as u64 + 1
    }
}

/// All that the other side has on offer.
#[derive(Debug, Default)]
pub struct Taker {
    objects: BTreeMap<Handle, Taking>,
    turn: u64,
    assembling: u64,
    /// Parts to tell of byte by byte.
    parts_due: VecDeque<(Handle, u64)>,
    resumed_due: bool,
    /// Parts of which something has come in this contact, to be told of once more then: it may have left in the last one.
    settling: Option<(Instant, BTreeSet<(Handle, u64)>)>,
}

impl Taker {
    /// The other side has started anew: it has other handles.
    pub fn on_new_peer(&mut self) {
        *self = Self { turn: self.turn, resumed_due: true, ..Self::default() };
    }

    /// A contact begins: all that is known is told.
    pub fn on_contact(&mut self, now: Instant) {
        self.parts_due.clear();
        for (handle, taking) in &mut self.objects {
            taking.state_due = taking.want.is_some();
            if taking.want == Some(Want::Chunks) {
                taking.untold.insert(1, taking.last());
                taking.untold_since = None;
            }
            let parts = taking.assembling.iter().filter(|(_, assembly)| !assembly.there.is_empty());
            self.parts_due.extend(parts.map(|(part, _)| (*handle, *part)).take(MAX_PARTS_TOLD));
        }
        self.resumed_due = true;
        self.settling = Some((now + TOLD_AGAIN, BTreeSet::new()));
    }

    /// The giver has an object.
    pub fn on_offer(&mut self, handle: Handle, offer: Offer, actions: &mut VecDeque<Action>) {
        if let Some(taking) = self.objects.get_mut(&handle) {
            // It did not hear how we are about it.
            taking.state_due |= taking.want.is_some();
            return;
        }
        let absurd = offer.manifest_len == 0 || offer.manifest_len as usize > Manifest::MAX_LEN;
        if absurd || self.objects.len() >= MAX_OBJECTS {
            return;
        }
        let taking = Taking {
            offer,
            want: None,
            state_due: false,
            lens: Vec::new(),
            have: Ranges::default(),
            assembling: BTreeMap::new(),
            storing: BTreeSet::new(),
            untold: Ranges::default(),
            untold_since: None,
            completed: false,
        };
        self.objects.insert(handle, taking);
        actions.push_back(Action::Offered { handle, offer });
    }

    /// An object is not to be had any more. Whether it was known.
    pub fn on_withdrawn(&mut self, handle: Handle) -> bool {
        let was_there = self.objects.remove(&handle).is_some();
        self.count();
        was_there
    }

    /// It is decided what becomes of an object.
    pub fn answer(&mut self, handle: Handle, answer: Answer, actions: &mut VecDeque<Action>) {
        let Some(taking) = self.objects.get_mut(&handle) else { return };
        let (want, (lens, have)) = match answer {
            Answer::Manifest => (Want::Manifest, Default::default()),
            Answer::Chunks { lens, have } => (Want::Chunks, (lens, have)),
            Answer::Custody => (Want::Custody, Default::default()),
            Answer::Refuse => (Want::Refused, Default::default()),
            Answer::NotNow => (Want::NotNow, Default::default()),
        };
        taking.want = Some(want);
        taking.state_due = true;
        taking.assembling.clear();
        taking.storing.clear();
        taking.completed = false;
        taking.lens = lens;
        taking.have = have;
        taking.have.remove(0, 1);
        taking.have.remove(taking.last(), u64::MAX);
        taking.untold = if want == Want::Chunks { Ranges::of(1, taking.last()) } else { Ranges::default() };
        taking.untold_since = None;
        self.look_whether_complete(handle, actions);
        self.count();
    }

    fn look_whether_complete(&mut self, handle: Handle, actions: &mut VecDeque<Action>) {
        let Some(taking) = self.objects.get_mut(&handle) else { return };
        if taking.want == Some(Want::Chunks) && taking.have.covers(1, taking.last()) && !taking.completed {
            taking.completed = true;
            actions.push_back(Action::Complete(handle));
        }
    }

    /// Bytes of a part have come.
    pub fn on_data(
        &mut self,
        handle: Handle,
        part: u64,
        offset: u64,
        bytes: &[u8],
        stats: &mut TransferStats,
        actions: &mut VecDeque<Action>,
    ) {
        let Some(taking) = self.objects.get_mut(&handle) else { return stats.unwanted += 1 };
        let len = match (taking.want, part) {
            (Some(Want::Manifest), 0) => taking.offer.manifest_len,
            (Some(Want::Chunks), 1..) if !taking.have.contains(part) && !taking.storing.contains(&part) => {
                match taking.lens.get(part as usize - 1) {
                    Some(len) => *len,
                    None => return stats.unwanted += 1,
                }
            }
            _ => return stats.unwanted += 1,
        };
        let assembly = match taking.assembling.entry(part) {
            Entry::Occupied(assembly) => assembly.into_mut(),
            Entry::Vacant(_) if self.assembling + u64::from(len) > MAX_ASSEMBLING => return stats.no_room += 1,
            Entry::Vacant(place) => {
                self.assembling += u64::from(len);
                place.insert(Assembly::new(len))
            }
        };
        let before = assembly.there.count();
        let whole = assembly.put(offset, bytes);
        let fresh = assembly.there.count() - before;
        stats.bytes_taken += fresh;
        stats.bytes_again += bytes.len() as u64 - fresh;
        if !whole {
            if let Some((_, parts)) = self.settling.as_mut().filter(|(_, parts)| parts.len() < MAX_PARTS_TOLD) {
                parts.insert((handle, part));
            }
            return;
        }
        let bytes = taking.assembling.remove(&part).map(|assembly| assembly.bytes.freeze()).unwrap_or_default();
        self.assembling -= u64::from(len);
        match part {
            0 if Hash::of(&bytes) == taking.offer.object.0 => {
                actions.push_back(Action::Judge { handle, manifest: bytes })
            }
            0 => stats.wrong += 1,
            part => {
                taking.storing.insert(part);
                actions.push_back(Action::Store { handle, part, bytes });
            }
        }
    }

    /// A part was stored; or was not what it should have been, and is wanted again.
    pub fn on_stored(
        &mut self,
        now: Instant,
        handle: Handle,
        part: u64,
        good: bool,
        stats: &mut TransferStats,
        actions: &mut VecDeque<Action>,
    ) {
        let Some(taking) = self.objects.get_mut(&handle) else { return };
        if !taking.storing.remove(&part) {
            return;
        }
        if !good {
            return stats.wrong += 1;
        }
        self.on_there(now, handle, part, actions);
    }

    /// A part is stored, wherever it came from.
    pub fn on_there(&mut self, now: Instant, handle: Handle, part: u64, actions: &mut VecDeque<Action>) {
        let Some(taking) = self.objects.get_mut(&handle) else { return };
        if taking.want != Some(Want::Chunks) || part == 0 || part >= taking.last() {
            return;
        }
        if let Some(assembly) = taking.assembling.remove(&part) {
            self.assembling -= assembly.bytes.len() as u64;
        }
        taking.have.insert(part, part + 1);
        taking.untold.insert(part, part + 1);
        taking.untold_since.get_or_insert(now);
        self.look_whether_complete(handle, actions);
    }

    /// The next thing to tell the giver.
    pub fn next_frame(&mut self, now: Instant) -> Option<(Frame, Note)> {
        if let Some((handle, taking)) = self.objects.iter_mut().find(|(_, taking)| taking.state_due)
            && let Some(want) = taking.want
        {
            taking.state_due = false;
            self.turn += 1;
            return Some((Frame::State(*handle, self.turn, want), Note::State(*handle, want)));
        }
        let due = |taking: &Taking| {
            taking.untold_since.is_none_or(|since| now.saturating_duration_since(since) >= TELL_EVERY)
        };
        let untold = self.objects.iter_mut().find(|(_, taking)| !taking.untold.is_empty() && due(taking));
        if let Some((handle, taking)) = untold {
            let (from, to) = taking.untold.iter().next().unwrap_or_default();
            let frame = Frame::Chunks(*handle, (from, to), taking.have.clone());
            // What fits is told now.
            let told = frame.put(&mut Vec::new());
            taking.untold.remove(from, told);
            if taking.untold.is_empty() {
                taking.untold_since = None;
            }
            return Some((
                Frame::Chunks(*handle, (from, told), taking.have.clone()),
                Note::Chunks(*handle, from, told),
            ));
        }
        if let Some((_, parts)) = self.settling.take_if(|(at, _)| *at <= now) {
            self.parts_due.extend(parts);
        }
        while let Some((handle, part)) = self.parts_due.pop_front() {
            let assembly = self.objects.get(&handle).and_then(|taking| taking.assembling.get(&part));
            if let Some(assembly) = assembly {
                return Some((Frame::Part(handle, part, assembly.there.clone()), Note::Part(handle, part)));
            }
        }
        std::mem::take(&mut self.resumed_due).then_some((Frame::Resumed, Note::Resumed))
    }

    /// What was told did not arrive.
    pub fn on_lost(&mut self, note: Note) {
        match note {
            Note::State(handle, _) => {
                if let Some(taking) = self.objects.get_mut(&handle) {
                    taking.state_due = true;
                }
            }
            Note::Chunks(handle, from, to) => {
                if let Some(taking) = self.objects.get_mut(&handle).filter(|taking| taking.want == Some(Want::Chunks)) {
                    taking.untold.insert(from, to.min(taking.last()));
                    taking.untold_since = None;
                }
            }
            Note::Part(handle, part) => self.parts_due.push_back((handle, part)),
            Note::Resumed => self.resumed_due = true,
            Note::Hello | Note::Offer(_) | Note::Withdrawn(_) | Note::Receipt(_) | Note::Data { .. } => {}
        }
    }

    /// What was told has arrived: an object that is done with needs no memory any more.
    pub fn on_heard(&mut self, note: Note) {
        if let Note::State(handle, told @ (Want::Custody | Want::Refused)) = note
            && self.objects.get(&handle).is_some_and(|taking| taking.want == Some(told))
        {
            self.objects.remove(&handle);
        }
    }

    /// When something is to be told if nothing comes in.
    pub fn next_deadline(&self) -> Option<Instant> {
        let untold = self.objects.values().filter(|taking| !taking.untold.is_empty());
        let again = self.settling.as_ref().filter(|(_, parts)| !parts.is_empty()).map(|(at, _)| *at);
        untold.filter_map(|taking| Some(taking.untold_since? + TELL_EVERY)).chain(again).min()
    }

    fn count(&mut self) {
        let parts = self.objects.values().flat_map(|taking| taking.assembling.values());
        self.assembling = parts.map(|assembly| assembly.bytes.len() as u64).sum();
    }

    /// How far an object is, by what is stored.
    pub fn progress(&self, handle: Handle) -> Option<Progress> {
        let taking = self.objects.get(&handle)?;
        Some(Progress { have: taking.have.count(), chunks: taking.lens.len() as u64, want: taking.want })
    }

    /// Bytes of parts that are not whole yet.
    pub fn assembling(&self) -> u64 {
        self.assembling
    }
}
