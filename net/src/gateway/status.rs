//! What a gateway's status page shows, and that of the link that it goes through: each flow, and what is under them.

use std::fmt::Write;
use std::time::{Duration, Instant};

use aquila_proto::gateway::{FlowStatus, Gateway};
use serde::{Deserialize, Serialize};

use super::files::Files;
use crate::status::Shown;
use crate::status::page::{Column, Page, count, seconds};

/// What a gateway knows and does.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GatewaySnapshot {
    /// Version of this program.
    pub version: String,
    /// Fingerprint of the other side's key.
    pub peer: String,
    /// Since the program started.
    pub uptime_s: f64,
    /// The radio, or the session that is there instead.
    pub radio: GatewayRadio,
    /// The TUN device, if there is one.
    pub tun: Option<GatewayTun>,
    /// TCP connections, in no order that means anything.
    pub flows: Vec<GatewayFlow>,
    /// Flows that have ended since the program started.
    pub flows_ended: u64,
    /// Bytes that are in custody here, of all flows.
    pub custody_bytes: u64,
    /// Bytes that were confirmed to applications here and are not known to have been delivered.
    pub undelivered_bytes: u64,
    /// Clients and peers of UDP.
    pub udp: u64,
    /// Frames of the other gateway's that made no sense.
    pub malformed: u64,
}

/// See [`GatewaySnapshot::radio`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GatewayRadio {
    /// How it is called.
    pub name: String,
    /// Since when the other gateway was not heard; `None`: never.
    pub silence_ms: Option<f64>,
    /// Round-trip time, smoothed.
    pub rtt_ms: Option<f64>,
    /// Segments sent, repetitions included.
    pub segments_out: u64,
    /// Bytes of them, with their framing.
    pub bytes_out: u64,
    /// Of the segments, sent again.
    pub sent_again: u64,
    /// Segments recognised.
    pub segments_in: u64,
    /// Of those, damaged beyond what their code repairs.
    pub damaged: u64,
    /// Of those, made whole with another damaged copy.
    pub combined: u64,
    /// Segments that the other side did not make.
    pub forged: u64,
    /// Segments that the line did not take.
    pub refused: u64,
}

/// See [`GatewaySnapshot::tun`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GatewayTun {
    /// Packets that belonged to a flow, or began one.
    pub packets_taken: u64,
    /// That belonged to none, and were answered with a reset.
    pub packets_refused: u64,
    /// Fragments, dropped.
    pub fragments: u64,
    /// No TCP, dropped.
    pub other: u64,
    /// Made no sense or had a wrong checksum, dropped.
    pub malformed: u64,
    /// Packets that the device did not take.
    pub not_written: u64,
}

/// One TCP connection.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GatewayFlow {
    /// Its name, the same on both sides.
    pub flow: String,
    /// The application that opened it is `here` or `there`.
    pub opened: String,
    /// Whom it goes to, as the side sees it that does not have the application.
    pub target: String,
    /// Transfer mode: `reliable`, `near-reliable`, `quasi-reliable`.
    pub mode: String,
    /// `opening`, `open`, `closing`, `disconnected`, `delivering`: see docs/gateway.md.
    pub state: String,
    /// Since it began, or the program did.
    pub age_s: f64,
    /// What the application here has sent.
    pub sent_bytes: u64,
    /// Of that, what the far application's kernel has acknowledged.
    pub acknowledged_bytes: u64,
    /// Of that, what is in custody here.
    pub custody_bytes: u64,
    /// What came from the far application.
    pub received_bytes: u64,
    /// Of that, what the kernel of the application here has acknowledged.
    pub taken_bytes: u64,
    /// What was missing when its time had come (quasi-reliable).
    pub skipped_bytes: u64,
}

/// What a gateway's loop knows beside the gateway.
pub(super) struct Beside<'a> {
    pub started: Instant,
    pub peer: &'a str,
    pub radio: &'a str,
    pub refused: u64,
    /// Packets that the TUN device did not take, if there is one.
    pub not_written: Option<u64>,
}

impl GatewaySnapshot {
    pub(super) fn take(now: Instant, gateway: &Gateway<Files>, beside: &Beside<'_>) -> Self {
        let stats = gateway.stats(now);
        let ms = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
        let packets = gateway.packets();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            peer: beside.peer.to_owned(),
            uptime_s: now.saturating_duration_since(beside.started).as_secs_f64(),
            radio: GatewayRadio {
                name: beside.radio.to_owned(),
                silence_ms: ms(stats.silent),
                rtt_ms: ms(stats.rtt),
                segments_out: stats.radio.segments_out,
                bytes_out: stats.radio.bytes_out,
                sent_again: stats.radio.sent_again,
                segments_in: stats.radio.segments_in,
                damaged: stats.radio.damaged,
                combined: stats.radio.combined,
                forged: stats.radio.forged,
                refused: beside.refused,
            },
            tun: beside.not_written.map(|not_written| GatewayTun {
                packets_taken: packets.taken,
                packets_refused: packets.refused,
                fragments: packets.fragments,
                other: packets.other,
                malformed: packets.malformed,
                not_written,
            }),
            flows: gateway.flows(now).map(|status| GatewayFlow::of(&status)).collect(),
            flows_ended: stats.ended,
            custody_bytes: stats.custody.0,
            undelivered_bytes: stats.undelivered.0,
            udp: stats.udp as u64,
            malformed: stats.malformed,
        }
    }
}

impl GatewayFlow {
    fn of(status: &FlowStatus) -> Self {
        Self {
            flow: status.flow.to_string(),
            opened: if status.ours { "here" } else { "there" }.to_owned(),
            target: status.target.to_string(),
            mode: status.mode.to_owned(),
            state: status.state.name().to_owned(),
            age_s: status.age.as_secs_f64(),
            sent_bytes: status.sent.0,
            acknowledged_bytes: status.acknowledged.0,
            custody_bytes: status.custody.0,
            received_bytes: status.received.0,
            taken_bytes: status.taken.0,
            skipped_bytes: status.skipped.0,
        }
    }
}

impl Shown for GatewaySnapshot {
    fn summary(&self) -> String {
        let mut out = String::with_capacity(1024);
        // Writing to a string cannot fail.
        let _ = writeln!(out, "aquila gateway {}, up {:.0} s, peer {}", self.version, self.uptime_s, self.peer);
        let _ = self.put_summary(&mut out);
        out
    }

    fn metrics(&self) -> String {
        let mut page = Page::new();
        let info = [("version", self.version.as_str()), ("side", "gateway"), ("peer", &self.peer)];
        page.describe("aquila_info", "Always 1; the labels say what runs here and with whom.");
        page.sample("aquila_info", &info, 1.0);
        page.table(&OWN_PAGE, &[(vec![], self)]);
        self.put_metrics(&mut page);
        page.into_text()
    }
}

impl GatewaySnapshot {
    /// What is shown on a page of the gateway's own and on that of the link that it goes through.
    pub(crate) fn put_metrics(&self, page: &mut Page) {
        page.table(&WHOLE, &[(vec![], self)]);
        if let Some(tun) = &self.tun {
            page.table(&TUN, &[(vec![], tun)]);
        }
        page.describe("aquila_gateway_flows", "TCP connections, by mode and state.");
        for mode in MODES {
            for state in STATES {
                let fits = |flow: &&GatewayFlow| flow.mode == mode && flow.state == state;
                let flows = self.flows.iter().filter(fits).count();
                page.sample("aquila_gateway_flows", &[("mode", mode), ("state", state)], flows as f64);
            }
        }
    }

    /// The same to read.
    pub(crate) fn put_summary(&self, out: &mut String) -> std::fmt::Result {
        let radio = &self.radio;
        let ms = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.1} ms"));
        writeln!(
            out,
            "gateway by {}: last word {} ago, round trip {}, {} segments and {} bytes out, {} sent again; {} in, {} damaged, {} of \
             them put together",
            radio.name,
            ms(radio.silence_ms),
            ms(radio.rtt_ms),
            radio.segments_out,
            radio.bytes_out,
            radio.sent_again,
            radio.segments_in,
            radio.damaged,
            radio.combined,
        )?;
        writeln!(
            out,
            "custody {} bytes; {} flows ended, {} bytes confirmed and not known to be delivered; {} UDP clients",
            self.custody_bytes, self.flows_ended, self.undelivered_bytes, self.udp
        )?;
        for flow in &self.flows {
            writeln!(
                out,
                "flow {} opened {} to {}, {}: {}, {:.0} s; sent {}, acknowledged {}, custody {}; received {}, taken {}, skipped {}",
                flow.flow,
                flow.opened,
                flow.target,
                flow.mode,
                flow.state,
                flow.age_s,
                flow.sent_bytes,
                flow.acknowledged_bytes,
                flow.custody_bytes,
                flow.received_bytes,
                flow.taken_bytes,
                flow.skipped_bytes,
            )?;
        }
        Ok(())
    }
}

const MODES: [&str; 3] = ["reliable", "near-reliable", "quasi-reliable"];
const STATES: [&str; 5] = ["opening", "open", "closing", "disconnected", "delivering"];

const OWN_PAGE: [Column<GatewaySnapshot>; 1] =
    [("aquila_uptime_seconds", "Since the program started.", |s| Some(s.uptime_s))];

/// No metric of one flow: each would begin a series that nobody ends. Those are in the JSON.
const WHOLE: [Column<GatewaySnapshot>; 16] = [
    ("aquila_gateway_last_word_age_seconds", "Age of the last word from the other gateway.", |s| {
        seconds(s.radio.silence_ms)
    }),
    ("aquila_gateway_rtt_seconds", "Round-trip time between the gateways, smoothed.", |s| seconds(s.radio.rtt_ms)),
    ("aquila_gateway_segments_out_total", "Segments sent.", |s| count(s.radio.segments_out)),
    ("aquila_gateway_bytes_out_total", "Bytes of them, with their framing.", |s| count(s.radio.bytes_out)),
    ("aquila_gateway_sent_again_total", "Segments sent again.", |s| count(s.radio.sent_again)),
    ("aquila_gateway_segments_in_total", "Segments recognised.", |s| count(s.radio.segments_in)),
    ("aquila_gateway_damaged_total", "Segments damaged beyond what their code repairs.", |s| count(s.radio.damaged)),
    ("aquila_gateway_combined_total", "Of these, made whole with another damaged copy.", |s| count(s.radio.combined)),
    ("aquila_gateway_forged_total", "Segments that the other side did not make.", |s| count(s.radio.forged)),
    ("aquila_gateway_refused_total", "Segments that the line did not take.", |s| count(s.radio.refused)),
    ("aquila_gateway_flows_ended_total", "TCP connections that have ended.", |s| count(s.flows_ended)),
    ("aquila_gateway_custody_bytes", "Bytes in custody.", |s| count(s.custody_bytes)),
    ("aquila_gateway_undelivered_bytes_total", "Bytes confirmed and not known to have been delivered.", |s| {
        count(s.undelivered_bytes)
    }),
    ("aquila_gateway_udp", "Clients and peers of UDP.", |s| count(s.udp)),
    ("aquila_gateway_malformed_total", "Frames of the other gateway's that made no sense.", |s| count(s.malformed)),
    ("aquila_gateway_unacknowledged_bytes", "Bytes of applications here that the far ones' kernels lack.", |s| {
        count(s.flows.iter().map(|flow| flow.sent_bytes - flow.acknowledged_bytes.min(flow.sent_bytes)).sum())
    }),
];

const TUN: [Column<GatewayTun>; 6] = [
    ("aquila_gateway_tun_packets_total", "Packets of the TUN device that belonged to a flow.", |t| {
        count(t.packets_taken)
    }),
    ("aquila_gateway_tun_refused_total", "Packets that belonged to none, and were answered.", |t| {
        count(t.packets_refused)
    }),
    ("aquila_gateway_tun_fragments_total", "Fragments, dropped.", |t| count(t.fragments)),
    ("aquila_gateway_tun_other_total", "Packets that were no TCP, dropped.", |t| count(t.other)),
    ("aquila_gateway_tun_malformed_total", "Packets that made no sense, dropped.", |t| count(t.malformed)),
    ("aquila_gateway_tun_not_written_total", "Packets that the device did not take.", |t| count(t.not_written)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flow_is_shown_and_counted() {
        let flow = |mode: &str, state: &str, sent_bytes| GatewayFlow {
            flow: "00000000000000ab".to_owned(),
            target: "10.20.0.5:22".to_owned(),
            mode: mode.to_owned(),
            state: state.to_owned(),
            sent_bytes,
            acknowledged_bytes: 40,
            ..GatewayFlow::default()
        };
        let flows =
            vec![flow("reliable", "open", 100), flow("reliable", "open", 50), flow("near-reliable", "closing", 40)];
        let tun = Some(GatewayTun { packets_taken: 7, ..GatewayTun::default() });
        let snapshot = GatewaySnapshot { flows, tun, undelivered_bytes: 9, ..GatewaySnapshot::default() };
        let summary = snapshot.summary();
        assert_eq!(summary.matches("flow 00000000000000ab opened").count(), 3);
        assert!(summary.contains("10.20.0.5:22, reliable: open, 0 s; sent 100, acknowledged 40"), "{summary}");
        let metrics = snapshot.metrics();
        for line in [
            "aquila_gateway_flows{mode=\"reliable\",state=\"open\"} 2",
            "aquila_gateway_flows{mode=\"near-reliable\",state=\"closing\"} 1",
            "aquila_gateway_flows{mode=\"quasi-reliable\",state=\"open\"} 0",
            "aquila_gateway_unacknowledged_bytes 70",
            "aquila_gateway_undelivered_bytes_total 9",
            "aquila_gateway_tun_packets_total 7",
        ] {
            assert!(metrics.lines().any(|own| own == line), "{line} in\n{metrics}");
        }
        let json = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(serde_json::from_str::<GatewaySnapshot>(&json).unwrap(), snapshot);
    }
}
