//! What the paper claims, and what ns-3 3.37 gives for TCP and UDP over the same links.
//!
//! ns-3: 20 runs (1000 of the set-up), SACK, least timeout 1 s (Linux has 0.2 s), 3 s before a round trip is known. All data
//! is there at the beginning, and a run ends after 300 s. Its error model drops whole packets, so it knows no code within
//! them.

use serde::Serialize;

/// Mbit/s of what arrived, at a bit error rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ns3 {
    /// Share of wrong bits.
    pub bit_errors: f64,
    /// TCP NewReno.
    pub new_reno: f64,
    /// TCP CUBIC.
    pub cubic: f64,
    /// TCP BBR.
    pub bbr: f64,
    /// UDP at 4.416 Mbit/s.
    pub udp: f64,
}

/// Figures 21 to 24.
pub const NS3: [Ns3; 7] = [
    Ns3 { bit_errors: 0.0, new_reno: 4.734, cubic: 4.734, bbr: 4.734, udp: 4.385 },
    Ns3 { bit_errors: 1e-6, new_reno: 3.33, cubic: 4.12, bbr: 4.14, udp: 4.33 },
    Ns3 { bit_errors: 5e-6, new_reno: 0.69, cubic: 1.37, bbr: 2.75, udp: 4.12 },
    Ns3 { bit_errors: 1e-5, new_reno: 0.253, cubic: 1.26, bbr: 0.82, udp: 3.88 },
    Ns3 { bit_errors: 3.5e-5, new_reno: 0.018, cubic: 0.118, bbr: 0.015, udp: 2.86 },
    Ns3 { bit_errors: 5e-5, new_reno: 0.006, cubic: 0.012, bbr: 0.007, udp: 2.39 },
    Ns3 { bit_errors: 1e-4, new_reno: 0.0007, cubic: 0.0007, bbr: 0.0009, udp: 1.32 },
];

/// Figure 12: packet loss, and milliseconds from connecting to the first data with TCP in ns-3.
pub const NS3_SET_UP: [(f64, f64); 5] = [(0.0, 16.3), (0.05, 370.0), (0.1, 770.0), (0.15, 1260.0), (0.2, 1910.0)];

/// Figure 12 as the text has it: TCP's and AeroTP's milliseconds without loss, and at 20 %.
pub const PAPER_SET_UP: [(f64, f64, f64); 2] = [(0.0, 20.0, 9.2), (0.2, 3000.0, 10.1)];
