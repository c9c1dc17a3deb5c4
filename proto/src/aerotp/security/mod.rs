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
mod handshake;
mod keys;
mod noise;
mod outcome;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::association::Association;
use self::filter::{HelloFilter, TokenBucket};
use self::handshake::Attempt;
use self::noise::Statics;
pub use self::outcome::{News, OpenError, Opened, SealError, Sealed, SecurityCounters, SecurityError};
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
    /// Newest first. Two that both ends have finished, and for the responder three others.
    associations: Vec<Association>,
    accepted: Option<u64>,
    accepted_is_new: bool,
    /// First messages that were refused after arithmetic, newest last, eight at most.
    refused: Vec<[u8; HELLO_LEN]>,
    bucket: TokenBucket,
    peer_life: Option<u64>,
    news: Option<News>,
    unsent: bool,
    extension: [u8; HELLO_EXTENSION],
    scratch: Vec<u8>,
    counters: SecurityCounters,
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
    /// interval doubles while attempts are not answered, up to 64 s. An association that there is goes on meanwhile. After
    /// 2^20 attempts, two years at that rate, it takes a new life.
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
        if !self.initiates || self.attempts >> ATTEMPT_BITS != 0 {
            return None;
        }
        let age = FIRST_ATTEMPT_AGE.saturating_mul(1 << self.unanswered.clamp(1, 10) >> 1).min(ATTEMPT_AGE);
        let attempt = self.attempt.as_ref().map(|attempt| attempt.begun + age);
        let worn = |newest: &Association| {
            if newest.clock.count < REKEY_SEGMENTS { newest.since + REKEY_AGE } else { newest.since }
        };
        attempt.or_else(|| self.associations.first().map(worn))
    }

    /// Begins a new handshake when the keys are an hour or 2^32 segments old, or an attempt was not answered for 16 s, then 32 s, at last half
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
        if let Some(hello) = self.hello() {
            self.extension = *hello;
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
    fn hello(&self) -> Option<&[u8; HELLO_EXTENSION]> {
        let newest = || self.associations.first().filter(|newest| !self.initiates && !newest.heard);
        self.attempt.as_ref().map(|attempt| &attempt.hello).or_else(|| newest().map(|newest| &newest.hello))
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
            self.accept_first(now, &hello, false);
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
            Some(hello) if hello.kind == HelloKind::First && !self.initiates => {
                self.accept_first(now, &hello, result.is_ok());
            }
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
            let heard = candidate.heard;
            result = candidate.open(now, header, extension, sealed).map(|opened| (candidate.counter, opened));
            if result.is_ok() {
                if !heard {
                    self.forget_old();
                }
                break;
            }
            if more {
                sealed.copy_from_slice(&self.scratch);
            }
        }
        result
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

#[cfg(test)]
mod known_answers;
#[cfg(test)]
mod tests;
