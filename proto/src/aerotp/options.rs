//! Inner options: what a segment carries beside its data, encrypted with it.
//!
//! With [`Flags::OPTIONS`](super::Flags::OPTIONS) the plaintext begins with a byte that says how many bytes of options
//! follow, then come options of type 8, length 8 and value, then what the segment is about. Unknown types are skipped.

use super::header::Seq;

/// Bytes that the options of a segment can have together, less the byte that says so.
pub const MAX_OPTIONS: usize = 255;

/// An option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InnerOption<'a> {
    /// Type 1. Answers a segment, for round-trip times.
    Echo {
        /// Timestamp of the segment's header.
        timestamp: u32,
        /// How long it was kept before this was sealed, in microseconds.
        held_us: u32,
    },
    /// Type 2. The first sequence number that may not be sent yet.
    Window(Seq),
    /// Type 3. How well the sender receives.
    Report(LinkReport),
    /// Type 4. Holes in what was received.
    Snack(Holes<'a>),
    /// Type 5. Segments that came damaged beyond repair: lost, but not for want of room.
    Eln(SeqList<'a>),
    /// Type 6. The segment is a repair packet of the sliding code.
    Block {
        /// First packet it covers.
        first: u32,
        /// How many.
        count: u8,
        /// What its coefficients are drawn from.
        key: u16,
    },
    /// Type 8. Something that the receiver keeps until it is delivered.
    Custody(u64),
    /// Type 9. What the sender believes it may be sent, in bit/s.
    Rate(u32),
    /// Type 10, on a segment that ends a connection. The sequence number after the last.
    Final(Seq),
}

/// How well an end receives, since its last report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkReport {
    /// Share of wrong bits.
    pub bit_error_rate: BitErrorRate,
    /// Share of segments lost, in 1/65535.
    pub lost: u16,
    /// Segments received, wraps.
    pub received: u32,
    /// Of those, damaged beyond repair; wraps.
    pub damaged: u32,
    /// Of those, repaired; wraps.
    pub repaired: u32,
}

/// A share of wrong bits as -256 log2 of it; 65535 stands for none seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BitErrorRate(pub u16);

/// Holes, each its first sequence number and how many are missing; 6 bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holes<'a>(&'a [u8]);

/// Sequence numbers, 4 bytes each: of an option, or all that a MACK carries but the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeqList<'a>(&'a [u8]);

/// The options of one segment, in the order in which they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InnerOptions<'a>(&'a [u8]);

/// The options overrun each other, the plaintext or their own lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed inner options")]
pub struct MalformedOptions;

impl<'a> InnerOptions<'a> {
    /// The options at the beginning of a plaintext, and what follows them.
    pub fn parse(plaintext: &'a [u8]) -> Result<(Self, &'a [u8]), MalformedOptions> {
        let (&len, rest) = plaintext.split_first().ok_or(MalformedOptions)?;
        let (options, rest) = rest.split_at_checked(len.into()).ok_or(MalformedOptions)?;
        let mut unchecked = options;
        while !unchecked.is_empty() {
            let (kind, value) = take(&mut unchecked).ok_or(MalformedOptions)?;
            if (1..=NEWEST).contains(&kind) && InnerOption::read(kind, value).is_none() {
                return Err(MalformedOptions);
            }
        }
        Ok((Self(options), rest))
    }
}

impl<'a> Iterator for InnerOptions<'a> {
    type Item = InnerOption<'a>;

    fn next(&mut self) -> Option<InnerOption<'a>> {
        loop {
            let (kind, value) = take(&mut self.0)?;
            if let Some(option) = InnerOption::read(kind, value) {
                return Some(option);
            }
        }
    }
}

impl<'a> InnerOption<'a> {
    fn read(kind: u8, mut value: &'a [u8]) -> Option<Self> {
        let value = &mut value;
        let option = match kind {
            ECHO => Self::Echo { timestamp: take_u32(value)?, held_us: take_u32(value)? },
            WINDOW => Self::Window(Seq(take_u32(value)?)),
            REPORT => Self::Report(LinkReport {
                bit_error_rate: BitErrorRate(take_u16(value)?),
                lost: take_u16(value)?,
                received: take_u32(value)?,
                damaged: take_u32(value)?,
                repaired: take_u32(value)?,
            }),
            SNACK => {
                Self::Snack(Some(Holes(std::mem::take(value))).filter(|holes| holes.0.len().is_multiple_of(HOLE))?)
            }
            ELN => Self::Eln(SeqList::parse(std::mem::take(value))?),
            BLOCK => Self::Block { first: take_u32(value)?, count: take_u8(value)?, key: take_u16(value)? },
            CUSTODY => Self::Custody(u64::from(take_u32(value)?) << 32 | u64::from(take_u32(value)?)),
            RATE => Self::Rate(take_u32(value)?),
            FINAL => Self::Final(Seq(take_u32(value)?)),
            _ => return None,
        };
        value.is_empty().then_some(option)
    }

    /// Appends type, room for the length, and value.
    fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Echo { timestamp, held_us } => {
                out.extend_from_slice(&[ECHO, 0]);
                out.extend_from_slice(&timestamp.to_be_bytes());
                out.extend_from_slice(&held_us.to_be_bytes());
            }
            Self::Window(seq) => put_word(out, WINDOW, seq.0),
            Self::Report(report) => {
                out.extend_from_slice(&[REPORT, 0]);
                out.extend_from_slice(&report.bit_error_rate.0.to_be_bytes());
                out.extend_from_slice(&report.lost.to_be_bytes());
                for count in [report.received, report.damaged, report.repaired] {
                    out.extend_from_slice(&count.to_be_bytes());
                }
            }
            Self::Snack(Holes(bytes)) => put_bytes(out, SNACK, bytes),
            Self::Eln(SeqList(bytes)) => put_bytes(out, ELN, bytes),
            Self::Block { first, count, key } => {
                put_word(out, BLOCK, first);
                out.push(count);
                out.extend_from_slice(&key.to_be_bytes());
            }
            Self::Custody(id) => put_bytes(out, CUSTODY, &id.to_be_bytes()),
            Self::Rate(rate) => put_word(out, RATE, rate),
            Self::Final(seq) => put_word(out, FINAL, seq.0),
        }
    }
}

/// Writes options at the beginning of a plaintext.
#[derive(Debug)]
pub struct OptionsWriter<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
}

impl<'o> OptionsWriter<'o> {
    /// Begins at the end of `out`, which gets a byte for their length.
    pub fn new(out: &'o mut Vec<u8>) -> Self {
        let start = out.len();
        out.push(0);
        Self { out, start }
    }

    /// Appends an option if it fits; whether it did.
    pub fn push(&mut self, option: &InnerOption<'_>) -> bool {
        let before = self.out.len();
        option.write(self.out);
        let value = self.out.len() - before - 2;
        if value + 2 > MAX_OPTIONS - self.used(before) {
            self.out.truncate(before);
            return false;
        }
        self.out[before + 1] = value as u8;
        self.out[self.start] = self.used(self.out.len()) as u8;
        true
    }

    /// Appends a SNACK with as many holes as fit: how many. None at all leaves no option.
    pub fn push_snack(&mut self, holes: impl IntoIterator<Item = (Seq, u16)>) -> usize {
        let mut bytes = Vec::new();
        let room = self.room() / HOLE;
        for (first, count) in holes.into_iter().take(room) {
            bytes.extend_from_slice(&first.0.to_be_bytes());
            bytes.extend_from_slice(&count.to_be_bytes());
        }
        if !bytes.is_empty() {
            self.push(&InnerOption::Snack(Holes(&bytes)));
        }
        bytes.len() / HOLE
    }

    /// Appends an ELN with as many sequence numbers as fit: how many. None at all leaves no option.
    pub fn push_eln(&mut self, seqs: impl IntoIterator<Item = Seq>) -> usize {
        let room = self.room() / SEQ;
        let bytes: Vec<u8> = seqs.into_iter().take(room).flat_map(|seq| seq.0.to_be_bytes()).collect();
        if !bytes.is_empty() {
            self.push(&InnerOption::Eln(SeqList(&bytes)));
        }
        bytes.len() / SEQ
    }

    /// Bytes that the value of one more option can have.
    pub fn room(&self) -> usize {
        (MAX_OPTIONS - self.used(self.out.len())).saturating_sub(2)
    }

    /// Whether there are none yet.
    pub fn is_empty(&self) -> bool {
        self.used(self.out.len()) == 0
    }

    fn used(&self, end: usize) -> usize {
        end - self.start - 1
    }
}

impl<'a> Holes<'a> {
    /// First missing sequence number and how many, in the order in which they were written.
    pub fn iter(&self) -> impl Iterator<Item = (Seq, u16)> + use<'a> {
        self.0.as_chunks::<HOLE>().0.iter().map(|&[a, b, c, d, e, f]| {
            (Seq(u32::from_be_bytes([a, b, c, d])), u16::from_be_bytes([e, f])) //
        })
    }
}

impl<'a> SeqList<'a> {
    /// The list that these bytes are; `None` if their number is no multiple of 4.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        bytes.len().is_multiple_of(SEQ).then_some(Self(bytes))
    }

    /// The sequence numbers, in the order in which they were written.
    pub fn iter(&self) -> impl Iterator<Item = Seq> + use<'a> {
        self.0.as_chunks::<SEQ>().0.iter().map(|bytes| Seq(u32::from_be_bytes(*bytes)))
    }
}

impl BitErrorRate {
    /// No wrong bit was seen.
    pub const NONE: Self = Self(u16::MAX);

    /// The nearest to a share of 0.0 to 1.0; shares below 2^-255.99 are none.
    pub fn from_ratio(ratio: f64) -> Self {
        if ratio > 0.0 { Self((-256.0 * ratio.log2()).round().clamp(0.0, 65535.0) as u16) } else { Self::NONE }
    }

    /// The share, 0.0 to 1.0.
    pub fn ratio(self) -> f64 {
        if self == Self::NONE { 0.0 } else { (-f64::from(self.0) / 256.0).exp2() }
    }
}

const ECHO: u8 = 1;
const WINDOW: u8 = 2;
const REPORT: u8 = 3;
const SNACK: u8 = 4;
const ELN: u8 = 5;
const BLOCK: u8 = 6;
const CUSTODY: u8 = 8;
const RATE: u8 = 9;
const FINAL: u8 = 10;

/// The greatest type that we know.
const NEWEST: u8 = FINAL;

/// Bytes of a hole, and of a sequence number.
const HOLE: usize = 6;
const SEQ: usize = 4;

/// Type and value of the first option.
fn take<'a>(options: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&[kind, len], rest) = options.split_first_chunk()?;
    let (value, rest) = rest.split_at_checked(len.into())?;
    *options = rest;
    Some((kind, value))
}

fn take_u8(bytes: &mut &[u8]) -> Option<u8> {
    bytes.split_off_first().copied()
}

fn take_u16(bytes: &mut &[u8]) -> Option<u16> {
    bytes.split_off(..2).map(|two| u16::from_be_bytes([two[0], two[1]]))
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    Some(u32::from(take_u16(bytes)?) << 16 | u32::from(take_u16(bytes)?))
}

fn put_word(out: &mut Vec<u8>, kind: u8, word: u32) {
    put_bytes(out, kind, &word.to_be_bytes());
}

fn put_bytes(out: &mut Vec<u8>, kind: u8, value: &[u8]) {
    out.extend_from_slice(&[kind, 0]);
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_option() -> impl Strategy<Value = (u8, [u32; 3], u16, u8, Vec<u8>)> {
        (1..=NEWEST, any::<[u32; 3]>(), any::<u16>(), any::<u8>(), proptest::collection::vec(any::<u8>(), 0..90))
    }

    fn option((kind, [a, b, c], half, byte, bytes): &(u8, [u32; 3], u16, u8, Vec<u8>)) -> InnerOption<'_> {
        let whole = |unit: usize| &bytes[..bytes.len() / unit * unit];
        match *kind {
            ECHO => InnerOption::Echo { timestamp: *a, held_us: *b },
            WINDOW => InnerOption::Window(Seq(*a)),
            REPORT => InnerOption::Report(LinkReport {
                bit_error_rate: BitErrorRate(*half),
                lost: u16::from(*byte),
                received: *a,
                damaged: *b,
                repaired: *c,
            }),
            SNACK => InnerOption::Snack(Holes(whole(HOLE))),
            ELN => InnerOption::Eln(SeqList(whole(SEQ))),
            BLOCK => InnerOption::Block { first: *a, count: *byte, key: *half },
            CUSTODY => InnerOption::Custody(u64::from(*a) << 32 | u64::from(*b)),
            RATE => InnerOption::Rate(*a),
            _ => InnerOption::Final(Seq(*a)),
        }
    }

    proptest! {
        #[test]
        fn what_fits_comes_back_and_the_data_behind_it(
            options in proptest::collection::vec(any_option(), 0..12),
            data in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let mut out = Vec::new();
            let mut writer = OptionsWriter::new(&mut out);
            let written: Vec<InnerOption<'_>> = options.iter().map(option).filter(|one| writer.push(one)).collect();
            prop_assert_eq!(writer.is_empty(), written.is_empty());
            let len = out.len();
            prop_assert!(len <= 1 + MAX_OPTIONS);
            out.extend_from_slice(&data);
            let (parsed, rest) = InnerOptions::parse(&out).unwrap();
            prop_assert_eq!(parsed.collect::<Vec<_>>(), written);
            prop_assert_eq!(rest, &data);
            for cut in 0..len {
                prop_assert!(InnerOptions::parse(&out[..cut]).is_err());
            }
        }

        #[test]
        fn any_bytes_give_options_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok((options, rest)) = InnerOptions::parse(&bytes) {
                prop_assert_eq!(1 + usize::from(bytes[0]) + rest.len(), bytes.len());
                prop_assert!(options.count() <= 127);
            }
        }
    }

    #[test]
    fn unknown_types_are_skipped_and_known_ones_of_other_lengths_refused() {
        let bytes = [9, 77, 1, 5, 9, 4, 0, 0, 1, 0, 42];
        let (mut options, rest) = InnerOptions::parse(&bytes).unwrap();
        assert_eq!((options.next(), options.next(), rest), (Some(InnerOption::Rate(256)), None, [42].as_slice()));
        for malformed in
            [&[2, RATE, 0][..], &[7, RATE, 5, 0, 0, 0, 0, 0], &[3, SNACK, 1, 0], &[3, ELN, 1, 0], &[1, 9], &[]]
        {
            assert_eq!(InnerOptions::parse(malformed), Err(MalformedOptions), "{malformed:?}");
        }
    }

    #[test]
    fn lists_are_cut_to_what_fits() {
        let mut out = vec![1, 2, 3];
        let mut writer = OptionsWriter::new(&mut out);
        assert!(writer.push(&InnerOption::Custody(7)));
        assert_eq!(writer.room(), 243);
        assert_eq!(writer.push_snack((0..100).map(|i| (Seq(i * 10), i as u16))), 40);
        assert_eq!((writer.room(), writer.push_eln([Seq(1)])), (1, 0));
        assert!(!writer.push(&InnerOption::Rate(1)));
        let (mut options, rest) = InnerOptions::parse(&out[3..]).unwrap();
        assert_eq!((options.next(), rest.len()), (Some(InnerOption::Custody(7)), 0));
        let Some(InnerOption::Snack(holes)) = options.next() else { panic!("no SNACK") };
        assert_eq!(holes.iter().last(), Some((Seq(390), 39)));
        assert_eq!(SeqList::parse(&[0, 0, 1, 0, 0, 0, 0, 2]).unwrap().iter().collect::<Vec<_>>(), [Seq(256), Seq(2)]);
    }

    #[test]
    fn bit_error_rates_are_within_a_percent() {
        for ratio in [1.0, 0.5, 1e-2, 3.5e-5, 1e-9] {
            let back = BitErrorRate::from_ratio(ratio).ratio();
            assert!((back / ratio - 1.0).abs() < 0.002, "{ratio} became {back}");
        }
        assert_eq!(BitErrorRate::from_ratio(0.0).ratio(), 0.0);
        assert_eq!(BitErrorRate::from_ratio(f64::NAN), BitErrorRate::NONE);
    }
}
