//! AeroTP, the link over radios that hand over what they received, bit errors included.
//!
//! This is the wire layer: segments ([`Header`], [`SegmentCodec`]), what they carry beside data ([`InnerOptions`]) and
//! the keys they are sealed with ([`Security`]).
//! `docs/aerotp.md` describes the protocol for whoever implements the other end.

mod bearer;
mod belief;
mod combine;
mod connection;
mod copies;
mod endpoint;
mod extension;
mod guard;
mod header;
mod hec;
mod line;
mod options;
mod pacer;
mod quality;
mod rtt;
mod security;
mod segment;
mod strength;
mod transceiver;

pub use bearer::{Framing, Handling, LEAST_SEGMENT, Modes, RadioBearer, RadioConfig, RadioEvent, RadioStats};
pub use combine::combine_segments;
pub use connection::{Closed, ConnectionConfig, ConnectionId, Piece};
pub use endpoint::{Endpoint, EndpointConfig, EndpointCounters, EndpointEvent, LineConfig, Protection, SendError};
pub use header::{Ecn, Flags, HEADER_LEN, Header, HeaderError, MAX_PARITY_WORDS, Port, Seq, TransferMode};
pub use line::{Deframer, LINE_OVERHEAD, LineCounters, LineEvent, MAX_LINE_SEGMENT, TooLongForLine, put_frame};
pub use options::{
    BitErrorRate, Holes, InnerOption, InnerOptions, LinkReport, MAX_OPTIONS, MalformedOptions, OptionsWriter, SeqList,
};
pub use quality::Quality;
pub use security::{
    ATTEMPT_INTERVAL, News, OpenError, Opened, SealError, Sealed, Security, SecurityConfig, SecurityCounters,
    SecurityError, TAG_LEN,
};
pub use segment::{Damaged, Decoded, MAX_SEGMENT, Repaired, SegmentCodec, SegmentCounters, encode_segment};
pub(crate) use transceiver::Transceiver;

/// The sequence number with these low bits that is nearest to `near`.
fn extend(seq: Seq, near: u64) -> u64 {
    let ahead = Seq(near as u32).distance_to(seq) as i32;
    near.saturating_add_signed(i64::from(ahead))
}
