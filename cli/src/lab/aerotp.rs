//! `aquila lab aerotp`.

use std::io::{self, IsTerminal, Write};

use anyhow::anyhow;
use aquila_lab::aerotp::limits::Limits;
use aquila_lab::aerotp::suite::{self, Extent, Line, Point, Report};
use aquila_lab::aerotp::targets::{self, Bound, Target};
use aquila_lab::aerotp::{plots, reference};
use aquila_lab::report::standalone;

use crate::Failure;
use crate::args::{AerotpPart, LabAerotpArgs};
use crate::plan::table::Table;

/// Runs what was asked for, draws it if asked to, and prints it.
pub fn run(args: &LabAerotpArgs, out: &mut Vec<u8>) -> Result<(), Failure> {
    if let Some(path) = &args.plot {
        crate::plan::check_name(path).map_err(Failure::Config)?;
    }
    let has = |part| args.only.is_empty() || args.only.contains(&part);
    let extent = Extent {
        set_up: has(AerotpPart::SetUp),
        quasi: has(AerotpPart::Quasi),
        modes: has(AerotpPart::Modes),
        seeds: args.runs,
        set_up_seeds: args.runs * 50,
        first_seed: args.seed,
    };
    let live = io::stderr().is_terminal();
    let progress = |done: usize, of: usize| {
        if live && (done.is_multiple_of(16) || done == of) {
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
