//! Flow ids: the varint that every stream and every datagram begins with, as in RTP over QUIC
//! (draft-ietf-avtcore-rtp-over-quic-14 §5.1).

use bytes::BufMut;

use super::varint::put_varint;
use crate::sched::parcels::ParcelPort;

/// Heartbeats.
pub const HEARTBEAT: u64 = 0;
/// Arrival times of the other direction's datagrams.
pub const FEEDBACK: u64 = 1;
/// Telemetry: MAVLink frames, one after the other.
pub const TELEMETRY: u64 = 2;
/// Messages that must arrive: one or more MAVLink frames with a sequence number.
pub const MESSAGE: u64 = 3;
/// Requests for a recovery point.
pub const RECOVERY: u64 = 4;
/// What an end says of itself when a connection begins.
pub const HELLO: u64 = 5;
/// Bulk: a piece of a stream of bytes.
pub const BULK: u64 = 6;
/// Copies of messages that are sent to a client before its handshake is complete: as in a datagram of [`MESSAGE`], but behind
/// the flow id at once, since feedback does not cover them.
pub const COPIES: u64 = 7;
/// Which messages have arrived, over whatever bearer.
pub const RECEIPT: u64 = 8;
/// Repairs of video, of any flow.
pub const VIDEO_REPAIR: u64 = 9;
/// Which datagrams before those of a report have arrived.
pub const HISTORY: u64 = 10;
/// Parcels of port `n` are `PARCELS + n`, up to [`ParcelPort::COUNT`]. 48 to 55 were parcels that had a send time.
pub const PARCELS: u64 = 56;
/// Video flow `n` is `VIDEO + n`, up to [`MAX_VIDEO_FLOWS`].
pub const VIDEO: u64 = 16;
/// Video flows in a session.
pub const MAX_VIDEO_FLOWS: u64 = 16;

/// Whether a flow is one of parcels.
pub fn is_parcel(flow: u64) -> bool {
    (PARCELS..PARCELS + ParcelPort::COUNT as u64).contains(&flow)
}

/// Writes a flow id.
pub fn put(out: &mut impl BufMut, flow: u64) {
    put_varint(out, flow);
}
