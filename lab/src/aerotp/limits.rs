//! What no transport can exceed over a link that flips bits, by formula. Bit/s of what the application gets, if the source is
//! fast enough.
//!
//! Around the payload there are 44 bytes: IP's header, AeroTP's, and a CRC. Ours has 24 more, for UDP and for the seal.

use aquila_fec::rs;
use serde::Serialize;

use super::{Channel, PACKET};

/// Bytes of headers and checks.
pub const AROUND: usize = 44;

/// The limits at a bit error rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Limits {
    /// Share of wrong bits.
    pub bit_errors: f64,
    /// Share of packets with a wrong bit.
    pub packet_errors: f64,
    /// Selective repeat that sends exactly what was lost, with full packets.
    pub arq: f64,
    /// The same with packets of the best length, in bytes.
    pub arq_best_length: f64,
    /// See `arq_best_length`.
    pub best_length: usize,
    /// The same with full packets, of which two damaged copies make a whole one.
    pub arq_combining: f64,
    /// The same with the best number of words of parity of our code.
    pub arq_with_parity: f64,
    /// See `arq_with_parity`.
    pub best_words: u16,
    /// What any code can carry: the capacity of a binary symmetric channel.
    pub capacity: f64,
    /// Packets for each that arrives, less one, without parity.
    pub arq_overhead: f64,
}

/// That a packet has a wrong bit.
pub fn packet_errors(bytes: usize, bit_errors: f64) -> f64 {
    -((-bit_errors).ln_1p() * (bytes * 8) as f64).exp_m1()
}

/// All of them for a link.
pub fn of(channel: &Channel) -> Limits {
    let (p, rate) = (channel.bit_errors, channel.rate.0 as f64);
    let goodput = |packet: usize, data: usize| rate * data as f64 / packet as f64;
    let arrive = |packet| 1.0 - packet_errors(packet, p);
    let full = goodput(PACKET, PACKET - AROUND);
    let short = |packet: usize| goodput(packet, packet - AROUND) * arrive(packet);
    let best_length = (AROUND + 1..=PACKET).max_by(|a, b| short(*a).total_cmp(&short(*b))).unwrap_or(PACKET);
    let coded = |words: u16| {
        let parity = 4 * usize::from(words);
        goodput(PACKET, PACKET - AROUND - parity) * (1.0 - rs::residual(PACKET - parity, words, p))
    };
    let best_words = (0..=64).max_by(|a, b| coded(*a).total_cmp(&coded(*b)).then(b.cmp(a))).unwrap_or(0);
    Limits {
        bit_errors: p,
        packet_errors: packet_errors(PACKET, p),
        arq: full * arrive(PACKET),
        arq_best_length: short(best_length),
        best_length,
        arq_combining: full / (1.0 + packet_errors(PACKET, p)),
        arq_with_parity: coded(best_words),
        best_words,
        capacity: full * (1.0 - entropy(p)),
        arq_overhead: 1.0 / arrive(PACKET) - 1.0,
    }
}

/// Of a bit.
fn entropy(p: f64) -> f64 {
    let part = |p: f64| if p > 0.0 { -p * p.log2() } else { 0.0 };
    part(p) + part(1.0 - p)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mbit/s at 10⁻⁵, 3.5·10⁻⁵ and 10⁻⁴.
    #[test]
    fn they_are_those_of_the_formulas() {
        let expected = [
            (1e-5, 0.1131, 4.305, 4.433, 4.360, 4.852),
            (3.5e-5, 0.3430, 3.189, 3.980, 3.614, 4.851),
            (1e-4, 0.6988, 1.462, 3.374, 2.857, 4.846),
        ];
        for (ber, packets, arq, short, combining, capacity) in expected {
            let limits = of(&Channel::airborne(ber));
            let close = |is: f64, wanted: f64| assert!((is / 1e6 - wanted).abs() < 0.001, "{ber}: {is} for {wanted}");
            assert!((limits.packet_errors - packets).abs() < 1e-4, "{}", limits.packet_errors);
            close(limits.arq, arq);
            close(limits.arq_best_length, short);
            close(limits.arq_combining, combining);
            close(limits.capacity, capacity);
        }
        assert_eq!(of(&Channel::airborne(1e-4)).best_length, 258);
        let none = of(&Channel::airborne(0.0));
        assert_eq!((none.packet_errors, none.best_words, none.best_length), (0.0, 0, PACKET));
        assert_eq!(none.arq, none.capacity);
    }
}
