//! `aquila lab mule tables`.

use std::io::{self, IsTerminal, Write};

use anyhow::anyhow;
use aquila_lab::mule::tables::findings::Finding;
use aquila_lab::mule::tables::sectors::{SECTORS, Sector};
use aquila_lab::mule::tables::{self, BEST_OF_S, Carried, Extent, LASTS_S, Row};
use clap::Args;

use crate::Failure;
use crate::plan::table::Table;

#[derive(Debug, Args)]
pub struct LabMuleTablesArgs {
    /// First seed: of the shadowing along the flight, and of the luck of packets
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// How many seeds, one after the other; tables have their means
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub seeds: u64,
    /// The paper's reading of loss and files of 1 MB only: a quarter of the cells
    #[arg(long)]
    pub quick: bool,
    /// More files on offer than fit, for all of the half hour: six times as long
    #[arg(long)]
    pub backlog: bool,
    /// Print tables in Markdown
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

/// For `--help`.
pub const HELP: &str = "\
The planner's example: R/V Gunnerus, a circle of 400 m around it 300 m high, the same 200 m high, and one 200 m high whose center is
800 m off, half an hour each; with a channel of 10 MHz. In each second the radio has the rate and the loss that the planner says,
with its errors as they are (EFx1) and twice as many (EFx2). Loss is read in two ways: 1-ccq, as the paper does, where a
packet is lost with 100 % - CCQ; and mac-arq, where the radio repeats frames, which takes time and loses next to nothing.

Beside what Aquila brings: the paper's best of four protocols, over its own radio; how many files the radio could bring in the half
hour, headers and all; and TCP with CUBIC at its best, all files in one connection. Shares and rates are those until the last file, or the end.

Examples:
  aquila lab mule tables                                 all 24 cells, some minutes
  aquila lab mule tables --quick                         six of them
  aquila lab mule tables --quick --backlog               files without end
  aquila lab mule tables --seeds 3 --markdown > tables.md
  aquila lab mule tables --json > tables.json

Exit code: 0, 1 if something that the paper found does not hold here, or too little of the radio is used.";

/// Runs the cells, prints them and says what holds.
pub fn run(args: &LabMuleTablesArgs, out: &mut Vec<u8>) -> Result<(), Failure> {
    let extent =
        Extent { first_seed: args.seed, seeds: args.seeds, lasts_s: LASTS_S, quick: args.quick, backlog: args.backlog };
    let is_terminal = io::stderr().is_terminal();
    let progress = |done: usize, of: usize| {
        if is_terminal {
            eprint!("\r{done} of {of} flights{}", if done == of { "\r\x1b[K" } else { "" });
        }
    };
    let report = tables::run(&extent, &progress).map_err(|error| Failure::Runtime(error.into()))?;
    let written = if args.json {
        serde_json::to_writer(&mut *out, &report).map_err(io::Error::from).and_then(|()| writeln!(out))
    } else {
        write_all(out, &report, args.markdown)
    };
    written.map_err(|error| Failure::Runtime(error.into()))?;
    let of = report.findings.len();
    match report.findings.iter().filter(|finding| !finding.holds).count() {
        0 => Ok(()),
        short => Err(Failure::Runtime(anyhow!("{short} of {of} bounds do not hold"))),
    }
}

fn write_all(out: &mut Vec<u8>, report: &tables::Report, markdown: bool) -> io::Result<()> {
    let put = |out: &mut Vec<u8>, title: &str, table: &Table| {
        writeln!(out, "{title}\n")?;
        if markdown { table.write_markdown(out) } else { table.write(out) }?;
        writeln!(out)
    };
    for (megabytes, numbers) in [(40, [2, 3]), (1, [4, 5])] {
        let rows: Vec<&Row> = report.rows.iter().filter(|row| row.cell.megabytes == megabytes).collect();
        let Some(first) = rows.first() else { continue };
        let minutes = report.lasts_s as f64 / 60.0;
        let title = format!("Table {}: complete files of {megabytes} MB within {minutes:.0} minutes", numbers[0]);
        put(out, &title, &files(&rows, first.cell.paper_set()))?;
        let title = format!("Table {}: transfer rate with files of {megabytes} MB until the last, Mbit/s", numbers[1]);
        put(out, &title, &rates(&rows))?;
    }
    put(
        out,
        "The radio by the bearing of the aircraft from the ship's bow; loss 1-ccq, EFx1",
        &sectors(&report.sectors),
    )?;
    put(out, "What the paper found, and what has to be reached", &findings(&report.findings))
}

/// Rows that differ in their seed only, in the order in which they were run.
fn cells<'a>(rows: &[&'a Row]) -> Vec<Vec<&'a Row>> {
    let mut all: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        let is_same = |other: &Row| tables::Cell { seed: row.cell.seed, ..other.cell } == row.cell;
        match all.iter_mut().find(|cell| is_same(cell[0])) {
            Some(cell) => cell.push(row),
            None => all.push(vec![row]),
        }
    }
    all
}

fn mean(cell: &[&Row], of: impl Fn(&Row) -> f64) -> f64 {
    cell.iter().map(|row| of(row)).sum::<f64>() / cell.len().max(1) as f64
}

/// A whole number if it is one flight's.
fn count(cell: &[&Row], of: impl Fn(&Row) -> f64) -> String {
    let places = usize::from(cell.len() > 1);
    format!("{:.places$}", mean(cell, of))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Loss, EF, experiment.
fn names(row: &Row) -> Vec<String> {
    vec![row.cell.reading.name().into(), format!("x{}", row.cell.factor), row.cell.experiment.to_string()]
}

fn files(rows: &[&Row], set: u64) -> Table {
    let after = format!("{set} after");
    let header = ["loss", "EF", "exp.", "paper", "radio", "Aquila", "of radio", &after, "CUBIC", "of radio", &after];
    let mut table = Table::new(&header);
    for cell in cells(rows) {
        let first = cell[0];
        let fits = |row: &Row| (row.capacity / (row.cell.megabytes * 1_000_000) as f64).floor();
        let mut line = names(first);
        line.extend([first.paper.files.to_string(), count(&cell, fits)]);
        for of in [|row: &Row| row.aquila, |row: &Row| row.cubic] {
            line.push(count(&cell, |row| of(row).files as f64));
            line.push(percent(mean(&cell, |row| of(row).share)));
            line.push(after_set(&cell, of));
        }
        table.push(line);
    }
    table
}

/// When the paper's files were through, in each of the flights.
fn after_set(cell: &[&Row], of: fn(&Row) -> Carried) -> String {
    match cell.iter().all(|row| of(row).paper_set_s.is_some()) {
        true => format!("{:.1} min", mean(cell, |row| of(row).paper_set_s.unwrap_or_default() as f64) / 60.0),
        false => "-".into(),
    }
}

fn rates(rows: &[&Row]) -> Table {
    let best = format!("best {BEST_OF_S} s");
    let mut table = Table::new(&["loss", "EF", "exp.", "paper", "radio", "Aquila", &best, "CUBIC", &best]);
    for cell in cells(rows) {
        let first = cell[0];
        let mut line = names(first);
        let mut push = |value: f64| line.push(format!("{value:.2}"));
        push(first.paper.mbps);
        push(mean(&cell, |row| row.capacity_mbps));
        for of in [|row: &Row| row.aquila, |row: &Row| row.cubic] {
            push(mean(&cell, |row| of(row).mbps));
            push(mean(&cell, |row| of(row).best_mbps));
        }
        table.push(line);
    }
    table
}

fn sectors(sectors: &[Vec<Sector>; 3]) -> Table {
    let of = ["time", "radio", "Aquila"];
    let header: Vec<String> = std::iter::once("degrees".to_owned())
        .chain((1..=sectors.len()).flat_map(|number| of.map(|what| format!("{number}: {what}"))))
        .collect();
    let mut table = Table::new(&header.iter().map(String::as_str).collect::<Vec<_>>());
    let width = 360 / SECTORS;
    for sector in 0..SECTORS {
        let mut line = vec![format!("{} to {}", sector * width, (sector + 1) * width)];
        for of in sectors {
            let all: u64 = of.iter().map(|sector| sector.seconds).sum();
            match of.get(sector).filter(|sector| sector.seconds > 0) {
                Some(sector) => line.extend([
                    percent(sector.seconds as f64 / all as f64),
                    format!("{:.1}", sector.capacity_mbps),
                    format!("{:.1}", sector.aquila_mbps),
                ]),
                None => line.extend(["0.0 %", "-", "-"].map(String::from)),
            }
        }
        table.push(line);
    }
    table
}

fn findings(findings: &[Finding]) -> Table {
    let mut table = Table::new(&["", "worst", "bound", ""]);
    for finding in findings {
        let side = if finding.less_is_better { "at most" } else { "at least" };
        let verdict = if finding.holds { "holds" } else { "does not hold" };
        let bound = format!("{side} {:.2}", finding.bound);
        table.push(vec![finding.name.into(), format!("{:.3}", finding.value), bound, verdict.into()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use aquila_lab::mule::tables::{Cell, Report};
    use aquila_plan::radio::LossReading;

    use super::*;

    fn row(experiment: usize, seed: u64, files: u64) -> Row {
        let cell = Cell { experiment, reading: LossReading::OneLessCcq, factor: 2, megabytes: 40, seed };
        let carried = Carried {
            files,
            bytes: files * 40_000_000,
            seconds: 1800,
            share: 0.5,
            paper_set_s: (files >= 14).then_some(90),
            mbps: 1.25,
            best_mbps: 2.5,
        };
        let cubic = Carried { files: 0, paper_set_s: None, ..carried };
        Row { cell, paper: cell.printed(), capacity: 1.01e9, capacity_mbps: 4.49, aquila: carried, cubic }
    }

    #[test]
    fn seeds_are_means_and_what_does_not_hold_is_said() {
        let finding = Finding { name: "a bound", value: 0.5, bound: 0.9, less_is_better: false, holds: false };
        let sector = Sector { seconds: 30, capacity_mbps: 4.0, aquila_mbps: 3.0 };
        let mut one = vec![Sector::default(); SECTORS];
        one[11] = sector;
        let rows = vec![row(1, 1, 14), row(1, 2, 17), row(2, 1, 13)];
        let report = Report { lasts_s: 1800, rows, sectors: [one.clone(), one.clone(), one], findings: vec![finding] };
        let mut out = Vec::new();
        write_all(&mut out, &report, true).unwrap();
        let text = String::from_utf8(out).unwrap();
        let has = |wanted: &[&str]| {
            let words = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
            let found = text.lines().map(words).any(|line| line.windows(wanted.len()).any(|cells| cells == wanted));
            assert!(found, "{wanted:?} in {text}");
        };
        assert!(text.contains("Table 2: complete files of 40 MB within 30 minutes") && !text.contains("Table 4"));
        has(&["1-ccq", "x2", "1", "9", "25.0", "15.5", "50.0 %", "1.5 min", "0.0", "50.0 %", "-"]);
        has(&["1-ccq", "x2", "2", "4", "25", "13", "50.0 %", "-", "0"]);
        has(&["1-ccq", "x2", "1", "1.36", "4.49", "1.25", "2.50"]);
        has(&["330 to 360", "100.0 %", "4.0", "3.0"]);
        has(&["a bound", "0.500", "at least 0.90", "does not hold"]);
    }
}
