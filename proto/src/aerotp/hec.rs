//! The header's error check: CRC-16 with polynomial 0x5935.
//!
//! At the 144 bits it covers, no pattern of four wrong bits or fewer, its own included, goes unseen. DNP's 0x3D65, which
//! is better on shorter words, misses some patterns of two there.

/// Generator polynomial without its leading term; most significant bit first, nothing reflected, nothing inverted.
const POLYNOMIAL: u16 = 0x5935;

/// What the register begins with, so that leading zeros count.
const INIT: u16 = 0xffff;

/// The check of `bytes`.
pub(super) fn hec(bytes: &[u8]) -> u16 {
    remainder(INIT, bytes)
}

/// The register after `bytes`, from `register`. From 0 it is linear: the check of a difference is the difference of checks.
pub(super) fn remainder(register: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(register, |crc, &byte| crc << 8 ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

static TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        table[i] = divide((i as u16) << 8, POLYNOMIAL);
        i += 1;
    }
    table
};

/// Eight steps of the division.
const fn divide(mut crc: u16, polynomial: u16) -> u16 {
    let mut bit = 0;
    while bit < 8 {
        crc = if crc & 0x8000 != 0 { crc << 1 ^ polynomial } else { crc << 1 };
        bit += 1;
    }
    crc
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasherDefault, DefaultHasher};

    use super::*;

    /// Header and check.
    const BITS: usize = 144 + 16;

    type Set = HashSet<u16, BuildHasherDefault<DefaultHasher>>;

    #[test]
    fn check_value_of_the_catalogue() {
        // CRC-16/M17 of "123456789".
        assert_eq!(hec(b"123456789"), 0x772b);
    }

    #[test]
    fn distance_is_5_at_the_length_of_the_header() {
        assert_eq!(least_weight(&syndromes(POLYNOMIAL)), 5);
    }

    #[test]
    fn dnp_has_distance_2_at_the_length_of_the_header() {
        assert_eq!(least_weight(&syndromes(0x3d65)), 2);
    }

    /// Remainders of the single wrong bits, the check's last one first.
    fn syndromes(polynomial: u16) -> Vec<u16> {
        let double = |&x: &u16| Some(if x & 0x8000 != 0 { x << 1 ^ polynomial } else { x << 1 });
        std::iter::successors(Some(1), double).take(BITS).collect()
    }

    /// Least number of wrong bits that cancel out, 5 standing for that or more. Up to two: a syndrome is zero or occurs
    /// twice. Three: the sum of two is a third. Four: two disjoint pairs have the same sum, and pairs that share a bit and
    /// have the same sum would have had a syndrome twice.
    fn least_weight(syndromes: &[u16]) -> u32 {
        let single: Set = syndromes.iter().copied().collect();
        if single.contains(&0) {
            return 1;
        }
        if single.len() < syndromes.len() {
            return 2;
        }
        let mut pairs = Vec::new();
        for (i, a) in syndromes.iter().enumerate() {
            pairs.extend(syndromes[..i].iter().map(|b| a ^ b));
        }
        if pairs.iter().any(|sum| single.contains(sum)) {
            return 3;
        }
        let sums: Set = pairs.iter().copied().collect();
        if sums.len() < pairs.len() { 4 } else { 5 }
    }
}
