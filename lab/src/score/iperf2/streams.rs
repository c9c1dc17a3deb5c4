//! Streams of iperf 2, put together from their lines and put where they belong in time.

use std::collections::BTreeMap;

use crate::score::Test;

/// What arrived between two moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Its begin, seconds.
    pub from_s: f64,
    /// Its end, seconds; at least its begin.
    pub to_s: f64,
    /// Payload, bits.
    pub bits: f64,
}

/// One stream of a test.
#[derive(Debug, Default)]
pub struct Stream {
    /// When it began, seconds of some clock that all streams of a file have in common.
    pub began_s: Option<f64>,
    /// Number of its test, if there is no clock.
    group: usize,
    /// Since it began.
    intervals: Vec<Interval>,
    has_ended: bool,
}

/// Streams as their lines come in.
#[derive(Debug, Default)]
pub struct Streams {
    all: Vec<Stream>,
    /// Which stream a name stands for now: names come again.
    open: BTreeMap<String, usize>,
    lines: usize,
    group: usize,
    /// Whether a stream of the group has had a line.
    has_begun: bool,
}

/// Streams that overlap: a test.
#[derive(Debug, Default)]
pub struct Group {
    /// Of all of them, by the same clock.
    pub intervals: Vec<Interval>,
}

/// Most lines of figures in a file: eleven days at two a second.
const MAX_LINES: usize = 2_000_000;
/// Times are printed with a digit behind the point.
const ROUNDING_S: f64 = 0.1;
/// No stream is shorter.
const SHORTEST_S: f64 = 0.001;

impl Streams {
    /// A stream begins. Those that begin before any of them has a line belong to one test.
    pub fn begin(&mut self, name: &str, began_s: Option<f64>) {
        if std::mem::take(&mut self.has_begun) {
            self.group += 1;
        }
        self.open.insert(name.to_owned(), self.all.len());
        self.all.push(Stream { began_s, group: self.group, ..Stream::default() });
    }

    /// A line. `ends_s` is when it was printed.
    ///
    /// # Errors
    /// If it makes no sense.
    pub fn line(&mut self, name: &str, interval: Interval, ends_s: Option<f64>) -> Result<(), String> {
        let Interval { from_s, to_s, .. } = interval;
        if to_s < from_s {
            return Err(format!("an interval from {from_s} to {to_s} s makes no sense"));
        }
        self.lines += 1;
        if self.lines > MAX_LINES {
            return Err(format!("more than {MAX_LINES} lines of figures"));
        }
        let open = self.open.get(name).map(|number| &mut self.all[*number]).filter(|stream| !stream.has_ended);
        let last_s = open.as_ref().and_then(|stream| stream.intervals.last()).map(|last| last.to_s);
        match (open, last_s) {
            // Of all of it: what was in the intervals, once more.
            (Some(stream), Some(last_s)) if from_s == 0.0 && to_s >= last_s - ROUNDING_S => stream.has_ended = true,
            (Some(stream), Some(last_s)) if from_s >= last_s - ROUNDING_S => stream.intervals.push(interval),
            (Some(stream), None) => stream.intervals.push(interval),
            (Some(_), Some(last_s)) if from_s > 0.0 => {
                return Err(format!("time goes back, from {last_s} to {from_s} s"));
            }
            _ => {
                self.begin(name, ends_s.map(|ends_s| ends_s - to_s));
                self.all.last_mut().expect("it was begun").intervals.push(interval);
            }
        }
        self.has_begun = true;
        Ok(())
    }

    /// All of them.
    pub fn finish(self) -> Vec<Stream> {
        self.all
    }
}

impl Group {
    /// When it begins.
    pub fn begin_s(&self) -> f64 {
        self.intervals.iter().map(|interval| interval.from_s).fold(f64::INFINITY, f64::min)
    }

    /// When it ends.
    fn end_s(&self) -> f64 {
        self.intervals.iter().map(|interval| interval.to_s).fold(0.0, f64::max)
    }

    /// All of it as a test, counted from a moment.
    pub fn test(&self, first_s: f64) -> Test {
        let (from_s, to_s) = (self.begin_s(), self.end_s());
        let bits: f64 = self.intervals.iter().map(|interval| interval.bits).sum();
        Test { from_s: from_s - first_s, to_s: to_s - first_s, mean_bps: bits / (to_s - from_s) }
    }

    fn add(&mut self, stream: Stream, at_s: f64) {
        let later =
            |interval: Interval| Interval { from_s: interval.from_s + at_s, to_s: interval.to_s + at_s, ..interval };
        self.intervals.extend(stream.intervals.into_iter().map(later));
    }
}

/// Where streams belong: by the clock if all have one, else one after the other.
pub fn groups(mut streams: Vec<Stream>) -> Vec<Group> {
    let ends = |stream: &Stream| stream.intervals.last().map_or(0.0, |last| last.to_s);
    streams.retain(|stream| stream.intervals.first().is_some_and(|first| ends(stream) > first.from_s + SHORTEST_S));
    let has_clock = streams.iter().all(|stream| stream.began_s.is_some());
    if has_clock {
        streams.sort_by(|a, b| a.began_s.unwrap_or(0.0).total_cmp(&b.began_s.unwrap_or(0.0)));
    }
    let mut groups: Vec<Group> = Vec::new();
    // Where the last group begins and ends, and its number.
    let (mut begin_s, mut end_s, mut number) = (0.0, f64::NEG_INFINITY, 0);
    for stream in streams {
        let at_s = stream.began_s.filter(|_| has_clock);
        // Stamps are of whole seconds, rounded down: what seems to begin less than one before the end began after it.
        let joins = match at_s {
            Some(at_s) => at_s < end_s && (at_s == begin_s || at_s <= end_s - 1.0),
            None => !groups.is_empty() && stream.group == number,
        };
        if !joins {
            let after_s = if end_s.is_finite() { end_s } else { 0.0 };
            begin_s = at_s.map_or(after_s, |at_s| at_s.max(end_s));
            number = stream.group;
            groups.push(Group::default());
        }
        let at_s = if joins { at_s.unwrap_or(begin_s) } else { begin_s };
        end_s = if joins { end_s.max(at_s + ends(&stream)) } else { at_s + ends(&stream) };
        groups.last_mut().expect("one was pushed").add(stream, at_s);
    }
    groups
}
