//! What is written: a trace for the lab, and a mission for the autopilot.

use std::fmt::Write;

use crate::flight::planned::Loiter;
use crate::forecast::Forecast;
use crate::geodesy::Frame;
use crate::mission::{Item, Mission, command, frame};
use crate::radio::LossReading;
use crate::scenario::Scenario;

/// A forecast as a CSV that the lab plays: time, rate, delay, and loss or CCQ as the radio's `loss` has it, and behind
/// them, for people, what it was made from. A row a second, with the chance of the scenario's seed.
///
/// What a saturated link carries over it is [`Volume::of_seed_bits`](crate::forecast::volume::Volume::of_seed_bits).
pub fn trace(scenario: &Scenario, forecast: &Forecast) -> String {
    let is_paper = scenario.radio.loss == LossReading::OneLessCcq;
    let share = if is_paper { "ccq" } else { "loss" };
    let name: String = forecast.name.chars().filter(|c| !c.is_control()).collect();
    let mut text = format!(
        "# kind: capacity\n# source: aquila plan flight, {name}, seed {}\n\
         time_s,rate_bps,delay_ms,{share},latitude_deg,longitude_deg,altitude_m,heading_deg,roll_deg,distance_m,\
         elevation_deg,relative_bearing_deg,path_loss_db,obstruction_db,terrain_db,sea_db,node_gain_dbi,aircraft_gain_dbi,\
         snr_db,mcs,tx_mbps,frame_loss\n",
        scenario.model.seed
    );
    for (time, second) in forecast.seconds.iter().enumerate() {
        let (moment, sight, link) = (&second.moment, &second.sight, &second.link);
        let delay_ms = scenario.radio.delay_ms + sight.distance_m / crate::radio::path_loss::LIGHT * 1e3;
        let share = if is_paper { link.ccq } else { link.loss };
        let at = moment.position;
        let _ = writeln!(
            text,
            "{time},{:.0},{delay_ms:.6},{share:.9},{:.7},{:.7},{:.1},{:.1},{:.1},{:.1},{:.2},{:.1},{:.2},{:.2},{:.2},{:.2},\
             {:.2},{:.2},{:.2},{},{},{:.6}",
            link.rate_bps,
            at.latitude_deg,
            at.longitude_deg,
            at.altitude_m,
            moment.heading_deg,
            moment.roll_deg,
            sight.distance_m,
            sight.elevation_deg,
            sight.relative_bearing_deg,
            sight.path_loss_db,
            sight.obstruction_db,
            sight.terrain_db,
            sight.sea_db,
            sight.node_gain_dbi,
            sight.aircraft_gain_dbi,
            link.snr_db,
            link.mcs,
            link.tx_bps / 1e6,
            link.frame_loss
        );
    }
    text
}

/// A mission that flies a circle for ArduPlane: take-off, the circle, and back. Home is the node.
///
/// The circle is LOITER_TURNS if it goes on for up to 255 whole turns: more than asked for, rather than less. ArduPilot
/// stores radii above 255 m of that command in steps of 10 m, and before May 2022 not at all (pull request 20735;
/// [`notes`]). LOITER_TIME would be exact, but ArduPlane flies it with WP_LOITER_RAD (issue 28451).
pub fn mission(scenario: &Scenario, loiter: &Loiter) -> Mission {
    let node = &scenario.node;
    let home = node.position();
    let [east, north] = loiter.center();
    let center = Frame::new(home).place(east, north, node.ground_m);
    let lap_s = std::f64::consts::TAU * loiter.radius_m / scenario.aircraft.airspeed_mps;
    let turns = (loiter.lasts_s / lap_s).ceil().clamp(1.0, 255.0);
    let radius = if loiter.clockwise { loiter.radius_m } else { -loiter.radius_m };
    let item = |number, command, params, latitude_deg, longitude_deg, altitude_m| Item {
        number,
        frame: frame::RELATIVE,
        command,
        params,
        latitude_deg,
        longitude_deg,
        altitude_m,
        autocontinue: true,
    };
    let climb_to = loiter.altitude_m.min(scenario.aircraft.lowest_safe_m.max(30.0));
    Mission {
        home: Some([home.latitude_deg, home.longitude_deg, home.altitude_m]),
        items: vec![
            item(1, command::TAKEOFF, [15.0, 0.0, 0.0, 0.0], 0.0, 0.0, climb_to),
            item(
                2,
                command::LOITER_TURNS,
                [turns, 0.0, radius, 1.0],
                center.latitude_deg,
                center.longitude_deg,
                loiter.altitude_m,
            ),
            item(3, command::RETURN_TO_LAUNCH, [0.0; 4], 0.0, 0.0, 0.0),
        ],
        notes: Vec::new(),
    }
}

/// What somebody who flies [`mission`] has to know.
pub fn notes(loiter: &Loiter) -> Vec<String> {
    let mut notes = Vec::new();
    if loiter.radius_m > 255.0 {
        notes.push(format!(
            "ArduPilot of before May 2022 cannot store a radius of {} m in LOITER_TURNS: there, set it to 0 and WP_LOITER_RAD",
            loiter.radius_m
        ));
        if loiter.radius_m % 10.0 != 0.0 {
            let stored = (loiter.radius_m / 10.0).floor() * 10.0;
            notes.push(format!("ArduPilot stores radii above 255 m in steps of 10 m: it will fly {stored} m"));
        }
    }
    if loiter.radius_m > 2_550.0 {
        notes.push("ArduPilot stores radii of LOITER_TURNS up to 2550 m".into());
    }
    notes
}
