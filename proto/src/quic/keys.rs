//! The endpoint's own keys: connection ids, stateless resets, retry tokens and the greeting tag.
//!
//! All are derived from the identity, so that they are the same after a restart: a restarted end recognises the packets
//! of its former life and tells the peer with a stateless reset (RFC 9000 §10.3), instead of leaving it to a time-out.

use noq_proto::ConnectionId;
use noq_proto::crypto::{CryptoError, HandshakeTokenKey, HmacKey};
use noq_proto::{ConnectionIdGenerator, InvalidCid};
use ring::{aead, hmac};

use crate::bearer::BearerId;
use crate::identity::{Identity, PublicKey};
use crate::seeded::SeededBytes;

/// Length of our connection ids: a random half and a tag that only we can make.
const CID_LEN: usize = 8;
const CID_NONCE_LEN: usize = 4;

/// Length of the first destination connection id of a client: the longest that QUIC allows (RFC 9000 §17.2).
const GREETING_LEN: usize = 20;
const GREETING_NONCE_LEN: usize = 8;

/// HMAC-SHA-256 key for stateless reset tokens.
pub struct ResetKey(hmac::Key);

impl ResetKey {
    pub fn new(identity: &Identity) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, &identity.derive("aquila/1 stateless reset")))
    }
}

impl HmacKey for ResetKey {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        signature_out.copy_from_slice(hmac::sign(&self.0, data).as_ref());
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        hmac::verify(&self.0, data, signature).map_err(|_| CryptoError)
    }
}

/// Seals address-validation tokens (RFC 9000 §8.1) with a key of its own for each nonce.
pub struct TokenKey(hmac::Key);

impl TokenKey {
    pub fn new(identity: &Identity) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, &identity.derive("aquila/1 address validation")))
    }

    fn for_nonce(&self, nonce: u128) -> aead::LessSafeKey {
        let key = hmac::sign(&self.0, &nonce.to_be_bytes());
        let key = aead::UnboundKey::new(&aead::AES_256_GCM, key.as_ref()).expect("AES-256 keys are 32 bytes");
        aead::LessSafeKey::new(key)
    }
}

/// Each key is used with one nonce only, so the AEAD nonce may be constant.
fn zero_nonce() -> aead::Nonce {
    aead::Nonce::assume_unique_for_key([0; aead::NONCE_LEN])
}

impl HandshakeTokenKey for TokenKey {
    fn seal(&self, token_nonce: u128, data: &mut Vec<u8>) -> Result<(), CryptoError> {
        self.for_nonce(token_nonce)
            .seal_in_place_append_tag(zero_nonce(), aead::Aad::empty(), data)
            .map_err(|_| CryptoError)
    }

    fn open<'a>(&self, token_nonce: u128, data: &'a mut [u8]) -> Result<&'a [u8], CryptoError> {
        self.for_nonce(token_nonce)
            .open_in_place(zero_nonce(), aead::Aad::empty(), data)
            .map(|plain| &*plain)
            .map_err(|_| CryptoError)
    }
}

/// The low four bits of the first byte of each connection id, a client's first one included, are the bearer's number, so that a
/// server knows whose a packet is.
const BEARER_BITS: u8 = 0x0f;

fn number(cid: &mut [u8], bearer: BearerId) {
    cid[0] = cid[0] & !BEARER_BITS | bearer.number();
}

/// The bearer that a packet says it belongs to.
pub fn bearer_of(packet: &[u8]) -> Option<BearerId> {
    let first = packet.get(destination(packet)?)?.first()?;
    BearerId::new(first & BEARER_BITS)
}

/// Where a packet's destination connection id is (RFC 9000 §17.2, §17.3; ours on short headers).
pub fn destination(packet: &[u8]) -> Option<std::ops::Range<usize>> {
    match packet.first()? & 0x80 {
        0 => Some(1..1 + CID_LEN),
        _ => Some(6..6 + usize::from(*packet.get(5)?)),
    }
}

/// Makes connection ids that we recognise as ours after a restart, so that a stranger's packet earns no stateless reset.
pub struct CidGenerator {
    key: hmac::Key,
    random: SeededBytes,
    bearer: BearerId,
}

impl CidGenerator {
    pub fn new(identity: &Identity, random: SeededBytes, bearer: BearerId) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &identity.derive("aquila/1 connection id"));
        Self { key, random, bearer }
    }

    /// Whether `cid` is one of ours, of this life or a former one.
    pub fn recognises(&self, cid: &[u8]) -> bool {
        let Some((nonce, tag)) = cid.split_at_checked(CID_NONCE_LEN) else { return false };
        cid.len() == CID_LEN && hmac::sign(&self.key, nonce).as_ref().starts_with(tag)
    }
}

impl ConnectionIdGenerator for CidGenerator {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut cid = [0; CID_LEN];
        let (nonce, tag) = cid.split_at_mut(CID_NONCE_LEN);
        self.random.fill(nonce);
        number(nonce, self.bearer);
        tag.copy_from_slice(&hmac::sign(&self.key, nonce).as_ref()[..CID_LEN - CID_NONCE_LEN]);
        ConnectionId::new(&cid)
    }

    fn validate(&self, cid: ConnectionId) -> Result<(), InvalidCid> {
        if self.recognises(&cid) { Ok(()) } else { Err(InvalidCid) }
    }

    fn cid_len(&self) -> usize {
        CID_LEN
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

/// The tag in a client's first destination connection id, by which a server tells a peer that knows both public keys
/// from a scanner, before it spends or sends anything. It is no authentication: that is the handshake's.
pub struct Greeting(hmac::Key);

impl Greeting {
    pub fn new(client: &PublicKey, server: &PublicKey) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, &[b"aquila/1 greeting".as_slice(), &client.0, &server.0].concat()))
    }

    /// A fresh first destination connection id (RFC 9000 §7.2: at least 8 unpredictable bytes).
    pub fn make(&self, random: &mut SeededBytes, bearer: BearerId) -> ConnectionId {
        let mut cid = [0; GREETING_LEN];
        let (nonce, tag) = cid.split_at_mut(GREETING_NONCE_LEN);
        random.fill(nonce);
        number(nonce, bearer);
        tag.copy_from_slice(&hmac::sign(&self.0, nonce).as_ref()[..GREETING_LEN - GREETING_NONCE_LEN]);
        ConnectionId::new(&cid)
    }

    /// Whether a client's first destination connection id was made for us.
    pub fn matches(&self, cid: &[u8]) -> bool {
        cid.len() == GREETING_LEN
            && hmac::sign(&self.0, &cid[..GREETING_NONCE_LEN]).as_ref().starts_with(&cid[GREETING_NONCE_LEN..])
    }
}

/// Knows the packets that are meant for us, before there is a bearer for them.
pub struct Door {
    greeting: Greeting,
    cids: CidGenerator,
}

impl Door {
    pub fn new(identity: &Identity, peer: &PublicKey) -> Self {
        let unused = SeededBytes::new(&[0; 32], "a door makes no connection ids");
        Self {
            greeting: Greeting::new(peer, &identity.public()),
            cids: CidGenerator::new(identity, unused, BearerId::FIRST),
        }
    }

    /// Whether a packet is a client's first, or was sent to a connection of ours, in this life or a former one.
    pub fn is_for_us(&self, packet: &[u8]) -> bool {
        let cid = destination(packet).and_then(|at| packet.get(at));
        cid.is_some_and(|cid| self.cids.recognises(cid) || self.greeting.matches(cid))
    }
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Door")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(n: u8) -> Identity {
        Identity::from_seed([n; 32])
    }

    #[test]
    fn connection_ids_are_recognised_after_a_restart_and_by_nobody_else() {
        let cid = CidGenerator::new(&identity(1), SeededBytes::new(&[1; 32], "cid"), BearerId::FIRST).generate_cid();
        let reborn = CidGenerator::new(&identity(1), SeededBytes::new(&[2; 32], "cid"), BearerId::FIRST);
        let other = CidGenerator::new(&identity(2), SeededBytes::new(&[1; 32], "cid"), BearerId::FIRST);
        assert!(reborn.validate(cid).is_ok());
        assert!(other.validate(cid).is_err());
        assert!(reborn.validate(ConnectionId::new(&[])).is_err());
        assert!(reborn.validate(ConnectionId::new(&cid[..6])).is_err());
    }

    #[test]
    fn greeting_is_for_one_pair_of_keys_in_one_direction() {
        let (a, b) = (identity(1).public(), identity(2).public());
        let mut random = SeededBytes::new(&[3; 32], "greeting");
        let cid = Greeting::new(&a, &b).make(&mut random, BearerId::FIRST);
        assert!(Greeting::new(&a, &b).matches(&cid));
        assert!(!Greeting::new(&b, &a).matches(&cid));
        assert!(!Greeting::new(&a, &b).matches(&cid[..19]));
        assert!(!Greeting::new(&a, &b).matches(&[0; 20]));
    }

    #[test]
    fn a_packet_says_whose_it_is() {
        let (a, b) = (identity(1), identity(2));
        let mut random = SeededBytes::new(&[3; 32], "greeting");
        let door = Door::new(&b, &a.public());
        for bearer in BearerId::all() {
            let greeting = Greeting::new(&a.public(), &b.public()).make(&mut random, bearer);
            let mut long = vec![0xc0, 0, 0, 0, 1, greeting.len() as u8];
            long.extend_from_slice(&greeting);
            let cid = CidGenerator::new(&b, SeededBytes::new(&[1; 32], "cid"), bearer).generate_cid();
            let mut short = vec![0x40];
            short.extend_from_slice(&cid);
            for packet in [long, short] {
                assert_eq!(bearer_of(&packet), Some(bearer));
                assert!(door.is_for_us(&packet));
                assert!(!Door::new(&a, &b.public()).is_for_us(&packet));
                // Claiming another bearer breaks the tag.
                let mut other = packet.clone();
                other[destination(&packet).unwrap().start] ^= 1;
                assert!(!door.is_for_us(&other));
                for len in 0..packet.len() {
                    assert!(!door.is_for_us(&packet[..len]));
                }
            }
        }
    }

    #[test]
    fn tokens_open_with_their_nonce_only() {
        let key = TokenKey::new(&identity(1));
        let mut data = b"address".to_vec();
        key.seal(5, &mut data).unwrap();
        assert!(key.open(6, &mut data.clone()).is_err());
        assert_eq!(TokenKey::new(&identity(1)).open(5, &mut data).unwrap(), b"address");
    }
}
