//! The plots of a variant.

use super::plot::{Axis, Colour, Plot, Series, Shape};
use super::scene::{CLASSES, Contender, DATA, DIRECTIONS, Scene, links, marks, outages};
use super::series::{Point, binned, bins_in, distribution, spread, thinned};
use super::ticks;
use crate::record::{Message, Run};

/// Spans of which a line over time keeps the extremes.
const BUCKETS: usize = 900;
/// Steps of a distribution.
const STEPS: usize = 500;

/// Rates against capacity: a plot for each contender and direction in which more than commands travels. Commands alone
/// would not be seen.
pub fn rates(scene: &Scene<'_>) -> Vec<Plot> {
    let is_loaded = |direction: &usize| {
        let run = scene.contenders.iter().flat_map(|contender| contender.runs.first());
        run.flat_map(|run| &run.flows)
            .any(|flow| flow.direction == *direction && (1..DATA).contains(&scene.class_of(flow)))
    };
    let shown: Vec<usize> = DIRECTIONS.into_iter().filter(is_loaded).collect();
    let plots = scene.contenders.iter().flat_map(|contender| shown.iter().map(move |to| rate(scene, contender, *to)));
    plots.collect()
}

/// What was delivered of each class, one upon the other, and what the links could have carried.
fn rate(scene: &Scene<'_>, contender: &Contender<'_>, direction: usize) -> Plot {
    let run = contender.runs[0];
    let width = ticks::step(0.0, run.seconds, 120).max(0.1);
    let bins = bins_in(width, run.seconds);
    let at = |bin: usize| (bin as f64 * width).min(run.seconds);
    // The last bin may be shorter.
    let lasts = |bin: usize| (at(bin + 1) - at(bin)).max(1e-9);
    let mut series = Vec::new();
    let mut lower = vec![0.0; bins];
    let mut greatest = 0.0f64;
    for (class, name) in CLASSES.iter().enumerate() {
        let mut bytes = vec![0.0; bins];
        let mut is_there = false;
        for flow in scene.flows(run, class, direction).filter(|flow| !flow.messages.is_empty()) {
            is_there = true;
            spread(&mut bytes, width, deliveries(&flow.messages));
        }
        if !is_there {
            continue;
        }
        let upper: Vec<f64> = (0..bins).map(|bin| lower[bin] + bytes[bin] * 8e-6 / lasts(bin)).collect();
        let mut points: Vec<_> = (0..bins).map(|bin| (at(bin), lower[bin], upper[bin])).collect();
        points.push((run.seconds, lower[bins - 1], upper[bins - 1]));
        greatest = upper.iter().fold(greatest, |max, value| max.max(*value));
        series.push(Series { name: (*name).into(), colour: Colour::Class(class), shape: Shape::Area(points) });
        lower = upper;
    }
    let of_links = |of: &dyn Fn(&crate::record::LinkSample) -> Option<f64>| -> Option<Vec<Point>> {
        let mut sum = vec![0.0; bins];
        for link in links(run, direction) {
            // A sample stands for the tenth of a second that ends with it.
            let step = crate::channels::SERIES_STEP.as_secs_f64();
            let values = link.samples.iter().map(|sample| Some((sample.at_s - step / 2.0, of(sample)? * step)));
            let values: Vec<Point> = values.collect::<Option<_>>()?;
            let all = binned(values.into_iter(), width, run.seconds);
            sum.iter_mut().zip(all).for_each(|(sum, value)| *sum += value);
        }
        let mut points: Vec<Point> =
            sum.iter().enumerate().map(|(bin, sum)| (at(bin), sum * 1e-6 / lasts(bin))).collect();
        points.push((run.seconds, points.last()?.1));
        Some(points)
    };
    let wire = of_links(&|sample| Some(sample.delivered as f64 * 8.0 / crate::channels::SERIES_STEP.as_secs_f64()));
    let capacity = of_links(&|sample| sample.capacity_bps);
    for (name, colour, points) in [("on the wire", Colour::Wire, wire), ("capacity", Colour::Capacity, capacity)] {
        let Some(points) = points else { continue };
        greatest = points.iter().fold(greatest, |max, point| max.max(point.1));
        series.push(Series { name: name.into(), colour, shape: Shape::Stairs(points) });
    }
    Plot {
        title: format!("{}, {}", contender.name, scene.way(direction)),
        note: format!("seed {}, means of {} s", run.seed, ticks::text(width)),
        x: Axis::time(run.seconds),
        y: Axis::linear("delivered, Mbit/s", 0.0, greatest.max(1e-3)),
        series,
        bands: outages(run),
        marks: marks(run, scene.plan, true),
        wide: true,
    }
}

/// When the bytes of messages came: evenly between its sending, or the arrival before it if that is later, and its own
/// arrival. A frame of a tenth of a second would else be a peak where it is complete.
fn deliveries(messages: &[Message]) -> Vec<(f64, f64, f64)> {
    let mut arrived: Vec<&Message> = messages.iter().filter(|message| message.arrived.is_some()).collect();
    arrived.sort_by_key(|message| message.arrived);
    let mut before = 0.0f64;
    let mut spans = Vec::with_capacity(arrived.len());
    for message in arrived {
        let at = message.arrived.unwrap_or_default().as_secs_f64();
        spans.push((before.max(message.sent.as_secs_f64()).min(at), at, f64::from(message.bytes)));
        before = at;
    }
    spans
}

/// Latencies: for each class and direction the share of the messages sent that arrived within a time.
pub fn distributions(scene: &Scene<'_>) -> Vec<Plot> {
    let pairs = (0..CLASSES.len()).flat_map(|class| DIRECTIONS.map(|direction| (class, direction)));
    pairs.filter_map(|(class, direction)| distribution_of(scene, class, direction)).collect()
}

fn distribution_of(scene: &Scene<'_>, class: usize, direction: usize) -> Option<Plot> {
    let (from, until) = scene.judged();
    let mut series = Vec::new();
    let (mut least, mut greatest) = (f64::INFINITY, 0.0f64);
    for (number, contender) in scene.contenders.iter().enumerate() {
        let messages = contender.runs.iter().flat_map(|run| scene.flows(run, class, direction));
        let judged = messages.flat_map(|flow| &flow.messages).filter(|message| {
            let sent = message.sent.as_secs_f64();
            sent >= from && sent < until
        });
        let (mut latencies, mut sent) = (Vec::new(), 0);
        for message in judged {
            sent += 1;
            latencies.extend(latency_ms(message));
        }
        latencies.sort_by(f64::total_cmp);
        let (Some(first), Some(last)) = (latencies.first(), latencies.last()) else { continue };
        (least, greatest) = (least.min(*first), greatest.max(*last));
        let points = distribution(&latencies, sent, STEPS);
        let colour = Colour::Contender(number);
        series.push(Series { name: contender.name.into(), colour, shape: Shape::Line(points) });
    }
    let repeats = scene.contenders.iter().map(|contender| contender.runs.len()).max().unwrap_or(1);
    (!series.is_empty()).then(|| Plot {
        title: format!("{}, {}", CLASSES[class], scene.way(direction)),
        note: if repeats > 1 { format!("{repeats} repeats together") } else { String::new() },
        x: Axis::logarithmic("latency, ms", least, greatest),
        y: Axis::percent("share of those sent"),
        series,
        bands: Vec::new(),
        marks: Vec::new(),
        wide: false,
    })
}

/// Latencies over the time of sending, of each contender's first repeat; what never arrived as strokes above.
pub fn latencies(scene: &Scene<'_>) -> Vec<Plot> {
    let pairs = (0..CLASSES.len()).flat_map(|class| DIRECTIONS.map(|direction| (class, direction)));
    pairs.filter_map(|(class, direction)| latencies_of(scene, class, direction)).collect()
}

fn latencies_of(scene: &Scene<'_>, class: usize, direction: usize) -> Option<Plot> {
    let (mut lines, mut rugs) = (Vec::new(), Vec::new());
    let (mut least, mut greatest) = (f64::INFINITY, 0.0f64);
    for (number, contender) in scene.contenders.iter().enumerate() {
        let mut points: Vec<Point> = Vec::new();
        for message in scene.flows(contender.runs[0], class, direction).flat_map(|flow| &flow.messages) {
            points.push((message.sent.as_secs_f64(), latency_ms(message).unwrap_or(f64::NAN)));
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let lost: Vec<f64> = points.iter().filter(|point| point.1.is_nan()).map(|point| point.0).collect();
        for point in points.iter().filter(|point| point.1.is_finite()) {
            (least, greatest) = (least.min(point.1), greatest.max(point.1));
        }
        if points.is_empty() {
            continue;
        }
        let (name, colour) = (contender.name.to_owned(), Colour::Contender(number));
        if !lost.is_empty() {
            rugs.push(Series { name: name.clone(), colour, shape: Shape::Rug(lost, rugs.len()) });
        }
        lines.push(Series { name, colour, shape: Shape::Line(thinned(&points, BUCKETS)) });
    }
    // The first contender, which usually is what the plan is about, is drawn in front.
    lines.reverse();
    let run = scene.contenders.first()?.runs[0];
    let note = if rugs.is_empty() { "" } else { "strokes at the upper edge: never arrived" };
    // Room for them.
    let greatest = if rugs.is_empty() { greatest } else { greatest * 1.6 };
    let has_any = !lines.is_empty();
    lines.extend(rugs);
    has_any.then(|| Plot {
        title: format!("{}, {}", CLASSES[class], scene.way(direction)),
        note: note.into(),
        x: Axis::time(run.seconds),
        y: Axis::logarithmic("latency, ms", least, greatest),
        series: lines,
        bands: outages(run),
        marks: marks(run, scene.plan, false),
        wide: true,
    })
}

fn latency_ms(message: &Message) -> Option<f64> {
    // On a logarithmic axis there is no 0.
    Some((message.arrived?.saturating_sub(message.sent).as_secs_f64() * 1e3).max(1e-3))
}

/// Waiting time of links over time, of each contender's first repeat, where anything waits at all.
pub fn queues(scene: &Scene<'_>) -> Vec<Plot> {
    let Some(first) = scene.contenders.first().map(|contender| contender.runs[0]) else { return Vec::new() };
    let plots = first.links.iter().map(|link| queue_of(scene, first, &link.link, link.direction));
    plots.flatten().collect()
}

fn queue_of(scene: &Scene<'_>, first: &Run, link: &str, direction: usize) -> Option<Plot> {
    /// A link that is out would hold a packet for ever.
    const FOR_EVER_MS: f64 = 1e8;
    /// A queue that never is longer is not shown.
    const LEAST_MS: f64 = 1.0;
    let mut series = Vec::new();
    let mut greatest = 0.0f64;
    for (number, contender) in scene.contenders.iter().enumerate() {
        let run = contender.runs[0];
        let Some(found) = links(run, direction).find(|series| series.link == link) else { continue };
        let value = |queue_ms: f64| if queue_ms < FOR_EVER_MS { queue_ms } else { f64::NAN };
        let points: Vec<Point> = found.samples.iter().map(|sample| (sample.at_s, value(sample.queue_ms))).collect();
        greatest = points.iter().filter(|point| point.1.is_finite()).fold(greatest, |max, point| max.max(point.1));
        let shape = Shape::Line(thinned(&points, BUCKETS));
        series.push(Series { name: contender.name.into(), colour: Colour::Contender(number), shape });
    }
    series.reverse();
    (greatest > LEAST_MS).then(|| Plot {
        title: format!("link {link}, {}", scene.way(direction)),
        note: String::new(),
        x: Axis::time(first.seconds),
        y: Axis::linear("queue, ms", 0.0, greatest),
        series,
        bands: outages(first),
        marks: marks(first, scene.plan, false),
        wide: true,
    })
}
