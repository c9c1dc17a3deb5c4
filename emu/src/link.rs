//! Both directions of a link and the profile that changes them.

use std::time::Instant;

use crate::packet::Payload;
use crate::path::Path;
use crate::profile::{Change, Direction, Profile, Schedule};

/// Two paths on which a [`Profile`] is played.
///
/// Drive it so: at each wake-up, and before packets are pushed, call [`Link::poll_change`] until `None` and carry
/// address changes out; pop both paths until `None`; sleep until [`Link::next_deadline`].
#[derive(Debug)]
pub struct Link<T> {
    /// Air to ground.
    pub up: Path<T>,
    /// Ground to air.
    pub down: Path<T>,
    schedule: Schedule,
}

impl<T: Payload> Link<T> {
    /// A link as the profile describes it, whose first cycle begins at `start`. The directions draw from different
    /// randomness.
    pub fn new(profile: &Profile, seed: u64, start: Instant) -> Self {
        Self {
            up: Path::new(profile.up, seed),
            // Any other seed will do; the complement cannot meet `seed` itself.
            down: Path::new(profile.down, !seed),
            schedule: Schedule::new(profile, start),
        }
    }

    /// Carries out the next change that is due at `now` and tells it, with the time at which it was due. Call until
    /// `None`.
    ///
    /// A change that is polled late still takes effect at its own time unless a path has been used with a later one
    /// since.
    pub fn poll_change(&mut self, now: Instant) -> Option<(Instant, Change)> {
        let (due, change) = self.schedule.poll_change(now)?;
        change.apply(due, &mut self.up, &mut self.down);
        Some((due, change))
    }

    /// When the link next needs attention: a delivery or a change.
    pub fn next_deadline(&self) -> Option<Instant> {
        [self.schedule.next_change(), self.up.next_delivery(), self.down.next_delivery()].into_iter().flatten().min()
    }

    /// The path of that direction.
    pub fn path(&mut self, direction: Direction) -> &mut Path<T> {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::tests::{epoch, ms};

    #[test]
    fn a_packet_sent_into_the_handover_waits_for_its_end() {
        let start = epoch();
        let mut link = Link::new(&Profile::by_name("handover").unwrap(), 1, start);
        let sent = start + ms(8_500);
        while link.poll_change(sent).is_some() {}
        link.up.push(sent, 1_250, "up").unwrap();
        link.down.push(sent, 750, "down").unwrap();
        let mut events = Vec::new();
        while let Some(at) = link.next_deadline().filter(|at| *at <= start + ms(10_000)) {
            while link.poll_change(at).is_some() {}
            events.extend(link.up.pop(at).map(|packet| (at - start, packet)));
            events.extend(link.down.pop(at).map(|packet| (at - start, packet)));
        }
        // 750 bytes take 1 ms at 6 Mbit/s; 1,250 take 2.857143 ms at the new cell's 3.5 Mbit/s. Both then take 25 ms.
        let up = ms(9_200) + std::time::Duration::from_nanos(2_857_143) + ms(25);
        assert_eq!(events, [(ms(9_226), "down"), (up, "up")]);
    }
}
