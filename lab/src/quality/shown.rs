//! What a pilot sees: of pictures that were filmed at some times and arrived at others, or never, which one is on the screen.

use std::ops::Range;
use std::time::Duration;

use thiserror::Error;

/// A gap between two pictures on the screen that is longer than this many pictures' time is a freeze.
const FREEZE_PICTURES: u32 = 3;

/// What became of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fate {
    /// When it was filmed, from the start of the run.
    pub filmed: Duration,
    /// What the encoder made of it; `None`: nothing, it was left out.
    pub encoded: Option<Encoded>,
    /// When all of it had arrived, from the start of the run; `None`: never.
    pub arrived: Option<Duration>,
    /// Propagation delay when it was filmed.
    pub propagation: Duration,
}

/// An encoded picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoded {
    /// A decoder can begin with it.
    pub is_recovery: bool,
}

/// Fates that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FatesError {
    /// Something arrived that was never made.
    #[error("picture {0} arrived without having been encoded")]
    NeverEncoded(usize),
    /// Something arrived before it was filmed.
    #[error("picture {0} arrived before it was filmed")]
    TooEarly(usize),
}

/// Which pictures count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// All that could be decoded, however late.
    ByIndex,
    /// Those that could be decoded within this time of being filmed.
    Live(Duration),
    /// Those that could be decoded within this time and the propagation delay.
    Over(Duration),
}

/// How pictures came.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timing {
    /// Pictures filmed.
    pub filmed: usize,
    /// Of these, left out by the encoder or before it.
    pub left_out: usize,
    /// Of these, arrived and decodable.
    pub delivered: usize,
    /// Time in which a picture stood on the screen for longer than three pictures' time, less one picture's time each.
    pub frozen: Duration,
    /// From filming to the arrival of the last byte, of all that were delivered, ascending.
    pub latencies: Vec<Duration>,
}

/// When each picture can be decoded: when it has arrived, and so has everything it refers to. Each picture refers to the one encoded before
/// it, but for recovery points.
///
/// # Errors
/// If the fates cannot be.
pub fn decodable(fates: &[Fate]) -> Result<Vec<Option<Duration>>, FatesError> {
    let mut before: Option<Duration> = None;
    let mut times = Vec::with_capacity(fates.len());
    for (number, fate) in fates.iter().enumerate() {
        let Some(encoded) = fate.encoded else {
            if fate.arrived.is_some() {
                return Err(FatesError::NeverEncoded(number));
            }
            times.push(None);
            continue;
        };
        if fate.arrived.is_some_and(|arrived| arrived < fate.filmed) {
            return Err(FatesError::TooEarly(number));
        }
        before = match (encoded.is_recovery, before) {
            (true, _) => fate.arrived,
            (false, Some(before)) => fate.arrived.map(|arrived| arrived.max(before)),
            (false, None) => None,
        };
        times.push(before);
    }
    Ok(times)
}

/// For each picture filmed, the number of the one that is seen in its place: itself if it counts, else the newest before it that does;
/// `None` before the first. `times` is what [`decodable`] gives.
pub fn shown(fates: &[Fate], times: &[Option<Duration>], view: View) -> Vec<Option<u32>> {
    let mut newest = None;
    let each = (0..).zip(fates.iter().zip(times)).map(|(number, (fate, time))| {
        let counts = time.is_some_and(|time| match view {
            View::ByIndex => true,
            View::Live(deadline) => time - fate.filmed <= deadline,
            View::Over(deadline) => time - fate.filmed <= fate.propagation + deadline,
        });
        if counts {
            newest = Some(number);
        }
        newest
    });
    each.collect()
}

/// How the pictures of a range came. `interval`: from one picture to the next.
pub fn timing(fates: &[Fate], times: &[Option<Duration>], range: Range<usize>, interval: Duration) -> Timing {
    let mut timing = Timing { filmed: range.len(), ..Timing::default() };
    let of_range = || fates[range.clone()].iter().zip(&times[range.clone()]);
    timing.left_out = of_range().filter(|(fate, _)| fate.encoded.is_none()).count();
    let delivered = of_range().filter_map(|(fate, time)| time.and(fate.arrived).map(|arrived| arrived - fate.filmed));
    timing.latencies = delivered.collect();
    timing.latencies.sort_unstable();
    timing.delivered = timing.latencies.len();
    timing.frozen = frozen(fates, times, range, interval);
    timing
}

/// Over the time from when the range's first picture was filmed to when its last one was.
fn frozen(fates: &[Fate], times: &[Option<Duration>], range: Range<usize>, interval: Duration) -> Duration {
    let [Some(first), Some(last)] = [range.start, range.end.wrapping_sub(1)].map(|number| fates.get(number)) else {
        return Duration::ZERO;
    };
    let (from, until) = (first.filmed, last.filmed);
    // Those before the range are on the screen when it begins.
    let mut changes: Vec<Duration> = times.iter().flatten().copied().filter(|time| *time < until).collect();
    changes.sort_unstable();
    let first_after = changes.partition_point(|time| *time <= from);
    let in_range = changes[first_after..].iter().copied();
    // With nothing on the screen, or something from before: counted from the range's begin at the earliest.
    let mut at = changes[..first_after].last().map_or(from, |before| (*before).max(from));
    let mut frozen = Duration::ZERO;
    for next in in_range.chain([until]) {
        let gap = next - at;
        if gap > interval * FREEZE_PICTURES {
            frozen += gap - interval;
        }
        at = next;
    }
    frozen
}

impl Timing {
    /// Share of what was filmed that was delivered, 0 to 1.
    pub fn delivered_share(&self) -> f64 {
        self.delivered as f64 / self.filmed.max(1) as f64
    }

    /// The latency that this share (0 to 1) of the delivered pictures kept, in milliseconds.
    pub fn latency_ms(&self, share: f64) -> Option<f64> {
        let rank = (share * self.latencies.len() as f64).ceil() as usize;
        let latency = self.latencies.get(rank.max(1) - 1)?;
        Some(latency.as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(100);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Pictures 100 ms apart: `i` and `p` arrive after so many ms, `I` and `P` never, `-` is left out.
    fn fates(script: &[(char, u64)]) -> Vec<Fate> {
        let fate = |(number, (kind, after)): (usize, &(char, u64))| {
            let filmed = STEP * number as u32;
            let encoded = (*kind != '-').then_some(Encoded { is_recovery: matches!(kind, 'i' | 'I') });
            Fate { filmed, encoded, arrived: kind.is_lowercase().then_some(filmed + ms(*after)), propagation: ms(20) }
        };
        script.iter().enumerate().map(fate).collect()
    }

    fn views(script: &[(char, u64)], deadline: u64) -> [Vec<Option<u32>>; 2] {
        let fates = fates(script);
        let times = decodable(&fates).unwrap();
        [View::ByIndex, View::Live(ms(deadline))].map(|view| shown(&fates, &times, view))
    }

    #[test]
    fn a_late_picture_counts_by_index_only() {
        let [by_index, live] = views(&[('i', 50), ('p', 300), ('p', 301), ('p', 50)], 300);
        assert_eq!(by_index, [Some(0), Some(1), Some(2), Some(3)]);
        // Picture 2 came 1 ms too late, and picture 3 could be decoded only after it, 201 ms after it was filmed.
        assert_eq!(live, [Some(0), Some(1), Some(1), Some(3)]);
    }

    #[test]
    fn propagation_is_added_where_that_is_asked() {
        let fates = fates(&[('i', 50), ('p', 120), ('p', 121)]);
        let over = shown(&fates, &decodable(&fates).unwrap(), View::Over(ms(100)));
        assert_eq!(over, [Some(0), Some(1), Some(1)]);
    }

    #[test]
    fn a_picture_waits_for_what_it_refers_to() {
        let [_, live] = views(&[('i', 50), ('p', 500), ('p', 50), ('i', 50)], 300);
        assert_eq!(live, [Some(0), Some(0), Some(0), Some(3)], "a recovery point waits for nothing");
    }

    #[test]
    fn after_a_loss_the_picture_stands_until_a_recovery_point() {
        let [by_index, live] = views(&[('i', 50), ('P', 0), ('p', 50), ('-', 0), ('i', 50), ('-', 0), ('p', 50)], 300);
        assert_eq!(by_index, [0, 0, 0, 0, 4, 4, 6].map(Some), "what is left out breaks nothing");
        assert_eq!(live, by_index);
    }

    #[test]
    fn nothing_is_seen_before_the_first_recovery_point() {
        let [by_index, _] = views(&[('I', 0), ('p', 50), ('i', 50)], 300);
        assert_eq!(by_index, [None, None, Some(2)]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut odd = fates(&[('-', 0), ('i', 50)]);
        odd[0].arrived = Some(ms(60));
        assert_eq!(decodable(&odd), Err(FatesError::NeverEncoded(0)));
        let mut odd = fates(&[('i', 50), ('p', 50)]);
        odd[1].arrived = Some(ms(60));
        assert_eq!(decodable(&odd), Err(FatesError::TooEarly(1)));
    }

    #[test]
    fn latencies_are_of_what_was_delivered() {
        let fates = fates(&[('i', 50), ('p', 90), ('p', 70), ('P', 0), ('p', 10), ('-', 0)]);
        let timing = timing(&fates, &decodable(&fates).unwrap(), 0..6, STEP);
        assert_eq!((timing.filmed, timing.left_out, timing.delivered), (6, 1, 3));
        assert_eq!(timing.latencies, [ms(50), ms(70), ms(90)]);
        assert_eq!([0.5, 0.95].map(|share| timing.latency_ms(share)), [Some(70.0), Some(90.0)]);
        assert_eq!(Timing::default().latency_ms(0.5), None);
    }

    #[test]
    fn a_long_gap_is_a_freeze() {
        // Shown at 50, 150, then at 650 and 750 ms, and so on.
        let script = [('i', 50), ('p', 50), ('P', 0), ('p', 9), ('p', 9), ('p', 9), ('i', 50), ('p', 50), ('p', 50)];
        let fates = fates(&script);
        let times = decodable(&fates).unwrap();
        assert_eq!(timing(&fates, &times, 0..9, STEP).frozen, ms(400));
        // From 300 ms on, 350 ms of it.
        assert_eq!(timing(&fates, &times, 3..9, STEP).frozen, ms(250));
        assert_eq!(timing(&fates, &times, 6..9, STEP).frozen, Duration::ZERO);
    }
}
