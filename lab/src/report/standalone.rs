//! Plots that are not part of a report.

use std::fmt::Write;
use std::path::Path;

use super::plot::{HEIGHT, NARROW, Plot, WIDE, escape};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("toggle.js");
/// Colours as they are, without variables: most programs but browsers know none.
const PICTURE_STYLE: &str = include_str!("picture.css");
/// From one line of text to the next.
const LINE: f64 = 17.0;
/// Below a plot.
const GAP: f64 = 14.0;
/// Of a letter, about; of the stroke before a name in a legend; between two names there.
const LETTER: f64 = 6.7;
const SWATCH: f64 = 26.0;
const SPACE: f64 = 16.0;

/// Plots as a picture if the file's name ends with `.svg`, else as a page.
pub fn for_file(path: &Path, title: &str, plots: &[Plot]) -> String {
    match path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("svg")) {
        true => svg(title, plots),
        false => page(title, plots),
    }
}

/// A page of plots.
pub fn page(title: &str, plots: &[Plot]) -> String {
    let class = if plots.iter().all(|plot| plot.wide) { "" } else { "pairs plain" };
    let plots: String = plots.iter().map(Plot::html).collect();
    page_of(title, &format!("<div class=\"{class}\">\n{plots}</div>"))
}

/// A page of whatever HTML, in the style of reports.
pub fn page_of(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title>\n<style>\n{STYLE}</style>\
         </head><body>\n<h1>{title}</h1>\n{body}\n<script>\n{SCRIPT}</script></body></html>\n"
    )
}

/// A picture of plots, one below the other; narrow ones two by two.
pub fn svg(title: &str, plots: &[Plot]) -> String {
    let mut drawn = String::new();
    let mut top = 0.0;
    for row in rows(plots) {
        // Plots beside each other begin at the same height.
        let head = row.iter().map(|plot| head(plot, &mut String::new(), 0.0, 0.0)).fold(0.0, f64::max);
        for (place, plot) in row.iter().enumerate() {
            let left = place as f64 * (WIDE - NARROW);
            self::head(plot, &mut drawn, left, top);
            let (width, y) = (width(plot), top + head);
            let _ = write!(drawn, "<svg x=\"{left}\" y=\"{y}\" width=\"{width}\" height=\"{HEIGHT}\">");
            plot.svg(&mut drawn);
            drawn.push_str("</svg>\n");
        }
        top += head + HEIGHT + GAP;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDE} {top}\" width=\"{WIDE}\" height=\"{top}\">\n\
         <title>{}</title><style>\n{PICTURE_STYLE}</style><rect width=\"{WIDE}\" height=\"{top}\" class=\"page\"/>\n\
         {drawn}</svg>\n",
        escape(title)
    )
}

/// Wide ones alone, narrow ones with the next if that is narrow too.
fn rows(plots: &[Plot]) -> Vec<&[Plot]> {
    let (mut rows, mut rest) = (Vec::new(), plots);
    while !rest.is_empty() {
        let is_pair = rest.len() > 1 && !rest[0].wide && !rest[1].wide;
        let (row, others) = rest.split_at(if is_pair { 2 } else { 1 });
        rows.push(row);
        rest = others;
    }
    rows
}

fn width(plot: &Plot) -> f64 {
    if plot.wide { WIDE } else { NARROW }
}

/// Title, note, and the legend if there is more than one name. Gives its height.
fn head(plot: &Plot, to: &mut String, left: f64, top: f64) -> f64 {
    let mut y = top + LINE + 4.0;
    let _ = writeln!(to, "<text x=\"{}\" y=\"{y}\" class=\"title\">{}</text>", left + 12.0, escape(&plot.title));
    if !plot.note.is_empty() {
        y += LINE;
        let _ = writeln!(to, "<text x=\"{}\" y=\"{y}\">{}</text>", left + 12.0, escape(&plot.note));
    }
    let named = plot.named();
    if named.len() > 1 {
        y += LINE;
        let mut x = 12.0;
        for (_, series) in named {
            let length = SWATCH + series.name.chars().count() as f64 * LETTER;
            if x > 12.0 && x + length > width(plot) - 10.0 {
                (x, y) = (12.0, y + LINE);
            }
            let _ = writeln!(
                to,
                "<g class=\"{}\"><path class=\"line\" d=\"M{} {}h20\"/></g><text x=\"{}\" y=\"{y}\">{}</text>",
                series.colour.class(),
                left + x,
                y - 4.0,
                left + x + SWATCH,
                escape(&series.name)
            );
            x += length + SPACE;
        }
    }
    y - top + 8.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::plot::{Axis, Colour, Series, Shape};

    #[test]
    fn the_picture_has_the_colours_of_the_page() {
        let colours = PICTURE_STYLE.split('#').skip(1).map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap();
            format!("#{};", &rest[..end])
        });
        colours.for_each(|colour| assert!(STYLE.contains(&colour), "{colour}"));
        assert!(!PICTURE_STYLE.contains("var("));
    }

    #[test]
    fn narrow_plots_stand_side_by_side_with_their_legends() {
        let plot = |wide, names: &[&str]| Plot {
            title: "t".into(),
            note: "n".into(),
            x: Axis::linear("x", 0.0, 1.0),
            y: Axis::linear("y", 0.0, 1.0),
            series: names
                .iter()
                .map(|name| Series {
                    name: (*name).into(),
                    colour: Colour::Contender(0),
                    shape: Shape::Line(vec![(0.0, 0.0), (1.0, 1.0)]),
                })
                .collect(),
            bands: Vec::new(),
            marks: Vec::new(),
            wide,
        };
        let plots = [plot(true, &["only"]), plot(false, &["a", "b"]), plot(false, &["c"]), plot(false, &["d", "e"])];
        assert_eq!(rows(&plots).iter().map(|row| row.len()).collect::<Vec<_>>(), [1, 2, 1]);
        let picture = svg("s", &plots);
        assert!(picture.contains("x=\"490\"") && picture.contains(">b</text>") && !picture.contains(">only</text>"));
        assert!(for_file(Path::new("a.SVG"), "s", &plots).starts_with("<svg"));
        assert!(for_file(Path::new("a.html"), "s", &plots).contains("class=\"pairs plain\""));
    }
}
