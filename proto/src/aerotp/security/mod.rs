//! The association: keys for all segments between two ends, from a Noise handshake that rides on the segments.
//!
//! The initiator's first message is in the extension words of every segment until the responder's second message has come,
//! which is in those of every segment of the responder until something sealed with the new keys has come. So any segment
//! can be the first that arrives, and nothing waits for a round trip: until then the initiator seals with early keys, or
//! with those of the association before.
//!
//! Not authenticated, because hops and copies may change it: ECN, CRC and parity. Everything else is.

mod association;
mod filter;
mod keys;
mod noise;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ring::aead::LessSafeKey;
use snow::HandshakeState;

use self::association::{Association, SendClock, phase};
use self::filter::{HelloFilter, TokenBucket};
use self::noise::Statics;
use super::extension::{HELLO_EXTENSION, HELLO_LEN, Hello, HelloKind};
use super::header::Header;
use crate::identity::{Identity, PublicKey};
use crate::seeded::SeededBytes;

/// Bytes that sealing appends.
pub const TAG_LEN: usize = 16;

/// Who talks to whom.
#[derive(Debug, Clone)]
pub struct SecurityConfig {
    /// This end.
    pub identity: Arc<Identity>,
    /// The other one.
    pub peer: PublicKey,
    /// Whether this end begins handshakes. Exactly one of the two does.
    pub initiates: bool,
    /// Grows with each start of the process; below 2^44.
    pub life: u64,
    /// What [`Security::snapshot`] gave last in the former life. Without it, first messages of long ago are taken again.
    pub accepted: Option<u64>,
}

/// The keys of one bearer.
pub struct Security {
    initiates: bool,
    life: u64,
    statics: Statics,
    filter: HelloFilter,
    random: SeededBytes,
    /// The initiator's handshake that is not answered yet.
    attempt: Option<Attempt>,
    attempts: u64,
    last_begun: Option<Instant>,
    /// Attempts since the last that was answered.
    unanswered: u32,
    /// Newest first. Two that both ends have finished, and for the responder [`UNFINISHED`] others.
    associations: Vec<Association>,
    accepted: Option<u64>,
    accepted_is_new: bool,
    /// First messages that were refused after arithmetic, newest last, [`REFUSED`] at most.
    refused: Vec<[u8; HELLO_LEN]>,
    bucket: TokenBucket,
    peer_life: Option<u64>,
    news: Option<News>,
    unsent: bool,
    extension: [u8; HELLO_EXTENSION],
    scratch: Vec<u8>,
    counters: SecurityCounters,
}

/// Why there can be no association.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecurityError {
    /// The peer's key is no point of Ed25519's group, or one of small order.
    #[error("the peer's public key is not a usable Ed25519 key")]
    Public,
    /// The identity's private key does not belong to its public key.
    #[error("the private key does not fit its public key")]
    Secret,
    /// Both ends are the same.
    #[error("the peer's key is our own")]
    Ourselves,
    /// A life of 2^44 or more.
    #[error("the number of lives is beyond 2^44")]
    Life,
}

/// Why nothing was sealed; the plaintext is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// There is no key yet: the initiator has not begun, or the responder has heard nothing.
    #[error("no key yet")]
    NoKey,
    /// Extension, plaintext and tag are longer than 65535 bytes.
    #[error("too long for a segment")]
    TooLong,
}

/// Why a segment was not opened. What is left in its buffer is worthless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Lengths or extension words contradict each other.
    #[error("malformed segment")]
    Malformed,
    /// There is no key for its phase, or it is early and its first message was refused.
    #[error("no key for the segment")]
    NoKey,
    /// The tag does not fit.
    #[error("forged or damaged segment")]
    Forged,
}

/// What sealing adds to the plaintext in its buffer.
#[derive(Debug)]
pub struct Sealed<'a> {
    /// The extension words, for [`super::encode_segment`]; may be empty.
    pub extension: &'a [u8],
    /// The segment's number: microseconds of our clock in this association, more if they ran out. The header has the low
    /// 32 bits.
    pub number: u64,
    /// Counter of the association it is sealed in, or of the attempt if it is early.
    pub association: u64,
}

/// A segment that the peer has sealed.
#[derive(Debug)]
pub struct Opened<'a> {
    /// What it carries.
    pub plaintext: &'a mut [u8],
    /// Its number by the peer's clock, see [`Sealed::number`].
    pub number: u64,
    /// Whether this number was opened before, or is so old that it cannot be told: a copy, a late retransmission or a
    /// replay. 4096 numbers are remembered. A connection with a window of sequence numbers need not look at this; what
    /// makes or ends a connection, or is a datagram without one, must not act on a repeated segment.
    pub repeated: bool,
    /// Sealed with the early key: no forward secrecy towards our static key.
    pub early: bool,
    /// Counter of the association.
    pub association: u64,
    /// What has happened since the last segment that was opened.
    pub news: Option<News>,
}

/// What happens to an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// There is a new association, and what is sealed from now on is sealed in it.
    Associated {
        /// Its counter: the initiator's life and number of attempts, `life << 20 | attempt`.
        counter: u64,
        /// The peer's life.
        peer_life: u64,
        /// The peer has another life than in the association before: it has forgotten all connections.
        restarted: bool,
    },
}

/// What came that was no segment of the peer's, and what it cost. All wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SecurityCounters {
    /// Segments opened.
    pub opened: u64,
    /// Of those, ones opened before.
    pub repeated: u64,
    /// Segments whose tag did not fit.
    pub forged: u64,
    /// Segments for which there was no key.
    pub no_key: u64,
    /// Segments whose lengths or extension contradict each other.
    pub malformed: u64,
    /// Hellos that the filter or Noise refused.
    pub forged_hellos: u64,
    /// First messages whose counter was accepted before, or is below one that was.
    pub replayed_hellos: u64,
    /// Hellos not looked at because there were too many.
    pub limited_hellos: u64,
    /// Handshakes done.
    pub associations: u64,
}

/// An unanswered first message.
struct Attempt {
    counter: u64,
    handshake: HandshakeState,
    first: [u8; HELLO_LEN],
    early: LessSafeKey,
    clock: SendClock,
    begun: Instant,
}

impl Security {
    /// Without keys. `random` has to be another stream in each life.
    pub fn new(config: SecurityConfig, random: SeededBytes) -> Result<Self, SecurityError> {
        if config.identity.public() == config.peer {
            return Err(SecurityError::Ourselves);
        }
        if config.life >> (64 - ATTEMPT_BITS) != 0 {
            return Err(SecurityError::Life);
        }
        let statics = Statics { secret: keys::secret(&config.identity)?, peer: keys::public(&config.peer)? };
        Ok(Self {
            initiates: config.initiates,
            life: config.life,
            filter: HelloFilter::new(&statics),
            statics,
            random,
            attempt: None,
            attempts: 0,
            last_begun: None,
            unanswered: 0,
            associations: Vec::new(),
            accepted: config.accepted,
            accepted_is_new: false,
            refused: Vec::new(),
            bucket: TokenBucket::new(),
            peer_life: None,
            news: None,
            unsent: false,
            extension: [0; HELLO_EXTENSION],
            scratch: Vec::new(),
            counters: SecurityCounters::default(),
        })
    }

    /// Begins a handshake; for the responder, and within [`ATTEMPT_INTERVAL`] of the attempt before, nothing happens. That
    /// interval doubles while attempts are not answered, up to 64 s. An association that there is goes on meanwhile.
    ///
    /// To be called at the start, and when nothing has been heard for so long that the peer may have forgotten its keys.
    pub fn begin(&mut self, now: Instant) {
        let wait = ATTEMPT_INTERVAL.saturating_mul(1 << self.unanswered.min(6));
        let early = self.last_begun.is_some_and(|begun| now.saturating_duration_since(begun) < wait);
        if self.initiates && !early {
            self.attempt_anew(now);
        }
    }

    /// When to call [`Security::handle_timeout`] next.
    pub fn next_deadline(&self) -> Option<Instant> {
        if !self.initiates {
            return None;
        }
        let age = FIRST_ATTEMPT_AGE.saturating_mul(1 << self.unanswered.clamp(1, 10) >> 1).min(ATTEMPT_AGE);
        let attempt = self.attempt.as_ref().map(|attempt| attempt.begun + age);
        attempt.or_else(|| self.associations.first().map(|newest| newest.since + REKEY_AGE))
    }

    /// Begins a new handshake when the keys are an hour old, or an attempt was not answered for 16 s, then 32 s, at last half
    /// an hour: the responder may have taken it and forgotten it since.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.attempt_anew(now);
        }
    }

    /// Whether there is a key to seal with: for the initiator since it began, for the responder since a first message.
    pub fn can_seal(&self) -> bool {
        self.attempt.is_some() || !self.associations.is_empty()
    }

    /// Whether something of the peer's has been opened with keys of a finished handshake.
    pub fn is_established(&self) -> bool {
        self.associations.iter().any(|association| association.heard)
    }

    /// Whether the peer waits for a segment of ours, whatever is in it, to go on with the handshake.
    pub fn wants_to_send(&self) -> bool {
        self.unsent
    }

    /// Bytes that sealing adds now to a plaintext: extension and tag.
    pub fn overhead(&self) -> usize {
        TAG_LEN + if self.hello().is_some() { HELLO_EXTENSION } else { 0 }
    }

    /// Seals `plaintext` in place, appends the tag, and sets phase, timestamp, extension words and payload length of the
    /// header. Its other fields but ECN, CRC and parity must stay as they are from now on.
    pub fn seal(
        &mut self,
        now: Instant,
        header: &mut Header,
        plaintext: &mut Vec<u8>,
    ) -> Result<Sealed<'_>, SealError> {
        if !self.can_seal() {
            return Err(SealError::NoKey);
        }
        let extension_len = self.overhead() - TAG_LEN;
        let payload_len = u16::try_from(extension_len + plaintext.len() + TAG_LEN).map_err(|_| SealError::TooLong)?;
        let worn = self.associations.first().is_some_and(|newest| newest.clock.count >= REKEY_SEGMENTS);
        if worn && self.attempt.is_none() {
            self.begin(now);
        }
        if let Some(hello) = self.hello() {
            self.extension = hello;
        }
        let (association, phase, key, clock) = match (self.associations.first_mut(), &mut self.attempt) {
            (Some(newest), _) => {
                let (counter, phase) = (newest.counter, newest.phase());
                let (key, clock) = newest.sealing_key();
                (counter, phase, key, clock)
            }
            (None, Some(attempt)) => (attempt.counter, EARLY, &attempt.early, &mut attempt.clock),
            (None, None) => return Err(SealError::NoKey),
        };
        let number = clock.next(now);
        header.phase = phase;
        header.timestamp = number as u32;
        header.extension_words = (extension_len / 4) as u8;
        header.payload_len = payload_len;
        let extension = &self.extension[..extension_len];
        association::seal(key, number, header, extension, plaintext);
        self.unsent = false;
        Ok(Sealed { extension, number, association })
    }

    /// Opens a segment in place, and takes up the handshake message in its extension. Nothing is given out whose tag does
    /// not fit. Whatever the result, [`Security::wants_to_send`] may have changed.
    pub fn open<'a>(
        &mut self,
        now: Instant,
        header: &Header,
        extension: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<Opened<'a>, OpenError> {
        let result = self.open_checked(now, header, extension, sealed);
        match &result {
            Ok((_, opened)) => {
                self.counters.opened += 1;
                self.counters.repeated += u64::from(opened.repeated);
            }
            Err(OpenError::Malformed) => self.counters.malformed += 1,
            Err(OpenError::NoKey) => self.counters.no_key += 1,
            Err(OpenError::Forged) => self.counters.forged += 1,
        }
        let (association, opened) = result?;
        Ok(Opened {
            plaintext: &mut sealed[..opened.plaintext],
            number: opened.number,
            repeated: opened.repeated,
            early: header.phase == EARLY,
            association,
            news: self.news.take(),
        })
    }

    /// What has happened since the last segment that was opened: the same as [`Opened::news`], for segments that were not.
    pub fn take_news(&mut self) -> Option<News> {
        self.news.take()
    }

    /// Whether the other side can still open what was sealed as `number` of this association ([`Sealed`]), as far as we
    /// know. What is to be sent again and does not hold has to be sealed anew.
    ///
    /// It holds for half an hour, since the other side has to guess the number's upper half, and until two newer
    /// associations are finished. What is early holds until another attempt is begun.
    pub fn still_holds(&self, now: Instant, association: u64, number: u64) -> bool {
        let attempt = self.attempt.iter().map(|attempt| (attempt.counter, &attempt.clock));
        // The initiator has finished all that it keeps. The responder knows that of those in which it has heard something.
        let finished = |place: usize, one: &Association| place == 0 || self.initiates || one.heard;
        let kept = self.associations.iter().enumerate().filter(|(place, one)| finished(*place, one));
        let mut clocks = attempt.chain(kept.take(2).map(|(_, one)| (one.counter, &one.clock)));
        let clock = clocks.find_map(|(counter, clock)| (counter == association).then_some(clock));
        clock.is_some_and(|clock| clock.now(now).saturating_sub(number) < HOLDS_US)
    }

    /// The greatest counter of a first message that was accepted, if it has changed since the last call. For the store,
    /// before anything that came with that message is acted upon: what is lost here can be replayed after a restart.
    pub fn snapshot(&mut self) -> Option<u64> {
        std::mem::take(&mut self.accepted_is_new).then_some(self.accepted).flatten()
    }

    /// What came, and what it cost.
    pub fn counters(&self) -> SecurityCounters {
        self.counters
    }

    /// The extension that segments carry now.
    fn hello(&self) -> Option<[u8; HELLO_EXTENSION]> {
        if let Some(attempt) = &self.attempt {
            let filter = self.filter.sign(HelloKind::First, &attempt.first, None);
            return Some(Hello { kind: HelloKind::First, filter, message: &attempt.first }.encode());
        }
        let newest = self.associations.first().filter(|newest| !self.initiates && !newest.heard)?;
        let filter = self.filter.sign(HelloKind::Second, &newest.second, Some(&newest.first));
        Some(Hello { kind: HelloKind::Second, filter, message: &newest.second }.encode())
    }

    fn attempt_anew(&mut self, now: Instant) {
        if self.attempts >> ATTEMPT_BITS != 0 {
            return;
        }
        let counter = self.life << ATTEMPT_BITS | self.attempts;
        let random = self.ephemeral();
        // It fails for a peer's key of small order only, which `new` has refused.
        let Ok(first) = noise::write_first(&self.statics, counter, random) else { return };
        self.attempts += 1;
        self.unanswered += 1;
        self.last_begun = Some(now);
        self.unsent = true;
        self.attempt = Some(Attempt {
            counter,
            handshake: first.handshake,
            first: first.message,
            early: noise::key(&first.early.initiator),
            clock: SendClock::new(now),
            begun: now,
        });
    }

    fn open_checked(
        &mut self,
        now: Instant,
        header: &Header,
        extension: &[u8],
        sealed: &mut [u8],
    ) -> Result<(u64, association::Opened), OpenError> {
        let lengths_agree = extension.len() == header.extension_len()
            && sealed.len() >= TAG_LEN
            && extension.len() + sealed.len() == usize::from(header.payload_len);
        let hello = Hello::find(extension).ok().filter(|_| lengths_agree).ok_or(OpenError::Malformed)?;
        if header.phase == EARLY {
            let hello = hello.filter(|hello| hello.kind == HelloKind::First && !self.initiates);
            let hello = hello.ok_or(OpenError::NoKey)?;
            self.accept_first(now, &hello);
            let known = self.associations.iter_mut().find(|known| known.first == *hello.message);
            let known = known.ok_or(OpenError::NoKey)?;
            return Ok((known.counter, known.open(now, header, extension, sealed)?));
        }
        match hello {
            Some(hello) if hello.kind == HelloKind::Second => self.accept_second(now, header.phase, &hello),
            _ => {}
        }
        let result = self.open_in_phase(now, header, extension, sealed);
        // After it is opened, so that an association which it confirms is not dropped for the new one.
        match hello {
            Some(hello) if hello.kind == HelloKind::First && !self.initiates => self.accept_first(now, &hello),
            _ => {}
        }
        result
    }

    /// Tries the associations of the segment's phase, newest first. There are two of a phase at times, after a restart.
    fn open_in_phase(
        &mut self,
        now: Instant,
        header: &Header,
        extension: &[u8],
        sealed: &mut [u8],
    ) -> Result<(u64, association::Opened), OpenError> {
        let mut candidates = self.associations.iter_mut().filter(|one| one.phase() == header.phase).peekable();
        let mut result = Err(OpenError::NoKey);
        while let Some(candidate) = candidates.next() {
            let more = candidates.peek().is_some();
            if more {
                self.scratch.clear();
                self.scratch.extend_from_slice(sealed);
            }
            result = candidate.open(now, header, extension, sealed).map(|opened| (candidate.counter, opened));
            if result.is_ok() {
                break;
            }
            if more {
                sealed.copy_from_slice(&self.scratch);
            }
        }
        result
    }

    /// The responder's part: a new association if the message is genuine and newer than all before.
    fn accept_first(&mut self, now: Instant, hello: &Hello<'_>) {
        if self.associations.iter().any(|known| known.first == *hello.message) {
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
        if !self.bucket.take(now) {
            self.counters.limited_hellos += 1;
            return;
        }
        let random = self.ephemeral();
        let Ok((counter, mut first)) = noise::read_first(&self.statics, hello.message, random) else {
            self.counters.forged_hellos += 1;
            self.refuse(hello.message);
            return;
        };
        if self.accepted.is_some_and(|accepted| counter <= accepted) {
            self.counters.replayed_hellos += 1;
            self.refuse(hello.message);
            return;
        }
        let Ok((second, pair)) = noise::write_second(&mut first.handshake, self.life) else { return };
        self.accepted = Some(counter);
        self.accepted_is_new = true;
        let early = noise::key(&first.early.initiator);
        let messages = (*hello.message, second);
        let clock = SendClock::new(now);
        let association = Association::new(false, messages, counter, (&pair, early), clock, now);
        self.associate(association, counter >> ATTEMPT_BITS);
    }

    /// The initiator's part: the attempt becomes an association if the message is genuine.
    fn accept_second(&mut self, now: Instant, phase_of_segment: u8, hello: &Hello<'_>) {
        let Some(attempt) = self.attempt.as_mut().filter(|attempt| phase(attempt.counter) == phase_of_segment) else {
            return;
        };
        if self.associations.iter().any(|known| known.second == *hello.message) {
            return;
        }
        if self.filter.sign(HelloKind::Second, hello.message, Some(&attempt.first)) != hello.filter {
            self.counters.forged_hellos += 1;
            return;
        }
        if !self.bucket.take(now) {
            self.counters.limited_hellos += 1;
            return;
        }
        let Ok((life, pair)) = noise::read_second(&mut attempt.handshake, hello.message) else {
            self.counters.forged_hellos += 1;
            return;
        };
        let Some(attempt) = self.attempt.take() else { return };
        self.unanswered = 0;
        let messages = (attempt.first, *hello.message);
        let keys = (&pair, attempt.early);
        let association = Association::new(true, messages, attempt.counter, keys, attempt.clock, now);
        self.associate(association, life);
    }

    /// Puts a new association before those there are, and forgets the ones that are of no more use.
    fn associate(&mut self, association: Association, peer_life: u64) {
        let restarted = self.peer_life.is_some_and(|life| life != peer_life);
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
        // The newest, one before it that both ends have finished, and for the responder ones that the initiator may have
        // finished or given up.
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

    /// Randomness for one ephemeral key, another in each life even if the stream should be the same.
    fn ephemeral(&mut self) -> SeededBytes {
        let purpose = format!("aerotp ephemeral key of life {} ({})", self.life, self.initiates);
        SeededBytes::new(&self.random.next_seed(), &purpose)
    }
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let associations: Vec<u64> = self.associations.iter().map(|association| association.counter).collect();
        f.debug_struct("Security")
            .field("initiates", &self.initiates)
            .field("life", &self.life)
            .field("attempt", &self.attempt.as_ref().map(|attempt| attempt.counter))
            .field("associations", &associations)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

/// Of a first message's counter, the bits that count attempts within a life.
const ATTEMPT_BITS: u32 = 20;

/// Key phase of segments sealed with the early key.
const EARLY: u8 = 0;

/// Between attempts at a handshake, at least.
pub const ATTEMPT_INTERVAL: Duration = Duration::from_secs(1);

/// An attempt that is not answered for so long is made anew, the first time and at last. Its clock must not run ahead of
/// the responder's idea of it by more than 35 minutes.
const FIRST_ATTEMPT_AGE: Duration = Duration::from_secs(16);
const ATTEMPT_AGE: Duration = Duration::from_secs(30 * 60);

/// How old a number may be when it arrives, in microseconds; 2^31 is the limit.
const HOLDS_US: u64 = 30 * 60 * 1_000_000;

/// Keys are replaced after this time, or after this many segments of ours.
const REKEY_AGE: Duration = Duration::from_secs(60 * 60);
const REKEY_SEGMENTS: u64 = 1 << 32;

/// Associations that a responder keeps in which it has heard nothing.
const UNFINISHED: usize = 3;

/// Refused first messages that are remembered, so that repeating them costs no arithmetic.
const REFUSED: usize = 8;

#[cfg(test)]
mod tests;
