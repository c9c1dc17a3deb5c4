use proptest::prelude::*;

use super::*;
use crate::mission::wpl;

fn node() -> Frame {
    Frame::new(Position::new(63.44, 10.35, 0.0).unwrap())
}

fn circle(altitude_m: f64, radius_m: f64) -> Loiter {
    Loiter { altitude_m, radius_m, offset_m: 0.0, bearing_deg: 0.0, clockwise: true, lasts_s: 300.0 }
}

fn bearing(node: &Frame, position: Position) -> f64 {
    node.to_local(position).azimuth_deg()
}

#[test]
fn a_loiter_is_a_circle_with_the_bank_of_the_book() {
    let node = node();
    let track = circle(300.0, 400.0).fly(&node, 0.0, &Airframe::default(), Wind::default()).unwrap();
    assert_eq!(track.moments.len(), 300);
    // atan(18² / (9.80665 · 400)) = 4.72 degrees.
    for moment in &track.moments {
        let local = node.to_local(moment.position);
        assert!(
            (local.east.hypot(local.north) - 400.0).abs() < 0.1 && (moment.roll_deg - 4.72).abs() < 0.01,
            "{moment:?}"
        );
        assert_eq!((moment.position.altitude_m, moment.ground_speed_mps), (300.0, 18.0));
    }
    // 18 m/s · 100 s / 400 m = 4.5 rad, clockwise from north.
    assert!((bearing(&node, track.moments[100].position) - 4.5f64.to_degrees()).abs() < 0.1);
    assert!((track.moments[0].heading_deg - 90.0).abs() < 1e-6);
    let left = Loiter { clockwise: false, ..circle(300.0, 400.0) };
    let track = left.fly(&node, 0.0, &Airframe::default(), Wind::default()).unwrap();
    assert!(track.moments[150].roll_deg < -4.7 && track.moments[0].heading_deg == 270.0);
}

#[test]
fn wind_makes_one_side_fast_and_steep() {
    let wind = Wind { speed_mps: 8.0, from_deg: 270.0 };
    let track = circle(200.0, 150.0).fly(&node(), 0.0, &Airframe::default(), wind).unwrap();
    let fastest = track.moments.iter().max_by(|a, b| a.ground_speed_mps.total_cmp(&b.ground_speed_mps)).unwrap();
    let slowest = track.moments.iter().min_by(|a, b| a.ground_speed_mps.total_cmp(&b.ground_speed_mps)).unwrap();
    assert!((fastest.ground_speed_mps - 26.0).abs() < 0.2 && (slowest.ground_speed_mps - 10.0).abs() < 0.2);
    // Downwind the ground path's curvature asks for v²/r of the ground speed: atan(26²/150/g) = 24.7 degrees; upwind
    // 3.9.
    assert!((fastest.roll_deg - 24.7).abs() < 0.7, "{fastest:?}");
    assert!((slowest.roll_deg - 3.9).abs() < 0.7, "{slowest:?}");
    let storm = Wind { speed_mps: 18.0, from_deg: 0.0 };
    assert!(matches!(
        circle(200.0, 150.0).fly(&node(), 0.0, &Airframe::default(), storm),
        Err(FlightError::Wind { .. })
    ));
}

/// Home at the node, north and then east.
fn mission(items: &str) -> Mission {
    wpl::parse(&format!("QGC WPL 110\n0\t1\t0\t16\t0\t0\t0\t0\t63.44\t10.35\t0\t1\n{items}")).unwrap()
}

fn flown(items: &str) -> Result<Track, FlightError> {
    fly(&mission(items), &node(), 0.0, None, &Airframe::default(), Wind::default(), 3_600.0)
}

const SQUARE: &str =
    "1 0 3 22 0 0 0 0 0 0 50 1\n2 0 3 16 0 0 0 0 63.45 10.35 100 1\n3 0 3 16 0 0 0 0 63.45 10.37 100 1\n";

#[test]
fn corners_are_cut_with_the_steepest_bank() {
    let track = flown(SQUARE).unwrap();
    // 1114.6 m north, 999 m east at 18 m/s, less what is cut.
    assert!((115..=118).contains(&track.moments.len()), "{}", track.moments.len());
    let steepest = track.moments.iter().map(|moment| moment.roll_deg).fold(0.0, f64::max);
    assert!((steepest - 35.0).abs() < 0.5, "{steepest}");
    let end = track.moments.last().unwrap();
    assert!((end.position.altitude_m - 100.0).abs() < 0.5 && (end.heading_deg - 90.0).abs() < 1.0, "{end:?}");
    // 3 m/s up.
    let ten = track.moments[10].position.altitude_m;
    assert!(ten <= 30.1, "{ten}");
    let jumps = track
        .moments
        .windows(2)
        .map(|pair| crate::geodesy::wrap_180(pair[1].heading_deg - pair[0].heading_deg).abs())
        .fold(0.0, f64::max);
    // g tan 35° / 18 = 21.9 degrees a second.
    assert!(jumps < 23.0, "{jumps}");
}

#[test]
fn circles_are_entered_and_left_along_their_tangents() {
    let track = flown(&format!("{SQUARE}4 0 3 18 2 0 -300 0 63.46 10.37 100 1\n5 0 0 20 0 0 0 0 0 0 0 1\n")).unwrap();
    let node = node();
    let center = flat(&node, 63.46, 10.37);
    let away = |moment: &super::super::Moment| {
        let local = node.to_local(moment.position);
        (local.east - center[0]).hypot(local.north - center[1])
    };
    // Twice around are 3770 m, 209 s, and as far again as to the way home, less than once.
    let around = track.moments.iter().filter(|moment| (away(moment) - 300.0).abs() < 1.0).count();
    assert!((205..=320).contains(&around), "{around}");
    assert!(track.moments.iter().filter(|m| (away(m) - 300.0).abs() < 0.5).all(|m| m.roll_deg < 0.5));
    let turns =
        track.moments.windows(2).map(|pair| crate::geodesy::wrap_180(pair[1].heading_deg - pair[0].heading_deg).abs());
    assert!(turns.fold(0.0, f64::max) < 23.0);
    let end = node.to_local(track.moments.last().unwrap().position);
    assert!(end.east.hypot(end.north) < 20.0, "{end:?}");
}

#[test]
fn jumps_end_and_speeds_change() {
    let loops = "1 0 3 16 0 0 0 0 63.441 10.35 100 1\n2 0 3 16 0 0 0 0 63.442 10.352 100 1\n3 0 0 177 1 3 0 0 0 0 0 1\n4 0 3 16 0 0 0 0 63.45 10.35 100 1\n";
    let once = flown(&loops.replace("177 1 3", "177 1 0")).unwrap().moments.len();
    let thrice = flown(loops).unwrap().moments.len();
    assert!(thrice > once + 30, "{once} {thrice}");
    let for_ever = flown(&loops.replace("177 1 3", "177 1 -1")).unwrap();
    assert!(for_ever.moments.len() == 3_600 && for_ever.notes.iter().any(|note| note.contains("goes on")));
    let fast = flown(&format!(
        "1 0 0 178 0 30 0 0 0 0 0 1\n{}",
        SQUARE.replace("3 0 3", "4 0 3").replace("2 0 3", "3 0 3").replace("1 0 3", "2 0 3")
    ))
    .unwrap();
    assert!(fast.moments.iter().any(|moment| moment.ground_speed_mps > 29.9));
    assert!(flown(&loops.replace("177 1 3", "177 9 3")).unwrap_err().to_string().contains("item 3: jumps to 9"));
    assert!(flown("1 0 10 16 0 0 0 0 63.5 10.4 100 1\n").unwrap_err().to_string().contains("no terrain"));
    assert!(
        flown("1 0 3 16 0 0 0 0 73.5 10.4 100 1\n2 0 3 16 0 0 0 0 63.5 10.4 100 1\n")
            .unwrap_err()
            .to_string()
            .contains("200 km")
    );
    assert_eq!(flown("1 0 0 20 0 0 0 0 0 0 0 1\n").unwrap_err(), FlightError::Nowhere);
}

proptest! {
    #[test]
    fn any_mission_ends_in_time_and_has_no_jumps(
        items in prop::collection::vec((0usize..8, -3_000.0..3_000.0f64, -3_000.0..3_000.0f64, 10.0..400.0f64, -500.0..500.0f64, 0.0..4.0f64), 1..8),
        wind in 0.0..12.0f64,
    ) {
        let node = node();
        let items = (1..).zip(items).map(|(number, (kind, east, north, altitude_m, radius, amount))| {
            let place = node.place(east, north, 0.0);
            let (command, params) = [
                (16, [0.0; 4]), (16, [0.0; 4]), (22, [0.0; 4]), (18, [amount, 0.0, radius, 0.0]), (19, [amount * 20.0, 0.0, radius, 0.0]),
                (31, [0.0, radius, 0.0, 0.0]), (177, [1.0, amount.floor(), 0.0, 0.0]), (17, [0.0, 0.0, radius, 0.0]),
            ][kind];
            Item { number, frame: 3, command, params, latitude_deg: place.latitude_deg, longitude_deg: place.longitude_deg, altitude_m, autocontinue: true }
        });
        let mission = Mission { home: Some([63.44, 10.35, 0.0]), items: items.collect(), notes: vec![] };
        let wind = Wind { speed_mps: wind, from_deg: 200.0 };
        if let Ok(track) = fly(&mission, &node, 0.0, None, &Airframe::default(), wind, 900.0) {
            prop_assert!(!track.moments.is_empty() && track.moments.len() <= 901);
            for pair in track.moments.windows(2) {
                let (one, other) = (node.to_local(pair[0].position), node.to_local(pair[1].position));
                let way = (other.east - one.east).hypot(other.north - one.north);
                prop_assert!(way <= 31.0, "{} {:?}", way, pair);
                prop_assert!(pair[0].roll_deg.abs() <= 90.0 && pair[0].heading_deg.is_finite());
            }
        }
    }
}
