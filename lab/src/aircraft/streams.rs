//! Which telemetry is due when.

use std::time::{Duration, Instant};

use super::params::Params;

/// Faster than this no message is sent.
const SHORTEST: Duration = Duration::from_millis(20);
/// Messages of equal rate start this much apart, so that they do not come all at once.
const STAGGER: Duration = Duration::from_millis(7);
/// RADIO_STATUS cannot slow the streams further (ArduPilot: about 2 s).
const MAX_SLOWDOWN: Duration = Duration::from_millis(2_000);

/// Groups of messages whose rate is set together: by REQUEST_DATA_STREAM, and by a parameter.
///
/// Number (MAV_DATA_STREAM), parameter, messages of the group. With all groups at 4 Hz that makes 100 messages a second.
const GROUPS: [(u8, &str, &[u32]); 8] = [
    (1, "MAV1_RAW_SENS", &[id::RAW_IMU, id::SCALED_IMU2, id::SCALED_PRESSURE]),
    (
        2,
        "MAV1_EXT_STAT",
        &[
            id::SYS_STATUS,
            id::POWER_STATUS,
            id::MEMINFO,
            id::MISSION_CURRENT,
            id::GPS_RAW_INT,
            id::NAV_CONTROLLER_OUTPUT,
            id::POSITION_TARGET_GLOBAL_INT,
        ],
    ),
    (3, "MAV1_RC_CHAN", &[id::SERVO_OUTPUT_RAW, id::RC_CHANNELS]),
    (4, "MAV1_RAW_CTRL", &[]),
    (6, "MAV1_POSITION", &[id::GLOBAL_POSITION_INT, id::LOCAL_POSITION_NED]),
    (10, "MAV1_EXTRA1", &[id::ATTITUDE, id::AHRS2]),
    (11, "MAV1_EXTRA2", &[id::VFR_HUD]),
    (
        12,
        "MAV1_EXTRA3",
        &[
            id::AHRS,
            id::HWSTATUS,
            id::SYSTEM_TIME,
            id::WIND,
            id::TERRAIN_REPORT,
            id::BATTERY_STATUS,
            id::EKF_STATUS_REPORT,
            id::VIBRATION,
        ],
    ),
];

/// Message ids of the telemetry, as in common.xml and ardupilotmega.xml.
pub(super) mod id {
    pub(in crate::aircraft) const HEARTBEAT: u32 = 0;
    pub(in crate::aircraft) const SYS_STATUS: u32 = 1;
    pub(in crate::aircraft) const SYSTEM_TIME: u32 = 2;
    pub(in crate::aircraft) const GPS_RAW_INT: u32 = 24;
    pub(in crate::aircraft) const RAW_IMU: u32 = 27;
    pub(in crate::aircraft) const SCALED_PRESSURE: u32 = 29;
    pub(in crate::aircraft) const ATTITUDE: u32 = 30;
    pub(in crate::aircraft) const LOCAL_POSITION_NED: u32 = 32;
    pub(in crate::aircraft) const GLOBAL_POSITION_INT: u32 = 33;
    pub(in crate::aircraft) const SERVO_OUTPUT_RAW: u32 = 36;
    pub(in crate::aircraft) const MISSION_CURRENT: u32 = 42;
    pub(in crate::aircraft) const GPS_GLOBAL_ORIGIN: u32 = 49;
    pub(in crate::aircraft) const NAV_CONTROLLER_OUTPUT: u32 = 62;
    pub(in crate::aircraft) const RC_CHANNELS: u32 = 65;
    pub(in crate::aircraft) const VFR_HUD: u32 = 74;
    pub(in crate::aircraft) const POSITION_TARGET_GLOBAL_INT: u32 = 87;
    pub(in crate::aircraft) const SCALED_IMU2: u32 = 116;
    pub(in crate::aircraft) const POWER_STATUS: u32 = 125;
    pub(in crate::aircraft) const TERRAIN_REPORT: u32 = 136;
    pub(in crate::aircraft) const BATTERY_STATUS: u32 = 147;
    pub(in crate::aircraft) const AUTOPILOT_VERSION: u32 = 148;
    pub(in crate::aircraft) const MEMINFO: u32 = 152;
    pub(in crate::aircraft) const AHRS: u32 = 163;
    pub(in crate::aircraft) const HWSTATUS: u32 = 165;
    pub(in crate::aircraft) const WIND: u32 = 168;
    pub(in crate::aircraft) const AHRS2: u32 = 178;
    pub(in crate::aircraft) const EKF_STATUS_REPORT: u32 = 193;
    pub(in crate::aircraft) const VIBRATION: u32 = 241;
    pub(in crate::aircraft) const HOME_POSITION: u32 = 242;
    pub(in crate::aircraft) const EXTENDED_SYS_STATE: u32 = 245;
}

/// Messages that are sent only on request, singly or at an interval.
const ON_REQUEST: [u32; 4] = [id::EXTENDED_SYS_STATE, id::HOME_POSITION, id::GPS_GLOBAL_ORIGIN, id::AUTOPILOT_VERSION];

#[derive(Debug)]
struct Stream {
    id: u32,
    /// Index in [`GROUPS`].
    group: Option<usize>,
    /// From SET_MESSAGE_INTERVAL; `Some(None)` switches it off.
    own: Option<Option<Duration>>,
    next: Option<Instant>,
}

/// The schedule of all telemetry.
#[derive(Debug)]
pub(super) struct Streams {
    all: Vec<Stream>,
    rates_hz: [u16; GROUPS.len()],
    slowdown: Duration,
}

impl Streams {
    pub(super) fn new(params: &Params, now: Instant) -> Self {
        let grouped =
            GROUPS.iter().enumerate().flat_map(|(group, (_, _, ids))| ids.iter().map(move |id| (*id, Some(group))));
        let single = [id::HEARTBEAT].into_iter().chain(ON_REQUEST).map(|id| (id, None));
        let all = single.chain(grouped).map(|(id, group)| Stream { id, group, own: None, next: None }).collect();
        let mut streams = Self { all, rates_hz: [0; GROUPS.len()], slowdown: Duration::ZERO };
        streams.on_params_changed(params, now);
        for n in 0..streams.all.len() {
            streams.restart(n, now);
        }
        streams
    }

    /// Takes the rates of the groups from their parameters.
    pub(super) fn on_params_changed(&mut self, params: &Params, now: Instant) {
        for (group, (_, name, _)) in GROUPS.iter().enumerate() {
            let rate = params.value(name).clamp(0.0, 50.0) as u16;
            if std::mem::replace(&mut self.rates_hz[group], rate) != rate {
                for n in 0..self.all.len() {
                    if self.all[n].group == Some(group) {
                        self.restart(n, now);
                    }
                }
            }
        }
    }

    /// REQUEST_DATA_STREAM: sets the parameters of the groups that are meant (0 means all).
    pub(super) fn on_request(&mut self, stream: u8, rate_hz: u16, params: &mut Params, now: Instant) {
        for (number, name, _) in GROUPS {
            if stream == 0 || stream == number {
                params.set(name, f32::from(rate_hz.min(50)));
            }
        }
        self.on_params_changed(params, now);
    }

    /// SET_MESSAGE_INTERVAL: microseconds, 0 for the default, below 0 for never. `false`: no such message.
    pub(super) fn set_interval(&mut self, id: u32, interval_us: f32, now: Instant) -> bool {
        let Some(n) = self.all.iter().position(|stream| stream.id == id) else { return false };
        self.all[n].own = if interval_us == 0.0 {
            None
        } else if interval_us < 0.0 {
            Some(None)
        } else {
            Some(Some(Duration::from_micros(interval_us as u64).max(SHORTEST)))
        };
        self.restart(n, now);
        true
    }

    /// Interval of a message, without the slow-down. `None`: no such message; `Some(None)`: not sent.
    pub(super) fn interval(&self, id: u32) -> Option<Option<Duration>> {
        self.all.iter().find(|stream| stream.id == id).map(|stream| self.interval_of(stream))
    }

    /// RADIO_STATUS: the sender's buffer is `txbuf` percent free. ArduPilot's rules (GCS_MAVLINK::handle_radio_status).
    pub(super) fn on_radio_status(&mut self, txbuf: u8) {
        let ms = Duration::from_millis;
        self.slowdown = if txbuf < 20 {
            self.slowdown + ms(60)
        } else if txbuf < 50 {
            self.slowdown + ms(20)
        } else if txbuf > 95 && self.slowdown > ms(200) {
            self.slowdown.saturating_sub(ms(40))
        } else if txbuf > 90 {
            self.slowdown.saturating_sub(ms(20))
        } else {
            self.slowdown
        }
        .min(MAX_SLOWDOWN);
    }

    /// What RADIO_STATUS has added to every interval.
    pub(super) fn slowdown(&self) -> Duration {
        self.slowdown
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.all.iter().filter_map(|stream| stream.next).min()
    }

    /// The next message that is due at `now`. Call until `None`.
    ///
    /// A message that is late is sent once, and its rhythm starts anew.
    pub(super) fn poll(&mut self, now: Instant) -> Option<u32> {
        let n = (0..self.all.len())
            .filter(|n| self.all[*n].next.is_some_and(|due| due <= now))
            .min_by_key(|n| self.all[*n].next)?;
        let slowdown = if self.all[n].id == id::HEARTBEAT { Duration::ZERO } else { self.slowdown };
        let interval = self.interval_of(&self.all[n]).map(|interval| interval + slowdown);
        let stream = &mut self.all[n];
        stream.next = stream.next.zip(interval).map(|(due, interval)| {
            let next = due + interval;
            if next > now { next } else { now + interval }
        });
        Some(stream.id)
    }

    /// The first of a stream comes after its share of the stagger.
    fn restart(&mut self, n: usize, now: Instant) {
        self.all[n].next = self.interval_of(&self.all[n]).map(|interval| {
            let share = STAGGER.as_nanos() * n as u128 % interval.as_nanos();
            now + Duration::from_nanos(share as u64)
        });
    }

    fn interval_of(&self, stream: &Stream) -> Option<Duration> {
        if let Some(own) = stream.own {
            return own;
        }
        if stream.id == id::HEARTBEAT {
            return Some(Duration::from_secs(1));
        }
        let rate = self.rates_hz[stream.group?];
        (rate > 0).then(|| (Duration::from_secs(1) / u32::from(rate)).max(SHORTEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aircraft::Kind;

    const MS: Duration = Duration::from_millis(1);

    /// Messages sent in `lasts`, by id.
    fn count(streams: &mut Streams, start: Instant, lasts: Duration) -> Vec<(u32, usize)> {
        let mut sent = std::collections::BTreeMap::new();
        while let Some(due) = streams.next_due().filter(|due| *due < start + lasts) {
            while let Some(id) = streams.poll(due) {
                *sent.entry(id).or_default() += 1;
            }
        }
        sent.into_iter().collect()
    }

    fn streams() -> (Streams, Params, Instant) {
        let now = Instant::now();
        let params = Params::new(Kind::Copter);
        (Streams::new(&params, now), params, now)
    }

    #[test]
    fn all_groups_at_4_hz_make_100_messages_a_second() {
        let (mut streams, _, start) = streams();
        let sent = count(&mut streams, start, Duration::from_secs(10));
        let heartbeats = sent.iter().find(|(id, _)| *id == 0).unwrap().1;
        let total: usize = sent.iter().map(|(_, n)| n).sum();
        assert_eq!(heartbeats, 10);
        assert_eq!(total - heartbeats, 1_000);
    }

    #[test]
    fn a_data_stream_request_sets_rate_and_parameter() {
        let (mut streams, mut params, start) = streams();
        streams.on_request(0, 0, &mut params, start);
        streams.on_request(10, 10, &mut params, start);
        assert_eq!(params.value("MAV1_EXTRA1"), 10.0);
        assert_eq!(params.value("MAV1_POSITION"), 0.0);
        assert_eq!(count(&mut streams, start, Duration::from_secs(1)), [(0, 1), (id::ATTITUDE, 10), (id::AHRS2, 10)]);
    }

    #[test]
    fn a_message_interval_goes_before_the_group() {
        let (mut streams, mut params, start) = streams();
        streams.on_request(0, 0, &mut params, start);
        assert!(streams.set_interval(id::ATTITUDE, 100_000.0, start));
        assert!(streams.set_interval(id::HEARTBEAT, -1.0, start));
        assert_eq!(count(&mut streams, start, Duration::from_secs(1)), [(id::ATTITUDE, 10)]);
        assert_eq!(streams.interval(id::ATTITUDE), Some(Some(100 * MS)));
        assert_eq!(streams.interval(id::HEARTBEAT), Some(None));
        assert!(!streams.set_interval(12_345, 1.0, start));
        assert!(streams.set_interval(id::ATTITUDE, 0.0, start));
        assert_eq!(streams.interval(id::ATTITUDE), Some(None), "back to its group, which is off");
    }

    #[test]
    fn radio_status_follows_the_rules_at_their_bounds() {
        let (mut streams, ..) = streams();
        let mut after = |txbuf| {
            streams.on_radio_status(txbuf);
            streams.slowdown().as_millis()
        };
        assert_eq!([19, 20, 49, 50, 90].map(&mut after), [60, 80, 100, 100, 100]);
        assert_eq!([91, 95].map(&mut after), [80, 60]);
        assert_eq!([0; 4].map(&mut after), [120, 180, 240, 300]);
        assert_eq!([96; 4].map(&mut after), [260, 220, 180, 160], "by 40 above 200, by 20 below");
        assert_eq!([0; 40].map(&mut after)[39], 2_000);
        assert_eq!([100; 100].map(&mut after)[99], 0);
    }

    #[test]
    fn the_slowdown_is_added_to_every_interval_but_the_heartbeats() {
        let (mut streams, _, start) = streams();
        (0..4).for_each(|_| streams.on_radio_status(0)); // 240 ms: 490 ms instead of 250
        let sent = count(&mut streams, start, Duration::from_secs(49));
        assert_eq!(sent.iter().find(|(id, _)| *id == id::ATTITUDE).unwrap().1, 100);
        assert_eq!(sent[0], (0, 49));
    }

    #[test]
    fn a_late_poll_sends_once_and_not_a_burst() {
        let (mut streams, _, start) = streams();
        let late = start + Duration::from_secs(100);
        let sent = std::iter::from_fn(|| streams.poll(late)).count();
        assert_eq!(sent, 26);
    }
}
