//! Arithmetic in GF(2^8) with the polynomial 0x11D, and its kernels on slices.
//!
//! Addition is exclusive or. [`Kernel`] multiplies slices by constants and sums them, with the vector instructions that
//! the processor has; all kernels give the same bytes.

mod portable;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod simd;
mod tables;
#[cfg(test)]
mod tests;

use std::fmt;

pub(crate) use tables::{EXP, LOG, POWERS, PRODUCTS};

/// The product of two elements.
#[inline]
pub fn mul(a: u8, b: u8) -> u8 {
    let products = &PRODUCTS[usize::from(a)].0;
    products[usize::from(b & 0x0f)] ^ products[16 + usize::from(b >> 4)]
}

/// The inverse of an element, and 0 for 0, which has none.
#[inline]
pub fn inverse(a: u8) -> u8 {
    if a == 0 { 0 } else { EXP[255 - usize::from(LOG[usize::from(a)])] }
}

/// α^n.
#[inline]
pub fn exp(n: u8) -> u8 {
    EXP[usize::from(n)]
}

/// Which instructions a kernel uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instructions {
    /// None but those of 64-bit words, and what the compiler makes of them.
    Portable,
    /// x86-64: PSHUFB, 16 bytes at a time.
    Ssse3,
    /// x86-64: PSHUFB, 32 bytes at a time.
    Avx2,
    /// x86-64: GF2P8AFFINEQB, 32 bytes at a time.
    Gfni,
    /// aarch64: TBL, 16 bytes at a time.
    Neon,
}

impl Instructions {
    /// All, the best last.
    pub const ALL: [Self; 5] = [Self::Portable, Self::Ssse3, Self::Avx2, Self::Gfni, Self::Neon];

    /// Whether this processor has them.
    pub fn detected(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Ssse3 => is_x86_feature_detected!("ssse3"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::Gfni => is_x86_feature_detected!("gfni") && is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            _ => false,
        }
    }
}

impl fmt::Display for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Portable => "portable",
            Self::Ssse3 => "SSSE3",
            Self::Avx2 => "AVX2",
            Self::Gfni => "GFNI",
            Self::Neon => "NEON",
        })
    }
}

/// Multiplies slices, with instructions that this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel(Instructions);

impl Default for Kernel {
    /// The best that there is here.
    fn default() -> Self {
        Self::best()
    }
}

impl Kernel {
    /// The best that there is here. It costs a few loads: what was detected is kept.
    pub fn best() -> Self {
        Self(Instructions::ALL.into_iter().rev().find(|set| set.detected()).unwrap_or(Instructions::Portable))
    }

    /// The one of these instructions, or `None` if this processor does not have them. For tests and benchmarks.
    pub fn of(instructions: Instructions) -> Option<Self> {
        instructions.detected().then_some(Self(instructions))
    }

    /// All that there are here.
    pub fn all() -> impl Iterator<Item = Self> {
        Instructions::ALL.into_iter().filter_map(Self::of)
    }

    /// What it uses.
    pub fn instructions(self) -> Instructions {
        self.0
    }

    /// `dst += src`, as far as the shorter one goes.
    pub fn add(self, dst: &mut [u8], src: &[u8]) {
        dst.iter_mut().zip(src).for_each(|(dst, src)| *dst ^= src);
    }

    /// `dst += c * src`, as far as the shorter one goes.
    pub fn mul_add(self, dst: &mut [u8], src: &[u8], c: u8) {
        let len = dst.len().min(src.len());
        match c {
            0 => {}
            1 => self.add(dst, src),
            _ => self.run(&mut [dst], &[src], &[c], len),
        }
    }

    /// `dst *= c`.
    pub fn mul(self, dst: &mut [u8], c: u8) {
        // dst * (c + 1) added to dst, piece by piece, since a slice cannot be its own source.
        if c == 0 {
            dst.fill(0);
        } else if c != 1 {
            let mut copy = [0; 256];
            for dst in dst.chunks_mut(copy.len()) {
                let copy = &mut copy[..dst.len()];
                copy.copy_from_slice(dst);
                self.mul_add(dst, copy, c ^ 1);
            }
        }
    }

    /// Adds a product of matrices: `dst[i] += sum of coefficients[i * src.len() + j] * src[j]`.
    ///
    /// Many destinations from one pass over the sources, or many sources into one destination; both at once use caches
    /// and load ports best. A source that is shorter than a destination counts as followed by zeros; what a source has
    /// beyond a destination is ignored. `coefficients` that are missing count as zeros.
    pub fn product(self, dst: &mut [&mut [u8]], src: &[&[u8]], coefficients: &[u8]) {
        if coefficients.len() < dst.len() * src.len() {
            let mut all = coefficients.to_vec();
            all.resize(dst.len() * src.len(), 0);
            return self.product(dst, src, &all);
        }
        let coefficients = &coefficients[..dst.len() * src.len()];
        let longest_dst = dst.iter().map(|dst| dst.len()).max().unwrap_or(0);
        let shortest = dst.iter().map(|dst| dst.len()).chain(src.iter().map(|src| src.len())).min();
        let Some(common) = shortest else { return };
        self.run(dst, src, coefficients, common);
        if longest_dst == common || src.is_empty() {
            return;
        }
        for (dst, row) in dst.iter_mut().zip(coefficients.chunks_exact(src.len())) {
            for (src, c) in src.iter().zip(row) {
                if src.len() > common && dst.len() > common {
                    self.mul_add(&mut dst[common..], &src[common..], *c);
                }
            }
        }
    }

    /// All slices have `len` bytes at least, and there are as many coefficients as pairs.
    fn run(self, dst: &mut [&mut [u8]], src: &[&[u8]], coefficients: &[u8], len: usize) {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Instructions::Ssse3 => simd::x86::ssse3(dst, src, coefficients, len),
            // Half a register is better than none.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 | Instructions::Gfni if len < 32 => simd::x86::ssse3(dst, src, coefficients, len),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => simd::x86::avx2(dst, src, coefficients, len),
            #[cfg(target_arch = "x86_64")]
            Instructions::Gfni => simd::x86::gfni(dst, src, coefficients, len),
            #[cfg(target_arch = "aarch64")]
            Instructions::Neon => simd::arm::neon(dst, src, coefficients, len),
            _ => portable::product(dst, src, coefficients, len),
        }
    }
}
