//! The noise of a small sensor.

use crate::camera::Yuv;

use super::hash;

/// Adds noise of about 2.3 steps (standard deviation) to luma, stronger where it is dark, and of about one to colour.
pub fn add_noise(picture: &mut Yuv, seed: u32, number: u32) {
    let width = picture.width();
    let (y, u, v) = picture.planes_mut();
    for (line, row) in y.chunks_exact_mut(width).enumerate() {
        let mut luck = Luck::new(line as u32, number, seed);
        for pixel in row {
            // The sum of four bytes has a standard deviation of 148.
            let strength = 3_300 - i32::from(*pixel) * 6;
            let noise = (luck.four_bytes() * strength + (1 << 17)) >> 18;
            *pixel = (i32::from(*pixel) + noise).clamp(16, 235) as u8;
        }
    }
    for (plane, salt) in [(u, 1), (v, 2)] {
        for (line, row) in plane.chunks_exact_mut(width / 2).enumerate() {
            let mut luck = Luck::new(line as u32, number, seed ^ salt << 20);
            for pixel in row {
                *pixel = (i32::from(*pixel) + ((luck.four_bytes() * 7 + 512) >> 10)).clamp(16, 240) as u8;
            }
        }
    }
}

/// Random bytes, a line's worth.
struct Luck {
    state: u64,
    spare: Option<u32>,
}

impl Luck {
    fn new(line: u32, number: u32, seed: u32) -> Self {
        let state = u64::from(hash(line, number, seed)) << 32 | u64::from(hash(number, line, !seed)) | 1;
        Self { state, spare: None }
    }

    /// Sum of four random bytes, less its mean.
    fn four_bytes(&mut self) -> i32 {
        let word = self.spare.take().unwrap_or_else(|| {
            // Marsaglia's xorshift64.
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            self.spare = Some((self.state >> 32) as u32);
            self.state as u32
        });
        word.to_le_bytes().into_iter().map(i32::from).sum::<i32>() - 510
    }
}
