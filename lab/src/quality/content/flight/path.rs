//! Where the aircraft is and how it is held.

use super::smooth_noise;

/// Metres flown in a frame: 18 m/s at 30 frames a second.
const SPEED: f32 = 0.6;
/// Share of a frame's time for which the shutter is open: 1/60 s.
const SHUTTER: f32 = 0.5;

/// Position and attitude at one instant. Angles are slopes or in radians, small enough for both to be the same but for the yaw.
#[derive(Debug, Clone, Copy)]
pub struct Pose {
    /// Metres to the east and to the north.
    pub x: f32,
    pub z: f32,
    /// Metres over the ground below, of some metres around.
    pub above: f32,
    /// Direction of flight as a unit vector: east, north.
    pub ahead: (f32, f32),
    /// Unit vector of the roll: cosine, sine.
    pub roll: (f32, f32),
    /// Of the picture's middle below the horizon, as a slope.
    pub pitch: f32,
    /// Of the picture's middle to the right of the flight's direction, as a slope: shake.
    pub side: f32,
}

/// Attitudes from when the shutter opens to when it closes.
#[derive(Debug, Clone, Copy)]
pub struct Shutter {
    pub opens: Pose,
    pub middle: Pose,
    pub closes: Pose,
}

impl Pose {
    /// The attitudes of a picture.
    pub fn while_open(seed: u32, number: u32) -> Shutter {
        let at = |share: f32| Self::at(seed, (number % (1 << 20)) as f32 + share);
        Shutter { opens: at(0.0), middle: at(SHUTTER / 2.0), closes: at(SHUTTER) }
    }

    fn at(seed: u32, frame: f32) -> Self {
        let slow = |period: f32, salt: u32| smooth_noise(frame / period, seed ^ salt);
        // Turns are flown banked, and the aircraft shakes at 4 and at 10 times a second.
        let bank = slow(75.0, 11) * 0.30;
        let heading = bank_integral(seed, frame) * 0.35;
        let shake = |salt: u32| slow(7.0, salt) * 0.006 + slow(3.0, salt + 1) * 0.0025;
        let ahead = unit(heading);
        Self {
            x: slow(400.0, 23) * 40.0,
            z: frame * SPEED,
            above: 26.0 + slow(120.0, 31) * 8.0,
            ahead,
            roll: unit(bank + shake(41) * 1.5),
            pitch: 0.22 + slow(90.0, 51) * 0.05 + shake(61),
            side: shake(71),
        }
    }
}

/// A heading that turns the way the bank leans: smooth, and never far from north, since the path runs there.
fn bank_integral(seed: u32, frame: f32) -> f32 {
    smooth_noise((frame + 37.5) / 75.0, seed ^ 11) * 0.7 + smooth_noise(frame / 210.0, seed ^ 13)
}

/// Cosine and sine of a small angle (up to about 1 rad), by a rational parametrisation of the circle: a unit vector at any rate.
fn unit(angle: f32) -> (f32, f32) {
    let t = angle * 0.5;
    let t = t * (1.0 + t * t / 3.0);
    let scale = 1.0 / (1.0 + t * t);
    ((1.0 - t * t) * scale, 2.0 * t * scale)
}
