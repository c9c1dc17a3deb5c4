//! Bit errors: flips bits in what is delivered.
//!
//! Each bit of a packet on the wire is flipped with the same probability, independently of all others. The distance
//! from one flipped bit to the next is drawn from the geometric distribution, so the work is per error and not per bit.
//! Which bits of packet *n* are flipped is a function of the seed and of *n*; since the distribution has no memory,
//! each packet begins anew.
//!
//! The payload's bytes are the last ones of the packet on the wire. What hits the headers in front of it, if the user
//! does not carry them, is counted and told. The first `spared_bytes` on the wire are never hit: what a radio protects
//! better, or, to keep the kernel from throwing damaged packets away, the IP and UDP headers.

use crate::luck::{Luck, Purpose, Threshold, Words};

/// Bit errors of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BitErrors {
    /// The probability that a bit is flipped, 0 to 1 (clamped; not-a-number is 0).
    pub rate: f64,
    /// Bytes at the beginning of each packet on the wire that are never hit.
    pub spared_bytes: usize,
}

/// Bits flipped in one packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flips {
    pub(crate) payload: u32,
    pub(crate) headers: u32,
}

/// The cell.
#[derive(Debug)]
pub(crate) struct BitErrorCell {
    config: BitErrors,
    gap: Option<Geometric>,
    luck: Luck,
}

impl BitErrorCell {
    pub(crate) fn new(config: BitErrors, seed: u64) -> Self {
        Self { config, gap: Geometric::new(config.rate), luck: Luck::new(seed, Purpose::BitErrors) }
    }

    /// One whose luck is another than a path's.
    pub(crate) fn for_purpose(config: BitErrors, seed: u64, purpose: Purpose) -> Self {
        Self { luck: Luck::new(seed, purpose), ..Self::new(config, seed) }
    }

    pub(crate) fn set(&mut self, config: BitErrors) {
        self.config = config;
        self.gap = Geometric::new(config.rate);
    }

    /// Flips bits of packet `n`, of which `wire_bytes` are on the wire and the last ones are `payload`.
    pub(crate) fn hit(&mut self, n: u64, wire_bytes: usize, payload: &mut [u8]) -> Flips {
        let mut flips = Flips::default();
        let Some(gap) = &self.gap else { return flips };
        let bits = wire_bytes.saturating_sub(self.config.spared_bytes) as u64 * 8;
        // Bits on the wire in front of the payload; none if it is larger than it says.
        let headers = (wire_bytes.saturating_sub(payload.len())) as u64 * 8;
        let mut words = self.luck.words(n);
        let mut at = 0;
        while let Some(skipped) = gap.draw(&mut words, bits - at) {
            at += skipped;
            let on_wire = at + self.config.spared_bytes as u64 * 8;
            let byte = on_wire.checked_sub(headers).and_then(|bit| payload.get_mut((bit / 8) as usize));
            match byte {
                Some(byte) => {
                    // The most significant bit is sent first.
                    *byte ^= 0x80 >> (on_wire % 8);
                    flips.payload += 1;
                }
                None => flips.headers += 1,
            }
            at += 1;
        }
        flips
    }
}

/// How many bits stay whole before one is flipped.
///
/// The binary digits of such a number are independent of each other: digit *k* is 1 with the probability q / (1 + q),
/// where q = (1 − p)^(2^k). (The number's distribution (1 − p)^n p is a product over its digits.) So it is drawn digit
/// by digit, by comparing integers, without a logarithm, whose last bit differs between platforms.
#[derive(Debug)]
struct Geometric {
    /// For each digit, from the lowest. Above the last one the digits are always 0: below 2⁻⁶⁴.
    digits: Vec<Threshold>,
}

impl Geometric {
    /// `None` if no bit is ever flipped.
    fn new(rate: f64) -> Option<Self> {
        if rate.is_nan() || rate <= 0.0 {
            return None;
        }
        let mut whole = 1.0 - rate.min(1.0);
        let mut digits = Vec::new();
        while digits.len() < 62 && whole > 5e-20 {
            digits.push(Threshold::new(whole / (1.0 + whole)));
            whole *= whole;
        }
        Some(Self { digits })
    }

    /// A draw, if it is below `limit`.
    fn draw(&self, words: &mut Words, limit: u64) -> Option<u64> {
        let mut gap = 0;
        // From the top: most packets are not hit at all, and that is known after a few digits.
        for (digit, threshold) in self.digits.iter().enumerate().rev() {
            if threshold.hits(words.next()) {
                gap |= 1 << digit;
                if gap >= limit {
                    return None;
                }
            }
        }
        (gap < limit).then_some(gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(rate: f64) -> BitErrorCell {
        BitErrorCell::new(BitErrors { rate, spared_bytes: 0 }, 9)
    }

    #[test]
    fn none_and_all() {
        let mut bytes = [0u8; 100];
        assert_eq!(cell(0.0).hit(0, 100, &mut bytes), Flips::default());
        assert_eq!(cell(f64::NAN).hit(0, 100, &mut bytes), Flips::default());
        assert_eq!(bytes, [0; 100]);
        assert_eq!(cell(1.0).hit(0, 100, &mut bytes).payload, 800);
        assert_eq!(bytes, [0xff; 100]);
    }

    #[test]
    fn as_many_bits_are_flipped_as_are_counted() {
        for rate in [1e-4, 0.01, 0.3] {
            let mut cell = cell(rate);
            let (mut counted, mut found) = (0, 0);
            for n in 0..2_000 {
                let mut bytes = [0u8; 250];
                counted += cell.hit(n, 250, &mut bytes).payload;
                found += bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
            }
            assert_eq!(counted, found);
            // Four million bits.
            let expected = 4e6 * rate;
            assert!((f64::from(found) - expected).abs() < 5.0 * expected.sqrt(), "{found} at {rate}");
        }
    }

    #[test]
    fn gaps_have_the_mean_and_the_spread_of_the_geometric_distribution() {
        let gap = Geometric::new(0.01).unwrap();
        let mut words = Words(3);
        let draws: Vec<f64> = (0..50_000).map(|_| gap.draw(&mut words, u64::MAX).unwrap() as f64).collect();
        let mean = draws.iter().sum::<f64>() / 5e4;
        let deviation = (draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 5e4).sqrt();
        // (1 − p) / p = 99, √(1 − p) / p = 99.5.
        assert!((mean - 99.0).abs() < 2.0, "{mean}");
        assert!((deviation - 99.5).abs() < 3.0, "{deviation}");
    }

    #[test]
    fn all_places_are_hit_alike() {
        let mut cell = cell(0.02);
        let mut hits = [0u32; 32];
        for n in 0..20_000 {
            let mut bytes = [0u8; 4];
            cell.hit(n, 4, &mut bytes);
            for (bit, hits) in hits.iter_mut().enumerate() {
                *hits += u32::from(bytes[bit / 8] >> (7 - bit % 8) & 1);
            }
        }
        assert!(hits.iter().all(|hits| (300..500).contains(hits)), "{hits:?}, 400 each expected");
    }

    #[test]
    fn headers_are_in_front_and_spared_bytes_are_spared() {
        let mut all = BitErrorCell::new(BitErrors { rate: 1.0, spared_bytes: 0 }, 1);
        let mut payload = [0u8; 10];
        assert_eq!(all.hit(0, 38, &mut payload), Flips { payload: 80, headers: 28 * 8 });
        let mut all = BitErrorCell::new(BitErrors { rate: 1.0, spared_bytes: 30 }, 1);
        let mut payload = [0u8; 10];
        assert_eq!(all.hit(0, 38, &mut payload), Flips { payload: 64, headers: 0 });
        assert_eq!(payload, [0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
        // Models without bytes; packets smaller than what is spared.
        assert_eq!(all.hit(0, 31, &mut []), Flips { payload: 0, headers: 8 });
        assert_eq!(all.hit(0, 20, &mut []), Flips::default());
    }

    #[test]
    fn a_packets_errors_depend_on_its_number_only() {
        let (mut one, mut other) = (cell(0.01), cell(0.01));
        let (mut first, mut second) = ([0u8; 100], [0u8; 100]);
        (0..7).for_each(|n| _ = one.hit(n, 1_000, &mut []));
        one.hit(7, 100, &mut first);
        other.hit(7, 100, &mut second);
        assert_eq!(first, second);
    }
}
