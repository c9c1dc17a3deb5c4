//! A picture in memory, and how much two differ.

/// A picture in I420: full-resolution luma, then two chroma planes of half the width and height. No padding between lines.
///
/// Values are of limited range: black is 16, white 235, no colour 128.
#[derive(Clone, PartialEq, Eq)]
pub struct Yuv {
    width: usize,
    height: usize,
    y: Vec<u8>,
    u: Vec<u8>,
    v: Vec<u8>,
}

impl Yuv {
    /// A black picture. Odd sizes are rounded up to even ones.
    pub fn new(width: usize, height: usize) -> Self {
        let (width, height) = (width.next_multiple_of(2), height.next_multiple_of(2));
        let luma = width * height;
        Self { width, height, y: vec![16; luma], u: vec![128; luma / 4], v: vec![128; luma / 4] }
    }

    /// Pixels in a line; even.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Lines; even.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Luma, `width * height` bytes, line by line.
    pub fn y(&self) -> &[u8] {
        &self.y
    }

    /// First chroma plane (Cb), a quarter of the bytes of luma.
    pub fn u(&self) -> &[u8] {
        &self.u
    }

    /// Second chroma plane (Cr), a quarter of the bytes of luma.
    pub fn v(&self) -> &[u8] {
        &self.v
    }

    /// The three planes, to be written.
    pub(crate) fn planes_mut(&mut self) -> (&mut [u8], &mut [u8], &mut [u8]) {
        (&mut self.y, &mut self.u, &mut self.v)
    }
}

impl std::fmt::Debug for Yuv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Yuv({}x{})", self.width, self.height)
    }
}

/// Peak signal-to-noise ratio of luma in decibels, the larger the more alike: above 40 differences are hard to see, below 25 they disturb.
///
/// Infinite for equal pictures; `None` when their sizes differ.
pub fn psnr_luma_db(a: &Yuv, b: &Yuv) -> Option<f64> {
    if (a.width, a.height) != (b.width, b.height) || a.y.is_empty() {
        return None;
    }
    let squares = a.y.iter().zip(&b.y).map(|(a, b)| u64::from(a.abs_diff(*b)).pow(2));
    let mean = squares.sum::<u64>() as f64 / a.y.len() as f64;
    Some(10.0 * (255.0 * 255.0 / mean).log10())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psnr_of_known_differences() {
        let a = Yuv::new(64, 48);
        let mut b = a.clone();
        assert_eq!(psnr_luma_db(&a, &b), Some(f64::INFINITY));
        b.y.iter_mut().for_each(|y| *y += 1);
        // A mean square error of 1: 20 log10 255.
        assert!((psnr_luma_db(&a, &b).unwrap() - 48.130_8).abs() < 1e-4);
        b.y.iter_mut().for_each(|y| *y += 9);
        assert!((psnr_luma_db(&a, &b).unwrap() - 28.130_8).abs() < 1e-4);
        assert_eq!(psnr_luma_db(&a, &Yuv::new(48, 64)), None);
    }

    #[test]
    fn odd_sizes_are_rounded_up() {
        let picture = Yuv::new(63, 47);
        assert_eq!((picture.width(), picture.height(), picture.u().len()), (64, 48, 32 * 24));
    }
}
