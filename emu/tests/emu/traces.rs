//! Parsers on arbitrary bytes, files written and read again, and recorded traces where they are at hand.

use std::io::{BufReader, Cursor};
use std::path::PathBuf;
use std::time::Duration;

use aquila_emu::trace::{CsvTrace, List, MahimahiTrace, Source, convert, csv, mahimahi, write};
use aquila_emu::{CcqMode, Path, PathConfig, Queue, Sample};
use proptest::prelude::*;

use crate::epoch;

/// Bytes that look like a trace more often than chance has it.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        4 => "[0-9]{1,4}",
        2 => "[0-9]{1,3}(\\.[0-9]{0,3})?(,[0-9]{1,3}(\\.[0-9]{0,3})?){0,3}",
        2 => "(time_s|time_ms)(,rate_bps|,rate_mbps|,loss|,ccq_percent|,delay_ms|,x){1,3}",
        1 => "# (kind|source): .{0,10}",
        1 => "\\PC{0,20}",
    ];
    let lines = prop::collection::vec(line, 0..20).prop_map(|lines| lines.join("\n").into_bytes());
    prop_oneof![3 => lines, 1 => prop::collection::vec(any::<u8>(), 0..300)]
}

proptest! {
    #[test]
    fn nothing_makes_a_parser_panic_and_what_it_accepts_can_be_played(bytes in bytes()) {
        let start = epoch();
        let reader = || BufReader::with_capacity(7, Cursor::new(bytes.clone()));
        if let Ok(trace) = MahimahiTrace::open(reader()) {
            prop_assert!(!trace.info().duration.is_zero() && trace.info().items > 0);
            let mut path = Path::new(PathConfig::default(), 0);
            path.play_opportunities(start, start, trace.into_opportunities());
            (0..10u32).for_each(|n| _ = path.push(start, 1400, n));
            while let Some(at) = path.next_delivery() {
                path.pop(at);
            }
            prop_assert_eq!(path.trace_fault(), None);
            prop_assert_eq!(path.stats().output.packets, 10);
        }
        if let Ok(trace) = CsvTrace::open(reader()) {
            prop_assert!(!trace.info().duration.is_zero() && trace.info().items > 0);
            let mut path = Path::new(PathConfig::default(), 0);
            path.play_samples(start, start, trace.into_samples(CcqMode::default()));
            (0..10u32).for_each(|n| _ = path.push(start, 1400, n));
            for _ in 0..100 {
                let Some(at) = path.next_delivery() else { break };
                path.pop(at);
            }
            prop_assert_eq!(path.trace_fault(), None);
        }
    }

    #[test]
    fn opportunities_survive_writing(gaps in prop::collection::vec(0u64..2_000, 1..100)) {
        let mut at = 1;
        let times: Vec<Duration> = gaps.iter().map(|gap| { at += gap; Duration::from_millis(at) }).collect();
        let mut text = Vec::new();
        write::mahimahi(&mut text, &["source: chance".into()], times.iter().copied()).unwrap();
        let mut trace = MahimahiTrace::open(Cursor::new(text)).unwrap();
        prop_assert_eq!(trace.info().source.as_deref(), Some("chance"));
        let read: Vec<Duration> = std::iter::from_fn(|| trace.next_item().unwrap()).collect();
        prop_assert_eq!(read, times);
    }

    #[test]
    fn samples_survive_writing(
        rows in prop::collection::vec(
            (1_000u64..5_000_000_000, 0u64..1_000_000_000, 0u64..600_000_000_000, 0u64..=1_000_000_000), 2..50,
        ),
        has_ccq: bool,
    ) {
        let mut samples: Vec<Sample> = rows.iter().map(|(lasts, rate, delay, share)| {
            let share = Some(*share as f64 / 1e9);
            Sample {
                lasts: Duration::from_nanos(*lasts),
                rate_bps: Some(*rate + 1),
                delay: Some(Duration::from_nanos(*delay)),
                loss: share.filter(|_| !has_ccq),
                ccq: share.filter(|_| has_ccq),
            }
        }).collect();
        let last = samples.len() - 1;
        samples[last].lasts = samples[last - 1].lasts;
        let mut text = Vec::new();
        write::csv(&mut text, &[], samples.iter().copied()).unwrap();
        let mut trace = CsvTrace::open(Cursor::new(text)).unwrap();
        prop_assert_eq!(trace.info().duration, samples.iter().map(|sample| sample.lasts).sum());
        let read: Vec<Sample> = std::iter::from_fn(|| trace.next_item().unwrap()).collect();
        prop_assert_eq!(read, samples);
    }

    #[test]
    fn conversion_keeps_the_bytes(rates in prop::collection::vec(0u64..100_000_000, 1..30)) {
        let second = Duration::from_secs(1);
        let sample = |rate| Sample { lasts: second, rate_bps: Some(rate), delay: None, loss: None, ccq: None };
        let samples: Vec<Sample> = rates.iter().map(|rate| sample(*rate)).collect();
        let opportunities = convert::ToOpportunities::new(List::new(samples), 1500);
        let times: Vec<Duration> = opportunities.map(Result::unwrap).collect();
        let bits: u64 = rates.iter().sum();
        // One more keeps the length, if it is needed.
        prop_assert!((bits / 12_000..=bits / 12_000 + 1).contains(&(times.len() as u64)));
        prop_assert!(times.is_sorted());
        prop_assert_eq!(times.last(), Some(&Duration::from_secs(rates.len() as u64)));
        let back = convert::ToSamples::new(List::new(times.clone()), 1500, second);
        let back: Vec<Sample> = back.map(Result::unwrap).collect();
        // Rates are rounded down, and those at the very end are in a span of their own.
        let carried: f64 = back.iter().map(|s| s.rate_bps.unwrap() as f64 * s.lasts.as_secs_f64()).sum();
        prop_assert!((carried - times.len() as f64 * 12_000.0).abs() <= back.len() as f64);
    }
}

/// Recorded traces, of the folder that AQUILA_TRACES names; they are not part of the project, so the test is skipped where they are absent.
fn recorded(name: &str) -> Option<Cursor<Vec<u8>>> {
    let folder = std::env::var_os("AQUILA_TRACES").map(PathBuf::from);
    let bytes = folder.and_then(|folder| std::fs::read(folder.join(name)).ok());
    if bytes.is_none() {
        eprintln!("skipped: AQUILA_TRACES names no folder that has {name}");
    }
    bytes.map(Cursor::new)
}

/// Name, lines, and milliseconds of length, of which the project's notes have the mean rate.
const RECORDED: [(&str, u64, u64, f64); 5] = [
    ("Verizon-LTE-driving.up", 708_561, 1_365_371, 6.23),
    ("Verizon-LTE-short.up", 69_367, 140_000, 5.95),
    ("Verizon-LTE-short.down", 58_655, 140_000, 5.03),
    ("trace-2768760-taxi3", 83_547, 104_814, 9.57),
    ("trace-3204803-timessquare", 112_882, 188_326, 7.19),
];

#[test]
fn recorded_traces_are_what_their_notes_say() {
    for (name, lines, millis, mbit) in RECORDED {
        let Some(reader) = recorded(name) else { continue };
        let info = mahimahi::scan(reader).unwrap();
        assert_eq!(info.duration, Duration::from_millis(millis), "{name}");
        assert!(info.items.abs_diff(lines) <= 1, "{name}: {} opportunities", info.items);
        assert!((info.mean_rate_bps as f64 / 1e6 - mbit).abs() < 0.01, "{name}: {} bit/s", info.mean_rate_bps);
    }
}

/// A saturated link delivers, second by second, exactly 1500 bytes for each opportunity.
#[test]
fn saturated_recorded_traces_deliver_every_opportunity() {
    for (name, _, millis, _) in RECORDED {
        let (Some(mut lines), Some(reader)) = (recorded(name), recorded(name)) else { continue };
        let seconds = (millis / 1000).min(300) as usize;
        let mut expected = vec![0u64; seconds + 1];
        let mut line = String::new();
        while std::io::BufRead::read_line(&mut lines, &mut line).unwrap() > 0 {
            let ms: usize = line.trim().parse().unwrap();
            line.clear();
            // Opportunities at 0 come before any packet.
            if ms > 0 && ms / 1000 < seconds {
                expected[ms / 1000] += 1500;
            }
        }
        let start = epoch();
        let mut path = Path::new(PathConfig { queue: Queue::bytes(2_000_000), ..PathConfig::default() }, 0);
        path.play_opportunities(start, start, MahimahiTrace::open(reader).unwrap().into_opportunities());
        let mut delivered = vec![0u64; seconds + 1];
        for t in 0..seconds as u64 * 1000 {
            // Some sizes that do not divide 1500: what is sent in a second is counted in bytes of opportunities used.
            while path.stats().queue_bytes < 1_000_000 {
                path.push(
                    start + Duration::from_millis(t),
                    100 + (path.stats().input.packets as usize * 37) % 1400,
                    0u32,
                )
                .unwrap();
            }
            let before = path.stats().opportunity_bytes;
            while path.pop(start + Duration::from_millis(t + 1)).is_some() {}
            delivered[(t as usize + 1) / 1000] += path.stats().opportunity_bytes - before;
        }
        assert_eq!(delivered[..seconds], expected[..seconds], "{name}");
        assert_eq!(path.trace_fault(), None);
    }
}

#[test]
fn a_trace_of_any_length_is_read_in_bounded_memory() {
    /// Lines without end; how many were read is all there is to it.
    #[derive(Debug)]
    struct Lines(u64);
    impl std::io::Read for Lines {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if self.0 >= 3_000_000 {
                return Ok(0);
            }
            self.0 += 1;
            let line = format!("{}\n", self.0);
            buffer[..line.len()].copy_from_slice(line.as_bytes());
            Ok(line.len())
        }
    }
    let info = mahimahi::scan(BufReader::with_capacity(64, Lines(0))).unwrap();
    assert_eq!((info.items, info.mean_rate_bps), (3_000_000, 12_000_000));
    assert!(csv::scan(BufReader::with_capacity(64, Lines(0))).is_err());
}
