//! `aquila lab video`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use aquila_lab::plan::{Plan, Variant};
use aquila_lab::quality::Vmaf;
use aquila_lab::quality::bench::{
    self, BenchError, Filmed, Options, Outcome, Session, Sizes, Stage, Together, VIEWS, together,
};
use aquila_lab::quality::content::Content;
use aquila_lab::quality::judge::Quality;

use super::live;
use crate::Failure;
use crate::args::LabVideoArgs;

/// Headings of the ways of seeing, in their order.
const HEADINGS: [&str; 3] = ["by index", "live@300 ms", "live@one way + 100 ms"];

/// Films a plan; tables or JSON go to `out`.
pub fn run(args: &LabVideoArgs, variants: &[(Variant, Plan)], out: &mut Vec<u8>) -> Result<(), Failure> {
    if !args.live {
        return filmed(args, variants, &Stage::Virtual, out);
    }
    let config = |error: anyhow::Error| Failure::Config(error);
    let sandbox = live::enter()?;
    let interrupted = sandbox.catch_interrupts().map_err(|error| config(error.into()))?;
    let binary = std::env::current_exe().context("cannot find this program's own file").map_err(config)?;
    let folder = args.logs.clone().unwrap_or_else(live::own_folder);
    eprintln!("logs: {}", folder.display());
    filmed(args, variants, &Stage::Live { sandbox: &sandbox, binary, folder, interrupted }, out)
}

fn filmed(
    args: &LabVideoArgs,
    variants: &[(Variant, Plan)],
    stage: &Stage<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let config = |error: anyhow::Error| Failure::Config(error);
    args.codec.is_available().map_err(|missing| config(missing.into()))?;
    let known = |name: &&String| !variants[0].1.contenders.iter().any(|known| known.get_ref().name() == name.as_str());
    if let Some(name) = args.contenders.iter().find(known) {
        return Err(config(anyhow!("--only {name}: the plan has no such contender")));
    }
    let options = Options {
        engine: args.codec,
        content: args.content.clone(),
        filmed: Content::SIZE,
        sizes: args.size.clone(),
        vmaf: vmaf(args).map_err(config)?,
        seed: args.seed,
        repeats: args.repeats,
        only: args.contenders.clone(),
    };
    if let Some(directory) = &args.out {
        std::fs::create_dir_all(directory)
            .with_context(|| directory.display().to_string())
            .map_err(Failure::Runtime)?;
    }
    let progress = Display::new();
    let mut kept = Ok(());
    let mut keep = |filmed: &Filmed<'_>| {
        if let (Some(directory), Ok(())) = (&args.out, &kept) {
            kept = keep(directory, args, filmed).with_context(|| directory.display().to_string());
        }
    };
    let tell = |what: &str, done: u32, of: u32| progress.show(what, done, of);
    let sessions = bench::film(variants, &options, stage, &std::env::temp_dir(), &tell, &mut keep);
    progress.clear();
    let sessions = sessions.map_err(|error| match error {
        BenchError::Interrupted => Failure::Runtime(error.into()),
        error => config(error.into()),
    })?;
    kept.map_err(Failure::Runtime)?;
    if let Some(directory) = &args.out {
        let write = || -> io::Result<()> {
            serde_json::to_writer_pretty(File::create(directory.join("quality.json"))?, &sessions)?;
            Ok(())
        };
        write().with_context(|| directory.display().to_string()).map_err(Failure::Runtime)?;
    }
    let written = match args.json {
        true => serde_json::to_writer(&mut *out, &sessions).map_err(io::Error::from).and_then(|()| writeln!(out)),
        false => describe_all(&variants[0].1.title, args, &sessions, out),
    };
    written.map_err(|error| Failure::Runtime(error.into()))?;
    let counted = sessions.iter().flat_map(|session| &session.contenders);
    if let Some((contender, reason)) = counted.into_iter().find_map(|of| Some((&of.contender, of.invalid.as_ref()?))) {
        return Err(config(anyhow!("{contender} does not count: {reason}")));
    }
    let Some(least) = args.min_oracle_percent else { return Ok(()) };
    let short: Vec<String> = together(&sessions).iter().filter_map(|of| shortfall(of, least)).collect();
    match short.is_empty() {
        true => Ok(()),
        false => Err(Failure::Runtime(anyhow!("{}: at least {least} % are asked", short.join("; ")))),
    }
}

/// What a contender has of the codec oracle's quality, over all variants and seeds, if that is less than `least` per cent.
fn shortfall(of: &Together<'_>, least: f64) -> Option<String> {
    let share = of.of_oracle["live_over_100"];
    let (measure, share) = share.vmaf.map_or(("SSIM", share.ssim), |vmaf| ("VMAF", vmaf));
    let percent = 100.0 * share;
    // Not a number is short too.
    let is_short = percent.partial_cmp(&least).is_none_or(std::cmp::Ordering::is_lt);
    is_short.then(|| format!("{}: {percent:.1} % of the codec oracle's {measure}", of.contender))
}

/// If it is wanted and there; what is missing is said, unless something is to be judged by it.
fn vmaf(args: &LabVideoArgs) -> anyhow::Result<Option<Vmaf>> {
    if !args.vmaf {
        return Ok(None);
    }
    match Vmaf::find(args.ffmpeg.as_deref(), args.vmaf_every) {
        Ok(vmaf) => Ok(Some(vmaf)),
        Err(missing) if args.min_oracle_percent.is_some() => Err(anyhow::Error::new(missing).context("VMAF")),
        Err(missing) => {
            eprintln!("VMAF: skipped: {missing}");
            Ok(None)
        }
    }
}

/// Each session, and what they are together if there are several.
fn describe_all(title: &str, args: &LabVideoArgs, sessions: &[Session], out: &mut Vec<u8>) -> io::Result<()> {
    sessions.iter().try_for_each(|session| describe(title, args, session, out))?;
    let all = together(sessions);
    let (Some(first), 2..) = (all.first(), sessions.len()) else { return Ok(()) };
    writeln!(out, "{title}, all {} together: {} {}\n", sessions.len(), args.codec.name(), args.size)?;
    quality_heading(out)?;
    quality_line("codec oracle", "", &first.oracle, None, out)?;
    all.iter().try_for_each(|of| quality_lines(of.contender, &of.quality, &of.of_oracle, out))?;
    writeln!(out)
}

fn describe(title: &str, args: &LabVideoArgs, session: &Session, out: &mut Vec<u8>) -> io::Result<()> {
    let of = if session.variant.is_empty() { String::new() } else { format!(", {}", session.variant) };
    writeln!(out, "{title}{of}: {} {}, seed {}\n", args.codec.name(), args.size, session.seed)?;
    quality_heading(out)?;
    let best = &session.oracle;
    let size = best.size.map_or("steps".to_owned(), |(width, height)| format!("{width}x{height}"));
    let size = if matches!(args.size, Sizes::One(_)) { String::new() } else { format!(", {size}") };
    quality_line("codec oracle", &format!("{:.3} Mbit/s{size}", best.rate_mbps), &best.quality, None, out)?;
    for outcome in &session.contenders {
        quality_lines(&outcome.contender, &outcome.quality, &outcome.of_oracle, out)?;
    }
    writeln!(
        out,
        "\n{:<18} {:>9} {:>8} {:>8} {:>22} {:>8} {:>7}",
        "contender", "delivered", "left out", "frozen", "latency p50/95/99 ms", "Mbit/s", "of link"
    )?;
    session.contenders.iter().try_for_each(|outcome| delivery_line(outcome, out))?;
    writeln!(out)
}

fn quality_heading(out: &mut Vec<u8>) -> io::Result<()> {
    writeln!(
        out,
        "{:<18} {:<22} {:>6} {:>9} {:>8} {:>9} {:>8} {:>9}",
        "contender", "seen", "VMAF", "of oracle", "SSIM", "of oracle", "PSNR", "of oracle"
    )
}

/// Each way of seeing.
fn quality_lines(
    name: &str,
    quality: &BTreeMap<&'static str, Quality>,
    of_oracle: &BTreeMap<&'static str, Quality>,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    for ((view, _), heading) in VIEWS.iter().zip(HEADINGS) {
        let name = if heading == HEADINGS[0] { name } else { "" };
        quality_line(name, heading, &quality[view], Some(&of_oracle[view]), out)?;
    }
    Ok(())
}

fn quality_line(
    name: &str,
    seen: &str,
    quality: &Quality,
    share: Option<&Quality>,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let percent = |share: Option<f64>| share.map_or(String::new(), |share| format!("{:.1} %", share * 100.0));
    writeln!(
        out,
        "{name:<18} {seen:<22} {:>6} {:>9} {:>8.4} {:>9} {:>8.2} {:>9}",
        quality.vmaf.map_or("-".to_owned(), |vmaf| format!("{vmaf:.1}")),
        percent(share.and_then(|share| share.vmaf)),
        quality.ssim,
        percent(share.map(|share| share.ssim)),
        quality.psnr_db,
        percent(share.map(|share| share.psnr_db)),
    )
}

fn delivery_line(outcome: &Outcome, out: &mut Vec<u8>) -> io::Result<()> {
    let ms = |latency: Option<f64>| latency.map_or("-".to_owned(), |ms| format!("{ms:.0}"));
    writeln!(
        out,
        "{:<18} {:>7.2} % {:>6.2} % {:>6.1} s {:>22} {:>8.3} {:>7}",
        outcome.contender,
        outcome.delivered * 100.0,
        outcome.left_out * 100.0,
        outcome.frozen_s,
        outcome.latency_ms.map(ms).join(" / "),
        outcome.rate_mbps,
        outcome.used.map_or("-".to_owned(), |used| format!("{:.1} %", used * 100.0)),
    )
}

/// A contender's film: every picture's fate, and the stream that could be decoded.
fn keep(directory: &Path, args: &LabVideoArgs, filmed: &Filmed<'_>) -> anyhow::Result<()> {
    let of = if filmed.variant.is_empty() { String::new() } else { format!("-{}", file_name(filmed.variant)) };
    let name = format!("{}{of}-{}", file_name(&filmed.run.contender), filmed.run.seed);
    let mut csv = BufWriter::new(File::create(directory.join(format!("{name}.csv")))?);
    writeln!(csv, "picture,filmed_s,target_kbps,height,bytes,recovery,arrived_s,decodable_s")?;
    let seconds = |time: Option<Duration>| time.map_or(String::new(), |time| format!("{:.6}", time.as_secs_f64()));
    for (number, (fate, time)) in filmed.fates.iter().zip(&filmed.times).enumerate() {
        let unit = filmed.units.get(number).and_then(Option::as_ref);
        let (bytes, recovery) = unit.map_or((0, false), |unit| (unit.annex_b.len(), unit.is_recovery));
        let (filmed_at, arrived, decodable) = (seconds(Some(fate.filmed)), seconds(fate.arrived), seconds(*time));
        let order = filmed.orders.get(number).and_then(Option::as_ref);
        let told = order.map_or(",".to_owned(), |order| format!("{},{}", order.target.0 / 1000, order.size.1));
        writeln!(csv, "{number},{filmed_at},{told},{bytes},{},{arrived},{decodable}", u8::from(recovery))?;
    }
    csv.flush()?;
    let extension = if args.codec.is_h265() { "h265" } else { "h264" };
    let mut stream = BufWriter::new(File::create(directory.join(format!("{name}.{extension}")))?);
    filmed.decodable().iter().try_for_each(|(_, unit)| stream.write_all(&unit.annex_b))?;
    Ok(stream.flush()?)
}

fn file_name(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Says on a terminal what is being done.
struct Display {
    is_live: bool,
    last: Mutex<Option<Instant>>,
}

impl Display {
    /// Often enough to be seen moving.
    const EVERY: Duration = Duration::from_millis(200);

    fn new() -> Self {
        Self { is_live: io::stderr().is_terminal(), last: Mutex::new(None) }
    }

    fn show(&self, what: &str, done: u32, of: u32) {
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !self.is_live || last.is_some_and(|last| last.elapsed() < Self::EVERY) {
            return;
        }
        *last = Some(Instant::now());
        eprint!("\r\x1b[K{what}: {done} of {of}");
    }

    fn clear(&self) {
        if self.is_live {
            eprint!("\r\x1b[K");
        }
    }
}
