//! The result as a table.

use std::io::{self, Write};

use aquila_lab::demo::{Quantiles, Report};

/// Writes the table.
pub fn write(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let quantiles = |quantiles: Option<Quantiles>| {
        quantiles.map_or_else(
            || "nothing arrived".to_owned(),
            |q| format!("{:>8.1} {:>8.1} {:>8.1} {:>8.1}", q.p50, q.p95, q.p99, q.max),
        )
    };
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
    let (video, commands) = (&report.video, &report.commands);
    writeln!(
        out,
        "Profile {}, seed {}, {:.0} s, propagation {:.0} ms one way at the end",
        report.profile, report.seed, report.seconds, report.propagation_ms
    )?;
    writeln!(out)?;
    writeln!(out, "{:<44} {:>8} {:>8} {:>8} {:>8}", "milliseconds", "p50", "p95", "p99", "max")?;
    writeln!(out, "{:<44} {}", "command, air to ground, over propagation", quantiles(report.c2_up_ms))?;
    writeln!(out, "{:<44} {}", "command, ground to air, over propagation", quantiles(report.c2_down_ms))?;
    writeln!(out, "{:<44} {}", "picture, from film to decoded", quantiles(video.latency_ms))?;
    writeln!(out)?;
    writeln!(out, "commands   {} sent, {} delivered, {} twice", commands.sent, commands.delivered, commands.twice)?;
    writeln!(
        out,
        "picture    {} frames sent, {} shown, {} late, PSNR {} dB",
        video.frames_sent,
        video.frames_shown,
        video.frames_late,
        number(video.psnr_db)
    )?;
    match (report.handover.outage_ms, report.handover.without_control_ms) {
        (Some(outage), Some(without)) => writeln!(
            out,
            "handover   link out for {outage:.0} ms, without control for {without:.0} ms ({:.0} ms more)",
            without - outage
        )?,
        (Some(outage), None) => writeln!(out, "handover   link out for {outage:.0} ms, control did not come back")?,
        (None, _) => writeln!(out, "handover   none in this run")?,
    }
    writeln!(out, "address    changed {} times", report.address_changes)?;
    writeln!(out)?;
    writeln!(
        out,
        "A command sent while the link was out counts from the end of the outage: no link can do better than propagation."
    )
}
