//! The sending half of a session (RFC 9174 §5.2).

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};

use super::TransferId;
use super::codec::{Extension, Message, Refusal, TRANSFER_LENGTH};
use super::session::{Event, Fault};

/// Why a bundle is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The session is not up yet, ends, or is over.
    #[error("the session is not up")]
    NotUp,
    /// As many as may be are under way.
    #[error("too many bundles are under way")]
    Full,
    /// No bundle has no bytes.
    #[error("a bundle without bytes")]
    Empty,
    /// The other side takes no bundle of that length.
    #[error("the peer takes {limit} bytes at most, not {len}")]
    TooLarge {
        /// Of the bundle.
        len: u64,
        /// What the peer takes.
        limit: u64,
    },
}

/// Bundles that were sent, are being sent, and are to be.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    transfers: VecDeque<Transfer>,
    next: u64,
}

#[derive(Debug)]
struct Transfer {
    id: TransferId,
    /// What was not sent.
    pieces: VecDeque<Bytes>,
    total: u64,
    sent: u64,
    acked: u64,
}

impl Outgoing {
    pub fn len(&self) -> usize {
        self.transfers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.transfers.is_empty()
    }

    /// Numbers were used up (RFC 9174 §5.2.1): this session takes no more.
    pub fn is_spent(&self) -> bool {
        self.next == u64::MAX
    }

    pub fn push(&mut self, pieces: Vec<Bytes>) -> TransferId {
        let id = TransferId(self.next);
        self.next += 1;
        let pieces: VecDeque<Bytes> = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        let total = pieces.iter().map(|piece| piece.len() as u64).sum();
        self.transfers.push_back(Transfer { id, pieces, total, sent: 0, acked: 0 });
        id
    }

    /// A segment of at most `max` bytes of data, its head first.
    pub fn next_segment(&mut self, max: u64) -> Option<Vec<Bytes>> {
        let transfer = self.transfers.iter_mut().find(|transfer| transfer.sent < transfer.total)?;
        let len = (transfer.total - transfer.sent).min(max);
        let (start, end) = (transfer.sent == 0, transfer.sent + len == transfer.total);
        // RFC 9174 §5.2.5.1: not for a transfer of one segment, whose length is plain.
        let mut extensions = Vec::new();
        if start && !end {
            let mut value = BytesMut::with_capacity(8);
            value.put_u64(transfer.total);
            extensions.push(Extension { critical: false, kind: TRANSFER_LENGTH, value: value.freeze() });
        }
        transfer.sent += len;
        let mut segment = vec![Message::Segment { start, end, id: transfer.id, extensions, len }.encode()];
        let mut left = usize::try_from(len).unwrap_or(usize::MAX);
        while left > 0 {
            let Some(piece) = transfer.pieces.front_mut() else { break };
            let taken = piece.split_to(left.min(piece.len()));
            left -= taken.len();
            segment.push(taken);
            if piece.is_empty() {
                transfer.pieces.pop_front();
            }
        }
        Some(segment)
    }

    /// The other side has this much of it. Flags are not looked at: dtn7 sends none.
    pub fn on_ack(&mut self, id: TransferId, len: u64) -> Result<Option<Event>, Fault> {
        let Some(at) = self.find(id)? else { return Ok(None) };
        let transfer = &mut self.transfers[at];
        if len > transfer.sent || len < transfer.acked {
            return Err(Fault::Ack);
        }
        transfer.acked = len;
        if len < transfer.total {
            return Ok(None);
        }
        self.transfers.remove(at);
        Ok(Some(Event::Delivered(id)))
    }

    /// The other side does not want it. No more of it is sent.
    pub fn on_refuse(&mut self, id: TransferId, reason: Refusal) -> Result<Option<Event>, Fault> {
        let Some(at) = self.find(id)? else { return Ok(None) };
        self.transfers.remove(at);
        // RFC 9174 §5.2.4: the sender may take it as received.
        Ok(Some(if reason == Refusal::Completed { Event::Delivered(id) } else { Event::Refused(id, reason) }))
    }

    /// Those that were not begun, or all; none of them is sent on.
    pub fn take(&mut self, all: bool) -> Vec<TransferId> {
        let (taken, kept) = self.transfers.drain(..).partition(|transfer| all || transfer.sent == 0);
        self.transfers = kept;
        let taken: VecDeque<Transfer> = taken;
        taken.into_iter().map(|transfer| transfer.id).collect()
    }

    /// Where it is; `None` if it was refused or acknowledged before.
    fn find(&self, id: TransferId) -> Result<Option<usize>, Fault> {
        let at = self.transfers.iter().position(|transfer| transfer.id == id);
        if at.is_none() && id.0 >= self.next { Err(Fault::NoTransfer) } else { Ok(at) }
    }
}
