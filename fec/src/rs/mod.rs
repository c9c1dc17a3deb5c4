//! Reed-Solomon within a packet: what bit errors do to it is undone without knowing where they are.
//!
//! A packet of `n` bytes gets `4 W` bytes of parity. Both together are dealt out to `D` codewords over GF(2^8), so a burst
//! hits each of them a little. [`Interleaved`] says how, in enough detail for another implementation.
//!
//! A decoder can be wrong: beyond its reach, which is half its parity, it may find another codeword. Of words with two
//! symbols of parity almost all are within reach of some codeword, of those with 2t about one in t! is. Whoever corrects
//! checks a CRC afterwards.

mod code;
mod decode;
mod layout;
mod residual;
#[cfg(test)]
mod tests;

use thiserror::Error;

use code::{Code, LANES, Remainders};
pub(crate) use decode::Errors;
use layout::Layout;
pub use layout::{LayoutError, MAX_DATA, MAX_WORDS};
pub use residual::{residual, words_for};

/// A systematic, interleaved Reed-Solomon code for packets of one length.
///
/// # Layout
///
/// For `n` bytes of data and `W` words, that is `4 W` bytes, of parity:
///
/// - `D` is the least number with `ceil(n / D) + 2 ceil(2 W / D) <= 255`.
/// - Byte `i` of the data is symbol `i / D` of codeword `i mod D`.
/// - Parity is shared out in pairs of symbols, since it takes two to correct one: with `q = 2 W / D` (rounded down) and
///   `e = 2 W mod D`, codewords `0..e` get `2 q + 2` symbols and the others `2 q`.
/// - Each codeword is the polynomial whose coefficients are its data and then its parity, the first symbol that of the
///   highest power. It is a multiple of `g(x) = (x - α) (x - α²) ... (x - α^t)` with `t` its number of parity symbols:
///   narrow-sense, over GF(2^8) with the polynomial 0x11D and `α = 2`.
/// - Parity goes in rounds: the first parity symbol of codewords 0, 1, ..., then the second of each, and so on; in the
///   last two rounds only codewords `0..e` are left.
///
/// With no words there is no parity, nothing is corrected, and nothing is noticed.
///
/// # Cost
///
/// It is small and can be copied. What it computes with depends on the number of parity symbols of a codeword only, is
/// made when that number first comes up, and kept for the life of the process: up to 64 kB for each of 127 numbers, 2 kB
/// for those up to 8 symbols.
#[derive(Clone, Copy, Debug)]
pub struct Interleaved {
    layout: Layout,
    /// Of the codewords before `layout.longer`, and of the others.
    codes: [&'static Code; 2],
}

/// What was corrected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Corrected {
    /// Bytes that were changed, in data and parity.
    pub symbols: usize,
}

/// A slice is not as long as the code needs it.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("{given} bytes instead of {wanted}")]
pub struct LengthError {
    /// Its length.
    pub given: usize,
    /// The length that it should have.
    pub wanted: usize,
}

/// Why a packet was not corrected.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum CorrectError {
    /// Nothing was tried.
    #[error(transparent)]
    Length(#[from] LengthError),
    /// More symbols are wrong than the parity allows for. Those codewords that could be corrected are.
    #[error("{codewords} codewords have more wrong symbols than their parity corrects")]
    Uncorrectable {
        /// How many codewords are left as they were.
        codewords: usize,
        /// Bytes that were changed in the others.
        symbols: usize,
    },
}

impl Interleaved {
    /// The code for `data_len` bytes (up to [`MAX_DATA`]) with `words` words (up to [`MAX_WORDS`]) of four bytes of parity.
    pub fn new(data_len: usize, words: u16) -> Result<Self, LayoutError> {
        let layout = Layout::new(data_len, words)?;
        Ok(Self { layout, codes: [layout.parity(0), layout.parity(layout.depth.max(1) - 1)].map(Code::of) })
    }

    /// Bytes of data.
    pub fn data_len(&self) -> usize {
        self.layout.data_len
    }

    /// Bytes of parity, four for each word.
    pub fn parity_len(&self) -> usize {
        self.layout.parity_len()
    }

    /// Data and parity.
    pub fn coded_len(&self) -> usize {
        self.data_len() + self.parity_len()
    }

    /// How many codewords share the packet; 0 without parity.
    pub fn codewords(&self) -> usize {
        self.layout.depth
    }

    /// The codeword of a byte of data or parity. Bytes of data without parity, and what is beyond the end, have none.
    pub fn codeword_of(&self, position: usize) -> Option<usize> {
        self.layout.symbol_at(position).map(|(codeword, _)| codeword)
    }

    /// The chance that a packet is not corrected, if each of its bits is wrong with the chance `ber`, independently.
    pub fn residual(&self, ber: f64) -> f64 {
        self.layout.residual(ber)
    }

    /// Writes the parity of `data`. What was in `parity` does not matter.
    pub fn encode(&self, data: &[u8], parity: &mut [u8]) -> Result<(), LengthError> {
        check_len(data, self.data_len())?;
        check_len(parity, self.parity_len())?;
        let mut remainders: Remainders = [[0; 256]; LANES];
        for (first, lanes, code) in self.groups() {
            code.remainders(data, self.layout.depth, first, lanes, &mut remainders);
            for (codeword, remainder) in (first..first + lanes).zip(remainders.iter()) {
                for (r, symbol) in remainder[..code.parity()].iter().enumerate() {
                    parity[self.layout.parity_at(codeword, r)] = *symbol;
                }
            }
        }
        Ok(())
    }

    /// Corrects data and the parity that follows it. What cannot be corrected is left as it was, codeword by codeword.
    ///
    /// A codeword with t symbols of parity is corrected with up to t / 2 wrong ones. One that is clean costs one pass.
    pub fn correct(&self, coded: &mut [u8]) -> Result<Corrected, CorrectError> {
        self.correct_erased(coded, &[])
    }

    /// The same with bytes that are known to be doubtful, at `erased`: places in `coded`, in any order. Each costs one
    /// symbol of parity where an error costs two, whether it is wrong or not. Places beyond the end are ignored.
    pub fn correct_erased(&self, coded: &mut [u8], erased: &[usize]) -> Result<Corrected, CorrectError> {
        check_len(coded, self.coded_len())?;
        let (mut symbols, mut failed) = (0, 0);
        let mut remainders: Remainders = [[0; 256]; LANES];
        for (first, lanes, code) in self.groups() {
            code.remainders(&coded[..self.data_len()], self.layout.depth, first, lanes, &mut remainders);
            for (codeword, remainder) in (first..first + lanes).zip(remainders.iter_mut()) {
                let difference = &mut remainder[..code.parity()];
                self.subtract_parity(codeword, coded, difference);
                if difference.iter().all(|symbol| *symbol == 0) {
                    continue;
                }
                match self.errors(codeword, difference, erased) {
                    Some(errors) => symbols += self.apply(codeword, &errors, coded),
                    None => failed += 1,
                }
            }
        }
        if failed > 0 {
            return Err(CorrectError::Uncorrectable { codewords: failed, symbols });
        }
        Ok(Corrected { symbols })
    }

    /// What is wrong with one codeword of `coded`, or `None` if that is too much. `coded` has the length.
    pub(crate) fn errors_in(&self, codeword: usize, coded: &[u8], erased: &[usize]) -> Option<Errors> {
        let mut remainders = [[0; 256]; LANES];
        self.errors(codeword, self.difference(codeword, coded, &mut remainders), erased)
    }

    /// The choices between two packets that make a codeword of one, symbol by symbol where they differ, as what to add to
    /// `a`: some, if there are many. Empty if they differ in more than [`decode::MAX_CHOICES`] symbols.
    pub(crate) fn choices(&self, codeword: usize, a: &[u8], b: &[u8]) -> Vec<Errors> {
        let len = self.layout.len(codeword);
        let symbols = self.positions(codeword).enumerate().filter(|(_, at)| a[*at] != b[*at]);
        let differ: Vec<_> = symbols.map(|(symbol, at)| ((len - 1 - symbol) as u8, a[at] ^ b[at])).collect();
        let mut remainders = [[0; 256]; LANES];
        decode::choices(self.difference(codeword, a, &mut remainders), &differ)
    }

    /// Corrects one codeword. Returns how many bytes that changed.
    fn apply(&self, codeword: usize, errors: &Errors, coded: &mut [u8]) -> usize {
        let len = self.layout.len(codeword);
        for (power, value) in errors.iter() {
            coded[self.layout.position(codeword, len - 1 - usize::from(power))] ^= value;
        }
        errors.iter().count()
    }

    /// The places of one codeword's symbols.
    pub(crate) fn positions(&self, codeword: usize) -> impl Iterator<Item = usize> {
        let layout = self.layout;
        (0..layout.len(codeword)).map(move |symbol| layout.position(codeword, symbol))
    }

    fn errors(&self, codeword: usize, difference: &[u8], erased: &[usize]) -> Option<Errors> {
        let len = self.layout.len(codeword);
        let (mut powers, mut count) = ([0; 255], 0);
        for position in erased {
            if let Some((of, symbol)) = self.layout.symbol_at(*position)
                && of == codeword
                && !powers[..count].contains(&((len - 1 - symbol) as u8))
            {
                powers[count] = (len - 1 - symbol) as u8;
                count += 1;
            }
        }
        decode::decode(difference, len, &powers[..count])
    }

    /// The remainder of one codeword by its generator: zeros if all is well.
    fn difference<'a>(&self, codeword: usize, coded: &[u8], remainders: &'a mut Remainders) -> &'a [u8] {
        let code = self.codes[usize::from(codeword >= self.layout.longer)];
        code.remainders(&coded[..self.data_len()], self.layout.depth, codeword, 1, remainders);
        let difference = &mut remainders[0][..code.parity()];
        self.subtract_parity(codeword, coded, difference);
        difference
    }

    fn subtract_parity(&self, codeword: usize, coded: &[u8], difference: &mut [u8]) {
        let parity = &coded[self.data_len()..];
        for (r, symbol) in difference.iter_mut().enumerate() {
            *symbol ^= parity[self.layout.parity_at(codeword, r)];
        }
    }

    /// Neighbouring codewords of one code that are worked on together: the first, how many, their code.
    fn groups(&self) -> impl Iterator<Item = (usize, usize, &'static Code)> {
        let Layout { depth, longer, .. } = self.layout;
        let split =
            |from: usize, to: usize, code| (from..to).step_by(LANES).map(move |at| (at, LANES.min(to - at), code));
        let groups = split(0, longer, self.codes[0]).chain(split(longer, depth, self.codes[1]));
        groups.filter(|(_, _, code)| code.parity() > 0)
    }
}

fn check_len(slice: &[u8], wanted: usize) -> Result<(), LengthError> {
    if slice.len() == wanted { Ok(()) } else { Err(LengthError { given: slice.len(), wanted }) }
}
