//! The kernels for vectors, and all `unsafe` there is in this crate.
//!
//! Each instruction set gives a [`Vector`]: load, add, multiply by a constant. [`product`] is written once upon it and is
//! compiled for each set in a function that has its features enabled.
#![expect(unsafe_code, reason = "vector instructions and unaligned loads; each use says why it is sound")]

use super::mul;

/// A vector of bytes of the field.
///
/// # Safety
/// All of them need the instructions of their set. `load` and `store` need `WIDTH` bytes there that may be read or
/// written.
trait Vector {
    const WIDTH: usize;
    type Register: Copy;
    /// What of a register can be prepared for multiplications by several constants.
    type Split: Copy;
    /// What multiplies by one constant.
    type Table: Copy;

    unsafe fn load(from: *const u8) -> Self::Register;
    unsafe fn store(to: *mut u8, register: Self::Register);
    unsafe fn zero() -> Self::Register;
    unsafe fn add(a: Self::Register, b: Self::Register) -> Self::Register;
    unsafe fn and(a: Self::Register, b: Self::Register) -> Self::Register;
    unsafe fn split(a: Self::Register) -> Self::Split;
    unsafe fn table(c: u8) -> Self::Table;
    unsafe fn mul(a: Self::Split, table: Self::Table) -> Self::Register;
}

/// Rows of one tile: each register of a source is loaded and split once for so many.
const ROWS: usize = 4;

/// Zeros, then ones: a load from within masks the bytes that are done.
static MASK: [u8; 64] = {
    let mut mask = [0; 64];
    let mut n = 32;
    while n < 64 {
        mask[n] = 0xff;
        n += 1;
    }
    mask
};

/// `dst[i] += sum of coefficients[i * src.len() + j] * src[j]` over the first `len` bytes.
///
/// Column by column, so that a column of all sources stays in the nearest cache while the rows take it in turns.
///
/// # Safety
/// The instructions of `V` must be there. All of `dst` and `src` must have `len` bytes at least, and `coefficients`
/// `dst.len() * src.len()`.
#[inline(always)]
unsafe fn product<V: Vector>(dst: &mut [&mut [u8]], src: &[&[u8]], coefficients: &[u8], len: usize) {
    let mut at = 0;
    // SAFETY: each column ends at `len` at the latest; the rest is our caller's promise.
    unsafe {
        while at + 2 * V::WIDTH <= len {
            column::<V, 2>(dst, src, coefficients, at, None);
            at += 2 * V::WIDTH;
        }
        if at + V::WIDTH <= len {
            column::<V, 1>(dst, src, coefficients, at, None);
            at += V::WIDTH;
        }
        if at < len && len >= V::WIDTH {
            // The end of a column that begins in what is done: zeros are added there.
            let mask = V::load(MASK.as_ptr().add(32 - V::WIDTH + (len - at)));
            column::<V, 1>(dst, src, coefficients, len - V::WIDTH, Some(mask));
            at = len;
        }
    }
    if at < len {
        for (dst, row) in dst.iter_mut().zip(coefficients.chunks_exact(src.len().max(1))) {
            for (src, c) in src.iter().zip(row) {
                dst[at..len].iter_mut().zip(&src[at..len]).for_each(|(dst, src)| *dst ^= mul(*c, *src));
            }
        }
    }
}

/// All rows of the `N * WIDTH` bytes from `at`.
///
/// # Safety
/// As [`product`], and these bytes are within all slices.
#[inline(always)]
unsafe fn column<V: Vector, const N: usize>(
    dst: &mut [&mut [u8]],
    src: &[&[u8]],
    coefficients: &[u8],
    at: usize,
    mask: Option<V::Register>,
) {
    let mut row = 0;
    // SAFETY: rows `row..row + R` are within `dst`, the rest is our caller's promise.
    unsafe {
        while row + ROWS <= dst.len() {
            tile::<V, ROWS, N>(dst, src, coefficients, row, at, mask);
            row += ROWS;
        }
        if row + 2 <= dst.len() {
            tile::<V, 2, N>(dst, src, coefficients, row, at, mask);
            row += 2;
        }
        if row < dst.len() {
            tile::<V, 1, N>(dst, src, coefficients, row, at, mask);
        }
    }
}

/// `R` rows of `N` registers, summed over all sources without touching memory but for the sources.
///
/// # Safety
/// As [`column`], and `row + R <= dst.len()`.
#[inline(always)]
unsafe fn tile<V: Vector, const R: usize, const N: usize>(
    dst: &mut [&mut [u8]],
    src: &[&[u8]],
    coefficients: &[u8],
    row: usize,
    at: usize,
    mask: Option<V::Register>,
) {
    let k = src.len();
    debug_assert!(row + R <= dst.len() && coefficients.len() >= (row + R) * k);
    debug_assert!(dst.iter().all(|dst| at + N * V::WIDTH <= dst.len()));
    debug_assert!(src.iter().all(|src| at + N * V::WIDTH <= src.len()));
    // SAFETY: the bounds are those asserted above, which are our caller's promise, as are the instructions.
    unsafe {
        let mut sums = [[V::zero(); N]; R];
        for (r, sums) in sums.iter_mut().enumerate() {
            for (n, sum) in sums.iter_mut().enumerate() {
                *sum = V::load(dst.get_unchecked(row + r).as_ptr().add(at + n * V::WIDTH));
            }
        }
        let coefficients = coefficients.as_ptr().add(row * k);
        for (j, src) in src.iter().enumerate() {
            let mut values = [V::split(V::zero()); N];
            for (n, value) in values.iter_mut().enumerate() {
                let mut loaded = V::load(src.as_ptr().add(at + n * V::WIDTH));
                if let Some(mask) = mask {
                    loaded = V::and(loaded, mask);
                }
                *value = V::split(loaded);
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let table = V::table(*coefficients.add(r * k + j));
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum = V::add(*sum, V::mul(value, table));
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (n, sum) in sums.iter().enumerate() {
                V::store(dst.get_unchecked_mut(row + r).as_mut_ptr().add(at + n * V::WIDTH), *sum);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use std::arch::x86_64::*;

    use super::{Vector, product};
    use crate::gf256::tables::PRODUCTS;

    /// PSHUFB on 16 bytes.
    pub(in super::super) fn ssse3(dst: &mut [&mut [u8]], src: &[&[u8]], coefficients: &[u8], len: usize) {
        #[target_feature(enable = "ssse3")]
        fn enabled(dst: &mut [&mut [u8]], src: &[&[u8]], coefficients: &[u8], len: usize) {
            // SAFETY: SSSE3 is enabled here, and `super::check` saw the lengths.
            unsafe { product::<Ssse3>(dst, src, coefficients, len) }
        }
        super::check(dst, src, coefficients, len);
        assert!(is_x86_feature_detected!("ssse3"));
        // SAFETY: just detected.
        unsafe { enabled(dst, src, coefficients, len) }
    }

    /// PSHUFB on 32 bytes.
    pub(in super::super) fn avx2(dst: &mut [&mut [u8]], src: &[&[u8]], coefficients: &[u8], len: usize) {
        #[target_feature(enable = "avx2")]
        fn enabled(dst: &mut [&mut [u8]], src: &[&[u8]], coefficients: &[u8], len: usize) {
            // SAFETY: AVX2 is enabled here, and `super::check` saw the lengths.
            unsafe { product::<Avx2>(dst, src, coefficients, len) }
        }
        super::check(dst, src, coefficients, len);
        assert!(is_x86_feature_detected!("avx2"));
        // SAFETY: just detected.
        unsafe { enabled(dst, src, coefficients, len) }
    }

    /// GF2P8AFFINEQB on 32 bytes: multiplication by a constant is linear over bits, so it is a matrix, whatever the
    /// polynomial.
    pub(in super::super) fn gfni(dst: &mut [&mut [u8]], src: &[&[u8]], coefficients: &[u8], len: usize) {
        #[target_feature(enable = "gfni,avx2")]
        fn enabled(dst: &mut [&mut [u8]], src: &[&[u8]], coefficients: &[u8], len: usize) {
            // SAFETY: GFNI and AVX2 are enabled here, and `super::check` saw the lengths.
            unsafe { product::<Gfni>(dst, src, coefficients, len) }
        }
        super::check(dst, src, coefficients, len);
        assert!(is_x86_feature_detected!("gfni") && is_x86_feature_detected!("avx2"));
        // SAFETY: just detected.
        unsafe { enabled(dst, src, coefficients, len) }
    }

    struct Ssse3;

    impl Vector for Ssse3 {
        const WIDTH: usize = 16;
        type Register = __m128i;
        type Split = (__m128i, __m128i);
        type Table = (__m128i, __m128i);

        #[inline(always)]
        unsafe fn load(from: *const u8) -> __m128i {
            // SAFETY: an unaligned load of 16 bytes, which our caller says are there.
            unsafe { _mm_loadu_si128(from.cast()) }
        }

        #[inline(always)]
        unsafe fn store(to: *mut u8, register: __m128i) {
            // SAFETY: an unaligned store of 16 bytes, which our caller says are there.
            unsafe { _mm_storeu_si128(to.cast(), register) }
        }

        #[inline(always)]
        unsafe fn zero() -> __m128i {
            // SAFETY: registers only.
            unsafe { _mm_setzero_si128() }
        }

        #[inline(always)]
        unsafe fn add(a: __m128i, b: __m128i) -> __m128i {
            // SAFETY: registers only.
            unsafe { _mm_xor_si128(a, b) }
        }

        #[inline(always)]
        unsafe fn and(a: __m128i, b: __m128i) -> __m128i {
            // SAFETY: registers only.
            unsafe { _mm_and_si128(a, b) }
        }

        #[inline(always)]
        unsafe fn split(a: __m128i) -> Self::Split {
            // SAFETY: registers only.
            unsafe {
                let low = _mm_set1_epi8(0x0f);
                (_mm_and_si128(a, low), _mm_and_si128(_mm_srli_epi64::<4>(a), low))
            }
        }

        #[inline(always)]
        unsafe fn table(c: u8) -> Self::Table {
            let table = PRODUCTS[usize::from(c)].0.as_ptr();
            // SAFETY: two halves of 32 bytes.
            unsafe { (_mm_loadu_si128(table.cast()), _mm_loadu_si128(table.add(16).cast())) }
        }

        #[inline(always)]
        unsafe fn mul((low, high): Self::Split, (lows, highs): Self::Table) -> __m128i {
            // SAFETY: registers only; SSSE3 is our caller's promise.
            unsafe { _mm_xor_si128(_mm_shuffle_epi8(lows, low), _mm_shuffle_epi8(highs, high)) }
        }
    }

    struct Avx2;

    impl Vector for Avx2 {
        const WIDTH: usize = 32;
        type Register = __m256i;
        type Split = (__m256i, __m256i);
        type Table = (__m256i, __m256i);

        #[inline(always)]
        unsafe fn load(from: *const u8) -> __m256i {
            // SAFETY: an unaligned load of 32 bytes, which our caller says are there.
            unsafe { _mm256_loadu_si256(from.cast()) }
        }

        #[inline(always)]
        unsafe fn store(to: *mut u8, register: __m256i) {
            // SAFETY: an unaligned store of 32 bytes, which our caller says are there.
            unsafe { _mm256_storeu_si256(to.cast(), register) }
        }

        #[inline(always)]
        unsafe fn zero() -> __m256i {
            // SAFETY: registers only; AVX2 is our caller's promise, here and below.
            unsafe { _mm256_setzero_si256() }
        }

        #[inline(always)]
        unsafe fn add(a: __m256i, b: __m256i) -> __m256i {
            // SAFETY: registers only.
            unsafe { _mm256_xor_si256(a, b) }
        }

        #[inline(always)]
        unsafe fn and(a: __m256i, b: __m256i) -> __m256i {
            // SAFETY: registers only.
            unsafe { _mm256_and_si256(a, b) }
        }

        #[inline(always)]
        unsafe fn split(a: __m256i) -> Self::Split {
            // SAFETY: registers only.
            unsafe {
                let low = _mm256_set1_epi8(0x0f);
                (_mm256_and_si256(a, low), _mm256_and_si256(_mm256_srli_epi64::<4>(a), low))
            }
        }

        #[inline(always)]
        unsafe fn table(c: u8) -> Self::Table {
            // SAFETY: registers and the table's 32 bytes; shuffles stay within a half of a register, so each has all.
            unsafe {
                let [low, high] = {
                    let table = PRODUCTS[usize::from(c)].0.as_ptr();
                    [_mm_loadu_si128(table.cast()), _mm_loadu_si128(table.add(16).cast())]
                };
                (_mm256_broadcastsi128_si256(low), _mm256_broadcastsi128_si256(high))
            }
        }

        #[inline(always)]
        unsafe fn mul((low, high): Self::Split, (lows, highs): Self::Table) -> __m256i {
            // SAFETY: registers only.
            unsafe { _mm256_xor_si256(_mm256_shuffle_epi8(lows, low), _mm256_shuffle_epi8(highs, high)) }
        }
    }

    struct Gfni;

    impl Vector for Gfni {
        const WIDTH: usize = 32;
        type Register = __m256i;
        type Split = __m256i;
        type Table = __m256i;

        #[inline(always)]
        unsafe fn load(from: *const u8) -> __m256i {
            // SAFETY: our caller's promise is that of `Avx2`, and more.
            unsafe { Avx2::load(from) }
        }

        #[inline(always)]
        unsafe fn store(to: *mut u8, register: __m256i) {
            // SAFETY: as above.
            unsafe { Avx2::store(to, register) }
        }

        #[inline(always)]
        unsafe fn zero() -> __m256i {
            // SAFETY: as above.
            unsafe { Avx2::zero() }
        }

        #[inline(always)]
        unsafe fn add(a: __m256i, b: __m256i) -> __m256i {
            // SAFETY: as above.
            unsafe { Avx2::add(a, b) }
        }

        #[inline(always)]
        unsafe fn and(a: __m256i, b: __m256i) -> __m256i {
            // SAFETY: as above.
            unsafe { Avx2::and(a, b) }
        }

        #[inline(always)]
        unsafe fn split(a: __m256i) -> __m256i {
            a
        }

        #[inline(always)]
        unsafe fn table(c: u8) -> __m256i {
            // SAFETY: registers only.
            unsafe { _mm256_set1_epi64x(MATRICES[usize::from(c)]) }
        }

        #[inline(always)]
        unsafe fn mul(a: __m256i, matrix: __m256i) -> __m256i {
            // SAFETY: registers only; GFNI is our caller's promise.
            unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(a, matrix) }
        }
    }

    /// `MATRICES[c]` multiplies by c: byte 7 - i holds the bits of a factor whose parity is bit i of the product.
    static MATRICES: [i64; 256] = {
        let mut matrices = [0; 256];
        let mut c = 0;
        while c < 256 {
            let mut matrix = 0u64;
            let mut bit = 0;
            while bit < 8 {
                // The column of this bit of the factor.
                let product = super::super::tables::product(c as u8, 1 << bit) as u64;
                let mut i = 0;
                while i < 8 {
                    matrix |= (product >> i & 1) << (8 * (7 - i) + bit);
                    i += 1;
                }
                bit += 1;
            }
            matrices[c] = matrix as i64;
            c += 1;
        }
        matrices
    };
}

#[cfg(target_arch = "aarch64")]
pub(super) mod arm {
    use std::arch::aarch64::*;

    use super::{Vector, product};
    use crate::gf256::tables::PRODUCTS;

    /// TBL on 16 bytes. Every processor of this architecture that Rust's targets name has it.
    pub(in super::super) fn neon(dst: &mut [&mut [u8]], src: &[&[u8]], coefficients: &[u8], len: usize) {
        #[target_feature(enable = "neon")]
        fn enabled(dst: &mut [&mut [u8]], src: &[&[u8]], coefficients: &[u8], len: usize) {
            // SAFETY: NEON is enabled here, and `super::check` saw the lengths.
            unsafe { product::<Neon>(dst, src, coefficients, len) }
        }
        super::check(dst, src, coefficients, len);
        assert!(std::arch::is_aarch64_feature_detected!("neon"));
        // SAFETY: just detected.
        unsafe { enabled(dst, src, coefficients, len) }
    }

    struct Neon;

    impl Vector for Neon {
        const WIDTH: usize = 16;
        type Register = uint8x16_t;
        type Split = (uint8x16_t, uint8x16_t);
        type Table = (uint8x16_t, uint8x16_t);

        #[inline(always)]
        unsafe fn load(from: *const u8) -> uint8x16_t {
            // SAFETY: 16 bytes, which our caller says are there.
            unsafe { vld1q_u8(from) }
        }

        #[inline(always)]
        unsafe fn store(to: *mut u8, register: uint8x16_t) {
            // SAFETY: 16 bytes, which our caller says are there.
            unsafe { vst1q_u8(to, register) }
        }

        #[inline(always)]
        unsafe fn zero() -> uint8x16_t {
            // SAFETY: registers only; NEON is our caller's promise, here and below.
            unsafe { vdupq_n_u8(0) }
        }

        #[inline(always)]
        unsafe fn add(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
            // SAFETY: registers only.
            unsafe { veorq_u8(a, b) }
        }

        #[inline(always)]
        unsafe fn and(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
            // SAFETY: registers only.
            unsafe { vandq_u8(a, b) }
        }

        #[inline(always)]
        unsafe fn split(a: uint8x16_t) -> Self::Split {
            // SAFETY: registers only.
            unsafe { (vandq_u8(a, vdupq_n_u8(0x0f)), vshrq_n_u8::<4>(a)) }
        }

        #[inline(always)]
        unsafe fn table(c: u8) -> Self::Table {
            let table = PRODUCTS[usize::from(c)].0.as_ptr();
            // SAFETY: two halves of 32 bytes.
            unsafe { (vld1q_u8(table), vld1q_u8(table.add(16))) }
        }

        #[inline(always)]
        unsafe fn mul((low, high): Self::Split, (lows, highs): Self::Table) -> uint8x16_t {
            // SAFETY: registers only.
            unsafe { veorq_u8(vqtbl1q_u8(lows, low), vqtbl1q_u8(highs, high)) }
        }
    }
}

/// What the kernels rely on.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn check(dst: &[&mut [u8]], src: &[&[u8]], coefficients: &[u8], len: usize) {
    assert!(dst.iter().all(|dst| dst.len() >= len) && src.iter().all(|src| src.len() >= len));
    assert!(coefficients.len() == dst.len() * src.len());
}
