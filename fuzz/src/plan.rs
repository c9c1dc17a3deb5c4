//! What a flight is planned from: nothing makes a reader panic, what is refused is refused with its place, and what is
//! accepted can be flown, forecast, written and read again.

use aquila_plan::antenna::{Antenna, Pattern};
use aquila_plan::fault::{ParseError, Place};
use aquila_plan::flight::airframe::{Airframe, Wind};
use aquila_plan::flight::{Track, planned, recorded};
use aquila_plan::forecast::Forecast;
use aquila_plan::geodesy::{Frame, Position};
use aquila_plan::mission::{self, Mission, qgc, wpl};
use aquila_plan::scenario::{Scenario, Way};
use aquila_plan::terrain::Terrain;
use aquila_plan::{log, write};

/// Seconds that are flown.
const HORIZON_S: f64 = 120.0;

/// The input is a mission, in either format.
pub fn mission(data: &[u8]) {
    let mission = match mission::parse(data) {
        Ok(mission) => mission,
        Err(error) => return refused(data, &error),
    };
    let node = mission.home.and_then(|[latitude, longitude, altitude]| Position::new(latitude, longitude, altitude));
    let node = Frame::new(node.unwrap_or(NODE));
    let wind = Wind { speed_mps: 5.0, from_deg: 70.0 };
    let fly = |mission: &Mission| planned::fly(mission, &node, 0.0, None, &Airframe::default(), wind, HORIZON_S);
    let track = fly(&mission);
    if let Ok(track) = &track {
        check(track, HORIZON_S as usize + 1);
    }
    let written = [wpl::write(&mission), qgc::write(&mission, 18.0)];
    for (text, is_exact) in written.iter().zip([true, false]) {
        let again = match mission::parse(text.as_bytes()) {
            Ok(again) => again,
            Err(_) if mission.items.is_empty() => continue,
            Err(error) => panic!("what was written is refused: {error}\n{text}"),
        };
        assert_eq!(again.items.len(), mission.items.len());
        if mission.home.is_some() {
            let (one, other) = (fly(&again).ok(), track.as_ref().ok());
            assert_eq!(one.is_some(), other.is_some());
            // The last digit of a number may get lost in JSON.
            if is_exact {
                assert_eq!(one.map(|track| track.moments), other.map(|track| track.moments.clone()));
            }
        }
    }
}

/// The input is a log of an autopilot, of either kind.
pub fn flight_log(data: &[u8]) {
    let flown = match log::parse(data) {
        Ok(flown) => flown,
        Err(error) => return refused(data, &error),
    };
    let last = flown.fixes.last().map_or(0.0, |fix| fix.at_s);
    assert!(flown.fixes.is_sorted_by(|one, other| one.at_s < other.at_s) && last <= log::LONGEST_S);
    // A flight of a day is not looked at again and again.
    if last < 2_000.0 {
        let node = Frame::new(flown.fixes[0].position);
        if let Ok(track) = recorded::track(&flown, &node) {
            check(&track, last as usize + 1);
        }
    }
}

/// The input is what a radio said, an antenna's pattern, or a grid of heights.
pub fn tables(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    match log::radio::parse(text) {
        Ok(samples) => assert!(samples.is_sorted_by(|one, other| one.at_s < other.at_s)),
        Err(error) => refused(text.as_bytes(), &error),
    }
    match Pattern::parse(text) {
        Ok(pattern) => {
            let antenna = Antenna::Table { file: String::new(), pattern };
            for elevation in [-90.0, -1.5, 0.0, 33.3, 90.0] {
                assert!(antenna.gain_dbi(elevation, 0.0) <= antenna.peak_dbi() + 1e-9);
            }
        }
        Err(error) => refused(text.as_bytes(), &error),
    }
    match Terrain::parse(text) {
        Ok(terrain) => {
            let there = Position { latitude_deg: NODE.latitude_deg + 0.2, altitude_m: 300.0, ..NODE };
            assert!(terrain.height_m(NODE.latitude_deg, NODE.longitude_deg).is_finite());
            assert!(terrain.loss_db(&Frame::new(NODE), there, 0.05, 4.0 / 3.0) >= 0.0);
            assert!(terrain.highest_m(there, 60.0) >= 0.0);
        }
        Err(error) => refused(text.as_bytes(), &error),
    }
}

/// The input is a scenario; the files that it names are all the same small mission.
pub fn scenario(data: &[u8]) {
    let load = |_: &str| Ok(b"QGC WPL 110\n0 1 0 16 0 0 0 0 63.6 9.7 0 1\n1 0 3 18 1 0 90 0 63.6 9.7 100 1\n".to_vec());
    let Ok(mut scenario) = Scenario::parse(data, &load).inspect_err(|error| {
        if error.file.is_empty() {
            refused(data, &error.error);
        }
    }) else {
        return;
    };
    scenario.model.seeds = scenario.model.seeds.min(2);
    scenario.flights.truncate(2);
    for flight in &mut scenario.flights {
        flight.horizon_s = flight.horizon_s.min(HORIZON_S);
        if let Way::Loiter(loiter) = &mut flight.way {
            loiter.lasts_s = loiter.lasts_s.min(HORIZON_S);
        }
    }
    for flight in &scenario.flights {
        let Ok(track) = scenario.fly(flight) else { continue };
        let forecast = Forecast::new(&scenario, &flight.name, &track);
        let volume = forecast.volume;
        assert!(
            volume.p10_bits <= volume.p50_bits && volume.p50_bits <= volume.p90_bits && volume.p90_bits.is_finite()
        );
        let trace = write::trace(&scenario, &forecast);
        let read = aquila_emu::trace::csv::scan(trace.as_bytes());
        // A rate of less than a bit a second is written as none.
        if forecast.seconds.iter().any(|second| second.link.rate_bps >= 1.0) {
            assert_eq!(read.expect("the lab reads it").items, forecast.seconds.len() as u64);
        }
    }
}

const NODE: Position = Position { latitude_deg: 63.4, longitude_deg: 10.2, altitude_m: 0.0 };

/// It is within the file, and says something.
fn refused(data: &[u8], error: &ParseError) {
    let lines = data.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
    match error.place {
        Place::File => {}
        Place::Line(line) => assert!((1..=lines).contains(&line), "{error}"),
        Place::Byte(byte) => assert!(byte <= data.len() as u64, "{error}"),
    }
    assert!(!error.reason.is_empty());
}

fn check(track: &Track, most: usize) {
    assert!(!track.moments.is_empty() && track.moments.len() <= most);
    for moment in &track.moments {
        assert!(moment.position.latitude_deg.is_finite() && moment.position.altitude_m.is_finite());
        assert!((0.0..360.0).contains(&moment.heading_deg) && moment.roll_deg.abs() <= 180.0, "{moment:?}");
    }
}
