//! The radio by bearing from the ship's bow: where its superstructure is in the way, the rate dips each time around.

use serde::Serialize;

use super::{Sky, mbps};

/// Bearings are put together in so many sectors, the first from the bow on, clockwise.
pub const SECTORS: usize = 12;

/// What a sector is like.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Sector {
    /// Seconds in which the aircraft was in it.
    pub seconds: u64,
    /// What the radio brings then at best, Mbit/s.
    pub capacity_mbps: f64,
    /// What Aquila brought then, Mbit/s, as long as it had something to bring.
    pub aquila_mbps: f64,
}

/// Puts the seconds of flights together by their bearing. With each flight goes how many bytes came, in all, until the end of each
/// second; if it is shorter than the flight, nothing was left to be brought then.
pub fn of<'a>(flights: impl Iterator<Item = (&'a Sky, &'a [u64])>) -> Vec<Sector> {
    // Seconds and bytes of the radio, and of what was brought.
    let mut sums = vec![((0, 0.0), (0, 0.0)); SECTORS];
    for (sky, log) in flights {
        let mut before = 0;
        for (number, (bearing, second)) in sky.bearings_deg.iter().zip(&sky.seconds).enumerate() {
            let (radio, brought) = &mut sums[place(*bearing)];
            *radio = (radio.0 + 1, radio.1 + second.capacity());
            if let Some(until) = log.get(number) {
                *brought = (brought.0 + 1, brought.1 + until.saturating_sub(before) as f64);
                before = *until;
            }
        }
    }
    let sector = |((seconds, capacity), (working, came))| Sector {
        seconds,
        capacity_mbps: mbps(capacity, seconds),
        aquila_mbps: mbps(came, working),
    };
    sums.into_iter().map(sector).collect()
}

/// The worst sector's mean rate over the best one's, of what the radio brings; of those in which the aircraft was. 1 if there is none.
pub fn dip(sectors: &[Sector]) -> f64 {
    let rates = || sectors.iter().filter(|sector| sector.seconds > 0).map(|sector| sector.capacity_mbps);
    let (least, most) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    if most > 0.0 { least / most } else { 1.0 }
}

/// Where a bearing from the bow belongs, whichever way it is counted.
fn place(bearing_deg: f64) -> usize {
    let turn = bearing_deg.rem_euclid(360.0) / 360.0;
    // What rounding makes of a bearing just below 0 is a whole turn; what is no number is anywhere.
    (turn * SECTORS as f64) as usize % SECTORS
}
