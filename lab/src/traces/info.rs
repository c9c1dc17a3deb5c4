//! A trace in figures.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use aquila_emu::trace::{AnyTrace, Kind};
use serde_json::{Value, json};

use super::FileTrace;

/// For people.
pub fn describe(path: &Path, trace: &FileTrace) -> String {
    let info = trace.info();
    let mut text = format!("{}\n", path.display());
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<16} {value}");
    };
    line("format", format_name(trace).into());
    line("duration", format!("{:.3} s", info.duration.as_secs_f64()));
    let items = if matches!(trace, AnyTrace::Mahimahi(_)) { "opportunities" } else { "rows" };
    line(items, info.items.to_string());
    if info.mean_rate_bps > 0 {
        line("mean rate", mbps(info.mean_rate_bps));
        let of = info.per_second_bps;
        let all = [of.min, of.p5, of.p25, of.p50, of.p75, of.p95, of.max];
        let names = ["min", "p5", "p25", "p50", "p75", "p95", "max"];
        let texts: Vec<_> =
            names.iter().zip(all).map(|(name, bps)| format!("{name} {:.3}", bps as f64 / 1e6)).collect();
        line("per second", format!("{} Mbit/s", texts.join(", ")));
    }
    line("longest outage", format!("{:.3} s", info.longest_outage.as_secs_f64()));
    if let Some(loss) = info.mean_loss {
        line("mean loss", format!("{:.3} %", loss * 100.0));
    }
    if let Some((least, most)) = info.delay {
        line("delay", format!("{:.3} to {:.3} ms", ms(least), ms(most)));
    }
    line("kind", kind(info.kind).unwrap_or("not said: a comment '# kind: capacity' or 'availability' would").into());
    line("source", info.source.clone().unwrap_or_else(|| "not said".into()));
    line("licence", info.licence.clone().unwrap_or_else(|| "not said".into()));
    if !info.unused_columns.is_empty() {
        line("columns not used", info.unused_columns.join(", "));
    }
    text
}

/// For scripts.
pub fn json(path: &Path, trace: &FileTrace) -> Value {
    let info = trace.info();
    let of = info.per_second_bps;
    json!({
        "file": path.display().to_string(),
        "format": format_name(trace),
        "duration_s": info.duration.as_secs_f64(),
        "items": info.items,
        "mean_rate_bps": info.mean_rate_bps,
        "per_second_bps": {
            "min": of.min, "p5": of.p5, "p25": of.p25, "p50": of.p50, "p75": of.p75, "p95": of.p95, "max": of.max,
        },
        "longest_outage_s": info.longest_outage.as_secs_f64(),
        "mean_loss": info.mean_loss,
        "delay_ms": info.delay.map(|(least, most)| json!({ "min": ms(least), "max": ms(most) })),
        "kind": kind(info.kind),
        "source": info.source,
        "licence": info.licence,
        "unused_columns": info.unused_columns,
    })
}

pub(super) fn kind(kind: Option<Kind>) -> Option<&'static str> {
    kind.map(|kind| match kind {
        Kind::Capacity => "capacity",
        Kind::Availability => "availability",
    })
}

fn format_name(trace: &FileTrace) -> &'static str {
    match trace {
        AnyTrace::Mahimahi(_) => "mahimahi",
        AnyTrace::Csv(_) => "csv",
    }
}

fn mbps(bps: u64) -> String {
    format!("{:.3} Mbit/s", bps as f64 / 1e6)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
