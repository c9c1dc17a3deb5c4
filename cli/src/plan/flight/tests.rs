//! From the command line to what is printed and written: `aquila plan flight`, `sweep` and `fit`.

use clap::Parser;
use serde_json::Value;

use super::*;
use crate::args::{Cli, Command};
use crate::plan;
use crate::testing::TempDir;

fn ran(options: &[&str]) -> Result<String, Failure> {
    let Command::Plan(args) = Cli::try_parse_from(["aquila", "plan"].iter().chain(options)).unwrap().command else {
        panic!("not plan")
    };
    let mut out = Vec::new();
    plan::run(args, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn printed(options: &[&str]) -> String {
    ran(options).unwrap_or_else(|error| match error {
        Failure::Config(error) | Failure::Runtime(error) => panic!("{options:?}: {error:#}"),
    })
}

fn json(options: &[&str]) -> Value {
    serde_json::from_str(&printed(&[options, &["--json"]].concat())).unwrap()
}

fn refused(options: &[&str]) -> String {
    match ran(options) {
        Err(Failure::Config(error)) => format!("{error:#}"),
        _ => panic!("{options:?} was not refused"),
    }
}

#[test]
fn the_example_is_the_papers_experiment_in_its_order() {
    let text = printed(&["flight", "--example"]);
    for wanted in ["Experiment 1", "P50", "echo sounder", "the superstructure takes", "such links", "words of parity"] {
        assert!(text.contains(wanted), "{wanted} in\n{text}");
    }
    assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    let value = json(&["flight", "--example", "--seeds", "20"]);
    let volume = |n: usize| value["flights"][n]["volume"]["p50_bits"].as_f64().unwrap();
    assert!(volume(0) > volume(1) && volume(1) > volume(2));
    assert_eq!(value["flights"][0]["seconds"].as_array().unwrap().len(), 300);
    assert!(value["flights"][2]["seconds"][7]["relative_bearing_deg"].is_f64());
}

#[test]
fn flights_are_given_on_the_command_line_and_values_set() {
    let rate = |options: &[&str]| {
        let node = ["flight", "--node", "63.62,9.72", "--seeds", "5"];
        let value = json(&[&node, options].concat());
        value["flights"][0]["volume"]["p50_bits"].as_f64().unwrap() / 300e6
    };
    let near = rate(&["--loiter", "300m,400m"]);
    assert!(near > rate(&["--loiter", "300,400,3000,90"]));
    assert!(near > rate(&["--loiter", "300,400", "--set", "radio.eirp_dbm=20"]) + 5.0);
    assert!(rate(&["--loiter", "300,400", "--set", "radio.loss=1-ccq"]) > near * 1.2);
    let two = json(&["flight", "--example", "--seeds", "1", "--loiter", "200,100", "--loiter", "200,200"]);
    assert_eq!(two["flights"].as_array().unwrap().len(), 2);
    let one = json(&["flight", "--example", "--seeds", "1", "--only", "3", "--seed", "9"]);
    assert_eq!(one["flights"][0]["name"], "Experiment 3");
}

#[test]
fn what_is_written_can_be_read_by_those_whom_it_is_for() {
    let dir = TempDir::new("plan-flight");
    let file = |name: &str| dir.join(name).display().to_string();
    let (csv, html, mission) = (file("far.csv"), file("far.html"), file("far.waypoints"));
    let three = ["flight", "--example", "--seeds", "3", "--only", "3"];
    printed(&[&three[..], &["--csv", &csv, "--html", &html, "--mission", &mission]].concat());
    // The lab.
    let trace = aquila_lab::traces::open(Path::new(&csv)).unwrap();
    assert!(aquila_lab::traces::describe(Path::new(&csv), &trace).contains("capacity"));
    let page = std::fs::read_to_string(&html).unwrap();
    for wanted in ["<h2>Experiment 3</h2>", "From above", "Rate over time", "Files that fit", "</html>"] {
        assert!(page.contains(wanted), "{wanted}");
    }
    assert!(!page.contains("NaN") && !page.contains("src="), "one file");
    // Ourselves, in both formats, and the same comes out but for the way there and back.
    let plan = file("again.plan");
    let again = json(&["flight", "--example", "--seeds", "3", "--fly", &mission, "--mission", &plan]);
    let seconds = again["flights"][0]["seconds"].as_array().unwrap().len();
    assert!(seconds > 400, "three turns, 420 s, and the way there: {seconds}");
    let third = json(&["flight", "--example", "--seeds", "3", "--fly", &plan]);
    assert_eq!(again["flights"][0]["volume"], third["flights"][0]["volume"]);
    // Each of several has its number.
    printed(&["flight", "--example", "--seeds", "1", "--csv", &file("all.csv")]);
    assert!(dir.join("all-1.csv").exists() && dir.join("all-3.csv").exists());
    let folder = dir.join("missing").join("x.csv").display().to_string();
    assert!(matches!(ran(&["flight", "--example", "--seeds", "1", "--csv", &folder]), Err(Failure::Runtime(_))));
}

#[test]
fn what_cannot_be_used_is_refused_with_file_and_place() {
    let dir = TempDir::new("plan-refused");
    let write = |name: &str, text: &[u8]| {
        std::fs::write(dir.join(name), text).unwrap();
        dir.join(name).display().to_string()
    };
    let scenario = write("ship.toml", b"[radio]\neirp = 3\n");
    assert!(refused(&["flight", &scenario]).contains("ship.toml: line 2: unknown field `eirp`"));
    let names = write("names.toml", b"[[flight]]\nmission = \"bad.waypoints\"\n");
    assert!(refused(&["flight", &names]).contains("bad.waypoints: No such file"));
    let bad = write("bad.waypoints", b"QGC WPL 110\n0\t1\n");
    assert!(refused(&["flight", &names]).ends_with("bad.waypoints: line 2: 2 columns; there are 12"));
    assert!(refused(&["flight", "--example", "--fly", &bad]).contains("bad.waypoints: line 2"));
    let log = write("bad.tlog", &[0, 0, 0, 0, 0, 0, 0, 0, 0x55]);
    assert!(refused(&["flight", "--example", "--fly", &log]).contains("bad.tlog: is neither a log of ArduPilot"));
    assert!(refused(&["flight", "--loiter", "300,400"]).contains("where is the node?"));
    assert!(refused(&["flight", "--node", "63,9"]).contains("nothing to fly"));
    assert!(refused(&["flight", "--example", "--only", "4"]).contains("there are 3 flights"));
    assert!(refused(&["flight", "--example", "--set", "radio.power=3"]).contains("unknown field `power`"));
    assert!(refused(&["flight", "--example", "--loiter", "300,1"]).contains("radius_m is 1"));
    assert!(refused(&["flight", "--example", "--set", "wind.speed_mps=30"]).contains("makes no way"));
    assert!(refused(&["flight", "--example", "--mission", "x.kml"]).contains(".waypoints, .txt or .plan"));
    for wrong in [["--loiter", "300"], ["--loiter", "a,b"], ["--node", "91,0"], ["--set", "x"]] {
        assert!(Cli::try_parse_from(["aquila", "plan", "flight"].iter().chain(&wrong)).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_sweep_prints_the_best_first_and_what_should_not_be_flown_last() {
    let dir = TempDir::new("plan-sweep");
    let (plot, mission) =
        (dir.join("sweep.svg").display().to_string(), dir.join("best.waypoints").display().to_string());
    let axes =
        ["sweep", "--example", "--seeds", "2", "--altitude", "60,200,300", "--radius", "40,400", "--offset", "0"];
    let text = printed(&[&axes[..], &["--plot", &plot, "--mission", &mission]].concat());
    assert!(text.contains("6 circles, 2 tries") && text.contains("4 of them should not be flown"), "{text}");
    assert!(text.lines().nth(2).unwrap().trim_start().starts_with("300"), "{text}");
    assert!(text.contains("danger: flies 60 m") && text.contains("danger: banks by 40 degrees"));
    assert!(std::fs::read_to_string(&plot).unwrap().contains("Around the node"));
    assert!(std::fs::read_to_string(&mission).unwrap().contains("\t18\t"));
    let circles = json(&axes)["circles"].clone();
    let rates: Vec<f64> =
        circles.as_array().unwrap().iter().map(|circle| circle["p50_bps"].as_f64().unwrap()).collect();
    assert!(rates[0] > rates[1] && circles[5]["dangers"][0].is_string());
    let many = (1..=120).map(|n| (n * 10).to_string()).collect::<Vec<_>>().join(",");
    let large = ["sweep", "--example", "--seeds", "1000", "--altitude", &many, "--offset", &many, "--radius", "400"];
    assert!(refused(&large).contains("circles of 300 s with 1000 seeds are too many"));
    assert!(refused(&["sweep", "--example", "--plot", "x.png"]).contains(".svg or .html"));
    assert!(
        refused(&["sweep", "--example", "--altitude", "60", "--mission", "x.plan"])
            .contains("no circle is without danger")
    );
}

/// A DataFlash log with positions only, of a flight that was forecast, and what a radio would have said in it.
fn flown(dir: &TempDir, options: &[&str]) -> (String, String) {
    let value = json(&[&["flight", "--example", "--seeds", "1", "--only", "1"], options].concat());
    let mut log = Vec::new();
    for (number, length, name, kinds, labels) in
        [(128, 89, "FMT", "BBnNZ", "Type,Length,Name,Format,Columns"), (1, 23, "POS", "QLLf", "TimeUS,Lat,Lng,Alt")]
    {
        log.extend([0xa3, 0x95, 128, number, length]);
        for (text, size) in [(name, 4), (kinds, 16), (labels, 64)] {
            let mut field = text.as_bytes().to_vec();
            field.resize(size, 0);
            log.extend(field);
        }
    }
    let mut radio = "time_s,snr_db,rate_mbps\n".to_owned();
    for (time, second) in value["flights"][0]["seconds"].as_array().unwrap().iter().enumerate() {
        let number = |key: &str| second["position"][key].as_f64().unwrap();
        log.extend([0xa3, 0x95, 1]);
        log.extend((9_000_000 + time as u64 * 1_000_000).to_le_bytes());
        log.extend(((number("latitude_deg") * 1e7).round() as i32).to_le_bytes());
        log.extend(((number("longitude_deg") * 1e7).round() as i32).to_le_bytes());
        log.extend((number("altitude_m") as f32).to_le_bytes());
        radio += &format!("{time},{},{}\n", second["snr_db"], second["tx_bps"].as_f64().unwrap() / 1e6);
    }
    let (bin, csv) = (dir.join("flight.bin"), dir.join("radio.csv"));
    std::fs::write(&bin, log).unwrap();
    std::fs::write(&csv, radio).unwrap();
    (bin.display().to_string(), csv.display().to_string())
}

#[test]
fn a_fit_prints_what_to_put_into_the_scenario() {
    let dir = TempDir::new("plan-fit");
    let (log, radio) = flown(&dir, &["--set", "model.path_loss.offset_db=-6"]);
    let fit = ["fit", &log, "--radio-log", &radio, "--example"];
    let text = printed(&fit);
    for wanted in [
        "300 samples",
        "model.path_loss.offset_db",
        "left as it was",
        "mean absolute error",
        "[model.path_loss]\nexponent = 2.030",
    ] {
        assert!(text.contains(wanted), "{wanted} in\n{text}");
    }
    let value = json(&fit);
    let after = value["offset_db"]["after"].as_f64().unwrap();
    assert!((after + 6.0).abs() < 0.5, "{value}");
    let mae = |key: &str| value[key].as_f64().unwrap();
    assert!(mae("mae_after_db") < 2.3 && mae("mae_before_db") > 5.0);
    // What is printed is TOML that a scenario takes.
    let toml = text.split_once("For the scenario:\n").unwrap().1;
    std::fs::write(dir.join("again.toml"), toml).unwrap();
    let again = dir.join("again.toml").display().to_string();
    printed(&["flight", &again, "--loiter", "300,400", "--seeds", "1"]);
    let mission = dir.join("x.waypoints").display().to_string();
    std::fs::write(&mission, "QGC WPL 110\n0 1 0 16 0 0 0 0 63 9 0 1\n").unwrap();
    assert!(refused(&["fit", &mission, "--radio-log", &radio, "--example"]).contains("a log of a flight is needed"));
    assert!(refused(&["fit", &log, "--radio-log", &mission, "--example"]).contains("x.waypoints: line 1: "));
    assert!(
        refused(&["fit", &log, "--radio-log", &radio, "--example", "--shift", "9999"])
            .contains("do both clocks begin together")
    );
}
