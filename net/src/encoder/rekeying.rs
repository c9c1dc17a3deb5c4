//! Targets for an encoder that makes a recovery point whenever it is told another one.
//!
//! A recovery point is several times as large as other pictures. Told every change, such an encoder would answer each dip of the
//! target with a burst, and the burst would be the next dip: at 1 Mbit/s that ended at a third of the link. So it is told when the
//! next picture is a recovery point anyway, and in between what differs much, or somewhat for long. What is counted are pictures,
//! not seconds: a recovery point costs as much as so many of them.

use aquila_proto::Bitrate;

/// Somewhat, and how many pictures are long.
const SOMEWHAT: f64 = 0.1;
const LONG: u32 = 60;
/// Below this share of what it works for, a target cannot wait.
const URGENT: f64 = 0.7;
/// A mean above this share of it is worth a recovery point, after so many pictures.
const RISEN: f64 = 1.3;
const RISE_AFTER: u32 = 30;
/// So many pictures are made for each target at least, so that the last burst has drained.
const LEAST_PICTURES: u32 = 10;
/// What it is told in the ordinary course is a mean over about so many pictures: a single target may be a dip.
const MEMORY: f64 = 15.0;

/// What such an encoder works for.
#[derive(Debug)]
pub struct Rekeying {
    applied: f64,
    pictures: u32,
    mean: f64,
}

impl Rekeying {
    /// One that works for this at first.
    pub fn new(first: Bitrate) -> Self {
        Self { applied: first.0 as f64, pictures: 0, mean: first.0 as f64 }
    }

    /// What to tell the encoder with the next picture, for which that target is wanted; `recovery`: it will be a recovery point.
    pub fn told(&mut self, target: Bitrate, recovery: bool) -> Bitrate {
        let target = target.0 as f64;
        self.mean += (target - self.mean) / MEMORY;
        if target < self.applied * URGENT && self.pictures >= LEAST_PICTURES {
            (self.applied, self.pictures, self.mean) = (target, 0, target);
        } else if recovery
            || self.pictures >= LONG && (self.mean / self.applied - 1.0).abs() > SOMEWHAT
            || self.pictures >= RISE_AFTER && self.mean > self.applied * RISEN
        {
            (self.applied, self.pictures) = (self.mean, 0);
        }
        self.pictures += 1;
        Bitrate(self.applied.round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What it is told with each picture, in kbit/s, for what is wanted.
    fn told(rekeying: &mut Rekeying, pictures: u64, kbps: impl Fn(u64) -> u64) -> Vec<u64> {
        (0..pictures).map(|n| rekeying.told(Bitrate::kbps(kbps(n)), false).0 / 1000).collect()
    }

    /// How often it is told something else.
    fn changes(told: &[u64]) -> usize {
        told.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }

    #[test]
    fn noise_and_short_dips_are_followed_at_recovery_points_only() {
        let mut rekeying = Rekeying::new(Bitrate::mbps(1));
        let told = told(&mut rekeying, 300, |n| if n % 20 == 7 { 750 } else { 900 + n * 37 % 200 });
        assert!(changes(&told) <= 4, "{told:?}");
        assert!(told.iter().all(|kbps| (850..=1_100).contains(kbps)), "{told:?}");
    }

    #[test]
    fn a_fall_is_followed_at_once_and_a_rise_within_a_second() {
        let mut rekeying = Rekeying::new(Bitrate::mbps(3));
        let told = told(&mut rekeying, 160, |n| if (30..90).contains(&n) { 1_000 } else { 3_000 });
        assert_eq!((told[29], told[30], told[89]), (3_000, 1_000, 1_000));
        assert!(told[121] > 2_700, "{told:?}");
    }

    #[test]
    fn a_recovery_point_on_request_brings_the_newest_mean() {
        let mut rekeying = Rekeying::new(Bitrate::mbps(1));
        assert_eq!(changes(&told(&mut rekeying, 25, |_| 1_500)), 0);
        let told = rekeying.told(Bitrate::kbps(1_500), true);
        assert!((Bitrate::kbps(1_400)..=Bitrate::kbps(1_500)).contains(&told), "{told:?}");
    }
}
