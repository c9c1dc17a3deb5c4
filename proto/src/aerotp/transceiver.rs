//! An endpoint at one radio: framing around it, the radio's own word, and a handshake anew when nothing is heard.

use std::time::{Duration, Instant};

use super::bearer::{Framing, RadioConfig};
use super::endpoint::{Endpoint, EndpointConfig, LineConfig};
use super::line::{Deframer, LINE_OVERHEAD, LineCounters, LineEvent, put_frame};
use super::{SecurityConfig, SecurityError};
use crate::ByteCount;
use crate::mavlink::RadioStatus;
use crate::seeded::SeededBytes;

/// Without a word for this long a new handshake is tried, again and again, as long as something waits.
const ANEW: Duration = Duration::from_secs(3);

/// What an endpoint and its radio's line are together.
#[derive(Debug)]
pub(crate) struct Transceiver {
    pub endpoint: Endpoint,
    deframer: Option<Deframer>,
    initiates: bool,
    begun: Option<Instant>,
    /// The same if nothing waits: the other side may have restarted, and can say nothing before we do.
    idle: Duration,
    segment: Vec<u8>,
    /// What the radio said of itself last.
    pub status: Option<RadioStatus>,
}

impl Transceiver {
    /// One that has said nothing yet. Segments are no longer than `max_segment`; `idle` as above.
    pub fn new(
        config: &RadioConfig,
        (max_segment, max_connections, idle): (usize, usize, Duration),
        security: SecurityConfig,
        random: SeededBytes,
    ) -> Result<Self, SecurityError> {
        let initiates = security.initiates;
        let (framing, deframer) = match config.framing {
            Framing::Serial(gap) => (ByteCount::from(LINE_OVERHEAD), Some(Deframer::new(gap))),
            Framing::Packets(around) => (around, None),
        };
        let line = LineConfig { rate: config.rate, framing, shared: config.turn_around };
        let endpoint = EndpointConfig {
            reordering: config.reordering,
            protection: config.protection,
            combine: config.combine,
            patience: config.patience,
            assumed_rtt: config.assumed_rtt,
            max_connections,
            ..EndpointConfig::new(security, line, max_segment)
        };
        let endpoint = Endpoint::new(endpoint, random)?;
        Ok(Self { endpoint, deframer, initiates, begun: None, idle: idle.max(ANEW), segment: Vec::new(), status: None })
    }

    /// The side that initiates begins; the other one waits to be spoken to.
    pub fn begin(&mut self, now: Instant) {
        if self.initiates {
            self.begun = Some(now);
            self.endpoint.begin(now);
        }
    }

    /// Whether it has begun, and goes on.
    pub fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// It begins no more.
    pub fn end(&mut self) {
        self.begun = None;
    }

    /// Takes in bytes of the line, or one packet.
    pub fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) {
        match &mut self.deframer {
            Some(deframer) => {
                deframer.push(now, bytes);
                self.poll_deframer(now);
            }
            None => {
                self.segment.clear();
                self.segment.extend_from_slice(bytes);
                self.endpoint.handle_segment(now, 0, &mut self.segment);
            }
        }
    }

    fn poll_deframer(&mut self, now: Instant) {
        let Some(deframer) = &mut self.deframer else { return };
        let endpoint = &mut self.endpoint;
        while let Some(event) = deframer.poll(now, |segment| endpoint.handle_segment(now, 0, segment)) {
            if let LineEvent::Radio(status) = event {
                endpoint.on_radio_buffer(now, 0, status.txbuf);
                self.status = Some(status);
            }
        }
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        if self.deframer.as_ref().and_then(Deframer::next_deadline).is_some_and(|due| due <= now) {
            self.poll_deframer(now);
        }
        if self.anew_at().is_some_and(|at| at <= now) {
            // The other side may have restarted, and have no keys for what it hears.
            self.begin(now);
        }
        self.endpoint.handle_timeout(now);
    }

    pub fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        let line = self.deframer.as_ref().and_then(Deframer::next_deadline);
        [self.endpoint.poll_timeout(now), line, self.anew_at()].into_iter().flatten().min()
    }

    /// When the handshake is tried anew, if nothing is heard.
    fn anew_at(&self) -> Option<Instant> {
        let begun = self.begun?;
        let last = begun.max(self.endpoint.heard().unwrap_or(begun));
        Some(last + if self.endpoint.is_idle() { self.idle } else { ANEW })
    }

    /// The next bytes for the line, or packet, put into `out`; whether there are any.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        out.clear();
        if self.endpoint.poll_transmit(now, &mut self.segment).is_none() {
            return false;
        }
        match self.deframer {
            // What the endpoint makes is never too long.
            Some(_) => put_frame(out, &self.segment).is_ok(),
            None => {
                out.extend_from_slice(&self.segment);
                true
            }
        }
    }

    /// Counters of the serial line, if it is one.
    pub fn line(&self) -> LineCounters {
        self.deframer.as_ref().map(Deframer::counters).unwrap_or_default()
    }
}
