//! What is certain of a second: where the aircraft is as the node sees it, and the other way round, and what the way
//! between takes.

use serde::Serialize;

use crate::flight::Moment;
use crate::geodesy::{Frame, Local, Position, wrap_180, wrap_360};
use crate::radio::Sender;
use crate::radio::sea::Ways;
use crate::scenario::Scenario;

/// A second, without chance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sight {
    /// Between both antennas, m.
    pub distance_m: f64,
    /// Of the aircraft above the node's horizon, degrees.
    pub elevation_deg: f64,
    /// Of the aircraft from the node, clockwise from north, degrees.
    pub bearing_deg: f64,
    /// The same clockwise from the bow, -180 to 180 degrees.
    pub relative_bearing_deg: f64,
    /// Of the node above the aircraft's own plane, which rolls with it, degrees; below is negative.
    pub aircraft_elevation_deg: f64,
    /// Of the node clockwise from the aircraft's nose, -180 to 180 degrees.
    pub aircraft_bearing_deg: f64,
    /// Of the node's antenna, dBi.
    pub node_gain_dbi: f64,
    /// Of the aircraft's antenna, dBi.
    pub aircraft_gain_dbi: f64,
    /// Over the distance, dB.
    pub path_loss_db: f64,
    /// The superstructure, dB.
    pub obstruction_db: f64,
    /// Hills, dB.
    pub terrain_db: f64,
    /// What the reflection adds, dB.
    pub sea_db: f64,
    /// Signal over noise without chance, dB.
    pub median_snr_db: f64,
}

/// Where the node is and which way the aircraft is turned.
#[derive(Debug)]
pub struct Geometry<'a> {
    scenario: &'a Scenario,
    antenna: Frame,
    wavelength_m: f64,
    /// All that does not change in flight, dB: EIRP, noise, losses, offset, and the sender's best gain, which is in the
    /// EIRP.
    constant_db: f64,
}

impl<'a> Geometry<'a> {
    /// Of a scenario.
    pub fn new(scenario: &'a Scenario) -> Self {
        let (node, radio) = (&scenario.node, &scenario.radio);
        let sender = match radio.sender {
            Sender::Node => &node.antenna,
            Sender::Aircraft => &scenario.aircraft.antenna,
        };
        let antenna = Position { altitude_m: node.ground_m + node.antenna_height_m, ..node.position() };
        Self {
            scenario,
            antenna: Frame::new(antenna),
            wavelength_m: radio.wavelength_m(),
            constant_db: radio.eirp_dbm - sender.peak_dbi() - radio.losses_db - radio.noise_dbm()
                + scenario.model.path_loss.offset_db,
        }
    }

    /// At a moment of a flight.
    pub fn sight(&self, moment: &Moment) -> Sight {
        let (node, model) = (&self.scenario.node, &self.scenario.model);
        let there = self.antenna.to_local(moment.position);
        let (distance_m, elevation_deg, bearing_deg) = (there.length(), there.elevation_deg(), there.azimuth_deg());
        let relative_bearing_deg = wrap_180(bearing_deg - node.heading_deg);
        let back = Local { east: -there.east, north: -there.north, up: -there.up };
        let (aircraft_elevation_deg, aircraft_bearing_deg) = in_body(back, moment);
        let node_gain_dbi = node.antenna.gain_dbi(elevation_deg, relative_bearing_deg);
        let aircraft_gain_dbi = self.scenario.aircraft.antenna.gain_dbi(aircraft_elevation_deg, aircraft_bearing_deg);
        let obstruction_db = node
            .obstacles
            .iter()
            .map(|obstacle| obstacle.loss_db(elevation_deg, relative_bearing_deg, distance_m, self.wavelength_m));
        let obstruction_db = obstruction_db.fold(0.0, f64::max);
        let terrain = self.scenario.terrain.as_ref();
        let terrain_db = terrain.map_or(0.0, |terrain| {
            terrain.loss_db(&self.antenna, moment.position, self.wavelength_m, model.earth_factor)
        });
        let path_loss_db = model.path_loss.loss_db(distance_m, self.wavelength_m);
        let sea_db = self.sea_db(moment, there, relative_bearing_deg, node_gain_dbi + aircraft_gain_dbi);
        let median_snr_db =
            self.constant_db + node_gain_dbi + aircraft_gain_dbi + sea_db - path_loss_db - obstruction_db - terrain_db;
        Sight {
            distance_m,
            elevation_deg,
            bearing_deg,
            relative_bearing_deg,
            aircraft_elevation_deg,
            aircraft_bearing_deg,
            node_gain_dbi,
            aircraft_gain_dbi,
            path_loss_db,
            obstruction_db,
            terrain_db,
            sea_db,
            median_snr_db,
        }
    }

    /// The reflection leaves both antennas downwards.
    fn sea_db(&self, moment: &Moment, there: Local, relative_bearing_deg: f64, direct_dbi: f64) -> f64 {
        let sea = self.scenario.model.sea;
        if !sea.reflects {
            return 0.0;
        }
        let node = &self.scenario.node;
        let along = there.east.hypot(there.north);
        let ways = Ways::new(node.antenna_height_m, moment.position.altitude_m - node.ground_m, along);
        let down = -along * ways.grazing_deg.to_radians().tan();
        let (elevation, bearing) = in_body(Local { east: -there.east, north: -there.north, up: down }, moment);
        let reflected = node.antenna.gain_dbi(-ways.grazing_deg, relative_bearing_deg)
            + self.scenario.aircraft.antenna.gain_dbi(elevation, bearing);
        sea.gain_db(ways, reflected - direct_dbi, self.wavelength_m)
    }
}

/// Elevation and bearing of a direction in an airframe that is turned by heading, pitch and roll, in this order
/// (Stevens and Lewis, Aircraft Control and Simulation, §1.3).
fn in_body(direction: Local, moment: &Moment) -> (f64, f64) {
    let (sin, cos) = moment.heading_deg.to_radians().sin_cos();
    let (north, east, down) = (direction.north, direction.east, -direction.up);
    let (x, y) = (cos * north + sin * east, cos * east - sin * north);
    let (sin, cos) = moment.pitch_deg.to_radians().sin_cos();
    let (x, z) = (cos * x - sin * down, sin * x + cos * down);
    let (sin, cos) = moment.roll_deg.to_radians().sin_cos();
    let (y, z) = (cos * y + sin * z, cos * z - sin * y);
    ((-z).atan2(x.hypot(y)).to_degrees(), wrap_180(wrap_360(y.atan2(x).to_degrees())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(heading_deg: f64, pitch_deg: f64, roll_deg: f64) -> Moment {
        let position = Position { latitude_deg: 0.0, longitude_deg: 0.0, altitude_m: 0.0 };
        Moment { position, ground_speed_mps: 18.0, heading_deg, roll_deg, pitch_deg }
    }

    #[test]
    fn the_airframe_turns_with_its_angles() {
        let close = |(elevation, bearing): (f64, f64), wanted: (f64, f64)| {
            assert!((elevation - wanted.0).abs() < 1e-9 && (bearing - wanted.1).abs() < 1e-9, "{elevation} {bearing}");
        };
        let (east, up) = (Local { east: 1.0, north: 0.0, up: 0.0 }, Local { east: 0.0, north: 0.0, up: 1.0 });
        close(in_body(east, &moment(0.0, 0.0, 0.0)), (0.0, 90.0));
        close(in_body(east, &moment(180.0, 0.0, 0.0)), (0.0, -90.0));
        // Right wing down by 20: what is level to the right is 20 above the wing.
        close(in_body(east, &moment(0.0, 0.0, 20.0)), (20.0, 90.0));
        // Nose up by 10: what is level ahead is 10 below the nose, and the zenith 80 above it.
        close(in_body(east, &moment(90.0, 10.0, 0.0)), (-10.0, 0.0));
        let (elevation, bearing) = in_body(up, &moment(90.0, 10.0, 0.0));
        assert!((elevation - 80.0).abs() < 1e-9 && bearing.abs() < 1e-9);
    }
}
