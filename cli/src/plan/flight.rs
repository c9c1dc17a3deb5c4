//! `aquila plan flight`.

use std::io::{self, Write};
use std::path::Path;

use anyhow::anyhow;
use aquila_plan::flight::planned::Loiter;
use aquila_plan::forecast::Forecast;
use aquila_plan::forecast::warnings::Severity;
use aquila_plan::mission::{Mission, qgc, wpl};
use aquila_plan::scenario::{Flight, Scenario, Way};
use aquila_plan::write;
use serde::Serialize;

use super::advice::Advice;
use super::flight_args::PlanFlightArgs;
use super::table::Table;
use super::{input, report};
use crate::Failure;

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    title: &'a str,
    flights: Vec<PrintedFlight<'a>>,
}

#[derive(Serialize)]
struct PrintedFlight<'a> {
    #[serde(flatten)]
    forecast: &'a Forecast,
    advice: Advice,
}

/// Forecasts, writes what was asked for, and prints.
pub fn run(args: &PlanFlightArgs, out: &mut Vec<u8>) -> Result<(), Failure> {
    let scenario = scenario(args).map_err(Failure::Config)?;
    let forecasts = forecast(&scenario).map_err(Failure::Config)?;
    let numbers = numbers(args, forecasts.len());
    if let Some(path) = &args.csv {
        for (forecast, number) in forecasts.iter().zip(&numbers) {
            save(&input::numbered(path, *number), &write::trace(&scenario, forecast))?;
        }
    }
    if let Some(path) = &args.mission {
        let missions = missions(&scenario, path).map_err(Failure::Config)?;
        for (mission, number) in missions.iter().zip(&numbers) {
            save_mission(&scenario, mission, &input::numbered(path, *number))?;
        }
    }
    if let Some(path) = &args.html {
        save(path, &report::page(&scenario, &forecasts))?;
    }
    let written = match args.json {
        true => {
            let flights = forecasts.iter().map(|forecast| PrintedFlight { forecast, advice: Advice::new(forecast) });
            let printed = Printed { title: &scenario.title, flights: flights.collect() };
            serde_json::to_writer(&mut *out, &printed).map_err(io::Error::from).and_then(|()| writeln!(out))
        }
        false => write_tables(&scenario, &forecasts, out),
    };
    written.map_err(|error| Failure::Runtime(error.into()))
}

/// With the flights that were asked for.
fn scenario(args: &PlanFlightArgs) -> anyhow::Result<Scenario> {
    let mut scenario = input::scenario(&args.scenario)?;
    let circles = (1..).zip(&args.loiter).map(|(number, circle): (u32, _)| Flight {
        name: format!("circle {number}"),
        way: Way::Loiter(circle.0),
        horizon_s: 3_600.0,
    });
    let mut flights: Vec<Flight> = circles.collect();
    for path in &args.fly {
        flights.push(input::flight(path)?);
    }
    if !flights.is_empty() {
        scenario.flights = flights;
    }
    if let Some(number) = args.only {
        let all = scenario.flights.len();
        if usize::from(number) > all {
            return Err(anyhow!("--only {number}: there are {all} flights"));
        }
        scenario.flights = vec![scenario.flights.swap_remove(usize::from(number) - 1)];
    }
    if scenario.flights.is_empty() {
        return Err(anyhow!("nothing to fly: give --loiter or --fly, or a [[flight]] in the scenario"));
    }
    scenario.check().map_err(anyhow::Error::msg)?;
    Ok(scenario)
}

fn forecast(scenario: &Scenario) -> anyhow::Result<Vec<Forecast>> {
    let one = |flight: &Flight| {
        let track = scenario.fly(flight).map_err(|error| anyhow!("{}: {error}", flight.name))?;
        Ok(Forecast::new(scenario, &flight.name, &track))
    };
    scenario.flights.iter().map(one).collect()
}

/// What goes into file names: nothing if there is one.
fn numbers(args: &PlanFlightArgs, flights: usize) -> Vec<Option<usize>> {
    match (flights, args.only) {
        (1, _) => vec![None],
        (flights, _) => (1..=flights).map(Some).collect(),
    }
}

/// What flies the scenario's flights. A mission that was read is written as it was, in the format that is asked for.
fn missions(scenario: &Scenario, path: &Path) -> anyhow::Result<Vec<Mission>> {
    check_mission(path)?;
    let one = |flight: &Flight| match &flight.way {
        Way::Loiter(loiter) => {
            said(loiter);
            Ok(write::mission(scenario, loiter))
        }
        Way::Mission(mission) => Ok(mission.clone()),
        Way::Log(_) => Err(anyhow!("{}: a log is no mission; leave it out with --only", flight.name)),
    };
    scenario.flights.iter().map(one).collect()
}

/// Whether a mission can be written to a file of this name.
pub fn check_mission(path: &Path) -> anyhow::Result<()> {
    let is = |wanted: &str| path.extension().is_some_and(|end| end.eq_ignore_ascii_case(wanted));
    match is("waypoints") || is("plan") || is("txt") {
        true => Ok(()),
        false => Err(anyhow!("{}: a mission's name ends with .waypoints, .txt or .plan", path.display())),
    }
}

/// What somebody who flies it has to know, on standard error.
pub fn said(loiter: &Loiter) {
    write::notes(loiter).iter().for_each(|note| eprintln!("{note}"));
}

/// In the format that its name says.
pub fn save_mission(scenario: &Scenario, mission: &Mission, path: &Path) -> Result<(), Failure> {
    let text = match path.extension().is_some_and(|end| end.eq_ignore_ascii_case("plan")) {
        true => qgc::write(mission, scenario.aircraft.airspeed_mps),
        false => wpl::write(mission),
    };
    save(path, &text)
}

fn save(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| Failure::Runtime(anyhow!("cannot write {}: {error}", path.display())))
}

fn write_tables(scenario: &Scenario, forecasts: &[Forecast], out: &mut Vec<u8>) -> io::Result<()> {
    let seeds = scenario.model.seeds;
    writeln!(out, "{}: {seeds} tries of chance", if scenario.title.is_empty() { "Flights" } else { &scenario.title })?;
    let mut table =
        Table::new(&["flight", "s", "contact", "P10", "P50", "P90 MB", "Mbit/s", "distance m", "elevation", "bank"]);
    for forecast in forecasts {
        let volume = forecast.volume;
        let contact: u32 = forecast.windows.iter().map(|window| window.to_s - window.from_s).sum();
        table.push(vec![
            forecast.name.clone(),
            forecast.seconds.len().to_string(),
            format!("{contact} s"),
            megabytes(volume.p10_bits),
            megabytes(volume.p50_bits),
            megabytes(volume.p90_bits),
            format!("{:.1}", forecast.mean_bps() / 1e6),
            range(forecast, |second| second.sight.distance_m, 0),
            range(forecast, |second| second.sight.elevation_deg, 0),
            range(forecast, |second| second.moment.roll_deg.abs(), 0),
        ]);
    }
    table.write(out)?;
    for forecast in forecasts {
        write_flight(forecast, out)?;
    }
    Ok(())
}

fn write_flight(forecast: &Forecast, out: &mut Vec<u8>) -> io::Result<()> {
    writeln!(out, "\n{}", forecast.name)?;
    for warning in &forecast.warnings {
        let mark = if warning.severity == Severity::Danger { "danger" } else { "note" };
        writeln!(out, "  {mark}: {}", warning.text)?;
    }
    for note in &forecast.notes {
        writeln!(out, "  read: {note}")?;
    }
    /// Windows that are printed; `--json` has all.
    const MAX_WINDOWS: usize = 12;
    if forecast.windows.len() > 1 {
        let mut table = Table::new(&["contact", "from s", "to s", "P10", "P50", "P90 MB"]);
        for (number, window) in (1..).zip(forecast.windows.iter().take(MAX_WINDOWS)) {
            table.push(vec![
                number.to_string(),
                window.from_s.to_string(),
                window.to_s.to_string(),
                megabytes(window.p10_bits),
                megabytes(window.p50_bits),
                megabytes(window.p90_bits),
            ]);
        }
        table.write(out)?;
        if forecast.windows.len() > MAX_WINDOWS {
            writeln!(out, "  and {} more", forecast.windows.len() - MAX_WINDOWS)?;
        }
    }
    if !forecast.files.is_empty() {
        let mut table = Table::new(&["files", "MB", "of", "sure", "likely", "perhaps", "all of them"]);
        for fit in &forecast.files {
            table.push(vec![
                fit.files.name.clone(),
                fit.files.size_mb.to_string(),
                fit.files.count.to_string(),
                fit.p10_count.to_string(),
                fit.p50_count.to_string(),
                fit.p90_count.to_string(),
                format!("{:.0} %", fit.all_share * 100.0),
            ]);
        }
        table.write(out)?;
    }
    Advice::new(forecast).sentences().iter().try_for_each(|sentence| writeln!(out, "  {sentence}"))
}

/// Least and most.
fn range(forecast: &Forecast, value: impl Fn(&aquila_plan::forecast::Second) -> f64, places: usize) -> String {
    let values = || forecast.seconds.iter().map(&value);
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    let (least, most) = (format!("{least:.places$}"), format!("{most:.places$}"));
    if least == most { least } else { format!("{least}-{most}") }
}

fn megabytes(bits: f64) -> String {
    let value = bits / 8e6;
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests;
