//! When there is a link: seconds in which at least half of the seeds have contact, and how much each such window
//! carries.

use std::ops::Range;

use serde::Serialize;

use super::sight::Sight;
use super::volume::{quantile, seeds, try_one};
use crate::flight::Track;
use crate::radio::rate::Conditions;
use crate::scenario::Scenario;

/// Windows that are no farther apart are one, s.
const GAP_S: usize = 2;
/// Windows that are reported, at most.
const MAX_WINDOWS: usize = 1_000;

/// A time with contact.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Window {
    /// Since the beginning of the flight, s.
    pub from_s: u32,
    /// The first second after it.
    pub to_s: u32,
    /// One in ten seeds carries less, bits.
    pub p10_bits: f64,
    /// The median, bits.
    pub p50_bits: f64,
    /// One in ten seeds carries more, bits.
    pub p90_bits: f64,
}

/// Runs of seconds with contact.
pub fn spans(contact_share: &[f64]) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    for (second, _) in contact_share.iter().enumerate().filter(|(_, share)| **share >= 0.5) {
        match spans.last_mut() {
            Some(last) if second <= last.end + GAP_S => last.end = second + 1,
            _ => spans.push(second..second + 1),
        }
    }
    spans
}

/// Their volumes.
pub fn windows(scenario: &Scenario, track: &Track, sights: &[Sight], spans: &[Range<usize>]) -> Vec<Window> {
    let spans = &spans[..spans.len().min(MAX_WINDOWS)];
    let mut volumes = vec![Vec::new(); spans.len()];
    if !spans.is_empty() {
        for seed in seeds(scenario) {
            let links = try_one(scenario, track, sights, seed);
            for (span, volumes) in spans.iter().zip(&mut volumes) {
                volumes.push(links[span.clone()].iter().map(Conditions::goodput_bps).sum::<f64>());
            }
        }
    }
    let window = |(span, mut bits): (&Range<usize>, Vec<f64>)| {
        bits.sort_by(f64::total_cmp);
        Window {
            from_s: span.start as u32,
            to_s: span.end as u32,
            p10_bits: quantile(&bits, 0.1),
            p50_bits: quantile(&bits, 0.5),
            p90_bits: quantile(&bits, 0.9),
        }
    };
    spans.iter().zip(volumes).map(window).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_gaps_do_not_part_windows() {
        assert_eq!(spans(&[0.4, 0.5, 1.0, 0.0, 0.0, 0.9, 0.0, 0.0, 0.0, 1.0]), [1..6, 9..10]);
        assert_eq!(spans(&[0.1]), []);
    }
}
