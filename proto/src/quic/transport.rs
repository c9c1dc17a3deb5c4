//! How we set up QUIC: its window wide, its pacer off, its MTU fixed, so that all queueing is ours.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use noq_proto::{AckFrequencyConfig, RttEstimator, TransportConfig, VarInt};

use super::lent::RttSlot;

/// Smallest UDP payload that QUIC can work with (RFC 9000 §14).
pub const MIN_MTU: u16 = 1200;

/// Streams a peer may have open at a time. Each message is one; a whole parameter set of 1348 messages fits even if
/// none of them were batched.
const MAX_STREAMS: u32 = 4096;

/// The peer acknowledges at the latest after this many packets (+1) or this much time; or after a round trip, if that is shorter.
/// Nothing of ours waits for it: control has receipts, datagrams have feedback, round trips are measured by both. `noq-proto` 1.4.0
/// gives acknowledgements packets of their own: 70 a second would be a twenty-fifth of a link of 1 Mbit/s, and ten a fifth of one of 24 kbit/s.
const ACK_THRESHOLD: u32 = 31;
const MAX_ACK_DELAY: Duration = Duration::from_millis(250);
/// The same where a borrowed controller measures round trips by them: BBR cannot do with one in 100 ms (`lab/tests/simulated/lent.rs`).
const LENT_ACK_THRESHOLD: u32 = 9;
const LENT_MAX_ACK_DELAY: Duration = Duration::from_millis(5);

/// Bytes of datagrams that wait in QUIC at most; but for a packet's worth none do.
pub(super) const SEND_BUFFER: usize = 1 << 16;

/// RTT assumed before the first sample: a cellular link's, instead of the 333 ms of RFC 9002 §6.2.2.
const INITIAL_RTT: Duration = Duration::from_millis(100);

/// Transport parameters for a UDP payload of `mtu` bytes and a connection that is given up after `idle`.
pub(super) fn config(mtu: u16, idle: Duration, gate: OpenGate) -> TransportConfig {
    let (threshold, delay) = match gate.rtt {
        Some(_) => (LENT_ACK_THRESHOLD, LENT_MAX_ACK_DELAY),
        None => (ACK_THRESHOLD, MAX_ACK_DELAY),
    };
    let mut ack = AckFrequencyConfig::default();
    ack.ack_eliciting_threshold(VarInt::from_u32(threshold)).max_ack_delay(Some(delay));
    let mut config = TransportConfig::default();
    config
        .congestion_controller_factory(Arc::new(gate))
        .ack_frequency_config(Some(ack))
        .initial_rtt(INITIAL_RTT)
        // Equal, or black-hole detection lowers the MTU after congestion loss and datagrams stop fitting.
        .initial_mtu(mtu)
        .min_mtu(mtu)
        .mtu_discovery_config(None)
        .enable_segmentation_offload(false)
        .max_idle_timeout(Some(idle.try_into().expect("an idle time-out is below 2^62 ms")))
        .max_concurrent_uni_streams(VarInt::from_u32(MAX_STREAMS))
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(Some(1 << 20))
        .datagram_send_buffer_size(SEND_BUFFER)
        .send_observed_address_reports(false);
    config
}

/// QUIC's own congestion controller, replaced by one that never holds anything back: the gate is our scheduler's.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenGate {
    /// Where a borrowed controller looks for the round-trip time.
    rtt: Option<RttSlot>,
}

impl OpenGate {
    /// A gate whose estimates of the round-trip time are left there.
    pub fn new(rtt: Option<RttSlot>) -> Self {
        Self { rtt }
    }
}

impl ControllerFactory for OpenGate {
    fn build(self: Arc<Self>, _now: Instant, _mtu: u16) -> Box<dyn Controller> {
        Box::new(Self::clone(&self))
    }
}

/// Wider than anything that can be in flight, and above `u32::MAX`, which turns the pacer off.
const NO_WINDOW: u64 = 1 << 40;

impl Controller for OpenGate {
    fn on_ack(&mut self, _now: Instant, _sent: Instant, _bytes: u64, _pn: u64, _app_limited: bool, rtt: &RttEstimator) {
        if let Some(slot) = &self.rtt {
            slot.put(rtt);
        }
    }

    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: bool, _: u64, _: u64) {}

    fn on_mtu_update(&mut self, _new_mtu: u16) {}

    fn window(&self) -> u64 {
        NO_WINDOW
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = NO_WINDOW;
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        NO_WINDOW
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
