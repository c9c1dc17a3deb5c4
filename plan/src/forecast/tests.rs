//! The paper's experiment, and what a forecast promises.

use super::*;
use crate::forecast::warnings::Severity;
use crate::radio::LossReading;
use crate::radio::shadowing::Shadowing;
use crate::scenario::Way;

/// Of a flight, with the chance of a seed and that of another for the budget.
fn carried(scenario: &Scenario, flight: usize, seed: u64, budget_db: f64) -> f64 {
    let geometry = Geometry::new(scenario);
    let track = scenario.fly(&scenario.flights[flight]).unwrap();
    let sights: Vec<Sight> = track.moments.iter().map(|moment| geometry.sight(moment)).collect();
    play(scenario, &track, &sights, seed, budget_db).iter().map(Conditions::goodput_bps).sum()
}

/// [DATA-MULES §V.B, §VII]: higher is better, and the far one is worst.
#[test]
fn the_papers_trajectories_come_out_in_the_papers_order() {
    for (loss, deviation_db) in [(LossReading::MacArq, 0.0), (LossReading::OneLessCcq, 0.0), (LossReading::MacArq, 3.0)]
    {
        let mut scenario = Scenario::example().unwrap();
        scenario.radio.loss = loss;
        let budget = Shadowing { deviation_db, ..Shadowing::default() };
        let in_order = (0..200).filter(|seed| {
            // Each flight has luck of its own on the way; what is not known of the budget is the same for all.
            let budget_db = Shadow::new(budget, *seed).next_db(0.0);
            let volumes = [0, 1, 2].map(|n| carried(&scenario, n, 1_000 + seed * 3 + n as u64, budget_db));
            volumes[0] > volumes[1] && volumes[1] > volumes[2]
        });
        let count = in_order.count();
        println!("{loss:?}, budget ±{deviation_db} dB: {count} of 200");
        assert!(count >= 190, "{loss:?}, {deviation_db} dB: {count} of 200");
    }
}

#[test]
fn the_superstructure_makes_dips_by_bearing() {
    let scenario = Scenario::example().unwrap();
    let track = scenario.fly(&scenario.flights[1]).unwrap();
    let forecast = Forecast::new(&scenario, "low", &track);
    let mean = |from: f64, to: f64| {
        let within = forecast.seconds.iter().filter(|second| (from..to).contains(&second.sight.relative_bearing_deg));
        let rates: Vec<f64> = within.map(|second| second.link.goodput_bps() / 1e6).collect();
        assert!(rates.len() > 10);
        rates.iter().sum::<f64>() / rates.len() as f64
    };
    let (behind, open) = (mean(-50.0, 50.0), mean(90.0, 150.0));
    println!("{behind:.1} Mbit/s behind the superstructure, {open:.1} in the open");
    assert!(behind < open / 3.0, "{behind} behind it, {open} in the open");
    let masked = forecast.warnings.iter().find(|warning| warning.text.contains("superstructure")).unwrap();
    assert!(masked.severity == Severity::Link && masked.text.contains("degrees from the bow"), "{masked:?}");
}

#[test]
fn volumes_are_of_all_seeds_and_windows_of_the_flight() {
    let mut scenario = Scenario::example().unwrap();
    (scenario.model.seeds, scenario.model.budget_deviation_db) = (50, 0.0);
    // Behind the crane and the wheelhouse there is nothing at all.
    for obstacle in &mut scenario.node.obstacles {
        (obstacle.depth_db, obstacle.distance_m, obstacle.top_deg) = (60.0, 60.0, 60.0);
    }
    let track = scenario.fly(&scenario.flights[1]).unwrap();
    let forecast = Forecast::new(&scenario, "low", &track);
    let volume = forecast.volume;
    assert!(volume.p10_bits < volume.p50_bits && volume.p50_bits < volume.p90_bits && volume.seeds == 50);
    assert!((volume.of_seed_bits / volume.p50_bits - 1.0).abs() < 0.1);
    let windows = &forecast.windows;
    assert!(windows.len() >= 2 && windows.windows(2).all(|pair| pair[0].to_s + 2 < pair[1].from_s), "{windows:?}");
    let sum: f64 = windows.iter().map(|window| window.p50_bits).sum();
    assert!((sum / volume.p50_bits - 1.0).abs() < 0.03, "{sum} {volume:?}");
    assert!(forecast.warnings.iter().any(|warning| warning.text.starts_with("no contact for")));
    assert_eq!(Forecast::new(&scenario, "low", &track), forecast);
    let files = &forecast.files[0];
    assert!(files.p10_count <= files.p50_count && files.p50_count <= files.p90_count && files.p50_count > 0);
    let most = (volume.p90_bits * 0.95 / (40.0 * 8e6)).floor() as u32;
    assert_eq!(files.p90_count, most.min(14));
}

#[test]
fn what_is_dangerous_is_said() {
    let mut scenario = Scenario::example().unwrap();
    let mut said = |altitude_m: f64, radius_m: f64, change: &dyn Fn(&mut Scenario)| {
        change(&mut scenario);
        let Way::Loiter(loiter) = &mut scenario.flights[0].way else { panic!("not a loiter") };
        (loiter.altitude_m, loiter.radius_m) = (altitude_m, radius_m);
        let track = scenario.fly(&scenario.flights[0]).unwrap();
        let warnings = Forecast::new(&scenario, "x", &track).warnings;
        let dangers = warnings.into_iter().filter(|warning| warning.severity == Severity::Danger);
        dangers.map(|warning| warning.text).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(said(300.0, 400.0, &|_| {}), "");
    assert!(said(60.0, 400.0, &|_| {}).contains("60 m above the node's ground; the lowest safe altitude is 100 m"));
    // 18² / (9.81 · 40 m): 39.5 degrees; and 12 m/s / √cos is 13.7.
    assert!(said(300.0, 40.0, &|_| {}).contains("banks by 40 degrees; bank_limit_deg is 35"));
    assert!(said(300.0, 40.0, &|scenario| scenario.aircraft.stall_mps = 17.0).contains("stalls at 19.4 m/s"));
    let hill = "ncols 3\nnrows 3\nxllcorner 9\nyllcorner 63\ncellsize 0.5\n0 0 0\n0 360 0\n0 0 0\n";
    let text = said(300.0, 400.0, &|scenario| scenario.terrain = Some(crate::terrain::Terrain::parse(hill).unwrap()));
    assert!(text.contains("of the ground; clearance_m is 60"), "{text}");
}

#[test]
fn nulls_and_hills_cost_volume() {
    let mut scenario = Scenario::example().unwrap();
    let before = carried(&scenario, 0, 1, 0.0);
    scenario.node.antenna = crate::antenna::Antenna::Omni { gain_dbi: 9.0, beamwidth_deg: 14.0, floor_db: 25.0 };
    let track = scenario.fly(&scenario.flights[0]).unwrap();
    let warnings = Forecast::new(&scenario, "x", &track).warnings;
    assert!(
        warnings.iter().any(|warning| warning.text.contains("the node's antenna is 10 dB and more below")),
        "{warnings:?}"
    );
    assert!(carried(&scenario, 0, 1, 0.0) < before * 0.8);
}

#[test]
fn bank_turns_the_aircrafts_antenna() {
    let mut scenario = Scenario::example().unwrap();
    let mut gain = |radius_m: f64, clockwise| {
        let Way::Loiter(loiter) = &mut scenario.flights[0].way else { panic!("not a loiter") };
        (loiter.altitude_m, loiter.radius_m, loiter.clockwise, loiter.lasts_s) = (radius_m, radius_m, clockwise, 30.0);
        let track = scenario.fly(&scenario.flights[0]).unwrap();
        Geometry::new(&scenario).sight(&track.moments[15])
    };
    // The node is 45 degrees below, less what its antenna is high, and on the side of the lower wing: below that wing
    // it is less deep.
    for (radius_m, bank) in [(100.0, 18.3), (400.0, 4.7)] {
        for clockwise in [true, false] {
            let sight = gain(radius_m, clockwise);
            let level = -((radius_m - 6.0) / radius_m).atan().to_degrees();
            assert!((sight.aircraft_elevation_deg - (level + bank)).abs() < 0.3, "{sight:?}");
            assert!((sight.aircraft_bearing_deg - if clockwise { 90.0 } else { -90.0 }).abs() < 1.0, "{sight:?}");
        }
    }
    assert!(gain(100.0, true).aircraft_gain_dbi > gain(400.0, true).aircraft_gain_dbi + 1.0);
}
