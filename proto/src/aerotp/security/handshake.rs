//! The handshake's steps at either end.

use std::time::Instant;

use ring::aead::LessSafeKey;
use snow::HandshakeState;

use super::association::{Association, SendClock, phase};
use super::{ATTEMPT_BITS, News, Security, noise};
use crate::aerotp::extension::{HELLO_EXTENSION, HELLO_LEN, Hello, HelloKind};
use crate::seeded::SeededBytes;

/// An unanswered first message.
pub(super) struct Attempt {
    pub counter: u64,
    handshake: HandshakeState,
    pub first: [u8; HELLO_LEN],
    /// The extension with it.
    pub hello: [u8; HELLO_EXTENSION],
    pub early: LessSafeKey,
    pub clock: SendClock,
    pub begun: Instant,
}

#[cfg(test)]
impl Attempt {
    pub(super) fn message(&self) -> &[u8; HELLO_LEN] {
        &self.first
    }
}

impl Security {
    /// Begins a handshake, the initiator's part.
    pub(super) fn attempt_anew(&mut self, now: Instant) {
        if self.attempts >> ATTEMPT_BITS != 0 {
            return;
        }
        let counter = self.life << ATTEMPT_BITS | self.attempts;
        let ephemeral = self.ephemeral();
        // It fails for a peer's key of small order only, which `new` has refused.
        let Ok(first) = noise::write_first(&self.statics, counter, ephemeral) else { return };
        self.attempts += 1;
        self.unanswered += 1;
        self.last_begun = Some(now);
        self.unsent = true;
        self.attempt = Some(Attempt {
            counter,
            handshake: first.handshake,
            first: first.message,
            hello: self.filter.extension(HelloKind::First, &first.message, None),
            early: noise::key(&first.early.initiator),
            clock: SendClock::new(now),
            begun: now,
        });
    }

    /// The responder's part: a new association if the message is genuine and newer than all before.
    /// One that came in a segment which was opened is authentic, and not limited.
    pub(super) fn accept_first(&mut self, now: Instant, hello: &Hello<'_>, authentic: bool) {
        if let Some(place) = self.associations.iter().position(|known| known.first == *hello.message) {
            // Our answer was lost.
            self.unsent |= place == 0 && !self.associations[0].heard;
            return;
        }
        if self.filter.sign(HelloKind::First, hello.message, None) != hello.filter {
            self.counters.forged_hellos += 1;
            return;
        }
        if self.refused.contains(hello.message) {
            self.counters.replayed_hellos += 1;
            return;
        }
        if !authentic && !self.bucket.take(now) {
            self.counters.limited_hellos += 1;
            return;
        }
        let ephemeral = self.ephemeral();
        let Ok((counter, mut first)) = noise::read_first(&self.statics, hello.message, ephemeral) else {
            self.counters.forged_hellos += 1;
            self.refuse(hello.message);
            return;
        };
        // A former life took this one, and ended before anything was heard by its keys. Who sent it may still wait for an answer, which
        // only he can read; what is sealed early was acted upon then, and is not opened again.
        let again = self.accepted == Some(counter) && self.peer_life.is_none();
        if !again && self.accepted.is_some_and(|accepted| counter <= accepted) {
            self.counters.replayed_hellos += 1;
            self.refuse(hello.message);
            return;
        }
        let told = self.life | if again { TAKEN_BEFORE } else { 0 };
        let Ok((second, pair)) = noise::write_second(&mut first.handshake, told) else { return };
        self.accepted = Some(counter);
        self.accepted_is_new = !again;
        let early = (!again).then(|| noise::key(&first.early.initiator));
        let answer = self.filter.extension(HelloKind::Second, &second, Some(hello.message));
        let clock = SendClock::new(now);
        let association = Association::new(false, (*hello.message, answer), counter, (&pair, early), clock, now);
        self.associate(association, counter >> ATTEMPT_BITS, false);
    }

    /// The initiator's part: the attempt becomes an association if the message is genuine.
    pub(super) fn accept_second(&mut self, now: Instant, phase_of_segment: u8, hello: &Hello<'_>) {
        let Some(attempt) = self.attempt.as_mut().filter(|attempt| phase(attempt.counter) == phase_of_segment) else {
            return;
        };
        if self.filter.sign(HelloKind::Second, hello.message, Some(&attempt.first)) != hello.filter {
            self.counters.forged_hellos += 1;
            return;
        }
        if !self.bucket.take(now) {
            self.counters.limited_hellos += 1;
            return;
        }
        let Ok((told, pair)) = noise::read_second(&mut attempt.handshake, hello.message) else {
            self.counters.forged_hellos += 1;
            return;
        };
        let Some(attempt) = self.attempt.take() else { return };
        self.unanswered = 0;
        let hellos = (attempt.first, attempt.hello);
        let keys = (&pair, Some(attempt.early));
        let association = Association::new(true, hellos, attempt.counter, keys, attempt.clock, now);
        self.associate(association, told & !TAKEN_BEFORE, told & TAKEN_BEFORE != 0);
    }

    /// Puts a new association before those there are, and forgets the ones that are of no more use. `restarted`: the peer says that it
    /// has been, since the first message.
    fn associate(&mut self, association: Association, peer_life: u64, restarted: bool) {
        let restarted = restarted || self.peer_life.is_some_and(|life| life != peer_life);
        self.peer_life = Some(peer_life);
        self.counters.associations += 1;
        self.unsent = true;
        let before = self.news.take();
        self.news = Some(News::Associated {
            counter: association.counter,
            peer_life,
            restarted: restarted || matches!(before, Some(News::Associated { restarted: true, .. })),
        });
        if restarted {
            // The peer has forgotten these keys, and what is still under way belongs to connections that are void.
            self.associations.clear();
        }
        self.associations.insert(0, association);
        self.forget_old();
    }

    /// Keeps the newest, one before it that both ends have finished, and for the responder ones that the initiator may have
    /// finished or given up.
    pub(super) fn forget_old(&mut self) {
        let (mut finished, mut open) = (0, 0);
        let initiates = self.initiates;
        self.associations.retain(|one| {
            let (count, most) = if initiates || one.heard { (&mut finished, 2) } else { (&mut open, UNFINISHED) };
            *count += 1;
            *count <= most
        });
    }

    fn refuse(&mut self, message: &[u8; HELLO_LEN]) {
        if self.refused.len() == REFUSED {
            self.refused.remove(0);
        }
        self.refused.push(*message);
    }

    /// A secret ephemeral key, another in each life even if the stream of randomness should be the same.
    pub(super) fn ephemeral(&mut self) -> [u8; 32] {
        let purpose = format!("aerotp ephemeral key of life {} ({})", self.life, self.initiates);
        SeededBytes::new(&self.random.next_seed(), &purpose).next_seed()
    }
}

/// Beside the life in a second message: the first one was taken by a former life, and nothing early is opened. Lives are shorter.
const TAKEN_BEFORE: u64 = 1 << 63;

/// Associations that a responder keeps in which it has heard nothing.
const UNFINISHED: usize = 3;

/// Refused first messages that are remembered, so that repeating them costs no arithmetic.
const REFUSED: usize = 8;
