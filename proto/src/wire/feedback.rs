//! Feedback: when each datagram arrived, and with which ECN mark. The content of RFC 8888, in microseconds and without
//! its fixed 16 bits per packet, since 1/1024 s is too coarse above a few Mbit/s.
//!
//! After the flow id: the reporter's clock, the first sequence number reported, and per packet, in sequence order, a
//! varint: 0 for not received, else 1 + (zigzag(arrival - arrival before it, in units of 8 µs) << 2 | ECN).

use bytes::BufMut;

use super::varint::{put_varint, take_varint};
use super::{flow, take_u16, take_u32};

/// Most packets in one report.
pub const MAX_REPORTED: usize = 512;

/// Resolution of arrival times in microseconds.
const UNIT_US: i64 = 8;

/// One report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Feedback {
    /// Reporter's clock when it sent this, in microseconds, wrapping.
    pub sent_us: u32,
    /// Sequence number of the first packet reported.
    pub first_seq: u16,
    /// Per packet from there: its arrival, or `None` for not received yet.
    pub arrivals: Vec<Option<Arrival>>,
}

/// Arrival of one datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Reporter's clock at arrival in microseconds, wrapping, to 8 µs.
    pub at_us: u32,
    /// The ECN field of the IP header: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE (RFC 3168 §5).
    pub ecn: u8,
}

impl Feedback {
    /// Writes flow id and report.
    pub fn put(&self, out: &mut impl BufMut) {
        flow::put(out, flow::FEEDBACK);
        out.put_u32(self.sent_us);
        out.put_u16(self.first_seq);
        let mut before = self.sent_us;
        for arrival in self.arrivals.iter().take(MAX_REPORTED) {
            let Some(arrival) = arrival else {
                put_varint(out, 0);
                continue;
            };
            let delta = i64::from(arrival.at_us.wrapping_sub(before) as i32).div_euclid(UNIT_US);
            before = before.wrapping_add((delta * UNIT_US) as u32);
            let zigzag = (delta << 1 ^ delta >> 63) as u64;
            put_varint(out, 1 + (zigzag << 2 | u64::from(arrival.ecn & 3)));
        }
    }

    /// Reads a report without its flow id.
    pub fn parse(mut bytes: &[u8]) -> Option<Self> {
        let sent_us = take_u32(&mut bytes)?;
        let first_seq = take_u16(&mut bytes)?;
        let mut arrivals = Vec::with_capacity(bytes.len().min(MAX_REPORTED));
        let mut before = sent_us;
        while !bytes.is_empty() {
            if arrivals.len() == MAX_REPORTED {
                return None;
            }
            let Some(value) = take_varint(&mut bytes)?.checked_sub(1) else {
                arrivals.push(None);
                continue;
            };
            let zigzag = value >> 2;
            let delta = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
            before = before.wrapping_add(delta.wrapping_mul(UNIT_US) as u32);
            arrivals.push(Some(Arrival { at_us: before, ecn: (value & 3) as u8 }));
        }
        Some(Self { sent_us, first_seq, arrivals })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arrival(at_us: u32, ecn: u8) -> Option<Arrival> {
        Some(Arrival { at_us, ecn })
    }

    #[test]
    fn a_packet_of_4_mbit_s_video_costs_two_bytes() {
        let arrivals = (0..10).map(|n| arrival(1_000_000 + n * 2_400, 2)).collect();
        let feedback = Feedback { sent_us: 1_000_000, first_seq: 65_530, arrivals };
        let mut out = Vec::new();
        feedback.put(&mut out);
        assert_eq!(out.len(), 1 + 4 + 2 + 1 + 9 * 2);
        assert_eq!(Feedback::parse(&out[1..]), Some(feedback));
    }

    #[test]
    fn more_packets_than_a_report_holds_are_refused() {
        let out = vec![0; 4 + 2 + MAX_REPORTED];
        assert!(Feedback::parse(&out).is_some());
        let out = vec![0; 4 + 2 + MAX_REPORTED + 1];
        assert!(Feedback::parse(&out).is_none());
    }

    proptest! {
        #[test]
        fn round_trip_to_the_resolution(
            sent_us: u32,
            first_seq: u16,
            steps in proptest::collection::vec(proptest::option::of((-40_000i32..40_000, 0u8..4)), 0..100),
        ) {
            let mut at = sent_us;
            let arrivals = steps.into_iter().map(|step| step.map(|(step, ecn)| {
                at = at.wrapping_add(step as u32);
                Arrival { at_us: at, ecn }
            })).collect();
            let feedback = Feedback { sent_us, first_seq, arrivals };
            let mut out = Vec::new();
            feedback.put(&mut out);
            let back = Feedback::parse(&out[1..]).unwrap();
            prop_assert_eq!(back.arrivals.len(), feedback.arrivals.len());
            for (a, b) in feedback.arrivals.iter().zip(&back.arrivals) {
                prop_assert_eq!(a.is_some(), b.is_some());
                if let (Some(a), Some(b)) = (a, b) {
                    prop_assert!(a.at_us.wrapping_sub(b.at_us) < UNIT_US as u32);
                    prop_assert_eq!(a.ecn, b.ecn);
                }
            }
        }

        #[test]
        fn garbage_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = Feedback::parse(&bytes);
        }
    }
}
