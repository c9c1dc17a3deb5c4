//! How much longer do all packets take than if none were lost? The next packet leaves some interval after the one before it
//! was delivered, and what is lost is sent again after a timeout.
//!
//! Everywhere `lost` is the probability that a packet is lost on all links, [`super::reliability`], and `factor` the paper's
//! k [CONCLONE eq. 4]: the first timeout, in intervals. The paper wants it above 1; any that is not negative has a meaning.

use super::Probability;

/// Time over ideal time if each timeout is as long as the first: 1 + k q / (1 − q) [CONCLONE eq. 7].
///
/// `None` if it never ends (q = 1), or if `factor` is negative or not finite.
pub fn ratio_paper(lost: Probability, factor: f64) -> Option<f64> {
    let lost = lost.get();
    finite(1.0 + checked(factor)? * lost / (1.0 - lost)).filter(|_| lost < 1.0)
}

/// The same if each timeout is twice the one before it, as TCP's is (RFC 6298 §5.5): 1 + k q / (1 − 2q). The paper's
/// geometric series [CONCLONE eq. 5] gets a factor of 2 for each term: k (q + 2 q² + 4 q³ + …).
///
/// `None` if there is no mean: with q of one half and more the rare, very long waits outweigh all others. (A real TCP stops
/// doubling after a minute or two, so its mean exists, but is of that size.) Also if `factor` is negative or not finite.
pub fn ratio(lost: Probability, factor: f64) -> Option<f64> {
    let lost = lost.get();
    finite(1.0 + checked(factor)? * lost / (1.0 - 2.0 * lost)).filter(|_| lost < 0.5)
}

/// The greatest loss of one link with which `links` alike keep the ratio of [`ratio_paper`] at `most`.
///
/// `None` without links, or if `most` is not a number from 1 on, or `factor` not positive and finite.
pub fn greatest_loss_paper(links: u32, factor: f64, most: f64) -> Option<Probability> {
    greatest(links, factor, most, 1.0)
}

/// The greatest loss of one link with which `links` alike keep the ratio of [`ratio`] at `most`; `None` likewise.
pub fn greatest_loss(links: u32, factor: f64, most: f64) -> Option<Probability> {
    greatest(links, factor, most, 2.0)
}

/// The k with which [`ratio_paper`] is `ratio`.
///
/// `None` if nothing is lost or everything, or if `ratio` is not a number from 1 on.
pub fn factor_paper(lost: Probability, ratio: f64) -> Option<f64> {
    let lost = lost.get();
    let is_possible = ratio.is_finite() && ratio >= 1.0 && lost > 0.0 && lost < 1.0;
    is_possible.then(|| (ratio - 1.0) * (1.0 - lost) / lost).and_then(finite)
}

/// With a timeout that grows by `growth`: q = r / (k + growth r), where r is what the ratio may be above 1.
fn greatest(links: u32, factor: f64, most: f64, growth: f64) -> Option<Probability> {
    let factor = checked(factor).filter(|factor| *factor > 0.0)?;
    if links == 0 || !most.is_finite() || most < 1.0 {
        return None;
    }
    let above = most - 1.0;
    // Divided by the greater of the two, so that nothing overflows.
    let lost = match above > factor {
        true => 1.0 / (factor / above + growth),
        false => above / factor / (1.0 + growth * (above / factor)),
    };
    Probability::new(lost.powf(1.0 / f64::from(links)))
}

fn checked(factor: f64) -> Option<f64> {
    (factor.is_finite() && factor >= 0.0).then_some(factor)
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}
