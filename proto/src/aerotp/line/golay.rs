//! The extended Golay code (24, 12): 12 bits in three bytes, of which any three may be wrong.

/// Data bits above, check bits of the cyclic code (23, 12) below, and a parity bit over all at the end.
pub(super) fn encode(data: u16) -> [u8; 3] {
    let data = u32::from(data & 0xfff);
    let word = data << 11 | remainder(data << 11);
    let [_, a, b, c] = (word << 1 | word.count_ones() & 1).to_be_bytes();
    [a, b, c]
}

/// The 12 bits, if at most three of the 24 are wrong. Four wrong ones are always seen; of words at random 43 % are refused.
pub(super) fn decode(bytes: [u8; 3]) -> Option<u16> {
    let [a, b, c] = bytes;
    let received = u32::from_be_bytes([0, a, b, c]);
    let word = received >> 1;
    // The code (23, 12) is perfect: each remainder belongs to one pattern of up to three wrong bits.
    let wrong = PATTERNS[remainder(word) as usize];
    let corrected = word ^ wrong;
    let parity_wrong = (corrected.count_ones() ^ received) & 1;
    (wrong.count_ones() + parity_wrong <= 3).then_some((corrected >> 11) as u16)
}

/// Generator x^11 + x^10 + x^6 + x^5 + x^4 + x^2 + 1.
const GENERATOR: u32 = 0xc75;

const fn remainder(mut word: u32) -> u32 {
    let mut bit = 22;
    while bit >= 11 {
        if word >> bit & 1 == 1 {
            word ^= GENERATOR << (bit - 11);
        }
        bit -= 1;
    }
    word
}

/// Wrong bits by the remainder they leave.
static PATTERNS: [u32; 2048] = {
    let mut single = [0; 23];
    let mut i = 0;
    while i < 23 {
        single[i] = remainder(1 << i);
        i += 1;
    }
    let mut patterns = [0; 2048];
    let mut a = 0;
    while a < 23 {
        patterns[single[a] as usize] = 1 << a;
        let mut b = 0;
        while b < a {
            patterns[(single[a] ^ single[b]) as usize] = 1 << a | 1 << b;
            let mut c = 0;
            while c < b {
                patterns[(single[a] ^ single[b] ^ single[c]) as usize] = 1 << a | 1 << b | 1 << c;
                c += 1;
            }
            b += 1;
        }
        a += 1;
    }
    patterns
};

#[cfg(test)]
mod tests {
    use super::*;

    fn word(bytes: [u8; 3]) -> u32 {
        u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]])
    }

    fn bytes(word: u32) -> [u8; 3] {
        let [_, a, b, c] = word.to_be_bytes();
        [a, b, c]
    }

    #[test]
    fn any_three_wrong_bits_are_mended_and_four_are_seen() {
        for data in [0, 1, 0x5a5, 0xfff, 0x800] {
            let sent = word(encode(data));
            for a in 0..24 {
                for b in 0..=a {
                    for c in 0..=b {
                        let wrong = 1 << a | 1 << b | 1 << c;
                        assert_eq!(decode(bytes(sent ^ wrong)), Some(data), "{wrong:#x}");
                        for d in 0..c {
                            if a > b && b > c {
                                assert_eq!(decode(bytes(sent ^ wrong ^ 1 << d)), None);
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn all_lengths_come_back_and_differ_in_8_bits_at_least() {
        let words: Vec<u32> = (0..4096).map(|data| word(encode(data))).collect();
        assert!((0..4096).all(|data| decode(encode(data)) == Some(data)));
        // The code is linear, so its distance is its least weight.
        assert_eq!(words[1..].iter().map(|word| word.count_ones()).min(), Some(8));
    }
}
