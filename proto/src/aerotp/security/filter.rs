//! What a hello must pass before it costs arithmetic on the curve: two bytes of a MAC, and a bucket of tokens.

use std::time::{Duration, Instant};

use ring::hmac;

use super::noise::Statics;
use crate::aerotp::extension::{HELLO_EXTENSION, HELLO_LEN, Hello, HelloKind};

/// The MAC's key, known to both ends from their static keys. Of 65536 hellos of others 65535 are refused by it; replayed
/// ones pass.
pub(super) struct HelloFilter(hmac::Key);

impl HelloFilter {
    pub(super) fn new(statics: &Statics) -> Self {
        let shared = statics.secret.diffie_hellman(&statics.peer);
        let label = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, shared.as_bytes()), b"aquila aerotp/1 hello filter");
        Self(hmac::Key::new(hmac::HMAC_SHA256, label.as_ref()))
    }

    /// The two bytes of a message. A second message is bound to the `first` that it answers.
    pub(super) fn sign(&self, kind: HelloKind, message: &[u8; HELLO_LEN], first: Option<&[u8; HELLO_LEN]>) -> [u8; 2] {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(&[kind as u8]);
        context.update(message);
        context.update(first.map_or(&[], |first| first.as_slice()));
        let tag = context.sign();
        [tag.as_ref()[0], tag.as_ref()[1]]
    }

    /// The extension with a message.
    pub(super) fn extension(
        &self,
        kind: HelloKind,
        message: &[u8; HELLO_LEN],
        first: Option<&[u8; HELLO_LEN]>,
    ) -> [u8; HELLO_EXTENSION] {
        Hello { kind, filter: self.sign(kind, message, first), message }.encode()
    }
}

/// Hellos that may be tried: [`BURST`] at once, [`PER_SECOND`] in the long run.
pub(super) struct TokenBucket {
    /// Time for which tokens have been saved, up to [`BURST`] of them.
    saved: Duration,
    at: Option<Instant>,
}

const PER_SECOND: u32 = 20;
const BURST: u32 = 40;
const COST: Duration = Duration::from_nanos(1_000_000_000 / PER_SECOND as u64);

impl TokenBucket {
    pub(super) fn new() -> Self {
        Self { saved: COST.saturating_mul(BURST), at: None }
    }

    /// Takes a token if there is one.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let passed = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
        self.saved = self.saved.saturating_add(passed).min(COST.saturating_mul(BURST));
        let rest = self.saved.checked_sub(COST);
        self.saved = rest.unwrap_or(self.saved);
        rest.is_some()
    }
}
