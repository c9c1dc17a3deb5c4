//! What a session tells its driver.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;

use super::{ParcelFate, ParcelPort};
use crate::feedback::ReportFault;
use crate::mavlink::Frame;
use crate::quic::{DisconnectReason, Transmit};
use crate::video::Packets;
use crate::{BearerId, Bitrate, Class};

/// State of the link to the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkState {
    /// No connection.
    Down,
    /// Words come in as they should.
    Up,
    /// Nothing was heard for a moment; control is being repeated.
    Stalled,
    /// Nothing was heard for so long that people should know.
    Lost,
}

impl LinkState {
    /// The best of several bearers' states is the link's.
    pub(super) const BEST_FIRST: [Self; 4] = [Self::Up, Self::Stalled, Self::Lost, Self::Down];

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
            Self::Stalled => "stalled",
            Self::Lost => "lost",
        }
    }
}

/// The next thing a driver has to do.
#[derive(Debug)]
pub enum Output<'a> {
    /// Send this packet on this bearer.
    Transmit(BearerId, Transmit, &'a [u8]),
    /// Write these bytes to the line of this bearer, a radio's; or send them as one packet.
    Line(BearerId, &'a [u8]),
    /// Something happened.
    Event(Event),
    /// Nothing more now: wait for input, at the latest until then.
    Timeout(std::time::Instant),
}

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// The link's state changed; `silence` is the age of the last word from the other side.
    State {
        /// State now.
        state: LinkState,
        /// Age of the last word.
        silence: Duration,
    },
    /// The same of one of several bearers.
    BearerState {
        /// Which.
        bearer: BearerId,
        /// State now.
        state: LinkState,
        /// Age of the last word on it.
        silence: Duration,
    },
    /// A class of traffic goes by another bearer from now on.
    Rerouted {
        /// Telemetry or Video.
        class: Class,
        /// By which now.
        bearer: BearerId,
    },
    /// A connection is complete: the other side is who we pinned.
    Connected {
        /// On this bearer.
        bearer: BearerId,
        /// Its address; a radio has none.
        remote: Option<SocketAddr>,
        /// By 0-RTT.
        resumed: bool,
    },
    /// The connection on a bearer is gone.
    Disconnected {
        /// Which.
        bearer: BearerId,
        /// Why.
        reason: DisconnectReason,
    },
    /// A bearer has no connection, or nothing was heard on it for a while: look up the other side's address again and
    /// call [`Session::reconnect`](super::Session::reconnect).
    AddressWanted(BearerId),
    /// The other side's address changed and the connection went along.
    PeerMoved {
        /// On this bearer.
        bearer: BearerId,
        /// Address before.
        from: SocketAddr,
        /// Address now.
        to: SocketAddr,
    },
    /// What the other side says of itself.
    Hello {
        /// On this bearer.
        bearer: BearerId,
        /// What it calls the bearer; may be empty.
        name: String,
        /// Its software version.
        version: String,
        /// Its protocol revision.
        revision: u64,
    },
    /// Both ends are the same side; the link is useless.
    SameSide,
    /// A MAVLink frame from the other side.
    Mavlink {
        /// The frame, byte-identical.
        frame: Frame,
        /// The class it was sent in.
        class: Class,
    },
    /// A whole video frame from the other side.
    Video {
        /// Flow, from 0.
        flow: u8,
        /// Its packets, byte-identical.
        packets: Packets,
        /// Its age: time in queues and waiting, at both ends and between, and the way itself as far as it is known.
        delay: Duration,
    },
    /// The picture of this flow is broken: the camera should make a recovery point. Four times a second in the long run, at most.
    RecoveryPointWanted {
        /// Flow, from 0.
        flow: u8,
    },
    /// What the encoder should make from now on, over all flows.
    TargetRate {
        /// It.
        target: Bitrate,
        /// What to tell an encoder that follows as [`EncoderRange::response`](crate::cc::EncoderRange) says, for its next frame to be of it.
        asked: Bitrate,
        /// What the link carries without what works off the queue of the moment: for what is to stay so for a while, as the pictures' size.
        lasting: Bitrate,
        /// What to tell an encoder that is told seldom: so much of it that there is room for its recovery points.
        seldom: Bitrate,
    },
    /// Frames had better not be encoded (`true`) until told otherwise: the link does not carry them. For encoders that cannot
    /// ask [`Session::next_frame`](super::Session::next_frame) before each; a frame that is left out costs one picture, one
    /// that is dropped later breaks those that refer to it.
    Hold(bool),
    /// The other side's bulk stream has bytes; read them with [`Session::read_bulk`](super::Session::read_bulk).
    BulkReadable,
    /// The other side's process was started anew, and with it went what it had of our bulk: a new stream has begun.
    BulkRestarted,
    /// A parcel of the other side's, see [`Session::send_parcel`](super::Session::send_parcel).
    Parcel {
        /// Whose.
        port: ParcelPort,
        /// What.
        bytes: Bytes,
    },
    /// What became of a parcel of ours.
    ParcelFate(ParcelFate),
    /// There is room for parcels of a port that was refused.
    ParcelRoom(ParcelPort),
    /// Someone unknown tried to talk to us; reported once a minute.
    Unknown {
        /// The last of them.
        from: SocketAddr,
        /// What was wrong.
        reason: String,
        /// How many since the last report.
        count: u64,
    },
    /// The other side's reports on what has arrived cannot be relied on; told once a minute.
    ReportFaults {
        /// The bearer that the last of them is about.
        bearer: BearerId,
        /// What was wrong with it.
        fault: ReportFault,
        /// How many since this was told last.
        count: u64,
    },
}

/// What an encoder that asks is told with a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameBitrate {
    /// To ask of it, so that this picture has the size that is wanted; it swings with those before.
    pub asked: Bitrate,
    /// That lasts: what the pictures' size in pixels is to be for.
    pub lasting: Bitrate,
}

impl FrameBitrate {
    /// The same for both.
    pub const fn both(rate: Bitrate) -> Self {
        Self { asked: rate, lasting: rate }
    }
}

/// What becomes of a picture that is there to be encoded; see [`Session::next_frame`](super::Session::next_frame).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameTurn {
    /// It is to be encoded, for this rate.
    Encode(FrameBitrate),
    /// The link does not take it yet. Keep it, and ask again after this.
    Wait(Duration),
    /// It is to be left out.
    LeaveOut,
}
