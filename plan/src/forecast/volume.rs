//! How much comes over: the flight played with one seed after the other.

use serde::Serialize;

use super::play;
use super::sight::Sight;
use crate::flight::Track;
use crate::radio::rate::Conditions;
use crate::radio::shadowing::{Shadow, Shadowing};
use crate::scenario::Scenario;

/// Bits of IP packets that arrive, of a sender that always has something to send.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Volume {
    /// One in ten seeds has less.
    pub p10_bits: f64,
    /// The median.
    pub p50_bits: f64,
    /// One in ten seeds has more.
    pub p90_bits: f64,
    /// With the scenario's seed and no error of the budget: what its trace carries.
    pub of_seed_bits: f64,
    /// How many seeds.
    pub seeds: usize,
}

/// What came of all seeds.
#[derive(Debug, Clone, PartialEq)]
pub struct Tries {
    /// Of each seed, sorted.
    pub bits: Vec<f64>,
    /// Of each second.
    pub contact_share: Vec<f64>,
}

impl Volume {
    /// Of the scenario's seed and of all.
    pub fn new(links: &[Conditions], bits: &[f64]) -> Self {
        Self {
            p10_bits: quantile(bits, 0.1),
            p50_bits: quantile(bits, 0.5),
            p90_bits: quantile(bits, 0.9),
            of_seed_bits: links.iter().map(Conditions::goodput_bps).sum(),
            seeds: bits.len(),
        }
    }
}

/// Plays all seeds of the scenario, from its own on.
pub fn tries(scenario: &Scenario, track: &Track, sights: &[Sight]) -> Tries {
    let least = scenario.radio.contact_kbps * 1e3;
    let mut contacts = vec![0u32; sights.len()];
    let mut bits = Vec::with_capacity(scenario.model.seeds as usize);
    for seed in seeds(scenario) {
        let mut sum = 0.0;
        for (link, count) in try_one(scenario, track, sights, seed).iter().zip(&mut contacts) {
            let goodput = link.goodput_bps();
            sum += goodput;
            *count += u32::from(goodput >= least);
        }
        bits.push(sum);
    }
    bits.sort_by(f64::total_cmp);
    let all = f64::from(scenario.model.seeds);
    Tries { bits, contact_share: contacts.into_iter().map(|count| f64::from(count) / all).collect() }
}

/// One try: with the seed's chance, and its error of the link budget.
pub fn try_one(scenario: &Scenario, track: &Track, sights: &[Sight], seed: u64) -> Vec<Conditions> {
    // Another stream than that of the shadowing.
    let error = Shadowing { deviation_db: scenario.model.budget_deviation_db, ..Shadowing::default() };
    let budget_db = Shadow::new(error, seed ^ u64::from_be_bytes(*b"budget--")).next_db(0.0);
    play(scenario, track, sights, seed, budget_db)
}

/// All of the scenario.
pub fn seeds(scenario: &Scenario) -> impl Iterator<Item = u64> {
    let first = scenario.model.seed;
    (0..u64::from(scenario.model.seeds)).map(move |n| first.wrapping_add(n))
}

/// Of sorted values, between them in proportion (Hyndman and Fan, 1996, type 7); 0 of none.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let (one, other) = (sorted[below], sorted[(below + 1).min(last)]);
    one + (other - one) * (place - place.floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles() {
        let values: Vec<f64> = (0..=10).map(f64::from).collect();
        assert_eq!([quantile(&values, 0.1), quantile(&values, 0.5), quantile(&values, 1.0)], [1.0, 5.0, 10.0]);
        assert_eq!((quantile(&[1.0, 2.0], 0.25), quantile(&[], 0.5)), (1.25, 0.0));
    }
}
