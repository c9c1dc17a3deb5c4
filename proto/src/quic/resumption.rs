//! Tickets on the client's side, and how they survive a restart.
//!
//! rustls gives no way to store a client's ticket. But a ticket follows from the handshake's seed and from the bytes that
//! came in, so we keep those of the last full handshake and, after a restart, enact it again: the same code computes the
//! same tickets. Tickets of resumed connections would need the whole chain of handshakes before them; they are used while
//! we run and not kept. Each stored ticket is marked as used before it is used.
//!
//! What is stored is as secret as the tickets themselves: it includes the handshake's ephemeral key.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use noq_proto::crypto::rustls::QuicClientConfig;
use noq_proto::crypto::{ClientConfig, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session};
use noq_proto::transport_parameters::TransportParameters;
use noq_proto::{ConnectError, ConnectionId, Side, TransportError};
use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, Version};

use super::clock::SharedClock;
use super::seeded_tls;
use super::tls::{SERVER_NAME, TICKETS};
use crate::seeded::SeededBytes;
use crate::wire::varint::{put_varint, take_varint};

/// Handshake bytes kept; a handshake with its tickets takes about 2 kB.
const MAX_TRANSCRIPT: usize = 16 << 10;
/// Tickets held; the newest are used first.
const MAX_HELD: usize = 4 * TICKETS;
/// Attempts in a row that may use up a ticket each: the other side may be switched off for hours.
const MAX_UNANSWERED: u32 = 2;
const MAGIC: &[u8] = b"aqT1";

/// The client's tickets, shared with rustls.
#[derive(Debug, Clone, Default)]
pub(super) struct TicketBook(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    tickets: VecDeque<Held>,
    /// The last full handshake, and how many of its tickets have been taken.
    transcript: Option<Transcript>,
    /// Whether tickets that come in now belong to the transcript.
    recording: bool,
    /// Enacting again: a ticket must not be offered.
    enacting: bool,
    /// Tickets taken since a handshake was last completed.
    unanswered: u32,
    /// The one of the transcript that was taken last, as long as its handshake is not completed.
    lent: Option<u64>,
    dirty: bool,
}

struct Held {
    ticket: Tls13ClientSessionValue,
    /// Position among the transcript's tickets.
    of_transcript: Option<u64>,
}

/// Everything that a handshake's tickets follow from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Transcript {
    seed: [u8; 32],
    params: Vec<u8>,
    /// When each piece of handshake data came in, in milliseconds since 1970, and the piece.
    incoming: Vec<(u64, Vec<u8>)>,
    tickets: u64,
    used: Vec<u64>,
}

impl TicketBook {
    fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to store, if it changed since the last call.
    pub fn snapshot(&self) -> Option<Vec<u8>> {
        let mut book = self.lock();
        // Asked for after each input.
        if !book.dirty {
            return None;
        }
        let snapshot = book.transcript.as_ref()?.encode();
        book.dirty = false;
        Some(snapshot)
    }

    /// Whether the next connection can be resumed.
    pub fn has_ticket(&self) -> bool {
        let book = self.lock();
        !book.enacting && book.unanswered < MAX_UNANSWERED && !book.tickets.is_empty()
    }

    /// A handshake was completed: tickets are worth using again.
    pub fn on_connected(&self) {
        let mut book = self.lock();
        book.unanswered = 0;
        book.lent = None;
    }

    /// The attempt that took the last ticket was made where there was no network, and nothing has answered it: the ticket
    /// is as good as new. If it did arrive, the other side refuses it, and the handshake is a full one. `config` as for
    /// [`TicketBook::restore`].
    pub fn on_unheard(&self, config: &Arc<rustls::ClientConfig>, clock: &SharedClock) {
        let mut book = self.lock();
        book.unanswered = book.unanswered.saturating_sub(1);
        let Some(lent) = book.lent.take() else { return };
        let Some(mut transcript) = book.transcript.take() else { return };
        transcript.used.retain(|used| *used != lent);
        // rustls tickets cannot be copied, so those of the transcript are made again.
        let others: VecDeque<Held> = book.tickets.drain(..).filter(|held| held.of_transcript.is_none()).collect();
        drop(book);
        self.restore(&transcript.encode(), config, clock);
        let mut book = self.lock();
        for held in others.into_iter().rev() {
            book.tickets.push_front(held);
        }
        book.dirty = true;
    }

    /// Brings back the tickets of a former life; `config` must be the one that will use them. Damaged or foreign bytes
    /// give no tickets.
    pub fn restore(&self, bytes: &[u8], config: &Arc<rustls::ClientConfig>, clock: &SharedClock) {
        let Some(transcript) = Transcript::decode(bytes) else { return };
        {
            let mut book = self.lock();
            book.enacting = true;
            book.recording = true;
        }
        let before = clock.since_1970();
        let enacted = transcript.enact(config, clock);
        clock.set(before);
        let mut book = self.lock();
        book.enacting = false;
        book.recording = false;
        if enacted.is_none() {
            book.tickets.clear();
            book.transcript = None;
            return;
        }
        book.tickets.retain(|held| held.of_transcript.is_none_or(|index| !transcript.used.contains(&index)));
        book.transcript = Some(transcript);
        book.dirty = false;
    }
}

impl fmt::Debug for Book {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tickets", self.tickets.len())
    }
}

impl ClientSessionStore for TicketBook {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut book = self.lock();
        let mut of_transcript = None;
        if book.recording {
            if let Some(transcript) = &mut book.transcript {
                of_transcript = Some(transcript.tickets);
                transcript.tickets += 1;
                book.dirty = true;
            } else if book.enacting {
                of_transcript = Some(book.tickets.len() as u64);
            }
        }
        if book.tickets.len() == MAX_HELD {
            book.tickets.pop_front();
        }
        book.tickets.push_back(Held { ticket, of_transcript });
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let mut book = self.lock();
        if book.enacting || book.unanswered >= MAX_UNANSWERED {
            return None;
        }
        // Those that a restart would lose go first.
        let kept = |held: &Held| held.of_transcript.is_some();
        let index = book.tickets.iter().rposition(|held| !kept(held)).or(book.tickets.len().checked_sub(1))?;
        let held = book.tickets.remove(index)?;
        book.unanswered += 1;
        if let (Some(index), Some(transcript)) = (held.of_transcript, &mut book.transcript) {
            transcript.used.push(index);
            book.dirty = true;
        }
        book.lent = held.of_transcript;
        Some(held.ticket)
    }
}

/// Starts TLS sessions from seeds, and records the full handshakes among them.
pub(super) struct ResumableClient {
    inner: QuicClientConfig,
    book: TicketBook,
    seeds: Mutex<SeededBytes>,
    clock: SharedClock,
}

impl ResumableClient {
    pub fn new(inner: QuicClientConfig, book: TicketBook, seeds: SeededBytes, clock: SharedClock) -> Self {
        Self { inner, book, seeds: Mutex::new(seeds), clock }
    }
}

impl ClientConfig for ResumableClient {
    fn start_session(
        &self,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let seed = self.seeds.lock().unwrap_or_else(PoisonError::into_inner).next_seed();
        let session = seeded_tls::with_seed(&seed, || self.inner.start_session(version, server_name, params))?;
        let full = session.early_crypto().is_none();
        let mut book = self.book.lock();
        book.recording = false;
        if !full {
            return Ok(session);
        }
        let mut encoded = Vec::new();
        params.write(&mut encoded);
        let transcript = Transcript { seed, params: encoded, ..Transcript::default() };
        drop(book);
        Ok(Box::new(Recorder {
            inner: session,
            book: self.book.clone(),
            clock: self.clock.clone(),
            transcript: Some(transcript),
        }))
    }
}

/// A session whose incoming handshake bytes are recorded.
struct Recorder {
    inner: Box<dyn Session>,
    book: TicketBook,
    clock: SharedClock,
    /// Until the handshake is complete; then it moves to the book, which a later full handshake takes it over from.
    transcript: Option<Transcript>,
}

impl Recorder {
    fn record(&mut self, piece: &[u8]) {
        let at = self.clock.since_1970().as_millis() as u64;
        match &mut self.transcript {
            Some(transcript) => transcript.push(at, piece),
            None => {
                let mut book = self.book.lock();
                if book.recording
                    && let Some(transcript) = &mut book.transcript
                {
                    transcript.push(at, piece);
                }
            }
        }
    }
}

impl Session for Recorder {
    fn initial_keys(&self, dst_cid: ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(dst_cid, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.inner.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, piece: &[u8]) -> Result<bool, TransportError> {
        if !self.inner.is_handshaking()
            && let Some(transcript) = self.transcript.take()
        {
            // What comes now are tickets: from here on the book has the transcript, in place of an older one.
            let mut book = self.book.lock();
            book.tickets.iter_mut().for_each(|held| held.of_transcript = None);
            book.transcript = Some(transcript);
            book.recording = true;
        }
        self.record(piece);
        self.inner.read_handshake(piece)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        self.inner.write_handshake(buf)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.inner.next_1rtt_keys()
    }

    fn is_valid_retry(&self, orig_dst_cid: ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

impl Transcript {
    fn push(&mut self, at: u64, piece: &[u8]) {
        let have: usize = self.incoming.iter().map(|(_, piece)| piece.len()).sum();
        if have + piece.len() <= MAX_TRANSCRIPT {
            self.incoming.push((at, piece.to_vec()));
        }
    }

    /// Plays the handshake again; its tickets go to the book through `config`.
    fn enact(&self, config: &Arc<rustls::ClientConfig>, clock: &SharedClock) -> Option<()> {
        let name = ServerName::try_from(SERVER_NAME).ok()?;
        let mut session = seeded_tls::with_seed(&self.seed, || {
            ClientConnection::new(config.clone(), Version::V1, name, self.params.clone())
        })
        .ok()?;
        let mut out = Vec::new();
        while session.write_hs(&mut out).is_some() {}
        for (at, piece) in &self.incoming {
            clock.set(Duration::from_millis(*at));
            session.read_hs(piece).ok()?;
            while session.write_hs(&mut out).is_some() {}
            out.clear();
        }
        Some(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&self.seed);
        let put_bytes = |out: &mut Vec<u8>, bytes: &[u8]| {
            put_varint(out, bytes.len() as u64);
            out.extend_from_slice(bytes);
        };
        put_bytes(&mut out, &self.params);
        put_varint(&mut out, self.incoming.len() as u64);
        for (at, piece) in &self.incoming {
            put_varint(&mut out, *at);
            put_bytes(&mut out, piece);
        }
        put_varint(&mut out, self.tickets);
        put_varint(&mut out, self.used.len() as u64);
        self.used.iter().for_each(|index| put_varint(&mut out, *index));
        let digest = ring::digest::digest(&ring::digest::SHA256, &out);
        out.extend_from_slice(digest.as_ref());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, digest) = bytes.split_last_chunk::<32>()?;
        if ring::digest::digest(&ring::digest::SHA256, body).as_ref() != digest {
            return None;
        }
        let mut rest = body.strip_prefix(MAGIC)?;
        let (seed, after) = rest.split_first_chunk::<32>()?;
        rest = after;
        let take_bytes = |rest: &mut &[u8]| {
            let len = usize::try_from(take_varint(rest)?).ok()?;
            let (bytes, after) = rest.split_at_checked(len)?;
            *rest = after;
            Some(bytes.to_vec())
        };
        let params = take_bytes(&mut rest)?;
        let pieces = take_varint(&mut rest)?;
        let mut incoming = Vec::new();
        for _ in 0..pieces {
            incoming.push((take_varint(&mut rest)?, take_bytes(&mut rest)?));
        }
        let tickets = take_varint(&mut rest)?;
        let count = take_varint(&mut rest)?;
        let mut used = Vec::new();
        for _ in 0..count {
            used.push(take_varint(&mut rest)?);
        }
        Some(Self { seed: *seed, params, incoming, tickets, used })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn transcript_round_trip_and_damage() {
        let transcript = Transcript {
            seed: [3; 32],
            params: vec![1, 2],
            incoming: vec![(1_790_000_000_000, vec![9; 300]), (1_790_000_000_100, vec![])],
            tickets: 4,
            used: vec![3, 0],
        };
        let bytes = transcript.encode();
        assert_eq!(Transcript::decode(&bytes), Some(transcript));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            assert_eq!(Transcript::decode(&damaged), None);
            assert_eq!(Transcript::decode(&bytes[..at]), None);
        }
    }

    proptest! {
        #[test]
        fn garbage_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert_eq!(Transcript::decode(&bytes), None);
        }
    }
}
