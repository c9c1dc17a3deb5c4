//! A minimum over a time, that forgets.

use std::time::{Duration, Instant};

/// The smallest value of the last one to two spans: in two alternating halves, so that it needs no list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Minimum<T> {
    span: Duration,
    current: Option<T>,
    previous: Option<T>,
    began: Option<Instant>,
}

impl<T: Ord + Copy> Minimum<T> {
    pub fn new(span: Duration) -> Self {
        Self { span, current: None, previous: None, began: None }
    }

    /// Takes in a value.
    pub fn update(&mut self, now: Instant, value: T) {
        let began = *self.began.get_or_insert(now);
        let age = now.saturating_duration_since(began);
        if age >= self.span {
            self.previous = self.current.take().filter(|_| age < 2 * self.span);
            self.began = Some(now);
        }
        self.current = Some(self.current.map_or(value, |current| current.min(value)));
    }

    /// The minimum, if anything is remembered.
    pub fn value(&self) -> Option<T> {
        self.current.into_iter().chain(self.previous).min()
    }

    /// Forgets everything but this value.
    pub fn reset_to(&mut self, now: Instant, value: T) {
        *self = Self { current: Some(value), began: Some(now), ..Self::new(self.span) };
    }
}
