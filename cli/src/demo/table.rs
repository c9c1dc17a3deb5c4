//! The result as a table.

use std::io::{self, Write};

use aquila_lab::demo::{BearerReport, CutReport, Quantiles, ReplicationReport, Report};

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
    if let Some(radio) = &report.radio {
        writeln!(
            out,
            "radio      {} of {} commands came by it first, the slowest of those sent while the network was out after {} ms;\n           \
             wrong bits {}; {} of {} segments sent again, {} damaged, {} put together",
            radio.won,
            radio.commands,
            number(radio.worst_in_outage_ms),
            radio.bit_error_rate.map_or("none".to_owned(), |rate| format!("{rate:.0e}")),
            radio.sent_again,
            radio.segments,
            radio.damaged,
            radio.combined,
        )?;
        writeln!(out)?;
    }
    if !report.bearers.is_empty() {
        write_bearers(out, report)?;
    }
    writeln!(
        out,
        "A command sent while the link was out counts from the end of the outage: no link can do better than propagation."
    )
}

/// What several bearers did, and what came of the cut.
fn write_bearers(out: &mut impl Write, report: &Report) -> io::Result<()> {
    writeln!(
        out,
        "{:<10} {:<8} {:>8} {:>7}  {:<17} {:>8} {:>8} {:>10} {:>10}",
        "bearer", "state", "trip ms", "loss", "carries", "first up", "down", "kB up", "down"
    )?;
    for bearer in &report.bearers {
        writeln!(
            out,
            "{:<10} {:<8} {:>8} {:>7}  {:<17} {:>8} {:>8} {:>10} {:>10}",
            bearer.name,
            bearer.state,
            rounded(bearer.rtt_ms),
            loss(bearer),
            carries(bearer),
            bearer.control_first_up,
            bearer.control_first_down,
            bearer.bytes_up / 1000,
            bearer.bytes_down / 1000
        )?;
    }
    writeln!(out)?;
    report.replication.iter().try_for_each(|cost| writeln!(out, "copies     {}", replication(cost)))?;
    match &report.cut {
        Some(outcome) => writeln!(out, "cut        {}", cut(outcome))?,
        None => writeln!(out, "cut        none in this run")?,
    }
    writeln!(out)
}

/// A bearer in a few words, for a line of the log.
pub fn bearer_in_short(bearer: &BearerReport) -> String {
    let carries =
        if bearer.carries.is_empty() { String::new() } else { format!(" with {}", bearer.carries.join(", ")) };
    format!("{} {} {} ms{carries}", bearer.name, state(bearer), rounded(bearer.rtt_ms))
}

/// A bearer in a line, for the live view.
pub fn bearer(bearer: &BearerReport) -> String {
    format!(
        "{:<8} {:<8} {:>5} ms, loss {:>6}, {:<16}  came first {:>5} up, {:>5} down   {:>7} kB up, {:>5} down",
        bearer.name,
        state(bearer),
        rounded(bearer.rtt_ms),
        loss(bearer),
        carries(bearer),
        bearer.control_first_up,
        bearer.control_first_down,
        bearer.bytes_up / 1000,
        bearer.bytes_down / 1000
    )
}

/// What copies cost.
pub fn replication(cost: &ReplicationReport) -> String {
    format!(
        "{} of commands and other control messages, {} kB, {} of all that was sent; telemetry or video moved {} times",
        cost.copies,
        cost.bytes / 1000,
        percent(cost.share),
        cost.reroutes
    )
}

/// What came of the cut.
pub fn cut(cut: &CutReport) -> String {
    let time = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0} ms"));
    format!(
        "{} at {:.1} s for {}: worst command {} ({} of {} beyond 1.25 round trips + 20 ms = {:.0} ms), first picture after {} (aim {:.0})",
        cut.bearer,
        cut.at_s,
        cut.lasted_s.map_or_else(|| "the rest".to_owned(), |lasted| format!("{lasted:.1} s")),
        time(cut.worst_command_ms),
        cut.commands_beyond,
        cut.commands,
        cut.bound_ms,
        time(cut.first_picture_ms),
        cut.picture_bound_ms
    )
}

/// Its state, and whether it is the demo's doing.
fn state(bearer: &BearerReport) -> &str {
    if bearer.cut { "CUT" } else { &bearer.state }
}

fn loss(bearer: &BearerReport) -> String {
    percent(bearer.loss)
}

fn carries(bearer: &BearerReport) -> String {
    if bearer.carries.is_empty() { "-".to_owned() } else { bearer.carries.join(", ") }
}

fn rounded(ms: Option<f64>) -> String {
    ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0}"))
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}
