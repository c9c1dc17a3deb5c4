//! What the two gateways tell each other: frames, each a message of a connection or a datagram of AeroTP.
//!
//! ```text
//! type 8 | fields
//! 1 open      flow 64 | bits 8 | deadline, ms 32 | released v | taken v | target
//! 2 data      bits 8 | offset v | bytes to the end
//! 3 fin       offset v
//! 4 taken     bits 8 | offset v
//! 5 reset     reason 8 | offset v
//! 6 datagram  address | bytes to the end
//! 7 answer    bytes to the end
//! 8 connect   flow 64 | room v | address
//! 9 segment   bits 8 | acked v | room v | offset v | bytes to the end
//! target      address, or 0 | length 8 | a name of a host | port 16
//! address     4 | 4 bytes | port 16, or 6 | 16 bytes | port 16
//! v           a variable-length integer of RFC 9000 §16
//! ```

use std::net::{IpAddr, SocketAddr};

use super::target::{Name, Target};
use crate::wire::varint::{put_varint, take_varint};

/// Names a TCP connection that the gateways carry, on both sides and over restarts. Drawn at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u64);

impl std::fmt::Display for FlowId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The first frame of each connection that carries a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// Which.
    pub flow: FlowId,
    /// It was open before; a gateway that knows nothing of it must not begin it again.
    pub resumed: bool,
    /// Bytes that are missing are replaced by zeros (quasi-reliable).
    pub zero_fill: bool,
    /// How long bytes that are missing are waited for, in ms (quasi-reliable).
    pub deadline_ms: u32,
    /// What the opener sends begins here: all before it has been taken.
    pub released: u64,
    /// The opener's application has taken this many bytes.
    pub taken: u64,
    /// Whom to connect to.
    pub target: Target,
}

/// The first frame of each connection that a TCP connection is passed through on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connect {
    /// Which.
    pub flow: FlowId,
    /// Bytes that the opener's kernel takes.
    pub room: u64,
    /// Whom to connect to.
    pub target: SocketAddr,
}

/// What one kernel's TCP has for the other's. The first one of the side that was asked says that its target has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<'a> {
    /// The kernel there has acknowledged all before this offset.
    pub acked: u64,
    /// And takes so many bytes more.
    pub room: u64,
    /// Of the first byte, from 0 at the beginning.
    pub offset: u64,
    /// Nothing follows these bytes.
    pub fin: bool,
    /// The kernel there has acknowledged our FIN.
    pub fin_acked: bool,
    /// Is the kernel at the other end alive?
    pub ask: bool,
    /// It is.
    pub answer: bool,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// Why a flow ended otherwise than by both ends' closing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The target refused the connection.
    #[error("the target refused the connection")]
    Refused,
    /// The target could not be reached.
    #[error("the target cannot be reached")]
    Unreachable,
    /// The far gateway's rules do not allow this target.
    #[error("the far gateway does not allow this target")]
    NotAllowed,
    /// A gateway has as many flows as it takes.
    #[error("too many flows")]
    TooMany,
    /// The application at the other end reset its connection, or its machine is gone.
    #[error("the application at the other end reset its connection")]
    Application,
    /// A gateway was restarted, and the connection to its application with it.
    #[error("the gateway at the other end was restarted, and lost its connection to the application")]
    Restarted,
    /// A gateway could not store what it has to.
    #[error("the gateway at the other end cannot store what it has to")]
    Storage,
    /// What came made no sense.
    #[error("the gateways do not understand each other")]
    Protocol,
    /// The far gateway has no TUN device, or no address of this family there.
    #[error("the far gateway has no TUN device for connections that are passed through: it needs --tun")]
    NoTun,
}

impl Reason {
    const ALL: [Self; 9] = [
        Self::Refused,
        Self::Unreachable,
        Self::NotAllowed,
        Self::TooMany,
        Self::Application,
        Self::Restarted,
        Self::Storage,
        Self::Protocol,
        Self::NoTun,
    ];

    /// Its number, on the wire and in files.
    pub fn number(self) -> u8 {
        Self::ALL.iter().position(|own| *own == self).map_or(0, |at| at as u8 + 1)
    }

    /// The reason of this number.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// One frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Begins a flow, or takes it up again.
    Open(Open),
    /// Bytes of the flow.
    Data {
        /// Of the first byte, from 0 at the beginning of the flow.
        offset: u64,
        /// A message begins with them, as far as the gateway can tell.
        begins: bool,
        /// And ends with them.
        ends: bool,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The application sends nothing from this offset on: the FIN of its TCP connection.
    Fin {
        /// All there was.
        offset: u64,
    },
    /// The kernel of the application has acknowledged all before this offset.
    Taken {
        /// All before it.
        offset: u64,
        /// And the FIN.
        fin: bool,
    },
    /// The flow is over.
    Reset {
        /// Why.
        reason: Reason,
        /// What has been taken till then.
        taken: u64,
    },
    /// A UDP datagram for this address.
    Datagram {
        /// Where to.
        to: SocketAddr,
        /// What was in it.
        bytes: &'a [u8],
    },
    /// A UDP datagram back to whom sent one.
    Answer {
        /// What was in it.
        bytes: &'a [u8],
    },
    /// Begins a flow whose acknowledgements are passed through.
    Connect(Connect),
    /// What goes on in it.
    Segment(Segment<'a>),
}

/// It is no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed flow frame")]
pub struct MalformedFrame;

/// Bytes that a data frame has around what it carries, at most.
pub const DATA_OVERHEAD: usize = 10;
/// Bytes that a datagram frame has around what it carries, at most.
pub const DATAGRAM_OVERHEAD: usize = 20;
/// Bytes that a segment has around what it carries, at most.
pub const SEGMENT_OVERHEAD: usize = 26;

const OPEN: u8 = 1;
const DATA: u8 = 2;
const FIN: u8 = 3;
const TAKEN: u8 = 4;
const RESET: u8 = 5;
const DATAGRAM: u8 = 6;
const ANSWER: u8 = 7;
const CONNECT: u8 = 8;
const SEGMENT: u8 = 9;

const RESUMED: u8 = 1;
const ZERO_FILL: u8 = 2;
const BEGINS: u8 = 1;
const ENDS: u8 = 2;
const WITH_FIN: u8 = 1;
const FIN_HERE: u8 = 1;
const FIN_ACKED: u8 = 2;
const ASK: u8 = 4;
const TOLD: u8 = 8;

impl<'a> Frame<'a> {
    /// The frame that these bytes are.
    ///
    /// # Errors
    /// If they are none.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, MalformedFrame> {
        Self::read(bytes).ok_or(MalformedFrame)
    }

    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (&kind, mut rest) = bytes.split_first()?;
        let rest = &mut rest;
        let frame = match kind {
            OPEN => Self::Open(read_open(rest)?),
            DATA => {
                let bits = take_bits(rest, BEGINS | ENDS)?;
                let offset = take_varint(rest)?;
                let bytes = std::mem::take(rest);
                Self::Data { offset, begins: bits & BEGINS != 0, ends: bits & ENDS != 0, bytes }
            }
            FIN => Self::Fin { offset: take_varint(rest)? },
            TAKEN => {
                let bits = take_bits(rest, WITH_FIN)?;
                Self::Taken { offset: take_varint(rest)?, fin: bits != 0 }
            }
            RESET => {
                let reason = Reason::of_number(*rest.split_off_first()?)?;
                Self::Reset { reason, taken: take_varint(rest)? }
            }
            DATAGRAM => Self::Datagram { to: take_address(rest)?, bytes: std::mem::take(rest) },
            ANSWER => Self::Answer { bytes: std::mem::take(rest) },
            CONNECT => Self::Connect(Connect {
                flow: FlowId(u64::from_be_bytes(rest.split_off(..8)?.try_into().ok()?)),
                room: take_varint(rest)?,
                target: take_address(rest)?,
            }),
            SEGMENT => Self::Segment(read_segment(rest)?),
            _ => return None,
        };
        rest.is_empty().then_some(frame)
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        match *self {
            Self::Open(open) => put_open(&mut out, &open),
            Self::Data { offset, begins, ends, bytes } => {
                out.extend_from_slice(&[DATA, (u8::from(begins) * BEGINS) | (u8::from(ends) * ENDS)]);
                put_varint(&mut out, offset);
                out.extend_from_slice(bytes);
            }
            Self::Fin { offset } => {
                out.push(FIN);
                put_varint(&mut out, offset);
            }
            Self::Taken { offset, fin } => {
                out.extend_from_slice(&[TAKEN, u8::from(fin) * WITH_FIN]);
                put_varint(&mut out, offset);
            }
            Self::Reset { reason, taken } => {
                out.extend_from_slice(&[RESET, reason.number()]);
                put_varint(&mut out, taken);
            }
            Self::Datagram { to, bytes } => {
                out.push(DATAGRAM);
                put_address(&mut out, to);
                out.extend_from_slice(bytes);
            }
            Self::Answer { bytes } => {
                out.push(ANSWER);
                out.extend_from_slice(bytes);
            }
            Self::Connect(connect) => {
                out.push(CONNECT);
                out.extend_from_slice(&connect.flow.0.to_be_bytes());
                put_varint(&mut out, connect.room);
                put_address(&mut out, connect.target);
            }
            Self::Segment(segment) => put_segment(&mut out, &segment),
        }
        out
    }
}

fn read_open(rest: &mut &[u8]) -> Option<Open> {
    let flow = FlowId(u64::from_be_bytes(rest.split_off(..8)?.try_into().ok()?));
    let bits = take_bits(rest, RESUMED | ZERO_FILL)?;
    let deadline_ms = u32::from_be_bytes(rest.split_off(..4)?.try_into().ok()?);
    Some(Open {
        flow,
        resumed: bits & RESUMED != 0,
        zero_fill: bits & ZERO_FILL != 0,
        deadline_ms,
        released: take_varint(rest)?,
        taken: take_varint(rest)?,
        target: take_target(rest)?,
    })
}

fn put_open(out: &mut Vec<u8>, open: &Open) {
    out.push(OPEN);
    out.extend_from_slice(&open.flow.0.to_be_bytes());
    out.push((u8::from(open.resumed) * RESUMED) | (u8::from(open.zero_fill) * ZERO_FILL));
    out.extend_from_slice(&open.deadline_ms.to_be_bytes());
    put_varint(out, open.released);
    put_varint(out, open.taken);
    put_target(out, open.target);
}

fn read_segment<'a>(rest: &mut &'a [u8]) -> Option<Segment<'a>> {
    let bits = take_bits(rest, FIN_HERE | FIN_ACKED | ASK | TOLD)?;
    let has = |bit: u8| bits & bit != 0;
    let (acked, room, offset) = (take_varint(rest)?, take_varint(rest)?, take_varint(rest)?);
    let (fin, fin_acked, ask, answer) = (has(FIN_HERE), has(FIN_ACKED), has(ASK), has(TOLD));
    Some(Segment { acked, room, offset, fin, fin_acked, ask, answer, bytes: std::mem::take(rest) })
}

fn put_segment(out: &mut Vec<u8>, segment: &Segment<'_>) {
    let bits = [(segment.fin, FIN_HERE), (segment.fin_acked, FIN_ACKED), (segment.ask, ASK), (segment.answer, TOLD)];
    out.extend_from_slice(&[SEGMENT, bits.iter().map(|(has, bit)| u8::from(*has) * bit).sum()]);
    for number in [segment.acked, segment.room, segment.offset] {
        put_varint(out, number);
    }
    out.extend_from_slice(segment.bytes);
}

fn take_bits(rest: &mut &[u8], known: u8) -> Option<u8> {
    rest.split_off_first().copied().filter(|bits| bits & !known == 0)
}

fn put_target(out: &mut Vec<u8>, target: Target) {
    match target {
        Target::Address(address) => put_address(out, address),
        Target::Name(name, port) => {
            let name = name.as_str().as_bytes();
            out.extend_from_slice(&[0, name.len() as u8]);
            out.extend_from_slice(name);
            out.extend_from_slice(&port.to_be_bytes());
        }
    }
}

fn take_target(rest: &mut &[u8]) -> Option<Target> {
    if rest.first() != Some(&0) {
        return take_address(rest).map(Target::Address);
    }
    let length = rest.split_off(..2)?[1];
    let name = Name::new(rest.split_off(..usize::from(length))?)?;
    let port = u16::from_be_bytes(rest.split_off(..2)?.try_into().ok()?);
    Some(Target::Name(name, port))
}

fn put_address(out: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&address.port().to_be_bytes());
}

fn take_address(rest: &mut &[u8]) -> Option<SocketAddr> {
    let ip = match *rest.split_off_first()? {
        4 => IpAddr::from(<[u8; 4]>::try_from(rest.split_off(..4)?).ok()?),
        6 => IpAddr::from(<[u8; 16]>::try_from(rest.split_off(..16)?).ok()?),
        _ => return None,
    };
    let port = u16::from_be_bytes(rest.split_off(..2)?.try_into().ok()?);
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::varint::MAX_VARINT;

    fn any_address() -> impl Strategy<Value = SocketAddr> {
        (any::<bool>(), any::<[u8; 16]>(), any::<u16>()).prop_map(|(v6, ip, port)| {
            let ip = if v6 { IpAddr::from(ip) } else { IpAddr::from([ip[0], ip[1], ip[2], ip[3]]) };
            SocketAddr::new(ip, port)
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            kind in 1u8..=9,
            (flow, deadline_ms) in any::<(u64, u32)>(),
            [one, other] in any::<[bool; 2]>(),
            [offset, taken] in [0..=MAX_VARINT, 0..=MAX_VARINT],
            reason in 1u8..=9,
            target in any_address(),
            bytes in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let bytes = &bytes[..];
            let flow = FlowId(flow);
            let frame = match kind {
                OPEN => {
                    let (released, resumed, zero_fill) = (offset, one, other);
                    let name = Name::new(format!("h{reason}.example").as_bytes()).unwrap();
                    let target = if one { target.into() } else { Target::Name(name, target.port()) };
                    Frame::Open(Open { flow, resumed, zero_fill, deadline_ms, released, taken, target })
                }
                DATA => Frame::Data { offset, begins: one, ends: other, bytes },
                FIN => Frame::Fin { offset },
                TAKEN => Frame::Taken { offset, fin: one },
                RESET => Frame::Reset { reason: Reason::of_number(reason).unwrap(), taken },
                DATAGRAM => Frame::Datagram { to: target, bytes },
                CONNECT => Frame::Connect(Connect { flow, room: offset, target }),
                SEGMENT => {
                    let (acked, room, ask, answer) = (offset, taken, reason & 1 != 0, reason & 2 != 0);
                    let (fin, fin_acked) = (one, other);
                    Frame::Segment(Segment { acked, room, offset, fin, fin_acked, ask, answer, bytes })
                }
                _ => Frame::Answer { bytes },
            };
            let encoded = frame.encode();
            prop_assert_eq!(Frame::parse(&encoded), Ok(frame));
            if kind == DATA {
                prop_assert!(encoded.len() <= DATA_OVERHEAD + bytes.len());
            }
            if kind == SEGMENT {
                prop_assert!(encoded.len() <= SEGMENT_OVERHEAD + bytes.len());
            }
            if kind == DATAGRAM {
                prop_assert!(encoded.len() <= DATAGRAM_OVERHEAD + bytes.len());
            }
        }

        #[test]
        fn any_bytes_are_a_frame_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Frame::parse(&bytes);
        }
    }

    #[test]
    fn unknown_types_bits_and_trailing_bytes_are_refused() {
        for bytes in
            [&[][..], &[0], &[10, 0], &[DATA, 4, 0], &[FIN, 0, 0], &[TAKEN, 2, 0], &[RESET, 0, 0], &[RESET, 10, 0]]
        {
            assert_eq!(Frame::parse(bytes), Err(MalformedFrame), "{bytes:?}");
        }
    }
}
