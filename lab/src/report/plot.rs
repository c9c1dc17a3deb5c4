//! Plots as inline SVG.

use std::fmt::Write;

use super::series::Point;
use super::ticks;

/// A plot.
#[derive(Debug)]
pub struct Plot {
    /// Above it.
    pub title: String,
    /// Below the title, smaller; may be empty.
    pub note: String,
    /// Along.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// From the back to the front.
    pub series: Vec<Series>,
    /// Spans of x that are shaded: outages.
    pub bands: Vec<(f64, f64)>,
    /// Lines across, with what a pointer over them is told.
    pub marks: Vec<(f64, String)>,
    /// As wide as the page, or half of it.
    pub wide: bool,
}

/// An axis.
#[derive(Debug, Clone)]
pub struct Axis {
    label: String,
    from: f64,
    to: f64,
    log: bool,
    ticks: Vec<f64>,
    suffix: &'static str,
    /// Behind a value in the text of a mark.
    unit: &'static str,
}

/// A line, an area or marks, with a name in the legend.
#[derive(Debug)]
pub struct Series {
    /// Name.
    pub name: String,
    /// Number of its colour in the style sheet.
    pub colour: Colour,
    /// What is drawn.
    pub shape: Shape,
}

/// A colour of the style sheet, which has two of each: for light and for dark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Of a contender, by its place in the plan.
    Contender(usize),
    /// Of a class of flow: commands, parameters, video, datagrams, data.
    Class(usize),
    /// Of what a link carries.
    Capacity,
    /// Of what a link carried.
    Wire,
}

/// What is drawn of a series.
#[derive(Debug)]
pub enum Shape {
    /// Points joined; a gap where a value is not finite.
    Line(Vec<Point>),
    /// Likewise, dashed: the other one of the series of the same name, which alone is in the legend.
    Dashes(Vec<Point>),
    /// Each value holds from its x to the next one's.
    Stairs(Vec<Point>),
    /// Likewise, filled between two values: x, lower, upper.
    Area(Vec<(f64, f64, f64)>),
    /// Short strokes at the upper edge, in the row of that number.
    Rug(Vec<f64>, usize),
}

/// Colours of contenders; the same again are dotted.
const COLOURS: usize = 7;
pub(super) const WIDE: f64 = 960.0;
pub(super) const NARROW: f64 = 470.0;
pub(super) const HEIGHT: f64 = 260.0;
/// Left, right, top and bottom of the frame.
const MARGINS: [f64; 4] = [64.0, 22.0, 10.0, 42.0];
/// Strokes of a rug that are drawn at most; more would be black anyway.
const MAX_RUG: usize = 1_500;

impl Axis {
    /// From `from` to `to` or the next round value.
    pub fn linear(label: &str, from: f64, to: f64) -> Self {
        let step = ticks::step(from, to, 6);
        let to = if to > from { (to / step - 1e-9).ceil() * step } else { from + step };
        Self { label: label.into(), from, to, log: false, ticks: ticks::linear(from, to, 6), suffix: "", unit: "" }
    }

    /// Time in seconds, to exactly `to`.
    pub fn time(to: f64) -> Self {
        let ticks = ticks::linear(0.0, to, 12);
        Self { label: "time, s".into(), from: 0.0, to: to.max(1e-3), log: false, ticks, suffix: "", unit: " s" }
    }

    /// Over powers of ten, wide enough for both values and ending at 1, 2 or 5 times one.
    pub fn logarithmic(label: &str, least: f64, greatest: f64) -> Self {
        let least = if least.is_finite() && least > 1e-9 { least.min(1e12) } else { 1.0 };
        let greatest = if greatest.is_finite() { greatest.clamp(least, 1e15) } else { least * 10.0 };
        let around = ticks::fine(least / 10.0, greatest * 10.0);
        let from = around.iter().rfind(|tick| **tick <= least * 0.999).copied().unwrap_or(least / 10.0);
        let to = around.iter().find(|tick| **tick >= greatest * 1.001).copied().unwrap_or(greatest * 10.0);
        Self { label: label.into(), from, to, log: true, ticks: ticks::logarithmic(from, to), suffix: "", unit: "" }
    }

    /// From 0 to 100 per cent.
    pub fn percent(label: &str) -> Self {
        let ticks = vec![0.0, 0.25, 0.5, 0.75, 1.0];
        Self { label: label.into(), from: 0.0, to: 1.0, log: false, ticks, suffix: "%", unit: "" }
    }

    /// 0 at its beginning, 1 at its end; what is outside is put on the edge.
    pub fn share(&self, value: f64) -> f64 {
        let share = match self.log {
            true => (value.max(f64::MIN_POSITIVE).log10() - self.from.log10()) / (self.to.log10() - self.from.log10()),
            false => (value - self.from) / (self.to - self.from),
        };
        share.clamp(0.0, 1.0)
    }

    /// Where it begins and ends.
    pub fn bounds(&self) -> (f64, f64) {
        (self.from, self.to)
    }

    /// Where it has numbers.
    pub fn ticks(&self) -> &[f64] {
        &self.ticks
    }

    fn tick_text(&self, tick: f64) -> String {
        match self.suffix {
            "%" => format!("{} %", ticks::text(tick * 100.0)),
            _ if self.log && !(1e-3..1e6).contains(&tick) => format!("{tick:e}"),
            _ => ticks::text(tick),
        }
    }
}

impl Colour {
    /// Name in the style sheet.
    pub fn class(self) -> String {
        match self {
            Self::Contender(number) if number >= COLOURS => format!("c{} again", number % COLOURS),
            Self::Contender(number) => format!("c{number}"),
            Self::Class(number) => format!("f{}", number % 5),
            Self::Capacity => "capacity".into(),
            Self::Wire => "wire".into(),
        }
    }
}

impl Plot {
    /// The figure with title, legend and plot.
    pub fn html(&self) -> String {
        let mut html = format!(
            "<figure class=\"{}\"><figcaption><b>{}</b>",
            if self.wide { "wide" } else { "narrow" },
            escape(&self.title)
        );
        if !self.note.is_empty() {
            let _ = write!(html, " <span>{}</span>", escape(&self.note));
        }
        html.push_str("<div class=\"legend\">");
        for (number, series) in self.named() {
            let kind = if matches!(series.shape, Shape::Area(_)) { "area" } else { "line" };
            let _ = write!(
                html,
                "<button type=\"button\" class=\"{} {kind}\" data-n=\"{number}\"><i></i>{}</button>",
                series.colour.class(),
                escape(&series.name)
            );
        }
        html.push_str("</div></figcaption>");
        self.svg(&mut html);
        html.push_str("</figure>\n");
        html
    }

    /// The series of the legend, with their numbers. Strokes and dashes are shown and hidden with the line of the same name.
    pub(super) fn named(&self) -> Vec<(usize, &Series)> {
        let is_named = |series: &Series| !matches!(series.shape, Shape::Rug(..) | Shape::Dashes(_));
        let mut named: Vec<_> = self.series.iter().enumerate().filter(|(_, series)| is_named(series)).collect();
        named.sort_by_key(|(_, series)| if let Colour::Contender(number) = series.colour { number } else { 0 });
        named
    }

    /// The plot alone.
    pub fn svg(&self, to: &mut String) {
        let width = if self.wide { WIDE } else { NARROW };
        let [left, right, top, bottom] = MARGINS;
        let frame = Frame { left, top, width: width - left - right, height: HEIGHT - top - bottom };
        let _ = write!(
            to,
            "<svg viewBox=\"0 0 {width} {HEIGHT}\" role=\"img\" aria-label=\"{}\" xmlns=\"http://www.w3.org/2000/svg\">",
            escape(&self.title)
        );
        for (from, until) in &self.bands {
            let (from, until) = (self.x(&frame, *from), self.x(&frame, *until));
            let wide = (until - from).max(1.0);
            let _ = write!(
                to,
                "<rect class=\"outage\" x=\"{from:.1}\" y=\"{top}\" width=\"{wide:.1}\" height=\"{:.0}\"/>",
                frame.height
            );
        }
        self.draw_grid(to, &frame);
        for (number, series) in self.series.iter().enumerate() {
            let first = self.series.iter().position(|other| other.name == series.name).unwrap_or(number);
            let _ = write!(to, "<g class=\"{}\" data-n=\"{first}\">", series.colour.class());
            self.draw(to, &frame, &series.shape);
            to.push_str("</g>");
        }
        for (at, text) in &self.marks {
            let x = self.x(&frame, *at);
            let end = top + frame.height;
            let _ = write!(
                to,
                "<path class=\"mark\" d=\"M{x:.1} {top}V{end:.1}\"><title>{}{}: {}</title></path>",
                ticks::text(*at),
                self.x.unit,
                escape(text)
            );
        }
        to.push_str("</svg>");
    }

    fn x(&self, frame: &Frame, value: f64) -> f64 {
        frame.left + self.x.share(value) * frame.width
    }

    fn y(&self, frame: &Frame, value: f64) -> f64 {
        frame.top + (1.0 - self.y.share(value)) * frame.height
    }

    fn draw_grid(&self, to: &mut String, frame: &Frame) {
        let (right, bottom) = (frame.left + frame.width, frame.top + frame.height);
        for tick in &self.y.ticks {
            let y = self.y(frame, *tick);
            let _ = write!(
                to,
                "<path class=\"grid\" d=\"M{} {y:.1}H{right}\"/><text x=\"{}\" y=\"{:.1}\" class=\"end\">{}</text>",
                frame.left,
                frame.left - 6.0,
                y + 4.0,
                self.y.tick_text(*tick)
            );
        }
        for tick in &self.x.ticks {
            let x = self.x(frame, *tick);
            let _ = write!(
                to,
                "<path class=\"grid\" d=\"M{x:.1} {}V{bottom}\"/><text x=\"{x:.1}\" y=\"{}\" class=\"mid\">{}</text>",
                frame.top,
                bottom + 16.0,
                self.x.tick_text(*tick)
            );
        }
        let (mid_x, mid_y) = (frame.left + frame.width / 2.0, frame.top + frame.height / 2.0);
        let _ = write!(
            to,
            "<path class=\"axis\" d=\"M{} {}V{bottom}H{right}\"/><text x=\"{mid_x}\" y=\"{}\" class=\"mid\">{}</text>\
             <text transform=\"translate(14 {mid_y}) rotate(-90)\" class=\"mid\">{}</text>",
            frame.left,
            frame.top,
            HEIGHT - 8.0,
            escape(&self.x.label),
            escape(&self.y.label)
        );
    }

    fn draw(&self, to: &mut String, frame: &Frame, shape: &Shape) {
        match shape {
            Shape::Line(points) => self.draw_line(to, frame, points, "line"),
            Shape::Dashes(points) => self.draw_line(to, frame, points, "line dashed"),
            Shape::Stairs(points) => {
                let mut pen = Pen::default();
                for pair in points.windows(2) {
                    if pair[0].1.is_finite() {
                        let y = self.y(frame, pair[0].1);
                        pen.line_to(self.x(frame, pair[0].0), y);
                        pen.line_to(self.x(frame, pair[1].0), y);
                    } else {
                        pen.lift();
                    }
                }
                if let Some(last) = points.last().filter(|last| last.1.is_finite()) {
                    pen.line_to(self.x(frame, last.0), self.y(frame, last.1));
                }
                let _ = write!(to, "<path class=\"line\" d=\"{}\"/>", pen.finish());
            }
            Shape::Area(points) => self.draw_area(to, frame, points),
            Shape::Rug(places, row) => {
                let top = frame.top + 2.0 + 7.0 * *row as f64;
                let every = places.len().div_ceil(MAX_RUG).max(1);
                let strokes = places.iter().step_by(every);
                let path: String =
                    strokes.map(|at| format!("M{:.1} {top}v5", self.x(frame, *at))).collect::<Vec<_>>().concat();
                let _ = write!(to, "<path class=\"line\" d=\"{path}\"/>");
            }
        }
    }

    fn draw_line(&self, to: &mut String, frame: &Frame, points: &[Point], class: &str) {
        let mut pen = Pen::default();
        points.iter().for_each(|point| match point.1.is_finite() {
            true => pen.line_to(self.x(frame, point.0), self.y(frame, point.1)),
            false => pen.lift(),
        });
        let _ = write!(to, "<path class=\"{class}\" d=\"{}\"/>", pen.finish());
    }

    fn draw_area(&self, to: &mut String, frame: &Frame, points: &[(f64, f64, f64)]) {
        let (mut edge, mut shape) = (Pen::default(), Pen::default());
        for pair in points.windows(2) {
            let y = self.y(frame, pair[0].2);
            for x in [pair[0].0, pair[1].0] {
                edge.line_to(self.x(frame, x), y);
                shape.line_to(self.x(frame, x), y);
            }
        }
        for pair in points.windows(2).rev() {
            let y = self.y(frame, pair[0].1);
            for x in [pair[1].0, pair[0].0] {
                shape.line_to(self.x(frame, x), y);
            }
        }
        let _ = write!(
            to,
            "<path class=\"fill\" d=\"{}Z\"/><path class=\"edge\" d=\"{}\"/>",
            shape.finish(),
            edge.finish()
        );
    }
}

struct Frame {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

/// Writes the path of a line.
#[derive(Debug, Default)]
struct Pen {
    path: String,
    is_down: bool,
}

impl Pen {
    fn line_to(&mut self, x: f64, y: f64) {
        let _ = write!(self.path, "{}{x:.1} {y:.1}", if self.is_down { "L" } else { "M" });
        self.is_down = true;
    }

    fn lift(&mut self) {
        self.is_down = false;
    }

    fn finish(self) -> String {
        if self.path.is_empty() { "M0 0".into() } else { self.path }
    }
}

/// Text as it may stand in HTML.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(' '),
            character if character.is_control() => {}
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_gap_lifts_the_pen() {
        let plot = Plot {
            title: "a <b>".into(),
            note: String::new(),
            x: Axis::time(3.0),
            y: Axis::linear("y", 0.0, 1.0),
            series: vec![Series {
                name: "s".into(),
                colour: Colour::Contender(0),
                shape: Shape::Line(vec![(0.0, 0.0), (1.0, f64::NAN), (2.0, 1.0)]),
            }],
            bands: vec![(1.0, 1.2)],
            marks: vec![(2.0, "x & y".into())],
            wide: true,
        };
        let html = plot.html();
        assert!(html.contains("d=\"M64.0 218.0M646.7 10.0\""), "{html}");
        assert!(html.contains("a &lt;b&gt;") && html.contains("2 s: x &amp; y") && !html.contains("NaN"));
    }

    #[test]
    fn axes_end_at_round_values() {
        assert_eq!(Axis::linear("", 0.0, 4.7).to, 5.0);
        let axis = Axis::logarithmic("", 33.0, 612.0);
        assert_eq!((axis.from, axis.to), (20.0, 1_000.0));
        assert_eq!(Axis::logarithmic("", 0.0, f64::NAN).from, 0.5);
    }

    proptest! {
        #[test]
        fn whatever_the_values_coordinates_are_finite(values in prop::collection::vec(any::<f64>(), 1..40)) {
            let bounds = values.iter().filter(|value| value.is_finite());
            let (least, greatest) =
                bounds.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)));
            let points = values.iter().enumerate().map(|(n, value)| (n as f64, *value)).collect();
            let series = vec![Series { name: "s".into(), colour: Colour::Wire, shape: Shape::Line(points) }];
            let y = Axis::logarithmic("y", least, greatest);
            let plot = Plot {
                title: "t".into(), note: String::new(), x: Axis::time(40.0), y, series,
                bands: Vec::new(), marks: Vec::new(), wide: false,
            };
            let html = plot.html();
            prop_assert!(!html.contains("NaN") && !html.contains("inf"), "{}", html);
        }
    }
}
