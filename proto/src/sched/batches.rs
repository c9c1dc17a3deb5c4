//! Batches of transactions under way: each leaves in a datagram of its own and is kept until our feedback says that it has
//! arrived. What is lost goes through the gate again, not through QUIC's retransmission, which knows no gate.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::BearerId;
use crate::feedback::DatagramId;
use crate::signing::Place;

/// Bytes under way at a time: 3 Mbit/s over a satellite's 600 ms. Far below the peer's replay window in number.
const MAX_BYTES: usize = 256 << 10;
const MAX_BATCHES: usize = 1024;

/// The time without news after which a batch is sent again doubles this many times.
const MAX_DOUBLINGS: u32 = 3;

/// A batch.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Its sequence number.
    pub seq: u64,
    /// When its oldest frame came in.
    pub origin: Instant,
    /// When it is given up.
    pub expires: Instant,
    /// One or more MAVLink frames.
    pub frames: Bytes,
    /// Its place among the signed ones.
    pub place: Option<Place>,
    /// Its last sending; `None` if that is known to be lost, or there was none.
    sent: Option<Sent>,
    sendings: u32,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    at: Instant,
    datagram: DatagramId,
    repeated: bool,
}

/// The batches under way.
#[derive(Debug, Default)]
pub struct Batches {
    kept: BTreeMap<u64, Batch>,
    bytes: usize,
    numbers: u64,
    expired: u64,
}

impl Batches {
    /// The next sequence number, from 1; also for batches that are sent once and not kept.
    pub fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Whether another batch may be added.
    pub fn has_room(&self) -> bool {
        self.bytes < MAX_BYTES && self.kept.len() < MAX_BATCHES
    }

    /// Takes in a new batch that is due at once and given up at `expires`.
    pub fn add(&mut self, origin: Instant, expires: Instant, frames: Bytes, place: Option<Place>) {
        let seq = self.number();
        self.bytes += frames.len();
        self.kept.insert(seq, Batch { seq, origin, expires, frames, place, sent: None, sendings: 0 });
    }

    /// The first batch that has to be sent, again or for the first time. `silence`: without news for this long after the
    /// first sending it is sent again, after twice that for the second, and so on.
    pub fn due(&self, now: Instant, silence: Duration) -> Option<&Batch> {
        self.kept.values().find(|batch| batch.due(silence).is_none_or(|due| due <= now))
    }

    /// When [`Batches::due`] has one next; a time in the past for at once.
    pub fn next_due(&self, now: Instant, silence: Duration) -> Option<Instant> {
        self.kept.values().map(|batch| batch.due(silence).unwrap_or(now)).min()
    }

    /// Notes that a batch has left. `repeated`: the bearer goes on until it has arrived, or is gone.
    pub fn on_sent(&mut self, now: Instant, seq: u64, datagram: DatagramId, repeated: bool) {
        if let Some(batch) = self.kept.get_mut(&seq) {
            batch.sent = Some(Sent { at: now, datagram, repeated });
            batch.sendings += 1;
        }
    }

    /// What became of a datagram that carried a batch.
    pub fn on_fate(&mut self, seq: u64, datagram: DatagramId, received: bool) {
        if received {
            self.take(seq);
        } else if let Some(batch) = self.kept.get_mut(&seq) {
            // An earlier sending may be told lost while a later one is still on its way.
            batch.sent = batch.sent.filter(|sent| sent.datagram != datagram);
        }
    }

    /// A bearer is gone, or has another connection: what left on it and is not known to have arrived is due.
    pub fn on_bearer_gone(&mut self, bearer: BearerId) {
        for batch in self.kept.values_mut() {
            batch.sent = batch.sent.filter(|sent| sent.datagram.bearer != bearer);
        }
    }

    /// Gives up what is too old.
    pub fn expire(&mut self, now: Instant) {
        while let Some(seq) = self.kept.values().find(|batch| batch.expires <= now).map(|batch| batch.seq) {
            self.take(seq);
            self.expired += 1;
        }
    }

    /// When [`Batches::expire`] next has something to do.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.kept.values().map(|batch| batch.expires).min()
    }

    /// Batches given up.
    pub fn expired(&self) -> u64 {
        self.expired
    }

    /// Bytes under way or to be sent again.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn take(&mut self, seq: u64) {
        if let Some(batch) = self.kept.remove(&seq) {
            self.bytes -= batch.frames.len();
        }
    }
}

impl Batch {
    /// `None`: at once.
    fn due(&self, silence: Duration) -> Option<Instant> {
        let sent = self.sent?;
        if sent.repeated {
            return Some(self.expires);
        }
        Some(sent.at + silence * (1 << self.sendings.saturating_sub(1).min(MAX_DOUBLINGS)))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_millis(150);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn id(number: u64) -> DatagramId {
        DatagramId { bearer: BearerId::FIRST, number }
    }

    fn with(now: Instant, count: usize) -> Batches {
        let mut batches = Batches::default();
        for _ in 0..count {
            batches.add(now, now + ms(10_000), Bytes::from_static(b"frames"), None);
        }
        batches
    }

    #[test]
    fn sent_once_if_it_arrives_and_again_when_it_is_lost() {
        let start = Instant::now();
        let mut batches = with(start, 3);
        for datagram in 0..3 {
            let seq = batches.due(start, SILENCE).unwrap().seq;
            assert_eq!(seq, datagram + 1);
            batches.on_sent(start, seq, id(datagram), false);
        }
        assert!(batches.due(start, SILENCE).is_none());
        batches.on_fate(1, id(0), true);
        batches.on_fate(2, id(1), false);
        assert_eq!(batches.due(start, SILENCE).unwrap().seq, 2);
        batches.on_sent(start + ms(60), 2, id(3), false);
        batches.on_fate(2, id(1), false);
        assert!(batches.due(start + ms(61), SILENCE).is_none(), "its second sending is still on its way");
        batches.on_fate(2, id(3), true);
        batches.on_fate(3, id(2), true);
        assert_eq!((batches.next_due(start, SILENCE), batches.bytes()), (None, 0));
    }

    #[test]
    fn without_news_it_is_sent_again_ever_more_seldom() {
        let start = Instant::now();
        let mut batches = with(start, 1);
        let mut sendings = Vec::new();
        for at in 0..5_000 {
            let now = start + ms(at);
            if let Some(seq) = batches.due(now, SILENCE).map(|batch| batch.seq) {
                batches.on_sent(now, seq, id(at), false);
                sendings.push(at);
            }
        }
        assert_eq!(sendings, [0, 150, 450, 1050, 2250, 3450, 4650]);
        batches.on_bearer_gone(BearerId::new(1).unwrap());
        assert!(batches.due(start + ms(4_700), SILENCE).is_none(), "it left on another");
        batches.on_bearer_gone(BearerId::FIRST);
        assert!(batches.due(start + ms(4_700), SILENCE).is_some(), "a new connection: at once");
        batches.expire(start + ms(9_999));
        assert_eq!(batches.expired(), 0);
        assert_eq!(batches.next_expiry(), Some(start + ms(10_000)));
        batches.expire(start + ms(10_000));
        assert_eq!((batches.expired(), batches.bytes()), (1, 0));
    }

    #[test]
    fn what_is_under_way_is_bounded() {
        let start = Instant::now();
        assert!(with(start, MAX_BATCHES - 1).has_room());
        assert!(!with(start, MAX_BATCHES).has_room());
        let mut batches = Batches::default();
        batches.add(start, start + ms(1), Bytes::from(vec![0; MAX_BYTES]), None);
        assert!(!batches.has_room());
    }
}
