//! The landscape: what a camera in the nose of an aircraft would see.
//!
//! Everything follows from the number of the frame, in integer arithmetic, so the picture is the same on every machine and any frame can be
//! made without those before it. The ground is a texture seen in perspective over which the aircraft flies ahead, sways and rolls: all of
//! the picture moves and much of it is fine detail, so that an encoder has to work as it would for a real camera.

use super::number::{MIN_HEIGHT, MIN_WIDTH, write_frame_number};
use super::picture::Yuv;

/// Texture pixels across; a power of two, so that it repeats by masking.
const TEXTURE: usize = 512;
const MASK: i32 = TEXTURE as i32 - 1;
/// Sizes in which the texture is kept.
const LEVELS: usize = 6;
/// Fractional bits of positions on the ground and of lines of the picture.
const FRACTION: i32 = 8;
/// Height of the camera over the ground, in texture pixels times the focal length in lines.
const HEIGHT: i32 = 24_000;
/// Distance flown in a frame, in texture pixels.
const SPEED: i32 = 3;
/// Frames of a full roll to both sides and back, and of a sway.
const ROLL_PERIOD: u32 = 240;
const SWAY_PERIOD: u32 = 410;
/// Steepest roll as a slope of the horizon, of 256.
const ROLL: i32 = 46;
/// Furthest sway off the road, in texture pixels.
const SWAY: i32 = 90;
/// Half the width of the road, and of its centre line.
const ROAD: i32 = 26;
const CENTRE_LINE: i32 = 2;
/// Length of a dash and its gap.
const DASH: i32 = 64;
/// Luma of the haze into which the distance fades.
const HAZE: i32 = 168;

/// Renders the landscape.
#[derive(Debug)]
pub struct Scene {
    width: usize,
    height: usize,
    /// Luma of the ground, `TEXTURE` squared, and the same at half the size, and so on: far away the coarser ones are used, as a lens would
    /// blur them.
    detail: Vec<Vec<u8>>,
    /// What kind of field lies there: 0 to 3.
    fields: Vec<u8>,
    /// For each distance below the horizon, in half lines.
    depths: Vec<Depth>,
}

impl Scene {
    /// Width and height of the usual picture.
    pub const DEFAULT_SIZE: (usize, usize) = (640, 360);
    /// Frames a second for which the speed of the flight is meant.
    pub const FRAME_RATE: u32 = 30;

    /// A landscape for pictures of this size; rounded up to even numbers, and to 272x48 at least, which the frame number needs.
    pub fn new(width: usize, height: usize) -> Self {
        let (width, height) = (width.max(MIN_WIDTH).next_multiple_of(2), height.max(MIN_HEIGHT).next_multiple_of(2));
        // The furthest from the horizon that a corner can be, with the picture rolled.
        let reach = height + width * ROLL as usize / 512 + 2;
        Self {
            width,
            height,
            detail: mipmaps(detail()),
            fields: fields(),
            depths: (0..reach * 2).map(Depth::at).collect(),
        }
    }

    /// The picture with that number (which it carries modulo 2²⁴, see [`read_frame_number`](super::read_frame_number)).
    pub fn render(&self, number: u32) -> Yuv {
        let mut picture = Yuv::new(self.width, self.height);
        self.render_into(number, &mut picture);
        picture
    }

    /// As [`Scene::render`], into a picture that is already there; one of another size is replaced.
    pub fn render_into(&self, number: u32, picture: &mut Yuv) {
        if (picture.width(), picture.height()) != (self.width, self.height) {
            *picture = Yuv::new(self.width, self.height);
        }
        let view = View::of(number, self);
        let (y, u, v) = picture.planes_mut();
        for (line, row) in y.chunks_exact_mut(self.width).enumerate() {
            self.luma_row(view, line as i32, row);
        }
        let half = self.width / 2;
        for (line, (u, v)) in u.chunks_exact_mut(half).zip(v.chunks_exact_mut(half)).enumerate() {
            self.chroma_row(view, line as i32 * 2, u, v);
        }
        write_frame_number(picture, number);
    }

    fn luma_row(&self, view: View, line: i32, row: &mut [u8]) {
        for (column, pixel) in row.iter_mut().enumerate() {
            let (across, below) = view.turned(column as i32, line);
            let luma = if below <= 0 { sky(below) } else { self.ground(view, across, below) };
            *pixel = luma as u8;
        }
    }

    fn chroma_row(&self, view: View, line: i32, u: &mut [u8], v: &mut [u8]) {
        for (column, (u, v)) in u.iter_mut().zip(v).enumerate() {
            let (across, below) = view.turned(column as i32 * 2, line);
            let colour = if below <= 0 { SKY } else { self.ground_colour(view, across, below) };
            (*u, *v) = colour;
        }
    }

    fn ground(&self, view: View, across: i32, below: i32) -> i32 {
        let depth = self.depths[(below >> (FRACTION - 1)) as usize];
        let (x, z) = view.on_ground(across, depth.texels);
        let luma = match Surface::at(x, z) {
            Surface::Marking => 220,
            Surface::Road => 90 + self.detail(depth.level, x, z) / 12,
            Surface::Field => {
                let field = i32::from(self.fields[texel(x >> 1, z >> 1, 0)]);
                30 + field * 14 + self.detail(depth.level, x, z) * 7 / 16
            }
        };
        HAZE + (luma - HAZE) * depth.clear / 256
    }

    fn ground_colour(&self, view: View, across: i32, below: i32) -> (u8, u8) {
        let depth = self.depths[(below >> (FRACTION - 1)) as usize];
        let (x, z) = view.on_ground(across, depth.texels);
        let (u, v) = match Surface::at(x, z) {
            Surface::Marking | Surface::Road => (128, 128),
            Surface::Field => FIELD_COLOURS[usize::from(self.fields[texel(x >> 1, z >> 1, 0)])],
        };
        let faded = |colour: i32| (128 + (colour - 128) * depth.clear / 256) as u8;
        (faded(u), faded(v))
    }

    fn detail(&self, level: usize, x: i32, z: i32) -> i32 {
        self.detail[level][texel(x, z, level)].into()
    }
}

impl Default for Scene {
    fn default() -> Self {
        Self::new(Self::DEFAULT_SIZE.0, Self::DEFAULT_SIZE.1)
    }
}

/// Colour of the sky and of the four kinds of field: meadow, wood, ploughed land, corn.
const SKY: (u8, u8) = (146, 116);
const FIELD_COLOURS: [(i32, i32); 4] = [(104, 116), (112, 110), (112, 144), (94, 138)];

/// Where the camera is and how it is held.
#[derive(Debug, Clone, Copy)]
struct View {
    /// Slope of the horizon, of 256.
    slope: i32,
    /// Middle of the picture, and line of the horizon there.
    centre: i32,
    horizon: i32,
    /// Position on the ground, in texture pixels.
    x: i32,
    z: i32,
}

impl View {
    fn of(number: u32, scene: &Scene) -> Self {
        Self {
            slope: ROLL * wave(number, ROLL_PERIOD) / 256,
            centre: scene.width as i32 / 2,
            horizon: scene.height as i32 * 2 / 5,
            x: SWAY * wave(number, SWAY_PERIOD) / 256,
            // The texture repeats, so only the position within it and within the dashes counts.
            z: (number as i64 * i64::from(SPEED) % (TEXTURE as i64 * 64)) as i32,
        }
    }

    /// Distance to the right of the middle and below the horizon, with the roll taken out, in lines with `FRACTION` bits.
    fn turned(self, column: i32, line: i32) -> (i32, i32) {
        let (dx, dy) = (column - self.centre, line - self.horizon);
        ((dx << FRACTION) + dy * self.slope, (dy << FRACTION) - dx * self.slope)
    }

    /// The place on the ground that is seen there, in texture pixels.
    fn on_ground(self, across: i32, depth: i32) -> (i32, i32) {
        let x = self.x + ((i64::from(across) * i64::from(depth)) >> (FRACTION + 7)) as i32;
        (x, self.z + depth)
    }
}

enum Surface {
    Marking,
    Road,
    Field,
}

impl Surface {
    fn at(x: i32, z: i32) -> Self {
        if x.abs() > ROAD {
            Self::Field
        } else if x.abs() <= CENTRE_LINE && z.rem_euclid(DASH * 2) < DASH {
            Self::Marking
        } else {
            Self::Road
        }
    }
}

/// The ground at some distance below the horizon.
#[derive(Debug, Clone, Copy)]
struct Depth {
    /// How far away it is, in texture pixels.
    texels: i32,
    /// How much of it the haze leaves, of 256.
    clear: i32,
    /// Which size of the texture looks right there.
    level: usize,
}

impl Depth {
    fn at(half_lines: usize) -> Self {
        let texels = HEIGHT * 2 / (half_lines as i32 + 8);
        let level = (texels / 96).checked_ilog2().map_or(0, |log| log as usize + 1).min(LEVELS - 1);
        Self { texels, clear: 256 - (texels / 14).min(236), level }
    }
}

/// Brighter towards the horizon.
fn sky(below: i32) -> i32 {
    let above = (-below >> FRACTION).min(200);
    (190 - above * 70 / 200).max(100)
}

/// Index into the texture at a level; the position is that at level 0.
fn texel(x: i32, z: i32, level: usize) -> usize {
    (((z & MASK) as usize) >> level) * (TEXTURE >> level) + (((x & MASK) as usize) >> level)
}

/// A smooth wave from -256 to 256: two parabolas, which need no table and no floating point.
fn wave(number: u32, period: u32) -> i32 {
    let phase = (number % period) as i32 * 1024 / period as i32; // 0 to 1023
    let half = phase % 512 - 256; // -256 to 255 in each half
    let arch = 256 - half * half / 256;
    if phase < 512 { arch } else { -arch }
}

/// Rough ground: noise of four scales added up.
fn detail() -> Vec<u8> {
    let layers = [(4, 90, 1), (16, 70, 2), (64, 50, 3), (2, 45, 4)];
    (0..TEXTURE * TEXTURE)
        .map(|n| {
            let (x, z) = ((n % TEXTURE) as u32, (n / TEXTURE) as u32);
            layers.iter().map(|(cell, weight, seed)| smooth(x, z, *cell, *seed) * weight / 256).sum::<u32>().min(255)
                as u8
        })
        .collect()
}

/// The texture at full size, half the size, and so on.
fn mipmaps(full: Vec<u8>) -> Vec<Vec<u8>> {
    let halved = |n: usize, level: &[u8]| -> Vec<u8> {
        let size = TEXTURE >> n;
        let mean = |i: usize| {
            let corner = i / size * 2 * (size * 2) + i % size * 2;
            let four = [corner, corner + 1, corner + size * 2, corner + size * 2 + 1];
            (four.iter().map(|at| u32::from(level[*at])).sum::<u32>() / 4) as u8
        };
        (0..size * size).map(mean).collect()
    };
    let mut levels = vec![full];
    for n in 1..LEVELS {
        levels.push(halved(n, &levels[n - 1]));
    }
    levels
}

/// Patches of land, with straight borders.
fn fields() -> Vec<u8> {
    (0..TEXTURE * TEXTURE)
        .map(|n| {
            let (x, z) = ((n % TEXTURE) as u32, (n / TEXTURE) as u32);
            (hash(x / 64 + ((z / 64) & 1) * 37, z / 64, 9) & 3) as u8
        })
        .collect()
}

/// Noise, 0 to 255, that runs smoothly between random values at the corners of cells; repeats with the texture.
fn smooth(x: u32, z: u32, cell: u32, seed: u32) -> u32 {
    let cells = TEXTURE as u32 / cell;
    let corner = |i: u32, j: u32| hash((x / cell + i) % cells, (z / cell + j) % cells, seed) & 0xFF;
    let (fx, fz) = (x % cell * 256 / cell, z % cell * 256 / cell);
    let near = corner(0, 0) * (256 - fx) + corner(1, 0) * fx;
    let far = corner(0, 1) * (256 - fx) + corner(1, 1) * fx;
    (near / 256 * (256 - fz) + far / 256 * fz) / 256
}

/// Mixes three small numbers to one that looks random.
fn hash(x: u32, z: u32, seed: u32) -> u32 {
    let mut h = x.wrapping_mul(0x9E37_79B1) ^ z.wrapping_mul(0x85EB_CA77) ^ seed.wrapping_mul(0xC2B2_AE3D);
    h ^= h >> 15;
    h = h.wrapping_mul(0x2C1B_3C6D);
    h ^= h >> 12;
    h = h.wrapping_mul(0x297A_2D39);
    h ^ h >> 15
}

#[cfg(test)]
mod tests {
    use super::super::number::read_frame_number;
    use super::super::picture::psnr_luma_db;
    use super::*;

    #[test]
    fn a_picture_follows_from_its_number() {
        let scene = Scene::default();
        let mut reused = scene.render(7);
        scene.render_into(1_000, &mut reused);
        assert!(reused == scene.render(1_000));
        assert_eq!(read_frame_number(&reused), Some(1_000));
    }

    #[test]
    fn every_picture_differs_from_the_one_before() {
        let scene = Scene::default();
        for number in [0, 59, 120, 500, 1 << 23] {
            let psnr = psnr_luma_db(&scene.render(number), &scene.render(number + 1)).unwrap();
            assert!((10.0..30.0).contains(&psnr), "{psnr} dB between {number} and the next");
        }
    }

    #[test]
    fn any_size_and_any_number_can_be_rendered() {
        for (width, height) in [(1, 1), (272, 48), (1_920, 1_080), (321, 2_000)] {
            let scene = Scene::new(width, height);
            for number in [0, 60, 180, u32::MAX] {
                let picture = scene.render(number);
                assert!(picture.width() >= width && picture.height() >= height);
                assert_eq!(read_frame_number(&picture), Some(number % (1 << 24)));
            }
        }
    }

    #[test]
    fn values_keep_within_the_limited_range() {
        let scene = Scene::default();
        for number in (0..2_000).step_by(97) {
            let picture = scene.render(number);
            assert!(picture.y().iter().all(|y| (16..=235).contains(y)));
            assert!(picture.u().iter().chain(picture.v()).all(|c| (16..=240).contains(c)));
        }
    }

    #[test]
    fn the_wave_is_even_and_within_its_bounds() {
        let values: Vec<i32> = (0..240).map(|n| wave(n, 240)).collect();
        assert_eq!((values[0], values[60], values[120], values[180]), (0, 256, 0, -256));
        assert!(values.windows(2).all(|pair| (pair[0] - pair[1]).abs() < 20));
    }
}
