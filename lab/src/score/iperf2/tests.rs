//! What iperf 2.1.8 wrote (`fixtures`), and what it may write.

use proptest::prelude::*;

use super::*;
use crate::score::{Choice, read};
use crate::testing::Folder;

const HEAD: &str = "[  3] local 10.0.0.1 port 5001 connected with 10.0.0.2 port 48828\n";

fn of(text: &str) -> Result<Rates, ScoreError> {
    let path = Path::new("log");
    let line = text.lines().next().unwrap_or_default().as_bytes();
    if is_csv(line) { read_csv(path, text.as_bytes()) } else { read_text(path, text.as_bytes()) }
}

/// Seconds in kbit/s, -1 where there is none.
fn kbps(rates: &Rates) -> Vec<i64> {
    rates.seconds.iter().map(|rate| rate.map_or(-1, |rate| (rate / 1e3).round() as i64)).collect()
}

/// Tests: from and to in tenths of a second, mean in kbit/s.
fn tests(rates: &Rates) -> Vec<(i64, i64, i64)> {
    let whole = |value: f64| value.round() as i64;
    let test = |test: &Test| (whole(test.from_s * 10.0), whole(test.to_s * 10.0), whole(test.mean_bps / 1e3));
    rates.tests.iter().map(test).collect()
}

/// `iperf -s -u -i 1 -y C`, then twice `iperf -c ADDRESS -u -t 3`, with 8 and 16 Mbit/s and a pause of 2.2 s.
#[test]
fn two_tests_as_csv() {
    let rates = of(include_str!("../fixtures/two.csv")).unwrap();
    assert_eq!(kbps(&rates), [8408, 8385, 8385, -1, -1, 16793, 16782, 16770]);
    assert_eq!(tests(&rates), [(0, 30, 8393), (50, 80, 16782)]);
    assert_eq!(rates.what, "iperf 2, 2 tests");
}

/// The same with `-e` instead: three digits, and the dates of the tests.
#[test]
fn two_tests_with_dates() {
    let rates = of(include_str!("../fixtures/two-e.txt")).unwrap();
    assert_eq!(kbps(&rates), [8410, 8380, 8400, -1, -1, 16800, 16800, 16800]);
    assert_eq!(tests(&rates), [(0, 30, 8397), (50, 80, 16800)]);
}

/// The same with neither.
#[test]
fn without_dates_one_test_follows_the_other() {
    let rates = of(include_str!("../fixtures/two.txt")).unwrap();
    assert_eq!(kbps(&rates), [8410, 8380, 8380, 16800, 16800, 16800]);
    assert_eq!(tests(&rates), [(0, 30, 8390), (30, 60, 16800)]);
    assert!(rates.what.contains("without pauses"), "{}", rates.what);
}

/// 7.5 s of 2 Mbit/s, and from 2.2 to 5.4 s nothing arrives.
#[test]
fn seconds_without_a_packet_count() {
    for (text, last) in [(include_str!("../fixtures/outage.csv"), 75), (include_str!("../fixtures/outage.txt"), 75)] {
        let rates = of(text).unwrap();
        assert_eq!(rates.seconds.len(), 8);
        assert_eq!(rates.seconds[3..5], [Some(0.0); 2]);
        assert_eq!(rates.seconds[7], None, "half of it");
        assert!((rates.tests[0].mean_bps - 1.21e6).abs() < 5e3, "{:?}", rates.tests);
        assert_eq!(tests(&rates)[0].1, last);
    }
}

/// `-P 2`, as CSV, and with `-f K`, in which a KByte is 1024 bytes.
#[test]
fn parallel_streams_are_one_test() {
    let rates = of(include_str!("../fixtures/parallel.csv")).unwrap();
    assert_eq!(kbps(&rates), [16817, 16770, 16770, -1, -1, 33598, 33563, 33551]);
    assert_eq!(tests(&rates), [(0, 30, 16785), (50, 80, 33571)]);
    let rates = of(include_str!("../fixtures/parallel-K.txt")).unwrap();
    assert_eq!(kbps(&rates), [16826, 16777, 16777, 33595, 33571, 33538]);
    assert_eq!(tests(&rates), [(0, 30, 16794), (30, 60, 33568)]);
}

/// Of TCP the sender's side is as good.
#[test]
fn tcp_has_fewer_fields() {
    assert_eq!(kbps(&of(include_str!("../fixtures/tcp.csv")).unwrap()), [8389, 8389, 8389]);
}

/// Of UDP it is not.
#[test]
fn what_a_client_sent_is_refused() {
    for (text, line) in [(include_str!("../fixtures/client.csv"), 3), (include_str!("../fixtures/client.txt"), 2)] {
        let error = of(text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("log:{line}: ")) && error.contains("client sent"), "{error}");
    }
    // A 2.0 client as CSV: what it sent, and what the server told it.
    let text = "20131106181500,10.0.0.1,4000,10.0.0.2,5001,3,0.0-2.0,500000,2000000\n\
                20131106181500,10.0.0.2,5001,10.0.0.1,4000,3,0.0-2.0,400000,1600000,0.1,80,400,20.000,0\n";
    assert_eq!(kbps(&of(text).unwrap()), [1600, 1600]);
}

/// The lines of 2.0, whose ids come again.
#[test]
fn lines_of_older_versions() {
    let test = |rates: [&str; 2]| {
        format!(
            "{HEAD}[ ID] Interval       Transfer     Bandwidth        Jitter   Lost/Total Datagrams\n\
             [  3]  0.0- 1.0 sec  1.20 MBytes  {}   0.012 ms    0/  857 (0%)\n\
             [  3]  1.0- 2.0 sec  1.20 MBytes  {}   0.012 ms    0/  857 (0%)\n\
             [  3]  0.0- 2.3 sec  2.40 MBytes  10.1 Mbits/sec   0.012 ms    0/ 1714 (0%)\n\
             [  3]  0.0- 2.3 sec  1 datagrams received out-of-order\n",
            rates[0], rates[1]
        )
    };
    let all = test(["10.1 Mbits/sec", "900 Kbits/sec"]) + &test(["1.00 Gbits/sec", " 0.00 bits/sec"]) + HEAD;
    let rates = of(&all).unwrap();
    assert_eq!(kbps(&rates), [10_100, 900, 1_000_000, 0]);
    assert_eq!(tests(&rates), [(0, 20, 5500), (20, 40, 500_000)]);
    // The same as somebody cut it out, and without the summary, which a link may lose.
    let lines =
        |keep: fn(&str) -> bool| all.lines().filter(|line| keep(line)).map(|l| format!("{l}\r\n")).collect::<String>();
    assert_eq!(of(&lines(|line| line.contains("/sec"))).unwrap(), rates);
    assert_eq!(of(&lines(|line| !line.contains(" 0.0- 2.3"))).unwrap(), rates);
    // Only the summary, as without `-i`.
    let rates = of(&lines(|line| line.contains(" 0.0- 2.3") || line.contains("local"))).unwrap();
    assert_eq!((kbps(&rates), rates.tests.len()), (vec![10_100, 10_100, 10_100, 10_100, -1], 2));
}

#[test]
fn stamps_of_whole_seconds_do_not_make_tests_overlap() {
    let line = |at: u64, port: u16, to: f64, bytes: u64| {
        format!("{at},10.0.0.1,5001,10.0.0.2,{port},3,0.0-{to:.1},{bytes},{},0.1,0,9,0.0,0\n", bytes * 8)
    };
    // The first from 10.0 to 17.5 s, the second from 17.6 to 18.6 s.
    let rates =
        of(&(line(20_131_106_181_517, 4000, 7.5, 750_000) + &line(20_131_106_181_518, 4001, 1.0, 500_000))).unwrap();
    assert_eq!(tests(&rates), [(0, 75, 800), (75, 85, 4000)]);
    // With `-e` they are exact, and the pause of 0.1 s is there.
    let exact = (line(20_131_106_181_517, 4000, 7.5, 750_000) + &line(20_131_106_181_518, 4001, 1.0, 500_000))
        .replace("517,", "517.500,")
        .replace("518,", "518.600,");
    assert_eq!(tests(&of(&exact).unwrap()), [(0, 75, 800), (76, 86, 4000)]);
}

#[test]
fn what_makes_no_sense_is_refused_with_its_line() {
    let csv = "20131106181517,10.0.0.1,5001,10.0.0.2,4000,3,0.0-1.0,750000,6000000,0.1,0,9,0.0,0\n";
    let second = |old: &str, new: &str| csv.to_owned() + &csv.replace(old, new);
    let text = |line: &str| format!("{HEAD}{line}\n");
    for (text, wanted) in [
        (second(",0.0,0", ""), "log:2: 12 fields"),
        (second("20131106", "20131306"), "log:2: '20131306181517' is no time"),
        (second("17,10", "17:5,10"), "log:2: '20131106181517:5' is no time"),
        (second("0.0-1.0", "0.0"), "log:2: '0.0' is no interval"),
        (second("0.0-1.0", "2.0-1.0"), "log:2: an interval from 2 to 1 s"),
        (second("0.0-1.0", "1.0-1e9"), "longer than 1,000,000 s"),
        (second("0.0-1.0", "5.0-6.0") + &csv.replace("0.0-1.0", "2.0-3.0"), "log:3: time goes back, from 6 to 2 s"),
        (second("750000", "-nan"), "log:2: bytes: '-nan' is not"),
        (csv.to_owned() + &csv.replace("4000", "4001").replace("20131106", "20131206"), "longer than 1,000,000 s"),
        (text("[  3  0.0- 1.0 sec"), "log:2: the bracket"),
        (text("[  3]  0.0- 1.0 s"), "log:2: no interval in seconds"),
        (text("[  3]  0.0 1.0 sec  1 MBytes 1 Mbits/sec"), "log:2: '0.0 1.0 ' is no interval"),
        (text("[  3]  0.0- 1.0 sec  1.20 MBytes  10.1"), "log:2: no transfer and rate"),
        (text("[  3]  0.0- 1.0 sec  1.20 MBytes  10.1 Pbits/sec"), "log:2: 'Pbits/sec' is no unit"),
        (text("[  3]  0.0- 1.0 sec  1.20 MBytes  inf Mbits/sec"), "log:2: rate: 'inf'"),
        (text("[  3]  2.0- 1.0 sec  1.20 MBytes  1 Mbits/sec"), "log:2: an interval from 2 to 1 s"),
        (text("[  3]  1.0- 1.0 sec  1.20 MBytes  1 Mbits/sec"), "log: no tests"),
        (HEAD.to_owned(), "log: no tests"),
        ("-----".to_owned(), "log: no tests"),
    ] {
        let error = of(&text).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}\n{text}");
    }
}

#[test]
fn files_are_told_apart_by_their_first_line() {
    let folder = Folder::new("iperf2-kinds");
    let what = |text: &str| read(&folder.file("log", text), &Choice::default()).unwrap().what;
    assert!(what(include_str!("../fixtures/two.csv")).starts_with("iperf 2"));
    assert!(what(include_str!("../fixtures/two.txt")).starts_with("iperf 2"));
    assert!(what("[  3]  0.0- 1.0 sec  1.20 MBytes  10.1 Mbits/sec\n").starts_with("iperf 2"));
    let iperf3 = r#"{"intervals":[{"sum":{"start":0,"end":1,"bits_per_second":1}}]}"#;
    for list in [format!("[{iperf3}]"), format!("[\n{iperf3}\n]"), format!("  [ {iperf3} ]")] {
        assert!(what(&list).starts_with("iperf3"));
    }
    assert!(what("0\n1\n10000\n").starts_with("a mahimahi"));
    assert!(what("time_s,rate_mbps\n0,1\n").starts_with("a CSV"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_lines_are_read_or_refused(
        lines in prop::collection::vec(
            prop_oneof![
                (0..3u8, 0..40u32, 0..40u32, "[0-9.e-]{1,9}", "[KMGT]?(bits|Bytes)/sec").prop_map(|(id, from, to, rate, unit)| {
                    format!("[  {id}] {}.0-{}.0 sec  1 MBytes {rate} {unit}", from / 4, to / 4)
                }),
                (0..3u8, 0..40u32, 0..40u32, 0..4000u32, any::<bool>()).prop_map(|(id, from, to, at, is_udp)| {
                    let rest = if is_udp { ",0.1,0,9,0.0,0" } else { "" };
                    format!("2013110618{:04},a,1,b,2,{id},{}.0-{}.0,9999,8{rest}", at, from / 4, to / 4)
                }),
                Just(HEAD.trim_end().to_owned()),
                "[\\[\\] 0-9.,secMbits/-]{0,40}",
            ],
            0..20,
        ),
        is_csv: bool,
    ) {
        let text = lines.join("\n");
        let read = if is_csv { read_csv(Path::new("t"), text.as_bytes()) } else { read_text(Path::new("t"), text.as_bytes()) };
        if let Ok(rates) = read {
            prop_assert!(!rates.tests.is_empty());
            for rate in rates.seconds.iter().flatten().chain(rates.tests.iter().map(|test| &test.mean_bps)) {
                prop_assert!(rate.is_finite() && *rate >= 0.0);
            }
            for test in &rates.tests {
                prop_assert!(test.from_s >= 0.0 && test.to_s > test.from_s);
            }
        }
    }
}
