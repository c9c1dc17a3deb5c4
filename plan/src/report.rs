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
    let mut taken = Taken::new(&points, &scale);
    let compass = compass(&mut taken);
    let labels = rings(&mut svg, &scale, &mut taken);
    obstacles(&mut svg, scenario, &scale);
    way(&mut svg, forecast, &points, &scale, best_bps);
    arrows(&mut svg, &points, &scale);
    ship(&mut svg, scenario, &scale);
    svg.push_str(&labels);
    svg.push_str(&compass);
    legend(&mut svg, best_bps);
    svg.push_str("</svg>");
    svg
}

/// What is drawn already, so that letters do not lie on it.
struct Taken {
    /// The way.
    way: Vec<(f64, f64)>,
    /// Center, and half of width and height.
    boxes: Vec<[f64; 4]>,
}

impl Taken {
    fn new(points: &[[f64; 2]], scale: &Scale) -> Self {
        let (x, y) = scale.at([0.0, 0.0]);
        let legend = [60.0 + 150.0, SIZE - 14.0, 190.0, 18.0];
        Self { way: points.iter().map(|point| scale.at(*point)).collect(), boxes: vec![[x, y, 17.0, 17.0], legend] }
    }

    /// How far a box is from all of it; negative if it lies on something, or beyond the picture.
    fn clearance(&self, [x, y, wide, high]: [f64; 4]) -> f64 {
        let to = |(other_x, other_y): (f64, f64), more_wide: f64, more_high: f64| {
            ((x - other_x).abs() - wide - more_wide).max((y - other_y).abs() - high - more_high)
        };
        let way = self.way.iter().map(|point| to(*point, STROKE, STROKE));
        let boxes = self.boxes.iter().map(|taken| to((taken[0], taken[1]), taken[2], taken[3]));
        let edge = [x - wide, y - high, SIZE - x - wide, SIZE - y - high];
        way.chain(boxes).chain(edge).fold(f64::INFINITY, f64::min)
    }
}

/// Half of a way's width, and some room.
const STROKE: f64 = 5.0;

/// Where north is: in the corner with most room.
fn compass(taken: &mut Taken) -> String {
    let corners = [(24.0, 40.0), (SIZE - 24.0, 40.0), (SIZE - 24.0, SIZE - 60.0), (24.0, SIZE - 90.0)];
    let room = |(x, y): (f64, f64)| taken.clearance([x, y, 9.0, 25.0]);
    // The first of those that are good enough, so that it is where it usually is.
    let (x, y) = corners.into_iter().find(|corner| room(*corner) > 0.0).unwrap_or_else(|| {
        let best = corners.into_iter().max_by(|one, other| room(*one).total_cmp(&room(*other)));
        best.unwrap_or(corners[0])
    });
    taken.boxes.push([x, y, 9.0, 25.0]);
    format!(
        "<path class=\"axis\" d=\"M{x} {:.1}V{:.1}M{:.1} {:.1}L{x} {:.1}L{:.1} {:.1}\"/><text x=\"{x}\" y=\"{:.1}\" class=\"mid\">N</text>",
        y + 8.0,
        y - 22.0,
        x - 6.0,
        y - 14.0,
        y - 24.0,
        x + 6.0,
        y - 14.0,
        y + 22.0
    )
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

/// Distances from the node. Gives their labels, which go on top, where the way is not.
fn rings(svg: &mut String, scale: &Scale, taken: &mut Taken) -> String {
    /// Where on a ring its label may be, degrees clockwise from north: below on the right first.
    const PLACES: usize = 24;
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
        let text = if step >= 1_000.0 { format!("{} km", radius / 1e3) } else { format!("{radius} m") };
        let wide = 3.6 * text.len() as f64;
        let places = (0..PLACES).map(|place| {
            let (sin, cos) = (150.0 + 360.0 / PLACES as f64 * place as f64).to_radians().sin_cos();
            [x + drawn * sin, y - drawn * cos, wide, 7.0]
        });
        // A ring of which no place is free is as far as its neighbours say.
        if let Some(place) = places.into_iter().find(|place| taken.clearance(*place) > 0.0) {
            let _ =
                write!(labels, "<text x=\"{:.1}\" y=\"{:.1}\" class=\"mid\">{text}</text>", place[0], place[1] + 4.0);
            taken.boxes.push(place);
        }
    }
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

/// Which way it is flown, now and then.
fn arrows(svg: &mut String, points: &[[f64; 2]], scale: &Scale) {
    /// On the way between two, and between any two in the picture.
    const EVERY: f64 = 130.0;
    const APART: f64 = 90.0;
    let mut drawn: Vec<(f64, f64)> = Vec::new();
    let mut since = EVERY / 2.0;
    for pair in points.windows(2) {
        let ((from_x, from_y), (x, y)) = (scale.at(pair[0]), scale.at(pair[1]));
        let way = (x - from_x).hypot(y - from_y);
        since += way;
        let is_free = drawn.iter().all(|(other_x, other_y)| (x - other_x).hypot(y - other_y) > APART);
        if since < EVERY || !is_free || way < 0.1 {
            continue;
        }
        since = 0.0;
        drawn.push((x, y));
        let turned = (y - from_y).atan2(x - from_x).to_degrees();
        let _ = write!(
            svg,
            "<path class=\"flown\" fill=\"currentColor\" stroke=\"#fff\" stroke-width=\"1\" \
             transform=\"translate({x:.1} {y:.1}) rotate({turned:.1})\" d=\"M9 0L-6 -7L-3 0L-6 7Z\"/>"
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
        assert!(svg.matches("class=\"flown\"").count() >= 3, "arrows say which way it is flown");
        assert_eq!([shade(0.0, 10.0), shade(9.9, 10.0), shade(99.0, 10.0)], [0, 4, 4]);
    }

    /// Where texts are: what, and in the middle of which box.
    fn texts(svg: &str) -> Vec<(String, f64, f64)> {
        let each = svg.split("<text x=\"").skip(1).map(|text| {
            let (x, rest) = text.split_once("\" y=\"").unwrap();
            let (y, rest) = rest.split_once('"').unwrap();
            let (_, rest) = rest.split_once('>').unwrap();
            (rest.split('<').next().unwrap().to_owned(), x.parse().unwrap(), y.parse::<f64>().unwrap() - 4.0)
        });
        each.collect()
    }

    #[test]
    fn letters_lie_neither_on_the_way_nor_on_the_ship() {
        let mut scenario = Scenario::example().unwrap();
        // The third is seen from the north-west: there the ship is in the corner in which the compass usually is.
        for bearing_deg in [0.0, 45.0, 90.0, 135.0, 225.0, 315.0] {
            let crate::scenario::Way::Loiter(loiter) = &mut scenario.flights[2].way else { panic!("not a loiter") };
            loiter.bearing_deg = bearing_deg;
            let track = scenario.fly(&scenario.flights[2]).unwrap();
            let forecast = Forecast::new(&scenario, "x", &track);
            let node = Frame::new(scenario.node.position());
            let points: Vec<_> = forecast.seconds.iter().map(|second| flat(&node, second.moment.position)).collect();
            let scale = Scale::around(&points);
            let way: Vec<_> = points.iter().map(|point| scale.at(*point)).chain([scale.at([0.0, 0.0])]).collect();
            let texts = texts(&map(&scenario, &forecast, 40e6));
            let wanted = |(text, ..): &&(String, f64, f64)| text == "N" || text.ends_with(" m") || text.ends_with("km");
            let mut seen = 0;
            for (text, x, y) in texts.iter().filter(wanted) {
                seen += 1;
                let nearest = way.iter().map(|(other_x, other_y)| (x - other_x).hypot(y - other_y));
                let nearest = nearest.fold(f64::INFINITY, f64::min);
                assert!(nearest > 9.0, "{bearing_deg}: {text} at {x}, {y} is {nearest:.0} from the way or the ship");
            }
            assert!(seen >= 3, "{bearing_deg}: {texts:?}");
        }
    }
}
