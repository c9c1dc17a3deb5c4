//! Plans, as `aquila lab live` runs them; all but those that need the program itself, which the live suite has.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use aquila_lab::live::Sandbox;
use aquila_lab::plan::{CapturePlan, Plan, parse};
use aquila_lab::record::Run;
use aquila_lab::run_live::{Places, is_possible, run};

use super::harness::inconclusive;
use super::programs::Folder;

fn plan(text: &str) -> Plan {
    parse(Path::new("test.toml"), text).unwrap_or_else(|error| panic!("{error}")).remove(0).1
}

fn run_one(sandbox: &Sandbox, plan: &Plan, contender: usize, folder: &Path) -> Run {
    let places = Places { binary: PathBuf::from("/nonexistent"), folder: folder.to_owned(), onlooker: None };
    let contender = plan.contenders[contender].get_ref();
    run(plan, contender, 1, sandbox, &places, &AtomicBool::new(false), None).unwrap_or_else(|error| panic!("{error}"))
}

const PROGRAMS: &str = r#"
    title = "programs"
    lasts = "2 s"
    cool_down = "100 ms"
    link = [{ name = "lte", both = { rate = "4 Mbit/s", delay = "10 ms" } }]
    contender = [{ kind = "programs" }, { kind = "udp" }]
    set_up = [{ node = "ground", run = "echo ready > $AQUILA_LOGS/ready" }]
    process = [
        { node = "ground", name = "listener", service = true, run = "exec sleep 60" },
        { node = "air", run = ["env"], at = "200 ms", contenders = ["programs"] },
        { node = "air", name = "fails", run = "echo it was to be; exit 3", contenders = ["udp"] },
    ]
    tear_down = [{ node = "air", run = "cat $AQUILA_LOGS/ready" }]
    traffic = [{ from = "air", datagrams = { rate = "400 kbit/s", packet = "500 B" } }]
"#;

pub fn the_programs_of_a_plan_run_and_are_told_of(sandbox: &Sandbox) {
    let folder = Folder::new("plan-programs");
    let plan = plan(PROGRAMS);
    let run = run_one(sandbox, &plan, 0, &folder.0);
    let of = |name: &str| run.programs.iter().find(|program| program.name == name).unwrap_or_else(|| panic!("{name}"));
    assert_eq!((of("listener").exit_code, of("env").exit_code, of("cat").exit_code), (None, Some(0), Some(0)));
    assert_eq!((of("echo").stage, of("env").stage, of("cat").stage), ("set-up", "process", "tear-down"));
    let said = std::fs::read_to_string(&of("env").log).unwrap();
    assert!(said.contains("AQUILA_LTE_THERE=10.77.0.2") && said.contains("AQUILA_START_NS="), "{said}");
    assert_eq!(std::fs::read_to_string(&of("cat").log).unwrap(), "ready\n");
    let datagrams = run.flow("datagrams", 0).unwrap();
    assert!(datagrams.messages.len() > 150 && datagrams.messages.iter().all(|message| message.times == 1));
}

pub fn a_program_that_fails_makes_a_run_invalid(sandbox: &Sandbox) {
    let folder = Folder::new("plan-fails");
    let run = run_one(sandbox, &plan(PROGRAMS), 1, &folder.0);
    let reason = run.invalid.expect("it does not count");
    assert!(
        reason.contains("'fails'") && reason.contains("exit code 3") && reason.contains("it was to be"),
        "{reason}"
    );
}

/// A connection is made again after an outage with a new address, by TLS with a ticket and without.
pub fn tls_comes_back_as_the_model_does(sandbox: &Sandbox) {
    let text = r#"
        title = "tls"
        lasts = "4 s"
        warm_up = "200 ms"
        link = [{ name = "lte", both = { rate = "10 Mbit/s", delay = "20 ms", queue = { bytes = "60 kB" } } }]
        contender = [
            { kind = "tls", name = "full", reconnect = "fresh" },
            { kind = "tls", name = "resumed", reconnect = "resume" },
            { kind = "tcp", reconnect = "fresh" },
        ]
        traffic = [{ commands = { every = "100 ms" } }]
        action = [{ at = "1 s", every = "1 s", outage = { lasts = "300 ms", new_address = true, reconnect = true } }]
    "#;
    let plan = plan(text);
    for contender in 0..plan.contenders.len() {
        let name = plan.contenders[contender].get_ref().name().to_owned();
        let folder = Folder::new("plan-tls");
        let real = run_one(sandbox, &plan, contender, &folder.0);
        let model = aquila_lab::run::run(&plan, plan.contenders[contender].get_ref(), 1).unwrap();
        if let Some(reason) = &real.invalid {
            inconclusive(reason);
        }
        for direction in 0..2 {
            let of = |run: &Run| aquila_lab::metrics::recoveries("commands", direction, &[run]);
            let (real, model) = (of(&real), of(&model));
            eprintln!("{name} {direction}: {real:?}, the model {model:?}");
            assert_eq!((real.len(), model.len()), (3, 3), "{name}");
            for (real, model) in real.iter().zip(&model) {
                if real.abs_diff(*model).as_millis() > 10 {
                    inconclusive(&format!("{name}: {real:?} instead of {model:?}"));
                }
            }
        }
    }
}

/// With one of its two links gone MPTCP goes on over the other.
pub fn mptcp_goes_on_over_another_link(sandbox: &Sandbox) {
    let text = r#"
        title = "mptcp"
        lasts = "6 s"
        link = [
            { name = "a", both = { rate = "10 Mbit/s", delay = "10 ms" } },
            { name = "b", both = { rate = "10 Mbit/s", delay = "30 ms" } },
        ]
        contender = [{ kind = "mptcp" }]
        traffic = [{ commands = { every = "50 ms" } }]
        action = [{ at = "2 s", link = "a", outage = { lasts = "3 s" } }]
    "#;
    let plan = plan(text);
    if let Err(reason) = is_possible(&plan, plan.contenders[0].get_ref()) {
        println!("skipped: {reason}");
        return;
    }
    let folder = Folder::new("plan-mptcp");
    let run = run_one(sandbox, &plan, 0, &folder.0);
    let commands = run.flow("commands", 0).unwrap();
    let within = |message: &&aquila_lab::record::Message| {
        message.arrived.is_some_and(|at| at.as_secs_f64() > 3.5 && at.as_secs_f64() < 4.9)
    };
    let meanwhile = commands.messages.iter().filter(within).count();
    assert!(meanwhile > 10, "only {meanwhile} commands while a link was out");
}

/// Commands that wait for each other: all arrive, once, by whatever they are doubled, and the run ends when they have.
pub fn closed_loops_go_on_when_a_command_has_arrived(sandbox: &Sandbox) {
    let text = r#"
        title = "one after the other"
        lasts = "20 s"
        cool_down = "0 s"
        link = [
            { name = "a", both = { rate = "10 Mbit/s", delay = "10 ms" } },
            { name = "b", both = { rate = "10 Mbit/s", delay = "10 ms" } },
        ]
        contender = [
            { kind = "udp", duplicate = true, copies = 2, retry = "30 ms" },
            { kind = "udp", name = "one", give_up = "200 ms" },
            { kind = "tcp", duplicate = true },
        ]
        traffic = [{ from = "ground", commands = { after = "50 ms", count = 20, with_data = "1000 B" } }]
        action = [{ at = "0 s", change = { down = { loss = 0.1 } } }]
    "#;
    let plan = plan(text);
    for contender in 0..plan.contenders.len() {
        let folder = Folder::new("plan-loop");
        let run = run_one(sandbox, &plan, contender, &folder.0);
        if let Some(reason) = &run.invalid {
            inconclusive(reason);
        }
        let [commands, data] = ["commands", "commands-data"].map(|name| &run.flow(name, 1).unwrap().messages);
        assert_eq!([commands.len(), data.len()], [20; 2], "{}", run.contender);
        assert!(run.seconds < 19.0, "{} s", run.seconds);
        assert!(commands.iter().all(|message| message.times <= 1), "{}: {commands:?}", run.contender);
        let arrived = commands.iter().filter(|message| message.times == 1).count();
        let is_reliable = run.contender != "one";
        assert!(if is_reliable { arrived == 20 } else { arrived > 10 }, "{}: {arrived}", run.contender);
        for pair in commands.windows(2) {
            let due = pair[0].arrived.map(|at| at + Duration::from_millis(50));
            let due = due.unwrap_or(pair[0].sent + Duration::from_millis(200));
            assert!(pair[1].sent >= due, "{}: {pair:?}", run.contender);
        }
    }
}

/// Each link carries its own datagrams, and a capture has what it lost.
pub fn captures_say_what_became_of_packets(sandbox: &Sandbox) {
    let text = r#"
        title = "captured"
        lasts = "2 s"
        cool_down = "500 ms"
        link = [
            { name = "a", both = { rate = "1 Mbit/s", delay = "5 ms", queue = { packets = 5 } } },
            { name = "b", both = { delay = "50 ms" } },
        ]
        contender = [{ kind = "udp" }]
        traffic = [
            { name = "too-much", from = "air", datagrams = { rate = "2 Mbit/s", packet = "500 B" } },
            { name = "slow", link = "b", datagrams = { rate = "100 kbit/s", packet = "100 B" } },
        ]
    "#;
    let mut plan = plan(text);
    let folder = Folder::new("plan-capture");
    plan.capture = Some(CapturePlan { directory: folder.0.join("pcap"), seed: 1 });
    let run = run_one(sandbox, &plan, 0, &folder.0);
    if let Some(reason) = &run.invalid {
        inconclusive(reason);
    }
    let slow = run.flow("slow", 1).unwrap();
    let late = slow.messages.iter().filter_map(|message| Some(message.arrived? - message.sent));
    assert!(late.clone().count() > 200 && late.min().unwrap().as_millis() >= 50);
    let ground = std::fs::read(folder.0.join("pcap/udp-1-ground.pcapng")).unwrap();
    let has = |text: &str| ground.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("dropped: the queue was full") && has("a (dropped)"));
    let rows = &run.links[0].samples;
    let is_whole = |rate: f64| (rate - 1e6).abs() < 1.0;
    assert!(rows.len() >= 19 && rows.iter().all(|row| row.capacity_bps.is_some_and(is_whole)), "{rows:?}");
}
