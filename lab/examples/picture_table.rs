//! What a pilot sees in the given plans, in virtual time, as a table: latency of shown frames over propagation, age of the
//! picture, use of the link, and the commands beside it.
//!
//!     cargo run --release -p aquila-lab --example picture_table -- lab/scenarios/s2.toml...

use std::path::Path;

use aquila_lab::metrics::Metrics;
use aquila_lab::{judge, plan};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "{:<34} {:<12} {:>16} {:>7} {:>6} {:>6} {:>6} {:>14}",
        "scenario", "contender", "frame p50/95/99", "age p95", "use %", "shown%", "skip%", "C2 p50/p95/p99"
    );
    for path in std::env::args().skip(1) {
        let variants = plan::load(Path::new(&path))?;
        let judgement = judge::run(variants, None, &|_, _| ())?;
        for variant in &judgement.variants {
            let metrics = Metrics::of(&variant.plan, &variant.runs);
            let mut names: Vec<&str> = variant.runs.iter().map(|run| run.contender.as_str()).collect();
            names.dedup();
            for name in names {
                let of = |metric: &str| metrics.get(&format!("{name}.{metric}")).unwrap_or(f64::NAN);
                let three =
                    |metric: &str| ["p50", "p95", "p99"].map(|q| format!("{:.0}", of(&format!("{metric}.{q}"))));
                let link = variant.plan.links[0].get_ref().name.get_ref();
                let due = of("video.up.sent") + of("video.up.skipped");
                let stem = Path::new(&path).file_stem().unwrap_or_default().to_string_lossy();
                println!(
                    "{:<34} {:<12} {:>16} {:>7.0} {:>6.1} {:>6.1} {:>6.1} {:>14}",
                    format!("{stem} {}", variant.variant),
                    name,
                    three("video.up.shown_over_propagation_ms").join("/"),
                    of("video.up.age_ms.p95"),
                    100.0 * of(&format!("link_{link}.up.use")),
                    100.0 * of("video.up.shown_share"),
                    100.0 * of("video.up.skipped") / due,
                    three("commands.up.over_propagation_ms").join("/"),
                );
            }
        }
    }
    Ok(())
}
