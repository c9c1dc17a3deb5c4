//! What a flight's link will be like.
//!
//! | file | what |
//! |---|---|
//! | [`sight`] | what is certain of a second: geometry and means |
//! | [`volume`] | how much comes over, in many tries of chance |
//! | [`contact`] | when there is a link |
//! | [`files`] | what fits |
//! | [`warnings`] | what somebody should look at before |

pub mod contact;
pub mod files;
pub mod sight;
pub mod volume;
pub mod warnings;

use serde::Serialize;

use self::contact::Window;
use self::files::Fit;
use self::sight::{Geometry, Sight};
use self::volume::Volume;
use self::warnings::Warning;
use crate::flight::{Moment, Track};
use crate::radio::rate::{Conditions, RateChoice};
use crate::radio::shadowing::Shadow;
use crate::scenario::Scenario;

/// A forecast of one flight.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forecast {
    /// The flight's name.
    pub name: String,
    /// Each second of it.
    pub seconds: Vec<Second>,
    /// How much comes over.
    pub volume: Volume,
    /// When there is a link.
    pub windows: Vec<Window>,
    /// The scenario's files, first to last.
    pub files: Vec<Fit>,
    /// What somebody should look at before.
    pub warnings: Vec<Warning>,
    /// What was left out or taken otherwise in reading.
    pub notes: Vec<String>,
}

/// A second of a flight.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Second {
    /// Where the aircraft is.
    #[serde(flatten)]
    pub moment: Moment,
    /// What is certain.
    #[serde(flatten)]
    pub sight: Sight,
    /// What comes of it with the chance of the scenario's seed.
    #[serde(flatten)]
    pub link: Conditions,
    /// Share of all seeds in which there is contact.
    pub contact_share: f64,
}

impl Forecast {
    /// Of a flight in a scenario.
    pub fn new(scenario: &Scenario, name: &str, track: &Track) -> Self {
        let geometry = Geometry::new(scenario);
        let sights: Vec<Sight> = track.moments.iter().map(|moment| geometry.sight(moment)).collect();
        let links = play(scenario, track, &sights, scenario.model.seed, 0.0);
        let tries = volume::tries(scenario, track, &sights);
        let seconds: Vec<Second> = track
            .moments
            .iter()
            .zip(&sights)
            .zip(links.iter().zip(&tries.contact_share))
            .map(|((moment, sight), (link, share))| Second {
                moment: *moment,
                sight: *sight,
                link: *link,
                contact_share: *share,
            })
            .collect();
        let spans = contact::spans(&tries.contact_share);
        let windows = contact::windows(scenario, track, &sights, &spans);
        let files = files::fit(&scenario.files, &tries.bits, scenario.model.file_efficiency);
        let warnings = warnings::find(scenario, &seconds, &spans);
        let volume = Volume::new(&links, &tries.bits);
        Self { name: name.to_owned(), seconds, volume, windows, files, warnings, notes: track.notes.clone() }
    }

    /// Mean of what comes over in the median of all seeds, bit/s.
    pub fn mean_bps(&self) -> f64 {
        self.volume.p50_bits / (self.seconds.len().max(1) as f64)
    }
}

/// The link second by second, with the chance of a seed and an error of the link budget.
pub fn play(scenario: &Scenario, track: &Track, sights: &[Sight], seed: u64, budget_db: f64) -> Vec<Conditions> {
    let mut shadow = Shadow::new(scenario.model.shadowing, seed);
    let mut choice = RateChoice::new(&scenario.radio);
    let mut next = |moment: &Moment, sight: &Sight| {
        let snr_db = sight.median_snr_db + budget_db + shadow.next_db(moment.ground_speed_mps);
        choice.next(&scenario.radio, snr_db)
    };
    track.moments.iter().zip(sights).map(|(moment, sight)| next(moment, sight)).collect()
}

#[cfg(test)]
mod tests;
