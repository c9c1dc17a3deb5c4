//! `aquila plan fit`.

use std::io::{self, Write};

use anyhow::anyhow;
use aquila_plan::fit::{Constant, Fitted, fit};
use aquila_plan::log::radio;
use aquila_plan::scenario::{Scenario, Way};

use super::flight_args::PlanFitArgs;
use super::input;
use super::table::Table;
use crate::Failure;

/// Fits and prints.
pub fn run(args: &PlanFitArgs, out: &mut Vec<u8>) -> Result<(), Failure> {
    let (scenario, fitted) = work(args).map_err(Failure::Config)?;
    let written = match args.json {
        true => serde_json::to_writer(&mut *out, &fitted).map_err(io::Error::from).and_then(|()| writeln!(out)),
        false => write(&scenario, &fitted, out),
    };
    written.map_err(|error| Failure::Runtime(error.into()))
}

fn work(args: &PlanFitArgs) -> anyhow::Result<(Scenario, Fitted)> {
    let scenario = input::scenario_of_fit(args)?;
    let flight = input::flight(&args.log)?;
    let Way::Log(log) = &flight.way else {
        return Err(anyhow!("{}: is a mission; a log of a flight is needed", args.log.display()));
    };
    let named = |error: String| anyhow!("{}: {error}", args.radio_log.display());
    let bytes = input::read(&args.radio_log)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| named("is not text (UTF-8)".into()))?;
    let samples = radio::parse(text).map_err(|error| named(error.to_string()))?;
    let track = scenario.fly(&flight).map_err(|error| anyhow!("{}: {error}", args.log.display()))?;
    let fitted = fit(&scenario, &track, log.start_s, &samples, args.shift).map_err(|error| named(error.to_string()))?;
    Ok((scenario, fitted))
}

fn write(scenario: &Scenario, fitted: &Fitted, out: &mut Vec<u8>) -> io::Result<()> {
    writeln!(out, "{} samples of signal over noise", fitted.samples)?;
    let mut table = Table::new(&["constant", "before", "after", "standard error"]);
    let mut row = |name: String, constant: Constant| {
        let error = constant.error.map_or("left as it was".into(), |error| format!("±{error:.3}"));
        table.push(vec![name, format!("{:.3}", constant.before), format!("{:.3}", constant.after), error]);
    };
    row("model.path_loss.offset_db".into(), fitted.offset_db);
    row("model.path_loss.exponent".into(), fitted.exponent);
    for (number, depth) in (1..).zip(&fitted.depths_db) {
        row(format!("node.obstacle {number} depth_db"), *depth);
    }
    table.write(out)?;
    writeln!(out, "  Signal over noise at 1 km in the open: {:.1} dB.", fitted.at_1_km_db)?;
    fitted.notes.iter().try_for_each(|note| writeln!(out, "  {note}"))?;
    let mut table = Table::new(&["mean absolute error", "before", "after", "of the mean"]);
    table.push(vec![
        "signal over noise, dB".into(),
        format!("{:.2}", fitted.mae_before_db),
        format!("{:.2}", fitted.mae_after_db),
        "-".into(),
    ]);
    if let Some(rate) = fitted.rate {
        table.push(vec![
            "the radio's rate, Mbit/s".into(),
            format!("{:.2}", rate.mae_before_bps / 1e6),
            format!("{:.2}", rate.mae_after_bps / 1e6),
            format!("{:.1} %", rate.mae_after_bps / rate.mean_bps.max(1.0) * 100.0),
        ]);
    }
    writeln!(out)?;
    table.write(out)?;
    writeln!(out, "\nFor the scenario:\n\n[model.path_loss]\nexponent = {:.3}", fitted.exponent.after)?;
    writeln!(out, "reference_m = {:?}", scenario.model.path_loss.reference_m)?;
    writeln!(
        out,
        "offset_db = {:.2}\n\n[model.shadowing]\ndeviation_db = {:.2}",
        fitted.offset_db.after, fitted.deviation_db
    )?;
    let distance = fitted.distance_m.unwrap_or(scenario.model.shadowing.distance_m);
    writeln!(out, "distance_m = {distance:.1}")?;
    for (number, depth) in (1..).zip(&fitted.depths_db).filter(|(_, depth): &(u32, _)| depth.error.is_some()) {
        writeln!(out, "# and in [[node.obstacle]] number {number}: depth_db = {:.1}", depth.after)?;
    }
    Ok(())
}
