use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const PLAN: &str = r#"title = "An example"
lasts = "10 s"
seed = 7

[[link]]
name = "lte"
up = { rate = "4 Mbit/s", delay = "30 ms", queue = { bytes = "60 kB" }, loss = 0.01 }
down = { delay = "30 ms", loss = { mean = 0.02, burst = 4 } }

[[contender]]
kind = "aquila"

[[contender]]
kind = "tcp"
name = "hybrid"

[[traffic]]
commands = { every = "100 ms" }

[[traffic]]
from = "air"
at = "1 s"
video = { rate = "8 Mbit/s" }

[[action]]
at = "5 s"
outage = { lasts = "2 s", link_event = true }

[[action]]
at = "8 s"
link = "lte"
change = { up = { rate = "1 Mbit/s" } }

[[check]]
name = "commands are quick"
metric = "aquila.commands.up.latency_ms.p99"
max = 47.5
"#;

fn read(text: &str) -> Result<Vec<(Variant, Plan)>, PlanError> {
    parse(Path::new("plans/example.toml"), text)
}

/// The error of the plan with `from` replaced by `to`.
fn error(from: &str, to: &str) -> String {
    assert!(PLAN.contains(from));
    read(&PLAN.replace(from, to)).unwrap_err().to_string()
}

#[test]
fn a_plan_is_read_as_it_is_written() {
    let mut plans = read(PLAN).unwrap();
    let (variant, plan) = plans.remove(0);
    assert_eq!((plans.len(), variant.describe().as_str()), (0, ""));
    assert_eq!((plan.duration(), plan.seed, plan.repeats_in(Mode::Live)), (Duration::from_secs(10), 7, 1));
    let [up, down] = plan.links[0].get_ref().paths();
    assert_eq!(up.queue.unwrap().bound(), Ok(Bound::Bytes(60_000)));
    assert_eq!((up.rate.unwrap().bps(), down.rate), (4_000_000, None));
    assert!(matches!(down.loss, Some(LossPlan::Bursts(bursts)) if bursts.burst == 4.0));
    assert_eq!(plan.contenders.iter().map(|c| c.get_ref().name()).collect::<Vec<_>>(), ["aquila", "hybrid"]);
    assert_eq!(plan.traffic.iter().map(|t| t.get_ref().name()).collect::<Vec<_>>(), ["commands", "video"]);
    assert!(matches!(plan.actions[0].get_ref().kind(), Ok(ActionKind::Outage(outage)) if outage.link_event));
    assert_eq!(plan.folder, Path::new("plans"));
}

#[test]
fn errors_name_the_file_the_line_and_the_reason() {
    for (from, to, line, reason) in [
        ("seed = 7", "sead = 7", 3, "unknown field `sead`"),
        ("\"4 Mbit/s\"", "\"4 Mbit\"", 7, "no unit of rate"),
        ("\"30 ms\", queue", "\"-30 ms\", queue", 7, "cannot be read"),
        ("loss = 0.01", "loss = 1.5", 7, "not a share"),
        ("bytes = \"60 kB\"", "bytes = \"60 kB\", packets = 9", 5, "bounded by one of"),
        ("name = \"lte\"\nup", "name = \"l t e\"\nup", 5, "cannot be the name of a link"),
        ("kind = \"tcp\"", "kind = \"tpc\"", 14, "unknown variant `tpc`"),
        ("from = \"air\"", "from = \"sea\"", 20, "no node 'sea'"),
        ("commands = {", "video = { rate = \"1 Mbit/s\" }\ncommands = {", 17, "traffic has one of"),
        ("link = \"lte\"", "link = \"5g\"", 29, "no link '5g'"),
        ("max = 47.5", "", 34, "neither max nor min"),
        ("lasts = \"10 s\"", "lasts = \"0 s\"", 1, "needs some time"),
        ("down = {", "down = { grants = \"0.5 ms\",", 5, "grants: from 1 ms to 10 s"),
        ("down = {", "down = { thinned = \"11 s\",", 5, "thinned: from 1 ms to 10 s"),
        ("seed = 7", "clocks = { sea = \"200 ppm\" }", 3, "clocks: there is no node 'sea'"),
        ("seed = 7", "clocks = { air = \"200\" }", 3, "'200' is no drift"),
        ("seed = 7", "clocks = { air = \"-2000 ppm\" }", 3, "too large"),
    ] {
        let error = error(from, to);
        assert!(error.starts_with(&format!("plans/example.toml:{line}: ")) && error.contains(reason), "{to}: {error}");
    }
    let error = load(Path::new("/nonexistent/plan.toml")).unwrap_err().to_string();
    assert!(error.starts_with("cannot read the plan /nonexistent/plan.toml"), "{error}");
}

#[test]
fn grants_and_clocks_are_read_and_who_knows_the_link_has_true_clocks() {
    let text = PLAN.replace("down = {", "down = { grants = \"25 ms\",");
    let text = text.replace("seed = 7", "clocks = { ground = \"-200 ppm\" }");
    let plan = read(&text).unwrap().remove(0).1;
    assert_eq!(plan.links[0].get_ref().paths()[1].grants, Some("25 ms".parse().unwrap()));
    assert_eq!([plan.drift(0), plan.drift(1)].map(Drift::ppb), [0, -200_000]);
    let oracle = text.replace("kind = \"aquila\"", "kind = \"aquila\"\ncontroller = \"oracle\"");
    assert!(read(&oracle).unwrap_err().to_string().contains("goes by the true time"));
}

#[test]
fn commands_that_wait_for_each_other_are_read_and_what_makes_no_sense_is_refused() {
    let with = |commands: &str| read(&PLAN.replace("{ every = \"100 ms\" }", commands));
    let plan =
        with("{ after = \"500 ms\", count = 120, with_data = \"1 kB\" }\ndeadline = \"100 ms\"").unwrap().remove(0).1;
    let traffic = plan.traffic[0].get_ref();
    let pace = traffic.commands.unwrap().pace();
    assert_eq!(pace, Ok(Pace::After { pause: Duration::from_millis(500), count: 120 }));
    assert_eq!((traffic.data(), traffic.deadline), (Some(("commands-data".into(), 1_000)), "100 ms".parse().ok()));
    assert!(plan.is_data("commands-data") && !plan.is_data("commands") && !plan.is_data("video"));
    assert!(plan.traffic_of("commands-data").is_some_and(|(traffic, _)| traffic.name() == "commands"));
    for (commands, reason) in [
        ("{ }", "every, or after and count"),
        ("{ every = \"1 s\", after = \"1 s\", count = 3 }", "every, or after and count"),
        ("{ every = \"1 s\", count = 3 }", "count is for after"),
        ("{ after = \"1 s\" }", "after needs a count"),
        ("{ after = \"1 s\", count = 0 }", "count is from 1"),
        ("{ after = \"1 s\", count = -1 }", "expected u32"),
        ("{ after = \"1 us\", count = 3 }", "after: at least 10 us"),
        ("{ every = \"1 us\" }", "every: at least 10 us"),
        ("{ every = \"1 s\", with_data = \"19 B\" }", "with_data is from 20"),
        (
            "{ every = \"1 s\", with_data = \"1 kB\" }\n[[traffic]]\nname = \"commands-data\"\nparameters = { every = \"1 s\" }",
            "other traffic needs another name",
        ),
        ("{ every = \"1 s\", with = \"1 kB\" }", "unknown field"),
        ("{ every = \"1 s\" }\nexpected = { x = \"1 s\" }", "wait for each other"),
        ("{ after = \"1 s\", count = 3 }\nexpected = { x = \"1 us\" }", "expected: x: at least"),
    ] {
        let error = with(commands).unwrap_err().to_string();
        assert!(error.starts_with("plans/example.toml:1") && error.contains(reason), "{commands}: {error}");
    }
}

#[test]
fn copies_and_retries_are_for_those_who_can() {
    let with = |kind: &str| read(&PLAN.replace("kind = \"tcp\"", kind));
    let plan =
        with("kind = \"udp\"\nduplicate = true\ncopies = 2\nretry = \"30 ms\"\ngive_up = \"1 s\"").unwrap().remove(0).1;
    assert_eq!(plan.give_up("hybrid"), Some(Duration::from_secs(1)));
    assert_eq!(plan.give_up("aquila"), None);
    for (kind, reason) in [
        ("kind = \"mptcp\"\nduplicate = true", "not for mptcp"),
        ("kind = \"tcp\"\nretry = \"30 ms\"", "copies and retry are for udp, not for tcp"),
        ("kind = \"udp\"\ncopies = 17", "copies: from 1 to 16"),
        ("kind = \"udp\"\nretry = \"0 ms\"", "retry: at least 1 ms"),
        ("kind = \"udp\"\ngive_up = \"0 s\"", "give_up: at least 1 ms"),
        ("kind = \"tcp\"\nbulk = true", "bulk: for aquila, not for tcp"),
        ("kind = \"tcp\"\nduplicate = true\nbeside = [{ kind = \"tcp\" }]", "not together with duplicate"),
    ] {
        let error = with(kind).unwrap_err().to_string();
        assert!(error.starts_with("plans/example.toml:13: ") && error.contains(reason), "{kind}: {error}");
    }
    let change = error("change = { up =", "change = { both = { loss = 0.1 }, up =");
    assert!(change.contains("both, or up and down"), "{change}");
}

#[test]
fn company_is_checked() {
    let with =
        |beside: &str| read(&PLAN.replace("name = \"hybrid\"", &format!("name = \"hybrid\"\nbeside = [{beside}]")));
    let plan = with("{ kind = \"aquila\", at = \"3 s\" }, { kind = \"tcp\", from = \"ground\" }").unwrap().remove(0).1;
    assert_eq!(plan.contenders[1].get_ref().beside.len(), 2);
    let (traffic, begins) = plan.traffic_of("aquila-video").unwrap();
    assert_eq!((traffic.name(), begins.get()), ("video", Duration::from_secs(3)));
    assert!(plan.traffic_of("tcp-video").is_none() && plan.traffic_of("video").is_some());
    for (beside, reason) in [
        ("{ kind = \"udp\" }", "beside: aquila, tcp or tcp-reno"),
        ("{ kind = \"tcp\", name = \"hybrid\" }", "different from each other and the contender's: 'hybrid'"),
        ("{ kind = \"tcp\" }, { kind = \"tcp\" }", "different from each other and the contender's: 'tcp'"),
        ("{ kind = \"tcp\", name = \"a.b\" }", "without dots"),
        ("{ kind = \"tcp\", at = \"10 s\" }", "over by then"),
        ("{ kind = \"tcp\", from = \"sea\" }", "no node 'sea'"),
        ("{ kind = \"aquila\", from = \"air\" }", "from is for a transfer"),
        ("{ kind = \"tcp\", until = \"9 s\" }", "unknown field"),
    ] {
        let error = with(beside).unwrap_err().to_string();
        assert!(error.starts_with("plans/example.toml:16: ") && error.contains(reason), "{beside}: {error}");
    }
    let alone = PLAN.replace("kind = \"tcp\"", "kind = \"mptcp\"\nbeside = [{ kind = \"tcp\" }]");
    assert!(read(&alone).unwrap_err().to_string().contains("hybrid is alone on the link"));
}

#[test]
fn programs_are_checked_before_anything_runs() {
    let with = |program: &str| read(&format!("{PLAN}\n{program}\n"));
    let process = "[[process]]\nnode = \"air\"\nrun = \"/usr/bin/iperf -s\"";
    let plan = with(process).unwrap().remove(0).1;
    let program = plan.processes[0].get_ref();
    assert_eq!((program.name(), program.is_beside("hybrid"), plan.has_programs()), ("iperf", true, true));
    assert_eq!(program.command().get_program(), "/bin/sh");
    for (program, reason) in [
        (process.replace("air", "sea"), "no node 'sea'"),
        (process.replace("/usr/bin/iperf -s", " "), "nothing to run"),
        (process.replace("\"/usr/bin/iperf -s\"", "[]"), "nothing to run"),
        (process.replace("\"/usr/bin/iperf -s\"", "3"), "a line for the shell"),
        (format!("{process}\nname = \"a/b\""), "no '/'"),
        (format!("{process}\nat = \"10 s\""), "over by then"),
        (format!("{process}\ncontenders = [\"srt\"]"), "none called 'srt'"),
        (format!("{}\nservice = true", process.replace("process", "set_up")), "are for a [[process]]"),
        ("[[traffic]]\nname = \"x\"\nlink = \"lte\"\ncommands = { every = \"1 s\" }".into(), "is for datagrams"),
        ("[[traffic]]\nlink = \"5g\"\ndatagrams = { rate = \"1 Mbit/s\", packet = \"1 kB\" }".into(), "no link '5g'"),
        ("[[traffic]]\ndatagrams = { rate = \"1 Mbit/s\", packet = \"19 B\" }".into(), "from 20 to 65000"),
    ] {
        let error = with(&program).unwrap_err().to_string();
        assert!(error.contains(reason), "{program}: {error}");
    }
}

#[test]
fn a_check_of_a_variant_that_there_is_not_is_refused() {
    let queues = "\n[[sweep]]\nkey = \"link.0.up.queue\"\nvalues = [{ bytes = \"9 kB\" }, { bytes = \"9 kB\", mark_after = \"5 ms\" }]\n";
    let marks = "link.0.up.queue = { bytes = \"9 kB\", mark_after = \"5 ms\" }";
    let checked = |when: &str| {
        let text = PLAN.replace("max = 47.5", &format!("max = 47.5\nwhen = '{when}'"));
        Ok::<_, PlanError>(read(&format!("{text}{queues}"))?.iter().filter(|(variant, _)| variant.has(when)).count())
    };
    assert_eq!(checked(marks).unwrap(), 1);
    for when in ["link.0.up.queue = { bytes = \"9 kB\"", "link.0.up.queue = 9"] {
        let error = checked(when).unwrap_err().to_string();
        assert!(error.contains("plans/example.toml:") && error.contains("when: no variant has"), "{error}");
    }
    assert!(read(&PLAN.replace("max = 47.5", "max = 47.5\nwhen = 'seed = 7'")).is_err(), "nothing is swept");
}

#[test]
fn sweeps_make_variants_and_each_is_checked() {
    let sweep = "\n[[sweep]]\nkey = \"link.0.up.delay\"\nvalues = [\"10 ms\", \"60 ms\"]\n\n[[sweep]]\nkey = \"seed\"\nvalues = [1, 2, 3]\n";
    let plans = read(&format!("{PLAN}{sweep}")).unwrap();
    let described: Vec<_> = plans.iter().map(|(variant, _)| variant.describe()).collect();
    assert_eq!((described.len(), described[4].as_str()), (6, "link.0.up.delay = 60 ms, seed = 2"));
    assert_eq!(plans[4].1.seed, 2);
    assert_eq!(plans[4].1.links[0].get_ref().paths()[0].delay.get(), Duration::from_millis(60));
    let broken = format!("{PLAN}{}", sweep.replace("\"60 ms\"", "\"60 m\""));
    assert!(read(&broken).unwrap_err().to_string().contains("with link.0.up.delay = 60 m"));
    let missing = format!("{PLAN}{}", sweep.replace("link.0.up", "link.3.up"));
    assert!(read(&missing).unwrap_err().to_string().contains("no 'link.3.up.delay'"));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[ -~\n]{0,200}") {
        let _ = read(&text);
    }

    #[test]
    fn a_damaged_plan_is_read_or_refused(at in 0..PLAN.len(), len in 0usize..40, with in "[ -~\n]{0,10}") {
        let end = (at + len).min(PLAN.len());
        let _ = read(&format!("{}{with}{}", &PLAN[..at], &PLAN[end..]));
    }
}

#[test]
fn of_chosen_contenders_only_their_own_checks_are_left() {
    let mut text = PLAN.to_owned();
    let check = |name: &str, rest: &str| format!("[[check]]\nname = \"{name}\"\nmax = 1\n{rest}\n");
    text += &check("ours", "metric = \"aquila.commands.up.lost_share\"");
    text += &check("theirs", "metric = \"hybrid.commands.up.lost_share\"");
    text += &check("both", "metric = \"aquila.commands.up.lost_share\"\nover = \"hybrid.commands.up.lost_share\"");
    let (_, mut plan) = read(&text).unwrap().remove(0);
    let names = |plan: &Plan| plan.checks.iter().map(|check| check.get_ref().name.clone()).collect::<Vec<_>>();
    let all = names(&plan).len();
    plan.run_only(&[]).unwrap();
    assert_eq!((names(&plan).len(), plan.contenders.len()), (all, 2));
    assert_eq!(plan.run_only(&["nobody".to_owned()]), Err("nobody".to_owned()));
    plan.run_only(&["aquila".to_owned()]).unwrap();
    assert_eq!(plan.contenders.len(), 1);
    assert!(names(&plan).contains(&"ours".to_owned()));
    assert!(!names(&plan).iter().any(|name| name == "theirs" || name == "both"));
}
