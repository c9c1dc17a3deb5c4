//! What a bit does to a CRC-32C.

/// The polynomial of Castagnoli (RFC 3720 §12.1), bits reflected: the highest bit is the coefficient of x^0.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// x^(2^n) modulo the polynomial.
static SQUARES: [u32; 64] = {
    let mut squares = [1 << 30; 64];
    let mut n = 1;
    while n < 64 {
        squares[n] = product(squares[n - 1], squares[n - 1]);
        n += 1;
    }
    squares
};

/// What flipping a bit, 0 the lowest, of the byte that has so many behind it changes in the CRC.
pub(super) fn effect(behind: usize, bit: u8) -> u32 {
    // The lowest bit of a byte has the highest power; a CRC is the remainder of the message times x^32.
    let power = 8 * behind as u64 + 7 - u64::from(bit) + 32;
    let squares = (0..64).filter(|n| power >> n & 1 != 0).map(|n| SQUARES[n]);
    squares.fold(1 << 31, product)
}

/// Modulo the polynomial.
const fn product(a: u32, b: u32) -> u32 {
    let (mut a, mut b, mut sum) = (a, b, 0);
    while a != 0 {
        if a & 1 << 31 != 0 {
            sum ^= b;
        }
        a <<= 1;
        b = if b & 1 != 0 { b >> 1 ^ POLYNOMIAL } else { b >> 1 };
    }
    sum
}
