//! How old the pictures on the screens here are.

use std::time::{Duration, Instant};

use crate::wire::flow;

/// What was given out last.
#[derive(Debug, Default)]
pub(super) struct Pictures {
    /// Per video flow, when its last picture was born.
    born: [Option<Instant>; flow::MAX_VIDEO_FLOWS as usize],
    /// When the other side's process was found to be another one.
    peer_since: Option<Instant>,
}

impl Pictures {
    pub fn on_picture(&mut self, flow: usize, born: Instant) {
        self.born[flow] = Some(born);
    }

    /// The other side's process is another one, and may have fewer cameras.
    pub fn on_new_peer(&mut self, now: Instant) {
        self.peer_since = Some(now);
    }

    /// Age of the oldest picture. Those of a former process count, since they are on the screen, until there is one
    /// of the process of now: a camera that is gone would grow old for ever.
    pub fn age(&self, now: Instant) -> Option<Duration> {
        let all = || self.born.iter().flatten();
        let of_peer = all().filter(|born| Some(**born) > self.peer_since).min();
        of_peer.or_else(|| all().min()).map(|born| now.saturating_duration_since(*born))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_picture_counts_until_its_camera_went_with_its_process() {
        let (mut pictures, start) = (Pictures::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let age = |pictures: &Pictures, ms| pictures.age(at(ms)).map(|age| age.as_millis());
        assert_eq!(age(&pictures, 0), None);
        pictures.on_picture(0, at(40));
        pictures.on_picture(1, at(10));
        assert_eq!(age(&pictures, 50), Some(40));
        pictures.on_new_peer(at(1_000));
        assert_eq!(age(&pictures, 1_500), Some(1_490), "they still stand on the screens");
        // What the former process sent last may come late.
        pictures.on_picture(1, at(990));
        pictures.on_picture(0, at(2_000));
        assert_eq!([2_030, 9_000].map(|ms| age(&pictures, ms)), [Some(30), Some(7_000)]);
    }
}
