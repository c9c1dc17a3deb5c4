use super::*;
use crate::flight::Track;
use crate::forecast::play;
use crate::mission::{Item, Mission, frame};
use crate::radio::path_loss::PathLoss;

/// Four times around the ship, out for 8 km and back, and around again: a flight for measuring.
fn flight(scenario: &Scenario) -> Track {
    let node = crate::geodesy::Frame::new(scenario.node.position());
    let item = |number, command, params, east: f64, north: f64, altitude_m| {
        let place = node.place(east, north, 0.0);
        Item {
            number,
            frame: frame::RELATIVE,
            command,
            params,
            latitude_deg: place.latitude_deg,
            longitude_deg: place.longitude_deg,
            altitude_m,
            autocontinue: true,
        }
    };
    let items = vec![
        item(1, 18, [2.0, 0.0, 300.0, 0.0], 0.0, 0.0, 120.0),
        item(2, 18, [2.0, 0.0, 300.0, 0.0], 0.0, 0.0, 250.0),
        item(3, 16, [0.0; 4], -6_000.0, 5_300.0, 250.0),
        item(4, 16, [0.0; 4], -500.0, 400.0, 250.0),
        item(5, 18, [3.0, 0.0, -200.0, 0.0], 0.0, 0.0, 150.0),
    ];
    let mission = Mission { home: None, items, notes: Vec::new() };
    let airframe = &scenario.aircraft;
    crate::flight::planned::fly(&mission, &node, 0.0, None, airframe, scenario.wind, 7_200.0).unwrap()
}

/// What a radio would have logged with other constants than the scenario's.
fn logged(truth: &Scenario, track: &Track, seed: u64) -> Vec<Sample> {
    let geometry = Geometry::new(truth);
    let sights: Vec<Sight> = track.moments.iter().map(|moment| geometry.sight(moment)).collect();
    let links = play(truth, track, &sights, seed, 0.0);
    let sample = |(second, link): (u32, &crate::radio::rate::Conditions)| Sample {
        at_s: f64::from(second),
        snr_db: Some(link.snr_db),
        tx_bps: Some(link.tx_bps),
        ccq: None,
    };
    (0..).zip(&links).map(sample).collect()
}

fn truth(scenario: &Scenario) -> Scenario {
    let mut truth = scenario.clone();
    truth.model.path_loss = PathLoss { exponent: 2.25, offset_db: -4.0, ..PathLoss::default() };
    truth.node.obstacles[0].depth_db = 12.0;
    truth
}

#[test]
fn a_synthetic_flight_gives_its_constants_back() {
    let scenario = Scenario::example().unwrap();
    let truth = truth(&scenario);
    let track = flight(&scenario);
    let mut worst = [0f64; 3];
    for seed in 0..20 {
        let fitted = fit(&scenario, &track, 0.0, &logged(&truth, &track, seed), 0.0).unwrap();
        let wanted = at_1_km(&truth, &Parameters { offset_db: -4.0, exponent: 2.25, depths_db: vec![] });
        assert!((fitted.at_1_km_db - wanted).abs() < 0.5, "seed {seed}: {fitted:?}, wanted {wanted}");
        assert!((fitted.exponent.after - 2.25).abs() < 0.05, "seed {seed}: {fitted:?}");
        assert!((fitted.depths_db[0].after - 12.0).abs() < 2.5, "seed {seed}: {fitted:?}");
        let off = [fitted.at_1_km_db - wanted, fitted.exponent.after - 2.25, fitted.depths_db[0].after - 12.0];
        worst.iter_mut().zip(off).for_each(|(worst, off)| *worst = worst.max(off.abs()));
        // Standard errors are of the size of the errors.
        let error = fitted.exponent.error.unwrap();
        assert!((0.005..0.04).contains(&error) && (fitted.exponent.after - 2.25).abs() < 4.0 * error, "{fitted:?}");
        assert!((fitted.deviation_db - 2.5).abs() < 0.25 && fitted.mae_after_db < 2.2 && fitted.mae_before_db > 4.0);
        assert!((15.0..27.0).contains(&fitted.distance_m.unwrap()), "{fitted:?}");
        let rate = fitted.rate.unwrap();
        assert!(rate.mae_after_bps < rate.mae_before_bps * 0.6 && rate.mean_bps > 1e7, "{rate:?}");
    }
    println!("worst of 20: budget at 1 km {:.2} dB, exponent {:.3}, depth {:.1} dB off", worst[0], worst[1], worst[2]);
}

#[test]
fn without_chance_it_is_exact_budget_included() {
    let mut scenario = Scenario::example().unwrap();
    scenario.model.shadowing.deviation_db = 0.0;
    let truth = truth(&scenario);
    let track = flight(&scenario);
    let fitted = fit(&scenario, &track, 0.0, &logged(&truth, &track, 1), 0.0).unwrap();
    for (constant, wanted) in [(fitted.offset_db, -4.0), (fitted.exponent, 2.25), (fitted.depths_db[0], 12.0)] {
        assert!((constant.after - wanted).abs() < 1e-3, "{fitted:?}");
    }
    assert!(fitted.mae_after_db < 1e-3);
    let again = apply(&scenario, &fitted);
    assert!((again.model.path_loss.exponent - 2.25).abs() < 1e-3 && again.check().is_ok());
}

#[test]
fn what_a_flight_does_not_tell_is_left_alone() {
    let scenario = Scenario::example().unwrap();
    let track = scenario.fly(&scenario.flights[0]).unwrap();
    let fitted = fit(&scenario, &track, 0.0, &logged(&truth(&scenario), &track, 3), 0.0).unwrap();
    assert_eq!((fitted.exponent.after, fitted.exponent.error), (2.03, None));
    assert_eq!((fitted.depths_db[1].after, fitted.depths_db[1].error), (18.0, None));
    assert!(fitted.notes.iter().any(|note| note.contains("distances flown differ too little")), "{:?}", fitted.notes);
    // What the exponent would have taken is in the offset.
    assert!(fitted.offset_db.after < -7.0 && fitted.mae_after_db < 2.2, "{fitted:?}");
}

#[test]
fn clocks_are_brought_together() {
    let scenario = Scenario::example().unwrap();
    let track = scenario.fly(&scenario.flights[1]).unwrap();
    let mut samples = logged(&scenario, &track, 5);
    let same = fit(&scenario, &track, 7.0, &samples, 0.0).unwrap();
    samples.iter_mut().for_each(|sample| sample.at_s += 1.7e9 - 30.0);
    assert_eq!(fit(&scenario, &track, 1.7e9, &samples, 30.0).unwrap(), same);
    assert_eq!(fit(&scenario, &track, 1.7e9, &samples[..20], 30.0), Err(FitError::Few(20)));
    assert!(
        fit(&scenario, &track, 1.6e9, &samples, 0.0).unwrap_err().to_string().contains("do both clocks begin together")
    );
}
