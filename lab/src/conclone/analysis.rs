//! All of the analysis for one's own numbers.

use std::time::Duration;

use serde::Serialize;

use super::channel::{Channel, Reception};
use super::inertia::{Airframe, Moments};
use super::lifetime::Lifetime;
use super::{DomainError, Probability, completion, copies, links, must, reliability};

/// One's own numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inputs {
    /// That a packet is lost, of each link. At most [`MAX_LINKS`].
    pub losses: Vec<Probability>,
    /// That a packet is lost on all links at once, whatever each does. The paper: 0.
    pub shared: Probability,
    /// How often a command may fail.
    pub target: Probability,
    /// The paper's k: the first timeout, in intervals.
    pub factor: f64,
    /// How much longer than ideal it may take: the paper's T_r.
    pub most: f64,
    /// Packets sent one after the other.
    pub packets: u32,
    /// From the delivery of one to the next.
    #[serde(serialize_with = "seconds")]
    pub interval: Duration,
    /// Round trip of the slowest link.
    #[serde(serialize_with = "seconds")]
    pub rtt: Duration,
    /// Until when a command has to be there.
    #[serde(serialize_with = "seconds")]
    pub deadline: Duration,
    /// How links fail. Seconds.
    pub lifetime: Lifetime,
    /// Of the radio.
    pub channel: Channel,
    /// What carries the modems.
    pub airframe: Airframe,
}

/// Links that are looked at, at most.
pub const MAX_LINKS: usize = 16;
/// Rows of links that are alike, at least: to see what one more brings.
const MIN_ROWS: u32 = 4;

impl Default for Inputs {
    /// The paper's experiment, and Aquila's defaults.
    fn default() -> Self {
        Self {
            losses: vec![Probability(0.284); 2],
            shared: Probability::NEVER,
            target: Probability(copies::DEFAULT_TARGET),
            factor: 1.122,
            most: 1.1,
            packets: 120,
            interval: Duration::from_millis(500),
            rtt: Duration::from_millis(30),
            deadline: copies::DEFAULT_DEADLINE,
            lifetime: Lifetime { mean: 60.0, outage: 5.0, wanted: 600.0 },
            channel: Channel::default(),
            airframe: Airframe::default(),
        }
    }
}

/// What comes out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Analysis {
    /// Of what.
    pub inputs: Inputs,
    /// With the first link only, with the first two, and so on. If all are alike, at least four rows.
    pub rows: Vec<Row>,
    /// Links like the worst one for the target, each packet sent once over each.
    pub links_for_target: Option<u32>,
    /// Links for the mean lifetime that is wanted.
    pub links_for_lifetime: LinksForLifetime,
    /// At the distance that was given.
    pub reception: Reception,
    /// Distance along the line at which a packet is lost as on the worst link, m.
    pub range_m: Option<f64>,
    /// What Aquila sends.
    pub aquila: Aquila,
}

/// With so many links.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Row {
    /// How many.
    pub links: u32,
    /// That a packet sent once over each arrives [CONCLONE eq. 1].
    pub arrives: Probability,
    /// That it does not.
    pub lost: Probability,
    /// Time for all packets.
    pub completion: Completion,
    /// Greatest loss of links alike, independent of each other, with which that is no longer than it may be.
    pub greatest_loss: Option<Probability>,
    /// The same as printed.
    pub greatest_loss_paper: Option<Probability>,
    /// Mean time until all links have failed, seconds.
    pub lifetime: Lives,
    /// Moments of inertia with so many modems.
    pub moments: Option<Moments>,
    /// The same as printed.
    pub moments_paper: Option<Moments>,
}

/// Time over ideal time, and in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Completion {
    /// With timeouts that double; `None`: there is no mean.
    pub ratio: Option<f64>,
    /// As printed: with timeouts that do not.
    pub ratio_paper: Option<f64>,
    /// Of the first, for all packets.
    pub seconds: Option<f64>,
    /// Of the second.
    pub seconds_paper: Option<f64>,
}

/// Mean time until all links have failed, seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Lives {
    /// As printed: by ln n.
    pub paper: f64,
    /// By H_n.
    pub exact: f64,
    /// If links come back.
    pub with_repair: Option<f64>,
}

/// Links for a mean lifetime; `None`: too many to count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LinksForLifetime {
    /// As printed.
    pub paper: Option<u32>,
    /// The least number.
    pub exact: Option<u32>,
    /// The least number if links come back.
    pub with_repair: Option<u32>,
}

/// What Aquila sends over the links.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Aquila {
    /// The fewest copies that meet the target.
    pub choice: copies::Choice,
    /// How often that fails if losses are shared as said, which the link does not know.
    pub failure_with_shared: Probability,
    /// How often it would fail with 1, 2, 3, 4 copies over the links that are used.
    pub failures: Vec<Probability>,
    /// How often it would have to be repeated, likewise.
    pub repeats: Vec<Probability>,
}

/// Works it out.
///
/// # Errors
/// [`DomainError`], naming the first number that makes no sense.
pub fn analyse(inputs: &Inputs) -> Result<Analysis, DomainError> {
    check(inputs)?;
    let reception = inputs.channel.reception()?;
    let are_alike = inputs.losses.windows(2).all(|pair| pair[0] == pair[1]);
    let given = inputs.losses.len() as u32;
    let rows = if are_alike { given.max(MIN_ROWS) } else { given };
    let worst = inputs.losses.iter().fold(Probability::NEVER, |worst, loss| if *loss > worst { *loss } else { worst });
    let losses = |links: u32| (0..links as usize).map(|n| inputs.losses.get(n).copied().unwrap_or(worst));
    Ok(Analysis {
        rows: (1..=rows).map(|links| row(inputs, links, reliability::all_lost(losses(links)))).collect(),
        links_for_target: for_target(worst, inputs),
        links_for_lifetime: LinksForLifetime {
            paper: inputs.lifetime.links_paper(),
            exact: inputs.lifetime.links(),
            with_repair: inputs.lifetime.links_with_repair(),
        },
        reception,
        range_m: inputs.channel.range_m(worst),
        aquila: aquila(inputs),
        inputs: inputs.clone(),
    })
}

fn check(inputs: &Inputs) -> Result<(), DomainError> {
    must::be_within("the number of links", inputs.losses.len() as f64, 1.0, MAX_LINKS as f64)?;
    must::be_positive("the failure factor k", inputs.factor)?;
    must::be_within("the completion time that is allowed, in ideal times,", inputs.most, 1.0, 1e6)?;
    inputs.lifetime.check()?;
    inputs.airframe.check()
}

fn row(inputs: &Inputs, links: u32, independent: Probability) -> Row {
    let lost = reliability::with_shared(independent, inputs.shared);
    let ideal = f64::from(inputs.packets) * inputs.interval.as_secs_f64();
    let (ratio, ratio_paper) = (completion::ratio(lost, inputs.factor), completion::ratio_paper(lost, inputs.factor));
    Row {
        links,
        arrives: lost.complement(),
        lost,
        completion: Completion {
            ratio,
            ratio_paper,
            seconds: ratio.map(|ratio| ratio * ideal),
            seconds_paper: ratio_paper.map(|ratio| ratio * ideal),
        },
        greatest_loss: completion::greatest_loss(links, inputs.factor, inputs.most),
        greatest_loss_paper: completion::greatest_loss_paper(links, inputs.factor, inputs.most),
        lifetime: Lives {
            paper: inputs.lifetime.until_none_paper(links),
            exact: inputs.lifetime.until_none(links),
            with_repair: inputs.lifetime.until_none_with_repair(links),
        },
        moments: inputs.airframe.moments(links),
        moments_paper: inputs.airframe.moments_paper(links),
    }
}

/// What is shared is lost with any number of links: only the rest of the target is left to them.
fn for_target(worst: Probability, inputs: &Inputs) -> Option<u32> {
    let left = (inputs.target.get() - inputs.shared.get()) / inputs.shared.complement().get();
    links::for_loss(worst, Probability::new(left)?)
}

fn aquila(inputs: &Inputs) -> Aquila {
    let choice = copies::choose(&inputs.losses, inputs.rtt.min(MAX_TIME), inputs.deadline, inputs.target);
    let used = &copies::best_first(&inputs.losses)[..choice.links];
    let once = copies::failure(used, choice.copies, 1);
    let failure_with_shared = reliability::all_alike_lost(reliability::with_shared(once, inputs.shared), choice.rounds);
    let by_copies = |rounds| (1..=copies::MAX_COPIES).map(|copies| copies::failure(used, copies, rounds)).collect();
    Aquila { choice, failure_with_shared, failures: by_copies(choice.rounds), repeats: by_copies(1) }
}

/// Longer times than this are no different.
const MAX_TIME: Duration = Duration::from_secs(3600);

fn seconds<S: serde::Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}
