//! The page of `aquila plan flight --html`: for each flight a map, rates over time, windows and files.

use std::fmt::Write;

use aquila_lab::report::plot::{Axis, Colour, Plot, Series, Shape, escape};
use aquila_lab::report::standalone;
use aquila_plan::forecast::warnings::Severity;
use aquila_plan::forecast::{Forecast, Second};
use aquila_plan::report::map;
use aquila_plan::scenario::Scenario;

use super::advice::Advice;

/// Points of a plot, at most.
const MAX_POINTS: usize = 3_000;

/// The page.
pub fn page(scenario: &Scenario, forecasts: &[Forecast]) -> String {
    let title = if scenario.title.is_empty() { "Flights" } else { &scenario.title };
    // All maps have the same colours.
    let rates = forecasts.iter().flat_map(|forecast| &forecast.seconds).map(|second| second.link.goodput_bps());
    let best = round_up(rates.fold(1e5, f64::max));
    let mut body = String::new();
    summary(&mut body, scenario, forecasts);
    for forecast in forecasts {
        flight(&mut body, scenario, forecast, best);
    }
    standalone::page_of(title, &body)
}

fn summary(body: &mut String, scenario: &Scenario, forecasts: &[Forecast]) {
    let (node, radio, model) = (&scenario.node, &scenario.radio, &scenario.model);
    let _ = write!(
        body,
        "<p class=\"soft\">Node at {:.5}, {:.5}, bow to {:.0} degrees. {} MHz, {} MHz wide, {} dBm EIRP. Exponent {}, offset {} dB. \
         P10, P50, P90: of {} seeds, from {} on. A forecast is as good as its constants: refit them from a flight with \
         <code>aquila plan fit</code>.</p>\n<div class=\"scroll\"><table><tr><th class=\"text\">flight</th><th>seconds</th>\
         <th>contact</th><th>P10 MB</th><th>P50 MB</th><th>P90 MB</th><th>mean Mbit/s</th><th>loss</th><th>links for 10⁻⁶</th></tr>\n",
        node.latitude_deg,
        node.longitude_deg,
        node.heading_deg,
        radio.frequency_mhz,
        radio.bandwidth_mhz,
        radio.eirp_dbm,
        model.path_loss.exponent,
        model.path_loss.offset_db,
        model.seeds,
        model.seed
    );
    for forecast in forecasts {
        let (volume, advice) = (forecast.volume, Advice::new(forecast));
        let contact: u32 = forecast.windows.iter().map(|window| window.to_s - window.from_s).sum();
        let _ = writeln!(
            body,
            "<tr><td class=\"text\">{}</td><td>{}</td><td>{contact} s</td><td>{:.1}</td><td>{:.1}</td><td>{:.1}</td><td>{:.1}</td>\
             <td>{:.3} %</td><td>{}</td></tr>",
            escape(&forecast.name),
            forecast.seconds.len(),
            volume.p10_bits / 8e6,
            volume.p50_bits / 8e6,
            volume.p90_bits / 8e6,
            forecast.mean_bps() / 1e6,
            advice.packet_loss * 100.0,
            advice.links_needed.map_or("none".into(), |links| links.to_string())
        );
    }
    body.push_str("</table></div>\n");
}

fn flight(body: &mut String, scenario: &Scenario, forecast: &Forecast, best: f64) {
    let _ = writeln!(body, "<h2>{}</h2>", escape(&forecast.name));
    for warning in &forecast.warnings {
        let class = if warning.severity == Severity::Danger { "bad" } else { "soft" };
        let mark = if warning.severity == Severity::Danger { "Danger: " } else { "" };
        let _ = writeln!(body, "<p class=\"{class}\">{mark}{}</p>", escape(&warning.text));
    }
    for note in &forecast.notes {
        let _ = writeln!(body, "<p class=\"soft\">{}</p>", escape(note));
    }
    let _ = writeln!(
        body,
        "<figure style=\"max-width:40rem\"><figcaption><b>From above</b> <span>north up; the way by what comes over, the superstructure's \
         shadows darker the higher they reach</span></figcaption>{}</figure>",
        map(scenario, forecast, best)
    );
    for plot in [rates(forecast, best), levels(forecast)] {
        body.push_str(&plot.html());
    }
    windows(body, forecast);
    files(body, forecast);
    let sentences = Advice::new(forecast).sentences().map(|sentence| escape(&sentence).to_string());
    let _ = writeln!(body, "<p>{}</p>", sentences.join("<br>"));
}

/// What comes over.
fn rates(forecast: &Forecast, best: f64) -> Plot {
    let goodput = points(forecast, |second| second.link.goodput_bps() / 1e6);
    let radio = points(forecast, |second| second.link.tx_bps / 1e6);
    let most = radio.iter().map(|point| point.1).fold(best / 1e6, f64::max);
    let line = |name: &str, colour, shape| Series { name: name.into(), colour, shape };
    Plot {
        title: "Rate over time".into(),
        note: "with the first seed; shaded is where most seeds have no contact".into(),
        x: Axis::time(forecast.seconds.len() as f64),
        y: Axis::linear("Mbit/s", 0.0, most),
        series: vec![
            line("the radio's", Colour::Contender(6), Shape::Stairs(radio)),
            line("what comes over", Colour::Contender(0), Shape::Stairs(goodput)),
        ],
        bands: gaps(forecast),
        marks: Vec::new(),
        wide: true,
    }
}

/// Where it comes from.
fn levels(forecast: &Forecast) -> Plot {
    let snr = points(forecast, |second| second.link.snr_db);
    let median = points(forecast, |second| second.sight.median_snr_db);
    let taken = points(forecast, |second| second.sight.obstruction_db + second.sight.terrain_db);
    let elevation = points(forecast, |second| second.sight.elevation_deg);
    let all = || [&snr, &median, &taken, &elevation].into_iter().flatten().map(|point| point.1);
    let (least, most) = (all().fold(0.0, f64::min), all().fold(10.0, f64::max));
    let line = |name: &str, colour, points| Series {
        name: name.into(),
        colour: Colour::Contender(colour),
        shape: Shape::Line(points),
    };
    Plot {
        title: "Why".into(),
        note: "signal over noise with and without chance, what stands in the way, and how high the aircraft is seen"
            .into(),
        x: Axis::time(forecast.seconds.len() as f64),
        y: Axis::linear("dB, degrees", (least / 10.0).floor() * 10.0, most),
        series: vec![
            line("signal over noise, dB", 6, snr),
            line("without chance, dB", 0, median),
            line("in the way, dB", 4, taken),
            line("elevation, degrees", 2, elevation),
        ],
        bands: gaps(forecast),
        marks: Vec::new(),
        wide: true,
    }
}

fn points(forecast: &Forecast, value: impl Fn(&Second) -> f64) -> Vec<(f64, f64)> {
    let every = forecast.seconds.len().div_ceil(MAX_POINTS).max(1);
    let kept = forecast.seconds.iter().enumerate().step_by(every);
    kept.map(|(second, it)| (second as f64, value(it))).collect()
}

/// Between windows.
fn gaps(forecast: &Forecast) -> Vec<(f64, f64)> {
    let ends = forecast.windows.iter().flat_map(|window| [f64::from(window.from_s), f64::from(window.to_s)]);
    let edges: Vec<f64> = [0.0].into_iter().chain(ends).chain([forecast.seconds.len() as f64]).collect();
    edges.chunks_exact(2).map(|pair| (pair[0], pair[1])).filter(|(from, to)| from < to).collect()
}

fn windows(body: &mut String, forecast: &Forecast) {
    /// Rows that are shown.
    const MAX_ROWS: usize = 100;
    if forecast.windows.is_empty() {
        return;
    }
    body.push_str("<h3>Contact</h3><div class=\"scroll\"><table><tr><th>from s</th><th>to s</th><th>P10 MB</th><th>P50 MB</th><th>P90 MB</th></tr>\n");
    for window in forecast.windows.iter().take(MAX_ROWS) {
        let _ = writeln!(
            body,
            "<tr><td>{}</td><td>{}</td><td>{:.1}</td><td>{:.1}</td><td>{:.1}</td></tr>",
            window.from_s,
            window.to_s,
            window.p10_bits / 8e6,
            window.p50_bits / 8e6,
            window.p90_bits / 8e6
        );
    }
    body.push_str("</table></div>\n");
}

fn files(body: &mut String, forecast: &Forecast) {
    if forecast.files.is_empty() {
        return;
    }
    body.push_str(
        "<h3>Files that fit</h3><div class=\"scroll\"><table><tr><th class=\"text\">files</th><th>MB</th><th>of</th>\
         <th>in 9 of 10 tries</th><th>in half</th><th>in 1 of 10</th><th>all of them</th></tr>\n",
    );
    for fit in &forecast.files {
        let _ = writeln!(
            body,
            "<tr><td class=\"text\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.0} %</td></tr>",
            escape(&fit.files.name),
            fit.files.size_mb,
            fit.files.count,
            fit.p10_count,
            fit.p50_count,
            fit.p90_count,
            fit.all_share * 100.0
        );
    }
    body.push_str("</table></div>\n");
}

/// To a whole five Mbit/s, or a whole tenth below that.
fn round_up(bps: f64) -> f64 {
    let step = if bps > 5e6 { 5e6 } else { 1e5 };
    (bps / step).ceil() * step
}
