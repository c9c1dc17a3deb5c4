//! The synthetic flight: what a camera in the nose of a small aircraft low over a country with trees would see, seeded.
//!
//! A height map is looked at column by column, near to far, so that hills and trees hide each other and move against each other; the picture
//! is rolled and pitched while the shutter is open, which blurs it as motion does; then the sensor adds its noise. Any picture can be made
//! without those before it. Only additions, multiplications, divisions and square roots of IEEE 754 are used, in a fixed order, and no
//! function of the platform's own, so a seed gives the same bytes on every machine.

mod path;
mod sensor;
mod terrain;
mod view;

use crate::camera::Yuv;
use path::Pose;
use terrain::Terrain;
use view::Canvas;

/// Renders the flight.
#[derive(Debug)]
pub struct Flight {
    seed: u32,
    width: usize,
    height: usize,
    terrain: Terrain,
}

impl Flight {
    /// A flight over a country of its own for each seed, for pictures of this size (rounded up to even numbers).
    pub fn new(seed: u64, width: usize, height: usize) -> Self {
        let seed = (seed ^ (seed >> 32)) as u32;
        let (width, height) = (width.next_multiple_of(2), height.next_multiple_of(2));
        Self { seed, width, height, terrain: Terrain::new(seed) }
    }

    /// The picture with that number, 30 to a second.
    pub fn render(&self, number: u32) -> Yuv {
        let shutter = Pose::while_open(self.seed, number);
        let height_of_ground = |pose: &Pose| self.terrain.height(pose.x, pose.z);
        let canvas =
            Canvas::render(&self.terrain, &shutter, height_of_ground(&shutter.middle), self.width, self.height);
        let mut picture = Yuv::new(self.width, self.height);
        canvas.expose(&shutter, &mut picture);
        sensor::add_noise(&mut picture, self.seed, number);
        picture
    }
}

/// Mixes three numbers to one that looks random.
fn hash(a: u32, b: u32, seed: u32) -> u32 {
    let mut h = a.wrapping_mul(0x9E37_79B1) ^ b.wrapping_mul(0x85EB_CA77) ^ seed.wrapping_mul(0xC2B2_AE3D);
    h ^= h >> 15;
    h = h.wrapping_mul(0x2C1B_3C6D);
    h ^= h >> 12;
    h = h.wrapping_mul(0x297A_2D39);
    h ^ h >> 15
}

/// Noise in -1 to 1 that runs smoothly from one whole number to the next.
fn smooth_noise(at: f32, seed: u32) -> f32 {
    let cell = at.floor();
    let within = at - cell;
    let value = |cell: f32| (hash(cell as i32 as u32, 0, seed) & 0xFFFF) as f32 / 32_768.0 - 1.0;
    let (a, b) = (value(cell), value(cell + 1.0));
    a + (b - a) * within * within * (3.0 - 2.0 * within)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::camera::psnr_luma_db;
    use crate::fnv::Fnv;

    fn hash_of(picture: &Yuv) -> u64 {
        Fnv::default().with([picture.y(), picture.u(), picture.v()].concat()).value()
    }

    #[test]
    fn a_seed_gives_the_same_bytes_everywhere() {
        let flight = Flight::new(1, 320, 180);
        assert_eq!(hash_of(&flight.render(0)), 0xf9bb_e0e5_63cd_5917);
        assert_eq!(hash_of(&flight.render(1_000)), 0x5659_fa80_25a6_14e7);
        assert_ne!(hash_of(&Flight::new(2, 320, 180).render(0)), hash_of(&flight.render(0)));
    }

    #[test]
    fn everything_moves() {
        let flight = Flight::new(1, 640, 360);
        for number in [0, 100, 500] {
            let psnr = psnr_luma_db(&flight.render(number), &flight.render(number + 1)).unwrap();
            assert!((14.0..28.0).contains(&psnr), "{psnr} dB between {number} and the next");
        }
    }

    #[test]
    fn values_keep_within_the_limited_range() {
        let picture = Flight::new(3, 320, 180).render(77);
        assert!(picture.y().iter().all(|y| (16..=235).contains(y)));
        assert!(picture.u().iter().chain(picture.v()).all(|c| (16..=240).contains(c)));
    }
}
