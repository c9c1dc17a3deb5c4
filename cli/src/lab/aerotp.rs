//! `aquila lab aerotp`.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::anyhow;
use aquila_lab::aerotp::limits::Limits;
use aquila_lab::aerotp::live::{self, LiveScheme};
use aquila_lab::aerotp::ours::Ours;
use aquila_lab::aerotp::peers::Congestion;
use aquila_lab::aerotp::suite::{self, Extent, Line, Long, Point, Report};
use aquila_lab::aerotp::targets::{self, Bound, Target};
use aquila_lab::aerotp::{self, Channel, Scheme, Task, plots, reference};
use aquila_lab::report::standalone;

use crate::Failure;
use crate::args::{AerotpPart, LabAerotpArgs};
use crate::plan::table::Table;

/// Runs what was asked for, draws it if asked to, and prints it.
pub fn run(args: &LabAerotpArgs, out: &mut Vec<u8>) -> Result<(), Failure> {
    if let Some(repeats) = args.live {
        return run_live(args, repeats, out);
    }
    if let Some(path) = &args.plot {
        crate::plan::check_name(path).map_err(Failure::Config)?;
    }
    let has = |part| args.only.is_empty() || args.only.contains(&part);
    let extent = Extent {
        set_up: has(AerotpPart::SetUp),
        quasi: has(AerotpPart::Quasi),
        modes: has(AerotpPart::Modes),
        long: if args.only.contains(&AerotpPart::Long) { MILLION } else { 0 },
        seeds: args.runs,
        set_up_seeds: args.runs * 50,
        first_seed: args.seed,
    };
    let is_terminal = io::stderr().is_terminal();
    let progress = |done: usize, of: usize| {
        if is_terminal && (of < 16 || done.is_multiple_of(16) || done == of) {
            eprint!("\r{done} of {of} runs{}", if done == of { "\r\x1b[K" } else { "" });
        }
    };
    let report = suite::run(&extent, &progress);
    let targets = targets::of(&report);
    if let Some(path) = &args.plot {
        let text = standalone::for_file(path, "aquila lab aerotp", &plots::plots(&report));
        std::fs::write(path, text)
            .map_err(|error| Failure::Runtime(anyhow!("cannot write {}: {error}", path.display())))?;
    }
    let written = match args.json {
        true => serde_json::to_writer(&mut *out, &serde_json::json!({ "report": report, "targets": targets }))
            .map_err(io::Error::from)
            .and_then(|()| writeln!(out)),
        false => write_all(out, &report, &targets, args.markdown),
    };
    written.map_err(|error| Failure::Runtime(error.into()))?;
    match targets.iter().filter(|target| !target.holds).count() {
        0 => Ok(()),
        short => Err(Failure::Runtime(anyhow!("{short} of {} figures fall short", targets.len()))),
    }
}

fn write_all(out: &mut Vec<u8>, report: &Report, targets: &[Target], markdown: bool) -> io::Result<()> {
    let put = |out: &mut Vec<u8>, title: &str, table: &Table| {
        writeln!(out, "{title}\n")?;
        if markdown { table.write_markdown(out) } else { table.write(out) }?;
        writeln!(out)
    };
    if !report.set_up.is_empty() {
        put(
            out,
            "Figure 12: to the first data, ms, mean and standard deviation; loss both ways",
            &set_up(&report.set_up),
        )?;
    }
    for (title, value) in FIGURES {
        if !report.quasi.is_empty() {
            put(out, &format!("Quasi-reliable, by words of parity: {title}"), &lines(&report.quasi, *value))?;
        }
    }
    if !report.modes.is_empty() {
        put(out, "Limits by formula, and TCP and UDP in ns-3, Mbit/s", &limits(&report.limits))?;
    }
    for (title, value) in FIGURES {
        if !report.modes.is_empty() {
            put(out, &format!("All modes, TCP and UDP: {title}"), &lines(&report.modes, *value))?;
        }
    }
    if !report.long.is_empty() {
        put(out, "Quasi-reliable at 1e-4, a long transfer, delivered in order", &long(&report.long))?;
    }
    put(out, "What is to be reached", &bounds(targets))
}

type Cell = fn(&Point) -> String;

/// Figures 13 to 16, which are 17 to 20 as well, and 21 to 24.
const FIGURES: &[(&str, Cell)] = &[
    ("goodput, Mbit/s, mean and standard deviation (figures 13, 17, 21)", |point| {
        format!("{:.3} ±{:.3}", point.goodput.mean, point.goodput.sd)
    }),
    ("from the first transmission to the delivery, ms, p50 / p95 (14, 18, 22)", |point| {
        format!("{} / {}", ms(point.since_sent.p50), ms(point.since_sent.p95))
    }),
    ("from the write to the delivery, ms, p50 / p95 (14, 18, 22)", |point| {
        format!("{} / {}", ms(point.since_written.p50), ms(point.since_written.p95))
    }),
    ("delivered, kB of 1000, mean and standard deviation (15, 19, 23)", |point| {
        format!("{:.1} ±{:.1}", point.delivered.mean * 1e3, point.delivered.sd * 1e3)
    }),
    ("overhead, bytes on the wire both ways for each delivered, less that (16, 20, 24)", |point| {
        point.overhead.map_or("-".into(), |overhead| format!("{:.3}", overhead.mean))
    }),
];

fn ms(value: f64) -> String {
    if value < 1000.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn lines(lines: &[Line], cell: Cell) -> Table {
    let rates: Vec<String> = lines[0].points.iter().map(|point| rate(point.bit_errors)).collect();
    let header: Vec<&str> = std::iter::once("").chain(rates.iter().map(String::as_str)).collect();
    let mut table = Table::new(&header);
    for line in lines {
        table.push(std::iter::once(line.name.clone()).chain(line.points.iter().map(cell)).collect());
    }
    table
}

fn rate(bit_errors: f64) -> String {
    if bit_errors == 0.0 { "0".into() } else { format!("{bit_errors:e}") }
}

fn set_up(lines: &[Line]) -> Table {
    let mut table = Table::new(&["", "0 %", "5 %", "10 %", "15 %", "20 %"]);
    for line in lines {
        let cells = line.points.iter().map(|point| format!("{} ±{}", ms(point.first.mean), ms(point.first.sd)));
        table.push(std::iter::once(line.name.clone()).chain(cells).collect());
    }
    let ns3 = reference::NS3_SET_UP.iter().map(|(_, value)| ms(*value));
    table.push(std::iter::once("TCP in ns-3".to_owned()).chain(ns3).collect());
    let [none, most] = reference::PAPER_SET_UP;
    for (name, values) in [("TCP in the paper", [none.1, most.1]), ("AeroTP in the paper", [none.2, most.2])] {
        let dash = || "-".to_owned();
        table.push(vec![name.into(), ms(values[0]), dash(), dash(), dash(), ms(values[1])]);
    }
    table
}

fn long(rows: &[Long]) -> Table {
    let mut table =
        Table::new(&["", "segments", "lost", "overhead", "of it parity and repairs", "ms, p50 / p95 / max since sent"]);
    for row in rows {
        let delay = row.since_sent;
        table.push(vec![
            row.name.clone(),
            row.segments.to_string(),
            row.lost.to_string(),
            format!("{:.2} %", row.overhead * 100.0),
            format!("{:.2} %", row.protection * 100.0),
            format!("{} / {} / {}", ms(delay.p50), ms(delay.p95), ms(delay.max)),
        ]);
    }
    table
}

fn limits(limits: &[Limits]) -> Table {
    let mut table = Table::new(&[
        "wrong bits",
        "packets hit",
        "repetition",
        "best length",
        "combining",
        "parity",
        "capacity",
        "NewReno",
        "CUBIC",
        "BBR",
        "UDP",
    ]);
    for row in limits {
        let mbps = |value: f64| format!("{:.3}", value / 1e6);
        let ns3 = reference::NS3.iter().find(|ns3| ns3.bit_errors == row.bit_errors);
        let peers = ns3.map_or_else(Vec::new, |ns3| vec![ns3.new_reno, ns3.cubic, ns3.bbr, ns3.udp]);
        let own = vec![
            rate(row.bit_errors),
            format!("{:.4}", row.packet_errors),
            mbps(row.arq),
            format!("{} ({} B)", mbps(row.arq_best_length), row.best_length),
            mbps(row.arq_combining),
            format!("{} ({} words)", mbps(row.arq_with_parity), row.best_words),
            mbps(row.capacity),
        ];
        table.push(own.into_iter().chain(peers.iter().map(|value| value.to_string())).collect());
    }
    table
}

fn bounds(targets: &[Target]) -> Table {
    let mut table = Table::new(&["", "bound", "measured", ""]);
    for target in targets {
        let bound = match target.bound {
            Bound::AtLeast(least) => format!("at least {least:.3}"),
            Bound::AtMost(most) => format!("at most {most:.3}"),
        };
        let verdict = if target.holds { "holds" } else { "FALLS SHORT" };
        table.push(vec![target.what.clone(), bound, format!("{:.3}", target.value), verdict.into()]);
    }
    table
}

/// Segments of a long transfer.
const MILLION: u64 = 1_000_000;
/// Bit error rates of live runs, and when one is given up.
const LIVE_ERRORS: [f64; 4] = [0.0, 1e-5, 3.5e-5, 1e-4];
const LIVE_LIMIT: Duration = Duration::from_secs(20);

/// A live contender, and what it is in virtual time if there is a model of it.
type Pair = (&'static str, LiveScheme, Option<Scheme>);

fn live_contenders() -> Vec<Pair> {
    let ours = |name, ours| (name, LiveScheme::Ours(ours), Some(Scheme::Ours(ours)));
    let udp = |name, checksum| (name, LiveScheme::Udp { checksum }, Some(Scheme::Udp { checksum }));
    vec![
        ours("reliable, no parity, 1500 bytes", Ours::PLAIN),
        ours("reliable, no parity, combining", Ours::COMBINING),
        ours("reliable", Ours::ADAPTIVE),
        ours("near-reliable", Ours::NEAR),
        ours("quasi-reliable", Ours::QUASI),
        udp("UDP", true),
        udp("UDP without checksum", false),
        ("TCP CUBIC", LiveScheme::Tcp("cubic"), Some(Scheme::Tcp(Congestion::Cubic))),
        ("TCP NewReno", LiveScheme::Tcp("reno"), Some(Scheme::Tcp(Congestion::NewReno))),
        ("TCP BBR", LiveScheme::Tcp("bbr"), None),
    ]
}

/// Of a contender, a live line and one of virtual time.
#[derive(Debug, serde::Serialize)]
struct LiveLine {
    live: Line,
    virtual_time: Option<Line>,
}

fn run_live(args: &LabAerotpArgs, repeats: u64, out: &mut Vec<u8>) -> Result<(), Failure> {
    let sandbox = super::live::enter()?;
    let mut lines = Vec::new();
    for (name, live, model) in live_contenders() {
        let (mut live_points, mut model_points) = (Vec::new(), Vec::new());
        for bit_errors in LIVE_ERRORS {
            let task = Task { limit: LIVE_LIMIT, ..Task::new(Channel::airborne(bit_errors)) };
            let seeds = || args.seed..args.seed + repeats;
            let outcomes: Result<Vec<_>, _> = seeds().map(|seed| live::run(&sandbox, live, &task, seed)).collect();
            let outcomes = outcomes.map_err(|error| Failure::Runtime(error.into()))?;
            let point = suite::summed_up(&task.channel, &outcomes);
            eprintln!("{name} at {}: {:.3} Mbit/s", rate(bit_errors), point.goodput.mean);
            live_points.push(point);
            if let Some(scheme) = model {
                let seeds = args.seed..args.seed + args.runs;
                let outcomes: Vec<_> = seeds.map(|seed| aerotp::run(scheme, &task, seed)).collect();
                model_points.push(suite::summed_up(&task.channel, &outcomes));
            }
        }
        let line = |points| Line { name: name.to_owned(), points };
        lines.push(LiveLine { live: line(live_points), virtual_time: model.map(|_| line(model_points)) });
    }
    let written = match args.json {
        true => serde_json::to_writer(&mut *out, &lines).map_err(io::Error::from).and_then(|()| writeln!(out)),
        false => write_live(out, &lines, args.markdown),
    };
    written.map_err(|error| Failure::Runtime(error.into()))
}

fn write_live(out: &mut Vec<u8>, lines: &[LiveLine], markdown: bool) -> io::Result<()> {
    let figures: [(&str, Cell); 3] = [
        ("goodput, Mbit/s, mean and standard deviation", |point| {
            format!("{:.3} ±{:.3}", point.goodput.mean, point.goodput.sd)
        }),
        ("from the write to the delivery, ms, p50 / p95", |point| {
            format!("{} / {}", ms(point.since_written.p50), ms(point.since_written.p95))
        }),
        ("delivered, kB of 1000; damaged in brackets", |point| match point.damaged > 0.0 {
            true => format!("{:.1} ({:.1})", point.delivered.mean * 1e3, point.damaged * 1e3),
            false => format!("{:.1}", point.delivered.mean * 1e3),
        }),
    ];
    for (title, cell) in figures {
        writeln!(out, "Live, and in virtual time: {title}; at most {} s\n", LIVE_LIMIT.as_secs())?;
        let rates = LIVE_ERRORS.map(rate);
        let header: Vec<&str> = ["", ""].into_iter().chain(rates.iter().map(String::as_str)).collect();
        let mut table = Table::new(&header);
        for line in lines {
            let row = |name: &str, kind: &str, line: &Line| {
                [name.to_owned(), kind.to_owned()].into_iter().chain(line.points.iter().map(cell)).collect()
            };
            table.push(row(&line.live.name, "live", &line.live));
            if let Some(model) = &line.virtual_time {
                table.push(row("", "virtual", model));
            }
        }
        if markdown { table.write_markdown(out) } else { table.write(out) }?;
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command, LabCommand};
    use crate::testing::TempDir;

    fn printed(options: &[&str]) -> String {
        let words = ["aquila", "lab", "aerotp", "--only", "set-up", "--runs", "1"].iter().chain(options);
        let Command::Lab(args) = Cli::try_parse_from(words).unwrap().command else { panic!("not lab") };
        let LabCommand::Aerotp(args) = args.command else { panic!("not aerotp") };
        let mut out = Vec::new();
        assert!(run(&args, &mut out).is_ok());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn figure_12_is_printed_and_drawn() {
        let directory = TempDir::new("aerotp");
        let plot = directory.join("figure.svg");
        let text = printed(&["--plot", plot.to_str().unwrap()]);
        assert!(text.contains("6.2 ±0.0") && text.contains("16.3") && text.contains("holds"), "{text}");
        assert!(std::fs::read_to_string(plot).unwrap().contains("Figure 12"));
        let json: serde_json::Value = serde_json::from_str(&printed(&["--json"])).unwrap();
        assert_eq!(json["report"]["set_up"][0]["points"][0]["runs"], 50);
        assert_eq!(json["targets"][0]["holds"], true);
    }
}
