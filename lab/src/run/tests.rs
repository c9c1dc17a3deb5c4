use std::time::Duration;

use super::*;
use crate::metrics::{Metrics, check};
use crate::testing::plan;

const PLAN: &str = r#"
title = "commands beside video"
lasts = "30 s"
warm_up = "1 s"

[[link]]
name = "lte"
both = { rate = "4 Mbit/s", delay = "30 ms", queue = { bytes = "60 kB" } }

[[contender]]
kind = "aquila"

[[contender]]
kind = "udp"

[[traffic]]
commands = { every = "100 ms" }

[[traffic]]
from = "air"
video = { rate = "8 Mbit/s" }

[[action]]
at = "10 s"
outage = { lasts = "2 s" }

[[check]]
name = "bounded latency"
metric = "aquila.commands.up.latency_ms.p50"
max = 47.5

[[check]]
name = "and better"
metric = "aquila.commands.up.latency_ms.p50"
over = "udp.commands.up.latency_ms.p50"
max = 0.5

[[check]]
name = "quick recovery"
metric = "aquila.commands.down.recovery_ms.max"
max = 80
"#;

fn all(plan: &Plan) -> Vec<Run> {
    plan.contenders.iter().map(|contender| run(plan, contender.get_ref(), plan.seed).unwrap()).collect()
}

#[test]
fn a_plan_runs_and_its_checks_hold() {
    let plan = plan(PLAN);
    let runs = all(&plan);
    let metrics = Metrics::of(&plan, &runs);
    let outcomes = check(&plan.checks.iter().map(|check| check.get_ref()).collect::<Vec<_>>(), &metrics);
    assert!(outcomes.iter().all(|outcome| outcome.pass), "{outcomes:#?}\n{metrics:#?}");
    assert_eq!(metrics.get("aquila.commands.up.lost_share"), Some(0.0));
    assert_eq!(metrics.get("aquila.commands.up.sent"), Some(280.0));
    // Datagrams stand in a full queue of 60 kB, and more than half of the video is dropped.
    assert!(metrics.get("udp.commands.up.latency_ms.p50").unwrap() > 100.0);
    assert!(metrics.get("udp.commands.up.lost_share").unwrap() > 0.05);
    assert!(metrics.get("aquila.link_lte.up.use").unwrap() > 0.85);
}

#[test]
fn the_same_seed_gives_the_same_log() {
    let text = PLAN.replace("delay = \"30 ms\"", "delay = \"30 ms\", loss = 0.02");
    let plan = plan(&text);
    for contender in &plan.contenders {
        let contender = contender.get_ref();
        let hash = |seed| run(&plan, contender, seed).unwrap().log_hash;
        assert_eq!(hash(1), hash(1), "{}", contender.name());
        assert_ne!(hash(1), hash(2), "{}", contender.name());
    }
}

/// Pinned, so that a log differs neither between builds nor between machines.
#[test]
fn the_log_of_the_reference_plan_is_what_it_was() {
    let plan = plan(PLAN);
    let hashes: Vec<String> = all(&plan).into_iter().map(|run| run.log_hash).collect();
    assert_eq!(hashes[1], "e2b655678b9a7802", "raw UDP: only the emulator can have changed it");
}

#[test]
fn a_frame_that_waits_for_its_turn_is_as_old_as_it_is() {
    let video =
        r#"{ rate = "8 Mbit/s", least = "200 kbit/s", follow = true, asks = true, variation = 0.8, response = 0.2 }"#;
    let plan = plan(&PLAN.replace(r#"{ rate = "8 Mbit/s" }"#, video));
    let run = run(&plan, plan.contenders[0].get_ref(), 1).unwrap();
    let flow = run.flows.iter().find(|flow| flow.name == "video").unwrap();
    let captured = flow.messages.iter().map(|frame| frame.sent).chain(flow.skipped.iter().copied());
    let captured: Vec<Duration> = captured.collect::<std::collections::BTreeSet<_>>().into_iter().collect();
    assert!(flow.skipped.len() > 20, "{}", flow.skipped.len());
    assert!((898..=900).contains(&captured.len()), "{}", captured.len());
    let apart = captured.windows(2).map(|pair| pair[1] - pair[0]);
    apart.for_each(|apart| {
        assert!(apart.abs_diff(Duration::from_nanos(33_333_333)) < Duration::from_micros(1), "{apart:?}")
    });
}

/// Pictures that were left out, and those of the others that did not come, of a camera that does not ask, over an outage of 2 s.
fn over_an_outage(told: &str) -> (usize, usize) {
    let video = format!(r#"{{ rate = "2 Mbit/s", least = "200 kbit/s", follow = true, told = "{told}" }}"#);
    let plan = plan(&PLAN.replace(r#"{ rate = "8 Mbit/s" }"#, &video));
    let run = run(&plan, plan.contenders[0].get_ref(), 1).unwrap();
    let flow = run.flows.iter().find(|flow| flow.name == "video").unwrap();
    (flow.skipped.len(), flow.messages.iter().filter(|frame| frame.arrived.is_none()).count())
}

#[test]
fn a_camera_that_is_told_to_pause_leaves_pictures_out_that_others_lose() {
    let [rates, pauses, seldom] = ["rates", "pauses", "seldom"].map(over_an_outage);
    // 2 s but for the time until it is noticed, and what passes until the link is up.
    assert!((55..=70).contains(&pauses.0) && pauses.1 < 10, "{pauses:?}");
    assert!(rates.0 == 0 && seldom.0 == 0, "{rates:?}, {seldom:?}");
    assert!(rates.1 > 50 && seldom.1 > 50, "{rates:?}, {seldom:?}");
}

#[test]
fn company_shares_the_link_from_when_it_comes() {
    let text = PLAN.replace(
        "kind = \"udp\"",
        "kind = \"udp\"\nbeside = [{ kind = \"tcp\", at = \"15 s\" }, { kind = \"aquila\" }]",
    );
    // Raw UDP leaves the others room.
    let text = text.replace("8 Mbit/s", "1 Mbit/s");
    let plan = plan(&text);
    let contender = plan.contenders[1].get_ref();
    let run = || run(&plan, contender, 1).unwrap();
    let (first, second) = (run(), run());
    assert_eq!(first.log_hash, second.log_hash);
    let metrics = Metrics::of(&plan, std::slice::from_ref(&first));
    let figure = |name: &str| metrics.get(&format!("udp.{name}")).unwrap();
    let shares = ["udp", "tcp", "aquila"].map(|name| figure(&format!("link_lte.up.share.{name}")));
    assert!(shares.iter().all(|share| *share > 0.05), "{shares:?}");
    assert!((shares.iter().sum::<f64>() - figure("link_lte.up.use")).abs() < 1e-3, "{shares:?}");
    assert_eq!([figure("aquila-commands.up.sent"), figure("commands.up.sent")], [280.0; 2]);
    assert_eq!(figure("aquila-commands.up.lost_share"), 0.0);
    // Nobody has heard of the transfer before it began.
    let of_tcp = first.links[0].shares[1].delivered.iter().position(|bytes| *bytes > 0);
    assert!(of_tcp.is_some_and(|tenth| (150..153).contains(&tenth)), "{of_tcp:?}");
    assert!(first.events.iter().any(|event| event.text == "aquila: connected"));
}

const LOOP: &str = r#"
title = "one after the other"
lasts = "60 s"
link = [
  { name = "a", both = { rate = "20 Mbit/s", delay = "10 ms" } },
  { name = "b", both = { rate = "20 Mbit/s", delay = "10 ms" } },
]
contender = [
  { kind = "udp", give_up = "1 s" },
  { kind = "udp", name = "both", duplicate = true, give_up = "1 s" },
  { kind = "udp", name = "retry", duplicate = true, retry = "30 ms" },
  { kind = "udp", name = "twice", duplicate = true, copies = 2, retry = "30 ms" },
  { kind = "tcp", duplicate = true },
  { kind = "aquila" },
]
traffic = [{ from = "ground", at = "2 s", commands = { after = "500 ms", count = 20, with_data = "1000 B" }, deadline = "25 ms" }]
action = [{ at = "1 s", change = { both = { loss = 0.284 } } }]
"#;

#[test]
fn without_loss_a_closed_loop_takes_the_pauses_and_the_way() {
    let plan = plan(&LOOP.replace("0.284", "0"));
    let runs = all(&plan);
    let metrics = Metrics::of(&plan, &runs);
    for run in &runs {
        let figure = |name: &str| metrics.get(&format!("{}.commands.down.{name}", run.contender)).unwrap();
        assert_eq!([figure("sent"), figure("delivered"), figure("twice")], [20.0, 20.0, 0.0], "{}", run.contender);
        assert_eq!([figure("delivered_share"), figure("late_share"), figure("completion_s.censored")], [1.0, 0.0, 0.0]);
        assert!((figure("inter_arrival_s.mean") - 0.51).abs() < 0.001 && figure("inter_arrival_s.std") < 0.001);
        assert!((figure("completion_s.mean") - 20.0 * 0.51).abs() < 0.01, "{}", figure("completion_s.mean"));
        let data = |name: &str| metrics.get(&format!("{}.commands-data.down.{name}", run.contender));
        assert_eq!([data("sent"), data("delivered"), data("inter_arrival_s.mean")], [Some(20.0), Some(20.0), None]);
        // Nothing comes after the last, so the run is over.
        assert!((12.5..14.0).contains(&run.seconds), "{}", run.seconds);
    }
}

#[test]
fn with_loss_who_repeats_delivers_all_and_the_loop_waits_for_it() {
    let plan = plan(LOOP);
    let runs: Vec<Run> =
        plan.contenders.iter().flat_map(|c| (1..=10).map(|seed| run(&plan, c.get_ref(), seed).unwrap())).collect();
    let metrics = Metrics::of(&plan, &runs);
    let figure = |name: &str| metrics.get(name).unwrap_or_else(|| panic!("{name}"));
    let lost = |name: &str| 1.0 - figure(&format!("{name}.commands.down.delivered_share"));
    assert!((0.2..0.37).contains(&lost("udp")) && (0.03..0.14).contains(&lost("both")), "{metrics:#?}");
    assert_eq!([lost("retry"), lost("twice"), lost("aquila")], [0.0; 3]);
    assert_eq!(figure("aquila.commands-data.down.lost_share"), 0.0, "telemetry is repeated too");
    // What is late has waited for its repetition, 30 ms: as many as both links lose, or four copies.
    assert!((0.03..0.14).contains(&figure("retry.commands.down.late_share")));
    assert!(figure("twice.commands.down.late_share") < 0.03);
    assert_eq!(figure("retry.commands.down.twice"), 0.0, "copies are dropped");
    let gap = figure("both.commands.down.inter_arrival_s.max");
    assert!((1.5..9.0).contains(&gap), "given up after a second: {gap}");
    assert!(figure("tcp.commands.down.inter_arrival_s.mean") > figure("retry.commands.down.inter_arrival_s.mean"));
    let contender = plan.contenders[2].get_ref();
    let hash = |seed| run(&plan, contender, seed).unwrap().log_hash;
    assert!(hash(1) == hash(1) && hash(1) != hash(2));
}

#[test]
fn who_waits_for_what_never_comes_is_censored() {
    let text = LOOP.replace("kind = \"udp\", give_up = \"1 s\"", "kind = \"udp\"");
    let plan = plan(&text);
    let run = run(&plan, plan.contenders[0].get_ref(), 1).unwrap();
    let metrics = Metrics::of(&plan, std::slice::from_ref(&run));
    let figure = |name: &str| metrics.get(&format!("udp.commands.down.{name}")).unwrap();
    assert!(figure("delivered_share") < 1.0 && figure("sent") < 20.0);
    assert_eq!(figure("completion_s.censored"), 1.0);
    assert_eq!(run.seconds, 60.0);
}
