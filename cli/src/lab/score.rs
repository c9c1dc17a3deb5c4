//! `aquila lab score`.

use std::io::{self, Write};

use anyhow::anyhow;
use aquila_lab::score::{self, Choice, Figures, Score};

use crate::Failure;
use crate::args::ScoreArgs;

/// Compares two files; the figures go to `out`.
pub fn run(args: &ScoreArgs, out: &mut Vec<u8>) -> Result<(), Failure> {
    let choice = Choice {
        contender: args.contender.clone(),
        link: args.link.clone(),
        direction: args.direction.map(|direction| direction.name().to_owned()),
    };
    let score = score::score(&args.truth, &args.other, &choice).map_err(|error| Failure::Config(error.into()))?;
    let written = match args.json {
        true => serde_json::to_writer(&mut *out, &score).map_err(io::Error::from).and_then(|()| writeln!(out)),
        false => describe(&score, out),
    };
    written.map_err(|error| Failure::Runtime(error.into()))?;
    match (args.max_mae_percent, score.per_second.mae_percent) {
        (Some(most), Some(found)) if found > most => {
            Err(Failure::Runtime(anyhow!("the error is {found:.3} % of the mean; at most {most} % were asked for")))
        }
        (Some(_), None) => Err(Failure::Runtime(anyhow!("the first file's mean is 0: there is no error in per cent"))),
        _ => Ok(()),
    }
}

fn describe(score: &Score, out: &mut Vec<u8>) -> io::Result<()> {
    writeln!(out, "{}\n{}", score.truth, score.other)?;
    writeln!(
        out,
        "{:<12} {:>8} {:>26} {:>18} {:>18} {:>7} {:>8}",
        "", "count", "means, Mbit/s", "MAE", "bias", "KS", "W1"
    )?;
    let mut line = |name: &str, of: &Figures| {
        let percent = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2} %"));
        writeln!(
            out,
            "{name:<12} {:>8} {:>26} {:>18} {:>18} {:>7.4} {:>8.4}",
            of.count,
            format!("{:.3} against {:.3}", of.other_mean_bps / 1e6, of.mean_bps / 1e6),
            format!("{:.4} = {}", of.mae_bps / 1e6, percent(of.mae_percent)),
            format!("{:.4} = {}", of.bias_bps / 1e6, percent(of.bias_percent)),
            of.ks,
            of.wasserstein_bps / 1e6
        )
    };
    line("per second", &score.per_second)?;
    score.per_test.iter().try_for_each(|figures| line("per test", figures))?;
    match score.seconds_left_out {
        0 => Ok(()),
        seconds => writeln!(out, "{seconds} seconds are in one of them only"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    #[test]
    fn a_bound_decides_over_the_exit_code() {
        let dir = TempDir::new("score");
        let (truth, other) = (dir.join("a.csv"), dir.join("b.csv"));
        std::fs::write(&truth, "time_s,rate_mbps\n0,10\n1,10\n").unwrap();
        std::fs::write(&other, "time_s,rate_mbps\n0,11\n1,10\n").unwrap();
        let args = |most: f64, json| ScoreArgs {
            truth: truth.clone(),
            other: other.clone(),
            max_mae_percent: Some(most),
            json,
            contender: None,
            link: None,
            direction: None,
        };
        let mut out = Vec::new();
        assert!(run(&args(5.0, false), &mut out).is_ok());
        assert!(String::from_utf8(out).unwrap().contains("0.5000 = 5.00 %"));
        let mut out = Vec::new();
        assert!(matches!(run(&args(4.9, true), &mut out), Err(Failure::Runtime(_))));
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["per_second"]["mae_bps"], 500_000.0);
        std::fs::write(&other, "time_s,rate_mbps\n0,eleven\n").unwrap();
        assert!(matches!(run(&args(5.0, false), &mut Vec::new()), Err(Failure::Config(_))));
    }
}
