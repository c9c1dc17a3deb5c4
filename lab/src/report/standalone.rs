//! Plots that are not part of a report.

use std::fmt::Write;

use super::plot::{Plot, escape};

const STYLE: &str = include_str!("style.css");
/// Of a plot and its title.
const ROW: f64 = 300.0;

/// A page of plots.
pub fn page(title: &str, plots: &[Plot]) -> String {
    let title = escape(title);
    let plots: String = plots.iter().map(Plot::html).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n<style>\n{STYLE}</style>\
         </head><body>\n<h1>{title}</h1>\n{plots}</body></html>\n"
    )
}

/// A picture of plots, one below the other.
pub fn svg(title: &str, plots: &[Plot]) -> String {
    let height = ROW * plots.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 960 {height}\" width=\"960\" height=\"{height}\">\n\
         <title>{}</title><style>\n{STYLE}</style><rect width=\"100%\" height=\"100%\" style=\"fill:var(--page)\"/>\n",
        escape(title)
    );
    for (number, plot) in plots.iter().enumerate() {
        let top = number as f64 * ROW;
        let _ = write!(
            svg,
            "<text x=\"12\" y=\"{}\">{}, {}</text><svg y=\"{}\" width=\"960\" height=\"260\">",
            top + 22.0,
            escape(&plot.title),
            escape(&plot.note),
            top + 34.0
        );
        plot.svg(&mut svg);
        svg.push_str("</svg>\n");
    }
    svg.push_str("</svg>\n");
    svg
}
