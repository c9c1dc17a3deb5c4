//! Box plots: where the times of each row lie.

use std::fmt::Write;
use std::time::Duration;

use super::plot::{Axis, Colour, escape};
use super::ticks;
use crate::metrics::quantile;

/// Times of one kind.
#[derive(Debug)]
pub struct Row {
    /// What they are.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// The times, at least one, sorted.
    pub times: Vec<Duration>,
}

/// In what times are written.
#[derive(Debug, Clone, Copy)]
pub struct Unit {
    name: &'static str,
    in_a_second: f64,
    /// Nothing is shown as less.
    least: f64,
}

impl Unit {
    /// Milliseconds.
    pub const MILLISECONDS: Self = Self { name: "ms", in_a_second: 1e3, least: 0.1 };
    /// Seconds.
    pub const SECONDS: Self = Self { name: "s", in_a_second: 1.0, least: 0.001 };
}

const WIDTH: f64 = 960.0;
const ROW: f64 = 26.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 42.0;
/// Room for the figures at the right.
const RIGHT: f64 = 150.0;

/// A figure of rows: whiskers to the least and the greatest, a box from the 25th to the 75th of a hundred, a line at the
/// median. Nothing is left out as an outlier.
pub fn html(title: &str, note: &str, unit: Unit, rows: &[Row]) -> String {
    let value = |time: &Duration| time.as_secs_f64() * unit.in_a_second;
    let ends = |row: &Row| row.times.first().map(value).zip(row.times.last().map(value));
    let (least, greatest) = rows
        .iter()
        .filter_map(ends)
        .fold((f64::INFINITY, 0.0f64), |(least, greatest), (first, last)| (least.min(first), greatest.max(last)));
    let axis = Axis::logarithmic("", least.max(unit.least), greatest.max(2.0 * unit.least));
    let longest = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let left = (longest as f64 * 7.0 + 16.0).clamp(64.0, 420.0);
    let height = TOP + rows.len() as f64 * ROW + BOTTOM;
    let place = |value: f64| left + axis.share(value) * (WIDTH - left - RIGHT);
    let mut html = format!(
        "<figure class=\"wide\"><figcaption><b>{}</b> <span>{}</span></figcaption>\
         <svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\" xmlns=\"http://www.w3.org/2000/svg\">",
        escape(title),
        escape(note),
        escape(title)
    );
    let bottom = height - BOTTOM;
    for tick in axis.ticks() {
        let x = place(*tick);
        let _ = write!(
            html,
            "<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom}\"/><text x=\"{x:.1}\" y=\"{}\" class=\"mid\">{}</text>",
            bottom + 16.0,
            ticks::text(*tick)
        );
    }
    let (right, mid) = (WIDTH - RIGHT, (left + WIDTH - RIGHT) / 2.0);
    let _ = write!(
        html,
        "<path class=\"axis\" d=\"M{left} {TOP}V{bottom}H{right}\"/>\
         <text x=\"{mid}\" y=\"{}\" class=\"mid\">time, {}</text><text x=\"{WIDTH}\" y=\"{}\" class=\"end\">p50 / max, {}</text>",
        height - 8.0,
        unit.name,
        bottom + 16.0,
        unit.name
    );
    for (number, row) in rows.iter().enumerate() {
        let Some((first, last)) = ends(row) else { continue };
        let at = |share: f64| value(&quantile(&row.times, share));
        let y = TOP + (number as f64 + 0.5) * ROW;
        let [low, quarter, middle, three, high] = [first, at(0.25), at(0.5), at(0.75), last].map(place);
        let _ = write!(
            html,
            "<text x=\"{}\" y=\"{:.1}\" class=\"end\">{}</text><g class=\"{}\"><path class=\"line\" d=\"M{low:.1} {y}H{quarter:.1}\
             M{three:.1} {y}H{high:.1}M{low:.1} {:.1}v8M{high:.1} {:.1}v8\"/><rect class=\"box\" x=\"{quarter:.1}\" \
             y=\"{:.1}\" width=\"{:.1}\" height=\"16\"/><path class=\"median\" d=\"M{middle:.1} {:.1}v16\"/></g>\
             <text x=\"{WIDTH}\" y=\"{:.1}\" class=\"end\">{:.1} / {last:.1}</text>",
            left - 8.0,
            y + 4.0,
            escape(&row.name),
            row.colour.class(),
            y - 4.0,
            y - 4.0,
            y - 8.0,
            (three - quarter).max(1.0),
            y - 8.0,
            y + 4.0,
            at(0.5),
        );
    }
    html.push_str("</svg></figure>\n");
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_its_figures() {
        let times = [20, 30, 40, 1_000].map(Duration::from_millis).to_vec();
        let rows = [Row { name: "ours <up>".into(), colour: Colour::Contender(0), times }];
        let html = html("recovery", "", Unit::MILLISECONDS, &rows);
        assert!(html.contains("30.0 / 1000.0") && html.contains("ours &lt;up&gt;") && !html.contains("NaN"), "{html}");
    }
}
