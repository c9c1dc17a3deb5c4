//! Remainders of codewords by the generator: parity when encoding, what is wrong when decoding.

use std::sync::OnceLock;

use crate::gf256::{exp, mul};

/// Codewords that are divided side by side: a step waits for a lookup that depends on the last one, and four of them
/// together wait once.
pub(super) const LANES: usize = 4;

/// Of each lane the remainder, the symbol of the highest power first.
pub(super) type Remainders = [[u8; 256]; LANES];

/// The code with a number of parity symbols.
pub(super) struct Code {
    parity: usize,
    /// For each feedback symbol the multiple of the generator less its leading term, as words of which the last has the
    /// highest powers, in its highest bits. Powers below 0 pad it to 1, 2, 4, ..., 32 words.
    table: Box<[u64]>,
}

impl Code {
    /// The code with an even number of parity symbols below 256.
    pub fn of(parity: usize) -> &'static Self {
        static CODES: [OnceLock<Code>; 128] = [const { OnceLock::new() }; 128];
        CODES[parity / 2].get_or_init(|| Self::new(parity & !1))
    }

    fn new(parity: usize) -> Self {
        let words = parity.div_ceil(8).next_power_of_two();
        let generator = generator(parity);
        let mut table = vec![0; 256 * words].into_boxed_slice();
        for (feedback, row) in table.chunks_exact_mut(words).enumerate() {
            for (power, g) in generator[..parity].iter().enumerate() {
                let byte = 8 * words - parity + power;
                row[byte / 8] |= u64::from(mul(feedback as u8, *g)) << (8 * (byte % 8));
            }
        }
        Self { parity, table }
    }

    /// Symbols of parity.
    pub fn parity(&self) -> usize {
        self.parity
    }

    /// The remainders of `lanes` codewords from `first` on, at most [`LANES`], of `depth` that `data` is dealt out to:
    /// of their data times x^parity by the generator.
    pub fn remainders(&self, data: &[u8], depth: usize, first: usize, lanes: usize, into: &mut Remainders) {
        match self.table.len() / 256 {
            1 => self.of_width::<1>(data, depth, first, lanes, into),
            2 => self.of_width::<2>(data, depth, first, lanes, into),
            4 => self.of_width::<4>(data, depth, first, lanes, into),
            8 => self.of_width::<8>(data, depth, first, lanes, into),
            16 => self.of_width::<16>(data, depth, first, lanes, into),
            _ => self.of_width::<32>(data, depth, first, lanes, into),
        }
    }

    fn of_width<const N: usize>(&self, data: &[u8], depth: usize, first: usize, lanes: usize, into: &mut Remainders) {
        match lanes {
            1 => self.divide::<N, 1>(data, depth, first, into),
            2 => self.divide::<N, 2>(data, depth, first, into),
            3 => self.divide::<N, 3>(data, depth, first, into),
            _ => self.divide::<N, 4>(data, depth, first, into),
        }
    }

    /// Long division, a symbol at a time, as a shift register does it.
    fn divide<const N: usize, const L: usize>(&self, data: &[u8], depth: usize, first: usize, into: &mut Remainders) {
        let table: &[[u64; N]] = self.table.as_chunks().0;
        let Ok(table) = <&[[u64; N]; 256]>::try_from(table) else { return };
        let mut registers = [[0; N]; L];
        let (rows, rest) = data.split_at(data.len() / depth * depth);
        for row in rows.chunks_exact(depth) {
            for (register, symbol) in registers.iter_mut().zip(&row[first..first + L]) {
                step(register, *symbol, table);
            }
        }
        for (register, symbol) in registers.iter_mut().zip(rest.iter().skip(first)) {
            step(register, *symbol, table);
        }
        for (register, into) in registers.iter().zip(into) {
            for (into, word) in into.as_chunks_mut().0.iter_mut().zip(register.iter().rev()) {
                *into = word.to_be_bytes();
            }
        }
    }
}

#[inline(always)]
fn step<const N: usize>(register: &mut [u64; N], symbol: u8, table: &[[u64; N]; 256]) {
    let row = &table[usize::from((register[N - 1] >> 56) as u8 ^ symbol)];
    for n in (1..N).rev() {
        register[n] = (register[n] << 8 | register[n - 1] >> 56) ^ row[n];
    }
    register[0] = register[0] << 8 ^ row[0];
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code").field("parity", &self.parity).finish_non_exhaustive()
    }
}

/// (x - α) (x - α²) ... (x - α^parity), the constant term first.
pub(super) fn generator(parity: usize) -> Vec<u8> {
    let mut product = vec![1];
    for root in 1..=parity {
        product.insert(0, 0);
        for n in 0..root {
            product[n] ^= mul(product[n + 1], exp(root as u8));
        }
    }
    product
}
