//! An erasure code for a block of packets: any `k` of `k + r` give all of them back.
//!
//! For what is sent once and in one go: a picture over several bearers, a file. It is systematic and MDS, so no code of
//! that size does better; what it cannot do is help a packet before its block is complete, see [`crate::rlc`].
//!
//! ```
//! use aquila_fec::block::{Block, BlockError};
//!
//! # fn main() -> Result<(), BlockError> {
//! let block = Block::new(3, 2)?;
//! let mut parity = [[0; 5]; 2];
//! block.encode(&["three", "times", "five"], &mut parity)?;
//! let came = [None, Some(&b"times"[..]), None, Some(&parity[0]), Some(&parity[1])];
//! let mut lost = [[0; 5]; 2];
//! block.recover(&came, &mut lost)?;
//! assert_eq!(lost, [*b"three", *b"five\0"]);
//! # Ok(())
//! # }
//! ```

use thiserror::Error;

use crate::gf256::{Kernel, inverse, mul};

/// Most symbols of a block, data and parity.
pub const MAX_SYMBOLS: usize = 256;

/// A systematic Cauchy code (Blömer et al., "An XOR-based erasure-resilient coding scheme", ICSI TR-95-048, 1995).
///
/// Parity symbol i is the sum of `(255 + j) / ((255 - i) + j)` times data symbol j, where `+` is the field's and 255, i
/// and j stand for the elements with these bits. So the first parity symbol is the plain sum of the data, and none depends
/// on `k` or `r`: a block may be cut short, as if zeros followed.
#[derive(Clone, Debug)]
pub struct Block {
    data: usize,
    parity: usize,
    /// A row for each parity symbol.
    coefficients: Box<[u8]>,
    kernel: Kernel,
}

/// Why a block was not coded.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum BlockError {
    /// There is no such code: no data, or more than [`MAX_SYMBOLS`] symbols.
    #[error("no code has {data} symbols of data and {parity} of parity")]
    NoCode {
        /// Symbols of data.
        data: usize,
        /// Symbols of parity.
        parity: usize,
    },
    /// A list has the wrong number of symbols.
    #[error("{given} symbols instead of {wanted}")]
    Count {
        /// How many there are.
        given: usize,
        /// How many there should be.
        wanted: usize,
    },
    /// Symbols of parity, or those to be written, differ in length, or one of data is longer.
    #[error("symbols do not fit each other")]
    Lengths,
    /// Fewer symbols came than the block has data. Another one helps.
    #[error("{missing} more symbols are needed")]
    TooFew {
        /// How many more it takes.
        missing: usize,
    },
}

impl Block {
    /// The code for `data` symbols, 1 at least, with `parity` more; [`MAX_SYMBOLS`] in all at most.
    pub fn new(data: usize, parity: usize) -> Result<Self, BlockError> {
        if data == 0 || data.saturating_add(parity) > MAX_SYMBOLS {
            return Err(BlockError::NoCode { data, parity });
        }
        let coefficient = |n| mul(scale(n % data), inverse(row(n / data) ^ column(n % data)));
        let coefficients = (0..parity * data).map(coefficient).collect();
        Ok(Self { data, parity, coefficients, kernel: Kernel::best() })
    }

    /// The same with this kernel, for tests and benchmarks.
    pub fn with_kernel(self, kernel: Kernel) -> Self {
        Self { kernel, ..self }
    }

    /// Symbols of data.
    pub fn data(&self) -> usize {
        self.data
    }

    /// Symbols of parity.
    pub fn parity(&self) -> usize {
        self.parity
    }

    /// Writes all parity. Its symbols have to be equally long and as long as the longest of data, of which shorter ones
    /// count as followed by zeros.
    pub fn encode(&self, data: &[impl AsRef<[u8]>], parity: &mut [impl AsMut<[u8]>]) -> Result<(), BlockError> {
        check_count(data.len(), self.data)?;
        check_count(parity.len(), self.parity)?;
        let data: Vec<_> = data.iter().map(AsRef::as_ref).collect();
        let mut parity: Vec<_> = parity.iter_mut().map(AsMut::as_mut).collect();
        self.write(&mut parity, &data, &self.coefficients)
    }

    /// Writes the symbols of data that are missing in `symbols`, which has all of data and then all of parity, to `lost`,
    /// in their order. Each of `lost` has to be as long as the parity.
    pub fn recover(
        &self,
        symbols: &[Option<impl AsRef<[u8]>>],
        lost: &mut [impl AsMut<[u8]>],
    ) -> Result<(), BlockError> {
        check_count(symbols.len(), self.data + self.parity)?;
        let (data, parity) = symbols.split_at(self.data);
        let missing: Vec<_> = (0..self.data).filter(|n| data[*n].is_none()).collect();
        check_count(lost.len(), missing.len())?;
        let rows: Vec<_> = (0..self.parity).filter(|n| parity[*n].is_some()).take(missing.len()).collect();
        if rows.len() < missing.len() {
            return Err(BlockError::TooFew { missing: missing.len() - rows.len() });
        }
        if missing.is_empty() {
            return Ok(());
        }
        let known: Vec<_> = (0..self.data).filter(|n| data[*n].is_some()).collect();
        // Parity less what is known of it is the missing data times a matrix, so they are its inverse times that. Both
        // products are made one before they meet the symbols, which then are read once.
        let inverse = self.inverse(&rows, &missing);
        let coefficients =
            |row: &usize| known.iter().map(|n| self.coefficients[row * self.data + n]).collect::<Vec<_>>();
        let of_known: Vec<_> = rows.iter().map(coefficients).collect();
        let of_known: Vec<_> = of_known.iter().map(Vec::as_slice).collect();
        let mut solution = vec![0; missing.len() * self.data];
        let mut solution_rows: Vec<_> = solution.chunks_exact_mut(self.data).collect();
        for (row, inverse) in solution_rows.iter_mut().zip(inverse.chunks_exact(missing.len())) {
            row[known.len()..].copy_from_slice(inverse);
        }
        let mut of_known_solution: Vec<_> = solution_rows.iter_mut().map(|row| &mut row[..known.len()]).collect();
        self.kernel.product(&mut of_known_solution, &of_known, &inverse);
        let sources = known.iter().map(|n| &data[*n]).chain(rows.iter().map(|n| &parity[*n]));
        let sources: Vec<_> = sources.flatten().map(AsRef::as_ref).collect();
        let mut lost: Vec<_> = lost.iter_mut().map(AsMut::as_mut).collect();
        self.write(&mut lost, &sources, &solution)
    }

    fn write(&self, dst: &mut [&mut [u8]], src: &[&[u8]], coefficients: &[u8]) -> Result<(), BlockError> {
        let Some(len) = dst.first().map(|dst| dst.len()) else { return Ok(()) };
        if dst.iter().any(|dst| dst.len() != len) || src.iter().any(|src| src.len() > len) {
            return Err(BlockError::Lengths);
        }
        dst.iter_mut().for_each(|dst| dst.fill(0));
        self.kernel.product(dst, src, coefficients);
        Ok(())
    }

    /// The inverse of the matrix of these rows and columns, which are as many: Cauchy's formula, with our factors.
    fn inverse(&self, rows: &[usize], columns: &[usize]) -> Vec<u8> {
        let product = |factors: &mut dyn Iterator<Item = u8>| factors.fold(1, mul);
        let (x, y): (Vec<_>, Vec<_>) =
            (rows.iter().map(|n| row(*n)).collect(), columns.iter().map(|n| column(*n)).collect());
        // Product of the differences to all of the other kind, over that to all others of its own.
        let weight = |at: u8, others: &[u8], own: &[u8]| {
            let above = product(&mut others.iter().map(|other| at ^ other));
            let below = product(&mut own.iter().filter(|own| **own != at).map(|own| at ^ own));
            mul(above, inverse(below))
        };
        let of_rows: Vec<_> = x.iter().map(|at| weight(*at, &y, &x)).collect();
        let mut inverted = Vec::with_capacity(x.len() * y.len());
        for (y_i, column) in y.iter().zip(columns) {
            let of_column = mul(weight(*y_i, &x, &y), inverse(scale(*column)));
            inverted
                .extend(x.iter().zip(&of_rows).map(|(x_j, of_row)| mul(mul(of_column, *of_row), inverse(x_j ^ y_i))));
        }
        inverted
    }
}

/// The element that stands for a symbol of parity.
fn row(parity: usize) -> u8 {
    255 - parity as u8
}

/// The element that stands for a symbol of data.
fn column(data: usize) -> u8 {
    data as u8
}

/// What a column is multiplied by, so that the first row has ones.
fn scale(data: usize) -> u8 {
    row(0) ^ column(data)
}

fn check_count(given: usize, wanted: usize) -> Result<(), BlockError> {
    if given == wanted { Ok(()) } else { Err(BlockError::Count { given, wanted }) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn symbols(count: usize, len: usize) -> Vec<Vec<u8>> {
        (0..count).map(|n| (0..len).map(|m| (n * 89 + m * 31 + n * m / 7) as u8).collect()).collect()
    }

    fn encoded(block: &Block, len: usize) -> Vec<Vec<u8>> {
        let mut all = symbols(block.data(), len);
        let mut parity = vec![vec![0xee; len]; block.parity()];
        block.encode(&all, &mut parity).unwrap();
        all.append(&mut parity);
        all
    }

    fn check(block: &Block, all: &[Vec<u8>], came: impl Fn(usize) -> bool, len: usize) -> Result<(), BlockError> {
        let given: Vec<_> = all.iter().enumerate().map(|(n, symbol)| came(n).then_some(symbol)).collect();
        let missing: Vec<_> = (0..block.data()).filter(|n| !came(*n)).collect();
        let mut lost = vec![vec![0xdd; len]; missing.len()];
        block.recover(&given, &mut lost)?;
        missing.iter().zip(lost).for_each(|(n, lost)| assert_eq!(lost, all[*n], "symbol {n}"));
        Ok(())
    }

    #[test]
    fn which_codes_there_are() {
        for (data, parity) in [(0, 1), (256, 1), (1, 256), (usize::MAX, 2)] {
            assert_eq!(Block::new(data, parity).unwrap_err(), BlockError::NoCode { data, parity });
        }
        for (data, parity) in [(1, 0), (256, 0), (1, 255), (128, 64), (200, 50)] {
            assert_eq!(Block::new(data, parity).unwrap().parity(), parity);
        }
    }

    #[test]
    fn first_parity_is_the_sum_and_parity_depends_on_nothing_else() {
        let all = encoded(&Block::new(9, 4).unwrap(), 50);
        for at in 0..50 {
            assert_eq!(all[..10].iter().fold(0, |sum, symbol| sum ^ symbol[at]), 0);
        }
        let mut longer = all[..9].to_vec();
        longer.extend([vec![], vec![0; 7]]);
        let mut parity = vec![vec![0; 50]; 6];
        Block::new(11, 6).unwrap().encode(&longer, &mut parity).unwrap();
        assert_eq!(parity[..4], all[9..]);
    }

    /// What another implementation gives, written from the description in another language.
    #[test]
    fn coefficients_on_the_wire() {
        let block = Block::new(4, 3).unwrap();
        assert_eq!(*block.coefficients, [1, 1, 1, 1, 127, 252, 126, 254, 226, 255, 230, 253]);
    }

    /// All ways to lose as many as there is parity.
    #[test]
    fn any_k_suffice() {
        let block = Block::new(7, 4).unwrap();
        let all = encoded(&block, 33);
        for came in 0..1u32 << 11 {
            let result = check(&block, &all, |n| came >> n & 1 != 0, 33);
            let missing = 7usize.saturating_sub(came.count_ones() as usize);
            assert_eq!(result, if missing == 0 { Ok(()) } else { Err(BlockError::TooFew { missing }) });
        }
    }

    #[test]
    fn every_kernel_recovers_the_largest_blocks() {
        for (kernel, (data, parity)) in
            Kernel::all().flat_map(|kernel| [(128, 64), (200, 50), (1, 255), (206, 50)].map(|size| (kernel, size)))
        {
            let block = Block::new(data, parity).unwrap().with_kernel(kernel);
            let all = encoded(&block, 75);
            let lost = parity.min(data);
            check(&block, &all, |n| n >= lost, 75).unwrap();
            check(&block, &all, |n| n < data - lost || n >= data + parity - lost, 75).unwrap();
        }
    }

    #[test]
    fn what_does_not_fit() {
        let block = Block::new(2, 1).unwrap();
        let mut parity = [[0; 3]];
        assert_eq!(block.encode(&[[1; 3]], &mut parity), Err(BlockError::Count { given: 1, wanted: 2 }));
        assert_eq!(block.encode(&[[1; 3]; 2], &mut [[0; 3]; 2]), Err(BlockError::Count { given: 2, wanted: 1 }));
        assert_eq!(block.encode(&[[1; 4]; 2], &mut parity), Err(BlockError::Lengths));
        let came = [Some([1; 3]), None, Some([1; 3])];
        assert_eq!(block.recover(&came[..2], &mut [[0; 3]]), Err(BlockError::Count { given: 2, wanted: 3 }));
        assert_eq!(block.recover(&came, &mut [[0; 3]; 2]), Err(BlockError::Count { given: 2, wanted: 1 }));
        assert_eq!(block.recover(&came, &mut [[0; 2]]), Err(BlockError::Lengths));
    }

    proptest! {
        #[test]
        fn random_losses(data in 1..40usize, parity in 0..20usize, len in 0..100usize, lost in proptest::collection::btree_set(0..60usize, 0..25)) {
            let block = Block::new(data, parity).unwrap();
            let all = encoded(&block, len);
            let result = check(&block, &all, |n| !lost.contains(&n), len);
            let came = (0..data + parity).filter(|n| !lost.contains(n)).count();
            prop_assert_eq!(result.is_ok(), came >= data);
        }
    }
}
