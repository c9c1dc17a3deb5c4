//! How many links are enough?

use std::f64::consts::LN_10;

use super::Probability;

/// Euler's γ, which [CONCLONE eq. 9] drops.
pub const EULER_GAMMA: f64 = 0.577_215_664_901_532_9;
/// Up to here harmonic numbers are added up; beyond, the series is exact to the last bit.
const ADDED_UP: u32 = 256;

/// The least number of links of loss `loss` over which a packet sent once over each is lost no oftener than `target`.
///
/// `None` if no number is enough, or none below 2^32.
pub fn for_loss(loss: Probability, target: Probability) -> Option<u32> {
    if target.get() >= 1.0 {
        return Some(0);
    }
    if loss.get() <= 0.0 {
        return Some(1);
    }
    if loss.get() >= 1.0 {
        return None;
    }
    let links = target.get().ln() / loss.get().ln();
    // A hair of slack: 0.1^3 is to count as 0.001.
    whole((links - 1e-9).ceil().max(1.0))
}

/// H_n = 1 + 1/2 + … + 1/n; 0 without links.
pub fn harmonic(links: u32) -> f64 {
    if links <= ADDED_UP {
        return (1..=links).rev().map(|n| 1.0 / f64::from(n)).sum();
    }
    let n = f64::from(links);
    harmonic_near(links) - 1.0 / (12.0 * n.powi(2)) + 1.0 / (120.0 * n.powi(4))
}

/// H_n as ln n + γ + 1/(2n): 7.7 per cent too much for one link, 1.4 for two, 0.15 for five. 0 without links.
pub fn harmonic_near(links: u32) -> f64 {
    if links == 0 {
        return 0.0;
    }
    let n = f64::from(links);
    n.ln() + EULER_GAMMA + 1.0 / (2.0 * n)
}

/// H_n as ln n, as [CONCLONE eq. 9] has it: too little, and nothing for a single link. 0 without links.
pub fn harmonic_paper(links: u32) -> f64 {
    if links == 0 { 0.0 } else { f64::from(links).ln() }
}

/// The least number of links whose mean lifetime H_n / λ is `wanted`, if each fails `failures` (λ) times in the unit of time
/// that `wanted` is in.
///
/// `None` if either is negative or not finite, or if it takes 2^32 or more: λ α above 22.7.
pub fn for_lifetime(failures: f64, wanted: f64) -> Option<u32> {
    let product = product(failures, wanted)?;
    if product > harmonic(u32::MAX) {
        return None;
    }
    let (mut few, mut enough) = (0, u32::MAX);
    // H of 0.6 * 2 added up may be a bit short of the 1.2 that was meant.
    let suffices = |links| harmonic(links) >= product * (1.0 - 1e-12);
    while few < enough {
        let middle = few + (enough - few) / 2;
        match suffices(middle) {
            true => enough = middle,
            false => few = middle + 1,
        }
    }
    Some(enough)
}

/// e^(λ α), rounded up, as printed [CONCLONE eq. 10]; `None` as [`for_lifetime`].
pub fn for_lifetime_paper(failures: f64, wanted: f64) -> Option<u32> {
    let product = product(failures, wanted)?;
    if product > 10.0 * LN_10 {
        return None;
    }
    whole((product.exp() - 1e-9).ceil())
}

fn product(failures: f64, wanted: f64) -> Option<f64> {
    let is_possible = |value: f64| value.is_finite() && value >= 0.0;
    let product = failures * wanted;
    (is_possible(failures) && is_possible(wanted) && product.is_finite()).then_some(product)
}

fn whole(number: f64) -> Option<u32> {
    // The cast is exact within the bounds.
    (0.0..=f64::from(u32::MAX)).contains(&number).then_some(number as u32)
}
