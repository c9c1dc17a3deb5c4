//! What the radio and the height tell of what comes: how likely the link is to fail soon, and whether the path is another one.
//!
//! It makes us impatient and careful, and asks for less; it never lets more wait in the network.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::cc::{LatelyTold, Radio};

/// Above the roofs more cells are as strong as each other, and handovers several times as frequent.
const HIGH_M: f32 = 30.0;
/// From where a signal is weak to where it is nearly none: RSRP in dBm, RSRQ and SINR in dB.
const WEAK_RSRP_DBM: (f32, f32) = (-110.0, -120.0);
const WEAK_RSRQ_DB: (f32, f32) = (-15.0, -20.0);
const WEAK_SINR_DB: (f32, f32) = (3.0, -3.0);
/// As careful as height makes, and so many handovers within this time. On the ground they come each minute or less.
const PRIOR: f64 = 0.5;
const MANY_HANDOVERS: usize = 3;
const LATELY: Duration = Duration::from_secs(60);
/// A longer path is taken to be that of a new cell for so long after the modem has told of it.
const NEW_CELL: Duration = Duration::from_secs(3);

/// What is known, and when it told of other cells.
#[derive(Debug, Default)]
pub(super) struct Outlook {
    told: LatelyTold,
    /// However long ago it was told: a modem that comes back in the same one was not handed over.
    cell: Option<u64>,
    /// The last [`MANY_HANDOVERS`], oldest first.
    handovers: VecDeque<Instant>,
}

impl Outlook {
    pub fn on_radio(&mut self, now: Instant, news: &Radio) {
        self.told.on_radio(now, news);
        if let Some(cell) = news.cell
            && self.cell.replace(cell).is_some_and(|former| former != cell)
        {
            if self.handovers.len() == MANY_HANDOVERS {
                self.handovers.pop_front();
            }
            self.handovers.push_back(now);
        }
    }

    /// Whether the modem has just told of another cell.
    pub fn is_new_cell(&self, now: Instant) -> bool {
        self.handovers.back().is_some_and(|at| now.saturating_duration_since(*at) < NEW_CELL)
    }

    /// From 0 to 1: how likely it is that the link will fail soon, or carry less.
    pub fn caution(&self, now: Instant) -> f64 {
        let Radio { altitude_m, rsrp_dbm, rsrq_db, sinr_db, .. } = self.told.known(now);
        let lately = |at: &&Instant| now.saturating_duration_since(**at) < LATELY;
        let is_high = altitude_m.is_some_and(|metres| metres > HIGH_M);
        let changes = self.handovers.iter().filter(lately).count() == MANY_HANDOVERS;
        let prior = if is_high || changes { PRIOR } else { 0.0 };
        let signals = [(rsrp_dbm, WEAK_RSRP_DBM), (rsrq_db, WEAK_RSRQ_DB), (sinr_db, WEAK_SINR_DB)];
        let weakness = signals.map(|(value, from)| value.map_or(0.0, |value| weakness(value, from)));
        weakness.into_iter().fold(prior, f64::max)
    }
}

/// From 0 at the first value, and above, to 1 at the second.
fn weakness(value: f32, (weak, none): (f32, f32)) -> f64 {
    let share = f64::from((weak - value) / (weak - none));
    // A modem may say anything.
    if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    fn of(radio: Radio) -> f64 {
        let (mut outlook, now) = (Outlook::default(), Instant::now());
        outlook.on_radio(now, &radio);
        outlook.caution(now)
    }

    #[test]
    fn each_sign_counts_and_the_worst_decides() {
        assert_eq!(of(Radio::default()), 0.0);
        assert_eq!([30.0, 31.0].map(|m| of(Radio { altitude_m: Some(m), ..Radio::default() })), [0.0, 0.5]);
        let rsrp = [-80.0, -110.0, -115.0, -140.0].map(|dbm| of(Radio { rsrp_dbm: Some(dbm), ..Radio::default() }));
        assert_eq!(rsrp, [0.0, 0.0, 0.5, 1.0]);
        let rsrq = [-10.0, -17.5, -30.0].map(|db| of(Radio { rsrq_db: Some(db), ..Radio::default() }));
        assert_eq!(rsrq, [0.0, 0.5, 1.0]);
        let sinr = [20.0, 3.0, 0.0, -10.0].map(|db| of(Radio { sinr_db: Some(db), ..Radio::default() }));
        assert_eq!(sinr, [0.0, 0.0, 0.5, 1.0]);
        let all = Radio { altitude_m: Some(99.0), rsrp_dbm: Some(-118.0), sinr_db: Some(9.0), ..Radio::default() };
        assert!((of(all) - 0.8).abs() < 1e-6);
        assert_eq!(of(Radio { sinr_db: Some(f32::NAN), rsrp_dbm: Some(f32::INFINITY), ..Radio::default() }), 0.0);
    }

    #[test]
    fn what_is_not_told_again_is_forgotten_and_the_same_cell_afterwards_is_no_handover() {
        let (mut outlook, start) = (Outlook::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let weak = Radio { cell: Some(7), rsrp_dbm: Some(-125.0), ..Radio::default() };
        outlook.on_radio(at(0), &Radio { altitude_m: Some(80.0), sinr_db: Some(-9.0), ..weak });
        // One after the other is no longer told.
        outlook.on_radio(at(5), &Radio { altitude_m: Some(80.0), ..weak });
        outlook.on_radio(at(9), &Radio { altitude_m: Some(80.0), rsrp_dbm: Some(-117.5), ..Radio::default() });
        outlook.on_radio(at(12), &Radio { altitude_m: Some(80.0), ..Radio::default() });
        assert_eq!([9, 10, 18, 19, 21, 22].map(|second| outlook.caution(at(second))), [1.0, 0.75, 0.75, 0.5, 0.5, 0.0]);
        outlook.on_radio(at(600), &Radio { cell: Some(7), ..Radio::default() });
        assert!(!outlook.is_new_cell(at(600)));
        outlook.on_radio(at(601), &Radio { cell: Some(8), ..Radio::default() });
        assert!(outlook.is_new_cell(at(601)));
    }

    #[test]
    fn many_handovers_make_careful_for_a_minute_and_each_may_be_another_path() {
        let (mut outlook, start) = (Outlook::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut cell = |now, cell| outlook.on_radio(now, &Radio { cell: Some(cell), ..Radio::default() });
        cell(at(0), 1);
        for second in [1, 2, 3] {
            cell(at(second), 1);
        }
        cell(at(10), 2);
        cell(at(20), 1);
        assert!(outlook.is_new_cell(at(22)) && !outlook.is_new_cell(at(23)));
        assert_eq!(outlook.caution(at(20)), 0.0);
        outlook.on_radio(at(30), &Radio { cell: Some(7), ..Radio::default() });
        assert_eq!([30, 69, 70].map(|second| outlook.caution(at(second))), [0.5, 0.5, 0.0]);
        for second in 100..100_000 {
            outlook.on_radio(at(second), &Radio { cell: Some(second), ..Radio::default() });
        }
        assert_eq!(outlook.handovers.len(), MANY_HANDOVERS);
    }
}
