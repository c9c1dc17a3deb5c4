//! The kernel that runs everywhere: no tables, words of 64 bits, which the compiler turns into whatever vectors there
//! are.
//!
//! A coefficient is a sum of powers of two, so a sum of products is eight sums of whole sources, one for each bit of the
//! coefficients, put together as Horner puts a polynomial together: double, add the sources whose coefficient has the
//! next bit. Four additions a source on average, and the eight doublings are shared by all sources.

use super::mul;

/// Bytes that are worked on at a time: eight words, four registers of 128 bits.
const BLOCK: usize = 64;
type Block = [u64; BLOCK / 8];

/// `dst[i] += sum of coefficients[i * src.len() + j] * src[j]` over the first `len` bytes, which all slices have.
pub(super) fn product(dst: &mut [&mut [u8]], src: &[&[u8]], coefficients: &[u8], len: usize) {
    if src.is_empty() {
        return;
    }
    for (dst, row) in dst.iter_mut().zip(coefficients.chunks_exact(src.len())) {
        for (src, row) in src.chunks(64).zip(row.chunks(64)) {
            sum(&mut dst[..len], src, row);
        }
    }
}

/// One row, of at most 64 sources.
fn sum(dst: &mut [u8], src: &[&[u8]], row: &[u8]) {
    let len = dst.len();
    if len < BLOCK {
        for (src, c) in src.iter().zip(row) {
            dst.iter_mut().zip(*src).for_each(|(dst, src)| *dst ^= mul(*c, *src));
        }
        return;
    }
    let planes = planes(row);
    let mut at = 0;
    while at + BLOCK <= len {
        let sum = block(src, &planes, at);
        for (dst, sum) in dst[at..at + BLOCK].as_chunks_mut::<8>().0.iter_mut().zip(sum) {
            *dst = (u64::from_ne_bytes(*dst) ^ sum).to_ne_bytes();
        }
        at += BLOCK;
    }
    // What is left is the end of one more block, which begins in what is done.
    if at < len {
        let sum = block(src, &planes, len - BLOCK);
        let sum = sum.iter().flat_map(|word| word.to_ne_bytes()).skip(BLOCK - (len - at));
        dst[at..].iter_mut().zip(sum).for_each(|(dst, sum)| *dst ^= sum);
    }
}

/// For each bit, which of the coefficients have it.
fn planes(row: &[u8]) -> [u64; 8] {
    let mut planes = [0; 8];
    for (j, c) in row.iter().enumerate() {
        for (bit, plane) in planes.iter_mut().enumerate() {
            *plane |= u64::from(c >> bit & 1) << j;
        }
    }
    planes
}

#[inline]
fn block(src: &[&[u8]], planes: &[u64; 8], at: usize) -> Block {
    let mut sum = [0; BLOCK / 8];
    for plane in planes.iter().rev() {
        sum = sum.map(double);
        let mut left = *plane;
        while left != 0 {
            let bytes = &src[left.trailing_zeros() as usize][at..at + BLOCK];
            for (sum, bytes) in sum.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *sum ^= u64::from_ne_bytes(*bytes);
            }
            left &= left - 1;
        }
    }
    sum
}

/// Eight bytes, each times α.
#[inline]
fn double(word: u64) -> u64 {
    let high = word & 0x8080_8080_8080_8080;
    // 0x7f in each byte that had its highest bit set; 0x1d is what x^8 is in this field.
    (word ^ high) << 1 ^ (high - (high >> 7)) & 0x1d1d_1d1d_1d1d_1d1d
}
