//! The handshake, Noise KK, with randomness from a seed.

use blake2::{Blake2s256, Digest};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, Error, HandshakeState};
use x25519_dalek::{PublicKey as X25519Public, StaticSecret};

use crate::aerotp::extension::HELLO_LEN;

/// Both sides know the other's static key (Noise §7.5). Message 1: e, es, ss. Message 2: e, ee, se.
const PATTERN: &str = "Noise_KK_25519_ChaChaPoly_BLAKE2s";

/// Protocol and version: ends of different versions cannot read each other's hellos.
const PROLOGUE: &[u8] = b"aquila aerotp/1";

/// The static keys of both ends.
pub(super) struct Statics {
    pub secret: StaticSecret,
    pub peer: X25519Public,
}

/// Two keys of one moment of the handshake, by who seals with them.
pub(super) struct KeyPair {
    pub initiator: [u8; 32],
    pub responder: [u8; 32],
}

/// A first message and what follows from it.
pub(super) struct First {
    pub handshake: HandshakeState,
    pub message: [u8; HELLO_LEN],
    pub early: KeyPair,
}

/// Writes the first message, with `counter` in it and with this secret ephemeral key.
pub(super) fn write_first(statics: &Statics, counter: u64, ephemeral: [u8; 32]) -> Result<First, Error> {
    let (secret, peer) = (statics.secret.to_bytes(), statics.peer.to_bytes());
    let mut handshake = builder(&secret, &peer, ephemeral)?.build_initiator()?;
    let mut message = [0; HELLO_LEN];
    handshake.write_message(&counter.to_be_bytes(), &mut message)?;
    let early = split(&mut handshake);
    Ok(First { handshake, message, early })
}

/// Reads a first message: the counter, and the handshake to go on with, with this secret ephemeral key.
pub(super) fn read_first(
    statics: &Statics,
    message: &[u8; HELLO_LEN],
    ephemeral: [u8; 32],
) -> Result<(u64, First), Error> {
    let (secret, peer) = (statics.secret.to_bytes(), statics.peer.to_bytes());
    let mut handshake = builder(&secret, &peer, ephemeral)?.build_responder()?;
    let mut counter = [0; 8];
    handshake.read_message(message, &mut counter)?;
    let early = split(&mut handshake);
    Ok((u64::from_be_bytes(counter), First { handshake, message: *message, early }))
}

/// Writes the second message, with `life` in it: the message and the association's keys.
pub(super) fn write_second(handshake: &mut HandshakeState, life: u64) -> Result<([u8; HELLO_LEN], KeyPair), Error> {
    let mut message = [0; HELLO_LEN];
    handshake.write_message(&life.to_be_bytes(), &mut message)?;
    Ok((message, split(handshake)))
}

/// Reads the second message: the responder's life and the association's keys. After an error the right message can still
/// be read.
pub(super) fn read_second(handshake: &mut HandshakeState, message: &[u8; HELLO_LEN]) -> Result<(u64, KeyPair), Error> {
    let mut life = [0; 8];
    handshake.read_message(message, &mut life)?;
    Ok((u64::from_be_bytes(life), split(handshake)))
}

/// HKDF of the chaining key with empty input (Noise §5.2, Split), at whatever point the handshake is.
fn split(handshake: &mut HandshakeState) -> KeyPair {
    let (initiator, responder) = handshake.dangerously_get_raw_split();
    KeyPair { initiator, responder }
}

fn builder<'a>(secret: &'a [u8; 32], peer: &'a [u8; 32], ephemeral: [u8; 32]) -> Result<Builder<'a>, Error> {
    Builder::with_resolver(PATTERN.parse()?, Box::new(Primitives { ephemeral }))
        .local_private_key(secret)?
        .remote_public_key(peer)?
        .prologue(PROLOGUE)
}

/// By the crates that the link uses anyway, and BLAKE2s.
struct Primitives {
    ephemeral: [u8; 32],
}

impl CryptoResolver for Primitives {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Drawn(Some(self.ephemeral))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        matches!(choice, DHChoice::Curve25519).then(|| Box::<X25519>::default() as Box<dyn Dh>)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        matches!(choice, HashChoice::Blake2s).then(|| Box::<Blake2s>::default() as Box<dyn Hash>)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        matches!(choice, CipherChoice::ChaChaPoly).then(|| Box::new(ChaChaPoly(key(&[0; 32]))) as Box<dyn Cipher>)
    }
}

/// The 32 bytes of one ephemeral key. KK draws no others.
struct Drawn(Option<[u8; 32]>);

impl Random for Drawn {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), Error> {
        let drawn = self.0.take().filter(|drawn| drawn.len() == dest.len()).ok_or(Error::Rng)?;
        dest.copy_from_slice(&drawn);
        Ok(())
    }
}

struct X25519 {
    secret: StaticSecret,
    public: [u8; 32],
}

impl Default for X25519 {
    fn default() -> Self {
        Self { secret: StaticSecret::from([0; 32]), public: [0; 32] }
    }
}

impl Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    fn set(&mut self, privkey: &[u8]) {
        let mut secret = [0; 32];
        secret.copy_from_slice(&privkey[..32]);
        self.secret = StaticSecret::from(secret);
        self.public = X25519Public::from(&self.secret).to_bytes();
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), Error> {
        let mut secret = [0; 32];
        rng.try_fill_bytes(&mut secret)?;
        self.set(&secret);
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        self.secret.as_bytes()
    }

    fn dh(&self, pubkey: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let public = X25519Public::from(*pubkey.first_chunk::<32>().ok_or(Error::Input)?);
        let shared = self.secret.diffie_hellman(&public);
        // An ephemeral key of small order would take its share out of the keys.
        if !shared.was_contributory() {
            return Err(Error::Dh);
        }
        out[..32].copy_from_slice(shared.as_bytes());
        Ok(())
    }
}

#[derive(Default)]
struct Blake2s(Blake2s256);

impl Hash for Blake2s {
    fn name(&self) -> &'static str {
        "BLAKE2s"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        self.0 = Blake2s256::new();
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        out[..32].copy_from_slice(&std::mem::take(&mut self.0).finalize());
    }
}

struct ChaChaPoly(LessSafeKey);

impl Cipher for ChaChaPoly {
    fn name(&self) -> &'static str {
        "ChaChaPoly"
    }

    fn set(&mut self, new: &[u8; 32]) {
        self.0 = key(new);
    }

    fn encrypt(&self, nonce: u64, authtext: &[u8], plaintext: &[u8], out: &mut [u8]) -> usize {
        let (text, tag) = out.split_at_mut(plaintext.len());
        text.copy_from_slice(plaintext);
        let sealed = self.0.seal_in_place_separate_tag(handshake_nonce(nonce), Aad::from(authtext), text);
        tag[..16].copy_from_slice(sealed.expect("a hello is shorter than 256 GB").as_ref());
        plaintext.len() + 16
    }

    fn decrypt(&self, nonce: u64, authtext: &[u8], ciphertext: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        let mut buffer = ciphertext.to_vec();
        let opened = self.0.open_in_place(handshake_nonce(nonce), Aad::from(authtext), &mut buffer);
        let plaintext = opened.map_err(|_| Error::Decrypt)?;
        out.get_mut(..plaintext.len()).ok_or(Error::Input)?.copy_from_slice(plaintext);
        Ok(plaintext.len())
    }
}

/// 32 zero bits and the little-endian number (Noise §12.3).
fn handshake_nonce(number: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// A key for ChaCha20-Poly1305.
pub(super) fn key(bytes: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, bytes).expect("the key has the cipher's length"))
}
