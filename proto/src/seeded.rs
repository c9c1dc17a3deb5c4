//! Deterministic bytes from a seed: HMAC-SHA-256 in counter mode (NIST SP 800-108).
//!
//! Everything random in `proto` comes from here, so that a simulation repeats and a deployment is as random as its seed.

use ring::hmac;

/// An endless stream of bytes that only the holder of the seed can predict.
#[derive(Clone)]
pub struct SeededBytes {
    key: hmac::Key,
    counter: u64,
}

impl SeededBytes {
    /// A stream for one `purpose`; streams of different purposes are independent.
    pub fn new(seed: &[u8; 32], purpose: &str) -> Self {
        let root = hmac::Key::new(hmac::HMAC_SHA256, seed);
        let derived = hmac::sign(&root, purpose.as_bytes());
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref()), counter: 0 }
    }

    /// Fills `out` with the next bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(32) {
            let block = hmac::sign(&self.key, &self.counter.to_be_bytes());
            self.counter += 1;
            chunk.copy_from_slice(&block.as_ref()[..chunk.len()]);
        }
    }

    /// The next 32 bytes.
    pub fn next_seed(&mut self) -> [u8; 32] {
        let mut out = [0; 32];
        self.fill(&mut out);
        out
    }
}

impl std::fmt::Debug for SeededBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SeededBytes(block {})", self.counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_bytes_and_purposes_differ() {
        let take = |seed: u8, purpose: &str| {
            let mut stream = SeededBytes::new(&[seed; 32], purpose);
            let mut bytes = [0; 75];
            stream.fill(&mut bytes);
            bytes
        };
        assert_eq!(take(1, "a"), take(1, "a"));
        assert_ne!(take(1, "a"), take(1, "b"));
        assert_ne!(take(1, "a"), take(2, "a"));
    }
}
