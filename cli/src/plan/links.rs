//! `aquila plan links`.

use std::io::{self, Write};

use anyhow::anyhow;
use aquila_lab::conclone::analysis::{Analysis, Inputs, analyse};
use aquila_lab::conclone::channel::Channel;
use aquila_lab::conclone::inertia::Airframe;
use aquila_lab::conclone::lifetime::Lifetime;
use aquila_lab::conclone::{DomainError, Probability, paper, plots};
use aquila_lab::report::{standalone, ticks};
use aquila_proto::replication::Reliability;

use super::args::{ChannelArgs, Loss, Numbers, PlanLinksArgs};
use super::table::Table;
use crate::Failure;

/// Works it out, draws it if asked to, and prints it.
pub fn run(args: &PlanLinksArgs, out: &mut Vec<u8>) -> Result<(), Failure> {
    if let Some(path) = &args.plot {
        super::check_name(path).map_err(Failure::Config)?;
    }
    let inputs = inputs(args).map_err(Failure::Config)?;
    let analysis = analyse(&inputs).map_err(|error| Failure::Config(error.into()))?;
    if let Some(path) = &args.plot {
        let text = standalone::for_file(path, "aquila plan links", &plots::plots(&analysis));
        std::fs::write(path, text)
            .map_err(|error| Failure::Runtime(anyhow!("cannot write {}: {error}", path.display())))?;
    }
    let written = match (args.paper, args.json) {
        (true, true) => serde_json::to_writer(&mut *out, &paper::groups()).map_err(io::Error::from),
        (true, false) => write_paper(out),
        (false, true) => serde_json::to_writer(&mut *out, &analysis).map_err(io::Error::from),
        (false, false) => write_analysis(out, &analysis),
    };
    let ended = if args.json { written.and_then(|()| writeln!(out)) } else { written };
    ended.map_err(|error| Failure::Runtime(error.into()))
}

fn inputs(args: &PlanLinksArgs) -> anyhow::Result<Inputs> {
    let (numbers, frame) = (&args.numbers, &args.airframe);
    let channel = channel(&args.channel);
    Ok(Inputs {
        losses: losses(numbers, &channel)?,
        shared: numbers.shared,
        target: numbers.target,
        factor: numbers.retry,
        most: numbers.most,
        packets: numbers.packets,
        interval: numbers.interval.get(),
        rtt: numbers.rtt.get(),
        deadline: numbers.deadline.get(),
        lifetime: Lifetime {
            mean: numbers.lifetime.get().as_secs_f64(),
            outage: numbers.outage.0.map_or(f64::INFINITY, |outage| outage.as_secs_f64()),
            wanted: numbers.wanted.get().as_secs_f64(),
        },
        channel,
        airframe: Airframe {
            mass_kg: frame.mass / 1e3,
            radius_m: frame.radius,
            arm_m: frame.arm,
            motor_kg: frame.motor / 1e3,
            modem_kg: frame.modem / 1e3,
        },
    })
}

fn channel(radio: &ChannelArgs) -> Channel {
    Channel {
        distance_m: radio.distance,
        height_m: radio.height,
        frequency_mhz: radio.frequency,
        power_dbm: radio.power,
        margin_db: radio.margin,
        exponent: radio.exponent,
        reference_m: radio.reference,
        bandwidth_mhz: radio.bandwidth,
        noise_figure_db: radio.noise_figure,
        bits_per_symbol: radio.bits_per_symbol,
        kappa1: radio.kappa1,
        kappa2: radio.kappa2,
        frame_bytes: radio.frame,
        retries: radio.retries,
        frames: radio.frames,
    }
}

fn losses(numbers: &Numbers, channel: &Channel) -> anyhow::Result<Vec<Probability>> {
    let given = numbers.loss.iter().map(|loss| match loss {
        Loss::Given(loss) => Ok(*loss),
        Loss::Channel => Ok(channel.reception()?.packet_loss),
    });
    let mut given: Vec<Probability> = given.collect::<Result<_, DomainError>>()?;
    let links = numbers.links.map(usize::from);
    match (given.len(), links) {
        (0, None) => Ok(Inputs::default().losses),
        (0, Some(links)) => Ok(vec![Inputs::default().losses[0]; links]),
        (1, Some(links)) => Ok(vec![given.remove(0); links]),
        (losses, Some(links)) if losses != links => {
            Err(anyhow!("--links says {links}, but there are {losses} losses: give one --loss, or one for each link"))
        }
        _ => Ok(given),
    }
}

fn write_paper(out: &mut Vec<u8>) -> io::Result<()> {
    for (number, group) in paper::groups().into_iter().enumerate() {
        writeln!(out, "{}{}", if number > 0 { "\n" } else { "" }, group.title)?;
        if !group.correction.is_empty() {
            writeln!(out, "Corrected: {}.", group.correction)?;
        }
        writeln!(out)?;
        let mut table = Table::new(&["what", "printed", "recomputed", "corrected", "verdict"]);
        for row in group.rows {
            table.push(vec![row.what, row.printed, row.recomputed, row.corrected, row.verdict]);
        }
        table.write_markdown(out)?;
    }
    Ok(())
}

fn write_analysis(out: &mut Vec<u8>, analysis: &Analysis) -> io::Result<()> {
    write_rows(out, analysis)?;
    write_lifetimes(out, analysis)?;
    write_channel(out, analysis)?;
    write_moments(out, analysis)?;
    write_aquila(out, analysis)
}

/// Equations 1 to 7.
fn write_rows(out: &mut Vec<u8>, analysis: &Analysis) -> io::Result<()> {
    let inputs = &analysis.inputs;
    let given = |share: Probability| format!("{} %", ticks::text(share.get() * 100.0));
    let losses: Vec<String> = inputs.losses.iter().map(|loss| given(*loss)).collect();
    write!(out, "Each packet once over each link, which lose {}", losses.join(", "))?;
    match inputs.shared == Probability::NEVER {
        true => writeln!(out)?,
        false => writeln!(out, ", and all at once {}", given(inputs.shared))?,
    }
    let most = format!("loss for ×{}", inputs.most);
    let mut table =
        Table::new(&["links", "arrives", "lost on all", "takes, s", "of ideal", "(printed)", &most, "(printed)"]);
    for row in &analysis.rows {
        let times = |ratio: Option<f64>| ratio.map_or("no mean".into(), |ratio| format!("×{ratio:.4}"));
        table.push(vec![
            row.links.to_string(),
            percent(row.arrives.get()),
            small(row.lost.get()),
            row.completion.seconds.map_or("no mean".into(), |seconds| format!("{seconds:.2}")),
            times(row.completion.ratio),
            times(row.completion.ratio_paper),
            row.greatest_loss.map_or("-".into(), |loss| percent(loss.get())),
            row.greatest_loss_paper.map_or("-".into(), |loss| percent(loss.get())),
        ]);
    }
    table.write(out)?;
    let (target, ideal) = (small(inputs.target.get()), f64::from(inputs.packets) * inputs.interval.as_secs_f64());
    writeln!(out, "  Ideal: {ideal} s for {} packets. Printed: without the doubling of timeouts.", inputs.packets)?;
    match analysis.links_for_target {
        Some(1) => writeln!(out, "  To lose no more than {target}, one link like the worst is enough."),
        Some(links) => writeln!(out, "  To lose no more than {target} takes {links} links like the worst."),
        None => writeln!(out, "  No number of links like the worst loses no more than {target}."),
    }
}

/// Equations 8 to 10.
fn write_lifetimes(out: &mut Vec<u8>, analysis: &Analysis) -> io::Result<()> {
    let Lifetime { mean, outage, wanted } = analysis.inputs.lifetime;
    writeln!(out, "\nMean time until all links are out, each after {mean} s, seconds")?;
    let seconds = |value: f64| if value < 1e7 { format!("{value:.1}") } else { format!("{value:.2e}") };
    let number = |links: Option<u32>| links.map_or("too many".into(), |links| links.to_string());
    let mut header = vec!["links", "none comes back", "(printed)"];
    // What never comes back is what the second column has.
    let back = format!("each back after {outage} s");
    if outage.is_finite() {
        header.push(&back);
    }
    let mut table = Table::new(&header);
    for row in &analysis.rows {
        let lives = row.lifetime;
        let cells = [row.links.to_string(), seconds(lives.exact), seconds(lives.paper)];
        let back = outage.is_finite().then(|| lives.with_repair.map_or("-".into(), seconds));
        table.push(cells.into_iter().chain(back).collect());
    }
    let links = analysis.links_for_lifetime;
    let cells = [format!("links for {wanted} s"), number(links.exact), number(links.paper)];
    let back = outage.is_finite().then(|| number(links.with_repair));
    table.push(cells.into_iter().chain(back).collect());
    table.write(out)
}

/// Equations 11 to 14.
fn write_channel(out: &mut Vec<u8>, analysis: &Analysis) -> io::Result<()> {
    let (there, channel) = (&analysis.reception, &analysis.inputs.channel);
    writeln!(out, "\nThrough the air: {} MHz, {} dBm, no fading", channel.frequency_mhz, channel.power_dbm)?;
    let mut table =
        Table::new(&["distance", "path loss", "signal over noise", "wrong bits", "wrong frames", "lost packets"]);
    table.push(vec![
        format!("{:.1} m", there.line_m),
        format!("{:.1} dB", there.path_loss_db),
        format!("{:.1} dB", there.snr_db),
        small(there.bit_error.get()),
        small(there.frame_error.get()),
        small(there.packet_loss.get()),
    ]);
    table.write(out)?;
    let worst = analysis.inputs.losses.iter().map(|loss| loss.get()).fold(0.0, f64::max);
    match analysis.range_m {
        Some(range) => writeln!(out, "  {} of the packets are lost at {range:.0} m.", percent(worst)),
        None => writeln!(out, "  At no distance beyond {} m are {} lost.", channel.reference_m, percent(worst)),
    }
}

/// Equations 15 and 16.
fn write_moments(out: &mut Vec<u8>, analysis: &Analysis) -> io::Result<()> {
    writeln!(out, "\nMoments of inertia with a modem for each link, kg m²")?;
    let mut table = Table::new(&["links", "about x", "about y", "about z", "(printed)"]);
    for row in &analysis.rows {
        let (Some(right), Some(paper)) = (row.moments, row.moments_paper) else { continue };
        let text = |value: f64| if value < 1e4 { format!("{value:.4}") } else { format!("{value:.3e}") };
        table.push(vec![row.links.to_string(), text(right.xx), text(right.yy), text(right.zz), text(paper.zz)]);
    }
    table.write(out)
}

fn write_aquila(out: &mut Vec<u8>, analysis: &Analysis) -> io::Result<()> {
    let (inputs, choice) = (&analysis.inputs, analysis.aquila.choice);
    let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    writeln!(
        out,
        "\nWhat Aquila will do over {}, round trip {} ms, so that a command fails within {} ms no oftener than {}, and waits for a repetition no oftener than {}",
        match (inputs.losses.len(), choice.links) {
            (1, _) => "this link".to_owned(),
            (all, used) if all == used => format!("these {all} links"),
            (all, used) => format!("the best {used} of these {all} links"),
        },
        ms(inputs.rtt),
        ms(inputs.deadline),
        small(inputs.target.get()),
        small(Reliability::default().repeats)
    )?;
    let mut table = Table::new(&["copies a round", "rounds in time", "packets", "fails", "is repeated", ""]);
    let chances = analysis.aquila.failures.iter().zip(&analysis.aquila.repeats);
    for (copies, (failure, repeats)) in (1..).zip(chances) {
        let verdict = match (copies == choice.copies, choice.is_enough) {
            (true, true) => "<- this",
            (true, false) => "<- this, and it falls short",
            (false, _) => "",
        };
        let packets = u64::from(copies) * u64::from(choice.rounds) * choice.links as u64;
        let chances = [failure, repeats].map(|chance| small(chance.get()));
        let cells = [copies.to_string(), choice.rounds.to_string(), packets.to_string()].into_iter().chain(chances);
        table.push(cells.chain([verdict.to_owned()]).collect());
    }
    table.write(out)?;
    if inputs.shared.get() > 0.0 {
        let failure = small(analysis.aquila.failure_with_shared.get());
        writeln!(out, "  With what all lose at once, which the link cannot know: {failure}.")?;
    }
    writeln!(out, "  Packets: at most, if nothing is acknowledged.")
}

/// With as many digits as tell it from 0 and from 100.
fn percent(share: f64) -> String {
    let value = share * 100.0;
    let edge = value.min(100.0 - value);
    let places = if edge <= 0.0 { 0 } else { (1.0 - edge.log10().floor()).clamp(1.0, 12.0) as usize };
    let text = format!("{value:.places$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} %")
}

/// Three digits, as a power of ten if it is small.
fn small(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        value if value < 1e-3 => {
            let text = format!("{value:.2e}");
            text.replace(".00e", "e")
        }
        value => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests;
