//! How large the pictures are, and how many a second. Below some rate a smaller picture looks better than a large one of the same
//! rate: x264 superfast at 1 Mbit/s gives 10 VMAF more at 360p than at 720p.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use aquila_proto::Bitrate;

/// A size that the pictures may have: `1280x720@30:1600` is 30 pictures a second of that size, from 1600 kbit/s on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rung {
    /// Pixels.
    pub width: u16,
    /// Pixels.
    pub height: u16,
    /// Pictures a second.
    pub frames_per_second: u8,
    /// It is worth it from this rate on.
    pub from: Bitrate,
}

/// The sizes that an encoder's pictures may have, as they are configured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Sizes {
    /// They stay as they are.
    #[default]
    Same,
    /// Those that are best for the encoder, [`Ladder::H265`] or [`Ladder::DEFAULT`].
    Auto,
    /// These, from the highest rate to the lowest.
    Rungs(Vec<Rung>),
}

/// One of the sizes that are configured: `auto`, which is there alone, or a rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// All that are best.
    Auto,
    /// It.
    Rung(Rung),
}

impl Sizes {
    /// Of those that are written.
    ///
    /// # Errors
    /// If they are no ladder, or `auto` is among others.
    pub fn new(sizes: impl IntoIterator<Item = Size>) -> Result<Self, LadderError> {
        let sizes: Vec<Size> = sizes.into_iter().collect();
        match sizes[..] {
            [] => return Ok(Self::Same),
            [Size::Auto] => return Ok(Self::Auto),
            _ => {}
        }
        let rung = |size| match size {
            Size::Rung(rung) => Ok(rung),
            Size::Auto => Err(LadderError::Auto),
        };
        let rungs = sizes.into_iter().map(rung).collect::<Result<Vec<_>, _>>()?;
        Ladder::new(&rungs).map(|_| Self::Rungs(rungs))
    }

    /// Of an encoder; `None` if its pictures stay as they are.
    pub fn ladder(&self, is_h265: bool) -> Option<Ladder> {
        match self {
            Self::Same => None,
            Self::Auto if is_h265 => Ladder::new(&Ladder::H265).ok(),
            Self::Auto => Ladder::new(&Ladder::DEFAULT).ok(),
            Self::Rungs(rungs) => Ladder::new(rungs).ok(),
        }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => f.write_str("one size"),
            Self::Auto => f.write_str("sizes that are best for the encoder"),
            Self::Rungs(rungs) => {
                f.write_str("sizes")?;
                rungs.iter().try_for_each(|rung| write!(f, " {rung}"))
            }
        }
    }
}

impl FromStr for Size {
    type Err = LadderError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" { Ok(Self::Auto) } else { text.parse().map(Self::Rung) }
    }
}

/// Why a text is no rung, or rungs are no ladder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LadderError {
    /// Not read.
    #[error(
        "'{0}' is no size: write for example 1280x720@30:1600 for 30 pictures a second from 1600 kbit/s on, or auto alone"
    )]
    Rung(String),
    /// Among others.
    #[error("auto stands alone: it is all the sizes that are best for the encoder")]
    Auto,
    /// Not in order.
    #[error("sizes go from the highest rate to the lowest, and the last one is from 0 on: '{0}' is out of place")]
    Order(Rung),
}

/// The sizes, from the highest rate to the lowest, and where on them the encoder is.
#[derive(Debug, Clone)]
pub struct Ladder {
    rungs: Vec<Rung>,
    at: usize,
    /// When it was told of the first, unless it has begun anew.
    told: Option<Instant>,
    changed: Option<Instant>,
    /// Another rung would be better, since when.
    better: Option<(usize, Instant)>,
    /// A higher one would, but for a dip that lasts since then.
    dips: Option<Instant>,
    wanted: Bitrate,
}

/// The rate has to be below a rung's for this long before the next one is taken.
const DOWN_AFTER: Duration = Duration::from_millis(500);
/// And above that of a higher one, by this factor, for this long.
const UP_AFTER: Duration = Duration::from_secs(5);
const UP_BY: f64 = 1.2;
/// A dip below it that is shorter than this is none.
const DIP: Duration = Duration::from_millis(300);
/// One that was better this soon after the first, which was told before the link was found, is taken as soon as a lower one.
const START: Duration = Duration::from_millis(1500);
/// Between two changes: each begins with a recovery point.
const REST: Duration = Duration::from_secs(2);
/// More are of no use.
const MAX_RUNGS: usize = 16;

impl Ladder {
    /// 720p from 1600 kbit/s on, 540p from 1100, below it 360p, and fewer pictures a second at the bottom.
    pub const DEFAULT: [Rung; 5] = [
        Rung::new(1280, 720, 30, 1600),
        Rung::new(960, 540, 30, 1100),
        Rung::new(640, 360, 30, 350),
        Rung::new(640, 360, 20, 250),
        Rung::new(640, 360, 15, 0),
    ];

    /// The same for H.265, to which a large picture is worth it from lower rates on.
    pub const H265: [Rung; 5] = [
        Rung::new(1280, 720, 30, 1100),
        Rung::new(960, 540, 30, 600),
        Rung::new(640, 360, 30, 250),
        Rung::new(640, 360, 20, 170),
        Rung::new(640, 360, 15, 0),
    ];

    /// A ladder of these sizes.
    ///
    /// # Errors
    /// If they are not in order.
    pub fn new(rungs: &[Rung]) -> Result<Self, LadderError> {
        for pair in rungs.windows(2) {
            if pair[0].from <= pair[1].from {
                return Err(LadderError::Order(pair[1]));
            }
        }
        match rungs {
            [.., last] if last.from > Bitrate::ZERO || rungs.len() > MAX_RUNGS => Err(LadderError::Order(*last)),
            [] => Err(LadderError::Rung(String::new())),
            _ => Ok(Self {
                rungs: rungs.to_vec(),
                at: 0,
                told: None,
                changed: None,
                better: None,
                dips: None,
                wanted: Bitrate::ZERO,
            }),
        }
    }

    /// This much is to be made of it from now on: what lasts, not what works off the queue that a large picture leaves.
    pub fn want(&mut self, now: Instant, rate: Bitrate) {
        self.wanted = rate;
        let goal = self.goal();
        let waits_for_higher = self.better.is_some_and(|(better, _)| better < self.at);
        if goal < self.at || !waits_for_higher {
            self.dips = None;
        } else if now.saturating_duration_since(*self.dips.get_or_insert(now)) < DIP {
            return;
        }
        match self.better {
            _ if goal == self.at => self.better = None,
            // Further in the same direction: the time goes on.
            Some((before, since)) if (before > self.at) == (goal > self.at) => self.better = Some((goal, since)),
            _ => self.better = Some((goal, now)),
        }
    }

    /// The sizes, from the highest rate to the lowest.
    pub fn rungs(&self) -> &[Rung] {
        &self.rungs
    }

    /// The best one for a rate that stays.
    pub fn best_for(&self, rate: Bitrate) -> Rung {
        self.rungs[self.position(rate)]
    }

    /// The size to tell now, if it is time; it counts as told.
    pub fn poll(&mut self, now: Instant) -> Option<Rung> {
        if self.told.is_none() {
            if self.wanted == Bitrate::ZERO {
                return None;
            }
            // The first is told at once.
            (self.at, self.told, self.better) = (self.best(), Some(now), None);
            return Some(self.rungs[self.at]);
        }
        if self.due()? > now {
            return None;
        }
        let (goal, _) = self.better.take()?;
        (self.at, self.changed) = (goal, Some(now));
        Some(self.rungs[goal])
    }

    /// When to poll again, if nothing else happens.
    pub fn due(&self) -> Option<Instant> {
        let (goal, since) = self.better?;
        let begins = self.told.is_some_and(|told| since < told + START);
        let patience = if goal > self.at || begins { DOWN_AFTER } else { UP_AFTER };
        Some((since + patience).max(self.changed.map_or(since, |at| at + REST)))
    }

    /// What the encoder was told last.
    pub fn now(&self) -> Option<Rung> {
        self.told.map(|_| self.rungs[self.at])
    }

    /// It has begun anew, and knows nothing.
    pub fn forget(&mut self) {
        self.told = None;
    }

    fn best(&self) -> usize {
        self.position(self.wanted)
    }

    fn position(&self, rate: Bitrate) -> usize {
        self.rungs.iter().position(|rung| rate >= rung.from).unwrap_or(self.rungs.len() - 1)
    }

    /// The best one, with more asked for on the way up.
    fn goal(&self) -> usize {
        let best = self.best();
        let is_enough = |rung: &Rung| self.wanted >= rung.from * UP_BY;
        match best < self.at {
            false => best,
            true => (best..self.at).find(|at| is_enough(&self.rungs[*at])).unwrap_or(self.at),
        }
    }
}

impl Rung {
    const fn new(width: u16, height: u16, frames_per_second: u8, kbps: u64) -> Self {
        Self { width, height, frames_per_second, from: Bitrate::kbps(kbps) }
    }

    /// Whether picture `number` of a camera that films so many a second is one of them.
    pub fn takes(&self, number: u64, filmed_per_second: u32) -> bool {
        let until = |number: u64| number * u64::from(self.frames_per_second) / u64::from(filmed_per_second.max(1));
        u32::from(self.frames_per_second) >= filmed_per_second || until(number) < until(number + 1)
    }
}

impl FromStr for Rung {
    type Err = LadderError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (size, rest) = text.split_once('@')?;
            let (width, height) = size.split_once('x')?;
            let (frames, kbps) = rest.split_once(':')?;
            let (width, height) = (width.parse().ok()?, height.parse().ok()?);
            let (frames, kbps): (u8, u32) = (frames.parse().ok()?, kbps.parse().ok()?);
            let is_picture =
                (16..=8192).contains(&width) && (16..=8192).contains(&height) && width % 2 == 0 && height % 2 == 0;
            (is_picture && (1..=240).contains(&frames)).then(|| Self::new(width, height, frames, kbps.into()))
        };
        read().ok_or_else(|| LadderError::Rung(text.to_owned()))
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { width, height, frames_per_second, from } = self;
        write!(f, "{width}x{height}@{frames_per_second}:{}", from.0 / 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder() -> Ladder {
        Ladder::new(&Ladder::DEFAULT).unwrap()
    }

    fn heights(ladder: &mut Ladder, from: Instant, rates: impl IntoIterator<Item = u64>) -> Vec<(u64, u16, u8)> {
        let told = rates.into_iter().enumerate().filter_map(|(step, kbps)| {
            let now = from + Duration::from_millis(100) * step as u32;
            ladder.want(now, Bitrate::kbps(kbps));
            ladder.poll(now).map(|rung| (step as u64, rung.height, rung.frames_per_second))
        });
        told.collect()
    }

    #[test]
    fn smaller_soon_larger_late_and_not_for_a_moment() {
        let (mut ladder, start) = (ladder(), Instant::now());
        assert_eq!((ladder.poll(start), ladder.now()), (None, None), "nothing is wanted yet");
        assert_eq!(heights(&mut ladder, start, [3000]), [(0, 720, 30)], "the first at once");
        // Four tenths of a second are nothing, and neither is a little.
        let at = start + Duration::from_secs(10);
        assert!(heights(&mut ladder, at, [900, 900, 900, 900, 3000, 1600, 900]).is_empty());
        let at = start + Duration::from_secs(20);
        assert_eq!(heights(&mut ladder, at, [3000].into_iter().chain([900; 20])), [(6, 360, 30)], "past 540p");
        // Up again: by a fifth more than it takes, for five seconds.
        let at = start + Duration::from_secs(30);
        assert!(heights(&mut ladder, at, [1300; 100]).is_empty());
        let at = start + Duration::from_secs(50);
        assert_eq!(heights(&mut ladder, at, [1400; 60]), [(50, 540, 30)]);
        let at = start + Duration::from_secs(70);
        assert_eq!(heights(&mut ladder, at, [3000; 60]), [(50, 720, 30)]);
    }

    #[test]
    fn the_size_of_a_link_that_is_being_found_is_soon_the_right_one() {
        let (mut ladder, start) = (ladder(), Instant::now());
        let found = [650; 3].into_iter().chain([2800; 60]);
        assert_eq!(heights(&mut ladder, start, found), [(0, 360, 30), (8, 720, 30)]);
        let later = start + Duration::from_secs(20);
        assert_eq!(heights(&mut ladder, later, [900; 30]), [(5, 360, 30)]);
        assert_eq!(heights(&mut ladder, later + Duration::from_secs(10), [2800; 60]), [(50, 720, 30)]);
    }

    #[test]
    fn a_rate_that_swings_does_not_make_the_picture_swing() {
        let (mut ladder, start) = (ladder(), Instant::now());
        let rates = (0..3000).map(|step| if step / 20 % 2 == 0 { 1200 } else { 2500 });
        let told = heights(&mut ladder, start, rates);
        assert_eq!(told.len(), 1, "{told:?}");
    }

    #[test]
    fn a_short_dip_keeps_no_larger_picture_away() {
        let (mut ladder, start) = (ladder(), Instant::now());
        // After the first second there is enough for 720p, but for dips: of so many tenths of a second, each three seconds.
        let mut told = |from: Instant, dip: u64| {
            let rate = |step: u64| {
                if step < 20 {
                    700
                } else if step % 30 < dip {
                    900
                } else {
                    2600
                }
            };
            heights(&mut ladder, from, (0..200).map(rate))
        };
        assert!(matches!(told(start, 3)[..], [(0, 360, 30), (70..76, 720, 30)]), "three tenths");
        let later = start + Duration::from_secs(30);
        assert!(matches!(told(later, 4)[..], [(5, 360, 30)]), "more than that is no dip");
    }

    #[test]
    fn of_thirty_pictures_twenty_are_two_of_three() {
        let taken = |fps| (0..30).filter(|number| Rung::new(640, 360, fps, 0).takes(*number, 30)).count();
        assert_eq!([15, 20, 30, 60].map(taken), [15, 20, 30, 30]);
        let taken: Vec<u64> = (0..9).filter(|number| Rung::new(640, 360, 20, 0).takes(*number, 30)).collect();
        assert_eq!(taken, [1, 2, 4, 5, 7, 8]);
    }

    #[test]
    fn at_the_floor_there_are_fewer_pictures() {
        let (mut ladder, start) = (ladder(), Instant::now());
        assert_eq!(heights(&mut ladder, start, [300]), [(0, 360, 20)]);
        let at = start + Duration::from_secs(5);
        assert_eq!(heights(&mut ladder, at, [100; 10]), [(5, 360, 15)]);
        ladder.forget();
        assert_eq!(heights(&mut ladder, at + Duration::from_secs(5), [100]), [(0, 360, 15)], "told again");
    }

    #[test]
    fn the_best_sizes_are_those_of_the_encoder() {
        let read = |sizes: &[&str]| Sizes::new(sizes.iter().map(|size| size.parse().unwrap()));
        let rungs = |sizes: Sizes, is_h265| sizes.ladder(is_h265).map(|ladder| ladder.rungs().to_vec());
        let auto = read(&["auto"]).unwrap();
        assert_eq!(rungs(auto.clone(), false), Some(Ladder::DEFAULT.to_vec()));
        assert_eq!(rungs(auto, true), Some(Ladder::H265.to_vec()));
        assert_eq!(rungs(read(&[]).unwrap(), true), None);
        let own = read(&["1280x720@30:900", "640x360@30:0"]).unwrap();
        assert_eq!(own.to_string(), "sizes 1280x720@30:900 640x360@30:0");
        assert_eq!(rungs(own, true).map(|rungs| rungs.len()), Some(2));
        assert_eq!(read(&["auto", "640x360@30:0"]), Err(LadderError::Auto));
        assert!(matches!(read(&["1280x720@30:900"]), Err(LadderError::Order(_))), "the last is from 0 on");
    }

    #[test]
    fn rungs_are_read_as_they_are_written_and_have_an_order() {
        assert!(Ladder::new(&Ladder::H265).is_ok());
        for rung in Ladder::DEFAULT.into_iter().chain(Ladder::H265) {
            assert_eq!(rung.to_string().parse(), Ok(rung));
        }
        for wrong in
            ["", "1280x720", "1280x720@30", "1280x720@0:1", "1280x721@30:1", "0x0@30:1", "a@b:c", "1280x720@30:-1"]
        {
            assert!(wrong.parse::<Rung>().is_err(), "{wrong}");
        }
        let [high, .., low] = Ladder::DEFAULT;
        assert!(Ladder::new(&[low, high]).is_err() && Ladder::new(&[high]).is_err() && Ladder::new(&[]).is_err());
        assert!(Ladder::new(&[high, low]).is_ok());
    }
}
