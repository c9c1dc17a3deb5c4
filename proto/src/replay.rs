//! The replay window: no message is ever delivered twice, whatever path its copies took.
//!
//! Copies come from retransmission, from retries, later from several bearers, and from an attacker who recorded a 0-RTT
//! flight (RFC 8446 §8). Each life of a sender (its *epoch*, growing at each start) has a window of its own.

use std::fmt;

/// Sequence numbers remembered below the newest. At 100 messages a second it spans 20 s, twice the age at which a
/// message is given up.
const WINDOW: u64 = 2048;
const WORDS: usize = (WINDOW / 64) as usize;

/// Lives of the peer remembered.
const EPOCHS: usize = 4;

/// Bytes of one epoch in a snapshot.
const SNAPSHOT_EPOCH: usize = 8 + 8 + WORDS * 8;
const MAGIC: &[u8; 4] = b"aqR2";

/// What to do with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Never seen: deliver it. It is now remembered.
    Fresh,
    /// A copy of one that was delivered.
    Duplicate,
    /// Below the window: it may have been delivered.
    TooOld,
    /// From a life of the sender before one we know, in data that might be replayed: wait until the connection is
    /// known to be live. Not remembered yet.
    Doubtful,
}

/// Remembers what was delivered.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ReplayGuard {
    epochs: Vec<Epoch>,
}

#[derive(Clone, PartialEq, Eq)]
struct Epoch {
    epoch: u64,
    newest: u64,
    /// Bit `seq % WINDOW` is set if `seq` was seen, for the sequence numbers in the window.
    seen: [u64; WORDS],
}

/// A snapshot that can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a replay window, or damaged")]
pub struct SnapshotError;

impl ReplayGuard {
    /// Judges a message and remembers it if it is fresh. `early`: it came in 0-RTT data.
    pub fn check(&mut self, epoch: u64, seq: u64, early: bool) -> Verdict {
        if let Some(known) = self.epochs.iter_mut().find(|known| known.epoch == epoch) {
            return known.check(seq);
        }
        let newer = self.epochs.iter().all(|known| epoch > known.epoch);
        if early && !newer {
            // Also a sender that lost its state and counts from a lower epoch: it waits for the handshake, one RTT.
            return Verdict::Doubtful;
        }
        if self.epochs.len() == EPOCHS {
            // The lowest goes: the highest says what is newer.
            let lowest = (0..EPOCHS).min_by_key(|index| self.epochs[*index].epoch);
            self.epochs.swap_remove(lowest.expect("there are some"));
        }
        self.epochs.push(Epoch { epoch, newest: 0, seen: [0; WORDS] });
        self.epochs.last_mut().expect("just pushed").check(seq)
    }

    /// Which of the 64 messages before `seq` have been seen, bit n for `seq - 1 - n`. Of what has left the window nothing
    /// is said.
    pub fn seen_before(&self, epoch: u64, seq: u64) -> u64 {
        let Some(known) = self.epochs.iter().find(|known| known.epoch == epoch) else { return 0 };
        let bit = |n: u64| seq.checked_sub(1 + n).is_some_and(|seq| seq > 0 && known.has_seen(seq));
        (0..u64::from(u64::BITS)).filter(|n| bit(*n)).fold(0, |bits, n| bits | 1 << n)
    }

    /// Everything that must survive a restart, about 1 kB.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(MAGIC.len() + self.epochs.len() * SNAPSHOT_EPOCH + 32);
        out.extend_from_slice(MAGIC);
        for epoch in &self.epochs {
            out.extend_from_slice(&epoch.epoch.to_be_bytes());
            out.extend_from_slice(&epoch.newest.to_be_bytes());
            epoch.seen.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
        }
        let digest = ring::digest::digest(&ring::digest::SHA256, &out);
        out.extend_from_slice(digest.as_ref());
        out
    }

    /// The guard of a former life.
    pub fn restore(snapshot: &[u8]) -> Result<Self, SnapshotError> {
        let (body, digest) = snapshot.split_last_chunk::<32>().ok_or(SnapshotError)?;
        if ring::digest::digest(&ring::digest::SHA256, body).as_ref() != digest {
            return Err(SnapshotError);
        }
        let body = body.strip_prefix(MAGIC).ok_or(SnapshotError)?;
        let (records, rest) = body.as_chunks::<SNAPSHOT_EPOCH>();
        if !rest.is_empty() || records.len() > EPOCHS {
            return Err(SnapshotError);
        }
        let word = |bytes: &[u8]| bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let epochs = records.iter().map(|record| {
            let mut seen = [0; WORDS];
            seen.iter_mut().zip(record[16..].chunks(8)).for_each(|(slot, bytes)| *slot = word(bytes));
            Epoch { epoch: word(&record[..8]), newest: word(&record[8..16]), seen }
        });
        Ok(Self { epochs: epochs.collect() })
    }
}

impl fmt::Debug for ReplayGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.epochs.iter().map(|epoch| (epoch.epoch, epoch.newest))).finish()
    }
}

impl Epoch {
    fn has_seen(&self, seq: u64) -> bool {
        seq <= self.newest && self.newest - seq < WINDOW && self.seen[word_of(seq)] & bit_of(seq) != 0
    }

    fn check(&mut self, seq: u64) -> Verdict {
        if seq > self.newest {
            // Forget what falls out of the window: the bits between the old and the new end.
            let first = (self.newest + 1).max((seq + 1).saturating_sub(WINDOW));
            if seq - first >= WINDOW - 1 {
                self.seen = [0; WORDS];
            } else {
                (first..=seq).for_each(|seq| self.seen[word_of(seq)] &= !bit_of(seq));
            }
            self.newest = seq;
        } else if self.newest - seq >= WINDOW {
            return Verdict::TooOld;
        }
        match self.seen[word_of(seq)] & bit_of(seq) {
            0 => {
                self.seen[word_of(seq)] |= bit_of(seq);
                Verdict::Fresh
            }
            _ => Verdict::Duplicate,
        }
    }
}

fn word_of(seq: u64) -> usize {
    (seq % WINDOW / 64) as usize
}

fn bit_of(seq: u64) -> u64 {
    1 << (seq % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn window_boundary() {
        let mut guard = ReplayGuard::default();
        assert_eq!(guard.check(1, WINDOW + 10, false), Verdict::Fresh);
        assert_eq!(guard.check(1, 11, false), Verdict::Fresh);
        assert_eq!(guard.check(1, 11, false), Verdict::Duplicate);
        assert_eq!(guard.check(1, 10, false), Verdict::TooOld);
        assert_eq!(guard.check(1, WINDOW + 11, false), Verdict::Fresh);
        assert_eq!(guard.check(1, 11, false), Verdict::TooOld);
        assert_eq!(guard.check(1, u64::MAX >> 2, false), Verdict::Fresh);
        assert_eq!(guard.check(1, WINDOW + 12, false), Verdict::TooOld);
    }

    #[test]
    fn a_former_life_is_doubtful_in_early_data_only() {
        let mut guard = ReplayGuard::default();
        assert_eq!(guard.check(7, 1, true), Verdict::Fresh, "the first epoch, and newer ones, are taken at once");
        assert_eq!(guard.check(8, 1, true), Verdict::Fresh);
        assert_eq!(guard.check(7, 1, true), Verdict::Duplicate);
        assert_eq!(guard.check(6, 1, true), Verdict::Doubtful);
        assert_eq!(guard.check(6, 1, false), Verdict::Fresh, "a sender that lost its state is heard again when live");
        assert_eq!(guard.check(7, 1, true), Verdict::Duplicate);
        for epoch in [1, 2, 3] {
            assert_eq!(guard.check(epoch, 1, false), Verdict::Fresh);
        }
        assert_eq!(guard.check(8, 1, true), Verdict::Duplicate, "the highest is not forgotten");
    }

    #[test]
    fn survives_a_restart_and_refuses_damage() {
        let mut guard = ReplayGuard::default();
        for seq in [1, 5, 6000] {
            guard.check(3, seq, false);
        }
        guard.check(4, 9, false);
        let snapshot = guard.snapshot();
        let mut back = ReplayGuard::restore(&snapshot).unwrap();
        assert_eq!(back, guard);
        assert_eq!(back.check(4, 9, true), Verdict::Duplicate);
        for at in [0, 10, snapshot.len() - 1] {
            let mut damaged = snapshot.clone();
            damaged[at] ^= 1;
            assert_eq!(ReplayGuard::restore(&damaged), Err(SnapshotError));
        }
        assert_eq!(ReplayGuard::restore(&snapshot[..snapshot.len() - 1]), Err(SnapshotError));
        assert_eq!(ReplayGuard::restore(&[]), Err(SnapshotError));
    }

    #[test]
    fn tells_what_came_before_a_message() {
        let mut guard = ReplayGuard::default();
        for seq in [1, 3, 70] {
            guard.check(5, seq, false);
        }
        assert_eq!(guard.seen_before(5, 3), 0b10);
        assert_eq!(guard.seen_before(5, 4), 0b101);
        assert_eq!(guard.seen_before(5, 70), 0);
        assert_eq!(guard.seen_before(5, 67), 1 << 63);
        assert_eq!(guard.seen_before(6, 4), 0);
        guard.check(5, 3 + WINDOW, false);
        assert_eq!(guard.seen_before(5, 5), 0, "3 has left the window");
    }

    /// Copies over bearers of very different delay, at random, each sequence number up to eight times, through restarts of this
    /// end and a new life of the other: of more than a million copies none is taken twice, and no message is missed.
    #[test]
    fn a_million_copies_are_delivered_once() {
        const MESSAGES: u64 = 200_000;
        /// In messages: up to 15 s at 100 a second.
        const DELAYS: [u64; 4] = [2, 40, 300, 1_500];
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut draw = move |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut copies: Vec<(u64, u64, u64)> = Vec::new();
        for n in 0..MESSAGES {
            // The other side starts anew half-way.
            let (epoch, seq) = if n < MESSAGES / 2 { (1, n + 1) } else { (2, n + 1 - MESSAGES / 2) };
            for delay in DELAYS {
                let times = (1 + draw(2)) * u64::from(draw(5) > 0);
                (0..times).for_each(|_| copies.push((n + draw(delay), epoch, seq)));
            }
            copies.push((n + 1, epoch, seq));
        }
        copies.sort_by_key(|(at, ..)| *at);
        let (mut guard, mut delivered) = (ReplayGuard::default(), BTreeSet::new());
        for (index, (_, epoch, seq)) in copies.iter().enumerate() {
            if index % 50_000 == 49_999 {
                guard = ReplayGuard::restore(&guard.snapshot()).unwrap();
            }
            match guard.check(*epoch, *seq, index % 3 == 0) {
                Verdict::Fresh => assert!(delivered.insert((*epoch, *seq)), "twice: {epoch} {seq}"),
                Verdict::Duplicate | Verdict::TooOld | Verdict::Doubtful => {}
            }
        }
        assert!(copies.len() > 1_000_000, "{}", copies.len());
        assert_eq!(delivered.len() as u64, MESSAGES);
    }

    proptest! {
        #[test]
        fn nothing_is_fresh_twice(seqs in proptest::collection::vec(0u64..6000, 1..800)) {
            let mut guard = ReplayGuard::default();
            let mut fresh = BTreeSet::new();
            let mut newest = 0;
            for seq in seqs {
                let verdict = guard.check(1, seq, false);
                newest = newest.max(seq);
                match verdict {
                    Verdict::Fresh => prop_assert!(fresh.insert(seq)),
                    Verdict::Duplicate => prop_assert!(fresh.contains(&seq)),
                    Verdict::TooOld => prop_assert!(newest - seq >= WINDOW),
                    Verdict::Doubtful => prop_assert!(false),
                }
            }
        }
    }
}
