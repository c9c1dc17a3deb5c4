use std::io::Cursor;

use super::*;
use crate::trace::{Kind, Percentiles};

fn fault(text: &str) -> (u64, TraceFault) {
    let error = scan(text.as_bytes()).unwrap_err();
    (error.line, error.fault)
}

fn samples(text: &str) -> Vec<Sample> {
    let mut trace = CsvTrace::open(Cursor::new(text.to_owned())).unwrap();
    std::iter::from_fn(|| trace.next_item().unwrap()).collect()
}

#[test]
fn units_are_in_the_names() {
    let in_other_units = [
        "time_s,rate_bps,delay_s,loss\n0,2500000,0.0125,0.25\n1,0,0.0125,1\n",
        "time_ms,rate_kbps,delay_ms,loss_percent\n0,2500,12.5,25\n1000,0,12.5,100\n",
        "# a comment\nTIME_S , Rate_Mbps, delay_us, loss\r\n7.5, 2.5, 12500, 0.25\r\n# half-way\r\n8.5,0,12500,1",
        "\u{feff}loss,time_s,note,rate_mbps,delay_ms\n0.25,0,good,2.5,12.5\n1,1,bad,0,12.5\n",
    ];
    let first = Sample {
        lasts: Duration::from_secs(1),
        rate_bps: Some(2_500_000),
        delay: Some(Duration::from_micros(12_500)),
        loss: Some(0.25),
        ccq: None,
    };
    for text in in_other_units {
        assert_eq!(samples(text), [first, Sample { rate_bps: Some(0), loss: Some(1.0), ..first }], "{text}");
    }
}

#[test]
fn a_row_lasts_to_the_next_and_the_last_one_as_long_as_the_one_before() {
    let lasts = |text: &str| samples(text).iter().map(|sample| sample.lasts.as_millis()).collect::<Vec<_>>();
    assert_eq!(lasts("time_ms,loss\n100,0\n350,0\n1000,0\n"), [250, 650, 650]);
    assert_eq!(lasts("time_s,loss\n1763740800,0\n"), [1000]);
}

#[test]
fn a_trace_in_figures() {
    let text = "# kind: availability\n# licence: CC0\ntime_s,rate_mbps,loss,delay_ms,x\n\
                0,0,0,5,a\n0.5,2,0.1,7,b\n3,0,0.5,6,c\n4,0,0.5,6,d\n";
    let info = scan(text.as_bytes()).unwrap();
    assert_eq!(info.duration, Duration::from_secs(5));
    assert_eq!((info.items, info.mean_rate_bps), (4, 1_000_000));
    // Seconds: 1, 2, 2, 0, 0 Mbit/s.
    let Percentiles { min, p25, p50, max, .. } = info.per_second_bps;
    assert_eq!((min, p25, max), (0, 0, 2_000_000));
    assert!(p50.abs_diff(1_000_000) < 10_000);
    // Two seconds at the end, half a second at the beginning.
    assert_eq!(info.longest_outage, Duration::from_millis(2_500));
    assert_eq!(info.mean_loss, Some(0.25));
    assert_eq!(info.delay, Some((Duration::from_millis(5), Duration::from_millis(7))));
    assert_eq!((info.kind, info.licence.as_deref()), (Some(Kind::Availability), Some("CC0")));
    assert_eq!(info.unused_columns, ["x"]);
}

#[test]
fn headers_that_mean_nothing_are_refused() {
    use TraceFault::*;
    assert_eq!(fault(""), (0, Empty));
    assert_eq!(fault("# only comments\n"), (0, Empty));
    assert_eq!(fault("time_s,rate_bps\n"), (0, Empty));
    assert_eq!(fault("rate_bps,loss\n1,1\n"), (1, NoColumn("time")));
    assert_eq!(fault("time_s,lat,lon\n1,1,1\n"), (1, NoColumn("rate, the delay, the loss or the CCQ")));
    assert_eq!(fault("time_s,rate_gbps\n"), (1, UnknownUnit("rate_gbps".into())));
    assert_eq!(fault("#\ntime,rate_bps\n"), (2, UnknownUnit("time".into())));
    assert_eq!(fault("time_s,rate\n"), (1, UnknownUnit("rate".into())));
    assert_eq!(fault("time_s,rate_bps,rate_kbps\n"), (1, TwoColumns("rate")));
    assert_eq!(fault("time_s,loss,ccq\n"), (1, TwoColumns("loss (CCQ is one)")));
    assert_eq!(fault(&format!("time_s{}\n", ",x".repeat(64))), (1, ManyColumns));
    // A mahimahi trace by mistake.
    assert_eq!(fault("0\n1\n"), (1, NoColumn("time")));
}

#[test]
fn rows_that_mean_nothing_are_refused() {
    use TraceFault::*;
    let row = |row: &str| fault(&format!("time_s,rate_mbps,loss\n0,1,0\n{row}\n"));
    let not_a_number = |text: &str| (3, NotANumber(text.into()));
    assert_eq!(row("-1,1,0"), not_a_number("-1"));
    assert_eq!(row("1,nan,0"), not_a_number("nan"));
    assert_eq!(row("1,1e6,0"), not_a_number("1e6"));
    assert_eq!(row("1,,0"), not_a_number(""));
    assert_eq!(row("1,\"2\",0"), not_a_number("\"2\""));
    assert_eq!(row("1,2"), (3, Fields { found: 2, expected: 3 }));
    assert_eq!(row("1,2,0,0"), (3, Fields { found: 4, expected: 3 }));
    assert_eq!(row(""), (3, EmptyLine));
    assert_eq!(row("0,1,0"), (3, TooClose));
    assert_eq!(row("0.000000999,1,0"), (3, TooClose));
    assert!(scan("time_s,loss\n0,1\n0.000001,1\n".as_bytes()).is_ok());
    assert_eq!(row("2,1,0\n1,1,0"), (4, GoesBack));
    assert_eq!(row("1,1,20"), (3, NotAShare { column: "loss", text: "20".into(), bound: "the whole" }));
    assert!(matches!(row("1,1000001,0"), (3, TooLarge { column: "rate", .. })));
    assert!(matches!(row("1000000001,1,0"), (3, TooLarge { column: "time", .. })));
    assert!(matches!(row("99999999999999999999,1,0"), (3, TooLarge { column: "time", .. })));
    assert!(matches!(fault("time_s,delay_s\n0,600.000000001\n"), (2, TooLarge { column: "delay", .. })));
    assert_eq!(
        scan("time_s,ccq\n0,97\n".as_bytes()).unwrap_err().to_string(),
        "line 2: ccq of 97 is beyond the whole; a column in per cent is called ccq_percent"
    );
}

#[test]
fn a_link_that_never_carries_anything_is_refused() {
    assert_eq!(fault("time_s,rate_bps\n0,0\n1,0\n"), (0, TraceFault::NoCapacity));
    assert!(scan("time_s,loss\n0,1\n".as_bytes()).is_ok());
}

#[test]
fn it_can_be_read_again() {
    let mut trace = CsvTrace::open(Cursor::new("#\ntime_s,rate_bps\n0,1\n2,3\n")).unwrap();
    for _ in 0..3 {
        let rates: Vec<_> = std::iter::from_fn(|| trace.next_item().unwrap()).map(|sample| sample.rate_bps).collect();
        assert_eq!(rates, [Some(1), Some(3)]);
        trace.rewind().unwrap();
    }
}
