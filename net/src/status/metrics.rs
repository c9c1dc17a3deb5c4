//! A snapshot in Prometheus's text format, version 0.0.4.
//!
//! Each metric is a line of a table: name, HELP text, value. Times are in seconds, rates in bit/s and ratios from 0 to 1, as
//! Prometheus wants them; names that end in `_total` are counters since the program started, all others gauges; what is
//! not known has no sample. No label has an address that we did not configure: each reconnection would begin a new series.
//! Those are in the JSON.

use super::page::{Column, Page, count, flag, seconds};
use super::snapshot::{
    BearerStatus, ClassStatus, MavlinkEndpointStatus, StatusSnapshot, VideoInputStatus, VideoOutputStatus,
};

/// The snapshot as metrics.
pub fn render_metrics(snapshot: &StatusSnapshot) -> String {
    let mut page = Page::new();
    let peer = &snapshot.peer;
    let info = [
        ("version", snapshot.version.as_str()),
        ("side", &snapshot.side),
        ("peer", peer.fingerprint.as_deref().unwrap_or_default()),
        ("peer_version", peer.version.as_deref().unwrap_or_default()),
    ];
    page.describe("aquila_info", "Always 1; the labels say what runs here and with whom.");
    page.sample("aquila_info", &info, 1.0);
    page.table(&WHOLE, &[(vec![], snapshot)]);

    let labels = |b: &BearerStatus| vec![("bearer", b.number.to_string()), ("name", b.name.clone())];
    let bearers: Vec<_> = snapshot.bearers.iter().map(|b| (labels(b), b)).collect();
    page.table(&BEARERS, &bearers);
    page.describe("aquila_bearer_state", "1 for the state that the bearer is in, 0 for the others.");
    for (labels, bearer) in &bearers {
        for state in ["up", "stalled", "lost", "down"] {
            let labels = [labels[0].clone(), labels[1].clone(), ("state", state.to_owned())];
            page.sample("aquila_bearer_state", &labels, flag(bearer.state == state));
        }
    }

    let classes: Vec<_> = snapshot.classes.iter().map(|(c, s)| (vec![("class", c.name().to_owned())], s)).collect();
    page.table(&CLASSES, &classes);
    page.describe("aquila_class_dropped_total", "Dropped on this side, by reason.");
    for (labels, class) in &classes {
        page.by_reason("aquila_class_dropped_total", labels, &class.dropped);
    }
    page.describe(
        "aquila_class_latency_seconds",
        "Of late, of what arrived here, over propagation, of video with it; quantile 1: largest.",
    );
    for (labels, class) in &classes {
        let Some(ms) = class.latency_ms else { continue };
        for (quantile, ms) in [("0.5", ms.p50), ("0.95", ms.p95), ("0.99", ms.p99), ("1", ms.max)] {
            let labels = [labels[0].clone(), ("quantile", quantile.to_owned())];
            page.sample("aquila_class_latency_seconds", &labels, ms / 1e3);
        }
    }

    page.describe("aquila_video_frames_dropped_total", "Frames from cameras here not sent whole, by reason.");
    page.by_reason("aquila_video_frames_dropped_total", &[], &snapshot.video.frames_dropped);
    let camera = |flow: u8, address: &str| vec![("flow", flow.to_string()), ("address", address.to_owned())];
    let inputs: Vec<_> = snapshot.video.inputs.iter().map(|i| (camera(i.flow, &i.address), i)).collect();
    page.table(&VIDEO_INPUTS, &inputs);
    let outputs: Vec<_> = snapshot.video.outputs.iter().map(|o| (camera(o.flow, &o.address), o)).collect();
    page.table(&VIDEO_OUTPUTS, &outputs);

    let endpoints = snapshot.mavlink.endpoints.iter().map(|e| (vec![("endpoint", e.name.clone())], e));
    page.table(&ENDPOINTS, &endpoints.collect::<Vec<_>>());
    page.describe("aquila_mavlink_unrouted_total", "Frames that went nowhere, by reason.");
    page.by_reason("aquila_mavlink_unrouted_total", &[], &snapshot.mavlink.dropped);
    if let Some(gateway) = &snapshot.gateway {
        gateway.put_metrics(&mut page);
    }
    page.into_text()
}

const WHOLE: [Column<StatusSnapshot>; 35] = [
    ("aquila_uptime_seconds", "Since the program started.", |s| Some(s.uptime_s)),
    ("aquila_capacity_bits_per_second", "What the link is believed to carry.", |s| count(s.congestion.capacity_bps)),
    ("aquila_target_bits_per_second", "What the encoder should make.", |s| count(s.congestion.target_bps)),
    ("aquila_window_bytes", "Most bytes in flight.", |s| count(s.congestion.window_bytes)),
    ("aquila_in_flight_bytes", "Bytes in flight.", |s| count(s.congestion.in_flight_bytes)),
    ("aquila_network_queue_delay_seconds", "Waiting time in the network's queue.", |s| {
        Some(s.congestion.queue_delay_ms / 1e3)
    }),
    ("aquila_altitude_metres", "Height above home.", |s| s.congestion.radio.altitude_m.map(f64::from)),
    ("aquila_radio_rsrp_dbm", "Reference signal received power.", |s| s.congestion.radio.rsrp_dbm.map(f64::from)),
    ("aquila_radio_rsrq_decibels", "Reference signal received quality.", |s| s.congestion.radio.rsrq_db.map(f64::from)),
    ("aquila_radio_sinr_decibels", "Signal to interference and noise.", |s| s.congestion.radio.sinr_db.map(f64::from)),
    ("aquila_control_copies_total", "Copies of control messages sent beyond the first.", |s| {
        count(s.replication.copies)
    }),
    ("aquila_redundant_bytes_total", "Bytes of these copies, and of receipts.", |s| {
        count(s.replication.redundant_bytes)
    }),
    ("aquila_replication_over_budget_total", "Control messages that left when the budget for copies was spent.", |s| {
        count(s.replication.over_budget)
    }),
    ("aquila_receipts_total", "Receipts sent over all bearers.", |s| count(s.replication.receipts)),
    ("aquila_duplicates_total", "Copies that came after another.", |s| count(s.replication.duplicates)),
    ("aquila_reroutes_total", "Times that telemetry or video took another bearer.", |s| count(s.replication.reroutes)),
    ("aquila_replayed_total", "Messages refused as replays.", |s| count(s.security.replayed)),
    ("aquila_handshakes_refused_total", "Handshakes refused.", |s| count(s.security.handshakes_refused)),
    ("aquila_unknown_peers_total", "Packets and handshakes of peers not ours.", |s| count(s.security.unknown_peers)),
    ("aquila_malformed_total", "Messages and datagrams that could not be read.", |s| count(s.security.malformed)),
    ("aquila_report_faults_total", "Reports on what arrives that cannot be true, and times that none came.", |s| {
        count(s.security.report_faults)
    }),
    ("aquila_video_frames_in_total", "Frames from cameras here.", |s| count(s.video.frames_in)),
    ("aquila_video_frames_sent_total", "Frames sent to the other side, whole.", |s| count(s.video.frames_sent)),
    ("aquila_video_frames_shown_total", "Frames given to viewers here.", |s| count(s.video.frames_shown)),
    ("aquila_video_frames_late_total", "Of these, too late to be of use.", |s| count(s.video.frames_late)),
    ("aquila_video_frames_lost_total", "Frames that did not arrive here whole.", |s| count(s.video.frames_lost)),
    ("aquila_video_frames_shown_there_total", "Frames shown at the other side.", |s| count(s.video.frames_shown_there)),
    ("aquila_video_frames_lost_there_total", "Frames lost at the other side.", |s| count(s.video.frames_lost_there)),
    ("aquila_video_frames_stale_total", "Frames that came too late to be shown here.", |s| count(s.video.frames_stale)),
    ("aquila_video_frames_stale_there_total", "Frames that came too late to be shown at the other side.", |s| {
        count(s.video.frames_stale_there)
    }),
    ("aquila_video_picture_age_seconds", "Age of the picture shown here.", |s| seconds(s.video.picture_age_ms)),
    ("aquila_video_picture_age_there_seconds", "Age of the picture shown at the other side.", |s| {
        seconds(s.video.picture_age_there_ms)
    }),
    ("aquila_video_held", "1 while cameras here are told to pause.", |s| Some(flag(s.video.held))),
    ("aquila_video_recovery_requests_total", "Recovery points asked of the other side.", |s| {
        count(s.video.recovery_requests)
    }),
    ("aquila_video_recovery_wanted_total", "Recovery points asked of cameras here.", |s| {
        count(s.video.recovery_points_wanted)
    }),
];

const BEARERS: [Column<BearerStatus>; 23] = [
    ("aquila_bearer_up", "1 if words come in as they should.", |b| Some(flag(b.state == "up"))),
    ("aquila_bearer_last_word_age_seconds", "Age of the last word from the other side.", |b| seconds(b.silence_ms)),
    ("aquila_bearer_rtt_seconds", "Round-trip time, smoothed.", |b| seconds(b.rtt_ms)),
    ("aquila_bearer_rtt_min_seconds", "Smallest round-trip time of late.", |b| seconds(b.rtt_min_ms)),
    ("aquila_bearer_loss_ratio", "Share of the packets sent of late that were lost.", |b| b.loss),
    ("aquila_bearer_capacity_bits_per_second", "What it is believed to carry.", |b| count(b.capacity_bps)),
    ("aquila_bearer_carries_telemetry", "1 if telemetry takes it.", |b| Some(flag(b.carries_telemetry))),
    ("aquila_bearer_carries_video", "1 if video takes it.", |b| Some(flag(b.carries_video))),
    ("aquila_bearer_control_out_total", "Control messages of which a copy was sent on it.", |b| count(b.control_out)),
    ("aquila_bearer_control_won_total", "Control messages that came by it first.", |b| count(b.control_won)),
    ("aquila_bearer_control_late_total", "Copies that came by it after another.", |b| count(b.control_late)),
    ("aquila_bearer_packets_out_total", "UDP packets sent.", |b| count(b.packets_out)),
    ("aquila_bearer_packets_in_total", "UDP packets received.", |b| count(b.packets_in)),
    ("aquila_bearer_bytes_out_total", "Bytes of UDP payload sent.", |b| count(b.bytes_out)),
    ("aquila_bearer_bytes_in_total", "Bytes of UDP payload received.", |b| count(b.bytes_in)),
    ("aquila_bearer_connections_total", "Connections completed.", |b| count(b.connections)),
    ("aquila_bearer_resumed_total", "Connections completed by 0-RTT.", |b| count(b.resumed)),
    ("aquila_aerotp_rate_bits_per_second", "Rate at which a radio's line is sent to.", |b| {
        count(b.aerotp.as_ref()?.rate_bps)
    }),
    ("aquila_aerotp_bit_error_ratio", "Share of wrong bits in what a radio receives here.", |b| {
        Some(b.aerotp.as_ref()?.bit_error_rate.unwrap_or_default())
    }),
    ("aquila_aerotp_parity_bytes", "Parity in a long segment.", |b| count(b.aerotp.as_ref()?.parity_bytes)),
    ("aquila_aerotp_sent_again_total", "Segments sent again.", |b| count(b.aerotp.as_ref()?.sent_again)),
    ("aquila_aerotp_damaged_total", "Segments damaged beyond what their code repairs.", |b| {
        count(b.aerotp.as_ref()?.damaged)
    }),
    ("aquila_aerotp_combined_total", "Of these, made whole with another damaged copy.", |b| {
        count(b.aerotp.as_ref()?.combined)
    }),
];

const CLASSES: [Column<ClassStatus>; 8] = [
    ("aquila_class_queued", "Messages, or frames of video, that wait to be sent.", |c| count(c.queued)),
    ("aquila_class_queued_bytes", "Bytes that wait to be sent.", |c| count(c.queued_bytes)),
    ("aquila_class_oldest_seconds", "How long the oldest has waited.", |c| Some(c.oldest_ms / 1e3)),
    ("aquila_class_in_bits_per_second", "Rate from the other side.", |c| count(c.rate_in_bps)),
    ("aquila_class_out_bits_per_second", "Rate to the other side.", |c| count(c.rate_out_bps)),
    ("aquila_class_accepted_total", "Taken from applications on this machine.", |c| count(c.accepted)),
    ("aquila_class_sent_total", "Sent to the other side.", |c| count(c.sent)),
    ("aquila_class_delivered_total", "Given to applications on this machine.", |c| count(c.delivered)),
];

const VIDEO_INPUTS: [Column<VideoInputStatus>; 6] = [
    ("aquila_video_input_packets_total", "Packets from this camera.", |i| count(i.packets)),
    ("aquila_video_input_bytes_total", "Their bytes.", |i| count(i.bytes)),
    ("aquila_video_input_dropped_total", "Packets that the session had no room for.", |i| count(i.dropped)),
    ("aquila_video_input_foreign_total", "Packets of others, dropped.", |i| count(i.foreign)),
    ("aquila_video_input_missing_total", "Packets lost between the camera and here.", |i| count(i.missing)),
    ("aquila_video_input_not_rtp_total", "Packets that are no RTP.", |i| count(i.not_rtp)),
];

const VIDEO_OUTPUTS: [Column<VideoOutputStatus>; 3] = [
    ("aquila_video_output_packets_total", "Packets to this viewer.", |o| count(o.packets)),
    ("aquila_video_output_bytes_total", "Their bytes.", |o| count(o.bytes)),
    ("aquila_video_output_errors_total", "Packets that the system refused to send.", |o| count(o.errors)),
];

const ENDPOINTS: [Column<MavlinkEndpointStatus>; 8] = [
    ("aquila_mavlink_up", "1 if frames can pass.", |e| Some(flag(e.state == "up"))),
    ("aquila_mavlink_frames_in_total", "Frames from the endpoint.", |e| count(e.frames_in)),
    ("aquila_mavlink_frames_out_total", "Frames to the endpoint.", |e| count(e.frames_out)),
    ("aquila_mavlink_bytes_in_total", "Bytes from the endpoint.", |e| count(e.bytes_in)),
    ("aquila_mavlink_bytes_out_total", "Bytes to the endpoint.", |e| count(e.bytes_out)),
    ("aquila_mavlink_garbage_bytes_total", "Bytes that were no frame.", |e| count(e.garbage_bytes)),
    ("aquila_mavlink_dropped_total", "Frames that the endpoint had no room for.", |e| count(e.dropped)),
    ("aquila_mavlink_errors_total", "Failed reads and writes of the endpoint.", |e| count(e.errors)),
];
