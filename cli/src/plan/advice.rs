//! What the other two papers say about a flight's link: how many like it a command needs [CONCLONE eq. 2], and how much
//! parity its frames would [AeroTP].

use aquila_lab::aerotp::{Channel, PACKET, limits};
use aquila_lab::conclone::{Probability, links};
use aquila_plan::forecast::Forecast;
use serde::Serialize;

/// How often a command may be lost.
const TARGET: f64 = 1e-6;

/// Advice on a flight.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Advice {
    /// That a packet which is sent once, some time in the flight, does not arrive.
    pub packet_loss: f64,
    /// Links like this one, with luck of their own, over which a packet that is sent once over each is lost no oftener
    /// than once in a million; `None` if no number is enough.
    pub links_needed: Option<u32>,
    /// That a frame of the radio is lost, once sent, mean over the flight.
    pub frame_loss: f64,
    /// Share of wrong bits that would make it so, if errors were independent.
    pub bit_errors: f64,
    /// Words of 32 bits of parity with which AeroTP would get most out of such a link, if frames were delivered
    /// damaged.
    pub parity_words: u16,
}

impl Advice {
    /// On a forecast.
    pub fn new(forecast: &Forecast) -> Self {
        let seconds = forecast.seconds.len().max(1) as f64;
        let mean = |share: &dyn Fn(&aquila_plan::forecast::Second) -> f64| {
            (forecast.seconds.iter().map(share).sum::<f64>() / seconds).clamp(0.0, 1.0)
        };
        // Where there is no contact nothing arrives in time, however often the radio tries.
        let packet_loss = mean(&|second| 1.0 - second.contact_share * (1.0 - second.link.loss));
        let frame_loss = mean(&|second| second.link.frame_loss);
        let links_needed = Probability::new(packet_loss).zip(Probability::new(TARGET));
        // 1 - (1 - p)^bits, solved for p.
        let bit_errors = -((-frame_loss.min(1.0 - 1e-12)).ln_1p() / (PACKET * 8) as f64).exp_m1();
        Self {
            packet_loss,
            links_needed: links_needed.and_then(|(loss, target)| links::for_loss(loss, target)),
            frame_loss,
            bit_errors,
            parity_words: limits::of(&Channel::airborne(bit_errors)).best_words,
        }
    }

    /// As people read it.
    pub fn sentences(&self) -> [String; 2] {
        let links = self.links_needed.map_or("no number of such links".into(), |links| match links {
            1 => "one such link".into(),
            links => format!("{links} such links"),
        });
        [
            format!(
                "A packet that is sent once is lost {}; for once in a million: {links}.",
                percent(self.packet_loss)
            ),
            format!(
                "A frame is lost {}: as by {:.1e} wrong bits, for which AeroTP has {} words of parity.",
                percent(self.frame_loss),
                self.bit_errors,
                self.parity_words
            ),
        ]
    }
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "never".into(),
        value if value < 0.01 => format!("in {value:.1e} % of the tries"),
        value if value < 1.0 => format!("in {value:.2} % of the tries"),
        value => format!("in {value:.1} % of the tries"),
    }
}
