//! What a contact is expected to finish.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use aquila_depot::Queued;
use aquila_proto::transfer::{Candidate, Handle, ObjectId, Offer, Progress, Want, order};

use super::snapshot::{ObjectSnapshot, PassSnapshot};

/// Reading the queue takes at most a twentieth of the time: what is known of it is as old as that makes it.
const READ_EVERY: u32 = 20;

/// Something that has not come across yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiting {
    pub object: ObjectId,
    /// What it is called, if it is on offer.
    pub handle: Option<Handle>,
    /// What it counts for.
    pub count: u64,
    pub priority: u8,
    pub deadline_s: u64,
    /// Bytes on the way, in all and those that are still to be sent.
    pub total: u64,
    pub left: u64,
    /// What the taker said of it last.
    pub want: Option<Want>,
}

impl Waiting {
    /// One that is on offer.
    pub fn new(handle: Handle, offer: &Offer, count: u64, progress: Progress) -> Self {
        let Offer { object, wire_len: total, priority, deadline_s, .. } = *offer;
        let left = (total as f64 * (1.0 - progress.done())) as u64;
        Self { object, handle: Some(handle), count, priority, deadline_s, total, left, want: progress.want }
    }

    /// Whether it is under way. What was not spoken of yet is not.
    pub fn is_wanted(&self) -> bool {
        matches!(self.want, Some(Want::Manifest | Want::Chunks))
    }
}

impl From<&Waiting> for ObjectSnapshot {
    fn from(waiting: &Waiting) -> Self {
        let Waiting { object, total, left, .. } = *waiting;
        let done = if total == 0 { 0.0 } else { (total - left.min(total)) as f64 / total as f64 };
        Self { object: object.to_string(), bytes: total, done }
    }
}

/// What comes across in one direction.
#[derive(Debug, Default)]
pub(super) struct Way {
    /// What has, in this contact.
    pub done: u64,
    pub waiting: Vec<Waiting>,
}

impl Way {
    fn left(&self) -> u64 {
        self.waiting.iter().map(|waiting| waiting.left).sum()
    }

    /// How far it is, if `room` more bytes are expected to come across. A contact that has carried more than was expected says nothing of
    /// what it will.
    pub fn pass(&self, room: Option<u64>) -> PassSnapshot {
        PassSnapshot {
            done: self.done,
            expected: room.filter(|room| *room > 0).map(|room| self.done + finished(&self.waiting, room)),
            all: self.done + self.waiting.iter().map(|waiting| waiting.count).sum::<u64>(),
            bytes_left: self.left(),
        }
    }
}

/// What is left of a contact is shared between both ways as what is left to be sent on them.
pub(super) fn shares(room: Option<u64>, ways: [&Way; 2]) -> [Option<u64>; 2] {
    let [one, other] = ways.map(|way| u128::from(way.left()));
    let share =
        |left: u128| room.map(|room| (u128::from(room) * left).checked_div(one + other).map_or(room, |s| s as u64));
    [share(one), share(other)]
}

/// What waits, in the order in which it is sent. Without what there is no room for at the other side.
pub(super) fn in_order(waiting: &[Waiting], forecast: Option<u64>) -> Vec<Waiting> {
    let mut waiting: Vec<_> = waiting.iter().copied().filter(|waiting| waiting.want != Some(Want::NotNow)).collect();
    // What is on offer came before what is not, which waits in the order in which it will be.
    waiting.sort_by_key(|waiting| waiting.handle.unwrap_or(Handle::MAX));
    let mut candidates: Vec<_> = waiting
        .iter()
        .zip(0..)
        .map(|(waiting, handle)| {
            let Waiting { priority, deadline_s, total, left, .. } = *waiting;
            Candidate { handle, priority, deadline_s, total, left }
        })
        .collect();
    order(&mut candidates, forecast);
    candidates.iter().map(|candidate| waiting[candidate.handle as usize]).collect()
}

/// How much of what waits is through when so many bytes have left.
fn finished(waiting: &[Waiting], room: u64) -> u64 {
    let (mut left, mut count) = (room, 0);
    for waiting in in_order(waiting, Some(room)) {
        match left.checked_sub(waiting.left) {
            Some(rest) => {
                left = rest;
                count += waiting.count;
            }
            // It takes what is left of the contact, and is not through.
            None => left = 0,
        }
    }
    count
}

/// What waits for a peer, as it was read from the store.
#[derive(Debug, Default)]
pub(super) struct Queue {
    objects: Vec<Queued>,
    /// Of them, those that it has meanwhile.
    gone: BTreeSet<ObjectId>,
    /// It is as it was read.
    fresh: bool,
    again: Option<Instant>,
}

impl Queue {
    pub fn on_changed(&mut self) {
        self.fresh = false;
    }

    pub fn on_gone(&mut self, object: ObjectId) {
        self.gone.insert(object);
    }

    /// Reads it anew if that is worth the time.
    pub fn refresh<E>(&mut self, read: impl FnOnce() -> Result<Vec<Queued>, E>) -> Result<(), E> {
        let begun = Instant::now();
        if self.fresh || self.again.is_some_and(|at| begun < at) {
            return Ok(());
        }
        self.objects = read()?;
        self.gone.clear();
        self.fresh = true;
        let took: Duration = begun.elapsed();
        self.again = Some(begun + took * READ_EVERY);
        Ok(())
    }

    /// All that waits: what is on offer as it stands there, and the rest.
    pub fn waiting(&self, on_offer: &[Waiting]) -> Vec<Waiting> {
        let mut on_offer: BTreeMap<_, _> = on_offer.iter().map(|waiting| (waiting.object, *waiting)).collect();
        let queued = self.objects.iter().filter(|queued| !self.gone.contains(&queued.object));
        let mut waiting: Vec<_> = queued
            .map(|queued| {
                let Queued { object, files: count, wire_len: total, priority, deadline_s } = *queued;
                let unseen =
                    Waiting { object, handle: None, count, priority, deadline_s, total, left: total, want: None };
                on_offer.remove(&object).map_or(unseen, |waiting| Waiting { count, ..waiting })
            })
            .collect();
        // Put on offer since the queue was read.
        waiting.extend(on_offer.into_values());
        waiting
    }
}

#[cfg(test)]
mod tests {
    use aquila_proto::transfer::Hash;

    use super::*;

    const MB: u64 = 1_000_000;

    fn object(n: u8) -> ObjectId {
        ObjectId(Hash([n; 32]))
    }

    fn offered(n: u8, priority: u8, total: u64, left: u64) -> Waiting {
        let handle = Some(u64::from(n));
        Waiting { object: object(n), handle, count: 1, priority, deadline_s: 0, total, left, want: Some(Want::Chunks) }
    }

    fn queued(n: u8, files: u64, priority: u8, wire_len: u64) -> Queued {
        Queued { object: object(n), files, wire_len, priority, deadline_s: 0 }
    }

    fn way(done: u64, waiting: Vec<Waiting>) -> Way {
        Way { done, waiting }
    }

    #[test]
    fn an_urgent_file_that_came_last_is_counted_first() {
        // Counted as they were offered, three of the four would be through. The urgent one goes first, and then there is 1 MB.
        let mut waiting: Vec<_> = (1..=4).map(|n| offered(n, 3, 3 * MB, 3 * MB)).collect();
        waiting.push(offered(5, 0, 9 * MB, 9 * MB));
        let pass = way(0, waiting).pass(Some(10 * MB));
        assert_eq!((pass.expected, pass.all, pass.bytes_left), (Some(1), 5, 21 * MB));
    }

    #[test]
    fn an_urgent_file_that_is_too_long_leaves_nothing_for_the_others() {
        let waiting = vec![offered(1, 3, 3 * MB, 3 * MB), offered(2, 0, 12 * MB, 12 * MB)];
        assert_eq!(way(0, waiting).pass(Some(10 * MB)).expected, Some(0));
        // Among equals what does not fit goes last.
        let waiting = vec![offered(1, 3, 12 * MB, 12 * MB), offered(2, 3, 3 * MB, 3 * MB)];
        assert_eq!(way(0, waiting).pass(Some(10 * MB)).expected, Some(1));
    }

    #[test]
    fn all_that_is_queued_counts_and_not_what_is_on_offer_alone() {
        let mut queue = Queue::default();
        let all: Vec<_> = (1..=200).map(|n| queued(n, 1, 3, MB)).collect();
        queue.refresh(|| Ok::<_, ()>(all)).unwrap();
        let on_offer: Vec<_> = (1..=64).map(|n| offered(n, 3, MB, MB)).collect();
        let pass = way(0, queue.waiting(&on_offer)).pass(Some(100 * MB));
        assert_eq!((pass.expected, pass.all), (Some(100), 200));
    }

    #[test]
    fn what_is_done_in_this_contact_stays_in_the_count() {
        let mut queue = Queue::default();
        let all: Vec<_> = (1..=12).map(|n| queued(n, 1, 3, MB)).collect();
        queue.refresh(|| Ok::<_, ()>(all)).unwrap();
        let on_offer: Vec<_> = (6..=12).map(|n| offered(n, 3, MB, MB)).collect();
        (1..=5).for_each(|n| queue.on_gone(object(n)));
        let pass = way(5, queue.waiting(&on_offer)).pass(Some(2 * MB + MB / 2));
        assert_eq!((pass.done, pass.expected, pass.all), (5, Some(7), 12));
        // Read anew, the five are not there, and nothing is counted twice.
        queue.on_changed();
        queue.again = None;
        queue.refresh(|| Ok::<_, ()>((6..=12).map(|n| queued(n, 1, 3, MB)).collect())).unwrap();
        assert_eq!(way(5, queue.waiting(&on_offer)).pass(Some(2 * MB + MB / 2)), pass);
    }

    #[test]
    fn files_are_counted_and_not_packs() {
        let mut queue = Queue::default();
        queue.refresh(|| Ok::<_, ()>(vec![queued(1, 90, 3, MB), queued(2, 1, 3, 4 * MB)])).unwrap();
        // A pack on offer, of which half is there.
        let pass = way(0, queue.waiting(&[offered(1, 3, MB, MB / 2)])).pass(Some(MB));
        assert_eq!((pass.expected, pass.all, pass.bytes_left), (Some(90), 91, 4 * MB + MB / 2));
    }

    #[test]
    fn a_contact_that_has_carried_more_than_expected_promises_nothing() {
        let pass = way(3, vec![offered(4, 3, MB, MB)]).pass(Some(0));
        assert_eq!((pass.done, pass.expected, pass.all), (3, None, 4));
    }

    #[test]
    fn what_the_other_side_has_no_room_for_is_not_expected() {
        let waiting = vec![Waiting { want: Some(Want::NotNow), ..offered(1, 0, MB, MB) }, offered(2, 3, MB, MB)];
        let pass = way(0, waiting).pass(Some(MB));
        assert_eq!((pass.expected, pass.all), (Some(1), 2));
    }

    #[test]
    fn both_ways_share_the_contact() {
        let (one, other) = (way(0, vec![offered(1, 3, 3 * MB, 3 * MB)]), way(0, vec![offered(1, 3, MB, MB)]));
        assert_eq!(shares(Some(2 * MB), [&one, &other]), [Some(3 * MB / 2), Some(MB / 2)]);
        assert_eq!(shares(Some(MB), [&Way::default(), &Way::default()]), [Some(MB), Some(MB)]);
        assert_eq!(shares(None, [&one, &other]), [None, None]);
    }

    #[test]
    fn a_long_queue_is_not_read_all_the_time() {
        let mut queue = Queue::default();
        let slow = || {
            std::thread::sleep(Duration::from_millis(20));
            Ok::<_, ()>(vec![queued(1, 1, 3, MB)])
        };
        queue.refresh(slow).unwrap();
        queue.on_changed();
        queue.refresh(|| -> Result<_, ()> { panic!("it was read just now") }).unwrap();
    }
}
