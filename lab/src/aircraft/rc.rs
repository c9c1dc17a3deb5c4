//! The sticks: RC_CHANNELS_OVERRIDE and MANUAL_CONTROL in place of a radio.

use std::time::{Duration, Instant};

pub(super) const CHANNELS: usize = 18;

/// Pulse width of a centred stick, in microseconds.
const CENTRE_US: u16 = 1500;
/// Throttle stick all the way down.
const LOW_US: u16 = 1000;

/// Channels as the radio would give them, overridden or not.
///
/// There is no radio: a channel that nobody overrides rests (throttle low, others centred). An override is forgotten when it was not
/// renewed for RC_OVERRIDE_TIME, so a lost link does not leave a stick deflected.
#[derive(Debug, Default)]
pub(super) struct Sticks {
    overrides: [Option<(u16, Instant)>; CHANNELS],
}

/// Stick deflections, each -1 to 1 except throttle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Deflection {
    /// Positive to the right.
    pub(super) roll: f64,
    /// Positive nose up, i.e. stick pulled.
    pub(super) pitch: f64,
    /// 0 to 1.
    pub(super) throttle: f64,
    /// Positive to the right.
    pub(super) yaw: f64,
}

impl Sticks {
    /// RC_CHANNELS_OVERRIDE. Channels 1 to 8: 65535 leaves as it is, 0 gives back to the radio. Channels 9 to 18: 0 and 65535 leave as it
    /// is, 65534 gives back (MAVLink common.xml, RC_CHANNELS_OVERRIDE).
    pub(super) fn on_override(&mut self, now: Instant, channels: &[u16; CHANNELS]) {
        for (n, value) in channels.iter().enumerate() {
            match (*value, n < 8) {
                (u16::MAX, _) | (0, false) => {}
                (0, true) | (65_534, false) => self.overrides[n] = None,
                (value, _) => self.overrides[n] = Some((value, now)),
            }
        }
    }

    /// MANUAL_CONTROL: `x` pitch (forward positive), `y` roll, `r` yaw, each -1000 to 1000, `z` throttle 0 to 1000; others are ignored.
    pub(super) fn on_manual_control(&mut self, now: Instant, x: i16, y: i16, z: i16, r: i16) {
        let axis =
            |value: i16| (-1000..=1000).contains(&value).then(|| (i32::from(CENTRE_US) + i32::from(value) / 2) as u16);
        let throttle = (0..=1000).contains(&z).then(|| LOW_US + z as u16);
        let pitch = x.checked_neg().and_then(axis);
        for (n, value) in [axis(y), pitch, throttle, axis(r)].into_iter().enumerate() {
            if let Some(value) = value {
                self.overrides[n] = Some((value, now));
            }
        }
    }

    /// Forgets overrides that were not renewed within `lifetime`.
    pub(super) fn expire(&mut self, now: Instant, lifetime: Duration) {
        for entry in &mut self.overrides {
            if entry.is_some_and(|(_, since)| now.saturating_duration_since(since) >= lifetime) {
                *entry = None;
            }
        }
    }

    /// Whether anyone holds a stick.
    pub(super) fn is_held(&self) -> bool {
        self.overrides[..4].iter().any(Option::is_some)
    }

    /// Pulse widths in microseconds.
    pub(super) fn channels(&self) -> [u16; CHANNELS] {
        std::array::from_fn(|n| self.overrides[n].map_or(if n == 2 { LOW_US } else { CENTRE_US }, |(value, _)| value))
    }

    pub(super) fn deflection(&self) -> Deflection {
        let channels = self.channels();
        let axis = |n: usize| ((f64::from(channels[n]) - f64::from(CENTRE_US)) / 500.0).clamp(-1.0, 1.0);
        Deflection {
            roll: axis(0),
            pitch: axis(1),
            throttle: ((f64::from(channels[2]) - f64::from(LOW_US)) / 1000.0).clamp(0.0, 1.0),
            yaw: axis(3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(3);

    fn channels(first: [u16; 4]) -> [u16; CHANNELS] {
        let mut all = [u16::MAX; CHANNELS];
        all[..4].copy_from_slice(&first);
        all
    }

    #[test]
    fn an_override_expires_exactly_when_it_was_not_renewed_in_time() {
        let start = Instant::now();
        let mut sticks = Sticks::default();
        sticks.on_override(start, &channels([1600, 1500, 1500, 1500]));
        sticks.expire(start + LIFETIME - Duration::from_nanos(1), LIFETIME);
        assert_eq!(sticks.channels()[0], 1600);
        sticks.expire(start + LIFETIME, LIFETIME);
        assert_eq!(sticks.channels()[..4], [1500, 1500, 1000, 1500]);
        assert!(!sticks.is_held());
    }

    #[test]
    fn a_channel_is_left_alone_or_given_back() {
        let start = Instant::now();
        let mut sticks = Sticks::default();
        sticks.on_override(start, &channels([1600, 1700, 1800, 1900]));
        sticks.on_override(start, &channels([u16::MAX, 0, u16::MAX, u16::MAX]));
        assert_eq!(sticks.channels()[..4], [1600, 1500, 1800, 1900]);
    }

    #[test]
    fn manual_control_moves_the_sticks() {
        let mut sticks = Sticks::default();
        sticks.on_manual_control(Instant::now(), 1000, -500, 500, 0);
        assert_eq!(sticks.channels()[..4], [1250, 1000, 1500, 1500]);
        let deflection = sticks.deflection();
        assert_eq!((deflection.roll, deflection.pitch, deflection.throttle), (-0.5, -1.0, 0.5));
    }

    #[test]
    fn values_out_of_range_are_ignored() {
        let mut sticks = Sticks::default();
        sticks.on_manual_control(Instant::now(), i16::MIN, i16::MAX, -1, i16::MAX);
        assert!(!sticks.is_held());
    }
}
