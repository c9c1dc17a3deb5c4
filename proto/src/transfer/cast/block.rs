//! One block: its symbols, and making it whole from them.

use std::collections::BTreeSet;

use bytes::Bytes;
use raptorq::{
    EncodingPacket, ObjectTransmissionInformation, PayloadId, SourceBlockDecoder, SourceBlockEncoder,
    SourceBlockEncodingPlan,
};

use super::datagram::MAX_ID;

/// Symbols beyond `K` after which a block that cannot be solved is given up: each fails to add something with a chance of 1 in 256, so
/// that somebody sends nonsense.
const HOPELESS: usize = 16;
/// What a symbol takes in memory beside its bytes, and one that is not there.
const SYMBOL: usize = 64;
const EMPTY: usize = 32;

/// How many symbols of a block of `symbols` leave in one round, with an overhead of so many parts of one. Beyond `K` and the overhead three times the
/// square root of the latter, so that a short block, of which chance loses more, gets through as often as a long one.
pub fn symbols_of_a_round(symbols: u32, overhead: f64) -> u32 {
    let repair = f64::from(symbols) * overhead.max(0.0);
    symbols + repair.ceil() as u32 + (3.0 * repair.sqrt()).ceil() as u32 + 1
}

/// How a block of so many bytes is cut, with symbols of at most `max` bytes: how many, and how long each is.
pub(super) fn cut(len: usize, max: usize) -> (u32, usize) {
    let symbol_len = len.div_ceil(len.div_ceil(max).max(1)).max(1);
    // Not always as many as with the longest symbols: the receiver knows only how long they are.
    (len.div_ceil(symbol_len) as u32, symbol_len)
}

/// One source block, without sub-blocks.
fn parameters(symbols: u32, symbol_len: usize) -> ObjectTransmissionInformation {
    ObjectTransmissionInformation::new(u64::from(symbols) * symbol_len as u64, symbol_len as u16, 1, 1, 1)
}

/// What blocks of so many symbols are encoded by: it takes longer to find than to use, and blocks of one object are mostly of a length.
#[derive(Debug, Default)]
pub(super) struct Plans(Vec<(u32, SourceBlockEncodingPlan)>);

/// Plans that are kept; one may take 2 MiB.
const MAX_PLANS: usize = 4;

/// Makes the symbols of a block.
#[derive(Debug)]
pub(super) struct Encoder {
    source: Vec<u8>,
    symbols: u32,
    symbol_len: usize,
    encoder: SourceBlockEncoder,
}

impl Encoder {
    /// Of bytes, at least one, in symbols of at most `max`.
    pub fn new(mut source: Vec<u8>, max: usize, plans: &mut Plans) -> Self {
        let (symbols, symbol_len) = cut(source.len(), max);
        source.resize(symbols as usize * symbol_len, 0);
        let found = plans.0.iter().position(|(of, _)| *of == symbols);
        let plan = match found {
            Some(index) => plans.0.remove(index),
            None => (symbols, SourceBlockEncodingPlan::generate(symbols as u16)),
        };
        let parameters = parameters(symbols, symbol_len);
        let encoder = SourceBlockEncoder::with_encoding_plan(0, &parameters, &source, &plan.1);
        plans.0.push(plan);
        if plans.0.len() > MAX_PLANS {
            plans.0.remove(0);
        }
        Self { source, symbols, symbol_len, encoder }
    }

    /// The symbol with this id.
    pub fn symbol(&self, id: u32) -> Bytes {
        if id < self.symbols {
            let start = id as usize * self.symbol_len;
            return Bytes::copy_from_slice(&self.source[start..start + self.symbol_len]);
        }
        let made = self.encoder.repair_packets(id - self.symbols, 1).pop();
        made.map(|packet| packet.split().1.into()).unwrap_or_default()
    }
}

/// Makes a block whole.
#[derive(Debug)]
pub(super) struct Decoder {
    state: State,
    len: usize,
    symbols: u32,
    symbol_len: usize,
}

#[derive(Debug)]
enum State {
    Solving { decoder: Box<SourceBlockDecoder>, ids: BTreeSet<u32> },
    Whole(Vec<u8>),
}

/// What a symbol brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Brought {
    /// It was there.
    Nothing,
    /// One more.
    More,
    /// The block.
    Whole(Vec<u8>),
    /// The block cannot be solved, ever.
    Hopeless,
}

impl Decoder {
    /// Of a block of so many bytes in symbols of such a length; [`super::Piece::take`] saw to it that both make sense.
    pub fn new(len: usize, symbol_len: usize) -> Self {
        let symbols = len.div_ceil(symbol_len) as u32;
        let bytes = u64::from(symbols) * symbol_len as u64;
        let decoder = SourceBlockDecoder::new(0, &parameters(symbols, symbol_len), bytes);
        let state = State::Solving { decoder: Box::new(decoder), ids: BTreeSet::new() };
        Self { state, len, symbols, symbol_len }
    }

    /// What it takes in memory, in bytes.
    pub fn memory(&self) -> usize {
        match &self.state {
            State::Solving { ids, .. } => self.symbols as usize * EMPTY + ids.len() * (self.symbol_len + SYMBOL),
            State::Whole(bytes) => bytes.len(),
        }
    }

    /// What one that is begun takes in memory at once.
    pub fn least_memory(len: usize, symbol_len: usize) -> usize {
        len.div_ceil(symbol_len) * EMPTY + symbol_len + SYMBOL
    }

    /// What one more symbol takes.
    pub fn memory_of_symbol(&self) -> usize {
        self.symbol_len + SYMBOL
    }

    /// Share of the symbols needed that are there, in thousandths.
    pub fn progress(&self) -> u64 {
        match &self.state {
            State::Solving { ids, .. } => ids.len() as u64 * 1000 / u64::from(self.symbols.max(1)),
            State::Whole(_) => u64::MAX,
        }
    }

    /// A symbol came. Once the block is whole nothing is asked of it any more.
    pub fn handle(&mut self, id: u32, symbol: &Bytes) -> Brought {
        let State::Solving { decoder, ids } = &mut self.state else { return Brought::Nothing };
        if symbol.len() != self.symbol_len || id > MAX_ID || !ids.insert(id) {
            return Brought::Nothing;
        }
        let packet = EncodingPacket::new(PayloadId::new(0, id), symbol.to_vec());
        match decoder.decode([packet]) {
            Some(mut block) => {
                block.truncate(self.len);
                Brought::Whole(block)
            }
            None if ids.len() >= self.symbols as usize + HOPELESS => Brought::Hopeless,
            None => Brought::More,
        }
    }

    /// Keeps the block instead of its symbols.
    pub fn keep(&mut self, block: Vec<u8>) {
        self.state = State::Whole(block);
    }

    /// The block, if it was kept.
    pub fn whole(&self) -> Option<&[u8]> {
        match &self.state {
            State::Solving { .. } => None,
            State::Whole(block) => Some(block),
        }
    }
}
