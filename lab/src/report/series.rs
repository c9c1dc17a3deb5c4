//! Many points made few, without losing what matters.

/// A point; a `NaN` as its second value is a gap in the line.
pub type Point = (f64, f64);

/// At most about twice `buckets` points: of each of as many spans of equal length the least and the greatest, in their
/// order, and a gap if there was one. So peaks stay, however narrow they are.
pub fn thinned(points: &[Point], buckets: usize) -> Vec<Point> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    if points.len() <= 2 * buckets || last.0 <= first.0 {
        return points.to_vec();
    }
    let bucket = |x: f64| (((x - first.0) / (last.0 - first.0) * buckets as f64) as usize).min(buckets - 1);
    let mut kept = Vec::new();
    for span in points.chunk_by(|a, b| bucket(a.0) == bucket(b.0)) {
        let by_value = |a: &&Point, b: &&Point| a.1.total_cmp(&b.1);
        let least = span.iter().filter(|point| point.1.is_finite()).min_by(by_value);
        let greatest = span.iter().filter(|point| point.1.is_finite()).max_by(by_value);
        let mut both: Vec<Point> = least.into_iter().chain(greatest).copied().collect();
        both.sort_by(|a, b| a.0.total_cmp(&b.0));
        both.dedup();
        kept.extend(both);
        kept.extend(span.iter().find(|point| !point.1.is_finite()));
    }
    kept
}

/// Sums of `values` (time, amount) in bins of `width` from 0 on, as many as make up `length`.
pub fn binned(values: impl Iterator<Item = Point>, width: f64, length: f64) -> Vec<f64> {
    let mut bins = vec![0.0; bins_in(width, length)];
    for (at, amount) in values {
        // What comes after the end is not shown.
        if let Some(bin) = bins.get_mut((at / width).max(0.0) as usize) {
            *bin += amount;
        }
    }
    bins
}

/// Adds amounts to bins of `width`, each evenly over its span of time: from, to, amount.
pub fn spread(bins: &mut [f64], width: f64, spans: impl IntoIterator<Item = (f64, f64, f64)>) {
    for (from, to, amount) in spans {
        let (first, last) = ((from / width).max(0.0) as usize, (to / width).max(0.0) as usize);
        if first == last || to <= from {
            if let Some(bin) = bins.get_mut(last) {
                *bin += amount;
            }
            continue;
        }
        for bin in first..=last.min(bins.len().saturating_sub(1)) {
            let within = to.min((bin + 1) as f64 * width) - from.max(bin as f64 * width);
            if let Some(bin) = bins.get_mut(bin) {
                *bin += amount * within.max(0.0) / (to - from);
            }
        }
    }
}

/// How many bins of that width a length has, at most 100,000.
pub fn bins_in(width: f64, length: f64) -> usize {
    ((length / width - 1e-9).ceil().max(1.0) as usize).min(100_000)
}

/// The cumulative distribution of sorted values as a staircase of at most `steps`: value and share of `of` that is not
/// above it. The least and the greatest are exact.
pub fn distribution(sorted: &[f64], of: usize, steps: usize) -> Vec<Point> {
    let (Some(least), count) = (sorted.first(), sorted.len()) else { return Vec::new() };
    let steps = steps.clamp(1, count);
    let mut points = vec![(*least, 0.0)];
    for step in 1..=steps {
        let rank = (count * step).div_ceil(steps);
        points.push((sorted[rank - 1], rank as f64 / of.max(1) as f64));
    }
    points
}

/// Spans of time, joined where they overlap or touch.
pub fn joined(mut spans: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut all: Vec<(f64, f64)> = Vec::new();
    for (from, to) in spans {
        match all.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => all.push((from, to)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sums_and_staircases() {
        assert_eq!(binned([(0.0, 1.0), (0.9, 2.0), (1.0, 4.0), (9.0, 8.0)].into_iter(), 1.0, 2.0), [3.0, 4.0]);
        let mut bins = [0.0; 3];
        spread(&mut bins, 1.0, [(0.5, 2.5, 4.0), (1.0, 1.0, 1.0), (2.0, 9.0, 7.0), (7.0, 8.0, 5.0)]);
        assert_eq!(bins, [1.0, 3.0, 2.0]);
        assert_eq!(bins_in(0.5, 30.0), 60);
        assert_eq!(distribution(&[1.0, 2.0], 4, 10), [(1.0, 0.0), (1.0, 0.25), (2.0, 0.5)]);
        assert_eq!(joined(vec![(5.0, 6.0), (1.0, 2.0), (2.0, 3.0)]), [(1.0, 3.0), (5.0, 6.0)]);
    }

    proptest! {
        #[test]
        fn thinning_keeps_the_extremes_and_the_order(
            values in prop::collection::vec(prop_oneof![8 => 0.0..1e6f64, 1 => Just(f64::NAN)], 0..400),
            buckets in 1usize..50,
        ) {
            let points: Vec<Point> = values.iter().enumerate().map(|(n, value)| (n as f64, *value)).collect();
            let kept = thinned(&points, buckets);
            prop_assert!(kept.len() <= (3 * buckets).max(points.len().min(2 * buckets)));
            let greatest = |points: &[Point]| points.iter().map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
            let least = |points: &[Point]| points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
            prop_assert_eq!(greatest(&kept), greatest(&points));
            prop_assert_eq!(least(&kept), least(&points));
        }
    }
}
