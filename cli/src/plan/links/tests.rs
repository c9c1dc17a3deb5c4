//! From the command line to what is printed.

use clap::Parser;
use serde_json::Value;

use super::*;
use crate::args::{Cli, Command};
use crate::plan;
use crate::testing::TempDir;

fn ran(options: &[&str]) -> Result<String, Failure> {
    let words = ["aquila", "plan", "links"].iter().chain(options);
    let Command::Plan(args) = Cli::try_parse_from(words).unwrap().command else { panic!("not plan") };
    let mut out = Vec::new();
    plan::run(args, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn printed(options: &[&str]) -> String {
    ran(options).unwrap_or_else(|_| panic!("{options:?} failed"))
}

fn json(options: &[&str]) -> Value {
    serde_json::from_str(&printed(&[options, &["--json"]].concat())).unwrap()
}

fn refused(options: &[&str]) -> String {
    match ran(options) {
        Err(Failure::Config(error)) => error.to_string(),
        _ => panic!("{options:?} was not refused"),
    }
}

#[test]
fn without_options_it_is_the_papers_experiment() {
    let text = printed(&[]);
    for wanted in
        ["lose 28.4 %, 28.4 %\n", "104.26", "×1.4450", "takes 11 links", "lost at 260 m", "0.0115", "<- this\n"]
    {
        assert!(text.contains(wanted), "{wanted} in\n{text}");
    }
    assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    let value = json(&[]);
    assert_eq!(value["aquila"]["choice"]["copies"], 3);
    assert_eq!(value["rows"][0]["completion"]["seconds_paper"], 86.70234636871508);
    assert_eq!(value["links_for_lifetime"]["exact"], 12_367);
}

#[test]
fn losses_are_given_for_each_link_or_for_all() {
    let losses = |options: &[&str]| json(options)["inputs"]["losses"].clone();
    assert_eq!(losses(&["--loss", "2%", "--loss", "0.1"]), serde_json::json!([0.02, 0.1]));
    assert_eq!(losses(&["--loss", "10 %", "--links", "3"]), serde_json::json!([0.1, 0.1, 0.1]));
    assert_eq!(losses(&["--links", "1"]), serde_json::json!([0.284]));
    assert_eq!(losses(&["--loss", "channel", "--distance", "1e6"]), serde_json::json!([1.0]));
    assert!(refused(&["--loss", "0.1", "--loss", "0.2", "--links", "3"]).contains("one for each link"));
    let text = printed(&["--loss", "0", "--shared", "0.1%", "--outage", "never"]);
    assert!(text.contains("all at once 0.1 %") && text.contains("No number of links"), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused_with_what_it_is() {
    for (option, value, wanted) in [
        ("--distance", "inf", "the distance is inf"),
        ("--retry", "0", "failure factor"),
        ("--most", "0.9", "from 1 to"),
        ("--lifetime", "0s", "mean lifetime"),
        ("--mass", "NaN", "mass of the aircraft"),
        ("--plot", "links.png", ".svg or .html"),
    ] {
        assert!(refused(&[option, value]).contains(wanted), "{option} {value}");
    }
    for (option, value, hint) in [
        ("--loss", "1.5", "28.4%"),
        ("--loss", "28.4", "28.4%"),
        ("--target", "NaN", "28.4%"),
        ("--rtt", "30", "unit of time"),
        ("--outage", "soon", "unit of time"),
        ("--links", "17", "1..=16"),
        ("--paper", "--rtt=1ms", "cannot be used with"),
        ("--paper", "--power=1", "cannot be used with"),
        ("--paper", "--mass=1", "cannot be used with"),
    ] {
        let words = ["aquila", "plan", "links", option, value];
        let error = Cli::try_parse_from(words).unwrap_err();
        assert!(error.to_string().contains(hint), "{option} {value}: {error}");
        assert_eq!(error.exit_code(), 2);
    }
}

#[test]
fn numbers_at_the_edge_are_printed() {
    for options in [
        &["--loss", "0", "--rtt", "0s", "--deadline", "0s"][..],
        &["--loss", "1", "--shared", "1", "--wanted", "24h", "--lifetime", "1us"],
        &["--loss", "1e-300", "--target", "0", "--packets", "0"],
        &["--rtt", "24h", "--deadline", "24h", "--mass", "1e300", "--arm", "1e300", "--power", "-300"],
    ] {
        let dir = TempDir::new("plan-edge");
        let path = dir.join("plot.svg");
        let text = printed(&[options, &["--plot", path.to_str().unwrap()]].concat());
        assert!(!text.contains("NaN"), "{text}");
        let picture = std::fs::read_to_string(path).unwrap();
        assert!(!picture.contains("NaN") && !picture.contains("inf"), "{options:?}");
        json(options);
    }
}

#[test]
fn a_plot_is_a_picture_or_a_page() {
    let dir = TempDir::new("plan-plot");
    let (svg, html) = (dir.join("a.svg"), dir.join("a.html"));
    printed(&["--plot", svg.to_str().unwrap()]);
    printed(&["--paper", "--plot", html.to_str().unwrap()]);
    let (svg, html) = (std::fs::read_to_string(svg).unwrap(), std::fs::read_to_string(html).unwrap());
    assert!(svg.starts_with("<svg") && html.starts_with("<!doctype html>"));
    for title in ["equation 2", "equation 7", "equation 10", "What Aquila does", "over distance", "inertia"] {
        assert!(svg.contains(title) && html.contains(title), "{title}");
    }
    let nowhere = dir.join("none/a.svg");
    assert!(matches!(ran(&["--plot", nowhere.to_str().unwrap()]), Err(Failure::Runtime(_))));
}

#[test]
fn the_manual_has_what_is_printed() {
    const MANUAL: &str = include_str!("../../../../docs/conclone.md");
    for line in printed(&["--paper"]).lines().filter(|line| line.starts_with('|')) {
        assert!(MANUAL.contains(line), "docs/conclone.md lacks what `aquila plan links --paper` prints:\n{line}");
    }
    for line in printed(&[]).lines() {
        assert!(MANUAL.contains(line), "docs/conclone.md lacks what `aquila plan links` prints:\n{line}");
    }
    assert!(json(&["--paper"]).as_array().unwrap().len() >= 9);
}

#[test]
fn shares_have_as_many_digits_as_tell_them_apart() {
    for (share, wanted) in
        [(0.0, "0 %"), (1.0, "100 %"), (0.284, "28.4 %"), (0.999_995, "99.9995 %"), (1e-9, "0.0000001 %")]
    {
        assert_eq!(percent(share), wanted);
    }
    assert_eq!((small(0.0), small(1e-6), small(0.284)), ("0".into(), "1e-6".into(), "0.2840".into()));
}
