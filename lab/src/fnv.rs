//! FNV-1a with 64 bits: the same number in every build, for hashes of logs and for luck that follows from names.

/// A hash as it grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fnv(u64);

impl Default for Fnv {
    /// Of nothing: FNV's offset basis.
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// With these bytes behind what was there.
    #[must_use]
    pub fn with(self, bytes: impl IntoIterator<Item = u8>) -> Self {
        Self(bytes.into_iter().fold(self.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
    }

    /// Adds numbers, byte by byte, the lowest first.
    pub fn add(&mut self, numbers: impl IntoIterator<Item = u64>) {
        *self = self.with(numbers.into_iter().flat_map(u64::to_le_bytes));
    }

    /// The hash.
    pub fn value(self) -> u64 {
        self.0
    }
}

/// The hash of a text.
pub fn of(text: &str) -> u64 {
    Fnv::default().with(text.bytes()).value()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the reference: draft-eastlake-fnv-17, appendix C.
    #[test]
    fn the_references_values() {
        assert_eq!(of(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(of("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(of("foobar"), 0x8594_4171_f739_67e8);
        let mut numbers = Fnv::default();
        numbers.add([u64::from_le_bytes(*b"foobarfo"), u64::from_le_bytes(*b"obarfoob")]);
        assert_eq!(numbers.value(), of("foobarfoobarfoob"));
    }
}
