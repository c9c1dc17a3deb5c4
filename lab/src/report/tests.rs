//! The report of a small plan.

use super::*;
use crate::judge;
use crate::testing::{Folder, variants};

const PLAN: &str = r#"
title = "a <small> plan"
about = "about & so on"
lasts = "6 s"
repeats = 2
[[link]]
name = "lte"
both = { rate = "1 Mbit/s", delay = "20 ms", queue = { packets = 20 } }
[[contender]]
kind = "udp"
[[traffic]]
commands = { every = "100 ms" }
[[traffic]]
from = "air"
video = { rate = "2 Mbit/s" }
[[action]]
at = "2 s"
outage = { lasts = "500 ms" }
[[action]]
at = "4 s"
change = { up = { rate = "2 Mbit/s" } }
[[check]]
name = "fast"
metric = "udp.commands.down.latency_ms.p50"
max = 30
"#;

fn report(name: &str) -> (judge::Judgement, Folder) {
    let judgement = judge::run(variants(PLAN), None, &|_, _| {}).unwrap();
    let folder = Folder::new(&format!("report-{name}"));
    write(&judgement, folder.path()).unwrap();
    (judgement, folder)
}

#[test]
fn the_page_is_whole_and_fetches_nothing() {
    let (_, folder) = report("page");
    let html = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    for wanted in [
        "<h1>a &lt;small&gt; plan</h1>",
        "about &amp; so on",
        "All 1 checks hold.",
        "Rate against capacity",
        "Latency over time",
        "Queues",
        "Recovery",
        "outage begins",
        "class=\"outage\"",
        "4 s:  the link changes",
        "never arrived",
        "</html>",
    ] {
        assert!(html.contains(wanted), "{wanted}");
    }
    for unwanted in ["src=", "href=", "url(", "@import", "NaN"] {
        assert!(!html.contains(unwanted), "{unwanted}");
    }
    let without_namespace = html.replace("http://www.w3.org/2000/svg", "");
    assert!(!without_namespace.contains("http"), "an address in the page");
    assert!(html.len() < 500_000, "{} bytes", html.len());
}

#[test]
fn the_data_beside_it_is_complete() {
    let (judgement, folder) = report("data");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let (json, messages, links, events) =
        (read("metrics.json"), read("messages.csv"), read("links.csv"), read("events.csv"));
    assert_eq!(json, format!("{}\n", serde_json::to_string(&judgement).unwrap()));
    let runs = &judgement.variants[0].runs;
    let sent: usize = runs.iter().flat_map(|run| &run.flows).map(|flow| flow.messages.len()).sum();
    assert_eq!(messages.lines().count(), sent + 1);
    assert!(
        messages
            .starts_with("variant,contender,seed,flow,direction,number,sent_s,arrived_s,bytes\n1,udp,1,commands,up,0,")
    );
    assert!(messages.lines().any(|line| line.contains(",,")), "some are lost");
    // Two repeats of two directions and 60 tenths of a second.
    assert_eq!(links.lines().count(), 2 * 2 * 60 + 1);
    assert_eq!(events.lines().filter(|line| line.ends_with(",outage begins")).count(), 2);
    let columns = links.lines().next().unwrap().split(',').count();
    assert!(links.lines().all(|line| line.split(',').count() == columns));
}

#[test]
fn commands_that_wait_for_each_other_have_a_table_and_plots_of_their_own() {
    let text = PLAN.replace(
        "commands = { every = \"100 ms\" }",
        "commands = { after = \"100 ms\", count = 9, with_data = \"50 B\" }\nexpected = { \"by equation 7\" = \"150 ms\" }",
    );
    let judgement = judge::run(variants(&text), None, &|_, _| {}).unwrap();
    let folder = Folder::new("report-loop");
    write(&judgement, folder.path()).unwrap();
    let html = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    let plots = ["Intervals and deadlines", "between two arrivals", "one after the other", "until all were through"];
    for wanted in plots.into_iter().chain(["by equation 7"]) {
        assert!(html.contains(wanted), "{wanted}");
    }
    assert!(!html.contains("NaN"));
}

#[test]
fn what_cannot_be_written_is_said_with_its_path() {
    let (judgement, folder) = report("error");
    let error = write(&judgement, &folder.path().join("metrics.json").join("below")).unwrap_err();
    assert!(error.to_string().contains("metrics.json"), "{error}");
}
