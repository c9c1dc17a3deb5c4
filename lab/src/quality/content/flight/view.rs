//! From the country to a picture: a level view, larger than the picture, which is then rolled and blurred.

use crate::camera::Yuv;

use super::hash;
use super::path::{Pose, Shutter};
use super::terrain::{LEVELS, Terrain};

/// Focal length as a share of the picture's width: a view of about 80 degrees.
const FOCAL: f32 = 0.6;
/// Metres at which the view begins and ends.
const NEAREST: f32 = 6.0;
const FURTHEST: f32 = 420.0;
/// Attitudes that are added up while the shutter is open.
const EXPOSURES: usize = 3;
/// Columns that are drawn at a time: then a line of the cache is written at once, not byte by byte.
const STRIP: usize = 16;
/// The haze into which the distance fades, and the sky's colour.
const HAZE: f32 = 176.0;
const SKY: (u8, u8) = (140, 120);

/// A level view, line by line.
#[derive(Debug)]
pub struct Canvas {
    columns: usize,
    rows: usize,
    focal: f32,
    /// Pixels from the top to the horizon.
    horizon: f32,
    /// Distances that are looked at in each column, near to far, and the size of the country that suits each.
    steps: Vec<(f32, usize)>,
    luma: Vec<u8>,
    chroma: Vec<(u8, u8)>,
}

impl Canvas {
    /// The view from the middle of the shutter's time, `ground` metres being the height of the ground below.
    pub fn render(terrain: &Terrain, shutter: &Shutter, ground: f32, width: usize, height: usize) -> Self {
        let pose = shutter.middle;
        let focal = width as f32 * FOCAL;
        // Large enough for the picture's corners, rolled, with some room for the shake.
        let (cosine, sine) = (pose.roll.0, pose.roll.1.abs() + 0.02);
        let columns = (width as f32 * cosine + height as f32 * sine) as usize + 48;
        let rows = (height as f32 * cosine + width as f32 * sine) as usize + 48;
        // The picture's middle is at the canvas' middle.
        let horizon = rows as f32 / 2.0 - pose.pitch * focal;
        // Steps grow with the distance, so that each is about as large in the picture.
        let growth = 1.0 + 2.4 / focal;
        let distances = std::iter::successors(Some(NEAREST), |distance| Some(distance * growth));
        let near = distances.take_while(|distance| *distance < FURTHEST);
        let steps = near.map(|distance| (distance, level(distance, focal))).collect();
        let mut canvas = Self {
            columns,
            rows,
            focal,
            horizon,
            steps,
            luma: vec![0; columns * rows],
            chroma: vec![SKY; columns * rows],
        };
        let eye = ground + pose.above;
        // A few columns at a time, each of its own, then all of them into the lines.
        let sky: Vec<u8> = (0..rows).map(|row| sky(horizon - row as f32)).collect();
        for first in (0..columns).step_by(STRIP) {
            let strip = first..columns.min(first + STRIP);
            let drawn: Vec<Column> = strip
                .map(|column| {
                    let mut drawn = Column { luma: sky.clone(), chroma: vec![SKY; rows] };
                    canvas.look_along(terrain, &pose, eye, column, &mut drawn);
                    drawn
                })
                .collect();
            for row in 0..rows {
                for (column, drawn) in (row * columns + first..).zip(&drawn) {
                    (canvas.luma[column], canvas.chroma[column]) = (drawn.luma[row], drawn.chroma[row]);
                }
            }
        }
        canvas
    }

    /// One column, near to far: what is further is only seen above what is nearer.
    fn look_along(&self, terrain: &Terrain, pose: &Pose, eye: f32, column: usize, drawn: &mut Column) {
        let across = (column as f32 - self.columns as f32 / 2.0) / self.focal + pose.side;
        let (cosine, sine) = pose.ahead;
        let (east, north) = (sine + across * cosine, cosine - across * sine);
        let mut top = self.rows;
        for &(distance, level) in &self.steps {
            let (x, z) = (pose.x + east * distance, pose.z + north * distance);
            let cell = terrain.cell(level, x, z);
            let line = self.horizon + (eye - cell.height) * self.focal / distance;
            let line = if line <= 0.0 { 0 } else { line as usize };
            if line < top {
                let clear = clearness(distance);
                let shown = |luma: f32| (HAZE + (luma - HAZE) * clear) as u8;
                let faded = |colour: u8| (128.0 + (f32::from(colour) - 128.0) * clear) as u8;
                drawn.chroma[line..top].fill((faded(cell.u), faded(cell.v)));
                // Upright sides have leaves of their own, fixed to the tree and not to the picture.
                let is_upright = top - line > 3;
                for (row, luma) in (line..).zip(&mut drawn.luma[line..top]) {
                    let leaf = if is_upright {
                        let above = ((self.horizon - row as f32) * distance / self.focal * 5.0) as i32;
                        let luck = hash((x * 4.0) as i32 as u32 ^ above as u32, (z * 4.0) as i32 as u32, 0x1EAF) & 0xFF;
                        (luck as f32 / 255.0 - 0.5) * f32::from(cell.leaves)
                    } else {
                        0.0
                    };
                    *luma = shown((f32::from(cell.y) + leaf).max(18.0));
                }
                top = line;
            }
        }
    }

    /// The picture: rolled and shifted by each of the attitudes while the shutter is open, and the mean of all.
    pub fn expose(&self, shutter: &Shutter, picture: &mut Yuv) {
        let (width, height) = (picture.width(), picture.height());
        let turns: Vec<Turn> = (0..EXPOSURES)
            .map(|n| {
                let share = n as f32 / (EXPOSURES - 1) as f32;
                Turn::new(self, shutter, share)
            })
            .collect();
        let (y, u, v) = picture.planes_mut();
        for (line, row) in y.chunks_exact_mut(width).enumerate() {
            let starts: Vec<(i32, i32)> = turns.iter().map(|turn| turn.start(width, height, line)).collect();
            for (column, pixel) in row.iter_mut().enumerate() {
                let sum: u32 =
                    turns.iter().zip(&starts).map(|(turn, start)| self.sample(turn.at(*start, column))).sum();
                *pixel = ((sum / EXPOSURES as u32) >> 8).clamp(16, 235) as u8;
            }
        }
        let half = width / 2;
        let turn = &turns[EXPOSURES / 2];
        for (line, (u, v)) in u.chunks_exact_mut(half).zip(v.chunks_exact_mut(half)).enumerate() {
            let start = turn.start(width, height, line * 2);
            for (column, (u, v)) in u.iter_mut().zip(v).enumerate() {
                let (x, y) = turn.at(start, column * 2);
                (*u, *v) = self.chroma[self.index(x >> 16, y >> 16)];
            }
        }
    }

    /// Luma between four pixels, times 256.
    #[inline]
    fn sample(&self, (x, y): (i32, i32)) -> u32 {
        let (column, row) = (x >> 16, y >> 16);
        let (fx, fy) = ((x >> 8 & 0xFF) as u32, (y >> 8 & 0xFF) as u32);
        let at = self.index(column, row);
        let [a, b, c, d] = [at, at + 1, at + self.columns, at + self.columns + 1].map(|at| u32::from(self.luma[at]));
        let (above, below) = (a * (256 - fx) + b * fx, c * (256 - fx) + d * fx);
        (above * (256 - fy) + below * fy) >> 8
    }

    /// Index of a pixel that has neighbours to the right and below.
    #[inline]
    fn index(&self, column: i32, row: i32) -> usize {
        let column = column.clamp(0, self.columns as i32 - 2) as usize;
        let row = row.clamp(0, self.rows as i32 - 2) as usize;
        row * self.columns + column
    }
}

/// A column of the view, from top to bottom.
struct Column {
    luma: Vec<u8>,
    chroma: Vec<(u8, u8)>,
}

/// How the picture lies on the canvas at one instant, in 1/65,536 pixel.
struct Turn {
    cosine: i32,
    sine: i32,
    middle: (i32, i32),
}

impl Turn {
    fn new(canvas: &Canvas, shutter: &Shutter, share: f32) -> Self {
        let between = |value: fn(&Pose) -> f32| {
            let (from, to) = (value(&shutter.opens), value(&shutter.closes));
            from + (to - from) * share
        };
        let fixed = |value: f32| (value * 65_536.0) as i32;
        let middle = shutter.middle;
        // What turns to the right shows what is further to the right.
        let heading = |pose: &Pose| pose.ahead.1 / pose.ahead.0 + pose.side;
        let aside = between(heading) - heading(&middle);
        let down = between(|pose| pose.pitch) - middle.pitch;
        Self {
            cosine: fixed(between(|pose| pose.roll.0)),
            sine: fixed(between(|pose| pose.roll.1)),
            middle: (
                fixed(canvas.columns as f32 / 2.0 + aside * canvas.focal),
                fixed(canvas.rows as f32 / 2.0 + down * canvas.focal),
            ),
        }
    }

    /// Where the first pixel of a line lies.
    fn start(&self, width: usize, height: usize, line: usize) -> (i32, i32) {
        let (dx, dy) = (-(width as i32 / 2), line as i32 - height as i32 / 2);
        (self.middle.0 + dx * self.cosine - dy * self.sine, self.middle.1 + dx * self.sine + dy * self.cosine)
    }

    #[inline]
    fn at(&self, start: (i32, i32), column: usize) -> (i32, i32) {
        (start.0 + column as i32 * self.cosine, start.1 + column as i32 * self.sine)
    }
}

/// Luma of the sky so many pixels above the horizon: brighter towards it.
fn sky(above: f32) -> u8 {
    (190.0 - (above * 0.12).clamp(0.0, 60.0)) as u8
}

/// Which size of the country has cells of about a pixel's size at a distance.
fn level(distance: f32, focal: f32) -> usize {
    let cells = distance / focal * 4.0;
    (0..LEVELS - 1).find(|level| cells < (1 << level) as f32).unwrap_or(LEVELS - 1)
}

/// Share of a thing's own colour that the haze leaves.
fn clearness(distance: f32) -> f32 {
    1.0 / (1.0 + distance * distance * 9e-6)
}
