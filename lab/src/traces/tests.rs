//! Files from end to end.

use std::time::Duration;

use aquila_emu::synth::Model;
use proptest::prelude::*;

use super::*;
use crate::testing::Folder;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_trace_goes_there_and_back() {
    let folder = Folder::new("traces-back");
    // 2 opportunities in the first second, 1 in the second.
    let first = folder.file("a.mahi", "# source: a flight\n# kind: capacity\n0\n500\n2000\n");
    let csv = folder.path().join("a.csv");
    let done = convert(&first, &csv, None, SECOND, false).unwrap();
    assert_eq!((done.format, done.lines), (Format::Csv, 2 + 1));
    let text = std::fs::read_to_string(&csv).unwrap();
    assert!(text.starts_with("# kind: capacity\n# source: a flight; converted from"), "{text}");
    let back = folder.path().join("b.mahi");
    let done = convert(&csv, &back, None, SECOND, false).unwrap();
    assert!(done.lost.iter().any(|lost| lost.contains("licence")), "{:?}", done.lost);
    let info = open(&back).unwrap().info().clone();
    assert!(info.items >= 2 && info.source.is_none());
    let stays = convert(&back, &back, None, SECOND, false).unwrap_err();
    assert!(stays.to_string().contains("while it is read"), "{stays}");
}

#[test]
fn a_made_up_trace_is_read_and_drawn() {
    let folder = Folder::new("traces-synth");
    for (name, format) in [("uav.csv", Format::Csv), ("uav.mahi", Format::Mahimahi)] {
        let path = folder.path().join(name);
        synth(&path, Model::uav(), 7, Duration::from_secs(60), format, true).unwrap();
        let trace = open(&path).unwrap();
        let text = describe(&path, &trace);
        assert!(
            text.contains("capacity") && text.contains("--model uav --seed 7") && text.contains("CC0-1.0"),
            "{text}"
        );
        let json = json(&path, &trace);
        assert!((59.0..=60.0).contains(&json["duration_s"].as_f64().unwrap()), "{json}");
        for drawing in ["a.svg", "a.html"] {
            let drawing = folder.path().join(drawing);
            plot(&path, &drawing).unwrap();
            let text = std::fs::read_to_string(drawing).unwrap();
            assert!(text.contains("rate, Mbit/s") && !text.contains("NaN") && text.len() < 200_000);
        }
    }
}

#[test]
fn what_is_no_trace_is_refused_with_file_line_and_reason() {
    let folder = Folder::new("traces-bad");
    let long = "1".repeat(1 << 20);
    for (name, text, wanted) in [
        ("back.mahi", "5\n4\n", "back.mahi:2: time goes back"),
        ("negative.csv", "time_s,rate_mbps\n0,-1\n", "negative.csv:2: "),
        ("units.csv", "time_s,rate_mb\n0,1\n", "units.csv:1: "),
        ("empty.csv", "", "the trace has no data"),
        ("line.mahi", long.as_str(), "line.mahi:1: the line is longer than"),
    ] {
        let path = folder.file(name, text);
        let error = open(&path).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
        assert!(plot(&path, &folder.path().join("x.svg")).is_err());
    }
    assert!(open(&folder.path().join("none")).unwrap_err().to_string().contains("cannot read"));
    assert!(open(folder.path()).unwrap_err().to_string().contains("directory"));
    let delays = folder.file("delay.csv", "time_s,delay_ms\n0,5\n1,6\n");
    let to = folder.path().join("x.mahi");
    let error = convert(&delays, &to, None, SECOND, false).unwrap_err();
    assert!(error.to_string().contains("has no rates"), "{error}");
    let huge = folder.file("huge.csv", "time_s,rate_mbps\n0,1000000\n900000000,1\n");
    let error = convert(&huge, &to, None, SECOND, false).unwrap_err();
    assert!(error.to_string().contains("lines"), "{error}");
    assert!(!to.exists());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn any_text_is_read_or_refused(text in "(time_s,rate_mbps\n)?([0-9]{0,4}[,\n.a-]?){0,40}") {
        let folder = Folder::new(&format!("traces-any-{}", text.len()));
        let path = folder.file("t", &text);
        if open(&path).is_ok() {
            plot(&path, &folder.path().join("t.html")).unwrap();
            let _ = convert(&path, &folder.path().join("u"), None, SECOND, false);
        }
    }
}
