//! The page: tables and plots of all variants in one file.

use std::io::{self, Write};

use serde_json::Value;

use super::boxes::{self, Row};
use super::charts;
use super::intervals;
use super::plot::{Colour, Plot, escape};
use super::scene::{DIRECTIONS, Scene};
use crate::judge::{Judgement, VariantJudgement};
use crate::metrics::{Outcome, recoveries};
use crate::plan::Mode;
use crate::record::Run;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("toggle.js");
/// Variants that have plots; the tables and the CSV have all of them.
const MAX_PLOTTED: usize = 12;
/// Events of a contender that are listed; `events.csv` has all of them.
const MAX_EVENTS: usize = 200;
/// Rows of one box plot.
const MAX_ROWS: usize = 48;

/// Writes the page.
pub fn write(to: &mut impl Write, judgement: &Judgement) -> io::Result<()> {
    let title = escape(&judgement.plan);
    write!(
        to,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    )?;
    write_head(to, judgement)?;
    write_checks(to, &judgement.checks)?;
    write_agreement(to, judgement)?;
    write_programs(to, judgement)?;
    write_recoveries(to, judgement)?;
    for (number, variant) in judgement.variants.iter().enumerate() {
        if !variant.variant.is_empty() {
            writeln!(to, "<h2>{}</h2>", escape(&variant.variant))?;
        }
        write_latencies(to, variant)?;
        intervals::write_table(to, variant)?;
        write_links(to, variant)?;
        match number < MAX_PLOTTED {
            true => write_plots(to, variant)?,
            false => writeln!(to, "<p class=\"soft\">Plots are for the first {MAX_PLOTTED} variants.</p>")?,
        }
    }
    write!(to, "<script>\n{SCRIPT}</script>\n</body></html>\n")
}

/// Verdict, what the plan is about, and how it was run.
fn write_head(to: &mut impl Write, judgement: &Judgement) -> io::Result<()> {
    let failed = judgement.checks.iter().filter(|check| !check.pass).count();
    let checks = judgement.checks.len();
    match (&judgement.invalid, failed, checks) {
        (Some(reason), ..) => writeln!(to, "<p class=\"bad\">This run does not count: {}</p>", escape(reason))?,
        (None, 0, 0) => writeln!(to, "<p>Nothing was checked.</p>")?,
        (None, 0, _) => writeln!(to, "<p class=\"good\">All {checks} checks hold.</p>")?,
        (None, ..) => writeln!(to, "<p class=\"bad\">{failed} of {checks} checks fall short.</p>")?,
    }
    let Some(first) = judgement.variants.first() else { return Ok(()) };
    for paragraph in first.plan.about.split("\n\n").map(str::trim).filter(|text| !text.is_empty()) {
        writeln!(to, "<p>{}</p>", escape(paragraph))?;
    }
    let mode = match judgement.mode {
        Mode::Virtual => "Run in virtual time",
        Mode::Live => "Run live, in network namespaces",
    };
    let of_contender = |name: &str| first.runs.iter().filter(|run| run.contender == name).count();
    let repeats = first.runs.iter().map(|run| of_contender(&run.contender)).max().unwrap_or(0);
    let seconds = first.plan.duration().as_secs_f64();
    writeln!(
        to,
        "<p class=\"soft\">{mode}: {seconds} s each, {repeats} {}, seeds from {}. Beside this page: metrics.json, \
         messages.csv, links.csv, events.csv.</p>",
        if repeats == 1 { "repeat" } else { "repeats" },
        judgement.seed
    )
}

fn write_checks(to: &mut impl Write, checks: &[Outcome]) -> io::Result<()> {
    if checks.is_empty() {
        return Ok(());
    }
    writeln!(
        to,
        "<h3>Checks</h3><div class=\"scroll\"><table><tr><th class=\"text\">check</th><th class=\"text\">metric</th>\
         <th>value</th><th>bound</th><th></th></tr>"
    )?;
    for check in checks {
        let value = check.value.map_or("not measured".into(), |value| format!("{}", (value * 1e4).round() / 1e4));
        let (class, verdict) = if check.pass { ("good", "holds") } else { ("bad", "falls short") };
        writeln!(
            to,
            "<tr><td class=\"text\">{}</td><td class=\"text soft\">{}</td><td>{value}</td><td>{}</td>\
             <td class=\"{class}\">{verdict}</td></tr>",
            escape(&check.name),
            escape(&check.metric).replace('.', ".<wbr>"),
            escape(&check.bound.replace(">=", "≥").replace("<=", "≤")),
        )?;
    }
    writeln!(to, "</table></div>")
}

/// How live runs compare with the same in virtual time, if that was asked.
fn write_agreement(to: &mut impl Write, judgement: &Judgement) -> io::Result<()> {
    let Some(agreement) = judgement.agreement.as_ref().filter(|agreement| !agreement.is_empty()) else {
        return Ok(());
    };
    writeln!(
        to,
        "<h3>Live beside virtual time</h3><p class=\"soft\">Medians over the repeats, equal seeds on both sides.</p>\
         <div class=\"scroll\"><table><tr><th class=\"text\">metric</th><th>virtual</th><th>live</th>\
         <th>least to most</th><th>may differ by</th><th></th></tr>"
    )?;
    for row in agreement {
        let (class, verdict) = if row.agrees { ("good", "agrees") } else { ("bad", "differs") };
        let variant = if row.variant.is_empty() { String::new() } else { format!(" ({})", row.variant) };
        writeln!(
            to,
            "<tr><td class=\"text\">{}{}</td><td>{:.1}</td><td>{:.1}</td><td>{:.1} to {:.1}</td><td>{:.1}</td>\
             <td class=\"{class}\">{verdict}</td></tr>",
            escape(&row.metric).replace('.', ".<wbr>"),
            escape(&variant),
            row.virtual_time,
            row.live,
            row.live_range[0],
            row.live_range[1],
            row.bound,
        )?;
    }
    writeln!(to, "</table></div>")
}

/// What became of the plan's own programs.
fn write_programs(to: &mut impl Write, judgement: &Judgement) -> io::Result<()> {
    let runs: Vec<&Run> = judgement.variants.iter().flat_map(|variant| &variant.runs).collect();
    if runs.iter().all(|run| run.programs.is_empty()) {
        return Ok(());
    }
    writeln!(
        to,
        "<h3>Programs</h3><div class=\"scroll\"><table><tr><th class=\"text\">contender</th><th>seed</th>\
         <th class=\"text\">node</th><th class=\"text\">program</th><th class=\"text\">stage</th><th>exit code</th>\
         <th class=\"text\">log</th></tr>"
    )?;
    for (run, program) in runs.iter().flat_map(|run| run.programs.iter().map(move |program| (run, program))) {
        writeln!(
            to,
            "<tr><td class=\"text\">{}</td><td>{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td>\
             <td class=\"text\">{}</td><td>{}</td><td class=\"text soft\">{}</td></tr>",
            escape(&run.contender),
            run.seed,
            escape(&program.node),
            escape(&program.name),
            program.stage,
            program.exit_code.map_or("-".to_owned(), |code| code.to_string()),
            escape(&program.log.display().to_string()),
        )?;
    }
    writeln!(to, "</table></div>")
}

/// Times from the return of a link to the first command, of all variants, if links went away.
fn write_recoveries(to: &mut impl Write, judgement: &Judgement) -> io::Result<()> {
    let mut rows = Vec::new();
    for variant in &judgement.variants {
        let scene = Scene::new(variant);
        for direction in DIRECTIONS {
            for (number, contender) in scene.contenders.iter().enumerate() {
                let Some(flow) = scene.flows(contender.runs[0], 0, direction).next() else { continue };
                let mut times = recoveries(&flow.name, direction, &contender.runs);
                times.sort_unstable();
                let mut name = format!("{}, {}", contender.name, scene.way(direction));
                if !variant.variant.is_empty() {
                    name = format!("{}: {name}", variant.variant);
                }
                if !times.is_empty() {
                    rows.push(Row { name, colour: Colour::Contender(number), times });
                }
            }
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    rows.truncate(MAX_ROWS);
    let note = "from the link's return to the first command delivered; box: the middle half, whiskers: least and most";
    to.write_all(boxes::html("Recovery", note, boxes::Unit::MILLISECONDS, &rows).as_bytes())
}

/// Messages by contender, flow and direction.
fn write_latencies(to: &mut impl Write, variant: &VariantJudgement) -> io::Result<()> {
    writeln!(
        to,
        "<h3>Messages</h3><div class=\"scroll\"><table><tr><th class=\"text\">contender</th><th class=\"text\">flow</th>\
         <th class=\"text\">direction</th><th>sent</th><th>lost, %</th><th>p50, ms</th><th>p95</th><th>p99</th><th>max</th>\
         <th>Mbit/s</th></tr>"
    )?;
    let scene = Scene::new(variant);
    for contender in &scene.contenders {
        for flow in &contender.runs[0].flows {
            let direction = crate::metrics::DIRECTION_NAMES[flow.direction];
            let figures = &variant.metrics[contender.name][&flow.name][direction];
            let sent = figures.pointer("/sent").and_then(Value::as_f64).unwrap_or(0.0);
            write!(
                to,
                "<tr><td class=\"text\">{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td><td>{sent}</td>",
                escape(contender.name),
                escape(&flow.name),
                escape(&scene.way(flow.direction))
            )?;
            write!(to, "<td>{}</td>", number(figures, "/lost_share", 100.0, 2))?;
            for name in ["p50", "p95", "p99", "max"] {
                write!(to, "<td>{}</td>", number(figures, &format!("/latency_ms/{name}"), 1.0, 1))?;
            }
            writeln!(to, "<td>{}</td></tr>", number(figures, "/rate_mbps", 1.0, 3))?;
        }
    }
    writeln!(to, "</table></div>")
}

/// Links by contender and direction.
fn write_links(to: &mut impl Write, variant: &VariantJudgement) -> io::Result<()> {
    writeln!(
        to,
        "<h3>Links</h3><div class=\"scroll\"><table><tr><th class=\"text\">contender</th><th class=\"text\">link</th>\
         <th class=\"text\">direction</th><th>capacity, Mbit/s</th><th>delivered</th><th>use, %</th><th>lost, %</th>\
         <th>queue p50, ms</th><th>p95</th><th>max</th></tr>"
    )?;
    let scene = Scene::new(variant);
    for contender in &scene.contenders {
        for link in &contender.runs[0].links {
            let direction = crate::metrics::DIRECTION_NAMES[link.direction];
            let figures = &variant.metrics[contender.name][format!("link_{}", link.link)][direction];
            write!(
                to,
                "<tr><td class=\"text\">{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td>",
                escape(contender.name),
                escape(&link.link),
                escape(&scene.way(link.direction))
            )?;
            for (name, factor, places) in [
                ("/capacity_mbps", 1.0, 3),
                ("/delivered_mbps", 1.0, 3),
                ("/use", 100.0, 1),
                ("/lost_share", 100.0, 2),
                ("/queue_ms/p50", 1.0, 1),
                ("/queue_ms/p95", 1.0, 1),
                ("/queue_ms/max", 1.0, 1),
            ] {
                write!(to, "<td>{}</td>", number(figures, name, factor, places))?;
            }
            writeln!(to, "</tr>")?;
        }
    }
    writeln!(to, "</table></div>")
}

fn write_plots(to: &mut impl Write, variant: &VariantJudgement) -> io::Result<()> {
    let scene = Scene::new(variant);
    let plots = |plots: Vec<Plot>| plots.iter().map(Plot::html).collect::<String>();
    for (title, class, html) in [
        ("Rate against capacity", "", plots(charts::rates(&scene))),
        ("Latency", "pairs", plots(charts::distributions(&scene))),
        ("Intervals", "", intervals::html(&scene)),
        ("Latency over time", "", plots(charts::latencies(&scene))),
        ("Queues", "", plots(charts::queues(&scene))),
    ] {
        if !html.is_empty() {
            writeln!(to, "<h3>{title}</h3>\n<div class=\"{class}\">{html}</div>")?;
        }
    }
    write_events(to, &scene)
}

fn write_events(to: &mut impl Write, scene: &Scene<'_>) -> io::Result<()> {
    if scene.contenders.iter().all(|contender| contender.runs[0].events.is_empty()) {
        return Ok(());
    }
    writeln!(to, "<h3>Events</h3>")?;
    for contender in &scene.contenders {
        let run = contender.runs[0];
        let count = run.events.len();
        let listed = if count > MAX_EVENTS { format!(", the first {MAX_EVENTS} of {count}") } else { String::new() };
        writeln!(
            to,
            "<details{}><summary>{}, seed {}{listed}</summary><table><tr><th>s</th><th class=\"text\">where</th>\
             <th class=\"text\">what</th></tr>",
            if count <= 12 { " open" } else { "" },
            escape(contender.name),
            run.seed
        )?;
        for event in run.events.iter().take(MAX_EVENTS) {
            let place = if event.place.is_empty() { "all links" } else { &event.place };
            writeln!(
                to,
                "<tr><td>{:.3}</td><td class=\"text\">{}</td><td class=\"text\">{}</td></tr>",
                event.at_s,
                escape(place),
                escape(&event.text)
            )?;
        }
        writeln!(to, "</table></details>")?;
    }
    Ok(())
}

/// A figure times a factor, or a dash.
pub(super) fn number(figures: &Value, name: &str, factor: f64, places: usize) -> String {
    let value = figures.pointer(name).and_then(Value::as_f64).map(|value| value * factor);
    match value {
        // A link without rate, for as long as it is out.
        Some(value) if value >= 1e8 => "∞".into(),
        Some(value) => format!("{value:.places$}"),
        None => "–".into(),
    }
}
