//! A snapshot to read.

use std::fmt::Write;

use super::snapshot::StatusSnapshot;

/// The snapshot in a few lines of text.
pub fn render_summary(snapshot: &StatusSnapshot) -> String {
    let mut out = String::with_capacity(2048);
    // Writing to a string cannot fail.
    let _ = write_summary(&mut out, snapshot);
    out
}

fn write_summary(out: &mut String, snapshot: &StatusSnapshot) -> std::fmt::Result {
    let peer = &snapshot.peer;
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    writeln!(out, "aquila {} {}, up {:.0} s", snapshot.side, snapshot.version, snapshot.uptime_s)?;
    writeln!(out, "peer {} at {}, version {}", known(&peer.fingerprint), known(&peer.address), known(&peer.version))?;
    for bearer in &snapshot.bearers {
        writeln!(
            out,
            "bearer {} {}{} {} to {}: {}, last word {} ago, round trip {}, loss {}{}",
            bearer.number,
            bearer.name,
            if bearer.usage == "normal" { String::new() } else { format!(" ({})", bearer.usage) },
            bearer.local.as_deref().unwrap_or("-"),
            bearer.remote.as_deref().unwrap_or("-"),
            bearer.state,
            ms(bearer.silence_ms),
            ms(bearer.rtt_ms),
            bearer.loss.map_or("-".to_owned(), |loss| format!("{:.1} %", loss * 100.0)),
            match (bearer.carries_telemetry, bearer.carries_video) {
                (true, true) => ", carries telemetry and video",
                (true, false) => ", carries telemetry",
                (false, true) => ", carries video",
                (false, false) => "",
            },
        )?;
        if let Some(radio) = &bearer.aerotp {
            let wrong = |rate: Option<f64>| rate.map_or("none".to_owned(), |rate| format!("{rate:.0e}"));
            writeln!(
                out,
                "  AeroTP at {:.1} kbit/s; wrong bits {} here, {} there; {} bytes of parity; sent again {} of {}, damaged {} of {}, \
                 {} of them put together{}",
                radio.rate_bps as f64 / 1e3,
                wrong(radio.bit_error_rate),
                wrong(radio.bit_error_rate_there),
                radio.parity_bytes,
                radio.sent_again,
                radio.segments_out,
                radio.damaged,
                radio.segments_in,
                radio.combined,
                radio.rssi.map_or(String::new(), |[here, there]| format!("; RSSI {here} here, {there} there")),
            )?;
        }
    }
    if snapshot.bearers.len() > 1 {
        let won = snapshot.bearers.iter().map(|bearer| format!("{} {}", bearer.name, bearer.control_won));
        let replication = &snapshot.replication;
        writeln!(
            out,
            "control that came first by {}; copies sent {}, {} kB, {} of all{}; {} changes of way",
            won.collect::<Vec<_>>().join(", by "),
            replication.copies,
            replication.redundant_bytes / 1000,
            replication.share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0)),
            match replication.over_budget {
                0 => String::new(),
                many => format!(" ({many} times the budget was spent)"),
            },
            replication.reroutes,
        )?;
    }
    let congestion = &snapshot.congestion;
    writeln!(
        out,
        "link carries {} Mbit/s, encoder {} Mbit/s, network queue {:.0} ms ({})",
        mbps(congestion.capacity_bps),
        mbps(congestion.target_bps),
        congestion.queue_delay_ms,
        congestion.controller,
    )?;
    let radio = &congestion.radio;
    if *radio != super::RadioStatus::default() {
        let number =
            |value: Option<f32>, unit: &str| value.map_or("-".to_owned(), |value| format!("{value:.0} {unit}"));
        writeln!(
            out,
            "radio: cell {}, RSRP {}, RSRQ {}, SINR {}; height {}",
            radio.cell.map_or("-".to_owned(), |cell| format!("{cell:x}")),
            number(radio.rsrp_dbm, "dBm"),
            number(radio.rsrq_db, "dB"),
            number(radio.sinr_db, "dB"),
            number(radio.altitude_m, "m"),
        )?;
    }
    writeln!(out, "\n{:<10}{COLUMNS}", "class")?;
    for (class, status) in snapshot.classes.iter() {
        let latency = |pick: fn(&super::LatencyStatus) -> f64| ms(status.latency_ms.as_ref().map(pick));
        writeln!(
            out,
            "{:<10}{:>10}{:>10}{:>10}{:>12}{:>12}{:>10}{:>10}{:>10}{:>10}",
            class.name(),
            status.queued,
            mbps(status.rate_out_bps),
            mbps(status.rate_in_bps),
            status.sent,
            status.delivered,
            status.dropped.values().sum::<u64>(),
            latency(|l| l.p50),
            latency(|l| l.p95),
            latency(|l| l.p99),
        )?;
    }
    let video = &snapshot.video;
    writeln!(
        out,
        "\nvideo from here: {} frames, {} sent, {} dropped{}; there {} shown, {} lost, {} too old, picture {} old",
        video.frames_in,
        video.frames_sent,
        video.frames_dropped.values().sum::<u64>(),
        if video.held { ", camera paused" } else { "" },
        video.frames_shown_there,
        video.frames_lost_there,
        video.frames_stale_there,
        ms(video.picture_age_there_ms),
    )?;
    writeln!(
        out,
        "video to here: {} frames shown, {} late, {} lost, {} too old, picture {} old; {} recovery points asked for",
        video.frames_shown,
        video.frames_late,
        video.frames_lost,
        video.frames_stale,
        ms(video.picture_age_ms),
        video.recovery_requests,
    )?;
    for endpoint in &snapshot.mavlink.endpoints {
        writeln!(
            out,
            "mavlink {}: {}, {} frames in, {} out, {} dropped",
            endpoint.name, endpoint.state, endpoint.frames_in, endpoint.frames_out, endpoint.dropped,
        )?;
    }
    let security = &snapshot.security;
    writeln!(
        out,
        "refused: {} replays, {} handshakes, {} of unknown peers, {} malformed; {} faulty reports",
        security.replayed,
        security.handshakes_refused,
        security.unknown_peers,
        security.malformed,
        security.report_faults,
    )?;
    snapshot.gateway.as_ref().map_or(Ok(()), |gateway| gateway.put_summary(out))
}

const COLUMNS: &str = concat!(
    "    queued",
    "  Mbps out",
    "   Mbps in",
    "        sent",
    "   delivered",
    "   dropped",
    "       p50",
    "       p95",
    "       p99",
);

fn ms(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |ms| format!("{ms:.0} ms"))
}

fn mbps(bps: u64) -> String {
    format!("{:.2}", bps as f64 / 1e6)
}
