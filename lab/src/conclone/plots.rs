//! The analysis to look at. Solid lines are what is right, dashed ones what the paper prints.

use std::time::Duration;

use super::analysis::{Analysis, Inputs};
use super::channel::Channel;
use super::lifetime::Lifetime;
use super::{Probability, completion, copies, inertia, links, reliability};
use crate::report::plot::{Axis, Colour, Plot, Series, Shape};
use crate::report::series::Point;
use crate::report::ticks;

/// Points of a curve.
const POINTS: u32 = 300;
/// The greatest loss that is drawn.
const MOST_LOSS: f64 = 0.6;
/// Links that are drawn, at most: as many as there are colours that can be told apart.
const MOST_LINKS: u32 = 4;
/// Modems that are drawn.
const MOST_MODEMS: u32 = 8;
/// Failures are drawn down to here.
const LEAST_FAILURE: f64 = 1.1e-9;

/// Six plots: losses, completion, number of links, copies, distance, inertia.
pub fn plots(analysis: &Analysis) -> Vec<Plot> {
    let inputs = &analysis.inputs;
    vec![
        losses(inputs),
        completion_times(inputs),
        numbers_of_links(inputs.lifetime),
        failures(inputs),
        distances(&inputs.channel),
        moments(&inputs.airframe),
    ]
}

/// What fills a plot; bands it has none.
fn plot(title: &str, note: String, x: Axis, y: Axis, series: Vec<Series>) -> Plot {
    Plot { title: title.into(), note, x, y, series, bands: Vec::new(), marks: Vec::new(), wide: false }
}

fn series(name: &str, number: usize, shape: Shape) -> Series {
    Series { name: name.into(), colour: Colour::Contender(number), shape }
}

/// Values from `from` to `to`, evenly, or by equal factors.
fn points(from: f64, to: f64, is_log: bool, value: impl Fn(f64) -> f64) -> Vec<Point> {
    let at = |n: u32| {
        let share = f64::from(n) / f64::from(POINTS);
        if is_log { from * (to / from).powf(share) } else { from + (to - from) * share }
    };
    (0..=POINTS).map(at).map(|x| (x, value(x))).collect()
}

/// Points whose values hold up to the next one.
fn steps(points: &[Point]) -> Vec<Point> {
    points.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]).collect()
}

fn name(links: u32) -> String {
    format!("{links} {}", if links == 1 { "link" } else { "links" })
}

fn loss_marks(inputs: &Inputs) -> Vec<(f64, String)> {
    let mut losses: Vec<f64> = inputs.losses.iter().map(|loss| loss.get()).filter(|loss| *loss <= MOST_LOSS).collect();
    losses.sort_by(f64::total_cmp);
    losses.dedup();
    losses.into_iter().map(|loss| (loss, "loss of a link".into())).collect()
}

fn lost(inputs: &Inputs, loss: f64, links: u32) -> Probability {
    reliability::with_shared(reliability::all_alike_lost(Probability::clamped(loss), links), inputs.shared)
}

fn losses(inputs: &Inputs) -> Plot {
    let curve = |links: u32| points(0.0, MOST_LOSS, false, |loss| lost(inputs, loss, links).get().max(1e-6));
    let all = (1..=MOST_LINKS).map(|links| series(&name(links), links as usize - 1, Shape::Line(curve(links))));
    let mut plot = plot(
        "A packet is lost on all links (equation 2)",
        "sent once over each; dotted: losses that were given".into(),
        Axis::linear("loss of each link", 0.0, MOST_LOSS),
        Axis::logarithmic("lost", 1.01e-6, 0.99),
        all.collect(),
    );
    plot.marks = loss_marks(inputs);
    plot
}

fn completion_times(inputs: &Inputs) -> Plot {
    let most = 2.0f64.max(1.0 + 2.0 * (inputs.most - 1.0)).min(10.0);
    let curve = |links: u32, ratio: fn(Probability, f64) -> Option<f64>| {
        let within = |ratio: &f64| *ratio <= most;
        let value = |loss| ratio(lost(inputs, loss, links), inputs.factor).filter(within).unwrap_or(f64::NAN);
        points(0.0, MOST_LOSS, false, value)
    };
    let mut all = Vec::new();
    for links in 1..=MOST_LINKS {
        let number = links as usize - 1;
        all.push(series(&name(links), number, Shape::Line(curve(links, completion::ratio))));
        all.push(series(&name(links), number, Shape::Dashes(curve(links, completion::ratio_paper))));
    }
    let mut plot = plot(
        "Completion time over ideal time (equation 7)",
        format!("k = {}; timeouts that double; dashed: that do not, as printed", ticks::text(inputs.factor)),
        Axis::linear("loss of each link", 0.0, MOST_LOSS),
        Axis::linear("ratio", 1.0, most),
        all,
    );
    plot.marks = loss_marks(inputs);
    plot
}

fn numbers_of_links(lifetime: Lifetime) -> Plot {
    let product = lifetime.wanted / lifetime.mean;
    let axis = Axis::linear("wanted, in lifetimes of one (λα)", 0.0, (product * 1.25).clamp(2.5, 15.0));
    let most = axis.bounds().1;
    let paper = |x: f64| links::for_lifetime_paper(1.0, x).map_or(f64::NAN, f64::from);
    let exact = |x: f64| links::for_lifetime(1.0, x).map_or(f64::NAN, f64::from).max(1.0);
    let repaired = |x: f64| {
        let wanted = Lifetime { wanted: x * lifetime.mean, ..lifetime };
        wanted.links_with_repair().map_or(f64::NAN, f64::from).max(1.0)
    };
    let shown = |value: &dyn Fn(f64) -> f64| steps(&points(0.0, most, false, value));
    let mut all = vec![
        series("no link comes back", 0, Shape::Line(shown(&exact))),
        series("no link comes back", 0, Shape::Dashes(shown(&paper))),
    ];
    if lifetime.outage.is_finite() {
        let name = format!("each comes back after {} s", ticks::text(lifetime.outage));
        all.push(series(&name, 2, Shape::Line(shown(&repaired))));
    }
    let mut plot = plot(
        "Links for a mean lifetime of all (equation 10)",
        format!("one works for {} s; dashed: as printed; dotted: wanted", ticks::text(lifetime.mean)),
        axis,
        Axis::logarithmic("links", 1.01, most.exp()),
        all,
    );
    plot.marks = (product <= most).then(|| (product, "wanted".to_owned())).into_iter().collect();
    plot
}

fn failures(inputs: &Inputs) -> Plot {
    let deadline_ms = inputs.deadline.as_secs_f64() * 1e3;
    let most = if deadline_ms > 0.0 { deadline_ms * 2.0 } else { 100.0 };
    let curve = |copies: u32| {
        let value = |ms: f64| {
            let rounds = copies::rounds(inputs.rtt, Duration::from_secs_f64(ms / 1e3));
            copies::failure(&inputs.losses, copies, rounds).get().max(LEAST_FAILURE)
        };
        steps(&points(0.0, most, false, value))
    };
    let name = |copies: u32| format!("{copies} {}", if copies == 1 { "copy" } else { "copies" });
    let mut all: Vec<Series> = (1..=copies::MAX_COPIES)
        .map(|copies| series(&name(copies), copies as usize - 1, Shape::Line(curve(copies))))
        .collect();
    let target = inputs.target.get().max(LEAST_FAILURE);
    all.push(series("target", 6, Shape::Line(vec![(0.0, target), (most, target)])));
    let count = inputs.losses.len();
    let links = format!("{count} {}", if count == 1 { "link" } else { "links" });
    let mut plot = plot(
        "What Aquila does: a command is not there in time",
        format!(
            "{links}, rtt {} ms; copies a round over each; dotted: deadline",
            ticks::text(inputs.rtt.as_secs_f64() * 1e3)
        ),
        Axis::linear("deadline, ms", 0.0, most),
        Axis::logarithmic("fails", LEAST_FAILURE, 0.99),
        all,
    );
    plot.marks = vec![(deadline_ms, "deadline".into())];
    plot
}

fn distances(channel: &Channel) -> Plot {
    let half = Probability::new(0.5).and_then(|half| channel.range_m(half)).unwrap_or(channel.distance_m);
    let line_m = channel.distance_m.hypot(channel.height_m).max(1.0);
    let (nearest, farthest) = (line_m.min(half).max(1.0), line_m.max(half).max(1.0));
    let axis = Axis::logarithmic("distance along the line, m", nearest / 2.0, farthest * 2.0);
    let (least, most) = axis.bounds();
    let curve = |retries: u32| {
        let at = |distance_m| Channel { distance_m, height_m: 0.0, retries, ..*channel }.reception();
        points(least, most, true, |line| at(line).map_or(f64::NAN, |there| there.packet_loss.get()))
    };
    let mut all = vec![series("no retries", 1, Shape::Line(curve(0)))];
    if channel.retries > 0 {
        all.push(series(&format!("{} retries", channel.retries), 0, Shape::Line(curve(channel.retries))));
    }
    let mut plot = plot(
        "Packet loss over distance (equations 11 to 14)",
        format!(
            "{} dBm less {} dB, exponent {}; no fading; dotted: given",
            ticks::text(channel.power_dbm),
            ticks::text(channel.margin_db),
            ticks::text(channel.exponent)
        ),
        axis,
        Axis::percent("lost"),
        all,
    );
    plot.marks = vec![(line_m, "given".into())];
    plot
}

fn moments(airframe: &inertia::Airframe) -> Plot {
    type Value = fn(&inertia::Moments) -> f64;
    let axes: [(&str, usize, Value); 3] =
        [("x", 2, |moments| moments.xx), ("y", 1, |moments| moments.yy), ("z", 0, |moments| moments.zz)];
    // Half a step to each side of the number itself.
    let curve = |value: Value, is_paper: bool| {
        let all = (1..=MOST_MODEMS + 1).filter_map(|n| {
            let moments = if is_paper { airframe.moments_paper(n) } else { airframe.moments(n) }?;
            Some((f64::from(n) - 0.5, value(&moments) * 1e3))
        });
        steps(&all.collect::<Vec<_>>())
    };
    let mut all = Vec::new();
    for (axis, number, value) in axes {
        all.push(series(&format!("about {axis}"), number, Shape::Line(curve(value, false))));
    }
    let z: Value = |moments| moments.zz;
    all.push(series("about z", 0, Shape::Dashes(curve(z, true))));
    let greatest = airframe.moments_paper(MOST_MODEMS).map_or(1.0, |moments| moments.zz * 1e3);
    plot(
        "Moments of inertia (equation 16)",
        format!("modems of {} g in pairs on the arms; dashed: as printed", ticks::text(airframe.modem_kg * 1e3)),
        Axis::linear("modems", 0.0, f64::from(MOST_MODEMS) + 1.0),
        Axis::linear("10⁻³ kg m²", 0.0, if greatest > 0.0 { greatest } else { 1.0 }),
        all,
    )
}
