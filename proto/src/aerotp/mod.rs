//! AeroTP, the link over radios that hand over what they received, bit errors included.
//!
//! This is the wire layer: segments ([`Header`], [`SegmentCodec`]), what they carry beside data ([`InnerOptions`]) and
//! the keys they are sealed with ([`Security`]).
//! `docs/aerotp.md` describes the protocol for whoever implements the other end.

mod combine;
mod extension;
mod header;
mod hec;
mod line;
mod options;
mod security;
mod segment;

pub use combine::combine_segments;
pub use header::{Ecn, Flags, HEADER_LEN, Header, HeaderError, MAX_PARITY_WORDS, Port, Seq, TransferMode};
pub use line::{Deframer, LINE_OVERHEAD, LineCounters, LineEvent, MAX_LINE_SEGMENT, TooLongForLine, put_frame};
pub use options::{
    BitErrorRate, Holes, InnerOption, InnerOptions, LinkReport, MAX_OPTIONS, MalformedOptions, OptionsWriter, SeqList,
    Tcpx,
};
pub use security::{
    ATTEMPT_INTERVAL, News, OpenError, Opened, SealError, Sealed, Security, SecurityConfig, SecurityCounters,
    SecurityError, TAG_LEN,
};
pub use segment::{Damaged, Decoded, MAX_SEGMENT, Repaired, SegmentCodec, SegmentCounters, encode_segment};
