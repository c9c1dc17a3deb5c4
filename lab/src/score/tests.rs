//! Files of all kinds against each other.

use proptest::prelude::*;

use super::*;
use crate::testing::Folder;

/// A test of whole seconds that began at `at`.
fn iperf(at: u64, mbps: &[f64]) -> String {
    let interval = |(n, rate): (usize, &f64)| {
        format!(r#"{{"sum":{{"start":{n},"end":{},"bits_per_second":{}}}}}"#, n + 1, rate * 1e6)
    };
    let intervals: Vec<String> = mbps.iter().enumerate().map(interval).collect();
    format!("{{\"start\":{{\"timestamp\":{{\"timesecs\":{at}}}}},\n\"intervals\":[{}]}}\n", intervals.join(","))
}

#[test]
fn a_radio_log_against_iperf_with_a_pause() {
    let folder = Folder::new("score-iperf");
    let log = folder.file("radio.csv", "time_s,rate_mbps,ccq_percent\n0,20,50\n1,20,50\n2,20,50\n3,10,100\n4,30,90\n");
    let tests = folder.file("iperf.json", &(iperf(1_000, &[9.0, 11.0]) + &iperf(1_003, &[10.0, 27.0])));
    let score = score(&log, &tests, &Choice::default()).unwrap();
    assert_eq!(score.per_second.count, 4, "none in the pause");
    assert_eq!(score.seconds_left_out, 1);
    assert_eq!((score.per_second.mae_bps, score.per_second.bias_bps), (0.5e6, 0.0));
    let per_test = score.per_test.unwrap();
    assert_eq!((per_test.count, per_test.mae_bps), (2, 0.0));
    assert!(score.other.ends_with("iperf3, 2 tests") && score.truth.contains("less its loss"), "{score:?}");
}

#[test]
fn a_trace_against_the_links_of_a_report() {
    let folder = Folder::new("score-links");
    let trace = folder.file("t.mahi", &"0\n".repeat(100).replace('0', "1000"));
    let row = |n: u32| format!("1,udp,1,lte,up,{:.1},,0,{},0,0,0,0,0\n", f64::from(n) / 10.0, 15_000 + n);
    let header = "variant,contender,seed,link,direction,time_s,capacity_bps,offered_bytes,delivered_bytes,lost_bytes,\
                  dropped_bytes,outage_bytes,queue_ms,is_out\n";
    let text = header.to_owned() + "1,tcp,1,lte,up,0.1,,0,7,0,0,0,0,0\n" + &(1..=10).map(row).collect::<String>();
    let links = folder.file("links.csv", &text);
    let choice = Choice { contender: Some("udp".into()), ..Choice::default() };
    let score = super::score(&links, &links, &choice).unwrap();
    assert_eq!((score.per_second.count, score.per_second.mae_percent, score.per_second.ks), (1, Some(0.0), 0.0));
    assert_eq!(score.per_second.mean_bps.round(), f64::from(8 * (150_000 + 55)));
    let against = super::score(&trace, &links, &choice).unwrap();
    assert_eq!(
        (against.per_second.mean_bps, against.per_second.mae_percent),
        (0.0, None),
        "all of it comes at the end"
    );
    let none = Choice { link: Some("wifi".into()), ..choice };
    assert!(read(&links, &none).unwrap_err().to_string().contains("no series"));
}

#[test]
fn what_cannot_be_compared_is_refused_with_file_and_line() {
    let folder = Folder::new("score-bad");
    let header = "variant,contender,seed,link,direction,time_s,x\n";
    for (name, text, wanted) in [
        ("cut.json", "{\"intervals\":\n[", "cut.json:2: "),
        ("other.json", "{\"a\":1}", "has no intervals"),
        ("error.json", "{\"error\":\"refused\"}", "iperf says: refused"),
        ("back.json", "{\"intervals\":[{\"sum\":{\"start\":2,\"end\":1,\"bits_per_second\":1}}]}", "makes no sense"),
        ("links.csv", &format!("{header}1,2\n"), "links.csv:2: 2 fields"),
        ("trace.csv", "time_s,rate_mbps\n0,x\n", "trace.csv:2: "),
        ("delay.csv", "time_s,delay_ms\n0,1\n", "it has no rates"),
    ] {
        let error = read(&folder.file(name, text), &Choice::default()).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    assert!(read(folder.path(), &Choice::default()).unwrap_err().to_string().contains("directory"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn any_text_is_read_or_refused(
        start in prop_oneof![Just("{\"intervals\":["), Just("["), Just(""), Just("variant,contender,seed,link,direction,time_s\n")],
        rest in "[0-9a-z,.:{}\\[\\]\"\n-]{0,80}",
    ) {
        let folder = Folder::new(&format!("score-any-{}-{}", start.len(), rest.len()));
        let _ = read(&folder.file("t", &format!("{start}{rest}")), &Choice::default());
    }
}
