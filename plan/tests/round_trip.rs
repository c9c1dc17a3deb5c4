//! A circle that is planned, written as a mission, read again, flown, and forecast.

use aquila_plan::flight::planned::Loiter;
use aquila_plan::forecast::Forecast;
use aquila_plan::geodesy::Frame;
use aquila_plan::mission::{self, qgc, wpl};
use aquila_plan::scenario::{Flight, Scenario, Way};
use aquila_plan::write;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_written_flies_the_circle(
        altitude_m in 100.0..600.0f64, radius_m in 60.0..800.0f64, offset_m in 0.0..2_000.0f64, bearing_deg in 0.0..360.0f64,
        clockwise: bool,
    ) {
        let mut scenario = Scenario::example().unwrap();
        scenario.model.seeds = 1;
        let loiter = Loiter { altitude_m, radius_m, offset_m, bearing_deg, clockwise, lasts_s: 300.0 };
        let circle = Flight { name: "circle".into(), way: Way::Loiter(loiter), horizon_s: 3_600.0 };
        let planned = Forecast::new(&scenario, "circle", &scenario.fly(&circle).unwrap());
        let written = write::mission(&scenario, &loiter);
        for text in [wpl::write(&written), qgc::write(&written, 18.0)] {
            let read = mission::parse(text.as_bytes()).unwrap();
            // The last digit of a number may get lost in JSON.
            prop_assert_eq!(read.items.len(), written.items.len());
            for (one, other) in read.items.iter().zip(&written.items) {
                prop_assert_eq!((one.number, one.frame, one.command, one.params.len()), (other.number, other.frame, other.command, 4));
                prop_assert!((one.latitude_deg - other.latitude_deg).abs() < 1e-12 && (one.altitude_m - other.altitude_m).abs() < 1e-9);
                prop_assert!((one.longitude_deg - other.longitude_deg).abs() < 1e-12 && (one.params[2] - other.params[2]).abs() < 1e-9);
            }
            let flight = Flight { way: Way::Mission(read), ..circle.clone() };
            let track = scenario.fly(&flight).unwrap();
            // Once it is on the circle and as high, it is there for as long as was asked.
            let node = Frame::new(scenario.node.position());
            let [east, north] = loiter.center();
            let on_circle: Vec<usize> = track.moments.iter().enumerate().filter(|(_, moment)| {
                let local = node.to_local(moment.position);
                let off = (local.east - east).hypot(local.north - north) - radius_m;
                off.abs() < 1.0 && (moment.position.altitude_m - altitude_m).abs() < 1.0
            }).map(|(second, _)| second).collect();
            let climb_s = altitude_m / scenario.aircraft.climb_mps;
            prop_assert!(on_circle.len() as f64 >= 300.0 - climb_s, "{} s on the circle", on_circle.len());
            let banked = on_circle.iter().filter(|second| (track.moments[**second].roll_deg > 0.0) == clockwise);
            prop_assert!(banked.count() * 100 >= on_circle.len() * 95);
            // Its whole laps carry what those of the plan carry. All that fit into both: seconds of one lap may fall to either side of where the
            // signal is weakest, over the node.
            let flown = Forecast::new(&scenario, "mission", &track);
            let lap_s = std::f64::consts::TAU * radius_m / 18.0;
            let steady = on_circle.chunk_by(|one, next| one + 1 == *next).max_by_key(|run| run.len()).unwrap_or(&[]);
            let laps = (steady.len().min(planned.seconds.len()) as f64 / lap_s).floor();
            if laps >= 1.0 {
                let median = |seconds: &[aquila_plan::forecast::Second]| {
                    seconds.iter().map(|second| second.sight.median_snr_db).sum::<f64>() / seconds.len() as f64
                };
                let (first, long) = (steady[0], (laps * lap_s) as usize);
                let (one, other) = (median(&flown.seconds[first..first + long]), median(&planned.seconds[..long]));
                prop_assert!((one - other).abs() < 0.5, "{} dB, planned {} dB", one, other);
            }
        }
    }
}
