//! X25519 keys from Ed25519 identities, so that one pinned key serves both.

use curve25519_dalek::edwards::CompressedEdwardsY;
use ring::digest::{SHA512, digest};
use x25519_dalek::{PublicKey as X25519Public, StaticSecret};

use super::SecurityError;
use crate::identity::{Identity, PublicKey};

/// The secret X25519 key of an identity: the scalar that Ed25519 multiplies with, SHA-512 of the seed and clamped
/// (RFC 8032 §5.1.5, RFC 7748 §5).
pub(super) fn secret(identity: &Identity) -> Result<StaticSecret, SecurityError> {
    let pkcs8 = identity.pkcs8();
    let marker = pkcs8.windows(SEED_MARKER.len()).position(|window| window == SEED_MARKER);
    let marker = marker.ok_or(SecurityError::Secret)?;
    let seed = pkcs8[marker + SEED_MARKER.len()..].first_chunk::<32>().ok_or(SecurityError::Secret)?;
    let hash = digest(&SHA512, seed);
    let scalar = *hash.as_ref().first_chunk::<32>().ok_or(SecurityError::Secret)?;
    let secret = StaticSecret::from(scalar);
    if X25519Public::from(&secret) != public(&identity.public())? {
        return Err(SecurityError::Secret);
    }
    Ok(secret)
}

/// The public X25519 key of an Ed25519 one, by the birational map u = (1 + y) / (1 - y) (RFC 7748 §4.1).
pub(super) fn public(key: &PublicKey) -> Result<X25519Public, SecurityError> {
    let compressed = CompressedEdwardsY(key.0);
    let point = compressed.decompress().ok_or(SecurityError::Public)?;
    if point.is_small_order() || !point.is_torsion_free() || point.compress() != compressed {
        return Err(SecurityError::Public);
    }
    Ok(X25519Public::from(point.to_montgomery().to_bytes()))
}

/// Object identifier of Ed25519 and the two octet strings around the seed (RFC 8410 §7).
const SEED_MARKER: [u8; 9] = [0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_a_public_key_agree() {
        for seed in 0..20 {
            let identity = Identity::from_seed([seed; 32]);
            let secret = secret(&identity).unwrap();
            assert_eq!(X25519Public::from(&secret), public(&identity.public()).unwrap());
        }
    }

    #[test]
    fn keys_of_small_order_not_on_the_curve_or_not_canonical_are_refused() {
        // Neutral point, the point of order 2, two of order 4 and 8 (RFC 8032's curve), and a y of 2^255 - 1.
        let mut order_2 = [0xff; 32];
        order_2[0] = 0xec;
        order_2[31] = 0x7f;
        let mut neutral = [0; 32];
        neutral[0] = 1;
        let order_8 =
            "aq1:c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a".parse::<PublicKey>().unwrap();
        let mut not_a_point = [0; 32];
        not_a_point[0] = 2;
        for bytes in [neutral, order_2, [0; 32], order_8.0, [0xff; 32], not_a_point] {
            assert_eq!(public(&PublicKey(bytes)), Err(SecurityError::Public));
        }
    }
}
