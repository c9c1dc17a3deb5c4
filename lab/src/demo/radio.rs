//! A serial radio beside the network.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aquila_emu::SerialRadioConfig;
use aquila_net::radio::{LineSpec, RadioSpec};
use aquila_net::status::{AerotpStatus, StatusSnapshot};
use aquila_proto::Side;
use serde::Serialize;

use super::commands::CommandLog;
use super::ms;
use crate::serial_pty::RadioPair;

/// What the radio is like: a SiK radio at 57,600 baud that flips a bit in 50,000.
const BAUD: u32 = 57_600;
const BIT_ERRORS: f64 = 2e-5;

/// How the radio fared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RadioReport {
    /// Commands that came by it first, both sides.
    pub won: u64,
    /// Commands that came by any bearer, both sides.
    pub commands: u64,
    /// Of the commands sent while no network was there, what the slowest took, milliseconds.
    pub worst_in_outage_ms: Option<f64>,
    /// Share of wrong bits that the aircraft has found.
    pub bit_error_rate: Option<f64>,
    /// Segments sent, both sides.
    pub segments: u64,
    /// Of these, sent again.
    pub sent_again: u64,
    /// Segments that came damaged beyond what their code repairs.
    pub damaged: u64,
    /// Of these, whole with another damaged copy.
    pub combined: u64,
}

/// The pair, and what each side is told of its own.
pub(super) fn open(seed: u64) -> std::io::Result<(RadioPair, [RadioSpec; 2])> {
    let status = Some(Duration::from_secs(1));
    let config = SerialRadioConfig { baud: BAUD, bit_errors: BIT_ERRORS, status, ..SerialRadioConfig::default() };
    let pair = RadioPair::open(config, seed)?;
    let spec = |device: PathBuf| {
        let line = LineSpec::Serial { device, baud: BAUD };
        RadioSpec { name: Some("radio".to_owned()), ..RadioSpec::new(line) }
    };
    let specs = pair.devices().map(|device| spec(device.to_owned()));
    Ok((pair, specs))
}

/// Carries what there is until told to stop.
pub(super) fn run(mut pair: RadioPair, stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        pair.turn()?;
    }
    Ok(())
}

/// What both sides say of it.
pub(super) fn report(
    air: &StatusSnapshot,
    ground: &StatusSnapshot,
    outage: Option<(Instant, Instant)>,
    commands: &CommandLog,
) -> Option<RadioReport> {
    let sent = outage.into_iter().flat_map(|(begin, end)| {
        [Side::Air, Side::Ground].into_iter().flat_map(move |side| commands.sent_within(side, begin, end))
    });
    let took = sent.map(|(sent, arrived)| arrived.map(|arrived| ms(arrived - sent)));
    let sides = [air, ground];
    let own = |side: &StatusSnapshot| side.bearers.iter().find(|bearer| bearer.aerotp.is_some()).cloned();
    let radios: Vec<_> = sides.into_iter().filter_map(own).collect();
    let sum = |of: fn(&AerotpStatus) -> u64| radios.iter().filter_map(|bearer| bearer.aerotp.as_ref()).map(of).sum();
    Some(RadioReport {
        won: radios.iter().map(|bearer| bearer.control_won).sum(),
        commands: sides.into_iter().flat_map(|side| &side.bearers).map(|bearer| bearer.control_won).sum(),
        // One that was lost took longer than any.
        worst_in_outage_ms: took.collect::<Option<Vec<_>>>().and_then(|took| took.into_iter().reduce(f64::max)),
        bit_error_rate: radios.first()?.aerotp.as_ref()?.bit_error_rate,
        segments: sum(|radio| radio.segments_out),
        sent_again: sum(|radio| radio.sent_again),
        damaged: sum(|radio| radio.damaged),
        combined: sum(|radio| radio.combined),
    })
}
