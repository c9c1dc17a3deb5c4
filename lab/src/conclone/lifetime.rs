//! How long until all links have failed? Each fails after an exponentially distributed time [CONCLONE figure 5].

use serde::Serialize;

use super::{DomainError, Probability, links, must};

/// How links fail and come back. Seconds, or any other unit of time, the same for all three.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Lifetime {
    /// Mean time until a link fails: 1/λ.
    pub mean: f64,
    /// Mean time until it is back; infinity: it never is, as in the paper.
    pub outage: f64,
    /// Mean time until all have failed that is asked for: the paper's α.
    pub wanted: f64,
}

impl Lifetime {
    /// Says what is wrong with it.
    ///
    /// # Errors
    /// [`DomainError`]: `mean` and `outage` have to be positive, `wanted` must not be negative.
    pub fn check(&self) -> Result<(), DomainError> {
        must::be_positive("the mean lifetime of a link", self.mean)?;
        must::not_be_negative("the lifetime that is wanted", self.wanted)?;
        match self.outage == f64::INFINITY {
            true => Ok(()),
            false => must::be_positive("the mean outage", self.outage),
        }
    }

    /// Mean time until all of `n` links have failed, from all of them working, none coming back: H_n / λ [CONCLONE eq. 9,
    /// with H_n instead of ln n].
    pub fn until_none(&self, n: u32) -> f64 {
        links::harmonic(n) * self.mean
    }

    /// The same as printed: ln n / λ.
    pub fn until_none_paper(&self, n: u32) -> f64 {
        links::harmonic_paper(n) * self.mean
    }

    /// The same if links come back, each after `outage` in the mean, on its own. `None` if it is more than a number can say,
    /// or more than 1000 links are asked for.
    ///
    /// From i working links to i − 1 it takes 1/(iλ), and (n − i)μ/(iλ) times the way back from i + 1.
    pub fn until_none_with_repair(&self, n: u32) -> Option<f64> {
        if n > 1_000 {
            return None;
        }
        let (mut step, mut total) = (0.0, 0.0);
        for working in (1..=n).rev() {
            let failing = self.mean / f64::from(working);
            step = failing * (1.0 + f64::from(n - working) / self.outage * step);
            total += step;
        }
        total.is_finite().then_some(total)
    }

    /// That at least one of `n` links has worked all the time up to `time`, none coming back: 1 − (1 − e^(−λt))^n.
    pub fn survival(&self, n: u32, time: f64) -> Probability {
        let one_failed = -(-time.max(0.0) / self.mean).exp_m1();
        Probability::clamped(1.0 - one_failed.powf(f64::from(n)))
    }

    /// The least number of links for the mean lifetime that is wanted; `None` as [`links::for_lifetime`].
    pub fn links(&self) -> Option<u32> {
        links::for_lifetime(1.0 / self.mean, self.wanted)
    }

    /// The same by [CONCLONE eq. 10].
    pub fn links_paper(&self) -> Option<u32> {
        links::for_lifetime_paper(1.0 / self.mean, self.wanted)
    }

    /// The same if links come back; `None` if 1000 are not enough, which happens only where `mean` is far below `outage`.
    pub fn links_with_repair(&self) -> Option<u32> {
        let suffices = |n: &u32| self.until_none_with_repair(*n).is_none_or(|time| time >= self.wanted * (1.0 - 1e-12));
        (0..=1_000).find(suffices)
    }
}
