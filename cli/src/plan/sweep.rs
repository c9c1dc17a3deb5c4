//! `aquila plan sweep`.

use std::io::{self, Write};

use anyhow::anyhow;
use aquila_lab::report::plot::{Axis, Colour, Plot, Series, Shape};
use aquila_lab::report::standalone;
use aquila_plan::scenario::Scenario;
use aquila_plan::sweep::{Tried, sweep};
use aquila_plan::write;
use serde::Serialize;

use super::flight_args::PlanSweepArgs;
use super::table::Table;
use super::{flight, input};
use crate::Failure;

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    title: &'a str,
    seeds: u32,
    circles: &'a [Tried],
}

/// Tries, draws and writes what was asked for, and prints.
pub fn run(args: &PlanSweepArgs, out: &mut Vec<u8>) -> Result<(), Failure> {
    if let Some(path) = &args.plot {
        super::check_name(path).map_err(Failure::Config)?;
    }
    if let Some(path) = &args.mission {
        flight::check_mission(path).map_err(Failure::Config)?;
    }
    let scenario = scenario(args).map_err(Failure::Config)?;
    let tried = sweep(&scenario).map_err(|error| Failure::Config(error.into()))?;
    if let Some(path) = &args.plot {
        let text = standalone::for_file(path, "aquila plan sweep", &plots(&scenario, &tried));
        std::fs::write(path, text)
            .map_err(|error| Failure::Runtime(anyhow!("cannot write {}: {error}", path.display())))?;
    }
    if let Some(path) = &args.mission {
        let best = tried.first().filter(|tried| tried.dangers.is_empty());
        let best =
            best.ok_or_else(|| Failure::Config(anyhow!("no circle is without danger: no mission is written")))?;
        flight::said(&best.loiter);
        flight::save_mission(&scenario, &write::mission(&scenario, &best.loiter), path)?;
    }
    let written = match args.json {
        true => {
            let printed = Printed { title: &scenario.title, seeds: scenario.model.seeds, circles: &tried };
            serde_json::to_writer(&mut *out, &printed).map_err(io::Error::from).and_then(|()| writeln!(out))
        }
        false => write_table(&scenario, &tried, args.top, out),
    };
    written.map_err(|error| Failure::Runtime(error.into()))
}

fn scenario(args: &PlanSweepArgs) -> anyhow::Result<Scenario> {
    let mut scenario = input::scenario(&args.scenario)?;
    for (asked, axis) in [
        (&args.altitude, &mut scenario.sweep.altitude_m),
        (&args.radius, &mut scenario.sweep.radius_m),
        (&args.offset, &mut scenario.sweep.offset_m),
        (&args.bearing, &mut scenario.sweep.bearing_deg),
    ] {
        if !asked.is_empty() {
            axis.clone_from(asked);
        }
    }
    scenario.check().map_err(anyhow::Error::msg)?;
    Ok(scenario)
}

fn write_table(scenario: &Scenario, tried: &[Tried], top: usize, out: &mut Vec<u8>) -> io::Result<()> {
    writeln!(out, "{} circles, {} tries of chance each; the best first", tried.len(), scenario.model.seeds)?;
    let header = ["altitude m", "radius m", "offset m", "bearing", "P10", "P50", "P90 Mbit/s", "contact", "bank", ""];
    let mut table = Table::new(&header);
    for tried in tried.iter().take(top) {
        let loiter = &tried.loiter;
        table.push(vec![
            loiter.altitude_m.to_string(),
            loiter.radius_m.to_string(),
            loiter.offset_m.to_string(),
            if loiter.offset_m > 0.0 { loiter.bearing_deg.to_string() } else { "-".into() },
            format!("{:.1}", tried.p10_bps / 1e6),
            format!("{:.1}", tried.p50_bps / 1e6),
            format!("{:.1}", tried.p90_bps / 1e6),
            format!("{:.0} %", tried.contact_share * 100.0),
            format!("{:.0}", tried.bank_deg),
            tried.dangers.first().map_or(String::new(), |danger| format!("danger: {danger}")),
        ]);
    }
    table.write(out)?;
    let dangerous = tried.iter().filter(|tried| !tried.dangers.is_empty()).count();
    if dangerous > 0 {
        writeln!(out, "  {dangerous} of them should not be flown; --top {} shows why", tried.len())?;
    }
    Ok(())
}

/// Rate by altitude, a plot for each offset and bearing, a line for each radius. Circles with dangers are gaps.
fn plots(scenario: &Scenario, tried: &[Tried]) -> Vec<Plot> {
    /// Offsets with a plot.
    const MAX_PLOTS: usize = 24;
    let axes = &scenario.sweep;
    let most = tried.iter().map(|tried| tried.p90_bps / 1e6).fold(1.0, f64::max);
    let (lowest, highest) =
        axes.altitude_m.iter().fold((f64::INFINITY, 0f64), |(low, high), value| (low.min(*value), high.max(*value)));
    let places = axes.offset_m.iter().flat_map(|offset| {
        let bearings = if *offset == 0.0 { &axes.bearing_deg[..1] } else { &axes.bearing_deg[..] };
        bearings.iter().map(move |bearing| (*offset, *bearing))
    });
    let plot = |(offset, bearing): (f64, f64)| {
        let line = |(number, radius): (usize, &f64)| {
            let at = |tried: &&Tried| {
                let loiter = &tried.loiter;
                loiter.radius_m == *radius
                    && loiter.offset_m == offset
                    && (offset == 0.0 || loiter.bearing_deg == bearing)
            };
            let value = |tried: &Tried| if tried.dangers.is_empty() { tried.p50_bps / 1e6 } else { f64::NAN };
            let mut points: Vec<(f64, f64)> =
                tried.iter().filter(at).map(|tried| (tried.loiter.altitude_m, value(tried))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Series { name: format!("radius {radius} m"), colour: Colour::Contender(number), shape: Shape::Line(points) }
        };
        let place = match offset {
            0.0 => "Around the node".to_owned(),
            offset => format!("Center {offset} m away, at {bearing} degrees"),
        };
        Plot {
            title: place,
            note: "median of the mean rate by altitude; gaps should not be flown".into(),
            x: Axis::linear("altitude, m", lowest.min(highest - 1.0), highest),
            y: Axis::linear("Mbit/s", 0.0, most),
            series: axes.radius_m.iter().enumerate().map(line).collect(),
            bands: Vec::new(),
            marks: Vec::new(),
            wide: false,
        }
    };
    places.take(MAX_PLOTS).map(plot).collect()
}
