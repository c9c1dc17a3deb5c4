//! A node's state as a [`StatusSnapshot`].

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use aquila_proto::aerotp::RadioStats;
use aquila_proto::cc::Radio;
use aquila_proto::mavlink::QueueState;
use aquila_proto::mavlink::router::{DropReason, RouterStats};
use aquila_proto::session::{BearerStats, CameraStats, Stats};
use aquila_proto::{ByteCount, Class};

use super::NodeConfig;
use super::lane::Lanes;
use crate::mavlink::Endpoints;
use crate::status::{
    AerotpStatus, BearerStatus, ClassStatus, CongestionStatus, LatencyStatus, MavlinkEndpointStatus, MavlinkStatus,
    PeerStatus, RadioStatus, RateMeter, ReplicationStatus, SecurityStatus, StatusSnapshot, VideoInputStatus,
    VideoOutputStatus, VideoStatus,
};
use crate::video::{VideoInput, VideoOutput};

/// The queue as the autopilot's flow control sees it: far below the bounds at which we drop, so that it slows down first.
const FLOW_CONTROL_BYTES: ByteCount = ByteCount(32 << 10);
const FLOW_CONTROL_AGE: Duration = Duration::from_secs(1);

/// Makes snapshots, with the rates between them.
#[derive(Debug)]
pub struct Snapshots {
    side: &'static str,
    fingerprint: String,
    started: Instant,
    peer_version: Option<String>,
    rates_in: [RateMeter; 4],
    rates_out: [RateMeter; 4],
}

impl Snapshots {
    pub(super) fn new(config: &NodeConfig, started: Instant) -> Self {
        Self {
            side: config.side.name(),
            fingerprint: config.peer.fingerprint(),
            started,
            peer_version: None,
            rates_in: Default::default(),
            rates_out: Default::default(),
        }
    }

    pub(super) fn set_peer_version(&mut self, version: String) {
        self.peer_version = Some(version);
    }

    pub(super) fn take(
        &mut self,
        stats: &Stats,
        endpoints: &Endpoints,
        router: &RouterStats,
        cameras: &[VideoInput],
        viewers: &VideoOutput,
        lanes: &Lanes,
    ) -> StatusSnapshot {
        let main = stats.main();
        let mut snapshot = StatusSnapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            side: self.side.to_owned(),
            uptime_s: stats.at.saturating_duration_since(self.started).as_secs_f64(),
            peer: PeerStatus {
                fingerprint: Some(self.fingerprint.clone()),
                version: self.peer_version.clone(),
                address: main.remote.map(|remote| remote.to_string()),
            },
            bearers: stats.bearers.iter().map(|own| bearer(own, lanes)).collect(),
            replication: replication(stats),
            video: video(stats, cameras, viewers),
            congestion: CongestionStatus {
                controller: stats.controller.to_owned(),
                capacity_bps: main.capacity.0,
                target_bps: stats.target_rate.0,
                window_bytes: main.window,
                in_flight_bytes: main.in_flight,
                queue_delay_ms: ms(main.queue_delay),
                radio: radio(&stats.radio),
            },
            mavlink: mavlink(endpoints, router),
            security: SecurityStatus {
                replayed: stats.counters.replayed,
                handshakes_refused: stats.counters.handshakes_refused,
                unknown_peers: stats.counters.unknown_peers,
                malformed: stats.counters.malformed,
                report_faults: stats.counters.report_faults,
            },
            ..StatusSnapshot::default()
        };
        for class in Class::ALL {
            *snapshot.classes.of_mut(class) = self.class(class, stats);
        }
        snapshot
    }

    fn class(&mut self, class: Class, stats: &Stats) -> ClassStatus {
        let index = class.index();
        let (now, counters) = (&stats.classes[index], &stats.counters);
        ClassStatus {
            queued: now.queued as u64,
            queued_bytes: now.queued_bytes as u64,
            oldest_ms: ms(now.oldest),
            rate_in_bps: self.rates_in[index].sample(stats.at, ByteCount(counters.delivered_bytes[index])).0,
            rate_out_bps: self.rates_out[index].sample(stats.at, ByteCount(counters.sent_bytes[index])).0,
            accepted: counters.accepted[index],
            sent: counters.sent[index],
            delivered: counters.delivered[index],
            dropped: drops(class, stats),
            latency_ms: LatencyStatus::from_summary(&now.latency),
        }
    }
}

/// The telemetry queue in the terms of the autopilot's flow control.
pub(super) fn telemetry_queue(stats: &Stats) -> QueueState {
    let telemetry = &stats.classes[Class::Telemetry.index()];
    QueueState {
        queued: ByteCount::from(telemetry.queued_bytes),
        limit: FLOW_CONTROL_BYTES,
        oldest: telemetry.oldest,
        max_age: FLOW_CONTROL_AGE,
        dropped: stats.telemetry_drops.full + stats.telemetry_drops.expired,
    }
}

fn drops(class: Class, stats: &Stats) -> BTreeMap<String, u64> {
    let (control, telemetry, counters) = (&stats.control_drops, &stats.telemetry_drops, &stats.counters);
    let reasons: &[(&str, u64)] = match class {
        Class::Control => &[
            ("full", control.full),
            ("expired", control.expired + counters.expired_commands),
            ("superseded", control.superseded),
            ("stale", control.stale + counters.stale_setpoints),
            ("overtaken", counters.overtaken_setpoints),
            ("duplicate", counters.duplicates),
        ],
        Class::Telemetry => {
            &[("full", telemetry.full), ("expired", telemetry.expired), ("superseded", telemetry.superseded)]
        }
        Class::Video => &[("frames", stats.frames_dropped)],
        Class::Bulk => &[],
    };
    reasons.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect()
}

fn bearer(stats: &BearerStats, lanes: &Lanes) -> BearerStatus {
    let counters = &stats.counters;
    BearerStatus {
        number: stats.bearer.number(),
        name: if stats.name.is_empty() { stats.bearer.to_string() } else { stats.name.clone() },
        usage: stats.usage.name().to_owned(),
        local: lanes.local(stats.bearer).filter(|_| stats.radio.is_none()).map(|local| local.to_string()),
        remote: stats.remote.map(|remote| remote.to_string()),
        state: stats.state.name().to_owned(),
        silence_ms: stats.silence.map(ms),
        rtt_ms: stats.rtt.map(ms),
        rtt_min_ms: stats.rtt_min.map(ms),
        loss: (stats.datagrams_received + stats.datagrams_lost > 0 || stats.radio.is_some()).then_some(stats.loss),
        capacity_bps: stats.capacity.0,
        carries_telemetry: stats.carries[0],
        carries_video: stats.carries[1],
        control_out: counters.control_out,
        control_won: counters.control_won,
        control_late: counters.control_late,
        aerotp: stats.radio.as_ref().map(aerotp),
        packets_out: counters.packets_out,
        packets_in: counters.packets_in,
        bytes_out: counters.bytes_out,
        bytes_in: counters.bytes_in,
        connections: counters.connections,
        resumed: counters.resumed,
    }
}

fn replication(stats: &Stats) -> ReplicationStatus {
    let counters = &stats.counters;
    let bytes: u64 = stats.bearers.iter().map(|bearer| bearer.counters.bytes_out).sum();
    ReplicationStatus {
        copies: counters.copies_sent,
        redundant_bytes: counters.redundant_bytes,
        share: (bytes > 0).then(|| counters.redundant_bytes as f64 / bytes as f64),
        over_budget: counters.over_budget,
        receipts: counters.receipts,
        duplicates: counters.duplicates,
        reroutes: counters.reroutes,
    }
}

fn video(stats: &Stats, cameras: &[VideoInput], viewers: &VideoOutput) -> VideoStatus {
    let outputs = viewers.counters();
    VideoStatus {
        frames_in: stats.frames_in,
        frames_sent: stats.frames_sent,
        frames_dropped: [("sender".to_owned(), stats.frames_dropped), ("viewer".to_owned(), outputs.frames_dropped)]
            .into(),
        frames_shown: stats.frames_out,
        frames_late: stats.frames_late,
        frames_lost: stats.frames_lost,
        frames_stale: stats.frames_stale,
        picture_age_ms: stats.picture_age.map(ms),
        frames_shown_there: stats.frames_shown_there,
        frames_lost_there: stats.frames_lost_there,
        frames_stale_there: stats.frames_stale_there,
        picture_age_there_ms: stats.picture_age_there.map(ms),
        held: stats.held,
        recovery_requests: stats.counters.recovery_requests,
        recovery_points_wanted: stats.counters.recovery_points_wanted,
        inputs: cameras.iter().map(|own| camera(own, stats)).collect(),
        outputs: outputs
            .consumers
            .iter()
            .map(|viewer| VideoOutputStatus {
                flow: viewer.flow.number(),
                address: viewer.address.to_string(),
                packets: viewer.packets,
                bytes: viewer.bytes,
                errors: viewer.errors,
            })
            .collect(),
    }
}

fn camera(camera: &VideoInput, stats: &Stats) -> VideoInputStatus {
    let counters = camera.counters();
    let came = stats.cameras.get(usize::from(camera.flow().number())).copied().unwrap_or_default();
    let CameraStats { codec, counters: came } = came;
    VideoInputStatus {
        flow: camera.flow().number(),
        address: camera.local_addr().to_string(),
        codec: codec.to_string(),
        packets: counters.packets,
        bytes: counters.bytes,
        dropped: counters.dropped,
        foreign: counters.foreign,
        missing: came.packets_missing,
        not_rtp: came.packets_not_rtp,
    }
}

fn mavlink(endpoints: &Endpoints, router: &RouterStats) -> MavlinkStatus {
    let endpoints = endpoints.status().map(|(spec, status)| MavlinkEndpointStatus {
        name: spec.to_string(),
        state: status.state.name().to_owned(),
        frames_in: status.frames_in,
        frames_out: status.frames_out,
        bytes_in: status.bytes_in,
        bytes_out: status.bytes_out,
        garbage_bytes: status.skipped_bytes,
        dropped: status.dropped_in + status.dropped_out,
        errors: status.bad_checksum + status.refused,
    });
    let dropped = DropReason::ALL.map(|reason| (reason.name().to_owned(), router.dropped(reason)));
    MavlinkStatus { endpoints: endpoints.collect(), dropped: dropped.into() }
}

fn radio(radio: &Radio) -> RadioStatus {
    let Radio { altitude_m, cell, rsrp_dbm, rsrq_db, sinr_db } = *radio;
    RadioStatus { altitude_m, cell, rsrp_dbm, rsrq_db, sinr_db }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn aerotp(radio: &RadioStats) -> AerotpStatus {
    let there = radio.told;
    AerotpStatus {
        rate_bps: radio.rate.0,
        bit_error_rate: radio.quality.bit_errors,
        damaged_share: radio.quality.lost,
        bit_error_rate_there: there.and_then(|there| there.bit_errors),
        damaged_share_there: there.map(|there| there.lost),
        parity_bytes: u64::from(radio.parity_words) * 4,
        segments_out: radio.counters.segments_out,
        sent_again: radio.counters.sent_again,
        segments_in: radio.counters.segments_in,
        damaged: radio.counters.damaged,
        combined: radio.counters.combined,
        forged: radio.counters.forged,
        skipped_bytes: radio.line.skipped_bytes,
        rssi: radio.status.map(|status| [status.rssi, status.remrssi]),
        txbuf: radio.status.map(|status| status.txbuf),
    }
}
