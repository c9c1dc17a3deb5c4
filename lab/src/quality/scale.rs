//! Another size of a picture: cubic (Catmull-Rom), which is what most players and ffmpeg's scaler do; wider where the picture becomes smaller.

use crate::camera::Yuv;

/// A picture at another size, rounded up to even numbers. Integer arithmetic but for the weights, so the same everywhere.
pub fn scaled(picture: &Yuv, width: usize, height: usize) -> Yuv {
    let mut to = Yuv::new(width, height);
    if (to.width(), to.height()) == (picture.width(), picture.height()) {
        return picture.clone();
    }
    let from_size = (picture.width(), picture.height());
    let to_size = (to.width(), to.height());
    let half = |(width, height): (usize, usize)| (width / 2, height / 2);
    let (y, u, v) = to.planes_mut();
    scale_plane(picture.y(), from_size, y, to_size);
    scale_plane(picture.u(), half(from_size), u, half(to_size));
    scale_plane(picture.v(), half(from_size), v, half(to_size));
    to
}

/// Fractional bits of weights.
const BITS: u32 = 12;

/// What a sample is made of: the first sample that counts, and weights from there on, which add up to one.
struct Taps {
    first: i32,
    weights: Vec<i32>,
}

fn scale_plane(from: &[u8], from_size: (usize, usize), to: &mut [u8], to_size: (usize, usize)) {
    let (across, down) = (taps(from_size.0, to_size.0), taps(from_size.1, to_size.1));
    let lines: Vec<Vec<u8>> = from
        .chunks_exact(from_size.0)
        .map(|line| across.iter().map(|taps| taps.apply(from_size.0, |at| line[at])).collect())
        .collect();
    for (row, taps) in to.chunks_exact_mut(to_size.0).zip(&down) {
        for (column, sample) in row.iter_mut().enumerate() {
            *sample = taps.apply(from_size.1, |at| lines[at][column]);
        }
    }
}

impl Taps {
    /// Beyond the edge lies the edge.
    fn apply(&self, len: usize, sample: impl Fn(usize) -> u8) -> u8 {
        let weighted = self.weights.iter().zip(self.first..).map(|(weight, at)| {
            let at = at.clamp(0, len as i32 - 1) as usize;
            weight * i32::from(sample(at))
        });
        ((weighted.sum::<i32>() + (1 << (BITS - 1))) >> BITS).clamp(0, 255) as u8
    }
}

fn taps(from: usize, to: usize) -> Vec<Taps> {
    let step = from as f64 / to as f64;
    let reach = step.max(1.0);
    (0..to)
        .map(|n| {
            let middle = (n as f64 + 0.5) * step - 0.5;
            let first = (middle - 2.0 * reach).ceil() as i32;
            let last = (middle + 2.0 * reach).floor() as i32;
            let raw: Vec<f64> = (first..=last).map(|at| cubic((f64::from(at) - middle) / reach)).collect();
            let sum: f64 = raw.iter().sum();
            let mut weights: Vec<i32> =
                raw.iter().map(|weight| (weight / sum * f64::from(1 << BITS)).round() as i32).collect();
            // What rounding has left over goes to the largest.
            let rest = (1 << BITS) - weights.iter().sum::<i32>();
            if let Some(largest) = weights.iter_mut().max() {
                *largest += rest;
            }
            Taps { first, weights }
        })
        .collect()
}

/// Keys' cubic with a = -1/2.
fn cubic(distance: f64) -> f64 {
    let x = distance.abs();
    if x < 1.0 {
        (1.5 * x - 2.5) * x * x + 1.0
    } else if x < 2.0 {
        ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::camera::psnr_luma_db;
    use crate::quality::content::Flight;

    #[test]
    fn a_flat_picture_stays_flat() {
        let picture = Yuv::new(64, 36);
        assert!(scaled(&picture, 50, 20).y().iter().all(|y| *y == 16));
        assert!(scaled(&picture, 128, 72).u().iter().all(|u| *u == 128));
    }

    #[test]
    fn up_and_down_again_gives_nearly_the_same() {
        let picture = Flight::new(1, 160, 90).render(0);
        let back = scaled(&scaled(&picture, 320, 180), 160, 90);
        assert!(psnr_luma_db(&picture, &back).unwrap() > 35.0, "{:?} dB", psnr_luma_db(&picture, &back));
    }

    #[test]
    fn a_ramp_stays_where_it_is() {
        let mut ramp = Yuv::new(128, 4);
        ramp.planes_mut().0.iter_mut().enumerate().for_each(|(n, y)| *y = (n % 128 + 50) as u8);
        let small = scaled(&ramp, 64, 4);
        // Sample n of the small one lies between 2n and 2n + 1 of the large one.
        (4..60).for_each(|n| assert!(small.y()[n].abs_diff((2 * n + 51) as u8) <= 1));
    }
}
