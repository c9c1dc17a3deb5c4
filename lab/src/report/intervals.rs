//! Commands that wait for each other, and those that have a deadline: how regularly they came, when all were through, and
//! how many were late. The plots are figures 9 to 12 of ConClone's paper, the table is its tables 2 and 3.

use std::io::{self, Write};
use std::time::Duration;

use super::boxes::{self, Row};
use super::page::number;
use super::plot::{Axis, Colour, Plot, Series, Shape, escape};
use super::scene::{Contender, Scene};
use super::series::{Point, distribution, thinned};
use crate::closed_loop::Loop;
use crate::judge::VariantJudgement;
use crate::metrics::{DIRECTION_NAMES, inter_arrivals};
use crate::record::{Flow, Run};

const STEPS: usize = 500;
const BUCKETS: usize = 900;

/// The table: a row for each contender and flow that has such figures.
pub fn write_table(to: &mut impl Write, variant: &VariantJudgement) -> io::Result<()> {
    let scene = Scene::new(variant);
    let mut has_head = false;
    for contender in &scene.contenders {
        for flow in &contender.runs[0].flows {
            let direction = DIRECTION_NAMES[flow.direction];
            let figures = &variant.metrics[contender.name][&flow.name][direction];
            if figures.pointer("/inter_arrival_s").or(figures.pointer("/late_share")).is_none() {
                continue;
            }
            if !std::mem::replace(&mut has_head, true) {
                writeln!(
                    to,
                    "<h3>Intervals and deadlines</h3><div class=\"scroll\"><table><tr><th class=\"text\">contender</th>\
                     <th class=\"text\">flow</th><th class=\"text\">direction</th><th>late, %</th><th>delivered, %</th>\
                     <th>between two, s</th><th>std</th><th>p99</th><th>max</th><th>above 1 s, %</th>\
                     <th>all after, s</th><th>std</th><th>least</th><th>most</th><th>not through</th></tr>"
                )?;
            }
            write!(
                to,
                "<tr><td class=\"text\">{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td>",
                escape(contender.name),
                escape(&flow.name),
                escape(&scene.way(flow.direction))
            )?;
            for (name, factor, places) in [
                ("/late_share", 100.0, 2),
                ("/delivered_share", 100.0, 2),
                ("/inter_arrival_s/mean", 1.0, 4),
                ("/inter_arrival_s/std", 1.0, 4),
                ("/inter_arrival_s/p99", 1.0, 3),
                ("/inter_arrival_s/max", 1.0, 3),
                ("/inter_arrival_s/above_1s_share", 100.0, 2),
                ("/completion_s/mean", 1.0, 2),
                ("/completion_s/std", 1.0, 2),
                ("/completion_s/min", 1.0, 2),
                ("/completion_s/max", 1.0, 2),
                ("/completion_s/censored", 1.0, 0),
            ] {
                write!(to, "<td>{}</td>", number(figures, name, factor, places))?;
            }
            writeln!(to, "</tr>")?;
        }
    }
    if has_head {
        writeln!(
            to,
            "</table></div>\n<p class=\"soft\">Repeats that were not through at the end of the run count with the time \
             that they had: what is above is a bound then.</p>"
        )?;
    }
    Ok(())
}

/// Distribution of the times between arrivals, those times one after the other, and when all were through.
pub fn html(scene: &Scene<'_>) -> String {
    let Some(first) = scene.contenders.first().map(|contender| contender.runs[0]) else { return String::new() };
    let loops = first.flows.iter().filter(|flow| loop_of(scene, scene.contenders[0].name, flow).is_some());
    let mut html = String::new();
    for flow in loops {
        html +=
            &format!("<div class=\"pairs\">{}</div>", between(scene, flow).map_or(String::new(), |plot| plot.html()));
        html += &in_order(scene, flow).map_or(String::new(), |plot| plot.html());
        html += &completions(scene, flow);
    }
    html
}

fn loop_of(scene: &Scene<'_>, contender: &str, flow: &Flow) -> Option<Loop> {
    Loop::of(scene.plan, contender, &flow.name)
}

/// The same flow of all runs of a contender.
fn same<'a>(contender: &Contender<'a>, flow: &Flow) -> Vec<&'a Flow> {
    let of = |run: &&'a Run| run.flow(&flow.name, flow.direction);
    contender.runs.iter().filter_map(of).collect()
}

fn judged(scene: &Scene<'_>) -> std::ops::Range<Duration> {
    let (from, until) = scene.judged();
    Duration::from_secs_f64(from)..Duration::from_secs_f64(until)
}

/// Of each contender: times between arrivals, a distribution. That a repeat was not through counts as one more, of which
/// the end is not known.
fn between(scene: &Scene<'_>, flow: &Flow) -> Option<Plot> {
    let (mut least, mut greatest) = (f64::INFINITY, 0.0f64);
    let mut series = Vec::new();
    for (number, contender) in scene.contenders.iter().enumerate() {
        let (flows, looped) = (same(contender, flow), loop_of(scene, contender.name, flow)?);
        let mut gaps: Vec<f64> = Vec::new();
        let mut of = 0;
        for flow in flows {
            gaps.extend(inter_arrivals(flow, &judged(scene)).iter().map(Duration::as_secs_f64));
            of += usize::from(looped.completion(flow, scene.plan.duration()).is_censored);
        }
        of += gaps.len();
        gaps.sort_unstable_by(f64::total_cmp);
        let (Some(first), Some(last)) = (gaps.first(), gaps.last()) else { continue };
        (least, greatest) = (least.min(*first), greatest.max(*last));
        let shape = Shape::Line(distribution(&gaps, of, STEPS));
        series.push(Series { name: contender.name.into(), colour: Colour::Contender(number), shape });
    }
    (!series.is_empty()).then(|| Plot {
        title: format!("{}, {}: between two arrivals", flow.name, scene.way(flow.direction)),
        note: String::new(),
        x: Axis::logarithmic("time, s", least, greatest),
        y: Axis::percent("share of all"),
        series,
        bands: Vec::new(),
        marks: Vec::new(),
        wide: true,
    })
}

/// The same one after the other, of each contender's first repeat, beside what the plan says is expected.
fn in_order(scene: &Scene<'_>, flow: &Flow) -> Option<Plot> {
    let (mut least, mut greatest, mut most) = (f64::INFINITY, 0.0f64, 0);
    let mut series = Vec::new();
    for (number, contender) in scene.contenders.iter().enumerate() {
        let Some(flow) = same(contender, flow).first().copied() else { continue };
        let gaps = inter_arrivals(flow, &judged(scene));
        let points: Vec<Point> = (1..).zip(&gaps).map(|(n, gap)| (f64::from(n), gap.as_secs_f64())).collect();
        for point in &points {
            (least, greatest) = (least.min(point.1), greatest.max(point.1));
        }
        most = most.max(points.len());
        let shape = Shape::Line(thinned(&points, BUCKETS));
        series.push(Series { name: contender.name.into(), colour: Colour::Contender(number), shape });
    }
    let plan = scene.plan.traffic_of(&flow.name).map(|(traffic, _)| &traffic.expected);
    for (number, (name, time)) in (scene.contenders.len()..).zip(plan.into_iter().flatten()) {
        let expected = time.get().as_secs_f64();
        (least, greatest) = (least.min(expected), greatest.max(expected));
        let shape = Shape::Line(vec![(0.0, expected), (most as f64, expected)]);
        series.push(Series { name: name.clone(), colour: Colour::Contender(number), shape });
    }
    // The first contender is drawn in front.
    series.reverse();
    (most > 0).then(|| Plot {
        title: format!("{}, {}: one after the other", flow.name, scene.way(flow.direction)),
        note: format!("seed {}", scene.contenders[0].runs[0].seed),
        x: Axis::linear("number of the command", 0.0, most as f64),
        y: Axis::logarithmic("since the one before, s", least, greatest),
        series,
        bands: Vec::new(),
        marks: Vec::new(),
        wide: true,
    })
}

/// Times until all were through, a box for each contender.
fn completions(scene: &Scene<'_>, flow: &Flow) -> String {
    let mut rows = Vec::new();
    for (number, contender) in scene.contenders.iter().enumerate() {
        let Some(looped) = loop_of(scene, contender.name, flow) else { continue };
        let all = same(contender, flow).into_iter().map(|flow| looped.completion(flow, scene.plan.duration()));
        let all: Vec<_> = all.collect();
        let censored = all.iter().filter(|completion| completion.is_censored).count();
        let mut times: Vec<Duration> = all.iter().map(|completion| completion.time).collect();
        times.sort_unstable();
        let name = match censored {
            0 => contender.name.to_owned(),
            _ => format!("{} ({censored} of {} not through)", contender.name, times.len()),
        };
        rows.push(Row { name, colour: Colour::Contender(number), times });
    }
    let title = format!("{}, {}: until all were through", flow.name, scene.way(flow.direction));
    boxes::html(&title, "box: the middle half of the repeats, whiskers: least and most", boxes::Unit::SECONDS, &rows)
}
