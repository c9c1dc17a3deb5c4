//! A short plan, filmed.

use std::path::Path;

use super::*;
use crate::plan::parse;
use crate::quality::codec::Unit;

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
    film_plan(&PLAN.replace("RATE", rate), Sizes::One((320, 180)), &mut |_| {})
}

fn film_plan(plan: &str, sizes: Sizes, keep: &mut dyn FnMut(&Filmed<'_>)) -> Vec<Session> {
    let variants = parse(Path::new("plan.toml"), plan).unwrap();
    let options = Options {
        engine: Engine::OpenH264,
        content: Content::Flight,
        filmed: (320, 180),
        sizes,
        vmaf: None,
        seed: None,
        repeats: 1,
        only: Vec::new(),
    };
    film(&variants, &options, &Stage::Virtual, &std::env::temp_dir(), &|_, _, _| {}, keep).unwrap()
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
fn a_constant_link_looks_nearly_as_good_as_its_codec_can() {
    let plan = PLAN
        .replace("kind = \"udp\"", "kind = \"aquila\"")
        .replace("\"4 s\"", "\"9 s\"")
        .replace("\"1 s\"", "\"5 s\"")
        .replace("{ rate = \"RATE\" }", "{ rate = \"10 Mbit/s\", least = \"200 kbit/s\", follow = true, asks = true }");
    let sessions = film_plan(&plan, Sizes::One((320, 180)), &mut |_| {});
    let outcome = &sessions[0].contenders[0];
    let share = outcome.of_oracle["live_over_100"];
    assert!(share.psnr_db > 0.97 && share.ssim > 0.97, "{outcome:?}");
    assert!(outcome.delivered == 1.0 && outcome.used.unwrap() > 0.75, "{outcome:?}");
}

#[test]
fn several_sessions_are_judged_as_one() {
    let mut sessions = filmed("600 kbit/s");
    sessions.extend(filmed("2400 kbit/s"));
    let [all] = &together(&sessions)[..] else { panic!("one contender") };
    let ssim = |of: fn(&Session) -> f64| sessions.iter().map(of).sum::<f64>();
    let expected =
        ssim(|session| session.contenders[0].quality["live_300"].ssim) / ssim(|session| session.oracle.quality.ssim);
    assert_eq!(all.contender, sessions[0].contenders[0].contender);
    assert!((all.of_oracle["live_300"].ssim - expected).abs() < 1e-9, "{all:?}, {expected}");
    assert_eq!((all.of_oracle["live_300"].vmaf, all.of_oracle.len()), (None, VIEWS.len()));
    // Somebody who did not run in all of them has nothing that could be compared.
    sessions[1].contenders.clear();
    assert!(together(&sessions).is_empty() && together(&[]).is_empty());
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let figures = || serde_json::to_string(&filmed("800 kbit/s")).unwrap();
    assert_eq!(figures(), figures());
}

#[test]
fn the_size_follows_the_rate_and_a_slow_link_has_small_pictures() {
    let plan = PLAN
        .replace("kind = \"udp\"", "kind = \"aquila\"")
        .replace("{ rate = \"RATE\" }", "{ rate = \"3 Mbit/s\", least = \"60 kbit/s\", follow = true, asks = true }");
    let sizes: Sizes = "320x180@30:1500,160x90@30:400,160x90@15:0".parse().unwrap();
    let steps = |plan: &str| {
        let mut seen = Vec::new();
        let sessions = film_plan(plan, sizes.clone(), &mut |filmed| {
            seen = filmed.orders.iter().map(|order| order.map(|order| order.size)).collect();
        });
        (sessions, seen)
    };
    let (sessions, seen) = steps(&plan);
    let small = film_plan(&plan, Sizes::One((160, 90)), &mut |_| {})[0].oracle.quality.ssim;
    assert!(sessions[0].oracle.quality.ssim >= small, "the best of all sizes");
    assert!(seen[30..].iter().flatten().all(|size| *size == (160, 90)), "{seen:?}");
    assert!(seen[30..].iter().flatten().count() > 75, "{seen:?}");
    // Below 400 kbit/s every second picture.
    let (sessions, seen) = steps(&plan.replace("800 kbit/s", "250 kbit/s"));
    let late = &seen[60..];
    assert!((late.len() / 2).abs_diff(late.iter().flatten().count()) < 8, "{seen:?}");
    assert!(sessions[0].contenders[0].delivered > 0.4, "{:?}", sessions[0].contenders);
}

#[test]
fn recovery_points_are_frequent_only_where_nobody_can_ask_for_them() {
    let of = |kind: &str| {
        let video = "{ rate = \"500 kbit/s\", follow = true, asks = true }";
        let plan = PLAN.replace("kind = \"udp\"", kind).replace("{ rate = \"RATE\" }", video);
        let mut recoveries = Vec::new();
        film_plan(&plan, Sizes::One((160, 90)), &mut |filmed| {
            let is_recovery = |unit: &Option<Unit>| unit.as_ref().is_some_and(|unit| unit.is_recovery);
            recoveries =
                (0..).zip(filmed.units).filter(|(_, unit)| is_recovery(unit)).map(|(number, _)| number).collect();
        });
        recoveries
    };
    let unasked: Vec<u32> = of("kind = \"udp\"");
    assert_eq!(unasked, [0, 60]);
    let asked = of("kind = \"aquila\"");
    assert!(asked.len() == 1 && asked[0] < 30, "{asked:?}");
}

#[test]
fn sizes_are_read() {
    assert_eq!("640x360".parse(), Ok(Sizes::One((640, 360))));
    assert_eq!("steps".parse(), Ok(Sizes::Steps));
    assert!(matches!("1280x720@30:1600,640x360@30:0".parse(), Ok(Sizes::Rungs(rungs)) if rungs.len() == 2));
    for wrong in ["", "640", "641x360", "63x64", "1280x720@30:1600", "640x360@30:0,1280x720@30:1600"] {
        assert!(wrong.parse::<Sizes>().is_err(), "{wrong}");
    }
}
