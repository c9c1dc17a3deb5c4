//! The radio between a ship and an aircraft that circles near it, second by second.

use aquila_proto::Bitrate;

/// What the radio is in a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Second {
    /// What it takes.
    pub rate: Bitrate,
    /// Share of packets lost in the air, both ways.
    pub loss: f64,
    /// Nobody is in range.
    pub away: bool,
}

/// A radio over time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Radio<'a> {
    /// What was recorded or forecast, whatever the seed; beyond its end nobody is in range.
    Trace(&'a [Second]),
    /// Of the data-mule paper's kind: between 0 and 30 Mbit/s in 40 s, and 10 to 40 % of the packets lost, more where it is slow; that
    /// share times a factor, the paper's EF.
    Circling {
        /// EF.
        factor: f64,
    },
    /// Contacts, and gaps between them.
    Contacts {
        /// Rate, Mbit/s.
        mbps: u64,
        /// Share lost in the air.
        loss: f64,
        /// Length of a contact, in seconds.
        contact: u64,
        /// Length of a gap.
        gap: u64,
    },
    /// Always the same.
    Steady {
        /// Rate, Mbit/s.
        mbps: u64,
        /// Share lost in the air.
        loss: f64,
    },
}

impl Radio<'_> {
    /// The radio in a second of a flight, which has a seed.
    pub fn at(&self, seed: u64, second: u64) -> Second {
        match *self {
            Self::Trace(seconds) => {
                let beyond = Second { rate: Bitrate(0), loss: 1.0, away: true };
                usize::try_from(second).ok().and_then(|second| seconds.get(second)).copied().unwrap_or(beyond)
            }
            Self::Circling { factor } => {
                let phase = second as f64 / 40.0 * std::f64::consts::TAU;
                let mixed = (second ^ seed << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let noise = (mixed >> 40) as f64 / f64::from(1 << 24) - 0.5;
                let mbps = (15.0 + 15.0 * phase.cos() + 3.0 * noise).clamp(0.05, 30.0);
                let loss = (0.10 + 0.30 * (1.0 - mbps / 30.0)) * factor;
                Second { rate: Bitrate((mbps * 1e6) as u64), loss, away: false }
            }
            Self::Contacts { mbps, loss, contact, gap } => {
                Second { rate: Bitrate::mbps(mbps), loss, away: second % (contact + gap) >= contact }
            }
            Self::Steady { mbps, loss } => Second { rate: Bitrate::mbps(mbps), loss, away: false },
        }
    }
}

impl Second {
    /// Bytes that it brings in this second if it is never idle: of whole packets, headers and all.
    pub fn capacity(&self) -> f64 {
        if self.away { 0.0 } else { self.rate.0 as f64 / 8.0 * (1.0 - self.loss) }
    }
}
