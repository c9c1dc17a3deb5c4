//! Sets of bytes or of numbers, as ranges.

/// Disjoint half-open ranges, ascending; no two touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// From `start` to before `end`; nothing if that is empty.
    pub fn of(start: u64, end: u64) -> Self {
        let mut ranges = Self::default();
        ranges.insert(start, end);
        ranges
    }

    /// Adds a range; how many of it are new.
    pub fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let from = self.0.partition_point(|(_, other)| *other < start);
        let to = self.0.partition_point(|(other, _)| *other <= end);
        let known: u64 = self.0[from..to].iter().map(|(a, b)| (*b).min(end).saturating_sub((*a).max(start))).sum();
        let merged = self.0[from..to].iter().fold((start, end), |(a, b), (c, d)| (a.min(*c), b.max(*d)));
        self.0.splice(from..to, [merged]);
        end - start - known
    }

    /// Takes a range out.
    pub fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let from = self.0.partition_point(|(_, other)| *other <= start);
        let to = self.0.partition_point(|(other, _)| *other < end);
        let rest = self.0[from..to].iter().flat_map(|(a, b)| [(*a, start.min(*b)), (end.max(*a), *b)]);
        let rest: Vec<_> = rest.filter(|(a, b)| a < b).collect();
        self.0.splice(from..to, rest);
    }

    /// Takes at most `max` out of the first range, from its beginning.
    pub fn pop(&mut self, max: u64) -> Option<(u64, u64)> {
        let (start, end) = *self.0.first()?;
        let taken = end.min(start.saturating_add(max));
        self.remove(start, taken);
        (start < taken).then_some((start, taken))
    }

    /// Whether all of it is in.
    pub fn covers(&self, start: u64, end: u64) -> bool {
        let at = self.0.partition_point(|(_, other)| *other <= start);
        start >= end || self.0.get(at).is_some_and(|(a, b)| *a <= start && end <= *b)
    }

    /// Whether one is in.
    pub fn contains(&self, value: u64) -> bool {
        value < u64::MAX && self.covers(value, value + 1)
    }

    /// How many are in.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// Whether none is in.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + ExactSizeIterator {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(steps in prop::collection::vec((0..3u8, 0..60u64, 0..20u64), 0..60)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (what, start, len) in steps {
                let end = start + len;
                match what {
                    0 => {
                        let new = (start..end).filter(|n| set.insert(*n)).count() as u64;
                        prop_assert_eq!(ranges.insert(start, end), new);
                    }
                    1 => {
                        ranges.remove(start, end);
                        set.retain(|n| !(start..end).contains(n));
                    }
                    _ => if let Some((a, b)) = ranges.pop(len) {
                        prop_assert!(b - a <= len && set.first() == Some(&a));
                        prop_assert!((a..b).all(|n| set.remove(&n)));
                    } else {
                        prop_assert!(set.is_empty() || len == 0);
                    }
                }
                prop_assert_eq!(ranges.iter().flat_map(|(a, b)| a..b).collect::<Vec<_>>(), set.iter().copied().collect::<Vec<_>>());
                prop_assert!(ranges.0.is_sorted_by(|(_, a), (b, _)| a < b), "{:?}", ranges);
                prop_assert_eq!((ranges.count(), ranges.is_empty()), (set.len() as u64, set.is_empty()));
                prop_assert_eq!(ranges.covers(start, end), (start..end).all(|n| set.contains(&n)));
                prop_assert_eq!(ranges.contains(start), set.contains(&start));
            }
        }
    }
}
