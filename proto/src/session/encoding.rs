//! What a camera's encoder that asks before each frame is making, and how long it takes for that.

use std::time::{Duration, Instant};

/// What comes later than this after a question is not what was asked for.
const LONGEST: Duration = Duration::from_millis(200);

/// One that has several frames in the making is taken to be quicker, by the time from frame to frame.
#[derive(Debug, Default)]
pub(super) struct Encoding {
    current: Option<Picture>,
    /// From the question to the frame, smoothed.
    takes: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Picture {
    /// When it was its turn.
    begun: Instant,
    /// For how long it had waited for it.
    waited: Duration,
}

impl Encoding {
    /// A picture that has waited for so long is encoded from now on.
    pub fn begin(&mut self, now: Instant, waited: Duration) {
        self.current = Some(Picture { begun: now, waited });
    }

    /// How old the picture is that is being encoded; nothing if it is not known of one.
    pub fn age(&self, now: Instant) -> Duration {
        self.current.map_or(Duration::ZERO, |picture| picture.waited + picture.took(now).unwrap_or_default())
    }

    /// Its frame comes: how long it had waited for its turn.
    pub fn end(&mut self, now: Instant) -> Duration {
        let Some(picture) = self.current.take() else { return Duration::ZERO };
        if let Some(took) = picture.took(now) {
            self.takes = (self.takes * 7 + took) / 8;
        }
        picture.waited
    }

    /// How long the next one will take: what waits has so much time to leave before its frame comes.
    pub fn takes(&self) -> Duration {
        self.takes
    }
}

impl Picture {
    fn took(&self, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(self.begun)).filter(|took| *took <= LONGEST)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_frame_is_as_old_as_its_picture() {
        let (start, mut encoding) = (Instant::now(), Encoding::default());
        assert_eq!((encoding.age(start), encoding.end(start)), (ms(0), ms(0)), "nobody has asked");
        encoding.begin(start, ms(4));
        assert_eq!(encoding.age(start + ms(20)), ms(24));
        assert_eq!(encoding.end(start + ms(20)), ms(4));
        assert_eq!(encoding.age(start + ms(20)), ms(0), "none is being encoded");
        encoding.begin(start, ms(4));
        assert_eq!(encoding.age(start + ms(201)), ms(4), "it left out what it was asked to make, or stood still");
    }

    #[test]
    fn it_takes_what_it_took_of_late() {
        let (start, mut encoding) = (Instant::now(), Encoding::default());
        let mut frame = |took| {
            encoding.begin(start, ms(7));
            assert_eq!(encoding.end(start + ms(took)), ms(7));
            encoding.takes().as_millis()
        };
        assert_eq!([8, 8, 16].map(&mut frame), [1, 1, 3]);
        assert!((0..60).map(|_| frame(16)).is_sorted());
        assert_eq!(frame(16), 15);
        assert_eq!(frame(201), 15, "that is another one");
    }
}
