//! Structural similarity (Wang, Bovik, Sheikh, Simoncelli 2004) of luma.

use crate::camera::Yuv;

/// Stabilisers (K1 = 0.01, K2 = 0.03, L = 255).
const C1: f64 = 0.01 * 255.0 * 0.01 * 255.0;
const C2: f64 = 0.03 * 255.0 * 0.03 * 255.0;
/// Pixels of a window.
const PIXELS: f64 = 64.0;

/// Mean over flat windows of 8x8 pixels, one every 4 pixels each way: what x264 and ffmpeg's `ssim` filter do. 1 for equal pictures.
///
/// `None` if their sizes differ or are below 8x8. Lines and columns beyond a multiple of 4 are left out.
pub fn ssim_luma(a: &Yuv, b: &Yuv) -> Option<f64> {
    if (a.width(), a.height()) != (b.width(), b.height()) || a.width() < 8 || a.height() < 8 {
        return None;
    }
    let (columns, rows) = (a.width() / 4, a.height() / 4);
    let (mut sum, mut above) = (0.0, block_sums(a, b, 0, columns));
    for row in 1..rows {
        let below = block_sums(a, b, row, columns);
        for column in 1..columns {
            let four = [above[column - 1], above[column], below[column - 1], below[column]];
            sum += window(four.into_iter().fold(Sums::default(), Sums::add));
        }
        above = below;
    }
    Some(sum / ((columns - 1) * (rows - 1)) as f64)
}

/// Of the pixels a and b of two pictures: sums of a, of b, of a² + b², of ab.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    a: u32,
    b: u32,
    squares: u32,
    products: u32,
}

impl Sums {
    fn add(self, other: Self) -> Self {
        Self {
            a: self.a + other.a,
            b: self.b + other.b,
            squares: self.squares + other.squares,
            products: self.products + other.products,
        }
    }
}

/// Of a row of blocks of 4x4.
fn block_sums(a: &Yuv, b: &Yuv, row: usize, columns: usize) -> Vec<Sums> {
    let mut sums = vec![Sums::default(); columns];
    for line in row * 4..row * 4 + 4 {
        let [a, b] = [a, b].map(|picture| picture.y()[line * picture.width()..][..columns * 4].chunks_exact(4));
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            for (a, b) in a.iter().zip(b) {
                let (a, b) = (u32::from(*a), u32::from(*b));
                *sum = sum.add(Sums { a, b, squares: a * a + b * b, products: a * b });
            }
        }
    }
    sums
}

fn window(sums: Sums) -> f64 {
    let [a, b, squares, products] = [sums.a, sums.b, sums.squares, sums.products].map(f64::from);
    let (mean_a, mean_b) = (a / PIXELS, b / PIXELS);
    // Of samples, not of the population, as in the paper's own program.
    let variances = (squares - (a * a + b * b) / PIXELS) / (PIXELS - 1.0);
    let covariance = (products - a * b / PIXELS) / (PIXELS - 1.0);
    (2.0 * mean_a * mean_b + C1) * (2.0 * covariance + C2)
        / ((mean_a * mean_a + mean_b * mean_b + C1) * (variances + C2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(luma: impl Fn(usize, usize) -> u8) -> Yuv {
        let mut picture = Yuv::new(8, 8);
        picture.planes_mut().0.iter_mut().enumerate().for_each(|(n, y)| *y = luma(n % 8, n / 8));
        picture
    }

    fn close(measured: Option<f64>, expected: f64) {
        let measured = measured.unwrap();
        assert!((measured - expected).abs() < 1e-9, "{measured} for {expected}");
    }

    #[test]
    fn flat_pictures_by_hand() {
        close(ssim_luma(&picture(|_, _| 100), &picture(|_, _| 100)), 1.0);
        // No variance: (2 * 100 * 120 + C1) / (100² + 120² + C1).
        close(ssim_luma(&picture(|_, _| 100), &picture(|_, _| 120)), (24_000.0 + 6.5025) / (24_400.0 + 6.5025));
    }

    #[test]
    fn a_pattern_and_its_opposite_by_hand() {
        let stripes = |x: usize, _: usize| if x.is_multiple_of(2) { 90 } else { 110 };
        let opposite = |x: usize, _: usize| if x.is_multiple_of(2) { 110 } else { 90 };
        // Means 100, variances 64 * 10² / 63 each, covariance the negative of that.
        let variance = 6_400.0 / 63.0;
        close(
            ssim_luma(&picture(stripes), &picture(opposite)),
            (58.5225 - 2.0 * variance) / (58.5225 + 2.0 * variance),
        );
        // Half the contrast: variance a quarter, covariance half.
        let pale = |x: usize, _: usize| if x.is_multiple_of(2) { 95 } else { 105 };
        close(ssim_luma(&picture(stripes), &picture(pale)), (variance + 58.5225) / (1.25 * variance + 58.5225));
    }

    #[test]
    fn windows_overlap_by_half() {
        // 12x8: two windows. The first is equal, the second differs in its right half.
        let mut a = Yuv::new(12, 8);
        a.planes_mut().0.fill(100);
        let mut b = a.clone();
        b.planes_mut().0.iter_mut().enumerate().filter(|(n, _)| n % 12 >= 8).for_each(|(_, y)| *y = 120);
        // Means 100 and 110; variance of the second 64 * 10² / 63, covariance 0.
        let second = (22_000.0 + 6.5025) * 58.5225 / ((22_100.0 + 6.5025) * (6_400.0 / 63.0 + 58.5225));
        close(ssim_luma(&a, &b), (1.0 + second) / 2.0);
    }

    #[test]
    fn other_sizes_are_not_compared() {
        assert_eq!(ssim_luma(&Yuv::new(8, 8), &Yuv::new(8, 16)), None);
        assert_eq!(ssim_luma(&Yuv::new(6, 8), &Yuv::new(6, 8)), None);
    }
}
