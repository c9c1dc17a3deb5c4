//! TLS randomness and key exchange from a seed, for the client's side of a handshake.
//!
//! rustls takes its randomness from a `'static` provider, so the seed of the handshake that is being started lies in a
//! thread-local while [`with_seed`] runs; all of a client's draws happen there. A handshake whose seed and incoming bytes
//! are known can be enacted again, which is how tickets survive a restart (see [`super::resumption`]).

use std::cell::RefCell;

use rustls::crypto::{
    ActiveKeyExchange, CryptoProvider, GetRandomFailed, SecureRandom, SharedSecret, SupportedKxGroup,
};
use rustls::{Error, NamedGroup, PeerMisbehaved};
use x25519_dalek::{PublicKey, StaticSecret};

use crate::seeded::SeededBytes;

thread_local! {
    static HANDSHAKE: RefCell<Option<SeededBytes>> = const { RefCell::new(None) };
}

/// Runs `start`, whose TLS randomness comes from `seed`.
pub(super) fn with_seed<T>(seed: &[u8; 32], start: impl FnOnce() -> T) -> T {
    HANDSHAKE.set(Some(SeededBytes::new(seed, "aquila tls client")));
    let result = start();
    HANDSHAKE.set(None);
    result
}

/// Ring's provider, with randomness and X25519 of ours.
pub(super) fn provider() -> CryptoProvider {
    CryptoProvider {
        secure_random: &SeededRandom,
        kx_groups: vec![&SeededX25519],
        ..rustls::crypto::ring::default_provider()
    }
}

#[derive(Debug)]
struct SeededRandom;

impl SecureRandom for SeededRandom {
    fn fill(&self, out: &mut [u8]) -> Result<(), GetRandomFailed> {
        HANDSHAKE.with_borrow_mut(|seed| seed.as_mut().map(|seed| seed.fill(out)).ok_or(GetRandomFailed))
    }
}

/// X25519 (RFC 7748) with a secret that can be drawn again.
#[derive(Debug)]
struct SeededX25519;

impl SupportedKxGroup for SeededX25519 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut secret = [0; 32];
        SeededRandom.fill(&mut secret)?;
        let secret = StaticSecret::from(secret);
        let public = PublicKey::from(&secret);
        Ok(Box::new(Exchange { secret, public }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

struct Exchange {
    secret: StaticSecret,
    public: PublicKey,
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let refused = || Error::from(PeerMisbehaved::InvalidKeyShare);
        let peer: [u8; 32] = peer.try_into().map_err(|_| refused())?;
        let shared = self.secret.diffie_hellman(&PublicKey::from(peer));
        // RFC 8446 §7.4.2: abort on the all-zero value.
        if !shared.was_contributory() {
            return Err(refused());
        }
        Ok(SharedSecret::from(shared.as_bytes().as_slice()))
    }

    fn pub_key(&self) -> &[u8] {
        self.public.as_bytes()
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(secret: [u8; 32]) -> Box<Exchange> {
        let secret = StaticSecret::from(secret);
        let public = PublicKey::from(&secret);
        Box::new(Exchange { secret, public })
    }

    #[test]
    fn both_sides_agree_and_a_low_order_point_is_refused() {
        let (a_public, b_public) = (exchange([7; 32]).pub_key().to_vec(), exchange([9; 32]).pub_key().to_vec());
        let a = exchange([7; 32]).complete(&b_public).unwrap();
        assert_eq!(a.secret_bytes(), exchange([9; 32]).complete(&a_public).unwrap().secret_bytes());
        assert!(exchange([7; 32]).complete(&[0; 32]).is_err());
        assert!(exchange([7; 32]).complete(&[9; 31]).is_err());
    }

    #[test]
    fn the_same_seed_draws_the_same_and_without_one_there_is_none() {
        let draw = |seed: u8| {
            with_seed(&[seed; 32], || {
                let mut bytes = [0; 8];
                SeededRandom
                    .fill(&mut bytes)
                    .map(|()| (bytes, SeededX25519.start().unwrap().pub_key().to_vec()))
                    .unwrap()
            })
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(SeededRandom.fill(&mut [0; 8]).is_err());
    }
}
