use super::*;
use crate::metrics::Metrics;
use crate::run::{origin, run};
use crate::testing::{Folder, plan};

fn with(link: &str, rest: &str) -> Plan {
    plan(&format!(
        r#"
        title = "a link that somebody knows"
        lasts = "20 s"
        warm_up = "2 s"
        {link}
        {rest}
        [[contender]]
        name = "exact"
        kind = "aquila"
        controller = "oracle"
        [[contender]]
        name = "late"
        kind = "aquila"
        controller = "late-oracle"
        [[traffic]]
        commands = {{ every = "100 ms" }}
        [[traffic]]
        from = "air"
        video = {{ rate = "10 Mbit/s", least = "200 kbit/s", follow = true, asks = true, variation = 0.3, response = 0.2 }}
        "#
    ))
}

const STEADY: &str = r#"
[[link]]
name = "lte"
both = { rate = "3 Mbit/s", delay = "20 ms", queue = { bytes = "150 kB" } }
"#;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_curve_is_what_the_link_carries_at_a_rate_through_its_changes_and_outages() {
    let actions = r#"
        [[action]]
        at = "5 s"
        change = { up = { rate = "1 Mbit/s" } }
        [[action]]
        at = "8 s"
        outage = { lasts = "1 s" }
        [[action]]
        at = "10 s"
        outage = { lasts = "500 ms", packets = "hold" }
    "#;
    let start = origin();
    let curve = Curve::of(&with(STEADY, actions), 1, start).unwrap();
    let near = |value: f64, expected: f64| assert!((value - expected).abs() < 260.0, "{value}, not {expected}");
    near(curve.carried(start + ms(1000), start + ms(2000)), 375_000.0);
    near(curve.carried(start + ms(4800), start + ms(5200)), 75_000.0 + 25_000.0);
    near(curve.worked(start + ms(8000), start + ms(9000)), 125_000.0);
    near(curve.carried(start + ms(8000), start + ms(9000)), 0.0);
    near(curve.worked(start + ms(10_000), start + ms(11_000)), 62_500.0);
    assert!(curve.carried(start + ms(20_000), start + ms(20_500)) > 62_000.0, "frames look beyond the end of the run");
}

#[test]
fn a_curve_of_a_trace_has_its_opportunities_at_their_times() {
    let folder = Folder::new("oracle-trace");
    folder.file("two.up", "100\n100\n250\n");
    let link = r#"
        [[link]]
        name = "lte"
        up = { trace = "two.up", delay = "20 ms" }
        down = { rate = "1 Mbit/s", delay = "20 ms" }
    "#;
    let mut plan = with(link, "");
    plan.folder = folder.path().to_owned();
    let start = origin();
    let curve = Curve::of(&plan, 1, start).unwrap();
    let carried = |from, to| curve.carried(start + ms(from), start + ms(to));
    assert_eq!((carried(0, 99), carried(99, 100), carried(100, 249), carried(249, 251)), (0.0, 3000.0, 0.0, 1500.0));
    assert_eq!(carried(0, 1000), 4.0 * 4500.0);
}

#[test]
fn a_queue_follows_from_what_was_pushed_and_its_future_from_what_is_expected() {
    let start = origin();
    let truth = Truth::of(&with(STEADY, ""), 1, start).unwrap();
    truth.on_pushed(start + ms(1000), 10_000);
    truth.on_pushed(start + ms(1010), 10_000);
    let mut state = truth.state();
    state.settle(start + ms(1005));
    assert!((state.queue - (10_000.0 - 1875.0)).abs() < 260.0, "{}", state.queue);
    let expected = state.queue - 5.0 * 100.0 + 10_000.0 - 10.0 * 100.0;
    assert!((state.predict(start + ms(1020), 100_000.0) - expected).abs() < 1.0);
    state.settle(start + ms(2000));
    assert_eq!(state.queue, 0.0);
}

#[test]
fn yardsticks_fill_what_they_mean_to_of_a_steady_link_and_nothing_waits() {
    for rate in ["500 kbit/s", "1 Mbit/s", "3 Mbit/s", "10 Mbit/s"] {
        let plan = with(&STEADY.replace("3 Mbit/s", rate), "");
        let runs: Vec<_> = plan.contenders.iter().map(|one| run(&plan, one.get_ref(), 1).unwrap()).collect();
        let metrics = Metrics::of(&plan, &runs);
        for (name, share) in [("exact", EXACT_SHARE), ("late", LATE_SHARE)] {
            let of = |metric: &str| metrics.get(&format!("{name}.{metric}")).unwrap();
            let used = of("link_lte.up.use");
            assert!((used - share).abs() < 0.011, "{name}, {rate}: {used}");
            // A frame takes its share of an interval of 33 ms to go out.
            assert!(of("video.up.shown_over_propagation_ms.max") < 34.0, "{name}, {rate}");
            assert_eq!((of("video.up.shown_share"), of("video.up.skipped")), (1.0, 0.0), "{name}, {rate}");
        }
    }
}

#[test]
fn one_that_knows_of_an_outage_sends_nothing_into_it_and_one_that_is_late_stops_soon() {
    let plan = with(STEADY, "[[action]]\nat = \"5 s\"\noutage = { lasts = \"500 ms\" }");
    let runs: Vec<_> = plan.contenders.iter().map(|one| run(&plan, one.get_ref(), 1).unwrap()).collect();
    let lost = |n: usize| {
        let flow = runs[n].flow("video", 0).unwrap();
        flow.messages.iter().filter(|frame| frame.arrived.is_none()).count()
    };
    assert!(lost(0) <= 1, "{}", lost(0));
    assert!((1..=5).contains(&lost(1)), "{}", lost(1));
}
