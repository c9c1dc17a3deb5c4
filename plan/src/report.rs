//! A flight from above, as a picture: the way, coloured by what comes over, around the node and what stands in its way.

use std::fmt::Write;

use crate::forecast::Forecast;
use crate::geodesy::{Frame, Position};
use crate::scenario::Scenario;

/// Width and height of the picture.
const SIZE: f64 = 620.0;
const MARGIN: f64 = 34.0;
/// Points of a way that are drawn, at most.
const MAX_POINTS: usize = 4_000;
/// From little to much: five steps that a colour-blind eye tells apart, of the palette "viridis" (Smith and van der
/// Walt).
const COLOURS: [&str; 5] = ["#440154", "#3b528b", "#21918c", "#5ec962", "#fde725"];

/// A flight from above, north up, as an SVG for a page with the lab's style. `best_bps` has the last colour.
pub fn map(scenario: &Scenario, forecast: &Forecast, best_bps: f64) -> String {
    let node = Frame::new(scenario.node.position());
    let points: Vec<[f64; 2]> = forecast.seconds.iter().map(|second| flat(&node, second.moment.position)).collect();
    let scale = Scale::around(&points);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {SIZE} {SIZE}\" role=\"img\" aria-label=\"The flight from above\" \
         xmlns=\"http://www.w3.org/2000/svg\">"
    );
    let labels = rings(&mut svg, &scale);
    obstacles(&mut svg, scenario, &scale);
    way(&mut svg, forecast, &points, &scale, best_bps);
    ship(&mut svg, scenario, &scale);
    svg.push_str(&labels);
    legend(&mut svg, best_bps);
    svg.push_str("</svg>");
    svg
}

fn flat(node: &Frame, position: Position) -> [f64; 2] {
    let local = node.to_local(position);
    [local.east, local.north]
}

/// From metres to the picture.
struct Scale {
    center: [f64; 2],
    per_metre: f64,
}

impl Scale {
    /// So that all points and the node are on it.
    fn around(points: &[[f64; 2]]) -> Self {
        let bounds = |axis: usize| {
            let values = points.iter().map(|point| point[axis]);
            values.fold((0f64, 0f64), |(low, high), value| (low.min(value), high.max(value)))
        };
        let ((west, east), (south, north)) = (bounds(0), bounds(1));
        let span = (east - west).max(north - south).max(100.0);
        Self { center: [(west + east) / 2.0, (south + north) / 2.0], per_metre: (SIZE - 2.0 * MARGIN) / span }
    }

    fn at(&self, [east, north]: [f64; 2]) -> (f64, f64) {
        let middle = SIZE / 2.0;
        (middle + (east - self.center[0]) * self.per_metre, middle - (north - self.center[1]) * self.per_metre)
    }
}

/// Distances from the node, and where north is. Gives their labels, which go on top.
fn rings(svg: &mut String, scale: &Scale) -> String {
    let mut labels = String::new();
    let (x, y) = scale.at([0.0, 0.0]);
    let widest = SIZE / scale.per_metre;
    let raw = widest / 6.0;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= raw).unwrap_or(raw);
    for n in 1..=12 {
        let radius = step * f64::from(n);
        let drawn = radius * scale.per_metre;
        let _ = write!(svg, "<circle class=\"grid\" fill=\"none\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{drawn:.1}\"/>");
        let (label_x, label_y) = (x + drawn * 0.5, y + drawn * 0.866);
        if (8.0..SIZE - 40.0).contains(&label_x) && (12.0..SIZE - 40.0).contains(&label_y) {
            let text = if step >= 1_000.0 { format!("{} km", radius / 1e3) } else { format!("{radius} m") };
            let _ = write!(labels, "<text x=\"{label_x:.1}\" y=\"{label_y:.1}\">{text}</text>");
        }
    }
    let _ = write!(
        svg,
        "<path class=\"axis\" d=\"M24 48V18M18 26L24 16L30 26\"/><text x=\"24\" y=\"62\" class=\"mid\">N</text>"
    );
    labels
}

/// Sectors as wide as they are, darker the higher they reach.
fn obstacles(svg: &mut String, scenario: &Scenario, scale: &Scale) {
    let (x, y) = scale.at([0.0, 0.0]);
    let reach = SIZE * 1.5;
    for obstacle in &scenario.node.obstacles {
        let width = match (obstacle.to_deg - obstacle.from_deg).rem_euclid(360.0) {
            0.0 => 359.9,
            width => width,
        };
        let begin = scenario.node.heading_deg + obstacle.from_deg;
        let edge = |bearing: f64| {
            let (sin, cos) = bearing.to_radians().sin_cos();
            (x + reach * sin, y - reach * cos)
        };
        let ((from_x, from_y), (to_x, to_y)) = (edge(begin), edge(begin + width));
        let opacity = 0.06 + 0.12 * (obstacle.top_deg / 60.0).clamp(0.0, 1.0);
        let _ = write!(
            svg,
            "<path fill=\"currentColor\" fill-opacity=\"{opacity:.2}\" d=\"M{x:.1} {y:.1}L{from_x:.1} {from_y:.1}\
             A{reach} {reach} 0 {} 1 {to_x:.1} {to_y:.1}Z\"><title>{:.0} to {:.0} degrees from the bow: up to {:.0} degrees \
             high, {:.0} m away</title></path>",
            u8::from(width > 180.0),
            obstacle.from_deg,
            obstacle.to_deg,
            obstacle.top_deg,
            obstacle.distance_m
        );
    }
}

fn way(svg: &mut String, forecast: &Forecast, points: &[[f64; 2]], scale: &Scale, best_bps: f64) {
    let every = points.len().div_ceil(MAX_POINTS).max(1);
    let kept: Vec<usize> = (0..points.len()).step_by(every).collect();
    let colour = |n: usize| shade(forecast.seconds[n].link.goodput_bps(), best_bps);
    let mut at = 0;
    while at + 1 < kept.len() {
        let begin = at;
        while at + 1 < kept.len() && colour(kept[at]) == colour(kept[begin]) {
            at += 1;
        }
        let mut path = String::new();
        for n in &kept[begin..=at] {
            let (x, y) = scale.at(points[*n]);
            let _ = write!(path, "{}{x:.1} {y:.1}", if path.is_empty() { "M" } else { "L" });
        }
        let _ = write!(
            svg,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"5\" stroke-linecap=\"round\"/>",
            COLOURS[colour(kept[begin])]
        );
    }
    if let Some(first) = points.first() {
        let (x, y) = scale.at(*first);
        let _ = write!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\">\
             <title>begins here</title></circle>"
        );
    }
}

/// Which of the colours.
fn shade(goodput_bps: f64, best_bps: f64) -> usize {
    ((goodput_bps / best_bps.max(1.0) * 5.0) as usize).min(4)
}

/// The node, as a hull that points where the bow does; not to scale.
fn ship(svg: &mut String, scenario: &Scenario, scale: &Scale) {
    let (x, y) = scale.at([0.0, 0.0]);
    let _ = write!(
        svg,
        "<g transform=\"translate({x:.1} {y:.1}) rotate({:.1})\"><path fill=\"#d55e00\" stroke=\"#fff\" stroke-width=\"1.2\" \
         d=\"M0 -15C5 -8 6 -3 6 4L5 12H-5L-6 4C-6 -3 -5 -8 0 -15Z\"/><title>the node; its bow points to {:.0} degrees</title></g>",
        scenario.node.heading_deg,
        crate::geodesy::wrap_360(scenario.node.heading_deg)
    );
}

fn legend(svg: &mut String, best_bps: f64) {
    for (n, colour) in COLOURS.iter().enumerate() {
        let x = 60.0 + 46.0 * n as f64;
        let _ = write!(
            svg,
            "<rect x=\"{x}\" y=\"{}\" width=\"46\" height=\"10\" fill=\"{colour}\"/><text x=\"{x}\" y=\"{}\" class=\"mid\">{:.0}</text>",
            SIZE - 28.0,
            SIZE - 5.0,
            best_bps / 1e6 * n as f64 / 5.0
        );
    }
    let _ = write!(svg, "<text x=\"{}\" y=\"{}\">{:.0} Mbit/s</text>", 60.0 + 230.0 - 8.0, SIZE - 5.0, best_bps / 1e6);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_has_the_way_the_ship_and_its_shadow() {
        let scenario = Scenario::example().unwrap();
        let track = scenario.fly(&scenario.flights[1]).unwrap();
        let forecast = Forecast::new(&scenario, "x", &track);
        let svg = map(&scenario, &forecast, 40e6);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>") && !svg.contains("NaN"));
        assert!(svg.contains("rotate(") && svg.contains("degrees from the bow") && svg.contains("40 Mbit/s"));
        // Behind the superstructure it is another colour than in the open.
        assert!(svg.contains(COLOURS[4]) || svg.contains(COLOURS[3]), "{svg}");
        assert!(svg.contains(COLOURS[0]) || svg.contains(COLOURS[1]), "{svg}");
        assert_eq!([shade(0.0, 10.0), shade(9.9, 10.0), shade(99.0, 10.0)], [0, 4, 4]);
    }
}
