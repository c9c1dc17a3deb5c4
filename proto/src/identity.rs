//! Ed25519 identities: who an end is, and whom it accepts.
//!
//! Both ends present a raw public key (RFC 7250) and pin the other's; there are no certificates, names or expiry dates.

use std::fmt;
use std::str::FromStr;

use ring::signature::{Ed25519KeyPair, KeyPair};

/// Length of a public key in bytes.
pub const PUBLIC_KEY_LEN: usize = 32;

/// DER prefix of an Ed25519 SubjectPublicKeyInfo (RFC 8410 §4); the 32 key bytes follow it.
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The public half of an identity. Shown and parsed as `aq1:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; PUBLIC_KEY_LEN]);

/// A whole identity: the secret key in PKCS#8 form (RFC 8410) and its public half.
pub struct Identity {
    pkcs8: Vec<u8>,
    public: PublicKey,
}

/// Why a text or a file is not a key.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum KeyError {
    /// The text does not start with `aq1:`.
    #[error("a public key starts with \"aq1:\"; show yours with `aquila keys show`")]
    Prefix,
    /// Not 64 hexadecimal digits.
    #[error(
        "a public key is \"aq1:\" and 64 hexadecimal digits; this one has {0} characters after the prefix or another character"
    )]
    Digits(usize),
    /// The private key is not Ed25519 in PKCS#8.
    #[error("not an Ed25519 private key in PKCS#8 form")]
    Private,
}

impl PublicKey {
    /// The key as SubjectPublicKeyInfo, the form that TLS carries (RFC 7250 §3).
    pub fn spki_der(&self) -> Vec<u8> {
        [SPKI_PREFIX.as_slice(), &self.0].concat()
    }

    /// The key in a SubjectPublicKeyInfo; `None` if it is not a well-formed Ed25519 one.
    pub fn from_spki_der(der: &[u8]) -> Option<Self> {
        let key = der.strip_prefix(&SPKI_PREFIX)?;
        Some(Self(key.try_into().ok()?))
    }

    /// A short form to read aloud: the first eight bytes of the key's SHA-256 in groups of four digits.
    pub fn fingerprint(&self) -> String {
        let digest = ring::digest::digest(&ring::digest::SHA256, &self.0);
        let hex: String = digest.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-{}-{}", &hex[..4], &hex[4..8], &hex[8..12], &hex[12..])
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("aq1:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.fingerprint())
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let digits = text.trim().strip_prefix("aq1:").ok_or(KeyError::Prefix)?.as_bytes();
        let (pairs, rest) = digits.as_chunks::<2>();
        if pairs.len() != PUBLIC_KEY_LEN || !rest.is_empty() {
            return Err(KeyError::Digits(digits.len()));
        }
        let mut key = [0; PUBLIC_KEY_LEN];
        for (byte, pair) in key.iter_mut().zip(pairs) {
            let digit = |c: u8| (c as char).to_digit(16).map(|d| d as u8).ok_or(KeyError::Digits(digits.len()));
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(key))
    }
}

impl Identity {
    /// The identity that a 32-byte secret seed determines (RFC 8032 §5.1.5).
    pub fn from_seed(seed: [u8; 32]) -> Self {
        // PKCS#8 v1 of RFC 8410 §7: version 0, the algorithm, and the seed in two nested octet strings.
        let prefix = [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
        let pkcs8 = [prefix.as_slice(), &seed].concat();
        Self::from_pkcs8(&pkcs8).expect("any 32 bytes are an Ed25519 seed")
    }

    /// Reads a private key in PKCS#8 form, v1 or v2.
    pub fn from_pkcs8(pkcs8: &[u8]) -> Result<Self, KeyError> {
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8).map_err(|_| KeyError::Private)?;
        let public = pair.public_key().as_ref().try_into().map_err(|_| KeyError::Private)?;
        Ok(Self { pkcs8: pkcs8.to_vec(), public: PublicKey(public) })
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// The private key in PKCS#8 form.
    pub fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    /// 32 secret bytes for one purpose, the same after every restart; nobody without the private key can compute them.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        let salt = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &self.pkcs8);
        let tag = ring::hmac::sign(&salt, purpose.as_bytes());
        tag.as_ref().try_into().expect("HMAC-SHA-256 is 32 bytes")
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({}, secret not shown)", self.public.fingerprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_key_text_and_der_round_trip() {
        let key = Identity::from_seed([7; 32]).public();
        assert_eq!(key.to_string().parse(), Ok(key));
        assert_eq!(PublicKey::from_spki_der(&key.spki_der()), Some(key));
        assert_eq!(PublicKey::from_spki_der(&key.spki_der()[1..]), None);
        assert_eq!("x".parse::<PublicKey>(), Err(KeyError::Prefix));
        assert_eq!("aq1:00".parse::<PublicKey>(), Err(KeyError::Digits(2)));
        assert_eq!(format!("aq1:{}", "zz".repeat(32)).parse::<PublicKey>(), Err(KeyError::Digits(64)));
        assert_eq!(format!("aq1:{}é", "0".repeat(62)).parse::<PublicKey>(), Err(KeyError::Digits(64)));
    }

    #[test]
    fn rfc_8032_test_1_seed_gives_its_public_key() {
        let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        let seed: PublicKey = format!("aq1:{seed}").parse().unwrap();
        let public = "aq1:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        assert_eq!(Identity::from_seed(seed.0).public().to_string(), public);
    }

    #[test]
    fn derived_secrets_differ_by_purpose_and_key() {
        let (a, b) = (Identity::from_seed([1; 32]), Identity::from_seed([2; 32]));
        assert_ne!(a.derive("x"), a.derive("y"));
        assert_ne!(a.derive("x"), b.derive("x"));
        assert_eq!(a.derive("x"), Identity::from_pkcs8(a.pkcs8()).unwrap().derive("x"));
    }
}
