use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn none(name: &str) -> Result<Vec<u8>, String> {
    Err(format!("there is no {name}"))
}

fn refused(text: &str) -> String {
    Scenario::parse(text.as_bytes(), &none).unwrap_err().to_string()
}

#[test]
fn the_example_has_every_key_with_its_default() {
    let example = Scenario::example().unwrap();
    assert_eq!(
        (&example.radio, &example.aircraft, example.wind),
        (&Radio::default(), &Airframe::default(), Wind::default())
    );
    assert_eq!((example.model, &example.sweep), (Model::default(), &Axes::default()));
    assert_eq!(example.warnings, Limits::default());
    let node = Node {
        latitude_deg: 63.62,
        longitude_deg: 9.72,
        heading_deg: 40.0,
        obstacles: example.node.obstacles.clone(),
        ..Node::default()
    };
    assert_eq!(example.node, node);
    let Way::Loiter(first) = &example.flights[0].way else { panic!("not a loiter") };
    let Way::Loiter(second) = &example.flights[1].way else { panic!("not a loiter") };
    // What the first says in full are the defaults of the second.
    assert_eq!(Loiter { altitude_m: 200.0, ..*first }, *second);
    // All keys of all structures are named.
    let parts = [
        serde_json::to_value(&example.node).unwrap(),
        serde_json::to_value(&example.radio).unwrap(),
        serde_json::to_value(&example.aircraft).unwrap(),
        serde_json::to_value(example.wind).unwrap(),
        serde_json::to_value(example.model).unwrap(),
        serde_json::to_value(example.warnings).unwrap(),
        serde_json::to_value(first).unwrap(),
        serde_json::to_value(&example.sweep).unwrap(),
        serde_json::to_value(&example.files).unwrap(),
    ];
    fn keys(value: &Value, to: &mut Vec<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| {
                to.push(key.clone());
                keys(value, to);
            }),
            Value::Array(values) => values.iter().for_each(|value| keys(value, to)),
            _ => {}
        }
    }
    let mut all = Vec::new();
    parts.iter().for_each(|part| keys(part, &mut all));
    all.extend(["terrain", "title", "horizon_s", "mission", "log", "name"].map(String::from));
    assert!(all.len() > 50);
    for key in all {
        let is_named = EXAMPLE.contains(&format!("{key} = "))
            || EXAMPLE.contains(&format!("[{key}]"))
            || EXAMPLE.contains(&format!(".{key}]"));
        assert!(is_named, "{key} is not in packaging/flight.toml");
    }
}

#[test]
fn what_is_commented_out_of_the_example_can_be_used() {
    let text = EXAMPLE
        .replace("# mcs = [", "mcs = [")
        .replace("# terrain = ", "terrain = ")
        .replace("# [[flight]]\n# mission", "[[flight]]\nmission")
        .replace("# horizon_s = 3600.0 ", "horizon_s = 3600.0 ")
        .replace("# [[flight]]\n# log", "[[flight]]\nlog");
    let load = |name: &str| {
        Ok(match name {
            "dem.asc" => b"ncols 1\nnrows 1\nxllcorner 9\nyllcorner 63\ncellsize 1\n0\n".to_vec(),
            "survey.waypoints" => b"QGC WPL 110\n0 1 0 16 0 0 0 0 63.62 9.72 0 1\n".to_vec(),
            "00000042.bin" => crate::log::dataflash::tests::sample(3),
            other => return Err(format!("what is {other}?")),
        })
    };
    let scenario = Scenario::parse(text.as_bytes(), &load).unwrap();
    assert_eq!((scenario.flights.len(), scenario.radio.mcs.len(), scenario.terrain.is_some()), (5, 2, true));
    assert_eq!((scenario.flights[3].name.as_str(), scenario.flights[3].horizon_s), ("survey.waypoints", 3_600.0));
}

#[test]
fn mistakes_are_said_with_their_line_or_their_name() {
    for (text, wanted) in [
        ("[radio]\neirp = 3\n", "line 2: unknown field `eirp`"),
        ("[node]\nheading_deg = \"north\"\n", "line 2: invalid type"),
        ("[node\n", "line 1: "),
        ("[radio]\neirp_dbm = 900.0\n", "radio: eirp_dbm is 900; it must be from -30 to 90"),
        ("[radio]\neirp_dbm = nan\n", "radio: eirp_dbm is NaN"),
        ("[model.sea]\nwave_rms_m = -1.0\n", "model.sea: wave_rms_m"),
        (
            "[[node.obstacle]]\nfrom_deg=0.0\nto_deg=9.0\ntop_deg=9.0\ndistance_m=0.0\n",
            "node.obstacle 1: distance_m is 0",
        ),
        ("[[flight]]\nname = \"x\"\n", "flight 1: needs one of loiter, mission and log"),
        ("[[flight]]\nloiter = { altitude_m = 100.0, radius_m = 0.0 }\n", "flight 1: radius_m is 0"),
        ("[[flight]]\nmission = \"a.plan\"\n", "a.plan: there is no a.plan"),
        ("[aircraft.antenna]\nkind = \"table\"\nfile = \"p.csv\"\n", "p.csv: there is no p.csv"),
        ("[aircraft.antenna]\nkind = \"horn\"\n", "unknown variant `horn`"),
        ("[sweep]\naltitude_m = []\n", "sweep: each axis needs a value"),
        ("[[file]]\nname = \"x\"\nsize_mb = 0.0\n", "file 1: size_mb is 0"),
        ("[model]\nearth_factor = 0.0\n", "model: earth_factor is 0"),
        ("[warnings]\nshare = 2.0\n", "warnings: share is 2"),
        ("[aircraft]\nroll_rate_dps = 0.0\n", "aircraft: roll_rate_dps is 0"),
        ("[node]\nlatitude_deg = 91.0\n", "node: latitude_deg"),
    ] {
        let error = refused(text);
        assert!(error.contains(wanted), "{text}: {error}");
    }
    assert_eq!(refused(&"#".repeat(MAX_BYTES + 1)), "is larger than 1 MiB");
    let load = |_: &str| Ok(b"QGC WPL 110\n1 2\n".to_vec());
    let error = Scenario::parse(b"[[flight]]\nmission = \"a.waypoints\"\n", &load).unwrap_err().to_string();
    assert_eq!(error, "a.waypoints: line 2: 2 columns; there are 12");
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(at in 0usize..EXAMPLE.len(), byte in 32u8..127, cut in 0usize..40) {
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        bytes[at] = byte;
        bytes.drain(at..(at + cut).min(EXAMPLE.len()));
        if let Ok(scenario) = Scenario::parse(&bytes, &none) {
            for flight in scenario.flights.iter().take(1) {
                let short = match &flight.way { Way::Loiter(loiter) => Way::Loiter(Loiter { lasts_s: loiter.lasts_s.min(20.0), ..*loiter }), way => way.clone() };
                let mut scenario = scenario.clone();
                scenario.model.seeds = 2;
                if let Ok(track) = scenario.fly(&Flight { way: short, ..flight.clone() }) {
                    let forecast = crate::forecast::Forecast::new(&scenario, "x", &track);
                    prop_assert!(forecast.volume.p50_bits.is_finite());
                }
            }
        }
    }
}
