//! A short plan, filmed.

use std::path::Path;

use super::*;
use crate::plan::parse;

const PLAN: &str = r#"
title = "A camera over a short link"
lasts = "4 s"
warm_up = "1 s"
cool_down = "500 ms"

[[link]]
name = "lte"
both = { rate = "800 kbit/s", delay = "50 ms", queue = { bytes = "150 kB" } }

[[contender]]
kind = "udp"

[[traffic]]
from = "air"
video = { rate = "RATE" }
"#;

fn filmed(rate: &str) -> Vec<Session> {
    let variants = parse(Path::new("plan.toml"), &PLAN.replace("RATE", rate)).unwrap();
    let options = Options {
        engine: Engine::OpenH264,
        content: Content::Flight,
        filmed: (320, 180),
        size: (320, 180),
        vmaf: None,
        seed: None,
        repeats: 1,
        only: Vec::new(),
    };
    film(&variants, &options, &std::env::temp_dir(), &|_, _, _| {}, &mut |_| {}).unwrap()
}

#[test]
fn what_fits_arrives_and_looks_as_good_as_it_can() {
    let sessions = filmed("600 kbit/s");
    let outcome = &sessions[0].contenders[0];
    assert_eq!((outcome.delivered + outcome.left_out, outcome.frozen_s), (1.0, 0.0), "{outcome:?}");
    let [by_index, live, over] = VIEWS.map(|(name, _)| outcome.quality[name]);
    assert_eq!((by_index, live), (live, over), "nothing is late");
    let latency = outcome.latency_ms[0].unwrap();
    assert!((50.0..120.0).contains(&latency), "{latency} ms");
    let share = outcome.of_oracle["by_index"].ssim;
    assert!((0.9..1.01).contains(&share), "{share} of the oracle");
    assert!((0.5..0.9).contains(&outcome.used.unwrap()), "{outcome:?}");
}

#[test]
fn what_does_not_fit_looks_bad_and_live_looks_worse() {
    let sessions = filmed("2400 kbit/s");
    let outcome = &sessions[0].contenders[0];
    assert!(outcome.delivered < 0.7, "{outcome:?}");
    let [by_index, live, _] = VIEWS.map(|(name, _)| outcome.quality[name]);
    assert!(live.psnr_db < by_index.psnr_db && by_index.psnr_db < sessions[0].oracle.quality.psnr_db, "{outcome:?}");
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let figures = || serde_json::to_string(&filmed("800 kbit/s")).unwrap();
    assert_eq!(figures(), figures());
}
