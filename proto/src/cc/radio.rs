//! What is known beside the packets: the radio's state, and how high the aircraft flies.

use std::time::{Duration, Instant};

/// What was not told again for so long no longer counts: the modem may be unplugged, and the aircraft elsewhere. A modem is asked each second
/// and may take three, companions send CELLULAR_STATUS every few seconds, autopilots their position more often.
pub(crate) const RADIO_HOLDS: Duration = Duration::from_secs(10);

/// What is known of the radio and of the flight; what is not known is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Radio {
    /// Height above home, metres (GLOBAL_POSITION_INT.relative_alt).
    pub altitude_m: Option<f32>,
    /// The serving cell; any number that is another in another cell.
    pub cell: Option<u64>,
    /// Reference signal received power, dBm (3GPP TS 36.214 §5.1.1).
    pub rsrp_dbm: Option<f32>,
    /// Reference signal received quality, dB (§5.1.3).
    pub rsrq_db: Option<f32>,
    /// Signal to interference and noise, dB.
    pub sinr_db: Option<f32>,
}

impl Radio {
    /// What `news` knows, and otherwise what was known.
    #[must_use]
    pub fn updated(&self, news: &Self) -> Self {
        Self {
            altitude_m: news.altitude_m.or(self.altitude_m),
            cell: news.cell.or(self.cell),
            rsrp_dbm: news.rsrp_dbm.or(self.rsrp_dbm),
            rsrq_db: news.rsrq_db.or(self.rsrq_db),
            sinr_db: news.sinr_db.or(self.sinr_db),
        }
    }
}

/// Of each thing what was told last, for as long as it counts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LatelyTold {
    altitude_m: Last<f32>,
    cell: Last<u64>,
    rsrp_dbm: Last<f32>,
    rsrq_db: Last<f32>,
    sinr_db: Last<f32>,
}

impl LatelyTold {
    pub fn on_radio(&mut self, now: Instant, news: &Radio) {
        let Radio { altitude_m, cell, rsrp_dbm, rsrq_db, sinr_db } = *news;
        self.altitude_m.update(now, altitude_m);
        self.cell.update(now, cell);
        self.rsrp_dbm.update(now, rsrp_dbm);
        self.rsrq_db.update(now, rsrq_db);
        self.sinr_db.update(now, sinr_db);
    }

    /// What was told in the last [`RADIO_HOLDS`].
    pub fn known(&self, now: Instant) -> Radio {
        Radio {
            altitude_m: self.altitude_m.known(now),
            cell: self.cell.known(now),
            rsrp_dbm: self.rsrp_dbm.known(now),
            rsrq_db: self.rsrq_db.known(now),
            sinr_db: self.sinr_db.known(now),
        }
    }
}

/// A value, and when it was told last.
#[derive(Debug, Clone, Copy)]
struct Last<T>(Option<(Instant, T)>);

impl<T> Default for Last<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Copy> Last<T> {
    fn update(&mut self, now: Instant, news: Option<T>) {
        self.0 = news.map(|value| (now, value)).or(self.0);
    }

    fn known(&self, now: Instant) -> Option<T> {
        self.0.filter(|(at, _)| now.saturating_duration_since(*at) < RADIO_HOLDS).map(|(_, value)| value)
    }
}
