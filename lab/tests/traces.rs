//! Recorded links that are not in this repository: fpv2 beside who knows the link 40 ms late, in windows of a minute.
//!
//!     AQUILA_TRACES=DIR cargo test -p aquila-lab --test traces -- --nocapture
//!
//! Printed are latency, age, use and frames shown; held to a bound is the age (docs/congestion.md has the others).
//! DIR holds traces in mahimahi's format (Debian bullseye's `mahimahi-traces`; Soheil-ab/Cellular-Traces-NYC). Without it the
//! test says so and does nothing.

use std::path::Path;

use aquila_lab::metrics::Metrics;
use aquila_lab::{judge, plan};

/// Windows begin this many seconds apart and last as long; at most so many of a trace.
const WINDOW_S: u64 = 60;
const WINDOWS: u64 = 10;

fn text(trace: &Path, from_s: &[String]) -> String {
    let trace = trace.display();
    let direction =
        format!(r#"{{ trace = "{trace}", trace_from = "0 s", delay = "20 ms", queue = {{ bytes = "150 kB" }} }}"#);
    format!(
        r#"
title = "A recorded link"
lasts = "60 s"
warm_up = "5 s"
repeats = 10

[[link]]
name = "lte"
up = {direction}
down = {direction}

[[contender]]
kind = "aquila"

[[contender]]
kind = "aquila"
name = "late-oracle"
controller = "late-oracle"

[[traffic]]
commands = {{ every = "100 ms" }}

[[traffic]]
from = "air"
video = {{ rate = "10 Mbit/s", least = "200 kbit/s", start = "600 kbit/s", follow = true, asks = true, variation = 0.15, response = 0.6, recovery = 2 }}

[[sweep]]
key = "link.0.up.trace_from"
values = [{}]
"#,
        from_s.join(", ")
    )
}

fn length_s(trace: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(trace).ok()?;
    let last = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(last.trim().parse::<u64>().ok()? / 1000)
}

#[test]
fn the_picture_is_as_fresh_as_that_of_who_knows_the_link_40_ms_late() {
    let Some(folder) = std::env::var_os("AQUILA_TRACES") else {
        eprintln!("skipped: AQUILA_TRACES does not name a folder of traces");
        return;
    };
    let mut traces: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    traces.sort();
    println!(
        "frame latency over propagation p50/p95/p99, age of the picture p95 in ms, use, shown; then the same of late-oracle"
    );
    let (mut judged, mut stale) = (0, Vec::new());
    for trace in traces {
        let Some(length) = length_s(&trace).filter(|length| *length >= WINDOW_S) else { continue };
        let from: Vec<String> =
            (0..(length / WINDOW_S).min(WINDOWS)).map(|n| format!("\"{} s\"", n * WINDOW_S)).collect();
        let variants = plan::parse(Path::new("trace.toml"), &text(&trace, &from)).unwrap();
        for variant in judge::run(variants, None, &|_, _| ()).unwrap().variants {
            let metrics = Metrics::of(&variant.plan, &variant.runs);
            let of = |name: &str, metric: &str| metrics.get(&format!("{name}.{metric}")).unwrap();
            let row = |name: &str| {
                let over = |q| of(name, &format!("video.up.shown_over_propagation_ms.{q}"));
                format!(
                    "{:.0}/{:.0}/{:.0}, {:.0}, {:.1} %, {:.1} %",
                    over("p50"),
                    over("p95"),
                    over("p99"),
                    of(name, "video.up.age_ms.p95"),
                    100.0 * of(name, "link_lte.up.use"),
                    100.0 * of(name, "video.up.shown_share"),
                )
            };
            let name = trace.file_name().unwrap().to_string_lossy();
            println!("| {name}, {} | {} | {} |", variant.variant, row("aquila"), row("late-oracle"));
            judged += 1;
            // Of a trickle between outages (the drive's window of 480 s) twice is asked.
            let limit = if of("late-oracle", "video.up.shown_share") < 0.5 { 2.0 } else { 1.15 };
            let (ours, theirs) = (of("aquila", "video.up.age_ms.p95"), of("late-oracle", "video.up.age_ms.p95"));
            if ours > limit * theirs {
                stale.push(format!("{name}, {}: age of the picture {ours} ms, {theirs} ms", variant.variant));
            }
        }
    }
    assert!(judged > 0, "no trace of a minute or more in that folder");
    assert!(stale.is_empty(), "{stale:#?}");
}
