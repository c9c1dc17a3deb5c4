//! Missions as ground stations store them: a list of commands, of which those that move the aircraft count here.
//!
//! Numbers are those of MAV_CMD and MAV_FRAME in MAVLink's `common.xml`.

pub mod qgc;
pub mod wpl;

use crate::fault::{ParseError, text};

/// Items of a mission; longer ones are refused.
pub const MAX_ITEMS: usize = 10_000;

/// Larger files are refused: JSON takes many times its size in memory, and 10,000 items have some MB.
const MAX_BYTES: usize = 16 << 20;

/// Numbers of MAV_CMD.
pub mod command {
    /// Fly there.
    pub const WAYPOINT: u16 = 16;
    /// Circle for good: radius in the third parameter, counter-clockwise if it is negative.
    pub const LOITER_UNLIM: u16 = 17;
    /// Circle so many turns: the first parameter; radius in the third.
    pub const LOITER_TURNS: u16 = 18;
    /// Circle so many seconds: the first parameter; radius in the third.
    pub const LOITER_TIME: u16 = 19;
    /// Fly back to where it started.
    pub const RETURN_TO_LAUNCH: u16 = 20;
    /// Land there.
    pub const LAND: u16 = 21;
    /// Climb to the altitude.
    pub const TAKEOFF: u16 = 22;
    /// Circle until at the altitude: radius in the second parameter.
    pub const LOITER_TO_ALT: u16 = 31;
    /// A point of a smooth curve.
    pub const SPLINE_WAYPOINT: u16 = 82;
    /// The greatest number of a command that moves the aircraft.
    pub const LAST_NAV: u16 = 95;
    /// Go on with another item: its number, and how often (-1: for ever).
    pub const DO_JUMP: u16 = 177;
    /// Another speed: kind in the first parameter, m/s in the second.
    pub const DO_CHANGE_SPEED: u16 = 178;
}

/// Numbers of MAV_FRAME.
pub mod frame {
    /// Altitude above the sea.
    pub const GLOBAL: u8 = 0;
    /// No place.
    pub const MISSION: u8 = 2;
    /// Altitude above home.
    pub const RELATIVE: u8 = 3;
    /// As [`GLOBAL`].
    pub const GLOBAL_INT: u8 = 5;
    /// As [`RELATIVE`].
    pub const RELATIVE_INT: u8 = 6;
    /// Altitude above the ground below.
    pub const TERRAIN: u8 = 10;
    /// As [`TERRAIN`].
    pub const TERRAIN_INT: u8 = 11;
}

/// A mission.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mission {
    /// Where the aircraft is armed: latitude, longitude in degrees, altitude above the sea in metres.
    pub home: Option<[f64; 3]>,
    /// What it does.
    pub items: Vec<Item>,
    /// What was left out in reading, and why.
    pub notes: Vec<String>,
}

/// A command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Item {
    /// Number that jumps refer to.
    pub number: u32,
    /// What altitude means: MAV_FRAME.
    pub frame: u8,
    /// MAV_CMD.
    pub command: u16,
    /// Its parameters 1 to 4; NaN, or null in a .plan, is 0.
    pub params: [f64; 4],
    /// Degrees; 0 and 0 stand for where the aircraft is.
    pub latitude_deg: f64,
    /// Degrees.
    pub longitude_deg: f64,
    /// Metres.
    pub altitude_m: f64,
    /// Whether the next item follows by itself.
    pub autocontinue: bool,
}

impl Item {
    /// Whether it has a place of its own.
    pub fn has_place(&self) -> bool {
        self.latitude_deg != 0.0 || self.longitude_deg != 0.0
    }

    fn check(&self) -> Result<(), String> {
        let (latitude, longitude, altitude) = (self.latitude_deg, self.longitude_deg, self.altitude_m);
        // Those of other commands are parameters like others.
        if self.command > command::LAST_NAV {
            return Ok(());
        }
        if !(-90.0..=90.0).contains(&latitude) || !(-180.0..=180.0).contains(&longitude) {
            return Err(format!("{latitude}, {longitude} is no place on Earth"));
        }
        if !(-1_000.0..=100_000.0).contains(&altitude) {
            return Err(format!("an altitude of {altitude} m; from -1000 to 100,000 are known"));
        }
        Ok(())
    }
}

impl Mission {
    /// Its items with numbers from 1 on, and jumps to where they went. Items of a .plan may have other numbers.
    pub fn renumbered(&self) -> Vec<Item> {
        let place = |number: f64| self.items.iter().position(|item| f64::from(item.number) == number);
        let renumber = |(number, item): (u32, &Item)| {
            let mut item = Item { number, ..*item };
            if item.command == command::DO_JUMP {
                let target = item.params[0];
                // One to nowhere stays one: there is no item 0, and none between two others.
                let is_taken = (1.0..=self.items.len() as f64).contains(&target) && target.fract() == 0.0;
                let nowhere = if is_taken { 0.0 } else { target };
                item.params[0] = place(target).map_or(nowhere, |place| place as f64 + 1.0);
            }
            item
        };
        (1..).zip(&self.items).map(renumber).collect()
    }
}

/// Reads a mission, whichever of both formats it is in.
///
/// # Errors
/// What is wrong, and where.
pub fn parse(bytes: &[u8]) -> Result<Mission, ParseError> {
    if bytes.len() > MAX_BYTES {
        return Err(ParseError::file("is larger than 16 MiB"));
    }
    let text = text(bytes)?;
    match text.trim_start().starts_with('{') {
        true => qgc::parse(text),
        false => wpl::parse(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_are_told_apart_and_large_files_refused() {
        assert_eq!(parse(b"\xef\xbb\xbfQGC WPL 110\n0 1 0 16 0 0 0 0 1 2 3 1\n").unwrap().home, Some([1.0, 2.0, 3.0]));
        assert!(parse(b" {\n}").unwrap_err().to_string().contains("line 2: missing field"));
        assert!(parse(b"QGC\n\xff").unwrap_err().to_string().contains("line 2: is not text"));
        assert!(parse(&vec![b'['; MAX_BYTES + 1]).unwrap_err().to_string().contains("16 MiB"));
    }
}
