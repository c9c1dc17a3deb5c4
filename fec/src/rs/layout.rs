//! Which byte of a packet is which symbol of which codeword.

use thiserror::Error;

/// Most bytes of data in a packet: what a length of 16 bits can say.
pub const MAX_DATA: usize = 65_535;
/// Most words of parity: what AeroTP's option field, of 9 bits, can say.
pub const MAX_WORDS: u16 = 511;
/// Symbols of a codeword: those that α tells apart.
const MAX_LEN: usize = 255;

/// There is no such code.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum LayoutError {
    /// More data than [`MAX_DATA`].
    #[error("{0} bytes are more than {MAX_DATA}")]
    Data(usize),
    /// More parity than [`MAX_WORDS`].
    #[error("{0} words of parity are more than {MAX_WORDS}")]
    Words(u16),
}

/// See [`super::Interleaved`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub data_len: usize,
    /// Pairs of parity symbols of all codewords together.
    pairs: usize,
    /// Codewords.
    pub depth: usize,
    /// How many codewords, the first ones, have a pair more than the others.
    pub longer: usize,
    /// Pairs of the others.
    share: usize,
}

impl Layout {
    pub fn new(data_len: usize, words: u16) -> Result<Self, LayoutError> {
        if data_len > MAX_DATA {
            return Err(LayoutError::Data(data_len));
        }
        if words > MAX_WORDS {
            return Err(LayoutError::Words(words));
        }
        let pairs = 2 * usize::from(words);
        if pairs == 0 {
            return Ok(Self { data_len, pairs, depth: 0, longer: 0, share: 0 });
        }
        let mut depth = (data_len + 2 * pairs).div_ceil(MAX_LEN);
        while data_len.div_ceil(depth) + 2 * pairs.div_ceil(depth) > MAX_LEN {
            depth += 1;
        }
        Ok(Self { data_len, pairs, depth, longer: pairs % depth, share: pairs / depth })
    }

    pub fn parity_len(&self) -> usize {
        2 * self.pairs
    }

    /// Symbols of data of a codeword.
    pub fn data(&self, codeword: usize) -> usize {
        (self.data_len + self.depth - 1 - codeword) / self.depth
    }

    /// Symbols of parity of a codeword; 0 if there is none.
    pub fn parity(&self, codeword: usize) -> usize {
        2 * (self.share + usize::from(codeword < self.longer))
    }

    /// Symbols of a codeword, at most 255.
    pub fn len(&self, codeword: usize) -> usize {
        self.data(codeword) + self.parity(codeword)
    }

    /// Where in the parity symbol `r` of the parity of a codeword is.
    pub fn parity_at(&self, codeword: usize, r: usize) -> usize {
        let full = 2 * self.share;
        if r < full { r * self.depth + codeword } else { full * self.depth + (r - full) * self.longer + codeword }
    }

    /// Where in data and parity a symbol of a codeword is.
    pub fn position(&self, codeword: usize, symbol: usize) -> usize {
        match symbol.checked_sub(self.data(codeword)) {
            None => symbol * self.depth + codeword,
            Some(r) => self.data_len + self.parity_at(codeword, r),
        }
    }

    /// The codeword and the symbol of it that is there, the inverse of [`Self::position`].
    pub fn symbol_at(&self, position: usize) -> Option<(usize, usize)> {
        if self.depth == 0 || position >= self.data_len + self.parity_len() {
            return None;
        }
        let Some(at) = position.checked_sub(self.data_len) else {
            return Some((position % self.depth, position / self.depth));
        };
        let full = 2 * self.share * self.depth;
        let (codeword, r) = match at.checked_sub(full) {
            None => (at % self.depth, at / self.depth),
            Some(at) => (at % self.longer, 2 * self.share + at / self.longer),
        };
        Some((codeword, self.data(codeword) + r))
    }

    /// The kinds of codewords: how many symbols, how many of them parity, how many codewords are so. At most three.
    pub fn kinds(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let more_data = if self.depth == 0 { 0 } else { self.data_len % self.depth };
        let mut ends = [0, self.longer, more_data, self.depth];
        ends.sort_unstable();
        let spans = [(ends[0], ends[1]), (ends[1], ends[2]), (ends[2], ends[3])];
        let layout = *self;
        let spans = spans.into_iter().filter(|(from, to)| from < to);
        spans.map(move |(from, to)| (layout.len(from), layout.parity(from), to - from))
    }
}
