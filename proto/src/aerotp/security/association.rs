//! One association: its keys, and the numbers of its segments.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ring::aead::{Aad, LessSafeKey, Nonce};

use super::noise::{KeyPair, key};
use super::{OpenError, TAG_LEN};
use crate::aerotp::extension::{HELLO_EXTENSION, HELLO_LEN};
use crate::aerotp::header::{HEADER_LEN, Header};

/// A handshake that both ends have finished, as far as this one knows.
pub(super) struct Association {
    /// The counter of its first message.
    pub counter: u64,
    /// Its first message, by which a repetition is told.
    pub first: [u8; HELLO_LEN],
    /// The extension with our message.
    pub hello: [u8; HELLO_EXTENSION],
    /// When its keys came to be here.
    pub since: Instant,
    /// Whether something of the peer's was opened with its own keys (not the early one).
    pub heard: bool,
    /// Numbers of what is sealed.
    pub clock: SendClock,
    keys: Keys,
    received: Received,
}

/// A segment that was opened.
pub(super) struct Opened {
    pub number: u64,
    /// Opened before, or too old to tell.
    pub repeated: bool,
    /// Length of the plaintext.
    pub plaintext: usize,
}

/// Keys by what this end does with them.
struct Keys {
    seal: LessSafeKey,
    open: LessSafeKey,
    /// Not if a former life has acted on what was sealed with it.
    early: Option<LessSafeKey>,
}

impl Association {
    /// With the keys of a finished handshake and, if such segments are to be opened, the initiator's early key.
    pub(super) fn new(
        initiates: bool,
        (first, hello): ([u8; HELLO_LEN], [u8; HELLO_EXTENSION]),
        counter: u64,
        (pair, early): (&KeyPair, Option<LessSafeKey>),
        clock: SendClock,
        now: Instant,
    ) -> Self {
        let (seal, open) =
            if initiates { (&pair.initiator, &pair.responder) } else { (&pair.responder, &pair.initiator) };
        Self {
            counter,
            first,
            hello,
            since: now,
            heard: false,
            clock,
            keys: Keys { seal: key(seal), open: key(open), early },
            received: Received::new(now),
        }
    }

    /// The phase that its segments carry.
    pub(super) fn phase(&self) -> u8 {
        phase(self.counter)
    }

    /// The key it seals with.
    pub(super) fn sealing_key(&mut self) -> (&LessSafeKey, &mut SendClock) {
        (&self.keys.seal, &mut self.clock)
    }

    /// Opens a segment, in place, with the association's key or the early one by its phase.
    pub(super) fn open(
        &mut self,
        now: Instant,
        header: &Header,
        extension: &[u8],
        sealed: &mut [u8],
    ) -> Result<Opened, OpenError> {
        let early = header.phase == 0;
        let key = if early { self.keys.early.as_ref() } else { Some(&self.keys.open) };
        let key = key.ok_or(OpenError::NoKey)?;
        let number = self.received.extend(now, header.timestamp);
        let aad = Aad::from(associated_data(header, extension));
        let plaintext = key.open_in_place(nonce(number), aad, sealed).map_err(|_| OpenError::Forged)?.len();
        self.heard |= !early;
        let repeated = !self.received.record(now, number);
        Ok(Opened { number, repeated, plaintext })
    }
}

/// The phase of the association with this counter, 1..=7.
pub(super) fn phase(counter: u64) -> u8 {
    (counter % 7) as u8 + 1
}

/// Seals `plaintext` in place and appends the tag.
pub(super) fn seal(key: &LessSafeKey, number: u64, header: &Header, extension: &[u8], plaintext: &mut Vec<u8>) {
    let aad = Aad::from(associated_data(header, extension));
    key.seal_in_place_append_tag(nonce(number), aad, plaintext).expect("a segment is shorter than 256 GB");
}

/// Numbers what an end seals, by its clock: microseconds since the association or the attempt at it began, and always
/// above the one before. The first is at least 1.
#[derive(Debug, Clone)]
pub(super) struct SendClock {
    epoch: Instant,
    last: u64,
    /// How many it has given.
    pub count: u64,
}

impl SendClock {
    pub(super) fn new(now: Instant) -> Self {
        Self { epoch: now, last: 0, count: 0 }
    }

    /// What the clock shows.
    pub(super) fn now(&self, now: Instant) -> u64 {
        micros(now.saturating_duration_since(self.epoch)).max(self.last)
    }

    /// The next number.
    pub(super) fn next(&mut self, now: Instant) -> u64 {
        self.last = micros(now.saturating_duration_since(self.epoch)).max(self.last + 1);
        self.count += 1;
        self.last
    }
}

/// Numbers of what the peer has sealed, as far as they are authenticated.
struct Received {
    greatest: u64,
    /// When the greatest came, or the association began.
    at: Instant,
    /// The last ones, [`REMEMBERED`] at most.
    numbers: BTreeSet<u64>,
    /// Up to here nothing is remembered any more.
    forgotten: u64,
}

/// Numbers that are told from repeated ones, in each association.
const REMEMBERED: usize = 4096;

impl Received {
    fn new(now: Instant) -> Self {
        Self { greatest: 0, at: now, numbers: BTreeSet::new(), forgotten: 0 }
    }

    /// The number with these low bits that is nearest to what the peer's clock should show now. Right as long as our idea
    /// of that is less than 2^31 µs = 35.8 min wrong.
    fn extend(&self, now: Instant, low: u32) -> u64 {
        let expected = self.greatest.saturating_add(micros(now.saturating_duration_since(self.at)));
        let base = expected & !0xffff_ffff | u64::from(low);
        let around = [base.checked_sub(1 << 32), Some(base), base.checked_add(1 << 32)];
        around.into_iter().flatten().min_by_key(|number| number.abs_diff(expected)).unwrap_or(base)
    }

    /// Notes an authenticated number; whether it is new. Numbers older than all that are remembered count as old.
    fn record(&mut self, now: Instant, number: u64) -> bool {
        if number > self.greatest {
            (self.greatest, self.at) = (number, now);
        }
        let new = number > self.forgotten && self.numbers.insert(number);
        if self.numbers.len() > REMEMBERED {
            self.forgotten = self.numbers.pop_first().unwrap_or(self.forgotten);
        }
        new
    }
}

/// What the tag covers besides the plaintext: the header without what hops and copies may change, and the extension.
fn associated_data(header: &Header, extension: &[u8]) -> AssociatedData {
    let mut bytes = [0; MAX_ASSOCIATED];
    let len = HEADER_LEN + extension.len().min(MAX_ASSOCIATED - HEADER_LEN);
    bytes[..HEADER_LEN].copy_from_slice(&header.authenticated());
    bytes[HEADER_LEN..len].copy_from_slice(&extension[..len - HEADER_LEN]);
    AssociatedData { bytes, len }
}

/// Header and 15 extension words.
const MAX_ASSOCIATED: usize = HEADER_LEN + 60;

struct AssociatedData {
    bytes: [u8; MAX_ASSOCIATED],
    len: usize,
}

impl AsRef<[u8]> for AssociatedData {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// 32 zero bits and the number, in network order.
fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX / 2)
}

const _: () = assert!(TAG_LEN == 16);
