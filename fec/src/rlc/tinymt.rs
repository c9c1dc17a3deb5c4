//! Coefficients of repairs.

const MAT1: u32 = 0x8f70_11ee;
const MAT2: u32 = 0xfc78_ff1f;
const TMAT: u32 = 0x3793_fdff;

/// The generator TinyMT32 with the parameters and as RFC 8682 §2.1 has it.
#[derive(Clone, Debug)]
pub struct TinyMt32([u32; 4]);

impl TinyMt32 {
    /// From a seed.
    pub fn new(seed: u32) -> Self {
        let mut state = [seed, MAT1, MAT2, TMAT];
        for n in 1..8 {
            let last = state[(n - 1) & 3];
            state[n & 3] ^= (n as u32).wrapping_add((last ^ last >> 30).wrapping_mul(1_812_433_253));
        }
        let mut generator = Self(state);
        (0..8).for_each(|_| generator.step());
        generator
    }

    /// The next number.
    pub fn next_u32(&mut self) -> u32 {
        self.step();
        let [a, _, c, d] = self.0;
        let sum = a.wrapping_add(c >> 8);
        d ^ sum ^ (sum & 1).wrapping_neg() & TMAT
    }

    fn step(&mut self) {
        let [a, b, c, d] = self.0;
        let x = a & 0x7fff_ffff ^ b ^ c;
        let x = x ^ x << 1;
        let y = d ^ d >> 1 ^ x;
        let odd = (y & 1).wrapping_neg();
        self.0 = [b, c ^ odd & MAT1, x ^ y << 10 ^ odd & MAT2, y];
    }
}

/// The coefficients of a repair, of the oldest packet first. None is 0, and there is no end of them.
#[derive(Clone, Debug)]
pub struct Coefficients(TinyMt32);

impl Coefficients {
    /// Those of this key.
    pub fn new(key: u16) -> Self {
        Self(TinyMt32::new(u32::from(key)))
    }
}

impl Iterator for Coefficients {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        loop {
            let coefficient = self.0.next_u32() as u8;
            if coefficient != 0 {
                return Some(coefficient);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_rfc() {
        // RFC 8682 §2.3, the first two lines of figure 2.
        let wanted = [2_545_341_989, 981_918_433, 3_715_302_833, 2_387_538_352, 3_591_001_365];
        let then = [3_820_442_102, 2_114_400_566, 2_196_103_051, 2_783_359_912, 764_534_509];
        let mut generator = TinyMt32::new(1);
        for wanted in wanted.into_iter().chain(then) {
            assert_eq!(generator.next_u32(), wanted);
        }
    }

    /// What another implementation gives, written from the description in another language.
    #[test]
    fn coefficients_on_the_wire() {
        for (key, wanted) in [(0, [39, 42, 153, 208]), (1, [37, 225, 177, 176]), (65_535, [52, 199, 76, 244])] {
            assert!(Coefficients::new(key).take(4).eq(wanted), "key {key}");
        }
    }

    #[test]
    fn coefficients_are_never_zero_and_otherwise_even() {
        let mut counts = [0u32; 256];
        for key in 0..2000 {
            Coefficients::new(key).take(64).for_each(|c| counts[usize::from(c)] += 1);
        }
        // 502 each, give or take 22.
        assert_eq!(counts[0], 0);
        assert!(counts[1..].iter().all(|count| (390..620).contains(count)), "{counts:?}");
    }
}
